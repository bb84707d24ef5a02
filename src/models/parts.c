// SPDX-License-Identifier: Apache-2.0
#include "models/parts.h"

#include <math.h>
#include <stdio.h>

static int last_dimension(const struct builder *b, int x)
{
    return builder_shape(b, x)->rank - 1;
}

static int64_t last_extent(const struct builder *b, int x)
{
    int last = last_dimension(b, x);
    return last < 0 ? 0 : builder_shape(b, x)->dims[last];
}

int part_linear(struct builder *b, int x, const char *tensor, int64_t out)
{
    return build_linear(b, x, build_weight(b, tensor, SHAPE(DT_F32, out, last_extent(b, x))), DT_F32);
}

int part_stacked_linear(struct builder *b, int x, const char *prefix, const char *const *suffixes, const int64_t *outs,
                        int n)
{
    struct binding bind = {.n_sources = n, .store = DT_F32, .part = BIND_VALUES};
    int64_t rows = 0;
    for (int i = 0; i < n && i < BIND_MAX_SOURCES; i++) {
        bind.sources[i] = arena_printf(b->module->arena, &b->error, "%s%s.weight", prefix, suffixes[i]);
        rows += outs[i];
    }
    if (b->error.code)
        return -1;
    struct shape shape = SHAPE(DT_F32, rows, last_extent(b, x));
    return build_linear(b, x, build_parameter(b, ROLE_WEIGHT, bind.sources[0], shape, &bind), DT_F32);
}

int part_add_bias(struct builder *b, int x, int bias)
{
    return build_binary(b, OP_ADD, x, build_broadcast_trailing(b, bias, x));
}

