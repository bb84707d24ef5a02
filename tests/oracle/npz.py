# SPDX-License-Identifier: Apache-2.0
"""Files as numpy saves them, with what numpy reads from them, and damaged ones.

    build-oracle/venv/bin/python tests/oracle/npz.py

writes tests/fixtures/io/npz/ and the seeds tests/fuzz/corpus/npz/. expected.json: for every array of every good file its
name, type, shape and the bytes of its elements in row-major order, in hex; for every damaged file what is wrong with it.
"""

import io
import json
import pathlib
import shutil
import struct
import zipfile

import ml_dtypes
import numpy as np

TOP = pathlib.Path(__file__).resolve().parents[2]
OUT = TOP / "tests/fixtures/io/npz"
CORPUS = TOP / "tests/fuzz/corpus/npz"
NAMES = {"bool": "pred", "bfloat16": "bf16", "float8_e5m2": "f8e5m2", "complex64": "c64", "complex128": "c128"}
NAMES |= {f"int{n}": f"s{n}" for n in (8, 16, 32, 64)} | {f"uint{n}": f"u{n}" for n in (8, 16, 32, 64)}
NAMES |= {f"float{n}": f"f{n}" for n in (16, 32, 64)}

r = np.random.default_rng(6)
every = {n: (r.integers(0, 2, (2, 3)) if n == "bool" else r.integers(0, 100, (2, 3))).astype(n) for n in NAMES
         if n not in ("bfloat16", "float8_e5m2")}  # fmt: skip
every["bfloat16"] = r.standard_normal((2, 3)).astype(ml_dtypes.bfloat16)
e5m2 = r.standard_normal((2, 3)).astype(ml_dtypes.float8_e5m2)
shapes = {
    "scalar": np.float32(1.5) * np.ones(()),
    "empty": np.zeros((0, 4), np.float32),
    "one": np.arange(5, dtype=np.int32),
    "fortran": np.asfortranarray(r.standard_normal((2, 3, 4)).astype(np.float32)),
    "fortran_bytes": np.asfortranarray(r.integers(0, 255, (3, 5)).astype(np.uint8)),
    "eight": r.integers(0, 9, (1, 2, 1, 2, 1, 2, 1, 2)).astype(np.int16),
    "folder/ü": np.arange(3, dtype=np.uint64),
}


def saved(save, *args, **arrays):
    b = io.BytesIO()
    save(b, *args, **arrays)
    return b.getvalue()


def version(array, number):
    b = io.BytesIO()
    np.lib.format.write_array(b, array, version=(number, 0))
    return b.getvalue()


def archive(members, method=zipfile.ZIP_STORED, stream=False):
    b = io.BytesIO()

    class Pipe:  # what cannot be sought in has its sizes behind the data
        def write(self, data):
            return b.write(data)

        def flush(self):
            pass

    with zipfile.ZipFile(Pipe() if stream else b, "w", method) as z:
        for name, data in members.items():
            z.writestr(zipfile.ZipInfo(name), data, method)  # ZipInfo: no time of today
    return b.getvalue()


good = {
    "every.npz": saved(np.savez, **every),
    "packed.npz": saved(np.savez_compressed, **every),
    "shapes.npz": saved(np.savez, **shapes),
    "shapes_packed.npz": saved(np.savez_compressed, **shapes),
    "positions.npz": saved(np.savez, np.arange(3), np.ones((2, 2), np.float32)),
    "long.npz": saved(np.savez_compressed, a=np.zeros((64, 1000), np.float32)),
    "stream.npz": archive({"a.npy": saved(np.save, every["float32"])}, zipfile.ZIP_DEFLATED, True),
    "versions.npz": archive({f"v{n}.npy": version(every["float32"], n) for n in (1, 2, 3)}),
    "none.npz": archive({}),
    "e5m2.npz": saved(np.savez, a=e5m2),
    "single.npy": saved(np.save, shapes["fortran"]),
    "single_empty.npy": saved(np.save, shapes["empty"]),
}


def raw(descr, shape, data, order="False", extra=""):
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, {extra}}}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def change(data, at, new):
    return data[:at] + new + data[at + len(new):]


