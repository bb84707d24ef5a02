// SPDX-License-Identifier: Apache-2.0
// A conversion is at most two steps through f32 or f64. Sources of which f32 holds every value are widened to it; f64
// and the larger integers are narrowed to it with round-to-odd when another rounding follows.
#include "num/convert.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "num/convert_block.h"
#include "num/convert_kernels.h"
#include "num/isa.h"
#include "num/quantize_kernels.h"

const struct convert_kernels *convert_kernels(void)
{
    switch (isa_in_force()) {
#if defined(__x86_64__)
    case ISA_AMX:
    case ISA_AVX512_BF16:
        return &convert_kernels_avx512_bf16;
    case ISA_AVX512:
        return &convert_kernels_avx512;
    case ISA_AVX2:
        return &convert_kernels_avx2;
#elif defined(__aarch64__)
    case ISA_NEON:
        return &convert_kernels_neon;
#endif
    default:
        return &convert_kernels_portable;
    }
}

// --- integers and pred: f32 holds those of 16 bits and less, f64 those of 32

typedef void convert_fn(void *dst, const void *src, size_t n);

#define LOOP(function, to, from, expression)                                                                           \
    static void function(void *dst, const void *src, size_t n) CONVERT_EACH(to, from, expression)

// A 64-bit integer as a double with round-to-odd: the last rounding must be the only one.
static double odd_from_u64(uint64_t v)
{
    int excess = v ? 64 - 53 - __builtin_clzll(v) : 0;
    if (excess <= 0)
        return (double)v;
    uint64_t lost = (v & (((uint64_t)1 << excess) - 1)) != 0;
    return (double)(((v >> excess) | lost) << excess);
}

static double odd_from_s64(int64_t v)
{
    return v < 0 ? -odd_from_u64(0 - (uint64_t)v) : odd_from_u64((uint64_t)v);
}

// The nearest integer in [low, high], which f64 must hold; NaN gives 0. Ties to even, by a sum that has no room for a
// fraction (|v| < 2^51).
static inline double nearest(double v, double low, double high)
{
    v = v < low ? low : v;
    v = v > high ? high : v;
    return v == v ? (v + 0x1.8p52) - 0x1.8p52 : 0;
}

static inline int64_t s64_from_f64(double v)
{
    return v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : v == v ? (int64_t)rint(v) : 0;
}

static inline uint64_t u64_from_f64(double v)
{
    return v >= 0x1p64 ? UINT64_MAX : v > 0 ? (uint64_t)rint(v) : 0;
}

LOOP(f32_pred, float, uint8_t, v != 0)
LOOP(f32_s8, float, int8_t, v)
LOOP(f32_s16, float, int16_t, v)
LOOP(f32_u8, float, uint8_t, v)
LOOP(f32_u16, float, uint16_t, v)
LOOP(f64_s32, double, int32_t, v)
LOOP(f64_u32, double, uint32_t, v)
LOOP(f64_s64, double, int64_t, v)
LOOP(f64_u64, double, uint64_t, v)
LOOP(odd_s64, double, int64_t, odd_from_s64(v))
LOOP(odd_u64, double, uint64_t, odd_from_u64(v))

LOOP(pred_f64, uint8_t, double, v != 0)
LOOP(s8_f64, int8_t, double, nearest(v, INT8_MIN, INT8_MAX))
LOOP(u8_f64, uint8_t, double, nearest(v, 0, UINT8_MAX))
LOOP(s4_f64, int8_t, double, nearest(v, -8, 7))
LOOP(u4_f64, uint8_t, double, nearest(v, 0, 15))
LOOP(s2_f64, int8_t, double, nearest(v, -2, 1))
LOOP(u2_f64, uint8_t, double, nearest(v, 0, 3))
LOOP(s16_f64, int16_t, double, nearest(v, INT16_MIN, INT16_MAX))
LOOP(u16_f64, uint16_t, double, nearest(v, 0, UINT16_MAX))
LOOP(s32_f64, int32_t, double, nearest(v, INT32_MIN, INT32_MAX))
LOOP(u32_f64, uint32_t, double, nearest(v, 0, UINT32_MAX))
LOOP(s64_f64, int64_t, double, s64_from_f64(v))
LOOP(u64_f64, uint64_t, double, u64_from_f64(v))
LOOP(s64_u64, int64_t, uint64_t, v > INT64_MAX ? INT64_MAX : v)
LOOP(u64_s64, uint64_t, int64_t, v < 0 ? 0 : v)

