// SPDX-License-Identifier: Apache-2.0
// Products whose activations are quantised, and what a calibration needs to know of them.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/policy_pass.h"
#include "num/affine.h"

#define MAX_CHUNK     32  // values in one concatenation
#define UNSIGNED_ZERO 128 // u8 codes less this are s8 codes

// The input that says which tokens are padding, [batch, seq]; -1 when there is none.
static int find_mask(const struct module *m)
{
    for (int i = 0; i < m->n_parameters; i++) {
        const struct parameter *p = &m->parameters[i];
        if (p->role == ROLE_INPUT && strcmp(p->name, "attention_mask") == 0 &&
            m->instructions[p->instruction].shape.rank == 2)
            return p->instruction;
    }
    return -1;
}

int module_activations(const struct module *m, struct activation *out, int max)
{
    int n = 0, mask = find_mask(m);
    int64_t tokens = mask >= 0 ? shape_elements(&m->instructions[mask].shape) : -1;
    struct views views;
    struct arena scratch;
    arena_init(&scratch);
    int known = views_find(&views, m, &scratch, NULL) ? 0 : m->n_instructions;
    for (int i = 0; i < known; i++) {
        const struct instruction *in = &m->instructions[i];
        struct linear l;
        if (!views_linear(&views, in, &l))
            continue;
        if (n < max) {
            int64_t columns = views_contracted(&views, &l);
            int64_t rows = columns ? shape_elements(&m->instructions[l.x].shape) / columns : 0;
            out[n] = (struct activation){i, in->scope, in->group, rows, columns, false};
            out[n].masked = rows == tokens && l.in_place && !l.folded;
        }
        n++;
    }
    arena_release(&scratch);
    return n;
}

int pass_arrange(struct builder *b, const struct linear *l, int x)
{
    if (!l->in_place)
        x = build_transpose(b, x, l->x_order);
    struct shape shape = *builder_shape(b, x);
    if (l->n_contract == 1)
        return x;
    int rank = shape.rank - l->n_contract;
    int64_t columns = 1;
    for (int d = rank; d < shape.rank; d++)
        columns *= shape.dims[d];
    shape.dims[rank] = columns;
    return build_reshape(b, x, rank + 1, shape.dims);
}

int pass_spread_channels(struct builder *b, int x, int n_stack, int like)
{
    struct shape from = *builder_shape(b, x), to = *builder_shape(b, like);
    int map[SHAPE_MAX_RANK];
    for (int d = 0; d < from.rank; d++)
        map[d] = d < n_stack ? d : to.rank - 1;
    to.dtype = from.dtype;
    return build_broadcast(b, x, to, map);
}

static const int all_dims[SHAPE_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};

static int reduce_all(struct builder *b, enum opcode reducer, int x)
{
    return build_reduce(b, reducer, x, all_dims, builder_shape(b, x)->rank);
}

static int64_t rows_of(const struct shape *s)
{
    return s->rank && s->dims[s->rank - 1] ? shape_elements(s) / s->dims[s->rank - 1] : 0;
}

// Predicate of x's shape: true where the row is a token and no padding; -1 when rows are no tokens.
static int real_rows(struct builder *b, int mask, int x)
{
    if (mask < 0 || x < 0)
        return -1;
    struct shape shape = *builder_shape(b, x), tokens = *builder_shape(b, mask);
    if (rows_of(&shape) != shape_elements(&tokens))
        return -1;
    int real = build_compare(b, CMP_NE, mask, build_splat(b, tokens, 0));
    real = build_reshape(b, real, shape.rank - 1, shape.dims);
    return build_broadcast_leading(b, real, x);
}

// ---- codes

struct quantised {
    int codes;
    int whole; // the codes as f32 values; -1 for 8-bit floats
    int scale; // f32, per row or one
    int zero;  // s32 zero point of the same shape, -1 when it is 0
};

// A dynamic scale: of the range (max - min, or the largest magnitude) that the largest code stands for.
static int scale_of(struct pass *s, int range)
{
    struct builder *b = &s->w.b;
    struct shape shape = *builder_shape(b, range);
    int scale = build_binary_scalar(b, OP_DIVIDE, range, policy_code_max(s->policy->a));
    scale = build_binary_scalar(b, OP_MAXIMUM, scale, FLT_MIN);
    int zero = build_splat(b, shape, 0), one = build_splat(b, shape, 1);
    return build_select(b, build_compare(b, CMP_EQ, range, zero), one, scale);
}

