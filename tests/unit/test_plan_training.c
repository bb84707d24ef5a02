// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "fixture.h"
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

static double real(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

static struct arch flux2_of(const json_t *row)
{
    int64_t heads = (int64_t)real(row, "heads"), width = (int64_t)real(row, "head_dim");
    return (struct arch){.kind = ARCH_DIFFUSION,
                         .layers = (int64_t)(real(row, "double") + real(row, "single")),
                         .hidden = heads * width,
                         .heads = heads,
                         .kv_heads = heads,
                         .head_dim = width,
                         .v_head_dim = width,
                         .ffn = 3 * heads * width,
                         .channels = (int64_t)real(row, "channels"),
                         .text_width = (int64_t)real(row, "joint")};
}

// What diffusers' transformer keeps for one token more, in f32 and bf16, one image and two, rematerialised and not.
TEST(plan_training_of_flux2_keeps_what_torch_keeps)
{
    json_t *root = fixture_json("lab/saved.json");
    const json_t *rows = json_object_get(root, "flux2"), *row;
    size_t i;
    CHECK_INT(json_array_size(rows), 12);
    json_array_foreach(rows, i, row)
    {
        struct arch a = flux2_of(row), longer = a;
        bool remat = json_is_true(json_object_get(row, "remat"));
        enum remat how = remat ? REMAT_FULL : REMAT_NONE;
        double item = real(row, "item");
        a.text_tokens = 5;
        longer.text_tokens = 6;
        for (size_t images = 1; images <= 2; images++) {
            double n = (double)images;
            double blocks = n * (real(row, "double") * activation_block_bytes(&a, true, n, how, item) +
                                 real(row, "single") * activation_block_bytes(&a, false, n, how, item));
            double base = activation_around_bytes(&a, n, 7, item);
            double text = activation_around_bytes(&longer, n, 7, item) - base;
            double image = activation_around_bytes(&a, n, 8, item) - base;
            double tables = remat ? 8 * real(row, "head_dim") : 0; // there, but no tensor that is saved for a block
            bool ok = CHECK_NEAR(json_number_value(json_array_get(json_object_get(row, "text_token"), images - 1)),
                                 blocks + text - tables, 0);
            ok &= CHECK_NEAR(json_number_value(json_array_get(json_object_get(row, "image_token"), images - 1)),
                             blocks + image - tables, 0);
            if (!ok)
                printf("    row %zu, %zu images\n", i, images);
        }
    }
    json_decref(root);
}

// What T5's cross-attention keeps for one token more of either side, in f32 and without dropout.
TEST(plan_training_of_cross_attention_keeps_what_torch_keeps)
{
    json_t *root = fixture_json("lab/saved.json");
    const json_t *rows = json_object_get(root, "t5"), *row;
    struct layout l = layout_single();
    size_t i;
    CHECK_INT(json_array_size(rows), 2);
    json_array_foreach(rows, i, row)
    {
        int64_t heads = (int64_t)real(row, "heads"), width = (int64_t)real(row, "head_dim");
        double h = real(row, "hidden");
        struct arch a = {.kind = ARCH_ENCODER_DECODER,
                         .layers = 1,
                         .hidden = (int64_t)h,
                         .heads = heads,
                         .kv_heads = heads,
                         .head_dim = width,
                         .v_head_dim = width};
        struct activation_options o = {1, 5, REMAT_NONE, true, 4}, longer = {1, 6, REMAT_NONE, true, 4};
        double base = activation_cross_bytes(&a, &o, 7, &l);
        // T5's norm is several operations: it also keeps its input over the root, before the weights, and the root.
        CHECK_NEAR(real(row, "token"), activation_cross_bytes(&a, &longer, 7, &l) - base + 4 * h + 4, 0);
        // And the encoder's result, once for all layers.
        CHECK_NEAR(real(row, "seen_token"), activation_cross_bytes(&a, &o, 8, &l) - base + 4 * h, 0);
        // Scores, where they are whole: the softmax of each pair of tokens.
        o.flash = longer.flash = false;
        double corner = activation_cross_bytes(&a, &longer, 8, &l) - activation_cross_bytes(&a, &longer, 7, &l) -
                        activation_cross_bytes(&a, &o, 8, &l) + activation_cross_bytes(&a, &o, 7, &l);
        CHECK_NEAR(real(row, "pair"), corner, 0);
        // Rematerialised it keeps nothing of its own; tp divides all but the norm, sp that, too.
        o.flash = true;
        struct layout two = tp(2, false), sp = tp(2, true);
        double norm = 4 * 5 * 2 * h;
        CHECK_NEAR(activation_cross_bytes(&a, &o, 7, &two), norm + (base - norm) / 2, 0);
        CHECK_NEAR(activation_cross_bytes(&a, &o, 7, &sp), base / 2, 0);
        o.remat = REMAT_FULL;
        CHECK_NEAR(activation_cross_bytes(&a, &o, 7, &l), 0, 0);
    }
    json_decref(root);
}
