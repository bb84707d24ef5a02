// SPDX-License-Identifier: Apache-2.0
// Every pair of types on every instruction set this machine has, against the generic encoder and decoder: all inputs of
// 16 bits and less, and of wider types all values of the target, all ties between them, and the neighbours of both.
#include <stdint.h>
#include <stdlib.h>

#include "num/convert.h"
#include "num/isa.h"
#include "test.h"

static const enum format_overflow policies[] = {FORMAT_OVERFLOW_PLAIN, FORMAT_OVERFLOW_SATURATE,
                                                FORMAT_OVERFLOW_SATURATE_FINITE};

// Types that convert to each other: all but the complex ones.
static bool is_simple(enum dtype t)
{
    return dtype_bits(t) && dtype_info(t)->kind != DTK_COMPLEX;
}

static uint64_t get(enum dtype t, const uint8_t *p, size_t i)
{
    uint64_t v = 0;
    size_t bits = (size_t)dtype_bits(t);
    if (bits >= 8) {
        memcpy(&v, p + i * bits / 8, bits / 8);
        return v;
    }
    for (size_t b = 0; b < bits; b++)
        v |= (uint64_t)(p[(i * bits + b) / 8] >> (i * bits + b) % 8 & 1) << b;
    return v;
}

static void put(enum dtype t, uint8_t *p, size_t i, uint64_t v)
{
    size_t bits = (size_t)dtype_bits(t);
    if (bits >= 8) {
        memcpy(p + i * bits / 8, &v, bits / 8);
        return;
    }
    for (size_t b = 0; b < bits; b++) {
        size_t at = i * bits + b;
        p[at / 8] = (uint8_t)((p[at / 8] & ~(1u << at % 8)) | (unsigned)(v >> b & 1) << at % 8);
    }
}

struct array {
    enum dtype type;
    size_t n, room;
    uint8_t *data; // with room behind it for a byte that nothing may write
};

static bool array_new(struct array *a, enum dtype type, size_t room)
{
    size_t bytes;
    *a = (struct array){.type = type, .room = room};
    a->data = dtype_bytes(type, room, &bytes) ? calloc(bytes + 1, 1) : NULL;
    return CHECK(a->data != NULL);
}

// Both signs of v and what is next to it on both sides, in f32 or f64.
static void add(struct array *a, double v)
{
    for (int k = 0; k < 6 && a->n < a->room; k++) {
        double signed_v = k % 2 ? -v : v, to = k < 2 ? signed_v : k < 4 ? INFINITY : -INFINITY;
        uint64_t bits = 0;
        if (a->type == DT_F32) {
            float f = nextafterf((float)signed_v, (float)to);
            memcpy(&bits, &f, sizeof f);
        } else {
            double f = nextafter(signed_v, to);
            memcpy(&bits, &f, sizeof f);
        }
        put(a->type, a->data, a->n++, bits);
    }
}

static void add_bits(struct array *a, uint64_t bits)
{
    if (a->n < a->room)
        put(a->type, a->data, a->n++, bits);
}

// Every exponent with fractions of few bits, signs, infinities and NaNs.
static void add_exponents(struct array *a)
{
    int bits = a->type == DT_F32 ? 23 : 52, exponents = a->type == DT_F32 ? 512 : 4096;
    for (uint64_t e = 0; e < (uint64_t)exponents; e += exponents == 512 ? 1 : 5) {
        for (int b = 0; b <= bits; b++) {
            uint64_t one = (uint64_t)1 << b;
            add_bits(a, e << bits | (one & (((uint64_t)1 << bits) - 1)));
            add_bits(a, e << bits | (one - 1));
            add_bits(a, e << bits | ((((uint64_t)1 << bits) - 1) & ~(one - 1)));
        }
    }
}

// What to ask of a conversion from `from` (f32, f64) to g.
static bool array_around(struct array *a, enum dtype from, const struct format *g)
{
    if (!array_new(a, from, 1000000))
        return false;
    add_exponents(a);
    if (!g)
        return true;
    if (g->bits > 16) {
        for (double v = 0x1p-149; v < 0x1p129; v *= 2) {
            add(a, v * (1 + 0x1p-24));
            add(a, v * (1 + 0x1p-23 + 0x1p-24));
            add(a, v - 0.5);
            add(a, v + 1.5);
        }
        return true;
    }
    if (format_is_integer(g)) {
        for (double v = 0; v <= format_max(g) + 2; v += 0.5)
            add(a, v);
        return true;
    }
    uint64_t max = format_max_code(g);
    double before = 0;
    for (uint64_t c = 0; c <= max; c++) {
        double v = format_decode(g, c);
        add(a, v);
        add(a, (before + v) / 2);
        if (c == max)
            add(a, v + (v - before) / 2);
        before = v;
    }
    return true;
}

static bool array_of_all_codes(struct array *a, enum dtype type)
{
    size_t n = (size_t)1 << dtype_bits(type);
    if (!array_new(a, type, n))
        return false;
    for (; a->n < n; a->n++)
        put(type, a->data, a->n, a->n);
    return true;
}

