// SPDX-License-Identifier: Apache-2.0
// What the files of the pipeline share: klein.c makes it, klein_run.c runs it.
#ifndef LAB_KLEIN_PART_H
#define LAB_KLEIN_PART_H

#include <stdio.h>

#include "base/clock.h"
#include "ir/retype.h"
#include "lab/klein.h"

// The module of a part under the policy into k->modules[part].
int klein_module(struct klein *k, enum klein_part part, const struct flux2_build *how, struct error *err);
// Compiles a part unless it is compiled, and sets the inputs that never change.
int klein_compile(struct klein *k, enum klein_part part, const struct progress *progress, struct error *err);

// The pieces of klein_denoise, for those who time them one by one: a context (0: the prompt's, 1: the empty one's)
// embedded, with the modulations of all steps; noise uploaded as the latents; step i, whose velocities are left in v
// (-1 before the first step). The component is loaded.
int klein_prepare(struct klein *k, int which, struct error *err);
int klein_start(struct klein *k, const void *noise, struct error *err);
int klein_step(struct klein *k, int64_t i, int v[2], struct error *err);

#endif
