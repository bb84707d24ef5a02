// SPDX-License-Identifier: Apache-2.0
// Products with a matrix whose rows are outputs, where the CPU multiplies bf16 (AVX512_BF16, AMX) and codes
// (AVX512_VNNI, AMX) itself: a strip of the matrix is put into the order that the instruction wants, widened where it
// is stored narrower, stays in the second-level cache of the thread that did so, and meets all rows of x; the sums are
// scaled and rounded where they are made.
#ifndef KERNELS_PANEL_H
#define KERNELS_PANEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/threads.h"
#include "kernels/rows.h"
#include "num/dtype.h"

// out [m, n] = x [m, k] by w [n, k], times a factor per row and then one per output, and what is added to that, all
// dense. Codes of w that x of bf16 is multiplied by may have scales: code times scale is rounded to bf16.
struct panel {
    int64_t m, k, n;
    const void *x, *w;
    enum dtype x_type, w_type; // bf16 by bf16, s8 or s4 (two to a byte, the low nibble first); s8 by s8; with
                               // `quantise` bf16 or f32 by s8
    bool quantise;             // x to codes of s8, by the largest magnitude of each row, whose factor comes first
    const float *groups;       // [n, k / group], scales of codes of w; NULL: none
    int64_t group;
    const float *rows;    // [m], NULL: none, or made by quantising
    const float *outputs; // [n], NULL: none
    struct addition added;
    void *out;
    enum dtype out_type; // bf16 or f32; s32 of s8 without factors
};

// Whether this CPU, by the set of instructions in force, and these sizes are taken: enough rows that packing pays, k a
// multiple of 64 bytes of what is multiplied, groups of a multiple of 32 columns.
bool panel_takes(const struct panel *p);
// On the team's thread only. Sums of bf16 are f32, of codes exact. ERR_MEMORY.
int panel_multiply(const struct panel *p, struct threads *pool, struct error *err);

#endif
