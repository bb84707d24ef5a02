// SPDX-License-Identifier: Apache-2.0
// Products as calls of oneDNN, against XLA's own and against f64.
#include <pthread.h>
#include <stdlib.h>

#include "kernels/team.h"
#include "kernels_test.h"
#include "models/parts.h"
#include "num/convert.h"

struct product_case {
    const char *name;
    int64_t m, k, n;
    enum dtype x, w, sums, out; // sums: of the product; out: what it is rounded or scaled to
    bool w_is_transposed;       // [k, n]
    bool rows, outputs;         // scaled
};

// x [2, m / 2, k] (or [m, k] for odd m) by w, scaled and rounded as policies write it.
static void build(struct module *m, const struct product_case *c)
{
    struct builder b;
    builder_init(&b, m);
    builder_scope(&b, "product", "product");
    bool split = c->m % 2 == 0;
    struct shape x_shape = split ? SHAPE(c->x, 2, c->m / 2, c->k) : SHAPE(c->x, c->m, c->k);
    struct shape row_shape = split ? SHAPE(DT_F32, 2, c->m / 2) : SHAPE(DT_F32, c->m);
    int x = build_parameter(&b, ROLE_INPUT, "x", x_shape, NULL);
    struct shape w_shape = c->w_is_transposed ? SHAPE(c->w, c->k, c->n) : SHAPE(c->w, c->n, c->k);
    int w = build_parameter(&b, ROLE_INPUT, "w", w_shape, NULL);
    w = build_convert(&b, w, c->x); // codes by wide activations
    int y = c->w_is_transposed ? build_dot(&b, x, w, 0, NULL, NULL, 1, (int[]){x_shape.rank - 1}, (int[]){0}, c->sums)
                               : build_linear(&b, x, w, c->sums);
    if (c->rows || c->outputs)
        y = build_convert(&b, y, DT_F32);
    if (c->rows)
        y = build_binary(
            &b, OP_MULTIPLY, y,
            build_broadcast_leading(&b, build_parameter(&b, ROLE_INPUT, "scale_rows", row_shape, NULL), y));
    if (c->outputs) {
        int f = build_parameter(&b, ROLE_INPUT, "scale_outputs", SHAPE(DT_F32, c->n), NULL);
        y = build_binary(&b, OP_MULTIPLY, y, build_broadcast_trailing(&b, f, y));
    }
    build_result(&b, "y", build_convert(&b, y, c->out));
    struct error err = {0};
    if (!CHECK_INT(builder_finish(&b, &err), 0))
        printf("  %s: %s\n", err.where, err.message);
}

