// SPDX-License-Identifier: Apache-2.0
// Every code and every cast against ml_dtypes and against a model that only knows the lists of values
// (tests/oracle/formats.py); what ml_dtypes has no word for (streams, policies, counts) against its definition.
#include <stdint.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/sha256.h"
#include "fixture.h"
#include "num/format.h"
#include "test.h"

static const enum format_rounding deterministic[] = {FORMAT_NEAREST_EVEN, FORMAT_NEAREST_AWAY, FORMAT_TOWARD_ZERO};
static const enum format_overflow resolved[] = {FORMAT_OVERFLOW_PLAIN, FORMAT_OVERFLOW_SATURATE,
                                                FORMAT_OVERFLOW_SATURATE_FINITE};
static const struct format_cast plain = {FORMAT_NEAREST_EVEN, FORMAT_OVERFLOW_PLAIN, NULL};

static void check_hash(const void *bytes, size_t n, const json_t *o, const char *key, const char *what)
{
    char hex[65];
    struct error e = {0};
    REQUIRE_OK(sha256_bytes(bytes, n, hex, &e), &e);
    if (!CHECK_STR(hex, json_string_value(json_object_get(o, key))))
        printf("  in %s\n", what);
}

static double double_from_f32(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return (double)v;
}

// The code of a row by number, in an array as wide as the format's.
static void put(const struct format *f, void *codes, size_t i, uint64_t code)
{
    size_t bytes = format_code_bytes(f);
    memcpy((char *)codes + i * bytes, &code, bytes); // little-endian
}

TEST(num_format_decodes_every_code)
{
    json_t *root = fixture_json("num/formats.json");
    const json_t *hashes = json_object_get(root, "decode");
    size_t seen = 0;
    for (size_t k = 0; format_at(k); k++) {
        const struct format *f = format_at(k);
        if (f->bits > 16 || f->shift)
            continue;
        size_t n = (size_t)1 << f->bits, numbers = 0;
        uint8_t *codes = malloc(n * 2);
        float *values = malloc(n * sizeof *values);
        double *wide = malloc(n * sizeof *wide);
        REQUIRE(codes && values && wide);
        for (size_t i = 0; i < n; i++)
            put(f, codes, i, i);
        format_decode_f32(f, values, codes, n);
        format_decode_f64(f, wide, codes, n);
        int wrong = 0;
        for (size_t i = 0; i < n; i++) {
            numbers += isfinite(wide[i]);
            wrong += !(isnan(wide[i]) ? isnan(values[i]) : (double)values[i] == wide[i]);
            // A number keeps its code.
            wrong += isfinite(wide[i]) && format_encode(f, wide[i], &plain, NULL) != i;
            // Bits above the format's do not matter.
            double again = format_decode(f, i | (uint64_t)0xa5 << f->bits);
            wrong += !(again == wide[i] || (isnan(again) && isnan(wide[i])));
            if (isnan(values[i])) {
                uint32_t quiet = 0x7fc00000;
                memcpy(&values[i], &quiet, sizeof quiet);
            }
        }
        CHECK_INT(wrong, 0);
        CHECK_INT(numbers, format_finite_codes(f));
        check_hash(values, n * sizeof *values, hashes, f->name, f->name);
        free(codes), free(values), free(wide);
        seen++;
    }
    CHECK_INT(seen, json_object_size(hashes));
    json_decref(root);
}

