// SPDX-License-Identifier: Apache-2.0
// One piece of a tensor: loaded as f32, encoded, and what it lost. The cases that presets ask for go through the fused
// loops of num/quantize_kernels.h; all others through num/quantize.h, which takes one more pass.
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "io/ggml.h"
#include "lab/quantize_work.h"
#include "num/block_kernels.h"
#include "num/convert.h"
#include "num/format.h"
#include "num/quantize_kernels.h"

void quantize_stats_init(struct quantize_stats *s)
{
    *s = (struct quantize_stats){.scale_min = NAN,
                                 .scale_max = NAN,
                                 .bound_in_scales = NAN,
                                 .max_error_in_scales = NAN,
                                 .bound_holds = true,
                                 .worst_row_rel_l2 = NAN};
}

static double larger(double a, double b) // a NaN gives way
{
    return b > a || isnan(a) ? b : a;
}

static double smaller(double a, double b)
{
    return b < a || isnan(a) ? b : a;
}

void quantize_stats_add(struct quantize_stats *t, const struct quantize_stats *p)
{
    t->elements += p->elements;
    t->nonfinite += p->nonfinite;
    t->nan += p->nan;
    t->beyond_f32 += p->beyond_f32;
    t->clipped += p->clipped;
    t->flushed += p->flushed;
    t->overflowed += p->overflowed;
    t->scales_raised += p->scales_raised;
    t->scales_lowered += p->scales_lowered;
    t->error2 += p->error2;
    t->reference2 += p->reference2;
    t->max_abs_error = larger(t->max_abs_error, p->max_abs_error);
    t->amax = larger(t->amax, p->amax);
    t->scale_min = smaller(t->scale_min, p->scale_min);
    t->scale_max = larger(t->scale_max, p->scale_max);
    t->bound_in_scales = larger(t->bound_in_scales, p->bound_in_scales);
    t->max_error_in_scales = larger(t->max_error_in_scales, p->max_error_in_scales);
    t->bound_holds &= p->bound_holds;
    if (p->worst_row_rel_l2 > t->worst_row_rel_l2 || isnan(t->worst_row_rel_l2)) {
        t->worst_row_rel_l2 = p->worst_row_rel_l2;
        t->worst_row = p->worst_row;
    }
}

void quantize_stats_row(struct quantize_stats *s, size_t row, double error2, double reference2)
{
    s->error2 += error2;
    s->reference2 += reference2;
    if (!(reference2 > 0))
        return;
    double rel = sqrt(error2 / reference2);
    if (!(rel <= s->worst_row_rel_l2)) {
        s->worst_row_rel_l2 = rel;
        s->worst_row = row;
    }
}

// Elements from index `at` of the tensor. f64 values beyond f32 become infinities, or the largest f32 where values are
// saturated, and are counted.
static int load_run(const struct quantize_work *w, size_t at, size_t n, float *out, struct quantize_stats *part,
                    struct error *err)
{
    const struct tensor_view *v = w->view;
    if (v->blocks)
        return ggml_decode(v->blocks, v->data + at / v->blocks->elements * v->blocks->bytes, n, out, err);
    const uint8_t *from = v->data + at * ((size_t)dtype_bits(v->dtype) / 8);
    if (v->dtype != DT_F64)
        return convert_elements(DT_F32, out, v->dtype, from, n, err);
    for (size_t i = 0; i < n;) {
        double values[256];
        size_t k = n - i < 256 ? n - i : 256, beyond = 0;
        memcpy(values, from + i * sizeof *values, k * sizeof *values);
        int rc = quant_narrow_f64(values, k, w->run->nonfinite == QUANT_SATURATE ? QUANT_SATURATE : QUANT_KEEP, out + i,
                                  &beyond, v->name, err);
        if (rc)
            return rc;
        part->beyond_f32 += beyond;
        i += k;
    }
    return 0;
}

int quantize_load(const struct quantize_work *w, const struct quantize_piece *p, struct quantize_space *s,
                  const float **x, struct quantize_stats *part, struct error *err)
{
    const struct tensor_view *v = w->view;
    size_t at = p->row * w->columns + p->column, n = p->rows * p->columns;
    part->elements = n;
    if (v->dtype == DT_F32 && (uintptr_t)v->data % sizeof(float) == 0) {
        *x = (const float *)(const void *)v->data + at;
        return 0;
    }
    *x = s->x;
    int rc = load_run(w, at, n, s->x, part, err);
    if (!rc && part->beyond_f32 && w->run->nonfinite == QUANT_REFUSE)
        return error_set(err, ERR_INPUT, v->name,
                         "%zu values of f64 among rows %zu to %zu are beyond f32; choose what becomes of them with "
                         "--nan saturate or --nan keep",
                         part->beyond_f32, p->row, p->row + p->rows - 1);
    return rc;
}

