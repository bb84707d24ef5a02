# SPDX-License-Identifier: Apache-2.0
"""The whole FLUX.2 klein pipeline in small, from diffusers: every latent on the way, and the image.

    build-oracle/venv/bin/python tests/oracle/flux2_pipeline.py      writes tests/fixtures/ir/flux2_pipeline.*

Weights are those of `--weights tiny:1`, or of a model in the proportions of klein-9B ("nine"): `made` gives what
src/io/random_checkpoint.h describes. Each case runs in f64 ("wide": where the libraries fall back to f32, in norms, softmax, waves of the time, rotary positions and the sampler's
sums, they are patched to f64, but for the rotary tables and the schedule, which are of f32; "plain": as they are; and
"near": as they are but for the one cast that moves the latents most), and in bf16 as they are. How far each cast alone
moves the last latents is in "casts". Schedules are there for more sizes, in both references' arithmetic.
"""
import json
import os
import sys

import flux2_tiny as tiny  # patches nothing until it is asked to; imports set the environment
import diffusers
import numpy as np
import PIL.Image
import torch
import transformers
from diffusers.pipelines.flux2 import pipeline_flux2_klein as klein

HEIGHT, WIDTH, STEPS, SEED = 48, 80, 4, 1
U64, MASK = np.uint64, (1 << 64) - 1


def mixed(x):
    with np.errstate(over="ignore"):
        x = (x ^ (x >> U64(30))) * U64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> U64(27))) * U64(0x94D049BB133111EB)
        return x ^ (x >> U64(31))


