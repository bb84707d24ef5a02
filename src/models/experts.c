// SPDX-License-Identifier: Apache-2.0
#include "models/experts.h"

#include <math.h>
#include <stdio.h>

#include "models/parts.h"

double experts_touched(const struct experts *e, double tokens)
{
    double n = (double)e->n, expected = n * (1 - pow(1 - (double)e->active / n, tokens));
    return fmax((double)e->active, expected);
}

struct layer {
    struct builder *b;
    const struct experts *e;
    const char *prefix;
    int number;
    int64_t tokens, rows, hidden; // rows: one for each token and expert that it passes
};

static const char *name_of(const struct layer *l, const char *rest)
{
    const char *name = arena_printf(l->b->module->arena, &l->b->error, "%s%s", l->prefix, rest);
    return name ? name : "";
}

// Sorts along `axis` by the values of `keys`, and carries `others` along; results in *sorted and *carried.
static void sort_pairs(struct builder *b, int keys, int others, int axis, bool descending, int *sorted, int *carried)
{
    enum dtype types[] = {builder_shape(b, keys)->dtype, builder_shape(b, others)->dtype};
    int region = builder_region(b), outside = b->region, scalars[4];
    for (int i = 0; i < 4; i++)
        scalars[i] = build_region_parameter(b, region, SHAPE(types[i / 2]));
    b->region = region;
    int before = build_compare(b, descending ? CMP_GT : CMP_LT, scalars[0], scalars[1]);
    builder_region_results(b, region, &before, 1);
    b->region = outside;
    struct instruction in = {.op = OP_SORT, .axis = axis, .a = {true}}; // stable: equal ones as they came
    in.shape = *builder_shape(b, keys);
    int both = build_many(b, &in, (int[]){keys, others}, 2, &region, 1);
    *sorted = build_element(b, both, 0);
    *carried = build_element(b, both, 1);
}

// The weights of a token's experts, f32 [tokens, active], and their numbers, s32 [rows].
static int route(const struct layer *l, int x, int *chosen)
{
    struct builder *b = l->b;
    int scores = part_linear(b, x, name_of(l, "gate.weight"), l->e->n), values, ids;
    b->domain = DOMAIN_SOFTMAX;
    scores = part_softmax(b, scores);
    if (l->e->corrected)
        scores = part_add_bias(b, scores,
                               build_weight(b, name_of(l, "gate.e_score_correction_bias"), SHAPE(DT_F32, l->e->n)));
    sort_pairs(b, scores, build_iota(b, SHAPE(DT_S32, l->tokens, l->e->n), 1), 1, true, &values, &ids);
    values = build_slice_axis(b, values, 1, 0, l->e->active);
    int sum = build_reduce(b, OP_ADD, values, (int[]){1}, 1);
    values = build_binary(b, OP_DIVIDE, values, build_broadcast_leading(b, sum, values));
    b->domain = DOMAIN_GENERAL;
    *chosen = build_reshape(b, build_slice_axis(b, ids, 1, 0, l->e->active), 1, (int64_t[]){l->rows});
    return values;
}

// Experts [first, first + n) of a stack of matrices [experts, ...].
static int some(struct builder *b, int stack, int64_t first, int64_t n)
{
    return builder_shape(b, stack)->dims[0] == n ? stack : build_slice_axis(b, stack, 0, first, first + n);
}

static int product(struct builder *b, int x, int w)
{
    return build_dot(b, x, w, 1, (int[]){0}, (int[]){0}, 1, (int[]){2}, (int[]){2}, DT_F32);
}

// Rows [from, from + n * each) of x, `each` for each of n experts from the one with number `first` on.
static int pass(const struct layer *l, int x, const int *stacks, int64_t from, int64_t first, int64_t n, int64_t each)
{
    struct builder *b = l->b;
    x = build_slice_axis(b, x, 0, from, from + n * each);
    x = build_reshape(b, x, 3, (int64_t[]){n, each, l->hidden});
    int up = builder_store(b, product(b, x, some(b, stacks[0], first, n)));
    int h = builder_store(b, part_swiglu(b, up));
    int down = product(b, h, some(b, stacks[1], first, n));
    return build_reshape(b, down, 2, (int64_t[]){n * each, l->hidden});
}

static int routed(const struct layer *l, int x)
{
    struct builder *b = l->b;
    const struct experts *e = l->e;
    int64_t n = llround(experts_touched(e, (double)l->tokens)), each = l->rows / n, more = l->rows % n;
    int stacks[] = {
        build_weight(b, name_of(l, "experts.gate_up_proj"), SHAPE(DT_F32, e->n, 2 * e->columns, l->hidden)),
        build_weight(b, name_of(l, "experts.down_proj"), SHAPE(DT_F32, e->n, l->hidden, e->columns)),
    };
    int rest = pass(l, x, stacks, more * (each + 1), more, n - more, each);
    if (!more)
        return rest;
    int longer = pass(l, x, stacks, 0, 0, more, each + 1);
    return build_concatenate(b, (int[]){longer, rest}, 2, 0);
}

static int shared(const struct layer *l, int x)
{
    static const char *const parts[] = {"gate_proj", "up_proj"};
    struct builder *b = l->b;
    int64_t columns = l->e->shared;
    builder_scope(b, "shared experts", "layer.%d.experts.shared", l->number);
    int up = part_stacked_linear(b, x, name_of(l, "shared_experts."), parts, (int64_t[]){columns, columns}, 2);
    int h = builder_store(b, part_swiglu(b, builder_store(b, up)));
    return part_linear(b, h, name_of(l, "shared_experts.down_proj.weight"), l->hidden);
}

int experts_build(struct builder *b, const struct experts *e, int layer, const char *prefix, int x)
{
    struct shape shape = *builder_shape(b, x);
    struct layer l = {.b = b, .e = e, .prefix = prefix, .number = layer};
    int chosen, order, place, ignored;
    if (x < 0)
        return -1;
    l.hidden = shape.dims[2];
    l.tokens = shape.dims[0] * shape.dims[1];
    l.rows = l.tokens * e->active;
    struct shape numbers = SHAPE(DT_S32, l.rows);
    x = build_reshape(b, x, 2, (int64_t[]){l.tokens, l.hidden});
    builder_scope(b, "router", "layer.%d.router", layer);
    int weights = route(&l, x, &chosen);
    sort_pairs(b, chosen, build_iota(b, numbers, 0), 0, false, &ignored, &order);
    sort_pairs(b, order, build_iota(b, numbers, 0), 0, false, &ignored, &place); // where each row has gone
    builder_scope(b, "dispatch", "layer.%d.dispatch", layer);
    int sent = build_gather(b, x, build_binary(b, OP_DIVIDE, order, build_splat(b, numbers, (double)e->active)));
    builder_scope(b, EXPERTS_GROUP, "layer.%d.experts", layer);
    int made = builder_store(b, routed(&l, builder_store(b, sent)));
    builder_scope(b, "combine", "layer.%d.combine", layer);
    int back = build_reshape(b, build_gather(b, made, place), 3, (int64_t[]){l.tokens, e->active, l.hidden});
    back = build_binary(b, OP_MULTIPLY, back, build_broadcast_leading(b, weights, back));
    int y = build_reduce(b, OP_ADD, back, (int[]){1}, 1);
    if (e->shared) {
        int beside = builder_store(b, shared(&l, x));
        builder_scope(b, "combine", "layer.%d.combine", layer);
        y = build_binary(b, OP_ADD, y, beside);
    }
    return build_reshape(b, y, 3, shape.dims);
}
