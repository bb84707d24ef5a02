// SPDX-License-Identifier: Apache-2.0
#include "trace/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "trace/clock.h"
#include "trace/tally.h"
#include "trace/timeline_pack.h"

struct span {
    int64_t start_ps, end_ps;
};

struct seen {
    int64_t start_ps, duration_ps;
    uint32_t name;
    struct slice stats;
};

// One line, walked over twice: counted, then kept.
struct task {
    struct trace_file *file;
    struct xline *line;
    const struct xplane *plane;
    int64_t base_ps; // of the line's offsets
    bool device;     // of a device's plane
    bool operations; // its events count as the device's busy time
    bool unsorted, counting;
    int cell_bits;
    struct span window;
    struct timeline_pack *pack;
    int64_t longest[TIMELINE_ROWS]; // of the last record of each row
    uint64_t apart[65];
    struct span bounds;
    uint64_t events, outside, no_time, impossible;
    int64_t last_start_ps, last_duration_ps;
    struct timeline_row *rows; // TIMELINE_ROWS of them, while walking
    struct span *busy;         // malloc'd
    size_t n_busy, cap_busy;
    struct seen *kept; // all events of a line that is not in order; malloc'd
    size_t n_kept, cap_kept;
    struct xdamage damage;
    int rc;
    struct error error;
};

// ---- One line

static int add_busy(struct task *k, int64_t start_ps, int64_t end_ps)
{
    struct span *last = k->n_busy ? &k->busy[k->n_busy - 1] : NULL;
    if (last && start_ps <= last->end_ps) {
        if (end_ps > last->end_ps)
            last->end_ps = end_ps;
        return 0;
    }
    if (!k->busy || k->n_busy == k->cap_busy) {
        size_t cap = k->cap_busy ? 2 * k->cap_busy : 256;
        struct span *more = realloc(k->busy, cap * sizeof *more);
        if (!more)
            return error_set(&k->error, ERR_MEMORY, NULL, "no memory for %zu spans of busy time", cap);
        k->busy = more;
        k->cap_busy = cap;
    }
    k->busy[k->n_busy++] = (struct span){start_ps, end_ps};
    return 0;
}

static int place(struct task *k, const struct seen *s)
{
    int64_t end_ps = s->start_ps + s->duration_ps;
    unsigned apart;
    if (end_ps < k->window.start_ps || s->start_ps > k->window.end_ps) {
        k->outside++;
        return 0;
    }
    k->events++;
    size_t row = timeline_place(k->pack, s->start_ps, end_ps, &apart);
    if (k->counting) {
        k->apart[apart]++;
        return 0;
    }
    struct timeline_record r = {s->start_ps, s->duration_ps, s->duration_ps, 1, s->name, s->stats.data, s->stats.size};
    int rc = timeline_put(&k->rows[row], &r, k->cell_bits, &k->longest[row], &k->error);
    if (!rc && k->operations && s->duration_ps)
        rc = add_busy(k, s->start_ps, end_ps);
    return rc;
}

static int keep(struct task *k, const struct seen *s)
{
    if (!k->kept || k->n_kept == k->cap_kept) {
        size_t cap = k->cap_kept ? 2 * k->cap_kept : 1024;
        struct seen *more = realloc(k->kept, cap * sizeof *more);
        if (!more)
            return error_set(&k->error, ERR_MEMORY, NULL, "no memory to sort a line of %zu events", k->n_kept);
        k->kept = more;
        k->cap_kept = cap;
    }
    k->kept[k->n_kept++] = *s;
    return 0;
}

static int by_start(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;
    if (x->start_ps != y->start_ps)
        return x->start_ps < y->start_ps ? -1 : 1;
    if (x->duration_ps != y->duration_ps)
        return x->duration_ps > y->duration_ps ? -1 : 1;
    return (x->stats.data > y->stats.data) - (x->stats.data < y->stats.data); // as they stand in the file
}

