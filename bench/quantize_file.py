# SPDX-License-Identifier: Apache-2.0
"""Interleaved pairs of `assay quantize` and `cp`, synced alike: quantize_file.py ASSAY MODEL FOLDER"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

from pairs import interleave, interval

PAIRS = 11
POLICIES = ["w8a16", "w4a16", "bf16", "fp8", "mxfp4"]


def timed(command, made, sync):
    if os.path.exists(made):
        os.unlink(made)
    begin = time.perf_counter_ns()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    if sync:
        fd = os.open(made, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
    return (time.perf_counter_ns() - begin) / 1e6


def compare(assay, model, folder, where):
    with tempfile.TemporaryDirectory(dir=folder) as d:
        out, copy = os.path.join(d, "out"), os.path.join(d, "copy")
        for policy in POLICIES:

            def ours():
                return timed([assay, "quantize", model, out, "--policy", policy, "--quiet"], out, False)  # it syncs itself

            def theirs():
                return timed(["cp", model, copy], copy, True)

            ours(), theirs()
            a, b = interleave(ours, theirs, PAIRS)
            ratios = [x / y for x, y in zip(a, b)]
            print("%-10s %-6s quantise %6.0f ms, copy and fsync %6.0f ms; %.2f times as long [%.2f, %.2f], %d pairs"
                  % (where, policy, statistics.median(a), statistics.median(b), statistics.median(ratios),
                     *interval(ratios), PAIRS))  # fmt: skip


def main():
    assay, model, folder = sys.argv[1:]
    print("%.1f MB, %d CPUs, load %.2f" % (os.path.getsize(model) / 1e6, len(os.sched_getaffinity(0)), os.getloadavg()[0]))
    compare(assay, model, folder, "disk")
    if os.path.isdir("/dev/shm"):
        compare(assay, model, "/dev/shm", "in memory")


main()
