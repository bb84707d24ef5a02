// SPDX-License-Identifier: Apache-2.0
// The public interface, from inside: the examples use it from outside (tests/cli/cases/library).
#include <locale.h>
#include <stdlib.h>

#include "assay/assay.h"
#include "base/file.h"
#include "base/process.h"
#include "fixture.h"
#include "schema.h"
#include "test.h"
#include "worker_test.h"

static const char *model(void)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/third_party/models/minilm", test_top());
    return path;
}

static void check_refused(int rc, const struct assay_error *e, int code, const char *text, const char *file, int line)
{
    if (!test_check(rc == code && e->code == code, file, line, "the code") ||
        !test_check(strstr(e->message, text) || strstr(e->where, text), file, line, text))
        printf("    %d, %s: %s\n", rc, e->where, e->message);
}
#define CHECK_REFUSED(call, code, text) check_refused((call), &e, (code), (text), __FILE__, __LINE__)

TEST(api_errors_and_versions)
{
    CHECK_STR(assay_version(), ASSAY_VERSION);
    CHECK_STR(assay_error_name(ASSAY_ERROR_INPUT), "bad-input");
    CHECK_INT(assay_error_exit_code(ASSAY_ERROR_USAGE), 2);
    CHECK_INT(assay_error_exit_code(ASSAY_ERROR_DEVICE), 4);
    CHECK_INT(assay_error_exit_code(0), 0);
    char *json = NULL;
    CHECK_INT(assay_price("nothing", NULL, &json, NULL), ASSAY_ERROR_INPUT); // nobody wants to know why
    CHECK(json == NULL);
    assay_free(NULL);
    assay_checkpoint_close(NULL);
}

TEST(api_compile_plugin_is_the_document)
{
    static const char *const targets[] = {"v6e"}, *const wrong[] = {"v6e:3x3"};
    struct assay_error e;
    char *json = NULL;
    struct assay_compile_options o = {.targets = targets, .target_count = 1, .plugin = worker_test_libtpu()};
    if (o.plugin) {
        CHECK_INT(assay_compile("gemm:128x128x128:bf16", &o, &json, &e), 0);
        CHECK_SCHEMA("assay.compile.1.json", json, strlen(json));
        CHECK(strstr(json, "bf16 natively") != NULL);
        assay_free(json);
    }
    json = NULL;
    CHECK_REFUSED(assay_compile("gemm:8x8x8:bf16", NULL, &json, &e), ASSAY_ERROR_USAGE, "targets");
    CHECK_REFUSED(assay_compile(NULL, &o, &json, &e), ASSAY_ERROR_USAGE, "workload");
    o.targets = wrong;
    CHECK_REFUSED(assay_compile("gemm:8x8x8:bf16", &o, &json, &e), ASSAY_ERROR_USAGE, "2x2");
    o.targets = targets;
    o.efficiency = 2;
    CHECK_REFUSED(assay_compile("gemm:8x8x8:bf16", &o, &json, &e), ASSAY_ERROR_USAGE, "efficiency");
    o.efficiency = 0;
    o.plugin = "/nowhere.so";
    CHECK_REFUSED(assay_compile("gemm:8x8x8:bf16", &o, &json, &e), ASSAY_ERROR_DEVICE, "nowhere");
    CHECK(json == NULL);
}

TEST(api_budget_is_the_document)
{
    static const char *const chips[] = {"v6e:2x4"}, *const layouts[] = {"tp"};
    struct assay_error e;
    char *json = NULL;
    struct assay_budget_options o = {
        .policy = "w8a16,kv=int8", .chips = chips, .chip_count = 1, .layouts = layouts, .layout_count = 1, .batch = 8};
    CHECK_INT(assay_budget("builtin:llama-3.1-8b", &o, &json, &e), 0);
    CHECK_SCHEMA("assay.budget.1.json", json, strlen(json));
    CHECK(strstr(json, "\"fits\": true") != NULL);
    assay_free(json);
    struct assay_budget_options params = {.params = "300M", .train = "adam-18"};
    CHECK_INT(assay_budget(NULL, &params, &json, &e), 0);
    CHECK(strstr(json, "5400000000") != NULL);
    assay_free(json);
    CHECK_REFUSED(assay_budget(NULL, NULL, &json, &e), ASSAY_ERROR_USAGE, "--params");
    o.layout_count = 2;
    o.layouts = NULL;
    CHECK_REFUSED(assay_budget("builtin:gpt2", &o, &json, &e), ASSAY_ERROR_USAGE, "null");
    CHECK_REFUSED(assay_budget("nothing", NULL, &json, &e), ASSAY_ERROR_INPUT, "builtin:NAME");
}

