// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "chips/local.h"
#include "record/record.h"
#include "test.h"

static const char sha[] = "1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1";
static const char other_sha[] = "55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc";

static struct chip_local sample(void)
{
    struct chip_local l = {.cpu_model = "Example CPU @ 2.00GHz",
                           .date = "2026-11-29T12:00:00Z",
                           .threads = 2,
                           .memory_bytes = 8e9,
                           .copy = {43e9, 1e9, 30}};
    memcpy(l.plugin_sha256, sha, sizeof sha);
    for (size_t t = 0; t < CHIP_TYPES; t++)
        l.rate[t].value = NAN;
    l.rate[CHIP_F32] = (struct chip_measured){123.456e9, 0.5e9, 30};
    l.rate[CHIP_BF16] = (struct chip_measured){362e9, 3e9, 31};
    l.rate[CHIP_INT8] = (struct chip_measured){800e9, 0, 1};
    return l;
}

static void use_test_cache(void)
{
    setenv("XDG_CACHE_HOME", test_dir(), 1);
}

TEST(chips_local_round_trip)
{
    use_test_cache();
    struct error e = {0};
    struct str path;
    str_init(&path);
    struct chip_local l = sample(), back;
    REQUIRE_OK(chips_local_path(&path, l.cpu_model, l.plugin_sha256, &e), &e);
    CHECK(strstr(str_text(&path), "/assay/local-") != NULL);
    REQUIRE_OK(chips_local_save(str_text(&path), &l, &e), &e); // makes the folder
    REQUIRE_OK(chips_local_load(str_text(&path), &back, &e), &e);
    CHECK_STR(back.cpu_model, l.cpu_model);
    CHECK_STR(back.plugin_sha256, sha);
    CHECK_STR(back.date, l.date);
    CHECK_INT(back.threads, 2);
    CHECK_NEAR(back.memory_bytes, 8e9, 0);
    CHECK_NEAR(back.rate[CHIP_F32].value, 123.456e9, 0);
    CHECK_NEAR(back.rate[CHIP_F32].spread, 0.5e9, 0);
    CHECK_INT(back.rate[CHIP_BF16].samples, 31);
    CHECK(isnan(back.rate[CHIP_F16].value));
    CHECK_NEAR(back.copy.value, 43e9, 0);
    // The key tells CPUs and plugins apart.
    struct str second;
    str_init(&second);
    REQUIRE_OK(chips_local_path(&second, l.cpu_model, other_sha, &e), &e);
    CHECK(strcmp(str_text(&path), str_text(&second)) != 0);
    str_release(&second);
    str_release(&path);
}

// The record of a run that calibrated stands for its file; other folders say why they do not.
TEST(chips_local_of_a_record)
{
    static char *const argv[] = {"assay", "bench", "--calibrate"};
    static const char config[] = "{\"schema\": \"assay.record.config/1\"}",
                      report[] = "{\"schema\": \"assay.bench/1\"}";
    struct error e = {0};
    struct record r;
    struct str text;
    char dir[512], other[512];
    struct chip_local l = sample(), back;
    str_init(&text);
    snprintf(dir, sizeof dir, "%s/calibrated", test_dir());
    snprintf(other, sizeof other, "%s/other", test_dir());
    REQUIRE_OK(chips_local_text(&text, &l, &e), &e);
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(record_open(&r, i ? other : dir, "bench", 3, argv, &e), &e);
        REQUIRE_OK(record_config(&r, config, sizeof config - 1, &e), &e);
        if (!i)
            REQUIRE_OK(record_write(&r, CHIPS_LOCAL_FILE, text.text, text.length, &e), &e);
        if (!i)
            CHECK_INT(chips_local_load(r.building, &back, NULL), ERR_INPUT); // not whole yet
        REQUIRE_OK(record_commit(&r, report, sizeof report - 1, &e), &e);
    }
    REQUIRE_OK(chips_local_load(dir, &back, &e), &e);
    CHECK_NEAR(back.rate[CHIP_F32].value, 123.456e9, 0);
    CHECK_INT(chips_local_load(other, &back, &e), ERR_INPUT);
    CHECK(strstr(e.message, "calibrated nothing") != NULL);
    CHECK_INT(chips_local_load(test_dir(), &back, &e), ERR_INPUT);
    str_release(&text);
}

