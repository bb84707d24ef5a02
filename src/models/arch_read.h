// SPDX-License-Identifier: Apache-2.0
// Reading the keys of a config.json into an arch: the first mistake stays, and what is read after it is 1.
#ifndef MODELS_ARCH_READ_H
#define MODELS_ARCH_READ_H

#include "models/arch_build.h"

// Limits far above any model: beyond them a file is damaged, and a tensor of two of them still fits int64_t.
enum { ARCH_MOST_LAYERS = 4096, ARCH_MOST_WIDTH = 1 << 20, ARCH_MOST_ROWS = 1 << 26, ARCH_MOST_EXPERTS = 1 << 16 };

struct arch_family;

struct arch_reader {
    const json_t *object, *outer; // where keys are looked for; the whole file
    const char *path;
    const struct arch_family *family;
    struct arena *arena;
    struct error *err;
    struct str assumed; // "vocab_size 262208, ...": defaults that were used
    int rc;
};

struct arch_family {
    const char *name; // model_type
    void (*read)(struct arch_reader *, struct arch *, struct arch_traits *);
    void (*build)(struct arch_reader *, struct arch *);  // in place of `read`: makes the tensors itself
    void (*finish)(struct arch_reader *, struct arch *); // adds tensors beside the layers
    struct arch_traits traits;
    // What holds where a key is missing; 0: heads and vocab are required, kv_heads are the heads, head_dim follows.
    int64_t heads, kv_heads, head_dim, vocab, window;
    int64_t period; // every period-th layer is global; 0: all layers alike
    bool tied, plain_ffn, qkv_bias, nested, window_by_flag;
};

bool arch_read_has(const struct arch_reader *r, const char *key); // null counts as missing
// A whole number from 1 on.
int64_t arch_read(struct arch_reader *r, const char *key, int64_t most);
// The same or `absent`; from 0 on.
int64_t arch_read_or(struct arch_reader *r, const char *key, int64_t absent, int64_t most);
// The same, noted as assumed; absent 0: required.
int64_t arch_read_assumed(struct arch_reader *r, const char *key, int64_t absent, int64_t most);
bool arch_read_flag(struct arch_reader *r, const char *key, bool absent);
const char *arch_read_word(struct arch_reader *r, const char *key); // NULL when it is no string

// "quantization_config" of the outer object. ERR_INPUT for a method that is not known, with the way out.
int arch_read_quantization(struct arch_reader *r, struct arch_quant *q);

void arch_build_t5(struct arch_reader *r, struct arch *a);
void arch_build_whisper(struct arch_reader *r, struct arch *a);
void arch_read_gemma3_vision(struct arch_reader *r, struct arch *a);

#endif
