// SPDX-License-Identifier: Apache-2.0
// See vector_loop.h for how this is included.

#include "kernels/vector_loop.h"

ISA_INLINE float NAME(largest)(const float *x, int64_t n)
{
    NAME(floats) top = (NAME(floats)){0} - INFINITY, v;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        NAME(load)(&v, x + i);
        NAME(choose)(&top, v > top, &v, &top);
    }
    float one = -INFINITY;
    for (int k = 0; k < LANES; k++)
        one = top[k] > one ? top[k] : one;
    for (; i < n; i++)
        one = x[i] > one ? x[i] : one;
    return one;
}

// n scores, in place, times scale: e^(x - the largest), and their sum. What is left at the end goes through a vector of
// its own, so that a value does not depend on where it lies.
ISA_INLINE float NAME(exponentials)(float *x, int64_t n, float scale, float top)
{
    NAME(floats) sum = {0}, v;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        NAME(load)(&v, x + i);
        v = v * scale - top;
        NAME(exponential)(&v);
        sum += v;
        NAME(store)(x + i, &v);
    }
    float total = 0, rest[LANES] = {0};
    if (i < n) {
        memcpy(rest, x + i, (size_t)(n - i) * sizeof *x);
        NAME(load)(&v, rest);
        v = v * scale - top;
        NAME(exponential)(&v);
        NAME(store)(rest, &v);
        memcpy(x + i, rest, (size_t)(n - i) * sizeof *x);
        for (int64_t k = 0; k < n - i; k++)
            total += rest[k];
    }
    for (int k = 0; k < LANES; k++)
        total += sum[k];
    return total;
}

static void NAME(softmax_row)(float *x, int64_t n, float scale, enum dtype type, void *out)
{
    float top = NAME(largest)(x, n) * scale, sum = NAME(exponentials)(x, n, scale, top);
    NAME(floats) v;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        NAME(load)(&v, x + i);
        v /= sum;
        if (type == DT_BF16)
            NAME(store_bf16)((uint16_t *)out + i, &v);
        else
            NAME(store)((float *)out + i, &v);
    }
    for (; i < n; i++) {
        if (type == DT_BF16)
            ((uint16_t *)out)[i] = bf16_from_f32(x[i] / sum);
        else
            ((float *)out)[i] = x[i] / sum;
    }
}
