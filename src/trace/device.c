// SPDX-License-Identifier: Apache-2.0
#include "trace/device.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

const char *trace_device_kind_name(enum trace_device_kind kind)
{
    static const char *const names[] = {"tpu", "sparse-core", "gpu", "cpu"};
    return names[kind];
}

// The number right after `prefix`, at most nine digits, and where it ends; -1 when there is none.
static int number_after(struct slice s, const char *prefix, size_t *end)
{
    size_t at = strlen(prefix);
    int v = 0, digits = 0;
    for (; at < s.size && isdigit(s.data[at]) && digits < 9; at++, digits++)
        v = v * 10 + (s.data[at] - '0');
    *end = at;
    return digits ? v : -1;
}

// What a plane's name makes of it. A process id that a merge of profiles added ("/device:TPU:0 [123]") does not count.
static bool device_kind(struct slice name, enum trace_device_kind *kind, int *ordinal)
{
    size_t end;
    if (slice_starts_with(name, "/device:GPU:")) {
        *kind = TRACE_GPU;
        *ordinal = number_after(name, "/device:GPU:", &end);
        return true;
    }
    if (!slice_starts_with(name, "/device:TPU:"))
        return false;
    *ordinal = number_after(name, "/device:TPU:", &end);
    struct slice rest = {name.data + end, name.size - end};
    *kind = slice_starts_with(rest, " SparseCore") ? TRACE_SPARSE_CORE : TRACE_TPU;
    return *ordinal >= 0;
}

struct facts {
    struct slice vendor;
    int64_t cores, memory_bytes;
};

// Memory is given less what firmware keeps, or in units of 2^30: a tenth either way.
static const struct chip *chip_by_facts(const struct facts *f)
{
    const struct chip *found = NULL;
    for (size_t i = 0; i < chip_count(); i++) {
        const struct chip *c = chip_at(i);
        double memory = c->memory.value;
        bool same = c->vendor && f->vendor.size && f->vendor.size == strlen(c->vendor) &&
                    strncasecmp((const char *)f->vendor.data, c->vendor, f->vendor.size) == 0;
        if (!same || f->cores != c->cores_per_chip || !(fabs((double)f->memory_bytes - memory) < memory / 10))
            continue;
        if (found)
            return NULL;
        found = c;
    }
    return found;
}

static void read_fact(struct facts *f, struct slice name, const struct xstat *s)
{
    bool number = s->kind == XSTAT_UINT || s->kind == XSTAT_INT;
    if (s->kind == XSTAT_TEXT && slice_is(name, "device_vendor"))
        f->vendor = s->bytes;
    else if (number && slice_is(name, "core_count"))
        f->cores = s->integer;
    else if (number && slice_is(name, "memory_size"))
        f->memory_bytes = s->integer;
}

static void read_facts(struct trace *t, struct trace_device *d, struct error *err)
{
    const struct xplane *p = d->plane;
    struct facts facts = {0};
    d->peak_flop_per_s = d->memory_bytes_per_s = NAN;
    for (size_t i = 0; i < p->n_stats; i++) {
        struct xstat s;
        xstat_read(&s, p, p->stats[i]);
        const struct xmeta *row = xtable_find(&p->stat_table, s.metadata_id);
        if (!row)
            continue;
        bool text = s.kind == XSTAT_TEXT;
        if (text && (slice_is(row->name, "device_type_string") || slice_is(row->name, "gpu_device_name")))
            d->model = arena_strndup(&t->arena, (const char *)s.bytes.data, s.bytes.size, err);
        else if (s.kind == XSTAT_DOUBLE && slice_is(row->name, "peak_teraflops_per_second"))
            d->peak_flop_per_s = s.number * 1e12;
        else if (s.kind == XSTAT_DOUBLE && slice_is(row->name, "peak_hbm_bw_gigabytes_per_second"))
            d->memory_bytes_per_s = s.number * 1e9;
        else if (slice_is(row->name, "memory_bandwidth") && (s.kind == XSTAT_UINT || s.kind == XSTAT_INT))
            d->memory_bytes_per_s = (double)s.integer;
        read_fact(&facts, row->name, &s);
    }
    d->chip = d->model ? chip_by_device_kind(d->model) : NULL;
    if (!d->chip)
        d->chip = chip_by_facts(&facts);
}

