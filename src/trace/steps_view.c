// SPDX-License-Identifier: Apache-2.0
#include "trace/steps_view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/idmap.h"
#include "trace/ops_view.h"

// ---- Executions

// How often programs of an id were executed.
struct executions {
    const struct trace_modules *modules;
    struct idmap known; // id -> the first program that has it
    uint32_t *counts;
};

static int count_executions(struct executions *x, struct trace_modules *m, struct error *err)
{
    int rc = 0;
    bool again;
    x->modules = m;
    x->counts = arena_new(&m->arena, uint32_t, m->n_programs, err);
    if (!x->counts)
        return ERR_MEMORY;
    for (uint32_t i = 0; i < m->n_programs && !rc; i++)
        rc = idmap_put(&x->known, (int64_t)m->programs[i].id, i, &again, err);
    for (size_t d = 0; d < m->devices.n && !rc; d++) {
        for (size_t i = 0; i < m->of_device[d].n; i++) {
            uint32_t at;
            if (idmap_get(&x->known, (int64_t)m->programs[m->of_device[d].items[i].program].id, &at))
                x->counts[at]++;
        }
    }
    return rc;
}

// ---- Rows

// One operation, and what it is added up by.
struct part {
    struct trace_scope row;
    uint64_t program_id;
    double executions; // of its program; 0: not known
};

// Where the innermost loop is that a name lies in; empty without one.
static struct slice loop_of(struct slice scope)
{
    static const char body[] = "while/body";
    size_t n = sizeof body - 1;
    for (size_t end = scope.size; end >= n; end--) {
        bool here = memcmp(scope.data + end - n, body, n) == 0;
        if (here && (end == scope.size || scope.data[end] == '/') && (end == n || scope.data[end - n - 1] == '/'))
            return (struct slice){scope.data, end};
    }
    return (struct slice){scope.data, 0};
}

static void make_part(struct part *p, const struct trace_op *op, enum trace_scopes_by by, const struct executions *x)
{
    uint32_t at;
    bool known = op->program_id && idmap_get(&x->known, (int64_t)op->program_id, &at) && x->counts[at];
    *p = (struct part){.program_id = op->program_id, .executions = known ? x->counts[at] : 0};
    struct trace_scope *s = &p->row;
    *s = (struct trace_scope){.scope = op->scope,
                              .operations = 1,
                              .occurrences = op->occurrences,
                              .self_ps = op->self_ps,
                              .flop = op->flop,
                              .runs = NAN};
    if (known) {
        // An operation of a GPU may be several kernels. A cut execution at either end of the profile leaves a fraction.
        double runs = round((double)op->executions / p->executions);
        s->runs = runs < 1 ? 1 : runs;
    }
    if (by == SCOPES_BY_LOOP) {
        s->program = known ? x->modules->programs[at].name : op->module;
        s->scope = s->runs > 1 ? loop_of(op->scope) : (struct slice){op->scope.data, 0};
    }
}

// What is not known comes last.
static int by_scope(const void *a, const void *b)
{
    const struct trace_scope *x = a, *y = b;
    int c = slice_compare(x->program, y->program);
    if (!c)
        c = slice_compare(x->scope, y->scope);
    if (c)
        return c;
    double p = isnan(x->runs) ? INFINITY : x->runs, q = isnan(y->runs) ? INFINITY : y->runs;
    return (p > q) - (p < q);
}

static int by_scope_and_program(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    int c = by_scope(&x->row, &y->row);
    return c ? c : (x->program_id > y->program_id) - (x->program_id < y->program_id);
}

static int by_self(const void *a, const void *b)
{
    const struct trace_scope *x = a, *y = b;
    if (x->self_ps != y->self_ps)
        return x->self_ps < y->self_ps ? 1 : -1;
    return by_scope(a, b);
}

