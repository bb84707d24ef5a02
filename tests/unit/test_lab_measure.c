// SPDX-License-Identifier: Apache-2.0
#include <stdint.h>
#include <stdlib.h>

#include "base/stats.h"
#include "lab/measure.h"
#include "schema.h"
#include "test.h"

// Uniform in [-1, 1), from a fixed seed.
static double noise(uint64_t *x)
{
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17; // xorshift64
    return (double)(*x >> 11) / 4503599627370496.0 - 1;
}

TEST(lab_measure_warmup_ends_when_a_window_is_flat)
{
    struct measure_warmup w;
    measure_warmup_init(&w, measure_warmup_default());
    while (measure_warmup_add(&w, 1000) == WARMUP_COLD)
        ;
    CHECK_INT(w.state, WARMUP_FLAT);
    CHECK_INT(w.runs, 8);
    CHECK(w.change == 0);
    CHECK_NEAR(w.total_ns, 8000, 0);
    CHECK_INT(measure_warmup_add(&w, 1), WARMUP_FLAT); // over: nothing changes
    CHECK_INT(w.runs, 8);
}

TEST(lab_measure_warmup_follows_a_curve)
{
    // 1000 + 4000 * 0.8^i ns: the runs settle. Checked against the definition, window by window.
    struct measure_warmup w;
    struct measure_warmup_policy p = measure_warmup_default();
    double curve[200], scratch[8];
    for (int i = 0; i < 200; i++)
        curve[i] = 1000 + 4000 * pow(0.8, i);
    size_t want = 0;
    for (size_t i = 0; want == 0; i += p.window) {
        double moved = fabs(stats_slope(curve + i, p.window)) * (double)p.window;
        if (moved <= p.flat_fraction * stats_median(curve + i, p.window, scratch))
            want = i + p.window;
    }
    measure_warmup_init(&w, p);
    for (int i = 0; measure_warmup_add(&w, curve[i]) == WARMUP_COLD; i++)
        ;
    CHECK_INT(w.state, WARMUP_FLAT);
    CHECK_INT(w.runs, want);
    CHECK(w.runs > 2 * p.window); // the first windows fall by more than half
    CHECK(w.change <= p.flat_fraction);
}

TEST(lab_measure_warmup_caps)
{
    struct measure_warmup_policy p = measure_warmup_default();
    struct measure_warmup w;
    p.max_runs = 21;
    measure_warmup_init(&w, p);
    for (double t = 1e6; measure_warmup_add(&w, t) == WARMUP_COLD; t *= 1.1) // never flat
        ;
    CHECK_INT(w.state, WARMUP_CAPPED);
    CHECK_INT(w.runs, 21);
    p.max_ns = 5.5e6;
    measure_warmup_init(&w, p);
    while (measure_warmup_add(&w, 1e6) == WARMUP_COLD)
        ;
    CHECK_INT(w.state, WARMUP_CAPPED);
    CHECK_INT(w.runs, 6);
    measure_warmup_init(&w, p);
    while (measure_warmup_add(&w, NAN) == WARMUP_COLD)
        ;
    CHECK_INT(w.runs, 1); // a time that is no number ends it, as not flat
    CHECK_INT(w.state, WARMUP_CAPPED);
    p.max_runs = 0;
    measure_warmup_init(&w, p);
    CHECK_INT(w.state, WARMUP_CAPPED);
    p = measure_warmup_default();
    p.flat_fraction = -1; // a fixed count
    p.max_runs = 30;
    measure_warmup_init(&w, p);
    while (measure_warmup_add(&w, 0) == WARMUP_COLD)
        ;
    CHECK_INT(w.runs, 30);
}

TEST(lab_measure_summary_known_answers)
{
    struct error e = {0};
    struct measure_summary s;
    const double v[10] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 30};
    bool flags[10];
    REQUIRE_OK(measure_summarize(&s, v, 10, 0.95, flags, &e), &e);
    CHECK_INT(s.n, 10);
    CHECK_NEAR(s.min, 1, 0);
    CHECK_NEAR(s.p50, 4.5, 0);
    CHECK_NEAR(s.p90, 9 + 0.1 * 21, 1e-12); // between the 9th and the 10th at 8.1; one rounding of 0.1
    CHECK_NEAR(s.mean, 6.6, 1e-12);         // rounding of ten additions
    CHECK_NEAR(s.mad, 1.4826 * 2, 1e-12);   // deviations 0.5 0.5 0.5 1.5 1.5 2.5 3.5 3.5 4.5 25.5
    CHECK_NEAR(s.p50_low, 1, 0);            // order statistics 2 and 9
    CHECK_NEAR(s.p50_high, 9, 0);
    CHECK_NEAR(s.coverage, 1002.0 / 1024, 1e-12);
    CHECK_INT(s.outliers, 1); // 25.5 > 3.5 * 2.9652; 4.5 is not
    for (int i = 0; i < 10; i++)
        CHECK(flags[i] == (i == 9));
    measure_summary_scale(&s, 1e-3);
    CHECK_NEAR(s.p50, 4.5e-3, 1e-17);
    CHECK_NEAR(s.p50_high, 9e-3, 1e-17); // the factor is rounded, then the product
    CHECK_INT(s.outliers, 1);
}

