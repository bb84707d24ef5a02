// SPDX-License-Identifier: Apache-2.0
// BERT encoders that make sentence embeddings (all-MiniLM-L6-v2 and its family): post-norm, learned absolute positions,
// one segment, pooled and normalised.
#ifndef MODELS_BERT_H
#define MODELS_BERT_H

#include "io/checkpoint.h"
#include "io/hf_config.h"
#include "ir/builder.h"

struct bert {
    struct bert_config config;
    struct sentence_config sentence;
    const char *prefix; // of tensor names: "" or "bert."
};

// Reads the configuration of a model directory. ERR_INPUT names the file and key, or says which architectures are
// known.
int bert_open(struct bert *b, const char *directory, struct error *err);
// The configuration of all-MiniLM-L6-v2, for shapes without files.
void bert_minilm(struct bert *b);
// Finds out how the checkpoint names its tensors (with or without "bert."); ERR_INPUT when it is no BERT checkpoint.
int bert_bind(struct bert *b, const struct checkpoint *c, struct error *err);

struct bert_build {
    int64_t batch, seq;
    bool taps; // also return the embedding layer's and every encoder layer's output [batch, seq, hidden]
    // Layer by layer on injected inputs: with first_layer >= 0 the module takes "hidden" [batch, seq, hidden] f32 in
    // place of "input_ids", runs layers first_layer..last_layer and returns "hidden" only.
    int first_layer, last_layer;
};

// Builds the f32 module. Inputs: "input_ids" s32 [batch, seq], "attention_mask" s32 [batch, seq] (1 on tokens). Result
// "embedding" [batch, hidden], pooled and normalised as the directory's side files say.
int bert_module(const struct bert *b, const struct bert_build *how, struct module *m, struct error *err);

// Parameters the module reads: elements of all its weights.
int64_t bert_parameters(const struct module *m);

#endif
