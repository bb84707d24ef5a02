// SPDX-License-Identifier: Apache-2.0
// Products with a matrix, with the scales of quantised ones and the rounding of the result.
#include <stdio.h>

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

// Above this many rows XLA multiplies s8 as fast as oneDNN does, and applies factors on the way (1536 rows: 880 GOP/s
// both); below it falls behind (64 rows: 195).
#define MOST_ROWS_OF_S8 128

static int64_t rows_of(const struct shape *x)
{
    int64_t n = 1;
    for (int d = 0; d < x->rank - 1; d++)
        n *= x->dims[d];
    return n;
}

bool choose_product(const struct chooser *c, int i, struct choice *out)
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
    if (type == DT_S8 && rows_of(&chooser_at(c, x)->shape) > MOST_ROWS_OF_S8)
        return false;
    if (!types_fit(type, product->shape.dtype) || chooser_at(c, w)->shape.dtype != type ||
        (scaled ? type == DT_F32 : product->shape.dtype != result && product->shape.dtype != DT_F32) ||
        (type == DT_F32 && result != DT_F32))
        return false;
    int codes = type == DT_BF16 && rows_are_outputs ? chooser_from(c, w, OP_CONVERT, 0, false) : -1;
    if (codes >= 0 && chooser_at(c, codes)->shape.dtype == DT_S8)
        w = codes;
    *out = (struct choice){.kind = KERNEL_PRODUCT};
    chooser_operand(c, out, x);
    chooser_operand(c, out, w);
    if (rows >= 0)
        chooser_vector(c, out, rows);
    if (outputs >= 0)
        chooser_vector(c, out, outputs);
    snprintf(out->attributes, sizeof out->attributes, "rows_are_outputs = %d : i64, scales = %d : i64",
             rows_are_outputs, (rows >= 0 ? 1 : 0) + (outputs >= 0 ? 2 : 0));
    return true;
}
