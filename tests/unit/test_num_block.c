// SPDX-License-Identifier: Apache-2.0
// Block formats against two other implementations: an exact one (tests/oracle/formats.py), and torchao where it has the
// format. Inputs are made here and there by the same few integer operations.
#include <stdint.h>
#include <stdlib.h>

#include "base/sha256.h"
#include "fixture.h"
#include "num/block.h"
#include "num/random.h"
#include "test.h"

static uint64_t splitmix(uint64_t seed, size_t i)
{
    uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static float float_from_bits(uint64_t bits)
{
    uint32_t b = (uint32_t)bits;
    float v;
    memcpy(&v, &b, sizeof v);
    return v;
}

// Exponents climb from the subnormals to the largest, over 4 binades in a block; two blocks of zeros.
static void fill_sweep(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t r = splitmix(5, i), exponent = i / 32 % 252 + (r >> 40) % 4;
        x[i] = float_from_bits((r & 0x807fffff) | (exponent < 254 ? exponent : 254) << 23);
    }
    for (size_t i = 1000; i < 1064 && i < n; i++)
        x[i] = 0;
}

static void fill_narrow(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t r = splitmix(6, i);
        x[i] = float_from_bits((r & 0x807fffff) | (124 + (r >> 40) % 5) << 23);
    }
}

struct tensor {
    float *x;
    int64_t dims[BLOCK_MAX_RANK];
    int rank, axis;
    size_t n;
};

static struct tensor tensor_of(const json_t *input, const char *name, int axis)
{
    struct tensor t = {.rank = (int)json_array_size(json_object_get(input, "shape")), .axis = axis, .n = 1};
    for (int i = 0; i < t.rank; i++) {
        t.dims[i] = json_integer_value(json_array_get(json_object_get(input, "shape"), (size_t)i));
        t.n *= (size_t)t.dims[i];
    }
    t.x = malloc(t.n * sizeof *t.x);
    if (!t.x)
        abort();
    if (strcmp(name, "sweep") == 0)
        fill_sweep(t.x, t.n);
    else
        fill_narrow(t.x, t.n);
    if (strcmp(name, "damaged") == 0) {
        t.x[1 * 128 + 3] = (float)NAN;
        t.x[2 * 128 + 100] = -INFINITY;
        t.x[4 * 128] = INFINITY;
    }
    return t;
}

static void check_hash(const void *bytes, size_t n, const json_t *o, const char *key, const char *what)
{
    char hex[65];
    struct error e = {0};
    REQUIRE_OK(sha256_bytes(bytes, n, hex, &e), &e);
    if (!CHECK_STR(hex, json_string_value(json_object_get(o, key))))
        printf("  %s of %s\n", key, what);
}

static void check_input(const struct tensor *t, const json_t *input, const char *name)
{
    float *clean = malloc(t->n * sizeof *clean);
    REQUIRE(clean);
    for (size_t i = 0; i < t->n; i++)
        clean[i] = isnan(t->x[i]) ? 0 : t->x[i];
    check_hash(clean, t->n * sizeof *clean, input, "inputs", name);
    free(clean);
}

// Everything a fixture's row says of one format, rule and tensor.
static void check_case(const struct block_format *f, enum block_scale_rule rule, const struct tensor *t,
                       const json_t *want, const char *input)
{
    char what[96];
    snprintf(what, sizeof what, "%s %s %s", input, f->name, block_scale_rule_name(rule));
    struct error e = {0};
    struct block_layout layout;
    REQUIRE_OK(block_layout(f, t->dims, t->rank, t->axis, what, &layout, &e), &e);
    uint8_t *codes = malloc(t->n), *scales = malloc(layout.scale_count);
    float *back = malloc(t->n * sizeof *back), g;
    REQUIRE(codes && scales && back);
    struct block_cast cast = {.scale_rule = rule};
    struct block_stats s;
    REQUIRE_OK(block_encode(f, &cast, t->dims, t->rank, t->axis, t->x, codes, scales, &g, &s, what, &e), &e);
    check_hash(codes, t->n, want, "codes", what);
    check_hash(scales, layout.scale_count, want, "scales", what);
    if (json_object_get(want, "g"))
        CHECK((double)g == fixture_number(want, "g"));
    if (json_object_get(want, "back")) {
        REQUIRE_OK(block_decode(f, t->dims, t->rank, t->axis, codes, scales, g, back, what, &e), &e);
        double error = 0, square = 0, worst = 0;
        size_t beyond = 0;
        for (size_t i = 0; i < t->n; i++) {
            double d = fabs((double)back[i] - (double)t->x[i]);
            if (isnan(back[i])) {
                back[i] = float_from_bits(0x7fc00000);
                continue;
            }
            beyond += isinf(back[i]) != 0;
            error += d * d;
            square += (double)t->x[i] * (double)t->x[i];
            worst = fmax(worst, d);
        }
        check_hash(back, t->n * sizeof *back, want, "back", what);
        // The same sums in another order.
        if (s.overflowed)
            CHECK(isinf(s.rel_l2) && isinf(s.max_abs_error));
        else
            CHECK_NEAR(s.rel_l2, sqrt(error / square), 1e-12);
        CHECK_INT(s.overflowed, beyond);
        CHECK(s.max_abs_error == worst);
        const size_t got[] = {s.nan_blocks, s.zero_blocks, s.clipped, s.flushed, s.clamped_scales};
        static const char *const keys[] = {"nan_blocks", "zero_blocks", "clipped", "flushed", "clamped_scales"};
        for (int i = 0; i < 5; i++) {
            if (!CHECK_INT(got[i], json_integer_value(json_object_get(want, keys[i]))))
                printf("  %s of %s\n", keys[i], what);
        }
    }
    free(codes), free(scales), free(back);
}

