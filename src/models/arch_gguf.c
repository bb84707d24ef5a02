// SPDX-License-Identifier: Apache-2.0
// The metadata of a GGUF file: keys as llama.cpp names them (gguf-py/gguf/constants.py). The tensors themselves lie in
// the file, so none are made here.
#include <inttypes.h>
#include <string.h>

#include "base/slice.h"
#include "models/arch_read.h"

// `period`: every period-th layer is global where there is a window and the file does not say which are; 1: none is.
static const struct gguf_family {
    const char *name;
    int64_t period;
    enum arch_kind kind;
    bool plain_ffn;
} families[] = {
    {"llama", 1, ARCH_DECODER, false},     {"qwen2", 1, ARCH_DECODER, false},    {"qwen2moe", 1, ARCH_DECODER, false},
    {"qwen3", 1, ARCH_DECODER, false},     {"qwen3moe", 1, ARCH_DECODER, false}, {"gemma", 1, ARCH_DECODER, false},
    {"gemma2", 2, ARCH_DECODER, false},    {"gemma3", 6, ARCH_DECODER, false},   {"phi3", 1, ARCH_DECODER, false},
    {"deepseek2", 1, ARCH_DECODER, false}, {"gpt-oss", 2, ARCH_DECODER, false},  {"granite", 1, ARCH_DECODER, false},
    {"olmo2", 1, ARCH_DECODER, false},     {"smollm3", 1, ARCH_DECODER, false},  {"gpt2", 1, ARCH_DECODER, true},
    {"bert", 1, ARCH_ENCODER, true},
};
#define FAMILIES                                                                                                       \
    "llama, qwen2, qwen2moe, qwen3, qwen3moe, gemma, gemma2, gemma3, phi3, deepseek2, gpt-oss, granite, olmo2, "       \
    "smollm3, gpt2, bert"

struct reader {
    const struct gguf *g;
    const char *path, *family;
    struct error *err;
    int rc;
};

static const struct gguf_value *find(const struct reader *r, const char *key)
{
    char name[160];
    if (snprintf(name, sizeof name, "%s.%s", r->family, key) >= (int)sizeof name)
        return NULL;
    return gguf_find(r->g, name);
}

static bool whole(const struct gguf_value *v, int64_t *out)
{
    switch (v->type) {
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64:
    case GGUF_BOOL:
        *out = v->u > INT64_MAX ? INT64_MAX : (int64_t)v->u;
        return true;
    case GGUF_S8:
    case GGUF_S16:
    case GGUF_S32:
    case GGUF_S64:
        *out = v->s;
        return true;
    default:
        return false;
    }
}

// The largest element of an array, or the number itself: sizes may be given per layer.
static bool largest(const struct gguf_value *v, int64_t *out)
{
    if (v->type != GGUF_ARRAY)
        return whole(v, out);
    struct gguf_array it;
    struct gguf_value element;
    int64_t n;
    bool any = false;
    for (gguf_array_begin(&it, v); gguf_array_next(&it, &element);) {
        if (!whole(&element, &n))
            return false;
        *out = !any || n > *out ? n : *out;
        any = true;
    }
    return any;
}

// In [absent < 0 ? 1 : 0, most]; `absent` below 0: the key is required.
static int64_t read_or(struct reader *r, const char *key, int64_t absent, int64_t most)
{
    const struct gguf_value *v = find(r, key);
    int64_t n = 1;
    if (r->rc || (!v && absent >= 0))
        return r->rc ? 1 : absent;
    if (!v) {
        r->rc = error_set(r->err, ERR_INPUT, r->path, "metadata \"%s.%s\" is missing", r->family, key);
        return 1;
    }
    if (!largest(v, &n) || n < (absent < 0) || n > most) {
        r->rc = error_set(r->err, ERR_INPUT, r->path, "metadata \"%s.%s\" must be a whole number from %d to %" PRId64,
                          r->family, key, absent < 0, most);
        return 1;
    }
    return n;
}

static int64_t vocabulary(struct reader *r)
{
    const struct gguf_value *tokens = gguf_find(r->g, "tokenizer.ggml.tokens");
    if (tokens && tokens->type == GGUF_ARRAY && tokens->count && tokens->count <= ARCH_MOST_ROWS)
        return (int64_t)tokens->count;
    return read_or(r, "vocab_size", 0, ARCH_MOST_ROWS);
}

// Which layers are local: an array of flags per layer, a period, or the family's own.
static void windows(struct reader *r, struct arch *a, uint8_t *flags, int64_t period)
{
    const struct gguf_value *pattern = find(r, "attention.sliding_window_pattern");
    a->window = read_or(r, "attention.sliding_window", 0, INT64_MAX);
    if (r->rc || !a->window)
        return;
    if (pattern && pattern->type == GGUF_ARRAY && pattern->count == (uint64_t)a->layers) {
        struct gguf_array it;
        struct gguf_value element;
        int64_t i = 0, on = 0;
        for (gguf_array_begin(&it, pattern); gguf_array_next(&it, &element) && i < a->layers; i++) {
            if (whole(&element, &on) && on)
                flags[i] |= ARCH_LOCAL;
        }
        return;
    }
    int64_t said = 0;
    if (pattern && whole(pattern, &said) && said > 0)
        period = said;
    for (int64_t i = 0; i < a->layers; i++)
        flags[i] |= period == 1 || (i + 1) % period ? ARCH_LOCAL : 0;
}

