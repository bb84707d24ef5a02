// SPDX-License-Identifier: Apache-2.0
// The diffusion transformer of FLUX.2, and the text encoder's place in front of it.
#include "models/flux2.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "models/parts.h"

#define DOUBLE_QKV "double: qkv"
#define DOUBLE_OUT "double: attention out"
#define DOUBLE_MLP "double: mlp"
#define LINEAR_1   "single: linear1"
#define LINEAR_2   "single: linear2"
#define MODULATE   "modulate and gate"

// Vectors that a stream's tokens share in a step: (1 + scale) norm(x) + shift, and x + gate * y.
struct modulation {
    int shift, scale, gate;
};

struct maker {
    struct builder b;
    const struct flux2_dit_config *c;
    int64_t batch, text, image, hidden; // image: tokens, references included
    int64_t steps;                      // whose modulations are inputs; 0: they are made here
    int64_t kept;                       // tokens of references, whose keys and values are inputs
    int keys, values;                   // these: [blocks, tokens, heads, head_dim]
    int (*made)[2];                     // NULL, or where keys and values of every block go; there is no text then
    enum dtype handed, latent;
    enum taps also;
    int cosine, sine;
};

// A name with a number in it, or "" after a failure.
static const char *named(struct maker *k, const char *fmt, int i, const char *rest)
{
    const char *name = arena_printf(k->b.module->arena, &k->b.error, "%s.%d.%s", fmt, i, rest);
    return name ? name : "";
}

static int linear(struct maker *k, int x, const char *name, int64_t out)
{
    return builder_store(&k->b, part_linear(&k->b, x, name, out));
}

// x [batch, tokens, hidden] combined with a vector per image, or with one of all images.
static int over_tokens(struct maker *k, int vector, int x)
{
    const struct shape like = *builder_shape(&k->b, x);
    if (!k->steps)
        return build_broadcast(&k->b, vector, like, (int[]){0, 2});
    vector = build_reshape(&k->b, vector, 1, (int64_t[]){k->hidden});
    return build_broadcast(&k->b, vector, like, (int[]){2});
}

static int modulate(struct maker *k, int x, struct modulation m)
{
    struct builder *b = &k->b;
    int scale = over_tokens(k, build_binary_scalar(b, OP_ADD, m.scale, 1), x);
    return builder_store(b,
                         build_binary(b, OP_ADD, build_binary(b, OP_MULTIPLY, x, scale), over_tokens(k, m.shift, x)));
}

static int add_gated(struct maker *k, int x, int gate, int y)
{
    struct builder *b = &k->b;
    return builder_store(b, build_binary(b, OP_ADD, x, build_binary(b, OP_MULTIPLY, over_tokens(k, gate, y), y)));
}

static int norm(struct maker *k, int x)
{
    return builder_store(&k->b, part_layer_norm(&k->b, x, k->c->eps));
}

// Norm and modulation, each a row of its own.
static int adapt(struct maker *k, int x, struct modulation m, const char *where)
{
    builder_scope(&k->b, "norm", "%s.norm", where);
    x = norm(k, x);
    builder_scope(&k->b, MODULATE, "%s.modulate", where);
    return modulate(k, x, m);
}

// Part i of n of the last dimension of a vector per image, or of tokens.
static int part(struct maker *k, int x, int i, int n)
{
    int last = builder_shape(&k->b, x)->rank - 1;
    int64_t wide = x < 0 ? 0 : builder_shape(&k->b, x)->dims[last] / n;
    return build_slice_axis(&k->b, x, last, i * wide, (i + 1) * wide);
}

// [times, time channels]: cosines, then sines, of t times 10000^(-k / half).
static int time_waves(struct maker *k, int t)
{
    struct builder *b = &k->b;
    int64_t half = k->c->time_channels / 2;
    struct shape s = SHAPE(DT_F32, builder_shape(b, t)->dims[0], half);
    int log_step = build_binary_scalar(b, OP_MULTIPLY, build_iota(b, s, 1), -9.210340371976184 / (double)half);
    int angle = build_binary(b, OP_MULTIPLY, build_unary(b, OP_EXP, log_step), build_broadcast(b, t, s, (int[]){0}));
    int both[2] = {build_unary(b, OP_COSINE, angle), build_unary(b, OP_SINE, angle)};
    return build_concatenate(b, both, 2, 1);
}

