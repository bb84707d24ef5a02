// SPDX-License-Identifier: Apache-2.0
#include "plan/divide.h"

#include "plan/ring.h"

int divide_module(const struct module *m, const struct layout *l, int slices, struct arena *arena, struct divided *out,
                  struct error *err)
{
    int64_t tp = l->ways[LAYOUT_TP], ring = l->ways[LAYOUT_RING];
    struct module *turned = arena_new(arena, struct module, 2, err);
    *out = (struct divided){.module = m};
    int rc = turned ? 0 : ERR_MEMORY;
    if (!rc && ring > 1) {
        module_init(&turned[0], arena, m->name);
        rc = ring_attention(m, ring, &turned[0], err);
        out->module = &turned[0];
    }
    if (!rc && tp > 1) {
        module_init(&turned[1], arena, m->name);
        rc = interleave(out->module, tp, &turned[1], &out->interleaving, err);
        out->module = &turned[1];
    }
    return rc ? rc : sharding_make(&out->division, out->module, l, slices, arena, err);
}
