// SPDX-License-Identifier: Apache-2.0
// What a decoder keeps: published figures, transformers' own caches, and every rule on its own.
#include <math.h>
#include <string.h>

#include "fixture.h"
#include "plan/cache.h"
#include "test.h"

static struct layout ways(enum layout_axis axis, int64_t n)
{
    struct layout l = layout_single();
    l.ways[axis] = n;
    return l;
}

static struct cache cache_of(const struct arch *a, struct cache_options o, struct layout l)
{
    struct cache c;
    o.page = o.page ? o.page : 1;
    cache_on_device(a, &o, &l, 0, a->layers, &c);
    return c;
}

TEST(plan_cache_reference_figures)
{
    struct arch a = {.kind = ARCH_DECODER, .layers = 24, .heads = 16, .kv_heads = 8, .head_dim = 64, .v_head_dim = 64};
    struct cache_options o = {.sequences = 8, .tokens = 4096, .type = DT_BF16};
    // 2 * 8 * 4096 * 24 * 8 * 64 * 2 B is 1.5 GiB, and half of that in int8, before scales.
    CHECK_NEAR(cache_of(&a, o, layout_single()).raw, 1.5 * 0x1p30, 0);
    CHECK_NEAR(cache_of(&a, o, layout_single()).total, 1.5 * 0x1p30, 0);
    o.type = DT_S8;
    o.scales = true;
    struct cache c = cache_of(&a, o, layout_single());
    CHECK_NEAR(c.raw, 0.75 * 0x1p30, 0);
    CHECK_NEAR(c.scales, 8.0 * 4096 * 24 * 2 * 8 * 4, 0);
    CHECK_NEAR(c.total, c.raw + c.scales, 0);
    // Twice the context, twice the cache.
    o.tokens *= 2;
    CHECK_NEAR(cache_of(&a, o, layout_single()).raw, 1.5 * 0x1p30, 0);
    // Heads of keys and values count, not those of queries, and head_dim is the configuration's own.
    struct error e = {0};
    struct arena arena;
    arena_init(&arena);
    REQUIRE_OK(arch_builtin(&a, "qwen3-0.6b", &arena, &e), &e);
    o = (struct cache_options){.sequences = 1, .tokens = 1, .type = DT_BF16};
    CHECK_NEAR(cache_of(&a, o, layout_single()).raw, 2 * 28 * 8 * 128 * 2, 0);
    arena_release(&arena);
}

TEST(plan_cache_is_what_transformers_keeps)
{
    struct error e = {0};
    json_t *root = fixture_json("models/arch.json"), *m;
    size_t i, compared = 0;
    json_array_foreach(json_object_get(root, "models"), i, m)
    {
        struct arena arena;
        struct hf_config c;
        struct arch a;
        const json_t *cached = json_object_get(m, "cached");
        if (!json_is_integer(cached))
            continue;
        arena_init(&arena);
        char *text = json_dumps(json_object_get(m, "config"), JSON_COMPACT);
        REQUIRE_OK(hf_config_parse(&c, text, strlen(text), "config", &e), &e);
        REQUIRE_OK(arch_from_config(&a, &c, &arena, &e), &e);
        struct cache_options o = {.sequences = 1, .tokens = 7, .type = DT_S8};
        if (!CHECK_NEAR(cache_of(&a, o, layout_single()).raw, json_number_value(cached), 0))
            printf("    %s\n", json_string_value(json_object_get(m, "name")));
        compared++;
        free(text);
        hf_config_release(&c);
        arena_release(&arena);
    }
    CHECK(compared >= 12);
    json_decref(root);
}

TEST(plan_cache_of_latents)
{
    struct error e = {0};
    struct arena arena;
    struct arch a;
    arena_init(&arena);
    REQUIRE_OK(arch_builtin(&a, "deepseek-v3", &arena, &e), &e);
    struct cache_options o = {.sequences = 1, .tokens = 1, .type = DT_BF16};
    // 576 numbers, 1152 B a token and layer, without a factor 2.
    CHECK_NEAR(cache_of(&a, o, layout_single()).raw, 61 * 1152, 0);
    // On a TPU both parts come in multiples of 128.
    o.tpu = true;
    CHECK_NEAR(cache_of(&a, o, layout_single()).total, 61 * (512 + 128) * 2, 0);
    // vLLM's fp8_ds_mla: 656 B.
    o = (struct cache_options){.sequences = 1, .tokens = 1, .type = DT_F8E4M3FN, .scales = true};
    CHECK_NEAR(cache_of(&a, o, layout_single()).total, 61 * 656, 0);
    // Every way of tp holds the whole latent.
    o = (struct cache_options){.sequences = 1, .tokens = 4096, .type = DT_BF16};
    struct cache c = cache_of(&a, o, ways(LAYOUT_TP, 8));
    CHECK_NEAR(c.ideal, c.raw / 8, 0);
    CHECK_NEAR(c.total, c.raw, 0);
    CHECK_NEAR(c.copies, c.raw * 7 / 8, 0);
    arena_release(&arena);
}

