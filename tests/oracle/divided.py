# SPDX-License-Identifier: Apache-2.0
"""What XLA's TPU compiler makes devices send each other, when JAX divides the same programs.

    build-oracle/venv/bin/python tests/oracle/divided.py [libtpu.so]     writes tests/fixtures/lab/divided.json

The programs are written anew here, with JAX's own shardings (a mesh and constraints, partitioned by Shardy), and are compiled
ahead of time for v6e:2x4 by the same libtpu; no device is needed. "cases": layout, then of each kind of collective the
bytes of every one: of the whole array for an all-gather, of what one device puts in for the others, in order of size; at
precision DEFAULT, where the compiler rounds what products take to bf16 before it sends it. The model is the f32 block of
transformer-block:HIDDENxHEADSxMLP.
"""
import json
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIBTPU = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(TOP, "third_party/libtpu/libtpu.so")
os.environ.update(TPU_SKIP_MDS_QUERY="1", ALLOW_MULTIPLE_LIBTPU_LOAD="1", TPU_LIBRARY_PATH=LIBTPU, JAX_PLATFORMS="cpu",
                  TPU_WORKER_HOSTNAMES="localhost", TPU_WORKER_ID="0", TPU_ACCELERATOR_TYPE="v6e-1")
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

OUT = os.path.join(TOP, "tests/fixtures/lab/divided.json")
HIDDEN, HEADS, MLP, SEQ = 512, 8, 1024, 256
DEVICES = topologies.get_topology_desc(platform="tpu", topology_name="v6e:2x4").devices
KINDS = ["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"]


def mesh_of(**ways):
    return Mesh(np.array(DEVICES).reshape(tuple(ways.values())), tuple(ways))


def lay(x, mesh, *axes):
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*axes)))


def norm(x):
    centred = x - jnp.mean(x, -1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + 1e-6)


def block(mesh, batch, tokens, heads, gather, sp):
    """Axes that divide the batch, the tokens, heads and columns; `gather`: weights are whole before they are used; `sp`:
    the tokens of what is whole otherwise."""
    def run(x, q, k, v, out, up, down):
        if gather:
            q, k, v, up = (lay(w, mesh, heads, None) for w in (q, k, v, up))
            out, down = (lay(w, mesh, None, heads) for w in (out, down))
        dot = lambda a, w: jnp.einsum("bti,oi->bto", a, w, precision="default")
        stream = lambda a: lay(a, mesh, batch, sp or tokens, None)
        whole = lambda a: lay(a, mesh, batch, tokens, None)
        h = whole(norm(x))
        inside = (heads, "ulysses") if tokens == "ulysses" and heads else tokens or heads
        split = [lay(lay(dot(h, w), mesh, batch, tokens, heads).reshape(x.shape[0], SEQ, HEADS, HIDDEN // HEADS),
                     mesh, batch, None, inside, None) for w in (q, k, v)]
        scores = jnp.einsum("bqhd,bkhd->bhqk", split[0], split[1], precision="default") / np.sqrt(HIDDEN // HEADS)
        y = jnp.einsum("bhqk,bkhd->bhqd", jax.nn.softmax(scores), split[2], precision="default")
        y = lay(y, mesh, batch, inside, None, None).transpose(0, 2, 1, 3).reshape(x.shape)
        x = x + stream(dot(lay(y, mesh, batch, tokens, heads), out))
        h = jax.nn.gelu(lay(dot(whole(norm(x)), up), mesh, batch, tokens, heads), approximate=True)
        return x + stream(dot(h, down))
    return run


def bytes_of(shape):
    kind, dims = re.match(r"(\w+)\[([\d,]*)\]", shape).groups()
    return int(np.prod([int(d) for d in dims.split(",") if d])) * {"f32": 4, "bf16": 2, "s32": 4}[kind]


def collectives(compiled):
    found = {}
    body, fused = None, {}
    shapes = {}
    for line in compiled.as_text().splitlines():
        head = re.match(r"(?:ENTRY )?%?([\w.-]+) \(", line)
        if head and line.rstrip().endswith("{"):
            body = head.group(1)
        made = re.match(r"\s+(?:ROOT )?%([\w.-]+) = \(?([a-z]\w*\[[\d,]*\])", line)
        if not made:
            continue
        shapes[made.group(1)] = made.group(2)
        if re.match(r"\s+ROOT .* dynamic-slice\(", line):
            fused[body] = True
        for kind in KINDS:
            op = re.search(r" %s(?:-start)?\(([^)]*)\)" % kind, line)
            if op:
                source = re.findall(r"%([\w.-]+)", op.group(1))
                size = bytes_of(made.group(2)) if kind == "all-gather" else sum(bytes_of(shapes[s]) for s in source)
                found.setdefault(body, []).append([kind, size])
    out = {}
    for body, ops in found.items():
        for kind, size in ops:  # a sum that is cut in the same fusion is a reduce-scatter
            out.setdefault("reduce-scatter" if kind == "all-reduce" and fused.get(body) else kind, []).append(size)
    return {k: sorted(v) for k, v in sorted(out.items())}


def case(layout, batch, mesh, axes, weights, sp=None):
    """axes: of the batch, the tokens, heads; weights: of [outputs, inputs] weights and of those along inputs."""
    f32 = lambda *s: jax.ShapeDtypeStruct(s, jnp.float32)
    on = lambda *p: NamedSharding(mesh, P(*p))
    stream = on(axes[0], sp or axes[1], None)
    w = [on(*weights[0])] * 3 + [on(*weights[1]), on(*weights[0]), on(*weights[1])]
    run = block(mesh, *axes, gather="fsdp" in layout, sp=sp)
    args = [f32(batch, SEQ, HIDDEN)] + [f32(HIDDEN, HIDDEN)] * 4 + [f32(MLP, HIDDEN), f32(HIDDEN, MLP)]
    compiled = jax.jit(run, in_shardings=[stream] + w, out_shardings=stream).lower(*args).compile()
    return {"layout": layout, "batch": batch, "collectives": collectives(compiled)}


def main():
    none = (None, None)
    cases = [
        case("dp", 8, mesh_of(dp=8), ("dp", None, None), [none, none]),
        case("fsdp", 8, mesh_of(fsdp=8), ("fsdp", None, None), [("fsdp", None)] * 2),
        case("tp", 1, mesh_of(tp=8), (None, None, "tp"), [("tp", None), (None, "tp")]),
        case("tp,sp", 1, mesh_of(tp=8), (None, None, "tp"), [("tp", None), (None, "tp")], sp="tp"),
        case("ulysses", 1, mesh_of(ulysses=8), (None, "ulysses", None), [none, none]),
        case("fsdp=4,tp=2", 4, mesh_of(fsdp=4, tp=2), ("fsdp", None, "tp"), [("tp", "fsdp"), ("fsdp", "tp")]),
        case("ulysses=4,tp=2", 1, mesh_of(ulysses=4, tp=2), (None, "ulysses", "tp"), [("tp", None), (None, "tp")]),
    ]
    block_name = f"builtin:transformer-block:{HIDDEN}x{HEADS}x{MLP}"
    made = {"jax": jax.__version__, "target": "v6e:2x4", "workload": block_name, "seq": SEQ, "cases": cases}
    os.makedirs(os.path.dirname(OUT), exist_ok=True)
    with open(OUT, "w") as f:
        json.dump(made, f, indent=1)
        f.write("\n")
    for c in cases:
        print(c["layout"], {k: (len(v), v) for k, v in c["collectives"].items()})


main()
