// SPDX-License-Identifier: Apache-2.0
// Codes from values and back. The plain loops do every spec; where the rule of the kernels is the rule of the spec,
// they do the same, bit for bit, faster.
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "num/block_kernels.h"
#include "num/convert.h"
#include "num/quantize_internal.h"
#include "num/quantize_kernels.h"

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

// Codes here take a byte each; conversion packs those of less than 8 bits.
static void floats_to_bytes(const struct format *f, const float *x, size_t n, uint8_t *bytes)
{
    uint8_t packed[QUANT_RUN];
    if (f->bits == 8) {
        convert_elements(f->dtype, bytes, DT_F32, x, n, NULL);
        return;
    }
    convert_elements(f->dtype, packed, DT_F32, x, n, NULL);
    format_unpack(f->bits, false, bytes, packed, n);
}

// What each code of a float type stands for: made once, since runs are short.
static float float_values[DT_COUNT][256];

static void make_float_values(void)
{
    for (int t = 0; t < DT_COUNT; t++) {
        const struct format *f = quant_element_format((enum dtype)t);
        for (unsigned c = 0; c < 256 && f; c++)
            float_values[t][c] = (float)format_decode(f, c);
    }
}

static void bytes_to_floats(const struct format *f, const uint8_t *bytes, size_t n, float *x)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_float_values);
    const float *values = float_values[f->dtype];
    for (size_t j = 0; j < n; j++)
        x[j] = values[bytes[j]];
}

static void encode_floats(const struct quant_spec *spec, const struct format *f, const float *x, size_t n,
                          const float *scales, size_t step, struct quant_run *run)
{
    float max = (float)format_max(f), held[QUANT_RUN] = {0};
    // Half a step beyond the largest value is a tie, and goes to the even code.
    float limit = max + (float)quant_half_step(f->dtype, max);
    bool tie_is_over = format_max_code(f) & 1;
    bool any_kept = false;
    for (size_t j = 0; j < n; j++) {
        float s = scales[j * step], q = spec->reciprocal ? x[j] * (1 / s) : x[j] / s;
        bool keep = spec->nonfinite == QUANT_KEEP && !isfinite(x[j]);
        any_kept |= keep;
        run->clipped[j] = !keep && (fabsf(q) > limit || (tie_is_over && fabsf(q) == limit));
        q = q > max ? max : q < -max ? -max : q == q ? q : 0;
        held[j] = q;
    }
    floats_to_bytes(f, held, n, run->bytes);
    for (size_t j = 0; j < n && any_kept; j++) {
        if (!isfinite(x[j]))
            floats_to_bytes(f, x + j, 1, run->bytes + j);
    }
    bytes_to_floats(f, run->bytes, n, run->unit);
}

void quant_encode_run(const struct quant_spec *spec, const float *x, size_t n, const float *scales,
                      const int32_t *zeros, size_t step, struct quant_run *run)
{
    const struct format *f = quant_element_format(spec->type);
    if (f)
        encode_floats(spec, f, x, n, scales, step, run);
    else
        encode_integers(spec, x, n, scales, zeros, step, run);
}

