// SPDX-License-Identifier: Apache-2.0
// What HLO instructions have of their own, as XLA writes it (tests/oracle/hlo_cost.py) and as it should not be.
#include "ir/hlo_attributes.h"

#include <stdlib.h>

#include "base/pbwire.h"
#include "hlo_case.h"
#include "ir/hlo_cost.h"
#include "test.h"

static const struct hlo_instruction *root_of(const json_t *row, struct hlo_module *m, struct arena *arena)
{
    struct error e;
    return hlo_case(row, m, arena, &e) ? m->entry->root : NULL;
}

TEST(ir_hlo_attributes_replica_groups)
{
    json_t *fixture = fixture_json("ir/hlo_cost.json");
    const json_t *cases = json_object_get(fixture, "groups");
    CHECK(json_array_size(cases) >= 10);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *row = json_array_get(cases, i), *should = json_object_get(row, "lists");
        struct arena arena;
        struct hlo_module m;
        struct hlo_attributes a;
        struct hlo_numbers *lists;
        struct error e;
        size_t n;
        arena_init(&arena);
        const struct hlo_instruction *in = root_of(row, &m, &arena);
        REQUIRE(in);
        REQUIRE_OK(hlo_attributes_read(&a, &m, in, &arena, &e), &e);
        CHECK(a.channel == 1 && a.use_global_device_ids);
        REQUIRE_OK(hlo_groups_list(&a.groups, &arena, &lists, &n, &e), &e);
        CHECK_INT(n, json_array_size(should));
        CHECK_INT(a.groups.count, n);
        for (size_t k = 0; k < n; k++) {
            const json_t *list = json_array_get(should, k);
            CHECK_INT(lists[k].n, json_array_size(list));
            for (size_t d = 0; d < lists[k].n; d++)
                CHECK_INT(lists[k].at[d], json_integer_value(json_array_get(list, d)));
        }
        arena_release(&arena);
    }
    json_decref(fixture);
}

// An instruction with one field of bytes.
static struct hlo_instruction made(struct str *s, uint32_t field, const char *body, size_t size)
{
    str_clear(s);
    pb_put_bytes(s, field, body, size);
    return (struct hlo_instruction){.message = {(const uint8_t *)s->text, s->length}};
}

TEST(ir_hlo_attributes_groups_that_do_not_fit)
{
    struct str s;
    struct arena arena;
    struct hlo_attributes a;
    struct hlo_module m = {0};
    struct hlo_numbers *lists;
    struct error e;
    size_t n;
    str_init(&s);
    arena_init(&arena);
    // [3,2]<=[4]; [2^40,2^40]<=[1]; an axis that is not there; a part that does not divide its axis.
    const struct {
        uint32_t field;
        const char *body;
        size_t size;
    } bad[] = {{92, "\x08\x03\x10\x02\x1a\x01\x04", 7},
               {92, "\x08\x80\x80\x80\x80\x80\x20\x10\x80\x80\x80\x80\x80\x20\x1a\x01\x01", 17},
               {93, "\x0a\x05\x0a\x03\x10\x06\x12\x12\x02\x08\x05", 11},
               {93, "\x0a\x07\x0a\x05\x0a\x01x\x10\x06\x12\x06\x12\x04\x08\x01\x10\x04", 17}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct hlo_instruction in = made(&s, bad[i].field, bad[i].body, bad[i].size);
        REQUIRE_OK(hlo_attributes_read(&a, &m, &in, &arena, &e), &e);
        CHECK_INT(hlo_groups_list(&a.groups, &arena, &lists, &n, &e), ERR_INPUT);
    }
    arena_release(&arena);
    str_release(&s);
}

TEST(ir_hlo_attributes_backend_config)
{
    const struct slice payloads[] = {{(const uint8_t *)"a", 1}, {(const uint8_t *)"{}", 2}};
    struct hlo_module m = {.payloads = (struct slice *)(uintptr_t)payloads, .n_payloads = 2};
    struct str s;
    struct arena arena;
    struct hlo_attributes a;
    struct error e;
    str_init(&s);
    arena_init(&arena);
    // In place, as a payload of its own, as one of the module's, and one that the module does not have.
    const struct {
        uint32_t field;
        const char *body;
        const char *config;
    } cases[] = {{43, "x", "x"}, {99, "\x0a\x01y", "y"}, {99, "\x10\x01", "{}"}, {99, "\x10\x02", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hlo_instruction in = made(&s, cases[i].field, cases[i].body, strlen(cases[i].body));
        REQUIRE_OK(hlo_attributes_read(&a, &m, &in, &arena, &e), &e);
        CHECK_INT(a.backend_config.size, strlen(cases[i].config));
        CHECK(!a.backend_config.size || memcmp(a.backend_config.data, cases[i].config, a.backend_config.size) == 0);
    }
    arena_release(&arena);
    str_release(&s);
}

TEST(ir_hlo_attributes_trip_counts)
{
    const struct {
        const char *config;
        int64_t n; // -1: says none
    } cases[] = {{"{\"known_trip_count\":{\"n\":\"28\"}}", 28},
                 {"{\"known_trip_count\":{\"n\":3}}", 3},
                 {"{\"while\":{\"known_trip_count\":{\"n\":\"9223372036854775807\"}}}", INT64_MAX},
                 {"{\"known_trip_count\":{\"n\":\"-1\"}}", -1},
                 {"{\"known_trip_count\":{\"n\":\"28x\"}}", -1},
                 {"{\"known_trip_count\":28}", -1},
                 {"{\"known_trip", -1},
                 {"", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t n = -1;
        struct slice config = {(const uint8_t *)cases[i].config, strlen(cases[i].config)};
        bool known = hlo_known_trip_count(config, &n);
        CHECK(known == (cases[i].n >= 0) && (!known || n == cases[i].n));
    }
}
