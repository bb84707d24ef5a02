// SPDX-License-Identifier: Apache-2.0
// A profile in the forms that other programs read: the JSON of Chrome's tracing, Perfetto's protobuf, CSV, and the
// profile itself (merge.h writes it). Written in one pass over the events by several threads; memory does not grow with
// the number of events, unless those of a line are out of order. What is written does not depend on the number of
// threads.
#ifndef TRACE_CONVERT_H
#define TRACE_CONVERT_H

#include "base/threads.h"
#include "trace/clock.h"
#include "trace/session.h"
#include "trace/sink.h"

enum trace_form { TRACE_CHROME, TRACE_PERFETTO, TRACE_CSV, TRACE_XSPACE };

struct trace_converted {
    uint64_t events;       // written
    uint64_t tracks;       // a line takes several where its events overlap in part
    uint64_t aggregates;   // not written (but to CSV): they have no place in time
    uint64_t out_of_range; // not written: of negative length, or more than 53 days from the start
};

// Writes all files of the trace, on one clock, with `threads` (NULL: the caller alone). Of what is damaged, it writes
// what can be read, and adds the damage to the files' own. What sink_commit reports it does not. ERR_MEMORY,
// ERR_INTERRUPTED; ERR_INPUT when a file shrinks meanwhile.
int trace_convert(struct trace *t, struct threads *threads, enum trace_form form, struct sink *out,
                  struct trace_converted *done, struct error *err);

#endif
