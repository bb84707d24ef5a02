// SPDX-License-Identifier: Apache-2.0
// Every rule of a quantisation against numpy in f32, and through it against ONNX Runtime and torch where they have the
// same rule (tests/oracle/quantize.py); and the kernels against the plain loops.
#include <float.h>
#include <stdint.h>
#include <stdlib.h>

#include "fixture.h"
#include "num/convert.h"
#include "num/format.h"
#include "num/quantize.h"
#include "num/quantize_internal.h"
#include "num/quantize_kernels.h"
#include "test.h"

static const char *word(const json_t *o, const char *key, const char *absent)
{
    const json_t *v = json_object_get(o, key);
    return v ? json_string_value(v) : absent;
}

static double number(const json_t *o, const char *key, double absent)
{
    const json_t *v = json_object_get(o, key);
    return v ? json_number_value(v) : absent;
}

static int choice(const char *text, const char *const *words)
{
    int i = 0;
    while (words[i] && strcmp(words[i], text) != 0)
        i++;
    if (!words[i])
        CHECK_STR(text, words[0]);
    return i;
}

static struct quant_spec read_spec(const json_t *o)
{
    static const char *const grains[] = {"tensor", "channel", "group", "block", NULL};
    static const char *const ranges[] = {"absmax", "percentile", "error", NULL};
    static const char *const policies[] = {"refuse", "saturate", "keep", NULL};
    struct quant_spec s = {
        .type = dtype_from_name(word(o, "type", "")),
        .granularity = (enum quant_granularity)choice(word(o, "granularity", "tensor"), grains),
        .channel_axis = (int)number(o, "channel_axis", -1),
        .group_axis = (int)number(o, "group_axis", 0),
        .group = (int64_t)number(o, "group", 0),
        .short_last = json_is_true(json_object_get(o, "short_last")),
        .mapping = json_is_true(json_object_get(o, "affine")) ? QUANT_AFFINE : QUANT_SYMMETRIC,
        .range = json_is_true(json_object_get(o, "full")) ? QUANT_FULL : QUANT_NARROW,
        .divisor = json_is_true(json_object_get(o, "half_range")) ? QUANT_BY_HALF_RANGE : QUANT_BY_QMAX,
        .zero_order =
            json_is_true(json_object_get(o, "before")) ? QUANT_ZERO_BEFORE_ROUNDING : QUANT_ZERO_AFTER_ROUNDING,
        .rounding = json_is_true(json_object_get(o, "away")) ? QUANT_HALF_AWAY : QUANT_HALF_EVEN,
        .reciprocal = json_is_true(json_object_get(o, "reciprocal")),
        .from = (enum quant_range_from)choice(word(o, "from", "absmax"), ranges),
        .search = {.percentile = number(o, "percentile", 0),
                   .steps = (int)number(o, "steps", 0),
                   .max_shrink = number(o, "max_shrink", 0),
                   .norm = number(o, "norm", 0),
                   .patience = (int)number(o, "patience", 0)},
        .scale_type = dtype_from_name(word(o, "scale_type", "f32")),
        .scale_up = json_is_true(json_object_get(o, "scale_up")),
        .nonfinite = (enum quant_nonfinite)choice(word(o, "nonfinite", "refuse"), policies),
    };
    const json_t *block = json_object_get(o, "block");
    for (size_t i = 0; i < json_array_size(block); i++)
        s.block[i] = json_integer_value(json_array_get(block, i));
    return s;
}

struct rule_case {
    const char *name;
    struct quant_spec spec;
    int64_t dims[QUANT_MAX_RANK];
    int rank;
    size_t n, n_scales;
    float *x, *scales, *back; // expected
    int32_t *zeros;
    int64_t *codes;
    bool given;
    const json_t *o;
};

static void read_case(const json_t *root, const json_t *o, struct rule_case *c)
{
    memset(c, 0, sizeof *c);
    c->o = o;
    c->name = word(o, "name", "");
    c->spec = read_spec(o);
    const json_t *dims = json_object_get(o, "dims"), *zeros = json_object_get(o, "zeros");
    c->rank = (int)json_array_size(dims);
    for (int d = 0; d < c->rank; d++)
        c->dims[d] = json_integer_value(json_array_get(dims, (size_t)d));
    size_t at = (size_t)number(o, "x", 0), n;
    c->x = fixture_floats(json_array_get(json_object_get(root, "inputs"), at), "x", &c->n);
    c->scales = fixture_floats(o, "scales", &c->n_scales);
    c->back = fixture_floats(o, "dequantised", &n);
    c->zeros = calloc(c->n_scales, sizeof *c->zeros);
    c->codes = calloc(c->n, sizeof *c->codes);
    c->given = json_is_true(json_object_get(o, "given"));
    for (size_t i = 0; i < c->n_scales && c->zeros; i++)
        c->zeros[i] = (int32_t)json_integer_value(json_array_get(zeros, i));
    for (size_t i = 0; i < c->n && c->codes; i++)
        c->codes[i] = json_integer_value(json_array_get(json_object_get(o, "codes"), i));
}

