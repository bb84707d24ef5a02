// SPDX-License-Identifier: Apache-2.0
#include "kernels/team.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/span.h"

struct job {
    uint32_t name;
    team_fn *fn;
    void *context;
    struct error *err;
    int rc;
    bool done;
    struct job *next;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct job *first, **last; // those that wait, in the order in which they came
    struct threads *pool;
    bool running;
} team = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static void *serve(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&team.lock);
    for (;;) {
        while (!team.first)
            pthread_cond_wait(&team.work, &team.lock);
        struct job *job = team.first;
        team.first = job->next;
        if (!team.first)
            team.last = &team.first;
        pthread_mutex_unlock(&team.lock);
        struct span_open span = span_begin(job->name);
        job->rc = job->fn(job->context, team.pool, job->err);
        span_end(span);
        pthread_mutex_lock(&team.lock);
        job->done = true;
        pthread_cond_broadcast(&team.done);
    }
    return NULL;
}

int team_start(struct error *err)
{
    int rc = 0;
    pthread_mutex_lock(&team.lock);
    if (!team.running) {
        pthread_t thread;
        team.last = &team.first;
        rc = threads_new(&team.pool, 0, err);
        if (!rc && pthread_create(&thread, NULL, serve, NULL) != 0)
            rc = error_set(err, ERR_MEMORY, NULL, "cannot start the thread of the kernels");
        if (!rc) {
            pthread_detach(thread);
            team.running = true;
        }
    }
    pthread_mutex_unlock(&team.lock);
    return rc;
}

int team_run(const char *name, team_fn *fn, void *context, struct error *err)
{
    struct job job = {.name = span_register(name), .fn = fn, .context = context, .err = err};
    pthread_mutex_lock(&team.lock);
    if (!team.running) {
        pthread_mutex_unlock(&team.lock);
        return error_set(err, ERR_INTERNAL, NULL, "the thread of the kernels was not started");
    }
    *team.last = &job;
    team.last = &job.next;
    pthread_cond_signal(&team.work);
    while (!job.done)
        pthread_cond_wait(&team.done, &team.lock);
    pthread_mutex_unlock(&team.lock);
    return job.rc;
}

size_t team_threads(void)
{
    return team.pool ? threads_count(team.pool) : 0;
}
