// SPDX-License-Identifier: Apache-2.0
// Scores are made as their transpose, [key, query]: lanes are queries, so the softmax needs no sums across lanes, and
// its bf16 shares already lie as the product with the values wants them. With AMX they are turned for that, for queries
// are the rows of its tiles then.
#include "kernels/flash.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "kernels/onednn.h"
#include "num/isa.h"
#include "num/isa_target.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/tiles.h"

enum {
    LANES = 16,
    QUERIES = 48,   // of a block: three vectors
    KEYS = 8,       // of a tile of scores: 24 vectors of sums
    KEY_GROUP = 16, // keys are packed so many at a time
    TILE_KEYS = 32, // of a tile of shares, in pairs
    TILE = LANES * LANES
};
#define MOST_DIM 1024
// Packed keys and values of some heads at a time, so that they stay in a third-level cache.
#define PACKED_BYTES ((size_t)32 << 20)

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

ISA_TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")

// Pairs of bf16 are one 32-bit element here, as VDPBF16PS takes them.
#include "kernels/turn_groups.h"

// to[c][r] = from[r][c] for 16 x 16 pairs; rows behind `rows` are zeros.
static void transpose(const uint16_t *from, int64_t stride, int64_t rows, int32_t *to, int64_t to_stride)
{
    __m512i r[16];
    ISA_UNROLL
    for (int i = 0; i < 16; i++)
        r[i] = i < rows ? _mm512_loadu_si512(from + i * stride) : _mm512_setzero_si512();
    turn_groups(r);
    ISA_UNROLL
    for (int i = 0; i < 16; i++)
        _mm512_storeu_si512(to + i * to_stride, r[i]);
}

// Pair (a, b) of every lane.
ISA_INLINE __m512i interleave(__m256i a, __m256i b)
{
    return _mm512_or_si512(_mm512_cvtepu16_epi32(a), _mm512_slli_epi32(_mm512_cvtepu16_epi32(b), 16));
}

// sums[r][v] = of `pairs` pairs a[pair][r] times b[pair][v's 16 lanes]; both advance by their strides.
ISA_INLINE void multiply_tile(__m512 *sums, int rows, int vectors, const int32_t *a, int64_t a_stride, const int32_t *b,
                              int64_t b_stride, int64_t pairs)
{
    ISA_UNROLL
    for (int i = 0; i < rows * vectors; i++)
        sums[i] = _mm512_setzero_ps();
    for (int64_t p = 0; p < pairs; p++) {
        __m512i lanes[3];
        ISA_UNROLL
        for (int v = 0; v < vectors; v++)
            lanes[v] = _mm512_loadu_si512(b + v * LANES);
        ISA_UNROLL
        for (int r = 0; r < rows; r++) {
            __m512i one = _mm512_set1_epi32(a[r]);
            ISA_UNROLL
            for (int v = 0; v < vectors; v++)
                sums[r * vectors + v] = _mm512_dpbf16_ps(sums[r * vectors + v], (__m512bh)one, (__m512bh)lanes[v]);
        }
        a += a_stride;
        b += b_stride;
    }
}

// One thread's memory.
struct block {
    int32_t *queries; // [pairs of features, QUERIES]
    float *scores;    // [keys, QUERIES]
    int32_t *shares;  // [pairs of keys, QUERIES]
    _Alignas(64) float most[QUERIES];
    _Alignas(64) float sum[QUERIES];
};

// Scores of 8 keys, those that a query may not see replaced, and the largest so far of each query.
static void score_tile(struct block *b, const int32_t *keys, int64_t pairs, int64_t first, int64_t n,
                       const uint64_t *seen, float hidden)
{
    __m512 s[KEYS * 3], low = _mm512_set1_ps(hidden);
    multiply_tile(s, KEYS, 3, keys, KEY_GROUP, b->queries, QUERIES, pairs);
    ISA_UNROLL
    for (int r = 0; r < KEYS; r++) {
        if (r >= n)
            break;
        ISA_UNROLL
        for (int v = 0; v < 3; v++) {
            if (seen)
                s[r * 3 + v] = _mm512_mask_mov_ps(low, (__mmask16)(seen[first + r] >> (LANES * v)), s[r * 3 + v]);
            __m512 most = _mm512_load_ps(b->most + v * LANES);
            _mm512_store_ps(b->most + v * LANES, _mm512_max_ps(most, s[r * 3 + v]));
            _mm512_store_ps(b->scores + (first + r) * QUERIES + v * LANES, s[r * 3 + v]);
        }
    }
}

