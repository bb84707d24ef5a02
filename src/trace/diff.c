// SPDX-License-Identifier: Apache-2.0
#include "trace/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/modules.h"

// ---- Statistics

static double mean(const struct diff_side *s)
{
    return s->count ? (double)s->sum_ps / (double)s->count : NAN;
}

// Of the mean. Rounding can make the difference of squares negative when all are equal.
static double mean_variance(const struct diff_side *s)
{
    double n = (double)s->count, m = mean(s);
    if (s->count < 2)
        return NAN;
    double v = (s->squares - n * m * m) / (n - 1);
    return v > 0 ? v / n : 0;
}

// Student's 97.5 % quantile: exact for one and two degrees of freedom, above them the expansion in 1/df around the
// normal distribution (Abramowitz and Stegun 26.7.5), which is within 1 % from three on.
static double student(double df)
{
    static const double z = 1.959963984540054;
    double z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
    if (df < 2)
        return 12.706204736;
    if (df < 3)
        return 4.302652730;
    return z + (z3 + z) / (4 * df) + (5 * z5 + 16 * z3 + 3 * z) / (96 * df * df) +
           (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * df * df * df);
}

struct diff_interval diff_means(const struct diff_side *a, const struct diff_side *b)
{
    double va = mean_variance(a), vb = mean_variance(b), d = mean(b) - mean(a);
    if (isnan(va) || isnan(vb))
        return (struct diff_interval){NAN, NAN};
    double down = va * va / ((double)a->count - 1) + vb * vb / ((double)b->count - 1);
    double df = down > 0 ? (va + vb) * (va + vb) / down : INFINITY;
    double half = (isinf(df) ? 1.959963984540054 : student(df)) * sqrt(va + vb);
    return (struct diff_interval){d - half, d + half};
}

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

static void add_side(struct diff_side *to, const struct diff_side *s)
{
    to->count += s->count;
    if (__builtin_add_overflow(to->sum_ps, s->sum_ps, &to->sum_ps))
        to->sum_ps = INT64_MAX;
    to->squares += s->squares;
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
        add_side(&rows[n - 1].a, &rows[i].a);
        add_side(&rows[n - 1].b, &rows[i].b);
    }
    return n;
}

static void finish(struct trace_diff_row *rows, size_t n, double scale)
{
    for (size_t i = 0; i < n; i++) {
        struct trace_diff_row *r = &rows[i];
        r->change_ps = (double)r->b.sum_ps * scale - (double)r->a.sum_ps;
        r->mean_change_ps = mean(&r->b) - mean(&r->a);
        r->means = diff_means(&r->a, &r->b);
    }
    if (n)
        qsort(rows, n, sizeof *rows, by_change);
}

// ---- Executions

static int copy(struct arena *arena, struct slice s, struct slice *out, struct error *err)
{
    const char *text = arena_strndup(arena, (const char *)s.data, s.size, err);
    *out = (struct slice){(const uint8_t *)text, s.size};
    return text ? 0 : ERR_MEMORY;
}

static int executions(struct trace *t, bool second, struct arena *arena, struct trace_diff_row **rows, size_t *n,
                      size_t *cap, struct error *err)
{
    struct trace_modules m;
    int rc = trace_modules(t, &m, err);
    size_t first = *n;
    struct trace_diff_row *more = NULL;
    if (!rc)
        more = arena_grow(arena, *rows, cap, *n + m.n_programs + 1, sizeof **rows, err);
    if (!rc && !more)
        rc = ERR_MEMORY;
    for (size_t i = 0; !rc && i < m.n_programs; i++) {
        more[first + i] = (struct trace_diff_row){0};
        rc = copy(arena, m.programs[i].name, &more[first + i].name, err);
    }
    for (size_t i = 0; !rc && i < m.devices.n; i++) {
        for (size_t k = 0; k < m.of_device[i].n; k++) {
            const struct trace_run *run = &m.of_device[i].items[k];
            struct trace_diff_row *row = &more[first + run->program];
            double length = (double)(run->end_ps - run->start_ps);
            struct diff_side one = {1, run->end_ps - run->start_ps, length * length};
            add_side(second ? &row->b : &row->a, &one);
        }
    }
    if (!rc) {
        *rows = more;
        *n += m.n_programs;
    }
    trace_modules_release(&m);
    return rc;
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
        change += n * (mean(&p->b) - mean(&p->a));
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
    d->verdict = d->range.low > tolerance     ? TRACE_DIFF_SLOWER
                 : d->range.high <= tolerance ? TRACE_DIFF_NOT_SLOWER
                                              : TRACE_DIFF_UNCLEAR; // NAN, too
}

