// SPDX-License-Identifier: Apache-2.0
// PCG64 (O'Neill, "PCG: a family of simple fast space-efficient statistically good algorithms", 2014), seeded and used
// as numpy.random.Generator does. Normals: the ziggurat of Marsaglia and Tsang (2000) with 256 layers.
#include "num/random.h"

#include <math.h>
#include <string.h>

#include "num/random_ziggurat.h"

// ---- seeding

#define POOL 4

struct hasher {
    uint32_t constant, multiplier;
};

static uint32_t hash_word(struct hasher *h, uint32_t v)
{
    v ^= h->constant;
    h->constant *= h->multiplier;
    v *= h->constant;
    return v ^ v >> 16;
}

static uint32_t mix(uint32_t x, uint32_t y)
{
    uint32_t r = 0xca01f9ddu * x - 0x4973f715u * y;
    return r ^ r >> 16;
}

static __uint128_t wide(const uint64_t v[2])
{
    return (__uint128_t)v[0] << 64 | v[1];
}

static void step(struct random_numpy *r)
{
    const uint64_t multiplier[2] = {2549297995355413924u, 4865540595714422341u};
    __uint128_t s = wide(r->state) * wide(multiplier) + wide(r->increment);
    r->state[0] = (uint64_t)(s >> 64), r->state[1] = (uint64_t)s;
}

void random_numpy_seed_words(struct random_numpy *r, const uint32_t *words, size_t n)
{
    uint32_t pool[POOL];
    struct hasher in = {0x43b0d7e5u, 0x931e8875u}, out = {0x8b51f9ddu, 0x58f38dedu};
    for (size_t i = 0; i < POOL; i++)
        pool[i] = hash_word(&in, i < n ? words[i] : 0);
    for (size_t src = 0; src < POOL; src++)
        for (size_t dst = 0; dst < POOL; dst++)
            if (src != dst)
                pool[dst] = mix(pool[dst], hash_word(&in, pool[src]));
    for (size_t src = POOL; src < n; src++)
        for (size_t dst = 0; dst < POOL; dst++)
            pool[dst] = mix(pool[dst], hash_word(&in, words[src]));

    uint64_t seed[4];
    for (size_t i = 0; i < 4; i++) {
        uint32_t low = hash_word(&out, pool[2 * i % POOL]);
        seed[i] = (uint64_t)hash_word(&out, pool[(2 * i + 1) % POOL]) << 32 | low;
    }
    *r = (struct random_numpy){.increment = {seed[2] << 1 | seed[3] >> 63, seed[3] << 1 | 1}};
    step(r);
    __uint128_t s = wide(r->state) + wide(seed);
    r->state[0] = (uint64_t)(s >> 64), r->state[1] = (uint64_t)s;
    step(r);
}

