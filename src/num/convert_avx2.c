// SPDX-License-Identifier: Apache-2.0
// The kernels of num/convert_kernels.h for AVX2 with F16C. The arithmetic is explained in convert_portable.c.
#include "num/convert_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "num/isa_target.h"

typedef __m256i vector;
#define VECTOR_BYTES 32

ISA_TARGET("avx2,f16c,fma")

ISA_INLINE void vector_store(uint8_t *to, vector v)
{
    _mm256_storeu_si256((void *)to, v);
}

ISA_INLINE void vector_stream(uint8_t *to, vector v)
{
    _mm256_stream_si256((void *)to, v);
}

static void fence(void)
{
    _mm_sfence();
}

#include "num/convert_loop.h"

ISA_INLINE __m256i load(const uint8_t *from)
{
    return _mm256_loadu_si256((const void *)from);
}

ISA_INLINE __m256i each(uint32_t v)
{
    return _mm256_set1_epi32((int)v);
}

ISA_INLINE __m256i magnitude(__m256i v)
{
    return _mm256_and_si256(v, each(0x7fffffffu));
}

// a >= limit, for magnitudes
ISA_INLINE __m256i at_least(__m256i a, uint32_t limit)
{
    return _mm256_cmpgt_epi32(a, each(limit - 1));
}

ISA_INLINE __m256i replace(__m256i a, const struct convert_narrow *r)
{
    __m256i to = _mm256_blendv_epi8(each(r->over), each(r->inf), at_least(a, 0x7f800000u));
    to = _mm256_blendv_epi8(to, each(r->nan), at_least(a, 0x7f800001u));
    return _mm256_blendv_epi8(a, to, at_least(a, r->special_from));
}

// As a rule no register of a block holds anything special.
ISA_INLINE void replace_special(__m256i *v, int count, const struct convert_narrow *r)
{
    __m256i largest = magnitude(v[0]);
    ISA_UNROLL
    for (int i = 1; i < count; i++)
        largest = _mm256_max_epu32(largest, magnitude(v[i]));
    if (__builtin_expect(_mm256_movemask_epi8(at_least(largest, r->special_from)) != 0, 0)) {
        ISA_UNROLL
        for (int i = 0; i < count; i++) {
            __m256i sign = _mm256_andnot_si256(each(0x7fffffffu), v[i]);
            v[i] = _mm256_or_si256(sign, replace(magnitude(v[i]), r));
        }
    }
}

ISA_INLINE __m256i bf16_codes(__m256i v)
{
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(v, 16), each(1));
    return _mm256_srli_epi32(_mm256_add_epi32(v, _mm256_add_epi32(odd, each(0x7fff))), 16);
}

ISA_INLINE void bf16_block(const uint8_t *from, const struct convert_narrow *r, vector *out)
{
    __m256i v[2] = {load(from), load(from + 32)};
    replace_special(v, 2, r);
    *out = _mm256_permute4x64_epi64(_mm256_packus_epi32(bf16_codes(v[0]), bf16_codes(v[1])), 0xd8);
}

ISA_INLINE void f16_block(const uint8_t *from, const struct convert_narrow *r, vector *out)
{
    __m256i v[2] = {load(from), load(from + 32)};
    replace_special(v, 2, r);
    __m128i low = _mm256_cvtps_ph(_mm256_castsi256_ps(v[0]), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m128i high = _mm256_cvtps_ph(_mm256_castsi256_ps(v[1]), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    *out = _mm256_set_m128i(high, low);
}

// Magnitudes' codes. mantissa is a constant where the loop is made for it: shifts by constants are faster.
ISA_INLINE __m256i f8_codes(__m256i v, uint32_t min_exponent, int mantissa)
{
    int drop = 23 - mantissa;
    __m256i least = each(min_exponent << 23), a = magnitude(v);
    __m256i exponent = _mm256_max_epu32(_mm256_and_si256(a, each(0x7f800000u)), least);
    __m256i unit = _mm256_add_epi32(exponent, each((uint32_t)drop << 23));
    __m256i sum = _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(unit)));
    __m256i steps = _mm256_sub_epi32(exponent, least);
    steps = __builtin_constant_p(mantissa) ? _mm256_srli_epi32(steps, drop)
                                           : _mm256_srl_epi32(steps, _mm_cvtsi32_si128(drop));
    return _mm256_add_epi32(_mm256_sub_epi32(sum, unit), steps);
}

ISA_INLINE void f8_pack(__m256i *v, vector *out)
{
    __m256i bytes = _mm256_packus_epi16(_mm256_packus_epi32(v[0], v[1]), _mm256_packus_epi32(v[2], v[3]));
    *out = _mm256_permutevar8x32_epi32(bytes, _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0));
}

// Eight bits, of which the first is the sign, also of 0.
ISA_INLINE void f8_signed_block(const uint8_t *from, const struct convert_narrow *r, int mantissa, vector *out)
{
    __m256i v[4] = {load(from), load(from + 32), load(from + 64), load(from + 96)};
    replace_special(v, 4, r);
    ISA_UNROLL
    for (int i = 0; i < 4; i++) {
        __m256i sign = _mm256_and_si256(_mm256_srli_epi32(v[i], 24), each(0x80));
        v[i] = _mm256_or_si256(sign, f8_codes(v[i], r->min_exponent, mantissa));
    }
    f8_pack(v, out);
}