static void release_case(struct rule_case *c)
{
    free(c->x), free(c->scales), free(c->back), free(c->zeros), free(c->codes);
}

static int64_t code_at(enum dtype type, const void *codes, size_t i)
{
    bool is_signed = dtype_info(type)->kind == DTK_SIGNED;
    if (dtype_bits(type) > 8)
        return is_signed ? ((const int16_t *)codes)[i] : ((const uint16_t *)codes)[i];
    return is_signed ? ((const int8_t *)codes)[i] : ((const uint8_t *)codes)[i];
}

// NaN is NaN, and -0 is 0: codes are integers, numpy's are not.
static bool same_value(float a, float b)
{
    return a == b || (isnan(a) && isnan(b));
}

static void check_case(const struct rule_case *c)
{
    struct error e = {0};
    struct quant_layout l;
    struct quant_stats s;
    REQUIRE_OK(quant_layout(&c->spec, c->dims, c->rank, c->name, &l, &e), &e);
    REQUIRE(l.elements == c->n && l.scale_count == c->n_scales);
    void *codes = malloc(c->n * (size_t)l.code_size);
    float *scales = malloc(l.scale_bytes), *back = malloc(c->n * sizeof *back);
    int32_t *zeros = malloc(c->n_scales * sizeof *zeros);
    uint8_t *stored = malloc(l.stored_scale_bytes);
    REQUIRE(codes && scales && back && zeros && stored);
    memcpy(scales, c->scales, l.scale_bytes);
    memcpy(zeros, c->zeros, c->n_scales * sizeof *zeros);
    if (c->given)
        REQUIRE_OK(quantize_codes(&c->spec, c->dims, c->rank, c->x, scales, zeros, codes, &s, c->name, &e), &e);
    else
        REQUIRE_OK(quantize(&c->spec, c->dims, c->rank, c->x, codes, scales, zeros, &s, c->name, &e), &e);
    REQUIRE_OK(dequantize(&c->spec, c->dims, c->rank, codes, scales, zeros, back, c->name, &e), &e);
    int wrong_scales = 0, wrong_codes = 0, wrong_values = 0;
    for (size_t i = 0; i < c->n_scales; i++)
        wrong_scales += scales[i] != c->scales[i] || zeros[i] != c->zeros[i];
    for (size_t i = 0; i < c->n; i++) {
        wrong_codes += code_at(c->spec.type, codes, i) != c->codes[i];
        wrong_values += !same_value(back[i], c->back[i]);
    }
    bool ok = CHECK_INT(wrong_scales, 0);
    ok &= CHECK_INT(wrong_codes, 0);
    ok &= CHECK_INT(wrong_values, 0);
    ok &= CHECK_INT(s.clipped, fixture_number(c->o, "clipped"));
    ok &= CHECK_INT(s.nonfinite, fixture_number(c->o, "not_finite"));
    ok &= CHECK_INT(s.nan, fixture_number(c->o, "nan"));
    ok &= CHECK_INT(s.flushed, fixture_number(c->o, "flushed"));
    ok &= CHECK_INT(s.scales_raised, fixture_number(c->o, "raised"));
    ok &= CHECK_INT(s.scales_lowered, fixture_number(c->o, "lowered"));
    ok &= CHECK_NEAR(s.max_abs_error, fixture_number(c->o, "max_abs_error"), 0);
    ok &= CHECK_NEAR(s.max_error_in_scales, fixture_number(c->o, "max_error_in_scales"), 0);
    ok &= CHECK(s.bound_holds && s.max_error_in_scales <= s.bound_in_scales);
    // Scales survive their storage.
    REQUIRE_OK(quant_store_scales(&c->spec, scales, l.scale_count, stored, c->name, &e), &e);
    float *loaded = malloc(l.scale_bytes);
    REQUIRE(loaded);
    REQUIRE_OK(quant_load_scales(&c->spec, stored, l.scale_count, loaded, c->name, &e), &e);
    ok &= CHECK(memcmp(loaded, scales, l.scale_bytes) == 0);
    if (!ok)
        printf("  in case %s, %s\n", c->name, dtype_name(c->spec.type));
    free(codes), free(scales), free(back), free(zeros), free(stored), free(loaded);
}

