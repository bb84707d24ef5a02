// SPDX-License-Identifier: Apache-2.0
// The least time a device can need: arithmetic at its peak, or bytes at its bandwidth, whichever is longer.
#ifndef PLAN_ROOFLINE_H
#define PLAN_ROOFLINE_H

#include "base/arena.h"
#include "base/quantity.h"
#include "chips/chips.h"
#include "ir/cost.h"

enum bound { BOUND_NONE, BOUND_COMPUTE, BOUND_MEMORY };
const char *bound_name(enum bound b); // "compute", "memory"; NULL for BOUND_NONE

struct floor {
    struct quantity time; // us [D]; NAN with the reason where a rate is not published
    enum bound bound;
    double compute_s, memory_s; // the two sides; NAN where not known
};

// Floor of a piece of work on one device of a chip (a JAX device: half a tpu7x chip): max(sum of product FLOP over the
// peak of their operand type, fused bytes over bandwidth). Element-wise arithmetic is not in the compute side: no sheet
// gives its rate. The source text lives in the arena.
int roofline_floor(const struct cost *c, const struct chip *chip, struct arena *a, struct floor *out,
                   struct error *err);

// The same with the bytes that are left when rows without products are made inside those beside them.
int roofline_merged(const struct cost *c, const struct chip *chip, struct arena *a, struct floor *out,
                    struct error *err);

// What "the floor" of many rows can mean. Each says what it takes for granted.
enum whole {
    WHOLE_MATH,          // arithmetic of all rows, memory for nothing
    WHOLE_MEMORY,        // memory of all rows, each a kernel of its own
    WHOLE_MEMORY_MERGED, // the same with rows without products made inside those beside them
    WHOLE_SINGLE,        // the longer of the two: every row's arithmetic overlaps every other row's memory
    WHOLE_SINGLE_MERGED,
    WHOLE_ROWS, // the sum of the rows' own floors: one row after the other
    WHOLE_ROWS_MERGED,
    WHOLES
};
struct whole_floor {
    struct quantity time[WHOLES]; // us [D]; NAN with the reason where a rate is not published
};
const char *whole_key(enum whole w);   // "single_merged"
const char *whole_label(enum whole w); // "single floor, merged"
int roofline_whole(const struct cost_row *rows, int n, const struct chip *chip, struct arena *a,
                   struct whole_floor *out, struct error *err);

// The floor of a whole program of n parts that do not overlap: the sum of the parts' floors.
int roofline_total(const struct cost_row *rows, int n, const struct chip *chip, struct arena *a, struct floor *out,
                   struct error *err);

// Product FLOP per byte moved, fused [D]; NAN when no byte moves.
struct quantity roofline_intensity(const struct cost *c);

// Members of an open object: flop, element_flop, transcendentals, bytes, bytes_unfused, weight_bytes, intensity; and of
// a floor: time, bound.
void cost_json(const struct cost *c, struct jw *w);
void floor_json(const struct floor *f, struct jw *w);

#endif
