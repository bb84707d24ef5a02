// SPDX-License-Identifier: Apache-2.0
#include "trace/convert.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/idmap.h"
#include "base/interrupt.h"
#include "trace/convert_form.h"
#include "trace/convert_sweep.h"
#include "trace/device.h"
#include "trace/merge.h"

#define RANGE_PS   ((int64_t)1 << 62)
#define MOST_LANES 256 // of one line; what overlaps more than that has a track for each event

// A row of a viewer, in which slices nest.
struct lane {
    struct form_track track;
    int64_t *ends; // malloc'd: of the slices that are open, outermost first
    size_t depth, cap;
};

// Tracks of a line whose events are samples.
struct counters {
    struct idmap by_key;
    struct form_track *tracks;
    size_t n, cap;
};

struct line_facts {
    bool sorted;
    int64_t first_ps; // 0 when none is earlier
};

// Ids of one plane's statistics, 0 where it has none of the name.
struct flow_ids {
    int64_t flow, producer, producer_type, consumer, consumer_type, correlation;
    bool any;
};

struct conversion {
    struct trace *t;
    struct trace_devices devices;
    struct trace_epoch *clocks;
    const struct trace_epoch *clock; // of this file
    bool *facts, *next_fact;         // for each line of all files: its events are in order
    struct form form;
    struct trace_converted *done;
    int64_t zero_ps;
    struct form_plane plane;
    struct flow_ids flows;
    size_t n_tracks;    // of the plane
    struct arena arena; // as long as the plane
    struct lane lanes[MOST_LANES];
    size_t n_lanes;
    struct counters counters; // of the plane
    struct sweep sweeps[SWEEPS];
    size_t n_sweeps;
    struct xevent *kept; // a line that is not in order
    size_t n_kept, cap_kept;
};

// ---- Events of a line in the order of their starts, the longer first

static bool place(const struct conversion *c, int64_t base_ps, const struct xevent *e, int64_t *start_ps)
{
    return !__builtin_add_overflow(base_ps, e->offset_ps, start_ps) && *start_ps<RANGE_PS && * start_ps> - RANGE_PS &&
           e->duration_ps >= 0 && e->duration_ps < RANGE_PS - *start_ps &&
           !__builtin_sub_overflow(*start_ps, c->zero_ps, start_ps);
}

static struct line_facts scan(const struct conversion *c, struct xline *l, struct xdamage *damage)
{
    struct line_facts f = {.sorted = true, .first_ps = 0};
    struct xevents walk = xline_events(l);
    struct xevent e;
    int64_t base = 0, start, last_start = INT64_MIN, last_duration = 0;
    bool placed = trace_epoch_base(c->clock, l, &base);
    while (xevent_next(&walk, &e)) {
        if (!placed || e.occurrences || !place(c, base, &e, &start))
            continue;
        f.first_ps = start < f.first_ps ? start : f.first_ps;
        f.sorted &= start > last_start || (start == last_start && e.duration_ps <= last_duration);
        last_start = start;
        last_duration = e.duration_ps;
    }
    xevents_damage(&c->plane.file->space, &walk, damage);
    return f;
}

static int by_start(const void *a, const void *b)
{
    const struct xevent *x = a, *y = b;
    if (x->offset_ps != y->offset_ps)
        return x->offset_ps < y->offset_ps ? -1 : 1;
    if (x->duration_ps != y->duration_ps)
        return x->duration_ps > y->duration_ps ? -1 : 1;
    return (x->stats.data > y->stats.data) - (x->stats.data < y->stats.data); // as they were
}

static int keep(struct conversion *c, struct xline *l, struct error *err)
{
    struct xevents walk = xline_events(l);
    struct xevent e;
    c->n_kept = 0;
    while (xevent_next(&walk, &e)) {
        if (c->n_kept == c->cap_kept) {
            size_t cap = c->cap_kept ? 2 * c->cap_kept : 1024;
            struct xevent *more = realloc(c->kept, cap * sizeof *more);
            if (!more)
                return error_set(err, ERR_MEMORY, NULL, "no memory to sort a line of more than %zu events", c->n_kept);
            c->kept = more;
            c->cap_kept = cap;
        }
        c->kept[c->n_kept++] = e;
    }
    if (c->n_kept)
        qsort(c->kept, c->n_kept, sizeof *c->kept, by_start);
    return 0;
}

// ---- Flows

