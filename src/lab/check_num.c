// SPDX-License-Identifier: Apache-2.0
// Number formats, the loops of this machine's instruction set, random streams and models of dot products.
#include <string.h>

#include "base/sha256.h"
#include "lab/check_table.h"
#include "num/convert.h"
#include "num/dotmodel.h"
#include "num/format.h"
#include "num/isa.h"
#include "num/random.h"

// Every code of every format of at most 16 bits, decoded and encoded: the same code, or both NaN.
int check_formats(struct check_context *c, struct str *found, struct error *err)
{
    const struct format_cast plain = {FORMAT_NEAREST_EVEN, FORMAT_OVERFLOW_PLAIN, NULL};
    const struct format *f;
    size_t formats = 0, codes = 0;
    (void)c;
    for (size_t i = 0; (f = format_at(i)); i++) {
        if (f->bits > 16)
            continue;
        formats++;
        for (uint64_t code = 0; code < (uint64_t)1 << f->bits; code++, codes++) {
            double v = format_decode(f, code);
            uint64_t again = format_encode(f, v, &plain, NULL);
            double w = format_decode(f, again);
            if (again != code && !(v != v && w != w))
                return check_differs(err, "%s: code %#llx is %.17g, which is encoded as %#llx", f->name,
                                     (unsigned long long)code, v, (unsigned long long)again);
        }
    }
    str_addf(found, "%zu formats, all %zu codes there and back", formats, codes);
    return 0;
}

// The loops in force against the exact encoder, on f32 values of every exponent, ties and their neighbours.
int check_loops(struct check_context *c, struct str *found, struct error *err)
{
    static const enum dtype targets[] = {DT_BF16, DT_F16, DT_F8E4M3FN, DT_F8E5M2};
    enum { N = 256 * 64 };
    const struct format_cast plain = {FORMAT_NEAREST_EVEN, FORMAT_OVERFLOW_PLAIN, NULL};
    float *x = arena_new(&c->arena, float, N, err);
    uint8_t *fast = arena_alloc(&c->arena, N, 4, err);
    if (!x || !fast)
        return ERR_MEMORY;
    for (uint32_t i = 0; i < N; i++) {
        // Exponent by exponent, 64 fractions each: the places where the targets round, one bit beside, and a sign.
        static const uint32_t fractions[] = {0,        1,        0x7fff,   0x8000,   0x8001,   0x17fff,
                                             0x18000,  0x18001,  0x0fff,   0x1000,   0x1001,   0x3000,
                                             0x7ffff,  0x80000,  0x80001,  0x180000, 0xfffff,  0x100000,
                                             0x100001, 0x300000, 0x400000, 0x555555, 0x7fffff, 0x7ff000};
        uint32_t bits = i / 64 << 23 | fractions[i % 24] | (i % 64 >= 32 ? 0x80000000u : 0);
        memcpy(&x[i], &bits, sizeof bits);
    }
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
        const struct format *f = format_of(targets[t]);
        size_t width = format_code_bytes(f);
        int rc = convert_elements(targets[t], fast, DT_F32, x, N, err);
        if (rc)
            return rc;
        for (size_t i = 0; i < N; i++) {
            uint64_t got = 0, want = format_encode(f, (double)x[i], &plain, NULL);
            memcpy(&got, fast + i * width, width);
            if (got != want)
                return check_differs(err, "f32 %a to %s is %#llx by the loops of %s, not %#llx", (double)x[i], f->name,
                                     (unsigned long long)got, isa_name(isa_in_force()), (unsigned long long)want);
        }
    }
    str_addf(found, "%s equals the exact encoder on %d values", isa_name(isa_in_force()), N);
    return 0;
}

// numpy: the inputs of the lab (64x128 and 128x64 / sqrt(128), as f32), by their hash. JAX: the first normals of key 0.
int check_random(struct check_context *c, struct str *found, struct error *err)
{
    enum { N = 64 * 128 };
    double *draws = arena_new(&c->arena, double, 2 * N, err);
    float *x = arena_new(&c->arena, float, 2 * N, err);
    char hex[65];
    if (!draws || !x)
        return ERR_MEMORY;
    struct random_numpy numpy;
    random_numpy_seed(&numpy, 17);
    random_numpy_normal(&numpy, 0, 1, draws, 2 * N);
    for (size_t i = 0; i < 2 * N; i++)
        x[i] = (float)(i < N ? draws[i] : draws[i] / 11.313708498984761); // sqrt(128), rounded
    int rc = sha256_bytes(x, 2 * N * sizeof *x, hex, err);
    if (rc)
        return rc;
    if (strncmp(hex, "2a60a6fffbe58b36", 16) != 0)
        return check_differs(err, "default_rng(17) gives inputs with the hash %.16s...", hex);
    static const float normals[] = {1.6226422F, 2.0252647F, -0.43359444F, -0.07861735F};
    float got[4];
    struct random_jax jax = {random_jax_key(0), RANDOM_JAX_PARTITIONABLE, 4};
    rc = random_jax_normal_f32(&jax, 0, got, 4, err);
    for (size_t i = 0; i < 4 && !rc; i++) {
        if (!(got[i] >= normals[i] - 1e-6F && got[i] <= normals[i] + 1e-6F)) // three units in the last place
            rc =
                check_differs(err, "normal %zu of PRNGKey(0) is %.9g, not %.9g", i, (double)got[i], (double)normals[i]);
    }
    str_add(found, "default_rng(17) by its hash, PRNGKey(0) by its normals");
    return rc;
}

// A sum of ones stops where one more is less than half a step: 256 in bf16, 2048 in f16.
int check_dotmodel(struct check_context *c, struct str *found, struct error *err)
{
    static const struct {
        const char *format;
        double sum;
    } cases[] = {{"bf16", 256}, {"f16", 2048}, {"f32", 4096}};
    enum { N = 4096 };
    double *ones = arena_new(&c->arena, double, N, err), sum;
    if (!ones)
        return ERR_MEMORY;
    for (size_t i = 0; i < N; i++)
        ones[i] = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dot_model m = {
            .name = "sequential", .accumulator = dot_format(cases[i].format), .order = DOT_SEQUENTIAL};
        int rc = dot_model_run(&m, ones, 1, ones, 1, N, &sum, err);
        if (rc)
            return rc;
        if (sum != cases[i].sum)
            return check_differs(err, "%d ones add up to %g in %s, not %g", N, sum, cases[i].format, cases[i].sum);
    }
    str_addf(found, "%d ones add up to 256 in bf16, 2048 in f16", N);
    return 0;
}
