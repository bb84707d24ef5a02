// SPDX-License-Identifier: Apache-2.0
// Tiles of 8 rows by 48 outputs: 24 vectors of sums, for which every vector of weights is read once and every group of
// x (two bf16, four codes) is spread over a vector once. VPDPBUSD takes unsigned by signed: weights are raised by 128
// as they are packed, and 128 times the sum of a row of x is taken off its sums.
//
// With AMX the same strips meet squares of 32 rows by 32 outputs, two tiles by two, for which four tiles are read for
// every four products; codes are signed there.
#include "kernels/panel.h"

#include <stdatomic.h>
#include <string.h>

#include "kernels/onednn.h"
#include "kernels/rows.h"
#include "num/isa.h"
#include "num/isa_target.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/tiles.h"

enum {
    LANES = 16,
    ROWS = 8,          // of a tile
    OUTPUTS = 48,      // of a tile: three vectors
    PANELS = 4,        // of a strip
    GROUPS = 512,      // of the inner dimension at a time: a strip is 384 KB, the next one, too; 8 rows of x are 16 KB
    TILE_ROWS = 32,    // with AMX: two tiles of x
    TILE_OUTPUTS = 32, // and two of weights
    MOST_AHEAD = 8     // rows of weights that are fetched at a time
};
#define STRIP (PANELS * OUTPUTS)
// With fewer rows weights come from memory slower than they are multiplied, and packing is an effort.
#define LEAST_ROWS 64
// Packed rows of x at a time.
#define PACKED_BYTES ((int64_t)48 << 20)

static int64_t bytes_of(enum dtype t, int64_t n)
{
    return n * dtype_bits(t) / 8;
}

static const char *weight_at(const struct panel *p, int64_t row, int64_t column)
{
    return (const char *)p->w + bytes_of(p->w_type, row * p->k + column);
}

ISA_TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni,fma")
#include "kernels/turn_groups.h"

ISA_INLINE __m512 widen_bf16(__m256i x)
{
    return (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16);
}

// sums, zeros at first or those of the groups `before`, += a[group][row] by b[group][output]. Meanwhile memory that
// will be wanted is fetched from `next` on, `step` bytes in the time of 16 groups, of which `groups` is a multiple.
ISA_INLINE void multiply_tile(bool codes, int32_t *sums, bool before, const int32_t *a, const int32_t *b,
                              int64_t groups, const char *next, int64_t step)
{
    __m512i s[ROWS][3];
    ISA_UNROLL
    for (int r = 0; r < ROWS; r++) {
        ISA_UNROLL
        for (int v = 0; v < 3; v++)
            s[r][v] = before ? _mm512_load_si512(sums + r * OUTPUTS + v * LANES) : _mm512_setzero_si512();
    }
    for (int64_t p = 0; p < groups; p++) {
        __m512i lanes[3];
        if (p % LANES == 0) {
            _mm_prefetch(next, _MM_HINT_T1);
            next += step;
        }
        ISA_UNROLL
        for (int v = 0; v < 3; v++)
            lanes[v] = _mm512_load_si512(b + v * LANES);
        ISA_UNROLL
        for (int r = 0; r < ROWS; r++) {
            __m512i one = _mm512_set1_epi32(a[r]);
            ISA_UNROLL
            for (int v = 0; v < 3; v++)
                s[r][v] = codes ? _mm512_dpbusd_epi32(s[r][v], lanes[v], one)
                                : (__m512i)_mm512_dpbf16_ps((__m512)s[r][v], (__m512bh)one, (__m512bh)lanes[v]);
        }
        a += ROWS;
        b += OUTPUTS;
    }
    ISA_UNROLL
    for (int r = 0; r < ROWS; r++) {
        ISA_UNROLL
        for (int v = 0; v < 3; v++)
            _mm512_store_si512(sums + r * OUTPUTS + v * LANES, s[r][v]);
    }
}

