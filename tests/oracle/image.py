# SPDX-License-Identifier: Apache-2.0
"""Images against Pillow, and reference images against diffusers.

    build-oracle/venv/bin/python tests/oracle/image.py

writes tests/fixtures/io/image/: small PNG and JPEG files of every kind, and image.json: what Pillow's open, exif_transpose
and convert("RGB") make of them (a hash, and for some the bytes), what its LANCZOS makes of a generated image in several
sizes, what diffusers' image processor of FLUX.2 makes of references, and its way to levels.
"""
import hashlib
import io
import json
import pathlib
import struct
import zlib

import diffusers
import numpy as np
import PIL
import torch
from diffusers.pipelines.flux2.image_processor import Flux2ImageProcessor
from PIL import Image, ImageOps, features

TOP = pathlib.Path(__file__).resolve().parents[2]
OUT = TOP / "tests/fixtures/io/image"


def noise(n, seed):
    """Bytes of a linear congruential generator, as tests/unit/test_io_image.c makes them."""
    out, state = np.empty(n, np.uint8), seed
    for i in range(n):
        state = (state * 1664525 + 1013904223) % 2**32
        out[i] = state >> 24
    return out


def generated(width, height, seed=1):
    return Image.fromarray(noise(width * height * 3, seed).reshape(height, width, 3))


def smooth(width, height):
    """Gradients with an edge: no JPEG of it loses much."""
    y, x = np.mgrid[0:height, 0:width]
    rgb = np.stack([x * 255 // max(width - 1, 1), y * 255 // max(height - 1, 1), (x + y) * 7 % 256], -1).astype(np.uint8)
    rgb[height // 2, :, 0] = 255
    return Image.fromarray(rgb)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def raw_png(width, height, bits, color, samples, extra=b""):
    """A PNG that Pillow does not write: any depth, any type of colour. samples: rows of packed bytes."""
    data = b"".join(b"\0" + bytes(row) for row in samples)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0)) + extra + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b"")


def saved(image, form, **how):
    out = io.BytesIO()
    image.save(out, form, **how)
    return out.getvalue()


def exif(orientation, big=False):
    order, mark = (">", b"MM\0*") if big else ("<", b"II*\0")
    entries = [(0x010F, 2, 4, b"us\0\0"), (0x0112, 3, 1, struct.pack(order + "HH", orientation, 0))]
    body = b"".join(struct.pack(order + "HHI", t, k, n) + v for t, k, n, v in entries)
    return mark + struct.pack(order + "IH", 8, len(entries)) + body + b"\0\0\0\0"


def files():
    w, h = 21, 13
    rgb, wide = smooth(w, h), np.asarray(smooth(w, h)).astype(np.uint16) * 257
    yield "rgb.png", saved(rgb, "PNG")
    yield "rgba.png", saved(Image.fromarray(np.dstack([np.asarray(rgb), noise(w * h, 3).reshape(h, w)])), "PNG")
    yield "gray8.png", saved(rgb.convert("L"), "PNG")
    yield "gray_alpha.png", saved(rgb.convert("LA"), "PNG")
    yield "palette.png", saved(rgb.quantize(19), "PNG")
    yield "palette_alpha.png", saved(rgb.quantize(7), "PNG", transparency=bytes([0, 128, 255, 3, 9, 200, 1]))
    yield "bilevel.png", saved(rgb.convert("1"), "PNG")
    for bits in 2, 4:
        row = lambda y: noise((w * bits + 7) // 8, 10 + y)
        yield f"gray{bits}.png", raw_png(w, h, bits, 0, [row(y) for y in range(h)])
        palette = chunk(b"PLTE", bytes(noise(3 * 2**bits, bits)))
        yield f"palette{bits}.png", raw_png(w, h, bits, 3, [row(y) for y in range(h)], palette)
    yield "gray16.png", raw_png(w, h, 16, 0, [noise(2 * w, 40 + y) for y in range(h)])
    yield "rgb16.png", raw_png(w, h, 16, 2, [noise(6 * w, 60 + y) for y in range(h)])
    yield "rgba16.png", raw_png(w, h, 16, 6, [noise(8 * w, 80 + y) for y in range(h)])
    yield "gray_trns.png", raw_png(w, h, 8, 0, [noise(w, 90 + y) for y in range(h)], chunk(b"tRNS", b"\0\x20"))
    yield "rgb_trns.png", raw_png(w, h, 8, 2, [noise(3 * w, 95 + y) for y in range(h)], chunk(b"tRNS", b"\0\1\0\2\0\3"))
    yield "gamma.png", raw_png(w, h, 8, 2, [noise(3 * w, 99 + y) for y in range(h)], chunk(b"gAMA", struct.pack(">I", 100000)))
    yield "exif.png", raw_png(w, h, 8, 2, [noise(3 * w, 7 + y) for y in range(h)], chunk(b"eXIf", exif(6, True)))
    yield "one.png", saved(rgb.crop((0, 0, 1, 1)), "PNG")
    # Seven passes over a picture of 5 by 3, filter 0 each: what nobody writes by hand but everybody has to read.
    px = np.asarray(rgb)[:3, :5]
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    lines = b"".join(b"\0" + px[y, x0::dx].tobytes() for x0, y0, dx, dy in passes for y in range(y0, 3, dy) if px[y, x0::dx].size)
    yield "interlaced.png", (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 5, 3, 8, 2, 0, 0, 1)) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))
    yield "rgb444.jpg", saved(rgb, "JPEG", quality=92, subsampling=0)
    yield "rgb420.jpg", saved(rgb, "JPEG", quality=80, subsampling=2)
    yield "rgb422.jpg", saved(rgb, "JPEG", quality=70, subsampling=1)
    yield "progressive.jpg", saved(rgb, "JPEG", quality=80, progressive=True)
    yield "restart.jpg", saved(smooth(40, 24), "JPEG", quality=75, restart_marker_blocks=2)
    yield "gray.jpg", saved(rgb.convert("L"), "JPEG")
    yield "cmyk.jpg", saved(rgb.convert("CMYK"), "JPEG", quality=90)
    yield "optimized.jpg", saved(generated(17, 9), "JPEG", quality=30, optimize=True)
    for o in range(1, 9):
        yield f"turned{o}.jpg", saved(rgb, "JPEG", quality=60, exif=b"Exif\0\0" + exif(o, o % 2 == 0))
    yield "turned9.jpg", saved(rgb, "JPEG", quality=60, exif=b"Exif\0\0" + exif(9))


