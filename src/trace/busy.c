// SPDX-License-Identifier: Apache-2.0
#include "trace/busy.h"

#include <stdlib.h>
#include <string.h>

// So many events are looked at before the first of them is given out: a device's own clock is a little out of order.
#define WINDOW 64

struct trace_cursor {
    struct xline *line;
    struct xevents walk;
    int64_t base_ps;
    struct trace_span *window; // a ring, in order; of a line that is not, all its events
    size_t first, n, cap;
    bool ended;
};

static int by_start(const void *a, const void *b)
{
    const struct trace_span *x = a, *y = b;
    if (x->start_ps != y->start_ps)
        return x->start_ps < y->start_ps ? -1 : 1;
    if (x->end_ps != y->end_ps)
        return x->end_ps > y->end_ps ? -1 : 1;
    return (x->line > y->line) - (x->line < y->line);
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
static bool read_event(struct trace_spans *s, struct trace_cursor *c, struct trace_span *out)
{
    while (xevent_next(&c->walk, &out->event)) {
        const struct xevent *e = &out->event;
        int64_t start, duration = e->duration_ps;
        if (e->occurrences)
            continue;
        if (__builtin_add_overflow(c->base_ps, e->offset_ps, &start))
            start = INT64_MAX;
        if (s->clock == CLOCK_OF_DEVICE && s->ids.device_offset)
            device_times(s, e, &start, &duration);
        if (start < -TALLY_RANGE_PS || start > TALLY_RANGE_PS || duration < 0 || duration > TALLY_RANGE_PS - start) {
            s->out_of_range++;
            continue;
        }
        out->start_ps = start;
        out->end_ps = start + duration;
        out->line = (size_t)(c - s->cursors);
        return true;
    }
    return false;
}

static struct trace_span *in_window(const struct trace_cursor *c, size_t i)
{
    size_t at = c->first + i;
    return &c->window[at < c->cap ? at : at - c->cap];
}

static void fill(struct trace_spans *s, struct trace_cursor *c)
{
    struct trace_span next;
    while (!c->ended && c->n < c->cap) {
        c->ended = !read_event(s, c, &next);
        if (c->ended)
            return;
        size_t at = c->n++;
        for (; at > 0 && by_start(&next, in_window(c, at - 1)) < 0; at--)
            *in_window(c, at) = *in_window(c, at - 1);
        *in_window(c, at) = next;
    }
}

static void drop_first(struct trace_spans *s, struct trace_cursor *c)
{
    c->first = c->first + 1 < c->cap ? c->first + 1 : 0;
    c->n--;
    fill(s, c);
}

static void rewind_line(struct trace_cursor *c)
{
    c->walk = xline_events(c->line);
    c->first = c->n = 0;
    c->ended = false;
}

// Whether the window is enough to bring the line in order.
static bool is_ordered(struct trace_spans *s, struct trace_cursor *c)
{
    struct trace_span last = {.start_ps = INT64_MIN, .end_ps = INT64_MAX};
    bool ordered = true;
    for (fill(s, c); c->n && ordered; drop_first(s, c)) {
        ordered = by_start(&last, in_window(c, 0)) <= 0;
        last = *in_window(c, 0);
    }
    return ordered;
}

static int room(struct trace_cursor *c, size_t cap, struct error *err)
{
    struct trace_span *more = realloc(c->window, cap * sizeof *more);
    if (!more)
        return error_set(err, ERR_MEMORY, NULL, "no memory to bring %zu events in order", cap);
    c->window = more;
    c->cap = cap;
    return 0;
}

static int sort_line(struct trace_spans *s, struct trace_cursor *c, struct error *err)
{
    struct trace_span next;
    int rc = 0;
    rewind_line(c);
    while (!rc && read_event(s, c, &next)) {
        if (c->n == c->cap)
            rc = room(c, 2 * c->cap, err);
        if (!rc)
            c->window[c->n++] = next;
    }
    c->ended = true;
    if (c->n)
        qsort(c->window, c->n, sizeof *c->window, by_start);
    return rc;
}

static int open_line(struct trace_spans *s, struct trace_cursor *c, struct xline *line, int64_t origin_ns,
                     struct error *err)
{
    c->line = line;
    if (__builtin_sub_overflow(line->timestamp_ns, origin_ns, &c->base_ps) ||
        __builtin_mul_overflow(c->base_ps, (int64_t)1000, &c->base_ps))
        c->base_ps = INT64_MAX; // then only events on the device's own clock can be placed
    int rc = room(c, WINDOW, err);
    if (rc)
        return rc;
    rewind_line(c);
    size_t before = s->out_of_range;
    if (!is_ordered(s, c)) {
        s->out_of_range = before;
        return sort_line(s, c, err);
    }
    size_t counted = s->out_of_range;
    rewind_line(c);
    fill(s, c);
    s->out_of_range = counted;
    return 0;
}

// ---- The heap: the line whose next event starts first

static bool before(const struct trace_spans *s, size_t a, size_t b)
{
    return by_start(in_window(&s->cursors[a], 0), in_window(&s->cursors[b], 0)) < 0;
}

static void sift(struct trace_spans *s, size_t at)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= s->n_heap)
            return;
        if (child + 1 < s->n_heap && before(s, s->heap[child + 1], s->heap[child]))
            child++;
        if (!before(s, s->heap[child], s->heap[at]))
            return;
        size_t swap = s->heap[at];
        s->heap[at] = s->heap[child];
        s->heap[child] = swap;
        at = child;
    }
}

int trace_spans_begin(struct trace_spans *s, const struct xplane *plane, struct xline *const *lines, size_t n,
                      int64_t origin_ns, enum trace_clock clock, struct error *err)
{
    *s = (struct trace_spans){.plane = plane, .clock = clock};
    tally_ids(&s->ids, plane);
    s->cursors = calloc(n ? n : 1, sizeof *s->cursors);
    s->heap = calloc(n ? n : 1, sizeof *s->heap);
    if (!s->cursors || !s->heap)
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu lines", n);
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        s->n_lines++;
        rc = open_line(s, &s->cursors[i], lines[i], origin_ns, err);
        if (!rc && s->cursors[i].n)
            s->heap[s->n_heap++] = i;
    }
    for (size_t i = s->n_heap / 2; i-- > 0 && !rc;)
        sift(s, i);
    return rc;
}

bool trace_spans_next(struct trace_spans *s, struct trace_span *out)
{
    if (!s->n_heap)
        return false;
    struct trace_cursor *c = &s->cursors[s->heap[0]];
    size_t known = s->out_of_range;
    *out = *in_window(c, 0);
    drop_first(s, c);
    s->out_of_range = known;
    if (!c->n)
        s->heap[0] = s->heap[--s->n_heap];
    sift(s, 0);
    return true;
}

void trace_spans_end(struct trace_spans *s, const struct xspace *space, struct xdamage *damage)
{
    for (size_t i = 0; i < s->n_lines; i++) {
        xevents_damage(space, &s->cursors[i].walk, damage);
        free(s->cursors[i].window);
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
    struct xdamage known = {0};
    int64_t gap_ps;
    *out = (struct busy){0};
    int rc = trace_spans_begin(&walk, d->plane, d->lines, d->n_lines, origin_ns, clock, err);
    while (!rc && trace_spans_next(&walk, &s))
        busy_add(out, s.start_ps, s.end_ps, &gap_ps);
    trace_spans_end(&walk, &d->file->space, &known);
    return rc;
}
