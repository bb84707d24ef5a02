// SPDX-License-Identifier: Apache-2.0
// Checked sizes, and a cursor that cannot leave its bytes.
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// a*b and a+b into *out; false (and *out untouched) when the result does not fit.
static inline bool size_mul(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool size_add(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

// Product of `rank` non-negative extents; false on overflow or a negative extent. Rank 0 is 1.
static inline bool size_product(const int64_t *dims, int rank, size_t *out)
{
    size_t n = 1;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0 || !size_mul(n, (size_t)dims[i], &n))
            return false;
    }
    *out = n;
    return true;
}

// a+b and a*b, or INT64_MAX when that leaves 64 bits at either end: for sums and sizes that are never negative.
static inline int64_t add_saturated(int64_t a, int64_t b)
{
    int64_t r;
    return __builtin_add_overflow(a, b, &r) ? INT64_MAX : r;
}

static inline int64_t multiply_saturated(int64_t a, int64_t b)
{
    int64_t r;
    return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

// Rounds n up to a multiple of align (a power of two); saturates at SIZE_MAX.
static inline size_t size_align(size_t n, size_t align)
{
    size_t r = (n + align - 1) & ~(align - 1);
    return r < n ? SIZE_MAX : r;
}

// Reads little-endian fields from [data, data+size). After the first read past the end `failed` is set, the position
// stays where that read began, and every later read yields zero.
struct cursor {
    const uint8_t *data;
    size_t size;
    size_t at;
    bool failed;
};

static inline void cursor_init(struct cursor *c, const void *data, size_t size)
{
    c->data = (const uint8_t *)data;
    c->size = size;
    c->at = 0;
    c->failed = false;
}

static inline size_t cursor_left(const struct cursor *c)
{
    return c->failed ? 0 : c->size - c->at;
}

// The next n bytes, or NULL.
static inline const uint8_t *cursor_take(struct cursor *c, size_t n)
{
    if (c->failed || n > c->size - c->at) {
        c->failed = true;
        return NULL;
    }
    const uint8_t *p = c->data + c->at;
    c->at += n;
    return p;
}

static inline uint32_t cursor_u32(struct cursor *c)
{
    uint32_t v = 0;
    const uint8_t *p = cursor_take(c, sizeof v);
    if (p)
        memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t cursor_u64(struct cursor *c)
{
    uint64_t v = 0;
    const uint8_t *p = cursor_take(c, sizeof v);
    if (p)
        memcpy(&v, p, sizeof v);
    return v;
}

#endif
