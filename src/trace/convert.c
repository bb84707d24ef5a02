// SPDX-License-Identifier: Apache-2.0
#include "trace/convert.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/idmap.h"
#include "base/interrupt.h"
#include "trace/convert_pipe.h"
#include "trace/convert_sweep.h"
#include "trace/device.h"
#include "trace/merge.h"

#define RANGE_PS   ((int64_t)1 << 62)
#define MOST_LANES 256 // of one line; what overlaps more than that has a track for each event
#define LONGEST    256 // bytes of a line's name in that of its further tracks

// A row of a viewer, in which slices nest.
struct lane {
    struct form_track *track;
    int64_t *ends; // malloc'd: of the slices that are open, outermost first
    size_t depth, cap;
};

// Tracks of a line whose events are samples.
struct counters {
    struct idmap by_key;
    struct form_track **tracks;
    size_t n, cap;
};

struct line_facts {
    struct xline *line;
    const struct trace_file *file;
    const struct trace_epoch *clock;
    struct xdamage damage;
    int64_t first_ps; // 0 when none is earlier
    bool sorted;
};

struct conversion {
    struct trace *t;
    struct trace_devices devices;
    struct trace_epoch *clocks;
    struct line_facts *facts; // of the lines of all files
    size_t n_facts;
    struct trace_converted *done;
    int64_t zero_ps;
    struct pipe pipe;

    // Where the pass is.
    size_t file, next_plane, next_line;
    const struct line_facts *next_fact;
    const struct trace_epoch *clock; // of the file
    struct form_plane *plane;        // NULL: before a plane
    struct xline *line;              // NULL: before a line
    int64_t base_ps;
    bool sorted, counting;
    struct xevents walk;
    struct xevent *kept; // a line that is not in order
    size_t n_kept, cap_kept, next_kept;

    // Of the plane.
    size_t n_tracks;
    uint32_t pid;
    bool *seen; // rows of the table of events
    struct counters counters;
    struct sweep_plane derived[SWEEPS];
    // Of the line.
    struct lane lanes[MOST_LANES];
    size_t n_lanes;
    bool any_track;
    struct sweep sweeps[SWEEPS];
    size_t n_sweeps;
};

// ---- Events of a line in the order of their starts, the longer first

static bool place(int64_t zero_ps, int64_t base_ps, const struct xevent *e, int64_t *start_ps)
{
    return !__builtin_add_overflow(base_ps, e->offset_ps, start_ps) && *start_ps<RANGE_PS && * start_ps> - RANGE_PS &&
           e->duration_ps >= 0 && e->duration_ps < RANGE_PS - *start_ps &&
           !__builtin_sub_overflow(*start_ps, zero_ps, start_ps);
}

