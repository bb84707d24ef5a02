// SPDX-License-Identifier: Apache-2.0
// The measurement core: when it is warm, what the samples say, in which order subjects run, and whether two differ.
// It knows nothing of programs and devices: numbers in, numbers out. Every sample counts; outliers are flagged, never
// dropped. docs/records.md gives the formulas.
#ifndef LAB_MEASURE_H
#define LAB_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"

// ---- Warm-up: runs go in one by one; it ends when a whole window is flat, or at a cap.
enum { MEASURE_WINDOW_MAX = 64 };
struct measure_warmup_policy {
    size_t window;        // runs in a window, 3..MEASURE_WINDOW_MAX
    double flat_fraction; // flat: |least-squares slope per run| * window <= flat_fraction * median of the window
    size_t max_runs;      // cap on runs; 0: no warm-up at all
    double max_ns;        // cap on the sum of the runs; INFINITY: none
};
// 8 runs, 5 %, at most 200 runs or 10 s.
struct measure_warmup_policy measure_warmup_default(void);

enum measure_warmth { WARMUP_COLD, WARMUP_FLAT, WARMUP_CAPPED };
struct measure_warmup {
    struct measure_warmup_policy policy;
    enum measure_warmth state; // go on while WARMUP_COLD
    size_t runs;               // fed so far, windows that were not flat included
    double total_ns;
    double change; // |slope| * window / median of the last whole window; NAN before the first
    size_t filled;
    double window[MEASURE_WINDOW_MAX];
};
void measure_warmup_init(struct measure_warmup *w, struct measure_warmup_policy policy);
enum measure_warmth measure_warmup_add(struct measure_warmup *w, double ns);
// {"runs": 16, "state": "flat" | "capped" | "cold", "change": quantity, "total": quantity}
void measure_warmup_json(struct jw *w, const struct measure_warmup *m, const char *source);

// ---- Summary of samples of one subject, in the samples' unit. Any NaN among them makes all statistics NaN.
struct measure_summary {
    size_t n, not_finite;
    double min, p50, p90, mean;
    double mad;               // times 1.4826; NAN for n < 2
    double p50_low, p50_high; // exact binomial interval of the median; NAN for n < 2
    double confidence;        // asked for
    double coverage;          // reached; below `confidence` when n is too small
    size_t outliers;          // |x - p50| > 3.5 robust standard deviations
    double drift;             // least-squares slope per sample * n / p50: relative change over the run; NAN for n < 3
};
// `flags`, when not NULL, gets n booleans: sample i is an outlier. ERR_MEMORY only.
int measure_summarize(struct measure_summary *s, const double *samples, size_t n, double confidence, bool *flags,
                      struct error *err);
// Multiplies everything that has the samples' unit (ns to ms: 1e-6).
void measure_summary_scale(struct measure_summary *s, double factor);
// One object; statistics are quantities of origin M with the given unit and source (the device).
void measure_summary_json(struct jw *w, const struct measure_summary *s, const char *unit, const char *source);

// ---- Order of k subjects in rounds: order[r * k + i] is the subject that runs i-th in round r. A Williams design with
// labels shuffled by `seed`: over `measure_schedule_period(k)` rounds every subject stands in every place, and follows
// every other, equally often. Two subjects give ABBA. ERR_USAGE for k == 0 or k * rounds too large.
size_t measure_schedule_period(size_t k); // k when even (or 1), 2k when odd
int measure_schedule(uint32_t *order, size_t k, size_t rounds, uint64_t seed, struct error *err);

// ---- Two subjects measured in the same rounds: is `candidate` faster than `baseline`?
enum measure_verdict {
    VERDICT_SAME,      // the interval of the ratio lies within 1/(1+tolerance)..1+tolerance
    VERDICT_FASTER,    // it lies below 1 (and not within the tolerance)
    VERDICT_SLOWER,    // it lies above 1 (and not within the tolerance)
    VERDICT_AMBIGUOUS, // it holds 1 and reaches beyond the tolerance; or there are too few pairs, or a pair that is not
                       // two positive numbers
};
const char *measure_verdict_name(enum measure_verdict v); // "same", "faster", "slower", "AMBIGUOUS"

struct measure_comparison {
    size_t pairs, invalid; // invalid: pairs that are not two positive numbers; one of them makes all NAN
    double ratio;          // exp(median of log(candidate / baseline)): below 1 is faster
    double low, high;      // its exact binomial interval
    double confidence, coverage;
    size_t faster, slower, ties;
    double sign_p; // two-sided sign test, ties left out
    double tolerance;
    enum measure_verdict verdict;
    bool beyond_tolerance; // the whole interval lies outside the tolerance, on the verdict's side
};
// baseline[i] and candidate[i] are times of round i. ERR_MEMORY only.
int measure_compare(struct measure_comparison *c, const double *baseline, const double *candidate, size_t n,
                    double tolerance, double confidence, struct error *err);
void measure_comparison_json(struct jw *w, const struct measure_comparison *c, const char *source);

#endif