static int check_formats(const json_t *formats, const struct tensor *t, const char *input)
{
    int seen = 0;
    for (size_t k = 0; block_format_at(k); k++) {
        const struct block_format *f = block_format_at(k);
        for (int r = BLOCK_SCALE_FLOOR; r <= BLOCK_SCALE_RCEIL; r++) {
            enum block_scale_rule rule = (enum block_scale_rule)r;
            const json_t *want = json_object_get(json_object_get(formats, f->name), block_scale_rule_name(rule));
            if (!want)
                continue;
            check_case(f, rule, t, want, input);
            seen++;
        }
    }
    return seen;
}

TEST(num_block_equals_the_exact_model)
{
    json_t *root = fixture_json("num/blocks.json");
    const char *name;
    json_t *input;
    int seen = 0;
    json_object_foreach(json_object_get(root, "cases"), name, input)
    {
        struct tensor t = tensor_of(input, name, (int)fixture_number(input, "axis"));
        check_input(&t, input, name);
        seen += check_formats(json_object_get(input, "formats"), &t, name);
        free(t.x);
    }
    CHECK_INT(seen, 5 * (6 * 4 + 1));
    json_decref(root);
}

TEST(num_block_equals_torchao)
{
    json_t *root = fixture_json("num/blocks_torchao.json");
    struct tensor t = tensor_of(root, "narrow", 1);
    check_input(&t, root, "narrow");
    CHECK_INT(check_formats(json_object_get(root, "formats"), &t, "torchao"), 5 * 4 + 1);
    free(t.x);
    json_decref(root);
}

// ---- Products on the published input: operands rounded, sums in f64.

enum { M = 64, K = 128, N = 64 };

struct product {
    double x[M * K], w[K * N];
};

static double rel_l2(const struct product *p, const double *exact)
{
    double error = 0, square = 0;
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum += p->x[i * K + k] * p->w[k * N + j];
            error += (sum - exact[i * N + j]) * (sum - exact[i * N + j]);
            square += exact[i * N + j] * exact[i * N + j];
        }
    }
    return sqrt(error / square);
}

static void round_all(const struct format *f, enum format_rounding rounding, const float *x, double *out, size_t n)
{
    struct format_cast cast = {rounding, FORMAT_OVERFLOW_SATURATE, NULL};
    for (size_t i = 0; i < n; i++)
        out[i] = format_round(f, (double)x[i], &cast, NULL);
}

// Scale amax/largest in f32 per line of `count` elements `step` apart, quotient and product in f32.
static void scale_line(const struct format *f, const float *x, double *out, size_t count, size_t step)
{
    static const struct format_cast cast = {FORMAT_NEAREST_EVEN, FORMAT_OVERFLOW_SATURATE, NULL};
    float amax = 0;
    for (size_t i = 0; i < count; i++)
        amax = fmaxf(amax, fabsf(x[i * step]));
    float s = amax / (float)format_max(f);
    for (size_t i = 0; i < count; i++) {
        float q = (float)format_round(f, (double)(x[i * step] / s), &cast, NULL);
        out[i * step] = (double)(q * s);
    }
}

