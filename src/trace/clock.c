// SPDX-License-Identifier: Apache-2.0
#include "trace/clock.h"

#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "trace/device.h"

#define RANGE_PS  ((int64_t)1 << 62)
#define UNIX_NS   1000000000000000 // 11 days: a timestamp beyond is a time of day
#define MOST_ENDS 4096             // of collectives, for each file; a correction does not get better with more

const char *trace_epoch_source_name(enum trace_epoch_source source)
{
    static const char *const names[] = {"own", "start times", "collectives"};
    return names[source];
}

bool trace_epoch_base(const struct trace_epoch *c, const struct xline *l, int64_t *base_ps)
{
    return !__builtin_sub_overflow(l->timestamp_ns, c->origin_ns, base_ps) &&
           !__builtin_mul_overflow(*base_ps, (int64_t)1000, base_ps) &&
           !__builtin_add_overflow(*base_ps, c->shift_ps, base_ps) && *base_ps<RANGE_PS && * base_ps> - RANGE_PS;
}

// ---- Start times

static void read_start(const struct xspace *space, struct trace_epoch *c)
{
    const struct xplane *p = xspace_plane(space, "Task Environment");
    for (size_t i = 0; p && i < p->n_stats; i++) {
        struct xstat s;
        xstat_read(&s, p, p->stats[i]);
        const struct xmeta *row = xtable_find(&p->stat_table, s.metadata_id);
        if (row && slice_is(row->name, "profile_start_time") && (s.kind == XSTAT_UINT || s.kind == XSTAT_INT) &&
            s.integer > UNIX_NS)
            c->start_ns = s.integer;
    }
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < space->n_planes; i++) {
        for (size_t k = 0; k < space->planes[i].n_lines; k++) {
            const struct xline *l = &space->planes[i].lines[k];
            if (l->events.size && l->timestamp_ns < least)
                least = l->timestamp_ns;
        }
    }
    if (least > UNIX_NS && least < INT64_MAX)
        c->origin_ns = c->start_ns = least;
}

static void shift_by_starts(struct trace_epoch *c, size_t n)
{
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < n; i++) {
        if (!c[i].start_ns)
            return;
        first = c[i].start_ns < first ? c[i].start_ns : first;
    }
    for (size_t i = 0; i < n; i++) {
        if ((c[i].start_ns - first) > RANGE_PS / 2000)
            return; // years apart: not one run
    }
    for (size_t i = 0; i < n; i++) {
        c[i].shift_ps = (c[i].start_ns - first) * 1000;
        c[i].source = TRACE_EPOCH_STARTS;
    }
}

// ---- Collectives

struct end {
    uint64_t name; // a hash
    int64_t ps;
};
struct ends {
    struct end *items;
    size_t n;
};

// FNV-1a
static uint64_t hash(struct slice s)
{
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < s.size; i++)
        h = (h ^ s.data[i]) * 0x100000001b3;
    return h;
}

static bool is_collective(struct slice name)
{
    static const char *const begins[] = {"all-reduce",     "all-gather",         "reduce-scatter", "all-to-all",
                                         "ragged-all-to-", "collective-permute", "ncclDevKernel",  "ncclKernel"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        size_t n = strlen(begins[i]);
        // What starts one ends when it is issued.
        if (name.size >= n && memcmp(name.data, begins[i], n) == 0)
            return !memmem(name.data, name.size, "-start", 6);
    }
    return false;
}

static int by_name(const void *a, const void *b)
{
    const struct end *x = a, *y = b;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return (x->ps > y->ps) - (x->ps < y->ps);
}

static void gather_line(const struct trace_device *d, struct xline *l, const struct trace_epoch *c, struct ends *out)
{
    struct xevents walk = xline_events(l);
    struct xevent e;
    int64_t base, at;
    if (!trace_epoch_base(c, l, &base))
        return;
    while (out->n < MOST_ENDS && xevent_next(&walk, &e)) {
        const struct xmeta *row = xtable_find(&d->plane->event_table, e.metadata_id);
        if (!row || e.occurrences)
            continue;
        struct slice name = row->display_name.size ? row->display_name : row->name;
        if (is_collective(name) && !__builtin_add_overflow(base, e.offset_ps, &at) &&
            !__builtin_add_overflow(at, e.duration_ps, &at) && at < RANGE_PS && at > -RANGE_PS)
            out->items[out->n++] = (struct end){hash(name), at};
    }
}

