// SPDX-License-Identifier: Apache-2.0
#include "plan/sharding.h"

#include <inttypes.h>
#include <string.h>

#include "plan/attention_product.h"
#include "plan/weight_side.h"

enum { MOST_AXES = 5 };

// How a value lies: of each dimension the axes that divide it, outermost first.
struct spec {
    int n[SHAPE_MAX_RANK];
    enum layout_axis axes[SHAPE_MAX_RANK][MOST_AXES];
};

struct maker {
    const struct module *m;
    const struct layout *l;
    struct arena *arena;
    enum layout_axis order[MOST_AXES]; // of the devices
    int64_t batch, tokens;             // of the whole program; tokens 0: it has no attention
    struct layout_limits limits;
    const char **parameters, **results, **values;
    bool weight_divided; // by tp
};

static const struct shape *shape_at(const struct maker *k, int value)
{
    return &k->m->instructions[value].shape;
}

static int64_t ways(const struct maker *k, const struct spec *s, int dim)
{
    int64_t n = 1;
    for (int i = 0; i < s->n[dim]; i++)
        n *= k->l->ways[s->axes[dim][i]];
    return n;
}

static void divide(const struct maker *k, struct spec *s, int dim, enum layout_axis axis)
{
    if (k->l->ways[axis] > 1 && s->n[dim] < MOST_AXES)
        s->axes[dim][s->n[dim]++] = axis;
}

static void divide_batch(const struct maker *k, struct spec *s, int dim)
{
    for (int i = 0; i < MOST_AXES; i++) {
        if (k->order[i] == LAYOUT_DP || k->order[i] == LAYOUT_FSDP)
            divide(k, s, dim, k->order[i]);
    }
}

static void divide_tokens(const struct maker *k, struct spec *s, int dim)
{
    divide(k, s, dim, LAYOUT_RING);
    divide(k, s, dim, LAYOUT_ULYSSES);
}

static bool is_whole(const struct spec *s, int rank)
{
    for (int i = 0; i < rank; i++) {
        if (s->n[i])
            return false;
    }
    return true;
}

// "{devices=[8,1,32]<=[32,8]T(1,0) last_tile_dim_replicate}": tiles in the order of dimensions, copies behind; then the
// axes of the devices, and in which order the tiles take them. Axes that stay neighbours are one.
static const char *spell(const struct maker *k, const struct spec *s, int rank, struct error *err)
{
    int taken[MOST_AXES], n = 0, merged[MOST_AXES], n_merged = 0;
    bool used[MOST_AXES] = {false};
    int64_t copies = 1;
    struct str text;
    if (is_whole(s, rank))
        return "{replicated}";
    for (int d = 0; d < rank; d++) {
        for (int i = 0; i < s->n[d]; i++) {
            for (int a = 0; a < MOST_AXES; a++) {
                if (k->order[a] == s->axes[d][i] && !used[a])
                    used[a] = true, taken[n++] = a;
            }
        }
    }
    for (int a = 0; a < MOST_AXES; a++) {
        if (!used[a] && k->l->ways[k->order[a]] > 1) {
            copies *= k->l->ways[k->order[a]];
            taken[n++] = a;
        }
    }
    // Which of the devices' axes go on where the one before ends, in both orders.
    int next[MOST_AXES], last = -1;
    bool joined[MOST_AXES] = {false};
    for (int a = 0; a < MOST_AXES; a++) {
        next[a] = -1;
        if (k->l->ways[k->order[a]] > 1) {
            if (last >= 0)
                next[last] = a;
            last = a;
        }
    }
    for (int i = 0; i + 1 < n; i++)
        joined[i + 1] = next[taken[i]] == taken[i + 1];
    str_init(&text);
    str_add(&text, "{devices=[");
    for (int d = 0; d < rank; d++)
        str_addf(&text, "%s%" PRId64, d ? "," : "", ways(k, s, d));
    if (copies > 1)
        str_addf(&text, ",%" PRId64, copies);
    str_add(&text, "]<=[");
    bool first = true;
    for (int a = 0; a < MOST_AXES; a++) { // runs, in the order of the devices
        for (int i = 0; i < n; i++) {
            if (taken[i] != a || joined[i])
                continue;
            int64_t size = k->l->ways[k->order[a]];
            for (int j = i + 1; j < n && joined[j]; j++)
                size *= k->l->ways[k->order[taken[j]]];
            str_addf(&text, "%s%" PRId64, first ? "" : ",", size);
            first = false;
            merged[n_merged++] = a;
        }
    }
    str_add_char(&text, ']');
    if (n_merged > 1) {
        const char *comma = "T(";
        for (int i = 0; i < n; i++) {
            for (int r = 0; r < n_merged && !joined[i]; r++) {
                if (merged[r] == taken[i]) {
                    str_addf(&text, "%s%d", comma, r);
                    comma = ",";
                }
            }
        }
        str_add_char(&text, ')');
    }
    str_add(&text, copies > 1 ? " last_tile_dim_replicate}" : "}");
    const char *out = arena_strdup(k->arena, str_text(&text), err);
    str_release(&text);
    return out;
}

