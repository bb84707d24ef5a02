// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sha256.h"
#include "fixture.h"
#include "io/safetensors.h"
#include "ir/policy.h"
#include "lab/quantize_file.h"
#include "num/convert.h"
#include "test.h"

static const char *out_path(void)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/out.safetensors", test_dir());
    unlink(path);
    return path;
}

static const struct quantize_tensor *tensor_of(const struct quantize_file *q, const char *name)
{
    for (size_t i = 0; i < q->count; i++) {
        if (strcmp(q->tensors[i].view->name, name) == 0)
            return &q->tensors[i];
    }
    return NULL;
}

static void check_number(const char *policy, const char *name, const json_t *lost, const char *key, double got)
{
    const json_t *want = json_object_get(lost, key);
    double w = json_is_null(want) ? NAN : json_number_value(want);
    // Both are sums of doubles, taken in different orders: some 1e-16 for each of a few hundred terms.
    bool ok = isnan(w) ? isnan(got) : fabs(got - w) <= 1e-12 * fabs(w);
    if (want && !CHECK(ok))
        printf("  %s %s %s: %.17g, not %.17g\n", policy, name, key, got, w);
}

static void check_tensors(const char *policy, const char *path, json_t *want)
{
    struct error e = {0};
    struct checkpoint c;
    REQUIRE_OK(checkpoint_open(&c, path, &e), &e);
    const char *name;
    json_t *o;
    json_object_foreach(want, name, o)
    {
        const struct tensor_view *t = checkpoint_find(&c, name);
        if (!CHECK(t != NULL)) {
            printf("  %s: no %s\n", policy, name);
            continue;
        }
        const json_t *shape = json_object_get(o, "shape");
        bool same = (size_t)t->rank == json_array_size(shape);
        for (int d = 0; d < t->rank && same; d++)
            same = t->dims[d] == json_integer_value(json_array_get(shape, (size_t)d));
        CHECK(same);
        CHECK_INT(t->bytes, fixture_number(o, "bytes"));
        char hex[65];
        REQUIRE_OK(sha256_bytes(t->data, t->bytes, hex, &e), &e);
        if (!CHECK_STR(hex, json_string_value(json_object_get(o, "sha256"))))
            printf("  %s: %s\n", policy, name);
    }
    checkpoint_close(&c);
}

TEST(lab_quantize_writes_what_numpy_computes)
{
    json_t *root = fixture_json("quantize/expected.json");
    char in[600];
    snprintf(in, sizeof in, "%s", fixture_path("quantize/in.safetensors"));
    const char *policy;
    json_t *p;
    json_object_foreach(json_object_get(root, "policies"), policy, p)
    {
        struct error e = {0};
        struct quantize_file q;
        struct quantize_options o = {.in = in, .out = out_path(), .policy = policy, .threads = 2};
        REQUIRE_OK(quantize_file(&q, &o, NULL, &e), &e);
        check_tensors(policy, o.out, json_object_get(p, "tensors"));
        const char *name;
        json_t *lost;
        json_object_foreach(json_object_get(p, "lost"), name, lost)
        {
            const struct quantize_tensor *t = tensor_of(&q, name);
            REQUIRE(t && t->action == QUANTIZE_DONE);
            check_number(policy, name, lost, "rel_l2", quantize_rel_l2(&t->stats));
            check_number(policy, name, lost, "max_abs_error", t->stats.max_abs_error);
            check_number(policy, name, lost, "outlier_ratio", quantize_outlier_ratio(&t->stats));
            check_number(policy, name, lost, "clipped", (double)t->stats.clipped);
            if (!isnan(t->stats.worst_row_rel_l2) && quantize_rel_l2(&t->stats) > 0)
                check_number(policy, name, lost, "worst_row", (double)t->stats.worst_row);
            CHECK(t->stats.bound_holds);
        }
        struct stat st;
        CHECK(stat(o.out, &st) == 0 && (size_t)st.st_size == q.file_bytes);
        quantize_file_release(&q);
    }
    json_decref(root);
}

