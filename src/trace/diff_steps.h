// SPDX-License-Identifier: Apache-2.0
// The steps of two profiles of the same work, side by side: devices by their place and name, steps by the numbers of
// their markers, or counted on each device. Steps that end with their profile have no length and count only where
// no step has one.
#ifndef TRACE_DIFF_STEPS_H
#define TRACE_DIFF_STEPS_H

#include "trace/diff_means.h"
#include "trace/steps.h"

enum diff_measure {
    DIFF_DURATION, // from start to start
    DIFF_BUSY,
    DIFF_IDLE,
    DIFF_COLLECTIVE, // of busy
    DIFF_HOST,       // of idle, like input
    DIFF_INPUT,
    DIFF_MEASURES
};
const char *diff_measure_name(enum diff_measure m); // "duration"

struct diff_step {
    size_t device;
    int64_t index;
    bool in_a, in_b;
    int64_t a_ps[DIFF_MEASURES], b_ps[DIFF_MEASURES]; // of a side that it is in
};

struct diff_device {
    size_t file; // its place among the files of its profile
    struct slice name;
    struct diff_side a[DIFF_MEASURES], b[DIFF_MEASURES]; // of all its steps
    struct diff_side matched;                            // duration in b less that in a, of steps that both have
};

// Where one side's steps came from.
struct diff_steps_source {
    enum trace_rule rule;
    struct slice program; // of rules that go by one
};

struct diff_steps {
    struct diff_steps_source a, b;
    bool comparable; // both by the same kind of rule, and executions of programs of one name
    struct diff_device *devices;
    size_t n_devices;
    struct diff_step *steps; // those of both sides first, what moved most before the rest; then by device and number
    size_t n_steps, n_matched, only_a, only_b;
    double slower; // relative change of the time of A's steps at B's means, per device; NAN: no device has any in both
    struct diff_interval range;
    double matched_slower; // of the steps that both have
    struct diff_interval matched_range;
    enum trace_diff_verdict verdict; // unclear where they are not comparable
};

// Everything in it has been copied into `arena`. ERR_MEMORY.
int diff_steps_make(struct diff_steps *d, const struct trace *ta, const struct trace_steps *a, const struct trace *tb,
                    const struct trace_steps *b, double tolerance, struct arena *arena, struct error *err);
double diff_step_change_ps(const struct diff_step *s); // of its duration; NAN where one side lacks it
// An object with the first `top` rows of steps (0: all).
void diff_steps_json(const struct diff_steps *d, size_t top, struct jw *w);

#endif
