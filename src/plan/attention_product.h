// SPDX-License-Identifier: Apache-2.0
// Products of two activations, for each sequence and head: scores of queries and keys, and what values make of them.
#ifndef PLAN_ATTENTION_PRODUCT_H
#define PLAN_ATTENTION_PRODUCT_H

#include "ir/module.h"

struct attention_product {
    bool scores;                       // or probabilities and values
    int a, z;                          // the operands' values
    int batch[2], heads[2], blocks[2]; // which dimension of a and of z; blocks -1: not in blocks (ring.h)
    int tokens, keys;                  // of a, of z
    int out_heads, out_tokens;         // of the result; its batch is the first
};

// False for other instructions.
bool attention_product(const struct module *m, const struct instruction *in, struct attention_product *out);

#endif
