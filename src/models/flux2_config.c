// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "models/flux2.h"

#define QWEN3(hidden_size, width, is_tied)                                                                             \
    {                                                                                                                  \
        .hidden = (hidden_size), .layers = 36, .heads = 32, .kv_heads = 8, .head_dim = 128, .intermediate = (width),   \
        .vocab = 151936, .eps = 1e-6, .rope_theta = 1e6, .qk_norm = true, .tied = (is_tied), .prefix = "model."        \
    }
#define DIT(n_double, n_single, n_heads, joint_width)                                                                  \
    {                                                                                                                  \
        .double_blocks = (n_double), .single_blocks = (n_single), .heads = (n_heads), .head_dim = 128,                 \
        .joint = (joint_width), .channels = 128, .time_channels = 256, .mlp = 3 * (n_heads)*128,                       \
        .axes = {32, 32, 32, 32}, .rope_theta = 2000, .eps = 1e-6                                                      \
    }
#define VAE                                                                                                            \
    {                                                                                                                  \
        .channels = {128, 256, 512, 512}, .layers = 2, .latent = 32, .groups = 32, .eps = 1e-6, .batch_norm_eps = 1e-4 \
    }
#define KLEIN(model, text_config, dit_config, n_steps, is_guided)                                                      \
    {                                                                                                                  \
        .name = (model), .text = text_config, .dit = dit_config, .vae = VAE, .taps = {9, 18, 27}, .text_tokens = 512,  \
        .steps = (n_steps), .guided = (is_guided)                                                                      \
    }

static const struct flux2_config list[] = {
    KLEIN("flux2-klein-4b", QWEN3(2560, 9728, true), DIT(5, 20, 24, 7680), 4, false),
    KLEIN("flux2-klein-9b", QWEN3(4096, 12288, false), DIT(8, 24, 32, 12288), 4, false),
    KLEIN("flux2-klein-base-4b", QWEN3(2560, 9728, true), DIT(5, 20, 24, 7680), 50, true),
    KLEIN("flux2-klein-base-9b", QWEN3(4096, 12288, false), DIT(8, 24, 32, 12288), 50, true),
    {.name = "flux2-tiny",
     .text = {.hidden = 48,
              .layers = 6,
              .heads = 4,
              .kv_heads = 2,
              .head_dim = 16,
              .intermediate = 96,
              .vocab = 512,
              .eps = 1e-6,
              .rope_theta = 1e6,
              .qk_norm = true,
              .tied = true,
              .prefix = "model."},
     .dit = {.double_blocks = 2,
             .single_blocks = 3,
             .heads = 2,
             .head_dim = 32,
             .joint = 144,
             .channels = 16,
             .time_channels = 256,
             .mlp = 192,
             .axes = {8, 8, 8, 8},
             .rope_theta = 2000,
             .eps = 1e-6},
     .vae = {.channels = {8, 16, 32, 32}, .layers = 2, .latent = 4, .groups = 4, .eps = 1e-6, .batch_norm_eps = 1e-4},
     .taps = {1, 3, 5},
     .text_tokens = 512,
     .steps = 4},
};

const char *flux2_name(int i)
{
    return i >= 0 && i < (int)(sizeof list / sizeof *list) ? list[i].name : NULL;
}

const struct flux2_config *flux2_builtin(const char *name)
{
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    }
    return NULL;
}

// ---- folders

struct file {
    const char *path;
    json_t *root;
};

// A list of exactly n numbers, each from 1 to `most`.
static int numbers(const struct file *f, const char *key, int n, int64_t most, int64_t *out, struct error *err)
{
    const json_t *values = json_object_get(f->root, key);
    if (!json_is_array(values) || json_array_size(values) != (size_t)n)
        return error_set(err, ERR_INPUT, f->path, "\"%s\" is no list of %d numbers", key, n);
    for (int i = 0; i < n; i++) {
        const json_t *v = json_array_get(values, (size_t)i);
        out[i] = json_is_integer(v) ? json_integer_value(v) : 0;
        if (out[i] < 1 || out[i] > most)
            return error_set(err, ERR_INPUT, f->path, "\"%s\"[%d] is not between 1 and %" PRId64, key, i, most);
    }
    return 0;
}

struct field {
    const char *key;
    int64_t *to, most;
};

static int fields(const struct file *f, const struct field *list_of, size_t n, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++)
        rc = json_get_positive(f->root, list_of[i].key, f->path, 0, list_of[i].most, list_of[i].to, err);
    return rc;
}

