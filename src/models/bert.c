// SPDX-License-Identifier: Apache-2.0
#include "models/bert.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/parts.h"

int bert_open(struct bert *b, const char *directory, struct error *err)
{
    struct hf_config config;
    memset(b, 0, sizeof *b);
    b->prefix = "";
    int rc = hf_config_open(&config, directory, err);
    if (rc)
        return rc;
    rc = hf_config_bert(&config, &b->config, err);
    hf_config_release(&config);
    return rc ? rc : sentence_config_open(&b->sentence, directory, err);
}

void bert_minilm(struct bert *b)
{
    memset(b, 0, sizeof *b);
    b->prefix = "";
    b->config = (struct bert_config){.hidden_size = 384,
                                     .num_hidden_layers = 6,
                                     .num_attention_heads = 12,
                                     .intermediate_size = 1536,
                                     .vocab_size = 30522,
                                     .max_position_embeddings = 512,
                                     .type_vocab_size = 2,
                                     .layer_norm_eps = 1e-12,
                                     .hidden_act = HF_GELU};
    b->sentence = (struct sentence_config){.pooling = POOLING_MEAN, .normalize = true, .max_seq_length = 256};
}

int bert_bind(struct bert *b, const struct checkpoint *c, struct error *err)
{
    static const char probe[] = "bert.embeddings.word_embeddings.weight";
    if (checkpoint_find(c, probe + 5))
        b->prefix = "";
    else if (checkpoint_find(c, probe))
        b->prefix = "bert.";
    else {
        const struct tensor_view *v;
        return checkpoint_require(c, probe + 5, &v, err);
    }
    return 0;
}

struct maker {
    struct builder b;
    const struct bert *bert;
    int64_t batch, seq, hidden, heads, head;
};

static int weight(struct maker *k, const char *name, struct shape shape)
{
    char full[256];
    snprintf(full, sizeof full, "%s%s", k->bert->prefix, name);
    return build_weight(&k->b, full, shape);
}

static int layer_weight(struct maker *k, int layer, const char *name, struct shape shape)
{
    char full[256];
    snprintf(full, sizeof full, "encoder.layer.%d.%s", layer, name);
    return weight(k, full, shape);
}

// Query, key and value as one weight of three times the rows: one product in place of three.
static int stacked(struct maker *k, int layer, const char *kind, struct shape shape)
{
    static const char *const parts[] = {"query", "key", "value"};
    struct binding bind = {.n_sources = 3, .store = DT_F32, .part = BIND_VALUES};
    for (int i = 0; i < 3; i++)
        bind.sources[i] = arena_printf(k->b.module->arena, &k->b.error, "%sencoder.layer.%d.attention.self.%s.%s",
                                       k->bert->prefix, layer, parts[i], kind);
    return k->b.error.code ? -1 : build_parameter(&k->b, ROLE_WEIGHT, bind.sources[0], shape, &bind);
}

// (x - mean) / sqrt(variance + eps) * gamma + beta over the last dimension; the variance is that of the population.
static int layer_norm(struct maker *k, int x, int gamma, int beta)
{
    struct builder *b = &k->b;
    int y = part_layer_norm(b, x, k->bert->config.layer_norm_eps);
    b->domain = DOMAIN_NORM;
    y = build_binary(b, OP_MULTIPLY, y, build_broadcast_trailing(b, gamma, y));
    y = part_add_bias(b, y, beta);
    b->domain = DOMAIN_GENERAL;
    return builder_store(b, y);
}

static int layer_norm_of(struct maker *k, int x, const char *name)
{
    char full[256];
    struct shape vector = SHAPE(DT_F32, k->hidden);
    snprintf(full, sizeof full, "%s.weight", name);
    int gamma = weight(k, full, vector);
    snprintf(full, sizeof full, "%s.bias", name);
    return layer_norm(k, x, gamma, weight(k, full, vector));
}

