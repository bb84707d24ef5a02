// SPDX-License-Identifier: Apache-2.0
// Against hashes of a million draws of numpy, JAX and torch each, and against published vectors.
#include <stdlib.h>

#include "base/sha256.h"
#include "fixture.h"
#include "num/isa.h"
#include "num/random.h"
#include "num/random_ziggurat.h"
#include "random_draws.h"
#include "test.h"

static bool check_hash(const void *bytes, size_t n, const char *want)
{
    struct error e = {0};
    char hex[65] = "";
    CHECK_INT(sha256_bytes(bytes, n, hex, &e), 0);
    hex[strlen(want)] = '\0';
    return CHECK_STR(hex, want);
}

// The next byte of pairs of hexadecimal digits; false at their end.
static bool next_byte(const char **text, uint8_t *out)
{
    char pair[3] = {(*text)[0], (*text)[0] ? (*text)[1] : '\0'}, *end;
    *out = (uint8_t)strtoul(pair, &end, 16);
    *text += end - pair;
    return end == pair + 2;
}

// Adds to ours the steps at which JAX's differ: a varint of the distance from the last place, and the step in units in
// the last place. What then hashes like JAX's draws was equal to them everywhere else.
static void put_differences(const json_t *row, uint32_t *bits, size_t n)
{
    const char *text = json_string_value(json_object_get(row, "differences"));
    size_t i = 0, different = 0;
    int farthest = 0;
    uint8_t b;
    while (next_byte(&text, &b)) {
        size_t gap = b & 127;
        for (int shift = 7; b & 128 && next_byte(&text, &b); shift += 7)
            gap |= (size_t)(b & 127) << shift;
        i += gap;
        REQUIRE(i < n && next_byte(&text, &b));
        int step = (int8_t)b;
        bits[i] += (uint32_t)step;
        different++;
        farthest = abs(step) > farthest ? abs(step) : farthest;
    }
    CHECK_INT(n - different, json_integer_value(json_object_get(row, "equal")));
    CHECK(different > 0 && different < n / 100); // "nearly all of them equal"
    CHECK(farthest <= 3);                        // what the header promises
}

static void check_streams(const char *library)
{
    json_t *root = fixture_json(strcmp(library, "torch") == 0 ? "num/random_torch.json" : "num/random.json");
    const json_t *rows = json_object_get(root, "streams");
    size_t checked = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *kind = json_string_value(json_object_get(row, "kind"));
        if (strcmp(json_string_value(json_object_get(row, "library")), library) != 0)
            continue;
        struct error e = {0};
        struct str out;
        str_init(&out);
        size_t count = (size_t)json_integer_value(json_object_get(row, "count"));
        REQUIRE_OK(
            random_draws(library, (uint64_t)json_integer_value(json_object_get(root, "seed")), kind, count, &out, &e),
            &e);
        if (json_object_get(row, "differences"))
            put_differences(row, (uint32_t *)(void *)out.text, count);
        if (!check_hash(out.text, out.length, json_string_value(json_object_get(row, "sha256"))))
            printf("  the draws are %s %s, made with %s\n", library, kind, isa_name(isa_in_force()));
        str_release(&out);
        checked++;
    }
    CHECK(checked > 15);
    json_decref(root);
}

TEST(num_random_numpy_streams)
{
    check_streams("numpy");
}

TEST(num_random_jax_streams)
{
    for (int i = 0; i < ISA_COUNT; i++) {
        if (isa_force((enum isa)i))
            check_streams("jax");
    }
}

TEST(num_random_torch_streams)
{
    for (int i = 0; i < ISA_COUNT; i++) {
        if (i < ISA_AVX512 && isa_force((enum isa)i)) // these run the loops of AVX2
            check_streams("torch");
    }
}

