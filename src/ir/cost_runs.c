// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "ir/cost.h"
#include "ir/region.h"

// How often one run of its owner runs the region; a branch as if it were taken.
static double runs_of_owner(const struct module *m, int region, bool *bounded)
{
    const struct instruction *in = &m->instructions[m->regions[region].owner];
    switch (in->op) {
    case OP_WHILE:
        if (in->trips < 0)
            *bounded = false;
        return in->trips < 0 ? 1 : (double)in->trips + (region == in->regions[0]);
    case OP_SORT: // the sort itself is counted
        return 0;
    case OP_REDUCE_MANY: {
        const struct shape *x = &m->instructions[in->operands[0]].shape;
        double n = (double)shape_elements(x) - (double)shape_elements(&in->shape);
        return n > 0 ? n : 0;
    }
    default:
        return 1;
    }
}

// Branches that are not the one with the most arithmetic are taken to run never.
static void choose_branches(const struct module *m, const double *flop, double *runs)
{
    for (int r = 1; r < m->n_regions; r++) {
        const struct instruction *in = &m->instructions[m->regions[r].owner];
        int best = in->regions[0];
        for (int k = 1; k < in->n_regions; k++) {
            if (flop[in->regions[k]] > flop[best])
                best = in->regions[k];
        }
        if (in->op == OP_CASE && r != best)
            runs[r] = 0;
    }
}

int cost_runs(const struct module *m, struct arena *a, double **out, bool *bounded, struct error *err)
{
    size_t n = m->n_regions > 0 ? (size_t)m->n_regions : 1;
    double *runs = arena_new(a, double, n, err), *flop = arena_new(a, double, n, err);
    *out = runs;
    *bounded = true;
    if (!runs || !flop)
        return ERR_MEMORY;
    runs[0] = 1;
    for (int r = 1; r < m->n_regions; r++)
        runs[r] = runs_of_owner(m, r, bounded);
    for (int i = 0; i < m->n_instructions && m->n_regions; i++) {
        struct cost c;
        cost_instruction(m, i, &c);
        flop[m->instructions[i].region] += cost_product_flop(&c) + c.element_flop + c.transcendentals;
    }
    for (int r = m->n_regions - 1; r > 0; r--)
        flop[m->regions[r].parent] = fmin(flop[m->regions[r].parent] + flop[r] * runs[r], 1e200);
    choose_branches(m, flop, runs);
    for (int r = 1; r < m->n_regions; r++) // loops in loops of absurd counts: what is counted stays finite
        runs[r] = fmin(runs[r] * runs[m->regions[r].parent], 1e100);
    return 0;
}
