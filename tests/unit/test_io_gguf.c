// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/sha256.h"
#include "fixture.h"
#include "io/gguf.h"
#include "num/convert.h"
#include "test.h"

// The bytes of splitmix64, as the script that made the fixtures draws them.
static void fill(uint8_t *out, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i += 8) {
        uint64_t z = seed + (i / 8 + 1) * 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        z ^= z >> 31;
        memcpy(out + i, &z, n - i < 8 ? n - i : 8);
    }
}

// Every NaN as the same one: how much of a payload survives is nobody's contract.
static void hash_floats(float *values, size_t n, char hex[65])
{
    const uint32_t nan = 0x7fc00000;
    for (size_t i = 0; i < n; i++) {
        if (isnan(values[i]))
            memcpy(&values[i], &nan, sizeof nan);
    }
    struct error e = {0};
    CHECK(sha256_bytes(values, n * sizeof *values, hex, &e) == 0);
}

TEST(io_ggml_blocks_decode_as_the_reference_does)
{
    json_t *root = fixture_json("io/blocks.json");
    const char *name;
    json_t *o;
    size_t blocks = (size_t)fixture_number(root, "blocks");
    json_object_foreach(json_object_get(root, "types"), name, o)
    {
        const struct ggml_type *t = ggml_type((uint32_t)fixture_number(o, "id"));
        REQUIRE(t && t->decode);
        size_t n = blocks * t->elements;
        uint8_t *raw = malloc(blocks * t->bytes + 1);
        float *values = malloc(n * sizeof *values);
        REQUIRE(raw && values);
        fill(raw + 1, blocks * t->bytes, t->id); // at an odd address: blocks have no alignment
        struct error e = {0};
        REQUIRE_OK(ggml_decode(t, raw + 1, n, values, &e), &e);
        char hex[65];
        hash_floats(values, n, hex);
        if (!CHECK_STR(hex, json_string_value(json_object_get(o, "sha256"))))
            printf("  type %s\n", name);
        const json_t *first = json_object_get(o, "first");
        for (size_t i = 0; i < json_array_size(first); i++) {
            uint32_t b;
            memcpy(&b, &values[i], sizeof b);
            CHECK_INT(b, json_integer_value(json_array_get(first, i)));
        }
        free(values);
        free(raw);
    }
    json_decref(root);
}

TEST(io_ggml_types_have_the_sizes_of_the_reference)
{
    json_t *root = fixture_json("io/blocks.json");
    const char *name;
    json_t *o;
    json_object_foreach(json_object_get(root, "sizes"), name, o)
    {
        const struct ggml_type *t = ggml_type((uint32_t)json_integer_value(json_array_get(o, 0)));
        REQUIRE(t);
        CHECK_STR(t->name, name);
        CHECK_INT(t->id, json_integer_value(json_array_get(o, 0)));
        CHECK_INT(t->elements, json_integer_value(json_array_get(o, 1)));
        CHECK_INT(t->bytes, json_integer_value(json_array_get(o, 2)));
        CHECK(t->elements <= GGML_MAX_BLOCK);
        if (t->dtype != DT_INVALID)
            CHECK_INT(dtype_bits(t->dtype), 8 * t->bytes);
    }
    for (uint32_t id = 0; ggml_type(id); id++)
        CHECK_INT(ggml_type(id)->id, id);
    CHECK(ggml_type(UINT32_MAX) == NULL);
    float out[256];
    uint8_t block[66] = {0};
    struct error e = {0};
    CHECK_INT(ggml_decode(ggml_type(16), block, 256, out, &e), ERR_INPUT);
    CHECK(strstr(e.message, "IQ2_XXS") != NULL);
    error_clear(&e);
    CHECK_INT(ggml_decode(ggml_type(2), block, 31, out, &e), ERR_INTERNAL);
    json_decref(root);
}

