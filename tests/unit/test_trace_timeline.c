// SPDX-License-Identifier: Apache-2.0
#include "trace/timeline.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/str.h"
#include "made_trace.h"
#include "test.h"
#include "trace/busy.h"
#include "trace/timeline_encode.h"
#include "trace/timeline_pack.h"

struct shown {
    struct trace trace;
    struct timeline l;
    struct timeline_encoded e;
};

static int show(struct shown *s, const char *path, struct timeline_options o, struct error *err)
{
    *err = (struct error){0};
    memset(s, 0, sizeof *s);
    int rc = trace_open(&s->trace, &path, 1, err);
    if (!rc)
        rc = timeline_make(&s->l, &s->trace, &o, NULL, err);
    return rc ? rc : timeline_encode(&s->e, &s->l, &s->trace, NULL, err);
}

static void done(struct shown *s)
{
    timeline_encoded_release(&s->e);
    timeline_release(&s->l);
    trace_close(&s->trace);
}

static const char *fixture(const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/tests/fixtures/traces/%s", test_top(), name);
    return path;
}

// ---- Profiles made here

struct put {
    int64_t id, offset_ps, duration_ps;
};

static void put_line(struct str *s, int64_t id, const char *name, const struct put *events, size_t n)
{
    size_t line = pb_begin(s, 3);
    pb_put_int(s, 1, id);
    pb_put_string(s, 2, name);
    for (size_t i = 0; i < n; i++) {
        size_t at = pb_begin(s, 4);
        pb_put_int(s, 1, events[i].id);
        pb_put_int(s, 2, events[i].offset_ps);
        pb_put_int(s, 3, events[i].duration_ps);
        size_t stat = pb_begin(s, 4);
        pb_put_int(s, 1, 1);
        pb_put_uint(s, 3, UINT64_MAX - 3);
        pb_end(s, stat);
        pb_end(s, at);
    }
    pb_end(s, line);
}

static const char *write_profile(const char *plane, const struct put *const lines[], const size_t n[], size_t n_lines)
{
    static char path[1024];
    struct str s;
    struct error e = {0};
    str_init(&s);
    size_t at = pb_begin(&s, 1);
    pb_put_string(&s, 2, plane);
    for (size_t i = 0; i < n_lines; i++)
        put_line(&s, (int64_t)i + 1, "Stream #1", lines[i], n[i]);
    made_row(&s, 4, 1, "</script><script>alert(1)</script>");
    made_row(&s, 4, 2, "two");
    made_row(&s, 5, 1, "a\x80value");
    pb_end(&s, at);
    snprintf(path, sizeof path, "%s/made.xplane.pb", test_dir());
    CHECK_INT(file_write(path, s.text, s.length, &e), 0);
    str_release(&s);
    return path;
}

// ---- Reading what was encoded, by the words of the header alone

static uint64_t take(const struct str *s, size_t *at)
{
    uint64_t v = 0;
    for (unsigned shift = 0; *at < s->length; shift += 7) {
        uint8_t byte = (uint8_t)s->text[(*at)++];
        v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            break;
    }
    return v;
}

static void check_row(const struct timeline_row *row, const struct str *records, size_t *at)
{
    int64_t end_ps = 0;
    size_t wrong = 0;
    for (size_t i = 0; i < row->n; i++) {
        const struct timeline_record *r = &row->records[i];
        int64_t start_ps = end_ps + (int64_t)take(records, at);
        end_ps = start_ps + (int64_t)take(records, at);
        uint64_t name = take(records, at), count = take(records, at);
        bool block = name & 1;
        wrong += start_ps != r->start_ps || end_ps != r->start_ps + r->duration_ps || name >> 1 != r->name;
        wrong += block != (r->count > 1) || (block && count != r->count);
        if (block)
            wrong += (int64_t)take(records, at) != r->busy_ps;
    }
    CHECK_INT(wrong, 0);
}

// Busy time comes first in a plane of the page.
static void check_encoding(const struct shown *s)
{
    size_t at = 0;
    for (size_t i = 0; i < s->l.n_planes; i++) {
        for (int busy = 1; busy >= 0; busy--) {
            for (size_t k = 0; k < s->l.planes[i].n_lines; k++) {
                const struct timeline_line *line = &s->l.planes[i].lines[k];
                for (size_t r = 0; r < line->n_rows && (line->line == NULL) == busy; r++)
                    check_row(&line->rows[r], &s->e.records, &at);
            }
        }
    }
    CHECK_INT(at, s->e.records.length);
}

