// SPDX-License-Identifier: Apache-2.0
// The image autoencoder of FLUX.2: 8 by 8 pixels to a latent pixel, 2 by 2 of these to a token, whose channels are
// normalised by running statistics of a batch norm.
#include <stdio.h>

#include "models/flux2.h"
#include "models/parts.h"

struct maker {
    struct builder b;
    const struct flux2_vae_config *c;
    const char *group;            // the row of the level at hand
    int64_t batch, rows, columns; // tokens
};

#define NORMS "norms"

static const char *join(struct maker *k, const char *prefix, const char *rest)
{
    const char *name = arena_printf(k->b.module->arena, &k->b.error, "%s.%s", prefix, rest);
    return name ? name : "";
}

static int vector(struct maker *k, const char *prefix, const char *rest, int64_t n)
{
    return build_weight(&k->b, join(k, prefix, rest), SHAPE(DT_F32, n));
}

static int64_t channels_of(const struct maker *k, int x)
{
    return x < 0 ? 0 : builder_shape(&k->b, x)->dims[3];
}

// Square kernels. `pad` zeros stand before and `pad_behind` behind every side.
static int convolution(struct maker *k, int x, const char *prefix, int64_t out, int64_t side, int64_t stride,
                       int64_t pad, int64_t pad_behind)
{
    struct builder *b = &k->b;
    int kernel = build_weight(b, join(k, prefix, "weight"), SHAPE(DT_F32, out, channels_of(k, x), side, side));
    int bias = vector(k, prefix, "bias", out);
    int y = build_convolution(b, x, kernel, (int64_t[]){stride, stride}, (int64_t[]){pad, pad},
                              (int64_t[]){pad_behind, pad_behind}, 1, DT_F32);
    return part_add_bias(b, y, bias);
}

static int same(struct maker *k, int x, const char *prefix, int64_t out)
{
    return builder_store(&k->b, convolution(k, x, prefix, out, 3, 1, 1, 1));
}

static int pointwise(struct maker *k, int x, const char *prefix, int64_t out)
{
    return builder_store(&k->b, convolution(k, x, prefix, out, 1, 1, 0, 0));
}

static int group_norm(struct maker *k, int x, const char *prefix)
{
    int64_t n = channels_of(k, x);
    int gamma = vector(k, prefix, "weight", n), beta = vector(k, prefix, "bias", n);
    return part_group_norm(&k->b, x, k->c->groups, gamma, beta, k->c->eps);
}

// Norm and silu, a row of their own.
static int norm_silu(struct maker *k, int x, const char *prefix)
{
    builder_scope(&k->b, NORMS, "%s", prefix);
    return builder_store(&k->b, part_silu(&k->b, group_norm(k, x, prefix)));
}

static int resnet(struct maker *k, int x, const char *prefix, int64_t out)
{
    struct builder *b = &k->b;
    int h = norm_silu(k, x, join(k, prefix, "norm1"));
    builder_scope(b, k->group, "%s.conv1", prefix);
    h = same(k, h, join(k, prefix, "conv1"), out);
    h = norm_silu(k, h, join(k, prefix, "norm2"));
    if (channels_of(k, x) != out) {
        builder_scope(b, k->group, "%s.conv_shortcut", prefix);
        x = pointwise(k, x, join(k, prefix, "conv_shortcut"), out);
    }
    builder_scope(b, k->group, "%s.conv2", prefix);
    h = convolution(k, h, join(k, prefix, "conv2"), out, 3, 1, 1, 1);
    return builder_store(b, build_binary(b, OP_ADD, x, h));
}

static int resnets(struct maker *k, int x, const char *level, int64_t n, int64_t out)
{
    for (int64_t i = 0; i < n; i++) {
        char rest[32];
        snprintf(rest, sizeof rest, "resnets.%d", (int)i);
        x = resnet(k, x, join(k, level, rest), out);
    }
    return x;
}

static int projection(struct maker *k, int x, const char *prefix, int64_t out)
{
    int y = part_linear(&k->b, x, join(k, prefix, "weight"), out);
    return part_add_bias(&k->b, y, vector(k, prefix, "bias", out));
}