static int modulation_vector(struct maker *k, int vector, const char *name, int64_t parts)
{
    return linear(k, part_silu(&k->b, vector), name, parts * k->hidden);
}

static struct modulation modulation_of(struct maker *k, int vector, int set, int sets)
{
    return (struct modulation){part(k, vector, 3 * set, 3 * sets), part(k, vector, 3 * set + 1, 3 * sets),
                               part(k, vector, 3 * set + 2, 3 * sets)};
}

// Queries (0), keys (1) or values (2) of the product's columns: [batch, tokens, heads, head_dim].
static int heads_of(struct maker *k, int qkv, int which)
{
    struct builder *b = &k->b;
    int64_t tokens = qkv < 0 ? 0 : builder_shape(b, qkv)->dims[1];
    int x = build_slice_axis(b, qkv, 2, which * k->hidden, (which + 1) * k->hidden);
    return build_reshape(b, x, 4, (int64_t[]){k->batch, tokens, k->c->heads, k->c->head_dim});
}

// Normalised per head and rotated; the tokens are number `from` and on of the sequence.
static int turned(struct maker *k, int qkv, int which, int64_t from, const char *tensor)
{
    struct builder *b = &k->b;
    int x = heads_of(k, qkv, which);
    int64_t tokens = x < 0 ? 0 : builder_shape(b, x)->dims[1];
    int weight = build_weight(b, tensor, SHAPE(DT_F32, k->c->head_dim));
    x = builder_store(b, part_rms_norm(b, x, weight, k->c->eps));
    int c = build_slice_axis(b, k->cosine, 0, from, from + tokens),
        s = build_slice_axis(b, k->sine, 0, from, from + tokens);
    return builder_store(b, part_rotate_pairs(b, x, c, s));
}

// One stream (text or image) of a double block.
struct stream {
    const char *name, *norm_q, *norm_k, *out, *mlp;
    const char *projections[3];
    int64_t from; // its first token in the sequence
};
static const struct stream streams[2] = {
    {"text",
     "attn.norm_added_q.weight",
     "attn.norm_added_k.weight",
     "attn.to_add_out.weight",
     "ff_context",
     {"add_q_proj", "add_k_proj", "add_v_proj"},
     0},
    {"image", "attn.norm_q.weight", "attn.norm_k.weight", "attn.to_out.0.weight", "ff", {"to_q", "to_k", "to_v"}, 1},
};

// Keys (0) or values (1) of a block (double ones first) with those of references that were made before.
static int with_kept(struct maker *k, int block, int which, int x)
{
    struct builder *b = &k->b;
    if (!k->kept)
        return x;
    struct shape s = SHAPE(DT_F32, k->batch, k->kept, k->c->heads, k->c->head_dim);
    int y = build_slice_axis(b, which ? k->values : k->keys, 0, block, block + 1);
    if (k->batch > 1) {
        y = build_reshape(b, y, 3, s.dims + 1);
        y = build_broadcast(b, y, s, (int[]){1, 2, 3});
    }
    return build_concatenate(b, (int[]){x, builder_store(b, y)}, 2, 1);
}

// Text behind image, where there is text.
static int joined(struct maker *k, const int x[2])
{
    return k->text ? build_concatenate(&k->b, x, 2, 1) : x[1];
}

// Of references nothing is needed behind the keys and values of the last block.
static bool keep_made(struct maker *k, int block, int key, int value)
{
    if (!k->made)
        return false;
    k->made[block][0] = key;
    k->made[block][1] = value;
    return block == k->c->double_blocks + k->c->single_blocks - 1;
}

