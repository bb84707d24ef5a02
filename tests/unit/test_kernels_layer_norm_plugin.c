// SPDX-License-Identifier: Apache-2.0
// Layer normalisation with a scale and a shift as one call, against XLA's own and against f64, by every instruction
// set.
#include "kernels_test.h"
#include "models/parts.h"

struct norm_case {
    const char *name;
    int64_t batch, tokens, n;
    const char *policy;
    bool shared; // one vector for all images
    bool stored; // what is normalised is handed on before it is scaled
};

static const double eps = 1e-6;

static int vector(struct builder *b, const char *name, const struct norm_case *c, struct shape like)
{
    if (c->shared)
        return build_broadcast(b, build_parameter(b, ROLE_INPUT, name, SHAPE(DT_F32, c->n), NULL), like, (int[]){2});
    return build_broadcast(b, build_parameter(b, ROLE_INPUT, name, SHAPE(DT_F32, c->batch, c->n), NULL), like,
                           (int[]){0, 2});
}

static void build(struct module *m, const struct norm_case *c)
{
    struct module f32;
    struct builder b;
    module_init(&f32, m->arena, c->name);
    builder_init(&b, &f32);
    builder_scope(&b, "norm", "norm");
    int x = build_parameter(&b, ROLE_INPUT, "scale_x", SHAPE(DT_F32, c->batch, c->tokens, c->n), NULL);
    x = builder_store(&b, build_binary_scalar(&b, OP_MULTIPLY, x, 1)); // rounded here
    const struct shape like = *builder_shape(&b, x);
    int y = part_layer_norm(&b, x, eps);
    y = c->stored ? builder_store(&b, y) : y;
    y = build_binary(&b, OP_MULTIPLY, y, vector(&b, "scale", c, like));
    build_result(&b, "y", builder_store(&b, build_binary(&b, OP_ADD, y, vector(&b, "shift", c, like))));
    kernels_apply(&b, c->policy, m);
}

static const struct norm_case cases[] = {
    {"bf16", 1, 20, 128, "bf16", false, true},          {"bf16, two images", 2, 19, 96, "bf16", false, true},
    {"bf16, shared", 2, 9, 64, "bf16", true, true},     {"bf16, not stored", 1, 9, 64, "bf16", true, false},
    {"bf16, odd", 2, 7, 37, "bf16", false, true},       {"f32", 2, 9, 48, "f32", false, true},
    {"f32, odd, shared", 1, 5, 21, "f32", true, false}, {"w8a8", 1, 20, 128, "w8a8", false, true},
};

// x is from 0.5 to 1.5, so the rounding of a bf16 input (2^-9 of 1) is 2^-9 / 0.29 of what is normalised, which the f64
// run does not make; then there are two more roundings. f32: its own 2^-24, and that of sums.
static double bound(const struct norm_case *c)
{
    return strcmp(c->policy, "f32") == 0 ? 2e-6 : 6 * 0x1p-9;
}

static void agrees(struct rig *r, size_t i, const char *isa)
{
    struct kernels_trial trial;
    kernels_trial_begin(&trial, cases[i].name);
    build(&trial.m, &cases[i]);
    kernels_agree(r, &trial, isa, KERNEL_LAYER_NORM, (int)i + 1, bound(&cases[i]));
}

TEST(kernels_layer_norm_agrees_plugin)
{
    kernels_each_isa(sizeof cases / sizeof *cases, agrees);
}

// A NaN makes its row NaN, and no other; equal values are their mean.
TEST(kernels_layer_norm_edges_plugin)
{
    struct rig r;
    if (!kernels_rig_open(&r))
        return;
    const struct norm_case c = {"edges", 1, 4, 8, "f32", true, false};
    float x[4 * 8], scale[8], shift[8];
    for (int i = 0; i < 4 * 8; i++)
        x[i] = i / 8 == 3 ? 5 : (float)((i * 7) % 13);
    for (int i = 0; i < 8; i++)
        scale[i] = 2, shift[i] = 0.5F;
    x[8 + 5] = NAN;
    struct kernels_trial trial;
    kernels_trial_begin(&trial, c.name);
    build(&trial.m, &c);
    if (kernels_run(&r, &trial.m, (const void *const[]){x, scale, shift}, 0, &trial.k)) {
        for (int i = 0; i < 4 * 8; i++) {
            CHECK(isnan(trial.k.kernels64[i]) == (i / 8 == 1));
            CHECK(i / 8 != 3 || trial.k.kernels64[i] == 0.5);
        }
    }
    kernels_trial_end(&trial, "", true, 0);
    rig_close(&r);
}

// Only over the last dimension, and only with vectors that all tokens share.
TEST(kernels_layer_norm_leaves_others)
{
    for (int which = 0; which < 3; which++) {
        const struct norm_case c = {"others", 2, 8, 8, "f32", false, true};
        struct arena arena;
        struct module m, called;
        struct builder b;
        struct kernels_chosen chosen;
        struct error err = {0};
        arena_init(&arena);
        module_init(&m, &arena, "others");
        module_init(&called, &arena, "called");
        builder_init(&b, &m);
        builder_scope(&b, "norm", "norm");
        int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(DT_F32, c.batch, c.tokens, c.n), NULL);
        const struct shape like = *builder_shape(&b, x);
        int each = build_parameter(&b, ROLE_INPUT, "each", SHAPE(DT_F32, c.batch, c.tokens), NULL);
        int scale = which == 1 ? build_broadcast(&b, each, like, (int[]){0, 1}) : vector(&b, "scale", &c, like);
        int y = which == 2 ? part_rms_norm(&b, x, build_weight(&b, "w", SHAPE(DT_F32, c.n)), eps)
                           : part_layer_norm(&b, x, eps);
        y = build_binary(&b, OP_ADD, build_binary(&b, OP_MULTIPLY, y, scale), vector(&b, "shift", &c, like));
        build_result(&b, "y", y);
        CHECK_INT(builder_finish(&b, &err), 0);
        CHECK_INT(kernels_choose(&m, 0, &called, &chosen, &err), 0);
        CHECK_INT(chosen.count[KERNEL_LAYER_NORM], which == 0);
        arena_release(&arena);
    }
}
