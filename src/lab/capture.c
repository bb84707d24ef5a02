// SPDX-License-Identifier: Apache-2.0
#include "lab/capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "ir/hlo.h"
#include "lab/subject.h"
#include "trace/run.h"

int64_t capture_epoch_ns(uint64_t clock)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - (int64_t)(clock_ns() - clock);
}

const char *capture_without_buffers(struct arena *a, const char *name, const char *reason, struct error *err)
{
    return arena_printf(a, err, "the profile is without the buffers of %s: %s", name, reason);
}

int capture_program(struct xwrite_program *out, uint64_t id, struct slice optimized, struct arena *a, struct error *err)
{
    struct hlo_module m;
    struct error bad = {0};
    *out = (struct xwrite_program){.name = "program", .id = id};
    if (!optimized.size)
        return 0;
    int rc = hlo_read(&m, optimized.data, optimized.size, "the optimised program", a, &bad);
    if (rc == ERR_MEMORY)
        return error_set(err, ERR_MEMORY, NULL, "%s", bad.message);
    if (rc)
        return 0;
    out->name = arena_strndup(a, (const char *)m.name.data, m.name.size, err);
    out->module = m.message;
    return out->name ? 0 : ERR_MEMORY;
}

// ---- The steps

struct stepping {
    const struct capture_steps *s;
    struct capture *c;
    int *args, *outputs;
    size_t n_outputs;
    int fed; // the result that is an argument now; -1: the caller's
    struct xwrite_event *own;
    uint64_t start_ns, end_ns;
};

static int free_outputs(struct stepping *t, size_t from, struct error *err)
{
    int rc = 0;
    for (size_t i = from; i < t->n_outputs; i++) {
        int failed = worker_free(t->s->worker, t->outputs[i], rc ? NULL : err);
        rc = rc ? rc : failed;
    }
    return rc;
}

static int replace_fed(struct stepping *t, int with, struct error *err)
{
    int old = t->fed;
    t->fed = with;
    if (with >= 0)
        t->args[0] = with;
    return old >= 0 ? worker_free(t->s->worker, old, err) : 0;
}

static int keep_result(struct stepping *t, struct error *err)
{
    const struct worker_shape *shape = t->n_outputs ? &t->s->program->outputs[0] : NULL;
    size_t n = 1;
    if (!shape)
        return 0;
    for (int i = 0; i < shape->rank; i++)
        n *= (size_t)shape->dims[i];
    size_t bytes = n * (size_t)((dtype_bits(shape->dtype) + 7) / 8);
    void *data = arena_alloc(&t->c->arena, bytes ? bytes : 1, 1, err);
    int rc = data ? worker_download(t->s->worker, t->outputs[0], data, bytes, err) : ERR_MEMORY;
    if (!rc)
        str_add_n(&t->c->result, data, bytes);
    return rc ? rc : str_check(&t->c->result, err);
}

static int one_step(struct stepping *t, size_t i, struct error *err)
{
    uint64_t start = clock_ns(), end;
    int rc = interrupt_check("tracing", err);
    if (!rc)
        rc =
            worker_execute(t->s->worker, t->s->program->id, t->args, t->s->n_args, t->outputs, t->n_outputs, NULL, err);
    end = clock_ns();
    if (rc)
        return rc;
    t->own[2 * i] = (struct xwrite_event){CAPTURE_STEP, start, end, (int64_t)i, NULL};
    t->own[2 * i + 1] = (struct xwrite_event){t->s->name, start, end, -1, NULL};
    t->c->step_ns[i] = (double)(end - start);
    if (i + 1 == t->s->steps)
        rc = keep_result(t, err);
    bool feeds = t->s->feed_back && t->n_outputs;
    int failed = free_outputs(t, feeds ? 1 : 0, err);
    rc = rc ? rc : failed;
    if (feeds) {
        failed = replace_fed(t, t->outputs[0], err);
        rc = rc ? rc : failed;
    }
    return rc;
}

