// SPDX-License-Identifier: Apache-2.0
#include "trace/modules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/idmap.h"
#include "base/stats.h"
#include "trace/busy.h"
#include "trace/ops_view.h"

// ---- Programs, by name and id

struct finder {
    struct trace_modules *m;
    struct idmap known; // hash -> program
    uint64_t secret;
};

static uint64_t text_hash(uint64_t h, struct slice s)
{
    for (size_t i = 0; i < s.size; i++)
        h = (h ^ s.data[i]) * 0x100000001b3;
    return mix64(h);
}

static int find_program(struct finder *f, struct slice name, uint64_t id, uint32_t *out, struct error *err)
{
    struct trace_modules *m = f->m;
    int64_t hash = (int64_t)mix64(text_hash(f->secret, name) ^ id);
    bool again;
    if (idmap_get(&f->known, hash, out))
        return 0;
    struct trace_executed *more =
        arena_grow(&m->arena, m->programs, &m->cap_programs, m->n_programs + 1, sizeof *more, err);
    const char *copy = more ? arena_strndup(&m->arena, (const char *)name.data, name.size, err) : NULL;
    if (!copy || m->n_programs >= UINT32_MAX / 2)
        return ERR_MEMORY;
    m->programs = more;
    m->programs[m->n_programs] = (struct trace_executed){{(const uint8_t *)copy, name.size}, id};
    *out = (uint32_t)m->n_programs++;
    return idmap_put(&f->known, hash, *out, &again, err);
}

static int add_run(struct trace_modules *m, struct trace_runs *runs, struct trace_run run, struct error *err)
{
    struct trace_run *more = arena_grow(&m->arena, runs->items, &runs->cap, runs->n + 1, sizeof *more, err);
    if (!more)
        return ERR_MEMORY;
    runs->items = more;
    runs->items[runs->n++] = run;
    return 0;
}

// ---- What a TPU says

// "jit_f(12190760917235803885)": the name, and the number between the parentheses that end it.
static struct slice split_name(struct slice s, uint64_t *id)
{
    size_t open = s.size;
    *id = 0;
    if (!s.size || s.data[s.size - 1] != ')')
        return s;
    while (open > 0 && s.data[open - 1] != '(')
        open--;
    uint64_t v = 0;
    for (size_t i = open; i + 1 < s.size; i++) {
        if (s.data[i] < '0' || s.data[i] > '9' || __builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(s.data[i] - '0'), &v))
            return s;
    }
    if (open == 0 || open + 1 == s.size)
        return s;
    *id = v;
    return (struct slice){s.data, open - 1};
}

static bool is_module_line(const struct trace_device *d, const struct xline *l)
{
    return slice_is(l->name, d->kind == TRACE_SPARSE_CORE ? "Sparse Core Modules" : "XLA Modules");
}

static int read_modules(struct finder *f, struct trace_runs *runs, struct trace_spans *walk, struct error *err)
{
    struct trace_span s;
    int rc = 0;
    runs->n = 0;
    while (!rc && trace_spans_next(walk, &s)) {
        const struct xmeta *row = xtable_find(&walk->plane->event_table, s.event.metadata_id);
        struct trace_run run = {.start_ps = s.start_ps, .end_ps = s.end_ps};
        uint64_t id;
        struct slice name = split_name(row ? row->name : (struct slice){(const uint8_t *)"", 0}, &id);
        rc = find_program(f, name, id, &run.program, err);
        if (!rc)
            rc = add_run(f->m, runs, run, err);
    }
    return rc;
}

// ---- What a GPU's kernels let one infer

struct open_run {
    uint64_t first_op; // hash of the operation and its kernel; 0: the program has not run yet
    size_t run;        // where it is in the runs
};

struct kernel {
    struct slice op, module;
    uint64_t program;
};

static void read_kernel(const struct xplane *p, const struct xevent *e, struct kernel *k)
{
    struct xstats walk = xevent_stats(p, e);
    struct xstat s;
    *k = (struct kernel){0};
    while (xstat_next(&walk, &s)) {
        const struct xmeta *row = xtable_find(&p->stat_table, s.metadata_id);
        if (row && s.kind == XSTAT_TEXT && slice_is(row->name, "hlo_op"))
            k->op = s.bytes;
        else if (row && s.kind == XSTAT_TEXT && slice_is(row->name, "hlo_module"))
            k->module = s.bytes;
        else if (row && (s.kind == XSTAT_INT || s.kind == XSTAT_UINT) && slice_is(row->name, "program_id"))
            k->program = s.unsigned_number;
    }
}

