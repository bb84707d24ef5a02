# SPDX-License-Identifier: Apache-2.0
"""A small transformer as a user exports it from JAX, with its weights, its inputs, and what JAX makes of them.

    build-oracle/venv/bin/python tests/oracle/jax_program.py       writes tests/fixtures/lab/jax/

transformer.hlo.pb, transformer.hlo.txt: the program. weights.safetensors, inputs.npz: docs/from-jax.md saves them so.
numbered.safetensors, positions.npz: the same, named by position. cases.npz: three sets of inputs, along a dimension of
their own. expected.npz: logits and pooled (f32) of JAX on the CPU, logits64 and pooled64 of the same function with x64,
all for cases.npz. Every constant of the function is a number that f32 holds, so that the two are the same function.
"""

import os
import pathlib
import re
import shutil

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file

TOP = pathlib.Path(__file__).resolve().parents[2]
OUT = TOP / "tests/fixtures/lab/jax"
jax.config.update("jax_hlo_source_file_canonicalization_regex", re.escape(str(TOP)) + "/")
HIDDEN, HEADS, MLP, VOCAB, LAYERS, BATCH, SEQ = 32, 2, 64, 48, 2, 2, 8
EPS = float(np.float32(1e-6))


def norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + EPS) * scale


def attention(p, x, mask):
    batch, seq, _ = x.shape
    q, k, v = ((x @ p[w]).reshape(batch, seq, HEADS, -1) for w in ("wq", "wk", "wv"))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 4
    scores = jnp.where(mask[:, None, None, :], scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(batch, seq, -1) @ p["wo"]


def transformer(params, tokens, weight):
    mask = tokens != 0
    x = jnp.take(params["embed"], tokens, axis=0, mode="clip")
    for i, p in enumerate(params["layers"]):
        with jax.named_scope(f"layers_{i}"):
            with jax.named_scope("attention"):
                x = x + attention(p, norm(x, p["norm1"]), mask)
            with jax.named_scope("mlp"):
                h = norm(x, p["norm2"])
                x = x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]
    with jax.named_scope("head"):
        x = norm(x, params["norm"])
        return {"logits": x @ params["head"], "pooled": jnp.sum(x * weight[:, :, None] * mask[:, :, None], 1)}


def make_params(r):
    def w(*shape):
        return (r.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    def scale():
        return (1 + r.standard_normal(HIDDEN) / 8).astype(np.float32)

    layer = lambda: {"norm1": scale(), "wq": w(HIDDEN, HIDDEN), "wk": w(HIDDEN, HIDDEN), "wv": w(HIDDEN, HIDDEN),
                     "wo": w(HIDDEN, HIDDEN), "norm2": scale(), "gate": w(HIDDEN, MLP), "up": w(HIDDEN, MLP),
                     "down": w(MLP, HIDDEN)}  # fmt: skip
    return {"embed": w(VOCAB, HIDDEN), "layers": [layer() for _ in range(LAYERS)], "norm": scale(), "head": w(HIDDEN, VOCAB)}



shutil.rmtree(OUT, ignore_errors=True)
OUT.mkdir(parents=True)
r = np.random.default_rng(6)
params = make_params(r)
tokens = r.integers(1, VOCAB, (3, BATCH, SEQ)).astype(np.int32)
tokens[:, 1, 5:] = 0
weight = r.random((3, BATCH, SEQ)).astype(np.float32)

lowered = jax.jit(transformer).lower(params, tokens[0], weight[0])
hlo = lowered.compiler_ir("hlo")
(OUT / "transformer.hlo.pb").write_bytes(hlo.as_serialized_hlo_module_proto())
(OUT / "transformer.hlo.txt").write_text(hlo.as_hlo_text(print_large_constants=True))  # without names
leaves = jax.tree_util.tree_leaves_with_path(params)
save_file({jax.tree_util.keystr(k): v for k, v in leaves}, OUT / "weights.safetensors",
          metadata={"made_with": f"jax {jax.__version__}, numpy {np.__version__}"})  # fmt: skip
save_file({str(i): v for i, (_, v) in enumerate(leaves)}, OUT / "numbered.safetensors")
np.savez(OUT / "inputs.npz", tokens=tokens[0], weight=weight[0])
np.savez_compressed(OUT / "positions.npz", tokens[0].astype(np.int64), np.asfortranarray(weight[0]))
np.savez_compressed(OUT / "cases.npz", tokens=tokens, weight=weight)
nan = [(jax.tree_util.keystr(k), v.copy()) for k, v in leaves]
nan[3][1].flat[5] = np.nan
save_file(dict(nan), OUT / "nan.safetensors")

expected = {}
for i in range(3):
    for k, v in jax.jit(transformer)(params, tokens[i], weight[i]).items():
        expected.setdefault(k, []).append(np.asarray(v))
with jax.enable_x64(True):
    wide = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), params)
    for i in range(3):
        out = jax.jit(transformer)(wide, tokens[i], jnp.asarray(weight[i], jnp.float64))
        for k, v in out.items():
            assert v.dtype == jnp.float64
            expected.setdefault(k + "64", []).append(np.asarray(v))
np.savez(OUT / "expected.npz", **{k: np.stack(v) for k, v in expected.items()})
(OUT / "VERSIONS").write_text(f"jax {jax.__version__}, numpy {np.__version__}\n")