TEST(chips_local_becomes_a_chip)
{
    use_test_cache();
    struct error e = {0};
    struct arena a;
    arena_init(&a);
    struct chip_local l = sample();
    const struct chip *c;
    // Nothing there: the row without values, and how to get them.
    REQUIRE_OK(chip_get(&a, "local", l.cpu_model, NULL, &c, &e), &e);
    CHECK(c == &chips_local_row);
    CHECK(isnan(chip_rate(c, CHIP_F32, CHIP_PER_CHIP).value));
    CHECK(strstr(chip_rate(c, CHIP_F32, CHIP_PER_CHIP).source, "assay bench --calibrate") != NULL);
    CHECK(strstr(chip_bandwidth(c, CHIP_PER_DEVICE).source, "assay bench --calibrate") != NULL);
    CHECK(isnan(chip_ridge(c, CHIP_BF16).value));

    struct str path;
    str_init(&path);
    REQUIRE_OK(chips_local_path(&path, l.cpu_model, l.plugin_sha256, &e), &e);
    REQUIRE_OK(chips_local_save(str_text(&path), &l, &e), &e);
    struct chip_local newer = sample(); // of another plugin, and a day later
    memcpy(newer.plugin_sha256, other_sha, sizeof other_sha);
    memcpy(newer.date, "2026-11-30", 10);
    newer.rate[CHIP_F32].value = 200e9;
    str_clear(&path);
    REQUIRE_OK(chips_local_path(&path, newer.cpu_model, newer.plugin_sha256, &e), &e);
    REQUIRE_OK(chips_local_save(str_text(&path), &newer, &e), &e);
    str_release(&path);

    REQUIRE_OK(chip_get(&a, "local", l.cpu_model, NULL, &c, &e), &e);
    CHECK_NEAR(chip_rate(c, CHIP_F32, CHIP_PER_CHIP).value, 200e9, 0);
    REQUIRE_OK(chip_get(&a, "LOCAL", l.cpu_model, sha, &c, &e), &e);
    struct quantity q = chip_rate(c, CHIP_F32, CHIP_PER_CHIP);
    CHECK_NEAR(q.value, 123.456e9, 0);
    CHECK_INT(q.origin, ORIGIN_MEASURED);
    CHECK(strstr(q.source, "Example CPU") && strstr(q.source, "30 samples") && strstr(q.source, "1319390d"));
    CHECK_NEAR(chip_ridge(c, CHIP_BF16).value, 362.0 / 43.0, 1e-12);
    CHECK(isnan(chip_rate(c, CHIP_F64, CHIP_PER_CHIP).value));
    CHECK(strstr(chip_rate(c, CHIP_F64, CHIP_PER_CHIP).source, "calibration") != NULL);
    CHECK_NEAR(chip_memory(c, CHIP_PER_CHIP).value, 8e9, 0);
    // Another CPU has none.
    REQUIRE_OK(chip_get(&a, "local", "Another CPU", NULL, &c, &e), &e);
    CHECK(c == &chips_local_row);
    REQUIRE_OK(chip_get(&a, "v5e", l.cpu_model, NULL, &c, &e), &e);
    CHECK_STR(c->name, "v5e");
    arena_release(&a);
}

