// SPDX-License-Identifier: Apache-2.0
// The inner loops of integer quantisation over contiguous f32, one set per instruction set, chosen once (num/isa.h).
// All sets give the same bits, sums of the tally included: those run in QUANT_LANES partial sums (element i of a call
// adds to lane i % QUANT_LANES), whose order is part of the contract.
//
// The rule of a code, whatever the scale's origin:
//     code = clip(rint(x / scale) + zero, low, high)      one f32 division, ties to even, one f32 addition
//     x'   = (float)(code - zero) * scale                 one f32 product
// A scale must be finite and above 0. NaN gets the code `low`, an infinity that of its sign; callers that want
// something else look for them first (absmax tells). Outputs must not overlap inputs.
#ifndef NUM_QUANTIZE_KERNELS_H
#define NUM_QUANTIZE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// One tensor's or channel's rule. -128 <= low <= high <= 255, high - low <= 255 and low <= zero <= high. Codes are
// stored as bytes, low 8 bits: int8_t where low < 0, else uint8_t.
struct quant_rule {
    int low, high, zero;
};

enum { QUANT_LANES = 8 };

// What codes lost, in f64 against the f32 input; calls add to what is there. e = x' - x with x' exact (not rounded to
// f32). Infinities and NaN count only in `elements`, and infinities in `clipped`.
struct quant_tally {
    size_t elements;
    size_t clipped;                 // rint(x / scale) + zero outside [low, high]
    size_t flushed;                 // x != 0 and code == zero
    double error2[QUANT_LANES];     // sum of e * e
    double reference2[QUANT_LANES]; // sum of x * x
    double max_error;               // largest |e|
    double max_error_in_scales;     // largest |e| / scale where nothing was clipped
};
// Sums of e * e and x * x that belong to columns: element i of a call adds to entry i.
struct quant_column_sums {
    double *error2, *reference2;
};
// The sum of the lanes, in order.
double quant_lanes_sum(const double lanes[QUANT_LANES]);

// Smallest and largest of a run. NaN is skipped (absmax finds it).
struct quant_extent {
    float min, max; // +inf and -inf for a run without numbers; a zero may have either sign
};

struct quant_kernels {
    const char *isa;
    // Bits of the largest |x|: patterns of magnitudes order as their values, with infinity (0x7f800000) and then NaN
    // above all numbers. 0 for n == 0.
    uint32_t (*absmax)(const float *x, size_t n);
    struct quant_extent (*extent)(const float *x, size_t n);
    // The same of each of `groups` consecutive runs of `group` elements.
    void (*absmax_groups)(const float *x, size_t groups, size_t group, uint32_t *absmax);
    // amax[j] = max(amax[j], |x[j]|) as bits: call it for each row to get a column's.
    void (*absmax_columns)(const float *x, size_t n, uint32_t *absmax);

    // Codes with one scale for all n; with one per element; with one per run of `group`. tally may be NULL. With
    // `columns` (which needs a tally) the two sums go there instead of into the tally's.
    void (*encode)(const struct quant_rule *rule, const float *x, size_t n, float scale, void *codes,
                   struct quant_tally *tally);
    void (*encode_columns)(const struct quant_rule *rule, const float *x, size_t n, const float *scales, void *codes,
                           struct quant_tally *tally, const struct quant_column_sums *columns);
    void (*encode_groups)(const struct quant_rule *rule, const float *x, size_t groups, size_t group,
                          const float *scales, void *codes, struct quant_tally *tally);

    // encode() without a tally, and meanwhile absmax() of the n elements at next: the arithmetic of one hides the
    // reading of the other. stream, here and below: writes around the caches, as in num/convert_kernels.h, whose
    // fence() must follow.
    uint32_t (*encode_ahead)(const struct quant_rule *rule, const float *x, size_t n, float scale, void *codes,
                             const float *next, bool stream);

    void (*decode)(const struct quant_rule *rule, const void *codes, size_t n, float scale, float *x, bool stream);
    void (*decode_columns)(const struct quant_rule *rule, const void *codes, size_t n, const float *scales, float *x,
                           bool stream);
    void (*decode_groups)(const struct quant_rule *rule, const void *codes, size_t groups, size_t group,
                          const float *scales, float *x, bool stream);

    // Two codes to a byte, the even index in the low nibble; an odd end is filled with 0. packed: (n + 1) / 2 bytes.
    // unpack extends the sign (is_signed) or with 0.
    void (*pack4)(const void *codes, size_t n, uint8_t *packed);
    void (*unpack4)(const uint8_t *packed, size_t n, int is_signed, void *codes);
};

// The last of the decoders, from the first; and the two halves of encode_ahead one after the other.
#define QUANT_DECODE_GROUPS                                                                                            \
    static void decode_groups(const struct quant_rule *rule, const void *codes, size_t groups, size_t group,           \
                              const float *scales, float *x, bool stream)                                              \
    {                                                                                                                  \
        for (size_t g = 0; g < groups; g++)                                                                            \
            decode(rule, (const uint8_t *)codes + g * group, group, scales[g], x + g * group, stream);                 \
    }
#define QUANT_ENCODE_AHEAD                                                                                             \
    static uint32_t encode_ahead(const struct quant_rule *rule, const float *x, size_t n, float scale, void *codes,    \
                                 const float *next, bool stream)                                                       \
    {                                                                                                                  \
        (void)stream;                                                                                                  \
        encode(rule, x, n, scale, codes, NULL);                                                                        \
        return absmax(next, n);                                                                                        \
    }
// A set made of functions with the names of the members.
#define QUANT_KERNELS(name)                                                                                            \
    {                                                                                                                  \
        .isa = (name), .absmax = absmax, .extent = extent, .absmax_groups = absmax_groups,                             \
        .absmax_columns = absmax_columns, .encode = encode, .encode_columns = encode_columns,                          \
        .encode_groups = encode_groups, .encode_ahead = encode_ahead, .decode = decode,                                \
        .decode_columns = decode_columns, .decode_groups = decode_groups, .pack4 = pack4, .unpack4 = unpack4           \
    }

const struct quant_kernels *quant_kernels(void); // of isa_in_force()
extern const struct quant_kernels quant_kernels_portable;
#if defined(__x86_64__)
extern const struct quant_kernels quant_kernels_avx2, quant_kernels_avx512;
#elif defined(__aarch64__)
extern const struct quant_kernels quant_kernels_neon;
#endif

#endif
