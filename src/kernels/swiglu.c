// SPDX-License-Identifier: Apache-2.0
// assay.swiglu: out [..., m + n] = what stands before [..., m], then silu(x[..., gate..gate+n]) * x[..., up..up+n].
//   operands    x [..., columns]; with the attribute before = 1 what stands before, of out's type
//   attributes  gate, up: the first column of each; before
//   types       x and out bf16 or f32
// Computed in f32, rounded once.
#include <string.h>

#include "kernels/handlers.h"
#include "kernels/onednn.h"
#include "kernels/rows.h"
#include "kernels/team.h"

struct swiglu {
    int64_t rows, columns, before, n, gate, up;
    enum dtype x_type, out_type;
    const char *x, *first;
    char *out;
    struct row_loops loops;
};

static void make_rows(void *context, size_t from, size_t to)
{
    const struct swiglu *s = context;
    int64_t x = frame_width(s->x_type), out = frame_width(s->out_type), first = s->before * out;
    for (int64_t row = (int64_t)from; row < (int64_t)to; row++) {
        const char *src = s->x + row * s->columns * x;
        char *dst = s->out + row * (s->before + s->n) * out;
        if (first)
            memcpy(dst, s->first + row * first, (size_t)first);
        s->loops.swiglu(src + s->gate * x, src + s->up * x, s->x_type, s->n, dst + first, s->out_type);
    }
}

static int run_swiglu(void *context, struct threads *pool, struct error *err)
{
    struct swiglu *s = context;
    (void)err;
    s->loops = row_loops();
    onednn_for(pool, (size_t)s->rows, 8, make_rows, s);
    return 0;
}

static int open_swiglu(void *kernel, const struct frame *f, struct error *err)
{
    struct swiglu *s = kernel;
    const struct shape *x = &f->args[0].shape, *out = &f->result.shape;
    int64_t before = frame_integer(f, "before", 0);
    memset(s, 0, sizeof *s);
    bool fits = x->rank >= 1 && out->rank == x->rank && frame_is_float(x->dtype) && frame_is_float(out->dtype) &&
                f->n_args == (before ? 2 : 1);
    for (int d = 0; fits && d < x->rank - 1; d++)
        fits = x->dims[d] == out->dims[d];
    if (fits && before) {
        const struct shape *first = &f->args[1].shape;
        s->before = first->rank == x->rank ? first->dims[x->rank - 1] : -1;
        s->first = f->args[1].data;
        fits = first->dtype == out->dtype && s->before > 0 &&
               shape_elements(first) * out->dims[x->rank - 1] == shape_elements(out) * s->before;
    }
    if (fits) {
        s->columns = x->dims[x->rank - 1];
        s->n = out->dims[x->rank - 1] - s->before;
        s->gate = frame_integer(f, "gate", -1), s->up = frame_integer(f, "up", -1);
        s->x_type = x->dtype, s->out_type = out->dtype;
        s->x = f->args[0].data, s->out = f->result.data;
        fits = s->n > 0 && s->gate >= 0 && s->up >= 0 && s->gate <= s->columns - s->n && s->up <= s->columns - s->n;
        s->rows = fits ? shape_elements(x) / s->columns : 0;
    }
    return fits ? 0 : error_set(err, ERR_INTERNAL, "swiglu", "its operands do not fit each other");
}

XLA_FFI_Error *kernel_swiglu(XLA_FFI_CallFrame *call)
{
    static const struct frame_work work = {"kernel: swiglu", 1, 2, open_swiglu, run_swiglu};
    struct swiglu s;
    return frame_run(call, &work, &s);
}
