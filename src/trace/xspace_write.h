// SPDX-License-Identifier: Apache-2.0
// Writes an XSpace (see xspace.h) of our own spans, so that XProf and whatever else reads profiles shows them. What a
// plugin's profiler records is the plugin's; where one has none this is all there is.
#ifndef TRACE_XSPACE_WRITE_H
#define TRACE_XSPACE_WRITE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

struct xwrite_event {
    const char *name;
    uint64_t start_ns, end_ns; // of any one clock
    int64_t step;              // number of the step that the event is; -1: it is none
};

struct xwrite_line {
    int64_t id;       // of a thread
    const char *name; // "assay-worker/1234"
    struct xwrite_event *events;
    size_t n_events;
};

// Appends a space with the plane /host:CPU, which has these lines, and the plane "Task Environment" with the start and
// the end of the whole: `epoch_ns` is the Unix time at `start_ns` of the events' clock, and times in lines count from
// there, as in what XLA saves. Events outside [start_ns, end_ns] are left out; the others of a line are brought in
// order of their start, outer ones first. ERR_MEMORY only.
int xspace_write(struct str *out, const char *host, struct xwrite_line *lines, size_t n_lines, uint64_t start_ns,
                 uint64_t end_ns, int64_t epoch_ns, struct error *err);

#endif
