// SPDX-License-Identifier: Apache-2.0
// config.json of the families that transformers calls by these model_types. Keys, and what holds where one is missing,
// are those of its configuration classes (huggingface/transformers, src/transformers/models/*/configuration_*.py).
#include <inttypes.h>
#include <string.h>

#include "models/arch_build.h"
#include "models/arch_read.h"

// --- reading keys
// -----------------------------------------------------------------------------------------------------------------

static const json_t *member(const struct arch_reader *r, const char *key)
{
    const json_t *v = json_object_get(r->object, key);
    return json_is_null(v) ? NULL : v;
}

bool arch_read_has(const struct arch_reader *r, const char *key)
{
    return member(r, key) != NULL;
}

int64_t arch_read_or(struct arch_reader *r, const char *key, int64_t absent, int64_t most)
{
    const json_t *v = member(r, key);
    if (r->rc)
        return 1;
    if (!v && absent >= 0)
        return absent;
    if (!v) {
        r->rc = error_set(r->err, ERR_INPUT, r->path, "\"%s\" is missing", key);
        return 1;
    }
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > most ||
        (absent < 0 && !json_integer_value(v))) {
        r->rc = error_set(r->err, ERR_INPUT, r->path, "\"%s\" must be a whole number from %d to %" PRId64, key,
                          absent < 0, most);
        return 1;
    }
    return (int64_t)json_integer_value(v);
}

int64_t arch_read(struct arch_reader *r, const char *key, int64_t most)
{
    return arch_read_or(r, key, -1, most);
}

int64_t arch_read_assumed(struct arch_reader *r, const char *key, int64_t absent, int64_t most)
{
    if (!absent)
        return arch_read(r, key, most);
    if (!r->rc && !member(r, key))
        str_addf(&r->assumed, "%s%s %" PRId64, r->assumed.length ? ", " : "", key, absent);
    int64_t v = arch_read_or(r, key, absent, most);
    if (!r->rc && !v)
        r->rc = error_set(r->err, ERR_INPUT, r->path, "\"%s\" must not be 0", key);
    return r->rc ? 1 : v;
}

bool arch_read_flag(struct arch_reader *r, const char *key, bool absent)
{
    const json_t *v = member(r, key);
    if (!v || r->rc)
        return absent;
    if (!json_is_boolean(v))
        r->rc = error_set(r->err, ERR_INPUT, r->path, "\"%s\" must be true or false", key);
    return json_is_true(v);
}

const char *arch_read_word(struct arch_reader *r, const char *key)
{
    return json_string_value(member(r, key));
}

// --- what many families share
// -----------------------------------------------------------------------------------------------------

// Flags of all layers, without any set.
static uint8_t *make_flags(struct arch_reader *r, struct arch *a)
{
    uint8_t *flags = r->rc ? NULL : arena_new(r->arena, uint8_t, a->layers, r->err);
    if (!flags && !r->rc)
        r->rc = ERR_MEMORY;
    a->flags = flags;
    return flags;
}

static void sizes(struct arch_reader *r, struct arch *a)
{
    a->layers = arch_read(r, "num_hidden_layers", ARCH_MOST_LAYERS);
    a->hidden = arch_read(r, "hidden_size", ARCH_MOST_WIDTH);
    a->heads = arch_read_assumed(r, "num_attention_heads", r->family->heads, ARCH_MOST_WIDTH);
    a->kv_heads =
        arch_read_or(r, "num_key_value_heads", r->family->kv_heads ? r->family->kv_heads : a->heads, ARCH_MOST_WIDTH);
    a->vocab = arch_read_assumed(r, "vocab_size", r->family->vocab, ARCH_MOST_ROWS);
    a->ffn = arch_read(r, "intermediate_size", ARCH_MOST_WIDTH);
    a->max_positions = arch_read_or(r, "max_position_embeddings", 0, INT64_MAX);
    if (r->rc)
        return;
    int64_t own = r->family->head_dim;
    if (!own && a->hidden % a->heads && !arch_read_has(r, "head_dim"))
        r->rc =
            error_set(r->err, ERR_INPUT, r->path,
                      "\"hidden_size\" %" PRId64 " is not a multiple of %" PRId64 " heads, and \"head_dim\" is missing",
                      a->hidden, a->heads);
    else
        a->head_dim = arch_read_or(r, "head_dim", own ? own : a->hidden / a->heads, ARCH_MOST_WIDTH);
    a->v_head_dim = a->head_dim;
    if (!r->rc && (!a->kv_heads || !a->head_dim || a->heads % a->kv_heads))
        r->rc = error_set(r->err, ERR_INPUT, r->path,
                          "%" PRId64 " heads of queries cannot share %" PRId64
                          " heads of keys and values (\"num_key_value_heads\") of %" PRId64,
                          a->heads, a->kv_heads, a->head_dim);
    a->tied = arch_read_flag(r, "tie_word_embeddings", r->family->tied);
    a->gated = !r->family->plain_ffn;
}

