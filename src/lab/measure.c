// SPDX-License-Identifier: Apache-2.0
#include "lab/measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/quantity.h"
#include "base/stats.h"

// A sample further than this many robust standard deviations from the median is flagged: the cut Iglewicz and Hoaglin
// propose for the modified z-score (1993).
#define OUTLIER_Z 3.5
// sqrt(pi / 2): makes the mean absolute deviation equal the standard deviation for normal samples.
#define MEAN_DEVIATION_SCALE 1.2533141373155003

#define NOT_A_TIME "a run has no time"

struct measure_warmup_policy measure_warmup_default(void)
{
    return (struct measure_warmup_policy){.window = 8, .flat_fraction = 0.05, .max_runs = 200, .max_ns = 10e9};
}

void measure_warmup_init(struct measure_warmup *w, struct measure_warmup_policy policy)
{
    memset(w, 0, sizeof *w);
    if (policy.window < 3)
        policy.window = 3;
    if (policy.window > MEASURE_WINDOW_MAX)
        policy.window = MEASURE_WINDOW_MAX;
    w->policy = policy;
    w->change = NAN;
    w->state = policy.max_runs == 0 ? WARMUP_CAPPED : WARMUP_COLD;
}

enum measure_warmth measure_warmup_add(struct measure_warmup *w, double ns)
{
    const struct measure_warmup_policy *p = &w->policy;
    if (w->state != WARMUP_COLD)
        return w->state;
    w->runs++;
    w->total_ns += ns;
    w->window[w->filled++] = ns;
    if (w->filled == p->window) {
        double scratch[MEASURE_WINDOW_MAX];
        double moved = fabs(stats_slope(w->window, p->window)) * (double)p->window;
        double median = stats_median(w->window, p->window, scratch);
        w->change = moved == 0 ? 0 : moved / median; // runs shorter than the clock's step: 0 / 0
        w->filled = 0;
        if (w->change <= p->flat_fraction)
            w->state = WARMUP_FLAT;
    }
    // Written so that a NaN total ends the warm-up too.
    if (w->state == WARMUP_COLD && (w->runs >= p->max_runs || !(w->total_ns < p->max_ns)))
        w->state = WARMUP_CAPPED;
    return w->state;
}

// A measured quantity; where there is no number, `why_not` joins the source.
static void measured(struct jw *w, const char *key, double value, const char *unit, const char *source,
                     const char *why_not)
{
    char reason[512];
    if (!isfinite(value)) {
        snprintf(reason, sizeof reason, "%.300s: %s", source, why_not);
        source = reason;
    }
    quantity_json_kv(w, key, quantity_make(value, unit, ORIGIN_MEASURED, source));
}

void measure_warmup_json(struct jw *w, const struct measure_warmup *m, const char *source)
{
    static const char *const names[] = {[WARMUP_COLD] = "cold", [WARMUP_FLAT] = "flat", [WARMUP_CAPPED] = "capped"};
    jw_object(w);
    jw_kv_uint(w, "runs", m->runs);
    jw_kv_string(w, "state", names[m->state]);
    jw_kv_uint(w, "window", m->policy.window);
    jw_kv_double(w, "flat_fraction", m->policy.flat_fraction);
    measured(w, "change", m->change, "1", source, m->runs < m->policy.window ? "no whole window ran" : NOT_A_TIME);
    measured(w, "total", m->total_ns, "ns", source, NOT_A_TIME);
    jw_object_end(w);
}

// How far from the median a sample may lie, given samples sorted by nothing in particular. More than half of the
// samples equal makes the MAD zero; then the mean absolute deviation stands in for it.
static double outlier_distance(const double *samples, size_t n, double median, double mad)
{
    double spread = mad;
    if (!(spread > 0)) {
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += fabs(samples[i] - median);
        spread = MEAN_DEVIATION_SCALE * sum / (double)n;
    }
    return OUTLIER_Z * spread;
}

