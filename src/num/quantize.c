// SPDX-License-Identifier: Apache-2.0
#include "num/quantize.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "num/convert.h"

int quant_qmax(enum dtype type)
{
    return type == DT_S8 ? 127 : type == DT_S4 ? 7 : 0;
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

int quant_layout(const struct quant_spec *spec, const int64_t *dims, int rank, const char *name,
                 struct quant_layout *out, struct error *err)
{
    memset(out, 0, sizeof *out);
    if (!quant_qmax(spec->type))
        return error_set(err, ERR_USAGE, name, "%s is not a target of integer quantisation (s8, s4)",
                         dtype_name(spec->type));
    int rc = check_shape(dims, rank, name, &out->elements, err);
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
    case QUANT_PER_GROUP: {
        int axis = spec->group_axis;
        if (axis < 0 || axis >= rank)
            return error_set(err, ERR_USAGE, name, "group axis %d of a tensor of rank %d", axis, rank);
        if (spec->group < 1 || dims[axis] % spec->group)
            return error_set(err, ERR_USAGE, name,
                             "groups of %lld do not divide the %lld elements of axis %d: choose a divisor",
                             (long long)spec->group, (long long)dims[axis], axis);
        out->scale_rank = rank;
        memcpy(out->scale_dims, dims, (size_t)rank * sizeof *dims);
        out->scale_dims[axis] = dims[axis] / spec->group;
        break;
    }
    default:
        return error_set(err, ERR_USAGE, name, "granularity %d is not known", (int)spec->granularity);
    }
    // At most `elements`, so this cannot overflow where check_shape passed.
    size_product(out->scale_dims, out->scale_rank, &out->scale_count);
    out->scale_bytes = out->scale_count * sizeof(float);
    dtype_bytes(spec->type, out->elements, &out->code_bytes);
    return 0;
}

// The tensor is walked along its last axis, in segments that meet their scales in one of two ways: all elements of a
// segment share a scale (step 0), or each has the next one (step 1). The same holds for the channels of the statistics.
struct walk {
    int rank; // at least 1: a scalar is one row of one element
    int64_t dims[QUANT_MAX_RANK];
    size_t stride[QUANT_MAX_RANK]; // of the scales, per axis; 0 where they do not vary
    int channel_axis, group_axis;
    int64_t group;
    size_t rows, columns; // all axes but the last, and the last
    size_t segment;       // elements per segment
    size_t scale_step;    // 0 or 1
    size_t channel_step;
    size_t channels;
};

static void walk_init(struct walk *w, const struct quant_spec *spec, const int64_t *dims, int rank, size_t elements)
{
    memset(w, 0, sizeof *w);
    w->rank = rank ? rank : 1;
    if (rank)
        memcpy(w->dims, dims, (size_t)rank * sizeof *dims);
    else
        w->dims[0] = 1;
    w->channel_axis = spec->channel_axis;
    w->group_axis = -1;
    int last = w->rank - 1;
    w->columns = (size_t)w->dims[last];
    w->rows = elements / w->columns;
    w->segment = w->columns;
    if (spec->granularity == QUANT_PER_CHANNEL)
        w->stride[spec->channel_axis] = 1;
    if (spec->granularity == QUANT_PER_GROUP) {
        w->group_axis = spec->group_axis;
        w->group = spec->group;
        size_t stride = 1;
        for (int d = last; d >= 0; d--) {
            w->stride[d] = stride;
            stride *= (size_t)(d == w->group_axis ? w->dims[d] / w->group : w->dims[d]);
        }
        if (w->group_axis == last)
            w->segment = (size_t)w->group;
    }
    w->scale_step = w->segment == w->columns && w->group_axis != last && w->stride[last] ? 1 : 0;
    w->channel_step = w->channel_axis == last;
    w->channels = w->channel_axis < 0 ? 1 : (size_t)w->dims[w->channel_axis];
}

// First scale and first channel of a row.
static void walk_row(const struct walk *w, size_t row, size_t *scale, size_t *channel)
{
    *scale = *channel = 0;
    for (int d = w->rank - 2; d >= 0; d--) {
        size_t n = (size_t)w->dims[d], i = row % n;
        row /= n;
        *scale += (d == w->group_axis ? i / (size_t)w->group : i) * w->stride[d];
        if (d == w->channel_axis)
            *channel = i;
    }
}

