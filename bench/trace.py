# SPDX-License-Identifier: Apache-2.0
"""Whole commands on one large profile, in turns: trace.py ASSAY WALK LOGDIR PROFILE. What counts is the ratio of the times
of the same turn."""
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from pairs import interval

LARGE = 500e6  # bytes of a profile whose conversions are left out
FLOOR = "walking the bytes, 1 thread"


def run(command):
    """Seconds, and seconds of processors (the program's and the system's), of one call."""
    if "-o" in command:  # to free a file of the round before, once the new one takes its place, is no conversion
        with contextlib.suppress(FileNotFoundError):
            os.remove(command[command.index("-o") + 1])
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit("bench/trace: %s failed" % " ".join(command))
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime


def peak_beyond_files(command):
    """Most bytes of memory that a call holds beside pages of files, looked at every millisecond. Not timed."""
    page, peak = os.sysconf("SC_PAGE_SIZE"), 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        try:
            with open("/proc/%d/statm" % process.pid, encoding="ascii") as f:
                resident, shared = (int(n) for n in f.read().split()[1:3])
            peak = max(peak, (resident - shared) * page)
        except (OSError, ValueError):
            pass  # it has just ended
        time.sleep(0.001)
    return peak


def contestants(assay, walk, logdir, profile, folder):
    page = os.path.join(logdir, "timeline.html")
    peer = os.path.join(os.path.dirname(sys.executable), "xprof-rs")
    peer = peer if os.path.exists(peer) else shutil.which("xprof-rs")
    result = {}
    for threads in "2", "1":
        for what in "ops", "steps", "summary":
            result["assay trace %s, %s thread%s" % (what, threads, "s" * (threads > "1"))] = [
                assay, "trace", what, profile, "--threads", threads]  # fmt: skip
    result["assay trace timeline, 2 threads"] = [
        assay, "trace", "timeline", profile, "-o", page, "--force", "--threads", "2"]  # fmt: skip
    if os.path.getsize(profile) < LARGE:
        for form, threads in ("pftrace", "2"), ("pftrace", "1"), ("json", "2"), ("csv", "2"):
            out = os.path.join(folder, "converted." + form)
            result["assay trace convert to %s, %s" % (form, threads)] = [
                assay, "trace", "convert", profile, "-o", out, "--force", "--threads", threads]  # fmt: skip
    result[FLOOR] = [walk, profile]
    if peer:
        result["xprof-rs aggregate_xplane_events"] = [peer, "aggregate_xplane_events", logdir]
    return result


def measure(assay, walk, logdir, profile, folder):
    size = os.path.getsize(profile)
    rounds = int(os.environ.get("ROUNDS", "11" if size < LARGE else "5"))
    events = int(subprocess.run([walk, profile], stdout=subprocess.PIPE, check=True).stdout)
    commands = contestants(assay, walk, logdir, profile, folder)
    names = list(commands)
    peaks = {n: peak_beyond_files(commands[n]) for n in names}
    times, busy = {n: [] for n in names}, {n: [] for n in names}
    for r in range(rounds):
        for name in (names[r % len(names) :] + names[: r % len(names)])[:: 1 if r % 2 else -1]:
            wall, cpu = run(commands[name])
            times[name].append(wall)
            busy[name].append(cpu)
    print("%.1f MB, %.1f M events, %d rounds, load %.1f at the end; conversions are written to %s"
          % (size / 1e6, events / 1e6, rounds, os.getloadavg()[0], folder))  # fmt: skip
    print("%-36s %9s %17s %8s %8s %9s %12s"
          % ("", "median ms", "min..max", "CPU ms", "MB/s", "/ floor", "memory MB"))  # fmt: skip
    for name in names:
        t = sorted(times[name])
        median = statistics.median(t)
        floor = statistics.median(a / b for a, b in zip(times[name], times[FLOOR]))
        print("%-36s %9.0f %8.0f..%-7.0f %8.0f %8.0f %9.1f %12.1f"
              % (name, 1e3 * median, 1e3 * t[0], 1e3 * t[-1], 1e3 * statistics.median(busy[name]), size / median / 1e6,
                 floor, peaks[name] / 1e6))  # fmt: skip
    print("CPU: time of processors, the program's and the system's; memory: beside pages of files")
    for path in [os.path.join(logdir, "timeline.html")] + [os.path.join(folder, f) for f in sorted(os.listdir(folder))]:
        print("%s has %.1f MB" % (os.path.basename(path), os.path.getsize(path) / 1e6))
    print("\nratio of times of the same round, median and its 95 % interval")
    for name in names[1:]:
        ratios = [b / a for a, b in zip(times[names[0]], times[name])]
        print("%-36s %.2f  [%.2f, %.2f]" % ((name, statistics.median(ratios)) + interval(ratios)))


def main():
    assay, walk, logdir, profile = sys.argv[1:]
    # Where there is one, a file system in memory, so that no disk is measured.
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else logdir) as folder:
        measure(assay, walk, logdir, profile, folder)


main()
