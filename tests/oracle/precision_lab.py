# SPDX-License-Identifier: Apache-2.0
"""The suite `lab` of `assay precision`, computed independently.

    build-oracle/venv/bin/python tests/oracle/precision_lab.py

writes tests/fixtures/lab/precision_lab.json: errors, hashes and stored bytes of the six products, by numpy in f64 where
only the operands round, and by JAX on the CPU as such a run is usually made; a changed seed and shapes too.

    build-oracle/venv/bin/python tests/oracle/precision_lab.py trace RUN_DIR

reads the profile of a run that was made with --trace through jax.profiler, and says what is in it.
"""

import hashlib
import json
import os
import pathlib
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

TOP = pathlib.Path(__file__).resolve().parents[2]


def sha256(*arrays):
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()


def inputs(seed, m, k, n):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(m, k)).astype(np.float32)
    w = (rng.normal(size=(k, n)) / np.sqrt(k)).astype(np.float32)
    outlier = x.copy()
    outlier[:, 0] *= np.float32(30)
    return {"balanced": x, "outlier": outlier}, w


def quantise(v, axis):
    """Symmetric, a scale along the other axis, in f32."""
    scale = np.max(np.abs(v), axis=axis, keepdims=True) / np.float32(127)
    scale = np.where(scale == 0, np.float32(1), scale).astype(np.float32)
    return np.clip(np.rint(v / scale), -127, 127).astype(np.int8), scale


def errors(y, reference):
    d = y.astype(np.float64) - reference
    return {"rel_l2": float(np.linalg.norm(d) / np.linalg.norm(reference)), "max_abs": float(np.abs(d).max())}


def dot(x, w, out):
    return np.asarray(
        jax.jit(lambda a, b: jax.lax.dot(a, b, precision=jax.lax.Precision.HIGHEST, preferred_element_type=out))(x, w)
    )


def case(x, w, policy):
    reference = x.astype(np.float64) @ w.astype(np.float64)
    row = {"policy": policy}
    if policy == "fp32":
        xs, ws, scales = x, w, 0
        row["numpy"] = errors(x @ w, reference)
        row["jax"] = errors(dot(x, w, jnp.float32), reference)
    elif policy == "bf16":
        xs, ws, scales = x.astype(ml_dtypes.bfloat16), w.astype(ml_dtypes.bfloat16), 0
        row["numpy"] = errors(xs.astype(np.float64) @ ws.astype(np.float64), reference)
        row["jax"] = errors(dot(xs, ws, jnp.float32), reference)
    else:
        xs, sx = quantise(x, 1)
        ws, sw = quantise(w, 0)
        scales = sx.nbytes + sw.nbytes
        sums = xs.astype(np.int64) @ ws.astype(np.int64)
        row["numpy"] = errors(sums * (sx.astype(np.float64) * sw.astype(np.float64)), reference)
        of_jax = dot(xs, ws, jnp.int32)
        assert np.array_equal(of_jax, sums)
        row["jax"] = errors(of_jax.astype(np.float32) * sx * sw, reference)
        row["scales"] = sha256(sx, sw)
    row["operands"] = sha256(xs, ws)
    row["code_bytes"] = xs.nbytes + ws.nbytes
    row["scale_bytes"] = scales
    return row


def main():
    runs = []
    for seed, m, k, n in (17, 64, 128, 64), (17, 1, 127, 65), (5, 3, 200, 9):
        xs, w = inputs(seed, m, k, n)
        run = {"seed": seed, "shape": [m, k, n], "inputs": {c: sha256(x, w) for c, x in xs.items()}, "cases": []}
        for name, x in xs.items():
            for policy in "fp32", "bf16", "int8":
                row = {"input": name, **case(x, w, policy)}
                run["cases"].append(row)
                print(seed, m, k, n, name, policy, row["numpy"]["rel_l2"], row["jax"]["rel_l2"], row["code_bytes"], row["scale_bytes"])
        runs.append(run)
    versions = {"numpy": np.__version__, "ml_dtypes": ml_dtypes.__version__, "jax": jax.__version__}
    path = TOP / "tests/fixtures/lab/precision_lab.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"versions": versions, "runs": runs}, indent=1) + "\n")


def trace(run_dir):
    found = list(pathlib.Path(run_dir).glob("trace/plugins/profile/*/*.xplane.pb"))
    assert len(found) == 1, found
    steps, inner = [], []
    for plane in jax.profiler.ProfileData.from_file(str(found[0])).planes:
        print(plane.name)
        for line in plane.lines:
            print("   ", line.name)
            for e in line.events:
                print(f"        {e.start_ns:12.0f} {e.duration_ns:10.0f} ns  {e.name}  {dict(e.stats)}")
                if e.name == "precision_case":
                    steps.append(dict(e.stats)["step_num"])
                elif plane.name == "/host:CPU" and line.name.startswith("assay/"):
                    inner.append(e.name)
    assert steps == list(range(6)), steps
    assert inner == [f"{i}-{p}" for i in ("balanced", "outlier") for p in ("fp32", "bf16", "int8")], inner


if __name__ == "__main__":
    if sys.argv[1:2] == ["trace"]:
        trace(sys.argv[2])
    else:
        main()
