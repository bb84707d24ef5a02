// SPDX-License-Identifier: Apache-2.0
#include "trace/convert_sweep.h"

#include <stdlib.h>
#include <string.h>

#define GAP_PS 1000000 // between two operations of the same place: shorter ones do not part a slice

int sweep_plane_init(struct sweep_plane *s, const struct xplane *p, const char *stat, bool split, struct arena *arena,
                     struct error *err)
{
    *s = (struct sweep_plane){.arena = arena, .split = split};
    idmap_init(&s->names);
    idmap_init(&s->paths);
    for (size_t i = 0; i < p->stat_table.n_rows; i++) {
        if (slice_is(p->stat_table.rows[i].name, stat))
            s->stat_id = p->stat_table.rows[i].id;
    }
    s->rows = arena_new(arena, struct sweep_row, p->event_table.n_rows, err);
    return s->rows ? 0 : ERR_MEMORY;
}

void sweep_plane_release(struct sweep_plane *s)
{
    idmap_release(&s->names);
    idmap_release(&s->paths);
    *s = (struct sweep_plane){0};
}

void sweep_init(struct sweep *s, const struct xplane *p, struct sweep_plane *of)
{
    *s = (struct sweep){.plane = p, .of = of, .next_ps = INT64_MIN};
}

// ---- Where an event belongs

// Statistics whose id has one byte and is another one, as nearly all are, are passed over without being read.
static void pass_others(struct pb_reader *r, uint32_t field, int64_t id)
{
    const uint8_t *at = r->at;
    const uint8_t tag = (uint8_t)(field << 3 | PB_BYTES);
    while (r->end - at >= 4 && at[0] == tag && at[1] >= 2 && at[1] < 0x80 && r->end - at - 2 >= at[1] &&
           at[2] == (1 << 3 | PB_VARINT) && at[3] < 0x80 && at[3] != id)
        at += 2 + at[1];
    r->at = at;
}

static struct slice find_stat(const struct sweep *s, struct xstats walk)
{
    struct xstat v;
    if (!s->of->stat_id) // no statistic of the plane is called so
        return (struct slice){0};
    for (;;) {
        pass_others(&walk.r, walk.field, s->of->stat_id);
        if (!xstat_next(&walk, &v))
            return (struct slice){0};
        if (v.metadata_id == s->of->stat_id && v.kind == XSTAT_TEXT)
            return v.bytes;
    }
}

static size_t split_path(const struct sweep_plane *s, struct slice path, struct sweep_part *out)
{
    size_t n = 0, from = 0;
    int nested = 0; // a '/' in parentheses belongs to a name
    for (size_t i = 0; i <= path.size && n < SWEEP_DEPTH; i++) {
        uint8_t c = i < path.size ? path.data[i] : '/';
        nested += c == '(' ? 1 : c == ')' && nested ? -1 : 0;
        if (i == path.size || (s->split && c == '/' && !nested)) {
            if (i > from)
                out[n++].name = (struct slice){path.data + from, i - from};
            from = i + 1;
        }
    }
    return n;
}

// The number of a text, from 0 on: `next` where it is new.
static int number(struct idmap *m, struct slice text, size_t next, uint32_t *out, struct error *err)
{
    int64_t h = (int64_t)mix_bytes(mix64(m->secret + text.size), text.data, text.size);
    bool again;
    if (idmap_get(m, h, out))
        return 0;
    *out = (uint32_t)next;
    return idmap_put(m, h, *out, &again, err);
}

static int new_path(struct sweep_plane *s, struct slice text, struct error *err)
{
    struct sweep_part parts[SWEEP_DEPTH];
    size_t n = split_path(s, text, parts);
    const struct sweep_path **items =
        arena_grow(s->arena, s->items, &s->cap_items, s->n_items + 1, sizeof(void *), err);
    bool *told = arena_grow(s->arena, s->told, &s->cap_told, s->n_names + n + 1, sizeof *told, err);
    struct sweep_path *path = arena_new(s->arena, struct sweep_path, 1, err);
    if (!items || !told || !path || !(path->parts = arena_new(s->arena, struct sweep_part, n, err)))
        return ERR_MEMORY;
    s->items = items;
    s->told = told;
    for (size_t i = 0; i < n; i++) {
        uint32_t which;
        int rc = number(&s->names, parts[i].name, s->n_names, &which, err);
        if (rc)
            return rc;
        if (which == s->n_names)
            told[++s->n_names] = false;
        path->parts[i] = (struct sweep_part){parts[i].name, which + 1};
    }
    path->n = n;
    items[s->n_items++] = path;
    return 0;
}

static int find_path(struct sweep_plane *s, struct slice text, const struct sweep_path **out, struct error *err)
{
    uint32_t which;
    while (text.size && text.data[text.size - 1] == ':') // "jit(f)/add:"
        text.size--;
    *out = NULL;
    if (!text.size)
        return 0;
    int rc = number(&s->paths, text, s->n_items, &which, err);
    if (!rc && which == s->n_items)
        rc = new_path(s, text, err);
    *out = rc ? NULL : s->items[which];
    return rc;
}