// Seeds beyond 32 bits, the published beginnings, and what a shape of torch 1.13 ends in.
TEST(num_random_torch_0)
{
    static const float f32[] = {-1.1258f, -1.1524f, -0.2506f, -0.4339f, 0.8487f, 0.6920f, -0.3160f, -2.1152f};
    static const float f32_end[] = {-1.3273f, -1.8353f, 1.0419f, -0.6321f};
    static const float bf16[] = {1.4609375f,   0.291015625f, 0.9609375f, 1.5703125f,
                                 0.494140625f, -1.515625f,   -0.25f,     0.57421875f};
    enum { N = 128 * 32 * 32 };
    float *v = malloc(N * sizeof *v), largest = 0;
    struct random_torch r, s;
    REQUIRE(v != NULL);
    random_torch_seed(&r, 0);
    random_torch_normal_f32(&r, RANDOM_TORCH_PLAIN, v, N);
    for (int i = 0; i < 8; i++)
        CHECK_NEAR(v[i], f32[i], 5e-5); // published to four places
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(v[N - 4 + i], f32_end[i], 5e-5);
    random_torch_seed(&r, 0);
    random_torch1_normal_bf16(&r, v, N);
    for (int i = 0; i < 8; i++)
        CHECK(v[i] == bf16[i]);
    for (int i = 0; i < N; i++)
        largest = fabsf(v[i]) > largest ? fabsf(v[i]) : largest;
    CHECK(largest == 3.328125f);
    free(v);
    random_torch_seed(&r, 5);
    random_torch_seed(&s, (UINT64_C(3) << 32) + 5);
    CHECK(random_torch_u64(&r) == random_torch_u64(&s));
}

// What a library makes of a seed, as it is in the fixture.
static size_t draw_of(const char *library, uint64_t seed, uint8_t out[64])
{
    struct random_torch t;
    struct random_numpy n;
    struct random_jax_key k;
    if (strcmp(library, "torch") == 0) {
        random_torch_seed(&t, seed);
        random_torch_normal_f32(&t, RANDOM_TORCH_PLAIN, (float *)(void *)out, 16);
        return 64;
    }
    if (strcmp(library, "numpy") == 0) {
        random_numpy_seed(&n, seed);
        for (int i = 0; i < 4; i++) {
            uint64_t word = random_numpy_u64(&n);
            memcpy(out + 8 * i, &word, 8);
        }
        return 32;
    }
    k = random_jax_key(strcmp(library, "jax") == 0 ? (uint32_t)seed : seed); // without jax_enable_x64
    memcpy(out, k.word, 8);
    return 8;
}

// Seeds that need all of 64 bits, as tests/oracle/random_seeds.py saw the libraries take them. Negative ones, which
// torch and JAX take, are those with 2^64 added.
TEST(num_random_seeds_of_64_bits)
{
    json_t *root = fixture_json("num/random_seeds.json");
    const json_t *rows = json_object_get(root, "rows");
    size_t checked = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *library = json_string_value(json_object_get(row, "library"));
        const char *text = json_string_value(json_object_get(row, "seed"));
        const char *want = json_string_value(json_object_get(row, "draws"));
        int64_t negative;
        uint64_t seed;
        _Alignas(8) uint8_t ours[64];
        if (!want)
            continue;
        REQUIRE(parse_u64(text, &seed) || parse_i64(text, &negative) || strcmp(text, "18446744073709551616") == 0);
        if (*text == '-')
            seed = (uint64_t)negative;
        else if (!parse_u64(text, &seed))
            continue; // numpy takes longer ones, too
        size_t n = draw_of(library, seed, ours);
        for (size_t b = 0; b < n; b++) {
            uint8_t theirs;
            if (!CHECK(next_byte(&want, &theirs) && theirs == ours[b])) {
                printf("  byte %zu of %s, seed %s\n", b, library, text);
                break;
            }
        }
        checked++;
    }
    CHECK_INT(checked, 26);
    json_decref(root);
}

// The recursion over layers of equal area, and the hashes of the tables.
TEST(num_random_ziggurat_tables)
{
    const double v = 0.0049286732339746519;
    double x = ZIGGURAT_R, f = exp(-0.5 * x * x);
    CHECK_NEAR(ziggurat_wi[0] * 0x1p52, v / f, 1e-15);
    for (int i = 255; i >= 1; i--) {
        // Far above the errors of log and exp as they add up over the layers, far below any wrong digit.
        CHECK_NEAR(ziggurat_wi[i] * 0x1p52, x, 1e-12);
        CHECK_NEAR(ziggurat_fi[i], f, 1e-12);
        double inner = i > 1 ? sqrt(-2 * log(v / x + f)) : 0;
        CHECK_NEAR((double)ziggurat_ki[i] * 0x1p-52, inner / x, 1e-12);
        CHECK(ziggurat_ki_f32[i] == (uint32_t)rint((double)ziggurat_ki[i] * 0x1p-29));
        x = inner, f = exp(-0.5 * x * x);
    }
    check_hash(ziggurat_ki, sizeof ziggurat_ki, "565295797825931547a1036f5b012a247be54abbe077c39fe06c8ed1e9d0a5a9");
    check_hash(ziggurat_wi, sizeof ziggurat_wi, "33c6472209e1d09ea3548f0291e5e1ad67fb4f1d0305e9f1086689584b7bb7fa");
    check_hash(ziggurat_fi, sizeof ziggurat_fi, "acd898d9d87e212f657755ba43b21e40958090a7ff2103c9e79f4ea1b0fe2bc5");
}

