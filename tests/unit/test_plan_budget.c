// SPDX-License-Identifier: Apache-2.0
// The whole budget: rows, layouts, what fits and what would; as the command and the library give it.
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "io/safetensors.h"
#include "plan/budget.h"
#include "schema.h"
#include "test.h"

static double row(const struct budget_case *c, const char *name)
{
    for (int i = 0; i < c->n_rows; i++) {
        if (strcmp(c->rows[i].name, name) == 0)
            return c->rows[i].device;
    }
    return 0;
}

static double group(const struct budget_case *c, enum budget_group g)
{
    double sum = 0;
    for (int i = 0; i < c->n_rows; i++)
        sum += c->rows[i].group == g ? c->rows[i].device : 0;
    return sum;
}

static void open_one(struct budget *b, struct budget_options o)
{
    struct error e = {0};
    REQUIRE_OK(budget_open(b, &o, &e), &e);
    REQUIRE(b->n_cases == 1);
}

TEST(plan_budget_18_bytes_a_parameter)
{
    static const struct {
        const char *train;
        double bytes; // of 300M parameters
    } rows[] = {{"adam-18", 5.4e9},
                {"adam-16", 4.8e9},
                {"sgd", 3.0e9},
                {"sgd-momentum", 4.2e9},
                {"adam-8bit", 300e6 * (10 + 2 * (1 + 4.0 / 256))}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct budget b;
        open_one(&b, (struct budget_options){.params = "300M", .train = rows[i].train});
        CHECK_NEAR(b.cases[0].device, rows[i].bytes, 0);
        CHECK_INT(b.cases[0].fits, false);
        CHECK(isnan(b.cases[0].limit));
        budget_close(&b);
    }
}

