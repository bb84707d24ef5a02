// SPDX-License-Identifier: Apache-2.0
// The kernels of num/quantize_kernels.h for AVX-512 F, BW, DQ and VL.
#include "num/quantize_kernels.h"

#if defined(__x86_64__)

#include <float.h>
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "num/isa_target.h"

ISA_TARGET("avx2,f16c,fma,avx512f,avx512bw,avx512dq,avx512vl")

enum { LANES = 16, BLOCK = 64 };

ISA_INLINE __m512i magnitudes(const float *x)
{
    return _mm512_and_si512(_mm512_loadu_si512(x), _mm512_set1_epi32(0x7fffffff));
}

ISA_INLINE __mmask16 first(size_t n)
{
    return (__mmask16)((1u << n) - 1);
}

ISA_INLINE __m512i magnitudes_part(const float *x, size_t n)
{
    return _mm512_and_si512(_mm512_maskz_loadu_epi32(first(n), x), _mm512_set1_epi32(0x7fffffff));
}

static uint32_t absmax(const float *x, size_t n)
{
    __m512i m[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    for (; n >= BLOCK; n -= BLOCK, x += BLOCK) {
        ISA_UNROLL
        for (size_t v = 0; v < 4; v++)
            m[v] = _mm512_max_epu32(m[v], magnitudes(x + v * LANES));
    }
    for (; n >= LANES; n -= LANES, x += LANES)
        m[0] = _mm512_max_epu32(m[0], magnitudes(x));
    m[1] = _mm512_max_epu32(m[1], magnitudes_part(x, n));
    return _mm512_reduce_max_epu32(_mm512_max_epu32(_mm512_max_epu32(m[0], m[1]), _mm512_max_epu32(m[2], m[3])));
}

static struct quant_extent extent(const float *x, size_t n)
{
    // Of an unordered pair the instructions give the second.
    __m512 low = _mm512_set1_ps(INFINITY), high = _mm512_set1_ps(-INFINITY);
    for (; n >= LANES; n -= LANES, x += LANES) {
        __m512 v = _mm512_loadu_ps(x);
        low = _mm512_min_ps(v, low);
        high = _mm512_max_ps(v, high);
    }
    __m512 v = _mm512_maskz_loadu_ps(first(n), x);
    low = _mm512_mask_min_ps(low, first(n), v, low);
    high = _mm512_mask_max_ps(high, first(n), v, high);
    return (struct quant_extent){_mm512_reduce_min_ps(low), _mm512_reduce_max_ps(high)};
}

ISA_INLINE __m512i max_of_halves(__m512i a, __m512i b)
{
    return _mm512_max_epu32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

// The largest of each of 16 registers.
ISA_INLINE __m512i max_of_each(__m512i *m)
{
    ISA_UNROLL
    for (int i = 0; i < 8; i++)
        m[i] = _mm512_max_epu32(_mm512_unpacklo_epi32(m[2 * i], m[2 * i + 1]),
                                _mm512_unpackhi_epi32(m[2 * i], m[2 * i + 1]));
    ISA_UNROLL
    for (int i = 0; i < 4; i++)
        m[i] = _mm512_max_epu32(_mm512_unpacklo_epi64(m[2 * i], m[2 * i + 1]),
                                _mm512_unpackhi_epi64(m[2 * i], m[2 * i + 1]));
    return max_of_halves(max_of_halves(m[0], m[1]), max_of_halves(m[2], m[3]));
}

static void absmax_groups(const float *x, size_t groups, size_t group, uint32_t *out)
{
    if (group == 2 * LANES) {
        for (; groups >= 16; groups -= 16, x += 16 * group, out += 16) {
            __m512i m[16];
            ISA_UNROLL
            for (size_t g = 0; g < 16; g++)
                m[g] = _mm512_max_epu32(magnitudes(x + g * group), magnitudes(x + g * group + LANES));
            _mm512_storeu_si512(out, max_of_each(m));
        }
    }
    for (; groups > 0; groups--, x += group)
        *out++ = absmax(x, group);
}

static void absmax_columns(const float *x, size_t n, uint32_t *out)
{
    for (; n >= LANES; n -= LANES, x += LANES, out += LANES)
        _mm512_storeu_si512(out, _mm512_max_epu32(_mm512_loadu_si512(out), magnitudes(x)));
    __m512i m = _mm512_maskz_loadu_epi32(first(n), out);
    _mm512_mask_storeu_epi32(out, first(n), _mm512_max_epu32(m, magnitudes_part(x, n)));
}

// --- codes

struct range {
    __m512 least, most;  // the range
    __m512 below, above; // one beyond it, so that what clips can be told
    __m512i low, high, zero;
};

ISA_INLINE struct range range_of(const struct quant_rule *rule)
{
    int low = rule->low - rule->zero, high = rule->high - rule->zero;
    return (struct range){_mm512_set1_ps((float)low),       _mm512_set1_ps((float)high),
                          _mm512_set1_ps((float)(low - 1)), _mm512_set1_ps((float)(high + 1)),
                          _mm512_set1_epi32(low),           _mm512_set1_epi32(high),
                          _mm512_set1_epi32(rule->zero)};
}

// rint(q), at most one beyond the range. NaN becomes the lower limit: of an unordered pair max gives the second.
ISA_INLINE __m512i rounded(const struct range *r, __m512 q)
{
    return _mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(q, r->below), r->above));
}

