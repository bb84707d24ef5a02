# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the rules of quantisation, affine arithmetic and calibration.

    build-oracle/venv/bin/python tests/oracle/quantize.py

writes tests/fixtures/num/quantize_rules.json, num/affine.json and lab/deployment.json. Every case is computed with numpy in f32, as the rules of
docs/quantisation.md say. Where another system has the same rule, it is run too and must agree: ONNX Runtime
(QuantizeLinear, DequantizeLinear, QLinearMatMul), torch (fake_quantize_*); a case lists what it was checked with.
"""

import itertools
import json
import math
import pathlib

import ml_dtypes
import numpy as np
import onnxruntime as ort
import torch
from onnx import TensorProto, helper, numpy_helper

TOP = pathlib.Path(__file__).resolve().parents[2]
NUM = TOP / "tests/fixtures/num"
VERSIONS = {m.__name__: m.__version__ for m in (np, ml_dtypes, ort, torch)}
F32 = np.float32
TINY = np.finfo(F32).tiny
FLOATS = {"f8e4m3fn": (ml_dtypes.float8_e4m3fn, 448.0), "f8e5m2": (ml_dtypes.float8_e5m2, 57344.0), "f4e2m1fn": (ml_dtypes.float4_e2m1fn, 6.0)}
SCALES = {
    "f32": (np.float32, TINY, np.finfo(F32).max),
    "f16": (np.float16, 2.0**-24, 65504.0),
    "bf16": (ml_dtypes.bfloat16, TINY, 3.3895313892515355e38),
    "f8e8m0fnu": (ml_dtypes.float8_e8m0fnu, TINY, 2.0**127),
    "f8e4m3fn": (ml_dtypes.float8_e4m3fn, 2.0**-9, 448.0),
}
DEFAULTS = {
    "granularity": "tensor",
    "channel_axis": -1,
    "group_axis": 0,
    "group": 0,
    "block": [],
    "short_last": False,
    "affine": False,
    "full": False,
    "half_range": False,
    "before": False,
    "away": False,
    "reciprocal": False,
    "from": "absmax",
    "percentile": 0.0,
    "steps": 0,
    "max_shrink": 0.0,
    "norm": 0.0,
    "patience": 0,
    "scale_type": "f32",
    "scale_up": False,
    "nonfinite": "refuse",
}


def write_json(path, value):
    path.write_text(json.dumps({"versions": VERSIONS, **value}, separators=(",", ":")) + "\n")


def bits32(x):
    return [int(b) for b in np.ascontiguousarray(x, dtype=F32).ravel().view(np.uint32)]


def bits_of(name):
    return int(name[1:])


def limits(case):
    name = case["type"]
    if name in FLOATS:
        return -FLOATS[name][1], FLOATS[name][1]
    n = bits_of(name)
    if name[0] == "s":
        return -(2 ** (n - 1)) + (not case["full"]), 2 ** (n - 1) - 1
    return int(not case["full"]), 2**n - 1


def boxes(shape, case):
    """Slices of every box, in row-major order of the boxes, and the shape of the scales."""
    extent = list(shape)
    kind = case["granularity"]
    if kind == "channel":
        extent[case["channel_axis"]] = 1
    if kind == "group":
        extent = [case["group"] if d == case["group_axis"] else 1 for d in range(len(shape))]
    if kind == "block":
        extent = [b or n for b, n in zip(case["block"], shape)]
    counts = [-(-n // e) for n, e in zip(shape, extent)]
    return [tuple(slice(i * e, min((i + 1) * e, n)) for i, e, n in zip(at, extent, shape)) for at in itertools.product(*map(range, counts))]


def store(case, s, counts):
    dtype, smallest, largest = SCALES[case["scale_type"]]
    s = F32(s)
    if s < smallest:
        counts["raised"] += 1
        return F32(smallest)
    if s > largest:
        counts["lowered"] += 1
        return F32(largest)
    v = dtype(s)
    if case["scale_up"] and F32(v) < s:
        unsigned = {1: np.uint8, 2: np.uint16, 4: np.uint32}[v.itemsize]
        v = (np.array([v]).view(unsigned) + unsigned(1)).view(dtype)[0]
    return F32(v)


def zero_of_symmetric(case):
    return 2 ** (bits_of(case["type"]) - 1) if case["type"][0] == "u" else 0


def scale_of_range(case, low, high, counts):
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    qmin, qmax = limits(case)
    if low == high == 0:
        return F32(1), max(int(qmin), 0) if case["affine"] else zero_of_symmetric(case)
    if case["affine"]:
        s = store(case, (high - low) / (qmax - qmin), counts)
        return s, int(np.clip(np.rint(qmin - low / float(s)), qmin, qmax))
    divisor = qmax if case["type"][0] != "u" else 2 ** (bits_of(case["type"]) - 1) - 1
    return store(case, F32(max(-low, high)) / F32(divisor + 0.5 * case["half_range"]), counts), zero_of_symmetric(case)


def encode(case, x, s, z):
    """Codes (as f64 numbers), what they stand for in scales, and which were clipped."""
    x = np.asarray(x, F32)
    s = F32(s)
    with np.errstate(over="ignore", invalid="ignore"):
        q = (x * (F32(1) / s)).astype(F32) if case["reciprocal"] else (x / s).astype(F32)
    qmin, qmax = limits(case)
    if case["type"] in FLOATS:
        dtype, top = FLOATS[case["type"]]
        with np.errstate(over="ignore", invalid="ignore"):
            plain = q.astype(dtype).astype(np.float64)
            held = np.where(np.isnan(q), 0, np.clip(q, -top, top)).astype(F32).astype(dtype)
        if case["type"] == "f4e2m1fn":  # has neither NaN nor infinity to overflow to
            clipped = np.abs(q) >= 7
        else:
            clipped = ~np.isfinite(plain) & ~np.isnan(x)
        if case["nonfinite"] == "keep":
            kept = ~np.isfinite(x)
            held = np.where(kept, q.astype(dtype), held)
            clipped &= ~kept
        return held.view(np.uint8).astype(np.float64), held.astype(np.float64), clipped
    q = np.where(np.isnan(q), F32(0), q)

    def rounded(v):
        v = v.astype(np.float64)
        return np.trunc(v + np.copysign(0.5, v)) if case["away"] else np.rint(v)

    with np.errstate(over="ignore"):
        code = rounded((q + F32(z)).astype(F32)) if case["before"] else rounded(q) + z
    held = np.clip(code, qmin, qmax)
    return held, held - z, held != code


def range_of(case, values):
    v = values[np.isfinite(values)]
    if v.size == 0:
        return 0.0, 0.0
    if case["from"] == "percentile":
        p = case["percentile"]
        if case["affine"]:
            return tuple(np.percentile(v.astype(np.float64), [100 - p, p]))
        top = np.percentile(np.abs(v).astype(np.float64), p)
        return -top, top
    low, high = min(float(v.min()), 0.0), max(float(v.max()), 0.0)
    if case["from"] == "error":
        steps, shrink, norm = case["steps"] or 100, case["max_shrink"] or 0.2, case["norm"] or 2
        least, best, since, i = math.inf, (low, high), 0, 0
        while i == 0 or i < shrink * steps:
            p = 1 - i / steps
            s, z = scale_of_range(case, low * p, high * p, {"raised": 0, "lowered": 0})
            unit = encode(case, v, s, z)[1]
            e = (np.abs(unit * float(s) - v.astype(np.float64)) ** norm).sum()
            since += 1
            if e < least:
                least, best, since = e, (low * p, high * p), 0
            if case["patience"] and since >= case["patience"]:
                break
            i += 1
        return best
    return low, high


def run_onnx(nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def onnx_codes(case, x, scales, zeros):
    """QuantizeLinear and DequantizeLinear of ONNX Runtime, as int64 codes and f32 values."""
    name = {"s": "INT", "u": "UINT"}[case["type"][0]] + str(bits_of(case["type"]))
    kind = getattr(TensorProto, name)
    attributes = {}
    shape = []
    if case["granularity"] == "channel":
        attributes["axis"] = case["channel_axis"]
        shape = [len(scales)]
    if case["granularity"] == "group":
        attributes.update(axis=case["group_axis"], block_size=case["group"])
        shape = [(-(-n // case["group"]) if d == case["group_axis"] else n) for d, n in enumerate(x.shape)]
    stored = helper.make_tensor("z", kind, shape, [int(z) for z in zeros])
    scale = helper.make_tensor("s", TensorProto.FLOAT, shape, [float(s) for s in scales])
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **attributes),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **attributes),
        helper.make_node("Cast", ["q"], ["c"], to=TensorProto.INT32),
    ]
    vi = helper.make_tensor_value_info
    session = run_onnx(nodes, [vi("x", TensorProto.FLOAT, x.shape)], [vi("c", TensorProto.INT32, x.shape), vi("y", TensorProto.FLOAT, x.shape)], [stored, scale])
    c, y = session.run(None, {"x": x})
    return c.astype(np.int64), y


def torch_values(case, x, scales, zeros):
    qmin, qmax = limits(case)
    t = torch.from_numpy(x)
    if case["granularity"] == "tensor":
        return torch.fake_quantize_per_tensor_affine(t, float(scales[0]), int(zeros[0]), qmin, qmax).numpy()
    s, z = torch.tensor([float(v) for v in scales]), torch.tensor([int(v) for v in zeros], dtype=torch.int32)
    return torch.fake_quantize_per_channel_affine(t, s, z, case["channel_axis"], qmin, qmax).numpy()


def quantise(name, x, case, given=None, peers=()):
    case = {**DEFAULTS, **case}
    x = np.ascontiguousarray(x, dtype=F32)
    counts = {"raised": 0, "lowered": 0}
    codes, unit = np.zeros(x.shape), np.zeros(x.shape)
    wide, clipped = np.zeros(x.shape), np.zeros(x.shape, bool)
    scales, zeros = [], []
    for i, box in enumerate(boxes(x.shape, case)):
        s, z = given[i] if given else scale_of_range(case, *range_of(case, x[box].ravel()), counts)
        scales.append(F32(s))
        zeros.append(int(z))
        codes[box], unit[box], clipped[box] = encode(case, x[box], s, z)
        wide[box] = float(F32(s))
    with np.errstate(over="ignore"):
        back = (unit.astype(F32) * wide.astype(F32)).astype(F32)
    for peer in peers:
        if peer == "onnxruntime":
            c, y = onnx_codes(case, x, scales, zeros)
            assert (c == codes).all() and (y == back).all(), (name, peer)
        if peer == "torch":
            assert (torch_values(case, x, scales, zeros) == back).all(), (name, peer)
    finite = np.isfinite(x)
    error = np.abs(unit * wide - np.where(finite, x, 0).astype(np.float64))
    inside = finite & ~clipped
    return {
        "name": name,
        **{k: v for k, v in case.items() if DEFAULTS.get(k) != v},
        "dims": list(x.shape),
        "given": bool(given),
        "peers": list(peers),
        "x": bits32(x),
        "scales": bits32(scales),
        "zeros": zeros,
        "codes": [int(c) for c in codes.ravel()],
        "dequantised": bits32(back),
        "clipped": int(clipped.sum()),
        "not_finite": int((~finite).sum()),
        "nan": int(np.isnan(x).sum()),
        "flushed": int((finite & (x != 0) & (unit == 0)).sum()),
        **counts,
        "max_abs_error": float(error[finite].max()) if finite.any() else 0.0,
        "max_error_in_scales": float((error / wide)[inside].max()) if inside.any() else 0.0,
    }


def rules():
    rng = np.random.default_rng(11)
    w = rng.standard_normal((5, 12)).astype(F32)
    w[1] = 0
    w[2] = np.abs(w[2]) + 1  # one sign: the range is widened to hold 0
    w[3, 4] = -9
    skew = (rng.gamma(2, 1, (4, 24)) - 0.5).astype(F32)
    odd = rng.standard_normal((3, 7, 5)).astype(F32)
    long = rng.standard_normal((2, 300)).astype(F32)
    ties = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, 127.5, -127.5, -128.5, 0.0, 3.25], F32)
    out = []

    def add(name, x, given=None, peers=(), **case):
        out.append(quantise(name, x, case, given, peers))

    # The tie vectors that tell the families apart (scale 1; odd zero points).
    for kind, z in (("s8", -3), ("s8", 0), ("u8", 131)):
        for before, away in itertools.product((False, True), (False, True)):
            peers = ("onnxruntime", "torch") if not before and not away else ()
            add(f"ties {kind} z={z}", ties, [(1, z)], peers, type=kind, affine=True, full=True, before=before, away=away)
    top = np.array([127, -127, 63.5, -64, 1], F32)
    for full, half in itertools.product((False, True), (False, True)):
        add("both ends", top, type="s8", full=full, half_range=half)
    # Types by granularities, affine and symmetric.
    for kind in ("s2", "s4", "s8", "s16", "u2", "u4", "u8", "u16"):
        for affine in (False, True):
            peers = ("onnxruntime",) if bits_of(kind) > 2 else ()
            add(f"{kind} rows", w, None, peers, type=kind, granularity="channel", channel_axis=0, affine=affine, full=True)
            add(f"{kind} narrow", skew, type=kind, affine=affine)
    add("s8 columns", w, None, ("onnxruntime",), type="s8", granularity="channel", channel_axis=1, affine=True, full=True)
    add("u8 columns", w, None, ("onnxruntime",), type="u8", granularity="channel", channel_axis=1)
    add("s8 torch rows", w, None, ("torch",), type="s8", granularity="channel", channel_axis=0, affine=True, full=True, reciprocal=True)
    add("u8 torch", skew, None, ("torch",), type="u8", affine=True, full=True, reciprocal=True)
    add("s4 groups", skew, None, ("onnxruntime",), type="s4", granularity="group", group_axis=1, group=8, channel_axis=0, affine=True, full=True)
    add("u4 groups", skew, None, ("onnxruntime",), type="u4", granularity="group", group_axis=0, group=2, channel_axis=1, affine=True, full=True)
    add("s4 short groups", odd, type="s4", granularity="group", group_axis=1, group=3, channel_axis=0, short_last=True)
    add("u4 short groups", odd, type="u4", granularity="group", group_axis=2, group=4, channel_axis=0, short_last=True, affine=True, full=True)
    add("groups longer than the axis", odd, type="s8", granularity="group", group_axis=2, group=64, short_last=True)
    add("blocks", skew, type="s8", granularity="block", block=[2, 8], channel_axis=0)
    add("short blocks", odd, type="u8", granularity="block", block=[2, 0, 3], channel_axis=2, short_last=True, affine=True, full=True)
    add("blocks of one column", odd, type="s8", granularity="block", block=[3, 4, 1], channel_axis=2, short_last=True)
    add("long rows", long, type="s8", granularity="channel", channel_axis=0, affine=True, full=True)
    add("tensor scale, column errors", w, type="s8", channel_axis=1)
    add("reciprocal", w, type="s8", granularity="channel", channel_axis=0, reciprocal=True)
    near = ((np.arange(-120, 120) + 0.5) * 0.1).astype(F32)  # some quotients are ties, whose reciprocals are not
    add("quotients near ties", near, [(0.1, 0)], ("onnxruntime",), type="s8")
    add("reciprocals near ties", near, [(0.1, 0)], ("torch",), type="s8", reciprocal=True)
    assert out[-1]["codes"] != out[-2]["codes"]
    add("half away rows", w, type="s8", granularity="channel", channel_axis=0, away=True)
    # Float elements, with scales.
    for kind in FLOATS:
        add(f"{kind} rows", w, type=kind, granularity="channel", channel_axis=0)
        add(f"{kind} clips", ties, [(0.25 if kind != "f8e5m2" else 1 / 512, 0)], type=kind)
    add("f8e4m3fn ties at the end", np.array([464, 464.1, -464, 480, 1e9], F32), [(1, 0)], type="f8e4m3fn")
    add("f8e5m2 ties at the end", np.array([61439, 61440, -61440, 57344], F32), [(1, 0)], type="f8e5m2")
    add("f4e2m1fn in blocks of 16 with E4M3 scales", long[:, :48], type="f4e2m1fn", granularity="group", group_axis=1, group=16, scale_type="f8e4m3fn")
    # Ranges.
    for affine in (False, True):
        add("percentile", skew, type="s8", **{"from": "percentile"}, percentile=95.0, affine=affine, full=True)
        add("percentile of groups", odd, type="u8", granularity="block", block=[3, 2, 2], short_last=True, **{"from": "percentile"}, percentile=90.0, affine=affine, full=True)
        add("least squares", long, type="s4", granularity="channel", channel_axis=0, **{"from": "error"}, affine=affine, full=True)
        add("least error, its own grid", long, type="s4", **{"from": "error"}, steps=40, max_shrink=0.8, norm=2.4, patience=5, affine=affine, full=True)
    coarse = np.repeat(F32([1, 0.34]), [1, 30])  # two minima: with patience the first is found
    for patience in (0, 2):
        add("two minima", coarse, type="s4", **{"from": "error"}, max_shrink=0.8, patience=patience)
    assert out[-1]["scales"] != out[-2]["scales"]
    # Types of scales.
    for kind in SCALES:
        for up in (False, True):
            add(f"{kind} scales", w, type="s8", granularity="channel", channel_axis=0, scale_type=kind, scale_up=up)
            add(f"{kind} scales, affine", skew, type="u4", granularity="group", group_axis=1, group=8, scale_type=kind, scale_up=up, affine=True, full=True)
        small = np.array([[1e-3, -2e-3], [1e-7, 3e-8], [1e-44, 0], [3e38, -1e38], [1e6, 1]], F32)
        add(f"{kind} scales at their ends", small, type="s8", granularity="channel", channel_axis=0, scale_type=kind)
    add("f8e8m0fnu ties", np.array([[127 * 1.5], [127 * 3.0], [127 * 0.75]], F32), type="s8", granularity="channel", channel_axis=0, scale_type="f8e8m0fnu")
    # Values that are not finite, and a range beyond f32.
    bad = np.array([[1, np.nan, -2, np.inf], [-np.inf, 0.5, 0.25, 0], [np.nan, np.inf, np.nan, -np.inf]], F32)
    for kind, affine in (("s8", False), ("s8", True), ("u8", True), ("s4", False), ("f8e4m3fn", False), ("f8e5m2", False)):
        add("saturated", bad, type=kind, granularity="channel", channel_axis=0, affine=affine, full=True, nonfinite="saturate")
    for kind in ("f8e4m3fn", "f8e5m2"):
        add("kept", bad, type=kind, granularity="channel", channel_axis=0, nonfinite="keep")
    top = np.finfo(F32).max
    add("the whole of f32", np.array([top, -top, top / 2, 1], F32), type="u8", affine=True, full=True)
    add("zeros", np.zeros((2, 3), F32), type="u8", granularity="channel", channel_axis=0, affine=True, full=True)
    add("zeros", np.zeros((2, 3), F32), type="u8", granularity="channel", channel_axis=0)
    add("zeros", np.zeros((2, 3), F32), type="u8", granularity="channel", channel_axis=0, affine=True)
    add("zeros", np.zeros((2, 3), F32), type="f8e5m2", granularity="channel", channel_axis=0)
    inputs = []
    for case in out:  # many cases share an input
        if case["x"] not in inputs:
            inputs.append(case["x"])
        case["x"] = inputs.index(case["x"])
    write_json(NUM / "quantize_rules.json", {"inputs": [{"x": x} for x in inputs], "cases": out})


def multiplier(m):
    fraction, shift = math.frexp(m)
    q = int(math.floor(fraction * 2**31 + 0.5))
    if q == 2**31:
        q, shift = q // 2, shift + 1
    return (0, 0) if shift < -31 else (q, shift)


def rescaled(acc, m):
    """The four rules, in Python's exact integers: f64, f32, double and single rounding."""
    q, shift = multiplier(m)
    high = acc * (1 << max(shift, 0)) * q
    nudge = 2**30 if high >= 0 else 1 - 2**30
    high = abs(high + nudge) // 2**31 * (1 if high + nudge >= 0 else -1)
    right = max(-shift, 0)
    mask = (1 << right) - 1
    double = (high >> right) + ((high & mask) > (mask >> 1) + (high < 0))
    single = (acc * q + (1 << (30 - shift))) >> (31 - shift)
    return [int(np.rint(acc * m)), int(np.rint(F32(acc) * F32(m))), double, single]


