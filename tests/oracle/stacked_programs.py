# SPDX-License-Identifier: Apache-2.0
"""The same transformer with its layers in one stack that a loop goes through, cut out of the stack one by one, and each
with arrays of its own; and what numpy makes of each policy.

    build-oracle/venv/bin/python tests/oracle/stacked_programs.py      writes tests/fixtures/lab/stacked/

after_scan, after_sliced, after_unrolled (.hlo.pb): one function in the three forms, with the norm behind each block, so
that what a layer hands to the next goes straight into products. before_scan: with the norm in front, so that what the
loop carries does not. stacked.safetensors, unrolled.safetensors: the weights of the two kinds. inputs.npz: tokens.

in_bf16, in_f16, in_f64: one layer of it whose floats are all of that type, with weights and inputs (tokens, and a shift that is
added to what is looked up) in TYPE.safetensors and TYPE.npz; f64_calibrate.npz has three other cases to calibrate with. Policies are applied to these as to the same program in f32: they
round the weights that there are, which in f64 become f32 first. types.npz: numpy's logits for each policy, those in f64, and
what JAX gives in the program's own type.

expected.json holds for every policy the SHA-256 (its first 16 digits) of what is stored of each weight, of the stack as a whole and of each
layer (and of the weights of ../torch/encoder.safetensors, which lie the other way round), and numpy's logits in
logits.npz. This is a second implementation of what src/ir/policy.h, docs/qualify.md and docs/from-jax.md say:

  - a matrix has its output channels and what is contracted, whichever way it lies and however many dimensions they are; a
    stack is as many matrices, each with scales of its own; rows of a stack of vectors are vectors;
  - of a matrix that is contracted both ways the output channels are those of rows that are looked up or multiplied as
    they lie: where these are contracted, the scales go to the activations first;
  - what goes into a product and what comes out of one is rounded to the type of activations, and what a loop carries, too.
"""
import hashlib
import json
import os
import pathlib
import re
import shutil

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import safetensors.numpy

TOP = pathlib.Path(__file__).resolve().parents[2]
OUT = TOP / "tests/fixtures/lab/stacked"
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*")
jax.config.update("jax_traceback_in_locations_limit", 0)
LAYERS, BATCH, SEQ, HIDDEN, HEADS, MLP, EXPERTS, VOCAB = 3, 2, 4, 32, 2, 64, 2, 24
EPS = 2.0**-20

# ---- the programs


def norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + EPS) * scale


def attention(w, x):
    q, k, v = (jnp.einsum("bsd,dhe->bhse", x, w[n]) for n in ("q", "k", "v"))
    p = jax.nn.softmax(jnp.einsum("bhse,bhte->bhst", q, k) * 0.25)
    return jnp.einsum("bhse,hed->bsd", jnp.einsum("bhst,bhte->bhse", p, v), w["o"])


def mlp(w, x):  # torch's [out, in]
    return (jax.nn.silu(x @ w["up"].T) + w["bias"]) @ w["down"].T


def tied(w, x):  # contracted both ways
    return jnp.tanh(x @ w["tie"]) @ w["tie"].T


def experts(w, x):
    h = jnp.maximum(jnp.einsum("bsd,xdf->xbsf", x, w["in"]), 0)
    return jnp.sum(jnp.einsum("xbsf,xfd->xbsd", h, w["out"]), 0)


BLOCKS = (attention, mlp, tied, experts)


def layer_after(x, w):
    for i, f in enumerate(BLOCKS):
        x = norm(x + f(w, x), w["norm"][i])
    return x


def layer_before(x, w):
    for i, f in enumerate(BLOCKS):
        x = x + f(w, norm(x, w["norm"][i]))
    return x


def model(layer, through):
    def run(params, tokens):
        x = jnp.take(params["table"], tokens, axis=0, mode="clip")
        return through(layer, x, params["layers"]) @ params["table"].T

    return run


def scan(layer, x, w):
    return jax.lax.scan(lambda x, w: (layer(x, w), None), x, w)[0]


def sliced(layer, x, w):
    for i in range(LAYERS):
        x = layer(x, jax.tree.map(lambda a: jax.lax.index_in_dim(a, i, keepdims=False), w))
    return x


def typed(params, tokens, shift):
    x = jnp.take(params["table"], tokens, axis=0, mode="clip") + shift
    return layer_before(x, params["layer"]) @ params["table"].T


