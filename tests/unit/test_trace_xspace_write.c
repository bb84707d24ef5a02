// SPDX-License-Identifier: Apache-2.0
// What is written comes back through the reader (tests/oracle/precision_lab.py reads the same with JAX).
#include "trace/xspace_write.h"

#include "test.h"
#include "trace/xspace.h"

static void check_event(const struct xplane *plane, const struct xevent *e, const char *name, int64_t offset_ps,
                        int64_t duration_ps, int64_t step)
{
    const struct xmeta *row = xtable_find(&plane->event_table, e->metadata_id);
    struct xstats stats = xevent_stats(plane, e);
    struct xstat s;
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
    struct xwrite_event own[] = {{"early", 90, 110, -1},  {"inner", 110, 120, -1}, {"step", 100, 130, 0},
                                 {"inner", 210, 220, -1}, {"step", 200, 230, 1},   {"late", 290, 301, -1}};
    struct xwrite_event other[] = {{"run", 112, 112, -1}};
    struct xwrite_line lines[] = {{41, "assay/41", own, 6}, {42, "worker/42", other, 1}, {43, "idle/43", NULL, 0}};
    struct error e = {0};
    struct arena a;
    struct str out;
    struct xspace space;
    str_init(&out);
    arena_init(&a);
    REQUIRE_OK(xspace_write(&out, "host-1", lines, 3, 100, 300, 1700000000000000000, &e), &e);
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
    struct xevent got;
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
