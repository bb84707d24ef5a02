// SPDX-License-Identifier: Apache-2.0
// See vector_loop.h for how this is included. Pixels are rows of `channels` values, bf16 or f32.

#include "kernels/vector_loop.h"

// Means and sums of squares of up to four vectors of channels at once, so that every line of the cache is read once.
// Both are of the differences to the first pixel, which lies among the others: what is subtracted from the squares
// afterwards is of their own size.
ISA_INLINE void NAME(channel_moments)(const void *x, enum dtype t, int64_t pixels, int64_t channels, int64_t first,
                                      int64_t n, float *mean, float *squares)
{
    NAME(floats) sum[4] = {{0}}, square[4] = {{0}}, one[4], v;
    float count = (float)pixels;
    for (int64_t k = 0; k * LANES < n; k++)
        NAME(read)(&one[k], x, t, first + k * LANES, n - k * LANES);
    for (int64_t p = 1; p < pixels; p++) {
        for (int64_t k = 0; k * LANES < n; k++) {
            NAME(read)(&v, x, t, p * channels + first + k * LANES, n - k * LANES);
            v -= one[k];
            sum[k] += v;
            square[k] += v * v;
        }
    }
    for (int64_t k = 0; k * LANES < n; k++) {
        square[k] -= sum[k] * (sum[k] / count);
        v = one[k] + sum[k] / count;
        NAME(write)(mean, DT_F32, first + k * LANES, n - k * LANES, &v);
        NAME(write)(squares, DT_F32, first + k * LANES, n - k * LANES, &square[k]);
    }
}

static void NAME(norm_moments)(const void *x, enum dtype t, int64_t pixels, int64_t channels, float *mean,
                               float *squares)
{
    for (int64_t c = 0; c < channels; c += 4 * LANES) {
        if (channels - c >= 4 * LANES && t == DT_BF16) // of a known length and type: the loops unroll
            NAME(channel_moments)(x, DT_BF16, pixels, channels, c, 4 * LANES, mean, squares);
        else if (channels - c >= 4 * LANES)
            NAME(channel_moments)(x, DT_F32, pixels, channels, c, 4 * LANES, mean, squares);
        else
            NAME(channel_moments)(x, t, pixels, channels, c, channels - c, mean, squares);
    }
}

ISA_INLINE void NAME(apply_some)(const struct norm_rule *r, enum dtype from, enum dtype to, bool silu, const void *x,
                                 void *y, int64_t at, int64_t c, int64_t n)
{
    NAME(floats) scale, shift, v;
    NAME(read)(&scale, r->scale, DT_F32, c, n);
    NAME(read)(&shift, r->shift, DT_F32, c, n);
    NAME(read)(&v, x, from, at + c, n);
    v = v * scale + shift;
    if (silu)
        NAME(silu)(&v, to);
    NAME(write)(y, to, at + c, n, &v);
}

ISA_INLINE void NAME(apply_rows)(const struct norm_rule *r, enum dtype from, enum dtype to, bool silu, const void *x,
                                 void *y, int64_t pixels)
{
    int64_t whole = r->channels / LANES * LANES;
    for (int64_t p = 0; p < pixels; p++) {
        for (int64_t c = 0; c < whole; c += LANES)
            NAME(apply_some)(r, from, to, silu, x, y, p * r->channels, c, LANES);
        if (whole < r->channels)
            NAME(apply_some)(r, from, to, silu, x, y, p * r->channels, whole, r->channels - whole);
    }
}

static void NAME(norm_apply)(const struct norm_rule *r, const void *x, void *y, int64_t pixels)
{
    if (r->x == DT_BF16 && r->y == DT_BF16 && r->silu)
        NAME(apply_rows)(r, DT_BF16, DT_BF16, true, x, y, pixels);
    else
        NAME(apply_rows)(r, r->x, r->y, r->silu, x, y, pixels);
}
