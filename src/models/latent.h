// SPDX-License-Identifier: Apache-2.0
// Latent attention (DeepSeek V2 and V3): keys and values of all heads are made of one latent of a token, which is what
// a cache keeps, beside one rotated key for all heads.
#ifndef MODELS_LATENT_H
#define MODELS_LATENT_H

#include "ir/builder.h"

struct latent {
    int64_t heads, nope, rope, value; // features of a head: not rotated, rotated, of its value
    int64_t lora, q_lora;             // of the latent; of that of queries, 0: there is none
    double eps;
    const char *prefix; // of tensors: "model.layers.3.self_attn."
};

// What a token has: queries, the latent, and the rotated key; not rotated yet.
struct latent_values {
    int query;  // [batch, tokens, heads, nope + rope]
    int latent; // [batch, tokens, 1, lora]
    int key;    // [batch, tokens, 1, rope]
};

// From x [batch, tokens, hidden], normalised.
struct latent_values latent_project(struct builder *b, const struct latent *l, int x);
// The heads' results [batch, tokens, heads * value]. `visible` as of part_attention. Of a prompt keys and values of
// each head are made of the latents; a step, which would have to make those of all tokens again, puts queries among the
// latents instead: more features in a product, and none of the cache's size. Both are the same sums in another order.
int latent_attention(struct builder *b, const struct latent *l, struct latent_values v, int visible, bool step);

#endif