// Rounds both operands as a label of the fixture says; false for an unknown one.
static bool apply_policy(const char *label, const float *x, const float *w, struct product *p)
{
    char name[64];
    size_t length = strcspn(label, " ");
    snprintf(name, sizeof name, "%.*s", (int)length, label);
    const char *rest = label[length] ? label + length + 1 : "";
    const struct block_format *block = block_format_from_name(name);
    if (block) {
        struct block_cast cast = {0};
        if (*rest && !block_scale_rule_from_name(rest, &cast.scale_rule))
            return false;
        static uint8_t codes[M * K], scales[M * K];
        static float back[M * K];
        const int64_t dims[2][2] = {{M, K}, {K, N}};
        struct error e = {0};
        float g;
        for (int o = 0; o < 2; o++) {
            if (block_encode(block, &cast, dims[o], 2, 1 - o, o ? w : x, codes, scales, &g, NULL, label, &e) ||
                block_decode(block, dims[o], 2, 1 - o, codes, scales, g, back, label, &e))
                return false;
            for (size_t i = 0; i < (size_t)M * K; i++)
                (o ? p->w : p->x)[i] = (double)back[i];
        }
        return true;
    }
    const struct format *f = format_from_name(name);
    if (!f)
        return false;
    if (strcmp(rest, "per tensor") == 0) {
        scale_line(f, x, p->x, M * K, 1);
        scale_line(f, w, p->w, K * N, 1);
    } else if (strcmp(rest, "per row and column") == 0) {
        for (size_t i = 0; i < M; i++)
            scale_line(f, x + i * K, p->x + i * K, K, 1);
        for (size_t j = 0; j < N; j++)
            scale_line(f, w + j, p->w + j, K, N);
    } else {
        enum format_rounding rounding = strcmp(rest, "truncated") == 0 ? FORMAT_TOWARD_ZERO : FORMAT_NEAREST_EVEN;
        round_all(f, rounding, x, p->x, (size_t)M * K);
        round_all(f, rounding, w, p->w, (size_t)K * N);
        return *rest == 0 || rounding == FORMAT_TOWARD_ZERO;
    }
    return true;
}

TEST(num_block_and_format_errors_of_the_published_product)
{
    static double normals[M * K + K * N], exact[2][M * N];
    static float x[2][M * K], w[K * N];
    static struct product p;
    struct random_numpy r;
    random_numpy_seed(&r, 17);
    random_numpy_normal(&r, 0, 1, normals, M * K + K * N);
    for (size_t i = 0; i < (size_t)M * K; i++) {
        x[0][i] = x[1][i] = (float)normals[i];
        w[i] = (float)(normals[M * K + i] / sqrt(K));
        if (i % K == 0)
            x[1][i] *= 30; // the outlier column
    }
    for (int a = 0; a < 2; a++) {
        for (int i = 0; i < M * N; i++) {
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum += (double)x[a][i / N * K + k] * (double)w[k * N + i % N];
            exact[a][i] = sum;
        }
    }
    json_t *root = fixture_json("num/blocks.json"), *want;
    const char *label;
    size_t seen = 0;
    json_object_foreach(json_object_get(root, "products"), label, want)
    {
        for (size_t a = 0; a < 2; a++) {
            REQUIRE(apply_policy(label, x[a], w, &p));
            double expected = json_real_value(json_array_get(want, a));
            // Operands are equal bit for bit; only the order of the f64 sums differs.
            CHECK_NEAR(rel_l2(&p, exact[a]), expected, 1e-9 * expected);
        }
        seen++;
    }
    CHECK_INT(seen, 9 + 6 * 4 + 1);
    json_decref(root);
}

TEST(num_block_layout_counts_bytes_and_refuses_shapes)
{
    const struct block_format *mxfp4 = block_format_from_name("mxfp4"), *nvfp4 = block_format_from_name("nvfp4"),
                              *mxfp6 = block_format_from_name("mxfp6-e3m2");
    struct block_layout l;
    struct error e = {0};
    int64_t dims[] = {3, 70, 5};
    REQUIRE_OK(block_layout(mxfp4, dims, 3, 1, "w", &l, &e), &e);
    CHECK(l.elements == 1050 && l.scale_count == 45 && l.scale_dims[1] == 3 && l.short_block == 6);
    CHECK(l.code_bytes == 525 && l.scale_bytes == 45);
    REQUIRE_OK(block_layout(mxfp6, dims, 3, 2, "w", &l, &e), &e);
    CHECK(l.scale_count == 210 && l.short_block == 5 && l.code_bytes == 788); // 6300 bits
    int64_t even[] = {64, 128};
    REQUIRE_OK(block_layout(nvfp4, even, 2, 1, "w", &l, &e), &e);
    CHECK(l.short_block == 0 && l.scale_count == 512 && l.scale_bytes == 516 && l.code_bytes == 4096);
    CHECK_NEAR(l.bits_per_element, 8 * (4096 + 516) / 8192.0, 0);
    CHECK_INT(block_layout(mxfp4, dims, 3, 3, "w", &l, &e), ERR_USAGE);
    CHECK(strstr(e.message, "no axis 3 among 3"));
    error_clear(&e);
    CHECK_INT(block_layout(mxfp4, dims, 0, 0, "w", &l, &e), ERR_USAGE);
    error_clear(&e);
    int64_t empty[] = {4, 0}, huge[] = {INT64_MAX, INT64_MAX}, negative[] = {-1, -4};
    CHECK_INT(block_layout(mxfp4, empty, 2, 1, "w", &l, &e), ERR_USAGE);
    CHECK(strstr(e.message, "empty"));
    CHECK_STR(e.where, "w");
    error_clear(&e);
    CHECK_INT(block_layout(mxfp4, huge, 2, 1, "w", &l, &e), ERR_USAGE);
    error_clear(&e);
    CHECK_INT(block_layout(mxfp4, negative, 2, 1, "w", &l, &e), ERR_USAGE);
}

