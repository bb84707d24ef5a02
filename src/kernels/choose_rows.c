// SPDX-License-Identifier: Apache-2.0
// The gate of a feed-forward layer and the rotation of heads as part_swiglu, part_rms_norm, part_rotate_pairs and
// part_rotate_half write them (models/parts.h).
#include <inttypes.h>
#include <stdio.h>

#include "kernels/choose_part.h"
#include "kernels/rows.h"

// Passes over memory that are saved: about as many FLOP per value as products pay with.
#define FLOP_PER_VALUE 32

static bool is_float(const struct chooser *c, int i)
{
    enum dtype t = chooser_at(c, i)->shape.dtype;
    return t == DT_BF16 || t == DT_F32;
}

// The value whose columns i is: all of it, or a slice of its last dimension from *column on.
static int columns_of(const struct chooser *c, int i, int64_t *column)
{
    for (*column = 0; i >= 0 && chooser_at(c, i)->op == OP_SLICE;) {
        const struct instruction *in = chooser_at(c, i);
        const struct shape *all = &chooser_at(c, in->operands[0])->shape;
        int last = all->rank - 1;
        for (int d = 0; d < last; d++) {
            if (in->a[d] != 0 || in->b[d] != all->dims[d] || in->c[d] != 1)
                return i;
        }
        if (last < 0 || in->c[last] != 1)
            return i;
        *column += in->a[last];
        i = in->operands[0];
    }
    return i;
}

// Whether x is not in memory: sums of a product that XLA makes, which its loops read and scale by themselves wherever
// they are used. A call would make it write them once more.
static bool is_scaled_by_xla(const struct chooser *c, int x)
{
    if (c->choices[x])
        return false;
    while (chooser_from(c, x, OP_MULTIPLY, 0, false) >= 0)
        x = chooser_from(c, x, OP_MULTIPLY, 0, false);
    int sums = chooser_from(c, x, OP_CONVERT, 0, false);
    return sums >= 0 && chooser_at(c, sums)->op == OP_DOT && chooser_at(c, sums)->shape.dtype == DT_S32;
}

// ---- silu(gate) * up

// Whether i is silu(gate) * up of two parts of one value: *x, from which columns.
static bool is_swiglu(const struct chooser *c, int i, int *x, int64_t *gate, int64_t *up)
{
    int silu = chooser_from(c, i, OP_MULTIPLY, 0, true), by = chooser_from(c, i, OP_MULTIPLY, 1, false);
    int logistic = chooser_from(c, silu, OP_MULTIPLY, 1, true), a = chooser_from(c, silu, OP_MULTIPLY, 0, false);
    int inner = chooser_from(c, logistic, OP_LOGISTIC, 0, false);
    if (inner < 0 || chooser_at(c, i)->shape.dtype != DT_F32 || chooser_narrow(c, inner) != chooser_narrow(c, a))
        return false;
    *x = columns_of(c, chooser_narrow(c, a), gate);
    return columns_of(c, chooser_narrow(c, by), up) == *x && is_float(c, *x);
}

bool choose_swiglu(const struct chooser *c, int i, struct choice *out)
{
    const struct instruction *in = chooser_at(c, i);
    int last = in->shape.rank - 1, before = -1, y = i, x;
    int64_t gate, up;
    if (in->op == OP_CONCATENATE && in->n_operands == 2 && in->axis == last && c->uses[in->operands[1]] == 1)
        before = in->operands[0], y = in->operands[1];
    int wide = chooser_at(c, y)->shape.dtype == DT_BF16 ? chooser_from(c, y, OP_CONVERT, 0, true) : y;
    if (!is_float(c, i) || wide < 0 || !is_swiglu(c, wide, &x, &gate, &up) || is_scaled_by_xla(c, x) ||
        FLOP_PER_VALUE * (double)shape_elements(&chooser_at(c, y)->shape) < c->least_flop ||
        (before >= 0 && chooser_at(c, before)->shape.dims[last] == 0))
        return false;
    *out = (struct choice){.kind = KERNEL_SWIGLU};
    chooser_operand(c, out, x);
    if (before >= 0)
        chooser_operand(c, out, before);
    snprintf(out->attributes, sizeof out->attributes,
             "gate = %" PRId64 " : i64, up = %" PRId64 " : i64, before = %d : i64", gate, up, before >= 0);
    return true;
}

