// SPDX-License-Identifier: Apache-2.0
// A timeline as a page carries it: a JSON text with every string once, and the records of all rows as bytes.
//
// Records stand row after row as varints (seven bits a byte, low ones first, high bit: more follow): picoseconds since
// the end of the row's last record (since the timeline's beginning for its first), duration, name * 2 + (1 for a
// block), and then of an event its detail, of a block the number of its events and the sum of their durations.
//
// The JSON text: {"length_ps", "from_ps", "to_ps": texts of numbers; "strings": [...]; "details": [[NAME, VALUE, ...]],
// numbers or [STRING] for a text, NAME an index of strings; "planes": [{"name", "host", "device", "names": [0 or
// [NAME, SHORT or -1, DETAIL]], "steps", "lines": [{"name", "id", "rows": [records in each]}]}], "files": [{"path",
// "host", "damage"}], "rule": how steps were found, "notes": [...]}. A record's name and detail count from 1; 0 is
// none. A line without a name is busy time.
#ifndef TRACE_TIMELINE_ENCODE_H
#define TRACE_TIMELINE_ENCODE_H

#include "base/str.h"
#include "trace/steps.h"
#include "trace/timeline.h"

// Statistics of events are kept while the text of all details is below this; those of tables of events always are.
#define TIMELINE_DETAIL_BYTES ((size_t)4 << 20)
// Strings are whole while all are below this, then cut to 256 bytes.
#define TIMELINE_STRING_BYTES ((size_t)4 << 20)

struct timeline_encoded {
    struct str json, records;
    uint64_t bare; // events whose statistics were left out
    uint64_t cut;  // strings cut
};

// steps: for bands, where their clock is the timeline's, or NULL: a plane then has "steps": [[INDEX, start, duration,
// is an outlier]], texts of numbers. Release even after an error.
int timeline_encode(struct timeline_encoded *e, const struct timeline *l, const struct trace *t,
                    const struct trace_steps *steps, struct error *err);
void timeline_encoded_release(struct timeline_encoded *e);
void timeline_encode_record(struct str *out, const struct timeline_record *r, int64_t *end_ps, uint32_t detail);
// What the timeline leaves out, and why, one sentence each, in words for people.
void timeline_notes(const struct timeline *l, const struct timeline_encoded *e,
                    void (*note)(void *context, const char *text), void *context);

#endif