def made(name, shape, seed=SEED):
    """A tensor of a random checkpoint."""
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001B3 & MASK
    key = mixed(U64(seed + h & MASK))
    n = int(np.prod(shape))
    if len(shape) > 1:
        middle, reach = 0, np.sqrt(3.0 / (n // shape[0]))
    elif name.endswith("running_var"):
        middle, reach = 1, 0.5
    elif name.endswith("running_mean"):
        middle, reach = 0, 0.35
    elif name.endswith("bias"):
        middle, reach = 0, 0.17
    else:
        middle, reach = 1, 0.17
    out = torch.empty(n, dtype=torch.bfloat16)
    for at in range(0, n, 1 << 22):  # large ones piece by piece
        count = min(1 << 22, n - at)
        with np.errstate(over="ignore"):
            words = mixed(key + (np.arange(at // 4, (at + count + 3) // 4, dtype=U64) + U64(1)) * U64(0x9E3779B97F4A7C15))
        halves = np.stack([(words >> U64(16 * k)) & U64(0xFFFF) for k in range(4)], 1).reshape(-1)[:count]
        u = (halves.astype(np.float32) + np.float32(0.5)) / np.float32(32768) - np.float32(1)
        out[at : at + count] = torch.from_numpy(np.float32(middle) + np.float32(reach) * u)
    return out.reshape(shape)


def fill(model):
    state = model.state_dict()
    for name in state:
        if name != "lm_head.weight" and state[name].is_floating_point():  # which is the table
            state[name] = made(name, tuple(state[name].shape))
    model.load_state_dict(state)
    return model.eval()


class WideScheduler(diffusers.FlowMatchEulerDiscreteScheduler):
    def step(self, model_output, timestep, sample, **_):
        if self.step_index is None:
            self._init_step_index(timestep)
        delta = self.sigmas[self.step_index + 1] - self.sigmas[self.step_index]
        self._step_index += 1
        return (sample + delta.double() * model_output,)


def pipeline(wide, guided, nine=False, kv=False):
    """wide: the sampler's sums are of f64. nine: in the proportions of klein-9B. kv: keys and values of references are made once."""
    scheduler = (WideScheduler if wide else diffusers.FlowMatchEulerDiscreteScheduler)(
        num_train_timesteps=1000, shift=3.0, use_dynamic_shifting=True, time_shift_type="exponential", base_shift=0.5, max_shift=1.15, base_image_seq_len=256,
        max_image_seq_len=4096)  # fmt: skip
    text, transformer, vae = fill(tiny.text_model(nine)), fill(tiny.transformer_model(nine)), fill(tiny.image_model())
    if kv:
        return diffusers.Flux2KleinKVPipeline(scheduler=scheduler, vae=vae, text_encoder=text, tokenizer=None, transformer=transformer)
    return diffusers.Flux2KleinPipeline(scheduler=scheduler, vae=vae, text_encoder=text, tokenizer=None, transformer=transformer, is_distilled=not guided)


def contexts(model, ids, mask, dtype):
    rows = []
    for i, m in zip(ids, mask):
        out = model(input_ids=torch.from_numpy(i[None]).long(), attention_mask=torch.from_numpy(m[None]).long(), output_hidden_states=True, use_cache=False)
        rows.append(torch.stack([out.hidden_states[k] for k in (1, 3, 5)], 1).permute(0, 2, 1, 3).reshape(1, 512, -1).to(dtype))
    return rows


SUMS = "sampler sums"
CASTS = (*tiny.CASTS, SUMS)


def run(case, dtype, casts, ids, mask, noise):
    """One run, with some casts in f64: latents after every step, the image, and the times that the transformer was told."""
    pipe = pipeline(SUMS in casts, case["guided"], case["nine"], case["kv"])
    restore = tiny.patch([c for c in casts if c != SUMS])
    for part in (pipe.text_encoder, pipe.transformer, pipe.vae):
        part.to(dtype)
    rotary = pipe.text_encoder.model.rotary_emb
    wide = "text angles" in casts
    rotary.inv_freq = tiny.frequencies(pipe.text_encoder, torch.float64 if wide else torch.float32)
    if wide:
        rotary.register_forward_hook(tiny.rounded)
    references = [PIL.Image.fromarray(p) for p in pictures(case["references"])]
    context = contexts(pipe.text_encoder, ids, mask, dtype)
    kept, times = [], []
    pipe.transformer.time_guidance_embed.register_forward_pre_hook(lambda _m, a: times.append(float(a[0][0])))

    def keep(_pipe, _i, _t, values):
        kept.append(values["latents"].double().numpy().copy())
        return values

    pipe.set_progress_bar_config(disable=True)
    other = {} if case["kv"] else {"guidance_scale": case["guidance"], "negative_prompt_embeds": context[1]}
    image = pipe(image=references or None, height=HEIGHT, width=WIDTH, num_inference_steps=case["steps"], latents=torch.from_numpy(noise).to(dtype),
                 prompt_embeds=context[0], callback_on_step_end=keep, output_type="pt", **other).images  # fmt: skip
    restore()
    if case["kv"]:
        del times[1]  # that of the references, in the first step
    return kept, image.double().permute(0, 2, 3, 1).contiguous().numpy(), times[:: 2 if case["guided"] else 1]


def pictures(sizes):
    """The same in the test."""
    generator = np.random.default_rng(21)
    return [generator.integers(0, 256, (h, w, 3), dtype=np.uint8) for h, w in sizes]


def bfl_schedule(tokens, steps):
    """As the reference of Black Forest Labs: linspace from 1 to 0, shifted, f32 all through; times and latents in bf16."""
    t = torch.linspace(1, 0, steps + 1)
    mu = klein.compute_empirical_mu(tokens, steps)
    shifted = np.exp(mu) / (np.exp(mu) + (1 / t - 1) ** 1.0)
    sigmas = shifted.tolist()
    return sigmas, [float((torch.tensor(s).bfloat16() * 1000).float()) for s in sigmas[:-1]]


def diffusers_schedule(tokens, steps):
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(num_train_timesteps=1000, shift=3.0, use_dynamic_shifting=True, time_shift_type="exponential")
    scheduler.set_timesteps(sigmas=np.linspace(1.0, 1 / steps, steps), mu=klein.compute_empirical_mu(tokens, steps))
    times = [float(((t.bfloat16() / 1000).bfloat16() * 1000).float()) for t in scheduler.timesteps]
    return [float(s) for s in scheduler.sigmas], times


def schedules():
    out = []
    for tokens, steps in ((15, 4), (15, 3), (256, 4), (1024, 4), (4080, 4), (4096, 4), (4300, 4), (4301, 4), (1024, 50), (4096, 50), (1024, 1), (777, 7)):
        for name, make in (("diffusers", diffusers_schedule), ("bfl", bfl_schedule)):
            sigmas, times = make(tokens, steps)
            out.append({"sampler": name, "tokens": tokens, "steps": steps, "mu": klein.compute_empirical_mu(tokens, steps), "sigmas": sigmas, "times": times})
    return out


@torch.inference_mode()
def main():
    generator = np.random.default_rng(20)
    ids = generator.integers(0, 512, (2, 512), dtype=np.int32)
    mask = (np.arange(512)[None, :] < np.array([[40], [12]])).astype(np.int32)
    noise = generator.standard_normal((1, 16, HEIGHT // 16, WIDTH // 16)).astype(np.float32)
    packed = np.ascontiguousarray(noise.reshape(1, 16, -1).transpose(0, 2, 1))
    one = {"nine": False, "kv": False, "guided": False, "steps": STEPS, "guidance": 1.0, "references": []}
    cases = [{**one, "name": "text"}, {**one, "name": "references", "references": [[64, 80], [80, 64]]}, {**one, "name": "guidance", "guided": True, "steps": 3, "guidance": 4.0},
             {**one, "name": "nine", "nine": True, "references": [[64, 64]]}, {**one, "name": "nine-base", "nine": True, "guided": True, "steps": 2, "guidance": 4.0},
             {**one, "name": "kv", "kv": True, "references": [[64, 80], [80, 64]]}]  # fmt: skip
    size = lambda a: float(np.sqrt(np.mean(np.square(a))))
    for case in cases:
        one = lambda casts, dtype=torch.float64: run(case, dtype, casts, ids, mask, noise)
        wide, image, _ = one(CASTS)
        off = lambda run: size(run[0][-1] - wide[-1]) / size(wide[-1])
        plain, (narrow, _, case["bf16_times"]) = one(()), one((), torch.bfloat16)
        case["casts"] = {cast: off(one([c for c in CASTS if c != cast])) for cast in CASTS}
        case["largest"] = max(case["casts"], key=case["casts"].get)
        near = one([case["largest"]])
        case["plain_off"], case["near_off"] = off(plain), off(near)
        case["latents"], case["image"] = [tiny.place(x) for x in wide], tiny.place(image)
        case["plain_latents"], case["near_latents"], case["bf16_latents"] = (tiny.place(x[-1]) for x in (plain[0], near[0], narrow))
        print(case["name"], "plain is", case["plain_off"], "from wide; bf16", -20 * np.log10(off((narrow,))), "dB; near", case["near_off"], case["casts"])
    index = {
        "made_by": "tests/oracle/flux2_pipeline.py",
        "versions": {"diffusers": diffusers.__version__, "transformers": transformers.__version__, "torch": torch.__version__.split("+")[0],
                     "numpy": np.__version__, "python": "%d.%d" % sys.version_info[:2]},
        "height": HEIGHT, "width": WIDTH, "seed": SEED, "input_ids": tiny.place(ids), "attention_mask": tiny.place(mask), "noise": tiny.place(packed),
        "cases": cases, "schedules": schedules(),
    }  # fmt: skip
    with open(os.path.join(tiny.OUT, "flux2_pipeline.bin"), "wb") as f:
        f.write(tiny.blob)
    with open(os.path.join(tiny.OUT, "flux2_pipeline.json"), "w", encoding="ascii") as f:
        json.dump(index, f, indent=1)
        f.write("\n")
    print(len(tiny.blob), "bytes")


if __name__ == "__main__":
    main()
