// SPDX-License-Identifier: Apache-2.0
// Weights that are codes until a product in bf16 reads them, as ir/policy_weights.c writes it.
#include "kernels/choose_part.h"

static bool is_matrix(const struct chooser *c, int i, enum dtype t)
{
    return i >= 0 && chooser_at(c, i)->shape.dtype == t && chooser_at(c, i)->shape.rank == 2;
}

// What i was before it was shifted by 4 bits, else -1.
static int shifted(const struct chooser *c, int i, enum opcode op)
{
    double bits = 0;
    int x = chooser_with_scalar(c, i, op, &bits);
    return bits == 4 ? x : -1;
}

// The bytes [n, k/2] whose two codes each, low nibble first, are the s8 of i; else -1.
static int packed(const struct chooser *c, int i)
{
    int both = chooser_from(c, i, OP_RESHAPE, 0, false);
    int low = chooser_from(c, chooser_from(c, both, OP_CONCATENATE, 0, false), OP_RESHAPE, 0, false);
    int high = chooser_from(c, chooser_from(c, both, OP_CONCATENATE, 1, false), OP_RESHAPE, 0, false);
    int x = shifted(c, high, OP_SHIFT_RIGHT_ARITHMETIC);
    int bytes = chooser_from(c, x, OP_BITCAST_CONVERT, 0, false);
    if (!is_matrix(c, bytes, DT_U8) || shifted(c, shifted(c, low, OP_SHIFT_RIGHT_ARITHMETIC), OP_SHIFT_LEFT) != x)
        return -1;
    const struct instruction *pair = chooser_at(c, both);
    const struct shape *b = &chooser_at(c, bytes)->shape, *s = &chooser_at(c, i)->shape;
    const struct shape *one = &chooser_at(c, pair->operands[0])->shape;
    bool fits = pair->n_operands == 2 && pair->shape.rank == 3 && pair->shape.dims[0] == b->dims[0] &&
                pair->shape.dims[1] == b->dims[1] && pair->shape.dims[2] == 2 && one->dims[2] == 1 &&
                s->dims[0] == b->dims[0];
    return fits ? bytes : -1;
}

// The f32 [n, k] whose products with a scale per group of columns of a row, [n, groups], i is; else -1.
static int unscaled(const struct chooser *c, int i, int *scales)
{
    int y = chooser_from(c, i, OP_RESHAPE, 0, false), by = chooser_from(c, y, OP_MULTIPLY, 1, false);
    int x = chooser_from(c, chooser_from(c, y, OP_MULTIPLY, 0, false), OP_RESHAPE, 0, false);
    *scales = by < 0 ? -1 : chooser_spread(c, by, true);
    if (!is_matrix(c, x, DT_F32) || *scales < 0)
        return -1;
    const struct shape *split = &chooser_at(c, y)->shape, *s = &chooser_at(c, i)->shape;
    return split->rank == 3 && split->dims[0] == s->dims[0] && shape_same_dims(&chooser_at(c, x)->shape, s) ? x : -1;
}

bool choose_codes(const struct chooser *c, int w, struct coded *out)
{
    int wide = is_matrix(c, w, DT_BF16) ? chooser_from(c, w, OP_CONVERT, 0, false) : -1;
    *out = (struct coded){.scales = -1};
    if (is_matrix(c, wide, DT_F32)) {
        int x = unscaled(c, wide, &out->scales);
        wide = x < 0 ? -1 : chooser_from(c, x, OP_CONVERT, 0, false);
    }
    if (!is_matrix(c, wide, DT_S8))
        return false;
    int bytes = packed(c, wide);
    out->packed = bytes >= 0;
    out->codes = bytes >= 0 ? bytes : wide;
    return true;
}

void choose_codes_operands(const struct chooser *c, const struct coded *w, struct choice *out)
{
    chooser_operand(c, out, w->codes);
    if (w->scales >= 0)
        chooser_vector(c, out, w->scales);
}
