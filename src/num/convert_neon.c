// SPDX-License-Identifier: Apache-2.0
// The kernels of num/convert_kernels.h for NEON, as every aarch64 has it. The arithmetic is explained in
// convert_portable.c.
#include "num/convert_kernels.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#include "num/isa_target.h"

typedef uint8x16_t vector;
#define VECTOR_BYTES 16

ISA_INLINE void vector_store(uint8_t *to, vector v)
{
    vst1q_u8(to, v);
}

// STNP asks for it; it has no intrinsic and takes pairs of registers. Stores of whole lines are not read first anyway.
ISA_INLINE void vector_stream(uint8_t *to, vector v)
{
    vst1q_u8(to, v);
}

static void fence(void) {}

#include "num/convert_loop.h"

ISA_INLINE uint32x4_t load(const uint8_t *from)
{
    return vreinterpretq_u32_u8(vld1q_u8(from));
}

ISA_INLINE uint32x4_t magnitude(uint32x4_t v)
{
    return vandq_u32(v, vdupq_n_u32(0x7fffffffu));
}

// The sign of v on magnitude a.
ISA_INLINE uint32x4_t signed_as(uint32x4_t v, uint32x4_t a)
{
    return vbslq_u32(vdupq_n_u32(0x80000000u), v, a);
}

ISA_INLINE uint32x4_t replace(uint32x4_t a, const struct convert_narrow *r)
{
    uint32x4_t to = vbslq_u32(vcgeq_u32(a, vdupq_n_u32(0x7f800000u)), vdupq_n_u32(r->inf), vdupq_n_u32(r->over));
    to = vbslq_u32(vcgtq_u32(a, vdupq_n_u32(0x7f800000u)), vdupq_n_u32(r->nan), to);
    return vbslq_u32(vcgeq_u32(a, vdupq_n_u32(r->special_from)), to, a);
}

// As a rule no register of a block holds anything special.
ISA_INLINE void replace_special(uint32x4_t *v, int count, const struct convert_narrow *r)
{
    uint32x4_t largest = magnitude(v[0]);
    ISA_UNROLL
    for (int i = 1; i < count; i++)
        largest = vmaxq_u32(largest, magnitude(v[i]));
    if (__builtin_expect(vmaxvq_u32(largest) >= r->special_from, 0)) {
        ISA_UNROLL
        for (int i = 0; i < count; i++)
            v[i] = signed_as(v[i], replace(magnitude(v[i]), r));
    }
}

