# SPDX-License-Identifier: Apache-2.0
"""Fixture of dot-product arithmetic.

    build-oracle/venv/bin/python tests/oracle/dotmodel.py

writes tests/fixtures/num/dotmodel.json: random dots, and what each kind of hardware makes of them. The reference is
written from the published descriptions in exact fractions, so it shares nothing with the program, which works in
doubles. Beside it stand products that XLA itself computed on a CPU (through jax), with the number of the stream that
made their operands.
"""

import json
import pathlib
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np

TOP = pathlib.Path(__file__).resolve().parents[2]
F32 = (24, -126, 127)
FORMATS = {"f32": F32, "bf16": (8, -126, 127), "tf32": (11, -126, 127), "f16": (11, -14, 15), "e8m13": (14, -126, 127),
           "f8e4m3fn": (4, -6, 8)}
DOTS, LENGTH = 24, 40


def exponent(x):
    """floor(log2 |x|) of a fraction that is not 0."""
    x = abs(x)
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if x >= Fraction(2) ** e else e - 1


def to_integer(x, mode):
    down = x.numerator // x.denominator
    rest = x - down
    if mode == "down":
        return down
    if mode == "zero":
        return down if x >= 0 else -((-x).numerator // (-x).denominator)
    if mode == "odd":
        cut = to_integer(x, "zero")
        return cut if cut == x or cut % 2 else cut + (1 if x > 0 else -1)
    if mode == "away":
        return to_integer(x + Fraction(1, 2), "down") if x >= 0 else -to_integer(-x, "away")
    return down + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and down % 2 == 1))


def fit(x, form, mode="even", flush=False):
    """x in a format; results here never leave its range."""
    bits, emin, emax = FORMATS[form]
    if x == 0:
        return Fraction(0)
    unit = Fraction(2) ** (max(exponent(x), emin) - bits + 1)
    r = to_integer(x / unit, mode) * unit
    assert abs(r) < Fraction(2) ** (emax + 1)
    return Fraction(0) if flush and abs(r) < Fraction(2) ** emin else r


def chain(a, b, step):
    s = Fraction(0)
    for x, y in zip(a, b):
        s = step(s, x, y)
    return s


def sequential(form="f32", separate=False, flush=False):
    def step(s, x, y):
        p = fit(x * y, form, flush=flush) if separate else x * y
        return fit(s + p, form, flush=flush)
    return lambda a, b: chain(a, b, step)


def pairwise_sum(p, form, flush):
    if len(p) == 1:
        return fit(p[0], form, flush=flush)
    half = len(p) // 2
    return fit(pairwise_sum(p[:half], form, flush) + pairwise_sum(p[half:], form, flush), form, flush=flush)


def products(a, b):
    return [x * y for x, y in zip(a, b)]


def pairwise(form, separate):
    def tree(p):
        if len(p) == 1:
            return fit(p[0], form)
        if len(p) == 2 and not separate:
            return fit(p[0] + p[1], form)
        half = len(p) // 2
        return fit(tree(p[:half]) + tree(p[half:]), form)
    return lambda a, b: tree([fit(p, form) for p in products(a, b)] if separate else products(a, b))


def blocked(form, block):
    def run(a, b):
        s = Fraction(0)
        for k in range(0, len(a), block):
            s = fit(s + sequential()(a[k:k + block], b[k:k + block]), form)
        return s
    return run


def lanes(n):
    def run(a, b):
        sums = [sequential()(a[i::n], b[i::n]) for i in range(n)]
        while len(sums) > 1:
            half = len(sums) // 2
            sums = [fit(sums[i] + sums[i + half], "f32") for i in range(half)]
        return sums[0]
    return run


def groups(n, flush=False):
    def run(a, b):
        s = Fraction(0)
        for k in range(0, len(a), n):
            s = fit(s + pairwise_sum(products(a, b)[k:k + n], "f32", flush), "f32", flush=flush)
        return s
    return run


def scale(x, form):
    """The exponent of an operand: subnormals have that of the smallest normal number."""
    return max(exponent(x), FORMATS[form][1]) if x else None


