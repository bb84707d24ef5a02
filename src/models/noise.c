// SPDX-License-Identifier: Apache-2.0
#include "models/noise.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "num/random.h"

static const char *const names[NOISE_KINDS] = {"torch",           "torch-bf16",  "torch-avx2",
                                               "torch-avx2-bf16", "torch1-bf16", "jax"};

const char *noise_name(enum noise_kind k)
{
    return names[k];
}

int noise_from_name(const char *name, const char *where, enum noise_kind *out, struct error *err)
{
    for (int i = 0; i < NOISE_KINDS; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (enum noise_kind)i;
            return 0;
        }
    }
    return error_set(err, ERR_USAGE, where, "there is no noise \"%s\"; there are %s, %s, %s, %s, %s and %s", name,
                     names[0], names[1], names[2], names[3], names[4], names[5]);
}

static int draw(enum noise_kind kind, uint64_t seed, float *out, size_t n, struct error *err)
{
    if (kind == NOISE_JAX) {
        // Without jax_enable_x64, which no pipeline sets, JAX keeps the low 32 bits of a seed.
        struct random_jax a = {.key = random_jax_key((uint32_t)seed), .style = RANDOM_JAX_PARTITIONABLE, .size = n};
        return random_jax_normal_f32(&a, 0, out, n, err);
    }
    struct random_torch r;
    random_torch_seed(&r, seed);
    bool vector = kind == NOISE_TORCH_AVX2 || kind == NOISE_TORCH_AVX2_BF16;
    enum random_torch_code code = vector ? RANDOM_TORCH_VECTOR : RANDOM_TORCH_PLAIN;
    if (kind == NOISE_TORCH1_BF16)
        random_torch1_normal_bf16(&r, out, n);
    else if (kind == NOISE_TORCH_BF16 || kind == NOISE_TORCH_AVX2_BF16)
        random_torch_normal_bf16(&r, code, out, n);
    else
        random_torch_normal_f32(&r, code, out, n);
    return 0;
}

int noise_tokens(enum noise_kind kind, uint64_t seed, size_t batch, size_t channels, size_t rows, size_t columns,
                 float *out, struct error *err)
{
    size_t tokens, each, n, bytes;
    if (!size_mul(rows, columns, &tokens) || !size_mul(tokens, channels, &each) || !size_mul(each, batch, &n) ||
        n == 0 || n >> 40 || !size_mul(n, sizeof(float), &bytes))
        return error_set(err, ERR_USAGE, NULL, "noise of the shape %zu x %zu x %zu x %zu cannot be drawn", batch,
                         channels, rows, columns);
    float *drawn = malloc(bytes);
    if (!drawn)
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu random numbers", n);
    int rc = draw(kind, seed, drawn, n, err);
    for (size_t b = 0; rc == 0 && b < batch; b++) {
        const float *from = drawn + b * each;
        float *to = out + b * each;
        for (size_t t = 0; t < tokens; t++)
            for (size_t c = 0; c < channels; c++)
                to[t * channels + c] = from[c * tokens + t];
    }
    free(drawn);
    return rc;
}
