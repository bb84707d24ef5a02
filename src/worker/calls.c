// SPDX-License-Identifier: Apache-2.0
// The calls of worker.h that are one exchange each.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker/client.h"

#define SHORT_S 60.0 // of requests that do no work

// A request that is an id or nothing, and a reply that is the status alone.
static int simple(struct worker *w, enum frame_type type, const int *id, const char *doing, struct error *err)
{
    struct wire request;
    struct call c;
    call_init(&c, type, SHORT_S, &request, "%s", doing);
    if (id) {
        struct msg_id m = {*id};
        msg_id(&request, &m);
    }
    int rc = call_run(w, &c, err);
    if (!rc)
        rc = call_done(w, &c, err);
    call_release(&c);
    return rc;
}

// malloc'd copy with a zero byte behind it; NULL for NULL or without memory.
static char *copy_bytes(const void *bytes, size_t n)
{
    char *p = bytes ? malloc(n + 1) : NULL;
    if (p) {
        memcpy(p, bytes, n);
        p[n] = 0;
    }
    return p;
}

int worker_keep_executable(const struct msg_compile_reply *m, struct worker_executable *out, struct error *err)
{
    out->id = m->id;
    out->compile_ns = m->compile_ns;
    out->memory = m->memory;
    out->n_devices = m->n_devices;
    out->n_outputs = m->n_outputs;
    out->optimized_length = m->optimized_length;
    out->fingerprint = m->fingerprint ? copy_bytes(m->fingerprint, strlen(m->fingerprint)) : NULL;
    out->optimized = copy_bytes(m->optimized, m->optimized_length);
    out->optimized_format = m->optimized_format ? copy_bytes(m->optimized_format, strlen(m->optimized_format)) : NULL;
    out->outputs = m->n_outputs ? malloc(m->n_outputs * sizeof *out->outputs) : NULL;
    bool short_of_memory = (m->fingerprint && !out->fingerprint) || (m->optimized && !out->optimized) ||
                           (m->optimized_format && !out->optimized_format) || (m->n_outputs && !out->outputs);
    if (short_of_memory)
        return error_set(err, ERR_MEMORY, NULL, "no memory for a program's description");
    if (m->n_outputs)
        memcpy(out->outputs, m->outputs, m->n_outputs * sizeof *out->outputs);
    return 0;
}

int call_compile(struct call *c, struct worker *w, enum frame_type type, const struct worker_program *p,
                 const struct call_watch *watch, struct error *err)
{
    struct wire request;
    call_init(c, type, w->compile_timeout_s, &request, "compiling %s", p->name ? p->name : "a program");
    if (watch)
        c->watch = *watch;
    struct msg_compile m = {.text = p->text,
                            .length = p->length,
                            .format = p->format,
                            .num_replicas = p->num_replicas,
                            .num_partitions = p->num_partitions,
                            .allow_excess_precision = p->allow_excess_precision,
                            .want_optimized = p->want_optimized,
                            .shardy = p->shardy,
                            .overrides = (struct worker_override *)(uintptr_t)p->overrides,
                            .n_overrides = p->n_overrides,
                            .args = (struct worker_shape *)(uintptr_t)p->args,
                            .n_args = p->n_args};
    msg_compile(&request, &m);
    return request.failed ? error_set(err, ERR_USAGE, p->name,
                                      "the program's signature or options are not as a worker takes them (at most %d "
                                      "arguments of rank %d)",
                                      WORKER_MAX_ARGS, WORKER_MAX_RANK)
                          : call_run(w, c, err);
}

enum { MOST_NAMES = 65536 }; // programs beyond have none

static int keep_name(struct worker *w, int id, const char *name, struct error *err)
{
    size_t n = (size_t)id + 1;
    if (id < 0 || id >= MOST_NAMES)
        return 0;
    if (n > w->n_programs) {
        char(*more)[64] = realloc(w->programs, n * sizeof *more);
        if (!more)
            return error_set(err, ERR_MEMORY, NULL, "no memory for the names of %zu programs", n);
        memset(more + w->n_programs, 0, (n - w->n_programs) * sizeof *more);
        w->programs = more;
        w->n_programs = n;
    }
    snprintf(w->programs[id], sizeof w->programs[id], "%s", name ? name : "");
    return 0;
}

