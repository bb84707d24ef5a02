# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the GGUF reader and of the block formats in such files.

    build-oracle/venv/bin/python tests/oracle/gguf_io.py

writes tests/fixtures/io/{blocks.json,gguf.json,*.gguf} and the seeds tests/fuzz/corpus/gguf/. References: the gguf
package, which writes and reads the good files and decodes the blocks, and numpy for Q8_K, which that package does not
decode. Damaged files are good ones with one thing changed.
"""

import hashlib
import json
import pathlib
import struct

import gguf
import numpy as np

TOP = pathlib.Path(__file__).resolve().parents[2]
IO = TOP / "tests/fixtures/io"
CORPUS = TOP / "tests/fuzz/corpus/gguf"
VERSIONS = {"numpy": np.__version__, "gguf": "0.19.0"}
T = gguf.GGMLQuantizationType
BLOCKS = 1024


def stream(count, seed):
    """Bytes of splitmix64, which the tests make alike."""
    i = np.arange(1, count // 8 + 2, dtype=np.uint64)
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + i * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return z.view(np.uint8)[:count]


def decoded(name, raw):
    if name == "Q8_K":
        blocks = raw.reshape(-1, 292)
        d = blocks[:, :4].copy().view(np.float32)
        return d * blocks[:, 4:260].view(np.int8).astype(np.float32)
    return gguf.quants.dequantize(raw.reshape(1, -1), T[name])


def bits(values):
    out = np.ascontiguousarray(values, dtype=np.float32).ravel().view(np.uint32).copy()
    out[np.isnan(out.view(np.float32))] = 0x7FC00000
    return out


def blocks():
    out = {}
    names = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K"]
    names += ["IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4"]
    for name in names:
        elements, size = gguf.constants.GGML_QUANT_SIZES[T[name]]
        raw = stream(BLOCKS * size, int(T[name])).copy()
        with np.errstate(all="ignore"):
            values = bits(decoded(name, raw))
        out[name] = {
            "id": int(T[name]),
            "elements": elements,
            "bytes": size,
            "first": [int(b) for b in values[:8]],
            "sha256": hashlib.sha256(values.tobytes()).hexdigest(),
        }
    # The sizes of all, also of those that are not decoded.
    sizes = {t.name: [int(t), *s] for t, s in gguf.constants.GGML_QUANT_SIZES.items() if t.name != "Q8_1"}
    write_json(IO / "blocks.json", {"blocks": BLOCKS, "types": out, "sizes": sizes})


def write_json(path, value):
    path.write_text(json.dumps({"versions": VERSIONS, **value}, indent=None, separators=(",", ":")) + "\n")


def every_value(w):
    w.add_uint8("test.u8", 200)
    w.add_int8("test.s8", -100)
    w.add_uint16("test.u16", 60000)
    w.add_int16("test.s16", -30000)
    w.add_uint32("test.u32", 4000000000)
    w.add_int32("test.s32", -2000000000)
    w.add_float32("test.f32", 0.1)
    w.add_uint64("test.u64", 2**63 + 1)
    w.add_int64("test.s64", -(2**62))
    w.add_float64("test.f64", 0.1)
    w.add_bool("test.bool", True)
    w.add_string("test.string", "a \"b\" \u00fc\n")
    w.add_array("test.words", ["one", "", "three"])
    w.add_array("test.numbers", [1, -2, 3])


def good(path):
    rng = np.random.default_rng(4)
    w = gguf.GGUFWriter(path, "test")
    w.add_custom_alignment(64)
    every_value(w)
    w.add_tensor("plain.f32", rng.standard_normal((3, 5)).astype(np.float32))
    w.add_tensor("plain.f16", rng.standard_normal((2, 3, 4)).astype(np.float16))
    w.add_tensor("plain.f64", rng.standard_normal((2,)))
    for name in ["int8", "int16", "int32", "int64"]:
        w.add_tensor(f"plain.{name}", np.array([[1, -2, 3]], dtype=name))
    for name in ["Q4_0", "Q8_0", "Q4_K", "Q6_K", "MXFP4", "BF16"]:
        elements, size = gguf.constants.GGML_QUANT_SIZES[T[name]]
        per_row = 512 // elements * size
        if name in ("Q4_K", "Q6_K"): # not written by the package: random codes with scales of 1
            raw = stream(2 * per_row, 99).copy().reshape(-1, size)
            raw[:, {"Q4_K": slice(0, 4), "Q6_K": slice(208, 210)}[name]] = np.tile([0, 0x3C], 2 if name == "Q4_K" else 1)
            raw = raw.reshape(2, per_row)
        else:
            raw = gguf.quants.quantize(rng.standard_normal((2, 512)).astype(np.float32), T[name])
        w.add_tensor(f"blocks.{name}", raw, raw_dtype=T[name])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def described(path):
    reader = gguf.GGUFReader(path)
    out = {}
    for t in reader.tensors:
        if t.tensor_type in (T.F32, T.F16, T.F64, T.I8, T.I16, T.I32, T.I64):
            values = np.asarray(t.data, dtype=np.float32)
        else:
            values = gguf.quants.dequantize(t.data, t.tensor_type)
        out[t.name] = {
            "type": t.tensor_type.name,
            "dims": [int(d) for d in reversed(t.shape)],
            "bytes": int(t.n_bytes),
            "offset": int(t.data_offset),
            "f32_sha256": hashlib.sha256(bits(values).tobytes()).hexdigest(),
        }
    return {"tensors": out, "alignment": int(reader.alignment), "data_offset": int(reader.data_offset)}


# Files by hand.
def text(s):
    b = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(b)) + b


def kv(key, kind, payload):
    return text(key) + struct.pack("<I", kind) + payload


def info(name, dims, kind, offset):
    return text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", kind, offset)


def file(entries=(), infos=(), data=b"", version=3, magic=b"GGUF", tensors=None, kvs=None, align=32):
    head = magic + struct.pack("<IQQ", version, len(infos) if tensors is None else tensors, len(entries) if kvs is None else kvs)
    head += b"".join(entries) + b"".join(infos)
    if infos or data:
        head += b"\0" * (-len(head) % align)
    return head + data


def hostile():
    one = info("a", [4], 0, 0)
    f32 = b"\0" * 16
    nested = b""
    for _ in range(8):
        nested = struct.pack("<IQ", 9, 1) + nested
    big = struct.pack(">IQQ", 3, 0, 0)
    return {
        "empty-file": b"",
        "three-letters": b"GGU",
        "no-magic": file(magic=b"GGML"),
        "no-version": b"GGUF",
        "version-0": file(version=0),
        "version-1": b"GGUF" + struct.pack("<III", 1, 0, 0),
        "version-4": file(version=4),
        "big-endian": b"GGUF" + big,
        "header-cut": file()[:20],
        "many-tensors": file(tensors=2**63),
        "many-entries": file(kvs=2**62),
        "key-beyond": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**60) + b"abcdefghijklmnop",
        "key-empty": file([kv("", 4, struct.pack("<I", 1)), kv("b", 4, struct.pack("<I", 1))]),
        "key-not-utf8": file([kv(b"a\xff", 4, struct.pack("<I", 1))]),
        "key-with-nul": file([kv(b"a\0b", 4, struct.pack("<I", 1))]),
        "key-twice": file([kv("a", 4, struct.pack("<I", 1))] * 2),
        "value-unknown": file([kv("a", 13, struct.pack("<Q", 1))]),
        "value-cut": file([kv("aaaaaaaaaa", 10, b"123")]),
        "bool-2": file([kv("a", 7, b"\2")]),
        "string-beyond": file([kv("aaaa", 8, struct.pack("<Q", 99) + b"abc")]),
        "array-beyond": file([kv("a", 9, struct.pack("<IQ", 10, 2**61))]),
        "array-unknown": file([kv("a", 9, struct.pack("<IQ", 77, 1))]),
        "array-bool-3": file([kv("a", 9, struct.pack("<IQ", 7, 2) + b"\1\3")]),
        "array-strings-beyond": file([kv("a", 9, struct.pack("<IQ", 8, 2**40))]),
        "array-deep": file([kv("a", 9, nested + b"\0" * 4)]),
        "alignment-0": file([kv("general.alignment", 4, struct.pack("<I", 0))]),
        "alignment-3": file([kv("general.alignment", 4, struct.pack("<I", 3))]),
        "alignment-u64": file([kv("general.alignment", 10, struct.pack("<Q", 32))]),
        "alignment-huge": file([kv("general.alignment", 4, struct.pack("<I", 2**31))], [one], f32),
        "name-empty": file([], [info("", [4], 0, 0), one], f32),
        "name-not-utf8": file([], [info(b"\xc3", [4], 0, 0)], f32),
        "name-twice": file([], [one, info("a", [4], 0, 32)], b"\0" * 48),
        "rank-9": file([], [info("a", [1] * 9, 0, 0)], f32),
        "dims-overflow": file([], [info("a", [2**40, 2**40], 0, 0)], f32),
        "dims-negative": file([], [info("a", [2**63], 0, 0)], f32),
        "bytes-overflow": file([], [info("a", [2**62], 0, 0)], f32),
        "type-unknown": file([], [info("a", [4], 99, 0)], f32),
        "type-withdrawn": file([], [info("a", [32], 4, 0)], f32),
        "type-q8-1": file([], [info("a", [32], 9, 0)], b"\0" * 40),
        "row-no-block": file([], [info("a", [33], 8, 0)], b"\0" * 68),
        "info-cut": file([], [one, info("b", [4], 0, 32)])[:80],
        "offset-odd": file([], [info("a", [4], 0, 4)], b"\0" * 64),
        "offset-beyond": file([], [info("a", [4], 0, 2**60)], f32),
        "data-cut": file([], [one], f32[:12]),
        "data-missing": file([], [one])[: 24 + len(one)],
        "overlap": file([], [info("a", [16], 0, 0), info("b", [4], 0, 32)], b"\0" * 64),
    }


def accepted():
    return {
        "empty": file(),
        "version-2": file([], [info("a", [4], 0, 0)], b"\0" * 16, version=2),
        "nested-array": file([kv("a", 9, struct.pack("<IQIQHHIQH", 9, 2, 2, 2, 1, 2, 2, 1, 3))]),
        "scalar-and-empty": file([], [info("scalar", [], 0, 0), info("none", [0, 3], 0, 32)], b"\0" * 32),
        "hole": file([], [info("a", [4], 0, 0), info("b", [4], 0, 64)], b"\0" * 80),
        "codebook": file([], [info("a", [256], 16, 0)], b"\0" * 66),
    }


def main():
    IO.mkdir(parents=True, exist_ok=True)
    CORPUS.mkdir(parents=True, exist_ok=True)
    blocks()
    path = IO / "good.gguf"
    good(path)
    (IO / "hostile").mkdir(exist_ok=True)
    for name, blob in hostile().items():
        (IO / "hostile" / f"{name}.gguf").write_bytes(blob)
        (CORPUS / name).write_bytes(blob)
    for name, blob in accepted().items():
        (IO / f"{name}.gguf").write_bytes(blob)
        (CORPUS / name).write_bytes(blob)
    (CORPUS / "good").write_bytes(path.read_bytes())
    write_json(IO / "gguf.json", {"good": described(path), "hostile": sorted(hostile()), "accepted": sorted(accepted())})


if __name__ == "__main__":
    main()
