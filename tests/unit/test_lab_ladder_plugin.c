// SPDX-License-Identifier: Apache-2.0
// Ladders beside what transformers and diffusers computed (tests/oracle/ladder_reference.py).
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lab/ladder.h"
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

static void check_none_beyond(const struct ladder *l, size_t keys)
{
    struct ladder_count all = ladder_count(l, NULL);
    if (!CHECK(all.keys == keys && all.pass == keys && all.exact < keys))
        printf("  %zu keys, %zu pass, %zu warn, %zu fail\n", all.keys, all.pass, all.warn, all.fail);
    CHECK(l->n_missing == 0);
}

// Every rung of FLUX.2 but the tokenizer's, in f32, within a tenth of its bound or better.
TEST(lab_ladder_plugin_flux2_in_f32_passes)
{
    struct ladder l;
    struct ladder_options o = {.reference = FIXTURES "klein-tiny-f32"};
    if (climb(&l, &o)) {
        check_none_beyond(&l, 58);
        CHECK(l.band == LADDER_F32 && key_named(&l, "noise", "latent")->injected.exact);
        CHECK(key_named(&l, "pipeline", "image")->chained.known && !key_named(&l, "pipeline", "image")->injected.known);
    }
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
        CHECK(last->chained.snr_db < last->injected.snr_db - 2);
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
}
