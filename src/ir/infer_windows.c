// SPDX-License-Identifier: Apache-2.0
// Shape inference where dimension numbers say which extent goes where: convolutions, windows, gathers, scatters; and of
// operations with several results.
#include <inttypes.h>

#include "ir/infer_part.h"

// How often a window of `size` fits into n elements with `low` and `high` around them; -1 where that is not possible.
static int64_t positions(int64_t n, const struct window_extent *w)
{
    int64_t span;
    if (w->size < 1 || w->stride < 1 || w->window_dilation < 1 || w->base_dilation < 1 || n < 0 ||
        (n && (__builtin_mul_overflow(n - 1, w->base_dilation, &n) || __builtin_add_overflow(n, 1, &n))) ||
        __builtin_add_overflow(n, w->low, &n) || __builtin_add_overflow(n, w->high, &n) || n < 0 ||
        __builtin_mul_overflow(w->size - 1, w->window_dilation, &span) || __builtin_add_overflow(span, 1, &span))
        return -1;
    return n < span ? 0 : (n - span) / w->stride + 1;
}

static bool is_permutation(const int *dims, int rank)
{
    unsigned seen = 0;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0 || dims[i] >= rank || seen & 1u << dims[i])
            return false;
        seen |= 1u << dims[i];
    }
    return true;
}

// Extents of x, kernel and result in the order of struct convolution: the result's are filled in.
static int convolve(const struct instruction *in, const int64_t *x, const int64_t *kernel, int64_t *result,
                    struct error *err)
{
    const struct convolution *c = in->convolution;
    int64_t groups = in->axis, batches = c ? c->batch_groups : 1;
    if (groups < 1 || batches < 1 || (groups > 1 && batches > 1) || kernel[0] % groups || kernel[0] % batches ||
        x[1] % groups || x[0] % batches || x[1] / groups != kernel[1])
        return BAD("of %" PRId64 " channels in %" PRId64 " groups does not fit a kernel of %" PRId64 " by %" PRId64,
                   x[1], groups, kernel[0], kernel[1]);
    result[0] = x[0] / batches;
    result[1] = kernel[0];
    for (int i = 0; i < in->n_a; i++) {
        struct window_extent w = {.size = kernel[i + 2],
                                  .stride = in->a[i],
                                  .low = in->b[i],
                                  .high = in->c[i],
                                  .window_dilation = c ? c->window_dilation[i] : 1,
                                  .base_dilation = c ? c->base_dilation[i] : 1};
        bool cut = w.low < 0 || w.high < 0;
        result[i + 2] = cut && !c ? -1 : positions(x[i + 2], &w);
        if (result[i + 2] < 0)
            return BAD("its window along spatial dimension %d is not possible", i);
    }
    return 0;
}

int infer_convolution(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    int rank = s[0].rank, n = rank - 2;
    int64_t x[SHAPE_MAX_RANK] = {0}, kernel[SHAPE_MAX_RANK] = {0}, result[SHAPE_MAX_RANK] = {0};
    const struct convolution *c = in->convolution;
    *out = (struct shape){.dtype = in->shape.dtype, .rank = rank};
    if (n < 1 || s[1].rank != rank || in->n_a != n)
        return BAD("takes x [batch, spatial..., in], a kernel [out, in, spatial...] and a stride per spatial "
                   "dimension");
    if (!(infer_type_class(s[0].dtype) & TYPES_FLOAT) || s[0].dtype != s[1].dtype || !dtype_is_float(out->dtype))
        return BAD("of %s by %s cannot give %s", dtype_name(s[0].dtype), dtype_name(s[1].dtype),
                   dtype_name(out->dtype));
    if ((unsigned)in->dot.precision > PRECISION_HIGHEST)
        return BAD("precision %d is not known", (int)in->dot.precision);
    if (c && (!is_permutation(c->input, rank) || !is_permutation(c->kernel, rank) || !is_permutation(c->output, rank)))
        return BAD("its dimension numbers are out of range or repeated");
    for (int i = 0; i < rank; i++) {
        int plain = i == 0 ? 0 : i == 1 ? rank - 1 : i - 1; // batch, feature, then the spatial ones
        x[i] = s[0].dims[c ? c->input[i] : plain];
        kernel[i] = s[1].dims[c ? c->kernel[i] : i];
    }
    int rc = convolve(in, x, kernel, result, err);
    for (int i = 0; i < rank && !rc; i++)
        out->dims[c ? c->output[i] : i == 0 ? 0 : i == 1 ? rank - 1 : i - 1] = result[i];
    return rc;
}

