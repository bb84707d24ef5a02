# SPDX-License-Identifier: Apache-2.0
"""One part of the pipeline in diffusers and transformers, bf16, kept alive: flux2_peer.py KIND:N [FOLDER INPUTS OUTPUT].
A line N on stdin makes it run N times and answer with the seconds of each and its peak memory. Weights of whole parts are
mapped from the folder's files; OUTPUT is the result of the first run, f32."""
import os
import sys
import time

os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="2")
import diffusers
import numpy as np
import safetensors.torch
import torch
from diffusers import AutoencoderKLFlux2
from diffusers.models.transformers.transformer_flux2 import Flux2SingleTransformerBlock, Flux2TransformerBlock

import flux2_weights
from pairs import peak_bytes

THREADS, TEXT, HIDDEN, HEADS, DIM = 2, 512, 3072, 24, 128
PIPELINE = diffusers.Flux2KleinPipeline


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float32).bfloat16()


def block(kind, tokens):
    image, text = draw(1, tokens - TEXT, HIDDEN), draw(1, TEXT, HIDDEN)
    angles = torch.randn(tokens, DIM // 2).repeat_interleave(2, dim=1)
    rope = (angles.cos(), angles.sin())
    if kind == "single":
        m = Flux2SingleTransformerBlock(HIDDEN, HEADS, DIM).bfloat16().eval()
        vector = draw(1, 1, 3 * HIDDEN)
        return [("sdpa", lambda: m(image, text, vector, rope))]
    m = Flux2TransformerBlock(HIDDEN, HEADS, DIM).bfloat16().eval()
    vectors = draw(1, 1, 6 * HIDDEN), draw(1, 1, 6 * HIDDEN)
    return [("sdpa", lambda: m(image, text, *vectors, rope))]


class Parts:
    """Modules on the files of a folder, and what goes into them."""

    def __init__(self, folder, inputs, pixels):
        self.folder, self.inputs, self.side, self.pixels = folder, inputs, pixels // 16, pixels

    def load(self, part, **how):
        """Its weights stay where the file is mapped."""
        path = os.path.join(self.folder, part, flux2_weights.FILES[part] + ".safetensors")
        state = {n.removeprefix("model."): t for n, t in safetensors.torch.load_file(path).items()}
        with torch.device("meta"):
            module = flux2_weights.build(part, **how)
        if part == "text_encoder":  # made by its constructor, not in the file
            module.rotary_emb = type(module.rotary_emb)(module.config)
            module.norm = torch.nn.Identity()  # the last tap is what the last layer hands on
            state.pop("norm.weight")
        elif part == "transformer":
            module.pos_embed = type(module.pos_embed)(flux2_weights.TRANSFORMER["rope_theta"], flux2_weights.TRANSFORMER["axes_dims_rope"])
        else:
            state["bn.num_batches_tracked"] = torch.tensor(0)
        missing, unexpected = module.load_state_dict(state, strict=False, assign=True)
        assert not missing and not unexpected, (missing, unexpected)
        return module

    def numbers(self, name, shape, kind=np.float32):
        return torch.from_numpy(np.fromfile(os.path.join(self.inputs, name), kind).reshape(shape))

    def noise(self):
        return self.numbers("noise.f32", (1, self.side**2, 128)).bfloat16()

    def step(self):
        model = self.load("transformer")
        latent, context = self.noise(), self.numbers("context.f32", (1, TEXT, 7680)).bfloat16()
        image_ids = torch.cartesian_prod(torch.arange(1), torch.arange(self.side), torch.arange(self.side), torch.arange(1))
        text_ids = torch.cartesian_prod(torch.arange(1), torch.arange(1), torch.arange(1), torch.arange(TEXT))
        times = torch.tensor([1.0]).bfloat16()
        return [("sdpa", lambda: model(hidden_states=latent, encoder_hidden_states=context, timestep=times, img_ids=image_ids,
                                       txt_ids=text_ids, return_dict=False)[0])]  # fmt: skip

    def context(self, model):
        ids, mask = (self.numbers(n, (1, TEXT), np.int32).long() for n in ("ids.i32", "mask.i32"))

        def run():
            hidden = model(input_ids=ids, attention_mask=mask, output_hidden_states=True, use_cache=False).hidden_states
            return torch.stack([hidden[i] for i in flux2_weights.TAPS], 1).permute(0, 2, 1, 3).reshape(1, TEXT, -1)

        return run

    def text(self):
        return [("sdpa", self.context(self.load("text_encoder", _attn_implementation="sdpa")))]

    def decoder(self):
        ways = []
        for name, order in (("channels first", torch.contiguous_format), ("channels last", torch.channels_last)):
            vae = self.load("vae").to(memory_format=order)
            packed = self.numbers("latent.f32", (1, self.side, self.side, 128)).bfloat16().permute(0, 3, 1, 2)
            ways.append((name, lambda vae=vae, order=order: self.decode(vae, packed, order)))
        return ways

    @staticmethod
    def decode(vae, packed, order):
        """What the pipeline does behind its steps."""
        deviation = torch.sqrt(vae.bn.running_var.view(1, -1, 1, 1) + vae.config.batch_norm_eps)
        latent = PIPELINE._unpatchify_latents(packed * deviation + vae.bn.running_mean.view(1, -1, 1, 1))
        return vae.decode(latent.contiguous(memory_format=order), return_dict=False)[0].permute(0, 2, 3, 1)

    def image(self):
        """The pipeline, but that its prompt is tokens already."""
        scheduler = diffusers.FlowMatchEulerDiscreteScheduler(
            num_train_timesteps=1000, shift=3.0, use_dynamic_shifting=True, time_shift_type="exponential", base_shift=0.5,
            max_shift=1.15, base_image_seq_len=256, max_image_seq_len=4096)  # fmt: skip
        text = self.context(self.load("text_encoder", _attn_implementation="sdpa"))
        vae = self.load("vae").to(memory_format=torch.channels_last)
        pipe = PIPELINE(scheduler=scheduler, vae=vae, text_encoder=None, tokenizer=None, transformer=self.load("transformer"),
                        is_distilled=True)  # fmt: skip
        pipe.set_progress_bar_config(disable=True)
        noise = self.noise().permute(0, 2, 1).reshape(1, 128, self.side, self.side)

        def run():
            out = pipe(height=self.pixels, width=self.pixels, num_inference_steps=4, latents=noise, prompt_embeds=text(),
                       output_type="pt").images  # fmt: skip
            return (2 * out - 1).permute(0, 2, 3, 1)

        return [("sdpa", run)]


def best_of(ways):
    """The faster of several; a single one, which is large, is not run for that."""
    timed = []
    for name, run in ways if len(ways) > 1 else ():
        run()
        begin = time.perf_counter()
        run()
        timed.append((time.perf_counter() - begin, name, run))
    return min(timed, key=lambda t: t[0])[1:] if timed else ways[0]


def main():
    kind, n = sys.argv[1].split(":")
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    output = sys.argv[4] if len(sys.argv) > 4 else None
    with torch.inference_mode():
        if output:
            name, run = best_of(getattr(Parts(sys.argv[2], sys.argv[3], int(n)), kind)())
        else:
            name, run = best_of(block(kind, int(n)))
        print("torch %s, diffusers %s, %s" % (torch.__version__, diffusers.__version__, name), flush=True)
        for line in sys.stdin:
            times = []
            for _ in range(int(line)):
                begin = time.perf_counter()
                result = run()
                times.append(time.perf_counter() - begin)
                if output:
                    result.float().contiguous().numpy().tofile(output)
                    output = None
            print(*times, peak_bytes("self"), flush=True)


main()
