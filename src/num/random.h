// SPDX-License-Identifier: Apache-2.0
// The random streams of numpy, JAX and torch, so that inputs published as "default_rng(17)", "PRNGKey(0)" or
// "manual_seed(0)" can be made here.
//
// numpy: default_rng(seed) is a PCG64 (XSL-RR) seeded by a SeedSequence. Integers, uniforms and normals equal numpy's
// bit for bit; the draws a generator has made so far decide what it gives next, as there. JAX: threefry2x32 over
// counters. Bits, keys and uniforms equal jax.random's bit for bit; normals (f32) are within 3 units in the last place
// of XLA's, nearly all of them equal: what differs is XLA's own approximation of log1p. torch on the CPU: MT19937;
// words and uniforms equal torch's, and so do normals, bit for bit, with the C library that torch has beside it.
#ifndef NUM_RANDOM_H
#define NUM_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "num/dtype.h"

// ---- numpy.random.default_rng

struct random_numpy {
    uint64_t state[2], increment[2]; // 128 bits each, high word first
    bool has_half;                   // next_uint32 splits a word: low half first, then
    uint32_t half;                   // this high one
};

// default_rng(seed).
void random_numpy_seed(struct random_numpy *r, uint64_t seed);
// SeedSequence(words) -> PCG64: `words` as numpy makes them of an integer (32 bits each, low first) or of a list of
// such integers. n may be 0 (entropy 0).
void random_numpy_seed_words(struct random_numpy *r, const uint32_t *words, size_t n);
// The bit generator's own draws: random_raw(), and the halves that the 32-bit methods use.
uint64_t random_numpy_u64(struct random_numpy *r);
uint32_t random_numpy_u32(struct random_numpy *r);

// rng.random(n): [0, 1), multiples of 2^-53; with dtype=float32 multiples of 2^-24.
void random_numpy_random(struct random_numpy *r, double *out, size_t n);
void random_numpy_random_f32(struct random_numpy *r, float *out, size_t n);
// rng.uniform(low, high, n): low + (high - low) * random().
void random_numpy_uniform(struct random_numpy *r, double low, double high, double *out, size_t n);
// rng.standard_normal(n), and with dtype=float32 (a different stream, not a rounding of it).
void random_numpy_standard_normal(struct random_numpy *r, double *out, size_t n);
void random_numpy_standard_normal_f32(struct random_numpy *r, float *out, size_t n);
// rng.normal(loc, scale, n): loc + scale * standard_normal().
void random_numpy_normal(struct random_numpy *r, double loc, double scale, double *out, size_t n);
// rng.integers(low, low + range + 1, n, dtype=type), that is [low, low + range]. type: s8 to s64, u8 to u64; `out` has
// n elements of it. For u64, `low` is the bit pattern. What numpy draws depends on the type, not only on the bounds.
// ERR_USAGE for another type or when a bound does not fit in it.
int random_numpy_integers(struct random_numpy *r, enum dtype type, int64_t low, uint64_t range, void *out, size_t n,
                          struct error *err);

// ---- jax.random, threefry2x32

struct random_jax_key {
    uint32_t word[2];
};

enum random_jax_style {
    RANDOM_JAX_PARTITIONABLE, // jax_threefry_partitionable=True, the default since JAX 0.5
    RANDOM_JAX_ORIGINAL,      // what came before: an element depends on the size of the array
};

// An array of draws. Each element can be had by itself, so that ranges can be made in any order, or side by side.
struct random_jax {
    struct random_jax_key key;
    enum random_jax_style style;
    uint64_t size; // elements of the whole array (row-major). ORIGINAL: at most 2^32 - 2 words of 32 bits
};

// The block function: 20 rounds on one counter.
void random_jax_threefry(struct random_jax_key key, uint32_t x0, uint32_t x1, uint32_t out[2]);
// PRNGKey(seed): the high and the low word of it. Without jax_enable_x64, JAX keeps only the low 32 bits of a seed
// before that: pass those.
struct random_jax_key random_jax_key(uint64_t seed);
// split(key, n): out[0..n).
void random_jax_split(struct random_jax_key key, enum random_jax_style style, struct random_jax_key *out, size_t n);
// fold_in(key, data): the same in both styles.
struct random_jax_key random_jax_fold_in(struct random_jax_key key, uint32_t data);

// All of these give the elements [first, first + n) of the array; ERR_USAGE when it has fewer, or is too large for the
// style. bits(key, shape, uintW): `width` 8, 16, 32 or 64, out has n elements of that width.
int random_jax_bits(const struct random_jax *a, int width, uint64_t first, void *out, size_t n, struct error *err);
// uniform(key, shape, float32, low, high): in [low, high).
int random_jax_uniform_f32(const struct random_jax *a, float low, float high, uint64_t first, float *out, size_t n,
                           struct error *err);
// normal(key, shape, float32): sqrt(2) erf_inv(u), u uniform in (-1, 1).
int random_jax_normal_f32(const struct random_jax *a, uint64_t first, float *out, size_t n, struct error *err);

// ---- torch.Generator on the CPU

struct random_torch {
    uint32_t state[624];
    uint32_t at;     // of the state's words, the next to be given out; 624: all were
    bool has_double; // normals of fewer than 16 elements come in pairs: the second of the last pair is kept
    double kept;
};

// manual_seed(seed). torch takes the low 32 bits of a seed on the CPU, and so does this.
void random_torch_seed(struct random_torch *r, uint64_t seed);
// The generator's own draws: words of MT19937 (Matsumoto, Nishimura, 1998), and two of them, the first one high.
uint32_t random_torch_u32(struct random_torch *r);
uint64_t random_torch_u64(struct random_torch *r);
// rand(n): [0, 1), multiples of 2^-24.
void random_torch_uniform_f32(struct random_torch *r, float *out, size_t n);
// rand(n, dtype=float64): multiples of 2^-53.
void random_torch_uniform(struct random_torch *r, double *out, size_t n);
// torch has two ways to make normals of 16 elements and more, which differ in a third of their values in the last bits.
enum random_torch_code {
    RANDOM_TORCH_PLAIN,  // its plain code (ATEN_CPU_CAPABILITY=default, other CPUs): the C library's logf, cosf, sinf
    RANDOM_TORCH_VECTOR, // its code for AVX2 and AVX-512, what runs on x86-64 today; this one runs everywhere
};

// randn(n), one call for the whole array: what it draws depends on n. From 16 on, a word makes a value, and where n is
// no multiple of 16 the last 16 are drawn again; below, pairs are drawn in double, and what is left over is the first
// value of the next such call.
void random_torch_normal_f32(struct random_torch *r, enum random_torch_code code, float *out, size_t n);
// randn(n, dtype=bfloat16) of torch 2.15: the numbers above rounded, drawn block by block, so that an n that is no
// multiple of 16 ends otherwise and leaves the generator elsewhere. The values are of bfloat16.
void random_torch_normal_bf16(struct random_torch *r, enum random_torch_code code, float *out, size_t n);
// randn(n, dtype=bfloat16) of torch 1.13: uniforms of 8 bits, and every step rounded to bfloat16. From 16 elements on
// it is another stream, not a rounding of the one above. The values are of bfloat16.
void random_torch1_normal_bf16(struct random_torch *r, float *out, size_t n);

#endif
