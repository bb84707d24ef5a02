// SPDX-License-Identifier: Apache-2.0
// The kernels of num/block_kernels.h for AVX-512 F, BW, DQ and VL.
#include "num/block_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "num/isa_target.h"

ISA_TARGET("avx2,f16c,fma,avx512f,avx512bw,avx512dq,avx512vl")

enum { VECTOR_BYTES = 64 };
typedef int32_t words __attribute__((vector_size(64)));

ISA_INLINE void store_bytes(uint8_t *to, words v)
{
    _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtepi32_epi8((__m512i)v));
}

#include "num/block_loop.h"

ISA_TARGET_END

const struct block_kernels block_kernels_avx512 = {"avx512", code, judge, lost};

#endif
