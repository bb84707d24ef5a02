# SPDX-License-Identifier: Apache-2.0
"""Sentences per second, ours and theirs, in rounds: minilm.py PROGRAM MODEL TEXTS CACHE. A round gives every contestant a
turn of a few warmed runs, in an order that turns round; what counts is the ratio of the medians of the same round."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np

from pairs import interval

ROUNDS, RUNS, BATCH, SEQ = 9, 3, 32, 128
POLICIES = ("f32", "bf16", "w8a16", "w8a8")
PEERS = ("torch-f32", "torch-bf16", "torch-int8", "onnx-f32", "onnx-int8")


class Peer:
    def __init__(self, kind, arguments):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "minilm_peer.py")
        self.process = subprocess.Popen([sys.executable, script, kind, *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # fmt: skip
        self.way = self.process.stdout.readline().strip()
        if not self.way:
            raise SystemExit("bench/minilm: %s did not start" % kind)

    def turn(self):
        self.process.stdin.write("%d\n" % RUNS)
        self.process.stdin.flush()
        *times, self.peak = map(float, self.process.stdout.readline().split())
        return statistics.median(times)


class Ours:
    """A command per turn: it loads, compiles and warms up (5 runs) before the runs that count."""

    def __init__(self, program, model, texts, policy):
        self.command = [program, "--json", "--quiet", "bench", model, "--text", texts, "--policy", policy, "--batch", str(BATCH),
                        "--seq", str(SEQ), "--threads", "2", "--warmup", "5", "--samples", str(RUNS)]  # fmt: skip
        self.way = "plugin alone"
        self.peak = 0

    def turn(self):
        with tempfile.TemporaryDirectory() as d:
            out = subprocess.run([*self.command, "--run-dir", os.path.join(d, "record")], stdout=subprocess.PIPE, check=True)
        row = json.loads(out.stdout)["result"]["subjects"][0]
        self.peak = max(self.peak, row["peak_rss_bytes"]["value"])
        return row["p50_ms"]["value"] / 1e3


def embeddings(program, model, texts, policy):
    out = subprocess.run([program, "--json", "embed", model, "--text", texts, "--policy", policy, "--seq", str(SEQ)],
                         stdout=subprocess.PIPE, check=True)  # fmt: skip
    return np.array([t["embedding"] for t in json.loads(out.stdout)["result"]["texts"][:BATCH]], np.float64)


def relative(x, reference):
    return np.linalg.norm(x - reference) / np.linalg.norm(reference)


def ratio_line(name, ours, theirs):
    ratios = [b / a for a, b in zip(ours, theirs)]
    low, high = interval(ratios)
    print("%-44s %.2f  [%.2f, %.2f]" % (name, statistics.median(ratios), low, high))


def main():
    program, model, texts, cache = sys.argv[1:]
    contestants = {"assay " + p: Ours(program, model, texts, p) for p in POLICIES}
    contestants.update({k: Peer(k, (model, texts, cache)) for k in PEERS})
    samples = {name: [] for name in contestants}
    order = list(contestants)
    for r in range(ROUNDS):
        for name in (order[r % len(order):] + order[: r % len(order)])[:: 1 if r % 2 else -1]:
            samples[name].append(contestants[name].turn())
    reference = np.load(os.path.join(cache, "minilm-torch-f32.npy")).astype(np.float64)
    print("all-MiniLM-L6-v2, %d texts x %d tokens, 2 threads, %d rounds of %d warmed runs each; load %s at the end"
          % (BATCH, SEQ, ROUNDS, RUNS, open("/proc/loadavg", encoding="ascii").read().split()[0]))  # fmt: skip
    print("tokenised before on both sides; model, pooling and normalisation are timed\n")
    print("%-12s %11s %17s %9s %10s  %s" % ("", "sentences/s", "min..max", "peak MB", "rel L2", "as"))
    rate = {}
    for name, c in contestants.items():
        per_s = sorted(BATCH / t for t in samples[name])
        rate[name] = statistics.median(per_s)
        x = embeddings(program, model, texts, name[6:]) if name.startswith("assay") else np.load(
            os.path.join(cache, "minilm-%s.npy" % name)).astype(np.float64)  # fmt: skip
        print("%-12s %11.1f %8.1f..%-8.1f %8.0f %10.1e  %s"
              % (name, rate[name], per_s[0], per_s[-1], c.peak / 1e6, relative(x, reference), c.way))  # fmt: skip
    print("\nratio of times, median of the rounds and its 95 % interval; above 1: assay is faster")
    ratio_line("f32 against torch f32", samples["assay f32"], samples["torch-f32"])
    ratio_line("f32 against onnxruntime f32", samples["assay f32"], samples["onnx-f32"])
    ratio_line("bf16 against torch bf16", samples["assay bf16"], samples["torch-bf16"])
    best = max((n for n in rate if n.startswith("assay")), key=rate.get)
    theirs = max((n for n in rate if not n.startswith("assay")), key=rate.get)
    ratio_line("our best (%s) against their best (%s)" % (best[6:], theirs), samples[best], samples[theirs])


main()
