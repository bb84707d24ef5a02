// SPDX-License-Identifier: Apache-2.0
// Against a slow reference that compares exact values, and against hashes of what numpy and ml_dtypes give.
#include <float.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/sha256.h"
#include "fixture.h"
#include "num/convert.h"
#include "test.h"

struct narrow {
    enum dtype type;
    int bits, exponent_bits, mantissa_bits, bias;
    bool has_infinity;
    unsigned max_code, nan_code;
};

static const struct narrow formats[] = {
    {DT_F16, 16, 5, 10, 15, true, 0x7bff, 0x7e00},
    {DT_BF16, 16, 8, 7, 127, true, 0x7f7f, 0x7fc0},
    {DT_F8E4M3FN, 8, 4, 3, 7, false, 0x7e, 0x7f},
    {DT_F8E5M2, 8, 5, 2, 15, true, 0x7b, 0x7e},
};
#define FORMATS (sizeof formats / sizeof *formats)

// The value of a finite code without sign, by the definition.
static double value_of(const struct narrow *f, unsigned code)
{
    unsigned e = code >> f->mantissa_bits, m = code & ((1u << f->mantissa_bits) - 1);
    if (e == 0)
        return ldexp(m, 1 - f->bias - f->mantissa_bits);
    return ldexp(m + (1u << f->mantissa_bits), (int)e - f->bias - f->mantissa_bits);
}

static unsigned exponents_overflow(const struct narrow *f)
{
    return f->has_infinity ? f->max_code + 1 : f->nan_code;
}

// Nearest code, ties to even, by bisection over values.
static unsigned reference_code(const struct narrow *f, const double *values, double v)
{
    unsigned sign = signbit(v) ? 1u << (f->bits - 1) : 0;
    if (isnan(v))
        return f->nan_code | sign;
    double a = fabs(v);
    unsigned low = 0, high = f->max_code + 1; // values[low] <= a < values[high], the last being past the end
    if (a >= values[high])
        return exponents_overflow(f) | sign;
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (values[middle] <= a)
            low = middle;
        else
            high = middle;
    }
    double half = (values[low] + values[high]) / 2;
    unsigned code = a < half ? low : a > half ? high : low + (low & 1);
    return (code > f->max_code ? exponents_overflow(f) : code) | sign;
}

// One more than max_code + 1: the value that would follow the largest.
static double *value_table(const struct narrow *f)
{
    double *t = malloc((f->max_code + 2) * sizeof *t);
    for (unsigned c = 0; t && c <= f->max_code + 1; c++)
        t[c] = value_of(f, c);
    return t;
}

static unsigned get_code(const struct narrow *f, const uint8_t *codes, size_t i)
{
    uint16_t v;
    if (f->bits == 8)
        return codes[i];
    memcpy(&v, codes + 2 * i, 2);
    return v;
}

