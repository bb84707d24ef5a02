// SPDX-License-Identifier: Apache-2.0
#include "num/quantize_array.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "num/convert.h"
#include "num/convert_block.h"
#include "num/convert_kernels.h"
#include "num/quantize_internal.h"
#include "num/quantize_kernels.h"

enum {
    PIECE = 4096,            // elements that are worked on in the first-level cache; even
    TURN = 1024,             // elements of short runs that are looked at before they are encoded
    SHORT_RUN = 1024,        // runs up to this length are scaled many at a time
    RANGE = 1 << 16,         // elements that a thread takes at once
    STREAM_BYTES = 4 << 20,  // results of this size are written around the caches
    STRIPE_BYTES = 8 << 20,  // of columns: fits in a last-level cache between its two passes
    STRIPE_COLUMNS = 1 << 12 // of which partial maxima fit on the stack
};

// Buffers begin where a cache line does: registers of a whole line would else take two each.
#define LINE _Alignas(64)

// How elements meet their scales.
enum meeting {
    RUNS,    // one scale for each `length` consecutive elements
    COLUMNS, // one for each index of the last axis
    OTHER    // not covered
};

struct work {
    const struct quant_spec *spec;
    const struct quant_kernels *k;
    const struct convert_kernels *convert;
    struct quant_rule rule;
    bool plain; // scale = amax / divisor in f32, and no more
    float divisor;
    enum meeting meeting;
    size_t elements, length, columns;
    bool packed, stream;
    enum dtype type; // of x
    size_t type_bytes;
    const uint8_t *x_in;
    uint8_t *x_out;
    const uint8_t *codes_in;
    uint8_t *codes_out;
    float *scales;
    const float *scales_in;
    const int32_t *zeros_in;
    size_t column, width; // the stripe
    atomic_bool nonfinite;
    _Atomic uint32_t absmax[STRIPE_COLUMNS]; // of its columns, or one
};

static enum meeting meet(const struct quant_spec *spec, const int64_t *dims, int rank, size_t elements, size_t *length,
                         size_t *columns)
{
    size_t last = rank ? (size_t)dims[rank - 1] : 1;
    *columns = last;
    switch (spec->granularity) {
    case QUANT_PER_TENSOR:
        *length = elements;
        return RUNS;
    case QUANT_PER_CHANNEL:
        if (spec->channel_axis == 0) {
            *length = elements / (size_t)dims[0];
            return RUNS;
        }
        return spec->channel_axis == rank - 1 ? COLUMNS : OTHER;
    case QUANT_PER_GROUP:
        *length = (size_t)spec->group;
        return spec->group_axis == rank - 1 && last % (size_t)spec->group == 0 ? RUNS : OTHER;
    case QUANT_PER_BLOCK:
        break;
    }
    return OTHER;
}

// False: not covered. What holds for both directions.
static bool work_init(struct work *w, const struct quant_spec *spec, const int64_t *dims, int rank,
                      const struct quant_layout *l, enum dtype type)
{
    int bits = dtype_bits(spec->type);
    *w = (struct work){.spec = spec,
                       .k = quant_kernels(),
                       .convert = convert_kernels(),
                       .elements = l->elements,
                       .packed = bits < 8,
                       .type = type,
                       .type_bytes = (size_t)dtype_bits(type) / 8};
    w->meeting = meet(spec, dims, rank, l->elements, &w->length, &w->columns);
    if (!dtype_is_integer(spec->type) || (bits != 8 && bits != 4) || w->meeting == OTHER)
        return false;
    // Two codes share a byte: both must belong to one run, and to one row.
    if (w->packed && (w->columns % 2 || (w->meeting == RUNS && w->length % 2)))
        return false;
    double low, high;
    quant_code_limits(spec, &low, &high);
    bool has_sign = dtype_info(spec->type)->kind == DTK_SIGNED;
    w->rule = (struct quant_rule){(int)low, (int)high, has_sign ? 0 : 1 << (bits - 1)};
    return true;
}

static bool encodes(const struct quant_spec *spec)
{
    return spec->mapping == QUANT_SYMMETRIC && spec->rounding == QUANT_HALF_EVEN && !spec->reciprocal &&
           spec->zero_order == QUANT_ZERO_AFTER_ROUNDING && spec->from == QUANT_FROM_ABSMAX;
}

