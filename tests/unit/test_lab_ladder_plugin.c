// SPDX-License-Identifier: Apache-2.0
// Ladders beside what transformers and diffusers computed (tests/oracle/ladder_reference.py).
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "lab/ladder.h"
#include "tiny_flux2.h"
#include "worker_test.h"

#define FIXTURES "tests/fixtures/ladder/"
#define MINILM   "third_party/models/minilm"

static const struct ladder_key *key_named(const struct ladder *l, const char *program, const char *name)
{
    for (size_t i = 0; i < l->n_keys; i++) {
        if (strcmp(l->keys[i].program, program) == 0 && strcmp(l->keys[i].name, name) == 0)
            return &l->keys[i];
    }
    return NULL;
}

static bool climb(struct ladder *l, const struct ladder_options *o)
{
    struct error err = {0};
    int rc = ladder_run(l, o, NULL, &err);
    if (!CHECK(rc == 0))
        printf("  %s: %s\n", err.where, err.message);
    for (size_t i = 0; i < l->n_keys && getenv("ASSAY_TEST_VERBOSE"); i++) {
        const struct ladder_key *k = &l->keys[i];
        printf("  %2d %s/%s: %.1f and %.1f dB, %.1e and %.1e\n", k->rung->number, k->program, k->name,
               k->injected.snr_db, k->chained.snr_db, k->injected.relative, k->chained.relative);
    }
    return !rc;
}

#define KLEIN      FIXTURES "klein-tiny-f32"
#define KLEIN_BF16 FIXTURES "klein-tiny-bf16"
#define QWEN       "third_party/models/qwen"

static double injected_db(const struct ladder *l, const char *program, const char *name)
{
    const struct ladder_key *k = key_named(l, program, name);
    return CHECK(k && k->injected.known) ? k->injected.snr_db : 0;
}

static double chained_db(const struct ladder *l, const char *program, const char *name)
{
    const struct ladder_key *k = key_named(l, program, name);
    return CHECK(k && k->chained.known) ? k->chained.snr_db : 0;
}

// The reference.json of a fixture with the cases that are named alone: a test takes no more than it can compile in
// time.
static json_t *some_of(const char *fixture, const char *const *names)
{
    char path[1200];
    json_error_t at;
    snprintf(path, sizeof path, "%s/reference.json", fixture);
    json_t *root = json_load_file(path, 0, &at), *kept = json_array();
    CHECK(root != NULL);
    const json_t *cases = json_object_get(root, "cases");
    for (; *names; names++) {
        size_t had = json_array_size(kept);
        for (size_t i = 0; i < json_array_size(cases); i++) {
            json_t *c = json_array_get(cases, i);
            if (strcmp(json_string_value(json_object_get(c, "name")), *names) == 0)
                json_array_append(kept, c);
        }
        CHECK(json_array_size(kept) == had + 1);
    }
    json_object_set_new(root, "cases", kept);
    return root;
}

// It in a directory of its own, with the fixture's taps.
static const char *directory_of(char out[1200], const char *fixture, json_t *root)
{
    char path[1300], here[1024], from[1300];
    snprintf(out, 1200, "%s/reference", test_dir());
    CHECK(mkdir(out, 0755) == 0);
    snprintf(path, sizeof path, "%s/reference.json", out);
    CHECK(json_dump_file(root, path, 0) == 0);
    json_decref(root);
    CHECK(getcwd(here, sizeof here) != NULL);
    snprintf(from, sizeof from, "%s/%s/taps.safetensors", here, fixture);
    snprintf(path, sizeof path, "%s/taps.safetensors", out);
    CHECK(symlink(from, path) == 0);
    return out;
}

static const char *some_cases(char out[1200], const char *fixture, const char *const *names)
{
    return directory_of(out, fixture, some_of(fixture, names));
}
#define CASES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void check_counts(const struct ladder *l, size_t keys, size_t warn)
{
    struct ladder_count all = ladder_count(l, NULL);
    if (!CHECK(all.keys == keys && all.warn == warn && all.fail == 0))
        printf("  %zu keys, %zu pass, %zu warn, %zu fail\n", all.keys, all.pass, all.warn, all.fail);
}