// execution_ps holds executions until `finish`.
static size_t add_up(struct trace_scope *rows, struct part *parts, size_t count)
{
    size_t n = 0;
    qsort(parts, count, sizeof *parts, by_scope_and_program);
    for (size_t i = 0; i < count; i++) {
        const struct part *p = &parts[i];
        bool same = n && by_scope(&rows[n - 1], &p->row) == 0;
        if (!same)
            rows[n++] = p->row;
        struct trace_scope *into = &rows[n - 1];
        if (!same || p->program_id != parts[i - 1].program_id)
            into->execution_ps += p->executions;
        if (!same)
            continue;
        into->operations++;
        into->occurrences += p->row.occurrences;
        into->self_ps = add_saturated(into->self_ps, p->row.self_ps);
        into->flop += p->row.flop;
    }
    return n;
}

static void finish(struct trace_scope *rows, size_t n, const struct trace_ops *o, size_t steps)
{
    double flop = 0;
    for (size_t i = 0; i < o->n_rows; i++)
        flop += isnan(o->rows[i].flop) ? 0 : o->rows[i].flop;
    for (size_t i = 0; i < n; i++) {
        struct trace_scope *r = &rows[i];
        double self = (double)r->self_ps;
        r->execution_ps = isnan(r->runs) ? NAN : self / r->execution_ps;
        r->iteration_ps = r->execution_ps / r->runs;
        r->step_ps = steps ? self / (double)steps : NAN;
        r->share = self / (double)o->self_ps;
        r->flop_share = flop > 0 ? r->flop / flop : NAN;
    }
    qsort(rows, n, sizeof *rows, by_self);
}

int trace_scopes(struct trace_steps *s, const struct trace_ops *o, enum trace_scopes_by by, struct trace_scope **out,
                 size_t *n, struct error *err)
{
    struct trace_scope *rows = arena_new(&s->modules.arena, struct trace_scope, o->n_rows, err);
    struct part *parts = arena_new(&s->modules.arena, struct part, o->n_rows, err);
    struct executions x = {0};
    *out = rows;
    *n = 0;
    if (!rows || !parts)
        return ERR_MEMORY;
    idmap_init(&x.known);
    int rc = count_executions(&x, &s->modules, err);
    for (size_t i = 0; i < o->n_rows && !rc; i++)
        make_part(&parts[i], &o->rows[i], by, &x);
    idmap_release(&x.known);
    if (rc || !o->n_rows)
        return rc;
    *n = add_up(rows, parts, o->n_rows);
    finish(rows, *n, o, s->n);
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

static int scopes_json(struct trace_steps *s, const struct trace_ops *o, enum trace_scopes_by by, struct jw *w,
                       struct error *err)
{
    struct trace_scope *rows;
    size_t n;
    int rc = trace_scopes(s, o, by, &rows, &n, err);
    if (rc)
        return rc;
    jw_key(w, by == SCOPES_BY_LOOP ? "loops" : "scopes");
    jw_array(w);
    for (size_t i = 0; i < n; i++) {
        jw_object(w);
        if (by == SCOPES_BY_LOOP)
            trace_text_json(w, "program", rows[i].program);
        trace_text_json(w, "scope", rows[i].scope);
        jw_kv_double(w, "runs", rows[i].runs);
        jw_kv_uint(w, "operations", rows[i].operations);
        jw_kv_uint(w, "occurrences", rows[i].occurrences);
        jw_kv_int(w, "self_ps", rows[i].self_ps);
        jw_kv_double(w, "step_ps", rows[i].step_ps);
        jw_kv_double(w, "execution_ps", rows[i].execution_ps);
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
    return 0;
}

int trace_steps_json(const struct trace *t, struct trace_steps *s, const struct trace_ops *o, struct jw *w,
                     struct error *err)
{
    jw_object(w);
    trace_steps_members(s, true, w);
    int rc = scopes_json(s, o, SCOPES_BY_NAME, w, err);
    if (!rc)
        rc = scopes_json(s, o, SCOPES_BY_LOOP, w, err);
    trace_files_json(t, w);
    jw_object_end(w);
    return rc;
}
