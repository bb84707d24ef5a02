// SPDX-License-Identifier: Apache-2.0
#include "num/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "num/quantize_internal.h"

struct calibration {
    struct quant_spec spec;
    char name[128];
    size_t batches, values, nonfinite;
    double low, high;
    // Counts of magnitudes below 2^exponent, in BINS equal bins; NULL where the extremes are enough. At first the
    // exponent is that of the smallest bin that still has a positive f32 width.
    uint64_t *bins[2]; // positive (and zero), negative
    int exponent;
};

struct calibration *calibration_new(const struct quant_spec *spec, const char *name, struct error *err)
{
    struct quant_layout l;
    int64_t one = 1;
    struct quant_spec flat = *spec;
    flat.channel_axis = -1;
    if (spec->granularity != QUANT_PER_TENSOR) {
        error_set(err, ERR_USAGE, name, "a calibrated range has one scale: per tensor");
        return NULL;
    }
    if (quant_layout(&flat, &one, 1, name, &l, err))
        return NULL;
    struct calibration *c = calloc(1, sizeof *c);
    bool counts = spec->from != QUANT_FROM_ABSMAX;
    for (int i = 0; i < 2 && counts && c; i++) {
        c->bins[i] = calloc(CALIBRATE_BINS, sizeof *c->bins[i]);
        if (!c->bins[i]) {
            calibration_free(c);
            c = NULL;
        }
    }
    if (!c) {
        error_set(err, ERR_MEMORY, name, "no memory to calibrate");
        return NULL;
    }
    c->spec = flat;
    snprintf(c->name, sizeof c->name, "%s", name ? name : "");
    c->low = INFINITY;
    c->high = -INFINITY;
    c->exponent = -126;
    return c;
}

void calibration_free(struct calibration *c)
{
    if (!c)
        return;
    free(c->bins[0]);
    free(c->bins[1]);
    free(c);
}

// Bins twice as wide, as often as it takes for `largest` to have one.
static void widen(struct calibration *c, double largest)
{
    int needed = ilogb(largest) + 1, shift = needed - c->exponent;
    if (largest == 0 || shift <= 0)
        return;
    c->exponent = needed;
    for (int sign = 0; sign < 2; sign++) {
        uint64_t *bins = c->bins[sign];
        for (size_t i = 0; i < CALIBRATE_BINS; i++) {
            uint64_t count = bins[i];
            bins[i] = 0;
            bins[shift < 63 ? i >> shift : 0] += count;
        }
    }
}

int calibration_add(struct calibration *c, const float *x, size_t n, struct error *err)
{
    struct quant_stats found = {0};
    int rc = quant_count_nonfinite(&c->spec, x, n, &found, c->name, err);
    if (rc)
        return rc;
    double low = c->low, high = c->high;
    for (size_t i = 0; i < n; i++) {
        if (isfinite(x[i])) {
            low = x[i] < low ? x[i] : low;
            high = x[i] > high ? x[i] : high;
        }
    }
    c->batches++;
    c->values += n;
    c->nonfinite += found.nonfinite;
    c->low = low;
    c->high = high;
    if (!c->bins[0] || low > high)
        return 0;
    widen(c, fmax(-low, high));
    double per_unit = ldexp(CALIBRATE_BINS, -c->exponent);
    for (size_t i = 0; i < n; i++) {
        if (isfinite(x[i]))
            c->bins[x[i] < 0][(size_t)(fabs((double)x[i]) * per_unit)]++;
    }
    return 0;
}

static double bin_edge(const struct calibration *c, size_t i)
{
    return ldexp((double)i, c->exponent) / CALIBRATE_BINS;
}

// The upper edge of the bin in which the share of the values counted by `total` is reached, going outwards.
static double outer_edge(const struct calibration *c, bool both, int sign, double share)
{
    uint64_t total = 0, seen = 0;
    for (size_t i = 0; i < CALIBRATE_BINS; i++)
        total += c->bins[0][i] + c->bins[1][i];
    if (!both) {
        // Values of the other sign lie inside of all of these.
        for (size_t i = 0; i < CALIBRATE_BINS; i++)
            seen += c->bins[!sign][i];
    }
    for (size_t i = 0; i < CALIBRATE_BINS; i++) {
        seen += both ? c->bins[0][i] + c->bins[1][i] : c->bins[sign][i];
        if ((double)seen >= share * (double)total)
            return bin_edge(c, i + 1);
    }
    return bin_edge(c, CALIBRATE_BINS);
}

