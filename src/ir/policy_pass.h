// SPDX-License-Identifier: Apache-2.0
// What the files of the policy pass share: policy_pass.c walks the module, policy_weights.c stores weights and
// multiplies by them, policy_activations.c makes products whose activations are quantised.
#ifndef IR_POLICY_PASS_H
#define IR_POLICY_PASS_H

#include "ir/policy.h"
#include "ir/rewrite.h"
#include "ir/weight_view.h"

#define PASS_MAX_GROUPS 64

// What the instrumented program sums: per group what was clipped, not finite and flushed to zero (s32 scalars), the
// smallest and the largest scale; then per activation, in the order of module_activations, what was clipped.
enum { SUM_CLIPPED, SUM_NOT_FINITE, SUM_FLUSHED, SUM_SCALE_MIN, SUM_SCALE_MAX, SUMS_OF_GROUP };

struct pass {
    struct rewrite w; // weights that are codes have no value of their own
    const struct policy *policy;
    struct views views;  // of the module before
    int *codes, *scales; // of each value that is a view of a weight stored as codes: what they are where it is; else -1
    bool instrument;
    const char *groups[PASS_MAX_GROUPS];
    int n_groups;
    int mask;            // the new value of the input "attention_mask", -1 without one
    int n_activations;   // how many were quantised until now,
    int max_activations; // and how many there will be
};

// ---- policy_pass.c

// Adds up the true elements of a predicate in the group at hand: kind 0 clipped, 1 not finite, 2 flushed.
void pass_count(struct pass *s, int kind, int predicate);
void pass_track_scales(struct pass *s, int scales);
// The same of values clipped of one activation, s32.
void pass_count_activation(struct pass *s, int activation, int clipped);
// Converts a float to another float type, and counts what that loses where the type does not hold every value.
int pass_narrow(struct pass *s, int x, enum dtype to);
// The product of `in` from x by y in `result`, f16 operands emulated where the policy says so.
int pass_dot(struct pass *s, const struct instruction *in, int x, int y, enum dtype result);
// What accumulates products whose operands are wide floats.
enum dtype pass_float_sums(const struct pass *s);

// ---- policy_weights.c

bool pass_weights_are_codes(const struct pass *s);
// Appends what a parameter, a weight, is stored as. ERR_USAGE when its groups or bytes do not come out even.
int pass_weight(struct pass *s, int old, struct error *err);
// Whether a value is a view of codes; then pass_view makes what it is of them, and it has no value in the map.
bool pass_is_coded(const struct pass *s, int old);
void pass_view(struct pass *s, int old);
// The value, codes multiplied out.
int pass_operand(struct pass *s, int old);
// Rows of a table, looked up as codes where that can be.
int pass_lookup(struct pass *s, const struct instruction *in);
// The product of an activation and a weight.
int pass_linear(struct pass *s, const struct instruction *in, const struct linear *l);

// ---- policy_activations.c

// x as [stack..., copies..., rows..., contracted].
int pass_arrange(struct builder *b, const struct linear *l, int x);
// [stack..., channels] or [stack...] as a value of like's shape, [stack..., rows..., channels].
int pass_spread_channels(struct builder *b, int x, int n_stack, int like);
// The product `in`, whose dimension numbers are those of x (see pass_arrange) and of a weight's codes (s8 or 8-bit
// floats), by a policy that quantises activations: f32, the scales of both applied. scales -1: x has them in it. The
// rows of x are tokens only when `tokens` says so.
int pass_quantised_linear(struct pass *s, const struct instruction *in, int x, bool tokens, int codes, int scales);
// The values clipped of all activations, s32[max_activations]; -1 when there are none.
int pass_clipped(struct pass *s);

#endif
