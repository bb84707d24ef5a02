# SPDX-License-Identifier: Apache-2.0
"""Programs as jax.export writes them, in each form that people save.

    build-oracle/venv/bin/python tests/oracle/stablehlo_programs.py      writes tests/fixtures/ir/stablehlo/

classifier is the function of docs/from-jax.md: classifier.mlir is its text, classifier.mlirbc the portable artifact
(mlir_module_serialized), classifier.exported the whole Exported. classifier.safetensors and classifier.npz are weights and
inputs for it, and expected.npz what JAX makes of them. dynamic.mlirbc has a batch that is a symbol; sharded.mlirbc is divided
over a mesh of 2 x 4 devices by Shardy.
"""
import os
import re
import shutil

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import safetensors
import safetensors.numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(TOP, "tests/fixtures/ir/stablehlo")
jax.config.update("jax_hlo_source_file_canonicalization_regex", re.escape(TOP) + "/")


def write(name, data):
    with open(os.path.join(OUT, name), "wb") as f:
        f.write(data)


def S(*shape, spec=None):
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=spec and NamedSharding(MESH, spec))


def classifier(params, images):  # docs/from-jax.md
    with jax.named_scope("hidden"):
        h = jax.nn.relu(images @ params["w1"] + params["b1"])
    with jax.named_scope("out"):
        return h @ params["w2"] + params["b2"]


def sharded(x, w):
    h = jax.lax.with_sharding_constraint(x @ w, NamedSharding(MESH, P("data", "model")))
    return jnp.tanh(h) @ w.T


shutil.rmtree(OUT, ignore_errors=True)
os.makedirs(OUT)
MESH = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
write("VERSIONS", f"jax {jax.__version__}, jaxlib {jaxlib.__version__}, safetensors {safetensors.__version__}\n".encode())
PARAMS = {"w1": S(64, 48), "b1": S(48), "w2": S(48, 10), "b2": S(10)}
exported = jax.export.export(jax.jit(classifier))(PARAMS, S(8, 64))
write("classifier.mlir", exported.mlir_module().encode())
write("classifier.mlirbc", exported.mlir_module_serialized)
write("classifier.exported", exported.serialize())

random = np.random.default_rng(6)
weights = {name: random.standard_normal(s.shape, np.float32) / 8 for name, s in PARAMS.items()}
images = random.standard_normal((8, 64), np.float32)
safetensors.numpy.save_file(weights, os.path.join(OUT, "classifier.safetensors"))
np.savez(os.path.join(OUT, "classifier.npz"), images=images)
np.savez(os.path.join(OUT, "expected.npz"), result=np.asarray(jax.jit(classifier)(weights, images)))

rows = jax.export.symbolic_shape("rows")[0]
dynamic = jax.export.export(jax.jit(classifier))(PARAMS, jax.ShapeDtypeStruct((rows, 64), jnp.float32))
write("dynamic.mlirbc", dynamic.mlir_module_serialized)
divided = jax.export.export(jax.jit(sharded))(S(16, 64, spec=P("data", None)), S(64, 32, spec=P(None, "model")))
write("sharded.mlirbc", divided.mlir_module_serialized)
