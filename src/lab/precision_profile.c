// SPDX-License-Identifier: Apache-2.0
// The traced runs of a suite as a profile: what this process waited for, and what the worker did meanwhile.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lab/capture.h"
#include "lab/precision.h"
#include "trace/run.h"

struct profile {
    struct precision *p;
    struct xwrite_event *own, *worker, *runs; // a line each
    size_t n_own, n_worker, n_runs;
    struct xwrite_program *programs;
    size_t n_programs;
    const struct precision_program *bare; // the first without buffers; NULL: none
    size_t n_bare;
    uint64_t start_ns, end_ns;
};

static int reserve(struct profile *f, struct error *err)
{
    const struct precision_document *d = f->p->document;
    size_t spans = 0, programs = 0;
    for (size_t i = 0; i < d->n_programs; i++) {
        spans += d->programs[i]->n_spans;
        programs += d->programs[i]->spans != NULL;
    }
    f->own = precision_alloc(f->p, 2 * programs + 1, sizeof *f->own, err);
    f->worker = precision_alloc(f->p, spans + 1, sizeof *f->worker, err);
    f->runs = precision_alloc(f->p, spans + 1, sizeof *f->runs, err);
    f->programs = precision_alloc(f->p, programs + 1, sizeof *f->programs, err);
    return f->own && f->worker && f->runs && f->programs ? 0 : ERR_MEMORY;
}

static int add_program(struct profile *f, const struct precision_program *program, struct error *err)
{
    struct xwrite_program *ran = &f->programs[f->n_programs++];
    int rc = capture_program(ran, f->n_programs, (struct slice){program->traced_hlo, program->traced_hlo_bytes},
                             &f->p->arena, err);
    if (rc)
        return rc;
    ran->buffers = program->traced_buffers;
    if (program->traced_without_buffers && !f->n_bare++)
        f->bare = program;
    uint64_t start = program->traced_start_ns, end = program->traced_end_ns;
    f->own[f->n_own] = (struct xwrite_event){CAPTURE_STEP, start, end, (int64_t)f->n_own / 2, NULL};
    f->own[f->n_own + 1] = (struct xwrite_event){program->name, start, end, -1, NULL};
    if (!f->n_own)
        f->start_ns = start;
    f->n_own += 2;
    f->end_ns = end;
    for (size_t i = 0; i < program->n_spans; i++) {
        const struct worker_span *s = &program->spans[i];
        if (s->start_ns < start || s->end_ns > end)
            continue;
        f->worker[f->n_worker++] = (struct xwrite_event){s->name, s->start_ns, s->end_ns, -1, NULL};
        if (strcmp(s->name, CAPTURE_RUN_SPAN) == 0)
            f->runs[f->n_runs++] = (struct xwrite_event){ran->name, s->start_ns, s->end_ns, -1, ran};
    }
    return 0;
}

// Says of which programs the profile has no buffers; *warning is NULL when it has all.
static int find_bare(struct profile *f, const char **warning, struct error *err)
{
    *warning = NULL;
    if (!f->bare)
        return 0;
    const char *names = f->bare->name;
    if (f->n_bare > 1)
        names = arena_printf(&f->p->arena, err, "%s and %zu more", names, f->n_bare - 1);
    *warning = names ? capture_without_buffers(&f->p->arena, names, f->bare->traced_without_buffers, err) : NULL;
    if (*warning)
        progress_note(f->p->progress, *warning);
    return *warning ? 0 : ERR_MEMORY;
}

static int write_profile(struct profile *f, const char *label, struct error *err)
{
    char host[TRACE_HOST_MAX], run[TRACE_PATH_MAX], path[TRACE_PATH_MAX + 8], own[32], worker[32], runs[32];
    int64_t epoch_ns = capture_epoch_ns(f->start_ns);
    trace_host_name(host);
    trace_run_path(run, epoch_ns, label);
    snprintf(path, sizeof path, "trace/%s", run);
    int pid = worker_info(f->p->worker)->pid;
    snprintf(own, sizeof own, "assay/%d", (int)getpid());
    snprintf(worker, sizeof worker, "assay-worker/%d", pid);
    snprintf(runs, sizeof runs, "programs/%d", pid);
    struct xwrite_line lines[] = {
        {getpid(), own, f->own, f->n_own}, {pid, worker, f->worker, f->n_worker}, {-pid, runs, f->runs, f->n_runs}};
    const char *warning;
    int rc = find_bare(f, &warning, err);
    const struct xwrite_space space = {.host = host,
                                       .lines = lines,
                                       .n_lines = 3,
                                       .programs = f->programs,
                                       .n_programs = f->n_programs,
                                       .warning = warning,
                                       .start_ns = f->start_ns,
                                       .end_ns = f->end_ns,
                                       .epoch_ns = epoch_ns};
    struct str bytes;
    str_init(&bytes);
    if (!rc)
        rc = xspace_write(&bytes, &space, err);
    if (!rc)
        rc = record_write(f->p->record, path, bytes.text, bytes.length, err);
    str_release(&bytes);
    return rc;
}

int precision_write_profile(struct precision *p, const char *label, struct error *err)
{
    const struct precision_document *d = p->document;
    struct profile f = {.p = p};
    int rc = reserve(&f, err);
    for (size_t i = 0; i < d->n_programs && !rc; i++) {
        if (d->programs[i]->spans)
            rc = add_program(&f, d->programs[i], err);
    }
    return rc || !f.n_own || !p->record ? rc : write_profile(&f, label, err);
}
