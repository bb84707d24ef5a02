// SPDX-License-Identifier: Apache-2.0
// Quantisation of tensors to codes with scales, narrowing to float types, and what each did to a tensor.
//
// A tensor is cut into boxes; each has one scale s > 0 and one zero point z, and x is represented by s * (code - z).
// What the rules are is declared by a spec (docs/quantisation.md says where systems differ, quant_describe puts a spec
// into words). A spec whose later fields are all zero is: symmetric, codes -qmax..qmax, s = amax / qmax, code =
// rint(x / s) in f32, ties to even, f32 scales, values that are not finite refused.
// In every spec a box of zeros has scale 1 and comes back as exact zeros.
#ifndef NUM_QUANTIZE_H
#define NUM_QUANTIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "num/dtype.h"

#define QUANT_MAX_RANK 8

enum quant_granularity {
    QUANT_PER_TENSOR,  // one scale; scale shape []
    QUANT_PER_CHANNEL, // one scale per index of channel_axis; scale shape [dims[channel_axis]]
    QUANT_PER_GROUP,   // one per run of `group` elements along group_axis; scale shape: dims, with
                       // ceil(dims[group_axis] / group) in place of dims[group_axis]
    QUANT_PER_BLOCK,   // one per box of block[]; scale shape: ceil(dims[i] / block[i])
};

enum quant_mapping {
    QUANT_SYMMETRIC, // z = 0, or 2^(bits-1) for unsigned types
    QUANT_AFFINE,    // the range of the box, widened to hold 0, over all codes: s = (hi - lo) / (qmax - qmin),
                     // z = clip(rint(qmin - lo / s)). Integer types only
};

enum quant_code_range {
    QUANT_NARROW, // -127..127 for s8, 1..255 for u8
    QUANT_FULL,   // -128..127, 0..255
};

// What the largest magnitude is divided by (symmetric only).
enum quant_divisor {
    QUANT_BY_QMAX,      // 127, 7, 1, 32767; the largest finite number of a float type
    QUANT_BY_HALF_RANGE // 127.5, 7.5: with QUANT_FULL -amax becomes -128 and +amax 127. Integer types only
};

// code = clip(round(x / s) + z), or clip(round(x / s + z)): not the same where x / s is a tie and z is odd.
enum quant_zero_order { QUANT_ZERO_AFTER_ROUNDING, QUANT_ZERO_BEFORE_ROUNDING };

enum quant_rounding { QUANT_HALF_EVEN, QUANT_HALF_AWAY }; // float types: always half even

// What range the scale has to cover.
enum quant_range_from {
    QUANT_FROM_ABSMAX,     // everything: the largest magnitude, or the minimum and maximum when affine
    QUANT_FROM_PERCENTILE, // search.percentile of the magnitudes; of both ends when affine. Linear interpolation
    QUANT_FROM_ERROR,      // the shrunk range with the least error, see quant_search
};

struct quant_search {
    double percentile; // above 50, at most 100
    // Candidates: the whole range times 1 - i / steps, for i = 0, 1, .. below max_shrink * steps. The first with the
    // least sum of |x' - x|^norm is taken; the search ends early after `patience` candidates without a better one.
    // Zeros stand for steps 100, max_shrink 0.2, norm 2 (the squared error), patience: never.
    int steps;
    double max_shrink;
    double norm;
    int patience;
};

// What to do with NaN and infinities; they are counted in any case.
enum quant_nonfinite {
    QUANT_REFUSE,
    QUANT_SATURATE, // infinities become the outermost codes (counted as clipped), NaN becomes zero; the scale is made
                    // from the finite values
    QUANT_KEEP,     // float types only: the type's own infinity, or NaN where it has none
};

