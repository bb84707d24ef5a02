# SPDX-License-Identifier: Apache-2.0
"""Tiny random BERT encoders in f64, from transformers (torch) and the pooling of sentence-transformers.

    build-oracle/venv/bin/python tests/oracle/bert_tiny.py      writes tests/fixtures/ir/bert_tiny.*

bert_tiny.safetensors       the weights in f32, named as BertModel names them
bert_tiny_bf16.safetensors  the same weights rounded to bf16, named with "bert." in front, as models with a head have it
bert_tiny.json, .bin        token ids, mask, and for every activation function each layer's output; for every kind of
                            pooling the embedding, normalised or not. Arrays are [type, extents, offset].
"""
import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np
import safetensors.torch
import sentence_transformers
import torch
import transformers
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(TOP, "tests/fixtures/ir")
SIZES = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24, vocab_size=40, max_position_embeddings=12, type_vocab_size=2)
ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu", "silu": "silu", "tanh": "tanh"}  # ours: theirs

blob = bytearray()
NAMES = {np.dtype(np.float64): "f64", np.dtype(np.int32): "s32"}


def place(array):
    array = np.asarray(array)
    offset = len(blob)
    blob.extend(np.ascontiguousarray(array).tobytes())
    return [NAMES[array.dtype], list(array.shape), offset]


def build(activation, weights=None, eps=1e-5):
    config = transformers.BertConfig(**SIZES, hidden_act=ACTIVATIONS[activation], layer_norm_eps=eps, attn_implementation="eager",
                                     hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)  # fmt: skip
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    if weights is not None:
        model.load_state_dict({**model.state_dict(), **weights})
    return model.double()


@torch.inference_mode()
def main():
    torch.manual_seed(7)
    names = [n for n, p in build("gelu").named_parameters()]
    first = dict(build("gelu").named_parameters())
    # Large enough that every nonlinearity bends; norm scales around one.
    weights = {n: (torch.randn(first[n].shape) * 0.4 + (1.0 if n.endswith("LayerNorm.weight") else 0.0)).float().contiguous() for n in names}
    os.makedirs(OUT, exist_ok=True)
    safetensors.torch.save_file(weights, os.path.join(OUT, "bert_tiny.safetensors"))
    narrow = {n: w.bfloat16() for n, w in weights.items()}
    safetensors.torch.save_file({"bert." + n: w for n, w in narrow.items()}, os.path.join(OUT, "bert_tiny_bf16.safetensors"))

    ids = torch.randint(1, SIZES["vocab_size"], (3, 7))
    lengths = torch.tensor([7, 4, 2])
    mask = (torch.arange(7)[None, :] < lengths[:, None]).long()
    ids = ids * mask
    index = {
        "made_by": "tests/oracle/bert_tiny.py",
        "versions": {"transformers": transformers.__version__, "sentence-transformers": sentence_transformers.__version__,
                     "torch": torch.__version__.split("+")[0], "python": "%d.%d" % sys.version_info[:2]},
        "config": SIZES, "input_ids": place(ids.numpy().astype(np.int32)), "attention_mask": place(mask.numpy().astype(np.int32)),
        "activations": [], "poolings": [],
    }  # fmt: skip

    def run(model):
        return model(input_ids=ids, attention_mask=mask, output_hidden_states=True)

    for ours in ACTIVATIONS:
        eps = 1e-12 if ours == "relu" else 1e-5
        hidden = run(build(ours, weights, eps)).hidden_states
        index["activations"].append({"activation": ours, "eps": eps, "layers": [place(h.numpy()) for h in hidden]})
    wide = {n: w.float() for n, w in narrow.items()}
    index["bf16"] = {"activation": "gelu", "eps": 1e-5, "layers": [place(h.numpy()) for h in run(build("gelu", wide)).hidden_states]}

    last = run(build("gelu", weights)).last_hidden_state
    for mode in ("mean", "cls", "max", "mean_sqrt_len_tokens"):
        features = Pooling(SIZES["hidden_size"], pooling_mode=mode)({"token_embeddings": last, "attention_mask": mask})
        plain = features["sentence_embedding"].clone()
        unit = Normalize()({"sentence_embedding": plain.clone()})["sentence_embedding"]
        assert plain.dtype == torch.float64
        index["poolings"].append({"mode": mode, "embedding": place(plain.numpy()), "normalized": place(unit.numpy())})

    with open(os.path.join(OUT, "bert_tiny.bin"), "wb") as f:
        f.write(blob)
    with open(os.path.join(OUT, "bert_tiny.json"), "w", encoding="ascii") as f:
        json.dump(index, f, indent=1)
        f.write("\n")
    print(len(blob), "bytes")


main()