static void read_experts(struct reader *r, struct arch *a, uint8_t *flags)
{
    a->experts = read_or(r, "expert_count", 0, ARCH_MOST_EXPERTS);
    if (!a->experts)
        return;
    a->active_experts = read_or(r, "expert_used_count", 0, a->experts);
    a->expert_ffn = read_or(r, "expert_feed_forward_length", a->ffn, ARCH_MOST_WIDTH);
    a->shared_ffn = read_or(r, "expert_shared_count", 0, 1024) * a->expert_ffn;
    int64_t dense = read_or(r, "leading_dense_block_count", 0, a->layers);
    for (int64_t i = dense; i < a->layers && !r->rc; i++)
        flags[i] |= ARCH_MOE;
    if (!dense)
        a->ffn = 0;
}

static void read_attention(struct reader *r, struct arch *a)
{
    a->heads = read_or(r, "attention.head_count", -1, ARCH_MOST_WIDTH);
    a->kv_heads = read_or(r, "attention.head_count_kv", a->heads, ARCH_MOST_WIDTH);
    int64_t usual = a->hidden / a->heads;
    a->head_dim = read_or(r, "attention.key_length", usual, ARCH_MOST_WIDTH);
    a->v_head_dim = read_or(r, "attention.value_length", a->head_dim, ARCH_MOST_WIDTH);
    a->kv_lora = read_or(r, "attention.kv_lora_rank", 0, ARCH_MOST_WIDTH);
    if (a->kv_lora) {
        // Newer files describe the attention over the latent, and the model's own heads with _mla.
        a->rope_dim = read_or(r, "rope.dimension_count", -1, ARCH_MOST_WIDTH);
        a->head_dim = read_or(r, "attention.key_length_mla", a->head_dim, ARCH_MOST_WIDTH);
        a->v_head_dim = read_or(r, "attention.value_length_mla", a->v_head_dim, ARCH_MOST_WIDTH);
        a->kv_heads = a->heads;
    }
    if (!r->rc && (!a->kv_heads || !a->head_dim || !a->v_head_dim || a->heads % a->kv_heads))
        r->rc = error_set(r->err, ERR_INPUT, r->path,
                          "%" PRId64 " heads of queries cannot share %" PRId64 " heads of keys and values of %" PRId64,
                          a->heads, a->kv_heads, a->head_dim);
}

int arch_from_gguf(struct arch *a, const struct gguf *g, const char *path, struct arena *arena, struct error *err)
{
    const struct gguf_value *name = gguf_find(g, "general.architecture");
    struct reader r = {.g = g, .path = path, .err = err};
    const struct gguf_family *f = NULL;
    memset(a, 0, sizeof *a);
    if (!name || name->type != GGUF_STRING)
        return error_set(err, ERR_INPUT, path,
                         "metadata \"general.architecture\" is missing; --weights-only counts what "
                         "the file holds");
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strlen(families[i].name) == name->bytes && memcmp(families[i].name, name->data, name->bytes) == 0)
            f = &families[i];
    }
    if (!f)
        return error_set(err, ERR_INPUT, path,
                         "what \"%.*s\" is made of is not known (known: " FAMILIES
                         "); --weights-only counts what the file holds, --params N goes without it",
                         (int)(name->bytes < 40 ? name->bytes : 40), (const char *)name->data);
    r.family = f->name;
    a->kind = f->kind;
    a->family = f->name;
    a->gated = !f->plain_ffn;
    a->name = a->source = arena_strdup(arena, path, err);
    if (!a->name)
        return ERR_MEMORY;
    a->layers = read_or(&r, "block_count", -1, ARCH_MOST_LAYERS);
    a->hidden = read_or(&r, "embedding_length", -1, ARCH_MOST_WIDTH);
    a->ffn = read_or(&r, "feed_forward_length", 0, ARCH_MOST_WIDTH);
    a->max_positions = read_or(&r, "context_length", 0, INT64_MAX);
    a->vocab = vocabulary(&r);
    read_attention(&r, a);
    if (r.rc)
        return r.rc;
    uint8_t *flags = arena_new(arena, uint8_t, a->layers, err);
    if (!flags)
        return ERR_MEMORY;
    a->flags = flags;
    windows(&r, a, flags, f->period);
    read_experts(&r, a, flags);
    if (!arch_layers_local(a, 0, a->layers))
        a->window = 0;
    return r.rc;
}
