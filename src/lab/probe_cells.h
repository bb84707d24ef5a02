// SPDX-License-Identifier: Apache-2.0
// What becomes of single elements: conversions, contraction of a multiplication and an addition, subnormals, NaN in a
// maximum.
#ifndef LAB_PROBE_CELLS_H
#define LAB_PROBE_CELLS_H

#include "lab/probe_target.h"

enum { PROBE_CELL_ELEMENTS = 16 };

struct probe_cell {
    const char *key;      // "f32-to-f8e4m3fn"
    const char *question; // "f32 to f8e4m3fn"
    enum dtype in, out;
    const char *refused; // why there is no answer; NULL: there is
    const char *answer;  // in words, in the arena
    size_t n;
    double x[3][PROBE_CELL_ELEMENTS], y[PROBE_CELL_ELEMENTS]; // operands and results
};
// Runs cell i on the device; past the end *more is false. What the device refuses is in `refused`; an error is one that
// ends the probe.
int probe_cell_run(struct probe_cell *out, size_t i, bool *more, struct probe_device *d, struct arena *a,
                   struct error *err);

#endif
