// SPDX-License-Identifier: Apache-2.0
// Software models of how hardware forms a dot product: what an operand is rounded to, whether products are exact, in
// which order and width they are added, what happens at the ends of the range. A model is data, and is evaluated bit
// for bit; values travel as doubles, which hold every operand and every product of two f32 exactly.
//
// What is exact: every rounding is applied once to the exact sum, product or fused multiply-add of values of at most
// 24 significant bits (for an accumulator of f64: to what one IEEE operation gives). So results of models with
// accumulators up to f32 are those of the hardware described, not approximations of it.
#ifndef NUM_DOTMODEL_H
#define NUM_DOTMODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

// A binary format as arithmetic sees it.
struct dot_format {
    const char *name;
    int bits;      // of the significand, the leading one included: 24 for f32
    int emin;      // exponent of the smallest normal number: -126
    int emax;      // exponent of the largest finite one: 127
    double max;    // the largest finite number
    bool infinity; // what is beyond it becomes infinity; else NaN
};
// f64, f32, tf32, bf16, f16, f8e4m3fn, f8e4m3fnuz, f8e4m3b11fnuz, f8e4m3, f8e3m4, f8e5m2, f8e5m2fnuz, f6e2m3fn,
// f6e3m2fn, f4e2m1fn, and e8m13, an f32 of 13 fraction bits (the sums of some tensor cores in fp8); NULL for any other
// name. The f6 and f4 formats have neither infinity nor NaN: dot_round gives NaN, their owners saturate.
const struct dot_format *dot_format(const char *name);

enum dot_rounding {
    DOT_NEAREST,     // ties to even
    DOT_TOWARD_ZERO, // truncation
    DOT_AWAY,        // nearest, ties away from zero
    DOT_TO_ODD,      // truncation, with the last bit set when anything was cut
    DOT_DOWN,        // toward minus infinity
    DOT_UP,          // toward plus infinity
    DOT_ROUNDINGS
};
const char *dot_rounding_name(enum dot_rounding r); // "nearest even", "toward zero"...

// The exact double `v` in format `f`. Beyond the largest number: toward zero (and to odd) give it, the others what the
// format says, or it when `saturate`. `flush` makes zero, signed, of a result below the smallest normal number. NaN is
// passed on.
double dot_round(double v, const struct dot_format *f, enum dot_rounding rounding, bool flush, bool saturate);
// The exact a + b, and the exact a * b + c, in format `f`: one rounding. a, b, c: f32 values or narrower (f->bits <=
// 24), or for f64 any doubles (nearest even only).
double dot_add(double a, double b, const struct dot_format *f, enum dot_rounding rounding, bool flush);
double dot_fma(double a, double b, double c, const struct dot_format *f, enum dot_rounding rounding, bool flush);

// How products are brought into the sum.
enum dot_order {
    DOT_SEQUENTIAL, // first to last
    DOT_REVERSED,   // last to first
    DOT_PAIRWISE,   // halves, each in the same way: rounded products at the leaves, n / 2 of them on the left
    DOT_BLOCKED,    // blocks of `block`, each summed in order in `inner` from zero, then added to the accumulator
    DOT_LANES,      // lane i takes elements i, i + block, ... in order; then lane j + block/2 is added to j, and so on
    DOT_FUSED,      // blocks of `block` products and the accumulator: aligned to the largest exponent, cut after
                    // `fraction` bits, added exactly, rounded once (tensor cores)
    DOT_FUSED_LATE, // the block's products alone as in DOT_FUSED; then that sum, rounded down at 31 bits, and the
                    // accumulator, rounded down at 24, are added exactly and rounded once (AMD CDNA3). `halves`: even
                    // and odd products are fused apart before
    DOT_GROUPS,     // blocks of `block`, each added pairwise, then to the accumulator (AMD CDNA1 and 2)
    DOT_PAIRS_ODD,  // pairs: the odd element first, then the even one, each a step (x86 VDPBF16PS)
    DOT_BFDOT,      // pairs: both products to odd, their sum to odd, the accumulator's to odd (Arm BFDOT)
    DOT_EXACT,      // one rounding of the exact sum
    DOT_TREE,       // as `tree` says
    DOT_ORDERS
};
const char *dot_order_name(enum dot_order o);