def terms(a, b, form):
    return [(x * y, scale(x, form) + scale(y, form) if x and y else -126) for x, y in zip(a, b)]


def aligned(items, bits):
    top = max(e for _, e in items)
    unit = Fraction(2) ** (top - bits)
    return sum(to_integer(v / unit, "zero") for v, _ in items) * unit, top


def accumulator(s):
    return (s, max(exponent(s), -126) if s else -126)


def fused(form, block, bits, result="f32"):
    def run(a, b):
        s = Fraction(0)
        for k in range(0, len(a), block):
            v, _ = aligned(terms(a[k:k + block], b[k:k + block], form) + [accumulator(s)], bits)
            s = fit(v, result, "zero")
        return s
    return run


def cut(v, bits, top):
    unit = Fraction(2) ** (top - bits)
    return to_integer(v / unit, "down") * unit


def fused_late(form, block, halves):
    def run(a, b):
        s = Fraction(0)
        for k in range(0, len(a), block):
            t = terms(a[k:k + block], b[k:k + block], form)
            if halves:
                even, top_even = aligned(t[0::2], 24)
                odd, top_odd = aligned(t[1::2], 24)
                top = max(top_even, top_odd)
                v = cut(even, 24, top) + cut(odd, 24, top)
            else:
                v, top = aligned(t, 24)
            _, e = accumulator(s)
            top = max(top, e)
            kept = Fraction(0) if halves and e < top - 25 else cut(s, 24, top)
            s = fit(cut(v, 31, top) + kept, "f32")
        return s
    return run


def pairs_odd(a, b):
    order = [i ^ 1 for i in range(len(a))]
    return sequential(flush=True)([a[i] for i in order], [b[i] for i in order])


def bfdot(a, b):
    s = Fraction(0)
    for i in range(0, len(a), 2):
        p, q = (fit(a[k] * b[k], "f32", "odd", True) for k in (i, i + 1))
        s = fit(s + fit(p + q, "f32", "odd", True), "f32", "odd", True)
    return s


def split(x, parts, mode, last_nearest):
    out = []
    for p in range(parts):
        v = fit(x, "bf16", "even" if last_nearest and p == parts - 1 else mode)
        out.append(v)
        x -= v
    return out


def passes(count, mode, last_nearest):
    order = {3: [(0, 1), (1, 0), (0, 0)],
             9: [(2, 2), (1, 2), (2, 1), (1, 1), (0, 2), (2, 0), (0, 1), (1, 0), (0, 0)]}
    order[6] = order[9][3:]

    def run(a, b):
        pa = [split(x, 3 if count > 3 else 2, mode, last_nearest) for x in a]
        pb = [split(x, 3 if count > 3 else 2, mode, last_nearest) for x in b]
        s = None
        for i, j in order[count]:
            part = sequential()([x[i] for x in pa], [y[j] for y in pb])
            s = part if s is None else fit(s + part, "f32")
        return s
    return run


def cast(form, mode, then):
    return lambda a, b: then([fit(x, form, mode) for x in a], [fit(x, form, mode) for x in b])