static int path_of(struct sweep *s, const struct xevent *e, const struct xmeta *of, const struct sweep_path **out,
                   struct error *err)
{
    struct sweep_row *row = of ? &s->of->rows[of - s->plane->event_table.rows] : NULL;
    if (row && !row->known) {
        int rc = find_path(s->of, find_stat(s, xmeta_stats(s->plane, of)), &row->path, err);
        if (rc)
            return rc;
        row->known = true;
    }
    if (row && row->path) {
        *out = row->path;
        return 0;
    }
    return find_path(s->of, find_stat(s, xevent_stats(s->plane, e)), out, err);
}

// ---- Slices

static void tell_slice(struct sweep *s, struct pipe *p, const struct sweep_part *part, int64_t ps, int64_t duration_ps)
{
    struct form_op *op = pipe_op(p, FORM_BEGIN, s->track, ps);
    op->duration_ps = duration_ps;
    op->row = NULL;
    op->text = part->name;
    op->metadata_id = op->occurrences = 0;
    op->derived = part->number;
    op->fresh = !s->of->told[part->number];
    s->of->told[part->number] = true;
}

static void close_to(struct sweep *s, struct pipe *p, size_t n, int64_t ps)
{
    while (s->n_shown > n) {
        size_t i = --s->n_shown;
        if (p->form->ends)
            pipe_op(p, FORM_END, s->track, ps);
        else
            tell_slice(s, p, &s->shown[i], s->since_ps[i], ps - s->since_ps[i]);
    }
}

static void open_slice(struct sweep *s, struct pipe *p, const struct sweep_part *part, int64_t ps)
{
    if (!s->track->id) {
        s->track->id = ++*s->tracks;
        s->track->order = (*s->order)++;
        pipe_op(p, FORM_TRACK, s->track, 0);
    }
    s->shown[s->n_shown] = *part;
    s->since_ps[s->n_shown++] = ps;
    // How long it will be is not known; not zero, that would be an instant.
    if (p->form->ends)
        tell_slice(s, p, part, ps, 1);
}

static void show(struct sweep *s, struct pipe *p, const struct sweep_path *path, int64_t ps)
{
    bool was_idle = s->idle;
    if (!path) {
        s->idle_ps = was_idle ? s->idle_ps : ps;
        s->idle = true;
        return;
    }
    s->idle = false;
    if (was_idle && ps - s->idle_ps > GAP_PS) {
        close_to(s, p, 0, s->idle_ps);
        s->path = NULL;
    }
    if (s->path == path)
        return;
    size_t common = 0;
    while (common < path->n && common < s->n_shown && path->parts[common].number == s->shown[common].number)
        common++;
    close_to(s, p, common, was_idle ? s->idle_ps : ps);
    for (size_t i = common; i < path->n; i++)
        open_slice(s, p, &path->parts[i], ps);
    s->path = path;
}

// Of several paths at one instant the last counts.
static void set(struct sweep *s, struct pipe *p, const struct sweep_path *path, int64_t ps)
{
    if (ps > s->next_ps && s->next_ps > INT64_MIN)
        show(s, p, s->next, s->next_ps);
    s->next = path;
    s->next_ps = ps;
}

static void advance(struct sweep *s, struct pipe *p, int64_t ps)
{
    while (s->depth && s->running[s->depth - 1].end_ps <= ps) {
        int64_t end = s->running[s->depth - 1].end_ps;
        while (s->depth && s->running[s->depth - 1].end_ps <= end)
            s->depth--;
        set(s, p, s->depth ? s->running[s->depth - 1].path : NULL, end);
    }
}

int sweep_add(struct sweep *s, struct pipe *p, const struct xevent *e, const struct xmeta *row, int64_t start_ps,
              struct error *err)
{
    const struct sweep_path *path;
    if (!s->of->stat_id || !e->duration_ps)
        return 0;
    advance(s, p, start_ps);
    if (s->depth == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 16;
        struct sweep_open *more = realloc(s->running, cap * sizeof *more);
        if (!more)
            return error_set(err, ERR_MEMORY, NULL, "no memory for %zu nested events", s->depth);
        s->running = more;
        s->cap = cap;
    }
    int rc = path_of(s, e, row, &path, err);
    if (rc)
        return rc;
    if (!path && s->depth)
        path = s->running[s->depth - 1].path;
    s->running[s->depth++] = (struct sweep_open){start_ps + e->duration_ps, path};
    set(s, p, path, start_ps);
    return 0;
}

void sweep_finish(struct sweep *s, struct pipe *p)
{
    advance(s, p, INT64_MAX);
    set(s, p, NULL, INT64_MAX);
    close_to(s, p, 0, s->idle_ps);
    sweep_release(s);
}

void sweep_release(struct sweep *s)
{
    free(s->running);
    *s = (struct sweep){0};
}
