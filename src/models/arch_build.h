// SPDX-License-Identifier: Apache-2.0
// From the sizes of a model to its tensors: shared by the readers of config.json and of GGUF metadata.
#ifndef MODELS_ARCH_BUILD_H
#define MODELS_ARCH_BUILD_H

#include "models/arch.h"

// What families do beside sizes. Biases are of q, k, v and of the output projection.
struct arch_traits {
    bool qkv_bias, o_bias, mlp_bias;
    bool qk_norm;      // a norm over head_dim for queries, and one for keys
    bool qk_norm_full; // the same over all heads
    bool sinks;        // a learned number per head
    bool layer_norm;   // weight and bias, in place of a weight
    int norms;         // per layer, over hidden
    bool final_norm;
    bool router_bias, expert_bias;
    bool shared_gate;      // a number per token scales the shared expert
    int64_t shared_hidden; // columns of the shared experts together; 0: none
    int64_t q_lora;        // of latent attention; 0: queries come from hidden at once
    int64_t positions;     // rows of a learned table; 0: none
    int64_t token_types;   // 0: none
    bool embedding_norm, pooler;
};

// A stack of decoder or encoder layers over a->hidden, with embedding and head.
int arch_build(struct arch *a, const struct arch_traits *t, struct arena *arena, struct error *err);

#endif