# Name in the program (keys of its known devices, or of the test): type of the operands, arithmetic.
MODELS = {
    "f32-fma": ("f32", sequential()),
    "f32-separate": ("f32", sequential(separate=True)),
    "tpu-default": ("f32", cast("bf16", "even", sequential())),
    "tpu-high": ("f32", passes(3, "even", False)),
    "tpu-highest": ("f32", passes(6, "even", False)),
    "gpu-bf16x3": ("f32", passes(3, "zero", True)),
    "gpu-bf16x6": ("f32", passes(6, "zero", True)),
    "gpu-bf16x9": ("f32", passes(9, "zero", True)),
    "a100-tf32": ("f32", cast("tf32", "zero", fused("tf32", 4, 24))),
    "h100-tf32": ("f32", cast("tf32", "zero", fused("tf32", 8, 25))),
    "cublas-tf32": ("f32", cast("tf32", "away", fused("tf32", 4, 24))),
    "v100-f16": ("f16", fused("f16", 4, 23)),
    "a100-f16": ("f16", fused("f16", 8, 24)),
    "h100-f16": ("f16", fused("f16", 16, 25)),
    "h100-bf16": ("bf16", fused("bf16", 16, 25)),
    "ada-f8e4m3fn": ("f8e4m3fn", fused("f8e4m3fn", 16, 13, "e8m13")),
    "h100-f8e4m3fn": ("f8e4m3fn", fused("f8e4m3fn", 32, 13, "e8m13")),
    "mi100-f16": ("f16", groups(4)),
    "mi250-bf16": ("bf16", groups(4, True)),
    "mi300-bf16": ("bf16", fused_late("bf16", 8, False)),
    "mi300-f8e4m3fn": ("f8e4m3fn", fused_late("f8e4m3fn", 16, True)),
    "x86-vdpbf16ps": ("bf16", pairs_odd),
    "arm-bfdot": ("bf16", bfdot),
    "sequential-bf16": ("bf16", sequential("bf16")),
    "sequential-bf16-rounded": ("bf16", sequential("bf16", True)),
    "pairwise-bf16": ("bf16", pairwise("bf16", False)),
    "pairwise-bf16-rounded": ("bf16", pairwise("bf16", True)),
    "blocked-8-bf16": ("bf16", blocked("bf16", 8)),
    "lanes-8": ("f32", lanes(8)),
    "exact": ("f32", lambda a, b: fit(sum(products(a, b)), "f32")),
}


def operands(rng, form):
    """Numbers of the format over a few binades, with zeros, repeated terms and their opposites among them."""
    bits, emin, emax = FORMATS[form]
    spread = 3 if form == "f8e4m3fn" else 9
    out = []
    for _ in range(LENGTH):
        significand = int(rng.integers(1 << (bits - 1), 1 << bits))
        e = int(rng.integers(-spread, spread))
        v = Fraction(significand) * Fraction(2) ** (e - bits + 1) * int(rng.choice([-1, 1]))
        out.append(Fraction(0) if rng.integers(12) == 0 else -out[-1] if out and rng.integers(8) == 0 else v)
    assert emin <= -spread and spread <= emax
    return out


def f32_bits(values):
    exact = np.array([float(v) for v in values], dtype=np.float32)
    assert all(Fraction(float(x)) == v for x, v in zip(exact, values))
    return [int(x) for x in exact.view(np.uint32)]


def xla_products():
    """f32 by f32, as XLA's CPU back end computes it; every operand is a draw of numpy's stream 5, as f32. Two rows."""
    m, k, n = 128, 256, 128
    rng = np.random.default_rng(5)
    a = rng.uniform(-1, 1, m * k).astype(np.float32).reshape(m, k)
    b = rng.uniform(-1, 1, k * n).astype(np.float32).reshape(k, n)
    out = np.asarray(jax.jit(jnp.dot)(a, b))[:2]
    return {"m": m, "k": k, "n": n, "seed": 5, "out": [int(x) for x in out.ravel().view(np.uint32)]}


def main():
    jax.config.update("jax_platforms", "cpu")
    rng = np.random.default_rng(20)
    given = {}
    for form in sorted({form for form, _ in MODELS.values()}):
        given[form] = [(operands(rng, form), operands(rng, form)) for _ in range(DOTS)]
    inputs = [{"type": form, "a": f32_bits(sum((x for x, _ in dots), [])), "b": f32_bits(sum((y for _, y in dots), []))}
              for form, dots in given.items()]
    cases = [{"model": name, "type": form, "out": f32_bits([run(x, y) for x, y in given[form]])}
             for name, (form, run) in MODELS.items()]
    doc = {"versions": {"numpy": np.__version__, "jax": jax.__version__}, "length": LENGTH, "inputs": inputs,
           "cases": cases, "xla_cpu": xla_products()}
    path = TOP / "tests/fixtures/num/dotmodel.json"
    path.write_text(json.dumps(doc, separators=(",", ":")) + "\n")
    print(path, path.stat().st_size)


main()
