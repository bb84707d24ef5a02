// SPDX-License-Identifier: Apache-2.0
// Conversions between element types. Every conversion rounds at most once, to nearest with ties to even, whatever the
// pair; subnormals are kept; what is beyond the target's largest number becomes what IEEE 754 (or the format's own
// definition) says: infinity, or NaN where the format has no infinity. A NaN stays a (quiet) NaN of the same sign.
#ifndef NUM_CONVERT_H
#define NUM_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "num/dtype.h"

float f32_from_bf16(uint16_t bits);
float f32_from_f16(uint16_t bits);
uint16_t bf16_from_f32(float v);
uint16_t f16_from_f32(float v);
// From double in one rounding: not through float.
uint16_t bf16_from_f64(double v);
uint16_t f16_from_f64(double v);

// Targets: f64, f32, bf16, f16, f8e4m3fn, f8e5m2. Sources: these, pred (any byte but 0 is 1), and the integers of 8 to
// 64 bits. A type to itself is a copy of its bytes, for every type of whole bytes.
bool convert_possible(enum dtype to, enum dtype from);
// n elements; neither side needs alignment; the ranges must not overlap. ERR_INPUT names a pair that is not possible.
int convert_elements(enum dtype to, void *dst, enum dtype from, const void *src, size_t n, struct error *err);

#endif
