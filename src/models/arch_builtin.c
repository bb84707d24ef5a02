// SPDX-License-Identifier: Apache-2.0
// Well-known public models: the keys of their config.json that decide about sizes, and the number of parameters that
// their publishers' files hold (the "total" of safetensors metadata on the hub, or the model card where it prints all
// digits). The number counts a tied table once.
#include <string.h>

#include "base/suggest.h"
#include "models/arch_read.h"
#include "models/flux2.h"

struct builtin {
    const char *name;
    const char *source; // the repository on the hub that the facts are of
    double published;   // parameters; 0: nobody prints all digits
    const char *config;
};

#define HUB(repository) "https://huggingface.co/" repository " (2026-11-29)"
#define LLAMA                                                                                                          \
    "\"model_type\":\"llama\",\"vocab_size\":128256,\"max_position_embeddings\":131072,\"dtype\":\"bfloat16\","
#define LLAMA2 "\"model_type\":\"llama\",\"vocab_size\":32000,\"max_position_embeddings\":4096,\"dtype\":\"float16\","
#define QWEN3                                                                                                          \
    "\"model_type\":\"qwen3\",\"vocab_size\":151936,\"head_dim\":128,\"max_position_embeddings\":40960,"               \
    "\"dtype\":\"bfloat16\",\"num_key_value_heads\":8,"
#define QWEN25 "\"model_type\":\"qwen2\",\"max_position_embeddings\":32768,\"dtype\":\"bfloat16\","
#define GEMMA2                                                                                                         \
    "\"model_type\":\"gemma2\",\"vocab_size\":256000,\"sliding_window\":4096,\"max_position_embeddings\":8192,"        \
    "\"dtype\":\"bfloat16\","
#define GEMMA3T                                                                                                        \
    "\"model_type\":\"gemma3_text\",\"vocab_size\":262144,\"head_dim\":256,\"max_position_embeddings\":32768,"         \
    "\"sliding_window_pattern\":6,\"dtype\":\"bfloat16\","
#define GEMMA3                                                                                                         \
    "\"model_type\":\"gemma3\",\"dtype\":\"bfloat16\",\"vision_config\":{\"hidden_size\":1152,"                        \
    "\"intermediate_size\":4304,\"num_hidden_layers\":27,\"num_attention_heads\":16,\"image_size\":896,"               \
    "\"patch_size\":14,\"vision_use_head\":false},\"text_config\":{\"model_type\":\"gemma3_text\",\"vocab_size\":"     \
    "262208,"                                                                                                          \
    "\"sliding_window\":1024,\"max_position_embeddings\":131072,"
#define MOE_DEEPSEEK "\"model_type\":\"deepseek_v3\",\"dtype\":\"bfloat16\","
#define GPT_OSS                                                                                                        \
    "\"model_type\":\"gpt_oss\",\"vocab_size\":201088,\"hidden_size\":2880,\"intermediate_size\":2880,"                \
    "\"num_attention_heads\":64,\"num_key_value_heads\":8,\"head_dim\":64,\"num_experts_per_tok\":4,"                  \
    "\"sliding_window\":128,\"max_position_embeddings\":131072,\"dtype\":\"bfloat16\","                                \
    "\"quantization_config\":{\"quant_method\":\"mxfp4\"},"
#define BERT "\"model_type\":\"bert\",\"vocab_size\":30522,\"max_position_embeddings\":512,\"dtype\":\"float32\","
#define T5   "\"model_type\":\"t5\",\"vocab_size\":32128,\"d_kv\":64,\"dtype\":\"float32\","

