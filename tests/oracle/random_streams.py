# SPDX-License-Identifier: Apache-2.0
"""The random streams of numpy and JAX against num/random.h.

    make build/random-draws && build-oracle/venv/bin/python tests/oracle/random_streams.py [BUILD]

makes a million draws of every kind with numpy and with JAX, has BUILD/random-draws make the same, prints how they compare,
and writes tests/fixtures/num/random.json: a hash per stream, and for JAX's normals, which are not all equal, every
difference, so that a test can put them back and come to JAX's own hash.

    build-oracle/venv/bin/python tests/oracle/random_streams.py ziggurat

writes src/num/random_ziggurat.h and checks it against the tables in numpy's own library.
"""

import hashlib
import json
import math
import os
import pathlib
import struct
import subprocess
import sys

import numpy as np

TOP = pathlib.Path(__file__).resolve().parents[2]
N = 1000000
SEED = 17


def ziggurat():
    """Equal areas v under exp(-x^2/2), from the right edge R inwards; layer 0 is the base with the tail."""
    r, v = 3.6541528853610088, 0.0049286732339746519
    x, f = [0.0] * 256, [0.0] * 256
    x[255], f[255] = r, math.exp(-0.5 * r * r)
    for i in range(254, 0, -1):
        x[i] = math.sqrt(-2 * math.log(v / x[i + 1] + f[i + 1]))
        f[i] = math.exp(-0.5 * x[i] * x[i])
        if i == 38:  # the one entry in which numpy's table is a unit in the last place above
            f[i] = math.nextafter(f[i], 2)
    base = r * f[255] / v  # the part of layer 0 that is no tail
    ratio = [base, 0.0] + [x[i] / x[i + 1] for i in range(1, 255)]
    ki = np.array([round(q * 2**52) for q in ratio], np.uint64)
    ki_f32 = np.array([round(q * 2**23) for q in ratio], np.uint32)
    wi = np.array([v / f[255] / 2**52] + [x[i] / 2**52 for i in range(1, 256)])
    fi = np.array([1.0] + f[1:])
    library = (pathlib.Path(np.__file__).parent / "random/lib/libnpyrandom.a").read_bytes()
    for table in ki, wi, fi, ki_f32, (wi * 2**29).astype(np.float32), fi.astype(np.float32):
        assert table.tobytes() in library
    out = [
        "// SPDX-License-Identifier: Apache-2.0",
        "// Made by tests/oracle/random_streams.py: 256 layers of equal area under exp(-x^2/2). For layer i that ends at x_i:",
        "// wi = x_i / 2^52, fi = exp(-x_i^2/2), ki = 2^52 x_(i-1) / x_i, below which a draw needs no second look. Layer 0 is",
        "// the base with the tail beyond R. A test derives them anew.",
        "#ifndef NUM_RANDOM_ZIGGURAT_H",
        "#define NUM_RANDOM_ZIGGURAT_H",
        "",
        "#include <stdint.h>",
        "",
        "#define ZIGGURAT_R         3.6541528853610088",
        "#define ZIGGURAT_INVERSE_R 0.27366123732975828",
        "",
        "// clang-format off",
    ]
    for name, kind, values in (
        ("ki", "uint64_t", [f"0x{v:013x}" for v in ki]),
        ("wi", "double", [float(v).hex() for v in wi]),
        ("fi", "double", [float(v).hex() for v in fi]),
        ("ki_f32", "uint32_t", [f"0x{v:06x}" for v in ki_f32]),
    ):
        out.append(f"static const {kind} ziggurat_{name}[256] = {{")
        per_line = {"ki": 6, "ki_f32": 10}.get(name, 4)
        for i in range(0, 256, per_line):
            out.append("    " + ", ".join(values[i : i + per_line]) + ",")
        out.append("};")
    out += ["// clang-format on", "", "#endif", ""]
    (TOP / "src/num/random_ziggurat.h").write_text("\n".join(out))


def numpy_streams():
    """(kind as random-draws names it, the draws)."""
    r = lambda: np.random.default_rng(SEED)
    yield "raw", r().bit_generator.random_raw(N)
    yield "random", r().random(N)
    yield "random_f32", r().random(N, dtype=np.float32)
    yield "uniform:-3:2.7", r().uniform(-3, 2.7, N)
    yield "standard_normal", r().standard_normal(N)
    yield "standard_normal_f32", r().standard_normal(N, dtype=np.float32)
    yield "normal:0.5:3", r().normal(0.5, 3, N)
    for name, low, span in (
        ("u8", 0, 255), ("u8", 3, 99), ("s8", -128, 255), ("s8", -127, 254), ("u16", 0, 65535), ("s16", -300, 1000),
        ("s16", -32768, 49151), ("u32", 0, 2**32 - 1), ("u32", 7, 3 * 2**30), ("s32", -5, 10), ("s32", -(2**31), 2**32 - 2),
        ("s64", -100, 0), ("s64", 0, 99), ("s64", 10, 2**32 - 1), ("s64", -(2**62), 3 * 2**61), ("s64", -(2**63), 2**64 - 1),
        ("u64", 2**63, 2**62 + 5), ("u64", 0, 2**64 - 1),
    ):
        dtype = np.dtype({"u": "uint", "s": "int"}[name[0]] + name[1:])
        yield f"integers:{name}:{low}:{span}", r().integers(low, low + span, N, dtype=dtype, endpoint=True)
    # What is left of a word that was halved stays with the generator through other draws; what is left of one that was
    # cut in bytes does not.
    g = r()
    parts = []
    for _ in range(1000):
        parts += [g.integers(0, 10, 3, dtype=np.uint32), g.standard_normal(2), g.integers(0, 100, 5, dtype=np.uint8),
                  g.random(1, dtype=np.float32)]
    yield "mixed", np.frombuffer(b"".join(p.tobytes() for p in parts), np.uint8)