TEST(lab_quantize_keeps_what_it_says_and_why)
{
    static const struct {
        const char *name, *reason;
    } want[] = {{"a.bias", "vector"},
                {"ids", "integers"},
                {"empty", "empty"},
                {"b.weight", "--skip '[bc].*'"},
                {"c.weight", "--skip '[bc].*'"},
                {"doubles", "--skip 'dou??es'"},
                {"experts", NULL}};
    static const char *const skip[] = {"[bc].*", "dou??es", "c.*", "none"};
    struct error e = {0};
    struct quantize_file q;
    char in[600];
    snprintf(in, sizeof in, "%s", fixture_path("quantize/in.safetensors"));
    struct quantize_options o = {.in = in, .out = out_path(), .policy = "w8a16", .skip = skip, .n_skip = 4};
    REQUIRE_OK(quantize_file(&q, &o, NULL, &e), &e);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const struct quantize_tensor *t = tensor_of(&q, want[i].name);
        REQUIRE(t);
        CHECK_STR(t->reason ? t->reason : "none", want[i].reason ? want[i].reason : "none");
        CHECK((t->action == QUANTIZE_KEPT) == (want[i].reason != NULL));
    }
    CHECK_INT(q.skip_matches[0], 2);
    CHECK_INT(q.skip_matches[2], 1);
    CHECK_INT(q.skip_matches[3], 0);
    // A stack of matrices has a row for each of theirs; the kernel of a convolution one for each output.
    CHECK_INT(tensor_of(&q, "experts")->rows, 6);
    CHECK_INT(tensor_of(&q, "c.weight")->rows, 3);
    quantize_file_release(&q);
}

static const char *metadata_of(const struct checkpoint *c, const char *key)
{
    for (size_t i = 0; i < c->metadata_count; i++) {
        if (strcmp(c->metadata[i].key, key) == 0)
            return c->metadata[i].value;
    }
    return "";
}

TEST(lab_quantize_metadata_says_all)
{
    struct error e = {0};
    struct quantize_file q;
    char in[600], hex[65];
    snprintf(in, sizeof in, "%s", fixture_path("quantize/in.safetensors"));
    struct quantize_options o = {.in = in, .out = out_path(), .policy = "w=int4/group:32/affine,a=bf16,op=bf16"};
    REQUIRE_OK(quantize_file(&q, &o, NULL, &e), &e);
    struct checkpoint c;
    REQUIRE_OK(checkpoint_open(&c, o.out, &e), &e);
    CHECK_STR(metadata_of(&c, "format"), "pt"); // the source's own
    const char *text = metadata_of(&c, QUANTIZE_METADATA_KEY);
    json_t *m = json_parse(text, strlen(text), "metadata", &e);
    REQUIRE(m);
    CHECK_STR(json_string_value(json_object_get(m, "fields")), "w=s4/group:32/affine,a=bf16,op=bf16");
    CHECK_STR(json_string_value(json_object_get(m, "mapping")), "affine");
    CHECK_STR(json_string_value(json_object_get(m, "rounding")), "half even");
    CHECK_STR(json_string_value(json_object_get(m, "scale_type")), "f32");
    CHECK_INT(json_integer_value(json_object_get(m, "group")), 32);
    const json_t *source = json_array_get(json_object_get(m, "source"), 0);
    REQUIRE_OK(checkpoint_sha256(&q.checkpoint, hex, &e), &e);
    CHECK_STR(json_string_value(json_object_get(source, "sha256")), hex);
    CHECK_STR(json_string_value(json_object_get(source, "name")), "in.safetensors");
    const json_t *t = json_object_get(json_object_get(m, "tensors"), "a.weight");
    CHECK_STR(json_string_value(json_object_get(t, "codes")), "a.weight_packed");
    CHECK_STR(json_string_value(json_object_get(t, "zero_points")), "a.weight_zero_point");
    CHECK_INT(json_integer_value(json_object_get(t, "columns")), 70);
    json_decref(m);
    checkpoint_close(&c);
    quantize_file_release(&q);

    // What was quantised is not quantised again.
    char again[700];
    snprintf(again, sizeof again, "%s.again", o.out);
    struct quantize_options o2 = {.in = o.out, .out = again, .policy = "w8a16"};
    CHECK_INT(quantize_file(&q, &o2, NULL, &e), ERR_INPUT);
    CHECK(strstr(e.message, "is quantised already") != NULL);
    quantize_file_release(&q);
    CHECK(!file_exists(again));
}

