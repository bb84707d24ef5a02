# SPDX-License-Identifier: Apache-2.0
"""FLUX.2 in small, with random weights, from diffusers and transformers.

    build-oracle/venv/bin/python tests/oracle/flux2_tiny.py      writes tests/fixtures/ir/flux2_tiny.*

Weights are no fixture: they are drawn from numpy's default_rng, seeded with the CRC-32 of their names, by
`drawn` here and by the test. Everything runs in f64; where the libraries fall back to f32 (norms, rotary positions,
softmax, waves of the time) they are patched to f64, but for the rotary tables, which are rounded to f32: they are
inputs of our program.

flux2_tiny.json, .bin   inputs and outputs: arrays are [type, extents, offset].
"""
import json
import os
import sys
import zlib

os.environ["HF_HUB_OFFLINE"] = "1"
import diffusers
import numpy as np
import torch
import transformers
from diffusers.models import embeddings
from diffusers.models.transformers import transformer_flux2
from transformers.models.qwen3 import modeling_qwen3

F32, F64 = torch.float32, torch.float64
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(TOP, "tests/fixtures/ir")
NAMES = {np.dtype(np.float64): "f64", np.dtype(np.float32): "f32", np.dtype(np.int32): "s32"}
TEXT_TOKENS, ROWS, COLUMNS = 20, 3, 5
# Weights that our graph stacks are drawn as one, under the name of the first.
STACKS = [["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], ["mlp.gate_proj", "mlp.up_proj"],
          ["attn.to_q", "attn.to_k", "attn.to_v"], ["attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"]]  # fmt: skip

blob = bytearray()


def place(array):
    array = np.ascontiguousarray(array)
    offset = len(blob)
    blob.extend(array.tobytes())
    return [NAMES[array.dtype], list(array.shape), offset]


class Wide:
    """torch, in which f32 is f64."""

    float32 = float = F64

    def __getattr__(self, name):
        return getattr(torch, name)


def in_f64(module, function):
    def run(*arguments, **named):
        kept, module.torch, torch.Tensor.float = (module.torch, torch.Tensor.float), Wide(), torch.Tensor.double
        try:
            return function(*arguments, **named)
        finally:
            module.torch, torch.Tensor.float = kept

    return run


# Where the libraries compute in f32 whatever a model's type is: what is called where, and which module says f32.
CASTS = {
    "text norms": (modeling_qwen3.Qwen3RMSNorm, "forward", modeling_qwen3),
    "text angles": (modeling_qwen3.Qwen3RotaryEmbedding, "forward", modeling_qwen3),
    "text softmax": (modeling_qwen3, "eager_attention_forward", modeling_qwen3),
    "time waves": (embeddings, "get_timestep_embedding", embeddings),
    "rotation": (transformer_flux2, "apply_rotary_emb", embeddings),
}


def patch(casts=tuple(CASTS)):
    """f64 where the libraries say f32; gives what takes that back."""
    kept = [(CASTS[c][0], CASTS[c][1], getattr(*CASTS[c][:2])) for c in casts]
    for c in casts:
        where, name, module = CASTS[c]
        setattr(where, name, in_f64(module, getattr(where, name)))
    return lambda: [setattr(*k) for k in kept]


def rounded(_module, _arguments, tables):
    return tuple(t.to(F32).to(F64) for t in tables)


def frequencies(model, dtype=F64):
    """Of the rotary positions of a text encoder, in the type that they are computed in."""
    config = model.config
    exponents = torch.arange(0, config.head_dim, 2, dtype=dtype) / config.head_dim
    return 1.0 / config.rope_parameters["rope_theta"] ** exponents


def drawn(name, shape):
    """The same in the test: tests/unit/test_models_flux2_plugin.c."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    n = int(np.prod(shape))
    if name.endswith("running_var"):
        values = random.uniform(0.5, 1.5, n)
    elif len(shape) > 1:
        values = random.normal(0.0, 1 / np.sqrt(n // shape[0]), n)
    elif name.endswith("running_mean"):
        values = random.normal(0.0, 0.2, n)
    elif name.endswith("bias"):
        values = random.normal(0.0, 0.1, n)
    else:
        values = random.normal(1.0, 0.1, n)
    return values.astype(np.float32).reshape(shape)


def fill(model):
    """Random weights in place of the initial ones, all of them: initial norms and biases hide mistakes."""
    state, stacked = model.state_dict(), set()
    for stack in STACKS:
        for name in [n for n in state if n.endswith(stack[0] + ".weight") and "mid_block" not in n]:
            group = [name.replace(stack[0], part) for part in stack]
            rows = [state[n].shape[0] for n in group]
            whole = drawn(name, (sum(rows), *state[name].shape[1:]))
            for n, part in zip(group, np.split(whole, np.cumsum(rows)[:-1])):
                state[n] = torch.from_numpy(part.copy())
                stacked.add(n)
    for name in state:
        if name not in stacked and name != "lm_head.weight" and state[name].is_floating_point():  # which is the table
            state[name] = torch.from_numpy(drawn(name, tuple(state[name].shape)))
    model.load_state_dict(state)
    return model.double().eval()


def outputs_of(modules, run):
    """What each module hands on, in order."""
    kept = []
    hooks = [m.register_forward_hook(lambda _m, _a, out: kept.append(out)) for m in modules]
    result = run()
    for hook in hooks:
        hook.remove()
    return result, kept


def text_model(nine=False):
    """nine: as klein-9B is to klein-4B: the text encoder as wide as the transformer, its table not its head."""
    config = transformers.Qwen3Config(hidden_size=64 if nine else 48, intermediate_size=192 if nine else 96, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2,
                                      head_dim=16, rms_norm_eps=1e-6, rope_parameters={"rope_type": "default", "rope_theta": 1e6}, vocab_size=512,
                                      tie_word_embeddings=not nine, attn_implementation="eager", use_sliding_window=False)  # fmt: skip
    return transformers.Qwen3ForCausalLM(config)


def text():
    model = text_model()
    rotary = frequencies(model)
    assert abs(rotary[1].item() - 1e6 ** (-2 / 16)) < 1e-12 and torch.equal(model.model.rotary_emb.inv_freq, frequencies(model, F32))
    fill(model)
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    model.model.rotary_emb.inv_freq = rotary
    model.model.rotary_emb.register_forward_hook(rounded)
    generator = np.random.default_rng(11)
    ids = generator.integers(0, 512, (3, TEXT_TOKENS), dtype=np.int32)
    real = np.array([TEXT_TOKENS, 12, 3])  # the last: heavy padding
    mask = (np.arange(TEXT_TOKENS)[None, :] < real[:, None]).astype(np.int32)
    run = model(input_ids=torch.from_numpy(ids).long(), attention_mask=torch.from_numpy(mask).long(), output_hidden_states=True, use_cache=False)
    hidden = run.hidden_states
    context = torch.stack([hidden[i] for i in (1, 3, 5)], 1).permute(0, 2, 1, 3).reshape(3, TEXT_TOKENS, 144)
    # Two tokens behind a prompt of 18, every token real.
    full = model(input_ids=torch.from_numpy(ids).long(), use_cache=False).logits
    return context, {
        "input_ids": place(ids), "attention_mask": place(mask), "layers": [place(hidden[i].numpy()) for i in (1, 2, 3, 4, 5)],
        "context": place(context.numpy()), "logits": place(full[:, -3:].contiguous().numpy()),
    }  # fmt: skip


def transformer_model(nine=False):
    return diffusers.Flux2Transformer2DModel(patch_size=1, in_channels=16, num_layers=3 if nine else 2, num_single_layers=4 if nine else 3, attention_head_dim=32, num_attention_heads=2,
                                              joint_attention_dim=192 if nine else 144, timestep_guidance_channels=256, mlp_ratio=3.0, axes_dims_rope=(8, 8, 8, 8),
                                              rope_theta=2000, eps=1e-6, guidance_embeds=False)  # fmt: skip


def transformer(context):
    model = transformer_model()
    fill(model)
    model.pos_embed.register_forward_hook(rounded)
    generator = np.random.default_rng(12)
    context = context[:2]
    cases = []
    for time, references in ((0.75, []), (0.25, [(2, 3), (4, 2)])):
        tokens = ROWS * COLUMNS + sum(h * w for h, w in references)
        latent = generator.standard_normal((2, tokens, 16)).astype(np.float32)
        ids = [torch.cartesian_prod(torch.arange(1), torch.arange(ROWS), torch.arange(COLUMNS), torch.arange(1))]
        for i, (h, w) in enumerate(references):
            ids.append(torch.cartesian_prod(torch.tensor([10 + 10 * i]), torch.arange(h), torch.arange(w), torch.arange(1)))
        words = torch.cartesian_prod(torch.arange(1), torch.arange(1), torch.arange(1), torch.arange(TEXT_TOKENS))

        def run():
            return model(hidden_states=torch.from_numpy(latent).double(), encoder_hidden_states=context.to(F32).to(F64), timestep=torch.full((2,), time, dtype=F64),
                         img_ids=torch.cat(ids), txt_ids=words, return_dict=False)[0]  # fmt: skip

        velocity, kept = outputs_of([*model.transformer_blocks, *model.single_transformer_blocks], run)
        trace = [place(t.numpy()) for pair in kept[:2] for t in pair] + [place(t.numpy()) for t in kept[2:]]
        cases.append({"timestep": 1000 * time, "references": references, "latent": place(latent), "trace": trace,
                      "velocity": place(velocity[:, : ROWS * COLUMNS].contiguous().numpy())})  # fmt: skip
    return {"context": place(context.to(F32).numpy()), "cases": cases}


def image_model():
    return diffusers.AutoencoderKLFlux2(block_out_channels=(8, 16, 32, 32), down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
                                         layers_per_block=2, latent_channels=4, norm_num_groups=4, sample_size=64, use_quant_conv=True, use_post_quant_conv=True,
                                         mid_block_add_attention=True, batch_norm_eps=1e-4)  # fmt: skip


def images():
    model = image_model()
    fill(model)
    pipeline = diffusers.Flux2KleinPipeline
    generator = np.random.default_rng(13)
    latent = generator.standard_normal((1, ROWS * COLUMNS, 16)).astype(np.float32)
    mean, deviation = model.bn.running_mean.view(1, -1, 1, 1), torch.sqrt(model.bn.running_var.view(1, -1, 1, 1) + 1e-4)
    packed = torch.from_numpy(latent).double().reshape(1, ROWS, COLUMNS, 16).permute(0, 3, 1, 2)
    unfolded = pipeline._unpatchify_latents(packed * deviation + mean)
    image, kept = outputs_of([model.decoder.mid_block, *model.decoder.up_blocks], lambda: model.decode(unfolded).sample)
    # A picture of values that are all over the range, and the mean of what it is encoded to.
    picture = generator.uniform(-1, 1, (1, 3, 16 * ROWS, 16 * COLUMNS)).astype(np.float32)
    moments = model.encode(torch.from_numpy(picture).double()).latent_dist.mode()
    folded = (pipeline._patchify_latents(moments) - mean) / deviation
    last = lambda t: np.ascontiguousarray(t.permute(0, 2, 3, 1).numpy())
    return {"latent": place(latent), "mid": place(last(kept[0])), "image": place(last(image)), "picture": place(np.ascontiguousarray(picture.transpose(0, 2, 3, 1))),
            "encoded": place(pipeline._pack_latents(folded).contiguous().numpy())}  # fmt: skip


@torch.inference_mode()
def main():
    patch()
    context, encoder = text()
    index = {
        "made_by": "tests/oracle/flux2_tiny.py",
        "versions": {"diffusers": diffusers.__version__, "transformers": transformers.__version__, "torch": torch.__version__.split("+")[0],
                     "numpy": np.__version__, "python": "%d.%d" % sys.version_info[:2]},
        "text_tokens": TEXT_TOKENS, "rows": ROWS, "columns": COLUMNS, "text": encoder, "transformer": transformer(context), "autoencoder": images(),
    }  # fmt: skip
    with open(os.path.join(OUT, "flux2_tiny.bin"), "wb") as f:
        f.write(blob)
    with open(os.path.join(OUT, "flux2_tiny.json"), "w", encoding="ascii") as f:
        json.dump(index, f, indent=1)
        f.write("\n")
    print(len(blob), "bytes")


if __name__ == "__main__":
    main()
