// SPDX-License-Identifier: Apache-2.0
// How one tensor is quantised: cut into pieces that threads take in turn, each loaded, encoded and written by itself.
#ifndef LAB_QUANTIZE_WORK_H
#define LAB_QUANTIZE_WORK_H

#include <pthread.h>

#include "base/progress.h"
#include "base/threads.h"
#include "io/safetensors.h"
#include "lab/quantize_file.h"

// Whole rows, or a part of one row.
struct quantize_piece {
    size_t row, rows, column, columns;
};

// What one thread works in; they wait in a list while nobody uses them.
struct quantize_space {
    struct quantize_space *next;
    size_t elements, scale_count; // room
    float *x, *back;
    uint8_t *codes, *packed; // two bytes per element
    float *scales, *ones;
    int32_t *zeros;
    uint8_t *stored; // scales or zero points as in the file; four bytes each
};

// Shared by all tensors of a run.
struct quantize_run {
    const struct checkpoint *checkpoint;
    const struct quantize_policy *policy;
    enum quant_nonfinite nonfinite;
    struct safetensors_writer *writer;
    struct threads *threads;
    const struct progress *progress;
    size_t total_bytes, done_bytes; // of the source
    pthread_t reporter;             // the thread that may report progress
    pthread_mutex_t lock;           // of what follows, and of done_bytes
    struct quantize_space *spaces;
    struct error error; // the first
    int failed;         // read without the lock
};
int quantize_run_init(struct quantize_run *r, struct error *err);
void quantize_run_release(struct quantize_run *r);
// Ends the work of all threads; the first failure counts.
void quantize_run_fail(struct quantize_run *r, const struct error *e);
// Its code, 0 while there is none; sets err.
int quantize_run_error(struct quantize_run *r, struct error *err);

// Entries of a tensor in the output: indices, or -1.
struct quantize_entries {
    long codes, scales, zeros, tensor_scale;
};

struct quantize_work {
    struct quantize_run *run;
    const struct tensor_view *view;
    const struct quantize_policy *policy; // its spec is complete for this tensor
    size_t rows, columns;
    struct quantize_entries entries;
    enum dtype to;     // NARROW: the type
    int bits;          // of a code in the file
    size_t row_bytes;  // of the codes of a row
    size_t across;     // scales in a row of scales (1 per channel, columns / group rounded up, ...)
    size_t box_rows;   // rows that share scales: 1 but for blocks of several rows
    size_t piece_rows; // of a piece, a multiple of box_rows
    size_t piece_columns;
    size_t pieces;
    bool given;     // scales were found by a pass of their own: one for all, or one per row
    bool one_scale; // for all
    float *scales;  // given
    int32_t *zeros;
    float tensor_scale;           // NVFP4
    struct quantize_stats *parts; // by piece
    struct quant_extent *extents; // by piece, of finite values
};

// Everything of one tensor, from the source to the file. `stats` is set.
int quantize_tensor_codes(struct quantize_run *r, const struct tensor_view *view, size_t rows, size_t columns,
                          const struct quantize_entries *entries, struct quantize_stats *stats, struct error *err);
// To a float type without scales; without `stats` nothing is measured.
int quantize_tensor_narrow(struct quantize_run *r, const struct tensor_view *view, size_t rows, size_t columns,
                           long entry, enum dtype to, struct quantize_stats *stats, struct error *err);
// Byte for byte.
int quantize_tensor_copy(struct quantize_run *r, const struct tensor_view *view, long entry, struct error *err);

// Bits of a code in the file, and what it is stored as: U8 where several share a byte.
int quantize_code_bits(const struct quantize_policy *p);
enum dtype quantize_code_dtype(const struct quantize_policy *p);
// Scales along one row of scales, and rows of scales.
size_t quantize_scales_across(const struct quantize_policy *p, size_t columns);
size_t quantize_scales_down(const struct quantize_policy *p, size_t rows);
enum dtype quantize_scale_dtype(const struct quantize_policy *p);
bool quantize_has_zeros(const struct quantize_policy *p);

// The values of a piece as f32: in the file itself where they lie there as such, else in space->x. Call it under a
// guard. ERR_INPUT for values that are refused.
int quantize_load(const struct quantize_work *w, const struct quantize_piece *p, struct quantize_space *s,
                  const float **x, struct quantize_stats *part, struct error *err);
// space->codes (one element in one code size), and unless the scales are given space->scales and space->zeros. May
// change x when it lies in the space.
int quantize_encode(const struct quantize_work *w, const struct quantize_piece *p, const float *x,
                    struct quantize_space *s, struct quantize_stats *part, struct error *err);

void quantize_stats_init(struct quantize_stats *s);
void quantize_stats_add(struct quantize_stats *total, const struct quantize_stats *part);
// A row's sums: adds them, and keeps the worst row.
void quantize_stats_row(struct quantize_stats *s, size_t row, double error2, double reference2);

#endif
