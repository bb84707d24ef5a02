// SPDX-License-Identifier: Apache-2.0
// A profile to look at: every line with its events in rows in which none overlaps, and, where there are more events
// than somebody asked for, short ones that lie close together as one block.
//
// The rule of blocks: time is cut into cells of 2^k picoseconds. Events of one row that are shorter than a cell and
// start in the same one are a block; all others stay what they are. k is the smallest with which the records are few
// enough, found apart for devices, which come first, and for hosts, which have what is left (a quarter at the least).
#ifndef TRACE_TIMELINE_H
#define TRACE_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/threads.h"
#include "trace/device.h"

// Events that are nested deeper, or overlap more, share the last row as blocks.
#define TIMELINE_ROWS 250

struct timeline_record {
    int64_t start_ps, duration_ps; // from the timeline's beginning
    int64_t busy_ps;               // durations added up: of an event its own
    uint32_t count;                // 1: an event; more: a block (saturates)
    uint32_t name;                 // 1 + row of the plane's event table; 0: none. Of a block that of its longest event
    const uint8_t *stats;          // of an event, in the file; see xevent
    size_t stats_bytes;
};

struct timeline_row {
    struct timeline_record *records; // in the order of their starts; malloc'd
    size_t n, cap;
};

struct timeline_line {
    struct xline *line;        // NULL: time in which any operation of the device ran
    struct timeline_row *rows; // an event lies below those that contain it; malloc'd
    size_t n_rows;
    uint64_t events; // that the rows hold, alone and in blocks
    int64_t cell_ps; // 0: no blocks for want of room
};

struct timeline_plane {
    struct trace_file *file;
    struct xplane *plane;
    bool device;
    struct timeline_line *lines; // only those with events
    size_t n_lines;
};

struct timeline {
    struct arena arena;
    struct timeline_plane *planes; // devices first, else in the order of the files
    size_t n_planes;
    int64_t zero_ps;              // its beginning on the common clock
    int64_t length_ps;            // to the end of the last event of the whole profile
    int64_t from_ps, to_ps;       // the window
    uint64_t events, outside;     // in the window, outside it
    uint64_t records, merged;     // records; events that are in blocks
    uint64_t no_time, impossible; // left out: aggregates without a place in time, and times that no profile has
};

struct timeline_options {
    size_t max_records;     // the rows of busy time come on top
    int64_t from_ps, to_ps; // from the profile's first event on; to_ps < 0: to its end
};

// Records point into the files, which must stay. Several files are put on one clock (clock.h). Damage met on the way is
// added to the files' own. Release even after an error. ERR_USAGE: nothing can lie between from_ps and to_ps.
int timeline_make(struct timeline *l, struct trace *t, const struct timeline_options *options, struct threads *threads,
                  struct error *err);
void timeline_release(struct timeline *l);

#endif
