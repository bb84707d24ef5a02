// SPDX-License-Identifier: Apache-2.0
// Bytes of weights: by configuration, by policy, and as containers of other programs hold them.
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "io/safetensors.h"
#include "plan/weights.h"
#include "test.h"

static void builtin(struct arch *a, struct arena *arena, const char *name)
{
    struct error e = {0};
    arena_init(arena);
    REQUIRE_OK(arch_builtin(a, name, arena, &e), &e);
}

// "total_size" of the publishers' indices: openai/gpt-oss-20b and -120b store experts in MXFP4 and the rest in bf16.
TEST(plan_weights_of_published_files)
{
    static const struct {
        const char *name;
        double bytes;
    } rows[] = {{"gpt-oss-20b", 13761264768}, {"gpt-oss-120b", 65248815744}, {"llama-3.1-70b", 141107412992}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error e = {0};
        struct arena arena;
        struct arch a;
        struct weights w;
        builtin(&a, &arena, rows[i].name);
        REQUIRE_OK(weights_from_arch(&w, &a, &arena, &e), &e);
        CHECK_NEAR(w.bytes + w.scale_bytes, rows[i].bytes, 0);
        CHECK_NEAR(w.parameters, a.published, 0);
        arena_release(&arena);
    }
}

TEST(plan_weights_of_300m)
{
    static const struct {
        const char *policy;
        double bytes;
    } rows[] = {{"f32", 1.2e9}, {"bf16", 0.6e9}};
    struct error e = {0};
    struct arena arena;
    struct arch a;
    struct weights w, under;
    struct policy p;
    arena_init(&arena);
    REQUIRE_OK(arch_from_count(&a, "300M", &arena, &e), &e);
    REQUIRE_OK(weights_from_arch(&w, &a, &arena, &e), &e);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        REQUIRE_OK(policy_parse(&p, rows[i].policy, &e), &e);
        REQUIRE_OK(weights_under_policy(&under, &w, &a, &p, &arena, &e), &e);
        CHECK_NEAR(under.bytes, rows[i].bytes, 0);
    }
    arena_release(&arena);
}

TEST(plan_weights_under_policies)
{
    struct error e = {0};
    struct arena arena;
    struct arch a;
    struct weights w, under;
    struct policy p;
    builtin(&a, &arena, "llama-3.1-8b");
    REQUIRE_OK(weights_from_arch(&w, &a, &arena, &e), &e);
    double vectors = 65 * 4096, matrices = w.parameters - vectors;
    // Scales are f32: one per output row (of all matrices), or one per 32 inputs.
    double rows = 2 * 128256 + 32.0 * (4096 + 2 * 1024 + 4096 + 2 * 14336 + 4096);
    REQUIRE_OK(policy_parse(&p, "w8a16", &e), &e);
    REQUIRE_OK(weights_under_policy(&under, &w, &a, &p, &arena, &e), &e);
    CHECK_NEAR(under.bytes, matrices + 4 * vectors, 0);
    CHECK_NEAR(under.scale_bytes, 4 * rows, 0);
    CHECK_NEAR(under.packed_elements, 0, 0);
    REQUIRE_OK(policy_parse(&p, "w4a16", &e), &e);
    REQUIRE_OK(weights_under_policy(&under, &w, &a, &p, &arena, &e), &e);
    CHECK_NEAR(under.bytes, matrices / 2 + 4 * vectors, 0);
    CHECK_NEAR(under.scale_bytes, 4 * matrices / 32, 0);
    // Four bits held in int8 arrays take a byte each.
    CHECK_NEAR(under.packed_elements, matrices, 0);
    CHECK_NEAR(under.unpacked_bytes, matrices / 2, 0);
    weights_unpack(&under);
    CHECK_NEAR(under.bytes, matrices + 4 * vectors, 0);
    // Totals say the same as the sum.
    struct weight_total totals[16];
    for (int by = 1; by < 4; by++) {
        size_t n = weights_totals(&under, &a, by & 1, by & 2, totals, 16);
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += totals[i].bytes;
        CHECK_NEAR(sum, under.bytes, 0);
        CHECK_INT(n, by == 1 ? 5 : by == 2 ? 2 : 5); // parts; matrices and vectors; and no part has both
        CHECK_STR(totals[0].part ? totals[0].part : "any", by & 1 ? "mlp" : "any");
        CHECK_STR(totals[0].type ? totals[0].type : "any", by & 2 ? "s4" : "any");
    }
    // Too few rows: the last takes the rest.
    CHECK_INT(weights_totals(&under, &a, true, true, totals, 2), 2);
    CHECK_NEAR(totals[0].bytes + totals[1].bytes, under.bytes, 0);
    arena_release(&arena);
}

