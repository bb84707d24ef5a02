// SPDX-License-Identifier: Apache-2.0
#include "num/format.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"

#define IEEE     FORMAT_NAN_IEEE, FORMAT_INFINITY_IEEE, FORMAT_ZERO_SIGNED
#define FINITE   FORMAT_NAN_ALL_ONES, FORMAT_INFINITY_NONE, FORMAT_ZERO_SIGNED
#define FNUZ     FORMAT_NAN_NEGATIVE_0, FORMAT_INFINITY_NONE, FORMAT_ZERO_POSITIVE
#define UNSIGNED FORMAT_NAN_ALL_ONES, FORMAT_INFINITY_NONE, FORMAT_ZERO_NONE
#define CLAMPING FORMAT_NAN_NONE, FORMAT_INFINITY_NONE, FORMAT_ZERO_SIGNED
#define INTEGER  FORMAT_NAN_NONE, FORMAT_INFINITY_NONE, FORMAT_ZERO_POSITIVE

// Widths and biases: ml_dtypes 0.6 (README.md), OCP Microscaling Formats v1.0 section 5.3, OCP 8-bit floating point
// v1.0, IEEE 754-2019 table 3.5.
static const struct format table[] = {
    {"f64", DT_F64, 64, 0, 11, 52, 1023, true, IEEE},
    {"f32", DT_F32, 32, 0, 8, 23, 127, true, IEEE},
    {"tf32", DT_INVALID, 19, 13, 8, 10, 127, true, IEEE},
    {"bf16", DT_BF16, 16, 0, 8, 7, 127, true, IEEE},
    {"f16", DT_F16, 16, 0, 5, 10, 15, true, IEEE},
    {"f8e5m2", DT_F8E5M2, 8, 0, 5, 2, 15, true, IEEE},
    {"f8e5m2fnuz", DT_F8E5M2FNUZ, 8, 0, 5, 2, 16, true, FNUZ},
    {"f8e4m3", DT_F8E4M3, 8, 0, 4, 3, 7, true, IEEE},
    {"f8e4m3fn", DT_F8E4M3FN, 8, 0, 4, 3, 7, true, FINITE},
    {"f8e4m3fnuz", DT_F8E4M3FNUZ, 8, 0, 4, 3, 8, true, FNUZ},
    {"f8e4m3b11fnuz", DT_F8E4M3B11FNUZ, 8, 0, 4, 3, 11, true, FNUZ},
    {"f8e3m4", DT_F8E3M4, 8, 0, 3, 4, 3, true, IEEE},
    {"f8e8m0fnu", DT_F8E8M0FNU, 8, 0, 8, 0, 127, false, UNSIGNED},
    {"f6e3m2fn", DT_F6E3M2FN, 6, 0, 3, 2, 3, true, CLAMPING},
    {"f6e2m3fn", DT_F6E2M3FN, 6, 0, 2, 3, 1, true, CLAMPING},
    {"f4e2m1fn", DT_F4E2M1FN, 4, 0, 2, 1, 1, true, CLAMPING},
    {"s32", DT_S32, 32, 0, 0, 31, 0, true, INTEGER},
    {"u32", DT_U32, 32, 0, 0, 32, 0, false, INTEGER},
    {"s16", DT_S16, 16, 0, 0, 15, 0, true, INTEGER},
    {"u16", DT_U16, 16, 0, 0, 16, 0, false, INTEGER},
    {"s8", DT_S8, 8, 0, 0, 7, 0, true, INTEGER},
    {"u8", DT_U8, 8, 0, 0, 8, 0, false, INTEGER},
    {"s4", DT_S4, 4, 0, 0, 3, 0, true, INTEGER},
    {"u4", DT_U4, 4, 0, 0, 4, 0, false, INTEGER},
    {"s2", DT_S2, 2, 0, 0, 1, 0, true, INTEGER},
    {"u2", DT_U2, 2, 0, 0, 2, 0, false, INTEGER},
};
#define ROWS (sizeof table / sizeof *table)

const struct format *format_at(size_t i)
{
    return i < ROWS ? &table[i] : NULL;
}

