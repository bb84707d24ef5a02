// SPDX-License-Identifier: Apache-2.0
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sha256.h"
#include "fixture.h"
#include "io/checkpoint.h"
#include "io/safetensors.h"
#include "num/convert.h"
#include "test.h"

#define MINILM "third_party/models/minilm"

static const char *top_path(const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", test_top(), name);
    return path;
}

TEST(io_checkpoint_reads_what_the_reference_wrote)
{
    json_t *root = fixture_json("io/checkpoints.json");
    json_t *want = json_object_get(root, "reference");
    struct error e = {0};
    struct checkpoint c;
    REQUIRE_OK(checkpoint_open(&c, fixture_path("io/reference.safetensors"), &e), &e);
    CHECK_INT(c.count, json_object_size(want));
    REQUIRE(c.metadata_count == 1);
    CHECK_STR(c.metadata[0].key, "format");
    CHECK_STR(c.metadata[0].value, "np");
    const char *name;
    json_t *o;
    json_object_foreach(want, name, o)
    {
        const struct tensor_view *t = checkpoint_find(&c, name);
        REQUIRE(t);
        const json_t *dims = json_object_get(o, "dims");
        CHECK_INT(t->rank, json_array_size(dims));
        for (int d = 0; d < t->rank; d++)
            CHECK_INT(t->dims[d], json_integer_value(json_array_get(dims, (size_t)d)));
        CHECK_INT(t->bytes, fixture_number(o, "bytes"));
        char hex[65];
        REQUIRE_OK(sha256_bytes(t->data, t->bytes, hex, &e), &e);
        CHECK_STR(hex, json_string_value(json_object_get(o, "sha256")));
        if (strcmp(name, "empty") != 0 && strcmp(name, "scalar") != 0)
            CHECK_STR(dtype_name(t->dtype), name);
    }
    double values[2];
    REQUIRE_OK(checkpoint_read_as(&c, checkpoint_find(&c, "s64"), DT_F64, values, &e), &e);
    CHECK_NEAR(values[1], -2, 0);
    for (size_t i = 1; i < c.count; i++)
        CHECK(c.tensors[i - 1].offset <= c.tensors[i].offset);
    CHECK(checkpoint_find(&c, "none") == NULL);
    checkpoint_close(&c);
    json_decref(root);
}

TEST(io_checkpoint_knows_every_type_of_the_format)
{
    struct error e = {0};
    struct checkpoint c;
    REQUIRE_OK(checkpoint_open(&c, fixture_path("io/kinds.safetensors"), &e), &e);
    CHECK_INT(c.count, 10);
    for (size_t i = 0; i < c.count; i++)
        CHECK_STR(dtype_info(c.tensors[i].dtype)->safetensors, c.tensors[i].name);
    CHECK_INT(checkpoint_find(&c, "F6_E2M3")->bytes, 6);
    CHECK_INT(checkpoint_find(&c, "F4")->bytes, 4);
    CHECK_INT(c.elements, 80);
    checkpoint_close(&c);
}

