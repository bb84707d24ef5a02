// SPDX-License-Identifier: Apache-2.0
// Convolutions as calls of oneDNN, against XLA's own and against f64.
#include <stdlib.h>

#include "kernels_test.h"
#include "num/convert.h"

struct convolution_case {
    const char *name;
    int64_t batch, rows, columns, inputs, outputs, window[2], stride[2], low, high;
    enum dtype type, out;
    bool bias, residual, residual_first;
};

static void build(struct module *m, const struct convolution_case *c)
{
    struct builder b;
    builder_init(&b, m);
    builder_scope(&b, "conv", "conv");
    int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(c->type, c->batch, c->rows, c->columns, c->inputs), NULL);
    int w =
        build_parameter(&b, ROLE_INPUT, "w", SHAPE(c->type, c->outputs, c->inputs, c->window[0], c->window[1]), NULL);
    const int64_t low[2] = {c->low, c->low}, high[2] = {c->high, c->high};
    int y = build_convolution(&b, x, w, c->stride, low, high, 1, DT_F32);
    if (c->bias) {
        int bias = build_parameter(&b, ROLE_INPUT, "bias", SHAPE(DT_F32, c->outputs), NULL);
        y = build_binary(&b, OP_ADD, y, build_broadcast_trailing(&b, bias, y));
    }
    if (c->residual) {
        struct shape s = shape_with_dtype(*builder_shape(&b, y), c->out);
        int r = build_convert(&b, build_parameter(&b, ROLE_INPUT, "residual", s, NULL), DT_F32);
        y = build_binary(&b, OP_ADD, c->residual_first ? r : y, c->residual_first ? y : r);
    }
    build_result(&b, "y", build_convert(&b, y, c->out));
    struct error err = {0};
    if (!CHECK_INT(builder_finish(&b, &err), 0))
        printf("  %s: %s\n", err.where, err.message);
}

static const struct convolution_case cases[] = {
    {"3x3", 1, 20, 24, 32, 48, {3, 3}, {1, 1}, 1, 1, DT_BF16, DT_BF16, true, false, false},
    {"3x3 and residual", 2, 16, 8, 32, 32, {3, 3}, {1, 1}, 1, 1, DT_BF16, DT_BF16, true, true, true},
    {"residual behind", 1, 9, 7, 16, 16, {3, 3}, {1, 1}, 1, 1, DT_BF16, DT_BF16, true, true, false},
    {"residual without bias", 1, 9, 7, 16, 16, {3, 3}, {1, 1}, 1, 1, DT_BF16, DT_F32, false, true, true},
    {"1x1", 1, 20, 24, 64, 32, {1, 1}, {1, 1}, 0, 0, DT_BF16, DT_BF16, true, false, false},
    {"stride 2, zeros behind", 1, 16, 16, 32, 32, {3, 3}, {2, 2}, 0, 1, DT_BF16, DT_BF16, true, false, false},
    {"few channels in", 1, 16, 16, 3, 32, {3, 3}, {1, 1}, 1, 1, DT_BF16, DT_BF16, true, false, false},
    {"few channels out", 1, 16, 16, 32, 3, {3, 3}, {1, 1}, 1, 1, DT_BF16, DT_F32, true, false, false},
    {"odd", 3, 5, 7, 5, 7, {3, 2}, {2, 1}, 1, 0, DT_BF16, DT_BF16, true, false, false},
    {"one pixel", 1, 1, 1, 1, 1, {1, 1}, {1, 1}, 0, 0, DT_BF16, DT_F32, false, false, false},
    {"f32", 1, 12, 12, 32, 24, {3, 3}, {1, 1}, 1, 1, DT_F32, DT_F32, true, true, true},
    {"f32 1x1 without bias", 1, 12, 12, 20, 24, {1, 1}, {1, 1}, 0, 0, DT_F32, DT_F32, false, false, false},
    {"no images", 0, 8, 8, 4, 4, {3, 3}, {1, 1}, 1, 1, DT_BF16, DT_BF16, true, false, false},
    {"no windows", 1, 2, 8, 4, 4, {3, 3}, {1, 1}, 0, 0, DT_BF16, DT_BF16, true, false, false},
};

// f32 sums of up to 300 terms; 2^-9 of each element where it is rounded to bf16.
static double bound(const struct convolution_case *c)
{
    double terms = (double)(c->inputs * c->window[0] * c->window[1]);
    return (c->out == DT_BF16 ? 0x1p-9 : 0x1p-23) + terms * 0x1p-24;
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

// A NaN reaches the windows it is in and no others.
TEST(kernels_convolution_propagates_nan_plugin)
{
    struct rig r;
    if (!kernels_rig_open(&r))
        return;
    const struct convolution_case c = {"nan", 1, 8,       8,       16,    16,    {3, 3}, {1, 1},
                                       1,     1, DT_BF16, DT_BF16, false, false, false};
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
