// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "fixture.h"
#include "num/affine.h"
#include "test.h"

TEST(num_affine_grid_refuses)
{
    struct error e = {0};
    struct affine_grid g;
    static const double scales[] = {0, -1, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        CHECK_INT(affine_grid_init(&g, DT_S8, scales[i], 0, "y", &e), ERR_INPUT);
        CHECK(strstr(e.message, "finite and above zero") != NULL);
        error_clear(&e);
    }
    static const double zeros[] = {0.5, -129, 128, NAN, INFINITY, 1e300};
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++) {
        CHECK_INT(affine_grid_init(&g, DT_S8, 1, zeros[i], "y", &e), ERR_INPUT);
        CHECK(strstr(e.message, "an integer from -128 to 127, a code of s8") != NULL);
        error_clear(&e);
    }
    REQUIRE_OK(affine_grid_init(&g, DT_S8, 1, -128, "y", &e), &e);
    REQUIRE_OK(affine_grid_init(&g, DT_U8, 1, 255, "y", &e), &e);
    CHECK_INT(affine_grid_init(&g, DT_U8, 1, -1, "y", &e), ERR_INPUT);
    error_clear(&e);
    CHECK_INT(affine_grid_init(&g, DT_F32, 1, 0, "y", &e), ERR_USAGE);
}

// 1 at scale 0.5 and zero point 3 is the code 5, and comes back; a real zero is the zero point.
TEST(num_affine_grid_goes_there_and_back)
{
    struct error e = {0};
    struct affine_grid g;
    REQUIRE_OK(affine_grid_init(&g, DT_S8, 0.5, 3, "x", &e), &e);
    const double x[4] = {1, 0, 1000, -1000};
    double back[4];
    int32_t codes[4];
    bool clipped[4];
    CHECK_INT(affine_to_grid(&g, x, 4, codes, back, clipped), 2);
    CHECK_INT(codes[0], 5);
    CHECK_INT(codes[1], 3);
    CHECK_INT(codes[2], 127);
    CHECK_INT(codes[3], -128);
    CHECK_NEAR(back[0], 1, 0);
    CHECK_NEAR(back[1], 0, 0);
    CHECK_NEAR(back[3], -65.5, 0);
    const double strange[3] = {NAN, INFINITY, -INFINITY};
    CHECK_INT(affine_to_grid(&g, strange, 3, codes, back, NULL), 3);
    CHECK_INT(codes[0], -128);
    CHECK_INT(codes[1], 127);
    CHECK_INT(affine_to_grid(&g, x, 4, codes, back, clipped), 2);
    CHECK(!clipped[0] && !clipped[1] && clipped[2] && clipped[3]);
    // 0.26 at scale 0.1 is 3, and 0.3 comes back.
    REQUIRE_OK(affine_grid_init(&g, DT_S8, 0.1, 0, "x", &e), &e);
    CHECK_INT(affine_to_grid(&g, (const double[]){0.26}, 1, codes, back, NULL), 0);
    CHECK_INT(codes[0], 3);
    CHECK_NEAR(back[0], 0.3, 1e-16);
}

static int32_t *read_codes(const json_t *o, const char *key, size_t *n)
{
    const json_t *a = json_object_get(o, key);
    *n = json_array_size(a);
    int32_t *codes = calloc(*n, sizeof *codes);
    for (size_t i = 0; i < *n && codes; i++)
        codes[i] = (int32_t)json_integer_value(json_array_get(a, i));
    return codes;
}

