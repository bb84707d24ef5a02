// SPDX-License-Identifier: Apache-2.0
// Scales: the range that a box needs, the scale and zero point that follow from it, and the types scales are stored in.
// Scales are made in one f32 division (amax / qmax), or from hi - lo in f64 where that could overflow f32, and are then
// rounded to their type.
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "num/quantize_internal.h"
#include "num/quantize_kernels.h"

// Positive numbers of a type in order of their codes. Scales are never below `smallest`.
struct scale_type {
    enum dtype type;
    float smallest, largest;
};

static const struct scale_type scale_types[] = {
    {DT_F32, FLT_MIN, FLT_MAX},        {DT_F16, 0x1p-24f, 65504},   {DT_BF16, FLT_MIN, 0x1.fep127f},
    {DT_F8E8M0FNU, FLT_MIN, 0x1p127f}, {DT_F8E4M3FN, 0x1p-9f, 448},
};

static const struct scale_type *scale_type(const struct quant_spec *spec)
{
    for (size_t i = 1; i < sizeof scale_types / sizeof *scale_types; i++) {
        if (scale_types[i].type == spec->scale_type)
            return &scale_types[i];
    }
    return &scale_types[0];
}

// v lies in [smallest, largest]: to nearest, ties to the even significand (that of f8e8m0fnu has one bit: a tie goes
// up).
static uint64_t scale_code(const struct scale_type *t, float v)
{
    static const struct format_cast nearest = {.rounding = FORMAT_NEAREST_EVEN};
    return t->type == DT_F32 ? f32_bits(v) : format_encode(format_of(t->type), v, &nearest, NULL);
}

static float scale_value(const struct scale_type *t, uint64_t code)
{
    return t->type == DT_F32 ? f32_of_bits((uint32_t)code) : (float)format_decode(format_of(t->type), code);
}

static float store_scale(const struct quant_spec *spec, float s, struct quant_stats *stats)
{
    const struct scale_type *t = scale_type(spec);
    if (s < t->smallest) {
        stats->scales_raised++;
        return t->smallest;
    }
    if (s > t->largest) {
        stats->scales_lowered++;
        return t->largest;
    }
    uint64_t code = scale_code(t, s);
    if (spec->scale_up && scale_value(t, code) < s)
        code++;
    return scale_value(t, code);
}

void quant_scale_of_range(const struct quant_spec *spec, double low, double high, float *scale, int32_t *zero,
                          struct quant_stats *stats)
{
    struct quant_stats ignored = {0};
    stats = stats ? stats : &ignored;
    bool is_unsigned = dtype_info(spec->type)->kind == DTK_UNSIGNED;
    double lowest, highest;
    quant_code_limits(spec, &lowest, &highest);
    low = fmin(low, 0);
    high = fmax(high, 0);
    *scale = 1;
    *zero = (int32_t)fmax(lowest, 0); // 0 need not be a code: the narrow range of unsigned types begins at 1
    if (is_unsigned && spec->mapping == QUANT_SYMMETRIC)
        *zero = (int32_t)1 << (dtype_bits(spec->type) - 1);
    if (low == 0 && high == 0)
        return;
    if (spec->mapping == QUANT_AFFINE) {
        *scale = store_scale(spec, (float)((high - low) / (highest - lowest)), stats);
        // Half even, as rint: the rounding of codes does not enter here.
        double z = rint(lowest - low / *scale);
        *zero = (int32_t)fmin(fmax(z, lowest), highest);
        return;
    }
    double divisor = is_unsigned ? (1 << (dtype_bits(spec->type) - 1)) - 1 : highest;
    if (spec->divisor == QUANT_BY_HALF_RANGE)
        divisor += 0.5;
    *scale = store_scale(spec, (float)fmax(-low, high) / (float)divisor, stats);
}

int quant_count_nonfinite(const struct quant_spec *spec, const float *x, size_t n, struct quant_stats *stats,
                          const char *name, struct error *err)
{
    stats->nonfinite = stats->nan = 0;
    if (quant_kernels()->absmax(x, n) < 0x7f800000u)
        return 0;
    size_t first = n;
    for (size_t i = n; i-- > 0;) {
        stats->nan += x[i] != x[i];
        stats->nonfinite += isfinite(x[i]) ? 0 : 1;
        first = isfinite(x[i]) ? first : i;
    }
    if (spec->nonfinite != QUANT_REFUSE)
        return 0;
    return error_set(err, ERR_INPUT, name,
                     "%zu of %zu values are not finite, the first at index %zu: no scale can hold them",
                     stats->nonfinite, n, first);
}

