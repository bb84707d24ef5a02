// SPDX-License-Identifier: Apache-2.0
#include <float.h>
#include <stdint.h>
#include <stdlib.h>

#include "fixture.h"
#include "num/convert.h"
#include "num/quantize.h"
#include "test.h"

// Sums of a few hundred squares, taken in another order than numpy's.
#define SUM_TOLERANCE 1e-13

static int read_dims(const json_t *o, int64_t dims[QUANT_MAX_RANK])
{
    const json_t *a = json_object_get(o, "dims");
    for (size_t i = 0; i < json_array_size(a); i++)
        dims[i] = json_integer_value(json_array_get(a, i));
    return (int)json_array_size(a);
}

static void check_losses(const struct quant_stats *s, const json_t *o)
{
    CHECK_NEAR(s->rel_l2, fixture_number(o, "rel_l2"), SUM_TOLERANCE);
    CHECK_NEAR(s->max_abs_error, fixture_number(o, "max_abs_error"), 0);
    CHECK_INT(s->worst_channel, fixture_number(o, "worst_channel"));
    CHECK_NEAR(s->worst_channel_rel_l2, fixture_number(o, "worst_channel_rel_l2"), SUM_TOLERANCE);
    CHECK_INT(s->flushed, fixture_number(o, "flushed"));
}

static void check_integer_case(const json_t *o)
{
    struct error e = {0};
    const char *granularity = json_string_value(json_object_get(o, "granularity"));
    const char *name = json_string_value(json_object_get(o, "name"));
    struct quant_spec spec = {
        .type = dtype_from_name(json_string_value(json_object_get(o, "type"))),
        .granularity = strcmp(granularity, "tensor") == 0    ? QUANT_PER_TENSOR
                       : strcmp(granularity, "channel") == 0 ? QUANT_PER_CHANNEL
                                                             : QUANT_PER_GROUP,
        .channel_axis = (int)fixture_number(o, "channel_axis"),
        .group_axis = (int)fixture_number(o, "group_axis"),
        .group = (int64_t)fixture_number(o, "group"),
    };
    int64_t dims[QUANT_MAX_RANK];
    int rank = read_dims(o, dims);
    size_t n, scale_count, code_count, back_count;
    float *x = fixture_floats(o, "x", &n), *want_scales = fixture_floats(o, "scales", &scale_count);
    float *want_back = fixture_floats(o, "dequantised", &back_count);
    int8_t *want_codes = fixture_bytes(o, "codes", &code_count);
    struct quant_layout l;
    REQUIRE_OK(quant_layout(&spec, dims, rank, name, &l, &e), &e);
    CHECK_INT(l.elements, n);
    REQUIRE(l.scale_count == scale_count && code_count == n && back_count == n);
    CHECK_INT(l.code_bytes, spec.type == DT_S4 ? (n + 1) / 2 : n);
    int8_t *codes = malloc(n);
    float *scales = malloc(scale_count * sizeof *scales), *back = malloc(n * sizeof *back);
    REQUIRE(codes && scales && back && x && want_scales && want_back && want_codes);
    struct quant_stats s;
    if (json_object_get(o, "scale_factor")) {
        memcpy(scales, want_scales, l.scale_bytes);
        REQUIRE_OK(quantize_codes(&spec, dims, rank, x, scales, NULL, codes, &s, name, &e), &e);
    } else {
        REQUIRE_OK(quantize(&spec, dims, rank, x, codes, scales, NULL, &s, name, &e), &e);
    }
    REQUIRE_OK(dequantize(&spec, dims, rank, codes, scales, NULL, back, name, &e), &e);
    bool same = memcmp(codes, want_codes, n) == 0 && memcmp(scales, want_scales, l.scale_bytes) == 0;
    for (size_t i = 0; i < n; i++)
        same &= back[i] == want_back[i]; // numpy keeps -0 where a code is -0; ours are integers
    if (!CHECK(same))
        printf("  in case %s\n", name);
    check_losses(&s, o);
    CHECK_INT(s.clipped, fixture_number(o, "clipped"));
    CHECK_NEAR(s.scale_min, fixture_number(o, "scale_min"), 0);
    CHECK_NEAR(s.scale_max, fixture_number(o, "scale_max"), 0);
    CHECK_NEAR(s.max_error_in_scales, fixture_number(o, "max_error_in_scales"), 0);
    CHECK(s.bound_holds && s.bound_in_scales >= 0.5 && s.bound_in_scales < 0.50001);
    free(x), free(want_scales), free(want_back), free(want_codes), free(codes), free(scales), free(back);
}