// What becomes of NaN.
enum dot_nan {
    DOT_NAN_KEEP,      // the payload of the first, quietened; what is not valid makes ffc00000 (x86)
    DOT_NAN_CANONICAL, // always `nan_bits`
};

// A summation tree over the products: node 0..leaves-1 are the products, then inner nodes, whose children have lower
// numbers; the last node is the root. A node of two children is a step: of a product onto a sum (fused or not), of two
// sums, of two products (`first` tells which one is rounded alone). More children are one fused block.
struct dot_tree {
    int leaves, nodes;
    const int *start;    // nodes - leaves + 1 positions in children
    const int *children; // of inner node i: children[start[i - leaves]] to before start[i - leaves + 1]
};

struct dot_model {
    const char *name;

    // Operands: rounded once (passes 1), or split into parts of the format that add up to them.
    const struct dot_format *operand; // NULL: as they are
    enum dot_rounding operand_rounding;
    bool operand_flush; // subnormals of `operand` (of f32 where there is none) become zero
    int passes;         // products of parts: 1; 3 (hl, lh, hh of two parts); 6, 9 (of three). 0 is 1
    bool guard;         // before the product of the high parts is added, a small sum that is not finite becomes zero
    bool last_nearest;  // the last part is rounded to nearest even, whatever operand_rounding says

    // Sum.
    const struct dot_format *accumulator;
    enum dot_rounding rounding;
    bool flush;                       // of every result
    bool separate;                    // products are rounded (to `product`) before they are added; else fused
    const struct dot_format *product; // NULL: the accumulator's format
    enum dot_order order;
    int block;                      // elements
    int fraction;                   // bits kept below the largest exponent (DOT_FUSED, DOT_FUSED_LATE, trees)
    bool halves;                    // DOT_FUSED_LATE
    const struct dot_format *inner; // DOT_BLOCKED; NULL: f32
    const struct dot_tree *tree;    // DOT_TREE; leaves must be n
    bool high_first;                // DOT_TREE: of two products, that of the higher number is rounded alone
    enum dot_nan nan;
    uint32_t nan_bits; // f32

    // Result.
    const struct dot_format *output; // NULL: the accumulator's
    enum dot_rounding output_rounding;
    bool output_flush, output_saturate;
};

// Sum of a[i * a_stride] * b[i * b_stride] over n, starting from zero, as the model forms it. Operands must be f32
// values or narrower ones unless the accumulator is f64. Infinite and NaN operands are allowed; the payload of a NaN is
// the f32 payload, shifted as a conversion to double does it. ERR_INPUT for a model that makes no sense (it says why),
// ERR_MEMORY.
int dot_model_run(const struct dot_model *m, const double *a, size_t a_stride, const double *b, size_t b_stride,
                  size_t n, double *out, struct error *err);
// The f32 of a result, with its NaN payload.
uint32_t dot_f32_bits(double v);
double dot_from_f32_bits(uint32_t bits);

// Integer products. Operands are in int32 elements whatever their type.
enum dot_integer {
    DOT_INT_WRAP,       // int32, wrapping
    DOT_INT_SATURATE,   // int32, every addition of four products saturates (x86 VPDPBUSDS)
    DOT_INT_PAIRS16,    // u8 by s8: pairs of products saturate to int16 (x86 VPMADDUBSW), then int32
    DOT_INT_PAIRS16_S8, // the same behind a shift of a by 128 and a correction: s8 by s8 without VNNI
    DOT_INT_F32,        // products and sums in f32, nearest even, in order
    DOT_INT_WIDE,       // int64
    DOT_INTS
};
const char *dot_integer_name(enum dot_integer k);
int64_t dot_integer_run(enum dot_integer k, const int32_t *a, const int32_t *b, size_t n);

#endif