// Bit patterns of non-negative floats order as their values, with infinity and NaN above all.
static inline uint32_t magnitude(float v)
{
    uint32_t b = f32_bits(v) & 0x7fffffffu;
    return b < 0x7f800000u ? b : 0;
}

static void max_magnitudes(const struct quant_walk *w, const float *x, uint32_t *amax)
{
    for (size_t row = 0; row < w->rows; row++, x += w->columns) {
        size_t scale, channel;
        quant_walk_row(w, row, &scale, &channel);
        if (w->scale_step) {
            for (size_t j = 0; j < w->columns; j++) {
                uint32_t b = magnitude(x[j]);
                amax[scale + j] = b > amax[scale + j] ? b : amax[scale + j];
            }
            continue;
        }
        for (size_t from = 0; from < w->columns; scale++) {
            size_t end = from + quant_segment(w, from);
            uint32_t m = amax[scale];
            for (; from < end; from++) {
                uint32_t b = magnitude(x[from]);
                m = b > m ? b : m;
            }
            amax[scale] = m;
        }
    }
}

// low and high begin as 0: a range always holds it.
static void min_max(const struct quant_walk *w, const float *x, float *low, float *high)
{
    for (size_t row = 0; row < w->rows; row++, x += w->columns) {
        size_t scale, channel;
        quant_walk_row(w, row, &scale, &channel);
        for (size_t from = 0; from < w->columns; scale++) {
            size_t n = quant_segment(w, from);
            for (size_t j = 0; j < n; j++) {
                size_t s = scale + w->scale_step * j;
                float v = isfinite(x[from + j]) ? x[from + j] : 0;
                low[s] = v < low[s] ? v : low[s];
                high[s] = v > high[s] ? v : high[s];
            }
            from += n;
        }
    }
}

// The same two, where all values are finite.
static void max_magnitudes_fast(const struct quant_walk *w, const struct quant_kernels *k, const float *x,
                                uint32_t *amax)
{
    for (size_t row = 0; row < w->rows; row++, x += w->columns) {
        size_t scale, channel;
        quant_walk_row(w, row, &scale, &channel);
        if (w->scale_step) {
            k->absmax_columns(x, w->columns, amax + scale);
            continue;
        }
        for (size_t from = 0; from < w->columns; scale++) {
            size_t n = quant_segment(w, from);
            uint32_t m = k->absmax(x + from, n);
            amax[scale] = m > amax[scale] ? m : amax[scale];
            from += n;
        }
    }
}

static void min_max_fast(const struct quant_walk *w, const struct quant_kernels *k, const float *x, float *low,
                         float *high)
{
    for (size_t row = 0; row < w->rows; row++, x += w->columns) {
        size_t scale, channel;
        quant_walk_row(w, row, &scale, &channel);
        for (size_t from = 0; from < w->columns; scale++) {
            size_t n = quant_segment(w, from);
            struct quant_extent e = k->extent(x + from, n);
            low[scale] = e.min < low[scale] ? e.min : low[scale];
            high[scale] = e.max > high[scale] ? e.max : high[scale];
            from += n;
        }
    }
}

static int scales_of_extremes(const struct quant_spec *spec, const struct quant_walk *w, const struct quant_layout *l,
                              const struct quant_kernels *kernels, const float *x, float *scales, int32_t *zeros,
                              struct quant_stats *stats, const char *name, struct error *err)
{
    bool affine = spec->mapping == QUANT_AFFINE;
    float *low = calloc(l->scale_count, sizeof *low);
    float *high = affine ? calloc(l->scale_count, sizeof *high) : NULL;
    int rc = 0;
    if (!low || (affine && !high)) {
        rc = error_set(err, ERR_MEMORY, name, "no memory for %zu scales", l->scale_count);
    } else if (affine && kernels && !w->scale_step) {
        min_max_fast(w, kernels, x, low, high);
    } else if (affine) {
        min_max(w, x, low, high);
    } else {
        uint32_t *amax = (uint32_t *)(void *)low;
        if (kernels)
            max_magnitudes_fast(w, kernels, x, amax);
        else
            max_magnitudes(w, x, amax);
        for (size_t i = 0; i < l->scale_count; i++)
            low[i] = -f32_of_bits(amax[i]);
    }
    for (size_t i = 0; i < l->scale_count && !rc; i++) {
        int32_t zero;
        quant_scale_of_range(spec, low[i], high ? high[i] : 0, &scales[i], &zero, stats);
        if (zeros)
            zeros[i] = zero;
    }
    free(low);
    free(high);
    return rc;
}

