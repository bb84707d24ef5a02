// SPDX-License-Identifier: Apache-2.0
#include "num/quantize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "num/quantize_internal.h"
#include "num/quantize_kernels.h"

const struct format *quant_element_format(enum dtype type)
{
    const struct format *f = format_of(type);
    return f && !format_is_integer(f) && f->bits <= 8 && f->is_signed ? f : NULL;
}

static bool is_signed(enum dtype type)
{
    return dtype_info(type)->kind == DTK_SIGNED;
}

int quant_qmax(enum dtype type)
{
    if (!dtype_is_integer(type) || dtype_bits(type) > 16)
        return 0;
    return (1 << (dtype_bits(type) - is_signed(type))) - 1;
}

void quant_code_limits(const struct quant_spec *spec, double *lowest, double *highest)
{
    const struct format *f = quant_element_format(spec->type);
    *highest = f ? format_max(f) : quant_qmax(spec->type);
    bool narrow = spec->range == QUANT_NARROW;
    if (f)
        *lowest = -*highest;
    else if (is_signed(spec->type))
        *lowest = narrow ? -*highest : -*highest - 1;
    else
        *lowest = narrow ? 1 : 0;
}

double quant_bound_in_scales(const struct quant_spec *spec)
{
    double lowest, highest;
    quant_code_limits(spec, &lowest, &highest);
    // |code - z| of what is not clipped; before it is rounded, half a scale more.
    double reach = -lowest;
    if (spec->mapping == QUANT_AFFINE)
        reach = highest - lowest;
    else if (!is_signed(spec->type))
        reach = ldexp(1, dtype_bits(spec->type) - 1);
    double roundings = (spec->reciprocal ? 2 : 1) * (reach + 0.5);
    if (spec->zero_order == QUANT_ZERO_BEFORE_ROUNDING)
        roundings += fmax(fabs(lowest), fabs(highest)) + 0.5;
    return 0.5 + roundings * 0x1p-24;
}

double quant_half_step(enum dtype type, double value)
{
    const struct format *f = quant_element_format(type);
    if (!f)
        return 0.5;
    int exponent = ilogb(format_min_normal(f));
    if (value != 0 && isfinite(value) && ilogb(value) > exponent)
        exponent = ilogb(value);
    return ldexp(0.5, exponent - f->mantissa_bits);
}

int quant_check_shape(const int64_t *dims, int rank, const char *name, size_t *elements, struct error *err)
{
    if (rank < 0 || rank > QUANT_MAX_RANK)
        return error_set(err, ERR_USAGE, name, "rank %d: only ranks 0 to %d can be quantised", rank, QUANT_MAX_RANK);
    size_t bytes;
    if (!size_product(dims, rank, elements) || !size_mul(*elements, sizeof(float), &bytes))
        return error_set(err, ERR_USAGE, name, "the shape is negative or too large");
    if (*elements == 0)
        return error_set(err, ERR_USAGE, name, "is empty: there is nothing to quantise");
    return 0;
}

static int check_type(const struct quant_spec *spec, const char *name, struct error *err)
{
    const struct format *f = quant_element_format(spec->type);
    if (!quant_qmax(spec->type) && !f)
        return error_set(
            err, ERR_USAGE, name,
            "%s is not a target of quantisation (s2, s4, s8, s16, u2, u4, u8, u16, signed floats of 4, 6 and 8 "
            "bits)",
            dtype_name(spec->type));
    if (f && (spec->mapping != QUANT_SYMMETRIC || spec->divisor != QUANT_BY_QMAX))
        return error_set(err, ERR_USAGE, name, "%s has neither zero points nor half a code: it is symmetric, amax / %g",
                         dtype_name(spec->type), format_max(f));
    if (f && spec->rounding != QUANT_HALF_EVEN)
        return error_set(err, ERR_USAGE, name, "%s rounds ties to even only", dtype_name(spec->type));
    if (spec->nonfinite == QUANT_KEEP && (!f || f->nan == FORMAT_NAN_NONE))
        return error_set(err, ERR_USAGE, name, "%s has no code for NaN or infinity: refuse or saturate them",
                         dtype_name(spec->type));
    switch (spec->scale_type) {
    case DT_INVALID:
    case DT_F32:
    case DT_F16:
    case DT_BF16:
    case DT_F8E8M0FNU:
    case DT_F8E4M3FN:
        return 0;
    default:
        return error_set(err, ERR_USAGE, name, "%s is not a type of scales (f32, f16, bf16, f8e8m0fnu, f8e4m3fn)",
                         dtype_name(spec->scale_type));
    }
}

