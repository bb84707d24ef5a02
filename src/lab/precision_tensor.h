// SPDX-License-Identifier: Apache-2.0
// A matrix of the user's own under any policies: what each does to it, and to its product with random inputs.
#ifndef LAB_PRECISION_TENSOR_H
#define LAB_PRECISION_TENSOR_H

#include "lab/precision.h"

struct precision_tensor;

// Opens FILE:NAME of the options and reads the policies; nothing is computed yet. ERR_USAGE for a policy that is not
// known, ERR_INPUT for a file or tensor that is not there or holds no matrix of numbers.
int precision_tensor_open(struct precision_tensor **out, const struct precision_options *o, struct error *err);
void precision_tensor_close(struct precision_tensor *t); // NULL is fine
// Runs on p->tensor. It is no suite of the table: --tensor asks for it.
extern const struct precision_suite precision_suite_tensor;
// {"file", "name", "type", "shape"}: for config.json.
void precision_tensor_config(const struct precision_tensor *t, struct jw *w);

#endif