static void find_flow_ids(struct conversion *c)
{
    const struct xtable *t = &c->plane.plane->stat_table;
    struct flow_ids *ids = &c->flows;
    const struct {
        const char *name;
        int64_t *id;
    } names[] = {{"flow", &ids->flow},   {"_p", &ids->producer},       {"_pt", &ids->producer_type},
                 {"_c", &ids->consumer}, {"_ct", &ids->consumer_type}, {"correlation_id", &ids->correlation}};
    *ids = (struct flow_ids){0};
    for (size_t i = 0; i < t->n_rows; i++) {
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (slice_is(t->rows[i].name, names[k].name)) {
                *names[k].id = t->rows[i].id;
                ids->any |= t->rows[i].id != 0;
            }
        }
    }
}

// The id of a flow is a hash of what makes it one: both ends find the same, and two files never do.
static void flow(const struct conversion *c, struct form_event *e, unsigned kind, uint64_t type, uint64_t id)
{
    size_t file = (size_t)(c->plane.file - c->t->files);
    e->flow_id = mix64(mix64(mix64(id) + type) + kind + 16 * (uint64_t)file);
}

static void find_flow(const struct conversion *c, struct form_event *e)
{
    const struct flow_ids *ids = &c->flows;
    struct pb_reader stats = pb_reader(e->raw->stats.data, e->raw->stats.size);
    struct pb_field s;
    uint64_t producer_type = 0, consumer_type = 0, producer = 0, consumer = 0;
    while (pb_next(&stats, &s)) {
        struct pb_field id, v;
        if (!pb_is(&s, 4, PB_BYTES))
            continue;
        struct pb_reader r = pb_reader(s.body.data, s.body.size);
        if (!pb_next(&r, &id) || !pb_is(&id, 1, PB_VARINT) || !pb_next(&r, &v) || v.wire != PB_VARINT || !id.value)
            continue;
        int64_t which = (int64_t)id.value;
        if (which == ids->flow && v.value & 3) {
            e->flow = (v.value & 3) == 1 ? FLOW_IN : FLOW_OUT;
            flow(c, e, 1, 0, v.value >> 2);
            return;
        }
        if (which == ids->correlation && v.value) {
            bool device = c->plane.plane->name.size > 8 && memcmp(c->plane.plane->name.data, "/device:", 8) == 0;
            e->flow = device ? FLOW_IN : FLOW_OUT;
            flow(c, e, 3, 0, v.value);
            return;
        }
        producer = which == ids->producer ? v.value : producer;
        producer_type = which == ids->producer_type ? v.value : producer_type;
        consumer = which == ids->consumer ? v.value : consumer;
        consumer_type = which == ids->consumer_type ? v.value : consumer_type;
    }
    if (producer || consumer) {
        e->flow = consumer ? FLOW_IN : FLOW_OUT;
        flow(c, e, 2, consumer ? consumer_type : producer_type, consumer ? consumer : producer);
    }
}

// ---- Tracks

static int new_track(struct conversion *c, struct form_track *track, struct slice name, const struct xline *line,
                     struct error *err)
{
    *track = (struct form_track){.id = ++c->done->tracks,
                                 .plane = &c->plane,
                                 .order = c->n_tracks++,
                                 .name = name,
                                 .counter = track->counter,
                                 .line = line};
    return c->form.track(&c->form, track, err);
}

static struct slice line_name(const struct xline *l)
{
    return l->display_name.size ? l->display_name : l->name;
}

static int numbered(struct conversion *c, const struct xline *l, size_t n, struct slice *out, struct error *err)
{
    struct slice name = line_name(l);
    int length = name.size < 4096 ? (int)name.size : 4096;
    char *text = arena_printf(&c->arena, err, "%.*s (%zu)", length, (const char *)name.data, n);
    *out = (struct slice){(const uint8_t *)text, text ? strlen(text) : 0};
    return text ? 0 : ERR_MEMORY;
}

static void close_until(struct conversion *c, struct lane *lane, int64_t ps)
{
    while (lane->depth && lane->ends[lane->depth - 1] <= ps) {
        lane->depth--;
        if (c->form.end)
            c->form.end(&c->form, &lane->track, lane->ends[lane->depth]);
    }
}

static void close_lane(struct conversion *c, struct lane *lane)
{
    close_until(c, lane, INT64_MAX);
    free(lane->ends);
    *lane = (struct lane){0};
}

static int push(struct lane *lane, int64_t end_ps, struct error *err)
{
    if (lane->depth == lane->cap) {
        size_t cap = lane->cap ? 2 * lane->cap : 16;
        int64_t *more = realloc(lane->ends, cap * sizeof *more);
        if (!more)
            return error_set(err, ERR_MEMORY, NULL, "no memory for %zu nested events", lane->depth);
        lane->ends = more;
        lane->cap = cap;
    }
    lane->ends[lane->depth++] = end_ps;
    return 0;
}

