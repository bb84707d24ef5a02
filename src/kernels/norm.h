// SPDX-License-Identifier: Apache-2.0
// The loops of group normalisation, once per instruction set (num/isa.h). Sets differ in the last bits.
#ifndef KERNELS_NORM_H
#define KERNELS_NORM_H

#include <stdbool.h>
#include <stdint.h>

#include "num/dtype.h"

// x * scale + shift, each a value per channel; then, with silu, times the logistic function of itself.
struct norm_rule {
    int64_t channels;
    const float *scale, *shift;
    enum dtype x, y; // bf16 or f32
    bool silu;
};

struct norm_loops {
    // Per channel the mean over pixels (at least one), and the sum of the squares of the differences to it.
    void (*moments)(const void *x, enum dtype t, int64_t pixels, int64_t channels, float *mean, float *squares);
    void (*apply)(const struct norm_rule *r, const void *x, void *y, int64_t pixels);
};
struct norm_loops norm_loops(void); // of isa_in_force()

#endif
