// SPDX-License-Identifier: Apache-2.0
// Blocks of neighbours, which go through the kernels of every instruction set this machine has, against the same blocks
// with their elements apart, which do not: bit for bit.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "num/block.h"
#include "num/block_kernels.h"
#include "num/isa.h"
#include "num/quantize_internal.h"
#include "num/quantize_kernels.h"
#include "test.h"

enum { ROWS = 96, COLUMNS = 70, N = ROWS * COLUMNS, LONGEST = 61 };

static uint64_t state;

static uint32_t draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static float float_from_bits(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static float any_finite(void)
{
    uint32_t bits = draw();
    return float_from_bits((bits & 0x7f800000u) == 0x7f800000u ? bits & 0xbfffffffu : bits);
}

// Ties of all codes and their neighbours below a block's largest element, at any scale; anything at all; blocks of
// zeros.
static void fill(const struct block_format *f, float *x)
{
    const struct format *element = format_of(f->element);
    unsigned codes = f->fraction ? 127 : 1u << (element->bits - 1);
    for (size_t i = 0; i < N; i++) {
        size_t row = i / COLUMNS;
        int k = (int)(row * 5 / 2) - 120;
        unsigned c = draw() % (codes - 1);
        double a = format_decode(element, c), b = format_decode(element, c + 1);
        b = isfinite(b) ? b : a;
        float tie = (float)ldexp((a + b) / 2, k - f->fraction);
        switch (draw() % 8) {
        case 0:
            tie = nextafterf(tie, INFINITY);
            break;
        case 1:
            tie = nextafterf(tie, 0);
            break;
        case 2:
            tie = row % 3 == 0 ? any_finite() : tie / 2;
            break;
        default:
            break;
        }
        tie = i % COLUMNS % f->block == 0 && row % 3 ? (float)ldexp(block_element_max(f), k) : tie;
        x[i] = !isfinite(tie) || row == 50 ? 0 : draw() % 2 ? -tie : tie;
    }
    x[7] = (float)NAN;
    x[COLUMNS + 69] = -INFINITY;
}

struct coded {
    uint8_t codes[N], scales[N];
    float g;
    struct block_stats stats;
};

static void check_same(const struct coded *a, const struct coded *across, size_t blocks)
{
    size_t codes = 0, scales = 0;
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t c = 0; c < COLUMNS; c++)
            codes += a->codes[r * COLUMNS + c] != across->codes[c * ROWS + r];
        for (size_t b = 0; b < blocks; b++)
            scales += a->scales[r * blocks + b] != across->scales[b * ROWS + r];
    }
    CHECK_INT(codes, 0);
    CHECK_INT(scales, 0);
    const struct block_stats *s = &a->stats, *t = &across->stats;
    CHECK_INT(s->clipped, t->clipped);
    CHECK_INT(s->flushed, t->flushed);
    CHECK_INT(s->overflowed, t->overflowed);
    CHECK_INT(s->clamped_scales, t->clamped_scales);
    CHECK(s->nan == t->nan && s->infinite == t->infinite && s->nan_blocks == t->nan_blocks);
    CHECK(s->scale_min == t->scale_min && s->scale_max == t->scale_max && a->g == across->g);
    CHECK(s->max_abs_error == t->max_abs_error);
    CHECK(s->rel_l2 == t->rel_l2 || fabs(s->rel_l2 - t->rel_l2) < 1e-12 * t->rel_l2); // sums in another order
}

static void check_format(const struct block_format *f, const float *x, const float *transposed,
                         const struct block_cast *cast)
{
    static struct coded along, across;
    const int64_t dims[2] = {ROWS, COLUMNS}, turned[2] = {COLUMNS, ROWS};
    struct error e = {0};
    REQUIRE_OK(block_encode(f, cast, dims, 2, 1, x, along.codes, along.scales, &along.g, &along.stats, "w", &e), &e);
    REQUIRE_OK(
        block_encode(f, cast, turned, 2, 0, transposed, across.codes, across.scales, &across.g, &across.stats, "w", &e),
        &e);
    check_same(&along, &across, (COLUMNS + f->block - 1) / f->block);
}