static int refuse_nonfinite(const float *x, size_t n, const char *name, size_t *count, struct error *err)
{
    size_t bad = 0, first = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i]) && bad++ == 0)
            first = i;
    }
    *count = bad;
    if (!bad)
        return 0;
    return error_set(err, ERR_INPUT, name,
                     "%zu of %zu values are not finite, the first at index %zu: no scale can hold them", bad, n, first);
}

static inline uint32_t magnitude_bits(float v)
{
    uint32_t b;
    memcpy(&b, &v, sizeof b);
    return b & 0x7fffffffu;
}

// Bit patterns of non-negative floats order as their values, with infinity and NaN above all.
static void max_magnitudes(const struct walk *w, const float *x, uint32_t *amax)
{
    for (size_t row = 0; row < w->rows; row++, x += w->columns) {
        size_t scale, channel;
        walk_row(w, row, &scale, &channel);
        if (w->scale_step) {
            for (size_t j = 0; j < w->columns; j++) {
                uint32_t b = magnitude_bits(x[j]);
                amax[scale + j] = b > amax[scale + j] ? b : amax[scale + j];
            }
            continue;
        }
        for (size_t from = 0; from < w->columns; from += w->segment, scale += w->group_axis == w->rank - 1) {
            uint32_t m = amax[scale];
            for (size_t j = from; j < from + w->segment; j++) {
                uint32_t b = magnitude_bits(x[j]);
                m = b > m ? b : m;
            }
            amax[scale] = m;
        }
    }
}

static float scale_for(uint32_t amax_bits, float qmax)
{
    if (!amax_bits)
        return 1;
    float amax;
    memcpy(&amax, &amax_bits, sizeof amax);
    float s = amax / qmax;
    return s < FLT_MIN ? FLT_MIN : s;
}

static int find_scales(const struct walk *w, const struct quant_layout *l, float qmax, const float *x, float *scales,
                       const char *name, size_t *nonfinite, struct error *err)
{
    *nonfinite = 0;
    uint32_t *amax = calloc(l->scale_count, sizeof *amax);
    if (!amax)
        return error_set(err, ERR_MEMORY, name, "no memory for %zu scales", l->scale_count);
    max_magnitudes(w, x, amax);
    int rc = 0;
    for (size_t i = 0; i < l->scale_count && !rc; i++) {
        if (amax[i] >= 0x7f800000u)
            rc = refuse_nonfinite(x, l->elements, name, nonfinite, err);
        else
            scales[i] = scale_for(amax[i], qmax);
    }
    free(amax);
    return rc;
}