static void make_scales(const struct work *w, const uint32_t *absmax, size_t n, float *scales)
{
    if (!w->plain) {
        for (size_t i = 0; i < n; i++) {
            struct quant_stats ignored = {0};
            int32_t zero;
            quant_scale_of_range(w->spec, 0, (double)f32_of_bits(absmax[i]), &scales[i], &zero, &ignored);
        }
        return;
    }
    const void *src = absmax;
    void *dst = scales;
    float divisor = w->divisor;
    CONVERT_EACH(uint32_t, uint32_t,
                 pick(v == 0, 0x3f800000u,
                      pick(f32_of_bits(v) / divisor < FLT_MIN, 0x00800000u, f32_bits(f32_of_bits(v) / divisor))))
}

// n elements from `at` on as f32: where they lie, or widened into `made`.
static const float *values(const struct work *w, size_t at, size_t n, float *made)
{
    const uint8_t *from = w->x_in + at * w->type_bytes;
    if (w->type == DT_F32)
        return (const float *)(const void *)from;
    (w->type == DT_BF16 ? w->convert->f32_bf16 : w->convert->f32_f16)(made, from, n, false);
    return made;
}

// Where n <= PIECE codes are written, one to a byte: their place, or `made` when they are still to be packed by
// put_codes. They are a small part of what is moved: around the caches they would go no faster.
static uint8_t *codes_place(const struct work *w, size_t at, uint8_t *made)
{
    return w->packed ? made : w->codes_out + at;
}

static void put_codes(const struct work *w, size_t at, size_t n, const uint8_t *codes)
{
    if (w->packed)
        w->k->pack4(codes, n, w->codes_out + at / 2);
}

static uint32_t absmax_of(const struct work *w, size_t at, size_t n)
{
    LINE float made[PIECE];
    uint32_t most = 0;
    if (w->type == DT_F32)
        return w->k->absmax(values(w, at, n, NULL), n);
    for (size_t i = 0; i < n; i += PIECE) {
        size_t k = n - i < PIECE ? n - i : PIECE;
        uint32_t m = w->k->absmax(values(w, at + i, k, made), k);
        most = m > most ? m : most;
    }
    return most;
}

static void encode_span(const struct work *w, size_t at, size_t n, float scale)
{
    LINE float made[PIECE];
    LINE uint8_t codes[PIECE];
    for (size_t i = 0; i < n; i += PIECE) {
        size_t k = n - i < PIECE ? n - i : PIECE;
        w->k->encode(&w->rule, values(w, at + i, k, made), k, scale, codes_place(w, at + i, codes), NULL);
        put_codes(w, at + i, k, codes);
    }
}

// While one run is encoded from the cache memory would be idle: the next one is looked at meanwhile.
static uint32_t encode_and_look_ahead(const struct work *w, size_t at, size_t n, float scale, size_t ahead)
{
    LINE uint8_t codes[PIECE];
    uint32_t most = 0;
    for (size_t i = 0; i < n; i += PIECE) {
        size_t k = n - i < PIECE ? n - i : PIECE;
        const float *next = values(w, ahead + i, k, NULL);
        uint32_t m = w->k->encode_ahead(&w->rule, values(w, at + i, k, NULL), k, scale, codes_place(w, at + i, codes),
                                        next, w->stream && !w->packed);
        most = m > most ? m : most;
        put_codes(w, at + i, k, codes);
    }
    return most;
}

static void encode_long_runs(void *context, size_t from, size_t to)
{
    struct work *w = context;
    uint32_t next = absmax_of(w, from * w->length, w->length);
    for (size_t r = from; r < to; r++) {
        size_t at = r * w->length, ahead = at + w->length;
        if (next >= 0x7f800000u) {
            atomic_store(&w->nonfinite, true);
            break;
        }
        make_scales(w, &next, 1, &w->scales[r]);
        if (r + 1 < to && w->type == DT_F32) {
            next = encode_and_look_ahead(w, at, w->length, w->scales[r], ahead);
        } else {
            encode_span(w, at, w->length, w->scales[r]);
            next = r + 1 < to ? absmax_of(w, ahead, w->length) : 0;
        }
    }
    w->convert->fence();
}