// What we say of each damaged file, and where we are stricter than the reference implementation.
static const struct {
    const char *name, *message; // NULL: accepted
} hostile[] = {
    {"empty-file", "too short for a safetensors file"},
    {"seven-bytes", "too short for a safetensors file: 7 bytes"},
    {"length-2-63", "header would have 9223372036854775808 bytes"},
    {"length-all-ones", "header would have 18446744073709551615 bytes"},
    {"length-over-100-mb", "header would have 100000001 bytes, the format allows 100000000"},
    {"length-past-end", "a header of 200 bytes is announced, 2 bytes follow"},
    {"header-cut-short", "is cut short"},
    {"header-empty", "its header is not a JSON object"},
    {"header-array", "its header is not a JSON object"},
    {"header-space-first", "its header is not a JSON object"},
    {"header-not-utf8", "not valid JSON"},
    {"header-garbage-after", "not valid JSON"},
    {"data-cut-short", "tensor \"a\" lies at [0, 8) of the data, which has 7 bytes"},
    {"data-too-long", "1 bytes after the last tensor belong to none"},
    {"no-tensors", NULL},
    {"no-tensors-but-data", "8 bytes after the last tensor"},
    {"overlap", "tensors \"a\" and \"b\" overlap"},
    {"same-place", "tensors \"a\" and \"b\" overlap"},
    {"hole", "4 bytes before tensor \"b\" belong to no tensor"},
    {"hole-first", "4 bytes before tensor \"a\" belong to no tensor"},
    {"offsets-reversed", "tensor \"a\" lies at [8, 0)"},
    {"offsets-negative", "\"data_offsets\" must be two integers of 0 or more"},
    {"offsets-three", "\"data_offsets\" must be two integers"},
    {"offsets-fraction", "\"data_offsets\" must be two integers of 0 or more"},
    {"offsets-past-int64", "not valid JSON"},
    {"shape-negative", "dimension 0 of its shape is not an integer of 0 or more"},
    {"shape-fraction", "dimension 0 of its shape is not an integer of 0 or more"},
    {"shape-overflow", "more elements than memory can hold"},
    {"shape-overflow-in-bits", "more elements than memory can hold"},
    {"shape-too-small", "its shape and type need 4 bytes, its offsets give it 8"},
    {"shape-not-array", "\"shape\" must be an array of integers"},
    {"dtype-unknown", "type \"F31\" is not known"},
    {"dtype-lower-case", "type \"f32\" is not known"},
    {"dtype-number", "\"dtype\" must be a string"},
    {"dtype-missing", "\"dtype\" must be a string"},
    {"half-a-byte", "3 elements of f4e2m1fn do not fill whole bytes"},
    {"tensor-not-object", "tensor \"a\": its description must be an object"},
    {"name-twice", "duplicate"},
    {"name-with-controls", NULL},
    {"name-with-nul", "not valid JSON"},
    {"name-empty", NULL},
    {"unknown-key", NULL},
    {"metadata-number", "\"__metadata__\": \"a\" must be a string"},
    {"metadata-not-object", "\"__metadata__\" must be an object"},
    {"metadata-only", NULL},
    {"zero-size-inside", NULL},
    {"scalar", NULL},
    {"rank-8", NULL},
    {"rank-9", "tensor \"a\" has rank 9: at most 8 is supported"},
    {"nested-10000", "not valid JSON"},
    {"cut-in-string", "not valid JSON"},
};
static const char *const stricter[] = {"header-space-first", "name-twice", "name-with-nul", "rank-9"};

TEST(io_checkpoint_refuses_damaged_files)
{
    json_t *root = fixture_json("io/checkpoints.json");
    const json_t *reference = json_object_get(root, "accepted_hostile");
    size_t count = sizeof hostile / sizeof *hostile;
    CHECK_INT(json_object_size(reference), count);
    for (size_t i = 0; i < count; i++) {
        char name[128];
        snprintf(name, sizeof name, "io/hostile/%s.safetensors", hostile[i].name);
        struct error e = {0};
        struct checkpoint c;
        int rc = checkpoint_open(&c, fixture_path(name), &e);
        bool accepted = rc == 0, differs = false;
        if (hostile[i].message) {
            CHECK_INT(rc, ERR_INPUT);
            CHECK(strstr(e.where, hostile[i].name) != NULL);
            if (!CHECK(strstr(e.message, hostile[i].message) != NULL))
                printf("  %s: %s\n", hostile[i].name, e.message);
        } else if (!CHECK(accepted)) {
            printf("  %s: %s\n", hostile[i].name, e.message);
        }
        if (accepted)
            checkpoint_close(&c);
        for (size_t k = 0; k < sizeof stricter / sizeof *stricter; k++)
            differs |= strcmp(stricter[k], hostile[i].name) == 0;
        const json_t *verdict = json_object_get(reference, hostile[i].name);
        if (!CHECK(json_is_true(verdict) == (accepted || differs)))
            printf("  %s: the reference implementation says otherwise\n", hostile[i].name);
    }
    json_decref(root);
}

