// SPDX-License-Identifier: Apache-2.0
// What a program that was compiled does beside its products because weights are stored narrow and activations are
// quantised: read from the optimised program that ran, never from what was asked for.
#ifndef LAB_NARROW_H
#define LAB_NARROW_H

#include "base/arena.h"
#include "base/error.h"
#include "num/dtype.h"

enum { NARROW_NAMES = 4 };

// Instructions of one kind in one run of the program, those of loops as often as they run. Names are copied into the
// arena.
struct narrow_work {
    int count; // at most INT_MAX
    double elements, element_flop;
    double read_bytes, written_bytes; // of main memory, by the rules of hlo_cost.h
    enum dtype type;                  // of most of what is written; DT_INVALID: nothing
    // The ones that write most at once, the largest first.
    struct {
        const char *instruction, *scope, *shape; // "wrapped_convert.2", "layer.0.attention.qkv", "bf16[1152,384]"
        double bytes;                            // of one of its runs,
        double runs;                             // of which there are so many: more than one in a loop
    } largest[NARROW_NAMES];
    int n_largest;
};

struct narrow {
    // Whole weights (as many elements as are stored of them) made wider, and written to memory before they are used.
    // What a loop cuts out of a stack in each run is a whole weight where the runs cut out all of it, and so is a
    // matrix that is cut out by number.
    struct narrow_work widened;
    // The same inside the code of something else: converted as they are used, nothing is written.
    struct narrow_work inner;
    // Whole weights copied or put in another order, in the type they have.
    struct narrow_work copied;
    // Activations converted to the type they are quantised in; and the reductions that find their scales.
    struct narrow_work quantised, scales;
    double product_flop[DT_COUNT]; // of one run, by the type of the left operand, as they are multiplied
    double bytes;                  // of one run of all of it
    bool loops_unknown;            // a loop does not say how often it runs: what is inside counts once
};

// Reads an optimised program. `weights` says of each of the n_parameters arguments whether it is a weight (its scales
// are, too); `quantised` is the type of quantised activations, DT_INVALID: none are. ERR_INPUT for bytes that are no
// module: a plugin's format is its own.
int narrow_read(struct narrow *out, const void *hlo, size_t n, const bool *weights, size_t n_parameters,
                enum dtype quantised, struct arena *arena, struct error *err);

#endif