static const struct product_case cases[] = {
    {"bf16", 192, 320, 448, DT_BF16, DT_BF16, DT_F32, DT_BF16, false, false, false},
    {"bf16 [k, n]", 192, 320, 448, DT_BF16, DT_BF16, DT_F32, DT_BF16, true, false, false},
    {"bf16 to f32", 128, 640, 96, DT_BF16, DT_BF16, DT_F32, DT_F32, false, false, false},
    {"bf16 in blocks", 72, 1120, 250, DT_BF16, DT_BF16, DT_F32, DT_BF16, false, false, false},
    {"bf16 in strips", 201, 64, 400, DT_BF16, DT_BF16, DT_F32, DT_F32, false, true, true},
    {"s8 sums in strips", 66, 128, 193, DT_S8, DT_S8, DT_S32, DT_S32, false, false, false},
    {"s8 in blocks", 71, 2112, 50, DT_S8, DT_S8, DT_S32, DT_F32, false, true, true},
    {"bf16 by s8 in blocks", 64, 1056, 97, DT_BF16, DT_S8, DT_F32, DT_BF16, false, false, true},
    {"bf16 sums", 64, 64, 64, DT_BF16, DT_BF16, DT_BF16, DT_BF16, false, false, false},
    {"f32", 100, 300, 200, DT_F32, DT_F32, DT_F32, DT_F32, false, false, false},
    {"s8 sums", 65, 300, 127, DT_S8, DT_S8, DT_S32, DT_S32, false, false, false},
    {"s8 scaled to bf16", 128, 512, 1344, DT_S8, DT_S8, DT_S32, DT_BF16, false, true, true},
    {"s8 scaled to f32", 77, 129, 65, DT_S8, DT_S8, DT_S32, DT_F32, false, true, true},
    {"s8 scaled by output", 34, 64, 48, DT_S8, DT_S8, DT_S32, DT_F32, false, false, true},
    {"s8 scaled by row", 34, 64, 48, DT_S8, DT_S8, DT_S32, DT_F32, false, true, false},
    {"bf16 by s8", 96, 256, 512, DT_BF16, DT_S8, DT_F32, DT_BF16, false, false, true},
    {"bf16 by s8, no scales", 17, 40, 33, DT_BF16, DT_S8, DT_F32, DT_F32, false, false, false},
    {"bf16 scaled by output", 16, 32, 48, DT_BF16, DT_BF16, DT_F32, DT_BF16, false, false, true},
    {"one row", 1, 4096, 512, DT_BF16, DT_BF16, DT_F32, DT_BF16, false, false, false},
    {"one row of s8", 1, 1000, 300, DT_S8, DT_S8, DT_S32, DT_BF16, false, true, true},
    {"one of all", 1, 1, 1, DT_BF16, DT_BF16, DT_F32, DT_BF16, false, false, false},
    {"odd", 3, 7, 5, DT_BF16, DT_BF16, DT_F32, DT_F32, false, false, false},
    {"odd [k, n]", 3, 7, 5, DT_F32, DT_F32, DT_F32, DT_F32, true, false, false},
    {"odd s8", 5, 3, 7, DT_S8, DT_S8, DT_S32, DT_F32, false, true, true},
    {"long sums", 2, 100003, 3, DT_BF16, DT_BF16, DT_F32, DT_F32, false, false, false},
    {"nothing to sum", 4, 0, 6, DT_BF16, DT_BF16, DT_F32, DT_F32, false, false, false},
    {"no rows", 0, 8, 6, DT_BF16, DT_BF16, DT_F32, DT_F32, false, false, false},
    {"no outputs", 4, 8, 0, DT_F32, DT_F32, DT_F32, DT_F32, false, false, false},
};

// Sums of s8 are exact and scaled in the same order: bit for bit. f32 adds k terms with 2^-24 each (of random signs:
// their root would do). What is rounded to bf16 is off by 2^-9 at most, of each element.
static double bound(const struct product_case *c)
{
    double sums = c->x == DT_S8 ? 0 : (double)c->k * 0x1p-24;
    return (c->sums == DT_BF16 ? 4 * 0x1p-9 : 0) + (c->out == DT_BF16 ? 0x1p-9 : 0x1p-23) + sums;
}

TEST(kernels_product_agrees_plugin)
{
    struct rig r;
    if (!kernels_rig_open(&r))
        return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct product_case *c = &cases[i];
        struct kernels_trial trial;
        kernels_trial_begin(&trial, c->name);
        build(&trial.m, c);
        bool ok = kernels_run(&r, &trial.m, NULL, (int)i + 1, &trial.k);
        ok = ok && CHECK_INT(trial.k.chosen.count[KERNEL_PRODUCT], 1) && CHECK(trial.k.flop[0] == trial.k.flop[1]);
        if (ok && trial.k.n && c->x == DT_S8)
            ok = CHECK(memcmp(trial.k.plain, trial.k.kernels, (size_t)(trial.k.n * dtype_bits(trial.k.type) / 8)) == 0);
        if (ok && trial.k.n && c->k)
            ok = CHECK(kernels_off(&trial.k) <= bound(c)) && CHECK(kernels_plain_off(&trial.k) <= bound(c));
        for (int64_t e = 0; ok && e < trial.k.n && !c->k; e++)
            ok = CHECK(trial.k.kernels64[e] == 0);
        kernels_trial_end(&trial, "", ok, bound(c));
    }
    rig_close(&r);
}

