// SPDX-License-Identifier: Apache-2.0
// The kernels of num/block_kernels.h for AVX2.
#include "num/block_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "num/isa_target.h"

ISA_TARGET("avx2,f16c,fma")

enum { VECTOR_BYTES = 32 };
typedef int32_t words __attribute__((vector_size(32)));

ISA_INLINE void store_bytes(uint8_t *to, words v)
{
    __m256i low = _mm256_and_si256((__m256i)v, _mm256_set1_epi32(255));
    __m128i pairs = _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    _mm_storel_epi64((__m128i *)(void *)to, _mm_packus_epi16(pairs, pairs));
}

#include "num/block_loop.h"

ISA_TARGET_END

const struct block_kernels block_kernels_avx2 = {"avx2", code, judge, lost};

#endif
