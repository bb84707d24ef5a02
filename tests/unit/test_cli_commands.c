// SPDX-License-Identifier: Apache-2.0
// What price, embed and bench print under --json: against their schemas, known answers and the oracle's embeddings.
#include <stdlib.h>

#include "base/file.h"
#include "cli/output.h"
#include "cli_test.h"
#include "fixture.h"
#include "schema.h"
#include "test.h"

// The member at a path of keys; ends the test process when it is not there, since nothing can be checked then.
static const json_t *member(const json_t *o, const char *const *keys)
{
    for (; *keys; keys++) {
        const json_t *next = json_object_get(o, *keys);
        if (!next) {
            printf("  there is no member %s\n", *keys);
            fflush(stdout);
            exit(1);
        }
        o = next;
    }
    return o;
}
#define MEMBER(o, ...) member((o), (const char *const[]){__VA_ARGS__, NULL})
#define NUMBER(o, ...) json_number_value(MEMBER(o, __VA_ARGS__))

static json_t *document(const struct cli *cli)
{
    struct error e = {0};
    json_t *root = json_parse(str_text(&cli->out), cli->out.length, "stdout", &e);
    if (!CHECK(root != NULL)) {
        printf("  %s: %s\n", e.where, e.message);
        fflush(stdout);
        exit(1);
    }
    return root;
}

// The facts of docs: 2mkn FLOP; m=1, k=n=1024 in bf16 with f32 out moves (k + kn) * 2 + 4n bytes.
TEST(cli_price_tells_known_products)
{
    struct cli cli;
    struct error e = {0};
    REQUIRE_OK(cli_test_run(&cli, CLI_WORDS("price", "gemm:1x1024x1024:bf16", "--chip", "v5e", "--chip", "h100"), &e),
               &e);
    CHECK_SCHEMA("assay.price.1.json", str_text(&cli.out), cli.out.length);
    json_t *root = document(&cli);
    const json_t *total = MEMBER(root, "result", "total");
    CHECK(NUMBER(total, "flop", "value") == 2097152);
    CHECK(NUMBER(total, "bytes", "value") == 2103296);
    CHECK(json_is_null(MEMBER(root, "result", "policy")));
    // 2,103,296 B at 819 GB/s
    CHECK_NEAR(NUMBER(total, "floors", "v5e", "time", "value"), 2103296 / 819e3, 1e-9);
    CHECK_STR(json_string_value(MEMBER(total, "floors", "v5e", "bound")), "memory");
    json_decref(root);
    cli_test_release(&cli);
    REQUIRE_OK(cli_test_run(&cli, CLI_WORDS("price", "gemm:64x1024x1024:bf16"), &e), &e);
    root = document(&cli);
    total = MEMBER(root, "result", "total");
    CHECK(NUMBER(total, "flop", "value") == 134217728);
    CHECK(NUMBER(total, "bytes", "value") == 2490368);
    CHECK_NEAR(NUMBER(total, "intensity", "value"), 53.9, 0.05); // given to three digits
    json_decref(root);
    cli_test_release(&cli);
}

// Several programs, layouts and changes in one document.
TEST(cli_price_of_an_image)
{
    struct cli cli;
    struct error e = {0};
    REQUIRE_OK(cli_test_run(&cli, CLI_WORDS("price", "builtin:flux2-klein-4b", "--chip", "v6e:2x4", "--what-if"), &e),
               &e);
    CHECK_SCHEMA("assay.price.1.json", str_text(&cli.out), cli.out.length);
    json_t *root = document(&cli);
    CHECK_INT(json_array_size(MEMBER(root, "result", "parts")), 3);
    CHECK_NEAR(NUMBER(MEMBER(root, "result", "total"), "flop", "value") / 1e12, 46.114, 5.1e-4);
    CHECK_INT(json_array_size(MEMBER(root, "result", "layouts")), 1);
    CHECK(json_is_object(MEMBER(root, "result", "what_if", "v6e", "saves")));
    CHECK(json_array_size(MEMBER(root, "result", "what_if", "v6e", "batches")) > 3);
    json_decref(root);
    cli_test_release(&cli);
}