// Counts what is not finite and finds the largest finite magnitude. False: some values are not finite.
static bool look(const float *x, size_t n, size_t *first, struct quantize_stats *part)
{
    uint32_t bits = quant_kernels()->absmax(x, n);
    if (bits < 0x7f800000u) {
        part->amax = (double)f32_of_bits(bits);
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        if (isfinite(x[i])) {
            part->amax = fmax(part->amax, fabs((double)x[i]));
            continue;
        }
        if (part->nonfinite++ == 0)
            *first = i;
        part->nan += isnan(x[i]) != 0;
    }
    return false;
}

static int refuse(const struct quantize_work *w, const struct quantize_piece *p, size_t first, const float *x,
                  struct error *err)
{
    return error_set(err, ERR_INPUT, w->view->name,
                     "the value at row %zu, column %zu is %s; choose what becomes of such values with --nan saturate%s",
                     p->row + first / p->columns, p->column + first % p->columns,
                     isnan(x[first]) ? "NaN"
                     : x[first] > 0  ? "infinite"
                                     : "minus infinity",
                     w->policy->form == QUANTIZE_CODES && !dtype_is_float(w->policy->spec.type) ? ""
                                                                                                : " or --nan keep");
}

static void end_row(const struct block_lost *s, size_t row, struct quantize_stats *part)
{
    for (int j = 0; j < BLOCK_LANES; j++)
        part->max_abs_error = fmax(part->max_abs_error, s->worst[j]);
    part->flushed += s->flushed;
    quantize_stats_row(part, row, quant_lanes_sum(s->error2), quant_lanes_sum(s->reference2));
}

static void account_rows(const struct quantize_piece *p, const float *x, const float *back, struct quantize_stats *part)
{
    for (size_t r = 0; r < p->rows; r++) {
        struct block_lost s = {0};
        block_kernels()->lost(x + r * p->columns, back + r * p->columns, p->columns, 1, &s);
        end_row(&s, p->row + r, part);
    }
}

// --- Codes with scales

static bool fast_spec(const struct quant_spec *s)
{
    return !dtype_is_float(s->type) && dtype_bits(s->type) <= 8 && s->rounding == QUANT_HALF_EVEN && !s->reciprocal &&
           s->zero_order == QUANT_ZERO_AFTER_ROUNDING;
}

static void add_tally(const struct quant_tally *t, size_t row, struct quantize_stats *part)
{
    part->clipped += t->clipped;
    part->flushed += t->flushed;
    part->max_abs_error = fmax(part->max_abs_error, t->max_error);
    part->max_error_in_scales = larger(part->max_error_in_scales, t->max_error_in_scales);
    quantize_stats_row(part, row, quant_lanes_sum(t->error2), quant_lanes_sum(t->reference2));
}

struct coder {
    const struct quant_spec *spec;
    const struct quant_kernels *k;
    struct quant_rule rule; // its zero is that of symmetric specs
    struct quantize_stats *part;
    bool plain; // scale = amax / divisor in f32, and no more
    float divisor;
};

static struct coder coder_of(const struct quant_spec *spec, struct quantize_stats *part)
{
    struct coder c = {.spec = spec, .k = quant_kernels(), .part = part};
    double low, high;
    bool is_unsigned = dtype_info(spec->type)->kind == DTK_UNSIGNED;
    quant_code_limits(spec, &low, &high);
    c.rule = (struct quant_rule){(int)low, (int)high, 0};
    if (is_unsigned && spec->mapping == QUANT_SYMMETRIC)
        c.rule.zero = 1 << (dtype_bits(spec->type) - 1);
    c.plain = !is_unsigned && spec->mapping == QUANT_SYMMETRIC && spec->divisor == QUANT_BY_QMAX &&
              (spec->scale_type == DT_INVALID || spec->scale_type == DT_F32);
    c.divisor = (float)high;
    return c;
}

