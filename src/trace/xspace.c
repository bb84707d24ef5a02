// SPDX-License-Identifier: Apache-2.0
#include "trace/xspace.h"

#include <inttypes.h>
#include <stdlib.h>

// ---- Damage

void xdamage_add(struct xdamage *d, const struct xdamage *more)
{
    size_t count = d->count + more->count;
    if (more->what && (!d->what || more->offset < d->offset))
        *d = *more;
    d->count = count;
}

static void found(const struct xspace *space, struct xdamage *d, const char *where, const char *what, const uint8_t *at)
{
    struct xdamage one = {.what = what, .where = where, .offset = (uint64_t)(at - space->bytes.data), .count = 1};
    xdamage_add(d, &one);
}

static void note(struct xspace *space, const struct pb_reader *r, const char *where)
{
    if (r->damage)
        found(space, &space->damage, where, r->damage, r->damaged);
}

void xevents_damage(const struct xspace *space, const struct xevents *walk, struct xdamage *d)
{
    if (walk->line->told)
        return;
    if (walk->damage)
        found(space, d, "planes.lines.events", walk->damage, walk->damaged);
    if (walk->body.damage)
        found(space, d, "planes.lines", walk->body.damage, walk->body.damaged);
    walk->line->told = walk->body.at == walk->body.end;
}

// ---- Growing arrays

#define PUSH(arena, array, n, cap, err)                                                                                \
    (((array) = arena_grow((arena), (array), &(cap), (n) + 1, sizeof *(array), (err))) ? &(array)[(n)++] : NULL)

static int push_slice(struct arena *arena, struct slice **array, size_t *n, size_t *cap, struct slice s,
                      struct error *err)
{
    struct slice *at = PUSH(arena, *array, *n, *cap, err);
    if (!at)
        return ERR_MEMORY;
    *at = s;
    return 0;
}

// ---- Tables

// One entry of a map: {1 key, 2 the row}. The key counts; a row's own id is the same.
static int read_row(struct xspace *space, struct xtable *t, struct slice entry, bool events, struct arena *arena,
                    struct error *err)
{
    struct xmeta *row = PUSH(arena, t->rows, t->n_rows, t->cap_rows, err);
    if (!row)
        return ERR_MEMORY;
    *row = (struct xmeta){0};
    struct pb_field f;
    struct pb_reader r = pb_reader(entry.data, entry.size);
    while (pb_next(&r, &f)) {
        if (pb_is(&f, 1, PB_VARINT))
            row->id = (int64_t)f.value;
        else if (pb_is(&f, 2, PB_BYTES))
            row->message = f.body;
    }
    const char *where = events ? "planes.event_metadata" : "planes.stat_metadata";
    note(space, &r, where);
    r = pb_reader(row->message.data, row->message.size);
    while (pb_next(&r, &f)) {
        if (pb_is(&f, 2, PB_BYTES))
            row->name = f.body;
        else if (pb_is(&f, 4, PB_BYTES) && events)
            row->display_name = f.body;
    }
    note(space, &r, where);
    return 0;
}

// Ids that are far apart could be chosen so that any hash is slow; sorting is not.
static int by_id(const void *a, const void *b, void *rows)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    int64_t x = ((const struct xmeta *)rows)[i].id, y = ((const struct xmeta *)rows)[j].id;
    return x != y ? (x > y) - (x < y) : (i > j) - (i < j);
}

static int index_table(struct xtable *t, struct arena *arena, struct error *err)
{
    if (!t->n_rows)
        return 0;
    int64_t first = t->rows[0].id, last = first;
    for (size_t i = 1; i < t->n_rows; i++) {
        first = t->rows[i].id < first ? t->rows[i].id : first;
        last = t->rows[i].id > last ? t->rows[i].id : last;
    }
    uint64_t span = (uint64_t)last - (uint64_t)first;
    t->first = first;
    t->direct = span < 4 * t->n_rows + 1024;
    t->slots = arena_new(arena, uint32_t, t->direct ? span + 1 : t->n_rows, err);
    if (!t->slots)
        return ERR_MEMORY;
    if (t->direct) {
        t->n_slots = (size_t)span + 1;
        for (size_t i = 0; i < t->n_rows; i++)
            t->slots[(uint64_t)t->rows[i].id - (uint64_t)first] = (uint32_t)i + 1;
        return 0;
    }
    for (size_t i = 0; i < t->n_rows; i++)
        t->slots[i] = (uint32_t)i;
    qsort_r(t->slots, t->n_rows, sizeof *t->slots, by_id, t->rows);
    for (size_t i = 0; i < t->n_rows; i++) {
        bool again = i + 1 < t->n_rows && t->rows[t->slots[i]].id == t->rows[t->slots[i + 1]].id;
        if (!again)
            t->slots[t->n_slots++] = t->slots[i];
    }
    return 0;
}

// ---- Planes and lines

void xline_tail(struct xline *l, const struct pb_field *f)
{
    if (pb_is(f, 9, PB_VARINT))
        l->duration_ps = (int64_t)f->value;
    else if (pb_is(f, 10, PB_VARINT))
        l->display_id = (int64_t)f->value;
    else if (pb_is(f, 11, PB_BYTES))
        l->display_name = f->body;
}

static void line_field(struct xline *l, const struct pb_field *f)
{
    if (pb_is(f, 1, PB_VARINT))
        l->id = (int64_t)f->value;
    else if (pb_is(f, 2, PB_BYTES))
        l->name = f->body;
    else if (pb_is(f, 3, PB_VARINT))
        l->timestamp_ns = (int64_t)f->value;
    else
        xline_tail(l, f);
}

