// SPDX-License-Identifier: Apache-2.0
// Products with a matrix, with the scales of quantised ones, the rounding of the result, and the residual to which it
// is added, times a gate where there is one.
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "kernels/choose_part.h"

// x [..., k] by w [n, k] or [k, n], both of rank 2 or x of more.
static bool is_matrix_product(const struct chooser *c, int i, bool *rows_are_outputs)
{
    const struct instruction *in = chooser_at(c, i);
    if (in->op != OP_DOT || in->dot.n_batch || in->dot.n_contract != 1)
        return false;
    const struct shape *x = &chooser_at(c, in->operands[0])->shape, *w = &chooser_at(c, in->operands[1])->shape;
    *rows_are_outputs = in->dot.rhs_contract[0] == 1;
    return w->rank == 2 && in->dot.lhs_contract[0] == x->rank - 1 &&
           2 * (double)shape_elements(&in->shape) * (double)x->dims[x->rank - 1] >= c->least_flop;
}

static bool types_fit(enum dtype x, enum dtype out)
{
    return x == DT_BF16 ? out == DT_F32 || out == DT_BF16 : x == DT_F32 ? out == DT_F32 : x == DT_S8 && out == DT_S32;
}

// The factors of x times a vector that is spread over it: x in *i, and f, or -1 with *i as it was.
static int factors(const struct chooser *c, int *i, bool leading)
{
    int x = chooser_from(c, *i, OP_MULTIPLY, 0, true), by = chooser_from(c, *i, OP_MULTIPLY, 1, false);
    int f = x < 0 ? -1 : chooser_spread(c, by, leading);
    if (f >= 0)
        *i = x;
    return f;
}

static bool is_splat(const struct chooser *c, int i, double value)
{
    const struct instruction *in = chooser_at(c, i);
    return in->op == OP_CONSTANT && in->constant == CONST_SPLAT && in->splat == value;
}

// The activations whose codes i is, by the largest magnitude of each row, as ir/policy_activations.c makes them, when
// `factor` is the factor of the same; else -1.
static int quantised(const struct chooser *c, int i, int factor)
{
    int clamped = chooser_from(c, i, OP_CONVERT, 0, false), code = chooser_from(c, clamped, OP_CLAMP, 1, false);
    int ratio = chooser_from(c, code, OP_ROUND_NEAREST_EVEN, 0, false);
    int x = chooser_from(c, ratio, OP_DIVIDE, 0, false), by = chooser_from(c, ratio, OP_DIVIDE, 1, false);
    if (x < 0 || chooser_spread(c, by, true) != factor || chooser_at(c, factor)->op != OP_SELECT ||
        !is_splat(c, chooser_at(c, clamped)->operands[0], -127) ||
        !is_splat(c, chooser_at(c, clamped)->operands[2], 127))
        return -1;
    const int *choice = chooser_at(c, factor)->operands;
    double top = 0, least = 0, none = -1;
    int scale = chooser_with_scalar(c, choice[2], OP_MAXIMUM, &least);
    int range = chooser_with_scalar(c, scale, OP_DIVIDE, &top);
    int most = chooser_from(c, range, OP_REDUCE, 0, false), wide = chooser_from(c, most, OP_ABS, 0, false);
    if (wide < 0 || chooser_with_scalar(c, choice[0], OP_COMPARE, &none) != range || none != 0 ||
        chooser_at(c, choice[0])->compare != CMP_EQ || !is_splat(c, choice[1], 1) || top != 127 ||
        least != (double)FLT_MIN || chooser_narrow(c, wide) != chooser_narrow(c, x))
        return -1;
    const struct instruction *in = chooser_at(c, range);
    x = chooser_narrow(c, x);
    const struct shape *s = &chooser_at(c, x)->shape;
    return in->reducer == OP_MAXIMUM && in->n_a == 1 && in->a[0] == s->rank - 1 &&
                   (s->dtype == DT_BF16 || s->dtype == DT_F32)
               ? x
               : -1;
}

