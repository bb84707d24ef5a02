// SPDX-License-Identifier: Apache-2.0
#include "num/quantize.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "num/convert.h"
#include "num/quantize_internal.h"

// A float type that values can be quantised to with scales. Its bits are what quant_half_step needs.
struct element_float {
    enum dtype type;
    int mantissa, min_exponent;
    double max;
};

static const struct element_float element_floats[] = {
    {DT_F8E4M3FN, 3, -6, 448},
    {DT_F8E5M2, 2, -14, 57344},
};

static const struct element_float *element_float(enum dtype type)
{
    for (size_t i = 0; i < sizeof element_floats / sizeof *element_floats; i++) {
        if (element_floats[i].type == type)
            return &element_floats[i];
    }
    return NULL;
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
    const struct element_float *f = element_float(spec->type);
    *highest = f ? f->max : quant_qmax(spec->type);
    bool narrow = spec->range == QUANT_NARROW;
    if (f)
        *lowest = -f->max;
    else if (is_signed(spec->type))
        *lowest = narrow ? -*highest : -*highest - 1;
    else
        *lowest = narrow ? 1 : 0;
}

double quant_bound_in_scales(const struct quant_spec *spec)
{
    double lowest, highest;
    quant_code_limits(spec, &lowest, &highest);
    // |code - z| of what is not clipped, and half a scale more before rounding.
    double reach = -lowest;
    if (spec->mapping == QUANT_AFFINE)
        reach = highest - lowest;
    else if (!is_signed(spec->type))
        reach = ldexp(1, dtype_bits(spec->type) - 1);
    double roundings = (spec->reciprocal ? 2 : 1) * reach;
    if (spec->zero_order == QUANT_ZERO_BEFORE_ROUNDING)
        roundings += fmax(fabs(lowest), fabs(highest));
    return 0.5 + roundings * 0x1p-24;
}

double quant_half_step(enum dtype type, double value)
{
    const struct element_float *f = element_float(type);
    if (!f)
        return 0.5;
    int exponent = f->min_exponent;
    if (value != 0 && isfinite(value) && ilogb(value) > exponent)
        exponent = ilogb(value);
    return ldexp(0.5, exponent - f->mantissa);
}

static int check_shape(const int64_t *dims, int rank, const char *name, size_t *elements, struct error *err)
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
    bool is_float = element_float(spec->type) != NULL;
    if (!quant_qmax(spec->type) && !is_float)
        return error_set(err, ERR_USAGE, name,
                         "%s is not a target of quantisation (s2, s4, s8, s16, u2, u4, u8, u16, f8e4m3fn, f8e5m2)",
                         dtype_name(spec->type));
    if (is_float && (spec->mapping != QUANT_SYMMETRIC || spec->divisor != QUANT_BY_QMAX))
        return error_set(err, ERR_USAGE, name, "%s has neither zero points nor half a code: it is symmetric, amax / %g",
                         dtype_name(spec->type), element_float(spec->type)->max);
    if (is_float && spec->rounding != QUANT_HALF_EVEN)
        return error_set(err, ERR_USAGE, name, "%s rounds ties to even only", dtype_name(spec->type));
    if (!is_float && spec->nonfinite == QUANT_KEEP)
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
        rc = check_shape(dims, rank, name, &out->elements, err);
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

int quant_count_nonfinite(const struct quant_spec *spec, const float *x, size_t n, struct quant_stats *stats,
                          const char *name, struct error *err)
{
    size_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t b;
        memcpy(&b, &x[i], sizeof b);
        bad += (b & 0x7fffffffu) >= 0x7f800000u;
    }
    stats->nonfinite = bad;
    stats->nan = 0;
    if (!bad)
        return 0;
    size_t first = n;
    for (size_t i = n; i-- > 0;) {
        stats->nan += x[i] != x[i];
        if (!isfinite(x[i]))
            first = i;
    }
    if (spec->nonfinite != QUANT_REFUSE)
        return 0;
    return error_set(err, ERR_INPUT, name,
                     "%zu of %zu values are not finite, the first at index %zu: no scale can hold them", bad, n, first);
}

// Nearest integer for |v| < 2^22: ties to even since the sum has no room for a fraction.
static inline float round_even(float v)
{
    return (v + 12582912.0f) - 12582912.0f;
}

