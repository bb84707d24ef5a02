# SPDX-License-Identifier: Apache-2.0
"""How many parameters transformers gives models of each family, and which of their layers are local.

    build-oracle/venv/bin/python tests/oracle/arch.py > tests/fixtures/models/arch.json

"cached" is how many numbers a model keeps of 7 tokens of one sequence. The classes are instantiated without memory ("meta"), so sizes of hundreds of billions are no trouble. A tied table is
counted once. The built-in list of src/models/arch_builtin.c is read from its text; beside it stand small models that
turn on what the well-known ones do not.
"""
import json
import re
import sys

import torch
import transformers

SMALL = {"hidden_size": 64, "num_hidden_layers": 5, "num_attention_heads": 8, "num_key_value_heads": 2,
         "intermediate_size": 160, "vocab_size": 320}
BERT = dict(SMALL, max_position_embeddings=40)
DEEPSEEK = {"n_routed_experts": 6, "n_shared_experts": 2, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
            "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 4, "v_head_dim": 10,
            "num_key_value_heads": 8, "first_k_dense_replace": 2}
EXTRA = {
    "llama-biases-tied": dict(SMALL, model_type="llama", attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    "llama-head-dim": dict(SMALL, model_type="llama", head_dim=24),
    "llama-kv-default": {k: v for k, v in dict(SMALL, model_type="llama").items() if k != "num_key_value_heads"},
    "mistral-window": dict(SMALL, model_type="mistral", sliding_window=16),
    "mistral-no-window": dict(SMALL, model_type="mistral", sliding_window=None),
    "granite": dict(SMALL, model_type="granite"),
    "smollm3": dict(SMALL, model_type="smollm3", pad_token_id=0),
    "olmo2": dict(SMALL, model_type="olmo2", pad_token_id=0),
    "qwen2-window": dict(SMALL, model_type="qwen2", use_sliding_window=True, sliding_window=32, max_window_layers=3),
    "qwen2-tied": dict(SMALL, model_type="qwen2", tie_word_embeddings=True),
    "qwen2-moe": dict(SMALL, model_type="qwen2_moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                      shared_expert_intermediate_size=40),
    "qwen2-moe-step": dict(SMALL, model_type="qwen2_moe", num_experts=4, num_experts_per_tok=2,
                           moe_intermediate_size=24, shared_expert_intermediate_size=40, decoder_sparse_step=2),
    "qwen3": dict(SMALL, model_type="qwen3", head_dim=16, attention_bias=True),
    "qwen3-types": dict(SMALL, model_type="qwen3", head_dim=16, use_sliding_window=True, sliding_window=8,
                        layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention",
                                     "sliding_attention"]),
    "qwen3-moe-dense-layers": dict(SMALL, model_type="qwen3_moe", head_dim=16, num_experts=4, num_experts_per_tok=2,
                                   moe_intermediate_size=24, mlp_only_layers=[0, 3]),
    "phi3": dict(SMALL, model_type="phi3", pad_token_id=0),
    "gemma": dict(SMALL, model_type="gemma", head_dim=16),
    "gemma2": dict(SMALL, model_type="gemma2", head_dim=16, sliding_window=12),
    "gemma3-text": dict(SMALL, model_type="gemma3_text", head_dim=16, num_hidden_layers=13, sliding_window=12),
    "gemma3-pooled-images": {"model_type": "gemma3", "text_config": dict(SMALL, head_dim=16), "vision_config": {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 28,
        "patch_size": 7}},
    "deepseek-v2": dict({**SMALL, **DEEPSEEK}, model_type="deepseek_v2", q_lora_rank=20),
    "deepseek-v2-no-q-lora": dict({**SMALL, **DEEPSEEK}, model_type="deepseek_v2", q_lora_rank=None),
    "deepseek-v3": dict({**SMALL, **DEEPSEEK}, model_type="deepseek_v3", q_lora_rank=20, n_group=1, topk_group=1),
    "gpt-oss": dict(SMALL, model_type="gpt_oss", head_dim=8, num_local_experts=4, num_experts_per_tok=2,
                    sliding_window=16),
    "mixtral": dict(SMALL, model_type="mixtral", num_local_experts=4, num_experts_per_tok=2),
    "gpt2-inner": {"model_type": "gpt2", "n_embd": 48, "n_layer": 3, "n_head": 4, "vocab_size": 100, "n_inner": 100,
                   "n_positions": 64},
    "bert": dict(BERT, model_type="bert"),
    "roberta": dict(BERT, model_type="roberta", type_vocab_size=1),
    "xlm-roberta": dict(BERT, model_type="xlm-roberta", type_vocab_size=1),
    "distilbert": {"model_type": "distilbert", "dim": 48, "n_layers": 3, "n_heads": 4, "hidden_dim": 96,
                   "vocab_size": 100, "max_position_embeddings": 40},
    "t5-gated-untied": {"model_type": "t5", "d_model": 48, "d_kv": 8, "d_ff": 96, "num_layers": 3,
                        "num_decoder_layers": 2, "num_heads": 4, "vocab_size": 100, "feed_forward_proj": "gated-gelu",
                        "tie_word_embeddings": False},
    "whisper": {"model_type": "whisper", "vocab_size": 100, "d_model": 48, "encoder_layers": 3, "decoder_layers": 2,
                "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 80,
                "decoder_ffn_dim": 96, "num_mel_bins": 20, "max_source_positions": 60, "max_target_positions": 30, "pad_token_id": 0},
}
TOKENS = 7
ENCODERS = {"bert", "roberta", "xlm-roberta", "distilbert"}


def builtin():
    """{name: config} from the C table: string literals of a row joined, macros replaced by theirs."""
    text = open("src/models/arch_builtin.c", encoding="utf-8").read().replace("\\\n", "\n")
    literal = r'"(?:[^"\\]|\\.)*"'
    macros = dict(re.findall(r'^#define (\w+)\s+((?:\s*' + literal + r')+)$', text, re.M))
    out = {}
    for name, config in re.findall(r'^    \{"([\w.-]+)", HUB\("[^"]*"\), [0-9]+, (.*)\},$', text, re.M):
        for macro, value in macros.items():
            config = re.sub(r'(?<=" )' + macro + r'(?= ")', lambda _: value, config)
        out[name] = json.loads("".join(json.loads(s) for s in re.findall(literal, config)))
    return out


def parameters(config):
    config = {k: v for k, v in config.items() if k != "quantization_config"}
    kind = config["model_type"]
    c = transformers.AutoConfig.for_model(**config)
    factory = {"t5": transformers.AutoModelForSeq2SeqLM, "whisper": transformers.AutoModelForSpeechSeq2Seq,
               "gemma3": transformers.AutoModelForImageTextToText}
    factory = factory.get(kind, transformers.AutoModel if kind in ENCODERS else transformers.AutoModelForCausalLM)
    with torch.device("meta"):
        model = factory.from_config(c)
    model.tie_weights()
    # The correction of V3's router is stored with the weights, as a buffer.
    stored = [b for n, b in model.named_buffers() if n.endswith("e_score_correction_bias")]
    seen = {id(p): p.numel() for p in list(model.parameters()) + stored}
    # The class of T5 always ties; files of T5 1.1, whose configuration says that it does not, hold a head of their own.
    head = kind == "t5" and not config.get("tie_word_embeddings", True) and model.lm_head.weight.numel()
    text = c.get_text_config() if kind not in ("t5", "whisper") else c
    types = getattr(text, "layer_types", None)
    if types is None and kind == "mistral":
        types = ["sliding_attention" if c.sliding_window else "full_attention"] * c.num_hidden_layers
    if types is None and kind == "phi3":
        types = ["sliding_attention" if c.sliding_window else "full_attention"] * c.num_hidden_layers
    local = [i for i, t in enumerate(types or []) if t == "sliding_attention"]
    return {"parameters": sum(seen.values()) + head, "local_layers": local, "cached": cached(c, factory, config, local)}


def cached(c, factory, config, local):
    """Numbers that a model keeps of TOKENS tokens, by running it; None where it is large, keeps only a window, or keeps
    what latents are expanded to."""
    small = config.get("vocab_size", 1000) < 1000
    if not small or local or config["model_type"] in ENCODERS | {"t5", "whisper", "gemma3", "deepseek_v2", "deepseek_v3"}:
        return None
    model = factory.from_config(c).eval()
    with torch.no_grad():
        past = model(torch.ones((1, TOKENS), dtype=torch.long), use_cache=True).past_key_values
    return sum(layer.keys.numel() + layer.values.numel() for layer in past.layers)


def main():
    models = []
    for name, config in list(builtin().items()) + list(EXTRA.items()):
        models.append({"name": name, **parameters(config), "config": config})
        print(name, models[-1]["parameters"], file=sys.stderr)
    made = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}
    print('{"made_with": %s, "models": [' % json.dumps(made))
    print(",\n".join(json.dumps(m) for m in models))
    print("]}")


main()