TEST(num_random_numpy_seeds)
{
    json_t *root = fixture_json("num/random.json");
    const json_t *rows = json_object_get(root, "seeds");
    CHECK(json_array_size(rows) > 5);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *words = json_object_get(json_array_get(rows, i), "words");
        const json_t *raw = json_object_get(json_array_get(rows, i), "raw");
        uint32_t w[16];
        size_t n = json_array_size(words);
        REQUIRE(n <= 16);
        for (size_t k = 0; k < n; k++)
            w[k] = (uint32_t)json_integer_value(json_array_get(words, k));
        struct random_numpy r, s;
        random_numpy_seed_words(&r, w, n);
        for (size_t k = 0; k < json_array_size(raw); k++) {
            char hex[17];
            snprintf(hex, sizeof hex, "%016llx", (unsigned long long)random_numpy_u64(&r));
            CHECK_STR(hex, json_string_value(json_array_get(raw, k)));
        }
        if (n <= 2) {
            random_numpy_seed_words(&r, w, n);
            random_numpy_seed(&s, (uint64_t)(n == 2 ? w[1] : 0) << 32 | w[0]);
            CHECK(random_numpy_u64(&r) == random_numpy_u64(&s));
        }
    }
    json_decref(root);
}

// The state after seeding with 17, the first words and normals, and the published inputs that are made of them.
TEST(num_random_numpy_17)
{
    static const uint64_t raw[] = {0xd856d255bdafcc73, 0x293588521b7ab04b, 0x8ec858be753d914a, 0x5e3a7cafc2fa6362};
    static const double normals[] = {0x1.19ec560e1ece3p+0, 0x1.5a8dba848e31ep-2, -0x1.1477257d921b1p-1,
                                     -0x1.429f35d83b446p+0};
    struct random_numpy r;
    random_numpy_seed(&r, 17);
    CHECK(r.state[0] == 0x90032ae9301c65d5 && r.state[1] == 0x8fc8e3434980b0a7);
    CHECK(r.increment[0] == 0x3b532b59957ad40a && r.increment[1] == 0x3b5267c90781bf85);
    for (int i = 0; i < 4; i++)
        CHECK(random_numpy_u64(&r) == raw[i]);
    random_numpy_seed(&r, 17);
    static double v[64 * 128];
    static float xw[2 * 64 * 128];
    random_numpy_standard_normal(&r, v, 64 * 128);
    for (int i = 0; i < 4; i++)
        CHECK(v[i] == normals[i]);
    for (int i = 0; i < 64 * 128; i++)
        xw[i] = (float)v[i];
    random_numpy_standard_normal(&r, v, 128 * 64);
    for (int i = 0; i < 128 * 64; i++)
        xw[64 * 128 + i] = (float)(v[i] / sqrt(128));
    check_hash(xw, sizeof xw, "2a60a6fffbe58b36068d5b6bd4e205f4cc7a1dbf59b023e8922e2a36c1697032");
    check_hash(xw, sizeof xw / 2, "2b170f7e9e2e3230");
    check_hash(xw + 64 * 128, sizeof xw / 2, "e979f267d18f0500");
    for (int i = 0; i < 64; i++)
        xw[i * 128] *= 30;
    check_hash(xw, sizeof xw, "5eddbc8a013fe228d81b118f53fd60da4c7af1c0e06c28d49a4a4f04ca6b92c4");
}

