// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/pbwire.h"
#include "trace/chrome_work.h"
#include "trace/xspace_write.h"

#define UNIX_US    ((__int128)1000000000000000) // 2001; no computer has been running for so long
#define LOOK_BELOW 64                           // open events among which the one of an end's name is looked for

// ---- Events by their lines

// Fills work->order: the events of line 0 as they were read, then those of line 1, and so on.
static int order_by_line(struct chrome_work *w, struct error *err)
{
    if (!w->order)
        w->order = calloc(w->n_events, sizeof *w->order);
    if (!w->order)
        return error_set(err, ERR_MEMORY, NULL, "no memory to sort %zu events", w->n_events);
    for (size_t i = 0; i < w->n_lines; i++)
        w->lines[i].n_events = 0;
    for (size_t i = 0; i < w->n_events; i++)
        w->lines[w->events[i].line].n_events += w->events[i].kind != CHROME_GONE;
    uint32_t begin = 0;
    for (size_t i = 0; i < w->n_lines; i++) {
        w->lines[i].begin = begin;
        begin += w->lines[i].n_events;
        w->lines[i].n_events = 0;
    }
    for (size_t i = 0; i < w->n_events; i++) {
        struct chrome_line *l = &w->lines[w->events[i].line];
        if (w->events[i].kind != CHROME_GONE)
            w->order[l->begin + l->n_events++] = (uint32_t)i;
    }
    return 0;
}

static int by_start(const void *a, const void *b, void *events)
{
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const struct chrome_event *x = &((struct chrome_event *)events)[i], *y = &((struct chrome_event *)events)[k];
    if (x->start_ps != y->start_ps)
        return x->start_ps < y->start_ps ? -1 : 1;
    return (i > k) - (i < k);
}

// In a profile outer events come first.
static int by_nesting(const void *a, const void *b, void *events)
{
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const struct chrome_event *x = &((struct chrome_event *)events)[i], *y = &((struct chrome_event *)events)[k];
    if (x->start_ps == y->start_ps && x->duration_ps != y->duration_ps)
        return x->duration_ps > y->duration_ps ? -1 : 1;
    return by_start(a, b, events);
}

// Most files are in order.
static void sort(struct chrome_work *w, const struct chrome_line *l, int (*by)(const void *, const void *, void *))
{
    uint32_t *order = w->order + l->begin;
    for (size_t i = 1; i < l->n_events; i++) {
        if (by(&order[i - 1], &order[i], w->events) > 0) {
            qsort_r(order, l->n_events, sizeof *order, by, w->events);
            return;
        }
    }
}

// ---- Begins and ends

static bool same_name(const struct chrome_work *w, const struct chrome_event *end, const struct chrome_event *begin)
{
    return end->row == CHROME_NONE || end->row == begin->row ||
           slice_equal(w->rows[end->row].name, w->rows[begin->row].name) ||
           // Either may have a long name that the other has not.
           slice_equal(w->rows[end->row].name, w->rows[begin->row].display_name) ||
           slice_equal(w->rows[end->row].display_name, w->rows[begin->row].name);
}

// The innermost open event of the end's name, SIZE_MAX when there is none near. What lies above it stays open: then the
// two overlap in part, which a profile may say.
static size_t find_begin(const struct chrome_work *w, const struct chrome_event *end)
{
    for (size_t i = w->n_stack; i-- > 0 && w->n_stack - i <= LOOK_BELOW;) {
        if (same_name(w, end, &w->events[w->stack[i]]))
            return i;
    }
    return SIZE_MAX;
}

static void close_event(struct chrome_event *begin, int64_t end_ps)
{
    begin->kind = CHROME_WHOLE;
    begin->duration_ps = end_ps - begin->start_ps;
}