def requantisation():
    rng = np.random.default_rng(7)
    values = []
    for m in (0.0043485981308411213, 0.0234375, 0.5, 2.0, 1.0, 0.99999999999, 3.7e-5, 1e-12, 200.25):
        accs = {-199949, -199957, -199999, 5, 15, 0, 1, -1, 32, -32, 2**20, -(2**20)}
        accs |= {int(v) for v in rng.integers(-200000, 200000, 40)}
        values += [{"m": m, "acc": a, "q": multiplier(m)[0], "shift": multiplier(m)[1], "rules": rescaled(a, m)} for a in sorted(accs)]
    m = 0.0043485981308411213
    everything = range(-200000, 200001)
    wrong = [0, 0]
    for a in everything:
        r = rescaled(a, m)
        wrong[0] += r[2] != r[0]
        wrong[1] += r[3] != r[0]
    return {"values": values, "differ": {"m": m, "from": -200000, "to": 200000, "double": wrong[0], "single": wrong[1]}}


def product(name, a, za, sa, b, zb, sb, sy, zy, peer=True):
    kind_of = {np.dtype(np.uint8): TensorProto.UINT8, np.dtype(np.int8): TensorProto.INT8}
    vi = helper.make_tensor_value_info
    acc = (a.astype(np.int64) - za) @ (b.astype(np.int64) - np.asarray(zb, np.int64))
    m = (F32(sa) * np.asarray(sb, F32) / F32(sy)).astype(F32)
    low, high = (0, 255) if a.dtype == np.uint8 else (-128, 127)
    y = np.clip(np.rint(acc.astype(F32) * m).astype(np.int64) + zy, low, high)
    if peer:
        names = ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"]
        arrays = [a, F32(sa), a.dtype.type(za), b, np.asarray(sb, F32), np.asarray(zb, b.dtype), F32(sy), a.dtype.type(zy)]
        initializers = [numpy_helper.from_array(np.asarray(v), n) for n, v in zip(names, arrays) if n != "a"]
        session = run_onnx([helper.make_node("QLinearMatMul", names, ["y"])], [vi("a", kind_of[a.dtype], a.shape)], [vi("y", kind_of[a.dtype], y.shape)], initializers)
        assert (session.run(None, {"a": a})[0] == y).all(), name
    sb = np.broadcast_to(np.asarray(sb, F32), b.shape[1])
    zb = np.broadcast_to(np.asarray(zb), b.shape[1])
    return {
        "name": name,
        "type": "u8" if a.dtype == np.uint8 else "s8",
        "rows": a.shape[0],
        "inputs": a.shape[1],
        "outputs": b.shape[1],
        "a": a.ravel().tolist(),
        "a_zero": int(za),
        "a_scale": float(F32(sa)),
        "b": b.ravel().tolist(),
        "b_zeros": [int(v) for v in zb],
        "b_scales": [float(v) for v in sb],
        "y_scale": float(F32(sy)),
        "y_zero": int(zy),
        "acc": acc.ravel().tolist(),
        "y": y.ravel().tolist(),
    }


