// SPDX-License-Identifier: Apache-2.0
#include "trace/collectives.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "trace/busy.h"
#include "trace/clock.h"
#include "trace/collectives_hlo.h"
#include "trace/collectives_kinds.h"

// ---- Events

// One run of a collective on one device.
struct run {
    uint64_t program;
    struct slice name, module; // of the start, where it is asynchronous
    const char *kind;
    const struct collective_facts *facts;
    bool is_async;
    size_t device;
    int64_t start_ps, end_ps;
    int64_t group;    // among its facts' lists; -1: not known
    uint64_t ordinal; // among the device's runs of the operation
    int64_t hidden_ps;
    int64_t wait_ps; // -1: no partner in the profile
    bool partial;    // others of the group are not in the profile
};

// An end or a start that waits for its partner.
struct half {
    struct run run;
    enum collective_part part;
};

struct stretch {
    int64_t start_ps, end_ps;
};

// An event that may have others inside it; of which class the time is that it has for itself.
struct open {
    int64_t end_ps;
    bool computes;
};

struct walking {
    struct trace *t;
    struct trace_collectives *out;
    struct arena arena; // runs and texts while they are looked at
    struct collective_facts *facts;
    size_t n_facts;
    bool copies;
    struct run *runs;
    size_t n_runs, cap_runs;
    struct half *halves; // of one device
    size_t n_halves, cap_halves;
    struct stretch *compute; // of one device, by line, then united
    size_t n_compute, cap_compute;
    struct open *stack;
    size_t depth, cap_stack;
    struct error *err;
};

struct event {
    struct slice name, module, category;
    uint64_t program;
    enum collective_part part;
    const char *kind;
    const struct collective_facts *facts;
};

static void read_stats(struct event *e, const struct xplane *p, struct xstats walk)
{
    struct xstat s;
    while (xstat_next(&walk, &s)) {
        const struct xmeta *row = xtable_find(&p->stat_table, s.metadata_id);
        if (!row)
            continue;
        if (s.kind == XSTAT_TEXT && slice_is(row->name, "hlo_category"))
            e->category = s.bytes;
        else if (s.kind == XSTAT_TEXT && slice_is(row->name, "hlo_module"))
            e->module = s.bytes;
        else if ((s.kind == XSTAT_INT || s.kind == XSTAT_UINT) && slice_is(row->name, "program_id"))
            e->program = s.unsigned_number;
        else if (s.kind == XSTAT_TEXT && slice_is(row->name, "hlo_op") && e->part != COLLECTIVE_START)
            e->name = s.bytes;
    }
}

// "x" of "%x = f32[2] add(...)": what a TPU's rows are called; else the name for people, else the name.
static struct slice instruction_name(const struct xmeta *row)
{
    const uint8_t *end = row->name.size ? memchr(row->name.data, ' ', row->name.size) : NULL;
    if (end && row->name.data[0] == '%')
        return (struct slice){row->name.data + 1, (size_t)(end - row->name.data - 1)};
    return row->display_name.size ? row->display_name : row->name;
}

// Annotations of a GPU nest: "scope::fusion.3".
static struct slice last_part(struct slice name)
{
    for (size_t i = name.size; i >= 2; i--) {
        if (name.data[i - 1] == ':' && name.data[i - 2] == ':')
            return (struct slice){name.data + i, name.size - i};
    }
    return name;
}

static void classify(struct event *e, const struct walking *w, const struct xplane *p, const struct xevent *x,
                     bool async_line)
{
    const struct xmeta *row = xtable_find(&p->event_table, x->metadata_id);
    struct slice own = {0};
    *e = (struct event){0};
    if (row) {
        own = e->name = instruction_name(row);
        e->part = async_line ? COLLECTIVE_START : COLLECTIVE_NONE; // then hlo_op is its end
        read_stats(e, p, xmeta_stats(p, row));
    }
    read_stats(e, p, xevent_stats(p, x));
    e->name = last_part(e->name);
    e->facts = collective_facts_find(w->facts, w->n_facts, e->program, e->name);
    if (e->facts) {
        e->part = e->facts->part;
        e->kind = e->facts->kind;
    } else {
        e->part = collective_of_name(e->name, &e->kind);
        if (!e->part && slice_compare(own, e->name) != 0) // a kernel of a library, for an operation of another name
            e->part = collective_of_name(own, &e->kind);
    }
    if (e->part && !w->copies && strcmp(e->kind, "copy") == 0)
        e->kind = NULL;
}

