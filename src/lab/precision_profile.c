// SPDX-License-Identifier: Apache-2.0
// The traced runs of a suite as a profile: what this process waited for, and what the worker did meanwhile.
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/precision.h"
#include "trace/xspace_write.h"

struct profile {
    struct precision *p;
    struct xwrite_event *own, *worker; // a line each
    size_t n_own, n_worker;
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
    return f->own && f->worker ? 0 : ERR_MEMORY;
}

static void add_program(struct profile *f, const struct precision_program *program, const char *step)
{
    uint64_t start = program->traced_start_ns, end = program->traced_end_ns;
    f->own[f->n_own] = (struct xwrite_event){step, start, end, (int64_t)f->n_own / 2};
    f->own[f->n_own + 1] = (struct xwrite_event){program->name, start, end, -1};
    if (!f->n_own)
        f->start_ns = start;
    f->n_own += 2;
    f->end_ns = end;
    for (size_t i = 0; i < program->n_spans; i++) {
        const struct worker_span *s = &program->spans[i];
        if (s->start_ns >= start && s->end_ns <= end)
            f->worker[f->n_worker++] = (struct xwrite_event){s->name, s->start_ns, s->end_ns, -1};
    }
}

static int write_profile(struct profile *f, struct error *err)
{
    char host[256] = "", path[512], own[32], worker[32];
    struct timespec now;
    struct tm utc;
    gethostname(host, sizeof host - 1);
    for (char *c = host; *c; c++) {
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-", *c))
            *c = '_';
    }
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t epoch_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - (int64_t)(clock_ns() - f->start_ns);
    time_t seconds = (time_t)(epoch_ns / 1000000000);
    gmtime_r(&seconds, &utc);
    snprintf(path, sizeof path, "trace/plugins/profile/%04d_%02d_%02d_%02d_%02d_%02d/%.200s.xplane.pb",
             utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
             host[0] && host[0] != '.' ? host : "host");
    int pid = worker_info(f->p->worker)->pid;
    snprintf(own, sizeof own, "assay/%d", (int)getpid());
    snprintf(worker, sizeof worker, "assay-worker/%d", pid);
    struct xwrite_line lines[] = {{getpid(), own, f->own, f->n_own}, {pid, worker, f->worker, f->n_worker}};
    struct str bytes;
    str_init(&bytes);
    int rc = xspace_write(&bytes, host, lines, 2, f->start_ns, f->end_ns, epoch_ns, err);
    if (!rc)
        rc = record_write(f->p->record, path, bytes.text, bytes.length, err);
    str_release(&bytes);
    return rc;
}

int precision_write_profile(struct precision *p, const char *step, struct error *err)
{
    const struct precision_document *d = p->document;
    struct profile f = {.p = p};
    int rc = reserve(&f, err);
    for (size_t i = 0; i < d->n_programs && !rc; i++) {
        if (d->programs[i]->spans)
            add_program(&f, d->programs[i], step);
    }
    return rc || !f.n_own || !p->record ? rc : write_profile(&f, err);
}