static int run_steps(struct stepping *t, struct error *err)
{
    const struct capture_steps *s = t->s;
    struct arena *a = &t->c->arena;
    t->n_outputs = s->program->n_devices * s->program->n_outputs;
    t->fed = -1;
    t->args = arena_new(a, int, s->n_args, err);
    t->outputs = arena_new(a, int, t->n_outputs, err);
    t->own = arena_new(a, struct xwrite_event, 2 * s->steps, err);
    t->c->step_ns = arena_new(a, double, s->steps, err);
    if (!t->args || !t->outputs || !t->own || !t->c->step_ns)
        return ERR_MEMORY;
    if (s->n_args)
        memcpy(t->args, s->args, s->n_args * sizeof *t->args);
    int rc = 0;
    t->start_ns = clock_ns();
    for (size_t i = 0; i < s->steps && !rc; i++)
        rc = one_step(t, i, err);
    t->end_ns = clock_ns();
    struct error ignored = {0};
    int failed = replace_fed(t, -1, rc ? &ignored : err);
    return rc ? rc : failed;
}

// ---- The profile

// What a profile of our own is made of.
struct profile {
    struct worker *worker;
    struct capture *c;
    struct xwrite_event *own; // what this process did
    size_t n_own;
    uint64_t start_ns, end_ns;
    const struct worker_executable *const *known; // programs whose HLO is there
    size_t n_known;
    bool labels;                     // programs are called as when they were compiled, not by their module
    struct xwrite_program *programs; // that ran
    size_t n_programs;
    const struct str *buffers; // of the first one
    struct worker_span *spans;
    size_t n_spans;
};

struct lines {
    struct xwrite_line *items;
    size_t n;
};

static int by_thread(const void *a, const void *b)
{
    const struct worker_span *x = a, *y = b;
    return (x->tid > y->tid) - (x->tid < y->tid);
}

// Asking for spans is no part of the work.
static bool is_ours(const struct worker_span *s)
{
    return strcmp(s->name, "spans") == 0 || strncmp(s->name, "profile ", 8) == 0;
}

static struct slice optimized_of(const struct worker_executable *e)
{
    return (struct slice){(const uint8_t *)e->optimized, e->optimized_length};
}

bool capture_is_run(const struct worker_span *s)
{
    return strcmp(s->name, CAPTURE_RUN_SPAN) == 0;
}

static const struct xwrite_program *program_of(const struct profile *p, const struct worker_span *s)
{
    for (size_t i = 0; i < p->n_programs; i++) {
        if (p->programs[i].id == (uint64_t)s->of + 1)
            return &p->programs[i];
    }
    return NULL;
}

static int add_program(struct profile *p, int id, struct error *err)
{
    struct slice optimized = {0};
    for (size_t i = 0; i < p->n_known; i++) {
        if (p->known[i]->id == id)
            optimized = optimized_of(p->known[i]);
    }
    struct xwrite_program *to = &p->programs[p->n_programs++];
    int rc = capture_program(to, (uint64_t)id + 1, optimized, &p->c->arena, err);
    if (!rc && (p->labels || !optimized.size))
        to->name = arena_strdup(&p->c->arena, worker_program_name(p->worker, id), err);
    return to->name ? rc : ERR_MEMORY;
}

// Those that are known come first, then what else ran.
static int find_programs(struct profile *p, struct error *err)
{
    int rc = 0;
    p->programs = arena_new(&p->c->arena, struct xwrite_program, p->n_known + p->n_spans + 1, err);
    if (!p->programs)
        return ERR_MEMORY;
    for (size_t i = 0; i < p->n_known && !rc; i++)
        rc = add_program(p, p->known[i]->id, err);
    for (size_t i = 0; i < p->n_spans && !rc; i++) {
        if (capture_is_run(&p->spans[i]) && !program_of(p, &p->spans[i]))
            rc = add_program(p, p->spans[i].of, err);
    }
    if (!rc && p->n_programs)
        p->programs[0].buffers = (struct slice){(const uint8_t *)p->buffers->text, p->buffers->length};
    return rc;
}

// The two lines that no thread of the worker has: what this process waited for, and the programs' runs, which stand
// alone on theirs, so that nothing that is nested in them takes their time.
static int first_lines(struct profile *p, struct lines *l, struct error *err)
{
    struct arena *a = &p->c->arena;
    int pid = worker_info(p->worker)->pid;
    l->items[0] = (struct xwrite_line){getpid(), arena_printf(a, err, "assay/%d", (int)getpid()), p->own, p->n_own};
    l->items[1] = (struct xwrite_line){-pid, arena_printf(a, err, "programs/%d", pid),
                                       arena_new(a, struct xwrite_event, p->n_spans, err), 0};
    l->n = 2;
    return l->items[0].name && l->items[1].name && l->items[1].events ? 0 : ERR_MEMORY;
}

