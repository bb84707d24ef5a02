// SPDX-License-Identifier: Apache-2.0
#include "base/span.h"

#include <pthread.h>

#include "test.h"

static struct span drained[3 * SPAN_RING_SLOTS];

TEST(base_span_records_in_order)
{
    uint32_t outer = span_register("outer"), inner = span_register("inner");
    CHECK(outer != 0 && inner != 0 && outer != inner);
    CHECK_INT(span_register("outer"), outer);
    struct span_open o = span_begin(outer);
    struct span_open i = span_begin(inner);
    span_end(i);
    span_end(o);
    uint64_t dropped = 1;
    CHECK_INT(span_drain(drained, 10, &dropped), 2);
    CHECK_INT(dropped, 0);
    CHECK_STR(span_name(drained[0].name), "inner");
    CHECK_STR(span_name(drained[1].name), "outer");
    CHECK(drained[1].start_ns <= drained[0].start_ns && drained[0].end_ns <= drained[1].end_ns);
    CHECK(drained[0].start_ns <= drained[0].end_ns);
    CHECK_INT(drained[0].tid, drained[1].tid);
    CHECK_INT(span_drain(drained, 10, &dropped), 0);
    CHECK_STR(span_name(SPAN_MAX_NAMES), "?");
}

TEST(base_span_full_ring_drops_and_counts)
{
    uint32_t name = span_register("x");
    for (int i = 0; i < SPAN_RING_SLOTS + 5; i++)
        span_end(span_begin(name));
    uint64_t dropped = 0;
    CHECK_INT(span_drain(drained, 100, &dropped), 100); // room for these again
    CHECK_INT(dropped, 5);
    for (int i = 0; i < 101; i++)
        span_end(span_begin(name));
    CHECK_INT(span_drain(drained, sizeof drained / sizeof *drained, &dropped), SPAN_RING_SLOTS);
    CHECK_INT(dropped, 1);
}

static uint32_t thread_name;
// All of a round fit into one ring: threads that run one after the other share it.
enum { THREADS = 4, PER_THREAD = SPAN_RING_SLOTS / 4 };

static void *record(void *context)
{
    (void)context;
    for (int i = 0; i < PER_THREAD; i++)
        span_end(span_begin(thread_name));
    return NULL;
}

TEST(base_span_threads_while_draining)
{
    thread_name = span_register("work");
    size_t got = 0;
    uint64_t lost = 0, dropped;
    // More rounds than there are rings: those of ended threads are taken over.
    int rounds = SPAN_MAX_THREADS / THREADS * 2;
    for (int round = 0; round < rounds; round++) {
        pthread_t t[THREADS];
        for (int i = 0; i < THREADS; i++)
            pthread_create(&t[i], NULL, record, NULL);
        got += span_drain(drained, sizeof drained / sizeof *drained, &dropped);
        lost += dropped;
        for (int i = 0; i < THREADS; i++)
            pthread_join(t[i], NULL);
        size_t n;
        while ((n = span_drain(drained, sizeof drained / sizeof *drained, &dropped)) || dropped) {
            for (size_t i = 0; i < n; i++)
                CHECK(drained[i].start_ns <= drained[i].end_ns && drained[i].name == thread_name);
            got += n;
            lost += dropped;
        }
    }
    CHECK_INT(got + lost, (size_t)rounds * THREADS * PER_THREAD);
    CHECK_INT(lost, 0);
}
