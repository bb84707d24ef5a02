// SPDX-License-Identifier: Apache-2.0
// Rules: xla/service/hlo_cost_analysis.cc. Deliberate differences: a reshape is free (XLA counts it as a copy until
// layout assignment makes it a bitcast); element arithmetic on a broadcast constant does not read the broadcast.
#include "ir/cost.h"

#include <string.h>

#include "ir/policy.h"

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
    to->weight_bytes += c->weight_bytes;
}

// Names data that is there already, or that a compiler never stores.
static bool is_view(enum opcode op)
{
    return op == OP_PARAMETER || op == OP_CONSTANT || op == OP_RESHAPE || op == OP_BITCAST_CONVERT;
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
    if (in->op == OP_SLICE || in->op == OP_DYNAMIC_SLICE || in->op == OP_GATHER)
        return k == 0 ? (double)shape_bytes(&in->shape) : (double)shape_bytes(x); // only what is taken
    if (in->op == OP_DYNAMIC_UPDATE_SLICE && k == 0)
        return 0; // updated in place
    return is_free_source(m, in->operands[k]) ? 0 : (double)shape_bytes(x);
}

static double write_bytes(const struct module *m, const struct instruction *in)
{
    if (in->op == OP_DYNAMIC_UPDATE_SLICE)
        return (double)shape_bytes(&m->instructions[in->operands[1]].shape);
    return (double)shape_bytes(&in->shape);
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
    case COST_REDUCE:
        out->element_flop = x ? (double)shape_elements(x) - elements : 0;
        break;
    }
    for (int k = 0; k < in->n_operands; k++)
        out->bytes_unfused += read_bytes(m, in, k);
    out->bytes_unfused += write_bytes(m, in);
    out->bytes = out->bytes_unfused;
}

// Through views, to the value whose bytes are read.
static int origin(const struct module *m, int i)
{
    while (m->instructions[i].op == OP_RESHAPE || m->instructions[i].op == OP_BITCAST_CONVERT)
        i = m->instructions[i].operands[0];
    return i;
}

// Traffic of fused scopes: a value made in one scope and used in another is written once, and read once per scope that
// uses it; a weight is read by each scope that uses it, of a table only the rows.
static int fused_bytes(const struct module *m, struct arena *a, struct cost_row *rows, int n_rows, struct error *err)
{
    const char **reader = arena_new(a, const char *, m->n_instructions, err); // last scope that read the value
    bool *written = arena_new(a, bool, m->n_instructions, err);
    if (!reader || !written)
        return err ? err->code : ERR_MEMORY;
    for (int i = 0; i < m->n_instructions; i++) {
        const struct instruction *in = &m->instructions[i];
        struct cost *here = NULL;
        for (int r = 0; r < n_rows && !here; r++)
            here = strcmp(rows[r].group, in->group) == 0 ? &rows[r].cost : NULL;
        if (!here || is_view(in->op))
            continue;
        for (int k = 0; k < in->n_operands; k++) {
            int from = origin(m, in->operands[k]);
            const struct instruction *x = &m->instructions[from];
            bool parameter = x->op == OP_PARAMETER;
            if (is_free_source(m, from) || (!parameter && strcmp(x->scope, in->scope) == 0))
                continue;
            bool part = k == 0 && (in->op == OP_GATHER || in->op == OP_SLICE || in->op == OP_DYNAMIC_SLICE);
            if (!part && reader[from] && strcmp(reader[from], in->scope) == 0)
                continue;
            reader[from] = in->scope;
            double bytes = part ? read_bytes(m, in, k) : (double)shape_bytes(&x->shape);
            here->bytes += bytes;
            if (parameter && m->parameters[x->parameter].role == ROLE_WEIGHT)
                here->weight_bytes += bytes;
            if (parameter || written[from])
                continue;
            written[from] = true;
            for (int r = 0; r < n_rows; r++) {
                if (strcmp(rows[r].group, x->group) == 0)
                    rows[r].cost.bytes += (double)shape_bytes(&x->shape);
            }
        }
    }
    for (int i = 0; i < m->n_results; i++) {
        const struct instruction *x = &m->instructions[origin(m, m->results[i])];
        for (int r = 0; r < n_rows; r++) {
            if (x->op != OP_PARAMETER && strcmp(rows[r].group, x->group) == 0 && !written[origin(m, m->results[i])])
                rows[r].cost.bytes += (double)shape_bytes(&x->shape);
        }
    }
    return 0;
}

int cost_groups(const struct module *m, struct arena *a, struct cost_row **out, int *n, struct cost *total,
                struct error *err)
{
    const char *groups[256];
    *n = module_groups(m, groups, 256);
    struct cost_row *rows = arena_new(a, struct cost_row, *n, err);
    if (!rows)
        return err ? err->code : ERR_MEMORY;
    for (int r = 0; r < *n; r++)
        rows[r].group = groups[r];
    for (int i = 0; i < m->n_instructions; i++) {
        struct cost c;
        cost_instruction(m, i, &c);
        c.bytes = 0;
        for (int r = 0; r < *n; r++) {
            if (strcmp(rows[r].group, m->instructions[i].group) == 0) {
                cost_add(&rows[r].cost, &c);
                break;
            }
        }
    }
    int rc = fused_bytes(m, a, rows, *n, err);
    memset(total, 0, sizeof *total);
    for (int r = 0; r < *n; r++)
        cost_add(total, &rows[r].cost);
    *out = rows;
    return rc;
}
