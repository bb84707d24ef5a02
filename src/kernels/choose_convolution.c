// SPDX-License-Identifier: Apache-2.0
// Convolutions over images with bias, residual and the rounding of the result.
#include <inttypes.h>
#include <stdio.h>

#include "kernels/choose_part.h"

static bool is_convolution(const struct chooser *c, int i)
{
    const struct instruction *in = chooser_at(c, i);
    if (in->op != OP_CONVOLUTION || in->convolution || in->shape.rank != 4 || in->axis != 1 ||
        in->shape.dtype != DT_F32)
        return false;
    const struct shape *w = &chooser_at(c, in->operands[1])->shape;
    double taps = (double)w->dims[1] * (double)w->dims[2] * (double)w->dims[3];
    return (w->dtype == DT_BF16 || w->dtype == DT_F32) && taps > 0 &&
           2 * (double)shape_elements(&in->shape) * taps >= c->least_flop;
}

// The convolution that i is, or whose sums it adds a bias per channel to (*bias, else -1); -1: neither.
static int sums_of(const struct chooser *c, int i, int *bias)
{
    *bias = -1;
    if (is_convolution(c, i))
        return i;
    int x = chooser_from(c, i, OP_ADD, 0, true);
    int vector = x < 0 ? -1 : chooser_spread(c, chooser_at(c, i)->operands[1], false);
    if (vector < 0 || !is_convolution(c, x))
        return -1;
    *bias = vector;
    return x;
}

// The image every pixel of which i repeats in both directions, else -1.
static int doubled(const struct chooser *c, int i)
{
    static const int dims[4] = {0, 1, 3, 5};
    int spread = chooser_from(c, i, OP_RESHAPE, 0, false), x = chooser_from(c, spread, OP_BROADCAST, 0, false);
    if (x < 0 || chooser_at(c, x)->shape.rank != 4)
        return -1;
    const struct instruction *in = chooser_at(c, spread);
    const struct shape *s = &chooser_at(c, x)->shape, *out = &chooser_at(c, i)->shape;
    bool fits = in->shape.rank == 6 && in->shape.dims[2] == 2 && in->shape.dims[4] == 2 && out->rank == 4 &&
                out->dims[1] == 2 * s->dims[1] && out->dims[2] == 2 * s->dims[2] && out->dims[3] == s->dims[3];
    for (int d = 0; d < 4; d++)
        fits = fits && in->a[d] == dims[d] && in->shape.dims[dims[d]] == s->dims[d];
    return fits ? x : -1;
}

static bool is_three_by_three(const struct chooser *c, const struct instruction *conv)
{
    const struct shape *w = &chooser_at(c, conv->operands[1])->shape;
    bool fits = true;
    for (int i = 0; i < 2; i++)
        fits = fits && w->dims[i + 2] == 3 && conv->a[i] == 1 && conv->b[i] == 1 && conv->c[i] == 1;
    return fits;
}

bool choose_convolution(const struct chooser *c, int i, struct choice *out)
{
    const struct instruction *in = chooser_at(c, i);
    int y = in->shape.dtype == DT_BF16 ? chooser_from(c, i, OP_CONVERT, 0, true) : -1, bias, residual = -1;
    y = y < 0 ? i : y;
    int sums = sums_of(c, y, &bias);
    for (int side = 0; side < 2 && sums < 0; side++) {
        int added = chooser_from(c, y, OP_ADD, side, true);
        residual = added < 0 ? -1 : chooser_at(c, y)->operands[1 - side];
        sums = added < 0 ? -1 : sums_of(c, added, &bias);
    }
    if (sums < 0 || (in->shape.dtype != DT_BF16 && in->shape.dtype != DT_F32))
        return false;
    const struct instruction *conv = chooser_at(c, sums);
    int narrow = residual < 0 ? -1 : chooser_from(c, residual, OP_CONVERT, 0, false);
    if (narrow >= 0 && chooser_at(c, narrow)->shape.dtype == DT_BF16)
        residual = narrow;
    int small = residual < 0 && is_three_by_three(c, conv) ? doubled(c, conv->operands[0]) : -1;
    *out = (struct choice){.kind = KERNEL_CONVOLUTION};
    chooser_operand(c, out, small >= 0 ? small : conv->operands[0]);
    chooser_operand(c, out, conv->operands[1]);
    if (bias >= 0)
        chooser_vector(c, out, bias);
    if (residual >= 0)
        chooser_operand(c, out, residual);
    snprintf(out->attributes, sizeof out->attributes,
             "adds = %d : i64, twice = %d : i64, stride_0 = %" PRId64 " : i64, stride_1 = %" PRId64
             " : i64, low_0 = %" PRId64 " : i64, low_1 = %" PRId64 " : i64, high_0 = %" PRId64
             " : i64, high_1 = %" PRId64 " : i64",
             (bias >= 0 ? 1 : 0) + (residual >= 0 ? 2 : 0), small >= 0, conv->a[0], conv->a[1], conv->b[0], conv->b[1],
             conv->c[0], conv->c[1]);
    return true;
}
