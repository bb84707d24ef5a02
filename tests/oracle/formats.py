# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the number formats and block formats.

    build-oracle/venv/bin/python tests/oracle/formats.py

writes tests/fixtures/num/formats.json and blocks.json. References, independent of each other and of the program:

- ml_dtypes: what every code means, and its plain cast, to nearest with ties to even, of f16, bf16 and f32.
- A model that knows a format only as the list of its values, as ml_dtypes decodes them, and looks for the neighbours of
  an exact value in it. It must give ml_dtypes' casts (asserted here), and says besides what doubles become (ml_dtypes
  takes them through f32, which rounds twice), the other roundings and saturation. Samples of it are checked against
  exact fractions. f32 and tf32, which are too long for lists, are rounded by scaling to integers.
- Block formats: the same lists, and scales by exact exponents. When torchao can be imported (it is not among the
  requirements: pip install --no-deps --target DIR torchao, then PYTHONPATH=DIR), its codes and scales are compared, too,
  and blocks_torchao.json is written from what it gives.

Results are kept as SHA-256 of codes, with the quiet NaN of its sign for any NaN.
"""

import hashlib
import json
import pathlib
from fractions import Fraction

import ml_dtypes
import numpy as np

TOP = pathlib.Path(__file__).resolve().parents[2]
NUM = TOP / "tests/fixtures/num"
VERSIONS = {"numpy": np.__version__, "ml_dtypes": ml_dtypes.__version__}

# Name, dtype of ml_dtypes or numpy, bits.
FLOATS = {
    "bf16": (ml_dtypes.bfloat16, 16),
    "f16": (np.float16, 16),
    "f8e5m2": (ml_dtypes.float8_e5m2, 8),
    "f8e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, 8),
    "f8e4m3": (ml_dtypes.float8_e4m3, 8),
    "f8e4m3fn": (ml_dtypes.float8_e4m3fn, 8),
    "f8e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, 8),
    "f8e4m3b11fnuz": (ml_dtypes.float8_e4m3b11fnuz, 8),
    "f8e3m4": (ml_dtypes.float8_e3m4, 8),
    "f8e8m0fnu": (ml_dtypes.float8_e8m0fnu, 8),
    "f6e3m2fn": (ml_dtypes.float6_e3m2fn, 6),
    "f6e2m3fn": (ml_dtypes.float6_e2m3fn, 6),
    "f4e2m1fn": (ml_dtypes.float4_e2m1fn, 4),
}
INTEGERS = {
    "s16": (np.int16, 16),
    "u16": (np.uint16, 16),
    "s8": (np.int8, 8),
    "u8": (np.uint8, 8),
    "s4": (ml_dtypes.int4, 4),
    "u4": (ml_dtypes.uint4, 4),
    "s2": (ml_dtypes.int2, 2),
    "u2": (ml_dtypes.uint2, 2),
}
WIDE_INTEGERS = {"s32": (np.int32, 32), "u32": (np.uint32, 32)}
# Fraction bits of the float formats that are not looked up in lists.
SCALED = {"f32": 23, "tf32": 10}
ROUNDINGS = ["nearest-even", "nearest-away", "toward-zero"]
OVERFLOWS = ["plain", "saturate", "saturate-finite"]
LOWER = [0, 1, 0x0FFF, 0x1000, 0x1001, 0x2FFF, 0x3000, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
# From tables made by others of the same formats: NaN as 0x7fc00000, -0 kept, f32 in the order of the codes.
KNOWN = {
    "f8e5m2": "229a94c5f728edf2",
    "f8e4m3": "9ce77bd30a02e10b",
    "f8e3m4": "dbadb7342f174274",
    "f8e4m3fn": "422eccfaa21e72a6",
    "f8e4m3fnuz": "ac4866f772a7c080",
    "f8e5m2fnuz": "aac12d2730bf26ca",
    "f8e4m3b11fnuz": "74505330e3c9cb73",
    "f6e2m3fn": "178eab5d385741cf",
    "f6e3m2fn": "1f21874836838a0a",
    "f4e2m1fn": "c736c7e2e761e089",
}


def sha256(*arrays):
    h = hashlib.sha256()
    for a in arrays:
        h.update(np.ascontiguousarray(a).tobytes())
    return h.hexdigest()


def write_json(path, value, versions=VERSIONS):
    path.write_text(json.dumps({"versions": versions, **value}, separators=(",", ":")) + "\n")


def code_type(bits):
    return np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32


class Float:
    """A float format of at most 16 bits as the list of its values."""

    def __init__(self, name, dtype, bits):
        self.name, self.dtype, self.bits = name, dtype, bits
        self.type = code_type(bits)
        with np.errstate(invalid="ignore"):
            self.decoded = np.arange(1 << bits, dtype=self.type).view(dtype).astype(np.float64)
        self.signed = name != "f8e8m0fnu"
        self.sign = 1 << (bits - 1) if self.signed else 0
        half = self.decoded[: 1 << (bits - self.signed)]
        self.values = half[np.isfinite(half)]
        self.largest = len(self.values) - 1
        self.after = 2 * self.values[-1] - self.values[-2] if self.signed else 2 * self.values[-1]
        self.has_zero = self.values[0] == 0
        self.infinity = next((c for c, v in enumerate(half) if np.isposinf(v)), None)
        nans = [c for c, v in enumerate(self.decoded) if np.isnan(v)]
        self.signed_nan = len(nans) > 1
        with np.errstate(invalid="ignore"):
            self.nan = int(np.array([np.nan], np.float32).astype(dtype).view(self.type)[0])
        self.numbers_only = not nans and self.infinity is None

    def with_sign(self, magnitude, negative):
        fnuz = len(self.decoded) > 128 and self.signed and np.isnan(self.decoded[self.sign])
        code = magnitude | np.where(negative, self.sign, 0)
        return np.where((magnitude == 0) & negative, 0, code) if fnuz else code

    def plain(self, x):
        """ml_dtypes' cast, NaN made canonical."""
        with np.errstate(over="ignore", invalid="ignore"):
            codes = x.astype(self.dtype).view(self.type).astype(np.int64)
        if not self.numbers_only:
            nan = np.isnan(self.decoded[codes])
            sign = codes & self.sign if self.signed_nan else 0
            codes = np.where(nan, self.nan | sign, codes)
        return codes

    def encode(self, x, rounding, overflow, words=None):
        """Codes and counts of doubles; words: 64 random bits each, for stochastic rounding."""
        x = x.astype(np.float64)
        a, negative, nan, infinite = np.abs(x), np.signbit(x), np.isnan(x), np.isinf(x)
        finite = ~nan & ~infinite
        a = np.where(finite, a, 0)
        low = np.searchsorted(self.values, a, side="right") - 1
        under = low < 0  # e8m0 below its smallest value
        low = np.maximum(low, 0)
        v = self.values[low]
        w = np.append(self.values, self.after)[low + 1]
        middle = (v + w) / 2
        tie_up = {"nearest-even": (low & 1) == 1 if self.signed else True, "nearest-away": True}
        if rounding == "toward-zero":
            up = np.zeros(a.shape, bool)
        elif rounding == "stochastic":
            share = np.ldexp(np.where(under, 0, (a - v) / (w - v)), 64)
            up = words < np.where(share < 2.0**64, share, 0).astype(np.uint64)
        else:
            up = (a > middle) | ((a == middle) & tie_up[rounding])
        code = low + np.where(under, 0, up)
        over = finite & ((a >= self.after) | (code > self.largest))
        bad_sign = np.zeros(a.shape, bool) if self.signed else finite & (negative | (a == 0))
        over |= bad_sign
        flushed = finite & ~over & (code == 0) & (a != 0) & self.has_zero
        result = self.with_sign(code, negative)

        extreme = self.with_sign(np.where(negative & (not self.signed), 0, self.largest), negative)
        extreme = np.where(bad_sign, 0, extreme)
        special = self.infinity if self.infinity is not None else self.nan
        special = special | np.where(negative & (self.infinity is not None or self.signed_nan), self.sign, 0)
        for mask, is_finite in ((over, True), (infinite, False)):
            hold = self.numbers_only or overflow == "saturate" or (overflow == "saturate-finite" and is_finite)
            held = np.full(a.shape, hold)
            if rounding == "toward-zero" and is_finite:
                held |= ~bad_sign
            result = np.where(mask, np.where(held, extreme, special), result)
        result = np.where(nan, self.nan | np.where(negative & self.signed_nan, self.sign, 0), result)
        with np.errstate(invalid="ignore"):
            inexact = finite & ~(self.decoded[result] == x)
        counts = [len(x), nan.sum(), infinite.sum(), over.sum(), flushed.sum(), inexact.sum()]
        return result, [int(c) for c in counts]


