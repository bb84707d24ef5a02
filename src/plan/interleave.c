// SPDX-License-Identifier: Apache-2.0
#include "plan/interleave.h"

#include <inttypes.h>
#include <string.h>

#include "ir/rewrite.h"
#include "plan/weight_side.h"

// Columns of a value that are columns of a stacked product.
struct columns {
    int product; // its instruction; -1: none
    int64_t from, n;
};

struct maker {
    const struct module *m;
    int64_t ways;
    struct columns *columns;        // of every value
    int (*also)[INTERLEAVE_MOST];   // of every product the other weights along its outputs: biases, scales
    struct interleaved *of_product; // n 0: not cut
    bool *joined;                   // concatenations in front of a product that takes them
    struct interleaving *list;
};

static const struct shape *shape_at(const struct maker *k, int value)
{
    return &k->m->instructions[value].shape;
}

// Element by element: columns stay where they are.
static bool keeps_columns(const struct maker *k, const struct instruction *in, int operand)
{
    switch (op_info(in->op)->class) {
    case OPC_UNARY:
    case OPC_BINARY:
    case OPC_COMPARE:
    case OPC_SELECT:
    case OPC_CLAMP:
    case OPC_CONVERT:
        return in->shape.rank && shape_same_dims(&in->shape, shape_at(k, in->operands[operand]));
    default:
        return false;
    }
}

// A slice of the last axis alone.
static bool cuts_columns(const struct maker *k, const struct instruction *in)
{
    if (in->op != OP_SLICE || !in->shape.rank)
        return false;
    const struct shape *x = shape_at(k, in->operands[0]);
    int last = in->shape.rank - 1;
    for (int d = 0; d < last; d++) {
        if (in->shape.dims[d] != x->dims[d])
            return false;
    }
    return in->c[last] == 1 && in->shape.dims[last] < x->dims[last];
}

static int add_cut(struct interleaved *w, int64_t at)
{
    int i = 0;
    while (i < w->n && w->parts[i] < at)
        i++;
    if (i < w->n && w->parts[i] == at)
        return 0;
    if (w->n == INTERLEAVE_MOST)
        return -1;
    memmove(&w->parts[i + 1], &w->parts[i], (size_t)(w->n++ - i) * sizeof w->parts[0]);
    w->parts[i] = at;
    return 0;
}

static void note_weight(struct maker *k, int product, int value)
{
    int w = weight_of(k->m, value);
    const struct shape *s = w < 0 ? NULL : shape_at(k, k->m->parameters[w].instruction);
    const struct shape *y = shape_at(k, product);
    if (!s || !s->rank || s->dims[0] != y->dims[y->rank - 1])
        return;
    for (int i = 0; i < INTERLEAVE_MOST; i++) {
        if (k->also[product][i] == w + 1)
            return;
        if (!k->also[product][i]) {
            k->also[product][i] = w + 1;
            return;
        }
    }
}

// Weights and scales that a product's right side is made of.
static void note_all(struct maker *k, int product, int value, int steps)
{
    const struct instruction *in = &k->m->instructions[value];
    note_weight(k, product, value);
    for (int i = 0; i < in->n_operands && steps; i++)
        note_all(k, product, in->operands[i], steps - 1);
}