static inline float round_away(float v)
{
    return (float)trunc((double)v + copysign(0.5, v));
}

static void encode_integers(const struct quant_spec *spec, const float *x, size_t n, const float *scales,
                            const int32_t *zeros, size_t step, struct quant_run *run)
{
    double lowest, highest;
    quant_code_limits(spec, &lowest, &highest);
    float low = (float)lowest, high = (float)highest;
    bool before = spec->zero_order == QUANT_ZERO_BEFORE_ROUNDING, away = spec->rounding == QUANT_HALF_AWAY;
    for (size_t j = 0; j < n; j++) {
        float s = scales[j * step], z = zeros ? (float)zeros[j * step] : 0;
        float q = spec->reciprocal ? x[j] * (1 / s) : x[j] / s;
        q = q == q ? q : 0;
        float add = before ? 0 : z;
        q = before ? q + z : q;
        // One code beyond the ends is where "clipped" is seen, and far enough inside what round_even can do.
        q = q > high - add + 1 ? high - add + 1 : q;
        q = q < low - add - 1 ? low - add - 1 : q;
        q = (away ? round_away(q) : round_even(q)) + add;
        float code = q > high ? high : q < low ? low : q;
        run->clipped[j] = code != q;
        run->codes[j] = code;
        run->unit[j] = code - z;
    }
}

// Not one of the pairs below can be refused: quant_layout let only convertible types through.
static void encode_floats(const struct quant_spec *spec, const float *x, size_t n, const float *scales, size_t step,
                          struct quant_run *run)
{
    float max = (float)element_float(spec->type)->max;
    float q[QUANT_RUN] = {0}, held[QUANT_RUN] = {0}, as_is[QUANT_RUN];
    uint8_t raw[QUANT_RUN];
    for (size_t j = 0; j < n; j++) {
        float s = scales[j * step];
        q[j] = spec->reciprocal ? x[j] * (1 / s) : x[j] / s;
        held[j] = q[j] > max ? max : q[j] < -max ? -max : q[j] == q[j] ? q[j] : 0;
    }
    convert_elements(spec->type, raw, DT_F32, q, n, NULL);
    convert_elements(DT_F32, as_is, spec->type, raw, n, NULL);
    convert_elements(spec->type, run->bytes, DT_F32, held, n, NULL);
    convert_elements(DT_F32, run->unit, spec->type, run->bytes, n, NULL);
    for (size_t j = 0; j < n; j++) {
        bool keep = spec->nonfinite == QUANT_KEEP && !isfinite(x[j]);
        run->clipped[j] = !keep && x[j] == x[j] && !isfinite(as_is[j]);
        run->bytes[j] = keep ? raw[j] : run->bytes[j];
        run->unit[j] = keep ? as_is[j] : run->unit[j];
    }
}

void quant_encode_run(const struct quant_spec *spec, const float *x, size_t n, const float *scales,
                      const int32_t *zeros, size_t step, struct quant_run *run)
{
    if (element_float(spec->type))
        encode_floats(spec, x, n, scales, step, run);
    else
        encode_integers(spec, x, n, scales, zeros, step, run);
}

static void store_codes(const struct quant_spec *spec, const struct quant_run *run, size_t n, void *codes, size_t at)
{
    if (element_float(spec->type)) {
        memcpy((uint8_t *)codes + at, run->bytes, n);
    } else if (dtype_bits(spec->type) > 8) {
        uint16_t *to = (uint16_t *)codes + at;
        for (size_t j = 0; j < n; j++)
            to[j] = (uint16_t)(int32_t)run->codes[j];
    } else {
        uint8_t *to = (uint8_t *)codes + at;
        for (size_t j = 0; j < n; j++)
            to[j] = (uint8_t)(int32_t)run->codes[j];
    }
}

void quant_load_codes(enum dtype type, const void *codes, size_t at, size_t n, float *out)
{
    if (element_float(type)) {
        convert_elements(DT_F32, out, type, (const uint8_t *)codes + at, n, NULL);
    } else if (dtype_bits(type) > 8) {
        convert_elements(DT_F32, out, is_signed(type) ? DT_S16 : DT_U16, (const uint16_t *)codes + at, n, NULL);
    } else {
        convert_elements(DT_F32, out, is_signed(type) ? DT_S8 : DT_U8, (const uint8_t *)codes + at, n, NULL);
    }
}