static int by_run_start(const void *a, const void *b)
{
    const struct trace_run *x = a, *y = b;
    if (x->start_ps != y->start_ps)
        return x->start_ps < y->start_ps ? -1 : 1;
    return (x->program > y->program) - (x->program < y->program);
}

static int open_slot(struct open_run **open, size_t *cap, uint32_t program, struct error *err)
{
    if (program < *cap)
        return 0;
    size_t more = 2 * ((size_t)program + 16);
    struct open_run *grown = realloc(*open, more * sizeof *grown);
    if (!grown)
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu programs", more);
    memset(grown + *cap, 0, (more - *cap) * sizeof *grown);
    *open = grown;
    *cap = more;
    return 0;
}

static int infer_runs(struct finder *f, struct trace_runs *runs, struct trace_spans *walk, struct error *err)
{
    struct open_run *open = NULL;
    size_t cap = 0;
    struct trace_span s;
    int rc = 0;
    runs->n = 0;
    while (!rc && trace_spans_next(walk, &s)) {
        struct kernel k;
        uint32_t program;
        read_kernel(walk->plane, &s.event, &k);
        if (!k.op.size || (!k.module.size && !k.program))
            continue;
        rc = find_program(f, k.module, k.program, &program, err);
        if (!rc)
            rc = open_slot(&open, &cap, program, err);
        if (rc)
            break;
        uint64_t op = mix64(text_hash(f->secret, k.op) ^ (uint64_t)s.event.metadata_id) | 1;
        struct open_run *o = &open[program];
        if (!o->first_op || o->first_op == op) {
            *o = (struct open_run){op, runs->n};
            rc = add_run(f->m, runs, (struct trace_run){program, s.start_ps, s.end_ps}, err);
        } else if (s.end_ps > runs->items[o->run].end_ps) {
            runs->items[o->run].end_ps = s.end_ps;
        }
    }
    free(open);
    if (runs->n)
        qsort(runs->items, runs->n, sizeof *runs->items, by_run_start);
    return rc;
}

// ---- All of it

static int find_runs(struct finder *f, struct trace_runs *runs, const struct trace_device *d, int64_t origin_ns,
                     struct error *err)
{
    struct trace_spans walk;
    struct xline *modules = NULL;
    for (size_t i = 0; i < d->plane->n_lines && d->kind != TRACE_GPU && d->kind != TRACE_HOST; i++) {
        if (is_module_line(d, &d->plane->lines[i]))
            modules = &d->plane->lines[i];
    }
    runs->device = d;
    runs->inferred = d->kind == TRACE_GPU || d->kind == TRACE_HOST;
    int rc = trace_spans_begin(&walk, d->plane, modules ? &modules : d->lines,
                               modules          ? 1
                               : runs->inferred ? d->n_lines
                                                : 0,
                               origin_ns, CLOCK_OF_LINE, err);
    do {
        if (!rc)
            rc = runs->inferred ? infer_runs(f, runs, &walk, err) : read_modules(f, runs, &walk, err);
    } while (trace_spans_again(&walk, &rc, err));
    trace_spans_end(&walk, &d->file->space, &d->file->space.damage);
    return rc;
}

static int find_guarded(struct finder *f, struct trace_runs *runs, const struct trace_device *d, int64_t origin_ns,
                        struct error *err)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &d->file->map))
        return file_guard_error(&g, err);
    int rc = find_runs(f, runs, d, origin_ns, err);
    file_guard_end(&g);
    return rc;
}

int trace_modules(struct trace *t, struct trace_modules *out, struct error *err)
{
    struct finder f = {.m = out, .secret = process_secret()};
    memset(out, 0, sizeof *out);
    arena_init(&out->arena);
    idmap_init(&f.known);
    int rc = trace_find_devices(t, &out->devices, err);
    if (!rc) {
        out->of_device = arena_new(&out->arena, struct trace_runs, out->devices.n, err);
        rc = out->of_device ? 0 : ERR_MEMORY;
    }
    int64_t origin_ns = trace_origin_ns(t);
    for (size_t i = 0; i < out->devices.n && !rc; i++)
        rc = find_guarded(&f, &out->of_device[i], &out->devices.items[i], origin_ns, err);
    idmap_release(&f.known);
    return rc;
}

void trace_modules_release(struct trace_modules *m)
{
    arena_release(&m->arena);
    memset(m, 0, sizeof *m);
}

// ---- Rows

static int by_total(const void *a, const void *b)
{
    const struct trace_module *x = a, *y = b;
    if (x->total_ps != y->total_ps)
        return x->total_ps < y->total_ps ? 1 : -1;
    return (x->program > y->program) - (x->program < y->program);
}