static float scale_of(const struct coder *c, uint32_t amax)
{
    float scale;
    int32_t zero;
    struct quant_stats counts = {0};
    if (c->plain) {
        scale = amax ? f32_of_bits(amax) / c->divisor : 1;
        if (scale >= FLT_MIN)
            return scale;
    }
    quant_scale_of_range(c->spec, 0, (double)f32_of_bits(amax), &scale, &zero, &counts);
    c->part->scales_raised += counts.scales_raised;
    c->part->scales_lowered += counts.scales_lowered;
    return scale;
}

// A run of one scale: found, and encoded with it.
static void encode_run(const struct coder *c, const float *x, size_t n, float *scale, int32_t *zero, uint8_t *codes,
                       struct quant_tally *tally)
{
    struct quant_rule rule = c->rule;
    if (c->spec->mapping == QUANT_AFFINE) {
        struct quant_stats counts = {0};
        struct quant_extent e = c->k->extent(x, n);
        quant_scale_of_range(c->spec, (double)e.min, (double)e.max, scale, zero, &counts);
        c->part->scales_raised += counts.scales_raised;
        c->part->scales_lowered += counts.scales_lowered;
        rule.zero = *zero;
    } else {
        *scale = scale_of(c, c->k->absmax(x, n));
        *zero = rule.zero;
    }
    c->k->encode(&rule, x, n, *scale, codes, tally);
}

static void encode_groups(const struct coder *c, const float *x, size_t n, size_t group, float *scales, int32_t *zeros,
                          uint8_t *codes, struct quant_tally *tally)
{
    size_t whole = c->spec->mapping == QUANT_AFFINE ? 0 : n / group;
    if (whole) {
        uint32_t amax[64];
        for (size_t g = 0; g < whole; g += 64) {
            size_t k = whole - g < 64 ? whole - g : 64;
            c->k->absmax_groups(x + g * group, k, group, amax);
            for (size_t i = 0; i < k; i++) {
                scales[g + i] = scale_of(c, amax[i]);
                zeros[g + i] = c->rule.zero;
            }
        }
        c->k->encode_groups(&c->rule, x, whole, group, scales, codes, tally);
    }
    for (size_t g = whole, at = whole * group; at < n; g++, at += group)
        encode_run(c, x + at, n - at < group ? n - at : group, &scales[g], &zeros[g], codes + at, tally);
}

static void encode_fast(const struct quantize_work *w, const struct quantize_piece *p, const float *x,
                        struct quantize_space *s, struct quantize_stats *part)
{
    const struct quant_spec *spec = &w->policy->spec;
    struct coder c = coder_of(spec, part);
    for (size_t r = 0; r < p->rows; r++) {
        const float *row = x + r * p->columns;
        uint8_t *codes = s->codes + r * p->columns;
        struct quant_tally tally = {0};
        if (w->given) {
            size_t i = w->one_scale ? 0 : p->row + r;
            struct quant_rule rule = c.rule;
            rule.zero = w->zeros[i];
            c.k->encode(&rule, row, p->columns, w->scales[i], codes, &tally);
        } else if (spec->granularity == QUANT_PER_GROUP) {
            size_t across = w->across;
            encode_groups(&c, row, p->columns, (size_t)spec->group, s->scales + r * across, s->zeros + r * across,
                          codes, &tally);
        } else {
            encode_run(&c, row, p->columns, &s->scales[r], &s->zeros[r], codes, &tally);
        }
        add_tally(&tally, p->row + r, part);
    }
    part->bound_in_scales = quant_bound_in_scales(spec);
    part->bound_holds = !(part->max_error_in_scales > part->bound_in_scales);
}

// Neighbours in a row that share a scale.
static size_t run_length(const struct quant_spec *spec, const struct quantize_piece *p)
{
    return spec->granularity == QUANT_PER_GROUP   ? (size_t)spec->group
           : spec->granularity == QUANT_PER_BLOCK ? (size_t)spec->block[1]
                                                  : p->columns;
}

static size_t piece_scales(const struct quantize_work *w, const struct quantize_piece *p)
{
    size_t run = run_length(&w->policy->spec, p);
    return (p->rows + w->box_rows - 1) / w->box_rows * ((p->columns + run - 1) / run);
}

