// SPDX-License-Identifier: Apache-2.0
// What a module costs, counted by the rules of XLA's HloCostAnalysis where they are right, per instruction and per
// group.
#ifndef IR_COST_H
#define IR_COST_H

#include "ir/module.h"

struct cost {
    double product_flop[DT_COUNT]; // 2 per multiply-add of products, by the type of the operands
    double element_flop;           // one per output element of other arithmetic, and of reductions
    double transcendentals;        // exp, erf, sqrt...: counted apart
    double bytes_unfused;          // operands and results of every instruction
    double bytes;                  // with each scope fused: what enters and leaves it, once
    double bytes_merged;           // with scopes that have no product made inside those beside them: of these only
                                   // what they read of parameters and return
    double weight_bytes;           // of `bytes`: parameters that are weights, with scales
    double weight_excess;          // of `weight_bytes`: what matrices of floats have beyond a byte per element
};

double cost_product_flop(const struct cost *c); // over all types
void cost_add(struct cost *to, const struct cost *c);
void cost_scale(struct cost *c, double times);

// One run of one instruction by itself (bytes = bytes_unfused), without its regions. Views (parameter, constant,
// reshape, bitcast) cost nothing.
void cost_instruction(const struct module *m, int instruction, struct cost *out);

// How often each region runs in one run of the module, n_regions numbers (at least one) in the arena: a loop's body as
// often as the loop says, its condition once more; of branches the one with the most arithmetic; the body of a
// reduction once per element that it takes in. *bounded is false where some loop does not say how often: it is taken to
// run once.
int cost_runs(const struct module *m, struct arena *a, double **runs, bool *bounded, struct error *err);

struct cost_row {
    const char *group; // or scope
    struct cost cost;
};

// One row per group in the order of module_groups; *n rows in the arena.
int cost_groups(const struct module *m, struct arena *a, struct cost_row **rows, int *n, struct cost *total,
                struct error *err);
// The same with a row per scope ("layer.3.mlp.up"), in the order of first use.
int cost_scopes(const struct module *m, struct arena *a, struct cost_row **rows, int *n, struct cost *total,
                struct error *err);

#endif