// ERR_USAGE where the ways do not divide a dimension.
static int say(const struct maker *k, const struct spec *s, int value, const char *name, const char **out,
               struct error *err)
{
    const struct shape *shape = shape_at(k, value);
    for (int d = 0; d < shape->rank; d++) {
        if (shape->dims[d] % ways(k, s, d))
            return error_set(err, ERR_USAGE, "--layout",
                             "%s cannot be divided over %" PRId64
                             " devices along axis %d: its size is no multiple, %" PRId64,
                             name, ways(k, s, d), d, shape->dims[d]);
    }
    *out = spell(k, s, shape->rank, err);
    return *out ? 0 : ERR_MEMORY;
}

// How a value is laid in the program, unless that was said before.
static int lay(const struct maker *k, const struct spec *s, int value, struct error *err)
{
    if (k->values[value] || k->m->instructions[value].region)
        return 0;
    return say(k, s, value, k->m->instructions[value].scope, &k->values[value], err);
}

// ---- Weights

// The axis that tp divides; -1: none.
static int side_axis(const struct maker *k, const struct parameter *p)
{
    const struct shape *s = shape_at(k, p->instruction);
    enum weight_side side = weight_side_of(p->name);
    if (k->l->ways[LAYOUT_TP] == 1 || side == SIDE_NONE || !s->rank)
        return -1;
    if (side == SIDE_OUTPUTS)
        return 0;
    return s->rank < 2 ? -1 : 1; // a vector of scales or biases belongs to the outputs, which are whole
}

static int weight(struct maker *k, int i, struct error *err)
{
    const struct parameter *p = &k->m->parameters[i];
    const struct shape *s = shape_at(k, p->instruction);
    struct spec gathered = {.n = {0}};
    int side = side_axis(k, p);
    if (side >= 0) {
        divide(k, &gathered, side, LAYOUT_TP);
        k->weight_divided = true;
    }
    struct spec stored = gathered;
    int64_t fsdp = k->l->ways[LAYOUT_FSDP];
    for (int d = 0, done = fsdp == 1 || s->rank < 2; d < s->rank && !done; d++) {
        if (d != side && s->dims[d] % fsdp == 0) {
            divide(k, &stored, d, LAYOUT_FSDP);
            done = 1;
        }
    }
    if (is_whole(&stored, s->rank))
        return 0;
    int rc = say(k, &stored, p->instruction, p->name, &k->parameters[i], err);
    if (!rc && memcmp(&stored, &gathered, sizeof stored) != 0)
        rc = say(k, &gathered, p->instruction, p->name, &k->values[p->instruction], err);
    return rc;
}

// ---- Activations

static bool is_merged(const struct maker *k, const struct shape *s)
{
    return s->rank == 2 && k->tokens > 1 && s->dims[0] == k->batch * k->tokens;
}

