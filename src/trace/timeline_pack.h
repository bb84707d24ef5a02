// SPDX-License-Identifier: Apache-2.0
// Rows of a timeline: which row an event comes into, and blocks of short events. See timeline.h.
#ifndef TRACE_TIMELINE_PACK_H
#define TRACE_TIMELINE_PACK_H

#include "trace/timeline.h"

struct timeline_pack {
    int64_t ends[TIMELINE_ROWS], starts[TIMELINE_ROWS]; // of the last event of each row
    size_t open;                                        // rows from here on are free
    size_t used;
};

// The row of the next event; events come in the order of their starts, longer ones first. *apart: the number of bits of
// a cell in which the event would still be alone: with cells of 2^k it begins a record of its own when *apart > k.
size_t timeline_place(struct timeline_pack *p, int64_t start_ps, int64_t end_ps, unsigned *apart);

// Adds a record to a row, or merges it with the last one: when both are shorter than a cell of 2^cell_bits (< 0: never)
// and start in the same one, or when they overlap. ERR_MEMORY.
int timeline_put(struct timeline_row *row, const struct timeline_record *r, int cell_bits, int64_t *longest_ps,
                 struct error *err);

// The smallest exponent of a cell (-1: no blocks) that leaves at most `most` records; apart[i] events have that number
// of bits. *n: how many it leaves.
int timeline_cell(const uint64_t apart[65], uint64_t most, uint64_t *n);

#endif
