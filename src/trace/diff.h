// SPDX-License-Identifier: Apache-2.0
// Two profiles of the same work, compared: what became slower and what faster, and whether that is more than chance.
//
// Profiles rarely hold equally many executions. So operations are compared by the mean of one occurrence, and times in
// all after B's are brought to A's number of executions (`scale`). The verdict is about executions of the programs that
// both have more than once: the time A's executions would take at B's means. Means are compared by Welch's method: the
// difference has a standard error of sqrt(va/na + vb/nb), and Student's t gives the 95 % interval.
#ifndef TRACE_DIFF_H
#define TRACE_DIFF_H

#include "trace/diff_steps.h"
#include "trace/ops_view.h"

struct trace_diff_row {
    struct slice name, module;
    struct diff_side a, b;
    double change_ps;           // of A's total, were all as in B (b.sum_ps * scale - a.sum_ps)
    double mean_change_ps;      // of one occurrence; NAN where one side has none
    struct diff_interval means; // of mean_change_ps, 95 %
};

struct trace_diff {
    struct trace_diff_row *rows; // operations (or what they were grouped by), the biggest change first
    size_t n_rows;
    struct trace_diff_row *programs; // executions
    size_t n_programs;
    double scale;
    double slower; // relative change of the time of A's executions; NAN: no program in common
    struct diff_interval range;
    struct diff_steps steps;
    bool by_step;                    // the verdict is about steps
    enum trace_diff_verdict verdict; // else about executions
};

struct trace_diff_options {
    struct trace_key by;
    double tolerance;    // what relative change is still no slower, 0.02 for 2 %
    const char *program; // a step is each execution of it; NULL: found out
    bool by_step;
};

// In `arena`. ERR_MEMORY, ERR_INPUT, ERR_USAGE when the program did not run in one of them.
int trace_diff(struct trace *a, struct trace *b, const struct trace_diff_options *o, struct threads *threads,
               struct arena *arena, struct trace_diff *out, struct error *err);
// The `result` of assay.trace.diff/1, with the first `top` rows and steps (0: all).
void trace_diff_json(const struct trace *a, const struct trace *b, const struct trace_diff *d, size_t top,
                     struct jw *w);

#endif
