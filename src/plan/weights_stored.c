// SPDX-License-Identifier: Apache-2.0
// Weights as files store them: what a tensor's name says about its place, and how many codes a packed container holds.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "plan/weights_list.h"

// --- names
// -----------------------------------------------------------------------------------------------------------------

// Names as transformers and GGUF have them, most telling first; "^" anchors at the beginning.
static const struct {
    const char *has;
    enum arch_part part;
    enum arch_split split;
} places[] = {
    {"vision", ARCH_VISION, ARCH_WHOLE},
    {"visual", ARCH_VISION, ARCH_WHOLE},
    {"multi_modal", ARCH_VISION, ARCH_WHOLE},
    {"^mm.", ARCH_VISION, ARCH_WHOLE},
    {"^v.blk", ARCH_VISION, ARCH_WHOLE},
    {"lm_head", ARCH_HEAD, ARCH_VOCAB},
    {"^output.weight", ARCH_HEAD, ARCH_VOCAB},
    {"pooler", ARCH_HEAD, ARCH_WHOLE},
    {"position_embed", ARCH_EMBEDDING, ARCH_WHOLE},
    {"position_embd", ARCH_EMBEDDING, ARCH_WHOLE},
    {"embed_positions", ARCH_EMBEDDING, ARCH_WHOLE},
    {"token_type", ARCH_EMBEDDING, ARCH_WHOLE},
    {"wpe", ARCH_EMBEDDING, ARCH_WHOLE},
    {"norm", ARCH_NORM, ARCH_WHOLE},
    {"LayerNorm", ARCH_NORM, ARCH_WHOLE},
    {"ln_", ARCH_NORM, ARCH_WHOLE},
    {"embed_tokens", ARCH_EMBEDDING, ARCH_VOCAB},
    {"word_embeddings", ARCH_EMBEDDING, ARCH_VOCAB},
    {"token_embd", ARCH_EMBEDDING, ARCH_VOCAB},
    {"wte", ARCH_EMBEDDING, ARCH_VOCAB},
    {"^shared.", ARCH_EMBEDDING, ARCH_VOCAB},
    {"shared_expert", ARCH_SHARED, ARCH_COLUMNS},
    {"_shexp", ARCH_SHARED, ARCH_COLUMNS},
    {"experts.", ARCH_EXPERT, ARCH_COLUMNS},
    {"_exps", ARCH_EXPERT, ARCH_COLUMNS},
    {"router", ARCH_ROUTER, ARCH_WHOLE},
    {"gate_inp", ARCH_ROUTER, ARCH_WHOLE},
    {"mlp.gate.", ARCH_ROUTER, ARCH_WHOLE},
    {"moe.gate.", ARCH_ROUTER, ARCH_WHOLE},
    {"exp_probs_b", ARCH_ROUTER, ARCH_WHOLE},
    {"q_a_proj", ARCH_ATTENTION, ARCH_WHOLE},
    {"kv_a_proj", ARCH_ATTENTION, ARCH_WHOLE},
    {"attn_q_a", ARCH_ATTENTION, ARCH_WHOLE},
    {"attn_kv_a", ARCH_ATTENTION, ARCH_WHOLE},
    {"attn_k_b", ARCH_ATTENTION, ARCH_HEADS},
    {"attn_v_b", ARCH_ATTENTION, ARCH_HEADS},
    {"k_proj", ARCH_ATTENTION, ARCH_KV_HEADS},
    {"v_proj", ARCH_ATTENTION, ARCH_KV_HEADS},
    {"attn_k.", ARCH_ATTENTION, ARCH_KV_HEADS},
    {"attn_v.", ARCH_ATTENTION, ARCH_KV_HEADS},
    {"attn", ARCH_ATTENTION, ARCH_HEADS},
    {"attention", ARCH_ATTENTION, ARCH_HEADS},
    {"Attention", ARCH_ATTENTION, ARCH_HEADS},
    {"mlp", ARCH_MLP, ARCH_COLUMNS},
    {"ffn", ARCH_MLP, ARCH_COLUMNS},
    {"feed_forward", ARCH_MLP, ARCH_COLUMNS},
    {"DenseReluDense", ARCH_MLP, ARCH_COLUMNS},
    {"intermediate", ARCH_MLP, ARCH_COLUMNS},
    {"fc1", ARCH_MLP, ARCH_COLUMNS},
    {"fc2", ARCH_MLP, ARCH_COLUMNS},
    {"output.dense", ARCH_MLP, ARCH_COLUMNS},
};

static void place(struct weight *one)
{
    one->part = ARCH_OTHER;
    one->split = ARCH_WHOLE;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *has = places[i].has;
        const char *at = strstr(one->name, *has == '^' ? has + 1 : has);
        if (at && (*has != '^' || at == one->name)) {
            one->part = places[i].part;
            one->split = places[i].split;
            return;
        }
    }
}

