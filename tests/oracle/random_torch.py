# SPDX-License-Identifier: Apache-2.0
"""torch's generator on the CPU against num/random.h and models/noise.h.

    make build/random-draws && build-oracle/venv/bin/python tests/oracle/random_torch.py [BUILD [PYTHON_OF_TORCH_1]]

makes a million draws of every kind with torch, by its plain code, its AVX2 and its AVX-512 code, has BUILD/random-draws
make the same, prints how they compare, and writes tests/fixtures/num/random_torch.json: a hash per stream. Given a Python
with torch 1.13 (Debian 12: python3-torch), it makes bfloat16 as that did, too; else these rows stay as they are.
"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
PATH = TOP / "tests/fixtures/num/random_torch.json"
N = 1000000
SEED = 17
ROUNDS = 1000


def draw(kind):
    """In a process of its own, since torch chooses its code as it starts: the draws as bytes, to stdout."""
    import numpy as np
    import torch

    name, _, rest = kind.partition(":")
    torch.manual_seed(SEED)
    bf16 = torch.bfloat16
    if name == "words":  # torch gives out no plain words; numpy's old generator is the same one
        out = np.random.RandomState(SEED).randint(0, 2**32, N, dtype=np.uint32)
    elif name == "words64":
        out = torch.empty(N, dtype=torch.int64).random_(-(2**63), None).numpy()
    elif name == "uniform_f32":
        out = torch.rand(N).numpy()
    elif name == "uniform":
        out = torch.rand(N, dtype=torch.float64).numpy()
    elif rest == "mixed":
        parts = []
        for _ in range(ROUNDS):
            parts += [torch.randn(3), torch.randn(20), torch.rand(2), torch.randn(5, dtype=bf16).float(),
                      torch.randn(17, dtype=bf16).float(), torch.rand(1, dtype=torch.float64)]
        out = np.frombuffer(b"".join(p.numpy().tobytes() for p in parts), np.uint8)
    elif rest.startswith("noise"):  # a packed latent, as tokens
        dtype = {"noise": torch.float32, "noise_bf16": bf16}[rest]
        out = torch.randn((2, 128, 6, 10), dtype=dtype).float().flatten(2).transpose(1, 2).contiguous().numpy()
    else:
        count = N if rest.endswith(("normal", "normal_bf16")) else int(rest.rpartition(":")[2])
        out = torch.randn(count, dtype=bf16 if "bf16" in rest else torch.float32).float().numpy()
    sys.stdout.buffer.write(out.tobytes())


def asked(python, kind, capability):
    return subprocess.run([python, __file__, "draw", kind], check=True, stdout=subprocess.PIPE,
                          env=os.environ | {"ATEN_CPU_CAPABILITY": capability}).stdout


def version(python):
    return subprocess.run([python, "-c", "import torch; print(torch.__version__)"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


KINDS = ["words", "words64", "uniform_f32", "uniform"]
KINDS += [f"{code}:{rest}" for code in ("plain", "vector")
          for rest in ("normal", "normal_bf16", "normal:15", "normal:16", "normal:1000003", "normal_bf16:1000003", "mixed", "noise", "noise_bf16")]
OLD = ["torch1:normal_bf16", "torch1:normal_bf16:1000003", "torch1:normal_bf16:7", "torch1:noise_bf16"]


def count_of(kind):
    last = kind.rpartition(":")[2]
    return int(last) if last.isdigit() else ROUNDS if last == "mixed" else 2 * 128 * 6 * 10 if "noise" in last else N


def main(build, old):
    import numpy as np

    kept = json.loads(PATH.read_text()) if PATH.exists() else {"versions": {}, "streams": []}
    versions = {"torch": version(sys.executable), "numpy": np.__version__, "torch1": version(old) if old else kept["versions"].get("torch1")}
    rows, of_code = [], {}
    for kind in KINDS + (OLD if old else []):
        python = old if kind in OLD else sys.executable
        capabilities = ["avx2", "avx512"] if kind.startswith("vector") else ["default"]
        theirs = [asked(python, kind, c) for c in capabilities]
        assert all(t == theirs[0] for t in theirs), kind
        ours = subprocess.run([build / "random-draws", "torch", str(SEED), kind, str(count_of(kind))], check=True, stdout=subprocess.PIPE).stdout
        of_code[kind] = ours
        rows.append({"library": "torch", "kind": kind, "count": count_of(kind), "sha256": hashlib.sha256(theirs[0]).hexdigest(), "first": theirs[0][:16].hex()})
        print(f"{'torch 1' if kind in OLD else 'torch':8} {'+'.join(capabilities):12} {kind:28} {count_of(kind):8} {'equal' if theirs[0] == ours else 'DIFFERENT'}")
    if not old:
        rows += [r for r in kept["streams"] if r["kind"] in OLD]
    a, b = (np.frombuffer(of_code[f"{c}:normal"], np.float32) for c in ("plain", "vector"))
    step = np.abs(a.view(np.int32).astype(np.int64) - b.view(np.int32))
    pairs = [v.astype(np.float64).reshape(-1, 2, 8) for v in (a, b)]
    radius = np.sqrt((pairs[0] ** 2).sum(1, keepdims=True)).astype(np.float32)
    far = np.abs(pairs[0] - pairs[1]) / np.spacing(radius)
    print("plain and vector code: %.2f %% equal, %.2f %% within 3 units in the last place of the value; apart by at most "
          "%.1f units of the radius, %.2g" % ((step == 0).mean() * 100, (step <= 3).mean() * 100, far.max(), np.abs(a - b).max()))
    fixture = {"versions": versions, "seed": SEED, "streams": rows}
    PATH.write_text(json.dumps(fixture, separators=(",", ":")).replace('{"library"', '\n{"library"') + "\n")
    print("wrote", PATH.relative_to(TOP), PATH.stat().st_size, "bytes")


if __name__ == "__main__":
    if sys.argv[1:2] == ["draw"]:
        draw(sys.argv[2])
    else:
        main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else TOP / "build").resolve(), sys.argv[2] if len(sys.argv) > 2 else None)