int part_nonfinite(struct builder *b, int x)
{
    static const int dims[SHAPE_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    int wrong = build_convert(b, build_unary(b, OP_NOT, build_unary(b, OP_IS_FINITE, x)), DT_S32);
    return build_reduce(b, OP_ADD, wrong, dims, builder_shape(b, wrong)->rank);
}

int part_softmax(struct builder *b, int x)
{
    int last = last_dimension(b, x);
    int top = build_reduce(b, OP_MAXIMUM, x, &last, 1);
    int e = build_unary(b, OP_EXP, build_binary(b, OP_SUBTRACT, x, build_broadcast_leading(b, top, x)));
    int sum = build_reduce(b, OP_ADD, e, &last, 1);
    return build_binary(b, OP_DIVIDE, e, build_broadcast_leading(b, sum, e));
}

int part_gelu_tanh(struct builder *b, int x)
{
    int cube = build_binary(b, OP_MULTIPLY, build_binary(b, OP_MULTIPLY, x, x), x);
    int inner = build_binary(b, OP_ADD, x, build_binary_scalar(b, OP_MULTIPLY, cube, 0.044715));
    int t = build_unary(b, OP_TANH, build_binary_scalar(b, OP_MULTIPLY, inner, sqrt(2 / M_PI)));
    return build_binary(b, OP_MULTIPLY, build_binary_scalar(b, OP_MULTIPLY, x, 0.5),
                        build_binary_scalar(b, OP_ADD, t, 1));
}

int part_silu(struct builder *b, int x)
{
    return build_binary(b, OP_MULTIPLY, x, build_unary(b, OP_LOGISTIC, x));
}

int part_swiglu(struct builder *b, int x)
{
    int last = last_dimension(b, x);
    int64_t half = last_extent(b, x) / 2;
    int gate = build_slice_axis(b, x, last, 0, half), up = build_slice_axis(b, x, last, half, 2 * half);
    return build_binary(b, OP_MULTIPLY, part_silu(b, gate), up);
}

static int mean(struct builder *b, int x, const int *dims, int n, double count)
{
    return build_binary_scalar(b, OP_DIVIDE, build_reduce(b, OP_ADD, x, dims, n), count);
}

// 1 / sqrt(mean of x^2 over `dims` + eps).
static int inverse_root(struct builder *b, int x, const int *dims, int n, double count, double eps)
{
    int square = mean(b, build_binary(b, OP_MULTIPLY, x, x), dims, n, count);
    return build_unary(b, OP_RSQRT, build_binary_scalar(b, OP_ADD, square, eps));
}

int part_rms_norm(struct builder *b, int x, int weight, double eps)
{
    int last = last_dimension(b, x);
    b->domain = DOMAIN_NORM;
    int scale = inverse_root(b, x, &last, 1, (double)last_extent(b, x), eps);
    int y = build_binary(b, OP_MULTIPLY, x, build_broadcast_leading(b, scale, x));
    y = build_binary(b, OP_MULTIPLY, y, build_broadcast_trailing(b, weight, y));
    b->domain = DOMAIN_GENERAL;
    return y;
}

int part_layer_norm(struct builder *b, int x, double eps)
{
    int last = last_dimension(b, x);
    double n = (double)last_extent(b, x);
    b->domain = DOMAIN_NORM;
    int centre = mean(b, x, &last, 1, n);
    int centred = build_binary(b, OP_SUBTRACT, x, build_broadcast_leading(b, centre, x));
    int scale = inverse_root(b, centred, &last, 1, n, eps);
    int y = build_binary(b, OP_MULTIPLY, centred, build_broadcast_leading(b, scale, x));
    b->domain = DOMAIN_GENERAL;
    return y;
}

int part_group_norm(struct builder *b, int x, int64_t groups, int gamma, int beta, double eps)
{
    static const int within[3] = {1, 2, 4}, across[2] = {0, 3};
    struct shape full = *builder_shape(b, x), split = full;
    if (x < 0)
        return -1;
    split.rank = 5;
    split.dims[3] = groups;
    split.dims[4] = full.dims[3] / groups;
    double n = (double)(split.dims[1] * split.dims[2] * split.dims[4]);
    b->domain = DOMAIN_NORM;
    x = build_reshape(b, x, 5, split.dims);
    int centre = build_broadcast(b, mean(b, x, within, 3, n), split, across);
    int centred = build_binary(b, OP_SUBTRACT, x, centre);
    int scale = build_broadcast(b, inverse_root(b, centred, within, 3, n, eps), split, across);
    int y = build_reshape(b, build_binary(b, OP_MULTIPLY, centred, scale), 4, full.dims);
    y = build_binary(b, OP_MULTIPLY, y, build_broadcast_trailing(b, gamma, y));
    y = part_add_bias(b, y, beta);
    b->domain = DOMAIN_GENERAL;
    return y;
}

// Two features a and z of x, and the tables spread over them: a cos - z sin and z cos + a sin.
static void rotate(struct builder *b, int a, int z, int cosine, int sine, int out[2])
{
    static const int dims[2] = {1, 3};
    int c = build_broadcast(b, cosine, *builder_shape(b, a), dims);
    int s = build_broadcast(b, sine, *builder_shape(b, a), dims);
    out[0] = build_binary(b, OP_SUBTRACT, build_binary(b, OP_MULTIPLY, a, c), build_binary(b, OP_MULTIPLY, z, s));
    out[1] = build_binary(b, OP_ADD, build_binary(b, OP_MULTIPLY, z, c), build_binary(b, OP_MULTIPLY, a, s));
}

int part_rotate_half(struct builder *b, int x, int cosine, int sine)
{
    int64_t half = last_extent(b, x) / 2;
    int out[2];
    rotate(b, build_slice_axis(b, x, 3, 0, half), build_slice_axis(b, x, 3, half, 2 * half), cosine, sine, out);
    return build_concatenate(b, out, 2, 3);
}

int part_rotate_pairs(struct builder *b, int x, int cosine, int sine)
{
    struct shape full = *builder_shape(b, x), pairs = full, part = full;
    int out[2], side[2];
    if (x < 0)
        return -1;
    pairs.dims[3] /= 2;
    part.dims[3] /= 2;
    pairs.dims[pairs.rank++] = 2;
    x = build_reshape(b, x, pairs.rank, pairs.dims);
    for (int i = 0; i < 2; i++)
        side[i] = build_reshape(b, build_slice_axis(b, x, 4, i, i + 1), part.rank, part.dims);
    rotate(b, side[0], side[1], cosine, sine, out);
    pairs.dims[4] = 1;
    for (int i = 0; i < 2; i++)
        out[i] = build_reshape(b, out[i], pairs.rank, pairs.dims);
    return build_reshape(b, build_concatenate(b, out, 2, 4), full.rank, full.dims);
}

int part_attention(struct builder *b, int q, int k, int v, int visible)
{
    struct shape query = *builder_shape(b, q), keys = *builder_shape(b, k);
    if (q < 0 || k < 0 || v < 0)
        return -1;
    int64_t batch = query.dims[0], tokens = query.dims[1], heads = query.dims[2], dim = query.dims[3];
    int64_t shared = heads / keys.dims[2]; // queries' heads that look at one head of keys
    q = build_reshape(b, q, 5, (int64_t[]){batch, tokens, keys.dims[2], shared, dim});
    // [batch, kv heads, tokens, shared, keys]
    int scores = build_dot(b, q, k, 2, (int[]){0, 2}, (int[]){0, 2}, 1, (int[]){4}, (int[]){3}, DT_F32);
    b->domain = DOMAIN_SOFTMAX;
    scores = build_binary_scalar(b, OP_MULTIPLY, scores, 1 / sqrt((double)dim));
    if (visible >= 0) {
        struct shape all = *builder_shape(b, scores);
        scores = build_select(b, build_broadcast(b, visible, all, (int[]){0, 2, 4}), scores,
                              build_symbol(b, all, CONST_LOWEST));
    }
    int p = builder_store(b, part_softmax(b, scores));
    b->domain = DOMAIN_GENERAL;
    // [batch, kv heads, tokens, shared, features of a value]
    int64_t wide = builder_shape(b, v)->dims[3];
    int y = build_dot(b, p, v, 2, (int[]){0, 1}, (int[]){0, 2}, 1, (int[]){4}, (int[]){1}, DT_F32);
    y = build_transpose(b, y, (int[]){0, 2, 1, 3, 4});
    return build_reshape(b, y, 3, (int64_t[]){batch, tokens, heads * wide});
}

void part_rope_angle(double position, int64_t pair, int64_t dim, double theta, float *cosine, float *sine)
{
    double angle = position * pow(theta, -2.0 * (double)pair / (double)dim);
    *cosine = (float)cos(angle);
    *sine = (float)sin(angle);
}
