# SPDX-License-Identifier: Apache-2.0
"""Programs as XLA dumps them, text and message of each, before and after optimisation, and the same in other forms.

    build-oracle/venv/bin/python tests/oracle/hlo_programs.py      writes tests/fixtures/ir/programs/

NAME.before_optimizations.txt and .hlo.pb, NAME.after_optimizations.txt and .hlo.pb: a dump of XLA's CPU compiler.
NAME.old.txt and .hlo.pb: the optimised one as older versions print it, with the shapes of operands and without '%', all
constants written out.
"""
import glob
import os
import re
import shutil
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxlib import _hlo

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(TOP, "tests/fixtures/ir/programs")
jax.config.update("jax_hlo_source_file_canonicalization_regex", re.escape(TOP) + "/")


def write(name, data):
    with open(os.path.join(OUT, name), "wb") as f:
        f.write(data)


def forms(name, proto):
    module = _hlo.XlaComputation(proto).get_hlo_module()
    old = _hlo.HloPrintOptions()
    old.print_operand_shape = True
    old.print_percent = False
    old.print_large_constants = True
    write(name + ".old.txt", module.to_string(old).encode())
    write(name + ".old.hlo.pb", module.as_serialized_hlo_module_proto())


def program(name, f, *args, keep_forms=False, **how):
    with tempfile.TemporaryDirectory() as d:
        options = {"xla_dump_to": d, "xla_dump_hlo_as_text": True, "xla_dump_hlo_as_proto": True}
        jax.jit(f, **how).lower(*args).compile(compiler_options=options)
        for stage in ("before_optimizations", "after_optimizations"):
            for ending in ("txt", "hlo.pb"):
                found = [p for p in glob.glob(f"{d}/*jit_{f.__name__}*{stage}.{ending}") if "buffer" not in p]
                assert len(found) == 1, (found, os.listdir(d))
                with open(found[0], "rb") as file:
                    data = file.read()
                write(f"{name}.{stage}.{ending}", data)
                if keep_forms and stage == "after_optimizations" and ending == "hlo.pb":
                    # An HloProto: the module is its field 1.
                    assert data[0] == 0x0A
                    n = shift = 0
                    at = 1
                    while True:
                        n |= (data[at] & 127) << shift
                        shift += 7
                        at += 1
                        if data[at - 1] < 128:
                            break
                    forms(name, data[at : at + n])


def S(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def mlp(x, w, v):
    return jax.nn.softmax(jax.nn.gelu(x @ w) @ v)


def train(x, w):
    def step(carry, xs):
        w, m = carry
        g = jax.grad(lambda w: jnp.mean(jnp.tanh(xs @ w) ** 2))(w)
        m = 0.9 * m + g
        return (w - 0.1 * m, m), jnp.sum(g * g)

    return jax.lax.scan(step, (w, jnp.zeros_like(w)), x)


def odds(x, i, key):
    y = jnp.sort(x, axis=1)[:, ::-1]
    z = x.at[i].add(1.0)[i]
    c = jax.lax.conv_general_dilated(x.reshape(1, 1, 6, 10), jnp.ones((2, 1, 3, 3)), (2, 1), "SAME", rhs_dilation=(1, 2))
    u = jax.lax.rng_bit_generator(key, (6, 10))[1]
    s = jax.lax.linalg.cholesky(x @ x.T + 6 * jnp.eye(6))
    t = jax.lax.linalg.triangular_solve(s, x, left_side=True, lower=True)
    r = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (2, 2), (2, 2), "VALID")
    f = jnp.fft.rfft(x).real
    p = jax.lax.cond(x[0, 0] > 0, lambda a: a * 2, lambda a: a - 1, x)
    q = jax.lax.while_loop(lambda a: jnp.sum(a) < 100, lambda a: a * 2, jnp.abs(x) + 1)
    k = jax.lax.top_k(x, 3)[0]
    d = jax.lax.dynamic_update_slice(x, jnp.ones((1, 1)), (i[0], i[1]))
    return y, z, c, u, t, r, f, p, q, k, d, x.astype(jnp.bfloat16), jnp.cumsum(x, 1), jnp.pad(x, ((1, 0), (2, 3)))


def encoder(tokens, table, layers):
    x = jnp.take(table, tokens, axis=0, mode="clip")
    mask = (tokens != 0)[:, None, :]
    for i, (wq, wk, wv, wo, up, down, scale) in enumerate(layers):
        with jax.named_scope(f"layers_{i}"):
            with jax.named_scope("attention"):
                q, k, v = x @ wq, x @ wk, x @ wv
                scores = jnp.where(mask, jnp.einsum("bqd,bkd->bqk", q, k) / 4, -jnp.inf)
                x = x + jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(scores), v) @ wo
            with jax.named_scope("mlp"):
                mean = jnp.mean(x, -1, keepdims=True)
                h = (x - mean) * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-6) * scale
                x = x + jax.nn.gelu(h @ up) @ down
    with jax.named_scope("pool"):
        return x[:, 0], jnp.max(x, axis=1)


def sharded(x, w):
    h = jax.lax.with_sharding_constraint(x @ w, NamedSharding(MESH, P("data", "model")))
    return jnp.sum(jnp.tanh(h) @ w.T, axis=0)


shutil.rmtree(OUT, ignore_errors=True)
os.makedirs(OUT)
MESH = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
write("VERSIONS", f"jax {jax.__version__}, jaxlib {jaxlib.__version__}\n".encode())
program("mlp", mlp, S(8, 64), S(64, 256), S(256, 16), keep_forms=True)
program("train", train, S(10, 16, 32), S(32, 8))
program("odds", odds, S(6, 10), S(3, dtype=jnp.int32), S(4, dtype=jnp.uint32), keep_forms=True)
LAYER = (S(16, 16), S(16, 16), S(16, 16), S(16, 16), S(16, 32), S(32, 16), S(16))
program("encoder", encoder, S(2, 5, dtype=jnp.int32), S(50, 16), (LAYER, LAYER))
program("sharded", sharded, S(16, 64), S(64, 32),
        in_shardings=(NamedSharding(MESH, P("data", None)), NamedSharding(MESH, P(None, "model"))))  # fmt: skip


def classifier(params, x):  # docs/from-jax.md
    with jax.named_scope("hidden"):
        h = jax.nn.relu(x @ params["w1"] + params["b1"])
    with jax.named_scope("out"):
        return h @ params["w2"] + params["b2"]


PARAMS = {"w1": S(784, 512), "b1": S(512), "w2": S(512, 10), "b2": S(10)}
write("classifier.hlo.pb", jax.jit(classifier).lower(PARAMS, S(64, 784)).compiler_ir("hlo").as_serialized_hlo_module_proto())
