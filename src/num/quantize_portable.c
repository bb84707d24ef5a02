// SPDX-License-Identifier: Apache-2.0
// The kernels of num/quantize_kernels.h in plain C: what all other sets are compared with.
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "num/quantize_kernels.h"

static inline uint32_t magnitude_bits(float v)
{
    return f32_bits(v) & 0x7fffffffu;
}

static uint32_t absmax(const float *x, size_t n)
{
    uint32_t m = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t b = magnitude_bits(x[i]);
        m = b > m ? b : m;
    }
    return m;
}

static struct quant_extent extent(const float *x, size_t n)
{
    struct quant_extent e = {INFINITY, -INFINITY};
    for (size_t i = 0; i < n; i++) {
        e.min = x[i] < e.min ? x[i] : e.min;
        e.max = x[i] > e.max ? x[i] : e.max;
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
    for (size_t i = 0; i < n; i++) {
        uint32_t b = magnitude_bits(x[i]);
        out[i] = b > out[i] ? b : out[i];
    }
}

// The rule relative to the zero point. The quotient is limited to one step beyond the range: that keeps what clips
// apart from what does not, and lets it be rounded by a sum that has no room for a fraction (|q| < 2^22).
struct range {
    float low, high;
    int zero;
};

static inline struct range range_of(const struct quant_rule *rule)
{
    return (struct range){(float)(rule->low - rule->zero), (float)(rule->high - rule->zero), rule->zero};
}

static inline float quotient(const struct range *r, float x, float scale)
{
    float q = x / scale;
    q = q > r->low - 1 ? q : r->low - 1; // NaN becomes the lower limit
    q = q < r->high + 1 ? q : r->high + 1;
    return (q + 12582912.0f) - 12582912.0f;
}

static inline uint8_t code_of(const struct range *r, float q)
{
    q = q < r->low ? r->low : q > r->high ? r->high : q;
    return (uint8_t)((int)q + r->zero);
}

static inline void account(const struct range *r, float x, float scale, float q, struct quant_tally *t, double *error2,
                           double *reference2)
{
    float kept = q < r->low ? r->low : q > r->high ? r->high : q;
    t->clipped += kept != q && x == x;
    if (!isfinite(x))
        return;
    double e = (double)kept * scale - x; // the product is exact: 9 bits by 24
    double a = fabs(e);
    *error2 += e * e;
    *reference2 += (double)x * x;
    t->flushed += x != 0 && kept == 0;
    t->max_error = a > t->max_error ? a : t->max_error;
    if (kept != q)
        return;
    double in_scales = a / scale;
    t->max_error_in_scales = in_scales > t->max_error_in_scales ? in_scales : t->max_error_in_scales;
}

static void encode(const struct quant_rule *rule, const float *x, size_t n, float scale, void *codes,
                   struct quant_tally *tally)
{
    struct range r = range_of(rule);
    uint8_t *to = codes;
    for (size_t i = 0; i < n; i++) {
        float q = quotient(&r, x[i], scale);
        to[i] = code_of(&r, q);
        if (tally)
            account(&r, x[i], scale, q, tally, &tally->error2[i % QUANT_LANES], &tally->reference2[i % QUANT_LANES]);
    }
    if (tally)
        tally->elements += n;
}

static void encode_columns(const struct quant_rule *rule, const float *x, size_t n, const float *scales, void *codes,
                           struct quant_tally *tally, const struct quant_column_sums *columns)
{
    struct range r = range_of(rule);
    uint8_t *to = codes;
    for (size_t i = 0; i < n; i++) {
        float q = quotient(&r, x[i], scales[i]);
        to[i] = code_of(&r, q);
        if (!tally)
            continue;
        size_t lane = i % QUANT_LANES;
        account(&r, x[i], scales[i], q, tally, columns ? &columns->error2[i] : &tally->error2[lane],
                columns ? &columns->reference2[i] : &tally->reference2[lane]);
    }
    if (tally)
        tally->elements += n;
}

static void encode_groups(const struct quant_rule *rule, const float *x, size_t groups, size_t group,
                          const float *scales, void *codes, struct quant_tally *tally)
{
    for (size_t g = 0; g < groups; g++)
        encode(rule, x + g * group, group, scales[g], (uint8_t *)codes + g * group, tally);
}

static inline float value_of(const struct quant_rule *rule, uint8_t code, float scale)
{
    int c = rule->low < 0 ? (int8_t)code : code;
    return (float)(c - rule->zero) * scale;
}

static void decode(const struct quant_rule *rule, const void *codes, size_t n, float scale, float *x, bool stream)
{
    (void)stream;
    const uint8_t *from = codes;
    for (size_t i = 0; i < n; i++)
        x[i] = value_of(rule, from[i], scale);
}

static void decode_columns(const struct quant_rule *rule, const void *codes, size_t n, const float *scales, float *x,
                           bool stream)
{
    (void)stream;
    const uint8_t *from = codes;
    for (size_t i = 0; i < n; i++)
        x[i] = value_of(rule, from[i], scales[i]);
}

QUANT_ENCODE_AHEAD
QUANT_DECODE_GROUPS

static void pack4(const void *codes, size_t n, uint8_t *packed)
{
    const uint8_t *from = codes;
    for (size_t i = 0; i + 1 < n; i += 2)
        packed[i / 2] = (uint8_t)((from[i] & 15) | from[i + 1] << 4);
    if (n % 2)
        packed[n / 2] = from[n - 1] & 15;
}

static void unpack4(const uint8_t *packed, size_t n, int is_signed, void *codes)
{
    uint8_t *to = codes, flip = is_signed ? 8 : 0;
    for (size_t i = 0; i < n; i++) {
        unsigned nibble = packed[i / 2] >> (i % 2 * 4) & 15u;
        to[i] = (uint8_t)((nibble ^ flip) - flip);
    }
}

const struct quant_kernels quant_kernels_portable = QUANT_KERNELS("portable");
