// SPDX-License-Identifier: Apache-2.0
// How a layout divides the arguments and results of a module over devices, in the notation that XLA's partitioner
// reads.
#ifndef PLAN_SHARDING_H
#define PLAN_SHARDING_H

#include "ir/module.h"
#include "plan/layout.h"

struct sharding {
    const char **parameters; // a text for each parameter of the module; NULL: whole on every device
    const char **results;
};

// dp divides the batch of inputs and results, their first axis. fsdp does so, too, and the first axis of every weight.
// tp divides the weights whose outputs are heads or ffn columns along their outputs, and those that take them along
// their inputs: which is which, their names say (q, k, v, up, gate, query, intermediate.dense...; out, down,
// output.dense...). Devices are numbered dp, then fsdp, then tp. Everything is in the arena. ERR_USAGE: an axis that
// this does not do (ulysses, ring, pp, ep, sp), a weight matrix of no known name under tp, an axis that the ways do not
// divide.
int sharding_make(struct sharding *out, const struct module *m, const struct layout *l, struct arena *arena,
                  struct error *err);

#endif