static void check_rungs(const struct ladder *l)
{
    for (int i = 0; i < l->n_rungs; i++) {
        struct ladder_count c = ladder_count(l, &l->rungs[i]);
        if (!CHECK(c.keys > 0 && l->rungs[i].number == i + 1))
            printf("  rung %d has %zu keys\n", l->rungs[i].number, c.keys);
    }
    CHECK(l->n_rungs == 16 && l->n_missing == 0 && !l->no_tokenizer);
}

// All 16 rungs of FLUX.2 in f32: prompts, padding, times, another number of tokens, and the schedule at 4300 and 4301.
TEST(lab_ladder_plugin_flux2_in_f32_passes)
{
    struct ladder l;
    char directory[1200];
    struct ladder_options o = {
        .reference =
            some_cases(directory, KLEIN, CASES("main", "padding", "times", "square", "tokens.4300", "tokens.4301")),
        .tokenizer = QWEN};
    if (climb(&l, &o)) {
        // Two are warned of: transformers multiplies angles in f32, which is 3e-5 off at position 511 and 4e-6 of the
        // sines; ours are rounded from f64.
        check_counts(&l, 84, 2);
        CHECK(key_named(&l, "padding/text", "rope_sin")->injected.verdict == LADDER_WARN);
        check_rungs(&l);
        CHECK(l.band == LADDER_F32);
        CHECK(key_named(&l, "main/tokens", "input_ids")->injected.exact);
        CHECK(key_named(&l, "main/noise", "latent")->injected.exact);
        CHECK(!key_named(&l, "main/pipeline", "image")->injected.known);
        CHECK(key_named(&l, "tokens.4300/schedule", "sigmas") && key_named(&l, "tokens.4301/schedule", "sigmas"));
    }
    ladder_release(&l);
}

// References, guidance, and both in a request whose prompts are mostly padding.
TEST(lab_ladder_plugin_references_and_guidance_in_f32_pass)
{
    struct ladder l;
    char directory[1200];
    struct ladder_options o = {.reference = some_cases(directory, KLEIN, CASES("references", "guidance", "together"))};
    if (climb(&l, &o)) {
        check_counts(&l, 27, 0);
        CHECK(chained_db(&l, "references/pipeline", "image") > 90 && chained_db(&l, "guidance/pipeline", "image") > 90);
        CHECK(chained_db(&l, "together/pipeline", "image") > 90);
        CHECK(injected_db(&l, "references/transformer", "image.in") > 130); // f32 sums of 16 products
    }
    ladder_release(&l);
}

// All 16 rungs in bf16 beside diffusers in bf16.
TEST(lab_ladder_plugin_flux2_in_bf16_is_within_its_bands)
{
    struct ladder l;
    char directory[1200];
    struct ladder_options o = {.reference = some_cases(directory, KLEIN_BF16, CASES("main")), .tokenizer = QWEN};
    if (climb(&l, &o)) {
        struct ladder_count all = ladder_count(&l, NULL);
        CHECK(all.keys > 50 && all.fail == 0);
        check_rungs(&l);
        CHECK(l.band == LADDER_BF16 && strcmp(l.policy_name, "bf16") == 0);
        CHECK(key_named(&l, "main/schedule", "times")->injected.exact); // as bf16 has them
    }
    ladder_release(&l);
}

// Heavy padding, references and guidance together in bf16.
TEST(lab_ladder_plugin_all_at_once_in_bf16_is_within_its_bands)
{
    struct ladder l;
    char directory[1200];
    struct ladder_options o = {.reference = some_cases(directory, KLEIN_BF16, CASES("together"))};
    if (climb(&l, &o)) {
        check_counts(&l, 6, 0);
        CHECK(key_named(&l, "together/schedule", "times")->injected.exact);
    }
    ladder_release(&l);
}