static int follow(struct maker *k, int i, struct error *err)
{
    const struct instruction *in = &k->m->instructions[i];
    int w, x;
    k->columns[i].product = -1;
    if (weight_product(k->m, in, &w, &x)) {
        if (weight_side_of(k->m->parameters[w].name) != SIDE_OUTPUTS || !in->shape.rank)
            return 0;
        k->columns[i] = (struct columns){i, 0, in->shape.dims[in->shape.rank - 1]};
        note_all(k, i, in->operands[1], 6);
        return 0;
    }
    for (int o = 0; o < in->n_operands; o++) {
        const struct columns *c = &k->columns[in->operands[o]];
        if (c->product < 0)
            continue;
        if (cuts_columns(k, in)) {
            int last = in->shape.rank - 1;
            k->columns[i] = (struct columns){c->product, c->from + in->a[last], in->shape.dims[last]};
            struct interleaved *to = &k->of_product[c->product];
            if (add_cut(to, k->columns[i].from) || add_cut(to, k->columns[i].from + k->columns[i].n))
                return error_set(err, ERR_USAGE, "--layout", "tp: %s is cut into more than %d parts",
                                 k->m->instructions[c->product].scope, INTERLEAVE_MOST - 1);
            return 0;
        }
        if (!keeps_columns(k, in, o))
            continue;
        bool two = k->columns[i].product >= 0 && (k->columns[i].product != c->product || k->columns[i].from != c->from);
        k->columns[i] = *c;
        if (two) { // gate times up: an array of its own, in the order of both
            k->columns[i].product = -1;
            return 0;
        }
        for (int q = 0; q < in->n_operands; q++) {
            if (q != o && c->from == 0 && c->n == shape_at(k, c->product)->dims[shape_at(k, c->product)->rank - 1])
                note_weight(k, c->product, in->operands[q]);
        }
    }
    return 0;
}

// Concatenations of columns that a row-parallel product takes, through what keeps columns.
static void find_joined(struct maker *k, int value, int product, int w)
{
    const struct instruction *in = &k->m->instructions[value];
    while (in->n_operands == 1 && keeps_columns(k, in, 0))
        in = &k->m->instructions[value = in->operands[0]];
    if (in->op != OP_CONCATENATE || in->axis != in->shape.rank - 1 || in->n_operands > INTERLEAVE_MOST)
        return;
    k->joined[value] = true;
    struct interleaved *to = &k->of_product[product];
    *to = (struct interleaved){.parameter = w, .axis = 1, .n = in->n_operands};
    for (int i = 0; i < in->n_operands; i++)
        to->parts[i] = shape_at(k, in->operands[i])->dims[in->axis];
}

// From cuts to widths; the ways must divide each.
static int close_parts(struct maker *k, int product, struct error *err)
{
    struct interleaved *to = &k->of_product[product];
    const struct shape *y = shape_at(k, product);
    if (!to->n)
        return 0;
    if (to->axis == 0) {
        if (add_cut(to, 0) || add_cut(to, y->dims[y->rank - 1]))
            return error_set(err, ERR_USAGE, "--layout", "tp: %s is cut into more than %d parts",
                             k->m->instructions[product].scope, INTERLEAVE_MOST - 1);
        for (int i = 0; i + 1 < to->n; i++)
            to->parts[i] = to->parts[i + 1] - to->parts[i];
        to->n--;
    }
    for (int i = 0; i < to->n; i++) {
        if (to->parts[i] % k->ways)
            return error_set(err, ERR_USAGE, "--layout",
                             "tp=%" PRId64 ": of %s a part of %" PRId64 " columns cannot be divided so", k->ways,
                             k->m->instructions[product].scope, to->parts[i]);
    }
    return 0;
}

// Whether a value has columns of more than one part: then their order is that of no checkpoint.
static bool is_mixed(const struct maker *k, int value)
{
    const struct columns *c = &k->columns[value];
    int64_t at = 0;
    if (c->product < 0 || k->of_product[c->product].n < 2)
        return false;
    const struct interleaved *w = &k->of_product[c->product];
    for (int i = 0; i < w->n; at += w->parts[i++]) {
        if (at == c->from)
            return w->parts[i] != c->n;
    }
    return true;
}

static int check_uses(const struct maker *k, struct error *err)
{
    for (int i = 0; i < k->m->n_instructions; i++) {
        const struct instruction *in = &k->m->instructions[i];
        for (int o = 0; o < in->n_operands; o++) {
            int x = in->operands[o];
            bool follows = k->columns[i].product == k->columns[x].product;
            if (is_mixed(k, x) && !follows)
                return error_set(err, ERR_USAGE, "--layout",
                                 "tp: %s takes several outputs of %s at once, which lie interleaved when they are "
                                 "divided",
                                 in->scope, k->m->instructions[k->columns[x].product].scope);
        }
    }
    for (int i = 0; i < k->m->n_results; i++) {
        if (is_mixed(k, k->m->results[i]))
            return error_set(err, ERR_USAGE, "--layout", "tp: the result %s would lie interleaved",
                             k->m->result_names[i]);
    }
    return 0;
}

