// SPDX-License-Identifier: Apache-2.0
// The kernels of num/quantize_kernels.h for AVX2. What does not fill a register is left to the portable set.
#include "num/quantize_kernels.h"

#if defined(__x86_64__)

#include <float.h>
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "num/isa_target.h"

ISA_TARGET("avx2,f16c,fma")

enum { LANES = 8, BLOCK = 32 };

ISA_INLINE __m256i magnitudes(const float *x)
{
    return _mm256_and_si256(_mm256_loadu_si256((const void *)x), _mm256_set1_epi32(0x7fffffff));
}

ISA_INLINE uint32_t largest(__m256i m)
{
    __m128i v = _mm_max_epu32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    v = _mm_max_epu32(v, _mm_shuffle_epi32(v, 0x4e));
    v = _mm_max_epu32(v, _mm_shuffle_epi32(v, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(v);
}

static uint32_t absmax(const float *x, size_t n)
{
    __m256i m[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    for (; n >= BLOCK; n -= BLOCK, x += BLOCK) {
        ISA_UNROLL
        for (size_t v = 0; v < 4; v++)
            m[v] = _mm256_max_epu32(m[v], magnitudes(x + v * LANES));
    }
    for (; n >= LANES; n -= LANES, x += LANES)
        m[0] = _mm256_max_epu32(m[0], magnitudes(x));
    uint32_t most = largest(_mm256_max_epu32(_mm256_max_epu32(m[0], m[1]), _mm256_max_epu32(m[2], m[3])));
    uint32_t rest = quant_kernels_portable.absmax(x, n);
    return rest > most ? rest : most;
}

static struct quant_extent extent(const float *x, size_t n)
{
    // Of an unordered pair the instructions give the second.
    __m256 low = _mm256_set1_ps(INFINITY), high = _mm256_set1_ps(-INFINITY);
    for (; n >= LANES; n -= LANES, x += LANES) {
        __m256 v = _mm256_loadu_ps(x);
        low = _mm256_min_ps(v, low);
        high = _mm256_max_ps(v, high);
    }
    float ends[2 * LANES];
    _mm256_storeu_ps(ends, low);
    _mm256_storeu_ps(ends + LANES, high);
    struct quant_extent e = quant_kernels_portable.extent(x, n);
    for (int i = 0; i < LANES; i++) {
        e.min = ends[i] < e.min ? ends[i] : e.min;
        e.max = ends[LANES + i] > e.max ? ends[LANES + i] : e.max;
    }
    return e;
}

static void absmax_groups(const float *x, size_t groups, size_t group, uint32_t *out)
{
    for (size_t g = 0; g < groups; g++)
        out[g] = absmax(x + g * group, group);
}

static void absmax_columns(const float *x, size_t n, uint32_t *out)
{
    for (; n >= LANES; n -= LANES, x += LANES, out += LANES) {
        __m256i m = _mm256_max_epu32(_mm256_loadu_si256((const void *)out), magnitudes(x));
        _mm256_storeu_si256((void *)out, m);
    }
    quant_kernels_portable.absmax_columns(x, n, out);
}

// --- codes

struct range {
    __m256 least, most;  // the range
    __m256 below, above; // one beyond it, so that what clips can be told
    __m256i low, high, zero;
};

ISA_INLINE struct range range_of(const struct quant_rule *rule)
{
    int low = rule->low - rule->zero, high = rule->high - rule->zero;
    return (struct range){_mm256_set1_ps((float)low),       _mm256_set1_ps((float)high),
                          _mm256_set1_ps((float)(low - 1)), _mm256_set1_ps((float)(high + 1)),
                          _mm256_set1_epi32(low),           _mm256_set1_epi32(high),
                          _mm256_set1_epi32(rule->zero)};
}

// rint(q), at most one beyond the range. NaN becomes the lower limit: of an unordered pair max gives the second.
ISA_INLINE __m256i rounded(const struct range *r, __m256 q)
{
    return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(q, r->below), r->above));
}

ISA_INLINE __m256i kept(const struct range *r, __m256i q)
{
    return _mm256_min_epi32(_mm256_max_epi32(q, r->low), r->high);
}

ISA_INLINE __m256 absolute(__m256 v)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
}