TEST(io_checkpoint_keeps_names_as_they_are)
{
    struct error e = {0};
    struct checkpoint c;
    REQUIRE_OK(checkpoint_open(&c, fixture_path("io/hostile/name-with-controls.safetensors"), &e), &e);
    CHECK_STR(c.tensors[0].name, "\x1b[31m</script>\"\xe2\x80\xae\n");
    struct str shown;
    str_init(&shown);
    str_add_terminal(&shown, c.tensors[0].name, strlen(c.tensors[0].name));
    CHECK_STR(str_text(&shown), "\\x1b[31m</script>\"\\u{202e}\\x0a");
    str_release(&shown);
    checkpoint_close(&c);
}

TEST(io_checkpoint_every_truncation_is_an_error)
{
    struct error e = {0};
    struct file_map m;
    REQUIRE_OK(file_map_open(&m, fixture_path("io/reference.safetensors"), &e), &e);
    struct checkpoint c;
    for (size_t n = 0; n < m.size; n++) {
        uint8_t *copy = malloc(n + 1); // of its own, so that a read past the end is seen by a checker
        REQUIRE(copy);
        memcpy(copy, m.data, n);
        error_clear(&e);
        CHECK_INT(checkpoint_open_memory(&c, copy, n, "cut", &e), ERR_INPUT);
        free(copy);
    }
    error_clear(&e);
    REQUIRE_OK(checkpoint_open_memory(&c, m.data, m.size, "whole", &e), &e);
    CHECK_STR(c.files[0].path, "whole");
    checkpoint_close(&c);
    file_map_close(&m);
}

TEST(io_checkpoint_forgets_only_what_can_be_read_again)
{
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[65536],\"data_offsets\":[0,65536]}}";
    struct error e = {0};
    struct checkpoint c;
    uint64_t n = sizeof header - 1;
    size_t size = 8 + n + 65536;
    uint8_t *file = aligned_alloc(65536, 2 * 65536); // as a map would be
    REQUIRE(file);
    memcpy(file, &n, 8);
    memcpy(file + 8, header, n);
    memset(file + 8 + n, 0x5a, 65536);
    REQUIRE_OK(checkpoint_open_memory(&c, file, size, "borrowed", &e), &e);
    checkpoint_forget(&c, &c.tensors[0]); // the system would give back pages of zeros
    CHECK_INT(c.tensors[0].data[40000], 0x5a);
    checkpoint_close(&c);
    char path[512];
    snprintf(path, sizeof path, "%s/mapped.safetensors", test_dir());
    REQUIRE_OK(file_write(path, file, size, &e), &e);
    free(file);
    REQUIRE_OK(checkpoint_open(&c, path, &e), &e);
    checkpoint_forget(&c, &c.tensors[0]);
    CHECK_INT(c.tensors[0].data[40000], 0x5a);
    checkpoint_close(&c);
}

TEST(io_checkpoint_shards)
{
    json_t *root = fixture_json("io/checkpoints.json");
    struct error e = {0};
    struct checkpoint c;
    REQUIRE_OK(checkpoint_open(&c, fixture_path("io/sharded"), &e), &e);
    CHECK_INT(c.file_count, 2);
    CHECK_INT(c.count, 3);
    const struct tensor_view *t;
    REQUIRE_OK(checkpoint_require(&c, "b.weight", &t, &e), &e);
    CHECK_INT(t->file, 1);
    int8_t bytes[4];
    REQUIRE_OK(checkpoint_read(&c, t, bytes, &e), &e);
    CHECK_INT(bytes[3], 3);
    char hex[65];
    REQUIRE_OK(checkpoint_sha256(&c, hex, &e), &e);
    CHECK_STR(hex, json_string_value(json_object_get(root, "sharded_sha256")));
    checkpoint_close(&c);
    REQUIRE_OK(checkpoint_open(&c, fixture_path("io/sharded/model.safetensors.index.json"), &e), &e);
    CHECK_INT(c.count, 3);
    checkpoint_close(&c);
    json_decref(root);
}

