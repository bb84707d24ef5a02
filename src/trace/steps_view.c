// SPDX-License-Identifier: Apache-2.0
#include "trace/steps_view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/idmap.h"
#include "trace/ops_view.h"

// What is not known comes last.
static int by_scope(const void *a, const void *b)
{
    const struct trace_scope *x = a, *y = b;
    int c = slice_compare(x->scope, y->scope);
    if (c)
        return c;
    double p = isnan(x->runs) ? INFINITY : x->runs, q = isnan(y->runs) ? INFINITY : y->runs;
    return (p > q) - (p < q);
}

static int by_self(const void *a, const void *b)
{
    const struct trace_scope *x = a, *y = b;
    if (x->self_ps != y->self_ps)
        return x->self_ps < y->self_ps ? 1 : -1;
    return by_scope(a, b);
}

// How often programs of an id were executed.
static int count_runs(const struct trace_modules *m, struct idmap *known, uint32_t *counts, struct error *err)
{
    int rc = 0;
    bool again;
    for (uint32_t i = 0; i < m->n_programs && !rc; i++)
        rc = idmap_put(known, (int64_t)m->programs[i].id, i, &again, err);
    for (size_t d = 0; d < m->devices.n && !rc; d++) {
        for (size_t i = 0; i < m->of_device[d].n; i++) {
            uint32_t at;
            if (idmap_get(known, (int64_t)m->programs[m->of_device[d].items[i].program].id, &at))
                counts[at]++;
        }
    }
    return rc;
}

static void scope_of(struct trace_scope *s, const struct trace_op *op, const struct idmap *known,
                     const uint32_t *counts)
{
    uint32_t at;
    double executions = idmap_get(known, (int64_t)op->program_id, &at) ? counts[at] : 0;
    *s = (struct trace_scope){
        .scope = op->scope, .occurrences = op->occurrences, .self_ps = op->self_ps, .flop = op->flop, .runs = NAN};
    if (op->program_id && executions > 0) {
        // A cut execution at either end of the profile leaves a fraction.
        double runs = round((double)op->occurrences / executions);
        s->runs = runs < 1 ? 1 : runs;
    }
    s->iteration_ps = isnan(s->runs) ? NAN : (double)op->self_ps / (executions * s->runs);
}

int trace_scopes(struct trace_steps *s, const struct trace_ops *o, struct trace_scope **out, size_t *n,
                 struct error *err)
{
    struct trace_scope *rows = arena_new(&s->modules.arena, struct trace_scope, o->n_rows, err);
    uint32_t *counts = arena_new(&s->modules.arena, uint32_t, s->modules.n_programs, err);
    struct idmap known;
    double flop = 0;
    if (!rows || !counts)
        return ERR_MEMORY;
    idmap_init(&known);
    int rc = count_runs(&s->modules, &known, counts, err);
    for (size_t i = 0; i < o->n_rows && !rc; i++)
        scope_of(&rows[i], &o->rows[i], &known, counts);
    idmap_release(&known);
    *out = rows;
    *n = 0;
    if (rc || !o->n_rows)
        return rc;
    qsort(rows, o->n_rows, sizeof *rows, by_scope);
    for (size_t i = 0; i < o->n_rows; i++) {
        struct trace_scope *into = *n ? &rows[*n - 1] : NULL;
        if (!isnan(rows[i].flop))
            flop += rows[i].flop;
        if (!into || by_scope(into, &rows[i]) != 0) {
            rows[(*n)++] = rows[i];
            continue;
        }
        into->occurrences += rows[i].occurrences;
        into->self_ps += rows[i].self_ps;
        into->flop += rows[i].flop;
        into->iteration_ps += rows[i].iteration_ps;
    }
    for (size_t i = 0; i < *n; i++) {
        rows[i].step_ps = s->n ? (double)rows[i].self_ps / (double)s->n : NAN;
        rows[i].share = (double)rows[i].self_ps / (double)o->self_ps;
        rows[i].flop_share = flop > 0 ? rows[i].flop / flop : NAN;
    }
    qsort(rows, *n, sizeof *rows, by_self);
    return 0;
}

