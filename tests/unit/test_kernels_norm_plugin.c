// SPDX-License-Identifier: Apache-2.0
// Group normalisation as one call, against XLA's own and against f64, by every instruction set.
#include <stdlib.h>

#include "ir/policy.h"
#include "kernels_test.h"
#include "models/parts.h"
#include "num/isa.h"

struct norm_case {
    const char *name;
    int64_t batch, rows, columns, channels, groups;
    const char *policy;
    bool silu;
};

static const double eps = 1e-6;

static void build(struct module *m, const struct norm_case *c)
{
    struct module f32;
    struct builder b;
    module_init(&f32, m->arena, c->name);
    builder_init(&b, &f32);
    builder_scope(&b, "norm", "norm");
    struct shape s = SHAPE(DT_F32, c->batch, c->rows, c->columns, c->channels);
    int x = build_parameter(&b, ROLE_INPUT, "scale_x", s, NULL);
    x = builder_store(&b, build_binary_scalar(&b, OP_MULTIPLY, x, 1)); // rounded here
    int gamma = build_weight(&b, "scale_gamma", SHAPE(DT_F32, c->channels));
    int beta = build_weight(&b, "beta", SHAPE(DT_F32, c->channels));
    int y = part_group_norm(&b, x, c->groups, gamma, beta, eps);
    build_result(&b, "y", builder_store(&b, c->silu ? part_silu(&b, y) : y));
    kernels_apply(&b, c->policy, m);
}

static const struct norm_case cases[] = {
    {"bf16 and silu", 1, 20, 24, 64, 8, "bf16", true},         {"bf16", 2, 17, 16, 32, 4, "bf16", false},
    {"f32 and silu", 2, 9, 31, 48, 16, "f32", true},           {"f32, odd channels", 1, 5, 7, 21, 3, "f32", false},
    {"bf16, few channels", 3, 30, 30, 6, 2, "bf16", true},     {"one group", 1, 8, 8, 32, 1, "f32", true},
    {"groups of one channel", 1, 8, 8, 32, 32, "bf16", false}, {"several blocks", 1, 40, 40, 16, 4, "f32", false},
};

// x is from 0.5 to 1.5: its spread is a third of its mean, so the rounding of a bf16 input (2^-9 of 1) is 2^-9 / 0.29
// of the result, which the f64 run does not make; then gamma's and the result's. f32: its own 2^-24, and that of sums.
static double bound(const struct norm_case *c)
{
    return strcmp(c->policy, "bf16") == 0 ? 6 * 0x1p-9 : 2e-6;
}

static void agrees(struct rig *r, size_t i, const char *isa)
{
    struct kernels_trial trial;
    kernels_trial_begin(&trial, cases[i].name);
    build(&trial.m, &cases[i]);
    kernels_agree(r, &trial, isa, KERNEL_GROUP_NORM, (int)i + 1, bound(&cases[i]));
}

TEST(kernels_group_norm_agrees_plugin)
{
    kernels_each_isa(sizeof cases / sizeof *cases, agrees);
}

// A value that was rounded before stays rounded: the call must not take what stood before the rounding.
TEST(kernels_group_norm_takes_the_rounded_value_plugin)
{
    struct rig r;
    if (!kernels_rig_open(&r))
        return;
    const struct norm_case c = {"rounded", 1, 1, 64, 1, 1, "bf16", false};
    float x[64];
    uint16_t narrow[2] = {0x3f80, 0};
    for (int i = 0; i < 64; i++)
        x[i] = 1 + (float)(i % 2) * 0x1p-9F; // half a unit of bf16 and less: all become 1
    struct kernels_trial trial;
    kernels_trial_begin(&trial, c.name);
    build(&trial.m, &c);
    if (kernels_run(&r, &trial.m, (const void *const[]){x, &narrow[0], &narrow[1]}, 0, &trial.k)) {
        for (int i = 0; i < 64; i++)
            CHECK(trial.k.kernels64[i] == 0 && trial.k.plain64[i] == 0);
    }
    kernels_trial_end(&trial, "", true, 0);
    rig_close(&r);
}

// A NaN makes its group NaN, and no other.
TEST(kernels_group_norm_propagates_nan_plugin)
{
    struct rig r;
    if (!kernels_rig_open(&r))
        return;
    const struct norm_case c = {"nan", 2, 4, 4, 8, 2, "f32", true};
    float x[2 * 4 * 4 * 8], gamma[8], beta[8];
    for (int i = 0; i < 2 * 4 * 4 * 8; i++)
        x[i] = (float)((i * 7) % 13);
    for (int i = 0; i < 8; i++)
        gamma[i] = 1, beta[i] = 0.5F;
    x[8 * 5 + 1] = NAN; // of the first image, first group
    struct kernels_trial trial;
    kernels_trial_begin(&trial, c.name);
    build(&trial.m, &c);
    if (kernels_run(&r, &trial.m, (const void *const[]){x, gamma, beta}, 0, &trial.k)) {
        for (int i = 0; i < 2 * 4 * 4 * 8; i++)
            CHECK(isnan(trial.k.kernels64[i]) == (i < 4 * 4 * 8 && i % 8 < 4));
    }
    kernels_trial_end(&trial, "", true, 0);
    rig_close(&r);
}
