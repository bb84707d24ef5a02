// SPDX-License-Identifier: Apache-2.0
// Rewriting a module: the same graph again with some of it changed.
#ifndef IR_REWRITE_H
#define IR_REWRITE_H

#include "ir/builder.h"

// A value that is added up over all runs of the regions it is made in.
struct rewrite_sum {
    int key, region, value;
    enum opcode reducer;
};

struct rewrite {
    struct builder b;
    const struct module *from;
    int *map;     // old value -> new one, -1 until made
    int *regions; // old region -> new one, -1 until begun
    int base;     // the new region that stands for the old program: 0, unless it goes into a region of a larger one
    struct rewrite_sum *sums;
    int n_sums;
    size_t cap_sums;
};

int rewrite_init(struct rewrite *w, const struct module *from, struct module *to, struct error *err); // ERR_MEMORY
// The same for passes that come once: ERR_INTERNAL for a module whose parameters are quantised already.
int rewrite_init_once(struct rewrite *w, const struct module *from, struct module *to, struct error *err);
// The builder goes where `in` is: its scope, group, domain and region.
void rewrite_place(struct rewrite *w, const struct instruction *in);
// The results of `from` under their names, as the map has them, and builder_finish.
int rewrite_finish(struct rewrite *w, struct error *err);
// The new region of an old one, begun at its first use, inside that of the region around it.
int rewrite_region(struct rewrite *w, int old);
// Appends a copy of `in` whose operands, and what its regions return, are looked up in the map. Scope, group, domain
// and flags are kept. For OP_PARAMETER the parameter is appended too.
int rewrite_copy(struct rewrite *w, const struct instruction *in);
// What the new region of an old one returns; for rewrite_owner.
void rewrite_results(struct rewrite *w, int region, const int *values, int n);
// `in`, whose regions return something now, from new operands. What was summed in them goes on outside: a loop carries
// the sum along, branches that have none give the neutral value.
int rewrite_owner(struct rewrite *w, const struct instruction *in, const int *operands);
// Joins the value by the reducer with what was summed under the key in the region at hand.
void rewrite_add(struct rewrite *w, int key, enum opcode reducer, int value);
// The sum outside of all regions; -1 without one. Of what a comparator or a reduction does there is none.
int rewrite_sum(const struct rewrite *w, int key);

#endif
