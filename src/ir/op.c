// SPDX-License-Identifier: Apache-2.0
#include "ir/op.h"

#define F   TYPES_FLOAT
#define FI  (TYPES_FLOAT | TYPES_INT)
#define FS  (TYPES_FLOAT | TYPES_SIGNED)
#define I   TYPES_INT
#define IP  (TYPES_INT | TYPES_PRED)
#define ANY (TYPES_FLOAT | TYPES_INT | TYPES_PRED)

#define UNARY(op, name, cost, types)           [op] = {name, "stablehlo." name, 1, 1, OPC_UNARY, cost, types}
#define BINARY(op, name, cost, types)          [op] = {name, "stablehlo." name, 2, 2, OPC_BINARY, cost, types}
#define OTHER(op, name, min, max, class, cost) [op] = {name, "stablehlo." name, min, max, class, cost, ANY}

static const struct op_info table[OP_COUNT] = {
    [OP_PARAMETER] = {"parameter", NULL, 0, 0, OPC_PARAMETER, COST_NONE, ANY},
    OTHER(OP_CONSTANT, "constant", 0, 0, OPC_CONSTANT, COST_NONE),
    OTHER(OP_IOTA, "iota", 0, 0, OPC_IOTA, COST_NONE),
    UNARY(OP_ABS, "abs", COST_ELEMENT, FS),
    UNARY(OP_CBRT, "cbrt", COST_TRANSCENDENTAL, F),
    UNARY(OP_CEIL, "ceil", COST_ELEMENT, F),
    UNARY(OP_COSINE, "cosine", COST_TRANSCENDENTAL, F),
    UNARY(OP_COUNT_LEADING_ZEROS, "count_leading_zeros", COST_ELEMENT, I),
    [OP_ERF] = {"erf", "chlo.erf", 1, 1, OPC_UNARY, COST_TRANSCENDENTAL, F},
    UNARY(OP_EXP, "exponential", COST_TRANSCENDENTAL, F),
    UNARY(OP_EXPM1, "exponential_minus_one", COST_TRANSCENDENTAL, F),
    UNARY(OP_FLOOR, "floor", COST_ELEMENT, F),
    UNARY(OP_IS_FINITE, "is_finite", COST_ELEMENT, F),
    UNARY(OP_LOG, "log", COST_TRANSCENDENTAL, F),
    UNARY(OP_LOG1P, "log_plus_one", COST_TRANSCENDENTAL, F),
    UNARY(OP_LOGISTIC, "logistic", COST_TRANSCENDENTAL, F),
    UNARY(OP_NEGATE, "negate", COST_ELEMENT, FI),
    UNARY(OP_NOT, "not", COST_ELEMENT, IP),
    UNARY(OP_POPCNT, "popcnt", COST_ELEMENT, I),
    UNARY(OP_REDUCE_PRECISION, "reduce_precision", COST_ELEMENT, F),
    UNARY(OP_ROUND_NEAREST_AFZ, "round_nearest_afz", COST_ELEMENT, F),
    UNARY(OP_ROUND_NEAREST_EVEN, "round_nearest_even", COST_ELEMENT, F),
    UNARY(OP_RSQRT, "rsqrt", COST_TRANSCENDENTAL, F),
    UNARY(OP_SIGN, "sign", COST_ELEMENT, FS),
    UNARY(OP_SINE, "sine", COST_TRANSCENDENTAL, F),
    UNARY(OP_SQRT, "sqrt", COST_TRANSCENDENTAL, F),
    UNARY(OP_TAN, "tan", COST_TRANSCENDENTAL, F),
    UNARY(OP_TANH, "tanh", COST_TRANSCENDENTAL, F),
    BINARY(OP_ADD, "add", COST_ELEMENT, ANY),
    BINARY(OP_AND, "and", COST_ELEMENT, IP),
    BINARY(OP_ATAN2, "atan2", COST_TRANSCENDENTAL, F),
    BINARY(OP_DIVIDE, "divide", COST_ELEMENT, FI),
    BINARY(OP_MAXIMUM, "maximum", COST_ELEMENT, ANY),
    BINARY(OP_MINIMUM, "minimum", COST_ELEMENT, ANY),
    BINARY(OP_MULTIPLY, "multiply", COST_ELEMENT, ANY),
    BINARY(OP_OR, "or", COST_ELEMENT, IP),
    BINARY(OP_POWER, "power", COST_TRANSCENDENTAL, FI),
    BINARY(OP_REMAINDER, "remainder", COST_ELEMENT, FI),
    BINARY(OP_SHIFT_LEFT, "shift_left", COST_ELEMENT, I),
    BINARY(OP_SHIFT_RIGHT_ARITHMETIC, "shift_right_arithmetic", COST_ELEMENT, I),
    BINARY(OP_SHIFT_RIGHT_LOGICAL, "shift_right_logical", COST_ELEMENT, I),
    BINARY(OP_SUBTRACT, "subtract", COST_ELEMENT, FI),
    BINARY(OP_XOR, "xor", COST_ELEMENT, IP),
    OTHER(OP_COMPARE, "compare", 2, 2, OPC_COMPARE, COST_ELEMENT),
    OTHER(OP_SELECT, "select", 3, 3, OPC_SELECT, COST_ELEMENT),
    OTHER(OP_CLAMP, "clamp", 3, 3, OPC_CLAMP, COST_ELEMENT),
    OTHER(OP_CONVERT, "convert", 1, 1, OPC_CONVERT, COST_ELEMENT),
    OTHER(OP_BITCAST_CONVERT, "bitcast_convert", 1, 1, OPC_BITCAST, COST_NONE),
    OTHER(OP_BROADCAST, "broadcast_in_dim", 1, 1, OPC_BROADCAST, COST_NONE),
    OTHER(OP_RESHAPE, "reshape", 1, 1, OPC_RESHAPE, COST_NONE),
    OTHER(OP_TRANSPOSE, "transpose", 1, 1, OPC_TRANSPOSE, COST_NONE),
    OTHER(OP_SLICE, "slice", 1, 1, OPC_SLICE, COST_NONE),
    OTHER(OP_CONCATENATE, "concatenate", 1, 64, OPC_CONCATENATE, COST_NONE),
    OTHER(OP_PAD, "pad", 2, 2, OPC_PAD, COST_NONE),
    OTHER(OP_REVERSE, "reverse", 1, 1, OPC_REVERSE, COST_NONE),
    OTHER(OP_DYNAMIC_SLICE, "dynamic_slice", 1, 1 + SHAPE_MAX_RANK, OPC_DYNAMIC_SLICE, COST_NONE),
    OTHER(OP_DYNAMIC_UPDATE_SLICE, "dynamic_update_slice", 2, 2 + SHAPE_MAX_RANK, OPC_DYNAMIC_UPDATE_SLICE, COST_NONE),
    OTHER(OP_GATHER, "gather", 2, 2, OPC_GATHER, COST_NONE),
    OTHER(OP_GATHER_WINDOWS, "gather", 2, 2, OPC_INDEXED, COST_NONE),
    OTHER(OP_SCATTER, "scatter", 3, 3, OPC_INDEXED, COST_SCATTER),
    OTHER(OP_DOT, "dot_general", 2, 2, OPC_DOT, COST_DOT),
    OTHER(OP_CONVOLUTION, "convolution", 2, 2, OPC_CONVOLUTION, COST_CONVOLUTION),
    OTHER(OP_REDUCE, "reduce", 2, 2, OPC_REDUCE, COST_REDUCE),
    OTHER(OP_KERNEL, "custom_call", 1, 8, OPC_KERNEL, COST_KERNEL),
    OTHER(OP_REDUCE_WINDOW, "reduce_window", 2, 2, OPC_WINDOW, COST_WINDOW),
    OTHER(OP_SELECT_SCATTER, "select_and_scatter", 3, 3, OPC_WINDOW, COST_WINDOW),
    OTHER(OP_WHILE, "while", 1, OP_MAX_OPERANDS, OPC_MANY, COST_NONE),
    OTHER(OP_CASE, "case", 1, 1, OPC_MANY, COST_NONE),
    OTHER(OP_SORT, "sort", 1, OP_MAX_OPERANDS, OPC_MANY, COST_SORT),
    OTHER(OP_REDUCE_MANY, "reduce", 2, OP_MAX_OPERANDS, OPC_MANY, COST_NONE),
    [OP_TOP_K] = {"top_k", "chlo.top_k", 1, 1, OPC_MANY, COST_SORT, ANY},
    OTHER(OP_RNG_BITS, "rng_bit_generator", 1, 1, OPC_MANY, COST_NONE),
    [OP_ELEMENT] = {"element", NULL, 1, 1, OPC_ELEMENT, COST_NONE, ANY},
    [OP_REGION_PARAMETER] = {"region parameter", NULL, 0, 0, OPC_PARAMETER, COST_NONE, ANY},
};

const struct op_info *op_info(enum opcode op)
{
    return &table[(unsigned)op < OP_COUNT ? op : OP_PARAMETER];
}
