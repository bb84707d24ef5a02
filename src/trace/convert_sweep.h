// SPDX-License-Identifier: Apache-2.0
// A track that shows for every instant of a line where in the program its time was spent: the source line, or the
// nested names of the framework. An instant belongs to the event that started last of those still running, as
// everywhere.
#ifndef TRACE_CONVERT_SWEEP_H
#define TRACE_CONVERT_SWEEP_H

#include "base/idmap.h"
#include "trace/convert_pipe.h"

#define SWEEPS      2  // source and scope
#define SWEEP_DEPTH 64 // nested names; what is deeper is left out

struct sweep_path {
    struct slice text;
    bool known;
};

// Numbers of the names of derived slices, from 1 on.
struct sweep_names {
    struct idmap by_hash;
    uint32_t n;
};

struct sweep_open {
    int64_t end_ps;
    struct slice path;
};

struct sweep {
    struct form_track *track; // told with the first slice, which gives it its id and order
    uint64_t *tracks;
    size_t *order;
    struct sweep_names *names; // of all lines of the plane
    const struct xplane *plane;
    int64_t stat_id;
    bool split;                 // at '/'
    struct sweep_path *by_row;  // what the event table says of each row
    struct sweep_open *running; // malloc'd
    size_t depth, cap;
    struct slice shown[SWEEP_DEPTH];
    int64_t since_ps[SWEEP_DEPTH];
    size_t n_shown;
    struct slice path, next; // what is shown, and what will be from next_ps on
    int64_t next_ps, idle_ps;
    bool idle;
};

// `stat`: the statistic with the path. Memory is in `arena`, the plane's; *by_row is NULL for its first line, and kept
// for the others.
int sweep_init(struct sweep *s, const struct xplane *p, const char *stat, bool split, struct sweep_path **by_row,
               struct arena *arena, struct error *err);
// The line's next event.
int sweep_add(struct sweep *s, struct pipe *p, const struct xevent *e, const struct xmeta *row, int64_t start_ps,
              struct error *err);
// Tells what is open.
int sweep_finish(struct sweep *s, struct pipe *p, struct error *err);
void sweep_release(struct sweep *s);

#endif
