# SPDX-License-Identifier: Apache-2.0
"""How a sum is accumulated, in JAX and numpy: what `assay precision --suite accumulate` must come to.

    build-oracle/venv/bin/python tests/oracle/accumulate.py      writes tests/fixtures/lab/accumulate.json

Inputs are jax.random normals: the split key of a seed gives x [64,256] and w [256,64] times 0.25. Each case is a list of two
pairs: largest and mean absolute error against the f32 product of JAX, and against the f64 product. Products in bf16 with f32
sums are JAX's; what rounds at every step is numpy: the exact sum of two values that fit f64 together, rounded once to bf16.
"""
import json
import os

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(TOP, "tests/fixtures/lab/accumulate.json")
BF16 = ml_dtypes.bfloat16


def round_bf16(v):
    """f64 to bf16 in one rounding, back in f64. astype goes through f32, which is a second one. Nothing here is subnormal."""
    m, e = np.frexp(v)
    return np.ldexp(np.rint(m * 256) / 256, e)


def products(x, w):
    """[k, m, n]: exact in f64."""
    return x.T[:, :, None] * w[:, None, :]


def sequential(p, rounded):
    total = np.zeros(p.shape[1:])
    for term in p:
        total = round_bf16(total + (round_bf16(term) if rounded else term))
    return total


def pairwise(p):
    """Halves, the left one of n // 2."""
    if len(p) == 1:
        return round_bf16(p[0])
    half = len(p) // 2
    return round_bf16(pairwise(p[:half]) + pairwise(p[half:]))


def blocked(p, size):
    """Blocks summed in order in f32, each then added to an accumulator in bf16."""
    total = np.zeros(p.shape[1:])
    for start in range(0, len(p), size):
        inner = np.zeros(p.shape[1:], np.float32)
        for term in p[start : start + size]:
            inner = (inner.astype(np.float64) + term).astype(np.float32)
        total = round_bf16(total + inner.astype(np.float64))
    return total


def int8(w, axis):
    amax = np.abs(w).max(axis=axis, keepdims=True)
    scale = np.where(amax == 0, np.float32(1), amax / np.float32(127)).astype(np.float32)
    return np.clip(np.rint(w / scale), -127, 127).astype(np.float32) * scale


def dot(x, w, result):
    return np.asarray(jnp.dot(x, w, preferred_element_type=result, precision=jax.lax.Precision.HIGHEST)).astype(np.float64)


def errors(y, product, exact):
    return [[float(np.abs(y - r).max()), float(np.abs(y - r).mean())] for r in (product, exact)]


def problem(seed):
    k1, k2 = jax.random.split(jax.random.PRNGKey(seed))
    x = np.asarray(jax.random.normal(k1, (64, 256), dtype=jnp.float32))
    w = np.asarray(jax.random.normal(k2, (256, 64), dtype=jnp.float32)) * np.float32(0.25)
    product, exact = dot(x, w, jnp.float32), x.astype(np.float64) @ w.astype(np.float64)
    xb, wb = x.astype(BF16), w.astype(BF16)
    sums = dot(jnp.asarray(xb), jnp.asarray(wb), jnp.float32)
    p = products(xb.astype(np.float64), wb.astype(np.float64))
    results = {
        "f32, highest precision": product,
        "bf16 operands, f32 sums": sums,
        "bf16 operands, bf16 result": dot(jnp.asarray(xb), jnp.asarray(wb), jnp.bfloat16),
        "int8 weights per column, f32 sums": dot(x, int8(w, 0), jnp.float32),
        "f32 sums, rounded to bf16 once": round_bf16(sums),
        "blocks of 128 in f32, carried in bf16": blocked(p, 128),
        "blocks of 32 in f32, carried in bf16": blocked(p, 32),
        "blocks of 8 in f32, carried in bf16": blocked(p, 8),
        "bf16 pairwise, products rounded": pairwise(p),
        "bf16 at every step, exact products": sequential(p, False),
        "bf16 at every step, products rounded": sequential(p, True),
    }
    return {name: errors(y, product, exact) for name, y in results.items()}


def outlier():
    w = np.asarray(jax.random.normal(jax.random.PRNGKey(9), (128, 32), dtype=jnp.float32)) * np.float32(0.2)
    w[:, 0] *= np.float32(10)
    x = np.asarray(jax.random.normal(jax.random.PRNGKey(10), (32, 128), dtype=jnp.float32))
    product, exact = dot(x, w, jnp.float32), x.astype(np.float64) @ w.astype(np.float64)
    return {
        "int8, a scale per column": errors(dot(x, int8(w, 0), jnp.float32), product, exact),
        "int8, one scale for the tensor": errors(dot(x, int8(w, None), jnp.float32), product, exact),
    }


def main():
    document = {
        "made_by": "tests/oracle/accumulate.py",
        "versions": {"jax": jax.__version__, "numpy": np.__version__, "ml_dtypes": ml_dtypes.__version__},
        "seeds": {str(seed): problem(seed) for seed in (0, 42, 7)},
        "outlier": outlier(),
    }
    with open(OUT, "w") as f:
        json.dump(document, f, indent=1)
        f.write("\n")


main()
