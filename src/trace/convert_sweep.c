// SPDX-License-Identifier: Apache-2.0
#include "trace/convert_sweep.h"

#include <stdlib.h>
#include <string.h>

#define GAP_PS 1000000 // between two operations of the same place: shorter ones do not part a slice

int sweep_init(struct sweep *s, const struct xplane *p, const char *stat, bool split, struct arena *arena,
               struct error *err)
{
    *s = (struct sweep){.plane = p, .split = split, .next_ps = INT64_MIN};
    for (size_t i = 0; i < p->stat_table.n_rows; i++) {
        if (slice_is(p->stat_table.rows[i].name, stat))
            s->stat_id = p->stat_table.rows[i].id;
    }
    s->by_row = arena_new(arena, struct sweep_path, p->event_table.n_rows, err);
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

static struct slice path_of(struct sweep *s, const struct form_event *e)
{
    struct sweep_path *row = e->row ? &s->by_row[e->row - s->plane->event_table.rows] : NULL;
    if (!s->stat_id)
        return (struct slice){0};
    if (row && !row->known) {
        row->text = find_stat(s, xmeta_stats(s->plane, e->row));
        row->known = true;
    }
    struct slice path = row && row->text.size ? row->text : find_stat(s, xevent_stats(s->plane, e->raw));
    while (path.size && path.data[path.size - 1] == ':') // "jit(f)/add:"
        path.size--;
    return path;
}

// ---- Slices

static void close_to(struct sweep *s, struct form *f, size_t n, int64_t ps, struct error *err)
{
    while (s->n_shown > n) {
        size_t i = --s->n_shown;
        struct form_event e = {.track = &s->track,
                               .plane = s->plane,
                               .name = s->shown[i],
                               .start_ps = s->since_ps[i],
                               .duration_ps = ps - s->since_ps[i]};
        if (f->end)
            f->end(f, &s->track, ps);
        else if (!s->rc)
            s->rc = f->begin(f, &e, err);
    }
}

static void open_slice(struct sweep *s, struct form *f, struct slice name, int64_t ps, struct error *err)
{
    if (!s->track.id) {
        s->track.id = ++*s->tracks;
        s->track.order = (*s->order)++;
        s->rc = f->track(f, &s->track, err);
    }
    s->shown[s->n_shown] = name;
    s->since_ps[s->n_shown++] = ps;
    // How long it will be is not known; not zero, that would be an instant.
    struct form_event e = {.track = &s->track, .plane = s->plane, .name = name, .start_ps = ps, .duration_ps = 1};
    if (f->end && !s->rc)
        s->rc = f->begin(f, &e, err);
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

static void show(struct sweep *s, struct form *f, struct slice path, int64_t ps, struct error *err)
{
    struct slice parts[SWEEP_DEPTH];
    bool was_idle = s->idle;
    if (!path.size) {
        s->idle_ps = was_idle ? s->idle_ps : ps;
        s->idle = true;
        return;
    }
    s->idle = false;
    if (was_idle && ps - s->idle_ps > GAP_PS) {
        close_to(s, f, 0, s->idle_ps, err);
        s->path = (struct slice){0};
    }
    if (s->path.size && slice_equal(s->path, path))
        return;
    size_t n = split_path(s, path, parts), common = 0;
    while (common < n && common < s->n_shown && slice_equal(parts[common], s->shown[common]))
        common++;
    close_to(s, f, common, was_idle ? s->idle_ps : ps, err);
    for (size_t i = common; i < n; i++)
        open_slice(s, f, parts[i], ps, err);
    s->path = path;
}

// Of several paths at one instant the last counts.
static void set(struct sweep *s, struct form *f, struct slice path, int64_t ps, struct error *err)
{
    if (ps > s->next_ps && s->next_ps > INT64_MIN)
        show(s, f, s->next, s->next_ps, err);
    s->next = path;
    s->next_ps = ps;
}

static void advance(struct sweep *s, struct form *f, int64_t ps, struct error *err)
{
    while (s->depth && s->running[s->depth - 1].end_ps <= ps) {
        int64_t end = s->running[s->depth - 1].end_ps;
        while (s->depth && s->running[s->depth - 1].end_ps <= end)
            s->depth--;
        set(s, f, s->depth ? s->running[s->depth - 1].path : (struct slice){0}, end, err);
    }
}

int sweep_add(struct sweep *s, struct form *f, const struct form_event *e, struct error *err)
{
    if (!s->stat_id || !e->duration_ps)
        return 0;
    advance(s, f, e->start_ps, err);
    if (s->depth == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 16;
        struct sweep_open *more = realloc(s->running, cap * sizeof *more);
        if (!more)
            return error_set(err, ERR_MEMORY, NULL, "no memory for %zu nested events", s->depth);
        s->running = more;
        s->cap = cap;
    }
    struct slice path = path_of(s, e);
    if (!path.size && s->depth)
        path = s->running[s->depth - 1].path;
    s->running[s->depth++] = (struct sweep_open){e->start_ps + e->duration_ps, path};
    set(s, f, path, e->start_ps, err);
    return s->rc;
}

int sweep_finish(struct sweep *s, struct form *f, struct error *err)
{
    if (f) {
        advance(s, f, INT64_MAX, err);
        set(s, f, (struct slice){0}, INT64_MAX, err);
        close_to(s, f, 0, s->idle_ps, err);
    }
    int rc = s->rc;
    free(s->running);
    *s = (struct sweep){0};
    return rc;
}
