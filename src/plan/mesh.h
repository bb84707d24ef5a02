// SPDX-License-Identifier: Apache-2.0
// Which links of a slice each way of a mixed layout takes: the ways that send most lie inside, on axes of their own
// where there are such, the others on what is left.
#ifndef PLAN_MESH_H
#define PLAN_MESH_H

#include "plan/collective.h"
#include "plan/layout.h"

struct mesh_way {
    enum layout_axis axis;
    int64_t ways;
    struct network network; // of one group of this way, as collective_cost takes it
    char place[96];         // "all 4 of axis 2, a line", "2 slices"
};

struct mesh {
    struct mesh_way ways[LAYOUT_AXES]; // innermost first: tp, ulysses, ring, ep, fsdp, dp, pp
    int n;
};

// A way takes whole axes whose extents make it up, then a part of one: a block of neighbours on a line. Who takes the
// rest of an axis that others have a block of meets neighbours that are a block apart: it has that share of each link,
// and wraps where the axis does. Over several slices the outermost way that they divide (dp, pp or fsdp) goes between
// them, its groups sharing the machines' network. ERR_USAGE, naming way and slice, where ways do not fit the axes.
int mesh_of(const struct network *n, const struct layout *l, struct mesh *out, struct error *err);

#endif