plain = saved(np.savez, a=every["float32"])
packed = saved(np.savez_compressed, a=np.arange(100, dtype=np.float32))
entry, end = plain.rindex(b"PK\x01\x02"), plain.rindex(b"PK\x05\x06")
twice = archive({"a.npy": saved(np.save, every["float32"]), "b.npy": saved(np.save, every["float32"])})
second = twice.rindex(b"PK\x01\x02")
first_local = struct.unpack_from("<I", twice, twice.index(b"PK\x01\x02") + 42)[0]
f4 = every["float32"].tobytes()
bad = {
    "cut.npz": (plain[:200], "no directory at its end"),
    "cut_end.npz": (plain[:-1], "no directory at its end"),
    "nothing.npz": (b"", "begins like neither"),
    "text.npz": (b"hello, world", "begins like neither"),
    "magic_alone.npz": (b"PK\x03\x04", "no directory"),
    "parts.npz": (change(plain, end + 4, b"\x01\x00"), "one of several parts"),
    "directory_beyond.npz": (change(plain, end + 16, struct.pack("<I", 10**8)), "which it cannot"),
    "entries_many.npz": (change(plain, end + 10, b"\x10\x00"), "which it cannot"),
    "zip64_lost.npz": (change(plain, end + 16, b"\xff\xff\xff\xff"), "is not located"),
    "entry_magic.npz": (change(plain, entry, b"XX"), "directory of the zip archive is damaged"),
    "encrypted.npz": (change(plain, entry + 8, b"\x01\x00"), "is encrypted"),
    "method.npz": (change(plain, entry + 10, b"\x0c\x00"), "method 12"),
    "size.npz": (change(plain, entry + 24, struct.pack("<I", 99)), "cannot be"),
    "bomb.npz": (change(packed, packed.rindex(b"PK\x01\x02") + 24, struct.pack("<I", 10**9)), "cannot be"),
    "local_beyond.npz": (change(plain, entry + 42, struct.pack("<I", 5000)), "there is no member at offset 5000"),
    "local_other.npz": (change(plain, 30, b"b"), "another one than the directory says"),
    "overlap.npz": (change(change(twice, second + 42, struct.pack("<I", first_local)), second + 46, b"a"), "overlaps"),
    "checksum.npz": (change(plain, 200, b"\x55"), "checksum"),
    "unpack.npz": (change(packed, 120, b"\xff\xff\xff\xff"), "do not unpack"),
    "no_array.npz": (archive({"a.npy": b"not an array, but long enough"}), "does not begin as an array"),
    "short.npz": (archive({"a.npy": b"\x93NUMPY"}), "too few"),
    "version.npz": (archive({"a.npy": change(version(every["float32"], 1), 6, b"\x09")}), "version 9.0"),
    "header_long.npz": (archive({"a.npy": change(version(every["float32"], 1), 8, b"\xff\xff")}), "header would be"),
    "big.npz": (archive({"a.npy": raw("'>f4'", "(2, 3)", f4)}), "big-endian"),
    "float8.npz": (saved(np.savez, a=np.zeros(3, ml_dtypes.float8_e4m3fn)), "any 8-bit type"),
    "text_type.npz": (saved(np.savez, a=np.array(["x", "yy"])), "not a number"),
    "object.npz": (archive({"a.npy": raw("'|O'", "(1,)", b"")}), "not a number"),
    "record.npz": (saved(np.savez, a=np.zeros(2, [("x", "f4"), ("y", "i4")])), "are records"),
    "shape_nine.npz": (archive({"a.npy": raw("'<f4'", "(" + "1, " * 9 + ")", f4[:4])}), "more than 8 dimensions"),
    "shape_huge.npz": (archive({"a.npy": raw("'<f4'", "(4294967296, 4294967296)", f4)}), "more than memory"),
    "shape_negative.npz": (archive({"a.npy": raw("'<f4'", "(-1, 3)", f4)}), "the shape in its header"),
    "shape_wide.npz": (archive({"a.npy": raw("'<f4'", "(2, 4)", f4)}), "asks for 32 bytes of data, but there are 24"),
    "shape_number.npz": (archive({"a.npy": raw("'<f4'", "(6)", f4)}), "the shape in its header"),
    "order.npz": (archive({"a.npy": raw("'<f4'", "(2, 3)", f4, "Maybe")}), "neither True nor False"),
    "key.npz": (archive({"a.npy": raw("'<f4'", "(2, 3)", f4, extra="'more': 1")}), "should not have"),
    "key_twice.npz": (archive({"a.npy": raw("'<f4'", "(2, 3)", f4, extra="'shape': (2, 3)")}), "or twice"),
    "key_missing.npz": (archive({"a.npy": b"\x93NUMPY\x01\x00\x11\x00{'descr': '<f4'}" + f4}), "lacks"),
    "single_cut.npy": (good["single.npy"][:-4], "asks for 96 bytes of data, but there are 92"),
}
# The same array once as "a" and once as "a.npy".
bad["twice.npz"] = (archive({"a.npy": saved(np.save, f4 and every["float32"]), "a": saved(np.save, every["float32"])}),
                    "there is another array 'a'")  # fmt: skip

for folder in (OUT, CORPUS):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
files = {}
for name, data in good.items():
    (OUT / name).write_bytes(data)
    if name == "e5m2.npz":  # numpy itself does not read what it wrote
        arrays = {"a": e5m2}
    else:
        loaded = np.load(io.BytesIO(data))
        arrays = {"": loaded} if name.endswith(".npy") else dict(loaded)
    files[name] = []
    for key, a in arrays.items():
        own = "bfloat16" if a.dtype.kind == "V" and a.dtype.itemsize == 2 else a.dtype.name  # it reads a void
        files[name].append({"name": key, "type": NAMES[own], "shape": a.shape,
                            "data": "" if name == "long.npz" else np.ascontiguousarray(a).tobytes().hex()})  # fmt: skip
for name, (data, why) in bad.items():
    (OUT / name).write_bytes(data)
for name, data in list(good.items()) + [(n, d) for n, (d, _) in bad.items()]:
    if len(data) <= 4096:
        (CORPUS / name).write_bytes(data)
(OUT / "expected.json").write_text(json.dumps({
    "versions": {"numpy": np.__version__, "ml_dtypes": ml_dtypes.__version__},
    "good": files,
    "bad": {name: why for name, (_, why) in bad.items()},
}, ensure_ascii=False, indent=None, separators=(",", ":")) + "\n")  # fmt: skip
