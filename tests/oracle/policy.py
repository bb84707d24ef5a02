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
}  # fmt: skip
SPELLED = {
    "w=int4/channel": dict(w="s4", a="bf16", op="bf16"), "w=int8/group:64": dict(w="s8", group=64, a="bf16", op="bf16"),
    "w=int8/channel,a=f16,op=f16,norm=f16,out=f16": dict(w="s8", a="f16", op="f16", norm="f16", out="f16"),
    "w=f32,a=f32,op=bf16": dict(w="f32", a="f32", op="bf16"),
    "w=bf16,red=bf16": dict(w="bf16", a="bf16", op="bf16", red="bf16"), "w=bf16,norm=bf16": dict(w="bf16", a="bf16", op="bf16", norm="bf16"),
}  # fmt: skip
EXACT = dict(w="f64", a="f64", op="f64", acc="f64", red="f64", norm="f64", out="f64")


class Policy:
    def __init__(self, w, a, op, acc="f32", red="f32", norm="f32", out="f32", group=0):
        self.w, self.a, self.op, self.acc, self.red, self.norm, self.out, self.group = w, a, op, acc, red, norm, out, group
        self.codes = w in ("s8", "s4")
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


class Run:
    """One evaluation under a policy, with its counts."""

    def __init__(self, policy):
        self.p = policy
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

    def quantise(self, x, top):
        """Codes and scales along the last axis."""
        amax = np.abs(x).max(-1)
        scale = (amax / np.float32(top)).astype(np.float32)
        scale = np.where(amax == 0, np.float32(1), np.maximum(scale, np.finfo(np.float32).tiny))
        return np.clip(np.rint(x / scale[..., None]), -top, top), scale

    def coded(self, w):
        """A matrix as codes and scales in the granularity of the policy."""
        top = 127 if self.p.w == "s8" else 7
        if self.p.group:
            codes, scale = self.quantise(w.reshape(len(w), -1, self.p.group), top)
            return codes.reshape(w.shape), scale
        return self.quantise(w, top)

    def expanded(self, codes, scale):
        """codes times scales, one f32 product each."""
        group = codes.shape[-1] // (scale.shape[-1] if self.p.group else 1)
        wide = np.repeat(scale, group, -1) if self.p.group else scale[..., None]
        return Value(codes.astype(np.float32) * wide, "f32")

    def rows(self, table, ids):
        if not self.p.codes:
            return Value(table[ids], self.p.w)
        codes, scale = self.coded(table)
        return self.expanded(codes[ids], scale[ids])

    # -- products

    def multiply(self, x, y, spec, acc):
        wide = np.float64 if x.type == "f64" else np.float32
        return Value(np.einsum(spec, x.array.astype(wide), y.array.astype(wide), optimize=True), acc)

    def linear(self, x, w):
        p = self.p
        if not p.codes:
            return self.multiply(self.to(x, p.op), self.to(Value(w, p.w), p.op), "...k,nk->...n", p.acc)
        codes, scale = self.coded(w)
        if p.op == "s8":
            values = x.array.astype(np.float32)
            bad = ~np.isfinite(values)
            with np.errstate(all="ignore"):
                rows, row_scale = self.quantise(values, 127)
                unclipped = np.rint(values / row_scale[..., None])
            c = self.counts[self.group]
            c[0] += int((np.abs(unclipped) > 127).sum())
            c[1] += int(bad.sum())
            c[2] += int(((values != 0) & (rows == 0)).sum())
            s = self.scales[self.group]
            s[0], s[1] = min(s[0], float(row_scale.min())), max(s[1], float(row_scale.max()))
            sums = np.einsum("...k,nk->...n", rows, codes.astype(np.float64), optimize=True)  # below 2^53: exact
            return Value(sums.astype(np.float32) * row_scale[..., None] * scale, "f32")
        if p.group:
            return self.multiply(self.to(x, p.op), self.to(self.expanded(codes, scale), p.op), "...k,nk->...n", p.acc)
        sums = self.multiply(self.to(x, p.op), Value(codes, p.op), "...k,nk->...n", p.acc)
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
            codes = codes.astype(np.int8)
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
        for text, fields in (PRESETS if i else {**PRESETS, **SPELLED}).items():
            run = Run(Policy(**fields))
            y = run.alone(weights, i, hidden, mask)
            # Stored in the type its values have: half the bytes for the policies that hand on 16 bits.
            kind = run.p.between if BITS[run.p.between] <= BITS[run.p.out] else run.p.out
            assert (y.array.astype(FLOATS[kind]).astype(np.float32) == y.array).all()
            one["policies"].append({"policy": text, "rel_l2": rel_l2(y.array, reference), "output": place(y.array.astype(FLOATS[kind])), "groups": tally(run)})
            print(i, text, "%.3e" % one["policies"][-1]["rel_l2"], {g: v["counts"] for g, v in tally(run).items() if any(v["counts"])})
        layers.append(one)

    all_ids, all_mask = tokenised(TEXTS, 24)
    reference = Run(exact).model(weights, all_ids, all_mask).array
    whole = {"input_ids": place(all_ids), "attention_mask": place(all_mask), "f64": place(reference), "policies": []}
    for text, fields in PRESETS.items():
        error = rel_l2(Run(Policy(**fields)).model(weights, all_ids, all_mask).array, reference)
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
