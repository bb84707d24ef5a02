// SPDX-License-Identifier: Apache-2.0
#include <fenv.h>
#include <math.h>
#include <string.h>

#include "num/convert.h"
#include "num/dotmodel.h"
#include "test.h"

static uint64_t state = 0x9e3779b97f4a7c15;
static uint32_t random32(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

// Any finite f32; half of them near 1.
static double random_f32(void)
{
    uint32_t b = random32();
    b = b & 1 ? (b & 0x87ffffff) | 0x38000000 : b;
    b = (b & 0x7f800000) == 0x7f800000 ? b ^ 0x40000000 : b;
    return dot_from_f32_bits(b);
}

static double run(const struct dot_model *m, const double *a, const double *b, size_t n)
{
    struct error err = {0};
    double out = NAN;
    int rc = dot_model_run(m, a, 1, b, 1, n, &out, &err);
    CHECK(rc == 0);
    return out;
}

static double one(const struct dot_model *m, double a, double b)
{
    return run(m, &a, &b, 1);
}

// Against the conversions of num/convert, and the hardware's own rounding directions for f32.
TEST(num_dotmodel_rounds_as_the_formats_do)
{
    const struct dot_format *f32 = dot_format("f32"), *bf16 = dot_format("bf16"), *f16 = dot_format("f16");
    for (int i = 0; i < 200000; i++) {
        double v = random_f32() * (1 + ldexp((double)random32(), -50)) * ldexp(1, (int)(random32() % 9) - 4);
        double r = dot_round(v, bf16, DOT_NEAREST, false, false);
        CHECK(r == (double)f32_from_bf16(bf16_from_f64(v)));
        r = dot_round(v, f16, DOT_NEAREST, false, false);
        CHECK(r == (double)f32_from_f16(f16_from_f64(v)));
        static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
        static const enum dot_rounding names[] = {DOT_NEAREST, DOT_TOWARD_ZERO, DOT_DOWN, DOT_UP};
        for (int k = 0; k < 4; k++) {
            volatile double in = v;
            fesetround(modes[k]);
            volatile float f = (float)in;
            fesetround(FE_TONEAREST);
            CHECK(dot_round(v, f32, names[k], false, false) == (double)f);
        }
    }
    CHECK(dot_round(1 + 0x1p-8, bf16, DOT_NEAREST, false, false) == 1);
    CHECK(dot_round(1 + 0x1p-8, bf16, DOT_AWAY, false, false) == 1 + 0x1p-7);
    CHECK(dot_round(1 + 0x1p-30, bf16, DOT_TO_ODD, false, false) == 1 + 0x1p-7);
    CHECK(dot_round(1 + 0x1p-7 + 0x1p-30, bf16, DOT_TO_ODD, false, false) == 1 + 0x1p-7);
    const struct dot_format *e4m3 = dot_format("f8e4m3fn");
    CHECK(dot_round(464, e4m3, DOT_NEAREST, false, false) == 448 && isnan(dot_round(465, e4m3, DOT_NEAREST, 0, 0)));
    CHECK(dot_round(1e9, e4m3, DOT_NEAREST, false, true) == 448);
    CHECK(dot_round(-0x1p-130, f32, DOT_NEAREST, true, false) == 0 && signbit(dot_round(-0x1p-130, f32, 0, true, 0)));
    CHECK(dot_format("f31") == NULL);
}

// The processor's own additions and fused products, in every direction it has.
TEST(num_dotmodel_adds_as_the_processor_does)
{
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    static const enum dot_rounding names[] = {DOT_NEAREST, DOT_TOWARD_ZERO, DOT_DOWN, DOT_UP};
    const struct dot_format *f32 = dot_format("f32");
    for (int i = 0; i < 200000; i++) {
        double a = random_f32(), b = random_f32(), c = random_f32();
        for (int k = 0; k < 4; k++) {
            volatile float x = (float)a, y = (float)b, z = (float)c;
            fesetround(modes[k]);
            volatile float sum = x + y, fused = fmaf(x, y, z);
            fesetround(FE_TONEAREST);
            CHECK(dot_add(a, b, f32, names[k], false) == (double)sum);
            CHECK(dot_fma(a, b, c, f32, names[k], false) == (double)fused);
        }
    }
}

TEST(num_dotmodel_orders_equal_plain_loops)
{
    enum { N = 40 };
    struct dot_model m = {.name = "m", .accumulator = dot_format("f32"), .separate = true};
    double a[N], b[N];
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < N; i++) {
            a[i] = (double)(float)((int32_t)random32() * 0x1p-31);
            b[i] = (double)(float)((int32_t)random32() * 0x1p-31);
        }
        float forward = 0, backward = 0, fused = 0, lane[8] = {0}, total = 0;
        for (int i = 0; i < N; i++) {
            forward += (float)a[i] * (float)b[i];
            fused = fmaf((float)a[i], (float)b[i], fused);
            backward += (float)a[N - 1 - i] * (float)b[N - 1 - i];
            lane[i % 8] += (float)a[i] * (float)b[i];
        }
        m.order = DOT_SEQUENTIAL;
        CHECK(run(&m, a, b, N) == (double)forward);
        m.order = DOT_REVERSED;
        CHECK(run(&m, a, b, N) == (double)backward);
        m.order = DOT_LANES;
        m.block = 8;
        float x0 = lane[0] + lane[4], x1 = lane[1] + lane[5], x2 = lane[2] + lane[6], x3 = lane[3] + lane[7];
        CHECK(run(&m, a, b, N) == (double)((x0 + x2) + (x1 + x3)));
        m.order = DOT_BLOCKED;
        for (int k = 0; k < N; k += 8) {
            float part = 0;
            for (int i = k; i < k + 8; i++)
                part += (float)a[i] * (float)b[i];
            total += part;
        }
        CHECK(run(&m, a, b, N) == (double)total);
        m.separate = false;
        m.order = DOT_SEQUENTIAL;
        CHECK(run(&m, a, b, N) == (double)fused);
        m.separate = true;
        m.order = DOT_PAIRWISE;
        float p[N];
        for (int i = 0; i < 32; i++)
            p[i] = (float)a[i] * (float)b[i];
        for (int n = 32; n > 1; n /= 2) {
            for (int i = 0; i < n / 2; i++)
                p[i] = p[2 * i] + p[2 * i + 1];
        }
        CHECK(run(&m, a, b, 32) == (double)p[0]);
    }
}