TEST(num_block_isa_neighbours_equal_elements_apart)
{
    static float x[N], transposed[N];
    static const float tensor_scales[] = {0, 1, 0x1p-12f, 0x1p-120f, 0x1p120f};
    enum isa before = isa_in_force();
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_force((enum isa)isa))
            continue;
        for (size_t k = 0; block_format_at(k); k++) {
            const struct block_format *f = block_format_at(k);
            state = k;
            fill(f, x);
            for (size_t i = 0; i < N; i++)
                transposed[i % COLUMNS * ROWS + i / COLUMNS] = x[i];
            for (size_t way = 0; way < (f->tensor_scale ? 5 : 4); way++) {
                struct block_cast cast = {.scale_rule = f->tensor_scale ? 0 : (enum block_scale_rule)way,
                                          .tensor_scale = f->tensor_scale ? tensor_scales[way] : 0};
                check_format(f, x, transposed, &cast);
            }
        }
    }
    isa_force(before);
}

TEST(num_block_isa_losses_are_the_same_bits)
{
    static float x[LONGEST], back[LONGEST];
    enum isa before = isa_in_force();
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_force((enum isa)isa))
            continue;
        state = 3;
        struct block_lost want = {0}, got = {0};
        for (size_t n = 0; n <= LONGEST; n++) {
            for (size_t i = 0; i < n; i++) {
                x[i] = draw() % 8 ? any_finite() : float_from_bits(draw() | 0x7f800000u);
                back[i] = draw() % 4 ? x[i] * 1.01f : draw() % 2 ? 0 : -INFINITY;
            }
            block_kernels_portable.lost(x, back, n, n % 2 ? 1 : 0.37, &want);
            block_kernels()->lost(x, back, n, n % 2 ? 1 : 0.37, &got);
            CHECK(memcmp(&want, &got, sizeof want) == 0);
        }
        CHECK(want.flushed > 0 && want.worst[3] > 0);
    }
    isa_force(before);
}

// Codes with a scale: the loops without kernels know nothing of these.
TEST(num_block_isa_float_codes_equal_the_plain_loops)
{
    static const enum dtype types[] = {DT_F8E4M3FN,   DT_F8E5M2,   DT_F8E4M3,   DT_F8E3M4,  DT_F8E4M3FNUZ,
                                       DT_F8E5M2FNUZ, DT_F6E2M3FN, DT_F6E3M2FN, DT_F4E2M1FN};
    static float x[N], scales[ROWS];
    static uint8_t codes[N], want_codes[N];
    const int64_t dims[2] = {ROWS, COLUMNS};
    enum isa before = isa_in_force();
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_force((enum isa)isa))
            continue;
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            const struct format *f = format_of(types[t]);
            struct quant_spec spec = {.type = types[t], .granularity = QUANT_PER_CHANNEL};
            struct error e = {0};
            struct quant_layout l;
            struct quant_walk w;
            struct quant_stats got = {0}, want = {0};
            state = t;
            for (size_t i = 0; i < N; i++) {
                uint64_t c = draw() % format_max_code(f);
                double tie = (format_decode(f, c) + format_decode(f, c + 1)) / 2;
                float s = scales[i / COLUMNS] = i / COLUMNS % 4 ? 0.013f : 0x1p-3f;
                float v = (float)((draw() % 3 ? tie : format_max(f) * (1 + (draw() % 64) * 0x1p-8)) * (double)s);
                x[i] = draw() % 4 == 0 ? nextafterf(v, draw() % 2 ? 0 : INFINITY) : draw() % 32 == 0 ? any_finite() : v;
                x[i] = draw() % 2 ? -x[i] : x[i];
            }
            REQUIRE_OK(quant_layout(&spec, dims, 2, "w", &l, &e), &e);
            quant_walk_init(&w, &spec, dims, 2, N);
            REQUIRE_OK(quant_encode_tensor(&spec, &w, &l, NULL, x, scales, NULL, want_codes, &want, "w", &e), &e);
            REQUIRE_OK(quant_encode_tensor(&spec, &w, &l, quant_kernels(), x, scales, NULL, codes, &got, "w", &e), &e);
            CHECK(memcmp(codes, want_codes, N) == 0);
            CHECK_INT(got.clipped, want.clipped);
            CHECK_INT(got.flushed, want.flushed);
            CHECK(got.max_abs_error == want.max_abs_error && got.max_error_in_scales == want.max_error_in_scales);
            CHECK(got.bound_holds == want.bound_holds && got.worst_channel == want.worst_channel);
            CHECK_NEAR(got.rel_l2, want.rel_l2, 1e-12 * want.rel_l2); // sums in another order
        }
    }
    isa_force(before);
}
