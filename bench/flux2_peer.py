# SPDX-License-Identifier: Apache-2.0
"""One part in diffusers, bf16, kept alive: flux2_peer.py CASE. A line N on stdin makes it run N times and answer with the
seconds of each and its peak memory."""
import os
import sys
import time

os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="2")
import torch
from diffusers import AutoencoderKLFlux2
from diffusers.models.transformers.transformer_flux2 import Flux2SingleTransformerBlock, Flux2TransformerBlock

from pairs import peak_bytes

THREADS, TEXT, HIDDEN, HEADS, DIM = 2, 512, 3072, 24, 128


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


def decoder(pixels):
    vae = AutoencoderKLFlux2().bfloat16().eval()
    z = draw(1, 32, pixels // 8, pixels // 8)
    last = AutoencoderKLFlux2().bfloat16().eval().to(memory_format=torch.channels_last)
    z_last = z.to(memory_format=torch.channels_last)
    return [("channels first", lambda: vae.decode(z)), ("channels last", lambda: last.decode(z_last))]


def best_of(ways):
    timed = []
    for name, run in ways:
        run()
        begin = time.perf_counter()
        run()
        timed.append((time.perf_counter() - begin, name, run))
    return min(timed, key=lambda t: t[0])[1:]


def main():
    kind, n = sys.argv[1].split(":")
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    with torch.inference_mode():
        name, run = best_of(decoder(int(n)) if kind == "decoder" else block(kind, int(n)))
        print("torch %s, %s" % (torch.__version__, name), flush=True)
        for line in sys.stdin:
            times = []
            for _ in range(int(line)):
                begin = time.perf_counter()
                run()
                times.append(time.perf_counter() - begin)
            print(*times, peak_bytes("self"), flush=True)


main()
