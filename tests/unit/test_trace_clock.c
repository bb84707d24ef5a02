// SPDX-License-Identifier: Apache-2.0
#include "trace/clock.h"

#include <stdio.h>

#include "base/file.h"
#include "base/pbwire.h"
#include "made_trace.h"
#include "test.h"

// A host on which ten all-reduces end every ms, first at first_ps of its clock; start_ns 0: it does not say.
static void write_host(const char *path, uint64_t start_ns, int64_t first_ps, const char *operation)
{
    struct str s;
    struct error e = {0};
    str_init(&s);
    size_t plane = pb_begin(&s, 1);
    pb_put_string(&s, 2, "/device:TPU:0");
    size_t line = pb_begin(&s, 3);
    pb_put_string(&s, 2, "XLA Ops");
    for (int i = 0; i < 10; i++) {
        size_t event = pb_begin(&s, 4);
        pb_put_int(&s, 1, 1);
        pb_put_int(&s, 2, first_ps + i * 1000000000ll - 5000);
        pb_put_int(&s, 3, 5000);
        pb_end(&s, event);
    }
    pb_end(&s, line);
    made_row(&s, 4, 1, operation);
    pb_end(&s, plane);
    plane = pb_begin(&s, 1);
    pb_put_string(&s, 2, "Task Environment");
    made_row(&s, 5, 1, "profile_start_time");
    if (start_ns) {
        size_t stat = pb_begin(&s, 6);
        pb_put_int(&s, 1, 1);
        pb_put_uint(&s, 3, start_ns);
        pb_end(&s, stat);
    }
    pb_end(&s, plane);
    REQUIRE_OK(file_write(path, s.text, s.length, &e), &e);
    str_release(&s);
}

#define START 1700000000000000000

// The second host started 2 ms later; by its own clock its collectives end `late_ps` after the first one's.
static void check_second(uint64_t start_ns, int64_t late_ps, const char *operation, enum trace_epoch_source source,
                         int64_t shift_ps)
{
    static const char *const paths[] = {"clock-a.xplane.pb", "clock-b.xplane.pb"};
    struct trace t;
    struct trace_epoch *epochs;
    struct error e = {0};
    write_host(paths[0], START, 5000000000, "all-reduce.1");
    write_host(paths[1], start_ns, 3000000000 + late_ps, operation);
    REQUIRE_OK(trace_open(&t, paths, 2, &e), &e);
    REQUIRE_OK(trace_epochs(&t, &epochs, &e), &e);
    CHECK_INT(epochs[0].shift_ps, 0);
    CHECK_INT(epochs[1].source, source);
    CHECK_INT(epochs[1].shift_ps, shift_ps);
    CHECK_INT(epochs[1].matched, source == TRACE_EPOCH_COLLECTIVES ? 10 : 0);
    trace_close(&t);
    remove(paths[0]);
    remove(paths[1]);
}

TEST(trace_clock_collectives_correct_start_times)
{
    check_second(START + 2000000, 70000000, "all-reduce.1", TRACE_EPOCH_COLLECTIVES, 2000000000 - 70000000);
    check_second(START + 2000000, -70000000, "all-reduce.1", TRACE_EPOCH_COLLECTIVES, 2000000000 + 70000000);
}

TEST(trace_clock_start_times_alone)
{
    check_second(START + 2000000, 70000000, "all-reduce.2", TRACE_EPOCH_STARTS, 2000000000);       // another one
    check_second(START + 2000000, 70000000, "all-reduce-start.1", TRACE_EPOCH_STARTS, 2000000000); // ends when issued
    check_second(START + 2000000, 400000000, "all-reduce.1", TRACE_EPOCH_STARTS, 2000000000);      // which is which?
}

TEST(trace_clock_own)
{
    check_second(0, 0, "all-reduce.1", TRACE_EPOCH_OWN, 0);
}
