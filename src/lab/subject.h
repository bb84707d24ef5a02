// SPDX-License-Identifier: Apache-2.0
// One program under test: a workload's module, rewritten for one policy (or as the f64 reference), in a worker of its
// own with its weights on the device.
#ifndef LAB_SUBJECT_H
#define LAB_SUBJECT_H

#include "ir/policy.h"
#include "lab/device_module.h"
#include "lab/workload.h"
#include "num/quantize.h"
#include "worker/worker.h"

// What storing a weight did to it, and in which group of the report it belongs.
struct subject_tensor {
    const char *name, *group;
    struct quant_stats stats;
};

struct subject {
    const char *label;           // the policy's name; "f64 reference"
    const struct policy *policy; // NULL: the reference
    struct arena arena;
    struct module module;
    struct worker *worker;
    struct worker_executable program;
    struct kernels_chosen kernels; // calls in the program; all 0 when the worker has none
    bool compiled;
    struct str text;              // the lowered program
    struct worker_program source; // it, as it was compiled
    int *results;                 // room for the outputs of one run
    int *args;                    // buffer per parameter; inputs are set per call
    size_t n_args;
    int input_ids, input_mask, input_thresholds; // indices in args, of a model
    int *inputs;                                 // of a program: the index in args of each input, in their order
    size_t n_inputs;
    struct device_weights weights;
    struct subject_tensor *tensors;
    size_t n_tensors;
    uint64_t first_ns, input_upload_ns, download_ns; // of the first batch
    uint64_t instrument_compile_ns;
};

struct subject_options {
    struct worker_options worker;
    const struct module *module; // the workload's f32 module
    const struct policy *policy; // NULL: f64
    const char *label;
};

// Makes the module, starts the worker, compiles, makes and uploads the weights (random ones, of the stored type, where
// a program was given none). On failure the subject can still be asked for its worker's failure; call subject_close in
// every case.
int subject_open(struct subject *s, const struct workload *w, const struct subject_options *o, struct error *err);
void subject_close(struct subject *s);
// The same for a module without a checkpoint: policy NULL runs it as it is, and every argument is left for the caller
// to upload into s->args.
int subject_open_module(struct subject *s, const struct module *module, const struct policy *policy, const char *label,
                        const struct worker_options *worker, struct error *err);

// A module that runs as it is, with its weights from the workload's checkpoint.
int subject_open_bound(struct subject *s, const struct workload *w, const struct module *module, const char *label,
                       const struct worker_options *worker, struct error *err);

// "kernels": {"with": "oneDNN 3.2.0 (avx512_bf16), 2 threads" or null, "absent": why not or null, "calls": {"product":
// 12}}: which kernels the program calls, and how often each.
void subject_kernels_json(const struct subject *s, struct jw *w);
// The same in words for a person: "12 product (oneDNN ...)", "none (why)"; "" when not asked for.
void subject_kernels_text(const struct subject *s, struct str *out);

// Uploads one batch of texts, or one case of a program, as the inputs (frees the ones before).
int subject_set_batch(struct subject *s, const struct workload *w, size_t batch, struct error *err);
// The same for a program that looks at values: the rows that fill up the last batch have an empty mask.
int subject_set_real_batch(struct subject *s, const struct workload *w, size_t batch, struct error *err);
// Uploads `data` (what the parameter's shape says) as the input "thresholds" of module_calibration.
int subject_set_thresholds(struct subject *s, const float *data, struct error *err);
// Runs the program once on the inputs set and downloads all results, one behind the other, in the types that the module
// says (of a model there is one, [batch, hidden]).
int subject_run(struct subject *s, void *out, uint64_t *run_ns, struct error *err);
// Runs all batches of the workload; out: n_texts rows of `hidden` doubles (rows past the last text are dropped), or all
// results of a program, case after case (workload_values).
int subject_run_all(struct subject *s, const struct workload *w, double *out, struct error *err);

// What the instrumented program counted. counts: groups x 3 (clipped, not finite, flushed), scales: groups x 2
// (smallest, largest; inf and -inf where nothing is quantised), in the order of module_groups of the workload's module.
// clipped: values of each activation (module_activations) that lay beyond its codes, padding left out; n_activations is
// 0 for a policy that quantises none. The caller's arrays.
struct subject_counts {
    int64_t *counts;
    double *scales;
    size_t groups;
    int64_t *clipped;
    size_t n_activations;
};
// Compiles the instrumented program, runs up to max_batches batches through it and adds up.
int subject_instrument(struct subject *s, const struct workload *w, const struct module *module, size_t max_batches,
                       struct subject_counts *out, struct error *err);

// One whole request as a service would see it, in ms: encode the texts, upload, run, download.
struct request_times {
    double encode_ms, upload_ms, run_ms, download_ms, total_ms;
};
int subject_request(struct subject *s, const struct workload *w, struct request_times *out, struct error *err);

#endif