// 2^x for x of at most 0, within 2^-18 of itself: shares of bf16 need half of that. A NaN stays one.
ISA_INLINE __m512 power(__m512 x)
{
    x = _mm512_max_ps(_mm512_set1_ps(-200), x); // the second one when it is no number
    __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), r = _mm512_sub_ps(x, n);
    __m512 y = _mm512_set1_ps(1.33335581e-3F); // ln(2)^5 / 5!, and so on
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(9.61812911e-3F));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(5.55041087e-2F));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(2.40226507e-1F));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(6.93147181e-1F));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1));
    return _mm512_scalef_ps(y, n);
}

// Two neighbouring keys of 16 queries, of which `left` are left, as shares: pairs.
ISA_INLINE __m512i share_pair(const float *s, int64_t left, __m512 factor, __m512 top, __m512 *sum)
{
    __m512 even = _mm512_setzero_ps(), odd = even;
    if (left > 0)
        even = power(_mm512_fmsub_ps(_mm512_load_ps(s), factor, top));
    if (left > 1)
        odd = power(_mm512_fmsub_ps(_mm512_load_ps(s + QUERIES), factor, top));
    *sum = _mm512_add_ps(*sum, _mm512_add_ps(even, odd));
    return interleave((__m256i)_mm512_cvtneps_pbh(even), (__m256i)_mm512_cvtneps_pbh(odd));
}

// Keys from..to become shares, still to be divided by their sums.
static void share(struct block *b, int64_t from, int64_t to, float scale)
{
    __m512 factor = _mm512_set1_ps(scale * 1.44269504F);
    ISA_UNROLL
    for (int v = 0; v < 3; v++) {
        __m512 top = _mm512_mul_ps(_mm512_load_ps(b->most + v * LANES), factor), sum = _mm512_setzero_ps();
        for (int64_t k = from; k < to; k += 2) {
            __m512i pair = share_pair(b->scores + k * QUERIES + v * LANES, to - k, factor, top, &sum);
            _mm512_store_si512(b->shares + k / 2 * QUERIES + v * LANES, pair);
        }
        _mm512_store_ps(b->sum + v * LANES, sum);
    }
}

// 16 features of a query, divided by its sum, to the result.
ISA_INLINE void store_weighed(const struct flash *f, __m512 y, float sum, char *out, int64_t at)
{
    y = _mm512_div_ps(y, _mm512_set1_ps(sum));
    if (f->out_type == DT_BF16)
        _mm256_storeu_si256((__m256i *)(void *)((uint16_t *)(void *)out + at), (__m256i)_mm512_cvtneps_pbh(y));
    else
        _mm512_storeu_ps((float *)(void *)out + at, y);
}

// 12 queries by 32 features of the values, divided by the sums, n of the rows to the result.
static void weigh_tile(const struct block *b, int64_t query, const int32_t *values, int64_t from, int64_t to,
                       const struct flash *f, char *out, int64_t n)
{
    __m512 y[12 * 2];
    int64_t pairs = (to - from + 1) / 2;
    multiply_tile(y, 12, 2, b->shares + from / 2 * QUERIES + query, QUERIES, values + from / 2 * 32, 32, pairs);
    ISA_UNROLL
    for (int r = 0; r < 12; r++) {
        if (r >= n)
            break;
        ISA_UNROLL
        for (int v = 0; v < 2; v++)
            store_weighed(f, y[r * 2 + v], b->sum[query + r], out, r * f->heads * f->dim + v * LANES);
    }
}

// 16 keys of one head: [pairs of features, 16].
static void pack_keys(const struct flash *f, const uint16_t *from, int64_t n, int32_t *to)
{
    for (int64_t d = 0; d < f->dim; d += 32)
        transpose(from + d, f->kv_heads * f->dim, n, to + d / 2 * KEY_GROUP, KEY_GROUP);
}

// 16 rows of values of one head: per 32 features [pairs of keys, 32], of all keys (pairs).
static void pack_values(const struct flash *f, const uint16_t *from, int64_t n, int64_t pairs, int32_t *to)
{
    int64_t row = f->kv_heads * f->dim;
    for (int64_t d = 0; d < f->dim; d += LANES) {
        int32_t *out = to + d / 32 * pairs * 32 + d % 32;
        for (int64_t k = 0; k < KEY_GROUP; k += 2, out += 32) {
            __m256i zero = _mm256_setzero_si256();
            __m256i even = k < n ? _mm256_loadu_si256((const void *)(from + k * row + d)) : zero;
            __m256i odd = k + 1 < n ? _mm256_loadu_si256((const void *)(from + (k + 1) * row + d)) : zero;
            _mm512_storeu_si512(out, interleave(even, odd));
        }
    }
}

