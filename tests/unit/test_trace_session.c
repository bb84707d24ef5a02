// SPDX-License-Identifier: Apache-2.0
#include "trace/session.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "test.h"

static const char *fixture(const char *name)
{
    static char path[2][1024];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/tests/fixtures/traces/%s", test_top(), name);
    return path[turn];
}

static int open_one(struct trace *t, const char *path, struct error *err)
{
    *err = (struct error){0};
    return trace_open(t, &path, 1, err);
}

static void copy_bytes(const char *from, const char *to, size_t most)
{
    struct error e = {0};
    struct str s;
    str_init(&s);
    REQUIRE_OK(file_read(&s, from, 1 << 24, &e), &e);
    REQUIRE_OK(file_write(to, str_text(&s), s.length < most ? s.length : most, &e), &e);
    str_release(&s);
}

static double microseconds(struct xline *l, size_t *n)
{
    struct xevents walk = xline_events(l);
    struct xevent v;
    int64_t sum = 0;
    for (*n = 0; xevent_next(&walk, &v); ++*n)
        sum += v.duration_ps;
    return (double)sum / 1e6;
}

// Counts and sums of durations as XProf's own reader gives them, in microseconds.
TEST(trace_session_line_sums_of_real_profiles)
{
    static const struct {
        const char *file, *plane, *line;
        size_t n;
        double us;
    } expected[] = {
        {"tpu-v6e-4chip-inference.xplane.pb.gz", "/device:TPU:0", "XLA Modules", 105, 78809571.544558},
        {"tpu-v6e-4chip-inference.xplane.pb.gz", "/device:TPU:0", "XLA Ops", 1504, 78784927.635502},
        {"tpu-v6e-4chip-inference.xplane.pb.gz", "/device:TPU:1", "XLA Ops", 1503, 78789509.321754},
        {"tpu-v6e-4chip-inference.xplane.pb.gz", "/device:TPU:2", "XLA Ops", 1503, 78781986.874072},
        {"tpu-v6e-4chip-inference.xplane.pb.gz", "/device:TPU:3", "XLA Modules", 103, 78811108.152280},
        {"tpu-v6e-4chip-inference.xplane.pb.gz", "/device:TPU:0", "Async XLA Ops", 600, 197605761.832850},
        {"gpu-mi300x-jax-gemm.xplane.pb", "/device:GPU:0", "Stream #16(Kernel)", 42, 3415.244},
        {"gpu-mi300x-jax-gemm.xplane.pb", "/device:GPU:0", "Stream #17(Kernel)", 12, 60.240},
        {"gpu-mi300x-jax-conv.xplane.pb.gz", "/device:GPU:0", "Stream #16(Kernel)", 34, 3578.725},
        {"gpu-mi300x-jax-conv.xplane.pb.gz", "/device:GPU:7", NULL, 25, 3502.165},
        {"gpu-gtx1080ti-2x.xplane.pb", "/device:GPU:1", "Stream #40(Compute)", 1, 1.984},
        {"cpu-small.xplane.pb", "/host:CPU", "julia", 131, 97783.205},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        struct trace t;
        struct error e;
        REQUIRE_OK(open_one(&t, fixture(expected[i].file), &e), &e);
        const struct xplane *p = xspace_plane(&t.files[0].space, expected[i].plane);
        REQUIRE(p);
        struct xline *found = NULL;
        for (size_t k = 0; k < p->n_lines && !found; k++)
            found = !expected[i].line || slice_is(p->lines[k].name, expected[i].line) ? &p->lines[k] : NULL;
        REQUIRE(found);
        size_t n;
        CHECK_NEAR(microseconds(found, &n), expected[i].us, 5e-7); // they are printed to the picosecond
        CHECK_INT(n, expected[i].n);
        CHECK(!t.files[0].space.damage.what);
        trace_close(&t);
    }
}

