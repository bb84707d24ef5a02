// SPDX-License-Identifier: Apache-2.0
#include "trace/xspace.h"

#include <stdlib.h>

#include "base/str.h"
#include "test.h"

// A space as a writer makes one: `fields` in the order of their numbers.
struct made {
    struct str bytes;
    struct arena arena;
    struct xspace space;
};

static void row(struct str *s, uint32_t table, int64_t id, const char *name, const char *display)
{
    size_t entry = pb_begin(s, table);
    pb_put_int(s, 1, id);
    size_t message = pb_begin(s, 2);
    pb_put_int(s, 1, id);
    pb_put_string(s, 2, name);
    if (display)
        pb_put_string(s, 4, display);
    pb_end(s, message);
    pb_end(s, entry);
}

static void event(struct str *s, int64_t id, int64_t offset_ps, int64_t duration_ps)
{
    size_t at = pb_begin(s, 4);
    pb_put_int(s, 1, id);
    pb_put_int(s, 2, offset_ps);
    pb_put_int(s, 3, duration_ps);
    size_t stat = pb_begin(s, 4);
    pb_put_int(s, 1, 7);
    pb_put_uint(s, 3, 1ull << 63);
    pb_end(s, stat);
    stat = pb_begin(s, 4);
    pb_put_int(s, 1, 8);
    pb_put_uint(s, 7, 9); // the name of row 9
    pb_end(s, stat);
    pb_end(s, at);
}

static void make(struct made *m)
{
    struct str *s = &m->bytes;
    str_init(s);
    size_t plane = pb_begin(s, 1);
    pb_put_int(s, 1, 2);
    pb_put_string(s, 2, "/device:TPU:0");
    size_t line = pb_begin(s, 3);
    pb_put_int(s, 1, -559038737);
    pb_put_string(s, 2, "XLA Ops");
    pb_put_int(s, 3, 1700000000000000000);
    event(s, 1, 5, 10);
    event(s, -8111111111111111111, -3, 1ll << 62);
    event(s, 1ll << 40, 0, 0);
    pb_put_int(s, 9, 77);
    pb_end(s, line);
    row(s, 4, 1, "%a = f32[] add()", "a");
    row(s, 4, -8111111111111111111, "b", NULL);
    row(s, 4, 1ll << 40, "c", NULL);
    row(s, 4, 1ll << 40, "c again", NULL);
    row(s, 5, 7, "number", NULL);
    row(s, 5, 8, "text", NULL);
    row(s, 5, 9, "referred \xff", NULL);
    size_t stat = pb_begin(s, 6);
    pb_put_int(s, 1, 7);
    pb_put_double(s, 2, 918.5);
    pb_end(s, stat);
    pb_end(s, plane);
    pb_put_string(s, 2, "an error");
    pb_put_string(s, 3, "a warning");
    pb_put_string(s, 4, "host");
    arena_init(&m->arena);
}

static int reread(struct made *m, size_t size, struct error *err)
{
    arena_release(&m->arena);
    arena_init(&m->arena);
    return xspace_read(&m->space, str_text(&m->bytes), size, "a.xplane.pb", &m->arena, err);
}

static void release(struct made *m)
{
    arena_release(&m->arena);
    str_release(&m->bytes);
}

TEST(trace_xspace_reads_what_a_writer_wrote)
{
    struct error e = {0};
    struct made m;
    make(&m);
    REQUIRE_OK(reread(&m, m.bytes.length, &e), &e);
    CHECK(!m.space.damage.what);
    CHECK_INT(m.space.n_planes, 1);
    CHECK(m.space.n_errors == 1 && slice_is(m.space.errors[0], "an error"));
    CHECK(m.space.n_warnings == 1 && slice_is(m.space.warnings[0], "a warning"));
    CHECK(m.space.n_hosts == 1 && slice_is(m.space.hosts[0], "host"));
    CHECK(!xspace_plane(&m.space, "/host:CPU"));
    const struct xplane *p = xspace_plane(&m.space, "/device:TPU:0");
    REQUIRE(p && p->n_lines == 1 && p->n_stats == 1);
    CHECK_INT(p->id, 2);
    struct xline *l = &p->lines[0];
    CHECK(slice_is(l->name, "XLA Ops") && l->id == -559038737 && l->timestamp_ns == 1700000000000000000);

    static const struct {
        int64_t id, offset, duration;
        const char *name;
    } expected[] = {{1, 5, 10, "%a = f32[] add()"}, // an id far away from the others makes all of them searched for
                    {-8111111111111111111, -3, 1ll << 62, "b"},
                    {1ll << 40, 0, 0, "c again"}};
    struct xevents walk = xline_events(l);
    struct xevent v;
    size_t n = 0;
    for (; xevent_next(&walk, &v); n++) {
        REQUIRE(n < 3);
        CHECK_INT(v.metadata_id, expected[n].id);
        CHECK_INT(v.offset_ps, expected[n].offset);
        CHECK_INT(v.duration_ps, expected[n].duration);
        CHECK_INT(v.occurrences, 0);
        const struct xmeta *row = xtable_find(&p->event_table, v.metadata_id);
        REQUIRE(row);
        CHECK(slice_is(row->name, expected[n].name));
        struct xstats stats = xevent_stats(p, &v);
        struct xstat s;
        REQUIRE(xstat_next(&stats, &s));
        CHECK(s.metadata_id == 7 && s.kind == XSTAT_UINT && s.unsigned_number == 1ull << 63);
        REQUIRE(xstat_next(&stats, &s));
        CHECK(s.metadata_id == 8 && s.kind == XSTAT_TEXT && slice_is(s.bytes, "referred \xff"));
        CHECK(!xstat_next(&stats, &s));
    }
    CHECK_INT(n, 3);
    CHECK_INT(l->duration_ps, 77);
    CHECK(!walk.damage && !walk.body.damage);
    CHECK(slice_is(xtable_find(&p->event_table, 1)->display_name, "a"));
    CHECK(!xtable_find(&p->event_table, 2));
    CHECK(!xtable_find(&p->stat_table, 6) && !xtable_find(&p->stat_table, INT64_MIN));
    struct xstat s;
    xstat_read(&s, p, p->stats[0]);
    CHECK(s.metadata_id == 7 && s.kind == XSTAT_DOUBLE && s.number == 918.5);
    release(&m);
}

