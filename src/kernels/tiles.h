// SPDX-License-Identifier: Apache-2.0
// Tiles of AMX, for files that compile for x86-64 and include immintrin.h. All eight have 16 rows of 64 bytes: 16 f32
// or s32, 32 bf16 or 64 codes.
#ifndef KERNELS_TILES_H
#define KERNELS_TILES_H

#include <stdbool.h>

#include "num/isa_target.h"

ISA_TARGET("avx512f,amx-tile,amx-bf16,amx-int8")

// A constant, since gcc 12 takes _tile_loadconfig to read the first 8 bytes and leaves out stores to the others.
static const struct {
    uint8_t palette, start, none[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tiles_shape = {.palette = 1, .bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

// Around all that a thread does with tiles; isa_in_force() is ISA_AMX, so the process may use them.
static void tiles_begin(void)
{
    _tile_loadconfig(&tiles_shape);
}

static void tiles_end(void)
{
    _tile_release();
}

// n of 16 rows, `stride` bytes apart, as tiles of 16 groups of 4 bytes, one after the other; the other rows are zeros.
static void tiles_lay(const char *from, int64_t stride, int64_t n, int64_t groups, int32_t *to)
{
    for (int64_t g = 0; g < groups; g += 16, from += 64) {
        for (int i = 0; i < 16; i++, to += 16)
            _mm512_store_si512(to, i < n ? _mm512_loadu_si512(from + i * stride) : _mm512_setzero_si512());
    }
}

// Tiles 4 and 5 by tiles 6 and 7, two by two, added to tiles 0 to 3.
ISA_INLINE void tiles_multiply_square(bool codes)
{
    if (codes) {
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
    } else {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
}

ISA_TARGET_END

#endif