static int add_event(struct task *k, const struct xevent *e)
{
    struct seen s = {.duration_ps = e->duration_ps, .stats = e->stats};
    if (e->occurrences) {
        k->no_time++;
        return 0;
    }
    if (__builtin_add_overflow(k->base_ps, e->offset_ps, &s.start_ps) || s.start_ps < -TALLY_RANGE_PS ||
        s.start_ps > TALLY_RANGE_PS || s.duration_ps < 0 || s.duration_ps > TALLY_RANGE_PS - s.start_ps) {
        k->impossible++;
        return 0;
    }
    const struct xmeta *row = xtable_find(&k->plane->event_table, e->metadata_id);
    s.name = row ? (uint32_t)(row - k->plane->event_table.rows) + 1 : 0;
    int64_t end_ps = s.start_ps + s.duration_ps;
    if (s.start_ps < k->bounds.start_ps)
        k->bounds.start_ps = s.start_ps;
    if (end_ps > k->bounds.end_ps)
        k->bounds.end_ps = end_ps;
    if (k->unsorted)
        return keep(k, &s);
    if (s.start_ps < k->last_start_ps || (s.start_ps == k->last_start_ps && s.duration_ps > k->last_duration_ps)) {
        k->unsorted = true;
        return 0;
    }
    k->last_start_ps = s.start_ps;
    k->last_duration_ps = s.duration_ps;
    return place(k, &s);
}

static int walk(struct task *k)
{
    bool unsorted = k->unsorted;
    struct xevents events = xline_events(k->line);
    struct xevent e;
    int rc = 0;
    memset(k->pack, 0, sizeof *k->pack);
    memset(k->apart, 0, sizeof k->apart);
    k->bounds = (struct span){INT64_MAX, INT64_MIN};
    k->events = k->outside = k->no_time = k->impossible = 0;
    k->n_kept = 0;
    k->last_start_ps = INT64_MIN;
    while (!rc && k->unsorted == unsorted && xevent_next(&events, &e))
        rc = add_event(k, &e);
    if (!rc && k->unsorted != unsorted)
        return walk(k); // once more, keeping all
    if (k->counting)
        xevents_damage(&k->file->space, &events, &k->damage);
    if (k->n_kept)
        qsort(k->kept, k->n_kept, sizeof *k->kept, by_start);
    for (size_t i = 0; i < k->n_kept && !rc; i++)
        rc = place(k, &k->kept[i]);
    return rc;
}

static void walk_guarded(struct task *k)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &k->file->map)) {
        k->rc = file_guard_error(&g, &k->error);
        return;
    }
    k->rc = walk(k);
    file_guard_end(&g);
}

static void walk_one(struct task *k)
{
    k->pack = calloc(1, sizeof *k->pack);
    k->rows = k->counting ? NULL : calloc(TIMELINE_ROWS, sizeof *k->rows);
    if (!k->pack || (!k->counting && !k->rows))
        k->rc = error_set(&k->error, ERR_MEMORY, NULL, "no memory for the rows of a timeline");
    else
        walk_guarded(k);
    free(k->pack);
    free(k->kept);
    k->pack = NULL;
    k->kept = NULL;
    k->n_kept = k->cap_kept = 0;
}

static void walk_some(void *context, size_t from, size_t to)
{
    struct task *const *tasks = context;
    for (size_t i = from; i < to; i++)
        walk_one(tasks[i]);
}

// ---- All lines

struct work {
    struct timeline *l;
    struct trace *trace;
    struct trace_devices devices;
    struct task *tasks; // plane by plane
    struct task **order;
    size_t n;
    struct threads *threads;
    struct span bounds;
};

static int by_size(const void *a, const void *b)
{
    size_t x = (*(struct task *const *)a)->line->events.size, y = (*(struct task *const *)b)->line->events.size;
    return (x < y) - (x > y);
}