// Per channel: squared error and squared norm.
struct norms {
    double error2, reference2;
};

static void finish_norms(const struct norms *per_channel, size_t channels, struct quant_stats *stats)
{
    double error2 = 0, reference2 = 0;
    stats->worst_channel_rel_l2 = NAN;
    for (size_t c = 0; c < channels; c++) {
        error2 += per_channel[c].error2;
        reference2 += per_channel[c].reference2;
        if (per_channel[c].reference2 == 0)
            continue;
        double r = sqrt(per_channel[c].error2 / per_channel[c].reference2);
        if (!(r <= stats->worst_channel_rel_l2)) {
            stats->worst_channel = c;
            stats->worst_channel_rel_l2 = r;
        }
    }
    stats->rel_l2 = reference2 > 0 ? sqrt(error2 / reference2) : NAN;
}

struct accounts {
    const struct quant_spec *spec;
    bool is_float;
    double slack; // float types: of the f32 arithmetic, relative
    double bound; // integer types
    struct norms *channels;
    size_t clipped, flushed;
    double max_abs, max_in_scales;
    bool beyond; // some element that was not clipped is off by more than the bound
};

static void account(struct accounts *a, float x, float scale, float unit, bool clipped, struct norms *n)
{
    a->clipped += clipped;
    if (!isfinite(x))
        return;
    double e = (double)unit * scale - x; // exact but for the last subtraction
    double size = fabs(e);
    n->error2 += e * e;
    n->reference2 += (double)x * x;
    a->flushed += x != 0 && unit == 0;
    a->max_abs = size > a->max_abs ? size : a->max_abs;
    if (clipped)
        return;
    double in_scales = size / scale;
    a->max_in_scales = in_scales > a->max_in_scales ? in_scales : a->max_in_scales;
    double bound = a->is_float ? quant_half_step(a->spec->type, unit) + fabs(unit) * a->slack : a->bound;
    a->beyond |= in_scales > bound;
}

static void account_run(struct accounts *a, const struct quant_walk *w, const float *x, size_t n, const float *scales,
                        const struct quant_run *run, struct norms *channels)
{
    if (w->channel_step) {
        for (size_t j = 0; j < n; j++)
            account(a, x[j], scales[w->scale_step * j], run->unit[j], run->clipped[j], &channels[j]);
        return;
    }
    struct norms sum = {0};
    for (size_t j = 0; j < n; j++)
        account(a, x[j], scales[w->scale_step * j], run->unit[j], run->clipped[j], &sum);
    channels->error2 += sum.error2;
    channels->reference2 += sum.reference2;
}

static void encode_row(struct accounts *a, const struct quant_walk *w, size_t row, const float *x, const float *scales,
                       const int32_t *zeros, void *codes)
{
    struct quant_run run;
    size_t scale, channel;
    quant_walk_row(w, row, &scale, &channel);
    for (size_t from = 0; from < w->columns; scale++) {
        size_t end = from + quant_segment(w, from);
        for (size_t first = from; from < end;) {
            size_t n = end - from < QUANT_RUN ? end - from : QUANT_RUN, at = row * w->columns + from;
            size_t s = scale + w->scale_step * (from - first);
            quant_encode_run(a->spec, x + at, n, scales + s, zeros ? zeros + s : NULL, w->scale_step, &run);
            store_codes(a->spec, &run, n, codes, at);
            account_run(a, w, x + at, n, scales + s, &run, a->channels + channel + w->channel_step * from);
            from += n;
        }
    }
}

