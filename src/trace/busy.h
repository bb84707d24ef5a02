// SPDX-License-Identifier: Apache-2.0
// When something ran, on one line or on several: their events in the order of their starts, and the union of them.
// Events are read once, as they are needed, and memory does not grow with a line. Only where a line turns out to be far
// out of order does a walk stop and begin again, with such lines sorted as a whole:
//
//     struct trace_spans walk;
//     int rc = trace_spans_begin(&walk, plane, lines, n, origin_ns, CLOCK_OF_LINE, err);
//     struct trace_span s;
//     struct busy b;
//     do {
//         b = (struct busy){0};
//         while (!rc && trace_spans_next(&walk, &s))
//             busy_add(&b, s.start_ps, s.end_ps, &gap_ps);
//     } while (trace_spans_again(&walk, &rc, err));
//     trace_spans_end(&walk, space, &damage);
#ifndef TRACE_BUSY_H
#define TRACE_BUSY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trace/device.h"
#include "trace/tally.h"

// A union of spans that come in the order of their starts. Zero is empty.
struct busy {
    int64_t first_ps, last_ps; // start of the first, latest end; meaningless without spans
    int64_t busy_ps;           // time that any of them covers
    uint64_t spans;
};

// True when nothing ran right before: *gap_ps is where the gap began that ends at start_ps. The first span has none.
static inline bool busy_add(struct busy *b, int64_t start_ps, int64_t end_ps, int64_t *gap_ps)
{
    bool gap = b->spans && start_ps > b->last_ps;
    *gap_ps = b->last_ps;
    if (!b->spans++) {
        b->first_ps = start_ps;
        b->last_ps = end_ps;
        b->busy_ps = end_ps - start_ps;
    } else if (end_ps > b->last_ps) {
        b->busy_ps += end_ps - (start_ps > b->last_ps ? start_ps : b->last_ps);
        b->last_ps = end_ps;
    }
    return gap;
}

struct trace_span {
    int64_t start_ps, end_ps;
    size_t line;         // of those given
    struct xevent event; // its row and its statistics; of times only those above
};

// A TPU's operations have times of the device's own clock beside those that are fitted to the host's. Durations are
// exact on the one, and only the other can be compared with anything else.
enum trace_clock { CLOCK_OF_LINE, CLOCK_OF_DEVICE };

struct trace_cursor;
struct trace_front {
    int64_t start_ps, end_ps;
    size_t line;
};
struct trace_spans {
    const struct xplane *plane;
    struct tally_ids ids;
    enum trace_clock clock;
    struct trace_cursor *cursors; // malloc'd, like the heap: of each line what comes next
    struct trace_front *heap;
    size_t n_heap, n_lines;
    size_t out_of_range; // events of negative length or beyond TALLY_RANGE_PS, left out; known at the end
    bool disordered;     // a line is out of order, and what was given so far is, too
};

// origin_ns: what timestamp_ns of lines is counted from. Aggregates have no place in time and are left out. End it even
// after an error. ERR_MEMORY.
int trace_spans_begin(struct trace_spans *s, const struct xplane *plane, struct xline *const *lines, size_t n,
                      int64_t origin_ns, enum trace_clock clock, struct error *err);
// The next one of all lines, of two that start together the longer first; false at the end, and where order is lost.
bool trace_spans_next(struct trace_spans *s, struct trace_span *out);
// Whether all that was given has to be forgotten and the walk, which is back at its beginning and in order now, to be
// repeated: at most once. False also after an error, one that came before (*rc) included.
bool trace_spans_again(struct trace_spans *s, int *rc, struct error *err);
// The same before anything was given, for who cannot forget: costs a pass over all lines.
int trace_spans_order(struct trace_spans *s, struct error *err);
// Adds the damage met on the way; NULL: of a walk that will be made once more.
void trace_spans_end(struct trace_spans *s, const struct xspace *space, struct xdamage *damage);

// The union of all lines with operations of a device, on `clock`. The caller guards the file.
int trace_device_busy(const struct trace_device *d, int64_t origin_ns, enum trace_clock clock, struct busy *out,
                      struct error *err);

#endif
