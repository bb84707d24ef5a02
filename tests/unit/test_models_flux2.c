// SPDX-License-Identifier: Apache-2.0
// Configurations of FLUX.2 folders and of decoders: what their files say, and what is refused, file and key named.
#include <sys/stat.h>

#include "base/file.h"
#include "models/flux2.h"
#include "test.h"

#define TRANSFORMER                                                                                                    \
    "{\"num_layers\": 5, \"num_single_layers\": 20, \"num_attention_heads\": 24, \"attention_head_dim\": 128, "        \
    "\"joint_attention_dim\": 7680, \"in_channels\": 128, \"timestep_guidance_channels\": 256, \"mlp_ratio\": 3.0, "   \
    "\"axes_dims_rope\": [32, 32, 32, 32], \"rope_theta\": 2000, \"eps\": 1e-06, \"guidance_embeds\": false}"
#define AUTOENCODER                                                                                                    \
    "{\"block_out_channels\": [128, 256, 512, 512], \"layers_per_block\": 2, \"latent_channels\": 32, "                \
    "\"norm_num_groups\": 32, \"batch_norm_eps\": 0.0001}"
#define ENCODER                                                                                                        \
    "{\"model_type\": \"qwen3\", \"hidden_size\": 2560, \"num_hidden_layers\": 36, \"num_attention_heads\": 32, "      \
    "\"num_key_value_heads\": 8, \"head_dim\": 128, \"intermediate_size\": 9728, \"vocab_size\": 151936, "             \
    "\"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000, \"tie_word_embeddings\": true, \"sliding_window\": null}"

static void put(const char *name, const char *text)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    FILE *f = fopen(path, "w");
    if (CHECK(f != NULL)) {
        CHECK(fputs(text, f) >= 0);
        CHECK_INT(fclose(f), 0);
    }
}

static void folder(void)
{
    static const char *const parts[] = {"transformer", "vae", "text_encoder"};
    for (int i = 0; i < 3; i++) {
        char path[1200];
        snprintf(path, sizeof path, "%s/%s", test_dir(), parts[i]);
        mkdir(path, 0755);
    }
    put("transformer/config.json", TRANSFORMER);
    put("vae/config.json", AUTOENCODER);
    put("text_encoder/config.json", ENCODER);
    put("model_index.json", "{\"is_distilled\": true}");
}

TEST(models_flux2_reads_a_folder)
{
    struct flux2_config c;
    struct error e = {0};
    const struct flux2_config *known = flux2_builtin("flux2-klein-4b");
    CHECK(!flux2_is_folder(test_dir()));
    folder();
    CHECK(flux2_is_folder(test_dir()));
    REQUIRE_OK(flux2_open(&c, test_dir(), &e), &e);
    CHECK(memcmp(&c.dit, &known->dit, sizeof c.dit) == 0);
    CHECK(memcmp(&c.vae, &known->vae, sizeof c.vae) == 0);
    CHECK(memcmp(c.taps, known->taps, sizeof c.taps) == 0);
    CHECK_INT(c.text.hidden, known->text.hidden);
    CHECK_INT(c.text.intermediate, known->text.intermediate);
    CHECK(c.text.qk_norm && c.text.tied && c.text.rope_theta == 1e6);
    CHECK_INT(c.steps, 4);
    CHECK(!c.guided);
    put("model_index.json", "{}"); // a base model does not say that it is distilled
    REQUIRE_OK(flux2_open(&c, test_dir(), &e), &e);
    CHECK_INT(c.steps, 50);
    CHECK(c.guided);
}

// In `name`, `from` becomes `to`; the message must have `want`.
static void refused(const char *name, const char *text, const char *from, const char *to, const char *want)
{
    char changed[2000];
    struct flux2_config c;
    struct error e = {0};
    const char *at = strstr(text, from);
    folder();
    REQUIRE(at != NULL);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    put(name, changed);
    CHECK_INT(flux2_open(&c, test_dir(), &e), ERR_INPUT);
    if (!CHECK(strstr(e.message, want) != NULL))
        printf("  %s: %s\n", e.where, e.message);
}

TEST(models_flux2_refuses_folders)
{
    refused("transformer/config.json", TRANSFORMER, "\"num_layers\": 5", "\"num_layers\": 0", "must be between 1 and");
    refused("transformer/config.json", TRANSFORMER, "\"num_layers\": 5, ", "", "num_layers");
    refused("transformer/config.json", TRANSFORMER, "[32, 32, 32, 32]", "[32, 32, 32, 30]", "add up to the head's 128");
    refused("transformer/config.json", TRANSFORMER, "[32, 32, 32, 32]", "[31, 33, 32, 32]", "not even numbers");
    refused("transformer/config.json", TRANSFORMER, "[32, 32, 32, 32]", "[32, 32, 32]", "no list of 4 numbers");
    refused("transformer/config.json", TRANSFORMER, "false", "true", "FLUX.2-dev");
    refused("transformer/config.json", TRANSFORMER, "3.0", "-3.0", "out of range");
    refused("transformer/config.json", TRANSFORMER, "{", "[{", "is no JSON object");
    refused("transformer/config.json", TRANSFORMER, "7680", "12288",
            "the text encoder is that of klein-4B (Qwen3-4B, hidden size 2560) and the transformer that of klein-9B");
    refused("vae/config.json", AUTOENCODER, "\"latent_channels\": 32", "\"latent_channels\": 16", "takes 4 x 16");
    refused("vae/config.json", AUTOENCODER, "\"norm_num_groups\": 32", "\"norm_num_groups\": 48", "does not divide");
    refused("text_encoder/config.json", ENCODER, "36", "26", "layer 27 is read");
    refused("text_encoder/config.json", ENCODER, "qwen3", "gpt2", "llama, mistral, qwen3");
    refused("text_encoder/config.json", ENCODER, "\"num_key_value_heads\": 8", "\"num_key_value_heads\": 5",
            "does not divide");
}

