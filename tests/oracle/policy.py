# SPDX-License-Identifier: Apache-2.0
"""Precision policies in numpy: what a layer and the whole of all-MiniLM-L6-v2 give under each.

    build-oracle/venv/bin/python tests/oracle/policy.py      writes tests/fixtures/ir/policy.json and policy.bin

This is a second implementation, of what src/ir/policy.h and the presets say, not of how the pass is written:

  - Matrices are stored in `w`, either rounded, or as codes: scale = amax / qmax in f32 (qmax 127 or 7) per row or per group
    of a row (1 for zeros), code = rint(x / scale). Vectors are stored in `w` if that is a float type, else in f32.
  - A product with a matrix takes operands in `op` and gives `acc`. Codes with one scale per row are the operand themselves,
    the scale multiplies the sums; codes with scales per group are multiplied out in f32 and rounded to `op` first. With
    op = s8 every row of the activations gets codes in the same way, the sums are exact integers, and are multiplied by the
    row's scale, then by the channel's, in f32.
  - 8-bit floats: scale = amax / largest number, code = x / scale clamped to that and rounded to nearest even; clipped is what
    would have rounded beyond it. u8: scale = (max - min) / 255 of a range that holds 0, zero = rint(-min / scale), code =
    rint(x / scale) + zero; the product is that of code - zero. A scale is that of a row, or one for the tensor: of this call, or
    static: of the range that the activation had in f32, without padding, on the first text alone.
  - A product of activations takes operands in `op`, or in bf16 where op is an integer type, and gives `acc` (f32 for s32).
  - Arithmetic between products is in `red`, that of normalisation in `norm`; every operation rounds its result to it.
  - A value that one part of the model hands to the next is rounded to `a` (to `red` when a is an integer type): the sum of
    the embeddings, what a normalisation gives, queries, keys and values, probabilities, context, the sums of the residual
    connections, the activation function of the MLP. Results are rounded to `out`.
  - A narrowing counts values that are infinite or NaN afterwards, and those that became zero; making codes counts values
    clipped, not finite before, and those that became zero.

"f64" is the same without any rounding. policy.json holds, for layers run alone on injected hidden states, numpy's output
and counts, and for the whole model how far each policy's embeddings are from those in f64; and hashes of the bytes that
weights are stored in. The hidden states are those that the model has at that place in f64, rounded to f32.
"""
import hashlib
import json
import math
import os
import sys
from collections import defaultdict

os.environ["HF_HUB_OFFLINE"] = "1"
import ml_dtypes
import numpy as np
import safetensors.numpy
import transformers

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(TOP, "third_party/models/minilm")
OUT = os.path.join(TOP, "tests/fixtures/ir")
FLOATS = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
BITS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16}
HEADS, LAYERS, EPS = 12, 6, 1e-12

# The definition of the presets, and policies that are spelled out.
PRESETS = {
    "f32": dict(w="f32", a="f32", op="f32"), "bf16": dict(w="bf16", a="bf16", op="bf16"), "f16": dict(w="f16", a="f16", op="f16"),
    "w8a16": dict(w="s8", a="bf16", op="bf16"), "w8a8": dict(w="s8", a="s8", op="s8", acc="s32"), "w4a16": dict(w="s4", group=32, a="bf16", op="bf16"),
    "w8a8-static": dict(w="s8", a="s8", op="s8", acc="s32", a_grain="tensor", static=True),
    "fp8": dict(w="f8e4m3fn", a="f8e4m3fn", op="f8e4m3fn", w_grain="tensor", a_grain="tensor"),
}  # fmt: skip
SPELLED = {
    "w=int4/channel": dict(w="s4", a="bf16", op="bf16"), "w=int8/group:64": dict(w="s8", group=64, a="bf16", op="bf16"),
    "w=int8/channel,a=f16,op=f16,norm=f16,out=f16": dict(w="s8", a="f16", op="f16", norm="f16", out="f16"),
    "w=f32,a=f32,op=bf16": dict(w="f32", a="f32", op="bf16"),
    "w=f8e5m2/channel,a=f8e5m2/row": dict(w="f8e5m2", a="f8e5m2", op="f8e5m2"),
    "w=f8e4m3fn/tensor,a=f8e4m3fn/tensor:static": dict(w="f8e4m3fn", a="f8e4m3fn", op="f8e4m3fn", w_grain="tensor", a_grain="tensor", static=True),
    "w=f8e4m3fn/channel,a=bf16": dict(w="f8e4m3fn", a="bf16", op="bf16"),
    "w=int8,a=uint8/row": dict(w="s8", a="u8", op="u8", acc="s32"),
    "w=int8/tensor,a=uint8/tensor:static": dict(w="s8", a="u8", op="u8", acc="s32", w_grain="tensor", a_grain="tensor", static=True),
    "w=int8,a=int16/row": dict(w="s8", a="s16", op="s16", acc="s32"),
    "w=int8,a=int8/tensor": dict(w="s8", a="s8", op="s8", acc="s32", a_grain="tensor"),
    "w=bf16,red=bf16": dict(w="bf16", a="bf16", op="bf16", red="bf16"), "w=bf16,norm=bf16": dict(w="bf16", a="bf16", op="bf16", norm="bf16"),
}  # fmt: skip
EXACT = dict(w="f64", a="f64", op="f64", acc="f64", red="f64", norm="f64", out="f64")


