// SPDX-License-Identifier: Apache-2.0
// Statistics of samples. NaN in, NaN out; n == 0 gives NaN.
#ifndef BASE_STATS_H
#define BASE_STATS_H

#include <stddef.h>

// Quantile q in [0,1] of n values in any order, linear between order statistics (type 7 of Hyndman and Fan, numpy's
// default). `scratch` has room for n doubles and is overwritten.
double stats_quantile(const double *values, size_t n, double q, double *scratch);
double stats_median(const double *values, size_t n, double *scratch);
// Median absolute deviation from the median, times 1.4826 (equals the standard deviation for normal samples).
double stats_mad(const double *values, size_t n, double *scratch);
double stats_mean(const double *values, size_t n);
double stats_min(const double *values, size_t n);
double stats_max(const double *values, size_t n);

// Exact binomial confidence interval of the median: the narrowest pair of order statistics x[low], x[high] (0-based,
// symmetric) that covers the median with at least `confidence`. *coverage is the exact probability 1 - 2 P(Bin(n,1/2)
// <= low). When n is too small for the confidence asked for, gives (0, n-1) and its smaller coverage.
void stats_median_interval(size_t n, double confidence, size_t *low, size_t *high, double *coverage);

// Two-sided sign test: probability under "equally often above as below" of a split at least as uneven as (above,
// below).
double stats_sign_test(size_t above, size_t below);

// Least-squares slope of values against their index, in units of value per sample.
double stats_slope(const double *values, size_t n);

// Spearman rank correlation with average ranks for ties; NaN when either side is constant or n < 2.
// `scratch` has room for 2n doubles, `order` for n.
double stats_spearman(const double *x, const double *y, size_t n, double *scratch, size_t *order);

void stats_sort(double *values, size_t n);

#endif
