// SPDX-License-Identifier: Apache-2.0
// threefry2x32 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011) as jax.random uses it.
//
// Elements are made LANES at a time, each step a loop over all lanes, so that the compiler makes vector code of it; the
// same code is compiled for the instruction sets below and chosen when it runs. All give the same bits: nothing is
// contracted, and what XLA fuses (the polynomials of erf_inv) is fused here by name.
#include "num/random.h"

#include <math.h>
#include <string.h>

#include "num/isa.h"
#include "num/isa_target.h"

#define LANES 64

ISA_INLINE uint32_t rotl(uint32_t v, int n)
{
    return v << n | v >> (32 - n);
}

ISA_INLINE void four_rounds(uint32_t *x0, uint32_t *x1, int a, int b, int c, int d)
{
    *x0 += *x1, *x1 = rotl(*x1, a) ^ *x0;
    *x0 += *x1, *x1 = rotl(*x1, b) ^ *x0;
    *x0 += *x1, *x1 = rotl(*x1, c) ^ *x0;
    *x0 += *x1, *x1 = rotl(*x1, d) ^ *x0;
}

ISA_INLINE void threefry(struct random_jax_key key, uint32_t *a, uint32_t *b)
{
    const uint32_t k0 = key.word[0], k1 = key.word[1], k2 = k0 ^ k1 ^ 0x1bd11bdau;
    uint32_t x0 = *a + k0, x1 = *b + k1;
    four_rounds(&x0, &x1, 13, 15, 26, 6);
    x0 += k1, x1 += k2 + 1;
    four_rounds(&x0, &x1, 17, 29, 16, 24);
    x0 += k2, x1 += k0 + 2;
    four_rounds(&x0, &x1, 13, 15, 26, 6);
    x0 += k0, x1 += k1 + 3;
    four_rounds(&x0, &x1, 17, 29, 16, 24);
    x0 += k1, x1 += k2 + 4;
    four_rounds(&x0, &x1, 13, 15, 26, 6);
    *a = x0 + k2, *b = x1 + k0 + 5;
}

void random_jax_threefry(struct random_jax_key key, uint32_t x0, uint32_t x1, uint32_t out[2])
{
    threefry(key, &x0, &x1);
    out[0] = x0, out[1] = x1;
}

struct random_jax_key random_jax_key(uint64_t seed)
{
    return (struct random_jax_key){{(uint32_t)(seed >> 32), (uint32_t)seed}};
}

struct random_jax_key random_jax_fold_in(struct random_jax_key key, uint32_t data)
{
    uint32_t word[2] = {0, data};
    threefry(key, &word[0], &word[1]);
    return (struct random_jax_key){{word[0], word[1]}};
}

// ---- words. A pair of words per counter; what becomes of it is the style's.

// The two words of the counters first .. first+LANES.
ISA_INLINE void pairs(struct random_jax_key key, uint64_t first, uint32_t *restrict x0, uint32_t *restrict x1)
{
    for (int i = 0; i < LANES; i++) {
        uint64_t c = first + (uint64_t)i;
        x0[i] = (uint32_t)(c >> 32), x1[i] = (uint32_t)c;
    }
    for (int i = 0; i < LANES; i++)
        threefry(key, &x0[i], &x1[i]);
}

// ORIGINAL: word i of `count`. The counters 0..count (and a 0 when that is odd) are cut in two halves, which are the
// two words of the blocks; so are the results.
ISA_INLINE void original_words(struct random_jax_key key, uint32_t count, uint64_t first, uint32_t *restrict out)
{
    uint32_t half = count / 2 + count % 2, x0[LANES], x1[LANES];
    for (int i = 0; i < LANES; i++) {
        uint32_t word = (uint32_t)(first + (uint64_t)i), block = word < half ? word : word - half;
        x0[i] = block;
        x1[i] = block + half < count ? block + half : 0;
    }
    for (int i = 0; i < LANES; i++)
        threefry(key, &x0[i], &x1[i]);
    for (int i = 0; i < LANES; i++)
        out[i] = (uint32_t)(first + (uint64_t)i) < half ? x0[i] : x1[i];
}

// ---- numbers