static void store_codes(const struct quant_spec *spec, const struct quant_run *run, size_t n, void *codes, size_t at)
{
    if (dtype_is_float(spec->type)) {
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
    const struct format *f = quant_element_format(type);
    bool is_signed = dtype_info(type)->kind == DTK_SIGNED;
    if (f)
        bytes_to_floats(f, (const uint8_t *)codes + at, n, out);
    else if (dtype_bits(type) > 8)
        convert_elements(DT_F32, out, is_signed ? DT_S16 : DT_U16, (const uint16_t *)codes + at, n, NULL);
    else
        convert_elements(DT_F32, out, is_signed ? DT_S8 : DT_U8, (const uint8_t *)codes + at, n, NULL);
}

void quant_finish_norms(const double *error2, const double *reference2, size_t channels, struct quant_stats *stats)
{
    double all_error2 = 0, all_reference2 = 0;
    stats->worst_channel_rel_l2 = NAN;
    for (size_t c = 0; c < channels; c++) {
        all_error2 += error2[c];
        all_reference2 += reference2[c];
        if (reference2[c] == 0)
            continue;
        double r = sqrt(error2[c] / reference2[c]);
        if (!(r <= stats->worst_channel_rel_l2)) {
            stats->worst_channel = c;
            stats->worst_channel_rel_l2 = r;
        }
    }
    stats->rel_l2 = all_reference2 > 0 ? sqrt(all_error2 / all_reference2) : NAN;
}

struct accounts {
    const struct quant_spec *spec;
    bool is_float;
    double bound; // integer types
    // Float types: the smallest normal value, half the spacing above 1, and what f32 arithmetic adds, relative.
    double min_normal, half_step, slack;
    // Per channel: squared error and squared norm.
    double *error2, *reference2;
    size_t clipped, flushed;
    double max_abs, max_in_scales;
    bool beyond; // some element that was not clipped is off by more than the bound
};

static void account(struct accounts *a, float x, float scale, float unit, bool clipped, size_t channel)
{
    a->clipped += clipped;
    if (!isfinite(x))
        return;
    double e = (double)unit * scale - x; // exact but for the last subtraction
    double size = fabs(e);
    a->error2[channel] += e * e;
    a->reference2[channel] += (double)x * x;
    a->flushed += x != 0 && unit == 0;
    a->max_abs = size > a->max_abs ? size : a->max_abs;
    if (clipped)
        return;
    double in_scales = size / scale;
    a->max_in_scales = in_scales > a->max_in_scales ? in_scales : a->max_in_scales;
    double bound = a->bound;
    if (a->is_float) {
        // The power of two at or below |unit|, which is normal in f32.
        uint32_t bits;
        float power;
        memcpy(&bits, &unit, sizeof bits);
        bits &= 0x7f800000u;
        memcpy(&power, &bits, sizeof power);
        bound = fmax(power, a->min_normal) * a->half_step + fabs(unit) * a->slack;
    }
    a->beyond |= in_scales > bound;
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
            for (size_t j = 0; j < n; j++)
                account(a, x[at + j], scales[s + w->scale_step * j], run.unit[j], run.clipped[j],
                        channel + w->channel_step * (from + j));
            from += n;
        }
    }
}

// Whether the kernels' rule is this spec's, and their runs are this walk's: scales per element must share their zero
// point, and errors per column need scales per column.
static bool kernels_do(const struct quant_spec *spec, const struct quant_walk *w)
{
    bool rule = dtype_is_integer(spec->type) && dtype_bits(spec->type) <= 8 && spec->rounding == QUANT_HALF_EVEN &&
                !spec->reciprocal && spec->zero_order == QUANT_ZERO_AFTER_ROUNDING;
    return rule && (w->scale_step ? spec->mapping == QUANT_SYMMETRIC : !w->channel_step);
}

static struct quant_rule rule_of(const struct quant_spec *spec, int32_t zero)
{
    double lowest, highest;
    quant_code_limits(spec, &lowest, &highest);
    return (struct quant_rule){.low = (int)lowest, .high = (int)highest, .zero = zero};
}

static void encode_row_fast(struct accounts *a, const struct quant_walk *w, const struct quant_kernels *k, size_t row,
                            const float *x, const float *scales, const int32_t *zeros, uint8_t *codes)
{
    struct quant_tally tally = {0};
    struct quant_column_sums columns = {a->error2, a->reference2};
    size_t scale, channel;
    quant_walk_row(w, row, &scale, &channel);
    struct quant_rule rule = rule_of(a->spec, zeros ? zeros[scale] : 0);
    x += row * w->columns;
    codes += row * w->columns;
    if (w->scale_step) {
        k->encode_columns(&rule, x, w->columns, scales + scale, codes, &tally, w->channel_step ? &columns : NULL);
    } else if (a->spec->mapping == QUANT_SYMMETRIC && w->columns % w->segment == 0) {
        k->encode_groups(&rule, x, w->columns / w->segment, w->segment, scales + scale, codes, &tally);
    } else {
        for (size_t from = 0; from < w->columns; scale++) {
            size_t n = quant_segment(w, from);
            rule.zero = zeros ? zeros[scale] : 0;
            k->encode(&rule, x + from, n, scales[scale], codes + from, &tally);
            from += n;
        }
    }
    a->error2[channel] += quant_lanes_sum(tally.error2);
    a->reference2[channel] += quant_lanes_sum(tally.reference2);
    a->clipped += tally.clipped;
    a->flushed += tally.flushed;
    a->max_abs = fmax(a->max_abs, tally.max_error);
    a->max_in_scales = fmax(a->max_in_scales, tally.max_error_in_scales);
    a->beyond |= tally.max_error_in_scales > a->bound;
}

