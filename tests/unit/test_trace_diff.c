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
    struct trace_diff_options o = {.by = {.by = TRACE_BY_OP}, .tolerance = tolerance};
    struct error e = {0};
    arena_init(&c->arena);
    REQUIRE_OK(trace_open(&c->a, &a, 1, &e), &e);
    REQUIRE_OK(trace_open(&c->b, &b, 1, &e), &e);
    REQUIRE_OK(trace_diff(&c->a, &c->b, &o, NULL, &c->arena, &c->d, &e), &e);
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

// Steps of a device's own line with numbers from `first` on, of the durations given; a device is busy for `busy_ps` of
// each and the rest is idle. One more step ends them. Devices start 1 ps apart.
static void write_steps(const char *name, int64_t first, const int64_t *durations, int n, int64_t busy_ps, int devices)
{
    static const char *const numbers[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"};
    struct made m;
    made_begin(&m);
    for (int d = 0; d < devices; d++) {
        made_plane(&m, d ? "/device:TPU:1" : "/device:TPU:0");
        made_line(&m, "Steps", 0);
        int64_t at = d;
        for (int i = 0; i <= n; at += i < n ? durations[i] : 0, i++)
            made_event(&m, numbers[first + i], at, 500);
        made_line(&m, "XLA Ops", 0);
        at = d;
        for (int i = 0; i < n; at += durations[i], i++)
            made_event(&m, "%add = ...", at + 100, busy_ps);
    }
    struct error e = {0};
    struct file_map file;
    REQUIRE_OK(file_map_open(&file, made_end(&m, "steps"), &e), &e);
    REQUIRE_OK(file_write(name, file.data, file.size, &e), &e);
    file_map_close(&file);
}

TEST(trace_diff_steps)
{
    struct compared c;
    static const int64_t a[] = {1000, 1000, 1000, 1000}, b[] = {1001, 1002, 1003, 1002};
    static const struct {
        double tolerance;
        enum trace_diff_verdict verdict;
    } cases[] = {{0.0001, TRACE_DIFF_SLOWER}, {0.002, TRACE_DIFF_UNCLEAR}, {0.01, TRACE_DIFF_NOT_SLOWER}};
    double ranges[2] = {0};
    for (int devices = 1; devices <= 2; devices++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            write_steps("diff-a.xplane.pb", 5, a, 4, 400, devices);
            write_steps("diff-b.xplane.pb", 6, b, 4, 410, devices);
            compare(&c, cases[i].tolerance);
            const struct diff_steps *d = &c.d.steps;
            const struct diff_device *x = &d->devices[devices - 1];
            CHECK_INT(d->verdict, cases[i].verdict);
            CHECK(d->comparable && d->a.rule == RULE_LINE && c.d.verdict == TRACE_DIFF_UNCLEAR); // no program ran
            REQUIRE(d->n_devices == (size_t)devices);
            // 5 to 8 in A and 6 to 9 in B have a length; what has none is left out.
            CHECK(d->n_matched == 3u * (unsigned)devices && d->only_a == (size_t)devices && d->only_b == d->only_a);
            CHECK(x->a[DIFF_DURATION].count == 4 && x->b[DIFF_DURATION].sum_ps == 1001 + 1002 + 1003 + 1002);
            CHECK(x->a[DIFF_BUSY].sum_ps == 4 * 400 && x->b[DIFF_BUSY].sum_ps == 4 * 410);
            CHECK(x->b[DIFF_IDLE].sum_ps == 1001 + 1002 + 1003 + 1002 - 4 * 410);
            CHECK(diff_spread(&x->a[DIFF_DURATION]) == 0);
            CHECK(fabs(diff_spread(&x->b[DIFF_DURATION]) - sqrt(2.0 / 3)) < 1e-6);
            CHECK(fabs(d->slower - 0.002) < 1e-12);
            ranges[devices - 1] = d->range.high - d->range.low;
            // Differences of 1, 2 and 3: a mean of 2, a spread of 1, and t = 4.3027 for two degrees of freedom.
            struct diff_interval r = diff_mean_range(&x->matched);
            CHECK(x->matched.count == 3 && fabs(r.low - (2 - 4.302652730 / sqrt(3))) < 1e-6);
            CHECK(fabs(d->matched_slower - 0.002) < 1e-12 && fabs(d->matched_range.high - r.high / 1000) < 1e-9);
            // 8 moved most, then 7 and 6; what only one has comes last.
            CHECK(d->steps[0].index == 8 && diff_step_change_ps(&d->steps[0]) == 3);
            CHECK(d->steps[0].a_ps[DIFF_DURATION] == 1000 && d->steps[0].b_ps[DIFF_BUSY] == 410);
            CHECK(d->steps[3 * devices - 1].index == 6 && isnan(diff_step_change_ps(&d->steps[3 * devices])));
            CHECK(d->steps[d->n_steps - 1].index == 9 && !d->steps[d->n_steps - 1].in_a);
            done(&c);
        }
    }
    // Devices that take their steps together are no more certain than one.
    CHECK(ranges[0] > 0 && fabs(ranges[1] - ranges[0]) < 1e-12);
}

