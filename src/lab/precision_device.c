// SPDX-License-Identifier: Apache-2.0
// Running programs for suites: one worker for all of them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/sha256.h"
#include "ir/builder.h"
#include "lab/capture_buffers.h"
#include "lab/precision.h"
#include "lab/precision_lowered.h"
#include "num/convert.h"

struct precision_array precision_matrix(const char *name, enum dtype type, size_t rows, size_t columns,
                                        const void *data)
{
    return (struct precision_array){
        .name = name, .type = type, .rank = 2, .dims = {(int64_t)rows, (int64_t)columns}, .data = data};
}

size_t precision_elements(const struct precision_array *a)
{
    size_t n = 1;
    for (int i = 0; i < a->rank; i++)
        n *= (size_t)a->dims[i];
    return n;
}

size_t precision_bytes(const struct precision_array *a)
{
    int bits = dtype_bits(a->type);
    return precision_elements(a) * (size_t)(bits < 8 ? 1 : bits / 8);
}

int precision_convert(struct precision *p, const struct precision_array *from, enum dtype type,
                      struct precision_array *to, struct error *err)
{
    *to = *from;
    to->type = type;
    void *data = precision_alloc(p, precision_bytes(to), 1, err);
    to->data = data;
    return data ? convert_elements(type, data, from->type, from->data, precision_elements(from), err) : ERR_MEMORY;
}

const double *precision_doubles(struct precision *p, enum dtype type, const void *data, size_t n, struct error *err)
{
    double *out = precision_alloc(p, n, sizeof *out, err);
    return out && convert_elements(DT_F64, out, type, data, n, err) == 0 ? out : NULL;
}

const double *precision_product_f64(struct precision *p, const double *x, const double *w, size_t m, size_t k, size_t n,
                                    struct error *err)
{
    double *y = precision_alloc(p, m * n, sizeof *y, err);
    for (size_t i = 0; i < m && y; i++) {
        for (size_t l = 0; l < k; l++) {
            for (size_t j = 0; j < n; j++)
                y[i * n + j] += x[i * k + l] * w[l * n + j];
        }
    }
    return y;
}

// ---- the worker

static int start(struct precision *p, struct error *err)
{
    if (p->worker) // alive, or dead: then the call that follows says of what
        return 0;
    struct worker_options options = p->options->worker;
    options.label = "precision";
    progress_report(p->progress, "start the device", 0, 0);
    return worker_start(&p->worker, &options, err);
}

bool precision_lost(const struct precision *p)
{
    return p->worker && worker_failure(p->worker) != NULL;
}

const char *precision_device(struct precision *p, struct error *err)
{
    if (start(p, err))
        return NULL;
    const struct worker_info *info = worker_info(p->worker);
    return info->devices[info->device].kind;
}

// ---- one program

struct session {
    struct precision *p;
    struct precision_execution *e;
    struct precision_program *program;
    struct str text; // of the program, lowered
    struct worker_program source;
    struct worker_executable executable;
    bool compiled;
    int *args, *results;
    size_t n_uploaded, n_results;
};

static struct worker_shape wire_shape(const struct precision_array *a)
{
    struct worker_shape shape = {.dtype = a->type, .rank = a->rank};
    memcpy(shape.dims, a->dims, sizeof shape.dims);
    return shape;
}

// The name with everything that no file name should hold as '-'.
static void file_name(char *out, size_t capacity, const struct precision *p, const char *folder, const char *name,
                      const char *extension)
{
    char safe[96];
    snprintf(safe, sizeof safe, "%.95s", name);
    for (char *c = safe; *c; c++) {
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", *c))
            *c = '-';
    }
    snprintf(out, capacity, "%s/%s/%s%s", folder, p->document->name, safe, extension);
}

// Writes a file of the program and keeps its name and hash.
static int keep_file(struct session *s, const char *extension, const char *bytes, size_t n, const char **name,
                     const char **hash, struct error *err)
{
    char path[256], hex[65];
    file_name(path, sizeof path, s->p, "programs", s->e->name, extension);
    int rc = sha256_bytes(bytes, n, hex, err);
    if (!rc && s->p->record)
        rc = record_write(s->p->record, path, bytes, n, err);
    if (rc)
        return rc;
    *hash = arena_strdup(&s->p->arena, hex, err);
    *name = s->p->record ? arena_strdup(&s->p->arena, path, err) : NULL;
    return *hash && (*name || !s->p->record) ? 0 : ERR_MEMORY;
}