ISA_INLINE __m512i kept(const struct range *r, __m512i q)
{
    return _mm512_min_epi32(_mm512_max_epi32(q, r->low), r->high);
}

// x times the inverse of the scale differs from the correctly rounded quotient by three roundings at most: less than
// 2^-14 for quotients up to 256, and beyond there everything clips. So both round to the same integer unless the
// product comes that close to a tie; then (rarely) the block is divided.
ISA_INLINE int near_ties(const __m512 *q, int count)
{
    enum { NEAREST = 0, LARGER_MAGNITUDE_POSITIVE = 0x0b };
    __m512 most = _mm512_setzero_ps();
    ISA_UNROLL
    for (int i = 0; i < count; i++)
        most = _mm512_range_ps(most, _mm512_reduce_ps(q[i], NEAREST), LARGER_MAGNITUDE_POSITIVE);
    return _mm512_cmp_ps_mask(most, _mm512_set1_ps(0.5f - 0x1p-14f), _CMP_GE_OQ) != 0;
}

// The inverse must be a normal number, and neither must round badly. 0 asks for division.
ISA_INLINE float inverse_of(float scale)
{
    return scale >= FLT_MIN && scale <= 0x1p125f ? 1 / scale : 0;
}

ISA_INLINE void divide(const float *x, const __m512 *scale, const __m512 *inverse, int count, __m512 *q)
{
    ISA_UNROLL
    for (int i = 0; i < count; i++)
        q[i] = _mm512_mul_ps(_mm512_loadu_ps(x + i * LANES), inverse[i]);
    if (__builtin_expect(near_ties(q, count), 0)) {
        ISA_UNROLL
        for (int i = 0; i < count; i++)
            q[i] = _mm512_div_ps(_mm512_loadu_ps(x + i * LANES), scale[i]);
    }
}

ISA_INLINE __m512i bytes_of(const struct quant_rule *rule, const struct range *r, const __m512 *q)
{
    __m512i c[4];
    ISA_UNROLL
    for (int i = 0; i < 4; i++)
        c[i] = _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(q[i], r->least), r->most)), r->zero);
    __m512i low = _mm512_packs_epi32(c[0], c[1]), high = _mm512_packs_epi32(c[2], c[3]);
    __m512i bytes = rule->low < 0 ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high);
    return _mm512_permutexvar_epi32(_mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0), bytes);
}

// Sixty-four elements; the scales of each sixteen of them. Nothing is counted here, so the quotient is limited to the
// range before it is rounded: both orders give the same code.
ISA_INLINE void encode_block(const struct quant_rule *rule, const struct range *r, const float *x, const __m512 *scale,
                             const __m512 *inverse, uint8_t *to)
{
    __m512 q[4];
    divide(x, scale, inverse, 4, q);
    _mm512_storeu_si512(to, bytes_of(rule, r, q));
}

