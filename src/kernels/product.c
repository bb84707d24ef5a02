// SPDX-License-Identifier: Apache-2.0
// assay.product: out [..., n] = x [..., k] by a matrix, as oneDNN multiplies, and what often stands behind it.
//   operands    x; w [n, k] when the attribute rows_are_outputs is 1, else [k, n]; with bit 4 of the attribute `scales`
//               a scale per group of columns of each row of w, f32 [n, groups]; with bit 1 a factor per row of x, f32
//               [...]; with bit 2 one per output, f32 [n]
//               with bit 1 of the attribute `adds` a gate, f32 [n] or [batch, n] of x [batch, tokens, k]; with bit 2 a
//               residual of out's shape, bf16 or f32; no gate without a residual
//   types       x and w bf16, f32 or s8 alike, or x bf16 and w codes (widened, a strip of them at a time): s8, or with
//               the attribute `packed` 1 u8 [n, k/2], two codes in every byte, low nibble first; out bf16 or f32, or
//               s32 of s8 without scales. Codes times their scale are rounded to bf16
//   quantise    an attribute: 1 when x, bf16 or f32, becomes codes of s8 by the largest magnitude of each row, whose
//               factor is then the row's
//   rounded     an attribute: 1 when sums become bf16 before they are gated and added
// Sums are f32, of s8 s32. Factors are applied in f32 to the sums, the row's first, before they are rounded to out.
// residual + gate * product is made in f32, too.
#include <stdlib.h>
#include <string.h>

#include "kernels/handlers.h"
#include "kernels/onednn.h"
#include "kernels/panel.h"
#include "kernels/rows.h"
#include "kernels/team.h"

#define SCALE_ROWS    1
#define SCALE_OUTPUTS 2
#define SCALE_GROUPS  4
#define ADD_GATE      1
#define ADD_RESIDUAL  2
// Sums that are still to be scaled, and widened codes, are made in strips of outputs that stay in a second-level
// cache's reach; a strip has at least so many outputs that the product runs at full speed.
#define STRIP_BYTES    ((int64_t)8 << 20)
#define STRIP_MULTIPLE 64
#define STRIP_LEAST    256

struct product {
    struct onednn_product p; // of the whole
    const void *x, *w;
    const float *rows, *outputs; // factors, NULL without
    const float *groups;         // scales of codes of w, NULL without; one for so many columns:
    int64_t group;
    struct addition added;
    bool quantise;
    void *out;
    enum dtype out_type;
    // Of x that is quantised:
    const void *wide;
    enum dtype wide_type;
    int8_t *codes;
    float *factors;
    // Of a strip:
    void *sums, *widened;
    int64_t first, count; // outputs
    struct row_loops loops;
};

static size_t bytes_of(enum dtype t, int64_t n)
{
    return (size_t)n * (size_t)dtype_bits(t) / 8;
}

// ---- factors

// Rows from..to of the strip: sums, scaled and added to what they are added to, to the result.
static void scale_rows(void *context, size_t from, size_t to)
{
    const struct product *c = context;
    enum dtype t = c->p.x == DT_S8 ? DT_S32 : DT_F32;
    for (size_t row = from; row < to; row++) {
        char *sums = (char *)c->sums + bytes_of(t, (int64_t)row * c->count);
        char *out = (char *)c->out + bytes_of(c->out_type, (int64_t)row * c->p.out_stride + c->first);
        bool added = c->added.residual;
        if (!added || c->rows || c->outputs)
            c->loops.scale(sums, t, c->count, c->rows ? c->rows[row] : 1, c->outputs ? c->outputs + c->first : NULL,
                           added ? sums : out, added ? DT_F32 : c->out_type);
        if (added)
            c->loops.add(&c->added, (int64_t)row, c->first, c->count, (const float *)(const void *)sums, out,
                         c->out_type);
    }
}

// Rows from..to of the strip of weights: codes to bf16.
static void widen_rows(void *context, size_t from, size_t to)
{
    const struct product *c = context;
    for (size_t row = from; row < to; row++) {
        int64_t at = c->first + (int64_t)row, k = c->p.k;
        c->loops.widen((const char *)c->w + bytes_of(c->p.w, at * k), c->p.w, k,
                       c->groups ? c->groups + at * (k / c->group) : NULL, c->group,
                       (uint16_t *)c->widened + row * (size_t)k);
    }
}

// ---- strips

