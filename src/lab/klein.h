// SPDX-License-Identifier: Apache-2.0
// The FLUX.2 klein pipeline on a device: text encoder, transformer in a few steps, image decoder, and the encoder of
// reference images. Each is a program with weights of its own (lab/stage.h) in one worker; what one hands to the next
// stays on the device. Made once, a pipeline answers any number of requests of its size.
#ifndef LAB_KLEIN_H
#define LAB_KLEIN_H

#include "base/progress.h"
#include "ir/policy.h"
#include "ir/precision.h"
#include "lab/klein_weights.h"
#include "lab/layers.h"
#include "lab/stage.h"
#include "models/flux2_schedule.h"

enum { KLEIN_MAX_REFERENCES = 10, KLEIN_MAX_BATCH = 64 };

enum klein_serving {
    KLEIN_RESIDENT, // all weights on the device before the first request
    KLEIN_STAGED,   // each component is loaded, runs and is dropped
    KLEIN_COLD,     // the same, from the disk, and each program is compiled when its turn comes
};
const char *klein_serving_name(enum klein_serving s);

enum klein_part {
    KLEIN_TEXT,    // ids and mask to "context"
    KLEIN_PREPARE, // context and all times to what steps share
    KLEIN_STEP,    // one velocity
    KLEIN_UPDATE,  // one Euler step
    KLEIN_DECODE,  // tokens to an image
    KLEIN_ENCODE,  // a reference image to tokens
    KLEIN_KEEP,    // of models that keep references: their tokens to keys and values; weights are the step's
    KLEIN_PARTS
};
// "text encoder", "preparation", "transformer step", "update", "image decoder", "image encoder", "references".
const char *klein_part_name(enum klein_part p);

struct klein_options {
    struct klein_weights_options weights;
    struct worker_options worker;
    const char *policy;              // NULL: the reference, f64
    enum matmul_precision precision; // of f32 products; emulated on a CPU
    enum klein_serving serving;
    enum layers_form layers; // of text encoder and transformer
    bool lazy;               // programs are compiled when their component is first needed, whatever the serving
    enum flux2_sampler sampler;
    int64_t height, width; // pixels
    int64_t steps;         // 0: the model's own
    int64_t text_tokens;   // that prompts are filled up to; 0: the model's own
    int64_t batch;         // images of one prompt at once; 0: 1
    double guidance;       // NAN: the model's own, 4 for base models. Distilled ones take none
    bool guided;           // takes the model for a base model, whatever it says
    int n_references;
    int64_t references[KLEIN_MAX_REFERENCES][2]; // height and width in pixels, multiples of 16
    int64_t memory_bytes;                        // that may be used; 0: what the host has free
    bool traced;                                 // programs keep what the compiler left of them, for profiles
};

// What a part has cost so far. Times of the last time it was done.
struct klein_figures {
    uint64_t compile_ns; // in the worker
    uint64_t make_ns;    // of random weights
    uint64_t load_ns;
    uint64_t run_ns; // the sum over the last request's runs
    uint64_t runs;   // of the last request
    int64_t zero_copy_bytes, copied_bytes, temporary_bytes;
    struct rolled rolled; // its layers that run as loops
};

struct klein {
    struct arena arena;
    struct klein_weights weights;
    struct policy policy;
    bool wide;   // the reference, f64
    bool guided; // steps run with and without the prompt
    enum matmul_precision precision;
    bool emulated; // the precision is made by arithmetic
    struct worker *worker;
    const char *device; // kind of the device
    enum layers_form layers;
    enum klein_serving serving;
    bool traced;
    enum flux2_sampler sampler;
    int64_t height, width, rows, columns, batch;
    double guidance;
    struct flux2_schedule schedule;
    enum dtype latent, image; // types of latents and images on the host: f32, or f64; images also what a policy says
    int n_references;
    int64_t references[KLEIN_MAX_REFERENCES][2]; // in tokens

    struct module modules[KLEIN_PARTS];
    struct stage stages[KLEIN_PARTS]; // KLEIN_ENCODE: of the reference at hand
    struct klein_figures figures[KLEIN_PARTS];
    float *rope[2], *text_rope[2]; // cosine and sine tables of the transformer and of the text encoder
    // Buffers on the device; -1: none.
    int context[2];                  // of the prompt, and of the empty one
    int text[2];                     // the same embedded
    int latents;                     // [batch, tokens, channels]
    int reference;                   // [1, tokens of all references, channels]
    int kept[2];                     // keys and values of references
    int scalars[FLUX2_MAX_STEPS][2]; // each step's number and delta
    struct kernels_chosen kernels;   // of all parts together
    int64_t needed_bytes;            // that was asked for before loading
};

// Opens weights, starts the worker, compiles all programs and checks that memory suffices before anything is loaded
// (ERR_MEMORY says how much is needed and how much there is); with KLEIN_RESIDENT loads everything. ERR_USAGE for sizes
// out of range. klein_close may be called in any case.
int klein_open(struct klein *k, const struct klein_options *o, const struct progress *progress, struct error *err);
// Memory that a pipeline asks for before it compiles anything, and what there is.
struct klein_need {
    int64_t bytes, free; // free: -1 where nobody says it
    bool on_host;        // not in memory of the device's own
};
// What klein_open would say before it compiles anything, memory for the weights included. `need` may be NULL.
int klein_check(const struct klein_options *o, struct klein_need *need, struct error *err);
void klein_close(struct klein *k);

// Whether latents are rounded to bf16, noise included: the policy computes in bf16, and the sampler does as a
// reference.
bool klein_rounds_to_bf16(const struct klein *k);

// ---- a request, part by part. Each loads what it needs unless that is resident, and drops it again.

// The context of a prompt, and with k->guided of the empty prompt: ids and mask [1 or 2][config.text_tokens]. They stay
// on the device as k->context.
int klein_text(struct klein *k, const int32_t *ids, const int32_t *mask, const struct progress *progress,
               struct error *err);
// All references, before klein_denoise: pixels[i] in [-1, 1], [height][width][3].
int klein_encode(struct klein *k, const float *const *pixels, const struct progress *progress, struct error *err);
// Noise [batch, tokens, channels] in k->latent, and all steps. ERR_DEVICE names step and part where values are not
// finite. `each`, when not NULL, is called with the latents after every step.
typedef int klein_step_fn(void *context, int64_t step, const void *latents, struct error *err);
int klein_denoise(struct klein *k, const void *noise, klein_step_fn *each, void *context,
                  const struct progress *progress, struct error *err);
// The images of k->latents, [batch][height][width][3], as k->image says. ERR_DEVICE where values are not finite.
int klein_decode(struct klein *k, void *images, const struct progress *progress, struct error *err);

// Loads the weights of a component's programs, and drops them (does nothing where they are resident). For those who run
// stages by themselves.
int klein_begin(struct klein *k, enum flux2_component c, const struct progress *progress, struct error *err);
int klein_end(struct klein *k, enum flux2_component c, struct error *err);

#endif
