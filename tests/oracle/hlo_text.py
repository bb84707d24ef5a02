# SPDX-License-Identifier: Apache-2.0
"""What XLA prints of HLO modules, and the modules as it writes them.

    build-oracle/venv/bin/python tests/oracle/hlo_text.py      writes tests/fixtures/ir/hlo_text.json

"cases": name to {"module": HloModuleProto in hex, "text": XLA's text}. Modules are written here, compiled by jax, or taken
from recorded profiles. Of the latter "text" has neither the tables of stack frames, which XLA numbers anew when it reads
a module (taken are those that keep their numbers), nor those modules of which it does not keep what it reads: GPU back end configurations, which it fills in and
strips by its own version's defaults, and replica groups in a field that it no longer knows.
"""
import gzip
import json
import os
import re

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import jax
import jax.numpy as jnp
import jaxlib
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jaxlib import _hlo

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(TOP, "tests/fixtures/ir/hlo_text.json")
jax.config.update("jax_hlo_source_file_canonicalization_regex", re.escape(TOP) + "/")  # names from the top of the tree
CASES = {}


def put(name, module):
    CASES[name] = {"module": module.as_serialized_hlo_module_proto().hex(), "text": module.to_string()}


# ---- Written here

ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }\n"
LESS = "less { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = pred[] compare(a, b), direction=LT }\n"


def written(name, text, head=""):
    put(name, _hlo.hlo_module_from_text("HloModule m" + head + "\n" + text))


def root(name, line, before=""):
    written(name, before + "ENTRY e {\n p = f32[8,4]{1,0} parameter(0)\n q = f32[4]{0} parameter(1)\n" + line + "\n}\n")


written("attributes", ADD + """ENTRY e {
  p = f32[4]{0} parameter(0), parameter_replication={true}, sharding={replicated}, origin={{"p0"}}
  q = f32[4]{0} parameter(1), frontend_attributes={x="y"}
  r = (f32[4]{0}, f32[4]{0}) parameter(2), parameter_replication={true,false}
  s = f32[4]{0} add(p, q), sharding={replicated}, frontend_attributes={x="y",a="b"}, control-predecessors={q}, statistics={visualizing_index=1,a=1.5,b=2}, metadata={op_name="n"}, backend_config={"a":1}
  c = f32[4]{0} custom-call(p, q), custom_call_target="foo", operand_layout_constraints={f32[4]{0}, f32[4]{0}}, custom_call_has_side_effect=true, output_to_operand_aliasing={{}: (0, {})}, schedule=SCHEDULE_EARLIEST, api_version=API_VERSION_STATUS_RETURNING, backend_config="opaque \\"x\\""
  l = f32[4]{0} custom-call(), custom_call_target="literal", literal=f32[2]{0} {1, 2}
  w = f32[4]{0} custom-call(p), custom_call_target="w", called_computations={add}
  x = (f32[4]{0}, f32[4]{0}, f32[4]{0}, f32[4]{0}, f32[4]{0}, f32[4]{0}, f32[4]{0}) tuple(p, q, s, c, l, w, p)
  g = f32[4]{0} get-tuple-element(x), index=5
  k = f32[4]{0} copy(g), sharding={maximal device=1}
  z = f32[] constant(0)
  rd = f32[] reduce(k, z), dimensions={0}, to_apply=add
  dom = f32[4]{0} domain(k), domain={kind="sharding", entry={maximal device=0}, exit={maximal device=1}}
  ex = f32[4]{0} exponential(dom), result_accuracy={mode=highest}
  ROOT t = (f32[], f32[4]{0}) tuple(rd, ex)
}
""", ", buffer_donor={ (1, {}), (2, {0}) }, input_output_alias={ {1}: (0, {}, must-alias) }, frontend_attributes={c={d=1},a=\"b\"}")
written("parameters", "ENTRY e {\n" + "\n".join(f"  p{i} = f32[{i + 1}] parameter({i})" for i in range(12))
        + "\n  ROOT t = (f32[1], f32[2]) tuple(p0, p1)\n}\n")
