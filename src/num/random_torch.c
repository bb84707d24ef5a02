// SPDX-License-Identifier: Apache-2.0
// MT19937 (Matsumoto, Nishimura, "Mersenne Twister", 1998) as torch draws from it on the CPU. Normals are by Box and
// Muller, in blocks of 16 (8 radii, 8 angles), or one pair at a time for arrays of fewer elements.
#include "num/random.h"

#include <math.h>
#include <string.h>

#include "num/convert.h"
#include "num/isa.h"
#include "num/isa_target.h"

#define WORDS 624u
#define SHIFT 397u
#define BLOCK 16u
#define HALF  8u
#define MEAN  0.0f // added as torch does: a product of -0 becomes 0

void random_torch_seed(struct random_torch *r, uint64_t seed)
{
    r->state[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < WORDS; i++)
        r->state[i] = 1812433253u * (r->state[i - 1] ^ r->state[i - 1] >> 30) + i;
    r->at = WORDS;
    r->has_double = false;
    r->kept = 0;
}

static uint32_t twist(uint32_t high, uint32_t low)
{
    uint32_t mixed = (high & 0x80000000u) | (low & 0x7fffffffu);
    return mixed >> 1 ^ (low & 1 ? 0x9908b0dfu : 0);
}

static void next_state(struct random_torch *r)
{
    uint32_t *s = r->state;
    for (uint32_t i = 0; i < WORDS - SHIFT; i++)
        s[i] = s[i + SHIFT] ^ twist(s[i], s[i + 1]);
    for (uint32_t i = WORDS - SHIFT; i < WORDS - 1; i++)
        s[i] = s[i + SHIFT - WORDS] ^ twist(s[i], s[i + 1]);
    s[WORDS - 1] = s[SHIFT - 1] ^ twist(s[WORDS - 1], s[0]);
    r->at = 0;
}

uint32_t random_torch_u32(struct random_torch *r)
{
    if (r->at >= WORDS)
        next_state(r);
    uint32_t v = r->state[r->at++];
    v ^= v >> 11;
    v ^= v << 7 & 0x9d2c5680u;
    v ^= v << 15 & 0xefc60000u;
    return v ^ v >> 18;
}

uint64_t random_torch_u64(struct random_torch *r)
{
    uint64_t high = random_torch_u32(r);
    return high << 32 | random_torch_u32(r);
}

void random_torch_uniform_f32(struct random_torch *r, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(random_torch_u32(r) & 0xffffff) * 0x1p-24f;
}

static double next_double(struct random_torch *r)
{
    return (double)(random_torch_u64(r) & 0x1fffffffffffff) * 0x1p-53;
}

void random_torch_uniform(struct random_torch *r, double *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = next_double(r);
}

// ---- normals

static const double two_pi = 6.283185307179586; // 2 pi, rounded to double

// One at a time, in double: the cosine is given out, the sine kept for the next.
static double next_normal(struct random_torch *r)
{
    r->has_double = !r->has_double;
    if (!r->has_double)
        return r->kept;
    double angle = two_pi * next_double(r), radius = sqrt(-2 * log1p(-next_double(r)));
    r->kept = radius * sin(angle);
    return radius * cos(angle);
}

// What a block of uniforms becomes, in place: radii from the first half, angles from the second.
typedef void block_fn(float *v);

static void block_plain(float *v)
{
    for (unsigned j = 0; j < HALF; j++) {
        float radius = sqrtf(-2 * logf(1 - v[j]));
        float angle = (float)(two_pi * (double)v[j + HALF]);
        v[j] = radius * cosf(angle) + MEAN;
        v[j + HALF] = radius * sinf(angle) + MEAN;
    }
}

// The functions of torch's vector code: Cephes' logf, sinf and cosf in single precision (Moshier, 1992; as vectors by
// Pommier, 2007), where a product and the sum that takes it are fused as its compiler fuses them.

// log x, x in [2^-24, 1].
ISA_INLINE void cephes_log(const float *restrict x, float *restrict out)
{
    for (unsigned j = 0; j < HALF; j++) {
        uint32_t b;
        memcpy(&b, &x[j], sizeof b);
        // x = m 2^e, m in [1/2, 1), then in [sqrt(1/2), sqrt(2)).
        float e = (float)((int32_t)(b >> 23) - 126), m, p = 7.0376836292e-2f;
        b = (b & 0x807fffffu) | 0x3f000000u;
        memcpy(&m, &b, sizeof m);
        float doubled = m < 0.707106781186547524f ? m : 0;
        e -= m < 0.707106781186547524f ? 1.0f : 0.0f;
        float f = (m - 1) + doubled, z = f * f;
        p = __builtin_fmaf(p, f, -1.1514610310e-1f);
        p = __builtin_fmaf(p, f, 1.1676998740e-1f);
        p = __builtin_fmaf(p, f, -1.2420140846e-1f);
        p = __builtin_fmaf(p, f, 1.4249322787e-1f);
        p = __builtin_fmaf(p, f, -1.6668057665e-1f);
        p = __builtin_fmaf(p, f, 2.0000714765e-1f);
        p = __builtin_fmaf(p, f, -2.4999993993e-1f);
        p = __builtin_fmaf(p, f, 3.3333331174e-1f);
        p = __builtin_fmaf(p * f, z, e * -2.12194440e-4f); // ln 2 in two parts: the short one
        p = __builtin_fmaf(-z, 0.5f, p);
        out[j] = __builtin_fmaf(e, 0.693359375f, f + p); // and the long one
    }
}