// [batch, tokens, ...], [batch, ...], or [batch * tokens, columns]. `sp`: tp divides tokens, too.
static struct spec stream(const struct maker *k, const struct shape *s, bool sp)
{
    struct spec out = {.n = {0}};
    int tokens = is_merged(k, s) ? 0 : s->rank > 2 && s->dims[1] > 1 ? 1 : -1;
    if (s->rank && (is_merged(k, s) || s->dims[0] == k->batch))
        divide_batch(k, &out, 0);
    if (tokens >= 0) {
        divide_tokens(k, &out, tokens);
        if (sp)
            divide(k, &out, tokens, LAYOUT_TP);
    }
    return out;
}

static int argument(const struct maker *k, int i, struct error *err)
{
    const struct parameter *p = &k->m->parameters[i];
    const struct shape *s = shape_at(k, p->instruction);
    struct spec spec = stream(k, s, k->l->sp);
    if (s->rank == 2 && !is_merged(k, s) && s->dims[0] == k->batch && s->dims[1] == k->tokens)
        divide_tokens(k, &spec, 1); // ids and masks
    return is_whole(&spec, s->rank) ? 0 : say(k, &spec, p->instruction, p->name, &k->parameters[i], err);
}

static int result(const struct maker *k, int i, struct error *err)
{
    const struct shape *s = shape_at(k, k->m->results[i]);
    struct spec spec = stream(k, s, k->l->sp);
    return is_whole(&spec, s->rank) ? 0 : say(k, &spec, k->m->results[i], k->m->result_names[i], &k->results[i], err);
}

// What a product with a weight takes and makes.
static int linear(const struct maker *k, const struct instruction *in, int weight, int x, struct error *err)
{
    const struct shape *y = &in->shape, *taken = shape_at(k, x);
    enum weight_side side = k->l->ways[LAYOUT_TP] > 1 ? weight_side_of(k->m->parameters[weight].name) : SIDE_NONE;
    if (!y->rank)
        return 0;
    struct spec from = stream(k, taken, false), to = stream(k, y, k->l->sp && side == SIDE_INPUTS);
    if (side == SIDE_INPUTS)
        divide(k, &from, taken->rank - 1, LAYOUT_TP);
    if (side == SIDE_OUTPUTS)
        divide(k, &to, y->rank - 1, LAYOUT_TP);
    if (side == SIDE_NONE && k->l->sp) // what tp leaves whole works on its own tokens
        from = stream(k, taken, true), to = stream(k, y, true);
    int rc = is_whole(&from, taken->rank) && !k->l->sp ? 0 : lay(k, &from, x, err);
    if (rc || (is_whole(&to, y->rank) && side != SIDE_INPUTS))
        return rc;
    return lay(k, &to, (int)(in - k->m->instructions), err);
}

// ---- Attention

// The ring divides blocks where attention is in blocks.
static struct spec in_heads(const struct maker *k, int batch, int blocks, int heads)
{
    struct spec s = {.n = {0}};
    divide_batch(k, &s, batch);
    if (blocks >= 0)
        divide(k, &s, blocks, LAYOUT_RING);
    divide(k, &s, heads, LAYOUT_TP);
    divide(k, &s, heads, LAYOUT_ULYSSES);
    return s;
}

// Streams that are joined, text and image, are laid one by one: then joining them needs no exchange.
static int lay_heads(const struct maker *k, const struct attention_product *p, int side, int value, struct error *err)
{
    const struct instruction *in = &k->m->instructions[value];
    bool plain = p->batch[side] == 0 && p->heads[side] == 2 && p->blocks[side] < 0;
    if (plain && in->op == OP_RESHAPE && in->shape.rank == 5) {
        const struct shape *s = shape_at(k, in->operands[0]);
        if (s->rank == 4 && s->dims[1] == in->shape.dims[1] && s->dims[2] % in->shape.dims[2] == 0)
            return lay_heads(k, p, side, in->operands[0], err);
    }
    int rc = 0;
    if (plain && in->op == OP_CONCATENATE && in->axis == 1 && in->n_operands <= 4) {
        for (int i = 0; i < in->n_operands && !rc; i++)
            rc = lay_heads(k, p, side, in->operands[i], err);
        return rc;
    }
    struct spec s = in_heads(k, p->batch[side], p->blocks[side], p->heads[side]);
    return lay(k, &s, value, err);
}