// The text encoder's folder as a decoder: a prompt that is full and one that ends in padding, the cache, the logits.
TEST(lab_ladder_plugin_a_decoder_in_f32_passes)
{
    struct ladder l;
    struct error err = {0};
    char dir[1100], workload[1200];
    snprintf(dir, sizeof dir, "%s/model", test_dir());
    snprintf(workload, sizeof workload, "%s/text_encoder", dir);
    REQUIRE_OK(tiny_flux2_write(dir, &(struct tiny_flux2_options){.seed = 1}, &err), &err);
    struct ladder_options o = {.workload = workload, .reference = FIXTURES "qwen3-tiny-f32"};
    if (climb(&l, &o)) {
        struct ladder_count all = ladder_count(&l, NULL);
        CHECK(all.keys == 25 && all.pass == 25 && l.n_rungs == 6 && l.n_missing == 0);
        for (int i = 0; i < l.n_rungs; i++)
            CHECK(ladder_count(&l, &l.rungs[i]).keys > 0);
        CHECK(key_named(&l, "decoder", "embedding")->injected.exact);
    }
    ladder_release(&l);
    // Angles that the configuration does not give are seen where they come up, and there alone.
    char config[1300];
    struct str text;
    snprintf(config, sizeof config, "%s/config.json", workload);
    str_init(&text);
    REQUIRE_OK(file_read(&text, config, 1 << 16, &err), &err);
    char *theta = strstr(text.text, "1000000");
    REQUIRE(theta != NULL);
    memcpy(theta, "500000 ", 7);
    REQUIRE_OK(file_write(config, text.text, text.length, &err), &err);
    str_release(&text);
    if (climb(&l, &o)) {
        CHECK(ladder_count(&l, &l.rungs[0]).fail == 2 && ladder_count(&l, NULL).fail == 2);
        CHECK(key_named(&l, "decoder", "rope_cos")->injected.verdict == LADDER_FAIL);
    }
    ladder_release(&l);
}

// Products of bf16 operands throughout a request: x_in and all that holds a product falls from some 140 dB to some 50
// (2^-9 of an operand: 53 dB), what holds none does not move.
TEST(lab_ladder_plugin_a_request_of_bf16_products_shows)
{
    char directory[1200];
    struct ladder l;
    struct ladder_options o = {.reference = some_cases(directory, KLEIN, CASES("references")),
                               .precision = MATMUL_DEFAULT};
    if (climb(&l, &o)) {
        double in = injected_db(&l, "references/transformer", "image.in"),
               image = chained_db(&l, "references/pipeline", "image"),
               latent = chained_db(&l, "references/pipeline", "latent.4");
        if (!CHECK(in > 45 && in < 60 && image > 20 && image < 70 && latent > 20 && latent < 70))
            printf("  %.1f, %.1f, %.1f dB\n", in, image, latent);
        CHECK(l.emulated && key_named(&l, "references/noise", "latent")->injected.exact);
        CHECK(key_named(&l, "references/schedule", "times")->injected.exact);
        CHECK(injected_db(&l, "references/transformer", "rope_sin") > 130);
    }
    ladder_release(&l);
}

// Prompts of 512, 40 and 12 real tokens of 512, and the times 1, 0.77 and 0, in bf16.
TEST(lab_ladder_plugin_padding_and_times_in_bf16_are_near)
{
    char directory[1200];
    struct ladder l;
    struct ladder_options o = {.reference = some_cases(directory, KLEIN, CASES("padding", "times")), .policy = "bf16"};
    if (climb(&l, &o)) {
        struct ladder_count all = ladder_count(&l, NULL);
        CHECK(all.keys == 12 && all.fail == 0 && l.band == LADDER_BF16);
        CHECK(l.n_missing > 0); // of the other programs
    }
    ladder_release(&l);
}

TEST(lab_ladder_plugin_a_row_of_ids_for_each_prompt_is_asked_for)
{
    char directory[1200];
    struct ladder l;
    json_t *root = some_of(KLEIN, CASES("main"));
    json_object_set_new(json_array_get(json_object_get(root, "cases"), 0), "prompts", json_pack("[s]", "a"));
    struct ladder_options o = {.reference = directory_of(directory, KLEIN, root)};
    struct error err = {0};
    CHECK(ladder_run(&l, &o, NULL, &err) == ERR_INPUT); // 12 rows, one prompt
    if (!CHECK(strstr(err.message, "no row of ids for each of 1") != NULL))
        printf("  %s\n", err.message);
    ladder_release(&l);
}