ISA_INLINE void f8_block(const uint8_t *from, const struct convert_narrow *r, vector *out)
{
    __m256i v[4] = {load(from), load(from + 32), load(from + 64), load(from + 96)};
    replace_special(v, 4, r);
    ISA_UNROLL
    for (int i = 0; i < 4; i++) {
        __m256i code = f8_codes(v[i], r->min_exponent, r->mantissa);
        __m256i sign = _mm256_sll_epi32(_mm256_srli_epi32(v[i], 31), _mm_cvtsi32_si128(r->sign));
        __m256i keeps = _mm256_or_si256(_mm256_cmpgt_epi32(code, _mm256_setzero_si256()), each(r->signed_zero));
        v[i] = _mm256_or_si256(code, _mm256_and_si256(sign, keeps));
    }
    f8_pack(v, out);
}

// Any NaN becomes the quiet one.
ISA_INLINE __m256i quiet(__m256 v)
{
    __m256 nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    __m256i bits = _mm256_castps_si256(v);
    if (__builtin_expect(_mm256_movemask_ps(nan) != 0, 0)) {
        __m256i sign = _mm256_andnot_si256(each(0x7fffffffu), bits);
        bits = _mm256_blendv_epi8(bits, _mm256_or_si256(sign, each(0x7fc00000u)), _mm256_castps_si256(nan));
    }
    return bits;
}

ISA_INLINE void wide_bf16_block(const uint8_t *from, vector *out)
{
    __m256i v = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)from));
    *out = quiet(_mm256_castsi256_ps(_mm256_slli_epi32(v, 16)));
}

ISA_INLINE void wide_f16_block(const uint8_t *from, vector *out)
{
    *out = quiet(_mm256_cvtph_ps(_mm_loadu_si128((const void *)from)));
}

ISA_INLINE void f32_f64_block(const uint8_t *from, vector *out)
{
    const double *v = (const void *)from;
    *out = quiet(_mm256_set_m128(_mm256_cvtpd_ps(_mm256_loadu_pd(v + 4)), _mm256_cvtpd_ps(_mm256_loadu_pd(v))));
}

ISA_INLINE void f64_f32_block(const uint8_t *from, vector *out)
{
    __m256d v = _mm256_cvtps_pd(_mm_loadu_ps((const void *)from));
    __m256i sign = _mm256_and_si256(_mm256_castpd_si256(v), _mm256_set1_epi64x(INT64_MIN));
    __m256i nan = _mm256_or_si256(sign, _mm256_set1_epi64x(0x7ff8000000000000));
    __m256d is_nan = _mm256_cmp_pd(v, v, _CMP_UNORD_Q);
    *out = _mm256_castpd_si256(_mm256_blendv_pd(v, _mm256_castsi256_pd(nan), is_nan));
}

// The low halves of 64-bit masks.
ISA_INLINE __m128i masks32(__m256d mask)
{
    __m256i even = _mm256_permutevar8x32_epi32(_mm256_castpd_si256(mask), _mm256_set_epi32(0, 0, 0, 0, 6, 4, 2, 0));
    return _mm256_castsi256_si128(even);
}

ISA_INLINE __m128i odd(const double *from)
{
    __m256d v = _mm256_loadu_pd(from), no_sign = _mm256_set1_pd(-0.0);
    __m128 y = _mm256_cvtpd_ps(v);
    __m256d back = _mm256_cvtps_pd(y);
    __m256d away = _mm256_cmp_pd(_mm256_andnot_pd(no_sign, back), _mm256_andnot_pd(no_sign, v), _CMP_GT_OQ);
    __m256d lost = _mm256_cmp_pd(back, v, _CMP_NEQ_OQ);
    __m128i toward_zero = _mm_add_epi32(_mm_castps_si128(y), masks32(away));
    return _mm_or_si128(toward_zero, _mm_and_si128(masks32(lost), _mm_set1_epi32(1)));
}

ISA_INLINE void odd_block(const uint8_t *from, vector *out)
{
    const double *v = (const void *)from;
    *out = quiet(_mm256_castsi256_ps(_mm256_set_m128i(odd(v + 4), odd(v))));
}

ISA_INLINE void wide_f8_block(const uint8_t *from, const uint32_t *table, vector *out)
{
    __m256i c = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)from));
    *out = _mm256_i32gather_epi32((const int *)(const void *)table, c, 4);
}

ISA_INLINE void copy_block(const uint8_t *from, vector *out)
{
    *out = load(from);
}

CONVERT_FUNCTIONS
CONVERT_F8

static void f32_f8(void *dst, const void *src, size_t n, const uint32_t table[256], bool stream)
{
#define WIDE_F8_BLOCK(from, out) wide_f8_block(from, table, out)
    CONVERT_LOOP(4, 1, 1, WIDE_F8_BLOCK);
}

ISA_TARGET_END

const struct convert_kernels convert_kernels_avx2 = CONVERT_KERNELS("avx2", bf16_f32);

#endif
