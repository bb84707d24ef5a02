// SPDX-License-Identifier: Apache-2.0
#include "num/block.h"

#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "num/block_kernels.h"
#include "num/quantize_kernels.h"

static const struct block_format table[] = {
    {"mxfp8-e4m3", DT_F8E4M3FN, 0, DT_F8E8M0FNU, 32, false}, {"mxfp8-e5m2", DT_F8E5M2, 0, DT_F8E8M0FNU, 32, false},
    {"mxfp6-e2m3", DT_F6E2M3FN, 0, DT_F8E8M0FNU, 32, false}, {"mxfp6-e3m2", DT_F6E3M2FN, 0, DT_F8E8M0FNU, 32, false},
    {"mxfp4", DT_F4E2M1FN, 0, DT_F8E8M0FNU, 32, false},      {"mxint8", DT_S8, 6, DT_F8E8M0FNU, 32, false},
    {"nvfp4", DT_F4E2M1FN, 0, DT_F8E4M3FN, 16, true},
};
#define ROWS (sizeof table / sizeof *table)

const struct block_format *block_format_at(size_t i)
{
    return i < ROWS ? &table[i] : NULL;
}

const struct block_format *block_format_from_name(const char *name)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    }
    return NULL;
}

double block_element_max(const struct block_format *f)
{
    return ldexp(format_max(format_of(f->element)), -f->fraction);
}

static const char *const rule_names[] = {"floor", "ceil", "even", "rceil"};

const char *block_scale_rule_name(enum block_scale_rule r)
{
    return rule_names[r];
}

bool block_scale_rule_from_name(const char *name, enum block_scale_rule *out)
{
    for (int i = 0; i < 4; i++) {
        if (strcmp(rule_names[i], name) == 0) {
            *out = (enum block_scale_rule)i;
            return true;
        }
    }
    return false;
}

int block_layout(const struct block_format *f, const int64_t *dims, int rank, int axis, const char *name,
                 struct block_layout *out, struct error *err)
{
    memset(out, 0, sizeof *out);
    if (rank < 1 || rank > BLOCK_MAX_RANK)
        return error_set(err, ERR_USAGE, name, "%s takes tensors of 1 to %d axes, not of %d", f->name, BLOCK_MAX_RANK,
                         rank);
    if (axis < 0 || axis >= rank)
        return error_set(err, ERR_USAGE, name, "there is no axis %d among %d axes for the blocks of %s", axis, rank,
                         f->name);
    if (!size_product(dims, rank, &out->elements))
        return error_set(err, ERR_USAGE, name, "the shape is negative or too large");
    if (out->elements == 0)
        return error_set(err, ERR_USAGE, name, "an empty tensor has nothing to quantise");
    memcpy(out->scale_dims, dims, (size_t)rank * sizeof *dims);
    int64_t block = (int64_t)f->block;
    out->scale_dims[axis] = (dims[axis] - 1) / block + 1;
    out->short_block = (size_t)(dims[axis] % block);
    if (!size_product(out->scale_dims, rank, &out->scale_count) ||
        !dtype_bytes(f->element, out->elements, &out->code_bytes) ||
        !size_add(out->scale_count, f->tensor_scale ? sizeof(float) : 0, &out->scale_bytes))
        return error_set(err, ERR_USAGE, name, "the shape is too large");
    out->bits_per_element = 8 * ((double)out->code_bytes + (double)out->scale_bytes) / (double)out->elements;
    return 0;
}

// One block in a tensor: `length` elements from `x` on, `step` apart.
struct block {
    const float *x;
    uint8_t *codes;
    size_t length, step;
};

struct block_amax {
    double largest; // of finite elements
    size_t nan, infinite;
    size_t first; // index within the block of the first that is not finite
};

static struct block_amax measure(const struct block *b)
{
    struct block_amax a = {0};
    if (b->step == 1) {
        uint32_t bits = quant_kernels()->absmax(b->x, b->length);
        if (bits < 0x7f800000u) {
            float largest;
            memcpy(&largest, &bits, sizeof largest);
            a.largest = (double)largest;
            return a;
        }
    }
    for (size_t i = 0; i < b->length; i++) {
        float v = b->x[i * b->step];
        if (!isfinite(v) && a.nan + a.infinite == 0)
            a.first = i;
        if (isnan(v))
            a.nan++;
        else if (isinf(v))
            a.infinite++;
        else
            a.largest = (double)fabsf(v) > a.largest ? (double)fabsf(v) : a.largest;
    }
    return a;
}

// Of a normal number above 0: every f32 above 0 is one in f64.
static int exponent_of(double v)
{
    return (int)(f64_bits(v) >> 52) - 1023;
}

