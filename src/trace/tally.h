// SPDX-License-Identifier: Apache-2.0
// One line of a device, walked over once: for every operation on it how often it ran and how long, nesting solved.
#ifndef TRACE_TALLY_H
#define TRACE_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trace/device.h"
#include "trace/nest.h"

// Times are within 2^62 ps, 53 days, of the origin on either side; then no difference of two leaves 64 bits.
#define TALLY_RANGE_PS (((int64_t)1 << 62) - 1)

// What events are the same operation: the same row of the plane's table, and of a GPU or a host, where rows are kernels
// and calls, the same HLO operation of the same program.
struct tally_key {
    int64_t metadata_id;
    uint64_t hlo;     // a row of the table of statistics, or a hash of the text; 0: none
    uint64_t program; // program_id; 0: none
    uint64_t value;   // a hash of the value of the statistic that was asked for; 0: none
};

struct tally_entry {
    struct tally_key key;
    struct xevent first; // in the order of the line
    uint64_t occurrences;
    int64_t self_ps, total_ps;
    double self_squares; // ps^2, of each occurrence
    double flop, bytes;  // sums of what events say themselves (only where `has_cost`), else 0
    bool has_cost;
};

struct tally {
    struct tally_entry *entries; // malloc'd, like the slots
    size_t n, cap;
    uint32_t *slots;
    size_t n_slots;
    uint64_t secret;
    uint64_t events;
    int64_t first_ps, last_ps; // of the line, from the trace's origin; meaningless without events
    int64_t union_ps;          // time covered by any event; the self times add up to it
    size_t overlaps;           // events that did not nest
    bool device_clock;         // times are of the device's own clock
    bool sorted;               // false: the events were so far out of order that all had to be kept and sorted
    size_t out_of_range;       // events of negative length or beyond the range, left out
};

// Names of statistics as ids of one plane; 0 where it has none of the name.
struct tally_ids {
    int64_t hlo_op, program, device_offset, device_duration, flop, bytes;
    int64_t value; // events are kept apart by the value of this one
};
// stat: the name of that one; NULL: none.
void tally_ids(struct tally_ids *ids, const struct xplane *p, const char *stat);

// origin_ns: what timestamp_ns of lines is counted from. What is damaged is added to `damage`. ERR_MEMORY. Release even
// after an error.
int tally_line(struct tally *t, const struct trace_device *d, struct xline *l, const struct tally_ids *ids,
               int64_t origin_ns, struct xdamage *damage, struct error *err);
void tally_release(struct tally *t);

#endif
