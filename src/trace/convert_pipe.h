// SPDX-License-Identifier: Apache-2.0
// The way from a pass over events to a file. One thread at a time fills a chunk with what happens next, in order; then
// it writes the chunk's text while the next thread fills the next chunk; then, when it is its turn, it puts the text
// into the file. So at most one chunk and its text per thread are in memory.
#ifndef TRACE_CONVERT_PIPE_H
#define TRACE_CONVERT_PIPE_H

#include <pthread.h>

#include "base/threads.h"
#include "trace/convert_form.h"

struct pipe_worker {
    struct form_chunk chunk;
    struct str out, head;
    void *state;
};

struct pipe {
    const struct form *form;
    struct sink *sink;
    // Adds ops to the pipe until pipe_full, the end of a plane or of everything. A chunk without any is the end.
    int (*fill)(void *source, struct error *err);
    void *source;

    struct pipe_worker *workers; // malloc'd
    size_t n_workers;
    pthread_mutex_t filling; // also guards all of the following
    struct pipe_worker *filler;
    struct form_plane *plane; // what ops are about
    uint64_t next;            // chunk
    int64_t latest_ps[FORM_STREAMS];
    bool over;

    pthread_mutex_t order;
    pthread_cond_t turned;
    uint64_t turn; // the chunk that is to be put into the file
    atomic_int rc; // the first failure
    struct error error;
};

// Fills and writes everything. The first failure of all.
int pipe_run(struct pipe *p, struct threads *threads, struct error *err);

// ---- For `fill`

// Makes room by writing out what is there.
void pipe_spill(struct pipe *p);

// What an op of its kind has beside these three the caller sets.
static inline struct form_op *pipe_op(struct pipe *p, enum form_what what, const struct form_track *track, int64_t ps)
{
    struct form_chunk *k = &p->filler->chunk;
    if (k->n == FORM_CHUNK_OPS)
        pipe_spill(p);
    if (track) {
        int64_t *latest = &p->latest_ps[track->stream];
        if (what == FORM_TRACK)
            *latest = track->first ? 0 : *latest;
        else
            *latest = ps > *latest ? ps : *latest;
    }
    struct form_op *op = &k->ops[k->n++];
    op->what = what;
    op->track = track;
    op->ps = ps;
    return op;
}

static inline bool pipe_full(const struct pipe *p)
{
    return p->filler->chunk.n > FORM_CHUNK_OPS - 64; // an event rarely needs more
}

// From now on ops are about this plane; what is in the chunk must not be about another. The pipe releases it in the
// end.
void pipe_plane(struct pipe *p, struct form_plane *plane);
bool pipe_empty(const struct pipe *p);
struct form_plane *form_plane_new(struct error *err);

#endif