static void percentile_range(const struct calibration *c, double *low, double *high)
{
    double share = c->spec.search.percentile / 100;
    double low_seen = fmin(c->low, 0), high_seen = fmax(c->high, 0);
    if (c->spec.mapping == QUANT_SYMMETRIC) {
        *high = fmin(outer_edge(c, true, 0, share), fmax(-low_seen, high_seen));
        *low = -*high;
        return;
    }
    *high = fmin(outer_edge(c, false, 0, share), high_seen);
    *low = fmax(-outer_edge(c, false, 1, share), low_seen);
}

static double histogram_error(const void *context, float scale, int32_t zero, double norm)
{
    const struct calibration *c = context;
    double sum = 0;
    for (int sign = 0; sign < 2; sign++) {
        for (size_t from = 0; from < CALIBRATE_BINS; from += QUANT_RUN) {
            struct quant_run run;
            float middle[QUANT_RUN];
            for (size_t j = 0; j < QUANT_RUN; j++) {
                double m = (bin_edge(c, from + j) + bin_edge(c, from + j + 1)) / 2;
                middle[j] = (float)(sign ? -m : m);
            }
            quant_encode_run(&c->spec, middle, QUANT_RUN, &scale, &zero, 0, &run);
            for (size_t j = 0; j < QUANT_RUN; j++) {
                uint64_t count = c->bins[sign][from + j];
                if (count)
                    sum += (double)count * pow(fabs((double)run.unit[j] * scale - middle[j]), norm);
            }
        }
    }
    return sum;
}

int calibration_finish(const struct calibration *c, struct calibration_result *out, struct error *err)
{
    *out = (struct calibration_result){
        .batches = c->batches, .values = c->values, .nonfinite = c->nonfinite, .low = c->low, .high = c->high};
    if (c->values == c->nonfinite)
        return error_set(err, ERR_INPUT, c->name, "%zu batch%s held no finite value: there is nothing to calibrate on",
                         c->batches, c->batches == 1 ? "" : "es");
    out->used_low = fmin(c->low, 0);
    out->used_high = fmax(c->high, 0);
    if (c->spec.from == QUANT_FROM_PERCENTILE)
        percentile_range(c, &out->used_low, &out->used_high);
    else if (c->spec.from == QUANT_FROM_ERROR)
        quant_search_range(&c->spec, histogram_error, c, &out->used_low, &out->used_high);
    struct quant_stats made = {0};
    quant_scale_of_range(&c->spec, out->used_low, out->used_high, &out->scale, &out->zero, &made);
    out->scale_raised = made.scales_raised != 0;
    out->scale_lowered = made.scales_lowered != 0;
    return 0;
}

int calibration_clip(const struct quant_spec *spec, float scale, int32_t zero, const float *x, size_t n,
                     struct calibration_clipping *counts, const char *name, struct error *err)
{
    if (!(scale > 0) || isinf(scale))
        return error_set(err, ERR_INPUT, name, "scale %g: a scale must be finite and above zero", (double)scale);
    struct quant_stats found = {0};
    int rc = quant_count_nonfinite(spec, x, n, &found, name, err);
    if (rc)
        return rc;
    counts->values += n;
    counts->nonfinite += found.nonfinite;
    struct quant_run run;
    for (size_t from = 0; from < n; from += QUANT_RUN) {
        size_t k = n - from < QUANT_RUN ? n - from : QUANT_RUN;
        quant_encode_run(spec, x + from, k, &scale, &zero, 0, &run);
        for (size_t j = 0; j < k; j++) {
            if (!run.clipped[j])
                continue;
            counts->clipped++;
            if (isfinite(x[from + j]))
                counts->beyond = fmax(counts->beyond, fabs((double)run.unit[j] * scale - x[from + j]));
        }
    }
    return 0;
}

void calibration_json(const struct calibration_result *r, struct jw *w)
{
    jw_object(w);
    jw_kv_uint(w, "batches", r->batches);
    jw_kv_uint(w, "values", r->values);
    jw_kv_uint(w, "nonfinite", r->nonfinite);
    jw_kv_double(w, "low", r->low);
    jw_kv_double(w, "high", r->high);
    jw_kv_double(w, "used_low", r->used_low);
    jw_kv_double(w, "used_high", r->used_high);
    jw_kv_double(w, "scale", (double)r->scale);
    jw_kv_int(w, "zero_point", r->zero);
    jw_object_end(w);
}

void calibration_clipping_json(const struct calibration_clipping *c, struct jw *w)
{
    jw_object(w);
    jw_kv_uint(w, "values", c->values);
    jw_kv_uint(w, "nonfinite", c->nonfinite);
    jw_kv_uint(w, "clipped", c->clipped);
    jw_kv_double(w, "clipped_share", c->values ? (double)c->clipped / (double)c->values : 0);
    jw_kv_double(w, "largest_beyond", c->beyond);
    jw_object_end(w);
}
