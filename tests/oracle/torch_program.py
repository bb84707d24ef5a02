# SPDX-License-Identifier: Apache-2.0
"""A model from PyTorch, exported as docs/from-pytorch.md says, with weights and inputs and what PyTorch makes of them.

    $(tests/oracle/venv torchax) tests/oracle/torch_program.py      writes tests/fixtures/lab/torch/

encoder.mlir: two layers of attention and MLP behind an embedding, as the portable artifact of jax.export, with module names as
scopes. encoder.safetensors: its parameters and buffers by their names in the model. inputs.npz: tokens, by position. expected.npz: the
output of the model itself, in PyTorch.
"""
import os
import shutil

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import numpy as np
import safetensors.numpy
import torch
import torchax
import torchax.export

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(TOP, "tests/fixtures/lab/torch")
jax.config.update("jax_traceback_in_locations_limit", 0)  # no paths of this machine
HIDDEN, HEADS = 16, 2


def run_node(self, node):  # docs/from-pytorch.md
    modules = list((node.meta.get("nn_module_stack") or {"": ("",)}).values())
    with jax.named_scope(modules[-1][0].replace(".", "/") or "main"):
        return torch.fx.Interpreter.run_node(self, node)


torchax.export.JaxInterpreter.run_node = run_node


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = torch.nn.LayerNorm(HIDDEN)
        self.qkv = torch.nn.Linear(HIDDEN, 3 * HIDDEN)
        self.out = torch.nn.Linear(HIDDEN, HIDDEN)
        self.norm2 = torch.nn.LayerNorm(HIDDEN)
        self.up = torch.nn.Linear(HIDDEN, 2 * HIDDEN)
        self.down = torch.nn.Linear(2 * HIDDEN, HIDDEN)

    def forward(self, x):
        batch, seq, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, seq, 3, HEADS, HIDDEN // HEADS).permute(2, 0, 3, 1, 4)
        attended = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, seq, HIDDEN))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(40, HIDDEN)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(2))
        self.norm = torch.nn.LayerNorm(HIDDEN)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x).mean(1)


shutil.rmtree(OUT, ignore_errors=True)
os.makedirs(OUT)
torch.manual_seed(0)
model = Encoder().eval()
x = torch.randint(0, 40, (2, 6), dtype=torch.int32)

# docs/from-pytorch.md
ep = torch.export.export(model, (x,))
states, f = torchax.export.exported_program_to_jax(ep)
names = [*ep.graph_signature.parameters, *ep.graph_signature.buffers, *ep.graph_signature.lifted_tensor_constants]
run = jax.jit(lambda weights, *inputs: f([weights[n] for n in names], inputs))
exported = jax.export.export(run)(dict(zip(names, states)), x.numpy())

with open(os.path.join(OUT, "encoder.mlir"), "wb") as file:
    file.write(exported.mlir_module_serialized)
weights = {name: np.asarray(state) for name, state in zip(names, states)}
safetensors.numpy.save_file(weights, os.path.join(OUT, "encoder.safetensors"))
np.savez(os.path.join(OUT, "inputs.npz"), x.numpy())
with torch.no_grad():
    np.savez(os.path.join(OUT, "expected.npz"), embedding=model(x).numpy())
with open(os.path.join(OUT, "VERSIONS"), "w", encoding="utf-8") as file:
    file.write(f"torch {torch.__version__.split('+')[0]}, torchax {torchax.__version__}, jax {jax.__version__}\n")