written("scheduled", """g {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  ROOT c = f32[4] add(a, b)
}
f {
  q = f32[4] parameter(1)
  p = f32[4] parameter(0)
  a = f32[4] add(p, q)
  b = f32[4] multiply(p, q), control-predecessors={a}
  c = f32[4] subtract(p, q), control-predecessors={b, a}
  ROOT t = (f32[4], f32[4], f32[4]) tuple(a, b, c)
}
ENTRY e {
  d = f32[<=4,3] parameter(2)
  q = f32[4] parameter(1)
  z = f32[] constant(nan)
  p = f32[4] parameter(0)
  n = s32[] get-dimension-size(d), dimensions={0}
  u = f32[4] fusion(p, q), kind=kLoop, calls=g
  ROOT t = (f32[4], f32[4], f32[4]) call(p, u), to_apply=f
}
""", ", is_scheduled=true")
written("asynchronous", """w {
  a = f32[4] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[8] custom-call(a, b), custom_call_target="foo"
}
h {
  a = f32[4] parameter(0)
  n = f32[4] negate(a)
  ROOT r = f32[4] add(n, a)
}, execution_thread="host"
k {
  a = f32[4] parameter(0)
  ROOT r = f32[4] negate(a)
}, execution_thread="sparsecore"
ENTRY e {
  a = f32[4] parameter(0), sharding={replicated}
  z = f32[] constant(1)
  s = ((f32[4], f32[]), f32[8], s32[]) async-start(a, z), calls=w
  u = ((f32[4], f32[]), f32[8], s32[]) async-update(s)
  d = f32[8] async-done(u)
  q = ((f32[4]), f32[4], s32[]) async-start(a), async_execution_thread="host", calls=h
  r = f32[4] async-done(q)
  l = ((f32[4]), f32[4], s32[]) async-start(a), async_execution_thread="sparsecore", calls=k
  m = f32[4] async-done(l), sharding={replicated}, metadata={op_name="x"}
  cs = (f32[4], f32[4], u32[]) copy-start(a)
  cd = f32[4] copy-done(cs)
  ROOT t = (f32[8], f32[4], f32[4], f32[4]) tuple(d, r, m, cd)
}
""", ", is_scheduled=true")
written("collectives", ADD + """ENTRY e {
  a = f32[8,4] parameter(0)
  r1 = f32[8,4] all-reduce(a), channel_id=1, replica_groups=[2,4]<=[4,2]T(1,0), use_global_device_ids=true, to_apply=add
  r2 = f32[8,4] all-reduce(a), replica_groups={}, to_apply=add
  r3 = f32[8,4] collective-permute(a), source_target_pairs={{0,1},{1,0}}
  r4 = f32[8,4] all-to-all(a), replica_groups={{0,1}}, dimensions={0}
  r5 = f32[8,4] collective-broadcast(a), replica_groups={{0,1}}
  r6 = f32[16,4] all-gather(a), replica_groups=[4,2]<=[8], dimensions={0}, channel_id=3, use_global_device_ids=true
  r7 = f32[4,4] reduce-scatter(a), replica_groups={{0,1}}, dimensions={0}, to_apply=add
  r8 = (f32[8,4], f32[16,4]) all-gather-start(a), replica_groups=[4,2]<=[8], dimensions={0}, channel_id=3, use_global_device_ids=true
  r9 = f32[16,4] all-gather-done(r8)
  r10 = f32[8,4] all-reduce-start(a), replica_groups={{0,1}}, to_apply=add, constrain_layout=true
  r11 = f32[8,4] all-reduce-done(r10)
  r12 = f32[8,4] all-reduce(a), replica_groups=mesh['a'=2,'b'=4] {'a'}, channel_id=4, use_global_device_ids=true, to_apply=add
  pi = u32[] partition-id()
  ri = u32[] replica-id()
  tok = token[] after-all()
  n = (f32[8,4], u32[], token[]) send(a, tok), channel_id=2, frontend_attributes={_xla_send_recv_pipeline="0"}
  nd = token[] send-done(n), channel_id=2
  ROOT t = (f32[8,4], f32[8,4]) tuple(r1, r2)
}
""")
written("constants", """ENTRY e {
  a = f32[] constant(1.5014094)
  b = f32[4] constant({0.1, 1e-7, 3.4028235e38, 16777217})
  c = f64[2] constant({0.1, 1.5014094001})
  d = bf16[3] constant({0.1, 1.5, 3e38})
  f = f16[2] constant({0.1, 65504})
  g = c64[2] constant({(1, 2), (0.1, -3)})
  i = c128[] constant((0.1, 2))
  h = pred[2] constant({true, false})
  s = f32[2,2] constant({ { 1, 2 }, { 3, 4 } })
  e4 = f8e4m3fn[2] constant({1, 0.3})
  e2 = f4e2m1fn[2] constant({1.5, 6})
  n = s4[3] constant({1,-2,3})
  z = f32[0] constant({})
  zz = f32[2,0] constant({{},{}})
  big = f32[12] constant({1,2,3,4,5,6,7,8,9,10,11,12})
  ROOT t = (f32[], f32[0]) tuple(a, z)
}
""")
for number, sharding in enumerate((
        "devices=[2,1,2]<=[4] last_tile_dims={manual}", 'devices=[2,2]0,1,2,3 metadata={op_name="x"}',
        "devices=[2,2]0,1,2,3 shard_as 7", "replicated shard_like 3",
        'manual metadata={op_name="z" source_file="f" source_line=3}', "unreduced",
        "devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate", "mesh['a'=2,'b'=4], [{'a'},{}]",
        "mesh['a'=2,'b'=4], [{'a', ?},{'b':(1)2}]", "mesh['a'=2,'b'=4], [{'a'},{}], replicated={'b'}")):
    root(f"sharding_{number}", " ROOT r = f32[8,4]{1,0} negate(p), sharding={" + sharding + "}")
