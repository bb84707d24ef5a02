// SPDX-License-Identifier: Apache-2.0
#include "lab/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/host.h"
#include "base/interrupt.h"
#include "lab/exported.h"
#include "models/builtin.h"
#include "models/program.h"

static int upload_random(struct subject *s, uint64_t seed, struct error *err)
{
    int rc = 0;
    for (int i = 0; i < s->module.n_parameters && !rc; i++)
        rc = device_module_random(s->worker, &s->module, i, seed, s->args, NULL, err);
    return rc;
}

static int open_synthetic(struct bench_subject *b, const struct bench_options *o, struct error *err)
{
    struct model_shape shape = {.batch = o->batch, .seq = o->seq};
    struct module plain;
    bool fixed;
    module_init(&plain, &b->arena, b->workload);
    int rc = model_module(b->workload, &shape, &plain, &fixed, err);
    if (rc)
        return rc;
    if (!fixed) {
        b->policy = b->policy ? b->policy : "f32";
        rc = policy_parse(&b->parsed, b->policy, err);
        if (rc)
            return rc;
        b->items = shape.batch ? shape.batch : 32;
    } else {
        b->policy = NULL;
    }
    b->opened = true;
    rc = subject_open_module(&b->subject, &plain, fixed ? NULL : &b->parsed, b->workload, &o->worker, err);
    return rc ? rc : upload_random(&b->subject, o->seed, err);
}

static struct workload_options files_of(const char *workload, const struct bench_options *o)
{
    return (struct workload_options){.directory = workload,
                                     .text_path = o->text_path,
                                     .batch = o->batch,
                                     .seq = o->seq,
                                     .weights = o->weights,
                                     .inputs = o->inputs,
                                     .weight_args = o->weight_args,
                                     .seed = o->seed};
}

static int open_files(struct bench_subject *b, const struct bench_options *o, struct error *err)
{
    struct workload_options files = files_of(b->workload, o);
    struct module plain;
    int rc = workload_open(&b->files, &files, err);
    if (rc)
        return rc;
    b->from_files = true;
    b->items = b->files.batch;
    module_init(&plain, &b->arena, b->workload);
    rc = workload_module(&b->files, &plain, err);
    if (rc)
        return rc;
    bool fixed = b->files.program && !b->policy && !program_is_f32(&plain);
    b->policy = fixed || b->policy ? b->policy : "f32";
    if (!rc && !fixed)
        rc = policy_parse(&b->parsed, b->policy, err);
    if (rc)
        return rc;
    struct subject_options s = {.worker = o->worker, .module = &plain, .policy = &b->parsed, .label = b->policy};
    b->opened = true;
    rc = fixed ? subject_open_bound(&b->subject, &b->files, &plain, b->workload, &o->worker, err)
               : subject_open(&b->subject, &b->files, &s, err);
    return rc ? rc : subject_set_batch(&b->subject, &b->files, 0, err);
}

// Opens it once and closes it: what is wrong with a program, its weights and its inputs.
static int check_program(const char *workload, const char *policy, const struct bench_options *o, struct error *err)
{
    struct workload_options files = files_of(workload, o);
    struct workload w;
    int rc = workload_open(&w, &files, err);
    if (rc)
        return rc;
    struct policy p;
    if (policy)
        rc = exported_check_policies(w.program, err);
    if (policy && !rc)
        rc = policy_parse(&p, policy, err);
    if (policy && !rc)
        rc = exported_check_codes(w.program, &p, err);
    workload_close(&w);
    return rc;
}

static bool runs_from_files(const char *workload, const struct bench_options *o)
{
    return program_is(workload) || (o->text_path && !model_is_builtin(workload));
}

int bench_check(const char *workload, const char *policy, const struct bench_options *o, struct error *err)
{
    if (!workload)
        return o->samples >= 2
                   ? 0
                   : error_set(err, ERR_USAGE, "--samples", "must be at least 2: a calibration tells the spread");
    struct model_shape shape = {.batch = o->batch, .seq = o->seq};
    struct arena arena;
    struct module m;
    struct policy p;
    bool fixed = false, program = program_is(workload);
    const char *option = o->weights ? "--weights" : o->inputs ? "--inputs" : o->weight_args ? "--weight-args" : NULL;
    arena_init(&arena);
    module_init(&m, &arena, workload);
    int rc = program ? check_program(workload, policy, o, err) : model_module(workload, &shape, &m, &fixed, err);
    if (!rc && option && !program)
        rc = error_set(err, ERR_USAGE, option, "goes with a program (.hlo.pb, .hlo.txt); %s is none", workload);
    if (!rc && fixed && policy)
        rc = error_set(err, ERR_USAGE, "--policy", "%s has its type in its name", workload);
    if (!rc && model_is_builtin(workload) && o->text_path)
        rc = error_set(err, ERR_USAGE, "--text", "goes with a model directory; %s has random data", workload);
    if (!rc && policy)
        rc = policy_parse(&p, policy, err);
    arena_release(&arena);
    return rc;
}

int bench_open(struct bench_subject *b, const char *workload, const char *policy, const struct bench_options *o,
               struct error *err)
{
    struct cost_row *rows;
    int n;
    memset(b, 0, sizeof *b);
    arena_init(&b->arena);
    b->workload = workload;
    b->policy = policy;
    b->items = 1;
    int rc = runs_from_files(workload, o) ? open_files(b, o, err) : open_synthetic(b, o, err);
    if (!rc)
        rc = cost_groups(&b->subject.module, &b->arena, &rows, &n, &b->cost, err);
    double first;
    if (!rc)
        rc = worker_time(b->subject.worker, b->subject.program.id, b->subject.args, b->subject.n_args, 1, &first, err);
    if (!rc)
        b->subject.first_ns = (uint64_t)first;
    if (rc)
        bench_close(b);
    return rc;
}