static bool computes(const struct event *e)
{
    static const char *const frames[] = {"while", "conditional", "call"};
    if (e->part)
        return false;
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        size_t n = strlen(frames[i]);
        if (slice_is(e->category, frames[i]) ||
            (slice_starts_with(e->name, frames[i]) && (e->name.size == n || e->name.data[n] == '.')))
            return false;
    }
    return !slice_starts_with(e->name, "Memcpy") && !slice_starts_with(e->name, "Memset");
}

// ---- Time that a line computes

static int add_stretch(struct walking *w, int64_t start_ps, int64_t end_ps)
{
    if (start_ps >= end_ps)
        return 0;
    struct stretch *last = w->n_compute ? &w->compute[w->n_compute - 1] : NULL;
    if (last && last->end_ps == start_ps) {
        last->end_ps = end_ps;
        return 0;
    }
    struct stretch *more = arena_grow(&w->arena, w->compute, &w->cap_compute, w->n_compute + 1, sizeof *more, w->err);
    if (!more)
        return ERR_MEMORY;
    w->compute = more;
    more[w->n_compute++] = (struct stretch){start_ps, end_ps};
    return 0;
}

// Gives the time from *at on to what is open, up to `until`, and closes what ends before.
static int spend(struct walking *w, int64_t *at, int64_t until)
{
    int rc = 0;
    while (w->depth && !rc) {
        const struct open *top = &w->stack[w->depth - 1];
        int64_t end = top->end_ps < until ? top->end_ps : until;
        if (top->computes)
            rc = add_stretch(w, *at, end);
        *at = end > *at ? end : *at;
        if (top->end_ps > until)
            break;
        w->depth--;
    }
    *at = until > *at ? until : *at;
    return rc;
}

static int open_event(struct walking *w, int64_t end_ps, bool is_compute)
{
    struct open *more = arena_grow(&w->arena, w->stack, &w->cap_stack, w->depth + 1, sizeof *more, w->err);
    if (!more)
        return ERR_MEMORY;
    w->stack = more;
    more[w->depth++] = (struct open){end_ps, is_compute};
    return 0;
}

static int by_start(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;
    if (x->start_ps != y->start_ps)
        return x->start_ps < y->start_ps ? -1 : 1;
    return (x->end_ps > y->end_ps) - (x->end_ps < y->end_ps);
}

static int64_t unite(struct stretch *s, size_t *n)
{
    size_t kept = 0;
    int64_t all = 0;
    if (*n)
        qsort(s, *n, sizeof *s, by_start);
    for (size_t i = 0; i < *n; i++) {
        if (kept && s[i].start_ps <= s[kept - 1].end_ps) {
            if (s[i].end_ps > s[kept - 1].end_ps)
                s[kept - 1].end_ps = s[i].end_ps;
        } else {
            s[kept++] = s[i];
        }
    }
    for (size_t i = 0; i < kept; i++)
        all += s[i].end_ps - s[i].start_ps;
    *n = kept;
    return all;
}

// ---- One device

static int add_run(struct walking *w, const struct run *run)
{
    struct run *more = arena_grow(&w->arena, w->runs, &w->cap_runs, w->n_runs + 1, sizeof *more, w->err);
    if (!more)
        return ERR_MEMORY;
    w->runs = more;
    more[w->n_runs++] = *run;
    return 0;
}