static int feed_forward(struct maker *k, int block, const struct stream *s, int x)
{
    struct builder *b = &k->b;
    char rest[64];
    builder_scope(b, DOUBLE_MLP, "double.%d.%s.mlp.in", block, s->name);
    snprintf(rest, sizeof rest, "%s.linear_in.weight", s->mlp);
    x = linear(k, x, named(k, "transformer_blocks", block, rest), 2 * k->c->mlp);
    builder_scope(b, MODULATE, "double.%d.%s.mlp.gate", block, s->name);
    x = builder_store(b, part_swiglu(b, x));
    builder_scope(b, DOUBLE_MLP, "double.%d.%s.mlp.out", block, s->name);
    snprintf(rest, sizeof rest, "%s.linear_out.weight", s->mlp);
    return linear(k, x, named(k, "transformer_blocks", block, rest), k->hidden);
}

// x: text and image tokens, replaced by what the block hands on. vectors: their modulations, two sets each.
static void double_block(struct maker *k, int block, int x[2], const int vectors[2])
{
    struct builder *b = &k->b;
    int query[2], key[2], value[2];
    struct modulation m[2][2];
    char where[64];
    int first = k->text ? 0 : 1;
    for (int i = first; i < 2; i++) {
        const struct stream *s = &streams[i];
        snprintf(where, sizeof where, "double.%d.%s.attention", block, s->name);
        builder_scope(b, MODULATE, "%s.modulate", where);
        for (int set = 0; set < 2; set++)
            m[i][set] = modulation_of(k, vectors[i], set, 2);
        int h = adapt(k, x[i], m[i][0], where);
        builder_scope(b, DOUBLE_QKV, "double.%d.%s.qkv", block, s->name);
        h = part_stacked_linear(b, h, named(k, "transformer_blocks", block, "attn."), s->projections,
                                (int64_t[]){k->hidden, k->hidden, k->hidden}, 3);
        value[i] = builder_store(b, h);
        builder_scope(b, "rope, q and k norm", "double.%d.%s.rope", block, s->name);
        int64_t from = s->from ? k->text : 0;
        query[i] = turned(k, value[i], 0, from, named(k, "transformer_blocks", block, s->norm_q));
        key[i] = turned(k, value[i], 1, from, named(k, "transformer_blocks", block, s->norm_k));
    }
    builder_scope(b, "attention", "double.%d.attention", block);
    for (int i = first; i < 2; i++)
        value[i] = heads_of(k, value[i], 2);
    int queries = joined(k, query), keys = joined(k, key), values = joined(k, value);
    if (keep_made(k, block, keys, values))
        return;
    if (!block) {
        queries = tap(b, k->also, TAPS_ALL, queries, "double.0.query");
        keys = tap(b, k->also, TAPS_ALL, keys, "double.0.key");
    }
    int all = part_attention(b, queries, with_kept(k, block, 0, keys), with_kept(k, block, 1, values), -1);
    builder_store(b, all);
    for (int i = first; i < 2; i++) {
        const struct stream *s = &streams[i];
        builder_scope(b, DOUBLE_OUT, "double.%d.%s.attention.out", block, s->name);
        int64_t from = s->from ? k->text : 0, tokens = s->from ? k->image : k->text;
        int y = build_slice_axis(b, all, 1, from, from + tokens);
        y = linear(k, y, named(k, "transformer_blocks", block, s->out), k->hidden);
        snprintf(where, sizeof where, "double.%d.%s.mlp", block, s->name);
        builder_scope(b, MODULATE, "double.%d.%s.attention.gate", block, s->name);
        x[i] = add_gated(k, x[i], m[i][0].gate, y);
        if (!block)
            tap(b, k->also, TAPS_ALL, x[i], "double.0.%s.attention", s->name);
        y = feed_forward(k, block, s, adapt(k, x[i], m[i][1], where));
        builder_scope(b, MODULATE, "double.%d.%s.mlp.residual", block, s->name);
        x[i] = add_gated(k, x[i], m[i][1].gate, y);
    }
}