// "layer_types" says it for every layer; without it the family has a rule.
static void windows(struct arch_reader *r, struct arch *a, uint8_t *flags)
{
    const json_t *types = member(r, "layer_types");
    if (r->rc || !flags)
        return;
    a->window = arch_read_or(r, "sliding_window", r->family->window, INT64_MAX);
    if (!arch_read_flag(r, "use_sliding_window", !r->family->window_by_flag) ||
        json_is_null(json_object_get(r->object, "sliding_window")))
        a->window = 0;
    if (!a->window)
        return;
    if (types && (!json_is_array(types) || (int64_t)json_array_size(types) != a->layers)) {
        r->rc = error_set(r->err, ERR_INPUT, r->path,
                          "\"layer_types\" must have an entry for each of %" PRId64 " layers", a->layers);
        return;
    }
    int64_t period = r->family->period ? r->family->period : 1;
    if (r->family->period > 2)
        period = arch_read_or(r, "sliding_window_pattern", period, ARCH_MOST_LAYERS);
    int64_t from = r->family->window_by_flag ? arch_read_or(r, "max_window_layers", 0, INT64_MAX) : 0;
    for (int64_t i = 0; i < a->layers && !r->rc; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        bool local = period > 1 ? (i + 1) % period != 0 : i >= from;
        if (types && !type)
            r->rc = error_set(r->err, ERR_INPUT, r->path, "\"layer_types\" must be names");
        else if (type && strcmp(type, "full_attention") != 0 && strcmp(type, "sliding_attention") != 0)
            r->rc = error_set(r->err, ERR_INPUT, r->path,
                              "\"layer_types\": attention \"%.40s\" is not known (full_attention, sliding_attention)",
                              type);
        if (type ? strcmp(type, "sliding_attention") == 0 : local)
            flags[i] |= ARCH_LOCAL;
    }
    if (!r->rc && !arch_layers_local(a, 0, a->layers))
        a->window = 0;
}

// Layers with experts: all but the first `dense`, every `step`-th, and none that "mlp_only_layers" lists.
static void mark_experts(struct arch_reader *r, const struct arch *a, uint8_t *flags, int64_t dense, int64_t step)
{
    const json_t *only = member(r, "mlp_only_layers");
    for (int64_t i = dense; i < a->layers && flags && step && !r->rc; i++)
        flags[i] |= (i + 1) % step == 0 || step == 1 ? ARCH_MOE : 0;
    for (size_t k = 0; k < json_array_size(only) && flags && !r->rc; k++) {
        int64_t i = (int64_t)json_integer_value(json_array_get(only, k));
        if (!json_is_integer(json_array_get(only, k)) || i < 0 || i >= a->layers)
            r->rc = error_set(r->err, ERR_INPUT, r->path, "\"mlp_only_layers\" must be numbers of layers");
        else
            flags[i] &= (uint8_t)~ARCH_MOE;
    }
}

// An ffn that no layer has is not one.
static void settle_ffn(struct arch *a)
{
    if (a->experts && arch_layers_with(a, ARCH_DENSE_LAYERS, 0, a->layers) == 0)
        a->ffn = 0;
}

static void active(struct arch_reader *r, struct arch *a, const char *count, const char *used)
{
    a->experts = arch_read(r, count, ARCH_MOST_EXPERTS);
    a->active_experts = arch_read(r, used, ARCH_MOST_EXPERTS);
    if (!r->rc && a->active_experts > a->experts)
        r->rc =
            error_set(r->err, ERR_INPUT, r->path, "\"%s\" is more than there are experts, %" PRId64, used, a->experts);
}