// Why a product with the inverse may stand for the quotient: see quantize_avx512.c.
ISA_INLINE int near_ties(const __m256 *q, int count)
{
    __m256 most = _mm256_setzero_ps();
    ISA_UNROLL
    for (int i = 0; i < count; i++) {
        __m256 whole = _mm256_round_ps(q[i], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        most = _mm256_max_ps(absolute(_mm256_sub_ps(q[i], whole)), most);
    }
    return _mm256_movemask_ps(_mm256_cmp_ps(most, _mm256_set1_ps(0.5f - 0x1p-14f), _CMP_GE_OQ));
}

ISA_INLINE float inverse_of(float scale)
{
    return scale >= FLT_MIN && scale <= 0x1p125f ? 1 / scale : 0;
}

ISA_INLINE __m256i bytes_of(const struct quant_rule *rule, const struct range *r, const __m256 *q)
{
    __m256i c[4];
    ISA_UNROLL
    for (int i = 0; i < 4; i++)
        c[i] = _mm256_add_epi32(_mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(q[i], r->least), r->most)), r->zero);
    __m256i low = _mm256_packs_epi32(c[0], c[1]), high = _mm256_packs_epi32(c[2], c[3]);
    __m256i bytes = rule->low < 0 ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high);
    return _mm256_permutevar8x32_epi32(bytes, _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0));
}

// inverse 0 asks for division. Nothing is counted here, so the quotient is limited to the range before it is rounded:
// both orders give the same code.
ISA_INLINE void encode_block(const struct quant_rule *rule, const struct range *r, const float *x, float scale,
                             float inverse, uint8_t *to)
{
    __m256 q[4];
    ISA_UNROLL
    for (int v = 0; v < 4; v++)
        q[v] = _mm256_mul_ps(_mm256_loadu_ps(x + v * LANES), _mm256_set1_ps(inverse));
    if (__builtin_expect(inverse == 0 || near_ties(q, 4), 0)) {
        ISA_UNROLL
        for (int v = 0; v < 4; v++)
            q[v] = _mm256_div_ps(_mm256_loadu_ps(x + v * LANES), _mm256_set1_ps(scale));
    }
    _mm256_storeu_si256((void *)to, bytes_of(rule, r, q));
}

static void encode_plain(const struct quant_rule *rule, const struct range *r, const float *x, size_t n, float scale,
                         uint8_t *to)
{
    float inverse = inverse_of(scale);
    for (; n >= BLOCK; n -= BLOCK, x += BLOCK, to += BLOCK)
        encode_block(rule, r, x, scale, inverse, to);
    quant_kernels_portable.encode(rule, x, n, scale, to, NULL);
}

// What one call counts: lanes 0 to 3 and 4 to 7.
struct counts {
    __m256d error2[2], reference2[2], max_error, max_in_scales;
    size_t clipped, flushed;
};

// Masks of 32 bits as masks of 64.
ISA_INLINE __m256d wide(__m128i mask)
{
    return _mm256_castsi256_pd(_mm256_cvtepi32_epi64(mask));
}

ISA_INLINE __m128i half_of(__m256i v, int half)
{
    return half ? _mm256_extracti128_si256(v, 1) : _mm256_castsi256_si128(v);
}

ISA_INLINE __m256d half_wide(__m256 v, int half)
{
    return _mm256_cvtps_pd(half ? _mm256_extractf128_ps(v, 1) : _mm256_castps256_ps128(v));
}

ISA_INLINE size_t count(__m256i mask)
{
    return (size_t)__builtin_popcount((unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(mask)));
}

ISA_INLINE void account_half(struct counts *c, int half, __m256d x, __m128i code, __m256d scale, __m256d finite,
                             __m256d inside, double *error2, double *reference2, int divide_each)
{
    __m256d e = _mm256_fmsub_pd(_mm256_cvtepi32_pd(code), scale, x); // the product is exact: 9 bits by 24
    __m256d a = _mm256_and_pd(_mm256_andnot_pd(_mm256_set1_pd(-0.0), e), finite);
    // What is not finite adds +0, which changes no sum of squares.
    __m256d e2 = _mm256_and_pd(_mm256_mul_pd(e, e), finite), x2 = _mm256_and_pd(_mm256_mul_pd(x, x), finite);
    if (error2 && reference2) {
        _mm256_storeu_pd(error2, _mm256_add_pd(_mm256_loadu_pd(error2), e2));
        _mm256_storeu_pd(reference2, _mm256_add_pd(_mm256_loadu_pd(reference2), x2));
    } else {
        c->error2[half] = _mm256_add_pd(c->error2[half], e2);
        c->reference2[half] = _mm256_add_pd(c->reference2[half], x2);
    }
    c->max_error = _mm256_max_pd(c->max_error, a);
    a = _mm256_and_pd(a, inside);
    if (divide_each)
        a = _mm256_div_pd(a, scale);
    c->max_in_scales = _mm256_max_pd(c->max_in_scales, a);
}