// `units` are codes less their zero points. Rows of scales are `box_rows` rows of values apart.
static void account_scaled(const struct quantize_work *w, const struct quantize_piece *p, const float *x,
                           const float *units, const float *scales, struct quantize_stats *part)
{
    size_t run = run_length(&w->policy->spec, p);
    for (size_t r = 0; r < p->rows; r++) {
        struct block_lost s = {0};
        const float *scale = scales + (w->given ? 0 : r / w->box_rows * ((p->columns + run - 1) / run));
        for (size_t at = 0; at < p->columns; at += run, scale++) {
            size_t n = p->columns - at < run ? p->columns - at : run;
            block_kernels()->lost(x + r * p->columns + at, units + r * p->columns + at, n, (double)*scale, &s);
        }
        end_row(&s, p->row + r, part);
    }
}

// With scales of 1 for what there are scales for, codes come back less their zero points, exactly.
static int load_units(const struct quant_spec *spec, const int64_t dims[2], const void *codes, const int32_t *zeros,
                      size_t scales, float *ones, float *units, const char *name, struct error *err)
{
    for (size_t i = 0; i < scales; i++)
        ones[i] = 1;
    return dequantize(spec, dims, 2, codes, ones, zeros, units, name, err);
}

static int encode_general(const struct quantize_work *w, const struct quantize_piece *p, const float *x,
                          struct quantize_space *s, struct quantize_stats *part, struct error *err)
{
    struct quant_spec spec = w->policy->spec;
    struct quant_stats q;
    const int64_t dims[2] = {(int64_t)p->rows, (int64_t)p->columns};
    const char *name = w->view->name;
    float *scales = s->scales;
    int32_t *zeros = s->zeros;
    int rc;
    spec.nonfinite = w->run->nonfinite;
    // These functions allocate, so a file that shrinks must not make them jump: they get a copy.
    if (x != s->x)
        x = memcpy(s->x, x, p->rows * p->columns * sizeof *x);
    if (w->given) {
        size_t i = w->one_scale ? 0 : p->row;
        scales = w->scales + i;
        zeros = w->zeros + i;
        rc = quantize_codes(&spec, dims, 2, x, scales, zeros, s->codes, &q, name, err);
    } else {
        rc = quantize(&spec, dims, 2, x, s->codes, scales, zeros, &q, name, err);
    }
    size_t count = w->given ? 1 : piece_scales(w, p);
    if (!rc)
        rc = load_units(&spec, dims, s->codes, zeros, count, s->ones, s->back, name, err);
    if (rc)
        return rc;
    part->clipped = q.clipped;
    part->scales_raised = w->given ? 0 : q.scales_raised;
    part->scales_lowered = w->given ? 0 : q.scales_lowered;
    part->bound_in_scales = q.bound_in_scales;
    part->max_error_in_scales = q.max_error_in_scales;
    part->bound_holds = q.bound_holds;
    account_scaled(w, p, x, s->back, scales, part);
    return 0;
}

static int encode_codes(const struct quantize_work *w, const struct quantize_piece *p, const float *x, bool finite,
                        struct quantize_space *s, struct quantize_stats *part, struct error *err)
{
    const struct quant_spec *spec = &w->policy->spec;
    bool rows = spec->granularity == QUANT_PER_CHANNEL || spec->granularity == QUANT_PER_GROUP;
    if (finite && fast_spec(spec) && (w->given || (rows && spec->from == QUANT_FROM_ABSMAX)))
        encode_fast(w, p, x, s, part);
    else {
        int rc = encode_general(w, p, x, s, part, err);
        if (rc)
            return rc;
    }
    size_t n = w->given ? 0 : piece_scales(w, p);
    for (size_t i = 0; i < n; i++) {
        part->scale_min = smaller(part->scale_min, (double)s->scales[i]);
        part->scale_max = larger(part->scale_max, (double)s->scales[i]);
    }
    return 0;
}

// --- Blocks

// A copy in which infinities are the largest finite magnitude of their block, and NaN is 0.
static void saturate_blocks(const struct quantize_piece *p, size_t block, const float *from_x, float *x)
{
    memcpy(x, from_x, p->rows * p->columns * sizeof *x);
    for (size_t r = 0; r < p->rows; r++, x += p->columns) {
        for (size_t from = 0; from < p->columns; from += block) {
            size_t to = p->columns - from < block ? p->columns : from + block;
            float amax = 0;
            for (size_t i = from; i < to; i++)
                amax = isfinite(x[i]) && fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
            for (size_t i = from; i < to; i++)
                x[i] = isnan(x[i]) ? 0 : isinf(x[i]) ? copysignf(amax, x[i]) : x[i];
        }
    }
}

