// SPDX-License-Identifier: Apache-2.0
// Narrow floats go through f32. A double is first narrowed to f32 with round-to-odd: f32 keeps at least two bits more
// than every narrower format, so the second rounding sees on which side of a tie the value lies (Boldo and Melquiond,
// "Emulation of a FMA and correctly rounded sums", 2008).
#include "num/convert.h"

#include <string.h>

static inline uint32_t bits_of(float v)
{
    uint32_t b;
    memcpy(&b, &v, sizeof b);
    return b;
}

static inline float float_of(uint32_t b)
{
    float v;
    memcpy(&v, &b, sizeof v);
    return v;
}

// 2^k for -126 <= k <= 127.
static inline float pow2(int k)
{
    return float_of((uint32_t)(k + 127) << 23);
}

// yes or no, without a branch: the bulk loops compute every case, so that they become vector code.
static inline uint32_t pick(bool condition, uint32_t yes, uint32_t no)
{
    uint32_t mask = 0 - (uint32_t)condition;
    return (yes & mask) | (no & ~mask);
}

// A float format of at most 16 bits with subnormals. Codes are without the sign, which is the bit at `sign`.
struct narrow {
    int sign;
    int mantissa;      // bits
    int bias;          // of the exponent
    uint32_t max_code; // the largest finite value; codes above it are the specials
    uint32_t inf_code; // 0: no infinity
    uint32_t nan_code;
};

static const struct narrow F16 = {15, 10, 15, 0x7bff, 0x7c00, 0x7e00};
static const struct narrow F8E5M2 = {7, 2, 15, 0x7b, 0x7c, 0x7e};
static const struct narrow F8E4M3FN = {7, 3, 7, 0x7e, 0, 0x7f};

static inline float widen(const struct narrow *f, uint32_t code)
{
    uint32_t sign = code >> f->sign << 31;
    uint32_t c = code & ((1u << f->sign) - 1);
    float subnormal = (float)(int32_t)c * pow2(1 - f->bias - f->mantissa);
    uint32_t normal = (c << (23 - f->mantissa)) + ((uint32_t)(127 - f->bias) << 23);
    uint32_t special = pick(c == f->inf_code, 0x7f800000u, 0x7fc00000u);
    uint32_t r = pick(c < (1u << f->mantissa), bits_of(subnormal), normal);
    r = pick(c > f->max_code, special, r);
    return float_of(r | sign);
}

static inline uint32_t narrow(const struct narrow *f, float v)
{
    uint32_t b = bits_of(v);
    uint32_t sign = b >> 31 << f->sign;
    uint32_t a = b & 0x7fffffffu;
    // Below the smallest normal: in a sum with the power of two whose unit in the last place is the smallest subnormal,
    // the hardware does the rounding.
    float unit = pow2(1 - f->bias - f->mantissa + 23);
    uint32_t subnormal = bits_of(float_of(a) + unit) - bits_of(unit);
    int drop = 23 - f->mantissa;
    uint32_t odd = a >> drop & 1;
    uint32_t normal = (a + (1u << (drop - 1)) - 1 + odd - ((uint32_t)(127 - f->bias) << 23)) >> drop;
    uint32_t r = pick(a < (uint32_t)(128 - f->bias) << 23, subnormal, normal);
    uint32_t over = f->inf_code ? f->inf_code : f->nan_code;
    r = pick(r > f->max_code, over, r);
    r = pick(a > 0x7f800000u, f->nan_code, r);
    return r | sign;
}

float f32_from_f16(uint16_t bits)
{
    return widen(&F16, bits);
}

uint16_t f16_from_f32(float v)
{
    return (uint16_t)narrow(&F16, v);
}

float f32_from_bf16(uint16_t bits)
{
    uint32_t quiet = pick((bits & 0x7fff) > 0x7f80, 0x40, 0);
    return float_of((bits | quiet) << 16);
}

uint16_t bf16_from_f32(float v)
{
    uint32_t b = bits_of(v);
    uint32_t r = (b + 0x7fff + (b >> 16 & 1)) >> 16;
    uint32_t nan = (b >> 16 & 0x8000) | 0x7fc0;
    return (uint16_t)pick((b & 0x7fffffffu) > 0x7f800000u, nan, r);
}

