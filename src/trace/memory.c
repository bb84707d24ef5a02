// SPDX-License-Identifier: Apache-2.0
#include "trace/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "trace/busy.h"

const char *trace_memory_type_name(int64_t type)
{
    static const char *const names[] = {NULL,  "f32", "f64",  "s32", "u8", "s16", "s8",   "string",
                                        "c64", "s64", "pred", NULL,  NULL, NULL,  "bf16", NULL,
                                        NULL,  "u16", "c128", "f16", NULL, NULL,  "u32",  "u64"};
    return type >= 0 && (size_t)type < sizeof names / sizeof *names ? names[type] : NULL;
}

const char *trace_memory_kind_name(enum trace_memory_kind kind)
{
    static const char *const names[] = {"allocated", "earlier", "unseen", "reserved"};
    return names[kind];
}

// ---- Reading

// An event with the allocator that it names.
struct record {
    struct trace_memory_event event;
    struct slice name;
    int64_t number;   // of an allocator that has only a number; else -1
    size_t file, seq; // seq: in the order read, which is that of time
};

struct reading {
    struct trace_memory *out;
    struct record *records;
    size_t n, cap;
    struct arena scratch;
};

// A writer of C strings leaves "(null)" where there was none.
static struct slice known_text(struct slice s)
{
    if (slice_is(s, "(null)"))
        s.size = 0;
    return s;
}

static void read_stats(struct record *r, const struct xplane *p, const struct xevent *e)
{
    struct trace_memory_event *m = &r->event;
    const struct {
        const char *name;
        int64_t *number;
    } numbers[] = {{"requested_bytes", &m->requested_bytes},
                   {"allocation_bytes", &m->bytes},
                   {"bytes_allocated", &m->heap_bytes},
                   {"bytes_reserved", &m->reserved_bytes},
                   {"bytes_available", &m->available_bytes},
                   {"peak_bytes_in_use", &m->peak_bytes},
                   {"data_type", &m->type},
                   {"index_on_host", &r->number}};
    const struct {
        const char *name;
        struct slice *text;
    } texts[] = {{"allocator_name", &r->name}, {"tf_op", &m->scope}, {"region_type", &m->region}, {"shape", &m->shape}};
    struct xstats walk = xevent_stats(p, e);
    struct xstat s;
    m->fragmentation = NAN;
    r->number = -1;
    while (xstat_next(&walk, &s)) {
        const struct xmeta *row = xtable_find(&p->stat_table, s.metadata_id);
        bool whole = s.kind == XSTAT_INT || s.kind == XSTAT_UINT;
        if (!row)
            continue;
        if (slice_is(row->name, "fragmentation")) // a whole number where it is 0
            m->fragmentation = s.kind == XSTAT_DOUBLE ? s.number : whole ? (double)s.integer : NAN;
        else if (whole && slice_is(row->name, "addr"))
            m->address = s.unsigned_number;
        for (size_t i = 0; whole && i < sizeof numbers / sizeof *numbers; i++) {
            if (slice_is(row->name, numbers[i].name))
                *numbers[i].number = s.integer;
        }
        for (size_t i = 0; s.kind == XSTAT_TEXT && i < sizeof texts / sizeof *texts; i++) {
            if (slice_is(row->name, texts[i].name))
                *texts[i].text = known_text(s.bytes);
        }
    }
}

static bool is_memory_event(const struct xplane *p, int64_t id, bool *is_free)
{
    const struct xmeta *row = xtable_find(&p->event_table, id);
    *is_free = row && slice_is(row->name, "MemoryDeallocation");
    return *is_free || (row && slice_is(row->name, "MemoryAllocation"));
}

static int keep(struct reading *r, const struct record *one, struct error *err)
{
    struct record *more = arena_grow(&r->scratch, r->records, &r->cap, r->n + 1, sizeof *more, err);
    if (!more)
        return ERR_MEMORY;
    r->records = more;
    struct record *to = &more[r->n];
    *to = *one;
    to->seq = r->n++;
    struct slice *texts[] = {&to->name, &to->event.scope, &to->event.region, &to->event.shape};
    int rc = 0;
    for (size_t i = 0; i < 4 && !rc; i++)
        rc = slice_copy(&r->out->arena, texts[i], err);
    return rc;
}

static bool has_memory_events(const struct xplane *p)
{
    bool is_free, any = false;
    for (size_t i = 0; i < p->event_table.n_rows && !any; i++)
        any = is_memory_event(p, p->event_table.rows[i].id, &is_free);
    return any;
}