static int64_t stat_id(const struct xplane *p, const char *name)
{
    for (size_t i = 0; i < p->stat_table.n_rows; i++) {
        if (slice_is(p->stat_table.rows[i].name, name))
            return p->stat_table.rows[i].id;
    }
    return 0; // never a name's id: writers count from 1
}

// A thread of the CPU back end marks each operation it runs with the operation's name.
static bool has_operations(const struct xplane *p, struct xline *l, int64_t hlo_op)
{
    struct xevents walk = xline_events(l);
    struct xevent v;
    while (hlo_op && xevent_next(&walk, &v)) {
        struct xstats stats = xevent_stats(p, &v);
        struct xstat s;
        while (xstat_next(&stats, &s)) {
            if (s.metadata_id == hlo_op)
                return true;
        }
    }
    return false;
}

static bool line_counts(const struct trace_device *d, struct xline *l, int64_t hlo_op)
{
    switch (d->kind) {
    case TRACE_TPU:
        return slice_is(l->name, "XLA Ops");
    case TRACE_SPARSE_CORE:
        return slice_is(l->name, "Sparse Core Ops");
    case TRACE_GPU:
        return slice_starts_with(l->name, "Stream #");
    case TRACE_HOST:
        return has_operations(d->plane, l, hlo_op);
    }
    return false;
}

static int add_device(struct trace *t, struct trace_devices *out, struct trace_device d, struct error *err)
{
    int64_t hlo_op = stat_id(d.plane, "hlo_op");
    for (size_t i = 0; i < d.plane->n_lines; i++) {
        struct xline *l = &d.plane->lines[i];
        if (!l->events.size || !line_counts(&d, l, hlo_op))
            continue;
        struct xline **more = arena_grow(&t->arena, d.lines, &d.cap_lines, d.n_lines + 1, sizeof(struct xline *), err);
        if (!more)
            return ERR_MEMORY;
        d.lines = more;
        d.lines[d.n_lines++] = l;
    }
    if (d.kind == TRACE_HOST && !d.n_lines)
        return 0;
    read_facts(t, &d, err);
    d.name = d.plane->name;
    if (slice_copy(&t->arena, &d.name, err))
        return ERR_MEMORY;
    struct trace_device *items = arena_grow(&t->arena, out->items, &out->cap, out->n + 1, sizeof d, err);
    if (!items)
        return ERR_MEMORY;
    out->items = items;
    out->items[out->n++] = d;
    return 0;
}

static int find_in_file(struct trace *t, struct trace_file *f, struct trace_devices *out, struct error *err)
{
    size_t before = out->n;
    for (size_t i = 0; i < f->space.n_planes; i++) {
        struct trace_device d = {.file = f, .plane = &f->space.planes[i]};
        if (!device_kind(d.plane->name, &d.kind, &d.ordinal))
            continue;
        int rc = add_device(t, out, d, err);
        if (rc)
            return rc;
    }
    for (size_t i = 0; i < f->space.n_planes && out->n == before; i++) {
        struct trace_device d = {.kind = TRACE_HOST, .file = f, .plane = &f->space.planes[i], .ordinal = -1};
        if (!slice_starts_with(d.plane->name, "/host:CPU"))
            continue;
        int rc = add_device(t, out, d, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int find_guarded(struct trace *t, struct trace_file *f, struct trace_devices *out, struct error *err)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &f->map))
        return file_guard_error(&g, err);
    int rc = find_in_file(t, f, out, err);
    file_guard_end(&g);
    return rc;
}

int trace_find_devices(struct trace *t, struct trace_devices *out, struct error *err)
{
    *out = (struct trace_devices){0};
    int rc = 0;
    for (size_t i = 0; i < t->n_files && !rc; i++)
        rc = find_guarded(t, &t->files[i], out, err);
    return rc;
}
