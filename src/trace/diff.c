// SPDX-License-Identifier: Apache-2.0
#include "trace/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/modules.h"
#include "trace/ops_view.h"

// ---- Rows of both sides by their names

static int by_name(const void *a, const void *b)
{
    const struct trace_diff_row *x = a, *y = b;
    int c = slice_compare(x->module, y->module);
    return c ? c : slice_compare(x->name, y->name);
}

static int by_change(const void *a, const void *b)
{
    const struct trace_diff_row *x = a, *y = b;
    double p = fabs(x->change_ps), q = fabs(y->change_ps);
    if (p != q)
        return p < q ? 1 : -1;
    if (x->a.sum_ps != y->a.sum_ps)
        return x->a.sum_ps < y->a.sum_ps ? 1 : -1;
    return by_name(a, b);
}

static size_t merge(struct trace_diff_row *rows, size_t count)
{
    size_t n = 0;
    if (count)
        qsort(rows, count, sizeof *rows, by_name);
    for (size_t i = 0; i < count; i++) {
        if (!n || by_name(&rows[n - 1], &rows[i]) != 0) {
            rows[n++] = rows[i];
            continue;
        }
        diff_side_add(&rows[n - 1].a, &rows[i].a);
        diff_side_add(&rows[n - 1].b, &rows[i].b);
    }
    return n;
}

static void finish(struct trace_diff_row *rows, size_t n, double scale)
{
    for (size_t i = 0; i < n; i++) {
        struct trace_diff_row *r = &rows[i];
        r->change_ps = (double)r->b.sum_ps * scale - (double)r->a.sum_ps;
        r->mean_change_ps = diff_mean(&r->b) - diff_mean(&r->a);
        r->means = diff_means(&r->a, &r->b);
    }
    if (n)
        qsort(rows, n, sizeof *rows, by_change);
}

// ---- Executions

static int executions(const struct trace_modules *m, bool second, struct arena *arena, struct trace_diff_row **rows,
                      size_t *n, size_t *cap, struct error *err)
{
    size_t first = *n;
    struct trace_diff_row *more = arena_grow(arena, *rows, cap, *n + m->n_programs + 1, sizeof **rows, err);
    if (!more)
        return ERR_MEMORY;
    *rows = more;
    *n += m->n_programs;
    for (size_t i = 0; i < m->n_programs; i++) {
        more[first + i] = (struct trace_diff_row){.name = m->programs[i].name};
        if (slice_copy(arena, &more[first + i].name, err))
            return ERR_MEMORY;
    }
    for (size_t i = 0; i < m->devices.n; i++) {
        for (size_t k = 0; k < m->of_device[i].n; k++) {
            const struct trace_run *run = &m->of_device[i].items[k];
            struct trace_diff_row *row = &more[first + run->program];
            struct diff_side one = diff_side_of(run->end_ps - run->start_ps);
            diff_side_add(second ? &row->b : &row->a, &one);
        }
    }
    return 0;
}

static void judge(struct trace_diff *d, double tolerance)
{
    double before = 0, change = 0, low = 0, high = 0, a = 0, b = 0;
    bool any = false;
    uint64_t least = 1; // what ran once is set-up, where anything ran more often
    for (size_t i = 0; i < d->n_programs; i++)
        least = d->programs[i].a.count > 1 && d->programs[i].b.count > 1 ? 2 : least;
    for (size_t i = 0; i < d->n_programs; i++) {
        const struct trace_diff_row *p = &d->programs[i];
        double n = (double)p->a.count;
        if (p->a.count < least || p->b.count < least)
            continue;
        any = true;
        a += n;
        b += (double)p->b.count;
        before += (double)p->a.sum_ps;
        change += n * (diff_mean(&p->b) - diff_mean(&p->a));
        struct diff_interval i95 = diff_means(&p->a, &p->b);
        // Errors of different programs are independent: squares add up.
        double half = n * (i95.high - i95.low) / 2;
        low += half * half;
    }
    high = change + sqrt(low);
    low = change - sqrt(low);
    d->scale = any ? a / b : 1;
    d->slower = any && before > 0 ? change / before : NAN;
    d->range = (struct diff_interval){any ? low / before : NAN, any ? high / before : NAN};
    d->verdict = diff_judge(&d->range, tolerance);
}

// ---- Operations

