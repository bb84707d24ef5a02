# SPDX-License-Identifier: Apache-2.0
"""Interleaved pairs of our dispatch and JAX's: dispatch.py PROGRAM PLUGIN"""
import os
import statistics
import subprocess
import sys
import time

os.environ.update(JAX_PLATFORMS="cpu")
import jax
import jax.numpy as jnp

from pairs import interleave, interval, peak_bytes

PAIRS, RUNS = 101, 1000  # short ones, so that most are not interrupted by other programs


def main():
    program, plugin = sys.argv[1:]
    a, b = jnp.ones((8, 8), jnp.float32), jnp.ones((8, 8), jnp.float32)
    add = jax.jit(lambda x, y: x + y)
    ours = subprocess.Popen([program, plugin, str(RUNS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    medians = []

    def run_ours():
        ours.stdin.write("\n")
        ours.stdin.flush()
        all_ns, median_ns = ours.stdout.readline().split()
        medians.append(float(median_ns))
        return int(all_ns) / RUNS

    def run_jax():
        begin = time.perf_counter_ns()
        for _ in range(RUNS):
            add(a, b).block_until_ready()
        return (time.perf_counter_ns() - begin) / RUNS

    for run in (run_ours, run_jax):  # warm
        run()
    medians.clear()
    x, y = interleave(run_ours, run_jax, PAIRS)
    peak = peak_bytes(ours.pid)
    ours.stdin.close()
    ratios = [theirs / mine for mine, theirs in zip(x, y)]
    print("8x8 f32 addition on the CPU: call, wait, free the output; %d batches of %d each, in turns; JAX %s"
          % (PAIRS, RUNS, jax.__version__))  # fmt: skip
    for name, values, bytes_ in (("ours", x, peak), ("JAX", y, peak_bytes("self"))):
        print("%-5s %6.2f us per dispatch [%.2f, %.2f]   peak memory %4.0f MB"
              % (name, statistics.median(values) / 1e3, *(v / 1e3 for v in interval(values)), bytes_ / 1e6))  # fmt: skip
    print("ours is %.2f times as fast [%.2f, %.2f]; call to completion alone: median %.2f us"
          % (statistics.median(ratios), *interval(ratios), statistics.median(medians) / 1e3))  # fmt: skip
    return ours.wait()


sys.exit(main())
