// SPDX-License-Identifier: Apache-2.0
#include "trace/busy.h"

#include "made_trace.h"
#include "test.h"
#include "trace/modules.h"

static int open_made(struct trace *t, struct trace_devices *d, const char *path, struct error *err)
{
    *err = (struct error){0};
    int rc = trace_open(t, &path, 1, err);
    return rc ? rc : trace_find_devices(t, d, err);
}

TEST(trace_busy_of_lines_together)
{
    struct error e;
    struct trace t;
    struct trace_devices d;
    struct busy b;
    struct made m;
    // Two streams with clocks 5 ns apart, nesting, overlapping, touching, a negative offset, an event without length.
    made_begin(&m);
    made_plane(&m, "/device:GPU:0");
    made_line(&m, "Stream #1", 0);
    made_event(&m, "a", -100, 50); // -100..-50
    made_event(&m, "a", 0, 1000);
    made_event(&m, "b", 200, 300); // inside
    made_event(&m, "a", 1000, 500);
    made_line(&m, "Stream #2", 5);
    made_event(&m, "a", -4000, 100);  // 1000..1100: inside
    made_event(&m, "a", -3600, 1000); // 1400..2400
    made_event(&m, "c", 0, 0);        // 5000
    made_event(&m, "a", 1000, 10);    // 6000..6010
    REQUIRE_OK(open_made(&t, &d, made_end(&m, "streams"), &e), &e);
    REQUIRE(d.n == 1 && d.items[0].n_lines == 2);
    REQUIRE_OK(trace_device_busy(&d.items[0], 0, CLOCK_OF_LINE, &b, &e), &e);
    CHECK(b.first_ps == -100 && b.last_ps == 6010 && b.spans == 8);
    CHECK_INT(b.busy_ps, 50 + 2400 + 10);
    // The merge gives starts in order, the longer of two first, and the gaps are what is left.
    struct trace_spans walk;
    struct trace_span s;
    struct xdamage none = {0};
    int64_t gap, gaps = 0, last = INT64_MIN;
    b = (struct busy){0};
    REQUIRE_OK(trace_spans_begin(&walk, d.items[0].plane, d.items[0].lines, d.items[0].n_lines, 0, CLOCK_OF_LINE, &e),
               &e);
    while (trace_spans_next(&walk, &s)) {
        CHECK(s.start_ps >= last);
        last = s.start_ps;
        if (busy_add(&b, s.start_ps, s.end_ps, &gap))
            gaps += s.start_ps - gap;
    }
    trace_spans_end(&walk, &t.files[0].space, &none);
    CHECK(!none.what && gaps == b.last_ps - b.first_ps - b.busy_ps);
    trace_close(&t);
}

TEST(trace_busy_out_of_order_and_out_of_range)
{
    struct error e;
    struct trace t;
    struct trace_devices d;
    struct trace_spans walk;
    struct trace_span s;
    struct xdamage none = {0};
    struct made m;
    made_begin(&m);
    made_plane(&m, "/device:GPU:0");
    made_line(&m, "Stream #1", 0);
    made_event(&m, "a", 5, -1);
    made_event(&m, "a", INT64_MAX, 1);
    for (int i = 0; i < 500; i++) // backwards: more than the window holds
        made_event(&m, "a", 20 * (500 - i), 10);
    made_event(&m, "a", 0, TALLY_RANGE_PS);
    REQUIRE_OK(open_made(&t, &d, made_end(&m, "backwards"), &e), &e);
    REQUIRE_OK(trace_spans_begin(&walk, d.items[0].plane, d.items[0].lines, 1, 0, CLOCK_OF_LINE, &e), &e);
    size_t n = 0, rounds = 0;
    int rc = 0;
    do {
        int64_t last = -1;
        for (n = 0; trace_spans_next(&walk, &s); n++) {
            CHECK(s.start_ps > last);
            last = s.start_ps;
        }
        rounds++;
    } while (trace_spans_again(&walk, &rc, &e));
    CHECK(rc == 0 && rounds == 2 && n == 501 && walk.out_of_range == 2);
    trace_spans_end(&walk, &t.files[0].space, &none);
    // Asked for beforehand, the first walk is the only one.
    REQUIRE_OK(trace_spans_begin(&walk, d.items[0].plane, d.items[0].lines, 1, 0, CLOCK_OF_LINE, &e), &e);
    REQUIRE_OK(trace_spans_order(&walk, &e), &e);
    for (n = 0; trace_spans_next(&walk, &s);)
        n++;
    CHECK(n == 501 && walk.out_of_range == 2 && !trace_spans_again(&walk, &rc, &e));
    trace_spans_end(&walk, &t.files[0].space, &none);
    trace_close(&t);
}

TEST(trace_busy_a_little_out_of_order_is_read_once)
{
    struct made m;
    made_begin(&m);
    made_plane(&m, "/device:GPU:0");
    made_line(&m, "Stream #1", 0);
    for (int block = 0; block < 20; block++) { // every 50 events backwards
        for (int i = 49; i >= 0; i--)
            made_event(&m, "a", 10 * (50 * block + i), 5);
    }
    made_line(&m, "Stream #2", 0);
    for (int i = 0; i < 1000; i++)
        made_event(&m, "b", 10 * i, 6); // with each of the others, and longer
    struct trace t;
    struct trace_devices d;
    struct error e;
    REQUIRE_OK(open_made(&t, &d, made_end(&m, "blocks"), &e), &e);
    struct trace_spans walk;
    struct trace_span s;
    struct xdamage none = {0};
    REQUIRE_OK(trace_spans_begin(&walk, d.items[0].plane, d.items[0].lines, 2, 0, CLOCK_OF_LINE, &e), &e);
    int n = 0, rc = 0;
    for (; trace_spans_next(&walk, &s); n++)
        CHECK(s.start_ps == n / 2 * 10 && s.line == (n % 2 == 0 ? 1u : 0u));
    CHECK(n == 2000 && !walk.disordered && !trace_spans_again(&walk, &rc, &e));
    trace_spans_end(&walk, &t.files[0].space, &none);
    trace_close(&t);
}