const struct format *format_of(enum dtype t)
{
    for (size_t i = 0; i < ROWS && t != DT_INVALID; i++) {
        if (table[i].dtype == t)
            return &table[i];
    }
    return NULL;
}

const struct format *format_from_name(const char *name)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (strcasecmp(table[i].name, name) == 0)
            return &table[i];
    }
    return NULL;
}

const struct format *format_tf32(void)
{
    return &table[2];
}

size_t format_code_bytes(const struct format *f)
{
    int bits = f->bits + f->shift;
    return bits <= 8 ? 1 : (size_t)bits / 8;
}

// 2^k; 0 from 2^64 on, which does not fit.
static uint64_t power(int k)
{
    return k < 64 ? (uint64_t)1 << k : 0;
}

// The n low bits; n <= 64.
static uint64_t low_bits(int n)
{
    return power(n) - 1;
}

// Codes within this file are not shifted and, but for integers, without the sign, until the last step.
static uint64_t max_magnitude(const struct format *f)
{
    uint64_t all = low_bits(f->bits - f->is_signed);
    if (f->infinity == FORMAT_INFINITY_IEEE)
        return (low_bits(f->exponent_bits) << f->mantissa_bits) - 1;
    return f->nan == FORMAT_NAN_ALL_ONES ? all - 1 : all;
}

// Exponent of the smallest normal value.
static int min_exponent(const struct format *f)
{
    return (format_has_subnormals(f) ? 1 : 0) - f->bias;
}

bool format_has_subnormals(const struct format *f)
{
    return !format_is_integer(f) && f->zero != FORMAT_ZERO_NONE;
}

uint64_t format_max_code(const struct format *f)
{
    return max_magnitude(f) << f->shift;
}

double format_max(const struct format *f)
{
    return format_decode(f, format_max_code(f));
}

double format_min(const struct format *f)
{
    if (format_is_integer(f))
        return f->is_signed ? -format_max(f) - 1 : 0;
    return f->is_signed ? -format_max(f) : format_min_normal(f);
}

double format_min_normal(const struct format *f)
{
    return format_is_integer(f) ? 1 : ldexp(1, min_exponent(f));
}

double format_min_subnormal(const struct format *f)
{
    return format_has_subnormals(f) ? ldexp(1, min_exponent(f) - f->mantissa_bits) : format_min_normal(f);
}

int format_max_exponent(const struct format *f)
{
    return ilogb(format_max(f));
}

double format_unit_roundoff(const struct format *f)
{
    return format_is_integer(f) ? 0 : ldexp(1, -f->mantissa_bits - 1);
}

static uint64_t sign_bit(const struct format *f)
{
    return f->is_signed ? power(f->bits - 1) : 0;
}

static uint64_t nan_magnitude(const struct format *f)
{
    switch (f->nan) {
    case FORMAT_NAN_IEEE:
        return (low_bits(f->exponent_bits) << f->mantissa_bits) | power(f->mantissa_bits - 1);
    case FORMAT_NAN_ALL_ONES:
        return low_bits(f->bits - f->is_signed);
    case FORMAT_NAN_NEGATIVE_0:
        return sign_bit(f);
    case FORMAT_NAN_NONE:
        break;
    }
    return format_is_integer(f) ? 0 : sign_bit(f);
}

uint64_t format_nan_code(const struct format *f)
{
    return nan_magnitude(f) << f->shift;
}

uint64_t format_infinity_code(const struct format *f)
{
    return (max_magnitude(f) + 1) << f->shift;
}

uint64_t format_finite_codes(const struct format *f)
{
    if (format_is_integer(f))
        return power(f->bits);
    uint64_t magnitudes = max_magnitude(f) + 1;
    if (!f->is_signed)
        return magnitudes;
    return 2 * magnitudes - (f->zero == FORMAT_ZERO_POSITIVE);
}

static const char *const rounding_names[] = {"nearest-even", "nearest-away", "toward-zero", "stochastic"};
static const char *const overflow_names[] = {"plain", "saturate", "saturate-finite", "error"};