// --- families
// -----------------------------------------------------------------------------------------------------------------

static void llama(struct arch_reader *r, struct arch *a, struct arch_traits *t)
{
    sizes(r, a);
    windows(r, a, make_flags(r, a));
    bool bias = arch_read_flag(r, "attention_bias", false);
    t->qkv_bias = bias || r->family->qkv_bias;
    t->o_bias = bias;
    t->mlp_bias = arch_read_flag(r, "mlp_bias", false);
}

static void mixtral(struct arch_reader *r, struct arch *a, struct arch_traits *t)
{
    sizes(r, a);
    uint8_t *flags = make_flags(r, a);
    windows(r, a, flags);
    active(r, a, "num_local_experts", "num_experts_per_tok");
    mark_experts(r, a, flags, 0, 1);
    a->expert_ffn = a->ffn;
    a->ffn = 0;
    bool gpt_oss = strcmp(r->family->name, "gpt_oss") == 0;
    t->qkv_bias = t->o_bias = gpt_oss && arch_read_flag(r, "attention_bias", true);
    t->router_bias = t->expert_bias = t->sinks = gpt_oss;
}

static void qwen_moe(struct arch_reader *r, struct arch *a, struct arch_traits *t)
{
    sizes(r, a);
    uint8_t *flags = make_flags(r, a);
    windows(r, a, flags);
    active(r, a, "num_experts", "num_experts_per_tok");
    mark_experts(r, a, flags, 0, arch_read_or(r, "decoder_sparse_step", 1, ARCH_MOST_LAYERS));
    a->expert_ffn = arch_read(r, "moe_intermediate_size", ARCH_MOST_WIDTH);
    bool bias = arch_read_flag(r, "attention_bias", false);
    t->qkv_bias = bias || r->family->qkv_bias;
    t->o_bias = bias;
    if (strcmp(r->family->name, "qwen2_moe") == 0) {
        t->shared_hidden = arch_read(r, "shared_expert_intermediate_size", ARCH_MOST_WIDTH);
        t->shared_gate = true;
    }
    settle_ffn(a);
}

static void deepseek(struct arch_reader *r, struct arch *a, struct arch_traits *t)
{
    bool v3 = strcmp(r->family->name, "deepseek_v3") == 0;
    sizes(r, a);
    uint8_t *flags = make_flags(r, a);
    a->kv_lora = arch_read(r, "kv_lora_rank", ARCH_MOST_WIDTH);
    a->rope_dim = arch_read(r, "qk_rope_head_dim", ARCH_MOST_WIDTH);
    a->head_dim = arch_read(r, "qk_nope_head_dim", ARCH_MOST_WIDTH) + a->rope_dim;
    a->v_head_dim = arch_read(r, "v_head_dim", ARCH_MOST_WIDTH);
    t->q_lora = arch_read_or(r, "q_lora_rank", 0, ARCH_MOST_WIDTH);
    t->qkv_bias = t->o_bias = arch_read_flag(r, "attention_bias", false);
    if (!arch_read_has(r, "n_routed_experts"))
        return;
    active(r, a, "n_routed_experts", "num_experts_per_tok");
    a->expert_ffn = arch_read(r, "moe_intermediate_size", ARCH_MOST_WIDTH);
    int64_t shared = arch_read_or(r, "n_shared_experts", 0, 1024);
    t->shared_hidden = shared * a->expert_ffn;
    t->router_bias = v3; // the correction that keeps experts evenly used
    mark_experts(r, a, flags, arch_read_or(r, "first_k_dense_replace", 0, ARCH_MOST_LAYERS),
                 arch_read_or(r, "moe_layer_freq", 1, ARCH_MOST_LAYERS));
    settle_ffn(a);
    if (arch_read_or(r, "num_nextn_predict_layers", 0, 16))
        a->note = "layers that predict further tokens (num_nextn_predict_layers) are not counted";
}

static void bert(struct arch_reader *r, struct arch *a, struct arch_traits *t)
{
    bool roberta = strcmp(r->family->name, "bert") != 0;
    sizes(r, a);
    make_flags(r, a);
    a->kind = ARCH_ENCODER;
    a->kv_heads = a->heads;
    a->dropout = true;
    t->qkv_bias = t->o_bias = t->mlp_bias = true;
    t->positions = arch_read_or(r, "max_position_embeddings", 512, ARCH_MOST_ROWS);
    t->token_types = arch_read_or(r, "type_vocab_size", roberta ? 1 : 2, ARCH_MOST_ROWS);
    t->embedding_norm = t->pooler = true;
    a->note = "with the pooler, and without a head for one task";
}