TEST(lab_measure_summary_edges)
{
    struct error e = {0};
    struct measure_summary s;
    const double one = 7;
    REQUIRE_OK(measure_summarize(&s, &one, 1, 0.95, NULL, &e), &e);
    CHECK(s.min == 7 && s.p50 == 7 && s.p90 == 7 && s.mean == 7);
    CHECK(isnan(s.mad) && isnan(s.p50_low) && isnan(s.p50_high) && isnan(s.drift)); // one sample has no spread
    CHECK(s.coverage == 0);
    REQUIRE_OK(measure_summarize(&s, NULL, 0, 0.95, NULL, &e), &e);
    CHECK(isnan(s.min) && isnan(s.p50) && isnan(s.mean));
    const double broken[4] = {1, NAN, 3, INFINITY};
    bool flags[4] = {true, true, true, true};
    REQUIRE_OK(measure_summarize(&s, broken, 4, 0.95, flags, &e), &e);
    CHECK_INT(s.not_finite, 2);
    CHECK(isnan(s.min) && isnan(s.p50) && isnan(s.p90) && isnan(s.mean) && isnan(s.mad));
    CHECK(!flags[0] && !flags[1] && !flags[2] && !flags[3]);
    // Ties: no spread, no outlier; then a single one that differs, where the MAD is zero.
    double ties[20];
    for (int i = 0; i < 20; i++)
        ties[i] = 5;
    REQUIRE_OK(measure_summarize(&s, ties, 20, 0.95, NULL, &e), &e);
    CHECK(s.mad == 0 && s.outliers == 0 && s.drift == 0 && s.p50_low == 5 && s.p50_high == 5);
    ties[11] = 6; // 1 > 3.5 * 1.2533 * (1 / 20)
    REQUIRE_OK(measure_summarize(&s, ties, 20, 0.95, NULL, &e), &e);
    CHECK(s.mad == 0);
    CHECK_INT(s.outliers, 1);
}

TEST(lab_measure_summary_sees_drift)
{
    struct error e = {0};
    struct measure_summary s;
    double v[101];
    for (int i = 0; i <= 100; i++)
        v[i] = 1000 + i; // slope 1, median 1050
    REQUIRE_OK(measure_summarize(&s, v, 101, 0.99, NULL, &e), &e);
    CHECK_NEAR(s.drift, 101.0 / 1050, 1e-12);
    CHECK_INT(s.outliers, 0);
    CHECK(s.coverage >= 0.99);
    uint64_t seed = 88172645463325252u;
    for (int i = 0; i <= 100; i++)
        v[i] = 1000 + 10 * noise(&seed);
    REQUIRE_OK(measure_summarize(&s, v, 101, 0.99, NULL, &e), &e);
    CHECK(fabs(s.drift) < 0.01); // the noise is 1 %; its slope over 101 samples is several times less
    CHECK(s.p50_low <= s.p50 && s.p50 <= s.p50_high);
}

// The interval of the median must hold the true median about as often as it says.
TEST(lab_measure_interval_covers)
{
    struct error e = {0};
    struct measure_summary s;
    uint64_t seed = 88172645463325252u;
    int covered = 0, trials = 4000;
    for (int t = 0; t < trials; t++) {
        double v[15];
        for (int i = 0; i < 15; i++)
            v[i] = exp(noise(&seed)); // skewed, true median 1
        REQUIRE_OK(measure_summarize(&s, v, 15, 0.95, NULL, &e), &e);
        covered += s.p50_low <= 1 && 1 <= s.p50_high;
    }
    // Four standard deviations of a binomial count around the coverage it claims.
    CHECK_NEAR((double)covered / trials, s.coverage, 4 * sqrt(s.coverage * (1 - s.coverage) / trials));
}