static int add_event(struct walking *w, const struct event *e, size_t device, const struct trace_span *s, bool async)
{
    struct run run = {.program = e->program,
                      .name = e->name,
                      .module = e->module,
                      .kind = e->kind,
                      .facts = e->facts,
                      .is_async = async || e->part != COLLECTIVE_WHOLE,
                      .device = device,
                      .start_ps = s->start_ps,
                      .end_ps = s->end_ps};
    int rc = slice_copy(&w->out->arena, &run.name, w->err);
    if (!rc)
        rc = slice_copy(&w->out->arena, &run.module, w->err);
    if (rc || async || e->part == COLLECTIVE_WHOLE)
        return rc ? rc : add_run(w, &run);
    struct half *more = arena_grow(&w->arena, w->halves, &w->cap_halves, w->n_halves + 1, sizeof *more, w->err);
    if (!more)
        return ERR_MEMORY;
    w->halves = more;
    more[w->n_halves++] = (struct half){run, e->part};
    return 0;
}

static int walk_lines(struct walking *w, size_t device, struct xline *const *lines, size_t n, bool async,
                      const struct trace_epoch *clock)
{
    const struct trace_device *d = &w->out->found.items[device];
    struct trace_spans walk;
    struct trace_span s;
    int64_t at;
    size_t n_compute = w->n_compute, n_runs = w->n_runs, n_halves = w->n_halves;
    int rc = trace_spans_begin(&walk, d->plane, lines, n, clock->origin_ns, CLOCK_OF_LINE, w->err);
    do {
        at = INT64_MIN;
        w->depth = 0;
        w->n_compute = n_compute;
        w->n_runs = n_runs;
        w->n_halves = n_halves;
        while (!rc && trace_spans_next(&walk, &s)) {
            struct event e;
            classify(&e, w, d->plane, &s.event, async);
            s.start_ps += clock->shift_ps;
            s.end_ps += clock->shift_ps;
            if (!async)
                rc = spend(w, &at, s.start_ps);
            if (!async && !rc)
                rc = open_event(w, s.end_ps, computes(&e));
            if (!rc && e.part && e.kind)
                rc = add_event(w, &e, device, &s, async);
        }
    } while (trace_spans_again(&walk, &rc, w->err));
    if (!rc)
        rc = spend(w, &at, INT64_MAX);
    trace_spans_end(&walk, &d->file->space, &d->file->space.damage);
    return rc;
}

// The start that a half belongs to: what the HLO says, else the name with "-start" where the end has "-done".
static int by_start_and_time(const void *a, const void *b)
{
    const struct half *x = a, *y = b;
    if (x->run.program != y->run.program)
        return x->run.program < y->run.program ? -1 : 1;
    int c = slice_compare(x->run.name, y->run.name);
    if (c)
        return c;
    if (x->run.start_ps != y->run.start_ps)
        return x->run.start_ps < y->run.start_ps ? -1 : 1;
    return (int)x->part - (int)y->part;
}

static int name_start(struct walking *w, struct half *h)
{
    if (h->part != COLLECTIVE_DONE)
        return 0;
    if (h->run.facts && h->run.facts->start.size) {
        h->run.name = h->run.facts->start;
    } else {
        const char *text = (const char *)h->run.name.data, *done = strstr(text, "-done");
        const char *name =
            done ? arena_printf(&w->out->arena, w->err, "%.*s-start%s", (int)(done - text), text, done + 5)
                 : arena_printf(&w->out->arena, w->err, "%s", text);
        if (!name)
            return ERR_MEMORY;
        h->run.name = (struct slice){(const uint8_t *)name, strlen(name)};
    }
    h->run.facts = collective_facts_find(w->facts, w->n_facts, h->run.program, h->run.name);
    return 0;
}