// One head as wide as the channels, over all pixels.
static int pixel_attention(struct maker *k, int x, const char *prefix)
{
    static const char *const parts[3] = {"to_q", "to_k", "to_v"};
    struct builder *b = &k->b;
    struct shape full = *builder_shape(b, x);
    int64_t n = channels_of(k, x), pixels = full.dims[1] * full.dims[2];
    int qkv[3];
    builder_scope(b, NORMS, "%s.group_norm", prefix);
    int h = builder_store(b, group_norm(k, x, join(k, prefix, "group_norm")));
    h = build_reshape(b, h, 3, (int64_t[]){k->batch, pixels, n});
    builder_scope(b, "mid: attention", "%s.qkv", prefix);
    for (int i = 0; i < 3; i++) {
        qkv[i] = builder_store(b, projection(k, h, join(k, prefix, parts[i]), n));
        qkv[i] = build_reshape(b, qkv[i], 4, (int64_t[]){k->batch, pixels, 1, n});
    }
    builder_scope(b, "mid: attention", "%s.scores", prefix);
    h = builder_store(b, part_attention(b, qkv[0], qkv[1], qkv[2], -1));
    builder_scope(b, "mid: attention", "%s.out", prefix);
    h = build_reshape(b, projection(k, h, join(k, prefix, "to_out.0"), n), 4, full.dims);
    return builder_store(b, build_binary(b, OP_ADD, x, h));
}

static int mid_block(struct maker *k, int x, const char *prefix)
{
    int64_t n = channels_of(k, x);
    k->group = "mid: resnets";
    x = resnet(k, x, join(k, prefix, "resnets.0"), n);
    x = pixel_attention(k, x, join(k, prefix, "attentions.0"));
    return resnet(k, x, join(k, prefix, "resnets.1"), n);
}

// Every pixel twice in both directions.
static int twice(struct builder *b, int x)
{
    struct shape s = *builder_shape(b, x), wide = s;
    if (x < 0)
        return -1;
    wide.rank = 6;
    wide.dims[2] = wide.dims[4] = 2;
    wide.dims[3] = s.dims[2];
    wide.dims[5] = s.dims[3];
    x = build_broadcast(b, x, wide, (int[]){0, 1, 3, 5});
    return build_reshape(b, x, 4, (int64_t[]){s.dims[0], 2 * s.dims[1], 2 * s.dims[2], s.dims[3]});
}

// sqrt(variance + eps) and mean of every channel of a token.
static void statistics(struct maker *k, int *deviation, int *mean)
{
    struct builder *b = &k->b;
    int64_t n = 4 * k->c->latent;
    *mean = build_weight(b, "bn.running_mean", SHAPE(DT_F32, n));
    int variance = build_weight(b, "bn.running_var", SHAPE(DT_F32, n));
    *deviation = build_unary(b, OP_SQRT, build_binary_scalar(b, OP_ADD, variance, k->c->batch_norm_eps));
}

// Tokens to latent pixels: a token's channel is 4 * channel + 2 * row + column.
static int unfold(struct maker *k, int x)
{
    struct builder *b = &k->b;
    int64_t n = k->c->latent;
    int deviation, mean;
    builder_scope(b, "latent", "latent");
    statistics(k, &deviation, &mean);
    x = build_binary(b, OP_MULTIPLY, x, build_broadcast_trailing(b, deviation, x));
    x = part_add_bias(b, x, mean);
    x = build_reshape(b, x, 6, (int64_t[]){k->batch, k->rows, k->columns, n, 2, 2});
    x = build_transpose(b, x, (int[]){0, 1, 4, 2, 5, 3});
    return builder_store(b, build_reshape(b, x, 4, (int64_t[]){k->batch, 2 * k->rows, 2 * k->columns, n}));
}

static int fold(struct maker *k, int x)
{
    struct builder *b = &k->b;
    int64_t n = k->c->latent;
    int deviation, mean;
    builder_scope(b, "latent", "latent");
    x = build_slice_axis(b, x, 3, 0, n); // the means; what is behind them are log variances
    x = build_reshape(b, x, 6, (int64_t[]){k->batch, k->rows, 2, k->columns, 2, n});
    x = build_transpose(b, x, (int[]){0, 1, 3, 5, 2, 4});
    x = build_reshape(b, x, 3, (int64_t[]){k->batch, k->rows * k->columns, 4 * n});
    statistics(k, &deviation, &mean);
    x = build_binary(b, OP_SUBTRACT, x, build_broadcast_trailing(b, mean, x));
    return builder_store(b, build_binary(b, OP_DIVIDE, x, build_broadcast_trailing(b, deviation, x)));
}