TEST(io_gguf_reads_what_the_reference_wrote)
{
    json_t *root = fixture_json("io/gguf.json");
    const json_t *good = json_object_get(root, "good");
    json_t *want = json_object_get(good, "tensors");
    struct error e = {0};
    struct checkpoint c;
    REQUIRE_OK(checkpoint_open(&c, fixture_path("io/good.gguf"), &e), &e);
    REQUIRE(c.gguf != NULL);
    CHECK_INT(c.gguf->alignment, fixture_number(good, "alignment"));
    CHECK_INT(c.gguf->data_offset, fixture_number(good, "data_offset"));
    CHECK_INT(c.count, json_object_size(want));
    const char *name;
    json_t *o;
    json_object_foreach(want, name, o)
    {
        const struct tensor_view *t = checkpoint_find(&c, name);
        REQUIRE(t);
        const char *type = json_string_value(json_object_get(o, "type"));
        CHECK((t->blocks != NULL) == (t->dtype == DT_INVALID));
        if (t->blocks)
            CHECK_STR(tensor_type_name(t), type);
        const json_t *dims = json_object_get(o, "dims");
        CHECK_INT(t->rank, json_array_size(dims));
        for (int d = 0; d < t->rank; d++)
            CHECK_INT(t->dims[d], json_integer_value(json_array_get(dims, (size_t)d)));
        CHECK_INT(t->bytes, fixture_number(o, "bytes"));
        CHECK_INT(t->offset, fixture_number(o, "offset"));
        float *values = malloc(t->elements * sizeof *values);
        uint16_t *narrow = malloc(t->elements * sizeof *narrow);
        REQUIRE(values && narrow);
        REQUIRE_OK(checkpoint_read_as(&c, t, DT_F32, values, &e), &e);
        REQUIRE_OK(checkpoint_read_as(&c, t, DT_BF16, narrow, &e), &e);
        CHECK_INT(narrow[t->elements - 1], bf16_from_f32(values[t->elements - 1]));
        char hex[65];
        hash_floats(values, t->elements, hex);
        CHECK_STR(hex, json_string_value(json_object_get(o, "f32_sha256")));
        free(narrow);
        free(values);
    }
    checkpoint_close(&c);
    json_decref(root);
}

static const struct gguf_value *value(const struct checkpoint *c, const char *key, enum gguf_type type)
{
    const struct gguf_value *v = gguf_find(c->gguf, key);
    if (CHECK(v != NULL))
        CHECK_STR(gguf_type_name(v->type), gguf_type_name(type));
    return v;
}

static const char *metadata(const struct checkpoint *c, const char *key)
{
    for (size_t i = 0; i < c->metadata_count; i++) {
        if (strcmp(c->metadata[i].key, key) == 0)
            return c->metadata[i].value;
    }
    return "none";
}