TEST(cli_price_of_a_model_adds_up)
{
    struct cli cli;
    struct error e = {0};
    REQUIRE_OK(cli_test_run(
                   &cli, CLI_WORDS("price", "builtin:minilm", "--policy", "w8a8", "--chip", "v5e", "--batch", "4"), &e),
               &e);
    CHECK_SCHEMA("assay.price.1.json", str_text(&cli.out), cli.out.length);
    json_t *root = document(&cli), *one;
    double flop = 0, time = 0;
    size_t i;
    json_array_foreach(MEMBER(root, "result", "modules"), i, one)
    {
        flop += NUMBER(one, "flop", "value");
        time += NUMBER(one, "floors", "v5e", "time", "value");
    }
    const json_t *total = MEMBER(root, "result", "total");
    CHECK(i > 3);
    CHECK(flop == NUMBER(total, "flop", "value")); // whole numbers below 2^53
    // Sums of a few doubles in another order.
    CHECK_NEAR(time, NUMBER(total, "floors", "v5e", "time", "value"), 1e-12 * time);
    json_decref(root);
    cli_test_release(&cli);
}

// Writes the first n sentences of data/ into a file of the test; its path.
static const char *sentences(size_t n)
{
    static char path[1024];
    char from[1024];
    struct error e = {0};
    struct str text;
    str_init(&text);
    snprintf(from, sizeof from, "%s/data/sentences.txt", test_top());
    snprintf(path, sizeof path, "%s/sentences.txt", test_dir());
    if (!CHECK(file_read(&text, from, 1 << 24, &e) == 0))
        return path;
    const char *end = str_text(&text);
    for (size_t i = 0; i < n && end; i++)
        end = strchr(end, '\n') + 1;
    CHECK(file_write(path, text.text, (size_t)(end - text.text), &e) == 0);
    str_release(&text);
    return path;
}

// Through the whole command, JSON included. Measured: relative L2 8.4e-7; f32 sums in another order than torch's allow
// about that (torch itself is 6e-7 from f64), and 1e-5 is what a wrong layer, mask or pooling never meets.
TEST(cli_embed_plugin_equals_sentence_transformers)
{
    enum { TEXTS = 200, HIDDEN = 384 };
    char model[1024];
    struct cli cli;
    struct error e = {0};
    struct str want;
    str_init(&want);
    snprintf(model, sizeof model, "%s/third_party/models/minilm", test_top());
    REQUIRE_OK(file_read(&want, fixture_path("minilm/embeddings.f32"), 1 << 24, &e), &e);
    REQUIRE(want.length == TEXTS * HIDDEN * sizeof(float));
    REQUIRE_OK(cli_test_run(&cli, CLI_WORDS("embed", model, "--text", sentences(TEXTS), "--batch", "48"), &e), &e);
    CHECK_SCHEMA("assay.embed.1.json", str_text(&cli.out), cli.out.length);
    json_t *root = document(&cli);
    const json_t *texts = MEMBER(root, "result", "texts");
    REQUIRE(json_array_size(texts) == TEXTS);
    double error2 = 0, norm2 = 0;
    for (size_t i = 0; i < TEXTS; i++) {
        const json_t *row = MEMBER(json_array_get(texts, i), "embedding");
        REQUIRE(json_array_size(row) == HIDDEN);
        for (size_t k = 0; k < HIDDEN; k++) {
            float w;
            memcpy(&w, want.text + (i * HIDDEN + k) * sizeof w, sizeof w);
            double got = json_number_value(json_array_get(row, k)), d = got - (double)w;
            error2 += d * d;
            norm2 += (double)w * (double)w;
        }
    }
    CHECK_NEAR(sqrt(error2 / norm2), 0, 1e-5);
    json_decref(root);
    cli_test_release(&cli);
    str_release(&want);
}

TEST(cli_bench_plugin_document)
{
    struct cli cli;
    struct error e = {0};
    char record[1024], report[1100];
    struct str kept;
    str_init(&kept);
    snprintf(record, sizeof record, "%s/record", test_dir());
    snprintf(report, sizeof report, "%s/report.json", record);
    int rc = cli_test_run(&cli,
                          CLI_WORDS("bench", "gemm:8x16x8:int8", "--against", "gemm:8x16x8:f32", "--samples", "3",
                                    "--warmup", "1", "--run-dir", record),
                          &e);
    CHECK_INT(rc, 6); // three pairs are too few for any verdict
    CHECK_SCHEMA("assay.bench.1.json", str_text(&cli.out), cli.out.length);
    REQUIRE_OK(file_read(&kept, report, 1 << 20, &e), &e);
    CHECK_STR(str_text(&kept), str_text(&cli.out));
    json_t *root = document(&cli);
    const json_t *first = json_array_get(MEMBER(root, "result", "subjects"), 0);
    CHECK(NUMBER(first, "flop", "value") == 2 * 8 * 16 * 8);
    CHECK(NUMBER(first, "bytes", "value") == 8 * 16 + 16 * 8 + 4 * 8 * 8);
    CHECK_INT(json_array_size(MEMBER(first, "samples_ns", "value")), 3);
    CHECK_STR(json_string_value(MEMBER(root, "result", "paired", "verdict")), "AMBIGUOUS");
    json_decref(root);
    cli_test_release(&cli);
    str_release(&kept);
}