// ---- JSON

void trace_text_json(struct jw *w, const char *key, struct slice s)
{
    jw_key(w, key);
    if (s.size)
        jw_string_n(w, (const char *)s.data, s.size);
    else
        jw_null(w);
}

static void step_json(struct jw *w, const struct trace_steps *s, const struct trace_step *a)
{
    const struct trace_device *d = &s->modules.devices.items[a->device];
    jw_object(w);
    trace_text_json(w, "device", d->name);
    jw_kv_string(w, "host", d->file->host);
    jw_kv_int(w, "index", a->index);
    jw_kv_int(w, "start_ps", a->start_ps);
    jw_kv_int(w, "duration_ps", a->duration_ps);
    jw_kv_int(w, "work_ps", a->work_ps);
    jw_kv_int(w, "busy_ps", a->busy_ps);
    jw_kv_int(w, "idle_ps", a->idle_ps);
    jw_kv_int(w, "collective_ps", a->collective_ps);
    jw_kv_int(w, "host_ps", a->host_ps);
    jw_kv_int(w, "input_ps", a->input_ps);
    jw_kv_bool(w, "complete", a->complete);
    jw_kv_bool(w, "outlier", a->outlier);
    jw_object_end(w);
}

void trace_steps_members(const struct trace_steps *s, bool every, struct jw *w)
{
    const struct {
        const char *name;
        double ps;
    } numbers[] = {{"mean_ps", s->mean_ps},
                   {"min_ps", s->min_ps},
                   {"p50_ps", s->p50_ps},
                   {"p90_ps", s->p90_ps},
                   {"p99_ps", s->p99_ps},
                   {"max_ps", s->max_ps},
                   {"device_skew_p50_ps", s->skew_p50_ps},
                   {"device_skew_max_ps", s->skew_max_ps},
                   {"host_skew_p50_ps", s->host_skew_p50_ps},
                   {"host_skew_max_ps", s->host_skew_max_ps}};
    jw_kv_string(w, "rule", trace_rule_text(s->rule));
    trace_text_json(w, "program", s->program);
    if (every) {
        jw_key(w, "steps");
        jw_array(w);
        for (size_t i = 0; i < s->n; i++)
            step_json(w, s, &s->items[i]);
        jw_array_end(w);
    }
    jw_key(w, "statistics");
    jw_object(w);
    jw_kv_uint(w, "count", s->n);
    jw_kv_uint(w, "outliers", s->outliers);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        jw_kv_double(w, numbers[i].name, numbers[i].ps);
    jw_object_end(w);
}

int trace_steps_json(const struct trace *t, struct trace_steps *s, const struct trace_ops *o, struct jw *w,
                     struct error *err)
{
    struct trace_scope *rows;
    size_t n;
    int rc = trace_scopes(s, o, &rows, &n, err);
    if (rc)
        return rc;
    jw_object(w);
    trace_steps_members(s, true, w);
    jw_key(w, "scopes");
    jw_array(w);
    for (size_t i = 0; i < n; i++) {
        jw_object(w);
        trace_text_json(w, "scope", rows[i].scope);
        jw_kv_double(w, "runs", rows[i].runs);
        jw_kv_uint(w, "occurrences", rows[i].occurrences);
        jw_kv_int(w, "self_ps", rows[i].self_ps);
        jw_kv_double(w, "step_ps", rows[i].step_ps);
        jw_kv_double(w, "iteration_ps", rows[i].iteration_ps);
        quantity_json_kv(w, "share",
                         quantity_make(rows[i].share, "1", ORIGIN_DERIVED, "self time over that of all operations"));
        quantity_json_kv(w, "flop_share",
                         quantity_make(rows[i].flop_share, "1", ORIGIN_DERIVED,
                                       isnan(rows[i].flop_share) ? "FLOP are not known of all of them"
                                                                 : "FLOP over those of all operations"));
        jw_object_end(w);
    }
    jw_array_end(w);
    trace_files_json(t, w);
    jw_object_end(w);
    return 0;
}