// The same for float types, where one scale meets neighbours of one channel. A type without a code for -0 is another's.
static bool floats_do(const struct quant_spec *spec, const struct quant_walk *w, const struct format *f)
{
    return f && f->zero == FORMAT_ZERO_SIGNED && !spec->reciprocal && !w->scale_step && !w->channel_step;
}

struct float_coder {
    const struct block_kernels *k;
    struct block_rule rule;
    struct block_bound bound;
};

static struct float_coder float_coder_of(const struct accounts *a, const struct format *f)
{
    float max = (float)format_max(f), limit = max + (float)quant_half_step(f->dtype, max);
    struct float_coder c = {
        .k = block_kernels(),
        .rule = block_rule_of(f, 0),
        .bound = {format_max_code(f) & 1 ? nextafterf(limit, 0) : limit, a->min_normal, a->half_step, a->slack}};
    c.rule.divides = 1;
    return c;
}

static void encode_float_row(struct accounts *a, const struct quant_walk *w, const struct float_coder *c, size_t row,
                             const float *x, const float *scales, uint8_t *codes)
{
    struct block_lost lost = {0};
    struct block_counts counts = {0, 0, 0};
    size_t scale, channel;
    quant_walk_row(w, row, &scale, &channel);
    for (size_t from = 0; from < w->columns; scale++) {
        size_t end = from + quant_segment(w, from);
        struct block_judged judged = {0, false};
        float s = scales[scale];
        while (from < end) {
            size_t n = end - from < QUANT_RUN ? end - from : QUANT_RUN, at = row * w->columns + from;
            float padded[QUANT_RUN] = {0}, unit[QUANT_RUN];
            uint8_t bytes[QUANT_RUN];
            memcpy(padded, x + at, n * sizeof *padded);
            c->k->code(&c->rule, padded, (n + BLOCK_RUN - 1) / BLOCK_RUN * BLOCK_RUN, s, 1, bytes, unit, &counts);
            memcpy(codes + at, bytes, n);
            c->k->lost(padded, unit, n, (double)s, &lost);
            c->k->judge(&c->bound, padded, unit, n, s, &judged);
            from += n;
        }
        a->max_in_scales = fmax(a->max_in_scales, judged.most / (double)s);
        a->beyond |= judged.beyond;
    }
    for (int j = 0; j < BLOCK_LANES; j++)
        a->max_abs = fmax(a->max_abs, lost.worst[j]);
    a->error2[channel] += quant_lanes_sum(lost.error2);
    a->reference2[channel] += quant_lanes_sum(lost.reference2);
    a->clipped += counts.clipped;
    a->flushed += lost.flushed;
}