static int operations(const struct trace_ops *o, bool second, const struct trace_key *by, struct arena *arena,
                      struct trace_diff_row **rows, size_t *n, size_t *cap, struct error *err)
{
    struct trace_op *ops = NULL;
    size_t count = 0;
    int rc = trace_ops_group(o, by, arena, &ops, &count, err);
    struct trace_diff_row *more = rc ? NULL : arena_grow(arena, *rows, cap, *n + count + 1, sizeof **rows, err);
    if (!more)
        return rc ? rc : ERR_MEMORY;
    for (size_t i = 0; i < count && !rc; i++) {
        struct trace_diff_row *r = &more[*n + i];
        struct diff_side side = {ops[i].occurrences, ops[i].self_ps, ops[i].self_squares};
        *r = (struct trace_diff_row){.name = ops[i].name};
        *(second ? &r->b : &r->a) = side;
        rc = slice_copy(arena, &r->name, err);
        if (!rc && by->by == TRACE_BY_OP) {
            r->module = ops[i].module;
            rc = slice_copy(arena, &r->module, err);
        }
    }
    *rows = more;
    *n += count;
    return rc;
}

// ---- All of it

struct reading {
    struct trace_steps steps;
    struct trace_ops ops, by_stat; // the latter kept apart by the value of a statistic, where that is asked for
};

int trace_diff(struct trace *a, struct trace *b, const struct trace_diff_options *o, struct threads *threads,
               struct arena *arena, struct trace_diff *out, struct error *err)
{
    struct trace *const traces[] = {a, b};
    struct reading sides[2];
    size_t cap_programs = 0, cap_rows = 0;
    int rc = 0;
    *out = (struct trace_diff){.by_step = o->by_step};
    memset(sides, 0, sizeof sides);
    for (int i = 0; i < 2 && !rc; i++) {
        struct reading *r = &sides[i];
        rc = trace_steps(traces[i], o->program, threads, &r->ops, &r->steps, err);
        if (rc == ERR_USAGE)
            error_context(err, "in profile %s", i ? "B" : "A");
        if (!rc)
            rc = executions(&r->steps.modules, i, arena, &out->programs, &out->n_programs, &cap_programs, err);
        if (!rc && o->by.stat)
            rc = trace_ops_by_stat(traces[i], threads, o->by.stat, &r->by_stat, err);
        if (!rc)
            rc = operations(o->by.stat ? &r->by_stat : &r->ops, i, &o->by, arena, &out->rows, &out->n_rows, &cap_rows,
                            err);
    }
    if (!rc)
        rc = diff_steps_make(&out->steps, a, &sides[0].steps, b, &sides[1].steps, o->tolerance, arena, err);
    if (!rc) {
        out->n_programs = merge(out->programs, out->n_programs);
        out->n_rows = merge(out->rows, out->n_rows);
        judge(out, o->tolerance);
        finish(out->programs, out->n_programs, out->scale);
        finish(out->rows, out->n_rows, out->scale);
        out->verdict = o->by_step ? out->steps.verdict : out->verdict;
    }
    for (int i = 0; i < 2; i++) {
        trace_ops_release(&sides[i].ops);
        trace_ops_release(&sides[i].by_stat);
        trace_steps_release(&sides[i].steps);
    }
    return rc;
}

// ---- JSON

static void rows_json(struct jw *w, const char *key, const struct trace_diff_row *rows, size_t n)
{
    jw_key(w, key);
    jw_array(w);
    for (size_t i = 0; i < n; i++) {
        const struct trace_diff_row *r = &rows[i];
        jw_object(w);
        jw_key(w, "name");
        jw_string_n(w, (const char *)r->name.data, r->name.size);
        jw_key(w, "module");
        jw_string_n(w, (const char *)r->module.data, r->module.size);
        diff_side_json(w, "a", &r->a, false);
        diff_side_json(w, "b", &r->b, false);
        jw_kv_double(w, "change_ps", r->change_ps);
        jw_kv_double(w, "mean_change_ps", r->mean_change_ps);
        diff_interval_json(w, "mean_change_range_ps", &r->means);
        jw_object_end(w);
    }
    jw_array_end(w);
}

void trace_diff_json(const struct trace *a, const struct trace *b, const struct trace_diff *d, size_t top, struct jw *w)
{
    jw_object(w);
    jw_kv_string(w, "verdict", diff_verdict_name(d->verdict));
    jw_kv_string(w, "verdict_of", d->by_step ? "steps" : "executions");
    jw_kv_double(w, "slower", d->slower);
    diff_interval_json(w, "slower_range", &d->range);
    jw_kv_double(w, "scale", d->scale);
    rows_json(w, "programs", d->programs, d->n_programs);
    jw_kv_uint(w, "n_rows", d->n_rows);
    rows_json(w, "rows", d->rows, top && top < d->n_rows ? top : d->n_rows);
    jw_key(w, "steps");
    diff_steps_json(&d->steps, top, w);
    jw_key(w, "a");
    jw_object(w);
    trace_files_json(a, w);
    jw_object_end(w);
    jw_key(w, "b");
    jw_object(w);
    trace_files_json(b, w);
    jw_object_end(w);
    jw_object_end(w);
}