static int single_block(struct maker *k, int block, int x, int vector)
{
    struct builder *b = &k->b;
    char where[32];
    snprintf(where, sizeof where, "single.%d", block);
    builder_scope(b, MODULATE, "%s.modulate", where);
    struct modulation m = modulation_of(k, vector, 0, 1);
    int h = adapt(k, x, m, where);
    builder_scope(b, LINEAR_1, "single.%d.linear1", block);
    h = linear(k, h, named(k, "single_transformer_blocks", block, "attn.to_qkv_mlp_proj.weight"),
               3 * k->hidden + 2 * k->c->mlp);
    builder_scope(b, "rope, q and k norm", "single.%d.rope", block);
    int query = turned(k, h, 0, 0, named(k, "single_transformer_blocks", block, "attn.norm_q.weight"));
    int key = turned(k, h, 1, 0, named(k, "single_transformer_blocks", block, "attn.norm_k.weight"));
    if (!block) {
        tap(b, k->also, TAPS_ALL, query, "single.0.query");
        tap(b, k->also, TAPS_ALL, key, "single.0.key");
    }
    builder_scope(b, "attention", "single.%d.attention", block);
    int value = heads_of(k, h, 2), number = (int)k->c->double_blocks + block;
    if (keep_made(k, number, key, value))
        return x;
    int both[2] = {
        builder_store(b, part_attention(b, query, with_kept(k, number, 0, key), with_kept(k, number, 1, value), -1))};
    builder_scope(b, MODULATE, "single.%d.gate", block);
    both[1] = build_slice_axis(b, h, 2, 3 * k->hidden, 3 * k->hidden + 2 * k->c->mlp);
    both[1] = builder_store(b, part_swiglu(b, both[1]));
    if (!block) {
        tap(b, k->also, TAPS_ALL, both[0], "single.0.attention");
        tap(b, k->also, TAPS_ALL, both[1], "single.0.mlp");
    }
    builder_scope(b, LINEAR_2, "single.%d.linear2", block);
    h = linear(k, build_concatenate(b, both, 2, 2), named(k, "single_transformer_blocks", block, "attn.to_out.weight"),
               k->hidden);
    builder_scope(b, MODULATE, "single.%d.residual", block);
    return add_gated(k, x, m.gate, h);
}

// The modulations that follow from the time: of text, image and single blocks, and of the output.
enum { VECTORS = 4 };
static const struct {
    const char *name, *tensor;
    int parts;
} vector_rows[VECTORS] = {{"modulation.text", "double_stream_modulation_txt.linear.weight", 6},
                          {"modulation.image", "double_stream_modulation_img.linear.weight", 6},
                          {"modulation.single", "single_stream_modulation.linear.weight", 3},
                          {"modulation.out", "norm_out.linear.weight", 2}};

// A row for each time of `timesteps`.
static void times(struct maker *k, int timesteps, int vectors[VECTORS])
{
    struct builder *b = &k->b;
    builder_scope(b, "time, modulations", "time");
    int v = builder_store(b, time_waves(k, timesteps));
    v = linear(k, v, "time_guidance_embed.timestep_embedder.linear_1.weight", k->hidden);
    v = linear(k, part_silu(b, v), "time_guidance_embed.timestep_embedder.linear_2.weight", k->hidden);
    tap(b, k->also, TAPS_ALL, v, "time");
    for (int i = 0; i < VECTORS; i++) {
        builder_scope(b, "time, modulations", "%s", vector_rows[i].name);
        vectors[i] = modulation_vector(k, v, vector_rows[i].tensor, vector_rows[i].parts);
        tap(b, k->also, TAPS_ALL, vectors[i], "%s", vector_rows[i].name);
    }
}

// An input of the type in which it was handed on, in f32.
static int input(struct maker *k, const char *name, struct shape shape, enum dtype type)
{
    int x = build_parameter(&k->b, ROLE_INPUT, name, shape_with_dtype(shape, type), NULL);
    return build_convert(&k->b, x, DT_F32);
}

static int context_input(struct maker *k, int64_t batch)
{
    return input(k, "context", SHAPE(DT_F32, batch, k->text, k->c->joint), k->handed);
}

// An input that all images share, [1, rows, columns], for each of them.
static int shared_input(struct maker *k, const char *name, int64_t rows, int64_t columns, enum dtype type)
{
    struct builder *b = &k->b;
    int x = input(k, name, SHAPE(DT_F32, 1, rows, columns), type);
    if (k->batch == 1)
        return x;
    x = build_reshape(b, x, 2, (int64_t[]){rows, columns});
    return build_broadcast(b, x, SHAPE(DT_F32, k->batch, rows, columns), (int[]){1, 2});
}