def sha(data):
    return hashlib.sha256(data).hexdigest()


def read(data, name):
    image = Image.open(io.BytesIO(data))
    return ImageOps.exif_transpose(image).convert("RGB")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    fixture = {"versions": {"pillow": PIL.__version__, "libjpeg-turbo": features.version("libjpeg_turbo"), "diffusers": diffusers.__version__}}
    fixture["files"] = []
    for name, data in files():
        (OUT / name).write_bytes(data)
        image = read(data, name)
        rgb = np.asarray(image)
        if name == "gray16.png":  # Pillow's mode of 16 bits has its own way to levels; ours is the high byte, as for colours
            print(name, "Pillow's first levels:", rgb[0, :4, 0], "high bytes:", noise(8, 40)[::2])
            rgb = np.repeat(np.stack([noise(42, 40 + y)[::2] for y in range(13)])[:, :, None], 3, 2)
        fixture["files"].append({"name": name, "width": image.width, "height": image.height, "sha256": sha(rgb.tobytes())})
    fixture["resized"] = []
    for w, h, to_w, to_h in ((64, 64, 64, 64), (64, 64, 32, 32), (64, 48, 31, 97), (33, 57, 57, 33), (100, 3, 7, 50), (5, 5, 64, 64), (200, 150, 13, 9), (64, 64, 64, 20),
                             (64, 64, 20, 64), (1, 1, 9, 9), (300, 2, 299, 1), (128, 96, 127, 95)):  # fmt: skip
        # Rows first: what Pillow does, except that Pillow 13 takes columns first where that saves it much work.
        image = generated(w, h, w * 1000 + h)
        out = image.resize((to_w, h), Image.Resampling.LANCZOS).resize((to_w, to_h), Image.Resampling.LANCZOS)
        if image.resize((to_w, to_h), Image.Resampling.LANCZOS).tobytes() != out.tobytes():
            print("columns first:", w, h, "to", to_w, to_h)
        fixture["resized"].append({"from": [w, h], "to": [to_w, to_h], "sha256": sha(out.tobytes())})
    processor = Flux2ImageProcessor(vae_scale_factor=16, vae_latent_channels=32)
    fixture["references"] = []
    for w, h, limit in ((64, 64, 1024 * 1024), (100, 77, 1024 * 1024), (65, 512, 1024 * 1024), (1100, 1000, 1024 * 1024), (333, 200, 40000), (640, 80, 10000), (257, 129, 33000)):
        image = generated(w, h, w + h)
        processor.check_image_input(image)
        if w * h > limit:
            image = processor._resize_to_target_area(image, limit)
        width, height = image.width // 16 * 16, image.height // 16 * 16
        out = processor.preprocess(image, height=height, width=width, resize_mode="crop")
        numbers = out[0].permute(1, 2, 0).contiguous().numpy()
        fixture["references"].append({"from": [w, h], "limit": limit, "to": [width, height], "sha256": sha(numbers.tobytes())})
    # To levels: every bf16 from -2 to 2, and the ties.
    bits = np.arange(0x4001, dtype=np.uint32)
    values = np.concatenate([(bits << 16).view(np.float32), -(bits << 16).view(np.float32), np.linspace(-1.1, 1.1, 4096, dtype=np.float32)])
    values = values[: values.size // 3 * 3]
    x = torch.tensor(values).reshape(1, -1, 3, 1).permute(0, 2, 1, 3)
    levels = lambda t: sha((processor.pt_to_numpy(processor._denormalize_conditionally(t)) * 255).round().astype("uint8").tobytes())
    bfl = (127.5 * (x.clamp(-1, 1) + 1.0)).permute(0, 2, 3, 1).contiguous().byte().numpy()
    fixture["levels"] = {"n": int(values.size), "round": levels(x), "round_bf16": levels(x.bfloat16()), "truncate": sha(bfl.tobytes())}
    path = OUT / "image.json"
    path.write_text(json.dumps(fixture, separators=(",", ":")).replace('{"name"', '\n{"name"').replace('{"from"', '\n{"from"') + "\n")
    print("wrote", len(fixture["files"]), "files,", sum(f.stat().st_size for f in OUT.iterdir()), "bytes")


if __name__ == "__main__":
    main()