static json_t *document(const struct shown *s)
{
    struct error e = {0};
    json_t *doc = json_parse(s->e.json.text, s->e.json.length, "timeline", &e);
    if (!doc)
        test_fail_error(__FILE__, __LINE__, "json_parse", e.where, e.message);
    return doc;
}

// Rows of a line hold each of its events once; none overlaps another of its row, and what contains it lies above.
static void check_line(const struct timeline_line *line)
{
    uint64_t events = 0;
    size_t overlaps = 0, above = 0;
    for (size_t r = 0; r < line->n_rows; r++) {
        const struct timeline_row *row = &line->rows[r];
        for (size_t i = 0; i < row->n; i++) {
            const struct timeline_record *x = &row->records[i];
            events += x->count;
            overlaps += i && x->start_ps < row->records[i - 1].start_ps + row->records[i - 1].duration_ps;
            for (size_t below = r + 1; below < line->n_rows && line->events < 2000; below++) {
                for (size_t k = 0; k < line->rows[below].n; k++) {
                    const struct timeline_record *y = &line->rows[below].records[k];
                    above += y->start_ps < x->start_ps && y->start_ps + y->duration_ps > x->start_ps &&
                             y->start_ps + y->duration_ps >= x->start_ps + x->duration_ps;
                }
            }
        }
    }
    CHECK_INT(events, line->events);
    CHECK_INT(overlaps, 0);
    CHECK_INT(above, 0);
}

// Every event of the file is there with its own times and name.
static void check_events(const struct timeline_plane *p, const struct timeline_line *line, int64_t zero_ps)
{
    size_t *next = calloc(line->n_rows, sizeof *next), missing = 0;
    struct xevents walk = xline_events(line->line);
    struct xevent v;
    REQUIRE(next);
    while (xevent_next(&walk, &v)) {
        int64_t start_ps = line->line->timestamp_ns * 1000 + v.offset_ps - zero_ps;
        bool found = false;
        for (size_t r = 0; r < line->n_rows && !found; r++) {
            const struct timeline_record *x = &line->rows[r].records[next[r]];
            found = next[r] < line->rows[r].n && x->start_ps == start_ps && x->duration_ps == v.duration_ps &&
                    p->plane->event_table.rows[x->name - 1].id == v.metadata_id;
            next[r] += found;
        }
        missing += !found;
    }
    CHECK_INT(missing, 0);
    free(next);
}

TEST(trace_timeline_has_every_event_of_real_profiles)
{
    static const char *const files[] = {"tpu-v6e-4chip-inference.xplane.pb.gz", "gpu-mi300x-jax-gemm.xplane.pb",
                                        "gpu-mi300x-jax-conv.xplane.pb.gz", "gpu-gtx1080ti-2x.xplane.pb",
                                        "cpu-small.xplane.pb"};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        struct shown s;
        struct error e;
        REQUIRE_OK(show(&s, fixture(files[f]), (struct timeline_options){1 << 20, 0, -1}, &e), &e);
        CHECK_INT(s.l.merged, 0);
        CHECK_INT(s.l.events, s.l.records);
        int64_t zero_ps = INT64_MAX;
        for (size_t i = 0; i < s.l.n_planes; i++) {
            for (size_t k = 0; k < s.l.planes[i].plane->n_lines; k++) {
                struct xline *line = &s.l.planes[i].plane->lines[k];
                struct xevents walk = xline_events(line);
                for (struct xevent v; xevent_next(&walk, &v);)
                    zero_ps = line->timestamp_ns * 1000 + v.offset_ps < zero_ps
                                  ? line->timestamp_ns * 1000 + v.offset_ps
                                  : zero_ps;
            }
        }
        for (size_t i = 0; i < s.l.n_planes; i++) {
            for (size_t k = 0; k < s.l.planes[i].n_lines; k++) {
                check_line(&s.l.planes[i].lines[k]);
                if (s.l.planes[i].lines[k].line)
                    check_events(&s.l.planes[i], &s.l.planes[i].lines[k], zero_ps);
            }
        }
        check_encoding(&s);
        json_t *doc = document(&s);
        REQUIRE(doc);
        CHECK_INT(json_array_size(json_object_get(doc, "planes")), s.l.n_planes);
        json_decref(doc);
        done(&s);
    }
}