int infer_window(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    struct shape moved = s[0];
    const struct shape *init = &s[in->n_operands - 1];
    if (!in->window)
        return BAD("has no window");
    if (init->rank != 0 || init->dtype != s[0].dtype)
        return BAD("its initial value is not a scalar of the same type");
    if (!infer_op_reduces(in->reducer) || !(infer_type_class(s[0].dtype) & op_info(in->reducer)->types))
        return BAD("cannot reduce %s by %s", dtype_name(s[0].dtype), op_info(in->reducer)->name);
    for (int i = 0; i < s[0].rank; i++) {
        moved.dims[i] = positions(s[0].dims[i], &in->window[i]);
        if (moved.dims[i] < 0)
            return BAD("its window along dimension %d is not possible", i);
    }
    *out = moved;
    if (in->op == OP_REDUCE_WINDOW)
        return 0;
    if (!shape_equal(&s[1], &moved))
        return BAD("has a source of another shape than its windows give");
    if ((unsigned)in->compare > CMP_LT)
        return BAD("direction %d is not known", (int)in->compare);
    *out = s[0];
    return 0;
}

static bool in_range(const int *dims, int n, int rank)
{
    unsigned seen = 0;
    if (n < 0 || n > SHAPE_MAX_RANK)
        return false;
    for (int i = 0; i < n; i++) {
        if (dims[i] < 0 || dims[i] >= rank || seen & 1u << dims[i])
            return false;
        seen |= 1u << dims[i];
    }
    return true;
}

// Dimensions of the indices without the vectors, in order; how many numbers a vector has.
static int index_dimensions(const struct shape *indices, int vector, int64_t *dims, int64_t *length)
{
    int n = 0;
    *length = vector == indices->rank ? 1 : indices->dims[vector];
    for (int i = 0; i < indices->rank; i++) {
        if (i != vector)
            dims[n++] = indices->dims[i];
    }
    return n;
}

// What a gather from x gives, and what updates a scatter into x needs: windows at the offset dimensions, the extents of
// the indices at the others. Windows have the sizes of in->a, of a scatter (which has none) any up to x's.
static int indexed_shape(const struct instruction *in, const struct shape *x, const struct shape *indices,
                         const struct shape *updates, struct shape *out, struct error *err)
{
    const struct indexing *g = in->indexing;
    int64_t outer[SHAPE_MAX_RANK] = {0}, length;
    unsigned gone = 0, offsets = 0;
    if (!g || !dtype_is_integer(indices->dtype) || g->vector < 0 || g->vector > indices->rank)
        return BAD("needs integer indices and dimension numbers");
    int n_outer = index_dimensions(indices, g->vector, outer, &length), rank = n_outer + g->n_offset, at = 0;
    if (rank > SHAPE_MAX_RANK || !in_range(g->offset, g->n_offset, rank) ||
        !in_range(g->collapsed, g->n_collapsed, x->rank) || !in_range(g->start, g->n_start, x->rank) ||
        !in_range(g->operand_batching, g->n_batching, x->rank) ||
        !in_range(g->indices_batching, g->n_batching, indices->rank) || g->n_start != length ||
        g->n_offset != x->rank - g->n_collapsed - g->n_batching)
        return BAD("its dimension numbers are out of range, repeated or do not fit each other");
    for (int i = 0; i < g->n_collapsed; i++)
        gone |= 1u << g->collapsed[i];
    for (int i = 0; i < g->n_batching; i++) {
        int d = g->operand_batching[i], e = g->indices_batching[i];
        if (gone & 1u << d || e == g->vector || x->dims[d] != indices->dims[e])
            return BAD("batches a dimension that it also collapses, or extents that differ");
        gone |= 1u << d;
    }
    for (int i = 0; i < g->n_offset; i++)
        offsets |= 1u << g->offset[i];
    *out = (struct shape){.dtype = x->dtype, .rank = rank};
    for (int i = 0, k = 0; i < rank; i++) {
        if (!(offsets & 1u << i)) {
            out->dims[i] = outer[k++];
            continue;
        }
        while (at < x->rank && gone & 1u << at)
            at++;
        if (at >= x->rank)
            return BAD("its dimension numbers do not fit each other");
        out->dims[i] = updates ? updates->dims[i] : in->a[at];
        if (out->dims[i] < 0 || out->dims[i] > x->dims[at])
            return BAD("takes %" PRId64 " of %" PRId64 " along dimension %d", out->dims[i], x->dims[at], at);
        at++;
    }
    for (int i = 0; i < x->rank && !updates; i++) {
        if (gone & 1u << i && (in->a[i] < 0 || in->a[i] > 1 || in->a[i] > x->dims[i]))
            return BAD("collapses %" PRId64 " elements of dimension %d", in->a[i], i);
    }
    return 0;
}