// Sums of 12 integers times powers of two, which __int128 holds.
TEST(num_dotmodel_exact_is_one_rounding)
{
    struct dot_model m = {.name = "exact", .accumulator = dot_format("f32"), .order = DOT_EXACT};
    double a[12], b[12];
    for (int round = 0; round < 20000; round++) {
        __int128 sum = 0;
        for (int i = 0; i < 12; i++) {
            int shift = (int)(random32() % 60), ia = (int)(random32() >> 8) - (1 << 23),
                ib = (int)(random32() >> 8) - (1 << 23);
            a[i] = ldexp(ia, shift - 40);
            b[i] = ib;
            sum += (__int128)ia * ib * ((__int128)1 << shift);
        }
        // Round to odd at 64 bits by hand, then to f32.
        bool negative = sum < 0;
        unsigned __int128 u = negative ? -(unsigned __int128)sum : (unsigned __int128)sum;
        int cut = 0;
        bool sticky = false;
        for (; u >> 50; cut++, u >>= 1)
            sticky |= u & 1;
        double v = ldexp((double)(uint64_t)(u | sticky), cut - 40);
        CHECK(run(&m, a, b, 12) == (double)(float)(negative ? -v : v));
    }
    double x[] = {0x1p-149, 0x1p127, -0x1p127, 0x1p-149}, y[] = {0x1p-126, 0x1p127, 0x1p127, 1};
    CHECK(run(&m, x, y, 4) == 0x1p-149);
}