// The number of the layer in "model.layers.12.mlp" and the like; -1 where there is none.
static int64_t layer_number(const char *name)
{
    static const char *const before[] = {"layers.", "blk.", "layer.", "blocks.", "block.", "h."};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        for (const char *p = strstr(name, before[i]); p; p = strstr(p + 1, before[i])) {
            const char *digits = p + strlen(before[i]);
            size_t n = strspn(digits, "0123456789");
            bool begins = p == name || p[-1] == '.';
            if (begins && n && n < 7 && (digits[n] == '.' || !digits[n]))
                return strtol(digits, NULL, 10);
        }
    }
    return -1;
}

static int64_t layer_of(const char *name, const struct arch *a, enum arch_part part)
{
    int64_t layer = layer_number(name);
    if (!a || !a->layers || part == ARCH_VISION)
        return WEIGHT_OUTSIDE_FIRST;
    if (a->kind == ARCH_ENCODER_DECODER && strstr(name, "encoder."))
        return WEIGHT_OUTSIDE_FIRST;
    if (layer >= 0)
        return layer;
    return part == ARCH_HEAD || part == ARCH_NORM ? WEIGHT_OUTSIDE_LAST : WEIGHT_OUTSIDE_FIRST;
}

// --- packed containers
// -----------------------------------------------------------------------------------------------------------------

// Another tensor of the same layer: the name with its last `cut` bytes exchanged for `suffix`.
static const struct tensor_view *sibling(const struct checkpoint *c, const char *name, size_t cut, const char *suffix)
{
    char other[1024];
    size_t n = strlen(name);
    if (cut > n || snprintf(other, sizeof other, "%.*s%s", (int)(n - cut), name, suffix) >= (int)sizeof other)
        return NULL;
    return checkpoint_find(c, other);
}

static const char *code_name(int64_t bits, bool words)
{
    static const char *const names[2][9] = {
        {NULL, NULL, "s2 packed", "s3 packed", "s4 packed", NULL, NULL, NULL, "s8"},
        {NULL, NULL, "s2 in s32", "s3 in s32", "s4 in s32", NULL, NULL, NULL, "s8 in s32"}};
    return bits >= 0 && bits <= 8 ? names[words][bits] : NULL;
}

// A matrix that is there, so that its extents are smaller than its file and products of them fit.
static bool is_matrix(const struct tensor_view *t)
{
    return t && t->rank == 2 && t->elements;
}

static bool holds_words(const struct tensor_view *t)
{
    return is_matrix(t) && (t->dtype == DT_S32 || t->dtype == DT_U32);
}

static bool set_codes(struct weight *one, int64_t rows, int64_t cols, int64_t bits)
{
    if (rows < 1 || cols < 1 || !code_name(bits, true))
        return false;
    one->rows = rows;
    one->cols = cols;
    one->elements = (double)rows * (double)cols;
    one->type = code_name(bits, true);
    return true;
}

// GPTQ [in * bits / 32, out] and AWQ [in, out * bits / 32]: the zero points tell the bits, the scales the outputs.
static bool gptq(const struct checkpoint *c, const struct tensor_view *t, struct weight *one)
{
    if (!str_ends_with(t->name, ".qweight") || !holds_words(t))
        return false;
    const struct tensor_view *scales = sibling(c, t->name, 7, "scales"), *zeros = sibling(c, t->name, 7, "qzeros");
    if (!is_matrix(scales) || !is_matrix(zeros))
        return false;
    int64_t out = scales->dims[1], bits = 32 * zeros->dims[1] / out;
    int64_t in = t->dims[1] == out ? (bits ? 32 * t->dims[0] / bits : 0) : t->dims[0];
    return set_codes(one, out, in, bits);
}

// compressed-tensors [out, in * bits / 32]: two numbers in a tensor beside it are the shape.
static bool compressed(const struct checkpoint *c, const struct tensor_view *t, struct weight *one)
{
    int64_t shape[2];
    if (!str_ends_with(t->name, ".weight_packed") || !holds_words(t))
        return false;
    const struct tensor_view *s = sibling(c, t->name, 6, "shape");
    if (!s || s->dtype != DT_S64 || s->elements != 2 || checkpoint_read(c, s, shape, NULL) || shape[0] != t->dims[0] ||
        shape[1] < 1 || shape[1] > 1 << 26)
        return false;
    return set_codes(one, shape[0], shape[1], 32 * t->dims[1] / shape[1]);
}

