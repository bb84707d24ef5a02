// SPDX-License-Identifier: Apache-2.0
// See vector_loop.h for how this is included.

#include "kernels/vector_loop.h"

typedef uint64_t NAME(longs) __attribute__((vector_size(4 * LANES)));

// ---- silu(gate) * up

ISA_INLINE void NAME(swiglu_some)(const void *gate, const void *up, enum dtype t, int64_t at, int64_t n, void *out,
                                  enum dtype to)
{
    NAME(floats) v, by;
    NAME(read)(&v, gate, t, at, n);
    NAME(read)(&by, up, t, at, n);
    NAME(silu)(&v, to);
    v *= by;
    NAME(write)(out, to, at, n, &v);
}

ISA_INLINE void NAME(swiglu_whole)(const void *gate, const void *up, enum dtype t, int64_t n, void *out, enum dtype to)
{
    for (int64_t i = 0; i + LANES <= n; i += LANES)
        NAME(swiglu_some)(gate, up, t, i, LANES, out, to);
}

static void NAME(swiglu_row)(const void *gate, const void *up, enum dtype t, int64_t n, void *out, enum dtype to)
{
    if (t == DT_BF16 && to == DT_BF16) // of known types: nothing is asked in the loop
        NAME(swiglu_whole)(gate, up, DT_BF16, n, out, DT_BF16);
    else
        NAME(swiglu_whole)(gate, up, t, n, out, to);
    if (n % LANES)
        NAME(swiglu_some)(gate, up, t, n / LANES * LANES, n % LANES, out, to);
}

// ---- heads

ISA_INLINE void NAME(round_to)(NAME(floats) * v, enum dtype t)
{
    uint16_t narrow[LANES];
    if (t != DT_BF16)
        return;
    NAME(store_bf16)(narrow, v);
    NAME(load_bf16)(v, narrow);
}

// The features of a head in f32, normalised; zeros behind them.
ISA_INLINE void NAME(normalise_head)(const struct rotary_rule *r, enum dtype t, enum dtype between, const void *x,
                                     float *y)
{
    NAME(floats) sum = {0}, v, by;
    int64_t dim = r->dim;
    for (int64_t i = 0; i < dim; i += LANES) {
        NAME(read)(&v, x, t, i, dim - i);
        sum += v * v;
        NAME(store)(y + i, &v);
    }
    if (!r->weight)
        return;
    float total = 0;
    for (int k = 0; k < LANES; k++)
        total += sum[k];
    float scale = 1 / sqrtf(total / (float)dim + r->eps);
    for (int64_t i = 0; i < dim; i += LANES) {
        NAME(load)(&v, y + i);
        NAME(read)(&by, r->weight, DT_F32, i, dim - i);
        v = v * scale * by;
        NAME(round_to)(&v, between);
        NAME(store)(y + i, &v);
    }
}

// The features from..to, whose partners lie `away` of them; in pairs when that is 0.
ISA_INLINE void NAME(rotate)(const float *y, int64_t from, int64_t to, int64_t away, const float *cosine,
                             const float *sine, void *out, enum dtype t)
{
    NAME(floats) v, partner, c, s;
    for (int64_t i = from; i < to; i += LANES) {
        NAME(load)(&v, y + i);
        NAME(load)(&c, cosine + i);
        NAME(load)(&s, sine + i);
        if (away) {
            NAME(load)(&partner, y + i + away);
        } else {
            NAME(longs) pairs;
            memcpy(&pairs, &v, sizeof pairs);
            pairs = pairs << 32 | pairs >> 32;
            memcpy(&partner, &pairs, sizeof partner);
        }
        v = v * c + partner * s;
        NAME(write)(out, t, i, to - i, &v);
    }
}

ISA_INLINE void NAME(turn_head)(const struct rotary_rule *r, enum dtype t, enum dtype between, enum dtype to,
                                const float *cosine, const float *sine, const void *x, void *out)
{
    float y[ROTARY_MOST_DIM + LANES];
    int64_t half = r->dim / 2;
    NAME(normalise_head)(r, t, between, x, y);
    if (r->pairs) {
        NAME(rotate)(y, 0, r->dim, 0, cosine, sine, out, to);
    } else {
        NAME(rotate)(y, 0, half, half, cosine, sine, out, to);
        NAME(rotate)(y, half, r->dim, -half, cosine, sine, out, to);
    }
}

