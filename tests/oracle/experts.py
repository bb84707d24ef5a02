# SPDX-License-Identifier: Apache-2.0
"""What decoders with experts multiply and read, from the shapes of transformers' modules.

    build-oracle/venv/bin/python tests/oracle/experts.py > tests/fixtures/models/experts.json

"prefill" is a prompt of `seq` tokens for each of `batch` sequences with logits of the last ones, "step" one more token of
each behind a cache that holds `seq` with it. FLOP are 2 for each element of a matrix and token that passes it; of the
experts' matrices a token passes `active` of `experts`. Latent attention multiplies the latents themselves in a step. How
many experts a step needs is the mean over routers that draw them at random, not a formula.
"""
import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy
import torch
import transformers

SMALL = {"hidden_size": 64, "num_hidden_layers": 5, "num_attention_heads": 8, "num_key_value_heads": 2,
         "intermediate_size": 160, "vocab_size": 320}  # fmt: skip
LATENT = dict(SMALL, n_routed_experts=6, n_shared_experts=2, num_experts_per_tok=2, moe_intermediate_size=24,
              kv_lora_rank=16, qk_nope_head_dim=12, qk_rope_head_dim=4, v_head_dim=10, num_key_value_heads=8,
              first_k_dense_replace=2)  # fmt: skip
MODELS = {
    "mixtral-small": dict(SMALL, model_type="mixtral", num_local_experts=4, num_experts_per_tok=2),
    "qwen3-moe-dense-layers": dict(SMALL, model_type="qwen3_moe", head_dim=16, num_experts=16, num_experts_per_tok=3,
                                   moe_intermediate_size=24, mlp_only_layers=[0, 3]),
    "deepseek-v2-no-q-lora": dict(LATENT, model_type="deepseek_v2", q_lora_rank=None),
    "deepseek-v3-small": dict(LATENT, model_type="deepseek_v3", q_lora_rank=20, n_group=1, topk_group=1),
}  # fmt: skip
BUILTIN = ["mixtral-8x7b", "mixtral-8x22b", "qwen3-30b-a3b", "qwen3-235b-a22b", "deepseek-v2-lite", "deepseek-v3"]
SHAPES = [(1, 2048), (3, 7), (32, 100)]


def touched(generator, experts, active, tokens):
    """Mean number of different experts, by drawing."""
    if active * tokens > 30 * experts:
        return float(experts)
    ranks = generator.random((4000, tokens, experts)).argsort(axis=2)[:, :, :active].reshape(4000, -1)
    return float(numpy.mean([len(set(row)) for row in ranks.tolist()]))


def facts(config, generator):
    c = transformers.AutoConfig.for_model(**{k: v for k, v in config.items() if k != "quantization_config"})
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(c)
    experts = next(getattr(c, k) for k in ("num_local_experts", "num_experts", "n_routed_experts") if hasattr(c, k))
    matrices = routed = head = per_layer = 0
    for name, p in model.named_parameters():
        if ".experts." in name:
            routed += p.numel()
            per_layer += p.numel() if name.startswith("model.layers.%d." % (c.num_hidden_layers - 1)) else 0
        elif name == "lm_head.weight":
            head = p.numel()
        elif p.dim() == 2 and "embed_tokens" not in name:
            matrices += p.numel()
    lora = getattr(c, "kv_lora_rank", 0) or 0
    if lora:
        query, value = c.qk_nope_head_dim + c.qk_rope_head_dim, c.v_head_dim
        key_step, value_step = lora + c.qk_rope_head_dim, lora
    else:
        query = value = key_step = value_step = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    layers_heads = c.num_hidden_layers * c.num_attention_heads
    active, runs = c.num_experts_per_tok, []
    passed = matrices + routed * active / experts
    for batch, seq in SHAPES:
        runs.append({
            "batch": batch, "seq": seq, "touched": touched(generator, experts, active, batch),
            "prefill": 2 * (batch * seq * passed + batch * head + layers_heads * batch * seq * seq * (query + value)),
            "step": 2 * (batch * (passed + head) + layers_heads * batch * seq * (key_step + value_step)),
        })  # fmt: skip
    return {"experts": experts, "active": active, "routed": routed, "expert": per_layer // experts, "runs": runs}


def main():
    generator, rows = numpy.random.default_rng(7), []
    for name, config in list(MODELS.items()) + [(n, CONFIGS[n]) for n in BUILTIN]:
        rows.append({"name": name, **facts(config, generator), "config": config})
        print(name, file=sys.stderr)
    made = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0], "numpy": numpy.__version__}
    print('{"made_with": %s, "models": [' % json.dumps(made))
    print(",\n".join(json.dumps(r) for r in rows))
    print("]}")


with open("tests/fixtures/models/arch.json", encoding="utf-8") as f:  # configurations of the built-in list
    CONFIGS = {m["name"]: m["config"] for m in json.load(f)["models"]}
main()
