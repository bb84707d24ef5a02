// SPDX-License-Identifier: Apache-2.0
// The stages of FLUX.2 klein, timed: how it is served (cold, staged, resident), what a plain product reaches on the
// device, and each module by itself beside its floor. docs/stages.md says how each figure is made.
#ifndef LAB_STAGES_H
#define LAB_STAGES_H

#include "base/host.h"
#include "chips/chips.h"
#include "ir/precision.h"
#include "lab/klein.h"
#include "lab/measure.h"
#include "lab/stages_trace.h"
#include "lab/turns.h"
#include "models/prompt.h"
#include "plan/roofline.h"
#include "record/record.h"

enum stages_kind {
    STAGES_COLD,     // a request with nothing loaded: files from the disk, programs compiled in turn
    STAGES_STAGED,   // a request that loads each component when its turn comes
    STAGES_RESIDENT, // a request with all weights on the device
    STAGES_CALIB,    // products and a copy, as plain as they can be
    STAGES_TEXT,     // the text encoder by itself
    STAGES_DIT,      // the transformer: its preparation, one step, all steps
    STAGES_VAE,      // the image decoder
    STAGES_KINDS,
    STAGES_SERVINGS = STAGES_CALIB
};
const char *stages_kind_name(enum stages_kind k); // "cold", "staged", ...
// Adds the stages of a list "cold,staged" to `wanted`. ERR_USAGE lists what there is.
int stages_parse(const char *list, bool wanted[STAGES_KINDS], struct error *err);

// "builtin:flux2-klein-4b" and its kin, or a folder of one in diffusers' layout.
bool stages_has(const char *workload);
// --weights for such a workload: what was given with the model's name behind random:SEED, random:1 where nothing was
// given. ERR_USAGE for weights of another model than the workload.
int stages_weights(const char *workload, const char *given, struct arena *a, const char **out, struct error *err);

enum { STAGES_CALIB_SIZE = 4096, STAGES_SCORED = 512 };

struct stages_options {
    struct klein_options klein; // its serving is the stage's
    const char *workload;       // as it was given
    bool wanted[STAGES_KINDS];
    const char *prompt;
    uint64_t seed;
    int64_t samples;  // of a resident request, a product, a module: at least 2
    int64_t requests; // of cold and staged ones, after the first
    int64_t warmup;   // -1: until flat
    int64_t calib_size;
    bool trace;        // behind the samples of each thing one more run is made and traced
    struct turn *turn; // of two devices whose samples are taken in rounds; NULL: one by itself
};

// Times of one thing. The first call is apart: it is the one after the compilation, unless the programs have run
// before.
struct stages_series {
    bool ran_before; // first_ns is not of a first run then
    double first_ns;
    double *ns;
    size_t n;
    struct measure_warmup warmup;
    struct measure_summary ms;
    struct stages_trace trace; // of one more run
};

// ---- products

enum { STAGES_PRODUCTS = 5 };
struct stages_product {
    const char *name;      // "f32 default"
    enum dtype type;       // of the operands
    enum chip_type counts; // the row of a sheet that it is held against
    enum matmul_precision precision;
    uint64_t compile_ns;
    struct stages_series time;
    double flop_per_s;
    double error; // root of the squared errors of the scored elements over that of their exact values
    size_t wrong; // of int8: scored elements that are not the sums in int64
    bool implausible;
    const char *absent; // why it was not measured; NULL: it was
};

struct stages_calib {
    int64_t size;
    struct stages_product products[STAGES_PRODUCTS];
    int n_products;
    size_t scored;
    double copy_bytes, copy_bytes_per_s;
    uint64_t copy_compile_ns;
    struct stages_series copy;
};

// Whether products of f32 are products of bf16 that are called f32: as near to the exact result as bf16's (within a
// factor of ten; one pass of rounded operands is 2^-9 off, three are 2^-17), and faster than the two or more passes
// that anything better takes.
bool stages_f32_is_bf16(double f32_flop_per_s, double f32_error, double bf16_flop_per_s, double bf16_error);

// ---- what a piece of work costs, by data sheet and by calibration

struct stages_price {
    double product_flop, bytes;
    struct whole_floor sheet, calibrated; // NAN with the reason
};

// ---- serving

struct stages_cache {
    bool known;
    const char *why;        // it is not
    int64_t bytes, in_page; // of the files, and of them in the page cache
};
struct stages_serving {
    bool done;
    uint64_t compile_ns, make_ns; // the sum over programs; making of random weights, which is in no other time
    struct stages_series request;
    double *inside_ns;                    // of each request: the time inside its programs
    double inside_p50_ms, outside_p50_ms; // medians of that, and of what is left of each request
    struct stages_price price;            // of all programs of a request
    double items_per_s;
    int64_t mapped_bytes, copied_bytes; // weights that the device reads where they lie, and that were copied
    double staging_s;                   // the last time
    struct stages_cache before;         // of the files, before the weights were loaded for the first time
    struct worker_memory memory;        // behind the last request
    int64_t weight_bytes, known_bytes;  // on the device: weights, and inputs that stay there
};

// What the disk under the weights gives: a part of the files, read once, after the kernel was asked to forget it.
struct stages_disk {
    bool done;
    const char *why; // there is no figure
    double bytes, bytes_per_s;
    bool was_cached; // most of it was in memory all the same
};

// ---- modules