// Per type that is no float: its way to f32, else to f64 (as such, and with round-to-odd), and from f64. Types of less
// than a byte are here one to a byte.
static const struct {
    convert_fn *to_f32, *to_f64, *to_f64_odd, *from_f64;
} plain[DT_COUNT] = {
    [DT_PRED] = {f32_pred, NULL, NULL, pred_f64}, [DT_S2] = {f32_s8, NULL, NULL, s2_f64},
    [DT_S4] = {f32_s8, NULL, NULL, s4_f64},       [DT_S8] = {f32_s8, NULL, NULL, s8_f64},
    [DT_S16] = {f32_s16, NULL, NULL, s16_f64},    [DT_S32] = {NULL, f64_s32, f64_s32, s32_f64},
    [DT_S64] = {NULL, f64_s64, odd_s64, s64_f64}, [DT_U2] = {f32_u8, NULL, NULL, u2_f64},
    [DT_U4] = {f32_u8, NULL, NULL, u4_f64},       [DT_U8] = {f32_u8, NULL, NULL, u8_f64},
    [DT_U16] = {f32_u16, NULL, NULL, u16_f64},    [DT_U32] = {NULL, f64_u32, f64_u32, u32_f64},
    [DT_U64] = {NULL, f64_u64, odd_u64, u64_f64},
};

// --- floats of at most 16 bits

// The value of a magnitude's code as if the format had no specials: what arithmetic makes that code from.
static double natural(const struct format *f, uint64_t code)
{
    int field = (int)(code >> f->mantissa_bits), first = 1 - f->bias - f->mantissa_bits;
    uint64_t fraction = code & (((uint64_t)1 << f->mantissa_bits) - 1), hidden = (uint64_t)1 << f->mantissa_bits;
    return field ? ldexp((double)(fraction + hidden), field - 1 + first) : ldexp((double)fraction, first);
}

static void narrow_rule(const struct format *f, enum format_overflow overflow, struct convert_narrow *r)
{
    uint64_t max = format_max_code(f);
    float tie = (float)((natural(f, max) + natural(f, max + 1)) / 2); // exact: one bit more than the format has
    uint32_t largest = f32_bits((float)natural(f, max)), infinity, nan;
    if (f->bits == 16) { // made by instructions that know the specials
        infinity = 0x7f800000u;
        nan = 0x7fc00000u;
    } else {
        bool has_infinity = f->infinity == FORMAT_INFINITY_IEEE, has_nan = f->nan != FORMAT_NAN_NONE;
        uint64_t code = has_infinity ? format_infinity_code(f) : has_nan ? format_nan_code(f) : max;
        infinity = f32_bits((float)natural(f, code));
        nan = f32_bits((float)natural(f, format_nan_code(f)));
    }
    bool saturate = overflow == FORMAT_OVERFLOW_SATURATE, finite = overflow == FORMAT_OVERFLOW_SATURATE_FINITE;
    *r = (struct convert_narrow){
        .special_from = f32_bits(tie) + !(max & 1), // a tie goes to the even code
        .over = saturate || finite ? largest : infinity,
        .inf = saturate ? largest : infinity,
        .nan = nan,
        .sign = f->bits - 1,
        .mantissa = f->mantissa_bits,
        .min_exponent = (uint32_t)(128 - f->bias),
        .signed_zero = f->zero == FORMAT_ZERO_SIGNED ? UINT32_MAX : 0,
    };
    if (f->bits == 16 && overflow == FORMAT_OVERFLOW_PLAIN)
        r->special_from = 0x7f800001u; // they know how to overflow, too
}

// --- the plan of one call

enum {
    CHUNK = 1024
}; // elements at a time through buffers on the stack; a multiple of 8, so that packed bytes do not meet

// Buffers begin where a cache line does: registers of a whole line would else take two each.
#define LINE _Alignas(64)