TEST(trace_timeline_rows_of_events_out_of_order_and_overlapping)
{
    const struct put one[] = {{1, 100, 10}, {2, 0, 100}, {1, 0, 50},  {2, 40, 20}, {1, 30, 5},
                              {1, 100, 0},  {2, 105, 9}, {9, 200, 1}, {1, 7, -1},  {1, INT64_MAX, 1}};
    const struct put two[] = {{1, -50, 60}, {2, 12, 100}, {1, ((int64_t)1 << 61) - 7, 3}};
    const struct put *lines[] = {one, two};
    struct shown s;
    struct error e;
    const char *path = write_profile("/device:GPU:0", lines, (size_t[]){10, 3}, 2);
    REQUIRE_OK(show(&s, path, (struct timeline_options){1000, 0, -1}, &e), &e);
    REQUIRE(s.l.n_planes == 1 && s.l.planes[0].n_lines == 3);
    CHECK_INT(s.l.impossible, 2);
    CHECK_INT(s.l.events, 11);
    CHECK_INT(s.l.length_ps, ((int64_t)1 << 61) - 4 + 50);
    for (size_t k = 0; k < 3; k++)
        check_line(&s.l.planes[0].lines[k]);
    CHECK_INT(s.l.planes[0].lines[0].rows[0].records[0].start_ps, 50);
    CHECK_INT(s.l.planes[0].lines[0].rows[0].records[0].duration_ps, 100);
    check_encoding(&s);
    // Picosecond by picosecond: when did any operation run?
    const struct timeline_line *busy = &s.l.planes[0].lines[2];
    uint8_t ran[400] = {0}, said[400] = {0};
    for (size_t i = 0; i < 10; i++) {
        for (int64_t t = one[i].offset_ps; i < 8 && t < one[i].offset_ps + one[i].duration_ps; t++)
            ran[t + 50] = 1;
    }
    for (size_t i = 0; i < 2; i++) {
        for (int64_t t = two[i].offset_ps; t < two[i].offset_ps + two[i].duration_ps; t++)
            ran[t + 50] = 1;
    }
    REQUIRE(busy->line == NULL && busy->n_rows == 1);
    for (size_t i = 0; i < busy->rows[0].n; i++) {
        const struct timeline_record *r = &busy->rows[0].records[i];
        for (int64_t t = r->start_ps; t < r->start_ps + r->duration_ps && t < 400; t++)
            said[t]++;
    }
    CHECK(memcmp(ran, said, sizeof ran) == 0);
    done(&s);
}

// The busy row of a device is the union that is reported elsewhere, on the same clock.
TEST(trace_timeline_busy_time_of_real_profiles)
{
    static const char *const files[] = {"tpu-v6e-4chip-inference.xplane.pb.gz", "gpu-mi300x-jax-conv.xplane.pb.gz",
                                        "gpu-gtx1080ti-2x.xplane.pb"};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        struct shown s;
        struct error e;
        struct trace_devices devices;
        size_t seen = 0;
        REQUIRE_OK(show(&s, fixture(files[f]), (struct timeline_options){1 << 20, 0, -1}, &e), &e);
        REQUIRE_OK(trace_find_devices(&s.trace, &devices, &e), &e);
        for (size_t i = 0; i < s.l.n_planes; i++) {
            for (size_t d = 0; d < devices.n; d++) {
                struct busy busy = {0};
                const struct timeline_plane *p = &s.l.planes[i];
                if (devices.items[d].plane != p->plane || !devices.items[d].n_lines)
                    continue;
                REQUIRE_OK(trace_device_busy(&devices.items[d], 0, CLOCK_OF_LINE, &busy, &e), &e);
                const struct timeline_row *row = &p->lines[p->n_lines - 1].rows[0];
                int64_t sum = 0;
                for (size_t k = 0; k < row->n; k++)
                    sum += row->records[k].duration_ps;
                CHECK(p->lines[p->n_lines - 1].line == NULL);
                CHECK_INT(sum, busy.busy_ps);
                seen++;
            }
        }
        CHECK(seen >= 1);
        done(&s);
    }
}