TEST(num_quantize_rules_equal_numpy_onnxruntime_and_torch)
{
    json_t *root = fixture_json("num/quantize_rules.json");
    const json_t *cases = json_object_get(root, "cases");
    size_t with_onnx = 0, with_torch = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        struct rule_case c;
        const json_t *o = json_array_get(cases, i), *peers = json_object_get(o, "peers");
        for (size_t p = 0; p < json_array_size(peers); p++) {
            const char *name = json_string_value(json_array_get(peers, p));
            with_onnx += strcmp(name, "onnxruntime") == 0;
            with_torch += strcmp(name, "torch") == 0;
        }
        read_case(root, o, &c);
        check_case(&c);
        release_case(&c);
    }
    CHECK(json_array_size(cases) > 100 && with_onnx > 15 && with_torch > 3);
    json_decref(root);
}

// x/s = 0.5, 2.5 and -0.5 at scale 1: adding the zero point before rounding, and rounding half away, are three families
// and not one.
TEST(num_quantize_rules_differ_on_ties)
{
    struct error e = {0};
    const float x[3] = {0.5f, 2.5f, -0.5f}, scale = 1;
    const int64_t dims[1] = {3};
    const struct {
        enum quant_zero_order order;
        enum quant_rounding rounding;
        int zero, want[3];
    } rules[] = {
        {QUANT_ZERO_AFTER_ROUNDING, QUANT_HALF_EVEN, -3, {-3, -1, -3}},  // ONNX, torch
        {QUANT_ZERO_BEFORE_ROUNDING, QUANT_HALF_EVEN, -3, {-2, 0, -4}},  // StableHLO, qwix
        {QUANT_ZERO_AFTER_ROUNDING, QUANT_HALF_AWAY, -3, {-2, 0, -4}},   // LiteRT
        {QUANT_ZERO_AFTER_ROUNDING, QUANT_HALF_EVEN, 0, {0, 2, 0}},      //
        {QUANT_ZERO_AFTER_ROUNDING, QUANT_HALF_AWAY, 0, {1, 3, -1}},     //
        {QUANT_ZERO_BEFORE_ROUNDING, QUANT_HALF_AWAY, -3, {-3, -1, -4}}, //
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct quant_spec spec = {.type = DT_S8,
                                  .channel_axis = -1,
                                  .mapping = QUANT_AFFINE,
                                  .range = QUANT_FULL,
                                  .zero_order = rules[i].order,
                                  .rounding = rules[i].rounding};
        int32_t zero = rules[i].zero;
        int8_t codes[3];
        struct quant_stats s;
        REQUIRE_OK(quantize_codes(&spec, dims, 1, x, &scale, &zero, codes, &s, "x", &e), &e);
        for (int k = 0; k < 3; k++)
            CHECK_INT(codes[k], rules[i].want[k]);
    }
}

