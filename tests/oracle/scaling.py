# SPDX-License-Identifier: Apache-2.0
"""Fixture of the suite `scaling` of the precision lab.

    build-oracle/venv/bin/python tests/oracle/scaling.py

writes tests/fixtures/lab/scaling.json: the training runs of the suite in numpy, with ml_dtypes' bf16 and numpy's f16 where
activations and gradients are stored. Sums of products have no order that is promised, and a sum that is off by one bit can
be stored as another f16, and so on through every later step. So every run is made twice, with sums in f32 as numpy's BLAS
takes them and with exact sums rounded to f32: how far these two lie apart is how far the device may be off. The gradient
that goes straight through a rounding is torch's: autograd, with a function whose backward pass is the identity.
"""

import json
import pathlib

import ml_dtypes
import numpy as np
import torch

TOP = pathlib.Path(__file__).resolve().parents[2]
OUT = TOP / "tests/fixtures/lab/scaling.json"
STEPS, ROWS, SEED = 200, 60, 17
BATCH, INPUTS, HIDDEN, OUTPUTS, PARTS, GROWTH = 128, 32, 64, 16, 8192, 20
CLIP = 0.05 / PARTS
f32, f64, f16, bf16 = np.float32, np.float64, np.float16, ml_dtypes.bfloat16

RUNS = {
    "f64": dict(type=f64, weights=f64),
    "f32": dict(type=f32),
    "bf16": dict(type=bf16),
    "f16, not scaled": dict(type=f16),
    "f16, scale 2^20": dict(type=f16, scale=2.0**20),
    "f16, scale adapted": dict(type=f16, scale=2.0**32, adapt=True),
    "f32, clipped": dict(type=f32, clip=CLIP),
    "f16, clipped without the scale": dict(type=f16, scale=2.0**20, clip=CLIP),
    "f16, clipped with the scale": dict(type=f16, scale=2.0**20, clip_scaled=CLIP),
    "f16 weights": dict(type=f16, weights=f16, scale=2.0**20),
    "bf16 weights": dict(type=bf16, weights=bf16),
    "int4, straight through": dict(type=f32, through=7),
    "int2, straight through": dict(type=f32, through=1),
    "int2, every step cast": dict(type=f32, cast=1),
}


def data():
    rng = np.random.default_rng(SEED)
    x = rng.normal(size=(BATCH, INPUTS)).astype(f32)
    teacher1 = rng.normal(size=(INPUTS, HIDDEN)) / np.sqrt(INPUTS)
    teacher2 = rng.normal(size=(HIDDEN, OUTPUTS)) / np.sqrt(HIDDEN)
    w1 = (rng.normal(size=(INPUTS, HIDDEN)) / np.sqrt(INPUTS)).astype(f32)
    w2 = (rng.normal(size=(HIDDEN, OUTPUTS)) / np.sqrt(HIDDEN)).astype(f32)
    t = (np.maximum(x.astype(f64) @ teacher1, 0) @ teacher2).astype(f32)
    return x, t, w1, w2


def column_scales(w, qmax):
    amax = np.abs(w).max(axis=0, keepdims=True)
    return np.where(amax == 0, w.dtype.type(1), amax / w.dtype.type(qmax))


def quantise(w, scales, qmax):
    return np.clip(np.rint(w / scales), -qmax, qmax) * scales


