// SPDX-License-Identifier: Apache-2.0
// HLO text against XLA's own, byte for byte (tests/oracle/hlo_cost.py).
#include "ir/hlo_text.h"

#include <stdlib.h>

#include "hlo_case.h"
#include "test.h"

static void same_lines(const char *here, const char *xla)
{
    CHECK_INT(strlen(here), strlen(xla));
    for (const char *end; *xla; xla = end + 1) {
        end = strchr(xla, '\n');
        REQUIRE(end);
        char *line = strndup(xla, (size_t)(end - xla) + 1);
        CHECK(strstr(here, line));
        free(line);
    }
}

TEST(ir_hlo_text_equals_xla)
{
    json_t *fixture = fixture_json("ir/hlo_cost.json");
    const char *name;
    json_t *row;
    json_object_foreach(json_object_get(fixture, "cases"), name, row)
    {
        struct arena arena;
        struct hlo_module m;
        struct str text;
        struct error e = {0};
        arena_init(&arena);
        str_init(&text);
        REQUIRE(hlo_case(row, &m, &arena, &e));
        for (size_t i = 0; i < m.n_computations; i++) {
            if (i)
                str_add_char(&text, '\n');
            REQUIRE_OK(hlo_text_computation(&text, &m, &m.computations[i], &e), &e);
        }
        const char *xla = json_string_value(json_object_get(row, "text"));
        if (strncmp(name, "jax_", 4) == 0)
            same_lines(str_text(&text), xla); // XLA writes scheduled modules in the order of the schedule
        else if (strcmp(name, "async") != 0)  // XLA leaves out the computation that the operation wraps
            CHECK_STR(str_text(&text), xla);
        str_clear(&text);
        REQUIRE_OK(hlo_text_module(&text, &m, &e), &e);
        CHECK(strncmp(str_text(&text), "HloModule ", 10) == 0);
        CHECK(strstr(str_text(&text), json_string_value(json_object_get(row, "frames"))));
        str_release(&text);
        arena_release(&arena);
    }
    json_decref(fixture);
}