// Truncates towards zero and sets the last bit when anything was lost.
static inline float odd_from_f64(double v)
{
    float y = (float)v;
    uint32_t b = bits_of(y);
    double back = y;
    uint32_t away = __builtin_fabs(back) > __builtin_fabs(v); // of infinity too: one below it is the largest number
    uint32_t lost = (back != v) & (v == v);
    return float_of((b - away) | lost);
}

uint16_t bf16_from_f64(double v)
{
    return bf16_from_f32(odd_from_f64(v));
}

uint16_t f16_from_f64(double v)
{
    return f16_from_f32(odd_from_f64(v));
}

// A 64-bit integer as a double with round-to-odd, for the same reason: the last rounding must be the only one.
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

typedef void convert_fn(void *dst, const void *src, size_t n);

// Elements may lie at any address (safetensors data begins where its header ends), so blocks are copied in and out; a
// loop of constant length over them is what gcc turns into vector code at -O2.
#define BLOCK 32
#define LOOP(function, to, from, expression)                                                                           \
    static void function(void *dst, const void *src, size_t n)                                                         \
    {                                                                                                                  \
        from in[BLOCK] = {0};                                                                                          \
        to out[BLOCK];                                                                                                 \
        for (size_t i = 0; i < n; i += BLOCK) {                                                                        \
            size_t k = n - i < BLOCK ? n - i : BLOCK;                                                                  \
            if (k == BLOCK)                                                                                            \
                memcpy(in, (const char *)src + i * sizeof *in, sizeof in);                                             \
            else                                                                                                       \
                memcpy(in, (const char *)src + i * sizeof *in, k * sizeof *in);                                        \
            for (int j = 0; j < BLOCK; j++) {                                                                          \
                from v = in[j];                                                                                        \
                out[j] = (to)(expression);                                                                             \
            }                                                                                                          \
            if (k == BLOCK)                                                                                            \
                memcpy((char *)dst + i * sizeof *out, out, sizeof out);                                                \
            else                                                                                                       \
                memcpy((char *)dst + i * sizeof *out, out, k * sizeof *out);                                           \
        }                                                                                                              \
    }

LOOP(f64_pred, double, uint8_t, v != 0)
LOOP(f64_s8, double, int8_t, v)
LOOP(f64_s16, double, int16_t, v)
LOOP(f64_s32, double, int32_t, v)
LOOP(f64_s64, double, int64_t, v)
LOOP(f64_u8, double, uint8_t, v)
LOOP(f64_u16, double, uint16_t, v)
LOOP(f64_u32, double, uint32_t, v)
LOOP(f64_u64, double, uint64_t, v)
LOOP(f64_f8e4m3fn, double, uint8_t, widen(&F8E4M3FN, v))
LOOP(f64_f8e5m2, double, uint8_t, widen(&F8E5M2, v))
LOOP(f64_f16, double, uint16_t, widen(&F16, v))
LOOP(f64_bf16, double, uint16_t, f32_from_bf16(v))
LOOP(f64_f32, double, float, v)
LOOP(odd_s64, double, int64_t, odd_from_s64(v))
LOOP(odd_u64, double, uint64_t, odd_from_u64(v))

LOOP(f8e4m3fn_f64, uint8_t, double, narrow(&F8E4M3FN, odd_from_f64(v)))
LOOP(f8e5m2_f64, uint8_t, double, narrow(&F8E5M2, odd_from_f64(v)))
LOOP(f16_f64, uint16_t, double, narrow(&F16, odd_from_f64(v)))
LOOP(bf16_f64, uint16_t, double, bf16_from_f32(odd_from_f64(v)))
LOOP(f32_f64, float, double, v)

LOOP(f32_pred, float, uint8_t, v != 0)
LOOP(f32_s8, float, int8_t, v)
LOOP(f32_s16, float, int16_t, v)
LOOP(f32_s32, float, int32_t, v)
LOOP(f32_u8, float, uint8_t, v)
LOOP(f32_u16, float, uint16_t, v)
LOOP(f32_f8e4m3fn, float, uint8_t, widen(&F8E4M3FN, v))
LOOP(f32_f8e5m2, float, uint8_t, widen(&F8E5M2, v))
LOOP(f32_f16, float, uint16_t, widen(&F16, v))
LOOP(f32_bf16, float, uint16_t, f32_from_bf16(v))
LOOP(f8e4m3fn_f32, uint8_t, float, narrow(&F8E4M3FN, v))
LOOP(f8e5m2_f32, uint8_t, float, narrow(&F8E5M2, v))
LOOP(f16_f32, uint16_t, float, narrow(&F16, v))
LOOP(bf16_f32, uint16_t, float, bf16_from_f32(v))