def jax_streams():
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax

    VERSIONS["jax"] = jax.__version__
    for style in "partitionable", "original":
        jax.config.update("jax_threefry_partitionable", style == "partitionable")
        key = jax.random.key(SEED)
        odd = N - 3  # does not fill its last words
        for width in 8, 16, 32:
            yield f"{style}:bits{width}", np.asarray(jax.random.bits(key, (odd,), f"uint{width}"))
        with jax.enable_x64(True):
            yield f"{style}:bits64", np.asarray(jax.random.bits(key, (odd,), "uint64"))
        yield f"{style}:uniform:0:1", np.asarray(jax.random.uniform(key, (N,)))
        yield f"{style}:uniform:-3:2.7", np.asarray(jax.random.uniform(key, (N,), minval=-3, maxval=2.7))
        yield f"{style}:split", np.asarray(jax.random.key_data(jax.random.split(key, 1001)))
        yield f"{style}:fold_in", np.asarray(
            jax.random.key_data(jax.vmap(lambda d: jax.random.fold_in(key, d))(np.arange(1000, dtype=np.uint32)))
        )
        yield f"{style}:normal", np.asarray(jax.random.normal(key, (N,)))
    jax.config.update("jax_threefry_partitionable", True)


VERSIONS = {"numpy": np.__version__}


def draws(build, library, kind, like):
    count = 1001 if kind.endswith("split") else 1000 if kind.endswith(("fold_in", "mixed")) else like.size
    out = subprocess.run([build / "random-draws", library, str(SEED), kind, str(count)], check=True, stdout=subprocess.PIPE)
    return count, np.frombuffer(out.stdout, like.dtype).reshape(like.shape)


def differences(theirs, ours):
    """Every place where they differ as a varint of its distance from the last and a byte of the step in units."""
    step = theirs.view(np.int32).astype(np.int64) - ours.view(np.int32)
    out, last = bytearray(), 0
    for i in np.flatnonzero(step):
        gap = int(i) - last
        last = int(i)
        while gap >= 128:
            out.append(gap & 127 | 128)
            gap >>= 7
        out.append(gap)
        out += struct.pack("b", step[i])
    return step, bytes(out)


def main(build):
    fixture = {"versions": VERSIONS, "seed": SEED, "streams": []}
    for library, streams in ("numpy", numpy_streams()), ("jax", jax_streams()):
        for kind, theirs in streams:
            theirs = np.ascontiguousarray(theirs)
            count, ours = draws(build, library, kind, theirs)
            row = {
                "library": library,
                "kind": kind,
                "count": count,
                "sha256": hashlib.sha256(theirs.tobytes()).hexdigest(),
                "first": theirs.tobytes()[:16].hex(),
            }
            if kind.endswith(":normal"):
                step, row["differences"] = differences(theirs, ours)
                row["differences"] = row["differences"].hex()
                sizes = np.bincount(np.abs(step))
                row["equal"] = int(sizes[0])
                row["farthest"] = len(sizes) - 1
                said = f"{sizes[0] / theirs.size:.4%} equal, farthest {len(sizes) - 1} units in the last place ({sizes.tolist()})"
            else:
                same = np.count_nonzero(theirs.view(np.uint8) != ours.view(np.uint8)) == 0
                said = "equal" if same else "DIFFERENT"
            fixture["streams"].append(row)
            print(f"{library:6} {kind:40} {count:8} {said}")
    # Seeds: the first raw words after integers and lists of them.
    fixture["seeds"] = [
        {"words": [int(w) for w in words], "raw": [f"{v:016x}" for v in np.random.default_rng(entropy).bit_generator.random_raw(4)]}
        for entropy, words in (
            (0, [0]), (17, [17]), (2**40 + 5, [5, 256]), (2**64 - 1, [2**32 - 1] * 2), ([1, 2, 3], [1, 2, 3]),
            (2**200 + 3, [3, 0, 0, 0, 0, 0, 256]), (list(range(9)), list(range(9))),
        )
    ]
    path = TOP / "tests/fixtures/num/random.json"
    path.write_text(json.dumps(fixture, separators=(",", ":")).replace('{"library"', '\n{"library"') + "\n")
    print("wrote", path.relative_to(TOP), path.stat().st_size, "bytes")


if __name__ == "__main__":
    if sys.argv[1:] == ["ziggurat"]:
        ziggurat()
    else:
        main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else TOP / "build").resolve())
