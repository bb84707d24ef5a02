// SPDX-License-Identifier: Apache-2.0
#include "trace/diff_means.h"

#include <math.h>

#include "base/bytes.h"

void diff_side_add(struct diff_side *to, const struct diff_side *s)
{
    to->count += s->count;
    to->sum_ps = add_saturated(to->sum_ps, s->sum_ps);
    to->squares += s->squares;
}

struct diff_side diff_side_of(int64_t ps)
{
    return (struct diff_side){1, ps, (double)ps * (double)ps};
}

double diff_mean(const struct diff_side *s)
{
    return s->count ? (double)s->sum_ps / (double)s->count : NAN;
}

// Rounding can make the difference of squares negative when all are equal.
static double variance(const struct diff_side *s)
{
    double n = (double)s->count, m = diff_mean(s);
    if (s->count < 2)
        return NAN;
    double v = (s->squares - n * m * m) / (n - 1);
    return v > 0 ? v : 0;
}

double diff_spread(const struct diff_side *s)
{
    return sqrt(variance(s));
}

// Student's 97.5 % quantile: exact for one and two degrees of freedom, above them the expansion in 1/df around the
// normal distribution (Abramowitz and Stegun 26.7.5), which is within 1 % from three on.
static double student(double df)
{
    static const double z = 1.959963984540054;
    double z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
    if (isinf(df))
        return z;
    if (df < 2)
        return 12.706204736;
    if (df < 3)
        return 4.302652730;
    return z + (z3 + z) / (4 * df) + (5 * z5 + 16 * z3 + 3 * z) / (96 * df * df) +
           (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * df * df * df);
}

struct diff_interval diff_means(const struct diff_side *a, const struct diff_side *b)
{
    double va = variance(a) / (double)a->count, vb = variance(b) / (double)b->count, d = diff_mean(b) - diff_mean(a);
    if (isnan(va) || isnan(vb))
        return (struct diff_interval){NAN, NAN};
    double down = va * va / ((double)a->count - 1) + vb * vb / ((double)b->count - 1);
    double df = down > 0 ? (va + vb) * (va + vb) / down : INFINITY;
    double half = student(df) * sqrt(va + vb);
    return (struct diff_interval){d - half, d + half};
}

struct diff_interval diff_mean_range(const struct diff_side *s)
{
    double v = variance(s) / (double)s->count, m = diff_mean(s);
    if (isnan(v))
        return (struct diff_interval){NAN, NAN};
    double half = v > 0 ? student((double)s->count - 1) * sqrt(v) : 0;
    return (struct diff_interval){m - half, m + half};
}

enum trace_diff_verdict diff_judge(const struct diff_interval *range, double tolerance)
{
    return range->low > tolerance     ? TRACE_DIFF_SLOWER
           : range->high <= tolerance ? TRACE_DIFF_NOT_SLOWER
                                      : TRACE_DIFF_UNCLEAR; // NAN, too
}

const char *diff_verdict_name(enum trace_diff_verdict verdict)
{
    static const char *const names[] = {"not slower", "slower", "unclear"};
    return names[verdict];
}

void diff_side_json(struct jw *w, const char *key, const struct diff_side *s, bool spread)
{
    jw_key(w, key);
    jw_object(w);
    jw_kv_uint(w, "count", s->count);
    jw_kv_int(w, "sum_ps", s->sum_ps);
    jw_kv_double(w, "mean_ps", diff_mean(s));
    if (spread)
        jw_kv_double(w, "spread_ps", diff_spread(s));
    jw_object_end(w);
}

void diff_interval_json(struct jw *w, const char *key, const struct diff_interval *i)
{
    jw_key(w, key);
    if (isnan(i->low) || isnan(i->high)) {
        jw_null(w);
        return;
    }
    jw_array(w);
    jw_double(w, i->low);
    jw_double(w, i->high);
    jw_array_end(w);
}