TEST(trace_session_finds_runs)
{
    struct trace t;
    struct error e;
    static const char *const folders[] = {"plugins", "plugins/profile", "plugins/profile/2026_01_01",
                                          "plugins/profile/2026_01_02", "plugins/profile/2026_01_03"};
    CHECK_INT(open_one(&t, test_dir(), &e), ERR_INPUT);
    CHECK(strstr(e.message, "holds no profile") != NULL);
    trace_close(&t);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        REQUIRE(mkdir(test_below(folders[i]), 0755) == 0);
    copy_bytes(fixture("cpu-small.xplane.pb"), test_below("plugins/profile/2026_01_01/old.xplane.pb"), SIZE_MAX);
    copy_bytes(fixture("gpu-gtx1080ti-2x.xplane.pb"), test_below("plugins/profile/2026_01_02/b.xplane.pb"), SIZE_MAX);
    copy_bytes(fixture("gpu-mi300x-jax-conv.xplane.pb.gz"), test_below("plugins/profile/2026_01_02/a.xplane.pb.gz"),
               SIZE_MAX);
    copy_bytes(fixture("cpu-small.xplane.pb"), test_below("plugins/profile/2026_01_03/tool_data.json"), SIZE_MAX);

    // From the top, the newest run that holds any; from `profile`; a run by itself.
    static const char *const ways[] = {"", "plugins/profile", "plugins/profile/2026_01_02"};
    for (size_t i = 0; i < 3; i++) {
        REQUIRE_OK(open_one(&t, test_below(ways[i]), &e), &e);
        REQUIRE(t.n_files == 2);
        CHECK(strstr(t.run, "2026_01_02") != NULL);
        CHECK_INT(t.n_other_runs, i < 2 ? 1 : 0);
        CHECK(strstr(t.files[0].path, "/a.xplane.pb.gz") != NULL && strstr(t.files[1].path, "/b.xplane.pb") != NULL);
        CHECK(xspace_plane(&t.files[0].space, "/device:GPU:7") && xspace_plane(&t.files[1].space, "/device:GPU:1"));
        trace_close(&t);
    }
    // Several files as they are named.
    const char *two[] = {test_below("plugins/profile/2026_01_02/b.xplane.pb"),
                         test_below("plugins/profile/2026_01_01/old.xplane.pb")};
    e = (struct error){0};
    REQUIRE_OK(trace_open(&t, two, 2, &e), &e);
    REQUIRE(t.n_files == 2 && !t.run);
    CHECK(t.files[1].host && t.files[1].host[0]);
    trace_close(&t);
    CHECK_INT(open_one(&t, test_below("plugins/profile/2026_01_03/tool_data.txt"), &e), ERR_INPUT);
    trace_close(&t);
}

TEST(trace_session_damaged_gzip)
{
    struct trace t;
    struct error e;
    copy_bytes(fixture("gpu-mi300x-jax-conv.xplane.pb.gz"), test_below("cut.xplane.pb.gz"), 40000);
    REQUIRE_OK(open_one(&t, test_below("cut.xplane.pb.gz"), &e), &e);
    CHECK_STR(t.files[0].space.damage.what, "the gzip file ends early");
    CHECK_INT(t.files[0].space.damage.offset, 40000);
    CHECK(xspace_plane(&t.files[0].space, "/device:GPU:0") != NULL);
    trace_close(&t);
    // Two members, one after the other, are one file: as protocol buffers do, the spaces add up.
    struct str s;
    str_init(&s);
    REQUIRE_OK(file_read(&s, fixture("gpu-mi300x-jax-conv.xplane.pb.gz"), 1 << 24, &e), &e);
    size_t n = s.length;
    struct str twice;
    str_init(&twice);
    str_add_n(&twice, str_text(&s), n);
    str_add_n(&twice, str_text(&s), n);
    REQUIRE_OK(file_write(test_below("twice.xplane.pb.gz"), str_text(&twice), twice.length, &e), &e);
    str_release(&twice);
    REQUIRE_OK(open_one(&t, test_below("twice.xplane.pb.gz"), &e), &e);
    CHECK(!t.files[0].space.damage.what && t.files[0].space.n_planes % 2 == 0);
    trace_close(&t);
    // A byte in the middle that is another one.
    memset(s.text + n / 2, 0x55, 8);
    REQUIRE_OK(file_write(test_below("bad.xplane.pb.gz"), str_text(&s), n, &e), &e);
    REQUIRE_OK(open_one(&t, test_below("bad.xplane.pb.gz"), &e), &e);
    CHECK(t.files[0].space.damage.what && t.files[0].space.damage.offset < n);
    trace_close(&t);
    str_release(&s);
    REQUIRE_OK(file_write(test_below("text.xplane.pb"), "{\"traceEvents\": []}", 19, &e), &e);
    CHECK_INT(open_one(&t, test_below("text.xplane.pb"), &e), ERR_INPUT);
    trace_close(&t);
}