int quant_encode_tensor(const struct quant_spec *spec, const struct quant_walk *w, const struct quant_layout *l,
                        const struct quant_kernels *kernels, const float *x, const float *scales, const int32_t *zeros,
                        void *codes, struct quant_stats *stats, const char *name, struct error *err)
{
    const struct format *f = quant_element_format(spec->type);
    struct accounts a = {
        .spec = spec,
        .is_float = f != NULL,
        .min_normal = f ? format_min_normal(f) : 0,
        .half_step = f ? quant_half_step(spec->type, 1) : 0,
        .slack = spec->reciprocal ? 0x1p-22 : 0x1p-23,
        .bound = quant_bound_in_scales(spec),
        .error2 = calloc(w->channels, 2 * sizeof(double)),
    };
    if (!a.error2)
        return error_set(err, ERR_MEMORY, name, "no memory for the statistics of %zu channels", w->channels);
    a.reference2 = a.error2 + w->channels;
    // What the kernels do with NaN and infinities is not what the spec says.
    bool fast = kernels && !stats->nonfinite && kernels_do(spec, w);
    bool fast_floats = kernels && !stats->nonfinite && floats_do(spec, w, f);
    struct float_coder coder = {0};
    if (fast_floats)
        coder = float_coder_of(&a, f);
    for (size_t row = 0; row < w->rows; row++) {
        if (fast)
            encode_row_fast(&a, w, kernels, row, x, scales, zeros, codes);
        else if (fast_floats)
            encode_float_row(&a, w, &coder, row, x, scales, codes);
        else
            encode_row(&a, w, row, x, scales, zeros, codes);
    }
    stats->elements = l->elements;
    stats->clipped = a.clipped;
    stats->flushed = a.flushed;
    stats->scale_min = stats->scale_max = NAN;
    for (size_t i = 0; i < l->scale_count; i++) {
        double s = scales[i];
        stats->scale_min = s >= stats->scale_min ? stats->scale_min : s;
        stats->scale_max = s <= stats->scale_max ? stats->scale_max : s;
    }
    quant_finish_norms(a.error2, a.reference2, w->channels, stats);
    free(a.error2);
    stats->max_abs_error = a.max_abs;
    double max = f ? format_max(f) : 0;
    stats->bound_in_scales = f ? quant_half_step(spec->type, max) + max * a.slack : a.bound;
    stats->max_error_in_scales = a.max_in_scales;
    stats->bound_holds = !a.beyond;
    return 0;
}

// One row of numbers that were loaded from codes.
static void scale_row(const struct quant_walk *w, size_t row, const float *scales, const int32_t *zeros, float *x)
{
    size_t scale, channel;
    quant_walk_row(w, row, &scale, &channel);
    for (size_t from = 0; from < w->columns; scale++) {
        size_t n = quant_segment(w, from);
        for (size_t j = 0; j < n; j++) {
            size_t s = scale + w->scale_step * j;
            x[from + j] = (x[from + j] - (zeros ? (float)zeros[s] : 0)) * scales[s];
        }
        from += n;
    }
}

static void decode_row_fast(const struct quant_spec *spec, const struct quant_walk *w, const struct quant_kernels *k,
                            size_t row, const uint8_t *codes, const float *scales, const int32_t *zeros, float *x)
{
    size_t scale, channel;
    quant_walk_row(w, row, &scale, &channel);
    struct quant_rule rule = rule_of(spec, zeros ? zeros[scale] : 0);
    if (w->scale_step) {
        k->decode_columns(&rule, codes, w->columns, scales + scale, x, false);
    } else if (spec->mapping == QUANT_SYMMETRIC && w->columns % w->segment == 0) {
        k->decode_groups(&rule, codes, w->columns / w->segment, w->segment, scales + scale, x, false);
    } else {
        for (size_t from = 0; from < w->columns; scale++) {
            size_t n = quant_segment(w, from);
            rule.zero = zeros ? zeros[scale] : 0;
            k->decode(&rule, codes + from, n, scales[scale], x + from, false);
            from += n;
        }
    }
}

void quant_decode_tensor(const struct quant_spec *spec, const struct quant_walk *w, const struct quant_kernels *kernels,
                         const void *codes, const float *scales, const int32_t *zeros, float *x)
{
    bool fast = kernels && dtype_is_integer(spec->type) && dtype_bits(spec->type) <= 8 &&
                (!w->scale_step || spec->mapping == QUANT_SYMMETRIC);
    for (size_t row = 0; row < w->rows; row++) {
        size_t at = row * w->columns;
        if (fast) {
            decode_row_fast(spec, w, kernels, row, (const uint8_t *)codes + at, scales, zeros, x + at);
        } else {
            quant_load_codes(spec->type, codes, at, w->columns, x + at);
            scale_row(w, row, scales, zeros, x + at);
        }
    }
}
