// SPDX-License-Identifier: Apache-2.0
// Convolutions as calls of oneDNN, against XLA's own and against f64.
#include <stdlib.h>

#include "kernels_test.h"
#include "num/convert.h"

enum with { BIAS = 1, RESIDUAL = 2, RESIDUAL_FIRST = 4, TWICE = 8 };

struct convolution_case {
    const char *name;
    int64_t batch, rows, columns, inputs, outputs, window[2], stride[2], low, high;
    enum dtype type, out;
    int with;
};

// Every pixel two by two times, as image decoders enlarge.
static int double_pixels(struct builder *b, int x)
{
    const struct shape s = *builder_shape(b, x);
    struct shape wide = SHAPE(s.dtype, s.dims[0], s.dims[1], 2, s.dims[2], 2, s.dims[3]);
    x = build_broadcast(b, x, wide, (int[]){0, 1, 3, 5});
    return build_reshape(b, x, 4, (int64_t[]){s.dims[0], 2 * s.dims[1], 2 * s.dims[2], s.dims[3]});
}

static void build(struct module *m, const struct convolution_case *c)
{
    struct builder b;
    bool first = c->with & RESIDUAL_FIRST;
    builder_init(&b, m);
    builder_scope(&b, "conv", "conv");
    int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(c->type, c->batch, c->rows, c->columns, c->inputs), NULL);
    int w =
        build_parameter(&b, ROLE_INPUT, "w", SHAPE(c->type, c->outputs, c->inputs, c->window[0], c->window[1]), NULL);
    const int64_t low[2] = {c->low, c->low}, high[2] = {c->high, c->high};
    x = c->with & TWICE ? double_pixels(&b, x) : x;
    int y = build_convolution(&b, x, w, c->stride, low, high, 1, DT_F32);
    if (c->with & BIAS) {
        int bias = build_parameter(&b, ROLE_INPUT, "bias", SHAPE(DT_F32, c->outputs), NULL);
        y = build_binary(&b, OP_ADD, y, build_broadcast_trailing(&b, bias, y));
    }
    if (c->with & RESIDUAL) {
        struct shape s = shape_with_dtype(*builder_shape(&b, y), c->out);
        int r = build_convert(&b, build_parameter(&b, ROLE_INPUT, "residual", s, NULL), DT_F32);
        y = build_binary(&b, OP_ADD, first ? r : y, first ? y : r);
    }
    build_result(&b, "y", build_convert(&b, y, c->out));
    struct error err = {0};
    if (!CHECK_INT(builder_finish(&b, &err), 0))
        printf("  %s: %s\n", err.where, err.message);
}

static const struct convolution_case cases[] = {
    {"3x3", 1, 20, 24, 32, 48, {3, 3}, {1, 1}, 1, 1, DT_BF16, DT_BF16, BIAS},
    {"3x3 and residual", 2, 16, 8, 32, 32, {3, 3}, {1, 1}, 1, 1, DT_BF16, DT_BF16, BIAS | RESIDUAL | RESIDUAL_FIRST},
    {"residual behind", 1, 9, 7, 16, 16, {3, 3}, {1, 1}, 1, 1, DT_BF16, DT_BF16, BIAS | RESIDUAL},
    {"residual without bias", 1, 9, 7, 16, 16, {3, 3}, {1, 1}, 1, 1, DT_BF16, DT_F32, RESIDUAL | RESIDUAL_FIRST},
    {"1x1", 1, 20, 24, 64, 32, {1, 1}, {1, 1}, 0, 0, DT_BF16, DT_BF16, BIAS},
    {"stride 2, zeros behind", 1, 16, 16, 32, 32, {3, 3}, {2, 2}, 0, 1, DT_BF16, DT_BF16, BIAS},
    {"few channels in", 1, 16, 16, 3, 32, {3, 3}, {1, 1}, 1, 1, DT_BF16, DT_BF16, BIAS},
    {"few channels out", 1, 16, 16, 32, 3, {3, 3}, {1, 1}, 1, 1, DT_BF16, DT_F32, BIAS},
    {"odd", 3, 5, 7, 5, 7, {3, 2}, {2, 1}, 1, 0, DT_BF16, DT_BF16, BIAS},
    {"one pixel", 1, 1, 1, 1, 1, {1, 1}, {1, 1}, 0, 0, DT_BF16, DT_F32, 0},
    {"f32", 1, 12, 12, 32, 24, {3, 3}, {1, 1}, 1, 1, DT_F32, DT_F32, BIAS | RESIDUAL | RESIDUAL_FIRST},
    {"f32 1x1 without bias", 1, 12, 12, 20, 24, {1, 1}, {1, 1}, 0, 0, DT_F32, DT_F32, 0},
    {"no images", 0, 8, 8, 4, 4, {3, 3}, {1, 1}, 1, 1, DT_BF16, DT_BF16, BIAS},
    {"no windows", 1, 2, 8, 4, 4, {3, 3}, {1, 1}, 0, 0, DT_BF16, DT_BF16, BIAS},
    {"doubled", 1, 12, 10, 32, 48, {3, 3}, {1, 1}, 1, 1, DT_BF16, DT_BF16, TWICE | BIAS},
    {"doubled images", 3, 5, 7, 6, 5, {3, 3}, {1, 1}, 1, 1, DT_BF16, DT_F32, TWICE},
    {"doubled, f32", 2, 9, 4, 16, 24, {3, 3}, {1, 1}, 1, 1, DT_F32, DT_F32, TWICE | BIAS},
    {"one doubled pixel", 1, 1, 1, 3, 2, {3, 3}, {1, 1}, 1, 1, DT_F32, DT_F32, TWICE | BIAS},
    {"doubled and residual", 1, 6, 6, 8, 8, {3, 3}, {1, 1}, 1, 1, DT_BF16, DT_BF16, TWICE | RESIDUAL},
    {"doubled, other zeros", 1, 6, 6, 8, 8, {3, 3}, {1, 1}, 0, 1, DT_BF16, DT_BF16, TWICE | BIAS},
    {"doubled, stride 2", 1, 6, 6, 8, 8, {3, 3}, {2, 2}, 1, 1, DT_BF16, DT_BF16, TWICE | BIAS},
};

