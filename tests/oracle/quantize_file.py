# SPDX-License-Identifier: Apache-2.0
"""Fixtures of `assay quantize`, and a reader of its files that knows nothing but docs/quantize.md.

    build-oracle/venv/bin/python tests/oracle/quantize_file.py
        writes tests/fixtures/quantize/: a small model, and for every policy what each tensor must become (type, shape,
        hash of the bytes) and what was lost. References: numpy for scales, codes and sums, ml_dtypes for the formats.
    build-oracle/venv/bin/python tests/oracle/quantize_file.py check build/assay MODEL...
        quantises each MODEL by many policies, reads the files with safetensors and numpy, and compares the errors found
        with those that the program said.
"""

import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

import gguf
import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

TOP = pathlib.Path(__file__).resolve().parents[2]
OUT = TOP / "tests/fixtures/quantize"
VERSIONS = {"numpy": np.__version__, "ml_dtypes": ml_dtypes.__version__, "safetensors": safetensors.__version__}
F32 = np.float32
CODE_TYPES = {
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f6e2m3fn": ml_dtypes.float6_e2m3fn,
    "f6e3m2fn": ml_dtypes.float6_e3m2fn,
    "f4e2m1fn": ml_dtypes.float4_e2m1fn,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
}


def as_matrix(x):
    first = 0 if x.ndim <= 1 else 1 if x.ndim == 2 or x.shape[-1] < 32 else x.ndim - 1
    return x.reshape(int(np.prod(x.shape[:first])), -1)


