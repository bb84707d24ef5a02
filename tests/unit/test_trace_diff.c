// SPDX-License-Identifier: Apache-2.0
#include "trace/diff.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/pbwire.h"
#include "made_trace.h"
#include "test.h"

// `n` executions with one operation each, alternating `step_ps` and a hundredth more.
static void write_profile(const char *path, int n, int64_t step_ps, const char *operation)
{
    struct str s;
    struct error e = {0};
    str_init(&s);
    size_t plane = pb_begin(&s, 1);
    pb_put_string(&s, 2, "/device:TPU:0");
    for (int line = 0; line < 2; line++) {
        size_t at = pb_begin(&s, 3);
        pb_put_int(&s, 1, 2 + line);
        pb_put_string(&s, 2, line ? "XLA Ops" : "XLA Modules");
        for (int i = 0; i < n; i++) {
            size_t event = pb_begin(&s, 4);
            pb_put_int(&s, 1, 1 + line);
            pb_put_int(&s, 2, 2 * step_ps * i);
            pb_put_int(&s, 3, step_ps + i % 2 * step_ps / 100);
            pb_end(&s, event);
        }
        pb_end(&s, at);
    }
    made_row(&s, 4, 1, "jit_f(1)");
    made_row(&s, 4, 2, operation);
    pb_end(&s, plane);
    REQUIRE_OK(file_write(path, s.text, s.length, &e), &e);
    str_release(&s);
}

struct compared {
    struct trace a, b;
    struct arena arena;
    struct trace_diff d;
};

static void compare(struct compared *c, double tolerance)
{
    const char *a = "diff-a.xplane.pb", *b = "diff-b.xplane.pb";
    struct error e = {0};
    arena_init(&c->arena);
    REQUIRE_OK(trace_open(&c->a, &a, 1, &e), &e);
    REQUIRE_OK(trace_open(&c->b, &b, 1, &e), &e);
    REQUIRE_OK(trace_diff(&c->a, &c->b, TRACE_BY_OP, tolerance, NULL, &c->arena, &c->d, &e), &e);
    remove(a);
    remove(b);
}

static void done(struct compared *c)
{
    trace_close(&c->a);
    trace_close(&c->b);
    arena_release(&c->arena);
}

TEST(trace_diff_slower)
{
    struct compared c;
    write_profile("diff-a.xplane.pb", 10, 1000000, "add");
    write_profile("diff-b.xplane.pb", 20, 1100000, "add");
    compare(&c, 0.02);
    CHECK_INT(c.d.verdict, TRACE_DIFF_SLOWER);
    CHECK(fabs(c.d.slower - 0.1) < 1e-12); // means of the same pattern
    CHECK(c.d.range.low > 0.02 && c.d.range.low < 0.1 && c.d.range.high > 0.1);
    CHECK(fabs(c.d.scale - 0.5) < 1e-15);
    REQUIRE(c.d.n_rows == 1 && c.d.n_programs == 1);
    CHECK_INT(c.d.rows[0].a.count, 10);
    CHECK_INT(c.d.rows[0].b.count, 20);
    CHECK(fabs(c.d.rows[0].change_ps - 0.1 * (double)c.d.rows[0].a.sum_ps) < 1);
    done(&c);
    // The tolerance lies inside the interval, and above it.
    write_profile("diff-a.xplane.pb", 10, 1000000, "add");
    write_profile("diff-b.xplane.pb", 20, 1100000, "add");
    compare(&c, 0.1);
    CHECK_INT(c.d.verdict, TRACE_DIFF_UNCLEAR);
    done(&c);
    write_profile("diff-a.xplane.pb", 10, 1000000, "add");
    write_profile("diff-b.xplane.pb", 20, 1100000, "add");
    compare(&c, 0.2);
    CHECK_INT(c.d.verdict, TRACE_DIFF_NOT_SLOWER);
    done(&c);
}

TEST(trace_diff_appeared)
{
    struct compared c;
    write_profile("diff-a.xplane.pb", 1, 1000000, "old");
    write_profile("diff-b.xplane.pb", 1, 3000000, "new");
    compare(&c, 0.02);
    CHECK_INT(c.d.verdict, TRACE_DIFF_UNCLEAR); // one execution may be anything
    CHECK(isnan(c.d.range.low));
    REQUIRE(c.d.n_rows == 2);
    CHECK(slice_is(c.d.rows[0].name, "new") && !c.d.rows[0].a.count && c.d.rows[0].b.count == 1);
    CHECK(slice_is(c.d.rows[1].name, "old") && !c.d.rows[1].b.count && isnan(c.d.rows[1].mean_change_ps));
    done(&c);
}

// The interval against scipy, stats.ttest_ind(equal_var=False).confidence_interval(): see tests/oracle/welch.py.
TEST(trace_diff_means)
{
    static const struct {
        struct diff_side a, b;
        double low, high;
    } cases[] = {
#include "welch.inc"
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct diff_interval r = diff_means(&cases[i].a, &cases[i].b);
        double width = cases[i].high - cases[i].low;
        CHECK(fabs(r.low - cases[i].low) < 0.02 * width); // the expansion of t is within 1 % from three degrees on
        CHECK(fabs(r.high - cases[i].high) < 0.02 * width);
    }
}
