// SPDX-License-Identifier: Apache-2.0
#include "num/affine.h"

#include <math.h>

#include "num/quantize.h"

void affine_limits(enum dtype type, int32_t *lowest, int32_t *highest)
{
    double low, high;
    quant_code_limits(&(struct quant_spec){.type = type, .range = QUANT_FULL}, &low, &high);
    *lowest = (int32_t)low;
    *highest = (int32_t)high;
}

static int check_scale(double scale, const char *name, struct error *err)
{
    if (!(scale > 0) || isinf(scale))
        return error_set(err, ERR_INPUT, name, "scale %g: a scale must be finite and above zero", scale);
    return 0;
}

int affine_grid_init(struct affine_grid *g, enum dtype type, double scale, double zero, const char *name,
                     struct error *err)
{
    if (!quant_qmax(type))
        return error_set(err, ERR_USAGE, name, "%s has no affine codes", dtype_name(type));
    int rc = check_scale(scale, name, err);
    if (rc)
        return rc;
    int32_t lowest, highest;
    affine_limits(type, &lowest, &highest);
    if (!(zero >= lowest && zero <= highest) || zero != floor(zero))
        return error_set(err, ERR_INPUT, name, "zero point %g: it must be an integer from %d to %d, a code of %s", zero,
                         (int)lowest, (int)highest, dtype_name(type));
    *g = (struct affine_grid){.type = type, .scale = scale, .zero = (int32_t)zero};
    return 0;
}

int affine_widen(enum dtype type, const void *codes, size_t n, int32_t *out, struct error *err)
{
    if (!quant_qmax(type))
        return error_set(err, ERR_USAGE, NULL, "%s has no affine codes", dtype_name(type));
    bool is_signed = dtype_info(type)->kind == DTK_SIGNED;
    for (size_t i = 0; i < n; i++) {
        if (dtype_bits(type) > 8)
            out[i] = is_signed ? ((const int16_t *)codes)[i] : ((const uint16_t *)codes)[i];
        else
            out[i] = is_signed ? ((const int8_t *)codes)[i] : ((const uint8_t *)codes)[i];
    }
    return 0;
}

// Clipped to the codes of the grid; NaN becomes the lowest and counts as clipped.
static int32_t clip(const struct affine_grid *g, double code, bool *clipped)
{
    int32_t lowest, highest;
    affine_limits(g->type, &lowest, &highest);
    *clipped = !(code >= lowest && code <= highest);
    return (int32_t)fmin(fmax(code, lowest), highest);
}

size_t affine_to_grid(const struct affine_grid *g, const double *x, size_t n, int32_t *codes, double *restored,
                      bool *clipped)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        bool out;
        codes[i] = clip(g, rint(x[i] / g->scale) + g->zero, &out);
        count += out;
        if (clipped)
            clipped[i] = out;
    }
    if (restored)
        affine_from_grid(g, codes, n, restored);
    return count;
}

void affine_from_grid(const struct affine_grid *g, const int32_t *codes, size_t n, double *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = g->scale * ((double)codes[i] - g->zero);
}

size_t affine_safe_inputs(int32_t largest_x, int32_t largest_w)
{
    int64_t product = (int64_t)largest_x * largest_w;
    product = product < 0 ? -product : product;
    return product ? (size_t)(INT32_MAX / product) : SIZE_MAX;
}

// One output, exact; false when it does not fit 64 bits.
static bool dot(const struct affine_product *p, size_t r, size_t j, int64_t *sum)
{
    int64_t zero = p->w_zeros ? p->w_zeros[j] : 0;
    bool fits = true;
    *sum = p->bias ? p->bias[j] : 0;
    for (size_t i = 0; i < p->inputs; i++) {
        int64_t a = (int64_t)p->x[r * p->inputs + i] - p->x_zero, b = (int64_t)p->w[i * p->outputs + j] - zero, product;
        fits &= !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(*sum, product, sum);
    }
    return fits;
}

int affine_dot_wide(const struct affine_product *p, int64_t *wide, const char *name, struct error *err)
{
    for (size_t at = 0; at < p->rows * p->outputs; at++) {
        if (!dot(p, at / p->outputs, at % p->outputs, &wide[at]))
            return error_set(err, ERR_INPUT, name, "output %zu of row %zu: the sum does not fit 64 bits",
                             at % p->outputs, at / p->outputs);
    }
    return 0;
}

int affine_dot(const struct affine_product *p, int32_t *acc, const char *name, struct error *err)
{
    for (size_t at = 0; at < p->rows * p->outputs; at++) {
        int64_t sum;
        if (!dot(p, at / p->outputs, at % p->outputs, &sum))
            return error_set(err, ERR_INPUT, name, "output %zu of row %zu: the sum does not fit 64 bits",
                             at % p->outputs, at / p->outputs);
        if (sum < INT32_MIN || sum > INT32_MAX)
            return error_set(err, ERR_INPUT, name,
                             "output %zu of row %zu: the sum is %lld, which does not fit an int32 accumulator: split "
                             "the contraction",
                             at % p->outputs, at / p->outputs, (long long)sum);
        acc[at] = (int32_t)sum;
    }
    return 0;
}

