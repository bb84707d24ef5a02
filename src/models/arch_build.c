// SPDX-License-Identifier: Apache-2.0
#include "models/arch_build.h"

// Where tensors go, until the first that fails.
struct sink {
    struct arch *a;
    struct arena *arena;
    struct error *err;
    enum arch_where where;
    int rc;
};

static void add(struct sink *s, const char *name, enum arch_part part, enum arch_split split, int64_t rows,
                int64_t cols, int64_t each)
{
    if (!s->rc && rows && each)
        s->rc = arch_add(s->a, s->arena, (struct arch_tensor){name, part, split, s->where, rows, cols, each}, s->err);
}

static void add_norm(struct sink *s, const char *name, const struct arch_traits *t, int64_t size, int64_t each)
{
    add(s, name, ARCH_NORM, ARCH_WHOLE, size, 0, each);
    if (t->layer_norm)
        add(s, "norm_bias", ARCH_NORM, ARCH_WHOLE, size, 0, each);
}

static void plain_attention(struct sink *s, const struct arch_traits *t)
{
    const struct arch *a = s->a;
    int64_t q = a->heads * a->head_dim, k = a->kv_heads * a->head_dim, v = a->kv_heads * a->v_head_dim;
    int64_t o = a->heads * a->v_head_dim;
    add(s, "q_proj", ARCH_ATTENTION, ARCH_HEADS, q, a->hidden, 1);
    add(s, "k_proj", ARCH_ATTENTION, ARCH_KV_HEADS, k, a->hidden, 1);
    add(s, "v_proj", ARCH_ATTENTION, ARCH_KV_HEADS, v, a->hidden, 1);
    add(s, "o_proj", ARCH_ATTENTION, ARCH_HEADS, a->hidden, o, 1);
    if (t->qkv_bias) {
        add(s, "q_bias", ARCH_ATTENTION, ARCH_HEADS, q, 0, 1);
        add(s, "k_bias", ARCH_ATTENTION, ARCH_KV_HEADS, k, 0, 1);
        add(s, "v_bias", ARCH_ATTENTION, ARCH_KV_HEADS, v, 0, 1);
    }
    if (t->o_bias)
        add(s, "o_bias", ARCH_ATTENTION, ARCH_WHOLE, a->hidden, 0, 1);
    if (t->sinks)
        add(s, "sinks", ARCH_ATTENTION, ARCH_HEADS, a->heads, 0, 1);
    if (t->qk_norm)
        add(s, "qk_norm", ARCH_NORM, ARCH_WHOLE, a->head_dim, 0, 2);
    if (t->qk_norm_full) {
        add(s, "q_norm", ARCH_NORM, ARCH_HEADS, q, 0, 1);
        add(s, "k_norm", ARCH_NORM, ARCH_KV_HEADS, k, 0, 1);
    }
}

// DeepSeek V2 and V3: keys and values of all heads come from a common latent of kv_lora, and rope_dim shared by heads.
static void latent_attention(struct sink *s, const struct arch_traits *t)
{
    const struct arch *a = s->a;
    int64_t q = a->heads * a->head_dim, nope = a->head_dim - a->rope_dim;
    if (t->q_lora) {
        add(s, "q_a_proj", ARCH_ATTENTION, ARCH_WHOLE, t->q_lora, a->hidden, 1);
        add(s, "q_a_norm", ARCH_NORM, ARCH_WHOLE, t->q_lora, 0, 1);
        add(s, "q_b_proj", ARCH_ATTENTION, ARCH_HEADS, q, t->q_lora, 1);
    } else {
        add(s, "q_proj", ARCH_ATTENTION, ARCH_HEADS, q, a->hidden, 1);
    }
    add(s, "kv_a_proj", ARCH_ATTENTION, ARCH_WHOLE, a->kv_lora + a->rope_dim, a->hidden, 1);
    add(s, "kv_a_norm", ARCH_NORM, ARCH_WHOLE, a->kv_lora, 0, 1);
    add(s, "kv_b_proj", ARCH_ATTENTION, ARCH_HEADS, a->heads * (nope + a->v_head_dim), a->kv_lora, 1);
    add(s, "o_proj", ARCH_ATTENTION, ARCH_HEADS, a->hidden, a->heads * a->v_head_dim, 1);
    if (t->qkv_bias) {
        if (t->q_lora)
            add(s, "q_a_bias", ARCH_ATTENTION, ARCH_WHOLE, t->q_lora, 0, 1);
        add(s, "kv_a_bias", ARCH_ATTENTION, ARCH_WHOLE, a->kv_lora + a->rope_dim, 0, 1);
    }
    if (t->o_bias)
        add(s, "o_bias", ARCH_ATTENTION, ARCH_WHOLE, a->hidden, 0, 1);
}