TEST(num_quantize_equals_numpy)
{
    json_t *root = fixture_json("num/quantize.json");
    const json_t *cases = json_object_get(root, "integer");
    CHECK(json_array_size(cases) > 10);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_integer_case(json_array_get(cases, i));
    json_decref(root);
}

TEST(num_quantize_float_types_equal_ml_dtypes)
{
    json_t *root = fixture_json("num/quantize.json");
    const json_t *cases = json_object_get(root, "float");
    CHECK_INT(json_array_size(cases), 4);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *o = json_array_get(cases, i);
        struct error e = {0};
        enum dtype type = dtype_from_name(json_string_value(json_object_get(o, "type")));
        int64_t dims[QUANT_MAX_RANK];
        int rank = read_dims(o, dims);
        size_t n;
        float *x = fixture_floats(o, "x", &n);
        uint8_t *out = malloc(n * 2);
        REQUIRE(x && out);
        struct quant_stats s;
        REQUIRE_OK(quantize_float(type, dims, rank, 0, x, out, &s, "w", &e), &e);
        const json_t *codes = json_object_get(o, "codes");
        int wrong = 0;
        for (size_t k = 0; k < n; k++) {
            uint16_t wide;
            memcpy(&wide, out + (dtype_bits(type) == 8 ? k : 2 * k), dtype_bits(type) == 8 ? 1 : 2);
            unsigned got = dtype_bits(type) == 8 ? out[k] : wide;
            wrong += got != (unsigned)json_integer_value(json_array_get(codes, k));
        }
        CHECK_INT(wrong, 0);
        check_losses(&s, o);
        CHECK_INT(s.overflowed, 0);
        CHECK(isnan(s.scale_min) && isnan(s.bound_in_scales) && !s.bound_holds);
        free(x), free(out);
    }
    json_decref(root);
}

TEST(num_quantize_float_counts_what_is_lost)
{
    struct error e = {0};
    float x[6] = {70000, 1e-9f, NAN, INFINITY, 1, -70000};
    uint16_t out[6];
    struct quant_stats s;
    int64_t dims[2] = {2, 3};
    REQUIRE_OK(quantize_float(DT_F16, dims, 2, 1, x, out, &s, "w", &e), &e);
    CHECK_INT(s.elements, 6);
    CHECK_INT(s.overflowed, 2);
    CHECK_INT(s.flushed, 1);
    CHECK_INT(s.nonfinite, 2);
    CHECK(isinf(s.rel_l2) && isinf(s.max_abs_error) && isinf(s.worst_channel_rel_l2));
    CHECK_INT(s.worst_channel, 0);
    float y[3] = {500, 448, -464}; // f8e4m3fn: 464 is the tie that still goes to 448
    uint8_t codes[3];
    dims[0] = 3;
    REQUIRE_OK(quantize_float(DT_F8E4M3FN, dims, 1, -1, y, codes, &s, "w", &e), &e);
    CHECK_INT(s.overflowed, 1);
    CHECK_INT(codes[0], 0x7f);
    CHECK_INT(codes[2], 0xfe);
    CHECK_INT(quantize_float(DT_S8, dims, 1, -1, y, codes, &s, "w", &e), ERR_USAGE);
}