// All lines; brings the spans in order of their threads.
static int make_lines(struct profile *p, struct lines *l, struct error *err)
{
    struct arena *a = &p->c->arena;
    struct xwrite_event *events = arena_new(a, struct xwrite_event, p->n_spans, err);
    l->items = arena_new(a, struct xwrite_line, p->n_spans + 2, err);
    int rc = events && l->items ? first_lines(p, l, err) : ERR_MEMORY;
    if (rc)
        return rc;
    if (p->n_spans)
        qsort(p->spans, p->n_spans, sizeof *p->spans, by_thread);
    struct xwrite_line *runs = &l->items[1], *line = runs;
    for (size_t i = 0; i < p->n_spans; i++) {
        const struct worker_span *s = &p->spans[i];
        if (is_ours(s))
            continue;
        if (line == runs || line->id != s->tid) {
            line = &l->items[l->n++];
            *line = (struct xwrite_line){s->tid, arena_printf(a, err, "assay-worker/%u", s->tid), events, 0};
            if (!line->name)
                return ERR_MEMORY;
        }
        *events++ = (struct xwrite_event){s->name, s->start_ns, s->end_ns, -1, NULL};
        line->n_events++;
        if (capture_is_run(s)) {
            const struct xwrite_program *of = program_of(p, s);
            runs->events[runs->n_events++] = (struct xwrite_event){of->name, s->start_ns, s->end_ns, -1, of};
        }
    }
    return 0;
}

static int make_profile(struct profile *p, struct error *err)
{
    struct capture *c = p->c;
    struct xspace_contents contents = {.events = 0};
    struct lines lines = {0};
    char host[TRACE_HOST_MAX];
    int rc = find_programs(p, err);
    if (!rc)
        rc = make_lines(p, &lines, err);
    if (rc)
        return rc;
    trace_host_name(host);
    c->epoch_ns = capture_epoch_ns(p->start_ns);
    struct xwrite_space s = {.host = host,
                             .lines = lines.items,
                             .n_lines = lines.n,
                             .programs = p->programs,
                             .n_programs = p->n_programs,
                             .warning = c->without_buffers,
                             .start_ns = p->start_ns,
                             .end_ns = p->end_ns,
                             .epoch_ns = c->epoch_ns};
    rc = c->from_plugin ? xspace_append(&c->space, &s, (int)getpid(), err) : xspace_write(&c->space, &s, err);
    if (!rc)
        rc = xspace_look(&c->space, &contents, err);
    c->events = contents.events;
    if (!rc && !c->events)
        rc = error_set(err, ERR_DEVICE, NULL, "the profile is empty: nothing ran while it was made");
    return rc;
}

static int forget_spans(struct worker *w, struct error *err)
{
    struct worker_span *old;
    uint64_t dropped;
    size_t n;
    int rc = worker_spans(w, &old, &n, &dropped, err);
    free(old);
    return rc;
}

// What memory the program was given. A plugin's profiler that writes programs writes that with them.
static int find_buffers(struct stepping *t, struct capture_buffers *b, struct error *err)
{
    struct capture *c = t->c;
    struct xspace_contents contents;
    int rc = xspace_look(&c->space, &contents, err);
    if (rc || contents.programs)
        return rc;
    rc = capture_buffers(b, t->s->worker, t->s->source, optimized_of(t->s->program), err);
    if (rc || !b->reason[0])
        return rc;
    c->without_buffers = capture_without_buffers(&c->arena, t->s->name, b->reason, err);
    return c->without_buffers ? 0 : ERR_MEMORY;
}

static void begin(struct capture *c)
{
    *c = (struct capture){0};
    str_init(&c->space);
    str_init(&c->result);
    arena_init(&c->arena);
}

// Behind the work, which ended with rc: what the plugin's profiler and the worker recorded of it.
static int collect(struct capture *c, struct worker *w, struct profile *p, int rc, struct error *err)
{
    if (c->from_plugin && !worker_failure(w)) {
        struct error ignored = {0};
        int failed = worker_profile_collect(w, &c->space, rc ? &ignored : err);
        rc = rc ? rc : failed;
    }
    return rc ? rc : worker_spans(w, &p->spans, &p->n_spans, &c->dropped, err);
}