int infer_indexed(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    struct shape want;
    bool scatter = in->op == OP_SCATTER;
    if (!scatter && in->n_a != s[0].rank)
        return BAD("has sizes for %d of %d dimensions", in->n_a, s[0].rank);
    if (scatter && in->indexing && s[2].rank > SHAPE_MAX_RANK)
        return BAD("its updates have too many dimensions");
    int rc = indexed_shape(in, &s[0], &s[1], scatter ? &s[2] : NULL, scatter ? &want : out, err);
    if (rc || !scatter)
        return rc;
    if (!shape_equal(&want, &s[2]))
        return BAD("has updates of another shape than its indices give");
    bool joins = infer_op_reduces(in->reducer) && infer_type_class(s[0].dtype) & op_info(in->reducer)->types;
    if (!joins && in->reducer != OP_PARAMETER)
        return BAD("cannot join %s by %s", dtype_name(s[0].dtype), op_info(in->reducer)->name);
    *out = s[0];
    return 0;
}

static int infer_reduce_many(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    unsigned gone = 0;
    int n = in->n_operands / 2;
    if (in->n_operands % 2)
        return BAD("needs an initial value for each operand");
    for (int k = 0; k < n; k++) {
        if (!shape_same_dims(&s[k], &s[0]) || s[n + k].rank != 0 || s[n + k].dtype != s[k].dtype)
            return BAD("operand %d does not fit the first, or its initial value", k);
    }
    int rc = infer_dimensions(in, &s[0], &gone, err);
    *out = (struct shape){.dtype = s[0].dtype};
    for (int i = 0; i < s[0].rank && !rc; i++) {
        if (!(gone & 1u << i))
            out->dims[out->rank++] = s[0].dims[i];
    }
    return rc;
}

int infer_many(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    *out = s[0];
    switch (in->op) {
    case OP_SORT:
        if (in->axis < 0 || in->axis >= s[0].rank)
            return BAD("has no dimension %" PRId64, in->axis);
        for (int k = 1; k < in->n_operands; k++) {
            if (!shape_same_dims(&s[k], &s[0]))
                return BAD("operand %d does not fit the first", k);
        }
        return 0;
    case OP_REDUCE_MANY:
        return infer_reduce_many(in, s, out, err);
    case OP_TOP_K:
        if (s[0].rank < 1 || in->a[0] < 0 || in->a[0] > s[0].dims[s[0].rank - 1] || s[0].dtype == DT_PRED)
            return BAD("takes %" PRId64 " of the last dimension", in->a[0]);
        out->dims[out->rank - 1] = in->a[0];
        return 0;
    case OP_RNG_BITS:
        if (infer_type_class(in->shape.dtype) != TYPES_UNSIGNED || infer_type_class(s[0].dtype) != TYPES_UNSIGNED ||
            s[0].rank != 1 || in->a[0] < 0 || in->a[0] > 2)
            return BAD("makes unsigned integers from a state of such");
        *out = in->shape;
        return 0;
    case OP_CASE:
        *out = in->shape; // checked against what the branches return
        return s[0].rank || (s[0].dtype != DT_PRED && s[0].dtype != DT_S32) ? BAD("chooses by an s32 or pred scalar")
                                                                            : 0;
    default:
        return 0;
    }
}