static void multiply_codes(int32_t *sums, bool before, const int32_t *a, const int32_t *b, int64_t groups,
                           const char *next, int64_t step)
{
    multiply_tile(true, sums, before, a, b, groups, next, step);
}

static void multiply_pairs(int32_t *sums, bool before, const int32_t *a, const int32_t *b, int64_t groups,
                           const char *next, int64_t step)
{
    multiply_tile(false, sums, before, a, b, groups, next, step);
}

// 16 values of a row's sums with what is added to them, from column `column` on.
ISA_INLINE __m512 add_to(const struct addition *a, __m512 y, __mmask16 mask, int64_t row, int64_t column)
{
    int64_t at = row * a->n + column;
    const float *gate = addition_gate(a, row, column);
    __m512 residual = a->type == DT_BF16
                          ? widen_bf16(_mm256_maskz_loadu_epi16(mask, (const uint16_t *)a->residual + at))
                          : _mm512_maskz_loadu_ps(mask, (const float *)a->residual + at);
    if (a->between == DT_BF16)
        y = widen_bf16((__m256i)_mm512_cvtneps_pbh(y));
    return gate ? _mm512_fmadd_ps(y, _mm512_maskz_loadu_ps(mask, gate), residual) : _mm512_add_ps(y, residual);
}

// Row `row` of the sums of n outputs from `output` on, scaled, to the result. raised: what is to be taken off first.
static void finish_row(const struct panel *p, const int32_t *sums, uint32_t raised, const float *factor, int64_t row,
                       int64_t output, int64_t n)
{
    for (int v = 0; v < 3 && n > v * LANES; v++) {
        int64_t left = n - v * LANES, column = output + v * LANES, at = row * p->n + column;
        __mmask16 mask = left < LANES ? (__mmask16)((1U << left) - 1) : 0xffff;
        __m512i whole = _mm512_load_si512(sums + v * LANES);
        __m512 y = (__m512)whole;
        if (p->w_type == DT_S8 && (p->x_type == DT_S8 || p->quantise)) {
            whole = _mm512_sub_epi32(whole, _mm512_set1_epi32((int32_t)raised));
            y = _mm512_cvtepi32_ps(whole);
        }
        if (p->out_type == DT_S32) {
            _mm512_mask_storeu_epi32((int32_t *)p->out + at, mask, whole);
            continue;
        }
        if (factor)
            y = _mm512_mul_ps(y, _mm512_set1_ps(*factor));
        if (p->outputs)
            y = _mm512_mul_ps(y, _mm512_maskz_loadu_ps(mask, p->outputs + column));
        if (p->added.residual)
            y = add_to(&p->added, y, mask, row, column);
        if (p->out_type == DT_BF16)
            _mm256_mask_storeu_epi16((uint16_t *)p->out + at, mask, (__m256i)_mm512_cvtneps_pbh(y));
        else
            _mm512_mask_storeu_ps((float *)p->out + at, mask, y);
    }
}

// 32 codes times their scale as bf16; without one, which is 1, nothing is lost.
ISA_INLINE __m512i widen(const int8_t *codes, bool scaled, float scale)
{
    __m512 low = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)codes)));
    __m512 high = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(codes + LANES))));
    if (scaled) {
        low = _mm512_mul_ps(low, _mm512_set1_ps(scale));
        high = _mm512_mul_ps(high, _mm512_set1_ps(scale));
    }
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

// The same of codes in nibbles: each looks up which of the 16 products it is.
ISA_INLINE __m512i widen_nibbles(const char *bytes, float scale)
{
    const __m512 codes = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
    __m512 products = _mm512_mul_ps(codes, _mm512_set1_ps(scale));
    __m512i table = (__m512i)_mm512_cvtne2ps_pbh(products, products); // twice, for an index has five bits
    __m512i b = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)bytes));
    return _mm512_permutexvar_epi16(_mm512_or_si512(b, _mm512_slli_epi32(b, 12)), table); // low word: low nibble
}

