// SPDX-License-Identifier: Apache-2.0
#include "random_draws.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/noise.h"
#include "num/random.h"

// A kind and what stands after its name.
struct kind {
    char name[32];
    const char *parts[3]; // NULL where there is none
    double number[3];     // of them; 0 where it is none
};

static void kind_split(const char *text, struct kind *k)
{
    memset(k, 0, sizeof *k);
    snprintf(k->name, sizeof k->name, "%.*s", (int)strcspn(text, ":"), text);
    const char *at = strchr(text, ':');
    for (int i = 0; i < 3 && at; i++, at = strchr(at, ':')) {
        k->parts[i] = ++at;
        char part[32];
        snprintf(part, sizeof part, "%.*s", (int)strcspn(at, ":"), at);
        if (!parse_double(part, &k->number[i]))
            k->number[i] = 0;
    }
}

static bool is(const struct kind *k, const char *name, int parts)
{
    return strcmp(k->name, name) == 0 && (parts == 0 || k->parts[parts - 1]);
}

static int integers(struct random_numpy *r, const struct kind *k, void *b, size_t count, size_t *size,
                    struct error *err)
{
    char name[8];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(k->parts[0], ":"), k->parts[0]);
    enum dtype type = dtype_from_name(name);
    *size = (size_t)dtype_info(type)->bits / 8;
    // From 2^63, for u64, or negative.
    int64_t low = k->parts[1][0] == '-' ? strtoll(k->parts[1], NULL, 10) : (int64_t)strtoull(k->parts[1], NULL, 10);
    return random_numpy_integers(r, type, low, strtoull(k->parts[2], NULL, 10), b, count, err);
}

static int mixed(struct random_numpy *r, size_t count, struct str *out, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t words[3];
        double normals[2];
        uint8_t bytes[5];
        float one;
        int rc = random_numpy_integers(r, DT_U32, 0, 9, words, 3, err);
        random_numpy_standard_normal(r, normals, 2);
        if (rc == 0)
            rc = random_numpy_integers(r, DT_U8, 0, 99, bytes, 5, err);
        random_numpy_random_f32(r, &one, 1);
        if (rc)
            return rc;
        str_add_n(out, words, sizeof words);
        str_add_n(out, normals, sizeof normals);
        str_add_n(out, bytes, sizeof bytes);
        str_add_n(out, &one, sizeof one);
    }
    return str_check(out, err);
}

// Elements of `size` bytes each from `b`, which the draws were written to.
static int keep(struct str *out, const void *b, size_t count, size_t size, struct error *err)
{
    str_add_n(out, b, count * size);
    return str_check(out, err);
}

static int draw_numpy(uint64_t seed, const struct kind *k, size_t count, void *b, struct str *out, struct error *err)
{
    struct random_numpy r;
    size_t size = sizeof(double);
    int rc = 0;
    random_numpy_seed(&r, seed);
    if (is(k, "mixed", 0))
        return mixed(&r, count, out, err);
    if (is(k, "raw", 0)) {
        for (size_t i = 0; i < count; i++)
            ((uint64_t *)b)[i] = random_numpy_u64(&r);
    } else if (is(k, "random", 0)) {
        random_numpy_random(&r, b, count);
    } else if (is(k, "random_f32", 0)) {
        random_numpy_random_f32(&r, b, count);
        size = sizeof(float);
    } else if (is(k, "uniform", 2)) {
        random_numpy_uniform(&r, k->number[0], k->number[1], b, count);
    } else if (is(k, "standard_normal", 0)) {
        random_numpy_standard_normal(&r, b, count);
    } else if (is(k, "standard_normal_f32", 0)) {
        random_numpy_standard_normal_f32(&r, b, count);
        size = sizeof(float);
    } else if (is(k, "normal", 2)) {
        random_numpy_normal(&r, k->number[0], k->number[1], b, count);
    } else if (is(k, "integers", 3)) {
        rc = integers(&r, k, b, count, &size, err);
    } else {
        rc = error_set(err, ERR_USAGE, NULL, "there are no draws %s of numpy", k->name);
    }
    return rc ? rc : keep(out, b, count, size, err);
}

static int draw_jax(struct random_jax a, const struct kind *k, void *b, struct str *out, struct error *err)
{
    size_t count = (size_t)a.size;
    for (int width = 8; width <= 64; width *= 2) {
        char name[8];
        snprintf(name, sizeof name, "bits%d", width);
        if (is(k, name, 0)) {
            int rc = random_jax_bits(&a, width, 0, b, count, err);
            return rc ? rc : keep(out, b, count, (size_t)width / 8, err);
        }
    }
    struct random_jax_key *keys = b;
    int rc = 0;
    size_t size = sizeof *keys;
    if (is(k, "split", 0)) {
        random_jax_split(a.key, a.style, keys, count);
    } else if (is(k, "fold_in", 0)) {
        for (size_t i = 0; i < count; i++)
            keys[i] = random_jax_fold_in(a.key, (uint32_t)i);
    } else if (is(k, "uniform", 2)) {
        rc = random_jax_uniform_f32(&a, (float)k->number[0], (float)k->number[1], 0, b, count, err);
        size = sizeof(float);
    } else if (is(k, "normal", 0)) {
        rc = random_jax_normal_f32(&a, 0, b, count, err);
        size = sizeof(float);
    } else {
        rc = error_set(err, ERR_USAGE, NULL, "there are no draws %s of JAX", k->name);
    }
    return rc ? rc : keep(out, b, count, size, err);
}

