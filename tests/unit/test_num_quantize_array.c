// SPDX-License-Identifier: Apache-2.0
// Whole arrays on threads against quantize() and dequantize(), on every instruction set this machine has.
#include <stdint.h>
#include <stdlib.h>

#include "num/convert.h"
#include "num/isa.h"
#include "num/quantize_array.h"
#include "test.h"

static const struct layout_case {
    const char *what;
    int rank;
    int64_t dims[3];
    struct quant_spec spec;
} cases[] = {
    {"rows", 2, {37, 300}, {.type = DT_S8, .granularity = QUANT_PER_CHANNEL}},
    {"long rows", 2, {5, 9001}, {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .range = QUANT_FULL}},
    {"rows of rank 3", 3, {7, 6, 50}, {.type = DT_U8, .granularity = QUANT_PER_CHANNEL}},
    {"columns", 2, {301, 130}, {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .channel_axis = 1}},
    {"many columns", 2, {3, 9000}, {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .channel_axis = 1}},
    {"columns in pairs", 2, {33, 70}, {.type = DT_S4, .granularity = QUANT_PER_CHANNEL, .channel_axis = 1}},
    {"the middle axis", 3, {4, 9, 11}, {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .channel_axis = 1}},
    {"all", 2, {123, 1001}, {.type = DT_S8, .granularity = QUANT_PER_TENSOR, .channel_axis = -1}},
    {"all in pairs", 1, {70001}, {.type = DT_U4, .granularity = QUANT_PER_TENSOR, .channel_axis = -1}},
    {"groups", 2, {65, 320}, {.type = DT_S4, .granularity = QUANT_PER_GROUP, .group_axis = 1, .group = 32}},
    {"long groups", 2, {9, 6000}, {.type = DT_S4, .granularity = QUANT_PER_GROUP, .group_axis = 1, .group = 3000}},
    {"odd groups", 2, {8, 15}, {.type = DT_S4, .granularity = QUANT_PER_GROUP, .group_axis = 1, .group = 5}},
    {"groups of rows", 2, {64, 10}, {.type = DT_S8, .granularity = QUANT_PER_GROUP, .group_axis = 0, .group = 16}},
    {"scales in bf16",
     2,
     {16, 64},
     {.type = DT_S8, .granularity = QUANT_PER_GROUP, .group_axis = 1, .group = 16, .scale_type = DT_BF16}},
    {"half the range",
     2,
     {16, 64},
     {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .range = QUANT_FULL, .divisor = QUANT_BY_HALF_RANGE}},
    {"affine rows", 2, {21, 400}, {.type = DT_U8, .granularity = QUANT_PER_CHANNEL, .mapping = QUANT_AFFINE}},
    {"affine columns",
     2,
     {21, 40},
     {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .channel_axis = 1, .mapping = QUANT_AFFINE}},
    {"affine groups",
     2,
     {21, 64},
     {.type = DT_U4, .granularity = QUANT_PER_GROUP, .group_axis = 1, .group = 16, .mapping = QUANT_AFFINE}},
    {"two bits", 2, {21, 33}, {.type = DT_S2, .granularity = QUANT_PER_CHANNEL}},
    {"away from zero", 2, {21, 33}, {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .rounding = QUANT_HALF_AWAY}},
    {"a scalar", 0, {0}, {.type = DT_S4, .granularity = QUANT_PER_TENSOR, .channel_axis = -1}},
};
enum { CASES = sizeof cases / sizeof *cases, MOST = 200000 };
static const enum dtype types[] = {DT_F32, DT_BF16, DT_F16};

static uint64_t state = 5;

static double draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 33) * 0x1p-31;
}

// Rows of different sizes, one of them zero; the first of each 7 a tie when the scale is a power of two.
static void fill(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = i / 300 == 2 ? 0 : (float)((draw() - 0.5) * exp2(floor(8 * draw()) - 12) * (double)(i / 1000 + 1));
}

static void check_case(const struct layout_case *c, enum dtype type, struct threads *threads)
{
    static float x[MOST], back[MOST], want_scales[MOST], scales[MOST];
    static uint8_t source[4 * MOST], want[MOST], want_packed[MOST], codes[MOST];
    static int32_t want_zeros[MOST], zeros[MOST];
    static uint8_t want_back[4 * MOST], got_back[4 * MOST];
    struct error e = {0};
    struct quant_layout l;
    struct quant_stats stats;
    int64_t one = 1;
    REQUIRE_OK(quant_layout(&c->spec, c->dims, c->rank, c->what, &l, &e), &e);
    REQUIRE(l.elements < MOST);
    size_t bytes = l.elements * (size_t)dtype_bits(type) / 8, packed_bytes = l.elements * (size_t)l.code_size;
    fill(x, l.elements);
    REQUIRE_OK(convert_elements(type, source, DT_F32, x, l.elements, &e), &e);
    REQUIRE_OK(convert_elements(DT_F32, x, type, source, l.elements, &e), &e);
    memset(zeros, 0, sizeof zeros);
    memset(want_zeros, 0, sizeof want_zeros);
    REQUIRE_OK(quantize(&c->spec, c->dims, c->rank, x, want, want_scales, want_zeros, &stats, c->what, &e), &e);
    memcpy(want_packed, want, packed_bytes);
    if (dtype_bits(c->spec.type) < 8) {
        const int64_t *dims = c->rank ? c->dims : &one;
        int rank = c->rank ? c->rank : 1;
        REQUIRE_OK(quant_packed_bytes(c->spec.type, dims, rank, rank - 1, &packed_bytes, &e), &e);
        REQUIRE_OK(quant_pack(c->spec.type, dims, rank, rank - 1, want, want_packed, &e), &e);
    }
    REQUIRE_OK(dequantize(&c->spec, c->dims, c->rank, want, want_scales, want_zeros, back, c->what, &e), &e);
    REQUIRE_OK(convert_elements(type, want_back, DT_F32, back, l.elements, &e), &e);

    codes[packed_bytes] = 0xa5;
    got_back[bytes] = 0xa5;
    REQUIRE_OK(quantize_array(&c->spec, c->dims, c->rank, type, source, codes, scales, zeros, threads, c->what, &e),
               &e);
    bool same = memcmp(codes, want_packed, packed_bytes) == 0 &&
                memcmp(scales, want_scales, l.scale_count * sizeof *scales) == 0 &&
                memcmp(zeros, want_zeros, l.scale_count * sizeof *zeros) == 0;
    REQUIRE_OK(dequantize_array(&c->spec, c->dims, c->rank, codes, scales, zeros, type, got_back, threads, c->what, &e),
               &e);
    bool same_back = memcmp(got_back, want_back, bytes) == 0;
    CHECK(codes[packed_bytes] == 0xa5 && got_back[bytes] == 0xa5);
    if (!CHECK(same && same_back))
        printf("  %s of %s, %s\n", c->what, dtype_name(type), isa_name(isa_in_force()));
}