// clang-format off
static const struct builtin list[] = {
    {"llama-2-7b", HUB("meta-llama/Llama-2-7b-hf"), 6738415616, "{" LLAMA2 "\"hidden_size\":4096,\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":32,\"intermediate_size\":11008}"},
    {"llama-2-13b", HUB("meta-llama/Llama-2-13b-hf"), 13015864320, "{" LLAMA2 "\"hidden_size\":5120,\"num_hidden_layers\":40,\"num_attention_heads\":40,\"num_key_value_heads\":40,\"intermediate_size\":13824}"},
    {"llama-2-70b", HUB("meta-llama/Llama-2-70b-hf"), 68976648192, "{" LLAMA2 "\"hidden_size\":8192,\"num_hidden_layers\":80,\"num_attention_heads\":64,\"num_key_value_heads\":8,\"intermediate_size\":28672}"},
    {"llama-3.2-1b", HUB("meta-llama/Llama-3.2-1B"), 1235814400, "{" LLAMA "\"hidden_size\":2048,\"num_hidden_layers\":16,\"num_attention_heads\":32,\"num_key_value_heads\":8,\"head_dim\":64,\"intermediate_size\":8192,\"tie_word_embeddings\":true}"},
    {"llama-3.2-3b", HUB("meta-llama/Llama-3.2-3B"), 3212749824, "{" LLAMA "\"hidden_size\":3072,\"num_hidden_layers\":28,\"num_attention_heads\":24,\"num_key_value_heads\":8,\"head_dim\":128,\"intermediate_size\":8192,\"tie_word_embeddings\":true}"},
    {"llama-3.1-8b", HUB("meta-llama/Llama-3.1-8B"), 8030261248, "{" LLAMA "\"hidden_size\":4096,\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":8,\"intermediate_size\":14336}"},
    {"llama-3.1-70b", HUB("meta-llama/Llama-3.1-70B"), 70553706496, "{" LLAMA "\"hidden_size\":8192,\"num_hidden_layers\":80,\"num_attention_heads\":64,\"num_key_value_heads\":8,\"intermediate_size\":28672}"},
    {"llama-3.1-405b", HUB("meta-llama/Llama-3.1-405B"), 405853388800, "{" LLAMA "\"hidden_size\":16384,\"num_hidden_layers\":126,\"num_attention_heads\":128,\"num_key_value_heads\":8,\"intermediate_size\":53248}"},
    {"mistral-7b", HUB("mistralai/Mistral-7B-v0.1"), 7241732096, "{\"model_type\":\"mistral\",\"vocab_size\":32000,\"hidden_size\":4096,\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":8,\"intermediate_size\":14336,\"sliding_window\":4096,\"max_position_embeddings\":32768,\"dtype\":\"bfloat16\"}"},
    {"mixtral-8x7b", HUB("mistralai/Mixtral-8x7B-v0.1"), 46702792704, "{\"model_type\":\"mixtral\",\"vocab_size\":32000,\"hidden_size\":4096,\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":8,\"intermediate_size\":14336,\"num_local_experts\":8,\"num_experts_per_tok\":2,\"sliding_window\":null,\"max_position_embeddings\":32768,\"dtype\":\"bfloat16\"}"},
    {"mixtral-8x22b", HUB("mistralai/Mixtral-8x22B-v0.1"), 140620634112, "{\"model_type\":\"mixtral\",\"vocab_size\":32000,\"hidden_size\":6144,\"num_hidden_layers\":56,\"num_attention_heads\":48,\"num_key_value_heads\":8,\"intermediate_size\":16384,\"num_local_experts\":8,\"num_experts_per_tok\":2,\"sliding_window\":null,\"max_position_embeddings\":65536,\"dtype\":\"bfloat16\"}"},
    {"qwen2.5-7b", HUB("Qwen/Qwen2.5-7B"), 7615616512, "{" QWEN25 "\"vocab_size\":152064,\"hidden_size\":3584,\"num_hidden_layers\":28,\"num_attention_heads\":28,\"num_key_value_heads\":4,\"intermediate_size\":18944,\"use_sliding_window\":false}"},
    {"qwen2.5-72b", HUB("Qwen/Qwen2.5-72B"), 72706203648, "{" QWEN25 "\"vocab_size\":152064,\"hidden_size\":8192,\"num_hidden_layers\":80,\"num_attention_heads\":64,\"num_key_value_heads\":8,\"intermediate_size\":29568,\"use_sliding_window\":false}"},
    {"qwen3-0.6b", HUB("Qwen/Qwen3-0.6B"), 596049920, "{" QWEN3 "\"hidden_size\":1024,\"num_hidden_layers\":28,\"num_attention_heads\":16,\"intermediate_size\":3072,\"tie_word_embeddings\":true}"},
    {"qwen3-1.7b", HUB("Qwen/Qwen3-1.7B"), 1720574976, "{" QWEN3 "\"hidden_size\":2048,\"num_hidden_layers\":28,\"num_attention_heads\":16,\"intermediate_size\":6144,\"tie_word_embeddings\":true}"},
    {"qwen3-4b", HUB("Qwen/Qwen3-4B"), 4022468096, "{" QWEN3 "\"hidden_size\":2560,\"num_hidden_layers\":36,\"num_attention_heads\":32,\"intermediate_size\":9728,\"tie_word_embeddings\":true}"},
    {"qwen3-8b", HUB("Qwen/Qwen3-8B"), 8190735360, "{" QWEN3 "\"hidden_size\":4096,\"num_hidden_layers\":36,\"num_attention_heads\":32,\"intermediate_size\":12288}"},
    {"qwen3-14b", HUB("Qwen/Qwen3-14B"), 14768307200, "{" QWEN3 "\"hidden_size\":5120,\"num_hidden_layers\":40,\"num_attention_heads\":40,\"intermediate_size\":17408}"},
    {"qwen3-32b", HUB("Qwen/Qwen3-32B"), 32762123264, "{" QWEN3 "\"hidden_size\":5120,\"num_hidden_layers\":64,\"num_attention_heads\":64,\"intermediate_size\":25600}"},
    {"qwen3-30b-a3b", HUB("Qwen/Qwen3-30B-A3B"), 30532122624, "{\"model_type\":\"qwen3_moe\",\"vocab_size\":151936,\"hidden_size\":2048,\"num_hidden_layers\":48,\"num_attention_heads\":32,\"num_key_value_heads\":4,\"head_dim\":128,\"intermediate_size\":6144,\"moe_intermediate_size\":768,\"num_experts\":128,\"num_experts_per_tok\":8,\"decoder_sparse_step\":1,\"mlp_only_layers\":[],\"max_position_embeddings\":40960,\"dtype\":\"bfloat16\"}"},
    {"qwen3-235b-a22b", HUB("Qwen/Qwen3-235B-A22B"), 235093634560, "{\"model_type\":\"qwen3_moe\",\"vocab_size\":151936,\"hidden_size\":4096,\"num_hidden_layers\":94,\"num_attention_heads\":64,\"num_key_value_heads\":4,\"head_dim\":128,\"intermediate_size\":12288,\"moe_intermediate_size\":1536,\"num_experts\":128,\"num_experts_per_tok\":8,\"decoder_sparse_step\":1,\"mlp_only_layers\":[],\"max_position_embeddings\":40960,\"dtype\":\"bfloat16\"}"},
    {"gemma-2-2b", HUB("google/gemma-2-2b"), 2614341888, "{" GEMMA2 "\"hidden_size\":2304,\"num_hidden_layers\":26,\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":256,\"intermediate_size\":9216}"},
    {"gemma-2-9b", HUB("google/gemma-2-9b"), 9241705984, "{" GEMMA2 "\"hidden_size\":3584,\"num_hidden_layers\":42,\"num_attention_heads\":16,\"num_key_value_heads\":8,\"head_dim\":256,\"intermediate_size\":14336}"},
    {"gemma-2-27b", HUB("google/gemma-2-27b"), 27227128320, "{" GEMMA2 "\"hidden_size\":4608,\"num_hidden_layers\":46,\"num_attention_heads\":32,\"num_key_value_heads\":16,\"head_dim\":128,\"intermediate_size\":36864}"},
    {"gemma-3-270m", HUB("google/gemma-3-270m"), 268098176, "{" GEMMA3T "\"hidden_size\":640,\"num_hidden_layers\":18,\"num_attention_heads\":4,\"num_key_value_heads\":1,\"intermediate_size\":2048,\"sliding_window\":512}"},
    {"gemma-3-1b", HUB("google/gemma-3-1b-pt"), 999885952, "{" GEMMA3T "\"hidden_size\":1152,\"num_hidden_layers\":26,\"num_attention_heads\":4,\"num_key_value_heads\":1,\"intermediate_size\":6912,\"sliding_window\":512}"},
    {"gemma-3-4b", HUB("google/gemma-3-4b-pt"), 4300079472, "{" GEMMA3 "\"hidden_size\":2560,\"num_hidden_layers\":34,\"num_attention_heads\":8,\"num_key_value_heads\":4,\"intermediate_size\":10240}}"},
    {"gemma-3-12b", HUB("google/gemma-3-12b-pt"), 12187325040, "{" GEMMA3 "\"hidden_size\":3840,\"num_hidden_layers\":48,\"num_attention_heads\":16,\"num_key_value_heads\":8,\"intermediate_size\":15360}}"},
    {"gemma-3-27b", HUB("google/gemma-3-27b-pt"), 27432406640, "{" GEMMA3 "\"hidden_size\":5376,\"num_hidden_layers\":62,\"num_attention_heads\":32,\"num_key_value_heads\":16,\"head_dim\":128,\"intermediate_size\":21504}}"},
    {"phi-3-mini", HUB("microsoft/Phi-3-mini-4k-instruct"), 3821079552, "{\"model_type\":\"phi3\",\"vocab_size\":32064,\"hidden_size\":3072,\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":32,\"intermediate_size\":8192,\"sliding_window\":2047,\"max_position_embeddings\":4096,\"dtype\":\"bfloat16\"}"},
    {"deepseek-v2-lite", HUB("deepseek-ai/DeepSeek-V2-Lite"), 15706484224, "{\"model_type\":\"deepseek_v2\",\"vocab_size\":102400,\"hidden_size\":2048,\"num_hidden_layers\":27,\"num_attention_heads\":16,\"num_key_value_heads\":16,\"intermediate_size\":10944,\"moe_intermediate_size\":1408,\"n_routed_experts\":64,\"n_shared_experts\":2,\"num_experts_per_tok\":6,\"first_k_dense_replace\":1,\"moe_layer_freq\":1,\"kv_lora_rank\":512,\"q_lora_rank\":null,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"max_position_embeddings\":163840,\"dtype\":\"bfloat16\"}"},
    {"deepseek-v3", HUB("deepseek-ai/DeepSeek-V3"), 671026419200, "{" MOE_DEEPSEEK "\"vocab_size\":129280,\"hidden_size\":7168,\"num_hidden_layers\":61,\"num_attention_heads\":128,\"num_key_value_heads\":128,\"intermediate_size\":18432,\"moe_intermediate_size\":2048,\"n_routed_experts\":256,\"n_shared_experts\":1,\"num_experts_per_tok\":8,\"first_k_dense_replace\":3,\"moe_layer_freq\":1,\"kv_lora_rank\":512,\"q_lora_rank\":1536,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"max_position_embeddings\":163840,\"num_nextn_predict_layers\":1,\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}}"},
    {"gpt-oss-20b", HUB("openai/gpt-oss-20b"), 20914757184, "{" GPT_OSS "\"num_hidden_layers\":24,\"num_local_experts\":32}"},
    {"gpt-oss-120b", HUB("openai/gpt-oss-120b"), 116829156672, "{" GPT_OSS "\"num_hidden_layers\":36,\"num_local_experts\":128}"},
    {"gpt2", HUB("openai-community/gpt2"), 124439808, "{\"model_type\":\"gpt2\",\"vocab_size\":50257,\"n_embd\":768,\"n_layer\":12,\"n_head\":12,\"n_positions\":1024,\"dtype\":\"float32\"}"},
    {"bert-base", HUB("google-bert/bert-base-uncased"), 109482240, "{" BERT "\"hidden_size\":768,\"num_hidden_layers\":12,\"num_attention_heads\":12,\"intermediate_size\":3072}"},
    {"bert-large", HUB("google-bert/bert-large-uncased"), 335141888, "{" BERT "\"hidden_size\":1024,\"num_hidden_layers\":24,\"num_attention_heads\":16,\"intermediate_size\":4096}"},
    {"minilm", HUB("sentence-transformers/all-MiniLM-L6-v2"), 22713216, "{" BERT "\"hidden_size\":384,\"num_hidden_layers\":6,\"num_attention_heads\":12,\"intermediate_size\":1536}"},
    {"t5-small", HUB("google-t5/t5-small"), 60506624, "{" T5 "\"d_model\":512,\"d_ff\":2048,\"num_layers\":6,\"num_heads\":8}"},
    {"t5-3b", HUB("google-t5/t5-3b"), 2851598336, "{\"model_type\":\"t5\",\"vocab_size\":32128,\"d_kv\":128,\"dtype\":\"float32\",\"d_model\":1024,\"d_ff\":16384,\"num_layers\":24,\"num_heads\":32}"},
    {"whisper-large-v3", HUB("openai/whisper-large-v3"), 1543490560, "{\"model_type\":\"whisper\",\"vocab_size\":51866,\"d_model\":1280,\"encoder_layers\":32,\"decoder_layers\":32,\"encoder_attention_heads\":20,\"decoder_attention_heads\":20,\"encoder_ffn_dim\":5120,\"decoder_ffn_dim\":5120,\"num_mel_bins\":128,\"dtype\":\"float16\"}"},
};
// clang-format on
#define COUNT (sizeof list / sizeof *list)

