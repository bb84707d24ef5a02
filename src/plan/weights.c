// SPDX-License-Identifier: Apache-2.0
#include "plan/weights.h"

#include <math.h>
#include <string.h>

#include "plan/weights_list.h"

int weights_add(struct weights *w, struct arena *arena, struct weight one, struct error *err)
{
    struct weight *list = arena_grow(arena, w->list, &w->cap, w->n + 1, sizeof *list, err);
    if (!list)
        return ERR_MEMORY;
    w->list = list;
    w->list[w->n++] = one;
    return 0;
}

double weight_copies(const struct weight *one, const struct arch *a, int64_t first, int64_t last)
{
    int64_t layers = a ? a->layers : 0;
    switch (one->layer) {
    case WEIGHT_OUTSIDE_FIRST:
        return first == 0 ? (double)one->each : 0;
    case WEIGHT_OUTSIDE_LAST:
        return last == layers ? (double)one->each : 0;
    case WEIGHT_BY_WHERE:
        return (double)one->each * (double)arch_layers_with(a, one->where, first, last);
    default: // what lies beyond the layers that are known goes to the last stage
        return one->layer < layers ? (one->layer >= first && one->layer < last ? (double)one->each : 0)
               : last == layers    ? (double)one->each
                                   : 0;
    }
}

// Bits of a code below a byte; 0 for other types.
static int code_bits(const struct weight *one)
{
    double bits = one->elements > 0 ? 8 * one->bytes / one->elements : 8;
    return bits < 7.5 && one->elements > 0 ? (int)ceil(bits) : 0;
}

// Whether training changes it: text encoder and autoencoder of an image model stay as they are.
static bool is_trained(const struct weight *one, const struct arch *a)
{
    return !a || a->kind != ARCH_DIFFUSION || one->part == ARCH_DENOISER;
}

int weights_sum(struct weights *w, const struct arch *a, struct error *err)
{
    int64_t layers = a ? a->layers : 0;
    w->parameters = w->trained = w->bytes = w->scale_bytes = w->packed_elements = w->unpacked_bytes = 0;
    for (size_t i = 0; i < w->n; i++) {
        const struct weight *one = &w->list[i];
        double copies = weight_copies(one, a, 0, layers);
        w->parameters += copies * one->elements;
        w->trained += is_trained(one, a) ? copies * one->elements : 0;
        w->bytes += copies * one->bytes;
        w->scale_bytes += copies * one->scale_bytes;
        if (code_bits(one)) {
            w->packed_elements += copies * one->elements;
            w->unpacked_bytes += copies * (one->elements - one->bytes);
        }
    }
    if (w->bytes > 0x1p53)
        return error_set(err, ERR_INPUT, a ? a->name : "weights",
                         "weights of more than 2^53 bytes: some size in it cannot be right");
    return 0;
}

void weights_unpack(struct weights *w)
{
    for (size_t i = 0; i < w->n; i++) {
        if (code_bits(&w->list[i]))
            w->list[i].bytes = w->list[i].elements;
    }
    w->bytes += w->unpacked_bytes;
    w->packed_elements = w->unpacked_bytes = 0;
}

// --- by the configuration
// -----------------------------------------------------------------------------------------------------------------

static double pieces(double n, double of)
{
    return ceil(n / of);
}

// Linear layers of the body: what quantised checkpoints quantise.
static bool is_linear(const struct arch_tensor *t)
{
    return t->cols &&
           (t->part == ARCH_ATTENTION || t->part == ARCH_MLP || t->part == ARCH_EXPERT || t->part == ARCH_SHARED);
}

// Codes and scales of one linear layer as "quantization_config" has it.
static void quantized(const struct arch_quant *q, const struct arch_tensor *t, struct weight *one)
{
    double rows = (double)t->rows, cols = (double)t->cols, groups = pieces(cols, q->group ? (double)q->group : cols);
    switch (q->method) {
    case ARCH_QUANT_GPTQ:
    case ARCH_QUANT_AWQ:
        one->bytes = rows * 4 * pieces(cols * (double)q->bits, 32);
        one->scale_bytes = groups * (2 * rows + 4 * pieces(rows * (double)q->bits, 32));
        one->scale_bytes += q->method == ARCH_QUANT_GPTQ ? 4 * cols : 0;
        one->type = q->bits == 8 ? "s8 in s32" : q->bits == 4 ? "s4 in s32" : q->bits == 3 ? "s3 in s32" : "s2 in s32";
        break;
    case ARCH_QUANT_FP8:
        one->bytes = rows * cols;
        one->scale_bytes = q->block[0] ? 4 * pieces(rows, (double)q->block[0]) * pieces(cols, (double)q->block[1]) : 4;
        one->type = "f8e4m3fn";
        break;
    case ARCH_QUANT_NF4:
        one->bytes = pieces(rows * cols, 2);
        one->scale_bytes = pieces(rows * cols, 64) * (q->nested ? 1 + 4.0 / 256 : 4);
        one->type = "nf4";
        break;
    case ARCH_QUANT_INT8:
        one->bytes = rows * cols;
        one->scale_bytes = 4 * rows;
        one->type = "s8";
        break;
    case ARCH_QUANT_MXFP4:
        one->bytes = rows * pieces(cols, 32) * 16;
        one->scale_bytes = rows * pieces(cols, 32);
        one->type = "mxfp4";
        break;
    case ARCH_QUANT_NONE:
        break;
    }
}