class Integer:
    def __init__(self, name, dtype, bits):
        self.name, self.dtype, self.bits = name, dtype, bits
        self.type = code_type(bits)
        self.signed = name[0] == "s"
        self.low = -(1 << (bits - 1)) if self.signed else 0
        self.high = (1 << (bits - self.signed)) - 1
        if bits <= 16:
            self.decoded = np.arange(1 << bits, dtype=self.type).view(dtype).astype(np.float64)

    def encode(self, x, rounding, overflow, words=None):
        x = x.astype(np.float64)
        nan, infinite = np.isnan(x), np.isinf(x)
        finite = ~nan & ~infinite
        y = np.where(finite, x, 0)
        if rounding == "nearest-even":
            r = np.rint(y)
        elif rounding == "toward-zero":
            r = np.trunc(y)
        elif rounding == "nearest-away":
            whole = np.trunc(y)
            r = whole + np.where(np.abs(y - whole) >= 0.5, np.sign(y), 0)
        else:
            whole = np.trunc(y)
            share = np.ldexp(np.abs(y - whole), 64)
            r = whole + np.where(words < share.astype(np.uint64), np.sign(y), 0)
        over = finite & ((r < self.low) | (r > self.high))
        flushed = finite & ~over & (r == 0) & (x != 0)
        r = np.where(infinite, np.where(x > 0, 2.0**40, -(2.0**40)), r)
        held = np.clip(np.where(nan, 0, r), self.low, self.high).astype(np.int64)
        inexact = finite & (held != x)
        counts = [len(x), nan.sum(), infinite.sum(), over.sum(), flushed.sum(), inexact.sum()]
        return held & ((1 << self.bits) - 1), [int(c) for c in counts]