static bool array_of_integers(struct array *a, enum dtype type)
{
    int bits = dtype_bits(type);
    if (!array_new(a, type, (size_t)bits * 64 * 6))
        return false;
    for (int high = 0; high < bits; high++) {
        for (int low = 0; low < 64; low++) {
            uint64_t v = (uint64_t)1 << high | (uint64_t)1 << low;
            uint64_t some[6] = {v, v - 1, v + 1, 0 - v, 1 - v, 0 - v - 1};
            for (int k = 0; k < 6; k++)
                add_bits(a, some[k] & (UINT64_MAX >> (64 - bits)));
        }
    }
    return true;
}

static uint64_t reference(enum dtype to, enum dtype from, uint64_t bits, enum format_overflow overflow)
{
    const struct format *f = format_of(from), *g = format_of(to);
    struct format_cast cast = {.rounding = FORMAT_NEAREST_EVEN, .overflow = overflow};
    if (!f && from != DT_PRED) {
        int64_t s = (int64_t)bits;
        if (!g) // 64 bits to 64 bits, or to pred
            return to == DT_PRED ? bits != 0 : s >= 0 ? bits : from == DT_U64 ? INT64_MAX : 0;
        // x87's long double holds 64 bits; elsewhere it holds more. The first rounding is toward odd by hand.
        long double exact = from == DT_S64 ? (long double)s : (long double)bits;
        double v = (double)exact;
        if ((long double)v != exact && g->bits < 64) {
            if (fabsl((long double)v) > fabsl(exact))
                v = nextafter(v, 0);
            uint64_t b;
            memcpy(&b, &v, sizeof b);
            b |= 1;
            memcpy(&v, &b, sizeof b);
        }
        return format_encode(g, v, &cast, NULL);
    }
    double v = f ? format_decode(f, bits) : (double)(bits != 0);
    if (g)
        return format_encode(g, v, &cast, NULL);
    if (to == DT_PRED)
        return v != 0;
    if (isnan(v))
        return 0;
    if (to == DT_S64)
        return (uint64_t)(v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : llrint(v));
    return v >= 0x1p64 ? UINT64_MAX : v >= 0x1p63 ? (uint64_t)v : v <= 0 ? 0 : (uint64_t)llrint(v);
}

static int compare(enum dtype to, const struct array *in, enum format_overflow overflow)
{
    struct array want, got;
    size_t bytes = 0;
    int wrong = 0;
    if (!array_new(&want, to, in->n) || !array_new(&got, to, in->n))
        return 1;
    dtype_bytes(to, in->n, &bytes);
    for (size_t i = 0; i < in->n; i++)
        put(to, want.data, i, reference(to, in->type, get(in->type, in->data, i), overflow));
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_force((enum isa)isa))
            continue;
        struct convert_options o = {.overflow = overflow};
        struct error e = {0};
        got.data[bytes] = 0xa5;
        CHECK_INT(convert_array(&o, to, got.data, in->type, in->data, in->n, &e), 0);
        CHECK_INT(got.data[bytes], 0xa5);
        if (memcmp(got.data, want.data, bytes) == 0)
            continue;
        wrong++;
        for (size_t i = 0, shown = 0; i < in->n && shown < 3; i++) {
            uint64_t g = get(to, got.data, i), w = get(to, want.data, i);
            if (g != w && shown++ < 3)
                printf("  %s, %s: %s %llx to %s is %llx, not %llx\n", isa_name((enum isa)isa),
                       format_overflow_name(overflow), dtype_name(in->type),
                       (unsigned long long)get(in->type, in->data, i), dtype_name(to), (unsigned long long)g,
                       (unsigned long long)w);
        }
    }
    free(want.data), free(got.data);
    return wrong;
}

static void compare_from(enum dtype from)
{
    struct array in = {0};
    int wrong = 0;
    for (int t = 1; t < DT_COUNT; t++) {
        enum dtype to = (enum dtype)t;
        if (!is_simple(to) || to == from)
            continue;
        const struct format *g = format_of(to);
        bool wide = from == DT_F32 || from == DT_F64;
        if (wide || !in.data) {
            free(in.data);
            bool made = wide                     ? array_around(&in, from, g)
                        : dtype_bits(from) <= 16 ? array_of_all_codes(&in, from)
                                                 : array_of_integers(&in, from);
            REQUIRE(made);
        }
        // Integers and pred know one rule only.
        size_t rules = g && !format_is_integer(g) ? sizeof policies / sizeof *policies : 1;
        for (size_t k = 0; k < rules; k++)
            wrong += compare(to, &in, policies[k]);
    }
    CHECK_INT(wrong, 0);
    free(in.data);
}

TEST(num_convert_isa_from_f32)
{
    compare_from(DT_F32);
}

TEST(num_convert_isa_from_f64)
{
    compare_from(DT_F64);
}

TEST(num_convert_isa_from_16_bits)
{
    compare_from(DT_BF16);
    compare_from(DT_F16);
}

TEST(num_convert_isa_from_all_others)
{
    for (int t = 1; t < DT_COUNT; t++) {
        if (is_simple((enum dtype)t) && t != DT_F32 && t != DT_F64 && t != DT_BF16 && t != DT_F16)
            compare_from((enum dtype)t);
    }
}

