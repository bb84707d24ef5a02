// SPDX-License-Identifier: Apache-2.0
// The steps of a profile, and what devices did in each of them and between them. Steps come from markers where there
// are any, else from the programs that ran; which rule it was is said. All times are of the clock of lines, since
// devices, programs and hosts are compared.
#ifndef TRACE_STEPS_H
#define TRACE_STEPS_H

#include "trace/busy.h"
#include "trace/modules.h"
#include "trace/ops.h"

enum trace_rule {
    RULE_NONE,     // no device ran a program, and there is no marker
    RULE_LINE,     // the device's own line "Steps"
    RULE_MARKER,   // events of a host that have a step's number (step_num) or are called precision_case
    RULE_PROGRAM,  // each execution of the program that was asked for
    RULE_REPEATED, // each execution of the program that took the most time of those that ran again on a device
    RULE_SINGLE,   // nothing ran twice: the execution that took the most time
};
const char *trace_rule_text(enum trace_rule rule); // a sentence without its full stop

// What hosts did while a device was idle, in the order in which one hides another.
enum trace_fill {
    FILL_COMPILE,    // compilation
    FILL_INPUT,      // transfers to the device, and making of input
    FILL_OUTPUT,     // other transfers
    FILL_CONVERSION, // layouts and types of host arrays
    FILL_DISPATCH,   // starting of programs
    FILL_OTHER,      // other events
    FILL_PYTHON,     // nothing but the Python program itself
    FILL_NOTHING,    // no event at all, or only waiting ones
    FILLS
};
const char *trace_fill_name(enum trace_fill fill); // "compilation"
// By the name of a host's event.
enum trace_fill trace_fill_of(struct slice name);

enum trace_place { PLACE_BEFORE, PLACE_INSIDE, PLACE_BETWEEN, PLACE_AFTER, PLACES };
const char *trace_place_name(enum trace_place place); // "before the first operation"

struct trace_step {
    size_t device;       // of modules.devices
    int64_t index;       // the marker's number where it has one, else counted from 0 on each device
    int64_t start_ps;    // from the origin
    int64_t duration_ps; // from start to start; of the last one, which is not `complete`, to the end of its work
    int64_t work_ps;     // from its start to the end of its program or marker
    int64_t busy_ps, idle_ps;
    int64_t collective_ps;     // of busy_ps
    int64_t host_ps, input_ps; // of idle_ps: filled by a host's work, and by making and moving input
    bool complete, outlier;
};

// An event that marks a step on a host's thread; *number is its number, -1 where it has none.
bool trace_is_marker(const struct xplane *p, const struct xevent *e, int64_t *number);

struct trace_idle {
    struct busy busy; // by the clock of lines
    int64_t idle_ps[PLACES][FILLS];
    int64_t collective_ps;
    size_t first_step, n_steps;
};

struct trace_thread {
    const struct trace_file *file;
    struct slice name; // a copy
    struct busy busy;
};

struct trace_steps {
    struct trace_modules modules;
    enum trace_rule rule;
    struct slice program;     // of the rules that go by one
    struct trace_step *items; // by device, then by start
    size_t n, cap;
    struct trace_idle *of_device;
    struct trace_thread *threads; // of hosts, by falling busy time
    size_t n_threads, cap_threads;
    int64_t compiling_ps; // time of compilation on hosts between the start of the first step and the end of the last
    // Of complete steps (of all where none is): NAN without any.
    double mean_ps, min_ps, p50_ps, p90_ps, p99_ps, max_ps;
    double skew_p50_ps, skew_max_ps;           // between the first and the last device to start a step
    double host_skew_p50_ps, host_skew_max_ps; // between hosts; NAN with one, or without a common clock
    size_t outliers;
};

// program: a step is each execution of it; NULL: found out. A profile without a device whose host has marked steps, as
// a capture of ours on a CPU, has that host as its device: it is busy while any event but the markers lasts.
// ops: NULL, or filled in as trace_ops does, meanwhile; released by the caller, also after an error. Files and, with
// ops, lines of operations are shared out among `threads` (NULL: the caller alone).
int trace_steps(struct trace *t, const char *program, struct threads *threads, struct trace_ops *ops,
                struct trace_steps *out, struct error *err);
void trace_steps_release(struct trace_steps *s);

#endif