static struct maker maker_of(const struct flux2_config *c, const struct flux2_build *how, struct module *m)
{
    struct maker k = {.c = &c->vae, .batch = how->batch, .rows = how->rows, .columns = how->columns};
    builder_init(&k.b, m);
    return k;
}

int flux2_decoder_module(const struct flux2_config *c, const struct flux2_build *how, struct module *m,
                         struct error *err)
{
    static const char *const groups[FLUX2_LEVELS] = {"up 0", "up 1", "up 2", "up 3"};
    struct maker k = maker_of(c, how, m);
    struct builder *b = &k.b;
    const int64_t *channels = c->vae.channels;
    struct shape tokens = SHAPE(DT_F32, k.batch, k.rows * k.columns, 4 * c->vae.latent);
    if (how->latent)
        tokens.dtype = how->latent;
    int x = build_parameter(b, ROLE_INPUT, "latent", tokens, NULL);
    x = tap(b, how->also, TAPS_ALL, unfold(&k, build_convert(b, x, DT_F32)), "unfolded");
    builder_scope(b, "conv in", "post_quant_conv");
    x = pointwise(&k, x, "post_quant_conv", c->vae.latent);
    builder_scope(b, "conv in", "decoder.conv_in");
    x = same(&k, x, "decoder.conv_in", channels[FLUX2_LEVELS - 1]);
    x = mid_block(&k, x, "decoder.mid_block");
    tap(b, how->also, TAPS_LAYERS, x, "mid");
    for (int i = 0; i < FLUX2_LEVELS; i++) {
        char level[64], up[96];
        k.group = groups[i];
        snprintf(level, sizeof level, "decoder.up_blocks.%d", i);
        x = resnets(&k, x, level, c->vae.layers + 1, channels[FLUX2_LEVELS - 1 - i]);
        if (i < FLUX2_LEVELS - 1) {
            snprintf(up, sizeof up, "%s.upsamplers.0.conv", level);
            builder_scope(b, k.group, "%s", up);
            x = same(&k, twice(b, x), up, channels[FLUX2_LEVELS - 1 - i]);
        }
        tap(b, how->also, TAPS_LAYERS, x, "up.%d", i);
    }
    x = norm_silu(&k, x, "decoder.conv_norm_out");
    builder_scope(b, "conv out", "decoder.conv_out");
    build_result(b, "image", same(&k, x, "decoder.conv_out", 3));
    return builder_finish(b, err);
}

int flux2_encoder_module(const struct flux2_config *c, const struct flux2_build *how, struct module *m,
                         struct error *err)
{
    static const char *const groups[FLUX2_LEVELS] = {"down 0", "down 1", "down 2", "down 3"};
    struct maker k = maker_of(c, how, m);
    struct builder *b = &k.b;
    struct shape image = SHAPE(DT_F32, k.batch, 16 * k.rows, 16 * k.columns, 3);
    int x = build_parameter(b, ROLE_INPUT, "image", image, NULL);
    builder_scope(b, "conv in", "encoder.conv_in");
    x = same(&k, x, "encoder.conv_in", c->vae.channels[0]);
    for (int i = 0; i < FLUX2_LEVELS; i++) {
        char level[64], down[96];
        k.group = groups[i];
        snprintf(level, sizeof level, "encoder.down_blocks.%d", i);
        x = resnets(&k, x, level, c->vae.layers, c->vae.channels[i]);
        if (i < FLUX2_LEVELS - 1) { // zeros on the right and at the bottom only
            snprintf(down, sizeof down, "%s.downsamplers.0.conv", level);
            builder_scope(b, k.group, "%s", down);
            x = builder_store(b, convolution(&k, x, down, c->vae.channels[i], 3, 2, 0, 1));
        }
        tap(b, how->also, TAPS_LAYERS, x, "down.%d", i);
    }
    x = mid_block(&k, x, "encoder.mid_block");
    x = norm_silu(&k, x, "encoder.conv_norm_out");
    builder_scope(b, "conv out", "encoder.conv_out");
    x = same(&k, x, "encoder.conv_out", 2 * c->vae.latent);
    builder_scope(b, "conv out", "quant_conv");
    x = tap(b, how->also, TAPS_ALL, pointwise(&k, x, "quant_conv", 2 * c->vae.latent), "moments");
    build_result(b, "latent", fold(&k, x));
    return builder_finish(b, err);
}