// Per type: its way to and from f64. to_f64 is exact, but for 64-bit integers, which round once; their second column is
// the round-to-odd that must be used when another rounding follows.
static const struct {
    convert_fn *to_f64, *to_f64_odd, *from_f64;
} formats[DT_COUNT] = {
    [DT_PRED] = {f64_pred, f64_pred, NULL},
    [DT_S8] = {f64_s8, f64_s8, NULL},
    [DT_S16] = {f64_s16, f64_s16, NULL},
    [DT_S32] = {f64_s32, f64_s32, NULL},
    [DT_S64] = {f64_s64, odd_s64, NULL},
    [DT_U8] = {f64_u8, f64_u8, NULL},
    [DT_U16] = {f64_u16, f64_u16, NULL},
    [DT_U32] = {f64_u32, f64_u32, NULL},
    [DT_U64] = {f64_u64, odd_u64, NULL},
    [DT_F8E4M3FN] = {f64_f8e4m3fn, f64_f8e4m3fn, f8e4m3fn_f64},
    [DT_F8E5M2] = {f64_f8e5m2, f64_f8e5m2, f8e5m2_f64},
    [DT_F16] = {f64_f16, f64_f16, f16_f64},
    [DT_BF16] = {f64_bf16, f64_bf16, bf16_f64},
    [DT_F32] = {f64_f32, f64_f32, f32_f64},
};

// Pairs worth a loop of their own; all others go through f64.
static const struct {
    enum dtype to, from;
    convert_fn *fn;
} direct[] = {
    {DT_F32, DT_PRED, f32_pred},
    {DT_F32, DT_S8, f32_s8},
    {DT_F32, DT_S16, f32_s16},
    {DT_F32, DT_S32, f32_s32},
    {DT_F32, DT_U8, f32_u8},
    {DT_F32, DT_U16, f32_u16},
    {DT_F32, DT_F8E4M3FN, f32_f8e4m3fn},
    {DT_F32, DT_F8E5M2, f32_f8e5m2},
    {DT_F32, DT_F16, f32_f16},
    {DT_F32, DT_BF16, f32_bf16},
    {DT_F8E4M3FN, DT_F32, f8e4m3fn_f32},
    {DT_F8E5M2, DT_F32, f8e5m2_f32},
    {DT_F16, DT_F32, f16_f32},
    {DT_BF16, DT_F32, bf16_f32},
};

static convert_fn *find_direct(enum dtype to, enum dtype from)
{
    if (to == DT_F64)
        return formats[from].to_f64;
    if (from == DT_F64)
        return formats[to].from_f64;
    for (size_t i = 0; i < sizeof direct / sizeof *direct; i++) {
        if (direct[i].to == to && direct[i].from == from)
            return direct[i].fn;
    }
    return NULL;
}

bool convert_possible(enum dtype to, enum dtype from)
{
    if (dtype_bits(to) == 0 || dtype_bits(from) == 0)
        return false;
    return to == from || find_direct(to, from) || (formats[to].from_f64 && formats[from].to_f64_odd);
}

int convert_elements(enum dtype to, void *dst, enum dtype from, const void *src, size_t n, struct error *err)
{
    if (!convert_possible(to, from))
        return error_set(err, ERR_INPUT, NULL, "%s cannot be converted to %s", dtype_name(from), dtype_name(to));
    size_t bytes;
    if (!dtype_bytes(to, n, &bytes) || !dtype_bytes(from, n, &bytes))
        return error_set(err, ERR_INPUT, NULL, "%zu elements are more than memory can hold", n);
    if (n == 0)
        return 0;
    if (to == from) {
        memcpy(dst, src, bytes);
        return 0;
    }
    convert_fn *fn = find_direct(to, from);
    if (fn) {
        fn(dst, src, n);
        return 0;
    }
    size_t from_size = (size_t)dtype_bits(from) / 8, to_size = (size_t)dtype_bits(to) / 8;
    double part[512];
    for (size_t i = 0; i < n;) {
        size_t k = n - i < 512 ? n - i : 512;
        formats[from].to_f64_odd(part, (const uint8_t *)src + i * from_size, k);
        formats[to].from_f64((uint8_t *)dst + i * to_size, part, k);
        i += k;
    }
    return 0;
}
