// SPDX-License-Identifier: Apache-2.0
// What infer.c and infer_windows.c share.
#ifndef IR_INFER_PART_H
#define IR_INFER_PART_H

#include "ir/module.h"

#define BAD(...) error_set(err, ERR_INTERNAL, op_info(in->op)->name, __VA_ARGS__)

// The class of an element type: one of enum op_types, 0 for one that no arithmetic takes.
unsigned infer_type_class(enum dtype t);
// Whether values can be reduced in any order to the same mathematical result.
bool infer_op_reduces(enum opcode op);
// in->a names dimensions of x, each once: as a set of bits in *set. ERR_INTERNAL.
int infer_dimensions(const struct instruction *in, const struct shape *x, unsigned *set, struct error *err);
// Of convolutions, windows, gathers and scatters, and of what has several results: as op_infer.
int infer_convolution(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err);
int infer_window(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err);
int infer_indexed(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err);
int infer_many(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err);

#endif
