// SPDX-License-Identifier: Apache-2.0
#include "base/threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct threads {
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    size_t count, workers;
    size_t generation, busy;
    bool stop;
    threads_fn *fn;
    void *context;
    size_t n, grain;
    atomic_size_t next;
    pthread_t thread[];
};

size_t threads_available(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n > 0 ? (size_t)n : 1;
}

static void share(struct threads *t)
{
    for (;;) {
        size_t from = atomic_fetch_add(&t->next, t->grain);
        if (from >= t->n)
            return;
        t->fn(t->context, from, t->n - from > t->grain ? from + t->grain : t->n);
    }
}

static void *run(void *argument)
{
    struct threads *t = argument;
    size_t seen = 0;
    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (!t->stop && t->generation == seen)
            pthread_cond_wait(&t->wake, &t->lock);
        if (t->stop)
            break;
        seen = t->generation;
        pthread_mutex_unlock(&t->lock);
        share(t);
        pthread_mutex_lock(&t->lock);
        if (--t->busy == 0)
            pthread_cond_signal(&t->done);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

int threads_new(struct threads **out, size_t count, struct error *err)
{
    if (count == 0)
        count = threads_available();
    struct threads *t = calloc(1, sizeof *t + (count - 1) * sizeof t->thread[0]);
    if (!t)
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu threads", count);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    pthread_cond_init(&t->done, NULL);
    t->count = count;
    for (; t->workers + 1 < count; t->workers++) {
        if (pthread_create(&t->thread[t->workers], NULL, run, t) != 0) {
            size_t started = t->workers + 1; // the caller's own thread is the first
            threads_free(t);
            return error_set(err, ERR_MEMORY, NULL, "thread %zu of %zu could not be started", started + 1, count);
        }
    }
    *out = t;
    return 0;
}

struct threads *threads_try(void)
{
    struct threads *t = NULL;
    struct error ignored = {0};
    return threads_new(&t, 0, &ignored) ? NULL : t;
}

void threads_free(struct threads *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
    for (size_t i = 0; i < t->workers; i++)
        pthread_join(t->thread[i], NULL);
    pthread_cond_destroy(&t->wake);
    pthread_cond_destroy(&t->done);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

size_t threads_count(const struct threads *t)
{
    return t ? t->count : 1;
}

void threads_for(struct threads *t, size_t n, size_t grain, threads_fn *fn, void *context)
{
    if (grain == 0)
        grain = 1;
    if (!t || t->workers == 0 || n <= grain) {
        if (n)
            fn(context, 0, n);
        return;
    }
    pthread_mutex_lock(&t->lock);
    t->fn = fn;
    t->context = context;
    t->n = n;
    t->grain = grain;
    atomic_store(&t->next, 0);
    t->busy = t->workers;
    t->generation++;
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
    share(t);
    pthread_mutex_lock(&t->lock);
    while (t->busy)
        pthread_cond_wait(&t->done, &t->lock);
    pthread_mutex_unlock(&t->lock);
}
