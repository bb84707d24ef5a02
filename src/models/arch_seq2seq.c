// SPDX-License-Identifier: Apache-2.0
// Models that are more than one stack of layers: T5 and Whisper (an encoder before the decoder), and the image tower of
// Gemma 3.
#include <inttypes.h>
#include <string.h>

#include "models/arch_read.h"

static void add(struct arch_reader *r, struct arch *a, struct arch_tensor t)
{
    if (!r->rc && t.rows && t.each)
        r->rc = arch_add(a, r->arena, t, r->err);
}

static void no_flags(struct arch_reader *r, struct arch *a)
{
    uint8_t *flags = r->rc ? NULL : arena_new(r->arena, uint8_t, a->layers, r->err);
    if (!flags && !r->rc)
        r->rc = ERR_MEMORY;
    a->flags = flags;
}

// --- T5
// -----------------------------------------------------------------------------------------------------------------

// Four matrices of attention without biases; `times` of them: a decoder's layer attends to itself and to the encoder.
static void t5_layer(struct arch_reader *r, struct arch *a, enum arch_where where, int64_t times)
{
    int64_t inner = a->heads * a->head_dim;
    add(r, a, (struct arch_tensor){"qkv", ARCH_ATTENTION, ARCH_HEADS, where, inner, a->hidden, 3 * times});
    add(r, a, (struct arch_tensor){"o", ARCH_ATTENTION, ARCH_HEADS, where, a->hidden, inner, times});
    add(r, a, (struct arch_tensor){"wi", ARCH_MLP, ARCH_COLUMNS, where, a->ffn, a->hidden, a->gated ? 2 : 1});
    add(r, a, (struct arch_tensor){"wo", ARCH_MLP, ARCH_COLUMNS, where, a->hidden, a->ffn, 1});
    add(r, a, (struct arch_tensor){"layer_norm", ARCH_NORM, ARCH_WHOLE, where, a->hidden, 0, times + 1});
}

void arch_build_t5(struct arch_reader *r, struct arch *a)
{
    a->kind = ARCH_ENCODER_DECODER;
    a->encoder_layers = arch_read(r, "num_layers", ARCH_MOST_LAYERS);
    a->layers = arch_read_or(r, "num_decoder_layers", a->encoder_layers, ARCH_MOST_LAYERS);
    a->hidden = arch_read(r, "d_model", ARCH_MOST_WIDTH);
    a->heads = a->kv_heads = arch_read(r, "num_heads", ARCH_MOST_WIDTH);
    a->head_dim = a->v_head_dim = arch_read(r, "d_kv", ARCH_MOST_WIDTH);
    a->ffn = arch_read(r, "d_ff", ARCH_MOST_WIDTH);
    a->vocab = arch_read(r, "vocab_size", ARCH_MOST_ROWS);
    a->tied = arch_read_flag(r, "tie_word_embeddings", true);
    const char *ffn = arch_read_word(r, "feed_forward_proj");
    a->gated = ffn && strncmp(ffn, "gated-", 6) == 0;
    a->dropout = true;
    int64_t buckets = arch_read_or(r, "relative_attention_num_buckets", 32, ARCH_MOST_ROWS);
    if (!r->rc && !a->layers)
        r->rc = error_set(r->err, ERR_INPUT, r->path, "\"num_decoder_layers\" must not be 0");
    no_flags(r, a);
    add(r, a, (struct arch_tensor){"shared", ARCH_EMBEDDING, ARCH_VOCAB, ARCH_FIRST, a->vocab, a->hidden, 1});
    add(r, a,
        (struct arch_tensor){"relative_attention_bias", ARCH_ATTENTION, ARCH_WHOLE, ARCH_FIRST, buckets, a->heads, 2});
    t5_layer(r, a, ARCH_ENCODER_LAYERS, 1);
    t5_layer(r, a, ARCH_EVERY_LAYER, 2);
    add(r, a, (struct arch_tensor){"final_layer_norm", ARCH_NORM, ARCH_WHOLE, ARCH_LAST, a->hidden, 0, 2});
    if (!a->tied)
        add(r, a, (struct arch_tensor){"lm_head", ARCH_HEAD, ARCH_VOCAB, ARCH_LAST, a->vocab, a->hidden, 1});
}

// --- Whisper
// -----------------------------------------------------------------------------------------------------------------

// Keys have no bias; queries, values and outputs do.
static void whisper_layer(struct arch_reader *r, struct arch *a, enum arch_where where, int64_t ffn, int64_t times)
{
    int64_t d = a->hidden;
    add(r, a, (struct arch_tensor){"qkvo_proj", ARCH_ATTENTION, ARCH_HEADS, where, d, d, 4 * times});
    add(r, a, (struct arch_tensor){"qvo_bias", ARCH_ATTENTION, ARCH_WHOLE, where, d, 0, 3 * times});
    add(r, a, (struct arch_tensor){"fc1", ARCH_MLP, ARCH_COLUMNS, where, ffn, d, 1});
    add(r, a, (struct arch_tensor){"fc1_bias", ARCH_MLP, ARCH_COLUMNS, where, ffn, 0, 1});
    add(r, a, (struct arch_tensor){"fc2", ARCH_MLP, ARCH_COLUMNS, where, d, ffn, 1});
    add(r, a, (struct arch_tensor){"fc2_bias", ARCH_MLP, ARCH_WHOLE, where, d, 0, 1});
    add(r, a, (struct arch_tensor){"layer_norm", ARCH_NORM, ARCH_WHOLE, where, d, 0, 2 * (times + 1)});
}

