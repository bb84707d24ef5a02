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
        if (slice_contains(name, words[i].part))
            return words[i].fill;
    }
    return FILL_OTHER;
}

static bool is_collective(struct slice name)
{
    static const char *const words[] = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all",       "collective",
                                        "ncclDev",    "ncclKernel", "rccl",           "ragged-all-to-all"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (slice_contains(name, words[i]))
            return true;
    }
    return false;
}

// What rows of a table of events are, found out once for each: a byte by id where ids index the table, else by row.
struct classes {
    const struct xtable *table;
    uint8_t *of; // malloc'd
    uint8_t absent;
};

static int classify(struct classes *c, const struct xplane *p, bool host, struct error *err)
{
    const struct xtable *t = &p->event_table;
    size_t n = t->direct ? t->n_slots : t->n_rows;
    *c = (struct classes){.table = t, .of = malloc(n + 1), .absent = host ? FILL_OTHER : 0};
    if (!c->of)
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu names", t->n_rows);
    memset(c->of, c->absent, n + 1);
    for (size_t i = 0; i < n; i++) {
        if (t->direct && !t->slots[i])
            continue;
        const struct xmeta *m = &t->rows[t->direct ? t->slots[i] - 1 : i];
        // A TPU's name is the whole instruction, whose operands may be collectives.
        c->of[i] =
            host ? (uint8_t)trace_fill_of(m->name) : is_collective(m->display_name.size ? m->display_name : m->name);
    }
    return 0;
}