enum stages_module_kind {
    STAGES_M_TEXT,     // one run of the text encoder
    STAGES_M_PREPARE,  // context embedder and modulations
    STAGES_M_STEP,     // one step's velocity, one program
    STAGES_M_STEPWISE, // all steps as a request runs them: two programs each, and a check that values are finite
    STAGES_M_LOOP,     // all steps as one program with a loop
    STAGES_M_VAE,      // the image decoder
    STAGES_MODULES
};
const char *stages_module_name(enum stages_module_kind m); // "text encoder", ...

enum stages_verdict { STAGES_NOT_PREDICTED, STAGES_WITHIN, STAGES_TOO_FAST, STAGES_SLOWER };
const char *stages_verdict_name(enum stages_verdict v);

#define STAGES_BAND 1.5 // a prediction holds when the time is within this factor of it
// Of a time, the least that it can be and the prediction, all in us: suspicious where it is a tenth below the floor.
enum stages_verdict stages_verdict_of(double measured_us, double floor_us, double predicted_us);

struct stages_module {
    bool done;
    double snr_db; // STAGES_M_LOOP: of its latents beside those of the steps one by one; infinite where all are equal
    struct stages_series time;
    double calls;                 // in one request
    uint64_t compile_ns, load_ns; // of its programs; 0: not loaded for this stage
    struct rolled rolled;         // their layers that run as loops
    struct stages_price price;    // of one run
    double ratio;                 // measured over predicted: the calibrated floors of its rows, one by one
    enum stages_verdict verdict;
};

// ---- what they made

#define STAGES_REQUEST "request" // the image of a resident one
enum { STAGES_OUTPUTS = STAGES_MODULES + 1 };
struct stages_output {
    const char *name; // a module's, or STAGES_REQUEST
    struct shape shape;
    float *values;
    size_t n;
};

// How far two outputs are apart.
struct stages_parity {
    bool compared, equal;
    double snr_db;                           // infinite where they are equal
    double levels_max, levels_mean, psnr_db; // of images, in levels of 255; NAN for others
};
int stages_parity_of(const float *a, const float *b, size_t n, bool image, struct stages_parity *out,
                     struct error *err);

struct stages {
    struct arena arena;
    const struct stages_options *options;
    struct record *record; // that profiles go into
    struct klein klein;
    bool opened;
    char device[128], plugin_sha256[65];
    const char *model; // "flux2-klein-4b"
    bool random;
    enum klein_source source;
    int64_t weight_bytes; // as they are stored
    int64_t height, width, batch, steps, text_tokens;
    double guidance; // NAN: none
    char policy[64];
    struct kernels_chosen kernels;
    bool kernels_known;
    const char *kernels_with, *kernels_absent;
    int32_t *ids, *mask;
    struct prompt_info prompt;
    struct host_facts host;
    const struct chip *chip; // of the device; NULL: not known
    bool chip_is_local;
    const struct chip *calibrated; // of the calib of this run, else `local`; NULL: none
    struct stages_calib calib;
    struct stages_disk disk;
    struct stages_serving serving[STAGES_SERVINGS]; // cold, staged, resident
    struct stages_module modules[STAGES_MODULES];
    struct stages_output outputs[STAGES_OUTPUTS];
    int n_outputs;
};

// The share of a peak that was reached: the least time that its arithmetic can take at the peak, by the time measured.
// NAN with the reason where there is no floor, or where it is above 1 against a sheet: then something is counted wrong.
struct quantity stages_mfu(const struct whole_floor *floor, double measured_ms, bool sheet);

// The modules of one request by themselves, the request, and what lies between; ms. NAN where one was not timed.
struct stages_sums {
    double modules, request, difference;
    double outside; // of the difference: between the programs of a request, on the host
    double in_turn; // and the rest: the same programs take more or less time one after the other than each by itself
};
struct stages_sums stages_sums_of(const struct stages *s);

// All steps as one program: those of the pipeline's programs for a step and its update in the body of a loop. Inputs
// and weights are those of the step, `from` (in the module's arena) says which of its parameters each is, STAGES_LOOP_*
// for what the step does not have. Results: "latent", and "nonfinite", the sum over the steps.
enum { STAGES_LOOP_LATENT = -1, STAGES_LOOP_DELTAS = -2, STAGES_LOOP_EMPTY = -3, STAGES_LOOP_GUIDANCE = -4 };
int stages_loop_module(const struct klein *k, struct module *to, int **from, struct error *err);

// What is wrong before anything runs: a stage too few, samples below 2, sizes, weights, the prompt, and too little
// memory for the most that any stage needs (ERR_MEMORY, with the figure). `need` may be NULL; without a stage of the
// pipeline it is of 0 bytes.
int stages_check(const struct stages_options *o, struct klein_need *need, struct error *err);
// Runs the stages that are wanted: products first, then cold, staged and resident requests, then the modules. `o` must
// outlive s; profiles go into the record, which may be NULL without o->trace. stages_release in any case.
int stages_run(struct stages *s, const struct stages_options *o, struct record *record, const struct progress *progress,
               struct error *err);
void stages_release(struct stages *s);
// One f32 tensor for each output, as a safetensors file.
int stages_outputs_write(const struct stages *s, const char *path, struct error *err);
// The result of assay.bench.stages/1, an object.
void stages_json(const struct stages *s, struct jw *w);
// What was asked, as members of an open object.
void stages_config(const struct stages_options *o, struct jw *w);

#endif
