// SPDX-License-Identifier: Apache-2.0
// The main job: price a model, run it under every policy, compare with f64, measure, decide.
#ifndef LAB_QUALIFY_H
#define LAB_QUALIFY_H

#include "base/host.h"
#include "base/progress.h"
#include "chips/chips.h"
#include "lab/measure.h"
#include "lab/predict.h"
#include "lab/products.h"
#include "lab/ranges.h"
#include "lab/require.h"
#include "lab/subject.h"
#include "num/measures.h"
#include "plan/roofline.h"
#include "record/record.h"

enum {
    QUALIFY_MAX_POLICIES = 32,
    QUALIFY_MAX_CHIPS = 32,
    QUALIFY_MAX_GROUPS = 64,
    QUALIFY_SUBSETS = 3,
    QUALIFY_ADVICE = 8,
    QUALIFY_PARTS = 6,
    QUALIFY_ITEMS = 16,
    QUALIFY_MAX_TEXTS = 65536 // every one is compared with every other
};

// The metrics a requirement can name, NULL-ended.
extern const char *const qualify_metrics[];

struct qualify_options {
    struct workload_options workload;
    struct worker_options worker; // label is set per policy
    const char *const *policies;  // presets or spelled out; at least one
    size_t n_policies;
    const char *const *chips;
    size_t n_chips;
    const char *const *targets; // what the compiler is asked about, when all is measured
    size_t n_targets;
    const char *layout;      // of the targets' devices; NULL: one device's program is predicted
    const char *require;     // NULL: nothing is demanded
    const char *calibration; // record of measured rates, which become the chip "calibrated"; NULL: none
    const char *calibrate;   // file of texts, one per line, that static scales are made from; NULL: none
    bool emulate;            // products that a device may lack are made in types that it has (policy_emulation)
    bool trace;              // profiles of a few warmed steps of each policy, into the record
    int64_t samples;         // at least 1
    int64_t warmup;          // runs; -1: until flat
    uint64_t seed;           // of the order of the rounds
};

struct qualify_file {
    const char *path;
    size_t bytes;
    char sha256[65];
};

struct qualify_why; // qualify_why.h

// What one output of a program came to, over all cases.
struct qualify_output {
    struct measures errors; // of floats
    size_t rows, same;      // rows along the last dimension whose largest element is where f64 has it; of integers and
                            // truth values elements that are equal. rows 0: there is nothing of the kind
};

// What one part of the decision report says of one thing that it needs.
struct qualify_item {
    const char *item, *says; // NULL: not known
    const char *find_out;    // the command that would tell, or tell more; NULL: none
};
struct qualify_part {
    struct qualify_item items[QUALIFY_ITEMS];
    int n;
};

// What one policy came to.
struct qualify_policy {
    struct policy policy;
    struct subject subject;
    bool opened, ok;
    struct error error; // why it failed
    struct worker_failure failure;
    bool has_failure;
    int64_t weight_bytes, scale_bytes;
    double *result;                 // [texts, hidden]; of a program all results of all cases
    struct measures errors;         // of a program the worst of its outputs, each by itself
    struct qualify_output *outputs; // of a program, in the order of its results
    struct retrieval task, subsets[QUALIFY_SUBSETS];
    double subset_cosine_min[QUALIFY_SUBSETS];
    struct cost_row *rows;
    int n_rows;
    struct cost total;
    struct floor *predicted;        // per chip
    struct prediction *predictions; // per target
    int64_t *counts;                // [groups, 3]
    double *scales;                 // [groups, 2]
    int64_t *clipped;               // of each activation that the policy quantises, over the texts looked at
    int n_activations;              // 0 when it quantises none
    size_t instrumented_texts;
    const char *emulation;     // how products are emulated; NULL: they are not
    struct products *products; // what the compiler made of them; n_products -1: it does not say
    int n_products;
    struct qualify_why *why; // it stores less than another and is no faster; NULL: there is nothing to explain
    struct measure_warmup warmup;
    double *samples_ns;
    size_t n_samples;
    struct measure_summary time; // ms
    struct measure_comparison paired;
    bool has_paired;
    struct request_times request; // medians
    const char *trace;            // profile in the record; NULL: none
    struct worker_memory memory;
    bool meets;
    int n_unmet;
    char unmet[1 + REQUIRE_MAX][160];
};

