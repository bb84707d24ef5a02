// SPDX-License-Identifier: Apache-2.0
// config.json of a Hugging Face model directory, and the side files of sentence-transformers.
#ifndef IO_HF_CONFIG_H
#define IO_HF_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct hf_config {
    char path[1024];
    char model_type[64];
    char architecture[128]; // architectures[0]; empty when the file has none
    json_t *root;           // the whole object, for typed getters (json_get_*)
};

// `path` is the directory or the file. ERR_INPUT names the file and the key.
int hf_config_open(struct hf_config *c, const char *path, struct error *err);
int hf_config_parse(struct hf_config *c, const char *text, size_t n, const char *path, struct error *err);
void hf_config_release(struct hf_config *c);

enum hf_activation {
    HF_GELU,      // x Phi(x), by erf
    HF_GELU_TANH, // its tanh approximation: "gelu_new", "gelu_pytorch_tanh", "gelu_fast"
    HF_RELU,
    HF_SILU,
    HF_TANH,
};

struct bert_config {
    int64_t hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, vocab_size;
    int64_t max_position_embeddings, type_vocab_size;
    double layer_norm_eps;
    enum hf_activation hidden_act;
};

// The fields of model_type "bert", checked: positive, within sane limits, heads divide hidden_size, absolute positions.
// Another model_type is ERR_INPUT that says which are supported.
int hf_config_bert(const struct hf_config *c, struct bert_config *out, struct error *err);

enum pooling_mode { POOLING_MEAN, POOLING_CLS, POOLING_MAX, POOLING_MEAN_SQRT_LENGTH };
const char *pooling_mode_name(enum pooling_mode m);
// From the text of a pooling module's config.json: exactly one mode must be switched on. ERR_INPUT names the others.
int pooling_parse(const char *text, size_t n, const char *path, enum pooling_mode *out, struct error *err);

// How token vectors become one embedding: from modules.json, 1_Pooling/config.json (the path modules.json gives) and
// sentence_bert_config.json where they are; else mean, normalised, no limit of its own.
struct sentence_config {
    enum pooling_mode pooling;
    bool normalize;
    int64_t max_seq_length;  // tokens with [CLS] and [SEP]; 0: not said
    char pooling_path[1024]; // the file that `pooling` comes from; empty: none
    bool found;              // modules.json was there
};

int sentence_config_open(struct sentence_config *c, const char *directory, struct error *err);

#endif
