// SPDX-License-Identifier: Apache-2.0
// The inner loops of block formats and of what a rounding lost, one set per instruction set (num/isa.h). All sets give
// the same bits.
#ifndef NUM_BLOCK_KERNELS_H
#define NUM_BLOCK_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "num/format.h"

enum { BLOCK_LANES = 8, BLOCK_RUN = 16 };

// An element type, as f32 arithmetic needs it. Elements are rounded to nearest, ties to even, and clamped.
struct block_rule {
    int integer;         // two's complement with `fraction` steps to 1, else a float format
    float fraction;      // 64 for mxint8, else 1
    float max, least;    // the largest, the smallest normal (1 for integers); in steps
    float subnormals;    // 2^mantissa / least
    int mantissa;        // bits
    uint32_t gap;        // of f32's bias and the element's, shifted by the mantissa
    int sign;            // bit of a code
    int divides;         // elements are x / factor
    int flush_by_result; // an element is flushed when x * factor is not 0 but its code is; else when x is not 0
};

// Of a float format of at most 8 bits that has a code for -0 (fraction 0), or of integers with fraction bits.
struct block_rule block_rule_of(const struct format *element, int fraction);

struct block_counts {
    size_t clipped, flushed, overflowed; // as in struct block_stats
};

// Sums over pairs of values in f64, element i of a call in lane i % BLOCK_LANES; calls add to what is there.
struct block_lost {
    double error2[BLOCK_LANES], reference2[BLOCK_LANES], worst[BLOCK_LANES];
    size_t flushed; // x != 0 and back == 0
};

// Are errors within the bound? Elements whose |x / scale| is beyond `limit` are clipped and have none. For the others
// |e| / scale is at most max(power of two at or below |unit|, min_normal) * half_step + |unit| * slack.
struct block_bound {
    float limit;
    double min_normal, half_step, slack;
};
struct block_judged {
    double most; // the largest |e| of what is not clipped
    bool beyond; // one of them passes the bound
};

struct block_kernels {
    const char *isa;
    // n elements, a multiple of BLOCK_RUN, finite: codes of x * factor, and what they decode to, element * total in one
    // rounding. factor must not take a finite x beyond 2^127 unless it is to be clamped.
    void (*code)(const struct block_rule *rule, const float *x, size_t n, float factor, float total, uint8_t *codes,
                 float *back, struct block_counts *counts);
    // n finite elements and what they became, as lost(), of which it is the other half; calls add to what is there.
    void (*judge)(const struct block_bound *bound, const float *x, const float *unit, size_t n, float scale,
                  struct block_judged *judged);
    // n < 2^31. e = back * scale - x, exact but for the difference. Pairs with a value that is not finite add nothing.
    void (*lost)(const float *x, const float *back, size_t n, double scale, struct block_lost *sums);
};

const struct block_kernels *block_kernels(void); // of isa_in_force()
extern const struct block_kernels block_kernels_portable;
#if defined(__x86_64__)
extern const struct block_kernels block_kernels_avx2, block_kernels_avx512;
#endif

#endif