class Policy:
    def __init__(self, w, a, op, acc="f32", red="f32", norm="f32", out="f32", group=0, w_grain="channel", a_grain="row", static=False):
        self.w, self.a, self.op, self.acc, self.red, self.norm, self.out, self.group = w, a, op, acc, red, norm, out, group
        self.w_grain, self.a_grain, self.static = w_grain, a_grain, static
        self.codes = w not in FLOATS
        self.vectors = "f32" if self.codes else w
        self.between = a if a in FLOATS else red
        self.inner = op if op in FLOATS else "bf16"
        self.inner_acc = "f32" if acc == "s32" else acc


class Value:
    """An array whose elements are all values of `type`; kept in f64 for f64, else in f32."""

    def __init__(self, array, kind):
        self.type = kind
        carrier = np.float64 if kind == "f64" else np.float32
        with np.errstate(over="ignore"):
            self.array = np.asarray(array).astype(FLOATS[kind]).astype(carrier)

    def map(self, f):
        return Value(f(self.array), self.type)


# The largest code, from which magnitude on a number rounds beyond it, and whether that magnitude itself does.
TOP = {"s8": 127, "s4": 7, "s16": 32767, "u8": 255, "f8e4m3fn": 448, "f8e5m2": 57344}
F8 = {"f8e4m3fn": (ml_dtypes.float8_e4m3fn, lambda r: np.abs(r) > 464), "f8e5m2": (ml_dtypes.float8_e5m2, lambda r: np.abs(r) >= 61440)}


class Codes:
    """x as codes of a type: `value` is code - zero, `scale` and `zero` keep the reduced axes."""

    def __init__(self, x, kind, axis, limits=None):
        top, f32 = TOP[kind], np.float32
        low, high = (x.min(axis, keepdims=True), x.max(axis, keepdims=True)) if limits is None else map(f32, limits)
        low, high = np.minimum(low, f32(0)), np.maximum(high, f32(0))
        extent = high - low if kind == "u8" else np.maximum(high, -low)
        scale = (extent / f32(top)).astype(f32)
        self.scale = np.where(extent == 0, f32(1), np.maximum(scale, np.finfo(f32).tiny))
        self.zero = np.minimum(np.rint(-low / self.scale), top) if kind == "u8" else f32(0)
        ratio = (x / self.scale).astype(f32)
        if kind in F8:
            narrow, beyond = F8[kind]
            self.over = beyond(ratio)
            self.code = np.clip(ratio, -top, top).astype(narrow)
            self.value = self.code.astype(f32)
        else:
            raw = np.rint(ratio) + self.zero
            bottom = 0 if kind == "u8" else -top
            self.over = (raw > top) | (raw < bottom)
            self.code = np.clip(raw, bottom, top)
            self.value = self.code - self.zero