// One tensor of `rows` x `columns`, its bytes from `data`.
static const char *write_tensor(enum dtype dtype, int64_t rows, int64_t columns, const void *data)
{
    static char path[600];
    struct error e = {0};
    struct safetensors_writer w;
    int64_t dims[2] = {rows, columns};
    struct safetensors_entry entry = {"w", dtype, 2, dims};
    snprintf(path, sizeof path, "%s/in.safetensors", test_dir());
    size_t bytes = (size_t)(rows * columns) * (size_t)dtype_bits(dtype) / 8;
    CHECK(safetensors_writer_begin(&w, path, &entry, 1, NULL, 0, &e) == 0);
    CHECK(safetensors_writer_put(&w, 0, data, bytes, &e) == 0);
    CHECK(safetensors_writer_commit(&w, &e) == 0);
    return path;
}

// Values that differ everywhere, some large.
static float *some_values(size_t n)
{
    float *x = malloc(n * sizeof *x);
    uint32_t state = 12345;
    for (size_t i = 0; x && i < n; i++) {
        state = state * 1664525 + 1013904223;
        x[i] = ((float)(state >> 8) - 0x1p23f) * (i % 1009 ? 0x1p-24f : 0x1p-21f);
    }
    return x;
}

static void compare_whole(const char *policy, const float *x, int64_t rows, int64_t columns, size_t threads)
{
    struct error e = {0};
    struct quantize_file q;
    struct checkpoint c;
    struct quantize_options o = {
        .in = write_tensor(DT_F32, rows, columns, x), .out = out_path(), .policy = policy, .threads = threads};
    REQUIRE_OK(quantize_file(&q, &o, NULL, &e), &e);
    REQUIRE_OK(checkpoint_open(&c, o.out, &e), &e);
    const int64_t dims[2] = {rows, columns};
    struct quant_layout l;
    struct quant_stats s;
    const struct quant_spec *spec = &q.policy.spec;
    REQUIRE_OK(quant_layout(spec, dims, 2, "w", &l, &e), &e);
    uint8_t *codes = malloc(l.elements * 2), *packed = malloc(l.elements * 2 + (size_t)rows);
    float *scales = malloc(l.scale_count * sizeof *scales);
    int32_t *zeros = malloc(l.scale_count * sizeof *zeros);
    REQUIRE(codes && packed && scales && zeros);
    REQUIRE_OK(quantize(spec, dims, 2, x, codes, scales, zeros, &s, "w", &e), &e);
    const struct tensor_view *t = checkpoint_find(&c, "w");
    if (!t) {
        t = checkpoint_find(&c, "w_packed");
        REQUIRE_OK(quant_pack(spec->type, dims, 2, 1, codes, packed, &e), &e);
    }
    REQUIRE(t);
    bool same = memcmp(t->data, strcmp(t->name, "w") == 0 ? codes : packed, t->bytes) == 0;
    const struct tensor_view *v = checkpoint_find(&c, "w_scale");
    REQUIRE(v);
    CHECK_INT(v->elements, l.scale_count);
    REQUIRE_OK(quant_store_scales(spec, scales, l.scale_count, packed, "w", &e), &e);
    same &= memcmp(v->data, packed, v->bytes) == 0;
    const struct quantize_stats *got = &q.tensors[0].stats;
    same &= got->clipped == s.clipped && got->worst_row == s.worst_channel && got->flushed == s.flushed &&
            got->scale_max == s.scale_max && got->scale_min == s.scale_min;
    // Sums of doubles in another order.
    same &= fabs(quantize_rel_l2(got) - s.rel_l2) <= 1e-11 * s.rel_l2;
    if (!CHECK(same))
        printf("  %s of %lldx%lld: %g %g\n", policy, (long long)rows, (long long)columns, quantize_rel_l2(got),
               s.rel_l2);
    free(zeros);
    free(scales);
    free(packed);
    free(codes);
    checkpoint_close(&c);
    quantize_file_release(&q);
}