// Eight elements x and their rounded quotients q.
ISA_INLINE void account(struct counts *c, const struct range *r, __m256 x, __m256i q, __m256 scale, double *error2,
                        double *reference2, int divide_each)
{
    __m256i code = kept(r, q), same = _mm256_cmpeq_epi32(q, code), none = _mm256_setzero_si256();
    __m256i infinity = _mm256_set1_epi32(0x7f800000);
    __m256i magnitude = _mm256_andnot_si256(_mm256_set1_epi32(INT32_MIN), _mm256_castps_si256(x));
    __m256i finite = _mm256_cmpgt_epi32(infinity, magnitude), nan = _mm256_cmpgt_epi32(magnitude, infinity);
    __m256i inside = _mm256_and_si256(finite, same);
    c->clipped += LANES - count(_mm256_or_si256(same, nan));
    c->flushed += count(_mm256_and_si256(_mm256_cmpeq_epi32(code, none),
                                         _mm256_andnot_si256(_mm256_cmpeq_epi32(magnitude, none), finite)));
    ISA_UNROLL
    for (int h = 0; h < 2; h++)
        account_half(c, h, half_wide(x, h), half_of(code, h), half_wide(scale, h), wide(half_of(finite, h)),
                     wide(half_of(inside, h)), error2 ? error2 + 4 * h : NULL, reference2 ? reference2 + 4 * h : NULL,
                     divide_each);
}

ISA_INLINE struct counts counts_from(const struct quant_tally *t)
{
    return (struct counts){{_mm256_loadu_pd(t->error2), _mm256_loadu_pd(t->error2 + 4)},
                           {_mm256_loadu_pd(t->reference2), _mm256_loadu_pd(t->reference2 + 4)},
                           _mm256_setzero_pd(),
                           _mm256_setzero_pd(),
                           0,
                           0};
}

ISA_INLINE double largest_f64(__m256d v)
{
    __m128d m = _mm_max_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_max_sd(m, _mm_unpackhi_pd(m, m)));
}

// scale: what the largest error within the range is still to be divided by (a division by one number keeps the order).
ISA_INLINE void counts_to(const struct counts *c, double scale, size_t n, struct quant_tally *t)
{
    double most = largest_f64(c->max_error), in_scales = largest_f64(c->max_in_scales) / scale;
    ISA_UNROLL
    for (int h = 0; h < 2; h++) {
        _mm256_storeu_pd(t->error2 + 4 * h, c->error2[h]);
        _mm256_storeu_pd(t->reference2 + 4 * h, c->reference2[h]);
    }
    t->max_error = most > t->max_error ? most : t->max_error;
    t->max_error_in_scales = in_scales > t->max_error_in_scales ? in_scales : t->max_error_in_scales;
    t->clipped += c->clipped;
    t->flushed += c->flushed;
    t->elements += n;
}

ISA_INLINE void store_codes(const struct range *r, __m256i q, uint8_t *to)
{
    __m256i c = _mm256_add_epi32(kept(r, q), r->zero), low_bytes = _mm256_set1_epi32(0xff);
    c = _mm256_packus_epi32(_mm256_and_si256(c, low_bytes), _mm256_setzero_si256());
    c = _mm256_permute4x64_epi64(c, 0xd8);
    _mm_storel_epi64((void *)to, _mm_packus_epi16(_mm256_castsi256_si128(c), _mm_setzero_si128()));
}

static void encode_counted(const struct quant_rule *rule, const struct range *r, const float *x, size_t n, float scale,
                           uint8_t *to, struct quant_tally *tally)
{
    struct counts c = counts_from(tally);
    __m256 s = _mm256_set1_ps(scale);
    size_t i = 0;
    for (; n - i >= LANES; i += LANES) {
        __m256 v = _mm256_loadu_ps(x + i);
        __m256i q = rounded(r, _mm256_div_ps(v, s));
        store_codes(r, q, to + i);
        account(&c, r, v, q, s, NULL, NULL, 0);
    }
    counts_to(&c, (double)scale, i, tally);
    quant_kernels_portable.encode(rule, x + i, n - i, scale, to + i, tally);
}

static void encode(const struct quant_rule *rule, const float *x, size_t n, float scale, void *codes,
                   struct quant_tally *tally)
{
    struct range r = range_of(rule);
    if (tally)
        encode_counted(rule, &r, x, n, scale, codes, tally);
    else
        encode_plain(rule, &r, x, n, scale, codes);
}

static void encode_columns(const struct quant_rule *rule, const float *x, size_t n, const float *scales, void *codes,
                           struct quant_tally *tally, const struct quant_column_sums *columns)
{
    struct range r = range_of(rule);
    uint8_t *to = codes;
    struct counts c = {0};
    size_t i = 0;
    if (tally)
        c = counts_from(tally);
    for (; n - i >= LANES; i += LANES) {
        __m256 v = _mm256_loadu_ps(x + i), s = _mm256_loadu_ps(scales + i);
        __m256i q = rounded(&r, _mm256_div_ps(v, s));
        store_codes(&r, q, to + i);
        if (tally && columns)
            account(&c, &r, v, q, s, columns->error2 + i, columns->reference2 + i, 1);
        else if (tally)
            account(&c, &r, v, q, s, NULL, NULL, 1);
    }
    if (tally)
        counts_to(&c, 1, i, tally);
    struct quant_column_sums rest = columns ? (struct quant_column_sums){columns->error2 + i, columns->reference2 + i}
                                            : (struct quant_column_sums){NULL, NULL};
    quant_kernels_portable.encode_columns(rule, x + i, n - i, scales + i, to + i, tally, columns ? &rest : NULL);
}