// Scale and, as f32, zero point (-1 for none) of the activation at hand.
static int find_scale(struct pass *s, int x, int *zero)
{
    struct builder *b = &s->w.b;
    const struct policy *p = s->policy;
    int rank = builder_shape(b, x)->rank, last = rank - 1;
    const int *dims = p->a_grain == GRAIN_TENSOR ? all_dims : &last;
    int n = p->a_grain == GRAIN_TENSOR ? rank : 1;
    *zero = -1;
    if (p->a_static) {
        float scale = NAN;
        int point = 0;
        if (s->n_activations < p->n_ranges)
            policy_static_scale(p, p->ranges[s->n_activations], &scale, &point);
        if (policy_is_affine(p))
            *zero = build_splat(b, SHAPE(DT_F32), point);
        return build_splat(b, SHAPE(DT_F32), (double)scale);
    }
    if (!policy_is_affine(p))
        return scale_of(s, build_reduce(b, OP_MAXIMUM, build_unary(b, OP_ABS, x), dims, n));
    int low = build_binary_scalar(b, OP_MINIMUM, build_reduce(b, OP_MINIMUM, x, dims, n), 0);
    int high = build_binary_scalar(b, OP_MAXIMUM, build_reduce(b, OP_MAXIMUM, x, dims, n), 0);
    int scale = scale_of(s, build_binary(b, OP_SUBTRACT, high, low));
    int point =
        build_unary(b, OP_ROUND_NEAREST_EVEN, build_binary(b, OP_DIVIDE, build_unary(b, OP_NEGATE, low), scale));
    *zero = build_binary_scalar(b, OP_MINIMUM, point, policy_code_max(p->a));
    return scale;
}

// x became codes; `over` is where a value lay beyond them, `gone` where one that was not zero now stands for zero.
static void count_loss(struct pass *s, int x, bool tokens, int over, int gone)
{
    struct builder *b = &s->w.b;
    if (!s->instrument)
        return;
    pass_count(s, 0, over);
    pass_count(s, 1, build_unary(b, OP_NOT, build_unary(b, OP_IS_FINITE, x)));
    pass_count(s, 2,
               build_binary(b, OP_AND, build_compare(b, CMP_NE, x, build_splat(b, *builder_shape(b, x), 0)), gone));
    int real = real_rows(b, tokens ? s->mask : -1, x);
    int counted = real < 0 ? over : build_binary(b, OP_AND, over, real);
    pass_count_activation(s, s->n_activations, reduce_all(b, OP_ADD, build_convert(b, counted, DT_S32)));
}

// 8-bit floats: clamped, so that a cast that makes NaN or infinity of what is too large has nothing to do. What counts
// as clipped is what rounds beyond the largest number: from half its spacing above it (a tie goes to the even code,
// which is the largest number of E4M3 and the infinity of E5M2).
static void quantise_float(struct pass *s, int x, bool tokens, int ratio, struct quantised *q)
{
    struct builder *b = &s->w.b;
    struct shape shape = *builder_shape(b, x);
    bool e4m3 = s->policy->a == DT_F8E4M3FN;
    double top = policy_code_max(s->policy->a);
    int clamped = build_clamp(b, build_splat(b, shape, -top), ratio, build_splat(b, shape, top));
    q->codes = build_convert(b, clamped, s->policy->a);
    q->whole = -1;
    if (!s->instrument)
        return;
    int over = build_compare(b, e4m3 ? CMP_GT : CMP_GE, build_unary(b, OP_ABS, ratio),
                             build_splat(b, shape, e4m3 ? 464 : 61440));
    int back = build_convert(b, q->codes, DT_F32);
    count_loss(s, x, tokens, over, build_compare(b, CMP_EQ, back, build_splat(b, shape, 0)));
}