TEST(num_random_numpy_refusals)
{
    struct random_numpy r;
    struct error e = {0};
    uint64_t out[4];
    random_numpy_seed(&r, 1);
    CHECK_INT(random_numpy_integers(&r, DT_F32, 0, 1, out, 4, &e), ERR_USAGE);
    CHECK(strstr(e.message, "f32"));
    error_clear(&e);
    CHECK_INT(random_numpy_integers(&r, DT_S4, 0, 1, out, 4, &e), ERR_USAGE);
    error_clear(&e);
    CHECK_INT(random_numpy_integers(&r, DT_S8, -129, 1, out, 4, &e), ERR_USAGE);
    error_clear(&e);
    CHECK_INT(random_numpy_integers(&r, DT_S8, 0, 128, out, 4, &e), ERR_USAGE);
    error_clear(&e);
    CHECK_INT(random_numpy_integers(&r, DT_U8, -1, 3, out, 4, &e), ERR_USAGE);
    error_clear(&e);
    CHECK_INT(random_numpy_integers(&r, DT_S64, 1, (uint64_t)INT64_MAX, out, 4, &e), ERR_USAGE);
    error_clear(&e);
    CHECK_INT(random_numpy_integers(&r, DT_U64, -1, 1, out, 4, &e), ERR_USAGE);
    error_clear(&e);
    CHECK_INT(random_numpy_integers(&r, DT_U64, -1, 0, out, 4, &e), 0);
    CHECK(out[3] == UINT64_MAX);
    CHECK_INT(random_numpy_integers(&r, DT_S64, INT64_MIN, UINT64_MAX, out, 4, &e), 0);
}

// Known answers of the block function (Random123's kat_vectors), and of what is made of it.
TEST(num_random_jax_vectors)
{
    static const uint32_t known[][6] = {
        {0, 0, 0, 0, 0x6b200159, 0x99ba4efe},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x1cb996fc, 0xbb002be7},
        {0x13198a2e, 0x03707344, 0x243f6a88, 0x85a308d3, 0xc4923a9c, 0x483df7a0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const uint32_t *k = known[i];
        uint32_t out[2];
        random_jax_threefry((struct random_jax_key){{k[0], k[1]}}, k[2], k[3], out);
        CHECK(out[0] == k[4] && out[1] == k[5]);
    }
    struct random_jax_key keys[2];
    random_jax_split(random_jax_key(0), RANDOM_JAX_PARTITIONABLE, keys, 2);
    CHECK(keys[0].word[0] == 0x6b200159 && keys[0].word[1] == 0x99ba4efe);
    CHECK(keys[1].word[0] == 0x375f238f && keys[1].word[1] == 0xcddb151d);
    CHECK(random_jax_key(UINT64_C(7) << 32 | 9).word[0] == 7 && random_jax_key(UINT64_C(7) << 32 | 9).word[1] == 9);

    static const uint32_t zero[] = {0xf29a4fa7, 0xfa843692, 0x55110e28, 0x77faa835};
    static const uint32_t original[] = {56197195, 4200222568, 961309823}, now[] = {1111271205, 2679469115, 974515252};
    struct error e = {0};
    uint32_t bits[4];
    struct random_jax a = {.key = random_jax_key(0), .size = 4};
    REQUIRE_OK(random_jax_bits(&a, 32, 0, bits, 4, &e), &e);
    CHECK(memcmp(bits, zero, sizeof zero) == 0);
    struct random_jax b = {.key = random_jax_key(1701), .size = 3};
    REQUIRE_OK(random_jax_bits(&b, 32, 0, bits, 3, &e), &e);
    CHECK(memcmp(bits, now, sizeof now) == 0);
    b.style = RANDOM_JAX_ORIGINAL;
    REQUIRE_OK(random_jax_bits(&b, 32, 0, bits, 3, &e), &e);
    CHECK(memcmp(bits, original, sizeof original) == 0);

    static const float normals[] = {1.6226422f, 2.0252647f, -.43359444f, -.07861735f};
    float v[4];
    REQUIRE_OK(random_jax_normal_f32(&a, 0, v, 4, &e), &e);
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(v[i], normals[i], 3 * 0x1p-23 * fabs(normals[i])); // what the header promises: 3 units
    struct random_jax one = {.key = random_jax_key(42), .size = 1};
    REQUIRE_OK(random_jax_normal_f32(&one, 0, v, 1, &e), &e);
    CHECK_NEAR(v[0], -.02830462, 3 * 0x1p-29);
    one.style = RANDOM_JAX_ORIGINAL;
    REQUIRE_OK(random_jax_normal_f32(&one, 0, v, 1, &e), &e);
    CHECK_NEAR(v[0], -.18471177, 3 * 0x1p-26);
}

