// SPDX-License-Identifier: Apache-2.0
// The loop around a block of vector code, for the files that hold one instruction set. They define before it:
//     vector, VECTOR_BYTES                a register
//     vector_store(uint8_t *to, vector)   to any address
//     vector_stream(uint8_t *to, vector)  to an aligned one, around the caches
//     fence()                             streamed bytes become visible before what follows
#ifndef NUM_CONVERT_LOOP_H
#define NUM_CONVERT_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// block(from, out) makes ELEMENTS results in `vectors` registers. What does not fill a block (the end, and the elements
// before the first aligned address) goes through a block of its own. Expects dst, src, n and stream of the caller.
#define CONVERT_LOOP(to_bytes, from_bytes, vectors, block)                                                             \
    {                                                                                                                  \
        enum { ELEMENTS = (vectors)*VECTOR_BYTES / (to_bytes) };                                                       \
        const uint8_t *from = src;                                                                                     \
        uint8_t *to = dst;                                                                                             \
        vector out[vectors];                                                                                           \
        size_t ahead = (0 - (uintptr_t)to) % VECTOR_BYTES;                                                             \
        bool streaming = stream && ahead % (to_bytes) == 0;                                                            \
        for (size_t some = streaming ? ahead / (to_bytes) : 0; some || n; some = n) {                                  \
            if (some) {                                                                                                \
                some = some < n ? some : n;                                                                            \
                uint8_t in[ELEMENTS * (from_bytes)] = {0}, made[ELEMENTS * (to_bytes)];                                \
                memcpy(in, from, some *(from_bytes));                                                                  \
                block(in, out);                                                                                        \
                for (size_t v = 0; v < (vectors); v++)                                                                 \
                    vector_store(made + v * VECTOR_BYTES, out[v]);                                                     \
                memcpy(to, made, some *(to_bytes));                                                                    \
                from += some * (from_bytes), to += some * (to_bytes), n -= some;                                       \
            }                                                                                                          \
            if (streaming) {                                                                                           \
                for (; n >= ELEMENTS; n -= ELEMENTS) {                                                                 \
                    block(from, out);                                                                                  \
                    for (size_t v = 0; v < (vectors); v++)                                                             \
                        vector_stream(to + v * VECTOR_BYTES, out[v]);                                                  \
                    from += ELEMENTS * (from_bytes), to += ELEMENTS * (to_bytes);                                      \
                }                                                                                                      \
            } else {                                                                                                   \
                for (; n >= ELEMENTS; n -= ELEMENTS) {                                                                 \
                    block(from, out);                                                                                  \
                    for (size_t v = 0; v < (vectors); v++)                                                             \
                        vector_store(to + v * VECTOR_BYTES, out[v]);                                                   \
                    from += ELEMENTS * (from_bytes), to += ELEMENTS * (to_bytes);                                      \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

#define CONVERT_NARROW(function, to_bytes, block)                                                                      \
    static void function(void *dst, const void *src, size_t n, const struct convert_narrow *rule, bool stream)         \
    {                                                                                                                  \
        const struct convert_narrow r = *rule;                                                                         \
        CONVERT_LOOP(to_bytes, 4, 1, block)                                                                            \
    }
#define CONVERT_PLAIN(function, to_bytes, from_bytes, block)                                                           \
    static void function(void *dst, const void *src, size_t n, bool stream) CONVERT_LOOP(to_bytes, from_bytes, 1, block)

// The kernels of an instruction set from its blocks, which have the names of the second column (but for f32_f8).
#define BF16_BLOCK(from, out) bf16_block(from, &r, out)
#define F16_BLOCK(from, out)  f16_block(from, &r, out)
#define F8_BLOCK(from, out)   f8_block(from, &r, out)
#define CONVERT_FUNCTIONS                                                                                              \
    CONVERT_NARROW(bf16_f32, 2, BF16_BLOCK)                                                                            \
    CONVERT_NARROW(f16_f32, 2, F16_BLOCK)                                                                              \
    CONVERT_PLAIN(f32_bf16, 4, 2, wide_bf16_block)                                                                     \
    CONVERT_PLAIN(f32_f16, 4, 2, wide_f16_block)                                                                       \
    CONVERT_PLAIN(f32_f64, 4, 8, f32_f64_block)                                                                        \
    CONVERT_PLAIN(f64_f32, 8, 4, f64_f32_block)                                                                        \
    CONVERT_PLAIN(copy, 1, 1, copy_block)                                                                              \
    static void f32_f64_odd(void *dst, const void *src, size_t n)                                                      \
    {                                                                                                                  \
        bool stream = false;                                                                                           \
        CONVERT_LOOP(4, 8, 1, odd_block)                                                                               \
    }

// f8_f32 from f8_signed_block, with constants for the two common formats, and f8_block for all others.
#define F8_BLOCK_2(from, out) f8_signed_block(from, &r, 2, out)
#define F8_BLOCK_3(from, out) f8_signed_block(from, &r, 3, out)
#define CONVERT_F8                                                                                                     \
    CONVERT_NARROW(f8_f32_2, 1, F8_BLOCK_2)                                                                            \
    CONVERT_NARROW(f8_f32_3, 1, F8_BLOCK_3)                                                                            \
    CONVERT_NARROW(f8_f32_any, 1, F8_BLOCK)                                                                            \
    static void f8_f32(void *dst, const void *src, size_t n, const struct convert_narrow *rule, bool stream)           \
    {                                                                                                                  \
        bool common = rule->sign == 7 && rule->signed_zero;                                                            \
        if (common && rule->mantissa == 2)                                                                             \
            f8_f32_2(dst, src, n, rule, stream);                                                                       \
        else if (common && rule->mantissa == 3)                                                                        \
            f8_f32_3(dst, src, n, rule, stream);                                                                       \
        else                                                                                                           \
            f8_f32_any(dst, src, n, rule, stream);                                                                     \
    }

#endif