// Asks memory for a block some turns ahead, into the second-level cache: where arithmetic fills the window in which the
// CPU would find its reads, it does not by itself. (An address beyond the end does no harm.)
ISA_INLINE void ask_for_block(const float *x)
{
    enum { AHEAD = 2048 };
    ISA_UNROLL
    for (size_t v = 0; v < 4; v++)
        _mm_prefetch((const char *)(x + AHEAD + v * LANES), _MM_HINT_T1);
}

ISA_INLINE void store_codes(const struct range *r, __m512i q, size_t n, uint8_t *to)
{
    __m128i codes = _mm512_cvtepi32_epi8(_mm512_add_epi32(kept(r, q), r->zero));
    _mm_mask_storeu_epi8(to, first(n), codes);
}

static void encode_plain(const struct quant_rule *rule, const struct range *r, const float *x, size_t n, float scale,
                         uint8_t *to)
{
    float inverse = inverse_of(scale);
    __m512 s = _mm512_set1_ps(scale), t = _mm512_set1_ps(inverse);
    __m512 scales[4] = {s, s, s, s}, inverses[4] = {t, t, t, t};
    if (inverse > 0) {
        for (; n >= BLOCK; n -= BLOCK, x += BLOCK, to += BLOCK)
            encode_block(rule, r, x, scales, inverses, to);
    }
    for (; n >= LANES; n -= LANES, x += LANES, to += LANES)
        store_codes(r, rounded(r, _mm512_div_ps(_mm512_loadu_ps(x), s)), LANES, to);
    if (n)
        store_codes(r, rounded(r, _mm512_div_ps(_mm512_maskz_loadu_ps(first(n), x), s)), n, to);
}

// What one call counts.
struct counts {
    __m512d error2, reference2, max_error, max_in_scales;
    size_t clipped, flushed;
};

ISA_INLINE void account_half(struct counts *c, __m512d x, __m256i code, __m512d scale, __mmask8 finite, __mmask8 inside,
                             double *error2, double *reference2, int divide_each)
{
    __m512d e = _mm512_fmsub_pd(_mm512_cvtepi32_pd(code), scale, x); // the product is exact: 9 bits by 24
    __m512d a = _mm512_abs_pd(e), e2 = _mm512_mul_pd(e, e), x2 = _mm512_mul_pd(x, x);
    if (error2 && reference2) {
        _mm512_mask_storeu_pd(error2, finite, _mm512_add_pd(_mm512_maskz_loadu_pd(finite, error2), e2));
        _mm512_mask_storeu_pd(reference2, finite, _mm512_add_pd(_mm512_maskz_loadu_pd(finite, reference2), x2));
    } else {
        c->error2 = _mm512_mask_add_pd(c->error2, finite, c->error2, e2);
        c->reference2 = _mm512_mask_add_pd(c->reference2, finite, c->reference2, x2);
    }
    c->max_error = _mm512_mask_max_pd(c->max_error, finite, c->max_error, a);
    if (divide_each)
        a = _mm512_maskz_div_pd(inside, a, scale);
    c->max_in_scales = _mm512_mask_max_pd(c->max_in_scales, inside, c->max_in_scales, a);
}

// n <= 16 elements of x and their rounded quotients q.
ISA_INLINE void account(struct counts *c, const struct range *r, __m512 x, __m512i q, __m512 scale, size_t n,
                        double *error2, double *reference2, int divide_each)
{
    enum { NAN_OR_INFINITY = 0x99 };
    __mmask16 here = first(n), finite = here & (__mmask16)~_mm512_fpclass_ps_mask(x, NAN_OR_INFINITY);
    __mmask16 clips = _mm512_cmpneq_epi32_mask(q, kept(r, q)), inside = finite & (__mmask16)~clips;
    __m512i code = kept(r, q);
    c->clipped += (size_t)__builtin_popcount(clips & here & _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q));
    c->flushed += (size_t)__builtin_popcount(finite & _mm512_testn_epi32_mask(code, code) &
                                             _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NEQ_UQ));
    account_half(c, _mm512_cvtps_pd(_mm512_castps512_ps256(x)), _mm512_castsi512_si256(code),
                 _mm512_cvtps_pd(_mm512_castps512_ps256(scale)), (__mmask8)finite, (__mmask8)inside, error2, reference2,
                 divide_each);
    account_half(c, _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)), _mm512_extracti32x8_epi32(code, 1),
                 _mm512_cvtps_pd(_mm512_extractf32x8_ps(scale, 1)), (__mmask8)(finite >> 8), (__mmask8)(inside >> 8),
                 error2 ? error2 + 8 : NULL, reference2 ? reference2 + 8 : NULL, divide_each);
}