static int find_name(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0)
            return i;
    }
    return -1;
}

const char *format_rounding_name(enum format_rounding r)
{
    return rounding_names[r];
}

bool format_rounding_from_name(const char *name, enum format_rounding *out)
{
    int i = find_name(rounding_names, 4, name);
    if (i >= 0)
        *out = (enum format_rounding)i;
    return i >= 0;
}

const char *format_overflow_name(enum format_overflow o)
{
    return overflow_names[o];
}

bool format_overflow_from_name(const char *name, enum format_overflow *out)
{
    int i = find_name(overflow_names, 4, name);
    if (i >= 0)
        *out = (enum format_overflow)i;
    return i >= 0;
}

// Whether a uniform number in [0, 1), whose first 64 bits are `word`, is below rest / 2^drop. Bits are compared from
// the first on, 64 at a time, so no fraction is cut off, however small.
static bool below(uint64_t rest, int drop, uint64_t word, const struct format_stream *stream)
{
    for (;;) {
        int behind = drop > 64 ? drop - 64 : 0; // bits of the fraction after its first 64
        uint64_t first = behind >= 64 ? 0 : drop > 64 ? rest >> behind : rest << (64 - drop);
        if (word != first)
            return word < first;
        if (behind < 64)
            rest &= low_bits(behind);
        if (behind == 0 || rest == 0)
            return false;
        drop = behind;
        word = stream->next(stream->state);
    }
}

// rest / 2^drop is what follows the last place of n; 0 < rest < 2^drop.
static bool round_up(uint64_t n, uint64_t rest, int drop, const struct format_cast *cast, uint64_t word)
{
    switch (cast->rounding) {
    case FORMAT_TOWARD_ZERO:
        return false;
    case FORMAT_STOCHASTIC:
        return below(rest, drop, word, cast->stream);
    case FORMAT_NEAREST_EVEN:
    case FORMAT_NEAREST_AWAY:
        break;
    }
    if (drop > 63) // rest < 2^53
        return false;
    uint64_t half = power(drop - 1);
    if (rest != half)
        return rest > half;
    return cast->rounding == FORMAT_NEAREST_AWAY || (n & 1);
}

static uint64_t with_sign(const struct format *f, uint64_t magnitude, bool negative)
{
    if (!negative)
        return magnitude;
    if (format_is_integer(f))
        return (0 - magnitude) & low_bits(f->bits);
    if (magnitude == 0 && f->zero == FORMAT_ZERO_POSITIVE)
        return 0;
    return magnitude | sign_bit(f);
}

// The code farthest from 0 on one side.
static uint64_t extreme(const struct format *f, bool negative)
{
    if (negative && !f->is_signed)
        return 0; // the smallest: 0, or e8m0's 2^-127
    if (negative && format_is_integer(f))
        return sign_bit(f);
    return with_sign(f, max_magnitude(f), negative);
}

static uint64_t beyond(const struct format *f, bool negative, bool finite, const struct format_cast *cast)
{
    bool numbers_only = f->infinity == FORMAT_INFINITY_NONE && f->nan == FORMAT_NAN_NONE;
    bool saturate =
        cast->overflow == FORMAT_OVERFLOW_SATURATE || (cast->overflow == FORMAT_OVERFLOW_SATURATE_FINITE && finite);
    bool truncate = cast->rounding == FORMAT_TOWARD_ZERO && finite && (f->is_signed || !negative);
    if (numbers_only || saturate || truncate)
        return extreme(f, negative);
    uint64_t special = f->infinity == FORMAT_INFINITY_IEEE ? max_magnitude(f) + 1 : nan_magnitude(f);
    return special | (negative ? sign_bit(f) : 0);
}