void random_numpy_seed(struct random_numpy *r, uint64_t seed)
{
    uint32_t words[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    random_numpy_seed_words(r, words, words[1] ? 2 : 1);
}

// ---- bits

uint64_t random_numpy_u64(struct random_numpy *r)
{
    step(r);
    uint64_t v = r->state[0] ^ r->state[1];
    unsigned n = (unsigned)(r->state[0] >> 58);
    return v >> n | v << (-n & 63);
}

uint32_t random_numpy_u32(struct random_numpy *r)
{
    r->has_half = !r->has_half;
    if (!r->has_half)
        return r->half;
    uint64_t v = random_numpy_u64(r);
    r->half = (uint32_t)(v >> 32);
    return (uint32_t)v;
}

// ---- uniforms

static double next_double(struct random_numpy *r)
{
    return (double)(random_numpy_u64(r) >> 11) * 0x1p-53;
}

static float next_float(struct random_numpy *r)
{
    return (float)(random_numpy_u32(r) >> 8) * 0x1p-24f;
}

void random_numpy_random(struct random_numpy *r, double *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = next_double(r);
}

void random_numpy_random_f32(struct random_numpy *r, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = next_float(r);
}

void random_numpy_uniform(struct random_numpy *r, double low, double high, double *out, size_t n)
{
    double width = high - low;
    for (size_t i = 0; i < n; i++)
        out[i] = low + width * next_double(r);
}

// ---- normals

static double next_normal(struct random_numpy *r)
{
    for (;;) {
        uint64_t word = random_numpy_u64(r);
        size_t layer = word & 0xff;
        uint64_t a = word >> 9 & 0xfffffffffffff;
        double x = (double)a * ziggurat_wi[layer];
        if (word >> 8 & 1)
            x = -x;
        if (a < ziggurat_ki[layer])
            return x;
        if (layer == 0) {
            for (;;) {
                double beyond = -ZIGGURAT_INVERSE_R * log1p(-next_double(r));
                double y = -log1p(-next_double(r));
                if (y + y > beyond * beyond)
                    return a >> 8 & 1 ? -(ZIGGURAT_R + beyond) : ZIGGURAT_R + beyond;
            }
        }
        double height = (ziggurat_fi[layer - 1] - ziggurat_fi[layer]) * next_double(r) + ziggurat_fi[layer];
        if (height < exp(-0.5 * x * x))
            return x;
    }
}

// The same in single precision; its tables are those above in steps of 2^-23, rounded.
static float next_normal_f32(struct random_numpy *r)
{
    for (;;) {
        uint32_t word = random_numpy_u32(r);
        size_t layer = word & 0xff;
        uint32_t a = word >> 9 & 0x7fffff;
        float x = (float)a * (float)(ziggurat_wi[layer] * 0x1p29);
        if (word >> 8 & 1)
            x = -x;
        if (a < (uint32_t)ziggurat_ki_f32[layer])
            return x;
        if (layer == 0) {
            for (;;) {
                float beyond = -(float)ZIGGURAT_INVERSE_R * log1pf(-next_float(r));
                float y = -log1pf(-next_float(r));
                if (y + y > beyond * beyond)
                    return a >> 8 & 1 ? -((float)ZIGGURAT_R + beyond) : (float)ZIGGURAT_R + beyond;
            }
        }
        float above = (float)ziggurat_fi[layer - 1], below = (float)ziggurat_fi[layer];
        float height = (above - below) * next_float(r) + below;
        if ((double)height < exp(-0.5 * (double)x * (double)x))
            return x;
    }
}

void random_numpy_standard_normal(struct random_numpy *r, double *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = next_normal(r);
}

void random_numpy_standard_normal_f32(struct random_numpy *r, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = next_normal_f32(r);
}

void random_numpy_normal(struct random_numpy *r, double loc, double scale, double *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = loc + scale * next_normal(r);
}

// ---- integers: Lemire, "Fast random integer generation in an interval", 2019, in the width of the type

// Words of 8 or 16 bits, cut from words of 32, low part first. The rest of the last word is dropped with the array.
struct cut {
    struct random_numpy *r;
    int left;
    uint32_t word;
};

static inline __attribute__((always_inline)) uint32_t cut_next(struct cut *c, int width)
{
    if (width == 32)
        return random_numpy_u32(c->r);
    if (c->left == 0) {
        c->word = random_numpy_u32(c->r);
        c->left = 32 / width - 1;
    } else {
        c->word >>= width;
        c->left--;
    }
    return c->word & ((1u << width) - 1);
}

// 0 .. range. A product whose low part falls below `threshold` would favour some numbers, and is drawn again.
static inline __attribute__((always_inline)) uint32_t bounded(struct cut *c, int width, uint32_t range,
                                                              uint32_t threshold)
{
    const uint32_t mask = UINT32_MAX >> (32 - width);
    if (range == mask)
        return cut_next(c, width);
    uint64_t m;
    do {
        m = (uint64_t)cut_next(c, width) * ((uint64_t)range + 1);
    } while (((uint32_t)m & mask) < threshold);
    return (uint32_t)(m >> width);
}

static uint64_t bounded64(struct random_numpy *r, uint64_t range, uint64_t threshold)
{
    if (range == UINT64_MAX)
        return random_numpy_u64(r);
    __uint128_t m;
    do {
        m = (__uint128_t)random_numpy_u64(r) * ((__uint128_t)range + 1);
    } while ((uint64_t)m < threshold);
    return (uint64_t)(m >> 64);
}

// 2^width mod (range + 1); 0 for the whole width.
static uint64_t threshold_of(int width, uint64_t range)
{
    uint64_t mask = UINT64_MAX >> (64 - width);
    return range == mask ? 0 : (mask - range) % (range + 1);
}

#define INTEGERS(type, width)                                                                                          \
    static void integers_##type(struct random_numpy *r, uint64_t low, uint32_t range, type *out, size_t n)             \
    {                                                                                                                  \
        const uint32_t threshold = (uint32_t)threshold_of(width, range);                                               \
        struct cut c = {.r = r};                                                                                       \
        for (size_t i = 0; i < n; i++)                                                                                 \
            out[i] = (type)(low + bounded(&c, width, range, threshold));                                               \
    }
INTEGERS(uint8_t, 8)
INTEGERS(uint16_t, 16)
INTEGERS(uint32_t, 32)
INTEGERS(uint64_t, 32) // 64-bit types in a range of 32 bits draw words of 32

static void integers_wide(struct random_numpy *r, uint64_t low, uint64_t range, uint64_t *out, size_t n)
{
    uint64_t threshold = threshold_of(64, range);
    for (size_t i = 0; i < n; i++)
        out[i] = low + bounded64(r, range, threshold);
}

// A single number needs no draw.
static void repeat(uint64_t value, size_t bytes, void *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        memcpy((char *)out + i * bytes, &value, bytes);
}

int random_numpy_integers(struct random_numpy *r, enum dtype type, int64_t low, uint64_t range, void *out, size_t n,
                          struct error *err)
{
    const struct dtype_info *info = dtype_info(type);
    bool is_signed = info->kind == DTK_SIGNED;
    if ((!is_signed && info->kind != DTK_UNSIGNED) || info->bits < 8)
        return error_set(err, ERR_USAGE, NULL, "random integers of type %s: it must be one of s8 to s64, u8 to u64",
                         info->name);
    int bits = info->bits;
    uint64_t span = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    int64_t least = is_signed ? (int64_t)(UINT64_MAX << (bits - 1)) : 0;
    // As distances from the least value of the type; for u64 the bits of `low` are the value.
    uint64_t from = (uint64_t)low - (uint64_t)least;
    if ((bits < 64 && low < least) || from > span || range > span - from)
        return error_set(err, ERR_USAGE, NULL, "random integers from %lld, %llu wide, do not fit in %s", (long long)low,
                         (unsigned long long)range, info->name);
    uint64_t offset = (uint64_t)low;
    if (range == 0)
        repeat(offset, (size_t)bits / 8, out, n);
    else if (bits == 8)
        integers_uint8_t(r, offset, (uint32_t)range, out, n);
    else if (bits == 16)
        integers_uint16_t(r, offset, (uint32_t)range, out, n);
    else if (bits == 32)
        integers_uint32_t(r, offset, (uint32_t)range, out, n);
    else if (range <= UINT32_MAX)
        integers_uint64_t(r, offset, (uint32_t)range, out, n);
    else
        integers_wide(r, offset, range, out, n);
    return 0;
}