struct plan {
    enum dtype to, from;
    const struct convert_kernels *k;
    const struct format *to_format, *from_format; // NULL as format_of
    const struct convert_narrow *rule;
    void (*narrow)(void *dst, const void *src, size_t n, const struct convert_narrow *rule, bool stream);
    const uint32_t *table; // f32 of each code of a source of at most 8 bits
    struct format_cast cast;
    uint8_t *dst;
    const uint8_t *src;
    bool stream;
};

// Float formats that the kernels narrow to: all of at most 16 bits but e8m0.
static bool is_narrow(const struct format *f)
{
    return f && !format_is_integer(f) && f->bits <= 16 && f->mantissa_bits > 0;
}

static bool is_table(const struct format *f)
{
    return f && !format_is_integer(f) && f->bits <= 8;
}

// What is made once for each type, at its first use.
struct type_facts {
    atomic_bool ready;
    struct convert_narrow rules[FORMAT_OVERFLOW_ERROR + 1]; // by overflow
    uint32_t table[256];
};

static const struct type_facts *type_facts(enum dtype t)
{
    static struct type_facts all[DT_COUNT];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct type_facts *facts = &all[t];
    if (atomic_load_explicit(&facts->ready, memory_order_acquire))
        return facts;
    const struct format *f = format_of(t);
    pthread_mutex_lock(&lock);
    for (int overflow = 0; is_narrow(f) && overflow <= FORMAT_OVERFLOW_ERROR; overflow++)
        narrow_rule(f, (enum format_overflow)overflow, &facts->rules[overflow]);
    for (unsigned c = 0; is_table(f) && c < 256; c++)
        facts->table[c] = f32_bits((float)format_decode(f, c));
    atomic_store_explicit(&facts->ready, true, memory_order_release);
    pthread_mutex_unlock(&lock);
    return facts;
}

static void plan_init(struct plan *p, enum dtype to, enum dtype from, enum format_overflow overflow)
{
    p->to = to;
    p->from = from;
    p->to_format = format_of(to);
    p->from_format = format_of(from);
    p->cast = (struct format_cast){.rounding = FORMAT_NEAREST_EVEN, .overflow = overflow};
    if (is_narrow(p->to_format)) {
        p->rule = &type_facts(to)->rules[overflow];
        p->narrow = to == DT_BF16 ? p->k->bf16_f32 : to == DT_F16 ? p->k->f16_f32 : p->k->f8_f32;
    }
    if (is_table(p->from_format))
        p->table = type_facts(from)->table;
}

static bool holds_in_f32(enum dtype t)
{
    return plain[t].to_f32 || (dtype_is_float(t) && t != DT_F64);
}

// n <= CHUNK elements of a source that f32 holds, unless it is f32, to f32.
static void to_f32(const struct plan *p, void *dst, const uint8_t *src, size_t n, bool stream)
{
    LINE uint8_t codes[CHUNK];
    int bits = dtype_bits(p->from);
    if (bits < 8) {
        format_unpack(bits, p->from_format->is_signed && format_is_integer(p->from_format), codes, src, n);
        src = codes;
    }
    if (p->from == DT_BF16)
        p->k->f32_bf16(dst, src, n, stream);
    else if (p->from == DT_F16)
        p->k->f32_f16(dst, src, n, stream);
    else if (is_table(p->from_format))
        p->k->f32_f8(dst, src, n, p->table, stream);
    else
        plain[p->from].to_f32(dst, src, n);
}

// Any source to f64; with `odd`, 64-bit integers are rounded to odd.
static void to_f64(const struct plan *p, void *dst, const uint8_t *src, size_t n, bool odd)
{
    LINE float f32[CHUNK];
    if (p->from == DT_F64)
        memcpy(dst, src, n * sizeof(double));
    else if (plain[p->from].to_f64)
        (odd ? plain[p->from].to_f64_odd : plain[p->from].to_f64)(dst, src, n);
    else if (p->from == DT_F32)
        p->k->f64_f32(dst, src, n, p->stream);
    else {
        to_f32(p, f32, src, n, false);
        p->k->f64_f32(dst, f32, n, p->stream);
    }
}