static int embed_context(struct maker *k, int context)
{
    builder_scope(&k->b, "context embedder", "context");
    return linear(k, context, "context_embedder.weight", k->hidden);
}

// The rows of this step out of those of all, and the text's tokens.
static int prepared(struct maker *k, int vectors[VECTORS])
{
    struct builder *b = &k->b;
    int zero = build_splat(b, SHAPE(DT_S32), 0), all[VECTORS];
    int text = builder_store(&k->b, shared_input(k, "text", k->text, k->hidden, k->handed)); // as a block hands it on
    for (int i = 0; i < VECTORS; i++)
        all[i] = input(k, vector_rows[i].name, SHAPE(DT_F32, k->steps, vector_rows[i].parts * k->hidden), k->handed);
    int step = build_parameter(b, ROLE_INPUT, "step", SHAPE(DT_S32), NULL);
    for (int i = 0; i < VECTORS; i++)
        vectors[i] =
            build_dynamic_slice(b, all[i], (int[]){step, zero}, (int64_t[]){1, vector_rows[i].parts * k->hidden});
    return text;
}

static struct maker maker_of(const struct flux2_config *f, const struct flux2_build *how, struct module *m)
{
    struct maker k = {.c = &f->dit,
                      .batch = how->batch,
                      .text = f->text_tokens,
                      .image = how->rows * how->columns + (how->kept ? 0 : how->reference),
                      .kept = how->kept ? how->reference : 0,
                      .hidden = f->dit.heads * f->dit.head_dim,
                      .also = how->also,
                      .handed = how->handed ? how->handed : DT_F32,
                      .latent = how->latent ? how->latent : DT_F32};
    builder_init(&k.b, m);
    return k;
}

int flux2_prepare_module(const struct flux2_config *f, const struct flux2_build *how, struct module *m,
                         struct error *err)
{
    struct maker k = maker_of(f, how, m);
    int vectors[VECTORS];
    k.also = TAPS_NONE; // all of it is results
    int context = context_input(&k, 1);
    times(&k, build_parameter(&k.b, ROLE_INPUT, "timesteps", SHAPE(DT_F32, how->hoisted_steps), NULL), vectors);
    build_result(&k.b, "text", embed_context(&k, context));
    for (int i = 0; i < VECTORS; i++)
        build_result(&k.b, vector_rows[i].name, vectors[i]);
    builder_scope(&k.b, "checks", "nonfinite");
    build_result(&k.b, "nonfinite", part_nonfinite(&k.b, context));
    return builder_finish(&k.b, err);
}

// The tokens of the image and of the references behind them, which in a pipeline are an input of their own.
static int latents(struct maker *k, const struct flux2_build *how)
{
    int64_t channels = k->c->channels, apart = k->steps && !how->kept ? how->reference : 0;
    int x[2] = {input(k, "latent", SHAPE(DT_F32, k->batch, k->image - apart, channels), k->latent), -1};
    if (!apart)
        return x[0];
    x[1] = shared_input(k, "reference", apart, channels, k->latent);
    return build_concatenate(&k->b, x, 2, 1);
}

