// SPDX-License-Identifier: Apache-2.0
// Two samples of times by their counts, sums and sums of squares, and what the difference of their means is worth.
#ifndef TRACE_DIFF_MEANS_H
#define TRACE_DIFF_MEANS_H

#include <stdint.h>

#include "base/json.h"

struct diff_side {
    uint64_t count;
    int64_t sum_ps;
    double squares; // ps^2
};

struct diff_interval {
    double low, high; // NAN: fewer than two of either
};

enum trace_diff_verdict { TRACE_DIFF_NOT_SLOWER, TRACE_DIFF_SLOWER, TRACE_DIFF_UNCLEAR };

// One time, or another side's.
void diff_side_add(struct diff_side *to, const struct diff_side *s);
struct diff_side diff_side_of(int64_t ps);
double diff_mean(const struct diff_side *s);   // NAN without any
double diff_spread(const struct diff_side *s); // standard deviation of one; NAN with fewer than two
// Of the difference of means b - a, 95 %, by Welch's method; of the mean of one sample, 95 %, by Student's t.
struct diff_interval diff_means(const struct diff_side *a, const struct diff_side *b);
struct diff_interval diff_mean_range(const struct diff_side *s);
// Slower: the whole interval lies above the tolerance; not slower: none of it does. Unclear also without an interval.
enum trace_diff_verdict diff_judge(const struct diff_interval *range, double tolerance);
const char *diff_verdict_name(enum trace_diff_verdict verdict); // "not slower", "slower", "unclear"

// {count, sum_ps, mean_ps}, with `spread` also spread_ps; [low, high] or null.
void diff_side_json(struct jw *w, const char *key, const struct diff_side *s, bool spread);
void diff_interval_json(struct jw *w, const char *key, const struct diff_interval *i);

#endif
