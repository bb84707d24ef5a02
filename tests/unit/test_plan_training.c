// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "plan/training.h"
#include "test.h"

static struct layout tp(int64_t n, bool sp)
{
    struct layout l = layout_single();
    l.ways[LAYOUT_TP] = n;
    l.sp = sp;
    return l;
}

// Korthikanti et al., table 2: bytes of a layer with heads as wide as hidden, ffn of 4 hidden, dropout, 16 bits.
TEST(plan_training_activations_of_korthikanti)
{
    double s = 2048, b = 4, h = 6144, heads = 64;
    struct arch a = {.kind = ARCH_DECODER,
                     .layers = 48,
                     .hidden = (int64_t)h,
                     .heads = 64,
                     .kv_heads = 64,
                     .head_dim = 96,
                     .v_head_dim = 96,
                     .ffn = 4 * (int64_t)h,
                     .dropout = true};
    struct activation_options o = {b, s, REMAT_NONE, false, 2};
    static const int64_t widths[] = {1, 8};
    for (size_t i = 0; i < 2; i++) {
        double t = (double)widths[i];
        struct layout plain = tp(widths[i], false), sp = tp(widths[i], widths[i] > 1);
        o.flash = false;
        o.remat = REMAT_NONE;
        CHECK_NEAR(activation_layer_bytes(&a, false, &o, &plain), s * b * (h * (10 + 24 / t) + 5 * heads * s / t), 0);
        CHECK_NEAR(activation_layer_bytes(&a, false, &o, &sp), s * b * (34 * h + 5 * heads * s) / t, 0);
        o.remat = REMAT_SELECTIVE;
        CHECK_NEAR(activation_layer_bytes(&a, false, &o, &sp), s * b * h * 34 / t, 0);
        o.remat = REMAT_NONE;
        o.flash = true;
        CHECK_NEAR(activation_layer_bytes(&a, false, &o, &plain), s * b * h * (10 + 24 / t), 0);
        o.remat = REMAT_FULL;
        CHECK_NEAR(activation_layer_bytes(&a, false, &o, &plain), s * b * h * 2, 0);
    }
}

TEST(plan_training_activations_of_experts)
{
    struct arch a = {.kind = ARCH_DECODER,
                     .layers = 2,
                     .hidden = 64,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_dim = 16,
                     .v_head_dim = 16,
                     .ffn = 100,
                     .gated = true,
                     .experts = 8,
                     .active_experts = 3,
                     .expert_ffn = 40,
                     .shared_ffn = 24};
    struct activation_options o = {1, 1, REMAT_NONE, true, 2};
    struct layout l = layout_single();
    // Four of hidden, q and the attention's result, k and v, and three times the columns that a token passes.
    CHECK_NEAR(activation_layer_bytes(&a, false, &o, &l), 2 * (4 * 64 + 2 * 64 + 2 * 32 + 3 * 100), 0);
    CHECK_NEAR(activation_layer_bytes(&a, true, &o, &l), 2 * (4 * 64 + 2 * 64 + 2 * 32 + 3 * (3 * 40 + 24)), 0);
}

TEST(plan_training_state_by_recipe)
{
    struct weights_local w = {.elements = 1e6, .small_elements = 1e4, .factored = 3000};
    static const struct {
        const char *name;
        double bytes;
        const char *formula;
    } rows[] = {
        {"adam-18", 8e6, "2 weight + 4 gradient + 4 master + 8 moments = 18 B"},
        {"adam-16", 8e6, "2 weight + 2 gradient + 4 master + 8 moments = 16 B"},
        {"adam-8bit", 2 * (0.99e6 * (1 + 4.0 / 256) + 4e4),
         "2 weight + 4 gradient + 4 master + 2 (1 + 4/256) moments = 12.03 B"},
        {"adafactor", 12000, "2 weight + 4 gradient + 4 master = 10 B, + 4 (rows + columns) of each matrix"},
        {"sgd", 0, "2 weight + 4 gradient + 4 master = 10 B"},
        {"sgd-momentum", 4e6, "2 weight + 4 gradient + 4 master + 4 momentum = 14 B"},
    };
    struct error e = {0};
    struct recipe r;
    struct str s;
    str_init(&s);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_STR(recipe_name(i), rows[i].name);
        REQUIRE_OK(recipe_find(rows[i].name, &r, &e), &e);
        CHECK_NEAR(recipe_state_bytes(&r, &w), rows[i].bytes, 1e-6);
        str_clear(&s);
        recipe_formula(&r, &s);
        CHECK_STR(str_text(&s), rows[i].formula);
    }
    CHECK(recipe_name(6) == NULL);
    CHECK_INT(recipe_find("adamw", &r, &e), ERR_USAGE);
    CHECK(strstr(e.message, "adam-18, adam-16"));

    // The policy's fields go before the recipe's own.
    struct policy p;
    error_clear(&e);
    REQUIRE_OK(recipe_find("adam-18", &r, &e), &e);
    REQUIRE_OK(policy_parse(&p, "bf16,grad=bf16,opt=bf16", &e), &e);
    recipe_under_policy(&r, &p);
    str_clear(&s);
    recipe_formula(&r, &s);
    CHECK_STR(str_text(&s), "2 weight + 2 gradient + 4 master + 4 moments = 12 B");
    // f32 weights are their own master.
    REQUIRE_OK(recipe_find("adam-18", &r, &e), &e);
    REQUIRE_OK(policy_parse(&p, "f32", &e), &e);
    recipe_under_policy(&r, &p);
    str_clear(&s);
    recipe_formula(&r, &s);
    CHECK_STR(str_text(&s), "4 weight + 4 gradient + 8 moments = 16 B");
    str_release(&s);
}
