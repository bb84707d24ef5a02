// SPDX-License-Identifier: Apache-2.0
// Block formats: runs of elements along one axis that share a scale.
//
// MX (OCP Microscaling Formats v1.0, sections 5 and 6): 32 elements and one E8M0 scale, a power of two, 2^k. An element
// is x / 2^k, which is exact, rounded once and clamped to the element's largest value; it decodes to element * 2^k,
// rounded once to f32 (exact but at the ends of f32's range). MXINT8's element is a two's complement number of 64ths
// whose code -128 is never made.
// NVFP4: 16 elements of E2M1, one E4M3 scale s, and one f32 scale g of the whole tensor, in f32 arithmetic throughout:
//     g = amax(tensor) / 2688, 2688 = 448 * 6, not below 2^-120 (so that no product below leaves f32); 1 for zeros
//     s = E4M3(min(max(amax(block) / 6 / g, 2^-6), 448))
//     element = E2M1(min(max(x * ((1/g) / s), -6), 6))        x' = element * (g * s)
// A block of zeros has the smallest scale (2^-127; 2^-6) and decodes to zeros. A block that holds a NaN or an infinity
// has a NaN as its scale and decodes to NaN throughout; its elements are 0, and it has no part in g.
#ifndef NUM_BLOCK_H
#define NUM_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "num/dtype.h"
#include "num/format.h"

#define BLOCK_MAX_RANK 8

struct block_format {
    const char *name;   // "mxfp8-e4m3"
    enum dtype element; // DT_S8 for mxint8
    int fraction;       // bits after the point of an integer element: 6 for mxint8, else 0
    enum dtype scale;   // DT_F8E8M0FNU or DT_F8E4M3FN
    size_t block;       // elements
    bool tensor_scale;  // an f32 beside the blocks
};

// In the order of docs/formats.md; NULL past the end.
const struct block_format *block_format_at(size_t i);
// NULL when unknown.
const struct block_format *block_format_from_name(const char *name);
// Largest element: 448, 57344, 7.5, 28, 6, 127/64.
double block_element_max(const struct block_format *f);

// The exponent k of an MX scale, from amax, the largest magnitude of the block, and emax, the exponent of the largest
// element. Clamped to [-127, 127].
enum block_scale_rule {
    BLOCK_SCALE_FLOOR, // floor(log2(amax)) - emax: OCP's rule; amax itself may be clamped
    BLOCK_SCALE_CEIL,  // ceil(log2(amax)) - emax
    BLOCK_SCALE_EVEN,  // FLOOR of amax rounded (ties up) to the fraction bits of the element
    BLOCK_SCALE_RCEIL, // ceil(log2(amax / largest element)): the smallest at which nothing is clamped
};
const char *block_scale_rule_name(enum block_scale_rule r); // "floor", ...
bool block_scale_rule_from_name(const char *name, enum block_scale_rule *out);

struct block_cast {
    enum block_scale_rule scale_rule; // MX formats only
    enum format_rounding rounding;    // of elements
    const struct format_stream *stream;
    float tensor_scale;     // NVFP4: g from a calibration, finite and >= 2^-120; 0: from this tensor
    bool refuse_not_finite; // NaN or infinity is ERR_INPUT instead of a block of NaN
};

struct block_layout {
    size_t elements;
    size_t scale_count;
    int64_t scale_dims[BLOCK_MAX_RANK]; // dims, with ceil(dims[axis]/block) in place of dims[axis]
    size_t short_block;                 // elements of the last block along the axis where it is not full, else 0
    size_t code_bytes;                  // packed
    size_t scale_bytes;                 // 1 per block, and 4 for a tensor scale
    double bits_per_element;            // all bytes
};

struct block_stats {
    size_t elements;
    size_t nan, infinite; // inputs
    size_t nan_blocks;    // blocks that hold one
    size_t zero_blocks;
    size_t clipped;              // elements beyond the largest one, after rounding
    size_t flushed;              // not 0, but the result is 0
    size_t overflowed;           // finite, and beyond f32 when decoded: elements at its very end that round up
    size_t clamped_scales;       // k beyond [-127, 127], s beyond [2^-6, 448]; blocks of zeros are not in it
    double scale_min, scale_max; // of blocks that are not NaN, g included; NaN where there is none
    double rel_l2;               // ||x' - x|| / ||x|| over finite inputs, in f64; NaN where ||x|| is 0
    double max_abs_error;
};

// Checks the shape (ERR_USAGE naming `name`: empty, rank, axis) and gives sizes. Blocks run along `axis`; the last one
// along it may be short.
int block_layout(const struct block_format *f, const int64_t *dims, int rank, int axis, const char *name,
                 struct block_layout *out, struct error *err);
// x: row-major, dims. codes: one per byte, in the same order. scales: one byte each, row-major, layout's shape.
// tensor_scale: set to g, or 1 for a format without one. stats may be NULL. ERR_INPUT names the first element that is
// not finite where those are refused; nothing is to be read from the results then.
int block_encode(const struct block_format *f, const struct block_cast *cast, const int64_t *dims, int rank, int axis,
                 const float *x, uint8_t *codes, uint8_t *scales, float *tensor_scale, struct block_stats *stats,
                 const char *name, struct error *err);
int block_decode(const struct block_format *f, const int64_t *dims, int rank, int axis, const uint8_t *codes,
                 const uint8_t *scales, float tensor_scale, float *x, const char *name, struct error *err);

#endif