static void distilbert(struct arch_reader *r, struct arch *a, struct arch_traits *t)
{
    a->kind = ARCH_ENCODER;
    a->dropout = true;
    a->layers = arch_read(r, "n_layers", ARCH_MOST_LAYERS);
    a->hidden = arch_read(r, "dim", ARCH_MOST_WIDTH);
    a->heads = a->kv_heads = arch_read(r, "n_heads", ARCH_MOST_WIDTH);
    a->ffn = arch_read(r, "hidden_dim", ARCH_MOST_WIDTH);
    a->vocab = arch_read(r, "vocab_size", ARCH_MOST_ROWS);
    a->head_dim = a->v_head_dim = a->hidden / a->heads;
    a->max_positions = t->positions = arch_read_or(r, "max_position_embeddings", 512, ARCH_MOST_ROWS);
    make_flags(r, a);
    t->qkv_bias = t->o_bias = t->mlp_bias = t->embedding_norm = true;
}

static void gpt2(struct arch_reader *r, struct arch *a, struct arch_traits *t)
{
    a->layers = arch_read(r, "n_layer", ARCH_MOST_LAYERS);
    a->hidden = arch_read(r, "n_embd", ARCH_MOST_WIDTH);
    a->heads = a->kv_heads = arch_read(r, "n_head", ARCH_MOST_WIDTH);
    a->vocab = arch_read(r, "vocab_size", ARCH_MOST_ROWS);
    a->ffn = arch_read_or(r, "n_inner", 4 * a->hidden, ARCH_MOST_WIDTH);
    a->head_dim = a->v_head_dim = a->hidden / a->heads;
    a->max_positions = t->positions = arch_read_or(r, "n_positions", 1024, ARCH_MOST_ROWS);
    a->tied = arch_read_flag(r, "tie_word_embeddings", true);
    a->dropout = true;
    make_flags(r, a);
    t->qkv_bias = t->o_bias = t->mlp_bias = true;
}

// The order of fields: name, reader, traits, then what holds where a key is missing.
static const struct arch_family families[] = {
    {.name = "llama", .read = llama},
    {.name = "mistral", .read = llama, .kv_heads = 8, .window = 4096},
    {.name = "granite", .read = llama},
    {.name = "smollm3", .read = llama, .kv_heads = 4, .tied = true, .window_by_flag = true},
    {.name = "olmo2", .read = llama, .traits = {.qk_norm_full = true}},
    {.name = "qwen2", .read = llama, .kv_heads = 32, .qkv_bias = true, .window = 4096, .window_by_flag = true},
    {.name = "qwen3",
     .read = llama,
     .kv_heads = 32,
     .head_dim = 128,
     .window = 4096,
     .window_by_flag = true,
     .traits = {.qk_norm = true}},
    {.name = "phi3", .read = llama},
    {.name = "gemma", .read = llama, .kv_heads = 16, .head_dim = 256, .tied = true},
    {.name = "gemma2",
     .read = llama,
     .kv_heads = 4,
     .head_dim = 256,
     .tied = true,
     .window = 4096,
     .period = 2,
     .traits = {.norms = 4}},
    {.name = "gemma3_text",
     .read = llama,
     .heads = 8,
     .kv_heads = 4,
     .head_dim = 256,
     .vocab = 262208,
     .tied = true,
     .window = 4096,
     .period = 6,
     .traits = {.norms = 4, .qk_norm = true}},
    {.name = "gemma3",
     .heads = 8,
     .kv_heads = 4,
     .head_dim = 256,
     .vocab = 262208,
     .tied = true,
     .window = 4096,
     .period = 6,
     .read = llama,
     .nested = true,
     .finish = arch_read_gemma3_vision,
     .traits = {.norms = 4, .qk_norm = true}},
    {.name = "mixtral", .read = mixtral, .kv_heads = 8},
    {.name = "gpt_oss", .read = mixtral, .kv_heads = 8, .head_dim = 64, .window = 128, .period = 2},
    {.name = "qwen2_moe", .read = qwen_moe, .kv_heads = 16, .qkv_bias = true, .window = 4096, .window_by_flag = true},
    {.name = "qwen3_moe",
     .read = qwen_moe,
     .kv_heads = 4,
     .window = 4096,
     .window_by_flag = true,
     .traits = {.qk_norm = true}},
    {.name = "deepseek_v2", .read = deepseek},
    {.name = "deepseek_v3", .read = deepseek},
    {.name = "gpt2", .read = gpt2, .plain_ffn = true, .traits = {.layer_norm = true}},
    {.name = "bert", .read = bert, .plain_ffn = true, .traits = {.layer_norm = true}},
    {.name = "roberta", .read = bert, .plain_ffn = true, .traits = {.layer_norm = true}},
    {.name = "xlm-roberta", .read = bert, .plain_ffn = true, .traits = {.layer_norm = true}},
    {.name = "distilbert", .read = distilbert, .plain_ffn = true, .traits = {.layer_norm = true}},
    {.name = "t5", .build = arch_build_t5},
    {.name = "whisper", .build = arch_build_whisper},
};

