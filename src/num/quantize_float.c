// SPDX-License-Identifier: Apache-2.0
// Narrowing to a float type without scales.
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "num/convert.h"
#include "num/quantize_internal.h"

int quantize_float(enum dtype type, const int64_t *dims, int rank, int channel_axis, const float *x, void *out,
                   struct quant_stats *stats, const char *name, struct error *err)
{
    memset(stats, 0, sizeof *stats);
    size_t elements;
    int rc = quant_check_shape(dims, rank, name, &elements, err);
    if (rc)
        return rc;
    if (!dtype_is_float(type) || dtype_bits(type) < 8)
        return error_set(err, ERR_USAGE, name, "%s is not a float type that values can be narrowed to",
                         dtype_name(type));
    if (channel_axis < -1 || channel_axis >= rank)
        return error_set(err, ERR_USAGE, name, "channel axis %d of a tensor of rank %d", channel_axis, rank);
    struct quant_spec spec = {.granularity = QUANT_PER_TENSOR, .channel_axis = channel_axis};
    struct quant_walk w;
    quant_walk_init(&w, &spec, dims, rank, elements);
    double *error2 = calloc(w.channels, 2 * sizeof *error2);
    if (!error2)
        return error_set(err, ERR_MEMORY, name, "no memory for the statistics of %zu channels", w.channels);
    double *reference2 = error2 + w.channels;
    stats->elements = elements;
    size_t size = (size_t)dtype_bits(type) / 8;
    for (size_t row = 0; row < w.rows; row++) {
        size_t scale, channel;
        quant_walk_row(&w, row, &scale, &channel);
        for (size_t from = 0; from < w.columns;) {
            size_t at = row * w.columns + from, n = w.columns - from < 512 ? w.columns - from : 512;
            double back[512];
            uint8_t *to = (uint8_t *)out + at * size;
            // Both pairs are possible: checked above, and every float type has a way to f64.
            convert_elements(type, to, DT_F32, x + at, n, err);
            convert_elements(DT_F64, back, type, to, n, err);
            for (size_t j = 0; j < n; j++) {
                double v = x[at + j];
                if (!isfinite(v)) {
                    stats->nonfinite++;
                    stats->nan += v != v;
                    continue;
                }
                double e = back[j] - v;
                if (!isfinite(back[j])) {
                    stats->overflowed++;
                    e = INFINITY;
                }
                stats->flushed += v != 0 && back[j] == 0;
                stats->max_abs_error = fmax(stats->max_abs_error, fabs(e));
                size_t c = channel + w.channel_step * (from + j);
                error2[c] += e * e;
                reference2[c] += v * v;
            }
            from += n;
        }
    }
    quant_finish_norms(error2, reference2, w.channels, stats);
    free(error2);
    stats->scale_min = stats->scale_max = stats->bound_in_scales = stats->max_error_in_scales = NAN;
    return 0;
}

int quant_narrow_f64(const double *x, size_t n, enum quant_nonfinite nonfinite, float *out, size_t *beyond,
                     const char *name, struct error *err)
{
    *beyond = 0;
    size_t first = n;
    for (size_t i = 0; i < n; i++) {
        out[i] = (float)x[i];
        if (!isinf(out[i]) || isinf(x[i]))
            continue;
        first = (*beyond)++ ? first : i;
        if (nonfinite == QUANT_SATURATE)
            out[i] = (float)copysign(FLT_MAX, x[i]);
    }
    if (!*beyond || nonfinite != QUANT_REFUSE)
        return 0;
    return error_set(err, ERR_INPUT, name,
                     "%zu of %zu f64 values are beyond the largest f32, the first, %g, at index %zu: saturate them, or "
                     "scale the tensor",
                     *beyond, n, x[first], first);
}
