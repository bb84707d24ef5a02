// SPDX-License-Identifier: Apache-2.0
// HLO cost against XLA's own analysis (tests/oracle/hlo_cost.py); the fixture names what is counted otherwise and why.
#include "ir/hlo_cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hlo_case.h"
#include "ir/hlo_parse.h"
#include "test.h"

static void compare(const char *name, const char *what, double is, const json_t *should)
{
    bool unknown = json_is_null(should);
    double v = json_number_value(should);
    // XLA sums in 32-bit floats, exact below 2^24, where all of these are.
    if (unknown ? !isnan(is) : is != v) {
        fprintf(stderr, "%s: %s is %.17g\n", name, what, is);
        CHECK_NEAR(is, unknown ? NAN : v, 0);
        CHECK(!unknown);
    }
}

TEST(ir_hlo_cost_equals_xla)
{
    json_t *fixture = fixture_json("ir/hlo_cost.json");
    const char *name;
    json_t *row;
    size_t n = 0;
    REQUIRE(fixture);
    json_object_foreach(json_object_get(fixture, "cases"), name, row)
    {
        struct arena arena;
        struct hlo_module m;
        struct hlo_costs costs;
        struct error e = {0};
        arena_init(&arena);
        REQUIRE(hlo_case(row, &m, &arena, &e));
        REQUIRE_OK(hlo_costs_init(&costs, &m, &arena, &e), &e);
        const struct hlo_cost *c = hlo_cost_module(&costs);
        const json_t *here = json_object_get(row, "here");
        const json_t *should = here ? here : json_object_get(row, "xla");
        compare(name, "FLOP", hlo_cost_flop(c), json_array_get(should, 0));
        compare(name, "transcendentals", c->transcendentals, json_array_get(should, 1));
        compare(name, "bytes", hlo_cost_bytes(c), json_array_get(should, 2));
        arena_release(&arena);
        n++;
    }
    CHECK_INT(n, json_object_size(json_object_get(fixture, "cases")));
    json_decref(fixture);
}

static double number(const json_t *row, const char *key, size_t i)
{
    return json_number_value(json_array_get(json_object_get(row, key), i));
}

// Where XLA's analysis is wrong the fixture has both: a loop's body counted once, views billed, and calls that make the
// sum negative. (That what is right is what is computed here is tested above.)
TEST(ir_hlo_cost_where_xla_is_wrong)
{
    json_t *fixture = fixture_json("ir/hlo_cost.json");
    const json_t *cases = json_object_get(fixture, "cases"), *row;
    static const char *const loops[] = {"while_known", "while_turned", "jax_scan"};
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
        row = json_object_get(cases, loops[i]);
        CHECK(number(row, "xla", 0) > 0 && number(row, "here", 0) > 1.5 * number(row, "xla", 0));
    }
    row = json_object_get(cases, "bitcast-convert");
    CHECK(number(row, "xla", 0) > 0 && number(row, "xla", 2) > 0);
    CHECK(number(row, "here", 0) == 0 && number(row, "here", 2) == 0);
    row = json_object_get(cases, "fusion_bitcast");
    CHECK(number(row, "xla", 2) > number(row, "here", 2));
    row = json_object_get(cases, "concat_bitcast");
    CHECK_NEAR(number(row, "xla", 0), -1, 0);
    CHECK_NEAR(number(row, "xla", 2), -1, 0);
    CHECK(number(row, "here", 0) == 0 && number(row, "here", 2) == 0);
    row = json_object_get(cases, "concat_bitcast_beside");
    CHECK_NEAR(number(row, "here", 0) - number(row, "xla", 0), 1, 0);
    json_decref(fixture);
}

// Of a stack of codes that libtpu puts into other tiles inside the fusion, only the layer that is cut out is read; of
// one that is used whole, all of it.
TEST(ir_hlo_cost_of_a_layer_behind_a_copy)
{
    static const char format[] = "HloModule m, is_scheduled=true\n\n"
                                 "%%tiles (a: s8[9,64,32]) -> s8[9,64,32] {\n"
                                 "  %%a = s8[9,64,32]{2,1,0} parameter(0)\n"
                                 "  ROOT %%copy = s8[9,64,32]{2,1,0} copy(%%a)\n}\n\n"
                                 "%%inner (p: s8[9,64,32], i: s32[]) -> s8[%s] {\n"
                                 "  %%p = s8[9,64,32]{2,1,0} parameter(0)\n"
                                 "  %%i = s32[] parameter(1)\n"
                                 "  %%zero = s32[] constant(0)\n"
                                 "  %%tiled = s8[9,64,32]{2,1,0} fusion(%%p), kind=kLoop, calls=%%tiles\n"
                                 "  ROOT %%out = s8[%s]{2,1,0} %s\n}\n\n"
                                 "ENTRY %%main (x: s8[9,64,32], k: s32[]) -> s8[%s] {\n"
                                 "  %%x = s8[9,64,32]{2,1,0} parameter(0)\n"
                                 "  %%k = s32[] parameter(1)\n"
                                 "  ROOT %%r = s8[%s]{2,1,0} fusion(%%x, %%k), kind=kLoop, calls=%%inner\n}\n";
    static const struct {
        const char *shape, *operation;
        double read;
    } cases[] = {
        {"1,64,32", "dynamic-slice(%tiled, %i, %zero, %zero), dynamic_slice_sizes={1,64,32}", 64 * 32},
        {"9,64,32", "negate(%tiled)", 9 * 64 * 32},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *shape = cases[i].shape;
        char text[2048];
        struct arena arena;
        struct hlo_module m;
        struct hlo_costs costs;
        struct error e = {0};
        arena_init(&arena);
        snprintf(text, sizeof text, format, shape, shape, cases[i].operation, shape, shape);
        REQUIRE_OK(hlo_read_any(&m, text, strlen(text), "a test", false, NULL, &arena, &e), &e);
        REQUIRE_OK(hlo_costs_init(&costs, &m, &arena, &e), &e);
        CHECK_NEAR(hlo_cost_read_bytes(&costs, m.entry->root, 0), cases[i].read, 0);
        arena_release(&arena);
    }
}
