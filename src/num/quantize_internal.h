// SPDX-License-Identifier: Apache-2.0
// What the parts of quantisation share: how a tensor is walked along its boxes, and how scales are found.
#ifndef NUM_QUANTIZE_INTERNAL_H
#define NUM_QUANTIZE_INTERNAL_H

#include "num/format.h"
#include "num/quantize.h"

struct quant_kernels;

// The row of a float type that values can be quantised to (signed, at most 8 bits); NULL for others.
const struct format *quant_element_format(enum dtype type);
int quant_check_shape(const int64_t *dims, int rank, const char *name, size_t *elements, struct error *err);

// The tensor is walked along its last axis, in segments that meet their scales in one of two ways: all elements of a
// segment share a scale (step 0), or each has the next one (step 1; the segment is the row then). The same holds for
// the channels of the statistics.
struct quant_walk {
    int rank; // at least 1: a scalar is one row of one element
    int64_t dims[QUANT_MAX_RANK];
    int64_t box[QUANT_MAX_RANK];   // elements of a box along each axis
    int64_t count[QUANT_MAX_RANK]; // boxes along each axis
    size_t stride[QUANT_MAX_RANK]; // of the scales, per axis
    int channel_axis;
    size_t rows, columns; // all axes but the last, and the last
    size_t segment;       // elements per segment; the last of a row may be shorter
    size_t scale_step;    // 0 or 1
    size_t channel_step;
    size_t channels;
};

void quant_walk_init(struct quant_walk *w, const struct quant_spec *spec, const int64_t *dims, int rank,
                     size_t elements);
// First scale and first channel of a row.
void quant_walk_row(const struct quant_walk *w, size_t row, size_t *scale, size_t *channel);
// The extents of a box (shorter at the end of an axis where it does not divide), for `tensor` and so on.
int64_t quant_box(const struct quant_spec *spec, int axis, int64_t length);

static inline size_t quant_segment(const struct quant_walk *w, size_t from)
{
    return w->columns - from < w->segment ? w->columns - from : w->segment;
}

// Counts NaN and infinities; ERR_INPUT where the spec refuses them and there are some.
int quant_count_nonfinite(const struct quant_spec *spec, const float *x, size_t n, struct quant_stats *stats,
                          const char *name, struct error *err);
// Scales and zero points of x, whose values that are not finite were counted before (stats). zeros may be NULL (all 0).
// Here and below, kernels NULL means the plain loops, which are what the kernels are checked against.
int quant_find_scales(const struct quant_spec *spec, const struct quant_walk *w, const struct quant_layout *l,
                      const struct quant_kernels *kernels, const float *x, float *scales, int32_t *zeros,
                      struct quant_stats *stats, const char *name, struct error *err);
// Codes, and all of stats but nonfinite, nan (which must be set) and the counts of scales.
int quant_encode_tensor(const struct quant_spec *spec, const struct quant_walk *w, const struct quant_layout *l,
                        const struct quant_kernels *kernels, const float *x, const float *scales, const int32_t *zeros,
                        void *codes, struct quant_stats *stats, const char *name, struct error *err);
void quant_decode_tensor(const struct quant_spec *spec, const struct quant_walk *w, const struct quant_kernels *kernels,
                         const void *codes, const float *scales, const int32_t *zeros, float *x);
// rel L2 and the worst channel, from squared errors and squared norms per channel.
void quant_finish_norms(const double *error2, const double *reference2, size_t channels, struct quant_stats *stats);

// The range shrunk as quant_search says: *low and *high are the whole range and become the one whose scale has the
// least error. error(context, scale, zero, norm) is the sum of |x' - x|^norm.
typedef double quant_error_fn(const void *context, float scale, int32_t zero, double norm);
void quant_search_range(const struct quant_spec *spec, quant_error_fn *error, const void *context, double *low,
                        double *high);

#define QUANT_RUN 256 // elements that are encoded at a time
struct quant_run {
    float unit[QUANT_RUN]; // code - z, or the value of a float type: x' is this times the scale
    bool clipped[QUANT_RUN];
    float codes[QUANT_RUN];   // integer types
    uint8_t bytes[QUANT_RUN]; // float types
};
// n <= QUANT_RUN elements with scales[j * step] and zeros[j * step]; zeros may be NULL.
void quant_encode_run(const struct quant_spec *spec, const float *x, size_t n, const float *scales,
                      const int32_t *zeros, size_t step, struct quant_run *run);
// n codes from index `at` of the tensor as numbers (float types: their values).
void quant_load_codes(enum dtype type, const void *codes, size_t at, size_t n, float *out);

// ERR_INPUT names the first scale that is not finite and above 0, or zero point that is no code. zeros may be NULL
// where the layout has none.
int quant_check_scales(const struct quant_spec *spec, const struct quant_layout *l, const float *scales,
                       const int32_t *zeros, const char *name, struct error *err);

#endif