static double power_of_two(int k)
{
    return f64_of_bits((uint64_t)(k + 1023) << 52);
}

// The exponent of an MX scale before it is clamped; amax > 0.
static int scale_exponent(const struct block_format *f, enum block_scale_rule rule, double largest, double amax)
{
    const struct format *element = format_of(f->element);
    int fraction = f->fraction ? f->fraction : element->mantissa_bits, e;
    switch (rule) {
    case BLOCK_SCALE_FLOOR:
        break;
    case BLOCK_SCALE_CEIL:
        return exponent_of(amax) + (power_of_two(exponent_of(amax)) != amax) - exponent_of(largest);
    case BLOCK_SCALE_EVEN:
        // Only a carry into the next power of two matters.
        amax += power_of_two(exponent_of(amax) - fraction - 1);
        break;
    case BLOCK_SCALE_RCEIL:
        e = exponent_of(amax) - exponent_of(largest);
        return e + (amax > largest * power_of_two(e));
    }
    return exponent_of(amax) - exponent_of(largest);
}

// What a call needs of its format, found once.
struct coder {
    const struct block_format *f;
    const struct format *element;
    double values[256];     // of every code
    float values_f32[256];  // the same: elements are few bits
    double largest;         // element
    double max, min_normal; // of elements, before the fraction of an integer
    int bias_gap;           // of a double's exponent and the element's
    const struct block_kernels *kernels;
    struct block_rule rule;
};

static void coder_init(struct coder *c, const struct block_format *f)
{
    c->f = f;
    c->element = format_of(f->element);
    for (unsigned code = 0; code < 256; code++) {
        c->values[code] = ldexp(format_decode(c->element, code), -f->fraction);
        c->values_f32[code] = (float)c->values[code];
    }
    c->largest = block_element_max(f);
    c->max = f->fraction ? ldexp(c->largest, f->fraction) : format_max(c->element);
    c->min_normal = format_min_normal(c->element);
    c->bias_gap = 1023 - c->element->bias;
    c->kernels = block_kernels();
    c->rule = block_rule_of(c->element, f->fraction);
    c->rule.flush_by_result = f->tensor_scale;
}

// The code of |v| rounded to nearest even and clamped: in a sum with the power of two whose last place is that of the
// element, the hardware does the rounding. v is not NaN.
static uint8_t nearest_even(const struct coder *c, double v, struct format_counts *counts)
{
    int m = c->element->mantissa_bits;
    double a = fabs(v), least = c->f->fraction ? 1 : c->min_normal;
    uint64_t exponent = f64_bits(a < least ? least : a) & 0x7ff0000000000000u;
    double unit = c->f->fraction ? 0x1p52 : f64_of_bits(exponent + ((uint64_t)(52 - m) << 52));
    double r = a < 0x1p60 ? (a + unit) - unit : a;
    counts->overflowed += r > c->max;
    counts->flushed += a != 0 && r == 0;
    r = r > c->max ? c->max : r;
    if (c->f->fraction)
        return (uint8_t)r;
    if (r < c->min_normal)
        return (uint8_t)(r / c->min_normal * (double)(1 << m));
    return (uint8_t)((f64_bits(r) >> (52 - m)) - ((uint64_t)c->bias_gap << m));
}

// v = x / scale. Integers by magnitude, so that what is clamped on one side is clamped on the other.
static uint8_t encode_element(const struct coder *c, double v, const struct format_cast *cast,
                              struct format_counts *counts)
{
    double fine = c->f->fraction ? v * (double)(1 << c->f->fraction) : v;
    if (cast->rounding == FORMAT_NEAREST_EVEN) {
        uint8_t code = nearest_even(c, fine, counts);
        if (c->f->fraction)
            return (uint8_t)(v < 0 ? -code : code);
        return (uint8_t)(code | (signbit(v) ? 1u << (c->element->bits - 1) : 0));
    }
    if (!c->f->fraction)
        return (uint8_t)format_encode(c->element, v, cast, counts);
    uint8_t code = (uint8_t)format_encode(c->element, fabs(fine), cast, counts);
    return (uint8_t)(v < 0 ? -code : code);
}

// What an element becomes: the rules of block.h. `scale` is the block's, decoded.
static float decode_value(const struct coder *c, uint8_t code, double scale, float tensor_scale)
{
    double element = c->values[code];
    if (!c->f->tensor_scale)
        return (float)(element * scale);
    float total = tensor_scale * (float)scale;
    return (float)element * total;
}

#define LEAST_TENSOR_SCALE 0x1p-120f
#define LEAST_E4M3_SCALE   0x1p-6f