static void NAME(rotary_head)(const struct rotary_rule *r, const float *cosine, const float *sine, const void *x,
                              void *out)
{
    if (r->x == DT_BF16 && r->between == DT_BF16 && r->out == DT_BF16)
        NAME(turn_head)(r, DT_BF16, DT_BF16, DT_BF16, cosine, sine, x, out);
    else
        NAME(turn_head)(r, r->x, r->between, r->out, cosine, sine, x, out);
}

// ---- products of codes

typedef int8_t NAME(codes) __attribute__((vector_size(LANES)));
typedef uint8_t NAME(bytes) __attribute__((vector_size(LANES)));

ISA_INLINE void NAME(scale_some)(const void *sums, enum dtype t, int64_t at, int64_t n, float factor,
                                 const float *factors, void *out, enum dtype to)
{
    NAME(floats) v, by;
    if (t == DT_S32) {
        NAME(ints) whole = {0};
        memcpy(&whole, (const int32_t *)sums + at, n < LANES ? (size_t)n * sizeof(int32_t) : sizeof whole);
        v = __builtin_convertvector(whole, NAME(floats));
    } else {
        NAME(read)(&v, sums, DT_F32, at, n);
    }
    v *= factor;
    if (factors) {
        NAME(read)(&by, factors, DT_F32, at, n);
        v *= by;
    }
    NAME(write)(out, to, at, n, &v);
}

ISA_INLINE void NAME(scale_whole)(const void *sums, enum dtype t, int64_t n, float factor, const float *factors,
                                  void *out, enum dtype to)
{
    for (int64_t i = 0; i + LANES <= n; i += LANES)
        NAME(scale_some)(sums, t, i, LANES, factor, factors, out, to);
}

static void NAME(scale_row)(const void *sums, enum dtype t, int64_t n, float factor, const float *factors, void *out,
                            enum dtype to)
{
    if (t == DT_S32 && to == DT_F32)
        NAME(scale_whole)(sums, DT_S32, n, factor, factors, out, DT_F32);
    else if (t == DT_S32)
        NAME(scale_whole)(sums, DT_S32, n, factor, factors, out, DT_BF16);
    else if (to == DT_F32)
        NAME(scale_whole)(sums, DT_F32, n, factor, factors, out, DT_F32);
    else
        NAME(scale_whole)(sums, DT_F32, n, factor, factors, out, DT_BF16);
    if (n % LANES)
        NAME(scale_some)(sums, t, n / LANES * LANES, n % LANES, factor, factors, out, to);
}

// Some codes to bf16, times a scale. Without one nothing is lost: they have eight bits.
ISA_INLINE void NAME(widen_some)(const int8_t *codes, int64_t n, bool scaled, float scale, uint16_t *out)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        NAME(codes) c;
        memcpy(&c, codes + i, sizeof c);
        NAME(floats) v = __builtin_convertvector(__builtin_convertvector(c, NAME(ints)), NAME(floats));
        if (scaled) {
            v *= scale;
            NAME(store_bf16)(out + i, &v);
            continue;
        }
        NAME(words) w;
        memcpy(&w, &v, sizeof w);
        NAME(halves) h = __builtin_convertvector(w >> 16, NAME(halves));
        memcpy(out + i, &h, sizeof h);
    }
    for (; i < n; i++)
        out[i] = bf16_from_f32(scaled ? (float)codes[i] * scale : (float)codes[i]);
}

// n codes, an even number, out of their nibbles.
ISA_INLINE void NAME(unpack_some)(const uint8_t *bytes, int64_t n, int8_t *codes)
{
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        NAME(bytes) b;
        memcpy(&b, bytes + i / 2, sizeof b);
        NAME(halves) h = __builtin_convertvector(b, NAME(halves));
        h = (h | h << 4) & 0x0f0f; // a nibble in each byte, the low one first
        h |= (h & 0x0808) * 0x1e;  // whose sign goes on in its high one
        memcpy(codes + i, &h, sizeof h);
    }
    for (; i < n; i++)
        codes[i] = (int8_t)((((bytes[i / 2] >> (i % 2 * 4)) & 15) ^ 8) - 8);
}