TEST(plan_weights_on_a_device)
{
    struct error e = {0};
    struct arena arena;
    struct arch a;
    struct weights w;
    struct weights_local one, l;
    struct layout layout = layout_single();
    builtin(&a, &arena, "llama-3.1-8b");
    REQUIRE_OK(weights_from_arch(&w, &a, &arena, &e), &e);
    weights_on_device(&w, &a, &layout, &one);
    CHECK_NEAR(one.bytes, w.bytes, 0);
    CHECK_NEAR(one.elements, w.parameters, 0);
    CHECK_NEAR(one.largest_layer, 4096.0 * (4096 + 1024 + 1024 + 4096 + 3 * 14336 + 2), 0);
    // Everything but the norms is divided by tp.
    layout.ways[LAYOUT_TP] = 8;
    weights_on_device(&w, &a, &layout, &l);
    CHECK_NEAR(l.elements, (w.parameters - 65 * 4096) / 8 + 65 * 4096, 1e-3);
    // Over 32 ways each device holds one of the 8 heads of keys and values.
    layout.ways[LAYOUT_TP] = 32;
    weights_on_device(&w, &a, &layout, &l);
    double kv = 32.0 * 2 * 1024 * 4096;
    CHECK_NEAR(l.elements, (w.parameters - 65 * 4096 - kv) / 32 + kv / 8 + 65 * 4096, 1e-3);
    // Of four stages of eight layers the last has head and final norm, the first the embedding: as large but for a
    // norm.
    layout = layout_single();
    layout.ways[LAYOUT_PP] = 4;
    weights_on_device(&w, &a, &layout, &l);
    CHECK_NEAR(l.elements, 8 * one.largest_layer + 128256.0 * 4096 + 4096, 0);
    CHECK_INT(l.first, 24);
    CHECK_INT(l.last, 32);
    arena_release(&arena);

    // Experts are divided by ep, the rest is copied.
    builtin(&a, &arena, "mixtral-8x7b");
    REQUIRE_OK(weights_from_arch(&w, &a, &arena, &e), &e);
    double experts = 32.0 * 8 * 3 * 4096 * 14336;
    layout = layout_single();
    layout.ways[LAYOUT_EP] = 8;
    weights_on_device(&w, &a, &layout, &l);
    CHECK_NEAR(l.elements, w.parameters - experts * 7 / 8, 1e-3);
    CHECK_NEAR(a.active_parameters, a.parameters - experts * 6 / 8, 0);
    arena_release(&arena);
}

// --- containers
// -----------------------------------------------------------------------------------------------------------------

// dims end with a 0.
struct entry {
    const char *name;
    enum dtype dtype;
    int64_t dims[5];
};

// A safetensors file of zeros with these tensors, opened; `numbers` fills I64 tensors.
static void make(struct checkpoint *c, const struct entry *entries, size_t n, const int64_t *numbers)
{
    struct error e = {0};
    char path[512];
    struct safetensors_writer w;
    enum { MOST = 16 };
    static const uint8_t zeros[1 << 16];
    struct safetensors_entry written[MOST];
    snprintf(path, sizeof path, "%s/packed.safetensors", test_dir());
    REQUIRE(n <= MOST);
    for (size_t i = 0; i < n; i++) {
        written[i] = (struct safetensors_entry){entries[i].name, entries[i].dtype, 0, entries[i].dims};
        while (entries[i].dims[written[i].rank])
            written[i].rank++;
    }
    REQUIRE_OK(safetensors_writer_begin(&w, path, written, n, NULL, 0, &e), &e);
    for (size_t i = 0; i < n; i++) {
        size_t count, bytes;
        REQUIRE(size_product(entries[i].dims, written[i].rank, &count) &&
                dtype_bytes(entries[i].dtype, count, &bytes) && bytes <= sizeof zeros);
        const void *data = entries[i].dtype == DT_S64 && numbers ? (const void *)numbers : zeros;
        REQUIRE_OK(safetensors_writer_put(&w, i, data, bytes, &e), &e);
    }
    REQUIRE_OK(safetensors_writer_commit(&w, &e), &e);
    REQUIRE_OK(checkpoint_open(c, path, &e), &e);
}