static int read_dit(const struct file *f, struct flux2_dit_config *c, struct error *err)
{
    const struct field of[] = {{"num_layers", &c->double_blocks, 1024},
                               {"num_single_layers", &c->single_blocks, 1024},
                               {"num_attention_heads", &c->heads, 1024},
                               {"attention_head_dim", &c->head_dim, 1024},
                               {"joint_attention_dim", &c->joint, 1 << 20},
                               {"in_channels", &c->channels, 1 << 16},
                               {"timestep_guidance_channels", &c->time_channels, 1 << 16}};
    double ratio = 0;
    int rc = fields(f, of, sizeof of / sizeof *of, err);
    if (!rc)
        rc = numbers(f, "axes_dims_rope", FLUX2_AXES, 1024, c->axes, err);
    if (!rc)
        rc = json_get_double_or(f->root, "mlp_ratio", f->path, 3, &ratio, err);
    if (!rc)
        rc = json_get_double_or(f->root, "rope_theta", f->path, 2000, &c->rope_theta, err);
    if (!rc)
        rc = json_get_double_or(f->root, "eps", f->path, 1e-6, &c->eps, err);
    if (rc)
        return rc;
    if (!(ratio > 0 && ratio <= 64) || !(c->rope_theta > 1) || !(c->eps >= 0))
        return error_set(err, ERR_INPUT, f->path, "\"mlp_ratio\", \"rope_theta\" or \"eps\" is out of range");
    int64_t sum = 0;
    for (int i = 0; i < FLUX2_AXES; i++)
        sum += c->axes[i] % 2 ? -1 - c->head_dim : c->axes[i];
    if (sum != c->head_dim || c->time_channels % 2)
        return error_set(err, ERR_INPUT, f->path,
                         "\"axes_dims_rope\" are not even numbers that add up to the head's %" PRId64
                         ", or \"timestep_guidance_channels\" is odd",
                         c->head_dim);
    if (json_is_true(json_object_get(f->root, "guidance_embeds")))
        return error_set(err, ERR_INPUT, f->path,
                         "\"guidance_embeds\" is true: models with a guidance embedding "
                         "(FLUX.2-dev) are not supported");
    c->mlp = (int64_t)(ratio * (double)(c->heads * c->head_dim));
    return 0;
}

static int read_vae(const struct file *f, struct flux2_vae_config *c, struct error *err)
{
    const struct field of[] = {{"layers_per_block", &c->layers, 64},
                               {"latent_channels", &c->latent, 4096},
                               {"norm_num_groups", &c->groups, 4096}};
    int rc = fields(f, of, sizeof of / sizeof *of, err);
    if (!rc)
        rc = numbers(f, "block_out_channels", FLUX2_LEVELS, 1 << 16, c->channels, err);
    if (!rc)
        rc = json_get_double_or(f->root, "batch_norm_eps", f->path, 1e-4, &c->batch_norm_eps, err);
    c->eps = 1e-6;
    for (int i = 0; i < FLUX2_LEVELS && !rc; i++) {
        if (c->channels[i] % c->groups)
            rc = error_set(err, ERR_INPUT, f->path,
                           "\"norm_num_groups\" %" PRId64 " does not divide %" PRId64 " channels", c->groups,
                           c->channels[i]);
    }
    return rc;
}

static int read_text(const char *directory, struct decoder_config *c, struct error *err)
{
    char path[1100];
    struct hf_config config;
    if (snprintf(path, sizeof path, "%s/text_encoder", directory) >= (int)sizeof path)
        return error_set(err, ERR_INPUT, directory, "the path is too long");
    int rc = hf_config_open(&config, path, err);
    if (rc)
        return rc;
    rc = decoder_config_read(c, &config, err);
    hf_config_release(&config);
    return rc;
}

// A distilled model needs no guidance; one whose index does not say so is a base model. Which layers of the text
// encoder are read is an argument of diffusers' pipeline; a model that needs others than its defaults says so here.
static int read_index(const struct file *f, struct flux2_config *c, struct error *err)
{
    int64_t taps[3];
    const char *class = json_string_value(json_object_get(f->root, "_class_name"));
    c->kept_references = class && strcmp(class, "Flux2KleinKVPipeline") == 0; // of which all are distilled
    c->guided = !c->kept_references && !json_is_true(json_object_get(f->root, "is_distilled"));
    c->steps = c->guided ? 50 : 4;
    if (!json_object_get(f->root, "text_encoder_out_layers"))
        return 0;
    int rc = numbers(f, "text_encoder_out_layers", 3, 1024, taps, err);
    for (int i = 0; i < 3 && !rc; i++)
        c->taps[i] = (int)taps[i];
    return rc;
}