static void copy_fixture(const char *name, const char *to)
{
    struct error e = {0};
    struct str bytes;
    str_init(&bytes);
    char path[512];
    snprintf(path, sizeof path, "%s/%s", test_dir(), to);
    REQUIRE_OK(file_read(&bytes, fixture_path(name), 1 << 20, &e), &e);
    REQUIRE_OK(file_write(path, str_text(&bytes), bytes.length, &e), &e);
    str_release(&bytes);
}

TEST(io_checkpoint_refuses_bad_indexes)
{
    static const struct {
        const char *map, *message;
    } cases[] = {
        {"{\"weight_map\":{\"a.weight\":\"one\",\"b.weight\":\"gone\"}}", "cannot be opened"},
        {"{\"weight_map\":{\"a.weight\":\"one\",\"c\":\"two\"}}", "tensor \"c\" should be in two and is in no shard"},
        {"{\"weight_map\":{\"a.weight\":\"two\",\"b.weight\":\"one\"}}",
         "tensor \"a.weight\" should be in two and is in one"},
        {"{\"weight_map\":{\"a.weight\":\"../one\"}}", "must name a file beside the index"},
        {"{\"weight_map\":{\"a.weight\":\"..\"}}", "must name a file beside the index"},
        {"{\"weight_map\":{\"a.weight\":7}}", "must name a file beside the index"},
        {"{\"weight_map\":{\"a.weight\":\"\"}}", "must name a file beside the index"},
        {"{\"weight_map\":{}}", "\"weight_map\" must be an object"},
        {"{\"weight_map\":[]}", "\"weight_map\" must be an object"},
        {"[1]", "\"weight_map\" must be an object"},
        {"{", "not valid JSON"},
        {"{\"weight_map\":{\"a.weight\":\"one\",\"b.weight\":\"copy\"}}", "tensor \"a.bias\" is also in "},
        {"{\"weight_map\":{\"a.weight\":\"text\"}}", "is not a safetensors file"},
    };
    copy_fixture("io/sharded/model-00001-of-00002.safetensors", "one");
    copy_fixture("io/sharded/model-00001-of-00002.safetensors", "copy");
    copy_fixture("io/sharded/model-00002-of-00002.safetensors", "two");
    char path[512], text[512];
    struct error e = {0};
    struct checkpoint c;
    snprintf(text, sizeof text, "%s/text", test_dir());
    REQUIRE_OK(file_write(text, "Once upon a time", 16, &e), &e);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", test_dir());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        error_clear(&e);
        REQUIRE_OK(file_write(path, cases[i].map, strlen(cases[i].map), &e), &e);
        CHECK_INT(checkpoint_open(&c, test_dir(), &e), ERR_INPUT);
        if (!CHECK(strstr(e.message, cases[i].message) != NULL))
            printf("  %s: %s: %s\n", cases[i].map, e.where, e.message);
    }
    error_clear(&e);
    unlink(path);
    CHECK_INT(checkpoint_open(&c, test_dir(), &e), ERR_INPUT);
    CHECK(strstr(e.message, "holds no weights") != NULL);
    error_clear(&e);
    CHECK_INT(checkpoint_open(&c, "/nowhere/at/all.safetensors", &e), ERR_INPUT);
    CHECK_STR(e.where, "/nowhere/at/all.safetensors");
}

TEST(io_checkpoint_missing_tensor_is_named)
{
    struct error e = {0};
    struct checkpoint c;
    const struct tensor_view *t;
    REQUIRE_OK(checkpoint_open(&c, fixture_path("io/sharded"), &e), &e);
    CHECK_INT(checkpoint_require(&c, "bert.a.weight", &t, &e), ERR_INPUT);
    CHECK_STR(e.message, "tensor \"bert.a.weight\" is missing (there is \"a.weight\")");
    error_clear(&e);
    CHECK_INT(checkpoint_require(&c, "weight", &t, &e), ERR_INPUT);
    CHECK_STR(e.message, "tensor \"weight\" is missing among 3");
    checkpoint_close(&c);
}