const char *arch_families(void)
{
    return "llama, mistral, mixtral, granite, smollm3, olmo2, qwen2, qwen2_moe, qwen3, qwen3_moe, phi3, gemma, gemma2, "
           "gemma3, gemma3_text, deepseek_v2, deepseek_v3, gpt_oss, gpt2, bert, roberta, xlm-roberta, distilbert, t5, "
           "whisper";
}

static int unknown_family(const struct hf_config *c, struct error *err)
{
    return error_set(err, ERR_INPUT, c->path,
                     "what \"%s\" is made of is not known (known: %s); without it: give the .safetensors file for its "
                     "weights alone, or --params N",
                     c->model_type, arch_families());
}

static const struct arch_family *find_family(const char *name)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strcmp(families[i].name, name) == 0)
            return &families[i];
    }
    return NULL;
}

static void read_dtype(struct arch_reader *r, struct arch *a)
{
    static const struct {
        const char *name;
        enum dtype type;
    } types[] = {{"bfloat16", DT_BF16}, {"float16", DT_F16}, {"float32", DT_F32}, {"float64", DT_F64}};
    const char *name = arch_read_word(r, "dtype");
    if (!name)
        name = arch_read_word(r, "torch_dtype");
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++) {
        if (strcmp(name, types[i].name) == 0)
            a->dtype = types[i].type;
    }
}

int arch_from_config(struct arch *a, const struct hf_config *c, struct arena *arena, struct error *err)
{
    const struct arch_family *f = find_family(c->model_type);
    memset(a, 0, sizeof *a);
    if (!f)
        return unknown_family(c, err);
    struct arch_reader r = {
        .object = c->root, .outer = c->root, .path = c->path, .family = f, .arena = arena, .err = err};
    struct arch_traits t = f->traits;
    str_init(&r.assumed);
    a->kind = ARCH_DECODER;
    a->name = a->source = arena_strdup(arena, c->path, err);
    a->family = f->name;
    r.rc = a->name ? 0 : ERR_MEMORY;
    if (!r.rc)
        r.rc = arch_read_quantization(&r, &a->quant);
    read_dtype(&r, a);
    if (f->nested && arch_read_has(&r, "text_config")) {
        r.object = json_object_get(c->root, "text_config");
        if (!json_is_object(r.object) && !r.rc)
            r.rc = error_set(err, ERR_INPUT, c->path, "\"text_config\" must be an object");
    }
    if (!a->dtype)
        read_dtype(&r, a);
    t.norms = t.norms ? t.norms : 2;
    t.final_norm = true;
    if (f->build) {
        f->build(&r, a);
    } else if (!r.rc) {
        f->read(&r, a, &t);
        t.final_norm = a->kind == ARCH_DECODER;
        if (!r.rc)
            r.rc = arch_build(a, &t, arena, err);
    }
    if (!r.rc && f->finish)
        f->finish(&r, a);
    if (!r.rc && r.assumed.length) {
        a->assumed = arena_strdup(arena, str_text(&r.assumed), err);
        r.rc = a->assumed ? 0 : ERR_MEMORY;
    }
    str_release(&r.assumed);
    return r.rc ? r.rc : arch_finish(a, err);
}
