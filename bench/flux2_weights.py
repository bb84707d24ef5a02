# SPDX-License-Identifier: Apache-2.0
"""FLUX.2 klein 4B with random weights, as a folder in diffusers' layout. Tensors lie as `assay quantize` lays them out: no
holes, and each whose size is a multiple of 64 bytes at a multiple of 64. QUICK=1 makes it one block of each kind and three
layers of the text encoder: everything is there, and nothing takes long."""
import json
import os

os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="2")
import numpy as np
import torch
import transformers
from diffusers import AutoencoderKLFlux2, Flux2Transformer2DModel

QUICK = os.environ.get("QUICK", "0") not in ("", "0")
TRANSFORMER = dict(patch_size=1, in_channels=128, num_layers=1 if QUICK else 5, num_single_layers=1 if QUICK else 20, attention_head_dim=128, num_attention_heads=24,
                   joint_attention_dim=7680, timestep_guidance_channels=256, mlp_ratio=3.0, axes_dims_rope=[32, 32, 32, 32],
                   rope_theta=2000, eps=1e-6, guidance_embeds=False)  # fmt: skip
# As many layers as a request uses; the real checkpoint has nine more, which nobody runs.
TAPS = [1, 2, 3] if QUICK else [9, 18, 27]
TEXT = dict(hidden_size=2560, intermediate_size=9728, num_hidden_layers=TAPS[-1], num_attention_heads=32, num_key_value_heads=8,
            head_dim=128, rms_norm_eps=1e-6, vocab_size=151936, tie_word_embeddings=True, max_position_embeddings=40960,
            use_sliding_window=False)  # fmt: skip
VAE = dict(block_out_channels=[128, 256, 512, 512], down_block_types=["DownEncoderBlock2D"] * 4,
           up_block_types=["UpDecoderBlock2D"] * 4, layers_per_block=2, latent_channels=32, norm_num_groups=32, sample_size=1024,
           use_quant_conv=True, use_post_quant_conv=True, mid_block_add_attention=True, batch_norm_eps=1e-4)  # fmt: skip
FILES = {"transformer": "diffusion_pytorch_model", "text_encoder": "model", "vae": "diffusion_pytorch_model"}


def text_config():
    return transformers.Qwen3Config(**TEXT, rope_parameters={"rope_type": "default", "rope_theta": 1e6})


def build(part, **how):
    """The module without weights."""
    if part == "transformer":
        return Flux2Transformer2DModel(**TRANSFORMER).eval()
    if part == "vae":
        return AutoencoderKLFlux2(**VAE).eval()
    config = text_config()
    for key, value in how.items():
        setattr(config, key, value)
    return transformers.Qwen3Model(config).eval()


def shapes(part):
    with torch.device("meta"):
        state = build(part).state_dict()
    return {("model." if part == "text_encoder" else "") + n: tuple(t.shape) for n, t in state.items() if t.is_floating_point()}


class Values:
    """Normal values, of which every tensor takes a stretch from a place of its own: each is random by itself, and 14 GB
    are made as fast as they are copied."""

    POOL = 1 << 25

    def __init__(self):
        self.random = np.random.default_rng(1)
        self.normal = torch.from_numpy(self.random.standard_normal(self.POOL, dtype=np.float32))
        self.scaled = {}

    def pool(self, middle, deviation):
        key = (middle, deviation)
        if key not in self.scaled:
            self.scaled[key] = (self.normal * deviation + middle).bfloat16().view(torch.int16).numpy()
        return self.scaled[key]

    def fill(self, name, shape, out):
        if len(shape) > 1:
            pool = self.pool(0.0, (out.size // shape[0]) ** -0.5)
        elif name.endswith("running_var"):
            pool = self.pool(1.0, 0.15)  # six deviations from 0
        else:
            pool = self.pool(*((0.0, 0.1) if name.endswith(("bias", "running_mean")) else (1.0, 0.1)))
        at, start = 0, int(self.random.integers(self.POOL))
        while at < out.size:
            n = min(out.size - at, self.POOL - start)
            out[at : at + n] = pool[start : start + n]
            at, start = at + n, 0


def header(tensors, theirs=False):
    """The JSON, its length in front, and where each tensor begins in the data. `theirs`: as the library safetensors writes
    it, by name, at multiples of 8 bytes."""
    power = lambda shape: min(64, (n := 2 * int(np.prod(shape))) & -n)
    entries, at = {}, 0
    for name in sorted(tensors) if theirs else sorted(tensors, key=lambda n: -power(tensors[n])):  # stable
        n = 2 * int(np.prod(tensors[name]))
        entries[name] = {"dtype": "BF16", "shape": list(tensors[name]), "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(entries).encode()
    text += b" " * (-(8 + len(text)) % 64 + (8 if theirs else 0))
    return len(text).to_bytes(8, "little") + text, entries, at


def write(fd, part, values, theirs=False):
    """One safetensors file into a descriptor; its bytes."""
    tensors = shapes(part)
    head, entries, size = header(tensors, theirs)
    os.ftruncate(fd, len(head) + size)
    os.pwrite(fd, head, 0)
    longest = max(int(np.prod(s)) for s in tensors.values())
    room = np.empty(longest, np.int16)
    for name, entry in entries.items():
        piece = room[: (entry["data_offsets"][1] - entry["data_offsets"][0]) // 2]
        values.fill(name, tensors[name], piece)
        view, at = memoryview(piece).cast("B"), len(head) + entry["data_offsets"][0]
        while view:
            n = os.pwrite(fd, view, at)
            view, at = view[n:], at + n
    return len(head) + size


def write_configs(folder):
    text = text_config().to_dict()
    configs = {"model_index.json": {"_class_name": "Flux2KleinPipeline", "is_distilled": True, "text_encoder_out_layers": TAPS},
               "transformer/config.json": {"_class_name": "Flux2Transformer2DModel", **TRANSFORMER},
               "text_encoder/config.json": {"architectures": ["Qwen3ForCausalLM"], **text, "rope_theta": 1e6},
               "vae/config.json": {"_class_name": "AutoencoderKLFlux2", **VAE}}  # fmt: skip
    for name, config in configs.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            json.dump(config, f, indent=1)
            f.write("\n")


def empty(fd, part):
    """The names alone: a file whose data nobody has written takes no memory."""
    head, _, size = header(shapes(part))
    os.ftruncate(fd, len(head) + size)
    os.pwrite(fd, head, 0)
