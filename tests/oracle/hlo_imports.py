# SPDX-License-Identifier: Apache-2.0
"""Programs as users export them from JAX, with arguments and results: what the importer must understand.

    build-oracle/venv/bin/python tests/oracle/hlo_imports.py      writes tests/fixtures/ir/imports/

NAME.hlo.pb is the module before optimisation. imports.json and imports.bin hold, for each, the arguments, the results in
f32 and those of the same function in f64 (all floats that go in widened), and XLA's own count of FLOP (of the program as
it is compiled: loop bodies count once). Constants are numbers that f32 holds exactly, so that the program in f64 is the
same program.
"""
import json
import os
import shutil

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from jax import lax

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(TOP, "tests/fixtures/ir/imports")
rng = np.random.default_rng(6)
NAMES = {"float32": "f32", "float64": "f64", "int32": "s32", "uint32": "u32", "bool": "pred", "bfloat16": "bf16"}
binary = bytearray()


def array(x):
    x = np.asarray(x, order="C")
    while len(binary) % 8:
        binary.append(0)
    at = len(binary)
    binary.extend(x.tobytes())
    return [NAMES[x.dtype.name], list(x.shape), at]


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def weight(*shape):
    return (rng.standard_normal(shape) / np.sqrt(shape[-2] if len(shape) > 1 else 8)).astype(np.float32)


def conv(x, w, stride=1, **how):
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), **how)


def resnet(p, x):
    with jax.named_scope("stem"):
        y = jax.nn.relu(conv(x, p["stem"], 2))
        y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    with jax.named_scope("block"):
        z = jax.nn.relu(conv(y, p["a"], 2))
        z = conv(z, p["b"]) * p["scale"] + p["shift"]
        y = jax.nn.relu(z + conv(y, p["skip"], 2))
    with jax.named_scope("head"):
        return jnp.mean(y, (1, 2)) @ p["head"]


def resnet_train(p, x):
    return jax.grad(lambda p: jnp.sum(resnet(p, x)))(p)


def convolutions(x, w, d, k, t):
    yield_ = [lax.conv_general_dilated(x, w, (2, 1), ((1, 0), (2, 1)), rhs_dilation=(1, 2))]  # NCHW, OIHW
    yield_.append(lax.conv_general_dilated(x, d, (1, 1), "SAME", feature_group_count=4))  # depthwise
    yield_.append(lax.conv_transpose(x, t, (2, 2), "SAME", dimension_numbers=("NCHW", "HWIO", "NCHW")))
    yield_.append(lax.conv_general_dilated(x[:, :, :, 0], k, (1,), [(-1, 2)]))  # one dimension, cut
    return yield_


