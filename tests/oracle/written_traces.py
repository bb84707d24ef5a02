# SPDX-License-Identifier: Apache-2.0
"""Profiles that assay writes, read by others: written_traces.py ASSAY BUILD, in the environment of `venv xprof`.

Merged profiles, captures (on the CPU plugin and on one that has a profiler) and traces in Chrome's JSON are written and then
read by XProf (its reader, its trace viewer, its pages about operations, memory and HLO), by protoc, and by Google's protobuf
library with the messages declared in trace_convert.py. What each reads must be what went in: planes, lines, events, names,
times, and XProf's own figures for the files that were merged or converted."""
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import trace_convert
from xprof import profile_data, version
from xprof.convert import raw_to_tool_data

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRACES = os.path.join(TOP, "tests", "fixtures", "traces")
PROFILES = sorted(f for f in os.listdir(TRACES) if ".xplane.pb" in f)


class Writer:
    def __init__(self, assay, folder):
        self.assay, self.folder, self.n = assay, folder, 0

    def run(self, *words, env=None):
        subprocess.run([self.assay, *words], check=True, stdout=subprocess.DEVNULL, env=env)

    def said(self, *words):
        return subprocess.run([self.assay, *words], check=True, capture_output=True, text=True).stdout

    def place(self):
        """XProf keeps results beside its input, so each file has a folder."""
        self.n += 1
        path = os.path.join(self.folder, str(self.n), "host.xplane.pb")
        os.makedirs(os.path.dirname(path))
        return path

    def plain(self, profile):
        path = self.place()
        data = open(os.path.join(TRACES, profile), "rb").read()
        if profile.endswith(".gz"):
            data = trace_convert.gzip.decompress(data)
        open(path, "wb").write(data)
        return path

    def merged(self, profiles):
        path = self.place()
        self.run("trace", "merge", *profiles, "-o", path)
        return path

    def converted(self, profile):
        path = self.place()
        chrome = os.path.join(self.folder, "%d.json.gz" % self.n)
        self.run("trace", "convert", profile, "-o", chrome)
        self.run("trace", "convert", chrome, "-o", path)
        return path

    def captured(self, *words, env=None):
        folder = os.path.join(self.folder, "capture%d" % self.n)
        self.run("trace", "capture", "--steps", "3", "--dir", folder, *words, env=env)
        found = [os.path.join(d, f) for d, _, files in os.walk(folder) for f in files if f.endswith(".xplane.pb")]
        assert len(found) == 1
        path = self.place()
        shutil.copy(found[0], path)
        return path


# ---- Readers


def by_protobuf(path):
    """[plane, [line, [(name, start_ps, duration_ps)]]]; the name is None where the plane's table has no row of it, as in what
    the plugin that pretends to be one records."""
    space = trace_convert.read_profile(path)
    out = []
    for plane in space.planes:
        names = {e.key: e.value.name for e in plane.event_metadata}
        lines = []
        for line in plane.lines:
            base = line.timestamp_ns * 1000
            lines.append((line.name, [(names.get(e.metadata_id), base + e.offset_ps, e.duration_ps) for e in line.events]))
        out.append((plane.name, lines))
    return out


def by_xprof(path):
    with profile_data.ProfileData.from_file(path) as data:
        return [(p.name, [(line.name, [(e.name, e.start_ns, e.duration_ns) for e in line.events]) for line in p.lines])
                for p in data.planes]


def by_protoc(path):
    """Numbers of planes, lines and events, from the depth of fields in what protoc prints without knowing any of them."""
    with open(path, "rb") as f:
        text = subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "--decode_raw"], stdin=f, check=True,
                              capture_output=True, text=True).stdout
    planes = lines = events = 0
    above = ""
    for line in text.splitlines():
        m = re.match(r"( *)(\d+) \{$", line)
        if not m:
            continue
        depth, field = len(m.group(1)) // 2, int(m.group(2))
        if depth == 0:
            above = "plane" if field == 1 else ""
            planes += field == 1
        elif depth == 1 and above.startswith("plane"):
            above = "plane line" if field == 3 else "plane other"
            lines += field == 3
        elif depth == 2 and above == "plane line":
            events += field == 4
    return planes, lines, events


def counts(planes):
    return len(planes), sum(len(p[1]) for p in planes), sum(len(line[1]) for p in planes for line in p[1])


def tool(path, name, **params):
    data, _ = raw_to_tool_data.xspace_to_tool_data([path], name, {"use_saved_result": False, **params})
    assert data, "XProf has no %s" % name
    return data if name in ("graph_viewer",) else json.loads(data)