// The first lane in which the event nests: events that overlap in part cannot be on one track.
static int find_lane(struct conversion *c, const struct xline *l, int64_t start_ps, int64_t end_ps, struct lane **out,
                     struct error *err)
{
    for (size_t i = 0; i < c->n_lanes; i++) {
        struct lane *lane = &c->lanes[i];
        close_until(c, lane, start_ps);
        if (!lane->depth || lane->ends[lane->depth - 1] >= end_ps) {
            *out = lane;
            return 0;
        }
    }
    if (c->n_lanes == MOST_LANES)
        close_lane(c, &c->lanes[--c->n_lanes]);
    struct lane *lane = *out = &c->lanes[c->n_lanes];
    struct slice name = line_name(l);
    *lane = (struct lane){0};
    int rc = c->n_lanes ? numbered(c, l, c->n_lanes + 1, &name, err) : 0;
    if (!rc)
        rc = new_track(c, &lane->track, name, l, err);
    c->n_lanes++;
    return rc;
}

// ---- Counters: a line whose events are samples

static bool is_value(const struct xmeta *name, const struct xstat *s, double *value)
{
    if (!name || (name->name.size && name->name.data[0] == '_') || slice_is(name->name, "performance_counter_id"))
        return false;
    *value = s->kind == XSTAT_DOUBLE ? s->number
             : s->kind == XSTAT_UINT ? (double)s->unsigned_number
                                     : (double)s->integer;
    return s->kind == XSTAT_DOUBLE || s->kind == XSTAT_UINT || s->kind == XSTAT_INT;
}

static int counter_track(struct conversion *c, struct counters *k, const struct xmeta *row, const struct xmeta *stat,
                         struct form_track **out, struct error *err)
{
    const struct xplane *p = c->plane.plane;
    int64_t key = (int64_t)((uint64_t)(row - p->event_table.rows) << 32 | (uint64_t)(stat - p->stat_table.rows));
    uint32_t index = (uint32_t)k->n;
    bool again;
    int rc = idmap_put(&k->by_key, key, index, &again, err);
    if (rc)
        return rc;
    if (again) {
        (void)idmap_get(&k->by_key, key, &index);
        *out = &k->tracks[index];
        return 0;
    }
    struct form_track *more = arena_grow(&c->arena, k->tracks, &k->cap, k->n + 1, sizeof *more, err);
    char *text = arena_printf(&c->arena, err, "%.*s: %.*s", row->name.size < 1000 ? (int)row->name.size : 1000,
                              (const char *)row->name.data, stat->name.size < 1000 ? (int)stat->name.size : 1000,
                              (const char *)stat->name.data);
    if (!more || !text)
        return ERR_MEMORY;
    k->tracks = more;
    struct form_track *track = *out = &k->tracks[k->n++];
    track->counter = true;
    return new_track(c, track, (struct slice){(const uint8_t *)text, strlen(text)}, NULL, err);
}

static int count_event(struct conversion *c, const struct xevent *e, int64_t start_ps, struct error *err)
{
    const struct xmeta *row = xtable_find(&c->plane.plane->event_table, e->metadata_id);
    struct xstats walk = xevent_stats(c->plane.plane, e);
    struct xstat s;
    int rc = 0;
    while (row && !rc && xstat_next(&walk, &s)) {
        const struct xmeta *stat = xtable_find(&c->plane.plane->stat_table, s.metadata_id);
        struct form_track *track;
        double value;
        if (!is_value(stat, &s, &value))
            continue;
        rc = counter_track(c, &c->counters, row, stat, &track, err);
        if (!rc)
            c->form.count(&c->form, track, start_ps, value);
    }
    c->done->events++;
    return rc;
}

// ---- Lines

static int add_event(struct conversion *c, const struct xline *l, const struct xevent *raw, int64_t base_ps,
                     bool counting, struct error *err)
{
    struct form_event e = {.plane = c->plane.plane, .raw = raw, .duration_ps = raw->duration_ps};
    struct lane *lane = NULL;
    int64_t end_ps = 0;
    if (raw->occurrences && c->form.lanes) {
        c->done->aggregates++;
        return 0;
    }
    if (!raw->occurrences) { // a sum over occurrences has no place
        if (!place(c, base_ps, raw, &e.start_ps)) {
            c->done->out_of_range++;
            return 0;
        }
        end_ps = e.start_ps + e.duration_ps;
    }
    if (counting)
        return count_event(c, raw, e.start_ps, err);
    int rc = c->form.lanes ? find_lane(c, l, e.start_ps, end_ps, &lane, err) : 0;
    if (rc)
        return rc;
    e.track = lane ? &lane->track : &c->lanes[0].track;
    e.row = xtable_find(&c->plane.plane->event_table, raw->metadata_id);
    if (c->flows.any && lane)
        find_flow(c, &e);
    rc = c->form.begin(&c->form, &e, err);
    if (!rc && lane && raw->duration_ps)
        rc = push(lane, end_ps, err);
    for (size_t i = 0; i < c->n_sweeps && !rc; i++)
        rc = sweep_add(&c->sweeps[i], &c->form, &e, err);
    c->done->events++;
    return rc;
}