// Any range of an array is the same as that range of the whole, in both styles and every width.
TEST(num_random_jax_ranges)
{
    enum { SIZE = 1003 };
    static uint64_t whole[SIZE], part[SIZE];
    static float normals[SIZE], some[SIZE];
    struct error e = {0};
    for (int style = RANDOM_JAX_PARTITIONABLE; style <= RANDOM_JAX_ORIGINAL; style++) {
        struct random_jax a = {.key = random_jax_key(5), .style = (enum random_jax_style)style, .size = SIZE};
        static const size_t cuts[][2] = {{0, 1}, {1, 63}, {63, 66}, {499, 7}, {501, 130}, {1000, 3}, {1003, 0}};
        for (int width = 8; width <= 64; width *= 2) {
            size_t bytes = (size_t)width / 8;
            REQUIRE_OK(random_jax_bits(&a, width, 0, whole, SIZE, &e), &e);
            for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
                REQUIRE_OK(random_jax_bits(&a, width, cuts[i][0], part, cuts[i][1], &e), &e);
                CHECK(memcmp(part, (char *)whole + cuts[i][0] * bytes, cuts[i][1] * bytes) == 0);
            }
        }
        REQUIRE_OK(random_jax_normal_f32(&a, 0, normals, SIZE, &e), &e);
        REQUIRE_OK(random_jax_normal_f32(&a, 501, some, 130, &e), &e);
        CHECK(memcmp(some, normals + 501, 130 * sizeof *some) == 0);
    }
    // Counters beyond 32 bits: the high word is counted too.
    struct random_jax a = {.key = random_jax_key(5), .size = UINT64_C(1) << 40};
    uint32_t w[2], bits[2];
    REQUIRE_OK(random_jax_bits(&a, 32, UINT64_C(0xffffffff), bits, 2, &e), &e);
    random_jax_threefry(a.key, 0, 0xffffffff, w);
    CHECK(bits[0] == (w[0] ^ w[1]));
    random_jax_threefry(a.key, 1, 0, w);
    CHECK(bits[1] == (w[0] ^ w[1]));
}

TEST(num_random_jax_refusals)
{
    struct error e = {0};
    float v[4];
    struct random_jax a = {.key = random_jax_key(0), .size = 4};
    CHECK_INT(random_jax_normal_f32(&a, 1, v, 4, &e), ERR_USAGE);
    error_clear(&e);
    CHECK_INT(random_jax_bits(&a, 12, 0, v, 1, &e), ERR_USAGE);
    error_clear(&e);
    a = (struct random_jax){.style = RANDOM_JAX_ORIGINAL, .size = UINT64_C(1) << 32};
    CHECK_INT(random_jax_uniform_f32(&a, 0, 1, 0, v, 4, &e), ERR_USAGE);
    CHECK(strstr(e.message, "partitionable"));
}

// The 64 x 256 activations that PRNGKey(0) gives after a split: words, uniforms of the normals, the first normals.
TEST(num_random_jax_activations)
{
    enum { SIZE = 64 * 256 };
    static const uint32_t first[] = {0x3f80838a, 0xbf6805b7, 0xbf3f8837, 0xbf95ef5a};
    static uint32_t bits[SIZE];
    static float v[SIZE];
    struct error e = {0};
    struct random_jax_key keys[2];
    random_jax_split(random_jax_key(0), RANDOM_JAX_PARTITIONABLE, keys, 2);
    struct random_jax a = {.key = keys[0], .size = SIZE};
    REQUIRE_OK(random_jax_bits(&a, 32, 0, bits, SIZE, &e), &e);
    check_hash(bits, sizeof bits, "a4d786cb2cb3865e78b5672a4fb48932ab68eefddb29ca878e4681367f3cb7f2");
    REQUIRE_OK(random_jax_uniform_f32(&a, -0x1.fffffep-1f, 1, 0, v, SIZE, &e), &e);
    check_hash(v, sizeof v, "4ac89f30a4bbaf0f651f5e11e68cbfe6713810012f4296f490350343b90e617d");
    REQUIRE_OK(random_jax_normal_f32(&a, 0, v, SIZE, &e), &e);
    CHECK(memcmp(v, first, sizeof first) == 0);
}