class Net:
    def __init__(self, x, t, type, exact_sums, scale=1.0, weights=f32, adapt=False, clip=np.inf, clip_scaled=np.inf, through=0, cast=0):
        self.x, self.t, self.type, self.weights = x, t, type, weights
        self.sum = f64 if type is f64 else f32
        self.exact_sums, self.scale, self.adapt = exact_sums, scale, adapt
        self.clip, self.clip_scaled, self.through, self.cast = clip, clip_scaled, through, cast

    def dot(self, a, b):
        if self.exact_sums:
            return (a.astype(f64) @ b.astype(f64)).astype(self.sum)
        return a.astype(self.sum) @ b.astype(self.sum)

    def gradient(self, w1, w2):
        """Loss, stored gradients, and how many of y's, h's and the weights' became 0."""
        stored = lambda a: a.astype(self.type)
        if self.through:
            w1, w2 = (quantise(w, column_scales(w, self.through), self.through) for w in (w1, w2))
        x, w1, w2 = stored(self.x), stored(w1), stored(w2)
        z = stored(self.dot(x, w1))
        h = np.maximum(z, self.type(0))
        y = stored(self.dot(h, w2))
        r = y.astype(self.sum) - self.t.astype(self.sum)
        loss = float((r.astype(f64) ** 2).mean())
        dy_sum = r * self.sum(self.scale * 2 / r.size / PARTS)
        dy = stored(dy_sum)
        dh_sum = self.dot(dy, w2.T)
        dh = stored(dh_sum)
        dz = np.where(z > self.type(0), dh, self.type(0))
        g1_sum, g2_sum = self.dot(x.T, dz), self.dot(h.T, dy)
        g1, g2 = stored(g1_sum), stored(g2_sum)
        zeroed = lambda a, b: int(((a != 0) & (b == self.type(0))).sum())
        flushed = [zeroed(dy_sum, dy), zeroed(dh_sum, dh), zeroed(g1_sum, g1) + zeroed(g2_sum, g2)]
        return loss, (g1, g2), flushed

    def step(self, w, g, scales):
        unscale = self.sum(1 / self.scale)
        g = [a.astype(self.sum) for a in g]
        norm = self.sum(np.sqrt(sum((a.astype(f64) ** 2).sum() for a in g)))
        factor = min(self.sum(self.clip_scaled) / norm, self.sum(1))
        norm = norm * factor * unscale
        share = min(self.sum(self.clip) / norm, self.sum(1))
        factor = factor * unscale * share
        new, updates, lost = [], 0, 0
        for i in range(2):
            move = (g[i] * factor) * self.sum(PARTS)
            n = w[i].astype(self.sum) - move
            if self.cast:
                n = quantise(n, scales[i], self.cast)
            n = n.astype(self.weights)
            updates += int((move != 0).sum())
            lost += int(((move != 0) & (n == w[i])).sum())
            new.append(n)
        return new, updates, lost

    def train(self, w1, w2):
        scales = None
        if self.cast:
            scales = [column_scales(w, self.cast) for w in (w1, w2)]
            w1, w2 = (quantise(w, s, self.cast) for w, s in zip((w1, w2), scales))
        w = [w1.astype(self.weights), w2.astype(self.weights)]
        losses, flushed, updates, lost, skipped, grown, good = [], 0, 0, 0, 0, 0, 0
        for k in range(STEPS + 1):
            loss, g, zeroed = self.gradient(*w)
            losses.append(loss)
            if k == STEPS:
                break
            flushed += sum(zeroed)
            fine = all(np.isfinite(a.astype(f64)).all() for a in g)
            if fine:
                w, u, gone = self.step(w, g, scales)
                updates, lost = updates + u, lost + gone
            else:
                skipped += 1
            good = good + 1 if fine else 0
            if self.adapt and not fine:
                self.scale /= 2
            elif self.adapt and good == GROWTH:
                self.scale, good, grown = self.scale * 2, 0, grown + 1
        gradients = BATCH * (OUTPUTS + HIDDEN) + INPUTS * HIDDEN + HIDDEN * OUTPUTS
        return {
            "losses": losses,
            "flushed": flushed / gradients / STEPS,
            "lost": lost / updates if updates else 0,
            "skipped": skipped,
            "scale": self.scale,
            "weights": w,
        }


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w, qmax):
        scales = w.abs().amax(dim=0, keepdim=True) / qmax
        return torch.clamp(torch.round(w / scales), -qmax, qmax) * scales

    @staticmethod
    def backward(ctx, g):
        return g, None


def torch_gradient(x, t, w1, w2, qmax):
    x, t = torch.from_numpy(x).double(), torch.from_numpy(t).double()
    # The codes are those of f32 weights; everything after is f64.
    w = [torch.from_numpy(a).requires_grad_() for a in (w1, w2)]
    q = [StraightThrough.apply(a, qmax).double() for a in w]
    (((torch.relu(x @ q[0]) @ q[1]) - t) ** 2).mean().backward()
    return np.concatenate([a.grad.numpy().ravel() for a in w]).astype(f64)


def main():
    x, t, w1, w2 = data()
    every = STEPS // ROWS + 1
    rows = [k for k in range(STEPS + 1) if k % every == 0 or k == STEPS]
    out = {"steps": STEPS, "seed": SEED, "rows": rows, "runs": {}, "rounded": {}, "straight_through": {}}
    weights = None
    for name, options in RUNS.items():
        with np.errstate(over="ignore", invalid="ignore"):
            a, b = (Net(x, t, exact_sums=e, **options).train(w1, w2) for e in (False, True))
        apart = np.maximum.accumulate(np.abs(np.array(a["losses"]) - np.array(b["losses"])))
        out["runs"][name] = {
            "losses": [a["losses"][k] for k in rows],
            "apart": [float(apart[k]) for k in rows],
            **{k: [r[k] for r in (a, b)] for k in ("flushed", "lost", "skipped", "scale")},
        }
        print(name, a["losses"][-1], b["losses"][-1], [r["skipped"] for r in (a, b)], [r["flushed"] for r in (a, b)], [r["lost"] for r in (a, b)])
        weights = a["weights"] if name == "f32" else weights
    plain = Net(x, t, f32, True)
    for name, qmax in (("int4", 7), ("int2", 1)):
        out["rounded"][name] = plain.gradient(*(quantise(w, column_scales(w, qmax), qmax) for w in weights))[0]
        torch_g = torch_gradient(x, t, w1, w2, qmax)
        _, g, _ = Net(x, t, f32, True, through=qmax).gradient(w1, w2)
        mine = np.concatenate([a.ravel() for a in g]).astype(f64) * PARTS
        assert np.linalg.norm(mine - torch_g) < 1e-5 * np.linalg.norm(torch_g)
        out["straight_through"][name] = {
            "norm": float(np.linalg.norm(torch_g)),
            "every_37th": [float(v) for v in torch_g[::37]],
        }
    versions = {"numpy": np.__version__, "ml_dtypes": ml_dtypes.__version__, "torch": torch.__version__}
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"versions": versions, **out}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