static int walk_line(struct conversion *c, struct xline *l, bool sorted, int64_t base_ps, bool counting,
                     struct error *err)
{
    struct xevents walk = xline_events(l);
    struct xevent e;
    int rc = sorted ? 0 : keep(c, l, err);
    for (size_t i = 0; !rc && (sorted ? xevent_next(&walk, &e) : i < c->n_kept); i++) {
        rc = add_event(c, l, sorted ? &e : &c->kept[i], base_ps, counting, err);
        if (!rc && i % 65536 == 65535)
            rc = c->form.out->rc ? c->form.out->rc : interrupt_check("converting a profile", err);
    }
    return rc;
}

static int start_sweeps(struct conversion *c, const struct xline *l, struct error *err)
{
    static const char *const names[SWEEPS] = {"Source code", "Framework Name Scope"};
    const struct trace_device *d = NULL;
    bool here = false, several = false;
    int rc = 0;
    c->n_sweeps = 0;
    for (size_t i = 0; i < c->devices.n && !d; i++)
        d = c->devices.items[i].plane == c->plane.plane ? &c->devices.items[i] : NULL;
    for (size_t i = 0; d && i < d->n_lines; i++)
        here |= d->lines[i] == l;
    several = d && d->n_lines > 1;
    for (size_t i = 0; here && i < SWEEPS && !rc; i++) {
        bool taken = false; // the profile has the line itself
        for (size_t k = 0; k < c->plane.plane->n_lines; k++)
            taken |= slice_is(c->plane.plane->lines[k].name, names[i]);
        if (taken)
            continue;
        struct slice of = line_name(l);
        char *text = several ? arena_printf(&c->arena, err, "%s: %.*s", names[i], of.size < 1000 ? (int)of.size : 1000,
                                            (const char *)of.data)
                             : arena_strdup(&c->arena, names[i], err);
        struct sweep *s = &c->sweeps[c->n_sweeps];
        rc = text ? sweep_init(s, c->plane.plane, i ? "tf_op" : "source", i != 0, &c->arena, err) : ERR_MEMORY;
        if (rc)
            break;
        c->n_sweeps++;
        s->name = (struct slice){(const uint8_t *)text, strlen(text)};
        s->track = (struct form_track){.plane = &c->plane, .name = s->name};
        s->tracks = &c->done->tracks;
        s->order = &c->n_tracks;
    }
    return rc;
}

static int convert_line(struct conversion *c, struct xline *l, bool sorted, struct error *err)
{
    bool counting = c->form.count && slice_is(l->name, "_counters_");
    int64_t base;
    c->n_lanes = 0;
    if (!trace_epoch_base(c->clock, l, &base))
        base = INT64_MAX; // only events with a negative offset can be placed
    int rc = 0;
    if (c->form.lanes)
        rc = start_sweeps(c, l, err);
    else
        rc = new_track(c, &c->lanes[0].track, line_name(l), l, err);
    if (!rc)
        rc = walk_line(c, l, sorted || !c->form.lanes, base, counting, err);
    while (c->n_lanes)
        close_lane(c, &c->lanes[--c->n_lanes]);
    for (size_t i = 0; i < c->n_sweeps; i++) {
        int bad = sweep_finish(&c->sweeps[i], rc ? NULL : &c->form, err);
        rc = rc ? rc : bad;
    }
    c->n_sweeps = 0;
    return rc;
}

