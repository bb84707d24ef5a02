// SPDX-License-Identifier: Apache-2.0
// Filling a list of weights in.
#ifndef PLAN_WEIGHTS_LIST_H
#define PLAN_WEIGHTS_LIST_H

#include "plan/weights.h"

int weights_add(struct weights *w, struct arena *arena, struct weight one, struct error *err);
// Copies of a weight in layers [first, last), and outside of layers where that holds the first or last one.
double weight_copies(const struct weight *one, const struct arch *a, int64_t first, int64_t last);
// Sets the totals. ERR_INPUT beyond 2^53 bytes.
int weights_sum(struct weights *w, const struct arch *a, struct error *err);

#endif
