// SPDX-License-Identifier: Apache-2.0
// The loops of num/block_kernels.h in vectors of the compiler, for the files that hold one instruction set. They define
// before it:
//     VECTOR_BYTES                          of a register
//     store_bytes(uint8_t *to, words v)     the low bytes of its words
#ifndef NUM_BLOCK_LOOP_H
#define NUM_BLOCK_LOOP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "num/block_kernels.h"
#include "num/isa_target.h"

enum { WORDS = VECTOR_BYTES / 4, DOUBLES = VECTOR_BYTES / 8, ACCUMULATORS = BLOCK_LANES / DOUBLES };

typedef float floats __attribute__((vector_size(VECTOR_BYTES)));
typedef float half_floats __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef int32_t half_words __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef double doubles __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t longs __attribute__((vector_size(VECTOR_BYTES)));

// a where the mask is all ones, b where it is 0; of integer vectors.
#define SELECT(mask, a, b) (((a) & (mask)) | ((b) & ~(mask)))

static size_t count(words masks)
{
    int32_t total = 0;
    for (size_t i = 0; i < WORDS; i++)
        total -= masks[i];
    return (size_t)total;
}

ISA_INLINE void code_floats(const struct block_rule *r, words a, words *magnitude, words *kept, words *clipped)
{
    const words limit = (words)((floats){0} + 2 * r->max), least = (words)((floats){0} + r->least);
    const words largest = (words)((floats){0} + r->max);
    a = SELECT(a < limit, a, limit); // magnitudes order as their bits
    words exponent = SELECT(a > least, a, least) & 0x7f800000;
    floats unit = r->integer ? (floats){0} + 0x1p23f : (floats)(exponent + ((23 - r->mantissa) << 23));
    words whole = (words)(((floats)a + unit) - unit);
    *clipped = whole > largest;
    *kept = SELECT(*clipped, largest, whole);
    if (r->integer) {
        *magnitude = __builtin_convertvector((floats)*kept, words);
        return;
    }
    words small = __builtin_convertvector((floats)*kept * r->subnormals, words);
    words normal = (*kept >> (23 - r->mantissa)) - (int32_t)r->gap;
    *magnitude = SELECT(*kept < least, small, normal);
}

static void code(const struct block_rule *rule, const float *x, size_t n, float factor, float total, uint8_t *codes,
                 float *back, struct block_counts *counts)
{
    const struct block_rule r = *rule;
    const float step = 1 / r.fraction;
    const int32_t sign = 1 << r.sign;
    words clipped = {0}, flushed = {0}, overflowed = {0};
    for (size_t i = 0; i < n; i += WORDS) {
        floats in, out;
        memcpy(&in, x + i, sizeof in);
        floats v = r.divides ? in / factor : in * factor * r.fraction;
        words magnitude, kept, clips, negative = (words)in >> 31;
        code_floats(&r, (words)v & 0x7fffffff, &magnitude, &kept, &clips);
        clipped += clips;
        words looked = (r.flush_by_result ? (words)v : (words)in) & 0x7fffffff;
        flushed += (kept == 0) & (looked != 0);
        if (r.integer) {
            magnitude = (magnitude ^ negative) - negative;
            out = __builtin_convertvector(magnitude, floats) * step * total;
        } else {
            magnitude |= negative & sign;
            out = (floats)(kept | ((words)in & INT32_MIN)) * total;
        }
        store_bytes(codes + i, magnitude);
        memcpy(back + i, &out, sizeof out);
        overflowed += ((words)out & 0x7fffffff) == 0x7f800000;
    }
    counts->clipped += count(clipped);
    counts->flushed += count(flushed);
    counts->overflowed += count(overflowed);
}