ISA_TARGET_END

// ---- the same with tiles

ISA_TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,amx-tile,amx-bf16")

// As score_tile, of 16 keys, which are tiles of [16 keys, 16 pairs of features].
static void score_keys(struct block *b, const int32_t *keys, int64_t pairs, int64_t first, int64_t n,
                       const uint64_t *seen, float hidden)
{
    float *s = b->scores + first * QUERIES;
    __m512 low = _mm512_set1_ps(hidden);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    for (int64_t p = 0; p < pairs; p += LANES) {
        const int32_t *queries = b->queries + p * QUERIES;
        _tile_loadd(3, keys + p * LANES, 4 * LANES);
        _tile_loadd(4, queries, 4 * QUERIES);
        _tile_loadd(5, queries + LANES, 4 * QUERIES);
        _tile_loadd(6, queries + 2 * LANES, 4 * QUERIES);
        _tile_dpbf16ps(0, 3, 4);
        _tile_dpbf16ps(1, 3, 5);
        _tile_dpbf16ps(2, 3, 6);
    }
    _tile_stored(0, s, 4 * QUERIES);
    _tile_stored(1, s + LANES, 4 * QUERIES);
    _tile_stored(2, s + 2 * LANES, 4 * QUERIES);
    for (int v = 0; v < 3; v++) {
        __m512 most = _mm512_load_ps(b->most + v * LANES);
        for (int64_t r = 0; r < least(n, KEY_GROUP); r++) {
            float *at = s + r * QUERIES + v * LANES;
            __m512 x = _mm512_load_ps(at);
            if (seen) {
                x = _mm512_mask_mov_ps(low, (__mmask16)(seen[first + r] >> (LANES * v)), x);
                _mm512_store_ps(at, x);
            }
            most = _mm512_max_ps(most, x);
        }
        _mm512_store_ps(b->most + v * LANES, most);
    }
}

// As share, to tiles of [16 queries, 16 pairs of keys], three for 32 keys; behind `to` there are zeros. from is a
// multiple of 32.
static void share_turned(struct block *b, int64_t from, int64_t to, float scale)
{
    __m512 factor = _mm512_set1_ps(scale * 1.44269504F);
    for (int v = 0; v < 3; v++) {
        __m512 top = _mm512_mul_ps(_mm512_load_ps(b->most + v * LANES), factor), sum = _mm512_setzero_ps();
        for (int64_t k = from; k < to; k += TILE_KEYS) {
            __m512i r[LANES];
            for (int i = 0; i < LANES; i++) {
                int64_t key = k + 2 * i;
                r[i] = share_pair(b->scores + key * QUERIES + v * LANES, to - key, factor, top, &sum);
            }
            turn_groups(r);
            int32_t *out = b->shares + (k / TILE_KEYS * 3 + v) * TILE;
            ISA_UNROLL
            for (int i = 0; i < LANES; i++)
                _mm512_store_si512(out + i * LANES, r[i]);
        }
        _mm512_store_ps(b->sum + v * LANES, sum);
    }
}

// As weigh_tile, of all 48 queries.
static void weigh_queries(const struct block *b, const int32_t *values, int64_t from, int64_t to, const struct flash *f,
                          char *out, int64_t n)
{
    _Alignas(64) float y[QUERIES * LANES];
    for (int64_t half = 0; half < 2 * LANES; half += LANES) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        for (int64_t k = from; k < to; k += TILE_KEYS) {
            const int32_t *shares = b->shares + k / TILE_KEYS * 3 * TILE;
            _tile_loadd(3, values + k / 2 * 32 + half, 4 * 32);
            _tile_loadd(4, shares, 4 * LANES);
            _tile_loadd(5, shares + TILE, 4 * LANES);
            _tile_loadd(6, shares + 2 * TILE, 4 * LANES);
            _tile_dpbf16ps(0, 4, 3);
            _tile_dpbf16ps(1, 5, 3);
            _tile_dpbf16ps(2, 6, 3);
        }
        _tile_stored(0, y, 4 * LANES);
        _tile_stored(1, y + TILE, 4 * LANES);
        _tile_stored(2, y + 2 * TILE, 4 * LANES);
        for (int64_t r = 0; r < least(n, QUERIES); r++)
            store_weighed(f, _mm512_load_ps(y + r * LANES), b->sum[r], out, r * f->heads * f->dim + half);
    }
}

ISA_TARGET_END

// ---- the whole

