// SPDX-License-Identifier: Apache-2.0
#include "models/decoder.h"

#include <inttypes.h>
#include <stdio.h>

#include "models/latent.h"
#include "models/parts.h"

#define CACHE_NAME         "cache.%d.%s"
#define LAYER_INSTRUCTIONS 72 // about as many as a layer has

struct maker {
    struct builder b;
    const struct decoder_config *c;
    const struct decoder_build *how;
    int64_t tokens; // of a sequence that pass through the layers
    int table, cosine, sine, visible, position;
};

// "model.layers.3.self_attn." and the like.
static const char *layer_name(struct maker *k, int layer, const char *rest)
{
    const char *name = arena_printf(k->b.module->arena, &k->b.error, "%slayers.%d.%s", k->c->prefix, layer, rest);
    return name ? name : "";
}

static int rms(struct maker *k, int x, const char *tensor)
{
    int64_t n = builder_shape(&k->b, x)->dims[x < 0 ? 0 : builder_shape(&k->b, x)->rank - 1];
    return builder_store(&k->b, part_rms_norm(&k->b, x, build_weight(&k->b, tensor, SHAPE(DT_F32, n)), k->c->eps));
}

static int layer_norm_of(struct maker *k, int layer, int x, const char *which)
{
    builder_scope(&k->b, "norm", "layer.%d.%s", layer, which);
    char rest[64];
    snprintf(rest, sizeof rest, "%s.weight", which);
    return rms(k, x, layer_name(k, layer, rest));
}

// Queries or keys: columns [from, from + heads * head_dim) of the product, normalised and rotated.
static int turned(struct maker *k, int layer, int qkv, int64_t from, int64_t heads, const char *norm)
{
    struct builder *b = &k->b;
    int64_t dim = k->c->head_dim;
    int x = build_slice_axis(b, qkv, 2, from, from + heads * dim);
    x = build_reshape(b, x, 4, (int64_t[]){k->how->batch, k->tokens, heads, dim});
    if (k->c->qk_norm)
        x = rms(k, x, layer_name(k, layer, norm));
    return builder_store(b, part_rotate_half(b, x, k->cosine, k->sine));
}

// The values of this call [batch, tokens, heads, features] behind what a step's cache holds; else as they are, returned
// as the cache.
static int cached(struct maker *k, int layer, int x, const char *kind)
{
    struct builder *b = &k->b;
    char name[64];
    if (k->how->phase == DECODER_TAPS || x < 0)
        return x;
    snprintf(name, sizeof name, CACHE_NAME, layer, kind);
    if (k->how->phase == DECODER_STEP) {
        struct shape all = *builder_shape(b, x);
        all.dims[1] = k->how->seq;
        int zero = build_splat(b, SHAPE(DT_S32), 0);
        int old = build_parameter(b, ROLE_STATE, name, all, NULL);
        x = builder_store(b, build_dynamic_update_slice(b, old, x, (int[]){zero, k->position, zero, zero}));
    }
    return build_result(b, name, x);
}

static int from_latents(struct maker *k, int layer, int x)
{
    struct builder *b = &k->b;
    const struct decoder_config *c = k->c;
    int64_t nope = c->head_dim - c->rope_dim;
    struct latent l = {.heads = c->heads,
                       .nope = nope,
                       .rope = c->rope_dim,
                       .value = c->v_head_dim,
                       .lora = c->kv_lora,
                       .q_lora = c->q_lora,
                       .eps = c->eps,
                       .prefix = layer_name(k, layer, "self_attn.")};
    int h = layer_norm_of(k, layer, x, "input_layernorm");
    builder_scope(b, "qkv", "layer.%d.qkv", layer);
    struct latent_values v = latent_project(b, &l, h);
    builder_scope(b, "rope", "layer.%d.rope", layer);
    int turned = part_rotate_half(b, build_slice_axis(b, v.query, 3, nope, c->head_dim), k->cosine, k->sine);
    v.query = build_concatenate(b, (int[]){build_slice_axis(b, v.query, 3, 0, nope), turned}, 2, 3);
    v.query = builder_store(b, v.query);
    v.key = builder_store(b, part_rotate_half(b, v.key, k->cosine, k->sine));
    builder_scope(b, "attention", "layer.%d.attention", layer);
    v.latent = cached(k, layer, v.latent, "latent");
    v.key = cached(k, layer, v.key, "rope");
    int y = builder_store(b, latent_attention(b, &l, v, k->visible, k->how->phase == DECODER_STEP));
    builder_scope(b, "attention out", "layer.%d.attention.out", layer);
    y = part_linear(b, y, layer_name(k, layer, "self_attn.o_proj.weight"), c->hidden);
    return builder_store(b, build_binary(b, OP_ADD, x, y));
}

