// SPDX-License-Identifier: Apache-2.0
// A workload started, warmed and traced: what `assay trace capture` does.
#ifndef LAB_CAPTURE_WORKLOAD_H
#define LAB_CAPTURE_WORKLOAD_H

#include "base/progress.h"
#include "lab/bench.h"
#include "lab/capture.h"

// A product of 256x256 in bf16 whose result is the next step's first operand. It is divided by 256, so that ones stay
// ones: as it is it would be 256 times as large with every step, and infinite after a few.
#define CAPTURE_FEEDBACK "builtin:feedback"

struct capture_workload_options {
    const char *workload; // CAPTURE_FEEDBACK, or what bench takes
    const char *policy;   // NULL: none was asked for
    struct bench_options bench;
    size_t steps; // at least 1
};

struct capture_workload {
    struct capture capture;
    const char *device; // its kind; in the arena
    const char *plugin;
    double warmup_ms;  // compilation and the first run
    size_t warm_runs;  // after it, until times no longer fell
    double *steady_ns; // as many untraced runs as steps are traced
    double steady_ms;  // their median
    double traced_ms;  // of a traced step, as this process saw it
    struct arena arena;
};

// ERR_DEVICE also when the built-in workload's result is not what it must be, or the profile is empty. Release in any
// case.
int capture_workload(struct capture_workload *w, const struct capture_workload_options *o,
                     const struct progress *progress, struct error *err);
void capture_workload_release(struct capture_workload *w);

#endif
