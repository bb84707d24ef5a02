// SPDX-License-Identifier: Apache-2.0
#include "trace/steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/idmap.h"
#include "base/stats.h"
#include "trace/steps_sweep.h"

const char *trace_rule_text(enum trace_rule rule)
{
    static const char *const texts[] = {
        "no device ran a program, and no event marks a step",
        "the device's own line \"Steps\"",
        "host events that have a step's number (step_num) or are called precision_case",
        "each execution of the program that was named",
        "each execution of the program that took the most time of those that ran more than once on a device",
        "no program ran twice on a device: the execution of the one that took the most time",
    };
    return texts[rule];
}

static int add_step(struct trace_steps *s, struct trace_step step, struct error *err)
{
    struct trace_step *more = arena_grow(&s->modules.arena, s->items, &s->cap, s->n + 1, sizeof *more, err);
    if (!more)
        return ERR_MEMORY;
    s->items = more;
    s->items[s->n++] = step;
    return 0;
}

// ---- Markers

bool trace_is_marker(const struct xplane *p, const struct xevent *e, int64_t *number)
{
    const struct xmeta *row = xtable_find(&p->event_table, e->metadata_id);
    struct xstats walk = xevent_stats(p, e);
    struct xstat s;
    *number = -1;
    while (xstat_next(&walk, &s)) {
        const struct xmeta *name = xtable_find(&p->stat_table, s.metadata_id);
        if (name && (s.kind == XSTAT_INT || s.kind == XSTAT_UINT) && slice_is(name->name, "step_num"))
            *number = s.integer;
    }
    return *number >= 0 || (row && slice_is(row->name, "precision_case"));
}

// A "Steps" line calls its events by their numbers.
static int64_t number_of(const struct xplane *p, const struct xevent *e)
{
    const struct xmeta *row = xtable_find(&p->event_table, e->metadata_id);
    int64_t v = 0;
    for (size_t i = 0; row && i < row->name.size; i++) {
        if (row->name.data[i] < '0' || row->name.data[i] > '9' || i > 17)
            return -1;
        v = v * 10 + (row->name.data[i] - '0');
    }
    return row && row->name.size ? v : -1;
}

struct markers {
    struct trace_step *items; // malloc'd
    size_t n, cap;
};

static int push(struct markers *m, struct trace_step step, struct error *err)
{
    if (m->n == m->cap) {
        size_t cap = m->cap ? 2 * m->cap : 64;
        struct trace_step *more = realloc(m->items, cap * sizeof *more);
        if (!more)
            return error_set(err, ERR_MEMORY, NULL, "no memory for %zu steps", cap);
        m->items = more;
        m->cap = cap;
    }
    m->items[m->n++] = step;
    return 0;
}

// The markers of one line; of nested ones the outermost.
static int line_markers(struct markers *out, struct trace_file *f, const struct xplane *p, struct xline *l,
                        int64_t origin_ns, bool steps_line, struct error *err)
{
    struct trace_spans walk;
    struct trace_span s;
    int64_t number, reach;
    int rc = trace_spans_begin(&walk, p, &l, 1, origin_ns, CLOCK_OF_LINE, err);
    do {
        out->n = 0;
        reach = INT64_MIN;
        while (!rc && trace_spans_next(&walk, &s)) {
            number = steps_line ? number_of(p, &s.event) : -1;
            if ((!steps_line && !trace_is_marker(p, &s.event, &number)) || s.start_ps < reach)
                continue;
            rc = push(out,
                      (struct trace_step){.index = number < 0 ? (int64_t)out->n : number,
                                          .start_ps = s.start_ps,
                                          .work_ps = s.end_ps - s.start_ps},
                      err);
            reach = s.end_ps;
        }
    } while (trace_spans_again(&walk, &rc, err));
    trace_spans_end(&walk, &f->space, &f->space.damage);
    return rc;
}

