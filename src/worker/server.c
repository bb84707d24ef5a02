// SPDX-License-Identifier: Apache-2.0
#include "worker/server.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/span.h"
#include "worker/mapping.h"
#include "worker/server_state.h"

static const struct handler {
    const char *name;
    server_fn *run;
    uint32_t n_fds;
    bool needs_client;
} handlers[FRAME_TYPES] = {
    [FRAME_HELLO] = {"load", server_hello, 0, false},
    [FRAME_COMPILE] = {"compile", server_compile, 0, true},
    [FRAME_UNLOAD] = {"unload", server_unload, 0, false},
    [FRAME_UPLOAD] = {"upload", server_upload, 1, true},
    [FRAME_EXECUTE] = {"execute", server_execute, 0, true},
    [FRAME_TIME] = {"time", server_time, 0, true},
    [FRAME_DOWNLOAD] = {"download", server_download, 1, true},
    [FRAME_FREE] = {"free", server_free, 0, false},
    [FRAME_MEMORY] = {"memory", server_memory, 0, true},
    [FRAME_RESET_PEAK] = {"reset peak", server_reset_peak, 0, false},
    [FRAME_SPANS] = {"spans", server_spans, 0, false},
    [FRAME_QUIT] = {"quit", server_quit, 0, false},
    [FRAME_PROFILE_START] = {"profile start", server_profile_start, 0, false},
    [FRAME_PROFILE_COLLECT] = {"profile collect", server_profile_collect, 0, false},
    [FRAME_TOPOLOGY] = {"topology", server_topology, 0, false},
    [FRAME_COMPILE_FOR] = {"compile for a target", server_compile_for, 0, false},
};

int server_read_done(const struct server_request *r, struct error *err)
{
    return wire_done(&r->in) ? 0 : error_set(err, ERR_INTERNAL, NULL, "the request is damaged");
}

int server_grow(void **array, size_t n, size_t *cap, size_t size, struct error *err)
{
    if (n < *cap)
        return 0;
    size_t more = *cap ? *cap * 2 : 64, bytes;
    void *p = n < INT32_MAX && size_mul(more, size, &bytes) ? realloc(*array, bytes) : NULL;
    if (!p)
        return error_set(err, ERR_MEMORY, NULL, "no memory for a table of %zu entries", more);
    *array = p;
    *cap = more;
    return 0;
}

struct program *server_program(const struct server *s, int id, struct error *err)
{
    struct program *p = id >= 0 && (size_t)id < s->n_programs ? s->programs[id] : NULL;
    if (!p)
        error_set(err, ERR_USAGE, NULL, "there is no program %d", id);
    return p;
}

struct server_buffer *server_buffer(const struct server *s, int id, struct error *err)
{
    if (id >= 0 && (size_t)id < s->n_buffers && s->buffers[id].buffer)
        return &s->buffers[id];
    error_set(err, ERR_USAGE, NULL, "there is no buffer %d", id);
    return NULL;
}

int server_add_buffer(struct server *s, struct buffer *b, int mapping, struct error *err)
{
    int rc = server_grow((void **)&s->buffers, s->n_buffers, &s->cap_buffers, sizeof *s->buffers, err);
    if (rc)
        return rc;
    s->buffers[s->n_buffers] = (struct server_buffer){b, mapping};
    return (int)s->n_buffers++;
}

int server_add_program(struct server *s, struct program *p, struct error *err)
{
    int rc = server_grow((void **)&s->programs, s->n_programs, &s->cap_programs, sizeof(struct program *), err);
    if (rc)
        return rc;
    s->programs[s->n_programs] = p;
    return (int)s->n_programs++;
}

void server_release(struct server *s)
{
    profiler_free(s->profiler);
    for (size_t i = 0; i < s->n_buffers; i++) {
        buffer_free(s->buffers[i].buffer);
        if (s->buffers[i].buffer && s->buffers[i].mapping >= 0)
            mapping_close(s->buffers[i].mapping);
    }
    for (size_t i = 0; i < s->n_programs; i++)
        program_free(s->programs[i]);
    topology_free(s->topology);
    client_free(s->client);
    plugin_free(s->plugin);
    threads_free(s->threads);
    free(s->buffers);
    free(s->programs);
    free(s->order);
    arena_release(&s->arena);
}

int server_quit(struct server *s, struct server_request *r, struct error *err)
{
    s->leaving = true;
    return server_read_done(r, err);
}

// Runs the handler and sends its answer. An error here means that the channel is broken.
static int answer(struct server *s, struct frame *f, struct str *body, struct error *err)
{
    const struct handler *h = &handlers[f->header.type];
    struct server_request r = {.frame = f};
    wire_read(&r.in, f->body, f->body_bytes, &s->arena);
    str_clear(body);
    wire_write(&r.out, body);
    struct msg_status status = {0};
    msg_status(&r.out, &status);

    struct error failed = {0};
    struct span_open open = span_begin(span_register(h->name));
    int rc = 0;
    if (f->header.reply || f->header.n_fds != h->n_fds)
        rc = error_set(&failed, ERR_INTERNAL, NULL, "the request is damaged");
    else if (!s->plugin && f->header.type != FRAME_HELLO && f->header.type != FRAME_QUIT)
        rc = error_set(&failed, ERR_INTERNAL, NULL, "the first request must be hello");
    else if (!s->client && h->needs_client)
        rc = error_set(&failed, ERR_USAGE, NULL, "this worker only compiles: it has no device");
    else
        rc = h->run(s, &r, &failed);
    if (!rc && !wire_done(&r.out))
        rc = error_set(&failed, ERR_MEMORY, NULL, "no memory for the answer");
    span_end(open);

    struct frame_header reply = {.type = f->header.type, .reply = true, .request = f->header.request};
    if (!rc) {
        // Larger than a frame may be, or no shared memory: said in a small one.
        rc = frame_send(s->socket, &reply, body->text, body->length, NULL, &failed);
        if (!rc)
            return 0;
    }
    str_clear(body);
    wire_write(&r.out, body);
    status = (struct msg_status){.code = rc, .where = failed.where, .message = failed.message};
    msg_status(&r.out, &status);
    return frame_send(s->socket, &reply, body->text, body->length, NULL, err);
}

int server_run(int socket, struct error *err)
{
    struct server s = {.socket = socket};
    arena_init(&s.arena);
    mapping_watch();
    struct str body;
    str_init(&body);
    body.max_bytes = FRAME_MAX_BODY;
    struct frame f;
    int rc = 0;
    while (!rc && !s.leaving) {
        rc = frame_receive(socket, &f, err);
        if (rc <= 0) // closed, or broken
            break;
        rc = answer(&s, &f, &body, err);
        frame_release(&f);
        arena_release(&s.arena);
    }
    str_release(&body);
    server_release(&s);
    return rc;
}