static int attention(struct maker *k, int layer, int x)
{
    static const char *const parts[] = {"q_proj", "k_proj", "v_proj"};
    struct builder *b = &k->b;
    const struct decoder_config *c = k->c;
    int64_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    if (c->kv_lora)
        return from_latents(k, layer, x);
    int h = layer_norm_of(k, layer, x, "input_layernorm");

    builder_scope(b, "qkv", "layer.%d.qkv", layer);
    int qkv = part_stacked_linear(b, h, layer_name(k, layer, "self_attn."), parts, (int64_t[]){q, kv, kv}, 3);
    qkv = builder_store(b, qkv);
    builder_scope(b, "rope", "layer.%d.rope", layer);
    int query = turned(k, layer, qkv, 0, c->heads, "self_attn.q_norm.weight");
    int key = turned(k, layer, qkv, q, c->kv_heads, "self_attn.k_norm.weight");
    if (!layer) {
        tap(b, k->how->also, TAPS_ALL, query, "layer.0.query");
        tap(b, k->how->also, TAPS_ALL, key, "layer.0.key");
    }
    builder_scope(b, "attention", "layer.%d.attention", layer);
    int value = build_slice_axis(b, qkv, 2, q + kv, q + 2 * kv);
    value = build_reshape(b, value, 4, (int64_t[]){k->how->batch, k->tokens, c->kv_heads, c->head_dim});
    key = cached(k, layer, key, "key");
    value = cached(k, layer, value, "value");
    int y = builder_store(b, part_attention(b, query, key, value, k->visible));
    builder_scope(b, "attention out", "layer.%d.attention.out", layer);
    y = part_linear(b, y, layer_name(k, layer, "self_attn.o_proj.weight"), c->hidden);
    if (!layer)
        tap(b, k->how->also, TAPS_ALL, y, "layer.0.attention");
    return builder_store(b, build_binary(b, OP_ADD, x, y));
}

static int mlp(struct maker *k, int layer, int x)
{
    static const char *const parts[] = {"gate_proj", "up_proj"};
    struct builder *b = &k->b;
    int64_t wide = k->c->intermediate;
    int h = layer_norm_of(k, layer, x, "post_attention_layernorm");
    if (k->c->experts.n && k->c->moe[layer] & ARCH_MOE) {
        h = experts_build(b, &k->c->experts, layer, layer_name(k, layer, "mlp."), h);
        return builder_store(b, build_binary(b, OP_ADD, x, h));
    }
    builder_scope(b, "mlp", "layer.%d.mlp.up", layer);
    h = part_stacked_linear(b, h, layer_name(k, layer, "mlp."), parts, (int64_t[]){wide, wide}, 2);
    h = builder_store(b, h);
    builder_scope(b, "gate", "layer.%d.mlp.gate", layer);
    h = builder_store(b, part_swiglu(b, h));
    builder_scope(b, "mlp", "layer.%d.mlp.down", layer);
    h = part_linear(b, h, layer_name(k, layer, "mlp.down_proj.weight"), k->c->hidden);
    return builder_store(b, build_binary(b, OP_ADD, x, h));
}

// pred [batch, queries, keys]: a key is not later than the query, and a token.
static int visible_keys(struct maker *k)
{
    struct builder *b = &k->b;
    int64_t batch = k->how->batch, seq = k->how->seq;
    builder_scope(b, "attention", "mask");
    if (k->how->phase == DECODER_STEP) {
        k->position = build_parameter(b, ROLE_INPUT, "position", SHAPE(DT_S32), NULL);
        struct shape all = SHAPE(DT_S32, batch, 1, seq);
        return build_compare(b, CMP_LE, build_iota(b, all, 2), build_broadcast(b, k->position, all, NULL));
    }
    struct shape all = SHAPE(DT_S32, batch, seq, seq);
    int mask = build_parameter(b, ROLE_INPUT, "attention_mask", SHAPE(DT_S32, batch, seq), NULL);
    int token = build_compare(b, CMP_NE, mask, build_splat(b, *builder_shape(b, mask), 0));
    int earlier = build_compare(b, CMP_LE, build_iota(b, all, 2), build_iota(b, all, 1));
    return build_binary(b, OP_AND, earlier, build_broadcast(b, token, shape_with_dtype(all, DT_PRED), (int[]){0, 2}));
}