static int match_line(struct chrome_work *w, const struct chrome_line *l, int64_t last_ps, struct error *err)
{
    w->n_stack = 0;
    for (size_t i = 0; i < l->n_events; i++) {
        uint32_t index = w->order[l->begin + i];
        struct chrome_event *e = &w->events[index];
        if (e->kind == CHROME_BEGIN) {
            if (!chrome_grow((void **)&w->stack, &w->cap_stack, w->n_stack, sizeof *w->stack, err))
                return ERR_MEMORY;
            w->stack[w->n_stack++] = index;
        } else if (e->kind == CHROME_END) {
            size_t at = find_begin(w, e);
            if (at == SIZE_MAX) {
                chrome_damage(w, "traceEvents", "an event ends that has not begun", w->file.data + e->duration_ps);
            } else {
                struct chrome_event *begin = &w->events[w->stack[at]];
                close_event(begin, e->start_ps);
                begin->end = index;
                begin->joined |= e->joined;
                memmove(&w->stack[at], &w->stack[at + 1], (w->n_stack - at - 1) * sizeof *w->stack);
                w->n_stack--;
            }
            e->kind = CHROME_GONE;
        }
    }
    while (w->n_stack) {
        struct chrome_event *begin = &w->events[w->stack[--w->n_stack]];
        if (!w->cut) // else that is why
            chrome_damage(w, "traceEvents", "an event begins that does not end", w->file.data + begin->duration_ps);
        close_event(begin, last_ps);
    }
    return 0;
}

// When the last thing on the line happened.
static int64_t last_of(const struct chrome_work *w, const struct chrome_line *l)
{
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < l->n_events; i++) {
        const struct chrome_event *e = &w->events[w->order[l->begin + i]];
        int64_t end = e->start_ps + (e->kind == CHROME_WHOLE ? e->duration_ps : 0);
        last = end > last ? end : last;
    }
    return last;
}

static int match(struct chrome_work *w, struct error *err)
{
    int rc = order_by_line(w, err);
    for (size_t i = 0; i < w->n_lines && !rc; i++) {
        struct chrome_line *l = &w->lines[i];
        if (!l->spans)
            continue;
        sort(w, l, by_start);
        rc = match_line(w, l, l->into == i ? last_of(w, l) : w->last_ps, err);
    }
    for (size_t i = 0; i < w->n_events; i++)
        w->events[i].line = w->lines[w->events[i].line].into;
    for (size_t i = 0; i < w->n_flows; i++)
        w->flows[i].line = w->lines[w->flows[i].line].into;
    return rc ? rc : order_by_line(w, err);
}

// ---- Arrows

static int flow_order(const void *a, const void *b)
{
    const struct chrome_flow *x = a, *y = b;
    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    return (x->ps > y->ps) - (x->ps < y->ps);
}

static int arrow_order(const void *a, const void *b)
{
    const struct chrome_arrow *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static const struct chrome_event *event_at(const struct chrome_work *w, const struct chrome_line *l, size_t i)
{
    return &w->events[w->order[l->begin + i]];
}

static int add_arrow(struct chrome_work *w, const struct chrome_line *l, size_t at, uint64_t value, struct error *err)
{
    if (event_at(w, l, at)->joined)
        return 0;
    if (!chrome_grow((void **)&w->arrows, &w->cap_arrows, w->n_arrows, sizeof *w->arrows, err))
        return ERR_MEMORY;
    w->arrows[w->n_arrows++] = (struct chrome_arrow){at, value};
    return 0;
}

// The arrows of a line, which is sorted: each is the innermost event's in which it lies, or the next one's.
static int bind_flows(struct chrome_work *w, const struct chrome_line *l, const struct chrome_flow *flows, size_t n,
                      struct error *err)
{
    size_t next = 0, at = 0; // the first event after the arrow's time, and the first that is not before it
    int rc = 0;
    w->n_stack = w->n_arrows = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        while (at < l->n_events && event_at(w, l, at)->start_ps < flows[i].ps)
            at++;
        for (; next < l->n_events && event_at(w, l, next)->start_ps <= flows[i].ps; next++) {
            if (!chrome_grow((void **)&w->stack, &w->cap_stack, w->n_stack, sizeof *w->stack, err))
                return ERR_MEMORY;
            w->stack[w->n_stack++] = (uint32_t)next;
        }
        const struct chrome_event *top = NULL;
        while (w->n_stack &&
               (top = event_at(w, l, w->stack[w->n_stack - 1]), top->start_ps + top->duration_ps < flows[i].ps))
            w->n_stack--;
        if (!flows[i].next && w->n_stack)
            rc = add_arrow(w, l, w->stack[w->n_stack - 1], flows[i].value, err);
        else if (flows[i].next && at < l->n_events)
            rc = add_arrow(w, l, at, flows[i].value, err);
        else
            w->out->arrows_left_out++;
    }
    if (w->n_arrows)
        qsort(w->arrows, w->n_arrows, sizeof *w->arrows, arrow_order);
    return rc;
}

