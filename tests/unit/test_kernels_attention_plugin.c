// SPDX-License-Identifier: Apache-2.0
// Attention as one call, against XLA's own and against f64, and its softmax by every instruction set.
#include <stdlib.h>

#include "ir/policy.h"
#include "kernels/softmax.h"
#include "kernels_test.h"
#include "models/parts.h"
#include "num/isa.h"

struct attention_case {
    const char *name;
    int64_t batch, tokens, keys, heads, kv_heads, dim;
    const char *policy;
    bool masked;
};

static void build(struct module *m, const struct attention_case *c)
{
    struct arena *arena = m->arena;
    struct module f32;
    struct builder b;
    struct policy policy;
    struct error err = {0};
    module_init(&f32, arena, c->name);
    builder_init(&b, &f32);
    builder_scope(&b, "attention", "attention");
    int x[3], mask = -1;
    for (int i = 0; i < 3; i++) {
        struct shape s = SHAPE(DT_F32, c->batch, i ? c->keys : c->tokens, i ? c->kv_heads : c->heads, c->dim);
        x[i] = builder_store(&b, build_convert(&b, build_parameter(&b, ROLE_INPUT, "qkv" + i, s, NULL), DT_F32));
    }
    if (c->masked)
        mask = build_parameter(&b, ROLE_INPUT, "visible", SHAPE(DT_PRED, c->batch, c->tokens, c->keys), NULL);
    build_result(&b, "y", builder_store(&b, part_attention(&b, x[0], x[1], x[2], mask)));
    bool ok = builder_finish(&b, &err) == 0 && policy_parse(&policy, c->policy, &err) == 0 &&
              module_apply_policy(&f32, &policy, false, m, &err) == 0;
    if (!CHECK(ok))
        printf("  %s: %s\n", err.where, err.message);
}

static const struct attention_case cases[] = {
    {"bf16", 1, 96, 96, 4, 4, 64, "bf16", false},
    {"bf16 masked", 2, 48, 48, 4, 4, 32, "bf16", true},
    {"bf16, heads shared", 2, 33, 47, 6, 2, 16, "bf16", true},
    {"f32", 2, 40, 56, 3, 3, 24, "f32", false},
    {"f32 masked, heads shared", 1, 40, 40, 4, 1, 24, "f32", true},
    {"one token", 1, 1, 77, 4, 4, 32, "bf16", false},
    {"one key", 1, 5, 1, 2, 2, 8, "bf16", false},
    {"several blocks of rows", 1, 160, 16500, 1, 1, 16, "bf16", false},
    {"48 queries at a time", 1, 100, 101, 3, 3, 128, "bf16", false},
    {"48 queries, masked, heads shared", 2, 97, 70, 4, 2, 64, "bf16", true},
};

// Results are averages of values, so relative to them errors of the shares do not grow: 2^-9 each for shares, scores'
// inputs and the result in bf16 (queries and keys are rounded before either way, the f64 run does not round them:
// 2^-9 of scores of up to about 4), and f32's own.
static double bound(const struct attention_case *c)
{
    return strcmp(c->policy, "bf16") == 0 ? 8 * 0x1p-8 : 1e-5;
}

TEST(kernels_attention_agrees_plugin)
{
    struct rig r;
    if (!kernels_rig_open(&r))
        return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct attention_case *c = &cases[i];
        struct kernels_trial trial;
        kernels_trial_begin(&trial, c->name);
        build(&trial.m, c);
        bool ok = kernels_run(&r, &trial.m, NULL, (int)i + 1, &trial.k);
        ok = ok && CHECK_INT(trial.k.chosen.count[KERNEL_ATTENTION], 1) && CHECK(trial.k.flop[0] == trial.k.flop[1]);
        // As close to f64 as XLA's own.
        ok = ok && CHECK(kernels_off(&trial.k) <= bound(c)) &&
             CHECK(kernels_off(&trial.k) <= 1.5 * kernels_plain_off(&trial.k) + 1e-7);
        kernels_trial_end(&trial, "", ok, bound(c));
    }
    rig_close(&r);
}

// The same where the CPU multiplies bf16 and where it is taken not to: both ways are tested on one machine.
TEST(kernels_attention_ways_plugin)
{
    struct rig r;
    if (!kernels_rig_open(&r))
        return;
    enum isa was = isa_in_force();
    for (int isa = ISA_AVX512; isa < ISA_COUNT; isa++) {
        const struct attention_case c = {"one way", 1, 60, 90, 2, 1, 32, "bf16", true};
        struct kernels_trial trial;
        if (!isa_force((enum isa)isa))
            continue;
        kernels_trial_begin(&trial, isa_name((enum isa)isa));
        build(&trial.m, &c);
        bool ok = kernels_run(&r, &trial.m, NULL, 1, &trial.k) && CHECK(kernels_off(&trial.k) <= bound(&c)) &&
                  CHECK(kernels_off(&trial.k) <= 1.5 * kernels_plain_off(&trial.k) + 1e-7);
        kernels_trial_end(&trial, "", ok, bound(&c));
    }
    isa_force(was);
    rig_close(&r);
}

