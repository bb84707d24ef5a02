// SPDX-License-Identifier: Apache-2.0
#include "trace/steps_sweep.h"

#include <stdlib.h>
#include <string.h>

// ---- What an event of a host is

const char *trace_fill_name(enum trace_fill fill)
{
    static const char *const names[] = {"compilation", "input",      "output transfers", "conversions",
                                        "dispatch",    "other work", "Python",           "nothing"};
    return names[fill];
}

const char *trace_place_name(enum trace_place place)
{
    static const char *const names[] = {"before the first operation", "inside steps", "between steps",
                                        "after the last operation"};
    return names[place];
}

static bool contains(struct slice s, const char *text)
{
    return memmem(s.data, s.size, text, strlen(text)) != NULL;
}

enum trace_fill trace_fill_of(struct slice name)
{
    // The first that fits. Names: of PJRT's clients for CPU, GPU and TPU, of jax, of XLA and of the GPU runtimes.
    static const struct {
        const char *part;
        enum trace_fill fill;
    } words[] = {
        {"Acquire", FILL_NOTHING},
        {"Wait", FILL_NOTHING},
        {"wait_for", FILL_NOTHING},
        {"Await", FILL_NOTHING},
        {"block_until", FILL_NOTHING},
        {"ReadSyncFlag", FILL_NOTHING},
        {"Synchronize", FILL_NOTHING},
        {"ThreadpoolListener", FILL_NOTHING},
        {"Scheduled ", FILL_NOTHING},
        {"backend_compile", FILL_COMPILE},
        {"Compile", FILL_COMPILE},
        {"XLA::", FILL_COMPILE},
        {"HLO passes", FILL_COMPILE},
        {"hlo passes", FILL_COMPILE},
        {"lowering", FILL_COMPILE},
        {"compile", FILL_COMPILE},
        {"codegen", FILL_COMPILE},
        {"H2D", FILL_INPUT},
        {"HtoD", FILL_INPUT},
        {"TransferToDevice", FILL_INPUT},
        {"CopyToDevice", FILL_INPUT},
        {"DevicePut", FILL_INPUT},
        {"device_put", FILL_INPUT},
        {"BufferFromHost", FILL_INPUT},
        {"LinearizeHostBuffer", FILL_INPUT},
        {"shard_arg", FILL_INPUT},
        {"Infeed", FILL_INPUT},
        {"Iterator::", FILL_INPUT},
        {"upload", FILL_INPUT},
        {"D2H", FILL_OUTPUT},
        {"DtoH", FILL_OUTPUT},
        {"TransferFromDevice", FILL_OUTPUT},
        {"ToLiteral", FILL_OUTPUT},
        {"CopyToHost", FILL_OUTPUT},
        {"copy_to_host", FILL_OUTPUT},
        {"Outfeed", FILL_OUTPUT},
        {"Memcpy", FILL_OUTPUT},
        {"download", FILL_OUTPUT},
        {"Transpose", FILL_CONVERSION},
        {"inearize", FILL_CONVERSION},
        {"np.asarray", FILL_CONVERSION},
        {"convert", FILL_CONVERSION},
        {"Convert", FILL_CONVERSION},
        {"PjitFunction", FILL_DISPATCH},
        {"Execut", FILL_DISPATCH},
        {"execute", FILL_DISPATCH},
        {"Launch", FILL_DISPATCH},
        {"LoadProgram", FILL_DISPATCH},
        {"Enqueue", FILL_DISPATCH},
        {"dispatch", FILL_DISPATCH},
        {"Dispatch", FILL_DISPATCH},
        {"ThunkExecutor", FILL_DISPATCH},
        {"XLA GPU module", FILL_DISPATCH},
    };
    if (name.size && name.data[0] == '$')
        return FILL_PYTHON;
    if (name.size > 13 && memcmp(name.data, "PjitFunction(", 13) == 0)
        return FILL_DISPATCH; // what is in its parentheses is the user's word
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (contains(name, words[i].part))
            return words[i].fill;
    }
    return FILL_OTHER;
}

static bool is_collective(struct slice name)
{
    static const char *const words[] = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all",       "collective",
                                        "ncclDev",    "ncclKernel", "rccl",           "ragged-all-to-all"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (contains(name, words[i]))
            return true;
    }
    return false;
}

// What rows of a table of events are, found out once for each: a byte by row.
struct classes {
    const struct xplane *plane;
    uint8_t *of; // malloc'd
};

