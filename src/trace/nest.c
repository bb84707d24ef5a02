// SPDX-License-Identifier: Apache-2.0
#include "trace/nest.h"

#include <stdlib.h>
#include <string.h>

void nest_init(struct nest *n, void (*closed)(void *, uint32_t, int64_t, int64_t), void *context)
{
    memset(n, 0, sizeof *n);
    n->closed = closed;
    n->context = context;
}

static void close_top(struct nest *n)
{
    const struct nest_open *o = &n->open[--n->depth];
    int64_t total = o->end_ps - o->start_ps;
    n->closed(n->context, o->key, total - o->covered_ps, total);
}

static int push(struct nest *n, struct nest_open event, struct error *err)
{
    if (n->depth == n->cap) {
        size_t cap = n->cap ? n->cap * 2 : 64;
        struct nest_open *more = realloc(n->open, cap * sizeof *more);
        if (!more)
            return error_set(err, ERR_MEMORY, NULL, "no memory for events nested %zu deep", n->depth);
        n->open = more;
        n->cap = cap;
    }
    n->open[n->depth++] = event;
    return 0;
}

bool nest_add(struct nest *n, int64_t start_ps, int64_t end_ps, uint32_t key, int *rc, struct error *err)
{
    if (n->begun && (start_ps < n->last_start_ps))
        return false;
    while (n->depth && n->open[n->depth - 1].end_ps <= start_ps)
        close_top(n);
    // Of two that start together the longer one comes first. One that has no length has just been closed.
    if (n->depth && n->open[n->depth - 1].start_ps == start_ps && end_ps > n->open[n->depth - 1].end_ps)
        return false;
    // Its time is taken from those below it, each as far as it reaches. One that it outlasts is passed over by all that
    // start later, so none is passed twice, however events overlap.
    int64_t at = start_ps;
    size_t outer = n->depth;
    while (outer) {
        struct nest_open *o = &n->open[outer - 1];
        int64_t until = o->end_ps < end_ps ? o->end_ps : end_ps;
        if (until > at) {
            o->covered_ps += until - at;
            at = until;
        }
        if (o->end_ps >= end_ps)
            break;
        n->overlaps += outer == n->depth;
        outer = o->outer;
    }
    if (!n->begun || end_ps > n->reach_ps) {
        n->union_ps += end_ps - (n->begun && n->reach_ps > start_ps ? n->reach_ps : start_ps);
        n->reach_ps = end_ps;
    }
    n->begun = true;
    n->last_start_ps = start_ps;
    *rc = push(n, (struct nest_open){.start_ps = start_ps, .end_ps = end_ps, .outer = outer, .key = key}, err);
    return true;
}

void nest_finish(struct nest *n)
{
    while (n->depth)
        close_top(n);
}

void nest_release(struct nest *n)
{
    free(n->open);
    memset(n, 0, sizeof *n);
}