// The same codes, scales and zero points with the kernels as without; sums differ in their order.
static void compare_paths(const struct rule_case *c)
{
    struct error e = {0};
    struct quant_layout l;
    struct quant_walk w;
    struct quant_stats plain = {0}, fast = {0};
    REQUIRE_OK(quant_layout(&c->spec, c->dims, c->rank, c->name, &l, &e), &e);
    quant_walk_init(&w, &c->spec, c->dims, c->rank, l.elements);
    REQUIRE_OK(quant_count_nonfinite(&c->spec, c->x, c->n, &plain, c->name, &e), &e);
    fast.nonfinite = plain.nonfinite;
    float *scales = malloc(2 * l.scale_bytes), *back = malloc(2 * c->n * sizeof *back);
    int32_t *zeros = malloc(2 * l.scale_count * sizeof *zeros);
    uint8_t *codes = calloc(c->n, 2 * (size_t)l.code_size);
    REQUIRE(scales && back && zeros && codes);
    float *fast_scales = scales + l.scale_count;
    int32_t *fast_zeros = zeros + l.scale_count;
    uint8_t *fast_codes = codes + c->n * (size_t)l.code_size;
    const struct quant_kernels *k = quant_kernels();
    REQUIRE_OK(quant_find_scales(&c->spec, &w, &l, NULL, c->x, scales, zeros, &plain, c->name, &e), &e);
    REQUIRE_OK(quant_find_scales(&c->spec, &w, &l, k, c->x, fast_scales, fast_zeros, &fast, c->name, &e), &e);
    bool ok = CHECK(memcmp(scales, fast_scales, l.scale_bytes) == 0);
    ok &= CHECK(memcmp(zeros, fast_zeros, l.scale_count * sizeof *zeros) == 0);
    const int32_t *z = l.has_zeros ? zeros : NULL;
    REQUIRE_OK(quant_encode_tensor(&c->spec, &w, &l, NULL, c->x, scales, z, codes, &plain, c->name, &e), &e);
    REQUIRE_OK(quant_encode_tensor(&c->spec, &w, &l, k, c->x, scales, z, fast_codes, &fast, c->name, &e), &e);
    ok &= CHECK(memcmp(codes, fast_codes, c->n * (size_t)l.code_size) == 0);
    ok &= CHECK_INT(fast.clipped, plain.clipped) & CHECK_INT(fast.flushed, plain.flushed);
    ok &= CHECK_INT(fast.scales_raised, plain.scales_raised);
    ok &= CHECK_NEAR(fast.max_abs_error, plain.max_abs_error, 0);
    ok &= CHECK_NEAR(fast.max_error_in_scales, plain.max_error_in_scales, 0);
    ok &= CHECK_INT(fast.bound_holds, plain.bound_holds);
    // Sums of at most some hundred terms in another order.
    ok &= CHECK((isnan(fast.rel_l2) && isnan(plain.rel_l2)) || fabs(fast.rel_l2 / plain.rel_l2 - 1) < 1e-13 ||
                fast.rel_l2 == plain.rel_l2);
    quant_decode_tensor(&c->spec, &w, NULL, codes, scales, z, back);
    quant_decode_tensor(&c->spec, &w, k, codes, scales, z, back + c->n);
    int wrong = 0;
    for (size_t i = 0; i < c->n; i++)
        wrong += !same_value(back[i], back[c->n + i]);
    ok &= CHECK_INT(wrong, 0);
    if (!ok)
        printf("  in case %s, %s\n", c->name, dtype_name(c->spec.type));
    free(scales), free(back), free(zeros), free(codes);
}

TEST(num_quantize_kernels_do_what_the_plain_loops_do)
{
    json_t *root = fixture_json("num/quantize_rules.json");
    const json_t *cases = json_object_get(root, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        struct rule_case c;
        read_case(root, json_array_get(cases, i), &c);
        compare_paths(&c);
        release_case(&c);
    }
    json_decref(root);
}

TEST(num_quantize_packs_every_narrow_type)
{
    struct error e = {0};
    // 2 x 7 x 3 codes of each type, along each axis; two bits take four to a byte, the lowest index lowest.
    static const enum dtype types[] = {DT_S4, DT_U4, DT_S2, DT_U2};
    const int64_t dims[3] = {2, 7, 3};
    int8_t codes[42], back[42];
    uint8_t packed[42];
    for (size_t t = 0; t < 4; t++) {
        int bits = dtype_bits(types[t]), low = dtype_info(types[t])->kind == DTK_SIGNED ? -(1 << (bits - 1)) : 0;
        for (int i = 0; i < 42; i++)
            codes[i] = (int8_t)(low + i * 5 % (1 << bits));
        for (int axis = 0; axis < 3; axis++) {
            size_t bytes, per_byte = 8 / (size_t)bits, length = (size_t)dims[axis];
            REQUIRE_OK(quant_packed_bytes(types[t], dims, 3, axis, &bytes, &e), &e);
            CHECK_INT(bytes, 42 / length * ((length + per_byte - 1) / per_byte));
            memset(back, 99, sizeof back);
            REQUIRE_OK(quant_pack(types[t], dims, 3, axis, codes, packed, &e), &e);
            REQUIRE_OK(quant_unpack(types[t], dims, 3, axis, packed, back, &e), &e);
            CHECK(memcmp(codes, back, sizeof codes) == 0);
        }
    }
    const int64_t five[1] = {5};
    REQUIRE_OK(quant_pack(DT_S2, five, 1, 0, (const int8_t[]){1, -1, 0, -2, 1}, packed, &e), &e);
    CHECK_INT(packed[0], 1 | 3 << 2 | 0 << 4 | 2 << 6);
    CHECK_INT(packed[1], 1);
    CHECK_INT(quant_pack(DT_S8, five, 1, 0, codes, packed, &e), ERR_USAGE);
    error_clear(&e);
    const int64_t empty[2] = {4, 0};
    CHECK_INT(quant_pack(DT_S4, empty, 2, 0, codes, packed, &e), ERR_USAGE);
    error_clear(&e);
    CHECK_INT(quant_packed_bytes(DT_S4, five, 1, 1, &(size_t){0}, &e), ERR_USAGE);
}