static int read_decoder(const char *text, struct decoder_config *d, struct error *e)
{
    struct hf_config c;
    int rc = hf_config_parse(&c, text, strlen(text), "config.json", e);
    if (rc)
        return rc;
    rc = decoder_config_read(d, &c, e);
    hf_config_release(&c);
    return rc;
}

// What Llama leaves out, and what is refused because it would give other numbers.
// Parts of two models: which is of which, and what goes with it.
TEST(models_flux2_says_which_part_is_of_which_model)
{
    struct flux2_config c = *flux2_builtin("flux2-klein-4b");
    struct error err = {0};
    CHECK(flux2_check_fit(&c, "here", &err) == 0);
    c.text = flux2_builtin("flux2-klein-9b")->text;
    CHECK_INT(flux2_check_fit(&c, "here", &err), ERR_INPUT);
    if (!CHECK(strstr(err.message, "the text encoder is that of klein-9B (Qwen3-8B, hidden size 4096) and the "
                                   "transformer that of klein-4B, which takes 3 x 2560 features (Qwen3-4B)") != NULL))
        printf("  %s\n", err.message);
    error_clear(&err);
    c = *flux2_builtin("flux2-klein-9b");
    c.text = flux2_builtin("flux2-klein-base-4b")->text;
    CHECK_INT(flux2_check_fit(&c, "here", &err), ERR_INPUT);
    if (!CHECK(strstr(err.message, "klein-4B (Qwen3-4B, hidden size 2560) and the transformer that of klein-9B") !=
               NULL))
        printf("  %s\n", err.message);
}

TEST(models_decoder_reads_configurations)
{
#define LLAMA                                                                                                          \
    "\"model_type\": \"llama\", \"hidden_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "           \
    "\"intermediate_size\": 96, \"vocab_size\": 100"
    struct decoder_config d;
    struct error e = {0};
    REQUIRE_OK(read_decoder("{" LLAMA ", \"rope_parameters\": {\"rope_theta\": 5e5}}", &d, &e), &e);
    CHECK_INT(d.kv_heads, 4);
    CHECK_INT(d.head_dim, 16);
    CHECK(!d.qk_norm && !d.tied && d.rope_theta == 5e5 && d.window == 0);
    CHECK_INT(read_decoder("{" LLAMA ", \"attention_bias\": true}", &d, &e), ERR_INPUT);
    CHECK(strstr(e.message, "biases") != NULL);
    CHECK_INT(read_decoder("{" LLAMA ", \"head_dim\": 15}", &d, &e), ERR_INPUT);
    CHECK_INT(read_decoder("{" LLAMA ", \"rope_theta\": 0.5}", &d, &e), ERR_INPUT);
    CHECK_INT(read_decoder("{\"model_type\": \"mistral\", \"sliding_window\": 8," LLAMA "}", &d, &e), ERR_INPUT);
}

// A sliding window is exact up to its length, and refused beyond.
TEST(models_decoder_refuses_sizes)
{
    struct decoder_config c = flux2_builtin("flux2-tiny")->text;
    static const struct {
        struct decoder_build how;
        const char *message;
    } refused_sizes[] = {
        {{.batch = 0, .seq = 8}, "from 1 to 65536"},
        {{.batch = 1, .seq = 0}, "from 1 to 1048576 tokens"},
        {{.batch = 1, .seq = 17, .phase = DECODER_PREFILL}, "17 tokens are more than the 16"},
        {{.batch = 1, .seq = 8, .n_taps = 1, .taps = {7}}, "layers 1 to 6"},
        {{.batch = 1, .seq = 8, .n_taps = 2, .taps = {3, 3}}, "layers 1 to 6"},
    };
    c.window = 16;
    for (size_t i = 0; i < sizeof refused_sizes / sizeof *refused_sizes; i++) {
        struct arena arena;
        struct module m;
        struct error e = {0};
        arena_init(&arena);
        module_init(&m, &arena, "m");
        CHECK_INT(decoder_module(&c, &refused_sizes[i].how, &m, &e), ERR_USAGE);
        if (!CHECK(strstr(e.message, refused_sizes[i].message) != NULL))
            printf("  %s\n", e.message);
        arena_release(&arena);
    }
}

// Descriptions of the built-in list give the parameters that are published.
TEST(models_decoder_of_an_architecture)
{
    static const char *const names[] = {"llama-3.1-70b", "qwen3-4b", "llama-3.2-1b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct arena arena;
        struct arch a;
        struct decoder_config c;
        struct module m;
        struct error e = {0};
        int64_t weights, scales;
        struct decoder_build how = {.phase = DECODER_STEP, .batch = 1, .seq = 16};
        arena_init(&arena);
        module_init(&m, &arena, "m");
        REQUIRE_OK(arch_builtin(&a, names[i], &arena, &e), &e);
        REQUIRE_OK(decoder_config_of(&c, &a, &e), &e);
        REQUIRE_OK(decoder_module(&c, &how, &m, &e), &e);
        module_weight_bytes(&m, &weights, &scales);
        CHECK_INT(weights, 4 * (int64_t)a.published); // f32, as the module is built
        arena_release(&arena);
    }
}