class Run:
    """One evaluation under a policy, with its counts. `ranges`: of the activations, for static scales. `tokens`: which rows of an
    activation are tokens."""

    def __init__(self, policy, ranges=None, tokens=None):
        self.p, self.ranges, self.tokens = policy, ranges, tokens
        self.seen, self.clipped = [], []
        self.group = None
        self.counts = defaultdict(lambda: [0, 0, 0])
        self.scales = defaultdict(lambda: [math.inf, -math.inf])

    # -- types

    def to(self, x, kind):
        """Conversion; a narrowing is counted."""
        y = Value(x.array, kind)
        if kind != x.type and BITS[kind] <= BITS[x.type]:
            c = self.counts[self.group]
            c[1] += int((~np.isfinite(y.array)).sum())
            c[2] += int(((x.array != 0) & (y.array == 0)).sum())
        return y

    def store(self, x):
        return self.to(x, self.p.between)

    def apply(self, kind, f, *xs):
        """f on operands of a type, rounded to it. Transcendental functions are evaluated in f64 by the caller's f."""
        xs = [self.to(x, kind).array if isinstance(x, Value) else np.float64(x) if kind == "f64" else Value(x, kind).array for x in xs]
        with np.errstate(all="ignore"):
            return Value(f(*xs), kind)

    # -- weights

    def vector(self, v):
        return Value(v, self.p.vectors)

    def coded(self, w):
        """A matrix as codes and scales in the granularity of the policy: scales [rows], [rows, groups] or []."""
        p = self.p
        if p.group:
            c = Codes(w.reshape(len(w), -1, p.group), p.w, -1)
            return c.code.reshape(w.shape), c.scale[..., 0]
        c = Codes(w, p.w, None if p.w_grain == "tensor" else -1)
        return c.code, c.scale.reshape(() if p.w_grain == "tensor" else len(w))

    def expanded(self, codes, scale):
        """codes times scales, one f32 product each."""
        group = codes.shape[-1] // (scale.shape[-1] if self.p.group else 1)
        wide = np.repeat(scale, group, -1) if self.p.group else scale[..., None] if scale.ndim else scale
        return Value(codes.astype(np.float32) * wide, "f32")

    def rows(self, table, ids):
        if not self.p.codes:
            return Value(table[ids], self.p.w)
        codes, scale = self.coded(table)
        return self.expanded(codes[ids], scale[ids] if scale.ndim else scale)

    # -- products

    def multiply(self, x, y, spec, acc):
        wide = np.float64 if x.type == "f64" else np.float32
        return Value(np.einsum(spec, x.array.astype(wide), y.array.astype(wide), optimize=True), acc)

    def quantised(self, x):
        """The codes of an activation, counted."""
        p, at = self.p, len(self.clipped)
        values = x.array.astype(np.float32)
        limits = self.ranges[at] if p.static else None
        with np.errstate(all="ignore"):
            q = Codes(values, p.op, None if p.a_grain == "tensor" else -1, limits)
        c = self.counts[self.group]
        c[0] += int(q.over.sum())
        c[1] += int((~np.isfinite(values)).sum())
        c[2] += int(((values != 0) & (q.value == 0)).sum())
        self.clipped.append(int((q.over & self.tokens[..., None]).sum()))
        s = self.scales[self.group]
        s[0], s[1] = min(s[0], float(q.scale.min())), max(s[1], float(q.scale.max()))
        return q

    def linear(self, x, w):
        p = self.p
        if self.tokens is not None:  # what a calibration sees
            real = x.array[self.tokens]
            self.seen.append((min(0.0, float(real.min())), max(0.0, float(real.max()))))
        if not p.codes:
            return self.multiply(self.to(x, p.op), self.to(Value(w, p.w), p.op), "...k,nk->...n", p.acc)
        codes, scale = self.coded(w)
        if p.op not in FLOATS:
            q = self.quantised(x)
            wide = np.float32 if p.op in F8 else np.float64  # integers below 2^53: exact
            sums = np.einsum("...k,nk->...n", q.value.astype(wide), codes.astype(wide), optimize=True)
            sums = Value(sums, p.acc).array if p.op in F8 else sums.astype(np.float32)
            return Value(sums * q.scale * scale, "f32")
        if p.group:
            return self.multiply(self.to(x, p.op), self.to(self.expanded(codes, scale), p.op), "...k,nk->...n", p.acc)
        sums = self.multiply(self.to(x, p.op), Value(codes.astype(np.float32), p.op), "...k,nk->...n", p.acc)
        return self.apply(p.acc, np.multiply, sums, self.to(Value(scale, "f32"), p.acc))

    def inner(self, x, y, spec):
        return self.multiply(self.to(x, self.p.inner), self.to(y, self.p.inner), spec, self.p.inner_acc)

    # -- arithmetic

    def add(self, *xs):
        return self.apply(self.p.red, np.add, *xs)

    def norm(self, x, gamma, beta):
        self.group = "norms"
        t, n = self.p.norm, x.array.shape[-1]
        mean = self.apply(t, lambda s, k: s / k, self.apply(t, lambda v: v.sum(-1, keepdims=True), x), n)
        centred = self.apply(t, np.subtract, x, mean)
        square = self.apply(t, np.multiply, centred, centred)
        variance = self.apply(t, lambda s, k: s / k, self.apply(t, lambda v: v.sum(-1, keepdims=True), square), n)
        spread = self.apply(t, np.add, variance, EPS)
        factor = self.apply(t, lambda v: 1 / np.sqrt(v.astype(np.float64)), spread)
        y = self.apply(t, np.multiply, self.apply(t, np.multiply, centred, factor), self.vector(gamma))
        return self.store(self.apply(t, np.add, y, self.vector(beta)))

    def gelu(self, x):
        t = self.p.red
        erf = np.vectorize(math.erf, otypes=[np.float64])
        e = self.apply(t, lambda v: erf(v.astype(np.float64)), self.apply(t, np.multiply, x, math.sqrt(0.5)))
        return self.apply(t, np.multiply, self.apply(t, np.multiply, x, 0.5), self.apply(t, np.add, e, 1))

    def softmax(self, x):
        t = self.p.red
        top = self.apply(t, lambda v: v.max(-1, keepdims=True), x)
        e = self.apply(t, lambda v: np.exp(v.astype(np.float64)), self.apply(t, np.subtract, x, top))
        return self.apply(t, np.divide, e, self.apply(t, lambda v: v.sum(-1, keepdims=True), e))

    # -- the model

    def layer(self, weights, index, x, mask):
        """x [batch, seq, hidden] stored; mask [batch, seq]."""
        def of(name):
            return weights[f"encoder.layer.{index}.{name}"]

        p = self.p
        self.group = "attention projections"
        parts = [f"attention.self.{n}" for n in ("query", "key", "value")]
        w, bias = (np.concatenate([of(f"{n}.{kind}") for n in parts]) for kind in ("weight", "bias"))
        qkv = self.store(self.add(self.linear(x, w), self.vector(bias)))
        self.group = "scores and values"
        b, s, h = x.array.shape
        q, k, v = (Value(part.reshape(b, s, HEADS, -1), qkv.type) for part in np.split(qkv.array, 3, -1))
        scores = self.inner(q, k, "bqhd,bkhd->bhqk")
        scores = self.apply(p.red, np.multiply, scores, 1 / math.sqrt(h // HEADS))
        lowest = -float(ml_dtypes.finfo(FLOATS[p.red]).max)
        scores = self.apply(p.red, np.add, scores, Value(np.where(mask, 0.0, lowest)[:, None, None, :], p.red))
        probabilities = self.store(self.softmax(scores))
        context = self.store(self.inner(probabilities, v, "bhqk,bkhd->bqhd").map(lambda c: c.reshape(b, s, h)))
        self.group = "attention projections"
        y = self.add(self.linear(context, of("attention.output.dense.weight")), self.vector(of("attention.output.dense.bias")))
        x = self.norm(self.store(self.add(y, x)), of("attention.output.LayerNorm.weight"), of("attention.output.LayerNorm.bias"))
        self.group = "MLP"
        y = self.add(self.linear(x, of("intermediate.dense.weight")), self.vector(of("intermediate.dense.bias")))
        y = self.store(self.gelu(y))
        y = self.add(self.linear(y, of("output.dense.weight")), self.vector(of("output.dense.bias")))
        return self.norm(self.store(self.add(y, x)), of("output.LayerNorm.weight"), of("output.LayerNorm.bias"))

    def embedded(self, weights, ids):
        self.group = "embedding"
        x = self.add(self.rows(weights["embeddings.word_embeddings.weight"], ids),
                     self.rows(weights["embeddings.token_type_embeddings.weight"], np.zeros_like(ids)))  # fmt: skip
        x = self.add(x, self.rows(weights["embeddings.position_embeddings.weight"], np.arange(ids.shape[1])))
        return self.norm(self.store(x), weights["embeddings.LayerNorm.weight"], weights["embeddings.LayerNorm.bias"])

    def pooled(self, x, mask):
        self.group, t = "pooling", self.p.red
        ones = Value(mask.astype(np.float32), t)
        n = self.apply(t, lambda m: np.maximum(m.sum(1, keepdims=True), FLOATS[t](1e-9)), ones)
        x = self.apply(t, lambda v, m: (v * m[..., None]).sum(1), x, ones)  # 0 and 1: the products are exact
        x = self.apply(t, np.divide, x, n)
        norm = self.apply(t, lambda v: np.sqrt(v), self.apply(t, lambda v: v.sum(-1, keepdims=True), self.apply(t, np.multiply, x, x)))
        return self.to(self.apply(t, np.divide, x, self.apply(t, lambda v: np.maximum(v, FLOATS[t](1e-12)), norm)), self.p.out)

    def model(self, weights, ids, mask):
        x = self.embedded(weights, ids)
        for i in range(LAYERS):
            x = self.layer(weights, i, x, mask)
        return self.pooled(x, mask)

    def alone(self, weights, index, hidden, mask):
        self.group = "embedding"
        x = self.layer(weights, index, self.store(Value(hidden, "f64" if self.p.w == "f64" else "f32")), mask)
        self.group = "norms"  # where the last value was made
        return self.to(x, self.p.out)


def rel_l2(x, reference):
    return float(np.linalg.norm(x.astype(np.float64) - reference) / np.linalg.norm(reference))


TEXTS = [
    "The ferry to the island leaves twice a day, at nine and at four.", "Two boats cross to the island every day.",
    "She measured the flour by hand and never looked at the recipe.", "A compiler rewrites loops so that memory is read in order.",
    "Snow closed the mountain road before the bus came through.", "Why is the sea salty and the lake not?",
    "Rounding 0.5 to even keeps sums from drifting.", "He plays the cello in the evening; the neighbours have stopped complaining.",
]  # fmt: skip


def tokenised(texts, length):
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL, local_files_only=True)
    batch = tokenizer(texts, padding="max_length", truncation=True, max_length=length, return_tensors="np")
    return batch["input_ids"].astype(np.int32), batch["attention_mask"].astype(np.int32)


blob = bytearray()
NAMES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64", np.dtype(np.int32): "s32", np.dtype(np.float16): "f16", np.dtype(ml_dtypes.bfloat16): "bf16"}


def place(array):
    offset = len(blob)
    blob.extend(np.ascontiguousarray(array).tobytes())
    return [NAMES[array.dtype], list(array.shape), offset]


def tally(run):
    groups = {g for g in [*run.counts, *run.scales] if g}
    return {g: {"counts": run.counts[g], "scales": [s if math.isfinite(s) else None for s in run.scales[g]]} for g in sorted(groups)}


def stored_bytes(weights):
    """SHA-256 of what a weight is stored as, by policy and tensor."""
    names = ["embeddings.word_embeddings.weight", "embeddings.LayerNorm.bias", "encoder.layer.0.attention.self.query.weight", "encoder.layer.5.output.dense.weight"]
    out = []
    for text, fields in {**PRESETS, **SPELLED}.items():
        run = Run(Policy(**fields))
        for name in names:
            w = weights[name]
            if "query" in name:  # stored with key and value below it
                w = np.concatenate([weights[name.replace("query", n)] for n in ("query", "key", "value")])
            if w.ndim == 1 or not run.p.codes:
                kind = run.p.vectors if w.ndim == 1 else run.p.w
                out.append([text, name, "values", hashlib.sha256(w.astype(FLOATS[kind]).tobytes()).hexdigest()])
                continue
            codes, scale = run.coded(w)
            codes = codes if run.p.w in F8 else codes.astype(np.int8)
            if run.p.w == "s4":
                codes = ((codes[:, 0::2] & 15) | (codes[:, 1::2] & 15) << 4).astype(np.uint8)
            out.append([text, name, "codes", hashlib.sha256(codes.tobytes()).hexdigest()])
            out.append([text, name, "scales", hashlib.sha256(scale.astype(np.float32).tobytes()).hexdigest()])
    return out


def main():
    weights = safetensors.numpy.load_file(os.path.join(MODEL, "model.safetensors"))
    exact = Policy(**EXACT)
    ids, mask = tokenised([TEXTS[0], TEXTS[5]], 16)
    layers = []
    x = Run(exact).embedded(weights, ids)
    for i in range(LAYERS):
        hidden = x.array.astype(np.float32)
        x = Run(exact).layer(weights, i, x, mask)
        if i not in (0, 3):
            continue
        reference = Run(exact).alone(weights, i, hidden, mask).array
        one = {"layer": i, "hidden": place(hidden), "f64_rows": place(reference[:, :2].copy()), "policies": []}
        # What a calibration on the first text alone finds: the other one is padding to it.
        alone = np.array([mask[0], np.zeros_like(mask[1])])
        calibration = Run(Policy(**PRESETS["f32"]), tokens=alone == 1)
        calibration.alone(weights, i, hidden, alone)
        ranges = calibration.seen
        one["calibration_mask"], one["ranges"] = place(alone), place(np.array(ranges, np.float32))
        for text, fields in (PRESETS if i else {**PRESETS, **SPELLED}).items():
            run = Run(Policy(**fields), ranges, mask == 1)
            y = run.alone(weights, i, hidden, mask)
            # Stored in the type its values have: half the bytes for the policies that hand on 16 bits.
            kind = run.p.between if BITS[run.p.between] <= BITS[run.p.out] else run.p.out
            assert (y.array.astype(FLOATS[kind]).astype(np.float32) == y.array).all()
            one["policies"].append({"policy": text, "rel_l2": rel_l2(y.array, reference), "output": place(y.array.astype(FLOATS[kind])), "groups": tally(run), "clipped": run.clipped})
            print(i, text, "%.3e" % one["policies"][-1]["rel_l2"], {g: v["counts"] for g, v in tally(run).items() if any(v["counts"])}, run.clipped)
        layers.append(one)

    all_ids, all_mask = tokenised(TEXTS, 24)
    reference = Run(exact).model(weights, all_ids, all_mask).array
    whole = {"input_ids": place(all_ids), "attention_mask": place(all_mask), "f64": place(reference), "policies": []}
    calibration = Run(Policy(**PRESETS["f32"]), tokens=all_mask == 1)
    calibration.model(weights, all_ids, all_mask)
    whole["ranges"] = place(np.array(calibration.seen, np.float32))
    for text, fields in PRESETS.items():
        error = rel_l2(Run(Policy(**fields), calibration.seen, all_mask == 1).model(weights, all_ids, all_mask).array, reference)
        whole["policies"].append({"policy": text, "rel_l2": error})
        print("whole", text, "%.4e" % error)

    index = {
        "made_by": "tests/oracle/policy.py",
        "versions": {"numpy": np.__version__, "ml_dtypes": ml_dtypes.__version__, "transformers": transformers.__version__, "python": "%d.%d" % sys.version_info[:2]},
        "attention_mask": place(mask), "layers": layers, "whole": whole, "stored": stored_bytes(weights),
    }  # fmt: skip
    with open(os.path.join(OUT, "policy.bin"), "wb") as f:
        f.write(blob)
    with open(os.path.join(OUT, "policy.json"), "w", encoding="ascii") as f:
        json.dump(index, f, indent=1)
        f.write("\n")
    print(len(blob), "bytes")


main()
