# SPDX-License-Identifier: Apache-2.0
"""What XProf says of memory in the recorded profiles: xprof_memory.py FOLDER. FOLDER holds XProf's own JSON of its tool
memory_profile, one file for each profile (NAME.memory_profile.json, XProf 2.24).
Writes tests/fixtures/traces/xprof_memory.tsv."""
import json
import os
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRACES = os.path.join(TOP, "tests", "fixtures", "traces")


def main():
    out = ["# XProf 2.24, memory_profile, at the peak: profile, allocator, in use, blocks, reserved, free, capacity, most ever"]
    for name in sorted(f.split(".")[0] for f in os.listdir(TRACES) if ".xplane.pb" in f):
        with open(os.path.join(sys.argv[1], name + ".memory_profile.json"), encoding="utf-8") as f:
            allocators = json.load(f).get("memoryProfilePerAllocator", {})
        for allocator, found in sorted(allocators.items()):
            s = found["profileSummary"]
            p = s["peakStats"]
            out.append("\t".join([name, allocator, p["peakBytesInUse"], p["heapAllocatedBytes"], p["stackReservedBytes"],
                                  p["freeMemoryBytes"], s["memoryCapacity"], s["peakBytesUsageLifetime"]]))
    with open(os.path.join(TRACES, "xprof_memory.tsv"), "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")


main()
