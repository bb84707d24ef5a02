// SPDX-License-Identifier: Apache-2.0
// The sampler of FLUX.2: rectified flow from noise (sigma 1) to an image (sigma 0) in a few Euler steps, whose sizes
// depend on the number of tokens. The two reference implementations round differently on the way; both are here.
#ifndef MODELS_FLUX2_SCHEDULE_H
#define MODELS_FLUX2_SCHEDULE_H

#include "models/flux2.h"

enum { FLUX2_MAX_STEPS = 1000 };

// Where a sampler rounds. `bf16` below says that the model computes in bf16; without it nothing but f32 is rounded to.
enum flux2_sampler {
    FLUX2_DIFFUSERS, // schedule in f32; times as bf16(1000 sigma) / 1000 * 1000; deltas, products and sums in bf16
    FLUX2_BFL,       // schedule in f32 from the other end; times as 1000 bf16(sigma); products and sums in bf16
    FLUX2_EXACT,     // schedule in f64, times, products and sums in f32
};
// "diffusers", "bfl", "exact". False for another name.
bool flux2_sampler_parse(enum flux2_sampler *out, const char *name);
const char *flux2_sampler_name(enum flux2_sampler s);

struct flux2_schedule {
    double mu; // shift towards large sigmas
    int64_t steps;
    double sigmas[FLUX2_MAX_STEPS + 1]; // from 1 down to 0
    float times[FLUX2_MAX_STEPS];       // what the model is told: sigma times 1000, rounded as the sampler does
    float deltas[FLUX2_MAX_STEPS];      // sigma of the next step minus sigma: what a velocity is multiplied by
};

// mu(tokens, steps) = a steps + m200 - 200 a, a = (m200 - m10) / 190, m200 = 0.00016927 tokens + 0.45666666, m10 =
// 8.73809524e-5 tokens + 1.89833333; m200 itself beyond 4300 tokens. sigma(u) = e^mu / (e^mu + 1/u - 1) for u = 1,
// 1 - 1/steps, ..., then 0. ERR_USAGE for steps that are not from 1 to FLUX2_MAX_STEPS.
int flux2_schedule_make(struct flux2_schedule *s, enum flux2_sampler sampler, bool bf16, int64_t tokens, int64_t steps,
                        struct error *err);

// One Euler step, as a module that policies leave alone. Inputs: "latent" [batch, tokens, channels] in how->latent,
// "velocity" in how->handed, "delta" f32; with `guided` also "velocity.empty" (without the prompt) and "guidance" f32:
// velocity = empty + guidance (velocity - empty). Results: "latent", of the same type, and "nonfinite" s32: how many
// of its values are not finite.
int flux2_update_module(const struct flux2_config *c, const struct flux2_build *how, enum flux2_sampler sampler,
                        bool bf16, bool guided, struct module *m, struct error *err);

#endif