static int encode_blocks(const struct quantize_work *w, const struct quantize_piece *p, const float *x,
                         struct quantize_space *s, struct quantize_stats *part, struct error *err)
{
    const struct block_format *f = w->policy->block;
    struct block_cast cast = w->policy->cast;
    struct block_stats b;
    const int64_t dims[2] = {(int64_t)p->rows, (int64_t)p->columns};
    uint8_t *scales = s->stored;
    const float *values = x;
    float g = 1;
    cast.tensor_scale = w->tensor_scale;
    if (part->nonfinite && w->run->nonfinite == QUANT_SATURATE) {
        saturate_blocks(p, f->block, x, s->back);
        values = s->back;
    }
    int rc = block_encode(f, &cast, dims, 2, 1, values, s->codes, scales, &g, &b, w->view->name, err);
    if (!rc)
        rc = block_decode(f, dims, 2, 1, s->codes, scales, g, s->back, w->view->name, err);
    if (rc)
        return rc;
    part->clipped = b.clipped;
    part->overflowed = b.overflowed;
    part->scales_lowered = b.clamped_scales;
    part->scale_min = b.scale_min;
    part->scale_max = b.scale_max;
    account_rows(p, x, s->back, part);
    return 0;
}

// --- Narrowing

// A copy in which what is beyond the type is its largest value, and NaN is 0; returns how many finite values were.
static size_t saturate_narrow(enum dtype to, const float *x, size_t n, float *out)
{
    float largest = (float)format_max(format_of(to));
    size_t clipped = 0;
    for (size_t i = 0; i < n; i++) {
        bool beyond = fabsf(x[i]) > largest;
        clipped += beyond && !isinf(x[i]);
        out[i] = isnan(x[i]) ? 0 : beyond ? copysignf(largest, x[i]) : x[i];
    }
    return clipped;
}

static int encode_narrow(const struct quantize_work *w, const struct quantize_piece *p, const float *x,
                         struct quantize_space *s, struct quantize_stats *part, struct error *err)
{
    size_t n = p->rows * p->columns;
    const struct tensor_view *v = w->view;
    int rc;
    if (w->run->nonfinite == QUANT_SATURATE) {
        part->clipped = saturate_narrow(w->to, x, n, s->back);
        rc = convert_elements(w->to, s->codes, DT_F32, s->back, n, err);
    } else if (v->dtype == DT_F64) { // in one rounding
        const uint8_t *from = v->data + (p->row * w->columns + p->column) * sizeof(double);
        rc = convert_elements(w->to, s->codes, DT_F64, from, n, err);
    } else {
        rc = convert_elements(w->to, s->codes, DT_F32, x, n, err);
    }
    if (!rc)
        rc = convert_elements(DT_F32, s->back, w->to, s->codes, n, err);
    if (rc)
        return rc;
    // Looked at one by one only where one of them is NaN or infinite.
    if (quant_kernels()->absmax(s->back, n) >= 0x7f800000u) {
        for (size_t i = 0; i < n; i++)
            part->overflowed += isfinite(x[i]) && !isfinite(s->back[i]);
    }
    if (part->overflowed && w->run->nonfinite == QUANT_REFUSE)
        return error_set(err, ERR_INPUT, v->name,
                         "%zu values among rows %zu to %zu are beyond %s; choose what becomes of them with --nan "
                         "saturate or --nan keep",
                         part->overflowed, p->row, p->row + p->rows - 1, dtype_name(w->to));
    account_rows(p, x, s->back, part);
    return 0;
}

int quantize_encode(const struct quantize_work *w, const struct quantize_piece *p, const float *x,
                    struct quantize_space *s, struct quantize_stats *part, struct error *err)
{
    size_t n = p->rows * p->columns, first = 0;
    enum quantize_form form = w->policy->form;
    bool finite = look(x, n, &first, part);
    if (!finite && w->run->nonfinite == QUANT_REFUSE)
        return refuse(w, p, first, x, err);
    if (form == QUANTIZE_CODES)
        return encode_codes(w, p, x, finite, s, part, err);
    return form == QUANTIZE_BLOCKS ? encode_blocks(w, p, x, s, part, err) : encode_narrow(w, p, x, s, part, err);
}