ISA_INLINE uint32x4_t round_bf16(uint32x4_t v)
{
    uint32x4_t odd = vandq_u32(vshrq_n_u32(v, 16), vdupq_n_u32(1));
    return vaddq_u32(v, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
}

ISA_INLINE void bf16_block(const uint8_t *from, const struct convert_narrow *r, vector *out)
{
    uint32x4_t v[2] = {load(from), load(from + 16)};
    replace_special(v, 2, r);
    uint16x4_t low = vshrn_n_u32(round_bf16(v[0]), 16);
    *out = vreinterpretq_u8_u16(vshrn_high_n_u32(low, round_bf16(v[1]), 16));
}

ISA_INLINE void f16_block(const uint8_t *from, const struct convert_narrow *r, vector *out)
{
    uint32x4_t v[2] = {load(from), load(from + 16)};
    replace_special(v, 2, r);
    float16x4_t low = vcvt_f16_f32(vreinterpretq_f32_u32(v[0]));
    *out = vreinterpretq_u8_f16(vcvt_high_f16_f32(low, vreinterpretq_f32_u32(v[1])));
}

ISA_INLINE uint32x4_t f8_codes(uint32x4_t v, const struct convert_narrow *r)
{
    uint32x4_t least = vdupq_n_u32(r->min_exponent << 23), a = magnitude(v);
    uint32x4_t exponent = vmaxq_u32(vandq_u32(a, vdupq_n_u32(0x7f800000u)), least);
    uint32x4_t unit = vaddq_u32(exponent, vdupq_n_u32((uint32_t)(23 - r->mantissa) << 23));
    uint32x4_t sum = vreinterpretq_u32_f32(vaddq_f32(vreinterpretq_f32_u32(a), vreinterpretq_f32_u32(unit)));
    uint32x4_t steps = vshlq_u32(vsubq_u32(exponent, least), vdupq_n_s32(r->mantissa - 23));
    uint32x4_t code = vaddq_u32(vsubq_u32(sum, unit), steps);
    uint32x4_t sign = vshlq_u32(vshrq_n_u32(v, 31), vdupq_n_s32(r->sign));
    uint32x4_t keeps = vorrq_u32(vtstq_u32(code, code), vdupq_n_u32(r->signed_zero));
    return vorrq_u32(code, vandq_u32(sign, keeps));
}

ISA_INLINE void f8_block(const uint8_t *from, const struct convert_narrow *r, vector *out)
{
    uint32x4_t v[4] = {load(from), load(from + 16), load(from + 32), load(from + 48)};
    replace_special(v, 4, r);
    ISA_UNROLL
    for (int i = 0; i < 4; i++)
        v[i] = f8_codes(v[i], r);
    uint16x8_t low = vmovn_high_u32(vmovn_u32(v[0]), v[1]), high = vmovn_high_u32(vmovn_u32(v[2]), v[3]);
    *out = vmovn_high_u16(vmovn_u16(low), high);
}

// Any NaN becomes the quiet one.
ISA_INLINE vector quiet(float32x4_t v)
{
    uint32x4_t bits = vreinterpretq_u32_f32(v), nan = vdupq_n_u32(0x7fc00000u);
    return vreinterpretq_u8_u32(vbslq_u32(vceqq_f32(v, v), bits, signed_as(bits, nan)));
}

ISA_INLINE void wide_bf16_block(const uint8_t *from, vector *out)
{
    *out = quiet(vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(from)), 16)));
}

ISA_INLINE void wide_f16_block(const uint8_t *from, vector *out)
{
    *out = quiet(vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(from))));
}

ISA_INLINE float64x2_t load_f64(const uint8_t *from)
{
    return vreinterpretq_f64_u8(vld1q_u8(from));
}

ISA_INLINE void f32_f64_block(const uint8_t *from, vector *out)
{
    *out = quiet(vcvt_high_f32_f64(vcvt_f32_f64(load_f64(from)), load_f64(from + 16)));
}

// FCVTXN rounds to odd by itself.
ISA_INLINE void odd_block(const uint8_t *from, vector *out)
{
    *out = quiet(vcvtx_high_f32_f64(vcvtx_f32_f64(load_f64(from)), load_f64(from + 16)));
}

ISA_INLINE void f64_f32_block(const uint8_t *from, vector *out)
{
    float64x2_t v = vcvt_f64_f32(vreinterpret_f32_u8(vld1_u8(from)));
    uint64x2_t bits = vreinterpretq_u64_f64(v);
    uint64x2_t nan = vbslq_u64(vdupq_n_u64(1ull << 63), bits, vdupq_n_u64(0x7ff8000000000000));
    *out = vreinterpretq_u8_u64(vbslq_u64(vceqq_f64(v, v), bits, nan));
}

ISA_INLINE void wide_f8_block(const uint8_t *from, const uint32_t *table, vector *out)
{
    uint32_t v[4] = {table[from[0]], table[from[1]], table[from[2]], table[from[3]]};
    *out = vreinterpretq_u8_u32(vld1q_u32(v));
}

ISA_INLINE void copy_block(const uint8_t *from, vector *out)
{
    *out = vld1q_u8(from);
}

CONVERT_FUNCTIONS
CONVERT_NARROW(f8_f32, 1, F8_BLOCK)

static void f32_f8(void *dst, const void *src, size_t n, const uint32_t table[256], bool stream)
{
#define WIDE_F8_BLOCK(from, out) wide_f8_block(from, table, out)
    CONVERT_LOOP(4, 1, 1, WIDE_F8_BLOCK);
}

const struct convert_kernels convert_kernels_neon = CONVERT_KERNELS("neon", bf16_f32);

#endif