// Table 2.3 of the planner, that is of DeepSpeed's papers: what is divided by which ways.
TEST(plan_budget_state_over_layouts)
{
    static const struct {
        const char *layout;
        double weights, grads, state; // bytes a parameter
    } rows[] = {
        {"single", 2, 4, 12},
        {"dp=8", 2, 4, 12},
        {"dp=8,zero=1", 2, 4, 12.0 / 8},
        {"fsdp=8", 0.25, 0.5, 1.5},
        {"dp=8,zero=2", 2, 0.5, 1.5},
        {"dp=2,fsdp=4", 0.5, 1, 3},
        {"tp=4", 0.5, 1, 3},
        {"dp=2,tp=4,zero=1", 0.5, 1, 1.5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct budget b;
        open_one(&b, (struct budget_options){
                         .params = "1B", .train = "adam-18", .layouts = &rows[i].layout, .n_layouts = 1});
        const struct budget_case *c = &b.cases[0];
        CHECK_NEAR(row(c, "weights"), rows[i].weights * 1e9, 0);
        CHECK_NEAR(row(c, "gradients"), rows[i].grads * 1e9, 0);
        CHECK_NEAR(row(c, "master weights") + row(c, "optimizer state"), rows[i].state * 1e9, 0);
        budget_close(&b);
    }
}

TEST(plan_budget_serves_the_reference_cache)
{
    struct budget b;
    open_one(&b, (struct budget_options){.params = "300M", .cache = "24x8x64", .batch = 8, .seq = 4096});
    CHECK_NEAR(row(&b.cases[0], "cache: keys and values"), 1.5 * 0x1p30, 0);
    CHECK_NEAR(group(&b.cases[0], BUDGET_CACHE), 1.5 * 0x1p30, 0);
    budget_close(&b);
    open_one(&b, (struct budget_options){
                     .params = "300M", .cache = "24x8x64", .batch = 8, .seq = 4096, .policy = "bf16,kv=int8"});
    CHECK_NEAR(b.cases[0].rows[1].once, 0.75 * 0x1p30, 0);
    CHECK_NEAR(row(&b.cases[0], "cache: keys and values"), 0.75 * 0x1p30, 0);
    CHECK_NEAR(row(&b.cases[0], "cache: scales"), 2.0 * 8 * 4096 * 24 * 8 * 4, 0);
    budget_close(&b);
}

TEST(plan_budget_gathers_two_layers_under_fsdp)
{
    static const char *const layout = "fsdp=8", *const chip = "v6e:2x4";
    struct budget b;
    open_one(&b, (struct budget_options){.workload = "builtin:llama-3.1-8b",
                                         .train = "adam-18",
                                         .targets = &chip,
                                         .n_targets = 1,
                                         .layouts = &layout,
                                         .n_layouts = 1,
                                         .remat = "full",
                                         .seq = 2048,
                                         .batch = 8});
    const struct budget_case *c = &b.cases[0];
    double layer = 4096.0 * (4096 + 1024 + 1024 + 4096 + 3 * 14336 + 2);
    CHECK_NEAR(row(c, "gathered layers"), 2 * layer * 2 + layer * 4, 0);
    CHECK_NEAR(row(c, "weights"), 8030261248 * 2.0 / 8, 0);
    // One sequence a device: the input of 32 layers, one layer again, and the logits.
    CHECK_NEAR(row(c, "activations"), 32.0 * 2048 * 4096 * 2, 0);
    CHECK_NEAR(row(c, "logits"), 2048.0 * 128256 * 4, 0);
    CHECK(c->fits);
    CHECK_NEAR(c->limit, 31.25 * 0x1p30, 0);
    budget_close(&b);
}

// A device of tpu7x is half a chip, and what is usable is less than what is printed on it.
TEST(plan_budget_memory_of_devices)
{
    static const struct {
        const char *chip;
        double nominal, limit; // GiB
    } rows[] = {{"v6e", 32, 31.25}, {"tpu7x", 96, 94.75}, {"v5p-8", 95, 95.74}, {"h100", 80, 80}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static const char *const layout = "dp";
        struct budget b;
        open_one(&b, (struct budget_options){
                         .params = "1M", .targets = &rows[i].chip, .n_targets = 1, .layouts = &layout, .n_layouts = 1});
        CHECK_NEAR(b.cases[0].nominal.value, rows[i].nominal * 0x1p30, 0);
        CHECK_NEAR(b.cases[0].limit, rows[i].limit * 0x1p30, 1);
        CHECK_INT(layout_devices(&b.cases[0].layout), b.cases[0].target.devices);
        budget_close(&b);
    }
}

// What is said to fit does, and one more does not.
TEST(plan_budget_capacity_is_the_edge)
{
    static const struct {
        const char *model, *chip, *layout, *train, *policy;
    } rows[] = {
        {"builtin:llama-3.1-8b", "v6e", "single", NULL, NULL},
        {"builtin:llama-3.1-70b", "v6e:2x4", "tp", NULL, "w8a16,kv=int8"},
        {"builtin:gemma-3-27b", "v5p-8", "fsdp=2,tp=2", NULL, NULL},
        {"builtin:gpt-oss-20b", "h100", "single", NULL, NULL},
        {"builtin:deepseek-v3", "v5p:4x4x4", "ep", NULL, NULL},
        {"builtin:qwen3-8b", "v5p-8", "fsdp", "adam-18", NULL},
        {"builtin:bert-large", "l4", "single", NULL, NULL},
        {"builtin:whisper-large-v3", "v5e", "single", NULL, NULL},
        {"builtin:flux2-klein-4b", "v6e", "single", NULL, NULL},
        {"builtin:flux2-klein-9b", "v5p-8", "fsdp", "adafactor", NULL},
        {"builtin:t5-3b", "v5p-8", "fsdp", "adam-18", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct budget b;
        struct weights_local local;
        open_one(&b, (struct budget_options){.workload = rows[i].model,
                                             .targets = &rows[i].chip,
                                             .n_targets = 1,
                                             .layouts = &rows[i].layout,
                                             .n_layouts = 1,
                                             .train = rows[i].train,
                                             .policy = rows[i].policy});
        const struct budget_case *c = &b.cases[0];
        weights_on_device(&b.weights, &b.arch, &c->layout, &local);
        int64_t most = (int64_t)c->most_sequences, ways = layout_batch_ways(&c->layout);
        bool ok = CHECK(most > 0) && CHECK_INT(most % ways, 0);
        ok = ok && CHECK(budget_bytes(&b.job, &local, c, most, b.job.seq) <= c->limit);
        ok = ok && CHECK(budget_bytes(&b.job, &local, c, most + ways, b.job.seq) > c->limit);
        if (!isnan(c->most_tokens)) {
            int64_t tokens = (int64_t)c->most_tokens, step = b.job.train ? 1 : b.job.page;
            ok = ok && CHECK(budget_bytes(&b.job, &local, c, c->batch, tokens) <= c->limit);
            ok = ok && CHECK(budget_bytes(&b.job, &local, c, c->batch, tokens + step) > c->limit);
        }
        // The sum is that of the rows.
        double sum = 0;
        for (int k = 0; k < c->n_rows; k++)
            sum += c->rows[k].device;
        ok = ok && CHECK_NEAR(sum, c->device, 1e-6 * sum);
        if (!ok)
            printf("    %s on %s\n", rows[i].model, rows[i].chip);
        budget_close(&b);
    }
}

static double row_bytes(const struct budget_case *c, const char *name)
{
    for (int i = 0; i < c->n_rows; i++) {
        if (strcmp(c->rows[i].name, name) == 0)
            return c->rows[i].device;
    }
    return NAN;
}

// Text encoder and autoencoder are loaded, and nothing of them is trained.
TEST(plan_budget_of_training_flux2)
{
    static const struct {
        const char *model;
        double denoiser, width, doubles, singles;
    } rows[] = {{"builtin:flux2-klein-4b", 3875544576, 3072, 5, 20},
                {"builtin:flux2-klein-9b", 9078581248, 4096, 8, 24}};
    for (size_t i = 0; i < 2; i++) {
        struct budget b;
        open_one(&b, (struct budget_options){
                         .workload = rows[i].model, .train = "adam-18", .batch = 1, .height = 512, .width = 512});
        const struct budget_case *c = &b.cases[0];
        double d = rows[i].width, m = 3 * d, tokens = 512 + 1024, heads = d / 128;
        CHECK_NEAR(row_bytes(c, "weights"), 2 * b.arch.parameters, 0);
        CHECK_NEAR(row_bytes(c, "gradients"), 4 * rows[i].denoiser, 0);
        CHECK_NEAR(row_bytes(c, "master weights"), 4 * rows[i].denoiser, 0);
        CHECK_NEAR(row_bytes(c, "optimizer state"), 8 * rows[i].denoiser, 0);
        // 16 D + 4 M and 13 D + 4 M in two bytes, and what f32 norms of queries and keys and statistics add.
        double two = 2 * (16 * d + 4 * m) + 8 * d + 8 + 12 * heads,
               one = 2 * (13 * d + 4 * m) + 12 * d + 4 + 12 * heads;
        CHECK_NEAR(row_bytes(c, "activations"), tokens * (rows[i].doubles * two + rows[i].singles * one), 0);
        budget_close(&b);
        open_one(&b, (struct budget_options){.workload = rows[i].model,
                                             .train = "adam-18",
                                             .policy = "f32",
                                             .remat = "full",
                                             .batch = 2,
                                             .height = 512,
                                             .width = 512});
        c = &b.cases[0];
        CHECK_NEAR(row_bytes(c, "activations"), 2 * tokens * (rows[i].doubles + rows[i].singles) * d * 4, 0);
        CHECK_NEAR(row_bytes(c, "recomputed block"), 2 * tokens * (4 * (17 * d + 4 * m) + 16 + 12 * heads), 0);
        budget_close(&b);
    }
    // fsdp gathers the weights of two blocks, and one's gradients: a double one of 26 D^2 and four norms.
    static const char *const slice = "v6e:2x4", *const fsdp = "fsdp";
    struct budget b;
    open_one(&b, (struct budget_options){.workload = "builtin:flux2-klein-4b",
                                         .train = "adam-18",
                                         .targets = &slice,
                                         .n_targets = 1,
                                         .layouts = &fsdp,
                                         .n_layouts = 1});
    double block = 26 * 3072.0 * 3072 + 4 * 128; // 245.4 M parameters, 490.7 MB
    CHECK_NEAR(row_bytes(&b.cases[0], "gathered layers"), 2 * 2 * block + 4 * block, 0);
    budget_close(&b);
}

// A decoder that attends to an encoder keeps that, too; Whisper's encoder sees 1500 positions whatever is decoded.
TEST(plan_budget_of_training_encoder_decoders)
{
    struct budget b;
    open_one(&b, (struct budget_options){
                     .workload = "builtin:whisper-large-v3", .train = "adam-18", .batch = 1, .seq = 448});
    const struct budget_case *c = &b.cases[0];
    double d = 1280,
           layer = 2 * (4 * d + 4 * d + 2 * 5120) + 2 * d; // dropout: two masks, and one of the cross-attention
    CHECK_NEAR(row_bytes(c, "activations"), 448 * 32 * layer, 0);
    CHECK_NEAR(row_bytes(c, "activations: encoder"), 1500 * (32 * layer + 2 * d), 0);
    CHECK_NEAR(row_bytes(c, "activations: cross-attention"), 32 * (2 * (448 * 4 * d + 1500 * 2 * d) + 448 * d), 0);
    budget_close(&b);
}

TEST(plan_budget_says_what_would_fit)
{
    static const char *const chip = "v5e", *const layout = "single";
    struct budget b;
    open_one(&b, (struct budget_options){.workload = "builtin:llama-3.1-8b",
                                         .targets = &chip,
                                         .n_targets = 1,
                                         .layouts = &layout,
                                         .n_layouts = 1,
                                         .batch = 4});
    const struct budget_case *c = &b.cases[0];
    CHECK(!c->fits);
    CHECK_NEAR(c->most_sequences, 1, 0);
    static const char *const want[] = {"--batch 1)", "w8a16", "w4a16", "v5e:2x2 --layout fsdp=4",
                                       "v5e:2x2 --layout tp=4"};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        int k = 0;
        while (k < c->n_fixes && !strstr(c->fixes[k].change, want[i]))
            k++;
        if (!CHECK(k < c->n_fixes && c->fixes[k].fits && c->fixes[k].device <= c->limit))
            printf("    %s\n", want[i]);
    }
    budget_close(&b);
    // Training: less is kept, or stored otherwise.
    static const char *const slice = "v6e:2x2", *const fsdp = "fsdp";
    open_one(&b, (struct budget_options){.workload = "builtin:qwen3-4b",
                                         .targets = &slice,
                                         .n_targets = 1,
                                         .layouts = &fsdp,
                                         .n_layouts = 1,
                                         .train = "adam-18"});
    bool remat = false, optimizer = false;
    for (int k = 0; k < b.cases[0].n_fixes; k++) {
        remat |= strstr(b.cases[0].fixes[k].change, "--remat full") && b.cases[0].fixes[k].fits;
        optimizer |= strstr(b.cases[0].fixes[k].change, "--train adafactor") != NULL;
    }
    CHECK(!b.cases[0].fits && remat && optimizer);
    budget_close(&b);
}

TEST(plan_budget_shows_every_layout_that_can_be)
{
    static const char *const chip = "v6e:2x4";
    struct error e = {0};
    struct budget b;
    struct budget_options o = {.workload = "builtin:qwen3-14b", .targets = &chip, .n_targets = 1};
    REQUIRE_OK(budget_open(&b, &o, &e), &e);
    CHECK_INT(b.n_cases, 6); // all but ep
    CHECK(b.skipped && strstr(b.skipped, "ep: ep=8 divides experts"));
    budget_close(&b);
}

TEST(plan_budget_refuses)
{
    static const char *const v6e = "v6e:2x4", *const none = "v6e:3x3";
    static const char *const tp16 = "tp=16", *const ep = "ep", *const pp = "pp=2", *const ep2 = "ep=2";
    static const struct {
        struct budget_options o;
        int code;
        const char *says;
    } rows[] = {
        {{.workload = NULL}, ERR_USAGE, "give a model or --params"},
        {{.workload = "builtin:gpt2", .params = "1B"}, ERR_USAGE, "one of them"},
        {{.workload = "builtin:lama-3.1-8b"}, ERR_USAGE, "did you mean \"llama-3.1-8b\""},
        {{.workload = "/nonexistent"}, ERR_INPUT, "is no model"},
        {{.params = "0"}, ERR_USAGE, "above zero"},
        {{.params = "-5B"}, ERR_USAGE, "above zero"},
        {{.params = "300X"}, ERR_USAGE, "K, M, B or T"},
        {{.params = "1e9"}, ERR_USAGE, "K, M, B or T"},
        {{.params = "1.5.2B"}, ERR_USAGE, "K, M, B or T"},
        {{.params = "99999999T"}, ERR_USAGE, "K, M, B or T"},
        {{.params = "1B", .cache = "24x8"}, ERR_USAGE, "LAYERSxHEADSxDIM"},
        {{.params = "1B", .cache = "24x8x64x2"}, ERR_USAGE, "LAYERSxHEADSxDIM"},
        {{.params = "1B", .cache = "0x8x64"}, ERR_USAGE, "LAYERSxHEADSxDIM"},
        {{.workload = "builtin:gpt2", .cache = "24x8x64"}, ERR_USAGE, "goes with --params"},
        {{.params = "1B", .train = "adamw"}, ERR_USAGE, "adam-18"},
        {{.params = "1B", .train = "adafactor"}, ERR_USAGE, "shapes of matrices"},
        {{.params = "1B", .policy = "w9"}, ERR_USAGE, "preset"},
        {{.params = "1B", .remat = "some", .train = "sgd"}, ERR_USAGE, "none, selective or full"},
        {{.params = "1B", .targets = &none, .n_targets = 1}, ERR_USAGE, "2x4"},
        {{.params = "1B", .batch = -1}, ERR_USAGE, "above zero"},
        {{.params = "1B", .utilization = 1.5}, ERR_USAGE, "at most 1"},
        {{.workload = "builtin:llama-3.1-8b", .targets = &v6e, .n_targets = 1, .layouts = &tp16, .n_layouts = 1},
         ERR_USAGE,
         "16 ways, and there are 8 devices"},
        {{.workload = "builtin:gpt2", .layouts = &tp16, .n_layouts = 1},
         ERR_USAGE,
         "12 heads cannot be divided over tp=16"},
        {{.workload = "builtin:llama-3.1-8b", .targets = &v6e, .n_targets = 1, .layouts = &ep, .n_layouts = 1},
         ERR_USAGE,
         "this model has none"},
        {{.params = "1B", .layouts = &ep2, .n_layouts = 1}, ERR_USAGE, "which weights are experts' is not known"},
        {{.params = "1B", .layouts = &pp, .n_layouts = 1}, ERR_USAGE, "layers, and how many there are is not known"},
        {{.workload = "builtin:llama-3.1-405b", .batch = INT64_C(1) << 40, .seq = INT64_C(1) << 40},
         ERR_USAGE,
         "more than 2^53 bytes"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error e = {0};
        struct budget b;
        int rc = budget_open(&b, &rows[i].o, &e);
        if (!CHECK_INT(rc, rows[i].code) || !CHECK(strstr(e.message, rows[i].says)))
            printf("    %zu: %s\n", i, e.message);
        budget_close(&b);
    }
}

// --- models in files
// -----------------------------------------------------------------------------------------------------------------

static const char *config_file(const char *text)
{
    static char path[512];
    struct error e = {0};
    snprintf(path, sizeof path, "%s/config.json", test_dir());
    CHECK_INT(file_write(path, text, strlen(text), &e), 0);
    return path;
}

TEST(plan_budget_configs_that_cannot_be)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"{\"model_type\":\"mamba\"}", "is not known (known: llama, mistral"},
        {"{}", "model_type"},
        {"[1]", "model_type"},
        {"{\"model_type\":\"llama\"}", "\"num_hidden_layers\" is missing"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":0}", "from 1 to"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":-3}", "from 1 to"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":1e9}", "whole number"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":9999999999}", "from 1 to"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"hidden_size\":100,\"num_attention_heads\":7,"
         "\"vocab_size\":10,\"intermediate_size\":10}",
         "not a multiple of 7 heads"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"hidden_size\":128,\"num_attention_heads\":8,"
         "\"num_key_value_heads\":3,\"vocab_size\":10,\"intermediate_size\":10}",
         "cannot share 3 heads"},
        {"{\"model_type\":\"mixtral\",\"num_hidden_layers\":2,\"hidden_size\":128,\"num_attention_heads\":8,"
         "\"vocab_size\":10,\"intermediate_size\":10,\"num_local_experts\":2,\"num_experts_per_tok\":3}",
         "more than there are experts"},
        {"{\"model_type\":\"gemma3_text\",\"num_hidden_layers\":2,\"hidden_size\":128,\"intermediate_size\":10,"
         "\"layer_types\":[\"full_attention\"]}",
         "an entry for each of 2 layers"},
        {"{\"model_type\":\"gemma3_text\",\"num_hidden_layers\":1,\"hidden_size\":128,\"intermediate_size\":10,"
         "\"layer_types\":[\"linear_attention\"]}",
         "attention \"linear_attention\" is not known"},
        {"{\"model_type\":\"llama\",\"quantization_config\":{\"quant_method\":\"hqq\"}}",
         "method \"hqq\" is not known"},
        {"{\"model_type\":\"llama\",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":5}}", "5 bits"},
        // The widest of everything: more parameters than a double can count.
        {"{\"model_type\":\"mixtral\",\"num_hidden_layers\":4096,\"hidden_size\":1048576,\"num_attention_heads\":"
         "1048576,"
         "\"num_key_value_heads\":1048576,\"head_dim\":1048576,\"vocab_size\":67108864,\"intermediate_size\":1048576,"
         "\"num_local_experts\":65536,\"num_experts_per_tok\":65536}",
         "more than 2^53"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error e = {0};
        struct budget b;
        struct budget_options o = {.workload = config_file(rows[i].text)};
        int rc = budget_open(&b, &o, &e);
        if (!CHECK_INT(rc, ERR_INPUT) || !CHECK(strstr(e.message, rows[i].says)))
            printf("    %zu: %s\n", i, e.message);
        budget_close(&b);
    }
}

