// SPDX-License-Identifier: Apache-2.0
#include "io/hf_config.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"

#define MAX_CONFIG_BYTES 16000000u
#define SUPPORTED        "bert"

// Reads a file as JSON; the caller releases *out.
static int read_json(const char *path, json_t **out, struct error *err)
{
    struct str text;
    str_init(&text);
    int rc = file_read(&text, path, MAX_CONFIG_BYTES, err);
    if (!rc) {
        *out = json_parse(str_text(&text), text.length, path, err);
        rc = *out ? 0 : ERR_INPUT;
    }
    str_release(&text);
    return rc;
}

static int copy_string(char *out, size_t size, const json_t *v, const char *path, const char *key, struct error *err)
{
    const char *s = json_string_value(v);
    if (!s || strlen(s) >= size)
        return error_set(err, ERR_INPUT, path, "\"%s\" must be a string of at most %zu bytes", key, size - 1);
    memcpy(out, s, strlen(s) + 1);
    return 0;
}

int hf_config_parse(struct hf_config *c, const char *text, size_t n, const char *path, struct error *err)
{
    memset(c, 0, sizeof *c);
    snprintf(c->path, sizeof c->path, "%s", path);
    c->root = json_parse(text, n, path, err);
    if (!c->root)
        return ERR_INPUT;
    int rc = 0;
    const json_t *type = json_object_get(c->root, "model_type");
    const json_t *architectures = json_object_get(c->root, "architectures");
    if (!json_is_object(c->root) || !type)
        rc = error_set(err, ERR_INPUT, path,
                       "is not the configuration of a model: \"model_type\" is missing (supported: " SUPPORTED ")");
    if (!rc)
        rc = copy_string(c->model_type, sizeof c->model_type, type, path, "model_type", err);
    if (!rc && json_array_size(architectures))
        rc = copy_string(c->architecture, sizeof c->architecture, json_array_get(architectures, 0), path,
                         "architectures", err);
    if (rc)
        hf_config_release(c);
    return rc;
}

int hf_config_open(struct hf_config *c, const char *path, struct error *err)
{
    memset(c, 0, sizeof *c);
    char file[sizeof c->path];
    if (snprintf(file, sizeof file, "%s%s", path, dir_exists(path) ? "/config.json" : "") >= (int)sizeof file)
        return error_set(err, ERR_INPUT, path, "the path is longer than %zu bytes", sizeof file - 1);
    struct str text;
    str_init(&text);
    int rc = file_read(&text, file, MAX_CONFIG_BYTES, err);
    if (!rc)
        rc = hf_config_parse(c, str_text(&text), text.length, file, err);
    str_release(&text);
    return rc;
}

void hf_config_release(struct hf_config *c)
{
    json_decref(c->root);
    memset(c, 0, sizeof *c);
}

// An integer in [1, most]; `absent` > 0 is its value when the key is not there.
static int positive(const struct hf_config *c, const char *key, int64_t absent, int64_t most, int64_t *out,
                    struct error *err)
{
    return json_get_positive(c->root, key, c->path, absent, most, out, err);
}

static int activation(const struct hf_config *c, enum hf_activation *out, struct error *err)
{
    static const struct {
        const char *name;
        enum hf_activation value;
    } known[] = {
        {"gelu", HF_GELU},           {"gelu_python", HF_GELU}, {"gelu_new", HF_GELU_TANH},
        {"gelu_fast", HF_GELU_TANH}, {"relu", HF_RELU},        {"gelu_pytorch_tanh", HF_GELU_TANH},
        {"silu", HF_SILU},           {"swish", HF_SILU},       {"tanh", HF_TANH},
    };
    const char *name = "gelu"; // the default of transformers' BertConfig
    if (json_object_get(c->root, "hidden_act")) {
        int rc = json_get_string(c->root, "hidden_act", c->path, &name, err);
        if (rc)
            return rc;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, name) == 0) {
            *out = known[i].value;
            return 0;
        }
    }
    return error_set(err, ERR_INPUT, c->path,
                     "\"hidden_act\": activation \"%s\" is not supported (gelu, gelu_new, relu, silu, tanh)", name);
}

