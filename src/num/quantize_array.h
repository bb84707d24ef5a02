// SPDX-License-Identifier: Apache-2.0
// Whole arrays to codes and back as num/quantize.h does it, for when speed matters and statistics do not: read once
// where a scale's elements fit in a cache, on several threads, written around the caches when the result is large.
#ifndef NUM_QUANTIZE_ARRAY_H
#define NUM_QUANTIZE_ARRAY_H

#include "base/threads.h"
#include "num/quantize.h"

// The scales, zero points and codes that quantize() gives. from: f32, f16 or bf16 (which is widened first, exactly).
// codes: as quantize() gives them, but types of less than a byte are packed along the last axis, as quant_pack does.
// threads may be NULL. What the fast loops do not cover goes through quantize(): searched ranges, affine mappings, half
// away from zero, 16-bit and float types, boxes that are neither whole rows, whole columns nor runs along the last
// axis.
int quantize_array(const struct quant_spec *spec, const int64_t *dims, int rank, enum dtype from, const void *x,
                   void *codes, float *scales, int32_t *zeros, struct threads *threads, const char *name,
                   struct error *err);
// Back. to: f32, f16 or bf16 (the f32 value of dequantize(), rounded to nearest even).
int dequantize_array(const struct quant_spec *spec, const int64_t *dims, int rank, const void *codes,
                     const float *scales, const int32_t *zeros, enum dtype to, void *x, struct threads *threads,
                     const char *name, struct error *err);

#endif