static int convert_plane(struct conversion *c, struct xplane *p, struct error *err)
{
    const bool *sorted = c->next_fact;
    bool events = false;
    c->next_fact += p->n_lines;
    for (size_t i = 0; i < p->n_lines; i++)
        events |= p->lines[i].events.size > 0;
    if (!events)
        return 0;
    c->plane.plane = p;
    // Of several files times count from the earliest, and others' hosts are in the names of their planes.
    c->plane.start_ns = c->t->n_files == 1 && !c->zero_ps && !c->clock->origin_ns ? c->clock->start_ns : 0;
    c->plane.pid++;
    c->plane.name = p->name;
    c->n_tracks = 0;
    idmap_release(&c->counters.by_key);
    idmap_init(&c->counters.by_key);
    c->counters.tracks = NULL;
    c->counters.n = c->counters.cap = 0;
    arena_release(&c->arena);
    if (c->t->n_files > 1) {
        char *text = arena_printf(&c->arena, err, "%s %.*s", c->plane.file->host,
                                  p->name.size < 4096 ? (int)p->name.size : 4096, (const char *)p->name.data);
        if (!text)
            return ERR_MEMORY;
        c->plane.name = (struct slice){(const uint8_t *)text, strlen(text)};
    }
    find_flow_ids(c);
    int rc = c->form.plane(&c->form, &c->plane, err);
    for (size_t i = 0; i < p->n_lines && !rc; i++) {
        rc = convert_line(c, &p->lines[i], sorted[i], err);
        if (!rc)
            rc = interrupt_check("converting a profile", err);
    }
    return rc;
}

// One look at all lines before anything is written: what is out of order, what is damaged, and when the first event is.
// Times before the start of everything (a clock that was set back) would be negative: then all count from the first.
static void scan_file(struct conversion *c, struct trace_file *f)
{
    struct xdamage damage = {0};
    for (size_t i = 0; i < f->space.n_planes; i++) {
        for (size_t k = 0; k < f->space.planes[i].n_lines; k++) {
            struct line_facts facts = scan(c, &f->space.planes[i].lines[k], &damage);
            c->zero_ps = facts.first_ps < c->zero_ps ? facts.first_ps : c->zero_ps;
            *c->next_fact++ = facts.sorted;
        }
    }
    xdamage_add(&f->space.damage, &damage);
}

static int convert_file(struct conversion *c, struct trace_file *f, bool writing, struct error *err)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &f->map))
        return file_guard_error(&g, err);
    int rc = 0;
    c->plane.file = f;
    c->clock = &c->clocks[f - c->t->files];
    if (!writing)
        scan_file(c, f);
    for (size_t i = 0; writing && i < f->space.n_planes && !rc; i++)
        rc = convert_plane(c, &f->space.planes[i], err);
    file_guard_end(&g);
    return rc;
}

static int convert_all(struct conversion *c, struct error *err)
{
    struct trace *t = c->t;
    size_t lines = 0;
    for (size_t i = 0; i < t->n_files; i++) {
        for (size_t k = 0; k < t->files[i].space.n_planes; k++)
            lines += t->files[i].space.planes[k].n_lines;
    }
    c->facts = c->next_fact = arena_new(&t->arena, bool, lines, err);
    int rc = c->facts ? trace_epochs(t, &c->clocks, err) : ERR_MEMORY;
    if (!rc)
        rc = trace_find_devices(t, &c->devices, err);
    for (size_t i = 0; i < t->n_files && !rc; i++)
        rc = convert_file(c, &t->files[i], false, err);
    if (!c->form.lanes)
        c->zero_ps = 0;
    c->next_fact = c->facts;
    for (size_t i = 0; i < t->n_files && !rc; i++)
        rc = convert_file(c, &t->files[i], true, err);
    if (!rc)
        c->form.finish(&c->form);
    return rc;
}

int trace_convert(struct trace *t, enum trace_form form, struct sink *out, struct trace_converted *done,
                  struct error *err)
{
    static int (*const forms[])(struct form *, struct error *) = {form_chrome, form_perfetto, form_csv};
    *done = (struct trace_converted){0};
    if (form == TRACE_XSPACE) {
        struct trace_merged merged;
        int bad = trace_merge(t, out, &merged, err);
        done->events = merged.events;
        done->tracks = merged.lines;
        return bad;
    }
    struct conversion *c = calloc(1, sizeof *c);
    if (!c)
        return error_set(err, ERR_MEMORY, NULL, "no memory to convert a profile");
    c->t = t;
    c->done = done;
    c->form.out = out;
    arena_init(&c->arena);
    idmap_init(&c->counters.by_key);
    int rc = forms[form](&c->form, err);
    if (!rc)
        rc = convert_all(c, err);
    // Also of a line that a shrinking file has ended.
    for (size_t i = 0; i < MOST_LANES; i++)
        free(c->lanes[i].ends);
    for (size_t i = 0; i < SWEEPS; i++)
        sweep_finish(&c->sweeps[i], NULL, NULL);
    c->form.release(&c->form);
    idmap_release(&c->counters.by_key);
    arena_release(&c->arena);
    free(c->kept);
    free(c);
    return rc;
}