static int list_weights(struct maker *k, struct arena *a, struct error *err)
{
    k->list->weights = arena_new(a, struct interleaved, (size_t)k->m->n_parameters, err);
    bool *listed = arena_new(a, bool, (size_t)k->m->n_parameters, err);
    if (!k->list->weights || !listed)
        return ERR_MEMORY;
    for (int i = 0; i < k->m->n_instructions; i++) {
        struct interleaved *of = &k->of_product[i];
        if (of->n < 2)
            continue;
        for (int j = 0; j < INTERLEAVE_MOST; j++) {
            int w = of->axis ? of->parameter : k->also[i][j] - 1;
            if (w < 0 || listed[w])
                continue;
            listed[w] = true;
            k->list->weights[k->list->n] = *of;
            k->list->weights[k->list->n++].parameter = w;
        }
    }
    return 0;
}

// x [..., n] as [..., ways, n / ways].
static int spread(struct builder *b, int x, int64_t ways)
{
    struct shape s = *builder_shape(b, x);
    s.dims[s.rank] = s.dims[s.rank - 1] / ways;
    s.dims[s.rank - 1] = ways;
    return build_reshape(b, x, s.rank + 1, s.dims);
}

static int rewrite_one(struct maker *k, struct rewrite *w, int i)
{
    const struct instruction *in = &k->m->instructions[i];
    const struct columns *c = &k->columns[i];
    bool cut = c->product >= 0 && cuts_columns(k, in) && k->of_product[c->product].n > 1;
    if (!cut && !k->joined[i])
        return rewrite_copy(w, in);
    rewrite_place(w, in);
    int last = in->shape.rank - 1, y;
    if (cut) {
        y = spread(&w->b, w->map[in->operands[0]], k->ways);
        y = build_slice_axis(&w->b, y, last + 1, in->a[last] / k->ways, in->b[last] / k->ways);
    } else {
        int parts[INTERLEAVE_MOST];
        for (int o = 0; o < in->n_operands; o++)
            parts[o] = spread(&w->b, w->map[in->operands[o]], k->ways);
        y = build_concatenate(&w->b, parts, in->n_operands, last + 1);
    }
    y = build_reshape(&w->b, y, in->shape.rank, in->shape.dims);
    if (y >= 0)
        w->b.module->instructions[y].flags |= in->flags;
    return y;
}

int interleave(const struct module *m, int64_t ways, struct module *out, struct interleaving *list, struct error *err)
{
    struct maker k = {.m = m, .ways = ways, .list = list};
    struct rewrite w;
    size_t n = (size_t)m->n_instructions;
    *list = (struct interleaving){.ways = ways};
    k.columns = arena_new(out->arena, struct columns, n, err);
    k.of_product = arena_new(out->arena, struct interleaved, n, err);
    k.joined = arena_new(out->arena, bool, n, err);
    k.also = arena_alloc(out->arena, n, sizeof *k.also, err);
    if (!k.columns || !k.of_product || !k.joined || !k.also)
        return ERR_MEMORY;
    int rc = 0;
    for (int i = 0; i < m->n_instructions && !rc; i++)
        rc = follow(&k, i, err);
    for (int i = 0; i < m->n_instructions && !rc; i++) {
        int p, x;
        if (weight_product(m, &m->instructions[i], &p, &x) && weight_side_of(m->parameters[p].name) == SIDE_INPUTS)
            find_joined(&k, x, i, p);
        rc = close_parts(&k, i, err);
    }
    if (!rc)
        rc = check_uses(&k, err);
    if (!rc)
        rc = list_weights(&k, out->arena, err);
    if (!rc)
        rc = rewrite_init(&w, m, out, err);
    for (int i = 0; i < m->n_instructions && !rc; i++)
        w.map[i] = rewrite_one(&k, &w, i);
    return rc ? rc : rewrite_finish(&w, err);
}
