// SPDX-License-Identifier: Apache-2.0
// The gate of a feed-forward layer and the rotation of heads as calls, against XLA's own and against f64, by every
// instruction set.
#include <math.h>
#include <stdlib.h>

#include "ir/policy.h"
#include "kernels_test.h"
#include "models/parts.h"
#include "num/isa.h"

// An input, rounded where the policy rounds what is handed on.
static int handed_in(struct builder *b, const char *name, struct shape s)
{
    int x = build_parameter(b, ROLE_INPUT, name, s, NULL);
    return builder_store(b, build_binary_scalar(b, OP_MULTIPLY, x, 1));
}

// ---- silu(gate) * up

struct gate_case {
    const char *name;
    int64_t batch, tokens, in_front, n, before; // columns of the wide value in front of the gate's, and of the other
    const char *policy;
};

static const struct gate_case gates[] = {
    {"bf16", 1, 20, 0, 64, 0, "bf16"},
    {"bf16, part of more", 2, 9, 48, 32, 0, "bf16"},
    {"bf16 behind another", 1, 17, 16, 80, 24, "bf16"},
    {"f32", 2, 9, 0, 40, 0, "f32"},
    {"f32 behind another", 1, 5, 7, 21, 3, "f32"},
    {"bf16, odd", 1, 7, 5, 37, 11, "bf16"},
    {"one column", 3, 1, 0, 1, 1, "bf16"},
};

static void build_gate(struct module *m, const struct gate_case *c)
{
    struct module f32;
    struct builder b;
    module_init(&f32, m->arena, c->name);
    builder_init(&b, &f32);
    builder_scope(&b, "gate", "gate");
    int64_t wide = c->in_front + 2 * c->n;
    int x = handed_in(&b, "x", SHAPE(DT_F32, c->batch, c->tokens, wide));
    int y = builder_store(&b, part_swiglu(&b, c->in_front ? build_slice_axis(&b, x, 2, c->in_front, wide) : x));
    if (c->before) {
        int both[2] = {handed_in(&b, "before", SHAPE(DT_F32, c->batch, c->tokens, c->before)), y};
        y = build_concatenate(&b, both, 2, 2);
    }
    build_result(&b, "y", y);
    kernels_apply(&b, c->policy, m);
}

// bf16: both inputs are rounded, which moves a product of them by up to three units of 2^-9 (silu's slope times x is at
// most twice its value), and so is the result. f32: 2^-24 of each of some ten operations.
static double bound_of(const char *policy)
{
    return strcmp(policy, "bf16") == 0 ? 4 * 0x1p-9 : 10 * 0x1p-24;
}

static void gate_agrees(struct rig *r, size_t i, const char *isa)
{
    struct kernels_trial trial;
    kernels_trial_begin(&trial, gates[i].name);
    build_gate(&trial.m, &gates[i]);
    kernels_agree(r, &trial, isa, KERNEL_SWIGLU, (int)i + 1, bound_of(gates[i].policy));
}

TEST(kernels_swiglu_agrees_plugin)
{
    kernels_each_isa(sizeof gates / sizeof *gates, gate_agrees);
}

// From the smallest to the largest: no exponential overflows into a NaN; NaN stays where it is, and infinity is not
// lost.
TEST(kernels_swiglu_edges_plugin)
{
    struct rig r;
    if (!kernels_rig_open(&r))
        return;
    static const float edges[16] = {0,   -0.0F, 1e-30F, -1e-30F, 80,  -80,       88,       -88,
                                    100, -100,  1e30F,  -3e38F,  NAN, -INFINITY, INFINITY, 3e38F};
    static const char *const policies[2] = {"bf16", "f32"};
    for (int k = 0; k < 2; k++) {
        const struct gate_case c = {"edges", 1, 1, 0, 16, 0, policies[k]};
        float x[32];
        for (int i = 0; i < 16; i++)
            x[i] = edges[i], x[16 + i] = 1;
        struct kernels_trial trial;
        kernels_trial_begin(&trial, c.name);
        build_gate(&trial.m, &c);
        if (kernels_run(&r, &trial.m, (const void *const[]){x}, 0, &trial.k)) {
            for (int i = 0; i < 16; i++) {
                double got = trial.k.kernels64[i], want = trial.k.f64[i];
                CHECK(isnan(got) == (i == 12 || i == 13) && isinf(got) == (i == 14));
                // Where the true value is below 1e-25 both are nothing.
                if (i < 12 && !CHECK(fabs(got - want) <= 0x1p-7 * fabs(want) + 1e-25))
                    printf("  %g: %g, and not %g\n", (double)edges[i], got, want);
            }
        }
        kernels_trial_end(&trial, policies[k], true, 0);
    }
    rig_close(&r);
}

// ---- heads

struct heads_case {
    const char *name;
    int64_t batch, tokens, in_front, heads, dim, behind; // columns in front of the heads' and behind them
    bool pairs, norm;
    const char *policy;
};