TEST(api_price_is_the_document)
{
    struct assay_error e;
    const char *chips[] = {"v5e", "h100"}, *unknown[] = {"v5x"}, *none[] = {NULL};
    char *json = NULL;
    struct assay_price_options o = {.policy = "w8a8", .chips = chips, .chip_count = 2, .batch = 2, .seq = 8};
    CHECK_INT(assay_price("builtin:minilm", &o, &json, &e), 0);
    CHECK_INT(e.code, 0);
    REQUIRE(json);
    CHECK_SCHEMA("assay.price.1.json", json, strlen(json));
    CHECK(strstr(json, "\"h100\"") != NULL);
    assay_free(json);
    o.policy = "w9";
    CHECK_REFUSED(assay_price("builtin:minilm", &o, &json, &e), ASSAY_ERROR_USAGE, "w9");
    o.policy = NULL;
    o.chips = unknown;
    o.chip_count = 1;
    CHECK_REFUSED(assay_price("builtin:minilm", &o, &json, &e), ASSAY_ERROR_USAGE, "v5e");
    o.chips = none;
    CHECK_REFUSED(assay_price("builtin:minilm", &o, &json, &e), ASSAY_ERROR_USAGE, "null");
    o.chips = NULL;
    CHECK_REFUSED(assay_price("builtin:minilm", &o, &json, &e), ASSAY_ERROR_USAGE, "null");
    o.chip_count = 0;
    o.batch = -1;
    CHECK_REFUSED(assay_price("builtin:minilm", &o, &json, &e), ASSAY_ERROR_USAGE, "batch");
    o.batch = 0;
    o.seq = -5;
    CHECK_REFUSED(assay_price("builtin:minilm", &o, &json, &e), ASSAY_ERROR_USAGE, "seq");
    CHECK_REFUSED(assay_price(NULL, NULL, &json, &e), ASSAY_ERROR_USAGE, "null");
    CHECK_REFUSED(assay_price("builtin:gemm:1x2", NULL, &json, &e), ASSAY_ERROR_USAGE, "MxKxN");
}