// To what a narrowing kernel reads: the source itself, or f32 in `made`.
static const void *narrow_input(const struct plan *p, const uint8_t *src, size_t n, float *made)
{
    if (p->from == DT_F32)
        return src;
    if (holds_in_f32(p->from)) {
        to_f32(p, made, src, n, false);
    } else if (p->from == DT_F64) {
        p->k->f32_f64_odd(made, src, n);
    } else {
        LINE double f64[CHUNK];
        plain[p->from].to_f64_odd(f64, src, n);
        p->k->f32_f64_odd(made, f64, n);
    }
    return made;
}

static bool saturates(const struct plan *p)
{
    return p->cast.overflow == FORMAT_OVERFLOW_SATURATE || p->cast.overflow == FORMAT_OVERFLOW_SATURATE_FINITE;
}

// Infinities in f32 or f64 results become the largest number, under SATURATE_FINITE only those that were finite as f64.
static void saturate_wide(const struct plan *p, uint8_t *dst, const uint8_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double was = INFINITY, wide;
        float narrow;
        if (p->from == DT_F64)
            memcpy(&was, src + i * sizeof was, sizeof was);
        if (isinf(was) && p->cast.overflow == FORMAT_OVERFLOW_SATURATE_FINITE)
            continue;
        if (p->to == DT_F32) {
            memcpy(&narrow, dst + i * sizeof narrow, sizeof narrow);
            narrow = isinf(narrow) ? copysignf(FLT_MAX, narrow) : narrow;
            memcpy(dst + i * sizeof narrow, &narrow, sizeof narrow);
        } else {
            memcpy(&wide, dst + i * sizeof wide, sizeof wide);
            wide = isinf(wide) ? copysign(DBL_MAX, wide) : wide;
            memcpy(dst + i * sizeof wide, &wide, sizeof wide);
        }
    }
}

static void convert_chunk(const struct plan *p, uint8_t *dst, const uint8_t *src, size_t n)
{
    LINE double f64[CHUNK];
    LINE float f32[CHUNK];
    LINE uint8_t codes[CHUNK];
    bool packed = dtype_bits(p->to) < 8;
    if (p->to == DT_F32 && holds_in_f32(p->from)) {
        to_f32(p, dst, src, n, p->stream);
    } else if (p->to == DT_F32 && p->from == DT_F64) {
        p->k->f32_f64(dst, src, n, p->stream);
    } else if (p->to == DT_F32) {
        to_f64(p, f64, src, n, true);
        p->k->f32_f64(dst, f64, n, p->stream);
    } else if (p->to == DT_F64) {
        to_f64(p, dst, src, n, false);
    } else if (p->narrow) {
        p->narrow(packed ? codes : dst, narrow_input(p, src, n, f32), n, p->rule, p->stream && !packed);
    } else if (p->to == DT_S64 && p->from == DT_U64) {
        s64_u64(dst, src, n);
    } else if (p->to == DT_U64 && p->from == DT_S64) {
        u64_s64(dst, src, n);
    } else {
        to_f64(p, f64, src, n, true);
        if (plain[p->to].from_f64)
            plain[p->to].from_f64(packed ? codes : dst, f64, n);
        else // e8m0
            format_encode_f64(p->to_format, dst, f64, n, &p->cast, NULL, NULL, NULL);
    }
    if (packed)
        format_pack(dtype_bits(p->to), dst, codes, n);
    if (!p->narrow && saturates(p) && dtype_is_float(p->to) && p->to != DT_F8E8M0FNU)
        saturate_wide(p, dst, src, n);
}

static void convert_range(void *context, size_t from, size_t to)
{
    const struct plan *p = context;
    size_t src_bits = (size_t)dtype_bits(p->from), dst_bits = (size_t)dtype_bits(p->to);
    // What needs no buffer needs no chunks either.
    bool whole = (p->narrow && p->from == DT_F32 && dst_bits >= 8) || (p->to == DT_F32 && p->from == DT_F64) ||
                 (p->to == DT_F64 && p->from == DT_F32) || (p->to == DT_F32 && src_bits >= 8 && holds_in_f32(p->from));
    while (from < to) {
        size_t n = whole || to - from < CHUNK ? to - from : CHUNK;
        convert_chunk(p, p->dst + from * dst_bits / 8, p->src + from * src_bits / 8, n);
        from += n;
    }
    p->k->fence();
}

