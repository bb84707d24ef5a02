// SPDX-License-Identifier: Apache-2.0
// The kernels of num/convert_kernels.h for AVX-512 F, BW, DQ and VL, and bf16 with VCVTNE2PS2BF16. The arithmetic is
// explained in convert_portable.c.
#include "num/convert_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "num/isa_target.h"

typedef __m512i vector;
#define VECTOR_BYTES 64

ISA_TARGET("avx2,f16c,fma,avx512f,avx512bw,avx512dq,avx512vl")

ISA_INLINE void vector_store(uint8_t *to, vector v)
{
    _mm512_storeu_si512(to, v);
}

ISA_INLINE void vector_stream(uint8_t *to, vector v)
{
    _mm512_stream_si512((void *)to, v);
}

static void fence(void)
{
    _mm_sfence();
}

#include "num/convert_loop.h"

ISA_INLINE __m512i load(const uint8_t *from)
{
    return _mm512_loadu_si512(from);
}

ISA_INLINE __m512i each(uint32_t v)
{
    return _mm512_set1_epi32((int)v);
}

ISA_INLINE __m512i magnitude(__m512i v)
{
    return _mm512_and_si512(v, each(0x7fffffffu));
}

// The magnitudes a with what is special replaced.
ISA_INLINE __m512i replace(__m512i a, const struct convert_narrow *r)
{
    __mmask16 special = _mm512_cmpge_epu32_mask(a, each(r->special_from));
    __m512i to = _mm512_mask_mov_epi32(each(r->over), _mm512_cmpge_epu32_mask(a, each(0x7f800000u)), each(r->inf));
    to = _mm512_mask_mov_epi32(to, _mm512_cmpgt_epu32_mask(a, each(0x7f800000u)), each(r->nan));
    return _mm512_mask_mov_epi32(a, special, to);
}

// The same with signs, for all registers of a block: as a rule none holds anything special.
ISA_INLINE void replace_special(__m512i *v, int count, const struct convert_narrow *r)
{
    __m512i largest = magnitude(v[0]);
    ISA_UNROLL
    for (int i = 1; i < count; i++)
        largest = _mm512_max_epu32(largest, magnitude(v[i]));
    if (__builtin_expect(_mm512_cmpge_epu32_mask(largest, each(r->special_from)) != 0, 0)) {
        ISA_UNROLL
        for (int i = 0; i < count; i++) {
            __m512i sign = _mm512_andnot_si512(each(0x7fffffffu), v[i]);
            v[i] = _mm512_or_si512(sign, replace(magnitude(v[i]), r));
        }
    }
}

ISA_INLINE __m512i round_bf16(__m512i v)
{
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(v, 16), each(1));
    return _mm512_add_epi32(v, _mm512_add_epi32(odd, each(0x7fff)));
}

ISA_INLINE void bf16_block(const uint8_t *from, const struct convert_narrow *r, vector *out)
{
    __m512i high = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27, 25, 23,
                                    21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    __m512i v[2] = {load(from), load(from + 64)};
    replace_special(v, 2, r);
    *out = _mm512_permutex2var_epi16(round_bf16(v[0]), high, round_bf16(v[1]));
}