// The head alone: what stands before the first event. Writers put fields in the order of their numbers; only a line
// without a name there is read to its end.
static void read_line(struct xspace *space, struct xline *l, struct slice body)
{
    *l = (struct xline){0};
    struct pb_field f;
    struct pb_reader r = pb_reader(body.data, body.size);
    for (const uint8_t *begin = r.at; pb_next(&r, &f); begin = r.at) {
        if (pb_is(&f, 4, PB_BYTES)) {
            if (!l->events.size)
                l->events = (struct slice){begin, (size_t)(r.end - begin)};
            if (l->name.size)
                return;
        } else {
            line_field(l, &f);
        }
    }
    if (!l->events.size) // else whoever walks meets the damage again
        note(space, &r, "planes.lines");
}

static int read_plane(struct xspace *space, struct xplane *p, struct slice body, struct arena *arena, struct error *err)
{
    *p = (struct xplane){0};
    struct pb_field f;
    struct pb_reader r = pb_reader(body.data, body.size);
    int rc = 0;
    while (!rc && pb_next(&r, &f)) {
        if (pb_is(&f, 1, PB_VARINT)) {
            p->id = (int64_t)f.value;
        } else if (pb_is(&f, 2, PB_BYTES)) {
            p->name = f.body;
        } else if (pb_is(&f, 3, PB_BYTES)) {
            struct xline *l = PUSH(arena, p->lines, p->n_lines, p->cap_lines, err);
            if (!l)
                return ERR_MEMORY;
            read_line(space, l, f.body);
        } else if (pb_is(&f, 4, PB_BYTES)) {
            rc = read_row(space, &p->event_table, f.body, true, arena, err);
        } else if (pb_is(&f, 5, PB_BYTES)) {
            rc = read_row(space, &p->stat_table, f.body, false, arena, err);
        } else if (pb_is(&f, 6, PB_BYTES)) {
            rc = push_slice(arena, &p->stats, &p->n_stats, &p->cap_stats, f.body, err);
        }
    }
    note(space, &r, "planes");
    if (!rc)
        rc = index_table(&p->event_table, arena, err);
    return rc ? rc : index_table(&p->stat_table, arena, err);
}

int xspace_read(struct xspace *space, const void *bytes, size_t size, const char *name, struct arena *arena,
                struct error *err)
{
    *space = (struct xspace){.bytes = {(const uint8_t *)bytes, size}};
    struct pb_field f;
    struct pb_reader r = pb_reader(bytes, size);
    int rc = 0;
    while (!rc && pb_next(&r, &f)) {
        if (pb_is(&f, 1, PB_BYTES)) {
            struct xplane *p = PUSH(arena, space->planes, space->n_planes, space->cap_planes, err);
            rc = p ? read_plane(space, p, f.body, arena, err) : ERR_MEMORY;
        } else if (pb_is(&f, 2, PB_BYTES)) {
            rc = push_slice(arena, &space->errors, &space->n_errors, &space->cap_errors, f.body, err);
        } else if (pb_is(&f, 3, PB_BYTES)) {
            rc = push_slice(arena, &space->warnings, &space->n_warnings, &space->cap_warnings, f.body, err);
        } else if (pb_is(&f, 4, PB_BYTES)) {
            rc = push_slice(arena, &space->hosts, &space->n_hosts, &space->cap_hosts, f.body, err);
        }
    }
    if (rc)
        return rc;
    note(space, &r, "planes");
    bool named = false;
    for (size_t i = 0; i < space->n_planes; i++)
        named |= space->planes[i].name.size > 0;
    if (named || (size && !space->damage.what && space->n_planes + space->n_errors + space->n_warnings))
        return 0;
    if (!size)
        return error_set(err, ERR_INPUT, name, "is empty: the profiler wrote nothing");
    return error_set(err, ERR_INPUT, name, "is not a profile (XSpace, *.xplane.pb)%s%s", space->damage.what ? ": " : "",
                     space->damage.what ? space->damage.what : "");
}

const struct xplane *xspace_plane(const struct xspace *space, const char *name)
{
    for (size_t i = 0; i < space->n_planes; i++) {
        if (slice_is(space->planes[i].name, name))
            return &space->planes[i];
    }
    return NULL;
}

// ---- Statistics

void xstat_read(struct xstat *s, const struct xplane *plane, struct slice message)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(message.data, message.size);
    *s = (struct xstat){.kind = XSTAT_NONE};
    while (pb_next(&r, &f)) {
        if (pb_is(&f, 1, PB_VARINT)) {
            s->metadata_id = (int64_t)f.value;
        } else if (pb_is(&f, 2, PB_FIXED64)) {
            s->kind = XSTAT_DOUBLE;
            s->number = pb_double(&f);
        } else if (pb_is(&f, 3, PB_VARINT)) {
            s->kind = XSTAT_UINT;
            s->unsigned_number = f.value;
        } else if (pb_is(&f, 4, PB_VARINT)) {
            s->kind = XSTAT_INT;
            s->integer = (int64_t)f.value;
        } else if (pb_is(&f, 5, PB_BYTES) || pb_is(&f, 6, PB_BYTES)) {
            s->kind = f.number == 5 ? XSTAT_TEXT : XSTAT_BYTES;
            s->bytes = f.body;
        } else if (pb_is(&f, 7, PB_VARINT)) {
            const struct xmeta *row = xtable_find(&plane->stat_table, (int64_t)f.value);
            s->kind = row ? XSTAT_TEXT : XSTAT_NONE;
            if (row)
                s->bytes = row->name;
        }
    }
}

bool xstat_next(struct xstats *w, struct xstat *s)
{
    struct pb_field f;
    while (pb_next(&w->r, &f)) {
        if (pb_is(&f, w->field, PB_BYTES)) {
            xstat_read(s, w->plane, f.body);
            return true;
        }
    }
    return false;
}