// Of the first device of the file that took part in any: those of several devices end together, too.
static int gather(struct trace *t, const struct trace_devices *devices, struct trace_file *f,
                  const struct trace_epoch *c, struct ends *out, struct error *err)
{
    out->n = 0;
    out->items = arena_new(&t->arena, struct end, MOST_ENDS, err);
    if (!out->items)
        return ERR_MEMORY;
    struct file_guard g;
    if (FILE_GUARD(&g, &f->map))
        return file_guard_error(&g, err);
    for (size_t i = 0; i < devices->n && !out->n; i++) {
        const struct trace_device *d = &devices->items[i];
        for (size_t k = 0; d->file == f && k < d->n_lines; k++)
            gather_line(d, d->lines[k], c, out);
    }
    if (out->n)
        qsort(out->items, out->n, sizeof *out->items, by_name);
    file_guard_end(&g);
    return 0;
}

// The end in [items, items + n) that is nearest to ps; *period: the distance of its neighbours.
static int64_t nearest(const struct end *items, size_t n, int64_t ps)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (items[middle].ps < ps)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == n || (low && ps - items[low - 1].ps < items[low].ps - ps))
        low--;
    return items[low].ps;
}

static size_t run_of(const struct ends *e, size_t from)
{
    size_t to = from + 1;
    while (to < e->n && e->items[to].name == e->items[from].name)
        to++;
    return to - from;
}

// How much later the file's clock must be set for its collectives to end when the first file's do. Which of them belong
// together is sure only while the differences are small against the time from one to the next.
static void correct(struct trace_epoch *c, const struct ends *first, const struct ends *own)
{
    double differences[MOST_ENDS], gaps[MOST_ENDS], scratch[MOST_ENDS];
    size_t n = 0, n_gaps = 0;
    for (size_t i = 0, k = 0; i < own->n && k < first->n;) {
        size_t runs = run_of(own, i), others = run_of(first, k);
        uint64_t x = own->items[i].name, y = first->items[k].name;
        for (size_t j = 0; x == y && j < runs; j++) {
            int64_t at = own->items[i + j].ps;
            differences[n++] = (double)(nearest(&first->items[k], others, at) - at);
            if (j)
                gaps[n_gaps++] = (double)(at - own->items[i + j - 1].ps);
        }
        i += x <= y ? runs : 0;
        k += x >= y ? others : 0;
    }
    if (n < 3 || !n_gaps)
        return;
    double median = stats_median(differences, n, scratch), spread = stats_mad(differences, n, scratch) / 1.4826;
    double gap = stats_median(gaps, n_gaps, scratch);
    double size = median < 0 ? -median : median;
    if (size > gap / 4 || spread > gap / 8)
        return;
    c->matched = n;
    c->correction_ps = (int64_t)median;
    c->spread_ps = (int64_t)spread;
    c->shift_ps += c->correction_ps;
    c->source = TRACE_EPOCH_COLLECTIVES;
}

static int correct_all(struct trace *t, struct trace_epoch *c, struct error *err)
{
    struct trace_devices devices;
    struct ends first, own;
    int rc = trace_find_devices(t, &devices, err);
    if (!rc)
        rc = gather(t, &devices, &t->files[0], &c[0], &first, err);
    for (size_t i = 1; i < t->n_files && !rc && first.n; i++) {
        rc = gather(t, &devices, &t->files[i], &c[i], &own, err);
        if (!rc)
            correct(&c[i], &first, &own);
    }
    return rc;
}

int trace_epochs(struct trace *t, struct trace_epoch **out, struct error *err)
{
    struct trace_epoch *c = *out = arena_new(&t->arena, struct trace_epoch, t->n_files, err);
    if (!c)
        return ERR_MEMORY;
    for (size_t i = 0; i < t->n_files; i++)
        read_start(&t->files[i].space, &c[i]);
    if (t->n_files < 2)
        return 0;
    shift_by_starts(c, t->n_files);
    return c[0].source == TRACE_EPOCH_OWN ? 0 : correct_all(t, c, err);
}
