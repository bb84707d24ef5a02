// SPDX-License-Identifier: Apache-2.0
// Which devices take part together, and what their links carried (tests/oracle/collectives.py).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hlo_case.h"
#include "made_trace.h"
#include "test.h"
#include "trace/collectives.h"

#define DEVICES 8
enum {
    APART_PS = 10,
    LAST_PS = 2000,
    STEP_PS = 10000
}; // starts of devices; the end of all; from one operation to the next

struct found {
    struct trace t;
    struct trace_collectives c;
    json_t *fixture;
    const json_t *operations;
    struct arena arena;
};

// A TPU's plane says which of all cores it is: CoreDetails 6.
static void say_core(struct made *m, int64_t core)
{
    uint8_t details[] = {6 << 3, (uint8_t)core};
    made_bytes(m, "core_details", (struct slice){details, sizeof details});
}

// Device d comes to each operation d times 10 later than the first one; all end at once. Planes stand in falling order
// of cores `first` to `last`.
static void run(struct found *f, int64_t first, int64_t last, bool cores)
{
    struct made m;
    struct error e = {0};
    const char *name, *path;
    json_t *row;
    *f = (struct found){.fixture = fixture_json("ir/collectives.json")};
    arena_init(&f->arena);
    f->operations = json_object_get(f->fixture, "operations");
    made_begin(&m);
    for (int64_t d = last; d >= first; d--) {
        char plane[32];
        int64_t at = 0;
        snprintf(plane, sizeof plane, "/device:TPU:%d", cores ? (int)(last - d) : (int)d);
        made_plane(&m, plane);
        if (cores)
            say_core(&m, d);
        made_line(&m, "XLA Ops", 0);
        json_object_foreach(json_object_get(f->fixture, "operations"), name, row)
        {
            bool started = strcmp(name, "started") == 0;
            int64_t from = at + d * APART_PS;
            made_event(&m, name, from, started ? 1 : at + LAST_PS - from);
            made_number(&m, "program_id", 7);
            if (started) {
                made_event(&m, "ended", at + LAST_PS - 1, 1);
                made_number(&m, "program_id", 7);
            }
            at += STEP_PS;
        }
    }
    made_program(&m, "m(7)", hlo_case_bytes(f->fixture, "module", &f->arena, &e));
    path = made_end(&m, "groups");
    REQUIRE_OK(trace_open(&f->t, &path, 1, &e), &e);
    REQUIRE_OK(trace_collectives(&f->t, false, &f->c, &e), &e);
    CHECK_INT(f->c.n_rows, json_object_size(f->operations));
}

static void done(struct found *f)
{
    trace_collectives_release(&f->c);
    trace_close(&f->t);
    json_decref(f->fixture);
    arena_release(&f->arena);
}

static bool same_groups(const struct trace_group_set *s, const json_t *groups)
{
    bool same = s && s->n_groups == json_array_size(groups);
    for (size_t i = 0; same && i < s->n_groups; i++) {
        const json_t *g = json_array_get(groups, i);
        same = s->groups[i].n == json_array_size(g);
        for (size_t k = 0; same && k < s->groups[i].n; k++)
            same = s->groups[i].at[k] == json_integer_value(json_array_get(g, k));
    }
    return same;
}

// What the groups and the times that were written say: of those devices from `first` to `last` that have a partner
// there.
static void check_row(const struct trace_collective *r, const json_t *want, int64_t first, int64_t last)
{
    const json_t *groups = json_object_get(want, "groups");
    int64_t wait = 0, transfer = 0, matched = 0, partial = 0;
    for (size_t i = 0; i < json_array_size(groups); i++) {
        const json_t *g = json_array_get(groups, i);
        int64_t latest = -1, n = 0;
        for (int pass = 0; pass < 2; pass++) {
            for (size_t k = 0; k < json_array_size(g); k++) {
                int64_t d = json_integer_value(json_array_get(g, k));
                if (d < first || d > last)
                    continue;
                if (pass && n > 1) {
                    wait += (latest - d) * APART_PS;
                    transfer += LAST_PS - latest * APART_PS;
                    matched++;
                    partial += n < (int64_t)json_array_size(g);
                }
                n += !pass;
                latest = d > latest ? d : latest;
            }
        }
    }
    CHECK_STR(r->kind, json_string_value(json_object_get(want, "kind")));
    CHECK(same_groups(r->set, groups));
    CHECK_INT(r->groups, json_array_size(groups));
    CHECK_INT(r->bytes, json_integer_value(json_object_get(want, "size")));
    CHECK_INT(r->devices, last - first + 1);
    CHECK_INT(r->times.matched, matched);
    CHECK_INT(r->times.partial, partial);
    CHECK_INT(r->times.wait_ps, wait);
    CHECK_INT(r->times.transfer_ps, transfer);
    double factor = fixture_number(want, "factor"), rate = trace_collective_rate(r);
    CHECK(trace_bus_factor(r->kind, r->group_size) == factor);
    if (matched) {
        CHECK(rate == (double)r->bytes * (double)matched / ((double)transfer * 1e-12));
        CHECK(trace_collective_bus_rate(r) == rate * factor);
    } else {
        CHECK(isnan(rate));
    }
}