TEST(trace_timeline_texts_are_safe_in_a_script)
{
    const struct put one[] = {{1, 0, 5}, {2, 9, 5}};
    const struct put *lines[] = {one};
    struct shown s;
    struct error e;
    const char *path = write_profile("</script>", lines, (size_t[]){2}, 1);
    REQUIRE_OK(show(&s, path, (struct timeline_options){1000, 0, -1}, &e), &e);
    CHECK(strstr(s.e.json.text, "</script") == NULL);
    json_t *doc = document(&s);
    REQUIRE(doc);
    const char *plane = json_string_value(json_object_get(json_array_get(json_object_get(doc, "planes"), 0), "name"));
    CHECK_STR(plane, "</script>");
    // Both events have the same statistics, so they share one detail: [name, [text of a number beyond 2^53]].
    const json_t *details = json_object_get(doc, "details"), *strings = json_object_get(doc, "strings");
    REQUIRE(json_array_size(details) == 1);
    const json_t *value = json_array_get(json_array_get(json_array_get(details, 0), 1), 0);
    CHECK_STR(json_string_value(json_array_get(strings, (size_t)json_integer_value(value))), "18446744073709551612");
    json_decref(doc);
    done(&s);
}

// Blocks: as few records as asked for, and nothing lost in number and sum.
TEST(trace_timeline_blocks_hold_what_is_left_out)
{
    enum { MANY = 30000, FEW = 40 };
    struct put *many = calloc(MANY, sizeof *many), few[FEW];
    REQUIRE(many);
    int64_t at = 0, sum = 0;
    uint64_t state = 88172645463325252;
    for (size_t i = 0; i < MANY; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        many[i] = (struct put){1 + (int64_t)(state >> 60 & 1), at, (int64_t)(state % 997)};
        at += many[i].duration_ps + (int64_t)(state >> 20) % (i % 100 ? 50 : 100000);
        sum += many[i].duration_ps;
    }
    for (size_t i = 0; i < FEW; i++)
        few[i] = (struct put){2, (int64_t)i * 3, 2};
    const struct put *lines[] = {many, few};
    struct shown s;
    struct error e;
    const char *path = write_profile("/device:GPU:0", lines, (size_t[]){MANY, FEW}, 2);
    REQUIRE_OK(show(&s, path, (struct timeline_options){2000, 0, -1}, &e), &e);
    CHECK(s.l.records <= 1500); // three quarters, for devices
    CHECK(s.l.records > 500);
    CHECK_INT(s.l.events, MANY + FEW);
    const struct timeline_line *line = &s.l.planes[0].lines[0];
    int64_t busy = 0;
    uint64_t merged = 0;
    check_line(line);
    for (size_t i = 0; i < line->rows[0].n; i++) {
        const struct timeline_record *r = &line->rows[0].records[i];
        busy += r->busy_ps;
        merged += r->count > 1 ? r->count : 0;
        CHECK(r->count == 1 || r->duration_ps < line->cell_ps + 997); // starts in one cell
    }
    CHECK_INT(busy, sum);
    CHECK_INT(merged, s.l.merged);
    CHECK_INT(s.l.planes[0].lines[1].cell_ps, 0); // a line with few events is whole
    CHECK_INT(s.l.planes[0].lines[1].rows[0].n, FEW);
    check_encoding(&s);
    done(&s);
    // A window of it has its events apart.
    REQUIRE_OK(show(&s, path, (struct timeline_options){2000, many[100].offset_ps, many[300].offset_ps}, &e), &e);
    CHECK_INT(s.l.merged, 0);
    CHECK(s.l.events >= 201 && s.l.events <= 201 + FEW);
    CHECK_INT(s.l.events + s.l.outside, MANY + FEW);
    done(&s);
    CHECK_INT(show(&s, path, (struct timeline_options){2000, at * 2, -1}, &e), ERR_USAGE);
    done(&s);
    free(many);
}

// More at once than there are rows: the last one has the rest, in blocks.
TEST(trace_timeline_deep_nesting)
{
    enum { DEEP = TIMELINE_ROWS + 60 };
    struct put deep[DEEP];
    for (int64_t i = 0; i < DEEP; i++)
        deep[i] = (struct put){1, i, 2 * DEEP - 2 * i};
    const struct put *lines[] = {deep};
    struct shown s;
    struct error e;
    const char *path = write_profile("/host:CPU", lines, (size_t[]){DEEP}, 1);
    REQUIRE_OK(show(&s, path, (struct timeline_options){1000, 0, -1}, &e), &e);
    const struct timeline_line *line = &s.l.planes[0].lines[0];
    CHECK_INT(line->n_rows, TIMELINE_ROWS);
    CHECK_INT(line->rows[TIMELINE_ROWS - 1].n, 1);
    CHECK_INT(line->rows[TIMELINE_ROWS - 1].records[0].count, DEEP - TIMELINE_ROWS + 1);
    check_encoding(&s);
    done(&s);
}