// Every option reaches the price: the figures are those of docs/cost.md.
TEST(api_price_of_an_image)
{
    struct assay_error e;
    static const char *const chips[] = {"v6e:2x4"}, *const layouts[] = {"tp"}, *const spiral[] = {"spiral"};
    char *json = NULL;
    struct assay_price_options o = {.chips = chips,
                                    .chip_count = 1,
                                    .height = 768,
                                    .width = 1360,
                                    .what_if = true,
                                    .layouts = layouts,
                                    .layout_count = 1};
    REQUIRE(assay_price("builtin:flux2-klein-4b", &o, &json, &e) == 0);
    CHECK_SCHEMA("assay.price.1.json", json, strlen(json));
    CHECK(strstr(json, "int8 products: dit, its 4 largest") != NULL);
    CHECK(strstr(json, "\"tp\"") != NULL && strstr(json, "\"ulysses\"") == NULL);
    CHECK(strstr(json, "\"calls\": 4") != NULL);
    assay_free(json);
    o.steps = 7;
    o.what_if = false;
    o.by_scope = true;
    json = NULL;
    REQUIRE(assay_price("builtin:flux2-klein-4b", &o, &json, &e) == 0);
    CHECK(strstr(json, "\"calls\": 7") != NULL && strstr(json, "\"calls\": 4,") == NULL);
    CHECK(strstr(json, "single.3.linear1") != NULL || strstr(json, "single.3/linear1") != NULL);
    assay_free(json);
    static const char *const local[] = {"local"};
    struct assay_price_options asked = {.targets = local, .target_count = 1}; // which has no compiler to wait for
    json = NULL;
    REQUIRE(assay_price("gemm:8x8x8:bf16", &asked, &json, &e) == 0);
    CHECK_SCHEMA("assay.price.1.json", json, strlen(json));
    CHECK(strstr(json, "\"predictions\"") != NULL && strstr(json, "this machine has no sheet") != NULL);
    assay_free(json);
    struct assay_price_options text = {.tokens = 17, .seq = 33};
    json = NULL;
    REQUIRE(assay_price("builtin:llama-3.1-8b", &text, &json, &e) == 0);
    CHECK(strstr(json, "\"calls\": 17") != NULL);
    assay_free(json);
    o.layouts = spiral;
    CHECK_REFUSED(assay_price("builtin:flux2-klein-4b", &o, &json, &e), ASSAY_ERROR_USAGE, "spiral");
    o.layouts = NULL;
    CHECK_REFUSED(assay_price("builtin:flux2-klein-4b", &o, &json, &e), ASSAY_ERROR_USAGE, "null");
    o.layout_count = 0;
    o.target_count = 1;
    CHECK_REFUSED(assay_price("builtin:flux2-klein-4b", &o, &json, &e), ASSAY_ERROR_USAGE, "targets");
    o.target_count = 0;
    o.calibration = test_dir(); // a folder that is no record
    CHECK_REFUSED(assay_price("builtin:flux2-klein-4b", &o, &json, &e), ASSAY_ERROR_INPUT, "record");
    o.calibration = NULL;
    o.lenient = true;
    CHECK_REFUSED(assay_price("builtin:flux2-klein-4b", &o, &json, &e), ASSAY_ERROR_USAGE, "lenient");
    o.lenient = false;
    o.weight_args = "0..1";
    CHECK_REFUSED(assay_price("builtin:flux2-klein-4b", &o, &json, &e), ASSAY_ERROR_USAGE, "weight-args");
    o.weight_args = NULL;
    o.height = -16;
    CHECK_REFUSED(assay_price("builtin:flux2-klein-4b", &o, &json, &e), ASSAY_ERROR_USAGE, "height");
    o.height = 0;
    o.width = 65552;
    CHECK_REFUSED(assay_price("builtin:flux2-klein-4b", &o, &json, &e), ASSAY_ERROR_USAGE, "width");
    o.width = 0;
    o.steps = -1;
    CHECK_REFUSED(assay_price("builtin:flux2-klein-4b", &o, &json, &e), ASSAY_ERROR_USAGE, "steps");
    text.tokens = -1;
    CHECK_REFUSED(assay_price("builtin:llama-3.1-8b", &text, &json, &e), ASSAY_ERROR_USAGE, "tokens");
}

TEST(api_chips_tell_their_sources)
{
    struct assay_error e;
    struct assay_quantity q;
    setenv("XDG_CACHE_HOME", test_dir(), 1);
    CHECK(assay_chip_count() > 10);
    CHECK(assay_chip_name(assay_chip_count()) == NULL);
    for (size_t i = 0; i < assay_chip_count(); i++) {
        CHECK_INT(assay_chip_rate(assay_chip_name(i), "bf16", &q, &e), 0);
        CHECK(q.source[0] != '\0');
        CHECK(strlen(q.source) < sizeof q.source - 1); // nothing was cut
        CHECK_INT(assay_chip_memory(assay_chip_name(i), &q, &e), 0);
        CHECK_STR(q.unit, "B");
    }
    CHECK_INT(assay_chip_rate("TPU v5 lite", "s8", &q, &e), 0);
    CHECK(q.value == 393e12);
    CHECK_INT(q.origin, 'S');
    CHECK_INT(assay_chip_bandwidth("v5e", &q, &e), 0);
    CHECK(q.value == 819e9);
    CHECK_INT(assay_chip_bandwidth("local", &q, &e), 0); // nothing was measured for this test
    CHECK(isnan(q.value) && strstr(q.source, "calibrate") != NULL);
    CHECK_REFUSED(assay_chip_rate("v99", "bf16", &q, &e), ASSAY_ERROR_USAGE, "v5e");
    CHECK_REFUSED(assay_chip_rate("v5e", "bf17", &q, &e), ASSAY_ERROR_USAGE, "int8");
    CHECK_REFUSED(assay_chip_rate("v5e", NULL, &q, &e), ASSAY_ERROR_USAGE, "null");
    CHECK_REFUSED(assay_chip_memory(NULL, &q, &e), ASSAY_ERROR_USAGE, "null");
}

