// SPDX-License-Identifier: Apache-2.0
// Weights that are several in one (queries, keys and values; gate and up), for tensor parallelism: divided into as many
// parts as there are ways, each part would hold whole queries of some and whole keys of others. Interleaved, each has
// its heads of all.
#ifndef PLAN_INTERLEAVE_H
#define PLAN_INTERLEAVE_H

#include "ir/module.h"

enum { INTERLEAVE_MOST = 8 };

// A weight whose rows (axis 0) or columns (axis 1) are to lie so: of each of `ways` devices its share of the first
// part, then of the second.
struct interleaved {
    int parameter, axis, n;
    int64_t parts[INTERLEAVE_MOST]; // rows or columns, in the order of the checkpoint
};

struct interleaving {
    int64_t ways;
    struct interleaved *weights;
    int n;
};

// `out` is `m` with such weights in their new order: where outputs are cut into their parts, and where parts are joined
// before a product. Same results, when the weights lie so. `out` was initialised; everything is in its arena. ERR_USAGE
// where a part is no multiple of the ways.
int interleave(const struct module *m, int64_t ways, struct module *out, struct interleaving *list, struct error *err);

#endif