// ---- Writing

struct place {
    int64_t line_ns;  // when lines start
    int64_t shift_ps; // from times of the base to theirs
};

static void put_event(struct chrome_work *w, const struct chrome_event *e, const struct place *p, const uint8_t *flows,
                      size_t n_flows)
{
    uint8_t head[64], body[48], *at = pb_varint_at(body, 1 << 3 | PB_VARINT);
    struct str *out = &w->out->space;
    at = pb_varint_at(at, w->rows[e->row].id);
    int64_t offset = e->start_ps + p->shift_ps;
    if (offset) {
        at = pb_varint_at(at, 2 << 3 | PB_VARINT);
        at = pb_varint_at(at, (uint64_t)offset);
    }
    if (e->duration_ps) {
        at = pb_varint_at(at, 3 << 3 | PB_VARINT);
        at = pb_varint_at(at, (uint64_t)e->duration_ps);
    }
    const struct chrome_event *end = e->end == CHROME_NONE ? NULL : &w->events[e->end];
    size_t n_body = (size_t)(at - body), n_end = end ? end->n_stats : 0;
    at = pb_varint_at(head, 4 << 3 | PB_BYTES);
    at = pb_varint_at(at, n_body + e->n_stats + n_end + n_flows);
    memcpy(at, body, n_body);
    str_add_n(out, head, (size_t)(at - head) + n_body);
    str_add_n(out, str_text(&w->stats) + e->stats, e->n_stats);
    if (end)
        str_add_n(out, str_text(&w->stats) + end->stats, n_end);
    str_add_n(out, flows, n_flows);
    w->out->events++;
}

static int put_line(struct chrome_work *w, const struct chrome_line *l, const struct chrome_flow *flows, size_t n_flows,
                    const struct place *p, struct error *err)
{
    struct str *out = &w->out->space;
    struct str *text = &w->scratch[0]; // an event's arrows
    uint32_t flow_id = 0;
    sort(w, l, by_nesting);
    int rc = bind_flows(w, l, flows, n_flows, err);
    if (!rc && w->n_arrows)
        rc = chrome_stat_id(w, l->plane, "flow", &flow_id, err);
    if (rc)
        return rc;
    size_t line = pb_begin(out, XPLANE_LINE), next = 0;
    pb_put_int(out, 1, l->id);
    pb_put_bytes(out, 2, l->name.data, l->name.size);
    if (p->line_ns)
        pb_put_int(out, 3, p->line_ns);
    for (size_t i = 0; i < l->n_events && !rc; i++) {
        str_clear(text);
        for (; next < w->n_arrows && w->arrows[next].at == i; next++)
            xwrite_number(text, 4, flow_id, 3, w->arrows[next].value);
        put_event(w, event_at(w, l, i), p, (const uint8_t *)str_text(text), text->length);
        rc = i % 65536 == 65535 ? interrupt_check("writing a trace", err) : str_check(text, err);
    }
    pb_end(out, line);
    w->out->lines++;
    return rc ? rc : str_check(out, err);
}

static int line_order(const void *a, const void *b, void *of)
{
    const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const struct chrome_work *w = of;
    const struct chrome_line *x = &w->lines[i], *y = &w->lines[k];
    const struct chrome_plane *p = &w->planes[x->plane], *q = &w->planes[y->plane];
    if (x->plane != y->plane) {
        if (p->order != q->order)
            return p->order < q->order ? -1 : 1;
        return x->plane < y->plane ? -1 : 1;
    }
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return (i > k) - (i < k);
}