TEST(io_checkpoint_survives_a_file_that_shrinks)
{
    struct error e = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/w.safetensors", test_dir());
    int64_t dims[1] = {1 << 20};
    struct safetensors_entry entry = {"w", DT_F32, 1, dims};
    struct safetensors_writer w;
    float *zeros = calloc(1 << 20, sizeof *zeros);
    REQUIRE(zeros);
    REQUIRE_OK(safetensors_writer_begin(&w, path, &entry, 1, NULL, 0, &e), &e);
    REQUIRE_OK(safetensors_writer_put(&w, 0, zeros, 4 << 20, &e), &e);
    REQUIRE_OK(safetensors_writer_commit(&w, &e), &e);
    struct checkpoint c;
    REQUIRE_OK(checkpoint_open(&c, path, &e), &e);
    REQUIRE_OK(checkpoint_read(&c, &c.tensors[0], zeros, &e), &e);
    checkpoint_forget(&c, &c.tensors[0]);
    REQUIRE(truncate(path, 8192) == 0);
    CHECK_INT(checkpoint_read(&c, &c.tensors[0], zeros, &e), ERR_INPUT);
    CHECK(strstr(e.message, "became shorter") != NULL);
    checkpoint_close(&c);
    free(zeros);
}

TEST(io_safetensors_writer_lays_out_as_documented)
{
    // tests/oracle/num_io.py wrote the same tensors by the same rule, and the reference implementation accepts the
    // file.
    static const struct {
        const char *name;
        enum dtype type;
        int rank;
        int64_t dims[2];
    } given[] = {
        {"odd", DT_U8, 1, {5}},   {"scale", DT_F32, 1, {3}},   {"weight", DT_BF16, 2, {8, 16}},
        {"half", DT_F16, 1, {8}}, {"nothing", DT_F32, 1, {0}}, {"codes", DT_S8, 1, {64}},
    };
    static const struct checkpoint_metadata metadata[] = {{"format", "pt"}, {"made by", "a \"test\""}};
    struct safetensors_entry entries[6];
    uint8_t counting[256];
    float scale[3] = {1, 2, 3};
    struct error e = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/ordered.safetensors", test_dir());
    for (int i = 0; i < 256; i++)
        counting[i] = (uint8_t)i;
    for (int i = 0; i < 6; i++)
        entries[i] = (struct safetensors_entry){given[i].name, given[i].type, given[i].rank, given[i].dims};
    struct safetensors_writer w;
    REQUIRE_OK(safetensors_writer_begin(&w, path, entries, 6, metadata, 2, &e), &e);
    CHECK_INT(w.data_bytes, 5 + 12 + 256 + 16 + 64);
    CHECK_INT(w.aligned_bytes, 256 + 64 + 16); // the first of those that 64 does not divide is still aligned
    REQUIRE_OK(safetensors_writer_put(&w, 2, counting, 100, &e), &e); // in parts and in any order
    REQUIRE_OK(safetensors_writer_put(&w, 0, counting, 5, &e), &e);
    REQUIRE_OK(safetensors_writer_put(&w, 1, scale, 12, &e), &e);
    REQUIRE_OK(safetensors_writer_put(&w, 2, counting + 100, 156, &e), &e);
    REQUIRE_OK(safetensors_writer_put(&w, 3, counting, 16, &e), &e);
    REQUIRE_OK(safetensors_writer_put(&w, 5, counting, 64, &e), &e);
    CHECK(!file_exists(path));
    REQUIRE_OK(safetensors_writer_commit(&w, &e), &e);
    struct file_map got, want;
    REQUIRE_OK(file_map_open(&got, path, &e), &e);
    REQUIRE_OK(file_map_open(&want, fixture_path("io/ordered.safetensors"), &e), &e);
    CHECK(got.size == want.size && memcmp(got.data, want.data, want.size) == 0);
    file_map_close(&got);
    file_map_close(&want);
    struct checkpoint c;
    REQUIRE_OK(checkpoint_open(&c, path, &e), &e);
    for (size_t i = 0; i < c.count; i++) {
        const struct tensor_view *t = &c.tensors[i];
        size_t element = (size_t)dtype_bits(t->dtype) / 8;
        CHECK_INT(t->offset % (t->bytes % 64 == 0 ? 64 : element), 0);
    }
    checkpoint_close(&c);
}

