# SPDX-License-Identifier: Apache-2.0
"""Interleaved pairs: what every comparison in this folder does with its two sides."""
import math


def interval(values):
    """The narrowest symmetric pair of order statistics that covers the median with at least 95 %."""
    values, n = sorted(values), len(values)
    low = 0
    while low + 1 < n // 2 and 2 * sum(math.comb(n, k) for k in range(low + 2)) / 2**n <= 0.05:
        low += 1
    return values[low], values[n - 1 - low]


def interleave(ours, theirs, pairs):
    """Samples of both sides, taken in turns that change who is first."""
    a, b = [], []
    for i in range(pairs):
        for run, samples in ((ours, a), (theirs, b))[:: 1 if i % 2 else -1]:
            samples.append(run())
    return a, b


def peak_bytes(pid):
    """Peak resident memory of a process that runs; unlike ru_maxrss it starts anew at exec."""
    with open("/proc/%s/status" % pid, encoding="ascii") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM:"))
