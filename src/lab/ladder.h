// SPDX-License-Identifier: Apache-2.0
// The ladder: a model compared with another implementation of it, value by value on the way from its inputs to its
// outputs. Every value is computed twice: from the reference's own values before it ("injected": what is wrong there is
// made there) and from our own ("chained": what has added up).
#ifndef LAB_LADDER_H
#define LAB_LADDER_H

#include "base/progress.h"
#include "ir/policy.h"
#include "ir/precision.h"
#include "lab/ladder_reference.h"
#include "worker/worker.h"

enum ladder_verdict { LADDER_PASS, LADDER_WARN, LADDER_FAIL };
const char *ladder_verdict_name(enum ladder_verdict v); // "pass", "warn", "FAIL"

// A step of the ladder, and what is asked of the values that belong to it.
struct ladder_rung {
    int number;
    const char *title;
    double relative; // f32: at most this share of the reference's largest magnitude is any element off
    double db;       // bf16: signal to noise at least
    bool exact;      // every bit
};

// What its result is held to: a key passes within its rung's bound, is warned of up to LADDER_WARN_FACTOR times (f32)
// or LADDER_WARN_DB (bf16) beyond it, and fails beyond that.
#define LADDER_WARN_FACTOR 10.0
#define LADDER_WARN_DB     15.0

enum ladder_band { LADDER_F64, LADDER_F32, LADDER_BF16 };
#define LADDER_F64_SHARE 1e-4 // of the bound for f32
const char *ladder_band_name(enum ladder_band b);

struct ladder_score {
    bool known;       // it was computed
    double max_abs;   // largest difference
    double relative;  // that by the reference's largest magnitude
    double snr_db;    // infinite when equal
    double psnr_db;   // of the reference's range to the root mean square of the difference
    size_t nonfinite; // elements that are finite on one side alone
    bool exact;       // equal in every element
    enum ladder_verdict verdict;
};

struct ladder_key {
    const char *program, *name; // "text", or "CASE/text"; "layer.3"
    const struct ladder_rung *rung;
    size_t elements;
    struct ladder_score injected, chained;
};

struct ladder_options {
    const char *workload;  // a directory of BERT or of a decoder; a FLUX.2 folder or file, "tiny:SEED", "random:SEED";
                           // NULL: the reference's
    const char *reference; // directory
    const char *tokenizer; // folder or file, for prompts; NULL: the workload's
    const char *policy;    // NULL: f32, or bf16 for a reference in bf16; "f64": the reference of ours
    enum matmul_precision precision;
    struct worker_options worker;
};

struct ladder {
    struct arena arena;
    struct ladder_reference reference;
    const struct ladder_options *options;
    const char *workload, *policy_name;
    struct policy policy;
    bool wide;     // f64
    bool emulated; // the precision of products is made by arithmetic: the device has only one
    enum ladder_band band;
    struct worker *worker;
    const char *device;
    const struct ladder_rung *rungs;
    int n_rungs;
    struct ladder_key *keys;
    size_t n_keys, cap_keys;
    const char **missing; // values of ours that no case of the reference has: "text/layer.5", "encoder/*"
    size_t n_missing, cap_missing;
    bool no_tokenizer; // there are prompts, and no tokenizer to encode them with
};

// Runs all of it. ERR_INPUT for a reference or a model that cannot be read or do not belong together, ERR_USAGE for a
// policy, ERR_DEVICE as always. ladder_release may be called in any case.
int ladder_run(struct ladder *l, const struct ladder_options *o, const struct progress *progress, struct error *err);
void ladder_release(struct ladder *l);

// Keys of a rung by their worse verdict; `exact` are those equal in both runs.
struct ladder_count {
    size_t keys, exact, pass, warn, fail;
    const struct ladder_key *worst; // by the band's measure, of injected runs; NULL: none
};
struct ladder_count ladder_count(const struct ladder *l, const struct ladder_rung *rung); // NULL: of all

#endif