// What rows imply, against a walk over all codes.
TEST(num_format_derives_its_limits)
{
    for (size_t k = 0; format_at(k); k++) {
        const struct format *f = format_at(k);
        if (f->bits > 16 || f->shift)
            continue;
        double largest = 0, lowest = 0, smallest = INFINITY;
        bool first = true;
        for (uint64_t c = 0; c < (uint64_t)1 << f->bits; c++) {
            double v = format_decode(f, c);
            if (!isfinite(v))
                continue;
            largest = first || v > largest ? v : largest;
            lowest = first || v < lowest ? v : lowest;
            smallest = v > 0 && v < smallest ? v : smallest;
            first = false;
        }
        CHECK(format_max(f) == largest && format_min(f) == lowest && format_min_subnormal(f) == smallest);
        CHECK(format_decode(f, format_max_code(f)) == largest);
        CHECK(ldexp(1, format_max_exponent(f)) <= largest && ldexp(2, format_max_exponent(f)) > largest);
        CHECK(f->nan == FORMAT_NAN_NONE || isnan(format_decode(f, format_nan_code(f))));
        CHECK(f->infinity == FORMAT_INFINITY_NONE || isinf(format_decode(f, format_infinity_code(f))));
        if (format_is_integer(f))
            continue;
        // From the smallest normal value on, a step is never more than twice the unit roundoff of the value.
        double normal = format_min_normal(f),
               step = format_decode(f, format_encode(f, normal, &plain, NULL) + 1) - normal;
        CHECK(step == 2 * format_unit_roundoff(f) * normal);
        CHECK(format_has_subnormals(f) == (smallest < normal));
    }
    // What is too long for a walk, against the C language.
    const struct format *f64 = format_of(DT_F64), *f32 = format_of(DT_F32), *tf32 = format_tf32();
    CHECK(format_max(f64) == __DBL_MAX__ && format_min_normal(f64) == __DBL_MIN__ &&
          format_min_subnormal(f64) == __DBL_DENORM_MIN__);
    CHECK(format_max(f32) == (double)__FLT_MAX__ && format_min_normal(f32) == (double)__FLT_MIN__ &&
          format_min_subnormal(f32) == (double)__FLT_DENORM_MIN__);
    CHECK(format_max_code(tf32) == 0x7f7fe000 && format_max(tf32) == double_from_f32(0x7f7fe000));
    CHECK(format_min_subnormal(tf32) == double_from_f32(0x00002000));
    CHECK_INT(format_finite_codes(tf32), 2 * 255 * 1024);
    CHECK(format_max(format_of(DT_S32)) == INT32_MAX && format_min(format_of(DT_S32)) == INT32_MIN);
    CHECK(format_max(format_of(DT_U32)) == UINT32_MAX && format_min(format_of(DT_U32)) == 0);
}

TEST(num_format_finds_rows)
{
    size_t n = 0;
    for (; format_at(n); n++) {
        const struct format *f = format_at(n);
        CHECK(format_from_name(f->name) == f);
        if (f->dtype == DT_INVALID) {
            CHECK(f == format_tf32());
            continue;
        }
        CHECK(format_of(f->dtype) == f);
        CHECK_STR(f->name, dtype_name(f->dtype));
        CHECK_INT(f->bits, dtype_bits(f->dtype));
        CHECK(format_is_integer(f) == dtype_is_integer(f->dtype));
        CHECK_INT(f->bits, f->is_signed + f->exponent_bits + f->mantissa_bits);
    }
    // Every number type but the 64-bit integers has a row.
    for (int t = 1; t < DT_COUNT; t++) {
        enum dtype_kind kind = dtype_info((enum dtype)t)->kind;
        bool number =
            kind == DTK_FLOAT || ((kind == DTK_SIGNED || kind == DTK_UNSIGNED) && dtype_bits((enum dtype)t) < 64);
        CHECK((format_of((enum dtype)t) != NULL) == number);
    }
    CHECK(format_of(DT_INVALID) == NULL);
    CHECK(format_from_name("f8E4M3FN") == format_of(DT_F8E4M3FN));
    CHECK(format_from_name("f8") == NULL);
    enum format_rounding r;
    enum format_overflow o;
    for (int i = 0; i < 4; i++) {
        CHECK(format_rounding_from_name(format_rounding_name((enum format_rounding)i), &r) && (int)r == i);
        CHECK(format_overflow_from_name(format_overflow_name((enum format_overflow)i), &o) && (int)o == i);
    }
    CHECK(!format_rounding_from_name("up", &r) && !format_overflow_from_name("wrap", &o));
}