static void scan(struct line_facts *f)
{
    struct xevents walk = xline_events(f->line);
    struct xevent e;
    int64_t base = 0, start, last_start = INT64_MIN, last_duration = 0;
    bool placed = trace_epoch_base(f->clock, f->line, &base);
    f->sorted = true;
    while (xevent_next(&walk, &e)) {
        if (!placed || e.occurrences || !place(0, base, &e, &start))
            continue;
        f->first_ps = start < f->first_ps ? start : f->first_ps;
        f->sorted &= start > last_start || (start == last_start && e.duration_ps <= last_duration);
        last_start = start;
        last_duration = e.duration_ps;
    }
    xevents_damage(&f->file->space, &walk, &f->damage);
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

static int keep(struct conversion *c, struct error *err)
{
    struct xevent e;
    c->n_kept = c->next_kept = 0;
    while (xevent_next(&c->walk, &e)) {
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

static bool next_event(struct conversion *c, struct xevent *e)
{
    if (c->sorted)
        return xevent_next(&c->walk, e);
    if (c->next_kept == c->n_kept)
        return false;
    *e = c->kept[c->next_kept++];
    return true;
}

// ---- Tracks

static struct slice line_name(const struct xline *l)
{
    return l->display_name.size ? l->display_name : l->name;
}

static struct form_track *new_track(struct conversion *c, struct slice name, bool counter, struct error *err)
{
    struct form_track *track = arena_new(&c->plane->arena, struct form_track, 1, err);
    if (!track)
        return NULL;
    *track = (struct form_track){.id = ++c->done->tracks,
                                 .plane = c->plane,
                                 .order = c->n_tracks++,
                                 .name = name,
                                 .counter = counter,
                                 .first = !c->any_track,
                                 .line = counter ? NULL : c->line};
    c->any_track = true;
    pipe_op(&c->pipe, FORM_TRACK, track, 0);
    return track;
}

static int shown(const struct slice *s, int most)
{
    return s->size < (size_t)most ? (int)s->size : most;
}

static int numbered(struct conversion *c, size_t n, struct slice *out, struct error *err)
{
    struct slice name = line_name(c->line);
    char *text = arena_printf(&c->plane->arena, err, "%.*s (%zu)", shown(&name, LONGEST), (const char *)name.data, n);
    *out = (struct slice){(const uint8_t *)text, text ? strlen(text) : 0};
    return text ? 0 : ERR_MEMORY;
}

static void close_until(struct conversion *c, struct lane *lane, int64_t ps)
{
    while (lane->depth && lane->ends[lane->depth - 1] <= ps) {
        lane->depth--;
        if (c->pipe.form->ends)
            pipe_op(&c->pipe, FORM_END, lane->track, lane->ends[lane->depth]);
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
static int find_lane(struct conversion *c, int64_t start_ps, int64_t end_ps, struct lane **out, struct error *err)
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
    struct slice name = line_name(c->line);
    *lane = (struct lane){0};
    int rc = c->n_lanes ? numbered(c, c->n_lanes + 1, &name, err) : 0;
    lane->track = rc ? NULL : new_track(c, name, false, err);
    c->n_lanes++;
    return lane->track ? 0 : ERR_MEMORY;
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

static int counter_track(struct conversion *c, const struct xmeta *row, const struct xmeta *stat,
                         struct form_track **out, struct error *err)
{
    struct counters *k = &c->counters;
    const struct xplane *p = c->plane->plane;
    int64_t key = (int64_t)((uint64_t)(row - p->event_table.rows) << 32 | (uint64_t)(stat - p->stat_table.rows));
    uint32_t index = (uint32_t)k->n;
    if (idmap_get(&k->by_key, key, &index)) {
        *out = k->tracks[index];
        return 0;
    }
    struct form_track **more = arena_grow(&c->plane->arena, k->tracks, &k->cap, k->n + 1, sizeof(void *), err);
    char *text = arena_printf(&c->plane->arena, err, "%.*s: %.*s", shown(&row->name, 1000),
                              (const char *)row->name.data, shown(&stat->name, 1000), (const char *)stat->name.data);
    if (!more || !text)
        return ERR_MEMORY;
    k->tracks = more;
    *out = new_track(c, (struct slice){(const uint8_t *)text, strlen(text)}, true, err);
    if (!*out)
        return ERR_MEMORY;
    bool again;
    k->tracks[k->n++] = *out;
    return idmap_put(&k->by_key, key, index, &again, err);
}

static int count_event(struct conversion *c, const struct xevent *e, int64_t start_ps, struct error *err)
{
    const struct xmeta *row = xtable_find(&c->plane->plane->event_table, e->metadata_id);
    struct xstats walk = xevent_stats(c->plane->plane, e);
    struct xstat s;
    int rc = 0;
    while (row && !rc && xstat_next(&walk, &s)) {
        const struct xmeta *stat = xtable_find(&c->plane->plane->stat_table, s.metadata_id);
        struct form_track *track;
        double value;
        if (!is_value(stat, &s, &value))
            continue;
        rc = counter_track(c, row, stat, &track, err);
        if (!rc)
            pipe_op(&c->pipe, FORM_COUNT, track, start_ps)->value = value;
    }
    c->done->events++;
    return rc;
}

// ---- Lines

static int add_event(struct conversion *c, const struct xevent *e, struct error *err)
{
    const struct xtable *rows = &c->plane->plane->event_table;
    int64_t start_ps = 0;
    bool lanes = c->pipe.form->lanes;
    struct lane *lane = &c->lanes[0];
    int rc = 0;
    if (e->occurrences && lanes) {
        c->done->aggregates++;
        return 0;
    }
    // A sum over occurrences has no place.
    if (!e->occurrences && !place(c->zero_ps, c->base_ps, e, &start_ps)) {
        c->done->out_of_range++;
        return 0;
    }
    if (c->counting)
        return count_event(c, e, start_ps, err);
    if (lanes)
        rc = find_lane(c, start_ps, start_ps + e->duration_ps, &lane, err);
    if (rc)
        return rc;
    struct form_op *op = pipe_op(&c->pipe, FORM_BEGIN, lane->track, start_ps);
    op->derived = 0;
    op->row = xtable_find(rows, e->metadata_id);
    op->duration_ps = e->duration_ps;
    op->text = e->stats;
    op->metadata_id = e->metadata_id;
    op->occurrences = e->occurrences;
    bool *seen = &c->seen[op->row ? (size_t)(op->row - rows->rows) : rows->n_rows];
    op->fresh = !*seen;
    *seen = true;
    const struct xmeta *row = op->row; // the op may be on its way already
    if (lanes && e->duration_ps)
        rc = push(lane, start_ps + e->duration_ps, err);
    for (size_t i = 0; i < c->n_sweeps && !rc; i++)
        rc = sweep_add(&c->sweeps[i], &c->pipe, e, row, start_ps, err);
    c->done->events++;
    return rc;
}

static int start_sweeps(struct conversion *c, struct error *err)
{
    static const char *const names[SWEEPS] = {"Source code", "Framework Name Scope"};
    const struct xplane *p = c->plane->plane;
    const struct trace_device *d = NULL;
    bool here = false, several = false;
    int rc = 0;
    for (size_t i = 0; i < c->devices.n && !d; i++)
        d = c->devices.items[i].plane == p ? &c->devices.items[i] : NULL;
    for (size_t i = 0; d && i < d->n_lines; i++)
        here |= d->lines[i] == c->line;
    several = d && d->n_lines > 1;
    for (size_t i = 0; here && i < SWEEPS && !rc; i++) {
        bool taken = false; // the profile has the line itself
        for (size_t k = 0; k < p->n_lines; k++)
            taken |= slice_is(p->lines[k].name, names[i]);
        if (taken)
            continue;
        struct slice of = line_name(c->line);
        struct arena *arena = &c->plane->arena;
        char *text = several ? arena_printf(arena, err, "%s: %.*s", names[i], shown(&of, 1000), (const char *)of.data)
                             : arena_strdup(arena, names[i], err);
        struct sweep *s = &c->sweeps[c->n_sweeps];
        struct form_track *track = arena_new(arena, struct form_track, 1, err);
        if (!text || !track)
            return ERR_MEMORY;
        if (!c->derived[i].arena)
            rc = sweep_plane_init(&c->derived[i], p, i ? "tf_op" : "source", i != 0, arena, err);
        sweep_init(s, p, &c->derived[i]);
        *track = (struct form_track){.plane = c->plane,
                                     .name = {(const uint8_t *)text, strlen(text)},
                                     .stream = (uint8_t)(1 + i),
                                     .first = true};
        s->track = track;
        s->tracks = &c->done->tracks;
        s->order = &c->n_tracks;
        c->n_sweeps++;
    }
    return rc;
}

static int start_line(struct conversion *c, struct error *err)
{
    const struct form *form = c->pipe.form;
    c->line = &((struct xplane *)(uintptr_t)c->plane->plane)->lines[c->next_line++];
    c->sorted = c->next_fact++->sorted || !form->lanes;
    c->counting = form->counters && slice_is(c->line->name, "_counters_");
    c->any_track = false;
    c->n_lanes = c->n_sweeps = 0;
    c->walk = xline_events(c->line);
    if (!trace_epoch_base(c->clock, c->line, &c->base_ps))
        c->base_ps = INT64_MAX; // only events with a negative offset can be placed
    int rc = c->sorted ? 0 : keep(c, err);
    if (!rc && form->lanes)
        rc = start_sweeps(c, err);
    else if (!rc && !(c->lanes[0].track = new_track(c, line_name(c->line), false, err)))
        rc = ERR_MEMORY;
    return rc;
}

static void end_line(struct conversion *c)
{
    while (c->n_lanes)
        close_lane(c, &c->lanes[--c->n_lanes]);
    for (size_t i = 0; i < c->n_sweeps; i++)
        sweep_finish(&c->sweeps[i], &c->pipe);
    c->line = NULL;
}

// ---- Planes

static void forget_plane(struct conversion *c)
{
    idmap_release(&c->counters.by_key);
    for (size_t i = 0; i < SWEEPS; i++)
        sweep_plane_release(&c->derived[i]);
    c->counters = (struct counters){0};
    c->plane = NULL; // the pipe has it
}

static int start_plane(struct conversion *c, const struct xplane *p, struct error *err)
{
    const struct trace_file *f = &c->t->files[c->file];
    struct form_plane *plane = form_plane_new(err);
    if (!plane)
        return ERR_MEMORY;
    pipe_plane(&c->pipe, plane);
    c->plane = plane;
    idmap_init(&c->counters.by_key);
    c->next_line = c->n_tracks = 0;
    plane->file = f;
    plane->plane = p;
    plane->pid = ++c->pid;
    // Of several files times count from the earliest, and others' hosts are in the names of their planes.
    plane->start_ns = c->t->n_files == 1 && !c->zero_ps && !c->clock->origin_ns ? c->clock->start_ns : 0;
    plane->name = p->name;
    if (c->t->n_files > 1) {
        char *text =
            arena_printf(&plane->arena, err, "%s %.*s", f->host, shown(&p->name, 4096), (const char *)p->name.data);
        if (!text)
            return ERR_MEMORY;
        plane->name = (struct slice){(const uint8_t *)text, strlen(text)};
    }
    flow_ids_find(&plane->flows, c->t, f, p);
    c->seen = arena_new(&plane->arena, bool, p->event_table.n_rows + 1, err);
    int rc = c->seen ? 0 : ERR_MEMORY;
    if (!rc && c->pipe.form->plane)
        rc = c->pipe.form->plane(plane, err);
    if (!rc)
        pipe_op(&c->pipe, FORM_PLANE, NULL, 0);
    return rc;
}

// The next plane with events; false at the end of the file.
static bool next_plane(struct conversion *c, const struct xplane **out)
{
    const struct xspace *space = &c->t->files[c->file].space;
    while (c->next_plane < space->n_planes) {
        const struct xplane *p = *out = &space->planes[c->next_plane++];
        for (size_t i = 0; i < p->n_lines; i++) {
            if (p->lines[i].events.size)
                return true;
        }
        c->next_fact += p->n_lines;
    }
    return false;
}

// Goes on until the chunk is full or the plane is over; *more is false at the end of the file.
static int fill_from_file(struct conversion *c, bool *more, struct error *err)
{
    const struct xplane *p;
    struct xevent e;
    int rc = 0;
    if (!c->plane) {
        *more = next_plane(c, &p);
        if (!*more)
            return 0;
        rc = start_plane(c, p, err);
    }
    while (!rc && !pipe_full(&c->pipe)) {
        if (!c->line && c->next_line == c->plane->plane->n_lines) {
            forget_plane(c);
            return 0;
        }
        if (!c->line)
            rc = start_line(c, err);
        else if (next_event(c, &e))
            rc = add_event(c, &e, err);
        else
            end_line(c);
        if (!rc)
            rc = c->pipe.rc; // of a chunk that had to be written in between
    }
    return rc;
}

static int fill_guarded(struct conversion *c, bool *more, struct error *err)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &c->t->files[c->file].map))
        return file_guard_error(&g, err);
    int rc = fill_from_file(c, more, err);
    file_guard_end(&g);
    return rc;
}

static int fill(void *source, struct error *err)
{
    struct conversion *c = source;
    int rc = 0;
    while (!rc && c->file < c->t->n_files && pipe_empty(&c->pipe)) {
        bool more = true;
        c->clock = &c->clocks[c->file];
        rc = fill_guarded(c, &more, err);
        if (!more) {
            c->file++;
            c->next_plane = 0;
        }
    }
    return rc;
}

// ---- Before anything is written

struct scanning {
    struct line_facts *facts;
    pthread_mutex_t lock;
    int rc; // the first failure
    struct error error;
};

static int scan_guarded(struct line_facts *f, struct error *err)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &f->file->map))
        return file_guard_error(&g, err);
    scan(f);
    file_guard_end(&g);
    return interrupt_check("converting a profile", err);
}

