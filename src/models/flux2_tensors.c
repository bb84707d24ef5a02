// SPDX-License-Identifier: Apache-2.0
#include "models/flux2_tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct visit {
    const struct flux2_config *c;
    flux2_tensor_fn *fn;
    void *context;
    struct error *err;
    int rc;
};

const char *flux2_component_name(enum flux2_component c)
{
    static const char *const names[FLUX2_COMPONENTS] = {"text encoder", "transformer", "autoencoder"};
    return names[c];
}

static void give(struct visit *v, struct flux2_tensor *t)
{
    if (t->bfl && !t->bfl_rows)
        t->bfl_rows = t->dims[0];
    if (!v->rc)
        v->rc = v->fn(v->context, t, v->err);
}

// ---- text encoder

static void give_text(struct visit *v, const char *name, bool used, int64_t rows, int64_t columns)
{
    struct flux2_tensor t = {.name = name, .rank = columns ? 2 : 1, .dims = {rows, columns}, .used = used};
    give(v, &t);
}

static void text_encoder(struct visit *v)
{
    const struct decoder_config *d = &v->c->text;
    const int64_t q = d->heads * d->head_dim, kv = d->kv_heads * d->head_dim;
    const struct {
        const char *name;
        int64_t rows, columns;
    } rows[] = {{"self_attn.q_proj", q, d->hidden},
                {"self_attn.k_proj", kv, d->hidden},
                {"self_attn.v_proj", kv, d->hidden},
                {"self_attn.o_proj", d->hidden, q},
                {"self_attn.q_norm", d->head_dim, 0},
                {"self_attn.k_norm", d->head_dim, 0},
                {"mlp.gate_proj", d->intermediate, d->hidden},
                {"mlp.up_proj", d->intermediate, d->hidden},
                {"mlp.down_proj", d->hidden, d->intermediate},
                {"input_layernorm", d->hidden, 0},
                {"post_attention_layernorm", d->hidden, 0}};
    char name[128];
    snprintf(name, sizeof name, "%sembed_tokens.weight", d->prefix);
    give_text(v, name, true, d->vocab, d->hidden);
    for (int64_t i = 0; i < d->layers; i++) {
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            bool has_norm = d->qk_norm || (k != 4 && k != 5);
            snprintf(name, sizeof name, "%slayers.%" PRId64 ".%s.weight", d->prefix, i, rows[k].name);
            if (has_norm)
                give_text(v, name, i < v->c->taps[2], rows[k].rows, rows[k].columns);
        }
    }
    snprintf(name, sizeof name, "%snorm.weight", d->prefix);
    give_text(v, name, false, d->hidden, 0);
    if (!d->tied)
        give_text(v, "lm_head.weight", false, d->vocab, d->hidden);
}

// ---- transformer

struct row {
    const char *name, *bfl; // %d: the block
    int64_t rows, columns;  // columns 0: a vector
    int part, parts;        // of the rows of the tensor in the BFL file; parts 0: all of it
    bool halves;
};

static void give_rows(struct visit *v, const struct row *rows, size_t n, int block)
{
    for (size_t i = 0; i < n; i++) {
        const struct row *r = &rows[i];
        char name[128], bfl[128];
        snprintf(name, sizeof name, r->name, block);
        snprintf(bfl, sizeof bfl, r->bfl, block);
        struct flux2_tensor t = {.name = name,
                                 .rank = r->columns ? 2 : 1,
                                 .dims = {r->rows, r->columns},
                                 .used = true,
                                 .bfl = bfl,
                                 .bfl_rows = r->parts ? r->parts * r->rows : r->rows,
                                 .bfl_row = r->part * r->rows,
                                 .bfl_halves = r->halves};
        give(v, &t);
    }
}

#define BLOCK  "transformer_blocks.%d."
#define SINGLE "single_transformer_blocks.%d."