static int compile_text(struct session *s, struct error *err)
{
    struct precision_execution *e = s->e;
    struct worker_shape *shapes = precision_alloc(s->p, e->n_args, sizeof *shapes, err);
    if (!shapes)
        return ERR_MEMORY;
    for (size_t i = 0; i < e->n_args; i++)
        shapes[i] = wire_shape(&e->args[i]);
    s->source = (struct worker_program){
        .text = str_text(&s->text),
        .length = s->text.length,
        .format = "mlir",
        .name = e->name,
        .want_optimized = true,
        .n_args = e->n_args,
        .args = shapes,
    };
    int rc =
        keep_file(s, ".mlir", s->text.text, s->text.length, &s->program->lowered, &s->program->lowered_sha256, err);
    if (!rc)
        rc = worker_compile(s->p->worker, &s->source, &s->executable, err);
    s->compiled = rc == 0;
    return rc;
}

static int compile(struct session *s, struct error *err)
{
    int rc = 0;
    if (s->e->module)
        rc = module_print(s->e->module, &s->text, err);
    else
        str_add(&s->text, s->e->text);
    if (!rc)
        rc = str_check(&s->text, err);
    if (!rc)
        rc = compile_text(s, err);
    if (rc)
        return rc;
    s->program->compile_ns = s->executable.compile_ns;
    s->program->memory = s->executable.memory;
    if (!s->executable.optimized)
        return 0;
    rc = keep_file(s, ".optimized.hlo.pb", s->executable.optimized, s->executable.optimized_length,
                   &s->program->optimized, &s->program->optimized_sha256, err);
    return rc ? rc
              : precision_lowered_products(&s->p->arena, s->executable.optimized, s->executable.optimized_length,
                                           s->program->products, &s->program->n_products, err);
}

static int upload(struct session *s, struct error *err)
{
    s->args = precision_alloc(s->p, s->e->n_args, sizeof *s->args, err);
    if (!s->args)
        return ERR_MEMORY;
    for (size_t i = 0; i < s->e->n_args; i++) {
        const struct precision_array *a = &s->e->args[i];
        struct worker_tensor t = {.fd = -1, .shape = wire_shape(a), .name = a->name};
        int rc = worker_upload_bytes(s->p->worker, a->data, precision_bytes(a), &t, &s->args[i], NULL, err);
        if (rc)
            return rc;
        s->n_uploaded++;
    }
    return 0;
}

static int download(struct session *s, struct error *err)
{
    struct precision_execution *e = s->e;
    for (size_t i = 0; i < s->n_results; i++) {
        const struct worker_shape *shape = &s->executable.outputs[i];
        struct precision_array *out = &e->outputs[i];
        *out = (struct precision_array){.name = "result", .type = shape->dtype, .rank = shape->rank};
        memcpy(out->dims, shape->dims, sizeof out->dims);
        void *data = precision_alloc(s->p, precision_bytes(out), 1, err);
        int rc = data ? worker_download(s->p->worker, s->results[i], data, precision_bytes(out), err) : ERR_MEMORY;
        if (rc)
            return rc;
        out->data = data;
    }
    e->n_outputs = s->n_results;
    return 0;
}

static int execute(struct session *s, struct error *err)
{
    size_t n = s->executable.n_outputs;
    if (n > PRECISION_OUTPUTS)
        return error_set(err, ERR_INTERNAL, s->e->name, "%zu outputs, at most %d", n, PRECISION_OUTPUTS);
    s->results = precision_alloc(s->p, n, sizeof *s->results, err);
    if (!s->results)
        return ERR_MEMORY;
    int rc = worker_execute(s->p->worker, s->executable.id, s->args, s->e->n_args, s->results, n, NULL, err);
    if (rc)
        return rc;
    s->n_results = n;
    return download(s, err);
}

static int time_runs(struct session *s, size_t runs, double *ns, struct error *err)
{
    return worker_time(s->p->worker, s->executable.id, s->args, s->e->n_args, runs, ns, err);
}