TEST(api_checkpoint_lists_and_reads)
{
    struct assay_error e;
    struct assay_checkpoint *c = NULL;
    struct assay_tensor t;
    float *values = malloc(384 * sizeof *values), whole;
    CHECK_REFUSED(assay_checkpoint_open(&c, "nothing", &e), ASSAY_ERROR_INPUT, "nothing");
    CHECK(c == NULL);
    REQUIRE(values && assay_checkpoint_open(&c, model(), &e) == 0);
    CHECK_INT(assay_checkpoint_count(c), 104);
    CHECK(!assay_checkpoint_tensor(c, 104, &t));
    CHECK(assay_checkpoint_find(c, "nothing") == SIZE_MAX);
    for (size_t i = 0; i < assay_checkpoint_count(c); i++) {
        REQUIRE(assay_checkpoint_tensor(c, i, &t));
        CHECK_INT(assay_checkpoint_find(c, t.name), i);
    }
    size_t at = assay_checkpoint_find(c, "embeddings.LayerNorm.weight");
    REQUIRE(assay_checkpoint_tensor(c, at, &t));
    CHECK_STR(t.type, "f32");
    CHECK_INT(t.rank, 1);
    CHECK_INT(t.dims[0], 384);
    CHECK_INT(t.bytes, 4 * 384);
    CHECK(strstr(t.file, "model.safetensors") != NULL);
    CHECK_INT(assay_checkpoint_read_f32(c, at, values, 384, &e), 0);
    // The bytes at that offset of the file.
    FILE *f = fopen(t.file, "rb");
    REQUIRE(f && fseek(f, (long)t.offset + 4 * 383, SEEK_SET) == 0 && fread(&whole, 4, 1, f) == 1);
    fclose(f);
    CHECK(values[383] == whole);
    CHECK_REFUSED(assay_checkpoint_read_f32(c, at, values, 383, &e), ASSAY_ERROR_USAGE, "384 elements");
    CHECK_REFUSED(assay_checkpoint_read_f32(c, 104, values, 384, &e), ASSAY_ERROR_USAGE, "104 tensors");
    assay_checkpoint_close(c);
    free(values);
}

TEST(api_quantize_writes_and_tells)
{
    struct assay_error e;
    char *json = NULL, in[1024], out[1024];
    const char *skip[] = {"*.bias", "experts"};
    struct assay_quantize_options o = {.skip = skip, .skip_count = 2, .threads = 1};
    snprintf(in, sizeof in, "%s", fixture_path("quantize/in.safetensors"));
    snprintf(out, sizeof out, "%s/out.safetensors", test_dir());
    REQUIRE(assay_quantize(in, out, "w4a16", &o, &json, &e) == 0);
    CHECK(schema_check("assay.quantize.1.json", json, strlen(json)));
    CHECK(strstr(json, "\"tensors\": 1") != NULL);
    assay_free(json);
    json = NULL;
    struct assay_checkpoint *c = NULL;
    REQUIRE(assay_checkpoint_open(&c, out, &e) == 0);
    CHECK(assay_checkpoint_find(c, "a.weight_packed") != SIZE_MAX);
    CHECK(assay_checkpoint_find(c, "experts") != SIZE_MAX);
    assay_checkpoint_close(c);
    CHECK_REFUSED(assay_quantize(in, out, "w4a16", NULL, &json, &e), ASSAY_ERROR_USAGE, "exists");
    remove(out);
    CHECK_REFUSED(assay_quantize(in, out, "w9", NULL, &json, &e), ASSAY_ERROR_USAGE, "w9");
    CHECK_REFUSED(assay_quantize("nothing", out, "w8a16", NULL, &json, &e), ASSAY_ERROR_INPUT, "nothing");
    CHECK_REFUSED(assay_quantize(NULL, out, "w8a16", NULL, &json, &e), ASSAY_ERROR_USAGE, "null");
    o.nan = "maybe";
    CHECK_REFUSED(assay_quantize(in, out, "w8a16", &o, &json, &e), ASSAY_ERROR_USAGE, "maybe");
    o = (struct assay_quantize_options){.threads = -1};
    CHECK_REFUSED(assay_quantize(in, out, "w8a16", &o, &json, &e), ASSAY_ERROR_USAGE, "threads");
    CHECK(json == NULL);
}