// The weights of 16 groups at `row` as they are multiplied: codes by codes, raised or not, or bf16.
ISA_INLINE __m512i take_weights(const struct panel *p, bool codes, bool raise, const char *row, float scale)
{
    if (codes)
        return _mm512_xor_si512(_mm512_loadu_si512(row), _mm512_set1_epi8(raise ? (char)0x80 : 0));
    if (p->w_type == DT_S4)
        return widen_nibbles(row, scale);
    return p->w_type == DT_S8 ? widen((const int8_t *)row, p->groups != NULL, scale) : _mm512_loadu_si512(row);
}

// `groups` groups (a multiple of 16) of n rows of weights, from that row and column on, to [groups, 16] of a panel.
static void pack_weights(const struct panel *p, bool raise, int64_t row, int64_t column, int64_t n, int64_t groups,
                         int32_t *to)
{
    bool codes = p->x_type == DT_S8 || p->quantise;
    int64_t columns = (codes ? 4 : 2) * LANES, scales = p->groups ? p->k / p->group : 0; // of 16 groups; of a row
    for (int64_t g = 0; g < groups; g += LANES, column += columns) {
        const char *from = weight_at(p, row, column);
        const float *scale = p->groups ? p->groups + row * scales + column / p->group : NULL;
        __m512i r[LANES];
        for (int i = 0; i < LANES; i++)
            r[i] = i < n ? take_weights(p, codes, raise, from + bytes_of(p->w_type, i * p->k),
                                        scale ? scale[i * scales] : 1)
                         : _mm512_setzero_si512();
        turn_groups(r);
        ISA_UNROLL
        for (int i = 0; i < LANES; i++)
            _mm512_store_si512(to + (g + i) * OUTPUTS, r[i]);
    }
}

// The same of 16 rows of x: two blocks of 8 rows, [groups, 8] each, `apart`.
static void pack_rows(const char *from, int64_t stride, int64_t n, int64_t groups, int32_t *to, int64_t apart)
{
    for (int64_t g = 0; g < groups; g += LANES, from += 4 * LANES) {
        __m512i r[LANES];
        for (int i = 0; i < LANES; i++)
            r[i] = i < n ? _mm512_loadu_si512(from + i * stride) : _mm512_setzero_si512();
        turn_groups(r);
        ISA_UNROLL
        for (int i = 0; i < LANES; i++) {
            _mm256_store_si256((void *)(to + (g + i) * ROWS), _mm512_castsi512_si256(r[i]));
            _mm256_store_si256((void *)(to + apart + (g + i) * ROWS), _mm512_extracti64x4_epi64(r[i], 1));
        }
    }
}

// 128 times the sum of n codes, a multiple of 64.
static uint32_t raised_by(const int8_t *codes, int64_t n)
{
    __m512i sum = _mm512_setzero_si512(), one = _mm512_set1_epi8(1);
    for (int64_t i = 0; i < n; i += 64)
        sum = _mm512_dpbusd_epi32(sum, one, _mm512_loadu_si512(codes + i));
    return 128 * (uint32_t)_mm512_reduce_add_epi32(sum); // sums are modulo 2^32, too
}

ISA_TARGET_END

ISA_TARGET("avx512f,amx-tile,amx-bf16,amx-int8")

// Rows of weights, `apart`, to be fetched while others are multiplied, `step` bytes of each in the time of 16 groups.
struct ahead {
    const char *next;
    int64_t step, apart, rows;
};