TEST(num_quantize_refuses_what_it_cannot_store)
{
    struct error e = {0};
    struct quant_spec spec = {.type = DT_U8, .channel_axis = -1, .mapping = QUANT_AFFINE, .range = QUANT_FULL};
    const int64_t dims[1] = {3};
    const float x[3] = {0, 1, 2}, scale = 1;
    uint8_t codes[3];
    struct quant_stats s;
    static const int32_t bad[] = {-1, 256};
    for (int i = 0; i < 2; i++) {
        CHECK_INT(quantize_codes(&spec, dims, 1, x, &scale, &bad[i], codes, &s, "x", &e), ERR_INPUT);
        CHECK(strstr(e.message, "zero point 0 is ") != NULL);
        error_clear(&e);
    }
    CHECK_INT(quantize_codes(&spec, dims, 1, x, &scale, NULL, codes, &s, "x", &e), ERR_INTERNAL);
    error_clear(&e);
    // A scale that its type does not hold, or that is none.
    uint8_t out[4];
    float back;
    spec.scale_type = DT_F8E4M3FN;
    CHECK_INT(quant_store_scales(&spec, (const float[]){0.3f}, 1, out, "x", &e), ERR_INPUT);
    error_clear(&e);
    CHECK_INT(quant_store_scales(&spec, (const float[]){480}, 1, out, "x", &e), ERR_INPUT);
    error_clear(&e);
    CHECK_INT(quant_load_scales(&spec, "\x00", 1, &back, "x", &e), ERR_INPUT);
    error_clear(&e);
    CHECK_INT(quant_load_scales(&spec, "\x7f", 1, &back, "x", &e), ERR_INPUT);
    error_clear(&e);
    spec.scale_type = DT_F8E8M0FNU;
    CHECK_INT(quant_load_scales(&spec, "\xff", 1, &back, "x", &e), ERR_INPUT);
    error_clear(&e);
    REQUIRE_OK(quant_load_scales(&spec, "\x80", 1, &back, "x", &e), &e);
    CHECK_NEAR(back, 2, 0);
}

TEST(num_quantize_narrows_f64)
{
    struct error e = {0};
    const double x[5] = {1, 1e39, NAN, -1e300, INFINITY};
    float out[5];
    size_t beyond;
    CHECK_INT(quant_narrow_f64(x, 5, QUANT_REFUSE, out, &beyond, "w", &e), ERR_INPUT);
    CHECK_INT(beyond, 2);
    CHECK(strstr(e.message, "the first, 1e+39, at index 1") != NULL);
    error_clear(&e);
    REQUIRE_OK(quant_narrow_f64(x, 5, QUANT_SATURATE, out, &beyond, "w", &e), &e);
    CHECK_NEAR(out[1], FLT_MAX, 0);
    CHECK_NEAR(out[3], -FLT_MAX, 0);
    CHECK(isnan(out[2]) && isinf(out[4]));
    REQUIRE_OK(quant_narrow_f64(x, 5, QUANT_KEEP, out, &beyond, "w", &e), &e);
    CHECK(isinf(out[1]) && isinf(out[3]) && beyond == 2);
    // Rounds to FLT_MAX: not beyond.
    REQUIRE_OK(quant_narrow_f64((const double[]){FLT_MAX * (1 + 1e-9)}, 1, QUANT_REFUSE, out, &beyond, "w", &e), &e);
    CHECK_NEAR(out[0], FLT_MAX, 0);
}

