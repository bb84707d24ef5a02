// SPDX-License-Identifier: Apache-2.0
// Which programs ran on the devices of a profile, and when. A TPU's profile says it ("XLA Modules"). A GPU's and a
// host's have operations that name their program: there an execution ends where the program's first operation, the
// first that the profile has of it on the device, comes again.
#ifndef TRACE_MODULES_H
#define TRACE_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"
#include "trace/device.h"

// A program that ran.
struct trace_executed {
    struct slice name; // "jit_f", a copy
    uint64_t id;       // program_id, on a TPU a fingerprint; 0: none
};

struct trace_run {
    uint32_t program;
    int64_t start_ps, end_ps; // by the clock of lines: from its first operation to the end of its last
};

// The executions on one device, by their starts.
struct trace_runs {
    const struct trace_device *device;
    struct trace_run *items;
    size_t n, cap;
    bool inferred; // from operations
};

struct trace_modules {
    struct arena arena;
    struct trace_devices devices;
    struct trace_executed *programs;
    size_t n_programs, cap_programs;
    struct trace_runs *of_device; // one for each device
};

// Damage met on the way is added to the files' own. ERR_MEMORY, ERR_INPUT.
int trace_modules(struct trace *t, struct trace_modules *out, struct error *err);
void trace_modules_release(struct trace_modules *m);

// The executions of one program on one device, or on all.
struct trace_module {
    uint32_t program;
    const struct trace_device *device; // NULL: all
    size_t count;
    int64_t total_ps, min_ps, max_ps;
    double mean_ps, p50_ps, p90_ps, p99_ps; // linear between order statistics
};
// By falling total; per device or, with `together`, all devices added up. In m's arena.
int trace_modules_rows(struct trace_modules *m, bool together, struct trace_module **rows, size_t *n,
                       struct error *err);
// The `result` of assay.trace.modules/1.
int trace_modules_json(const struct trace *t, struct trace_modules *m, bool together, struct jw *w, struct error *err);

#endif
