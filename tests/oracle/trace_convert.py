# SPDX-License-Identifier: Apache-2.0
"""What `assay trace convert` and `trace merge` write, read by Google's protobuf library and Python's json, against the
profile itself, read by the same library: trace_convert.py ASSAY PROFILE...

Message and field numbers are declared here anew, from openxla/xla (xplane.proto) and google/perfetto (protos/perfetto/
trace), so that a mistake in ours shows."""
import collections
import gzip
import json
import os
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

KINDS = {"double": 1, "int64": 3, "uint64": 4, "bool": 8, "string": 9, "message": 11, "bytes": 12, "uint32": 13, "fixed64": 6}
SCHEMA = {
    "XSpace": "1*planes:XPlane 4*hostnames:string",
    "XPlane": "1 id:int64 2 name:string 3*lines:XLine 4*event_metadata:EventEntry 5*stat_metadata:StatEntry 6*stats:XStat",
    "EventEntry": "1 key:int64 2 value:XEventMetadata",
    "StatEntry": "1 key:int64 2 value:XStatMetadata",
    "XLine": "1 id:int64 2 name:string 3 timestamp_ns:int64 4*events:XEvent 11 display_name:string",
    "XEvent": "1 metadata_id:int64 2 offset_ps:int64 5 num_occurrences:int64 3 duration_ps:int64 4*stats:XStat",
    "XStat": "1 metadata_id:int64 2 double:double 3 uint:uint64 4 int:int64 5 str:string 6 bytes:bytes 7 ref:uint64",
    "XEventMetadata": "1 id:int64 2 name:string 4 display_name:string 5*stats:XStat",
    "XStatMetadata": "1 id:int64 2 name:string",
    "Trace": "1*packet:TracePacket",
    "TracePacket": "6 clocks:ClockSnapshot 8 timestamp:uint64 10 sequence:uint32 11 event:TrackEvent 12 interned:InternedData 13 flags:uint32 58 clock:uint32 59 defaults:Defaults 60 track:TrackDescriptor",
    "ClockSnapshot": "1*clocks:Clock",
    "Clock": "1 id:uint32 2 timestamp:uint64 3 incremental:bool",
    "Defaults": "11 event:EventDefaults 58 clock:uint32",
    "EventDefaults": "11 track:uint64",
    "TrackDescriptor": "1 uuid:uint64 2 name:string 3 process:Process 5 parent:uint64 8 counter:Counter 11 ordering:int64 12 rank:int64",
    "Counter": "3 unit:int64",
    "Process": "1 pid:int64 6 name:string",
    "TrackEvent": "9 type:int64 10 name_iid:uint64 11 track:uint64 44 double_value:double 47*flow:fixed64 48*flow_end:fixed64 4*annotations:Annotation",
    "Annotation": "1 name_iid:uint64 3 uint:uint64 4 int:int64 5 double:double 6 text:string 17 text_iid:uint64",
    "InternedData": "2*names:Interned 3*annotation_names:Interned 29*texts:Interned",
    "Interned": "1 iid:uint64 2 text:bytes",
}  # fmt: skip


def messages():
    file = descriptor_pb2.FileDescriptorProto(name="oracle.proto", package="o", syntax="proto2")
    for name, fields in SCHEMA.items():
        m = file.message_type.add(name=name)
        words = fields.replace("*", " * ").split()
        while words:
            number = int(words.pop(0))
            repeated = words[0] == "*" and bool(words.pop(0))
            field, kind = words.pop(0).split(":")
            f = m.field.add(name=field, number=number, label=3 if repeated else 1, type=KINDS.get(kind, 11))
            if kind in SCHEMA:
                f.type_name = ".o." + kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {n: message_factory.GetMessageClass(pool.FindMessageTypeByName("o." + n)) for n in SCHEMA}


M = messages()
HIDDEN_NAMES = ("Source code", "Framework Name Scope")


def read_profile(path):
    data = open(path, "rb").read()
    return M["XSpace"].FromString(gzip.decompress(data) if path.endswith(".gz") else data)


def stat_value(plane, stat):
    for kind in ("double", "uint", "int", "str", "bytes"):
        if stat.HasField(kind):
            return getattr(stat, kind)
    if stat.HasField("ref"):
        return plane["stats"].get(stat.ref)
    return None


def profile_events(space):
    """(plane, line, name, start_ps, duration_ps, arguments) of everything that has a place in time."""
    for p in space.planes:
        plane = {"stats": {e.key: e.value.name for e in p.stat_metadata}}
        rows = {e.key: e.value for e in p.event_metadata}
        for line in p.lines:
            for e in line.events:
                if e.num_occurrences:
                    continue
                row = rows.get(e.metadata_id)
                args = {}
                for s in (list(row.stats) if row else []) + list(e.stats):
                    value = stat_value(plane, s)
                    if value is not None and not isinstance(value, bytes) and s.metadata_id in plane["stats"]:
                        args[plane["stats"][s.metadata_id]] = value
                name = (row.display_name or row.name) if row else ""
                start = line.timestamp_ns * 1000 + e.offset_ps
                yield p.name, line.display_name or line.name, name, start, e.duration_ps, args


def key(args):
    return tuple(sorted((k, str(v)) for k, v in args.items()))


class Sequence:
    """What packets of one sequence may refer to."""

    def __init__(self):
        self.names, self.annotations, self.texts, self.clocks = {}, {}, {}, {}
        self.clock = self.track = None


def set_clocks(sequence, snapshot):
    """A clock of a sequence (64 and beyond) counts like the boot clock (6), from the snapshot on in differences."""
    at = {c.id: c for c in snapshot.clocks}
    assert at[6].timestamp == 0 and not at[6].incremental
    for c in snapshot.clocks:
        if c.id >= 64:
            assert c.incremental
            sequence.clocks[c.id] = c.timestamp


