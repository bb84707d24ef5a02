// SPDX-License-Identifier: Apache-2.0
#include "trace/collectives.h"

#include <string.h>

#include "made_trace.h"
#include "test.h"
#include "trace/collectives_hlo.h"

static int run(struct trace *t, struct trace_collectives *c, bool copies, const char *path, struct error *err)
{
    *err = (struct error){0};
    int rc = trace_open(t, &path, 1, err);
    if (rc)
        memset(c, 0, sizeof *c);
    return rc ? rc : trace_collectives(t, copies, c, err);
}

static void done(struct trace *t, struct trace_collectives *c)
{
    trace_collectives_release(c);
    trace_close(t);
}

static const struct trace_collective *find(const struct trace_collectives *c, const char *name)
{
    for (size_t i = 0; i < c->n_rows; i++) {
        if (slice_is(c->rows[i].name, name))
            return &c->rows[i];
    }
    return NULL;
}

TEST(trace_collectives_of_names)
{
    static const struct {
        const char *name, *kind;
        enum collective_part part;
    } names[] = {{"all-reduce.3", "all-reduce", COLLECTIVE_WHOLE},
                 {"all-reduce", "all-reduce", COLLECTIVE_WHOLE},
                 {"all-gather-start.1", "all-gather", COLLECTIVE_START},
                 {"collective-permute-done", "collective-permute", COLLECTIVE_DONE},
                 {"all-reduce-scatter.2", "reduce-scatter", COLLECTIVE_WHOLE},
                 {"send.1", "send", COLLECTIVE_START},
                 {"recv-done.1", "recv", COLLECTIVE_DONE},
                 {"copy-start.4", "copy", COLLECTIVE_START},
                 {"copy.4", NULL, COLLECTIVE_NONE},
                 {"copy_fusion", NULL, COLLECTIVE_NONE},
                 {"sender", NULL, COLLECTIVE_NONE},
                 {"fusion.1", NULL, COLLECTIVE_NONE},
                 {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", "all-reduce", COLLECTIVE_WHOLE}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *kind = NULL;
        struct slice s = {(const uint8_t *)names[i].name, strlen(names[i].name)};
        CHECK_INT(collective_of_name(s, &kind), names[i].part);
        CHECK_STR(kind ? kind : "none", names[i].kind ? names[i].kind : "none");
    }
}

// Two devices. The second comes 30 later to the first all-reduce, and 10 earlier to the second one.
TEST(trace_collectives_wait_and_transfer)
{
    struct made m;
    made_begin(&m);
    made_plane(&m, "/device:TPU:0");
    made_line(&m, "XLA Ops", 0);
    made_event(&m, "fusion.1", 0, 100);
    made_event(&m, "all-reduce.1", 100, 50); // waits 30
    made_event(&m, "fusion.1", 200, 100);
    made_event(&m, "all-reduce.1", 310, 20);
    made_plane(&m, "/device:TPU:1");
    made_line(&m, "XLA Ops", 0);
    made_event(&m, "fusion.1", 0, 130);
    made_event(&m, "all-reduce.1", 130, 20);
    made_event(&m, "fusion.1", 200, 100);
    made_event(&m, "all-reduce.1", 300, 30); // waits 10
    struct trace t;
    struct trace_collectives c;
    struct error e;
    REQUIRE_OK(run(&t, &c, false, made_end(&m, "two"), &e), &e);
    const struct trace_collective *r = find(&c, "all-reduce.1");
    REQUIRE(r && c.n_rows == 1);
    CHECK(r->devices == 2 && r->times.runs == 4 && r->times.matched == 4 && r->bytes == -1 && !r->is_async);
    CHECK_INT(r->times.total_ps, 120);
    CHECK_INT(r->times.wait_ps, 40);
    CHECK_INT(r->times.transfer_ps, 80);
    CHECK_INT(r->times.hidden_ps, 0);
    CHECK(c.devices[0].times.wait_ps == 30 && c.devices[1].times.wait_ps == 10);
    CHECK(c.devices[0].compute_ps == 200 && c.devices[1].compute_ps == 230);
    done(&t, &c);
}

// The capture of the second device began later: its only run belongs to the first device's second one.
TEST(trace_collectives_match_what_overlaps)
{
    struct made m;
    made_begin(&m);
    made_plane(&m, "/device:TPU:0");
    made_line(&m, "XLA Ops", 0);
    made_event(&m, "all-reduce.1", 100, 50);
    made_event(&m, "all-reduce.1", 300, 50);
    made_plane(&m, "/device:TPU:1");
    made_line(&m, "XLA Ops", 0);
    made_event(&m, "all-reduce.1", 320, 30);
    struct trace t;
    struct trace_collectives c;
    struct error e;
    REQUIRE_OK(run(&t, &c, false, made_end(&m, "cut"), &e), &e);
    const struct trace_collective *r = find(&c, "all-reduce.1");
    REQUIRE(r);
    CHECK(r->times.runs == 3 && r->times.matched == 2 && r->times.total_ps == 130);
    CHECK(r->times.wait_ps == 20 && r->times.transfer_ps == 60);
    done(&t, &c);
}

// From start to end, with a loop around all, what a loop runs inside, and an end that has no start.
TEST(trace_collectives_beside_computation)
{
    struct made m;
    made_begin(&m);
    made_plane(&m, "/device:TPU:0");
    made_line(&m, "XLA Ops", 0);
    made_event(&m, "all-gather-done.9", 0, 1);
    made_event(&m, "while.1", 5, 200);
    made_event(&m, "all-gather-start.1", 10, 2);
    made_event(&m, "fusion.1", 12, 30);
    made_event(&m, "fusion.2", 20, 5); // inside the other one
    made_event(&m, "all-gather-done.1", 50, 10);
    struct trace t;
    struct trace_collectives c;
    struct error e;
    REQUIRE_OK(run(&t, &c, false, made_end(&m, "async"), &e), &e);
    const struct trace_collective *r = find(&c, "all-gather-start.1");
    REQUIRE(r && c.n_rows == 1);
    CHECK(r->is_async && r->times.runs == 1 && r->times.matched == 0);
    CHECK(r->times.total_ps == 50 && r->times.hidden_ps == 30);
    CHECK_INT(c.devices[0].compute_ps, 30);
    CHECK_INT(c.unpaired, 1);
    done(&t, &c);
}

TEST(trace_collectives_of_recorded_devices)
{
    struct trace t;
    struct trace_collectives c;
    struct error e;
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/fixtures/traces/tpu-v6e-4chip-inference.xplane.pb.gz", test_top());
    REQUIRE_OK(run(&t, &c, true, path, &e), &e);
    const struct trace_collective *r = find(&c, "all-reduce");
    REQUIRE(r);
    CHECK(r->times.runs == 12 && r->devices == 4 && r->bytes == 4LL * 5 * 1024 * 1024 * 256);
    // [4,2]<=[2,4]T(1,0): every partner is a device of the other host, which is not in the profile.
    CHECK(r->groups == 4 && r->group_size == 2 && r->times.matched == 0);
    // The line of asynchronous transfers, 600 events in 197605761.832850 us, and three all-reduces.
    CHECK_INT(c.devices[0].times.runs, 603);
    int64_t all = c.devices[0].times.total_ps;
    done(&t, &c);
    REQUIRE_OK(run(&t, &c, false, path, &e), &e);
    CHECK(c.n_rows == 1 && c.devices[0].times.runs == 3);
    CHECK_INT(all - c.devices[0].times.total_ps, 197605761832850);
    done(&t, &c);
}