// The finite values of the box with this index, in `out`; returns how many. Their order is of no consequence.
static size_t gather_box(const struct quant_walk *w, size_t index, const float *x, float *out)
{
    size_t length[QUANT_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1}, step[QUANT_MAX_RANK] = {0};
    size_t first = 0, boxes = 1, elements = w->rows * w->columns, n = 0;
    for (int d = 0; d < w->rank; d++) {
        size_t extent = (size_t)w->dims[d], box = (size_t)w->box[d];
        size_t from = index / w->stride[d] % (size_t)w->count[d] * box;
        length[d] = extent - from < box ? extent - from : box;
        elements /= extent;
        step[d] = elements;
        first += from * elements;
        boxes *= length[d];
    }
    for (size_t i = 0; i < boxes; i++) {
        size_t at = first, rest = i;
        for (int d = 0; d < w->rank; d++) {
            at += rest % length[d] * step[d];
            rest /= length[d];
        }
        out[n] = x[at];
        n += isfinite(out[n]) != 0;
    }
    return n;
}

// The value of this rank in order; values before it are then at most as large, values after it at least (Hoare's
// selection, with the middle of three as the pivot).
static float select_rank(float *v, size_t n, size_t rank)
{
    size_t low = 0, high = n - 1;
    while (low < high) {
        float a = v[low], b = v[low + (high - low) / 2], c = v[high];
        float pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
        size_t i = low, j = high;
        for (;;) {
            while (v[i] < pivot)
                i++;
            while (v[j] > pivot)
                j--;
            if (i >= j)
                break;
            float t = v[i];
            v[i++] = v[j];
            v[j--] = t;
        }
        if (rank <= j)
            high = j;
        else
            low = j + 1;
    }
    return v[rank];
}

// Linear interpolation between neighbours in order, as numpy's default: from the nearer end. Reorders the values.
static double quantile(float *values, size_t n, double share)
{
    double at = share * (double)(n - 1), whole = floor(at), t = at - whole;
    size_t rank = (size_t)whole;
    double a = select_rank(values, n, rank), b = a;
    if (rank + 1 < n) {
        float next = values[rank + 1];
        for (size_t i = rank + 2; i < n; i++)
            next = values[i] < next ? values[i] : next;
        b = next;
    }
    return t < 0.5 ? a + (b - a) * t : b - (b - a) * (1 - t);
}

static void percentile_range(const struct quant_spec *spec, float *values, size_t n, double *low, double *high)
{
    bool affine = spec->mapping == QUANT_AFFINE;
    for (size_t i = 0; i < n && !affine; i++)
        values[i] = fabsf(values[i]);
    *high = quantile(values, n, spec->search.percentile / 100);
    *low = affine ? quantile(values, n, 1 - spec->search.percentile / 100) : -*high;
}

void quant_search_range(const struct quant_spec *spec, quant_error_fn *error, const void *context, double *low,
                        double *high)
{
    const struct quant_search *s = &spec->search;
    int steps = s->steps ? s->steps : 100;
    double shrink = s->max_shrink > 0 ? s->max_shrink : 0.2, norm = s->norm > 0 ? s->norm : 2;
    double whole_low = *low, whole_high = *high, least = INFINITY;
    int since = 0;
    for (int i = 0; i == 0 || i < shrink * steps; i++) {
        double share = 1 - (double)i / steps;
        float scale;
        int32_t zero;
        quant_scale_of_range(spec, whole_low * share, whole_high * share, &scale, &zero, NULL);
        double e = error(context, scale, zero, norm);
        since++;
        if (e < least) {
            least = e;
            *low = whole_low * share;
            *high = whole_high * share;
            since = 0;
        }
        if (s->patience && since >= s->patience)
            break;
    }
}