// However much of a file is left: what lies before its end is used, and the damage is named.
TEST(trace_xspace_cut_anywhere)
{
    struct made m;
    make(&m);
    size_t most = 0, whole = 0;
    for (size_t size = 0; size < m.bytes.length; size++) {
        struct error e = {0};
        // A copy of its own, so that a sanitizer sees a byte too many.
        uint8_t *cut = malloc(size + 1);
        REQUIRE(cut);
        memcpy(cut, str_text(&m.bytes), size);
        uint8_t *tight = realloc(cut, size ? size : 1);
        REQUIRE(tight);
        arena_release(&m.arena);
        arena_init(&m.arena);
        int rc = xspace_read(&m.space, tight, size, "a.xplane.pb", &m.arena, &e);
        size_t events = 0;
        if (rc) {
            CHECK_INT(rc, ERR_INPUT);
            CHECK(most == 0); // before the plane's name is whole there is nothing to go by
        } else if (m.space.planes[0].n_lines) {
            struct xevents walk = xline_events(&m.space.planes[0].lines[0]);
            struct xevent v;
            while (xevent_next(&walk, &v))
                events++;
            xevents_damage(&m.space, &walk, &m.space.damage);
        }
        whole += !rc && !m.space.damage.what;
        CHECK(rc || !m.space.damage.what || m.space.damage.offset < size);
        CHECK(events >= most);
        most = events > most ? events : most;
        free(tight);
    }
    CHECK_INT(most, 3);
    CHECK_INT(whole, 3); // cuts between the four fields of the space itself
    release(&m);
}

static int read_hex(const char *bytes, size_t size, struct xspace *space, struct arena *arena, struct error *err)
{
    *err = (struct error){0};
    return xspace_read(space, bytes, size, "a.xplane.pb", arena, err);
}
#define READ(bytes) read_hex(bytes, sizeof(bytes) - 1, &space, &arena, &e)

TEST(trace_xspace_names_damage)
{
    struct error e = {0};
    struct xspace space;
    struct arena arena;
    arena_init(&arena);
    CHECK_INT(READ(""), ERR_INPUT);
    CHECK_STR(e.message, "is empty: the profiler wrote nothing");
    CHECK_INT(READ("\x89PNG\r\n\x1a\n"), ERR_INPUT);
    CHECK_STR(e.message, "is not a profile (XSpace, *.xplane.pb): a number of 8 bytes is cut off");
    CHECK_INT(READ("hello, world: a text"), ERR_INPUT);
    // A plane "p" and then a field 0; a group; a field number that does not end; an integer of eleven bytes.
    CHECK_INT(READ("\x0a\x03\x12\x01p\x00"), 0);
    CHECK(space.damage.offset == 5 && space.damage.count == 1);
    CHECK_STR(space.damage.what, "a field's number is out of range");
    CHECK_INT(READ("\x0a\x03\x12\x01p\x0b"), 0);
    CHECK_STR(space.damage.what, "a field's wire type is unknown");
    CHECK_INT(READ("\x0a\x03\x12\x01p\x80\x80"), 0);
    CHECK_STR(space.damage.what, "a field's number does not end");
    CHECK_INT(READ("\x0a\x03\x12\x01p\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), 0);
    CHECK_STR(space.damage.what, "an integer does not end");
    // Damage within one plane leaves the next one whole; two places are counted, the first is named.
    CHECK_INT(READ("\x0a\x05\x12\x01p\x2a\x7f\x0a\x03\x12\x01q\x00"), 0);
    CHECK_INT(space.n_planes, 2);
    CHECK(slice_is(space.planes[1].name, "q"));
    CHECK(space.damage.count == 2 && space.damage.offset == 5);
    // Known fields of another wire type are unknown fields.
    CHECK_INT(READ("\x0a\x07\x12\x01p\x18\x05\x20\x10"), 0);
    CHECK(!space.damage.what && space.planes[0].n_lines == 0);
    arena_release(&arena);
}

// A line may say everything after its events, and an event its time after its statistics.
TEST(trace_xspace_fields_in_any_order)
{
    struct error e = {0};
    struct xspace space;
    struct arena arena;
    arena_init(&arena);
    CHECK_INT(READ("\x0a\x10\x1a\x0b\x22\x06\x22\x00\x18\x09\x08\x03\x12\x01l\x12\x01p"), 0);
    REQUIRE(space.n_planes == 1 && space.planes[0].n_lines == 1);
    CHECK(slice_is(space.planes[0].name, "p"));
    struct xline *l = &space.planes[0].lines[0];
    CHECK(slice_is(l->name, "l"));
    struct xevents walk = xline_events(l);
    struct xevent v = {0};
    REQUIRE(xevent_next(&walk, &v));
    CHECK(v.metadata_id == 3 && v.duration_ps == 9 && v.offset_ps == 0);
    struct xstats stats = xevent_stats(&space.planes[0], &v);
    struct xstat s;
    CHECK(xstat_next(&stats, &s) && s.kind == XSTAT_NONE);
    CHECK(!xstat_next(&stats, &s));
    CHECK(!xevent_next(&walk, &v));
    arena_release(&arena);
}