// ---- heads

struct heads {
    int features[2], tables[2]; // a and z, which turn together; cosine and sine
};

// One side: first * cosine, `op`, second * sine.
static bool is_side(const struct chooser *c, int i, enum opcode op, int found[4])
{
    int left = chooser_from(c, i, op, 0, true), right = chooser_from(c, i, op, 1, true);
    found[0] = chooser_from(c, left, OP_MULTIPLY, 0, false);
    found[1] = chooser_from(c, left, OP_MULTIPLY, 1, false);
    found[2] = chooser_from(c, right, OP_MULTIPLY, 0, false);
    found[3] = chooser_from(c, right, OP_MULTIPLY, 1, false);
    for (int k = 0; k < 4; k++) {
        if (found[k] < 0)
            return false;
    }
    return true;
}

// a cos - z sin and z cos + a sin.
static bool is_rotation(const struct chooser *c, int first, int second, struct heads *h)
{
    int x[4], y[4];
    if (!is_side(c, first, OP_SUBTRACT, x) || !is_side(c, second, OP_ADD, y))
        return false;
    h->features[0] = chooser_narrow(c, x[0]), h->features[1] = chooser_narrow(c, x[2]);
    h->tables[0] = x[1], h->tables[1] = x[3];
    return chooser_narrow(c, y[0]) == h->features[1] && chooser_narrow(c, y[2]) == h->features[0] && y[1] == x[1] &&
           y[3] == x[3];
}

// The value of which i is part `which` of two along the last dimension, or in pairs every second of it.
static int half_of(const struct chooser *c, int i, int which, bool pairs)
{
    if (pairs) {
        i = chooser_from(c, i, OP_RESHAPE, 0, false);
        int x = chooser_from(c, i, OP_SLICE, 0, false), whole = chooser_from(c, x, OP_RESHAPE, 0, false);
        int64_t column;
        if (whole < 0 || columns_of(c, i, &column) != x || column != which)
            return -1;
        const struct shape *s = &chooser_at(c, x)->shape, *all = &chooser_at(c, whole)->shape;
        return s->rank == 5 && all->rank == 4 && s->dims[4] == 2 && 2 * s->dims[3] == all->dims[3] ? whole : -1;
    }
    int64_t column;
    int x = columns_of(c, i, &column);
    const struct shape *s = &chooser_at(c, x)->shape;
    int64_t half = chooser_at(c, i)->shape.dims[3];
    return s->rank == 4 && s->dims[3] == 2 * half && column == which * half ? x : -1;
}

// [tokens, dim / 2] behind its spread over images and heads, else -1.
static int table_of(const struct chooser *c, int i)
{
    int narrow = chooser_narrow(c, i), x = chooser_from(c, narrow, OP_BROADCAST, 0, false);
    const struct instruction *in = x < 0 ? NULL : chooser_at(c, narrow);
    if (!in || in->n_a != 2 || in->a[0] != 1 || in->a[1] != 3 || chooser_at(c, x)->shape.rank != 2)
        return -1;
    const struct shape *s = &chooser_at(c, x)->shape;
    return is_float(c, x) && s->dims[0] == in->shape.dims[1] && s->dims[1] == in->shape.dims[3] ? x : -1;
}

// What is normalised to i by its root mean square along the last dimension, *weight and *eps; else -1.
static int normalised(const struct chooser *c, int i, int *weight, double *eps)
{
    int scaled = chooser_from(c, i, OP_MULTIPLY, 0, false), by = chooser_from(c, i, OP_MULTIPLY, 1, false);
    int x = chooser_from(c, scaled, OP_MULTIPLY, 0, false), spread = chooser_from(c, scaled, OP_MULTIPLY, 1, false);
    double n = 0;
    *weight = by < 0 ? -1 : chooser_spread(c, by, false);
    int root = *weight < 0 || spread < 0 ? -1 : chooser_spread(c, spread, true);
    int sum = chooser_with_scalar(c, chooser_with_scalar(c, chooser_from(c, root, OP_RSQRT, 0, false), OP_ADD, eps),
                                  OP_DIVIDE, &n);
    int square = chooser_from(c, sum, OP_REDUCE, 0, false);
    if (square < 0)
        return -1;
    const struct instruction *in = chooser_at(c, sum);
    const struct shape *s = &chooser_at(c, square)->shape;
    bool fits = in->reducer == OP_ADD && in->n_a == 1 && in->a[0] == s->rank - 1 && n == (double)s->dims[s->rank - 1];
    for (int side = 0; side < 2; side++) {
        int factor = chooser_from(c, square, OP_MULTIPLY, side, false);
        fits = fits && factor >= 0 && chooser_narrow(c, factor) == chooser_narrow(c, x);
    }
    return fits ? chooser_narrow(c, x) : -1;
}

