// SPDX-License-Identifier: Apache-2.0
// assay.convolution: two spatial dimensions, one group, as OP_CONVOLUTION has it (images [batch, rows, columns,
// channels], kernel as checkpoints store it), and what often stands behind it.
//   operands    x; kernel; with bit 1 of the attribute `adds` a bias per output, f32; with bit 2 a residual of the
//               result's shape, bf16 or f32
//   attributes  stride_0, stride_1, low_0, low_1, high_0, high_1: rows, then columns; twice: 1 when every pixel of x
//               stands for two by two of the image
//   types       x and kernel bf16 or f32 alike; out bf16 or f32
// Sums are f32; bias, then residual, are added in f32, and the whole is rounded once.
//
// Of an image of doubled pixels a 3x3 window sees 2x2 pixels of x. So each of the four outputs that a pixel of x leads
// to is a 2x2 convolution of x, whose kernel adds up the taps that see the same pixel, in f32, and rounds them to the
// kernel's type: 4 products in place of 9, and the doubled image is never made.
#include <string.h>

#include "kernels/handlers.h"
#include "kernels/onednn.h"
#include "kernels/team.h"
#include "num/convert.h"

#define ADD_BIAS     1
#define ADD_RESIDUAL 2
#define FOLDED       64 // kernels at once

struct convolution {
    struct onednn_convolution c;
    const void *x, *w, *bias, *residual;
    void *out;
    bool twice;
    // Of doubled pixels: the image and the output of each four at hand.
    char *image;
    int row, column;
    void *folded; // kernel [outputs, inputs, 2, 2]
    char *part;   // outputs [rows of x, columns of x, outputs]
};

// ---- doubled pixels

// Kernels from..to, one per output and input. The first output of two sees its own pixel with taps 1 and 2 and the one
// before with tap 0, the second its own with taps 0 and 1 and the one behind with tap 2.
static void fold_kernels(void *context, size_t from, size_t to)
{
    const struct convolution *c = context;
    float taps[9 * FOLDED], sums[4 * FOLDED];
    for (size_t first = from, n; first < to; first += n) {
        n = to - first < FOLDED ? to - first : FOLDED;
        convert_elements(DT_F32, taps, c->c.x, (const char *)c->w + 9 * first * (size_t)frame_width(c->c.x), 9 * n,
                         NULL);
        memset(sums, 0, sizeof sums);
        for (size_t i = 0; i < 9 * n; i++) {
            int t = (int)(i % 9);
            sums[4 * (i / 9) + (size_t)(2 * (t / 3 > c->row) + (t % 3 > c->column))] += taps[i];
        }
        convert_elements(c->c.x, (char *)c->folded + 4 * first * (size_t)frame_width(c->c.x), DT_F32, sums, 4 * n,
                         NULL);
    }
}

// Rows from..to of a part to their places in the image.
static void spread_rows(void *context, size_t from, size_t to)
{
    const struct convolution *c = context;
    size_t columns = (size_t)c->c.in[1], pixel = (size_t)c->c.outputs * (size_t)frame_width(c->c.out_type);
    for (size_t row = from; row < to; row++) {
        const char *src = c->part + row * columns * pixel;
        char *dst = c->image + ((2 * row + (size_t)c->row) * 2 * columns + (size_t)c->column) * pixel;
        for (size_t i = 0; i < columns; i++)
            memcpy(dst + 2 * i * pixel, src + i * pixel, pixel);
    }
}

// The output of each four that lies at (c->row, c->column).
static int run_part(struct convolution *c, const void *x, struct threads *pool, struct error *err)
{
    struct onednn_convolution p = c->c;
    p.batch = 1;
    p.low[0] = 1 - c->row, p.high[0] = c->row;
    p.low[1] = 1 - c->column, p.high[1] = c->column;
    for (int i = 0; i < 2; i++)
        p.out[i] = p.in[i], p.window[i] = 2;
    onednn_for(pool, (size_t)(p.outputs * p.inputs), 16 * FOLDED, fold_kernels, c);
    int rc = onednn_convolve(&p, x, c->folded, c->bias, NULL, c->part, err);
    if (!rc)
        onednn_for(pool, (size_t)p.in[0], 1, spread_rows, c);
    return rc;
}