static const struct heads_case turns[] = {
    {"bf16 pairs", 1, 20, 0, 3, 32, 0, true, true, "bf16"},
    {"bf16 pairs, part of more", 2, 9, 64, 2, 64, 32, true, true, "bf16"},
    {"bf16 halves", 1, 17, 32, 4, 32, 64, false, true, "bf16"},
    {"bf16 halves without a norm", 2, 8, 0, 2, 32, 64, false, false, "bf16"},
    {"bf16 pairs without a norm", 2, 8, 16, 1, 16, 0, true, false, "bf16"},
    {"f32 pairs", 2, 9, 0, 3, 24, 0, true, true, "f32"},
    {"f32 halves", 1, 5, 7, 2, 20, 3, false, true, "f32"},
    {"odd halves", 1, 5, 3, 2, 14, 1, false, true, "bf16"},
    {"one pair", 1, 1, 0, 1, 2, 0, true, true, "bf16"},
    {"longest", 1, 2, 0, 1, 512, 0, false, true, "f32"},
};

static void build_heads(struct module *m, const struct heads_case *c)
{
    struct module f32;
    struct builder b;
    module_init(&f32, m->arena, c->name);
    builder_init(&b, &f32);
    builder_scope(&b, "rope", "rope");
    int64_t from = c->in_front, to = from + c->heads * c->dim, wide = to + c->behind;
    int x = handed_in(&b, "x", SHAPE(DT_F32, c->batch, c->tokens, wide));
    int cosine = build_parameter(&b, ROLE_INPUT, "cosine", SHAPE(DT_F32, c->tokens, c->dim / 2), NULL);
    int sine = build_parameter(&b, ROLE_INPUT, "sine", SHAPE(DT_F32, c->tokens, c->dim / 2), NULL);
    x = wide == to - from ? x : build_slice_axis(&b, x, 2, from, to);
    x = build_reshape(&b, x, 4, (int64_t[]){c->batch, c->tokens, c->heads, c->dim});
    if (c->norm)
        x = builder_store(&b, part_rms_norm(&b, x, build_weight(&b, "scale_w", SHAPE(DT_F32, c->dim)), 1e-5));
    x = c->pairs ? part_rotate_pairs(&b, x, cosine, sine) : part_rotate_half(&b, x, cosine, sine);
    build_result(&b, "y", builder_store(&b, x));
    kernels_apply(&b, c->policy, m);
}

static void heads_agree(struct rig *r, size_t i, const char *isa)
{
    struct kernels_trial trial;
    kernels_trial_begin(&trial, turns[i].name);
    build_heads(&trial.m, &turns[i]);
    // bf16: x, what is normalised and the result are rounded, and the weight. f32: some twenty operations.
    kernels_agree(r, &trial, isa, KERNEL_ROTARY, (int)i + 1,
                  strcmp(turns[i].policy, "bf16") == 0 ? 4 * 0x1p-9 : 20 * 0x1p-24);
}

TEST(kernels_rotary_agrees_plugin)
{
    kernels_each_isa(sizeof turns / sizeof *turns, heads_agree);
}

// A NaN makes its head NaN where there is a norm, and else itself and its partner.
TEST(kernels_rotary_propagates_nan_plugin)
{
    struct rig r;
    if (!kernels_rig_open(&r))
        return;
    for (int norm = 0; norm < 2; norm++) {
        const struct heads_case c = {"nan", 1, 3, 0, 2, 8, 0, true, norm, "f32"};
        float x[3 * 16], table[3 * 4], weight[8];
        for (int i = 0; i < 3 * 16; i++)
            x[i] = (float)(i % 5) - 1;
        for (int i = 0; i < 3 * 4; i++)
            table[i] = 0.5F;
        for (int i = 0; i < 8; i++)
            weight[i] = 1;
        x[16 + 8 + 3] = NAN; // token 1, head 1, feature 3
        struct kernels_trial trial;
        kernels_trial_begin(&trial, c.name);
        build_heads(&trial.m, &c);
        if (kernels_run(&r, &trial.m, (const void *const[]){x, table, table, weight}, 0, &trial.k)) {
            for (int i = 0; i < 3 * 16; i++)
                CHECK(isnan(trial.k.kernels64[i]) == (norm ? i / 8 == 3 : i == 26 || i == 27));
        }
        kernels_trial_end(&trial, "", true, 0);
    }
    rig_close(&r);
}

// Codes that XLA multiplies are scaled by whatever loop reads the sums: a call behind them would cost a pass. What our
// own kernel multiplies is in memory.
TEST(kernels_rows_leave_sums_to_loops)
{
    for (int large = 0; large < 2; large++) {
        struct arena arena;
        struct module f32, m, called;
        struct builder b;
        struct kernels_chosen chosen;
        struct error err = {0};
        arena_init(&arena);
        module_init(&f32, &arena, "f32");
        module_init(&m, &arena, "w8a8");
        module_init(&called, &arena, "called");
        builder_init(&b, &f32);
        builder_scope(&b, "mlp", "mlp");
        int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(DT_F32, 1, 136, large ? 32 : 4), NULL);
        build_result(&b, "y", part_swiglu(&b, part_linear(&b, x, "w", 64)));
        kernels_apply(&b, "w8a8", &m);
        // Of the short sums a product is half the work of the gate, and too small for a call.
        CHECK_INT(kernels_choose(&m, 12.0 * 136 * 64, &called, &chosen, &err), 0);
        CHECK_INT(chosen.count[KERNEL_PRODUCT], large);
        CHECK_INT(chosen.count[KERNEL_SWIGLU], large);
        arena_release(&arena);
    }
}
