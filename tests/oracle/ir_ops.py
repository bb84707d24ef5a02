# SPDX-License-Identifier: Apache-2.0
"""What every operation of the intermediate representation gives, from numpy, ml_dtypes and mpmath.

    build-oracle/venv/bin/python tests/oracle/ir_ops.py      writes tests/fixtures/ir/ops.json and ops.bin

A case is an operation, its operands, attributes and the result. An array is [type, extents, offset of its little-endian
row-major elements in ops.bin]; pred is a byte. "ulp" is how many units in the last place of its type a result may be
away; without it the result is exact to the bit (any NaN is like any other). Where "ulp" is given, "absolute" may add an
amount that an element may be off in any case.

Arithmetic in bf16 and f16 is that of f32 with the result rounded once: for + - * / and the square root that is the
correctly rounded result (24 >= 2*11+2 bits), so these are exact in every type. The values are written down here or drawn
with a fixed seed, away from subnormals: processors are set to flush them or not.
"""
import json
import math
import os
import sys
import zlib

import ml_dtypes
import mpmath
import numpy as np

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(TOP, "tests/fixtures/ir")
TYPES = {
    "pred": np.bool_, "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64, "u8": np.uint8, "u16": np.uint16,
    "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
NAMES = {np.dtype(t): name for name, t in TYPES.items()}
FLOATS = ["f32", "f64", "bf16", "f16"]
SIGNED = ["s8", "s16", "s32", "s64"]
UNSIGNED = ["u8", "u16", "u32", "u64"]
INTEGERS = SIGNED + UNSIGNED
NAN, INF = float("nan"), float("inf")

blob = bytearray()
cases = []
random = None


def is_float(name):
    return name in FLOATS


def limits(name):
    """Lowest and highest finite value, as exact Python numbers."""
    if is_float(name):
        top = float(ml_dtypes.finfo(TYPES[name]).max)
        return -top, top
    if name == "pred":
        return False, True
    info = np.iinfo(TYPES[name])
    return int(info.min), int(info.max)


def place(array):
    array = np.asarray(array)
    offset = len(blob)
    blob.extend(np.ascontiguousarray(array).tobytes())
    return [NAMES[array.dtype], list(array.shape), offset]


def case(op, label, operands, want, ulp=None, absolute=None, **attributes):
    label = str(label).replace(" ", "").replace(",)", ")")
    one = {"name": f"{op}/{label}", "op": op, "operands": [place(x) for x in operands], "want": place(want)}
    if ulp is not None:
        one["ulp"] = ulp
    if absolute is not None:
        one["absolute"] = absolute
    one.update({key: value for key, value in attributes.items() if value is not None})
    assert one["name"] not in {c["name"] for c in cases}, one["name"]
    cases.append(one)


def seed(text):
    global random
    random = np.random.default_rng(zlib.crc32(text.encode()))


def draw(name, shape, low=-8.0, high=8.0):
    """Values of a type, spread over a range that suits it."""
    if name == "pred":
        return random.integers(0, 2, shape).astype(np.bool_)
    if is_float(name):
        return np.asarray(random.uniform(low, high, shape)).astype(TYPES[name])
    bottom, top = limits(name)
    return np.asarray(random.integers(bottom, top, shape, dtype=TYPES[name], endpoint=True), dtype=TYPES[name])


def cast(values, name):
    """From f64 (or integers) to a type in one rounding."""
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(TYPES[name])


def wide(x):
    return np.asarray(x).astype(np.float64)


def edges(name):
    """Values at which integer arithmetic goes wrong first."""
    bottom, top = limits(name)
    return [bottom, top, 0, 1, bottom + 1, top - 1, top // 2, 5]


# ---- parameters and constants


def parameters():
    seed("parameter")
    for name in TYPES:
        case("parameter", name, [x := draw(name, (3, 5))], x)
    case("parameter", "scalar", [x := draw("f32", ())], x)
    case("parameter", "empty", [x := draw("s32", (2, 0, 3))], x)
    x = np.array([0.0, -0.0, INF, -INF, NAN, 3e38, 1e-30], np.float32)
    case("parameter", "special", [x], x)


def hexadecimal(v):
    return float(v).hex() if math.isfinite(v) else repr(float(v))


def constants():
    splats = {
        "pred": [True, False], "s8": [-128, 127, 0], "s16": [-32768], "s32": [-(2**31), 2**31 - 1, 7], "s64": [-(2**63), 2**62, -1],
        "u8": [255, 0], "u16": [65535], "u32": [2**32 - 1], "u64": [2**64 - 2048, 2**63, 2**53 + 2, 3],
        "f32": [0.1, 1e-30, -0.0, INF, -INF, NAN, 1e39, 16777217.0], "f64": [0.1, math.pi, 1e300, -INF, NAN],
        "bf16": [0.1, 1.00390625, 3.4e38, NAN, INF], "f16": [0.1, 65504.0, 65519.99, 65520.0, -INF, NAN],
    }  # fmt: skip
    for name, values in splats.items():
        for i, v in enumerate(values):
            shape = [(2, 3), (), (1,), (3, 1, 2)][i % 4]
            case("constant", f"splat-{name}-{i}", [], cast(np.full(shape, v, dtype=object if name == "u64" else None), name),
                 constant="splat", value=hexadecimal(v))  # fmt: skip
    for name in TYPES:
        if name != "pred":
            low, high = limits(name)
            case("constant", f"lowest-{name}", [], np.array([low, low], dtype=TYPES[name]), constant="lowest")
            case("constant", f"infinity-{name}", [], np.array(INF if is_float(name) else high, dtype=TYPES[name]), constant="infinity")
        seed("dense" + name)
        for shape in [(3,), (2, 3), (2, 2, 3), (), (1, 4)]:
            x = draw(name, shape) if name not in ("s64", "u64") else (draw(name, shape) >> 11) << 11  # 53 bits: a double holds it
            case("constant", f"dense-{name}-{'x'.join(map(str, shape)) or 'scalar'}", [], x, constant="dense",
                 dense=place(x.astype(np.float64))[2])  # fmt: skip
    for shape in [(0,), (2, 0, 3)]:
        x = np.zeros(shape, np.float32)
        case("constant", f"dense-empty-{len(shape)}", [], x, constant="dense", dense=place(x.astype(np.float64))[2])
        case("constant", f"splat-empty-{len(shape)}", [], x, constant="splat", value=hexadecimal(4))
    x = np.array([0.1, -0.0, INF, -INF, NAN, 1e300])
    for name in FLOATS:
        case("constant", f"dense-special-{name}", [], cast(x, name), constant="dense", dense=place(x)[2])


def iotas():
    for name in FLOATS + INTEGERS:
        case("iota", name, [], cast(np.arange(5), name), axis=0)
    for axis in range(3):
        want = np.broadcast_to(np.arange((2, 3, 4)[axis]).reshape([-1 if d == axis else 1 for d in range(3)]), (2, 3, 4))
        case("iota", f"axis-{axis}", [], want.astype(np.int32), axis=axis)
    case("iota", "empty", [], np.zeros((2, 0), np.float32), axis=0)


# ---- elementwise


def elementwise_exact():
    special = [0.0, -0.0, INF, -INF, NAN, 0.5, -0.5, 1.5, 2.5, -2.5, 3.49, -3.51, 1e4, -1e4]
    functions = {
        "abs": np.abs, "ceil": np.ceil, "floor": np.floor, "negate": np.negative, "round_nearest_even": np.rint, "sign": np.sign,
    }  # fmt: skip
    for op, f in functions.items():
        seed(op)
        for name in FLOATS:
            x = np.concatenate([cast(special, name), draw(name, 7)])
            y = f(wide(x))
            y[x == 0] = y[x == 0] if op in ("abs", "negate") else wide(x)[x == 0]  # a zero keeps its sign
            case(op, name, [x], cast(y, name))
        case(op, "scalar", [x := np.array(-2.75, np.float32)], cast(f(wide(x)), "f32"))
        case(op, "empty", [np.zeros((0, 3), np.float32)], np.zeros((0, 3), np.float32))
    for name in SIGNED:
        x = np.array(edges(name)[1:], dtype=TYPES[name])  # the magnitude of the lowest value does not exist
        case("abs", name, [x], np.abs(x))
        case("sign", name, [x], np.sign(x))
    for name in INTEGERS:
        x = np.array(edges(name), dtype=TYPES[name])
        case("negate", name, [x], wrap([-int(v) for v in x], name))
    seed("bits")
    for name in INTEGERS:
        x = np.concatenate([np.array(edges(name), dtype=TYPES[name]), draw(name, 5)])
        bits = 8 * x.dtype.itemsize
        case("popcnt", name, [x], np.array([bin(int(v) % 2**bits).count("1") for v in x], dtype=TYPES[name]))
        case("not", name, [x], ~x)
    case("not", "pred", [x := draw("pred", (3, 3))], ~x)
    for name in FLOATS:
        x = cast([0.0, 1.0, -1e4, INF, -INF, NAN], name)
        case("is_finite", name, [x], np.isfinite(wide(x)))


def wrap(values, name):
    """Exact integers into a type, as two's complement does it."""
    bits = 8 * np.dtype(TYPES[name]).itemsize
    out = [int(v) % 2**bits for v in values]
    if name in SIGNED:
        out = [v - 2**bits if v >= 2 ** (bits - 1) else v for v in out]
    return np.array(out, dtype=TYPES[name])


# How far the transcendental functions may be off, in ulp of the result's type, by the type they are computed in (bf16 and
# f16 are computed in f32 and rounded, so they may be one off where f32 is). Twice what was measured with both plugins on
# AVX-512 and at least 2, since the polynomials are chosen per target and none is correctly rounded.
ULP = {
    "exponential": 2, "exponential_minus_one": 2, "log": 2, "log_plus_one": 4, "logistic": 2, "tanh": 4, "erf": 6, "sine": 2, "cosine": 2, "rsqrt": 2,
    "power": 2,
}  # fmt: skip


def ulp_of(op, name):
    return ULP[op] if name in ("f32", "f64") else 1


def exactly(f, x):
    """A function of mpmath at 60 digits, rounded to f64."""
    with mpmath.workdps(60):
        return np.array([float(f(mpmath.mpf(float(v)))) for v in x.ravel()]).reshape(x.shape)


def elementwise_transcendental():
    functions = {  # mpmath's, numpy's for what is not finite, range
        "exponential": (mpmath.exp, np.exp, -20, 10), "exponential_minus_one": (mpmath.expm1, np.expm1, -3, 3),
        "log": (mpmath.log, np.log, 0.01, 60), "log_plus_one": (lambda v: mpmath.log1p(v), np.log1p, -0.9, 8),
        "logistic": (lambda v: 1 / (1 + mpmath.exp(-v)), lambda v: 1 / (1 + np.exp(-v)), -12, 12),
        "tanh": (mpmath.tanh, np.tanh, -6, 6), "erf": (mpmath.erf, lambda v: np.where(np.isnan(v), v, np.sign(v)), -3.5, 3.5),
        "sine": (mpmath.sin, lambda v: v * NAN, -8, 8), "cosine": (mpmath.cos, lambda v: v * NAN, -8, 8),
        "rsqrt": (lambda v: 1 / mpmath.sqrt(v), lambda v: 1 / np.sqrt(v), 0.01, 900), "sqrt": (mpmath.sqrt, np.sqrt, 0.01, 900),
    }  # fmt: skip
    special = {
        "exponential": [0.0, -0.0, INF, -INF, NAN, 1.0], "exponential_minus_one": [0.0, INF, -INF, NAN, 1e-3, -1e-3], "log": [0.0, INF, NAN, -1.0, 1.0],
        "log_plus_one": [0.0, INF, NAN, -1.0, -2.0, 1e-3], "logistic": [0.0, INF, -INF, NAN, 1.0], "tanh": [0.0, -0.0, INF, -INF, NAN, 1e-3, 30.0],
        "erf": [0.0, INF, -INF, NAN, 1e-3, 6.0, -6.0], "sine": [0.0, -0.0, INF, NAN, 1e-3], "cosine": [0.0, INF, NAN], "rsqrt": [0.0, -0.0, INF, NAN, -1.0, 4.0],
        "sqrt": [0.0, -0.0, INF, NAN, -1.0, 2.0, 4.0],
    }  # fmt: skip
    for op, (f, f_special, low, high) in functions.items():
        seed(op)
        for name in FLOATS:
            odd, x = cast(special[op], name), draw(name, 33, low, high)
            with np.errstate(all="ignore"):
                y = f_special(wide(odd))
                for i, v in enumerate(wide(odd)):
                    try:
                        y[i] = exactly(f, np.array([v]))[0] if math.isfinite(v) and v != 0 else y[i]
                    except (TypeError, ValueError, ZeroDivisionError):  # outside the domain: numpy's answer stands
                        pass
            if op in ("cosine",):
                y[wide(odd) == 0] = 1
            if op in ("sine", "erf"):
                y[wide(odd) == 0] = wide(odd)[wide(odd) == 0]
            y = np.concatenate([y, exactly(f, wide(x))])
            ulp = None if op == "sqrt" else ulp_of(op, name)
            # A sine near a multiple of pi has few bits left: its error counts against 1.
            absolute = float(ml_dtypes.finfo(TYPES[name]).eps) if op in ("sine", "cosine") else None
            case(op, name, [np.concatenate([odd, x])], cast(y, name), ulp=ulp, absolute=absolute)


def trunc_div(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def binary():
    special_a = [0.0, INF, -INF, NAN, 1.0, INF, 3.0, -3.0, NAN, 5.5]
    special_b = [1.0, 1.0, INF, 2.0, NAN, -INF, -2.0, -2.0, NAN, 0.25]
    functions = {
        "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "maximum": np.maximum, "minimum": np.minimum,
        "remainder": np.fmod,
    }  # fmt: skip
    for op, f in functions.items():
        seed(op)
        for name in FLOATS:
            a = np.concatenate([cast(special_a, name), draw(name, 14)])
            b = np.concatenate([cast(special_b, name), draw(name, 14, 0.1, 3.0)])
            with np.errstate(all="ignore"):
                want = cast(f(wide(a), wide(b)), name) if name != "f64" else f(a, b)
            case(op, name, [a, b], want)
        case(op, "scalar", [np.array(7.5, np.float32), np.array(2.0, np.float32)], np.float32(f(7.5, 2.0)))
        case(op, "empty", [np.zeros((3, 0), np.float32)] * 2, np.zeros((3, 0), np.float32))
    exact = {
        "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b, "divide": trunc_div,
        "remainder": lambda a, b: a - b * trunc_div(a, b), "maximum": max, "minimum": min, "and": lambda a, b: a & b, "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
    }  # fmt: skip
    for op, f in exact.items():
        seed("integer" + op)
        for name in INTEGERS:
            a = np.concatenate([np.array(edges(name), dtype=TYPES[name]), draw(name, 8)])
            b = np.concatenate([np.array(edges(name)[::-1], dtype=TYPES[name]), draw(name, 8)])
            if op in ("divide", "remainder"):  # by zero, and the lowest by -1, are nobody's promise
                b[(b == 0) | (b.astype(object) == -1)] = 3
            case(op, name, [a, b], wrap([f(int(x), int(y)) for x, y in zip(a, b)], name))
    truth = {"add": np.logical_or, "multiply": np.logical_and, "maximum": np.logical_or, "minimum": np.logical_and, "and": np.logical_and,
             "or": np.logical_or, "xor": np.logical_xor}  # fmt: skip
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    for op, f in truth.items():
        case(op, "pred", [a, b], f(a, b))


def powers():
    seed("power")
    for name in FLOATS:
        a, b = draw(name, 24, 0.1, 6.0), draw(name, 24, -3.0, 3.0)
        odd_a = cast([0.0, 0.0, 2.0, -2.0, -2.0, INF, 1.0, 4.0, 9.0, NAN, 2.0], name)
        odd_b = cast([0.0, 2.0, 0.0, 2.0, 3.0, 2.0, 9.0, 0.5, -0.5, 0.0, NAN], name)
        with np.errstate(all="ignore"):
            y = np.concatenate([np.power(wide(odd_a), wide(odd_b)), [float(mpmath.power(float(x), float(e))) for x, e in zip(a, b)]])
        case("power", name, [np.concatenate([odd_a, a]), np.concatenate([odd_b, b])], cast(y, name), ulp=ulp_of("power", name))
    for name in INTEGERS:
        a, b = np.array([2, 3, 0, 7, 1, 5], dtype=TYPES[name]), np.array([6, 4, 3, 0, 9, 2], dtype=TYPES[name])
        case("power", name, [a, b], wrap([int(x) ** int(y) for x, y in zip(a, b)], name))


def shifts():
    seed("shift")
    for name in INTEGERS:
        bits = 8 * np.dtype(TYPES[name]).itemsize
        x = np.concatenate([np.array(edges(name), dtype=TYPES[name]), draw(name, 6)])
        n = np.array([0, 1, 4, bits - 1, bits, min(bits + 3, limits(name)[1]), 2, 7] + [1, 2, 3, 4, 5, bits - 2], dtype=TYPES[name])
        left, arithmetic, logical = [], [], []
        for v, k in zip(x, n):
            v, k = int(v), int(k)
            unsigned = v % 2**bits
            signed = unsigned - 2**bits if unsigned >= 2 ** (bits - 1) else unsigned
            left.append(unsigned << k if k < bits else 0)
            logical.append(unsigned >> k if k < bits else 0)
            arithmetic.append(signed >> min(k, bits - 1))
        case("shift_left", name, [x, n], wrap(left, name))
        case("shift_right_logical", name, [x, n], wrap(logical, name))
        case("shift_right_arithmetic", name, [x, n], wrap(arithmetic, name))


def comparisons():
    functions = {"EQ": np.equal, "NE": np.not_equal, "GE": np.greater_equal, "GT": np.greater, "LE": np.less_equal, "LT": np.less}
    for name in TYPES:
        if is_float(name):
            values = cast([0.0, -0.0, 1.0, -1.5, INF, -INF, NAN], name)
        elif name == "pred":
            values = np.array([False, True])
        else:
            values = np.array(edges(name)[:4], dtype=TYPES[name])
        a, b = (x.ravel() for x in np.meshgrid(values, values))
        for direction, f in functions.items():
            if name not in ("f32", "u8", "s8", "pred") and direction not in ("GT", "EQ"):
                continue
            case("compare", f"{name}-{direction}", [a, b], f(a, b) if not is_float(name) else f(wide(a), wide(b)), compare=direction)
    case("compare", "scalar", [np.array(3, np.int32), np.array(4, np.int32)], np.array(True), compare="LT")


def selections():
    seed("select")
    for name in TYPES:
        p, a, b = draw("pred", (3, 4)), draw(name, (3, 4)), draw(name, (3, 4))
        case("select", name, [p, a, b], np.where(p, a, b))
    case("select", "scalar", [np.array(False), np.float32(1), np.float32(2)], np.float32(2))
    case("select", "empty", [np.zeros((0,), np.bool_), np.zeros((0,), np.int32), np.zeros((0,), np.int32)], np.zeros((0,), np.int32))
    for name in FLOATS + INTEGERS:
        x = draw(name, 12)
        low, high = (cast(np.full(12, v), name) for v in ((-3.5, 4.25) if is_float(name) else (3, 100)))
        case("clamp", name, [low, x, high], cast(np.minimum(np.maximum(low, x), high), name))
    x = np.array([NAN, INF, -INF, 0.0], np.float32)
    case("clamp", "special", [np.full(4, -2, np.float32), x, np.full(4, 2, np.float32)], np.array([NAN, 2, -2, 0], np.float32))


# ---- types and shapes


def conversions():
    for source in TYPES:
        for target in TYPES:
            seed(source + target)
            if source == "pred":
                x = np.array([False, True, True])
            elif is_float(source) and is_float(target):
                x = np.concatenate([cast([0.0, -0.0, INF, -INF, NAN, 1.0, 0.1, 65503.0, 65519.0, 65520.0, 1e5, 2049.0, 257.0, 258.0], source), draw(source, 9)])
            elif is_float(source):  # truncated towards zero; beyond the range is nobody's promise
                low, high = limits(target) if target != "pred" else (0, 1)
                values = [0.0, 0.75, 1.0, 1.5, 2.5, 100.25, 127.0] + ([-1.5, -0.75, -128.0] if low < 0 else [])
                x = cast([v for v in values if target == "pred" or low <= v <= high], source)
            else:
                x = np.concatenate([np.array(edges(source), dtype=TYPES[source]), draw(source, 6)])
            if target == "pred":
                y = wide(x) != 0 if is_float(source) else x != 0
            elif is_float(source) and not is_float(target):
                y = wrap([int(v) for v in wide(x)], target)
            elif is_float(target):
                y = round_integers(x, target) if not is_float(source) and source != "pred" else cast(x.astype(np.float64), target)
            else:
                y = wrap([int(v) for v in x], target)
            case("convert", f"{source}-{target}", [x], y)
    # In one rounding these are not ties, but XLA goes to bf16 and f16 through f32, where they become ties: one ulp.
    for target, digits in (("bf16", 8), ("f16", 11), ("f32", 24)):
        tie = 1 + 2.0**-digits
        x = np.array([tie, tie + 2.0**-45, tie - 2.0**-45, tie + 2.0 ** (1 - digits), 1 + 3 * 2.0**-digits - 2.0**-45])
        case("convert", f"near-ties-f64-{target}", [x], nearest(x, target), ulp=None if target == "f32" else 1)
    case("convert", "scalar", [np.array(2.5, np.float32)], np.array(2, np.int32))
    case("convert", "empty", [np.zeros((2, 0), np.float32)], np.zeros((2, 0), np.int8))


def nearest(x, name):
    """f64 to nearest even by exact arithmetic (ml_dtypes goes through f32)."""
    digits = {"bf16": 8, "f16": 11, "f32": 24}[name]
    out = []
    for v in x:
        m, e = math.frexp(v)
        out.append(math.ldexp(round(m * 2**digits), e - digits))  # round() is to even, m * 2^digits is exact
    return np.array(out).astype(TYPES[name])


def round_integers(x, name):
    """Integers of any width to nearest even in a float type."""
    digits = {"bf16": 8, "f16": 11, "f32": 24, "f64": 53}[name]
    top = limits(name)[1]
    out = []
    for v in x:
        v = int(v)
        cut = max(0, abs(v).bit_length() - digits)
        half, rest = (1 << cut) >> 1, abs(v) & ((1 << cut) - 1)
        kept = abs(v) >> cut
        kept += cut > 0 and (rest > half or (rest == half and kept & 1))
        m = kept << cut
        out.append(math.copysign(INF if m > top else float(m), v) if v else 0.0)
    return np.array(out).astype(TYPES[name])


def bit_casts():
    seed("bitcast")
    for source, target in [("f32", "s32"), ("s32", "f32"), ("f32", "u32"), ("f64", "u64"), ("s64", "f64"), ("bf16", "u16"), ("s16", "bf16"),
                           ("u16", "f16"), ("f16", "s16"), ("u8", "s8"), ("s8", "u8"), ("f16", "bf16")]:  # fmt: skip
        x = draw(source if is_float(source) else source, (3, 4))
        if is_float(target):  # no subnormal, no NaN
            x = draw(target, (3, 4)).view(TYPES[source])
        case("bitcast_convert", f"{source}-{target}", [x], x.view(TYPES[target]))


def shapes():
    seed("shapes")
    for name, source, target, dims in [("f32", (), (2, 3), []), ("s8", (3,), (2, 3), [1]), ("bf16", (2,), (2, 3), [0]), ("f64", (1, 3), (2, 3), [0, 1]),
                                       ("u8", (2, 1), (2, 4, 3), [0, 1]), ("pred", (2, 3), (2, 5, 3), [0, 2]), ("f32", (0,), (2, 0), [1]),
                                       ("s32", (1,), (0, 3), [1]), ("f16", (), (), [])]:  # fmt: skip
        x = draw(name, source)
        shape = [1] * len(target)
        for i, d in enumerate(dims):
            shape[d] = source[i]
        case("broadcast_in_dim", f"{name}-{source}-{target}", [x], np.broadcast_to(x.reshape(shape), target), a=dims)
    for name, source, target in [("f32", (2, 3), (3, 2)), ("s8", (1, 1), ()), ("bf16", (6,), (1, 2, 3)), ("pred", (2, 3, 4), (24,)), ("u8", (0, 5), (0,)),
                                 ("f64", (), (1, 1, 1)), ("s32", (2, 3, 4), (4, 3, 2))]:  # fmt: skip
        case("reshape", f"{name}-{source}-{target}", [x := draw(name, source)], x.reshape(target))
    for name, source, order in [("f32", (2, 3), [1, 0]), ("s8", (2, 3, 4), [2, 0, 1]), ("bf16", (2, 3, 4, 5), [0, 2, 1, 3]), ("f64", (), []),
                                ("pred", (3, 4), [1, 0]), ("u8", (5,), [0]), ("f16", (0, 3), [1, 0])]:  # fmt: skip
        case("transpose", f"{name}-{source}", [x := draw(name, source)], np.transpose(x, order), a=order)
    for name, source, start, limit, stride in [("f32", (7,), [1], [6], [2]), ("s8", (3, 5), [0, 2], [3, 5], [1, 1]), ("bf16", (4, 5, 3), [1, 0, 2], [4, 5, 3], [2, 3, 1]),
                                               ("pred", (4,), [2], [2], [1]), ("f64", (), [], [], []), ("u8", (2, 6), [1, 0], [2, 6], [1, 5]),
                                               ("s32", (10,), [9], [10], [7])]:  # fmt: skip
        x = draw(name, source)
        case("slice", f"{name}-{source}", [x], x[tuple(slice(*t) for t in zip(start, limit, stride))], a=start, b=limit, c=stride)
    for name, parts, axis in [("f32", [(2, 3), (2, 4)], 1), ("s8", [(2, 3), (1, 3), (4, 3)], 0), ("bf16", [(5,)], 0), ("pred", [(2, 0), (2, 3)], 1),
                              ("u8", [(1, 2, 1), (1, 2, 2)], 2), ("f64", [(0,), (0,)], 0)]:  # fmt: skip
        xs = [draw(name, p) for p in parts]
        case("concatenate", f"{name}-{len(parts)}", xs, np.concatenate(xs, axis), axis=axis)
    for label, name, source, low, high, interior in [
        ("edges", "f32", (2, 3), [1, 0], [0, 2], [0, 0]), ("negative", "s32", (5, 4), [-1, 2], [-2, -1], [0, 0]), ("interior", "bf16", (3,), [0], [0], [2]),
        ("all", "s8", (4, 5), [-2, 1], [3, -4], [1, 2]), ("scalar", "f64", (), [], [], []), ("of-empty", "u8", (0, 2), [2, 0], [1, 0], [3, 0]),
        ("to-empty", "f16", (3,), [-2], [-1], [0]), ("pred", "pred", (2,), [1], [1], [1]),
    ]:  # fmt: skip
        x, value = draw(name, source), draw(name, ())
        case("pad", label, [x, value], pad(x, value, low, high, interior), a=low, b=high, c=interior)
    for name, source, dims in [("f32", (3,), [0]), ("s8", (2, 3), [1]), ("bf16", (2, 3), [0, 1]), ("u8", (2, 3), []), ("pred", (2, 3, 4), [2, 0]), ("f64", (), []),
                               ("f16", (0, 2), [0])]:  # fmt: skip
        case("reverse", f"{name}-{source}-{dims}", [x := draw(name, source)], np.flip(x, dims) if dims else x, a=dims)


def pad(x, value, low, high, interior):
    """By the definition: element i goes to low + i * (interior + 1), if that is inside."""
    shape = [lo + n + max(n - 1, 0) * inner + hi for n, lo, hi, inner in zip(x.shape, low, high, interior)]
    y = np.full(shape, value, dtype=x.dtype)
    for index in np.ndindex(x.shape):
        to = tuple(lo + i * (inner + 1) for i, lo, inner in zip(index, low, interior))
        if all(0 <= t < n for t, n in zip(to, shape)):
            y[to] = x[index]
    return y


def dynamic():
    seed("dynamic")
    for label, name, source, starts, sizes, index in [
        ("inside", "f32", (5, 6), [1, 2], [3, 2], "s32"), ("beyond", "s8", (5, 6), [4, 99], [3, 2], "s64"), ("negative", "bf16", (5, 6), [-3, -1], [2, 6], "s32"),
        ("unsigned", "f64", (5,), [200], [2], "u8"), ("empty", "u8", (4, 2), [1, 0], [0, 2], "s32"), ("scalar", "s32", (), [], [], "s32"),
        ("whole", "pred", (3,), [2], [3], "u32"), ("rank-3", "f16", (2, 3, 4), [1, 1, 1], [1, 2, 3], "s16"),
    ]:  # fmt: skip
        x, update = draw(name, source), draw(name, sizes)
        at = tuple(slice(b := min(max(s, 0), n - k), b + k) for s, n, k in zip(starts, source, sizes))
        scalars = [np.array(s, dtype=TYPES[index]) for s in starts]
        case("dynamic_slice", label, [x, *scalars], x[at], a=sizes)
        y = x.copy()
        y[at] = update
        case("dynamic_update_slice", label, [x, update, *scalars], y)


def gathers():
    seed("gather")
    for label, name, table, indices, kind in [
        ("rows", "f32", (5, 3), [[0, 4], [2, 2]], "s32"), ("outside", "bf16", (5, 3), [-1, 5, 99, -100], "s32"), ("elements", "s8", (7,), [[6, 0, 3]], "s64"),
        ("one", "f64", (4, 2), 3, "s32"), ("planes", "u8", (3, 2, 4), [2, 0], "u32"), ("none", "f16", (3, 2), [], "s32"), ("bytes", "pred", (4, 4), [3, 1], "u8"),
        ("short", "s32", (4, 2), [1, 2], "s16"), ("narrow-table", "f32", (1, 3), [0, 1], "s32"), ("empty-rows", "f32", (3, 0), [1], "s32"),
    ]:  # fmt: skip
        x, i = draw(name, table), np.array(indices, dtype=TYPES[kind])
        case("gather", label, [x, i], x[np.clip(i.astype(np.int64), 0, table[0] - 1)])


# ---- products and reductions


def product(x, y, batch, contract, result):
    """dot_general by einsum over letters, in exact arithmetic."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    lhs = list(letters[: x.ndim])
    rhs = list(letters[x.ndim : x.ndim + y.ndim])
    for l, r in list(zip(*batch)) + list(zip(*contract)):
        rhs[r] = lhs[l]
    shared = [lhs[d] for d in batch[0]]
    gone = [lhs[d] for d in contract[0]]
    out = shared + [c for c in lhs if c not in shared + gone] + [c for c in rhs if c not in shared + gone]
    exact = x.dtype.kind in "iu"
    sums = np.einsum(f"{''.join(lhs)},{''.join(rhs)}->{''.join(out)}", x.astype(object if exact else np.float64), y.astype(object if exact else np.float64))
    return wrap(np.asarray(sums).ravel(), result).reshape(np.shape(sums)) if exact else cast(sums, result)


def dots():
    seed("dot")
    plain = ([], []), ([1], [0])
    layouts = {
        "matrix": ((3, 5), (5, 4), *plain), "linear": ((3, 5), (4, 5), ([], []), ([1], [1])), "left": ((5, 3), (5, 4), ([], []), ([0], [0])),
        "turned": ((5, 3), (4, 5), ([], []), ([0], [1])), "vector": ((5,), (5,), ([], []), ([0], [0])), "outer": ((3,), (4,), ([], []), ([], [])),
        "batch": ((2, 3, 5), (2, 5, 4), ([0], [0]), ([2], [1])), "scores": ((2, 3, 4, 5), (2, 6, 4, 5), ([0, 2], [0, 2]), ([3], [3])),
        "values": ((2, 4, 3, 6), (2, 6, 4, 5), ([0, 1], [0, 2]), ([3], [1])), "two": ((3, 4, 5), (4, 5, 2), ([], []), ([1, 2], [0, 1])),
        "crossed": ((3, 4, 5), (5, 4, 2), ([], []), ([1, 2], [1, 0])), "mixed-batch": ((5, 2, 3), (4, 3, 2), ([1, 2], [2, 1]), ([], [])),
        "scalar": ((), (), ([], []), ([], [])), "no-sum": ((3, 0), (0, 4), *plain), "no-rows": ((0, 5), (5, 4), *plain), "one": ((1, 1), (1, 1), *plain),
    }  # fmt: skip
    types = [("f32", "f32"), ("f64", "f64"), ("bf16", "f32"), ("f16", "f32"), ("bf16", "bf16"), ("f16", "f16"), ("s8", "s32"), ("s32", "s32"), ("u8", "u32")]
    for i, (label, (xs, ys, batch, contract)) in enumerate(layouts.items()):
        for k, (name, result) in enumerate(types):
            if k not in (0, 6) and (i + k) % 3:
                continue
            x, y = (np.round(draw(name, s, -9, 9)).astype(TYPES[name]) if is_float(name) else draw(name, s) for s in (xs, ys))
            # Floats are small integers: every sum is exact in any order. In bf16 results one rounding is left.
            case("dot_general", f"{label}-{name}-{result}", [x, y], product(x, y, batch, contract, result), batch=batch, contract=contract, result=result,
                 ulp=0 if is_float(result) else None)  # which only lets a zero have either sign
    # Above 2^24: a sum kept in f32 would lose the last bits.
    x, y = np.full((2, 1300), 127, np.int8), np.full((3, 1300), 127, np.int8)
    x[1], y[1, ::2], y[2] = -128, -128, 1
    y[2, 7] = -127
    case("dot_general", "long-s8-s32", [x, y], product(x, y, ([], []), ([1], [1]), "s32"), batch=[[], []], contract=[[1], [1]], result="s32")
    # Any order of f32 sums of n terms is within n * 2^-24 of sum |x y|; the bound is kept as an absolute amount.
    for name in ("f32", "bf16", "f16"):
        x, y = draw(name, (7, 96), -2, 2), draw(name, (5, 96), -2, 2)
        want = wide(x) @ wide(y).T
        bound = float(96 * 2.0**-24 * (np.abs(wide(x)) @ np.abs(wide(y)).T).max())
        case("dot_general", f"random-{name}-f32", [x, y], cast(want, "f32"), ulp=0, absolute=bound, batch=[[], []], contract=[[1], [1]], result="f32")


def convolve(x, kernel, strides, low, high, groups):
    """x [batch, spatial..., in] by kernel [out, in / groups, spatial...], tap by tap in f64."""
    x, kernel = wide(x), wide(kernel)
    spatial = kernel.shape[2:]
    padded = np.pad(x, [(0, 0), *zip(low, high), (0, 0)])
    extents = [max(0, (n - k) // s + 1) for n, k, s in zip(padded.shape[1:-1], spatial, strides)]
    out = np.zeros([x.shape[0], *extents, kernel.shape[0]])
    per_in, per_out = x.shape[-1] // groups, kernel.shape[0] // groups
    for tap in np.ndindex(*spatial):
        window = tuple(slice(t, t + s * (n - 1) + 1 if n else t, s) for t, s, n in zip(tap, strides, extents))
        part = padded[(slice(None), *window)]
        for g in range(groups):
            ins, outs = slice(g * per_in, (g + 1) * per_in), slice(g * per_out, (g + 1) * per_out)
            out[..., outs] += part[..., ins] @ kernel[(outs, slice(None), *tap)].T
    return out


def convolutions():
    seed("convolution")
    cases_of = {
        "same": ((2, 5, 4, 3), (6, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1), "one-by-one": ((1, 3, 4, 5), (2, 5, 1, 1), (1, 1), (0, 0), (0, 0), 1),
        "stride-two-padded-behind": ((1, 6, 8, 4), (4, 4, 3, 3), (2, 2), (0, 0), (1, 1), 1), "valid": ((1, 5, 6, 2), (3, 2, 3, 2), (1, 1), (0, 0), (0, 0), 1),
        "depthwise": ((1, 7, 4), (8, 1, 3), (1,), (1,), (1,), 4), "groups": ((2, 4, 3, 6), (4, 3, 2, 2), (2, 1), (1, 0), (0, 1), 2),
        "three": ((1, 3, 4, 2, 3), (2, 3, 2, 2, 2), (1, 2, 1), (1, 0, 1), (0, 1, 0), 1), "nothing": ((1, 2, 2, 3), (2, 3, 3, 3), (1, 1), (0, 0), (0, 0), 1),
    }  # fmt: skip
    for label, (xs, ks, strides, low, high, groups) in cases_of.items():
        for name, result in (("f32", "f32"), ("f64", "f64"), ("bf16", "f32"), ("f16", "f32"), ("bf16", "bf16")):
            # Small integers: every sum is exact in any order. In bf16 results one rounding is left.
            x, kernel = (np.round(draw(name, s, -5, 5)).astype(TYPES[name]) for s in (xs, ks))
            want = cast(convolve(x, kernel, strides, low, high, groups), result)
            case("convolution", f"{label}-{name}-{result}", [x, kernel], want, a=list(strides), b=list(low), c=list(high), axis=groups,
                 ulp=0)  # which only lets a zero have either sign


def reductions():
    functions = {
        "add": lambda a, b: a + b, "multiply": lambda a, b: a * b, "maximum": np.maximum, "minimum": np.minimum, "and": lambda a, b: a & b,
        "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    }  # fmt: skip
    neutral = {"add": 0, "multiply": 1, "or": 0, "xor": 0}
    for op, f in functions.items():
        names = (FLOATS if op in ("add", "multiply", "maximum", "minimum") else []) + INTEGERS
        names += ["pred"] if op in ("maximum", "minimum", "and", "or", "xor") else []
        for name in names:
            seed(op + name)
            low, high = limits(name)
            start = neutral.get(op)
            if op == "maximum":
                start = -INF if is_float(name) else low
            elif op == "minimum":
                start = INF if is_float(name) else high
            elif op == "and":
                start = True if name == "pred" else -1 if name in SIGNED else high
            shapes_of = [((3, 5), [1]), ((2, 0, 3), [1])]
            if name in ("f32", "s8", "pred"):
                shapes_of += [((3, 4, 2), [0, 2]), ((7,), [0])]
            for shape, dims in shapes_of:
                x = draw(name, shape)
                if is_float(name) and op in ("add", "multiply"):  # exact in any order
                    x = np.round(x).astype(TYPES[name]) if op == "add" else cast(np.exp2(random.integers(-1, 2, shape)), name)
                if op in ("maximum", "minimum") and not is_float(name) and name != "pred" and x.size:
                    x.ravel()[0] = low if op == "maximum" else high
                exact = name in INTEGERS
                if exact:
                    total = np.full([n for d, n in enumerate(shape) if d not in dims], start, dtype=object)
                    columns = np.moveaxis(x.astype(object), dims, range(len(dims))).reshape(-1, *total.shape)
                    for row in columns:
                        total = np.vectorize(lambda a, b: {"maximum": max, "minimum": min}.get(op, f)(a, b), otypes=[object])(total, row) if total.size else total
                    want = wrap(np.asarray(total).ravel(), name).reshape(np.shape(total))
                else:
                    total = np.full([n for d, n in enumerate(shape) if d not in dims], start, dtype=np.float64 if is_float(name) else np.bool_)
                    for row in np.moveaxis(wide(x) if is_float(name) else x, dims, range(len(dims))).reshape(-1, *total.shape):
                        total = f(total, row)
                    want = cast(total, name)
                case("reduce", f"{op}-{name}-{'x'.join(map(str, shape))}", [x], want, a=dims, reducer=op)
    x = np.array([[-INF, -INF], [NAN, 1.0], [INF, -INF]], np.float32)
    case("reduce", "maximum-special", [x], np.maximum.reduce(x, 1), a=[1], reducer="maximum")
    case("reduce", "minimum-special", [x], np.minimum.reduce(x, 1), a=[1], reducer="minimum")
    case("reduce", "nothing", [x := np.array([1.5, 2.5], np.float32)], x, a=[], reducer="add")
    case("reduce", "scalar", [x := np.array(4, np.int32)], x, a=[], reducer="maximum")


def main():
    for make in (parameters, constants, iotas, elementwise_exact, elementwise_transcendental, binary, powers, shifts, comparisons, selections, conversions,
                 bit_casts, shapes, dynamic, gathers, dots, convolutions, reductions):  # fmt: skip
        make()
    index = {
        "made_by": "tests/oracle/ir_ops.py",
        "versions": {"numpy": np.__version__, "ml_dtypes": ml_dtypes.__version__, "mpmath": mpmath.__version__, "python": "%d.%d" % sys.version_info[:2]},
        "bytes": len(blob),
    }
    os.makedirs(OUT, exist_ok=True)
    with open(os.path.join(OUT, "ops.bin"), "wb") as f:
        f.write(blob)
    with open(os.path.join(OUT, "ops.json"), "w", encoding="ascii") as f:
        f.write(json.dumps(index)[:-1] + ', "cases": [\n')
        f.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]}\n")
    print(len(cases), "cases,", len(blob), "bytes")


main()
