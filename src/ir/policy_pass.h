// SPDX-License-Identifier: Apache-2.0
// What the files of the policy pass share: policy_pass.c walks the module, policy_activations.c makes products whose
// activations are quantised.
#ifndef IR_POLICY_PASS_H
#define IR_POLICY_PASS_H

#include "ir/policy.h"
#include "ir/rewrite.h"

#define PASS_MAX_GROUPS 64

// What the instrumented program sums: per group what was clipped, not finite and flushed to zero (s32 scalars), the
// smallest and the largest scale; then per activation, in the order of module_activations, what was clipped.
enum { SUM_CLIPPED, SUM_NOT_FINITE, SUM_FLUSHED, SUM_SCALE_MIN, SUM_SCALE_MAX, SUMS_OF_GROUP };

struct pass {
    struct rewrite w; // weights that are codes have no value of their own
    const struct policy *policy;
    int *codes, *scales; // old weight parameter -> its new parameters, -1 until made
    bool instrument;
    const char *groups[PASS_MAX_GROUPS];
    int n_groups;
    int mask;            // the new value of the input "attention_mask", -1 without one
    int n_activations;   // how many were quantised until now,
    int max_activations; // and how many there will be
};

bool pass_is_matrix_weight(const struct module *m, int value);
// x [..., k] by a weight [n, k], as build_linear makes it, or [k, n] where the binding says columns; or the weight
// first. There every row of codes gives one output, so that scales per row can be applied to the sums.
struct linear {
    int x, w;          // operands
    bool weight_first; // the result is [n, ...] in place of [..., n]
};
bool pass_is_linear(const struct module *m, const struct instruction *in, struct linear *out);
// Whether value, a parameter, is a weight whose columns are output channels.
bool pass_is_columns(const struct module *m, int value);
// Adds up the true elements of a predicate in the group at hand: kind 0 clipped, 1 not finite, 2 flushed.
void pass_count(struct pass *s, int kind, int predicate);
void pass_track_scales(struct pass *s, int scales);
// The same of values clipped of one activation, s32.
void pass_count_activation(struct pass *s, int activation, int clipped);
// The product of `in` from x by y in `result`, f16 operands emulated where the policy says so.
int pass_dot(struct pass *s, const struct instruction *in, int x, int y, enum dtype result);
// The linear `in` (x first, the last dimension of both contracted) of x and a weight's codes (s8 or 8-bit floats) and
// scales, by a policy that quantises activations: f32, scales applied.
int pass_quantised_linear(struct pass *s, const struct instruction *in, int x, int codes, int scales);
// The values clipped of all activations, s32[max_activations]; -1 when there are none.
int pass_clipped(struct pass *s);

#endif