static uint64_t round_finite(const struct format *f, double v, const struct format_cast *cast, uint64_t word,
                             struct format_counts *counts)
{
    uint64_t b;
    memcpy(&b, &v, sizeof b);
    bool negative = b >> 63;
    int field = (int)(b >> 52 & 0x7ff);
    uint64_t m = (b & low_bits(52)) | (field ? power(52) : 0);
    int exponent = (field ? field : 1) - 1075; // |v| = m * 2^exponent
    if (m == 0 && f->zero != FORMAT_ZERO_NONE)
        return with_sign(f, 0, negative);
    if (f->zero == FORMAT_ZERO_NONE && (m == 0 || negative)) {
        counts->overflowed++;
        counts->inexact++;
        return beyond(f, true, true, cast);
    }
    int top = 63 - __builtin_clzll(m) + exponent;          // 2^top <= |v| < 2^(top+1)
    int last = format_is_integer(f) ? 0 : min_exponent(f); // exponent of the last place
    int step = 0;                                          // binades above the first
    if (!format_is_integer(f)) {
        step = top > last ? top - last : 0;
        last += step - f->mantissa_bits;
    }
    int drop = last - exponent;
    uint64_t n, rest = 0;
    if (drop <= 0) {
        n = -drop < 11 ? m << -drop : UINT64_MAX >> 1; // the latter: an integer far beyond 32 bits
    } else {
        n = drop < 64 ? m >> drop : 0;
        rest = drop < 64 ? m & low_bits(drop) : m;
        counts->inexact += rest != 0;
        n += rest && round_up(n, rest, drop, cast, word);
    }
    uint64_t limit = max_magnitude(f), code = n;
    if (format_is_integer(f)) {
        if (negative)
            limit = f->is_signed ? limit + 1 : 0;
    } else if (format_has_subnormals(f)) {
        code += (uint64_t)step << f->mantissa_bits;
    } else {
        // There is nothing below the first binade: what is there becomes its first value.
        code = (n > 0 ? n - 1 : 0) + (uint64_t)step;
    }
    if (code > limit) {
        counts->overflowed++;
        counts->inexact += rest == 0;
        return beyond(f, negative, true, cast);
    }
    counts->flushed += code == 0 && f->zero != FORMAT_ZERO_NONE;
    return with_sign(f, code, negative);
}

uint64_t format_encode(const struct format *f, double v, const struct format_cast *cast, struct format_counts *counts)
{
    struct format_counts none;
    if (!counts)
        counts = &none;
    uint64_t word = cast->rounding == FORMAT_STOCHASTIC ? cast->stream->next(cast->stream->state) : 0, code;
    counts->elements++;
    if (isnan(v)) {
        counts->nan++;
        bool sign = signbit(v) && (f->nan == FORMAT_NAN_IEEE || f->nan == FORMAT_NAN_ALL_ONES);
        code = nan_magnitude(f) | (sign ? sign_bit(f) : 0);
    } else if (isinf(v)) {
        counts->infinite++;
        code = beyond(f, signbit(v), false, cast);
    } else {
        code = round_finite(f, v, cast, word, counts);
    }
    return code << f->shift;
}

double format_decode(const struct format *f, uint64_t code)
{
    code = code >> f->shift & low_bits(f->bits);
    bool negative = code & sign_bit(f);
    if (format_is_integer(f))
        return (double)(int64_t)code - (negative ? (double)power(f->bits - 1) * 2 : 0);
    if (f->nan == FORMAT_NAN_NEGATIVE_0 && code == sign_bit(f))
        return (double)NAN;
    uint64_t magnitude = code & ~sign_bit(f);
    double v;
    if (magnitude > max_magnitude(f)) {
        v = f->infinity == FORMAT_INFINITY_IEEE && magnitude == max_magnitude(f) + 1 ? INFINITY : NAN;
    } else {
        int field = (int)(magnitude >> f->mantissa_bits), first = min_exponent(f) - f->mantissa_bits;
        uint64_t fraction = magnitude & low_bits(f->mantissa_bits), hidden = power(f->mantissa_bits);
        if (!format_has_subnormals(f))
            v = ldexp((double)(fraction + hidden), field + first);
        else
            v = field ? ldexp((double)(fraction + hidden), field - 1 + first) : ldexp((double)fraction, first);
    }
    return negative ? -v : v;
}