static inline unsigned class_of(const struct classes *c, const struct xevent *e)
{
    if (c->table->direct) {
        uint64_t slot = (uint64_t)e->metadata_id - (uint64_t)c->table->first;
        return slot < c->table->n_slots ? c->of[slot] : c->absent;
    }
    const struct xmeta *row = xtable_find(c->table, e->metadata_id);
    return row ? c->of[row - c->table->rows] : c->absent;
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
    struct trace_step *all = w->out->n_steps ? w->steps->items + w->out->first_step : NULL;
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
    if (!class_of(&w->classes, &s->event))
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

static int begin_device(struct sweep *w, struct trace_steps *s, size_t device, int64_t origin_ns, bool again,
                        struct error *err)
{
    const struct trace_device *d = &s->modules.devices.items[device];
    struct trace_span first;
    int64_t gap;
    *w = (struct sweep){.steps = s, .out = &s->of_device[device], .is_host = d->kind == TRACE_HOST};
    int rc = classify(&w->classes, d->plane, false, err);
    if (!rc)
        rc = trace_spans_begin(&w->walk, d->plane, d->lines, d->n_lines, origin_ns, CLOCK_OF_LINE, err);
    if (!rc && again)
        rc = trace_spans_order(&w->walk, err);
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

static void end_device(struct sweep *w)
{
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
}

// ---- Hosts

struct hosts {
    struct sweep *devices;
    size_t n;
    int64_t ends[FILLS]; // latest end of each kind
    int64_t at;          // known until here
    int64_t told;        // and told until here; in between it was all `fill`
    unsigned fill;
    int64_t steps_from, steps_to;
    int64_t compiling_ps;
};

static void tell(struct hosts *h)
{
    int64_t from = h->told, to = h->at;
    for (size_t i = 0; i < h->n && from < to; i++) {
        if (h->devices[i].out->busy.spans)
            segment(&h->devices[i], from, to, (enum trace_fill)h->fill);
    }
    h->told = to;
    from = from > h->steps_from ? from : h->steps_from;
    to = to < h->steps_to ? to : h->steps_to;
    if (h->fill == FILL_COMPILE && from < to)
        h->compiling_ps += to - from;
}

static void know_until(struct hosts *h, int64_t until)
{
    while (h->at < until) {
        int64_t to = until;
        unsigned fill = 0;
        while (fill < FILL_NOTHING && h->ends[fill] <= h->at)
            fill++;
        if (fill < FILL_NOTHING && h->ends[fill] < to)
            to = h->ends[fill];
        if (fill != h->fill) {
            tell(h);
            h->fill = fill;
        }
        h->at = to;
    }
}

static bool is_host(const struct xplane *p)
{
    return p->name.size >= 9 && memcmp(p->name.data, "/host:CPU", 9) == 0;
}

static void begin_host(struct hosts *h, int64_t start_ps)
{
    h->at = h->told = start_ps;
    for (size_t i = 0; i < h->n; i++) { // the idle time before a device's first operation starts here
        struct sweep *w = &h->devices[i];
        w->gap_from = start_ps < w->gap_from ? start_ps : w->gap_from;
    }
}

static int walk_host(struct steps_sweep *one, struct hosts *h, struct trace_spans *walk, const struct xplane *p,
                     struct error *err)
{
    struct classes c;
    struct trace_span e;
    int64_t gap, reach = INT64_MIN;
    int rc = classify(&c, p, true, err);
    while (!rc && trace_spans_next(walk, &e)) {
        busy_add(&one->busy[e.line], e.start_ps, e.end_ps, &gap);
        if (reach == INT64_MIN)
            begin_host(h, e.start_ps);
        know_until(h, e.start_ps);
        unsigned fill = class_of(&c, &e.event);
        h->ends[fill] = e.end_ps > h->ends[fill] ? e.end_ps : h->ends[fill];
        reach = e.end_ps > reach ? e.end_ps : reach;
    }
    if (reach > INT64_MIN) {
        know_until(h, reach);
        tell(h);
    }
    free(c.of);
    return rc;
}

static int sweep_host(struct steps_sweep *one, struct hosts *h, struct trace_spans *walk, struct xplane *p, bool again,
                      struct error *err)
{
    one->lines = calloc(p->n_lines + 1, sizeof(struct xline *));
    one->busy = calloc(p->n_lines + 1, sizeof *one->busy);
    if (!one->lines || !one->busy)
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu lines", p->n_lines);
    for (size_t i = 0; i < p->n_lines; i++) {
        if (p->lines[i].events.size)
            one->lines[one->n_lines++] = &p->lines[i];
    }
    int rc = trace_spans_begin(walk, p, one->lines, one->n_lines, one->origin_ns, CLOCK_OF_LINE, err);
    if (!rc && again)
        rc = trace_spans_order(walk, err);
    return rc ? rc : walk_host(one, h, walk, p, err);
}

// ---- One file

static void forget(struct steps_sweep *one, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++) {
        struct trace_idle *d = &one->steps->of_device[i];
        *d = (struct trace_idle){.first_step = d->first_step, .n_steps = d->n_steps};
        for (size_t k = 0; k < d->n_steps; k++) {
            struct trace_step *step = &one->steps->items[d->first_step + k];
            step->busy_ps = step->collective_ps = step->host_ps = step->input_ps = 0;
        }
    }
    free(one->lines);
    free(one->busy);
    one->lines = NULL;
    one->busy = NULL;
    one->n_lines = 0;
}

static int begin_devices(struct steps_sweep *one, struct hosts *h, size_t first, size_t n, bool again,
                         struct error *err)
{
    struct trace_steps *s = one->steps;
    int rc = 0;
    for (size_t i = first; i < first + n && !rc; i++) {
        rc = begin_device(&h->devices[h->n++], s, i, one->origin_ns, again, err);
        const struct trace_idle *d = &s->of_device[i];
        if (d->n_steps) {
            const struct trace_step *a = &s->items[d->first_step], *z = a + d->n_steps - 1;
            h->steps_from = a->start_ps < h->steps_from ? a->start_ps : h->steps_from;
            h->steps_to = z->start_ps + z->duration_ps > h->steps_to ? z->start_ps + z->duration_ps : h->steps_to;
        }
    }
    return rc;
}

// *again: go by sorted lines; then whether that turned out to be needed.
static int sweep_once(struct steps_sweep *one, struct sweep *w, size_t first, size_t n, bool *again, struct error *err)
{
    struct xspace *space = &one->file->space;
    struct trace_spans walk = {0};
    struct hosts h = {.devices = w, .steps_from = INT64_MAX, .steps_to = INT64_MIN, .fill = FILL_NOTHING};
    for (int i = 0; i < FILLS; i++)
        h.ends[i] = INT64_MIN;
    memset(w, 0, n * sizeof *w);
    int rc = begin_devices(one, &h, first, n, *again, err);
    // One host tells what filled gaps; a file with several has them as planes of their own processes.
    for (size_t i = 0, told = 0; i < space->n_planes && !rc; i++) {
        if (is_host(&space->planes[i]) && !told++)
            rc = sweep_host(one, &h, &walk, &space->planes[i], *again, err);
    }
    one->compiling_ps = h.compiling_ps;
    *again = walk.disordered;
    for (size_t i = 0; i < h.n; i++) {
        end_device(&w[i]);
        *again |= w[i].walk.disordered;
    }
    struct xdamage *damage = *again ? NULL : &space->damage;
    trace_spans_end(&walk, space, damage);
    for (size_t i = 0; i < h.n; i++) {
        trace_spans_end(&w[i].walk, space, damage);
        free(w[i].classes.of);
    }
    return rc;
}

static int sweep_file(struct steps_sweep *one, struct error *err)
{
    const struct trace_devices *all = &one->steps->modules.devices;
    size_t first = 0, n = 0;
    while (first < all->n && all->items[first].file != one->file)
        first++;
    while (first + n < all->n && all->items[first + n].file == one->file)
        n++;
    struct sweep *w = calloc(n + 1, sizeof *w);
    if (!w)
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu devices", n);
    bool again = false;
    int rc = sweep_once(one, w, first, n, &again, err);
    if (!rc && again) {
        forget(one, first, n);
        rc = sweep_once(one, w, first, n, &again, err);
    }
    free(w);
    return rc;
}

// ---- All files

int steps_sweep_plan(struct trace *t, struct trace_steps *s, struct steps_sweep **out, struct error *err)
{
    *out = arena_new(&s->modules.arena, struct steps_sweep, t->n_files, err);
    for (size_t i = 0; i < t->n_files && *out; i++)
        (*out)[i] = (struct steps_sweep){.steps = s, .file = &t->files[i], .origin_ns = trace_origin_ns(t)};
    return *out ? 0 : ERR_MEMORY;
}

void steps_sweep_run(struct steps_sweep *one)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &one->file->map)) {
        one->rc = file_guard_error(&g, &one->error);
        return;
    }
    one->rc = sweep_file(one, &one->error);
    file_guard_end(&g);
}