static void transformer(struct visit *v)
{
    const struct flux2_dit_config *c = &v->c->dit;
    const int64_t d = c->heads * c->head_dim, n = c->head_dim, m = c->mlp;
    const struct row ends[] = {
        {"x_embedder.weight", "img_in.weight", d, c->channels, 0, 0, false},
        {"context_embedder.weight", "txt_in.weight", d, c->joint, 0, 0, false},
        {"time_guidance_embed.timestep_embedder.linear_1.weight", "time_in.in_layer.weight", d, c->time_channels, 0, 0,
         false},
        {"time_guidance_embed.timestep_embedder.linear_2.weight", "time_in.out_layer.weight", d, d, 0, 0, false},
        {"double_stream_modulation_img.linear.weight", "double_stream_modulation_img.lin.weight", 6 * d, d, 0, 0,
         false},
        {"double_stream_modulation_txt.linear.weight", "double_stream_modulation_txt.lin.weight", 6 * d, d, 0, 0,
         false},
        {"single_stream_modulation.linear.weight", "single_stream_modulation.lin.weight", 3 * d, d, 0, 0, false},
        {"norm_out.linear.weight", "final_layer.adaLN_modulation.1.weight", 2 * d, d, 0, 0, true},
        {"proj_out.weight", "final_layer.linear.weight", c->channels, d, 0, 0, false}};
    const struct row blocks[] = {
        {BLOCK "attn.to_q.weight", "double_blocks.%d.img_attn.qkv.weight", d, d, 0, 3, false},
        {BLOCK "attn.to_k.weight", "double_blocks.%d.img_attn.qkv.weight", d, d, 1, 3, false},
        {BLOCK "attn.to_v.weight", "double_blocks.%d.img_attn.qkv.weight", d, d, 2, 3, false},
        {BLOCK "attn.add_q_proj.weight", "double_blocks.%d.txt_attn.qkv.weight", d, d, 0, 3, false},
        {BLOCK "attn.add_k_proj.weight", "double_blocks.%d.txt_attn.qkv.weight", d, d, 1, 3, false},
        {BLOCK "attn.add_v_proj.weight", "double_blocks.%d.txt_attn.qkv.weight", d, d, 2, 3, false},
        {BLOCK "attn.norm_q.weight", "double_blocks.%d.img_attn.norm.query_norm.scale", n, 0, 0, 0, false},
        {BLOCK "attn.norm_k.weight", "double_blocks.%d.img_attn.norm.key_norm.scale", n, 0, 0, 0, false},
        {BLOCK "attn.norm_added_q.weight", "double_blocks.%d.txt_attn.norm.query_norm.scale", n, 0, 0, 0, false},
        {BLOCK "attn.norm_added_k.weight", "double_blocks.%d.txt_attn.norm.key_norm.scale", n, 0, 0, 0, false},
        {BLOCK "attn.to_out.0.weight", "double_blocks.%d.img_attn.proj.weight", d, d, 0, 0, false},
        {BLOCK "attn.to_add_out.weight", "double_blocks.%d.txt_attn.proj.weight", d, d, 0, 0, false},
        {BLOCK "ff.linear_in.weight", "double_blocks.%d.img_mlp.0.weight", 2 * m, d, 0, 0, false},
        {BLOCK "ff.linear_out.weight", "double_blocks.%d.img_mlp.2.weight", d, m, 0, 0, false},
        {BLOCK "ff_context.linear_in.weight", "double_blocks.%d.txt_mlp.0.weight", 2 * m, d, 0, 0, false},
        {BLOCK "ff_context.linear_out.weight", "double_blocks.%d.txt_mlp.2.weight", d, m, 0, 0, false}};
    const struct row singles[] = {
        {SINGLE "attn.to_qkv_mlp_proj.weight", "single_blocks.%d.linear1.weight", 3 * d + 2 * m, d, 0, 0, false},
        {SINGLE "attn.to_out.weight", "single_blocks.%d.linear2.weight", d, d + m, 0, 0, false},
        {SINGLE "attn.norm_q.weight", "single_blocks.%d.norm.query_norm.scale", n, 0, 0, 0, false},
        {SINGLE "attn.norm_k.weight", "single_blocks.%d.norm.key_norm.scale", n, 0, 0, 0, false}};
    give_rows(v, ends, sizeof ends / sizeof *ends, 0);
    for (int i = 0; i < c->double_blocks; i++)
        give_rows(v, blocks, sizeof blocks / sizeof *blocks, i);
    for (int i = 0; i < c->single_blocks; i++)
        give_rows(v, singles, sizeof singles / sizeof *singles, i);
}