root("accuracy", " ROOT r = f32[4]{0} exponential(q), result_accuracy={tolerance={atol=0.03125, rtol=0.1, ulps=2}}")
root("origin", ' s = (f32[8,4]{1,0}, f32[4]{0}) tuple(p, q)\n ROOT r = (f32[4]{0}, (f32[8,4]{1,0}, f32[4]{0})) tuple(q, s), '
     'origin={({"p"}, ({"q" {1,0}}, {}))}')
root("metadata", ' ROOT r = f32[4]{0} negate(q), metadata={op_type="a" op_name="b" source_file="c" source_line=1 '
     'source_end_line=2 source_column=3 source_end_column=4 deduplicated_name="d" scheduling_name="s"}')
root("metadata_of_no_place", ' ROOT r = f32[4]{0} negate(q), metadata={source_line=3 deduplicated_name="d"}')
root("layout", " ROOT r = f32[4]{0:T(128)(2,1)E(4)S(1)} negate(q)")
root("call", " ROOT r = (f32[4]{0}, s32[]) custom-call(q), custom_call_target=\"foo\", called_computations={add, add}, "
     "dim_labels=b0f_0io->b0f, window={size=3}, feature_group_count=2, operand_precision={highest}, "
     "output_to_operand_aliasing={{0}: (0, {1})}, literal=s32[2]{0} {2, 3}", ADD)
root("feeds", ' t = token[] after-all()\n i = ((f32[3]{0}), token[]) infeed(t), infeed_config="ab"\n'
     ' o = token[] outfeed(q, t), outfeed_shape=f32[4]{0}, outfeed_config="x"\n'
     " ROOT r = (f32[4]{0}, s32[8,2]{1,0}) topk(p), k=2, largest=true")
root("shapes", " rs = f32[2,16]{1,0} reshape(p), inferred_dimension=1\n tr = f32[4,8]{0,1} transpose(p), dimensions={1,0}\n"
     " st = f32[8,4]{1,0} sort(p), dimensions={1}, is_stable=true, to_apply=less\n ROOT r = f32[4]{0} bitcast(q)", LESS)

# ---- By jax, before and after compilation