struct box {
    const struct quant_spec *spec;
    const float *values;
    size_t n;
};

static double box_error(const void *context, float scale, int32_t zero, double norm)
{
    const struct box *b = context;
    double sum = 0;
    struct quant_run run;
    for (size_t from = 0; from < b->n; from += QUANT_RUN) {
        size_t k = b->n - from < QUANT_RUN ? b->n - from : QUANT_RUN;
        quant_encode_run(b->spec, b->values + from, k, &scale, &zero, 0, &run);
        for (size_t j = 0; j < k; j++) {
            double e = fabs((double)run.unit[j] * scale - b->values[from + j]);
            sum += norm == 2 ? e * e : pow(e, norm);
        }
    }
    return sum;
}

static void least_error_range(const struct quant_spec *spec, const float *values, size_t n, double *low, double *high)
{
    for (size_t i = 0; i < n; i++) {
        *low = fmin(*low, values[i]);
        *high = fmax(*high, values[i]);
    }
    quant_search_range(spec, box_error, &(struct box){spec, values, n}, low, high);
}

static int scales_of_search(const struct quant_spec *spec, const struct quant_walk *w, const struct quant_layout *l,
                            const float *x, float *scales, int32_t *zeros, struct quant_stats *stats, const char *name,
                            struct error *err)
{
    size_t box = 1;
    for (int d = 0; d < w->rank; d++)
        box *= (size_t)(w->box[d] < w->dims[d] ? w->box[d] : w->dims[d]);
    float *values = malloc(box * sizeof *values);
    if (!values)
        return error_set(err, ERR_MEMORY, name, "no memory to search the range of %zu values", box);
    for (size_t i = 0; i < l->scale_count; i++) {
        double low = 0, high = 0;
        size_t n = gather_box(w, i, x, values);
        if (n && spec->from == QUANT_FROM_PERCENTILE)
            percentile_range(spec, values, n, &low, &high);
        else if (n)
            least_error_range(spec, values, n, &low, &high);
        int32_t zero;
        quant_scale_of_range(spec, low, high, &scales[i], &zero, stats);
        if (zeros)
            zeros[i] = zero;
    }
    free(values);
    return 0;
}

int quant_find_scales(const struct quant_spec *spec, const struct quant_walk *w, const struct quant_layout *l,
                      const struct quant_kernels *kernels, const float *x, float *scales, int32_t *zeros,
                      struct quant_stats *stats, const char *name, struct error *err)
{
    stats->scales_raised = stats->scales_lowered = 0;
    if (stats->nonfinite)
        kernels = NULL; // which do not leave out what is not finite
    return spec->from == QUANT_FROM_ABSMAX ? scales_of_extremes(spec, w, l, kernels, x, scales, zeros, stats, name, err)
                                           : scales_of_search(spec, w, l, x, scales, zeros, stats, name, err);
}

int quant_store_scales(const struct quant_spec *spec, const float *scales, size_t n, void *out, const char *name,
                       struct error *err)
{
    const struct scale_type *t = scale_type(spec);
    size_t size = (size_t)dtype_bits(t->type) / 8;
    for (size_t i = 0; i < n; i++) {
        bool inside = scales[i] >= t->smallest && scales[i] <= t->largest;
        uint64_t code = inside ? scale_code(t, scales[i]) : 0;
        if (!inside || scale_value(t, code) != scales[i])
            return error_set(err, ERR_INPUT, name, "scale %zu is %.9g, which is not a scale in %s", i,
                             (double)scales[i], dtype_name(t->type));
        memcpy((uint8_t *)out + i * size, &code, size); // little-endian
    }
    return 0;
}

int quant_load_scales(const struct quant_spec *spec, const void *stored, size_t n, float *scales, const char *name,
                      struct error *err)
{
    const struct scale_type *t = scale_type(spec);
    size_t size = (size_t)dtype_bits(t->type) / 8;
    for (size_t i = 0; i < n; i++) {
        uint64_t code = 0;
        memcpy(&code, (const uint8_t *)stored + i * size, size);
        scales[i] = scale_value(t, code);
        if (!(scales[i] > 0) || isinf(scales[i]))
            return error_set(err, ERR_INPUT, name, "scale %zu is %g: a scale must be finite and above zero", i,
                             (double)scales[i]);
    }
    return 0;
}