static int check_positions(const struct hf_config *c, struct error *err)
{
    const json_t *v = json_object_get(c->root, "position_embedding_type");
    if (!v || (json_is_string(v) && strcmp(json_string_value(v), "absolute") == 0))
        return 0;
    return error_set(err, ERR_INPUT, c->path, "\"position_embedding_type\" is %s%s%s: only \"absolute\" is supported",
                     json_is_string(v) ? "\"" : "", json_is_string(v) ? json_string_value(v) : "not a string",
                     json_is_string(v) ? "\"" : "");
}

int hf_config_bert(const struct hf_config *c, struct bert_config *out, struct error *err)
{
    memset(out, 0, sizeof *out);
    if (strcmp(c->model_type, "bert") != 0)
        return error_set(err, ERR_INPUT, c->path, "model_type \"%s\" is not supported (supported: " SUPPORTED ")",
                         c->model_type);
    // Limits far above any model of the family: beyond them a file is damaged, and products of two still fit int64_t.
    const int64_t width = 1 << 20, rows = 1 << 26;
    int rc = positive(c, "hidden_size", 0, width, &out->hidden_size, err);
    if (!rc)
        rc = positive(c, "num_hidden_layers", 0, 4096, &out->num_hidden_layers, err);
    if (!rc)
        rc = positive(c, "num_attention_heads", 0, width, &out->num_attention_heads, err);
    if (!rc)
        rc = positive(c, "intermediate_size", 0, width, &out->intermediate_size, err);
    if (!rc)
        rc = positive(c, "vocab_size", 0, rows, &out->vocab_size, err);
    if (!rc)
        rc = positive(c, "max_position_embeddings", 0, rows, &out->max_position_embeddings, err);
    if (!rc)
        rc = positive(c, "type_vocab_size", 2, rows, &out->type_vocab_size, err);
    if (!rc)
        rc = json_get_double_or(c->root, "layer_norm_eps", c->path, 1e-12, &out->layer_norm_eps, err);
    if (!rc && !(out->layer_norm_eps > 0 && out->layer_norm_eps < 1))
        rc = error_set(err, ERR_INPUT, c->path, "\"layer_norm_eps\" is %g: it must be above 0 and below 1",
                       out->layer_norm_eps);
    if (!rc)
        rc = activation(c, &out->hidden_act, err);
    if (!rc)
        rc = check_positions(c, err);
    if (!rc && out->hidden_size % out->num_attention_heads)
        rc = error_set(err, ERR_INPUT, c->path, "\"hidden_size\" %lld is not a multiple of %lld attention heads",
                       (long long)out->hidden_size, (long long)out->num_attention_heads);
    return rc;
}

const char *pooling_mode_name(enum pooling_mode m)
{
    static const char *const names[] = {"mean", "cls", "max", "mean_sqrt_length"};
    return (unsigned)m < sizeof names / sizeof *names ? names[m] : "unknown";
}

// What pooling configurations call the modes: as a flag of its own, or as the value of "pooling_mode".
static const struct {
    const char *flag, *value;
    enum pooling_mode mode;
} poolings[] = {
    {"pooling_mode_mean_tokens", "mean", POOLING_MEAN},
    {"pooling_mode_cls_token", "cls", POOLING_CLS},
    {"pooling_mode_max_tokens", "max", POOLING_MAX},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", POOLING_MEAN_SQRT_LENGTH},
};
#define POOLINGS (sizeof poolings / sizeof *poolings)

static int pooling_of(const json_t *root, const char *path, enum pooling_mode *out, struct error *err)
{
    const json_t *mode = json_object_get(root, "pooling_mode");
    if (json_is_string(mode)) {
        for (size_t i = 0; i < POOLINGS; i++) {
            if (strcmp(json_string_value(mode), poolings[i].value) == 0) {
                *out = poolings[i].mode;
                return 0;
            }
        }
        return error_set(err, ERR_INPUT, path, "pooling \"%s\" is not supported (mean, cls, max, mean_sqrt_len_tokens)",
                         json_string_value(mode));
    }
    int found = 0;
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)root, key, v)
    {
        if (strncmp(key, "pooling_mode_", 13) != 0 || !json_is_true(v))
            continue;
        size_t i = 0;
        while (i < POOLINGS && strcmp(key, poolings[i].flag) != 0)
            i++;
        if (i == POOLINGS)
            return error_set(err, ERR_INPUT, path, "\"%s\" is not supported (mean, cls, max, mean_sqrt_len_tokens)",
                             key);
        *out = poolings[i].mode;
        found++;
    }
    if (found == 1)
        return 0;
    return error_set(err, ERR_INPUT, path, "%d pooling modes are switched on: exactly one is supported", found);
}