void arch_build_whisper(struct arch_reader *r, struct arch *a)
{
    a->kind = ARCH_ENCODER_DECODER;
    a->encoder_layers = arch_read(r, "encoder_layers", ARCH_MOST_LAYERS);
    a->layers = arch_read(r, "decoder_layers", ARCH_MOST_LAYERS);
    a->hidden = arch_read(r, "d_model", ARCH_MOST_WIDTH);
    a->heads = a->kv_heads = arch_read(r, "decoder_attention_heads", ARCH_MOST_WIDTH);
    a->ffn = arch_read(r, "decoder_ffn_dim", ARCH_MOST_WIDTH);
    a->vocab = arch_read(r, "vocab_size", ARCH_MOST_ROWS);
    a->max_positions = arch_read_or(r, "max_target_positions", 448, ARCH_MOST_ROWS);
    a->encoder_tokens = arch_read_or(r, "max_source_positions", 1500, ARCH_MOST_ROWS);
    a->tied = arch_read_flag(r, "tie_word_embeddings", true);
    a->dropout = true;
    int64_t mel = arch_read_or(r, "num_mel_bins", 80, ARCH_MOST_WIDTH), d = a->hidden;
    int64_t encoder_ffn = arch_read(r, "encoder_ffn_dim", ARCH_MOST_WIDTH);
    if (!r->rc && d % a->heads)
        r->rc = error_set(r->err, ERR_INPUT, r->path, "\"d_model\" %" PRId64 " is not a multiple of %" PRId64 " heads",
                          d, a->heads);
    a->head_dim = a->v_head_dim = r->rc ? 1 : d / a->heads;
    no_flags(r, a);
    add(r, a, (struct arch_tensor){"conv1", ARCH_OTHER, ARCH_WHOLE, ARCH_FIRST, d, 3 * mel, 1});
    add(r, a, (struct arch_tensor){"conv2", ARCH_OTHER, ARCH_WHOLE, ARCH_FIRST, d, 3 * d, 1});
    add(r, a, (struct arch_tensor){"conv_bias", ARCH_OTHER, ARCH_WHOLE, ARCH_FIRST, d, 0, 2});
    add(r, a,
        (struct arch_tensor){"encoder.embed_positions", ARCH_EMBEDDING, ARCH_WHOLE, ARCH_FIRST, a->encoder_tokens, d,
                             1});
    add(r, a, (struct arch_tensor){"embed_tokens", ARCH_EMBEDDING, ARCH_VOCAB, ARCH_FIRST, a->vocab, d, 1});
    add(r, a, (struct arch_tensor){"embed_positions", ARCH_EMBEDDING, ARCH_WHOLE, ARCH_FIRST, a->max_positions, d, 1});
    whisper_layer(r, a, ARCH_ENCODER_LAYERS, encoder_ffn, 1);
    whisper_layer(r, a, ARCH_EVERY_LAYER, a->ffn, 2);
    add(r, a, (struct arch_tensor){"final_layer_norm", ARCH_NORM, ARCH_WHOLE, ARCH_LAST, d, 0, 4});
}

// --- the image tower of Gemma 3
// -----------------------------------------------------------------------------------------------------------------

void arch_read_gemma3_vision(struct arch_reader *r, struct arch *a)
{
    struct arch_reader v = *r;
    v.object = json_object_get(r->outer, "vision_config");
    if (!v.object || json_is_null(v.object))
        return;
    int64_t d = arch_read(&v, "hidden_size", ARCH_MOST_WIDTH), f = arch_read(&v, "intermediate_size", ARCH_MOST_WIDTH);
    int64_t layers = arch_read(&v, "num_hidden_layers", ARCH_MOST_LAYERS);
    int64_t patch = arch_read(&v, "patch_size", 4096), image = arch_read(&v, "image_size", 1 << 16);
    int64_t channels = arch_read_or(&v, "num_channels", 3, 4096), side = image / patch;
    int64_t head = arch_read_flag(&v, "vision_use_head", true);
    const struct {
        const char *name;
        int64_t rows, cols, each;
    } tower[] = {
        {"vision.patch_embedding", d, channels * patch * patch, 1},
        {"vision.patch_bias", d, 0, 1},
        {"vision.position_embedding", side * side, d, 1},
        {"vision.qkvo_proj", d, d, 4 * layers},
        {"vision.fc", f, d, 2 * layers},
        {"vision.attention_bias", d, 0, 4 * layers},
        {"vision.fc1_bias", f, 0, layers},
        {"vision.fc2_bias", d, 0, layers},
        {"vision.layer_norm", d, 0, 4 * layers + 2},
        {"projector", a->hidden, d, 1},
        {"projector.norm", d, 0, 1},
        // Pooling by attention of one learned query, which the published models leave out.
        {"vision.head.probe", d, 0, head},
        {"vision.head.qkvo_proj", d, d, 4 * head},
        {"vision.head.fc", f, d, 2 * head},
        {"vision.head.bias", d, 0, 7 * head},
        {"vision.head.fc1_bias", f, 0, head},
    };
    r->rc = v.rc;
    for (size_t i = 0; i < sizeof tower / sizeof *tower; i++)
        add(r, a,
            (struct arch_tensor){tower[i].name, ARCH_VISION, ARCH_WHOLE, ARCH_FIRST, tower[i].rows, tower[i].cols,
                                 tower[i].each});
}