static int classify(struct classes *c, const struct xplane *p, bool host, struct error *err)
{
    c->plane = p;
    c->of = calloc(p->event_table.n_rows + 1, 1);
    if (!c->of)
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu names", p->event_table.n_rows);
    for (size_t i = 0; i < p->event_table.n_rows; i++) {
        const struct xmeta *m = &p->event_table.rows[i];
        // A TPU's name is the whole instruction, whose operands may be collectives.
        c->of[i] =
            host ? (uint8_t)trace_fill_of(m->name) : is_collective(m->display_name.size ? m->display_name : m->name);
    }
    return 0;
}

static unsigned class_of(const struct classes *c, const struct xevent *e, unsigned absent)
{
    const struct xmeta *row = xtable_find(&c->plane->event_table, e->metadata_id);
    return row ? c->of[row - c->plane->event_table.rows] : absent;
}

// ---- One device

struct sweep {
    struct trace_steps *steps;
    struct trace_idle *out;
    struct classes classes;
    struct trace_spans walk;
    struct busy collective;
    int64_t busy_from, collective_from; // of the stretch that is not over
    int64_t gap_from, gap_to;           // idle time that hosts are still asked about
    int64_t first_ps;                   // of its operations
    size_t at_busy, at_collective, at_idle;
    bool ended, is_host;
};

enum part { PART_BUSY, PART_COLLECTIVE, PART_IDLE };

// Gives [from, to) to the steps it lies in. *at is the first step that may still get something.
static void give(struct sweep *w, size_t *at, int64_t from, int64_t to, enum part part, enum trace_fill fill)
{
    struct trace_step *all = w->steps->items + w->out->first_step;
    while (from < to) {
        while (*at < w->out->n_steps && all[*at].start_ps + all[*at].duration_ps <= from)
            ++*at;
        struct trace_step *step = *at < w->out->n_steps ? &all[*at] : NULL;
        int64_t until = to;
        bool inside = step && step->start_ps <= from;
        if (step && !inside && step->start_ps < until)
            until = step->start_ps;
        int64_t work = inside ? step->start_ps + step->work_ps : 0,
                end = inside ? step->start_ps + step->duration_ps : 0;
        bool working = inside && from < work;
        if (working && work < until)
            until = work;
        if (inside && end < until)
            until = end;
        int64_t ps = until - from;
        if (inside && part == PART_BUSY)
            step->busy_ps += ps;
        else if (inside && part == PART_COLLECTIVE)
            step->collective_ps += ps;
        if (part == PART_IDLE) {
            // With no step at all everything is inside of one.
            enum trace_place place = working || !w->out->n_steps ? PLACE_INSIDE : PLACE_BETWEEN;
            w->out->idle_ps[place][fill] += ps;
            if (inside && fill == FILL_INPUT)
                step->input_ps += ps;
            else if (inside && fill != FILL_NOTHING)
                step->host_ps += ps;
        }
        from = until;
    }
}

static void idle(struct sweep *w, int64_t from, int64_t to, enum trace_fill fill)
{
    if (from >= to)
        return;
    if (to <= w->first_ps)
        w->out->idle_ps[PLACE_BEFORE][fill] += to - from;
    else if (w->ended && from >= w->out->busy.last_ps)
        w->out->idle_ps[PLACE_AFTER][fill] += to - from;
    else
        give(w, &w->at_idle, from, to, PART_IDLE, fill);
}

static void add_collective(struct sweep *w, const struct trace_span *s)
{
    int64_t gap;
    if (!class_of(&w->classes, &s->event, 0))
        return;
    if (busy_add(&w->collective, s->start_ps, s->end_ps, &gap)) {
        give(w, &w->at_collective, w->collective_from, gap, PART_COLLECTIVE, FILL_NOTHING);
        w->collective_from = s->start_ps;
    } else if (w->collective.spans == 1) {
        w->collective_from = s->start_ps;
    }
}

// The next operation. A host's markers are none: they last as long as what they mark.
static bool next_operation(struct sweep *w, struct trace_span *s)
{
    int64_t number;
    while (trace_spans_next(&w->walk, s)) {
        if (!w->is_host || !trace_is_marker(w->walk.plane, &s->event, &number))
            return true;
    }
    return false;
}

// The next gap between operations; after the last one everything to come.
static void next_gap(struct sweep *w)
{
    struct trace_span s;
    int64_t gap;
    while (next_operation(w, &s)) {
        bool found = busy_add(&w->out->busy, s.start_ps, s.end_ps, &gap);
        add_collective(w, &s);
        if (!found)
            continue;
        give(w, &w->at_busy, w->busy_from, gap, PART_BUSY, FILL_NOTHING);
        w->busy_from = s.start_ps;
        w->gap_from = gap;
        w->gap_to = s.start_ps;
        return;
    }
    if (!w->ended) {
        give(w, &w->at_busy, w->busy_from, w->out->busy.last_ps, PART_BUSY, FILL_NOTHING);
        if (w->collective.spans)
            give(w, &w->at_collective, w->collective_from, w->collective.last_ps, PART_COLLECTIVE, FILL_NOTHING);
        w->out->collective_ps = w->collective.busy_ps;
    }
    w->ended = true;
    w->gap_from = w->out->busy.last_ps;
    w->gap_to = INT64_MAX;
}

