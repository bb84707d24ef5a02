# SPDX-License-Identifier: Apache-2.0
"""Parts of an image pipeline and all of it, ours and theirs, in rounds: flux2.py PROGRAM BENCH [CASE...]. A round gives
every contestant a turn, in an order that turns round; what counts is the ratio of the times of the same round. Turns are
printed as they come, and the table of what there is, when it is interrupted."""
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import flux2_weights
from pairs import interval

ROUNDS = int(os.environ.get("ROUNDS", "1" if flux2_weights.QUICK else "7"))
RUNS = {"single": 3, "double": 3, "decoder": 1, "text": 1, "step": 1, "image": 1}  # of a turn, which is their median
BLOCKS = ("single", "double")
CASES = ("step:256", "step:512", "text:512", "decoder:512")
# What each whole part reads of the weights, and the policies that are of interest.
PARTS = {"step": ("transformer",), "text": ("text_encoder",), "decoder": ("vae",), "image": ("transformer", "text_encoder", "vae")}
POLICIES = {"step": ("bf16", "w8a8"), "text": ("bf16",), "decoder": ("bf16",), "image": ("bf16", "w8a8")}
PEAK_OF = {"bf16": "bf16", "w8a8": "s8"}  # by policy: what bench/peak calls the type that is multiplied
TOKENS, REAL_TOKENS = 512, 77  # of a prompt; the rest is padding, which takes as long


def gflop(kind, pixels):
    """Products, convolutions, scores and weighted sums. A block of N tokens: N times its matrices, and every token with
    every other."""
    t, e, tokens, width, scale = flux2_weights.TRANSFORMER, flux2_weights.TEXT, (pixels // 16) ** 2, 3072, (pixels / 512) ** 2
    n = TOKENS + tokens
    blocks = (t["num_layers"] + t["num_single_layers"]) * (2 * n * 13 * width**2 + 4 * n**2 * width)
    step = blocks + 2 * TOKENS * t["joint_attention_dim"] * width + 4 * tokens * 128 * width
    hidden, heads = e["hidden_size"], 128 * e["num_attention_heads"]
    text = e["num_hidden_layers"] * (2 * TOKENS * hidden * (2 * heads + 2 * 128 * e["num_key_value_heads"] + 3 * e["intermediate_size"])
                                     + 4 * TOKENS**2 * heads)  # fmt: skip
    decoder = 1e9 * (2481.6 * scale + 34.36 * scale**2)  # convolutions; each of its middle's places with every other
    return {"step": step, "text": text, "decoder": decoder, "image": text + 4 * step + decoder}[kind] / 1e9


def say(text):
    print(text, flush=True)


def measure_peaks(build):
    """Operations per second that two threads, or one by itself, do at most, by type; empty where bench/peak has no loops."""
    command = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "peak"), build, "--best", "2"]
    words = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout.split()
    return dict(zip(words[::2], map(float, words[1::2])))


class Kept:
    """A process that answers a number of runs with their seconds and its peak memory."""

    def __init__(self, command, runs):
        self.runs, self.peak, self.begun = runs, 0, time.perf_counter()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.way = None

    def ready(self):
        if self.way is None:
            self.way = self.process.stdout.readline().strip()
            if not self.way:
                raise SystemExit("bench/flux2: a process did not start: " + " ".join(self.process.args))

    def turn(self, runs=None):
        self.process.stdin.write("%d\n" % (runs or self.runs))
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if len(answer) < 2:
            raise SystemExit("bench/flux2: a process ended: " + " ".join(self.process.args))
        *times, self.peak = map(float, answer)
        return statistics.median(times)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Block:
    """A command per turn: it draws weights, compiles and runs once before the runs that count."""

    def __init__(self, program, case, policy, kernels, runs):
        self.command = [program, "--json", "--quiet", "bench", "builtin:flux2-" + case, "--policy", policy, "--kernels", kernels,
                        "--threads", "2", "--warmup", "1", "--samples", str(runs)]  # fmt: skip
        self.peak, self.flop, self.way = 0, 0, ""

    def ready(self):
        pass

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


