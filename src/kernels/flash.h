// SPDX-License-Identifier: Apache-2.0
// Attention in bf16 where the CPU multiplies bf16 itself (AVX512_BF16): 48 queries of a head at a time, whose scores
// stay in the second-level cache.
#ifndef KERNELS_FLASH_H
#define KERNELS_FLASH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/threads.h"
#include "num/dtype.h"

// out [batch, tokens, heads * dim] = softmax(scale q k') v, in bf16 or f32, of q [batch, tokens, heads, dim] and k and
// v [batch, keys, kv heads, dim] in bf16. visible, NULL or [batch, tokens, keys]: other keys of a token score the
// lowest number.
struct flash {
    int64_t batch, tokens, keys, heads, kv_heads, dim;
    const uint16_t *q, *k, *v;
    const uint8_t *visible;
    void *out;
    enum dtype out_type;
    float scale; // above 0
};

// Whether this CPU, by the set of instructions in force, and these sizes are taken: dim is a multiple of 32.
bool flash_takes(const struct flash *f);
// On the team's thread only. Shares of bf16 are those of unscaled exponentials: their sum divides the result, in f32.
// ERR_MEMORY.
int flash_attend(const struct flash *f, struct threads *pool, struct error *err);

#endif