// Little-endian GGUF version 3 with numbers of 32 bits and one tensor.
struct gguf_bytes {
    uint8_t data[4096];
    size_t n;
};

static void put(struct gguf_bytes *g, const void *bytes, size_t n)
{
    REQUIRE(g->n + n <= sizeof g->data);
    memcpy(g->data + g->n, bytes, n);
    g->n += n;
}

static void put_u32(struct gguf_bytes *g, uint32_t v)
{
    put(g, &v, sizeof v);
}

static void put_u64(struct gguf_bytes *g, uint64_t v)
{
    put(g, &v, sizeof v);
}

static void put_text(struct gguf_bytes *g, const char *text)
{
    put_u64(g, strlen(text));
    put(g, text, strlen(text));
}

static const char *gguf_file(const char *architecture, const char *const *keys, const uint32_t *values, size_t n)
{
    static char path[512];
    static struct gguf_bytes g;
    struct error e = {0};
    memset(&g, 0, sizeof g);
    put(&g, "GGUF", 4);
    put_u32(&g, 3);
    put_u64(&g, 1);     // tensors
    put_u64(&g, n + 1); // metadata
    put_text(&g, "general.architecture");
    put_u32(&g, 8);
    put_text(&g, architecture);
    for (size_t i = 0; i < n; i++) {
        put_text(&g, keys[i]);
        put_u32(&g, 4);
        put_u32(&g, values[i]);
    }
    put_text(&g, "blk.1.ffn_up.weight");
    put_u32(&g, 2);
    put_u64(&g, 256);
    put_u64(&g, 4);
    put_u32(&g, 12); // Q4_K: 144 B of 256
    put_u64(&g, 0);
    g.n = (g.n + 31) / 32 * 32 + 4 * 144;
    snprintf(path, sizeof path, "%s/model.gguf", test_dir());
    CHECK_INT(file_write(path, g.data, g.n, &e), 0);
    return path;
}

