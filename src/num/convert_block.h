// SPDX-License-Identifier: Apache-2.0
// Loops in plain C that compilers turn into vector code: over blocks of constant length, which are copied in and out,
// since elements may lie at any address.
#ifndef NUM_CONVERT_BLOCK_H
#define NUM_CONVERT_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bits.h"

#define CONVERT_BLOCK 32
// dst[i] = (to)expression of src[i] as v, of type `from`, for n elements. The expression should have no branch.
#define CONVERT_EACH(to, from, expression)                                                                             \
    {                                                                                                                  \
        from in[CONVERT_BLOCK] = {0};                                                                                  \
        to out[CONVERT_BLOCK];                                                                                         \
        for (size_t i = 0; i < n; i += CONVERT_BLOCK) {                                                                \
            size_t k = n - i < CONVERT_BLOCK ? n - i : CONVERT_BLOCK;                                                  \
            if (k == CONVERT_BLOCK)                                                                                    \
                memcpy(in, (const char *)src + i * sizeof *in, sizeof in);                                             \
            else                                                                                                       \
                memcpy(in, (const char *)src + i * sizeof *in, k * sizeof *in);                                        \
            for (int j = 0; j < CONVERT_BLOCK; j++) {                                                                  \
                from v = in[j];                                                                                        \
                out[j] = (to)(expression);                                                                             \
            }                                                                                                          \
            if (k == CONVERT_BLOCK)                                                                                    \
                memcpy((char *)dst + i * sizeof *out, out, sizeof out);                                                \
            else                                                                                                       \
                memcpy((char *)dst + i * sizeof *out, out, k * sizeof *out);                                           \
        }                                                                                                              \
    }

// yes or no, without a branch.
static inline uint32_t pick(bool condition, uint32_t yes, uint32_t no)
{
    uint32_t mask = 0 - (uint32_t)condition;
    return (yes & mask) | (no & ~mask);
}

#endif