struct qualify {
    struct arena arena;
    const struct qualify_options *options;
    const struct progress *progress;
    struct workload workload;
    struct module module; // f32
    const char *groups[QUALIFY_MAX_GROUPS];
    int n_groups;
    struct require require;
    bool has_require;
    const struct chip *chips[QUALIFY_MAX_CHIPS];
    size_t n_chips;
    struct predict_target targets[PREDICT_MAX_TARGETS + 1]; // and this machine, where something was measured on it
    size_t n_targets;
    struct host_facts host;
    struct threads *threads;    // of this process: rankings
    struct worker_info *device; // that the policies run on, copied into the arena
    struct qualify_file *files; // every file read but the texts: checkpoint first
    size_t n_files;
    struct ranges ranges; // open: texts were given to calibrate with
    bool calibrates;      // a policy has static scales
    struct activation *activations;
    int n_activations;             // of the f32 module
    char checkpoint_sha256[65];    // checkpoint_sha256 of io/checkpoint.h
    struct worker_failure failure; // of a worker that was no policy's
    bool has_failure;
    double *reference;     // as the result of a policy
    uint64_t reference_ns; // whole f64 run
    uint8_t *masks[QUALIFY_SUBSETS];
    size_t subset_texts[QUALIFY_SUBSETS];
    double margin_limit; // what counts as a low margin
    struct qualify_policy *policies;
    size_t n_policies;
    int chosen; // index, or -1: nothing meets the requirement or, without one, gives finite results
    const char *reason;
    const char *advice[QUALIFY_ADVICE];
    int n_advice;
    struct qualify_part report[QUALIFY_PARTS];
    double wall_s;
    struct record *record; // where profiles go while it runs
    bool open;
};

// Checks every option and file (nothing runs yet): ERR_USAGE, ERR_INPUT. qualify_find_device sees to it that the device
// is there before anything is computed. Then qualify_config writes what will be done into an open JSON object, for
// config.json, before anything is measured.
int qualify_open(struct qualify *q, const struct qualify_options *o, const struct progress *progress,
                 struct error *err);
int qualify_find_device(struct qualify *q, struct error *err);
void qualify_config(const struct qualify *q, struct jw *w);

// Runs everything. A policy that fails is a row; ERR_DEVICE only when the reference or every policy failed (with the
// first one's error), ERR_INTERRUPTED when the user stopped it. Programs and samples are written into the record when
// it is given.
int qualify_run(struct qualify *q, struct record *record, struct error *err);

// Asks the compiler about every policy on every target (qualify_predict.c): after all is measured, since it takes the
// processors. Without targets there is nothing to ask.
int qualify_predict(struct qualify *q, struct error *err);
void qualify_predictions_json(const struct qualify *q, const struct qualify_policy *p, struct jw *w);

// The decision report in six parts: workload, hardware, precision policy, evidence, interpretation, scope
// (qualify_report.c). After the decision, while the programs are still there.
int qualify_report(struct qualify *q, struct error *err);
void qualify_report_json(const struct qualify *q, struct jw *w);

// How the worker of the device or of the reference ended, and every policy that failed, as one JSON object: the details
// of failure.json.
void qualify_failures(const struct qualify *q, struct jw *w);

// Programs that somebody exported (qualify_program.c). What cannot be asked of one is refused before anything starts:
// random weights and indices, policies that would change nothing, metrics of rankings (ERR_USAGE,
// ERR_INPUT). Then the errors of each output, and members of an open object: arguments and outputs of the program, and
// what each output came to under a policy.
int qualify_check_program(const struct qualify *q, struct error *err);
int qualify_judge_program(struct qualify *q, struct qualify_policy *p, struct error *err);
void qualify_program_json(const struct qualify *q, struct jw *w);
void qualify_outputs_json(const struct qualify *q, const struct qualify_policy *p, struct jw *w);

// Parts of the documents (qualify_activations.c): members of an open object. What was clipped of each activation that
// a policy quantises; which products its program has; the texts that were calibrated with, null without any.
void qualify_activations_json(const struct qualify *q, const struct qualify_policy *p, struct jw *w);
void qualify_products_json(const struct qualify_policy *p, struct jw *w);
int qualify_calibration_json(const struct qualify *q, struct jw *w, struct error *err);

// The `result` object of assay.qualify/1.
int qualify_json(const struct qualify *q, struct jw *w, struct error *err);

// A policy's value of a metric of qualify_metrics; NAN when not known.
double qualify_metric(const struct qualify *q, const struct qualify_policy *p, const char *metric);
void qualify_close(struct qualify *q);

// Hashes every file of the workload, once, before anything runs (qualify_files.c); and afterwards sees to it that
// nobody has changed the weights meanwhile: policies that read different ones cannot be compared (ERR_INPUT).
int qualify_list_files(struct qualify *q, struct error *err);
int qualify_check_files(const struct qualify *q, struct error *err);
// Where texts were calibrated with: name and SHA-256 of every text of both sets, which shows that they are disjoint.
int qualify_save_texts(const struct qualify *q, struct record *record, struct error *err);

// Steps of qualify_run (qualify_decide.c): subsets of the texts; meets and unmet of each policy, the choice, the
// advice.
int qualify_subsets(struct qualify *q, struct error *err);
int qualify_judge(struct qualify *q, struct qualify_policy *p, struct error *err);
int qualify_decide(struct qualify *q, struct error *err);
extern const char *const qualify_subset_names[QUALIFY_SUBSETS];
const char *qualify_subset_rule(const struct qualify *q, int subset, char out[160]);

#endif
