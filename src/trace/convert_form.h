// SPDX-License-Identifier: Apache-2.0
// What one pass over a profile tells a form of output: processes (planes), tracks, and on each track events in the
// order of time that nest.
#ifndef TRACE_CONVERT_FORM_H
#define TRACE_CONVERT_FORM_H

#include "trace/convert.h"

enum flow_way { FLOW_NONE, FLOW_OUT, FLOW_IN };

struct form_plane {
    const struct trace_file *file;
    const struct xplane *plane;
    uint32_t pid;      // from 1 on
    struct slice name; // with the host's, where there are several
    int64_t start_ns;  // Unix time that all times count from; 0: not known
};

struct form_track {
    uint64_t id; // from 1 on; of one trace
    const struct form_plane *plane;
    size_t order;             // among the plane's
    struct slice name;        // unique for a line's extra tracks
    bool counter;             // then it has form->count, and neither begin nor end
    const struct xline *line; // whose events are on it; NULL: derived from those of another track
};

struct form_event {
    const struct form_track *track;
    const struct xplane *plane;
    const struct xmeta
        *row; // NULL: no row of the table has the event's id, or it is derived and `name` says what it is
    struct slice name;
    const struct xevent *raw; // NULL: derived
    int64_t start_ps, duration_ps;
    enum flow_way flow;
    uint64_t flow_id;
};

struct form {
    void *state;
    struct sink *out;
    bool lanes; // false: lines as they are, aggregates too, no tracks (CSV)
    int (*plane)(struct form *f, const struct form_plane *p, struct error *err);
    int (*track)(struct form *f, const struct form_track *t, struct error *err);
    int (*begin)(struct form *f, const struct form_event *e, struct error *err);
    void (*end)(struct form *f, const struct form_track *t, int64_t ps); // NULL: `begin` is enough
    void (*count)(struct form *f, const struct form_track *t, int64_t ps, double value);
    void (*finish)(struct form *f); // the last bytes
    void (*release)(struct form *f);
};

int form_chrome(struct form *f, struct error *err);
int form_csv(struct form *f, struct error *err);
int form_perfetto(struct form *f, struct error *err);

// {"name": value, ...} of a row's and an event's statistics, as text appended to `out` without the braces; `any`: there
// is one before it. Long texts are cut after 16 KiB: they may be referred to by any number of events.
void form_args_json(struct str *out, const struct xplane *p, struct xstats walk, bool *any);
void form_text_json(struct str *out, struct slice text);

#endif