// Every code of a 16-bit format, or the dense f32 values, as doubles.
static double *every_code(enum dtype t, size_t *n)
{
    const struct format *f = format_of(t);
    *n = 65536;
    double *x = malloc(*n * sizeof *x);
    for (size_t i = 0; x && i < *n; i++)
        x[i] = format_decode(f, i);
    return x;
}

#define LOWERS 11
static float *dense_f32(size_t *n)
{
    static const uint32_t lower[LOWERS] = {0,      1,      0x0fff, 0x1000, 0x1001, 0x2fff,
                                           0x3000, 0x7fff, 0x8000, 0x8001, 0xffff};
    *n = 65536 * LOWERS;
    float *x = malloc(*n * sizeof *x);
    for (size_t i = 0; x && i < *n; i++) {
        uint32_t bits = (uint32_t)(i / LOWERS) << 16 | lower[i % LOWERS];
        memcpy(&x[i], &bits, sizeof bits);
    }
    return x;
}

// The codes whose values are probed; false past the end.
static bool probe_code(const struct format *f, size_t i, uint64_t *code)
{
    if (f->bits <= 16 && !f->shift) {
        *code = i;
        return i <= format_max_code(f);
    }
    if (format_is_integer(f)) {
        *code = ((uint64_t)1 << i / 3) + i % 3 - 1;
        return i < 96;
    }
    *code = ((uint64_t)(i / 2 * 4) << 16 | (i % 2 ? 0xffff : 0)) & ~(((uint64_t)1 << f->shift) - 1);
    return i / 2 * 4 < 0x7f80;
}

// Values, points halfway to the next values, and the doubles on both sides of each; then negated.
static double *probes(const struct format *f, size_t *n)
{
    size_t count = 0;
    uint64_t code;
    while (probe_code(f, count, &code))
        count++;
    *n = count * 12;
    double *x = malloc(*n * sizeof *x);
    for (size_t i = 0; x && i < count; i++) {
        probe_code(f, i, &code);
        double v = format_is_integer(f) ? (double)code : format_decode(f, code), after;
        if (format_is_integer(f))
            after = v + 1;
        else if (!format_has_subnormals(f))
            after = 2 * v;
        else
            after =
                v + ldexp(1, (v < format_min_normal(f) ? ilogb(format_min_normal(f)) : ilogb(v)) - f->mantissa_bits);
        double points[2] = {v, (v + after) / 2};
        for (int p = 0; p < 2; p++) {
            double *to = x + i * 6 + (size_t)p * 3;
            to[0] = nextafter(points[p], -INFINITY);
            to[1] = points[p];
            to[2] = nextafter(points[p], INFINITY);
        }
    }
    for (size_t i = 0; x && i < *n / 2; i++)
        x[*n / 2 + i] = -x[i];
    return x;
}

static void check_counts(const struct format_counts *c, const json_t *want, const char *what)
{
    const size_t got[] = {c->elements, c->nan, c->infinite, c->overflowed, c->flushed, c->inexact};
    for (size_t i = 0; i < 6; i++) {
        if (!CHECK_INT(got[i], json_integer_value(json_array_get(want, i))))
            printf("  count %zu of %s\n", i, what);
    }
}

