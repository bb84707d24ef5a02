// SPDX-License-Identifier: Apache-2.0
#include "trace/ops.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "trace/ops_hlo.h"
#include "trace/tally.h"

struct task {
    struct trace_device *device;
    struct xline *line, copy; // others may walk over the line meanwhile
    struct tally_ids ids;
    int64_t origin_ns;
    struct tally tally;
    struct xdamage damage;
    int rc;
    struct error error;
};

// ---- Walking

static void walk_one(struct task *k)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &k->device->file->map)) {
        k->rc = file_guard_error(&g, &k->error);
        return;
    }
    k->rc = tally_line(&k->tally, k->device, &k->copy, &k->ids, k->origin_ns, &k->damage, &k->error);
    file_guard_end(&g);
}

struct sharing {
    const struct trace_beside *beside;
    struct task **tasks;
};

static void walk_some(void *context, size_t from, size_t to)
{
    const struct sharing *s = context;
    size_t n = s->beside->n;
    for (size_t i = from; i < to; i++) {
        if (i < n)
            s->beside->fn(s->beside->context, i, i + 1);
        else
            walk_one(s->tasks[i - n]);
    }
}

// The longest first, so that no thread is left with one at the end.
static int by_size(const void *a, const void *b)
{
    size_t x = (*(struct task *const *)a)->line->events.size, y = (*(struct task *const *)b)->line->events.size;
    return (x < y) - (x > y);
}

static int make_tasks(struct trace *t, struct trace_ops *o, const char *stat, struct task **out, size_t *n,
                      struct error *err)
{
    for (size_t i = 0; i < o->devices.n; i++)
        *n += o->devices.items[i].n_lines;
    struct task *tasks = arena_new(&o->arena, struct task, *n, err), *next = tasks;
    if (!tasks)
        return ERR_MEMORY;
    int64_t origin_ns = trace_origin_ns(t);
    for (size_t i = 0; i < o->devices.n; i++) {
        struct trace_device *d = &o->devices.items[i];
        struct tally_ids ids;
        tally_ids(&ids, d->plane, stat);
        for (size_t k = 0; k < d->n_lines; k++)
            *next++ = (struct task){
                .device = d, .line = d->lines[k], .copy = *d->lines[k], .ids = ids, .origin_ns = origin_ns};
    }
    *out = tasks;
    return 0;
}

// ---- Rows

struct naming {
    const struct xplane *plane;
    struct trace_op *op;
    double flop, bytes; // of one occurrence, from the table
};

static void read_naming(struct naming *n, struct xstats walk)
{
    struct trace_op *op = n->op;
    const struct {
        const char *name;
        struct slice *text;
    } texts[] = {{"hlo_op", &op->name}, {"hlo_category", &op->category}, {"hlo_module", &op->module},
                 {"tf_op", &op->scope}, {"source", &op->source},         {"source_stack", &op->stack}};
    struct xstat s;
    while (xstat_next(&walk, &s)) {
        const struct xmeta *row = xtable_find(&n->plane->stat_table, s.metadata_id);
        if (row && s.kind == XSTAT_TEXT) {
            for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
                if (slice_is(row->name, texts[i].name))
                    *texts[i].text = s.bytes;
            }
            op->is_operation |= slice_is(row->name, "hlo_op");
        } else if (row && (s.kind == XSTAT_INT || s.kind == XSTAT_UINT)) {
            if (slice_is(row->name, "program_id"))
                op->program_id = s.unsigned_number;
            else if (slice_is(row->name, "flops"))
                n->flop = (double)s.integer;
            else if (slice_is(row->name, "bytes_accessed"))
                n->bytes = (double)s.integer;
        }
    }
}