// f32 sums of up to 300 terms; 2^-9 of each element where it is rounded to bf16, and of each kernel value where those
// of doubled pixels are added up.
static double bound(const struct convolution_case *c)
{
    double terms = (double)(c->inputs * c->window[0] * c->window[1]);
    double folded = c->with & TWICE && c->type == DT_BF16 ? 0x1p-9 : 0;
    return (c->out == DT_BF16 ? 0x1p-9 : 0x1p-23) + folded + terms * 0x1p-24;
}

TEST(kernels_convolution_agrees_plugin)
{
    struct rig r;
    if (!kernels_rig_open(&r))
        return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct convolution_case *c = &cases[i];
        struct kernels_trial trial;
        kernels_trial_begin(&trial, c->name);
        build(&trial.m, c);
        bool ok = kernels_run(&r, &trial.m, NULL, (int)i + 1, &trial.k);
        ok = ok && CHECK_INT(trial.k.chosen.count[KERNEL_CONVOLUTION], 1) && CHECK(trial.k.flop[0] == trial.k.flop[1]);
        if (ok && trial.k.n)
            ok = CHECK(kernels_off(&trial.k) <= bound(c)) && CHECK(kernels_plain_off(&trial.k) <= bound(c));
        kernels_trial_end(&trial, "", ok, bound(c));
    }
    rig_close(&r);
}

// The call takes the pixels as they were before they were doubled, where all of the image is made of such and the
// window sees one more on each side; its cost stays that of the convolution it stands for.
TEST(kernels_convolution_of_doubled_pixels_takes_them_single)
{
    int seen = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct convolution_case *c = &cases[i];
        struct arena arena;
        struct module m, called;
        struct kernels_chosen chosen;
        struct error err = {0};
        arena_init(&arena);
        module_init(&m, &arena, c->name);
        module_init(&called, &arena, "called");
        build(&m, c);
        CHECK_INT(kernels_choose(&m, 0, &called, &chosen, &err), 0);
        bool single = c->with & TWICE && !(c->with & RESIDUAL) && c->low == 1 && c->stride[0] == 1;
        for (int k = 0; k < called.n_instructions; k++) {
            const struct instruction *in = &called.instructions[k];
            if (in->op != OP_KERNEL)
                continue;
            int64_t rows = called.instructions[in->operands[0]].shape.dims[1];
            CHECK_INT(rows, c->rows * (c->with & TWICE && !single ? 2 : 1));
            seen += single;
        }
        arena_release(&arena);
    }
    CHECK_INT(seen, 4);
}

// A NaN reaches the windows it is in and no others.
TEST(kernels_convolution_propagates_nan_plugin)
{
    struct rig r;
    if (!kernels_rig_open(&r))
        return;
    const struct convolution_case c = {"nan", 1, 8, 8, 16, 16, {3, 3}, {1, 1}, 1, 1, DT_BF16, DT_BF16, 0};
    static uint16_t x[8 * 8 * 16], w[16 * 16 * 9];
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = bf16_from_f32((float)(i % 7) - 3);
    for (size_t i = 0; i < sizeof w / sizeof *w; i++)
        w[i] = bf16_from_f32((float)(i % 5) + 1);
    x[(2 * 8 + 3) * 16 + 5] = 0x7fc0;
    struct kernels_trial trial;
    kernels_trial_begin(&trial, c.name);
    build(&trial.m, &c);
    if (kernels_run(&r, &trial.m, (const void *const[]){x, w}, 0, &trial.k)) {
        for (int row = 0; row < 8; row++) {
            for (int column = 0; column < 8; column++) {
                bool near = abs(row - 2) <= 1 && abs(column - 3) <= 1;
                CHECK(isnan(trial.k.kernels64[(row * 8 + column) * 16 + 4]) == near);
            }
        }
    }
    kernels_trial_end(&trial, "", true, 0);
    rig_close(&r);
}