// Rows that may see nothing become the average of all values, as in the plain program; a NaN makes its row NaN.
static void check_edges(struct rig *r, const char *policy, double tolerance)
{
    const struct attention_case c = {"edges", 1, 8, 8, 1, 1, 32, policy, true};
    static float q[8 * 32], k[8 * 32], v[8 * 32];
    static uint8_t visible[8 * 8];
    for (int i = 0; i < 8 * 32; i++) {
        q[i] = (float)(i % 7) - 3;
        k[i] = (float)(i % 5) - 2;
        v[i] = (float)(i % 11);
    }
    memset(visible, 1, sizeof visible);
    memset(visible + 3 * 8, 0, 8);
    q[5 * 32] = NAN;
    struct kernels_trial trial;
    kernels_trial_begin(&trial, c.name);
    build(&trial.m, &c);
    if (kernels_run(r, &trial.m, (const void *const[]){q, k, v, visible}, 0, &trial.k)) {
        for (int i = 0; i < 8 * 32; i++) {
            double mean = 0;
            for (int t = 0; t < 8; t++)
                mean += (double)v[t * 32 + i % 32] / 8;
            CHECK(i / 32 == 5 ? isnan(trial.k.kernels64[i])
                              : fabs(trial.k.kernels64[i] - trial.k.plain64[i]) <= tolerance);
            if (i / 32 == 3)
                CHECK_NEAR(trial.k.kernels64[i], mean, tolerance);
        }
    }
    kernels_trial_end(&trial, "", true, 0);
}

TEST(kernels_attention_edges_plugin)
{
    struct rig r;
    if (!kernels_rig_open(&r))
        return;
    check_edges(&r, "f32", 1e-4);
    check_edges(&r, "bf16", 0.06); // of values up to 10: shares and result rounded to 2^-9, by both
    rig_close(&r);
}

// Keys that none of a block of queries sees are left out: a window of 21 keys, so that blocks begin late and end early.
TEST(kernels_attention_window_plugin)
{
    struct rig r;
    if (!kernels_rig_open(&r))
        return;
    enum { N = 150, DIM = 32 };
    const struct attention_case c = {"window", 1, N, N, 1, 1, DIM, "bf16", true};
    static float x[3][N * DIM];
    static uint8_t visible[N * N];
    for (int i = 0; i < N * DIM; i++) {
        for (int t = 0; t < 3; t++)
            x[t][i] = (float)((i * 37 + t * 11) % 41) / 20 - 1;
    }
    for (int i = 0; i < N * N; i++)
        visible[i] = i % N <= i / N && i % N + 20 >= i / N;
    struct kernels_trial trial;
    kernels_trial_begin(&trial, c.name);
    build(&trial.m, &c);
    bool ok = kernels_run(&r, &trial.m, (const void *const[]){x[0], x[1], x[2], visible}, 0, &trial.k) &&
              CHECK(kernels_off(&trial.k) <= bound(&c)) &&
              CHECK(kernels_off(&trial.k) <= 1.5 * kernels_plain_off(&trial.k) + 1e-7);
    kernels_trial_end(&trial, "", ok, bound(&c));
    rig_close(&r);
}

TEST(kernels_softmax_isa)
{
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_force((enum isa)isa))
            continue;
        static const int64_t lengths[] = {1, 3, 15, 16, 17, 100};
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            float x[100], y[100];
            double want[100], sum = 0, total = 0;
            int64_t n = lengths[l];
            for (int64_t i = 0; i < n; i++) {
                x[i] = (float)((i * 37) % 23) * (i % 3 ? 1.5F : -40.0F); // some far below: their share is 0
                want[i] = x[i];
            }
            double top = want[0];
            for (int64_t i = 0; i < n; i++)
                top = fmax(top, want[i]);
            for (int64_t i = 0; i < n; i++)
                sum += exp(0.25 * (want[i] - top));
            softmax_row()(x, n, 0.25F, DT_F32, y);
            for (int64_t i = 0; i < n; i++) {
                total += (double)y[i];
                // 4 units in the last place for the exponential and its argument, and the sum's.
                CHECK_NEAR((double)y[i], exp(0.25 * (want[i] - top)) / sum, 1e-6);
            }
            CHECK_NEAR(total, 1, 1e-5);
        }
        float bad[40], out[40];
        for (int i = 0; i < 40; i++)
            bad[i] = i == 39 ? NAN : 1;
        softmax_row()(bad, 40, 1, DT_F32, out);
        for (int i = 0; i < 40; i++)
            CHECK(isnan(out[i]));
    }
}