int capture_run(struct capture *c, const struct capture_steps *steps, struct error *err)
{
    struct stepping t = {.s = steps, .c = c};
    struct capture_buffers buffers = {.reason = ""};
    const struct worker_executable *const known[] = {steps->program};
    struct profile p = {.worker = steps->worker, .c = c, .known = known, .n_known = 1, .buffers = &buffers.assignment};
    begin(c);
    int rc = steps->whole ? 0 : forget_spans(steps->worker, err);
    if (!rc)
        rc = worker_profile_start(steps->worker, &c->from_plugin, err);
    if (rc)
        return rc;
    rc = collect(c, steps->worker, &p, run_steps(&t, err), err);
    if (!rc)
        rc = find_buffers(&t, &buffers, err);
    p.own = t.own;
    p.n_own = 2 * steps->steps;
    p.start_ns = t.start_ns;
    p.end_ns = t.end_ns;
    for (size_t i = 0; i < p.n_spans && steps->whole; i++) {
        if (p.spans[i].start_ns < p.start_ns)
            p.start_ns = p.spans[i].start_ns;
    }
    if (!rc)
        rc = make_profile(&p, err);
    capture_buffers_release(&buffers);
    free(p.spans);
    return rc;
}

int capture_call(struct capture *c, const struct capture_work *work, double *ns, struct worker_span **spans, size_t *n,
                 struct error *err)
{
    const struct str none = {0};
    struct profile p = {.worker = work->worker, .c = c, .labels = true, .buffers = &none};
    begin(c);
    *spans = NULL;
    *n = 0;
    int rc = forget_spans(work->worker, err);
    if (!rc)
        rc = worker_profile_start(work->worker, &c->from_plugin, err);
    if (rc)
        return rc;
    p.start_ns = clock_ns();
    rc = work->call(work->context, ns, err);
    p.end_ns = clock_ns();
    rc = collect(c, work->worker, &p, rc, err);
    struct xwrite_event own[] = {{CAPTURE_STEP, p.start_ns, p.end_ns, 0, NULL},
                                 {work->name, p.start_ns, p.end_ns, -1, NULL}};
    p.own = own;
    p.n_own = 2;
    const struct worker_executable *known[CAPTURE_PROGRAMS];
    if (!rc && work->programs)
        p.n_known = work->programs(work->context, known);
    p.known = known;
    c->without_buffers = "the profile is without the buffers of the programs, which are not compiled again for them";
    if (!rc)
        rc = make_profile(&p, err);
    *spans = p.spans;
    *n = p.n_spans;
    return rc;
}

struct capture_steps capture_steps_of(const struct subject *s, const char *name)
{
    return (struct capture_steps){.worker = s->worker,
                                  .program = &s->program,
                                  .source = &s->source,
                                  .args = s->args,
                                  .n_args = s->n_args,
                                  .name = name,
                                  .steps = CAPTURE_STEPS};
}

int capture_subject(struct capture *c, const struct subject *s, struct error *err)
{
    struct capture_steps steps = capture_steps_of(s, s->label);
    steps.whole = true;
    return capture_run(c, &steps, err);
}

void capture_release(struct capture *c)
{
    str_release(&c->space);
    str_release(&c->result);
    arena_release(&c->arena);
}

int capture_record(const struct capture *c, struct record *record, const char *label, struct arena *a,
                   const char **name, struct error *err)
{
    char run[TRACE_PATH_MAX];
    trace_run_path(run, c->epoch_ns, label);
    *name = arena_printf(a, err, "trace/%s", run);
    return *name ? record_write(record, *name, c->space.text, c->space.length, err) : ERR_MEMORY;
}

int capture_into(struct record *record, const struct capture_steps *steps, const struct progress *progress,
                 struct arena *a, const char **name, struct error *err)
{
    struct capture c;
    int rc = capture_run(&c, steps, err);
    if (!rc)
        rc = capture_record(&c, record, steps->name, a, name, err);
    if (!rc && c.without_buffers)
        progress_note(progress, c.without_buffers);
    capture_release(&c);
    return rc;
}