// One product names the algorithm: f32(1.2) squared. The bits are those of the published ones where a device has been
// asked (TPU at HIGHEST: 3fb851ed); here every split is formed by hand beside.
TEST(num_dotmodel_splits_have_their_known_product)
{
    const struct dot_format *f32 = dot_format("f32"), *bf16 = dot_format("bf16"), *tf32 = dot_format("tf32");
    double x = (double)1.2F;
    const struct {
        struct dot_model model;
        uint32_t bits;
    } cases[] = {
        {{.name = "native", .accumulator = f32}, 0x3fb851ec},
        {{.name = "x6 nearest", .operand = bf16, .passes = 6, .accumulator = f32}, 0x3fb851ed},
        {{.name = "x6 cut",
          .operand = bf16,
          .operand_rounding = DOT_TOWARD_ZERO,
          .last_nearest = true,
          .passes = 6,
          .accumulator = f32},
         0x3fb851eb},
        {{.name = "x3 nearest", .operand = bf16, .passes = 3, .accumulator = f32}, 0x3fb8515c},
        {{.name = "x3 cut",
          .operand = bf16,
          .operand_rounding = DOT_TOWARD_ZERO,
          .last_nearest = true,
          .passes = 3,
          .accumulator = f32},
         0x3fb85228},
        {{.name = "bf16", .operand = bf16, .accumulator = f32}, 0x3fb94800},
        {{.name = "bf16 cut", .operand = bf16, .operand_rounding = DOT_TOWARD_ZERO, .accumulator = f32}, 0x3fb6e200},
        {{.name = "tf32", .operand = tf32, .accumulator = f32}, 0x3fb86148},
        {{.name = "tf32 cut", .operand = tf32, .operand_rounding = DOT_TOWARD_ZERO, .accumulator = f32}, 0x3fb81480},
        {{.name = "x9", .operand = bf16, .passes = 9, .accumulator = f32}, 0x3fb851ec},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t got = dot_f32_bits(one(&cases[i].model, x, x));
        CHECK_INT(got, cases[i].bits);
    }
}

#ifdef __x86_64__
#include <immintrin.h>

// Two elements of each of 16 lanes onto the accumulators.
__attribute__((target("avx512f,avx512bf16"))) static void hardware_bf16(float acc[16], const uint16_t a[32],
                                                                        const uint16_t b[32])
{
    __m512i x = _mm512_loadu_si512(a), y = _mm512_loadu_si512(b);
    _mm512_storeu_ps(acc, _mm512_dpbf16_ps(_mm512_loadu_ps(acc), (__m512bh)x, (__m512bh)y));
}

__attribute__((target("avx512f,avx512vnni"))) static void hardware_int8(int32_t acc[16], const uint8_t a[64],
                                                                        const int8_t b[64], bool saturate)
{
    __m512i x = _mm512_loadu_si512(a), y = _mm512_loadu_si512(b), s = _mm512_loadu_si512(acc);
    _mm512_storeu_si512(acc, saturate ? _mm512_dpbusds_epi32(s, x, y) : _mm512_dpbusd_epi32(s, x, y));
}

TEST(num_dotmodel_is_the_bf16_instruction_of_this_processor)
{
    if (!__builtin_cpu_supports("avx512bf16")) {
        printf("no AVX512_BF16 here: not compared\n");
        return;
    }
    enum { PAIRS = 3 };
    struct dot_model m = {.name = "vdpbf16ps",
                          .operand = dot_format("bf16"),
                          .operand_flush = true,
                          .accumulator = dot_format("f32"),
                          .flush = true,
                          .order = DOT_PAIRS_ODD};
    for (int round = 0; round < 20000; round++) {
        uint16_t a[PAIRS][32], b[PAIRS][32];
        float acc[16] = {0};
        for (int p = 0; p < PAIRS; p++) {
            for (int i = 0; i < 32; i++) { // any finite value, or near one, or near the smallest
                uint32_t r = random32();
                a[p][i] = (uint16_t)(r & 1 ? (r >> 8 & 0x80ff) | 0x3f00 : r >> 8);
                b[p][i] = (uint16_t)(r & 2 ? (random32() & 0x80ff) | 0x3f00 : random32());
                a[p][i] = (a[p][i] & 0x7f80) == 0x7f80 ? 0x3f80 : a[p][i];
                b[p][i] = (b[p][i] & 0x7f80) == 0x7f80 ? 0x3f80 : b[p][i];
            }
            hardware_bf16(acc, a[p], b[p]);
        }
        for (int lane = 0; lane < 16; lane++) {
            double x[2 * PAIRS], y[2 * PAIRS];
            for (int i = 0; i < 2 * PAIRS; i++) {
                x[i] = (double)f32_from_bf16(a[i / 2][2 * lane + i % 2]);
                y[i] = (double)f32_from_bf16(b[i / 2][2 * lane + i % 2]);
            }
            CHECK_INT(dot_f32_bits(run(&m, x, y, 2 * (size_t)PAIRS)), dot_f32_bits((double)acc[lane]));
        }
    }
}