static void encode_groups(const struct quant_rule *rule, const float *x, size_t groups, size_t group,
                          const float *scales, void *codes, struct quant_tally *tally)
{
    struct range r = range_of(rule);
    uint8_t *to = codes;
    for (size_t g = 0; g < groups; g++) {
        if (tally)
            encode_counted(rule, &r, x + g * group, group, scales[g], to + g * group, tally);
        else
            encode_plain(rule, &r, x + g * group, group, scales[g], to + g * group);
    }
}

// --- values

ISA_INLINE __m256 steps_of(const struct quant_rule *rule, const uint8_t *codes)
{
    __m128i bytes = _mm_loadl_epi64((const void *)codes);
    __m256i c = rule->low < 0 ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(c, _mm256_set1_epi32(rule->zero)));
}

// Elements before x is aligned to a register.
ISA_INLINE size_t unaligned(const float *x, size_t n)
{
    size_t ahead = (0 - (uintptr_t)x) / sizeof *x % LANES;
    return ahead < n ? ahead : n;
}

ISA_INLINE void put(float *x, __m256 v, bool stream)
{
    if (stream)
        _mm256_stream_ps(x, v);
    else
        _mm256_storeu_ps(x, v);
}

static void decode(const struct quant_rule *rule, const void *codes, size_t n, float scale, float *x, bool stream)
{
    const uint8_t *from = codes;
    size_t head = stream ? unaligned(x, n) : 0;
    quant_kernels_portable.decode(rule, from, head, scale, x, false);
    for (n -= head, from += head, x += head; n >= LANES; n -= LANES, from += LANES, x += LANES)
        put(x, _mm256_mul_ps(steps_of(rule, from), _mm256_set1_ps(scale)), stream);
    quant_kernels_portable.decode(rule, from, n, scale, x, false);
}

static void decode_columns(const struct quant_rule *rule, const void *codes, size_t n, const float *scales, float *x,
                           bool stream)
{
    const uint8_t *from = codes;
    size_t head = stream ? unaligned(x, n) : 0;
    quant_kernels_portable.decode_columns(rule, from, head, scales, x, false);
    for (n -= head, from += head, x += head, scales += head; n >= LANES;
         n -= LANES, from += LANES, x += LANES, scales += LANES)
        put(x, _mm256_mul_ps(steps_of(rule, from), _mm256_loadu_ps(scales)), stream);
    quant_kernels_portable.decode_columns(rule, from, n, scales, x, false);
}

QUANT_ENCODE_AHEAD
QUANT_DECODE_GROUPS

// --- pairs of codes in a byte

static void pack4(const void *codes, size_t n, uint8_t *packed)
{
    const uint8_t *from = codes;
    __m256i low = _mm256_set1_epi16(0x000f), high = _mm256_set1_epi16(0x00f0);
    for (; n >= BLOCK; n -= BLOCK, from += BLOCK, packed += BLOCK / 2) {
        __m256i pairs = _mm256_loadu_si256((const void *)from);
        __m256i bytes =
            _mm256_or_si256(_mm256_and_si256(pairs, low), _mm256_and_si256(_mm256_srli_epi16(pairs, 4), high));
        bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(bytes, bytes), 0xd8);
        _mm_storeu_si128((void *)packed, _mm256_castsi256_si128(bytes));
    }
    quant_kernels_portable.pack4(from, n, packed);
}

static void unpack4(const uint8_t *packed, size_t n, int is_signed, void *codes)
{
    uint8_t *to = codes;
    __m256i flip = _mm256_set1_epi8(is_signed ? 8 : 0);
    __m256i low = _mm256_set1_epi16(0x000f), high = _mm256_set1_epi16(0x0f00);
    for (; n >= BLOCK; n -= BLOCK, packed += BLOCK / 2, to += BLOCK) {
        __m256i bytes = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)packed));
        __m256i pairs =
            _mm256_or_si256(_mm256_and_si256(bytes, low), _mm256_and_si256(_mm256_slli_epi16(bytes, 4), high));
        _mm256_storeu_si256((void *)to, _mm256_sub_epi8(_mm256_xor_si256(pairs, flip), flip));
    }
    quant_kernels_portable.unpack4(packed, n, is_signed, to);
}

ISA_TARGET_END

const struct quant_kernels quant_kernels_avx2 = QUANT_KERNELS("avx2");

#endif