static int read_plane(struct reading *r, struct trace *t, size_t file, struct xplane *p, struct error *err)
{
    struct xline **lines = arena_alloc(&r->scratch, p->n_lines, sizeof(void *), err);
    if (!lines)
        return ERR_MEMORY;
    for (size_t i = 0; i < p->n_lines; i++)
        lines[i] = &p->lines[i];
    struct trace_spans walk;
    struct trace_span s;
    struct xspace *space = &t->files[file].space;
    size_t n = r->n, unnamed = r->out->unnamed;
    int rc = trace_spans_begin(&walk, p, lines, p->n_lines, trace_origin_ns(t), CLOCK_OF_LINE, err);
    do {
        r->n = n;
        r->out->unnamed = unnamed;
        while (!rc && trace_spans_next(&walk, &s)) {
            struct record one = {.file = file};
            if (!is_memory_event(p, s.event.metadata_id, &one.event.is_free))
                continue;
            one.event.at_ps = s.start_ps;
            read_stats(&one, p, &s.event);
            if (one.name.size || one.number >= 0)
                rc = keep(r, &one, err);
            else
                r->out->unnamed++;
        }
    } while (trace_spans_again(&walk, &rc, err));
    trace_spans_end(&walk, space, &space->damage);
    return rc;
}

static int read_file(struct reading *r, struct trace *t, size_t file, struct error *err)
{
    struct trace_file *f = &t->files[file];
    struct file_guard g;
    if (FILE_GUARD(&g, &f->map))
        return file_guard_error(&g, err);
    int rc = 0;
    for (size_t i = 0; i < f->space.n_planes && !rc; i++) {
        if (has_memory_events(&f->space.planes[i]))
            rc = read_plane(r, t, file, &f->space.planes[i], err);
    }
    file_guard_end(&g);
    return rc;
}

// ---- Allocators

static int by_allocator(const void *a, const void *b)
{
    const struct record *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return slice_compare(x->name, y->name);
}

