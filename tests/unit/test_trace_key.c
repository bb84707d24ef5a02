// SPDX-License-Identifier: Apache-2.0
// What rows of operations are added up by.
#include <string.h>

#include "made_trace.h"
#include "test.h"
#include "trace/ops_view.h"

TEST(trace_key_of_a_word)
{
    static const char *const wrong[] = {"",         "kernel",   "scope:", "scope:0",
                                        "scope:-1", "scope:1x", "stat:",  "scope:99999999999999999999"};
    struct trace_key k;
    struct error e = {0};
    REQUIRE_OK(trace_key_parse(&k, "op", &e), &e);
    CHECK(k.by == TRACE_BY_OP && !k.stat && !k.level);
    REQUIRE_OK(trace_key_parse(&k, "source", &e), &e);
    CHECK(k.by == TRACE_BY_SOURCE);
    REQUIRE_OK(trace_key_parse(&k, "scope:3", &e), &e);
    CHECK(k.by == TRACE_BY_SCOPE && k.level == 3);
    REQUIRE_OK(trace_key_parse(&k, "stat:hlo_category", &e), &e);
    CHECK(k.by == TRACE_BY_STAT);
    CHECK_STR(k.stat, "hlo_category");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_INT(trace_key_parse(&k, wrong[i], &e), ERR_USAGE);
}

struct grouped {
    struct trace t;
    struct trace_ops o;
    struct arena arena;
    struct trace_op *rows;
    size_t n;
};

static void group(struct grouped *g, struct made *m, const char *key)
{
    const char *path = made_end(m, "key");
    struct trace_key k;
    struct error e = {0};
    arena_init(&g->arena);
    REQUIRE_OK(trace_key_parse(&k, key, &e), &e);
    REQUIRE_OK(trace_open(&g->t, &path, 1, &e), &e);
    REQUIRE_OK(trace_ops_by_stat(&g->t, NULL, k.stat, &g->o, &e), &e);
    REQUIRE_OK(trace_ops_group(&g->o, &k, &g->arena, &g->rows, &g->n, &e), &e);
}

static void release(struct grouped *g)
{
    trace_ops_release(&g->o);
    trace_close(&g->t);
    arena_release(&g->arena);
}

static const struct trace_op *row(const struct grouped *g, const char *name)
{
    for (size_t i = 0; i < g->n; i++) {
        if (slice_is(g->rows[i].name, name))
            return &g->rows[i];
    }
    return NULL;
}

static void check(const struct grouped *g, const char *name, uint64_t occurrences, uint64_t executions, int64_t self_ps)
{
    const struct trace_op *r = row(g, name);
    REQUIRE(r);
    CHECK_INT(r->occurrences, occurrences);
    CHECK_INT(r->executions, executions);
    CHECK_INT(r->self_ps, self_ps);
}

static void kernel(struct made *m, const char *name, int64_t at, int64_t ps, const char *op, int64_t step)
{
    made_event(m, name, at, ps);
    made_text(m, "hlo_op", op);
    made_number(m, "program_id", 1);
    made_number(m, "group_id", step);
}

// Each step runs "dot", two kernels, and "add", one; a copy has no step.
static void begin_steps(struct made *m)
{
    made_begin(m);
    made_plane(m, "/device:GPU:0");
    made_line(m, "Stream #1(Compute)", 0);
    for (int64_t step = 0; step < 3; step++) {
        kernel(m, "gemm", 100 * step, 10 + step, "dot", step);
        kernel(m, "split", 100 * step + 20, 5, "dot", step);
        kernel(m, "add_kernel", 100 * step + 30, 1, "add", step);
    }
    made_event(m, "Memcpy", 400, 7);
}

TEST(trace_key_value_of_events)
{
    struct made m;
    struct grouped g;
    begin_steps(&m);
    group(&g, &m, "stat:group_id");
    CHECK_INT(g.n, 4);
    check(&g, "0", 3, 2, 16); // one of each operation
    check(&g, "1", 3, 2, 17);
    check(&g, "2", 3, 2, 18);
    check(&g, "", 1, 1, 7);
    release(&g);
}

// A value that differs from kernel to kernel: the executions of "dot" are three, not six.
TEST(trace_key_value_of_kernels)
{
    struct made m;
    struct grouped g;
    begin_steps(&m);
    group(&g, &m, "stat:long_name");
    CHECK_INT(g.n, 4);
    check(&g, "gemm", 3, 3, 33);
    check(&g, "split", 3, 0, 15);
    check(&g, "add_kernel", 3, 3, 3);
    release(&g);
}

TEST(trace_key_levels_of_scopes)
{
    static const char *const scopes[] = {"jit(f)/mlp/dot:", "jit(f)/mlp/transpose(a/b)/add", "jit(f)", "g"};
    struct made m;
    struct grouped g;
    for (int level = 1; level <= 3; level++) {
        char key[16];
        snprintf(key, sizeof key, "scope:%d", level);
        made_begin(&m);
        made_plane(&m, "/device:TPU:0");
        made_line(&m, "XLA Ops", 0);
        for (int i = 0; i < 4; i++) {
            made_event(&m, (const char *const[]){"a", "b", "c", "d"}[i], 100 * i, 1 << i);
            made_text(&m, "tf_op", scopes[i]);
        }
        group(&g, &m, key);
        check(&g, "g", 1, 1, 8);
        if (level == 1) {
            check(&g, "jit(f)", 3, 3, 7);
        } else {
            check(&g, "jit(f)", 1, 1, 4);
            check(&g, level == 2 ? "jit(f)/mlp" : "jit(f)/mlp/transpose(a/b)", level == 2 ? 2 : 1, level == 2 ? 2 : 1,
                  level == 2 ? 3 : 2);
        }
        if (level == 3)
            check(&g, "jit(f)/mlp/dot", 1, 1, 1);
        release(&g);
    }
}