// ---- autoencoder

// One of its two halves: "encoder" or "decoder".
struct half {
    struct visit *v;
    bool encodes;
    const char *name;
};

static void give_image(const struct half *h, const char *prefix, const char *name, const char *bfl_prefix,
                       const char *bfl, int rank, const int64_t dims[4], int extra)
{
    char full[160], full_bfl[160];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    snprintf(full_bfl, sizeof full_bfl, "%s%s", bfl_prefix, bfl);
    struct flux2_tensor t = {
        .name = full, .rank = rank, .used = true, .encodes = h->encodes, .bfl = full_bfl, .bfl_extra_rank = extra};
    memcpy(t.dims, dims, (size_t)rank * sizeof *dims);
    give(h->v, &t);
}

// Weight and bias of a layer: a convolution of `side` (0: a product, which BFL stores as a convolution of 1).
static void layer(const struct half *h, const char *prefix, const char *name, const char *bfl_prefix, const char *bfl,
                  int64_t out, int64_t in, int64_t side)
{
    char part[64], bfl_part[64];
    for (int bias = 0; bias < 2; bias++) {
        snprintf(part, sizeof part, "%s.%s", name, bias ? "bias" : "weight");
        snprintf(bfl_part, sizeof bfl_part, "%s.%s", bfl, bias ? "bias" : "weight");
        give_image(h, prefix, part, bfl_prefix, bfl_part,
                   bias   ? 1
                   : side ? 4
                          : 2,
                   (int64_t[4]){out, in, side, side}, !bias && !side ? 2 : 0);
    }
}

static void norm(const struct half *h, const char *prefix, const char *name, const char *bfl_prefix, const char *bfl,
                 int64_t n)
{
    char part[64], bfl_part[64];
    for (int bias = 0; bias < 2; bias++) {
        snprintf(part, sizeof part, "%s.%s", name, bias ? "bias" : "weight");
        snprintf(bfl_part, sizeof bfl_part, "%s.%s", bfl, bias ? "bias" : "weight");
        give_image(h, prefix, part, bfl_prefix, bfl_part, 1, (int64_t[4]){n}, 0);
    }
}

static void resnet(const struct half *h, const char *prefix, const char *bfl, int64_t in, int64_t out)
{
    norm(h, prefix, "norm1", bfl, "norm1", in);
    layer(h, prefix, "conv1", bfl, "conv1", out, in, 3);
    norm(h, prefix, "norm2", bfl, "norm2", out);
    layer(h, prefix, "conv2", bfl, "conv2", out, out, 3);
    if (in != out)
        layer(h, prefix, "conv_shortcut", bfl, "nin_shortcut", out, in, 1);
}

static void middle(const struct half *h, int64_t n)
{
    static const char *const parts[4][2] = {{"to_q", "q"}, {"to_k", "k"}, {"to_v", "v"}, {"to_out.0", "proj_out"}};
    char prefix[80], bfl[80];
    for (int i = 0; i < 2; i++) {
        snprintf(prefix, sizeof prefix, "%s.mid_block.resnets.%d.", h->name, i);
        snprintf(bfl, sizeof bfl, "%s.mid.block_%d.", h->name, i + 1);
        resnet(h, prefix, bfl, n, n);
    }
    snprintf(prefix, sizeof prefix, "%s.mid_block.attentions.0.", h->name);
    snprintf(bfl, sizeof bfl, "%s.mid.attn_1.", h->name);
    norm(h, prefix, "group_norm", bfl, "norm", n);
    for (int i = 0; i < 4; i++)
        layer(h, prefix, parts[i][0], bfl, parts[i][1], n, n, 0);
}