ISA_INLINE float float_of(uint32_t b)
{
    float v;
    memcpy(&v, &b, sizeof v);
    return v;
}

// 23 bits under the exponent of 1, less 1: [0, 1). Then to [low, high), as XLA computes it: fused, and not below `low`.
ISA_INLINE void uniforms(const uint32_t *restrict bits, float low, float high, float *restrict out)
{
    const float width = high - low;
    for (int i = 0; i < LANES; i++) {
        float v = __builtin_fmaf(float_of(bits[i] >> 9 | 0x3f800000u) - 1, width, low);
        out[i] = v < low ? low : v;
    }
}

// log(1 + y) for y in (-1, 0], rounded once: in double to within 2 units of its last place. 1 + y = m / 2^k with m in
// [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.1716, so that the series to s^21 is enough.
ISA_INLINE void log1ps(const float *restrict y, float *restrict out)
{
    const uint64_t sqrt_half = 0x3fe6a09e667f3bcd, one_less = 0xfffffffffffff; // bits; a unit of the exponent, less 1
    for (int i = 0; i < LANES; i++) {
        double u = 1 + (double)y[i], v = (double)y[i], m, k;
        uint64_t bits;
        memcpy(&bits, &u, sizeof bits);
        uint64_t above = (sqrt_half + one_less - bits) & ~one_less; // k in the place of an exponent
        bits += above;
        memcpy(&m, &bits, sizeof m);
        // k as a double, by way of the mantissa of 2^52: old vector units have no such conversion.
        uint64_t number = (above >> 52) | 0x4330000000000000;
        memcpy(&k, &number, sizeof k);
        k -= 0x1p52;
        double less = m - 1; // for k = 0 it lacks what 1 + y rounded away
        double f = above == 0 ? v : less;
        double s = f / (2 + f), z = s * s;
        double r = 2.0 / 21;
        r = r * z + 2.0 / 19;
        r = r * z + 2.0 / 17;
        r = r * z + 2.0 / 15;
        r = r * z + 2.0 / 13;
        r = r * z + 2.0 / 11;
        r = r * z + 2.0 / 9;
        r = r * z + 2.0 / 7;
        r = r * z + 2.0 / 5;
        r = r * z + 2.0 / 3;
        out[i] = (float)((2 * s + s * z * r) - k * 0x1.62e42fefa39efp-1);
    }
}

// sqrt(2) erf_inv(x), x uniform in (-1, 1): Giles, "Approximating the erfinv function", 2010, in single precision. With
// w = -log(1 - x^2), a polynomial in w - 2.5; for w >= 5 (a draw in 300) another in sqrt(w) - 3.
ISA_INLINE void normals(const uint32_t *restrict bits, float *restrict out)
{
    static const float near[8] = {3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                                  -0.00125372503f, -0.00417768164f, 0.246640727f,     1.50140941f};
    static const float far[8] = {0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                                 -0.0076224613f,  0.00943887047f, 1.00167406f,     2.83297682f};
    const float sqrt2 = 0x1.6a09e6p+0f;
    float x[LANES], y[LANES], w[LANES];
    uniforms(bits, -0x1.fffffep-1f, 1, x);
    for (int i = 0; i < LANES; i++)
        y[i] = -(x[i] * x[i]);
    log1ps(y, w);
    uint32_t any_far = 0;
    for (int i = 0; i < LANES; i++) {
        float t = -w[i] - 2.5f, p = 2.81022636e-08f;
        p = __builtin_fmaf(p, t, near[0]);
        p = __builtin_fmaf(p, t, near[1]);
        p = __builtin_fmaf(p, t, near[2]);
        p = __builtin_fmaf(p, t, near[3]);
        p = __builtin_fmaf(p, t, near[4]);
        p = __builtin_fmaf(p, t, near[5]);
        p = __builtin_fmaf(p, t, near[6]);
        p = __builtin_fmaf(p, t, near[7]);
        out[i] = p * x[i] * sqrt2;
        any_far |= (uint32_t)(w[i] <= -5);
    }
    for (int i = 0; any_far && i < LANES; i++) {
        if (w[i] > -5)
            continue;
        float t = __builtin_sqrtf(-w[i]) - 3, p = -0.000200214257f;
        for (int j = 0; j < 8; j++)
            p = __builtin_fmaf(p, t, far[j]);
        out[i] = p * x[i] * sqrt2;
    }
}