// What a host did in [from, to).
static void segment(struct sweep *w, int64_t from, int64_t to, enum trace_fill fill)
{
    while (w->gap_from < to) {
        int64_t until = w->gap_to < to ? w->gap_to : to;
        if (w->gap_from < from) {
            int64_t silent = from < until ? from : until;
            idle(w, w->gap_from, silent, FILL_NOTHING);
            w->gap_from = silent;
        }
        if (w->gap_from < until) {
            idle(w, w->gap_from, until, fill);
            w->gap_from = until;
        }
        if (w->gap_from < w->gap_to)
            return;
        next_gap(w);
    }
}

static int begin_device(struct sweep *w, struct trace_steps *s, size_t device, int64_t origin_ns, struct error *err)
{
    const struct trace_device *d = &s->modules.devices.items[device];
    struct trace_span first;
    int64_t gap;
    *w = (struct sweep){.steps = s, .out = &s->of_device[device], .is_host = d->kind == TRACE_HOST};
    int rc = classify(&w->classes, d->plane, false, err);
    if (!rc)
        rc = trace_spans_begin(&w->walk, d->plane, d->lines, d->n_lines, origin_ns, CLOCK_OF_LINE, err);
    if (rc || !next_operation(w, &first)) {
        w->ended = true;
        return rc;
    }
    busy_add(&w->out->busy, first.start_ps, first.end_ps, &gap);
    add_collective(w, &first);
    w->first_ps = w->busy_from = first.start_ps;
    w->gap_from = w->gap_to = first.start_ps;
    return 0;
}

static void end_device(struct sweep *w, const struct trace_device *d)
{
    struct xdamage known = {0}; // found before
    if (w->out->busy.spans) {
        while (!w->ended) {
            idle(w, w->gap_from, w->gap_to, FILL_NOTHING);
            next_gap(w);
        }
    }
    for (size_t i = 0; i < w->out->n_steps; i++) {
        struct trace_step *step = &w->steps->items[w->out->first_step + i];
        step->idle_ps = step->duration_ps - step->busy_ps;
    }
    trace_spans_end(&w->walk, &d->file->space, &known);
    free(w->classes.of);
}

// ---- Hosts

struct hosts {
    struct sweep *devices;
    size_t n;
    int64_t ends[FILLS]; // latest end of each kind
    int64_t at;          // told until here
    int64_t steps_from, steps_to;
    int64_t *compiling_ps;
};

static void tell_until(struct hosts *h, int64_t until)
{
    while (h->at < until) {
        int64_t to = until;
        unsigned fill = 0;
        while (fill < FILL_NOTHING && h->ends[fill] <= h->at)
            fill++;
        if (fill < FILL_NOTHING && h->ends[fill] < to)
            to = h->ends[fill];
        for (size_t i = 0; i < h->n; i++) {
            if (h->devices[i].out->busy.spans)
                segment(&h->devices[i], h->at, to, (enum trace_fill)fill);
        }
        int64_t from = h->at > h->steps_from ? h->at : h->steps_from, end = to < h->steps_to ? to : h->steps_to;
        if (fill == FILL_COMPILE && from < end)
            *h->compiling_ps += end - from;
        h->at = to;
    }
}

static bool is_host(const struct xplane *p)
{
    return p->name.size >= 9 && memcmp(p->name.data, "/host:CPU", 9) == 0;
}

static int add_threads(struct trace_steps *s, struct trace_file *f, struct xline *const *lines, const struct busy *busy,
                       size_t n, struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        struct trace_thread *more =
            arena_grow(&s->modules.arena, s->threads, &s->cap_threads, s->n_threads + 1, sizeof *more, err);
        const char *name =
            more ? arena_strndup(&s->modules.arena, (const char *)lines[i]->name.data, lines[i]->name.size, err) : NULL;
        if (!name)
            return ERR_MEMORY;
        s->threads = more;
        s->threads[s->n_threads++] = (struct trace_thread){f, {(const uint8_t *)name, lines[i]->name.size}, busy[i]};
    }
    return 0;
}