ISA_INLINE struct counts counts_from(const struct quant_tally *t)
{
    return (struct counts){
        _mm512_loadu_pd(t->error2), _mm512_loadu_pd(t->reference2), _mm512_setzero_pd(), _mm512_setzero_pd(), 0, 0};
}

// scale: what the largest error within the range is still to be divided by (a division by one number keeps the order).
ISA_INLINE void counts_to(const struct counts *c, double scale, size_t n, struct quant_tally *t)
{
    double most = _mm512_reduce_max_pd(c->max_error), in_scales = _mm512_reduce_max_pd(c->max_in_scales) / scale;
    _mm512_storeu_pd(t->error2, c->error2);
    _mm512_storeu_pd(t->reference2, c->reference2);
    t->max_error = most > t->max_error ? most : t->max_error;
    t->max_error_in_scales = in_scales > t->max_error_in_scales ? in_scales : t->max_error_in_scales;
    t->clipped += c->clipped;
    t->flushed += c->flushed;
    t->elements += n;
}

static void encode_counted(const struct range *r, const float *x, size_t n, float scale, uint8_t *to,
                           struct quant_tally *tally)
{
    struct counts c = counts_from(tally);
    __m512 s = _mm512_set1_ps(scale);
    for (size_t i = 0; i < n; i += LANES) {
        size_t k = n - i < LANES ? n - i : LANES;
        __m512 v = _mm512_maskz_loadu_ps(first(k), x + i);
        __m512i q = rounded(r, _mm512_div_ps(v, s));
        store_codes(r, q, k, to + i);
        account(&c, r, v, q, s, k, NULL, NULL, 0);
    }
    counts_to(&c, (double)scale, n, tally);
}

static void encode(const struct quant_rule *rule, const float *x, size_t n, float scale, void *codes,
                   struct quant_tally *tally)
{
    struct range r = range_of(rule);
    if (tally)
        encode_counted(&r, x, n, scale, codes, tally);
    else
        encode_plain(rule, &r, x, n, scale, codes);
}

static void encode_columns(const struct quant_rule *rule, const float *x, size_t n, const float *scales, void *codes,
                           struct quant_tally *tally, const struct quant_column_sums *columns)
{
    struct range r = range_of(rule);
    uint8_t *to = codes;
    struct counts c = {0};
    if (tally)
        c = counts_from(tally);
    size_t i = 0;
    for (; !tally && n - i >= BLOCK; i += BLOCK) {
        __m512 q[4];
        ISA_UNROLL
        for (size_t v = 0; v < 4; v++)
            q[v] = _mm512_div_ps(_mm512_loadu_ps(x + i + v * LANES), _mm512_loadu_ps(scales + i + v * LANES));
        _mm512_storeu_si512(to + i, bytes_of(rule, &r, q));
    }
    for (; i < n; i += LANES) {
        size_t k = n - i < LANES ? n - i : LANES;
        __m512 v = _mm512_maskz_loadu_ps(first(k), x + i);
        __m512 s = _mm512_mask_loadu_ps(_mm512_set1_ps(1), first(k), scales + i);
        __m512i q = rounded(&r, _mm512_div_ps(v, s));
        store_codes(&r, q, k, to + i);
        if (tally && columns)
            account(&c, &r, v, q, s, k, columns->error2 + i, columns->reference2 + i, 1);
        else if (tally)
            account(&c, &r, v, q, s, k, NULL, NULL, 1);
    }
    if (tally)
        counts_to(&c, 1, n, tally);
}