TEST(num_dotmodel_is_the_int8_instruction_of_this_processor)
{
    if (!__builtin_cpu_supports("avx512vnni")) {
        printf("no AVX512_VNNI here: not compared\n");
        return;
    }
    for (int round = 0; round < 2000; round++) {
        uint8_t a[64];
        int8_t b[64];
        for (int i = 0; i < 64; i++) {
            a[i] = (uint8_t)(random32() & 1 ? 255 : random32());
            b[i] = (int8_t)(random32() & 1 ? 127 : random32());
        }
        int32_t wrapped[16], saturated[16], x[8196], y[8196];
        for (int lane = 0; lane < 16; lane++)
            wrapped[lane] = saturated[lane] = 0;
        // Enough of the largest products first that the sums pass 2^31: 16510 products of 32385 * 4.
        static uint8_t high[64];
        static int8_t highs[64];
        memset(high, 255, sizeof high);
        memset(highs, 127, sizeof highs);
        for (int k = 0; k < 2048; k++) {
            hardware_int8(wrapped, high, highs, false);
            hardware_int8(saturated, high, highs, true);
        }
        hardware_int8(wrapped, a, b, false);
        hardware_int8(saturated, a, b, true);
        for (int i = 0; i < 8192; i++) {
            x[i] = 255;
            y[i] = 127;
        }
        for (int i = 0; i < 4; i++) {
            x[8192 + i] = a[4 * (round % 16) + i];
            y[8192 + i] = b[4 * (round % 16) + i];
        }
        if (round % 50 == 0) {
            CHECK_INT(dot_integer_run(DOT_INT_WRAP, x, y, 8196), wrapped[round % 16]);
            CHECK_INT(dot_integer_run(DOT_INT_SATURATE, x, y, 8196), saturated[round % 16]);
        }
    }
}
#endif

// What 64 products of the largest codes give where pairs saturate to int16: figures that such processors have shown.
TEST(num_dotmodel_saturating_pairs)
{
    int32_t a[64], b[64];
    for (int i = 0; i < 64; i++)
        a[i] = b[i] = 127;
    CHECK_INT(dot_integer_run(DOT_INT_PAIRS16_S8, a, b, 64), 8160);
    CHECK_INT(dot_integer_run(DOT_INT_WRAP, a, b, 64), 127 * 127 * 64);
    a[0] = a[1] = 255;
    CHECK_INT(dot_integer_run(DOT_INT_PAIRS16, a, b, 2), 32767);
    CHECK_INT(dot_integer_run(DOT_INT_WIDE, a, b, 2), 64770);
}

// Blocks aligned to the largest exponent, from the definition: four terms of half an ulp survive or not by the number
// of fraction bits, and in which block they meet.
TEST(num_dotmodel_fused_blocks_lose_what_they_should)
{
    struct dot_model m = {.name = "fused",
                          .operand = dot_format("bf16"),
                          .accumulator = dot_format("f32"),
                          .rounding = DOT_TOWARD_ZERO,
                          .order = DOT_FUSED};
    const double one24[] = {1, 0x1p-24, 0x1p-24, 0x1p-24, 0x1p-24}, one25[] = {1, 0x1p-25, 0x1p-25, 0x1p-25, 0x1p-25},
                 ones[] = {1, 1, 1, 1, 1}, last[] = {0x1p-24, 0x1p-24, 0x1p-24, 0x1p-24, 1};
    const struct {
        int block, fraction;
        double from24, from25;
    } known[] = {{4, 23, 1, 1}, {8, 24, 1 + 0x1p-22, 1}, {16, 25, 1 + 0x1p-22, 1 + 0x1p-23}};
    for (int i = 0; i < 3; i++) {
        m.block = known[i].block;
        m.fraction = known[i].fraction;
        CHECK(run(&m, one24, ones, 5) == known[i].from24);
        CHECK(run(&m, one25, ones, 5) == known[i].from25);
    }
    m.order = DOT_SEQUENTIAL;
    m.rounding = DOT_NEAREST;
    CHECK(run(&m, one24, ones, 5) == 1 && run(&m, last, ones, 5) == 1 + 0x1p-22);
}