// Most hosts have none: their tables say so before any event is looked at.
static bool may_have_markers(const struct xplane *p)
{
    for (size_t i = 0; i < p->stat_table.n_rows; i++) {
        if (slice_is(p->stat_table.rows[i].name, "step_num"))
            return true;
    }
    for (size_t i = 0; i < p->event_table.n_rows; i++) {
        if (slice_is(p->event_table.rows[i].name, "precision_case"))
            return true;
    }
    return false;
}

// The line of the hosts of a file that has the most markers.
static int host_markers(struct markers *best, struct trace_file *f, int64_t origin_ns, struct error *err)
{
    struct markers here = {0};
    int rc = 0;
    best->n = 0;
    for (size_t i = 0; i < f->space.n_planes && !rc; i++) {
        struct xplane *p = &f->space.planes[i];
        if (!slice_starts_with(p->name, "/host:") || !may_have_markers(p))
            continue;
        for (size_t k = 0; k < p->n_lines && !rc; k++) {
            rc = line_markers(&here, f, p, &p->lines[k], origin_ns, false, err);
            if (!rc && here.n > best->n) {
                struct markers swap = *best;
                *best = here;
                here = swap;
            }
        }
    }
    free(here.items);
    return rc;
}

// A host as its own device, with all of its lines that have events.
static int add_host(struct trace_steps *s, struct trace_file *f, struct xplane *p, struct error *err)
{
    struct arena *a = &s->modules.arena;
    struct trace_devices *all = &s->modules.devices;
    struct trace_device d = {
        .kind = TRACE_HOST, .file = f, .plane = p, .ordinal = -1, .peak_flop_per_s = NAN, .memory_bytes_per_s = NAN};
    const char *name = arena_strndup(a, (const char *)p->name.data, p->name.size, err);
    struct trace_device *items = arena_grow(a, all->items, &all->cap, all->n + 1, sizeof d, err);
    d.lines = arena_alloc(a, p->n_lines, sizeof(struct xline *), err);
    if (!name || !items || !d.lines)
        return ERR_MEMORY;
    for (size_t i = 0; i < p->n_lines; i++) {
        if (p->lines[i].events.size)
            d.lines[d.n_lines++] = &p->lines[i];
    }
    d.name = (struct slice){(const uint8_t *)name, p->name.size};
    all->items = items;
    all->items[all->n++] = d;
    return 0;
}

static int add_marked_host(struct trace_steps *s, struct trace_file *f, int64_t origin_ns, struct error *err)
{
    struct markers m = {0};
    struct file_guard g;
    if (FILE_GUARD(&g, &f->map))
        return file_guard_error(&g, err);
    int rc = host_markers(&m, f, origin_ns, err);
    for (size_t i = 0; i < f->space.n_planes && m.n && !rc; i++) {
        if (slice_starts_with(f->space.planes[i].name, "/host:CPU")) {
            rc = add_host(s, f, &f->space.planes[i], err);
            break;
        }
    }
    free(m.items);
    file_guard_end(&g);
    return rc;
}

static int add_marked_hosts(struct trace *t, struct trace_steps *s, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < t->n_files && !rc; i++)
        rc = add_marked_host(s, &t->files[i], trace_origin_ns(t), err);
    struct trace_modules *m = &s->modules;
    if (rc || !m->devices.n)
        return rc;
    m->of_device = arena_new(&m->arena, struct trace_runs, m->devices.n, err);
    for (size_t i = 0; i < m->devices.n && m->of_device; i++)
        m->of_device[i].device = &m->devices.items[i];
    return m->of_device ? 0 : ERR_MEMORY;
}

static int take_markers(struct trace_steps *s, const struct markers *m, size_t device, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < m->n && !rc; i++) {
        struct trace_step step = m->items[i];
        step.device = device;
        rc = add_step(s, step, err);
    }
    return rc;
}