static void encode_short_runs(void *context, size_t from, size_t to)
{
    struct work *w = context;
    size_t many = TURN / w->length;
    LINE float made[PIECE];
    LINE uint8_t codes[PIECE];
    LINE uint32_t absmax[PIECE];
    for (size_t r = from; r < to;) {
        size_t n = to - r < many ? to - r : many, at = r * w->length;
        const float *x = values(w, at, n * w->length, made);
        w->k->absmax_groups(x, n, w->length, absmax);
        for (size_t i = 0; i < n; i++) {
            if (absmax[i] >= 0x7f800000u) {
                atomic_store(&w->nonfinite, true);
                return;
            }
        }
        make_scales(w, absmax, n, w->scales + r);
        w->k->encode_groups(&w->rule, x, n, w->length, w->scales + r, codes_place(w, at, codes), NULL);
        put_codes(w, at, n * w->length, codes);
        r += n;
    }
    w->convert->fence();
}

static void raise(_Atomic uint32_t *to, uint32_t v)
{
    uint32_t was = atomic_load_explicit(to, memory_order_relaxed);
    while (was < v && !atomic_compare_exchange_weak(to, &was, v))
        ;
}

static void absmax_range(void *context, size_t from, size_t to)
{
    struct work *w = context;
    raise(&w->absmax[0], absmax_of(w, from, to - from));
}

static void encode_range(void *context, size_t from, size_t to)
{
    struct work *w = context;
    encode_span(w, from, to - from, w->scales[0]);
    w->convert->fence();
}

// Rows [from, to) of the stripe.
static void absmax_stripe(void *context, size_t from, size_t to)
{
    struct work *w = context;
    LINE float made[PIECE];
    LINE uint32_t absmax[STRIPE_COLUMNS] = {0};
    for (size_t r = from; r < to; r++)
        w->k->absmax_columns(values(w, r * w->columns + w->column, w->width, made), w->width, absmax);
    for (size_t i = 0; i < w->width; i++)
        raise(&w->absmax[i], absmax[i]);
}

static void encode_stripe(void *context, size_t from, size_t to)
{
    struct work *w = context;
    LINE float made[PIECE];
    LINE uint8_t codes[PIECE];
    for (size_t r = from; r < to; r++) {
        size_t at = r * w->columns + w->column;
        w->k->encode_columns(&w->rule, values(w, at, w->width, made), w->width, w->scales + w->column,
                             codes_place(w, at, codes), NULL, NULL);
        put_codes(w, at, w->width, codes);
    }
    w->convert->fence();
}

static void encode_columns(struct work *w, struct threads *threads)
{
    size_t rows = w->elements / w->columns, column_bytes = rows * w->type_bytes;
    size_t width = column_bytes ? STRIPE_BYTES / column_bytes : 0;
    width = width < 64 ? 64 : width > STRIPE_COLUMNS ? STRIPE_COLUMNS : width - width % 64;
    for (w->column = 0; w->column < w->columns && !w->nonfinite; w->column += w->width) {
        size_t left = w->columns - w->column;
        w->width = left < width ? left : width;
        size_t grain = RANGE / w->width + rows / 16 + 1; // few ranges: each is merged with the others
        for (size_t i = 0; i < w->width; i++)
            atomic_store(&w->absmax[i], 0);
        threads_for(threads, rows, grain, absmax_stripe, w);
        LINE uint32_t absmax[STRIPE_COLUMNS];
        for (size_t i = 0; i < w->width; i++) {
            absmax[i] = w->absmax[i];
            if (absmax[i] >= 0x7f800000u)
                w->nonfinite = true;
        }
        make_scales(w, absmax, w->width, w->scales + w->column);
        threads_for(threads, rows, grain, encode_stripe, w);
    }
}

// False when something is not finite: what is to be done then quantize() knows.
static bool encode_all(struct work *w, struct threads *threads)
{
    if (w->meeting == COLUMNS) {
        encode_columns(w, threads);
    } else if (w->length == w->elements) { // one scale
        threads_for(threads, w->elements, RANGE, absmax_range, w);
        uint32_t absmax = w->absmax[0];
        if (absmax >= 0x7f800000u)
            return false;
        make_scales(w, &absmax, 1, w->scales);
        threads_for(threads, w->elements, RANGE, encode_range, w);
    } else {
        bool brief = w->length <= SHORT_RUN;
        threads_for(threads, w->elements / w->length, RANGE / w->length + 1,
                    brief ? encode_short_runs : encode_long_runs, w);
    }
    return !w->nonfinite;
}