static void quantise_integer(struct pass *s, int x, bool tokens, int ratio, int zero, struct quantised *q)
{
    struct builder *b = &s->w.b;
    struct shape shape = *builder_shape(b, x);
    double top = policy_code_max(s->policy->a), bottom = zero < 0 ? -top : 0;
    int wide_zero = zero < 0 ? build_splat(b, shape, 0) : build_broadcast_leading(b, zero, x);
    int code = build_unary(b, OP_ROUND_NEAREST_EVEN, ratio);
    if (zero >= 0)
        code = build_binary(b, OP_ADD, code, wide_zero);
    int high = build_splat(b, shape, top), low = build_splat(b, shape, bottom);
    q->whole = build_clamp(b, low, code, high);
    q->codes = build_convert(b, q->whole, s->policy->a);
    q->zero = zero < 0 ? -1 : build_convert(b, zero, DT_S32);
    if (!s->instrument)
        return;
    int over = build_binary(b, OP_OR, build_compare(b, CMP_GT, code, high), build_compare(b, CMP_LT, code, low));
    count_loss(s, x, tokens, over, build_compare(b, CMP_EQ, q->whole, wide_zero));
}

// The rule of num/quantize.h, on the device.
static struct quantised quantise(struct pass *s, int x, bool tokens)
{
    struct builder *b = &s->w.b;
    struct quantised q = {.zero = -1};
    int zero;
    x = build_convert(b, x, DT_F32);
    q.scale = find_scale(s, x, &zero);
    int ratio = build_binary(b, OP_DIVIDE, x, build_broadcast_leading(b, q.scale, x));
    if (dtype_is_float(s->policy->a))
        quantise_float(s, x, tokens, ratio, &q);
    else
        quantise_integer(s, x, tokens, ratio, zero, &q);
    pass_track_scales(s, q.scale);
    s->n_activations++;
    return q;
}

// ---- exact sums of integer products

// Products of codes of magnitude `top` and 127, summed in s32; in blocks that cannot overflow, which are added in s64.
static int exact_dot(struct pass *s, const struct instruction *in, int x, int w, double top)
{
    struct builder *b = &s->w.b;
    int last = builder_shape(b, x)->rank - 1;
    int64_t columns = builder_shape(b, x)->dims[last],
            most = (int64_t)affine_safe_inputs((int32_t)top, (int32_t)policy_code_max(DT_S8));
    int64_t blocks = columns ? (columns + most - 1) / most : 1;
    int sum = -1;
    if (blocks == 1)
        return pass_dot(s, in, x, w, DT_S32);
    for (int64_t i = 0; i < blocks; i++) {
        int64_t from = columns * i / blocks, to = columns * (i + 1) / blocks;
        int part = pass_dot(s, in, build_slice_axis(b, x, last, from, to),
                            build_slice_axis(b, w, in->dot.rhs_contract[0], from, to), DT_S32);
        part = build_convert(b, part, DT_S64);
        sum = i ? build_binary(b, OP_ADD, sum, part) : part;
    }
    return sum;
}