def operations(path):
    """XProf's operations: (name, category) to occurrences and self time in whole picoseconds, all programs of one name and
    category added up, since a merge may number programs anew."""
    table = tool(path, "hlo_stats")
    at = {c["id"]: i for i, c in enumerate(table["cols"])}
    out = collections.defaultdict(lambda: [0, 0])
    for row in table["rows"]:
        name, category, n, own = (row["c"][at[k]]["v"] for k in ("hlo_op_name", "category", "occurrences", "total_self_time"))
        out[name, category][0] += int(n)
        out[name, category][1] += round(own * 1e6)
    return {k: tuple(v) for k, v in out.items() if k[0] != "IDLE"}


def viewer(path, page="trace_viewer"):
    """The trace viewer's slices: (thread, name, start and duration in whole ns). Ids of processes and threads may differ.
    Threads that XProf derives ("Source code - from #22") need HLO, which JSON does not hold."""
    events = tool(path, page)["traceEvents"]
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("ph") == "M" and e["name"] == "thread_name"}
    return collections.Counter((threads[e["pid"], e["tid"]], e["name"], round(e["ts"] * 1e3), round(e.get("dur", 0) * 1e3))
                               for e in events if e.get("ph") == "X" and " - from #" not in threads[e["pid"], e["tid"]])


# ---- Comparisons


def check_readers(what, path):
    """All three readers see the same, whatever it is."""
    want = by_protobuf(path)
    got = by_xprof(path)
    assert by_protoc(path) == counts(want) == counts(got), (what, by_protoc(path), counts(want), counts(got))
    for (plane, lines), (plane2, lines2) in zip(want, got):
        assert plane == plane2, (what, plane, plane2)
        for (line, events), (line2, events2) in zip(lines, lines2):
            assert line == line2, (what, line, line2)
            for (name, start, duration), (name2, start2, duration2) in zip(events, events2):
                # XProf gives doubles of nanoseconds: exact to their 53 bits.
                assert name in (name2, None) and abs(start - start2 * 1e3) <= abs(start) * 2.0**-52 and abs(duration - duration2 * 1e3) <= (
                    duration * 2.0**-52), (what, plane, line, name, name2, start, start2, duration, duration2)
    return want


def bag(planes, names):
    """Events as a multiset, under the names that merging gives planes."""
    return collections.Counter((names(p), line, e) for p, lines in planes for line, events in lines for e in events)


def same(what, want, got):
    if want != got:
        missing = [k for k in want if got.get(k) != want[k]]
        extra = [k for k in got if k not in want]
        raise SystemExit("%s: differs: %s; too many: %s" % (what, missing[:3], extra[:3]))


def add_up(tables):
    out = collections.defaultdict(lambda: [0, 0])
    for table in tables:
        for k, (n, own) in table.items():
            out[k][0] += n
            out[k][1] += own
    return {k: tuple(v) for k, v in out.items()}


def check_merge(w, names):
    files = [w.plain(n) for n in names]
    path = w.merged(files)
    what = "merge of " + ", ".join(n.split(".")[0] for n in names)
    planes = check_readers(what, path)
    want = collections.Counter()
    for f in files:
        want.update((line, e[2]) for p, lines in by_protobuf(f) for line, events in lines for e in events)
    got = collections.Counter((line, e[2]) for p, lines in planes for line, events in lines for e in events)
    same(what + ": lines and durations", want, got)
    same(what + ": XProf's operations", add_up(operations(f) for f in files), operations(path))
    for page in ("overview_page", "op_profile", "roofline_model", "framework_op_stats", "kernel_stats", "memory_profile"):
        tool(path, page)
    print("%s: %d planes, %d lines, %d events; XProf: %d operations, as in the files" % (
        (what,) + counts(planes) + (len(operations(path)),)))


def check_convert(w, name):
    original = w.plain(name)
    path = w.converted(original)
    what = "from JSON: " + name.split(".")[0]
    planes = check_readers(what, path)
    keep = [p for p in by_protobuf(original) if any(events for _, events in p[1])]
    # A counter's sample is one for each of its statistics.
    def plain(ps):
        return bag([(p, [(line, e) for line, e in lines if line != "_counters_"]) for p, lines in ps], lambda p: p)
    same(what + ": events", plain(keep), plain(p for p in planes if p[0] != "Task Environment"))
    same(what + ": XProf's trace viewer", viewer(original), viewer(path))
    if name.startswith("tpu-"):  # elsewhere XProf needs HLO for them
        same(what + ": XProf's operations", operations(original), operations(path))
    print("%s: %d planes, %d lines, %d events; XProf's trace viewer shows the same %d" % (
        (what,) + counts(planes) + (sum(viewer(path).values()),)))
    return original, path


SMALL = 16384  # XProf's memory viewer adds up what is smaller