int quantize_scales(const struct quant_spec *spec, const int64_t *dims, int rank, const float *x, float *scales,
                    const char *name, struct error *err)
{
    struct quant_layout l;
    int rc = quant_layout(spec, dims, rank, name, &l, err);
    if (rc)
        return rc;
    struct walk w;
    walk_init(&w, spec, dims, rank, l.elements);
    size_t nonfinite;
    return find_scales(&w, &l, (float)quant_qmax(spec->type), x, scales, name, &nonfinite, err);
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

// What a run of codes lost; the caller adds it to its channel.
struct run_stats {
    size_t clipped, flushed;
    double max_abs, max_in_scales;
};

static inline int8_t encode(float x, float scale, float qmax)
{
    float q = x / scale;
    q = q > qmax ? qmax : q;
    q = q < -qmax ? -qmax : q;
    // Rounds to the nearest integer, ties to even, for |q| < 2^22: the sum has no room for a fraction.
    return (int8_t)((q + 12582912.0f) - 12582912.0f);
}

static inline void account(float x, float scale, int8_t code, float qmax, struct norms *n, struct run_stats *r)
{
    double e = (double)code * scale - x; // exact but for the last subtraction
    double a = fabs(e);
    n->error2 += e * e;
    n->reference2 += (double)x * x;
    r->flushed += x != 0 && code == 0;
    r->max_abs = a > r->max_abs ? a : r->max_abs;
    // qmax is odd, so qmax + 1/2 is a tie that goes up: from there on the code was clipped.
    if (fabsf(x / scale) >= qmax + 0.5f) {
        r->clipped++;
        return;
    }
    double in_scales = a / scale;
    r->max_in_scales = in_scales > r->max_in_scales ? in_scales : r->max_in_scales;
}

static void encode_row(const struct walk *w, const float *x, const float *scales, float qmax, int8_t *codes)
{
    if (w->scale_step) {
        for (size_t j = 0; j < w->columns; j++)
            codes[j] = encode(x[j], scales[j], qmax);
        return;
    }
    for (size_t from = 0; from < w->columns; from += w->segment, scales += w->group_axis == w->rank - 1) {
        float s = *scales;
        for (size_t j = from; j < from + w->segment; j++)
            codes[j] = encode(x[j], s, qmax);
    }
}

static void account_row(const struct walk *w, const float *x, const float *scales, const int8_t *codes, float qmax,
                        struct norms *channels, struct run_stats *r)
{
    size_t next = w->group_axis == w->rank - 1;
    for (size_t from = 0; from < w->columns; from += w->segment, scales += next) {
        if (w->channel_step) {
            for (size_t j = from; j < from + w->segment; j++)
                account(x[j], scales[w->scale_step * (j - from)], codes[j], qmax, &channels[j], r);
        } else {
            struct norms n = {0};
            for (size_t j = from; j < from + w->segment; j++)
                account(x[j], scales[w->scale_step * (j - from)], codes[j], qmax, &n, r);
            channels->error2 += n.error2;
            channels->reference2 += n.reference2;
        }
    }
}

static int encode_all(const struct walk *w, const struct quant_layout *l, int qmax, const float *x, const float *scales,
                      int8_t *codes, struct quant_stats *stats, const char *name, struct error *err)
{
    struct norms *channels = calloc(w->channels, sizeof *channels);
    if (!channels)
        return error_set(err, ERR_MEMORY, name, "no memory for the statistics of %zu channels", w->channels);
    struct run_stats r = {0};
    for (size_t row = 0; row < w->rows; row++) {
        size_t scale, channel;
        walk_row(w, row, &scale, &channel);
        const float *from = x + row * w->columns;
        int8_t *to = codes + row * w->columns;
        encode_row(w, from, scales + scale, (float)qmax, to);
        account_row(w, from, scales + scale, to, (float)qmax, channels + channel, &r);
    }
    *stats = (struct quant_stats){.elements = l->elements, .clipped = r.clipped, .flushed = r.flushed};
    stats->scale_min = stats->scale_max = NAN;
    for (size_t i = 0; i < l->scale_count; i++) {
        double s = scales[i];
        stats->scale_min = s >= stats->scale_min ? stats->scale_min : s;
        stats->scale_max = s <= stats->scale_max ? stats->scale_max : s;
    }
    finish_norms(channels, w->channels, stats);
    free(channels);
    stats->max_abs_error = r.max_abs;
    stats->bound_in_scales = 0.5 + qmax * 0x1p-24;
    stats->max_error_in_scales = r.max_in_scales;
    stats->bound_holds = r.max_in_scales <= stats->bound_in_scales;
    return 0;
}

int quantize_codes(const struct quant_spec *spec, const int64_t *dims, int rank, const float *x, const float *scales,
                   int8_t *codes, struct quant_stats *stats, const char *name, struct error *err)
{
    struct quant_layout l;
    memset(stats, 0, sizeof *stats);
    int rc = quant_layout(spec, dims, rank, name, &l, err);
    if (rc)
        return rc;
    rc = refuse_nonfinite(x, l.elements, name, &stats->nonfinite, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < l.scale_count; i++) {
        if (!(scales[i] > 0) || isinf(scales[i]))
            return error_set(err, ERR_INPUT, name, "scale %zu is %g: a scale must be finite and above zero", i,
                             (double)scales[i]);
    }
    struct walk w;
    walk_init(&w, spec, dims, rank, l.elements);
    return encode_all(&w, &l, quant_qmax(spec->type), x, scales, codes, stats, name, err);
}

int quantize(const struct quant_spec *spec, const int64_t *dims, int rank, const float *x, int8_t *codes, float *scales,
             struct quant_stats *stats, const char *name, struct error *err)
{
    struct quant_layout l;
    memset(stats, 0, sizeof *stats);
    int rc = quant_layout(spec, dims, rank, name, &l, err);
    if (rc)
        return rc;
    struct walk w;
    walk_init(&w, spec, dims, rank, l.elements);
    int qmax = quant_qmax(spec->type);
    rc = find_scales(&w, &l, (float)qmax, x, scales, name, &stats->nonfinite, err);
    return rc ? rc : encode_all(&w, &l, qmax, x, scales, codes, stats, name, err);
}

int dequantize(const struct quant_spec *spec, const int64_t *dims, int rank, const int8_t *codes, const float *scales,
               float *x, const char *name, struct error *err)
{
    struct quant_layout l;
    int rc = quant_layout(spec, dims, rank, name, &l, err);
    if (rc)
        return rc;
    struct walk w;
    walk_init(&w, spec, dims, rank, l.elements);
    size_t next = w.group_axis == w.rank - 1;
    for (size_t row = 0; row < w.rows; row++, codes += w.columns, x += w.columns) {
        size_t scale, channel;
        walk_row(&w, row, &scale, &channel);
        for (size_t from = 0; from < w.columns; from += w.segment, scale += next) {
            for (size_t j = from; j < from + w.segment; j++)
                x[j] = (float)codes[j] * scales[scale + w.scale_step * (j - from)];
        }
    }
    return 0;
}

// Around the packed axis: everything before it, its length, everything after it.
static int packed_view(const int64_t *dims, int rank, int axis, size_t *outer, size_t *length, size_t *inner,
                       struct error *err)
{
    size_t elements;
    int rc = check_shape(dims, rank, NULL, &elements, err);
    if (rc)
        return rc;
    if (axis < 0 || axis >= rank)
        return error_set(err, ERR_USAGE, NULL, "packing along axis %d of a tensor of rank %d", axis, rank);
    *length = (size_t)dims[axis];
    size_product(dims, axis, outer);
    size_product(dims + axis + 1, rank - axis - 1, inner);
    return 0;
}

int quant_packed_bytes(const int64_t *dims, int rank, int axis, size_t *out, struct error *err)
{
    size_t outer, length, inner;
    int rc = packed_view(dims, rank, axis, &outer, &length, &inner, err);
    if (!rc)
        *out = outer * ((length + 1) / 2) * inner;
    return rc;
}

int quant_pack_s4(const int64_t *dims, int rank, int axis, const int8_t *codes, uint8_t *packed, struct error *err)
{
    size_t outer, length, inner;
    int rc = packed_view(dims, rank, axis, &outer, &length, &inner, err);
    if (rc)
        return rc;
    for (size_t o = 0; o < outer; o++) {
        for (size_t k = 0; k < length; k += 2, packed += inner) {
            const int8_t *low = codes + (o * length + k) * inner;
            for (size_t i = 0; i < inner; i++) {
                unsigned high = k + 1 < length ? (unsigned)low[inner + i] & 15 : 0;
                packed[i] = (uint8_t)(((unsigned)low[i] & 15) | high << 4);
            }
        }
    }
    return 0;
}

static int8_t sign_extend(unsigned nibble)
{
    return (int8_t)((int)(nibble ^ 8) - 8);
}

int quant_unpack_s4(const int64_t *dims, int rank, int axis, const uint8_t *packed, int8_t *codes, struct error *err)
{
    size_t outer, length, inner;
    int rc = packed_view(dims, rank, axis, &outer, &length, &inner, err);
    if (rc)
        return rc;
    for (size_t o = 0; o < outer; o++) {
        for (size_t k = 0; k < length; k += 2, packed += inner) {
            int8_t *low = codes + (o * length + k) * inner;
            for (size_t i = 0; i < inner; i++) {
                low[i] = sign_extend(packed[i] & 15u);
                if (k + 1 < length)
                    low[inner + i] = sign_extend(packed[i] >> 4u);
            }
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
    if (!dtype_is_float(type) || !convert_possible(type, DT_F32))
        return error_set(err, ERR_USAGE, name, "%s is not a float type that values can be narrowed to",
                         dtype_name(type));
    if (channel_axis < -1 || channel_axis >= rank)
        return error_set(err, ERR_USAGE, name, "channel axis %d of a tensor of rank %d", channel_axis, rank);
    struct quant_spec spec = {.granularity = QUANT_PER_TENSOR, .channel_axis = channel_axis};
    struct walk w;
    walk_init(&w, &spec, dims, rank, elements);
    struct norms *channels = calloc(w.channels, sizeof *channels);
    if (!channels)
        return error_set(err, ERR_MEMORY, name, "no memory for the statistics of %zu channels", w.channels);
    stats->elements = elements;
    size_t size = (size_t)dtype_bits(type) / 8;
    for (size_t row = 0; row < w.rows; row++) {
        size_t scale, channel;
        walk_row(&w, row, &scale, &channel);
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