static int sweep_host(struct trace_steps *s, struct hosts *h, struct trace_file *f, struct xplane *p, int64_t origin_ns,
                      struct error *err)
{
    struct classes c = {0};
    struct trace_spans walk = {0};
    struct trace_span e;
    struct xline **lines = calloc(p->n_lines + 1, sizeof(struct xline *));
    struct busy *busy = calloc(p->n_lines + 1, sizeof *busy);
    size_t n = 0;
    int64_t gap, reach = INT64_MIN;
    for (size_t i = 0; i < p->n_lines && lines && busy; i++) {
        if (p->lines[i].events.size)
            lines[n++] = &p->lines[i];
    }
    int rc = lines && busy ? classify(&c, p, true, err) : error_set(err, ERR_MEMORY, NULL, "no memory for a host");
    if (!rc)
        rc = trace_spans_begin(&walk, p, lines, n, origin_ns, CLOCK_OF_LINE, err);
    while (!rc && trace_spans_next(&walk, &e)) {
        busy_add(&busy[e.line], e.start_ps, e.end_ps, &gap);
        if (reach == INT64_MIN) {
            h->at = e.start_ps;
            for (size_t i = 0; i < h->n; i++) { // the idle time before a device's first operation starts here
                struct sweep *w = &h->devices[i];
                w->gap_from = h->at < w->gap_from ? h->at : w->gap_from;
            }
        }
        tell_until(h, e.start_ps);
        unsigned fill = class_of(&c, &e.event, FILL_OTHER);
        h->ends[fill] = e.end_ps > h->ends[fill] ? e.end_ps : h->ends[fill];
        reach = e.end_ps > reach ? e.end_ps : reach;
    }
    if (reach > INT64_MIN)
        tell_until(h, reach);
    if (!rc)
        rc = add_threads(s, f, lines, busy, n, err);
    trace_spans_end(&walk, &f->space, &f->space.damage);
    free(c.of);
    free(lines);
    free(busy);
    return rc;
}

static int sweep_file(struct trace *t, struct trace_steps *s, struct trace_file *f, struct error *err)
{
    int64_t origin_ns = trace_origin_ns(t);
    struct trace_devices *all = &s->modules.devices;
    struct sweep *w = calloc(all->n + 1, sizeof *w);
    struct hosts h = {.devices = w, .steps_from = INT64_MAX, .steps_to = INT64_MIN, .compiling_ps = &s->compiling_ps};
    size_t first = 0;
    int rc = w ? 0 : error_set(err, ERR_MEMORY, NULL, "no memory for %zu devices", all->n);
    while (first < all->n && all->items[first].file != f)
        first++;
    for (int i = 0; i < FILLS; i++)
        h.ends[i] = INT64_MIN;
    for (size_t i = first; i < all->n && all->items[i].file == f && !rc; i++) {
        rc = begin_device(&w[h.n++], s, i, origin_ns, err);
        const struct trace_idle *d = &s->of_device[i];
        if (d->n_steps) {
            const struct trace_step *a = &s->items[d->first_step], *z = a + d->n_steps - 1;
            h.steps_from = a->start_ps < h.steps_from ? a->start_ps : h.steps_from;
            h.steps_to = z->start_ps + z->duration_ps > h.steps_to ? z->start_ps + z->duration_ps : h.steps_to;
        }
    }
    // One host tells what filled gaps; a file with several has them as planes of their own processes.
    for (size_t i = 0, told = 0; i < f->space.n_planes && !rc; i++) {
        if (is_host(&f->space.planes[i]) && !told++)
            rc = sweep_host(s, &h, f, &f->space.planes[i], origin_ns, err);
    }
    for (size_t i = 0; i < h.n; i++)
        end_device(&w[i], &all->items[first + i]);
    free(w);
    return rc;
}

static int by_busy(const void *a, const void *b)
{
    const struct trace_thread *x = a, *y = b;
    if (x->busy.busy_ps != y->busy.busy_ps)
        return x->busy.busy_ps < y->busy.busy_ps ? 1 : -1;
    size_t n = x->name.size < y->name.size ? x->name.size : y->name.size;
    int c = n ? memcmp(x->name.data, y->name.data, n) : 0;
    return c ? c : (x->name.size > y->name.size) - (x->name.size < y->name.size);
}

static int sweep_guarded(struct trace *t, struct trace_steps *s, struct trace_file *f, struct error *err)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &f->map))
        return file_guard_error(&g, err);
    int rc = sweep_file(t, s, f, err);
    file_guard_end(&g);
    return rc;
}

int trace_steps_sweep(struct trace *t, struct trace_steps *s, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < t->n_files && !rc; i++)
        rc = sweep_guarded(t, s, &t->files[i], err);
    if (s->n_threads)
        qsort(s->threads, s->n_threads, sizeof *s->threads, by_busy);
    return rc;
}
