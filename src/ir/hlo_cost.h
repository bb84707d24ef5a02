// SPDX-License-Identifier: Apache-2.0
// What the instructions of an HLO module cost, counted by the rules of XLA's HloCostAnalysis where they are right; see
// docs/cost.md for where they are not. Loops count as often as they run.
#ifndef IR_HLO_COST_H
#define IR_HLO_COST_H

#include "ir/hlo_attributes.h"

// Sums of what is known; where something is not, the reason says what, and the number is a lower bound.
struct hlo_cost {
    double product_flop[DT_COUNT];          // 2 per multiply-add of products, by the type of the left operand
    double element_flop;                    // one per element of other arithmetic
    double transcendentals;                 // exp, erf, sqrt...: counted apart
    double bytes;                           // read from and written to memory
    const char *flop_reason, *bytes_reason; // NULL: all is known
};

struct hlo_costs {
    const struct hlo_module *m;
    struct arena *arena;
    struct hlo_cost *computations; // one run of each, its loops and calls included
    struct hlo_reads *reads;       // of each, what it reads of its parameters when it is fused
};

double hlo_cost_product_flop(const struct hlo_cost *c); // over all types
// Products and element arithmetic; NAN where something is not known. Bytes in the same way.
double hlo_cost_flop(const struct hlo_cost *c);
double hlo_cost_bytes(const struct hlo_cost *c);
// Numbers end at DBL_MAX.
void hlo_cost_add(struct hlo_cost *to, const struct hlo_cost *c, double times);

// Prices all computations once, callees first: time and memory are linear in the module. The module must stay.
int hlo_costs_init(struct hlo_costs *c, const struct hlo_module *m, struct arena *arena, struct error *err);
// One run of one instruction, with what it calls. Names (parameters, tuples, bitcasts) cost nothing, and the end of an
// asynchronous pair nothing either: its start has the cost. ERR_MEMORY.
int hlo_cost_instruction(const struct hlo_costs *c, const struct hlo_instruction *in, struct hlo_cost *out,
                         struct error *err);
// Bytes that one run of an instruction reads of its operand k, and writes into its result: a fusion reads parts of some
// operands, and updates others in place. For those that are no calls and no loops.
double hlo_cost_read_bytes(const struct hlo_costs *c, const struct hlo_instruction *in, size_t k);
double hlo_cost_written_bytes(const struct hlo_instruction *in);
// One run of the module.
static inline const struct hlo_cost *hlo_cost_module(const struct hlo_costs *c)
{
    return &c->computations[c->m->entry - c->m->computations];
}
// How often a loop runs: the back end's note (known_trip_count), or a counter that starts at a constant, takes constant
// steps and is compared with a constant. *out -1 where neither says. ERR_MEMORY.
int hlo_trip_count(const struct hlo_module *m, const struct hlo_instruction *loop, struct arena *scratch, int64_t *out,
                   struct error *err);
// XProf's name for what an instruction is: "loop fusion", "data formatting", "non-fusion elementwise", else the opcode.
struct slice hlo_category(const struct hlo_instruction *in);

#endif