TEST(plan_weights_packed_containers_count_codes)
{
    // Each holds one matrix of 64 outputs and 256 inputs, in 4 bits; the GPTQ file has 8 bits and no index, too.
    static const struct {
        const char *what, *type;
        struct entry entries[8];
        double elements;
    } rows[] = {
        {"gptq",
         "s4 in s32",
         {{"model.layers.3.mlp.up_proj.qweight", DT_S32, {32, 64}},
          {"model.layers.3.mlp.up_proj.qzeros", DT_S32, {2, 8}},
          {"model.layers.3.mlp.up_proj.scales", DT_F16, {2, 64}},
          {"model.layers.3.mlp.up_proj.g_idx", DT_S32, {256}}},
         64 * 256},
        {"gptq in 8 bits",
         "s8 in s32",
         {{"x.qweight", DT_S32, {64, 64}}, {"x.qzeros", DT_S32, {2, 16}}, {"x.scales", DT_F16, {2, 64}}},
         64 * 256},
        {"awq",
         "s4 in s32",
         {{"x.qweight", DT_S32, {256, 8}}, {"x.qzeros", DT_S32, {2, 8}}, {"x.scales", DT_F16, {2, 64}}},
         64 * 256},
        {"compressed-tensors",
         "s4 in s32",
         {{"x.weight_packed", DT_S32, {64, 32}}, {"x.weight_scale", DT_BF16, {64, 2}}, {"x.weight_shape", DT_S64, {2}}},
         64 * 256},
        {"mlx",
         "s4 in s32",
         {{"x.weight", DT_U32, {64, 32}}, {"x.scales", DT_BF16, {64, 4}}, {"x.biases", DT_BF16, {64, 4}}},
         64 * 256},
        {"bitsandbytes",
         "nf4",
         {{"x.weight", DT_U8, {8192, 1}},
          {"x.weight.absmax", DT_F32, {256}},
          {"x.weight.quant_map", DT_F32, {16}},
          {"x.weight.quant_state.bitsandbytes__nf4", DT_U8, {90}}},
         64 * 256},
        {"mxfp4",
         "mxfp4",
         {{"x.experts.up_blocks", DT_U8, {2, 32, 8, 16}}, {"x.experts.up_scales", DT_U8, {2, 32, 8}}},
         2 * 32 * 256},
        {"fp8", "f8e4m3fn", {{"x.weight", DT_F8E4M3FN, {64, 256}}, {"x.weight_scale_inv", DT_F32, {1, 2}}}, 64 * 256},
        {"int8", "s8", {{"x.weight", DT_S8, {64, 256}}, {"x.SCB", DT_F32, {64}}}, 64 * 256},
        {"plain, with an index",
         "bf16",
         {{"x.weight", DT_BF16, {64, 256}}, {"position_ids", DT_S64, {1, 1}}},
         64 * 256},
    };
    static const int64_t shape[2] = {64, 256};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error e = {0};
        struct arena arena;
        struct checkpoint c;
        struct weights w;
        size_t n = 0;
        while (n < 8 && rows[i].entries[n].name)
            n++;
        make(&c, rows[i].entries, n, shape);
        arena_init(&arena);
        REQUIRE_OK(weights_from_checkpoint(&w, &c, NULL, &arena, &e), &e);
        bool found = false;
        for (size_t k = 0; k < w.n; k++)
            found |= strcmp(w.list[k].type, rows[i].type) == 0 && w.list[k].elements == rows[i].elements;
        if (!CHECK_NEAR(w.parameters, rows[i].elements, 0) || !CHECK(found) ||
            !CHECK_NEAR(w.bytes + w.scale_bytes, (double)c.bytes, 0))
            printf("    %s\n", rows[i].what);
        arena_release(&arena);
        checkpoint_close(&c);
    }
}