class Scaled:
    """f32 and tf32 by rounding |x| / 2^last to an integer; every step but the rounding is exact in f64."""

    signed = True

    def __init__(self, name, fraction):
        self.name, self.fraction, self.bits, self.type = name, fraction, 32, np.uint32
        self.max = float(np.ldexp(2 - np.ldexp(1.0, -fraction), 127))

    def encode(self, x, rounding, overflow):
        x = x.astype(np.float64)
        a, negative, nan, infinite = np.abs(x), np.signbit(x), np.isnan(x), np.isinf(x)
        finite = ~nan & ~infinite
        a = np.where(finite, a, 0)
        _, e = np.frexp(a)
        last = np.maximum(e - 1, -126) - self.fraction
        n = np.ldexp(a, -last)
        whole = np.floor(n)
        part = n - whole
        if rounding == "nearest-even":
            r = np.rint(n)
        elif rounding == "nearest-away":
            r = whole + (part >= 0.5)
        else:
            r = whole
        value = np.ldexp(r, last)
        over = finite & (value > self.max)
        flushed = finite & (value == 0) & (a != 0)
        inexact = finite & (value != a)
        hold_finite = overflow != "plain" or rounding == "toward-zero"
        value = np.where(over, self.max if hold_finite else np.inf, value)
        value = np.where(infinite, self.max if overflow == "saturate" else np.inf, value)
        codes = value.astype(np.float32).view(np.uint32).astype(np.int64)
        codes = np.where(nan, 0x7FC00000, codes) | np.where(negative, 1 << 31, 0)
        counts = [len(x), nan.sum(), infinite.sum(), over.sum(), flushed.sum(), inexact.sum()]
        return codes, [int(c) for c in counts]


