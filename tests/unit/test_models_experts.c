// SPDX-License-Identifier: Apache-2.0
// Decoders with experts, and with latent attention, against the shapes of transformers' modules
// (tests/oracle/experts.py).
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fixture.h"
#include "ir/cost.h"
#include "models/decoder.h"
#include "test.h"

struct built {
    double flop, weights, experts, read; // read: bytes of experts' weights in a call; weights, experts: parameters
};

static void build(const struct decoder_config *c, enum decoder_phase phase, int64_t batch, int64_t seq,
                  struct built *out)
{
    struct arena arena;
    struct module m;
    struct error e = {0};
    struct cost total;
    struct cost_row *rows;
    int n;
    int64_t weights, scales;
    struct decoder_build how = {.phase = phase, .batch = batch, .seq = seq};
    *out = (struct built){0};
    arena_init(&arena);
    module_init(&m, &arena, "m");
    REQUIRE_OK(decoder_module(c, &how, &m, &e), &e);
    REQUIRE_OK(cost_groups(&m, &arena, &rows, &n, &total, &e), &e);
    module_weight_bytes(&m, &weights, &scales);
    out->flop = cost_product_flop(&total);
    out->weights = (double)weights / 4;
    for (int i = 0; i < n; i++)
        out->read += strcmp(rows[i].group, EXPERTS_GROUP) == 0 ? rows[i].cost.weight_bytes : 0;
    for (int i = 0; i < m.n_parameters; i++) {
        const struct instruction *in = &m.instructions[m.parameters[i].instruction];
        if (strcmp(in->group, EXPERTS_GROUP) == 0)
            out->experts += (double)shape_elements(&in->shape);
    }
    arena_release(&arena);
}

static double number(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static bool check_run(const struct decoder_config *c, const struct arch *a, const json_t *model, const json_t *run)
{
    struct built prefill, step;
    int64_t batch = (int64_t)number(run, "batch"), seq = (int64_t)number(run, "seq");
    build(c, DECODER_PREFILL, batch, seq, &prefill);
    build(c, DECODER_STEP, batch, seq, &step);
    // Integers far below 2^53: exact in any order.
    bool same = CHECK_NEAR(prefill.flop, number(run, "prefill"), 0) & CHECK_NEAR(step.flop, number(run, "step"), 0);
    same &= CHECK_NEAR(step.weights, a->parameters, 0) & CHECK_NEAR(step.experts, number(model, "routed"), 0);
    // The mean of 4000 draws of a number whose deviation is below 5: within 0.4 of the expectation, five deviations of
    // a mean. A module has an integer of experts.
    double want = number(run, "touched"),
           layers = number(model, "routed") / number(model, "expert") / (double)c->experts.n;
    same &= CHECK_NEAR(experts_touched(&c->experts, (double)batch), want, 0.4);
    same &= CHECK_NEAR(step.read / (4 * number(model, "expert") * layers), want, 0.9);
    return same;
}

TEST(models_experts_multiply_and_read_what_transformers_modules_have)
{
    json_t *root = fixture_json("models/experts.json"), *m, *run;
    size_t i, k;
    json_t *models = json_object_get(root, "models");
    CHECK(json_array_size(models) >= 10);
    json_array_foreach(models, i, m)
    {
        struct arena arena;
        struct arch a;
        struct hf_config c;
        struct decoder_config d;
        struct error e = {0};
        char *text = json_dumps(json_object_get(m, "config"), JSON_COMPACT);
        arena_init(&arena);
        REQUIRE_OK(hf_config_parse(&c, text, strlen(text), "config.json", &e), &e);
        CHECK(decoder_is_described(c.model_type));
        REQUIRE_OK(arch_from_config(&a, &c, &arena, &e), &e);
        REQUIRE_OK(decoder_config_of(&d, &a, &e), &e);
        bool same = true;
        json_array_foreach(json_object_get(m, "runs"), k, run) same &= check_run(&d, &a, m, run);
        if (!same)
            printf("  of %s\n", json_string_value(json_object_get(m, "name")));
        hf_config_release(&c);
        free(text);
        arena_release(&arena);
    }
    json_decref(root);
}

// The last experts get what does not divide evenly, and no row is lost: an odd batch has the arithmetic of its rows.
TEST(models_experts_of_any_batch_do_the_work_of_its_rows)
{
    struct arena arena;
    struct arch a;
    struct decoder_config c;
    struct error e = {0};
    struct built one, many;
    arena_init(&arena);
    REQUIRE_OK(arch_builtin(&a, "qwen3-30b-a3b", &arena, &e), &e);
    REQUIRE_OK(decoder_config_of(&c, &a, &e), &e);
    c.layers = 1;
    build(&c, DECODER_STEP, 1, 16, &one);
    for (int64_t batch = 2; batch < 40; batch++) {
        build(&c, DECODER_STEP, batch, 16, &many);
        CHECK_NEAR(many.flop, (double)batch * one.flop, 0);
        CHECK(many.read >= one.read && many.read <= (double)batch * one.read && many.read <= 4 * many.experts);
    }
    arena_release(&arena);
}

TEST(models_experts_of_other_families_are_refused_by_name)
{
    static const char *const names[] = {"gpt-oss-20b", "gemma-2-2b", "qwen2.5-7b", "t5-small"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct arena arena;
        struct arch a;
        struct decoder_config c;
        struct error e = {0};
        arena_init(&arena);
        REQUIRE_OK(arch_builtin(&a, names[i], &arena, &e), &e);
        CHECK_INT(decoder_config_of(&c, &a, &e), ERR_USAGE);
        CHECK(strstr(e.message, a.family) != NULL && strstr(e.message, "qwen3_moe") != NULL);
        arena_release(&arena);
    }
}
