# SPDX-License-Identifier: Apache-2.0
"""Reference directories for `assay ladder`: named values on the way through a model, from diffusers and transformers.

    build-oracle/venv/bin/python tests/oracle/ladder_reference.py klein-tiny DIR [f32|bf16|f64] [CASE,CASE]
    build-oracle/venv/bin/python tests/oracle/ladder_reference.py klein FOLDER|random:SEED DIR [f32|bf16] [HEIGHT WIDTH]
    build-oracle/venv/bin/python tests/oracle/ladder_reference.py bert FOLDER DIR [f32|bf16|f64]
    build-oracle/venv/bin/python tests/oracle/ladder_reference.py decoder FOLDER DIR [f32|bf16|f64]

docs/ladder.md describes what is written: reference.json and taps.safetensors. klein-tiny has the weights of `tiny:1` and
several cases, all or those that are named; klein takes a folder in diffusers' layout, or makes the random weights of klein-4B in full size, and has
one component in memory at a time (9 GB in bf16). Prompts are encoded with the folder's tokenizer, those for random
weights with that of third_party/models/qwen. Everything runs as the libraries have it, in the
type asked for.
"""
import json
import os
import sys

import flux2_pipeline as small  # sets the environment
import diffusers
import flux2_tiny as tiny
import numpy as np
import PIL.Image
import safetensors
import safetensors.torch
import torch
import transformers
from diffusers.models.transformers import transformer_flux2
from diffusers.pipelines.flux2 import pipeline_flux2_klein
from transformers.models.qwen3 import modeling_qwen3

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f64": torch.float64}
PROMPTS = ["", "a cat sitting on a window sill", "\nnewline first,  two spaces, and\ttabs  ", "一只猫坐在窗台上，看着外面的雨。", "Кошка сидит на подоконнике и смотрит в окно", "قطة تجلس على حافة النافذة",
           "खिड़की पर बैठी बिल्ली", "👩‍🚀🐈‍⬛🏳️‍🌈 on the moon 🌕, 👍🏽", "1234567890 3.14159 ½ ٣٤٥ １２３", "nai\u0308ve cafe\u0301, Å and ﬁ", "<|im_end|>\n<|im_start|>user\n<think> an empty room",
           "the quick brown fox jumps over the lazy dog and sees a photograph of it " * 40]  # fmt: skip
taps = {}
case = {"prefix": "", "only": None}


def begin(name, only=None):
    """From here on values are those of a case; of `only`, when given, and of inputs."""
    case.update(prefix=name + "/" if name else "", only=only)


def keep(key, value):
    if case["only"] is None or key in case["only"]:
        taps[case["prefix"] + key] = value.detach().clone().contiguous()


def tokens(tokenizer):
    chat = [[{"role": "user", "content": p}] for p in PROMPTS]
    said = [tokenizer.apply_chat_template(c, tokenize=False, add_generation_prompt=True, enable_thinking=False) for c in chat]
    rows = tokenizer(said, return_tensors="np", padding="max_length", truncation=True, max_length=512)
    assert rows["attention_mask"][-1].all() and not rows["attention_mask"][0].all()  # the last is cut
    keep("tokens/input_ids", torch.from_numpy(rows["input_ids"].astype(np.int32)))
    keep("tokens/attention_mask", torch.from_numpy(rows["attention_mask"].astype(np.int32)))


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


def image_ids(rows, columns, references=()):
    """Of the image, then of reference images, [height, width] in tokens."""
    grids = [torch.cartesian_prod(torch.arange(1), torch.arange(rows), torch.arange(columns), torch.arange(1))]
    grids += [torch.cartesian_prod(torch.tensor([10 + 10 * i]), torch.arange(h), torch.arange(w), torch.arange(1)) for i, (h, w) in enumerate(references)]
    return torch.cat(grids)