def models():
    out = {name: Scaled(name, fraction) for name, fraction in SCALED.items()}
    out |= {name: Float(name, *row) for name, row in FLOATS.items()}
    out |= {name: Integer(name, *row) for name, row in (WIDE_INTEGERS | INTEGERS).items()}
    return out


def f64_probes(m):
    """Non-negative values, the points halfway to the next ones, and the doubles on both sides of each; then negated."""
    if isinstance(m, Scaled):
        upper = np.arange(0, 0x7F80, 4, dtype=np.uint32) << 16
        mask = np.uint32(0xFFFFFFFF if m.name == "f32" else 0xFFFFE000)
        bits = (upper[:, None] | np.array([0, 0xFFFF], dtype=np.uint32)).ravel() & mask
        values = bits.view(np.float32).astype(np.float64)
        _, e = np.frexp(values)
        after = values + np.ldexp(1.0, np.where(values == 0, -126, np.maximum(e - 1, -126)) - m.fraction)
    elif isinstance(m, Integer):
        if m.bits == 32:
            values = np.array([2.0**j + d for j in range(32) for d in (-1, 0, 1)])
        else:
            values = np.arange(m.high + 1, dtype=np.float64)
        after = values + 1
    else:
        values, after = m.values, np.append(m.values[1:], m.after)
    middle = (values + after) / 2
    points = np.stack([values, middle], axis=1).ravel()
    around = np.stack([np.nextafter(points, -np.inf), points, np.nextafter(points, np.inf)], axis=1).ravel()
    return np.concatenate([around, -around])


def splitmix(n, seed):
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def check_fractions(m, rng):
    """The list model against exact fractions, over all values of the format, on numbers of every size."""
    magnitudes = [Fraction(float(v)) for v in m.values]
    after = Fraction(float(m.after))
    x = np.concatenate(
        [
            rng.choice(m.values, 40) * rng.uniform(0.9, 1.1, 40),
            np.ldexp(rng.uniform(1, 2, 40), rng.integers(-30, 20, 40)),
            (m.values[:-1] + m.values[1:])[rng.integers(0, m.largest, 40)] / 2,
        ]
    )
    for rounding in ROUNDINGS:
        codes, _ = m.encode(x, rounding, "saturate")
        for value, code in zip(x, codes):
            exact = Fraction(float(value))
            if exact < magnitudes[0]:
                assert code == 0
                continue
            low = max(i for i, v in enumerate(magnitudes) if v <= exact)
            high = magnitudes[low + 1] if low < m.largest else after
            twice = 2 * exact - magnitudes[low] - high
            tie = rounding == "nearest-away" or not m.signed or low & 1
            up = rounding != "toward-zero" and (twice > 0 or (twice == 0 and tie))
            assert code == min(low + up, m.largest), (m.name, rounding, value)


