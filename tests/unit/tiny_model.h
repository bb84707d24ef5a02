// SPDX-License-Identifier: Apache-2.0
// A BERT sentence embedding model of a few thousand parameters in the layout of a model directory, with random weights:
// what tests run in place of a real one. Every text it is given embeds differently; nothing about it is learned.
#ifndef TESTS_UNIT_TINY_MODEL_H
#define TESTS_UNIT_TINY_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

// A departure from what is right.
enum tiny_edit_kind {
    TINY_DROP,   // the tensor `name` is left out
    TINY_SHAPE,  // the tensor `name` has the shape `value`: "16x8"
    TINY_TYPE,   // the tensor `name` is stored as `value`: "BF16", "I64"
    TINY_FILL,   // every element of the tensor `name`, of every one for "*", is the number `value`
    TINY_EXTRA,  // one more tensor is called `name`
    TINY_CONFIG, // config.json says `value` (JSON) for the key `name`, or lacks the key where value is ""
};
struct tiny_edit {
    enum tiny_edit_kind kind;
    const char *name, *value;
};

enum { TINY_MAX_EDITS = 16 };
struct tiny_options {
    uint64_t seed;
    int64_t hidden, layers, heads, intermediate, positions;
    int64_t pieces; // of the vocabulary; config.json says the same unless it is edited
    int shards;     // 0: model.safetensors; else so many files and an index
    size_t n_edits;
    struct tiny_edit edits[TINY_MAX_EDITS];
};
#define TINY_DEFAULTS                                                                                                  \
    (struct tiny_options)                                                                                              \
    {                                                                                                                  \
        .seed = 1, .hidden = 32, .layers = 2, .heads = 2, .intermediate = 64, .positions = 64, .pieces = 60            \
    }

// Makes the directory (whose parent exists) and writes config.json, vocab.txt and the weights.
int tiny_model_write(const char *dir, const struct tiny_options *o, struct error *err);

#endif
