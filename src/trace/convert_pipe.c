// SPDX-License-Identifier: Apache-2.0
#include "trace/convert_pipe.h"

#include <stdlib.h>

#include "base/interrupt.h"

#define PUT_BYTES ((size_t)4 << 20) // of a chunk's text: what is more is put into the file before the rest is written

// ---- Planes

struct form_plane *form_plane_new(struct error *err)
{
    struct form_plane *p = calloc(1, sizeof *p);
    if (!p) {
        error_set(err, ERR_MEMORY, NULL, "no memory for a plane");
        return NULL;
    }
    arena_init(&p->arena);
    atomic_init(&p->users, 1);
    return p;
}

static void leave(struct form_plane *p)
{
    if (!p || atomic_fetch_sub(&p->users, 1) > 1)
        return;
    arena_release(&p->arena);
    free(p);
}

void pipe_plane(struct pipe *p, struct form_plane *plane)
{
    leave(p->plane);
    p->plane = plane;
    struct form_chunk *k = &p->filler->chunk;
    leave(k->plane);
    k->plane = plane;
    if (plane)
        atomic_fetch_add(&plane->users, 1);
}

bool pipe_empty(const struct pipe *p)
{
    return p->filler->chunk.n == 0;
}

// ---- Chunks

static void fail(struct pipe *p, int rc, const struct error *e)
{
    pthread_mutex_lock(&p->order);
    if (!p->rc) {
        p->error = *e;
        p->rc = rc;
    }
    pthread_cond_broadcast(&p->turned);
    pthread_mutex_unlock(&p->order);
}

static void begin_chunk(struct pipe *p, struct pipe_worker *w)
{
    struct form_chunk *k = &w->chunk;
    k->n = 0;
    k->number = p->next++;
    memcpy(k->latest_ps, p->latest_ps, sizeof k->latest_ps);
    if (k->plane != p->plane) {
        leave(k->plane);
        k->plane = p->plane;
        if (k->plane)
            atomic_fetch_add(&k->plane->users, 1);
    }
}

static void put(struct pipe *p, struct pipe_worker *w, struct error *err)
{
    pthread_mutex_lock(&p->order);
    while (p->turn != w->chunk.number && !p->rc)
        pthread_cond_wait(&p->turned, &p->order);
    pthread_mutex_unlock(&p->order);
    if (p->rc)
        return;
    int rc = str_check(&w->out, err);
    if (!rc && p->form->before)
        rc = p->form->before(w->state, &w->head, err);
    if (!rc)
        rc = str_check(&w->head, err);
    if (!rc) {
        sink_put(p->sink, str_text(&w->head), w->head.length);
        sink_put(p->sink, str_text(&w->out), w->out.length);
        rc = p->sink->rc; // the sink knows more of it
    }
    str_clear(&w->head);
    str_clear(&w->out);
    if (rc)
        fail(p, rc, err);
}

// Writes the chunk, and passes the turn on.
static void deliver(struct pipe *p, struct pipe_worker *w)
{
    const struct form_chunk *k = &w->chunk;
    struct error err = {0};
    struct file_guard g;
    if (FILE_GUARD(&g, &k->plane->file->map)) {
        fail(p, file_guard_error(&g, &err), &err);
        return;
    }
    int rc = p->form->chunk(w->state, k, &err);
    if (rc)
        fail(p, rc, &err);
    for (size_t i = 0; i < k->n && !p->rc; i++) {
        rc = p->form->op(w->state, &k->ops[i], &w->out, &err);
        if (rc)
            fail(p, rc, &err);
        else if (w->out.length > PUT_BYTES)
            put(p, w, &err);
    }
    file_guard_end(&g);
    put(p, w, &err);
    pthread_mutex_lock(&p->order);
    p->turn++;
    pthread_cond_broadcast(&p->turned);
    pthread_mutex_unlock(&p->order);
}

void pipe_spill(struct pipe *p)
{
    if (!p->rc)
        deliver(p, p->filler);
    begin_chunk(p, p->filler);
}

static void work(void *context, size_t from, size_t to)
{
    struct pipe *p = context;
    struct pipe_worker *w = &p->workers[from];
    (void)to;
    for (;;) {
        struct error err = {0};
        pthread_mutex_lock(&p->filling);
        p->filler = w;
        if (!p->over && !p->rc) {
            begin_chunk(p, w);
            int rc = interrupt_check("converting a profile", &err);
            if (!rc)
                rc = p->fill(p->source, &err);
            if (rc)
                fail(p, rc, &err);
            p->over = !w->chunk.n;
        }
        bool stop = p->over || p->rc;
        pthread_mutex_unlock(&p->filling);
        if (stop)
            return;
        deliver(p, w);
    }
}

// ---- All of it

static int open_workers(struct pipe *p, struct error *err)
{
    p->workers = calloc(p->n_workers, sizeof *p->workers);
    for (size_t i = 0; p->workers && i < p->n_workers; i++) {
        struct pipe_worker *w = &p->workers[i];
        w->chunk.ops = malloc(FORM_CHUNK_OPS * sizeof *w->chunk.ops);
        w->state = calloc(1, p->form->state_bytes);
        if (!w->chunk.ops || !w->state)
            return error_set(err, ERR_MEMORY, NULL, "no memory to convert a profile with %zu threads", p->n_workers);
    }
    return p->workers ? 0 : error_set(err, ERR_MEMORY, NULL, "no memory for %zu threads", p->n_workers);
}

static void close_workers(struct pipe *p)
{
    for (size_t i = 0; p->workers && i < p->n_workers; i++) {
        struct pipe_worker *w = &p->workers[i];
        if (w->state)
            p->form->release(w->state);
        free(w->state);
        free(w->chunk.ops);
        leave(w->chunk.plane);
        str_release(&w->out);
        str_release(&w->head);
    }
    free(p->workers);
    leave(p->plane);
    p->plane = NULL;
}

int pipe_run(struct pipe *p, struct threads *threads, struct error *err)
{
    p->n_workers = threads_count(threads);
    pthread_mutex_init(&p->filling, NULL);
    pthread_mutex_init(&p->order, NULL);
    pthread_cond_init(&p->turned, NULL);
    int rc = open_workers(p, err);
    if (!rc) {
        sink_text(p->sink, p->form->head);
        threads_for(threads, p->n_workers, 1, work, p);
        rc = p->rc;
        if (rc && err)
            *err = p->error;
    }
    if (!rc)
        sink_text(p->sink, p->form->tail);
    close_workers(p);
    pthread_cond_destroy(&p->turned);
    pthread_mutex_destroy(&p->order);
    pthread_mutex_destroy(&p->filling);
    return rc;
}
