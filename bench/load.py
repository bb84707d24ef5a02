# SPDX-License-Identifier: Apache-2.0
"""Loading the transformer of FLUX.2 klein 4B, ours and theirs, in pairs: load.py BENCH DIRECTORY. DIRECTORY keeps the
files, which are made when they are not there."""
import mmap
import os
import statistics
import subprocess
import sys

import flux2_weights
from pairs import interval, peak_bytes

ROUNDS = int(os.environ.get("ROUNDS", "1" if flux2_weights.QUICK else "7"))
COLD_ROUNDS = min(ROUNDS, 3)  # the disk is what they show
COPY = 1 << 30


def say(text):
    print(text, flush=True)


def make(directory, layout):
    """A folder of which only the transformer holds anything."""
    folder = os.path.join(directory, ("quick-" if flux2_weights.QUICK else "") + layout)
    path = os.path.join(folder, "transformer", flux2_weights.FILES["transformer"] + ".safetensors")
    if not os.path.exists(path):
        flux2_weights.write_configs(folder)
        for part, name in flux2_weights.FILES.items():
            target = os.path.join(folder, part, name + ".safetensors")
            fd = os.open(target + ".partial", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
            if part == "transformer":
                flux2_weights.write(fd, part, flux2_weights.Values(), layout == "theirs")
                os.fsync(fd)
            else:
                flux2_weights.empty(fd, part)
            os.close(fd)
            os.rename(target + ".partial", target)
    return folder, path


class Kept:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if not answer:
            raise SystemExit("bench/load: a process ended: " + " ".join(self.process.args))
        return [float(x) for x in answer]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def warm(path):
    with open(path, "rb", buffering=0) as f:
        room = bytearray(1 << 24)
        while f.readinto(room):
            pass


def touch(size):
    """Takes memory and gives it back, so that the next who takes some finds pages that the machine has. A virtual machine
    may have given free pages back to its host, and fetching one takes ten times as long as clearing it: whoever comes
    first would pay for it, and whoever comes second be called fast."""
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as room:
        room.madvise(mmap.MADV_HUGEPAGE)
        for at in range(0, size, 4096):
            room[at] = 1


def row(name, seconds, bytes_read, more=""):
    say("%-44s %7.3f s %8.3f..%-8.3f %7.2f GB/s  %s" % (name, statistics.median(seconds), min(seconds), max(seconds), bytes_read / 1e9 / statistics.median(seconds), more))


def ratio(name, ours, theirs):
    ratios = [b / a for a, b in zip(ours, theirs)]
    say("%-44s %.2f  [%.2f, %.2f]" % (name, statistics.median(ratios), *interval(ratios)))


def compare(bench, peer, folder, path, layout, cold):
    size, ours, theirs, mapped, copies, fresh = os.path.getsize(path), [], [], [], [], []
    word = "cold" if cold else "cached"
    for number in range(COLD_ROUNDS if cold else ROUNDS):
        def turn_ours():
            load, read, in_place, copied, peak = bench.ask(word)
            ours.append((load, load + read, in_place, copied, peak))

        def turn_theirs():
            alone, copied, peak = peer.ask("%s %s" % (word, path))
            mapped.append(alone)
            theirs.append((copied, peak))

        for turn in (turn_ours, turn_theirs)[:: 1 if number % 2 else -1]:
            touch(size)
            if not cold:
                warm(path)
            turn()
        touch(COPY)
        there, new = bench.ask("copy")
        copies.append(there)
        fresh.append(new)
        say("  %s, %s, round %d: assay %.3f s, with every byte read %.3f; torch mapped %.3f, copied %.3f; 1 GiB copied in %.3f"
            % (layout, word, number + 1, ours[-1][0], ours[-1][1], mapped[-1], theirs[-1][0], copies[-1]))  # fmt: skip
    say("\n%s, %s, %.2f GB" % ({"ours": "written by us, at multiples of 64 bytes", "theirs": "as safetensors writes it"}[layout], word, size / 1e9))
    _, _, in_place, copied, _ = ours[0]
    row("assay", [o[0] for o in ours], size, "%.2f GB in place, %.2f GB copied; peak %.0f MB" % (in_place / 1e9, copied / 1e9, max(o[4] for o in ours) / 1e6))
    if cold and in_place:
        row("assay, and every byte read", [o[1] for o in ours], size)
    row("torch, load_file: mapped, nothing read", mapped, size)
    row("torch, load_file and a copy", [t[0] for t in theirs], size, "peak %.0f MB" % (max(t[1] for t in theirs) / 1e6))
    row("copy of 1 GiB in memory", copies, COPY)
    row("copy of 1 GiB into new memory", fresh, COPY)
    ratio("assay against torch with a copy", [o[1] for o in ours], [t[0] for t in theirs])
    if not cold:
        for name, rates in (("share of the copy", copies), ("share of the copy into new memory", fresh)):
            shares = [copy * size / COPY / o[0] for o, copy in zip(ours, rates)]
            say("%-44s %.2f  [%.2f, %.2f]" % (name, statistics.median(shares), *interval(shares)))
    say("")


def main():
    program, directory = sys.argv[1:]
    say("loading a transformer of FLUX.2 klein 4B%s, 2 threads; load %s at the start"
        % (" cut short" if flux2_weights.QUICK else "", open("/proc/loadavg", encoding="ascii").read().split()[0]))  # fmt: skip
    peer = Kept([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "load_peer.py")])
    for layout in ("ours", "theirs"):
        folder, path = make(directory, layout)
        bench = Kept([program, folder, "bf16"])
        for cold in (False, True):
            compare(bench, peer, folder, path, layout, cold)
        bench.close()
    folder, path = make(directory, "ours")
    for policy, codes in (("w8a8", "int8"), ("w4a16", "int4 in groups")):
        bench = Kept([program, folder, policy])
        runs = []
        for _ in range(min(ROUNDS, 3)):
            touch(os.path.getsize(path))
            warm(path)
            runs.append(bench.ask("cached"))
        row("assay, made into %s on the way, cached" % codes, [r[0] for r in runs], os.path.getsize(path),
            "%.2f GB made; peak here %.0f MB, with pages of the file" % (runs[0][3] / 1e9, peak_bytes(bench.process.pid) / 1e6))  # fmt: skip
        bench.close()
    peer.close()


main()
