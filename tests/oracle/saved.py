# SPDX-License-Identifier: Apache-2.0
"""What PyTorch keeps for the backward pass of FLUX.2's transformer (diffusers) and of T5's cross-attention (transformers).

    build-oracle/venv/bin/python tests/oracle/saved.py      writes tests/fixtures/lab/saved.json

Every tensor that autograd saves goes through a hook; storages are counted once, those of parameters not at all. Sizes are
linear in the tokens of the text and of the image (in T5 bilinear, by its scores), so a few lengths give bytes per token.
"""
import functools
import json
import os

import diffusers
import torch
import transformers
from torch.utils.checkpoint import checkpoint

SHAPES = [  # heads, head_dim, double blocks, single blocks, channels of a token of latents, width of the text's features
    (2, 16, 1, 1, 8, 24),
    (3, 8, 2, 3, 4, 40),
    (1, 32, 0, 2, 16, 12),
]


def saved_bytes(call, besides):
    """Bytes of the storages that `call` has saved, but for those of `besides`."""
    known, seen, keep = {t.untyped_storage().data_ptr() for t in besides}, {}, []

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            seen[storage.data_ptr()] = storage.nbytes()
            keep.append((tensor, storage))  # so that no address comes twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        result = call()
    del result
    return sum(seen.values())


def flux2(shape, dtype, remat, batch, text, image):
    heads, head_dim, double, single, channels, joint = shape
    axes = (head_dim // 4,) * 4
    torch.manual_seed(0)
    model = diffusers.Flux2Transformer2DModel(patch_size=1, in_channels=channels, num_layers=double, num_single_layers=single, attention_head_dim=head_dim,
                                              num_attention_heads=heads, joint_attention_dim=joint, timestep_guidance_channels=16, mlp_ratio=3.0,
                                              axes_dims_rope=axes, guidance_embeds=False).to(dtype)  # fmt: skip
    model.train()
    if remat:
        model.enable_gradient_checkpointing(gradient_checkpointing_func=functools.partial(checkpoint, use_reentrant=True))
    latent = torch.randn(batch, image, channels, dtype=dtype, requires_grad=remat)
    context = torch.randn(batch, text, joint, dtype=dtype)
    ids = lambda n: torch.stack([torch.arange(n)] * 4, dim=1)
    call = lambda: model(hidden_states=latent, encoder_hidden_states=context, timestep=torch.full((batch,), 0.5, dtype=dtype), img_ids=ids(image),
                         txt_ids=ids(text), return_dict=False)[0]  # fmt: skip
    return saved_bytes(call, model.parameters())


def flux2_case(shape, dtype, remat):
    heads, head_dim, double, single, channels, joint = shape
    size = lambda batch, text, image: flux2(shape, dtype, remat, batch, text, image)
    out = {"heads": heads, "head_dim": head_dim, "double": double, "single": single, "channels": channels, "joint": joint, "item": dtype.itemsize,
           "remat": remat, "text_token": [], "image_token": []}  # fmt: skip
    for batch in (1, 2):  # bytes for one token more in every image; tables of positions are shared by the batch
        base = size(batch, 5, 7)
        text, image = size(batch, 9, 7) - base, size(batch, 5, 11) - base
        assert text % 4 == 0 and image % 4 == 0
        out["text_token"].append(text // 4)
        out["image_token"].append(image // 4)
    return out


def t5_case(hidden, heads, width):
    config = transformers.T5Config(d_model=hidden, d_kv=width, d_ff=64, num_layers=1, num_decoder_layers=1, num_heads=heads, vocab_size=50, dropout_rate=0.0,
                                   feed_forward_proj="gated-gelu")  # fmt: skip
    layer = transformers.models.t5.modeling_t5.T5LayerCrossAttention(config)
    layer.train()

    def size(tokens, seen):
        h, e = torch.randn(1, tokens, hidden, requires_grad=True), torch.randn(1, seen, hidden, requires_grad=True)
        return saved_bytes(lambda: layer(h, key_value_states=e), layer.parameters())

    a, b, c, d = size(5, 7), size(6, 7), size(5, 8), size(6, 8)
    pairs = d - c - b + a  # the scores
    return {"hidden": hidden, "heads": heads, "head_dim": width, "token": b - a - 7 * pairs, "seen_token": c - a - 5 * pairs, "pair": pairs}


def main():
    out = {"diffusers": diffusers.__version__, "transformers": transformers.__version__, "torch": torch.__version__,
           "flux2": [flux2_case(s, t, r) for s in SHAPES for t in (torch.float32, torch.bfloat16) for r in (False, True)],
           "t5": [t5_case(32, 4, 8), t5_case(24, 2, 20)]}  # fmt: skip
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "lab", "saved.json")
    with open(top, "w") as f:
        rows = lambda key: ",\n  ".join(json.dumps(r) for r in out[key])
        versions = ", ".join(f'"{k}": "{out[k]}"' for k in ("diffusers", "transformers", "torch"))
        f.write(f'{{{versions},\n "flux2": [\n  {rows("flux2")}],\n "t5": [\n  {rows("t5")}]}}\n')


if __name__ == "__main__":
    main()