TEST(lab_quantize_in_pieces_is_quantising_whole_tensors)
{
    // Many rows in a piece, rows of several pieces, and pieces that end within neither groups nor bytes.
    static const int64_t shapes[][2] = {{1500, 100}, {3, 150001}, {70000, 2}};
    static const char *const policies[] = {
        "w8a16",
        "w=int8/tensor",
        "w4a16",
        "w=int4/group:100/affine",
        "w=int4/channel/affine/full/scale:f16",
        "w=int2/group:7",
        "w=uint8/channel/affine",
        "w=int16/channel",
        "w=int8/block:3x50",
        "w=f8e4m3fn/channel",
        "fp8",
        "w=int8/channel/half-away/reciprocal",
        "w=int8/channel/percentile:99.5",
        "w=int8/tensor/mse/steps:5",
    };
    float *x = some_values(450003);
    REQUIRE(x);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
            compare_whole(policies[i], x, shapes[s][0], shapes[s][1], 1 + (s + i) % 3);
        }
    }
    free(x);
}

static int quantize_one(const char *in, const char *policy, enum quant_nonfinite mode, struct quantize_file *q,
                        struct error *err)
{
    struct quantize_options o = {.in = in, .out = out_path(), .policy = policy, .nonfinite = mode, .threads = 1};
    return quantize_file(q, &o, NULL, err);
}

TEST(lab_quantize_values_that_are_not_finite)
{
    float x[2][40];
    for (int i = 0; i < 80; i++)
        x[i / 40][i % 40] = (float)(i - 40) / 8;
    x[0][3] = NAN;
    x[1][7] = INFINITY;
    x[1][8] = -INFINITY;
    const char *in = write_tensor(DT_F32, 2, 40, x);
    static const char *const policies[] = {"w8a16", "w4a16", "w=int8/tensor", "bf16", "fp8", "mxfp4", "nvfp4"};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct error e = {0};
        struct quantize_file q;
        CHECK_INT(quantize_one(in, policies[i], QUANT_REFUSE, &q, &e), ERR_INPUT);
        if (!CHECK(strstr(e.message, "row 0, column 3 is NaN") != NULL))
            printf("  %s: %s\n", policies[i], e.message);
        quantize_file_release(&q);
        CHECK(!file_exists(out_path()));
        error_clear(&e);
        REQUIRE_OK(quantize_one(in, policies[i], QUANT_SATURATE, &q, &e), &e);
        CHECK_INT(q.total.nonfinite, 3);
        CHECK_INT(q.total.nan, 1);
        CHECK(quantize_rel_l2(&q.total) < 0.2);
        // 4.875 is the largest finite value, so scales were made from it and what is infinite has its code.
        if (i == 0) {
            struct checkpoint c;
            REQUIRE_OK(checkpoint_open(&c, q.out, &e), &e);
            const int8_t *codes = (const int8_t *)checkpoint_find(&c, "w")->data;
            CHECK_INT(codes[3], 0);
            CHECK_INT(codes[47], 127);
            CHECK_INT(codes[48], -127);
            CHECK_INT(codes[79], 127);
            checkpoint_close(&c);
        }
        quantize_file_release(&q);
        bool holds = strcmp(policies[i], "bf16") == 0 || policies[i][0] == 'm' || policies[i][0] == 'n' ||
                     strcmp(policies[i], "fp8") == 0;
        CHECK_INT(quantize_one(in, policies[i], QUANT_KEEP, &q, &e), holds ? 0 : ERR_USAGE);
        if (holds)
            CHECK_INT(q.total.nonfinite, 3);
        quantize_file_release(&q);
    }
}

