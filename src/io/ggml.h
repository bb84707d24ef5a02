// SPDX-License-Identifier: Apache-2.0
// Element types of ggml, as GGUF files number them: plain ones, and blocks of codes that share scales.
//
// A block holds `elements` neighbours along the fastest axis. All fields are little-endian. In value formulas d, m and
// dmin are f16 widened to f32, sc and mn small integers; every product and sum is one f32 operation, left to right:
//     Q4_0    d(q - 8)               Q4_1  d q + m          Q5_0  d(q - 16)         Q5_1  d q + m        Q8_0  d q
//     Q2_K    (d sc) q - dmin mn     Q4_K, Q5_K alike       Q3_K  (d (sc - 32)) q   Q6_K  (d sc)(q - 32) Q8_K  d q
//     IQ4_NL  d table[q]             IQ4_XS  (d (sc - 32)) table[q]                 TQ1_0, TQ2_0  d (q - 1)
//     MXFP4   E2M1 code times 2^(e - 127), e a byte         NVFP4  E2M1 code times an unsigned E4M3 (0x7f is zero)
#ifndef IO_GGML_H
#define IO_GGML_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "num/dtype.h"

// Writes the elements of one block.
typedef void ggml_decode_fn(const uint8_t *block, float *out);

struct ggml_type {
    uint32_t id;
    const char *name;       // "Q4_K"
    uint32_t elements;      // in a block; 1 for plain types
    uint32_t bytes;         // of a block; 0 where a file cannot hold it (`refusal` says why)
    enum dtype dtype;       // of a plain type; DT_INVALID for blocks
    ggml_decode_fn *decode; // NULL for plain types, and for blocks whose codebooks are not known here
    const char *refusal;    // why a file with it is refused; NULL: it is not
};

#define GGML_MAX_BLOCK 256 // elements

// NULL when the number is not known.
const struct ggml_type *ggml_type(uint32_t id);
// n elements as f32, n a multiple of type->elements; `src` may lie at any address. ERR_INPUT when the type is known by
// its size alone.
int ggml_decode(const struct ggml_type *type, const void *src, size_t n, float *out, struct error *err);

#endif
