// SPDX-License-Identifier: Apache-2.0
// The module: a program as typed instructions in static single assignment, shaped like HLO. It is built by models/,
// rewritten by passes (retype, policy), priced (cost) and printed as StableHLO.
#ifndef IR_MODULE_H
#define IR_MODULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "ir/op.h"
#include "ir/shape.h"

// What a parameter is. A policy edits weights, never inputs.
enum param_role { ROLE_INPUT, ROLE_WEIGHT, ROLE_STATE };

// Which share of a quantised weight a parameter holds.
enum bind_part { BIND_VALUES, BIND_CODES, BIND_SCALES };
enum granularity { GRAIN_TENSOR, GRAIN_CHANNEL, GRAIN_GROUP };

#define BIND_MAX_SOURCES 4

// How a weight's axes lie in its codes: `axes` names them in that order, of which the first n_stack count matrices that
// lie one behind the other, the next n_rows are rows (together one dimension), and the others are columns (one, too).
// rank 0: as they are, [rows, columns].
struct arrangement {
    int rank, n_stack, n_rows;
    uint8_t axes[SHAPE_MAX_RANK];
};

// How the bytes of a weight are made from the checkpoint: the sources (rank-equal tensors) are concatenated along axis
// 0, then stored as `part` says. Codes and scales are made of [stack..., rows, columns]; for a product the rows are the
// output channels and the columns are contracted, for a table the rows are looked up. Both quantise per row or in
// groups along a row; each matrix of a stack by itself. Values lie as in the checkpoint.
struct binding {
    int n_sources;                         // 0: not from a checkpoint (an input)
    const char *sources[BIND_MAX_SOURCES]; // tensor names
    enum dtype store;                      // type of the stored values, codes or scales
    enum bind_part part;
    enum dtype code;        // for CODES and SCALES: the integer type of the codes (s8, s4)
    enum granularity grain; // one scale per tensor, row, or group along the row
    int64_t group;          // elements per group for GRAIN_GROUP
    bool packed;            // two s4 codes in a u8 along the row, low nibble first
    struct arrangement as;  // of codes and scales
    // A stack: one such weight behind the other, along a first dimension of so many. Each is made as its own binding
    // says; they differ in their sources alone, and those above are the first one's.
    int n_layers; // 0: no stack
    const struct binding *layers;
};

struct parameter {
    int instruction; // its OP_PARAMETER
    enum param_role role;
    const char *name; // of the input, or of the (first) checkpoint tensor
    struct binding binding;
};

enum compare_direction { CMP_EQ, CMP_NE, CMP_GE, CMP_GT, CMP_LE, CMP_LT };
enum dot_precision { PRECISION_DEFAULT, PRECISION_HIGH, PRECISION_HIGHEST };

// A constant is a splat of one double, of a symbol (a value that depends on the type it is used in), or a dense array.
enum constant_kind { CONST_SPLAT, CONST_LOWEST, CONST_INFINITY, CONST_DENSE };

// What an instruction's arithmetic belongs to; the policy gives each domain its type.
enum domain { DOMAIN_GENERAL, DOMAIN_NORM, DOMAIN_SOFTMAX };

enum instruction_flag {
    FLAG_STORE = 1,          // this value is an activation handed on: stored in the policy's activation type
    FLAG_MODEL_ROUNDING = 2, // this convert is a rounding that belongs to the model: retyping leaves it
};

// A call of a kernel, which stands for instructions that it does the work of, and what those cost.
struct kernel_call {
    const char *target;     // the name it is registered under: "assay.product"
    const char *attributes; // as a dictionary of MLIR holds them, without braces: "eps = 1.0e-6 : f64"; may be ""
    enum dtype product_type;
    double product_flop, element_flop, transcendentals;
};

// How a window moves along a dimension. Dilated operands have base_dilation - 1 holes between two elements.
struct window_extent {
    int64_t size, stride, low, high; // low and high: padding, below zero: cut
    int64_t window_dilation, base_dilation;
};

// Where the dimensions of a convolution stand: batch, feature, then the spatial ones; of the kernel the features that
// come out, then those that go in. Strides and padding are the instruction's; padding below zero cuts.
struct convolution {
    int input[SHAPE_MAX_RANK], kernel[SHAPE_MAX_RANK], output[SHAPE_MAX_RANK];
    int64_t batch_groups, window_dilation[SHAPE_MAX_RANK], base_dilation[SHAPE_MAX_RANK];
    bool reversed[SHAPE_MAX_RANK]; // the window, along each spatial dimension
};