// Any pattern of bits: what the ordered sets may have left out.
TEST(num_convert_isa_random_f32)
{
    static const enum dtype targets[] = {DT_BF16, DT_F16, DT_F8E4M3FN, DT_F8E5M2, DT_F8E4M3FNUZ, DT_F64};
    struct array in;
    if (!array_new(&in, DT_F32, 1 << 21))
        return;
    uint64_t state = 1;
    while (in.n < in.room) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        add_bits(&in, state >> 32);
    }
    int wrong = 0;
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++)
        wrong += compare(targets[t], &in, FORMAT_OVERFLOW_PLAIN);
    CHECK_INT(wrong, 0);
    free(in.data);
}

// Long results are written around the caches and by several threads; both must not show, wherever the arrays begin.
TEST(num_convert_isa_streams_and_threads)
{
    static const struct {
        enum dtype to, from;
    } pairs[] = {{DT_BF16, DT_F32}, {DT_F16, DT_F32},      {DT_F8E4M3FN, DT_F32}, {DT_F32, DT_BF16},
                 {DT_F32, DT_F16},  {DT_F32, DT_F8E4M3FN}, {DT_F32, DT_F64},      {DT_F64, DT_F32},
                 {DT_F16, DT_BF16}, {DT_F4E2M1FN, DT_F32}};
    enum { N = 4300000, PIECE = 4096, MARGIN = 64 };
    uint8_t *src = malloc(N * 8 + MARGIN), *whole = malloc(N * 8 + 2 * MARGIN), *pieces = malloc(N * 8);
    struct threads *threads;
    struct error e = {0};
    REQUIRE(src && whole && pieces);
    REQUIRE_OK(threads_new(&threads, 3, &e), &e);
    for (size_t i = 0; i < N * 8 + MARGIN; i++)
        src[i] = (uint8_t)(i * 2654435761u >> 13);
    int offset = 0;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_force((enum isa)isa))
            continue;
        for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++, offset = (offset * 5 + 3) % MARGIN) {
            enum dtype to = pairs[p].to, from = pairs[p].from;
            size_t to_bits = (size_t)dtype_bits(to), from_bits = (size_t)dtype_bits(from), bytes = N * to_bits / 8;
            const uint8_t *begin = src + (offset + 1) % MARGIN;
            uint8_t *end = whole + offset + bytes;
            for (size_t at = 0; at < N; at += PIECE) {
                size_t k = N - at < PIECE ? N - at : PIECE;
                REQUIRE_OK(convert_elements(to, pieces + at * to_bits / 8, from, begin + at * from_bits / 8, k, &e),
                           &e);
            }
            memset(whole, 0xa5, MARGIN);
            memset(end, 0xa5, MARGIN);
            struct convert_options o = {.threads = threads};
            REQUIRE_OK(convert_array(&o, to, whole + offset, from, begin, N, &e), &e);
            CHECK(memcmp(whole + offset, pieces, bytes) == 0);
            for (int i = 0; i < MARGIN; i++)
                CHECK(end[i] == 0xa5 && (i >= offset || whole[i] == 0xa5));
        }
    }
    threads_free(threads);
    free(src), free(whole), free(pieces);
}

TEST(num_convert_isa_refuses_what_has_no_place)
{
    enum { N = 5000 };
    static float x[N];
    static uint8_t out[N * 8];
    struct convert_options o = {.overflow = FORMAT_OVERFLOW_ERROR, .name = "layer.weight"};
    static const struct {
        enum dtype to;
        float fits, beyond;
    } cases[] = {{DT_F8E4M3FN, 464, 465}, {DT_F16, 65519, 65520},           {DT_S8, 127.5f, 128},
                 {DT_U4, -0.5f, -1},      {DT_F8E8M0FNU, 0x1p127f, -1},     {DT_F32, 3e38f, INFINITY},
                 {DT_F64, 3e38f, NAN},    {DT_BF16, 0x1.fep127f, INFINITY}, {DT_F4E2M1FN, 6.9f, 7.1f}};
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_force((enum isa)isa))
            continue;
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            struct error e = {0};
            enum dtype to = cases[k].to;
            for (size_t i = 0; i < N; i++)
                x[i] = cases[k].fits;
            double wide = INFINITY;
            if (to == DT_F32) { // from f32 it would be a copy
                CHECK_INT(convert_array(&o, to, out, DT_F64, &wide, 1, &e), ERR_INPUT);
                continue;
            }
            // 127.5 rounds to 128.
            CHECK_INT(convert_array(&o, to, out, DT_F32, x, N, &e), to == DT_S8 ? ERR_INPUT : 0);
            error_clear(&e);
            x[4321] = x[4800] = cases[k].beyond;
            CHECK_INT(convert_array(&o, to, out, DT_F32, x, N, &e), ERR_INPUT);
            CHECK_STR(e.where, "layer.weight");
            CHECK(strstr(e.message, to == DT_S8 ? "element 0, 127.5, " : "element 4321, ") == e.message);
        }
    }
}
