// SPDX-License-Identifier: Apache-2.0
// Traced runs of stages, behind all that is timed.
#include "lab/stages_trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/capture.h"
#include "lab/stages_part.h"
#include "trace/busy.h"
#include "trace/modules.h"
#include "trace/ops.h"

#define KERNEL_SPAN "kernel: "

static double ms_of(int64_t ps)
{
    return (double)ps * 1e-9;
}

double stages_trace_device_share(const struct stages_trace *t, double p50_ms)
{
    double share = t->busy_ms / (t->traced_ms < p50_ms ? t->traced_ms : p50_ms);
    return share > 1 ? 1 : share;
}

static struct stages_operation *room_for(struct stages_trace *t, double ms)
{
    int at = t->n_operations < STAGES_OPERATIONS ? t->n_operations++ : STAGES_OPERATIONS - 1;
    if (at == STAGES_OPERATIONS - 1 && t->operations[at].name && t->operations[at].ms >= ms)
        return NULL;
    while (at > 0 && t->operations[at - 1].ms < ms) {
        t->operations[at] = t->operations[at - 1];
        at--;
    }
    return &t->operations[at];
}

// ---- a profile

static int add_operations(struct trace *trace, struct arena *a, struct stages_trace *out, struct error *err)
{
    struct trace_ops ops;
    int rc = trace_ops(trace, NULL, &ops, err);
    for (size_t i = 0; i < ops.n_rows && !rc; i++) {
        const struct trace_op *row = &ops.rows[i];
        struct stages_operation *to = room_for(out, ms_of(row->self_ps));
        if (!to)
            break; // they come by falling time
        *to = (struct stages_operation){
            .program = arena_strndup(a, (const char *)row->module.data, row->module.size, err),
            .name = arena_strndup(a, (const char *)row->name.data, row->name.size, err),
            .category = arena_strndup(a, (const char *)row->category.data, row->category.size, err),
            .runs = row->executions,
            .ms = ms_of(row->self_ps)};
        rc = to->program && to->name && to->category ? 0 : ERR_MEMORY;
    }
    out->operations_ms = rc ? 0 : ms_of(ops.self_ps);
    trace_ops_release(&ops);
    return rc;
}

static void add_runs(const struct trace_modules *m, const struct trace_device *d, struct stages_trace *out)
{
    for (size_t i = 0; i < m->devices.n; i++) {
        struct busy programs = {0};
        int64_t gap;
        const struct trace_runs *r = &m->of_device[i];
        if (r->device->plane != d->plane)
            continue;
        for (size_t k = 0; k < r->n; k++)
            busy_add(&programs, r->items[k].start_ps, r->items[k].end_ps, &gap);
        out->programs = r->n;
        out->between_ms = r->n ? ms_of(programs.last_ps - programs.first_ps - programs.busy_ps) : NAN;
    }
}

int stages_trace_of_file(const char *path, struct arena *a, struct stages_trace *out, struct error *err)
{
    struct trace trace;
    struct trace_modules modules;
    int rc = trace_open(&trace, &path, 1, err);
    if (rc) {
        trace_close(&trace);
        return rc;
    }
    rc = trace_modules(&trace, &modules, err);
    const struct trace_device *busiest = NULL;
    struct busy most = {0};
    for (size_t i = 0; i < modules.devices.n && !rc; i++) {
        struct busy b;
        rc = trace_device_busy(&modules.devices.items[i], trace_origin_ns(&trace), CLOCK_OF_LINE, &b, err);
        if (!rc && b.busy_ps > most.busy_ps) {
            most = b;
            busiest = &modules.devices.items[i];
        }
    }
    if (!rc && busiest) {
        out->of_operations = true;
        out->busy_ms = ms_of(most.busy_ps);
        add_runs(&modules, busiest, out);
        rc = add_operations(&trace, a, out, err);
    }
    trace_modules_release(&modules);
    trace_close(&trace);
    return rc;
}

// ---- our own spans