static int by_allocator_and_time(const void *a, const void *b)
{
    const struct record *x = a, *y = b;
    int c = by_allocator(a, b);
    if (c)
        return c;
    if (x->event.at_ps != y->event.at_ps)
        return x->event.at_ps < y->event.at_ps ? -1 : 1;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

static void find_peak(struct trace_allocator *a)
{
    a->peak_bytes = INT64_MIN;
    a->most_fragmented = NAN;
    for (size_t i = 0; i < a->n_events; i++) {
        const struct trace_memory_event *e = &a->events[i];
        int64_t in_use = add_saturated(e->heap_bytes, e->reserved_bytes);
        if (in_use > a->peak_bytes) {
            a->peak_bytes = in_use;
            a->peak = i;
            a->capacity_bytes = add_saturated(in_use, e->available_bytes);
        }
        if (e->peak_bytes > a->lifetime_bytes)
            a->lifetime_bytes = e->peak_bytes;
        if (!(e->fragmentation <= a->most_fragmented) && !isnan(e->fragmentation))
            a->most_fragmented = e->fragmentation;
        a->allocated += !e->is_free;
        a->freed += e->is_free;
    }
}

// ---- What was alive at the peak

struct touch {
    uint64_t address;
    size_t at; // of the event
};

static int by_address(const void *a, const void *b)
{
    const struct touch *x = a, *y = b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static int by_likeness(const void *a, const void *b)
{
    const struct trace_memory_block *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    int c = slice_compare(x->scope, y->scope);
    c = c ? c : slice_compare(x->shape, y->shape);
    c = c ? c : slice_compare(x->region, y->region);
    return c ? c : (x->type > y->type) - (x->type < y->type);
}

static int64_t bytes_of_all(const struct trace_memory_block *b)
{
    int64_t r;
    return __builtin_mul_overflow(b->bytes, (int64_t)(b->blocks ? b->blocks : 1), &r) ? INT64_MAX : r;
}

static int by_bytes(const void *a, const void *b)
{
    int64_t x = bytes_of_all(a), y = bytes_of_all(b);
    return x != y ? (x < y) - (x > y) : by_likeness(a, b);
}

static void add_block(struct trace_allocator *a, const struct trace_memory_event *e, enum trace_memory_kind kind)
{
    a->live[a->n_live++] = (struct trace_memory_block){.kind = kind,
                                                       .scope = e->scope,
                                                       .region = e->region,
                                                       .shape = e->shape,
                                                       .type = e->type,
                                                       .bytes = e->bytes,
                                                       .blocks = 1};
}

static void merge_blocks(struct trace_allocator *a)
{
    size_t n = 0;
    if (a->n_live)
        qsort(a->live, a->n_live, sizeof *a->live, by_likeness);
    for (size_t i = 0; i < a->n_live; i++) {
        if (n && by_likeness(&a->live[n - 1], &a->live[i]) == 0)
            a->live[n - 1].blocks++;
        else
            a->live[n++] = a->live[i];
    }
    a->n_live = n;
}

// All events of one address, in order. The last one up to the peak says whether a block is there; where there is none,
// the next one may end a block that was there before the profile began.
static void look_at_address(struct trace_allocator *a, const struct touch *touches, size_t n)
{
    size_t before = 0;
    while (before < n && touches[before].at <= a->peak)
        before++;
    if (before) {
        const struct trace_memory_event *last = &a->events[touches[before - 1].at];
        if (!last->is_free)
            add_block(a, last, TRACE_MEMORY_BLOCK);
    } else if (a->events[touches[0].at].is_free && a->events[touches[0].at].bytes > 0) {
        add_block(a, &a->events[touches[0].at], TRACE_MEMORY_EARLIER);
    }
}

static int find_live(struct trace_allocator *a, struct arena *arena, struct arena *scratch, struct error *err)
{
    struct touch *touches = arena_new(scratch, struct touch, a->n_events, err);
    a->live = arena_new(arena, struct trace_memory_block, a->n_events + 2, err); // and what is unseen and reserved
    if (!touches || !a->live)
        return ERR_MEMORY;
    for (size_t i = 0; i < a->n_events; i++)
        touches[i] = (struct touch){a->events[i].address, i};
    qsort(touches, a->n_events, sizeof *touches, by_address);
    for (size_t i = 0, k; i < a->n_events; i = k) {
        for (k = i + 1; k < a->n_events && touches[k].address == touches[i].address; k++)
            ;
        look_at_address(a, &touches[i], k - i);
    }
    const struct trace_memory_event *peak = &a->events[a->peak];
    int64_t seen = 0;
    for (size_t i = 0; i < a->n_live; i++)
        seen = add_saturated(seen, a->live[i].bytes);
    merge_blocks(a);
    if (peak->reserved_bytes > 0)
        a->live[a->n_live++] =
            (struct trace_memory_block){.kind = TRACE_MEMORY_RESERVED, .bytes = peak->reserved_bytes};
    if (peak->heap_bytes > seen)
        a->live[a->n_live++] =
            (struct trace_memory_block){.kind = TRACE_MEMORY_UNSEEN, .bytes = peak->heap_bytes - seen};
    if (a->n_live)
        qsort(a->live, a->n_live, sizeof *a->live, by_bytes);
    return 0;
}

static int make_allocator(struct reading *r, struct trace *t, const struct record *records, size_t n, struct error *err)
{
    struct trace_memory *m = r->out;
    struct trace_allocator *a = &m->allocators[m->n_allocators++];
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, records->number);
    *a = (struct trace_allocator){.n_events = n};
    a->name = arena_strdup(&m->arena, records->name.size ? (const char *)records->name.data : number, err);
    a->host = arena_strdup(&m->arena, t->files[records->file].host, err);
    a->events = arena_new(&m->arena, struct trace_memory_event, n, err);
    if (!a->name || !a->host || !a->events)
        return ERR_MEMORY;
    for (size_t i = 0; i < n; i++)
        a->events[i] = records[i].event;
    find_peak(a);
    return find_live(a, &m->arena, &r->scratch, err);
}

static int make_allocators(struct reading *r, struct trace *t, struct error *err)
{
    size_t groups = 0;
    if (r->n)
        qsort(r->records, r->n, sizeof *r->records, by_allocator_and_time);
    for (size_t i = 0; i < r->n; i++)
        groups += i == 0 || by_allocator(&r->records[i - 1], &r->records[i]) != 0;
    r->out->allocators = arena_new(&r->out->arena, struct trace_allocator, groups, err);
    int rc = r->out->allocators ? 0 : ERR_MEMORY;
    for (size_t i = 0, k; i < r->n && !rc; i = k) {
        for (k = i + 1; k < r->n && by_allocator(&r->records[i], &r->records[k]) == 0; k++)
            ;
        rc = make_allocator(r, t, &r->records[i], k - i, err);
    }
    return rc;
}

int trace_memory(struct trace *t, struct trace_memory *out, struct error *err)
{
    struct reading r = {.out = out};
    memset(out, 0, sizeof *out);
    arena_init(&out->arena);
    arena_init(&r.scratch);
    int rc = 0;
    for (size_t i = 0; i < t->n_files && !rc; i++)
        rc = read_file(&r, t, i, err);
    if (!rc)
        rc = make_allocators(&r, t, err);
    arena_release(&r.scratch);
    return rc;
}

void trace_memory_release(struct trace_memory *m)
{
    arena_release(&m->arena);
    memset(m, 0, sizeof *m);
}
