// SPDX-License-Identifier: Apache-2.0
#include "trace/nest.h"

#include <stdlib.h>

#include "test.h"

struct closed {
    int64_t self[64], total[64];
    int times[64];
    int64_t sum;
};

static void close_one(void *context, uint32_t key, int64_t self_ps, int64_t total_ps)
{
    struct closed *c = context;
    c->self[key % 64] += self_ps;
    c->total[key % 64] += total_ps;
    c->times[key % 64]++;
    c->sum += self_ps;
}

static bool add(struct nest *n, int64_t start, int64_t end, uint32_t key)
{
    struct error e = {0};
    int rc = 0;
    return nest_add(n, start, end, key, &rc, &e) && !rc;
}

TEST(trace_nest_self_times)
{
    struct closed c = {0};
    struct nest n;
    nest_init(&n, close_one, &c);
    CHECK(add(&n, -10, 90, 0)); // a while
    CHECK(add(&n, -10, 20, 1)); // its body twice, the first beginning with it
    CHECK(add(&n, 0, 5, 2));    // within the body
    CHECK(add(&n, 5, 5, 3));    // no length
    CHECK(add(&n, 30, 60, 1));
    CHECK(add(&n, 100, 110, 4));
    nest_finish(&n);
    CHECK_INT(c.self[0], 100 - 30 - 30);
    CHECK_INT(c.total[0], 100);
    CHECK_INT(c.self[1], 60 - 5);
    CHECK_INT(c.times[1], 2);
    CHECK_INT(c.self[2], 5);
    CHECK(c.times[3] == 1 && c.self[3] == 0);
    CHECK_INT(c.self[4], 10);
    CHECK_INT(n.union_ps, 110);
    CHECK_INT(c.sum, 110);
    CHECK_INT(n.overlaps, 0);
    nest_release(&n);
}

// The common part belongs to the later one, also where it lies in what is around both.
TEST(trace_nest_overlaps)
{
    struct closed c = {0};
    struct nest n;
    nest_init(&n, close_one, &c);
    CHECK(add(&n, 0, 100, 0));
    CHECK(add(&n, 10, 20, 1));
    CHECK(add(&n, 15, 30, 2));
    CHECK(add(&n, 16, 18, 3));
    CHECK(add(&n, 25, 130, 4)); // past everything
    nest_finish(&n);
    CHECK_INT(c.self[1], 5);
    CHECK_INT(c.self[2], 15 - 2 - 5);
    CHECK_INT(c.self[3], 2);
    CHECK_INT(c.self[4], 105);
    CHECK_INT(c.self[0], 100 - 5 - 15 - 70);
    CHECK_INT(n.union_ps, 130);
    CHECK_INT(c.sum, 130);
    CHECK_INT(n.overlaps, 2);
    nest_release(&n);
}

TEST(trace_nest_wants_order)
{
    struct closed c = {0};
    struct nest n;
    nest_init(&n, close_one, &c);
    CHECK(add(&n, 5, 9, 0));
    CHECK(!add(&n, 4, 9, 1));
    CHECK(!add(&n, 5, 10, 1)); // longer than the one it starts with
    CHECK(add(&n, 5, 9, 1));
    nest_finish(&n);
    CHECK_INT(c.self[0], 0); // of two equal ones the second has the time
    CHECK_INT(c.self[1], 4);
    nest_release(&n);
}

struct span {
    int64_t start, end;
};

static int by_start(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (x->end < y->end) - (x->end > y->end);
}

// Against the definition: every instant belongs to the one that started last (the last in the order) of those running.
TEST(trace_nest_equals_the_definition)
{
    uint64_t state = 1;
    for (int round = 0; round < 300; round++) {
        struct span s[40];
        size_t count = 1 + (size_t)round % 40;
        for (size_t i = 0; i < count; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            s[i].start = (int64_t)(state >> 33) % 100;
            s[i].end = s[i].start + (int64_t)(state >> 50) % (round % 3 ? 60 : 15);
        }
        qsort(s, count, sizeof *s, by_start);
        int64_t self[40] = {0}, busy = 0;
        for (int64_t t = 0; t < 200; t++) {
            size_t owner = count;
            for (size_t i = 0; i < count; i++) {
                if (s[i].start <= t && t < s[i].end)
                    owner = i;
            }
            if (owner < count) {
                self[owner]++;
                busy++;
            }
        }
        struct closed c = {0};
        struct nest n;
        nest_init(&n, close_one, &c);
        for (size_t i = 0; i < count; i++)
            CHECK(add(&n, s[i].start, s[i].end, (uint32_t)i));
        nest_finish(&n);
        CHECK_INT(n.union_ps, busy);
        for (size_t i = 0; i < count; i++)
            CHECK_INT(c.self[i], self[i]);
        nest_release(&n);
    }
}

// Overlapping like the scales of a fish a hundred thousand deep: quadratic time would not end.
TEST(trace_nest_deep)
{
    struct closed c = {0};
    struct nest n;
    nest_init(&n, close_one, &c);
    for (int64_t i = 0; i < 300000; i++)
        CHECK(add(&n, i, 300000 + i, 7));
    CHECK(add(&n, 300000, 900000, 7));
    nest_finish(&n);
    CHECK_INT(c.sum, 900000);
    CHECK_INT(n.union_ps, 900000);
    nest_release(&n);
}
