// SPDX-License-Identifier: Apache-2.0
// Arithmetic on affine codes, as integer kernels define it: a code q stands for scale * (q - zero). Every sum is taken
// in 64 bits and checked before it becomes 32. For checking kernels, not for speed.
#ifndef NUM_AFFINE_H
#define NUM_AFFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "num/dtype.h"

// A grid that values are represented on.
struct affine_grid {
    enum dtype type; // s4, u4, s8, u8, s16, u16: all its codes are used
    double scale;
    int32_t zero;
};
// ERR_INPUT for a scale that is 0, negative, infinite or NaN, and for a zero point that is no integer or no code of
// `type`. The zero point is a double since files and command lines can hold such.
int affine_grid_init(struct affine_grid *g, enum dtype type, double scale, double zero, const char *name,
                     struct error *err);
void affine_limits(enum dtype type, int32_t *lowest, int32_t *highest);
// Codes as they lie in memory (one in a byte, or two bytes for 16 bits) to int32.
int affine_widen(enum dtype type, const void *codes, size_t n, int32_t *out, struct error *err);

// Values to codes and back: code = clip(rint(x / scale) + zero), half even; restored = scale * (code - zero). NaN
// becomes the lowest code and counts as clipped. restored and clipped may be NULL; returns how many were clipped.
size_t affine_to_grid(const struct affine_grid *g, const double *x, size_t n, int32_t *codes, double *restored,
                      bool *clipped);
void affine_from_grid(const struct affine_grid *g, const int32_t *codes, size_t n, double *x);

// y[r, j] = sum over i of (x[r, i] - x_zero) * (w[i, j] - w_zeros[j]) + bias[j].
struct affine_product {
    size_t rows, inputs, outputs;
    const int32_t *x; // rows x inputs
    int32_t x_zero;
    const int32_t *w;       // inputs x outputs
    const int32_t *w_zeros; // per output; NULL: 0
    const int64_t *bias;    // per output, in units of the accumulator (affine_bias); NULL: 0
};
// wide: rows x outputs. ERR_INPUT when the 64-bit sum itself could overflow.
int affine_dot_wide(const struct affine_product *p, int64_t *wide, const char *name, struct error *err);
// The same as int32; ERR_INPUT names the first output whose exact sum does not fit.
int affine_dot(const struct affine_product *p, int32_t *acc, const char *name, struct error *err);
// How many products of magnitudes up to these always fit int32: floor((2^31 - 1) / (x * w)); 133144 for 127 and 127.
size_t affine_safe_inputs(int32_t largest_x, int32_t largest_w);

// Biases in accumulator units: rint(bias[j] / (x_scale * w_scales[j])). ERR_INPUT where that is no int32.
// *largest_error: of |code * x_scale * w_scale - bias|.
int affine_bias(const double *bias, size_t n, double x_scale, const double *w_scales, int64_t *codes,
                double *largest_error, const char *name, struct error *err);

// How an accumulator times M = x_scale * w_scale / y_scale becomes an integer. All agree but on ties and their
// neighbourhood.
enum affine_rule {
    AFFINE_F64, // rint(acc * M) in f64, half even
    AFFINE_F32, // rint((float)acc * (float)M) in f32, half even: FBGEMM, XNNPACK's fp32 kernels, ONNX Runtime
    // The fixed-point rules use M as q * 2^(shift - 31) with 2^30 <= q < 2^31 (affine_multiplier).
    AFFINE_DOUBLE_ROUNDING, // gemmlowp and LiteRT: high half of the doubled product, half away; then a rounding right
                            // shift, half away
    AFFINE_SINGLE_ROUNDING, // ruy, and LiteRT when built so: (acc * q + 2^(30 - shift)) >> (31 - shift), half up
};
const char *affine_rule_name(enum affine_rule rule);
// q = round(fraction * 2^31) and shift of frexp(m). ERR_INPUT unless m is finite, above zero and below 2^31. An m below
// 2^-32 becomes 0, as the fixed-point rules say.
int affine_multiplier(double m, int32_t *q, int *shift, const char *name, struct error *err);
// One accumulator by M. Results beyond int32 are saturated (the originals leave them undefined).
int affine_rescale(enum affine_rule rule, int32_t acc, double m, int32_t *out, const char *name, struct error *err);
// rows x w_scales[outputs] accumulators to codes of y: clip(rescaled + y->zero). restored and clipped may be NULL.
int affine_requantise(enum affine_rule rule, const int32_t *acc, size_t rows, size_t outputs, double x_scale,
                      const double *w_scales, const struct affine_grid *y, int32_t *codes, double *restored,
                      bool *clipped, const char *name, struct error *err);

#endif