int flux2_dit_module(const struct flux2_config *f, const struct flux2_build *how, struct module *m, struct error *err)
{
    const struct flux2_dit_config *c = &f->dit;
    struct maker k = maker_of(f, how, m);
    struct builder *b = &k.b;
    int vectors[VECTORS], x[2], context = -1, timestep = -1;
    int64_t all = k.text + k.image;
    k.steps = how->hoisted_steps;
    int latent = latents(&k, how);
    if (!k.steps) {
        context = context_input(&k, k.batch);
        timestep = build_parameter(b, ROLE_INPUT, "timestep", SHAPE(DT_F32, k.batch), NULL);
    }
    k.cosine = build_parameter(b, ROLE_INPUT, "rope_cos", SHAPE(DT_F32, all, c->head_dim / 2), NULL);
    k.sine = build_parameter(b, ROLE_INPUT, "rope_sin", SHAPE(DT_F32, all, c->head_dim / 2), NULL);
    if (k.kept) {
        const struct shape all_blocks =
            SHAPE(DT_F32, c->double_blocks + c->single_blocks, k.kept, c->heads, c->head_dim);
        k.keys = input(&k, "keys", all_blocks, k.handed);
        k.values = input(&k, "values", all_blocks, k.handed);
    }
    if (!k.steps) {
        times(&k, timestep, vectors);
        x[0] = tap(b, k.also, TAPS_ALL, embed_context(&k, context), "text.in");
    } else {
        x[0] = prepared(&k, vectors);
    }
    builder_scope(b, "image in, out", "image.in");
    x[1] = tap(b, k.also, TAPS_ALL, linear(&k, latent, "x_embedder.weight", k.hidden), "image.in");
    for (int i = 0; i < c->double_blocks; i++) {
        double_block(&k, i, x, vectors);
        tap(b, k.also, TAPS_LAYERS, x[0], "double.text.%d", i);
        tap(b, k.also, TAPS_LAYERS, x[1], "double.image.%d", i);
    }
    builder_scope(b, MODULATE, "join");
    int z = builder_store(b, build_concatenate(b, x, 2, 1));
    for (int i = 0; i < c->single_blocks; i++) {
        z = tap(b, k.also, TAPS_LAYERS, single_block(&k, i, z, vectors[2]), "single.%d", i);
    }
    builder_scope(b, "norm", "out.norm");
    z = norm(&k, build_slice_axis(b, z, 1, k.text, k.text + how->rows * how->columns));
    builder_scope(b, MODULATE, "out.modulate"); // here the scale comes first
    z = modulate(&k, z, (struct modulation){.scale = part(&k, vectors[3], 0, 2), .shift = part(&k, vectors[3], 1, 2)});
    builder_scope(b, "image in, out", "image.out");
    build_result(b, "velocity", linear(&k, z, "proj_out.weight", c->channels));
    return builder_finish(b, err);
}

int flux2_reference_module(const struct flux2_config *f, const struct flux2_build *how, struct module *m,
                           struct error *err)
{
    const struct flux2_dit_config *c = &f->dit;
    struct maker k = maker_of(f, how, m);
    struct builder *b = &k.b;
    int blocks = (int)(c->double_blocks + c->single_blocks);
    int vectors[VECTORS] = {-1, -1, -1, -1}, x[2] = {-1, -1}, zero = build_splat(b, SHAPE(DT_S32), 0);
    k.batch = 1;
    k.text = k.kept = 0;
    k.image = how->reference;
    k.steps = how->hoisted_steps;
    k.also = TAPS_NONE;
    k.made = arena_alloc(m->arena, (size_t)blocks, sizeof *k.made, err);
    int *list = arena_new(m->arena, int, (size_t)blocks, err);
    if (!k.made || !list)
        return ERR_MEMORY;
    x[1] = input(&k, "reference", SHAPE(DT_F32, 1, k.image, c->channels), k.latent);
    int step = build_parameter(b, ROLE_INPUT, "step", SHAPE(DT_S32), NULL);
    for (int i = 1; i < 3; i++) { // of the image, and of single blocks
        int64_t wide = vector_rows[i].parts * k.hidden;
        vectors[i] = input(&k, vector_rows[i].name, SHAPE(DT_F32, k.steps, wide), k.handed);
        vectors[i] = build_dynamic_slice(b, vectors[i], (int[]){step, zero}, (int64_t[]){1, wide});
    }
    k.cosine = build_parameter(b, ROLE_INPUT, "rope_cos", SHAPE(DT_F32, k.image, c->head_dim / 2), NULL);
    k.sine = build_parameter(b, ROLE_INPUT, "rope_sin", SHAPE(DT_F32, k.image, c->head_dim / 2), NULL);
    builder_scope(b, "image in, out", "image.in");
    x[1] = linear(&k, x[1], "x_embedder.weight", k.hidden);
    for (int i = 0; i < c->double_blocks; i++)
        double_block(&k, i, x, vectors);
    for (int i = 0; i < c->single_blocks; i++)
        x[1] = single_block(&k, i, x[1], vectors[2]);
    builder_scope(b, "attention", "kept");
    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < blocks; i++)
            list[i] = k.made[i][which];
        build_result(b, which ? "values" : "keys", build_concatenate(b, list, blocks, 0));
    }
    return builder_finish(b, err);
}