static int check_type(enum dtype type, const char *name, struct error *err)
{
    if (type == DT_F32 || type == DT_F16 || type == DT_BF16)
        return 0;
    return error_set(err, ERR_USAGE, name, "%s values are not quantised: f32, f16 and bf16 are", dtype_name(type));
}

// What quantize() takes and gives in place of arrays of other types. Both are NULL where the caller's do.
struct detour {
    float *x;
    void *codes;
};

static int detour_init(struct detour *d, const struct quant_spec *spec, const struct quant_layout *l, enum dtype type,
                       const char *name, struct error *err)
{
    bool packed = dtype_bits(spec->type) < 8;
    d->x = type == DT_F32 ? NULL : malloc(l->elements * sizeof *d->x);
    d->codes = packed ? malloc(l->elements) : NULL;
    if ((type == DT_F32 || d->x) && (!packed || d->codes))
        return 0;
    return error_set(err, ERR_MEMORY, name, "no memory for %zu elements", l->elements);
}

static void detour_release(struct detour *d)
{
    free(d->x);
    free(d->codes);
}

int quantize_array(const struct quant_spec *spec, const int64_t *dims, int rank, enum dtype from, const void *x,
                   void *codes, float *scales, int32_t *zeros, struct threads *threads, const char *name,
                   struct error *err)
{
    struct quant_layout l;
    struct work w;
    int rc = quant_layout(spec, dims, rank, name, &l, err);
    if (!rc)
        rc = check_type(from, name, err);
    if (rc)
        return rc;
    if (work_init(&w, spec, dims, rank, &l, from) && encodes(spec) && (zeros || !l.has_zeros)) {
        w.plain = spec->divisor == QUANT_BY_QMAX && (spec->scale_type == DT_INVALID || spec->scale_type == DT_F32);
        w.divisor = (float)(w.rule.high - w.rule.zero);
        w.stream = l.code_bytes >= STREAM_BYTES;
        w.x_in = x;
        w.codes_out = codes;
        w.scales = scales;
        if (encode_all(&w, threads)) {
            for (size_t i = 0; zeros && i < l.scale_count; i++)
                zeros[i] = w.rule.zero;
            return 0;
        }
    }
    struct detour d;
    struct quant_stats ignored;
    int64_t one = 1;
    rc = detour_init(&d, spec, &l, from, name, err);
    if (!rc && d.x)
        rc = convert_elements(DT_F32, d.x, from, x, l.elements, err);
    if (!rc)
        rc = quantize(spec, dims, rank, d.x ? d.x : x, d.codes ? d.codes : codes, scales, zeros, &ignored, name, err);
    if (!rc && d.codes)
        rc = rank ? quant_pack(spec->type, dims, rank, rank - 1, d.codes, codes, err)
                  : quant_pack(spec->type, &one, 1, 0, d.codes, codes, err);
    detour_release(&d);
    return rc;
}

// --- back

static const uint8_t *get_codes(const struct work *w, size_t at, size_t n, uint8_t *made)
{
    if (!w->packed)
        return w->codes_in + at;
    w->k->unpack4(w->codes_in + at / 2, n, w->rule.low < 0, made);
    return made;
}

// Where n <= PIECE values are decoded to: their place, or `made` when they are still to be narrowed by put_values.
static float *values_place(const struct work *w, size_t at, float *made)
{
    return w->type == DT_F32 ? (float *)(void *)(w->x_out + at * sizeof(float)) : made;
}

static void put_values(const struct work *w, size_t at, size_t n, const float *x)
{
    if (w->type != DT_F32) // the pair is possible, and no rule refuses
        convert_elements(w->type, w->x_out + at * w->type_bytes, DT_F32, x, n, NULL);
}

static void decode_long_runs(void *context, size_t from, size_t to)
{
    const struct work *w = context;
    LINE float x[PIECE];
    LINE uint8_t made[PIECE];
    for (size_t at = from; at < to;) {
        size_t run = at / w->length, end = (run + 1) * w->length;
        end = end < to ? end : to;
        size_t n = end - at < PIECE ? end - at : PIECE;
        struct quant_rule rule = w->rule;
        float *values = values_place(w, at, x);
        rule.zero = w->zeros_in ? w->zeros_in[run] : 0;
        w->k->decode(&rule, get_codes(w, at, n, made), n, w->scales_in[run], values, w->stream);
        put_values(w, at, n, values);
        at += n;
    }
    w->convert->fence();
}

