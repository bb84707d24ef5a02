// SPDX-License-Identifier: Apache-2.0
// Quantises a checkpoint: safetensors (sharded too) or GGUF in, one safetensors file out, with codes, scales, zero
// points, the whole policy in its metadata, and what became of every tensor. docs/quantize.md describes the file.
//
// Memory: a few MB for each thread, whatever the tensors' size, but where a scale needs all values of a large box at
// once (a search or a percentile of a whole tensor): then that box in f32, and its codes.
#ifndef LAB_QUANTIZE_FILE_H
#define LAB_QUANTIZE_FILE_H

#include "base/arena.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/threads.h"
#include "io/checkpoint.h"
#include "lab/quantize_calibrate.h"
#include "lab/quantize_policy.h"

#define QUANTIZE_METADATA_KEY "assay.quantization"

struct quantize_options {
    const char *in, *out;
    const char *policy;
    const char *const *skip; // n_skip patterns as of fnmatch(3); tensors whose name fits one are kept
    size_t n_skip;
    enum quant_nonfinite nonfinite;
    size_t threads; // 0: as many as the process may run on
    struct quantize_calibrate_options calibrate;
    const char *trace; // the profile that was written of the calibration; NULL: none
};

// What conversion did to a tensor, against its values as f32; sums in f64. Values that are not finite are counted and
// left out of the errors.
struct quantize_stats {
    size_t elements;
    size_t nonfinite, nan;     // inputs; nan is part of nonfinite
    size_t beyond_f32;         // f64 inputs
    size_t clipped;            // beyond the largest code or element
    size_t flushed;            // not 0, and 0 afterwards
    size_t overflowed;         // finite, and not afterwards
    size_t scales_raised;      // scales that would have been smaller than what their type holds
    size_t scales_lowered;     // larger
    double error2, reference2; // sums of squares
    double max_abs_error, amax;
    double scale_min, scale_max; // NaN without scales
    // Of integers with scales, over what was not clipped; NaN elsewhere.
    double bound_in_scales, max_error_in_scales;
    bool bound_holds;
    // Of the row with the largest relative error; NaN when every row is zero.
    size_t worst_row;
    double worst_row_rel_l2;
};
double quantize_rel_l2(const struct quantize_stats *s); // ||x' - x|| / ||x||; NaN where ||x|| is 0
double quantize_snr_db(const struct quantize_stats *s); // infinite without an error
// The largest magnitude in units of the root mean square: some 4 to 5 for normally distributed weights.
double quantize_outlier_ratio(const struct quantize_stats *s);

enum quantize_action {
    QUANTIZE_DONE,    // by the policy
    QUANTIZE_KEPT,    // byte for byte
    QUANTIZE_DECODED, // kept, but its blocks are of no type that safetensors has: now f32, exactly
};

struct quantize_tensor {
    const struct tensor_view *view; // in the source
    enum quantize_action action;
    const char *reason;    // why it was not quantised: "vector", "integers", "--skip '*.bias'"; else NULL
    const char *from, *to; // element types; "s4" for packed codes
    size_t rows, columns;  // what the policy sees
    size_t bytes_before, bytes_after;
    struct quantize_stats stats; // of a quantised one
    // Names in the file; NULL where there is none.
    const char *codes, *scales, *zeros, *tensor_scale;
};

struct quantize_source {
    const char *name; // without directories
    size_t bytes;
    char sha256[65];
};

struct quantize_file {
    struct arena arena;
    struct checkpoint checkpoint;
    bool opened;
    struct quantize_policy policy;
    const char *in, *out;
    enum quant_nonfinite nonfinite;
    const struct quantize_calibration *calibration; // NULL: none
    struct quantize_source *sources;
    size_t source_count;
    struct quantize_tensor *tensors; // in the order of the source
    size_t count, quantised;
    size_t bytes_before, bytes_after; // of all tensors' data
    size_t file_bytes;                // of the file written
    size_t *skip_matches;             // by pattern: tensors it fits
    struct quantize_stats total;      // of all that were quantised; worst_row is not set
    size_t worst;                     // index of the tensor with the largest relative error; count: none
};

// The matrix that a policy sees in a tensor: the last axis is contracted, all before it are rows; of the kernel of a
// convolution (three axes or more, the last shorter than 32) the first axis is rows and all others are contracted.
void quantize_as_matrix(const struct tensor_view *v, size_t *rows, size_t *columns);

// ERR_USAGE for the policy and when `out` exists; ERR_INPUT for the source: damaged, quantised already, with values
// that are not finite where those are refused, cut short or changed meanwhile; ERR_IO; ERR_INTERRUPTED. After an error
// nothing is left at `out` or beside it. Call quantize_file_release in any case.
int quantize_file(struct quantize_file *q, const struct quantize_options *o, const struct progress *progress,
                  struct error *err);
void quantize_file_release(struct quantize_file *q);

// What `assay quantize --json` prints as its result (docs/schemas/assay.quantize.1.json).
void quantize_file_json(const struct quantize_file *q, const struct quantize_options *o, struct jw *w);

const char *quantize_action_name(enum quantize_action a); // "quantised", "kept", "decoded"
// "error", "saturate", "keep"; the inverse is false for another name.
const char *quantize_nonfinite_name(enum quant_nonfinite n);
bool quantize_nonfinite_from_name(const char *name, enum quant_nonfinite *out);

#endif