static void NAME(widen_row)(const void *codes, enum dtype t, int64_t n, const float *scales, int64_t group,
                            uint16_t *out)
{
    int8_t piece[256];
    for (int64_t i = 0, some; i < n; i += some) {
        const int8_t *c = (const int8_t *)codes + i;
        some = n - i < (int64_t)sizeof piece ? n - i : (int64_t)sizeof piece;
        if (t == DT_S4) {
            NAME(unpack_some)((const uint8_t *)codes + i / 2, some, piece);
            c = piece;
        }
        if (!scales)
            NAME(widen_some)(c, some, false, 1, out + i);
        for (int64_t at = i, left; scales && at < i + some; at += left) { // what is of one group
            left = group - at % group < i + some - at ? group - at % group : i + some - at;
            NAME(widen_some)(c + (at - i), left, true, scales[at / group], out + at);
        }
    }
}

ISA_INLINE void NAME(add_some)(const void *residual, enum dtype t, enum dtype between, const float *gate, int64_t i,
                               int64_t n, const float *sums, void *out, enum dtype to)
{
    NAME(floats) v, plus, by;
    NAME(read)(&v, sums, DT_F32, i, n);
    NAME(read)(&plus, residual, t, i, n);
    NAME(round_to)(&v, between);
    if (gate) {
        NAME(read)(&by, gate, DT_F32, i, n);
        v = plus + by * v;
    } else {
        v = plus + v;
    }
    NAME(write)(out, to, i, n, &v);
}

ISA_INLINE void NAME(add_whole)(const void *residual, enum dtype t, enum dtype between, const float *gate, int64_t n,
                                const float *sums, void *out, enum dtype to)
{
    for (int64_t i = 0; i + LANES <= n; i += LANES)
        NAME(add_some)(residual, t, between, gate, i, LANES, sums, out, to);
    if (n % LANES)
        NAME(add_some)(residual, t, between, gate, n / LANES * LANES, n % LANES, sums, out, to);
}

static void NAME(add_row)(const struct addition *a, int64_t row, int64_t column, int64_t n, const float *sums,
                          void *out, enum dtype to)
{
    int64_t at = row * a->n + column;
    const void *residual = (const char *)a->residual + at * (a->type == DT_BF16 ? 2 : 4);
    const float *gate = addition_gate(a, row, column);
    if (a->type == DT_BF16 && a->between == DT_BF16 && to == DT_BF16)
        NAME(add_whole)(residual, DT_BF16, DT_BF16, gate, n, sums, out, DT_BF16);
    else
        NAME(add_whole)(residual, a->type, a->between, gate, n, sums, out, to);
}

// The bits of the larger magnitude: of numbers without a sign they are in order, and above infinity there is NaN.
ISA_INLINE void NAME(larger)(NAME(ints) * most, const NAME(floats) * v)
{
    NAME(ints) bits;
    memcpy(&bits, v, sizeof bits);
    bits &= 0x7fffffff;
    NAME(ints) more = bits > *most;
    *most = (bits & more) | (*most & ~more);
}

ISA_INLINE void NAME(largest)(const void *x, enum dtype t, int64_t n, NAME(ints) * most)
{
    NAME(floats) v;
    for (int64_t i = 0; i + LANES <= n; i += LANES) {
        NAME(read)(&v, x, t, i, LANES);
        NAME(larger)(most, &v);
    }
    if (n % LANES) {
        NAME(read)(&v, x, t, n / LANES * LANES, n % LANES);
        NAME(larger)(most, &v);
    }
}

