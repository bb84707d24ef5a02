# SPDX-License-Identifier: Apache-2.0
"""Layers as a loop over stacked weights against the same written out, each with weights of its own: docs/image.md."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
from pairs import interleave, interval

BF16 = jnp.bfloat16


def norm(x):
    x = x.astype(jnp.float32)
    return (x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)).astype(BF16)


def attention(q, k, v, causal):
    scores = jnp.einsum("hsd,htd->hst", q, k).astype(jnp.float32) / 128**0.5
    if causal:
        scores = jnp.where(jnp.tri(scores.shape[-1], dtype=bool), scores, -1e9)
    return jnp.einsum("hst,htd->shd", jax.nn.softmax(scores).astype(BF16), v).reshape(q.shape[1], -1)


def heads(x, n):
    return norm(x.reshape(x.shape[0], n, -1)).swapaxes(0, 1)


def qwen(x, w):
    """A layer of Qwen3-4B, 201.9 MB, without its rotation."""
    u = norm(x) @ w["qkv"].T
    q, k, v = heads(u[:, :4096], 32), heads(u[:, 4096:5120], 8), u[:, 5120:].reshape(-1, 8, 128).swapaxes(0, 1)
    x = x + attention(q, jnp.repeat(k, 4, 0), jnp.repeat(v, 4, 0), True) @ w["o"].T
    u = norm(x) @ w["up"].T
    return x + (jax.nn.silu(u[:, :9728]) * u[:, 9728:]) @ w["down"].T


def single(x, w):
    """A single block of klein-4B, 245.4 MB, without modulation and rotation."""
    u = norm(x) @ w["linear1"].T
    q, k, v = heads(u[:, :3072], 24), heads(u[:, 3072:6144], 24), u[:, 6144:9216].reshape(-1, 24, 128).swapaxes(0, 1)
    return x + jnp.concatenate([attention(q, k, v, False), jax.nn.silu(u[:, 9216:18432]) * u[:, 18432:]], 1) @ w["linear2"].T


MODELS = {
    "Qwen3-4B": (qwen, 512, 2560, {"qkv": (6144, 2560), "o": (2560, 4096), "up": (19456, 2560), "down": (2560, 9728)}),
    "klein-4B": (single, 768, 3072, {"linear1": (27648, 3072), "linear2": (3072, 12288)}),
}


def loop(layer, x, w):
    return jax.lax.scan(lambda x, w: (layer(x, w), None), x, w)[0]


def unrolled(layer, x, w):
    for each in w:
        x = layer(x, each)
    return x


def write(folder, model, form, layers):
    layer, tokens, hidden, weights = MODELS[model]
    spec = lambda *shape: jax.ShapeDtypeStruct(shape, BF16)
    w = {n: spec(layers, *s) for n, s in weights.items()} if form is loop else [{n: spec(*s) for n, s in weights.items()}] * layers
    text = jax.jit(lambda x, w: form(layer, x, w)).lower(spec(tokens, hidden), w).as_text()
    path = os.path.join(folder, "%s-%d-%s.mlir" % (model, layers, form.__name__))
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def run(assay, folder, *arguments):
    done = subprocess.run([assay, "--json", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder)
    if done.returncode:
        sys.exit("%s: exit %d\n%s" % (" ".join(arguments), done.returncode, done.stderr.decode(errors="replace")))
    return json.loads(done.stdout)["result"]


def cpu(assay, folder, model, layers, pairs):
    paths = {form: write(folder, model, form, layers) for form in (loop, unrolled)}
    compiles = {loop: [], unrolled: []}

    def once(form):
        subject = run(assay, folder, "bench", paths[form], "--samples", "3", "--warmup", "1", "--timeout", "1800")["subjects"][0]
        compiles[form].append(subject["compile_ms"]["value"])
        return subject["p50_ms"]["value"]

    samples = dict(zip((loop, unrolled), interleave(lambda: once(loop), lambda: once(unrolled), pairs)))
    ratios = [x / y for x, y in zip(samples[loop], samples[unrolled])]
    for form in (loop, unrolled):
        print("%s, %d layers, %-8s  compile %7.0f ms   run %7.0f ms (medians of %d)"
              % (model, layers, form.__name__, statistics.median(compiles[form]), statistics.median(samples[form]), pairs))  # fmt: skip
    print("  a loop's run takes %.2f of the other's (%.2f to %.2f)" % (statistics.median(ratios), *interval(ratios)), flush=True)


def tpu(assay, folder, model, layers, _pairs):
    for form in (loop, unrolled):
        case = run(assay, folder, "compile", write(folder, model, form, layers), "--target", "v6e", "--timeout", "1800")["cases"][0]
        value = lambda part, name: case[part][name]["value"] or 0
        print("%s, %d layers, %-8s  compile %5.1f s of processor time   code %6.2f MB   temporaries %6.1f MB   floor %7.0f us"
              % (model, layers, form.__name__, value("time", "compile_cpu"), value("memory", "code") / 1e6, value("memory", "temporaries") / 1e6, value("floor", "time")),
              flush=True)  # fmt: skip


with tempfile.TemporaryDirectory() as folder:
    for name in MODELS:
        (tpu if sys.argv[2] == "tpu" else cpu)(os.path.abspath(sys.argv[1]), folder, name, 4, int(sys.argv[3]))
