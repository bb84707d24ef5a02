# SPDX-License-Identifier: Apache-2.0
"""What XLA's own cost analysis says of the operations in tests/fixtures/ir/ops.json, and of a BERT encoder in JAX.

    build-oracle/venv/bin/python tests/oracle/cost.py      writes tests/fixtures/ir/cost.json

"cases": name of a case of ops.json to [flops, transcendentals, bytes accessed] of HloCostAnalysis on the module before
any optimisation. Its sums are kept in f32, so only numbers below 2^24 are exact; those of single operations here are.
"minilm": the same of all-MiniLM-L6-v2 written with jax.numpy, with the operations that JAX makes of it.
The operations are written here as StableHLO; ops.json says which and on what.
"""
import json
import math
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import jaxlib
from jax import lax
from jaxlib import _jax

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(TOP, "tests/fixtures/ir")
MLIR = {"pred": "i1", **{f"s{n}": f"i{n}" for n in (8, 16, 32, 64)}, **{f"u{n}": f"ui{n}" for n in (8, 16, 32, 64)}}


def tensor(array):
    return "tensor<" + "".join(f"{d}x" for d in array[1]) + MLIR.get(array[0], array[0]) + ">"


def numbers(values):
    return "array<i64" + (": " + ", ".join(map(str, values)) if values else "") + ">"


def attributes(c):
    """What stands in braces, by operation."""
    op = c["op"]
    if op == "iota":
        return f"iota_dimension = {c['axis']} : i64"
    if op == "compare":
        return f"comparison_direction = #stablehlo<comparison_direction {c['compare']}>"
    if op == "broadcast_in_dim":
        return f"broadcast_dimensions = {numbers(c['a'])}"
    if op == "transpose":
        return f"permutation = {numbers(c['a'])}"
    if op == "slice":
        return f"start_indices = {numbers(c['a'])}, limit_indices = {numbers(c['b'])}, strides = {numbers(c['c'])}"
    if op == "concatenate":
        return f"dimension = {c['axis']} : i64"
    if op == "pad":
        return f"edge_padding_low = {numbers(c['a'])}, edge_padding_high = {numbers(c['b'])}, interior_padding = {numbers(c['c'])}"
    if op in ("reverse", "reduce"):
        return f"dimensions = {numbers(c['a'])}"
    if op == "dynamic_slice":
        return f"slice_sizes = {numbers(c['a'])}"
    if op == "gather":
        table, indices = c["operands"]
        rank = len(indices[1])
        offsets = ", ".join(str(rank + i) for i in range(len(table[1]) - 1))
        return (f"dimension_numbers = #stablehlo.gather<offset_dims = [{offsets}], collapsed_slice_dims = [0], start_index_map = [0], "
                f"index_vector_dim = {rank}>, slice_sizes = {numbers([1, *table[1][1:]])}, indices_are_sorted = false")  # fmt: skip
    if op == "dot_general":
        (lb, rb), (lc, rc) = c["batch"], c["contract"]
        return (f"dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = {lb}, rhs_batching_dimensions = {rb}, "
                f"lhs_contracting_dimensions = {lc}, rhs_contracting_dimensions = {rc}>")  # fmt: skip
    if op == "convolution":
        n = len(c["a"])
        d = ", ".join(map(str, range(n)))
        pads = ", ".join(f"[{low}, {high}]" for low, high in zip(c["b"], c["c"]))
        return (f"dimension_numbers = #stablehlo.conv<[b, {d}, f]x[o, i, {d}]->[b, {d}, f]>, window_strides = {numbers(c['a'])}, "
                f"padding = dense<[{pads}]> : tensor<{n}x2xi64>, batch_group_count = 1 : i64, feature_group_count = {c['axis']} : i64")  # fmt: skip
    return ""


def text(c):
    """A module of the case's one operation; None for what is no operation."""
    op, operands, out = c["op"], [tensor(x) for x in c["operands"]], tensor(c["want"])
    if op in ("parameter", "constant"):
        return None
    region = ""
    if op == "reduce":  # the initial value is an argument, too
        scalar = tensor([c["operands"][0][0], []])
        operands.append(scalar)
        region = (f' ({{^bb0(%x: {scalar}, %y: {scalar}): %z = "stablehlo.{c["reducer"]}"(%x, %y) : ({scalar}, {scalar}) -> {scalar} '
                  f'"stablehlo.return"(%z) : ({scalar}) -> ()}})')  # fmt: skip
    dialect = "chlo" if op == "erf" else "stablehlo"
    inside = attributes(c)
    names = [f"%a{i}" for i in range(len(operands))]
    return (
        f"func.func public @main({', '.join(f'{n}: {t}' for n, t in zip(names, operands))}) -> {out} {{\n"
        f'  %r = "{dialect}.{op}"({", ".join(names)}){region}{" {" + inside + "}" if inside else ""} : ({", ".join(operands)}) -> {out}\n'
        f"  return %r : {out}\n}}\n"
    )