TEST(plan_budget_reads_gguf)
{
    static const char *const keys[] = {"gemma3.block_count",
                                       "gemma3.embedding_length",
                                       "gemma3.feed_forward_length",
                                       "gemma3.attention.head_count",
                                       "gemma3.attention.head_count_kv",
                                       "gemma3.attention.key_length",
                                       "gemma3.attention.value_length",
                                       "gemma3.attention.sliding_window",
                                       "gemma3.vocab_size"};
    static const uint32_t values[] = {12, 640, 2048, 4, 1, 256, 256, 512, 1000};
    struct budget b;
    open_one(&b, (struct budget_options){.workload = gguf_file("gemma3", keys, values, 9), .seq = 2048, .page = 1});
    CHECK_INT(b.arch.layers, 12);
    CHECK_INT(arch_layers_local(&b.arch, 0, 12), 10);
    CHECK_INT(b.arch.vocab, 1000);
    CHECK_NEAR(b.weights.parameters, 1024, 0);
    CHECK_NEAR(b.weights.bytes, 576, 0);
    CHECK_STR(b.weights.list[0].type, "Q4_K");
    CHECK_NEAR(row(&b.cases[0], "cache: keys and values"), (2 * 2048 + 10 * 512) * 2 * 256 * 2, 0);
    budget_close(&b);

    struct error e = {0};
    struct budget_options o = {.workload = gguf_file("rwkv7", keys, values, 9)};
    CHECK_INT(budget_open(&b, &o, &e), ERR_INPUT);
    CHECK(strstr(e.message, "\"rwkv7\"") && strstr(e.message, "--weights-only"));
    budget_close(&b);
    o.weights_only = true;
    open_one(&b, o);
    CHECK_NEAR(b.cases[0].device, 576, 0);
    budget_close(&b);
    static const uint32_t wrong[] = {12, 640, 2048, 4, 3, 256, 256, 512, 1000};
    error_clear(&e);
    o = (struct budget_options){.workload = gguf_file("gemma3", keys, wrong, 9)};
    CHECK_INT(budget_open(&b, &o, &e), ERR_INPUT);
    CHECK(strstr(e.message, "cannot share 3 heads"));
    budget_close(&b);
    error_clear(&e);
    o.workload = gguf_file("gemma3", keys, values, 3);
    CHECK_INT(budget_open(&b, &o, &e), ERR_INPUT);
    CHECK(strstr(e.message, "\"gemma3.attention.head_count\" is missing"));
    budget_close(&b);
}

