// SPDX-License-Identifier: Apache-2.0
// Weights that lie as [k, n], and products with the weight first: codes with a scale for each output channel. Every
// channel of the weight is a whole number of its own scale, the largest 127 of them, so that these codes lose nothing,
// and codes with a scale for each contracted row would.
#include <stdlib.h>

#include "ir/bind.h"
#include "ir/policy.h"
#include "ir_test.h"

enum { ROWS = 3, K = 32, N = 6 };

static float value_of(int k, int n)
{
    int code = k == 0 ? 127 : (k * 37 + n * 11) % 255 - 127;
    return (float)code * ldexpf(1, n - 3);
}

// x [ROWS, K] by w [K, N], or the transposed product with w first.
static void make(struct module *m, bool first, struct error *err)
{
    struct builder b;
    builder_init(&b, m);
    builder_scope(&b, "product", "product");
    int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(DT_F32, ROWS, K), NULL);
    int w = build_weight(&b, "w", SHAPE(DT_F32, K, N));
    int y = first ? build_dot(&b, w, x, 0, NULL, NULL, 1, (int[]){0}, (int[]){1}, DT_F32)
                  : build_dot(&b, x, w, 0, NULL, NULL, 1, (int[]){1}, (int[]){0}, DT_F32);
    build_result(&b, "y", y);
    CHECK_INT(builder_finish(&b, err), 0);
}

static size_t write_checkpoint(uint8_t *file)
{
    char header[128];
    int n = snprintf(header, sizeof header, "{\"w\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]}}", K,
                     N, K * N * 4);
    uint64_t length = (uint64_t)n;
    memcpy(file, &length, 8);
    memcpy(file + 8, header, length);
    for (int k = 0; k < K; k++) {
        for (int i = 0; i < N; i++) {
            float v = value_of(k, i);
            memcpy(file + 8 + length + (size_t)(k * N + i) * 4, &v, 4);
        }
    }
    return 8 + length + K * N * 4;
}

static void check(const char *spec, bool first, double tolerance)
{
    static uint8_t file[8 + 128 + K * N * 4];
    struct rig r;
    struct arena arena;
    struct checkpoint c;
    struct policy p;
    struct module plain, m;
    struct error err = {0};
    const void *args[8] = {NULL};
    void *out[1] = {NULL};
    float x[ROWS * K];
    arena_init(&arena);
    REQUIRE(rig_open(&r, pjrt_test_plugin(false), 1));
    REQUIRE_OK(checkpoint_open_memory(&c, file, write_checkpoint(file), "w", &err), &err);
    module_init(&plain, &arena, "plain");
    make(&plain, first, &err);
    REQUIRE_OK(policy_parse(&p, spec, &err), &err);
    module_init(&m, &arena, spec);
    REQUIRE_OK(module_apply_policy(&plain, &p, false, &m, &err), &err);
    REQUIRE_OK(bind_check(&m, &c, &err), &err);
    for (int i = 0; i < ROWS * K; i++)
        x[i] = (float)(i % K == 5 ? 127 : (i * 29) % 255 - 127); // rows of whole codes with scale 1
    args[0] = x;
    for (int i = 1; i < m.n_parameters; i++) {
        void *data =
            arena_alloc(&arena, (size_t)shape_bytes(&m.instructions[m.parameters[i].instruction].shape), 1, &err);
        REQUIRE_OK(bind_make(&m, &c, i, data, NULL, &err), &err);
        args[i] = data;
    }
    struct program *program = ir_compile(&r, &m);
    REQUIRE(program && ir_run(&r, program, &m, args, out));
    const float *y = out[0];
    for (int i = 0; i < ROWS; i++) {
        for (int n = 0; n < N; n++) {
            double want = 0, scale = ldexp(1, n - 3) * 127 * 127 * K;
            for (int k = 0; k < K; k++)
                want += (double)x[i * K + k] * (double)value_of(k, n);
            CHECK_NEAR((double)(first ? y[n * ROWS + i] : y[i * N + n]), want, tolerance * scale);
        }
    }
    free(out[0]);
    program_free(program);
    checkpoint_close(&c);
    arena_release(&arena);
    rig_close(&r);
}

// Whole numbers below 2^24: sums of int8 products are exact, and so are those of bf16 operands in f32.
TEST(ir_policy_columns_plugin_int8_loses_nothing)
{
    check("w8a8", false, 0);
    check("w8a8", true, 0);
    check("w8a16", false, 0);
    check("w8a16", true, 0);
}

// Of the plain formats the weight keeps its place; int4 in groups along k (here one group) is within half a step of
// 127/7 for every weight.
TEST(ir_policy_columns_plugin_other_formats)
{
    check("f32", false, 0);
    check("bf16", true, 0);
    check("w4a16", false, 0.5 / 7 + 0x1p-8);
    check("w4a16", true, 0.5 / 7 + 0x1p-8);
}