static void decode_short_runs(void *context, size_t from, size_t to)
{
    const struct work *w = context;
    size_t many = PIECE / w->length;
    LINE float x[PIECE];
    LINE uint8_t made[PIECE];
    for (size_t r = from; r < to;) {
        size_t n = to - r < many ? to - r : many, at = r * w->length;
        const uint8_t *codes = get_codes(w, at, n * w->length, made);
        float *values = values_place(w, at, x);
        if (!w->zeros_in)
            w->k->decode_groups(&w->rule, codes, n, w->length, w->scales_in + r, values, w->stream);
        for (size_t i = 0; w->zeros_in && i < n; i++) {
            struct quant_rule rule = w->rule;
            rule.zero = w->zeros_in[r + i];
            w->k->decode(&rule, codes + i * w->length, w->length, w->scales_in[r + i], values + i * w->length,
                         w->stream);
        }
        put_values(w, at, n * w->length, values);
        r += n;
    }
    w->convert->fence();
}

// Rows.
static void decode_columns(void *context, size_t from, size_t to)
{
    const struct work *w = context;
    LINE float x[PIECE];
    LINE uint8_t made[PIECE];
    for (size_t r = from; r < to; r++) {
        for (size_t i = 0; i < w->columns; i += PIECE) {
            size_t n = w->columns - i < PIECE ? w->columns - i : PIECE, at = r * w->columns + i;
            float *values = values_place(w, at, x);
            w->k->decode_columns(&w->rule, get_codes(w, at, n, made), n, w->scales_in + i, values, w->stream);
            put_values(w, at, n, values);
        }
    }
    w->convert->fence();
}

// Scales without zero points are looked at many at a time; the other way finds the one that is wrong.
static int check_scales(const struct quant_spec *spec, const struct quant_layout *l, const float *scales,
                        const int32_t *zeros, const char *name, struct error *err)
{
    bool good = !l->has_zeros;
    for (size_t i = 0; good && i < l->scale_count; i += PIECE) {
        size_t n = l->scale_count - i < PIECE ? l->scale_count - i : PIECE;
        good = quant_kernels()->extent(scales + i, n).min > 0 && quant_kernels()->absmax(scales + i, n) < 0x7f800000u;
    }
    return good ? 0 : quant_check_scales(spec, l, scales, zeros, name, err);
}

int dequantize_array(const struct quant_spec *spec, const int64_t *dims, int rank, const void *codes,
                     const float *scales, const int32_t *zeros, enum dtype to, void *x, struct threads *threads,
                     const char *name, struct error *err)
{
    struct quant_layout l;
    struct work w;
    int rc = quant_layout(spec, dims, rank, name, &l, err);
    if (!rc)
        rc = check_type(to, name, err);
    if (!rc)
        rc = check_scales(spec, &l, scales, zeros, name, err);
    if (rc)
        return rc;
    if (work_init(&w, spec, dims, rank, &l, to) && (zeros || !l.has_zeros) && !(w.meeting == COLUMNS && l.has_zeros)) {
        w.stream = to == DT_F32 && l.elements * w.type_bytes >= STREAM_BYTES;
        w.x_out = x;
        w.codes_in = codes;
        w.scales_in = scales;
        w.zeros_in = l.has_zeros ? zeros : NULL;
        w.rule.zero = 0;
        if (w.meeting == COLUMNS)
            threads_for(threads, l.elements / w.columns, RANGE / w.columns + 1, decode_columns, &w);
        else if (w.length <= SHORT_RUN)
            threads_for(threads, l.elements / w.length, RANGE / w.length + 1, decode_short_runs, &w);
        else
            threads_for(threads, l.elements, RANGE, decode_long_runs, &w);
        return 0;
    }
    struct detour d;
    int64_t one = 1;
    rc = detour_init(&d, spec, &l, to, name, err);
    if (!rc && d.codes)
        rc = rank ? quant_unpack(spec->type, dims, rank, rank - 1, codes, d.codes, err)
                  : quant_unpack(spec->type, &one, 1, 0, codes, d.codes, err);
    if (!rc)
        rc = dequantize(spec, dims, rank, d.codes ? d.codes : codes, scales, zeros, d.x ? d.x : x, name, err);
    if (!rc && d.x)
        rc = convert_elements(to, x, DT_F32, d.x, l.elements, err);
    detour_release(&d);
    return rc;
}
