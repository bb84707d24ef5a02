// SPDX-License-Identifier: Apache-2.0
// What hlo_cost.c asks of its neighbours.
#ifndef IR_HLO_COST_PART_H
#define IR_HLO_COST_PART_H

#include "ir/hlo_cost.h"

// Multiply-adds of a product, times 2; NAN where its dimension numbers do not fit its operands.
double hlo_dot_flop(const struct hlo_dot *dot, const struct hlo_shape *lhs, const struct hlo_shape *result);
// The same of a convolution as its dimension numbers describe it; positions in the padding do not count. NAN also where
// window and result are both longer than 4096.
double hlo_convolution_flop(const struct hlo_attributes *a, const struct hlo_shape *input,
                            const struct hlo_shape *kernel, const struct hlo_shape *output);
// A call of a library or a kernel that somebody wrote: `out` is zeroed. Reasons where nothing is known.
void hlo_custom_call_cost(const struct hlo_instruction *in, const struct hlo_attributes *a, struct hlo_cost *out);
// How many times elements of an array or of a tuple's first.
const struct hlo_shape *hlo_first_array(const struct hlo_shape *s);

#endif