// sin x and cos x, x in [0, 2 pi]: x - k pi/2 for an even k of pi/4, then one of two polynomials each, and a sign.
ISA_INLINE void cephes_sincos(const float *restrict x, float *restrict sine, float *restrict cosine)
{
    for (unsigned j = 0; j < HALF; j++) {
        uint32_t octant = ((uint32_t)(int32_t)(x[j] * 1.27323954473516f) + 1) & ~1u; // 4 / pi
        float k = (float)(int32_t)octant, f = x[j];
        f = __builtin_fmaf(k, -0.78515625f, f); // pi/4 in three parts
        f = __builtin_fmaf(k, -2.4187564849853515625e-4f, f);
        f = __builtin_fmaf(k, -3.77489497744594108e-8f, f);
        float z = f * f, c = 2.443315711809948e-5f, s = -1.9515295891e-4f;
        c = __builtin_fmaf(c, z, -1.388731625493765e-3f);
        c = __builtin_fmaf(c, z, 4.166664568298827e-2f);
        c = __builtin_fmaf(c * z, z, -(z * 0.5f)) + 1;
        s = __builtin_fmaf(s, z, 8.3321608736e-3f);
        s = __builtin_fmaf(s, z, -1.6666654611e-1f);
        s = __builtin_fmaf(s * z, f, f);
        float for_sine = octant & 2 ? c : s, for_cosine = octant & 2 ? s : c;
        sine[j] = octant & 4 ? -for_sine : for_sine;
        cosine[j] = (octant + 2) & 4 ? -for_cosine : for_cosine;
    }
}

ISA_INLINE void vector_block(float *v)
{
    float u[HALF], angle[HALF], radius[HALF], sine[HALF], cosine[HALF];
    for (unsigned j = 0; j < HALF; j++) {
        u[j] = 1 - v[j];
        angle[j] = 6.283185307179586f * v[j + HALF];
    }
    cephes_log(u, radius);
    cephes_sincos(angle, sine, cosine);
    for (unsigned j = 0; j < HALF; j++) {
        float r = __builtin_sqrtf(-2 * radius[j]);
        v[j] = r * cosine[j] + MEAN;
        v[j + HALF] = r * sine[j] + MEAN;
    }
}

#define BLOCK_VECTOR(name)                                                                                             \
    static void block_##name(float *v)                                                                                 \
    {                                                                                                                  \
        vector_block(v);                                                                                               \
    }
BLOCK_VECTOR(portable)
#ifdef __x86_64__
ISA_TARGET("avx2,fma")
BLOCK_VECTOR(avx2)
ISA_TARGET_END
#endif

// The same bits with and without the instructions.
static block_fn *block_of(enum random_torch_code code)
{
    if (code == RANDOM_TORCH_PLAIN)
        return block_plain;
#ifdef __x86_64__
    if (isa_in_force() >= ISA_AVX2)
        return block_avx2;
#endif
    return block_portable;
}

static float to_bf16(float v)
{
    return f32_from_bf16(bf16_from_f32(v));
}

static void block_torch1_bf16(float *v)
{
    for (unsigned j = 0; j < HALF; j++) {
        float radius = to_bf16(sqrtf(to_bf16(-2 * to_bf16(logf(to_bf16(1 - v[j]))))));
        float angle = to_bf16((float)(two_pi * (double)v[j + HALF]));
        v[j] = to_bf16(radius * to_bf16(cosf(angle)) + MEAN);
        v[j + HALF] = to_bf16(radius * to_bf16(sinf(angle)) + MEAN);
    }
}

static void draw(struct random_torch *r, unsigned bits, float *out, size_t n)
{
    const uint32_t mask = (1u << bits) - 1;
    const float unit = 1 / (float)(1u << bits);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(random_torch_u32(r) & mask) * unit;
}

// n >= 16: `drawn` uniforms of `bits` bits, made normal block by block. Where n is no multiple of 16, the last 16 are
// drawn again.
static void fill(struct random_torch *r, unsigned bits, size_t drawn, block_fn *block, float *out, size_t n)
{
    draw(r, bits, out, drawn);
    for (size_t i = 0; i + BLOCK <= n; i += BLOCK)
        block(out + i);
    if (n % BLOCK == 0)
        return;
    float *last = out + n - BLOCK;
    draw(r, bits, last, BLOCK);
    block(last);
}

void random_torch_normal_f32(struct random_torch *r, enum random_torch_code code, float *out, size_t n)
{
    if (n >= BLOCK)
        fill(r, 24, n, block_of(code), out, n);
    for (size_t i = 0; n < BLOCK && i < n; i++)
        out[i] = (float)next_normal(r);
}

void random_torch_normal_bf16(struct random_torch *r, enum random_torch_code code, float *out, size_t n)
{
    if (n >= BLOCK)
        fill(r, 24, n - n % BLOCK, block_of(code), out, n);
    for (size_t i = 0; n < BLOCK && i < n; i++)
        out[i] = (float)next_normal(r);
    for (size_t i = 0; i < n; i++)
        out[i] = to_bf16(out[i]);
}

void random_torch1_normal_bf16(struct random_torch *r, float *out, size_t n)
{
    if (n >= BLOCK)
        fill(r, 8, n, block_torch1_bf16, out, n);
    for (size_t i = 0; n < BLOCK && i < n; i++)
        out[i] = to_bf16((float)next_normal(r));
}