static int check_search(const struct quant_spec *spec, const char *name, struct error *err)
{
    const struct quant_search *s = &spec->search;
    if (spec->from == QUANT_FROM_PERCENTILE && !(s->percentile > 50 && s->percentile <= 100))
        return error_set(err, ERR_USAGE, name, "percentile %g: it must lie above 50, and 100 is the largest",
                         s->percentile);
    if (spec->from == QUANT_FROM_ERROR && (s->steps < 0 || s->steps > 100000 || !(s->max_shrink >= 0) ||
                                           s->max_shrink >= 1 || !(s->norm >= 0) || s->norm > 16 || s->patience < 0))
        return error_set(err, ERR_USAGE, name,
                         "search of %d steps down to a share of %g with norm %g: steps are at most 100000, the shrink "
                         "lies in [0, 1), the norm in (0, 16]",
                         s->steps, 1 - s->max_shrink, s->norm);
    return 0;
}

int64_t quant_box(const struct quant_spec *spec, int axis, int64_t length)
{
    switch (spec->granularity) {
    case QUANT_PER_CHANNEL:
        return axis == spec->channel_axis ? 1 : length;
    case QUANT_PER_GROUP:
        return axis == spec->group_axis ? spec->group : 1;
    case QUANT_PER_BLOCK:
        return spec->block[axis] ? spec->block[axis] : length;
    default:
        return length;
    }
}

// Groups and blocks: that they fit the shape, and the shape of the scales.
static int lay_boxes(const struct quant_spec *spec, const int64_t *dims, int rank, const char *name,
                     struct quant_layout *out, struct error *err)
{
    bool groups = spec->granularity == QUANT_PER_GROUP;
    if (groups && (spec->group_axis < 0 || spec->group_axis >= rank))
        return error_set(err, ERR_USAGE, name, "group axis %d of a tensor of rank %d", spec->group_axis, rank);
    out->scale_rank = rank;
    for (int d = 0; d < rank; d++) {
        int64_t box = quant_box(spec, d, dims[d]);
        if (box < 1 || (dims[d] % box && !spec->short_last))
            return error_set(err, ERR_USAGE, name,
                             "%s of %lld do not divide the %lld elements of axis %d: choose a divisor, or declare that "
                             "the last one may be shorter",
                             groups ? "groups" : "blocks", (long long)box, (long long)dims[d], d);
        out->scale_dims[d] = (dims[d] - 1) / box + 1;
    }
    return 0;
}

int quant_layout(const struct quant_spec *spec, const int64_t *dims, int rank, const char *name,
                 struct quant_layout *out, struct error *err)
{
    memset(out, 0, sizeof *out);
    int rc = check_type(spec, name, err);
    if (!rc)
        rc = check_search(spec, name, err);
    if (!rc)
        rc = quant_check_shape(dims, rank, name, &out->elements, err);
    if (rc)
        return rc;
    int channel = spec->channel_axis;
    if (channel < -1 || channel >= rank)
        return error_set(err, ERR_USAGE, name, "channel axis %d of a tensor of rank %d", channel, rank);
    switch (spec->granularity) {
    case QUANT_PER_TENSOR:
        break;
    case QUANT_PER_CHANNEL:
        if (channel < 0)
            return error_set(err, ERR_USAGE, name, "scales per channel need a channel axis");
        out->scale_rank = 1;
        out->scale_dims[0] = dims[channel];
        break;
    case QUANT_PER_GROUP:
    case QUANT_PER_BLOCK:
        rc = lay_boxes(spec, dims, rank, name, out, err);
        if (rc)
            return rc;
        break;
    default:
        return error_set(err, ERR_USAGE, name, "granularity %d is not known", (int)spec->granularity);
    }
    // At most `elements`, so this cannot overflow where check_shape passed.
    size_product(out->scale_dims, out->scale_rank, &out->scale_count);
    out->scale_bytes = out->scale_count * sizeof(float);
    dtype_bytes(spec->scale_type ? spec->scale_type : DT_F32, out->scale_count, &out->stored_scale_bytes);
    dtype_bytes(spec->type, out->elements, &out->code_bytes);
    out->code_size = dtype_bits(spec->type) > 8 ? 2 : 1;
    out->has_zeros = spec->mapping == QUANT_AFFINE || dtype_info(spec->type)->kind == DTK_UNSIGNED;
    return 0;
}

void quant_walk_init(struct quant_walk *w, const struct quant_spec *spec, const int64_t *dims, int rank,
                     size_t elements)
{
    memset(w, 0, sizeof *w);
    w->rank = rank ? rank : 1;
    w->dims[0] = 1;
    memcpy(w->dims, dims, (size_t)rank * sizeof *dims);
    int last = w->rank - 1;
    size_t stride = 1;
    for (int d = last; d >= 0; d--) {
        // A scalar has one box whatever the granularity.
        w->box[d] = rank ? quant_box(spec, d, w->dims[d]) : 1;
        w->count[d] = (w->dims[d] - 1) / w->box[d] + 1;
        w->stride[d] = stride;
        stride *= (size_t)w->count[d];
    }
    w->channel_axis = spec->channel_axis;
    w->columns = (size_t)w->dims[last];
    w->rows = elements / w->columns;
    w->scale_step = w->box[last] == 1 && w->columns > 1;
    w->segment = w->scale_step || w->box[last] > w->dims[last] ? w->columns : (size_t)w->box[last];
    w->channel_step = w->channel_axis == last;
    w->channels = w->channel_axis < 0 || !rank ? 1 : (size_t)w->dims[w->channel_axis];
}