// ---- x quantised in the call

struct codes_case {
    const char *name;
    int64_t tokens, k, n;
    const char *policy;
};

static const struct codes_case quantised[] = {
    {"w8a8", 36, 128, 100, "w8a8"},
    {"w8a8 in blocks", 40, 2112, 200, "w8a8"},
    {"w8a8, few rows", 3, 64, 48, "w8a8"},
    {"w8a8, odd", 35, 77, 51, "w8a8"},
};

// x [2, tokens, k] by a weight, as policies quantise both.
static void build_quantised(struct module *m, const struct codes_case *c)
{
    struct module f32;
    struct builder b;
    module_init(&f32, m->arena, c->name);
    builder_init(&b, &f32);
    builder_scope(&b, "linear", "linear");
    int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(DT_F32, 2, c->tokens, c->k), NULL);
    x = builder_store(&b, build_binary_scalar(&b, OP_MULTIPLY, x, 1));
    build_result(&b, "y", builder_store(&b, part_linear(&b, x, "w", c->n)));
    kernels_apply(&b, c->policy, m);
}

// A call takes what is to be quantised, one operand fewer than with codes and their factors, and gives what the plain
// program does, bit for bit.
static void quantised_agrees(struct rig *r, size_t i, const char *isa)
{
    struct kernels_trial trial;
    kernels_trial_begin(&trial, quantised[i].name);
    build_quantised(&trial.m, &quantised[i]);
    bool ok = kernels_run(r, &trial.m, NULL, (int)i + 1, &trial.k) &&
              CHECK_INT(trial.k.chosen.count[KERNEL_PRODUCT], 1) && CHECK(trial.k.flop[0] == trial.k.flop[1]) &&
              CHECK(memcmp(trial.k.plain, trial.k.kernels, (size_t)(trial.k.n * dtype_bits(trial.k.type) / 8)) == 0);
    kernels_trial_end(&trial, isa, ok, 0);
}

TEST(kernels_product_quantises_plugin)
{
    kernels_each_isa(sizeof quantised / sizeof *quantised, quantised_agrees);
}

// Zeros stay zeros, and what is no number makes its row none; ties between codes go to the even one.
TEST(kernels_product_quantises_edges_plugin)
{
    static float x[2 * 36 * 128];
    struct rig r;
    if (!kernels_rig_open(&r))
        return;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = (float)((int)(i * 37 % 509) - 254) / 2; // the largest is 127: halves are ties
    for (int k = 0; k < 128; k++)
        x[5 * 128 + k] = 0, x[6 * 128 + k] = k == 100 ? NAN : 1, x[7 * 128 + k] = k == 3 ? INFINITY : 1;
    struct kernels_trial trial;
    kernels_trial_begin(&trial, "edges");
    build_quantised(&trial.m, &quantised[0]);
    static int8_t w[100 * 128];
    static float scales[100];
    for (size_t i = 0; i < sizeof w; i++)
        w[i] = (int8_t)((int)(i * 31 % 255) - 127);
    for (int i = 0; i < 100; i++)
        scales[i] = 1 / (float)(i + 1);
    if (kernels_run(&r, &trial.m, (const void *const[]){x, w, scales}, 0, &trial.k)) {
        for (int64_t i = 0; i < trial.k.n; i++) {
            int64_t row = i / 100;
            double got = trial.k.kernels64[i];
            CHECK(row == 6 || row == 7 ? isnan(got) : row == 5 ? got == 0 : got == trial.k.plain64[i]);
        }
    }
    kernels_trial_end(&trial, "", true, 0);
    rig_close(&r);
}

// ---- gates and residuals

struct added_case {
    const char *name;
    int64_t batch, tokens, k, n;
    const char *policy;
    bool gated, shared; // by a vector of each image, or of all
    bool first;         // product + residual
    bool stored;        // the product is handed on before it is added
};