// stats->nonfinite, nan and the counts of scales are set already and stay.
static int encode_all(const struct quant_spec *spec, const struct quant_walk *w, const struct quant_layout *l,
                      const float *x, const float *scales, const int32_t *zeros, void *codes, struct quant_stats *stats,
                      const char *name, struct error *err)
{
    struct accounts a = {
        .spec = spec,
        .is_float = element_float(spec->type) != NULL,
        .slack = spec->reciprocal ? 0x1p-22 : 0x1p-23,
        .bound = quant_bound_in_scales(spec),
        .channels = calloc(w->channels, sizeof *a.channels),
    };
    if (!a.channels)
        return error_set(err, ERR_MEMORY, name, "no memory for the statistics of %zu channels", w->channels);
    for (size_t row = 0; row < w->rows; row++)
        encode_row(&a, w, row, x, scales, zeros, codes);
    stats->elements = l->elements;
    stats->clipped = a.clipped;
    stats->flushed = a.flushed;
    stats->scale_min = stats->scale_max = NAN;
    for (size_t i = 0; i < l->scale_count; i++) {
        double s = scales[i];
        stats->scale_min = s >= stats->scale_min ? stats->scale_min : s;
        stats->scale_max = s <= stats->scale_max ? stats->scale_max : s;
    }
    finish_norms(a.channels, w->channels, stats);
    free(a.channels);
    stats->max_abs_error = a.max_abs;
    double max = a.is_float ? element_float(spec->type)->max : 0;
    stats->bound_in_scales = a.is_float ? quant_half_step(spec->type, max) + max * a.slack : a.bound;
    stats->max_error_in_scales = a.max_in_scales;
    stats->bound_holds = !a.beyond;
    return 0;
}

static int check_scales(const struct quant_spec *spec, const struct quant_layout *l, const float *scales,
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
        rc = check_scales(spec, &l, scales, zeros, name, err);
    if (rc)
        return rc;
    struct quant_walk w;
    quant_walk_init(&w, spec, dims, rank, l.elements);
    return encode_all(spec, &w, &l, x, scales, l.has_zeros ? zeros : NULL, codes, stats, name, err);
}

// The counts that come with scales go to *stats, which is zero.
static int make_scales(const struct quant_spec *spec, const struct quant_walk *w, const struct quant_layout *l,
                       const float *x, float *scales, int32_t *zeros, struct quant_stats *stats, const char *name,
                       struct error *err)
{
    if (l->has_zeros && !zeros)
        return error_set(err, ERR_INTERNAL, name, "%s codes need zero points", dtype_name(spec->type));
    int rc = quant_count_nonfinite(spec, x, l->elements, stats, name, err);
    return rc ? rc : quant_find_scales(spec, w, l, x, scales, zeros, stats, name, err);
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
    return rc ? rc : encode_all(spec, &w, &l, x, scales, l.has_zeros ? zeros : NULL, codes, stats, name, err);
}

int dequantize(const struct quant_spec *spec, const int64_t *dims, int rank, const void *codes, const float *scales,
               const int32_t *zeros, float *x, const char *name, struct error *err)
{
    struct quant_layout l;
    int rc = quant_layout(spec, dims, rank, name, &l, err);
    if (!rc)
        rc = check_scales(spec, &l, scales, zeros, name, err);
    if (rc)
        return rc;
    if (!l.has_zeros)
        zeros = NULL;
    struct quant_walk w;
    quant_walk_init(&w, spec, dims, rank, l.elements);
    quant_load_codes(spec->type, codes, 0, l.elements, x);
    for (size_t row = 0; row < w.rows; row++, x += w.columns) {
        size_t scale, channel;
        quant_walk_row(&w, row, &scale, &channel);
        for (size_t from = 0; from < w.columns; scale++) {
            size_t n = quant_segment(&w, from);
            for (size_t j = 0; j < n; j++) {
                size_t s = scale + w.scale_step * j;
                x[from + j] = (x[from + j] - (zeros ? (float)zeros[s] : 0)) * scales[s];
            }
            from += n;
        }
    }
    return 0;
}

int quantize_float(enum dtype type, const int64_t *dims, int rank, int channel_axis, const float *x, void *out,
                   struct quant_stats *stats, const char *name, struct error *err)
{
    memset(stats, 0, sizeof *stats);
    size_t elements;
    int rc = check_shape(dims, rank, name, &elements, err);
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
    struct norms *channels = calloc(w.channels, sizeof *channels);
    if (!channels)
        return error_set(err, ERR_MEMORY, name, "no memory for the statistics of %zu channels", w.channels);
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
                struct norms *c = &channels[channel + w.channel_step * (from + j)];
                c->error2 += e * e;
                c->reference2 += v * v;
            }
            from += n;
        }
    }
    finish_norms(channels, w.channels, stats);
    free(channels);
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