static float tensor_scale_of(double amax)
{
    if (amax == 0)
        return 1;
    float g = (float)amax / 2688.0f;
    return g < LEAST_TENSOR_SCALE ? LEAST_TENSOR_SCALE : g;
}

static const struct format_cast plain_cast = {FORMAT_NEAREST_EVEN, FORMAT_OVERFLOW_PLAIN, NULL};

// The code of a block's scale, and the factor that takes an input to its element.
static uint8_t choose_scale(const struct coder *c, const struct block_cast *cast, double amax, float g, double *factor,
                            struct block_stats *stats)
{
    const struct block_format *f = c->f;
    if (f->tensor_scale) {
        float s = (float)amax / 6.0f / g, held = fminf(fmaxf(s, LEAST_E4M3_SCALE), 448.0f);
        const struct format *e4m3 = format_of(f->scale);
        uint8_t code = (uint8_t)format_encode(e4m3, (double)held, &plain_cast, NULL);
        stats->clamped_scales += amax > 0 && held != s;
        *factor = (double)(1.0f / g / (float)format_decode(e4m3, code));
        return code;
    }
    int k = amax > 0 ? scale_exponent(f, cast->scale_rule, c->largest, amax) : -127;
    int held = k < -127 ? -127 : k > 127 ? 127 : k;
    stats->clamped_scales += k != held;
    *factor = power_of_two(-held);
    return (uint8_t)(held + 127);
}

// Sums for rel_l2: of blocks whose elements are not neighbours, and of all others, in lanes.
struct squares {
    double error, value;
    struct block_lost lanes;
};

// A block of neighbours, its elements rounded to nearest even.
static void encode_neighbours(const struct coder *c, const struct block *b, float factor, float total,
                              struct block_stats *stats, struct squares *sum)
{
    enum { MOST = 32 };
    float padded[MOST] = {0}, back[MOST];
    uint8_t codes[MOST];
    struct block_counts counts = {0, 0, 0};
    bool whole = b->length % BLOCK_RUN == 0;
    const float *x = whole ? b->x : memcpy(padded, b->x, b->length * sizeof *padded);
    size_t n = (b->length + BLOCK_RUN - 1) / BLOCK_RUN * BLOCK_RUN; // zeros count for nothing
    c->kernels->code(&c->rule, x, n, factor, total, whole ? b->codes : codes, back, &counts);
    if (!whole)
        memcpy(b->codes, codes, b->length);
    c->kernels->lost(b->x, back, b->length, 1, &sum->lanes);
    if (counts.overflowed)
        sum->error = stats->max_abs_error = INFINITY;
    stats->clipped += counts.clipped;
    stats->flushed += counts.flushed;
    stats->overflowed += counts.overflowed;
}

static void encode_block(const struct coder *c, const struct block_cast *cast, const struct block *b, float g,
                         uint8_t *scale, struct block_stats *stats, struct squares *sum)
{
    const struct block_format *f = c->f;
    struct block_amax a = measure(b);
    const struct format *scale_format = format_of(f->scale);
    if (a.nan + a.infinite) {
        stats->nan_blocks++;
        *scale = (uint8_t)format_nan_code(scale_format);
        for (size_t i = 0; i < b->length; i++)
            b->codes[i * b->step] = 0;
        return;
    }
    stats->zero_blocks += a.largest == 0;
    double factor;
    *scale = choose_scale(c, cast, a.largest, g, &factor, stats);
    double held = f->tensor_scale ? format_decode(scale_format, *scale) : power_of_two(*scale - 127);
    double total = f->tensor_scale ? (double)(g * (float)held) : held;
    stats->scale_min = fmin(stats->scale_min, total); // a NaN gives way
    stats->scale_max = fmax(stats->scale_max, total);
    if (b->step == 1 && cast->rounding == FORMAT_NEAREST_EVEN) {
        encode_neighbours(c, b, (float)factor, (float)total, stats, sum);
        return;
    }
    struct format_cast element = {cast->rounding, FORMAT_OVERFLOW_SATURATE, cast->stream};
    struct format_counts counts = {0};
    for (size_t i = 0; i < b->length; i++) {
        float x = b->x[i * b->step];
        double v = f->tensor_scale ? (double)(x * (float)factor) : (double)x * factor;
        uint8_t code = encode_element(c, v, &element, &counts);
        b->codes[i * b->step] = code;
        float back = decode_value(c, code, held, g);
        stats->overflowed += isinf(back) != 0;
        double error = fabs((double)back - (double)x);
        sum->error += error * error;
        sum->value += (double)x * (double)x;
        stats->max_abs_error = error > stats->max_abs_error ? error : stats->max_abs_error;
    }
    stats->clipped += counts.overflowed + counts.infinite; // a product may leave f32
    stats->flushed += counts.flushed;
}

