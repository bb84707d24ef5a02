// SPDX-License-Identifier: Apache-2.0
// A profile at a glance: what is in it, how busy its devices were, why they waited, and what to try next.
#ifndef TRACE_SUMMARY_H
#define TRACE_SUMMARY_H

#include "trace/ops.h"
#include "trace/steps.h"

struct trace_summary_device {
    const struct trace_device *device;
    struct busy busy; // by the device's own clock where it has one: exact durations
    double duty;      // busy over the time from its first operation to the end of its last; NAN without operations
};

// Something observed, what it may mean, and the comparison that would tell: an experiment, not a diagnosis.
struct trace_advice {
    const char *observed, *evidence, *hypothesis, *next;
};

struct trace_summary {
    struct trace_steps steps;
    struct trace_ops ops;
    size_t n_planes, n_lines;
    uint64_t events;
    struct trace_summary_device *devices;
    size_t n_devices;
    double duty; // of all devices that ran anything: busy times over spans
    const char **warnings;
    size_t n_warnings, cap_warnings;
    struct trace_advice *advice;
    size_t n_advice, cap_advice;
};

int trace_summary(struct trace *t, struct threads *threads, struct trace_summary *out, struct error *err);
void trace_summary_release(struct trace_summary *s);

// Of a record without a tracer: what one step took, and what the profile says beside it. A traced time is not a
// latency.
struct trace_against {
    const char *record, *what; // where in the record
    double latency_ps;
    double busy_share; // device busy time of a median step over the untraced latency
    double inflation;  // a traced step over the untraced latency
};
void trace_summary_against(const struct trace_summary *s, struct trace_against *a);
// The `result` of assay.trace.summary/1; a may be NULL.
int trace_summary_json(const struct trace *t, const struct trace_summary *s, const struct trace_against *a,
                       struct jw *w, struct error *err);

#endif