static int walk_all(struct work *w, bool counting, struct error *err)
{
    for (size_t i = 0; i < w->n; i++)
        w->tasks[i].counting = counting;
    threads_for(w->threads, w->n, 1, walk_some, w->order);
    for (size_t i = 0; i < w->n; i++) {
        if (w->tasks[i].rc) {
            if (err)
                *err = w->tasks[i].error;
            return w->tasks[i].rc;
        }
    }
    return 0;
}

static bool is_device(const struct work *w, const struct xplane *p)
{
    for (size_t i = 0; i < w->devices.n; i++) {
        if (w->devices.items[i].plane == p)
            return w->devices.items[i].kind != TRACE_HOST;
    }
    return p->name.size >= 8 && memcmp(p->name.data, "/device:", 8) == 0;
}

static bool has_operations(const struct work *w, const struct xline *line)
{
    for (size_t i = 0; i < w->devices.n; i++) {
        for (size_t k = 0; k < w->devices.items[i].n_lines; k++) {
            if (w->devices.items[i].lines[k] == line)
                return true;
        }
    }
    return false;
}

static int add_plane(struct work *w, struct trace_file *f, struct xplane *p, const struct trace_epoch *clock,
                     struct error *err)
{
    struct timeline *l = w->l;
    struct timeline_plane *into = &l->planes[l->n_planes];
    *into = (struct timeline_plane){.file = f, .plane = p, .device = is_device(w, p)};
    into->lines = arena_new(&l->arena, struct timeline_line, p->n_lines + 1, err);
    if (!into->lines)
        return ERR_MEMORY;
    for (size_t i = 0; i < p->n_lines; i++) {
        struct xline *line = &p->lines[i];
        if (!line->events.size)
            continue;
        struct task *k = &w->tasks[w->n];
        *k = (struct task){.file = f, .line = line, .plane = p, .device = into->device};
        k->operations = has_operations(w, line);
        if (!trace_epoch_base(clock, line, &k->base_ps))
            k->base_ps = INT64_MAX;
        w->order[w->n++] = k;
        into->lines[into->n_lines++].line = line;
    }
    l->n_planes += into->n_lines > 0;
    return 0;
}

static int make_tasks(struct work *w, struct error *err)
{
    struct trace *t = w->trace;
    size_t planes = 0, lines = 0;
    struct trace_epoch *clocks = NULL;
    for (size_t i = 0; i < t->n_files; i++) {
        planes += t->files[i].space.n_planes;
        for (size_t k = 0; k < t->files[i].space.n_planes; k++)
            lines += t->files[i].space.planes[k].n_lines;
    }
    w->l->planes = arena_new(&w->l->arena, struct timeline_plane, planes, err);
    w->tasks = calloc(lines ? lines : 1, sizeof *w->tasks);
    w->order = arena_alloc(&w->l->arena, lines, sizeof(void *), err);
    if (!w->l->planes || !w->tasks || !w->order)
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu lines", lines);
    int rc = trace_epochs(t, &clocks, err);
    for (int device = 1; device >= 0 && !rc; device--) {
        for (size_t i = 0; i < t->n_files && !rc; i++) {
            for (size_t k = 0; k < t->files[i].space.n_planes && !rc; k++) {
                struct xplane *p = &t->files[i].space.planes[k];
                if (is_device(w, p) == device)
                    rc = add_plane(w, &t->files[i], p, &clocks[i], err);
            }
        }
    }
    if (!rc && w->n)
        qsort(w->order, w->n, sizeof(void *), by_size);
    return rc;
}

// Where the profile begins and ends: that of all events, whatever the window.
static void find_bounds(struct work *w)
{
    w->bounds = (struct span){INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < w->n; i++) {
        const struct span *b = &w->tasks[i].bounds;
        w->bounds.start_ps = b->start_ps < w->bounds.start_ps ? b->start_ps : w->bounds.start_ps;
        w->bounds.end_ps = b->end_ps > w->bounds.end_ps ? b->end_ps : w->bounds.end_ps;
    }
    if (w->bounds.start_ps > w->bounds.end_ps)
        w->bounds = (struct span){0, 0};
    w->l->zero_ps = w->bounds.start_ps;
    w->l->length_ps = w->bounds.end_ps - w->bounds.start_ps;
}

