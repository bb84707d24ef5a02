# SPDX-License-Identifier: Apache-2.0
"""bench/hlo's two sides, in turns: hlo.py OURS DUMP OUT. OUT gets the entry of the dump, repeated with names of its own."""
import os
import re
import subprocess
import sys
import time

os.environ["JAX_PLATFORMS"] = "cpu"
from jaxlib import _hlo

import pairs

MEGABYTES, PAIRS = 20, 7
ours_path, dump, out = sys.argv[1:]


def repeat():
    with open(dump, encoding="utf-8") as f:
        text = f.read()
    begin = text.index("ENTRY ")
    first, *lines = text[begin:].rstrip().split("\n")
    lines = [l.replace("ROOT ", "") for l in lines[:-1]]
    shared = set(re.findall(r"^%(\S+) \(", text, re.M)) | {re.match(r" *%(\S+)", l).group(1) for l in lines if " parameter(" in l}
    with open(out, "w", encoding="utf-8") as f:
        f.write(text[:begin].replace(text[: text.index("\n")], "HloModule repeated") + first + "\n")
        k = 0
        while f.tell() < MEGABYTES * 1000000:
            for l in lines:
                if " parameter(" not in l or not k:
                    f.write(re.sub(r"%([\w.-]+)", lambda m: m.group(0) if m.group(1) in shared else f"{m.group(0)}.k{k}", l) + "\n")
            k += 1
        f.write("}\n")


def theirs():
    begin = time.perf_counter_ns()
    module = _hlo.hlo_module_from_text(text)
    seconds = (time.perf_counter_ns() - begin) / 1e9
    del module
    return seconds


def ours():
    process.stdin.write("x\n")
    process.stdin.flush()
    ns, busy, n = map(int, process.stdout.readline().split())
    processor.append(busy / 1e9)
    global instructions
    instructions = n
    return ns / 1e9


repeat()
size, processor, instructions = os.path.getsize(out), [], 0
with open(out, encoding="utf-8") as f:
    text = f.read()
with subprocess.Popen([ours_path, out], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
    ours(), theirs()
    a, b = pairs.interleave(ours, theirs, PAIRS)
    peak = pairs.peak_bytes(process.pid)
    process.stdin.close()
ratios = [y / x for x, y in zip(a, b)]
low, high = pairs.interval(ratios)
middle = lambda v: sorted(v)[len(v) // 2]
print(f"{size / 1e6:.1f} MB of HLO text, {instructions} instructions; load {os.getloadavg()[0]:.1f}")
print(f"ours    {size / 1e6 / middle(a):7.1f} MB/s on the clock, {size / 1e6 / middle(processor):.1f} MB/s of the processor's time; peak {peak / 1e6:.0f} MB")
print(f"XLA     {size / 1e6 / middle(b):7.1f} MB/s on the clock")
print(f"ratio   {middle(ratios):.2f} (95 %: {low:.2f} to {high:.2f}, {PAIRS} pairs)")
os.remove(out)