TEST(io_gguf_metadata_has_every_type)
{
    struct error e = {0};
    struct checkpoint c;
    REQUIRE_OK(checkpoint_open(&c, fixture_path("io/good.gguf"), &e), &e);
    CHECK_INT(value(&c, "test.u8", GGUF_U8)->u, 200);
    CHECK_INT(value(&c, "test.s8", GGUF_S8)->s, -100);
    CHECK_INT(value(&c, "test.u16", GGUF_U16)->u, 60000);
    CHECK_INT(value(&c, "test.s16", GGUF_S16)->s, -30000);
    CHECK_INT(value(&c, "test.u32", GGUF_U32)->u, 4000000000);
    CHECK_INT(value(&c, "test.s32", GGUF_S32)->s, -2000000000);
    CHECK_NEAR(value(&c, "test.f32", GGUF_F32)->f, (double)0.1f, 0);
    CHECK(value(&c, "test.u64", GGUF_U64)->u == ((uint64_t)1 << 63) + 1);
    CHECK_INT(value(&c, "test.s64", GGUF_S64)->s, -((int64_t)1 << 62));
    CHECK_NEAR(value(&c, "test.f64", GGUF_F64)->f, 0.1, 0);
    CHECK_INT(value(&c, "test.bool", GGUF_BOOL)->u, 1);
    const struct gguf_value *s = value(&c, "test.string", GGUF_STRING);
    CHECK_INT(s->bytes, 9);
    CHECK(memcmp(s->data, "a \"b\" \xc3\xbc\n", 9) == 0);

    const struct gguf_value *words = value(&c, "test.words", GGUF_ARRAY);
    CHECK_INT(words->count, 3);
    static const char *const want[] = {"one", "", "three"};
    struct gguf_array it;
    struct gguf_value v;
    size_t n = 0;
    for (gguf_array_begin(&it, words); gguf_array_next(&it, &v); n++)
        CHECK(n < 3 && v.bytes == strlen(want[n]) && memcmp(v.data, want[n], v.bytes) == 0);
    CHECK_INT(n, 3);
    n = 0;
    for (gguf_array_begin(&it, value(&c, "test.numbers", GGUF_ARRAY)); gguf_array_next(&it, &v); n++)
        CHECK_INT(v.s, n == 1 ? -2 : (long long)n + 1);
    CHECK_INT(n, 3);
    CHECK(gguf_find(c.gguf, "test.none") == NULL);

    // As text, beside those of other formats; arrays are left out.
    CHECK_STR(metadata(&c, "general.architecture"), "test");
    CHECK_STR(metadata(&c, "test.s16"), "-30000");
    CHECK_STR(metadata(&c, "test.u64"), "9223372036854775809");
    CHECK_STR(metadata(&c, "test.f64"), "0.1");
    CHECK_STR(metadata(&c, "test.bool"), "true");
    CHECK_STR(metadata(&c, "test.words"), "none");
    checkpoint_close(&c);
}

static const struct {
    const char *name, *message; // NULL: accepted
} hostile[] = {
    {"empty-file", "is not a GGUF file"},
    {"three-letters", "is not a GGUF file"},
    {"no-magic", "is not a GGUF file: it does not begin with the letters GGUF"},
    {"no-version", "the version at byte 4 goes beyond its 4 bytes"},
    {"version-0", "is of GGUF version 0; versions 2 and 3 are read"},
    {"version-1", "is of GGUF version 1, which is not read"},
    {"version-4", "is of GGUF version 4"},
    {"big-endian", "is a big-endian GGUF file"},
    {"header-cut", "the header at byte 16 goes beyond its 20 bytes"},
    {"many-tensors", "9223372036854775808 tensors and 0 metadata entries do not fit in 24 bytes"},
    {"many-entries", "4611686018427387904 metadata entries do not fit"},
    {"key-beyond", "a metadata key at byte 32 goes beyond its 48 bytes"},
    {"key-empty", "a metadata key at byte 24 has 0 bytes"},
    {"key-not-utf8", "a metadata key at byte 24 is not UTF-8"},
    {"key-with-nul", "a metadata key at byte 24 is not UTF-8"},
    {"key-twice", "metadata \"a\" is there twice"},
    {"value-unknown", "metadata \"a\" has a value of an unknown type, 13"},
    {"value-cut", "the metadata at byte 46 goes beyond its 49 bytes"},
    {"bool-2", "metadata \"a\" holds a bool that is neither 0 nor 1"},
    {"string-beyond", "the metadata at byte"},
    {"array-beyond", "the metadata at byte"},
    {"array-unknown", "metadata \"a\" holds an array of values of an unknown type"},
    {"array-bool-3", "metadata \"a\" holds a bool that is neither 0 nor 1"},
    {"array-strings-beyond", "the metadata at byte"},
    {"array-deep", "metadata \"a\" holds arrays nested too deep"},
    {"alignment-0", "\"general.alignment\" must be a power of two, as u32"},
    {"alignment-3", "\"general.alignment\" must be a power of two, as u32"},
    {"alignment-u64", "\"general.alignment\" must be a power of two, as u32"},
    {"alignment-huge", "the data at byte"},
    {"name-empty", "the name of a tensor at byte 24 has 0 bytes"},
    {"name-not-utf8", "the name of a tensor at byte 24 is not UTF-8"},
    {"name-twice", "tensor \"a\" is also in name-twice.gguf"},
    {"rank-9", "tensor \"a\" has rank 9: at most 8 is supported"},
    {"dims-overflow", "tensor \"a\": its shape has more elements than memory can hold"},
    {"dims-negative", "tensor \"a\": its shape has more elements than memory can hold"},
    {"bytes-overflow", "tensor \"a\": its shape has more elements than memory can hold"},
    {"type-unknown", "tensor \"a\" has element type 99, which this version does not know"},
    {"type-withdrawn", "tensor \"a\" has element type Q4_2, which was withdrawn"},
    {"type-q8-1", "tensor \"a\" has element type Q8_1, which is for values between operations"},
    {"row-no-block", "tensor \"a\": rows of 33 elements are no whole blocks of Q8_0"},
    {"info-cut", "the description of a tensor at byte 78 goes beyond its 80 bytes"},
    {"offset-odd", "tensor \"a\" does not lie at a multiple of 32"},
    {"offset-beyond", "tensor \"a\" needs 16 bytes from 1152921504606846976 of the data on"},
    {"data-cut", "tensor \"a\" needs 16 bytes from 0 of the data on, which has 12"},
    {"data-missing", "the data at byte"},
    {"overlap", "tensors \"a\" and \"b\" overlap"},
};