// ---- Operations

static int operations(struct trace *t, bool second, enum trace_ops_by by, struct threads *threads, struct arena *arena,
                      struct trace_diff_row **rows, size_t *n, size_t *cap, struct error *err)
{
    struct trace_ops o = {0};
    struct trace_op *ops = NULL;
    size_t count = 0;
    int rc = trace_ops(t, threads, &o, err);
    if (!rc)
        rc = trace_ops_group(&o, by, arena, &ops, &count, err);
    struct trace_diff_row *more = rc ? NULL : arena_grow(arena, *rows, cap, *n + count + 1, sizeof **rows, err);
    if (!rc && !more)
        rc = ERR_MEMORY;
    for (size_t i = 0; i < count && !rc; i++) {
        struct trace_diff_row *r = &more[*n + i];
        struct diff_side side = {ops[i].occurrences, ops[i].self_ps, ops[i].self_squares};
        *r = (struct trace_diff_row){0};
        *(second ? &r->b : &r->a) = side;
        rc = copy(arena, ops[i].name, &r->name, err);
        if (!rc && by == TRACE_BY_OP)
            rc = copy(arena, ops[i].module, &r->module, err);
    }
    if (!rc) {
        *rows = more;
        *n += count;
    }
    trace_ops_release(&o);
    return rc;
}

int trace_diff(struct trace *a, struct trace *b, enum trace_ops_by by, double tolerance, struct threads *threads,
               struct arena *arena, struct trace_diff *out, struct error *err)
{
    size_t cap_programs = 0, cap_rows = 0;
    *out = (struct trace_diff){0};
    int rc = executions(a, false, arena, &out->programs, &out->n_programs, &cap_programs, err);
    if (!rc)
        rc = executions(b, true, arena, &out->programs, &out->n_programs, &cap_programs, err);
    if (!rc)
        rc = operations(a, false, by, threads, arena, &out->rows, &out->n_rows, &cap_rows, err);
    if (!rc)
        rc = operations(b, true, by, threads, arena, &out->rows, &out->n_rows, &cap_rows, err);
    if (rc)
        return rc;
    out->n_programs = merge(out->programs, out->n_programs);
    out->n_rows = merge(out->rows, out->n_rows);
    judge(out, tolerance);
    finish(out->programs, out->n_programs, out->scale);
    finish(out->rows, out->n_rows, out->scale);
    return 0;
}

// ---- JSON

static void side_json(struct jw *w, const char *key, const struct diff_side *s)
{
    jw_key(w, key);
    jw_object(w);
    jw_kv_uint(w, "count", s->count);
    jw_kv_int(w, "sum_ps", s->sum_ps);
    jw_kv_double(w, "mean_ps", mean(s));
    jw_object_end(w);
}

static void interval_json(struct jw *w, const char *key, const struct diff_interval *i)
{
    jw_key(w, key);
    if (isnan(i->low) || isnan(i->high)) {
        jw_null(w);
        return;
    }
    jw_array(w);
    jw_double(w, i->low);
    jw_double(w, i->high);
    jw_array_end(w);
}

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
        side_json(w, "a", &r->a);
        side_json(w, "b", &r->b);
        jw_kv_double(w, "change_ps", r->change_ps);
        jw_kv_double(w, "mean_change_ps", r->mean_change_ps);
        interval_json(w, "mean_change_range_ps", &r->means);
        jw_object_end(w);
    }
    jw_array_end(w);
}

void trace_diff_json(const struct trace *a, const struct trace *b, const struct trace_diff *d, size_t top, struct jw *w)
{
    static const char *const verdicts[] = {"not slower", "slower", "unclear"};
    jw_object(w);
    jw_kv_string(w, "verdict", verdicts[d->verdict]);
    jw_kv_double(w, "slower", d->slower);
    interval_json(w, "slower_range", &d->range);
    jw_kv_double(w, "scale", d->scale);
    rows_json(w, "programs", d->programs, d->n_programs);
    jw_kv_uint(w, "n_rows", d->n_rows);
    rows_json(w, "rows", d->rows, top && top < d->n_rows ? top : d->n_rows);
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