// As multiply_tile, of 32 rows of x, a[0] and a[1], and 32 outputs, b[0] and b[1]. Meanwhile
// as many rows of weights are fetched as `ahead` says.
ISA_INLINE void multiply_square(bool codes, int32_t *sums, bool before, const int32_t *const a[2],
                                const int32_t *const b[2], int64_t groups, const struct ahead *ahead)
{
    enum { LOW = LANES * TILE_OUTPUTS };
    if (before) {
        _tile_loadd(0, sums, 4 * TILE_OUTPUTS);
        _tile_loadd(1, sums + LANES, 4 * TILE_OUTPUTS);
        _tile_loadd(2, sums + LOW, 4 * TILE_OUTPUTS);
        _tile_loadd(3, sums + LOW + LANES, 4 * TILE_OUTPUTS);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    const char *next = ahead->next;
    for (int64_t g = 0; g < groups; g += LANES, next += ahead->step) {
        _tile_loadd(4, a[0] + g * LANES, 4 * LANES);
        _tile_loadd(6, b[0] + g * OUTPUTS, 4 * OUTPUTS);
        _tile_loadd(7, b[1] + g * OUTPUTS, 4 * OUTPUTS);
        _tile_loadd(5, a[1] + g * LANES, 4 * LANES);
        for (int64_t i = 0; i < ahead->rows; i++)
            _mm_prefetch(next + i * ahead->apart, _MM_HINT_T1);
        tiles_multiply_square(codes);
    }
    _tile_stored(0, sums, 4 * TILE_OUTPUTS);
    _tile_stored(1, sums + LANES, 4 * TILE_OUTPUTS);
    _tile_stored(2, sums + LOW, 4 * TILE_OUTPUTS);
    _tile_stored(3, sums + LOW + LANES, 4 * TILE_OUTPUTS);
}

static void square_codes(int32_t *sums, bool before, const int32_t *const a[2], const int32_t *const b[2],
                         int64_t groups, const struct ahead *ahead)
{
    multiply_square(true, sums, before, a, b, groups, ahead);
}

static void square_pairs(int32_t *sums, bool before, const int32_t *const a[2], const int32_t *const b[2],
                         int64_t groups, const struct ahead *ahead)
{
    multiply_square(false, sums, before, a, b, groups, ahead);
}

ISA_TARGET_END

// ---- the whole

struct run {
    const struct panel *p;
    bool codes, tiles;
    int64_t groups; // of k
    int64_t threads;
    int64_t first, rows; // of x, at hand
    int64_t padded;      // rows, a multiple of 16
    int32_t *x;          // per GROUPS groups [padded / 8, groups, 8]
    uint32_t *raised;    // [padded]
    float *factors;      // [padded], made by quantising
    char *room;          // a piece per thread
    size_t room_bytes;
    atomic_flag *taken; // pieces
    struct row_loops loops;
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t multiple(int64_t n, int64_t of)
{
    return (n + of - 1) / of * of;
}

static char *take(const struct run *r, size_t *piece)
{
    *piece = 0;
    while (atomic_flag_test_and_set(&r->taken[*piece])) // there are as many as threads
        ++*piece;
    return r->room + *piece * r->room_bytes;
}

// Blocks of 16 rows of x from..to, as codes where that is asked for.
static void prepare(void *context, size_t from, size_t to)
{
    const struct run *r = context;
    const struct panel *p = r->p;
    size_t piece;
    char *room = take(r, &piece);
    for (size_t i = from; i < to; i++) {
        int64_t row = (int64_t)i * LANES, n = least(r->rows - row, LANES), stride = 4 * r->groups;
        int64_t bytes = bytes_of(p->x_type, p->k);
        const char *x = (const char *)p->x + (r->first + row) * bytes;
        if (p->quantise) {
            for (int64_t k = 0; k < n; k++)
                r->factors[row + k] = r->loops.quantise(x + k * bytes, p->x_type, p->k, (int8_t *)room + k * p->k);
            x = room;
        }
        for (int64_t k = 0; k < n && r->codes && !r->tiles; k++)
            r->raised[row + k] = raised_by((const int8_t *)x + k * stride, p->k);
        for (int64_t g = 0; g < r->groups; g += GROUPS) {
            int64_t groups = least(r->groups - g, GROUPS);
            int32_t *packed = r->x + g * r->padded + row * groups;
            if (r->tiles)
                tiles_lay(x + 4 * g, stride, n, groups, packed);
            else
                pack_rows(x + 4 * g, stride, n, groups, packed, ROWS * groups);
        }
    }
    atomic_flag_clear(&r->taken[piece]);
}

// Of n outputs, `wide` at most, which are what sums of neighbouring rows are apart.
static void finish_tile(const struct run *r, const int32_t *sums, int64_t row, int64_t rows, int64_t output, int64_t n,
                        int64_t wide)
{
    const struct panel *p = r->p;
    n = least(n, wide);
    for (int64_t k = row; k < least(row + rows, r->rows); k++, sums += wide) {
        const float *factor = p->quantise ? &r->factors[k] : p->rows ? &p->rows[r->first + k] : NULL;
        finish_row(p, sums, r->codes && !r->tiles ? r->raised[k] : 0, factor, r->first + k, output, n);
    }
}

// All rows by a packed strip of n outputs, from group g on. Of the rows of weights that come next `ahead` are fetched.
static void multiply_squares(const struct run *r, const int32_t *w, int32_t *all, int64_t g, int64_t first, int64_t n,
                             const char *next, int64_t ahead)
{
    const struct panel *p = r->p;
    int64_t row_bytes = bytes_of(p->w_type, p->k), ahead_bytes = bytes_of(p->w_type, LANES * (r->codes ? 4 : 2));
    int64_t groups = least(r->groups - g, GROUPS),
            squares = multiple(r->rows, TILE_ROWS) / TILE_ROWS * (STRIP / TILE_OUTPUTS);
    int64_t at_once = least((STRIP + squares - 1) / squares, MOST_AHEAD);
    for (int64_t row = 0; row < r->rows; row += TILE_ROWS) {
        const int32_t *x = r->x + g * r->padded + row * groups;
        const int32_t *const a[2] = {x, x + LANES * groups};
        for (int64_t o = 0; o < n; o += TILE_OUTPUTS) {
            int32_t *sums = all + (r->groups > GROUPS ? row * STRIP + o * TILE_ROWS : 0);
            const int32_t *b[2];
            for (int i = 0; i < 2; i++)
                b[i] = w + (o + i * LANES) / OUTPUTS * OUTPUTS * groups + (o + i * LANES) % OUTPUTS;
            const struct ahead fetch = {next, ahead_bytes, row_bytes, least(ahead, at_once)};
            (r->codes ? square_codes : square_pairs)(sums, g > 0, a, b, groups, &fetch);
            next += at_once * row_bytes;
            ahead -= at_once;
            if (g + groups == r->groups)
                finish_tile(r, sums, row, TILE_ROWS, first + o, n - o, TILE_OUTPUTS);
        }
    }
}

// n outputs from `first` on.
static void multiply_strip(const struct run *r, char *room, int64_t first, int64_t n)
{
    // The strip that this thread will have next, more or less.
    int64_t later = first + r->threads * STRIP;
    const struct panel *p = r->p;
    int64_t row_bytes = bytes_of(p->w_type, p->k), columns = r->codes ? 4 : 2,
            ahead_bytes = bytes_of(p->w_type, LANES * columns);
    int32_t *w = (int32_t *)(void *)room, *all = w + STRIP * GROUPS;
    for (int64_t g = 0; g < r->groups; g += GROUPS) {
        int64_t groups = least(r->groups - g, GROUPS);
        bool last = g + groups == r->groups;
        const char *next = last ? weight_at(p, later, 0) : weight_at(p, first, (g + groups) * columns);
        int64_t ahead = last ? least(p->n - later, n) : n;
        for (int64_t o = 0; o < multiple(n, OUTPUTS); o += LANES)
            pack_weights(p, r->codes && !r->tiles, first + o, g * columns, n - o, groups,
                         w + o / OUTPUTS * OUTPUTS * groups + o % OUTPUTS);
        if (r->tiles) {
            multiply_squares(r, w, all, g, first, n, next, ahead);
            continue;
        }
        for (int64_t row = 0; row < r->rows; row += ROWS) {
            const int32_t *x = r->x + g * r->padded + row * groups;
            for (int64_t o = 0; o < n; o += OUTPUTS) {
                // Sums are kept only where more are to be added.
                int32_t *sums = all + (r->groups > GROUPS ? (row * PANELS + o / OUTPUTS * ROWS) * OUTPUTS : 0);
                bool fetch = ahead-- > 0;
                (r->codes ? multiply_codes : multiply_pairs)(sums, g > 0, x, w + o * groups, groups,
                                                             fetch ? next : (const char *)x, fetch ? ahead_bytes : 0);
                next += row_bytes;
                if (last)
                    finish_tile(r, sums, row, ROWS, first + o, n - o, OUTPUTS);
            }
        }
    }
}

static void multiply_strips(void *context, size_t from, size_t to)
{
    const struct run *r = context;
    size_t piece;
    char *room = take(r, &piece);
    if (r->tiles)
        tiles_begin();
    for (size_t i = from; i < to; i++)
        multiply_strip(r, room, (int64_t)i * STRIP, least(r->p->n - (int64_t)i * STRIP, STRIP));
    if (r->tiles)
        tiles_end();
    atomic_flag_clear(&r->taken[piece]);
}

bool panel_takes(const struct panel *p)
{
    bool codes = p->x_type == DT_S8 || p->quantise;
    return isa_in_force() >= ISA_AVX512_BF16 && (!codes || __builtin_cpu_supports("avx512vnni")) &&
           p->m >= LEAST_ROWS && p->n >= OUTPUTS && p->k > 0 && p->k % (codes ? 64 : 32) == 0 &&
           (!p->groups || p->group % (2 * LANES) == 0); // what is packed at a time has one scale
}

int panel_multiply(const struct panel *p, struct threads *pool, struct error *err)
{
    struct run r = {
        .p = p, .codes = p->x_type == DT_S8 || p->quantise, .tiles = isa_in_force() >= ISA_AMX, .loops = row_loops()};
    const int64_t block = r.tiles ? TILE_ROWS : LANES;
    size_t threads = threads_count(pool);
    r.threads = (int64_t)threads;
    r.groups = p->k / (r.codes ? 4 : 2);
    int64_t at_once = multiple(least(p->m, PACKED_BYTES / (4 * r.groups) + block), block);
    size_t x = (size_t)(at_once * r.groups) * 4, sums = (size_t)(r.groups > GROUPS ? at_once : block) * STRIP * 4;
    size_t strip = (size_t)STRIP * GROUPS * 4 + sums, rows = p->quantise ? (size_t)(LANES * p->k) : 0;
    r.room_bytes = (size_t)multiple((int64_t)(strip > rows ? strip : rows), 64);
    void *room;
    int rc = onednn_room(x + (size_t)at_once * 8 + threads * (r.room_bytes + sizeof *r.taken), &room, err);
    if (rc)
        return rc;
    r.x = room;
    r.raised = (uint32_t *)(void *)(r.x + at_once * r.groups);
    r.factors = (float *)(void *)(r.raised + at_once);
    r.room = (char *)(r.factors + at_once);
    r.taken = (atomic_flag *)(void *)(r.room + threads * r.room_bytes);
    for (size_t i = 0; i < threads; i++)
        atomic_flag_clear(&r.taken[i]);
    for (r.first = 0; r.first < p->m; r.first += r.rows) {
        r.rows = least(p->m - r.first, at_once);
        r.padded = multiple(r.rows, block);
        onednn_for(pool, (size_t)(r.padded / LANES), 4, prepare, &r);
        onednn_for(pool, (size_t)((p->n + STRIP - 1) / STRIP), 1, multiply_strips, &r);
    }
    return 0;
}

#else

bool panel_takes(const struct panel *p)
{
    (void)p;
    return false;
}

int panel_multiply(const struct panel *p, struct threads *pool, struct error *err)
{
    (void)p, (void)pool;
    return error_set(err, ERR_INTERNAL, "product", "this CPU has no such kernel");
}

#endif