TEST(lab_quantize_doubles_and_halves_beyond_their_types)
{
    double wide[2][4] = {{1, 2, 1e300, 3}, {-4, 1e39, 5, 6}};
    struct error e = {0};
    struct quantize_file q;
    const char *in = write_tensor(DT_F64, 2, 4, wide);
    CHECK_INT(quantize_one(in, "w8a16", QUANT_REFUSE, &q, &e), ERR_INPUT);
    CHECK(strstr(e.message, "2 values of f64") != NULL);
    quantize_file_release(&q);
    error_clear(&e);
    REQUIRE_OK(quantize_one(in, "w8a16", QUANT_SATURATE, &q, &e), &e);
    CHECK_INT(q.total.beyond_f32, 2);
    quantize_file_release(&q);

    float big[2][4] = {{1, 2, 70000, 3}, {-4, -1e6f, 5, 6}};
    in = write_tensor(DT_F32, 2, 4, big);
    CHECK_INT(quantize_one(in, "f16", QUANT_REFUSE, &q, &e), ERR_INPUT);
    CHECK(strstr(e.message, "2 values among rows 0 to 1 are beyond f16") != NULL);
    quantize_file_release(&q);
    error_clear(&e);
    REQUIRE_OK(quantize_one(in, "f16", QUANT_KEEP, &q, &e), &e);
    CHECK_INT(q.total.overflowed, 2);
    quantize_file_release(&q);
    REQUIRE_OK(quantize_one(in, "f16", QUANT_SATURATE, &q, &e), &e);
    CHECK_INT(q.total.overflowed, 0);
    CHECK_INT(q.total.clipped, 2);
    CHECK_NEAR(q.total.max_abs_error, 1e6 - 65504, 0);
    struct checkpoint c;
    REQUIRE_OK(checkpoint_open(&c, q.out, &e), &e);
    float back[8];
    REQUIRE_OK(checkpoint_read_as(&c, checkpoint_find(&c, "w"), DT_F32, back, &e), &e);
    CHECK_NEAR(back[2], 65504, 0);
    CHECK_NEAR(back[5], -65504, 0);
    checkpoint_close(&c);
    quantize_file_release(&q);
    // bf16 from doubles is rounded once: this one lies just above a tie that f32 would round to it.
    double tie[2][2] = {{1 + 0x1p-8 + 0x1p-40, 1}, {1, 1}};
    in = write_tensor(DT_F64, 2, 2, tie);
    REQUIRE_OK(quantize_one(in, "bf16", QUANT_REFUSE, &q, &e), &e);
    REQUIRE_OK(checkpoint_open(&c, q.out, &e), &e);
    REQUIRE_OK(checkpoint_read_as(&c, checkpoint_find(&c, "w"), DT_F32, back, &e), &e);
    CHECK_NEAR(back[0], 1 + 0x1p-7, 0);
    checkpoint_close(&c);
    quantize_file_release(&q);
}

TEST(lab_quantize_scales_that_would_vanish)
{
    float x[2][8];
    for (int i = 0; i < 16; i++)
        x[i / 8][i % 8] = i < 8 ? (float)i * 1e-41f : 0;
    struct error e = {0};
    struct quantize_file q;
    REQUIRE_OK(quantize_one(write_tensor(DT_F32, 2, 8, x), "w8a16", QUANT_REFUSE, &q, &e), &e);
    CHECK_INT(q.total.scales_raised, 1);
    CHECK_NEAR(q.total.scale_min, 0x1p-126, 0);
    CHECK_NEAR(q.total.scale_max, 1, 0); // of the row of zeros
    quantize_file_release(&q);
}

TEST(lab_quantize_refuses)
{
    struct error e = {0};
    struct quantize_file q;
    char in[600];
    snprintf(in, sizeof in, "%s", fixture_path("quantize/in.safetensors"));
    const char *out = out_path();
    REQUIRE_OK(file_write(out, "mine", 4, &e), &e);
    struct quantize_options o = {.in = in, .out = out, .policy = "w8a16"};
    CHECK_INT(quantize_file(&q, &o, NULL, &e), ERR_USAGE);
    CHECK(strstr(e.message, "exists, and nothing is replaced") != NULL);
    quantize_file_release(&q);
    error_clear(&e);
    unlink(out);
    char nowhere[700];
    snprintf(nowhere, sizeof nowhere, "%s/no/such/folder", test_dir());
    o.out = nowhere;
    CHECK_INT(quantize_file(&q, &o, NULL, &e), ERR_IO);
    quantize_file_release(&q);
    error_clear(&e);
    o = (struct quantize_options){.in = fixture_path("io/codebook.gguf"), .out = out, .policy = "w8a16"};
    CHECK_INT(quantize_file(&q, &o, NULL, &e), ERR_INPUT);
    CHECK(strstr(e.message, "blocks of type IQ2_XXS, which this version cannot decode") != NULL);
    quantize_file_release(&q);
    CHECK(!file_exists(out));
}

