// SPDX-License-Identifier: Apache-2.0
// What a step's time is made of by the framework's names, and steps as JSON.
#ifndef TRACE_STEPS_VIEW_H
#define TRACE_STEPS_VIEW_H

#include "trace/ops.h"
#include "trace/steps.h"

enum trace_scopes_by {
    SCOPES_BY_NAME, // of the framework
    SCOPES_BY_LOOP, // of one program: what runs once, and each loop
};

// Operations of one name, or of one loop, that ran equally often in an execution of their program: what runs once in it
// is apart from what a loop's body repeats.
struct trace_scope {
    struct slice program; // by loop: the program's name; else empty
    struct slice scope;   // borrowed; the name, or where the loop is in names ("jit(f)/while/body"); empty: not known
    double runs;          // in each execution, 1: once. NAN where executions are not known
    size_t operations;
    uint64_t occurrences;
    int64_t self_ps;
    double flop;         // NAN where one of them has none
    double step_ps;      // self time of one step of one device; NAN without steps
    double execution_ps; // self time of one execution of their program: of all that have some of them on average
    double iteration_ps; // of one iteration: the same over runs
    double share, flop_share;
};
// By falling self time, in s's arena.
int trace_scopes(struct trace_steps *s, const struct trace_ops *o, enum trace_scopes_by by, struct trace_scope **out,
                 size_t *n, struct error *err);
// The `result` of assay.trace.steps/1.
int trace_steps_json(const struct trace *t, struct trace_steps *s, const struct trace_ops *o, struct jw *w,
                     struct error *err);
// Members of the open object about steps: "rule", "program", "steps", "statistics".
void trace_steps_members(const struct trace_steps *s, bool every, struct jw *w);
// A text or null.
void trace_text_json(struct jw *w, const char *key, struct slice s);

#endif