TEST(trace_timeline_cell_is_the_smallest_that_fits)
{
    uint64_t apart[65] = {0}, n;
    apart[3] = 10;
    apart[7] = 5;
    apart[64] = 2;
    CHECK_INT(timeline_cell(apart, 17, &n), -1);
    CHECK_INT(n, 17);
    CHECK_INT(timeline_cell(apart, 16, &n), 3);
    CHECK_INT(n, 7);
    CHECK_INT(timeline_cell(apart, 6, &n), 7);
    CHECK_INT(n, 2);
    CHECK_INT(timeline_cell(apart, 0, &n), 62); // what starts on either side of zero stays apart
    CHECK_INT(n, 2);
}

// The text behind a detail's key, NULL without it.
static const char *detail_text(const json_t *doc, const json_t *detail, const char *key)
{
    const json_t *strings = json_object_get(doc, "strings");
    for (size_t i = 0; i + 1 < json_array_size(detail); i += 2) {
        const json_t *name = json_array_get(strings, (size_t)json_integer_value(json_array_get(detail, i)));
        const json_t *value = json_array_get(json_array_get(detail, i + 1), 0);
        if (strcmp(json_string_value(name), key) == 0)
            return json_string_value(json_array_get(strings, (size_t)json_integer_value(value)));
    }
    return NULL;
}

// A kernel's event has the HLO of the operation that it names, and of no other.
TEST(trace_timeline_events_have_their_hlo)
{
    struct shown s;
    struct error e;
    size_t right = 0, wrong = 0;
    REQUIRE_OK(show(&s, fixture("gpu-mi300x-jax-gemm.xplane.pb"), (struct timeline_options){1 << 20, 0, -1}, &e), &e);
    json_t *doc = document(&s);
    REQUIRE(doc);
    const json_t *details = json_object_get(doc, "details");
    for (size_t i = 0; i < json_array_size(details); i++) {
        const char *op = detail_text(doc, json_array_get(details, i), "hlo_op");
        const char *hlo = detail_text(doc, json_array_get(details, i), "HLO");
        if (!hlo)
            continue;
        hlo += strncmp(hlo, "ROOT ", 5) == 0 ? 5 : 0;
        bool same = op && *hlo == '%' && strncmp(hlo + 1, op, strlen(op)) == 0 && hlo[1 + strlen(op)] == ' ';
        *(same ? &right : &wrong) += 1;
    }
    CHECK(right > 10);
    CHECK_INT(wrong, 0);
    json_decref(doc);
    done(&s);
}

// Bands lie where the steps are, from the timeline's beginning.
TEST(trace_timeline_has_bands_for_steps)
{
    struct shown s;
    struct error e;
    struct trace_steps steps;
    size_t seen = 0, wrong = 0;
    REQUIRE_OK(show(&s, fixture("tpu-v6e-4chip-inference.xplane.pb.gz"), (struct timeline_options){1 << 20, 0, -1}, &e),
               &e);
    REQUIRE_OK(trace_steps(&s.trace, NULL, NULL, NULL, &steps, &e), &e);
    timeline_encoded_release(&s.e);
    REQUIRE_OK(timeline_encode(&s.e, &s.l, &s.trace, &steps, &e), &e);
    json_t *doc = document(&s);
    REQUIRE(doc);
    const json_t *planes = json_object_get(doc, "planes");
    for (size_t i = 0; i < json_array_size(planes); i++) {
        const json_t *bands = json_object_get(json_array_get(planes, i), "steps");
        for (size_t k = 0, at = 0; k < json_array_size(bands); k++, at++) {
            const char *start = json_string_value(json_array_get(json_array_get(bands, k), 1));
            while (at < steps.n && steps.modules.devices.items[steps.items[at].device].plane != s.l.planes[i].plane)
                at++;
            wrong += at >= steps.n || strtoll(start, NULL, 10) + s.l.zero_ps != steps.items[at].start_ps;
            seen++;
        }
    }
    CHECK_INT(seen, steps.n);
    CHECK(steps.n > 100);
    CHECK_INT(wrong, 0);
    json_decref(doc);
    trace_steps_release(&steps);
    done(&s);
}
