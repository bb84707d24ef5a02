// SPDX-License-Identifier: Apache-2.0
#include "trace/busy.h"

#include <stdlib.h>
#include <string.h>

// So many events are looked at before the first of them is given out: a device's own clock is a little out of order.
#define WINDOW 64
// Events of a line are read so many at a time.
#define BATCH 192

struct entry {
    int64_t start_ps, end_ps;
    int64_t metadata_id;
    struct slice stats;
};

struct trace_cursor {
    struct xevents beginning, walk;
    int64_t base_ps;
    struct entry *entries; // in order: those from `at` on are still to be given; of a line that is not, all its events
    size_t at, n, cap, out_of_range;
    int64_t last_start_ps, last_end_ps; // of the last one given
    bool ended;
};

static inline bool precedes(int64_t start_ps, int64_t end_ps, int64_t other_start_ps, int64_t other_end_ps)
{
    return start_ps != other_start_ps ? start_ps < other_start_ps : end_ps > other_end_ps;
}

static int by_start(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->start_ps != y->start_ps)
        return x->start_ps < y->start_ps ? -1 : 1;
    if (x->end_ps != y->end_ps)
        return x->end_ps > y->end_ps ? -1 : 1;
    return (x->stats.data > y->stats.data) - (x->stats.data < y->stats.data); // as they were
}

static void device_times(const struct trace_spans *s, const struct xevent *e, int64_t *start_ps, int64_t *duration_ps)
{
    struct xstats walk = xevent_stats(s->plane, e);
    struct xstat stat;
    int64_t duration = 0;
    bool timed = false;
    while (xstat_next(&walk, &stat)) {
        if (stat.kind != XSTAT_INT && stat.kind != XSTAT_UINT)
            continue;
        if (stat.metadata_id == s->ids.device_offset) {
            *start_ps = stat.integer;
            timed = true;
        } else if (stat.metadata_id == s->ids.device_duration) {
            duration = stat.integer;
        }
    }
    if (timed) // an event without a length has no duration written
        *duration_ps = duration;
}

// The next event that has a place in time.
static inline bool read_event(const struct trace_spans *s, struct trace_cursor *c, struct entry *out)
{
    struct xevent e;
    while (xevent_next(&c->walk, &e)) {
        int64_t start, duration = e.duration_ps;
        if (e.occurrences)
            continue;
        if (__builtin_add_overflow(c->base_ps, e.offset_ps, &start))
            start = INT64_MAX;
        if (s->clock == CLOCK_OF_DEVICE && s->ids.device_offset)
            device_times(s, &e, &start, &duration);
        if (start < -TALLY_RANGE_PS || start > TALLY_RANGE_PS || duration < 0 || duration > TALLY_RANGE_PS - start) {
            c->out_of_range++;
            continue;
        }
        *out = (struct entry){start, start + duration, e.metadata_id, e.stats};
        return true;
    }
    return false;
}

// Reads on. False when an event comes too late to be brought in order: after one that was given out.
static bool fill(const struct trace_spans *s, struct trace_cursor *c)
{
    struct entry next;
    if (c->at) {
        c->last_start_ps = c->entries[c->at - 1].start_ps;
        c->last_end_ps = c->entries[c->at - 1].end_ps;
        c->n -= c->at;
        memmove(c->entries, c->entries + c->at, c->n * sizeof next);
        c->at = 0;
    }
    while (c->n < c->cap) {
        if (!read_event(s, c, &next)) {
            c->ended = true;
            break;
        }
        size_t at = c->n++;
        for (; at > 0 && precedes(next.start_ps, next.end_ps, c->entries[at - 1].start_ps, c->entries[at - 1].end_ps);
             at--)
            c->entries[at] = c->entries[at - 1];
        c->entries[at] = next;
        if (c->n - at > WINDOW || (at == 0 && precedes(next.start_ps, next.end_ps, c->last_start_ps, c->last_end_ps)))
            return false;
    }
    return true;
}

// How many of the line can be given out as they are.
static size_t ready(const struct trace_cursor *c)
{
    return c->ended ? c->n : c->n > WINDOW ? c->n - WINDOW : 0;
}

// Makes the next one known, if there is one. False when order is lost.
static bool advance(const struct trace_spans *s, struct trace_cursor *c)
{
    return c->at < ready(c) || c->ended || fill(s, c);
}

static void rewind_line(struct trace_cursor *c)
{
    c->walk = c->beginning;
    c->at = c->n = c->out_of_range = 0;
    c->last_start_ps = INT64_MIN;
    c->last_end_ps = INT64_MAX;
    c->ended = false;
}

static int room(struct trace_cursor *c, size_t cap, struct error *err)
{
    struct entry *more = realloc(c->entries, cap * sizeof *more);
    if (!more)
        return error_set(err, ERR_MEMORY, NULL, "no memory to bring %zu events in order", cap);
    c->entries = more;
    c->cap = cap;
    return 0;
}

static int sort_line(const struct trace_spans *s, struct trace_cursor *c, struct error *err)
{
    struct entry next;
    int rc = 0;
    rewind_line(c);
    while (!rc && read_event(s, c, &next)) {
        if (c->n == c->cap)
            rc = room(c, 2 * c->cap, err);
        if (!rc)
            c->entries[c->n++] = next;
    }
    c->ended = true;
    if (c->n)
        qsort(c->entries, c->n, sizeof *c->entries, by_start);
    return rc;
}