static int embeddings(struct maker *k, int ids)
{
    struct builder *b = &k->b;
    const struct bert_config *c = &k->bert->config;
    builder_scope(b, "embedding", "embedding");
    int words = weight(k, "embeddings.word_embeddings.weight", SHAPE(DT_F32, c->vocab_size, k->hidden));
    int positions =
        weight(k, "embeddings.position_embeddings.weight", SHAPE(DT_F32, c->max_position_embeddings, k->hidden));
    int segments = weight(k, "embeddings.token_type_embeddings.weight", SHAPE(DT_F32, c->type_vocab_size, k->hidden));
    int x = build_reshape(b, build_gather(b, words, ids), 3, (int64_t[]){k->batch, k->seq, k->hidden});
    int segment = build_reshape(b, build_slice_axis(b, segments, 0, 0, 1), 1, &k->hidden);
    x = build_binary(b, OP_ADD, x, build_broadcast_trailing(b, segment, x));
    x = build_binary(b, OP_ADD, x, build_broadcast_trailing(b, build_slice_axis(b, positions, 0, 0, k->seq), x));
    x = build_reshape(b, x, 2, (int64_t[]){k->batch * k->seq, k->hidden});
    builder_scope(b, "norms", "embedding.norm");
    return layer_norm_of(k, builder_store(b, x), "embeddings.LayerNorm");
}

// The mask as something to add to scores: 0 on tokens, the lowest finite value on padding. [batch, seq]
static int mask_bias(struct maker *k, int mask)
{
    struct builder *b = &k->b;
    struct shape s = SHAPE(DT_F32, k->batch, k->seq);
    builder_scope(b, "scores and values", "mask");
    b->domain = DOMAIN_SOFTMAX;
    int is_token = build_compare(b, CMP_NE, mask, build_splat(b, *builder_shape(b, mask), 0));
    return build_select(b, is_token, build_splat(b, s, 0), build_symbol(b, s, CONST_LOWEST));
}

static int attention(struct maker *k, int layer, int x, int bias)
{
    struct builder *b = &k->b;
    int64_t h = k->hidden, split[4] = {k->batch, k->seq, k->heads, k->head};
    builder_scope(b, "attention projections", "layer.%d.attention.qkv", layer);
    int w = stacked(k, layer, "weight", SHAPE(DT_F32, 3 * h, h)), wb = stacked(k, layer, "bias", SHAPE(DT_F32, 3 * h));
    int qkv = builder_store(b, part_add_bias(b, build_linear(b, x, w, DT_F32), wb));

    builder_scope(b, "scores and values", "layer.%d.attention.scores", layer);
    int part[3];
    for (int i = 0; i < 3; i++)
        part[i] = build_reshape(b, build_slice_axis(b, qkv, 1, i * h, (i + 1) * h), 4, split);
    int scores = build_dot(b, part[0], part[1], 2, (int[]){0, 2}, (int[]){0, 2}, 1, (int[]){3}, (int[]){3}, DT_F32);
    b->domain = DOMAIN_SOFTMAX;
    scores = build_binary_scalar(b, OP_MULTIPLY, scores, 1 / sqrt((double)k->head));
    scores = build_binary(b, OP_ADD, scores, build_broadcast(b, bias, *builder_shape(b, scores), (int[]){0, 3}));
    int p = builder_store(b, part_softmax(b, scores));
    b->domain = DOMAIN_GENERAL;
    int context = build_dot(b, p, part[2], 2, (int[]){0, 1}, (int[]){0, 2}, 1, (int[]){3}, (int[]){1}, DT_F32);
    context = build_transpose(b, context, (int[]){0, 2, 1, 3});
    context = builder_store(b, build_reshape(b, context, 2, (int64_t[]){k->batch * k->seq, h}));

    builder_scope(b, "attention projections", "layer.%d.attention.output", layer);
    w = layer_weight(k, layer, "attention.output.dense.weight", SHAPE(DT_F32, h, h));
    wb = layer_weight(k, layer, "attention.output.dense.bias", SHAPE(DT_F32, h));
    int y = part_add_bias(b, build_linear(b, context, w, DT_F32), wb);
    return builder_store(b, build_binary(b, OP_ADD, y, x));
}

