// SPDX-License-Identifier: Apache-2.0
// How far a result is from its f64 reference: as numbers, and as a retrieval task. Everything is computed in f64.
#ifndef NUM_MEASURES_H
#define NUM_MEASURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/threads.h"
#include "num/dtype.h"

// Errors of rows x columns. Rows may be added in parts. NaN stands for "no such number" (null in JSON).
//
// Infinities of the same sign on both sides agree and are left out of the sums. Any other pair with a NaN or an
// infinity is counted, and makes every error below NaN, so that no bound on it holds.
struct measures {
    size_t rows, columns, elements;
    size_t nonfinite_result, nonfinite_reference; // elements, matching infinities not counted
    size_t matching_infinities;
    double rel_l2;         // ||result - reference|| / ||reference||; NaN when the reference is zero
    double max_abs;        // max |result - reference|
    size_t max_abs_index;  // row * columns + column, the first such
    double snr_db;         // 10 log10(||reference||^2 / ||error||^2); infinite when there is no error
    double cosine_min;     // over rows; a row that is zero on one side alone has 0, on both sides is left out
    size_t cosine_min_row; // the first such
    double cosine_mean;
    double floor;             // declared: denominator of single elements is max(|reference|, floor)
    double max_rel, mean_rel; // |result - reference| / max(|reference|, floor)
    // Sums so far; read the fields above only after measures_finish.
    double error2, reference2, cosine_sum, rel_sum;
    size_t cosine_rows;
};

// `floor` > 0, in the unit of the values.
void measures_begin(struct measures *m, size_t columns, double floor);
// Adds rows x columns elements of a type that convert.h can turn into f64. Neither side needs to outlive the call.
int measures_add(struct measures *m, const double *reference, enum dtype type, const void *result, size_t rows,
                 struct error *err);
void measures_finish(struct measures *m);

// The retrieval task: every row is a query; the other rows are ranked by their cosine with it, highest first, ties by
// the lower index. A row that is not finite has the lowest similarity to all, and counts as total disagreement (0) when
// it is the query; `nonfinite_rows` says how many there were.
struct retrieval {
    size_t rows;
    size_t queries; // that were averaged over
    size_t nonfinite_rows;
    size_t top_k;        // min(10, rows-1)
    double top1;         // fraction of queries whose nearest row is the same
    double top10;        // mean of |top_k of both| / top_k
    double spearman;     // mean rank correlation of the whole ranking, 1 - 6 sum d^2 / (m (m^2 - 1)), m = rows-1 ranks
    double spearman_min; // and its smallest, at
    size_t spearman_min_query;
};

// rows x columns each, row-major. out[0] is over all queries; out[1+i] over the queries with masks[i][query] != 0 (NaN
// where there is none). rows must be at least 3. O(rows^2 (columns + log rows)) time, O(rows columns) memory. `threads`
// (NULL: the caller alone) share out the queries; the result does not depend on how many there are.
int retrieval_measure(const double *reference, const double *result, size_t rows, size_t columns,
                      const uint8_t *const *masks, size_t mask_count, struct threads *threads, struct retrieval *out,
                      struct error *err);
// Per row: how much its nearest row is nearer than the second, in cosine (NaN for a row that is not finite). What is
// small is a low-margin decision.
int retrieval_margins(const double *reference, size_t rows, size_t columns, double *margins, struct error *err);

#endif