// A product by itself: scaled, rounded.
static bool choose_sums(const struct chooser *c, int i, struct choice *out)
{
    const struct instruction *in = chooser_at(c, i);
    enum dtype result = in->shape.dtype;
    int dot = chooser_from(c, i, OP_CONVERT, 0, true), outputs = -1, rows = -1;
    bool rows_are_outputs;
    if (dot < 0 || result != DT_BF16)
        dot = i; // nothing to round
    bool scalable = chooser_at(c, dot)->shape.dtype == DT_F32;
    if (scalable) {
        outputs = factors(c, &dot, false);
        rows = factors(c, &dot, true);
        int sums = chooser_from(c, dot, OP_CONVERT, 0, true); // s32 to f32
        if (sums >= 0 && (outputs >= 0 || rows >= 0) && chooser_at(c, sums)->shape.dtype == DT_S32)
            dot = sums;
    }
    if (!is_matrix_product(c, dot, &rows_are_outputs))
        return false;
    const struct instruction *product = chooser_at(c, dot);
    int x = product->operands[0], w = product->operands[1];
    enum dtype type = chooser_at(c, x)->shape.dtype;
    bool scaled = rows >= 0 || outputs >= 0;
    if (!types_fit(type, product->shape.dtype) || chooser_at(c, w)->shape.dtype != type ||
        (scaled ? type == DT_F32 : product->shape.dtype != result && product->shape.dtype != DT_F32) ||
        (type == DT_F32 && result != DT_F32))
        return false;
    struct coded coded;
    if (!rows_are_outputs || !choose_codes(c, w, &coded))
        coded = (struct coded){w, -1, false};
    int made = type == DT_S8 && rows >= 0 ? quantised(c, x, rows) : -1;
    if (made >= 0)
        x = made, rows = -1;
    *out = (struct choice){.kind = KERNEL_PRODUCT};
    chooser_operand(c, out, x);
    choose_codes_operands(c, &coded, out);
    if (rows >= 0)
        chooser_vector(c, out, rows);
    if (outputs >= 0)
        chooser_vector(c, out, outputs);
    snprintf(out->attributes, sizeof out->attributes,
             "rows_are_outputs = %d : i64, scales = %d : i64, quantise = %d : i64, packed = %d : i64", rows_are_outputs,
             (rows >= 0 ? 1 : 0) + (outputs >= 0 ? 2 : 0) + (coded.scales >= 0 ? 4 : 0), made >= 0, coded.packed);
    return true;
}

// residual + product or residual + gate * product, in f32, rounded at the end; the product is on that side.
static bool choose_added(const struct chooser *c, int i, int side, struct choice *out)
{
    enum dtype type = chooser_at(c, i)->shape.dtype;
    int sum = type == DT_BF16 ? chooser_from(c, i, OP_CONVERT, 0, true) : i, gate = -1;
    int y = sum < 0 || chooser_at(c, sum)->shape.dtype != DT_F32 ? -1 : chooser_from(c, sum, OP_ADD, side, true);
    if (y < 0)
        return false;
    int residual = chooser_narrow(c, chooser_at(c, sum)->operands[1 - side]);
    enum dtype added = chooser_at(c, residual)->shape.dtype;
    if ((added != DT_BF16 && added != DT_F32) || chooser_at(c, residual)->op == OP_BROADCAST ||
        chooser_at(c, residual)->op == OP_CONSTANT) // a bias: it would be written out
        return false;
    int rounded = -1;
    bool found = false;
    for (int factor = -1; factor < 2 && !found; factor++) {
        int by = factor < 0 ? -1 : chooser_from(c, y, OP_MULTIPLY, factor, false);
        gate = by < 0 ? -1 : chooser_over_tokens(c, by);
        int product = factor < 0 ? y : gate < 0 ? -1 : chooser_from(c, y, OP_MULTIPLY, 1 - factor, true);
        rounded = chooser_from(c, product, OP_CONVERT, 0, true);
        if (rounded >= 0 && chooser_at(c, rounded)->shape.dtype == DT_BF16)
            product = rounded;
        else
            rounded = -1;
        found = product >= 0 && choose_sums(c, product, out);
    }
    const struct shape *x = &out->shapes[0];
    if (!found || x->dims[x->rank - 1] == 0 || (x->dtype == DT_F32 && out->shapes[1].dtype == DT_F32 && type != DT_F32))
        return false;
    if (gate >= 0)
        chooser_vector(c, out, gate);
    chooser_operand(c, out, residual);
    size_t used = strlen(out->attributes);
    snprintf(out->attributes + used, sizeof out->attributes - used, ", adds = %d : i64, rounded = %d : i64",
             (gate >= 0 ? 1 : 0) + 2, rounded >= 0);
    return true;
}

bool choose_product(const struct chooser *c, int i, struct choice *out)
{
    return choose_added(c, i, 0, out) || choose_added(c, i, 1, out) || choose_sums(c, i, out);
}
