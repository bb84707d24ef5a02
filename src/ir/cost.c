// SPDX-License-Identifier: Apache-2.0
// Rules: xla/service/hlo_cost_analysis.cc; docs/cost.md says where and why they are not followed.
#include "ir/cost.h"

#include <math.h>
#include <string.h>

#include "base/idmap.h"
#include "ir/region.h"

double cost_product_flop(const struct cost *c)
{
    double sum = 0;
    for (int t = 0; t < DT_COUNT; t++)
        sum += c->product_flop[t];
    return sum;
}

void cost_add(struct cost *to, const struct cost *c)
{
    for (int t = 0; t < DT_COUNT; t++)
        to->product_flop[t] += c->product_flop[t];
    to->element_flop += c->element_flop;
    to->transcendentals += c->transcendentals;
    to->bytes_unfused += c->bytes_unfused;
    to->bytes += c->bytes;
    to->bytes_merged += c->bytes_merged;
    to->weight_bytes += c->weight_bytes;
    to->weight_excess += c->weight_excess;
}

void cost_scale(struct cost *c, double times)
{
    for (int t = 0; t < DT_COUNT; t++)
        c->product_flop[t] *= times;
    double *const sums[] = {&c->element_flop, &c->transcendentals, &c->bytes_unfused, &c->bytes,
                            &c->bytes_merged, &c->weight_bytes,    &c->weight_excess};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        *sums[i] *= times;
}

// Names data that is there already, or that a compiler never stores.
static bool is_view(enum opcode op)
{
    return op == OP_PARAMETER || op == OP_CONSTANT || op == OP_RESHAPE || op == OP_BITCAST_CONVERT ||
           op == OP_REGION_PARAMETER || op == OP_ELEMENT || op == OP_WHILE || op == OP_CASE;
}

// What a loop or a branch hands on was written inside it.
static bool is_handed_on(const struct module *m, const struct instruction *in)
{
    const struct instruction *many = in->op == OP_ELEMENT ? &m->instructions[in->operands[0]] : NULL;
    return in->op == OP_PARAMETER || in->op == OP_REGION_PARAMETER ||
           (many && (many->op == OP_WHILE || many->op == OP_CASE));
}

static bool is_free_source(const struct module *m, int i)
{
    enum opcode op = m->instructions[i].op;
    if (op == OP_CONSTANT || op == OP_IOTA)
        return true;
    return (op == OP_BROADCAST || op == OP_RESHAPE) && is_free_source(m, m->instructions[i].operands[0]);
}

static double read_bytes(const struct module *m, const struct instruction *in, int k)
{
    const struct shape *x = &m->instructions[in->operands[k]].shape;
    bool update = in->op == OP_DYNAMIC_UPDATE_SLICE || in->op == OP_SCATTER; // in place
    if (is_free_source(m, in->operands[k]) || (in->op == OP_DYNAMIC_UPDATE_SLICE && k == 0))
        return 0;
    bool part = k == 0 && (in->op == OP_SLICE || in->op == OP_DYNAMIC_SLICE || in->op == OP_GATHER ||
                           in->op == OP_GATHER_WINDOWS);
    if (update && k == 0)
        x = &m->instructions[in->operands[2]].shape;   // what the updates join
    return (double)shape_bytes(part ? &in->shape : x); // only what is taken
}

static double write_bytes(const struct module *m, const struct instruction *in)
{
    struct shape result;
    double bytes = 0;
    int n = module_n_results(m, in);
    if (in->op == OP_DYNAMIC_UPDATE_SLICE || in->op == OP_SCATTER)
        return (double)shape_bytes(&m->instructions[in->operands[in->op == OP_SCATTER ? 2 : 1]].shape);
    for (int k = 0; k < n && module_result_shape(m, in, k, &result); k++)
        bytes += (double)shape_bytes(&result);
    return n ? bytes : (double)shape_bytes(&in->shape);
}

// Elements of a kernel per output channel; of an input with holes those that meet no hole, on average.
static double kernel_taps(const struct instruction *in, const struct shape *kernel)
{
    const struct convolution *c = in->convolution;
    int64_t channels = kernel->dims[c ? c->kernel[0] : 0];
    double taps = channels ? (double)shape_elements(kernel) / (double)channels : 0;
    for (int i = 0; c && i < in->n_a; i++)
        taps /= (double)c->base_dilation[i];
    return taps;
}

