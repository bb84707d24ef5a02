// SPDX-License-Identifier: Apache-2.0
// assay.group_norm: (x - mean) / sqrt(variance + eps) * gamma + beta, over all pixels and the channels of a group, and
// silu of it.
//   operands    x [batch, rows, columns, channels]; gamma and beta, f32 [channels]
//   attributes  groups; eps, f64; silu: 1 or 0
//   types       x and out bf16 or f32
// The image is read twice: for means and squares, which are f32 over 256 pixels and put together in double, so that
// they do not depend on the number of threads; and to be written.
#include <math.h>
#include <string.h>

#include "kernels/handlers.h"
#include "kernels/norm.h"
#include "kernels/onednn.h"
#include "kernels/team.h"

#define BLOCK 256 // pixels

struct group_norm {
    int64_t batch, pixels, groups;
    struct norm_rule rule;
    const char *x;
    char *out;
    const float *gamma, *beta;
    double eps;
    // Of the image at hand:
    struct norm_loops loops;
    const char *from;
    char *to;
    float *means, *squares; // [blocks, channels]
    float *values;          // scale and shift, per channel
};

static int64_t pixels_of(const struct group_norm *g, size_t block)
{
    int64_t left = g->pixels - (int64_t)block * BLOCK;
    return left < BLOCK ? left : BLOCK;
}

static void measure_blocks(void *context, size_t from, size_t to)
{
    const struct group_norm *g = context;
    int64_t row = g->rule.channels;
    for (size_t i = from; i < to; i++)
        g->loops.moments(g->from + (int64_t)i * BLOCK * row * frame_width(g->rule.x), g->rule.x, pixels_of(g, i), row,
                         g->means + (int64_t)i * row, g->squares + (int64_t)i * row);
}

static void apply_blocks(void *context, size_t from, size_t to)
{
    const struct group_norm *g = context;
    int64_t row = g->rule.channels;
    for (size_t i = from; i < to; i++) {
        int64_t at = (int64_t)i * BLOCK * row;
        g->loops.apply(&g->rule, g->from + at * frame_width(g->rule.x), g->to + at * frame_width(g->rule.y),
                       pixels_of(g, i));
    }
}

// Mean and variance of a group from those of its blocks and channels.
static void measure_group(const struct group_norm *g, int64_t group, int64_t blocks, double *mean, double *variance)
{
    int64_t row = g->rule.channels, wide = row / g->groups;
    double sum = 0, squares = 0, n = (double)g->pixels * (double)wide;
    for (int64_t b = 0; b < blocks; b++) {
        for (int64_t c = group * wide; c < (group + 1) * wide; c++)
            sum += (double)g->means[b * row + c] * (double)pixels_of(g, (size_t)b);
    }
    *mean = sum / n;
    for (int64_t b = 0; b < blocks; b++) {
        for (int64_t c = group * wide; c < (group + 1) * wide; c++) {
            double off = (double)g->means[b * row + c] - *mean;
            squares += (double)g->squares[b * row + c] + off * off * (double)pixels_of(g, (size_t)b);
        }
    }
    *variance = squares / n;
}

static void normalise_image(struct group_norm *g, struct threads *pool)
{
    int64_t row = g->rule.channels, wide = row / g->groups, blocks = (g->pixels + BLOCK - 1) / BLOCK;
    float *scale = g->values, *shift = scale + row;
    onednn_for(pool, (size_t)blocks, 1, measure_blocks, g);
    for (int64_t i = 0; i < g->groups; i++) {
        double mean, variance;
        measure_group(g, i, blocks, &mean, &variance);
        for (int64_t c = i * wide; c < (i + 1) * wide; c++) {
            double by = (double)g->gamma[c] / sqrt(variance + g->eps);
            scale[c] = (float)by;
            shift[c] = (float)((double)g->beta[c] - mean * by);
        }
    }
    g->rule.scale = scale, g->rule.shift = shift;
    onednn_for(pool, (size_t)blocks, 1, apply_blocks, g);
}

static int run_group_norm(void *context, struct threads *pool, struct error *err)
{
    struct group_norm *g = context;
    int64_t row = g->rule.channels, blocks = (g->pixels + BLOCK - 1) / BLOCK;
    void *room;
    int rc = onednn_room((size_t)((2 * blocks + 2) * row) * sizeof(float), &room, err);
    if (rc)
        return rc;
    g->values = room;
    g->means = g->values + 2 * row;
    g->squares = g->means + blocks * row;
    g->loops = norm_loops();
    for (int64_t i = 0; i < g->batch; i++) {
        g->from = g->x + i * g->pixels * row * frame_width(g->rule.x);
        g->to = g->out + i * g->pixels * row * frame_width(g->rule.y);
        normalise_image(g, pool);
    }
    return 0;
}

static int open_group_norm(void *kernel, const struct frame *f, struct error *err)
{
    struct group_norm *g = kernel;
    const struct shape *x = &f->args[0].shape;
    memset(g, 0, sizeof *g);
    g->groups = frame_integer(f, "groups", 0);
    g->eps = frame_real(f, "eps", -1);
    g->rule.silu = frame_integer(f, "silu", 0) != 0;
    g->rule.x = x->dtype, g->rule.y = f->result.shape.dtype;
    bool fits = x->rank == 4 && shape_same_dims(x, &f->result.shape) && frame_is_float(x->dtype) &&
                frame_is_float(g->rule.y) && g->groups > 0 && x->dims[3] % g->groups == 0 && g->eps >= 0;
    for (int i = 1; i < 3 && fits; i++)
        fits = f->args[i].shape.dtype == DT_F32 && shape_elements(&f->args[i].shape) == x->dims[3];
    if (!fits)
        return error_set(err, ERR_INTERNAL, "group_norm", "its operands do not fit each other");
    g->batch = x->dims[0], g->pixels = x->dims[1] * x->dims[2], g->rule.channels = x->dims[3];
    g->x = f->args[0].data, g->gamma = f->args[1].data, g->beta = f->args[2].data, g->out = f->result.data;
    return 0;
}

XLA_FFI_Error *kernel_group_norm(XLA_FFI_CallFrame *call)
{
    static const struct frame_work work = {"kernel: group norm", 3, 3, open_group_norm, run_group_norm};
    struct group_norm g;
    return frame_run(call, &work, &g);
}