double format_round(const struct format *f, double v, const struct format_cast *cast, struct format_counts *counts)
{
    return format_decode(f, format_encode(f, v, cast, counts));
}

static void put_code(void *codes, size_t bytes, size_t i, uint64_t code)
{
    uint8_t c8 = (uint8_t)code;
    uint16_t c16 = (uint16_t)code;
    uint32_t c32 = (uint32_t)code;
    const void *from = bytes == 1 ? (const void *)&c8 : bytes == 2 ? &c16 : bytes == 4 ? (const void *)&c32 : &code;
    memcpy((char *)codes + i * bytes, from, bytes);
}

static uint64_t get_code(const void *codes, size_t bytes, size_t i)
{
    const char *p = (const char *)codes + i * bytes;
    uint8_t c8;
    uint16_t c16;
    uint32_t c32;
    uint64_t c64;
    switch (bytes) {
    case 1:
        return memcpy(&c8, p, 1), c8;
    case 2:
        return memcpy(&c16, p, 2), c16;
    case 4:
        return memcpy(&c32, p, 4), c32;
    default:
        return memcpy(&c64, p, 8), c64;
    }
}

static void add_counts(struct format_counts *to, const struct format_counts *c)
{
    to->elements += c->elements;
    to->nan += c->nan;
    to->infinite += c->infinite;
    to->overflowed += c->overflowed;
    to->flushed += c->flushed;
    to->inexact += c->inexact;
}

// x is f32 or f64, as `wide` says.
static int encode_array(const struct format *f, void *codes, const void *x, bool wide, size_t n,
                        const struct format_cast *cast, struct format_counts *counts, const char *name,
                        struct error *err)
{
    struct format_counts c = {0};
    size_t bytes = format_code_bytes(f), first = n, bad = 0;
    double first_value = 0;
    for (size_t i = 0; i < n; i++) {
        double v;
        if (wide) {
            memcpy(&v, (const char *)x + i * sizeof v, sizeof v);
        } else {
            float narrow;
            memcpy(&narrow, (const char *)x + i * sizeof narrow, sizeof narrow);
            v = (double)narrow;
        }
        put_code(codes, bytes, i, format_encode(f, v, cast, &c));
        size_t now = c.nan + c.infinite + c.overflowed;
        if (now > bad && first == n) {
            first = i;
            first_value = v;
        }
        bad = now;
    }
    if (counts)
        add_counts(counts, &c);
    if (cast->overflow != FORMAT_OVERFLOW_ERROR || bad == 0)
        return 0;
    return error_set(
        err, ERR_INPUT, name,
        "element %zu, %.9g, has no place in %s, which reaches from %.9g to %.9g: %zu NaN, %zu infinite and "
        "%zu finite elements of %zu have none (a policy that saturates or keeps takes them)",
        first, first_value, f->name, format_min(f), format_max(f), c.nan, c.infinite, c.overflowed, n);
}

int format_encode_f32(const struct format *f, void *codes, const float *x, size_t n, const struct format_cast *cast,
                      struct format_counts *counts, const char *name, struct error *err)
{
    return encode_array(f, codes, x, false, n, cast, counts, name, err);
}

int format_encode_f64(const struct format *f, void *codes, const double *x, size_t n, const struct format_cast *cast,
                      struct format_counts *counts, const char *name, struct error *err)
{
    return encode_array(f, codes, x, true, n, cast, counts, name, err);
}

void format_decode_f64(const struct format *f, double *x, const void *codes, size_t n)
{
    size_t bytes = format_code_bytes(f);
    for (size_t i = 0; i < n; i++)
        x[i] = format_decode(f, get_code(codes, bytes, i));
}

void format_decode_f32(const struct format *f, float *x, const void *codes, size_t n)
{
    size_t bytes = format_code_bytes(f);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)format_decode(f, get_code(codes, bytes, i));
}

