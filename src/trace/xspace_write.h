// SPDX-License-Identifier: Apache-2.0
// Writes an XSpace (see xspace.h) of our own spans, so that XProf and whatever else reads profiles shows them. What a
// plugin's profiler records is the plugin's; where one has none this is all there is.
#ifndef TRACE_XSPACE_WRITE_H
#define TRACE_XSPACE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/str.h"

// ---- Pieces: fields of a space and of a plane, and what all writers put in them

enum { XSPACE_PLANE = 1, XSPACE_ERROR, XSPACE_WARNING, XSPACE_HOST };
enum { XPLANE_ID = 1, XPLANE_NAME, XPLANE_LINE, XPLANE_EVENT_NAME, XPLANE_STAT_NAME, XPLANE_STAT };

// An entry of a plane's table XPLANE_EVENT_NAME or XPLANE_STAT_NAME: what `id` is called. In events' tables there may
// be a short name beside it, and statistics, which are fields already.
void xwrite_row(struct str *out, uint32_t table, int64_t id, struct slice name, struct slice display_name,
                struct slice stats);
// A statistic as field `field` of an event (4), of a row (5) or a plane (6): an integer with a sign or without (its
// field in the message: 4, 3).
void xwrite_number(struct str *out, uint32_t field, int64_t id, uint32_t kind, uint64_t v);
// The plane "Task Environment": when the profile began and ended, in Unix time.
void xwrite_environment(struct str *out, uint64_t start_ns, uint64_t end_ns);

// ---- A space of our own spans

// A program that ran, with what the compiler made of it.
struct xwrite_program {
    const char *name;     // of the module: "jit_f"
    uint64_t id;          // not 0
    struct slice module;  // HloModuleProto; empty: not known
    struct slice buffers; // BufferAssignmentProto of it; empty: not known
};

struct xwrite_event {
    const char *name;
    uint64_t start_ns, end_ns;            // of any one clock
    int64_t step;                         // number of the step that the event is; -1: it is none
    const struct xwrite_program *program; // that ran in it, as a whole; NULL: none
};

struct xwrite_line {
    int64_t id;       // of a thread
    const char *name; // "assay-worker/1234"
    struct xwrite_event *events;
    size_t n_events;
};

struct xwrite_space {
    const char *host;
    struct xwrite_line *lines;
    size_t n_lines;
    const struct xwrite_program *programs;
    size_t n_programs;
    const char *warning;       // of the capture, for whoever reads the profile; NULL: none
    uint64_t start_ns, end_ns; // of the events' clock: those outside are left out
    int64_t epoch_ns;          // Unix time at start_ns
};

// Appends a space with the plane /host:CPU, which has the lines, the plane /host:metadata with the programs' HLO, and
// the plane "Task Environment" with the start and the end of the whole. Times in lines count from start_ns, as in what
// XLA saves. The events of a line are brought in order of their start, outer ones first. An event of a program carries
// its name, id and category as XLA's CPU back end marks operations: the program is one. ERR_MEMORY only.
int xspace_write(struct str *out, const struct xwrite_space *s, struct error *err);

// Appends to a space that a plugin's profiler recorded what it has not: these lines, as the plane of another process
// `pid` ("/host:CPU [1234]"), the HLO unless it has some, and the environment and the host's name unless it has them.
// Its lines say whether times are Unix times or count from the start. ERR_DEVICE when it is no space, or holds no
// event: there is nothing to add to. ERR_MEMORY.
int xspace_append(struct str *space, const struct xwrite_space *s, int pid, struct error *err);

// What is in a space.
struct xspace_contents {
    uint64_t events; // of all lines
    bool programs;   // with their HLO
    bool absolute;   // times are Unix times
    bool environment, host;
};
// ERR_DEVICE when it is none. An empty one holds nothing.
int xspace_look(const struct str *space, struct xspace_contents *c, struct error *err);

#endif
