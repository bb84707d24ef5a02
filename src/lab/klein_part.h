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

#endif