static const struct {
    const char *name, *source;
} flux2[] = {
    {"flux2-klein-4b", HUB("black-forest-labs/FLUX.2-klein-4B")},
    {"flux2-klein-9b", HUB("black-forest-labs/FLUX.2-klein-9B")},
    {"flux2-klein-base-4b", HUB("black-forest-labs/FLUX.2-klein-base-4B")},
    {"flux2-klein-base-9b", HUB("black-forest-labs/FLUX.2-klein-base-9B")},
};
#define FLUX2 (sizeof flux2 / sizeof *flux2)

const char *arch_builtin_name(size_t i)
{
    return i < COUNT ? list[i].name : i < COUNT + FLUX2 ? flux2[i - COUNT].name : NULL;
}

void arch_builtin_words(struct str *out)
{
    for (size_t i = 0; arch_builtin_name(i); i++)
        str_addf(out, "builtin:%s\n", arch_builtin_name(i));
}

int arch_builtin(struct arch *a, const char *name, struct arena *arena, struct error *err)
{
    const char *bare = strncmp(name, "builtin:", 8) == 0 ? name + 8 : name;
    struct suggest s = {.wanted = bare};
    struct str names;
    for (size_t i = 0; i < FLUX2; i++) {
        if (strcmp(bare, flux2[i].name) == 0)
            return arch_from_flux2(a, flux2_builtin(bare), flux2[i].source, arena, err);
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (strcmp(list[i].name, bare) != 0)
            continue;
        struct hf_config c;
        int rc = hf_config_parse(&c, list[i].config, strlen(list[i].config), name, err);
        if (!rc)
            rc = arch_from_config(a, &c, arena, err);
        hf_config_release(&c);
        a->source = list[i].source;
        a->published = list[i].published;
        return rc;
    }
    str_init(&names);
    for (size_t i = 0; arch_builtin_name(i); i++) {
        suggest_offer(&s, arch_builtin_name(i));
        str_addf(&names, "%s%s", i ? ", " : "", arch_builtin_name(i));
    }
    if (s.best)
        error_set(err, ERR_USAGE, name, "is no built-in model; did you mean \"%s\"? There is %s", s.best,
                  str_text(&names));
    else
        error_set(err, ERR_USAGE, name, "is no built-in model; there is %s", str_text(&names));
    str_release(&names);
    return ERR_USAGE;
}
