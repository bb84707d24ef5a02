// SPDX-License-Identifier: Apache-2.0
// What is written comes back through the reader (tests/oracle/precision_lab.py reads the same with JAX).
#include "trace/xspace_write.h"

#include "base/file.h"
#include "test.h"
#include "trace/ops.h"
#include "trace/xspace.h"

static struct slice text(const char *s)
{
    return (struct slice){(const uint8_t *)s, strlen(s)};
}

static void check_event(const struct xplane *plane, const struct xevent *e, const char *name, int64_t offset_ps,
                        int64_t duration_ps, int64_t step)
{
    const struct xmeta *row = xtable_find(&plane->event_table, e->metadata_id);
    struct xstats stats = xevent_stats(plane, e);
    struct xstat s = {0};
    REQUIRE(row);
    CHECK(slice_is(row->name, name));
    CHECK_INT(e->offset_ps, offset_ps);
    CHECK_INT(e->duration_ps, duration_ps);
    int64_t got = -1, root = 0;
    while (xstat_next(&stats, &s)) {
        const struct xmeta *what = xtable_find(&plane->stat_table, s.metadata_id);
        REQUIRE(what && s.kind == XSTAT_INT);
        if (slice_is(what->name, "step_num"))
            got = s.integer;
        else if (slice_is(what->name, "_r"))
            root = s.integer;
    }
    CHECK_INT(got, step);
    CHECK_INT(root, step >= 0);
}

TEST(trace_xspace_write)
{
    // In the order in which spans end; one begins before the start and one ends after the end.
    struct xwrite_event own[] = {{"early", 90, 110, -1, NULL}, {"inner", 110, 120, -1, NULL},
                                 {"step", 100, 130, 0, NULL},  {"inner", 210, 220, -1, NULL},
                                 {"step", 200, 230, 1, NULL},  {"late", 290, 301, -1, NULL}};
    struct xwrite_event other[] = {{"run", 112, 112, -1, NULL}};
    struct xwrite_line lines[] = {{41, "assay/41", own, 6}, {42, "worker/42", other, 1}, {43, "idle/43", NULL, 0}};
    struct error e = {0};
    struct arena a;
    struct str out;
    struct xspace space;
    str_init(&out);
    arena_init(&a);
    struct xwrite_space made = {.host = "host-1",
                                .lines = lines,
                                .n_lines = 3,
                                .start_ns = 100,
                                .end_ns = 300,
                                .epoch_ns = 1700000000000000000};
    REQUIRE_OK(xspace_write(&out, &made, &e), &e);
    REQUIRE_OK(xspace_read(&space, out.text, out.length, "made", &a, &e), &e);
    CHECK(!space.damage.what);
    CHECK(space.n_hosts == 1 && slice_is(space.hosts[0], "host-1"));

    const struct xplane *host = xspace_plane(&space, "/host:CPU");
    REQUIRE(host && host->n_lines == 3);
    CHECK_INT(host->lines[0].id, 41);
    CHECK(slice_is(host->lines[0].name, "assay/41"));
    static const struct {
        const char *name;
        int64_t offset_ps, duration_ps, step;
    } want[] = {
        {"step", 0, 30000, 0}, {"inner", 10000, 10000, -1}, {"step", 100000, 30000, 1}, {"inner", 110000, 10000, -1}};
    struct xevents walk = xline_events(&host->lines[0]);
    struct xevent got = {0};
    size_t n = 0;
    for (; xevent_next(&walk, &got); n++) {
        REQUIRE(n < sizeof want / sizeof *want);
        check_event(host, &got, want[n].name, want[n].offset_ps, want[n].duration_ps, want[n].step);
    }
    CHECK_INT(n, 4);
    walk = xline_events(&host->lines[1]);
    REQUIRE(xevent_next(&walk, &got));
    check_event(host, &got, "run", 12000, 0, -1);

    const struct xplane *environment = xspace_plane(&space, "Task Environment");
    REQUIRE(environment && environment->n_stats == 2);
    static const uint64_t times[] = {1700000000000000000, 1700000000000000200};
    for (size_t i = 0; i < 2; i++) {
        struct xstat s;
        xstat_read(&s, environment, environment->stats[i]);
        CHECK(s.kind == XSTAT_UINT && s.unsigned_number == times[i]);
    }
    arena_release(&a);
    str_release(&out);
}