// Dimension numbers of a gather, and of a scatter under its own names; StableHLO has the same.
struct indexing {
    int n_offset, n_collapsed, n_start, n_batching;
    int offset[SHAPE_MAX_RANK];    // offset_dims; update_window_dims
    int collapsed[SHAPE_MAX_RANK]; // collapsed_slice_dims; inserted_window_dims
    int start[SHAPE_MAX_RANK];     // start_index_map; scatter_dims_to_operand_dims
    int operand_batching[SHAPE_MAX_RANK], indices_batching[SHAPE_MAX_RANK];
    int vector; // index_vector_dim
    bool sorted, unique;
};

// Instructions that run when another one says so: the body of a loop, a branch, what a sort compares by. They lie among
// those of the module, before the instruction that owns the region, and use values of their own region and of those
// around it.
struct region {
    int parent;      // the region of the owner; -1 for the program itself, region 0
    int owner;       // instruction; -1 until it is appended
    int first;       // its first instruction, or n_instructions at its beginning
    int *parameters; // their OP_REGION_PARAMETERs
    int n_parameters;
    size_t cap_parameters;
    int *results; // the values it returns
    int n_results;
};

struct instruction {
    enum opcode op;
    struct shape shape; // of the result
    int n_operands;
    int *operands; // indices of earlier instructions
    int region;    // that it belongs to
    int *regions;  // that belong to it
    int n_regions;
    const char *scope; // "layer.3/attention.scores": the smallest unit that is priced; never NULL
    const char *group; // "scores and values": the row of the report; never NULL
    enum domain domain;
    unsigned flags;

    // Attributes; which are used is said in op.h per opcode.
    int64_t a[SHAPE_MAX_RANK], b[SHAPE_MAX_RANK], c[SHAPE_MAX_RANK];
    int n_a;
    int64_t axis;
    enum opcode reducer;
    enum compare_direction compare;
    struct {
        int n_batch, n_contract;
        int lhs_batch[SHAPE_MAX_RANK], rhs_batch[SHAPE_MAX_RANK];
        int lhs_contract[SHAPE_MAX_RANK], rhs_contract[SHAPE_MAX_RANK];
        enum dot_precision precision;
    } dot;
    enum constant_kind constant;
    double splat;
    const double *dense;
    const struct kernel_call *kernel;
    int parameter;                      // index into module.parameters
    const struct window_extent *window; // one per dimension
    const struct convolution *convolution;
    const struct indexing *indexing;
    int64_t trips; // of a loop; -1: not known
};

struct module {
    struct arena *arena; // everything below lives there
    const char *name;
    struct instruction *instructions;
    int n_instructions;
    size_t cap_instructions;
    struct region *regions; // the first is the program
    int n_regions;
    size_t cap_regions;
    struct parameter *parameters;
    int n_parameters;
    size_t cap_parameters;
    int *results; // indices of the instructions returned
    const char **result_names;
    int n_results;
    size_t cap_results, cap_result_names;
};

void module_init(struct module *m, struct arena *arena, const char *name);
// Checks everything that any pass relies on: operands come earlier, shapes are what inference says, parameters and
// results exist, attributes are in range. ERR_INTERNAL names the instruction.
int module_verify(const struct module *m, struct error *err);
// StableHLO text with scopes as locations. The module must verify (it is verified first).
int module_print(const struct module *m, struct str *out, struct error *err);
// How the values of a module are divided over devices, in XLA's notation ("{devices=[8,1]<=[8]}"). NULL arrays and
// texts say nothing: arguments and results are whole on every device then, and other values as the partitioner thinks.
struct module_division {
    const char *const *parameters, *const *results; // one for each
    const char *const *values; // one for each instruction: how its value is laid before anything uses it
    int64_t partitions;        // devices that share a run; 0 and 1: one
};
// The same for a partitioner. `d` NULL: not divided.
int module_print_divided(const struct module *m, const struct module_division *d, struct str *out, struct error *err);
// The stored bytes of the weights: values and codes in *weights, scales in *scales.
void module_weight_bytes(const struct module *m, int64_t *weights, int64_t *scales);

#endif
