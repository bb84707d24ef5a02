// SPDX-License-Identifier: Apache-2.0
// The kernels of num/quantize_kernels.h for NEON, as every aarch64 has it. What does not fill a register, and what is
// counted, is left to the portable set.
#include "num/quantize_kernels.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <math.h>

#include "num/isa_target.h"

enum { LANES = 4, BLOCK = 16 };

ISA_INLINE uint32x4_t magnitudes(const float *x)
{
    return vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x)), vdupq_n_u32(0x7fffffffu));
}

static uint32_t absmax(const float *x, size_t n)
{
    uint32x4_t m[4] = {vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0)};
    for (; n >= BLOCK; n -= BLOCK, x += BLOCK) {
        ISA_UNROLL
        for (size_t v = 0; v < 4; v++)
            m[v] = vmaxq_u32(m[v], magnitudes(x + v * LANES));
    }
    uint32_t most = vmaxvq_u32(vmaxq_u32(vmaxq_u32(m[0], m[1]), vmaxq_u32(m[2], m[3])));
    uint32_t rest = quant_kernels_portable.absmax(x, n);
    return rest > most ? rest : most;
}

static struct quant_extent extent(const float *x, size_t n)
{
    // FMIN and FMAX give NaN where there is one.
    float32x4_t low = vdupq_n_f32(INFINITY), high = vdupq_n_f32(-INFINITY);
    for (; n >= LANES; n -= LANES, x += LANES) {
        float32x4_t v = vld1q_f32(x);
        uint32x4_t number = vceqq_f32(v, v);
        low = vminq_f32(low, vbslq_f32(number, v, low));
        high = vmaxq_f32(high, vbslq_f32(number, v, high));
    }
    struct quant_extent e = quant_kernels_portable.extent(x, n);
    float least = vminvq_f32(low), most = vmaxvq_f32(high);
    return (struct quant_extent){least < e.min ? least : e.min, most > e.max ? most : e.max};
}

static void absmax_groups(const float *x, size_t groups, size_t group, uint32_t *out)
{
    for (size_t g = 0; g < groups; g++)
        out[g] = absmax(x + g * group, group);
}

static void absmax_columns(const float *x, size_t n, uint32_t *out)
{
    for (; n >= LANES; n -= LANES, x += LANES, out += LANES)
        vst1q_u32(out, vmaxq_u32(vld1q_u32(out), magnitudes(x)));
    quant_kernels_portable.absmax_columns(x, n, out);
}

// The codes of four quotients. FCVTNS rounds to nearest even and saturates; NaN must become the lowest code.
ISA_INLINE uint32x4_t codes_of(const struct quant_rule *rule, float32x4_t q)
{
    int32x4_t low = vdupq_n_s32(rule->low), high = vdupq_n_s32(rule->high);
    int32x4_t c = vqaddq_s32(vcvtnq_s32_f32(q), vdupq_n_s32(rule->zero));
    c = vminq_s32(vmaxq_s32(c, low), high);
    return vreinterpretq_u32_s32(vbslq_s32(vceqq_f32(q, q), c, low));
}

ISA_INLINE uint8x16_t bytes_of(const uint32x4_t *c)
{
    uint16x8_t low = vmovn_high_u32(vmovn_u32(c[0]), c[1]), high = vmovn_high_u32(vmovn_u32(c[2]), c[3]);
    return vmovn_high_u16(vmovn_u16(low), high);
}

static void encode(const struct quant_rule *rule, const float *x, size_t n, float scale, void *codes,
                   struct quant_tally *tally)
{
    uint8_t *to = codes;
    for (; n >= BLOCK && !tally; n -= BLOCK, x += BLOCK, to += BLOCK) {
        uint32x4_t c[4];
        ISA_UNROLL
        for (size_t v = 0; v < 4; v++)
            c[v] = codes_of(rule, vdivq_f32(vld1q_f32(x + v * LANES), vdupq_n_f32(scale)));
        vst1q_u8(to, bytes_of(c));
    }
    quant_kernels_portable.encode(rule, x, n, scale, to, tally);
}

static void encode_columns(const struct quant_rule *rule, const float *x, size_t n, const float *scales, void *codes,
                           struct quant_tally *tally, const struct quant_column_sums *columns)
{
    uint8_t *to = codes;
    for (; n >= BLOCK && !tally; n -= BLOCK, x += BLOCK, to += BLOCK, scales += BLOCK) {
        uint32x4_t c[4];
        ISA_UNROLL
        for (size_t v = 0; v < 4; v++)
            c[v] = codes_of(rule, vdivq_f32(vld1q_f32(x + v * LANES), vld1q_f32(scales + v * LANES)));
        vst1q_u8(to, bytes_of(c));
    }
    quant_kernels_portable.encode_columns(rule, x, n, scales, to, tally, columns);
}