static void mixed_torch(struct random_torch *r, enum random_torch_code code, size_t count, struct str *out)
{
    for (size_t i = 0; i < count; i++) {
        float v[20];
        double one;
        random_torch_normal_f32(r, code, v, 3);
        str_add_n(out, v, 3 * sizeof *v);
        random_torch_normal_f32(r, code, v, 20);
        str_add_n(out, v, 20 * sizeof *v);
        random_torch_uniform_f32(r, v, 2);
        str_add_n(out, v, 2 * sizeof *v);
        random_torch_normal_bf16(r, code, v, 5);
        str_add_n(out, v, 5 * sizeof *v);
        random_torch_normal_bf16(r, code, v, 17);
        str_add_n(out, v, 17 * sizeof *v);
        random_torch_uniform(r, &one, 1);
        str_add_n(out, &one, sizeof one);
    }
}

// The kinds that are named before their code.
static int draw_torch_code(uint64_t seed, const struct kind *k, size_t count, float *b, struct str *out,
                           struct error *err)
{
    bool vector = is(k, "vector", 1), old = is(k, "torch1", 1);
    enum random_torch_code code = vector ? RANDOM_TORCH_VECTOR : RANDOM_TORCH_PLAIN;
    struct kind what;
    struct random_torch r;
    int rc = 0;
    if (!vector && !old && !is(k, "plain", 1))
        return error_set(err, ERR_USAGE, NULL, "there are no draws %s of torch", k->name);
    kind_split(k->parts[0], &what);
    random_torch_seed(&r, seed);
    if (is(&what, "mixed", 0)) {
        mixed_torch(&r, code, count, out);
        return str_check(out, err);
    }
    bool bf16 = is(&what, "noise_bf16", 0);
    if (bf16 || is(&what, "noise", 0)) {
        enum noise_kind noise = old      ? NOISE_TORCH1_BF16
                                : vector ? (bf16 ? NOISE_TORCH_AVX2_BF16 : NOISE_TORCH_AVX2)
                                         : (bf16 ? NOISE_TORCH_BF16 : NOISE_TORCH);
        rc = noise_tokens(noise, seed, 2, 128, 6, 10, b, err);
    } else if (old) {
        random_torch1_normal_bf16(&r, b, count);
    } else if (is(&what, "normal_bf16", 0)) {
        random_torch_normal_bf16(&r, code, b, count);
    } else {
        random_torch_normal_f32(&r, code, b, count);
    }
    return rc ? rc : keep(out, b, count, sizeof *b, err);
}

static int draw_torch(uint64_t seed, const struct kind *k, size_t count, void *b, struct str *out, struct error *err)
{
    struct random_torch r;
    random_torch_seed(&r, seed);
    if (is(k, "words", 0)) {
        for (size_t i = 0; i < count; i++)
            ((uint32_t *)b)[i] = random_torch_u32(&r);
        return keep(out, b, count, sizeof(uint32_t), err);
    }
    if (is(k, "words64", 0)) {
        for (size_t i = 0; i < count; i++)
            ((uint64_t *)b)[i] = random_torch_u64(&r);
        return keep(out, b, count, sizeof(uint64_t), err);
    }
    if (is(k, "uniform_f32", 0)) {
        random_torch_uniform_f32(&r, b, count);
        return keep(out, b, count, sizeof(float), err);
    }
    if (is(k, "uniform", 0)) {
        random_torch_uniform(&r, b, count);
        return keep(out, b, count, sizeof(double), err);
    }
    return draw_torch_code(seed, k, count, b, out, err);
}

int random_draws(const char *library, uint64_t seed, const char *kind, size_t count, struct str *out, struct error *err)
{
    void *b = calloc(count + 1, sizeof(uint64_t));
    if (!b)
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu draws", count);
    const char *original = "original:", *partitionable = "partitionable:";
    struct random_jax a = {.key = random_jax_key(seed), .size = count};
    struct kind k;
    int rc;
    if (strcmp(library, "numpy") == 0) {
        kind_split(kind, &k);
        rc = draw_numpy(seed, &k, count, b, out, err);
    } else if (strcmp(library, "torch") == 0) {
        kind_split(kind, &k);
        rc = draw_torch(seed, &k, count, b, out, err);
    } else if (strncmp(kind, partitionable, strlen(partitionable)) == 0) {
        kind_split(kind + strlen(partitionable), &k);
        rc = draw_jax(a, &k, b, out, err);
    } else if (strncmp(kind, original, strlen(original)) == 0) {
        a.style = RANDOM_JAX_ORIGINAL;
        kind_split(kind + strlen(original), &k);
        rc = draw_jax(a, &k, b, out, err);
    } else {
        rc = error_set(err, ERR_USAGE, NULL, "there are no draws %s of %s", kind, library);
    }
    free(b);
    return rc;
}