ISA_INLINE void f16_block(const uint8_t *from, const struct convert_narrow *r, vector *out)
{
    __m512i v[2] = {load(from), load(from + 64)};
    replace_special(v, 2, r);
    __m256i low = _mm512_cvtps_ph(_mm512_castsi512_ps(v[0]), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256i high = _mm512_cvtps_ph(_mm512_castsi512_ps(v[1]), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    *out = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

// Magnitudes' codes. mantissa is a constant where the loop is made for it: shifts by constants are faster.
ISA_INLINE __m512i f8_codes(__m512i v, uint32_t min_exponent, int mantissa)
{
    unsigned drop = (unsigned)(23 - mantissa);
    __m512i least = each(min_exponent << 23), a = magnitude(v);
    __m512i exponent = _mm512_max_epu32(_mm512_and_si512(a, each(0x7f800000u)), least);
    __m512i unit = _mm512_add_epi32(exponent, each(drop << 23));
    __m512i sum = _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(unit)));
    __m512i steps = _mm512_sub_epi32(exponent, least);
    steps = __builtin_constant_p(mantissa) ? _mm512_srli_epi32(steps, drop)
                                           : _mm512_srl_epi32(steps, _mm_cvtsi32_si128((int)drop));
    return _mm512_add_epi32(_mm512_sub_epi32(sum, unit), steps);
}

ISA_INLINE void f8_pack(__m512i *v, vector *out)
{
    __m512i bytes = _mm512_packus_epi16(_mm512_packus_epi32(v[0], v[1]), _mm512_packus_epi32(v[2], v[3]));
    __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    *out = _mm512_permutexvar_epi32(order, bytes);
}

// Eight bits, of which the first is the sign, also of 0.
ISA_INLINE void f8_signed_block(const uint8_t *from, const struct convert_narrow *r, int mantissa, vector *out)
{
    __m512i v[4] = {load(from), load(from + 64), load(from + 128), load(from + 192)};
    replace_special(v, 4, r);
    ISA_UNROLL
    for (int i = 0; i < 4; i++) {
        enum { A_AND_B_OR_C = 0xea };
        v[i] = _mm512_ternarylogic_epi32(_mm512_srli_epi32(v[i], 24), each(0x80),
                                         f8_codes(v[i], r->min_exponent, mantissa), A_AND_B_OR_C);
    }
    f8_pack(v, out);
}

ISA_INLINE void f8_block(const uint8_t *from, const struct convert_narrow *r, vector *out)
{
    __m512i v[4] = {load(from), load(from + 64), load(from + 128), load(from + 192)};
    replace_special(v, 4, r);
    ISA_UNROLL
    for (int i = 0; i < 4; i++) {
        __m512i code = f8_codes(v[i], r->min_exponent, r->mantissa);
        __m512i sign = _mm512_sll_epi32(_mm512_srli_epi32(v[i], 31), _mm_cvtsi32_si128(r->sign));
        __mmask16 keeps = _mm512_test_epi32_mask(code, code) | _mm512_test_epi32_mask(each(r->signed_zero), each(1));
        v[i] = _mm512_mask_or_epi32(code, keeps, code, sign);
    }
    f8_pack(v, out);
}

// Any NaN becomes the quiet one.
ISA_INLINE __m512i quiet(__m512 v)
{
    __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    __m512i bits = _mm512_castps_si512(v);
    if (__builtin_expect(nan != 0, 0)) {
        __m512i sign = _mm512_andnot_si512(each(0x7fffffffu), bits);
        bits = _mm512_mask_or_epi32(bits, nan, sign, each(0x7fc00000u));
    }
    return bits;
}

ISA_INLINE void wide_bf16_block(const uint8_t *from, vector *out)
{
    __m512i v = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)from));
    *out = quiet(_mm512_castsi512_ps(_mm512_slli_epi32(v, 16)));
}

ISA_INLINE void wide_f16_block(const uint8_t *from, vector *out)
{
    *out = quiet(_mm512_cvtph_ps(_mm256_loadu_si256((const void *)from)));
}

ISA_INLINE void f32_f64_block(const uint8_t *from, vector *out)
{
    __m256 low = _mm512_cvtpd_ps(_mm512_loadu_pd(from)), high = _mm512_cvtpd_ps(_mm512_loadu_pd(from + 64));
    *out = quiet(_mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1));
}

ISA_INLINE void f64_f32_block(const uint8_t *from, vector *out)
{
    __m512d v = _mm512_cvtps_pd(_mm256_loadu_ps((const void *)from));
    __mmask8 nan = _mm512_cmp_pd_mask(v, v, _CMP_UNORD_Q);
    __m512i sign = _mm512_and_si512(_mm512_castpd_si512(v), _mm512_set1_epi64(INT64_MIN));
    *out = _mm512_mask_or_epi64(_mm512_castpd_si512(v), nan, sign, _mm512_set1_epi64(0x7ff8000000000000));
}

