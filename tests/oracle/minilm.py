# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the embedding model all-MiniLM-L6-v2, from sentence-transformers (torch, f32, CPU).

    build-oracle/venv/bin/python tests/oracle/minilm.py      writes tests/fixtures/minilm/

index.json      versions, hashes of what went in, the token ids of every sentence, and where things lie in layers.f32
embeddings.f32  [200][384] little-endian f32: SentenceTransformer.encode of the first 200 lines of data/sentences.txt
layers.f32      every layer's output for four of them, run one at a time without padding, so that only real tokens
                are in it: [tokens][384] f32 each
normalized.f64  [4][384] little-endian f64: the embeddings of these four by the same model in f64

The length limit is the model's own (256 tokens); no sentence reaches it, which is asserted, so nothing is cut.
"""
import hashlib
import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import numpy as np
import sentence_transformers
import torch
import transformers
from sentence_transformers import SentenceTransformer

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(TOP, "third_party/models/minilm")
OUT = os.path.join(TOP, "tests/fixtures/minilm")
SENTENCES = 200
LAYERED_TOKENS = (3, 9, 16, 28)  # one sentence each: the first of those that have so many tokens or few more


def sha256(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def rel_l2(got, want):
    return float(np.linalg.norm(got.astype(np.float64) - want) / np.linalg.norm(want))


def layers_of(model, ids):
    """(name, array) of everything from the embedding layer to the normalised sentence."""
    dtype = next(model.parameters()).dtype
    bert, pooling, normalize = model[0].auto_model, model[1], model[2]
    features = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.int64)}
    out = bert(**features, token_type_ids=torch.zeros(1, len(ids), dtype=torch.int64), output_hidden_states=True)
    for i, hidden in enumerate(out.hidden_states):
        yield ("embeddings" if i == 0 else "layer.%d" % (i - 1)), hidden[0].numpy()
    assert torch.equal(out.hidden_states[-1], out.last_hidden_state) and out.last_hidden_state.dtype == dtype
    features["token_embeddings"] = out.last_hidden_state
    pooled = pooling(features)
    yield "pooled", pooled["sentence_embedding"].numpy()
    yield "normalized", normalize(pooled)["sentence_embedding"].numpy()


@torch.inference_mode()
def main():
    torch.set_num_threads(2)
    with open(os.path.join(TOP, "data/sentences.txt"), "rb") as f:
        lines = f.read().split(b"\n")[:SENTENCES]
    assert len(lines) == SENTENCES and all(lines)
    texts = [line.decode() for line in lines]
    model = SentenceTransformer(MODEL, device="cpu", local_files_only=True, model_kwargs={"dtype": torch.float32})
    limit = model.max_seq_length
    tokenizer = model.tokenizer
    ids = [tokenizer(t, truncation=False, padding=False, verbose=False)["input_ids"] for t in texts]
    assert max(map(len, ids)) < limit == 256
    embeddings = model.encode(texts, batch_size=32, convert_to_numpy=True, show_progress_bar=False)
    assert embeddings.shape == (SENTENCES, 384) and embeddings.dtype == np.float32

    chosen = [min((len(x), i) for i, x in enumerate(ids) if len(x) >= n)[1] for n in LAYERED_TOKENS]
    blob, records = b"", []
    for i in chosen:
        arrays = []
        for name, array in layers_of(model, ids[i]):
            arrays.append({"name": name, "offset_bytes": len(blob), "shape": list(array.shape)})
            blob += array.astype("<f4").tobytes()
        assert rel_l2(array[0], embeddings[i].astype(np.float64)) < 1e-6  # alone or in a padded batch: rounding only
        records.append({"sentence": i, "tokens": len(ids[i]), "arrays": arrays})

    # How far the f32 run is from the same model in f64: what another f32 implementation may differ by, too.
    model.double()
    exact = np.concatenate([list(layers_of(model, x))[-1][1] for x in ids])
    index = {
        "made_by": "tests/oracle/minilm.py",
        "versions": {
            "sentence-transformers": sentence_transformers.__version__,
            "transformers": transformers.__version__,
            "torch": torch.__version__.split("+")[0],
            "python": "%d.%d" % sys.version_info[:2],
        },
        "model_sha256": sha256(os.path.join(MODEL, "model.safetensors")),
        "vocab_sha256": sha256(os.path.join(MODEL, "vocab.txt")),
        "sentences_sha256": hashlib.sha256(b"".join(line + b"\n" for line in lines)).hexdigest(),
        "sentences": SENTENCES,
        "max_seq_length": limit,
        "longest_tokens": max(map(len, ids)),
        "hidden": 384,
        "f32_against_f64": {
            "rel_l2": rel_l2(embeddings, exact),
            "rel_l2_worst": max(rel_l2(a, b) for a, b in zip(embeddings, exact)),
        },
        "layers": records,
    }
    os.makedirs(OUT, exist_ok=True)
    embeddings.astype("<f4").tofile(os.path.join(OUT, "embeddings.f32"))
    exact[chosen].astype("<f8").tofile(os.path.join(OUT, "normalized.f64"))
    with open(os.path.join(OUT, "layers.f32"), "wb") as f:
        f.write(blob)
    text = json.dumps(index, indent=1)[:-2] + ',\n "ids": [\n'
    text += ",\n".join("  " + json.dumps(x, separators=(",", ":")) for x in ids) + "\n ]\n}\n"
    assert json.loads(text)["ids"] == ids
    with open(os.path.join(OUT, "index.json"), "w", encoding="ascii") as f:
        f.write(text)
    print(json.dumps(index["f32_against_f64"]), "longest", index["longest_tokens"], "layers", [r["tokens"] for r in records])


main()