static int attention(const struct maker *k, const struct instruction *in, const struct attention_product *p,
                     struct error *err)
{
    int64_t heads = shape_at(k, p->z)->dims[p->heads[1]], by = k->l->ways[LAYOUT_TP] * k->l->ways[LAYOUT_ULYSSES];
    if (heads % by)
        return error_set(err, ERR_USAGE, "--layout",
                         "%" PRId64 " heads of keys and values cannot be divided over tp*ulysses=%" PRId64
                         " ways in a program; give ulysses fewer ways, or take ring for the rest",
                         heads, by);
    int rc = p->scores ? lay_heads(k, p, 0, p->a, err) : 0;
    if (!rc)
        rc = lay_heads(k, p, 1, p->z, err);
    struct spec out = in_heads(k, 0, p->blocks[0] < 0 ? -1 : 1, p->out_heads);
    return rc ? rc : lay(k, &out, (int)(in - k->m->instructions), err);
}

// ---- The whole

// Sequences, tokens of one, and heads: attention knows, else the first input.
static void measure(struct maker *k)
{
    struct attention_product p;
    k->limits.dense = true; // no model that has a graph here has experts
    for (int i = 0; i < k->m->n_instructions && !k->tokens; i++) {
        const struct instruction *in = &k->m->instructions[i];
        if (!attention_product(k->m, in, &p) || !p.scores)
            continue;
        const struct shape *q = shape_at(k, p.a);
        k->batch = in->shape.dims[0];
        k->tokens = q->dims[p.tokens] * (p.blocks[0] < 0 ? 1 : k->l->ways[LAYOUT_RING]);
        k->limits.kv_heads = q->dims[p.heads[0]];
        k->limits.heads = shape_elements(q) / (k->batch * k->tokens * q->dims[in->dot.lhs_contract[0]]);
        k->limits.seq = k->tokens;
        k->limits.batch = k->batch;
    }
    for (int i = 0; i < k->m->n_parameters && !k->batch; i++) {
        const struct shape *s = shape_at(k, k->m->parameters[i].instruction);
        if (k->m->parameters[i].role == ROLE_INPUT && s->rank)
            k->batch = s->dims[0];
    }
}

static int check_merged(const struct maker *k, struct error *err)
{
    int64_t by = layout_batch_ways(k->l);
    bool tokens = layout_sequence_ways(k->l) > 1;
    for (int i = 0; i < k->m->n_instructions && tokens && k->batch > by; i++) {
        int weight, x;
        const struct instruction *in = &k->m->instructions[i];
        if (weight_product(k->m, in, &weight, &x) && is_merged(k, &in->shape))
            return error_set(
                err, ERR_USAGE, "--layout",
                "the sequences of this model lie one behind the other, so tokens can be divided where each "
                "of the ways of dp and fsdp has one: give --batch %" PRId64 ", or dp=%" PRId64,
                by, k->batch);
    }
    return 0;
}

static int activations(const struct maker *k, struct error *err)
{
    bool tokens = layout_sequence_ways(k->l) > 1;
    int rc = check_merged(k, err);
    if (!rc && tokens && !k->tokens)
        return error_set(err, ERR_USAGE, "--layout",
                         "ulysses and ring divide the tokens around attention, and this program has none");
    for (int i = 0; i < k->m->n_instructions && !rc; i++) {
        const struct instruction *in = &k->m->instructions[i];
        struct attention_product p;
        int weight, x;
        if (in->region)
            continue;
        if (tokens && attention_product(k->m, in, &p))
            rc = attention(k, in, &p, err);
        else if (weight_product(k->m, in, &weight, &x))
            rc = linear(k, in, weight, x, err);
    }
    return rc;
}