TEST(io_safetensors_writer_leaves_nothing_half_done)
{
    struct error e = {0};
    char path[512], temporary[600];
    snprintf(path, sizeof path, "%s/out.safetensors", test_dir());
    snprintf(temporary, sizeof temporary, "%s.partial-%ld", path, (long)getpid());
    int64_t dims[1] = {4}, odd[1] = {3}, negative[1] = {-1};
    struct safetensors_entry entry = {"w", DT_U8, 1, dims};
    struct safetensors_writer w;
    REQUIRE_OK(safetensors_writer_begin(&w, path, &entry, 1, NULL, 0, &e), &e);
    CHECK(file_exists(temporary));
    CHECK_INT(safetensors_writer_put(&w, 0, "12345", 5, &e), ERR_INTERNAL);
    error_clear(&e);
    REQUIRE_OK(safetensors_writer_put(&w, 0, "123", 3, &e), &e);
    CHECK_INT(safetensors_writer_commit(&w, &e), ERR_INTERNAL);
    CHECK(strstr(e.message, "tensor \"w\" got 3 of its 4 bytes") != NULL);
    CHECK(!file_exists(temporary) && !file_exists(path));
    error_clear(&e);
    REQUIRE_OK(safetensors_writer_begin(&w, path, &entry, 1, NULL, 0, &e), &e);
    safetensors_writer_abort(&w);
    CHECK(!file_exists(temporary) && !file_exists(path));
    const struct safetensors_entry wrong[] = {
        {"__metadata__", DT_U8, 1, dims}, {"\xff", DT_U8, 1, dims}, {"w", DT_F8E4M3, 1, dims}, {"w", DT_S4, 1, odd},
        {"w", DT_U8, 1, negative},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_INT(safetensors_writer_begin(&w, path, &wrong[i], 1, NULL, 0, &e), ERR_USAGE);
        error_clear(&e);
    }
    const struct safetensors_entry twice[] = {{"w", DT_U8, 1, dims}, {"v", DT_U8, 1, dims}, {"w", DT_U8, 1, dims}};
    CHECK_INT(safetensors_writer_begin(&w, path, twice, 3, NULL, 0, &e), ERR_USAGE);
    CHECK(strstr(e.message, "two tensors have the name \"w\"") != NULL);
    error_clear(&e);
    CHECK_INT(safetensors_writer_begin(&w, "/dev/full/x", &entry, 1, NULL, 0, &e), ERR_IO);
    // An empty file is a file.
    error_clear(&e);
    REQUIRE_OK(safetensors_writer_begin(&w, path, NULL, 0, NULL, 0, &e), &e);
    REQUIRE_OK(safetensors_writer_commit(&w, &e), &e);
    struct checkpoint c;
    REQUIRE_OK(checkpoint_open(&c, path, &e), &e);
    CHECK_INT(c.count, 0);
    checkpoint_close(&c);
}

