// SPDX-License-Identifier: Apache-2.0
// What the files of the policy pass share: policy_pass.c walks the module, policy_activations.c makes products whose
// activations are quantised.
#ifndef IR_POLICY_PASS_H
#define IR_POLICY_PASS_H

#include "ir/policy.h"

#define PASS_MAX_GROUPS 64

// What the instrumented program counts in one group: values (or -1) to be added up.
struct tally {
    int counts[3]; // clipped, not finite, flushed to zero: s32 scalars
    int scale_min, scale_max;
};

struct pass {
    struct builder b;
    const struct module *from;
    const struct policy *policy;
    int *map;            // old value -> new value (weights: -1 until used)
    int *codes, *scales; // old weight parameter -> its new parameters, -1 until made
    bool instrument;
    const char *groups[PASS_MAX_GROUPS];
    int n_groups;
    struct tally tally[PASS_MAX_GROUPS];
    int mask;            // the new value of the input "attention_mask", -1 without one
    int *clipped;        // of each activation that was quantised, s32 scalars, in order of module_activations
    int n_activations;   // how many were until now,
    int max_activations; // and how many there will be
};

bool pass_is_matrix_weight(const struct module *m, int value);
// x [..., k] by a weight [n, k]: what build_linear makes. There every row of codes gives one output, so that scales per
// row can be applied to the sums.
bool pass_is_linear(const struct module *m, const struct instruction *in);
// Adds up the true elements of a predicate in the group at hand: kind 0 clipped, 1 not finite, 2 flushed.
void pass_count(struct pass *s, int kind, int predicate);
void pass_track_scales(struct pass *s, int scales);
// The product of `in` from x by y in `result`, f16 operands emulated where the policy says so.
int pass_dot(struct pass *s, const struct instruction *in, int x, int y, enum dtype result);
// The linear `in` of x and a weight's codes (s8 or 8-bit floats) and scales, by a policy that quantises activations:
// f32, scales applied.
int pass_quantised_linear(struct pass *s, const struct instruction *in, int x, int codes, int scales);
// The values clipped of all activations, s32[max_activations]; -1 when there are none.
int pass_clipped(struct pass *s);

#endif
