// SPDX-License-Identifier: Apache-2.0
// Attention as part_attention writes it (models/parts.h): scores by group of heads, scaled, masked, their softmax, and
// the values it weighs.
#include <stdio.h>

#include "kernels/choose_part.h"

// What stands behind broadcast i when its operand's dimensions are all of the result's but the last.
static int along_last(const struct chooser *c, int i)
{
    int x = chooser_from(c, i, OP_BROADCAST, 0, true);
    const struct instruction *in = x < 0 ? NULL : chooser_at(c, i);
    if (!in || in->n_a != in->shape.rank - 1)
        return -1;
    for (int d = 0; d < in->n_a; d++) {
        if (in->a[d] != d)
            return -1;
    }
    return x;
}

// The operand that reduction i reduces along its last dimension.
static int reduced(const struct chooser *c, int i, enum opcode by)
{
    int x = chooser_from(c, i, OP_REDUCE, 0, false);
    if (x < 0)
        return -1;
    const struct instruction *in = chooser_at(c, i);
    return in->reducer == by && in->n_a == 1 && in->a[0] == chooser_at(c, x)->shape.rank - 1 ? x : -1;
}

// The scores whose softmax i is, or -1: e / sum(e) with e = exp(scores - max(scores)).
static int softmax_of(const struct chooser *c, int i)
{
    int e = chooser_from(c, i, OP_DIVIDE, 0, false), sum = chooser_from(c, i, OP_DIVIDE, 1, true);
    if (e < 0 || c->uses[e] != 2 || reduced(c, along_last(c, sum), OP_ADD) != e)
        return -1;
    int difference = chooser_from(c, e, OP_EXP, 0, true);
    int scores = chooser_from(c, difference, OP_SUBTRACT, 0, false);
    int top = chooser_from(c, difference, OP_SUBTRACT, 1, true);
    return scores >= 0 && c->uses[scores] == 2 && reduced(c, along_last(c, top), OP_MAXIMUM) == scores ? scores : -1;
}

static bool is_splat(const struct chooser *c, int i, enum constant_kind kind)
{
    return i >= 0 && chooser_at(c, i)->op == OP_CONSTANT && chooser_at(c, i)->constant == kind;
}

// The mask [batch, tokens, keys] behind its broadcast to the scores, else -1.
static int mask_of(const struct chooser *c, int i)
{
    int mask = chooser_from(c, i, OP_BROADCAST, 0, false);
    const struct instruction *in = mask < 0 ? NULL : chooser_at(c, i);
    if (!in || in->n_a != 3 || in->a[0] != 0 || in->a[1] != 2 || in->a[2] != 4)
        return -1;
    const struct shape *s = &chooser_at(c, mask)->shape;
    for (int d = 0; d < 3; d++) {
        if (s->dims[d] != in->shape.dims[in->a[d]])
            return -1;
    }
    return mask;
}

// Batched by the dimensions given of x and y, contracted over one of each.
static bool is_dot(const struct chooser *c, int i, const int x_batch[2], const int y_batch[2], int x_last, int y_dim)
{
    if (i < 0 || chooser_at(c, i)->op != OP_DOT)
        return false;
    const struct instruction *in = chooser_at(c, i);
    bool fits = in->shape.rank == 5 && in->shape.dtype == DT_F32 && in->dot.n_batch == 2 && in->dot.n_contract == 1 &&
                in->dot.lhs_contract[0] == x_last && in->dot.rhs_contract[0] == y_dim;
    for (int k = 0; k < 2; k++)
        fits = fits && in->dot.lhs_batch[k] == x_batch[k] && in->dot.rhs_batch[k] == y_batch[k];
    return fits;
}

// Scores before the softmax: product, scale and mask.
static bool read_scores(const struct chooser *c, int i, int *dot, double *scale, int *mask)
{
    *mask = -1;
    if (chooser_at(c, i)->op == OP_SELECT) {
        *mask = mask_of(c, chooser_at(c, i)->operands[0]);
        if (*mask < 0 || !is_splat(c, chooser_at(c, i)->operands[2], CONST_LOWEST))
            return false;
        i = chooser_from(c, i, OP_SELECT, 1, true);
    }
    *dot = chooser_from(c, i, OP_MULTIPLY, 0, true);
    int by = chooser_from(c, i, OP_MULTIPLY, 1, false);
    if (*dot < 0 || !is_splat(c, by, CONST_SPLAT))
        return false;
    *scale = chooser_at(c, by)->splat;
    return *scale > 0 && is_dot(c, *dot, (int[]){0, 2}, (int[]){0, 2}, 4, 3);
}

static bool swaps_heads_and_tokens(const struct instruction *in)
{
    static const int want[5] = {0, 2, 1, 3, 4};
    bool yes = in->n_a == 5;
    for (int d = 0; d < 5 && yes; d++)
        yes = in->a[d] == want[d];
    return yes;
}

bool choose_attention(const struct chooser *c, int i, struct choice *out)
{
    const struct instruction *in = chooser_at(c, i);
    int y = in->shape.dtype == DT_BF16 ? chooser_from(c, i, OP_CONVERT, 0, true) : -1, scores, mask;
    int turned = chooser_from(c, y < 0 ? i : y, OP_RESHAPE, 0, true);
    int values = turned < 0 || !swaps_heads_and_tokens(chooser_at(c, turned))
                     ? -1
                     : chooser_from(c, turned, OP_TRANSPOSE, 0, true);
    double scale;
    if (!is_dot(c, values, (int[]){0, 1}, (int[]){0, 2}, 4, 1))
        return false;
    int p = chooser_at(c, values)->operands[0], v = chooser_at(c, values)->operands[1];
    if (c->uses[p] != 1)
        return false;
    int wide = chooser_from(c, p, OP_CONVERT, 0, true);
    int before = softmax_of(c, wide < 0 ? p : wide);
    if (before < 0 || !read_scores(c, before, &scores, &scale, &mask))
        return false;
    int q = chooser_from(c, scores, OP_DOT, 0, false), k = chooser_at(c, scores)->operands[1];
    enum dtype type = chooser_at(c, q)->shape.dtype;
    const struct shape *all = &chooser_at(c, q)->shape, *keys = &chooser_at(c, k)->shape;
    if ((type != DT_BF16 && type != DT_F32) || keys->dtype != type || chooser_at(c, v)->shape.dtype != type ||
        chooser_at(c, p)->shape.dtype != type || all->rank != 5 || keys->rank != 4 ||
        (in->shape.dtype != DT_F32 && in->shape.dtype != type) ||
        4 * (double)shape_elements(all) * (double)keys->dims[1] < c->least_flop)
        return false;
    *out = (struct choice){.kind = KERNEL_ATTENTION};
    chooser_operand(c, out, q);
    out->shapes[0] =
        shape_of(type, 4, (int64_t[]){all->dims[0], all->dims[1], all->dims[2] * all->dims[3], all->dims[4]});
    chooser_operand(c, out, k);
    chooser_operand(c, out, v);
    if (mask >= 0)
        chooser_operand(c, out, mask);
    snprintf(out->attributes, sizeof out->attributes, "scale = %.17e : f64", scale);
    return true;
}