TEST(api_checkpoint_reads_blocks)
{
    struct assay_error e;
    struct assay_checkpoint *c = NULL;
    struct assay_tensor t;
    float values[1024];
    REQUIRE(assay_checkpoint_open(&c, fixture_path("io/good.gguf"), &e) == 0);
    size_t at = assay_checkpoint_find(c, "blocks.Q4_K");
    REQUIRE(assay_checkpoint_tensor(c, at, &t));
    CHECK_STR(t.type, "Q4_K");
    CHECK_INT(assay_checkpoint_read_f32(c, at, values, 1024, &e), 0);
    assay_checkpoint_close(c);
}

// Measured: 8e-7 (see cli_embed_plugin_equals_sentence_transformers).
TEST(api_embed_plugin)
{
    enum { HIDDEN = 384 };
    const char *texts[] = {"The committee approved the budget on Tuesday after a short debate.", ""};
    struct assay_error e;
    struct assay_embeddings out = {0};
    struct assay_embed_options o = {.seq = 16};
    struct str want;
    str_init(&want);
    REQUIRE(file_read(&want, fixture_path("minilm/embeddings.f32"), 1 << 24, NULL) == 0);
    CHECK_INT(assay_embed(model(), texts, 2, &o, &out, &e), 0);
    if (e.code)
        printf("  %s: %s\n", e.where, e.message);
    CHECK_INT(out.rows, 2);
    CHECK_INT(out.truncated, 0);
    REQUIRE(out.values && out.columns == HIDDEN);
    double error2 = 0, norm2 = 0, length2 = 0;
    for (size_t k = 0; k < HIDDEN; k++) {
        float w;
        memcpy(&w, want.text + k * sizeof w, sizeof w);
        error2 += ((double)out.values[k] - (double)w) * ((double)out.values[k] - (double)w);
        norm2 += (double)w * (double)w;
        length2 += (double)out.values[HIDDEN + k] * (double)out.values[HIDDEN + k];
    }
    CHECK_NEAR(sqrt(error2 / norm2), 0, 1e-5);
    CHECK_NEAR(length2, 1, 1e-5); // normalised in f32
    assay_free(out.values);
    str_release(&want);
    CHECK_REFUSED(assay_embed(model(), texts, 0, NULL, &out, &e), ASSAY_ERROR_USAGE, "none are given");
    CHECK_REFUSED(assay_embed(model(), NULL, 1, NULL, &out, &e), ASSAY_ERROR_USAGE, "null");
    CHECK_REFUSED(assay_embed("nothing", texts, 2, NULL, &out, &e), ASSAY_ERROR_INPUT, "nothing");
    o.device.threads = -1;
    CHECK_REFUSED(assay_embed(model(), texts, 2, &o, &out, &e), ASSAY_ERROR_USAGE, "threads");
    o.device = (struct assay_device){.timeout_s = (double)NAN};
    CHECK_REFUSED(assay_embed(model(), texts, 2, &o, &out, &e), ASSAY_ERROR_USAGE, "timeout_s");
    o.device = (struct assay_device){.plugin = "/dev/null"};
    CHECK_REFUSED(assay_embed(model(), texts, 2, &o, &out, &e), ASSAY_ERROR_DEVICE, "/dev/null");
    o.device = (struct assay_device){.worker = "/nothing"};
    CHECK_REFUSED(assay_embed(model(), texts, 2, &o, &out, &e), ASSAY_ERROR_DEVICE, "/nothing");
}

static size_t stages;

static void count_stage(void *context, const char *stage, size_t done, size_t total)
{
    (void)stage, (void)done, (void)total;
    ++*(size_t *)context;
}

