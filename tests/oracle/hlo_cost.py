# SPDX-License-Identifier: Apache-2.0
"""What XLA's own cost analysis says of HLO modules, and the modules themselves as XLA writes them.

    build-oracle/venv/bin/python tests/oracle/hlo_cost.py      writes tests/fixtures/ir/hlo_cost.json

"groups": replica groups as XLA writes them, and the lists that they stand for.
"cases": name to {"module": HloModuleProto in hex, "xla": [flops, transcendentals, bytes accessed],
"text": XLA's text of its computations, "frames" that of its tables of stack frames}. Where we count
something else, "here" has what is right ([flops, transcendentals, bytes], null: not known) and "why" the reason; it is
computed here from first principles or from XLA's analysis of parts. docs/cost.md has the list of reasons. XLA sums in
32-bit floats: only numbers below 2^24 are exact, and those of these modules are.
"""
import base64
import json
import math
import os
import re

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from jaxlib import _hlo, _jax

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(TOP, "tests/fixtures/ir/hlo_cost.json")
jax.config.update("jax_hlo_source_file_canonicalization_regex", re.escape(TOP) + "/")  # names from the top of the tree
CPU = jax.devices()[0].client
ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }\n"
GE = "ge { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = pred[] compare(a, b), direction=GE }\n"
MAX = "max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] maximum(a, b) }\n"
EXP2 = "f { a = f32[] parameter(0)\n e = f32[] exponential(a)\n ROOT s = f32[] add(e, a) }\n"
SIZES = {"pred": 8, "s4": 4, "s8": 8, "u8": 8, "s32": 32, "u32": 32, "bf16": 16, "f16": 16, "f32": 32, "f64": 64, "c64": 64}


def elements(shape):
    dims = shape[shape.index("[") + 1 : shape.index("]")]
    return math.prod(int(d) for d in dims.split(",")) if dims else 1


def size(*shapes):
    return sum((elements(s) * SIZES[s[: s.index("[")]] + 7) // 8 for s in shapes)


def single(result, op, *operands, attributes="", before=""):
    """A module of one operation on parameters."""
    lines = [f" p{i} = {s} parameter({i})" for i, s in enumerate(operands)]
    args = ", ".join(f"p{i}" for i in range(len(operands)))
    if op in ("constant", "iota"):
        args = ""
    comma = ", " if attributes else ""
    return f"HloModule m\n{before}ENTRY e {{\n" + "\n".join(lines) + f"\n ROOT r = {result} {op}({args}){comma}{attributes} }}"


def analyse(module):
    p = _jax.hlo_module_cost_analysis(CPU, module)
    return [p.get("flops", 0.0), p.get("transcendentals", 0.0), p.get("bytes accessed", 0.0)]


def text_of(module):
    """XLA's text, without the module's head and the tables of stack frames."""
    blocks = module.to_string().split("\n\n")
    return "\n\n".join(b for b in blocks[1:] if re.match(r"(ENTRY )?%|\n", b)).strip("\n") + "\n"


def frames_of(module):
    return "\n\n".join(b for b in module.to_string().split("\n\n") if re.match(r"(File|Function|Stack)[A-Z]", b))


CASES = {}


def case(name, text, here=None, why=None):
    module = text if not isinstance(text, str) else _hlo.hlo_module_from_text(text)
    row = {"module": module.as_serialized_hlo_module_proto().hex(), "xla": analyse(module), "text": text_of(module), "frames": frames_of(module)}
    if here is not None:
        assert why and here != row["xla"], name
        row.update(here=here, why=why)
    assert name not in CASES
    CASES[name] = row
    return row


X = "f32[6,10]"
for op in ("abs", "negate", "ceil", "floor", "sign", "round-nearest-afz", "round-nearest-even", "exponential", "exponential-minus-one",
           "log", "log-plus-one", "logistic", "tanh", "sine", "cosine", "tan", "sqrt", "rsqrt", "cbrt", "erf", "acos", "acosh", "asin",
           "asinh", "atanh", "cosh", "sinh"):  # fmt: skip
    case(op, single(X, op, X))
for op in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "remainder", "atan2"):
    case(op, single(X, op, X, X))
for op in ("and", "or", "xor", "shift-left", "shift-right-logical", "shift-right-arithmetic"):
    case(op, single("s32[7]", op, "s32[7]", "s32[7]"))