// The products of 2048^3 take most of a second each; this is the one test that runs them.
TEST(cli_bench_plugin_calibrates)
{
    struct cli cli;
    struct error e = {0};
    setenv("XDG_CACHE_HOME", test_dir(), 1);
    CHECK_INT(cli_test_run(&cli, CLI_WORDS("bench", "--calibrate", "--samples", "1"), &e), ERR_USAGE);
    cli_test_release(&cli);
    REQUIRE_OK(cli_test_run(&cli, CLI_WORDS("bench", "--calibrate", "--samples", "2", "--warmup", "0"), &e), &e);
    CHECK_SCHEMA("assay.bench.1.json", str_text(&cli.out), cli.out.length);
    json_t *root = document(&cli);
    double rate = NUMBER(root, "result", "rates", "bf16", "value");
    CHECK(file_exists(json_string_value(MEMBER(root, "result", "path"))));
    json_decref(root);
    cli_test_release(&cli);
    // `local` is that chip from now on.
    REQUIRE_OK(cli_test_run(&cli, CLI_WORDS("chips", "local"), &e), &e);
    root = document(&cli);
    const json_t *local = json_array_get(MEMBER(root, "result", "chips"), 0);
    CHECK(NUMBER(local, "rates", "bf16", "value") == rate);
    json_decref(root);
    cli_test_release(&cli);
}

static const json_t *row_named(const json_t *root, const char *name)
{
    size_t i;
    json_t *row;
    json_array_foreach(MEMBER(root, "result", "checks"), i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "name")), name) == 0)
            return row;
    }
    return NULL;
}

TEST(cli_check_plugin_passes)
{
    struct cli cli;
    struct error e = {0};
    REQUIRE_OK(cli_test_run(&cli, CLI_WORDS("check"), &e), &e);
    CHECK_SCHEMA("assay.check.1.json", str_text(&cli.out), cli.out.length);
    json_t *root = document(&cli);
    CHECK_INT(json_integer_value(MEMBER(root, "result", "failed")), 0);
    CHECK_INT(json_integer_value(MEMBER(root, "result", "absent")), 0);
    CHECK_INT(json_integer_value(MEMBER(root, "result", "passed")), json_array_size(MEMBER(root, "result", "checks")));
    json_decref(root);
    cli_test_release(&cli);
}

// Without a plugin the other checks run, and the document has both a result and the error.
TEST(cli_check_without_device)
{
    struct cli cli;
    struct error e = {0};
    CHECK_INT(cli_test_run(&cli, CLI_WORDS("check", "--plugin", "/dev/null"), &e), ERR_DEVICE);
    CHECK_SCHEMA("assay.check.1.json", str_text(&cli.out), cli.out.length);
    json_t *root = document(&cli);
    CHECK_STR(json_string_value(MEMBER(root, "error", "code")), "device");
    CHECK_INT(json_integer_value(MEMBER(root, "result", "failed")), 0);
    CHECK_STR(json_string_value(json_object_get(row_named(root, "SHA-256"), "result")), "pass");
    CHECK_STR(json_string_value(json_object_get(row_named(root, "int8 product is exact"), "result")), "absent");
    json_decref(root);
    cli_test_release(&cli);
}

// A plugin that ends the process when it compiles: rows fail, the command answers no.
TEST(cli_check_plugin_that_fails)
{
    struct cli cli;
    struct error e = {0};
    char faulty[1024];
    const char *build = getenv("BUILD");
    snprintf(faulty, sizeof faulty, "%s/faulty_plugin.so", build ? build : "build");
    setenv("ASSAY_FAULT", "abort-compile", 1);
    CHECK_INT(cli_test_run(&cli, CLI_WORDS("check", "--plugin", faulty), &e), 1);
    CHECK_SCHEMA("assay.check.1.json", str_text(&cli.out), cli.out.length);
    json_t *root = document(&cli);
    const json_t *row = row_named(root, "bf16 rounds each step");
    CHECK_STR(json_string_value(json_object_get(row, "result")), "fail");
    CHECK(strstr(json_string_value(json_object_get(row, "detail")), "SIGABRT") != NULL);
    json_decref(root);
    cli_test_release(&cli);
}