TEST(api_qualify_plugin)
{
    static const char lines[] = "a cat sat\na dog sat\nnothing of the kind\n";
    char text[1024], dir[1024], report[1100];
    struct assay_error e;
    struct assay_qualification q = {0};
    struct str kept;
    str_init(&kept);
    snprintf(text, sizeof text, "%s/texts", test_dir());
    snprintf(dir, sizeof dir, "%s/record", test_dir());
    snprintf(report, sizeof report, "%s/report.json", dir);
    REQUIRE(file_write(text, lines, sizeof lines - 1, NULL) == 0);
    struct assay_qualify_options o = {.text_path = text,
                                      .run_dir = dir,
                                      .require = "top1>=2",
                                      .batch = 3,
                                      .samples = 2,
                                      .warmup = -1,
                                      .progress = {count_stage, &stages}};
    CHECK_INT(assay_qualify(model(), &o, &q, &e), 0);
    if (e.code)
        printf("  %s: %s\n", e.where, e.message);
    REQUIRE(q.json && q.record);
    CHECK(q.refused); // an agreement of 2 is impossible
    CHECK(stages > 3);
    CHECK_SCHEMA("assay.qualify.1.json", q.json, strlen(q.json));
    CHECK(!strstr(q.json, "none: not asked for")); // our own kernels, as by the command line's default
    CHECK_STR(q.record, dir);
    REQUIRE(file_read(&kept, report, 1 << 24, NULL) == 0);
    CHECK_STR(str_text(&kept), q.json);
    str_release(&kept);
    assay_free(q.json);
    assay_free(q.record);
    CHECK_REFUSED(assay_qualify(model(), &o, &q, &e), ASSAY_ERROR_USAGE, "exists");
    snprintf(dir, sizeof dir, "%s/without", test_dir());
    o.device.no_kernels = true;
    CHECK_INT(assay_qualify(model(), &o, &q, &e), 0);
    CHECK(q.json && strstr(q.json, "none: not asked for"));
    assay_free(q.json);
    assay_free(q.record);
    o.samples = -1;
    CHECK_REFUSED(assay_qualify(model(), &o, &q, &e), ASSAY_ERROR_USAGE, "samples");
    o.samples = 1;
    o.require = "speed>9000";
    CHECK_REFUSED(assay_qualify(model(), &o, &q, &e), ASSAY_ERROR_USAGE, "speed");
    CHECK_REFUSED(assay_qualify(model(), NULL, &q, &e), ASSAY_ERROR_USAGE, "text_path");
}

TEST(api_qualify_calibrates_plugin)
{
    static const char lines[] = "a cat sat\na dog sat\nnothing of the kind\n", others[] = "another cat\nthe dog\n";
    static const char *const policies[] = {"w8a8-static"};
    char text[1024], calibrate[1024], dir[1024];
    struct assay_error e;
    struct assay_qualification q = {0};
    snprintf(text, sizeof text, "%s/texts", test_dir());
    snprintf(calibrate, sizeof calibrate, "%s/others", test_dir());
    snprintf(dir, sizeof dir, "%s/record", test_dir());
    REQUIRE(file_write(text, lines, sizeof lines - 1, NULL) == 0);
    REQUIRE(file_write(calibrate, others, sizeof others - 1, NULL) == 0);
    struct assay_qualify_options o = {.text_path = text,
                                      .policies = policies,
                                      .policy_count = 1,
                                      .run_dir = dir,
                                      .batch = 3,
                                      .samples = 1,
                                      .warmup = -1};
    CHECK_REFUSED(assay_qualify(model(), &o, &q, &e), ASSAY_ERROR_USAGE, "calibrate");
    o.calibrate_path = text;
    CHECK_REFUSED(assay_qualify(model(), &o, &q, &e), ASSAY_ERROR_INPUT, "the other side of the split");
    o.calibrate_path = calibrate;
    CHECK_INT(assay_qualify(model(), &o, &q, &e), 0);
    REQUIRE(q.json);
    CHECK_SCHEMA("assay.qualify.1.json", q.json, strlen(q.json));
    CHECK(strstr(q.json, "\"scales\": \"static\""));
    assay_free(q.json);
    assay_free(q.record);
}

TEST(api_qualify_plugin_program)
{
    char program[1024], weights[1024], inputs[1024], dir[1024];
    struct assay_error e;
    struct assay_qualification q = {0};
    snprintf(program, sizeof program, "%s/tests/fixtures/lab/jax/transformer.hlo.pb", test_top());
    snprintf(weights, sizeof weights, "%s/tests/fixtures/lab/jax/weights.safetensors", test_top());
    snprintf(inputs, sizeof inputs, "%s/tests/fixtures/lab/jax/cases.npz", test_top());
    snprintf(dir, sizeof dir, "%s/record", test_dir());
    struct assay_qualify_options o = {.run_dir = dir, .weights = weights, .samples = 1, .warmup = -1};
    CHECK_REFUSED(assay_qualify(program, &o, &q, &e), ASSAY_ERROR_USAGE, "an index");
    o.inputs = inputs;
    CHECK_INT(assay_qualify(program, &o, &q, &e), 0);
    REQUIRE(q.json);
    CHECK_SCHEMA("assay.qualify.1.json", q.json, strlen(q.json));
    CHECK(strstr(q.json, "\"cases\": 3"));
    assay_free(q.json);
    assay_free(q.record);
}