TEST(io_gguf_refuses_damaged_files)
{
    json_t *root = fixture_json("io/gguf.json");
    size_t count = sizeof hostile / sizeof *hostile;
    CHECK_INT(json_array_size(json_object_get(root, "hostile")), count);
    for (size_t i = 0; i < count; i++) {
        char name[128];
        snprintf(name, sizeof name, "io/hostile/%s.gguf", hostile[i].name);
        struct error e = {0};
        struct checkpoint c;
        CHECK_INT(checkpoint_open(&c, fixture_path(name), &e), ERR_INPUT);
        CHECK(strstr(e.where, hostile[i].name) != NULL);
        if (!CHECK(strstr(e.message, hostile[i].message) != NULL))
            printf("  %s: %s\n", hostile[i].name, e.message);
    }
    json_decref(root);
}

TEST(io_gguf_accepts_what_the_format_allows)
{
    static const char *const names[] = {"empty", "version-2", "nested-array", "scalar-and-empty", "hole", "codebook"};
    json_t *root = fixture_json("io/gguf.json");
    CHECK_INT(json_array_size(json_object_get(root, "accepted")), sizeof names / sizeof *names);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[128];
        snprintf(name, sizeof name, "io/%s.gguf", names[i]);
        struct error e = {0};
        struct checkpoint c;
        REQUIRE_OK(checkpoint_open(&c, fixture_path(name), &e), &e);
        if (strcmp(names[i], "nested-array") == 0) {
            struct gguf_array outer, inner;
            struct gguf_value a, v;
            unsigned sum = 0;
            for (gguf_array_begin(&outer, value(&c, "a", GGUF_ARRAY)); gguf_array_next(&outer, &a);) {
                for (gguf_array_begin(&inner, &a); gguf_array_next(&inner, &v);)
                    sum = sum * 10 + (unsigned)v.u;
            }
            CHECK_INT(sum, 123);
        }
        if (strcmp(names[i], "scalar-and-empty") == 0) {
            CHECK_INT(checkpoint_find(&c, "scalar")->elements, 1);
            CHECK_INT(checkpoint_find(&c, "none")->bytes, 0);
        }
        if (strcmp(names[i], "codebook") == 0) {
            float out[256];
            CHECK_INT(checkpoint_read_as(&c, &c.tensors[0], DT_F32, out, &e), ERR_INPUT);
            CHECK(strstr(e.message, "tensor \"a\": blocks of type IQ2_XXS") != NULL);
        }
        checkpoint_close(&c);
    }
    json_decref(root);
}