ISA_INLINE void judge_some(const struct block_bound *bound, const float *x, const float *unit, float scale, longs *most,
                           longs *beyond)
{
    half_floats a, b;
    memcpy(&a, x, sizeof a);
    memcpy(&b, unit, sizeof b);
    half_words clips = ((half_words)(a / scale) & 0x7fffffff) > (half_words)((half_floats){0} + bound->limit);
    longs inside = ~__builtin_convertvector(clips, longs);
    doubles u = __builtin_convertvector(b, doubles);
    doubles power = __builtin_convertvector((half_floats)((half_words)b & 0x7f800000), doubles);
    longs least = (longs)((doubles){0} + bound->min_normal);
    longs size = (longs)(u * (double)scale - __builtin_convertvector(a, doubles)) & INT64_MAX & inside;
    doubles kept = (doubles)SELECT((longs)power > least, (longs)power, least);
    doubles allowed = kept * bound->half_step + (doubles)((longs)u & INT64_MAX) * bound->slack;
    *most = SELECT(size > *most, size, *most);
    *beyond |= ((doubles)size / (double)scale > allowed) & inside;
}

static void judge(const struct block_bound *bound, const float *x, const float *unit, size_t n, float scale,
                  struct block_judged *judged)
{
    longs most = {0}, beyond = {0};
    size_t i = 0;
    for (; i + DOUBLES <= n; i += DOUBLES)
        judge_some(bound, x + i, unit + i, scale, &most, &beyond);
    if (i < n) {
        float a[DOUBLES] = {0}, b[DOUBLES] = {0};
        memcpy(a, x + i, (n - i) * sizeof *a);
        memcpy(b, unit + i, (n - i) * sizeof *b);
        judge_some(bound, a, b, scale, &most, &beyond);
    }
    for (size_t j = 0; j < DOUBLES; j++) {
        double size = ((doubles)most)[j];
        judged->most = size > judged->most ? size : judged->most;
        judged->beyond |= beyond[j] != 0;
    }
}

// 8 pairs.
ISA_INLINE void lost_lanes(const float *x, const float *back, double scale, doubles *error2, doubles *reference2,
                           longs *worst, half_words *flushed)
{
    ISA_UNROLL
    for (size_t k = 0; k < ACCUMULATORS; k++) {
        half_words a, b;
        memcpy(&a, x + k * DOUBLES, sizeof a);
        memcpy(&b, back + k * DOUBLES, sizeof b);
        flushed[k] += ((a & 0x7fffffff) != 0) & ((b & 0x7fffffff) == 0);
        half_words finite = ((a & 0x7f800000) != 0x7f800000) & ((b & 0x7f800000) != 0x7f800000);
        doubles v = __builtin_convertvector((half_floats)(a & finite), doubles);
        doubles e = __builtin_convertvector((half_floats)(b & finite), doubles) * scale - v;
        longs size = (longs)e & INT64_MAX;
        error2[k] += e * e;
        reference2[k] += v * v;
        worst[k] = SELECT(size > worst[k], size, worst[k]); // magnitudes order as their bits
    }
}

static void lost(const float *x, const float *back, size_t n, double scale, struct block_lost *s)
{
    doubles error2[ACCUMULATORS], reference2[ACCUMULATORS];
    longs worst[ACCUMULATORS];
    half_words flushed[ACCUMULATORS] = {{0}};
    memcpy(error2, s->error2, sizeof error2);
    memcpy(reference2, s->reference2, sizeof reference2);
    memcpy(worst, s->worst, sizeof worst);
    size_t i = 0;
    for (; i + BLOCK_LANES <= n; i += BLOCK_LANES)
        lost_lanes(x + i, back + i, scale, error2, reference2, worst, flushed);
    if (i < n) {
        float a[BLOCK_LANES] = {0}, b[BLOCK_LANES] = {0};
        memcpy(a, x + i, (n - i) * sizeof *a);
        memcpy(b, back + i, (n - i) * sizeof *b);
        lost_lanes(a, b, scale, error2, reference2, worst, flushed);
    }
    memcpy(s->error2, error2, sizeof error2);
    memcpy(s->reference2, reference2, sizeof reference2);
    memcpy(s->worst, worst, sizeof worst);
    for (size_t k = 0; k < ACCUMULATORS; k++) {
        for (size_t j = 0; j < DOUBLES; j++)
            s->flushed -= (size_t)(ptrdiff_t)flushed[k][j];
    }
}

#endif
