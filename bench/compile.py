# SPDX-License-Identifier: Apache-2.0
"""Times `assay compile` as a person sees it: medians of seven, the second time with the page cache warm."""
import json
import resource
import statistics
import subprocess
import sys
import time

assay = sys.argv[1]


def run(*arguments):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    out = subprocess.run([assay, "compile", *arguments], check=True, capture_output=True).stdout
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, out


def row(name, samples):
    low, middle, high = min(samples), statistics.median(samples), max(samples)
    print(f"{name:44} {middle:8.3f} s   from {low:.3f} to {high:.3f}, {len(samples)} runs")


run("gemm:128x128x128:bf16", "--target", "v6e")  # warms the page cache
for name, options in (("with evidence", ()), ("--no-evidence", ("--no-evidence",))):
    samples = [run("gemm:128x128x128:bf16", "--target", "v6e", *options) for _ in range(7)]
    row(f"128^3 from start to result, {name}", [s[0] for s in samples])
    row("  of processor time", [s[1] for s in samples])

costs, rates = [], []
for _ in range(3):
    out = run("gemm:4096x4096x4096:bf16", "--target", "v6e", "--dump-cost", "--json")[2]
    times = {k: v["value"] for k, v in json.loads(out)["result"]["cases"][0]["time"].items()}
    costs.append(times["compile_cpu"] / times["without_dump_cpu"] - 1)
    rates.append(times["dump_bytes"] / times["read_dump"] / 1e6)
print(f"4096^3: the dump costs {100 * statistics.median(costs):.0f} % of processor time, "
      f"and is read at {statistics.median(rates):.0f} MB/s")