// A product of two inputs: the second is the weight, [in, out].
static int bare_product(struct maker *k, struct error *err)
{
    const struct parameter *p = k->m->parameters;
    struct spec x = {.n = {0}}, w = {.n = {0}}, y = {.n = {0}}, gathered = {.n = {0}};
    if (layout_sequence_ways(k->l) > 1 || k->l->sp)
        return error_set(err, ERR_USAGE, "--layout", "a product alone has no sequence: dp, fsdp and tp divide it");
    divide_batch(k, &x, 0);
    divide_batch(k, &y, 0);
    divide(k, &w, 0, LAYOUT_FSDP);
    for (int i = 0; i < 3; i++)
        divide(k, i == 0 ? &w : i == 1 ? &y : &gathered, 1, LAYOUT_TP);
    int rc = say(k, &x, p[0].instruction, "x", &k->parameters[0], err);
    if (!rc)
        rc = say(k, &w, p[1].instruction, "w", &k->parameters[1], err);
    if (!rc && k->l->ways[LAYOUT_FSDP] > 1)
        rc = say(k, &gathered, p[1].instruction, "w", &k->values[p[1].instruction], err);
    return rc ? rc : say(k, &y, k->m->results[0], "y", &k->results[0], err);
}

static bool is_bare_product(const struct module *m)
{
    return m->n_parameters == 2 && m->n_results == 1 && m->instructions[m->results[0]].op == OP_DOT &&
           m->parameters[0].role == ROLE_INPUT && m->parameters[1].role == ROLE_INPUT &&
           m->instructions[m->results[0]].shape.rank == 2;
}

static int every_value(struct maker *k, struct error *err)
{
    int rc = 0;
    if (is_bare_product(k->m))
        return bare_product(k, err);
    for (int i = 0; i < k->m->n_parameters && !rc; i++)
        rc = k->m->parameters[i].role == ROLE_WEIGHT ? weight(k, i, err) : argument(k, i, err);
    if (!rc && k->l->ways[LAYOUT_TP] > 1 && !k->weight_divided)
        return error_set(err, ERR_USAGE, "--layout",
                         "nothing is known of the names of this program's weights that would say how tp divides them");
    if (!rc)
        rc = activations(k, err);
    for (int i = 0; i < k->m->n_results && !rc; i++)
        rc = result(k, i, err);
    return rc;
}

// The way that goes between slices comes first.
static void order_axes(struct maker *k, int slices)
{
    static const enum layout_axis order[MOST_AXES] = {LAYOUT_DP, LAYOUT_FSDP, LAYOUT_RING, LAYOUT_ULYSSES, LAYOUT_TP};
    memcpy(k->order, order, sizeof order);
    if (slices > 1 && k->l->ways[LAYOUT_DP] % slices && k->l->ways[LAYOUT_FSDP] % slices == 0) {
        k->order[0] = LAYOUT_FSDP;
        k->order[1] = LAYOUT_DP;
    }
}

int sharding_make(struct module_division *out, const struct module *m, const struct layout *l, int slices,
                  struct arena *arena, struct error *err)
{
    struct maker k = {.m = m, .l = l, .arena = arena};
    *out = (struct module_division){.partitions = layout_devices(l) / l->ways[LAYOUT_PP]};
    if (out->partitions < 2)
        return 0;
    measure(&k);
    int rc = layout_check(l, &k.limits, err);
    if (rc)
        return rc;
    order_axes(&k, slices);
    k.parameters = arena_new(arena, const char *, (size_t)m->n_parameters, err);
    k.results = arena_new(arena, const char *, (size_t)m->n_results, err);
    k.values = arena_new(arena, const char *, (size_t)m->n_instructions, err);
    if (!k.parameters || !k.results || !k.values)
        return ERR_MEMORY;
    out->parameters = k.parameters;
    out->results = k.results;
    out->values = k.values;
    return every_value(&k, err);
}