static int mark_device(struct trace_steps *s, size_t device, bool steps_line, int64_t origin_ns, struct error *err)
{
    const struct trace_device *d = &s->modules.devices.items[device];
    struct markers m = {0};
    struct file_guard g;
    if (FILE_GUARD(&g, &d->file->map))
        return file_guard_error(&g, err);
    int rc = 0;
    for (size_t i = 0; i < d->plane->n_lines && steps_line && !rc; i++) {
        struct xline *l = &d->plane->lines[i];
        if (slice_is(l->name, "Steps") || slice_is(l->name, "Sparse Core Steps"))
            rc = line_markers(&m, d->file, d->plane, l, origin_ns, true, err);
    }
    if (!steps_line && d->n_lines)
        rc = host_markers(&m, d->file, origin_ns, err);
    if (!rc)
        rc = take_markers(s, &m, device, err);
    free(m.items);
    file_guard_end(&g);
    return rc;
}

// ---- Programs

// For each program the first one of its name: one function that was compiled for several shapes is several programs.
static int name_programs(struct trace_modules *m, uint32_t **out, struct error *err)
{
    uint32_t *first = arena_new(&m->arena, uint32_t, m->n_programs, err);
    struct idmap known;
    int rc = first ? 0 : ERR_MEMORY;
    idmap_init(&known);
    for (uint32_t i = 0; i < m->n_programs && !rc; i++) {
        uint64_t hash = process_secret();
        bool again;
        for (size_t k = 0; k < m->programs[i].name.size; k++)
            hash = (hash ^ m->programs[i].name.data[k]) * 0x100000001b3;
        rc = idmap_put(&known, (int64_t)mix64(hash), i, &again, err);
        if (!rc && !idmap_get(&known, (int64_t)mix64(hash), &first[i]))
            first[i] = i;
    }
    idmap_release(&known);
    *out = first;
    return rc;
}

static int choose_program(struct trace_steps *s, const char *wanted, const uint32_t *first, uint32_t *out,
                          struct error *err)
{
    struct trace_modules *m = &s->modules;
    int64_t *total = arena_new(&m->arena, int64_t, m->n_programs, err);
    size_t *most = arena_new(&m->arena, size_t, m->n_programs, err),
           *here = arena_new(&m->arena, size_t, m->n_programs, err);
    if (!total || !most || !here)
        return ERR_MEMORY;
    for (size_t d = 0; d < m->devices.n; d++) {
        const struct trace_runs *r = &m->of_device[d];
        for (size_t i = 0; i < r->n; i++) {
            uint32_t p = first[r->items[i].program];
            if (__builtin_add_overflow(total[p], r->items[i].end_ps - r->items[i].start_ps, &total[p]))
                total[p] = INT64_MAX;
            if (++here[p] > most[p])
                most[p] = here[p];
        }
        for (size_t i = 0; i < r->n; i++)
            here[first[r->items[i].program]] = 0;
    }
    *out = UINT32_MAX;
    for (uint32_t i = 0; i < m->n_programs; i++) {
        if (!most[i] || (wanted && !slice_is(m->programs[i].name, wanted)))
            continue;
        bool better = *out == UINT32_MAX || (most[i] > 1) > (most[*out] > 1) ||
                      ((most[i] > 1) == (most[*out] > 1) && total[i] > total[*out]);
        if (better)
            *out = i;
    }
    if (wanted && *out == UINT32_MAX)
        return error_set(err, ERR_USAGE, wanted, "no program of that name ran; `assay trace modules` lists them");
    if (*out != UINT32_MAX) {
        s->rule = wanted ? RULE_PROGRAM : most[*out] > 1 ? RULE_REPEATED : RULE_SINGLE;
        s->program = m->programs[*out].name;
    }
    return 0;
}

static int steps_of_program(struct trace_steps *s, const char *wanted, struct error *err)
{
    struct trace_modules *m = &s->modules;
    uint32_t *first, program;
    int rc = name_programs(m, &first, err);
    if (!rc)
        rc = choose_program(s, wanted, first, &program, err);
    for (size_t d = 0; d < m->devices.n && !rc; d++) {
        const struct trace_runs *r = &m->of_device[d];
        int64_t index = 0;
        for (size_t i = 0; i < r->n && !rc; i++) {
            struct trace_run run = r->items[i];
            if (first[run.program] != program)
                continue;
            struct trace_step step = {
                .device = d, .index = index, .start_ps = run.start_ps, .work_ps = run.end_ps - run.start_ps};
            rc = add_step(s, step, err);
            index++;
        }
    }
    return rc;
}

