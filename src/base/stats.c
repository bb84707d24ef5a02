// SPDX-License-Identifier: Apache-2.0
#include "base/stats.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

// Several quantiles of the same values are asked for by who has sorted them.
static bool is_sorted(const double *values, size_t n)
{
    size_t i = 1;
    while (i < n && values[i - 1] <= values[i])
        i++;
    return i >= n;
}

void stats_sort(double *values, size_t n)
{
    if (!is_sorted(values, n))
        qsort(values, n, sizeof *values, compare);
}

double stats_quantile(const double *values, size_t n, double q, double *scratch)
{
    if (n == 0)
        return NAN;
    for (size_t i = 0; i < n; i++) {
        if (isnan(values[i]))
            return NAN;
    }
    memmove(scratch, values, n * sizeof *values);
    stats_sort(scratch, n);
    double at = q * (double)(n - 1);
    size_t i = (size_t)at;
    if (i + 1 >= n)
        return scratch[n - 1];
    double fraction = at - (double)i; // at zero the next one does not count, even when it is infinite
    return fraction > 0 ? scratch[i] + fraction * (scratch[i + 1] - scratch[i]) : scratch[i];
}

double stats_median(const double *values, size_t n, double *scratch)
{
    return stats_quantile(values, n, 0.5, scratch);
}

double stats_mad(const double *values, size_t n, double *scratch)
{
    double median = stats_median(values, n, scratch);
    for (size_t i = 0; i < n; i++)
        scratch[i] = fabs(values[i] - median);
    if (n == 0)
        return NAN;
    stats_sort(scratch, n);
    double mid = n % 2 ? scratch[n / 2] : (scratch[n / 2 - 1] + scratch[n / 2]) / 2;
    return 1.4826 * mid;
}

double stats_mean(const double *values, size_t n)
{
    double mean = 0;
    for (size_t i = 0; i < n; i++)
        mean += (values[i] - mean) / (double)(i + 1);
    return n ? mean : NAN;
}

double stats_min(const double *values, size_t n)
{
    double m = n ? values[0] : NAN;
    for (size_t i = 1; i < n; i++)
        m = values[i] < m || isnan(values[i]) ? values[i] : m;
    return m;
}

double stats_max(const double *values, size_t n)
{
    double m = n ? values[0] : NAN;
    for (size_t i = 1; i < n; i++)
        m = values[i] > m || isnan(values[i]) ? values[i] : m;
    return m;
}

// P(Bin(n, 1/2) = k), through logarithms so that large n neither overflows nor underflows.
static double binomial_half(size_t n, size_t k)
{
    int sign; // lgamma keeps it in a global
    return exp(lgamma_r((double)n + 1, &sign) - lgamma_r((double)k + 1, &sign) - lgamma_r((double)(n - k) + 1, &sign) -
               (double)n * M_LN2);
}

void stats_median_interval(size_t n, double confidence, size_t *low, size_t *high, double *coverage)
{
    double below = binomial_half(n, 0); // P(Bin <= k): [x_k, x_(n-1-k)] misses the median on that side
    *low = 0;
    *high = n ? n - 1 : 0;
    *coverage = n > 1 ? 1 - 2 * below : 0;
    for (size_t k = 1; n > 2 && k < n - 1 - k; k++) {
        below += binomial_half(n, k);
        if (1 - 2 * below < confidence)
            break;
        *low = k;
        *high = n - 1 - k;
        *coverage = 1 - 2 * below;
    }
}

double stats_sign_test(size_t above, size_t below)
{
    size_t n = above + below, fewer = above < below ? above : below;
    double tail = 0;
    for (size_t k = 0; k <= fewer; k++)
        tail += binomial_half(n, k);
    return fmin(1, 2 * tail);
}

double stats_slope(const double *values, size_t n)
{
    if (n < 2)
        return NAN;
    double mean_x = (double)(n - 1) / 2, mean_y = stats_mean(values, n), xy = 0, xx = 0;
    for (size_t i = 0; i < n; i++) {
        xy += ((double)i - mean_x) * (values[i] - mean_y);
        xx += ((double)i - mean_x) * ((double)i - mean_x);
    }
    return xy / xx;
}

static int compare_indexed(const void *a, const void *b, void *values)
{
    size_t i, j;
    memcpy(&i, a, sizeof i);
    memcpy(&j, b, sizeof j);
    const double *v = values;
    return (v[i] > v[j]) - (v[i] < v[j]);
}

static void ranks(const double *values, size_t n, double *out, size_t *order)
{
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    qsort_r(order, n, sizeof *order, compare_indexed, (void *)(size_t)values);
    for (size_t i = 0; i < n;) {
        size_t j = i;
        while (j < n && values[order[j]] == values[order[i]])
            j++;
        for (size_t k = i; k < j; k++)
            out[order[k]] = (double)(i + j - 1) / 2;
        i = j;
    }
}

double stats_spearman(const double *x, const double *y, size_t n, double *scratch, size_t *order)
{
    if (n < 2)
        return NAN;
    for (size_t i = 0; i < n; i++) {
        if (isnan(x[i]) || isnan(y[i]))
            return NAN;
    }
    double *rx = scratch, *ry = scratch + n;
    ranks(x, n, rx, order);
    ranks(y, n, ry, order);
    double mean = (double)(n - 1) / 2, xy = 0, xx = 0, yy = 0;
    for (size_t i = 0; i < n; i++) {
        xy += (rx[i] - mean) * (ry[i] - mean);
        xx += (rx[i] - mean) * (rx[i] - mean);
        yy += (ry[i] - mean) * (ry[i] - mean);
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
}