case("not", single("s32[7]", "not", "s32[7]"))
case("popcnt", single("s32[7]", "popcnt", "s32[7]"))
case("count-leading-zeros", single("s32[7]", "count-leading-zeros", "s32[7]"))
case("is-finite", single("pred[6,10]", "is-finite", X))
case("compare", single("pred[6,10]", "compare", X, X, attributes="direction=LT"))
case("select", single(X, "select", "pred[6,10]", X, X))
case("clamp", single(X, "clamp", X, X, X))
case("convert", single("bf16[6,10]", "convert", X))
case("reduce-precision", single(X, "reduce-precision", X, attributes="exponent_bits=5, mantissa_bits=10"))
case("complex", single("c64[9]", "complex", "f32[9]", "f32[9]"))
case("real", single("f32[9]", "real", "c64[9]"))
case("imag", single("f32[9]", "imag", "c64[9]"))
case("bitcast-convert", single("s32[6,10]", "bitcast-convert", X), [0, 0, 0], "a view")
case("copy", single(X, "copy", X))
case("reshape", single("f32[60]", "reshape", X))
case("broadcast", single("f32[6,10,4]", "broadcast", X, attributes="dimensions={0,1}"))
case("iota", single("s32[5,8]", "iota", attributes="iota_dimension=1"))
case("concatenate", single("f32[6,20]", "concatenate", X, X, attributes="dimensions={1}"))
case("pad", single("f32[9,12]", "pad", X, "f32[]", attributes="padding=1_2x0_2"))
case("reverse", single(X, "reverse", X, attributes="dimensions={0}"))
case("slice", single("f32[3,5]", "slice", X, attributes="slice={[0:3], [0:10:2]}"))
case("transpose", single("f32[10,6]{1,0}", "transpose", "f32[6,10]{1,0}", attributes="dimensions={1,0}"))
case("transpose_view", single("f32[10,6]{0,1}", "transpose", "f32[6,10]{1,0}", attributes="dimensions={1,0}"))
case("transpose_of_ones", single("f32[10,1,6]{2,1,0}", "transpose", "f32[1,10,6]{2,1,0}", attributes="dimensions={1,0,2}"),
     [0, 0, 0], "where an extent of 1 stands does not matter")  # fmt: skip
STARTS = "each start is an operand"
case("dynamic-slice", single("f32[3,5]", "dynamic-slice", X, "s32[]", "s32[]", attributes="dynamic_slice_sizes={3,5}"),
     [0, 0, 2 * size("f32[3,5]") + 8], STARTS)  # fmt: skip
case("dynamic-update-slice", single(X, "dynamic-update-slice", X, "f32[3,5]", "s32[]", "s32[]"),
     [0, 0, 2 * size("f32[3,5]") + 8], STARTS)  # fmt: skip
case("gather", single("f32[4,10]", "gather", X, "s32[4,1]",
     attributes="offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,10}"))  # fmt: skip
case("scatter", single(X, "scatter", X, "s32[4,1]", "f32[4,10]", before=ADD,
     attributes="update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"))  # fmt: skip

case("constants", """HloModule m
ENTRY e {
 a = f32[2,3]{0,1} constant({ {1, -2.5, 3e-8}, {inf, nan, 1e10} })
 b = s8[3]{0} constant({-1, 2, -128})
 c = u32[] constant(4294967295)
 d = pred[2]{0} constant({true, false})
 f = bf16[3]{0} constant({0.3333, 1e20, -2})
 g = f64[] constant(0.1)
 h = s64[] constant(-9223372036854775808)
 i = f16[2]{0} constant({0.1, 65504})
 j = f8e4m3fn[2]{0} constant({0.4375, -448})
 k = u8[2,1,2]{2,1,0} constant({ { {1, 2} }, { {3, 255} } })
 l = s4[3]{0:E(4)} constant({-8, 7, 0})
 m = f32[11]{0} constant({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
 ROOT t = () tuple() }""")  # fmt: skip
case("precision", single("f32[6,4]", "dot", X, "f32[10,4]",
     attributes="lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,default}"))  # fmt: skip