// Starts and ends of one operation come in turn; `skip`: the device has a line that says when its transfers ran.
static int pair_halves(struct walking *w, bool skip)
{
    int rc = 0;
    for (size_t i = 0; i < w->n_halves && !rc; i++)
        rc = name_start(w, &w->halves[i]);
    if (w->n_halves && !skip)
        qsort(w->halves, w->n_halves, sizeof *w->halves, by_start_and_time);
    for (size_t i = 0; i < w->n_halves && !rc && !skip; i++) {
        struct half *start = &w->halves[i], *end = i + 1 < w->n_halves ? &w->halves[i + 1] : NULL;
        bool pair = start->part == COLLECTIVE_START && end && end->part == COLLECTIVE_DONE &&
                    start->run.program == end->run.program && slice_compare(start->run.name, end->run.name) == 0;
        if (!pair) {
            w->out->unpaired++;
            continue;
        }
        start->run.end_ps = end->run.end_ps > start->run.end_ps ? end->run.end_ps : start->run.end_ps;
        rc = add_run(w, &start->run);
        i++;
    }
    w->n_halves = 0;
    return rc;
}

// How much of a run lies in the device's computing time, which is united.
static int64_t hidden(const struct stretch *s, size_t n, const struct run *r)
{
    size_t low = 0, high = n;
    int64_t all = 0;
    while (low < high) {
        size_t at = (low + high) / 2;
        if (s[at].end_ps <= r->start_ps)
            low = at + 1;
        else
            high = at;
    }
    for (; low < n && s[low].start_ps < r->end_ps; low++) {
        int64_t from = s[low].start_ps > r->start_ps ? s[low].start_ps : r->start_ps;
        int64_t to = s[low].end_ps < r->end_ps ? s[low].end_ps : r->end_ps;
        all += to - from;
    }
    return all;
}

static int walk_device(struct walking *w, size_t device, const struct trace_epoch *clock)
{
    const struct trace_device *d = &w->out->found.items[device];
    struct xline **async = arena_alloc(&w->arena, d->plane->n_lines, sizeof(void *), w->err);
    size_t n_async = 0, before = w->n_runs;
    int rc = async ? 0 : ERR_MEMORY;
    for (size_t i = 0; i < d->plane->n_lines && !rc; i++) {
        if (slice_is(d->plane->lines[i].name, "Async XLA Ops") && d->plane->lines[i].events.size)
            async[n_async++] = &d->plane->lines[i];
    }
    w->n_compute = 0;
    if (!rc && n_async)
        rc = walk_lines(w, device, async, n_async, true, clock);
    bool skip = w->n_runs > before;
    for (size_t i = 0; i < d->n_lines && !rc; i++) // each nests by itself
        rc = walk_lines(w, device, &d->lines[i], 1, false, clock);
    if (!rc)
        rc = pair_halves(w, skip);
    if (rc)
        return rc;
    w->out->devices[device].compute_ps = unite(w->compute, &w->n_compute);
    for (size_t i = before; i < w->n_runs; i++)
        w->runs[i].hidden_ps = hidden(w->compute, w->n_compute, &w->runs[i]);
    return 0;
}

static int walk_guarded(struct walking *w, size_t device, const struct trace_epoch *clock)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &w->out->found.items[device].file->map))
        return file_guard_error(&g, w->err);
    int rc = walk_device(w, device, clock);
    file_guard_end(&g);
    return rc;
}

// ---- Devices against each other

static int same_operation(const struct run *x, const struct run *y)
{
    if (x->program != y->program)
        return x->program < y->program ? -1 : 1;
    int c = slice_compare(x->name, y->name);
    c = c ? c : strcmp(x->kind, y->kind);
    c = c ? c : slice_compare(x->module, y->module);
    return c ? c : (int)x->is_async - (int)y->is_async;
}

static int by_device(const void *a, const void *b)
{
    const struct run *x = a, *y = b;
    int c = same_operation(x, y);
    if (c)
        return c;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return (x->start_ps > y->start_ps) - (x->start_ps < y->start_ps);
}

static int by_ordinal(const void *a, const void *b)
{
    const struct run *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->ordinal != y->ordinal)
        return x->ordinal < y->ordinal ? -1 : 1;
    return (x->start_ps > y->start_ps) - (x->start_ps < y->start_ps);
}

