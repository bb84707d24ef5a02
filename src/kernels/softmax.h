// SPDX-License-Identifier: Apache-2.0
// The softmax of a row of scores, once per instruction set (num/isa.h).
#ifndef KERNELS_SOFTMAX_H
#define KERNELS_SOFTMAX_H

#include <stdint.h>

#include "num/dtype.h"

// n scores times `scale` (above 0) to shares that sum to 1, in bf16 or f32; `scores` is written over. A NaN makes all
// of them NaN. Sets differ in the order of sums, so in the last bits.
typedef void softmax_fn(float *scores, int64_t n, float scale, enum dtype type, void *out);
softmax_fn *softmax_row(void); // of isa_in_force()

#endif