// The input [2, -1, 0.5] with weight errors [0.1, -0.1, 0.1] attains its bound, 0.35. Weights 0.1, 0.1 and 0.3 at scale
// 0.2 are ties: their codes 0, 0 and 2 leave these errors, up to the rounding of 0.1, 0.2 and 0.3 to f32.
TEST(num_quantize_output_bound_is_attained)
{
    struct error e = {0};
    struct quant_spec spec = {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .channel_axis = 1};
    const int64_t dims[2] = {3, 1};
    const float w[3] = {0.9f, 1.1f, 0.4f}, scale = 1, x[3] = {2, -1, 0.5f};
    const int8_t codes[3] = {1, 1, 0};
    struct quant_output o;
    double error, bound, half;
    REQUIRE_OK(quant_output_bound(&spec, dims, 0, w, codes, &scale, NULL, x, 1, &o, &error, &bound, &half, "w", &e),
               &e);
    // dW = 0.1, -0.1, -0.4: the third has the other sign, so the bound is not attained.
    CHECK_NEAR(error, 0.1, 1e-7); // weights are f32
    CHECK_NEAR(bound, 0.5, 1e-7);
    CHECK_NEAR(half, 3.5 * (0.5 + 127.5 * 0x1p-24), 1e-15); // the sum of |x| times half a scale
    CHECK(o.holds && o.half_step_holds);
    const float w2[3] = {0.9f, 1.1f, 0.9f};
    const int8_t codes2[3] = {1, 1, 1};
    REQUIRE_OK(quant_output_bound(&spec, dims, 0, w2, codes2, &scale, NULL, x, 1, &o, &error, &bound, &half, "w", &e),
               &e);
    CHECK_NEAR(error, 0.35, 1e-7);
    CHECK(error == bound && o.holds);
    // Clipped: half a scale is not what was lost.
    const float w3[3] = {900, 1, 1};
    const int8_t codes3[3] = {127, 1, 1};
    REQUIRE_OK(quant_output_bound(&spec, dims, 0, w3, codes3, &scale, NULL, x, 1, &o, NULL, NULL, NULL, "w", &e), &e);
    CHECK(o.holds && !o.half_step_holds);
    CHECK_NEAR(o.max_error, 2 * 773, 0);
    // Weights as [out, in], two rows of x, a scale per output.
    const int64_t turned[2] = {2, 3};
    const float w4[6] = {0.9f, 1.1f, 0.9f, 3, 4, 5}, scales4[2] = {1, 2}, x4[6] = {2, -1, 0.5f, 1, 1, 1};
    const int8_t codes4[6] = {1, 1, 1, 1, 2, 3};
    double errors[4];
    spec.channel_axis = 0;
    REQUIRE_OK(quant_output_bound(&spec, turned, 1, w4, codes4, scales4, NULL, x4, 2, &o, errors, NULL, NULL, "w", &e),
               &e);
    CHECK_NEAR(errors[0], 0.35, 1e-7);
    CHECK_NEAR(errors[1], 1.5, 0); // 2 * (2-3) + -1 * 0 + 0.5 * (6-5)
    CHECK_NEAR(errors[2], 0.1, 1e-7);
    CHECK_NEAR(errors[3], 0, 0); // -1 + 0 + 1: errors cancel
    CHECK_INT(quant_output_bound(&spec, turned, 2, w4, codes4, scales4, NULL, x4, 2, &o, NULL, NULL, NULL, "w", &e),
              ERR_USAGE);
}

