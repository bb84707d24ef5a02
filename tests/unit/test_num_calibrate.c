// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "fixture.h"
#include "num/calibrate.h"
#include "test.h"

static const struct quant_spec symmetric = {.type = DT_S8, .channel_axis = -1};

// 101 values from -1 to 1 calibrate; 4 is outside.
TEST(num_calibrate_clips_what_it_has_not_seen)
{
    struct error e = {0};
    float seen[101];
    for (int i = 0; i < 101; i++)
        seen[i] = (float)(-1 + i * 0.02);
    struct calibration *c = calibration_new(&symmetric, "x", &e);
    REQUIRE(c);
    REQUIRE_OK(calibration_add(c, seen, 50, &e), &e);
    REQUIRE_OK(calibration_add(c, seen + 50, 51, &e), &e);
    struct calibration_result r;
    REQUIRE_OK(calibration_finish(c, &r, &e), &e);
    CHECK_INT(r.batches, 2);
    CHECK_INT(r.values, 101);
    CHECK_NEAR(r.low, -1, 0);
    CHECK_NEAR(r.high, 1, 0);
    CHECK_NEAR(r.scale, 1.0f / 127, 0);
    CHECK_INT(r.zero, 0);
    const float unseen[3] = {0.2f, 0.9f, 4};
    struct calibration_clipping clip = {0};
    REQUIRE_OK(calibration_clip(&symmetric, r.scale, r.zero, unseen, 3, &clip, "x", &e), &e);
    CHECK_INT(clip.values, 3);
    CHECK_INT(clip.clipped, 1);
    CHECK_NEAR(clip.beyond, 3, 1e-7); // 127 / 127 in f32
    REQUIRE_OK(calibration_clip(&symmetric, r.scale, r.zero, unseen, 3, &clip, "x", &e), &e);
    CHECK_INT(clip.clipped, 2);
    CHECK_INT(calibration_clip(&symmetric, 0, 0, unseen, 3, &clip, "x", &e), ERR_INPUT);
    calibration_free(c);
}

static int by_magnitude(const void *a, const void *b)
{
    float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);
    return (x > y) - (x < y);
}

static void add_all(struct calibration *c, const float *x, size_t n, size_t batch, bool backwards)
{
    struct error e = {0};
    for (size_t i = 0; i < n; i += batch) {
        size_t from = backwards ? n - batch - i : i;
        CHECK_INT(calibration_add(c, x + from, batch, &e), 0);
    }
}

// The histogram's percentile is the tensor's to one bin, whatever the order of the batches and however the range grew.
TEST(num_calibrate_percentile_and_error_are_those_of_the_whole)
{
    struct error e = {0};
    enum { N = 4096 };
    float *x = malloc(N * sizeof *x);
    REQUIRE(x);
    uint32_t state = 1;
    for (int i = 0; i < N; i++) {
        state = state * 1664525u + 1013904223u;
        // From 1e-3 to 1e3, more of one sign.
        float size = exp2f((float)(state >> 8) * 0x1p-24f * 20 - 10);
        x[i] = state & 0x30 ? size : -size / 3;
    }
    // In one order the range grows with every batch, in the other it is there from the first on.
    qsort(x, N, sizeof *x, by_magnitude);
    static const struct quant_spec specs[] = {
        {.type = DT_S8, .channel_axis = -1, .from = QUANT_FROM_PERCENTILE, .search = {.percentile = 99}},
        {.type = DT_U8,
         .channel_axis = -1,
         .mapping = QUANT_AFFINE,
         .range = QUANT_FULL,
         .from = QUANT_FROM_PERCENTILE,
         .search = {.percentile = 97}},
        {.type = DT_S4, .channel_axis = -1, .from = QUANT_FROM_ERROR, .search = {.max_shrink = 0.9}},
        {.type = DT_U4, .channel_axis = -1, .mapping = QUANT_AFFINE, .from = QUANT_FROM_ERROR},
    };
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct calibration_result r[2];
        for (int way = 0; way < 2; way++) {
            struct calibration *c = calibration_new(&specs[i], "x", &e);
            REQUIRE(c);
            add_all(c, x, N, way ? 256 : 64, way);
            REQUIRE_OK(calibration_finish(c, &r[way], &e), &e);
            calibration_free(c);
        }
        CHECK_NEAR(r[0].scale, r[1].scale, 0);
        CHECK_INT(r[0].zero, r[1].zero);
        float scale;
        int32_t zero;
        const int64_t dims[1] = {N};
        REQUIRE_OK(quantize_scales(&specs[i], dims, 1, x, &scale, &zero, NULL, "x", &e), &e);
        // A percentile is off by a bin (1/4096 of the largest value, 1023; the percentiles are about 1/6 of it and
        // more) and by the distance to the next value, which the histogram does not interpolate: about 2 %. The grid
        // of the error search is 1 % of the range.
        CHECK_NEAR(r[0].scale / scale, 1, 0.03);
        CHECK_INT(r[0].zero, zero);
    }
    free(x);
}