static int by_start(const void *a, const void *b)
{
    const struct worker_span *x = a, *y = b;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

// The program in whose run a span lies; -1: none. `spans` by their starts.
static int32_t program_around(const struct worker_span *spans, size_t i)
{
    for (size_t k = i; k-- > 0;) {
        if (capture_is_run(&spans[k]))
            return spans[k].end_ns >= spans[i].end_ns ? spans[k].of : -1;
    }
    return -1;
}

struct piece {
    int32_t program;
    const char *name; // a kernel's; NULL: a whole run
    uint64_t runs;    // threads of a team that overlap are one
    struct busy busy; // ns in place of ps
};

static void add_piece(struct piece *pieces, size_t *n, int32_t program, const char *name, const struct worker_span *s)
{
    size_t i = 0;
    int64_t gap;
    while (i < *n && (pieces[i].program != program ||
                      (name ? !pieces[i].name || strcmp(pieces[i].name, name) != 0 : pieces[i].name != NULL)))
        i++;
    if (i == *n)
        pieces[(*n)++] = (struct piece){program, name, 0, {0}};
    bool first = !pieces[i].busy.spans;
    pieces[i].runs += busy_add(&pieces[i].busy, (int64_t)s->start_ns, (int64_t)s->end_ns, &gap) || first;
}

// What is left of a program's runs when its kernels are taken away; they do not overlap each other, being one team's.
static double rest_of(const struct piece *pieces, size_t n, const struct piece *whole)
{
    double ns = (double)whole->busy.busy_ps;
    for (size_t i = 0; i < n; i++) {
        if (pieces[i].name && pieces[i].program == whole->program)
            ns -= (double)pieces[i].busy.busy_ps;
    }
    return ns < 0 ? 0 : ns;
}

static int add_pieces(const struct worker *w, const struct piece *pieces, size_t n, struct arena *a,
                      struct stages_trace *out, struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct piece *p = &pieces[i];
        double ms = (p->name ? (double)p->busy.busy_ps : rest_of(pieces, n, p)) * 1e-6;
        struct stages_operation *to = room_for(out, ms);
        if (!to)
            continue;
        bool alone = true;
        for (size_t k = 0; k < n; k++)
            alone = alone && (!pieces[k].name || pieces[k].program != p->program);
        const char *name = p->name ? p->name + strlen(KERNEL_SPAN) : alone ? "the program" : "without kernels";
        *to = (struct stages_operation){.program = arena_strdup(a, worker_program_name(w, p->program), err),
                                        .name = arena_strdup(a, name, err),
                                        .category = p->name ? "kernel" : "program",
                                        .runs = p->runs,
                                        .ms = ms};
        if (!to->program || !to->name)
            return ERR_MEMORY;
    }
    return 0;
}

int stages_trace_of_spans(const struct worker *w, struct worker_span *spans, size_t n, struct arena *a,
                          struct stages_trace *out, struct error *err)
{
    struct piece *pieces = calloc(n + 1, sizeof *pieces);
    struct busy all = {0};
    int64_t gap;
    size_t n_pieces = 0;
    if (!pieces)
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu spans", n);
    if (n)
        qsort(spans, n, sizeof *spans, by_start);
    for (size_t i = 0; i < n; i++) {
        const struct worker_span *s = &spans[i];
        if (capture_is_run(s)) {
            busy_add(&all, (int64_t)s->start_ns, (int64_t)s->end_ns, &gap);
            add_piece(pieces, &n_pieces, s->of, NULL, s);
        } else if (strncmp(s->name, KERNEL_SPAN, strlen(KERNEL_SPAN)) == 0) {
            int32_t program = program_around(spans, i);
            if (program >= 0)
                add_piece(pieces, &n_pieces, program, s->name, s);
        }
    }
    out->of_operations = false;
    out->programs = all.spans;
    out->busy_ms = all.spans ? (double)all.busy_ps * 1e-6 : NAN;
    out->between_ms = all.spans ? (double)(all.last_ps - all.first_ps - all.busy_ps) * 1e-6 : NAN;
    out->operations_ms = (double)all.busy_ps * 1e-6;
    int rc = add_pieces(w, pieces, n_pieces, a, out, err);
    free(pieces);
    return rc;
}

// ---- the run

struct traced {
    const struct stages *s;
    stages_call *call;
    void *context;
    const struct stages_program *program; // the one that is run; NULL: those of the pipeline
};

static int run_it(void *of, double *ns, struct error *err)
{
    const struct traced *t = of;
    return t->call(t->context, ns, err);
}

static size_t programs_of(void *of, const struct worker_executable *out[CAPTURE_PROGRAMS])
{
    const struct traced *t = of;
    size_t n = 0;
    if (t->program) {
        out[n++] = t->program->executable;
        return n;
    }
    for (int i = 0; i < KLEIN_PARTS; i++) {
        if (t->s->klein.stages[i].compiled)
            out[n++] = &t->s->klein.stages[i].program;
    }
    return n;
}

int stages_traced(struct stages *s, struct stages_series *to, struct worker *w, const struct stages_program *program,
                  stages_call *call, void *context, const char *what, const struct progress *progress,
                  struct error *err)
{
    struct traced t = {s, call, context, program};
    const struct capture_work work = {w, what, run_it, &t, programs_of};
    struct stages_trace *out = &to->trace;
    struct capture c;
    struct worker_span *spans;
    double ns = NAN;
    size_t n;
    char name[96]; // in turns both sides may come to it within a second, which is what names of profiles tell apart
    const struct turn *turn = s->options->turn;
    snprintf(name, sizeof name, "%s%s", turn ? turn->who ? "b " : "a " : "", what);
    progress_report(progress, "trace", 0, 0);
    int rc = capture_call(&c, &work, &ns, &spans, &n, err);
    out->traced_ms = ns * 1e-6;
    out->busy_ms = out->between_ms = NAN;
    if (!rc)
        rc = capture_record(&c, s->record, name, &s->arena, &out->file, err);
    if (!rc && c.from_plugin) {
        const char *path = arena_printf(&s->arena, err, "%s/%s", s->record->building, out->file);
        rc = path ? stages_trace_of_file(path, &s->arena, out, err) : ERR_MEMORY;
    }
    if (!rc && !out->of_operations)
        rc = stages_trace_of_spans(w, spans, n, &s->arena, out, err);
    out->done = !rc;
    free(spans);
    capture_release(&c);
    return rc;
}