TEST(plan_cache_heads_over_ways)
{
    struct arch a = {
        .kind = ARCH_DECODER, .layers = 10, .heads = 32, .kv_heads = 8, .head_dim = 128, .v_head_dim = 128};
    struct cache_options o = {.sequences = 4, .tokens = 1000, .type = DT_BF16};
    double raw = 2.0 * 4 * 1000 * 10 * 8 * 128 * 2;
    static const struct {
        enum layout_axis axis;
        int64_t n;
        double total, copies; // shares of raw
    } rows[] = {
        {LAYOUT_TP, 1, 1, 0},
        {LAYOUT_TP, 8, 1.0 / 8, 0},
        {LAYOUT_TP, 32, 1.0 / 8, 3.0 / 32}, // a head on four devices each
        {LAYOUT_ULYSSES, 16, 1.0 / 8, 1.0 / 16},
        {LAYOUT_DP, 4, 1.0 / 4, 0},
        {LAYOUT_FSDP, 4, 1.0 / 4, 0},
        {LAYOUT_DP, 8, 1.0 / 4, 1.0 / 8}, // four sequences over eight ways: one each on four of them
        {LAYOUT_RING, 4, 1.0 / 4, 0},
        {LAYOUT_RING, 3, 334.0 / 1000, 1.0 / 1500},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cache c = cache_of(&a, o, ways(rows[i].axis, rows[i].n));
        CHECK_NEAR(c.raw, raw, 0);
        CHECK_NEAR(c.total, raw * rows[i].total, 1); // of 1e8, divided in doubles
        CHECK_NEAR(c.copies, raw * rows[i].copies, 1);
    }
    // A stage of a pipeline has its layers alone.
    struct layout pp = ways(LAYOUT_PP, 4);
    struct cache c;
    o.page = 1;
    cache_on_device(&a, &o, &pp, 0, 3, &c);
    CHECK_NEAR(c.total, raw * 3 / 10, 1);
}

TEST(plan_cache_padding_and_pages)
{
    struct arch a = {.kind = ARCH_DECODER, .layers = 1, .heads = 4, .kv_heads = 1, .head_dim = 96, .v_head_dim = 96};
    struct cache_options o = {.sequences = 1, .tokens = 100, .type = DT_BF16, .tpu = true};
    // 2 heads make a word of bf16; 96 becomes 128.
    CHECK_NEAR(cache_of(&a, o, layout_single()).total, 100 * 2 * 128 * 2, 0);
    // In int8 four go into a word, so one head of K and V takes the room of two.
    o.type = DT_S8;
    CHECK_NEAR(cache_of(&a, o, layout_single()).total, 100 * 4 * 128, 0);
    CHECK_NEAR(cache_of(&a, o, layout_single()).raw, 100 * 2 * 96, 0);
    // head_dim 64 has K and V side by side.
    a.head_dim = a.v_head_dim = 64;
    a.kv_heads = 8;
    o.type = DT_BF16;
    CHECK_NEAR(cache_of(&a, o, layout_single()).padding, 0, 0);
    // Pages of 16 tokens: 100 tokens are 7 of them.
    o.page = 16;
    CHECK_NEAR(cache_of(&a, o, layout_single()).total, 7 * 16 * 2 * 8 * 64 * 2, 0);
}

TEST(plan_cache_windows)
{
    static const uint8_t flags[6] = {ARCH_LOCAL, ARCH_LOCAL, ARCH_LOCAL, ARCH_LOCAL, ARCH_LOCAL, 0};
    struct arch a = {.kind = ARCH_DECODER,
                     .layers = 6,
                     .heads = 8,
                     .kv_heads = 4,
                     .head_dim = 256,
                     .v_head_dim = 256,
                     .window = 1024,
                     .flags = flags};
    struct cache_options o = {.sequences = 3, .tokens = 32768, .type = DT_BF16};
    double token = 2 * 4 * 256 * 2;
    CHECK_NEAR(cache_of(&a, o, layout_single()).raw, 3 * token * (32768 + 5 * 1024), 0);
    // Shorter than the window: all layers alike.
    o.tokens = 1000;
    CHECK_NEAR(cache_of(&a, o, layout_single()).raw, 3 * token * 6 * 1000, 0);
    // ceil(min(W - 1 + chunk, T) / page) + 1 pages: ceil(3071 / 16) + 1 = 193.
    o = (struct cache_options){.sequences = 3, .tokens = 32768, .type = DT_BF16, .page = 16, .chunk = 2048};
    CHECK_NEAR(cache_of(&a, o, layout_single()).total, 3 * token * (32768 + 5 * 193 * 16), 0);
    struct str s;
    str_init(&s);
    cache_formula(&a, &o, &s);
    CHECK_STR(str_text(&s),
              "2 * 3 sequences * (1 layers * 32768 tokens + 5 layers * 1024 tokens of a window) * 4 heads * "
              "256 * 2 B");
    str_release(&s);
}
