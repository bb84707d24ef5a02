// SPDX-License-Identifier: Apache-2.0
// Builds a module one value at a time. A value is an instruction's index; -1 stands for "something failed before":
// every function takes it and returns it, so that model code checks once, in builder_finish. Names, values and bindings
// are copied into the module's arena.
#ifndef IR_BUILDER_H
#define IR_BUILDER_H

#include "ir/module.h"

struct builder {
    struct module *module;
    struct error error; // the first thing that went wrong
    const char *scope, *group;
    enum domain domain;
    int region; // where instructions are appended; 0: the program itself
};

void builder_init(struct builder *b, struct module *m);
// Room for n instructions in all, so that a list which grows is not copied again and again: what it grew out of stays
// in the arena. Fewer or more may come.
void builder_reserve(struct builder *b, size_t n);
// 0 when nothing failed and the module verifies.
int builder_finish(struct builder *b, struct error *err);
// Where the next instructions belong: the priced unit, the report's row, whose arithmetic. Strings are copied.
void builder_scope(struct builder *b, const char *group, const char *scope_fmt, ...)
    __attribute__((format(printf, 3, 4)));
// The same place as another instruction's, which may be of another module.
void builder_place(struct builder *b, const struct instruction *like);
const struct shape *builder_shape(const struct builder *b, int x); // of a valid value; a scalar pred for -1
// Appends an instruction at the builder's place (operands, attributes and flags are taken from `in`, shape inferred;
// nothing of it is kept by reference): what passes use.
int builder_append(struct builder *b, const struct instruction *in);
// Marks the value as an activation that is handed on (stored in the policy's activation type). Returns x.
int builder_store(struct builder *b, int x);

int build_parameter(struct builder *b, enum param_role role, const char *name, struct shape shape,
                    const struct binding *binding);
int build_weight(struct builder *b, const char *tensor, struct shape shape);
int build_splat(struct builder *b, struct shape shape, double value);
int build_symbol(struct builder *b, struct shape shape, enum constant_kind symbol); // CONST_LOWEST, CONST_INFINITY
int build_dense(struct builder *b, struct shape shape, const double *values);       // copied
int build_iota(struct builder *b, struct shape shape, int axis);
int build_unary(struct builder *b, enum opcode op, int x);
int build_binary(struct builder *b, enum opcode op, int x, int y);
// The same with a splat of y's value in x's shape on the right.
int build_binary_scalar(struct builder *b, enum opcode op, int x, double y);
int build_compare(struct builder *b, enum compare_direction direction, int x, int y);
int build_select(struct builder *b, int condition, int on_true, int on_false);
int build_clamp(struct builder *b, int low, int x, int high);
int build_convert(struct builder *b, int x, enum dtype to); // x itself when it already has the type
int build_bitcast_convert(struct builder *b, int x, enum dtype to);
// dims[i] is the result dimension that operand dimension i becomes.
int build_broadcast(struct builder *b, int x, struct shape to, const int *dims);
// x's dimensions become the last (trailing) or the first (leading) ones of like's shape.
int build_broadcast_trailing(struct builder *b, int x, int like);
int build_broadcast_leading(struct builder *b, int x, int like);
int build_reshape(struct builder *b, int x, int rank, const int64_t *dims);
int build_transpose(struct builder *b, int x, const int *permutation);
int build_slice(struct builder *b, int x, const int64_t *start, const int64_t *limit,
                const int64_t *stride); // stride NULL: 1
int build_slice_axis(struct builder *b, int x, int axis, int64_t start, int64_t limit);
int build_concatenate(struct builder *b, const int *values, int n, int axis);
int build_pad(struct builder *b, int x, int value, const int64_t *low, const int64_t *high, const int64_t *interior);
int build_reverse(struct builder *b, int x, const int *dims, int n);
int build_dynamic_slice(struct builder *b, int x, const int *starts, const int64_t *sizes);
int build_dynamic_update_slice(struct builder *b, int x, int update, const int *starts);
int build_gather(struct builder *b, int table, int indices); // rows of table along dimension 0
// Result dimensions: batch, then free of x, then free of y. `result` is the accumulation and result type.
int build_dot(struct builder *b, int x, int y, int n_batch, const int *x_batch, const int *y_batch, int n_contract,
              const int *x_contract, const int *y_contract, enum dtype result);
// x [..., k] by w [n, k] as checkpoints store it: [..., n].
int build_linear(struct builder *b, int x, int w, enum dtype result);
// x [batch, spatial..., in] by a kernel [out, in / groups, spatial...] as checkpoints store it: [batch, spatial...,
// out] in `result`. strides, and how many zeros stand before (low) and behind (high), per spatial dimension.
int build_convolution(struct builder *b, int x, int kernel, const int64_t *strides, const int64_t *low,
                      const int64_t *high, int64_t groups, enum dtype result);
// Starts from the reducer's neutral value: -inf and +inf for the maximum and minimum of floats.
int build_reduce(struct builder *b, enum opcode reducer, int x, const int *dims, int n);
int build_result(struct builder *b, const char *name, int x); // appends a result; returns x

// ---- Regions: filled while builder.region is theirs, and before the instruction that owns them is appended in the
// region around them.

// A region inside the one at hand, which stays at hand; -1 on failure.
int builder_region(struct builder *b);
int build_region_parameter(struct builder *b, int region, struct shape shape); // the next one
void builder_region_results(struct builder *b, int region, const int *values, int n);
// Appends `in`, which has several results, with these operands and regions.
int build_many(struct builder *b, const struct instruction *in, const int *operands, int n, const int *regions,
               int n_regions);
int build_element(struct builder *b, int many, int k); // result k of it
int build_while(struct builder *b, const int *state, int n, int condition, int body, int64_t trips);
// What reducing starts from, in every element of the shape.
int build_neutral(struct builder *b, enum opcode reducer, struct shape shape);

#endif