int measure_summarize(struct measure_summary *s, const double *samples, size_t n, double confidence, bool *flags,
                      struct error *err)
{
    *s = (struct measure_summary){.n = n,
                                  .min = NAN,
                                  .p50 = NAN,
                                  .p90 = NAN,
                                  .mean = NAN,
                                  .mad = NAN,
                                  .p50_low = NAN,
                                  .p50_high = NAN,
                                  .confidence = confidence,
                                  .drift = NAN};
    for (size_t i = 0; i < n; i++) {
        s->not_finite += isfinite(samples[i]) ? 0 : 1;
        if (flags)
            flags[i] = false;
    }
    if (n == 0 || s->not_finite)
        return 0;
    double *scratch = calloc(n, sizeof *scratch);
    if (!scratch)
        return error_set(err, ERR_MEMORY, NULL, "no memory to sort %zu samples", n);
    s->min = stats_min(samples, n);
    s->mean = stats_mean(samples, n);
    s->p50 = stats_median(samples, n, scratch);
    s->p90 = stats_quantile(samples, n, 0.9, scratch); // leaves the samples sorted in scratch
    if (n >= 2) {
        size_t low, high;
        stats_median_interval(n, confidence, &low, &high, &s->coverage);
        s->p50_low = scratch[low];
        s->p50_high = scratch[high];
        s->mad = stats_mad(samples, n, scratch);
        double distance = outlier_distance(samples, n, s->p50, s->mad);
        for (size_t i = 0; i < n; i++) {
            bool out = fabs(samples[i] - s->p50) > distance;
            s->outliers += out;
            if (flags)
                flags[i] = out;
        }
    }
    if (n >= 3)
        s->drift = stats_slope(samples, n) * (double)n / s->p50;
    free(scratch);
    return 0;
}

void measure_summary_scale(struct measure_summary *s, double factor)
{
    double *const scaled[] = {&s->min, &s->p50, &s->p90, &s->mean, &s->mad, &s->p50_low, &s->p50_high};
    for (size_t i = 0; i < sizeof scaled / sizeof *scaled; i++)
        *scaled[i] *= factor;
}

void measure_summary_json(struct jw *w, const struct measure_summary *s, const char *unit, const char *source)
{
    char broken[96];
    const char *no_value = "there are no samples", *no_spread = "one sample has no spread";
    const char *no_drift = s->n < 3 ? "fewer than three samples have no drift" : "the median is zero";
    if (s->not_finite) {
        snprintf(broken, sizeof broken, "%zu of %zu samples %s not a number", s->not_finite, s->n,
                 s->not_finite == 1 ? "is" : "are");
        no_value = no_spread = no_drift = broken;
    } else if (s->n == 0) {
        no_spread = no_drift = no_value;
    }
    jw_object(w);
    jw_kv_uint(w, "n", s->n);
    jw_kv_uint(w, "not_finite", s->not_finite);
    measured(w, "min", s->min, unit, source, no_value);
    measured(w, "p50", s->p50, unit, source, no_value);
    measured(w, "p90", s->p90, unit, source, no_value);
    measured(w, "mean", s->mean, unit, source, no_value);
    measured(w, "mad", s->mad, unit, source, no_spread);
    measured(w, "p50_low", s->p50_low, unit, source, no_spread);
    measured(w, "p50_high", s->p50_high, unit, source, no_spread);
    jw_kv_double(w, "confidence", s->confidence);
    jw_kv_double(w, "coverage", s->coverage);
    jw_kv_uint(w, "outliers", s->outliers);
    measured(w, "drift", s->drift, "1", source, no_drift);
    jw_object_end(w);
}

// splitmix64 (Steele, Lea and Flood 2014).
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

size_t measure_schedule_period(size_t k)
{
    return k > 1 && k % 2 ? 2 * k : k;
}

// The first row of a Williams square is 0, 1, k-1, 2, k-2, ...: its neighbours differ by every non-zero residue mod k
// once when k is even, so that the k rows (each one more, mod k) hold every ordered pair of neighbours once. With k odd
// the square and its mirror image together hold each twice.
static size_t williams(size_t k, size_t row, size_t place)
{
    bool mirrored = k % 2 && row >= k;
    size_t i = mirrored ? k - 1 - place : place;
    size_t first = i % 2 ? (i + 1) / 2 : (k - i / 2) % k;
    return (first + row) % k;
}

int measure_schedule(uint32_t *order, size_t k, size_t rounds, uint64_t seed, struct error *err)
{
    size_t n;
    if (k == 0 || k > UINT32_MAX / 4 || !size_mul(k, rounds, &n))
        return error_set(err, ERR_USAGE, NULL, "%zu subjects in %zu rounds cannot be scheduled", k, rounds);
    if (rounds == 0)
        return 0;
    uint32_t *label = calloc(k, sizeof *label);
    if (!label)
        return error_set(err, ERR_MEMORY, NULL, "no memory to schedule %zu subjects", k);
    for (size_t i = 0; i < k; i++)
        label[i] = (uint32_t)i;
    for (size_t i = k - 1; i > 0; i--) {
        size_t j = (size_t)(next(&seed) % (i + 1));
        uint32_t held = label[i];
        label[i] = label[j];
        label[j] = held;
    }
    size_t period = measure_schedule_period(k);
    for (size_t r = 0; r < rounds; r++) {
        for (size_t i = 0; i < k; i++)
            order[r * k + i] = label[williams(k, r % period, i)];
    }
    free(label);
    return 0;
}

