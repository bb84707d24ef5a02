// SPDX-License-Identifier: Apache-2.0
// assay.layer_norm: out [batch, tokens, n] = (x - mean) / sqrt(variance + eps) * scale + shift, over the last
// dimension.
//   operands    x [batch, tokens, n]; scale and shift, f32 [n] or [batch, n]
//   attributes  eps, f64; rounded: 1 when what is normalised is rounded to out's type before it is scaled
//   types       x and out bf16 or f32
// Computed in f32; a row is read from memory once.
#include <string.h>

#include "kernels/handlers.h"
#include "kernels/onednn.h"
#include "kernels/rows.h"
#include "kernels/team.h"

struct layer_norm {
    int64_t rows, tokens;
    int64_t apart[2]; // values between the vectors of two images, 0 where all share one
    struct layer_norm_rule rule;
    const float *vectors[2]; // scale, shift
    const char *x;
    char *out;
    struct row_loops loops;
};

static void normalise_rows(void *context, size_t from, size_t to)
{
    const struct layer_norm *l = context;
    int64_t x = l->rule.n * frame_width(l->rule.x), out = l->rule.n * frame_width(l->rule.out);
    for (int64_t row = (int64_t)from; row < (int64_t)to; row++) {
        int64_t image = row / l->tokens;
        l->loops.layer_norm(&l->rule, l->vectors[0] + image * l->apart[0], l->vectors[1] + image * l->apart[1],
                            l->x + row * x, l->out + row * out);
    }
}

static int run_layer_norm(void *context, struct threads *pool, struct error *err)
{
    struct layer_norm *l = context;
    (void)err;
    l->loops = row_loops();
    onednn_for(pool, (size_t)l->rows, 8, normalise_rows, l);
    return 0;
}

static int open_layer_norm(void *kernel, const struct frame *f, struct error *err)
{
    struct layer_norm *l = kernel;
    const struct shape *x = &f->args[0].shape, *out = &f->result.shape;
    memset(l, 0, sizeof *l);
    bool fits = x->rank == 3 && shape_same_dims(x, out) && frame_is_float(x->dtype) && frame_is_float(out->dtype);
    for (int i = 0; i < 2 && fits; i++) {
        const struct shape *v = &f->args[1 + i].shape;
        bool each = v->rank == 2 && v->dims[0] == x->dims[0];
        fits = v->dtype == DT_F32 && (each || v->rank == 1) && v->dims[v->rank - 1] == x->dims[2];
        l->vectors[i] = f->args[1 + i].data;
        l->apart[i] = each ? x->dims[2] : 0;
    }
    if (!fits)
        return error_set(err, ERR_INTERNAL, "layer_norm", "its operands do not fit each other");
    l->tokens = x->dims[1];
    l->rows = x->dims[0] * x->dims[1];
    l->rule = (struct layer_norm_rule){.n = x->dims[2],
                                       .eps = (float)frame_real(f, "eps", 0),
                                       .x = x->dtype,
                                       .between = frame_integer(f, "rounded", 0) ? out->dtype : DT_F32,
                                       .out = out->dtype};
    l->x = f->args[0].data, l->out = f->result.data;
    return 0;
}

XLA_FFI_Error *kernel_layer_norm(XLA_FFI_CallFrame *call)
{
    static const struct frame_work work = {"kernel: layer norm", 3, 3, open_layer_norm, run_layer_norm};
    struct layer_norm l;
    return frame_run(call, &work, &l);
}