static void make_row(struct trace_op *op, const struct task *k, const struct tally_entry *e)
{
    const struct xplane *p = k->device->plane;
    const struct xmeta *row = xtable_find(&p->event_table, e->key.metadata_id);
    struct naming n = {.plane = p, .op = op, .flop = NAN, .bytes = NAN};
    *op = (struct trace_op){.occurrences = e->occurrences,
                            .executions = e->occurrences,
                            .self_ps = e->self_ps,
                            .total_ps = e->total_ps,
                            .self_squares = e->self_squares};
    if (row) {
        op->name = row->display_name.size ? row->display_name : row->name;
        op->is_operation = k->device->kind == TRACE_TPU || k->device->kind == TRACE_SPARSE_CORE;
        read_naming(&n, xmeta_stats(p, row));
    }
    op->flop = n.flop * (double)e->occurrences;
    op->bytes = n.bytes * (double)e->occurrences;
    read_naming(&n, xevent_stats(p, &e->first));
    if (e->has_cost) {
        op->flop = e->flop;
        op->bytes = e->bytes;
    }
    op->flop_from = isnan(op->flop) ? TRACE_COST_NONE : TRACE_COST_PROFILE;
    op->bytes_from = isnan(op->bytes) ? TRACE_COST_NONE : TRACE_COST_PROFILE;
    op->is_async = slice_ends_with(op->category, "-start") || slice_ends_with(op->category, "-done");
}

static void line_facts(struct trace_ops_line *l, const struct task *k)
{
    const struct tally *t = &k->tally;
    *l = (struct trace_ops_line){
        .device = k->device,
        .name = k->line->name,
        .events = t->events,
        .first_ps = t->first_ps,
        .last_ps = t->last_ps,
        .union_ps = t->union_ps,
        .overlaps = t->overlaps,
        .out_of_range = t->out_of_range,
        .device_clock = t->device_clock,
        .sorted = t->sorted,
    };
}

// Into *text what a statistic of that id says, the last one of the walk.
static int read_value(struct xstats walk, int64_t id, struct arena *arena, struct slice *text, struct error *err)
{
    struct xstat s;
    const char *number = NULL;
    bool any = false;
    while (xstat_next(&walk, &s)) {
        if (s.metadata_id != id || s.kind == XSTAT_NONE || s.kind == XSTAT_BYTES)
            continue;
        any = true;
        if (s.kind == XSTAT_TEXT)
            *text = s.bytes;
        else if (s.kind == XSTAT_UINT)
            number = arena_printf(arena, err, "%" PRIu64, s.unsigned_number);
        else if (s.kind == XSTAT_INT)
            number = arena_printf(arena, err, "%" PRId64, s.integer);
        else
            number = arena_printf(arena, err, "%.17g", s.number);
        if (s.kind != XSTAT_TEXT)
            *text = number ? (struct slice){(const uint8_t *)number, strlen(number)} : (struct slice){NULL, 0};
    }
    return any && !text->data ? ERR_MEMORY : 0;
}

// An event's own value goes before that of its row in the table.
static int add_value(struct trace_ops *o, struct trace_op *op, const struct task *k, const struct tally_entry *e,
                     struct error *err)
{
    const struct xplane *p = k->device->plane;
    const struct xmeta *row = xtable_find(&p->event_table, e->key.metadata_id);
    int rc = 0;
    if (k->ids.value && row)
        rc = read_value(xmeta_stats(p, row), k->ids.value, &o->arena, &op->value, err);
    if (!rc && k->ids.value)
        rc = read_value(xevent_stats(p, &e->first), k->ids.value, &o->arena, &op->value, err);
    if (o->by_long_name && !k->ids.value && row)
        op->value = row->name;
    return rc;
}

// What one line gave, with copies of all texts: what follows needs no file any more.
static int make_rows(struct trace_ops *o, struct trace_ops_line *line, const struct task *k, struct error *err)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &k->device->file->map))
        return file_guard_error(&g, err);
    line_facts(line, k);
    int rc = slice_copy(&o->arena, &line->name, err);
    for (size_t i = 0; i < k->tally.n && !rc; i++) {
        struct trace_op *op = &o->rows[o->n_rows++];
        make_row(op, k, &k->tally.entries[i]);
        rc = add_value(o, op, k, &k->tally.entries[i], err);
        enum { TEXTS = 7 };
        struct slice *texts[TEXTS] = {&op->name,   &op->category, &op->module, &op->scope,
                                      &op->source, &op->stack,    &op->value};
        for (size_t j = 0; j < TEXTS && !rc; j++)
            rc = slice_copy(&o->arena, texts[j], err);
    }
    file_guard_end(&g);
    return rc;
}