static void set_window(struct work *w, struct span window)
{
    for (size_t i = 0; i < w->n; i++)
        w->tasks[i].window = window;
}

static int count_events(struct work *w, const struct timeline_options *o, struct error *err)
{
    struct timeline *l = w->l;
    set_window(w, (struct span){INT64_MIN, INT64_MAX});
    int rc = walk_all(w, true, err);
    if (rc)
        return rc;
    find_bounds(w);
    for (size_t i = 0; i < w->n; i++)
        xdamage_add(&w->tasks[i].file->space.damage, &w->tasks[i].damage);
    l->from_ps = o->from_ps;
    l->to_ps = o->to_ps < 0 || o->to_ps > l->length_ps ? l->length_ps : o->to_ps;
    if (o->from_ps < 0 || l->from_ps > l->to_ps)
        return error_set(err, ERR_USAGE, "window", "begins after its end or after the profile's, which is %.12g s long",
                         (double)l->length_ps * 1e-12);
    set_window(w, (struct span){w->bounds.start_ps + l->from_ps, w->bounds.start_ps + l->to_ps});
    return l->from_ps > 0 || l->to_ps < l->length_ps ? walk_all(w, true, err) : 0;
}

// How many records there are when no line has more than `most`, where the lines are those of devices or of hosts; each
// line's cell is set.
static uint64_t share_out(struct work *w, bool device, uint64_t most)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < w->n; i++) {
        uint64_t n;
        if (w->tasks[i].device != device)
            continue;
        w->tasks[i].cell_bits = timeline_cell(w->tasks[i].apart, most, &n);
        sum += n;
    }
    return sum;
}

// The largest number of records that a line may have so that all together are within `most`.
static uint64_t fit(struct work *w, bool device, uint64_t most)
{
    uint64_t low = 0, high = most, n = share_out(w, device, most);
    if (n <= most)
        return n;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        *(share_out(w, device, middle) <= most ? &low : &high) = middle;
    }
    return share_out(w, device, low);
}

static void choose_cells(struct work *w, size_t most)
{
    uint64_t devices = fit(w, true, most - most / 4);
    fit(w, false, most > devices ? most - devices : 0);
}

// ---- Results

static int64_t clamped(int64_t v, struct span to)
{
    return v < to.start_ps ? to.start_ps : v > to.end_ps ? to.end_ps : v;
}

static int by_span(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return (x->start_ps > y->start_ps) - (x->start_ps < y->start_ps);
}

// The busy time of a plane, from that of its lines, as the last line.
static int add_busy_line(struct timeline_plane *p, const struct task *tasks, struct error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_lines; i++)
        n += tasks[i].n_busy;
    if (!n)
        return 0;
    struct timeline_line *line = &p->lines[p->n_lines];
    struct span *spans = malloc(n * sizeof *spans);
    line->rows = calloc(1, sizeof *line->rows);
    p->n_lines++;
    line->n_rows = line->rows ? 1 : 0;
    if (!spans || !line->rows) {
        free(spans);
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu spans of busy time", n);
    }
    size_t at = 0;
    int64_t longest = 0;
    int rc = 0, cell_bits = -1;
    for (size_t i = 0; i + 1 < p->n_lines; i++) {
        if (tasks[i].n_busy && tasks[i].cell_bits > cell_bits)
            cell_bits = tasks[i].cell_bits;
        if (tasks[i].n_busy)
            memcpy(&spans[at], tasks[i].busy, tasks[i].n_busy * sizeof *spans);
        at += tasks[i].n_busy;
    }
    qsort(spans, n, sizeof *spans, by_span);
    for (size_t i = 0; i < n && !rc;) {
        struct span s = spans[i];
        for (i++; i < n && spans[i].start_ps <= s.end_ps; i++)
            s.end_ps = spans[i].end_ps > s.end_ps ? spans[i].end_ps : s.end_ps;
        struct span in = {clamped(s.start_ps, tasks[0].window), clamped(s.end_ps, tasks[0].window)};
        struct timeline_record r = {in.start_ps, in.end_ps - in.start_ps, in.end_ps - in.start_ps, 1, 0, NULL, 0};
        rc = timeline_put(line->rows, &r, cell_bits, &longest, err);
        line->events++;
    }
    free(spans);
    return rc;
}

