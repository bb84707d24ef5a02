// SPDX-License-Identifier: Apache-2.0
// The kernels of num/convert_kernels.h in plain C. Loops compute every case, without a branch.
#include "base/bits.h"
#include "num/convert.h"
#include "num/convert_block.h"
#include "num/convert_kernels.h"

// The magnitude to be rounded: that of v, or what stands for it.
static inline uint32_t magnitude(uint32_t v, const struct convert_narrow *r)
{
    uint32_t a = v & 0x7fffffffu;
    uint32_t special = pick(a >= 0x7f800000u, pick(a > 0x7f800000u, r->nan, r->inf), r->over);
    return pick(a >= r->special_from, special, a);
}

static inline uint32_t bf16(uint32_t v, const struct convert_narrow *r)
{
    uint32_t a = magnitude(v, r);
    return (a + 0x7fff + (a >> 16 & 1)) >> 16 | (v >> 16 & 0x8000);
}

static inline uint32_t f16(uint32_t v, const struct convert_narrow *r)
{
    uint32_t a = magnitude(v, r);
    // Below the smallest normal, 2^-14: in a sum with the number whose last bit is the smallest subnormal, the hardware
    // does the rounding.
    uint32_t subnormal = f32_bits(f32_of_bits(a) + 0.5f) - 0x3f000000u;
    uint32_t normal = (a + 0xfff + (a >> 13 & 1) - (112u << 23)) >> 13;
    // From 65536 on there are infinity and NaN; their exponents only look like f32's.
    uint32_t high = 0x7c00 | (a >> 13 & 0x3ff);
    uint32_t code = pick(a < 113u << 23, subnormal, pick(a >= 0x7f800000u, high, normal));
    code = pick(a >= 0x477ff000u && a < 0x7f800000u, 0x7c00, code);
    return code | (v >> 16 & 0x8000);
}

static inline uint32_t f8(uint32_t v, const struct convert_narrow *r)
{
    uint32_t a = magnitude(v, r);
    // In a sum with 2^(exponent + 23 - mantissa) the last bit is the last bit of the target. Subnormals take the
    // exponent of the smallest normal. What the sum then has of the target's mantissa counts from the code of that
    // exponent, the implicit bit as one step of the exponent.
    uint32_t exponent = a & 0x7f800000u, least = r->min_exponent << 23;
    exponent = pick(exponent > least, exponent, least);
    int drop = 23 - r->mantissa;
    uint32_t unit = exponent + ((uint32_t)drop << 23);
    uint32_t code = f32_bits(f32_of_bits(a) + f32_of_bits(unit)) - unit + ((exponent - least) >> drop);
    return code | ((v >> 31 << r->sign) & (r->signed_zero | pick(code != 0, ~0u, 0)));
}

static inline uint32_t wide_bf16(uint32_t v)
{
    return pick((v & 0x7fff) > 0x7f80, (v & 0x8000) | 0x7fc0, v) << 16;
}

static inline uint32_t wide_f16(uint32_t v)
{
    uint32_t c = v & 0x7fff;
    uint32_t subnormal = f32_bits((float)(int32_t)c * 0x1p-24f);
    uint32_t normal = (c << 13) + (112u << 23);
    uint32_t r = pick(c < 0x400, subnormal, normal);
    r = pick(c >= 0x7c00, pick(c > 0x7c00, 0x7fc00000, 0x7f800000), r);
    return r | (v & 0x8000) << 16;
}

static inline uint32_t narrow_f64(double v)
{
    uint32_t b = f32_bits((float)v);
    return pick(v == v, b, (b & 0x80000000u) | 0x7fc00000u);
}

static inline uint32_t odd_f64(double v)
{
    double back = (float)v;
    uint32_t away = __builtin_fabs(back) > __builtin_fabs(v); // of infinity too: one below it is the largest number
    uint32_t lost = (back != v) & (v == v);
    return pick(v == v, (f32_bits((float)v) - away) | lost, (f32_bits((float)v) & 0x80000000u) | 0x7fc00000u);
}

static inline double wide_f32(uint32_t v)
{
    double d = (double)f32_of_bits(v);
    uint64_t b;
    memcpy(&b, &d, sizeof b);
    uint64_t nan = 0 - (uint64_t)((v & 0x7fffffffu) > 0x7f800000u);
    b = (b & ~nan) | (((b & 0x8000000000000000u) | 0x7ff8000000000000u) & nan);
    memcpy(&d, &b, sizeof d);
    return d;
}

#define NARROW(function, to, expression)                                                                               \
    static void function(void *dst, const void *src, size_t n, const struct convert_narrow *rule, bool stream)         \
    {                                                                                                                  \
        const struct convert_narrow r = *rule;                                                                         \
        (void)stream;                                                                                                  \
        CONVERT_EACH(to, uint32_t, expression)                                                                         \
    }
#define WIDEN(function, to, from, expression)                                                                          \
    static void function(void *dst, const void *src, size_t n, bool stream)                                            \
    {                                                                                                                  \
        (void)stream;                                                                                                  \
        CONVERT_EACH(to, from, expression)                                                                             \
    }

NARROW(bf16_f32, uint16_t, bf16(v, &r))
NARROW(f16_f32, uint16_t, f16(v, &r))
NARROW(f8_f32, uint8_t, f8(v, &r))
WIDEN(f32_bf16, uint32_t, uint16_t, wide_bf16(v))
WIDEN(f32_f16, uint32_t, uint16_t, wide_f16(v))
WIDEN(f32_f64, uint32_t, double, narrow_f64(v))
WIDEN(f64_f32, double, uint32_t, wide_f32(v))

static void f32_f8(void *dst, const void *src, size_t n, const uint32_t table[256], bool stream)
{
    (void)stream;
    CONVERT_EACH(uint32_t, uint8_t, table[v])
}

static void copy(void *dst, const void *src, size_t n, bool stream)
{
    (void)stream;
    memcpy(dst, src, n);
}

static void fence(void) {}

static void f32_f64_odd(void *dst, const void *src, size_t n)
{
    CONVERT_EACH(uint32_t, double, odd_f64(v))
}

const struct convert_kernels convert_kernels_portable = CONVERT_KERNELS("portable", bf16_f32);

static const struct convert_narrow plain = {
    .special_from = 0x7f800001u, .over = 0x7f800000u, .inf = 0x7f800000u, .nan = 0x7fc00000u};

float f32_from_f16(uint16_t bits)
{
    return f32_of_bits(wide_f16(bits));
}

uint16_t f16_from_f32(float v)
{
    return (uint16_t)f16(f32_bits(v), &plain);
}

float f32_from_bf16(uint16_t bits)
{
    return f32_of_bits(wide_bf16(bits));
}

uint16_t bf16_from_f32(float v)
{
    return (uint16_t)bf16(f32_bits(v), &plain);
}

uint16_t bf16_from_f64(double v)
{
    return (uint16_t)bf16(odd_f64(v), &plain);
}

uint16_t f16_from_f64(double v)
{
    return (uint16_t)f16(odd_f64(v), &plain);
}