struct timed {
    uint32_t program;
    int64_t ps;
};

static int by_program(const void *a, const void *b)
{
    const struct timed *x = a, *y = b;
    if (x->program != y->program)
        return x->program < y->program ? -1 : 1;
    return (x->ps > y->ps) - (x->ps < y->ps);
}

static void make_row(struct trace_module *row, const struct trace_device *d, const struct timed *runs, size_t n,
                     double *values, double *scratch)
{
    *row = (struct trace_module){
        .program = runs->program, .device = d, .count = n, .min_ps = runs[0].ps, .max_ps = runs[n - 1].ps};
    for (size_t i = 0; i < n; i++) {
        row->total_ps = add_saturated(row->total_ps, runs[i].ps);
        values[i] = (double)runs[i].ps;
    }
    row->mean_ps = (double)row->total_ps / (double)n;
    row->p50_ps = stats_quantile(values, n, 0.5, scratch);
    row->p90_ps = stats_quantile(values, n, 0.9, scratch);
    row->p99_ps = stats_quantile(values, n, 0.99, scratch);
}

int trace_modules_rows(struct trace_modules *m, bool together, struct trace_module **rows, size_t *n, struct error *err)
{
    size_t all = 0;
    for (size_t i = 0; i < m->devices.n; i++)
        all += m->of_device[i].n;
    struct timed *timed = arena_new(&m->arena, struct timed, all, err);
    double *values = arena_new(&m->arena, double, all, err), *scratch = arena_new(&m->arena, double, all, err);
    size_t cap = m->n_programs * (together ? 1 : m->devices.n);
    struct trace_module *out = arena_new(&m->arena, struct trace_module, cap < all ? cap : all, err);
    if (!timed || !values || !scratch || !out)
        return ERR_MEMORY;
    *rows = out;
    *n = 0;
    for (size_t i = 0; i < m->devices.n; i++) {
        size_t count = 0;
        for (; i < m->devices.n; i++) {
            const struct trace_runs *r = &m->of_device[i];
            for (size_t k = 0; k < r->n; k++)
                timed[count++] = (struct timed){r->items[k].program, r->items[k].end_ps - r->items[k].start_ps};
            if (!together)
                break;
        }
        const struct trace_device *d = together ? NULL : &m->devices.items[i];
        if (count)
            qsort(timed, count, sizeof *timed, by_program);
        for (size_t from = 0, to; from < count; from = to) {
            for (to = from + 1; to < count && timed[to].program == timed[from].program;)
                to++;
            make_row(&out[(*n)++], d, timed + from, to - from, values, scratch);
        }
    }
    if (*n)
        qsort(out, *n, sizeof *out, by_total);
    return 0;
}

static void row_json(struct jw *w, const struct trace_modules *m, const struct trace_module *row)
{
    const struct trace_executed *p = &m->programs[row->program];
    char id[32];
    snprintf(id, sizeof id, "%llu", (unsigned long long)p->id);
    jw_object(w);
    jw_kv_slice(w, "name", p->name);
    jw_kv_string(w, "program_id", p->id ? id : NULL); // beyond 2^53
    jw_kv_slice(w, "device", row->device ? row->device->name : (struct slice){0});
    jw_kv_string(w, "host", row->device ? row->device->file->host : NULL);
    jw_kv_uint(w, "count", row->count);
    jw_kv_int(w, "total_ps", row->total_ps);
    jw_kv_int(w, "min_ps", row->min_ps);
    jw_kv_int(w, "max_ps", row->max_ps);
    jw_kv_double(w, "mean_ps", row->mean_ps);
    jw_kv_double(w, "p50_ps", row->p50_ps);
    jw_kv_double(w, "p90_ps", row->p90_ps);
    jw_kv_double(w, "p99_ps", row->p99_ps);
    jw_object_end(w);
}

int trace_modules_json(const struct trace *t, struct trace_modules *m, bool together, struct jw *w, struct error *err)
{
    struct trace_module *rows;
    size_t n;
    int rc = trace_modules_rows(m, together, &rows, &n, err);
    if (rc)
        return rc;
    bool inferred = false;
    for (size_t i = 0; i < m->devices.n; i++)
        inferred |= m->of_device[i].n && m->of_device[i].inferred;
    jw_object(w);
    jw_kv_bool(w, "inferred", inferred);
    jw_key(w, "modules");
    jw_array(w);
    for (size_t i = 0; i < n; i++)
        row_json(w, m, &rows[i]);
    jw_array_end(w);
    trace_files_json(t, w);
    jw_object_end(w);
    return 0;
}