// "4B", "9B" by the width of a text encoder's stream; NULL for another.
static const char *size_of(int64_t hidden)
{
    return hidden == 2560 ? "4B" : hidden == 4096 ? "9B" : NULL;
}

int flux2_check_fit(const struct flux2_config *c, const char *where, struct error *err)
{
    if (c->taps[2] > c->text.layers)
        return error_set(err, ERR_INPUT, where, "the text encoder has %" PRId64 " layers, and layer %d is read",
                         c->text.layers, c->taps[2]);
    const char *text = size_of(c->text.hidden), *dit = c->dit.joint % 3 ? NULL : size_of(c->dit.joint / 3);
    if (3 * c->text.hidden != c->dit.joint && text && dit)
        return error_set(err, ERR_INPUT, where,
                         "the text encoder is that of klein-%s (Qwen3-%s, hidden size %" PRId64
                         ") and the transformer that of klein-%s, which takes 3 x %" PRId64
                         " features (Qwen3-%s): take both from the same model",
                         text, text[0] == '4' ? "4B" : "8B", c->text.hidden, dit, c->dit.joint / 3,
                         dit[0] == '4' ? "4B" : "8B");
    if (3 * c->text.hidden != c->dit.joint)
        return error_set(err, ERR_INPUT, where,
                         "the text encoder gives 3 x %" PRId64 " features and the transformer takes %" PRId64
                         ": a 4B transformer goes with Qwen3-4B (2560), a 9B one with Qwen3-8B (4096)",
                         c->text.hidden, c->dit.joint);
    if (4 * c->vae.latent != c->dit.channels)
        return error_set(err, ERR_INPUT, where,
                         "the transformer makes %" PRId64 " channels and the image decoder takes 4 x %" PRId64,
                         c->dit.channels, c->vae.latent);
    return 0;
}

int flux2_parse(struct flux2_config *c, enum flux2_file which, const char *text, size_t n, const char *path,
                struct error *err)
{
    json_error_t at;
    struct file f = {path, json_loadb(text, n, JSON_REJECT_DUPLICATES, &at)};
    int rc = 0;
    if (!json_is_object(f.root))
        rc = error_set(err, ERR_INPUT, path, "is no JSON object (line %d)", f.root ? 1 : at.line);
    else if (which == FLUX2_INDEX)
        rc = read_index(&f, c, err);
    else
        rc = which == FLUX2_VAE ? read_vae(&f, &c->vae, err) : read_dit(&f, &c->dit, err);
    json_decref(f.root);
    return rc;
}

int flux2_open(struct flux2_config *c, const char *directory, struct error *err)
{
    static const char *const names[] = {[FLUX2_TRANSFORMER] = "transformer/config.json",
                                        [FLUX2_VAE] = "vae/config.json",
                                        [FLUX2_INDEX] = "model_index.json"};
    int rc = 0;
    memset(c, 0, sizeof *c);
    c->name = directory;
    c->taps[0] = 9, c->taps[1] = 18, c->taps[2] = 27;
    c->text_tokens = 512;
    for (int i = 0; i < 3 && !rc; i++) {
        char path[1100];
        struct str text;
        str_init(&text);
        if (snprintf(path, sizeof path, "%s/%s", directory, names[i]) >= (int)sizeof path)
            rc = error_set(err, ERR_INPUT, directory, "the path is too long");
        if (!rc)
            rc = file_read(&text, path, (size_t)1 << 20, err);
        if (!rc)
            rc = flux2_parse(c, (enum flux2_file)i, str_text(&text), text.length, path, err);
        str_release(&text);
    }
    if (!rc)
        rc = read_text(directory, &c->text, err);
    return rc ? rc : flux2_check_fit(c, directory, err);
}

bool flux2_is_folder(const char *directory)
{
    char path[1100];
    bool found = true;
    static const char *const names[2] = {"transformer/config.json", "vae/config.json"};
    for (int i = 0; i < 2; i++) {
        int n = snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        found = found && n < (int)sizeof path && file_exists(path);
    }
    return found;
}