const char *worker_program_name(const struct worker *w, int executable)
{
    bool known = w && executable >= 0 && (size_t)executable < w->n_programs && w->programs[executable][0];
    return known ? w->programs[executable] : "program";
}

int worker_compile(struct worker *w, const struct worker_program *p, struct worker_executable *out, struct error *err)
{
    memset(out, 0, sizeof *out);
    out->id = -1;
    struct call c;
    int rc = call_compile(&c, w, FRAME_COMPILE, p, NULL, err);
    if (!rc) {
        struct msg_compile_reply reply = {0};
        msg_compile_reply(&c.reply, &reply);
        rc = call_done(w, &c, err);
        if (!rc)
            rc = worker_keep_executable(&reply, out, err);
        if (!rc)
            rc = keep_name(w, out->id, p->name, err);
        if (rc)
            worker_executable_release(out);
    }
    call_release(&c);
    return rc;
}

void worker_executable_release(struct worker_executable *e)
{
    free(e->fingerprint);
    free(e->optimized);
    free(e->optimized_format);
    free(e->outputs);
    memset(e, 0, sizeof *e);
    e->id = -1;
}

int worker_unload(struct worker *w, int executable, struct error *err)
{
    return simple(w, FRAME_UNLOAD, &executable, "unloading a program", err);
}

int worker_upload(struct worker *w, const struct worker_tensor *t, int *id, struct worker_upload_result *result,
                  struct error *err)
{
    struct wire request;
    struct call c;
    const char *name = t->name ? t->name : "a tensor";
    call_init(&c, FRAME_UPLOAD, w->run_timeout_s, &request, "uploading %s", name);
    struct msg_upload m = {.offset = t->offset,
                           .bytes = t->bytes,
                           .parts = (struct worker_part *)(uintptr_t)t->parts,
                           .n_parts = t->n_parts,
                           .shape = t->shape,
                           .name = name,
                           .position = t->position};
    msg_upload(&request, &m);
    c.fd = t->fd;
    int rc = request.failed
                 ? error_set(err, ERR_USAGE, name, "the tensor has no type, a rank beyond %d or more than %d parts",
                             WORKER_MAX_RANK, WORKER_MAX_PARTS)
                 : call_run(w, &c, err);
    if (!rc) {
        struct msg_upload_reply reply = {0};
        msg_upload_reply(&c.reply, &reply);
        rc = call_done(w, &c, err);
        *id = reply.id;
        if (result)
            *result = reply.result;
    }
    call_release(&c);
    return rc;
}

int worker_upload_bytes(struct worker *w, const void *bytes, size_t n, const struct worker_tensor *tensor, int *id,
                        struct worker_upload_result *result, struct error *err)
{
    struct worker_tensor t = *tensor;
    t.fd = frame_memfd("assay-tensor", n ? bytes : "", n, err);
    if (t.fd < 0)
        return t.fd;
    t.offset = t.n_parts = 0;
    t.bytes = n;
    int rc = worker_upload(w, &t, id, result, err);
    close(t.fd);
    return rc;
}

static int execute_request(struct worker *w, struct call *c, enum frame_type type, int executable, const int *args,
                           size_t n_args, size_t runs, struct error *err)
{
    struct wire request;
    call_init(c, type, w->run_timeout_s, &request, "running program %d", executable);
    struct msg_execute m = {.executable = executable, .args = (int *)(uintptr_t)args, .n_args = n_args, .runs = runs};
    msg_execute(&request, &m);
    if (request.failed)
        return error_set(err, ERR_USAGE, NULL, "more than %d arguments or %d runs", MESSAGE_MAX_IDS, MESSAGE_MAX_RUNS);
    return call_run(w, c, err);
}