def unrolled(layer, x, ws):
    for w in ws:
        x = layer(x, w)
    return x


# ---- policies

TYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
CODES = {"s8": 127, "s4": 7, "s16": 32767, "u8": 255, "f8e4m3fn": 448, "f8e5m2": 57344}
F8 = {"f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
f32 = np.float32

# w, granularity of w, a, granularity of a; operands of products are of the type of a.
POLICIES = {
    "f32": ("f32", None, "f32", None), "bf16": ("bf16", None, "bf16", None), "f16": ("f16", None, "f16", None),
    "w8a16": ("s8", "channel", "bf16", None), "w8a8": ("s8", "channel", "s8", "row"), "w4a16": ("s4", 32, "bf16", None),
    "fp8": ("f8e4m3fn", "tensor", "f8e4m3fn", "tensor"), "w=int8,a=f32": ("s8", "channel", "f32", None),
    "w=int8/tensor,a=int8/row": ("s8", "tensor", "s8", "row"), "w=int4/channel,a=f16": ("s4", "channel", "f16", None),
    "w=int8,a=uint8/row": ("s8", "channel", "u8", "row"), "w=int8,a=int16/tensor": ("s8", "channel", "s16", "tensor"),
    "w=f8e5m2/channel,a=f8e5m2/row": ("f8e5m2", "channel", "f8e5m2", "row"), "w=int8/group:16,a=f32": ("s8", 16, "f32", None),
}  # fmt: skip


def codes_of(x, kind, axis, magnitude=None):
    """codes less the zero point, the codes as they are stored, scales: of the range along the axes, which are kept, or of the
    given magnitude."""
    top = f32(CODES[kind])
    high = np.maximum(x.max(axis, keepdims=True), f32(0))
    low = np.minimum(x.min(axis, keepdims=True), f32(0))
    extent = high - low if kind == "u8" else np.maximum(high, -low) if magnitude is None else f32(magnitude)
    scale = np.where(extent == 0, f32(1), np.maximum(extent / top, np.finfo(f32).tiny)).astype(f32)
    ratio = (x / scale).astype(f32)
    if kind in F8:
        stored = np.clip(ratio, -top, top).astype(F8[kind])
        return stored.astype(np.float64), stored, scale
    zero = np.minimum(np.rint(-low / scale), top) if kind == "u8" else f32(0)
    code = np.clip(np.rint(ratio) + zero, 0 if kind == "u8" else -top, top)
    return (code - zero).astype(np.float64), code.astype(np.int8 if kind != "u8" else np.uint8), scale


class Matrix:
    """A weight that is [stack..., outputs..., contracted...] once its axes are put in the order `axes`."""

    def __init__(self, policy, array, stack, outputs, axes):
        self.kind, self.grain = policy[:2]
        a = np.transpose(array, axes)
        self.shape, self.axes = a.shape, axes
        n, m = stack, stack + outputs
        flat = a.reshape(*a.shape[:n], int(np.prod(a.shape[n:m])), -1).astype(f32)
        if self.kind in TYPES:
            self.bytes = [array.astype(TYPES[self.kind]).tobytes()]
            self.wide, self.codes = flat.astype(TYPES[self.kind]).astype(np.float64), None
            return
        grouped = isinstance(self.grain, int)
        parts = flat.reshape(*flat.shape[:-1], -1, self.grain) if grouped else flat
        axis = (-2, -1) if self.grain == "tensor" else -1
        value, stored, scale = codes_of(parts, self.kind, axis)
        self.codes = value.reshape(flat.shape)
        self.scale = scale  # [..., rows, 1]; [..., 1, 1]; [..., rows, groups, 1]
        self.wide = (value.astype(f32) * scale).astype(f32).reshape(flat.shape)
        stored = stored.reshape(flat.shape)
        if self.kind == "s4":
            nibbles = stored.astype(np.uint8) & 15
            stored = nibbles[..., 0::2] | nibbles[..., 1::2] << 4
        self.bytes = [stored.tobytes(), scale.tobytes()]


class Policy:
    def __init__(self, spec):
        self.spec = spec
        self.w, _, self.a, self.a_grain = spec
        self.between = self.a if self.a in TYPES else "f32"
        self.inner = self.a if self.a in TYPES else "bf16"

    def to(self, x, kind):
        return np.asarray(x).astype(f32).astype(TYPES[kind]).astype(np.float64)

    def store(self, x):
        return self.to(x, self.between)

    def vector(self, v):
        return self.to(v, self.w if self.w in TYPES else "f32")

    def product(self, spec, x, y):
        """Of activations."""
        return self.store(np.einsum(spec, self.to(self.store(x), self.inner), self.to(self.store(y), self.inner)))

    def times(self, x, m, folded=False):
        """x [rows, contracted] by one matrix (its stack's entry is x's own where x is [stack, rows, contracted]);
        folded: x [rows, outputs], and the outputs are contracted."""
        x = self.store(x)
        turned = np.swapaxes(m.wide, -1, -2) if not folded else m.wide
        if folded and self.a_grain == "static":  # no scale is known for x with the weight's scales in it
            return self.store(f32(self.to(x, "bf16") @ self.to(turned, "bf16")))
        if m.codes is None or isinstance(m.grain, int):
            return self.store(f32(self.to(x, self.a) @ self.to(turned, self.a)))
        codes = np.swapaxes(m.codes, -1, -2) if not folded else m.codes
        by = np.swapaxes(m.scale, -1, -2).astype(np.float64)  # [..., 1, outputs]
        fold = folded and m.grain == "channel"
        x = (x * by).astype(f32).astype(np.float64) if fold else x
        if self.a in CODES:
            magnitude = self.magnitudes[m.name, folded] if self.a_grain == "static" else None
            q, _, scale = codes_of(x.astype(f32), self.a, -1 if self.a_grain == "row" else None, magnitude)
            sums = f32(f32(q @ codes) * scale)
        else:
            sums = f32(self.to(x, self.a) @ codes)
        return self.store(sums if fold else f32(sums * by))


# How the weights of one layer lie: outputs, axes in the order [stack, outputs, contracted].
LIE = {"q": (0, 2, (1, 2, 0)), "k": (0, 2, (1, 2, 0)), "v": (0, 2, (1, 2, 0)), "o": (0, 1, (2, 0, 1)),
       "tie": (0, 1, (0, 1)), "up": (0, 1, (0, 1)), "down": (0, 1, (0, 1)), "in": (0, 2, (0, 2, 1)), "out": (1, 1, (0, 2, 1))}  # fmt: skip


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Numpy:
    """The function of `model` under a policy. before: the norm is in front of each block; carried: by a loop."""

    def __init__(self, spec, before, carried):
        self.p, self.before, self.carried = Policy(spec), before, carried

    def matrix(self, name, array):
        m = Matrix(self.p.spec, array, *LIE[name])
        m.name = name
        return m

    def block(self, i, w, x):
        p, m = self.p, {n: self.matrix(n, a) for n, a in w.items() if n not in ("norm", "bias")}
        rows = x.reshape(-1, HIDDEN)
        if i == 0:
            heads = lambda n: p.times(rows, m[n]).reshape(BATCH, SEQ, HEADS, -1).transpose(0, 2, 1, 3)
            scores = p.product("bhse,bhte->bhst", heads("q"), heads("k")) * 0.25
            context = p.product("bhst,bhte->bhse", softmax(scores), heads("v"))
            y = p.times(context.transpose(0, 2, 1, 3).reshape(BATCH * SEQ, -1), m["o"])
        elif i == 1:
            h = p.times(rows, m["up"])
            y = p.times(h / (1 + np.exp(-h)) + p.vector(w["bias"]), m["down"])
        elif i == 2:  # the outputs are tie's rows, which the first product contracts
            y = p.times(np.tanh(p.times(rows, m["tie"], True)), m["tie"])
        else:
            h = np.maximum(p.times(rows, m["in"]), 0).reshape(-1, EXPERTS, MLP // 2).transpose(1, 0, 2)
            y = p.times(h, m["out"]).sum(0)
        return y.reshape(x.shape)

    def norm(self, x, scale):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * self.p.vector(scale)

    def run(self, table, layers, tokens, shift=0.0):
        p = self.p
        t = Matrix(p.spec, table, 0, 1, (0, 1))
        t.name = "table"
        x = t.wide[tokens].astype(np.float64) + shift
        for w in layers:
            x = p.store(x) if self.carried else x
            for i in range(len(BLOCKS)):
                if self.before:
                    x = x + self.block(i, w, self.norm(x, w["norm"][i]))
                else:
                    x = p.store(x)
                    x = self.norm(x + self.block(i, w, x), w["norm"][i])
        x = p.store(x) if self.carried else x
        return p.times(x.reshape(-1, HIDDEN), t).reshape(BATCH, SEQ, VOCAB).astype(f32)


# ---- fixtures


def make_params(r):
    def w(*shape, fan):  # numbers that f16 holds: the file stores half as much
        return (r.standard_normal(shape) / np.sqrt(fan)).astype(np.float16)

    e = HIDDEN // HEADS
    layers = {"q": w(LAYERS, HIDDEN, HEADS, e, fan=HIDDEN), "k": w(LAYERS, HIDDEN, HEADS, e, fan=HIDDEN),
              "v": w(LAYERS, HIDDEN, HEADS, e, fan=HIDDEN), "o": w(LAYERS, HEADS, e, HIDDEN, fan=HIDDEN),
              "up": w(LAYERS, MLP, HIDDEN, fan=HIDDEN), "down": w(LAYERS, HIDDEN, MLP, fan=MLP), "bias": w(LAYERS, MLP, fan=4),
              "tie": w(LAYERS, HIDDEN, MLP // 2, fan=HIDDEN), "in": w(LAYERS, EXPERTS, HIDDEN, MLP // 2, fan=HIDDEN),
              "out": w(LAYERS, EXPERTS, MLP // 2, HIDDEN, fan=MLP // 2), "norm": 1 + w(LAYERS, len(BLOCKS), HIDDEN, fan=64)}  # fmt: skip
    return {"table": w(VOCAB, HIDDEN, fan=HIDDEN), "layers": layers}


def save(name, params):
    leaves = jax.tree_util.tree_leaves_with_path(params)
    safetensors.numpy.save_file({jax.tree_util.keystr(k): np.asarray(v) for k, v in leaves}, OUT / name)


def export(name, f, params, tokens):
    wide = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), params)
    lowered = jax.jit(f).lower(wide, tokens)
    (OUT / f"{name}.hlo.pb").write_bytes(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    return np.asarray(lowered.compile()(wide, tokens))


def hashes(spec, name, array):
    """Of one weight; with its stack, where it has one."""
    stack, outputs, axes = LIE[name]
    extra = array.ndim - len(axes)
    m = Matrix(spec, array.astype(f32), stack + extra, outputs, tuple(range(extra)) + tuple(d + extra for d in axes))
    return [hashlib.sha256(b).hexdigest()[:16] for b in m.bytes]


class Exact:
    """A policy that rounds nothing, and notes how large the activations of each product become."""

    def __init__(self):
        self.magnitudes = {}

    def store(self, x):
        return np.asarray(x, np.float64)

    def vector(self, v):
        return np.asarray(v, np.float64)

    def product(self, spec, x, y):
        return np.einsum(spec, x, y)

    def times(self, x, m, folded=False):
        self.magnitudes[m.name, folded] = max(self.magnitudes.get((m.name, folded), 0.0), np.abs(x).max())
        return x @ (m.wide if folded else np.swapaxes(m.wide, -1, -2))


class ExactMatrix:
    def __init__(self, name, array, stack, outputs, axes):
        self.name = name
        a = np.transpose(array, axes)
        self.wide = a.reshape(*a.shape[:stack], int(np.prod(a.shape[stack : stack + outputs])), -1).astype(np.float64)


class NumpyExact(Numpy):
    def __init__(self):
        self.p, self.before = Exact(), True

    def matrix(self, name, array):
        return ExactMatrix(name, array, *LIE[name])

    def run(self, table, layers, tokens, shift):
        x = np.asarray(table, np.float64)[tokens] + np.asarray(shift, np.float64)
        for w in layers:
            for i in range(len(BLOCKS)):
                x = x + self.block(i, w, self.norm(x, w["norm"][i]))
        return self.p.times(x, ExactMatrix("table", np.asarray(table, np.float64), 0, 1, (0, 1)))


def export_types(r, layer, table, tokens):
    logits = {}
    for name, kind in (("bf16", ml_dtypes.bfloat16), ("f16", np.float16), ("f64", np.float64)):
        wide = name == "f64"
        own = jax.tree.map(lambda a: (a.astype(np.float64) * (1 + r.standard_normal(a.shape) / 64)).astype(kind), {"table": table, "layer": layer})
        shift = (r.standard_normal(HIDDEN) / 8).astype(kind)
        with jax.enable_x64(wide):
            lowered = jax.jit(typed).lower(own, tokens, shift)
            (OUT / f"in_{name}.hlo.pb").write_bytes(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
            logits[f"{name}_own"] = np.asarray(lowered.compile({"xla_allow_excess_precision": False})(own, tokens, shift)).astype(np.float64)
        save(f"{name}.safetensors", own)
        np.savez(OUT / f"{name}.npz", tokens=tokens, shift=shift)
        logits[f"{name}_f64"] = NumpyExact().run(own["table"], [own["layer"]], tokens, shift)
        single = jax.tree.map(lambda a: a.astype(f32), own)
        for text, spec in POLICIES.items():
            run = Numpy(spec, True, False)
            logits[f"{name}_{text}"] = run.run(single["table"], [single["layer"]], tokens, shift.astype(f32))
        if wide:  # static scales, from the ranges of other cases
            cases = {"tokens": r.integers(0, VOCAB, (3, BATCH, SEQ)).astype(np.int32), "shift": r.standard_normal((3, HIDDEN)) / 8}
            np.savez_compressed(OUT / "f64_calibrate.npz", **cases)
            exact, run = NumpyExact(), Numpy(("s8", "channel", "s8", "static"), True, False)
            for i in range(3):
                exact.run(own["table"], [own["layer"]], cases["tokens"][i], cases["shift"][i])
            run.p.magnitudes = exact.p.magnitudes
            logits["f64_w8a8-static"] = run.run(single["table"], [single["layer"]], tokens, shift.astype(f32))
        for key, value in logits.items():
            if key.startswith(name):
                print(key, np.linalg.norm(value - logits[f"{name}_f64"]) / np.linalg.norm(logits[f"{name}_f64"]))
    np.savez_compressed(OUT / "types.npz", **{k.replace("/", ":"): v for k, v in logits.items()})


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    r = np.random.default_rng(11)
    params = make_params(r)
    tokens = r.integers(0, VOCAB, (BATCH, SEQ)).astype(np.int32)
    stack = params["layers"]
    each = [{n: a[i] for n, a in stack.items()} for i in range(LAYERS)]
    own = {"table": params["table"], "layers": each}
    save("stacked.safetensors", params)
    save("unrolled.safetensors", own)
    np.savez_compressed(OUT / "inputs.npz", tokens=tokens)
    same = [export("after_scan", model(layer_after, scan), params, tokens), export("after_sliced", model(layer_after, sliced), params, tokens),
            export("after_unrolled", model(layer_after, unrolled), own, tokens)]  # fmt: skip
    before = export("before_scan", model(layer_before, scan), params, tokens)
    encoder = safetensors.numpy.load_file(OUT.parent / "torch/encoder.safetensors")
    logits, expected = {}, {"versions": f"jax {jax.__version__}, numpy {np.__version__}, ml_dtypes {ml_dtypes.__version__}", "policies": []}
    for at, (text, spec) in enumerate(POLICIES.items()):
        for key, before_blocks in (("after", False), ("before", True)):
            run = Numpy(spec, before_blocks, True)
            logits[f"{key}_{at}"] = run.run(params["table"], [{n: a.astype(f32) for n, a in w.items()} for w in each], tokens)
        matrices = [n for n in stack if n not in ("norm", "bias")]
        stored = {f"['layers']['{n}']": hashes(spec, n, stack[n]) for n in matrices}
        for i, w in enumerate(each):
            stored |= {f"['layers'][{i}]['{n}']": hashes(spec, n, w[n]) for n in matrices}
        stored["['table']"] = hashes(spec, "up", params["table"])
        turned = {n: hashes(spec, "up", a) for n, a in encoder.items() if a.ndim == 2} if spec[1] not in (32,) else {}
        expected["policies"].append({"policy": text, "stored": stored, "torch": turned})
    for got in same:
        assert np.allclose(got, logits["after_0"], rtol=0, atol=2e-5), np.abs(got - logits["after_0"]).max()
    assert np.allclose(before, logits["before_0"], rtol=0, atol=2e-5), np.abs(before - logits["before_0"]).max()
    np.savez_compressed(OUT / "logits.npz", **logits)
    export_types(r, each[0], params["table"], tokens)
    (OUT / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    for k in ("after", "before"):
        print(k, *(f"{p['policy']} {np.linalg.norm(logits[f'{k}_{i}'] - logits[f'{k}_0']) / np.linalg.norm(logits[f'{k}_0']):.2e}" for i, p in enumerate(expected["policies"])), sep="\n  ")


main()