int weights_from_arch(struct weights *w, const struct arch *a, struct arena *arena, struct error *err)
{
    enum dtype type = a->dtype ? a->dtype : DT_BF16;
    int rc = 0;
    memset(w, 0, sizeof *w);
    w->how = a->quant.method ? "types as \"quantization_config\" and \"dtype\" say"
             : a->dtype      ? "type as \"dtype\" says"
                             : "bf16: no type is said";
    for (size_t i = 0; i < a->n_tensors && !rc; i++) {
        const struct arch_tensor *t = &a->tensors[i];
        struct weight one = {.name = t->name,
                             .part = t->part,
                             .split = t->split,
                             .layer = WEIGHT_BY_WHERE,
                             .where = t->where,
                             .rows = t->rows,
                             .cols = t->cols,
                             .each = t->each,
                             .elements = arch_tensor_elements(t),
                             .type = dtype_name(type)};
        one.bytes = one.elements * dtype_bits(type) / 8;
        bool experts_only = a->quant.method == ARCH_QUANT_MXFP4;
        if (is_linear(t) && (!experts_only || t->part == ARCH_EXPERT))
            quantized(&a->quant, t, &one);
        rc = weights_add(w, arena, one, err);
    }
    return rc ? rc : weights_sum(w, a, err);
}

// --- by a policy
// -----------------------------------------------------------------------------------------------------------------

static void under_policy(struct weight *one, const struct policy *p)
{
    enum dtype type = one->cols ? p->w : p->vectors;
    double rows = (double)one->rows, cols = one->cols ? (double)one->cols : 1;
    one->type = dtype_name(type);
    one->scale_bytes = 0;
    // A row of codes begins at a byte.
    one->bytes = rows * pieces(cols * dtype_bits(type), 8);
    if (!one->cols)
        one->bytes = pieces(rows * dtype_bits(type), 8);
    if (!one->cols || !policy_has_scales(type))
        return;
    one->scale_bytes = 4 * (p->w_grain == GRAIN_TENSOR    ? 1
                            : p->w_grain == GRAIN_CHANNEL ? rows
                                                          : rows * pieces(cols, (double)p->w_group));
}

int weights_under_policy(struct weights *w, const struct weights *from, const struct arch *a, const struct policy *p,
                         struct arena *arena, struct error *err)
{
    int rc = 0;
    memset(w, 0, sizeof *w);
    w->how = "matrices and vectors as the policy stores them";
    w->note = from->note;
    for (size_t i = 0; i < from->n && !rc; i++) {
        struct weight one = from->list[i];
        if (one.elements <= 0)
            continue; // scales of the old codes, and buffers
        under_policy(&one, p);
        rc = weights_add(w, arena, one, err);
    }
    return rc ? rc : weights_sum(w, a, err);
}

// --- totals
// -----------------------------------------------------------------------------------------------------------------

static bool same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

// The row of that part and type, made where there is none; what finds no place goes to the last row.
static struct weight_total *row_of(struct weight_total *out, size_t *n, size_t max, const char *part, const char *type)
{
    for (size_t i = 0; i < *n; i++) {
        if (same(out[i].part, part) && same(out[i].type, type))
            return &out[i];
    }
    if (*n == max)
        return &out[max - 1];
    out[*n] = (struct weight_total){.part = part, .type = type};
    return &out[(*n)++];
}

static double all_bytes(const struct weight_total *t)
{
    return t->bytes + t->scale_bytes;
}