static void levels(const struct half *h)
{
    const struct flux2_vae_config *c = &h->v->c->vae;
    int64_t n = c->layers + (h->encodes ? 0 : 1), before = h->encodes ? c->channels[0] : c->channels[FLUX2_LEVELS - 1];
    char prefix[80], bfl[80];
    for (int i = 0; i < FLUX2_LEVELS; i++) {
        int number = h->encodes ? i : FLUX2_LEVELS - 1 - i; // BFL counts both from the image inwards
        const char *ours = h->encodes ? "down_blocks" : "up_blocks", *theirs = h->encodes ? "down" : "up";
        for (int64_t k = 0; k < n; k++) {
            snprintf(prefix, sizeof prefix, "%s.%s.%d.resnets.%" PRId64 ".", h->name, ours, i, k);
            snprintf(bfl, sizeof bfl, "%s.%s.%d.block.%" PRId64 ".", h->name, theirs, number, k);
            resnet(h, prefix, bfl, before, c->channels[number]);
            before = c->channels[number];
        }
        if (i == FLUX2_LEVELS - 1)
            continue;
        snprintf(prefix, sizeof prefix, "%s.%s.%d.%ssamplers.0.", h->name, ours, i, theirs);
        snprintf(bfl, sizeof bfl, "%s.%s.%d.%ssample.", h->name, theirs, number, theirs);
        layer(h, prefix, "conv", bfl, "conv", before, before, 3);
    }
}

static void autoencoder(struct visit *v)
{
    const struct flux2_vae_config *c = &v->c->vae;
    const struct half encoder = {v, true, "encoder"}, decoder = {v, false, "decoder"};
    const int64_t deep = c->channels[FLUX2_LEVELS - 1], z = c->latent;
    layer(&encoder, "encoder.", "conv_in", "encoder.", "conv_in", c->channels[0], 3, 3);
    levels(&encoder);
    middle(&encoder, deep);
    norm(&encoder, "encoder.", "conv_norm_out", "encoder.", "norm_out", deep);
    layer(&encoder, "encoder.", "conv_out", "encoder.", "conv_out", 2 * z, deep, 3);
    layer(&encoder, "", "quant_conv", "encoder.", "quant_conv", 2 * z, 2 * z, 1);
    layer(&decoder, "", "post_quant_conv", "decoder.", "post_quant_conv", z, z, 1);
    layer(&decoder, "decoder.", "conv_in", "decoder.", "conv_in", deep, z, 3);
    middle(&decoder, deep);
    levels(&decoder);
    norm(&decoder, "decoder.", "conv_norm_out", "decoder.", "norm_out", c->channels[0]);
    layer(&decoder, "decoder.", "conv_out", "decoder.", "conv_out", 3, c->channels[0], 3);
    give_image(&decoder, "", "bn.running_mean", "", "bn.running_mean", 1, (int64_t[4]){4 * z}, 0);
    give_image(&decoder, "", "bn.running_var", "", "bn.running_var", 1, (int64_t[4]){4 * z}, 0);
}

int flux2_tensors(const struct flux2_config *c, enum flux2_component component, flux2_tensor_fn *fn, void *context,
                  struct error *err)
{
    struct visit v = {c, fn, context, err, 0};
    if (component == FLUX2_TEXT_ENCODER)
        text_encoder(&v);
    else if (component == FLUX2_DIT)
        transformer(&v);
    else
        autoencoder(&v);
    return v.rc;
}

const struct flux2_config *flux2_of_size(int64_t hidden, int64_t double_blocks, int64_t single_blocks, bool guided)
{
    for (int i = 0; flux2_name(i); i++) {
        const struct flux2_config *c = flux2_builtin(flux2_name(i));
        if (c->dit.heads * c->dit.head_dim == hidden && c->dit.double_blocks == double_blocks &&
            c->dit.single_blocks == single_blocks && c->guided == guided)
            return c;
    }
    return NULL;
}
