// SPDX-License-Identifier: Apache-2.0
// Group normalisation as part_group_norm writes it (models/parts.h), with silu behind it, and layer normalisation as
// part_layer_norm does, with a scale and a shift behind it.
#include <inttypes.h>
#include <stdio.h>

#include "kernels/choose_part.h"

// Passes over an image that XLA makes where the kernel makes three: about as many FLOP per value as products pay with.
#define FLOP_PER_VALUE 32

// The value whose mean over rows, columns and the channels of a group i is.
static int mean_of(const struct chooser *c, int i)
{
    double n = 0;
    int sum = chooser_with_scalar(c, i, OP_DIVIDE, &n);
    int x = chooser_from(c, sum, OP_REDUCE, 0, false);
    if (x < 0)
        return -1;
    const struct instruction *in = chooser_at(c, sum);
    const struct shape *s = &chooser_at(c, x)->shape;
    bool fits =
        in->reducer == OP_ADD && in->n_a == 3 && in->a[0] == 1 && in->a[1] == 2 && in->a[2] == 4 && s->rank == 5;
    return fits && n == (double)(s->dims[1] * s->dims[2] * s->dims[4]) ? x : -1;
}

// What is spread from [batch, groups] over all, else -1.
static int per_group(const struct chooser *c, int i)
{
    int x = chooser_from(c, i, OP_BROADCAST, 0, false);
    const struct instruction *in = x < 0 ? NULL : chooser_at(c, i);
    return in && in->n_a == 2 && in->a[0] == 0 && in->a[1] == 3 ? x : -1;
}

// The values [batch, rows, columns, groups, channels of one] whose normalisation i is, and eps.
static int normalised(const struct chooser *c, int i, double *eps)
{
    int centred = chooser_from(c, i, OP_MULTIPLY, 0, false);
    int root = per_group(c, chooser_from(c, i, OP_MULTIPLY, 1, false));
    int square = mean_of(c, chooser_with_scalar(c, chooser_from(c, root, OP_RSQRT, 0, false), OP_ADD, eps));
    if (centred < 0 || chooser_from(c, square, OP_MULTIPLY, 0, false) != centred ||
        chooser_from(c, square, OP_MULTIPLY, 1, false) != centred)
        return -1;
    int x = chooser_from(c, centred, OP_SUBTRACT, 0, false);
    int summed = mean_of(c, per_group(c, chooser_from(c, centred, OP_SUBTRACT, 1, false)));
    return x >= 0 && summed >= 0 && chooser_narrow(c, x) == chooser_narrow(c, summed) ? chooser_narrow(c, x) : -1;
}

bool choose_group_norm(const struct chooser *c, int i, struct choice *out)
{
    const struct instruction *in = chooser_at(c, i);
    if (in->shape.rank != 4 || (in->shape.dtype != DT_BF16 && in->shape.dtype != DT_F32))
        return false;
    int y = in->shape.dtype == DT_BF16 ? chooser_from(c, i, OP_CONVERT, 0, true) : i;
    int logistic = chooser_from(c, y, OP_MULTIPLY, 1, true);
    bool silu = logistic >= 0 && chooser_at(c, logistic)->op == OP_LOGISTIC &&
                chooser_at(c, logistic)->operands[0] == chooser_at(c, y)->operands[0];
    y = silu ? chooser_at(c, y)->operands[0] : y;
    int scaled = chooser_from(c, y, OP_ADD, 0, true), beta = chooser_from(c, y, OP_ADD, 1, false);
    int flat = chooser_from(c, scaled, OP_MULTIPLY, 0, true), gamma = chooser_from(c, scaled, OP_MULTIPLY, 1, false);
    double eps = 0;
    int split = normalised(c, chooser_from(c, flat, OP_RESHAPE, 0, true), &eps);
    int x = split < 0 ? -1 : chooser_from(c, split, OP_RESHAPE, 0, false);
    beta = beta < 0 ? -1 : chooser_spread(c, beta, false);
    gamma = gamma < 0 ? -1 : chooser_spread(c, gamma, false);
    if (x < 0 || beta < 0 || gamma < 0)
        return false;
    x = chooser_narrow(c, x);
    const struct shape *s = &chooser_at(c, x)->shape;
    if ((s->dtype != DT_BF16 && s->dtype != DT_F32) || !shape_same_dims(s, &in->shape) ||
        FLOP_PER_VALUE * (double)shape_elements(s) < c->least_flop)
        return false;
    *out = (struct choice){.kind = KERNEL_GROUP_NORM};
    chooser_operand(c, out, x);
    chooser_vector(c, out, gamma);
    chooser_vector(c, out, beta);
    snprintf(out->attributes, sizeof out->attributes, "groups = %" PRId64 " : i64, eps = %.17e : f64, silu = %d : i64",
             chooser_at(c, split)->shape.dims[3], eps, silu);
    return true;
}