TEST(trace_diff_steps_of_one_number)
{
    struct compared c;
    // Of one number the first go together, and so on: B's third is alone.
    static const int64_t one[] = {1000}, two[] = {1100};
    write_steps("diff-a.xplane.pb", 3, one, 1, 10, 1);
    write_steps("diff-b.xplane.pb", 3, two, 1, 10, 1);
    compare(&c, 0.02);
    CHECK(c.d.steps.n_matched == 1 && fabs(c.d.steps.slower - 0.1) < 1e-12);
    CHECK(isnan(c.d.steps.range.low) && c.d.steps.verdict == TRACE_DIFF_UNCLEAR); // one may be anything
    done(&c);
    for (int k = 0; k < 2; k++) {
        struct made m;
        struct error e = {0};
        struct file_map file;
        made_begin(&m);
        made_plane(&m, "/device:TPU:0");
        made_line(&m, "Steps", 0);
        for (int i = 0; i < 3 + k; i++)
            made_event(&m, "7", 100 * i * (1 + k), 50);
        made_line(&m, "XLA Ops", 0);
        made_event(&m, "%a", 10, 5);
        REQUIRE_OK(file_map_open(&file, made_end(&m, "same"), &e), &e);
        REQUIRE_OK(file_write(k ? "diff-b.xplane.pb" : "diff-a.xplane.pb", file.data, file.size, &e), &e);
        file_map_close(&file);
    }
    compare(&c, 0.02);
    CHECK(c.d.steps.n_matched == 2 && c.d.steps.only_b == 1 && c.d.steps.only_a == 0);
    CHECK(c.d.steps.devices[0].matched.sum_ps == 200 && c.d.steps.verdict == TRACE_DIFF_SLOWER);
    done(&c);
}

TEST(trace_diff_steps_that_are_not_the_same)
{
    struct compared c;
    static const int64_t durations[] = {1000, 1000, 1000};
    write_profile("diff-a.xplane.pb", 10, 1000000, "add");
    write_steps("diff-b.xplane.pb", 0, durations, 3, 10, 1);
    compare(&c, 0.02);
    CHECK(c.d.steps.a.rule == RULE_REPEATED && slice_is(c.d.steps.a.program, "jit_f"));
    CHECK(!c.d.steps.comparable && c.d.steps.verdict == TRACE_DIFF_UNCLEAR);
    done(&c);
    // From start to start: twice the execution, in both.
    write_profile("diff-a.xplane.pb", 10, 1000000, "add");
    write_profile("diff-b.xplane.pb", 20, 1100000, "add");
    compare(&c, 0.02);
    CHECK(c.d.steps.comparable && c.d.steps.devices[0].a[DIFF_DURATION].sum_ps == 9 * 2000000);
    CHECK(fabs(c.d.steps.slower - 0.1) < 1e-12 && c.d.steps.verdict == TRACE_DIFF_SLOWER);
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
