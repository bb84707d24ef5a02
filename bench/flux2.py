# SPDX-License-Identifier: Apache-2.0
"""Parts of an image pipeline, ours and theirs, in rounds: flux2.py PROGRAM [CASE...]. A round gives every contestant a
turn of a few warmed runs, in an order that turns round; what counts is the ratio of the medians of the same round."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

from pairs import interval

ROUNDS, RUNS = int(os.environ.get("ROUNDS", "7")), 3
CASES = ("single:1536", "double:1536", "single:768", "decoder:512")
# What two threads of a Zen 4 at 3.6 GHz can do at most, from a loop over registers.
PEAK = {"bf16": 469e9, "w8a8": 939e9}


class Theirs:
    """diffusers in a process of its own, kept alive."""

    def __init__(self, case):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "flux2_peer.py")
        self.process = subprocess.Popen([sys.executable, script, case], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)  # fmt: skip
        self.way = self.process.stdout.readline().strip()
        if not self.way:
            raise SystemExit("bench/flux2: torch did not start")

    def turn(self):
        self.process.stdin.write("%d\n" % RUNS)
        self.process.stdin.flush()
        *times, self.peak = map(float, self.process.stdout.readline().split())
        return statistics.median(times)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Ours:
    """A command per turn: it draws weights, compiles and runs once before the runs that count."""

    def __init__(self, program, case, policy, kernels):
        self.command = [program, "--json", "--quiet", "bench", "builtin:flux2-" + case, "--policy", policy, "--kernels", kernels,
                        "--threads", "2", "--warmup", "1", "--samples", str(RUNS)]  # fmt: skip
        self.peak, self.flop, self.way = 0, 0, ""

    def turn(self):
        with tempfile.TemporaryDirectory() as d:
            out = subprocess.run([*self.command, "--run-dir", os.path.join(d, "record")], stdout=subprocess.PIPE, check=True)
        row = json.loads(out.stdout)["result"]["subjects"][0]
        self.peak = max(self.peak, row["peak_rss_bytes"]["value"])
        self.flop = row["flop"]["value"]
        self.way = ", ".join("%d %s" % (n, k) for k, n in row["kernels"]["calls"].items()) or row["kernels"]["absent"] or "XLA alone"
        return row["p50_ms"]["value"] / 1e3

    def close(self):
        pass


def run_case(program, case):
    contestants = {"assay bf16": Ours(program, case, "bf16", "on"), "assay bf16, no kernels": Ours(program, case, "bf16", "off"),
                   "torch bf16": Theirs(case)}  # fmt: skip
    if not case.startswith("decoder"):
        contestants["assay w8a8"] = Ours(program, case, "w8a8", "on")
    samples = {name: [] for name in contestants}
    order = list(contestants)
    for r in range(ROUNDS):
        for name in (order[r % len(order):] + order[: r % len(order)])[:: 1 if r % 2 else -1]:
            samples[name].append(contestants[name].turn())
    flop = contestants["assay bf16"].flop
    print("\n%s, %.1f GFLOP" % (case, flop / 1e9))
    print("%-24s %9s %19s %9s %6s %8s  %s" % ("", "s", "min..max", "GFLOP/s", "peak", "RSS MB", "as"))
    for name, c in contestants.items():
        times = sorted(samples[name])
        rate = flop / statistics.median(times)
        print("%-24s %9.3f %8.3f..%-9.3f %9.0f %5.0f%% %8.0f  %s"
              % (name, statistics.median(times), times[0], times[-1], rate / 1e9,
                 100 * rate / PEAK["w8a8" if "w8a8" in name else "bf16"], c.peak / 1e6, c.way))  # fmt: skip
        c.close()
    for name in contestants:
        if name != "torch bf16":
            ratios = [b / a for a, b in zip(samples[name], samples["torch bf16"])]
            print("%-40s %.2f  [%.2f, %.2f]" % (name + " against torch bf16", statistics.median(ratios), *interval(ratios)))
    sys.stdout.flush()


def main():
    program, *cases = sys.argv[1:]
    print("FLUX.2 klein 4B, random weights, 2 threads, %d rounds of %d warmed runs each; load %s at the start"
          % (ROUNDS, RUNS, open("/proc/loadavg", encoding="ascii").read().split()[0]))  # fmt: skip
    print("ratios of times: median of the rounds and its 95 % interval; above 1: assay is faster")
    for case in cases or CASES:
        run_case(program, case)


main()
