# SPDX-License-Identifier: Apache-2.0
"""Conversion and quantisation of 256 MB of f32, and back: convert.py PROGRAM. In each round everybody has a turn at
everything, in an order that turns round, and a copy is timed beside each; ratios are of the same round."""
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np

from pairs import interval, peak_bytes

ROUNDS, THREADS, MEGABYTES, COLUMNS = 9, 2, 256, 8192
KINDS = {"bf16": 2, "f16": 2, "f8e4m3fn": 1, "int8": 1, "int8-columns": 1, "int4": 0.5}  # bytes of a result
WHAT = {"int8": "int8, a scale per row", "int8-columns": "int8, a scale per column", "int4": "int4, groups of 32"}


class Contestant:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = self.process.stdout.readline().strip()
        if not self.version:
            raise SystemExit("bench/convert: %s did not start" % command[0])

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def seconds(self, line):
        return int(self.ask(line)) / 1e9


def span(values, form):
    low, high = interval(values)
    return (form + " [" + form + ", " + form + "]") % (statistics.median(values), low, high)


def main():
    program = sys.argv[1]
    peer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "convert_peer.py")
    n = MEGABYTES << 18
    with tempfile.NamedTemporaryFile(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as f:
        # Weights, as checkpoints have them: normal, rows of unequal size.
        rng = np.random.default_rng(7)
        for _ in range(n // COLUMNS):
            f.write((rng.standard_normal(COLUMNS, np.float32) * np.float32(0.02 * 2 ** rng.uniform(-2, 2))).tobytes())
        f.flush()
        sides = {
            "ours": Contestant([program, f.name, str(THREADS)]),
            "torch": Contestant([sys.executable, peer, "torch", f.name, str(THREADS)]),
            "numpy": Contestant([sys.executable, peer, "numpy", f.name, "1"]),
        }
    jobs = [(k, b) for k in KINDS for b in ("", " back")]
    times = {(s, *j): [] for s in sides for j in jobs}
    copies = {j: [] for j in jobs}
    equal = {}
    for kind, back in jobs:  # warm; and the answers must agree
        for name, side in sides.items():
            side.ask(kind + back)
            found = side.ask("hash " + kind + back)
            equal[name, kind, back] = found == (bits if name != "ours" else found)
            bits = found if name == "ours" else bits
    for r in range(ROUNDS):
        for kind in KINDS:
            order = list(sides)[r % 3:] + list(sides)[: r % 3]
            for name in order[:: 1 if r % 2 else -1]:
                for back in ("", " back"):  # the way back takes what the way there has left
                    times[name, kind, back].append(sides[name].seconds(kind + back))
                    if name == "ours":
                        copies[kind, back].append(min(sides[name].seconds("copy"), sides[name].seconds("memcpy")))
    print("%d MB of f32, %d x %d; GB/s are bytes read plus bytes written; every result was allocated and touched before;"
          % (MEGABYTES, n // COLUMNS, COLUMNS))  # fmt: skip
    print("median of %d rounds and its 95 %% interval; load %s at the end"
          % (ROUNDS, open("/proc/loadavg", encoding="ascii").read().split()[0]))  # fmt: skip
    for name, side in sides.items():
        print("%-6s %s; peak memory %.0f MB" % (name, side.version, peak_bytes(side.process.pid) / 1e6))
    rate = [8 * n / t / 1e9 for c in copies.values() for t in c]
    print("copy   %s GB/s, the faster of memcpy and of stores around the caches, %d threads" % (span(rate, "%.1f"), THREADS))
    print("\n%-32s %22s %24s %8s %22s %8s %22s" % ("", "ours GB/s", "share of the copy", "torch", "times torch", "numpy", "times numpy"))
    for kind, back in jobs:
        moved = n * (4 + KINDS[kind])
        row = {s: times[s, kind, back] for s in sides}
        share = [moved / t / (8 * n / c) for t, c in zip(row["ours"], copies[kind, back])]
        cells = ["%-32s %22s %24s" % (("back from " if back else "to ") + WHAT.get(kind, kind),
                                      span([moved / t / 1e9 for t in row["ours"]], "%.1f"), span(share, "%.2f"))]  # fmt: skip
        for s in ("torch", "numpy"):
            mark = "" if equal[s, kind, back] else " (other bits)"
            cells.append("%8.2f %22s%s" % (moved / statistics.median(row[s]) / 1e9,
                                           span([b / a for a, b in zip(row["ours"], row[s])], "%.1f"), mark))  # fmt: skip
        print(" ".join(cells))
    for side in sides.values():
        side.process.stdin.close()
    return max(side.process.wait() for side in sides.values())


sys.exit(main())
