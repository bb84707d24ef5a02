// SPDX-License-Identifier: Apache-2.0
// Measured time of one workload, or of two in turns.
#ifndef LAB_BENCH_H
#define LAB_BENCH_H

#include "base/progress.h"
#include "chips/local.h"
#include "ir/cost.h"
#include "lab/measure.h"
#include "lab/subject.h"

// One thing to time: a built-in (shapes only, random data), a program with the weights and inputs it is given (random
// ones where it is given none), or a model directory with its weights and texts.
struct bench_subject {
    const char *workload, *policy; // policy NULL for products, which have their type in their name
    struct arena arena;
    struct policy parsed;
    struct workload files; // for a directory and a program
    struct subject subject;
    struct cost cost;
    int64_t items; // per run: texts, or 1
    bool from_files, opened;
    struct measure_warmup warmup;
    double *samples_ns;
    size_t n_samples;
    struct measure_summary time; // ms
    struct worker_memory memory;
};

struct bench_options {
    struct worker_options worker;
    const char *text_path;                      // directories: NULL runs on synthetic tokens, all rows full
    int64_t batch, seq;                         // 0: defaults
    const char *weight_args, *weights, *inputs; // of programs (lab/exported.h); NULL: none
    int64_t samples, warmup;                    // warmup -1: until flat
    uint64_t seed;
};

// What can be said against it before anything starts: a workload or policy that is not known (ERR_USAGE, ERR_INPUT), a
// policy or texts for a product. `policy` is NULL when none was asked for, `workload` where it calibrates: then fewer
// than two samples are ERR_USAGE, since a calibration tells the spread.
int bench_check(const char *workload, const char *policy, const struct bench_options *o, struct error *err);

// Starts a worker with the workload compiled, its data on the device, and the first run done. policy NULL: f32; a
// program with other floats is then run as it is.
int bench_open(struct bench_subject *b, const char *workload, const char *policy, const struct bench_options *o,
               struct error *err);
void bench_close(struct bench_subject *b);

// Warms up and samples n subjects (1 or 2) in interleaved rounds.
int bench_measure(struct bench_subject *const *subjects, size_t n, const struct bench_options *o,
                  const struct progress *progress, struct error *err);

// Measures products of 2048^3 in f32, bf16, f16 and int8 and a copy of 128 MiB on the CPU: what `local` stands for.
int bench_calibrate(struct chip_local *out, const struct bench_options *o, const struct progress *progress,
                    struct error *err);

#endif