# What the program must write.
def boxes(rows, columns, policy):
    """Of every element the index of its scale, and the shape of the scales."""
    down, across = policy.get("block", (1, policy.get("group", columns)))
    if policy["grain"] == "tensor":
        down, across = rows, columns
    shape = (-(-rows // down), -(-columns // across))
    index = (np.arange(rows)[:, None] // down) * shape[1] + np.arange(columns)[None, :] // across
    return index, shape


def integer_codes(x, policy):
    low, high = policy["codes"]
    index, shape = boxes(*x.shape, policy)
    count = shape[0] * shape[1]
    lows, highs = np.zeros(count), np.zeros(count)
    np.minimum.at(lows, index.ravel(), x.ravel().astype(np.float64))
    np.maximum.at(highs, index.ravel(), x.ravel().astype(np.float64))
    zeros = np.full(count, policy.get("zero", 0), dtype=np.int32)
    store = policy.get("scale", F32)
    if policy.get("affine"):
        scales = ((highs - lows) / (high - low)).astype(F32)
    else:
        scales = np.maximum(-lows, highs).astype(F32) / F32(high - policy.get("zero", 0))
    scales = scales.astype(store).astype(F32)
    scales[(lows == 0) & (highs == 0)] = 1
    if policy.get("affine"):
        some = (lows != 0) | (highs != 0)
        zeros[some] = np.clip(np.rint(low - lows[some] / scales[some].astype(np.float64)), low, high)
    s, z = scales[index], zeros[index]
    raw = np.rint(x / s) + z.astype(F32)
    codes = np.clip(raw, low, high).astype(np.int32)
    back = (codes - z).astype(np.float64) * s.astype(np.float64)
    return codes, scales.astype(store).reshape(shape), zeros.reshape(shape), back, int((raw != codes).sum())


def pack(codes, bits):
    codes = codes.astype(np.uint8) & ((1 << bits) - 1)
    rows = []
    for row in codes:
        b = ((row[:, None] >> np.arange(bits)) & 1).astype(np.uint8).ravel()
        rows.append(np.packbits(b, bitorder="little"))
    return np.stack(rows)


def float_codes(x, policy):
    dtype = CODE_TYPES[policy["type"]]
    largest = F32(ml_dtypes.finfo(dtype).max)
    amax = np.abs(x).max()
    scale = F32(amax / largest) if amax else F32(1)
    codes = np.clip(x / scale, -largest, largest).astype(dtype)
    return codes, np.array(scale), codes.astype(np.float64) * np.float64(scale)


def blocks(x, policy):
    """OCP microscaling (floor rule) and NVFP4."""
    block, largest = policy["block_size"], policy["largest"]
    rows, columns = x.shape
    across = -(-columns // block)
    padded = np.zeros((rows, across * block), dtype=F32)
    padded[:, :columns] = x
    cut = padded.reshape(rows, across, block)
    amax = np.abs(cut).max(axis=2)
    extra = {}
    if policy["name"] == "nvfp4":
        g = max(F32(np.abs(x).max() / F32(2688)), F32(2.0**-120)) if np.abs(x).max() else F32(1)
        s = np.clip(amax / F32(6) / g, F32(2.0**-6), F32(448)).astype(ml_dtypes.float8_e4m3fn)
        factor = (F32(1) / g) / s.astype(F32)
        element = np.clip(cut * factor[:, :, None], F32(-6), F32(6)).astype(ml_dtypes.float4_e2m1fn)
        back = element.astype(F32) * (g * s.astype(F32))[:, :, None]
        scales, extra = s.view(np.uint8), {"_global_scale": np.array(g)}
        codes = element.view(np.uint8)
    else:
        with np.errstate(divide="ignore"):
            k = np.floor(np.log2(amax.astype(np.float64))) - policy["emax"]
        k = np.where(amax == 0, -127, np.clip(k, -127, 127))
        scales = (k + 127).astype(np.uint8)
        v = cut.astype(np.float64) * 2.0 ** -k[:, :, None]
        if policy["type"] == "s8":
            element = np.clip(np.rint(v * 64), -127, 127)
            codes, value = element.astype(np.int8).view(np.uint8), element / 64
        else:
            dtype = CODE_TYPES[policy["type"]]
            element = np.clip(v, -largest, largest).astype(F32).astype(dtype)
            codes, value = element.view(np.uint8), element.astype(np.float64)
        back = (value * 2.0 ** k[:, :, None]).astype(F32)
    codes = codes.reshape(rows, -1)[:, :columns]
    return codes, scales, back.reshape(rows, -1)[:, :columns].astype(np.float64), extra


POLICIES = {
    "w8a16": dict(kind="int", type="s8", bits=8, codes=(-127, 127), grain="channel"),
    "w4a16": dict(kind="int", type="s4", bits=4, codes=(-7, 7), grain="group", group=32),
    "w=int4/group:32/affine/full/scale:f16": dict(
        kind="int", type="s4", bits=4, codes=(-8, 7), grain="group", group=32, affine=True, scale=np.float16
    ),
    "w=uint8/channel/affine/full": dict(kind="int", type="u8", bits=8, codes=(0, 255), grain="channel", affine=True),
    "w=uint4/channel": dict(kind="int", type="u4", bits=4, codes=(1, 15), grain="channel", zero=8),
    "w=int8/tensor": dict(kind="int", type="s8", bits=8, codes=(-127, 127), grain="tensor"),
    "w=int16/channel": dict(kind="int", type="s16", bits=16, codes=(-32767, 32767), grain="channel"),
    "w=int2/group:16": dict(kind="int", type="s2", bits=2, codes=(-1, 1), grain="group", group=16),
    "w=int8/block:2x32": dict(kind="int", type="s8", bits=8, codes=(-127, 127), grain="block", block=(2, 32)),
    "fp8": dict(kind="float", type="f8e4m3fn"),
    "bf16": dict(kind="narrow", type="bf16"),
    "f16": dict(kind="narrow", type="f16"),
    "mxfp8": dict(kind="blocks", name="mxfp8-e4m3", type="f8e4m3fn", bits=8, block_size=32, emax=8, largest=448),
    "mxfp6-e3m2": dict(kind="blocks", name="mxfp6-e3m2", type="f6e3m2fn", bits=6, block_size=32, emax=4, largest=28),
    "mxfp4": dict(kind="blocks", name="mxfp4", type="f4e2m1fn", bits=4, block_size=32, emax=2, largest=6),
    "mxint8": dict(kind="blocks", name="mxint8", type="s8", bits=8, block_size=32, emax=0, largest=127 / 64),
    "nvfp4": dict(kind="blocks", name="nvfp4", type="f4e2m1fn", bits=4, block_size=16, largest=6),
}


def sums(x, back):
    x = x.astype(np.float64)
    e = back - x
    reference = (x**2).sum()
    rows, norms = np.sqrt((e**2).sum(axis=1)), np.sqrt((x**2).sum(axis=1))
    with np.errstate(all="ignore"):
        relative = np.where(norms > 0, rows / norms, -1)
    return {
        "rel_l2": float(np.sqrt((e**2).sum() / reference)) if reference else None,
        "max_abs_error": float(np.abs(e).max()),
        "worst_row": int(relative.argmax()) if reference else None,
        "outlier_ratio": float(np.abs(x).max() / np.sqrt(reference / x.size)) if reference else None,
    }


def expected(name, x, policy):
    """Tensors of the file by name, and what was lost."""
    if policy["kind"] == "narrow":
        # From doubles in one rounding: numpy does so for f16; for bf16 this data has no case where two differ.
        dtype = CODE_TYPES[policy["type"]]
        codes = x.astype(dtype)
        m = as_matrix(x).astype(F32)
        return {name: codes}, sums(m, as_matrix(codes).astype(np.float64))
    m = as_matrix(x).astype(F32)
    if policy["kind"] == "int":
        codes, scales, zeros, back, clipped = integer_codes(m, policy)
        out = {}
        if policy["bits"] < 8:
            out[name + "_packed"] = pack(codes, policy["bits"])
        else:
            kind = ("u" if policy["type"][0] == "u" else "") + "int" + policy["type"][1:]
            out[name] = codes.astype(kind).reshape(x.shape)
        out[name + "_scale"] = scales.reshape(()) if policy["grain"] == "tensor" else scales
        if policy.get("affine") or policy["type"][0] == "u":
            z = zeros.astype(np.uint8 if policy["type"][0] == "u" else np.int8)
            out[name + "_zero_point"] = z.reshape(out[name + "_scale"].shape)
        return out, {**sums(m, back), "clipped": clipped}
    if policy["kind"] == "float":
        codes, scale, back = float_codes(m, policy)
        return {name: codes.reshape(x.shape), name + "_scale": scale}, sums(m, back)
    codes, scales, back, extra = blocks(m, policy)
    out = {}
    if policy["bits"] < 8:
        out[name + "_packed"] = pack(codes, policy["bits"])
    else:
        out[name] = codes.reshape(x.shape)
    out[name + "_scale"] = scales
    for suffix, value in extra.items():
        out[name + suffix] = value
    return out, sums(m, back)


def model():
    rng = np.random.default_rng(11)
    t = {}
    t["a.weight"] = rng.standard_normal((5, 70)).astype(F32)
    t["a.weight"][2, 40] = 25  # an outlier
    t["a.weight"][3] = 0
    t["a.bias"] = rng.standard_normal(5).astype(F32)
    t["b.weight"] = rng.standard_normal((4, 96)).astype(ml_dtypes.bfloat16)
    t["c.weight"] = rng.standard_normal((3, 2, 3, 3)).astype(np.float16)
    t["experts"] = rng.standard_normal((2, 3, 40)).astype(F32)
    t["doubles"] = rng.standard_normal((2, 33))
    t["zeros"] = np.zeros((2, 64), dtype=F32)
    t["ties"] = (np.arange(64, dtype=F32).reshape(2, 32) - 32) / 2 # x / s on ties where s is a power of two
    t["ties"][:, 0] = 63.5
    t["tiny"] = np.full((2, 8), 1e-40, dtype=F32) * np.arange(1, 9, dtype=F32)
    t["ids"] = np.arange(3, dtype=np.int64)
    t["empty"] = np.zeros((0, 4), dtype=F32)
    return t


def record(tensors):
    out = {}
    for name, v in tensors.items():
        out[name] = {"shape": list(v.shape), "bytes": v.nbytes, "sha256": hashlib.sha256(v.tobytes()).hexdigest()}
    return out


def fixtures():
    OUT.mkdir(parents=True, exist_ok=True)
    tensors = model()
    safetensors.numpy.save_file(tensors, OUT / "in.safetensors", metadata={"format": "pt"})
    result = {}
    for text, policy in POLICIES.items():
        files, lost = {}, {}
        for name, x in tensors.items():
            vector = policy["kind"] != "narrow" and sum(d > 1 for d in x.shape) < 2
            if x.dtype == np.int64 or x.size == 0 or vector or x.dtype == CODE_TYPES.get(policy["type"]) and policy["kind"] == "narrow":
                files[name] = x
                continue
            if name == "tiny" and policy["kind"] in ("int", "float"):
                continue # scales below the smallest normal number have a rule of their own, tested by itself
            made, lost[name] = expected(name, x, policy)
            files.update(made)
        result[text] = {"tensors": record(files), "lost": lost}
    (OUT / "expected.json").write_text(json.dumps({"versions": VERSIONS, "policies": result}, separators=(",", ":")) + "\n")


# A reader of the files.
def unpack(packed, bits, columns, signed):
    b = np.unpackbits(packed, axis=1, bitorder="little")[:, : columns * bits].reshape(len(packed), columns, bits)
    codes = (b * (1 << np.arange(bits))).sum(axis=2).astype(np.int32)
    return np.where(codes >= 1 << (bits - 1), codes - (1 << bits), codes) if signed else codes


def load(path):
    """Names to arrays, of every type that the format has, and the metadata."""
    blob = path.read_bytes()
    n = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8 : 8 + n])
    types = {
        "F64": np.float64, "F32": F32, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn,
        "F8_E5M2": ml_dtypes.float8_e5m2, "F8_E8M0": ml_dtypes.float8_e8m0fnu, "I8": np.int8, "U8": np.uint8, "I16": np.int16,
        "U16": np.uint16, "I32": np.int32, "I64": np.int64, "BOOL": np.bool_,
    }
    metadata = header.pop("__metadata__", {})
    out = {}
    for name, v in header.items():
        a, b = v["data_offsets"]
        out[name] = np.frombuffer(blob[8 + n + a : 8 + n + b], dtype=types[v["dtype"]]).reshape(v["shape"])
    return out, metadata


def dequantised(entry, q, tensors):
    rows, columns = entry["rows"], entry["columns"]
    codes = tensors[entry["codes"]]
    if q["form"] == "narrow":
        return codes.astype(np.float64).reshape(rows, columns)
    kind = q["element_type"] if q["form"] == "blocks" else q["type"]
    if q["bits"] < 8 and kind[0] in "su":
        codes = unpack(codes, q["bits"], columns, kind[0] == "s")
    elif q["bits"] < 8:
        codes = unpack(codes, q["bits"], columns, False).astype(np.uint8).view(CODE_TYPES[kind]).astype(np.float64)
    codes = codes.reshape(rows, columns).astype(np.float64)
    scales = tensors[entry["scales"]].astype(np.float64)
    if q["form"] == "blocks":
        if kind == "s8":
            codes = codes / 64
        if "global_scale" in entry:
            g = tensors[entry["global_scale"]].astype(F32)
            scales = (g * tensors[entry["scales"]].astype(F32)).astype(np.float64)
        down, across = 1, q["group"]
    else:
        down, across = {
            "tensor": (rows, columns), "channel": (1, columns), "group": (1, q.get("group")), "block": q.get("block"),
        }[q["granularity"]]
    scales = scales.reshape(-(-rows // down), -(-columns // across))
    spread = np.repeat(np.repeat(scales, down, axis=0)[:rows], across, axis=1)[:, :columns]
    if "zero_points" in entry:
        z = tensors[entry["zero_points"]].astype(np.float64).reshape(scales.shape)
        codes = codes - np.repeat(np.repeat(z, down, axis=0)[:rows], across, axis=1)[:, :columns]
    values = codes * spread
    return values.astype(F32).astype(np.float64) if q["form"] == "blocks" else values


def source(path):
    if path.suffix == ".gguf":
        out = {}
        for t in gguf.GGUFReader(path).tensors:
            plain = t.tensor_type.name in ("F32", "F16", "F64", "I8", "I16", "I32", "I64")
            out[t.name] = np.asarray(t.data) if plain else gguf.quants.dequantize(t.data, t.tensor_type)
        return out
    out = {}
    for file in [path] if path.is_file() else sorted(path.glob("*.safetensors")):
        out.update(load(file)[0])
    return out


def check(program, paths):
    more = ["f32", "mxfp6", "w=int8/channel/percentile:99.9", "w=int4/group:128/mse", "w=f8e5m2/channel", "w=int8/tensor/affine/full/mse"]
    bad = count = 0
    for path in map(pathlib.Path, paths):
        want = source(path)
        for policy in [*POLICIES, *more]:
            with tempfile.TemporaryDirectory() as folder:
                out = pathlib.Path(folder) / "out.safetensors"
                run = subprocess.run([program, "quantize", path, out, "--policy", policy, "--json"], capture_output=True, text=True)
                if run.returncode:
                    print(f"{path} {policy}: {run.stdout}{run.stderr}")
                    bad += 1
                    continue
                with safetensors.safe_open(out, framework="pt") as f: # the reference implementation takes the file
                    metadata = f.metadata()
                    names = set(f.keys())
                said = json.loads(run.stdout)["result"]
                tensors, _ = load(out)
                assert names == set(tensors)
                q = json.loads(metadata["assay.quantization"])
                for t in said["tensors"]:
                    count += 1
                    x = want[t["name"]]
                    if t["action"] != "quantised":
                        ok = np.array_equal(tensors[t["codes"]].astype(np.float64), x.astype(np.float64))
                    else:
                        entry = q["tensors"][t["name"]]
                        m = x.astype(F32).reshape(entry["rows"], entry["columns"])
                        found = sums(m, dequantised(entry, q, tensors))["rel_l2"]
                        s = t["stats"]["rel_l2"]
                        # Both are sums of doubles in different orders.
                        ok = found == s or abs(found - s) <= 1e-9 * max(found, 1e-12)
                    if not ok:
                        bad += 1
                        print(f"{path} {policy} {t['name']}: {t.get('stats')}")
                if hashlib.sha256(path.read_bytes()).hexdigest() != q["source"][0]["sha256"] if path.is_file() else False:
                    bad += 1
                    print(f"{path}: another hash")
    print(f"{count} tensors, {bad} differ")
    sys.exit(bad != 0)


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "check":
        check(sys.argv[2], sys.argv[3:])
    else:
        fixtures()