static int run_twice(struct convolution *c, struct threads *pool, struct error *err)
{
    int64_t pixels = c->c.in[0] * c->c.in[1];
    size_t x = (size_t)(pixels * c->c.inputs) * (size_t)frame_width(c->c.x),
           part = (size_t)(pixels * c->c.outputs) * (size_t)frame_width(c->c.out_type),
           folded = (size_t)(4 * c->c.outputs * c->c.inputs) * (size_t)frame_width(c->c.x);
    void *room;
    int rc = onednn_room((part + 63) / 64 * 64 + folded, &room, err);
    c->part = room;
    c->folded = rc ? NULL : c->part + (part + 63) / 64 * 64;
    for (int64_t i = 0; i < c->c.batch && !rc; i++) {
        c->image = (char *)c->out + (size_t)i * 4 * part;
        for (int k = 0; k < 4 && !rc; k++) {
            c->row = k / 2, c->column = k % 2;
            rc = run_part(c, (const char *)c->x + (size_t)i * x, pool, err);
        }
    }
    return rc;
}

// ---- the call

static int run_convolution(void *context, struct threads *pool, struct error *err)
{
    struct convolution *c = context;
    if (c->c.inputs == 0)
        return error_set(err, ERR_INTERNAL, "convolution", "there is nothing to sum");
    if (c->twice)
        return run_twice(c, pool, err);
    return onednn_convolve(&c->c, c->x, c->w, c->bias, c->residual, c->out, err);
}

static void read_window(struct onednn_convolution *c, const struct frame *f, int i)
{
    static const char *const names[3][2] = {{"stride_0", "stride_1"}, {"low_0", "low_1"}, {"high_0", "high_1"}};
    c->in[i] = f->args[0].shape.dims[i + 1];
    c->out[i] = f->result.shape.dims[i + 1];
    c->window[i] = f->args[1].shape.dims[i + 2];
    c->stride[i] = frame_integer(f, names[0][i], 1);
    c->low[i] = frame_integer(f, names[1][i], 0);
    c->high[i] = frame_integer(f, names[2][i], 0);
}

static bool window_fits(const struct onednn_convolution *c, int i)
{
    return c->stride[i] > 0 && c->low[i] >= 0 && c->high[i] >= 0 && c->window[i] > 0 &&
           c->in[i] + c->low[i] + c->high[i] >= c->window[i] &&
           c->out[i] == (c->in[i] + c->low[i] + c->high[i] - c->window[i]) / c->stride[i] + 1;
}

static bool is_doubled(const struct onednn_convolution *c, int i)
{
    return c->stride[i] == 1 && c->low[i] == 1 && c->high[i] == 1 && c->window[i] == 3 && c->in[i] > 0 &&
           c->out[i] == 2 * c->in[i];
}

static int open_convolution(void *kernel, const struct frame *f, struct error *err)
{
    struct convolution *c = kernel;
    const struct shape *x = &f->args[0].shape, *w = &f->args[1].shape, *out = &f->result.shape;
    int64_t adds = frame_integer(f, "adds", 0);
    int at = 2;
    memset(c, 0, sizeof *c);
    bool fits = x->rank == 4 && w->rank == 4 && out->rank == 4;
    if (fits) {
        c->c.batch = x->dims[0], c->c.inputs = x->dims[3], c->c.outputs = out->dims[3];
        c->c.x = x->dtype, c->c.out_type = out->dtype, c->c.bias = adds & ADD_BIAS;
        for (int i = 0; i < 2; i++)
            read_window(&c->c, f, i);
        c->x = f->args[0].data, c->w = f->args[1].data, c->out = f->result.data;
        c->twice = frame_integer(f, "twice", 0) != 0;
        fits = c->twice ? is_doubled(&c->c, 0) && is_doubled(&c->c, 1) && !(adds & ADD_RESIDUAL)
                        : window_fits(&c->c, 0) && window_fits(&c->c, 1);
        fits = fits && frame_is_float(x->dtype) && w->dtype == x->dtype && frame_is_float(out->dtype) &&
               w->dims[0] == out->dims[3] && w->dims[1] == x->dims[3] && out->dims[0] == x->dims[0] &&
               f->n_args == 2 + (adds & ADD_BIAS ? 1 : 0) + (adds & ADD_RESIDUAL ? 1 : 0);
    }
    if (fits && adds & ADD_BIAS) {
        const struct tensor *b = &f->args[at++];
        fits = b->shape.dtype == DT_F32 && shape_elements(&b->shape) == c->c.outputs;
        c->bias = b->data;
    }
    if (fits && adds & ADD_RESIDUAL) {
        const struct tensor *r = &f->args[at];
        fits = frame_is_float(r->shape.dtype) && shape_same_dims(&r->shape, out);
        c->c.residual = r->shape.dtype;
        c->residual = r->data;
    }
    return fits ? 0 : error_set(err, ERR_INTERNAL, "convolution", "its operands do not fit each other");
}

XLA_FFI_Error *kernel_convolution(XLA_FFI_CallFrame *call)
{
    static const struct frame_work work = {"kernel: convolution", 2, 4, open_convolution, run_convolution};
    struct convolution c;
    return frame_run(call, &work, &c);
}