static void check_all(const struct found *f, int64_t first, int64_t last)
{
    for (size_t i = 0; i < f->c.n_rows; i++) {
        const struct trace_collective *r = &f->c.rows[i];
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)r->name.size, (const char *)r->name.data);
        const json_t *want = json_object_get(f->operations, name);
        REQUIRE(want);
        check_row(r, want, first, last);
    }
}

TEST(trace_collectives_groups_of_all_devices)
{
    struct found f;
    run(&f, 0, DEVICES - 1, true);
    for (size_t i = 0; i < f.c.found.n; i++)
        CHECK_INT(f.c.devices[i].number, DEVICES - 1 - i);
    check_all(&f, 0, DEVICES - 1);
    done(&f);
}

// The other host's devices are not in the profile, and these are called 0 to 3.
TEST(trace_collectives_groups_of_one_host)
{
    struct found f;
    run(&f, 4, DEVICES - 1, true);
    check_all(&f, 4, DEVICES - 1);
    done(&f);
}

// Where planes do not say who they are, their names do.
TEST(trace_collectives_groups_by_name)
{
    struct found f;
    run(&f, 0, DEVICES - 1, false);
    check_all(&f, 0, DEVICES - 1);
    done(&f);
}

// Rows of one kind, size and group are one; nothing is lost.
TEST(trace_collectives_by_kind)
{
    struct found f;
    uint64_t runs = 0, operations = 0;
    int64_t total = 0;
    run(&f, 0, DEVICES - 1, true);
    for (size_t i = 0; i < f.c.n_kinds; i++) {
        const struct trace_collective *k = &f.c.kinds[i];
        runs += k->times.runs;
        total += k->times.total_ps;
        operations += k->operations;
        for (size_t j = 0; j < i; j++)
            CHECK(strcmp(f.c.kinds[j].kind, k->kind) != 0 || f.c.kinds[j].bytes != k->bytes ||
                  f.c.kinds[j].set != k->set);
        if (i)
            CHECK(f.c.kinds[i - 1].times.total_ps >= k->times.total_ps);
    }
    CHECK_INT(operations, f.c.n_rows);
    CHECK_INT(runs, DEVICES * f.c.n_rows);
    for (size_t i = 0; i < f.c.n_rows; i++)
        total -= f.c.rows[i].times.total_ps;
    CHECK_INT(total, 0);
    // "replicas" and "all_replicas" say the same in two ways.
    CHECK(f.c.n_kinds == f.c.n_rows - 1);
    done(&f);
}

TEST(trace_collectives_groups_as_text)
{
    int64_t a[] = {0, 1, 2, 3, 8}, b[] = {4, 6};
    struct hlo_numbers groups[] = {{a, 5, 5}, {b, 2, 2}};
    const struct trace_group_set s = {.groups = groups, .n_groups = 2};
    struct str text;
    str_init(&text);
    trace_group_text(&text, &s, 30);
    CHECK_STR(str_text(&text), "{0-3,8} {4,6}");
    str_clear(&text);
    trace_group_text(&text, &s, 8);
    CHECK_STR(str_text(&text), "{0-3,8} and 1 more");
    str_release(&text);
}

// Half of all links in both directions; nothing for a device that is not in the table, or for two kinds.
TEST(trace_collectives_links_of_the_chip_table)
{
    const struct chip *chip, *other;
    struct error e = {0};
    REQUIRE_OK(chip_find("v6e", &chip, &e), &e);
    REQUIRE_OK(chip_find("h100", &other, &e), &e);
    struct trace_device devices[] = {{.chip = chip}, {.chip = chip}};
    struct trace_collectives c = {.found = {.items = devices, .n = 2}};
    CHECK(trace_collectives_links(&c).value == chip_interconnect(chip).value / 2);
    CHECK_INT(trace_collectives_links(&c).origin, ORIGIN_DERIVED);
    devices[1].chip = other;
    CHECK(isnan(trace_collectives_links(&c).value));
    devices[1].chip = NULL;
    CHECK(isnan(trace_collectives_links(&c).value));
    c.found.n = 0;
    CHECK(isnan(trace_collectives_links(&c).value));
}