case("algorithm", single("f32[6,4]", "dot", X, "f32[10,4]",
     attributes="lhs_contracting_dims={1}, rhs_contracting_dims={0}, algorithm=dot_bf16_bf16_f32_x3"))  # fmt: skip
case("layouts", single("f32[8,128]{1,0:T(8,128)S(5)}", "copy", "f32[8,128]{0,1:T(8,128)(2,1)}"))
case("sharding", single(X, "copy", X, attributes="sharding={devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}"))
case("replicated", single(X, "copy", X, attributes="sharding={replicated}"))
case("frontend", single(X, "copy", X, attributes='frontend_attributes={a="b\\"c",d={"e":1}}'))
case("metadata", single(X, "copy", X, attributes='metadata={op_type="t" op_name="jit(f)/a" source_file="x.py" source_line=12}'))
case("interior", single("f32[11,12]", "pad", X, "f32[]", attributes="padding=0_0_1x0_2_0"))
case("batch-norm", single(X, "batch-norm-inference", X, "f32[10]", "f32[10]", "f32[10]", "f32[10]", attributes="epsilon=0.001, feature_index=1"))
case("topk", single("(f32[6,3], s32[6,3])", "topk", X, attributes="k=3, largest=true"))
case("stable", single("f32[100]", "sort", "f32[100]", attributes="dimensions={0}, is_stable=true, to_apply=ge", before=GE))

# Products
case("dot", single("f32[6,4]", "dot", X, "f32[10,4]", attributes="lhs_contracting_dims={1}, rhs_contracting_dims={0}"))
case("dot_batch", single("f32[3,6,4]", "dot", "f32[3,6,10]", "f32[3,10,4]",
     attributes="lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"))  # fmt: skip
case("dot_two", single("f32[6]", "dot", "bf16[6,5,4]", "bf16[5,4]", attributes="lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}"))
case("ragged-dot", single("f32[11,5]", "ragged-dot", "f32[11,6]", "f32[3,6,5]", "s32[3]",
     attributes="lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"),
     [2 * 11 * 5 * 6, 0, size("f32[11,6]", "f32[3,6,5]", "s32[3]", "f32[11,5]")], "every row meets the matrix of its group")  # fmt: skip
