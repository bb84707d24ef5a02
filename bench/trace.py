# SPDX-License-Identifier: Apache-2.0
"""Whole commands on one large profile, in turns: trace.py ASSAY WALK LOGDIR PROFILE. What counts is the ratio of the times
of the same turn."""
import os
import shutil
import statistics
import subprocess
import sys
import time

from pairs import interval

ROUNDS = 11


def run(command):
    """Seconds and peak memory in bytes of one call."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit("bench/trace: %s failed" % command[0])
    return time.perf_counter() - begin, usage.ru_maxrss * 1024


def main():
    assay, walk, logdir, profile = sys.argv[1:]
    peer = os.path.join(os.path.dirname(sys.executable), "xprof-rs")
    page = os.path.join(logdir, "timeline.html")
    contestants = {
        "assay trace ops, 2 threads": [assay, "trace", "ops", profile, "--json", "--threads", "2"],
        "assay trace ops, 1 thread": [assay, "trace", "ops", profile, "--json", "--threads", "1"],
        "assay trace steps, 2 threads": [assay, "trace", "steps", profile, "--threads", "2"],
        "assay trace summary, 2 threads": [assay, "trace", "summary", profile, "--threads", "2"],
        "assay trace timeline, 2 threads": [
            assay, "trace", "timeline", profile, "-o", page, "--force", "--threads", "2"],  # fmt: skip
        "walking the bytes, 1 thread": [walk, profile],
    }
    if os.path.exists(peer) or shutil.which("xprof-rs"):
        contestants["xprof-rs aggregate_xplane_events"] = [
            peer if os.path.exists(peer) else "xprof-rs", "aggregate_xplane_events", logdir]  # fmt: skip
    size = os.path.getsize(profile)
    events = int(subprocess.run([walk, profile], stdout=subprocess.PIPE, check=True).stdout)
    names = list(contestants)
    for command in contestants.values():
        run(command)
    times, peaks = {n: [] for n in names}, dict.fromkeys(names, 0)
    for r in range(ROUNDS):
        for name in (names[r % len(names):] + names[: r % len(names)])[:: 1 if r % 2 else -1]:
            seconds, peak = run(contestants[name])
            times[name].append(seconds)
            peaks[name] = max(peaks[name], peak)
    print("%.1f MB, %.1f M events, %d rounds, load %.1f at the end; peak memory counts pages of the mapped file"
          % (size / 1e6, events / 1e6, ROUNDS, os.getloadavg()[0]))  # fmt: skip
    print("%-34s %9s %17s %8s %9s" % ("", "median ms", "min..max", "GB/s", "peak MB"))
    for name in names:
        t = sorted(times[name])
        median = statistics.median(t)
        print("%-34s %9.0f %8.0f..%-7.0f %8.2f %9.0f"
              % (name, 1e3 * median, 1e3 * t[0], 1e3 * t[-1], size / median / 1e9, peaks[name] / 1e6))  # fmt: skip
    print("the page of the timeline has %.1f MB" % (os.path.getsize(page) / 1e6))
    print("\nratio of times of the same round, median and its 95 % interval")
    for name in names[1:]:
        ratios = [b / a for a, b in zip(times[names[0]], times[name])]
        print("%-34s %.2f  [%.2f, %.2f]" % ((name, statistics.median(ratios)) + interval(ratios)))


main()
