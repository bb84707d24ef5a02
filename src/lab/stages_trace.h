// SPDX-License-Identifier: Apache-2.0
// What a traced run of a stage shows: how long the device was busy, and with what.
#ifndef LAB_STAGES_TRACE_H
#define LAB_STAGES_TRACE_H

#include "base/arena.h"
#include "base/error.h"
#include "worker/worker.h"

enum { STAGES_OPERATIONS = 8 };

struct stages_operation {
    const char *program, *name, *category;
    uint64_t runs;
    double ms; // self time; of our kernels the time that any thread is in one
};

struct stages_trace {
    bool done;
    const char *file;   // in the record
    bool of_operations; // a profiler of the device's operations; else our spans of programs and kernels
    double traced_ms;   // of the traced run, no latency
    double busy_ms;     // the device's; NAN: nothing ran on one
    double between_ms;  // idle from the end of one program to the start of the next
    uint64_t programs;  // runs of programs
    struct stages_operation operations[STAGES_OPERATIONS]; // those of most self time, longest first
    int n_operations;
    double operations_ms; // of all
};

// From a profile's file: the device that was busiest. Leaves `out` as it is (of_operations false) where the file has no
// device. Texts are the arena's.
int stages_trace_of_file(const char *path, struct arena *a, struct stages_trace *out, struct error *err);
// From what a worker did, whose programs are called as when they were compiled. Sorts the spans.
int stages_trace_of_spans(const struct worker *w, struct worker_span *spans, size_t n, struct arena *a,
                          struct stages_trace *out, struct error *err);

// The share of a run that the device is busy; what is left is the host's. Of the untraced median, since the tracer
// makes the host slower and not what the device has to do; of the traced run where that was the shorter one. At most 1:
// an operation may itself take longer in a trace. NAN where no device ran anything.
double stages_trace_device_share(const struct stages_trace *t, double p50_ms);

#endif