static int warm_up(struct session *s, struct error *err)
{
    struct measure_warmup *w = &s->program->warmup;
    measure_warmup_init(w, measure_warmup_default());
    while (w->runs < w->policy.max_runs && w->state == WARMUP_COLD) {
        double ns;
        int rc = time_runs(s, 1, &ns, err);
        if (!rc)
            rc = interrupt_check("warming up", err);
        if (rc)
            return rc;
        measure_warmup_add(w, ns);
    }
    return 0;
}

// What the worker did, in the trace-event form that browsers read: times in microseconds from the first span on.
static int write_spans(struct session *s, const struct worker_span *spans, size_t n, struct error *err)
{
    char path[256];
    struct str text;
    struct jw w;
    str_init(&text);
    jw_init(&w, &text, true);
    jw_object(&w);
    jw_kv_string(&w, "displayTimeUnit", "ns");
    jw_key(&w, "traceEvents");
    jw_array(&w);
    for (size_t i = 0; i < n; i++) {
        jw_object(&w);
        jw_kv_string(&w, "name", spans[i].name);
        jw_kv_string(&w, "ph", "X");
        jw_kv_double(&w, "ts", (double)(spans[i].start_ns - spans[0].start_ns) / 1e3);
        jw_kv_double(&w, "dur", (double)(spans[i].end_ns - spans[i].start_ns) / 1e3);
        jw_kv_uint(&w, "pid", (uint64_t)worker_info(s->p->worker)->pid);
        jw_kv_uint(&w, "tid", spans[i].tid);
        jw_object_end(&w);
    }
    jw_array_end(&w);
    jw_object_end(&w);
    int rc = jw_finish(&w, err);
    file_name(path, sizeof path, s->p, "trace", s->e->name, ".json");
    if (!rc)
        rc = record_write(s->p->record, path, text.text, text.length, err);
    if (!rc)
        s->program->trace = arena_strdup(&s->p->arena, path, err);
    str_release(&text);
    return rc ? rc : s->program->trace ? 0 : ERR_MEMORY;
}

// One run whose outputs are thrown away.
static int run_once(struct session *s, struct error *err)
{
    int outputs[PRECISION_OUTPUTS];
    size_t n = s->executable.n_outputs;
    int rc = worker_execute(s->p->worker, s->executable.id, s->args, s->e->n_args, outputs, n, NULL, err);
    for (size_t i = 0; i < n && !rc; i++)
        rc = worker_free(s->p->worker, outputs[i], err);
    return rc;
}

static int keep_hlo(struct session *s, struct error *err)
{
    size_t n = s->executable.optimized ? s->executable.optimized_length : 0;
    void *copy = n ? precision_alloc(s->p, n, 1, err) : NULL;
    if (copy)
        memcpy(copy, s->executable.optimized, n);
    s->program->traced_hlo = copy;
    s->program->traced_hlo_bytes = n;
    return copy || !n ? 0 : ERR_MEMORY;
}

// Compiles the program once more, after its traced runs.
static int keep_buffers(struct session *s, struct error *err)
{
    struct precision_program *program = s->program;
    const struct slice optimized = {program->traced_hlo, program->traced_hlo_bytes};
    struct capture_buffers b;
    int rc = capture_buffers(&b, s->p->worker, &s->source, optimized, err);
    if (!rc && b.reason[0]) {
        program->traced_without_buffers = arena_strdup(&s->p->arena, b.reason, err);
        rc = program->traced_without_buffers ? 0 : ERR_MEMORY;
    } else if (!rc) {
        program->traced_buffers = (struct slice){(const uint8_t *)b.assignment.text, b.assignment.length};
        rc = slice_copy(&s->p->arena, &program->traced_buffers, err);
    }
    capture_buffers_release(&b);
    return rc;
}

