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

// A name of a derived slice, with its number on the plane, from 1 on.
struct sweep_part {
    struct slice name;
    uint32_t number;
};

// Where time was spent: names, the outermost first. NULL stands for nowhere.
struct sweep_path {
    struct sweep_part *parts;
    size_t n;
};

struct sweep_row {
    const struct sweep_path *path;
    bool known;
};

// Of one plane and one kind of path: what its lines have in common. Hashes of texts stand for them.
struct sweep_plane {
    struct arena *arena;    // the plane's
    int64_t stat_id;        // 0: none says where
    bool split;             // at '/'
    struct sweep_row *rows; // what the event table says of each row
    struct idmap names, paths;
    const struct sweep_path **items; // by the number of their text
    bool *told;                      // names, by number: a slice has had it
    size_t n_items, cap_items, n_names, cap_told;
};

struct sweep_open {
    int64_t end_ps;
    const struct sweep_path *path;
};

struct sweep {
    struct form_track *track; // told with the first slice, which gives it its id and order
    uint64_t *tracks;
    size_t *order;
    const struct xplane *plane;
    struct sweep_plane *of;
    struct sweep_open *running; // malloc'd
    size_t depth, cap;
    struct sweep_part shown[SWEEP_DEPTH];
    int64_t since_ps[SWEEP_DEPTH];
    size_t n_shown;
    const struct sweep_path *path, *next; // what is shown, and what will be from next_ps on
    int64_t next_ps, idle_ps;
    bool idle;
};

// `stat`: the statistic with the path. Memory is in `arena`, the plane's.
int sweep_plane_init(struct sweep_plane *s, const struct xplane *p, const char *stat, bool split, struct arena *arena,
                     struct error *err);
void sweep_plane_release(struct sweep_plane *s);
void sweep_init(struct sweep *s, const struct xplane *p, struct sweep_plane *of);
// The line's next event.
int sweep_add(struct sweep *s, struct pipe *p, const struct xevent *e, const struct xmeta *row, int64_t start_ps,
              struct error *err);
// Tells what is open.
void sweep_finish(struct sweep *s, struct pipe *p);
void sweep_release(struct sweep *s);

#endif