static const struct added_case added[] = {
    {"bf16, gate", 2, 40, 320, 200, "bf16", true, false, false, true},
    {"bf16, gate of all images", 2, 40, 320, 200, "bf16", true, true, false, true},
    {"bf16, in blocks", 1, 71, 1120, 250, "bf16", true, true, false, true},
    {"bf16, residual", 1, 65, 64, 97, "bf16", false, false, true, true},
    {"bf16, not rounded", 1, 65, 64, 97, "bf16", true, false, true, false},
    {"bf16, few rows", 2, 5, 70, 33, "bf16", true, false, false, true},
    {"bf16, residual of few rows", 1, 3, 70, 33, "bf16", false, false, false, true},
    {"f32, gate", 2, 9, 77, 50, "f32", true, false, false, true},
    {"f32, residual", 1, 66, 64, 48, "f32", false, false, true, true},
    {"w8a8, gate", 2, 40, 128, 100, "w8a8", true, false, false, true},
    {"w8a8, in blocks", 1, 70, 2112, 200, "w8a8", true, true, false, true},
    {"w8a8, residual", 1, 64, 64, 50, "w8a8", false, false, true, true},
    {"w8a8, few rows", 1, 3, 64, 48, "w8a8", true, false, false, true},
    {"w8a16, gate", 2, 40, 128, 100, "w8a16", true, false, false, true},
    {"w8a16, few rows", 1, 7, 96, 70, "w8a16", false, false, false, true},
    {"w4a16, gate", 2, 40, 128, 100, "w4a16", true, false, false, true},
    {"w4a16, few rows", 1, 7, 96, 70, "w4a16", false, false, false, true},
};

// residual + gate * (x by a weight), with what policies round and quantise.
static void build_added(struct module *m, const struct added_case *c)
{
    struct module f32;
    struct builder b;
    module_init(&f32, m->arena, c->name);
    builder_init(&b, &f32);
    builder_scope(&b, "linear", "linear");
    struct shape out = SHAPE(DT_F32, c->batch, c->tokens, c->n);
    int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(DT_F32, c->batch, c->tokens, c->k), NULL);
    int residual = build_parameter(&b, ROLE_INPUT, "residual", out, NULL), gate = -1;
    if (c->gated && c->shared)
        gate = build_broadcast(&b, build_parameter(&b, ROLE_INPUT, "scale_gate", SHAPE(DT_F32, c->n), NULL), out,
                               (int[]){2});
    else if (c->gated)
        gate = build_broadcast(&b, build_parameter(&b, ROLE_INPUT, "scale_gate", SHAPE(DT_F32, c->batch, c->n), NULL),
                               out, (int[]){0, 2});
    x = builder_store(&b, build_binary_scalar(&b, OP_MULTIPLY, x, 1));
    residual = builder_store(&b, build_binary_scalar(&b, OP_MULTIPLY, residual, 1));
    int y = part_linear(&b, x, "w", c->n);
    y = c->stored ? builder_store(&b, y) : y;
    y = c->gated ? build_binary(&b, OP_MULTIPLY, gate, y) : y;
    build_result(
        &b, "y",
        builder_store(&b, c->first ? build_binary(&b, OP_ADD, y, residual) : build_binary(&b, OP_ADD, residual, y)));
    kernels_apply(&b, c->policy, m);
}

// x and w are rounded to bf16, 2^-9 at most and 2^-9 / sqrt(3) on average, where the f64 run takes them as they are;
// then sums and the result are. f32: sums of k terms. Of codes the plain program stands for f64: no sum differs, and
// what is added may be off in the last bit of f32, and so one in the last of bf16.
static double added_bound(const struct added_case *c)
{
    bool codes = c->policy[0] == 'w';
    return strcmp(c->policy, "f32") == 0 ? (double)c->k * 0x1p-24 : codes ? 0x1p-9 : 3 * 0x1p-9;
}

