// SPDX-License-Identifier: Apache-2.0
// What traced runs of stages show, from spans and from profiles that are made here or come from a TPU.
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "lab/stages_trace.h"
#include "test.h"
#include "trace/busy.h"
#include "trace/ops.h"
#include "trace/xspace_write.h"

static struct worker_span span(const char *name, double start_ms, double end_ms, uint32_t tid, int32_t of)
{
    struct worker_span s = {
        .start_ns = (uint64_t)(start_ms * 1e6), .end_ns = (uint64_t)(end_ms * 1e6), .tid = tid, .of = of};
    snprintf(s.name, sizeof s.name, "%s", name);
    return s;
}

// Two runs of program 3 around one of program 5. Kernels of a team overlap and count once: from 2 to 6 ms and from 7 to
// 8 ms in the first run, from 21 to 22 ms in the second. One that lies between the runs is of none.
TEST(lab_stages_trace_of_spans)
{
    struct worker_span spans[] = {
        span("kernel: product", 2, 5, 1, -1),  span("run the program", 0, 10, 1, 3),
        span("dispatch", 0, 1, 1, -1),         span("kernel: product", 3, 6, 2, -1),
        span("kernel: product", 7, 8, 1, -1),  span("run the program", 14, 17, 1, 5),
        span("run the program", 20, 24, 1, 3), span("kernel: norm", 21, 22, 2, -1),
        span("kernel: norm", 11, 12, 2, -1),
    };
    struct stages_trace t = {0};
    struct error err = {0};
    struct arena a;
    arena_init(&a);
    REQUIRE_OK(stages_trace_of_spans(NULL, spans, sizeof spans / sizeof *spans, &a, &t, &err), &err);
    CHECK(!t.of_operations);
    CHECK_INT(t.programs, 3);
    CHECK_NEAR(t.busy_ms, 17, 1e-9);
    CHECK_NEAR(t.between_ms, 4 + 3, 1e-9);
    CHECK_NEAR(t.operations_ms, 17, 1e-9);
    REQUIRE(t.n_operations == 4);
    CHECK_STR(t.operations[0].name, "without kernels"); // 14 ms of runs less 5 and 1
    CHECK_NEAR(t.operations[0].ms, 8, 1e-9);
    CHECK_INT(t.operations[0].runs, 2);
    CHECK_STR(t.operations[1].name, "product");
    CHECK_NEAR(t.operations[1].ms, 5, 1e-9);
    CHECK_INT(t.operations[1].runs, 2);
    CHECK_STR(t.operations[2].name, "the program");
    CHECK_NEAR(t.operations[2].ms, 3, 1e-9);
    CHECK_STR(t.operations[3].name, "norm");
    CHECK_NEAR(t.operations[3].ms, 1, 1e-9);

    struct stages_trace none = {0};
    REQUIRE_OK(stages_trace_of_spans(NULL, spans, 0, &a, &none, &err), &err);
    CHECK(isnan(none.busy_ms) && isnan(none.between_ms) && none.n_operations == 0);
    arena_release(&a);
}

// By the median, unless the traced run was shorter; never more than all.
TEST(lab_stages_trace_share)
{
    struct stages_trace t = {.busy_ms = 6, .traced_ms = 20};
    CHECK_NEAR(stages_trace_device_share(&t, 12), 0.5, 1e-12);
    CHECK_NEAR(stages_trace_device_share(&t, 5), 1, 0);
    t.traced_ms = 8;
    CHECK_NEAR(stages_trace_device_share(&t, 12), 0.75, 1e-12);
    t.busy_ms = NAN;
    CHECK(isnan(stages_trace_device_share(&t, 12)));
}

// A host whose operations are programs: "f" twice and ten others once, of which only the longest are kept.
TEST(lab_stages_trace_of_file)
{
    char path[512];
    struct stages_trace t = {0};
    struct error err = {0};
    struct arena a;
    struct str space;
    struct xwrite_program programs[11];
    struct xwrite_event events[12];
    static const char *const names[11] = {"f", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10"};
    arena_init(&a);
    str_init(&space);
    uint64_t at = 1000;
    for (uint64_t i = 0; i < 12; i++) {
        size_t p = i == 11 ? 0 : i;
        uint64_t ns = i == 0 || i == 11 ? 500000 : 1000 * i;
        programs[p] = (struct xwrite_program){.name = names[p], .id = p + 1};
        events[i] = (struct xwrite_event){names[p], at, at + ns, -1, &programs[p]};
        at += ns + 100000; // idle behind each
    }
    struct xwrite_line line = {1, "programs/1", events, 12};
    struct xwrite_space made = {
        .host = "h", .lines = &line, .n_lines = 1, .programs = programs, .n_programs = 11, .start_ns = 0, .end_ns = at};
    REQUIRE_OK(xspace_write(&space, &made, &err), &err);
    snprintf(path, sizeof path, "%s/h.xplane.pb", test_dir());
    REQUIRE_OK(file_write(path, space.text, space.length, &err), &err);
    REQUIRE_OK(stages_trace_of_file(path, &a, &t, &err), &err);
    CHECK(t.of_operations);
    CHECK_INT(t.programs, 12);
    CHECK_NEAR(t.busy_ms, 1 + 0.001 * 55, 1e-9);
    CHECK_NEAR(t.between_ms, 11 * 0.1, 1e-9);
    CHECK_NEAR(t.operations_ms, t.busy_ms, 1e-9);
    REQUIRE(t.n_operations == STAGES_OPERATIONS);
    CHECK_STR(t.operations[0].name, "f");
    CHECK_STR(t.operations[0].program, "f");
    CHECK_INT(t.operations[0].runs, 2);
    CHECK_NEAR(t.operations[0].ms, 1, 1e-9);
    CHECK_STR(t.operations[1].name, "p10");
    CHECK_STR(t.operations[7].name, "p4");
    str_release(&space);
    arena_release(&a);
}

// Of four chips the busiest one; its figures are those of the analyses that commands print.
TEST(lab_stages_trace_of_tpu)
{
    char file[512];
    const char *path = file;
    snprintf(file, sizeof file, "%s/tests/fixtures/traces/tpu-v6e-4chip-inference.xplane.pb.gz", test_top());
    struct stages_trace t = {0};
    struct error err = {0};
    struct trace trace;
    struct trace_ops ops;
    struct arena a;
    arena_init(&a);
    REQUIRE_OK(stages_trace_of_file(path, &a, &t, &err), &err);
    REQUIRE_OK(trace_open(&trace, &path, 1, &err), &err);
    REQUIRE_OK(trace_ops(&trace, NULL, &ops, &err), &err);
    double most = 0;
    for (size_t i = 0; i < ops.devices.n; i++) {
        struct busy b;
        REQUIRE_OK(trace_device_busy(&ops.devices.items[i], trace_origin_ns(&trace), CLOCK_OF_LINE, &b, &err), &err);
        most = (double)b.busy_ps * 1e-9 > most ? (double)b.busy_ps * 1e-9 : most;
    }
    CHECK(t.of_operations && most > 0);
    CHECK_NEAR(t.busy_ms, most, 0);
    CHECK(t.programs > 0 && t.between_ms >= 0);
    CHECK_INT(strncmp(t.operations[0].name, (const char *)ops.rows[0].name.data, ops.rows[0].name.size), 0);
    CHECK_NEAR(t.operations[0].ms, (double)ops.rows[0].self_ps * 1e-9, 0);
    CHECK_NEAR(t.operations_ms, (double)ops.self_ps * 1e-9, 0);
    trace_ops_release(&ops);
    trace_close(&trace);
    arena_release(&a);
}
