// SPDX-License-Identifier: Apache-2.0
// One clock for the files of several hosts. A saved profile counts from its own start; the plane "Task Environment"
// says when that was (profile_start_time, Unix time). Hosts' own clocks differ by more than an operation takes: where
// the same collective ran on all of them, it ended on all at the same time, and that says how much.
#ifndef TRACE_EPOCH_H
#define TRACE_EPOCH_H

#include "trace/session.h"

enum trace_epoch_source {
    TRACE_EPOCH_OWN,         // one file, or nothing is known: every file counts from its own start
    TRACE_EPOCH_STARTS,      // the times at which the captures started
    TRACE_EPOCH_COLLECTIVES, // these, corrected by the ends of collectives
};
const char *trace_epoch_source_name(enum trace_epoch_source source); // "own", "start times", "collectives"

struct trace_epoch {
    enum trace_epoch_source source;
    int64_t start_ns;  // Unix time at which the capture started; 0: the file does not say
    int64_t origin_ns; // what lines' timestamps count from: 0 in a saved profile, else the earliest of them
    int64_t shift_ps;  // added to all times of the file; the earliest file's is 0
    // Of the collectives: how many events were compared with the first file's, and how far a correction may be off
    // (half of them are nearer than that). The correction itself is in shift_ps.
    uint64_t matched;
    int64_t correction_ps, spread_ps;
};

// One for each file of the trace, in its arena. ERR_MEMORY; ERR_INPUT when a file shrinks meanwhile.
int trace_epochs(struct trace *t, struct trace_epoch **out, struct error *err);

// When offset 0 of a line is, in ps on the common clock; false when that is not within 2^62 ps.
bool trace_epoch_base(const struct trace_epoch *c, const struct xline *l, int64_t *base_ps);

#endif
