// SPDX-License-Identifier: Apache-2.0
#include "trace/convert.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <zlib.h>

#include "base/file.h"
#include "base/pbwire.h"
#include "made_trace.h"
#include "read_perfetto.h"
#include "test.h"

// The file that a conversion makes, appended to `out`.
static int convert(const char *path, enum trace_form form, size_t n_threads, struct str *out,
                   struct trace_converted *done, struct error *err)
{
    struct threads *threads = NULL;
    struct trace t;
    struct sink sink = {.fd = -1};
    char name[512];
    snprintf(name, sizeof name, "%s/converted", test_dir());
    out->max_bytes = (size_t)1 << 32;
    int rc = threads_new(&threads, n_threads, err);
    if (rc)
        return rc;
    rc = trace_open(&t, &path, 1, err);
    if (!rc)
        rc = sink_open(&sink, name, false, true, err);
    if (!rc)
        rc = trace_convert(&t, threads, form, &sink, done, err);
    if (!rc)
        rc = sink_commit(&sink, err);
    if (!rc)
        rc = file_read(out, name, (size_t)1 << 31, err);
    if (!rc && t.files[0].space.damage.what)
        rc = error_set(err, ERR_INPUT, path, "%s", t.files[0].space.damage.what);
    sink_abort(&sink);
    trace_close(&t);
    threads_free(threads);
    return rc;
}

static const char *const fixtures[] = {"cpu-small.xplane.pb", "gpu-gtx1080ti-2x.xplane.pb",
                                       "gpu-mi300x-jax-conv.xplane.pb.gz", "gpu-mi300x-jax-gemm.xplane.pb",
                                       "tpu-v6e-4chip-inference.xplane.pb.gz"};
#define N_FIXTURES (sizeof fixtures / sizeof *fixtures)

static const char *fixture_path(size_t i)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/tests/fixtures/traces/%s", test_top(), fixtures[i]);
    return path;
}

static struct slice of(const struct str *s)
{
    return (struct slice){(const uint8_t *)str_text(s), s->length};
}

TEST(trace_convert_threads_agree)
{
    for (size_t i = 0; i < N_FIXTURES; i++) {
        for (int form = TRACE_CHROME; form <= TRACE_CSV; form++) {
            struct str one, more;
            struct trace_converted done, again;
            struct error e = {0};
            str_init(&one);
            REQUIRE_OK(convert(fixture_path(i), (enum trace_form)form, 1, &one, &done, &e), &e);
            for (size_t threads = 2; threads < 6; threads++) {
                str_init(&more);
                REQUIRE_OK(convert(fixture_path(i), (enum trace_form)form, threads, &more, &again, &e), &e);
                CHECK(slice_equal(of(&one), of(&more)));
                CHECK_INT(again.events, done.events);
                CHECK_INT(again.tracks, done.tracks);
                str_release(&more);
            }
            str_release(&one);
        }
    }
}

