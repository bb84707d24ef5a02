// SPDX-License-Identifier: Apache-2.0
// What a model is made of, as far as memory and layouts ask: layers, heads, experts, and every weight tensor with its
// shape. From config.json, from a GGUF file's metadata, from the built-in list, or from a number of parameters.
#ifndef MODELS_ARCH_H
#define MODELS_ARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "io/gguf.h"
#include "io/hf_config.h"
#include "num/dtype.h"

enum arch_kind {
    ARCH_DECODER,         // causal: keeps keys and values of every token
    ARCH_ENCODER,         // every token sees all others; nothing is kept
    ARCH_ENCODER_DECODER, // a decoder whose layers also keep keys and values of what the encoder saw
    ARCH_DIFFUSION,       // a denoiser between a text encoder and an image decoder
    ARCH_COUNT_ONLY,      // a number of parameters, and nothing else is known
};
const char *arch_kind_name(enum arch_kind kind);

enum arch_part {
    ARCH_EMBEDDING,
    ARCH_ATTENTION,
    ARCH_MLP,
    ARCH_EXPERT, // routed experts
    ARCH_SHARED, // experts that every token passes
    ARCH_ROUTER,
    ARCH_NORM,
    ARCH_HEAD,
    ARCH_VISION, // an image tower and its projector
    ARCH_TEXT_ENCODER,
    ARCH_DENOISER,
    ARCH_IMAGE_DECODER,
    ARCH_OTHER,
    ARCH_PARTS,
};
const char *arch_part_name(enum arch_part part); // "attention", "experts"

// How tensor parallelism divides a tensor.
enum arch_split {
    ARCH_WHOLE,    // a copy on every device
    ARCH_EVENLY,   // somehow: nothing is known about what it is
    ARCH_HEADS,    // by heads of queries
    ARCH_KV_HEADS, // by heads of keys and values; copies where there are more ways than heads
    ARCH_COLUMNS,  // by columns of the ffn
    ARCH_VOCAB,    // by rows of the vocabulary, padded to whole rows
};

// Which layers have it.
enum arch_where {
    ARCH_FIRST,         // before the layers: on the first stage of a pipeline
    ARCH_EVERY_LAYER,   //
    ARCH_DENSE_LAYERS,  // without experts
    ARCH_MOE_LAYERS,    //
    ARCH_DOUBLE_LAYERS, // of an image transformer: with streams of their own for text and image
    ARCH_SINGLE_LAYERS, //
    ARCH_ENCODER_LAYERS,
    ARCH_LAST, // after them: on the last stage
};

struct arch_tensor {
    const char *name; // "q_proj"; borrowed from the arena or static
    enum arch_part part;
    enum arch_split split;
    enum arch_where where;
    int64_t rows, cols; // outputs and inputs of a matrix; cols 0: a vector of `rows`
    int64_t each;       // in one layer, or in all for tensors outside: 1, the number of experts, ...
};

// How weights are stored according to config.json ("quantization_config"). Only linear layers of the body are.
enum arch_quant_method {
    ARCH_QUANT_NONE,
    ARCH_QUANT_GPTQ,  // packed in int32; f16 scales and packed zeros per group, int32 group index per input
    ARCH_QUANT_AWQ,   // the same without the index
    ARCH_QUANT_FP8,   // f8e4m3, f32 scale per block of block[0] x block[1], or per tensor where these are 0
    ARCH_QUANT_NF4,   // bitsandbytes: 4 bit, f32 absmax per 64
    ARCH_QUANT_INT8,  // bitsandbytes: int8, f32 scale per row
    ARCH_QUANT_MXFP4, // routed experts only: 32 codes of 4 bit and a byte of scale
};
struct arch_quant {
    enum arch_quant_method method;
    int64_t bits, group; // of GPTQ and AWQ; group 0: the whole row
    int64_t block[2];
    bool nested; // NF4: absmax values are themselves stored in a byte
};

enum { ARCH_LOCAL = 1, ARCH_MOE = 2, ARCH_DOUBLE = 4 };

struct arch {
    const char *name;   // as given, or what the file calls it
    const char *family; // model_type, or GGUF's architecture
    const char *source; // where the figures come from: a path, or a citation for the built-in list
    enum arch_kind kind;
    int64_t layers; // of the decoder, or of the encoder where there is no decoder
    int64_t hidden, heads, kv_heads, head_dim, v_head_dim;
    int64_t ffn; // of a dense layer; 0: every layer has experts
    int64_t vocab, max_positions;
    bool tied;  // the head is the embedding table
    bool gated; // the ffn has a gate beside its up projection
    bool dropout;
    int64_t kv_lora, rope_dim; // latent attention: what is kept for a token in place of keys and values; 0: none
    int64_t experts, active_experts, expert_ffn, shared_ffn;
    int64_t window;                         // tokens that a local layer sees; 0: no layer is local
    const uint8_t *flags;                   // per layer: ARCH_LOCAL, ARCH_MOE, ARCH_DOUBLE
    int64_t encoder_layers, encoder_tokens; // of an encoder before the decoder; tokens 0: as many as asked for
    int64_t text_tokens, text_width;        // of an image transformer: its text, and the features of a token of it
    int64_t channels;                       // of an image transformer: of a token of the image, in and out
    enum dtype dtype;                       // of the checkpoint; DT_INVALID: not said
    struct arch_quant quant;
    struct arch_tensor *tensors;
    size_t n_tensors;
    double parameters, active_parameters; // of all tensors; those that one token passes
    double published;                     // of the built-in list: what its source says; 0: nothing
    const char *assumed;                  // what was not said and taken from the family's defaults; NULL: nothing
    const char *note;                     // what is counted in a way of its own; NULL: nothing
};

// Everything lives in the arena. ERR_INPUT names the file and the key: a family that is not known lists those that are
// and says how to go on without it.
int arch_from_config(struct arch *a, const struct hf_config *c, struct arena *arena, struct error *err);
int arch_from_gguf(struct arch *a, const struct gguf *g, const char *path, struct arena *arena, struct error *err);
// "llama-3.1-8b", with or without "builtin:". ERR_USAGE suggests the nearest.
int arch_builtin(struct arch *a, const char *name, struct arena *arena, struct error *err);
struct flux2_config;
// A FLUX.2 whose image decoder is that of the published models. `source` outlives the arch.
int arch_from_flux2(struct arch *a, const struct flux2_config *c, const char *source, struct arena *arena,
                    struct error *err);
// "300M", "1.5B", "70b", "300000000": one tensor of that many values. ERR_USAGE.
int arch_from_count(struct arch *a, const char *text, struct arena *arena, struct error *err);

// The i-th name of the built-in list, NULL past the last.
const char *arch_builtin_name(size_t i);
void arch_builtin_words(struct str *out); // "builtin:NAME", one a line
const char *arch_families(void);          // "llama, mistral, ...", of configurations

// Layers of [first, last) that a tensor with this `where` is in. Tensors outside of layers count for the first or the
// last layer.
int64_t arch_layers_with(const struct arch *a, enum arch_where where, int64_t first, int64_t last);
int64_t arch_layers_local(const struct arch *a, int64_t first, int64_t last);
// Parameters of one copy.
double arch_tensor_elements(const struct arch_tensor *t);

// For those that fill an arch in: tensors are added one after the other; arch_finish counts, and refuses numbers that
// do not fit 2^53.
int arch_add(struct arch *a, struct arena *arena, struct arch_tensor t, struct error *err);
int arch_finish(struct arch *a, struct error *err);

#endif
