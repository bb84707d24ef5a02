# SPDX-License-Identifier: Apache-2.0
"""Fixtures of checkpoint reading, number conversion, quantisation and error measures.

    build-oracle/venv/bin/python tests/oracle/num_io.py

writes tests/fixtures/num/, tests/fixtures/io/ and the seeds tests/fuzz/corpus/{safetensors,config}/. References: numpy
(f16, f32, f64 and all arithmetic), ml_dtypes (bf16, 8-bit floats), and the safetensors package, which also says of every
damaged file whether it accepts it. Everything is a function of this file and of the versions that the fixtures name.
"""

import hashlib
import json
import pathlib
import struct

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

TOP = pathlib.Path(__file__).resolve().parents[2]
NUM = TOP / "tests/fixtures/num"
IO = TOP / "tests/fixtures/io"
CORPUS = TOP / "tests/fuzz/corpus"
VERSIONS = {
    "numpy": np.__version__,
    "ml_dtypes": ml_dtypes.__version__,
    "safetensors": safetensors.__version__,
}


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"versions": VERSIONS, **value}, indent=None, separators=(",", ":")) + "\n")


def sha256(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


# Conversions. Both sides build the same inputs; what is kept is a hash of all outputs, with NaN as the quiet NaN of its
# sign, because how much of a payload survives is nobody's contract.
NARROW = {
    "f16": (np.float16, np.uint16, 0x7E00),
    "bf16": (ml_dtypes.bfloat16, np.uint16, 0x7FC0),
    "f8e4m3fn": (ml_dtypes.float8_e4m3fn, np.uint8, 0x7F),
    "f8e5m2": (ml_dtypes.float8_e5m2, np.uint8, 0x7E),
}
# Under every upper half: the ends, and both sides of the ties of bf16 (bit 15) and f16 (bit 12, odd and even).
LOWER = [0, 1, 0x0FFF, 0x1000, 0x1001, 0x2FFF, 0x3000, 0x7FFF, 0x8000, 0x8001, 0xFFFF]


def codes(values, unsigned, nan):
    bits = values.view(unsigned).copy()
    sign = bits & unsigned(1 << (8 * bits.itemsize - 1))
    bits[np.isnan(values)] = (sign | unsigned(nan))[np.isnan(values)]
    return bits


def f64_probes(dtype, unsigned):
    """Every non-negative finite value, the point halfway to the next, and the doubles on both sides of each."""
    count = 1 << (8 * np.dtype(unsigned).itemsize - 1)
    with np.errstate(invalid="ignore"):
        values = np.arange(count, dtype=unsigned).view(dtype).astype(np.float64)
    values = values[np.isfinite(values)]
    above = np.append(values[1:], 2 * values[-1] - values[-2])
    middle = (values + above) / 2
    points = np.stack([values, middle], axis=1).ravel()
    around = np.stack([np.nextafter(points, -np.inf), points, np.nextafter(points, np.inf)], axis=1).ravel()
    return np.concatenate([around, -around])


def nearest(probes, dtype, unsigned, over):
    """Codes by comparing exact values: ml_dtypes takes a double to its types through f32, which rounds twice."""
    count = 1 << (8 * np.dtype(unsigned).itemsize - 1)
    with np.errstate(invalid="ignore"):
        values = np.arange(count, dtype=unsigned).view(dtype).astype(np.float64)
    values = values[np.isfinite(values)]
    values = np.append(values, 2 * values[-1] - values[-2])
    last = len(values) - 2
    size = np.abs(probes)
    low = np.minimum(np.searchsorted(values, size, side="right") - 1, last)
    middle = (values[low] + values[low + 1]) / 2
    code = low + np.where(size < middle, 0, np.where(size > middle, 1, low & 1))
    code = np.where(code > last, over, code)
    return (code | np.where(np.signbit(probes), count, 0)).astype(unsigned)


def conversions():
    out = {"widen": {}, "from_f32": {}, "from_f64": {}}
    upper = np.arange(65536, dtype=np.uint32) << 16
    f32 = (upper[:, None] | np.array(LOWER, dtype=np.uint32)[None, :]).ravel().view(np.float32)
    out["f32_inputs"] = sha256(f32)
    for name, (dtype, unsigned, nan) in NARROW.items():
        count = 1 << (8 * np.dtype(unsigned).itemsize)
        every = np.arange(count, dtype=unsigned).view(dtype)
        out["widen"][name] = sha256(codes(every.astype(np.float32), np.uint32, 0x7FC00000))
        probes = f64_probes(dtype, unsigned)
        with np.errstate(over="ignore", invalid="ignore"):
            out["from_f32"][name] = sha256(codes(f32.astype(dtype), unsigned, nan))
            direct = codes(probes.astype(dtype), unsigned, nan)
        over = int(codes(np.array([np.inf], dtype=np.float32).astype(dtype), unsigned, nan)[0])
        exact = nearest(probes, dtype, unsigned, over)
        if name == "f16":
            assert (direct == exact).all()
        with np.errstate(over="ignore"):
            through_f32 = codes(probes.astype(np.float32).astype(dtype), unsigned, nan)
        out["from_f64"][name] = {
            "inputs": sha256(probes),
            "outputs": sha256(exact),
            "outputs_that_two_roundings_change": int((through_f32 != exact).sum()),
        }
    write_json(NUM / "convert.json", out)


# Quantisation.
def bits32(array):
    return [int(b) for b in np.ascontiguousarray(array, dtype=np.float32).view(np.uint32).ravel()]


def amax_of(x, case):
    a = np.abs(x)
    if case["granularity"] == "tensor":
        return a.max().reshape([1] * x.ndim)
    if case["granularity"] == "channel":
        return a.max(axis=tuple(d for d in range(x.ndim) if d != case["channel_axis"]), keepdims=True)
    axis, group = case["group_axis"], case["group"]
    shape = x.shape[:axis] + (x.shape[axis] // group, group) + x.shape[axis + 1 :]
    return a.reshape(shape).max(axis=axis + 1)


def spread(scales, x, case):
    if case["granularity"] == "group":
        return np.repeat(scales, case["group"], axis=case["group_axis"])
    return np.broadcast_to(scales, x.shape)


def channel_norms(x, values, axis):
    error = (values - x.astype(np.float64)) ** 2
    square = x.astype(np.float64) ** 2
    other = tuple(d for d in range(x.ndim) if d != axis)
    if axis < 0:
        return error.sum(keepdims=True).ravel(), square.sum(keepdims=True).ravel()
    return error.sum(axis=other), square.sum(axis=other)


def losses(x, values, axis):
    error2, square = channel_norms(x, values, axis)
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.sqrt(error2 / square)
    worst = int(np.nanargmax(relative))
    return {
        "rel_l2": float(np.sqrt(error2.sum() / square.sum())),
        "max_abs_error": float(np.abs(values - x.astype(np.float64)).max()),
        "worst_channel": worst,
        "worst_channel_rel_l2": float(relative[worst]),
    }


def quantise(name, x, case):
    x = np.ascontiguousarray(x, dtype=np.float32)
    qmax = np.float32({"s8": 127, "s4": 7}[case["type"]])
    amax = amax_of(x, case)
    scales = np.where(amax == 0, np.float32(1), np.maximum(amax / qmax, np.finfo(np.float32).tiny)).astype(np.float32)
    if "scale_factor" in case:  # scales that come from elsewhere and clip
        scales = (scales * np.float32(case["scale_factor"])).astype(np.float32)
    wide = spread(scales, x, case)
    rounded = np.rint(x / wide)
    q = np.clip(rounded, -qmax, qmax)
    values = q.astype(np.float64) * wide.astype(np.float64)
    kept = np.abs(rounded) <= qmax
    in_scales = (np.abs(values - x) / wide.astype(np.float64))[kept].max()
    return {
        "name": name,
        "dims": list(x.shape),
        **{"channel_axis": -1, "group_axis": -1, "group": 0, **case},
        "x": bits32(x),
        "scales": bits32(scales),
        "codes": [int(c) for c in q.ravel()],
        "dequantised": bits32(q * wide),
        "clipped": int((~kept).sum()),
        "flushed": int(((x != 0) & (q == 0)).sum()),
        "scale_min": float(scales.min()),
        "scale_max": float(scales.max()),
        "max_error_in_scales": float(in_scales),
        **losses(x, values, case.get("channel_axis", -1)),
    }


def quantisations():
    rng = np.random.default_rng(5)
    w = rng.standard_normal((6, 32)).astype(np.float32)
    w[1] = 0
    w[2] *= np.float32(1e-44)  # subnormal: its scale is raised to the smallest normal
    w[3, 5] = 40
    # Ties: a scale of exactly 1/4, and odd multiples of half of it.
    ties = (np.arange(-64, 64, dtype=np.float32) * 2 + 1).reshape(4, 32) * np.float32(0.125)
    ties[:, 0] = 127 * np.float32(0.25)
    ties4 = np.tile((np.arange(-8, 8, dtype=np.float32) + np.float32(0.5)) / 2, (4, 2))
    ties4 = np.clip(ties4, -3.5, 3.5)
    solid = rng.standard_normal((4, 3, 8)).astype(np.float32)
    cases = [
        quantise("tensor s8", w, {"type": "s8", "granularity": "tensor", "channel_axis": 0}),
        quantise("rows s8", w, {"type": "s8", "granularity": "channel", "channel_axis": 0}),
        quantise("columns s8", w.T, {"type": "s8", "granularity": "channel", "channel_axis": 1}),
        quantise("rows s4", w, {"type": "s4", "granularity": "channel", "channel_axis": 0}),
        quantise("ties s8", ties, {"type": "s8", "granularity": "channel", "channel_axis": 0}),
        quantise("ties s4", ties4, {"type": "s4", "granularity": "tensor"}),
        quantise("groups on the last axis", w, {"type": "s4", "granularity": "group", "channel_axis": 0, "group_axis": 1, "group": 8}),
        quantise("groups on the first axis", w.T, {"type": "s4", "granularity": "group", "channel_axis": 1, "group_axis": 0, "group": 8}),
        quantise("one group a row", w, {"type": "s8", "granularity": "group", "channel_axis": 0, "group_axis": 1, "group": 32}),
        quantise("groups of one", solid, {"type": "s8", "granularity": "group", "channel_axis": 2, "group_axis": 1, "group": 1}),
        quantise("groups in the middle", solid, {"type": "s4", "granularity": "group", "channel_axis": 0, "group_axis": 1, "group": 3}),
        quantise("middle channels", solid, {"type": "s8", "granularity": "channel", "channel_axis": 1}),
        quantise("vector", solid.ravel()[:7], {"type": "s8", "granularity": "tensor", "channel_axis": 0}),
        quantise("scalar", solid.ravel()[0].reshape(()), {"type": "s8", "granularity": "tensor"}),
        quantise("clipping", w, {"type": "s8", "granularity": "tensor", "channel_axis": 0, "scale_factor": 0.125}),
    ]
    floats = []
    x = rng.standard_normal((5, 40)).astype(np.float32)
    x[1] = 0
    x[2] *= np.float32(1e-6)
    x[3, 7] = 60000
    for name, (dtype, unsigned, nan) in NARROW.items():
        if name.startswith("f8"):
            x = np.clip(x, -200, 200)
        y = x.astype(dtype)
        floats.append(
            {
                "type": name,
                "dims": list(x.shape),
                "x": bits32(x),
                "codes": [int(c) for c in codes(y, unsigned, nan).ravel()],
                "flushed": int(((x != 0) & (y.astype(np.float64) == 0)).sum()),
                **losses(x, y.astype(np.float64), 0),
            }
        )
    write_json(NUM / "quantize.json", {"integer": cases, "float": floats})


# Measures. The numbers come from a 64-bit xorshift that the test repeats.
class Stream:
    def __init__(self, seed):
        self.x = seed

    def next(self):
        mask = (1 << 64) - 1
        self.x ^= (self.x << 13) & mask
        self.x ^= self.x >> 7
        self.x ^= (self.x << 17) & mask
        return (self.x >> 11) * 2.0**-53 - 0.5

    def array(self, rows, columns):
        return np.array([[self.next() for _ in range(columns)] for _ in range(rows)])


def ranking(unit, query):
    similarity = (unit * unit[query]).sum(axis=1)
    others = [r for r in range(len(unit)) if r != query]
    return sorted(others, key=lambda r: (-similarity[r], r)), similarity


def measures():
    rows, columns, floor = 40, 24, 0.125
    stream = Stream(88172645463325252)
    reference = stream.array(rows, columns)
    noise = stream.array(rows, columns)
    reference[9] = reference[4]  # ties in the ranking
    noise[9] = noise[4]
    result = reference + 0.25 * noise
    error = result - reference
    cosine = (reference * result).sum(axis=1) / np.linalg.norm(reference, axis=1) / np.linalg.norm(result, axis=1)
    relative = np.abs(error) / np.maximum(np.abs(reference), floor)
    unit = [a / np.linalg.norm(a, axis=1, keepdims=True) for a in (reference, result)]
    per_query = []
    margins = []
    for q in range(rows):
        (a, similarity), (b, _) = (ranking(u, q) for u in unit)
        place = {r: i for i, r in enumerate(a)}
        rho = np.corrcoef(np.arange(rows - 1), [place[r] for r in b])[0, 1]
        per_query.append((a[0] == b[0], len(set(a[:10]) & set(b[:10])) / 10, rho))
        margins.append(float(similarity[a[0]] - similarity[a[1]]))
    scores = np.array(per_query, dtype=np.float64)
    subset = np.arange(rows) % 3 == 1

    def task(s):
        return {"queries": len(s), "top1": float(s[:, 0].mean()), "top10": float(s[:, 1].mean()), "spearman": float(s[:, 2].mean())}

    write_json(
        NUM / "measures.json",
        {
            "rows": rows,
            "columns": columns,
            "floor": floor,
            "rel_l2": float(np.linalg.norm(error) / np.linalg.norm(reference)),
            "max_abs": float(np.abs(error).max()),
            "max_abs_index": int(np.abs(error).argmax()),
            "snr_db": float(10 * np.log10((reference**2).sum() / (error**2).sum())),
            "cosine_min": float(cosine.min()),
            "cosine_min_row": int(cosine.argmin()),
            "cosine_mean": float(cosine.mean()),
            "max_rel": float(relative.max()),
            "mean_rel": float(relative.mean()),
            "all": {**task(scores), "spearman_min": float(scores[:, 2].min()), "spearman_min_query": int(scores[:, 2].argmin())},
            "subset": task(scores[subset]),
            "margins": margins,
        },
    )


# Checkpoints.
def file_of(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def in_our_order(entries):
    """The layout that our writer documents: largest power of two dividing the size first, header padded to 64."""

    def alignment(data):
        n = len(data)
        return min(n & -n, 64) if n else 64

    at, header, body = 0, {"__metadata__": {"format": "pt", "made by": "a \"test\""}}, b""
    for name, dtype, shape, data in sorted(entries, key=lambda e: -alignment(e[3])):
        header[name] = tensor(dtype, shape, at, at + len(data))
        at += len(data)
        body += data
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    return struct.pack("<Q", len(text)) + text + body


def good_files():
    rng = np.random.default_rng(3)
    arrays = {
        "f32": rng.standard_normal((3, 5)).astype(np.float32),
        "f64": rng.standard_normal(4),
        "f16": rng.standard_normal((2, 2)).astype(np.float16),
        "s64": np.array([[1, -2]], dtype=np.int64),
        "s32": np.array([7, -7], dtype=np.int32),
        "s16": np.array([300], dtype=np.int16),
        "s8": np.array([[-128], [127]], dtype=np.int8),
        "u8": np.array([255], dtype=np.uint8),
        "u16": np.array([65535], dtype=np.uint16),
        "u32": np.array([4294967295], dtype=np.uint32),
        "u64": np.array([18446744073709551615], dtype=np.uint64),
        "pred": np.array([True, False, True]),
        "empty": np.zeros((0, 4), dtype=np.float32),
        "scalar": np.array(2.5, dtype=np.float32),
    }
    blob = safetensors.numpy.save(arrays, metadata={"format": "np"})
    described = {}
    for name, a in arrays.items():
        described[name] = {"dims": list(a.shape), "sha256": sha256(a), "bytes": a.nbytes}
    ordered = in_our_order(
        [
            ("odd", "U8", [5], bytes(range(5))),
            ("scale", "F32", [3], np.array([1, 2, 3], dtype="<f4").tobytes()),
            ("weight", "BF16", [8, 16], bytes(range(256))),
            ("half", "F16", [8], bytes(range(16))),
            ("nothing", "F32", [0], b""),
            ("codes", "I8", [64], bytes(range(64))),
        ]
    )
    # Types that numpy has not: bytes are bytes.
    kinds = ["BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F4", "F6_E2M3", "F6_E3M2", "C64"]
    bits = {"BF16": 16, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "C64": 64}
    header, at = {}, 0
    for kind in kinds:
        n = 8 * bits.get(kind, 8) // 8
        header[kind] = tensor(kind, [2, 4], at, at + n)
        at += n
    return described, {"reference": blob, "ordered": ordered, "kinds": file_of(header, bytes(at))}


def hostile_files():
    ok = tensor("F32", [2], 0, 8)
    eight = bytes(8)
    return {
        "empty-file": b"",
        "seven-bytes": b"\x02\0\0\0\0\0\0",
        "length-2-63": struct.pack("<Q", 1 << 63) + b"{}",
        "length-all-ones": struct.pack("<Q", (1 << 64) - 1) + b"{}",
        "length-over-100-mb": struct.pack("<Q", 100_000_001) + b"{}",
        "length-past-end": struct.pack("<Q", 200) + b"{}",
        "header-cut-short": file_of({"a": ok}, eight)[:30],
        "header-empty": struct.pack("<Q", 0),
        "header-array": file_of(b"[]"),
        "header-space-first": file_of(b' {"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', eight),
        "header-not-utf8": file_of(b'{"a\xff":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', eight),
        "header-garbage-after": file_of(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}x', eight),
        "data-cut-short": file_of({"a": ok}, eight[:7]),
        "data-too-long": file_of({"a": ok}, eight + b"x"),
        "no-tensors": file_of({}),
        "no-tensors-but-data": file_of({}, eight),
        "overlap": file_of({"a": ok, "b": tensor("F32", [2], 4, 12)}, bytes(12)),
        "same-place": file_of({"a": ok, "b": ok}, eight),
        "hole": file_of({"a": ok, "b": tensor("F32", [1], 12, 16)}, bytes(16)),
        "hole-first": file_of({"a": tensor("F32", [2], 4, 12)}, bytes(12)),
        "offsets-reversed": file_of({"a": tensor("F32", [2], 8, 0)}, eight),
        "offsets-negative": file_of({"a": tensor("F32", [2], -8, 0)}, eight),
        "offsets-three": file_of(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}}', eight),
        "offsets-fraction": file_of(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8.5]}}', eight),
        "offsets-past-int64": file_of(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,99999999999999999999]}}', eight),
        "shape-negative": file_of({"a": tensor("F32", [-2, -1], 0, 8)}, eight),
        "shape-fraction": file_of(b'{"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}}', eight),
        "shape-overflow": file_of({"a": tensor("F32", [1 << 62, 4], 0, 8)}, eight),
        "shape-overflow-in-bits": file_of({"a": tensor("F64", [1 << 58], 0, 8)}, eight),
        "shape-too-small": file_of({"a": tensor("F32", [1], 0, 8)}, eight),
        "shape-not-array": file_of(b'{"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}}', eight),
        "dtype-unknown": file_of({"a": tensor("F31", [2], 0, 8)}, eight),
        "dtype-lower-case": file_of({"a": tensor("f32", [2], 0, 8)}, eight),
        "dtype-number": file_of(b'{"a":{"dtype":32,"shape":[2],"data_offsets":[0,8]}}', eight),
        "dtype-missing": file_of(b'{"a":{"shape":[2],"data_offsets":[0,8]}}', eight),
        "half-a-byte": file_of({"a": tensor("F4", [3], 0, 2)}, bytes(2)),
        "tensor-not-object": file_of({"a": 1}),
        "name-twice": file_of(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', eight),
        "name-with-controls": file_of({"\x1b[31m</script>\"\u202e\n": ok}, eight),
        "name-with-nul": file_of(b'{"a\\u0000b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', eight),
        "name-empty": file_of({"": ok}, eight),
        "unknown-key": file_of(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":[1]}}', eight),
        "metadata-number": file_of({"__metadata__": {"a": 1}}),
        "metadata-not-object": file_of({"__metadata__": "a"}),
        "metadata-only": file_of({"__metadata__": {"a": "b"}}),
        "zero-size-inside": file_of({"a": tensor("F32", [1], 0, 4), "z": tensor("F32", [0, 3], 4, 4), "b": tensor("F32", [1], 4, 8)}, eight),
        "scalar": file_of({"a": tensor("F32", [], 0, 4)}, bytes(4)),
        "rank-8": file_of({"a": tensor("F32", [1] * 8, 0, 4)}, bytes(4)),
        "rank-9": file_of({"a": tensor("F32", [1] * 9, 0, 4)}, bytes(4)),
        "nested-10000": file_of(b'{"a":' + b"[" * 10000 + b"]" * 10000 + b"}"),
        "cut-in-string": file_of(b'{"a'),
    }


def accepts(blob):
    try:
        safetensors.deserialize(bytes(blob))
        return True
    except safetensors.SafetensorError:
        return False


def sharded():
    folder = IO / "sharded"
    folder.mkdir(parents=True, exist_ok=True)
    shards = {
        "model-00001-of-00002.safetensors": {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "a.bias": np.ones(2, dtype=np.float32)},
        "model-00002-of-00002.safetensors": {"b.weight": np.arange(4, dtype=np.int8)},
    }
    weight_map = {}
    lines = ""
    for name, arrays in shards.items():
        blob = safetensors.numpy.save(arrays)
        (folder / name).write_bytes(blob)
        weight_map.update({k: name for k in arrays})
        lines += f"{hashlib.sha256(blob).hexdigest()}  {name}\n"
    index = {"metadata": {"total_size": 36}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    return hashlib.sha256(lines.encode()).hexdigest()


CONFIGS = {
    "good": '{"model_type":"bert","architectures":["BertModel"],"hidden_size":384,"num_hidden_layers":6,"num_attention_heads":12,'
    '"intermediate_size":1536,"vocab_size":30522,"max_position_embeddings":512,"type_vocab_size":2,"layer_norm_eps":1e-12,'
    '"hidden_act":"gelu","position_embedding_type":"absolute"}',
    "sparse": '{"model_type":"bert","hidden_size":8,"num_hidden_layers":1,"num_attention_heads":2,"intermediate_size":16,'
    '"vocab_size":10,"max_position_embeddings":4}',
    "other": '{"model_type":"t5"}',
    "negative": '{"model_type":"bert","hidden_size":-384}',
    "array": "[]",
    "pooling": '{"word_embedding_dimension":384,"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":true}',
    "pooling-named": '{"pooling_mode":"cls"}',
    "deep": "[" * 3000,
}


def checkpoints():
    IO.mkdir(parents=True, exist_ok=True)
    (IO / "hostile").mkdir(exist_ok=True)
    for folder in ("safetensors", "config"):
        (CORPUS / folder).mkdir(parents=True, exist_ok=True)
    described, good = good_files()
    for name, blob in good.items():
        (IO / f"{name}.safetensors").write_bytes(blob)
        (CORPUS / "safetensors" / name).write_bytes(blob)
    verdicts = {name: accepts(blob) for name, blob in good.items()}
    hostile = {}
    for name, blob in hostile_files().items():
        (IO / "hostile" / f"{name}.safetensors").write_bytes(blob)
        (CORPUS / "safetensors" / name).write_bytes(blob)
        hostile[name] = accepts(blob)
    for name, text in CONFIGS.items():
        (CORPUS / "config" / name).write_text(text)
    write_json(
        IO / "checkpoints.json",
        {"reference": described, "accepted_good": verdicts, "accepted_hostile": hostile, "sharded_sha256": sharded()},
    )


if __name__ == "__main__":
    conversions()
    quantisations()
    measures()
    checkpoints()