TEST(lab_measure_schedule_is_balanced)
{
    struct error e = {0};
    for (uint32_t k = 1; k <= 9; k++) {
        for (uint64_t seed = 0; seed < 5; seed++) {
            size_t period = measure_schedule_period(k), per = period / k;
            uint32_t order[18 * 9], again[18 * 9], place[9][9] = {{0}}, after[9][9] = {{0}};
            REQUIRE_OK(measure_schedule(order, k, period, seed, &e), &e);
            REQUIRE_OK(measure_schedule(again, k, period, seed, &e), &e);
            CHECK(memcmp(order, again, period * k * sizeof *order) == 0);
            for (size_t r = 0; r < period; r++) {
                for (uint32_t i = 0; i < k; i++) {
                    uint32_t subject = order[r * k + i];
                    REQUIRE(subject < k);
                    place[subject][i]++;
                    if (i)
                        after[order[r * k + i - 1]][subject]++;
                }
            }
            for (uint32_t a = 0; a < k; a++) {
                for (uint32_t b = 0; b < k; b++) {
                    CHECK_INT(place[a][b], per);
                    CHECK_INT(after[a][b], a == b ? 0 : per);
                }
            }
        }
    }
}

TEST(lab_measure_schedule_of_two_is_abba)
{
    struct error e = {0};
    uint32_t order[12];
    int starts[2] = {0, 0};
    for (uint64_t seed = 0; seed < 64; seed++) {
        REQUIRE_OK(measure_schedule(order, 2, 6, seed, &e), &e);
        uint32_t a = order[0], b = order[1];
        CHECK(a + b == 1);
        for (int r = 0; r < 6; r++)
            CHECK(order[2 * r] == (r % 2 ? b : a) && order[2 * r + 1] == (r % 2 ? a : b));
        starts[a]++;
    }
    CHECK(starts[0] && starts[1]);
    CHECK_INT(measure_schedule(order, 0, 3, 0, &e), ERR_USAGE);
    error_clear(&e);
    CHECK_INT(measure_schedule(order, 3, SIZE_MAX, 0, &e), ERR_USAGE);
}

// Pairs with a common disturbance that is larger than the difference: what pairing is for.
static void pairs(double *a, double *b, size_t n, double ratio, double spread, uint64_t seed)
{
    seed *= 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < n; i++) {
        double load = 1 + 0.5 * (noise(&seed) + 1);
        a[i] = 1000 * load;
        b[i] = 1000 * load * ratio * (1 + spread * noise(&seed));
    }
}

TEST(lab_measure_compare_verdicts)
{
    struct error e = {0};
    struct measure_comparison c;
    double a[30], b[30];
    pairs(a, b, 30, 0.9, 0.01, 1);
    REQUIRE_OK(measure_compare(&c, a, b, 30, 0.02, 0.95, &e), &e);
    CHECK_INT(c.verdict, VERDICT_FASTER);
    CHECK(c.beyond_tolerance);
    CHECK_INT(c.faster, 30);
    CHECK_NEAR(c.ratio, 0.9, 0.01); // the spread of one pair
    CHECK(c.low <= c.ratio && c.ratio <= c.high);
    CHECK_NEAR(c.sign_p, ldexp(1, -29), 1e-15);
    REQUIRE_OK(measure_compare(&c, b, a, 30, 0.02, 0.95, &e), &e);
    CHECK_INT(c.verdict, VERDICT_SLOWER);
    CHECK(c.beyond_tolerance);
    pairs(a, b, 30, 1.001, 0.005, 2);
    REQUIRE_OK(measure_compare(&c, a, b, 30, 0.02, 0.95, &e), &e);
    CHECK_INT(c.verdict, VERDICT_SAME);
    for (int i = 0; i < 30; i++)
        b[i] = a[i] * (i % 2 ? 1.3 : 1 / 1.3);
    REQUIRE_OK(measure_compare(&c, a, b, 30, 0.02, 0.95, &e), &e);
    CHECK_INT(c.verdict, VERDICT_AMBIGUOUS);
    CHECK(c.low < 1 && c.high > 1);
    CHECK_STR(measure_verdict_name(c.verdict), "AMBIGUOUS");
    // 3 % slower for certain, but whether by more than 3 % cannot be told.
    pairs(a, b, 30, 1.03, 0.01, 4);
    REQUIRE_OK(measure_compare(&c, a, b, 30, 0.03, 0.95, &e), &e);
    CHECK_INT(c.verdict, VERDICT_SLOWER);
    CHECK(!c.beyond_tolerance);
}