static int take_rows(struct timeline_line *line, struct task *k, struct error *err)
{
    size_t n = 0;
    while (k->rows && n < TIMELINE_ROWS && k->rows[n].n)
        n++;
    line->rows = calloc(n ? n : 1, sizeof *line->rows);
    if (!line->rows)
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu rows", n);
    for (size_t r = 0; r < n; r++) {
        line->rows[r] = k->rows[r];
        k->rows[r] = (struct timeline_row){0};
    }
    line->cell_ps = k->cell_bits < 0 ? 0 : (int64_t)1 << k->cell_bits;
    line->n_rows = n;
    line->events = k->events;
    return 0;
}

static void rebase(struct timeline *l, int64_t start_ps)
{
    for (size_t i = 0; i < l->n_planes; i++) {
        for (size_t k = 0; k < l->planes[i].n_lines; k++) {
            const struct timeline_line *line = &l->planes[i].lines[k];
            for (size_t r = 0; r < line->n_rows; r++) {
                for (size_t j = 0; j < line->rows[r].n; j++)
                    line->rows[r].records[j].start_ps -= start_ps;
                if (!line->line)
                    continue;
                for (size_t j = 0; j < line->rows[r].n; j++)
                    l->merged += line->rows[r].records[j].count > 1 ? line->rows[r].records[j].count : 0;
                l->records += line->rows[r].n;
            }
        }
    }
}

static int collect(struct work *w, struct error *err)
{
    struct timeline *l = w->l;
    struct task *k = w->tasks;
    int rc = 0;
    for (size_t i = 0; i < l->n_planes && !rc; i++) {
        struct timeline_plane *p = &l->planes[i];
        size_t n = p->n_lines;
        for (size_t j = 0; j < n && !rc; j++) {
            rc = take_rows(&p->lines[j], &k[j], err);
            l->events += k[j].events;
            l->outside += k[j].outside;
            l->no_time += k[j].no_time;
            l->impossible += k[j].impossible;
        }
        if (!rc)
            rc = add_busy_line(p, k, err);
        k += n;
    }
    rebase(l, w->bounds.start_ps);
    return rc;
}

static void release_work(struct work *w)
{
    for (size_t i = 0; i < w->n; i++) {
        struct task *k = &w->tasks[i];
        for (size_t r = 0; k->rows && r < TIMELINE_ROWS; r++)
            free(k->rows[r].records);
        free(k->rows);
        free(k->busy);
    }
    free(w->tasks);
}

int timeline_make(struct timeline *l, struct trace *t, const struct timeline_options *o, struct threads *threads,
                  struct error *err)
{
    struct work w = {.l = l, .trace = t, .threads = threads};
    memset(l, 0, sizeof *l);
    arena_init(&l->arena);
    int rc = trace_find_devices(t, &w.devices, err);
    if (!rc)
        rc = make_tasks(&w, err);
    if (!rc)
        rc = count_events(&w, o, err);
    if (!rc) {
        choose_cells(&w, o->max_records);
        rc = walk_all(&w, false, err);
    }
    if (!rc)
        rc = collect(&w, err);
    release_work(&w);
    return rc;
}

void timeline_release(struct timeline *l)
{
    for (size_t i = 0; i < l->n_planes; i++) {
        for (size_t k = 0; k < l->planes[i].n_lines; k++) {
            struct timeline_line *line = &l->planes[i].lines[k];
            for (size_t r = 0; r < line->n_rows; r++)
                free(line->rows[r].records);
            free(line->rows);
        }
    }
    arena_release(&l->arena);
    memset(l, 0, sizeof *l);
}