struct run {
    const struct flash *f;
    bool tiles;
    int64_t groups, blocks;  // of 16 keys, an even number; of 48 queries
    int64_t image, head, of; // the first of `of` heads of keys at hand
    int32_t *keys, *values;  // packed, per head of keys
    uint64_t *seen;          // [blocks, keys]: which of a block's queries see it; NULL: all
    int64_t *range;          // [blocks, 2]: keys that any of them sees
    char *room;              // a piece per thread
    size_t room_bytes;
    atomic_flag *taken; // pieces
};

static size_t packed_bytes(const struct run *r)
{
    return (size_t)(r->groups * KEY_GROUP * r->f->dim) * sizeof(uint16_t);
}

// Groups of keys of the heads at hand.
static void pack(void *context, size_t from, size_t to)
{
    const struct run *r = context;
    const struct flash *f = r->f;
    for (size_t i = from; i < to; i++) {
        int64_t head = (int64_t)i / r->groups, first = (int64_t)i % r->groups * KEY_GROUP;
        int64_t n = least(f->keys - first, KEY_GROUP);
        int64_t at = ((r->image * f->keys + first) * f->kv_heads + r->head + head) * f->dim;
        int64_t size = (int64_t)packed_bytes(r) / 4;
        int32_t *keys = r->keys + head * size + first * f->dim / 2;
        if (r->tiles)
            tiles_lay((const char *)(f->k + at), 2 * f->kv_heads * f->dim, n, f->dim / 2, keys);
        else
            pack_keys(f, f->k + at, n, keys);
        pack_values(f, f->v + at, n, r->groups * KEY_GROUP / 2, r->values + head * size + first / 2 * 32);
    }
}

// What the blocks' queries see.
static void look(void *context, size_t from, size_t to)
{
    const struct run *r = context;
    const struct flash *f = r->f;
    for (size_t i = from; i < to; i++) {
        uint64_t *seen = r->seen + (int64_t)i * f->keys, any = 0;
        int64_t first = (int64_t)i * QUERIES, n = least(f->tokens - first, QUERIES), *range = r->range + 2 * i;
        memset(seen, 0, (size_t)f->keys * sizeof *seen);
        range[0] = f->keys;
        range[1] = 0;
        for (int64_t q = 0; q < n; q++) {
            const uint8_t *visible = f->visible + (r->image * f->tokens + first + q) * f->keys;
            for (int64_t k = 0; k < f->keys; k++)
                seen[k] |= (uint64_t)(visible[k] != 0) << q;
        }
        for (int64_t k = 0; k < f->keys; k++) {
            any |= seen[k];
            if (seen[k]) {
                range[0] = least(range[0], k / TILE_KEYS * TILE_KEYS);
                range[1] = k + 1;
            }
        }
        if (any != (UINT64_C(1) << n) - 1) { // one sees nothing: all keys count alike
            range[0] = 0;
            range[1] = f->keys;
        }
    }
}

static void attend_block(const struct run *r, struct block *b, int64_t head, int64_t block)
{
    const struct flash *f = r->f;
    int64_t first = block * QUERIES, n = least(f->tokens - first, QUERIES), row = f->heads * f->dim;
    int64_t packed = head / (f->heads / f->kv_heads) - r->head, size = (int64_t)packed_bytes(r) / 4;
    int64_t from = r->seen ? r->range[2 * block] : 0, to = r->seen ? r->range[2 * block + 1] : f->keys;
    int64_t at = (r->image * f->tokens + first) * row + head * f->dim;
    // A power of two, so that it times the scale is exact where it is subtracted from itself, and no overflow.
    float hidden = -ldexpf(1, f->scale > 0.5F ? 125 - ilogbf(f->scale) : 126);
    for (int64_t q = 0; q < QUERIES; q += LANES) {
        for (int64_t d = 0; d < f->dim; d += 32)
            transpose(f->q + at + q * row + d, row, n - q, b->queries + d / 2 * QUERIES + q, QUERIES);
    }
    for (int i = 0; i < QUERIES; i++)
        b->most[i] = -FLT_MAX;
    const uint64_t *seen = r->seen ? r->seen + block * f->keys : NULL;
    const int32_t *keys = r->keys + packed * size;
    for (int64_t k = from; k < to && r->tiles; k += KEY_GROUP)
        score_keys(b, keys + k * f->dim / 2, f->dim / 2, k, to - k, seen, hidden);
    for (int64_t k = from; k < to && !r->tiles; k += KEYS)
        score_tile(b, keys + k / KEY_GROUP * KEY_GROUP * f->dim / 2 + k % KEY_GROUP, f->dim / 2, k, to - k, seen,
                   hidden);
    (r->tiles ? share_turned : share)(b, from, to, f->scale);
    for (int64_t d = 0; d < f->dim; d += 32) {
        const int32_t *values = r->values + packed * size + d / 32 * r->groups * KEY_GROUP / 2 * 32;
        char *out = (char *)f->out + (at + d) * dtype_bits(f->out_type) / 8;
        if (r->tiles)
            weigh_queries(b, values, from, to, f, out, n);
        for (int64_t q = 0; q < n && !r->tiles; q += 12)
            weigh_tile(b, q, values, from, to, f, out + q * row * dtype_bits(f->out_type) / 8, n - q);
    }
}

