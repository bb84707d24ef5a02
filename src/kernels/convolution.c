// SPDX-License-Identifier: Apache-2.0
// assay.convolution: two spatial dimensions, one group, as OP_CONVOLUTION has it (images [batch, rows, columns,
// channels], kernel as checkpoints store it), and what often stands behind it.
//   operands    x; kernel; with bit 1 of the attribute `adds` a bias per output, f32; with bit 2 a residual of the
//               result's shape, bf16 or f32
//   attributes  stride_0, stride_1, low_0, low_1, high_0, high_1: rows, then columns
//   types       x and kernel bf16 or f32 alike; out bf16 or f32
// Sums are f32; bias, then residual, are added in f32, and the whole is rounded once.
#include <string.h>

#include "kernels/handlers.h"
#include "kernels/onednn.h"
#include "kernels/team.h"

#define ADD_BIAS     1
#define ADD_RESIDUAL 2

struct convolution {
    struct onednn_convolution c;
    const void *x, *w, *bias, *residual;
    void *out;
};

static int run_convolution(void *context, struct threads *pool, struct error *err)
{
    const struct convolution *c = context;
    (void)pool;
    return onednn_convolve(&c->c, c->x, c->w, c->bias, c->residual, c->out, err);
}

static bool is_float(enum dtype t)
{
    return t == DT_BF16 || t == DT_F32;
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

static int open_convolution(struct convolution *c, const struct frame *f, struct error *err)
{
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
        fits = window_fits(&c->c, 0) && window_fits(&c->c, 1) && is_float(x->dtype) && w->dtype == x->dtype &&
               is_float(out->dtype) && w->dims[0] == out->dims[3] && w->dims[1] == x->dims[3] &&
               out->dims[0] == x->dims[0] && f->n_args == 2 + (adds & ADD_BIAS ? 1 : 0) + (adds & ADD_RESIDUAL ? 1 : 0);
    }
    if (fits && adds & ADD_BIAS) {
        const struct tensor *b = &f->args[at++];
        fits = b->shape.dtype == DT_F32 && shape_elements(&b->shape) == c->c.outputs;
        c->bias = b->data;
    }
    if (fits && adds & ADD_RESIDUAL) {
        const struct tensor *r = &f->args[at];
        fits = is_float(r->shape.dtype) && shape_same_dims(&r->shape, out);
        c->c.residual = r->shape.dtype;
        c->residual = r->data;
    }
    return fits ? 0 : error_set(err, ERR_INTERNAL, "convolution", "its operands do not fit each other");
}

XLA_FFI_Error *kernel_convolution(XLA_FFI_CallFrame *call)
{
    struct frame f;
    struct convolution c;
    struct error err = {0};
    if (frame_is_query(call))
        return NULL;
    int rc = frame_open(&f, call, 2, 4, &err);
    if (!rc)
        rc = open_convolution(&c, &f, &err);
    if (!rc && shape_elements(&f.result.shape) && c.c.inputs == 0)
        rc = error_set(&err, ERR_INTERNAL, "convolution", "there is nothing to sum");
    else if (!rc && shape_elements(&f.result.shape))
        rc = team_run("kernel: convolution", run_convolution, &c, &err);
    return frame_close(call, rc, &err);
}