TEST(num_dotmodel_trees_equal_the_orders_they_draw)
{
    // ((((0 1) 2) 3) ((4 5) 6)): as written by hand.
    static const int start[] = {0, 2, 4, 6, 8, 10, 12}, children[] = {0, 1, 2, 7, 3, 8, 4, 5, 10, 6, 9, 11};
    const struct dot_tree t = {.leaves = 7, .nodes = 13, .start = start, .children = children};
    struct dot_model m = {.name = "tree", .accumulator = dot_format("f32"), .order = DOT_TREE, .tree = &t};
    for (int round = 0; round < 1000; round++) {
        double a[7], b[7];
        float x[7], y[7];
        for (int i = 0; i < 7; i++) {
            a[i] = (double)(x[i] = (float)((int32_t)random32() * 0x1p-31));
            b[i] = (double)(y[i] = (float)((int32_t)random32() * 0x1p-31));
        }
        float left = fmaf(x[3], y[3], fmaf(x[2], y[2], fmaf(x[1], y[1], x[0] * y[0])));
        float right = fmaf(x[6], y[6], fmaf(x[5], y[5], x[4] * y[4]));
        m.high_first = false;
        CHECK(run(&m, a, b, 7) == (double)(left + right));
        m.high_first = true;
        left = fmaf(x[3], y[3], fmaf(x[2], y[2], fmaf(x[0], y[0], x[1] * y[1])));
        right = fmaf(x[6], y[6], fmaf(x[4], y[4], x[5] * y[5]));
        CHECK(run(&m, a, b, 7) == (double)(left + right));
    }
}

TEST(num_dotmodel_refuses_what_makes_no_sense)
{
    struct error err = {0};
    double v = 1, out;
    struct dot_model m = {.name = "m"};
    CHECK_INT(dot_model_run(&m, &v, 1, &v, 1, 1, &out, &err), ERR_INPUT);
    CHECK(strstr(err.message, "accumulator") != NULL);
    m.accumulator = dot_format("f32");
    m.order = DOT_LANES;
    m.block = 3;
    error_clear(&err);
    CHECK_INT(dot_model_run(&m, &v, 1, &v, 1, 1, &out, &err), ERR_INPUT);
    m.order = DOT_TREE;
    error_clear(&err);
    CHECK_INT(dot_model_run(&m, &v, 1, &v, 1, 1, &out, &err), ERR_INPUT);
    m.order = DOT_SEQUENTIAL;
    m.passes = 2;
    error_clear(&err);
    CHECK_INT(dot_model_run(&m, &v, 1, &v, 1, 1, &out, &err), ERR_INPUT);
}

TEST(num_dotmodel_specials)
{
    struct dot_model m = {.name = "m", .accumulator = dot_format("f32")};
    double inf[] = {INFINITY, 1}, zero[] = {0, 1}, nan[] = {dot_from_f32_bits(0xff800123), 1};
    CHECK_INT(dot_f32_bits(run(&m, inf, zero, 2)), 0xffc00000);
    CHECK_INT(dot_f32_bits(run(&m, nan, zero, 2)), 0xffc00123);
    CHECK(run(&m, inf, inf, 2) == INFINITY);
    m.nan = DOT_NAN_CANONICAL;
    m.nan_bits = 0x7fffffff;
    CHECK_INT(dot_f32_bits(run(&m, inf, zero, 2)), 0x7fffffff);
    // FLT_MAX through parts of bf16: the high part is infinite, the next minus infinity.
    struct dot_model x3 = {.name = "x3", .operand = dot_format("bf16"), .passes = 3, .accumulator = dot_format("f32")};
    double most = 0x1.fffffep127, single = 1;
    CHECK(isnan(run(&x3, &most, &single, 1)));
    x3.operand_rounding = DOT_TOWARD_ZERO;
    x3.last_nearest = true;
    CHECK(run(&x3, &most, &single, 1) == INFINITY);
    x3.passes = 6;
    CHECK(run(&x3, &most, &single, 1) == most);
    x3.guard = true;
    CHECK(run(&x3, inf, &single, 1) == INFINITY);
    x3.guard = false;
    CHECK(isnan(run(&x3, inf, &single, 1)));
}