static int by_text(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

// Sorted, so that what two forms say in another order can be compared.
static void sort_lines(struct str *text)
{
    size_t n = 0, cap = 0;
    char **lines = NULL, *place = NULL;
    struct str sorted;
    str_init(&sorted);
    sorted.max_bytes = (size_t)1 << 32;
    for (char *line = text->text ? strtok_r(text->text, "\n", &place) : NULL; line;
         line = strtok_r(NULL, "\n", &place)) {
        if (n == cap) {
            cap = cap ? 2 * cap : 64;
            lines = realloc(lines, cap * sizeof *lines);
        }
        lines[n++] = line;
    }
    if (n)
        qsort(lines, n, sizeof *lines, by_text);
    for (size_t i = 0; i < n; i++)
        str_addf(&sorted, "%s\n", lines[i]);
    free(lines);
    str_release(text);
    *text = sorted;
}

static int64_t exact_ps(const json_t *us)
{
    // Less than 2^53 ps, and so exact to a ps: the nearest double is nearer to it than to any other.
    return (int64_t)(json_number_value(us) * 1e6 + 0.5);
}

static void add_json_args(const json_t *args, struct str *out)
{
    const char *name;
    json_t *v;
    const char *between = "";
    json_object_foreach((json_t *)(uintptr_t)args, name, v)
    {
        if (json_is_string(v) && str_ends_with(json_string_value(v), " bytes"))
            continue; // a program or the like, of which Chrome's form says how large it is
        str_addf(out, "%s%s=", between, name);
        between = ",";
        if (json_is_string(v))
            str_add(out, json_string_value(v));
        else if (json_is_integer(v))
            str_addf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        else
            str_addf(out, "%.17g", json_number_value(v));
    }
}

// The lines that read_perfetto gives, of Chrome's form.
static bool chrome_lines(const struct str *text, struct str *out)
{
    json_t *root = json_loadb(str_text(text), text->length, 0, NULL), *e;
    json_t *events = json_object_get(root, "traceEvents");
    const char *process[256] = {NULL}, *thread[4096] = {NULL};
    size_t i;
    out->max_bytes = (size_t)1 << 32;
    json_array_foreach(events, i, e)
    {
        const char *ph = json_string_value(json_object_get(e, "ph"));
        const char *name = json_string_value(json_object_get(e, "name"));
        size_t pid = (size_t)json_integer_value(json_object_get(e, "pid"));
        size_t tid = (size_t)json_integer_value(json_object_get(e, "tid"));
        const json_t *args = json_object_get(e, "args");
        if (*ph == 'M' && strcmp(name, "process_name") == 0 && pid < 256)
            process[pid] = json_string_value(json_object_get(args, "name"));
        if (*ph == 'M' && strcmp(name, "thread_name") == 0 && tid < 4096)
            thread[tid] = json_string_value(json_object_get(args, "name"));
        if (*ph != 'X')
            continue;
        str_addf(out, "%s|%s|%s|%" PRId64 "|%" PRId64 "|", process[pid], thread[tid], name,
                 exact_ps(json_object_get(e, "ts")), exact_ps(json_object_get(e, "dur")));
        add_json_args(args, out);
        str_add_char(out, '\n');
    }
    json_decref(root);
    return events != NULL;
}

// Derived slices have no arguments, and so no picoseconds in Perfetto's form.
static void without_derived(struct str *lines)
{
    struct str kept;
    char *place = NULL;
    str_init(&kept);
    kept.max_bytes = (size_t)1 << 32;
    for (char *line = lines->text ? strtok_r(lines->text, "\n", &place) : NULL; line;
         line = strtok_r(NULL, "\n", &place)) {
        const char *track = strchr(line, '|');
        if (track && strncmp(track, "|Source code", 12) != 0 && strncmp(track, "|Framework Name Scope", 21) != 0)
            str_addf(&kept, "%s\n", line);
    }
    str_release(lines);
    *lines = kept;
}

TEST(trace_convert_perfetto_says_what_chrome_says)
{
    for (size_t i = 0; i < N_FIXTURES; i++) {
        struct str file, got, want;
        struct trace_converted done;
        struct error e = {0};
        const char *why;
        str_init(&file);
        str_init(&got);
        str_init(&want);
        got.max_bytes = (size_t)1 << 32;
        REQUIRE_OK(convert(fixture_path(i), TRACE_PERFETTO, 2, &file, &done, &e), &e);
        CHECK(read_perfetto(of(&file), &got, &why));
        CHECK_STR(why ? why : "", "");
        str_clear(&file);
        REQUIRE_OK(convert(fixture_path(i), TRACE_CHROME, 2, &file, &done, &e), &e);
        CHECK(chrome_lines(&file, &want));
        without_derived(&got);
        without_derived(&want);
        sort_lines(&got);
        sort_lines(&want);
        CHECK(want.length > 1000);
        CHECK(slice_equal(of(&got), of(&want)));
        str_release(&file);
        str_release(&got);
        str_release(&want);
    }
}

// ---- Ids that are no places in a table

#define BIG_ID ((int64_t)1 << 32 | 7)

static void put_stat(struct str *s, int64_t id, uint32_t field, uint64_t value)
{
    size_t at = pb_begin(s, 4);
    pb_put_int(s, 1, id);
    pb_put_uint(s, field, value);
    pb_end(s, at);
}

static void put_event(struct str *s, int64_t id, int64_t offset_ps, int64_t duration_ps)
{
    size_t at = pb_begin(s, 4);
    pb_put_int(s, 1, id);
    pb_put_int(s, 2, offset_ps);
    pb_put_int(s, 3, duration_ps);
    put_stat(s, -5, 7, (uint64_t)BIG_ID + 1); // a reference
    put_stat(s, BIG_ID, 4, (uint64_t)-9);
    put_stat(s, 3, 7, 77); // a reference that leads nowhere
    put_stat(s, 3, 3, UINT64_MAX);
    pb_end(s, at);
}

static void make_ids(struct str *s)
{
    size_t plane = pb_begin(s, 1);
    pb_put_string(s, 2, "/device:GPU:0");
    size_t line = pb_begin(s, 3);
    pb_put_string(s, 2, "Stream #1");
    put_event(s, BIG_ID, 1001, 2500);
    put_event(s, -3, 5000, 1000);
    put_event(s, 99, 7000, 0); // not in the table
    pb_end(s, line);
    made_row(s, 4, BIG_ID, "big");
    made_row(s, 4, -3, "negative");
    made_row(s, 5, -5, "text");
    made_row(s, 5, BIG_ID, "number");
    made_row(s, 5, BIG_ID + 1, "referred \xff");
    made_row(s, 5, 3, "third");
    pb_end(s, plane);
}

static const char ids_perfetto[] =
    "/device:GPU:0|Stream #1|big|1001|2500|text=referred \xef\xbf\xbd,number=-9,third=18446744073709551615\n"
    "/device:GPU:0|Stream #1|negative|5000|1000|text=referred \xef\xbf\xbd,number=-9,third=18446744073709551615\n"
    "/device:GPU:0|Stream #1||7000|0|text=referred \xef\xbf\xbd,number=-9,third=18446744073709551615\n";

static void check_ids(const char *path)
{
    struct str file, lines;
    struct trace_converted done;
    struct error e = {0};
    const char *why;
    str_init(&file);
    str_init(&lines);
    REQUIRE_OK(convert(path, TRACE_PERFETTO, 2, &file, &done, &e), &e);
    CHECK_INT(done.events, 3);
    CHECK(read_perfetto(of(&file), &lines, &why));
    CHECK_STR(why ? why : "", "");
    CHECK_STR(str_text(&lines), ids_perfetto);
    str_clear(&file);
    REQUIRE_OK(convert(path, TRACE_CHROME, 2, &file, &done, &e), &e);
    CHECK(strstr(str_text(&file), "\"ts\":0.001001,\"dur\":0.0025,\"name\":\"big\",\"args\":{\"text\":\"referred "
                                  "\xef\xbf\xbd\",\"number\":-9,\"third\":null,\"third\":\"18446744073709551615\"}"));
    CHECK(strstr(str_text(&file), "\"name\":\"negative\""));
    str_clear(&file);
    REQUIRE_OK(convert(path, TRACE_CSV, 2, &file, &done, &e), &e);
    CHECK(strstr(str_text(&file), "\"Stream #1\",\"big\",1001,2500,1,"));
    CHECK(strstr(str_text(&file), "\"Stream #1\",\"negative\",5000,1000,1,"));
    CHECK(strstr(str_text(&file), "\"Stream #1\",\"99\",7000,0,1,"));
    str_release(&file);
    str_release(&lines);
}

TEST(trace_convert_ids)
{
    struct str s;
    struct error e = {0};
    char path[512];
    str_init(&s);
    make_ids(&s);
    snprintf(path, sizeof path, "%s/ids.xplane.pb", test_dir());
    REQUIRE_OK(file_write(path, s.text, s.length, &e), &e);
    check_ids(path);
    snprintf(path, sizeof path, "%s/ids.xplane.pb.gz", test_dir());
    gzFile gz = gzopen(path, "wb");
    REQUIRE(gz && gzwrite(gz, s.text, (unsigned)s.length) == (int)s.length);
    REQUIRE(gzclose(gz) == Z_OK);
    check_ids(path);
    str_release(&s);
}

// ---- Lines

// Events in any order: those that overlap in part go to further tracks, and one that begins before all counts as zero.
TEST(trace_convert_lanes)
{
    struct made m;
    struct str file, lines;
    struct trace_converted done;
    struct error e = {0};
    const char *why;
    made_begin(&m);
    made_plane(&m, "/device:TPU:0");
    made_line(&m, "Async", 0);
    made_event(&m, "late", 9000, 4000);
    made_event(&m, "early", -2000, 5000);
    made_event(&m, "across", 1000, 9000);
    made_event(&m, "inner", -2000, 1000);
    str_init(&file);
    str_init(&lines);
    REQUIRE_OK(convert(made_end(&m, "lanes.xplane.pb"), TRACE_PERFETTO, 2, &file, &done, &e), &e);
    CHECK(read_perfetto(of(&file), &lines, &why));
    CHECK_STR(why ? why : "", "");
    CHECK_STR(str_text(&lines), "/device:TPU:0|Async|early|0|5000|\n"
                                "/device:TPU:0|Async|inner|0|1000|\n"
                                "/device:TPU:0|Async (2)|across|3000|9000|\n"
                                "/device:TPU:0|Async|late|11000|4000|\n");
    str_release(&file);
    str_release(&lines);
}

// More ends at one instant than a chunk holds.
TEST(trace_convert_deep)
{
    enum { DEPTH = 10000 };
    struct made m;
    struct str one, two, lines;
    struct trace_converted done;
    struct error e = {0};
    const char *why;
    made_begin(&m);
    made_plane(&m, "/device:GPU:0");
    made_line(&m, "Stream #1", 0);
    for (int i = 0; i < DEPTH; i++)
        made_event(&m, "nested", i * 1000, (2 * DEPTH - i) * (int64_t)1000);
    made_event(&m, "after", 3 * DEPTH * (int64_t)1000, 1000);
    const char *path = made_end(&m, "deep.xplane.pb");
    str_init(&one);
    str_init(&two);
    str_init(&lines);
    REQUIRE_OK(convert(path, TRACE_PERFETTO, 1, &one, &done, &e), &e);
    REQUIRE_OK(convert(path, TRACE_PERFETTO, 3, &two, &done, &e), &e);
    CHECK(slice_equal(of(&one), of(&two)));
    CHECK_INT(done.events, DEPTH + 1);
    CHECK_INT(done.tracks, 1);
    CHECK(read_perfetto(of(&one), &lines, &why));
    CHECK_STR(why ? why : "", "");
    CHECK(strstr(str_text(&lines), "|after|30000000|1000|\n"));
    str_release(&one);
    str_release(&two);
    str_release(&lines);
}