// MLX [out, in * bits / 32] with scales [out, in / group]; groups are of 64 unless 32 or 128 alone gives whole bits.
static bool mlx(const struct checkpoint *c, const struct tensor_view *t, struct weight *one)
{
    if (t->dtype != DT_U32 || !is_matrix(t) || !str_ends_with(t->name, ".weight"))
        return false;
    const struct tensor_view *scales = sibling(c, t->name, 6, "scales");
    if (!is_matrix(scales))
        return false;
    static const int64_t groups[] = {64, 32, 128};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        int64_t in = scales->dims[1] * groups[i], bits = in ? 32 * t->dims[1] / in : 0;
        if (32 * t->dims[1] == bits * in && set_codes(one, t->dims[0], in, bits))
            return true;
    }
    return false;
}

// Two codes of 4 bits in a byte: bitsandbytes (with absmax beside it), and MXFP4 blocks of 16 bytes.
static bool nibbles(const struct checkpoint *c, const struct tensor_view *t, struct weight *one)
{
    bool blocks = str_ends_with(t->name, "_blocks") && sibling(c, t->name, 6, "scales");
    if (t->dtype != DT_U8 || (!blocks && !sibling(c, t->name, 0, ".absmax")))
        return false;
    one->elements = 2 * (double)t->elements;
    one->cols = blocks ? 32 * (t->rank > 1 ? t->dims[t->rank - 2] : 1) : 0;
    one->rows = one->cols ? (int64_t)(one->elements / (double)one->cols) : 2 * (int64_t)t->elements;
    one->type = blocks ? "mxfp4" : "nf4";
    return true;
}

// Scales, zero points and indices, which belong to another tensor's codes.
static bool is_overhead(const struct checkpoint *c, const struct tensor_view *t)
{
    static const char *const ends[] = {".scales",
                                       ".qzeros",
                                       ".g_idx",
                                       ".weight_scale",
                                       ".absmax",
                                       ".quant_map",
                                       ".nested_absmax",
                                       ".nested_quant_map",
                                       ".SCB",
                                       ".weight_shape",
                                       ".input_scale",
                                       ".weight_scale_inv",
                                       ".weight_format",
                                       ".k_scale",
                                       ".v_scale",
                                       ".weight_zero_point",
                                       ".weight_g_idx",
                                       ".bitsandbytes__nf4",
                                       ".bitsandbytes__fp4"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (str_ends_with(t->name, ends[i]))
            return true;
    }
    if (str_ends_with(t->name, "_scales") && sibling(c, t->name, 6, "blocks"))
        return true;
    const struct tensor_view *codes = str_ends_with(t->name, ".biases") ? sibling(c, t->name, 6, "weight") : NULL;
    return codes && codes->dtype == DT_U32;
}

// Indices and masks: no parameters, as in checkpoint.parameters.
static bool is_buffer(const struct tensor_view *t)
{
    return t->dtype == DT_PRED || (dtype_is_integer(t->dtype) && dtype_bits(t->dtype) >= 16);
}

int weights_add_checkpoint(struct weights *w, const struct checkpoint *c, const struct arch *a, struct arena *arena,
                           struct error *err)
{
    bool packed = false;
    int rc = 0;
    w->stored = true;
    w->how = "as the tensors of the files are stored";
    for (size_t i = 0; i < c->count && !rc; i++) {
        const struct tensor_view *t = &c->tensors[i];
        struct weight one = {.name = arena_strdup(arena, t->name, err),
                             .each = 1,
                             .bytes = (double)t->bytes,
                             .type = tensor_type_name(t)};
        if (!one.name)
            return ERR_MEMORY;
        place(&one);
        one.layer = layer_of(t->name, a, one.part);
        if (is_overhead(c, t)) {
            one.scale_bytes = one.bytes;
            one.bytes = 0;
        } else if (gptq(c, t, &one) || compressed(c, t, &one) || mlx(c, t, &one) || nibbles(c, t, &one)) {
            packed = true;
        } else {
            one.elements = is_buffer(t) ? 0 : (double)t->elements;
            one.cols = t->rank > 1 ? t->dims[t->rank - 1] : 0;
            one.rows = t->rank > 1 ? (one.cols ? (int64_t)(t->elements / (size_t)one.cols) : 0) : (int64_t)t->elements;
        }
        rc = weights_add(w, arena, one, err);
    }
    if (packed)
        w->note = "low-bit codes are packed in wider containers; parameters are the codes inside";
    return rc ? rc : weights_sum(w, a, err);
}

int weights_from_checkpoint(struct weights *w, const struct checkpoint *c, const struct arch *a, struct arena *arena,
                            struct error *err)
{
    memset(w, 0, sizeof *w);
    return weights_add_checkpoint(w, c, a, arena, err);
}