static void scan_some(void *context, size_t from, size_t to)
{
    struct scanning *s = context;
    int rc = 0;
    for (size_t i = from; i < to && !rc; i++) {
        struct error err = {0};
        rc = scan_guarded(&s->facts[i], &err);
        pthread_mutex_lock(&s->lock);
        if (rc && !s->rc) {
            s->rc = rc;
            s->error = err;
        }
        pthread_mutex_unlock(&s->lock);
    }
}

// One look at all lines: what is out of order, what is damaged, and when the first event is. Times before the start of
// everything (a clock that was set back) would be negative: then all count from the first.
static int scan_all(struct conversion *c, struct threads *threads, struct error *err)
{
    struct scanning s = {.facts = c->facts, .lock = PTHREAD_MUTEX_INITIALIZER};
    threads_for(threads, c->n_facts, 1, scan_some, &s);
    for (size_t i = 0; i < c->n_facts; i++)
        c->zero_ps = c->facts[i].first_ps < c->zero_ps ? c->facts[i].first_ps : c->zero_ps;
    for (size_t i = 0, k = 0; i < c->t->n_files; i++) {
        for (; k < c->n_facts && c->facts[k].file == &c->t->files[i]; k++)
            xdamage_add(&c->t->files[i].space.damage, &c->facts[k].damage);
    }
    if (s.rc && err)
        *err = s.error;
    return s.rc;
}