const char *measure_verdict_name(enum measure_verdict v)
{
    static const char *const names[] = {
        [VERDICT_SAME] = "same",
        [VERDICT_FASTER] = "faster",
        [VERDICT_SLOWER] = "slower",
        [VERDICT_AMBIGUOUS] = "AMBIGUOUS",
    };
    return names[v];
}

static void judge(struct measure_comparison *c)
{
    double edge = 1 + c->tolerance;
    if (c->low >= 1 / edge && c->high <= edge)
        c->verdict = VERDICT_SAME;
    else if (c->high < 1)
        c->verdict = VERDICT_FASTER;
    else if (c->low > 1)
        c->verdict = VERDICT_SLOWER;
    c->beyond_tolerance =
        (c->verdict == VERDICT_FASTER && c->high < 1 / edge) || (c->verdict == VERDICT_SLOWER && c->low > edge);
}

int measure_compare(struct measure_comparison *c, const double *baseline, const double *candidate, size_t n,
                    double tolerance, double confidence, struct error *err)
{
    *c = (struct measure_comparison){.pairs = n,
                                     .ratio = NAN,
                                     .low = NAN,
                                     .high = NAN,
                                     .confidence = confidence,
                                     .sign_p = NAN,
                                     .tolerance = tolerance,
                                     .verdict = VERDICT_AMBIGUOUS};
    if (n == 0)
        return 0;
    double *log_ratio = calloc(n, 2 * sizeof *log_ratio);
    if (!log_ratio)
        return error_set(err, ERR_MEMORY, NULL, "no memory to compare %zu pairs", n);
    double *scratch = log_ratio + n;
    for (size_t i = 0; i < n; i++) {
        bool valid = baseline[i] > 0 && candidate[i] > 0 && isfinite(baseline[i]) && isfinite(candidate[i]);
        c->invalid += !valid;
        log_ratio[i] = valid ? log(candidate[i] / baseline[i]) : NAN;
        c->faster += log_ratio[i] < 0;
        c->slower += log_ratio[i] > 0;
        c->ties += log_ratio[i] == 0;
    }
    if (c->invalid == 0) {
        size_t low, high;
        c->ratio = exp(stats_median(log_ratio, n, scratch)); // leaves them sorted in scratch
        c->sign_p = stats_sign_test(c->slower, c->faster);
        stats_median_interval(n, confidence, &low, &high, &c->coverage);
        if (n >= 2) {
            c->low = exp(scratch[low]);
            c->high = exp(scratch[high]);
        }
        if (c->coverage >= confidence)
            judge(c);
    }
    free(log_ratio);
    return 0;
}

void measure_comparison_json(struct jw *w, const struct measure_comparison *c, const char *source)
{
    char broken[96];
    const char *no_ratio = "there are no pairs", *no_interval = "one pair has no interval";
    if (c->invalid) {
        snprintf(broken, sizeof broken, "%zu of %zu pairs %s not two positive times", c->invalid, c->pairs,
                 c->invalid == 1 ? "is" : "are");
        no_ratio = no_interval = broken;
    } else if (c->pairs == 0) {
        no_interval = no_ratio;
    }
    jw_object(w);
    jw_kv_uint(w, "pairs", c->pairs);
    jw_kv_uint(w, "invalid", c->invalid);
    measured(w, "ratio", c->ratio, "1", source, no_ratio);
    measured(w, "low", c->low, "1", source, no_interval);
    measured(w, "high", c->high, "1", source, no_interval);
    jw_kv_double(w, "confidence", c->confidence);
    jw_kv_double(w, "coverage", c->coverage);
    jw_kv_uint(w, "faster", c->faster);
    jw_kv_uint(w, "slower", c->slower);
    jw_kv_uint(w, "ties", c->ties);
    measured(w, "sign_p", c->sign_p, "1", source, no_ratio);
    jw_kv_double(w, "tolerance", c->tolerance);
    jw_kv_string(w, "verdict", measure_verdict_name(c->verdict));
    jw_kv_bool(w, "beyond_tolerance", c->beyond_tolerance);
    jw_object_end(w);
}