static const char *gguf_part(int i, const char *architecture, const uint8_t *split)
{
    static char path[512];
    static struct gguf_bytes g;
    struct error e = {0};
    memset(&g, 0, sizeof g);
    put(&g, "GGUF", 4);
    put_u32(&g, 3);
    put_u64(&g, 1);
    put_u64(&g, 2);
    put_text(&g, "general.architecture");
    put_u32(&g, 8);
    put_text(&g, architecture);
    put_text(&g, "split.count");
    put_u32(&g, 2); // u16
    put(&g, split, 2);
    put_text(&g, "t");
    put_u32(&g, 1);
    put_u64(&g, 32);
    put_u32(&g, 0); // f32
    put_u64(&g, 0);
    g.n = (g.n + 31) / 32 * 32 + 128;
    snprintf(path, sizeof path, "%s/big-%05d-of-00003.gguf", test_dir(), i);
    CHECK_INT(file_write(path, g.data, g.n, &e), 0);
    return path;
}

// A model over three files is counted whole, and a missing one is told.
TEST(plan_budget_reads_split_gguf)
{
    static const uint8_t three[2] = {3, 0};
    struct budget b;
    struct error e = {0};
    char first[512];
    gguf_part(2, "rwkv7", three);
    const char *third = gguf_part(3, "rwkv7", three);
    struct budget_options o = {.workload = third, .weights_only = true};
    CHECK_INT(budget_open(&b, &o, &e), ERR_INPUT);
    CHECK(strstr(e.message, "give the first, whose name ends with -00001-of-00003.gguf"));
    budget_close(&b);
    snprintf(first, sizeof first, "%s", gguf_part(1, "rwkv7", three));
    o.workload = first;
    open_one(&b, o);
    CHECK_NEAR(b.weights.parameters, 3 * 32, 0);
    CHECK_NEAR(b.cases[0].device, 3 * 128, 0);
    budget_close(&b);
    char second[512];
    snprintf(second, sizeof second, "%s/big-00002-of-00003.gguf", test_dir());
    CHECK_INT(remove(second), 0);
    error_clear(&e);
    CHECK_INT(budget_open(&b, &o, &e), ERR_INPUT);
    CHECK(strstr(e.where, "big-00002-of-00003.gguf"));
    budget_close(&b);
}