static int activation(struct builder *b, enum hf_activation kind, int x)
{
    switch (kind) {
    case HF_RELU:
        return build_binary_scalar(b, OP_MAXIMUM, x, 0);
    case HF_SILU:
        return part_silu(b, x);
    case HF_TANH:
        return build_unary(b, OP_TANH, x);
    case HF_GELU_TANH:
        return part_gelu_tanh(b, x);
    case HF_GELU:
        break;
    }
    // 0.5 x (1 + erf(x / sqrt 2))
    int e = build_unary(b, OP_ERF, build_binary_scalar(b, OP_MULTIPLY, x, sqrt(0.5)));
    return build_binary(b, OP_MULTIPLY, build_binary_scalar(b, OP_MULTIPLY, x, 0.5),
                        build_binary_scalar(b, OP_ADD, e, 1));
}

static int mlp(struct maker *k, int layer, int x)
{
    struct builder *b = &k->b;
    int64_t h = k->hidden, wide = k->bert->config.intermediate_size;
    builder_scope(b, "MLP", "layer.%d.mlp.up", layer);
    int w = layer_weight(k, layer, "intermediate.dense.weight", SHAPE(DT_F32, wide, h));
    int wb = layer_weight(k, layer, "intermediate.dense.bias", SHAPE(DT_F32, wide));
    int y = part_add_bias(b, build_linear(b, x, w, DT_F32), wb);
    y = builder_store(b, activation(b, k->bert->config.hidden_act, y));
    builder_scope(b, "MLP", "layer.%d.mlp.down", layer);
    w = layer_weight(k, layer, "output.dense.weight", SHAPE(DT_F32, h, wide));
    wb = layer_weight(k, layer, "output.dense.bias", SHAPE(DT_F32, h));
    y = part_add_bias(b, build_linear(b, y, w, DT_F32), wb);
    return builder_store(b, build_binary(b, OP_ADD, y, x));
}

static int encoder_layer(struct maker *k, int layer, int x, int bias)
{
    char name[64];
    x = attention(k, layer, x, bias);
    builder_scope(&k->b, "norms", "layer.%d.attention.norm", layer);
    snprintf(name, sizeof name, "encoder.layer.%d.attention.output.LayerNorm", layer);
    x = layer_norm_of(k, x, name);
    x = mlp(k, layer, x);
    builder_scope(&k->b, "norms", "layer.%d.mlp.norm", layer);
    snprintf(name, sizeof name, "encoder.layer.%d.output.LayerNorm", layer);
    return layer_norm_of(k, x, name);
}

// [batch, seq, hidden] and the mask to [batch, hidden]. The divisors' floors are those of sentence-transformers.
static int pool(struct maker *k, int x, int mask)
{
    struct builder *b = &k->b;
    int one = 1;
    builder_scope(b, "pooling", "pooling");
    if (k->bert->sentence.pooling == POOLING_CLS) {
        x = build_reshape(b, build_slice_axis(b, x, 1, 0, 1), 2, (int64_t[]){k->batch, k->hidden});
    } else {
        int m = build_broadcast_leading(b, build_convert(b, mask, DT_F32), x);
        if (k->bert->sentence.pooling == POOLING_MAX) {
            int low = build_splat(b, *builder_shape(b, x), -1e9);
            int is_token = build_compare(b, CMP_NE, m, build_splat(b, *builder_shape(b, x), 0));
            x = build_reduce(b, OP_MAXIMUM, build_select(b, is_token, x, low), &one, 1);
        } else {
            int n = build_binary_scalar(b, OP_MAXIMUM, build_reduce(b, OP_ADD, m, &one, 1), 1e-9);
            if (k->bert->sentence.pooling == POOLING_MEAN_SQRT_LENGTH)
                n = build_unary(b, OP_SQRT, n);
            x = build_binary(b, OP_DIVIDE, build_reduce(b, OP_ADD, build_binary(b, OP_MULTIPLY, x, m), &one, 1), n);
        }
    }
    if (!k->bert->sentence.normalize)
        return x;
    int norm = build_unary(b, OP_SQRT, build_reduce(b, OP_ADD, build_binary(b, OP_MULTIPLY, x, x), &one, 1));
    norm = build_binary_scalar(b, OP_MAXIMUM, norm, 1e-12);
    return build_binary(b, OP_DIVIDE, x, build_broadcast_leading(b, norm, x));
}

