// SPDX-License-Identifier: Apache-2.0
// Files that tests/oracle/npz.py made: what numpy reads from the good ones, and what is wrong with the others.
#include <stdlib.h>

#include "base/file.h"
#include "fixture.h"
#include "io/npz.h"
#include "test.h"

static json_t *expected(const char *key)
{
    json_t *root = fixture_json("io/npz/expected.json"), *part = json_incref(json_object_get(root, key));
    json_decref(root);
    return part;
}

static const char *path_of(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "io/npz/%s", name);
    return fixture_path(path);
}

static void compare(const struct npz *z, const struct npz_array *a, const json_t *want)
{
    const json_t *shape = json_object_get(want, "shape");
    const char *hex = json_string_value(json_object_get(want, "data"));
    struct error e = {0};
    CHECK_STR(a->name, json_string_value(json_object_get(want, "name")));
    CHECK_STR(dtype_name(a->dtype), json_string_value(json_object_get(want, "type")));
    REQUIRE(CHECK_INT(a->rank, json_array_size(shape)));
    for (int d = 0; d < a->rank; d++)
        CHECK_INT(a->dims[d], json_integer_value(json_array_get(shape, (size_t)d)));
    uint8_t *bytes = malloc(a->bytes + 1);
    char *got = calloc(1, a->bytes * 2 + 1);
    REQUIRE(bytes && got);
    REQUIRE_OK(npz_read(z, a, bytes, &e), &e);
    bool zeros = true;
    for (size_t i = 0; i < a->bytes; i++) {
        zeros &= bytes[i] == 0;
        snprintf(got + 2 * i, 3, "%02x", bytes[i]);
    }
    if (!*hex && a->bytes)
        CHECK(zeros);
    else
        CHECK_STR(got, hex);
    free(bytes);
    free(got);
}

TEST(io_npz_reads_what_numpy_reads)
{
    json_t *good = expected("good"), *arrays;
    const char *name;
    json_object_foreach(good, name, arrays)
    {
        struct npz z;
        struct error e = {0};
        REQUIRE_OK(npz_open(&z, path_of(name), &e), &e);
        REQUIRE(CHECK_INT(z.count, json_array_size(arrays)));
        for (size_t i = 0; i < z.count; i++) {
            compare(&z, &z.arrays[i], json_array_get(arrays, i));
            CHECK(npz_find(&z, z.arrays[i].name) == &z.arrays[i]);
        }
        CHECK(!npz_find(&z, "nothing"));
        npz_close(&z);
    }
    json_decref(good);
}

TEST(io_npz_refuses_damaged_files)
{
    json_t *bad = expected("bad"), *why;
    const char *name;
    json_object_foreach(bad, name, why)
    {
        struct npz z;
        struct error e = {0};
        int rc = npz_open(&z, path_of(name), &e);
        if (!rc) { // the data is looked at where it is read
            uint8_t *bytes = malloc(z.arrays[0].bytes + 1);
            rc = bytes ? npz_read(&z, &z.arrays[0], bytes, &e) : 0;
            free(bytes);
            npz_close(&z);
        }
        CHECK_INT(rc, ERR_INPUT);
        if (!strstr(e.message, json_string_value(why)))
            CHECK_STR(e.message, json_string_value(why));
        CHECK(strstr(e.where, name));
    }
    json_decref(bad);
}

// No beginning of a file is a file.
TEST(io_npz_survives_any_cut)
{
    struct str whole;
    struct error e = {0};
    str_init(&whole);
    REQUIRE_OK(file_read(&whole, path_of("shapes_packed.npz"), 1 << 20, &e), &e);
    for (size_t n = 0; n < whole.length; n++) {
        struct npz z;
        error_clear(&e);
        int rc = npz_open_memory(&z, whole.text, n, "cut", &e);
        if (!CHECK_INT(rc, ERR_INPUT))
            break;
    }
    str_release(&whole);
}

// Somebody writes a shorter file over one that is open.
TEST(io_npz_says_that_a_file_was_cut)
{
    struct str whole;
    struct error e = {0};
    struct npz z;
    const char *path = test_below("a.npz");
    str_init(&whole);
    REQUIRE_OK(file_read(&whole, path_of("long.npz"), 1 << 20, &e), &e);
    REQUIRE_OK(file_write(path, whole.text, whole.length, &e), &e);
    REQUIRE_OK(npz_open(&z, path, &e), &e);
    FILE *f = fopen(path, "w");
    REQUIRE(f);
    fclose(f);
    uint8_t *bytes = malloc(z.arrays[0].bytes);
    REQUIRE(bytes);
    CHECK_INT(npz_read(&z, &z.arrays[0], bytes, &e), ERR_INPUT);
    CHECK(strstr(e.where, "a.npz"));
    free(bytes);
    npz_close(&z);
    str_release(&whole);
}