TEST(num_affine_products_equal_onnxruntime)
{
    json_t *root = fixture_json("num/affine.json");
    const json_t *cases = json_object_get(root, "products");
    CHECK_INT(json_array_size(cases), 3);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *o = json_array_get(cases, i);
        struct error e = {0};
        struct affine_grid y;
        size_t n, n_out, n_zeros;
        int32_t *a = read_codes(o, "a", &n), *b = read_codes(o, "b", &n), *zeros = read_codes(o, "b_zeros", &n_zeros);
        int32_t *acc = read_codes(o, "acc", &n_out), *want = read_codes(o, "y", &n_out);
        struct affine_product p = {.rows = (size_t)fixture_number(o, "rows"),
                                   .inputs = (size_t)fixture_number(o, "inputs"),
                                   .outputs = (size_t)fixture_number(o, "outputs"),
                                   .x = a,
                                   .x_zero = (int32_t)fixture_number(o, "a_zero"),
                                   .w = b,
                                   .w_zeros = zeros};
        double scales[4];
        for (size_t j = 0; j < n_zeros; j++)
            scales[j] = json_number_value(json_array_get(json_object_get(o, "b_scales"), j));
        int32_t got[12], codes[12];
        REQUIRE(n_out == p.rows * p.outputs && n_out <= 12);
        REQUIRE_OK(affine_dot(&p, got, "case", &e), &e);
        CHECK(memcmp(got, acc, n_out * sizeof *got) == 0);
        enum dtype type = dtype_from_name(json_string_value(json_object_get(o, "type")));
        REQUIRE_OK(affine_grid_init(&y, type, fixture_number(o, "y_scale"), fixture_number(o, "y_zero"), "y", &e), &e);
        REQUIRE_OK(affine_requantise(AFFINE_F32, got, p.rows, p.outputs, fixture_number(o, "a_scale"), scales, &y,
                                     codes, NULL, NULL, "case", &e),
                   &e);
        CHECK(memcmp(codes, want, n_out * sizeof *codes) == 0);
        free(a), free(b), free(zeros), free(acc), free(want);
    }
    json_decref(root);
}

static int32_t rescale(enum affine_rule rule, int32_t acc, double m)
{
    int32_t out = 0;
    struct error e = {0};
    CHECK_INT(affine_rescale(rule, acc, m, &out, "acc", &e), 0);
    return out;
}

TEST(num_affine_rescaling_rules)
{
    json_t *root = fixture_json("num/affine.json");
    const json_t *r = json_object_get(root, "requantisation"), *values = json_object_get(r, "values");
    CHECK(json_array_size(values) > 400);
    int wrong = 0;
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *o = json_array_get(values, i), *rules = json_object_get(o, "rules");
        double m = fixture_number(o, "m");
        int32_t q;
        int shift;
        struct error e = {0};
        REQUIRE_OK(affine_multiplier(m, &q, &shift, "m", &e), &e);
        wrong += q != (int32_t)fixture_number(o, "q") || shift != (int)fixture_number(o, "shift");
        for (int rule = 0; rule < 4; rule++)
            wrong += rescale((enum affine_rule)rule, (int32_t)fixture_number(o, "acc"), m) !=
                     (int32_t)json_integer_value(json_array_get(rules, (size_t)rule));
    }
    CHECK_INT(wrong, 0);
    const json_t *differ = json_object_get(r, "differ");
    double m = fixture_number(differ, "m");
    int by_double = 0, by_single = 0;
    for (int32_t a = (int32_t)fixture_number(differ, "from"); a <= (int32_t)fixture_number(differ, "to"); a++) {
        int32_t even = rescale(AFFINE_F64, a, m);
        by_double += rescale(AFFINE_DOUBLE_ROUNDING, a, m) != even;
        by_single += rescale(AFFINE_SINGLE_ROUNDING, a, m) != even;
    }
    CHECK_INT(by_double, fixture_number(differ, "double"));
    CHECK_INT(by_single, fixture_number(differ, "single"));
    CHECK(by_double > 1000 && by_single == 0);
    json_decref(root);
}

// Recorded where the rules were compared: the same accumulator, three answers.
TEST(num_affine_rescaling_recorded_values)
{
    const double m = 0.0043485981308411213;
    CHECK_INT(rescale(AFFINE_DOUBLE_ROUNDING, -199949, m), -870);
    CHECK_INT(rescale(AFFINE_SINGLE_ROUNDING, -199949, m), -869);
    CHECK_INT(rescale(AFFINE_F64, -199949, m), -869);
    CHECK_INT(rescale(AFFINE_DOUBLE_ROUNDING, -199957, 0.0234375), -4687);
    CHECK_INT(rescale(AFFINE_SINGLE_ROUNDING, -199957, 0.0234375), -4686);
    CHECK_INT(rescale(AFFINE_F64, -199957, 0.0234375), -4686);
    CHECK_INT(rescale(AFFINE_SINGLE_ROUNDING, -199999, 0.5), -99999);
    CHECK_INT(rescale(AFFINE_F64, -199999, 0.5), -100000);
    int32_t q;
    int shift;
    struct error e = {0};
    REQUIRE_OK(affine_multiplier(m, &q, &shift, "m", &e), &e);
    CHECK_INT(q, 1195333552);
    CHECK_INT(shift, -7);
    // Saturated where the fixed-point originals overflow.
    for (int rule = 0; rule < 4; rule++) {
        CHECK_INT(rescale((enum affine_rule)rule, INT32_MAX, 1 << 20), INT32_MAX);
        CHECK_INT(rescale((enum affine_rule)rule, INT32_MIN, 1 << 20), INT32_MIN);
        CHECK_INT(rescale((enum affine_rule)rule, INT32_MIN, 1e-300), 0);
    }
    static const double bad[] = {0, -1, NAN, INFINITY, 0x1p31};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_INT(affine_multiplier(bad[i], &q, &shift, "m", &e), ERR_INPUT);
        error_clear(&e);
    }
}

