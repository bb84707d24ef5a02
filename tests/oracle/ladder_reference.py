# SPDX-License-Identifier: Apache-2.0
"""Reference directories for `assay ladder`: named values on the way through a model, from diffusers and transformers.

    build-oracle/venv/bin/python tests/oracle/ladder_reference.py klein-tiny DIR [f32|bf16|f64]
    build-oracle/venv/bin/python tests/oracle/ladder_reference.py klein FOLDER DIR [f32|bf16] [HEIGHT WIDTH]
    build-oracle/venv/bin/python tests/oracle/ladder_reference.py bert FOLDER DIR [f32|bf16|f64]

docs/ladder.md describes what is written: reference.json and taps.safetensors. klein-tiny has the weights of `tiny:1`;
klein takes a folder in diffusers' layout. Everything runs as the libraries have it, in the type asked for.
"""
import json
import os
import sys

import flux2_pipeline as small  # sets the environment
import diffusers
import flux2_tiny as tiny
import numpy as np
import safetensors
import safetensors.torch
import torch
import transformers
from diffusers.models.transformers import transformer_flux2
from transformers.models.qwen3 import modeling_qwen3

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f64": torch.float64}
taps = {}


def keep(key, value):
    taps[key] = value.detach().clone().contiguous()


def keep_output(module, key, change=lambda t: t):
    def hook(_m, _a, out):
        keep(key, change(out[0] if isinstance(out, tuple) else out))

    return module.register_forward_hook(hook)


def keep_input(module, key, change=lambda t: t):
    return module.register_forward_pre_hook(lambda _m, a: keep(key, change(a[0])))


def recorded(module, name, calls):
    """Puts a function that also notes what it returns in the place of a module's."""
    original = getattr(module, name)

    def wrapped(*args, **named):
        out = original(*args, **named)
        calls.append(out)
        return out

    setattr(module, name, wrapped)
    return lambda: setattr(module, name, original)


def last(t):
    return t.permute(0, 2, 3, 1)


def text(model, ids, mask, layers, dtype):
    rotated, tables = [], []
    hooks = [keep_output(model.model.layers[0].self_attn, "text/layer.0.attention"), model.model.rotary_emb.register_forward_hook(lambda _m, _a, out: tables.append(out))]
    restore = recorded(modeling_qwen3, "apply_rotary_pos_emb", rotated)
    out = model(input_ids=torch.from_numpy(ids).long(), attention_mask=torch.from_numpy(mask).long(), output_hidden_states=True, use_cache=False)
    restore()
    for h in hooks:
        h.remove()
    keep("text/input_ids", torch.from_numpy(ids))
    keep("text/attention_mask", torch.from_numpy(mask))
    half = tables[0][0].shape[-1] // 2
    for name, table in zip(("rope_cos", "rope_sin"), tables[0]):
        keep("text/" + name, table[0, :, :half].float())
    keep("text/embedding", out.hidden_states[0])
    for name, value in zip(("query", "key"), rotated[0]):
        keep("text/layer.0." + name, value.transpose(1, 2))
    for i in range(layers[-1]):
        keep("text/layer.%d" % i, out.hidden_states[i + 1])
    context = torch.stack([out.hidden_states[i] for i in layers], 1).permute(0, 2, 1, 3).flatten(2).to(dtype)
    keep("text/context", context)
    return context


def image_ids(rows, columns):
    return torch.cartesian_prod(torch.arange(1), torch.arange(rows), torch.arange(columns), torch.arange(1))