static void ffn(struct sink *s, const struct arch_traits *t, enum arch_part part, int64_t columns, int64_t each)
{
    const struct arch *a = s->a;
    bool bias = part == ARCH_EXPERT ? t->expert_bias : t->mlp_bias;
    int64_t ups = a->gated ? 2 : 1;
    add(s, "up_proj", part, ARCH_COLUMNS, columns, a->hidden, ups * each);
    add(s, "down_proj", part, ARCH_COLUMNS, a->hidden, columns, each);
    if (bias) {
        add(s, "up_bias", part, ARCH_COLUMNS, columns, 0, ups * each);
        add(s, "down_bias", part, ARCH_WHOLE, a->hidden, 0, each);
    }
}

static void experts(struct sink *s, const struct arch_traits *t)
{
    const struct arch *a = s->a;
    // Gate and up of one expert are one tensor here, so that there are as many of each as there are experts.
    int64_t up = (a->gated ? 2 : 1) * a->expert_ffn;
    s->where = ARCH_MOE_LAYERS;
    add(s, "router", ARCH_ROUTER, ARCH_WHOLE, a->experts, a->hidden, 1);
    if (t->router_bias)
        add(s, "router_bias", ARCH_ROUTER, ARCH_WHOLE, a->experts, 0, 1);
    add(s, "experts.up_proj", ARCH_EXPERT, ARCH_COLUMNS, up, a->hidden, a->experts);
    add(s, "experts.down_proj", ARCH_EXPERT, ARCH_COLUMNS, a->hidden, a->expert_ffn, a->experts);
    if (t->expert_bias) {
        add(s, "experts.up_bias", ARCH_EXPERT, ARCH_COLUMNS, up, 0, a->experts);
        add(s, "experts.down_bias", ARCH_EXPERT, ARCH_WHOLE, a->hidden, 0, a->experts);
    }
    if (t->shared_hidden)
        ffn(s, t, ARCH_SHARED, t->shared_hidden, 1);
    if (t->shared_gate)
        add(s, "shared_gate", ARCH_SHARED, ARCH_WHOLE, 1, a->hidden, 1);
}

int arch_build(struct arch *a, const struct arch_traits *t, struct arena *arena, struct error *err)
{
    struct sink s = {.a = a, .arena = arena, .err = err, .where = ARCH_FIRST};
    a->shared_ffn = t->shared_hidden;
    add(&s, "embed_tokens", ARCH_EMBEDDING, ARCH_VOCAB, a->vocab, a->hidden, 1);
    add(&s, "embed_positions", ARCH_EMBEDDING, ARCH_WHOLE, t->positions, a->hidden, 1);
    add(&s, "embed_types", ARCH_EMBEDDING, ARCH_WHOLE, t->token_types, a->hidden, 1);
    if (t->embedding_norm)
        add_norm(&s, "embed_norm", t, a->hidden, 1);
    s.where = ARCH_EVERY_LAYER;
    if (a->kv_lora)
        latent_attention(&s, t);
    else
        plain_attention(&s, t);
    add_norm(&s, "norm", t, a->hidden, t->norms);
    s.where = ARCH_DENSE_LAYERS;
    ffn(&s, t, ARCH_MLP, a->ffn, 1);
    if (a->experts)
        experts(&s, t);
    s.where = ARCH_LAST;
    if (t->final_norm)
        add_norm(&s, "final_norm", t, a->hidden, 1);
    if (t->pooler) {
        add(&s, "pooler", ARCH_HEAD, ARCH_WHOLE, a->hidden, a->hidden, 1);
        add(&s, "pooler_bias", ARCH_HEAD, ARCH_WHOLE, a->hidden, 0, 1);
    }
    if (a->kind == ARCH_DECODER && !a->tied)
        add(&s, "lm_head", ARCH_HEAD, ARCH_VOCAB, a->vocab, a->hidden, 1);
    return s.rc ? s.rc : arch_finish(a, err);
}