static int tap(struct maker *k, const char *name, int x)
{
    return build_result(&k->b, name, build_reshape(&k->b, x, 3, (int64_t[]){k->batch, k->seq, k->hidden}));
}

static int check_sizes(const struct bert *b, const struct bert_build *how, struct error *err)
{
    if (how->first_layer >= 0 && (how->last_layer < how->first_layer || how->last_layer >= b->config.num_hidden_layers))
        return error_set(err, ERR_USAGE, "layers", "%d to %d: the model has layers 0 to %" PRId64, how->first_layer,
                         how->last_layer, b->config.num_hidden_layers - 1);
    if (how->batch < 1 || how->batch > 65536)
        return error_set(err, ERR_USAGE, "--batch", "must be from 1 to 65536, not %" PRId64, how->batch);
    if (how->seq < 2 || how->seq > b->config.max_position_embeddings)
        return error_set(err, ERR_USAGE, "--seq", "must be from 2 to the model's %" PRId64 " positions, not %" PRId64,
                         b->config.max_position_embeddings, how->seq);
    return 0;
}

int bert_module(const struct bert *bert, const struct bert_build *how, struct module *m, struct error *err)
{
    const struct bert_config *c = &bert->config;
    struct maker k = {.bert = bert,
                      .batch = how->batch,
                      .seq = how->seq,
                      .hidden = c->hidden_size,
                      .heads = c->num_attention_heads,
                      .head = c->hidden_size / c->num_attention_heads};
    int rc = check_sizes(bert, how, err);
    if (rc)
        return rc;
    builder_init(&k.b, m);
    struct shape tokens = SHAPE(DT_S32, k.batch, k.seq);
    bool part = how->first_layer >= 0;
    int first = part ? how->first_layer : 0, last = part ? how->last_layer : (int)c->num_hidden_layers - 1;
    int ids = part ? build_parameter(&k.b, ROLE_INPUT, "hidden", SHAPE(DT_F32, k.batch, k.seq, k.hidden), NULL)
                   : build_parameter(&k.b, ROLE_INPUT, "input_ids", tokens, NULL);
    int mask = build_parameter(&k.b, ROLE_INPUT, "attention_mask", tokens, NULL);
    int bias = mask_bias(&k, mask);
    int x;
    if (part) {
        builder_scope(&k.b, "embedding", "hidden");
        x = builder_store(&k.b, build_reshape(&k.b, ids, 2, (int64_t[]){k.batch * k.seq, k.hidden}));
    } else {
        x = embeddings(&k, ids);
    }
    if (how->taps)
        tap(&k, "embeddings", x);
    for (int i = first; i <= last; i++) {
        char name[32];
        x = encoder_layer(&k, i, x, bias);
        snprintf(name, sizeof name, "layer.%d", i);
        if (how->taps)
            tap(&k, name, x);
    }
    int full = build_reshape(&k.b, x, 3, (int64_t[]){k.batch, k.seq, k.hidden});
    build_result(&k.b, part ? "hidden" : "embedding", part ? full : pool(&k, full, mask));
    return builder_finish(&k.b, err);
}

int64_t bert_parameters(const struct module *m)
{
    int64_t n = 0;
    for (int i = 0; i < m->n_parameters; i++) {
        if (m->parameters[i].role == ROLE_WEIGHT && m->parameters[i].binding.part != BIND_SCALES)
            n += shape_elements(&m->instructions[m->parameters[i].instruction].shape);
    }
    return n;
}
