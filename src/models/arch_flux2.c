// SPDX-License-Identifier: Apache-2.0
// FLUX.2: a denoiser of double and single blocks between the first layers of a text encoder and the decoder of an
// autoencoder. Sizes follow from the configurations, as models/flux2.c builds them.
#include <string.h>

#include "models/arch.h"
#include "models/flux2.h"

// Convolutions and norms of the decoder with post_quant_conv, counted from its layers (channels 128, 256, 512, 512).
enum { VAE_DECODER = 49620259 };

struct adding {
    struct arch *a;
    struct arena *arena;
    struct error *err;
    int rc;
};

static void add(struct adding *s, const char *name, enum arch_part part, enum arch_split split, enum arch_where where,
                int64_t rows, int64_t cols, int64_t each)
{
    if (!s->rc)
        s->rc = arch_add(s->a, s->arena, (struct arch_tensor){name, part, split, where, rows, cols, each}, s->err);
}

static void add_text(struct adding *s, const struct decoder_config *c, int64_t layers)
{
    int64_t h = c->hidden, q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim, m = c->intermediate;
    enum arch_part part = ARCH_TEXT_ENCODER;
    add(s, "text.embed_tokens", part, ARCH_WHOLE, ARCH_FIRST, c->vocab, h, 1);
    add(s, "text.q_proj", part, ARCH_WHOLE, ARCH_FIRST, q, h, layers);
    add(s, "text.kv_proj", part, ARCH_WHOLE, ARCH_FIRST, kv, h, 2 * layers);
    add(s, "text.o_proj", part, ARCH_WHOLE, ARCH_FIRST, h, q, layers);
    add(s, "text.up_proj", part, ARCH_WHOLE, ARCH_FIRST, m, h, 2 * layers);
    add(s, "text.down_proj", part, ARCH_WHOLE, ARCH_FIRST, h, m, layers);
    add(s, "text.norm", part, ARCH_WHOLE, ARCH_FIRST, h, 0, 2 * layers);
    add(s, "text.qk_norm", part, ARCH_WHOLE, ARCH_FIRST, c->head_dim, 0, 2 * layers);
}

static void add_denoiser(struct adding *s, const struct flux2_dit_config *c)
{
    int64_t d = c->heads * c->head_dim, m = c->mlp;
    enum arch_part part = ARCH_DENOISER;
    add(s, "double.qkv", part, ARCH_HEADS, ARCH_DOUBLE_LAYERS, 3 * d, d, 2);
    add(s, "double.proj", part, ARCH_HEADS, ARCH_DOUBLE_LAYERS, d, d, 2);
    add(s, "double.mlp_in", part, ARCH_COLUMNS, ARCH_DOUBLE_LAYERS, 2 * m, d, 2);
    add(s, "double.mlp_out", part, ARCH_COLUMNS, ARCH_DOUBLE_LAYERS, d, m, 2);
    add(s, "double.qk_norm", part, ARCH_WHOLE, ARCH_DOUBLE_LAYERS, c->head_dim, 0, 4);
    add(s, "single.linear1", part, ARCH_COLUMNS, ARCH_SINGLE_LAYERS, 3 * d + 2 * m, d, 1);
    add(s, "single.linear2", part, ARCH_COLUMNS, ARCH_SINGLE_LAYERS, d, d + m, 1);
    add(s, "single.qk_norm", part, ARCH_WHOLE, ARCH_SINGLE_LAYERS, c->head_dim, 0, 2);
    add(s, "context_embedder", part, ARCH_WHOLE, ARCH_FIRST, d, c->joint, 1);
    add(s, "x_embedder", part, ARCH_WHOLE, ARCH_FIRST, d, c->channels, 1);
    add(s, "proj_out", part, ARCH_WHOLE, ARCH_FIRST, c->channels, d, 1);
    add(s, "time_in", part, ARCH_WHOLE, ARCH_FIRST, d, c->time_channels, 1);
    add(s, "time_out", part, ARCH_WHOLE, ARCH_FIRST, d, d, 1);
    add(s, "modulation.double", part, ARCH_WHOLE, ARCH_FIRST, 6 * d, d, 2);
    add(s, "modulation.single", part, ARCH_WHOLE, ARCH_FIRST, 3 * d, d, 1);
    add(s, "norm_out", part, ARCH_WHOLE, ARCH_FIRST, 2 * d, d, 1);
}

int arch_from_flux2(struct arch *a, const struct flux2_config *c, const char *source, struct arena *arena,
                    struct error *err)
{
    struct adding s = {.a = a, .arena = arena, .err = err};
    int64_t layers = c->dit.double_blocks + c->dit.single_blocks;
    memset(a, 0, sizeof *a);
    uint8_t *flags = arena_new(arena, uint8_t, layers, err);
    if (!flags)
        return ERR_MEMORY;
    memset(flags, ARCH_DOUBLE, (size_t)c->dit.double_blocks);
    a->kind = ARCH_DIFFUSION;
    a->name = arena_printf(arena, err, "builtin:%s", c->name);
    a->family = "flux2";
    a->source = source;
    a->layers = layers;
    a->flags = flags;
    a->hidden = c->dit.heads * c->dit.head_dim;
    a->heads = a->kv_heads = c->dit.heads;
    a->head_dim = a->v_head_dim = c->dit.head_dim;
    a->ffn = c->dit.mlp;
    a->gated = true;
    a->text_tokens = c->text_tokens;
    a->text_width = c->dit.joint;
    a->channels = c->dit.channels;
    a->dtype = DT_BF16;
    a->note = arena_printf(arena, err,
                           "the text encoder is the first %d of its %d layers, which is all that is used; the encoder "
                           "of images is left out",
                           c->taps[2], (int)c->text.layers);
    add_text(&s, &c->text, c->taps[2]);
    add_denoiser(&s, &c->dit);
    add(&s, "vae.decoder", ARCH_IMAGE_DECODER, ARCH_WHOLE, ARCH_FIRST, VAE_DECODER, 0, 1);
    if (!s.rc && (!a->name || !a->note))
        s.rc = ERR_MEMORY;
    return s.rc ? s.rc : arch_finish(a, err);
}