TEST(num_affine_sums_are_checked_in_64_bits)
{
    struct error e = {0};
    CHECK_INT(affine_safe_inputs(127, 127), 133144);
    CHECK_INT(affine_safe_inputs(-255, 127), INT32_MAX / (255 * 127));
    CHECK_INT(affine_safe_inputs(0, 127), SIZE_MAX);
    size_t n = affine_safe_inputs(127, 127);
    int32_t *x = malloc((n + 1) * sizeof *x), acc;
    REQUIRE(x);
    for (size_t i = 0; i <= n; i++)
        x[i] = 127;
    struct affine_product p = {.rows = 1, .inputs = n, .outputs = 1, .x = x, .w = x};
    REQUIRE_OK(affine_dot(&p, &acc, "layer", &e), &e);
    CHECK_INT(acc, 127 * 127 * 133144);
    p.inputs = n + 1;
    CHECK_INT(affine_dot(&p, &acc, "layer", &e), ERR_INPUT);
    CHECK_STR(e.where, "layer");
    CHECK(strstr(e.message, "the sum is 2147495705, which does not fit an int32 accumulator") != NULL);
    error_clear(&e);
    int64_t wide;
    REQUIRE_OK(affine_dot_wide(&p, &wide, "layer", &e), &e);
    CHECK_INT(wide, 127 * 127 * INT64_C(133145));
    // A bias can take it over, or bring it back.
    const int64_t bias[1] = {-20000}, huge[1] = {INT64_MAX};
    p.bias = bias;
    REQUIRE_OK(affine_dot(&p, &acc, "layer", &e), &e);
    CHECK_INT(acc, 127 * 127 * INT64_C(133145) - 20000);
    p.bias = huge;
    CHECK_INT(affine_dot_wide(&p, &wide, "layer", &e), ERR_INPUT);
    error_clear(&e);
    free(x);
    // Biases in accumulator units.
    int64_t codes[2];
    double off;
    const double scales[2] = {0.5, 0.25};
    REQUIRE_OK(affine_bias((const double[]){0.125, -0.0625}, 2, 0.25, scales, codes, &off, "bias", &e), &e);
    CHECK_INT(codes[0], 1);
    CHECK_INT(codes[1], -1);
    CHECK_NEAR(off, 0, 0);
    CHECK_INT(affine_bias((const double[]){1e9, 0}, 2, 0.25, scales, codes, NULL, "bias", &e), ERR_INPUT);
    error_clear(&e);
    CHECK_INT(affine_bias((const double[]){NAN, 0}, 2, 0.25, scales, codes, NULL, "bias", &e), ERR_INPUT);
    error_clear(&e);
    CHECK_INT(affine_bias((const double[]){1, 0}, 2, 0, scales, codes, NULL, "bias", &e), ERR_INPUT);
}

TEST(num_affine_widens_codes)
{
    struct error e = {0};
    int32_t out[2];
    REQUIRE_OK(affine_widen(DT_S8, "\x80\x7f", 2, out, &e), &e);
    CHECK_INT(out[0], -128);
    REQUIRE_OK(affine_widen(DT_U8, "\x80\x7f", 2, out, &e), &e);
    CHECK_INT(out[0], 128);
    REQUIRE_OK(affine_widen(DT_S16, (const int16_t[]){-32768, 5}, 2, out, &e), &e);
    CHECK_INT(out[0], -32768);
    REQUIRE_OK(affine_widen(DT_U16, (const uint16_t[]){65535, 5}, 2, out, &e), &e);
    CHECK_INT(out[0], 65535);
    CHECK_INT(affine_widen(DT_F16, out, 2, out, &e), ERR_USAGE);
}
