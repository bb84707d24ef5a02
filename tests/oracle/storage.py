# SPDX-License-Identifier: Apache-2.0
"""Ways of storing a matrix, in numpy: what `assay precision --tensor` must come to.

    build-oracle/venv/bin/python tests/oracle/storage.py
        writes tests/fixtures/lab/storage.safetensors and tests/fixtures/lab/storage.json

storage.safetensors holds the matrix "w" [20,72], in f32 and in bf16, with a row of zeros and an outlier, and tensors that
cannot be tried. storage.json has, for each policy, the bytes of codes and scales (rows are packed one by one), how many values
became zero, the errors of what comes back (largest, mean, relative L2, the worst row), and those of x w^T in f64 for
x = default_rng(5).standard_normal([16,72]) as f32; and with x stored, too, where the policy says how.
"""
import json
import os

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(TOP, "tests/fixtures/lab")
ROWS, COLUMNS, BATCH, SEED = 20, 72, 16, 5


def cast(dtype):
    def store(x):
        return x.astype(dtype).astype(np.float32), x.size * ml_dtypes.finfo(dtype).bits // 8, 0

    return store


def boxes(x, width):
    for row in range(x.shape[0]):
        for start in range(0, x.shape[1], width):
            yield row, slice(start, min(start + width, x.shape[1]))


def codes(qmax, width, bits):
    """One f32 scale, amax / qmax, for each run of `width` columns."""

    def store(x):
        out, scales = np.empty_like(x), 0
        for row, run in boxes(x, width):
            amax = np.abs(x[row, run]).max()
            scale = np.float32(1) if amax == 0 else amax / np.float32(qmax)
            out[row, run] = np.clip(np.rint(x[row, run] / scale), -qmax, qmax).astype(np.float32) * scale
            scales += 4
        return out, x.shape[0] * ((x.shape[1] * bits + 7) // 8), scales

    return store


def per_tensor(qmax, to_code):
    def store(x):
        scale = np.abs(x).max() / np.float32(qmax)
        return to_code(x / scale).astype(np.float32) * scale, x.size, 4

    return store


def microscaling(dtype, emax, largest, bits):
    """Blocks of 32, the scale 2^(floor(log2 amax) - emax), elements rounded, then clamped."""

    def store(x):
        out, scales = np.empty_like(x), 0
        for row, run in boxes(x, 32):
            amax = np.abs(x[row, run]).max()
            k = -127 if amax == 0 else int(np.floor(np.log2(amax.astype(np.float64)))) - emax
            y = np.ldexp(x[row, run].astype(np.float64), -k)
            y = np.clip(y, -largest, largest).astype(np.float32).astype(dtype).astype(np.float64)
            out[row, run] = np.ldexp(y, k).astype(np.float32)
            scales += 1
        return out, x.shape[0] * ((x.shape[1] * bits + 7) // 8), scales

    return store


int8_codes = lambda x: np.clip(np.rint(x), -127, 127)
fp8 = per_tensor(448, lambda x: np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn))
channel = codes(127, COLUMNS, 8)
POLICIES = {
    "bf16": (cast(ml_dtypes.bfloat16), cast(ml_dtypes.bfloat16)),
    "f16/cast": (cast(np.float16), None),
    "f8e4m3fn/cast": (cast(ml_dtypes.float8_e4m3fn), None),
    "f8e5m2fnuz/cast": (cast(ml_dtypes.float8_e5m2fnuz), None),
    "f6e2m3fn": (cast(ml_dtypes.float6_e2m3fn), None),
    "int8/channel": (channel, None),
    "w=int8/tensor": (per_tensor(127, int8_codes), None),
    "int4/group:16": (codes(7, 16, 4), None),
    "w8a8": (channel, channel),
    "w=int4/group:16,a=int8/row": (codes(7, 16, 4), channel),
    "fp8": (fp8, fp8),
    "mxfp8": (microscaling(ml_dtypes.float8_e4m3fn, 8, 448, 8), None),
    "mxfp4": (microscaling(ml_dtypes.float4_e2m1fn, 2, 6, 4), None),
}  # fmt: skip


def errors(got, want):
    d = got.astype(np.float64) - want
    return [float(np.abs(d).max()), float(np.abs(d).mean()), float(np.linalg.norm(d) / np.linalg.norm(want))]


def matrix():
    rng = np.random.default_rng(3)
    w = (rng.standard_normal((ROWS, COLUMNS)) * np.exp(rng.standard_normal((ROWS, 1)))).astype(np.float32)
    w[4] = 0
    w[9, 7] = 40
    w[2, :5] = 1e-9
    return w


def main():
    w = matrix()
    exact = w.astype(np.float64)
    x = np.random.default_rng(SEED).standard_normal((BATCH, COLUMNS)).astype(np.float32)
    y = x.astype(np.float64) @ exact.T
    cases = {}
    for name, (store, store_x) in POLICIES.items():
        back, code_bytes, scale_bytes = store(w)
        wide = back.astype(np.float64)
        rows = np.array([np.linalg.norm(wide[i] - exact[i]) / np.linalg.norm(exact[i]) if exact[i].any() else 0 for i in range(ROWS)])
        case = {
            "code_bytes": code_bytes, "scale_bytes": scale_bytes, "to_zero": int(((w != 0) & (back == 0)).sum()),
            "tensor": errors(back, exact), "worst_row": int(rows.argmax()), "worst_row_rel_l2": float(rows.max()),
            "product": errors(x.astype(np.float64) @ wide.T, y),
            "bound": float((np.abs(x.astype(np.float64)) @ np.abs(wide - exact).T).max()),
        }  # fmt: skip
        if store_x:
            case["both"] = errors(store_x(x)[0].astype(np.float64) @ wide.T, y)
        cases[name] = case
    document = {
        "versions": {"numpy": np.__version__, "ml_dtypes": ml_dtypes.__version__},
        "batch": BATCH, "seed": SEED, "cases": cases,
    }  # fmt: skip
    with open(os.path.join(OUT, "storage.json"), "w") as f:
        json.dump(document, f, indent=1)
        f.write("\n")
    broken = w[:2].copy()
    broken[0, 3], broken[1, 5] = np.nan, np.inf
    save_file(
        {"w": w, "w16": w.astype(ml_dtypes.bfloat16), "broken": broken, "zeros": np.zeros((3, 4), np.float32),
         "empty": np.zeros((0, 4), np.float32), "truth": np.array([True, False]), "a:b": w[:3]},
        os.path.join(OUT, "storage.safetensors"),
    )  # fmt: skip


main()