// What codes give, [stack..., channels], with the stack in the order of the product.
static int in_order(struct builder *b, const struct instruction *in, int x)
{
    int order[SHAPE_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    bool same = true;
    for (int k = 0; k < in->dot.n_batch; k++) {
        order[k] = in->dot.rhs_batch[k];
        same &= order[k] == k;
    }
    return same ? x : build_transpose(b, x, order);
}

// sums + factor * (the sum of each channel's weights), where factor is s32: per row, one, or a constant.
static int add_weight_sums(struct pass *s, const struct instruction *in, int sums, int w, int factor)
{
    struct builder *b = &s->w.b;
    enum dtype type = builder_shape(b, sums)->dtype;
    int total = build_reduce(b, OP_ADD, build_convert(b, build_convert(b, w, DT_S32), type), in->dot.rhs_contract, 1);
    total = pass_spread_channels(b, in_order(b, in, total), in->dot.n_batch, sums);
    int by = build_broadcast_leading(b, build_convert(b, factor, type), sums);
    return build_binary(b, OP_ADD, sums, build_binary(b, OP_MULTIPLY, by, total));
}

// s16 codes as 256 * high + low + 128, with halves of 8 bits.
static int dot_of_halves(struct pass *s, const struct instruction *in, int whole, int w)
{
    struct builder *b = &s->w.b;
    int high = build_unary(b, OP_FLOOR, build_binary_scalar(b, OP_DIVIDE, whole, 256));
    int low = build_binary(b, OP_SUBTRACT, whole, build_binary_scalar(b, OP_MULTIPLY, high, 256));
    low = build_binary_scalar(b, OP_SUBTRACT, low, UNSIGNED_ZERO);
    int highs = build_convert(b, exact_dot(s, in, build_convert(b, high, DT_S8), w, UNSIGNED_ZERO), DT_S64);
    int lows = build_convert(b, exact_dot(s, in, build_convert(b, low, DT_S8), w, UNSIGNED_ZERO), DT_S64);
    int sums = build_binary(b, OP_ADD, build_binary_scalar(b, OP_MULTIPLY, highs, 256), lows);
    return add_weight_sums(s, in, sums, w, build_splat(b, SHAPE(DT_S32), UNSIGNED_ZERO));
}

// sum over k of (code - zero) * w: sum of code * w, less zero times the sum of w. Weights have no zero point.
static int integer_sums(struct pass *s, const struct instruction *in, const struct quantised *q, int w)
{
    struct builder *b = &s->w.b;
    const struct policy *p = s->policy;
    if (p->emulate && p->a == DT_S16)
        return dot_of_halves(s, in, q->whole, w);
    if (q->zero < 0)
        return exact_dot(s, in, q->codes, w, policy_code_max(p->a));
    int codes = q->codes, zero = q->zero;
    double top = policy_code_max(p->a);
    if (p->emulate) {
        codes = build_convert(b, build_binary_scalar(b, OP_SUBTRACT, q->whole, UNSIGNED_ZERO), DT_S8);
        zero = build_binary_scalar(b, OP_SUBTRACT, zero, UNSIGNED_ZERO);
        top = UNSIGNED_ZERO;
    }
    return add_weight_sums(s, in, exact_dot(s, in, codes, w, top), w, build_unary(b, OP_NEGATE, zero));
}

int pass_quantised_linear(struct pass *s, const struct instruction *in, int x, bool tokens, int codes, int scales)
{
    struct builder *b = &s->w.b;
    struct quantised q = quantise(s, x, tokens);
    int sums;
    if (!dtype_is_float(s->policy->op)) {
        sums = integer_sums(s, in, &q, codes);
    } else {
        enum dtype wide = s->policy->emulate ? DT_BF16 : s->policy->op; // bf16 holds every value of both
        sums = pass_dot(s, in, build_convert(b, q.codes, wide), build_convert(b, codes, wide), s->policy->acc);
    }
    sums = build_convert(b, sums, DT_F32);
    sums = build_binary(b, OP_MULTIPLY, sums, build_broadcast_leading(b, q.scale, sums));
    return scales < 0 ? sums
                      : build_binary(b, OP_MULTIPLY, sums, pass_spread_channels(b, scales, in->dot.n_batch, sums));
}

// ---- results that hold a row per activation

static int concatenate_rows(struct builder *b, int *rows, int n)
{
    while (n > 1) {
        int made = 0;
        for (int i = 0; i < n; i += MAX_CHUNK) {
            int m = n - i < MAX_CHUNK ? n - i : MAX_CHUNK;
            rows[made++] = m == 1 ? rows[i] : build_concatenate(b, rows + i, m, 0);
        }
        n = made;
    }
    return rows[0];
}

int pass_clipped(struct pass *s)
{
    struct builder *b = &s->w.b;
    int n = s->max_activations, *rows = n ? arena_new(b->module->arena, int, n, &b->error) : NULL;
    for (int i = 0; i < n && rows; i++) {
        int x = rewrite_sum(&s->w, PASS_MAX_GROUPS * SUMS_OF_GROUP + i);
        rows[i] = build_reshape(b, x < 0 ? build_splat(b, SHAPE(DT_S32), 0) : x, 1, (int64_t[]){1});
    }
    return rows ? concatenate_rows(b, rows, n) : -1;
}

// Sums of a calibration, per activation.
enum { SUM_LOW, SUM_HIGH, SUM_BEYOND, SUM_BEYOND_BELOW, SUMS_OF_ACTIVATION };

// The smallest and the largest value.
static void add_range(struct rewrite *w, int x, int at)
{
    rewrite_add(w, at + SUM_LOW, OP_MINIMUM, reduce_all(&w->b, OP_MINIMUM, x));
    rewrite_add(w, at + SUM_HIGH, OP_MAXIMUM, reduce_all(&w->b, OP_MAXIMUM, x));
}

// s32[steps] twice: how many values are above each threshold of row i, and how many of the negated ones.
static void add_beyond(struct rewrite *w, int x, int at, int thresholds, int i, int steps)
{
    struct builder *b = &w->b;
    struct shape shape = *builder_shape(b, x), wide = {.dtype = DT_F32, .rank = shape.rank + 1, .dims = {steps}};
    int map[SHAPE_MAX_RANK] = {0}, reduced[SHAPE_MAX_RANK];
    for (int d = 0; d < shape.rank; d++) {
        wide.dims[d + 1] = shape.dims[d];
        map[d] = reduced[d] = d + 1;
    }
    int row = build_slice_axis(b, thresholds, 0, i, i + 1);
    for (int side = 0; side < 2; side++) {
        int limits = build_reshape(b, build_slice_axis(b, row, 1, side, side + 1), 1, (int64_t[]){steps});
        int values = side ? build_unary(b, OP_NEGATE, x) : x;
        int above = build_compare(b, CMP_GT, build_broadcast(b, values, wide, map),
                                  build_broadcast(b, limits, wide, (int[]){0}));
        rewrite_add(w, at + SUM_BEYOND + side, OP_ADD,
                    build_reduce(b, OP_ADD, build_convert(b, above, DT_S32), reduced, shape.rank));
    }
}

// [1, 2] of a range, [1, 2, steps] of what is beyond.
static int calibration_row(struct rewrite *w, int at, int steps)
{
    struct builder *b = &w->b;
    int both[2];
    for (int side = 0; side < 2; side++) {
        both[side] = rewrite_sum(w, at + (steps > 0 ? SUM_BEYOND : SUM_LOW) + side);
        both[side] = build_reshape(b, both[side], steps > 0 ? 3 : 2, (int64_t[]){1, 1, steps});
    }
    return build_concatenate(b, both, 2, 1);
}

int module_calibration(const struct module *from, int steps, struct module *to, struct error *err)
{
    struct rewrite w;
    struct views views;
    int n = module_activations(from, NULL, 0), mask = find_mask(from), at = 0, thresholds = -1;
    int *rows = arena_new(to->arena, int, n, err), rc = rows ? rewrite_init(&w, from, to, err) : ERR_MEMORY;
    if (!rc)
        rc = views_find(&views, from, to->arena, err);
    if (rc)
        return rc;
    if (!n)
        return error_set(err, ERR_INPUT, from->name, "has no product with a weight: there is nothing to calibrate");
    struct builder *b = &w.b;
    if (steps > 0)
        thresholds = build_parameter(b, ROLE_INPUT, "thresholds", SHAPE(DT_F32, n, 2, steps), NULL);
    for (int i = 0; i < from->n_instructions; i++) {
        const struct instruction *in = &from->instructions[i];
        struct linear l;
        w.map[i] = rewrite_copy(&w, in);
        if (!views_linear(&views, in, &l))
            continue;
        int x = pass_arrange(b, &l, build_convert(b, w.map[l.x], DT_F32));
        int real = real_rows(b, mask < 0 || !l.in_place || l.folded ? -1 : w.map[mask], x);
        if (real >= 0)
            x = build_select(b, real, x, build_splat(b, *builder_shape(b, x), 0));
        if (steps > 0)
            add_beyond(&w, x, at * SUMS_OF_ACTIVATION, thresholds, at, steps);
        else
            add_range(&w, x, at * SUMS_OF_ACTIVATION);
        at++;
    }
    builder_scope(b, "instrument", "instrument");
    b->region = 0;
    for (int i = 0; i < n; i++)
        rows[i] = calibration_row(&w, i * SUMS_OF_ACTIVATION, steps);
    build_result(b, steps > 0 ? "beyond" : "ranges", concatenate_rows(b, rows, n));
    return builder_finish(b, err);
}