static float float_from_bits(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static uint32_t bits_from_float(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

#define LOWERS 11
static float *dense_f32(size_t *n)
{
    static const uint32_t lower[LOWERS] = {0,      1,      0x0fff, 0x1000, 0x1001, 0x2fff,
                                           0x3000, 0x7fff, 0x8000, 0x8001, 0xffff};
    *n = 65536 * LOWERS;
    float *x = malloc(*n * sizeof *x);
    for (size_t i = 0; x && i < *n; i++)
        x[i] = float_from_bits((uint32_t)(i / LOWERS) << 16 | lower[i % LOWERS]);
    return x;
}

static double *dense_f64(const struct narrow *f, size_t *n)
{
    unsigned count = f->max_code + 1;
    *n = (size_t)count * 12;
    double *x = malloc(*n * sizeof *x);
    for (unsigned c = 0; x && c < count; c++) {
        double v = value_of(f, c), next = value_of(f, c + 1);
        if (c == f->max_code) // the other side does not know what would follow: it goes on as far as before
            next = 2 * v - value_of(f, c - 1);
        double point[2] = {v, (v + next) / 2};
        for (int p = 0; p < 2; p++) {
            double *to = x + (size_t)c * 6 + p * 3;
            to[0] = nextafter(point[p], -INFINITY);
            to[1] = point[p];
            to[2] = nextafter(point[p], INFINITY);
        }
    }
    for (size_t i = 0; x && i < *n / 2; i++)
        x[*n / 2 + i] = -x[i];
    return x;
}

static void check_hash(const void *bytes, size_t n, const json_t *o, const char *key)
{
    char hex[65];
    struct error e = {0};
    REQUIRE_OK(sha256_bytes(bytes, n, hex, &e), &e);
    CHECK_STR(hex, json_string_value(json_object_get(o, key)));
}

TEST(num_convert_widens_every_code)
{
    json_t *root = fixture_json("num/convert.json");
    for (size_t k = 0; k < FORMATS; k++) {
        const struct narrow *f = &formats[k];
        struct error e = {0};
        unsigned count = 1u << f->bits, sign = count / 2;
        uint8_t *codes = malloc(count * 2);
        float *wide = malloc(count * sizeof *wide);
        double *wider = malloc(count * sizeof *wider);
        REQUIRE(codes && wide && wider);
        for (unsigned c = 0; c < count; c++) {
            uint16_t v = (uint16_t)c;
            memcpy(codes + c * (unsigned)f->bits / 8, &v, (size_t)f->bits / 8);
        }
        REQUIRE_OK(convert_elements(DT_F32, wide, f->type, codes, count, &e), &e);
        REQUIRE_OK(convert_elements(DT_F64, wider, f->type, codes, count, &e), &e);
        int wrong = 0;
        for (unsigned c = 0; c < count; c++) {
            unsigned magnitude = c & (sign - 1);
            double want = magnitude <= f->max_code                          ? value_of(f, magnitude)
                          : f->has_infinity && magnitude == f->max_code + 1 ? INFINITY
                                                                            : NAN;
            bool same =
                isnan(want) ? isnan(wide[c]) && isnan(wider[c]) : fabs(wider[c]) == want && (double)wide[c] == wider[c];
            bool signs = !signbit(wide[c]) == !(c & sign) && !signbit(wider[c]) == !(c & sign);
            // A NaN is quiet: the first bit of its fraction is set.
            bool quiet = !isnan(want) || (bits_from_float(wide[c]) & 0x400000);
            wrong += !(same && signs && quiet);
            if (isnan(wide[c]))
                wide[c] = float_from_bits((bits_from_float(wide[c]) & 0x80000000u) | 0x7fc00000u);
            if (f->type == DT_F16 || f->type == DT_BF16) {
                float one = f->type == DT_F16 ? f32_from_f16((uint16_t)c) : f32_from_bf16((uint16_t)c);
                wrong += isnan(want) ? !isnan(one) : bits_from_float(one) != bits_from_float(wide[c]);
            }
        }
        CHECK_INT(wrong, 0);
        check_hash(wide, count * sizeof *wide, json_object_get(root, "widen"), dtype_name(f->type));
        free(codes), free(wide), free(wider);
    }
    json_decref(root);
}

// Converts, compares each with the reference, and checks the hash.
static void check_narrowing(const struct narrow *f, enum dtype from, const void *x, size_t n, const json_t *hashes,
                            const char *key)
{
    struct error e = {0};
    double *values = value_table(f);
    uint8_t *codes = malloc(n * 2);
    REQUIRE(values && codes);
    REQUIRE_OK(convert_elements(f->type, codes, from, x, n, &e), &e);
    int wrong = 0;
    for (size_t i = 0; i < n; i++) {
        double v = from == DT_F32 ? (double)((const float *)x)[i] : (double)((const double *)x)[i];
        unsigned got = get_code(f, codes, i), want = reference_code(f, values, v);
        if (got != want && wrong++ < 3)
            printf("  %s from %s %a: %x, not %x\n", dtype_name(f->type), dtype_name(from), v, got, want);
    }
    CHECK_INT(wrong, 0);
    check_hash(codes, n * (size_t)f->bits / 8, hashes, key);
    free(values), free(codes);
}

TEST(num_convert_narrows_f32_to_nearest_even)
{
    json_t *root = fixture_json("num/convert.json");
    size_t n;
    float *x = dense_f32(&n);
    REQUIRE(x);
    check_hash(x, n * sizeof *x, root, "f32_inputs");
    for (size_t k = 0; k < FORMATS; k++)
        check_narrowing(&formats[k], DT_F32, x, n, json_object_get(root, "from_f32"), dtype_name(formats[k].type));
    int wrong = 0;
    double *f16 = value_table(&formats[0]), *bf16 = value_table(&formats[1]);
    REQUIRE(f16 && bf16);
    for (size_t i = 0; i < n; i++) {
        wrong += f16_from_f32(x[i]) != reference_code(&formats[0], f16, (double)x[i]);
        wrong += bf16_from_f32(x[i]) != reference_code(&formats[1], bf16, (double)x[i]);
    }
    CHECK_INT(wrong, 0);
    free(f16), free(bf16), free(x);
    json_decref(root);
}

TEST(num_convert_narrows_f64_in_one_rounding)
{
    json_t *root = fixture_json("num/convert.json");
    for (size_t k = 0; k < FORMATS; k++) {
        const json_t *hashes = json_object_get(json_object_get(root, "from_f64"), dtype_name(formats[k].type));
        size_t n;
        double *x = dense_f64(&formats[k], &n);
        REQUIRE(x);
        check_hash(x, n * sizeof *x, hashes, "inputs");
        check_narrowing(&formats[k], DT_F64, x, n, hashes, "outputs");
        // The probes are such that going through f32 would have been noticed.
        struct error e = {0};
        float *f32 = malloc(n * sizeof *f32);
        uint8_t *once = malloc(n * 2), *twice = malloc(n * 2);
        REQUIRE(f32 && once && twice);
        REQUIRE_OK(convert_elements(DT_F32, f32, DT_F64, x, n, &e), &e);
        REQUIRE_OK(convert_elements(formats[k].type, twice, DT_F32, f32, n, &e), &e);
        REQUIRE_OK(convert_elements(formats[k].type, once, DT_F64, x, n, &e), &e);
        int changed = 0;
        for (size_t i = 0; i < n; i++)
            changed += get_code(&formats[k], once, i) != get_code(&formats[k], twice, i);
        CHECK_INT(changed, fixture_number(hashes, "outputs_that_two_roundings_change"));
        free(x), free(f32), free(once), free(twice);
    }
    json_decref(root);
    // Just above a tie of bf16; through f32 it would round onto the tie, and then down.
    double trap = 1 + 0x1p-8 + 0x1p-40;
    CHECK_INT(bf16_from_f64(trap), 0x3f81);
    CHECK_INT(bf16_from_f32((float)trap), 0x3f80);
    CHECK_INT(f16_from_f64(1 + 0x1p-11 + 0x1p-40), 0x3c01);
    CHECK_INT(f16_from_f64(DBL_MAX), 0x7c00);
    CHECK_INT(f16_from_f64(-65519.999999), 0xfbff);
    CHECK_INT(bf16_from_f64(-INFINITY), 0xff80);
    CHECK_INT(bf16_from_f64(-4.9406564584124654e-324), 0x8000);
    CHECK_INT(f16_from_f64(NAN) & 0x7fff, 0x7e00);
}

// To `bits` significant digits, ties to even, in integer arithmetic; the result is exact for bits <= 53. (A cast by the
// compiler is no reference: some emulators of the instruction round twice.)
static double round_integer(uint64_t v, int bits)
{
    int drop = 0;
    while (v >> drop >= UINT64_C(1) << bits)
        drop++;
    uint64_t kept = v >> drop, rest = v - (kept << drop), half = drop ? UINT64_C(1) << (drop - 1) : 0;
    if (drop && (rest > half || (rest == half && kept & 1)))
        kept++;
    return ldexp((double)kept, drop);
}

static double round_signed(int64_t v, int bits)
{
    return v < 0 ? -round_integer(0 - (uint64_t)v, bits) : round_integer((uint64_t)v, bits);
}

TEST(num_convert_integers_round_once)
{
    // Around every power of two, where the digits that do not fit form ties with and without something behind them.
    static int64_t x[64 * 12];
    size_t n = 0;
    for (int k = 0; k < 63; k++) {
        for (int below = 0; below < 3; below++) {
            static const int widths[3] = {24, 11, 8}; // bits of f32, f16, bf16
            int tie = k - widths[below];
            int64_t base = INT64_C(1) << k, half = tie >= 0 ? INT64_C(1) << tie : 0;
            x[n++] = base + half;
            x[n++] = -(base + half) - 1;
            x[n++] = base + half + (half ? 1 : 0);
            x[n++] = base + 3 * half;
        }
    }
    x[n++] = INT64_MAX;
    x[n++] = INT64_MIN;
    x[n++] = 0;
    struct error e = {0};
    static float f32[64 * 12], f32u[64 * 12];
    static double f64[64 * 12], widened[64 * 12];
    static uint16_t narrow[64 * 12];
    REQUIRE_OK(convert_elements(DT_F32, f32, DT_S64, x, n, &e), &e);
    REQUIRE_OK(convert_elements(DT_F32, f32u, DT_U64, x, n, &e), &e);
    REQUIRE_OK(convert_elements(DT_F64, f64, DT_S64, x, n, &e), &e);
    int wrong = 0;
    for (size_t i = 0; i < n; i++) {
        wrong += (double)f32[i] != round_signed(x[i], 24);
        wrong += (double)f32u[i] != round_integer((uint64_t)x[i], 24);
        wrong += f64[i] != round_signed(x[i], 53);
    }
    CHECK_INT(wrong, 0);
    static const enum dtype types[2] = {DT_F16, DT_BF16};
    for (int k = 0; k < 2; k++) {
        REQUIRE_OK(convert_elements(types[k], narrow, DT_S64, x, n, &e), &e);
        REQUIRE_OK(convert_elements(DT_F64, widened, types[k], narrow, n, &e), &e);
        for (size_t i = 0; i < n; i++) {
            double want = round_signed(x[i], types[k] == DT_F16 ? 11 : 8);
            if (types[k] == DT_F16 && fabs(want) > 65504)
                want = copysign(INFINITY, want);
            wrong += widened[i] != want;
        }
        CHECK_INT(wrong, 0);
    }
}

TEST(num_convert_small_integers_and_bool)
{
    static uint8_t bytes[256];
    static float f32[256];
    static double f64[256];
    static uint16_t f16[256];
    struct error e = {0};
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    static const enum dtype types[] = {DT_S8, DT_U8, DT_PRED};
    for (int k = 0; k < 3; k++) {
        REQUIRE_OK(convert_elements(DT_F32, f32, types[k], bytes, 256, &e), &e);
        REQUIRE_OK(convert_elements(DT_F64, f64, types[k], bytes, 256, &e), &e);
        REQUIRE_OK(convert_elements(DT_F16, f16, types[k], bytes, 256, &e), &e);
        int wrong = 0;
        for (int i = 0; i < 256; i++) {
            double want = types[k] == DT_S8 ? (int8_t)i : types[k] == DT_U8 ? i : i != 0;
            wrong += (double)f32[i] != want || f64[i] != want || (double)f32_from_f16(f16[i]) != want;
        }
        CHECK_INT(wrong, 0);
    }
    int32_t s32[4] = {INT32_MIN, INT32_MAX, 16777217, -1};
    uint32_t u32[4] = {UINT32_MAX, 16777217, 0, 1};
    int16_t s16[4] = {INT16_MIN, INT16_MAX, 0, -1};
    uint16_t u16[4] = {UINT16_MAX, 0, 1, 256};
    float g[4];
    double d[4];
#define CHECK_ROW(type, array)                                                                                         \
    do {                                                                                                               \
        REQUIRE_OK(convert_elements(DT_F32, g, type, array, 4, &e), &e);                                               \
        REQUIRE_OK(convert_elements(DT_F64, d, type, array, 4, &e), &e);                                               \
        for (int i = 0; i < 4; i++) {                                                                                  \
            CHECK(g[i] == (float)array[i]);                                                                            \
            CHECK(d[i] == (double)array[i]);                                                                           \
        }                                                                                                              \
    } while (0)
    CHECK_ROW(DT_S32, s32);
    CHECK_ROW(DT_U32, u32);
    CHECK_ROW(DT_S16, s16);
    CHECK_ROW(DT_U16, u16);
}

TEST(num_convert_between_narrow_types_and_unaligned)
{
    // Every bf16 to f16 is every bf16 to f32 to f16: the first step is exact.
    size_t n = 65536;
    uint16_t *in = malloc(n * 2);
    uint8_t *shifted = malloc(n * 2 + 1), *out = malloc(n * 2 + 3);
    REQUIRE(in && shifted && out);
    for (size_t i = 0; i < n; i++)
        in[i] = (uint16_t)i;
    memcpy(shifted + 1, in, n * 2);
    struct error e = {0};
    REQUIRE_OK(convert_elements(DT_F16, out + 3, DT_BF16, shifted + 1, n, &e), &e);
    int wrong = 0;
    for (size_t i = 0; i < n; i++) {
        uint16_t got;
        memcpy(&got, out + 3 + 2 * i, 2);
        wrong += got != f16_from_f32(f32_from_bf16(in[i]));
    }
    CHECK_INT(wrong, 0);
    // Lengths that end inside a block write nothing beyond it.
    for (size_t length = 0; length < 70; length++) {
        memset(out, 0xa5, 200);
        REQUIRE_OK(convert_elements(DT_F16, out + 1, DT_BF16, shifted + 1, length, &e), &e);
        CHECK_INT(out[0], 0xa5);
        CHECK_INT(out[1 + 2 * length], 0xa5);
    }
    free(in), free(shifted), free(out);
}

TEST(num_convert_says_what_is_not_possible)
{
    struct error e = {0};
    uint8_t a[16] = {1, 2, 3}, b[16] = {0};
    CHECK(convert_possible(DT_S8, DT_F32));
    CHECK(!convert_possible(DT_F32, DT_C64));
    CHECK(!convert_possible(DT_INVALID, DT_INVALID));
    CHECK_INT(convert_elements(DT_C64, b, DT_F32, a, 2, &e), ERR_INPUT);
    CHECK_STR(e.message, "f32 cannot be converted to c64");
    error_clear(&e);
    CHECK_INT(convert_elements(DT_F32, b, DT_S8, a, SIZE_MAX / 2, &e), ERR_INPUT);
    error_clear(&e);
    CHECK_INT(convert_elements(DT_C64, b, DT_C64, a, 2, &e), 0);
    CHECK(memcmp(a, b, 16) == 0);
    memset(b, 0, sizeof b);
    CHECK_INT(convert_elements(DT_S4, b, DT_S4, a, 5, &e), 0); // packed: three bytes
    CHECK(memcmp(a, b, 4) == 0);
}

TEST(num_dtype_bytes_of_300_million_parameters)
{
    static const struct {
        enum dtype type;
        double gigabytes;
    } want[] = {{DT_F32, 1.2}, {DT_BF16, 0.6}, {DT_S8, 0.3}, {DT_S4, 0.15}};
    for (int i = 0; i < 4; i++) {
        size_t bytes = 0;
        CHECK(dtype_bytes(want[i].type, 300000000, &bytes));
        CHECK_NEAR((double)bytes / 1e9, want[i].gigabytes, 0);
    }
}
