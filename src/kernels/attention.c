// SPDX-License-Identifier: Apache-2.0
// assay.attention: softmax(scale q k') v, head by head; the scores of some rows of one head at a time are in memory.
//   operands    q [batch, tokens, heads, dim]; k and v [batch, keys, kv heads, dim], where heads is a multiple of kv
//               heads and neighbours share one; and, of pred, which keys a token may see, [batch, tokens, keys]: a
//               score that it may not is replaced by the lowest number
//   attribute   scale, f64, above 0
//   types       q, k, v all bf16 or all f32; shares are rounded to that type; out [batch, tokens, heads * dim] bf16 or
//               f32
#include <float.h>
#include <string.h>

#include "kernels/flash.h"
#include "kernels/handlers.h"
#include "kernels/onednn.h"
#include "kernels/softmax.h"
#include "kernels/team.h"

#define SCORE_BYTES ((int64_t)8 << 20) // of a block of rows: what a third-level cache holds beside its operands

struct attention {
    int64_t batch, tokens, keys, heads, kv_heads, dim;
    enum dtype type, out_type;
    const char *q, *k, *v;
    const uint8_t *visible; // NULL: all
    char *out;
    float scale;
    // Of the block at hand:
    softmax_fn *softmax;
    float *scores;
    char *shares;
    int64_t image, first; // of the batch, and its first row
};

static void share_rows(void *context, size_t from, size_t to)
{
    const struct attention *a = context;
    for (size_t i = from; i < to; i++) {
        float *row = a->scores + i * (size_t)a->keys;
        if (a->visible) {
            const uint8_t *seen = a->visible + (a->image * a->tokens + a->first + (int64_t)i) * a->keys;
            for (int64_t j = 0; j < a->keys; j++) // scaled afterwards: the lowest must not overflow then
                row[j] = seen[j] ? row[j] : a->scale > 1 ? -FLT_MAX / a->scale : -FLT_MAX;
        }
        a->softmax(row, a->keys, a->scale, a->type, a->shares + (int64_t)i * a->keys * frame_width(a->type));
    }
}

// Rows first..first + n of one head.
static int attend(struct attention *a, int64_t head, int64_t n, struct threads *pool, struct error *err)
{
    int64_t row = a->heads * a->dim, kv_row = a->kv_heads * a->dim, of = head / (a->heads / a->kv_heads);
    int64_t place = (a->image * a->tokens + a->first) * row + head * a->dim;
    int64_t kv_place = a->image * a->keys * kv_row + of * a->dim;
    struct onednn_product scores = {.m = n,
                                    .k = a->dim,
                                    .n = a->keys,
                                    .x_stride = row,
                                    .w_stride = kv_row,
                                    .out_stride = a->keys,
                                    .x = a->type,
                                    .w = a->type,
                                    .out = DT_F32,
                                    .w_rows_are_outputs = true};
    struct onednn_product values = {.m = n,
                                    .k = a->keys,
                                    .n = a->dim,
                                    .x_stride = a->keys,
                                    .w_stride = kv_row,
                                    .out_stride = row,
                                    .x = a->type,
                                    .w = a->type,
                                    .out = a->out_type};
    int rc = onednn_product(&scores, a->q + place * frame_width(a->type), a->k + kv_place * frame_width(a->type),
                            a->scores, err);
    if (rc)
        return rc;
    onednn_for(pool, (size_t)n, 16, share_rows, a);
    return onednn_product(&values, a->shares, a->v + kv_place * frame_width(a->type),
                          a->out + place * frame_width(a->out_type), err);
}

static int run_attention(void *context, struct threads *pool, struct error *err)
{
    struct attention *a = context;
    const struct flash whole = {.batch = a->batch,
                                .tokens = a->tokens,
                                .keys = a->keys,
                                .heads = a->heads,
                                .kv_heads = a->kv_heads,
                                .dim = a->dim,
                                .q = (const uint16_t *)(const void *)a->q,
                                .k = (const uint16_t *)(const void *)a->k,
                                .v = (const uint16_t *)(const void *)a->v,
                                .visible = a->visible,
                                .out = a->out,
                                .out_type = a->out_type,
                                .scale = a->scale};
    if (a->type == DT_BF16 && flash_takes(&whole))
        return flash_attend(&whole, pool, err);
    int64_t rows = SCORE_BYTES / 4 / a->keys / 16 * 16;
    rows = rows < 16 ? 16 : rows;
    rows = rows > a->tokens ? a->tokens : rows;
    size_t scores = ((size_t)(rows * a->keys) * sizeof *a->scores + 63) / 64 * 64;
    void *room;
    int rc = onednn_room(scores + (size_t)(rows * a->keys * frame_width(a->type)), &room, err);
    if (rc)
        return rc;
    a->scores = room;
    a->shares = (char *)room + scores;
    a->softmax = softmax_row();
    for (a->image = 0; a->image < a->batch; a->image++) {
        for (int64_t head = 0; head < a->heads; head++) {
            for (a->first = 0; a->first < a->tokens && !rc; a->first += rows)
                rc = attend(a, head, a->tokens - a->first < rows ? a->tokens - a->first : rows, pool, err);
        }
    }
    return rc;
}

static bool types_fit(const struct attention *a, const struct frame *f)
{
    enum dtype t = f->args[0].shape.dtype;
    return (t == DT_BF16 || t == DT_F32) && f->args[1].shape.dtype == t && f->args[2].shape.dtype == t &&
           (a->out_type == DT_F32 || (t == DT_BF16 && a->out_type == DT_BF16));
}

static int open_attention(void *kernel, const struct frame *f, struct error *err)
{
    struct attention *a = kernel;
    const struct shape *q = &f->args[0].shape, *k = &f->args[1].shape, *v = &f->args[2].shape;
    memset(a, 0, sizeof *a);
    bool fits = q->rank == 4 && k->rank == 4 && shape_same_dims(k, v);
    if (fits) {
        a->batch = q->dims[0], a->tokens = q->dims[1], a->heads = q->dims[2], a->dim = q->dims[3];
        a->keys = k->dims[1], a->kv_heads = k->dims[2];
        a->type = q->dtype, a->out_type = f->result.shape.dtype;
        a->q = f->args[0].data, a->k = f->args[1].data, a->v = f->args[2].data, a->out = f->result.data;
        a->scale = (float)frame_real(f, "scale", 0);
        fits = types_fit(a, f) && k->dims[0] == a->batch && k->dims[3] == a->dim && a->kv_heads > 0 &&
               a->heads % a->kv_heads == 0 && a->scale > 0 && a->keys > 0 && a->dim > 0 &&
               shape_elements(&f->result.shape) == shape_elements(q);
    }
    if (fits && f->n_args == 4) {
        const struct shape seen = {.dtype = DT_PRED, .rank = 3, .dims = {a->batch, a->tokens, a->keys}};
        fits = shape_equal(&f->args[3].shape, &seen);
        a->visible = f->args[3].data;
    }
    return fits ? 0 : error_set(err, ERR_INTERNAL, "attention", "its operands do not fit each other");
}

XLA_FFI_Error *kernel_attention(XLA_FFI_CallFrame *call)
{
    static const struct frame_work work = {"kernel: attention", 3, 4, open_attention, run_attention};
    struct attention a;
    return frame_run(call, &work, &a);
}