def check_memory(w, what, path):
    """XProf's memory viewer and `assay trace memory` say the same of every program with buffers in the device's memory: the
    peak, what is there throughout, and the buffers at the peak with their sizes and kinds. Gives the peaks."""
    ours = json.loads(w.said("trace", "memory", path, "--json"))["result"]["programs"]
    raw_to_tool_data.xspace_to_tool_names([path])
    peaks = []
    for p in ours:
        if p["space"] != 0:
            continue
        name = "%s(%s)" % (p["program"], p["program_id"])
        data, _ = raw_to_tool_data.xspace_to_tool_data([path], "memory_viewer", {"module_name": name})
        viewer = json.loads(data)

        def size(key):
            return round(viewer.get(key, 0) * 2**20)
        assert size("peakHeapMib") == p["peak_bytes"], (what, name, size("peakHeapMib"), p["peak_bytes"])
        assert size("indefiniteBufferAllocationMib") == p["fixed_bytes"], (what, name)
        kinds = {"Parameter": "parameter", "Output": "result", "Temporary": "temporary", "Constant": "constant"}
        theirs = collections.Counter(
            (kinds[b["groupName"]], b["instructionName"].split("{")[0], b["shapeString"].split("{")[0], round(b["logicalBufferSizeMib"] * 2**20))
            for b in viewer["maxHeap"] if b.get("instructionName"))
        same("%s: buffers of %s at its peak" % (what, name), theirs, collections.Counter(
            (b["kind"], b["instruction"], b["shape"], b["bytes"]) for b in p["alive"] if b["bytes"] >= SMALL))
        peaks.append(p["peak_bytes"])
    return peaks


def check_capture(w, what, *words, env=None, device=None):
    path = w.captured(*words, env=env)
    planes = check_readers(what, path)
    names = [p for p, _ in planes]
    steps = [e for p, lines in planes for line, events in lines for e in events if e[0] == "precision_case"]
    assert len(steps) == 3 and all(s[2] > 0 for s in steps), (what, steps)
    assert "/host:metadata" in names and "Task Environment" in names and (not device or device in names), (what, names)
    # XProf numbers steps by step_num, as it does with JAX's StepTraceAnnotation. The older viewer shows one host's plane only,
    # so not ours beside a plugin's.
    shown = sorted(name for (_, name, _, _), n in viewer(path, "trace_viewer@").items() if name.startswith("precision_case"))
    assert shown == ["precision_case %d" % i for i in range(3)], (what, shown)
    space = trace_convert.read_profile(path)
    modules = [e.value.name for p in space.planes if p.name == "/host:metadata" for e in p.event_metadata]
    assert len(modules) == 1, modules
    raw_to_tool_data.xspace_to_tool_names([path])  # puts the HLO beside the file, where the next two look for it
    graph = raw_to_tool_data.xspace_to_tool_data([path], "graph_viewer", {"graph_viewer_options": {
        "module_name": modules[0], "type": "short_txt", "node_name": "", "graph_width": 3}})[0].decode()
    assert graph.startswith("HloModule " + modules[0].split("(")[0]) and " dot(" in graph, graph[:200]
    peaks = check_memory(w, what, path)
    assert len(peaks) == 1 and peaks[0] > 0, (what, peaks)
    print("%s: %d planes, %d lines, %d events; XProf: 3 steps, %d characters of HLO, peak of %d bytes in its memory viewer" % (
        (what,) + counts(planes) + (len(graph), peaks[0])))


def main():
    assay, build = (os.path.abspath(p) for p in sys.argv[1:])
    print("XProf", version.__version__)
    with tempfile.TemporaryDirectory() as folder:
        w = Writer(assay, folder)
        tpu, conv, gemm, gtx = ([p for p in PROFILES if k in p][0] for k in ("tpu-", "-conv", "-gemm", "-gtx"))
        check_merge(w, [tpu, tpu])
        check_merge(w, [gemm, conv])
        check_merge(w, [gtx, gtx])
        for name in PROFILES:
            check_convert(w, name)
        for name in PROFILES:
            if name != gtx:  # there XProf leaves out the table of pointers that a tuple is as a result: 24 bytes
                path = w.plain(name)
                print("%s: XProf's memory viewer says the same of %d programs" % (name.split(".")[0], len(check_memory(w, name, path))))
        check_capture(w, "capture on the CPU plugin", "gemm:64x96x128:f32")
        check_capture(w, "capture of a model on the CPU plugin", "builtin:minilm", "--batch", "2", "--seq", "16")
        check_capture(w, "capture by a plugin's profiler", "gemm:64x96x128:f32", "--plugin",
                      os.path.join(build, "faulty_plugin.so"), env={**os.environ, "ASSAY_FAULT": "profiler"},
                      device="/device:TPU:0")


if __name__ == "__main__":
    main()
