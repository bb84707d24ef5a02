// SPDX-License-Identifier: Apache-2.0
#include "trace/source.h"

#include <string.h>

#include "made_trace.h"
#include "test.h"

static void operation(struct made *m, const char *name, int64_t at, int64_t ps, const char *scope, const char *stack)
{
    made_event(m, name, at, ps);
    made_text(m, "tf_op", scope);
    made_text(m, "source_stack", stack);
}

static void check(const struct trace_source *s, size_t at, const char *name, size_t depth, int64_t own, int64_t total)
{
    REQUIRE(at < s->n_nodes);
    const struct trace_source_node *n = &s->nodes[at];
    CHECK(slice_is(n->name, name));
    CHECK_INT(n->depth, depth);
    CHECK_INT(n->self_ps, own);
    CHECK_INT(n->total_ps, total);
    if (depth)
        CHECK_INT(s->nodes[n->parent - 1].depth, depth - 1);
}

TEST(trace_source_trees)
{
    struct made m;
    made_begin(&m);
    made_plane(&m, "/device:TPU:0");
    made_line(&m, "XLA Ops", 0);
    operation(&m, "a", 0, 10, "jit(f)/mlp/dot:", "main.py:1:3\nf.py:5:1\n");
    operation(&m, "b", 10, 20, "jit(f)/attention/transpose(x/y)", "main.py:1:9\ng.py:7:1\n");
    operation(&m, "c", 30, 40, "jit(f)/mlp", "main.py:1:30\nf.py:5:8\nf.py:5:9\n");
    made_event(&m, "d", 70, 5);
    const char *path = made_end(&m, "source");
    struct trace t;
    struct trace_ops o;
    struct trace_source s;
    struct arena arena;
    struct error e = {0};
    arena_init(&arena);
    REQUIRE_OK(trace_open(&t, &path, 1, &e), &e);
    REQUIRE_OK(trace_ops(&t, NULL, &o, &e), &e);
    REQUIRE_OK(trace_source(&o, TRACE_TRACK_SOURCE, &arena, &s, &e), &e);
    REQUIRE(s.n_nodes == 4);
    check(&s, 0, "main.py:1", 0, 0, 70); // three columns of one line
    check(&s, 1, "f.py:5", 1, 50, 50);
    check(&s, 2, "g.py:7", 1, 20, 20);
    check(&s, 3, "", 0, 5, 5);
    REQUIRE_OK(trace_source(&o, TRACE_TRACK_SCOPE, &arena, &s, &e), &e);
    REQUIRE(s.n_nodes == 6);
    check(&s, 0, "jit(f)", 0, 0, 70);
    check(&s, 1, "mlp", 1, 40, 50);
    check(&s, 2, "dot", 2, 10, 10);
    check(&s, 3, "attention", 1, 0, 20);
    check(&s, 4, "transpose(x/y)", 2, 20, 20);
    check(&s, 5, "", 0, 5, 5);
    trace_ops_release(&o);
    trace_close(&t);
    arena_release(&arena);
}

// In both trees of every recorded profile, nothing is lost and nothing counted twice.
TEST(trace_source_of_recorded_profiles)
{
    static const char *const names[] = {"gpu-mi300x-jax-gemm.xplane.pb", "gpu-mi300x-jax-conv.xplane.pb.gz",
                                        "gpu-gtx1080ti-2x.xplane.pb", "tpu-v6e-4chip-inference.xplane.pb.gz"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char file[1024];
        const char *path = file;
        struct trace t;
        struct trace_ops o;
        struct error e = {0};
        snprintf(file, sizeof file, "%s/tests/fixtures/traces/%s", test_top(), names[i]);
        REQUIRE_OK(trace_open(&t, &path, 1, &e), &e);
        REQUIRE_OK(trace_ops(&t, NULL, &o, &e), &e);
        for (enum trace_track track = TRACE_TRACK_SOURCE; track <= TRACE_TRACK_SCOPE; track++) {
            struct trace_source s;
            struct arena arena;
            int64_t roots = 0, own = 0;
            arena_init(&arena);
            REQUIRE_OK(trace_source(&o, track, &arena, &s, &e), &e);
            for (size_t k = 0; k < s.n_nodes; k++) {
                own += s.nodes[k].self_ps;
                roots += s.nodes[k].depth ? 0 : s.nodes[k].total_ps;
            }
            CHECK_INT(own, o.self_ps);
            CHECK_INT(roots, o.self_ps);
            CHECK(s.n_nodes > 1 || i == 2); // the third one names neither lines nor scopes
            arena_release(&arena);
        }
        trace_ops_release(&o);
        trace_close(&t);
    }
}
