// SPDX-License-Identifier: Apache-2.0
// Profiles of a program on the CPU plugin, which has no profiler, and on one that pretends to have one.
#include "lab/capture.h"

#include "base/file.h"
#include "cli_test.h"
#include "schema.h"
#include "trace/run.h"
#include "trace/session.h"
#include "trace/xspace.h"
#include "worker_test.h"

enum { STEPS = 3 };

struct case_of {
    struct worker *w;
    struct worker_program source;
    struct worker_executable program;
    int arg;
    struct capture_steps steps;
};

// x + x of four values, ones at first.
static bool open_case(struct case_of *c, const char *fault)
{
    static const char text[] = "module @twice { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
                               "%0 = stablehlo.add %a, %a : tensor<4xf32>\nreturn %0 : tensor<4xf32> } }";
    static const float ones[4] = {1, 1, 1, 1};
    static struct worker_shape shape = {DT_F32, 1, {4}};
    c->source = (struct worker_program){.text = text,
                                        .length = sizeof text - 1,
                                        .format = "mlir",
                                        .name = "twice",
                                        .want_optimized = true,
                                        .n_args = 1,
                                        .args = &shape};
    struct error err = {0};
    c->w = worker_test_start(fault ? pjrt_test_beside("faulty_plugin.so") : NULL, fault);
    if (!c->w)
        return false;
    if (worker_compile(c->w, &c->source, &c->program, &err) != 0) {
        test_fail_error(__FILE__, __LINE__, "worker_compile", err.where, err.message);
        return false;
    }
    c->arg = worker_test_upload(c->w, ones, 4, 0);
    c->steps = (struct capture_steps){.worker = c->w,
                                      .program = &c->program,
                                      .source = &c->source,
                                      .args = &c->arg,
                                      .n_args = 1,
                                      .name = "case",
                                      .steps = STEPS,
                                      .feed_back = true};
    return true;
}

static void close_case(struct case_of *c)
{
    worker_executable_release(&c->program);
    worker_stop(c->w);
}

// How many events of all lines of planes that begin so have that name.
static int count(const struct capture *c, const char *plane, const char *name)
{
    struct xspace space;
    struct arena a;
    struct error err = {0};
    int n = 0;
    arena_init(&a);
    if (CHECK_INT(xspace_read(&space, c->space.text, c->space.length, "captured", &a, &err), 0))
        CHECK(!space.damage.what);
    for (size_t i = 0; i < space.n_planes; i++) {
        struct xplane *p = &space.planes[i];
        if (p->name.size < strlen(plane) || memcmp(p->name.data, plane, strlen(plane)) != 0)
            continue;
        for (size_t k = 0; k < p->n_lines; k++) {
            struct xevents walk = xline_events(&p->lines[k]);
            struct xevent e;
            while (xevent_next(&walk, &e)) {
                const struct xmeta *row = xtable_find(&p->event_table, e.metadata_id);
                n += !name || (row && slice_is(row->name, name));
            }
        }
    }
    arena_release(&a);
    return n;
}

static bool has_hlo(const struct capture *c, const char *entry)
{
    struct xspace space;
    struct arena a;
    struct error err = {0};
    arena_init(&a);
    bool read = xspace_read(&space, c->space.text, c->space.length, "captured", &a, &err) == 0;
    const struct xplane *p = read ? xspace_plane(&space, "/host:metadata") : NULL;
    bool found = p && p->event_table.n_rows == 1 && slice_is(p->event_table.rows[0].name, entry);
    arena_release(&a);
    return found;
}

static void check_result(const struct capture *c)
{
    float got[4];
    REQUIRE(CHECK_INT(c->result.length, sizeof got));
    memcpy(got, c->result.text, sizeof got);
    for (int i = 0; i < 4; i++)
        CHECK(got[i] == 1 << STEPS); // doubled in every step, which has the result of the one before
}

TEST(lab_capture_plugin_spans)
{
    struct case_of s = {0};
    struct capture c;
    struct error err = {0};
    double ns[2];
    REQUIRE(open_case(&s, NULL));
    REQUIRE_OK(worker_time(s.w, s.program.id, &s.arg, 1, 2, ns, &err), &err);
    REQUIRE_OK(capture_run(&c, &s.steps, &err), &err);
    CHECK(!c.from_plugin);
    check_result(&c);
    static const char *const every_step[] = {CAPTURE_STEP, "case", "execute", CAPTURE_RUN_SPAN,
                                             "dispatch",   "wait", "twice"};
    for (size_t i = 0; i < sizeof every_step / sizeof *every_step; i++)
        CHECK_INT(count(&c, "/host:CPU", every_step[i]), STEPS);
    CHECK_INT(count(&c, "/host:CPU", "download"), 1);
    CHECK_INT(count(&c, "/host:CPU", "compile"), 0); // before it
    CHECK_INT(c.events, count(&c, "", NULL));
    CHECK(has_hlo(&c, "twice(1)"));
    capture_release(&c);

    // Everything from the start on; what a timing loop runs is no span.
    struct case_of whole = {0};
    REQUIRE(open_case(&whole, NULL));
    whole.steps.whole = true;
    REQUIRE_OK(worker_time(whole.w, whole.program.id, &whole.arg, 1, 2, ns, &err), &err);
    REQUIRE_OK(capture_run(&c, &whole.steps, &err), &err);
    CHECK_INT(count(&c, "/host:CPU", "load"), 1);
    CHECK_INT(count(&c, "/host:CPU", "compile"), 1);
    CHECK_INT(count(&c, "/host:CPU", "upload"), 1);
    CHECK_INT(count(&c, "/host:CPU", "time"), 1);
    CHECK_INT(count(&c, "/host:CPU", "dispatch"), STEPS);
    CHECK_INT(count(&c, "/host:CPU", "spans"), 0);
    capture_release(&c);
    close_case(&whole);

    // The argument is the caller's still.
    float got[4];
    REQUIRE_OK(worker_download(s.w, s.arg, got, sizeof got, &err), &err);
    CHECK(got[0] == 1);
    close_case(&s);
}