TEST(trace_busy_by_the_clock_of_the_device)
{
    struct error e;
    struct trace t;
    struct trace_devices d;
    struct busy line, device;
    struct made m;
    made_begin(&m);
    made_plane(&m, "/device:TPU:0");
    made_line(&m, "XLA Ops", 0);
    made_event(&m, "a", 100, 50);
    made_number(&m, "device_offset_ps", 1000);
    made_number(&m, "device_duration_ps", 40);
    made_event(&m, "a", 300, 50);
    made_number(&m, "device_offset_ps", 1190); // no duration: none is zero
    REQUIRE_OK(open_made(&t, &d, made_end(&m, "clocks"), &e), &e);
    REQUIRE_OK(trace_device_busy(&d.items[0], 0, CLOCK_OF_LINE, &line, &e), &e);
    REQUIRE_OK(trace_device_busy(&d.items[0], 0, CLOCK_OF_DEVICE, &device, &e), &e);
    CHECK(line.busy_ps == 100 && line.last_ps - line.first_ps == 250);
    CHECK(device.busy_ps == 40 && device.last_ps - device.first_ps == 190);
    trace_close(&t);
}

static void kernel(struct made *m, const char *name, int64_t at, int64_t duration, const char *op, int64_t program)
{
    made_event(m, name, at, duration);
    if (!op)
        return;
    made_text(m, "hlo_op", op);
    made_text(m, "hlo_module", "jit_f");
    made_number(m, "program_id", program);
}

TEST(trace_modules_inferred_from_kernels)
{
    struct error e = {0};
    struct trace t;
    struct trace_modules mods;
    struct made m;
    made_begin(&m);
    made_plane(&m, "/device:GPU:0");
    made_line(&m, "Stream #1", 0);
    // Twice: two kernels of the first operation, then another on a second stream; a copy of no program between.
    for (int64_t at = 0; at < 2000; at += 1000) {
        kernel(&m, "im2col", at, 10, "conv", 7);
        kernel(&m, "gemm", at + 20, 10, "conv", 7);
        kernel(&m, "copy", at + 500, 10, NULL, 0);
        kernel(&m, "other", at + 600, 5, "add", 8); // a program of one operation
    }
    made_line(&m, "Stream #2", 0);
    for (int64_t at = 0; at < 2000; at += 1000)
        kernel(&m, "sum", at + 25, 100, "sum", 7);
    const char *path = made_end(&m, "kernels");
    REQUIRE_OK(trace_open(&t, &path, 1, &e), &e);
    REQUIRE_OK(trace_modules(&t, &mods, &e), &e);
    REQUIRE(mods.devices.n == 1 && mods.of_device[0].n == 4 && mods.n_programs == 2);
    const struct trace_run *r = mods.of_device[0].items;
    CHECK(mods.of_device[0].inferred);
    CHECK(r[0].start_ps == 0 && r[0].end_ps == 125 && mods.programs[r[0].program].id == 7);
    CHECK(r[1].start_ps == 600 && r[1].end_ps == 605 && mods.programs[r[1].program].id == 8);
    CHECK(r[2].start_ps == 1000 && r[2].end_ps == 1125 && r[2].program == r[0].program);
    struct trace_module *rows;
    size_t n;
    REQUIRE_OK(trace_modules_rows(&mods, true, &rows, &n, &e), &e);
    REQUIRE(n == 2);
    CHECK(rows[0].count == 2 && rows[0].total_ps == 250 && rows[0].min_ps == 125 && rows[0].mean_ps == 125);
    CHECK(rows[1].count == 2 && rows[1].total_ps == 10 && rows[1].p90_ps == 5);
    trace_modules_release(&mods);
    trace_close(&t);
}

TEST(trace_modules_of_a_tpu)
{
    struct error e = {0};
    struct trace t;
    struct trace_modules mods;
    char path[1024];
    const char *paths[] = {path};
    snprintf(path, sizeof path, "%s/tests/fixtures/traces/tpu-v6e-4chip-inference.xplane.pb.gz", test_top());
    REQUIRE_OK(trace_open(&t, paths, 1, &e), &e);
    REQUIRE_OK(trace_modules(&t, &mods, &e), &e);
    REQUIRE(mods.devices.n == 4 && mods.n_programs == 4);
    // Counted independently of this reader: 105, 103, 103, 103 executions of 78809571.544558 us and so on.
    static const int64_t sums[] = {78809571544558, 78844068383388, 79123005848842, 78811108152280};
    for (size_t d = 0; d < 4; d++) {
        int64_t sum = 0;
        for (size_t i = 0; i < mods.of_device[d].n; i++)
            sum += mods.of_device[d].items[i].end_ps - mods.of_device[d].items[i].start_ps;
        CHECK_INT(sum, sums[d]);
        CHECK_INT(mods.of_device[d].n, d ? 103 : 105);
    }
    struct trace_module *rows;
    size_t n;
    REQUIRE_OK(trace_modules_rows(&mods, true, &rows, &n, &e), &e);
    CHECK(n == 4 && rows[0].count == 400 && slice_is(mods.programs[rows[0].program].name, "jit_f"));
    CHECK(mods.programs[rows[0].program].id == 12190760917235803885u);
    trace_modules_release(&mods);
    trace_close(&t);
}