// Reductions per window.
static double window_flop(const struct instruction *in, int rank)
{
    double elements = 1;
    for (int i = 0; i < rank; i++)
        elements *= (double)in->window[i].size;
    return elements - 1;
}

// Windows that a select-and-scatter looks at: one per element of its source.
static double window_count(const struct module *m, const struct instruction *in)
{
    return (double)shape_elements(&m->instructions[in->operands[1]].shape);
}

void cost_instruction(const struct module *m, int i, struct cost *out)
{
    const struct instruction *in = &m->instructions[i];
    double elements = (double)shape_elements(&in->shape);
    memset(out, 0, sizeof *out);
    if (is_view(in->op) || is_free_source(m, i))
        return;
    const struct shape *x = in->n_operands ? &m->instructions[in->operands[0]].shape : NULL;
    switch (op_info(in->op)->cost) {
    case COST_NONE:
        break;
    case COST_ELEMENT:
        out->element_flop = elements;
        break;
    case COST_TRANSCENDENTAL:
        out->transcendentals = elements;
        break;
    case COST_DOT: {
        double flop = 2 * elements;
        for (int k = 0; x && k < in->dot.n_contract; k++)
            flop *= (double)x->dims[in->dot.lhs_contract[k]];
        out->product_flop[x ? x->dtype : in->shape.dtype] = flop;
        break;
    }
    case COST_CONVOLUTION: {
        const struct shape *kernel = &m->instructions[in->operands[1]].shape;
        out->product_flop[kernel->dtype] = 2 * elements * kernel_taps(in, kernel);
        break;
    }
    case COST_KERNEL:
        out->product_flop[in->kernel->product_type] = in->kernel->product_flop;
        out->element_flop = in->kernel->element_flop;
        out->transcendentals = in->kernel->transcendentals;
        break;
    case COST_REDUCE: // nothing where there is nothing to reduce
        out->element_flop = x ? (double)shape_elements(x) - elements : 0;
        out->element_flop = out->element_flop > 0 ? out->element_flop : 0;
        break;
    case COST_WINDOW:
        out->element_flop = in->op == OP_SELECT_SCATTER && x ? window_flop(in, x->rank) * window_count(m, in)
                                                             : elements * (x ? window_flop(in, x->rank) : 0);
        break;
    case COST_SCATTER:
        out->element_flop =
            in->reducer == OP_PARAMETER ? 0 : (double)shape_elements(&m->instructions[in->operands[2]].shape);
        break;
    case COST_SORT: {
        double n = x ? (double)shape_elements(x) : 0;
        out->element_flop = n > 1 ? n * ceil(log2(n)) : 0;
        break;
    }
    }
    if (module_is_scalar_region(m, in->region))
        return; // registers
    for (int k = 0; k < in->n_operands; k++)
        out->bytes_unfused += read_bytes(m, in, k);
    out->bytes_unfused += write_bytes(m, in);
    out->bytes = out->bytes_merged = out->bytes_unfused;
}

// Through views, to the value whose bytes are read.
static int origin(const struct module *m, int i)
{
    while (m->instructions[i].op == OP_RESHAPE || m->instructions[i].op == OP_BITCAST_CONVERT ||
           (m->instructions[i].op == OP_ELEMENT && !is_handed_on(m, &m->instructions[i])))
        i = m->instructions[i].operands[0];
    return i;
}

// Traffic of fused scopes, by instruction in the order of their scopes.
struct traffic {
    const struct module *m;
    struct cost_row *rows;
    int *order;       // instructions, those of one scope together, else as they come
    int *scope;       // of an instruction
    const int *group; // row of an instruction, -1 for parameters
    int *seen;        // of a value: the last scope that read some of it, -1 for none,
    double *read;     // and how many bytes
    bool *written;    // left its scope
    bool *product;    // of a scope: has one
    double *runs;     // of a region
};