static void check_encode(const struct format *f, const double *x, const float *x32, size_t n, const json_t *row,
                         const char *source)
{
    const json_t *want = json_object_get(row, source);
    if (!want)
        return;
    char what[64];
    snprintf(what, sizeof what, "%s from %s", f->name, source);
    size_t bytes = n * format_code_bytes(f), used = 0;
    uint8_t *codes = malloc(bytes * 8);
    REQUIRE(codes);
    struct error e = {0};
    struct format_counts c = {0};
    if (x32)
        REQUIRE_OK(format_encode_f32(f, codes, x32, n, &plain, &c, NULL, &e), &e);
    else
        REQUIRE_OK(format_encode_f64(f, codes, x, n, &plain, &c, NULL, &e), &e);
    check_hash(codes, bytes, want, "nearest", what);
    check_counts(&c, json_object_get(want, "counts"), what);
    if (json_object_get(want, "inputs"))
        check_hash(x, n * sizeof *x, want, "inputs", what);
    if (json_object_get(want, "others")) {
        for (size_t i = 1; i < 9; i++) {
            struct format_cast cast = {deterministic[i / 3], resolved[i % 3], NULL};
            REQUIRE_OK(format_encode_f64(f, codes + used, x, n, &cast, NULL, NULL, &e), &e);
            used += bytes;
        }
        check_hash(codes, used, want, "others", what);
    }
    free(codes);
}

TEST(num_format_encodes_every_16_bit_value_and_dense_f32_and_f64)
{
    json_t *root = fixture_json("num/formats.json");
    const json_t *rows = json_object_get(root, "encode");
    size_t n16, nb16, n32, n64, seen = 0;
    double *f16 = every_code(DT_F16, &n16), *bf16 = every_code(DT_BF16, &nb16);
    float *f32 = dense_f32(&n32);
    REQUIRE(f16 && bf16 && f32);
    check_hash(f32, n32 * sizeof *f32, root, "f32_inputs", "f32 inputs");
    for (size_t k = 0; format_at(k); k++) {
        const struct format *f = format_at(k);
        const json_t *row = json_object_get(rows, f->name);
        if (!row)
            continue;
        double *f64 = probes(f, &n64);
        REQUIRE(f64);
        check_encode(f, f16, NULL, n16, row, "f16");
        check_encode(f, bf16, NULL, nb16, row, "bf16");
        check_encode(f, NULL, f32, n32, row, "f32");
        check_encode(f, f64, NULL, n64, row, "f64");
        free(f64);
        seen++;
    }
    CHECK_INT(seen, json_object_size(rows));
    free(f16), free(bf16), free(f32);
    json_decref(root);
}

TEST(num_format_f64_is_itself)
{
    const struct format *f = format_of(DT_F64);
    size_t n;
    double *x = probes(format_of(DT_F16), &n);
    REQUIRE(x);
    int wrong = 0;
    for (size_t i = 0; i < n; i++) {
        double v = ldexp(x[i], (int)(i % 2000) - 1000);
        uint64_t bits;
        memcpy(&bits, &v, sizeof bits);
        wrong += format_encode(f, v, &plain, NULL) != bits || format_decode(f, bits) != v;
    }
    CHECK_INT(wrong, 0);
    CHECK(format_encode(f, -__DBL_DENORM_MIN__, &plain, NULL) == 0x8000000000000001u);
    CHECK(format_encode(f, -INFINITY, &plain, NULL) == 0xfff0000000000000u);
    CHECK(isnan(format_decode(f, format_encode(f, (double)NAN, &plain, NULL))));
    free(x);
}

// A stream that repeats the words it is given, and counts.
struct script {
    const uint64_t *words;
    size_t n, used;
};

static uint64_t script_next(void *state)
{
    struct script *s = state;
    uint64_t word = s->words[s->used % s->n];
    s->used++;
    return word;
}

