// SPDX-License-Identifier: Apache-2.0
// What quantised weights can do to a product, and what they did.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "num/quantize_internal.h"

// Per weight, in the order of w: its error, and scale * half step, both in f64.
static int weight_errors(const struct quant_spec *spec, const int64_t dims[2], const struct quant_layout *l,
                         const float *w, const void *codes, const float *scales, const int32_t *zeros, double *delta,
                         double *half, const char *name, struct error *err)
{
    float *unit = malloc(l->elements * sizeof *unit);
    if (!unit)
        return error_set(err, ERR_MEMORY, name, "no memory for %zu weights", l->elements);
    struct quant_walk walk;
    quant_walk_init(&walk, spec, dims, 2, l->elements);
    quant_load_codes(spec->type, codes, 0, l->elements, unit);
    bool is_float = dtype_is_float(spec->type);
    double bound = quant_bound_in_scales(spec), slack = spec->reciprocal ? 0x1p-22 : 0x1p-23;
    for (size_t row = 0, at = 0; row < walk.rows; row++) {
        size_t scale, channel;
        quant_walk_row(&walk, row, &scale, &channel);
        for (size_t from = 0; from < walk.columns; scale++) {
            size_t n = quant_segment(&walk, from);
            for (size_t j = 0; j < n; j++, at++) {
                size_t s = scale + walk.scale_step * j;
                double u = unit[at] - (l->has_zeros ? (double)zeros[s] : 0);
                delta[at] = u * scales[s] - w[at];
                half[at] = scales[s] * (is_float ? quant_half_step(spec->type, u) + fabs(u) * slack : bound);
            }
            from += n;
        }
    }
    free(unit);
    return 0;
}

int quant_output_bound(const struct quant_spec *spec, const int64_t dims[2], int input_axis, const float *w,
                       const void *codes, const float *scales, const int32_t *zeros, const float *x, size_t rows,
                       struct quant_output *out, double *errors, double *bounds, double *half_step_bounds,
                       const char *name, struct error *err)
{
    *out = (struct quant_output){.holds = true, .half_step_holds = true};
    struct quant_layout l;
    int rc = quant_layout(spec, dims, 2, name, &l, err);
    if (rc)
        return rc;
    if (input_axis != 0 && input_axis != 1)
        return error_set(err, ERR_USAGE, name, "contraction axis %d of a matrix", input_axis);
    double *delta = calloc(l.elements, sizeof *delta), *half = calloc(l.elements, sizeof *half);
    if (!delta || !half)
        rc = error_set(err, ERR_MEMORY, name, "no memory for the errors of %zu weights", l.elements);
    if (!rc)
        rc = weight_errors(spec, dims, &l, w, codes, scales, zeros, delta, half, name, err);
    size_t inputs = (size_t)dims[input_axis], outputs = (size_t)dims[1 - input_axis];
    size_t input_step = input_axis ? 1 : outputs, output_step = input_axis ? inputs : 1;
    for (size_t at = 0; at < rows * outputs && !rc; at++) {
        double error = 0, bound = 0, half_bound = 0;
        for (size_t i = 0; i < inputs; i++) {
            size_t k = i * input_step + at % outputs * output_step;
            double v = x[at / outputs * inputs + i];
            error += v * delta[k];
            bound += fabs(v) * fabs(delta[k]);
            half_bound += fabs(v) * half[k];
        }
        error = fabs(error);
        // The sums are rounded differently: in exact arithmetic the bound is never passed, and may be attained.
        double rounding = (double)inputs * 0x1p-52;
        out->holds &= error <= bound * (1 + rounding);
        out->half_step_holds &= error <= half_bound * (1 + rounding);
        out->max_error = fmax(out->max_error, error);
        out->max_bound = fmax(out->max_bound, bound);
        out->max_half_step_bound = fmax(out->max_half_step_bound, half_bound);
        if (errors)
            errors[at] = error;
        if (bounds)
            bounds[at] = bound;
        if (half_step_bounds)
            half_step_bounds[at] = half_bound;
    }
    free(delta);
    free(half);
    return rc;
}