// In a program that writes decimal commas, documents keep their points.
TEST(api_numbers_have_a_decimal_point)
{
    static const char source[] = "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n";
    char path[1024], locale[1024], shown[16];
    struct assay_error e;
    struct assay_quantity q;
    char *json;
    snprintf(path, sizeof path, "%s/source", test_dir());
    snprintf(locale, sizeof locale, "%s/comma", test_dir());
    REQUIRE(file_write(path, source, sizeof source - 1, NULL) == 0);
    const char *const argv[] = {"localedef", "-c", "-i", path, locale, NULL};
    struct process_options o = {.argv = argv};
    struct process_exit ended;
    process_run(&o, 20, NULL, 0, &ended, NULL, 0, NULL); // its status is that of the warnings
    setenv("LOCPATH", test_dir(), 1);
    if (!setlocale(LC_NUMERIC, "comma"))
        return; // no localedef here
    snprintf(shown, sizeof shown, "%.1f", 0.5);
    CHECK_STR(shown, "0,5");
    REQUIRE(assay_price("gemm:3x5x7:f32", NULL, &json, &e) == 0);
    CHECK_SCHEMA("assay.price.1.json", json, strlen(json));
    assay_free(json);
    CHECK_INT(assay_chip_rate("v5e", "bf16", &q, &e), 0);
    snprintf(shown, sizeof shown, "%.1f", 0.5);
    CHECK_STR(shown, "0,5"); // as it was
}

TEST(api_precision_refusals)
{
    struct assay_error e;
    struct assay_precision_result r = {0};
    const char *suites[] = {"acumulate"}, *policies[] = {"w9"}, *none[] = {NULL};
    struct assay_precision_options o = {0};
    CHECK_REFUSED(assay_precision(NULL, &r, &e), ASSAY_ERROR_USAGE, "accumulate");
    o.suites = suites;
    o.suite_count = 1;
    CHECK_REFUSED(assay_precision(&o, &r, &e), ASSAY_ERROR_USAGE, "did you mean accumulate?");
    o.suites = none;
    CHECK_REFUSED(assay_precision(&o, &r, &e), ASSAY_ERROR_USAGE, "null");
    o.suite_count = 0;
    o.tensor = "nothing:w";
    CHECK_REFUSED(assay_precision(&o, &r, &e), ASSAY_ERROR_INPUT, "nothing");
    o.policies = policies;
    o.policy_count = 1;
    CHECK_REFUSED(assay_precision(&o, &r, &e), ASSAY_ERROR_USAGE, "mxfp4");
    o.batch = -1;
    CHECK_REFUSED(assay_precision(&o, &r, &e), ASSAY_ERROR_USAGE, "batch");
    CHECK(r.json == NULL && r.record == NULL);
}

TEST(api_precision_of_a_tensor)
{
    struct assay_error e;
    struct assay_precision_result r = {0};
    char tensor[1200], dir[1200], report[1300];
    const char *policies[] = {"w8a8", "mxfp4"};
    snprintf(tensor, sizeof tensor, "%s:w", fixture_path("lab/storage.safetensors"));
    snprintf(dir, sizeof dir, "%s/record", test_dir());
    struct assay_precision_options o = {.tensor = tensor, .policies = policies, .policy_count = 2, .run_dir = dir};
    CHECK_INT(assay_precision(&o, &r, &e), 0);
    REQUIRE(r.json && r.record);
    CHECK(!r.failed);
    CHECK_STR(r.record, dir);
    CHECK_SCHEMA("assay.precision.1.json", r.json, strlen(r.json));
    struct str text;
    struct error err = {0};
    str_init(&text);
    snprintf(report, sizeof report, "%s/report.json", dir);
    REQUIRE_OK(file_read(&text, report, 1 << 24, &err), &err);
    CHECK_STR(str_text(&text), r.json);
    str_release(&text);
    assay_free(r.json);
    assay_free(r.record);
    CHECK_REFUSED(assay_precision(&o, &r, &e), ASSAY_ERROR_USAGE, "exists");
}