// What is injected is the reference's: an error of one layer does not reach the keys behind it.
TEST(lab_ladder_plugin_an_injected_run_does_not_add_up)
{
    struct ladder l;
    struct ladder_options o = {.workload = MINILM, .reference = FIXTURES "minilm-f32", .policy = "bf16"};
    if (climb(&l, &o)) {
        const struct ladder_key *first = key_named(&l, "encoder", "layer.0"),
                                *last = key_named(&l, "encoder", "layer.5");
        CHECK(l.band == LADDER_BF16 && l.n_keys == 8);
        // Six layers of rounding to bf16: the chained signal falls by some 10 log10(6) dB, the injected stays.
        CHECK(first && last && last->injected.snr_db > first->chained.snr_db - 4);
        CHECK(last && last->chained.snr_db < last->injected.snr_db - 2);
    }
    ladder_release(&l);
}

TEST(lab_ladder_plugin_a_reference_in_bf16_is_held_to_decibels)
{
    struct ladder l;
    struct ladder_options o = {.workload = MINILM, .reference = FIXTURES "minilm-bf16"};
    if (climb(&l, &o)) {
        struct ladder_count all = ladder_count(&l, NULL);
        CHECK(l.band == LADDER_BF16 && strcmp(l.policy_name, "bf16") == 0 && all.fail == 0 && all.keys == 8);
    }
    ladder_release(&l);
}

// Rows of f32 that hold a product collapse to what bf16 operands give (2^-9 of an element: 53 dB), others do not
// change; three products bring nearly all of it back.
TEST(lab_ladder_plugin_f32_products_of_bf16_operands_show)
{
    double at[3] = {0};
    const enum matmul_precision precisions[] = {MATMUL_HIGHEST, MATMUL_HIGH, MATMUL_DEFAULT};
    for (int i = 0; i < 3; i++) {
        struct ladder l;
        struct ladder_options o = {.workload = MINILM, .reference = FIXTURES "minilm-f32", .precision = precisions[i]};
        if (climb(&l, &o)) {
            at[i] = key_named(&l, "encoder", "layer.3")->injected.snr_db;
            CHECK(l.emulated == (i > 0));
            CHECK(key_named(&l, "encoder", "embeddings")->injected.snr_db > 120);
        }
        ladder_release(&l);
    }
    if (!CHECK(at[0] > 110 && at[1] > 85 && at[1] < at[0] && at[2] > 35 && at[2] < 65))
        printf("  %.1f, %.1f, %.1f dB\n", at[0], at[1], at[2]);
}

static void refused(const char *json, const char *says)
{
    struct error err = {0};
    struct ladder_reference r = {0};
    arena_init(&r.arena);
    CHECK(ladder_reference_parse(&r, json, strlen(json), "reference.json", &err) == ERR_INPUT);
    if (!CHECK(strstr(err.message, says) != NULL))
        printf("  %s\n", err.message);
    arena_release(&r.arena);
}

TEST(lab_ladder_a_reference_that_says_too_little_is_refused)
{
    refused("[]", "");
    refused("{\"schema\": \"assay.reference/2\", \"model\": \"bert\", \"type\": \"f32\"}", "its schema is");
    refused("{\"schema\": \"assay.reference/1\", \"type\": \"f32\"}", "\"model\" is missing");
    refused("{\"schema\": \"assay.reference/1\", \"model\": \"bert\", \"type\": \"int8\"}",
            "not one of f32, bf16, f64");
    refused("{\"schema\": \"assay.reference/1\", \"model\": \"flux2\", \"type\": \"f32\", \"height\": 1e9}", "height");
#define F32 "{\"schema\": \"assay.reference/1\", \"model\": \"flux2\", \"type\": \"f32\", "
    refused(F32 "\"cases\": []}", "no list of 1 to 256 cases");
    refused(F32 "\"cases\": [{}]}", "has no name");
    refused(F32 "\"cases\": [{\"name\": \"a/b\"}]}", "has no name of letters");
    refused(F32 "\"cases\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}", "two cases are called");
    refused(F32 "\"references\": [[64]]}", "pairs of height and width");
    refused(F32 "\"prompts\": [1]}", "no list of texts");
}