// ---- All of them

static int find_steps(struct trace *t, struct trace_steps *s, const char *program, struct error *err)
{
    int64_t origin_ns = trace_origin_ns(t);
    int rc = 0;
    for (int steps_line = 1; steps_line >= 0 && !s->n && !program; steps_line--) {
        for (size_t i = 0; i < s->modules.devices.n && !rc; i++)
            rc = mark_device(s, i, steps_line, origin_ns, err);
        if (rc)
            return rc;
        s->rule = s->n ? (steps_line ? RULE_LINE : RULE_MARKER) : RULE_NONE;
    }
    return s->n ? 0 : steps_of_program(s, program, err);
}

// From start to start. Two of the same start are one after the other, the first without a length.
static void set_durations(struct trace_steps *s)
{
    for (size_t i = 0; i < s->n; i++) {
        struct trace_step *a = &s->items[i];
        struct trace_idle *d = &s->of_device[a->device];
        if (!d->n_steps++)
            d->first_step = i;
        a->complete = i + 1 < s->n && s->items[i + 1].device == a->device;
        a->duration_ps = a->complete ? s->items[i + 1].start_ps - a->start_ps : a->work_ps;
        if (a->work_ps > a->duration_ps)
            a->work_ps = a->duration_ps;
    }
}

// ---- Statistics

static int durations(struct trace_steps *s, struct error *err)
{
    double *v = arena_new(&s->modules.arena, double, s->n, err),
           *scratch = arena_new(&s->modules.arena, double, s->n, err);
    size_t n = 0;
    if (!v || !scratch)
        return ERR_MEMORY;
    for (int complete = 1; complete >= 0 && !n; complete--) {
        for (size_t i = 0; i < s->n; i++) {
            if (s->items[i].complete >= complete)
                v[n++] = (double)s->items[i].duration_ps;
        }
    }
    s->mean_ps = stats_mean(v, n);
    stats_sort(v, n); // once for all
    s->min_ps = stats_min(v, n);
    s->max_ps = stats_max(v, n);
    s->p50_ps = stats_quantile(v, n, 0.5, scratch);
    s->p90_ps = stats_quantile(v, n, 0.9, scratch);
    s->p99_ps = stats_quantile(v, n, 0.99, scratch);
    // Five robust standard deviations and a twentieth of the median: steps that hardly vary have no outliers.
    double far = 5 * stats_mad(v, n, scratch);
    far = far > s->p50_ps / 20 ? far : s->p50_ps / 20;
    for (size_t i = 0; i < s->n && n > 2; i++) {
        struct trace_step *a = &s->items[i];
        a->outlier = a->complete && fabs((double)a->duration_ps - s->p50_ps) > far;
        s->outliers += a->outlier;
    }
    return 0;
}

static bool profile_start(const struct trace_file *f, int64_t *ns)
{
    const struct xplane *p = xspace_plane(&f->space, "Task Environment");
    for (size_t i = 0; p && i < p->n_stats; i++) {
        struct xstat s;
        xstat_read(&s, p, p->stats[i]);
        const struct xmeta *row = xtable_find(&p->stat_table, s.metadata_id);
        if (row && slice_is(row->name, "profile_start_time") && (s.kind == XSTAT_UINT || s.kind == XSTAT_INT)) {
            *ns = s.integer;
            return true;
        }
    }
    return false;
}

struct start {
    int64_t index, ps;
    size_t file;
};

static int by_index(const void *a, const void *b)
{
    const struct start *x = a, *y = b;
    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    return (x->ps > y->ps) - (x->ps < y->ps);
}

// How far apart the starts of one step are, over devices or over hosts (the earliest device of each). `seen`, for each
// file, is the last group that had it.
static void skew(const struct start *v, size_t n, size_t *seen, double *out, double *scratch, double *p50, double *max)
{
    size_t count = 0;
    for (size_t from = 0, to; from < n; from = to) {
        int64_t last = v[from].ps;
        size_t many = 0;
        for (to = from; to < n && v[to].index == v[from].index; to++) {
            if (seen && seen[v[to].file] == from + 1)
                continue;
            if (seen)
                seen[v[to].file] = from + 1;
            last = v[to].ps;
            many++;
        }
        if (many > 1)
            out[count++] = (double)(last - v[from].ps);
    }
    stats_sort(out, count);
    *p50 = stats_quantile(out, count, 0.5, scratch);
    *max = stats_max(out, count);
}

