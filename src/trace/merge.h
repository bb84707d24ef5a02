// SPDX-License-Identifier: Apache-2.0
// The profiles of several hosts as one: devices numbered on, hosts named, times on one clock (clock.h). Lines are
// copied as they lie, but for when they start, so nothing is lost, and memory does not grow with the events.
#ifndef TRACE_MERGE_H
#define TRACE_MERGE_H

#include "trace/clock.h"
#include "trace/sink.h"

struct trace_merged {
    size_t planes, devices;
    uint64_t lines, events;
    size_t renumbered; // programs that have another number, since an earlier file had theirs (merge_programs.h)
    const struct trace_epoch *epochs; // one for each file: how its clock was set
};

// Writes an XSpace of all files. A line's shift is rounded to whole ns, in which lines start. Damage met on the way is
// added to the files' own; it ends nothing in what is written, though an event or a name that is damaged is copied so.
// ERR_MEMORY; ERR_INPUT when a file shrinks meanwhile, or when a
// line's time would leave 64 bits.
int trace_merge(struct trace *t, struct sink *out, struct trace_merged *done, struct error *err);

#endif
