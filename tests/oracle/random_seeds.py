# SPDX-License-Identifier: Apache-2.0
"""What torch, numpy and JAX make of seeds that need all of 64 bits.

    build-oracle/venv/bin/python tests/oracle/random_seeds.py

writes tests/fixtures/num/random_seeds.json: for each library and seed its first draws as bytes in hexadecimal, or the
name of the error that it raises. JAX once as it comes and once with jax_enable_x64.
"""

import json
import os
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
PATH = TOP / "tests/fixtures/num/random_seeds.json"
SEEDS = [2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -1, -(2**63)]


def draw(library, seed):
    import numpy as np

    if library == "numpy":
        return np.random.default_rng(seed).integers(0, 2**64, 4, dtype=np.uint64)
    if library.startswith("jax"):
        import jax

        jax.config.update("jax_enable_x64", library == "jax-x64")
        return np.asarray(jax.random.key_data(jax.random.key(seed)))
    import torch

    return torch.randn(16, generator=torch.Generator("cpu").manual_seed(seed)).numpy()


def main():
    import jax
    import numpy as np
    import torch

    rows = []
    for library in ("torch", "numpy", "jax", "jax-x64"):
        for seed in SEEDS:
            try:
                rows.append({"library": library, "seed": str(seed), "draws": draw(library, seed).tobytes().hex()})
            except (OverflowError, RuntimeError, TypeError, ValueError) as e:
                rows.append({"library": library, "seed": str(seed), "refuses": type(e).__name__})
            print(library, seed, rows[-1].get("refuses", rows[-1].get("draws", "")[:16]))
    versions = {"torch": torch.__version__, "numpy": np.__version__, "jax": jax.__version__}
    PATH.write_text(json.dumps({"versions": versions, "rows": rows}, separators=(",", ":")).replace('{"library"', '\n{"library"') + "\n")
    print("wrote", PATH.relative_to(TOP))


if __name__ == "__main__":
    if os.environ.get("ATEN_CPU_CAPABILITY") != "default":  # torch's plain code; it chooses as it starts
        sys.exit(subprocess.run([sys.executable, __file__], env=os.environ | {"ATEN_CPU_CAPABILITY": "default"}).returncode)
    main()