TEST(num_calibrate_refuses)
{
    struct error e = {0};
    struct quant_spec rows = {.type = DT_S8, .granularity = QUANT_PER_CHANNEL};
    CHECK(calibration_new(&rows, "x", &e) == NULL);
    CHECK_INT(e.code, ERR_USAGE);
    error_clear(&e);
    struct quant_spec spec = symmetric;
    spec.from = QUANT_FROM_PERCENTILE; // without one
    CHECK(calibration_new(&spec, "x", &e) == NULL);
    error_clear(&e);
    const float bad[2] = {1, NAN}, nothing[1] = {INFINITY};
    struct calibration *c = calibration_new(&symmetric, "x", &e);
    REQUIRE(c);
    CHECK_INT(calibration_add(c, bad, 2, &e), ERR_INPUT);
    error_clear(&e);
    struct calibration_result r;
    CHECK_INT(calibration_finish(c, &r, &e), ERR_INPUT);
    CHECK(strstr(e.message, "nothing to calibrate on") != NULL);
    error_clear(&e);
    calibration_free(c);
    spec.search.percentile = 99;
    spec.nonfinite = QUANT_SATURATE;
    c = calibration_new(&spec, "x", &e);
    REQUIRE(c);
    REQUIRE_OK(calibration_add(c, nothing, 1, &e), &e);
    CHECK_INT(calibration_finish(c, &r, &e), ERR_INPUT);
    error_clear(&e);
    REQUIRE_OK(calibration_add(c, bad, 2, &e), &e);
    REQUIRE_OK(calibration_finish(c, &r, &e), &e);
    CHECK_INT(r.nonfinite, 2);
    CHECK_NEAR(r.high, 1, 0);
    calibration_free(c);
    calibration_free(NULL);
}

TEST(num_calibrate_split_has_no_item_on_both_sides)
{
    struct error e = {0};
    struct split s;
    split_init(&s);
    char text[16];
    // Enough items for the table to grow.
    for (int i = 0; i < 500; i++) {
        int n = snprintf(text, sizeof text, "line %d", i);
        enum split_role role;
        REQUIRE_OK(split_choose(text, (size_t)n, 0.25, &role, &e), &e);
        REQUIRE_OK(split_add(&s, role, text, text, (size_t)n, &e), &e);
    }
    size_t held_out = split_count(&s, SPLIT_HELD_OUT);
    CHECK_INT(held_out + split_count(&s, SPLIT_CALIBRATE), 500);
    CHECK(held_out > 90 && held_out < 160); // 125 expected, 3.6 standard deviations either way
    enum split_role role;
    REQUIRE_OK(split_choose("line 7", 6, 0.25, &role, &e), &e);
    REQUIRE_OK(split_add(&s, role, "the same again", "line 7", 6, &e), &e);
    CHECK_INT(split_add(&s, role == SPLIT_HELD_OUT ? SPLIT_CALIBRATE : SPLIT_HELD_OUT, "b.txt:8", "line 7", 6, &e),
              ERR_INPUT);
    CHECK_STR(e.where, "b.txt:8");
    CHECK(strstr(e.message, "the same content as line 7") != NULL);
    error_clear(&e);
    REQUIRE_OK(split_choose("x", 1, 0, &role, &e), &e);
    CHECK_INT(role, SPLIT_CALIBRATE);
    REQUIRE_OK(split_choose("x", 1, 1, &role, &e), &e);
    CHECK_INT(role, SPLIT_HELD_OUT);
    split_release(&s);
}

static void split_text(const char *const *order, struct str *out)
{
    struct error e = {0};
    struct split s;
    struct jw w;
    split_init(&s);
    for (int i = 0; i < 3; i++)
        REQUIRE_OK(split_add(&s, SPLIT_CALIBRATE, order[i], order[i], 1, &e), &e);
    REQUIRE_OK(split_add(&s, SPLIT_CALIBRATE, "again", order[0], 1, &e), &e);
    jw_init(&w, out, true);
    REQUIRE_OK(split_json(&s, false, &w, &e), &e);
    REQUIRE_OK(jw_finish(&w, &e), &e);
    split_release(&s);
}

TEST(num_calibrate_split_record_does_not_depend_on_order)
{
    struct str a, b;
    str_init(&a), str_init(&b);
    split_text((const char *const[]){"a", "b", "c"}, &a);
    split_text((const char *const[]){"c", "a", "b"}, &b);
    CHECK_STR(str_text(&a), str_text(&b));
    CHECK(strstr(str_text(&a), "\"items\":3,\"duplicates\":1") != NULL);
    str_release(&a), str_release(&b);
}