def affine():
    rng = np.random.default_rng(3)
    cases = [
        product(
            "QLinearMatMul of the ONNX tests",
            np.array([[208, 236, 0, 238], [3, 214, 255, 29]], np.uint8),
            113,
            0.0066,
            np.array([[152, 51, 244], [60, 26, 255], [0, 127, 246], [127, 254, 247]], np.uint8),
            114,
            0.00705,
            0.0107,
            118,
        )
    ]
    assert cases[0]["y"] == [168, 115, 255, 1, 66, 151]
    a, b = rng.integers(-128, 128, (3, 20)).astype(np.int8), rng.integers(-127, 128, (20, 4)).astype(np.int8)
    cases.append(product("weights without zero points", a, -7, 0.031, b, 0, 0.0123, 0.29, 5))
    cases.append(product("scales per output", a, 3, 0.031, b, np.zeros(4, np.int8), np.array([0.01, 0.02, 0.005, 0.04], F32), 0.5, -4))
    write_json(NUM / "affine.json", {"requantisation": requantisation(), "products": cases})


def deployment():
    """Largest and mean error against the f32 product, and against f64, of every policy of the suite."""
    x = np.array([[0.3, -1.2, 2.1], [1.1, 0.2, -0.8]], F32)
    w = np.array([[0.11, -1.8], [0.7, 0.2], [-0.3, 2.4]], F32)
    product, exact = x @ w, x.astype(np.float64) @ w.astype(np.float64)
    policies = {"FP64": exact}

    def scaled(v, top, axis):
        amax = np.abs(v).max(axis=axis, keepdims=True)
        return (amax / F32(top)).astype(F32)

    def add(name, y):
        policies[name] = y

    for name, dtype in (("FP32", F32), ("FP16", np.float16), ("BF16", ml_dtypes.bfloat16), ("FP8 E4M3", ml_dtypes.float8_e4m3fn), ("FP8 E5M2", ml_dtypes.float8_e5m2)):
        add(name, x.astype(dtype).astype(F32) @ w.astype(dtype).astype(F32))
    for name, dtype, top in (("FP8 E4M3, scaled", ml_dtypes.float8_e4m3fn, 448), ("FP8 E5M2, scaled", ml_dtypes.float8_e5m2, 57344)):
        sx, sw = scaled(x, top, None), scaled(w, top, 0)
        add(name, ((x / sx).astype(dtype).astype(F32) * sx) @ ((w / sw).astype(dtype).astype(F32) * sw))
    for name, top in (("W8A32", 127), ("W4A32", 7)):
        sw = scaled(w, top, 0)
        add(name, x @ (np.rint(w / sw) * sw))
    sx, sw = scaled(x, 127, None), scaled(w, 127, 0)
    acc = np.rint(x / sx).astype(np.int32) @ np.rint(w / sw).astype(np.int32)
    add("W8A8", acc.astype(F32) * sx * sw)
    out = {}
    for name, y in policies.items():
        errors = [np.abs(y.astype(np.float64) - r) for r in (product.astype(np.float64), exact)]
        out[name] = [[float(e.max()), float(e.mean())] for e in errors]
    write_json(TOP / "tests/fixtures/lab/deployment.json", {"policies": out})


if __name__ == "__main__":
    rules()
    affine()
    deployment()