// Different texts, numbered in the order they come.
struct names {
    const char **text;
    int n, *slots; // a hash table of 1 + their numbers; 0: free
    size_t mask;
};

static int names_init(struct names *t, int most, struct arena *a, struct error *err)
{
    size_t size = 16;
    while (size < 2 * (size_t)most)
        size *= 2;
    *t = (struct names){.text = arena_new(a, const char *, most, err), .slots = arena_new(a, int, size, err)};
    t->mask = size - 1;
    return t->text && t->slots ? 0 : ERR_MEMORY;
}

static int names_put(struct names *t, const char *text)
{
    if (t->n && t->text[t->n - 1] == text) // most often the last one, and the very same
        return t->n - 1;
    size_t n = strlen(text), at = (size_t)mix_bytes(process_secret() ^ n, (const uint8_t *)text, n) & t->mask;
    while (t->slots[at] && strcmp(t->text[t->slots[at] - 1], text) != 0)
        at = (at + 1) & t->mask;
    if (!t->slots[at]) {
        t->text[t->n] = text;
        t->slots[at] = ++t->n;
    }
    return t->slots[at] - 1;
}

static bool is_product(const struct instruction *in)
{
    enum op_cost cost = op_info(in->op)->cost;
    return cost == COST_DOT || cost == COST_CONVOLUTION || (in->op == OP_KERNEL && in->kernel->product_flop > 0);
}

static int traffic_init(struct traffic *t, struct arena *a, struct error *err)
{
    struct names scopes;
    int n = t->m->n_instructions, at = 0;
    int *ints = arena_new(a, int, 3 * (size_t)n, err);
    t->read = arena_new(a, double, n, err);
    t->written = arena_new(a, bool, n, err);
    t->product = arena_new(a, bool, n, err);
    if (names_init(&scopes, n, a, err) || !ints || !t->read || !t->written || !t->product)
        return ERR_MEMORY;
    t->order = ints, t->scope = ints + n, t->seen = ints + 2 * n;
    for (int i = 0; i < n; i++) {
        const struct instruction *in = &t->m->instructions[i];
        t->scope[i] = names_put(&scopes, in->scope);
        t->seen[i] = -1;
        t->product[t->scope[i]] |= is_product(in);
    }
    int *end = arena_new(a, int, scopes.n + 1, err); // of each scope's instructions in the order
    if (!end)
        return ERR_MEMORY;
    for (int i = 0; i < n; i++)
        end[t->scope[i]]++;
    for (int s = 0; s < scopes.n; s++)
        at = end[s] += at;
    for (int i = n - 1; i >= 0; i--)
        t->order[--end[t->scope[i]]] = i;
    return 0;
}

// The value leaves the scope that made it; for good when it is a result.
static void leave(struct traffic *t, int value, bool result)
{
    const struct instruction *in = &t->m->instructions[value];
    if (is_handed_on(t->m, in) || is_view(in->op) || t->written[value] || t->group[value] < 0 ||
        module_is_scalar_region(t->m, in->region))
        return;
    t->written[value] = true;
    struct cost *here = &t->rows[t->group[value]].cost;
    double bytes = write_bytes(t->m, in) * t->runs[in->region];
    here->bytes += bytes;
    if (result || t->product[t->scope[value]])
        here->bytes_merged += bytes;
}

// Operand k of instruction i comes into its scope, as far as the scope has not read it before.
// Of a weight's bytes: what goes when each element is a byte. Vectors stay as they are, as do codes.
static double excess_share(const struct shape *s)
{
    int bits = dtype_bits(s->dtype);
    return s->rank > 1 && dtype_is_float(s->dtype) && bits > 8 ? 1 - 8.0 / bits : 0;
}

