// SPDX-License-Identifier: Apache-2.0
// The inner loops of conversion, one set per instruction set (num/isa.h). All sets give the same bits. They round to
// nearest even and keep subnormals; the thread must be in the default floating-point mode (no flush to zero, no
// denormals are zero). Every NaN comes out quiet, without payload, with its sign where the target has one.
#ifndef NUM_CONVERT_KERNELS_H
#define NUM_CONVERT_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// How f32 is narrowed to a float format of at most 16 bits. What is special about a magnitude is done to the input: it
// is replaced by one from which arithmetic makes the wanted code (480 gives e4m3fn its NaN).
struct convert_narrow {
    uint32_t special_from;   // magnitudes whose bits are at least this are replaced:
    uint32_t over, inf, nan; // by one of these: numbers, infinity, NaN
    // Used by f8 alone: formats of at most 8 bits with a sign.
    int sign;              // bit of it
    int mantissa;          // bits
    uint32_t min_exponent; // field of the smallest normal in f32: 128 - bias
    uint32_t signed_zero;  // all ones, or 0 where -0 is +0
};

// n elements; no alignment is asked for. `stream` writes around the caches, for results larger than they are: a thread
// must call fence() after its last such write and before it tells others that it is done.
struct convert_kernels {
    const char *isa;
    void (*bf16_f32)(void *dst, const void *src, size_t n, const struct convert_narrow *rule, bool stream);
    void (*f16_f32)(void *dst, const void *src, size_t n, const struct convert_narrow *rule, bool stream);
    void (*f8_f32)(void *dst, const void *src, size_t n, const struct convert_narrow *rule, bool stream);
    void (*f32_bf16)(void *dst, const void *src, size_t n, bool stream);
    void (*f32_f16)(void *dst, const void *src, size_t n, bool stream);
    // dst[i] = table[src[i]], bytes to f32: for every format of at most 8 bits. The low 16 bits of the entries are 0.
    void (*f32_f8)(void *dst, const void *src, size_t n, const uint32_t table[256], bool stream);
    void (*f32_f64)(void *dst, const void *src, size_t n, bool stream);
    void (*f64_f32)(void *dst, const void *src, size_t n, bool stream);
    // Round to odd: toward zero, and the last bit set where anything was lost. f32 keeps at least two bits more than
    // any format below it, so a second rounding sees on which side of a tie the value lies (Boldo and Melquiond,
    // "Emulation of a FMA and correctly rounded sums", 2008). NaN and infinity as f32_f64.
    void (*f32_f64_odd)(void *dst, const void *src, size_t n);
    void (*copy)(void *dst, const void *src, size_t n, bool stream); // n bytes
    void (*fence)(void);
};

// A set made of functions with the names of the members, but for the first.
#define CONVERT_KERNELS(name, bf16_f32_function)                                                                       \
    {                                                                                                                  \
        .isa = (name), .bf16_f32 = (bf16_f32_function), .f16_f32 = f16_f32, .f8_f32 = f8_f32, .f32_bf16 = f32_bf16,    \
        .f32_f16 = f32_f16, .f32_f8 = f32_f8, .f32_f64 = f32_f64, .f64_f32 = f64_f32, .f32_f64_odd = f32_f64_odd,      \
        .copy = copy, .fence = fence                                                                                   \
    }

const struct convert_kernels *convert_kernels(void); // of isa_in_force()
extern const struct convert_kernels convert_kernels_portable;
#if defined(__x86_64__)
extern const struct convert_kernels convert_kernels_avx2, convert_kernels_avx512, convert_kernels_avx512_bf16;
#elif defined(__aarch64__)
extern const struct convert_kernels convert_kernels_neon;
#endif

#endif