static void pipeline_model(const char *name, const char *file, int64_t rows)
{
    struct error e = {0};
    char path[512];
    int64_t dims[2] = {rows, 8};
    static const uint8_t zeros[1 << 12];
    struct safetensors_entry entry = {"weight", DT_BF16, 2, dims};
    struct safetensors_writer w;
    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    REQUIRE(mkdir(path, 0777) == 0);
    snprintf(path, sizeof path, "%s/%s/%s", test_dir(), name, file);
    REQUIRE_OK(safetensors_writer_begin(&w, path, &entry, 1, NULL, 0, &e), &e);
    REQUIRE_OK(safetensors_writer_put(&w, 0, zeros, (size_t)rows * 16, &e), &e);
    REQUIRE_OK(safetensors_writer_commit(&w, &e), &e);
}

TEST(plan_budget_adds_the_models_of_a_pipeline)
{
    struct error e = {0};
    struct budget b;
    char path[512];
    snprintf(path, sizeof path, "%s/model_index.json", test_dir());
    REQUIRE_OK(file_write(path, "{}", 2, &e), &e);
    struct budget_options o = {.workload = test_dir()};
    CHECK_INT(budget_open(&b, &o, &e), ERR_INPUT);
    CHECK(strstr(e.message, "none of the models"));
    budget_close(&b);
    pipeline_model("transformer", "diffusion_pytorch_model.safetensors", 40);
    pipeline_model("text_encoder", "model.safetensors", 20);
    pipeline_model("vae", "diffusion_pytorch_model.safetensors", 10);
    open_one(&b, o);
    CHECK_NEAR(b.cases[0].device, 70 * 16, 0);
    struct weight_total rows[8];
    CHECK_INT(weights_totals(&b.weights, &b.arch, true, false, rows, 8), 3);
    CHECK_STR(rows[0].part, "denoiser");
    CHECK_NEAR(rows[0].elements, 320, 0);
    CHECK_STR(rows[2].part, "image decoder");
    budget_close(&b);
}