struct quant_spec {
    enum dtype type; // s2, s4, s8, s16, u2, u4, u8, u16, or a signed float of 4, 6 or 8 bits: f8e4m3fn, f8e5m2, ..
    enum quant_granularity granularity;
    int channel_axis; // the output axis: the scales of PER_CHANNEL, and in every case the channels of the statistics.
                      // -1: none (then the tensor is one channel; not with PER_CHANNEL)
    int group_axis;   // PER_GROUP: the contraction axis
    int64_t group;    // PER_GROUP: elements per group
    int64_t block[QUANT_MAX_RANK]; // PER_BLOCK: extents; 0: the whole axis
    bool short_last;               // groups and blocks need not divide their axis: the last one is shorter
    enum quant_mapping mapping;
    enum quant_code_range range;
    enum quant_divisor divisor;
    enum quant_zero_order zero_order;
    enum quant_rounding rounding;
    bool reciprocal; // x * (1 / s), two roundings, in place of x / s
    enum quant_range_from from;
    struct quant_search search;
    // f32, f16, bf16, f8e8m0fnu, f8e4m3fn; DT_INVALID: f32. Codes are made with the scale as stored. A scale below the
    // type's smallest (for f32, bf16 and f8e8m0fnu: 2^-126, which survives devices that flush subnormals) is raised to
    // it, one above its largest is lowered to that: both are counted.
    enum dtype scale_type;
    bool scale_up; // rounded up, so that the range is covered; else to nearest, ties to even
    enum quant_nonfinite nonfinite;
};

// What conversion did to a tensor. Norms and errors are taken in f64 against the f32 input, over finite values.
// "rel L2" is ||x' - x|| / ||x||, NaN where ||x|| is 0.
struct quant_stats {
    size_t elements;
    size_t nonfinite;  // inputs that are NaN or infinite
    size_t nan;        // of these, NaN
    size_t clipped;    // the rounded value lies outside the codes; infinities that were saturated
    size_t overflowed; // quantize_float: finite input, infinite or NaN result (the errors below are infinite then)
    size_t flushed;    // nonzero input, zero result
    size_t scales_raised, scales_lowered; // see quant_spec.scale_type; only where the scales were made here
    double scale_min, scale_max;          // NaN for quantize_float
    double rel_l2;
    double max_abs_error;
    size_t worst_channel; // index on channel_axis (0 when there is none) with the largest rel L2
    double worst_channel_rel_l2;
    // |x' - x| <= bound_in_scales * scale wherever nothing was clipped. For integer types the bound is 1/2 and the
    // roundings of f32 arithmetic before the code is rounded (quant_bound_in_scales); for float types with scales the
    // bound is half the spacing of the type at the value, and bound_in_scales is that of the largest. NaN for
    // quantize_float.
    double bound_in_scales, max_error_in_scales;
    bool bound_holds; // for every element that was not clipped
};

// Sizes that go with a spec and a shape.
struct quant_layout {
    size_t elements;
    size_t scale_count;
    int scale_rank;
    int64_t scale_dims[QUANT_MAX_RANK];
    size_t code_bytes;         // packed: elements * bits / 8, rounded up
    size_t scale_bytes;        // as f32 in memory
    size_t stored_scale_bytes; // in scale_type
    int code_size;             // bytes of one code in memory: 2 for s16 and u16, else 1
    bool has_zeros;            // zero points differ from 0: they must be asked for
};

// The largest code: 127, 7, 1, 255, ...; 0 for a type that is not an integer target.
int quant_qmax(enum dtype type);
// The codes of an integer spec, in order; for float types -max..max in units of the scale.
void quant_code_limits(const struct quant_spec *spec, double *lowest, double *highest);
// Of integer types: 1/2 + what f32 division, reciprocal and addition of the zero point may add to it, in scales.
double quant_bound_in_scales(const struct quant_spec *spec);
// Half the distance between neighbouring values around `value` (in scales, as represented): 1/2 for integer types.
double quant_half_step(enum dtype type, double value);
// Checks spec against shape, which must not be empty (ERR_USAGE naming `name`), and gives the sizes. `name` is the
// tensor's, for messages.
int quant_layout(const struct quant_spec *spec, const int64_t *dims, int rank, const char *name,
                 struct quant_layout *out, struct error *err);

// x: row-major, dims. codes: one per byte (two bytes for s16 and u16), same order: int8_t, uint8_t, int16_t, uint16_t,
// or the bytes of a float type. scales and zeros: layout.scale_count, row-major; zeros may be NULL when
// layout.has_zeros is false, and is all 0 then. ERR_INPUT names the tensor and the first index when x is not finite
// and the spec refuses that (stats->nonfinite is the count then, the rest of stats is not set).
int quantize(const struct quant_spec *spec, const int64_t *dims, int rank, const float *x, void *codes, float *scales,
             int32_t *zeros, struct quant_stats *stats, const char *name, struct error *err);
