// SPDX-License-Identifier: Apache-2.0
// Loops over rows of activations, once per instruction set (num/isa.h). Sets differ in the last bits.
#ifndef KERNELS_ROWS_H
#define KERNELS_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "num/dtype.h"

#define ROTARY_MOST_DIM 512

// What is done to the features of a head: x / sqrt(mean of x^2 + eps) * weight (NULL: nothing), rounded to `between`;
// then feature i times cosine[i] plus its partner times sine[i]. The partner is the neighbour in its pair, or the
// feature half of dim away.
struct rotary_rule {
    int64_t dim; // even, at most ROTARY_MOST_DIM
    const float *weight;
    float eps;
    bool pairs;
    enum dtype x, between, out; // bf16 or f32
};

// What is done to a row: (x - mean) / sqrt(mean of the squares of that + eps), rounded to `between`; then times a
// vector, plus another.
struct layer_norm_rule {
    int64_t n;
    float eps;
    enum dtype x, between, out; // bf16 or f32
};

// What is added to products: residual + gate * sums, in f32.
struct addition {
    const void *residual; // [m, n]; NULL: nothing is added
    enum dtype type;      // of the residual, bf16 or f32
    enum dtype between;   // what sums are rounded to first: bf16, or f32: not at all
    const float *gate;    // [m / tokens, n], NULL: none
    int64_t tokens, n;
};
static inline const float *addition_gate(const struct addition *a, int64_t row, int64_t column)
{
    return a->gate ? a->gate + row / a->tokens * a->n + column : NULL;
}

struct row_loops {
    // silu(gate) * up, n values of type t, in f32, rounded once to type `to`.
    void (*swiglu)(const void *gate, const void *up, enum dtype t, int64_t n, void *out, enum dtype to);
    // One head. The tables have room for ROTARY_MOST_DIM values.
    void (*rotary)(const struct rotary_rule *r, const float *cosine, const float *sine, const void *x, void *out);
    // n sums (s32 or f32) times a factor, then times one each (NULL: none), in f32; to bf16 or f32.
    void (*scale)(const void *sums, enum dtype t, int64_t n, float factor, const float *factors, void *out,
                  enum dtype to);
    // n scaled sums of that row, from that column on, and what is added to them; to bf16 or f32.
    void (*add)(const struct addition *a, int64_t row, int64_t column, int64_t n, const float *sums, void *out,
                enum dtype to);
    // n codes, s8 or s4 (two to a byte, the low nibble first), to bf16, which holds all of them; with scales, one for
    // every `group` of them, times those in f32, rounded once.
    void (*widen)(const void *codes, enum dtype t, int64_t n, const float *scales, int64_t group, uint16_t *out);
    // n values of bf16 or f32 to codes of -127 to 127; returns their factor, the largest magnitude over 127: 1 of
    // zeros, NaN where one is no number. The same bits by every set, those of the plain program.
    float (*quantise)(const void *x, enum dtype t, int64_t n, int8_t *codes);
    void (*layer_norm)(const struct layer_norm_rule *r, const float *scale, const float *shift, const void *x,
                       void *out);
};
struct row_loops row_loops(void); // of isa_in_force()

#endif