// The tensor's shape as outer x length x inner around the axis.
struct walk {
    size_t outer, length, inner, blocks;
};

static struct walk walk_of(const struct block_format *f, const int64_t *dims, int rank, int axis)
{
    struct walk w = {1, (size_t)dims[axis], 1, (size_t)(dims[axis] - 1) / f->block + 1};
    for (int i = 0; i < rank; i++) {
        if (i != axis)
            *(i < axis ? &w.outer : &w.inner) *= (size_t)dims[i];
    }
    return w;
}

// Block `at` of the scales, in their order. `first` is the index of its first element in the tensor.
static struct block block_at(const struct block_format *f, const struct walk *w, size_t at, size_t *first)
{
    size_t i = at % w->inner, k = at / w->inner % w->blocks, o = at / w->inner / w->blocks;
    size_t begin = k * f->block, left = w->length - begin;
    *first = (o * w->length + begin) * w->inner + i;
    return (struct block){NULL, NULL, left < f->block ? left : f->block, w->inner};
}

int block_encode(const struct block_format *f, const struct block_cast *cast, const int64_t *dims, int rank, int axis,
                 const float *x, uint8_t *codes, uint8_t *scales, float *tensor_scale, struct block_stats *stats,
                 const char *name, struct error *err)
{
    struct block_layout layout;
    int rc = block_layout(f, dims, rank, axis, name, &layout, err);
    if (rc)
        return rc;
    if (cast->tensor_scale != 0 && !(cast->tensor_scale >= LEAST_TENSOR_SCALE && isfinite(cast->tensor_scale)))
        return error_set(err, ERR_USAGE, name, "a tensor scale of %.9g is not a finite number from 2^-120 on",
                         (double)cast->tensor_scale);
    struct walk w = walk_of(f, dims, rank, axis);
    struct block_stats s = {.elements = layout.elements, .scale_min = (double)NAN, .scale_max = (double)NAN};
    double largest = 0;
    for (size_t at = 0; at < layout.scale_count; at++) {
        size_t first;
        struct block b = block_at(f, &w, at, &first);
        b.x = x + first;
        struct block_amax a = measure(&b);
        s.nan += a.nan;
        s.infinite += a.infinite;
        if (a.nan + a.infinite == 0)
            largest = fmax(largest, a.largest);
        else if (cast->refuse_not_finite)
            return error_set(
                err, ERR_INPUT, name,
                "element %zu is %s, and its block of %s would be NaN: clean the tensor or let such blocks be",
                first + a.first * b.step, isnan(b.x[a.first * b.step]) ? "NaN" : "infinite", f->name);
    }
    struct coder c;
    coder_init(&c, f);
    float g = !f->tensor_scale ? 1 : cast->tensor_scale != 0 ? cast->tensor_scale : tensor_scale_of(largest);
    struct squares sum = {0};
    for (size_t at = 0; at < layout.scale_count; at++) {
        size_t first;
        struct block b = block_at(f, &w, at, &first);
        b.x = x + first;
        b.codes = codes + first;
        encode_block(&c, cast, &b, g, &scales[at], &s, &sum);
    }
    sum.error += quant_lanes_sum(sum.lanes.error2);
    sum.value += quant_lanes_sum(sum.lanes.reference2);
    for (size_t i = 0; i < BLOCK_LANES; i++)
        s.max_abs_error = fmax(s.max_abs_error, sum.lanes.worst[i]);
    s.rel_l2 = sum.value > 0 ? sqrt(sum.error / sum.value) : (double)NAN;
    *tensor_scale = g;
    if (stats)
        *stats = s;
    return 0;
}

int block_decode(const struct block_format *f, const int64_t *dims, int rank, int axis, const uint8_t *codes,
                 const uint8_t *scales, float tensor_scale, float *x, const char *name, struct error *err)
{
    struct block_layout layout;
    int rc = block_layout(f, dims, rank, axis, name, &layout, err);
    if (rc)
        return rc;
    struct walk w = walk_of(f, dims, rank, axis);
    struct coder c;
    coder_init(&c, f);
    for (size_t at = 0; at < layout.scale_count; at++) {
        size_t first;
        struct block b = block_at(f, &w, at, &first);
        float scale = (float)format_decode(format_of(f->scale), scales[at]);
        float total = f->tensor_scale ? tensor_scale * scale : scale;
        for (size_t i = 0; i < b.length; i++) {
            size_t e = first + i * b.step;
            x[e] = c.values_f32[codes[e]] * total;
        }
    }
    return 0;
}