TEST(plan_weights_of_files_that_only_look_packed)
{
    // A container without what belongs to it is what it says: integers, which are no parameters.
    static const struct entry entries[] = {{"a.qweight", DT_S32, {32, 64}}, {"b.qweight", DT_S32, {32, 64}},
                                           {"b.scales", DT_F16, {2, 64}},   {"c.weight_packed", DT_S32, {64, 32}},
                                           {"c.weight_shape", DT_S64, {2}}, {"d_blocks", DT_U8, {4, 16}}};
    static const int64_t shape[2] = {63, 256};
    struct error e = {0};
    struct arena arena;
    struct checkpoint c;
    struct weights w;
    make(&c, entries, sizeof entries / sizeof *entries, shape);
    arena_init(&arena);
    REQUIRE_OK(weights_from_checkpoint(&w, &c, NULL, &arena, &e), &e);
    CHECK_NEAR(w.parameters, 4 * 16, 0); // the bytes
    CHECK(w.note == NULL);
    CHECK_NEAR(w.bytes + w.scale_bytes, (double)c.bytes, 0);
    arena_release(&arena);
    checkpoint_close(&c);
}

TEST(plan_weights_names_tell_places)
{
    static const struct entry entries[] = {
        {"model.embed_tokens.weight", DT_BF16, {32, 8}},
        {"model.layers.0.self_attn.q_proj.weight", DT_BF16, {8, 8}},
        {"model.layers.1.self_attn.k_proj.weight", DT_BF16, {4, 8}},
        {"model.layers.1.mlp.experts.7.up_proj.weight", DT_BF16, {16, 8}},
        {"model.layers.1.mlp.gate.weight", DT_BF16, {8, 8}},
        {"model.layers.1.input_layernorm.weight", DT_BF16, {8}},
        {"blk.1.ffn_up.weight", DT_BF16, {16, 8}},
        {"blk.0.attn_v.weight", DT_BF16, {4, 8}},
        {"lm_head.weight", DT_BF16, {32, 8}},
        {"model.norm.weight", DT_BF16, {8}},
        {"vision_tower.encoder.layers.1.mlp.fc1.weight", DT_BF16, {8, 8}},
    };
    static const struct {
        const char *name;
        enum arch_part part;
        enum arch_split split;
        int64_t layer;
    } want[] = {
        {"model.embed_tokens.weight", ARCH_EMBEDDING, ARCH_VOCAB, WEIGHT_OUTSIDE_FIRST},
        {"model.layers.0.self_attn.q_proj.weight", ARCH_ATTENTION, ARCH_HEADS, 0},
        {"model.layers.1.self_attn.k_proj.weight", ARCH_ATTENTION, ARCH_KV_HEADS, 1},
        {"model.layers.1.mlp.experts.7.up_proj.weight", ARCH_EXPERT, ARCH_COLUMNS, 1},
        {"model.layers.1.mlp.gate.weight", ARCH_ROUTER, ARCH_WHOLE, 1},
        {"model.layers.1.input_layernorm.weight", ARCH_NORM, ARCH_WHOLE, 1},
        {"blk.1.ffn_up.weight", ARCH_MLP, ARCH_COLUMNS, 1},
        {"blk.0.attn_v.weight", ARCH_ATTENTION, ARCH_KV_HEADS, 0},
        {"lm_head.weight", ARCH_HEAD, ARCH_VOCAB, WEIGHT_OUTSIDE_LAST},
        {"model.norm.weight", ARCH_NORM, ARCH_WHOLE, WEIGHT_OUTSIDE_LAST},
        {"vision_tower.encoder.layers.1.mlp.fc1.weight", ARCH_VISION, ARCH_WHOLE, WEIGHT_OUTSIDE_FIRST},
    };
    static const uint8_t flags[2] = {0, ARCH_MOE};
    struct arch a = {.kind = ARCH_DECODER, .layers = 2, .kv_heads = 2, .flags = flags};
    struct error e = {0};
    struct arena arena;
    struct checkpoint c;
    struct weights w;
    make(&c, entries, sizeof entries / sizeof *entries, NULL);
    arena_init(&arena);
    REQUIRE_OK(weights_from_checkpoint(&w, &c, &a, &arena, &e), &e);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        size_t k = 0;
        while (k < w.n && strcmp(w.list[k].name, want[i].name) != 0)
            k++;
        REQUIRE(k < w.n);
        if (!CHECK_INT(w.list[k].part, want[i].part) || !CHECK_INT(w.list[k].split, want[i].split) ||
            !CHECK_INT(w.list[k].layer, want[i].layer))
            printf("    %s\n", want[i].name);
    }
    arena_release(&arena);
    checkpoint_close(&c);
}