static uint64_t splitmix_next(void *state)
{
    uint64_t *s = state, z = *s += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

TEST(num_format_rounds_stochastically_as_the_stream_says)
{
    json_t *root = fixture_json("num/formats.json");
    const json_t *rows = json_object_get(root, "stochastic");
    size_t n, seen = 0;
    double *x = every_code(DT_F16, &n);
    uint8_t *codes = malloc(n);
    REQUIRE(x && codes);
    for (size_t k = 0; format_at(k); k++) {
        const struct format *f = format_at(k);
        const json_t *want = json_object_get(rows, f->name);
        if (!want)
            continue;
        uint64_t state = 17;
        struct format_stream stream = {splitmix_next, &state};
        struct format_cast cast = {FORMAT_STOCHASTIC, FORMAT_OVERFLOW_PLAIN, &stream};
        struct format_counts c = {0};
        struct error e = {0};
        REQUIRE_OK(format_encode_f64(f, codes, x, n, &cast, &c, NULL, &e), &e);
        check_hash(codes, n, want, "codes", f->name);
        check_counts(&c, json_object_get(want, "counts"), f->name);
        seen++;
    }
    CHECK_INT(seen, json_object_size(rows));
    free(x), free(codes);
    json_decref(root);
}

// Over all 1024 leading ten bits of a word, a value with k 1024ths of a step above a number goes up exactly k times.
TEST(num_format_stochastic_rounding_is_unbiased)
{
    static const enum dtype types[] = {DT_F16, DT_F8E4M3FN, DT_F8E5M2FNUZ, DT_F4E2M1FN, DT_S8, DT_U2};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        const struct format *f = format_of(types[t]);
        for (unsigned k = 1; k < 1024; k += 73) {
            double step = format_is_integer(f) ? 1 : 2 * format_unit_roundoff(f), v = 1 + step * k / 1024;
            unsigned up = 0;
            for (uint64_t w = 0; w < 1024; w++) {
                uint64_t word = w << 54 | 0x1555555;
                struct script s = {&word, 1, 0};
                struct format_stream stream = {script_next, &s};
                struct format_cast cast = {FORMAT_STOCHASTIC, FORMAT_OVERFLOW_PLAIN, &stream};
                double got = format_round(f, v, &cast, NULL), mirror = format_round(f, -v, &cast, NULL);
                CHECK(got == 1 || got == 1 + step);
                if (f->is_signed)
                    CHECK(mirror == -got);
                up += got > 1;
            }
            CHECK_INT(up, k);
        }
    }
}

TEST(num_format_stochastic_rounding_reads_on_where_a_word_decides_nothing)
{
    const struct format *f = format_of(DT_F8E4M3FN); // steps of 2^-9 at zero
    // Of a step: 5 * 2^-64 and 2^-111, so the first word of the fraction is 5 and the second 2^17.
    double v = ldexp(5, -73) + ldexp(1, -120), tiny = ldexp(1, -9 - 128);
    static const uint64_t words[][2] = {{4, 0}, {6, 0}, {5, 0x1ffff}, {5, 0x20000}, {5, 0x20001}};
    static const struct {
        size_t used;
        bool up;
    } want[] = {{1, true}, {1, false}, {2, true}, {2, false}, {2, false}};
    for (size_t i = 0; i < 5; i++) {
        struct script s = {words[i], 2, 0};
        struct format_stream stream = {script_next, &s};
        struct format_cast cast = {FORMAT_STOCHASTIC, FORMAT_OVERFLOW_PLAIN, &stream};
        CHECK((format_round(f, v, &cast, NULL) > 0) == want[i].up);
        CHECK_INT(s.used, want[i].used);
    }
    // 2^-128 of a step: 1 in the last place of the second word.
    static const uint64_t zeros[] = {0, 0, 7}, not_zero[] = {0, 1, 0};
    struct script s = {zeros, 3, 0};
    struct format_stream stream = {script_next, &s};
    struct format_cast cast = {FORMAT_STOCHASTIC, FORMAT_OVERFLOW_PLAIN, &stream};
    CHECK(format_round(f, tiny, &cast, NULL) > 0);
    CHECK_INT(s.used, 2);
    s = (struct script){not_zero, 3, 0};
    CHECK(format_round(f, tiny, &cast, NULL) == 0);
    CHECK_INT(s.used, 2);
    // An exact value takes its word all the same; the smallest double takes as many as its zeros are long.
    s = (struct script){zeros, 1, 0};
    CHECK(format_round(f, 1, &cast, NULL) == 1);
    CHECK_INT(s.used, 1);
    s = (struct script){zeros, 1, 0};
    CHECK(format_round(f, __DBL_DENORM_MIN__, &cast, NULL) > 0);
    CHECK_INT(s.used, (1074 - 9 + 63) / 64);
}

