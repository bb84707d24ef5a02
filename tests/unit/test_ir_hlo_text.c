// SPDX-License-Identifier: Apache-2.0
// HLO text against XLA's own, byte for byte (tests/oracle/hlo_cost.py, tests/oracle/hlo_text.py).
#include "ir/hlo_text.h"

#include <stdlib.h>

#include "hlo_case.h"
#include "test.h"

static bool print(const json_t *row, struct str *text)
{
    struct arena arena;
    struct hlo_module m;
    struct error e = {0};
    arena_init(&arena);
    str_init(text);
    bool ok = hlo_case(row, &m, &arena, &e) && hlo_text_module(text, &m, &e) == 0;
    arena_release(&arena);
    return ok;
}

// Computations begin behind the head and, where there are any, the tables of stack frames.
static const char *computations(const char *text)
{
    const char *tables = strstr(text, "\nStackFrames\n"), *end = strstr(tables ? tables + 2 : text, "\n\n");
    return end ? end + strspn(end, "\n") : "";
}

// XLA orders the computations of a compiled module anew when it prints them.
static void same_computations(const char *here, const char *xla)
{
    CHECK_INT(strlen(here), strlen(xla));
    for (const char *end; *xla; xla = end + 2) {
        end = strstr(xla, "\n\n");
        REQUIRE(end);
        char *one = strndup(xla, (size_t)(end - xla) + 2);
        CHECK(strstr(here, one));
        free(one);
    }
}

TEST(ir_hlo_text_equals_xla)
{
    json_t *fixture = fixture_json("ir/hlo_cost.json");
    const char *name;
    json_t *row;
    json_object_foreach(json_object_get(fixture, "cases"), name, row)
    {
        struct str text, xla;
        str_init(&xla);
        REQUIRE(print(row, &text));
        str_addf(&xla, "%s\n", json_string_value(json_object_get(row, "text")));
        CHECK(strncmp(str_text(&text), "HloModule ", 10) == 0);
        if (strncmp(name, "jax_", 4) == 0)
            same_computations(computations(str_text(&text)), str_text(&xla));
        else
            CHECK_STR(computations(str_text(&text)), str_text(&xla));
        CHECK(strstr(str_text(&text), json_string_value(json_object_get(row, "frames"))));
        str_release(&text);
        str_release(&xla);
    }
    json_decref(fixture);
}

// XLA's text of a module that it read from a file has neither our number of partitions, which it takes from elsewhere,
// nor the file's tables.
static void same_but_for_the_reading(const char *here, const char *xla)
{
    const char *partitions = strstr(here, ", num_partitions="), *line = strchr(here, '\n');
    const char *after = partitions && partitions < line ? strpbrk(partitions + 2, ",\n") : NULL;
    size_t head = (size_t)((after ? partitions : line) - here);
    CHECK_INT(strncmp(here, xla, head), 0);
    if (after)
        CHECK_INT(strncmp(after, xla + head, (size_t)(line - after)), 0);
    CHECK_STR(computations(here), computations(xla));
}

TEST(ir_hlo_text_of_modules_equals_xla)
{
    json_t *fixture = fixture_json("ir/hlo_text.json");
    const char *name;
    json_t *row;
    json_object_foreach(json_object_get(fixture, "cases"), name, row)
    {
        const char *xla = json_string_value(json_object_get(row, "text"));
        struct str text;
        REQUIRE(print(row, &text));
        if (strchr(name, ' ')) // of a recorded profile
            same_but_for_the_reading(str_text(&text), xla);
        else
            CHECK_STR(str_text(&text), xla);
        str_release(&text);
    }
    json_decref(fixture);
}