// The strip's product, into sums, or into the result itself where there is nothing to scale.
static int multiply_strip(struct product *c, struct threads *pool, struct error *err)
{
    struct onednn_product p = c->p;
    const char *w = (const char *)c->w + bytes_of(p.w, c->first * (p.w_rows_are_outputs ? p.w_stride : 1));
    void *out = c->sums;
    p.n = c->count;
    if (c->widened) {
        onednn_for(pool, (size_t)c->count, 8, widen_rows, c);
        w = c->widened;
        p.w = DT_BF16;
        p.w_stride = p.k;
    }
    if (c->sums) {
        p.out_stride = c->count;
        p.out = p.x == DT_S8 ? DT_S32 : DT_F32;
    } else {
        out = (char *)c->out + bytes_of(p.out, c->first);
    }
    int rc = onednn_product(&p, c->x, w, out, err);
    if (!rc && c->sums)
        onednn_for(pool, (size_t)p.m, 8, scale_rows, c);
    return rc;
}

// Rows from..to of x as codes.
static void quantise_rows(void *context, size_t from, size_t to)
{
    const struct product *c = context;
    size_t k = (size_t)c->p.k;
    for (size_t row = from; row < to; row++)
        c->factors[row] = c->loops.quantise((const char *)c->wide + bytes_of(c->wide_type, (int64_t)(row * k)),
                                            c->wide_type, c->p.k, c->codes + row * k);
}

static int run_strips(struct product *c, struct threads *pool, struct error *err)
{
    const struct onednn_product *p = &c->p;
    bool scaled = c->rows || c->outputs || c->quantise || c->added.residual,
         widened = p->w != DT_BF16 && p->x == DT_BF16;
    int64_t strip = p->n;
    if (scaled || widened) {
        int64_t row = 4 * (scaled ? p->m : 0) + 2 * (widened ? p->k : 0);
        strip = row ? STRIP_BYTES / row / STRIP_MULTIPLE * STRIP_MULTIPLE : p->n;
        strip = strip < STRIP_LEAST ? STRIP_LEAST : strip;
        strip = strip > p->n ? p->n : strip;
        int64_t strips = (p->n + strip - 1) / strip; // of which none is much smaller than the others
        strip = ((p->n + strips - 1) / strips + STRIP_MULTIPLE - 1) / STRIP_MULTIPLE * STRIP_MULTIPLE;
    }
    size_t sums = scaled ? bytes_of(DT_F32, p->m * strip) : 0, wide = widened ? bytes_of(DT_BF16, p->k * strip) : 0;
    sums = (sums + 63) / 64 * 64;
    size_t factors = c->quantise ? bytes_of(DT_F32, p->m) : 0, codes = c->quantise ? bytes_of(DT_S8, p->m * p->k) : 0;
    char *memory = NULL;
    if (sums + wide + factors + codes && onednn_room(sums + wide + factors + codes, (void **)&memory, err))
        return ERR_MEMORY;
    c->sums = sums ? memory : NULL;
    c->widened = wide ? memory + sums : NULL;
    if (c->quantise) {
        c->rows = c->factors = (float *)(void *)(memory + sums + wide);
        c->x = c->codes = (int8_t *)(void *)(memory + sums + wide + factors);
        onednn_for(pool, (size_t)p->m, 8, quantise_rows, c);
    }
    int rc = 0;
    for (c->first = 0; c->first < p->n && !rc; c->first += strip) {
        c->count = p->n - c->first < strip ? p->n - c->first : strip;
        rc = multiply_strip(c, pool, err);
    }
    return rc;
}

static int run_product(void *context, struct threads *pool, struct error *err)
{
    struct product *c = context;
    const struct onednn_product *p = &c->p;
    const struct panel panel = {.m = p->m,
                                .k = p->k,
                                .n = p->n,
                                .x = c->x,
                                .w = c->w,
                                .x_type = c->quantise ? c->wide_type : p->x,
                                .w_type = p->w,
                                .quantise = c->quantise,
                                .groups = c->groups,
                                .group = c->group,
                                .rows = c->rows,
                                .outputs = c->outputs,
                                .added = c->added,
                                .out = c->out,
                                .out_type = c->out_type};
    if (p->k == 0) { // an empty sum
        memset(c->out, 0, bytes_of(c->out_type, p->m * p->n));
        return 0;
    }
    c->loops = row_loops();
    if (p->w_rows_are_outputs && p->x != DT_F32 && panel_takes(&panel))
        return panel_multiply(&panel, pool, err);
    return run_strips(c, pool, err);
}

// ---- the call

static bool types_fit(enum dtype x, enum dtype w, enum dtype out, bool scaled)
{
    if (x == DT_S8)
        return w == DT_S8 && (scaled ? out == DT_F32 || out == DT_BF16 : out == DT_S32);
    if (x == DT_F32)
        return w == DT_F32 && out == DT_F32;
    return x == DT_BF16 && (w == DT_BF16 || w == DT_S8 || w == DT_S4) && (out == DT_F32 || out == DT_BF16);
}