TEST(chips_local_refuses_what_cannot_be)
{
    use_test_cache();
    struct error e = {0};
    struct str path, text;
    str_init(&path);
    str_init(&text);
    struct chip_local l = sample(), back;
    REQUIRE_OK(chips_local_path(&path, l.cpu_model, l.plugin_sha256, &e), &e);
    REQUIRE_OK(chips_local_save(str_text(&path), &l, &e), &e);
    REQUIRE_OK(file_read(&text, str_text(&path), 65536, &e), &e);

    static const struct {
        const char *from, *to;
    } edits[] = {
        {"assay.calibration/1", "assay.calibration/2"},
        {"\"cpu_model\"", "\"cpu\""},
        {"Example CPU @ 2.00GHz", ""},
        {"1319390d", "1319390D"},
        {"2026-11-29T12:00:00Z", "yesterday"},
        {"\"threads\": 2", "\"threads\": 0"},
        {"\"threads\": 2", "\"threads\": 2.5"},
        {"\"threads\": 2", "\"threads\": 99999999999"},
        {"8000000000", "-1"},
        {"8000000000", "\"8\""},
        {"123456000000", "0"},
        {"123456000000", "-123456000000"},
        {"123456000000", "1e30"},
        {"123456000000", "null"},
        {"\"samples\": 31", "\"samples\": 0"},
        {"\"samples\": 31", "\"samples\": -1"},
        {"500000000", "-500000000"},
        {"\"FLOP/s\"", "\"GFLOP/s\""},
        {"\"bf16\"", "\"bf17\""},
        {"\"bf16\"", "\"s8\""},  // an element type, not the name of a rate
        {"\"bf16\"", "\"f32\""}, // twice
        {"\"rates\"", "\"rate\""},
        {"}", ""},
    };
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        const char *at = strstr(str_text(&text), edits[i].from);
        REQUIRE(at);
        struct str damaged;
        str_init(&damaged);
        str_add_n(&damaged, str_text(&text), (size_t)(at - str_text(&text)));
        str_add(&damaged, edits[i].to);
        str_add(&damaged, at + strlen(edits[i].from));
        REQUIRE_OK(file_write(str_text(&path), str_text(&damaged), damaged.length, &e), &e);
        error_clear(&e);
        if (!CHECK_INT(chips_local_load(str_text(&path), &back, &e), ERR_INPUT))
            printf("    with %s for %s\n", edits[i].to, edits[i].from);
        CHECK_STR(e.where, str_text(&path));
        CHECK(strstr(e.message, "assay bench --calibrate") != NULL);
        error_clear(&e);
        str_release(&damaged);
    }
    // Every cut of the file is refused, too.
    for (size_t n = 0; n + 2 < text.length; n += 7) {
        REQUIRE_OK(file_write(str_text(&path), str_text(&text), n, &e), &e);
        CHECK_INT(chips_local_load(str_text(&path), &back, NULL), ERR_INPUT);
    }
    struct chip_local wrong = sample();
    wrong.threads = 0;
    CHECK_INT(chips_local_save(str_text(&path), &wrong, &e), ERR_INTERNAL);
    error_clear(&e);
    wrong = sample();
    wrong.rate[CHIP_F32].value = INFINITY;
    CHECK_INT(chips_local_save(str_text(&path), &wrong, &e), ERR_INTERNAL);
    error_clear(&e);
    // A damaged file is an error, not "not calibrated".
    bool found;
    struct str dir;
    str_init(&dir);
    REQUIRE_OK(chips_local_dir(&dir, &e), &e);
    CHECK_INT(chips_local_newest(str_text(&dir), l.cpu_model, NULL, &back, &found, &e), ERR_INPUT);
    str_release(&dir);
    str_release(&path);
    str_release(&text);
}

TEST(chips_local_needs_a_place)
{
    struct error e = {0};
    struct str s;
    str_init(&s);
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/h", 1);
    REQUIRE_OK(chips_local_dir(&s, &e), &e);
    CHECK_STR(str_text(&s), "/h/.cache/assay");
    str_clear(&s);
    setenv("XDG_CACHE_HOME", "relative", 1); // not absolute: to be ignored
    REQUIRE_OK(chips_local_dir(&s, &e), &e);
    CHECK_STR(str_text(&s), "/h/.cache/assay");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    CHECK_INT(chips_local_dir(&s, &e), ERR_IO);
    error_clear(&e);
    struct arena a;
    arena_init(&a);
    const struct chip *c;
    REQUIRE_OK(chip_get(&a, "local", "x", NULL, &c, &e), &e); // to look needs no place
    CHECK(c == &chips_local_row);
    arena_release(&a);
    str_release(&s);
}