def transformer(model, context, latent, rows, columns, sigma, dtype):
    rotated, tables = [], []
    half = model.config.attention_head_dim
    double, single = model.transformer_blocks, model.single_transformer_blocks
    hidden = model.inner_dim
    hooks = [
        model.pos_embed.register_forward_hook(lambda _m, _a, out: tables.append(out)),
        keep_output(model.time_guidance_embed, "transformer/time"), keep_output(model.double_stream_modulation_txt.linear, "transformer/modulation.text"),
        keep_output(model.double_stream_modulation_img.linear, "transformer/modulation.image"), keep_output(model.single_stream_modulation.linear, "transformer/modulation.single"),
        keep_output(model.norm_out.linear, "transformer/modulation.out"), keep_output(model.context_embedder, "transformer/text.in"), keep_output(model.x_embedder, "transformer/image.in"),
        keep_input(double[0].norm2, "transformer/double.0.image.attention"), keep_input(double[0].norm2_context, "transformer/double.0.text.attention"),
        keep_input(single[0].attn.to_out, "transformer/single.0.attention", lambda t: t[..., :hidden]), keep_input(single[0].attn.to_out, "transformer/single.0.mlp", lambda t: t[..., hidden:]),
    ]  # fmt: skip
    hooks += [b.register_forward_hook(lambda _m, _a, out, i=i: [keep("transformer/double.text.%d" % i, out[0]), keep("transformer/double.image.%d" % i, out[1])] and None) for i, b in enumerate(double)]
    hooks += [keep_output(b, "transformer/single.%d" % i) for i, b in enumerate(single)]
    restore = recorded(transformer_flux2, "apply_rotary_emb", rotated)
    time = torch.tensor([sigma], dtype=dtype)
    words = torch.cartesian_prod(torch.arange(1), torch.arange(1), torch.arange(1), torch.arange(context.shape[1]))
    velocity = model(hidden_states=latent, encoder_hidden_states=context, timestep=time, img_ids=image_ids(rows, columns), txt_ids=words, return_dict=False)[0]
    restore()
    for h in hooks:
        h.remove()
    keep("transformer/latent", latent)
    keep("transformer/context", context)
    keep("transformer/timestep", (time * 1000).float())
    assert len(tables) == 2 and tables[0][0].shape[-1] == half  # of the image, then of the text
    for i, name in enumerate(("rope_cos", "rope_sin")):
        keep("transformer/" + name, torch.cat([tables[1][i], tables[0][i]])[:, ::2].float())
    first = 2 * len(double)
    for where, at in (("double.0", 0), ("single.0", first)):
        keep("transformer/%s.query" % where, rotated[at])
        keep("transformer/%s.key" % where, rotated[at + 1])
    keep("transformer/velocity", velocity)


def autoencoder(model, latent, rows, columns, dtype):
    pipeline = diffusers.Flux2KleinPipeline
    generator = np.random.default_rng(13)
    mean, deviation = model.bn.running_mean.view(1, -1, 1, 1), torch.sqrt(model.bn.running_var.view(1, -1, 1, 1) + model.config.batch_norm_eps)
    packed = latent.reshape(1, rows, columns, -1).permute(0, 3, 1, 2)
    unfolded = pipeline._unpatchify_latents(packed * deviation + mean)
    hooks = [keep_output(model.decoder.mid_block, "decoder/mid", last)]
    hooks += [keep_output(b, "decoder/up.%d" % i, last) for i, b in enumerate(model.decoder.up_blocks)]
    hooks += [keep_output(b, "encoder/down.%d" % i, last) for i, b in enumerate(model.encoder.down_blocks)]
    hooks += [keep_output(model.quant_conv, "encoder/moments", last)]
    keep("decoder/latent", latent)
    keep("decoder/unfolded", last(unfolded))
    keep("decoder/image", last(model.decode(unfolded).sample))
    picture = torch.from_numpy(generator.uniform(-1, 1, (1, 3, 16 * rows, 16 * columns)).astype(np.float32)).to(dtype)
    moments = model.encode(picture).latent_dist.mode()
    keep("encoder/image", last(picture))
    keep("encoder/latent", pipeline._pack_latents((pipeline._patchify_latents(moments) - mean) / deviation))
    for h in hooks:
        h.remove()


def request(pipe, context, noise, height, width, steps, dtype):
    """The whole of it, from the noise on."""
    times, kept = [], []
    hook = pipe.transformer.time_guidance_embed.register_forward_pre_hook(lambda _m, a: times.append(float(a[0][0])))

    def each(_pipe, _i, _t, values):
        kept.append(values["latents"])
        return values

    pipe.set_progress_bar_config(disable=True)
    image = pipe(height=height, width=width, num_inference_steps=steps, guidance_scale=1.0, latents=noise.to(dtype), prompt_embeds=context, callback_on_step_end=each,
                 output_type="pt").images  # fmt: skip
    hook.remove()
    for i, value in enumerate(kept):
        keep("pipeline/latent.%d" % (i + 1), value)
    keep("pipeline/image", last(image))
    keep("schedule/sigmas", pipe.scheduler.sigmas)
    keep("schedule/times", torch.tensor(times))