// ---- the same code for each instruction set

struct kernels {
    void (*pairs)(struct random_jax_key key, uint64_t first, uint32_t *x0, uint32_t *x1);
    void (*original)(struct random_jax_key key, uint32_t count, uint64_t first, uint32_t *out);
    void (*uniforms)(const uint32_t *bits, float low, float high, float *out);
    void (*normals)(const uint32_t *bits, float *out);
};

#define KERNELS(name)                                                                                                  \
    static void pairs_##name(struct random_jax_key key, uint64_t first, uint32_t *x0, uint32_t *x1)                    \
    {                                                                                                                  \
        pairs(key, first, x0, x1);                                                                                     \
    }                                                                                                                  \
    static void original_##name(struct random_jax_key key, uint32_t count, uint64_t first, uint32_t *out)              \
    {                                                                                                                  \
        original_words(key, count, first, out);                                                                        \
    }                                                                                                                  \
    static void uniforms_##name(const uint32_t *bits, float low, float high, float *out)                               \
    {                                                                                                                  \
        uniforms(bits, low, high, out);                                                                                \
    }                                                                                                                  \
    static void normals_##name(const uint32_t *bits, float *out)                                                       \
    {                                                                                                                  \
        normals(bits, out);                                                                                            \
    }                                                                                                                  \
    static const struct kernels name = {pairs_##name, original_##name, uniforms_##name, normals_##name};

KERNELS(portable)
#ifdef __x86_64__
ISA_TARGET("avx2,fma")
KERNELS(avx2)
ISA_TARGET_END
#ifdef __clang__
ISA_TARGET("avx512f,avx512vl,avx512dq,avx512bw,fma")
#else
ISA_TARGET("avx512f,avx512vl,avx512dq,avx512bw,fma,prefer-vector-width=512")
#endif
KERNELS(avx512)
ISA_TARGET_END
#endif

static const struct kernels *kernels(void)
{
#ifdef __x86_64__
    enum isa isa = isa_in_force();
    if (isa >= ISA_AVX512)
        return &avx512;
    if (isa == ISA_AVX2)
        return &avx2;
#endif
    return &portable;
}

// ---- arrays

static int check(const struct random_jax *a, int width, uint64_t first, size_t n, struct error *err)
{
    if (first > a->size || n > a->size - first)
        return error_set(err, ERR_USAGE, NULL, "elements %llu to %llu of an array of %llu random numbers",
                         (unsigned long long)first, (unsigned long long)first + n, (unsigned long long)a->size);
    // The generator cuts arrays of more words than this in blocks with keys of their own.
    if (a->style == RANDOM_JAX_ORIGINAL && a->size > (UINT64_C(0xfffffffe) * 32) / (uint64_t)width)
        return error_set(
            err, ERR_USAGE, NULL,
            "%llu random numbers of %d bits are too many for the style before JAX 0.5: use the partitionable one",
            (unsigned long long)a->size, width);
    return 0;
}

// The 32-bit words of the elements at .. at+LANES (those beyond the array are arbitrary).
static void words(const struct kernels *k, const struct random_jax *a, uint64_t at, uint32_t *out)
{
    if (a->style == RANDOM_JAX_ORIGINAL) {
        k->original(a->key, (uint32_t)a->size, at, out);
        return;
    }
    uint32_t low[LANES];
    k->pairs(a->key, at, out, low);
    for (int i = 0; i < LANES; i++)
        out[i] ^= low[i];
}

// How many of a block are wanted when `done` of n are there.
static size_t take(size_t n, size_t done)
{
    return n - done < LANES ? n - done : LANES;
}

static void bits64(const struct random_jax *a, uint64_t first, uint64_t *out, size_t n)
{
    const struct kernels *k = kernels();
    for (size_t done = 0; done < n; done += LANES) {
        uint32_t high[LANES], low[LANES];
        k->pairs(a->key, first + done, high, low);
        // ORIGINAL: counters i and size + i.
        if (a->style == RANDOM_JAX_ORIGINAL) {
            for (size_t i = 0; i < take(n, done); i++) {
                uint64_t e = first + done + i;
                high[i] = (uint32_t)e, low[i] = (uint32_t)(a->size + e);
                threefry(a->key, &high[i], &low[i]);
            }
        }
        for (size_t i = 0; i < take(n, done); i++)
            out[done + i] = (uint64_t)high[i] << 32 | low[i];
    }
}

static void bits32(const struct random_jax *a, uint64_t first, uint32_t *out, size_t n)
{
    const struct kernels *k = kernels();
    size_t done = 0;
    for (; n - done >= LANES; done += LANES)
        words(k, a, first + done, out + done);
    if (done < n) {
        uint32_t w[LANES];
        words(k, a, first + done, w);
        memcpy(out + done, w, (n - done) * sizeof *w);
    }
}

// ORIGINAL: the words of a smaller array, cut up, low part first; else one word each, cut off.
static void bits_narrow(const struct random_jax *a, int width, uint64_t first, void *out, size_t n)
{
    const struct kernels *k = kernels();
    const uint64_t per_word = a->style == RANDOM_JAX_ORIGINAL ? 32 / (uint64_t)width : 1;
    struct random_jax whole = *a;
    whole.size = a->size / per_word + (a->size % per_word != 0);
    uint32_t w[LANES];
    uint64_t have = UINT64_MAX; // the first word in w
    for (size_t i = 0; i < n; i++) {
        uint64_t word = (first + i) / per_word, part = (first + i) % per_word;
        if (have == UINT64_MAX || word - have >= LANES) {
            have = word;
            words(k, &whole, have, w);
        }
        uint32_t v = w[word - have] >> (part * (uint64_t)width);
        if (width == 8)
            ((uint8_t *)out)[i] = (uint8_t)v;
        else
            ((uint16_t *)out)[i] = (uint16_t)v;
    }
}

int random_jax_bits(const struct random_jax *a, int width, uint64_t first, void *out, size_t n, struct error *err)
{
    if (width != 8 && width != 16 && width != 32 && width != 64)
        return error_set(err, ERR_USAGE, NULL, "random bits come in words of 8, 16, 32 or 64, not %d", width);
    int rc = check(a, width, first, n, err);
    if (rc)
        return rc;
    if (width == 64)
        bits64(a, first, out, n);
    else if (width == 32)
        bits32(a, first, out, n);
    else
        bits_narrow(a, width, first, out, n);
    return 0;
}

// Numbers made of the words: uniforms in `bounds`, normals when that is NULL.
static int numbers(const struct random_jax *a, const float *bounds, uint64_t first, float *out, size_t n,
                   struct error *err)
{
    const struct kernels *k = kernels();
    int rc = check(a, 32, first, n, err);
    for (size_t done = 0; rc == 0 && done < n; done += LANES) {
        uint32_t w[LANES];
        float v[LANES];
        words(k, a, first + done, w);
        if (bounds)
            k->uniforms(w, bounds[0], bounds[1], v);
        else
            k->normals(w, v);
        memcpy(out + done, v, take(n, done) * sizeof *v);
    }
    return rc;
}

int random_jax_uniform_f32(const struct random_jax *a, float low, float high, uint64_t first, float *out, size_t n,
                           struct error *err)
{
    return numbers(a, (float[2]){low, high}, first, out, n, err);
}

int random_jax_normal_f32(const struct random_jax *a, uint64_t first, float *out, size_t n, struct error *err)
{
    return numbers(a, NULL, first, out, n, err);
}

void random_jax_split(struct random_jax_key key, enum random_jax_style style, struct random_jax_key *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t w[2];
        if (style == RANDOM_JAX_PARTITIONABLE) {
            random_jax_threefry(key, (uint32_t)((uint64_t)i >> 32), (uint32_t)i, out[i].word);
            continue;
        }
        // Words 2i and 2i+1 of an array of 2n.
        for (size_t j = 0; j < 2; j++) {
            size_t word = 2 * i + j, block = word < n ? word : word - n;
            random_jax_threefry(key, (uint32_t)block, (uint32_t)(block + n), w);
            out[i].word[j] = w[word >= n];
        }
    }
}