def transformer(model, context, latent, rows, columns, sigmas, dtype, references=()):
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
    time = torch.tensor(sigmas, dtype=dtype)
    words = torch.cartesian_prod(torch.arange(1), torch.arange(1), torch.arange(1), torch.arange(context.shape[1]))
    velocity = model(hidden_states=latent, encoder_hidden_states=context, timestep=time, img_ids=image_ids(rows, columns, references), txt_ids=words, return_dict=False)[0]
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
    keep("transformer/velocity", velocity[:, : rows * columns])


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


def request(pipe, context, noise, height, width, steps, dtype, references=(), guidance=1.0):
    """The whole of it, from the noise on. context: of the prompt, and with guidance of the empty one."""
    times, kept = [], []
    hook = pipe.transformer.time_guidance_embed.register_forward_pre_hook(lambda _m, a: times.append(float(a[0][0])))

    def each(_pipe, _i, _t, values):
        kept.append(values["latents"])
        return values

    pipe.set_progress_bar_config(disable=True)
    pictures = [PIL.Image.fromarray(p) for p in references]
    image = pipe(image=pictures or None, height=height, width=width, num_inference_steps=steps, guidance_scale=guidance, latents=noise.to(dtype), prompt_embeds=context[:1],
                 negative_prompt_embeds=context[1:] if guidance > 1 else None, callback_on_step_end=each, output_type="pt").images  # fmt: skip
    hook.remove()
    for i, picture in enumerate(references):
        keep("pipeline/reference.%d" % i, torch.from_numpy(picture.astype(np.float32) / np.float32(255) * 2 - 1))
    for i, value in enumerate(kept):
        keep("pipeline/latent.%d" % (i + 1), value)
    keep("pipeline/image", last(image))
    keep("schedule/sigmas", pipe.scheduler.sigmas)
    keep("schedule/times", torch.tensor(times[:: 2 if guidance > 1 else 1]))


def schedule(pipe, tokens_of_image, steps):
    """What a request would set and tell, without one."""
    pipe.scheduler.set_timesteps(sigmas=np.linspace(1.0, 1 / steps, steps), mu=pipeline_flux2_klein.compute_empirical_mu(tokens_of_image, steps))
    keep("schedule/sigmas", pipe.scheduler.sigmas)
    dtype = next(pipe.transformer.parameters()).dtype
    keep("schedule/times", torch.stack([(t.to(dtype) / 1000 * 1000).float() for t in pipe.scheduler.timesteps]))


def noise_of(pipe, height, width, seed=0):
    channels, rows, columns = pipe.transformer.config.in_channels, height // 16, width // 16
    noise = torch.randn((1, channels, rows, columns), generator=torch.Generator().manual_seed(seed), dtype=torch.float32)
    packed = noise.reshape(1, channels, -1).permute(0, 2, 1).contiguous()
    keep("noise/latent", packed)
    return noise, packed


def words(rows, length, real):
    """Random ids of the small vocabulary, and masks of so many real tokens."""
    ids = np.random.default_rng(20).integers(0, 512, (rows, length), dtype=np.int32)
    return ids, (np.arange(length)[None, :] < np.array(real)[:, None]).astype(np.int32)


REQUEST = ["text/input_ids", "text/attention_mask", "noise/latent", "schedule/sigmas", "schedule/times", "pipeline/image", *("pipeline/latent.%d" % i for i in range(1, 5))]
STEP = ["transformer/latent", "transformer/context", "transformer/timestep", "transformer/rope_cos", "transformer/rope_sin", "transformer/time", "transformer/velocity"]