static int by_time(const void *a, const void *b)
{
    const struct run *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->start_ps != y->start_ps)
        return x->start_ps < y->start_ps ? -1 : 1;
    return (x->device > y->device) - (x->device < y->device);
}

// Runs of one collective: what each spent until the last had started.
static void settle(struct run *runs, size_t n)
{
    const struct trace_group_set *set = runs->facts ? runs->facts->set : NULL;
    size_t members = set && runs->group >= 0 ? set->groups[runs->group].n : 0; // 0: not known
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < n; i++)
        last = runs[i].start_ps > last ? runs[i].start_ps : last;
    for (size_t i = 0; i < n; i++) {
        int64_t whole = runs[i].end_ps - runs[i].start_ps, wait = last - runs[i].start_ps;
        runs[i].wait_ps = n < 2 ? -1 : wait < whole ? wait : whole;
        runs[i].partial = n < members;
    }
}

// Where every device of a group has as many runs, the first belong together, and so on. Where a capture cut some off,
// those do that overlap: none of them can end before all have started.
static void settle_group(struct run *runs, size_t n, uint64_t *seen, uint64_t *stamp)
{
    uint64_t most = 0;
    size_t devices = 0;
    *stamp += 1;
    for (size_t i = 0; i < n; i++) {
        most = runs[i].ordinal > most ? runs[i].ordinal : most;
        devices += seen[runs[i].device] != *stamp;
        seen[runs[i].device] = *stamp;
    }
    bool even = (uint64_t)n == (most + 1) * devices;
    qsort(runs, n, sizeof *runs, even ? by_ordinal : by_time);
    for (size_t i = 0, k; i < n; i = k) {
        int64_t end = runs[i].end_ps;
        *stamp += 1;
        seen[runs[i].device] = *stamp;
        for (k = i + 1; k < n; k++) {
            bool together =
                even ? runs[k].ordinal == runs[i].ordinal : runs[k].start_ps < end && seen[runs[k].device] != *stamp;
            if (!together)
                break;
            seen[runs[k].device] = *stamp;
            end = runs[k].end_ps < end ? runs[k].end_ps : end;
        }
        settle(&runs[i], k - i);
    }
}

static void count(struct trace_collective_times *t, const struct run *r)
{
    int64_t whole = r->end_ps - r->start_ps;
    t->runs++;
    t->total_ps = add_saturated(t->total_ps, whole);
    t->hidden_ps = add_saturated(t->hidden_ps, r->hidden_ps);
    if (r->wait_ps < 0)
        return;
    t->matched++;
    t->partial += r->partial;
    t->wait_ps = add_saturated(t->wait_ps, r->wait_ps);
    t->transfer_ps = add_saturated(t->transfer_ps, whole - r->wait_ps);
}

// All runs of one operation, by device and time.
static void make_row(struct walking *w, struct trace_collective *row, struct run *runs, size_t n, uint64_t *seen,
                     uint64_t *stamp)
{
    const struct collective_facts *f = runs->facts;
    bool copy = strcmp(runs->kind, "copy") == 0;
    *row = (struct trace_collective){.name = runs->name,
                                     .module = runs->module,
                                     .program_id = runs->program,
                                     .kind = runs->kind,
                                     .is_async = runs->is_async,
                                     .bytes = f ? f->bytes : -1,
                                     .groups = f ? f->groups : 0,
                                     .group_size = f ? f->group_size : 0,
                                     .set = f ? f->set : NULL,
                                     .operations = 1};
    for (size_t i = 0; i < n; i++) {
        bool next = i && runs[i].device == runs[i - 1].device;
        runs[i].ordinal = next ? runs[i - 1].ordinal + 1 : 0;
        runs[i].group = next            ? runs[i - 1].group
                        : !f || !f->set ? -1
                                        : trace_group_of(f->set, w->out->devices[runs[i].device].number);
        runs[i].wait_ps = -1;
        row->devices += !next;
    }
    if (!copy) {
        qsort(runs, n, sizeof *runs, by_ordinal);
        for (size_t i = 0, k; i < n; i = k) {
            for (k = i + 1; k < n && runs[k].group == runs[i].group; k++)
                ;
            settle_group(&runs[i], k - i, seen, stamp);
        }
    }
    for (size_t i = 0; i < n; i++) {
        count(&row->times, &runs[i]);
        count(&w->out->devices[runs[i].device].times, &runs[i]);
    }
}