void bench_close(struct bench_subject *b)
{
    if (b->opened)
        subject_close(&b->subject);
    if (b->from_files)
        workload_close(&b->files);
    arena_release(&b->arena);
    b->opened = b->from_files = false;
}

static int time_runs(struct bench_subject *b, size_t runs, double *ns, struct error *err)
{
    return worker_time(b->subject.worker, b->subject.program.id, b->subject.args, b->subject.n_args, runs, ns, err);
}

static int warm_up(struct bench_subject *b, const struct bench_options *o, struct error *err)
{
    struct measure_warmup_policy policy = measure_warmup_default();
    if (o->warmup >= 0)
        policy.max_runs = (size_t)o->warmup;
    measure_warmup_init(&b->warmup, policy);
    while (b->warmup.runs < policy.max_runs && b->warmup.state == WARMUP_COLD) {
        double ns;
        int rc = time_runs(b, 1, &ns, err);
        if (!rc)
            rc = interrupt_check("warming up", err);
        if (rc)
            return rc;
        measure_warmup_add(&b->warmup, ns);
    }
    return 0;
}

int bench_measure(struct bench_subject *const *subjects, size_t n, const struct bench_options *o,
                  const struct progress *progress, struct error *err)
{
    size_t rounds = (size_t)o->samples;
    struct arena *a = &subjects[0]->arena;
    uint32_t *order = arena_new(a, uint32_t, n * rounds, err);
    int rc = order ? measure_schedule(order, n, rounds, o->seed, err) : ERR_MEMORY;
    for (size_t i = 0; i < n && !rc; i++) {
        subjects[i]->samples_ns = arena_new(&subjects[i]->arena, double, rounds, err);
        progress_report(progress, "warm up", i, n);
        rc = subjects[i]->samples_ns ? warm_up(subjects[i], o, err) : ERR_MEMORY;
    }
    for (size_t k = 0; k < n * rounds && !rc; k++) {
        struct bench_subject *b = subjects[order[k]];
        double ns[2];
        progress_report(progress, "measure", k, n * rounds);
        rc = interrupt_check("measuring", err);
        // With two subjects a run first brings this one's data back into the caches.
        if (!rc)
            rc = time_runs(b, n, ns, err);
        if (!rc)
            b->samples_ns[b->n_samples++] = ns[n - 1];
    }
    for (size_t i = 0; i < n && !rc; i++) {
        rc = measure_summarize(&subjects[i]->time, subjects[i]->samples_ns, subjects[i]->n_samples, 0.95, NULL, err);
        measure_summary_scale(&subjects[i]->time, 1e-6);
        if (!rc)
            rc = worker_memory(subjects[i]->subject.worker, &subjects[i]->memory, err);
    }
    return rc;
}

// ---- calibration

static struct chip_measured rate_of(double work, const struct measure_summary *ms)
{
    return (struct chip_measured){
        .value = work / (ms->p50 / 1e3), .spread = work / (ms->p50 / 1e3) * ms->mad / ms->p50, .samples = (int)ms->n};
}

static int calibrate_one(const char *workload, double work, const struct bench_options *o, struct chip_local *out,
                         struct chip_measured *measured, struct error *err)
{
    struct bench_subject b, *list[1] = {&b};
    int rc = bench_open(&b, workload, NULL, o, err);
    if (rc)
        return rc;
    rc = bench_measure(list, 1, o, NULL, err);
    if (!rc) {
        *measured = rate_of(work, &b.time);
        snprintf(out->plugin_sha256, sizeof out->plugin_sha256, "%s", worker_info(b.subject.worker)->plugin_sha256);
    }
    bench_close(&b);
    return rc;
}

int bench_calibrate(struct chip_local *out, const struct bench_options *o, const struct progress *progress,
                    struct error *err)
{
    static const struct {
        const char *workload;
        enum chip_type type;
    } products[] = {{"builtin:gemm:2048x2048x2048:f32", CHIP_F32},
                    {"builtin:gemm:2048x2048x2048:bf16", CHIP_BF16},
                    {"builtin:gemm:2048x2048x2048:f16", CHIP_F16},
                    {"builtin:gemm:2048x2048x2048:int8", CHIP_INT8}};
    const double copy_elements = 32 * 1024 * 1024;
    struct host_facts host;
    int rc = bench_check(NULL, NULL, o, err);
    if (rc)
        return rc;
    host_read(&host, "/");
    memset(out, 0, sizeof *out);
    for (int t = 0; t < CHIP_TYPES; t++)
        out->rate[t] = (struct chip_measured){.value = NAN, .spread = NAN};
    snprintf(out->cpu_model, sizeof out->cpu_model, "%s", host.model);
    out->threads = o->worker.threads ? o->worker.threads : (int)host.affinity;
    out->memory_bytes = (double)host.memory_bytes;
    time_t now = time(NULL);
    struct tm utc;
    strftime(out->date, sizeof out->date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    for (size_t i = 0; i < sizeof products / sizeof products[0] && !rc; i++) {
        progress_report(progress, products[i].workload, i, 5);
        rc = calibrate_one(products[i].workload, 2 * 0x1p33, o, out, &out->rate[products[i].type], err);
    }
    progress_report(progress, "builtin:copy", 4, 5);
    if (!rc)
        rc = calibrate_one("builtin:copy:33554432", 8 * copy_elements, o, out, &out->copy, err);
    return rc;
}