// A few warmed runs of their own, so that no sample is taken while spans are kept.
static int trace(struct session *s, struct error *err)
{
    enum { RUNS = 5 };
    struct precision_program *program = s->program;
    struct worker_span *spans = NULL;
    uint64_t dropped;
    size_t n;
    int rc = worker_spans(s->p->worker, &spans, &n, &dropped, err); // what came before
    free(spans);
    for (int i = 0; i < RUNS && !rc; i++) {
        uint64_t start = clock_ns();
        rc = run_once(s, err);
        if (i == 0) {
            program->traced_start_ns = start;
            program->traced_end_ns = clock_ns();
        }
    }
    if (rc)
        return rc;
    rc = worker_spans(s->p->worker, &spans, &n, &dropped, err);
    struct worker_span *kept = rc || !n ? NULL : precision_alloc(s->p, n, sizeof *kept, err);
    if (kept) {
        memcpy(kept, spans, n * sizeof *kept);
        program->spans = kept;
        program->n_spans = n;
        rc = write_spans(s, spans, n, err);
        if (!rc)
            rc = keep_hlo(s, err);
        if (!rc)
            rc = keep_buffers(s, err);
    } else if (!rc && n) {
        rc = ERR_MEMORY;
    }
    free(spans);
    return rc;
}

static int measure(struct session *s, struct error *err)
{
    bool traced = s->p->options->trace && s->p->record;
    if (!s->e->samples)
        return traced && s->p->trace_each ? trace(s, err) : 0; // it has run once
    s->program->samples_ns = precision_alloc(s->p, s->e->samples, sizeof *s->program->samples_ns, err);
    int rc = s->program->samples_ns ? warm_up(s, err) : ERR_MEMORY;
    if (!rc)
        rc = time_runs(s, s->e->samples, s->program->samples_ns, err);
    if (rc)
        return rc;
    s->program->n_samples = s->e->samples;
    return traced ? trace(s, err) : 0;
}

// Leaves nothing of the program in the worker; the first error is the one to tell.
static void clean(struct session *s)
{
    struct error ignored = {0};
    for (size_t i = 0; i < s->n_results; i++)
        worker_free(s->p->worker, s->results[i], &ignored);
    for (size_t i = 0; i < s->n_uploaded; i++)
        worker_free(s->p->worker, s->args[i], &ignored);
    if (s->compiled) {
        worker_unload(s->p->worker, s->executable.id, &ignored);
        worker_executable_release(&s->executable);
    }
    str_release(&s->text);
}

static int open_session(struct session *s, struct precision *p, struct precision_execution *e, struct error *err)
{
    *s = (struct session){.p = p, .e = e};
    str_init(&s->text);
    int rc = interrupt_check("running", err);
    if (!rc)
        rc = start(p, err);
    if (rc)
        return rc;
    progress_report(p->progress, e->name, 0, 0);
    s->program = precision_program(p, e->name);
    e->program = s->program;
    return compile(s, err);
}

int precision_load(struct precision *p, struct precision_execution *e, struct worker_executable *out, struct error *err)
{
    struct session s;
    int rc = open_session(&s, p, e, err);
    if (rc) {
        clean(&s);
        return rc;
    }
    *out = s.executable;
    str_release(&s.text);
    return 0;
}

int precision_execute(struct precision *p, struct precision_execution *e, struct error *err)
{
    struct session s;
    int rc = open_session(&s, p, e, err);
    if (!rc)
        rc = upload(&s, err);
    if (!rc)
        rc = execute(&s, err);
    if (!rc)
        rc = measure(&s, err);
    clean(&s);
    return rc;
}

int precision_execute_dot(struct precision *p, const char *name, const struct precision_array *x,
                          const struct precision_array *w, enum dtype result, enum dot_precision precision,
                          size_t samples, struct precision_array *y, const struct precision_program **program,
                          struct error *err)
{
    struct module m;
    struct builder b;
    struct precision_array args[2] = {*x, *w};
    module_init(&m, &p->arena, "product");
    builder_init(&b, &m);
    builder_scope(&b, "product", "product");
    int px = build_parameter(&b, ROLE_INPUT, "x", shape_of(x->type, x->rank, x->dims), NULL);
    int pw = build_parameter(&b, ROLE_INPUT, "w", shape_of(w->type, w->rank, w->dims), NULL);
    int dot = build_dot(&b, px, pw, 0, NULL, NULL, 1, (int[]){1}, (int[]){0}, result);
    if (dot >= 0)
        m.instructions[dot].dot.precision = precision;
    build_result(&b, "y", dot);
    int rc = builder_finish(&b, err);
    struct precision_execution e = {.name = name, .module = &m, .args = args, .n_args = 2, .samples = samples};
    if (!rc)
        rc = precision_execute(p, &e, err);
    if (program)
        *program = e.program;
    if (!rc)
        *y = e.outputs[0];
    return rc;
}