// --- FORMAT_OVERFLOW_ERROR

// Can the chunk hold anything that has no place in the target? Most do not, and are not looked at one by one.
static bool suspicious(const struct plan *p, const uint8_t *src, size_t n)
{
    LINE float f32[CHUNK];
    if (!p->narrow && p->to != DT_F32 && p->to != DT_F64)
        return true;
    const void *made = narrow_input(p, src, n, f32);
    if (made != f32)
        memcpy(f32, made, n * sizeof *f32);
    // f64 beyond f32 rounds (to odd) to its largest number.
    uint32_t limit = p->narrow && p->rule->special_from < 0x7f7fffffu ? p->rule->special_from : 0x7f7fffffu;
    return quant_kernels()->absmax(f32, n) >= limit;
}

static int refuse(const struct plan *p, size_t n, const char *name, struct error *err)
{
    struct format_counts c = {0};
    size_t bad = 0, first = n, bits = (size_t)dtype_bits(p->from);
    double first_value = 0;
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t k = n - at < CHUNK ? n - at : CHUNK;
        const uint8_t *src = p->src + at * bits / 8;
        if (!suspicious(p, src, k))
            continue;
        LINE double f64[CHUNK];
        to_f64(p, f64, src, k, true);
        for (size_t i = 0; i < k; i++) {
            format_encode(p->to_format, f64[i], &p->cast, &c);
            bad = c.nan + c.infinite + c.overflowed;
            if (bad && first == n) {
                first = at + i;
                first_value = f64[i];
            }
        }
    }
    if (!bad)
        return 0;
    return error_set(
        err, ERR_INPUT, name,
        "element %zu, %.9g, has no place in %s, which reaches from %.9g to %.9g: %zu NaN, %zu infinite and "
        "%zu finite elements of %zu have none (a policy that saturates or keeps takes them)",
        first, first_value, p->to_format->name, format_min(p->to_format), format_max(p->to_format), c.nan, c.infinite,
        c.overflowed, n);
}

// --- calls

bool convert_possible(enum dtype to, enum dtype from)
{
    if (dtype_bits(to) == 0 || dtype_bits(from) == 0)
        return false;
    bool complex = dtype_info(to)->kind == DTK_COMPLEX || dtype_info(from)->kind == DTK_COMPLEX;
    return to == from || !complex;
}

// Results larger than this do not stay in a cache until they are read: they are written around it. Ranges are smaller
// than a second-level cache and long enough that sharing them out costs nothing.
enum { STREAM_BYTES = 4 << 20, GRAIN = 64 * CHUNK };

static void copy_range(void *context, size_t from, size_t to)
{
    const struct plan *p = context;
    p->k->copy(p->dst + from, p->src + from, to - from, p->stream);
    p->k->fence();
}

int convert_array(const struct convert_options *options, enum dtype to, void *dst, enum dtype from, const void *src,
                  size_t n, struct error *err)
{
    static const struct convert_options none;
    if (!options)
        options = &none;
    if (!convert_possible(to, from))
        return error_set(err, ERR_INPUT, options->name, "%s cannot be converted to %s", dtype_name(from),
                         dtype_name(to));
    size_t bytes, from_bytes;
    if (!dtype_bytes(to, n, &bytes) || !dtype_bytes(from, n, &from_bytes))
        return error_set(err, ERR_INPUT, options->name, "%zu elements are more than memory can hold", n);
    if (n == 0)
        return 0;
    struct plan p = {.dst = dst, .src = src, .k = convert_kernels()};
    p.stream = bytes >= STREAM_BYTES;
    if (to == from) {
        threads_for(options->threads, bytes, 4 * (size_t)GRAIN, copy_range, &p);
        return 0;
    }
    plan_init(&p, to, from, options->overflow);
    threads_for(options->threads, n, GRAIN, convert_range, &p);
    // Types without a row take every number there is.
    bool refuses = options->overflow == FORMAT_OVERFLOW_ERROR && p.to_format;
    return refuses ? refuse(&p, n, options->name, err) : 0;
}

int convert_elements(enum dtype to, void *dst, enum dtype from, const void *src, size_t n, struct error *err)
{
    return convert_array(NULL, to, dst, from, src, n, err);
}