TEST(num_block_treats_zeros_and_what_is_not_finite)
{
    static const float x[64] = {[40] = (float)NAN};
    uint8_t codes[64], scales[4];
    float back[64], g;
    const int64_t dims[] = {64};
    struct error e = {0};
    struct block_stats s;
    for (size_t k = 0; block_format_at(k); k++) {
        const struct block_format *f = block_format_at(k);
        struct block_cast cast = {0};
        REQUIRE_OK(block_encode(f, &cast, dims, 1, 0, x, codes, scales, &g, &s, "w", &e), &e);
        REQUIRE_OK(block_decode(f, dims, 1, 0, codes, scales, g, back, "w", &e), &e);
        size_t from = 40 / f->block * f->block, to = from + f->block;
        for (size_t i = 0; i < 64; i++)
            CHECK(i >= from && i < to ? isnan(back[i]) : back[i] == 0 && !signbit(back[i]));
        CHECK(s.nan == 1 && s.infinite == 0 && s.nan_blocks == 1 && s.zero_blocks == 64 / f->block - 1);
        CHECK(isnan(s.rel_l2) && s.max_abs_error == 0 && s.clipped == 0 && s.clamped_scales == 0);
        CHECK(f->tensor_scale ? scales[0] == 0x08 && g == 1 : scales[0] == 0);
        cast.refuse_not_finite = true;
        CHECK_INT(block_encode(f, &cast, dims, 1, 0, x, codes, scales, &g, &s, "w", &e), ERR_INPUT);
        CHECK(strstr(e.message, "element 40 is NaN"));
        error_clear(&e);
    }
}

TEST(num_block_takes_a_tensor_scale_from_a_calibration)
{
    const struct block_format *f = block_format_from_name("nvfp4");
    float x[32], back[32], g;
    for (int i = 0; i < 32; i++)
        x[i] = (float)(i % 7) - 3;
    uint8_t codes[32], scales[2];
    const int64_t dims[] = {32};
    struct error e = {0};
    struct block_stats s;
    struct block_cast cast = {.tensor_scale = 0.5f};
    REQUIRE_OK(block_encode(f, &cast, dims, 1, 0, x, codes, scales, &g, &s, "w", &e), &e);
    REQUIRE_OK(block_decode(f, dims, 1, 0, codes, scales, g, back, "w", &e), &e);
    // amax 3: block scale 3/6/0.5 = 1, elements 2x in steps that E2M1 has.
    CHECK(g == 0.5f && scales[0] == 0x38 && s.clipped == 0);
    CHECK(memcmp(x, back, sizeof x) == 0);
    // One too small for the data: scales end at 448, and what is beyond is clipped and counted.
    cast.tensor_scale = 0x1p-12f;
    REQUIRE_OK(block_encode(f, &cast, dims, 1, 0, x, codes, scales, &g, &s, "w", &e), &e);
    CHECK(s.clamped_scales == 2 && scales[0] == 0x7e && s.clipped == 27); // all but five zeros
    static const float bad[] = {-1, 0x1p-121f, INFINITY, (float)NAN};
    for (size_t i = 0; i < 4; i++) {
        cast.tensor_scale = bad[i];
        CHECK_INT(block_encode(f, &cast, dims, 1, 0, x, codes, scales, &g, &s, "w", &e), ERR_USAGE);
        error_clear(&e);
    }
}

TEST(num_block_names)
{
    enum block_scale_rule r;
    for (size_t k = 0; block_format_at(k); k++) {
        CHECK(block_format_from_name(block_format_at(k)->name) == block_format_at(k));
        CHECK(format_of(block_format_at(k)->element) && format_of(block_format_at(k)->scale));
    }
    CHECK(block_format_from_name("mxfp5") == NULL);
    for (int i = 0; i < 4; i++)
        CHECK(block_scale_rule_from_name(block_scale_rule_name((enum block_scale_rule)i), &r) && (int)r == i);
    CHECK(!block_scale_rule_from_name("round", &r));
}
