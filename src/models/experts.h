// SPDX-License-Identifier: Apache-2.0
// Layers whose tokens pass a few of many experts, as a router says (mixture of experts).
#ifndef MODELS_EXPERTS_H
#define MODELS_EXPERTS_H

#include "ir/builder.h"

// The group of their instructions and weights.
#define EXPERTS_GROUP "experts"

struct experts {
    int64_t n, active; // experts of a layer, and how many of them a token passes
    int64_t columns;   // of one
    int64_t shared;    // columns that every token passes beside them; 0: none
    bool corrected;    // the router chooses by its scores and a learned vector
};

// How many experts of a layer `tokens` tokens need together when every one is chosen as often as any other: the
// expected number, n (1 - (1 - active / n)^tokens), from `active` to n.
double experts_touched(const struct experts *e, double tokens);

// x [batch, tokens, hidden], normalised: what the experts make of it, [batch, tokens, hidden] in f32. `prefix` is that
// of the tensors ("model.layers.3.mlp."): "gate.weight", "experts.gate_up_proj" [n, 2 columns, hidden],
// "experts.down_proj" [n, hidden, columns], and "shared_experts.".
//
// Tokens are sorted by expert, and the nearest integer to experts_touched of them have as many tokens as any other, or
// one more: products are those of active * tokens rows, weights are read of these experts alone. With a router that is
// not even it is not what the model computes; shapes, arithmetic and bytes are what is asked for here.
int experts_build(struct builder *b, const struct experts *e, int layer, const char *prefix, int x);

#endif
