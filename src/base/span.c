// SPDX-License-Identifier: Apache-2.0
#include "base/span.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

static_assert((SPAN_RING_SLOTS & (SPAN_RING_SLOTS - 1)) == 0, "positions wrap by masking");

// One writer (the owning thread), one reader (the drain). Positions only grow.
struct ring {
    atomic_bool owned;
    _Atomic uint64_t written, read, dropped;
    struct span slots[SPAN_RING_SLOTS];
};

static _Atomic(struct ring *) rings[SPAN_MAX_THREADS];
static _Atomic uint64_t dropped_without_ring;
static _Atomic(const char *) names[SPAN_MAX_NAMES] = {"?"};
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;

static _Thread_local struct ring *own_ring;
static _Thread_local uint32_t own_tid;
static pthread_key_t at_thread_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;

uint32_t span_register(const char *name)
{
    uint32_t id = 0;
    pthread_mutex_lock(&names_lock);
    for (uint32_t i = 1; i < SPAN_MAX_NAMES && !id; i++) {
        const char *known = atomic_load(&names[i]);
        if (!known)
            atomic_store(&names[i], known = name);
        if (strcmp(known, name) == 0)
            id = i;
    }
    pthread_mutex_unlock(&names_lock);
    return id;
}

const char *span_name(uint32_t id)
{
    const char *name = id < SPAN_MAX_NAMES ? atomic_load(&names[id]) : NULL;
    return name ? name : "?";
}

// The spans in it stay for the drain; the next new thread goes on in it.
static void give_ring_back(void *ring)
{
    atomic_store_explicit(&((struct ring *)ring)->owned, false, memory_order_release);
}

static void make_key(void)
{
    pthread_key_create(&at_thread_end, give_ring_back);
}

static struct ring *claim_ring(void)
{
    pthread_once(&once, make_key);
    struct ring *mine = NULL;
    for (size_t i = 0; i < SPAN_MAX_THREADS && !mine; i++) {
        struct ring *r = atomic_load_explicit(&rings[i], memory_order_acquire);
        bool expected = false;
        if (!r) {
            struct ring *fresh = calloc(1, sizeof *fresh);
            if (!fresh)
                return NULL;
            atomic_store(&fresh->owned, true);
            if (atomic_compare_exchange_strong(&rings[i], &r, fresh)) {
                mine = fresh;
                break;
            }
            free(fresh); // another thread took the place; r is its ring now
        }
        if (atomic_compare_exchange_strong_explicit(&r->owned, &expected, true, memory_order_acquire,
                                                    memory_order_relaxed))
            mine = r;
    }
    if (mine) {
        pthread_setspecific(at_thread_end, mine);
        own_tid = (uint32_t)syscall(SYS_gettid);
    }
    return mine;
}

struct span_open span_begin(uint32_t name)
{
    return (struct span_open){.start_ns = clock_ns(), .name = name, .of = -1};
}

void span_end(struct span_open s)
{
    uint64_t end_ns = clock_ns();
    if (!own_ring)
        own_ring = claim_ring();
    struct ring *r = own_ring;
    if (!r) {
        atomic_fetch_add_explicit(&dropped_without_ring, 1, memory_order_relaxed);
        return;
    }
    uint64_t at = atomic_load_explicit(&r->written, memory_order_relaxed);
    if (at - atomic_load_explicit(&r->read, memory_order_acquire) >= SPAN_RING_SLOTS) {
        atomic_fetch_add_explicit(&r->dropped, 1, memory_order_relaxed);
        return;
    }
    r->slots[at & (SPAN_RING_SLOTS - 1)] = (struct span){s.start_ns, end_ns, s.name, own_tid, s.of};
    atomic_store_explicit(&r->written, at + 1, memory_order_release);
}

size_t span_drain(struct span *out, size_t max, uint64_t *dropped)
{
    size_t n = 0;
    uint64_t lost = atomic_exchange_explicit(&dropped_without_ring, 0, memory_order_relaxed);
    for (size_t i = 0; i < SPAN_MAX_THREADS; i++) {
        struct ring *r = atomic_load_explicit(&rings[i], memory_order_acquire);
        if (!r)
            break;
        uint64_t from = atomic_load_explicit(&r->read, memory_order_relaxed);
        uint64_t to = atomic_load_explicit(&r->written, memory_order_acquire);
        while (from < to && n < max)
            out[n++] = r->slots[from++ & (SPAN_RING_SLOTS - 1)];
        atomic_store_explicit(&r->read, from, memory_order_release);
        lost += atomic_exchange_explicit(&r->dropped, 0, memory_order_relaxed);
    }
    if (dropped)
        *dropped = lost;
    return n;
}
