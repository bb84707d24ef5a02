// SPDX-License-Identifier: Apache-2.0
// From the name of a workload to its f32 module, with shapes only: what pricing and synthetic runs need.
#ifndef MODELS_BUILTIN_H
#define MODELS_BUILTIN_H

#include "ir/module.h"
#include "models/experts.h"

struct model_shape {
    int64_t batch, seq;           // 0: what suits the workload: 32 and 128 for encoders of text
    int64_t height, width, steps; // of an image; 0: 512 x 512, and the model's own number of steps
    int64_t tokens;               // that a decoder writes; 0: 128
    const char *weight_args;      // of a program: which arguments are weights, "N..M"; NULL: none
};

enum { MODEL_MAX_PARTS = 4 };

// What layouts have to move, in elements of activations, for one call of a part.
struct model_traffic {
    double attention;   // queries, keys, values and outputs of all attentions
    double keys_values; // keys and values alone
    double reduced;     // sums that tensor parallelism has to add up: outputs behind row-parallel products
    int64_t reductions; // how many such sums
    int64_t heads, kv_heads;
    int64_t attentions;
    // Of layers with experts; 0: there are none.
    int64_t routed_layers;
    double routed;          // what their experts take in; as much comes back
    struct experts experts; // of one of them
    double tokens;          // that choose among them
};

// A program that a request runs one or more times.
struct model_part {
    const char *name; // "text encoder"
    const char *call; // what one call is: "prompt", "step", "token"
    int64_t calls;    // in one request
    struct module module;
    struct model_traffic traffic; // heads 0: nothing is known
};

// What a request for a workload consists of.
struct model_request {
    struct model_part parts[MODEL_MAX_PARTS];
    int n_parts;
    bool fixed;       // a product in its own types, or a program with floats of 8 bits: policies leave it alone
    bool own_types;   // a program with floats that are not f32: without a policy it is taken as it is
    bool one_model;   // all parts read the same weights, which are in memory once: a decoder's prompt and tokens
    const char *unit; // what a request makes: "image", "batch"
    int64_t batch;
    int64_t height, width, steps; // 0 where there are none
    const char *const *hoisted;   // groups whose work is the same in every call of part hoisted_part; ended by NULL
    int hoisted_part;
};

// The policy of those who publish such models: bf16 of several parts, f32 of encoders and what they are compared with.
static inline const char *model_request_policy(const struct model_request *r)
{
    return r->n_parts > 1 ? "bf16" : "f32";
}

// All of `model_module`'s workloads, FLUX.2 ("builtin:flux2-klein-4b" and its kin, or a diffusers folder) and decoders
// of the Llama family and those with experts (a directory whose config.json says llama, mistral, qwen3, mixtral,
// qwen3_moe, deepseek_v2 or deepseek_v3, or "builtin:llama-3.1-70b" and others of arch.h). Modules live in the arena.
// ERR_USAGE for options that the workload does not have, ERR_INPUT for files.
int model_request(const char *workload, const struct model_shape *shape, struct arena *a, struct model_request *out,
                  struct error *err);
struct program;
// The same for a program that is open (program.h): one run of it, in types of its own where its floats are not all f32.
// ERR_INPUT where it cannot be rewritten (hlo_import.h).
int model_request_program(const struct program *program, const struct model_shape *shape, struct arena *a,
                          struct model_request *out, struct error *err);
// And for its module, which the request takes over. `m` NULL: it cannot be rewritten, and its part has an empty module.
int model_request_imported(const char *path, const struct module *m, const struct model_shape *shape, struct arena *a,
                           struct model_request *out, struct error *err);
// A WORKLOAD of one program that needs no weights: "builtin:minilm", "builtin:gemm:MxKxN:TYPE" (also without
// "builtin:"; TYPE is f32, bf16, f16, int8, f8e4m3fn, f8e5m2 or f64; f32 accumulation, int32 for int8),
// "builtin:copy:N", "builtin:transformer-block" (block.h), or a model directory (its config.json alone is read).
// ERR_USAGE lists the built-in names. A product comes in its own types: policies leave it alone (*fixed). A file that
// program_is knows is a program that was exported (program.h): it has its own shapes, and where it has floats of 8 bits
// policies leave it alone, too.
int model_module(const char *workload, const struct model_shape *shape, struct module *m, bool *fixed,
                 struct error *err);

// True when the name means a built-in, not a path.
bool model_is_builtin(const char *workload);

#endif
