// SPDX-License-Identifier: Apache-2.0
// The program of a layout: a module as each device's partitioner is to have it.
#ifndef PLAN_DIVIDE_H
#define PLAN_DIVIDE_H

#include "plan/interleave.h"
#include "plan/layout.h"
#include "plan/sharding.h"

struct divided {
    const struct module *module; // with attention in blocks under ring, stacked weights interleaved under tp
    struct interleaving interleaving;
    struct module_division division;
};

// Everything is in the arena, which must outlive it as the module must. ERR_USAGE as of ring.h, interleave.h and
// sharding.h.
int divide_module(const struct module *m, const struct layout *l, int slices, struct arena *arena, struct divided *out,
                  struct error *err);

#endif