TEST(lab_measure_compare_edges)
{
    struct error e = {0};
    struct measure_comparison c;
    double a[30], b[30];
    pairs(a, b, 30, 0.5, 0, 1);
    // Five pairs cannot reach 95 %: 1 - 2/32.
    REQUIRE_OK(measure_compare(&c, a, b, 5, 0.02, 0.95, &e), &e);
    CHECK_INT(c.verdict, VERDICT_AMBIGUOUS);
    CHECK_NEAR(c.coverage, 1 - 2.0 / 32, 1e-12);
    CHECK_NEAR(c.ratio, 0.5, 1e-12); // exp(log(x)) rounds
    REQUIRE_OK(measure_compare(&c, a, b, 6, 0.02, 0.95, &e), &e);
    CHECK_INT(c.verdict, VERDICT_FASTER);
    REQUIRE_OK(measure_compare(&c, a, b, 1, 0.02, 0.95, &e), &e);
    CHECK_INT(c.verdict, VERDICT_AMBIGUOUS);
    CHECK(isnan(c.low) && isnan(c.high) && c.coverage == 0);
    REQUIRE_OK(measure_compare(&c, a, b, 0, 0.02, 0.95, &e), &e);
    CHECK_INT(c.verdict, VERDICT_AMBIGUOUS);
    // Equal samples are all ties and the same at any tolerance.
    REQUIRE_OK(measure_compare(&c, a, a, 30, 0, 0.95, &e), &e);
    CHECK_INT(c.verdict, VERDICT_SAME);
    CHECK_INT(c.ties, 30);
    CHECK_NEAR(c.sign_p, 1, 0);
    // A pair without a time is not left out: nothing can be said.
    b[3] = NAN;
    REQUIRE_OK(measure_compare(&c, a, b, 30, 0.02, 0.95, &e), &e);
    CHECK_INT(c.invalid, 1);
    CHECK_INT(c.verdict, VERDICT_AMBIGUOUS);
    CHECK(isnan(c.ratio) && isnan(c.low) && isnan(c.sign_p));
    b[3] = 0;
    REQUIRE_OK(measure_compare(&c, a, b, 30, 0.02, 0.95, &e), &e);
    CHECK_INT(c.verdict, VERDICT_AMBIGUOUS);
}

TEST(lab_measure_documents_follow_their_schemas)
{
    struct error e = {0};
    struct str s;
    struct jw w;
    struct measure_warmup warm;
    struct measure_summary summary;
    struct measure_comparison c;
    double a[30], b[30];
    pairs(a, b, 30, 0.9, 0.01, 1);
    str_init(&s);
    for (int broken = 0; broken < 2; broken++) { // with numbers, and where none can be given
        if (broken)
            a[3] = NAN;
        measure_warmup_init(&warm, measure_warmup_default());
        for (int i = 0; i < 30 && measure_warmup_add(&warm, a[i]) == WARMUP_COLD; i++)
            ;
        str_clear(&s);
        jw_init(&w, &s, false);
        measure_warmup_json(&w, &warm, "cpu");
        REQUIRE_OK(jw_finish(&w, &e), &e);
        CHECK_SCHEMA("common.json#warmup", s.text, s.length);
        REQUIRE_OK(measure_summarize(&summary, a, 30, 0.95, NULL, &e), &e);
        str_clear(&s);
        jw_init(&w, &s, false);
        measure_summary_json(&w, &summary, "ns", "cpu");
        REQUIRE_OK(jw_finish(&w, &e), &e);
        CHECK_SCHEMA("common.json#summary", s.text, s.length);
        json_t *root = json_parse(s.text, s.length, "summary", &e);
        const json_t *p50 = json_object_get(root, "p50");
        CHECK_STR(json_string_value(json_object_get(p50, "origin")), "M");
        CHECK_STR(json_string_value(json_object_get(p50, "unit")), "ns");
        CHECK_STR(json_string_value(json_object_get(p50, "source")),
                  broken ? "cpu: 1 of 30 samples is not a number" : "cpu");
        CHECK(json_is_null(json_object_get(p50, "value")) == broken);
        json_decref(root);
        REQUIRE_OK(measure_compare(&c, a, b, 30, 0.02, 0.95, &e), &e);
        str_clear(&s);
        jw_init(&w, &s, false);
        measure_comparison_json(&w, &c, "cpu");
        REQUIRE_OK(jw_finish(&w, &e), &e);
        CHECK_SCHEMA("common.json#comparison", s.text, s.length);
        CHECK(strstr(s.text, broken ? "\"AMBIGUOUS\"" : "\"faster\"") != NULL);
    }
    str_release(&s);
}