// MiniLM as it is fetched: files and configuration agree, and the files' own types count.
TEST(plan_budget_reads_a_directory)
{
    char path[512];
    struct budget b;
    snprintf(path, sizeof path, "%s/third_party/models/minilm", test_top());
    open_one(&b, (struct budget_options){.workload = path});
    CHECK(b.weights.stored && !b.mismatch);
    CHECK_NEAR(b.weights.parameters, 22713216, 0);
    CHECK_NEAR(b.arch.parameters, 22713216, 0);
    CHECK_NEAR(row(&b.cases[0], "cache: keys and values"), 0, 0);
    budget_close(&b);
    open_one(&b, (struct budget_options){.workload = path, .policy = "w8a16"});
    CHECK(!b.weights.stored);
    CHECK(b.weights.bytes < 22713216 * 1.05);
    budget_close(&b);
}

TEST(plan_budget_documents_follow_their_schema)
{
    static const char *const chips[] = {"v6e:2x4", "h100"};
    const struct budget_options rows[] = {
        {.params = "300M", .train = "adam-18"},
        {.params = "300M", .cache = "24x8x64"},
        {.workload = "builtin:deepseek-v3", .targets = chips, .n_targets = 2},
        {.workload = "builtin:gpt-oss-20b", .policy = "w4a16,kv=fp8", .unpacked = true},
        {.workload = "builtin:flux2-klein-4b", .targets = chips, .n_targets = 1},
        {.workload = "builtin:bert-base", .train = "adafactor", .remat = "selective", .naive_attention = true},
        {.workload = "builtin:t5-small"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error e = {0};
        struct budget b;
        struct str s;
        struct jw w;
        str_init(&s);
        REQUIRE_OK(budget_open(&b, &rows[i], &e), &e);
        str_add(&s, "{\"schema\": \"assay.budget/1\", \"assay\": \"0\", \"record\": null, \"result\": ");
        jw_init(&w, &s, false);
        REQUIRE_OK(budget_json(&b, &w, &e), &e);
        REQUIRE_OK(jw_finish(&w, &e), &e);
        str_add(&s, "}");
        CHECK_SCHEMA("assay.budget.1.json", str_text(&s), s.length);
        str_release(&s);
        budget_close(&b);
    }
}
