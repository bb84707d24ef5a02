// SPDX-License-Identifier: Apache-2.0
// The operation table: one row per opcode. To add an operation add its row, and (when its class is new) its inference,
// printing and cost in the functions the row names; the numpy test then asks for a case of it.
#ifndef IR_OP_H
#define IR_OP_H

#include "base/error.h"
#include "base/str.h"
#include "ir/shape.h"

#define OP_MAX_OPERANDS 512

enum opcode {
    OP_PARAMETER, // parameter
    OP_CONSTANT,  // constant, splat, dense; shape given
    OP_IOTA,      // axis; shape given
    // unary, elementwise
    OP_ABS,
    OP_CBRT,
    OP_CEIL,
    OP_COSINE,
    OP_COUNT_LEADING_ZEROS,
    OP_ERF,
    OP_EXP,
    OP_EXPM1,
    OP_FLOOR,
    OP_IS_FINITE, // to pred
    OP_LOG,
    OP_LOG1P,
    OP_LOGISTIC,
    OP_NEGATE,
    OP_NOT,
    OP_POPCNT,
    OP_REDUCE_PRECISION,  // a[0] = exponent bits, a[1] = mantissa bits
    OP_ROUND_NEAREST_AFZ, // away from zero
    OP_ROUND_NEAREST_EVEN,
    OP_RSQRT,
    OP_SIGN,
    OP_SINE,
    OP_SQRT,
    OP_TAN,
    OP_TANH,
    // binary, elementwise
    OP_ADD,
    OP_AND,
    OP_ATAN2,
    OP_DIVIDE,
    OP_MAXIMUM,
    OP_MINIMUM,
    OP_MULTIPLY,
    OP_OR,
    OP_POWER,
    OP_REMAINDER,
    OP_SHIFT_LEFT,
    OP_SHIFT_RIGHT_ARITHMETIC,
    OP_SHIFT_RIGHT_LOGICAL,
    OP_SUBTRACT,
    OP_XOR,
    OP_COMPARE, // compare; to pred. axis 1: floats in their total order, NaN beyond infinity and -0 below 0
    OP_SELECT,  // pred, on_true, on_false
    OP_CLAMP,   // low, x, high of one shape
    // type and shape
    OP_CONVERT,              // shape given (its dtype)
    OP_BITCAST_CONVERT,      // shape given; of another width: a last dimension holds the parts
    OP_BROADCAST,            // a = operand dimension -> result dimension; shape given
    OP_RESHAPE,              // shape given
    OP_TRANSPOSE,            // a = permutation
    OP_SLICE,                // a = start, b = limit, c = stride
    OP_CONCATENATE,          // axis
    OP_PAD,                  // a = low, b = high, c = interior; operand 1 is the value
    OP_REVERSE,              // a = dimensions
    OP_DYNAMIC_SLICE,        // operands x, one scalar start per dimension; a = sizes
    OP_DYNAMIC_UPDATE_SLICE, // operands x, update, starts
    OP_GATHER, // rows of operand 0 (along its dimension 0) by an integer tensor: result = index dims + row dims
    // Operands x and indices: windows of x, a = their sizes, indexing = where they start and which dimensions stay.
    OP_GATHER_WINDOWS,
    // Operands x, indices and updates: x with windows of it joined with the updates by the reducer (OP_PARAMETER: the
    // update replaces what was there); indexing as in a gather.
    OP_SCATTER,
    OP_DOT, // dot
    // operands x [batch, spatial..., in] and kernel [out, in / groups, spatial...]; a = strides, b = zeros before and c
    // = behind each spatial dimension, axis = groups; result [batch, spatial..., out] in the given dtype. With
    // `convolution` dimensions stand elsewhere, and there is dilation.
    OP_CONVOLUTION,
    OP_REDUCE,         // operands x, init; a = dimensions; reducer
    OP_REDUCE_WINDOW,  // operands x, init; window; reducer
    OP_SELECT_SCATTER, // operands x, source, init; window; of each window the element that compares to all others gets
                       // the source's element, joined by the reducer: how the gradient of pooling goes back
    // With regions, and with several results, which OP_ELEMENT names: nothing else takes their value.
    OP_WHILE,            // operands the first state; regions condition and body of one parameter per element; trips
    OP_CASE,             // operand s32 scalar, or pred for two (the first when true); a region without parameters each
    OP_SORT,             // operands of the same extents; axis; a[0] = stable; region of two scalars per operand to pred
    OP_REDUCE_MANY,      // operands x..., init...; a = dimensions; region of two scalars per x
    OP_TOP_K,            // operand x; a[0] = how many along the last dimension; results: values, s32 indices
    OP_RNG_BITS,         // operand u64 or u32 state; a[0] = algorithm as XLA numbers it; results: state, bits (shape)
    OP_ELEMENT,          // operand: one of these; axis = which result; shape given
    OP_REGION_PARAMETER, // axis = number; shape given
    // What XLA and numpy know ends here.
    OP_KERNEL, // kernel: a call of one of our CPU kernels (kernels/); shape given. Put in by the last pass of all
    OP_COUNT
};

// How HloCostAnalysis counts the operation, and how it is checked and printed.
enum op_class {
    OPC_PARAMETER,
    OPC_CONSTANT,
    OPC_IOTA,
    OPC_UNARY,
    OPC_BINARY,
    OPC_COMPARE,
    OPC_SELECT,
    OPC_CLAMP,
    OPC_CONVERT,
    OPC_BITCAST,
    OPC_BROADCAST,
    OPC_RESHAPE,
    OPC_TRANSPOSE,
    OPC_SLICE,
    OPC_CONCATENATE,
    OPC_PAD,
    OPC_REVERSE,
    OPC_DYNAMIC_SLICE,
    OPC_DYNAMIC_UPDATE_SLICE,
    OPC_GATHER,
    OPC_INDEXED,
    OPC_DOT,
    OPC_CONVOLUTION,
    OPC_REDUCE,
    OPC_KERNEL,
    OPC_WINDOW,
    OPC_MANY, // several results
    OPC_ELEMENT,
};

enum op_cost {
    COST_NONE,           // moves or names data
    COST_ELEMENT,        // one FLOP per output element
    COST_TRANSCENDENTAL, // counted apart, one per output element
    COST_DOT,            // 2 * output elements * contracted extent
    COST_CONVOLUTION,    // 2 * output elements * kernel elements per output channel, taps on padding included
    COST_KERNEL,         // what the instructions that it stands for cost
    COST_REDUCE,         // (input elements - output elements) of the reducer
    COST_WINDOW,         // output elements * (window elements - 1) of the reducer
    COST_SCATTER,        // one FLOP per element of the updates
    COST_SORT,           // elements * log2 of them
};

// Which element types an elementwise operation takes.
enum op_types { TYPES_FLOAT = 1, TYPES_SIGNED = 2, TYPES_UNSIGNED = 4, TYPES_INT = 6, TYPES_PRED = 8 };

struct op_info {
    const char *name; // ours
    const char *mlir; // with dialect
    int min_operands, max_operands;
    enum op_class class;
    enum op_cost cost;
    unsigned types; // of operand 0 for OPC_UNARY and OPC_BINARY
};

const struct op_info *op_info(enum opcode op);

struct instruction;
// The shape of an instruction's result from its operands' shapes and attributes; where the operands do not determine it
// the instruction's own shape is checked and returned. ERR_INTERNAL says what does not fit; ERR_INPUT (shape_check)
// that a shape is beyond what can be counted.
int op_infer(const struct instruction *in, const struct shape *operands, struct shape *out, struct error *err);

#endif