TEST(num_format_refuses_what_has_no_place_when_asked)
{
    const struct format *f = format_of(DT_F8E4M3FN);
    struct format_cast cast = {FORMAT_NEAREST_EVEN, FORMAT_OVERFLOW_ERROR, NULL};
    const float good[] = {464, -464, 0, 1e-30f}, bad[] = {1, 465, (float)NAN, -INFINITY};
    uint8_t codes[4];
    struct format_counts c = {0};
    struct error e = {0};
    CHECK_INT(format_encode_f32(f, codes, good, 4, &cast, &c, "w", &e), 0);
    CHECK(codes[0] == 0x7e && codes[1] == 0xfe && c.flushed == 1 && c.inexact == 3);
    CHECK_INT(format_encode_f32(f, codes, bad, 4, &cast, &c, "w", &e), ERR_INPUT);
    CHECK_STR(e.where, "w");
    CHECK(strstr(e.message, "element 1, 465, has no place in f8e4m3fn, which reaches from -448 to 448"));
    CHECK(strstr(e.message, "1 NaN, 1 infinite and 1 finite elements of 4"));
    CHECK_INT(c.elements, 8); // counts add up
    CHECK(codes[1] == 0x7f && codes[3] == 0xff);
}

TEST(num_format_packs_low_bits_first)
{
    static const uint8_t four[] = {0xf1, 0x2, 0x3}, six[] = {1, 2, 3, 63}, two[] = {1, 2, 3, 0, 3};
    uint8_t packed[4] = {0}, back[5];
    format_pack(4, packed, four, 3);
    CHECK(packed[0] == 0x21 && packed[1] == 0x03);
    format_pack(6, packed, six, 4);
    CHECK(packed[0] == (1 | (2 & 3) << 6) && packed[1] == (2 >> 2 | (3 & 15) << 4) && packed[2] == (3 >> 4 | 63 << 2));
    format_pack(2, packed, two, 5);
    CHECK(packed[0] == (1 | 2 << 2 | 3 << 4) && packed[1] == 3);
    format_unpack(2, true, back, packed, 5);
    CHECK((int8_t)back[0] == 1 && (int8_t)back[1] == -2 && (int8_t)back[2] == -1 && back[3] == 0);
    for (int bits = 1; bits <= 8; bits++) {
        uint8_t codes[97], string[97], again[97];
        uint64_t state = (uint64_t)bits;
        for (size_t i = 0; i < sizeof codes; i++)
            codes[i] = (uint8_t)(splitmix_next(&state) & ((1u << bits) - 1));
        for (size_t n = 0; n <= sizeof codes; n++) {
            size_t bytes = (n * (size_t)bits + 7) / 8;
            memset(string, 0xa5, sizeof string);
            format_pack(bits, string, codes, n);
            CHECK(bytes == sizeof string || string[bytes] == 0xa5);
            format_unpack(bits, false, again, string, n);
            CHECK(memcmp(codes, again, n) == 0);
        }
    }
}

TEST(num_format_table_of_the_documentation_is_current)
{
    char path[1024];
    struct error e = {0};
    struct str doc, table;
    str_init(&doc);
    str_init(&table);
    snprintf(path, sizeof path, "%s/docs/formats.md", test_top());
    REQUIRE_OK(file_read(&doc, path, 1 << 20, &e), &e);
    format_print_table(&table);
    bool found = strstr(str_text(&doc), str_text(&table)) != NULL;
    CHECK(found);
    if (!found)
        printf("the table should be:\n%s", str_text(&table));
    str_release(&doc);
    str_release(&table);
}
