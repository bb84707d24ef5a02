# SPDX-License-Identifier: Apache-2.0
"""The first double and the first single block of FLUX.2 klein-4B in full size, with random weights, from diffusers.

    build-oracle/venv/bin/python tests/oracle/flux2_block.py      writes tests/fixtures/ir/flux2_block.*

Weights are those of `--weights random:1`. A transformer of these two blocks between all that stands before and behind
them runs in f32 on 16 tokens of an image and 32 of a text; takes 5 GB of memory.
"""
import json
import os
import sys

import flux2_tiny as tiny
import diffusers
import numpy as np
import torch
from flux2_pipeline import made

TEXT, ROWS, COLUMNS, TIME = 32, 4, 4, 0.75


@torch.inference_mode()
def main():
    with torch.device("meta"):
        model = diffusers.Flux2Transformer2DModel(patch_size=1, in_channels=128, num_layers=1, num_single_layers=1, attention_head_dim=128, num_attention_heads=24,
                                                  joint_attention_dim=7680, timestep_guidance_channels=256, mlp_ratio=3.0, axes_dims_rope=(32, 32, 32, 32),
                                                  rope_theta=2000, eps=1e-6, guidance_embeds=False)  # fmt: skip
    state = {name: made(name, tuple(t.shape)).float() for name, t in model.state_dict().items()}
    model.load_state_dict(state, assign=True)
    del state
    model.eval()
    generator = np.random.default_rng(30)
    latent = generator.standard_normal((1, ROWS * COLUMNS, 128), dtype=np.float32)
    context = generator.standard_normal((1, TEXT, 7680), dtype=np.float32)
    run = lambda: model(hidden_states=torch.from_numpy(latent), encoder_hidden_states=torch.from_numpy(context), timestep=torch.full((1,), TIME),
                        img_ids=torch.cartesian_prod(torch.arange(1), torch.arange(ROWS), torch.arange(COLUMNS), torch.arange(1)),
                        txt_ids=torch.cartesian_prod(torch.arange(1), torch.arange(1), torch.arange(1), torch.arange(TEXT)), return_dict=False)[0]  # fmt: skip
    velocity, kept = tiny.outputs_of([model.transformer_blocks[0], model.single_transformer_blocks[0]], run)
    # The last 64 features of every token are enough to see a difference.
    last = lambda t: tiny.place(np.ascontiguousarray(t[:, :, -64:].numpy()))
    index = {
        "made_by": "tests/oracle/flux2_block.py",
        "versions": {"diffusers": diffusers.__version__, "torch": torch.__version__.split("+")[0], "numpy": np.__version__, "python": "%d.%d" % sys.version_info[:2]},
        "text_tokens": TEXT, "rows": ROWS, "columns": COLUMNS, "timestep": 1000 * TIME, "features": 64,
        "double.text": last(kept[0][0]), "double.image": last(kept[0][1]), "single": last(kept[1]), "velocity": tiny.place(velocity.contiguous().numpy()),
    }  # fmt: skip
    with open(os.path.join(tiny.OUT, "flux2_block.bin"), "wb") as f:
        f.write(tiny.blob)
    with open(os.path.join(tiny.OUT, "flux2_block.json"), "w", encoding="ascii") as f:
        json.dump(index, f, indent=1)
        f.write("\n")
    print(len(tiny.blob), "bytes")


if __name__ == "__main__":
    main()