void quant_walk_row(const struct quant_walk *w, size_t row, size_t *scale, size_t *channel)
{
    *scale = *channel = 0;
    for (int d = w->rank - 2; d >= 0; d--) {
        size_t n = (size_t)w->dims[d], i = row % n;
        row /= n;
        *scale += i / (size_t)w->box[d] * w->stride[d];
        if (d == w->channel_axis)
            *channel = i;
    }
}

int quant_check_scales(const struct quant_spec *spec, const struct quant_layout *l, const float *scales,
                       const int32_t *zeros, const char *name, struct error *err)
{
    double lowest, highest;
    quant_code_limits(spec, &lowest, &highest);
    for (size_t i = 0; i < l->scale_count; i++) {
        if (!(scales[i] > 0) || isinf(scales[i]))
            return error_set(err, ERR_INPUT, name, "scale %zu is %g: a scale must be finite and above zero", i,
                             (double)scales[i]);
        if (l->has_zeros && !zeros)
            return error_set(err, ERR_INTERNAL, name, "%s codes need zero points", dtype_name(spec->type));
        if (l->has_zeros && (zeros[i] < lowest || zeros[i] > highest))
            return error_set(err, ERR_INPUT, name, "zero point %zu is %d: it must be a code, %g to %g", i,
                             (int)zeros[i], lowest, highest);
    }
    return 0;
}

int quantize_codes(const struct quant_spec *spec, const int64_t *dims, int rank, const float *x, const float *scales,
                   const int32_t *zeros, void *codes, struct quant_stats *stats, const char *name, struct error *err)
{
    struct quant_layout l;
    memset(stats, 0, sizeof *stats);
    int rc = quant_layout(spec, dims, rank, name, &l, err);
    if (!rc)
        rc = quant_count_nonfinite(spec, x, l.elements, stats, name, err);
    if (!rc)
        rc = quant_check_scales(spec, &l, scales, zeros, name, err);
    if (rc)
        return rc;
    struct quant_walk w;
    quant_walk_init(&w, spec, dims, rank, l.elements);
    return quant_encode_tensor(spec, &w, &l, quant_kernels(), x, scales, l.has_zeros ? zeros : NULL, codes, stats, name,
                               err);
}

// The counts that come with scales go to *stats, which is zero.
static int make_scales(const struct quant_spec *spec, const struct quant_walk *w, const struct quant_layout *l,
                       const float *x, float *scales, int32_t *zeros, struct quant_stats *stats, const char *name,
                       struct error *err)
{
    if (l->has_zeros && !zeros)
        return error_set(err, ERR_INTERNAL, name, "%s codes need zero points", dtype_name(spec->type));
    int rc = quant_count_nonfinite(spec, x, l->elements, stats, name, err);
    return rc ? rc : quant_find_scales(spec, w, l, quant_kernels(), x, scales, zeros, stats, name, err);
}

int quantize_scales(const struct quant_spec *spec, const int64_t *dims, int rank, const float *x, float *scales,
                    int32_t *zeros, struct quant_stats *stats, const char *name, struct error *err)
{
    struct quant_layout l;
    struct quant_stats ignored = {0};
    stats = stats ? stats : &ignored;
    memset(stats, 0, sizeof *stats);
    int rc = quant_layout(spec, dims, rank, name, &l, err);
    if (rc)
        return rc;
    struct quant_walk w;
    quant_walk_init(&w, spec, dims, rank, l.elements);
    return make_scales(spec, &w, &l, x, scales, zeros, stats, name, err);
}

int quantize(const struct quant_spec *spec, const int64_t *dims, int rank, const float *x, void *codes, float *scales,
             int32_t *zeros, struct quant_stats *stats, const char *name, struct error *err)
{
    struct quant_layout l;
    memset(stats, 0, sizeof *stats);
    int rc = quant_layout(spec, dims, rank, name, &l, err);
    if (rc)
        return rc;
    struct quant_walk w;
    quant_walk_init(&w, spec, dims, rank, l.elements);
    rc = make_scales(spec, &w, &l, x, scales, zeros, stats, name, err);
    if (rc)
        return rc;
    zeros = l.has_zeros ? zeros : NULL;
    return quant_encode_tensor(spec, &w, &l, quant_kernels(), x, scales, zeros, codes, stats, name, err);
}

int dequantize(const struct quant_spec *spec, const int64_t *dims, int rank, const void *codes, const float *scales,
               const int32_t *zeros, float *x, const char *name, struct error *err)
{
    struct quant_layout l;
    int rc = quant_layout(spec, dims, rank, name, &l, err);
    if (!rc)
        rc = quant_check_scales(spec, &l, scales, zeros, name, err);
    if (rc)
        return rc;
    struct quant_walk w;
    quant_walk_init(&w, spec, dims, rank, l.elements);
    quant_decode_tensor(spec, &w, quant_kernels(), codes, scales, l.has_zeros ? zeros : NULL, x);
    return 0;
}