static int by_total(const void *a, const void *b)
{
    const struct trace_collective *x = a, *y = b;
    if (x->times.total_ps != y->times.total_ps)
        return x->times.total_ps < y->times.total_ps ? 1 : -1;
    if (x->program_id != y->program_id)
        return x->program_id < y->program_id ? -1 : 1;
    return slice_compare(x->name, y->name);
}

static int make_rows(struct walking *w)
{
    struct trace_collectives *out = w->out;
    size_t rows = 0;
    uint64_t stamp = 0, *seen = arena_new(&w->arena, uint64_t, out->found.n, w->err);
    if (w->n_runs)
        qsort(w->runs, w->n_runs, sizeof *w->runs, by_device);
    for (size_t i = 0; i < w->n_runs; i++)
        rows += i == 0 || same_operation(&w->runs[i - 1], &w->runs[i]) != 0;
    out->rows = arena_new(&out->arena, struct trace_collective, rows, w->err);
    if (!seen || !out->rows)
        return ERR_MEMORY;
    for (size_t i = 0, k; i < w->n_runs; i = k) {
        for (k = i + 1; k < w->n_runs && same_operation(&w->runs[i], &w->runs[k]) == 0; k++)
            ;
        make_row(w, &out->rows[out->n_rows++], &w->runs[i], k - i, seen, &stamp);
    }
    if (out->n_rows)
        qsort(out->rows, out->n_rows, sizeof *out->rows, by_total);
    return 0;
}

static int name_devices(struct trace_collectives *out, struct error *err)
{
    int64_t *numbers;
    int rc = trace_device_numbers(&out->found, &out->arena, &numbers, err);
    out->devices = rc ? NULL : arena_new(&out->arena, struct trace_collective_device, out->found.n, err);
    for (size_t i = 0; out->devices && i < out->found.n; i++)
        out->devices[i] = (struct trace_collective_device){.device = &out->found.items[i], .number = numbers[i]};
    return out->devices ? 0 : ERR_MEMORY;
}

static int read_facts(struct walking *w)
{
    struct trace_group_sets sets;
    size_t bytes = 0;
    for (size_t i = 0; i < w->t->n_files; i++)
        bytes += w->t->files[i].space.bytes.size;
    trace_group_sets_init(&sets, &w->out->arena, bytes / sizeof(int64_t));
    int rc = collective_facts(w->t, &w->out->arena, &sets, &w->facts, &w->n_facts, w->err);
    w->out->sets = sets.items;
    w->out->n_sets = sets.n;
    trace_group_sets_release(&sets);
    return rc;
}

int trace_collectives(struct trace *t, bool copies, struct trace_collectives *out, struct error *err)
{
    struct walking w = {.t = t, .out = out, .copies = copies, .err = err};
    struct trace_epoch *clocks = NULL;
    memset(out, 0, sizeof *out);
    arena_init(&out->arena);
    arena_init(&w.arena);
    int rc = trace_find_devices(t, &out->found, err);
    if (!rc)
        rc = trace_epochs(t, &clocks, err);
    if (!rc)
        rc = read_facts(&w);
    if (!rc)
        rc = name_devices(out, err);
    for (size_t i = 0; i < out->found.n && !rc; i++)
        rc = walk_guarded(&w, i, &clocks[out->found.items[i].file - t->files]);
    if (!rc)
        rc = make_rows(&w);
    if (!rc)
        rc = trace_collectives_add_up(out, err);
    arena_release(&w.arena);
    return rc;
}

void trace_collectives_release(struct trace_collectives *c)
{
    arena_release(&c->arena);
    memset(c, 0, sizeof *c);
}