static void added_agrees(struct rig *r, size_t i, const char *isa)
{
    struct kernels_trial trial;
    const struct added_case *c = &added[i];
    kernels_trial_begin(&trial, c->name);
    build_added(&trial.m, c);
    bool ok = kernels_run(r, &trial.m, NULL, (int)i + 1, &trial.k) &&
              CHECK_INT(trial.k.chosen.count[KERNEL_PRODUCT], 1) && CHECK_INT(trial.k.adds_left, 0) &&
              CHECK(trial.k.flop[0] == trial.k.flop[1]) && CHECK(trial.k.element_flop[0] == trial.k.element_flop[1]) &&
              CHECK(kernels_off(&trial.k) <= added_bound(c)) &&
              CHECK(kernels_off(&trial.k) <= 1.5 * kernels_plain_off(&trial.k) + 0x1p-9);
    kernels_trial_end(&trial, isa, ok, added_bound(c));
}

TEST(kernels_product_adds_plugin)
{
    kernels_each_isa(sizeof added / sizeof *added, added_agrees);
}

// A bias is no residual, for it would be written out; nor is a product added in the call when it is a result, too. The
// product itself is made by the call in any case.
TEST(kernels_product_leaves_others)
{
    static const struct {
        bool bias, kept;
        int adds_left;
    } others[] = {{false, false, 0}, {true, false, 1}, {false, true, 1}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct kernels_trial trial;
        struct builder b;
        struct module called;
        struct kernels_chosen chosen;
        struct error err = {0};
        kernels_trial_begin(&trial, "others");
        module_init(&called, &trial.arena, "called");
        builder_init(&b, &trial.m);
        builder_scope(&b, "linear", "linear");
        int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(DT_F32, 2, 8, 16), NULL);
        int y = part_linear(&b, x, "w", 24);
        int other = others[i].bias ? build_weight(&b, "bias", SHAPE(DT_F32, 24))
                                   : build_parameter(&b, ROLE_INPUT, "residual", SHAPE(DT_F32, 2, 8, 24), NULL);
        build_result(&b, "y", others[i].bias ? part_add_bias(&b, y, other) : build_binary(&b, OP_ADD, other, y));
        if (others[i].kept)
            build_result(&b, "product", y);
        CHECK_INT(builder_finish(&b, &err), 0);
        CHECK_INT(kernels_choose(&trial.m, 0, &called, &chosen, &err), 0);
        CHECK_INT(chosen.count[KERNEL_PRODUCT], 1);
        int adds = 0;
        for (int k = 0; k < called.n_instructions; k++)
            adds += called.instructions[k].op == OP_ADD;
        CHECK_INT(adds, others[i].adds_left);
        kernels_trial_end(&trial, "", true, 0);
    }
}

// Small whole numbers have exact sums in any order, and powers of two exact products: what is rounded, and where, is
// all that is left to differ, and nothing does.
static void added_exactly(struct rig *r, size_t i, const char *isa)
{
    static const size_t which[] = {0, 5}; // many rows, few rows
    static float x[2 * 40 * 320], residual[2 * 40 * 200], gate[2 * 200];
    static uint16_t w[200 * 320];
    const struct added_case *c = &added[which[i]];
    for (size_t k = 0; k < sizeof x / sizeof *x; k++)
        x[k] = (float)(k * 7919 % 31) - 11;
    for (size_t k = 0; k < sizeof w / sizeof *w; k++)
        w[k] = bf16_from_f32((float)(k * 104729 % 17) - 5);
    for (size_t k = 0; k < sizeof residual / sizeof *residual; k++)
        residual[k] = (float)(k * 31 % 4093) / 7 - 300;
    for (size_t k = 0; k < sizeof gate / sizeof *gate; k++)
        gate[k] = k % 3 == 0 ? -0.5F : k % 3 == 1 ? 0.25F : 1;
    struct kernels_trial trial;
    kernels_trial_begin(&trial, c->name);
    build_added(&trial.m, c);
    bool ok = kernels_run(r, &trial.m, (const void *const[]){x, residual, gate, w}, 0, &trial.k) &&
              CHECK_INT(trial.k.adds_left, 0) &&
              CHECK(memcmp(trial.k.plain, trial.k.kernels, (size_t)(trial.k.n * dtype_bits(trial.k.type) / 8)) == 0);
    kernels_trial_end(&trial, isa, ok, 0);
}