def packet_time(sequence, packet):
    clock = packet.clock if packet.HasField("clock") else sequence.clock
    if clock == 6:
        return packet.timestamp
    sequence.clocks[clock] += packet.timestamp
    return sequence.clocks[clock]


def perfetto_events(path):
    trace = M["Trace"].FromString(open(path, "rb").read())
    tracks, processes, sequences = {}, {}, {}
    stacks, last = collections.defaultdict(list), {}
    out = []
    for packet in trace.packet:
        if packet.flags & 1:  # the state is cleared
            sequences[packet.sequence] = Sequence()
        assert not packet.flags & 2 or packet.sequence in sequences, "a state that is needed is there"
        s = sequences.get(packet.sequence)
        if packet.HasField("defaults"):
            s.clock, s.track = packet.defaults.clock, packet.defaults.event.track
        for table, entries in ((s and s.names, packet.interned.names), (s and s.annotations, packet.interned.annotation_names),
                               (s and s.texts, packet.interned.texts)):
            for e in entries:
                assert e.iid not in table
                table[e.iid] = e.text.decode("utf-8")
        if packet.HasField("clocks"):
            set_clocks(s, packet.clocks)
        if packet.HasField("track"):
            t = packet.track
            (processes if t.HasField("process") else tracks)[t.uuid] = t
        if not packet.HasField("event"):
            continue
        e, ns = packet.event, packet_time(s, packet)
        uuid = e.track if e.HasField("track") else s.track
        track, names, annotations, texts = tracks[uuid], s.names, s.annotations, s.texts
        assert ns >= last.get(uuid, 0), "a track goes forward"
        last[uuid] = ns
        if e.type == 2:
            begun, begin_ns = stacks[uuid].pop()
            begun[4] = ns - begin_ns
            continue
        if e.type == 4:
            continue
        args = {}
        for a in e.annotations:
            value = next(getattr(a, k) for k in ("uint", "int", "double", "text") if a.HasField(k)) if not a.HasField("text_iid") else texts[a.text_iid]
            args[annotations[a.name_iid]] = value
        event = [processes[track.parent].process.name, track.name, names[e.name_iid], ns, 0, args]
        out.append(event)
        if e.type == 1:
            stacks[uuid].append((event, ns))
        else:
            assert e.type == 3
    assert not any(stacks.values()), "every slice ends"
    return out


def derived(track):
    return any(track == n or track.startswith(n + ": ") for n in HIDDEN_NAMES)


def base_name(track, lines):
    """A line's extra tracks are called 'LINE (2)'."""
    return track if track in lines else track.rsplit(" (", 1)[0]


def compare(what, expected, got):
    missing, extra = expected - got, got - expected
    if missing or extra:
        print(what, "missing", list(missing.items())[:3], "extra", list(extra.items())[:3])
        raise SystemExit("%s: %d missing, %d too many" % (what, sum(missing.values()), sum(extra.values())))


def check(assay, path, folder):
    want = list(profile_events(read_profile(path)))
    lines = {(p, line) for p, line, *_ in want}
    own = {(p, line) for p, line in lines if derived(line)}
    perfetto = os.path.join(folder, "x.pftrace")
    subprocess.run([assay, "trace", "convert", path, "-o", perfetto, "--force"], check=True, stdout=subprocess.DEVNULL)
    expected = collections.Counter((p, line, n, s // 1000, (s + d) // 1000 - s // 1000, s, d, key(a)) for p, line, n, s, d, a in want
                                   if line != "_counters_")
    got = collections.Counter()
    n_derived = 0
    for p, track, n, ns, length, args in perfetto_events(perfetto):
        if derived(track) and (p, track) not in own:
            n_derived += 1
            continue
        args.pop("long_name", None)
        line = track if (p, track) in lines else track.rsplit(" (", 1)[0]
        start, duration = args.pop("start_ps", ns * 1000), args.pop("duration_ps", length * 1000)
        got[(p, line, n, ns, length, start, duration, key(args))] += 1
    compare("perfetto", expected, got)

    packed = os.path.join(folder, "x.json.gz")
    subprocess.run([assay, "trace", "convert", path, "-o", packed, "--force"], check=True, stdout=subprocess.DEVNULL)
    events = json.loads(gzip.open(packed).read(), parse_float=lambda s: s, parse_int=lambda s: s)["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    threads = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    slices = collections.defaultdict(list)
    got = collections.Counter()
    expected = collections.Counter((p, line, n, s, d) for p, line, n, s, d, _ in want if line != "_counters_")
    for e in events:
        if e["ph"] != "X":
            continue
        start, length = (int(round(float(e[k]) * 1e6)) for k in ("ts", "dur"))
        for k, v in (("ts", start), ("dur", length)):  # exact: from the digits
            whole, _, part = e[k].partition(".")
            v = int(whole) * 1000000 + int((part + "000000")[:6])
            start, length = (v, length) if k == "ts" else (start, v)
        slices[e["tid"]].append((start, -length))
        p, track = processes[e["pid"]], threads[e["tid"]]
        if not (derived(track) and (p, track) not in own):
            got[(p, track if (p, track) in lines else track.rsplit(" (", 1)[0], e["name"], start, length)] += 1
    compare("chrome", expected, got)
    for tid, track in slices.items():
        open_ends = []
        for start, length in sorted(track):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or open_ends[-1] >= start - length, "slices of a track nest"
            open_ends.append(start - length)
    print("%s: %d events agree, %d derived slices" % (os.path.basename(path), len(want), n_derived))


def main():
    assay = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        for path in sys.argv[2:]:
            check(assay, path, folder)


if __name__ == "__main__":
    main()