def formats():
    out = {"decode": {}, "encode": {}, "stochastic": {}}
    f16 = np.arange(65536, dtype=np.uint16).view(np.float16)
    bf16 = np.arange(65536, dtype=np.uint16).view(ml_dtypes.bfloat16)
    upper = np.arange(65536, dtype=np.uint32) << 16
    f32 = (upper[:, None] | np.array(LOWER, dtype=np.uint32)[None, :]).ravel().view(np.float32)
    out["f32_inputs"] = sha256(f32)
    rng = np.random.default_rng(1)
    for name, m in models().items():
        if m.bits <= 16:
            with np.errstate(invalid="ignore"):
                table = m.decoded.astype(np.float32).view(np.uint32).copy()
            table[np.isnan(m.decoded)] = 0x7FC00000
            digest = sha256(table)
            assert digest.startswith(KNOWN.get(name, "")), name
            out["decode"][name] = digest
        if isinstance(m, Float):
            check_fractions(m, rng)
        probes = f64_probes(m)
        row = {}
        for source, x in (("f16", f16), ("bf16", bf16), ("f32", f32), ("f64", probes)):
            if source == name:
                continue
            with np.errstate(invalid="ignore"):
                wide = x.astype(np.float64)
            codes, counts = m.encode(wide, "nearest-even", "plain")
            if isinstance(m, Float) and source != "f64":
                other = codes != m.plain(x)
                # ml_dtypes rounds subnormal f32 and bf16 between 2^-127 and 1.5 * 2^-127 up, away from the nearer code.
                known = (wide > 2.0**-127) & (wide < 1.5 * 2.0**-127) if name == "f8e8m0fnu" else np.zeros(len(x), bool)
                # In formats without NaN it gives 0 for a NaN whose sign is set, -0 for others; here all become -0.
                known |= np.isnan(wide) & np.signbit(wide) & m.numbers_only
                assert not (other & ~known).any(), (name, source)
                if other.any():
                    row.setdefault("ml_dtypes_differs", {})[source] = int(other.sum())
            if name == "f32":
                with np.errstate(over="ignore", invalid="ignore"):
                    plain = wide.astype(np.float32)
                    bits = plain.view(np.uint32).astype(np.int64)
                assert (np.where(np.isnan(plain), codes, bits) == codes).all()
            if isinstance(m, Integer):
                inside = (wide >= m.low) & (wide <= m.high)
                cast = np.rint(wide[inside]).astype(m.dtype).view(m.type).astype(np.int64)
                assert (cast & ((1 << m.bits) - 1) == codes[inside]).all()
            row[source] = {"nearest": sha256(codes.astype(m.type)), "counts": counts}
            if source == "f64":
                row[source]["inputs"] = sha256(probes)
            if source == "f32":
                continue
            others = [
                m.encode(wide, r, o)[0].astype(m.type) for r in ROUNDINGS for o in OVERFLOWS if (r, o) != ("nearest-even", "plain")
            ]
            row[source]["others"] = sha256(*others)
        out["encode"][name] = row
        if m.bits <= 8:
            words = splitmix(65536, 17)
            with np.errstate(invalid="ignore"):
                codes, counts = m.encode(f16.astype(np.float64), "stochastic", "plain", words)
            out["stochastic"][name] = {"codes": sha256(codes.astype(m.type)), "counts": counts}
    write_json(NUM / "formats.json", out)


# Block formats. Elements by the lists above.
BLOCKS = {
    "mxfp8-e4m3": "f8e4m3fn",
    "mxfp8-e5m2": "f8e5m2",
    "mxfp6-e2m3": "f6e2m3fn",
    "mxfp6-e3m2": "f6e3m2fn",
    "mxfp4": "f4e2m1fn",
    "mxint8": None,
    "nvfp4": "f4e2m1fn",
}
FRACTION = {"mxfp8-e4m3": 3, "mxfp8-e5m2": 2, "mxfp6-e2m3": 3, "mxfp6-e3m2": 2, "mxfp4": 1, "mxint8": 6}
RULES = ["floor", "ceil", "even", "rceil"]


def floor_log2(q):
    """Of a positive Fraction."""
    e = q.numerator.bit_length() - q.denominator.bit_length()
    return e if Fraction(2) ** e <= q else e - 1


