// SPDX-License-Identifier: Apache-2.0
// What the files of the byte-level BPE tokenizer share.
#ifndef MODELS_BPE_PART_H
#define MODELS_BPE_PART_H

#include "base/idmap.h"
#include "models/bpe.h"

// A token by its bytes, which lie in the pool. length 0: the id is not used.
struct bpe_token {
    uint32_t at, length;
    bool added, special;
};

struct bpe_word {
    uint32_t hash, id; // id + 1; 0: free
};

struct bpe_merge {
    uint32_t left, right; // ids
    uint32_t rank;        // + 1; 0: free
    uint32_t id;          // of what they make
};

static inline uint32_t bpe_hash(const struct bpe *b, const uint8_t *bytes, size_t n)
{
    return (uint32_t)mix_bytes(b->secret ^ n, bytes, n);
}

// The id of n bytes as a token of the vocabulary (added tokens are none), or -1.
int32_t bpe_find(const struct bpe *b, const uint8_t *bytes, size_t n);
// The slot of a pair, or the free one where it belongs.
struct bpe_merge *bpe_merge_slot(const struct bpe *b, uint32_t left, uint32_t right);

#endif
