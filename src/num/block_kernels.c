// SPDX-License-Identifier: Apache-2.0
// The choice of a set, and the one in plain C: what all others are compared with.
#include "num/block_kernels.h"

#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "num/convert_block.h"
#include "num/isa.h"

// In a sum with the power of two whose last place is that of the element, the hardware does the rounding. What is far
// beyond the largest is cut first, so that the sum has room.
static inline float rounded(const struct block_rule *r, float a)
{
    a = a < 2 * r->max ? a : 2 * r->max;
    uint32_t exponent = f32_bits(a > r->least ? a : r->least) & 0x7f800000u;
    float unit = r->integer ? 0x1p23f : f32_of_bits(exponent + ((uint32_t)(23 - r->mantissa) << 23));
    return (a + unit) - unit;
}

static inline uint32_t magnitude(const struct block_rule *r, float kept)
{
    if (r->integer)
        return (uint32_t)kept;
    if (kept < r->least)
        return (uint32_t)(kept * r->subnormals);
    return (f32_bits(kept) >> (23 - r->mantissa)) - r->gap;
}

static void code(const struct block_rule *rule, const float *x, size_t n, float factor, float total, uint8_t *codes,
                 float *back, struct block_counts *counts)
{
    for (size_t i = 0; i < n; i++) {
        float v = rule->divides ? x[i] / factor : x[i] * factor * rule->fraction, whole = rounded(rule, fabsf(v));
        float kept = whole < rule->max ? whole : rule->max;
        uint32_t negative = f32_bits(x[i]) >> 31, m = magnitude(rule, kept);
        counts->clipped += whole > rule->max;
        counts->flushed += whole == 0 && (rule->flush_by_result ? v : x[i]) != 0;
        if (rule->integer) {
            codes[i] = (uint8_t)(negative ? 0 - m : m);
            kept = negative && m ? -kept : kept;
        } else {
            codes[i] = (uint8_t)(m | negative << rule->sign);
            kept = negative ? -kept : kept;
        }
        back[i] = kept / rule->fraction * total;
        counts->overflowed += isinf(back[i]) != 0;
    }
}

static void judge(const struct block_bound *bound, const float *x, const float *unit, size_t n, float scale,
                  struct block_judged *judged)
{
    for (size_t i = 0; i < n; i++) {
        if (fabsf(x[i] / scale) > bound->limit)
            continue;
        double size = fabs((double)unit[i] * (double)scale - (double)x[i]);
        double power = (double)f32_of_bits(f32_bits(unit[i]) & 0x7f800000u);
        power = power > bound->min_normal ? power : bound->min_normal;
        judged->most = size > judged->most ? size : judged->most;
        judged->beyond |= size / (double)scale > power * bound->half_step + fabs((double)unit[i]) * bound->slack;
    }
}

static void lost(const float *x, const float *back, size_t n, double scale, struct block_lost *s)
{
    for (size_t i = 0; i < n; i++) {
        size_t j = i % BLOCK_LANES;
        s->flushed += x[i] != 0 && back[i] == 0;
        if (!isfinite(x[i]) || !isfinite(back[i]))
            continue;
        double v = (double)x[i], e = (double)back[i] * scale - v, size = fabs(e);
        s->error2[j] += e * e;
        s->reference2[j] += v * v;
        s->worst[j] = size > s->worst[j] ? size : s->worst[j];
    }
}

const struct block_kernels block_kernels_portable = {"portable", code, judge, lost};

struct block_rule block_rule_of(const struct format *element, int fraction)
{
    int m = element->mantissa_bits;
    float least = fraction ? 1 : (float)format_min_normal(element);
    return (struct block_rule){.integer = fraction != 0,
                               .fraction = (float)(1 << fraction),
                               .max = (float)format_max(element),
                               .least = least,
                               .subnormals = (float)(1 << m) / least,
                               .mantissa = m,
                               .gap = fraction ? 0 : (uint32_t)(127 - element->bias) << m,
                               .sign = element->bits - 1};
}

const struct block_kernels *block_kernels(void)
{
    switch (isa_in_force()) {
#if defined(__x86_64__)
    case ISA_AMX:
    case ISA_AVX512_BF16:
    case ISA_AVX512:
        return &block_kernels_avx512;
    case ISA_AVX2:
        return &block_kernels_avx2;
#endif
    default:
        return &block_kernels_portable;
    }
}