int flux2_block_module(const struct flux2_config *f, bool single, int64_t image_tokens, struct module *m,
                       struct error *err)
{
    const struct flux2_dit_config *c = &f->dit;
    struct maker k = {
        .c = c, .batch = 1, .text = f->text_tokens, .image = image_tokens, .hidden = c->heads * c->head_dim};
    struct builder *b = &k.b;
    static const char *const names[2] = {"text", "image"}, *const modulations[2] = {"text_modulation", "modulation"};
    int x[2], vectors[2];
    builder_init(b, m);
    builder_scope(b, MODULATE, "inputs");
    for (int i = 0; i < 2; i++) {
        struct shape tokens = SHAPE(DT_F32, 1, i ? k.image : k.text, k.hidden),
                     vector = SHAPE(DT_F32, 1, (single ? 3 : 6) * k.hidden);
        x[i] = build_parameter(b, ROLE_INPUT, names[i], tokens, NULL);
        if (i || !single)
            vectors[i] = build_parameter(b, ROLE_INPUT, modulations[i], vector, NULL);
    }
    struct shape angles = SHAPE(DT_F32, k.text + k.image, c->head_dim / 2);
    k.cosine = build_parameter(b, ROLE_INPUT, "rope_cos", angles, NULL);
    k.sine = build_parameter(b, ROLE_INPUT, "rope_sin", angles, NULL);
    if (single) {
        int z = builder_store(b, build_concatenate(b, x, 2, 1));
        build_result(b, "tokens", single_block(&k, 0, z, vectors[1]));
    } else {
        double_block(&k, 0, x, vectors);
        for (int i = 0; i < 2; i++)
            build_result(b, names[i], x[i]);
    }
    return builder_finish(b, err);
}

int flux2_text_module(const struct flux2_config *c, int64_t batch, enum taps also, struct module *m, struct error *err)
{
    struct decoder_build how = {
        .phase = DECODER_TAPS, .batch = batch, .seq = c->text_tokens, .n_taps = 3, .also = also};
    memcpy(how.taps, c->taps, sizeof c->taps);
    return decoder_module(&c->text, &how, m, err);
}

int flux2_tokens(int64_t height, int64_t width, int64_t *rows, int64_t *columns, struct error *err)
{
    const int64_t sides[2] = {height, width};
    for (int i = 0; i < 2; i++) {
        if (sides[i] < FLUX2_MIN_SIDE || sides[i] > FLUX2_MAX_SIDE || sides[i] % 16)
            return error_set(err, ERR_USAGE, i ? "--width" : "--height",
                             "must be a multiple of 16 from %d to %d, not %" PRId64, FLUX2_MIN_SIDE, FLUX2_MAX_SIDE,
                             sides[i]);
    }
    *rows = height / 16;
    *columns = width / 16;
    return 0;
}

// Positions along the four axes: time, row, column, index of a text token.
static void rope_of(const struct flux2_dit_config *c, const int64_t position[FLUX2_AXES], float *cosine, float *sine)
{
    int64_t at = 0;
    for (int axis = 0; axis < FLUX2_AXES; axis++) {
        for (int64_t i = 0; i < c->axes[axis] / 2; i++, at++)
            part_rope_angle((double)position[axis], i, c->axes[axis], c->rope_theta, &cosine[at], &sine[at]);
    }
}

void flux2_rope(const struct flux2_config *c, int64_t rows, int64_t columns, int n_references,
                const int64_t (*references)[2], float *cosine, float *sine)
{
    int64_t half = c->dit.head_dim / 2, at = 0;
    for (int64_t i = 0; i < c->text_tokens; i++, at += half)
        rope_of(&c->dit, (int64_t[]){0, 0, 0, i}, cosine + at, sine + at);
    for (int r = -1; r < n_references; r++) { // -1: the image itself
        int64_t wide = r < 0 ? columns : references[r][1], n = (r < 0 ? rows : references[r][0]) * wide;
        for (int64_t i = 0; i < n; i++, at += half)
            rope_of(&c->dit, (int64_t[]){r < 0 ? 0 : 10 + 10 * r, i / wide, i % wide, 0}, cosine + at, sine + at);
    }
}