int affine_bias(const double *bias, size_t n, double x_scale, const double *w_scales, int64_t *codes,
                double *largest_error, const char *name, struct error *err)
{
    double largest = 0;
    for (size_t j = 0; j < n; j++) {
        double unit = x_scale * w_scales[j];
        int rc = check_scale(unit, name, err);
        if (rc)
            return rc;
        double code = rint(bias[j] / unit);
        if (!(code >= INT32_MIN && code <= INT32_MAX))
            return error_set(err, ERR_INPUT, name,
                             "bias %zu is %g, which is %g accumulator units of %g: it does not fit int32", j, bias[j],
                             code, unit);
        codes[j] = (int64_t)code;
        largest = fmax(largest, fabs(code * unit - bias[j]));
    }
    if (largest_error)
        *largest_error = largest;
    return 0;
}

const char *affine_rule_name(enum affine_rule rule)
{
    static const char *const names[] = {"f64-half-even", "f32-half-even", "fixed-double-rounding",
                                        "fixed-single-rounding"};
    return names[rule];
}

int affine_multiplier(double m, int32_t *q, int *shift, const char *name, struct error *err)
{
    int rc = check_scale(m, name, err);
    if (rc)
        return rc;
    double fraction = round(frexp(m, shift) * 0x1p31);
    if (fraction == 0x1p31) {
        fraction /= 2;
        ++*shift;
    }
    if (*shift > 31)
        return error_set(err, ERR_INPUT, name, "multiplier %g: it must be below 2^31", m);
    if (*shift < -31) {
        fraction = 0;
        *shift = 0;
    }
    *q = (int32_t)fraction;
    return 0;
}

static int32_t saturate(int64_t v)
{
    return (int32_t)(v < INT32_MIN ? INT32_MIN : v > INT32_MAX ? INT32_MAX : v);
}

static int32_t double_rounding(int32_t acc, int32_t q, int shift)
{
    // Shifted left by at most 31 the product has 94 bits.
    __int128 product = (__int128)acc * q * ((__int128)1 << (shift > 0 ? shift : 0));
    // Division truncates: half away from zero.
    __int128 wide = (product + (product >= 0 ? (1 << 30) : 1 - (1 << 30))) / ((__int128)1 << 31);
    int64_t high = (int64_t)(wide < INT32_MIN ? INT32_MIN : wide > INT32_MAX ? INT32_MAX : wide);
    if (shift >= 0)
        return saturate(high);
    int64_t mask = ((int64_t)1 << -shift) - 1, threshold = (mask >> 1) + (high < 0);
    return (int32_t)((high >> -shift) + ((high & mask) > threshold));
}

static int32_t single_rounding(int32_t acc, int32_t q, int shift)
{
    int total = 31 - shift;
    int64_t product = (int64_t)acc * q;
    return total ? saturate((product + ((int64_t)1 << (total - 1))) >> total) : saturate(product);
}

int affine_rescale(enum affine_rule rule, int32_t acc, double m, int32_t *out, const char *name, struct error *err)
{
    int32_t q;
    int shift, rc = affine_multiplier(m, &q, &shift, name, err);
    if (rc)
        return rc;
    switch (rule) {
    case AFFINE_F64:
        *out = (int32_t)fmin(fmax(rint(acc * m), INT32_MIN), INT32_MAX);
        return 0;
    case AFFINE_F32:
        *out = (int32_t)fmin(fmax(rintf((float)acc * (float)m), INT32_MIN), INT32_MAX);
        return 0;
    case AFFINE_DOUBLE_ROUNDING:
        *out = double_rounding(acc, q, shift);
        return 0;
    default:
        *out = single_rounding(acc, q, shift);
        return 0;
    }
}

int affine_requantise(enum affine_rule rule, const int32_t *acc, size_t rows, size_t outputs, double x_scale,
                      const double *w_scales, const struct affine_grid *y, int32_t *codes, double *restored,
                      bool *clipped, const char *name, struct error *err)
{
    for (size_t at = 0; at < rows * outputs; at++) {
        double m = x_scale * w_scales[at % outputs] / y->scale;
        int32_t rescaled;
        int rc = affine_rescale(rule, acc[at], m, &rescaled, name, err);
        if (rc)
            return rc;
        bool out;
        codes[at] = clip(y, (double)rescaled + y->zero, &out);
        if (clipped)
            clipped[at] = out;
    }
    if (restored)
        affine_from_grid(y, codes, rows * outputs, restored);
    return 0;
}
