// SPDX-License-Identifier: Apache-2.0
#include "trace/convert_sweep.h"

#include <stdlib.h>
#include <string.h>

#define GAP_PS 1000000 // between two operations of the same place: shorter ones do not part a slice

int sweep_init(struct sweep *s, const struct xplane *p, const char *stat, bool split, struct sweep_path **by_row,
               struct arena *arena, struct error *err)
{
    if (!*by_row)
        *by_row = arena_new(arena, struct sweep_path, p->event_table.n_rows, err);
    *s = (struct sweep){.plane = p, .split = split, .next_ps = INT64_MIN, .by_row = *by_row};
    for (size_t i = 0; i < p->stat_table.n_rows; i++) {
        if (slice_is(p->stat_table.rows[i].name, stat))
            s->stat_id = p->stat_table.rows[i].id;
    }
    return s->by_row ? 0 : ERR_MEMORY;
}

// ---- Where an event belongs

static struct slice find_stat(const struct sweep *s, struct xstats walk)
{
    struct xstat v;
    while (xstat_next(&walk, &v)) {
        if (v.metadata_id == s->stat_id && v.kind == XSTAT_TEXT)
            return v.bytes;
    }
    return (struct slice){0};
}

static struct slice path_of(struct sweep *s, const struct xevent *e, const struct xmeta *of)
{
    struct sweep_path *row = of ? &s->by_row[of - s->plane->event_table.rows] : NULL;
    if (row && !row->known) {
        row->text = find_stat(s, xmeta_stats(s->plane, of));
        row->known = true;
    }
    struct slice path = row && row->text.size ? row->text : find_stat(s, xevent_stats(s->plane, e));
    while (path.size && path.data[path.size - 1] == ':') // "jit(f)/add:"
        path.size--;
    return path;
}

// ---- Slices

// A name's hash stands for it.
static int number(struct sweep *s, struct slice name, struct form_op *op, struct error *err)
{
    uint64_t h = mix_bytes(mix64(s->names->by_hash.secret + name.size), name.data, name.size);
    bool again;
    if (idmap_get(&s->names->by_hash, (int64_t)h, &op->derived))
        return 0;
    op->derived = ++s->names->n;
    op->fresh = true;
    return idmap_put(&s->names->by_hash, (int64_t)h, op->derived, &again, err);
}

static int tell_slice(struct sweep *s, struct pipe *p, struct slice name, int64_t ps, int64_t duration_ps,
                      struct error *err)
{
    struct form_op *op = pipe_op(p, FORM_BEGIN, s->track, ps);
    op->fresh = false;
    op->duration_ps = duration_ps;
    op->row = NULL;
    op->text = name;
    op->metadata_id = op->occurrences = 0;
    return number(s, name, op, err);
}

static int close_to(struct sweep *s, struct pipe *p, size_t n, int64_t ps, struct error *err)
{
    int rc = 0;
    while (s->n_shown > n && !rc) {
        size_t i = --s->n_shown;
        if (p->form->ends)
            pipe_op(p, FORM_END, s->track, ps);
        else
            rc = tell_slice(s, p, s->shown[i], s->since_ps[i], ps - s->since_ps[i], err);
    }
    return rc;
}

static int open_slice(struct sweep *s, struct pipe *p, struct slice name, int64_t ps, struct error *err)
{
    if (!s->track->id) {
        s->track->id = ++*s->tracks;
        s->track->order = (*s->order)++;
        pipe_op(p, FORM_TRACK, s->track, 0);
    }
    s->shown[s->n_shown] = name;
    s->since_ps[s->n_shown++] = ps;
    // How long it will be is not known; not zero, that would be an instant.
    return p->form->ends ? tell_slice(s, p, name, ps, 1, err) : 0;
}

static size_t split_path(const struct sweep *s, struct slice path, struct slice *out)
{
    size_t n = 0, from = 0;
    int nested = 0; // a '/' in parentheses belongs to a name
    for (size_t i = 0; i <= path.size && n < SWEEP_DEPTH; i++) {
        uint8_t c = i < path.size ? path.data[i] : '/';
        nested += c == '(' ? 1 : c == ')' && nested ? -1 : 0;
        if (i == path.size || (s->split && c == '/' && !nested)) {
            if (i > from)
                out[n++] = (struct slice){path.data + from, i - from};
            from = i + 1;
        }
    }
    return n;
}

static int show(struct sweep *s, struct pipe *p, struct slice path, int64_t ps, struct error *err)
{
    struct slice parts[SWEEP_DEPTH];
    bool was_idle = s->idle;
    int rc = 0;
    if (!path.size) {
        s->idle_ps = was_idle ? s->idle_ps : ps;
        s->idle = true;
        return 0;
    }
    s->idle = false;
    if (was_idle && ps - s->idle_ps > GAP_PS) {
        rc = close_to(s, p, 0, s->idle_ps, err);
        s->path = (struct slice){0};
    }
    if (rc || (s->path.size && slice_equal(s->path, path)))
        return rc;
    size_t n = split_path(s, path, parts), common = 0;
    while (common < n && common < s->n_shown && slice_equal(parts[common], s->shown[common]))
        common++;
    rc = close_to(s, p, common, was_idle ? s->idle_ps : ps, err);
    for (size_t i = common; i < n && !rc; i++)
        rc = open_slice(s, p, parts[i], ps, err);
    s->path = path;
    return rc;
}

// Of several paths at one instant the last counts.
static int set(struct sweep *s, struct pipe *p, struct slice path, int64_t ps, struct error *err)
{
    int rc = ps > s->next_ps && s->next_ps > INT64_MIN ? show(s, p, s->next, s->next_ps, err) : 0;
    s->next = path;
    s->next_ps = ps;
    return rc;
}

static int advance(struct sweep *s, struct pipe *p, int64_t ps, struct error *err)
{
    int rc = 0;
    while (!rc && s->depth && s->running[s->depth - 1].end_ps <= ps) {
        int64_t end = s->running[s->depth - 1].end_ps;
        while (s->depth && s->running[s->depth - 1].end_ps <= end)
            s->depth--;
        rc = set(s, p, s->depth ? s->running[s->depth - 1].path : (struct slice){0}, end, err);
    }
    return rc;
}

int sweep_add(struct sweep *s, struct pipe *p, const struct xevent *e, const struct xmeta *row, int64_t start_ps,
              struct error *err)
{
    if (!s->stat_id || !e->duration_ps)
        return 0;
    int rc = advance(s, p, start_ps, err);
    if (rc)
        return rc;
    if (s->depth == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 16;
        struct sweep_open *more = realloc(s->running, cap * sizeof *more);
        if (!more)
            return error_set(err, ERR_MEMORY, NULL, "no memory for %zu nested events", s->depth);
        s->running = more;
        s->cap = cap;
    }
    struct slice path = path_of(s, e, row);
    if (!path.size && s->depth)
        path = s->running[s->depth - 1].path;
    s->running[s->depth++] = (struct sweep_open){start_ps + e->duration_ps, path};
    return set(s, p, path, start_ps, err);
}

int sweep_finish(struct sweep *s, struct pipe *p, struct error *err)
{
    int rc = advance(s, p, INT64_MAX, err);
    if (!rc)
        rc = set(s, p, (struct slice){0}, INT64_MAX, err);
    if (!rc)
        rc = close_to(s, p, 0, s->idle_ps, err);
    sweep_release(s);
    return rc;
}

void sweep_release(struct sweep *s)
{
    free(s->running);
    *s = (struct sweep){0};
}