// ---- layers

// The value whose mean over its last dimension is spread over it again as i.
static int row_mean_of(const struct chooser *c, int i)
{
    double n = 0;
    int sum = i < 0 ? -1 : chooser_with_scalar(c, i, OP_DIVIDE, &n), x = chooser_from(c, sum, OP_REDUCE, 0, false);
    if (x < 0)
        return -1;
    const struct instruction *in = chooser_at(c, sum);
    const struct shape *s = &chooser_at(c, x)->shape;
    return in->reducer == OP_ADD && in->n_a == 1 && in->a[0] == s->rank - 1 && n == (double)s->dims[s->rank - 1] ? x
                                                                                                                 : -1;
}

// The rows [batch, tokens, n] whose normalisation i is, and eps.
static int normalised_rows(const struct chooser *c, int i, double *eps)
{
    int centred = chooser_from(c, i, OP_MULTIPLY, 0, false), by = chooser_from(c, i, OP_MULTIPLY, 1, false);
    int root = by < 0 ? -1 : chooser_spread(c, by, true);
    int square = chooser_from(c, root, OP_RSQRT, 0, false);
    square = square < 0 ? -1 : row_mean_of(c, chooser_with_scalar(c, square, OP_ADD, eps));
    if (centred < 0 || chooser_from(c, square, OP_MULTIPLY, 0, false) != centred ||
        chooser_from(c, square, OP_MULTIPLY, 1, false) != centred)
        return -1;
    int x = chooser_from(c, centred, OP_SUBTRACT, 0, false), mean = chooser_from(c, centred, OP_SUBTRACT, 1, false);
    int summed = x < 0 || mean < 0 ? -1 : row_mean_of(c, chooser_spread(c, mean, true));
    return summed >= 0 && chooser_narrow(c, x) == chooser_narrow(c, summed) ? chooser_narrow(c, x) : -1;
}

bool choose_layer_norm(const struct chooser *c, int i, struct choice *out)
{
    const struct instruction *in = chooser_at(c, i);
    enum dtype type = in->shape.dtype;
    if (in->shape.rank != 3 || (type != DT_BF16 && type != DT_F32))
        return false;
    int y = type == DT_BF16 ? chooser_from(c, i, OP_CONVERT, 0, true) : i;
    int scaled = chooser_from(c, y, OP_ADD, 0, true), shift = chooser_from(c, y, OP_ADD, 1, false);
    int flat = chooser_from(c, scaled, OP_MULTIPLY, 0, false), scale = chooser_from(c, scaled, OP_MULTIPLY, 1, false);
    if (flat < 0 || shift < 0)
        return false;
    double eps = 0;
    int narrow = chooser_narrow(c, flat), x = normalised_rows(c, narrow, &eps);
    bool rounded = x < 0 && type == DT_BF16 && narrow != flat;
    if (rounded)
        x = normalised_rows(c, chooser_from(c, narrow, OP_CONVERT, 0, false), &eps);
    shift = chooser_over_tokens(c, shift), scale = chooser_over_tokens(c, scale);
    if (x < 0 || shift < 0 || scale < 0)
        return false;
    const struct shape *s = &chooser_at(c, x)->shape;
    if ((s->dtype != DT_BF16 && s->dtype != DT_F32) || !shape_same_dims(s, &in->shape) ||
        FLOP_PER_VALUE * (double)shape_elements(s) < c->least_flop)
        return false;
    *out = (struct choice){.kind = KERNEL_LAYER_NORM};
    chooser_operand(c, out, x);
    chooser_vector(c, out, scale);
    chooser_vector(c, out, shift);
    snprintf(out->attributes, sizeof out->attributes, "eps = %.17e : f64, rounded = %d : i64", eps, rounded);
    return true;
}