def klein_tiny(out, kind, wanted=None):
    dtype, layers, cases = TYPES[kind], [1, 3, 5], []
    pipe, base = small.pipeline(False, False), small.pipeline(False, True)
    for part in (pipe.text_encoder, pipe.transformer, pipe.vae, base.text_encoder, base.transformer, base.vae):
        rotary = part.model.rotary_emb.inv_freq.clone() if hasattr(part, "model") else None
        part.to(dtype)
        if rotary is not None:
            part.model.rotary_emb.inv_freq = rotary
    about = {"height": 48, "width": 80, "steps": 4, "text_tokens": 24, "seed": 0, "sampler": "diffusers"}

    def one(name, only=None, **changes):
        begin(name, only)
        cases.append({"name": name, **changes})
        return {**about, **changes}

    # Everything there is, once.
    c = one("main", prompts=PROMPTS)
    tokens(transformers.AutoTokenizer.from_pretrained(os.path.join(tiny.TOP, "third_party/models/qwen")))
    context = text(pipe.text_encoder, *words(1, 24, [10]), layers, dtype)
    noise, packed = noise_of(pipe, 48, 80)
    transformer(pipe.transformer, context, packed.to(dtype), 3, 5, [0.75], dtype)
    autoencoder(pipe.vae, packed.to(dtype), 3, 5, dtype)
    request(pipe, context, noise, 48, 80, c["steps"], dtype)
    # Prompts of 512, 40 and 12 real tokens of 512: padding is masked as keys, and its own outputs are read.
    one("padding", ["text/input_ids", "text/attention_mask", "text/rope_cos", "text/rope_sin", "text/layer.0.attention", "text/layer.4"], text_tokens=512)
    text(pipe.text_encoder, *words(3, 512, [512, 40, 12]), layers, dtype)
    # The first time, one on the way, and the last.
    one("times", [*STEP, "transformer/modulation.single", "transformer/modulation.out", "transformer/double.image.1", "transformer/single.2"])
    transformer(pipe.transformer, context.expand(3, -1, -1), packed.to(dtype).expand(3, -1, -1), 3, 5, [1.0, 0.7672, 0.0], dtype)
    # Two reference images, of other sizes than the image.
    sizes = [[64, 80], [80, 64]]
    c = one("references", [*REQUEST, *STEP, "transformer/image.in", "transformer/single.2", "pipeline/reference.0", "pipeline/reference.1"],
            references=sizes)  # fmt: skip
    context = text(pipe.text_encoder, *words(1, 24, [10]), layers, dtype)
    noise, packed = noise_of(pipe, 48, 80)
    behind = torch.from_numpy(np.random.default_rng(22).standard_normal((1, 2 * 4 * 5, packed.shape[2])).astype(np.float32))
    transformer(pipe.transformer, context, torch.cat([packed, behind], 1).to(dtype), 3, 5, [0.75], dtype, [(4, 5), (5, 4)])
    request(pipe, context, noise, 48, 80, c["steps"], dtype, small.pictures(sizes))
    # A base model, which runs every step with and without the prompt.
    c = one("guidance", REQUEST, guidance=4.0, steps=3)
    context = text(base.text_encoder, *words(2, 24, [10, 4]), layers, dtype)
    request(base, context, noise_of(base, 48, 80)[0], 48, 80, c["steps"], dtype, guidance=4.0)
    # 16 tokens, one more than above: other times.
    one("square", [*STEP, "noise/latent", "schedule/sigmas", "schedule/times", "transformer/single.2"], height=64, width=64)
    noise, packed = noise_of(pipe, 64, 64)
    transformer(pipe.transformer, context[:1], packed.to(dtype), 4, 4, [0.5], dtype)
    schedule(pipe, 16, 4)
    # All of it at once: a base model with two references, whose prompt fills 12 of 512 tokens and whose empty one 4.
    sizes = [[64, 64], [64, 80]]
    c = one("together", [*REQUEST, "pipeline/reference.0", "pipeline/reference.1"], text_tokens=512, guidance=4.0, steps=2, references=sizes)
    context = text(base.text_encoder, *words(2, 512, [12, 4]), layers, dtype)
    request(base, context, noise_of(base, 48, 80)[0], 48, 80, c["steps"], dtype, small.pictures(sizes), guidance=4.0)
    # The last number of tokens before the cliff of mu, and the first behind it.
    for height, width in ((800, 1376), (368, 2992)):
        one("tokens.%d" % (height // 16 * (width // 16)), ["schedule/sigmas", "schedule/times"], height=height, width=width)
        schedule(pipe, height // 16 * (width // 16), 4)
    if wanted:
        cases = [c for c in cases if c["name"] in wanted]
        for key in [k for k in taps if k.split("/")[0] not in wanted]:
            del taps[key]
    write(out, {"model": "flux2", "weights": "tiny:1", "type": kind, **about, "cases": cases})


class Only:
    """One component of a folder at a time: there may be no memory for all."""

    def __init__(self, folder, dtype):
        self.folder, self.dtype, self.weights = folder, dtype, None
        self.tokenizer = os.path.join(folder, "tokenizer")
        self.index = json.load(open(os.path.join(folder, "model_index.json"), encoding="utf-8"))

    def get(self, name):
        library, kind = self.index[name]
        named = {"torch_dtype" if library == "diffusers" else "dtype": self.dtype} if name != "scheduler" else {}
        return getattr({"diffusers": diffusers, "transformers": transformers}[library], kind).from_pretrained(os.path.join(self.folder, name), **named)


class Random:
    """The same of random:SEED: klein-4B, and of its text encoder one layer more than is read, since the last one's output is normalised."""

    def __init__(self, name, dtype):
        self.seed, self.dtype, self.weights, self.index = int(name.split(":")[1]), dtype, name, {}
        self.tokenizer = os.path.join(tiny.TOP, "third_party/models/qwen")

    def get(self, name):
        if name == "scheduler":
            return diffusers.FlowMatchEulerDiscreteScheduler(num_train_timesteps=1000, shift=3.0, use_dynamic_shifting=True, time_shift_type="exponential")
        with torch.device("meta"):
            model = getattr(self, name)()
        state = model.state_dict()
        for key in state:
            floats = state[key].is_floating_point()
            state[key] = small.made(key, tuple(state[key].shape), self.seed).to(self.dtype) if floats else torch.zeros(state[key].shape, dtype=state[key].dtype)
        model.load_state_dict(state, assign=True)
        if name == "text_encoder":  # whose angles are in no checkpoint
            model.model.rotary_emb = modeling_qwen3.Qwen3RotaryEmbedding(model.config)
        return model

    def text_encoder(self):
        config = transformers.Qwen3Config(hidden_size=2560, intermediate_size=9728, num_hidden_layers=28, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
                                          rms_norm_eps=1e-6, rope_parameters={"rope_type": "default", "rope_theta": 1e6}, vocab_size=151936, tie_word_embeddings=True)  # fmt: skip
        model = transformers.Qwen3ForCausalLM(config)
        model.lm_head = torch.nn.Identity()
        return model

    def transformer(self):
        return diffusers.Flux2Transformer2DModel(patch_size=1, in_channels=128, num_layers=5, num_single_layers=20, attention_head_dim=128, num_attention_heads=24,
                                                 joint_attention_dim=7680, timestep_guidance_channels=256, mlp_ratio=3.0, axes_dims_rope=(32, 32, 32, 32),
                                                 rope_theta=2000, eps=1e-6, guidance_embeds=False)  # fmt: skip

    def vae(self):
        return diffusers.AutoencoderKLFlux2(block_out_channels=(128, 256, 512, 512), down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
                                             layers_per_block=2, latent_channels=32, norm_num_groups=32, sample_size=1024, use_quant_conv=True, use_post_quant_conv=True,
                                             mid_block_add_attention=True, batch_norm_eps=1e-4)  # fmt: skip


def klein(source, out, kind, height, width):
    dtype, rows, columns, steps = TYPES[kind], height // 16, width // 16, 4
    parts = (Random if source.startswith("random:") else Only)(source, dtype)
    about = {"height": height, "width": width, "steps": steps, "text_tokens": 512, "seed": 0, "sampler": "diffusers"}
    if parts.weights:
        about["weights"] = parts.weights
    if os.path.isdir(parts.tokenizer):
        tokens(transformers.AutoTokenizer.from_pretrained(parts.tokenizer))
        about["prompts"] = PROMPTS
        ids, mask = (taps["tokens/" + n][1:2].numpy() for n in ("input_ids", "attention_mask"))
    else:
        ids, mask = np.random.default_rng(20).integers(0, 151643, (1, 512), dtype=np.int32), (np.arange(512)[None, :] < 19).astype(np.int32)
    model = parts.get("text_encoder").eval()
    context = text(model, ids, mask, parts.index.get("text_encoder_out_layers", [9, 18, 27]), dtype)
    del model
    model = parts.get("transformer").eval()
    pipe = diffusers.Flux2KleinPipeline(scheduler=parts.get("scheduler"), vae=parts.get("vae").eval(), text_encoder=None, tokenizer=None, transformer=model, is_distilled=True)
    noise, packed = noise_of(pipe, height, width)
    transformer(model, context, packed.to(dtype), rows, columns, [0.75], dtype)
    request(pipe, context, noise, height, width, steps, dtype)
    autoencoder(pipe.vae, packed.to(dtype), rows, columns, dtype)
    write(out, {"model": "flux2", "type": kind, **about})


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


def decoder(folder, out, kind):
    """A causal decoder: two prompts, of which the second ends in padding, and the cache that they leave."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=TYPES[kind], attn_implementation="eager").eval()
    code = sys.modules[type(model).__module__]
    ids = np.random.default_rng(40).integers(0, model.config.vocab_size, (2, 12), dtype=np.int32)
    mask = (np.arange(12)[None, :] < np.array([[12], [7]])).astype(np.int32)
    rotated, tables = [], []
    hooks = [keep_output(model.model.embed_tokens, "decoder/embedding"), keep_output(model.model.layers[0].self_attn, "decoder/layer.0.attention"),
             model.model.rotary_emb.register_forward_hook(lambda _m, _a, out: tables.append(out))]  # fmt: skip
    hooks += [keep_output(layer, "decoder/layer.%d" % i) for i, layer in enumerate(model.model.layers)]
    restore = recorded(code, "apply_rotary_pos_emb", rotated)
    result = model(input_ids=torch.from_numpy(ids).long(), attention_mask=torch.from_numpy(mask).long(), use_cache=True)
    restore()
    for h in hooks:
        h.remove()
    keep("decoder/input_ids", torch.from_numpy(ids))
    keep("decoder/attention_mask", torch.from_numpy(mask))
    for name, table in zip(("rope_cos", "rope_sin"), tables[0]):
        keep("decoder/" + name, table[0, :, : table.shape[-1] // 2].float())
    for name, value in zip(("query", "key"), rotated[0]):
        keep("decoder/layer.0." + name, value.transpose(1, 2))
    for i, layer in enumerate(result.past_key_values.layers):
        keep("decoder/cache.%d.key" % i, layer.keys.transpose(1, 2))
        keep("decoder/cache.%d.value" % i, layer.values.transpose(1, 2))
    keep("decoder/logits", result.logits[:, -1])
    write(out, {"model": "decoder", "type": kind})


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
        klein_tiny(rest[0], rest[1] if len(rest) > 1 else "f32", rest[2].split(",") if len(rest) > 2 else None)
    elif what == "klein":
        klein(rest[0], rest[1], rest[2] if len(rest) > 2 else "bf16", *(int(x) for x in rest[3:5] or (512, 512)))
    else:
        {"bert": bert, "decoder": decoder}[what](rest[0], rest[1], rest[2] if len(rest) > 2 else "f32")


if __name__ == "__main__":
    main()