// A program's runs are operations for every reader, each with its own name, and the HLO is where readers look for it.
TEST(trace_xspace_write_programs)
{
    const struct xwrite_program programs[] = {
        {.name = "jit_f", .id = 1, .module = text("hlo"), .buffers = text("plan")}, {.name = "jit_f", .id = 2}};
    struct xwrite_event runs[] = {{"jit_f", 100, 130, -1, &programs[0]},
                                  {"jit_f", 130, 150, -1, &programs[1]},
                                  {"jit_f", 150, 180, -1, &programs[0]}};
    struct xwrite_line lines[] = {{-42, "programs/42", runs, 3}};
    struct xwrite_space made = {.host = "h",
                                .lines = lines,
                                .n_lines = 1,
                                .programs = programs,
                                .n_programs = 2,
                                .start_ns = 100,
                                .end_ns = 200};
    struct error e = {0};
    struct str out, path;
    struct trace t;
    struct trace_ops ops;
    str_init(&out);
    str_init(&path);
    str_addf(&path, "%s/programs.xplane.pb", test_dir());
    REQUIRE_OK(xspace_write(&out, &made, &e), &e);
    REQUIRE_OK(file_write(str_text(&path), out.text, out.length, &e), &e);
    const char *const paths[] = {str_text(&path)};
    REQUIRE_OK(trace_open(&t, paths, 1, &e), &e);
    const struct xplane *metadata = xspace_plane(&t.files[0].space, "/host:metadata");
    REQUIRE(metadata && CHECK_INT(metadata->event_table.n_rows, 1)); // of what is known
    CHECK(slice_is(metadata->event_table.rows[0].name, "jit_f(1)"));
    struct xstats stats = xmeta_stats(metadata, &metadata->event_table.rows[0]);
    struct xstat s = {0};
    REQUIRE(xstat_next(&stats, &s));
    CHECK(s.kind == XSTAT_BYTES && slice_is(s.bytes, "\x0a\x03hlo\x1a\x04plan")); // an HloProto's fields 1 and 3
    REQUIRE(xstat_next(&stats, &s));
    CHECK(s.kind == XSTAT_UINT && s.unsigned_number == 1);

    REQUIRE_OK(trace_ops(&t, NULL, &ops, &e), &e);
    REQUIRE(CHECK_INT(ops.n_rows, 2));
    CHECK(slice_is(ops.rows[0].name, "jit_f") && slice_is(ops.rows[0].category, "program") && ops.rows[0].is_operation);
    CHECK_INT(ops.rows[0].program_id, 1);
    CHECK_INT(ops.rows[0].occurrences, 2);
    CHECK_INT(ops.rows[0].self_ps, 60000);
    CHECK_INT(ops.rows[1].program_id, 2);
    CHECK_INT(ops.rows[1].self_ps, 20000);
    trace_ops_release(&ops);
    trace_close(&t);
    str_release(&path);
    str_release(&out);
}

// What a plugin recorded stays as it is; ours stands beside it, on the same clock.
TEST(trace_xspace_append)
{
    const struct xwrite_program program = {.name = "jit_f", .id = 1, .module = text("hlo")};
    struct xwrite_event of_plugin[] = {{"op", 5000, 6000, -1, NULL}}, own[] = {{"step", 100, 130, 0, NULL}};
    struct xwrite_line plugin_lines[] = {{7, "stream", of_plugin, 1}}, own_lines[] = {{41, "assay/41", own, 1}};
    struct xwrite_space plugin = {
        .host = "theirs", .lines = plugin_lines, .n_lines = 1, .start_ns = 5000, .end_ns = 6000};
    struct xwrite_space ours = {.host = "ours",
                                .lines = own_lines,
                                .n_lines = 1,
                                .programs = &program,
                                .n_programs = 1,
                                .warning = "without buffers",
                                .start_ns = 100,
                                .end_ns = 200,
                                .epoch_ns = 1700000000000000000};
    struct error e = {0};
    struct arena a;
    struct str out;
    struct xspace space;
    struct xspace_contents c;
    arena_init(&a);
    str_init(&out);
    CHECK_INT(xspace_append(&out, &ours, 41, &e), ERR_DEVICE);
    CHECK(strstr(e.message, "holds no events") != NULL);
    str_add(&out, "no profile");
    CHECK_INT(xspace_append(&out, &ours, 41, &e), ERR_DEVICE);
    str_clear(&out);
    REQUIRE_OK(xspace_write(&out, &plugin, &e), &e);
    REQUIRE_OK(xspace_append(&out, &ours, 41, &e), &e);
    REQUIRE_OK(xspace_look(&out, &c, &e), &e);
    CHECK(c.events == 2 && c.programs && c.environment && c.host && !c.absolute);
    REQUIRE_OK(xspace_read(&space, out.text, out.length, "made", &a, &e), &e);
    CHECK(!space.damage.what && xspace_plane(&space, "/host:metadata"));
    CHECK(space.n_hosts == 1 && slice_is(space.hosts[0], "theirs"));
    CHECK(space.n_warnings == 1 && slice_is(space.warnings[0], "without buffers"));
    CHECK_INT(space.n_planes, 4); // one environment
    const struct xplane *host = xspace_plane(&space, "/host:CPU [41]");
    REQUIRE(host);
    CHECK_INT(host->lines[0].timestamp_ns, 0); // the plugin's times count from its start
    str_release(&out);
    arena_release(&a);
}
