// SPDX-License-Identifier: Apache-2.0
#include "lab/turns.h"

#include <pthread.h>
#include <stdlib.h>

#include "lab/measure.h"

struct side {
    struct turn turn;
    void *of;
    struct error error;
    size_t met; // meetings that it has come to
    bool takes; // part in the last of them
    bool over;
};

struct turns {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int awake; // the side that runs; all that follows is its to change
    turns_run *run;
    struct side sides[2];
    int first_failed;  // -1: none
    bool paired[2];    // of the last two meetings: a side may be one ahead of the other
    uint32_t *order;   // who takes each sample
    size_t at, length; // of them
    uint64_t seed;
};

static struct side *other_of(const struct turn *t)
{
    return &t->all->sides[1 - t->who];
}

static void wait_for(struct turns *all, int who)
{
    while (all->awake != who)
        pthread_cond_wait(&all->changed, &all->lock);
}

// Lets the other side run until that hands back, or ends.
static void hand_over(struct turn *t)
{
    struct turns *all = t->all;
    pthread_mutex_lock(&all->lock);
    if (!other_of(t)->over) {
        all->awake = 1 - t->who;
        pthread_cond_broadcast(&all->changed);
        wait_for(all, t->who);
    }
    pthread_mutex_unlock(&all->lock);
}

static void *run_side(void *of)
{
    struct side *s = of;
    struct turns *all = s->turn.all;
    int who = s->turn.who;
    pthread_mutex_lock(&all->lock);
    wait_for(all, who);
    pthread_mutex_unlock(&all->lock);
    if (all->run(s->of, &s->turn, &s->error) && all->first_failed < 0)
        all->first_failed = who;
    pthread_mutex_lock(&all->lock);
    s->over = true;
    all->awake = 1 - who;
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
    return NULL;
}

int turns_both(turns_run *run, void *const of[2], const char *const names[2], uint64_t seed, struct error *err)
{
    struct turns all = {.lock = PTHREAD_MUTEX_INITIALIZER,
                        .changed = PTHREAD_COND_INITIALIZER,
                        .run = run,
                        .first_failed = -1,
                        .seed = seed};
    pthread_t second;
    for (int i = 0; i < 2; i++)
        all.sides[i] = (struct side){.turn = {&all, i, names[i]}, .of = of[i]};
    if (pthread_create(&second, NULL, run_side, &all.sides[1]) != 0)
        return error_set(err, ERR_MEMORY, NULL, "a thread for the second device could not be started");
    run_side(&all.sides[0]);
    pthread_join(second, NULL);
    free(all.order);
    if (all.first_failed < 0)
        return 0;
    *err = all.sides[all.first_failed].error;
    return err->code;
}

static int other_ended(const struct turn *t, struct error *err)
{
    return error_set(err, ERR_DEVICE, other_of(t)->turn.name, "ended before its samples were taken");
}

// By the side that comes last: nobody is left in the rounds before.
static int begin_rounds(struct turns *all, size_t rounds, struct error *err)
{
    free(all->order);
    all->at = 0;
    all->length = 2 * rounds;
    all->order = calloc(all->length + 1, sizeof *all->order);
    if (!all->order)
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu rounds", rounds);
    return measure_schedule(all->order, 2, rounds, all->seed, err);
}

int turn_meet(struct turn *t, size_t rounds, bool takes, bool *paired, struct error *err)
{
    *paired = false;
    if (!t)
        return 0;
    struct turns *all = t->all;
    struct side *me = &all->sides[t->who], *other = other_of(t);
    size_t meeting = me->met++;
    me->takes = takes;
    if (other->met == me->met) {
        all->paired[meeting % 2] = takes && other->takes;
        int rc = all->paired[meeting % 2] ? begin_rounds(all, rounds, err) : 0;
        if (rc)
            return rc;
    }
    while (other->met < me->met && !other->over)
        hand_over(t);
    if (other->met < me->met)
        return other_ended(t, err);
    *paired = all->paired[meeting % 2];
    return 0;
}

int turn_begin(struct turn *t, struct error *err)
{
    struct turns *all = t->all;
    while (all->order[all->at] != (uint32_t)t->who && !other_of(t)->over)
        hand_over(t);
    return all->order[all->at] == (uint32_t)t->who ? 0 : other_ended(t, err);
}

void turn_end(struct turn *t)
{
    t->all->at++;
}

void turn_leave(struct turn *t)
{
    if (t->all->at < t->all->length)
        hand_over(t);
}