void format_pack(int bits, uint8_t *packed, const uint8_t *codes, size_t n)
{
    unsigned waiting = 0, held = 0; // bits not yet written, and how many
    uint8_t mask = (uint8_t)low_bits(bits);
    for (size_t i = 0; i < n; i++) {
        waiting |= (unsigned)(codes[i] & mask) << held;
        held += (unsigned)bits;
        if (held >= 8) {
            *packed++ = (uint8_t)waiting;
            waiting >>= 8;
            held -= 8;
        }
    }
    if (held)
        *packed = (uint8_t)waiting;
}

void format_unpack(int bits, bool is_signed, uint8_t *codes, const uint8_t *packed, size_t n)
{
    unsigned waiting = 0, held = 0;
    uint8_t mask = (uint8_t)low_bits(bits), sign = is_signed ? (uint8_t)power(bits - 1) : 0;
    for (size_t i = 0; i < n; i++) {
        if (held < (unsigned)bits) {
            waiting |= (unsigned)*packed++ << held;
            held += 8;
        }
        uint8_t code = (uint8_t)(waiting & mask);
        codes[i] = (uint8_t)((code ^ sign) - sign);
        waiting >>= bits;
        held -= (unsigned)bits;
    }
}

// 2^k where a decimal number would hide it, else the number in full.
static void add_value(struct str *out, double v)
{
    int e;
    char text[32];
    if (frexp(v, &e) == 0.5 && (e - 1 < -3 || e - 1 > 20)) {
        str_addf(out, "2^%d", e - 1);
        return;
    }
    json_number(text, v);
    str_add(out, text);
}

static void add_overflow(struct str *out, const struct format *f)
{
    if (f->infinity == FORMAT_INFINITY_NONE && f->nan == FORMAT_NAN_NONE) {
        str_add(out, "the largest");
        return;
    }
    str_add(out, f->infinity == FORMAT_INFINITY_IEEE ? "infinity" : "NaN");
    if (f->dtype == DT_F64) // nothing wider is cast to it
        return;
    // The tie above the largest value goes to the code with an even last bit; without fraction bits, up.
    str_add(out, (max_magnitude(f) & 1) || f->mantissa_bits == 0 ? " from " : " above ");
    add_value(out, format_max(f) + ldexp(1, format_max_exponent(f) - f->mantissa_bits - 1));
}

void format_print_table(struct str *out)
{
    static const char *const zeros[] = {"0, -0", "0", "none"};
    str_add(out, "| format | bits: sign, exponent, fraction | bias | largest | smallest normal | smallest subnormal | "
                 "zeros | NaN codes, hexadecimal | codes that are numbers | a plain cast gives |\n"
                 "|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < ROWS; i++) {
        const struct format *f = &table[i];
        bool integer = format_is_integer(f);
        str_addf(out, "| %s | %d: %d, ",
                 integer    ? f->name
                 : f->dtype ? dtype_info(f->dtype)->mlir
                            : f->name,
                 f->bits, f->is_signed);
        if (integer)
            str_addf(out, "-, %d | - | ", f->mantissa_bits);
        else
            str_addf(out, "%d, %d | %d | ", f->exponent_bits, f->mantissa_bits, f->bias);
        add_value(out, format_max(f));
        str_add(out, " | ");
        add_value(out, format_min_normal(f));
        str_add(out, " | ");
        if (format_has_subnormals(f))
            add_value(out, format_min_subnormal(f));
        else
            str_add(out, "none");
        str_addf(out, " | %s | ", zeros[f->zero]);
        switch (f->nan) {
        case FORMAT_NAN_NONE:
            str_add(out, "none");
            break;
        case FORMAT_NAN_NEGATIVE_0:
        case FORMAT_NAN_ALL_ONES:
            str_addf(out, "%" PRIX64, nan_magnitude(f));
            if (f->nan == FORMAT_NAN_ALL_ONES && f->is_signed)
                str_addf(out, ", %" PRIX64, nan_magnitude(f) | sign_bit(f));
            break;
        case FORMAT_NAN_IEEE:
            str_addf(out, "above %" PRIX64, (max_magnitude(f) + 1) << f->shift);
            break;
        }
        str_addf(out, " | %" PRIu64 " | ", format_finite_codes(f));
        add_overflow(out, f);
        str_add(out, " |\n");
    }
}