static long peak_kib(void)
{
    char line[256];
    long peak = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, "VmHWM:", 6) == 0)
            peak = strtol(line + 6, NULL, 10);
    }
    if (f)
        fclose(f);
    return peak;
}

TEST(lab_quantize_memory_does_not_grow_with_tensors)
{
    // 64 MiB of bf16, all zeros and holes: what counts is what is mapped and allocated.
    enum { MIB = 64 };
    struct error e = {0};
    struct quantize_file q;
    static const char header[] =
        "{\"w\":{\"dtype\":\"BF16\",\"shape\":[4096,8192],\"data_offsets\":[0,67108864]}}     ";
    char in[600];
    snprintf(in, sizeof in, "%s/large.safetensors", test_dir());
    uint64_t n = sizeof header - 1;
    int fd = open(in, O_WRONLY | O_CREAT | O_EXCL, 0666);
    REQUIRE(fd >= 0);
    CHECK(pwrite(fd, &n, 8, 0) == 8 && pwrite(fd, header, n, 8) == (ssize_t)n);
    CHECK(ftruncate(fd, (off_t)(8 + n + (size_t)MIB * 1048576)) == 0);
    close(fd);
    static const char *const policies[] = {"w8a16", "w4a16", "fp8", "w=f32"};
    REQUIRE_OK(quantize_one(fixture_path("quantize/in.safetensors"), "w8a16", QUANT_REFUSE, &q, &e), &e);
    quantize_file_release(&q);
    long before = peak_kib();
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct quantize_options o = {.in = in, .out = out_path(), .policy = policies[i], .threads = 2};
        REQUIRE_OK(quantize_file(&q, &o, NULL, &e), &e);
        quantize_file_release(&q);
    }
    unlink(out_path());
    // Promised is less than twice the largest tensor; a few MB for each thread are used.
    if (!CHECK(peak_kib() - before < MIB * 1024 / 2))
        printf("  %ld KiB more\n", peak_kib() - before);
}

static void cut_source(void *path, const char *stage, size_t done, size_t total)
{
    (void)stage;
    if (done > 0 && done < total)
        CHECK(truncate(path, 65536) == 0);
}

TEST(lab_quantize_a_source_that_shrinks_is_an_error)
{
    float *x = some_values(1 << 20);
    REQUIRE(x);
    static const char *const policies[] = {"w8a16", "w=int8/channel/mse/steps:2", "bf16", "w=int8/tensor"};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct error e = {0};
        struct quantize_file q;
        const char *in = write_tensor(DT_F32, 1024, 1024, x);
        struct progress progress = {.report = cut_source, .context = (void *)(uintptr_t)in};
        struct quantize_options o = {.in = in, .out = out_path(), .policy = policies[i], .threads = 1};
        CHECK_INT(quantize_file(&q, &o, &progress, &e), ERR_INPUT);
        CHECK(strstr(e.message, "became shorter") != NULL);
        quantize_file_release(&q);
        CHECK(!file_exists(out_path()));
    }
    free(x);
}

// --- Policies