static void encode_groups(const struct quant_rule *rule, const float *x, size_t groups, size_t group,
                          const float *scales, void *codes, struct quant_tally *tally)
{
    for (size_t g = 0; g < groups; g++)
        encode(rule, x + g * group, group, scales[g], (uint8_t *)codes + g * group, tally);
}

// The steps of sixteen codes, four to a register.
ISA_INLINE void steps_of(const struct quant_rule *rule, const uint8_t *codes, float32x4_t *out)
{
    uint8x16_t bytes = vld1q_u8(codes);
    int16x8_t half[2];
    if (rule->low < 0) {
        half[0] = vmovl_s8(vreinterpret_s8_u8(vget_low_u8(bytes)));
        half[1] = vmovl_high_s8(vreinterpretq_s8_u8(bytes));
    } else {
        half[0] = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes)));
        half[1] = vreinterpretq_s16_u16(vmovl_high_u8(bytes));
    }
    ISA_UNROLL
    for (int h = 0; h < 2; h++) {
        int16x8_t steps = vsubq_s16(half[h], vdupq_n_s16((int16_t)rule->zero));
        out[2 * h] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(steps)));
        out[2 * h + 1] = vcvtq_f32_s32(vmovl_high_s16(steps));
    }
}

static void decode(const struct quant_rule *rule, const void *codes, size_t n, float scale, float *x, bool stream)
{
    const uint8_t *from = codes;
    for (; n >= BLOCK; n -= BLOCK, from += BLOCK, x += BLOCK) {
        float32x4_t steps[4];
        steps_of(rule, from, steps);
        ISA_UNROLL
        for (size_t v = 0; v < 4; v++)
            vst1q_f32(x + v * LANES, vmulq_f32(steps[v], vdupq_n_f32(scale)));
    }
    quant_kernels_portable.decode(rule, from, n, scale, x, stream);
}

static void decode_columns(const struct quant_rule *rule, const void *codes, size_t n, const float *scales, float *x,
                           bool stream)
{
    const uint8_t *from = codes;
    for (; n >= BLOCK; n -= BLOCK, from += BLOCK, x += BLOCK, scales += BLOCK) {
        float32x4_t steps[4];
        steps_of(rule, from, steps);
        ISA_UNROLL
        for (size_t v = 0; v < 4; v++)
            vst1q_f32(x + v * LANES, vmulq_f32(steps[v], vld1q_f32(scales + v * LANES)));
    }
    quant_kernels_portable.decode_columns(rule, from, n, scales, x, stream);
}

QUANT_ENCODE_AHEAD
QUANT_DECODE_GROUPS

static void pack4(const void *codes, size_t n, uint8_t *packed)
{
    const uint8_t *from = codes;
    for (; n >= 2 * BLOCK; n -= 2 * BLOCK, from += 2 * BLOCK, packed += BLOCK) {
        uint8x16x2_t pairs = vld2q_u8(from); // the even ones, and the odd ones
        vst1q_u8(packed, vsliq_n_u8(vandq_u8(pairs.val[0], vdupq_n_u8(15)), pairs.val[1], 4));
    }
    quant_kernels_portable.pack4(from, n, packed);
}

static void unpack4(const uint8_t *packed, size_t n, int is_signed, void *codes)
{
    uint8_t *to = codes;
    uint8x16_t flip = vdupq_n_u8(is_signed ? 8 : 0);
    for (; n >= 2 * BLOCK; n -= 2 * BLOCK, packed += BLOCK, to += 2 * BLOCK) {
        uint8x16_t bytes = vld1q_u8(packed);
        uint8x16x2_t pairs = {{vandq_u8(bytes, vdupq_n_u8(15)), vshrq_n_u8(bytes, 4)}};
        ISA_UNROLL
        for (int i = 0; i < 2; i++)
            pairs.val[i] = vsubq_u8(veorq_u8(pairs.val[i], flip), flip);
        vst2q_u8(to, pairs);
    }
    quant_kernels_portable.unpack4(packed, n, is_signed, to);
}

const struct quant_kernels quant_kernels_neon = QUANT_KERNELS("neon");

#endif