def scale_exponent(name, rule, amax, largest):
    q = Fraction(float(amax))
    emax = floor_log2(largest)
    if rule == "floor":
        k = floor_log2(q) - emax
    elif rule == "ceil":
        e = floor_log2(q)
        k = e + (q > Fraction(2) ** e) - emax
    elif rule == "rceil":
        r = q / largest
        e = floor_log2(r)
        k = e + (r > Fraction(2) ** e)
    else:
        e = floor_log2(q)
        unit = Fraction(2) ** (e - FRACTION[name])
        k = floor_log2((q / unit + Fraction(1, 2)).__floor__() * unit) - emax
    return k


def block_model(name, rule, x, axis):
    """Codes, scales, tensor scale, decoded values and counts."""
    moved = np.moveaxis(x, axis, -1)
    block = 16 if name == "nvfp4" else 32
    length = moved.shape[-1]
    blocks = -(-length // block)
    element = Float(BLOCKS[name], *FLOATS[BLOCKS[name]]) if BLOCKS[name] else None
    codes = np.zeros(moved.shape, np.uint8)
    back = np.zeros(moved.shape, np.float32)
    scales = np.zeros(moved.shape[:-1] + (blocks,), np.uint8)
    e4m3 = ml_dtypes.float8_e4m3fn
    largest = Fraction(127, 64) if element is None else Fraction(float(element.values[-1]))
    counts = {"nan_blocks": 0, "zero_blocks": 0, "clipped": 0, "flushed": 0, "clamped_scales": 0}
    parts = [(i, b, moved[i][b * block : (b + 1) * block]) for i in np.ndindex(moved.shape[:-1]) for b in range(blocks)]
    g = np.float32(1)
    if name == "nvfp4":
        amax = max((np.abs(v).max() for _, _, v in parts if np.isfinite(v).all()), default=np.float32(0))
        if amax > 0:
            g = max(amax / np.float32(2688), np.float32(2.0**-120))
    for i, b, v in parts:
        here = slice(b * block, (b + 1) * block)
        if not np.isfinite(v).all():
            counts["nan_blocks"] += 1
            scales[i][b] = 0x7F if name == "nvfp4" else 0xFF
            back[i][here] = np.nan
            continue
        amax = np.abs(v).max()
        counts["zero_blocks"] += int(amax == 0)
        if name == "nvfp4":
            s = amax / np.float32(6) / g
            held = min(max(s, np.float32(2.0**-6)), np.float32(448))
            counts["clamped_scales"] += int(amax > 0 and held != s)
            s8 = held.astype(e4m3)
            scales[i][b] = s8.view(np.uint8)
            s = s8.astype(np.float32)
            y = (v * (np.float32(1) / g / s)).astype(np.float64)
        else:
            k = scale_exponent(name, rule, amax, largest) if amax > 0 else -127
            held = min(max(k, -127), 127)
            counts["clamped_scales"] += int(k != held)
            scales[i][b] = held + 127
            y = np.ldexp(v.astype(np.float64), -held)
        if element is None:
            r = np.rint(y * 64)
            counts["clipped"] += int((np.abs(r) > 127).sum())
            counts["flushed"] += int(((r == 0) & (v != 0)).sum())
            q = np.clip(r, -127, 127)
            codes[i][here] = q.astype(np.int8).view(np.uint8)
            value = q / 64
        else:
            c, n = element.encode(y, "nearest-even", "saturate")
            counts["clipped"] += n[3]
            counts["flushed"] += n[4]
            codes[i][here] = c
            value = element.decoded[c]
        with np.errstate(over="ignore"):
            if name == "nvfp4":
                back[i][here] = value.astype(np.float32) * (g * s)
            else:
                back[i][here] = np.ldexp(value, held).astype(np.float32)
    return (
        np.ascontiguousarray(np.moveaxis(codes, -1, axis)),
        np.ascontiguousarray(np.moveaxis(scales, -1, axis)),
        float(g),
        np.ascontiguousarray(np.moveaxis(back, -1, axis)),
        counts,
    )


def sweep(n):
    """f32 of random sign and fraction; exponents climb from the subnormals to the largest, over 4 binades in a block."""
    r = splitmix(n, 5)
    base = np.arange(n, dtype=np.uint64) // np.uint64(32) % np.uint64(252)
    exponent = base + (r >> np.uint64(40)) % np.uint64(4)
    bits = (r & np.uint64(0x807FFFFF)) | (np.minimum(exponent, np.uint64(254)) << np.uint64(23))
    x = bits.astype(np.uint32).view(np.float32).copy()
    x[1000:1064] = 0
    return x


def narrow(n):
    """f32 of 5 binades around 1."""
    r = splitmix(n, 6)
    bits = (r & np.uint64(0x807FFFFF)) | ((np.uint64(124) + (r >> np.uint64(40)) % np.uint64(5)) << np.uint64(23))
    return bits.astype(np.uint32).view(np.float32).copy()


def published():
    rng = np.random.default_rng(17)
    x = rng.normal(size=(64, 128)).astype(np.float32)
    w = (rng.normal(size=(128, 64)) / np.sqrt(128)).astype(np.float32)
    assert sha256(x, w) == "2a60a6fffbe58b36068d5b6bd4e205f4cc7a1dbf59b023e8922e2a36c1697032"
    return x, w


def block_inputs():
    damaged = narrow(640).reshape(5, 128)
    damaged[1, 3], damaged[2, 100], damaged[4, 0] = np.nan, -np.inf, np.inf
    return {
        "sweep": (sweep(32 * 504).reshape(63, 256), 1),
        "narrow": (narrow(64 * 256).reshape(64, 256), 1),
        "short": (narrow(9 * 70).reshape(9, 70), 1),
        "middle": (narrow(3 * 50 * 7).reshape(3, 50, 7), 1),
        "damaged": (damaged, 1),
    }


def block_codes(name, rule, x, axis):
    codes, scales, g, back, counts = block_model(name, rule, x, axis)
    bits = back.view(np.uint32).copy()
    bits[np.isnan(back)] = 0x7FC00000
    return {"codes": sha256(codes), "scales": sha256(scales), "g": g, "back": sha256(bits), **counts}


# Errors of a product on the published input, operands rounded, sums exact.
def rounded(m, x, rounding="nearest-even"):
    codes, _ = m.encode(x.astype(np.float64), rounding, "saturate")
    if isinstance(m, Scaled):
        return codes.astype(np.uint32).view(np.float32).astype(np.float64)
    return m.decoded[codes]


def scaled_float(m, x, axis):
    """Scale amax / largest in f32, over the whole tensor (None) or an axis; the quotient in f32."""
    largest = np.float32(m.values[-1])
    s = (np.abs(x).max(axis=axis, keepdims=axis is not None) / largest).astype(np.float32)
    q = rounded(m, (x / s).astype(np.float32)).astype(np.float32)
    return (q * s).astype(np.float32).astype(np.float64)


def products():
    all_models = models()
    bf16, f16, tf32 = all_models["bf16"], all_models["f16"], all_models["tf32"]
    e4m3, e5m2 = all_models["f8e4m3fn"], all_models["f8e5m2"]
    policies = {
        "tf32": lambda x, w: (rounded(tf32, x), rounded(tf32, w)),
        "tf32 truncated": lambda x, w: (rounded(tf32, x, "toward-zero"), rounded(tf32, w, "toward-zero")),
        "f16": lambda x, w: (rounded(f16, x), rounded(f16, w)),
        "bf16": lambda x, w: (rounded(bf16, x), rounded(bf16, w)),
        "bf16 truncated": lambda x, w: (rounded(bf16, x, "toward-zero"), rounded(bf16, w, "toward-zero")),
        "f8e4m3fn per tensor": lambda x, w: (scaled_float(e4m3, x, None), scaled_float(e4m3, w, None)),
        "f8e4m3fn per row and column": lambda x, w: (scaled_float(e4m3, x, 1), scaled_float(e4m3, w, 0)),
        "f8e5m2 per tensor": lambda x, w: (scaled_float(e5m2, x, None), scaled_float(e5m2, w, None)),
        "f8e5m2 per row and column": lambda x, w: (scaled_float(e5m2, x, 1), scaled_float(e5m2, w, 0)),
    }
    for name in BLOCKS:
        for rule in RULES if name != "nvfp4" else ["floor"]:
            label = name if name == "nvfp4" else f"{name} {rule}"
            policies[label] = lambda x, w, name=name, rule=rule: (
                block_model(name, rule, x, 1)[3].astype(np.float64),
                block_model(name, rule, w, 0)[3].astype(np.float64),
            )
    x, w = published()
    outlier = x.copy()
    outlier[:, 0] *= np.float32(30)
    out = {}
    for label, policy in policies.items():
        errors = []
        for a in (x, outlier):
            exact = a.astype(np.float64) @ w.astype(np.float64)
            p, q = policy(a, w)
            errors.append(float(np.linalg.norm(p @ q - exact) / np.linalg.norm(exact)))
        out[label] = errors
    return out


def blocks():
    out = {"cases": {}, "products": products()}
    for input_name, (x, axis) in block_inputs().items():
        row = {"inputs": sha256(np.where(np.isnan(x), np.float32(0), x)), "shape": list(x.shape), "axis": axis, "formats": {}}
        for name in BLOCKS:
            rules = RULES if name != "nvfp4" else ["floor"]
            row["formats"][name] = {rule: block_codes(name, rule, x, axis) for rule in rules}
        out["cases"][input_name] = row
    write_json(NUM / "blocks.json", out)


def torchao_blocks():
    try:
        import torch
        import torchao
        from torchao.prototype.mx_formats import kernels
        from torchao.prototype.mx_formats.config import ScaleCalculationMode
        from torchao.prototype.mx_formats.mx_tensor import to_mx
        from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale
    except ImportError as e:
        print(f"blocks_torchao.json stays as it is: {e}")
        return
    types = {
        "mxfp8-e4m3": torch.float8_e4m3fn,
        "mxfp8-e5m2": torch.float8_e5m2,
        "mxfp6-e2m3": "fp6_e2m3",
        "mxfp6-e3m2": "fp6_e3m2",
        "mxfp4": torch.float4_e2m1fn_x2,
    }
    x = narrow(64 * 256).reshape(64, 256)
    t = torch.from_numpy(x.copy())
    out = {"shape": list(x.shape), "inputs": sha256(x), "formats": {}}
    for name, dtype in types.items():
        out["formats"][name] = {}
        for rule in RULES:
            scale, data = to_mx(t, dtype, 32, ScaleCalculationMode[rule.upper()])
            if name == "mxfp4":
                data = kernels.unpack_uint4(data)
            codes = data.view(torch.uint8).numpy().reshape(x.shape)
            scales = scale.view(torch.uint8).numpy().reshape(64, 8)
            mine = block_model(name, rule, x, 1)
            assert (codes == mine[0]).all() and (scales == mine[1]).all(), (name, rule)
            out["formats"][name][rule] = {"codes": sha256(codes), "scales": sha256(scales)}
    g = per_tensor_amax_to_scale(t.abs().max())
    scale, data = nvfp4_quantize(t, 16, g)
    codes = kernels.unpack_uint4(data.view(torch.uint8)).numpy().reshape(x.shape)
    scales = scale.view(torch.uint8).numpy().reshape(64, 16)
    mine = block_model("nvfp4", "floor", x, 1)
    assert (codes == mine[0]).all() and (scales == mine[1]).all() and float(g) == mine[2]
    out["formats"]["nvfp4"] = {"floor": {"codes": sha256(codes), "scales": sha256(scales), "g": float(g)}}
    write_json(NUM / "blocks_torchao.json", out, VERSIONS | {"torch": torch.__version__, "torchao": torchao.__version__})


if __name__ == "__main__":
    formats()
    blocks()
    torchao_blocks()
