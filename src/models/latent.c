// SPDX-License-Identifier: Apache-2.0
#include "models/latent.h"

#include <math.h>

#include "models/parts.h"

static const char *name_of(struct builder *b, const struct latent *l, const char *rest)
{
    const char *name = arena_printf(b->module->arena, &b->error, "%s%s", l->prefix, rest);
    return name ? name : "";
}

static int norm(struct builder *b, const struct latent *l, int x, const char *tensor, int64_t size)
{
    b->domain = DOMAIN_NORM;
    x = part_rms_norm(b, x, build_weight(b, name_of(b, l, tensor), SHAPE(DT_F32, size)), l->eps);
    b->domain = DOMAIN_GENERAL;
    return builder_store(b, x);
}

struct latent_values latent_project(struct builder *b, const struct latent *l, int x)
{
    struct latent_values v;
    struct shape s = *builder_shape(b, x);
    int64_t batch = s.dims[0], tokens = s.dims[1], width = l->heads * (l->nope + l->rope);
    if (l->q_lora) {
        int low = builder_store(b, part_linear(b, x, name_of(b, l, "q_a_proj.weight"), l->q_lora));
        low = norm(b, l, low, "q_a_layernorm.weight", l->q_lora);
        v.query = part_linear(b, low, name_of(b, l, "q_b_proj.weight"), width);
    } else {
        v.query = part_linear(b, x, name_of(b, l, "q_proj.weight"), width);
    }
    v.query = build_reshape(b, builder_store(b, v.query), 4, (int64_t[]){batch, tokens, l->heads, l->nope + l->rope});
    int both = builder_store(b, part_linear(b, x, name_of(b, l, "kv_a_proj_with_mqa.weight"), l->lora + l->rope));
    v.key = build_slice_axis(b, both, 2, l->lora, l->lora + l->rope);
    v.key = build_reshape(b, v.key, 4, (int64_t[]){batch, tokens, 1, l->rope});
    v.latent = norm(b, l, build_slice_axis(b, both, 2, 0, l->lora), "kv_a_layernorm.weight", l->lora);
    v.latent = build_reshape(b, v.latent, 4, (int64_t[]){batch, tokens, 1, l->lora});
    return v;
}

static int of_prompt(struct builder *b, const struct latent *l, struct latent_values v, int visible)
{
    struct shape s = *builder_shape(b, v.latent);
    int64_t batch = s.dims[0], keys = s.dims[1];
    int flat = build_reshape(b, v.latent, 3, (int64_t[]){batch, keys, l->lora});
    int both = part_linear(b, flat, name_of(b, l, "kv_b_proj.weight"), l->heads * (l->nope + l->value));
    both = build_reshape(b, builder_store(b, both), 4, (int64_t[]){batch, keys, l->heads, l->nope + l->value});
    int key = build_reshape(b, v.key, 3, (int64_t[]){batch, keys, l->rope});
    key = build_broadcast(b, key, SHAPE(DT_F32, batch, keys, l->heads, l->rope), (int[]){0, 1, 3});
    key = build_concatenate(b, (int[]){build_slice_axis(b, both, 3, 0, l->nope), key}, 2, 3);
    int value = build_slice_axis(b, both, 3, l->nope, l->nope + l->value);
    return part_attention(b, v.query, key, value, visible);
}

// x [batch, tokens, heads, from] by each head's matrix [heads, ...], whose dimension `contract` is `from`.
static int by_heads(struct builder *b, int x, int w, int contract)
{
    int y = build_dot(b, x, w, 1, (int[]){2}, (int[]){0}, 1, (int[]){3}, &contract, DT_F32);
    return builder_store(b, build_transpose(b, y, (int[]){1, 2, 0, 3}));
}

static int of_step(struct builder *b, const struct latent *l, struct latent_values v, int visible)
{
    struct shape s = *builder_shape(b, v.query);
    int64_t batch = s.dims[0], tokens = s.dims[1], each = l->nope + l->value;
    int w = build_weight(b, name_of(b, l, "kv_b_proj.weight"), SHAPE(DT_F32, l->heads * each, l->lora));
    w = build_reshape(b, w, 3, (int64_t[]){l->heads, each, l->lora});
    int query = build_slice_axis(b, v.query, 3, 0, l->nope);
    query = by_heads(b, query, build_slice_axis(b, w, 1, 0, l->nope), 1);
    query = build_concatenate(b, (int[]){query, build_slice_axis(b, v.query, 3, l->nope, l->nope + l->rope)}, 2, 3);
    // part_attention divides by the root of the features it sees.
    query = build_binary_scalar(b, OP_MULTIPLY, query, sqrt((double)(l->lora + l->rope) / (double)(l->nope + l->rope)));
    int keys = build_concatenate(b, (int[]){v.latent, v.key}, 2, 3);
    int y = part_attention(b, query, keys, v.latent, visible);
    y = build_reshape(b, builder_store(b, y), 4, (int64_t[]){batch, tokens, l->heads, l->lora});
    y = by_heads(b, y, build_slice_axis(b, w, 1, l->nope, each), 2);
    return build_reshape(b, y, 3, (int64_t[]){batch, tokens, l->heads * l->value});
}

int latent_attention(struct builder *b, const struct latent *l, struct latent_values v, int visible, bool step)
{
    return step ? of_step(b, l, v, visible) : of_prompt(b, l, v, visible);
}