def cost(module):
    properties = _jax.hlo_module_cost_analysis(jax.devices()[0].client, module)
    return [int(properties.get(k, 0)) for k in ("flops", "transcendentals", "bytes accessed")]


def minilm(batch, seq, hidden=384, heads=12, layers=6, intermediate=1536, vocabulary=30522, positions=512):
    """The encoder as one writes it in JAX."""
    f32 = jnp.float32

    def norm(x, g, b):
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(variance + 1e-12) * g + b

    def model(p, ids, mask):
        x = p["words"][ids] + p["segments"][0] + p["positions"][:seq]
        x = norm(x, *p["norm"])
        bias = jnp.where(mask == 0, jnp.finfo(f32).min, 0.0)[:, None, None, :]
        for q in p["layers"]:
            qkv = (x @ q["qkv"].T + q["qkv_bias"]).reshape(batch, seq, 3, heads, -1)
            s = jnp.einsum("bqhd,bkhd->bhqk", qkv[:, :, 0], qkv[:, :, 1]) * (1 / math.sqrt(hidden // heads)) + bias
            e = jnp.exp(s - s.max(-1, keepdims=True))
            c = jnp.einsum("bhqk,bkhd->bqhd", e / e.sum(-1, keepdims=True), qkv[:, :, 2]).reshape(batch, seq, hidden)
            x = norm(c @ q["out"].T + q["out_bias"] + x, *q["norm1"])
            y = x @ q["up"].T + q["up_bias"]
            y = y * 0.5 * (1 + lax.erf(y * math.sqrt(0.5)))
            x = norm(y @ q["down"].T + q["down_bias"] + x, *q["norm2"])
        m = mask.astype(f32)[..., None]
        x = (x * m).sum(1) / jnp.maximum(m.sum(1), 1e-9)
        return x / jnp.maximum(jnp.sqrt((x * x).sum(-1, keepdims=True)), 1e-12)

    def of(*shape):
        return jax.ShapeDtypeStruct(shape, f32)

    def vectors():
        return (of(hidden), of(hidden))

    layer = {"qkv": of(3 * hidden, hidden), "qkv_bias": of(3 * hidden), "out": of(hidden, hidden), "out_bias": of(hidden), "norm1": vectors(),
             "up": of(intermediate, hidden), "up_bias": of(intermediate), "down": of(hidden, intermediate), "down_bias": of(hidden), "norm2": vectors()}  # fmt: skip
    p = {"words": of(vocabulary, hidden), "segments": of(2, hidden), "positions": of(positions, hidden), "norm": vectors(), "layers": [layer] * layers}
    tokens = jax.ShapeDtypeStruct((batch, seq), jnp.int32)
    properties = jax.jit(model).lower(p, tokens, tokens).cost_analysis()
    return {"batch": batch, "seq": seq, "flops": properties["flops"], "transcendentals": properties["transcendentals"], "bytes_accessed": properties["bytes accessed"]}


def main():
    with open(os.path.join(OUT, "ops.json"), encoding="ascii") as f:
        cases = json.load(f)["cases"]
    out = {}
    for c in cases:
        module = text(c)
        if module:
            out[c["name"]] = cost(_jax.mlir.mlir_module_to_xla_computation(module, use_tuple_args=False, return_tuple=False).get_hlo_module())
    index = {"made_by": "tests/oracle/cost.py", "versions": {"jax": jax.__version__, "jaxlib": jaxlib.__version__, "python": "%d.%d" % sys.version_info[:2]},
             "minilm": [minilm(1, 128), minilm(32, 128), minilm(2, 16)]}  # fmt: skip
    with open(os.path.join(OUT, "cost.json"), "w", encoding="ascii") as f:
        f.write(json.dumps(index)[:-1] + ', "cases": {\n')
        f.write(",\n".join(f"{json.dumps(k)}:{json.dumps(v, separators=(',', ':'))}" for k, v in out.items()) + "\n}}\n")
    print(len(out), "cases", index["minilm"])


main()