static int skews(struct trace *t, struct trace_steps *s, struct error *err)
{
    struct arena *a = &s->modules.arena;
    struct start *v = arena_new(a, struct start, s->n, err);
    double *out = arena_new(a, double, s->n, err), *scratch = arena_new(a, double, s->n, err);
    size_t *seen = arena_new(a, size_t, t->n_files, err);
    int64_t base = 0, ns;
    bool common = trace_origin_ns(t) != 0;
    if (!v || !out || !scratch || !seen)
        return ERR_MEMORY;
    s->skew_p50_ps = s->skew_max_ps = s->host_skew_p50_ps = s->host_skew_max_ps = NAN;
    // Saved profiles count from their own start; their times of day bring them together.
    if (!common && t->n_files) {
        common = t->n_files == 1 || profile_start(&t->files[0], &base);
        for (size_t i = 1; i < t->n_files; i++)
            common = common && profile_start(&t->files[i], &ns);
    }
    if (!common)
        return 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct trace_file *f = s->modules.devices.items[s->items[i].device].file;
        int64_t shift = 0;
        if (t->n_files > 1 && profile_start(f, &ns) &&
            (__builtin_sub_overflow(ns, base, &shift) || __builtin_mul_overflow(shift, (int64_t)1000, &shift)))
            return 0;
        v[i] = (struct start){s->items[i].index, s->items[i].start_ps, (size_t)(f - t->files)};
        if (__builtin_add_overflow(v[i].ps, shift, &v[i].ps))
            return 0;
    }
    if (s->n)
        qsort(v, s->n, sizeof *v, by_index);
    skew(v, s->n, NULL, out, scratch, &s->skew_p50_ps, &s->skew_max_ps);
    if (t->n_files > 1)
        skew(v, s->n, seen, out, scratch, &s->host_skew_p50_ps, &s->host_skew_max_ps);
    return 0;
}

static void sweep_some(void *context, size_t from, size_t to)
{
    struct steps_sweep *all = context;
    for (size_t i = from; i < to; i++)
        steps_sweep_run(&all[i]);
}

static int sweep(struct trace *t, struct threads *threads, struct trace_ops *ops, struct trace_steps *s,
                 struct error *err)
{
    struct steps_sweep *all;
    int rc = steps_sweep_plan(t, s, &all, err);
    if (rc)
        return rc;
    if (ops)
        rc = trace_ops_beside(t, threads, &(struct trace_beside){sweep_some, all, t->n_files}, ops, err);
    else
        threads_for(threads, t->n_files, 1, sweep_some, all);
    int swept = steps_sweep_finish(s, all, t->n_files, rc ? NULL : err);
    return rc ? rc : swept;
}

int trace_steps(struct trace *t, const char *program, struct threads *threads, struct trace_ops *ops,
                struct trace_steps *out, struct error *err)
{
    memset(out, 0, sizeof *out);
    if (ops)
        memset(ops, 0, sizeof *ops);
    int rc = trace_modules(t, &out->modules, err);
    if (!rc && !out->modules.devices.n)
        rc = add_marked_hosts(t, out, err);
    if (!rc) {
        out->of_device = arena_new(&out->modules.arena, struct trace_idle, out->modules.devices.n, err);
        rc = out->of_device ? find_steps(t, out, program, err) : ERR_MEMORY;
    }
    if (rc)
        return rc;
    set_durations(out);
    rc = sweep(t, threads, ops, out, err);
    if (!rc)
        rc = durations(out, err);
    return rc ? rc : skews(t, out, err);
}

void trace_steps_release(struct trace_steps *s)
{
    trace_modules_release(&s->modules);
    memset(s, 0, sizeof *s);
}