def lstm(p, x):
    def step(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(x @ p["wx"] + h @ p["wh"] + p["b"], 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((x.shape[1], p["wh"].shape[0]), x.dtype)
    return lax.scan(step, (zero, zero), x)


def gru(p, x):
    def step(h, x):
        r, z = jnp.split(jax.nn.sigmoid(x @ p["wx"] + h @ p["wh"]), 2, -1)
        n = jnp.tanh(x @ p["nx"] + r * (h @ p["nh"]))
        return (1 - z) * n + z * h, None

    return lax.scan(step, jnp.zeros((x.shape[1], p["nh"].shape[0]), x.dtype), x, reverse=True)[0]


def transformer(p, tokens):
    x = jnp.take(p["table"], tokens, axis=0)
    causal = jnp.tril(jnp.ones((tokens.shape[1],) * 2, bool))

    def layer(x, w):
        def norm(x):
            return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 0.0078125)

        with jax.named_scope("attention"):
            q, k, v = (jnp.einsum("bsd,dhe->bhse", norm(x), w[n]) for n in "qkv")
            scores = jnp.where(causal, q @ k.swapaxes(2, 3) * 0.25, -1e9)
            x = x + jnp.einsum("bhse,hed->bsd", jax.nn.softmax(scores) @ v, w["o"])
        with jax.named_scope("mlp"):
            return x + jax.nn.silu(norm(x) @ w["up"]) @ w["down"], None

    x, _ = lax.scan(layer, x, p["layers"])
    return x @ p["table"].T


def embedding_train(table, i, g):
    def loss(table):
        return jnp.sum(table[i] * g)

    return jax.grad(loss)(table), table.at[i].add(g), table.at[i[:1], 2:4].set(0), jnp.take_along_axis(table[:5], i[:, None] % 4, 1)


def sorting(x):
    values, places = lax.top_k(x, 3)
    return jnp.sort(x, 1), jnp.argsort(x, 0), values, places, jnp.argmax(x, 1), jnp.median(x), jnp.cumsum(x, 1), jnp.cumprod(x, 0)


def branches(x, n):
    y, total = lax.cond(x[0, 0] > 0, lambda a: (a * 2, jnp.sum(a)), lambda a: (a - 1, jnp.max(a)), x)
    z = lax.switch(n, [lambda a: a * 2, jnp.sin, lambda a: a @ a.T @ a], x)
    w = lax.while_loop(lambda a: jnp.sum(a) < 100, lambda a: a * 2, jnp.abs(x) + 1)
    return y, total, z, w, lax.fori_loop(0, 7, lambda i, a: a * 0.5 + i, x)


def nested(w, x):
    def outer(h, w):
        return lax.fori_loop(0, 3, lambda _, h: jnp.tanh(h @ w), h), jnp.sum(h)

    return lax.scan(jax.checkpoint(outer), x, w)


def momentum(w, x):
    def step(carry, x):
        w, m = carry
        g = jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
        m = 0.5 * m + g
        return (w - 0.125 * m, m), jnp.sum(g * g)

    return lax.scan(step, (w, jnp.zeros_like(w)), x)


def rare(x, i):
    return (jnp.cbrt(x), jnp.tan(x), jnp.arctan2(x, x[::-1]), lax.round(x * 4), lax.clz(i), lax.reduce_precision(x, 8, 7),
            lax.map(lambda r: jnp.cumsum(r) * 2, x), lax.reduce_window(x, 0.0, lax.add, (2, 2), (2, 2), "VALID"))  # fmt: skip


def dropout(key, x):
    keep = jax.random.uniform(key, x.shape, jnp.float32) < 0.5
    return jnp.where(keep, x * 2, 0), lax.rng_bit_generator(jnp.concatenate([key, key]), (3, 5))[1]


def widen(x):
    return x.astype(np.float64) if x.dtype == np.float32 else x


def program(name, f, *args):
    def flat(*leaves):
        return jax.tree.leaves(f(*jax.tree.unflatten(tree, leaves)))

    leaves, tree = jax.tree.flatten(args)
    lowered = jax.jit(f).lower(*args)
    with open(os.path.join(OUT, name + ".hlo.pb"), "wb") as file:
        file.write(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    compiled = lowered.compile({"xla_allow_excess_precision": False})
    narrow = [np.asarray(y) for y in jax.tree.leaves(compiled(*args))]
    with jax.enable_x64(True):
        wide = [np.asarray(y) for y in jax.jit(flat)(*map(widen, leaves))]
    return {"name": name, "args": [array(x) for x in leaves], "f32": [array(y) for y in narrow],
            "f64": [array(y.astype(np.float64) if y.dtype.kind == "f" else y.astype(n.dtype)) for y, n in zip(wide, narrow)],
            "xla_flop": compiled.cost_analysis().get("flops", 0)}  # fmt: skip


def layers(n, d, h, m):
    e = d // h
    return {**{k: weight(n, d, h, e) for k in "qkv"}, "o": weight(n, h, e, d), "up": weight(n, d, m), "down": weight(n, m, d)}


shutil.rmtree(OUT, ignore_errors=True)
os.makedirs(OUT)
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*")
RESNET = {"stem": weight(5, 5, 3, 8), "a": weight(3, 3, 8, 16), "b": weight(3, 3, 16, 16), "skip": weight(1, 1, 8, 16),
          "scale": normal(16), "shift": normal(16), "head": weight(16, 10)}  # fmt: skip
INT = np.array([3, 0, 3, 7, 1], np.int32)
CASES = [
    program("resnet", resnet, RESNET, normal(2, 17, 16, 3)),
    program("resnet_train", resnet_train, RESNET, normal(2, 17, 16, 3)),
    program("convolutions", convolutions, normal(2, 4, 6, 7), weight(3, 4, 2, 3), weight(8, 1, 3, 3), weight(3, 4, 3), weight(3, 3, 4, 2)),
    program("lstm", lstm, {"wx": weight(8, 64), "wh": weight(16, 64), "b": normal(64)}, normal(5, 3, 8)),
    program("gru", gru, {"wx": weight(8, 32), "wh": weight(16, 32), "nx": weight(8, 16), "nh": weight(16, 16)}, normal(5, 3, 8)),
    program("transformer", transformer, {"table": normal(50, 16), "layers": layers(3, 16, 4, 32)}, rng.integers(0, 50, (2, 5)).astype(np.int32)),
    program("embedding_train", embedding_train, normal(9, 4), INT, normal(5, 4)),
    program("sorting", sorting, normal(4, 9)),
    program("branches", branches, normal(4, 4), np.int32(2)),
    program("nested", nested, weight(2, 6, 6), normal(3, 6)),
    program("momentum", momentum, weight(8, 4), normal(6, 4, 8)),
    program("rare", rare, normal(4, 6), INT),
    program("dropout", dropout, np.array([1, 2], np.uint32), normal(4, 6)),
]  # fmt: skip
with open(os.path.join(OUT, "imports.bin"), "wb") as f:
    f.write(binary)
with open(os.path.join(OUT, "imports.json"), "w") as f:
    json.dump({"versions": f"jax {jax.__version__}, jaxlib {jaxlib.__version__}, numpy {np.__version__}", "cases": CASES}, f, indent=1)
    f.write("\n")
