// SPDX-License-Identifier: Apache-2.0
// Symmetric integer quantisation of weights, narrowing to float types, and what each did to a tensor.
//
// Rule (declared in reports as "symmetric, amax/qmax, nearest even"): per slice that shares a scale,
//     scale = amax / qmax      one f32 division; qmax is 127 for s8 and 7 for s4; code -128 (-8) is never made
//     code  = rint(x / scale)  f32 division, ties to even, clipped to [-qmax, qmax]
//     x'    = code * scale
// A slice of zeros has scale 1 and codes 0. A scale below the smallest normal f32 is raised to it, so that it survives
// a device that flushes subnormals.
#ifndef NUM_QUANTIZE_H
#define NUM_QUANTIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "num/dtype.h"

#define QUANT_MAX_RANK 8

enum quant_granularity {
    QUANT_PER_TENSOR,  // one scale; scale shape []
    QUANT_PER_CHANNEL, // one scale per index of channel_axis; scale shape [dims[channel_axis]]
    QUANT_PER_GROUP,   // one per run of `group` elements along group_axis; scale shape: dims, with
                       // dims[group_axis]/group in place of dims[group_axis]
};

struct quant_spec {
    enum dtype type; // DT_S8 or DT_S4
    enum quant_granularity granularity;
    int channel_axis; // the output axis: the scales of PER_CHANNEL, and in every case the channels of the statistics.
                      // -1: none (then the tensor is one channel; not with PER_CHANNEL)
    int group_axis;   // PER_GROUP: the contraction axis
    int64_t group;    // PER_GROUP: elements per group; must divide dims[group_axis]
};

// What conversion did to a tensor. Norms and errors are taken in f64 against the f32 input. "rel L2" is
// ||x' - x|| / ||x||, NaN where ||x|| is 0.
struct quant_stats {
    size_t elements;
    size_t nonfinite;  // inputs that are NaN or infinite (an error for integers; passed on by float types, and left out
                       // of the errors below)
    size_t clipped;    // integer types: |rint(x / scale)| > qmax
    size_t overflowed; // float types: finite input, infinite or NaN result (the errors below are infinite then)
    size_t flushed;    // nonzero input, zero result
    double scale_min, scale_max; // NaN for float types
    double rel_l2;
    double max_abs_error;
    size_t worst_channel; // index on channel_axis (0 when there is none) with the largest rel L2
    double worst_channel_rel_l2;
    // Integer types: |x' - x| <= bound_in_scales * scale wherever nothing was clipped. The bound is 1/2 + qmax * 2^-24:
    // the second term is the rounding of the division. NaN for float types.
    double bound_in_scales, max_error_in_scales;
    bool bound_holds; // max_error_in_scales (over elements that were not clipped) <= bound_in_scales
};

// Sizes that go with a spec and a shape.
struct quant_layout {
    size_t elements;
    size_t scale_count;
    int scale_rank;
    int64_t scale_dims[QUANT_MAX_RANK];
    size_t code_bytes;  // packed: elements * bits / 8, rounded up
    size_t scale_bytes; // f32
};

int quant_qmax(enum dtype type); // 127, 7, or 0 for a type that is not an integer target
// Checks spec against shape, which must not be empty (ERR_USAGE naming `name`), and gives the sizes. `name` is the
// tensor's, for messages.
int quant_layout(const struct quant_spec *spec, const int64_t *dims, int rank, const char *name,
                 struct quant_layout *out, struct error *err);

// x: row-major, dims. codes: one per byte, same order. scales: layout.scale_count, row-major. ERR_INPUT names the
// tensor and the first index when x is not finite (stats->nonfinite is the count then, the rest of stats is not set).
int quantize(const struct quant_spec *spec, const int64_t *dims, int rank, const float *x, int8_t *codes, float *scales,
             struct quant_stats *stats, const char *name, struct error *err);
// The two halves of it, for scales that come from elsewhere (a calibration): such scales must be finite and > 0.
int quantize_scales(const struct quant_spec *spec, const int64_t *dims, int rank, const float *x, float *scales,
                    const char *name, struct error *err);
int quantize_codes(const struct quant_spec *spec, const int64_t *dims, int rank, const float *x, const float *scales,
                   int8_t *codes, struct quant_stats *stats, const char *name, struct error *err);
// x[i] = (float)codes[i] * scale, one f32 product.
int dequantize(const struct quant_spec *spec, const int64_t *dims, int rank, const int8_t *codes, const float *scales,
               float *x, const char *name, struct error *err);

// Two s4 codes in a byte along `axis`: the element with the even index in the low nibble, the next in the high one. The
// packed array has (dims[axis]+1)/2 in place of dims[axis]; an odd end is filled with 0. *packed_bytes must be its
// size: see quant_packed_bytes.
int quant_packed_bytes(const int64_t *dims, int rank, int axis, size_t *out, struct error *err);
int quant_pack_s4(const int64_t *dims, int rank, int axis, const int8_t *codes, uint8_t *packed, struct error *err);
int quant_unpack_s4(const int64_t *dims, int rank, int axis, const uint8_t *packed, int8_t *codes, struct error *err);

// Narrows f32 to a float type (convert.h) and says what it did. out: elements of `type`, row-major.
int quantize_float(enum dtype type, const int64_t *dims, int rank, int channel_axis, const float *x, void *out,
                   struct quant_stats *stats, const char *name, struct error *err);

#endif