ISA_INLINE __m256i odd(const uint8_t *from)
{
    __m512d v = _mm512_loadu_pd(from);
    __m256 y = _mm512_cvt_roundpd_ps(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    __mmask8 lost = _mm512_cmp_pd_mask(_mm512_cvtps_pd(y), v, _CMP_NEQ_OQ);
    __m256i bits = _mm256_castps_si256(y);
    return _mm256_mask_or_epi32(bits, lost, bits, _mm256_set1_epi32(1));
}

ISA_INLINE void odd_block(const uint8_t *from, vector *out)
{
    __m512i v = _mm512_inserti64x4(_mm512_castsi256_si512(odd(from)), odd(from + 64), 1);
    *out = quiet(_mm512_castsi512_ps(v));
}

// The table's high halves lie in eight registers of 32.
ISA_INLINE void f8_table(const uint32_t *table, __m512i *words)
{
    ISA_UNROLL
    for (int i = 0; i < 8; i++) {
        __m512i low = _mm512_srli_epi32(_mm512_loadu_si512(table + 32 * i), 16);
        __m512i high = _mm512_srli_epi32(_mm512_loadu_si512(table + 32 * i + 16), 16);
        words[i] =
            _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(low)), _mm512_cvtepi32_epi16(high), 1);
    }
}

ISA_INLINE void wide_f8_block(const uint8_t *from, const __m512i *words, vector *out)
{
    __m512i c = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)from));
    __mmask32 bit6 = _mm512_test_epi16_mask(c, _mm512_set1_epi16(0x40));
    __mmask32 bit7 = _mm512_test_epi16_mask(c, _mm512_set1_epi16(0x80));
    __m512i low = _mm512_mask_mov_epi16(_mm512_permutex2var_epi16(words[0], c, words[1]), bit6,
                                        _mm512_permutex2var_epi16(words[2], c, words[3]));
    __m512i high = _mm512_mask_mov_epi16(_mm512_permutex2var_epi16(words[4], c, words[5]), bit6,
                                         _mm512_permutex2var_epi16(words[6], c, words[7]));
    __m512i v = _mm512_mask_mov_epi16(low, bit7, high);
    out[0] = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(v)), 16);
    out[1] = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(v, 1)), 16);
}

ISA_INLINE void copy_block(const uint8_t *from, vector *out)
{
    *out = load(from);
}

CONVERT_FUNCTIONS
CONVERT_F8

static void f32_f8(void *dst, const void *src, size_t n, const uint32_t table[256], bool stream)
{
    __m512i words[8];
    f8_table(table, words);
#define WIDE_F8_BLOCK(from, out) wide_f8_block(from, words, out)
    CONVERT_LOOP(4, 1, 2, WIDE_F8_BLOCK);
}

ISA_TARGET_END
ISA_TARGET("avx2,f16c,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")

// The instruction takes subnormals for zeros, and keeps the payload of a NaN. Both are rare enough for the other way.
ISA_INLINE void bf16_instruction_block(const uint8_t *from, const struct convert_narrow *r, vector *out)
{
    __m512 low = _mm512_loadu_ps(from), high = _mm512_loadu_ps(from + 64);
    enum { SUBNORMAL = 0x20 };
    __mmask16 other = _mm512_fpclass_ps_mask(low, SUBNORMAL) | _mm512_fpclass_ps_mask(high, SUBNORMAL);
    __m512i largest = _mm512_max_epu32(magnitude(_mm512_castps_si512(low)), magnitude(_mm512_castps_si512(high)));
    other |= _mm512_cmpge_epu32_mask(largest, each(r->special_from));
    if (__builtin_expect(other != 0, 0))
        bf16_block(from, r, out);
    else
        *out = (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

#define BF16_INSTRUCTION_BLOCK(from, out) bf16_instruction_block(from, &r, out)
CONVERT_NARROW(bf16_f32_instruction, 2, BF16_INSTRUCTION_BLOCK)

ISA_TARGET_END

const struct convert_kernels convert_kernels_avx512 = CONVERT_KERNELS("avx512", bf16_f32);

const struct convert_kernels convert_kernels_avx512_bf16 = CONVERT_KERNELS("avx512_bf16", bf16_f32_instruction);

#endif