TEST(num_quantize_zero_channel_and_lowest_code)
{
    struct error e = {0};
    float x[4] = {0, -0.0f, -2, 1};
    int64_t dims[2] = {2, 2};
    struct quant_spec spec = {.type = DT_S8, .granularity = QUANT_PER_CHANNEL};
    int8_t codes[4];
    float scales[2];
    struct quant_stats s;
    REQUIRE_OK(quantize(&spec, dims, 2, x, codes, scales, NULL, &s, "w", &e), &e);
    CHECK_NEAR(scales[0], 1, 0);
    CHECK_INT(codes[0], 0);
    CHECK_INT(codes[1], 0);
    CHECK_INT(codes[2], -127); // never -128
    CHECK_INT(s.worst_channel, 1);
    memset(x, 0, sizeof x);
    REQUIRE_OK(quantize(&spec, dims, 2, x, codes, scales, NULL, &s, "w", &e), &e);
    CHECK(isnan(s.rel_l2) && isnan(s.worst_channel_rel_l2));
    CHECK_INT(s.flushed, 0);
    CHECK(s.bound_holds);
    // Extremes: no scale overflows or becomes zero.
    float y[4] = {FLT_MAX, -FLT_MAX, 0x1p-149f, 0x1p-130f};
    REQUIRE_OK(quantize(&spec, dims, 2, y, codes, scales, NULL, &s, "w", &e), &e);
    CHECK_INT(codes[0], 127);
    CHECK_INT(codes[1], -127);
    CHECK_NEAR(scales[1], FLT_MIN, 0);
    CHECK_INT(codes[2], 0);
    CHECK_INT(s.flushed, 2);
    CHECK_INT(s.clipped, 0);
}

TEST(num_quantize_clips_on_both_sides)
{
    struct error e = {0};
    struct quant_spec spec = {.type = DT_S8, .channel_axis = -1};
    int64_t dims[1] = {6};
    float x[6] = {127.49f, 127.5f, -127.5f, 300, -300, 1}, scale = 1;
    int8_t codes[6];
    struct quant_stats s;
    REQUIRE_OK(quantize_codes(&spec, dims, 1, x, &scale, NULL, codes, &s, "w", &e), &e);
    static const int8_t want[6] = {127, 127, -127, 127, -127, 1};
    CHECK(memcmp(codes, want, 6) == 0);
    CHECK_INT(s.clipped, 4); // 127.5 is a tie that would go to 128
    CHECK(s.bound_holds);    // it speaks of what was not clipped
    CHECK_NEAR(s.max_abs_error, 173, 0);
}

