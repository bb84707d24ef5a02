// SPDX-License-Identifier: Apache-2.0
// See vector_loop.h for how this is included. Pixels are rows of `channels` values, bf16 or f32; what does not fill a
// vector goes through one of its own.

#include "kernels/vector_loop.h"

ISA_INLINE void NAME(read)(NAME(floats) * v, const void *x, enum dtype t, int64_t at, int64_t n)
{
    if (n >= LANES) {
        if (t == DT_BF16)
            NAME(load_bf16)(v, (const uint16_t *)x + at);
        else
            NAME(load)(v, (const float *)x + at);
        return;
    }
    float part[LANES] = {0};
    for (int64_t i = 0; i < n; i++)
        part[i] = t == DT_BF16 ? f32_from_bf16(((const uint16_t *)x)[at + i]) : ((const float *)x)[at + i];
    NAME(load)(v, part);
}

ISA_INLINE void NAME(write)(void *y, enum dtype t, int64_t at, int64_t n, const NAME(floats) * v)
{
    if (n >= LANES) {
        if (t == DT_BF16)
            NAME(store_bf16)((uint16_t *)y + at, v);
        else
            NAME(store)((float *)y + at, v);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        if (t == DT_BF16)
            ((uint16_t *)y)[at + i] = bf16_from_f32((*v)[i]);
        else
            ((float *)y)[at + i] = (*v)[i];
    }
}

// Sums of up to four vectors of channels at once, so that every line of the cache is read once.
ISA_INLINE void NAME(sum_channels)(const void *x, enum dtype t, int64_t pixels, int64_t channels, int64_t first,
                                   int64_t n, const float *centre, float *sums)
{
    NAME(floats) sum[4] = {{0}}, middle[4] = {{0}}, v;
    for (int64_t k = 0; centre && k * LANES < n; k++)
        NAME(read)(&middle[k], centre, DT_F32, first + k * LANES, n - k * LANES);
    for (int64_t p = 0; p < pixels; p++) {
        for (int64_t k = 0; k * LANES < n; k++) {
            NAME(read)(&v, x, t, p * channels + first + k * LANES, n - k * LANES);
            v -= middle[k];
            sum[k] += centre ? v * v : v;
        }
    }
    for (int64_t k = 0; k * LANES < n; k++)
        NAME(write)(sums, DT_F32, first + k * LANES, n - k * LANES, &sum[k]);
}

static void NAME(norm_sums)(const void *x, enum dtype t, int64_t pixels, int64_t channels, const float *centre,
                            float *sums)
{
    for (int64_t c = 0; c < channels; c += 4 * LANES) {
        if (channels - c >= 4 * LANES) // of a known length: the loops unroll
            NAME(sum_channels)(x, t, pixels, channels, c, 4 * LANES, centre, sums);
        else
            NAME(sum_channels)(x, t, pixels, channels, c, channels - c, centre, sums);
    }
}

static void NAME(norm_apply)(const struct norm_rule *r, const void *x, void *y, int64_t pixels)
{
    for (int64_t p = 0; p < pixels; p++) {
        for (int64_t c = 0; c < r->channels; c += LANES) {
            int64_t n = r->channels - c < LANES ? r->channels - c : LANES, at = p * r->channels + c;
            NAME(floats) centre, scale, shift, v, e;
            NAME(read)(&centre, r->centre, DT_F32, c, n);
            NAME(read)(&scale, r->scale, DT_F32, c, n);
            NAME(read)(&shift, r->shift, DT_F32, c, n);
            NAME(read)(&v, x, r->x, at, n);
            v = (v - centre) * scale + shift;
            if (r->silu) {
                e = -v;
                NAME(exponential)(&e);
                v = v / (1.0F + e);
            }
            NAME(write)(y, r->y, at, n, &v);
        }
    }
}