static bool is_vector(const struct tensor *t, int64_t n)
{
    return t->shape.dtype == DT_F32 && shape_elements(&t->shape) == n;
}

// What is added, from that operand on.
static bool open_addition(struct product *c, const struct frame *f, int at, bool gated)
{
    struct addition *a = &c->added;
    a->n = c->p.n, a->tokens = c->p.m;
    a->between = frame_integer(f, "rounded", 0) ? DT_BF16 : DT_F32;
    if (gated) {
        const struct shape *gate = &f->args[at].shape, *x = &f->args[0].shape;
        bool each = gate->rank == 2 && x->rank == 3 && gate->dims[0] == x->dims[0];
        if (gate->dtype != DT_F32 || (!each && gate->rank != 1) || gate->dims[gate->rank - 1] != a->n)
            return false;
        if (each)
            a->tokens = x->dims[1];
        a->gate = f->args[at++].data;
    }
    const struct shape *residual = &f->args[at].shape;
    a->type = residual->dtype;
    a->residual = f->args[at].data;
    return frame_is_float(a->type) && shape_same_dims(residual, &f->result.shape) && c->p.k > 0;
}

// What the call says, checked.
static int open_product(void *kernel, const struct frame *f, struct error *err)
{
    struct product *c = kernel;
    const struct shape *x = &f->args[0].shape, *w = &f->args[1].shape, *out = &f->result.shape;
    bool rows_are_outputs = frame_integer(f, "rows_are_outputs", 1) != 0;
    int64_t scales = frame_integer(f, "scales", 0);
    int64_t adds = frame_integer(f, "adds", 0);
    bool quantise = frame_integer(f, "quantise", 0) != 0;
    int at = 2;
    memset(c, 0, sizeof *c);
    if (x->rank < 1 || w->rank != 2 || out->rank < 1)
        return error_set(err, ERR_INTERNAL, "product", "of ranks %d and %d", x->rank, w->rank);
    bool packed = frame_integer(f, "packed", 0) != 0;
    enum dtype type = packed && w->dtype == DT_U8 ? DT_S4 : w->dtype;
    int64_t k = x->dims[x->rank - 1], n = w->dims[rows_are_outputs ? 0 : 1], m = 1;
    for (int i = 0; i < x->rank - 1; i++)
        m *= x->dims[i];
    c->p = (struct onednn_product){.m = m, .k = k, .n = n, .x_stride = k, .out_stride = n};
    c->p.w_stride = rows_are_outputs ? k : n;
    c->p.x = x->dtype, c->p.w = type, c->p.out = c->out_type = out->dtype;
    c->p.w_rows_are_outputs = rows_are_outputs;
    c->x = f->args[0].data, c->w = f->args[1].data, c->out = f->result.data;
    if (quantise && frame_is_float(x->dtype)) {
        c->quantise = true;
        c->wide = c->x, c->wide_type = x->dtype;
        c->p.x = DT_S8;
    }
    bool fits = w->dims[rows_are_outputs ? 1 : 0] * (packed ? 2 : 1) == k && shape_elements(out) == m * n &&
                types_fit(c->p.x, type, out->dtype, scales != 0 || quantise) && c->quantise == quantise &&
                packed == (type == DT_S4) &&
                f->n_args == 2 + __builtin_popcountll((uint64_t)scales) + __builtin_popcountll((uint64_t)adds) &&
                (rows_are_outputs || c->p.x == type);
    if (fits && scales & SCALE_GROUPS) {
        const struct shape *groups = &f->args[at].shape;
        fits = groups->dtype == DT_F32 && groups->rank == 2 && groups->dims[0] == n && groups->dims[1] > 0 &&
               k % groups->dims[1] == 0 && k > 0 && c->p.x == DT_BF16 && type != DT_BF16;
        c->group = fits ? k / groups->dims[1] : 0;
        c->groups = f->args[at++].data;
    }
    if (fits && scales & SCALE_ROWS) {
        fits = is_vector(&f->args[at], m);
        c->rows = f->args[at++].data;
    }
    if (fits && scales & SCALE_OUTPUTS) {
        fits = is_vector(&f->args[at], n);
        c->outputs = f->args[at++].data;
    }
    if (fits && adds)
        fits = open_addition(c, f, at, adds & ADD_GATE);
    return fits ? 0
                : error_set(err, ERR_INTERNAL, "product", "its operands do not fit each other (%s by %s to %s)",
                            dtype_name(x->dtype), dtype_name(w->dtype), dtype_name(out->dtype));
}

XLA_FFI_Error *kernel_product(XLA_FFI_CallFrame *call)
{
    static const struct frame_work work = {"kernel: product", 2, 7, open_product, run_product};
    struct product c;
    return frame_run(call, &work, &c);
}