TEST(kernels_product_adds_exactly_plugin)
{
    kernels_each_isa(2, added_exactly);
}

// A NaN makes its row NaN, an infinity infinite or NaN, nothing else changes.
TEST(kernels_product_propagates_nan_plugin)
{
    struct rig r;
    if (!kernels_rig_open(&r))
        return;
    const struct product_case c = {"nan", 33, 70, 50, DT_BF16, DT_BF16, DT_F32, DT_BF16, false, false, false};
    struct kernels_trial trial;
    uint16_t x[33 * 70], w[50 * 70];
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = bf16_from_f32((float)(i % 7) - 3);
    for (size_t i = 0; i < sizeof w / sizeof *w; i++)
        w[i] = bf16_from_f32((float)(i % 5) + 1);
    x[4 * 70 + 69] = 0x7fc0;
    x[9 * 70 + 1] = 0x7f80;
    kernels_trial_begin(&trial, c.name);
    build(&trial.m, &c);
    if (kernels_run(&r, &trial.m, (const void *const[]){x, w}, 0, &trial.k)) {
        for (int64_t i = 0; i < 33; i++) {
            for (int64_t j = 0; j < 50; j++) {
                double v = trial.k.kernels64[i * 50 + j];
                CHECK(i == 4 ? isnan(v) : i == 9 ? v == INFINITY : v == trial.k.plain64[i * 50 + j] && isfinite(v));
            }
        }
    }
    kernels_trial_end(&trial, "", true, 0);
    rig_close(&r);
}

// ---- several at once

struct executions {
    struct program *program;
    struct rig *r;
    const struct module *m;
    const void *const *args;
    const void *want;
    size_t bytes;
    int failed;
};

static void *execute_often(void *argument)
{
    struct executions *e = argument;
    for (int i = 0; i < 8; i++) {
        void *out = NULL;
        if (!ir_run(e->r, e->program, e->m, e->args, &out) || memcmp(out, e->want, e->bytes) != 0)
            e->failed++;
        free(out);
    }
    return NULL;
}

// Calls from several threads wait for their turn, and the same comes out each time.
TEST(kernels_product_concurrent_plugin)
{
    struct rig r;
    if (!kernels_rig_open(&r))
        return;
    const struct product_case c = {"many", 128, 256, 384, DT_BF16, DT_BF16, DT_F32, DT_BF16, false, false, false};
    struct arena arena;
    struct module m, called;
    struct kernels_chosen chosen;
    struct error err = {0};
    static uint16_t x[128 * 256], w[384 * 256];
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = bf16_from_f32((float)(i % 13) * 0.37F - 2);
    for (size_t i = 0; i < sizeof w / sizeof *w; i++)
        w[i] = bf16_from_f32((float)(i % 11) * 0.21F - 1);
    const void *args[2] = {x, w};
    arena_init(&arena);
    module_init(&m, &arena, c.name);
    module_init(&called, &arena, c.name);
    build(&m, &c);
    CHECK_INT(kernels_choose(&m, 0, &called, &chosen, &err), 0);
    struct program *p = ir_compile(&r, &called);
    void *first = NULL;
    if (CHECK(p) && CHECK(ir_run(&r, p, &called, args, &first))) {
        struct executions e[4];
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) {
            e[i] = (struct executions){p, &r, &called, args, first, sizeof(uint16_t) * 128 * 384, 0};
            CHECK_INT(pthread_create(&threads[i], NULL, execute_often, &e[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            CHECK_INT(e[i].failed, 0);
        }
    }
    free(first);
    program_free(p);
    arena_release(&arena);
    rig_close(&r);
}

TEST(kernels_team_needs_its_thread)
{
    struct error err = {0};
    CHECK_INT(team_run("kernel: none", NULL, NULL, &err), ERR_INTERNAL);
    CHECK_INT(team_threads(), 0);
}
