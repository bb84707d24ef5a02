# SPDX-License-Identifier: Apache-2.0
"""Which devices take part together in the collectives of a module that has a device assignment.

    build-oracle/venv/bin/python tests/oracle/collectives.py      writes tests/fixtures/ir/collectives.json

"module": an HloModuleProto in hex, made by XLA, with a device assignment of REPLICAS replicas and PARTITIONS partitions;
"operations": name to {"kind", "groups": lists of devices, "size": bytes of one device, "factor": that of nccl-tests}.
Groups are looked up here in an array of devices by XLA's rules of what numbers mean: replicas where an operation has no
channel, both at once (replica * PARTITIONS + partition) under use_global_device_ids, a replica with all its partitions
where that is not set, and partitions where the operation has no such flag.
"""
import itertools
import json
import os

os.environ["JAX_PLATFORMS"] = "cpu"
import jaxlib
import numpy as np
from jaxlib import _hlo

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(TOP, "tests/fixtures/ir/collectives.json")
REPLICAS, PARTITIONS = 2, 4
DEVICES = np.array([[3, 0, 7, 5], [1, 6, 2, 4]])  # of each replica its partitions
REPLICA, PARTITION, WIDE, BOTH = range(4)


def devices(mode, lists):
    if mode == REPLICA:
        return [[int(DEVICES[r, p]) for r in g] for p in range(PARTITIONS) for g in lists]
    if mode == PARTITION:
        return [[int(DEVICES[r, p]) for p in g] for r in range(REPLICAS) for g in lists]
    if mode == WIDE:
        return [[int(DEVICES[r, p]) for r, p in itertools.product(g, range(PARTITIONS))] for g in lists]
    return [[int(DEVICES.reshape(-1)[i]) for i in g] for g in lists]


def factor(kind, n):
    return {"all-reduce": 2 * (n - 1) / n, "collective-permute": 1, "collective-broadcast": 1}.get(kind, (n - 1) / n)


TO_APPLY = ", to_apply=add"
GLOBAL = ", channel_id=1, use_global_device_ids=true"
LINES, OPERATIONS = [], {}


def operation(name, shape, opcode, attributes, mode, lists, size, wraps=None):
    kind = opcode.replace("-start", "")
    groups = devices(mode, lists)
    LINES.append(f"  {name} = {shape} {opcode}(a), {attributes}")
    OPERATIONS[name] = {"kind": kind, "groups": groups, "size": size, "factor": factor(kind, max(map(len, groups)))}


A = 8 * 4 * 4  # bytes of the operand
operation("list", "f32[8,4]", "all-reduce", "replica_groups={{0,3},{2,1},{4,7},{6,5}}" + GLOBAL + TO_APPLY, BOTH,
          [[0, 3], [2, 1], [4, 7], [6, 5]], A)
operation("iota", "f32[16,4]", "all-gather", "replica_groups=[4,2]<=[2,4]T(1,0), dimensions={0}" + GLOBAL, BOTH,
          np.arange(8).reshape(2, 4).T.reshape(4, 2).tolist(), 2 * A)
operation("mesh", "f32[2,4]", "reduce-scatter", "replica_groups=mesh['x'=2,'y'=4] {'y'}, dimensions={0}" + GLOBAL + TO_APPLY, BOTH,
          np.arange(8).reshape(2, 4).tolist(), A)
operation("everyone", "f32[8,4]", "all-reduce", "replica_groups={}" + GLOBAL + TO_APPLY, BOTH, [list(range(8))], A)
operation("replicas", "f32[8,4]", "all-reduce", "replica_groups={{0,1}}" + TO_APPLY, REPLICA, [[0, 1]], A)
operation("all_replicas", "f32[8,4]", "all-reduce", "replica_groups={}" + TO_APPLY, REPLICA, [[0, 1]], A)
operation("wide", "f32[8,4]", "all-reduce", "replica_groups={{0},{1}}, channel_id=1" + TO_APPLY, WIDE, [[0], [1]], A)
operation("partitions", "f32[8,4]", "all-to-all", "replica_groups={{0,2},{1,3}}, channel_id=1, dimensions={0}", PARTITION,
          [[0, 2], [1, 3]], A)
operation("pairs", "f32[8,4]", "collective-permute", "channel_id=1, source_target_pairs={{0,1},{1,0},{3,2}}", PARTITION,
          [[0, 1], [2, 3]], A)
operation("one_to_all", "f32[8,4]", "collective-broadcast", "replica_groups={{0,1}}", REPLICA, [[0, 1]], A)
operation("started", "(f32[8,4], f32[16,4])", "all-gather-start", "replica_groups=[4,2]<=[8], dimensions={0}" + GLOBAL, BOTH,
          np.arange(8).reshape(4, 2).tolist(), 2 * A)
TEXT = ("HloModule m\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }\nENTRY e {\n"
        "  a = f32[8,4] parameter(0)\n" + "\n".join(LINES) + "\n  ended = f32[16,4] all-gather-done(started)\n"
        "  ROOT r = f32[8,4] negate(a)\n}\n")  # fmt: skip


def body(number, content):
    return bytes([number << 3 | 2, len(content)]) + content


# xla.DeviceAssignmentProto: 1 replicas, 2 partitions, 3 of each partition the devices of its replicas.
assignment = bytes([8, REPLICAS, 16, PARTITIONS]) + b"".join(body(3, body(1, bytes(map(int, DEVICES[:, p])))) for p in range(PARTITIONS))
module = _hlo.hlo_module_from_text(TEXT).as_serialized_hlo_module_proto() + bytes([15 << 3 | 2, len(assignment)]) + assignment
with open(OUT, "w") as f:
    json.dump({"made": f"jaxlib {jaxlib.__version__}, numpy {np.__version__}", "module": module.hex(), "operations": OPERATIONS}, f, indent=1)
    f.write("\n")
