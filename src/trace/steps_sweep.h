// SPDX-License-Identifier: Apache-2.0
// One walk over the operations of all devices and the events of all hosts: busy and idle time of each step, and what
// hosts did in the idle time. The memory is that of the lines' windows.
#ifndef TRACE_STEPS_SWEEP_H
#define TRACE_STEPS_SWEEP_H

#include "trace/steps.h"

// One file's part of it. Those of several files may run at the same time, and beside walks over copies of their lines.
struct steps_sweep {
    struct trace_steps *steps;
    struct trace_file *file;
    int64_t origin_ns;
    int64_t compiling_ps; // between the start of the first step and the end of the last
    struct xline **lines; // of the host that filled the gaps; malloc'd, like their busy times
    struct busy *busy;
    size_t n_lines;
    int rc;
    struct error error; // of rc
};

// In the steps' arena, one for each file. ERR_MEMORY.
int steps_sweep_plan(struct trace *t, struct trace_steps *s, struct steps_sweep **out, struct error *err);
// Fills in busy and idle times and of_device, of steps whose starts and durations are set.
void steps_sweep_run(struct steps_sweep *one);
// Adds up what all n found: threads and time of compilation. Their first error. Call it in any case.
int steps_sweep_finish(struct trace_steps *s, struct steps_sweep *all, size_t n, struct error *err);

#endif