// The heads [batch, tokens, heads, dim] that i turns, and how; else -1.
static int turned(const struct chooser *c, int i, struct heads *h, bool *pairs)
{
    int joined = chooser_from(c, i, OP_RESHAPE, 0, true);
    *pairs = joined >= 0;
    joined = joined < 0 ? i : joined;
    int first = chooser_from(c, joined, OP_CONCATENATE, 0, true),
        second = chooser_from(c, joined, OP_CONCATENATE, 1, true);
    if (*pairs) {
        first = chooser_from(c, first, OP_RESHAPE, 0, true);
        second = chooser_from(c, second, OP_RESHAPE, 0, true);
    }
    if (first < 0 || second < 0 || chooser_at(c, joined)->n_operands != 2 ||
        chooser_at(c, joined)->axis != (*pairs ? 4 : 3) || !is_rotation(c, first, second, h))
        return -1;
    for (int k = 0; k < 2; k++)
        h->tables[k] = table_of(c, h->tables[k]);
    int x = half_of(c, h->features[0], 0, *pairs);
    return x >= 0 && x == half_of(c, h->features[1], 1, *pairs) && h->tables[0] >= 0 && h->tables[1] >= 0 ? x : -1;
}

bool choose_rotary(const struct chooser *c, int i, struct choice *out)
{
    const struct instruction *in = chooser_at(c, i);
    struct heads h;
    bool pairs;
    double eps = 0;
    int weight = -1, y = in->shape.dtype == DT_BF16 ? chooser_from(c, i, OP_CONVERT, 0, true) : i;
    if (!is_float(c, i) || in->shape.rank != 4 || in->shape.dims[3] > ROTARY_MOST_DIM ||
        FLOP_PER_VALUE * (double)shape_elements(&in->shape) < c->least_flop)
        return false;
    int x = y < 0 ? -1 : turned(c, y, &h, &pairs);
    if (x < 0 || !is_float(c, x))
        return false;
    // Rounded to the result's type before it is turned, or not at all.
    int rounded = chooser_at(c, x)->shape.dtype == DT_BF16 ? chooser_from(c, x, OP_CONVERT, 0, false) : -1;
    int before = rounded >= 0 && in->shape.dtype == DT_BF16 ? normalised(c, rounded, &weight, &eps) : -1;
    bool rounds = before >= 0;
    if (before < 0)
        before = normalised(c, x, &weight, &eps);
    x = before < 0 ? x : before;
    int64_t column = 0;
    int flat = chooser_from(c, x, OP_RESHAPE, 0, false), all = flat < 0 ? -1 : columns_of(c, flat, &column);
    const struct shape *s = &in->shape;
    struct shape rows = SHAPE(chooser_at(c, x)->shape.dtype, s->dims[0], s->dims[1], s->dims[2] * s->dims[3]);
    if (!is_float(c, x) || !shape_same_dims(&chooser_at(c, x)->shape, s))
        return false;
    bool wide = all >= 0 && chooser_at(c, all)->shape.rank == 3 && shape_same_dims(&chooser_at(c, flat)->shape, &rows);
    if (is_scaled_by_xla(c, wide ? all : x))
        return false;
    *out = (struct choice){.kind = KERNEL_ROTARY};
    chooser_operand(c, out, wide ? all : x);
    if (!wide)
        out->shapes[0] = rows;
    for (int k = 0; k < 2; k++)
        chooser_vector(c, out, h.tables[k]);
    if (before >= 0)
        chooser_vector(c, out, weight);
    snprintf(out->attributes, sizeof out->attributes,
             "column = %" PRId64 " : i64, norm = %d : i64, eps = %.17e : f64, rounded = %d : i64, pairs = %d : i64",
             wide ? column : 0, before >= 0, eps, rounds, pairs);
    return true;
}