def klein(pipe, ids, mask, layers, height, width, steps, kind, about, out):
    dtype, rows, columns, seed = TYPES[kind], height // 16, width // 16, 0
    context = text(pipe.text_encoder, ids, mask, layers, dtype)
    channels = pipe.transformer.config.in_channels
    noise = torch.randn((1, channels, rows, columns), generator=torch.Generator().manual_seed(seed), dtype=torch.float32)
    packed = noise.reshape(1, channels, -1).permute(0, 2, 1).contiguous()
    keep("noise/latent", packed)
    transformer(pipe.transformer, context, packed.to(dtype), rows, columns, 0.75, dtype)
    autoencoder(pipe.vae, packed.to(dtype), rows, columns, dtype)
    request(pipe, context, noise, height, width, steps, dtype)
    write(out, {"model": "flux2", **about, "type": kind, "height": height, "width": width, "steps": steps, "text_tokens": int(ids.shape[1]), "seed": seed, "sampler": "diffusers"})


def klein_tiny(out, kind):
    generator = np.random.default_rng(20)
    ids = generator.integers(0, 512, (1, 24), dtype=np.int32)
    mask = (np.arange(24)[None, :] < 10).astype(np.int32)
    pipe = small.pipeline(False, False)
    rotary = pipe.text_encoder.model.rotary_emb.inv_freq.clone()
    for part in (pipe.text_encoder, pipe.transformer, pipe.vae):
        part.to(TYPES[kind])
    pipe.text_encoder.model.rotary_emb.inv_freq = rotary
    klein(pipe, ids, mask, [1, 3, 5], 48, 80, 4, kind, {"weights": "tiny:1"}, out)


def klein_folder(folder, out, kind, height, width):
    pipe = diffusers.Flux2KleinPipeline.from_pretrained(folder, torch_dtype=TYPES[kind])
    messages = [{"role": "user", "content": "a cat sitting on a window sill"}]
    said = pipe.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, enable_thinking=False)
    rows = pipe.tokenizer(said, return_tensors="np", padding="max_length", truncation=True, max_length=512)
    klein(pipe, rows["input_ids"].astype(np.int32), rows["attention_mask"].astype(np.int32), [9, 18, 27], height, width, 4, kind, {}, out)


def bert(folder, out, kind):
    model = transformers.AutoModel.from_pretrained(folder, dtype=TYPES[kind], attn_implementation="eager").eval()
    generator = np.random.default_rng(30)
    ids = generator.integers(1000, 20000, (2, 8), dtype=np.int32)
    mask = (np.arange(8)[None, :] < np.array([[8], [5]])).astype(np.int32)
    hidden = model(input_ids=torch.from_numpy(ids).long(), attention_mask=torch.from_numpy(mask).long(), output_hidden_states=True).hidden_states
    keep("encoder/input_ids", torch.from_numpy(ids))
    keep("encoder/attention_mask", torch.from_numpy(mask))
    for i, value in enumerate(hidden):
        keep("encoder/%s" % ("embeddings" if not i else "layer.%d" % (i - 1)), value)
    real = torch.from_numpy(mask).to(TYPES[kind]).unsqueeze(2)
    mean = (hidden[-1] * real).sum(1) / real.sum(1)
    keep("encoder/embedding", torch.nn.functional.normalize(mean, dim=1))
    write(out, {"model": "bert", "type": kind})


def write(out, about):
    os.makedirs(out, exist_ok=True)
    index = {"schema": "assay.reference/1", **about, "made_by": "tests/oracle/ladder_reference.py",
             "versions": {"diffusers": diffusers.__version__, "transformers": transformers.__version__, "torch": torch.__version__.split("+")[0],
                          "numpy": np.__version__, "safetensors": safetensors.__version__, "python": "%d.%d" % sys.version_info[:2]}}  # fmt: skip
    safetensors.torch.save_file(taps, os.path.join(out, "taps.safetensors"))
    with open(os.path.join(out, "reference.json"), "w", encoding="utf-8") as f:
        json.dump(index, f, indent=1, ensure_ascii=False)
        f.write("\n")
    print(len(taps), "values,", sum(t.numel() * t.element_size() for t in taps.values()), "bytes")


@torch.inference_mode()
def main():
    what, rest = sys.argv[1], sys.argv[2:]
    if what == "klein-tiny":
        klein_tiny(rest[0], rest[1] if len(rest) > 1 else "f32")
    elif what == "klein":
        klein_folder(rest[0], rest[1], rest[2] if len(rest) > 2 else "bf16", *(int(x) for x in rest[3:5] or (512, 512)))
    else:
        bert(rest[0], rest[1], rest[2] if len(rest) > 2 else "f32")


if __name__ == "__main__":
    main()