static void encode_groups(const struct quant_rule *rule, const float *x, size_t groups, size_t group,
                          const float *scales, void *codes, struct quant_tally *tally)
{
    struct range r = range_of(rule);
    uint8_t *to = codes;
    for (; group == 2 * LANES && !tally && groups >= LANES;
         groups -= LANES, x += LANES * group, to += LANES * group, scales += LANES) {
        __m512 s = _mm512_loadu_ps(scales);
        __mmask16 good = _mm512_cmp_ps_mask(s, _mm512_set1_ps(FLT_MIN), _CMP_GE_OQ) &
                         _mm512_cmp_ps_mask(s, _mm512_set1_ps(0x1p125f), _CMP_LE_OQ);
        if (good != 0xffff)
            break;
        float inverse[LANES];
        _mm512_storeu_ps(inverse, _mm512_div_ps(_mm512_set1_ps(1), s));
        for (size_t g = 0; g < LANES; g += 2) {
            __m512 s0 = _mm512_set1_ps(scales[g]), s1 = _mm512_set1_ps(scales[g + 1]);
            __m512 t0 = _mm512_set1_ps(inverse[g]), t1 = _mm512_set1_ps(inverse[g + 1]);
            __m512 both[4] = {s0, s0, s1, s1}, inverses[4] = {t0, t0, t1, t1};
            ask_for_block(x + g * group);
            encode_block(rule, &r, x + g * group, both, inverses, to + g * group);
        }
    }
    for (; groups > 0; groups--, x += group, to += group, scales++) {
        if (tally)
            encode_counted(&r, x, group, *scales, to, tally);
        else
            encode_plain(rule, &r, x, group, *scales, to);
    }
}

// --- values

ISA_INLINE __m512 steps_of(const struct quant_rule *rule, __m128i codes)
{
    __m512i c = rule->low < 0 ? _mm512_cvtepi8_epi32(codes) : _mm512_cvtepu8_epi32(codes);
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(c, _mm512_set1_epi32(rule->zero)));
}

// Elements before x is aligned to a register.
ISA_INLINE size_t unaligned(const float *x, size_t n)
{
    size_t ahead = (0 - (uintptr_t)x) / sizeof *x % LANES;
    return ahead < n ? ahead : n;
}

ISA_INLINE void put(float *x, __m512 v, bool stream)
{
    if (stream)
        _mm512_stream_ps(x, v);
    else
        _mm512_storeu_ps(x, v);
}

ISA_INLINE void decode_part(const struct quant_rule *rule, const uint8_t *from, size_t n, __m512 scale, float *x)
{
    _mm512_mask_storeu_ps(x, first(n), _mm512_mul_ps(steps_of(rule, _mm_maskz_loadu_epi8(first(n), from)), scale));
}

static void decode(const struct quant_rule *rule, const void *codes, size_t n, float scale, float *x, bool stream)
{
    const uint8_t *from = codes;
    __m512 s = _mm512_set1_ps(scale);
    size_t head = stream ? unaligned(x, n) : 0;
    if (head)
        decode_part(rule, from, head, s, x);
    for (n -= head, from += head, x += head; n >= LANES; n -= LANES, from += LANES, x += LANES)
        put(x, _mm512_mul_ps(steps_of(rule, _mm_loadu_si128((const void *)from)), s), stream);
    if (n)
        decode_part(rule, from, n, s, x);
}

static void decode_columns(const struct quant_rule *rule, const void *codes, size_t n, const float *scales, float *x,
                           bool stream)
{
    const uint8_t *from = codes;
    size_t head = stream ? unaligned(x, n) : 0;
    if (head)
        decode_part(rule, from, head, _mm512_maskz_loadu_ps(first(head), scales), x);
    for (n -= head, from += head, x += head, scales += head; n >= LANES;
         n -= LANES, from += LANES, x += LANES, scales += LANES)
        put(x, _mm512_mul_ps(steps_of(rule, _mm_loadu_si128((const void *)from)), _mm512_loadu_ps(scales)), stream);
    if (n)
        decode_part(rule, from, n, _mm512_maskz_loadu_ps(first(n), scales), x);
}