static int open_line(struct trace_spans *s, struct trace_cursor *c, struct xline *line, int64_t origin_ns,
                     struct error *err)
{
    c->beginning = xline_events(line);
    if (__builtin_sub_overflow(line->timestamp_ns, origin_ns, &c->base_ps) ||
        __builtin_mul_overflow(c->base_ps, (int64_t)1000, &c->base_ps))
        c->base_ps = INT64_MAX; // then only events on the device's own clock can be placed
    rewind_line(c);
    int rc = room(c, WINDOW + BATCH, err);
    if (!rc && !fill(s, c))
        s->disordered = true;
    return rc;
}

// ---- The heap: the line whose next event starts first

static inline bool before(const struct trace_front *a, const struct trace_front *b)
{
    if (a->start_ps != b->start_ps)
        return a->start_ps < b->start_ps;
    return a->end_ps != b->end_ps ? a->end_ps > b->end_ps : a->line < b->line;
}

// Puts x, which belongs at `at`, where it must be below that.
static void sift(struct trace_spans *s, size_t at, struct trace_front x)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= s->n_heap)
            break;
        if (child + 1 < s->n_heap && before(&s->heap[child + 1], &s->heap[child]))
            child++;
        if (!before(&s->heap[child], &x))
            break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = x;
}

static struct trace_front front(const struct trace_spans *s, size_t line)
{
    const struct trace_cursor *c = &s->cursors[line];
    return (struct trace_front){c->entries[c->at].start_ps, c->entries[c->at].end_ps, line};
}

static void make_heap(struct trace_spans *s)
{
    s->n_heap = 0;
    for (size_t i = 0; i < s->n_lines; i++) {
        if (s->cursors[i].at < s->cursors[i].n)
            s->heap[s->n_heap++] = front(s, i);
    }
    for (size_t i = s->n_heap / 2; i-- > 0;)
        sift(s, i, s->heap[i]);
}

int trace_spans_begin(struct trace_spans *s, const struct xplane *plane, struct xline *const *lines, size_t n,
                      int64_t origin_ns, enum trace_clock clock, struct error *err)
{
    *s = (struct trace_spans){.plane = plane, .clock = clock};
    tally_ids(&s->ids, plane, NULL);
    s->cursors = calloc(n ? n : 1, sizeof *s->cursors);
    s->heap = calloc(n ? n : 1, sizeof *s->heap);
    if (!s->cursors || !s->heap)
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu lines", n);
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        s->n_lines++;
        rc = open_line(s, &s->cursors[i], lines[i], origin_ns, err);
    }
    if (!rc)
        make_heap(s);
    return rc;
}

bool trace_spans_next(struct trace_spans *s, struct trace_span *out)
{
    if (s->disordered)
        return false;
    if (!s->n_heap) {
        s->out_of_range = 0;
        for (size_t i = 0; i < s->n_lines; i++)
            s->out_of_range += s->cursors[i].out_of_range;
        return false;
    }
    size_t line = s->heap[0].line;
    struct trace_cursor *c = &s->cursors[line];
    const struct entry *e = &c->entries[c->at++];
    *out = (struct trace_span){e->start_ps, e->end_ps, line, {.metadata_id = e->metadata_id, .stats = e->stats}};
    s->disordered = !advance(s, c);
    if (c->at < c->n)
        sift(s, 0, front(s, line));
    else if (--s->n_heap)
        sift(s, 0, s->heap[s->n_heap]);
    return true;
}

int trace_spans_order(struct trace_spans *s, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < s->n_lines && !rc; i++) {
        struct trace_cursor *c = &s->cursors[i];
        rewind_line(c);
        bool ordered = true;
        while (ordered && !c->ended) {
            ordered = fill(s, c);
            c->at = ready(c);
        }
        rewind_line(c);
        if (!ordered)
            rc = sort_line(s, c, err);
        else
            (void)fill(s, c);
    }
    s->disordered = false;
    if (!rc)
        make_heap(s);
    return rc;
}

bool trace_spans_again(struct trace_spans *s, int *rc, struct error *err)
{
    if (*rc || !s->disordered)
        return false;
    *rc = trace_spans_order(s, err);
    return !*rc;
}

void trace_spans_end(struct trace_spans *s, const struct xspace *space, struct xdamage *damage)
{
    for (size_t i = 0; i < s->n_lines; i++) {
        if (damage)
            xevents_damage(space, &s->cursors[i].walk, damage);
        free(s->cursors[i].entries);
    }
    free(s->cursors);
    free(s->heap);
    memset(s, 0, sizeof *s);
}

int trace_device_busy(const struct trace_device *d, int64_t origin_ns, enum trace_clock clock, struct busy *out,
                      struct error *err)
{
    struct trace_spans walk;
    struct trace_span s;
    int64_t gap_ps;
    int rc = trace_spans_begin(&walk, d->plane, d->lines, d->n_lines, origin_ns, clock, err);
    do {
        *out = (struct busy){0};
        while (!rc && trace_spans_next(&walk, &s))
            busy_add(out, s.start_ps, s.end_ps, &gap_ps);
    } while (trace_spans_again(&walk, &rc, err));
    trace_spans_end(&walk, &d->file->space, &d->file->space.damage);
    return rc;
}
