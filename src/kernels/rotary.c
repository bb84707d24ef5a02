// SPDX-License-Identifier: Apache-2.0
// assay.rotary: out [batch, tokens, heads, dim] = columns of x, head by head normalised and rotated by position.
//   operands    x [batch, tokens, columns]; cosine and sine, f32 [tokens, dim / 2]; with the attribute norm = 1 a
//   weight,
//               f32 [dim]
//   attributes  column: the first; norm; eps, f64; rounded: 1 when what is normalised is rounded to out's type before
//               it is rotated; pairs: 1 when a feature turns with its neighbour, 0: with the one half of dim away
//   types       x and out bf16 or f32
// x / sqrt(mean of x^2 + eps) * weight, then a cos - z sin and z cos + a sin of two features a and z: in f32.
#include <string.h>

#include "kernels/handlers.h"
#include "kernels/onednn.h"
#include "kernels/rows.h"
#include "kernels/team.h"

struct rotary {
    struct rotary_rule rule;
    int64_t rows, tokens, columns, column, heads;
    const char *x;
    const float *cosine, *sine;
    char *out;
    struct row_loops loops;
};

// A token's tables, an entry for each feature: with the sign that its partner has.
static void spread_tables(const struct rotary *r, int64_t token, float *cosine, float *sine)
{
    int64_t half = r->rule.dim / 2;
    for (int64_t i = 0; i < half; i++) {
        float c = r->cosine[token * half + i], s = r->sine[token * half + i];
        int64_t a = r->rule.pairs ? 2 * i : i, z = r->rule.pairs ? 2 * i + 1 : i + half;
        cosine[a] = cosine[z] = c;
        sine[a] = -s;
        sine[z] = s;
    }
}

static void turn_rows(void *context, size_t from, size_t to)
{
    const struct rotary *r = context;
    float cosine[ROTARY_MOST_DIM] = {0}, sine[ROTARY_MOST_DIM] = {0};
    int64_t dim = r->rule.dim, x = frame_width(r->rule.x), out = frame_width(r->rule.out);
    for (int64_t row = (int64_t)from; row < (int64_t)to; row++) {
        spread_tables(r, row % r->tokens, cosine, sine);
        for (int64_t h = 0; h < r->heads; h++)
            r->loops.rotary(&r->rule, cosine, sine, r->x + (row * r->columns + r->column + h * dim) * x,
                            r->out + (row * r->heads + h) * dim * out);
    }
}

static int run_rotary(void *context, struct threads *pool, struct error *err)
{
    struct rotary *r = context;
    (void)err;
    r->loops = row_loops();
    onednn_for(pool, (size_t)r->rows, 8, turn_rows, r);
    return 0;
}

static bool is_table(const struct tensor *t, int64_t rows, int64_t columns)
{
    return t->shape.dtype == DT_F32 && shape_elements(&t->shape) == rows * columns;
}

static int open_rotary(void *kernel, const struct frame *f, struct error *err)
{
    struct rotary *r = kernel;
    const struct shape *x = &f->args[0].shape, *out = &f->result.shape;
    bool norm = frame_integer(f, "norm", 0) != 0;
    memset(r, 0, sizeof *r);
    bool fits = x->rank == 3 && out->rank == 4 && frame_is_float(x->dtype) && frame_is_float(out->dtype) &&
                x->dims[0] == out->dims[0] && x->dims[1] == out->dims[1] && f->n_args == (norm ? 4 : 3);
    if (fits) {
        r->tokens = out->dims[1], r->heads = out->dims[2], r->columns = x->dims[2];
        r->column = frame_integer(f, "column", -1);
        r->rows = out->dims[0] * out->dims[1];
        r->rule = (struct rotary_rule){.dim = out->dims[3],
                                       .weight = norm ? f->args[3].data : NULL,
                                       .eps = (float)frame_real(f, "eps", 0),
                                       .pairs = frame_integer(f, "pairs", 0) != 0,
                                       .x = x->dtype,
                                       .between = frame_integer(f, "rounded", 0) ? out->dtype : DT_F32,
                                       .out = out->dtype};
        r->x = f->args[0].data, r->cosine = f->args[1].data, r->sine = f->args[2].data, r->out = f->result.data;
        int64_t dim = r->rule.dim;
        fits = dim >= 2 && dim % 2 == 0 && dim <= ROTARY_MOST_DIM && r->column >= 0 &&
               r->heads <= (r->columns - r->column) / dim && is_table(&f->args[1], r->tokens, dim / 2) &&
               is_table(&f->args[2], r->tokens, dim / 2) && (!norm || is_table(&f->args[3], 1, dim));
    }
    return fits ? 0 : error_set(err, ERR_INTERNAL, "rotary", "its operands do not fit each other");
}

XLA_FFI_Error *kernel_rotary(XLA_FFI_CallFrame *call)
{
    static const struct frame_work work = {"kernel: rotary", 3, 4, open_rotary, run_rotary};
    struct rotary r;
    return frame_run(call, &work, &r);
}