TEST(io_checkpoint_of_the_demo_model)
{
    struct error e = {0};
    struct checkpoint c;
    REQUIRE_OK(checkpoint_open(&c, top_path(MINILM), &e), &e);
    CHECK_INT(c.count, 104);
    CHECK_INT(c.parameters, 22713216);
    CHECK_INT(c.elements, 22713216 + 512); // the positions' indices
    size_t at_24 = 0, bytes = 0;
    for (size_t i = 0; i < c.count; i++) {
        at_24 += c.tensors[i].offset % 64 == 24;
        bytes += c.tensors[i].bytes;
    }
    CHECK_INT(at_24, 104); // why every tensor is copied once
    CHECK_INT(bytes, 4 * 22713216 + 8 * 512);
    CHECK_INT(c.bytes, bytes);
    const struct tensor_view *t;
    REQUIRE_OK(checkpoint_require(&c, "embeddings.word_embeddings.weight", &t, &e), &e);
    CHECK_INT(t->dims[0], 30522);
    CHECK_INT(t->dims[1], 384);
    uint16_t *narrow = malloc(t->elements * 2);
    REQUIRE(narrow);
    REQUIRE_OK(checkpoint_read_as(&c, t, DT_BF16, narrow, &e), &e);
    checkpoint_forget(&c, t);
    float first;
    memcpy(&first, t->data, sizeof first);
    CHECK_INT(narrow[0], bf16_from_f32(first));
    free(narrow);
    checkpoint_close(&c);
}

TEST(io_safetensors_writer_fills_from_any_side_and_replaces_nothing)
{
    struct error e = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/new.safetensors", test_dir());
    int64_t dims[1] = {6};
    struct safetensors_entry entry = {"w", DT_U8, 1, dims};
    const struct checkpoint_metadata meta = {"hash", "####"};
    struct safetensors_writer w;
    REQUIRE_OK(safetensors_writer_begin(&w, path, &entry, 1, &meta, 1, &e), &e);
    REQUIRE_OK(safetensors_writer_put_at(&w, 0, 4, "56", 2, &e), &e);
    REQUIRE_OK(safetensors_writer_put_at(&w, 0, 0, "1234", 4, &e), &e);
    safetensors_writer_flush(&w, 0);
    CHECK_INT(safetensors_writer_put_at(&w, 0, 7, "", 0, &e), ERR_INTERNAL);
    error_clear(&e);
    CHECK_INT(safetensors_writer_put_at(&w, 0, 5, "12", 2, &e), ERR_INTERNAL);
    error_clear(&e);
    CHECK_INT(safetensors_writer_patch(&w, "####", "12345", &e), ERR_INTERNAL);
    error_clear(&e);
    CHECK_INT(safetensors_writer_patch(&w, "____", "1234", &e), ERR_INTERNAL); // "__metadata__" has it twice
    error_clear(&e);
    REQUIRE_OK(safetensors_writer_patch(&w, "####", "ab12", &e), &e);
    REQUIRE_OK(safetensors_writer_commit_new(&w, &e), &e);
    struct checkpoint c;
    REQUIRE_OK(checkpoint_open(&c, path, &e), &e);
    CHECK_STR(c.metadata[0].value, "ab12");
    CHECK(memcmp(c.tensors[0].data, "123456", 6) == 0);
    checkpoint_close(&c);

    char other[512];
    snprintf(other, sizeof other, "%s/other.safetensors", test_dir());
    REQUIRE_OK(safetensors_writer_begin(&w, other, &entry, 1, NULL, 0, &e), &e);
    REQUIRE_OK(safetensors_writer_put(&w, 0, "abcdef", 6, &e), &e);
    REQUIRE_OK(file_write(other, "mine", 4, &e), &e);
    char temporary[600];
    snprintf(temporary, sizeof temporary, "%s.partial-%ld", other, (long)getpid());
    CHECK(file_exists(temporary));
    CHECK_INT(safetensors_writer_commit_new(&w, &e), ERR_USAGE);
    CHECK(!file_exists(temporary));
    struct str text;
    str_init(&text);
    error_clear(&e);
    REQUIRE_OK(file_read(&text, other, 100, &e), &e);
    CHECK_STR(str_text(&text), "mine");
    str_release(&text);
}