TEST(num_quantize_refuses)
{
    struct error e = {0};
    float x[8] = {1, 2, 3, NAN, 5, INFINITY, 7, 8}, scales[8];
    int8_t codes[8];
    int64_t dims[2] = {2, 4};
    struct quant_stats s;
    struct quant_layout l;
    struct quant_spec spec = {.type = DT_S8, .channel_axis = -1};
    CHECK_INT(quantize(&spec, dims, 2, x, codes, scales, NULL, &s, "layer.weight", &e), ERR_INPUT);
    CHECK_STR(e.where, "layer.weight");
    CHECK(strstr(e.message, "2 of 8 values are not finite, the first at index 3") != NULL);
    CHECK_INT(s.nonfinite, 2);
    error_clear(&e);
    CHECK_INT(quantize_scales(&spec, dims, 2, x, scales, NULL, NULL, "w", &e), ERR_INPUT);
    error_clear(&e);
    scales[0] = 1;
    CHECK_INT(quantize_codes(&spec, dims, 2, x, scales, NULL, codes, &s, "w", &e), ERR_INPUT);
    error_clear(&e);
    x[3] = x[5] = 0;
    static const float bad[] = {0, -1, NAN, INFINITY};
    for (int i = 0; i < 4; i++) {
        CHECK_INT(quantize_codes(&spec, dims, 2, x, &bad[i], NULL, codes, &s, "w", &e), ERR_INPUT);
        CHECK(strstr(e.message, "scale 0 is ") != NULL);
        error_clear(&e);
    }
    static const struct quant_spec wrong[] = {
        {.type = DT_F16, .channel_axis = -1},
        {.type = DT_S32, .channel_axis = -1},
        {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .channel_axis = -1},
        {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .channel_axis = 2},
        {.type = DT_S8, .granularity = QUANT_PER_GROUP, .group_axis = 1, .group = 3},
        {.type = DT_S8, .granularity = QUANT_PER_GROUP, .group_axis = 2, .group = 2},
        {.type = DT_S8, .granularity = QUANT_PER_GROUP, .group_axis = 1},
        {.type = DT_S8, .granularity = QUANT_PER_GROUP, .group_axis = -1, .group = 2},
        {.type = DT_S8, .granularity = QUANT_PER_BLOCK, .block = {2, 3}},
        {.type = DT_S8, .granularity = QUANT_PER_BLOCK, .block = {-1}, .short_last = true},
        {.type = DT_S8, .granularity = (enum quant_granularity)9},
        {.type = DT_S8, .scale_type = DT_F64},
        {.type = DT_S8, .nonfinite = QUANT_KEEP},
        {.type = DT_F8E5M2, .mapping = QUANT_AFFINE},
        {.type = DT_F8E5M2, .divisor = QUANT_BY_HALF_RANGE},
        {.type = DT_F8E4M3FN, .rounding = QUANT_HALF_AWAY},
        {.type = DT_S8, .from = QUANT_FROM_PERCENTILE, .search = {.percentile = 50}},
        {.type = DT_S8, .from = QUANT_FROM_PERCENTILE, .search = {.percentile = NAN}},
        {.type = DT_S8, .from = QUANT_FROM_ERROR, .search = {.max_shrink = 1}},
        {.type = DT_S8, .from = QUANT_FROM_ERROR, .search = {.steps = -1}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_INT(quant_layout(&wrong[i], dims, 2, "w", &l, &e), ERR_USAGE);
        error_clear(&e);
    }
    int64_t empty[2] = {0, 4}, huge[3] = {1 << 30, 1 << 30, 1 << 30}, negative[1] = {-1};
    CHECK_INT(quant_layout(&spec, empty, 2, "w", &l, &e), ERR_USAGE);
    CHECK_INT(quant_layout(&spec, huge, 3, "w", &l, &e), ERR_USAGE);
    CHECK_INT(quant_layout(&spec, negative, 1, "w", &l, &e), ERR_USAGE);
    CHECK_INT(quant_layout(&spec, dims, 9, "w", &l, &e), ERR_USAGE);
}

TEST(num_quantize_packs_low_nibble_first)
{
    struct error e = {0};
    // 3 x 4; along the last axis the neighbours share a byte, along the first the rows do.
    int8_t codes[12] = {-8, -1, 7, 0, 1, 2, 3, 4, 5, 6, -7, -2}, back[12];
    int64_t dims[2] = {3, 4};
    uint8_t packed[8];
    size_t bytes;
    REQUIRE_OK(quant_packed_bytes(DT_S4, dims, 2, 1, &bytes, &e), &e);
    CHECK_INT(bytes, 6);
    REQUIRE_OK(quant_pack(DT_S4, dims, 2, 1, codes, packed, &e), &e);
    CHECK(memcmp(packed, "\xf8\x07\x21\x43\x65\xe9", 6) == 0);
    REQUIRE_OK(quant_unpack(DT_S4, dims, 2, 1, packed, back, &e), &e);
    CHECK(memcmp(codes, back, 12) == 0);
    REQUIRE_OK(quant_packed_bytes(DT_S4, dims, 2, 0, &bytes, &e), &e);
    CHECK_INT(bytes, 8); // three rows: the fourth half row is zero
    REQUIRE_OK(quant_pack(DT_S4, dims, 2, 0, codes, packed, &e), &e);
    CHECK(memcmp(packed, "\x18\x2f\x37\x40\x05\x06\x09\x0e", 8) == 0);
    memset(back, 99, sizeof back);
    REQUIRE_OK(quant_unpack(DT_S4, dims, 2, 0, packed, back, &e), &e);
    CHECK(memcmp(codes, back, 12) == 0);
    CHECK_INT(quant_pack(DT_S4, dims, 2, 2, codes, packed, &e), ERR_USAGE);
}