mesh = jax.make_mesh((2, 4), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


@jax.shard_map(mesh=mesh, in_specs=P("a", "b"), out_specs=P("a", "b"), check_vma=False)
def exchange(x):
    x = jax.lax.psum(x, "a")
    x = jax.lax.all_gather(x, "b", axis=0, tiled=True)
    x = jax.lax.psum_scatter(x, "b", scatter_dimension=0, tiled=True)
    x = jax.lax.all_to_all(x, "b", 0, 1, tiled=True)
    return jax.lax.ppermute(x, "b", [(0, 1), (1, 2), (2, 3), (3, 0)])


def step(x, w, v):
    y = jax.lax.with_sharding_constraint(jnp.tanh(x @ w), NamedSharding(mesh, P("a", None)))
    z = y @ v
    return z.sum(), jax.lax.scan(lambda c, k: (c * 1.5 + k, c.sum()), z, jnp.ones((5,) + z.shape))


places = (P("a", None), P(None, "b"), P("b", None))
operands = [jax.device_put(jnp.ones(s), NamedSharding(mesh, p)) for s, p in zip(((16, 32), (32, 64), (64, 8)), places)]
lowered = jax.jit(exchange).lower(jnp.ones((32, 64)))
put("jax_exchange", lowered.compiler_ir("hlo").get_hlo_module())
put("jax_step", jax.jit(step, donate_argnums=0).lower(*operands).compiler_ir("hlo").get_hlo_module())
compiled = lowered.compile().runtime_executable().hlo_modules()[0]
put("jax_exchange_compiled", compiled)
# How sharding may spread is the configuration's, and no part of the module.
CASES["jax_exchange_compiled"]["text"] = re.sub(r", allow_spmd\w+=\{\w+\}", "", CASES["jax_exchange_compiled"]["text"])

# ---- Recorded ones


def varint(b, i):
    v = shift = 0
    while True:
        v |= (b[i] & 127) << shift
        shift += 7
        i += 1
        if b[i - 1] < 128:
            return v, i


def fields(b):
    i = 0
    while i < len(b):
        key, i = varint(b, i)
        wire = key & 7
        if wire == 0:
            v, i = varint(b, i)
        else:
            size, i = (8, i) if wire == 1 else (4, i) if wire == 5 else varint(b, i)
            v = b[i : i + size]
            i += size
        yield key >> 3, v


def bodies(message, *path):
    """What lies at a path of field numbers."""
    found = [message]
    for number in path:
        found = [v for m in found for n, v in fields(m) if n == number and isinstance(v, bytes)]
    return found


def recorded(file, *wanted):
    path = os.path.join(TOP, "tests/fixtures/traces", file)
    data = gzip.open(path).read() if file.endswith(".gz") else open(path, "rb").read()
    for plane in bodies(data, 1):
        if bodies(plane, 2) != [b"/host:metadata"]:
            continue
        for entry in bodies(plane, 4, 2):
            name = bodies(entry, 2)[0].decode()
            if name not in wanted:
                continue
            proto = bodies(entry, 5, 6, 1)[0]
            blocks = _hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string().split("\n\n")
            text = "\n\n".join(b for b in blocks if not re.match(r"\n*(File|Function|Stack)[A-Z]", b))
            CASES[f"{file.split('.')[0]} {name}"] = {"module": proto.hex(), "text": text}


recorded("cpu-small.xplane.pb", "reactant_linear(3)")
recorded("gpu-gtx1080ti-2x.xplane.pb", "reactant_fn(1)")
recorded("gpu-mi300x-jax-conv.xplane.pb.gz", "jit__multi_slice(13)", "jit__unstack(7)", "jit__threefry_seed(3)")
recorded("gpu-mi300x-jax-gemm.xplane.pb", "jit_broadcast_in_dim(19)")
recorded("tpu-v6e-4chip-inference.xplane.pb.gz", "jit_broadcast_in_dim(11287434908481120160)")

with open(OUT, "w") as f:
    json.dump({"made": f"jax {jax.__version__}, jaxlib {jaxlib.__version__}", "cases": CASES}, f, indent=0)
    f.write("\n")
print(f"{len(CASES)} cases")
