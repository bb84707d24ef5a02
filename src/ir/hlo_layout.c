// SPDX-License-Identifier: Apache-2.0
#include "ir/hlo_layout.h"

#include "ir/hlo_attributes.h"

enum { MAX_AXES = 16 };

int64_t hlo_memory_space(const struct hlo_shape *s)
{
    struct pb_reader r = pb_reader(s->layout.data, s->layout.size);
    struct pb_field f;
    int64_t space = 0;
    while (pb_next(&r, &f)) {
        if (pb_is(&f, 8, PB_VARINT)) // LayoutProto.memory_space
            space = (int64_t)f.value;
    }
    return space;
}

// A packed list of numbers; false when it holds more than MAX_AXES, or one below 0.
static bool numbers(const struct pb_field *f, int64_t out[MAX_AXES], int *n)
{
    const uint8_t *at, *end = hlo_packed(f, &at);
    uint64_t v;
    while (at < end && (at = pb_get_varint(at, end, &v))) {
        if (*n == MAX_AXES || v > INT64_MAX)
            return false;
        out[(*n)++] = (int64_t)v;
    }
    return true;
}

// LayoutProto: minor_to_major 1, tiles 6 with dimensions 1.
static bool read_tiles(const struct hlo_shape *s, int64_t order[MAX_AXES], int *n_order, int64_t tile[MAX_AXES],
                       int *n_tile)
{
    struct pb_reader r = pb_reader(s->layout.data, s->layout.size);
    struct pb_field f = {0}, part = {0};
    *n_order = *n_tile = 0;
    while (pb_next(&r, &f)) {
        if (pb_is(&f, 1, PB_BYTES) && !numbers(&f, order, n_order))
            return false;
        if (!pb_is(&f, 6, PB_BYTES) || *n_tile)
            continue;
        struct pb_reader parts = pb_reader(f.body.data, f.body.size);
        while (pb_next(&parts, &part)) {
            if (pb_is(&part, 1, PB_BYTES) && !numbers(&part, tile, n_tile))
                return false;
        }
    }
    return *n_tile > 0 && *n_order == s->rank;
}

int64_t hlo_padded_bytes(const struct hlo_shape *s)
{
    int64_t order[MAX_AXES], tile[MAX_AXES], dims[MAX_AXES];
    int n_order, n_tile;
    int64_t plain = hlo_shape_bytes(s), elements = 1, whole = 1;
    if (s->kind != HLO_ARRAY || s->rank > MAX_AXES || !read_tiles(s, order, &n_order, tile, &n_tile))
        return plain;
    for (int i = 0; i < s->rank; i++) {
        if (order[i] >= s->rank || s->dims[order[i]] < 0)
            return plain;
        dims[i] = s->dims[order[i]]; // minor first
    }
    for (int i = 0; i < s->rank || i < n_tile; i++) {
        int64_t n = i < s->rank ? dims[i] : 1, t = i < n_tile ? tile[n_tile - 1 - i] : 1, up;
        if (i < s->rank && __builtin_mul_overflow(whole, n, &whole))
            return INT64_MAX;
        if (t < 1)
            return plain;
        up = n % t ? t - n % t : 0;
        if (__builtin_add_overflow(n, up, &n) || __builtin_mul_overflow(elements, n, &elements))
            return INT64_MAX;
    }
    if (whole <= 0)
        return plain;
    double padded = (double)plain / (double)whole * (double)elements;
    return padded < 0x1p63 ? (int64_t)padded : INT64_MAX;
}