static int find_lines(struct conversion *c, struct error *err)
{
    struct trace *t = c->t;
    size_t n = 0;
    for (size_t i = 0; i < t->n_files; i++) {
        for (size_t k = 0; k < t->files[i].space.n_planes; k++)
            c->n_facts += t->files[i].space.planes[k].n_lines;
    }
    c->facts = arena_new(&t->arena, struct line_facts, c->n_facts, err);
    if (!c->facts)
        return ERR_MEMORY;
    for (size_t i = 0; i < t->n_files; i++) {
        for (size_t k = 0; k < t->files[i].space.n_planes; k++) {
            struct xplane *p = &t->files[i].space.planes[k];
            for (size_t l = 0; l < p->n_lines; l++)
                c->facts[n++] = (struct line_facts){.line = &p->lines[l], .file = &t->files[i], .clock = &c->clocks[i]};
        }
    }
    c->next_fact = c->facts;
    return 0;
}

int trace_convert(struct trace *t, struct threads *threads, enum trace_form form, struct sink *out,
                  struct trace_converted *done, struct error *err)
{
    static const struct form *(*const forms[])(void) = {form_chrome, form_perfetto, form_csv};
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
    c->pipe = (struct pipe){.form = forms[form](), .sink = out, .fill = fill, .source = c};
    int rc = trace_epochs(t, &c->clocks, err);
    if (!rc)
        rc = trace_find_devices(t, &c->devices, err);
    if (!rc)
        rc = find_lines(c, err);
    if (!rc)
        rc = scan_all(c, threads, err);
    if (!c->pipe.form->lanes)
        c->zero_ps = 0;
    if (!rc)
        rc = pipe_run(&c->pipe, threads, err);
    // Also of a line in which something failed.
    for (size_t i = 0; i < MOST_LANES; i++)
        free(c->lanes[i].ends);
    for (size_t i = 0; i < SWEEPS; i++)
        sweep_release(&c->sweeps[i]);
    forget_plane(c);
    free(c->kept);
    free(c);
    return rc;
}
