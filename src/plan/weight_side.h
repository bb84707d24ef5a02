// SPDX-License-Identifier: Apache-2.0
// What tensor parallelism does with a weight: divides what it makes, or what it takes.
#ifndef PLAN_WEIGHT_SIDE_H
#define PLAN_WEIGHT_SIDE_H

#include "ir/module.h"

enum weight_side { SIDE_NONE, SIDE_OUTPUTS, SIDE_INPUTS };

// By the last part of a weight's name: q, up_proj, query, linear_in (OUTPUTS), out, down_proj, output.dense (INPUTS).
enum weight_side weight_side_of(const char *name);

// The weight that a value is made of by conversions, scales and changes of shape alone: an index into the parameters,
// of several (codes and scales) the one with most elements; -1: none, or something else has a part in it.
int weight_of(const struct module *m, int value);

// A product with a weight as checkpoints store it, x [..., in] by w [out, in]: its weight's parameter, and the value of
// x. False for other products.
bool weight_product(const struct module *m, const struct instruction *in, int *parameter, int *x);

#endif