TEST(lab_quantize_policies_are_those_of_models)
{
    // What `qualify` runs under a preset and what `quantize` writes under it is the same.
    struct str words;
    str_init(&words);
    policy_words(&words);
    size_t seen = 0;
    for (char *p = words.text, *end; p && *p; p = end + 1) {
        end = strchr(p, '\n');
        *end = '\0';
        struct policy model;
        struct quantize_policy file;
        struct error e = {0};
        REQUIRE_OK(policy_parse(&model, p, &e), &e);
        REQUIRE_OK(quantize_policy_parse(&file, p, &e), &e);
        if (file.form == QUANTIZE_NARROW) {
            CHECK_INT(file.to, model.w);
        } else {
            CHECK_INT(file.spec.type, model.w);
            CHECK((file.spec.granularity == QUANT_PER_GROUP) == (model.w_grain == GRAIN_GROUP));
            CHECK((file.spec.granularity == QUANT_PER_CHANNEL) == (model.w_grain == GRAIN_CHANNEL));
            if (model.w_grain == GRAIN_GROUP)
                CHECK_INT(file.spec.group, model.w_group);
        }
        seen++;
    }
    CHECK(seen >= 6);
    str_release(&words);
}

TEST(lab_quantize_policies_spell_and_refuse)
{
    static const struct {
        const char *text, *spelled;
    } good[] = {
        {"w4a16", "w=s4/group:32"},
        {"fp8", "w=f8e4m3fn/tensor"},
        {"w=int8", "w=s8/channel"},
        {"w=fp8", "w=f8e4m3fn/tensor"},
        {"w=f16,a=f16", "w=f16,a=f16"},
        {"mxfp8", "w=mxfp8-e4m3"},
        {"w=mxfp4/rule:rceil", "w=mxfp4/rule:rceil"},
        {"nvfp4", "w=nvfp4"},
        {"a=bf16,w=u4/group:64/affine/scale:bf16/scale-up,op=bf16",
         "w=u4/group:64/affine/scale:bf16/scale-up,a=bf16,op=bf16"},
        {"w=int8/tensor/full/half-range/half-away/zero-before/reciprocal",
         "w=s8/tensor/full/half-range/half-away/zero-before/reciprocal"},
        {"w=int8/percentile:99.9", "w=s8/channel/percentile:99.9"},
        {"w=int4/block:16x32/mse/steps:50/shrink:0.8/norm:2.4/patience:5",
         "w=s4/block:16x32/mse/steps:50/shrink:0.8/norm:2.4/patience:5"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct quantize_policy p;
        struct error e = {0};
        struct str s;
        str_init(&s);
        REQUIRE_OK(quantize_policy_parse(&p, good[i].text, &e), &e);
        quantize_policy_spell(&p, &s);
        CHECK_STR(str_text(&s), good[i].spelled);
        str_release(&s);
    }
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"w9", "policy 'w9' is not known; there are f32, bf16, f16, w8a16, w8a8, w8a8-static, w4a16, fp8"},
        {"", "policy '' is not known"},
        {"a=bf16", "does not say how weights are stored (w=)"},
        {"w=int8,w=int4", "w= is given twice"},
        {"w=int9", "type 'int9' is not known"},
        {"w=f64", "type 'f64' is not known"},
        {"w=pred", "type 'pred' is not known"},
        {"z=int8", "no field 'z'"},
        {"w=int8/wide", "w=.../wide is not known; there are tensor, channel, group:N"},
        {"w=int8/group:0", "w=.../group: '0' is no value for it"},
        {"w=int8/group:x", "w=.../group: 'x' is no value for it"},
        {"w=int8/block:4", "w=.../block: '4' is no value for it"},
        {"w=int8/percentile:50", "w=.../percentile: '50' is no value for it"},
        {"w=int8/scale:int8", "w=.../scale: 'int8' is no value for it"},
        {"w=bf16/channel", "bf16 has no scales"},
        {"w=mxfp4/group:32", "mxfp4 takes no more than a rule"},
        {"w=nvfp4/rule:ceil", "nvfp4 takes no more than a rule"},
        {"w=f8e4m3fn/affine", ""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct quantize_policy p;
        struct error e = {0};
        CHECK_INT(quantize_policy_parse(&p, bad[i].text, &e), ERR_USAGE);
        if (!CHECK(strstr(e.message, bad[i].message) != NULL))
            printf("  '%s': %s\n", bad[i].text, e.message);
    }
}