int pooling_parse(const char *text, size_t n, const char *path, enum pooling_mode *out, struct error *err)
{
    json_t *root = json_parse(text, n, path, err);
    int rc = root ? pooling_of(root, path, out, err) : ERR_INPUT;
    json_decref(root);
    return rc;
}

// Relative, and without a step upwards: a model directory must not reach elsewhere.
static bool stays_inside(const char *path)
{
    if (*path == '/')
        return false;
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        size_t n = strcspn(part, "/");
        if (n == 2 && memcmp(part, "..", 2) == 0)
            return false;
    }
    return true;
}

static int join(char out[1024], const char *directory, const char *a, const char *b, struct error *err)
{
    if (snprintf(out, 1024, "%s/%s%s", directory, a, b) >= 1024)
        return error_set(err, ERR_INPUT, directory, "the path is longer than 1023 bytes");
    return 0;
}

static int read_pooling(struct sentence_config *c, const char *directory, const char *module, const char *modules,
                        struct error *err)
{
    if (!stays_inside(module))
        return error_set(err, ERR_INPUT, modules, "module path \"%s\" leads out of the directory", module);
    char *path = c->pooling_path;
    int rc = join(path, directory, module, "/config.json", err);
    struct str text;
    str_init(&text);
    if (!rc)
        rc = file_read(&text, path, MAX_CONFIG_BYTES, err);
    if (!rc)
        rc = pooling_parse(str_text(&text), text.length, path, &c->pooling, err);
    str_release(&text);
    return rc;
}

static int read_modules(struct sentence_config *c, const char *directory, const char *path, const json_t *root,
                        struct error *err)
{
    bool pooled = false;
    c->normalize = false;
    if (!json_is_array(root))
        return error_set(err, ERR_INPUT, path, "must be an array of modules");
    for (size_t i = 0; i < json_array_size(root); i++) {
        const json_t *m = json_array_get(root, i);
        const char *type, *module;
        int rc = json_get_string(m, "type", path, &type, err);
        if (!rc)
            rc = json_get_string(m, "path", path, &module, err);
        if (rc)
            return rc;
        const char *dot = strrchr(type, '.');
        const char *name = dot ? dot + 1 : type;
        if (strcmp(name, "Pooling") == 0) {
            rc = read_pooling(c, directory, module, path, err);
            pooled = true;
        } else if (strcmp(name, "Normalize") == 0) {
            c->normalize = true;
        } else if (strcmp(name, "Transformer") != 0) {
            rc = error_set(err, ERR_INPUT, path, "module \"%s\" is not supported (Transformer, Pooling, Normalize)",
                           type);
        }
        if (rc)
            return rc;
    }
    return pooled ? 0 : error_set(err, ERR_INPUT, path, "lists no Pooling module");
}

static int read_length(struct sentence_config *c, const char *path, struct error *err)
{
    json_t *root = NULL;
    int rc = read_json(path, &root, err);
    if (!rc && json_is_null(json_object_get(root, "max_seq_length"))) {
        json_decref(root);
        return 0;
    }
    if (!rc)
        rc = json_get_int_or(root, "max_seq_length", path, 0, &c->max_seq_length, err);
    if (!rc && (c->max_seq_length < 0 || c->max_seq_length > 1 << 26))
        rc = error_set(err, ERR_INPUT, path, "\"max_seq_length\" is %lld", (long long)c->max_seq_length);
    json_decref(root);
    return rc;
}

int sentence_config_open(struct sentence_config *c, const char *directory, struct error *err)
{
    *c = (struct sentence_config){.pooling = POOLING_MEAN, .normalize = true};
    char path[1024];
    int rc = join(path, directory, "modules.json", "", err);
    if (!rc && file_exists(path)) {
        json_t *root = NULL;
        c->found = true;
        rc = read_json(path, &root, err);
        if (!rc)
            rc = read_modules(c, directory, path, root, err);
        json_decref(root);
    }
    if (!rc)
        rc = join(path, directory, "sentence_bert_config.json", "", err);
    if (!rc && file_exists(path))
        rc = read_length(c, path, err);
    return rc;
}
