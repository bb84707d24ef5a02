// SPDX-License-Identifier: Apache-2.0
#include <stdint.h>
#include <stdlib.h>

#include "fixture.h"
#include "num/convert.h"
#include "num/measures.h"
#include "test.h"

// The same stream as tests/oracle/num_io.py.
static double next(uint64_t *x)
{
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return (double)(*x >> 11) * 0x1p-53 - 0.5;
}

#define ROWS    40
#define COLUMNS 24

static void make_data(double reference[ROWS][COLUMNS], double result[ROWS][COLUMNS])
{
    static double noise[ROWS][COLUMNS];
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        (&reference[0][0])[i] = next(&x);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        (&noise[0][0])[i] = next(&x);
    memcpy(reference[9], reference[4], sizeof reference[0]);
    memcpy(noise[9], noise[4], sizeof noise[0]);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        (&result[0][0])[i] = (&reference[0][0])[i] + 0.25 * (&noise[0][0])[i];
}

static double reference[ROWS][COLUMNS], result[ROWS][COLUMNS];

// Sums of a thousand terms of size one, in another order than numpy's; decibels are ten times a logarithm.
#define TOLERANCE 1e-13

TEST(num_measures_equal_numpy)
{
    json_t *o = fixture_json("num/measures.json");
    struct error e = {0};
    make_data(reference, result);
    CHECK_INT(fixture_number(o, "rows"), ROWS);
    CHECK_INT(fixture_number(o, "columns"), COLUMNS);
    struct measures m;
    measures_begin(&m, COLUMNS, fixture_number(o, "floor"));
    REQUIRE_OK(measures_add(&m, reference[0], DT_F64, result[0], 13, &e), &e); // in parts
    REQUIRE_OK(measures_add(&m, reference[13], DT_F64, result[13], ROWS - 13, &e), &e);
    measures_finish(&m);
    CHECK_INT(m.elements, ROWS * COLUMNS);
    CHECK_NEAR(m.rel_l2, fixture_number(o, "rel_l2"), TOLERANCE);
    CHECK_NEAR(m.max_abs, fixture_number(o, "max_abs"), 0);
    CHECK_INT(m.max_abs_index, fixture_number(o, "max_abs_index"));
    CHECK_NEAR(m.snr_db, fixture_number(o, "snr_db"), 100 * TOLERANCE);
    CHECK_NEAR(m.cosine_min, fixture_number(o, "cosine_min"), TOLERANCE);
    CHECK_INT(m.cosine_min_row, fixture_number(o, "cosine_min_row"));
    CHECK_NEAR(m.cosine_mean, fixture_number(o, "cosine_mean"), TOLERANCE);
    CHECK_NEAR(m.max_rel, fixture_number(o, "max_rel"), TOLERANCE);
    CHECK_NEAR(m.mean_rel, fixture_number(o, "mean_rel"), TOLERANCE);
    json_decref(o);
}

