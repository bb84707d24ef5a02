# SPDX-License-Identifier: Apache-2.0
"""One step of the sampler in bf16, value by value, as both references take it.

    build-oracle/venv/bin/python tests/oracle/flux2_update.py      writes tests/fixtures/ir/flux2_update.*

diffusers: the step of its scheduler, whose delta is a tensor. Black Forest Labs: the line of its sampler,
img + (t_prev - t_curr) * pred, whose times are numbers of Python. Both with the guidance that comes before it and without.
"""
import json
import os

import flux2_pipeline as small
import diffusers
import flux2_tiny as tiny
import numpy as np
import torch

ROWS, COLUMNS, CHANNELS, TOKENS, STEPS, GUIDANCE = 8, 8, 16, 1024, 4, 4.0


@torch.inference_mode()
def main():
    generator = np.random.default_rng(50)
    latent, velocity, empty = (torch.from_numpy(generator.standard_normal((1, ROWS * COLUMNS, CHANNELS)).astype(np.float32)).bfloat16() for _ in range(3))
    guided = empty + GUIDANCE * (velocity - empty)
    cases = []
    for step in range(STEPS):
        for guidance, v in ((1.0, velocity), (GUIDANCE, guided)):
            scheduler = diffusers.FlowMatchEulerDiscreteScheduler(num_train_timesteps=1000, shift=3.0, use_dynamic_shifting=True, time_shift_type="exponential")
            scheduler.set_timesteps(sigmas=np.linspace(1.0, 1 / STEPS, STEPS), mu=small.klein.compute_empirical_mu(TOKENS, STEPS))
            theirs = scheduler.step(v, scheduler.timesteps[step], latent, return_dict=False)[0]
            sigmas, _ = small.bfl_schedule(TOKENS, STEPS)
            bfl = latent + (sigmas[step + 1] - sigmas[step]) * v
            for sampler, after in (("diffusers", theirs), ("bfl", bfl)):
                assert after.dtype == torch.bfloat16
                cases.append({"sampler": sampler, "step": step, "guidance": guidance, "after": tiny.place(after.float().numpy())})
    index = {"made_by": "tests/oracle/flux2_update.py", "versions": {"diffusers": diffusers.__version__, "torch": torch.__version__.split("+")[0], "numpy": np.__version__},
             "rows": ROWS, "columns": COLUMNS, "tokens": TOKENS, "steps": STEPS, "latent": tiny.place(latent.float().numpy()),
             "velocity": tiny.place(velocity.float().numpy()), "velocity.empty": tiny.place(empty.float().numpy()), "cases": cases}  # fmt: skip
    with open(os.path.join(tiny.OUT, "flux2_update.bin"), "wb") as f:
        f.write(tiny.blob)
    with open(os.path.join(tiny.OUT, "flux2_update.json"), "w", encoding="ascii") as f:
        json.dump(index, f, indent=1)
        f.write("\n")
    print(len(cases), "cases,", len(tiny.blob), "bytes")


if __name__ == "__main__":
    main()
