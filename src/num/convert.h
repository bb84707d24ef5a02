// SPDX-License-Identifier: Apache-2.0
// Conversions between element types. Every conversion rounds at most once, to nearest with ties to even, whatever the
// pair, and gives exactly what num/format.h gives: subnormals are kept, and every NaN comes out quiet, without payload,
// with its sign where the target has one. What is beyond the target's largest number is a matter of the caller's rule.
#ifndef NUM_CONVERT_H
#define NUM_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/threads.h"
#include "num/dtype.h"
#include "num/format.h"

float f32_from_bf16(uint16_t bits);
float f32_from_f16(uint16_t bits);
uint16_t bf16_from_f32(float v);
uint16_t f16_from_f32(float v);
// From double in one rounding: not through float.
uint16_t bf16_from_f64(double v);
uint16_t f16_from_f64(double v);

// Every pair of float, integer and pred types, and a complex type to itself.
bool convert_possible(enum dtype to, enum dtype from);

struct convert_options {
    enum format_overflow overflow; // PLAIN is 0. ERROR: ERR_INPUT as format_encode_f64; dst is set then, too
    struct threads *threads;       // NULL: the caller's alone
    const char *name;              // the tensor's, for messages, or NULL
};

// n elements; neither side needs alignment; the ranges must not overlap. Types of less than a byte are packed as
// format_pack does it. pred: a byte, any value but 0 is true; of a number: it is not 0 (a NaN is not). Integers: to the
// nearest, even on ties, and to the nearest end of the range beyond it; NaN gives 0. A type to itself is a copy of its
// bits. ERR_INPUT names a pair that is not possible. options NULL: all 0.
int convert_array(const struct convert_options *options, enum dtype to, void *dst, enum dtype from, const void *src,
                  size_t n, struct error *err);
// The same with options NULL.
int convert_elements(enum dtype to, void *dst, enum dtype from, const void *src, size_t n, struct error *err);

#endif
