// SPDX-License-Identifier: Apache-2.0
// What a decoder keeps of every token: keys and values, by the rule of its attention.
//
//     plain    2 layers heads_kv head_dim bytes a token (K and V may differ in size); heads of the configuration, and
//              its head_dim, never hidden / heads
//     latent   layers (kv_lora + rope) bytes a token, once for all heads and without the factor 2 (DeepSeek V2, V3)
//     window   a local layer keeps no more than its window, in whole pages
// On a TPU heads come in units of a 32-bit word and head_dim in multiples of 128, or is 64 (vllm-project/tpu-inference,
// kernels/ragged_paged_attention/v3/kernel.py). Pages: those of vLLM (vllm/v1/kv_cache_interface.py).
#ifndef PLAN_CACHE_H
#define PLAN_CACHE_H

#include "models/arch.h"
#include "plan/layout.h"

struct cache_options {
    int64_t sequences, tokens; // of the whole job: sequences, and tokens kept of each
    enum dtype type;
    bool scales;   // f32 per token and head, for K and for V: where the type has scales
    bool tpu;      // padded as a TPU's kernel wants it
    int64_t page;  // tokens; 1: no pages
    int64_t chunk; // tokens that are added at once, which a window must hold beside itself
};

// Bytes. raw: the formula, for the whole job. The rest is on one device of the fullest stage: `ideal` is raw divided
// evenly, and what follows is what comes on top, one after the other.
struct cache {
    double raw;
    double ideal;  // on this device
    double copies; // heads that more ways than heads hold again, and latents that every way of tp holds
    double padding, pages, scales;
    double cross;           // keys and values of what the encoder saw, whole
    double total;           // on the device
    double token_bytes_raw; // one more token of one sequence, all layers global, whole model
};

// Layers [first, last) are those of the device.
void cache_on_device(const struct arch *a, const struct cache_options *o, const struct layout *l, int64_t first,
                     int64_t last, struct cache *out);

// "2 * 8 * 4096 * 24 * 8 * 64 * 2 B": the formula of raw with its numbers.
void cache_formula(const struct arch *a, const struct cache_options *o, struct str *out);

#endif