static int by_operation(const void *a, const void *b)
{
    const struct trace_op *x = a, *y = b;
    if (x->program_id != y->program_id)
        return x->program_id < y->program_id ? -1 : 1;
    if (x->is_operation != y->is_operation)
        return x->is_operation ? -1 : 1;
    return slice_compare(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    int c = by_operation(a, b);
    return c ? c : slice_compare(((const struct trace_op *)a)->value, ((const struct trace_op *)b)->value);
}

static int by_self(const void *a, const void *b)
{
    const struct trace_op *x = a, *y = b;
    if (x->self_ps != y->self_ps)
        return x->self_ps < y->self_ps ? 1 : -1;
    return by_name(a, b);
}

size_t trace_ops_merge(struct trace_op *rows, size_t count)
{
    size_t n = 0;
    if (count)
        qsort(rows, count, sizeof *rows, by_name);
    for (size_t i = 0; i < count; i++) {
        struct trace_op *into = n ? &rows[n - 1] : NULL, *op = &rows[i];
        if (!into || by_name(into, op) != 0) {
            rows[n++] = *op;
            continue;
        }
        into->is_async |= op->is_async;
        into->occurrences += op->occurrences;
        into->executions += op->executions;
        into->self_ps = add_saturated(into->self_ps, op->self_ps);
        into->self_squares += op->self_squares;
        into->total_ps = add_saturated(into->total_ps, op->total_ps);
        into->flop += op->flop;
        into->bytes += op->bytes;
        into->flop_from = into->flop_from == op->flop_from ? into->flop_from : TRACE_COST_HLO;
        into->bytes_from = into->bytes_from == op->bytes_from ? into->bytes_from : TRACE_COST_HLO;
        into->reason = into->reason ? into->reason : op->reason;
        into->type = into->type == op->type ? into->type : DT_INVALID;
    }
    if (n)
        qsort(rows, n, sizeof *rows, by_self);
    return n;
}

// An operation of a GPU is one kernel or several; each of them runs once in an execution. So on one device it ran as
// often as its most frequent kernel (a profile's edges may cut off some of the others).
struct part {
    struct trace_op *op;
    const struct trace_device *device;
    int64_t kernel;
};

static int by_place(const struct part *x, const struct part *y)
{
    int c = by_operation(x->op, y->op);
    if (c)
        return c;
    return x->device == y->device ? 0 : x->device < y->device ? -1 : 1;
}

static int by_kernel(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    int c = by_place(x, y);
    return c ? c : (x->kernel > y->kernel) - (x->kernel < y->kernel);
}

static int by_value(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    int c = by_place(x, y);
    c = c ? c : slice_compare(x->op->value, y->op->value);
    return c ? c : (x->kernel > y->kernel) - (x->kernel < y->kernel);
}

// Of parts in order of their kernels: how often the most frequent one ran.
static uint64_t most_frequent(const struct part *parts, size_t n)
{
    uint64_t most = 0, kernel = 0;
    for (size_t i = 0; i < n; i++) {
        bool same = i && parts[i].kernel == parts[i - 1].kernel;
        kernel = same ? kernel + parts[i].op->occurrences : parts[i].op->occurrences;
        most = kernel > most ? kernel : most;
    }
    return most;
}

// One operation on one device. Its executions go to the first part of each value, as many as there are: a value that
// differs from kernel to kernel makes no more of them.
static void share_out(struct part *parts, size_t n)
{
    uint64_t left = most_frequent(parts, n);
    qsort(parts, n, sizeof *parts, by_value);
    for (size_t i = 0, k; i < n; i = k) {
        for (k = i + 1; k < n && slice_compare(parts[k].op->value, parts[i].op->value) == 0; k++)
            parts[k].op->executions = 0;
        uint64_t here = most_frequent(&parts[i], k - i);
        parts[i].op->executions = here < left ? here : left;
        left -= parts[i].op->executions;
    }
}

static void count_executions(struct part *parts, size_t n)
{
    if (n)
        qsort(parts, n, sizeof *parts, by_kernel);
    for (size_t i = 0, k; i < n; i = k) {
        for (k = i + 1; k < n && by_place(&parts[i], &parts[k]) == 0; k++)
            ;
        share_out(&parts[i], k - i);
    }
}

static int find_executions(struct trace_ops *o, const struct task *tasks, size_t n, struct error *err)
{
    struct part *parts = arena_new(&o->arena, struct part, o->n_rows, err);
    struct trace_op *op = o->rows;
    size_t n_parts = 0;
    if (!parts)
        return ERR_MEMORY;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < tasks[i].tally.n; k++, op++) {
            if (tasks[i].device->kind == TRACE_GPU && op->is_operation)
                parts[n_parts++] = (struct part){op, tasks[i].device, tasks[i].tally.entries[k].key.metadata_id};
        }
    }
    count_executions(parts, n_parts);
    return 0;
}