// Blocks of queries of the heads at hand.
static void attend(void *context, size_t from, size_t to)
{
    const struct run *r = context;
    const struct flash *f = r->f;
    int64_t shared = f->heads / f->kv_heads;
    size_t piece = 0;
    while (atomic_flag_test_and_set(&r->taken[piece])) // there are as many as threads
        piece++;
    char *room = r->room + piece * r->room_bytes;
    struct block *b = (struct block *)(void *)room;
    b->queries = (int32_t *)(void *)(room + (sizeof *b + 63) / 64 * 64);
    b->scores = (float *)(void *)(b->queries + f->dim / 2 * QUERIES);
    b->shares = (int32_t *)(void *)(b->scores + r->groups * KEY_GROUP * QUERIES);
    if (r->tiles)
        tiles_begin();
    for (size_t i = from; i < to; i++)
        attend_block(r, b, r->head * shared + (int64_t)i / r->blocks, (int64_t)i % r->blocks);
    if (r->tiles)
        tiles_end();
    atomic_flag_clear(&r->taken[piece]);
}

bool flash_takes(const struct flash *f)
{
    return isa_in_force() >= ISA_AVX512_BF16 && f->dim % 32 == 0 && f->dim > 0 && f->dim <= MOST_DIM;
}

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

int flash_attend(const struct flash *f, struct threads *pool, struct error *err)
{
    struct run r = {.f = f,
                    .tiles = isa_in_force() >= ISA_AMX,
                    .groups = (f->keys + TILE_KEYS - 1) / TILE_KEYS * (TILE_KEYS / KEY_GROUP),
                    .blocks = (f->tokens + QUERIES - 1) / QUERIES};
    size_t threads = threads_count(pool), packed = packed_bytes(&r), at_once = PACKED_BYTES / (2 * packed);
    at_once = at_once < 1 ? 1 : at_once > (size_t)f->kv_heads ? (size_t)f->kv_heads : at_once;
    size_t values = QUERIES * (size_t)(f->dim / 2 + r.groups * KEY_GROUP * 3 / 2) * 4;
    r.room_bytes = rounded(rounded(sizeof(struct block)) + values);
    size_t seen = f->visible ? rounded((size_t)(r.blocks * f->keys) * 8) : 0, ranges = rounded((size_t)r.blocks * 16);
    size_t bytes = threads * r.room_bytes + seen + ranges + 2 * at_once * packed + threads * sizeof *r.taken;
    void *room;
    int rc = onednn_room(bytes, &room, err);
    if (rc)
        return rc;
    r.room = room;
    r.seen = seen ? (uint64_t *)(void *)(r.room + threads * r.room_bytes) : NULL;
    r.range = (int64_t *)(void *)(r.room + threads * r.room_bytes + seen);
    r.keys = (int32_t *)(void *)((char *)r.range + ranges);
    r.values = (int32_t *)(void *)((char *)r.keys + at_once * packed);
    r.taken = (atomic_flag *)(void *)((char *)r.values + at_once * packed);
    for (size_t i = 0; i < threads; i++)
        atomic_flag_clear(&r.taken[i]);
    for (r.image = 0; r.image < f->batch; r.image++) {
        if (r.seen)
            onednn_for(pool, (size_t)r.blocks, 1, look, &r);
        for (r.head = 0; r.head < f->kv_heads; r.head += r.of) {
            r.of = least(f->kv_heads - r.head, (int64_t)at_once);
            onednn_for(pool, (size_t)(r.of * r.groups), 16, pack, &r);
            onednn_for(pool, (size_t)(r.of * (f->heads / f->kv_heads) * r.blocks), 1, attend, &r);
        }
    }
    return 0;
}

#else

bool flash_takes(const struct flash *f)
{
    (void)f;
    return false;
}

int flash_attend(const struct flash *f, struct threads *pool, struct error *err)
{
    (void)f, (void)pool;
    return error_set(err, ERR_INTERNAL, "attention", "this CPU has no such kernel");
}

#endif