static uint32_t encode_ahead(const struct quant_rule *rule, const float *x, size_t n, float scale, void *codes,
                             const float *next, bool stream)
{
    struct range r = range_of(rule);
    uint8_t *to = codes;
    stream = stream && (uintptr_t)to % sizeof(__m512i) == 0;
    float inverse = inverse_of(scale);
    __m512 s = _mm512_set1_ps(scale), t = _mm512_set1_ps(inverse);
    __m512 scales[4] = {s, s, s, s}, inverses[4] = {t, t, t, t};
    __m512i m[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    for (; inverse > 0 && n >= BLOCK; n -= BLOCK, x += BLOCK, next += BLOCK, to += BLOCK) {
        ISA_UNROLL
        for (size_t v = 0; v < 4; v++)
            m[v] = _mm512_max_epu32(m[v], magnitudes(next + v * LANES));
        ask_for_block(next);
        if (stream) {
            __m512 q[4];
            divide(x, scales, inverses, 4, q);
            _mm512_stream_si512((void *)to, bytes_of(rule, &r, q));
            continue;
        }
        encode_block(rule, &r, x, scales, inverses, to);
    }
    encode_plain(rule, &r, x, n, scale, to);
    uint32_t rest = absmax(next, n);
    uint32_t most =
        _mm512_reduce_max_epu32(_mm512_max_epu32(_mm512_max_epu32(m[0], m[1]), _mm512_max_epu32(m[2], m[3])));
    return most > rest ? most : rest;
}

static void decode_groups(const struct quant_rule *rule, const void *codes, size_t groups, size_t group,
                          const float *scales, float *x, bool stream)
{
    const uint8_t *from = codes;
    bool whole = group % LANES == 0 && (!stream || unaligned(x, LANES) == 0);
    for (size_t g = 0; g < groups; g++, from += group, x += group) {
        __m512 s = _mm512_set1_ps(scales[g]);
        for (size_t i = 0; whole && i < group; i += LANES)
            put(x + i, _mm512_mul_ps(steps_of(rule, _mm_loadu_si128((const void *)(from + i))), s), stream);
        if (!whole)
            decode(rule, from, group, scales[g], x, stream);
    }
}

// --- pairs of codes in a byte

static void pack4(const void *codes, size_t n, uint8_t *packed)
{
    const uint8_t *from = codes;
    __m512i low = _mm512_set1_epi16(0x000f), high = _mm512_set1_epi16(0x00f0);
    for (; n >= BLOCK; n -= BLOCK, from += BLOCK, packed += BLOCK / 2) {
        __m512i pairs = _mm512_loadu_si512(from);
        __m512i bytes =
            _mm512_or_si512(_mm512_and_si512(pairs, low), _mm512_and_si512(_mm512_srli_epi16(pairs, 4), high));
        _mm256_storeu_si256((void *)packed, _mm512_cvtepi16_epi8(bytes));
    }
    quant_kernels_portable.pack4(from, n, packed);
}

static void unpack4(const uint8_t *packed, size_t n, int is_signed, void *codes)
{
    uint8_t *to = codes;
    __m512i flip = _mm512_set1_epi8(is_signed ? 8 : 0);
    __m512i low = _mm512_set1_epi16(0x000f), high = _mm512_set1_epi16(0x0f00);
    for (; n >= BLOCK; n -= BLOCK, packed += BLOCK / 2, to += BLOCK) {
        __m512i bytes = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)packed));
        __m512i pairs =
            _mm512_or_si512(_mm512_and_si512(bytes, low), _mm512_and_si512(_mm512_slli_epi16(bytes, 4), high));
        _mm512_storeu_si512(to, _mm512_sub_epi8(_mm512_xor_si512(pairs, flip), flip));
    }
    quant_kernels_portable.unpack4(packed, n, is_signed, to);
}

ISA_TARGET_END

const struct quant_kernels quant_kernels_avx512 = QUANT_KERNELS("avx512");

#endif