TEST(num_quantize_array_equals_quantize)
{
    struct error e = {0};
    struct threads *threads;
    REQUIRE_OK(threads_new(&threads, 3, &e), &e);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_force((enum isa)isa))
            continue;
        for (size_t c = 0; c < CASES; c++) {
            for (size_t t = 0; t < 3; t++)
                check_case(&cases[c], types[t], t % 2 ? NULL : threads);
        }
    }
    threads_free(threads);
}

// Large enough to be written around the caches, and for columns to be cut into stripes.
TEST(num_quantize_array_large)
{
    enum { ROWS = 1500, COLUMNS = 6000, N = ROWS * COLUMNS };
    static const int64_t dims[2] = {ROWS, COLUMNS};
    static const struct quant_spec specs[3] = {
        {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .channel_axis = 0},
        {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .channel_axis = 1},
        {.type = DT_S4, .granularity = QUANT_PER_GROUP, .channel_axis = 0, .group_axis = 1, .group = 24}};
    float *x = malloc(N * sizeof *x), *back = malloc(N * sizeof *x), *want_back = malloc(N * sizeof *x);
    float *scales = malloc(N * sizeof *x), *want_scales = malloc(N * sizeof *x);
    uint8_t *codes = malloc(N), *want = malloc(N), *packed = malloc(N);
    struct error e = {0};
    struct threads *threads;
    REQUIRE(x && back && want_back && scales && want_scales && codes && want && packed);
    REQUIRE_OK(threads_new(&threads, 2, &e), &e);
    fill(x, N);
    for (int s = 0; s < 3; s++) {
        struct quant_layout l;
        struct quant_stats stats;
        REQUIRE_OK(quant_layout(&specs[s], dims, 2, NULL, &l, &e), &e);
        REQUIRE_OK(quantize(&specs[s], dims, 2, x, want, want_scales, NULL, &stats, NULL, &e), &e);
        REQUIRE_OK(dequantize(&specs[s], dims, 2, want, want_scales, NULL, want_back, NULL, &e), &e);
        REQUIRE_OK(quantize_array(&specs[s], dims, 2, DT_F32, x, packed, scales, NULL, threads, NULL, &e), &e);
        memcpy(codes, packed, N);
        if (specs[s].type == DT_S4)
            REQUIRE_OK(quant_unpack(DT_S4, dims, 2, 1, packed, codes, &e), &e);
        REQUIRE_OK(dequantize_array(&specs[s], dims, 2, packed, scales, NULL, DT_F32, back, threads, NULL, &e), &e);
        CHECK(memcmp(codes, want, N) == 0);
        CHECK(memcmp(scales, want_scales, l.scale_count * sizeof *scales) == 0);
        CHECK(memcmp(back, want_back, N * sizeof *back) == 0);
    }
    threads_free(threads);
    free(x), free(back), free(want_back), free(scales), free(want_scales), free(codes), free(want), free(packed);
}

TEST(num_quantize_array_refuses)
{
    struct error e = {0};
    int64_t dims[2] = {4, 64};
    struct quant_spec spec = {.type = DT_S8, .granularity = QUANT_PER_CHANNEL};
    static float x[256], scales[4];
    static uint8_t codes[256];
    CHECK_INT(quantize_array(&spec, dims, 2, DT_F64, x, codes, scales, NULL, NULL, "w", &e), ERR_USAGE);
    CHECK_STR(e.message, "f64 values are not quantised: f32, f16 and bf16 are");
    error_clear(&e);
    x[70] = (float)NAN;
    CHECK_INT(quantize_array(&spec, dims, 2, DT_F32, x, codes, scales, NULL, NULL, "w", &e), ERR_INPUT);
    CHECK(strstr(e.message, "index 70") != NULL);
    error_clear(&e);
    // Saturating them is quantize()'s business, too.
    spec.nonfinite = QUANT_SATURATE;
    CHECK_INT(quantize_array(&spec, dims, 2, DT_F32, x, codes, scales, NULL, NULL, "w", &e), 0);
    CHECK_INT(codes[70], 0);
    scales[2] = INFINITY;
    CHECK_INT(dequantize_array(&spec, dims, 2, codes, scales, NULL, DT_F32, x, NULL, "w", &e), ERR_INPUT);
    CHECK_STR(e.where, "w");
    CHECK(strstr(e.message, "scale 2 is inf") != NULL);
}
