// SPDX-License-Identifier: Apache-2.0
// Causal decoders of the Llama family, with what Qwen3 adds: RMS norms, rotary positions (half split), grouped queries,
// norms of queries and keys, SwiGLU. As a text encoder (taps of the residual stream), for a prompt, and for one token
// behind a cache.
#ifndef MODELS_DECODER_H
#define MODELS_DECODER_H

#include "io/hf_config.h"
#include "ir/builder.h"
#include "models/arch.h"
#include "models/experts.h"
#include "models/taps.h"

enum { DECODER_MAX_TAPS = 8 };

struct decoder_config {
    int64_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocab;
    double eps, rope_theta;
    bool qk_norm;       // learned RMS norms of every head's queries and keys, before the rotation
    bool tied;          // the head is the embedding table
    int64_t window;     // tokens that a layer sees, 0: all. Longer sequences are refused
    const char *prefix; // of tensor names: "model."
    // Of a description alone, where nothing runs: experts in the layers that `moe` marks (n 0: in none), and latent
    // attention (latent.h; kv_lora 0: keys and values of heads), whose head_dim has rope_dim rotated features.
    struct experts experts;
    const uint8_t *moe; // one per layer, ARCH_MOE
    int64_t kv_lora, q_lora, rope_dim, v_head_dim;
};

// model_type llama, mistral or qwen3. ERR_INPUT names the file and the key.
int decoder_config_read(struct decoder_config *d, const struct hf_config *c, struct error *err);

// The same from a description, for shapes alone: neither the norms' eps nor the rotation are in it. Also mixtral,
// qwen3_moe, deepseek_v2 and deepseek_v3. `d` borrows from `a`. ERR_USAGE for what cannot be built.
int decoder_config_of(struct decoder_config *d, const struct arch *a, struct error *err);

// Of those that only have a description: mixtral, qwen3_moe, deepseek_v2, deepseek_v3.
bool decoder_is_described(const char *model_type);

enum decoder_phase {
    DECODER_TAPS,    // the residual stream behind some layers, one behind the other for each token
    DECODER_PREFILL, // a prompt: logits of its last token, and the cache
    DECODER_STEP,    // one more token for every sequence, behind a cache of `seq` tokens
};

struct decoder_build {
    enum decoder_phase phase;
    int64_t batch, seq;
    int taps[DECODER_MAX_TAPS], n_taps; // layers from 1, ascending; what comes behind the last is not built
    // Also returned: "layer.0", ..., the stream behind every layer; with TAPS_ALL "embedding" and of the first layer
    // its rotated "layer.0.query" and "layer.0.key" [batch, seq, heads, head_dim] and "layer.0.attention", before it is
    // added.
    enum taps also;
};

// Builds the f32 module. Inputs: "input_ids" s32 [batch, seq] (or [batch, 1]), "attention_mask" s32 [batch, seq] (1 on
// tokens; a key is seen by later queries only, and only where it is a token), "rope_cos" and "rope_sin" f32
// [seq, head_dim / 2] (or [1, ...]). A step has "position" s32 in place of the mask, and states "cache.N.key",
// "cache.N.value" [batch, seq, kv heads, head_dim]; with latent attention "cache.N.latent" [batch, seq, 1, kv_lora] and
// "cache.N.rope" [batch, seq, 1, rope_dim].
// Results: "context" [batch, seq, taps * hidden]; or "logits" [batch, vocab] and caches.
// ERR_USAGE for sizes out of range.
int decoder_module(const struct decoder_config *c, const struct decoder_build *how, struct module *m,
                   struct error *err);

// The tables for positions first, first + 1, ...: n * head_dim / 2 values each.
void decoder_rope(const struct decoder_config *c, int64_t first, int64_t n, float *cosine, float *sine);

#endif