TEST(num_measures_retrieval_equals_numpy)
{
    json_t *o = fixture_json("num/measures.json");
    struct error e = {0};
    make_data(reference, result);
    uint8_t third[ROWS], none[ROWS] = {0};
    for (int i = 0; i < ROWS; i++)
        third[i] = i % 3 == 1;
    const uint8_t *masks[2] = {third, none};
    struct retrieval r[3];
    REQUIRE_OK(retrieval_measure(reference[0], result[0], ROWS, COLUMNS, masks, 2, NULL, r, &e), &e);
    static const char *const names[2] = {"all", "subset"};
    for (int i = 0; i < 2; i++) {
        const json_t *want = json_object_get(o, names[i]);
        CHECK_INT(r[i].queries, fixture_number(want, "queries"));
        CHECK_NEAR(r[i].top1, fixture_number(want, "top1"), TOLERANCE);
        CHECK_NEAR(r[i].top10, fixture_number(want, "top10"), TOLERANCE);
        CHECK_NEAR(r[i].spearman, fixture_number(want, "spearman"), TOLERANCE);
        CHECK_INT(r[i].top_k, 10);
        CHECK_INT(r[i].nonfinite_rows, 0);
    }
    const json_t *all = json_object_get(o, "all");
    CHECK_NEAR(r[0].spearman_min, fixture_number(all, "spearman_min"), TOLERANCE);
    CHECK_INT(r[0].spearman_min_query, fixture_number(all, "spearman_min_query"));
    CHECK(r[0].top1 < 1 && r[0].top10 < 1 && r[0].spearman < 1); // the noise is large enough to tell
    CHECK_INT(r[2].queries, 0);
    CHECK(isnan(r[2].top1) && isnan(r[2].spearman_min));
    struct threads *threads;
    struct retrieval shared[3];
    REQUIRE_OK(threads_new(&threads, 3, &e), &e);
    CHECK_INT(retrieval_measure(reference[0], result[0], ROWS, COLUMNS, masks, 2, threads, shared, &e), 0);
    threads_free(threads);
    CHECK(memcmp(shared, r, 2 * sizeof r[0]) == 0); // bit for bit; r[2] holds NaN
    double margins[ROWS];
    REQUIRE_OK(retrieval_margins(reference[0], ROWS, COLUMNS, margins, &e), &e);
    for (int i = 0; i < ROWS; i++)
        CHECK_NEAR(margins[i], json_number_value(json_array_get(json_object_get(o, "margins"), (size_t)i)), TOLERANCE);
    json_decref(o);
}

TEST(num_measures_of_equal_and_zero)
{
    struct error e = {0};
    double zero[4] = {0}, one[4] = {1, 0, 0, 0};
    struct measures m;
    measures_begin(&m, 2, 1e-6);
    REQUIRE_OK(measures_add(&m, one, DT_F64, one, 2, &e), &e);
    measures_finish(&m);
    CHECK_NEAR(m.rel_l2, 0, 0);
    CHECK(isinf(m.snr_db) && m.snr_db > 0);
    CHECK_NEAR(m.cosine_min, 1, 0);
    CHECK_INT(m.cosine_rows, 1); // the second row is zero on both sides
    measures_begin(&m, 2, 1e-6);
    REQUIRE_OK(measures_add(&m, zero, DT_F64, one, 2, &e), &e);
    measures_finish(&m);
    CHECK(isnan(m.rel_l2) && isnan(m.snr_db));
    CHECK_NEAR(m.max_abs, 1, 0);
    CHECK_NEAR(m.max_rel, 1e6, 0);
    CHECK_NEAR(m.cosine_min, 0, 0);
    measures_begin(&m, 2, 1e-6);
    measures_finish(&m);
    CHECK(isnan(m.rel_l2) && isnan(m.cosine_min) && isnan(m.mean_rel));
}

TEST(num_measures_take_every_float_type)
{
    struct error e = {0};
    double want[3] = {1.5, -2, 0.25};
    float f32[3] = {1.5f, -2, 0.25f};
    uint16_t bf16[3], f16[3];
    REQUIRE_OK(convert_elements(DT_BF16, bf16, DT_F32, f32, 3, &e), &e);
    REQUIRE_OK(convert_elements(DT_F16, f16, DT_F32, f32, 3, &e), &e);
    const void *given[3] = {f32, bf16, f16};
    static const enum dtype types[3] = {DT_F32, DT_BF16, DT_F16};
    for (int i = 0; i < 3; i++) {
        struct measures m;
        measures_begin(&m, 3, 1e-6);
        REQUIRE_OK(measures_add(&m, want, types[i], given[i], 1, &e), &e);
        measures_finish(&m);
        CHECK_NEAR(m.rel_l2, 0, 0);
    }
    struct measures m;
    measures_begin(&m, 1, 1);
    CHECK_INT(measures_add(&m, want, DT_C64, given, 1, &e), ERR_USAGE);
}

