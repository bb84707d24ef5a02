// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "models/decoder.h"

// An integer in [1, most]; `absent` > 0 is its value when the key is not there, or null.
static int number(const struct hf_config *c, const char *key, int64_t absent, int64_t most, int64_t *out,
                  struct error *err)
{
    bool none = absent && json_is_null(json_object_get(c->root, key));
    return json_get_positive(none ? NULL : c->root, key, c->path, absent, most, out, err);
}

// rope_theta, or what newer files have in its place: rope_parameters.rope_theta.
static int rope(const struct hf_config *c, double *theta, struct error *err)
{
    const json_t *inside = json_object_get(c->root, "rope_parameters");
    const json_t *from = json_is_object(inside) && json_object_get(inside, "rope_theta") ? inside : c->root;
    int rc = json_get_double_or(from, "rope_theta", c->path, 10000, theta, err);
    if (!rc && !(*theta > 1 && *theta < 1e30))
        rc = error_set(err, ERR_INPUT, c->path, "\"rope_theta\" is %g: it must be above 1", *theta);
    return rc;
}

// Mistral's layers see so many tokens; Qwen3's only where it says that it uses the window.
static int sliding_window(const struct hf_config *c, int64_t *window, struct error *err)
{
    const json_t *value = json_object_get(c->root, "sliding_window"),
                 *used = json_object_get(c->root, "use_sliding_window");
    *window = 0;
    if (!value || json_is_null(value) || json_is_false(used) || (strcmp(c->model_type, "mistral") != 0 && !used))
        return 0;
    return number(c, "sliding_window", 0, INT64_C(1) << 40, window, err);
}

static int check(const struct hf_config *c, const struct decoder_config *d, struct error *err)
{
    if (d->heads % d->kv_heads)
        return error_set(err, ERR_INPUT, c->path,
                         "\"num_key_value_heads\" %" PRId64 " does not divide \"num_attention_heads\" %" PRId64,
                         d->kv_heads, d->heads);
    if (d->head_dim % 2)
        return error_set(err, ERR_INPUT, c->path, "heads of %" PRId64 " features cannot be rotated in pairs",
                         d->head_dim);
    if (json_is_true(json_object_get(c->root, "attention_bias")) || json_is_true(json_object_get(c->root, "mlp_bias")))
        return error_set(err, ERR_INPUT, c->path, "its projections have biases, which are not supported");
    return 0;
}

int decoder_config_read(struct decoder_config *d, const struct hf_config *c, struct error *err)
{
    const struct {
        const char *key;
        int64_t *to, absent, most;
    } fields[] = {{"hidden_size", &d->hidden, 0, 1 << 20},
                  {"num_hidden_layers", &d->layers, 0, 4096},
                  {"num_attention_heads", &d->heads, 0, 4096},
                  {"intermediate_size", &d->intermediate, 0, 1 << 20},
                  {"vocab_size", &d->vocab, 0, 1 << 24}};
    const char *type = c->model_type;
    int rc = 0;
    memset(d, 0, sizeof *d);
    d->qk_norm = strcmp(type, "qwen3") == 0;
    if (!d->qk_norm && strcmp(type, "llama") != 0 && strcmp(type, "mistral") != 0)
        return error_set(
            err, ERR_INPUT, c->path,
            "model_type \"%s\" cannot be built yet (there are bert, llama, mistral, qwen3; to be priced also "
            "mixtral, qwen3_moe, deepseek_v2, deepseek_v3)",
            type);
    for (size_t i = 0; i < sizeof fields / sizeof *fields && !rc; i++)
        rc = number(c, fields[i].key, fields[i].absent, fields[i].most, fields[i].to, err);
    if (!rc)
        rc = number(c, "num_key_value_heads", d->heads, 4096, &d->kv_heads, err);
    if (!rc)
        rc = number(c, "head_dim", d->hidden / d->heads > 1 ? d->hidden / d->heads : 1, 4096, &d->head_dim, err);
    if (!rc)
        rc = json_get_double_or(c->root, "rms_norm_eps", c->path, 1e-6, &d->eps, err);
    if (!rc)
        rc = rope(c, &d->rope_theta, err);
    if (!rc)
        rc = sliding_window(c, &d->window, err);
    d->tied = json_is_true(json_object_get(c->root, "tie_word_embeddings"));
    d->prefix = "model.";
    return rc ? rc : check(c, d, err);
}

bool decoder_is_described(const char *model_type)
{
    static const char *const types[] = {"mixtral", "qwen3_moe", "deepseek_v2", "deepseek_v3"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(model_type, types[i]) == 0)
            return true;
    }
    return false;
}

static int64_t rows_of(const struct arch *a, const char *name)
{
    for (size_t i = 0; i < a->n_tensors; i++) {
        if (strcmp(a->tensors[i].name, name) == 0)
            return a->tensors[i].rows;
    }
    return 0;
}

int decoder_config_of(struct decoder_config *d, const struct arch *a, struct error *err)
{
    bool found = strcmp(a->family, "llama") == 0 || strcmp(a->family, "mistral") == 0 ||
                 strcmp(a->family, "qwen3") == 0 || decoder_is_described(a->family);
    // Biases are in none of these; what else a family may turn on would change shapes.
    if (a->kind != ARCH_DECODER || !found || !a->gated || rows_of(a, "q_bias") || rows_of(a, "o_bias") ||
        rows_of(a, "kv_a_bias") || rows_of(a, "up_bias"))
        return error_set(err, ERR_USAGE, a->name,
                         "a %s cannot be priced yet: there are llama, mistral, qwen3, mixtral, qwen3_moe, deepseek_v2 "
                         "and deepseek_v3, all without biases (`assay budget` takes it)",
                         a->family);
    *d = (struct decoder_config){.hidden = a->hidden,
                                 .layers = a->layers,
                                 .heads = a->heads,
                                 .kv_heads = a->kv_lora ? a->heads : a->kv_heads,
                                 .head_dim = a->head_dim,
                                 .intermediate = a->ffn,
                                 .vocab = a->vocab,
                                 .eps = 1e-6,
                                 .rope_theta = 1e6,
                                 .qk_norm = rows_of(a, "qk_norm") > 0,
                                 .tied = a->tied,
                                 .window = a->window,
                                 .prefix = "model.",
                                 .experts = {.n = a->experts,
                                             .active = a->active_experts,
                                             .columns = a->expert_ffn,
                                             .shared = a->shared_ffn,
                                             .corrected = rows_of(a, "router_bias") > 0},
                                 .moe = a->flags,
                                 .kv_lora = a->kv_lora,
                                 .q_lora = rows_of(a, "q_a_proj"),
                                 .rope_dim = a->rope_dim,
                                 .v_head_dim = a->v_head_dim};
    return 0;
}
