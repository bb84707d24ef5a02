// SPDX-License-Identifier: Apache-2.0
// The torch kinds are checked against torch with its streams (test_num_random.c).
#include "models/noise.h"
#include "num/random.h"
#include "test.h"

TEST(models_noise_jax_tokens)
{
    enum { B = 2, C = 5, R = 3, W = 4, T = R * W, N = B * C * T };
    float drawn[N], tokens[N];
    struct error e = {0};
    struct random_jax a = {.key = random_jax_key(9), .size = N};
    REQUIRE_OK(random_jax_normal_f32(&a, 0, drawn, N, &e), &e);
    // A seed beyond 32 bits is cut, as JAX cuts it.
    REQUIRE_OK(noise_tokens(NOISE_JAX, (UINT64_C(1) << 32) + 9, B, C, R, W, tokens, &e), &e);
    for (int b = 0; b < B; b++)
        for (int c = 0; c < C; c++)
            for (int y = 0; y < R; y++)
                for (int x = 0; x < W; x++)
                    CHECK(tokens[(b * T + y * W + x) * C + c] == drawn[((b * C + c) * R + y) * W + x]);
}

TEST(models_noise_names_and_shapes)
{
    struct error e = {0};
    enum noise_kind k;
    for (int i = 0; i < NOISE_KINDS; i++) {
        REQUIRE_OK(noise_from_name(noise_name((enum noise_kind)i), "--noise", &k, &e), &e);
        CHECK_INT(k, i);
    }
    CHECK_INT(noise_from_name("cuda", "--noise", &k, &e), ERR_USAGE);
    CHECK_STR(e.where, "--noise");
    CHECK_STR(
        e.message,
        "there is no noise \"cuda\"; there are torch, torch-bf16, torch-avx2, torch-avx2-bf16, torch1-bf16 and jax");
    float one;
    error_clear(&e);
    CHECK_INT(noise_tokens(NOISE_TORCH, 0, 1, 128, 0, 4, &one, &e), ERR_USAGE);
    error_clear(&e);
    CHECK_INT(noise_tokens(NOISE_TORCH, 0, 1, SIZE_MAX / 2, 4, 4, &one, &e), ERR_USAGE);
    error_clear(&e);
    CHECK_INT(noise_tokens(NOISE_JAX, 0, 1 << 20, 1 << 10, 1 << 10, 1, &one, &e), ERR_USAGE);
}