TEST(num_measures_count_what_is_not_finite)
{
    struct error e = {0};
    double ref[6] = {1, 2, -INFINITY, 4, 5, 6}, got[6] = {1, 2, -INFINITY, 4, 5, 6};
    struct measures m;
    measures_begin(&m, 3, 1e-6);
    REQUIRE_OK(measures_add(&m, ref, DT_F64, got, 2, &e), &e);
    measures_finish(&m);
    CHECK_INT(m.matching_infinities, 1);
    CHECK_INT(m.nonfinite_result + m.nonfinite_reference, 0);
    CHECK_NEAR(m.rel_l2, 0, 0);
    got[2] = INFINITY; // the other sign
    got[4] = NAN;
    measures_begin(&m, 3, 1e-6);
    REQUIRE_OK(measures_add(&m, ref, DT_F64, got, 2, &e), &e);
    measures_finish(&m);
    CHECK_INT(m.nonfinite_result, 2);
    CHECK_INT(m.nonfinite_reference, 1);
    CHECK(isnan(m.rel_l2) && isnan(m.max_abs) && isnan(m.snr_db) && isnan(m.cosine_min) && isnan(m.max_rel));
    CHECK(!(m.rel_l2 <= 1e9)); // no bound holds
}

TEST(num_measures_retrieval_ties_go_to_the_lower_index)
{
    // Rows 1 and 2 are equally near to row 0; a result that puts one of them a little nearer agrees only if it is
    // row 1.
    struct error e = {0};
    double ref[4][2] = {{1, 0}, {3, 4}, {3, -4}, {-1, 0.5}}, got[4][2];
    static const uint8_t first_only[4] = {1};
    const uint8_t *masks[1] = {first_only};
    struct retrieval r[2];
    for (int nearer = 1; nearer <= 2; nearer++) {
        memcpy(got, ref, sizeof got);
        got[nearer][0] += 0.001;
        REQUIRE_OK(retrieval_measure(ref[0], got[0], 4, 2, masks, 1, NULL, r, &e), &e);
        CHECK_NEAR(r[1].top1, nearer == 1, 0);
        CHECK_NEAR(r[1].spearman, nearer == 1 ? 1 : 1 - 6.0 * 2 / (3 * 8), 1e-15);
    }
}

TEST(num_measures_retrieval_with_broken_rows)
{
    struct error e = {0};
    double ref[5][2] = {{1, 0}, {0.9, 0.1}, {0, 1}, {0.1, 0.9}, {0, 0}}, got[5][2];
    memcpy(got, ref, sizeof got);
    struct retrieval r;
    REQUIRE_OK(retrieval_measure(ref[0], got[0], 5, 2, NULL, 0, NULL, &r, &e), &e);
    CHECK_NEAR(r.top1, 1, 0);
    CHECK_NEAR(r.spearman, 1, 0);
    CHECK_INT(r.top_k, 4);
    got[1][0] = NAN;
    REQUIRE_OK(retrieval_measure(ref[0], got[0], 5, 2, NULL, 0, NULL, &r, &e), &e);
    CHECK_INT(r.nonfinite_rows, 1);
    CHECK_INT(r.queries, 5);
    // Query 1 is lost, query 0 loses its nearest; 4 has all at the same distance and keeps row 0 first.
    CHECK_NEAR(r.top1, 3.0 / 5, 1e-15);
    // Query 0 had the order 1 3 2 4 and now has 3 2 4 1: squared distances 9 + 1 + 1 + 1.
    CHECK_NEAR(r.spearman_min, 1 - 6.0 * 12 / (4 * 15), 1e-15);
    CHECK_INT(r.spearman_min_query, 0);
    double margins[5];
    REQUIRE_OK(retrieval_margins(got[0], 5, 2, margins, &e), &e);
    CHECK(isnan(margins[1]) && !isnan(margins[0]));
    CHECK_NEAR(margins[4], 0, 0);
    CHECK_INT(retrieval_measure(ref[0], got[0], 2, 2, NULL, 0, NULL, &r, &e), ERR_USAGE);
    // Scale does not matter, however large or small.
    double big[3][2] = {{1e300, 0}, {1e300, 1e299}, {0, 1e300}},
           small[3][2] = {{1e-300, 0}, {1e-300, 1e-301}, {0, 1e-300}};
    error_clear(&e);
    REQUIRE_OK(retrieval_measure(big[0], small[0], 3, 2, NULL, 0, NULL, &r, &e), &e);
    CHECK_NEAR(r.top1, 1, 0);
    CHECK_INT(r.nonfinite_rows, 0);
}
