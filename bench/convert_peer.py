# SPDX-License-Identifier: Apache-2.0
"""One peer of bench/convert: convert_peer.py torch|numpy FILE THREADS. Same lines and answers as bench/convert.c. All
results are allocated before, and where there is more than one natural way the fastest is taken, by trial at the start."""
import hashlib
import sys
import time
import warnings

import numpy as np

COLUMNS, GROUP = 8192, 32
warnings.filterwarnings("ignore")


class Numpy:
    """numpy and ml_dtypes, one thread: they have no other."""

    def __init__(self, x, threads):
        import ml_dtypes

        self.version = "numpy %s, ml_dtypes %s, 1 thread" % (np.__version__, ml_dtypes.__version__)
        self.x, self.back, self.made = x, np.empty_like(x), np.empty_like(x)
        self.types = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f8e4m3fn": ml_dtypes.float8_e4m3fn}
        self.out = {k: np.zeros(x.shape, t) for k, t in self.types.items()}
        self.int8, self.int4 = np.zeros(x.shape, np.int8), np.zeros(x.size // 2, np.uint8)
        self.scales = {}

    def forms(self, name, back):
        if name in self.types:
            if back:
                return [lambda: np.copyto(self.back, self.out[name], casting="unsafe")]
            return [lambda: np.copyto(self.out[name], self.x, casting="unsafe")]
        if name.startswith("int8"):
            axis = 0 if name == "int8-columns" else 1
            return [lambda: self.int8_back(name)] if back else [lambda: self.to_int8(name, axis)]
        return [self.int4_back] if back else [self.to_int4]

    def quantise(self, x, axis, qmax, made):
        np.abs(x, out=made)
        scale = made.max(axis, keepdims=True) / np.float32(qmax)
        np.divide(x, scale, out=made)
        np.rint(made, out=made)
        return scale

    def to_int8(self, name, axis):
        self.scales[name] = self.quantise(self.x, axis, 127, self.made)
        np.copyto(self.int8, self.made, casting="unsafe")

    def int8_back(self, name):
        np.multiply(self.int8, self.scales[name], out=self.back)

    def to_int4(self):
        made = self.made.reshape(-1, GROUP)
        self.scales["int4"] = self.quantise(self.x.reshape(-1, GROUP), 1, 7, made)
        codes = self.int8
        np.copyto(codes, self.made, casting="unsafe")
        pairs = codes.reshape(-1).view(np.uint8).reshape(-1, 2)
        np.bitwise_or(pairs[:, 0] & 15, pairs[:, 1] << 4, out=self.int4)

    def int4_back(self):
        pairs = self.int8.reshape(-1, 2)
        signed = self.int4.view(np.int8)
        np.left_shift(signed, 4, out=pairs[:, 0])
        np.right_shift(pairs[:, 0], 4, out=pairs[:, 0])
        np.right_shift(signed, 4, out=pairs[:, 1])
        np.multiply(self.int8.reshape(-1, GROUP), self.scales["int4"], out=self.back.reshape(-1, GROUP))

    def result(self, name, back):
        return self.back if back else self.out.get(name, self.int4 if name == "int4" else self.int8)


class Torch:
    def __init__(self, x, threads):
        import torch

        torch.set_num_threads(threads)
        self.torch, self.version = torch, "torch %s, %d threads" % (torch.__version__.split("+")[0], threads)
        # Memory from numpy, which asks for large pages, as we do.
        new = lambda shape, dtype: torch.from_numpy(np.zeros(shape, dtype))
        self.x, self.back, self.made = torch.from_numpy(x), new(x.shape, np.float32), new(x.shape, np.float32)
        self.out = {
            "bf16": new(x.shape, np.int16).view(torch.bfloat16),
            "f16": new(x.shape, np.float16),
            "f8e4m3fn": new(x.shape, np.int8).view(torch.float8_e4m3fn),
        }
        self.int8, self.int4 = new(x.shape, np.int8), new(x.size // 2, np.int8)
        self.scales = {}

    def forms(self, name, back):
        if name in self.out:
            return [lambda: self.back.copy_(self.out[name])] if back else [lambda: self.out[name].copy_(self.x)]
        if name.startswith("int8"):
            axis = 0 if name == "int8-columns" else 1
            if back:
                return [lambda: self.torch.mul(self.int8, self.scales[name], out=self.back)]
            return [lambda: self.to_int8(name, axis, self.largest), lambda: self.to_int8(name, axis, self.norm)]
        if back:
            return [self.int4_back]
        return [lambda: self.to_int4(self.largest), lambda: self.to_int4(self.norm)]

    def largest(self, x, axis):
        return x.abs().amax(axis, keepdim=True)

    def norm(self, x, axis):
        return self.torch.linalg.vector_norm(x, float("inf"), dim=axis, keepdim=True)

    def quantise(self, x, axis, qmax, absmax, made):
        scale = absmax(x, axis) / qmax
        self.torch.div(x, scale, out=made)
        made.round_()
        return scale

    def to_int8(self, name, axis, absmax):
        self.scales[name] = self.quantise(self.x, axis, 127, absmax, self.made)
        self.int8.copy_(self.made)

    def to_int4(self, absmax):
        self.scales["int4"] = self.quantise(self.x.view(-1, GROUP), 1, 7, absmax, self.made.view(-1, GROUP))
        self.int8.copy_(self.made)
        pairs = self.int8.view(-1, 2)
        self.torch.bitwise_or(pairs[:, 0] & 15, pairs[:, 1] << 4, out=self.int4)

    def int4_back(self):
        pairs = self.int8.view(-1, 2)
        pairs[:, 0] = (self.int4 << 4) >> 4
        pairs[:, 1] = self.int4 >> 4
        self.torch.mul(self.int8.view(-1, GROUP), self.scales["int4"], out=self.back.view(-1, GROUP))

    def result(self, name, back):
        out = self.back if back else self.out.get(name, self.int4 if name == "int4" else self.int8)
        return out.view(self.torch.int8).numpy()


def seconds(run):
    begin = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - begin


def main():
    kind, path, threads = sys.argv[1:]
    x = np.empty(0, np.float32)
    data = np.fromfile(path, np.float32)
    x = np.empty((data.size // COLUMNS, COLUMNS), np.float32)
    x[:] = data.reshape(x.shape)
    del data
    peer = (Torch if kind == "torch" else Numpy)(x, int(threads))
    print(peer.version, flush=True)
    best = {}
    for line in sys.stdin:
        words = line.split()
        asks = words[0] == "hash"
        name, back = words[asks], len(words) > asks + 1
        if asks:
            print(hashlib.sha256(np.ascontiguousarray(peer.result(name, back)).view(np.uint8)).hexdigest(), flush=True)
            continue
        if (name, back) not in best:
            best[name, back] = min(peer.forms(name, back), key=lambda f: (f(), seconds(f))[1])
        print(seconds(best[name, back]), flush=True)


main()