size_t weights_totals(const struct weights *w, const struct arch *a, bool by_part, bool by_type,
                      struct weight_total *out, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++) {
        const struct weight *one = &w->list[i];
        double copies = weight_copies(one, a, 0, a ? a->layers : 0);
        if (copies <= 0)
            continue;
        struct weight_total *t =
            row_of(out, &n, max, by_part ? arch_part_name(one->part) : NULL, by_type ? one->type : NULL);
        t->elements += copies * one->elements;
        t->bytes += copies * one->bytes;
        t->scale_bytes += copies * one->scale_bytes;
    }
    for (size_t i = 1; i < n; i++) { // few rows: by insertion
        struct weight_total row = out[i];
        size_t k = i;
        for (; k && all_bytes(&out[k - 1]) < all_bytes(&row); k--)
            out[k] = out[k - 1];
        out[k] = row;
    }
    return n;
}

// --- on a device
// -----------------------------------------------------------------------------------------------------------------

// The share of a tensor that one device of tp ways has.
static double share(const struct weight *one, const struct arch *a, const struct layout *l)
{
    double tp = (double)l->ways[LAYOUT_TP], kv = a ? (double)a->kv_heads : 0, part = 1;
    switch (one->split) {
    case ARCH_HEADS:
    case ARCH_COLUMNS:
        part = 1 / tp;
        break;
    case ARCH_KV_HEADS:
        part = kv > 0 ? ceil(kv / tp) / kv : 1 / tp;
        break;
    case ARCH_VOCAB:
        part = one->rows ? ceil((double)one->rows / tp) / (double)one->rows : 1;
        break;
    case ARCH_EVENLY:
        part = 1 / (tp * (double)l->ways[LAYOUT_PP]);
        break;
    case ARCH_WHOLE:
        break;
    }
    return one->part == ARCH_EXPERT ? part / (double)l->ways[LAYOUT_EP] : part;
}

static void on_stage(const struct weights *w, const struct arch *a, const struct layout *l, int64_t first, int64_t last,
                     struct weights_local *out)
{
    *out = (struct weights_local){.first = first, .last = last};
    for (size_t i = 0; i < w->n; i++) {
        const struct weight *one = &w->list[i];
        double copies = weight_copies(one, a, first, last) * share(one, a, l);
        out->bytes += copies * (one->bytes + one->scale_bytes);
        if (!is_trained(one, a))
            continue;
        out->elements += copies * one->elements;
        if (one->elements < 4096)
            out->small_elements += copies * one->elements;
        if (one->elements > 0)
            out->factored += copies * (one->cols ? (double)one->rows + (double)one->cols : one->elements);
    }
}

// The largest of the layers, each with all that stands in it.
static void largest_layer(const struct weights *w, const struct arch *a, const struct layout *l,
                          struct weights_local *out)
{
    for (int64_t layer = out->first; a && layer < out->last; layer++) {
        double elements = 0, bytes = 0;
        // Layers of one kind are alike: the first of each is enough.
        if (layer > out->first + 1 && a->flags && w->list[0].layer == WEIGHT_BY_WHERE &&
            a->flags[layer] == a->flags[layer - 1])
            continue;
        for (size_t i = 0; i < w->n; i++) {
            const struct weight *one = &w->list[i];
            bool outside = one->layer == WEIGHT_BY_WHERE &&
                           (one->where == ARCH_FIRST || one->where == ARCH_LAST || one->where == ARCH_ENCODER_LAYERS);
            if (outside || one->layer == WEIGHT_OUTSIDE_FIRST || one->layer == WEIGHT_OUTSIDE_LAST)
                continue;
            double copies = weight_copies(one, a, layer, layer + 1) * share(one, a, l);
            elements += copies * one->elements;
            bytes += copies * (one->bytes + one->scale_bytes);
        }
        if (elements > out->largest_layer) {
            out->largest_layer = elements;
            out->layer_bytes = bytes;
        }
    }
}

void weights_on_device(const struct weights *w, const struct arch *a, const struct layout *l, struct weights_local *out)
{
    int64_t layers = a ? a->layers : 0, stages = l->ways[LAYOUT_PP], each = layers ? (layers + stages - 1) / stages : 0;
    struct weights_local fullest = {.bytes = -1}, stage;
    for (int64_t first = 0; first < layers || first == 0; first += each ? each : 1) {
        int64_t last = first + each < layers ? first + each : layers;
        on_stage(w, a, l, first, last, &stage);
        if (stage.bytes > fullest.bytes)
            fullest = stage;
        if (!layers)
            break;
    }
    *out = fullest;
    if (w->n)
        largest_layer(w, a, l, out);
}