static int add_threads(struct trace_steps *s, const struct steps_sweep *one, struct error *err)
{
    for (size_t i = 0; i < one->n_lines; i++) {
        struct trace_thread *more =
            arena_grow(&s->modules.arena, s->threads, &s->cap_threads, s->n_threads + 1, sizeof *more, err);
        if (!more)
            return ERR_MEMORY;
        s->threads = more;
        s->threads[s->n_threads] = (struct trace_thread){one->file, one->lines[i]->name, one->busy[i]};
        if (slice_copy(&s->modules.arena, &s->threads[s->n_threads++].name, err))
            return ERR_MEMORY;
    }
    return 0;
}

static int add_guarded(struct trace_steps *s, const struct steps_sweep *one, struct error *err)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &one->file->map))
        return file_guard_error(&g, err);
    int rc = add_threads(s, one, err);
    file_guard_end(&g);
    return rc;
}

static int by_busy(const void *a, const void *b)
{
    const struct trace_thread *x = a, *y = b;
    if (x->busy.busy_ps != y->busy.busy_ps)
        return x->busy.busy_ps < y->busy.busy_ps ? 1 : -1;
    return slice_compare(x->name, y->name);
}

int steps_sweep_finish(struct trace_steps *s, struct steps_sweep *all, size_t n, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < n; i++) {
        struct steps_sweep *one = &all[i];
        if (!rc && one->rc && err)
            *err = one->error;
        rc = rc ? rc : one->rc;
        if (!rc)
            rc = add_guarded(s, one, err);
        s->compiling_ps += one->compiling_ps;
        free(one->lines);
        free(one->busy);
    }
    if (s->n_threads)
        qsort(s->threads, s->n_threads, sizeof *s->threads, by_busy);
    return rc;
}
