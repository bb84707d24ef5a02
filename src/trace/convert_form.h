// SPDX-License-Identifier: Apache-2.0
// What one pass over a profile tells a form of output: processes (planes), tracks, and on each track events in the
// order of time that nest. They come in chunks, which several threads write out at the same time; their texts are put
// together in the order of the chunks, so that a file does not depend on the number of threads.
#ifndef TRACE_CONVERT_FORM_H
#define TRACE_CONVERT_FORM_H

#include <stdatomic.h>

#include "trace/convert.h"

// Tracks whose events are told in the order of time, all together: those of a line, and those of each derived one.
#define FORM_STREAMS   3
#define FORM_CHUNK_OPS 4096

enum flow_way { FLOW_NONE, FLOW_OUT, FLOW_IN };

// Ids of one plane's statistics that make flows, 0 where it has none of the name.
struct flow_ids {
    int64_t flow, producer, producer_type, consumer, consumer_type, correlation;
    bool any;
    bool device;   // correlation ids come in here, and go out everywhere else
    uint64_t file; // of the trace: ids of two files are never the same
};

// A flow that an event's statistics make, one after the other.
struct flow {
    enum flow_way way;
    uint64_t id;
    bool found; // no other statistic counts
    uint64_t producer, producer_type, consumer, consumer_type;
};

struct form_plane {
    const struct trace_file *file;
    const struct xplane *plane;
    uint32_t pid;      // from 1 on
    struct slice name; // with the host's, where there are several
    int64_t start_ns;  // Unix time that all times count from; 0: not known
    struct flow_ids flows;
    void *tables;        // of the form
    struct arena arena;  // for tracks and tables
    atomic_size_t users; // chunks, and who makes them
};

struct form_track {
    uint64_t id; // from 1 on; of one trace
    const struct form_plane *plane;
    size_t order;      // among the plane's
    struct slice name; // unique for a line's extra tracks
    uint8_t stream;
    bool first;               // of its line and stream: times of the stream start anew
    bool counter;             // then it has FORM_COUNT, and neither FORM_BEGIN nor FORM_END
    const struct xline *line; // whose events are on it; NULL: derived from those of another track
};

enum form_what { FORM_PLANE, FORM_TRACK, FORM_BEGIN, FORM_END, FORM_COUNT };

struct form_op {
    enum form_what what;
    bool fresh;                     // FORM_BEGIN: the first of its row, or of its derived name, on the plane
    uint32_t derived;               // FORM_BEGIN: not 0: a derived slice, with the number of its name on the plane
    const struct form_track *track; // not of FORM_PLANE
    int64_t ps;
    union {
        int64_t duration_ps; // FORM_BEGIN; 1 where it is not yet known
        double value;        // FORM_COUNT
    };
    // FORM_BEGIN
    const struct xmeta *row; // NULL: no row of the table has the event's id, or it is derived
    struct slice text;       // the event's bytes with its statistics (xevent.stats); a derived slice's name
    int64_t metadata_id, occurrences;
};

struct form_chunk {
    struct form_op *ops; // malloc'd, FORM_CHUNK_OPS
    size_t n;
    uint64_t number;
    struct form_plane *plane;        // of all of them
    int64_t latest_ps[FORM_STREAMS]; // before the first of them: the latest time told since the stream's first track
};

struct form {
    bool lanes; // false: lines as they are, aggregates too, no tracks (CSV)
    bool ends;  // slices get FORM_END, and derived ones are told when they begin; else when they are over
    bool counters;
    const char *head, *tail; // of the file
    size_t state_bytes;
    // Tables of a plane for all threads, NULL where none are needed.
    int (*plane)(struct form_plane *p, struct error *err);
    // Of a thread's state, which is zeroed before.
    void (*release)(void *state);
    int (*chunk)(void *state, const struct form_chunk *k, struct error *err);
    int (*op)(void *state, const struct form_op *op, struct str *out, struct error *err);
    // What must come before what `op` has written since the last call; called in the order of the file.
    int (*before)(void *state, struct str *out, struct error *err);
};

const struct form *form_chrome(void);
const struct form *form_csv(void);
const struct form *form_perfetto(void);

// ---- Statistics as JSON

// What is the same for all events of a row.
struct form_row_text {
    struct slice name; // data NULL: not yet made
    struct slice args; // as form_add_args has them
};

// Texts of a plane, each made when it is first needed. Of one thread.
struct form_texts {
    const struct form_plane *plane;
    uint32_t pid; // whose they are; 0: none
    struct arena arena;
    struct form_row_text *rows;
    struct slice *stat_names; // "name": by the row of the table of statistics
    struct str text;
};

// The texts of a chunk's plane; what is of another is forgotten.
int form_texts_chunk(struct form_texts *t, const struct form_chunk *k, struct error *err);
void form_texts_release(struct form_texts *t);
// {"name": value, ...} of statistics, as text appended to `out` without the braces; `any`: there is one before it. Long
// texts are cut after 16 KiB: they may be referred to by any number of events.
int form_add_args(struct form_texts *t, struct str *out, struct xstats walk, bool *any, struct error *err);
int form_add_stat(struct form_texts *t, struct str *out, const struct xstat *s, bool *any, struct error *err);
void form_add_text(struct str *out, struct slice text);
// Beyond 2^53, where JSON's readers round, as a text.
void form_add_exact(struct str *out, int64_t v);
void form_add_uint(struct str *out, uint64_t v);
void form_add_int(struct str *out, int64_t v);
struct slice form_short_name(const struct xmeta *row);

// ---- Flows

void flow_ids_find(struct flow_ids *ids, const struct trace *t, const struct trace_file *f, const struct xplane *p);
// Whether a statistic can make one, by its id.
bool flow_is_of(const struct flow_ids *ids, int64_t id);
// One statistic with an integer.
void flow_see(struct flow *w, const struct flow_ids *ids, int64_t id, uint64_t value);
void flow_end(struct flow *w, const struct flow_ids *ids);

#endif