static int collect(struct trace_ops *o, const struct task *tasks, size_t n, struct error *err)
{
    size_t rows = 0;
    for (size_t i = 0; i < n; i++)
        rows += tasks[i].tally.n;
    o->rows = arena_new(&o->arena, struct trace_op, rows, err);
    o->lines = arena_new(&o->arena, struct trace_ops_line, n, err);
    if (!o->rows || !o->lines)
        return ERR_MEMORY;
    o->n_lines = n;
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        if (!tasks[i].line->told)
            xdamage_add(&tasks[i].device->file->space.damage, &tasks[i].damage);
        tasks[i].line->told = true;
        rc = make_rows(o, &o->lines[i], &tasks[i], err);
    }
    if (!rc)
        rc = find_executions(o, tasks, n, err);
    if (rc)
        return rc;
    o->n_rows = trace_ops_merge(o->rows, o->n_rows);
    for (size_t i = 0; i < o->n_rows; i++)
        o->self_ps = add_saturated(o->self_ps, o->rows[i].self_ps);
    return 0;
}

static int walk_all(struct trace_ops *o, struct task *tasks, size_t n, struct threads *threads,
                    const struct trace_beside *beside, struct error *err)
{
    struct task **order = arena_alloc(&o->arena, n, sizeof(void *), err);
    if (!order)
        return ERR_MEMORY;
    for (size_t i = 0; i < n; i++)
        order[i] = &tasks[i];
    if (n)
        qsort(order, n, sizeof(void *), by_size);
    struct sharing sharing = {beside, order};
    threads_for(threads, beside->n + n, 1, walk_some, &sharing);
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        rc = tasks[i].rc;
        if (rc && err)
            *err = tasks[i].error;
    }
    return rc ? rc : collect(o, tasks, n, err);
}

static int find_all(struct trace *t, struct threads *threads, const struct trace_beside *beside, const char *stat,
                    struct trace_ops *out, struct error *err)
{
    struct task *tasks = NULL;
    size_t n = 0;
    memset(out, 0, sizeof *out);
    arena_init(&out->arena);
    out->by_long_name = stat && strcmp(stat, "long_name") == 0;
    int rc = trace_find_devices(t, &out->devices, err);
    if (!rc)
        rc = make_tasks(t, out, stat, &tasks, &n, err);
    if (!rc)
        rc = walk_all(out, tasks, n, threads, beside, err);
    for (size_t i = 0; tasks && i < n; i++)
        tally_release(&tasks[i].tally);
    return rc ? rc : trace_ops_hlo(t, out, err);
}

int trace_ops(struct trace *t, struct threads *threads, struct trace_ops *out, struct error *err)
{
    return trace_ops_beside(t, threads, &(struct trace_beside){0}, out, err);
}

int trace_ops_by_stat(struct trace *t, struct threads *threads, const char *stat, struct trace_ops *out,
                      struct error *err)
{
    return find_all(t, threads, &(struct trace_beside){0}, stat, out, err);
}

int trace_ops_beside(struct trace *t, struct threads *threads, const struct trace_beside *beside, struct trace_ops *out,
                     struct error *err)
{
    return find_all(t, threads, beside, NULL, out, err);
}

void trace_ops_release(struct trace_ops *o)
{
    arena_release(&o->arena);
    memset(o, 0, sizeof *o);
}