TEST(num_quantize_describes_every_rule)
{
    struct str s;
    str_init(&s);
    quant_describe(&(struct quant_spec){.type = DT_S8, .granularity = QUANT_PER_CHANNEL}, &s);
    CHECK_STR(str_text(&s),
              "s8 per channel of axis 0, symmetric, codes -127..127, scale = amax / 127 as f32 rounded to "
              "nearest, code = round half even(x / s), values that are not finite are refused");
    str_clear(&s);
    quant_describe(&(struct quant_spec){.type = DT_U4,
                                        .granularity = QUANT_PER_GROUP,
                                        .group = 32,
                                        .group_axis = 1,
                                        .short_last = true,
                                        .mapping = QUANT_AFFINE,
                                        .range = QUANT_FULL,
                                        .zero_order = QUANT_ZERO_BEFORE_ROUNDING,
                                        .rounding = QUANT_HALF_AWAY,
                                        .reciprocal = true,
                                        .from = QUANT_FROM_PERCENTILE,
                                        .search = {.percentile = 99},
                                        .scale_type = DT_F16,
                                        .scale_up = true,
                                        .nonfinite = QUANT_SATURATE},
                   &s);
    CHECK_STR(
        str_text(&s),
        "u4 per group of 32 along axis 1 (the last one may be shorter), affine, codes 0..15, range = percentiles 1 "
        "and 99, scale = (high - low) / 15 as f16 rounded up, code = round half away(x * (1 / s) + z), values that "
        "are not finite are saturated, NaN to zero");
    str_clear(&s);
    quant_describe(&(struct quant_spec){.type = DT_F8E4M3FN,
                                        .granularity = QUANT_PER_BLOCK,
                                        .block = {128, 128},
                                        .from = QUANT_FROM_ERROR,
                                        .nonfinite = QUANT_KEEP},
                   &s);
    CHECK_STR(
        str_text(&s),
        "f8e4m3fn per block of 128x128, symmetric, values -448 to 448, range = the whole one times 1 - i/100, i/100 "
        "< 0.2, with the least sum of |error|^2, scale = amax / 448 as f32 rounded to nearest, value = x / s rounded "
        "half even, saturating, values that are not finite are kept");
    str_release(&s);
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// Selection against sorting, with many equal values and in every order that is awkward for a pivot.
TEST(num_quantize_percentile_selects_what_sorting_finds)
{
    struct error e = {0};
    enum { N = 5001 };
    float *x = malloc(2 * N * sizeof *x), *sorted = x + N;
    REQUIRE(x);
    uint32_t state = 7;
    for (int shape = 0; shape < 5; shape++) {
        for (int i = 0; i < N; i++) {
            state = state * 1664525u + 1013904223u;
            const float values[5] = {(float)(state >> 8), (float)(state >> 29), (float)i, (float)(N - i),
                                     (float)(i % 100)};
            x[i] = values[shape];
        }
        memcpy(sorted, x, N * sizeof *x);
        qsort(sorted, N, sizeof *sorted, by_value);
        static const double percentiles[] = {50.02, 75, 90, 99.9, 100};
        for (size_t p = 0; p < 5; p++) {
            struct quant_spec spec = {.type = DT_S8,
                                      .channel_axis = -1,
                                      .from = QUANT_FROM_PERCENTILE,
                                      .search = {.percentile = percentiles[p]}};
            const int64_t dims[1] = {N};
            float scale;
            REQUIRE_OK(quantize_scales(&spec, dims, 1, x, &scale, NULL, NULL, "x", &e), &e);
            double at = percentiles[p] / 100 * (N - 1);
            // Of 5000 intervals each of these ends at a value, but for what 50.02 and 99.9 are rounded by.
            float want = sorted[(size_t)round(at)] / 127;
            CHECK_NEAR(scale / want, 1, 1e-4);
        }
    }
    free(x);
}

// Half a scale, and 2^-24 of what is rounded to f32 before: the quotient (its reciprocal, too), the sum with the zero
// point.
TEST(num_quantize_bound_counts_every_rounding)
{
    struct quant_spec s = {.type = DT_S8};
    CHECK_NEAR(quant_bound_in_scales(&s), 0.5 + 127.5 * 0x1p-24, 0);
    s.reciprocal = true;
    CHECK_NEAR(quant_bound_in_scales(&s), 0.5 + 2 * 127.5 * 0x1p-24, 0);
    s.range = QUANT_FULL;
    CHECK_NEAR(quant_bound_in_scales(&s), 0.5 + 2 * 128.5 * 0x1p-24, 0);
    s = (struct quant_spec){
        .type = DT_U8, .mapping = QUANT_AFFINE, .range = QUANT_FULL, .zero_order = QUANT_ZERO_BEFORE_ROUNDING};
    CHECK_NEAR(quant_bound_in_scales(&s), 0.5 + (255.5 + 255.5) * 0x1p-24, 0);
    s.mapping = QUANT_SYMMETRIC; // about 128
    CHECK_NEAR(quant_bound_in_scales(&s), 0.5 + (128.5 + 255.5) * 0x1p-24, 0);
    CHECK_NEAR(quant_half_step(DT_S8, 5), 0.5, 0);
    CHECK_NEAR(quant_half_step(DT_F8E4M3FN, 448), 16, 0);
    CHECK_NEAR(quant_half_step(DT_F8E4M3FN, -1), 0x1p-4, 0);
    CHECK_NEAR(quant_half_step(DT_F8E4M3FN, 0), 0x1p-10, 0);
    CHECK_NEAR(quant_half_step(DT_F8E5M2, 0x1p-16), 0x1p-17, 0);
}