int worker_execute(struct worker *w, int executable, const int *args, size_t n_args, int *outputs, size_t n_outputs,
                   uint64_t *ns, struct error *err)
{
    struct call c;
    int rc = execute_request(w, &c, FRAME_EXECUTE, executable, args, n_args, 0, err);
    if (!rc) {
        struct msg_execute_reply reply = {0};
        msg_execute_reply(&c.reply, &reply);
        rc = call_done(w, &c, err);
        if (!rc && reply.n_outputs != n_outputs) {
            size_t given = reply.n_outputs;
            struct error ignored = {0};
            for (size_t i = 0; i < given && !w->dead; i++)
                worker_free(w, reply.outputs[i], &ignored);
            rc = error_set(err, ERR_USAGE, NULL, "the program has %zu outputs on all devices, room is for %zu", given,
                           n_outputs);
        }
        if (!rc && n_outputs)
            memcpy(outputs, reply.outputs, n_outputs * sizeof *outputs);
        if (!rc && ns)
            *ns = reply.ns;
    }
    call_release(&c);
    return rc;
}

int worker_time(struct worker *w, int executable, const int *args, size_t n_args, size_t runs, double *ns_each,
                struct error *err)
{
    struct call c;
    int rc = execute_request(w, &c, FRAME_TIME, executable, args, n_args, runs, err);
    if (!rc) {
        struct msg_time_reply reply = {0};
        msg_time_reply(&c.reply, &reply);
        c.reply.failed |= reply.n != runs;
        rc = call_done(w, &c, err);
        for (size_t i = 0; i < runs && !rc; i++)
            ns_each[i] = (double)reply.ns[i];
    }
    call_release(&c);
    return rc;
}

int worker_download(struct worker *w, int buffer, void *dst, size_t bytes, struct error *err)
{
    struct wire request;
    struct call c;
    call_init(&c, FRAME_DOWNLOAD, w->run_timeout_s, &request, "downloading %zu bytes", bytes);
    struct msg_download m = {.buffer = buffer, .bytes = bytes};
    msg_download(&request, &m);
    c.fd = frame_memfd("assay-download", NULL, bytes, err);
    int rc = c.fd < 0 ? c.fd : call_run(w, &c, err);
    if (!rc)
        rc = call_done(w, &c, err);
    if (!rc && bytes) {
        void *p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, c.fd, 0);
        if (p == MAP_FAILED)
            rc = error_set(err, ERR_MEMORY, NULL, "no memory to map %zu bytes", bytes);
        else {
            memcpy(dst, p, bytes);
            munmap(p, bytes);
        }
    }
    if (c.fd >= 0)
        close(c.fd);
    call_release(&c);
    return rc;
}

int worker_free(struct worker *w, int buffer, struct error *err)
{
    return simple(w, FRAME_FREE, &buffer, "freeing a buffer", err);
}

int worker_memory(struct worker *w, struct worker_memory *out, struct error *err)
{
    struct wire request;
    struct call c;
    call_init(&c, FRAME_MEMORY, SHORT_S, &request, "asking for memory");
    int rc = call_run(w, &c, err);
    if (!rc) {
        msg_memory_reply(&c.reply, out);
        rc = call_done(w, &c, err);
    }
    call_release(&c);
    return rc;
}

int worker_reset_peak(struct worker *w, struct error *err)
{
    return simple(w, FRAME_RESET_PEAK, NULL, "resetting the peak of memory", err);
}

int worker_spans(struct worker *w, struct worker_span **spans, size_t *n, uint64_t *dropped, struct error *err)
{
    *spans = NULL;
    *n = 0;
    uint64_t lost = 0;
    size_t got;
    int rc;
    do {
        struct wire request;
        struct call c;
        call_init(&c, FRAME_SPANS, SHORT_S, &request, "asking for spans");
        struct msg_spans_reply reply = {0};
        rc = call_run(w, &c, err);
        if (!rc) {
            msg_spans_reply(&c.reply, &reply);
            rc = call_done(w, &c, err);
        }
        got = rc ? 0 : reply.n;
        if (got) {
            struct worker_span *more = realloc(*spans, (*n + got) * sizeof *more);
            if (more) {
                memcpy(more + *n, reply.spans, got * sizeof *more);
                *spans = more;
                *n += got;
                lost += reply.dropped;
            } else
                rc = error_set(err, ERR_MEMORY, NULL, "no memory for %zu spans", *n + got);
        }
        call_release(&c);
    } while (!rc && got >= SPAN_RING_SLOTS);
    if (rc) {
        free(*spans);
        *spans = NULL;
        *n = 0;
    }
    if (dropped)
        *dropped = lost;
    return rc;
}