static void put_rows(struct chrome_work *w, const struct chrome_plane *p, int table)
{
    uint32_t field = table ? XPLANE_STAT_NAME : XPLANE_EVENT_NAME;
    for (uint32_t i = p->first_row[table]; i != CHROME_NONE; i = w->rows[i].next)
        xwrite_row(&w->out->space, field, w->rows[i].id, w->rows[i].name, w->rows[i].display_name, w->rows[i].stats);
}

// The first of the line's arrows among all.
static size_t first_flow(const struct chrome_work *w, uint32_t line)
{
    size_t low = 0, high = w->n_flows;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (w->flows[middle].line < line)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// A plane and its lines: `lines` begins with them. *n: how many they are.
static int put_plane(struct chrome_work *w, const uint32_t *lines, size_t left, const struct place *place, size_t *n,
                     struct error *err)
{
    uint32_t index = w->lines[lines[0]].plane;
    struct str *out = &w->out->space;
    int rc = 0;
    size_t plane = pb_begin(out, XSPACE_PLANE);
    pb_put_int(out, XPLANE_ID, w->planes[index].id);
    pb_put_bytes(out, XPLANE_NAME, w->planes[index].name.data, w->planes[index].name.size);
    for (*n = 0; *n < left && w->lines[lines[*n]].plane == index && !rc; ++*n) {
        const struct chrome_line *l = &w->lines[lines[*n]];
        size_t flow = first_flow(w, lines[*n]), end = flow;
        while (end < w->n_flows && w->flows[end].line == lines[*n])
            end++;
        if (!l->hidden)
            rc = put_line(w, l, end > flow ? w->flows + flow : NULL, end - flow, place, err);
    }
    put_rows(w, &w->planes[index], 0);
    put_rows(w, &w->planes[index], 1);
    str_add_n(out, str_text(&w->stats) + w->planes[index].stats, w->planes[index].n_stats);
    pb_end(out, plane);
    return rc ? rc : str_check(out, err);
}

// Where the file says when it was recorded, lines count from there, as in what XLA saves, and the profile says it too.
static struct place find_place(struct chrome_work *w)
{
    struct place p = {0};
    int64_t start_ns = w->captured_ns;
    if (w->base_ps) {
        int64_t below_ns = w->least_ps / 1000 - (w->least_ps % 1000 != 0); // the first event is at or after it
        __int128 ns = w->base_ps / 1000 + below_ns;
        p.shift_ps = -below_ns * 1000;
        bool fits = ns > INT64_MIN && ns < INT64_MAX;
        if (w->base_ps / 1000000 >= UNIX_US && fits)
            start_ns = (int64_t)ns;
        else
            p.line_ns = fits ? (int64_t)ns : 0;
    }
    if (start_ns > 0) {
        int64_t length_ns = (w->last_ps / 1000 + p.shift_ps / 1000) + 1;
        xwrite_environment(&w->out->space, (uint64_t)start_ns, (uint64_t)start_ns + (uint64_t)length_ns);
    }
    return p;
}

int chrome_write(struct chrome_work *w, struct error *err)
{
    int rc = match(w, err);
    uint32_t *lines = rc ? NULL : malloc(w->n_lines * sizeof *lines);
    size_t n_lines = 0;
    if (rc || !lines)
        return rc ? rc : error_set(err, ERR_MEMORY, w->name, "no memory for %zu threads", w->n_lines);
    for (uint32_t i = 0; i < w->n_lines; i++) {
        if (w->lines[i].into == i)
            lines[n_lines++] = i;
    }
    qsort_r(lines, n_lines, sizeof *lines, line_order, w);
    if (w->n_flows)
        qsort(w->flows, w->n_flows, sizeof *w->flows, flow_order);
    struct place place = find_place(w);
    for (size_t i = 0, n = 0; i < n_lines && !rc; i += n)
        rc = put_plane(w, lines + i, n_lines - i, &place, &n, err);
    free(lines);
    if (w->host.size)
        pb_put_bytes(&w->out->space, XSPACE_HOST, w->host.data, w->host.size);
    return rc ? rc : str_check(&w->out->space, err);
}