static void enter(struct traffic *t, int i, int k)
{
    const struct module *m = t->m;
    const struct instruction *in = &m->instructions[i];
    int from = origin(m, in->operands[k]);
    const struct instruction *x = &m->instructions[from];
    bool parameter = x->op == OP_PARAMETER, outside = is_handed_on(m, x) || x->region != in->region;
    if (t->group[i] < 0 || is_free_source(m, from) || (!outside && t->scope[from] == t->scope[i]) ||
        module_is_scalar_region(m, in->region))
        return;
    if (t->seen[from] != t->scope[i]) {
        t->seen[from] = t->scope[i];
        t->read[from] = 0;
    }
    double left = (double)shape_bytes(&x->shape) - t->read[from], bytes = read_bytes(m, in, k);
    bytes = bytes < left ? bytes : left;
    t->read[from] += bytes;
    bytes *= t->runs[in->region];
    struct cost *here = &t->rows[t->group[i]].cost;
    here->bytes += bytes;
    if (outside || t->product[t->scope[i]])
        here->bytes_merged += bytes;
    if (parameter && m->parameters[x->parameter].role == ROLE_WEIGHT) {
        here->weight_bytes += bytes;
        here->weight_excess += bytes * excess_share(&x->shape);
    }
    leave(t, from, false);
}

// A value made in one scope and used in another, or returned, is written once, and read by each scope that uses it: at
// most once, and of what only a slice, a row or an update is taken from, only that.
static int fused_bytes(const struct module *m, struct arena *a, struct cost_row *rows, const int *row, double *runs,
                       struct error *err)
{
    struct traffic t = {.m = m, .rows = rows, .group = row, .runs = runs};
    int rc = traffic_init(&t, a, err);
    if (rc)
        return rc;
    for (int i = 0; i < m->n_results; i++)
        leave(&t, origin(m, m->results[i]), true);
    for (int r = 1; r < m->n_regions; r++) { // what a loop hands on, or a branch returns
        for (int k = 0; k < m->regions[r].n_results; k++)
            leave(&t, origin(m, m->regions[r].results[k]), true);
    }
    for (int j = 0; j < m->n_instructions; j++) {
        const struct instruction *in = &m->instructions[t.order[j]];
        for (int k = 0; k < in->n_operands && !is_view(in->op); k++)
            enter(&t, t.order[j], k);
    }
    return 0;
}

// An empty row per name, in the order of first use, and the row of every instruction: -1 for parameters.
static int name_rows(const struct module *m, bool by_scope, struct arena *a, struct cost_row **out, int *n, int **row,
                     struct error *err)
{
    struct names names;
    *row = arena_new(a, int, m->n_instructions, err);
    if (!*row || names_init(&names, m->n_instructions, a, err))
        return ERR_MEMORY;
    for (int i = 0; i < m->n_instructions; i++) {
        const struct instruction *in = &m->instructions[i];
        (*row)[i] = in->op == OP_PARAMETER ? -1 : names_put(&names, by_scope ? in->scope : in->group);
    }
    *n = names.n;
    *out = arena_new(a, struct cost_row, *n, err);
    for (int r = 0; r < *n && *out; r++)
        (*out)[r].group = names.text[r];
    return *out ? 0 : ERR_MEMORY;
}

static int cost_by(const struct module *m, bool by_scope, struct arena *a, struct cost_row **out, int *n,
                   struct cost *total, struct error *err)
{
    double *runs = NULL;
    int *row = NULL;
    bool bounded;
    int rc = name_rows(m, by_scope, a, out, n, &row, err);
    if (!rc)
        rc = cost_runs(m, a, &runs, &bounded, err);
    if (rc)
        return rc;
    for (int i = 0; i < m->n_instructions; i++) {
        struct cost c;
        if (row[i] < 0)
            continue;
        cost_instruction(m, i, &c);
        c.bytes = c.bytes_merged = 0;
        cost_scale(&c, runs[m->instructions[i].region]);
        cost_add(&(*out)[row[i]].cost, &c);
    }
    rc = fused_bytes(m, a, *out, row, runs, err);
    memset(total, 0, sizeof *total);
    for (int r = 0; r < *n; r++)
        cost_add(total, &(*out)[r].cost);
    return rc;
}

int cost_groups(const struct module *m, struct arena *a, struct cost_row **rows, int *n, struct cost *total,
                struct error *err)
{
    return cost_by(m, false, a, rows, n, total, err);
}

int cost_scopes(const struct module *m, struct arena *a, struct cost_row **rows, int *n, struct cost *total,
                struct error *err)
{
    return cost_by(m, true, a, rows, n, total, err);
}