for name, lhs, rhs, out, window, labels, more in (
    ("conv", "f32[2,9,8,3]", "f32[3,3,3,5]", "f32[2,9,8,5]", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", ""),
    ("conv_stride", "f32[2,9,8,3]", "f32[3,2,3,5]", "f32[2,4,4,5]", "size=3x2 stride=2x2", "b01f_01io->b01f", ""),
    ("conv_dilated", "f32[1,12,4]", "f32[3,4,2]", "f32[1,10,2]", "size=3 pad=2_2 rhs_dilate=3", "b0f_0io->b0f", ""),
    ("conv_base", "f32[1,5,4]", "f32[3,4,2]", "f32[1,9,2]", "size=3 pad=1_1 lhs_dilate=2", "b0f_0io->b0f", ""),
    ("conv_base_window", "f32[1,7,1]", "f32[4,1,1]", "f32[1,4,1]", "size=4 stride=3 pad=2_3 lhs_dilate=2 rhs_dilate=3", "b0f_0io->b0f", ""),
    ("conv_groups", "f32[2,8,6]", "f32[3,2,12]", "f32[2,8,12]", "size=3 pad=1_1", "b0f_0io->b0f", ", feature_group_count=3"),
    ("conv_batch_groups", "f32[6,8,2]", "f32[3,2,9]", "f32[2,8,9]", "size=3 pad=1_1", "b0f_0io->b0f", ", batch_group_count=3"),
    ("conv_cut", "f32[1,12,4]", "f32[3,4,2]", "f32[1,7,2]", "size=3 pad=-2_-1", "b0f_0io->b0f", ""),
):  # fmt: skip
    case(name, single(out, "convolution", lhs, rhs, attributes=f"window={{{window}}}, dim_labels={labels}{more}"))
case("convolution_point", single("f32[5,7]", "convolution", "f32[5,3]", "f32[3,7]", attributes="dim_labels=bf_io->bf"))

# What applies a computation
case("reduce", single("f32[6]", "reduce", X, "f32[]", attributes="dimensions={1}, to_apply=add", before=ADD))
case("reduce_nothing", single("f32[6]", "reduce", "f32[6,0]", "f32[]", attributes="dimensions={1}, to_apply=add", before=ADD),
     [0, 0, 28], "there is nothing to add")  # fmt: skip
case("map", single("f32[6,10]", "map", X, attributes="dimensions={0,1}, to_apply=f", before=EXP2))
case("reduce-window", single("f32[5,9]", "reduce-window", X, "f32[]", attributes="window={size=2x2}, to_apply=add", before=ADD))
case("reduce-window_all", single(X, "reduce-window", X, "f32[]", attributes="window={size=1x19 pad=0_0x9_9}, to_apply=add", before=ADD))
case("select-and-scatter", single("f32[6,6]", "select-and-scatter", "f32[6,6]", "f32[3,3]", "f32[]", before=GE + ADD,
     attributes="window={size=2x2 stride=2x2}, select=ge, scatter=add"))  # fmt: skip
case("sort", single("f32[100]", "sort", "f32[100]", attributes="dimensions={0}, to_apply=ge", before=GE))
case("fft", single("c64[4,16]", "fft", "c64[4,16]", attributes="fft_type=FFT, fft_length={16}"))
case("cholesky", single("f32[3,6,6]", "cholesky", "f32[3,6,6]", attributes="lower=true"))
case("triangular-solve", single("f32[6,4]", "triangular-solve", "f32[6,6]", "f32[6,4]",
     attributes="left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE"))  # fmt: skip
case("rng", single("f32[30]", "rng", "f32[]", "f32[]", attributes="distribution=rng_uniform"))
case("rng-bit-generator", single("(u64[2], u32[30])", "rng-bit-generator", "u64[2]", attributes="algorithm=rng_three_fry"))

# Collectives
GROUPS = "replica_groups={{0,1},{2,3}}, channel_id=1, use_global_device_ids=true"
case("all-reduce", single(X, "all-reduce", X, attributes=GROUPS + ", to_apply=add", before=ADD))
case("all-reduce_iota", single(X, "all-reduce", X, before=ADD,
     attributes="replica_groups=[2,2]<=[2,2]T(1,0), channel_id=1, use_global_device_ids=true, to_apply=add"))  # fmt: skip
case("all-reduce_mesh", single(X, "all-reduce", X, before=ADD,
     attributes="replica_groups=mesh['a'=2,'b'=2] {'a'}, channel_id=1, use_global_device_ids=true, to_apply=add"))  # fmt: skip
case("all-gather", single("f32[12,10]", "all-gather", X, attributes=GROUPS + ", dimensions={0}"))
case("reduce-scatter", single("f32[3,10]", "reduce-scatter", X, attributes=GROUPS + ", dimensions={0}, to_apply=add", before=ADD))
case("collective-permute", single(X, "collective-permute", X, attributes="channel_id=1, source_target_pairs={{0,1},{1,0}}"))
case("all-to-all", single(X, "all-to-all", X, attributes="replica_groups={{0,1},{2,3}}, channel_id=1, dimensions={0}"))

ASYNC = "the start has the cost of the pair"
case("copy-start", f"""HloModule m
ENTRY e {{ p = {X} parameter(0)
 s = ({X}, {X}, u32[]) copy-start(p)
 ROOT d = {X} copy-done(s) }}""", [0, 0, 2 * size(X)], ASYNC)  # fmt: skip
case("all-gather-start", f"""HloModule m
ENTRY e {{ p = {X} parameter(0)
 s = ({X}, f32[12,10]) all-gather-start(p), {GROUPS}, dimensions={{0}}
 ROOT d = f32[12,10] all-gather-done(s) }}""", [0, 0, size(X, "f32[12,10]")], ASYNC)  # fmt: skip
case("async", f"""HloModule m
c {{ a = f32[6,10] parameter(0)
 ROOT r = f32[6,10] multiply(a, a) }}
ENTRY e {{ p = {X} parameter(0)
 s = (({X}), {X}, s32[]) async-start(p), calls=c
 ROOT d = {X} async-done(s) }}""", [60, 0, 3 * size(X)], ASYNC)  # fmt: skip

# Fusions
def fusion(body, root, *operands, kind="kLoop", result=X, called=""):
    return (f"HloModule m\n{called}f {{\n{body}\n ROOT r = {root} }}\nENTRY e {{\n"
            + "\n".join(f" p{i} = {s} parameter({i})" for i, s in enumerate(operands))
            + f"\n ROOT z = {result} fusion({', '.join(f'p{i}' for i in range(len(operands)))}), kind={kind}, calls=f }}")  # fmt: skip


case("fusion", fusion(f" a = {X} parameter(0)\n b = {X} parameter(1)\n t = {X} tanh(a)\n m = {X} multiply(t, b)", f"{X} add(m, a)", X, X))
case("fusion_slices", fusion(f" a = {X} parameter(0)\n s = f32[2,10] slice(a), slice={{[0:2],[0:10]}}\n t = f32[2,10] slice(a), slice={{[3:5],[0:10]}}",
                             "f32[2,10] add(s, t)", X, result="f32[2,10]"))  # fmt: skip
case("fusion_slices_all", fusion(" a = f32[8] parameter(0)\n s = f32[7] slice(a), slice={[0:7]}\n t = f32[7] slice(a), slice={[1:8]}",
                                 "f32[7] add(s, t)", "f32[8]", result="f32[7]"),
     [7, 0, 32 + 28], "no byte of a value is read twice")  # fmt: skip
case("fusion_gather", fusion(f" a = {X} parameter(0)\n i = s32[4,1] parameter(1)\n g = f32[4,10] gather(a, i), offset_dims={{1}}, "
                             "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,10}",
                             "f32[4,10] negate(g)", X, "s32[4,1]", result="f32[4,10]"),
     [40, 0, 160 + 16 + 160], "of a table that is looked up, the rows are read")  # fmt: skip
case("fusion_update", fusion(f" a = {X} parameter(0)\n u = f32[1,10] parameter(1)\n i = s32[] parameter(2)\n z = s32[] constant(0)\n n = f32[1,10] negate(u)",
                             f"{X} dynamic-update-slice(a, n, i, z)", X, "f32[1,10]", "s32[]"))  # fmt: skip
case("fusion_update_inside", fusion(f" a = {X} parameter(0)\n u = f32[1,10] parameter(1)\n i = s32[] parameter(2)\n z = s32[] constant(0)\n n = {X} dynamic-update-slice(a, u, i, z)",
                                    f"{X} negate(n)", X, "f32[1,10]", "s32[]"),
     [60, 0, 240 + 240 + 40 + 4], "only an update of the result is in place")  # fmt: skip
case("fusion_dynamic_slice", fusion(f" a = {X} parameter(0)\n i = s32[] parameter(1)\n z = s32[] constant(0)\n n = f32[1,10] dynamic-slice(a, i, z), dynamic_slice_sizes={{1,10}}",
                                    "f32[1,10] negate(n)", X, "s32[]", result="f32[1,10]"))  # fmt: skip
case("fusion_bitcast", fusion(f" a = {X} parameter(0)\n b = f32[60] bitcast(a)\n s = f32[5] slice(b), slice={{[0:5]}}", "f32[5] negate(s)", X, result="f32[5]"),
     [5, 0, 40], "a bitcast is looked through")  # fmt: skip
case("fusion_tuple", fusion(f" a = {X} parameter(0)\n n = {X} negate(a)\n e = f32[6,10] exponential(a)", f"({X}, {X}) tuple(n, e)", X, result=f"({X}, {X})"))  # fmt: skip
case("fusion_constant", fusion(" a = f32[4] parameter(0)\n c = f32[4] constant({1,2,3,4})\n d = f32[] constant(2)\n e = f32[4] broadcast(d), dimensions={}\n m = f32[4] multiply(a, c)",
                               "f32[4] add(m, e)", "f32[4]", result="f32[4]"))  # fmt: skip
case("fusion_nested", fusion(f" a = {X} parameter(0)", f"{X} fusion(a), kind=kLoop, calls=g", X,
                             called=f"g {{ a = {X} parameter(0)\n s = f32[1,10] slice(a), slice={{[0:1],[0:10]}}\n k = f32[10] reshape(s)\n ROOT b = {X} broadcast(k), dimensions={{1}} }}\n"),
     [0, 0, 40 + 240], "what a fusion inside a fusion reads is read")  # fmt: skip
case("fusion_dot", fusion(f" a = {X} parameter(0)\n b = f32[10,4] parameter(1)\n d = f32[6,4] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
                          "f32[6,4] negate(d)", X, "f32[10,4]", kind="kCustom", result="f32[6,4]"))  # fmt: skip

# Calls, branches, loops
BODY = f"""body {{ s = (s32[], {X}) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 x = {X} get-tuple-element(s), index=1
 one = s32[] constant(STEP)
 n = s32[] add(i, one)
 y = {X} multiply(x, x)
 ROOT t = (s32[], {X}) tuple(n, y) }}
"""
COND = f"""cond {{ s = (s32[], {X}) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(BOUND)
 ROOT c = pred[] compare(i, n), direction=DIR }}
"""


def loop(start, step, bound, direction, config="", turned=False):
    cond = COND.replace("BOUND", str(bound)).replace("DIR", direction)
    if turned:
        cond = cond.replace("compare(i, n)", "compare(n, i)")
    return f"""HloModule m
{BODY.replace("STEP", str(step))}{cond}ENTRY e {{ x = {X} parameter(0)
 z = s32[] constant({start})
 t = (s32[], {X}) tuple(z, x)
 w = (s32[], {X}) while(t), condition=cond, body=body{config}
 ROOT g = {X} get-tuple-element(w), index=1 }}"""


PER_BODY, PER_COND = [61, 0, 12 + 3 * size(X)], [1, 0, 4 + 4 + 1]
LOOP = "a loop counts as often as it runs"


def loops(n):
    return [n * b + (n + 1) * c for b, c in zip(PER_BODY, PER_COND)]


for name, args, n in (("while_lt", (0, 1, 7, "LT"), 7), ("while_le", (2, 3, 20, "LE"), 7), ("while_gt", (9, -2, 0, "GT"), 5),
                      ("while_ge", (9, -2, 1, "GE"), 5), ("while_ne", (0, 4, 20, "NE"), 5), ("while_never", (9, 1, 3, "LT"), 0)):  # fmt: skip
    case(name, loop(*args), loops(n), LOOP)
case("while_turned", loop(0, 1, 7, "GT", turned=True), loops(7), LOOP)
case("while_known", loop(0, 1, 7, "NE", config=', backend_config={"known_trip_count":{"n":"5"}}'), loops(5), LOOP)
case("while_endless", loop(0, -1, 7, "LT"), None)
CASES["while_endless"].update(here=[None, 0, None], why="a loop that never ends has no cost")
case("while_unknown", loop(0, 1, 7, "LT").replace("z = s32[] constant(0)", "z = s32[] parameter(1)"))
CASES["while_unknown"].update(here=[None, 0, None], why="how often it runs nothing says")
case("conditional", f"""HloModule m
t {{ a = {X} parameter(0)
 ROOT r = {X} exponential(a) }}
f {{ a = {X} parameter(0)
 b = {X} multiply(a, a)
 ROOT r = {X} add(b, b) }}
ENTRY e {{ p = pred[] parameter(0)
 x = {X} parameter(1)
 ROOT c = {X} conditional(p, x, x), true_computation=t, false_computation=f }}""")
case("call", f"""HloModule m
f {{ a = {X} parameter(0)
 ROOT b = {X} multiply(a, a) }}
ENTRY e {{ x = {X} parameter(0)
 ROOT c = {X} call(x), to_apply=f }}""")

# Libraries and kernels
LIBRARY = "XLA's analysis knows no library"
DOT = '"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"],"lhs_batch_dimensions":[],"rhs_batch_dimensions":[]}'
GEMM = 2 * 6 * 4 * 10
GEMM_BYTES = size(X, "f32[10,4]", "f32[6,4]")


def custom(result, target, *operands, config="", attributes=""):
    config = f", backend_config={config}" if config else ""
    return single(result, "custom-call", *operands, attributes=f'custom_call_target="{target}"{attributes}{config}')


case("cublas", custom("(f32[6,4], s8[4096])", "__cublas$gemm", X, "f32[10,4]", config=f'{{"gemm_backend_config":{{{DOT}}}}}'),
     [GEMM, 0, GEMM_BYTES], LIBRARY)  # fmt: skip
case("cublas_lt", custom("f32[6,4]", "__cublas$lt$matmul", X, "f32[10,4]", "f32[4]", config=f'{{"gemm_backend_config":{{"epilogue":"BIAS",{DOT}}}}}'),
     [GEMM, 0, GEMM_BYTES + 16], LIBRARY)  # fmt: skip
case("cublas_old", custom("f32[6,4]", "__cublas$gemm", X, "f32[10,4]", config="{" + DOT.replace('["1"]', "[1]").replace('["0"]', "[0]") + "}"),
     [GEMM, 0, GEMM_BYTES], LIBRARY)  # fmt: skip
case("cublas_silent", custom("f32[6,4]", "__cublas$gemm", X, "f32[10,4]"), [None, 0, None], LIBRARY)
case("cublas_beside_fusion", f"""HloModule m
f {{ a = {X} parameter(0)
 ROOT n = {X} negate(a) }}
ENTRY e {{ p0 = {X} parameter(0)
 p1 = f32[10,4] parameter(1)
 z = {X} fusion(p0), kind=kLoop, calls=f, metadata={{op_name="jit(m)/neg" source_file="m.py" source_line=3}}
 ROOT r = f32[6,4] custom-call(z, p1), custom_call_target="__cublas$gemm", backend_config={{{DOT}}} }}""",
     [60 + GEMM, 0, 2 * size(X) + GEMM_BYTES], LIBRARY)  # fmt: skip
case("barrier", f"""HloModule m
ENTRY e {{ p = {X} parameter(0)
 ROOT r = {X} opt-barrier(p) }}""", [0, 0, 0], "no code")  # fmt: skip
CONV = ', window={size=3 pad=1_1}, dim_labels=bf0_oi0->bf0'
CONV_SHAPES = ("f32[2,3,8]", "f32[5,3,3]", "f32[2,5,8]")
CONV_FLOP = 2 * 3 * 5 * 2 * (3 * 8 - 2)
for direction, (result, a, b) in (("Forward", (2, 0, 1)), ("BackwardInput", (0, 2, 1)), ("BackwardFilter", (1, 0, 2))):
    case(f"cudnn_{direction}", custom(f"({CONV_SHAPES[result]}, u8[128])", f"__cudnn$conv{direction}", CONV_SHAPES[a], CONV_SHAPES[b], attributes=CONV),
         [CONV_FLOP, 0, size(*CONV_SHAPES)], LIBRARY)  # fmt: skip
case("onednn", custom("f32[6,4]", "__onednn$matmul", "f32[10,6]", "f32[10,4]", config='{"onednn_matmul_config":{"transpose_a":true}}'),
     [GEMM, 0, GEMM_BYTES], LIBRARY)  # fmt: skip
case("kernel_estimated", custom("f32[6,4]", "tpu_custom_call", X, config='{"custom_call_config":{"body":"AAAA","cost_estimate":{"flops":"1234","transcendentals":"56","bytes_accessed":"7890"}}}'),
     [1234, 56, 7890], LIBRARY)  # fmt: skip
BODIES = {n: base64.b64encode(b"ML\xefR" + bytes(n) + b"tpu.wait\0tpu.matmul\0tpu.yield").decode() for n in range(3)}
for n, body in BODIES.items():
    case(f"kernel_product{n}", custom("f32[6,4]", "tpu_custom_call", X, "f32[4,10]" if n else "f32[10,4]", config=f'{{"custom_call_config":{{"body":"{body}"}}}}'),
         [GEMM, 0, GEMM_BYTES], LIBRARY)  # fmt: skip
case("kernel_sum", custom(X, "tpu_custom_call", X, X, config=f'{{"custom_call_config":{{"body":"{base64.b64encode(b"tpu.vector_store").decode()}"}}}}'),
     [None, 0, None], LIBRARY)  # fmt: skip
case("kernel_attention", custom("f32[6,4]", "tpu_custom_call", X, "f32[6,10]", "f32[6,4]", config=f'{{"custom_call_config":{{"body":"{BODIES[0]}"}}}}'),
     [None, 0, None], LIBRARY)  # fmt: skip
case("custom_unknown", custom(X, "somebody", X), [None, 0, None], LIBRARY)
case("custom_sharding", custom(X, "Sharding", X), [0, 0, 0], LIBRARY)
# The TPU compiler's name for values that already lie one behind the other. XLA counts -1 of everything for each, seconds, too.
case("concat_bitcast", custom("f32[12,10]", "ConcatBitcast", X, X), [0, 0, 0], "a view")
case("concat_bitcast_beside", f"""HloModule m
ENTRY e {{ p0 = {X} parameter(0)
 p1 = {X} parameter(1)
 z = f32[12,10] custom-call(p0, p1), custom_call_target="ConcatBitcast"
 ROOT r = f32[12,10] negate(z) }}""", [120, 0, 2 * size("f32[12,10]")], "a view")  # fmt: skip


# As jax makes them, optimised for this machine
def compiled(f, *shapes):
    return jax.jit(f).lower(*[jax.ShapeDtypeStruct(s, jnp.float32) for s in shapes]).compile().runtime_executable().hlo_modules()[0]


def attention(x, w):
    q = x @ w
    return jax.nn.softmax(q @ x.T, axis=-1) @ x


case("jax_attention", compiled(attention, (8, 16), (16, 16)))


def part(module, name):
    """XLA's figures of one computation of a module."""
    blocks = module.to_string().split("\n\n")[1:]
    keep = [b for b in blocks if not b.startswith("ENTRY ")]
    text = "\n\n".join("ENTRY " + b if b.startswith(f"%{name} ") else b for b in keep)
    return analyse(_hlo.hlo_module_from_text("HloModule m\n\n" + text))


TRIPS = 6
scan = compiled(lambda x, w: jax.lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, length=TRIPS)[0], (8, 16), (16, 16))
whole, body, cond = analyse(scan), *(part(scan, re.search(k + r"=%([\w.-]+)", scan.to_string())[1]) for k in ("body", "condition"))
here = [w + (TRIPS - 1) * b + TRIPS * c for w, b, c in zip(whole, body, cond)]
here[2] -= (TRIPS + 1) * 3 * 8  # XLA has a tuple write its table of pointers: once before the loop, once in each run
case("jax_scan", scan, here, LOOP)