class Table:
    """Samples of a case by contestant, and what is said of them."""

    def __init__(self, case, contestants, theirs, peaks):
        self.case, self.contestants, self.theirs, self.flop, self.peaks = case, contestants, theirs, 0, peaks
        self.samples = {name: [] for name in contestants}
        self.remarks = []

    def round(self, number):
        order = list(self.contestants)
        turned = order[number % len(order) :] + order[: number % len(order)]
        for name in turned[:: 1 if number % 2 else -1]:
            seconds = self.contestants[name].turn()
            self.samples[name].append(seconds)
            say("  %s, round %d: %s %.3f s" % (self.case, number + 1, name, seconds))
        base = self.samples[self.theirs][number]
        say("  %s, round %d: %s" % (self.case, number + 1, ", ".join(
            "%s %.3f" % (n, base / s[number]) for n, s in self.samples.items() if n != self.theirs)))  # fmt: skip

    def show(self):
        say("\n%s, %.1f GFLOP, %d rounds" % (self.case, self.flop / 1e9, min(map(len, self.samples.values()))))
        say("%-24s %9s %19s %9s %6s %8s  %s" % ("", "s", "min..max", "GFLOP/s", "peak", "RSS MB", "as"))
        for name, c in self.contestants.items():
            times = sorted(self.samples[name])
            if not times:
                continue
            rate = self.flop / statistics.median(times)
            peak = self.peaks.get(PEAK_OF["w8a8" if "w8a8" in name else "bf16"])
            say("%-24s %9.3f %8.3f..%-9.3f %9.0f %6s %8.0f  %s"
                % (name, statistics.median(times), times[0], times[-1], rate / 1e9,
                   "%.0f%%" % (100 * rate / peak) if peak else "-", c.peak / 1e6, c.way))  # fmt: skip
        for name in self.contestants:
            ratios = [b / a for a, b in zip(self.samples[name], self.samples[self.theirs])]
            if name != self.theirs and ratios:
                say("%-40s %.2f  [%.2f, %.2f]" % ("%s against %s" % (name, self.theirs), statistics.median(ratios), *interval(ratios)))
        for remark in self.remarks:
            say(remark)


def measure(table):
    try:
        for number in range(ROUNDS if not table.case.startswith("image") else int(os.environ.get("IMAGES", min(ROUNDS, 2)))):
            table.round(number)
    finally:
        table.show()
        for c in table.contestants.values():
            c.close()


def run_block(program, case, peaks):
    runs = RUNS[case.split(":")[0]]
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "flux2_peer.py")
    contestants = {"assay bf16": Block(program, case, "bf16", "on", runs), "assay bf16, no kernels": Block(program, case, "bf16", "off", runs),
                   "torch bf16": Kept([sys.executable, script, case], runs), "assay w8a8": Block(program, case, "w8a8", "on", runs)}  # fmt: skip
    table = Table(case, contestants, "torch bf16", peaks)
    contestants["torch bf16"].ready()
    contestants["torch bf16"].turn(1)
    first = table.round

    def round_with_flop(number):
        first(number)
        table.flop = contestants["assay bf16"].flop

    table.round = round_with_flop
    measure(table)


class Scratch:
    """Inputs, outputs and the folder of weights, whose files are in memory that goes when this process goes: both sides map
    the same pages."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory()
        self.folder, self.inputs = (os.path.join(self.directory.name, n) for n in ("weights", "inputs"))
        flux2_weights.write_configs(self.folder)
        self.values, self.written, self.fds = flux2_weights.Values(), set(), {}
        for part, name in flux2_weights.FILES.items():
            fd = self.fds[part] = os.memfd_create(part)
            flux2_weights.empty(fd, part)
            os.symlink("/proc/%d/fd/%d" % (os.getpid(), fd), os.path.join(self.folder, part, name + ".safetensors"))
        os.mkdir(self.inputs)

    def need(self, parts):
        for part in self.fds:
            if part in parts and part not in self.written:
                flux2_weights.write(self.fds[part], part, self.values)
                self.written.add(part)
            elif part in self.written and part not in parts:  # memory is short
                os.ftruncate(self.fds[part], 0)
                flux2_weights.empty(self.fds[part], part)
                self.written.discard(part)

    def draw(self, pixels):
        random = np.random.default_rng(2)
        tokens = (pixels // 16) ** 2
        rounded = lambda x: (x.astype(np.float32).view(np.uint32) + np.uint32(0x8000) & np.uint32(0xFFFF0000)).view(np.float32)
        random.integers(0, 151643, TOKENS, dtype=np.int32).tofile(os.path.join(self.inputs, "ids.i32"))
        (np.arange(TOKENS) < REAL_TOKENS).astype(np.int32).tofile(os.path.join(self.inputs, "mask.i32"))
        for name, size in (("context", TOKENS * 7680), ("noise", tokens * 128), ("latent", tokens * 128)):
            rounded(random.standard_normal(size)).tofile(os.path.join(self.inputs, name + ".f32"))

    def output(self, name):
        return os.path.join(self.inputs, "result-" + name.replace(" ", "-"))


def decibels(reference, other, image):
    """Images within what a picture can show: diffusers' pipeline cuts them there."""
    a, b = (np.fromfile(p, np.float32).astype(np.float64) for p in (reference, other))
    if image:
        a, b = np.clip(a, -1, 1), np.clip(b, -1, 1)
    if a.shape != b.shape or not np.isfinite(b).all():
        raise SystemExit("bench/flux2: results are not alike: %s values and %s, of which %d are finite" % (a.size, b.size, np.isfinite(b).sum()))
    return 10 * np.log10(np.sum(a**2) / np.sum((a - b) ** 2))