static int check_sizes(const struct decoder_config *c, const struct decoder_build *how, struct error *err)
{
    if (how->batch < 1 || how->batch > 65536)
        return error_set(err, ERR_USAGE, "--batch", "must be from 1 to 65536, not %" PRId64, how->batch);
    if (how->seq < 1 || how->seq > 1 << 20)
        return error_set(err, ERR_USAGE, "--seq", "must be from 1 to %d tokens, not %" PRId64, 1 << 20, how->seq);
    if (c->window && how->seq > c->window)
        return error_set(err, ERR_USAGE, "--seq",
                         "%" PRId64 " tokens are more than the %" PRId64 " that a layer of this model sees (sliding "
                         "windows are not supported)",
                         how->seq, c->window);
    if (c->kv_heads < 1 || c->heads % c->kv_heads || c->head_dim < 2 || c->head_dim % 2)
        return error_set(err, ERR_INPUT, "config.json",
                         "%" PRId64 " heads do not share %" PRId64 " heads of keys evenly, or %" PRId64
                         " features of a head are not even",
                         c->heads, c->kv_heads, c->head_dim);
    for (int i = 0; i < how->n_taps; i++) {
        if (how->taps[i] < 1 || how->taps[i] > c->layers || (i && how->taps[i] <= how->taps[i - 1]))
            return error_set(err, ERR_USAGE, "taps", "%d: the model has layers 1 to %" PRId64, how->taps[i], c->layers);
    }
    return 0;
}

// Logits of the last token of every sequence.
static void head(struct maker *k, int x)
{
    struct builder *b = &k->b;
    const struct decoder_config *c = k->c;
    char name[80];
    builder_scope(b, "norm", "norm");
    x = build_slice_axis(b, x, 1, k->tokens - 1, k->tokens);
    x = build_reshape(b, x, 2, (int64_t[]){k->how->batch, c->hidden});
    snprintf(name, sizeof name, "%snorm.weight", c->prefix);
    x = rms(k, x, name);
    builder_scope(b, "head", "head");
    x = c->tied ? build_linear(b, x, k->table, DT_F32) : part_linear(b, x, "lm_head.weight", c->vocab);
    build_result(b, "logits", x);
}

static int inputs(struct maker *k)
{
    struct builder *b = &k->b;
    const struct decoder_config *c = k->c;
    char name[80];
    struct shape table = SHAPE(DT_F32, k->tokens, (c->kv_lora ? c->rope_dim : c->head_dim) / 2);
    int ids = build_parameter(b, ROLE_INPUT, "input_ids", SHAPE(DT_S32, k->how->batch, k->tokens), NULL);
    k->visible = visible_keys(k);
    k->cosine = build_parameter(b, ROLE_INPUT, "rope_cos", table, NULL);
    k->sine = build_parameter(b, ROLE_INPUT, "rope_sin", table, NULL);
    builder_scope(b, "embedding", "embedding");
    snprintf(name, sizeof name, "%sembed_tokens.weight", c->prefix);
    k->table = build_weight(b, name, SHAPE(DT_F32, c->vocab, c->hidden));
    return builder_store(b, build_gather(b, k->table, ids));
}

int decoder_module(const struct decoder_config *c, const struct decoder_build *how, struct module *m, struct error *err)
{
    struct maker k = {.c = c, .how = how, .tokens = how->phase == DECODER_STEP ? 1 : how->seq};
    int rc = check_sizes(c, how, err), taps[DECODER_MAX_TAPS], n = 0;
    if (rc)
        return rc;
    builder_init(&k.b, m);
    builder_reserve(&k.b, (size_t)c->layers * LAYER_INSTRUCTIONS + 64);
    int x = tap(&k.b, how->also, TAPS_ALL, inputs(&k), "embedding");
    int layers = how->phase == DECODER_TAPS && how->n_taps ? how->taps[how->n_taps - 1] : (int)c->layers;
    for (int i = 0; i < layers; i++) {
        x = tap(&k.b, how->also, TAPS_LAYERS, mlp(&k, i, attention(&k, i, x)), "layer.%d", i);
        if (n < how->n_taps && how->taps[n] == i + 1)
            taps[n++] = x;
    }
    if (how->phase == DECODER_TAPS) {
        builder_scope(&k.b, "taps", "taps");
        build_result(&k.b, "context", n ? build_concatenate(&k.b, taps, n, 2) : x);
    } else {
        head(&k, x);
    }
    return builder_finish(&k.b, err);
}

void decoder_rope(const struct decoder_config *c, int64_t first, int64_t n, float *cosine, float *sine)
{
    int64_t half = c->head_dim / 2, at = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < half; k++, at++)
            part_rope_angle((double)(first + i), k, c->head_dim, c->rope_theta, &cosine[at], &sine[at]);
    }
}