TEST(lab_capture_plugin_profiler)
{
    static const char *const ways[] = {"profiler", "profiler-newer", "profiler-caller"};
    struct capture c;
    struct error err = {0};
    for (size_t i = 0; i < 3; i++) {
        struct case_of s = {0};
        REQUIRE(open_case(&s, ways[i]));
        REQUIRE_OK(capture_run(&c, &s.steps, &err), &err);
        CHECK(c.from_plugin);
        check_result(&c);
        CHECK_INT(count(&c, "/device:TPU:0", NULL), STEPS); // runs while it recorded
        CHECK_INT(count(&c, "/host:CPU [", CAPTURE_STEP), STEPS);
        CHECK(has_hlo(&c, "twice(1)"));
        capture_release(&c);
        // Again in the same worker.
        REQUIRE_OK(capture_run(&c, &s.steps, &err), &err);
        CHECK_INT(count(&c, "/device:TPU:0", NULL), STEPS);
        capture_release(&c);
        close_case(&s);
    }
}

TEST(lab_capture_plugin_profiler_fails)
{
    struct case_of s = {0};
    struct capture c;
    struct error err = {0};
    REQUIRE(open_case(&s, "profiler-empty"));
    CHECK_ERROR(capture_run(&c, &s.steps, &err), ERR_DEVICE, "no events", &err);
    capture_release(&c);
    close_case(&s);
    REQUIRE(open_case(&s, "profiler-refuses"));
    CHECK_ERROR(capture_run(&c, &s.steps, &err), ERR_DEVICE, "cannot start: faulty plugin: Failed to start", &err);
    capture_release(&c);
    CHECK(!worker_failure(s.w));
    struct str space;
    str_init(&space);
    CHECK_ERROR(worker_profile_collect(s.w, &space, &err), ERR_USAGE, "no profile", &err);
    str_release(&space);
    close_case(&s);
    // A table that is too short for it is none.
    REQUIRE(open_case(&s, "profiler-small"));
    REQUIRE_OK(capture_run(&c, &s.steps, &err), &err);
    CHECK(!c.from_plugin);
    capture_release(&c);
    close_case(&s);
}

TEST(trace_run_names)
{
    char path[TRACE_PATH_MAX], host[TRACE_HOST_MAX], want[TRACE_PATH_MAX];
    trace_host_name(host);
    trace_run_path(path, 1700000000500000000, "w=int4/group:32");
    snprintf(want, sizeof want, "plugins/profile/2023_11_14_22_13_20_w_int4_group_32/%s.xplane.pb", host);
    CHECK_STR(path, want);

    // Two runs of one second are two, and the newer one is the last by name.
    struct str dir, space, first, second;
    struct error err = {0};
    struct trace t;
    struct str *const all[] = {&dir, &space, &first, &second};
    for (size_t i = 0; i < 4; i++)
        str_init(all[i]);
    str_addf(&dir, "%s/deep/er", test_dir());
    struct xwrite_event e = {"e", 1, 2, -1, NULL};
    struct xwrite_line line = {1, "l", &e, 1};
    struct xwrite_space made = {.host = "h", .lines = &line, .n_lines = 1, .start_ns = 1, .end_ns = 2};
    REQUIRE_OK(xspace_write(&space, &made, &err), &err);
    REQUIRE_OK(trace_run_write(str_text(&dir), 1700000000500000000, &space, &first, &err), &err);
    REQUIRE_OK(trace_run_write(str_text(&dir), 1700000000600000000, &space, &second, &err), &err);
    CHECK(strcmp(str_text(&first), str_text(&second)) < 0);
    const char *const paths[] = {str_text(&dir)};
    REQUIRE_OK(trace_open(&t, paths, 1, &err), &err);
    CHECK_INT(t.n_other_runs, 1);
    REQUIRE(CHECK_INT(t.n_files, 1));
    CHECK_STR(t.files[0].path, str_text(&second));
    trace_close(&t);
    // A file where a folder should be.
    CHECK_ERROR(trace_run_write(str_text(&second), 0, &space, &first, &err), ERR_IO, "cannot be made", &err);
    for (size_t i = 0; i < 4; i++)
        str_release(all[i]);
}

TEST(cli_documents_trace_capture_plugin)
{
    struct cli cli;
    struct error e = {0};
    char dir[512];
    snprintf(dir, sizeof dir, "%s/traces", test_dir());
    REQUIRE_OK(cli_test_run(&cli, CLI_WORDS("trace", "capture", "--steps", "6", "--warmup", "0", "--dir", dir), &e),
               &e);
    CHECK_SCHEMA("assay.trace.capture.1.json", str_text(&cli.out), cli.out.length);
    CHECK(strstr(str_text(&cli.out), "\"recorder\": \"spans\"") != NULL);
    cli_test_release(&cli);
}