def run_part(bench, scratch, case, peaks):
    kind, pixels, *only = case.split(":")
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "flux2_peer.py")
    begin = time.perf_counter()
    scratch.need(PARTS[kind])
    scratch.draw(int(pixels))
    common, contestants = [scratch.folder, scratch.inputs], {}
    for policy in only or POLICIES[kind]:
        name = "assay " + policy
        # The text encoder by itself takes tokens; the size is that of the image which nobody draws.
        size = "256" if kind == "text" else pixels
        contestants[name] = Kept([bench, kind, size, policy, *common, scratch.output(name)], RUNS[kind])
        contestants[name].ready()
    theirs = "torch bf16"
    size = "256" if kind == "text" else pixels
    contestants[theirs] = Kept([sys.executable, script, "%s:%s" % (kind, size), *common, scratch.output(theirs)], RUNS[kind])
    contestants[theirs].ready()
    table = Table(case, contestants, theirs, peaks)
    table.flop = gflop(kind, int(pixels)) * 1e9
    say("%s: ready after %.0f s" % (case, time.perf_counter() - begin))
    if kind != "image":  # minutes long: what a first run pays more does not show
        for name, c in contestants.items():
            say("  %s, warm-up: %s %.3f s" % (case, name, c.turn(1)))
        compare(table, scratch)
    else:
        first = table.round

        def round_and_compare(number):
            first(number)
            if number == 0:
                compare(table, scratch)

        table.round = round_and_compare
    measure(table)


def compare(table, scratch):
    for name in table.contestants:
        if name != table.theirs:
            distance = decibels(scratch.output(table.theirs), scratch.output(name), table.case.startswith("image"))
            table.remarks.append("result of %s: %.1f dB from that of %s" % (name, distance, table.theirs))


def stop(_signal, _frame):
    raise KeyboardInterrupt


def main():
    program, bench, *cases = sys.argv[1:]
    signal.signal(signal.SIGTERM, stop)
    say("FLUX.2 klein 4B%s, random weights, 2 threads, %d rounds; load %s at the start"
        % (" cut down to two blocks and three layers" if flux2_weights.QUICK else "", ROUNDS, open("/proc/loadavg", encoding="ascii").read().split()[0]))  # fmt: skip
    peaks = measure_peaks(os.path.dirname(program))
    say("the peak is that of the machine now: %s"
        % (", ".join("%.0f in %s" % (v / 1e9, k) for k, v in peaks.items()) + " GFLOP/s or GOP/s" if peaks else "not known"))  # fmt: skip
    say("ratios of times: median of the rounds and its 95 % interval; above 1: assay is faster")
    scratch = Scratch()
    try:
        for case in cases or CASES:
            kind = case.split(":")[0]
            if kind not in RUNS:
                raise SystemExit("bench/flux2: %s is no case: KIND:N or KIND:N:POLICY, KIND one of %s" % (case, ", ".join(RUNS)))
            if kind in BLOCKS:
                run_block(program, case, peaks)
            else:
                run_part(bench, scratch, case, peaks)
    except KeyboardInterrupt:
        raise SystemExit("bench/flux2: interrupted") from None
    finally:
        scratch.directory.cleanup()


main()