# Replica groups in all forms, and the lists they stand for
def mesh(sizes, devices, *last):
    """Groups along axes of a reshaped mesh, in that order."""
    a = np.array(devices).reshape(sizes)
    first = [i for i in range(len(sizes)) if i not in last]
    return a.transpose(first + list(last)).reshape(-1, math.prod(sizes[i] for i in last)).tolist()


GROUP_CASES = []
for form, lists in (
    ("{{0,3},{2,1}}", [[0, 3], [2, 1]]),
    ("[2,3]<=[6]", np.arange(6).reshape(2, 3).tolist()),
    ("[4,2]<=[2,4]T(1,0)", np.arange(8).reshape(2, 4).transpose(1, 0).reshape(4, 2).tolist()),
    ("[6,2]<=[2,3,2]T(2,0,1)", np.arange(12).reshape(2, 3, 2).transpose(2, 0, 1).reshape(6, 2).tolist()),
    ("mesh['a'=2,'b'=3] {'a'}", mesh([2, 3], range(6), 0)),
    ("mesh['a'=2,'b'=3] {'b'}", mesh([2, 3], range(6), 1)),
    ("mesh['a'=2,'b'=3,'c'=2] {'c','a'}", mesh([2, 3, 2], range(12), 2, 0)),
    ("mesh['a'=8] {'a':(2)2}", mesh([2, 2, 2], range(8), 1)),
    ("mesh['a'=8,'b'=3] {'a':(1)2,'a':(4)2}", mesh([2, 2, 2, 3], range(24), 0, 2)),
    ("mesh['a'=2,'b'=2], device_ids=(2,0,3,1) {'b'}", mesh([2, 2], [2, 0, 3, 1], 1)),
):  # fmt: skip
    text = single(X, "all-reduce", X, before=ADD, attributes=f"replica_groups={form}, channel_id=1, use_global_device_ids=true, to_apply=add")
    module = _hlo.hlo_module_from_text(text)
    GROUP_CASES.append({"form": form, "module": module.as_serialized_hlo_module_proto().hex(), "lists": lists})

json.dump({"versions": {"jax": jax.__version__, "jaxlib": jaxlib.__version__}, "cases": CASES, "groups": GROUP_CASES}, open(OUT, "w"), indent=0)
if __name__ == "__main__":
    for name, row in CASES.items():
        print(name, row["xla"], row.get("here", ""))