ISA_INLINE void NAME(code_some)(const void *x, enum dtype t, int64_t at, int64_t n, float scale, int8_t *codes)
{
    NAME(floats) v;
    NAME(read)(&v, x, t, at, n);
    v /= scale;
    NAME(ints) real = v == v;          // NOLINT(misc-redundant-expression)
    v = v + 12582912.0F - 12582912.0F; // to a whole number, ties to the even one: 1.5 * 2^23
    NAME(ints) bits;
    memcpy(&bits, &v, sizeof bits);
    bits &= real;
    memcpy(&v, &bits, sizeof v);
    NAME(codes) c = __builtin_convertvector(__builtin_convertvector(v, NAME(ints)), NAME(codes));
    memcpy(codes + at, &c, n < LANES ? (size_t)n : sizeof c);
}

ISA_INLINE void NAME(code_all)(const void *x, enum dtype t, int64_t n, float scale, int8_t *codes)
{
    for (int64_t i = 0; i + LANES <= n; i += LANES)
        NAME(code_some)(x, t, i, LANES, scale, codes);
    if (n % LANES)
        NAME(code_some)(x, t, n / LANES * LANES, n % LANES, scale, codes);
}

static float NAME(quantise_row)(const void *x, enum dtype t, int64_t n, int8_t *codes)
{
    NAME(ints) most = {0};
    if (t == DT_BF16)
        NAME(largest)(x, DT_BF16, n, &most);
    else
        NAME(largest)(x, DT_F32, n, &most);
    int32_t bits = 0;
    for (int k = 0; k < LANES; k++)
        bits = most[k] > bits ? most[k] : bits;
    float range, scale;
    memcpy(&range, &bits, sizeof range);
    scale = range * (1.0F / 127); // as XLA divides by a constant
    scale = range == 0 ? 1 : scale < FLT_MIN ? FLT_MIN : scale;
    if (t == DT_BF16)
        NAME(code_all)(x, DT_BF16, n, scale, codes);
    else
        NAME(code_all)(x, DT_F32, n, scale, codes);
    return scale;
}

// ---- layer norm

ISA_INLINE float NAME(sum_of)(const NAME(floats) * v)
{
    float total = 0;
    for (int k = 0; k < LANES; k++)
        total += (*v)[k];
    return total;
}

ISA_INLINE void NAME(normalise_row)(const struct layer_norm_rule *r, enum dtype t, enum dtype between, enum dtype to,
                                    const float *scale, const float *shift, const void *x, void *out)
{
    NAME(floats) sum = {0}, squares = {0}, v, by, plus;
    int64_t n = r->n, whole = n / LANES * LANES, left = n - whole;
    for (int64_t i = 0; i < whole; i += LANES) {
        NAME(read)(&v, x, t, i, LANES);
        sum += v;
    }
    if (left) {
        NAME(read)(&v, x, t, whole, left);
        sum += v;
    }
    float mean = NAME(sum_of)(&sum) / (float)n;
    for (int64_t i = 0; i < whole; i += LANES) {
        NAME(read)(&v, x, t, i, LANES);
        v -= mean;
        squares += v * v;
    }
    float rest = 0;
    for (int64_t i = whole; i < n; i++) {
        float off = (t == DT_BF16 ? f32_from_bf16(((const uint16_t *)x)[i]) : ((const float *)x)[i]) - mean;
        rest += off * off;
    }
    float root = 1 / sqrtf((NAME(sum_of)(&squares) + rest) / (float)n + r->eps);
    for (int64_t i = 0; i < n; i += LANES) {
        int64_t some = i < whole ? LANES : left;
        NAME(read)(&v, x, t, i, some);
        NAME(read)(&by, scale, DT_F32, i, some);
        NAME(read)(&plus, shift, DT_F32, i, some);
        v = (v - mean) * root;
        NAME(round_to)(&v, between);
        v = v * by + plus;
        NAME(write)(out, to, i, some, &v);
    }
}

static void NAME(layer_norm_row)(const struct layer_norm_rule *r, const float *scale, const float *shift, const void *x,
                                 void *out)
{
    if (r->x == DT_BF16 && r->between == DT_BF16 && r->out == DT_BF16)
        NAME(normalise_row)(r, DT_BF16, DT_BF16, DT_BF16, scale, shift, x, out);
    else
        NAME(normalise_row)(r, r->x, r->between, r->out, scale, shift, x, out);
}