// The two halves of it. Scales that come from elsewhere (a calibration) must be finite and > 0, and zero points be
// codes: ERR_INPUT names the first that is not. stats may be NULL in quantize_scales; it sets nonfinite, nan,
// scales_raised and scales_lowered.
int quantize_scales(const struct quant_spec *spec, const int64_t *dims, int rank, const float *x, float *scales,
                    int32_t *zeros, struct quant_stats *stats, const char *name, struct error *err);
int quantize_codes(const struct quant_spec *spec, const int64_t *dims, int rank, const float *x, const float *scales,
                   const int32_t *zeros, void *codes, struct quant_stats *stats, const char *name, struct error *err);
// x[i] = (float)(codes[i] - zero) * scale, one f32 product.
int dequantize(const struct quant_spec *spec, const int64_t *dims, int rank, const void *codes, const float *scales,
               const int32_t *zeros, float *x, const char *name, struct error *err);

// Scale and zero point of one box whose values lie in [low, high] (finite, low <= high; a symmetric spec takes the
// larger magnitude). stats, when not NULL: its scales_raised and scales_lowered are counted up.
void quant_scale_of_range(const struct quant_spec *spec, double low, double high, float *scale, int32_t *zero,
                          struct quant_stats *stats);
// Scales to the bytes of scale_type (layout.stored_scale_bytes), and back: exact, since quantize gives scales that the
// type holds. ERR_INPUT for one that it does not.
int quant_store_scales(const struct quant_spec *spec, const float *scales, size_t n, void *out, const char *name,
                       struct error *err);
int quant_load_scales(const struct quant_spec *spec, const void *stored, size_t n, float *scales, const char *name,
                      struct error *err);

// Codes of 4 or 2 bits packed into bytes along `axis`: the element with the lowest index in the lowest bits. The packed
// array has ceil(dims[axis] * bits / 8) in place of dims[axis]; an odd end is filled with 0 bits. Types: s4, u4, s2, u2
// (ERR_USAGE for others).
int quant_packed_bytes(enum dtype type, const int64_t *dims, int rank, int axis, size_t *out, struct error *err);
int quant_pack(enum dtype type, const int64_t *dims, int rank, int axis, const void *codes, uint8_t *packed,
               struct error *err);
int quant_unpack(enum dtype type, const int64_t *dims, int rank, int axis, const uint8_t *packed, void *codes,
                 struct error *err);

// Narrows f32 to a float type (convert.h) without scales and says what it did. out: elements of `type`, row-major.
int quantize_float(enum dtype type, const int64_t *dims, int rank, int channel_axis, const float *x, void *out,
                   struct quant_stats *stats, const char *name, struct error *err);

// f64 to f32 (nearest even) before quantising. Finite values beyond f32 are counted in *beyond and do what `nonfinite`
// says: refused (ERR_INPUT, first index), the largest f32, or infinity. NaN and infinities pass.
int quant_narrow_f64(const double *x, size_t n, enum quant_nonfinite nonfinite, float *out, size_t *beyond,
                     const char *name, struct error *err);

// The error of a product whose weights were quantised, y = x W against y' = x W', in f64.
struct quant_output {
    double max_error;           // of |y' - y|
    double max_bound;           // of sum |x||W' - W|: what these weight errors can do at worst
    double max_half_step_bound; // of sum |x| * scale * half step: what can be said without the weights
    bool holds;                 // |y' - y| <= sum |x||W' - W| everywhere
    bool half_step_holds;       // |y' - y| <= sum |x| * scale * half step everywhere; promised only without clipping
};
// w and the codes have `dims` of rank 2 and the contraction on input_axis; x has rows of dims[input_axis]. The arrays,
// when not NULL, have rows x dims[other axis]: |y' - y| and the two bounds.
int quant_output_bound(const struct quant_spec *spec, const int64_t dims[2], int input_axis, const float *w,
                       const void *codes, const float *scales, const int32_t *zeros, const float *x, size_t rows,
                       struct quant_output *out, double *errors, double *bounds, double *half_step_bounds,
                       const char *name, struct error *err);

// Every rule of a spec in one line, for reports and metadata: "s8 per channel of axis 0, symmetric, codes -127..127,
// scale = amax / 127 as f32, code = round half even(x / s)".
void quant_describe(const struct quant_spec *spec, struct str *out);

#endif
