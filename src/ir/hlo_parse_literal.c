// SPDX-License-Identifier: Apache-2.0
// Constants. In the text elements come in the order of the dimensions; in the message in that of the layout.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "ir/hlo_literal.h"
#include "ir/hlo_parse_part.h"
#include "num/convert.h"

#define MAX_RANK 16

struct constant {
    enum dtype type;
    int rank;
    int64_t dims[MAX_RANK];
    size_t elements, words;  // words: 2 of each for complex numbers
    size_t stride[MAX_RANK]; // in the message
    bool in_order;           // the message has the order of the text
};

static bool room_for(struct hlo_parser *p, size_t n)
{
    if (n <= p->cap_values)
        return true;
    size_t cap = p->cap_values ? p->cap_values : 1024;
    while (cap < n)
        cap *= 2;
    uint64_t *more = realloc(p->values, cap * sizeof *more);
    if (!more) {
        p->rc = error_set(p->err, ERR_MEMORY, p->name, "no memory for a constant of %zu elements", n);
        return false;
    }
    p->values = more;
    p->cap_values = cap;
    return true;
}

// What hlo_parse_shape wrote.
static bool find_shape(struct hlo_parser *p, struct constant *c, struct slice shape)
{
    struct pb_field f, g;
    struct pb_reader r = pb_reader(shape.data, shape.size);
    int order[MAX_RANK], n_order = 0;
    uint64_t v;
    int primitive = 0;
    *c = (struct constant){.elements = 1, .in_order = true};
    while (pb_next(&r, &f)) {
        if (pb_is(&f, 2, PB_VARINT))
            primitive = (int)f.value;
        if (f.number == 3 && f.wire == PB_BYTES) {
            for (const uint8_t *at = f.body.data, *end = at + f.body.size;
                 at < end && (at = pb_get_varint(at, end, &v));) {
                if (c->rank == MAX_RANK)
                    return hlo_fail(p, "a constant of more than %d dimensions", MAX_RANK);
                c->dims[c->rank++] = (int64_t)v;
            }
        }
        if (!pb_is(&f, 5, PB_BYTES))
            continue;
        struct pb_reader layout = pb_reader(f.body.data, f.body.size);
        while (pb_next(&layout, &g)) {
            if (g.number != 1 || g.wire != PB_BYTES)
                continue;
            for (const uint8_t *at = g.body.data, *end = at + g.body.size;
                 at < end && (at = pb_get_varint(at, end, &v));) {
                if (n_order == MAX_RANK || v >= MAX_RANK)
                    return hlo_fail(p, "a layout that does not fit its shape");
                order[n_order++] = (int)v;
            }
        }
    }
    c->type = dtype_from_xla(primitive);
    for (int d = 0; d < c->rank; d++) {
        if (__builtin_mul_overflow(c->elements, (size_t)c->dims[d], &c->elements))
            c->elements = SIZE_MAX;
    }
    if (n_order && n_order != c->rank)
        return hlo_fail(p, "a layout that does not fit its shape");
    unsigned seen = 0;
    size_t stride = 1;
    for (int i = 0; i < n_order; i++) {
        int d = order[i];
        if (d >= c->rank || seen >> d & 1)
            return hlo_fail(p, "a layout that does not fit its shape");
        seen |= 1U << d;
        c->stride[d] = stride;
        stride *= (size_t)c->dims[d]; // never more than the elements, which are all in the text
        c->in_order &= d == c->rank - 1 - i;
    }
    return true;
}

// ---- Elements

static bool parse_float(struct hlo_parser *p, double *out)
{
    char text[64];
    size_t n = 0;
    int c = hlo_peek(p);
    bool negative = c == '-';
    const uint8_t *from = p->at;
    if (p->end - p->at >= 3 + negative && memcmp(p->at + negative, "nan", 3) == 0) {
        struct slice payload;
        p->at += 3 + negative;
        *out = negative ? -NAN : NAN;
        return p->at >= p->end || *p->at != '(' || hlo_skip_value(p, &payload);
    }
    if (p->end - p->at >= 3 + negative && memcmp(p->at + negative, "inf", 3) == 0) {
        p->at += 3 + negative;
        *out = negative ? -INFINITY : INFINITY;
        return true;
    }
    // Whole numbers of up to 15 digits need no library.
    int64_t whole = 0;
    const uint8_t *at = p->at + negative;
    while (at < p->end && hlo_class[*at] & CLASS_DIGIT && at - from < 15)
        whole = whole * 10 + (*at++ - '0');
    if (at > p->at + negative && (at >= p->end || *at == ',' || *at == '}' || *at == ')' || *at == ' ')) {
        p->at = at;
        *out = negative ? -(double)whole : (double)whole;
        return true;
    }
    while (p->at < p->end && n + 1 < sizeof text && (hlo_class[*p->at] & CLASS_NAME || *p->at == '+'))
        text[n++] = (char)*p->at++;
    text[n] = '\0';
    char *stop;
    *out = strtod(text, &stop);
    if (n && stop == text + n)
        return true;
    p->at = from;
    return hlo_fail(p, "expected a number");
}

static bool parse_pred(struct hlo_parser *p, uint64_t *out)
{
    struct slice word = hlo_word(p);
    bool yes = slice_is(word, "true") || slice_is(word, "1");
    *out = yes;
    return yes || slice_is(word, "false") || slice_is(word, "0") || hlo_fail(p, "expected true or false");
}

static bool parse_whole(struct hlo_parser *p, const struct constant *c, uint64_t *out)
{
    const struct dtype_info *info = dtype_info(c->type);
    bool is_signed = info->kind == DTK_SIGNED;
    int64_t v = 0;
    uint64_t u = 0;
    if (c->type == DT_U64 && hlo_peek(p) != '-') { // beyond what a signed number holds
        bool any = false;
        for (; p->at < p->end && hlo_class[*p->at] & CLASS_DIGIT; p->at++, any = true) {
            if (__builtin_mul_overflow(u, (uint64_t)10, &u) || __builtin_add_overflow(u, (uint64_t)(*p->at - '0'), &u))
                return hlo_fail(p, "an element does not fit in %s", info->name);
        }
        *out = u;
        return any || hlo_fail(p, "expected a number");
    }
    if (!hlo_parse_integer(p, &v))
        return false;
    int64_t high = info->bits == 64 ? INT64_MAX : (INT64_C(1) << (info->bits - is_signed)) - 1;
    if (v > high || v < (is_signed ? -high - 1 : 0))
        return hlo_fail(p, "an element does not fit in %s", info->name);
    *out = (uint64_t)v;
    return true;
}

static bool parse_element(struct hlo_parser *p, const struct constant *c, uint64_t *out)
{
    double v, w = 0;
    switch (dtype_info(c->type)->kind) {
    case DTK_PRED:
        return parse_pred(p, out);
    case DTK_SIGNED:
    case DTK_UNSIGNED:
        return parse_whole(p, c, out);
    case DTK_COMPLEX: {
        bool pair = hlo_take(p, '(');
        if (!parse_float(p, &v) || (pair && (!hlo_expect(p, ',') || !parse_float(p, &w) || !hlo_expect(p, ')'))))
            return false;
        out[0] = f64_bits(v);
        out[1] = f64_bits(w);
        return true;
    }
    default:
        if (!parse_float(p, &v))
            return false;
        *out = f64_bits(v);
        return true;
    }
}

// ---- Into the message

static void put_values(struct hlo_parser *p, const struct constant *c, size_t n)
{
    enum dtype part = c->type == DT_C64 ? DT_F32 : c->type == DT_C128 ? DT_F64 : c->type;
    const struct hlo_storage *storage = hlo_storage_of(part);
    uint32_t number = c->type == DT_C64 ? 12 : c->type == DT_C128 ? 18 : storage->number;
    size_t size = (size_t)(dtype_bits(part) + 7) / 8;
    size_t begin = pb_begin(p->out, number);
    bool whole = !dtype_is_float(part);
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = p->values[i];
        if (storage->how == HLO_VARINTS) {
            pb_put_varint(p->out, bits);
            continue;
        }
        if (!whole && part != DT_F64) {
            double v = f64_of_bits(bits);
            if (part == DT_F32)
                bits = f32_bits((float)v);
            else
                (void)convert_elements(part, &bits, DT_F64, &v, 1, NULL);
        }
        str_add_n(p->out, &bits, size); // little-endian, as the message is
    }
    pb_end(p->out, begin);
}

// From the order of the text to that of the layout.
static bool reorder(struct hlo_parser *p, const struct constant *c)
{
    size_t per = c->words / (c->elements ? c->elements : 1);
    int64_t at[MAX_RANK] = {0};
    if (!room_for(p, 2 * c->words))
        return false;
    uint64_t *to = p->values + c->words;
    for (size_t i = 0; i < c->elements; i++) {
        size_t place = 0;
        for (int d = 0; d < c->rank; d++)
            place += (size_t)at[d] * c->stride[d];
        memcpy(to + place * per, p->values + i * per, per * sizeof *to);
        for (int d = c->rank; d-- > 0 && ++at[d] == c->dims[d];)
            at[d] = 0;
    }
    memcpy(p->values, to, c->words * sizeof *to);
    return true;
}

static bool parse_elements(struct hlo_parser *p, struct constant *c)
{
    size_t per = dtype_info(c->type)->kind == DTK_COMPLEX ? 2 : 1, n = 0;
    int depth = 0;
    do {
        int next = hlo_peek(p);
        if (next == '{' || next == '}') {
            depth += next == '{' ? 1 : -1;
            p->at++;
            if (depth > c->rank || depth < 0)
                return hlo_fail(p, "more brackets than the constant has dimensions");
        } else if (next == ',' && depth) {
            p->at++;
        } else if (depth != c->rank || n == c->elements) {
            return hlo_fail(p, n == c->elements ? "more elements than the constant's shape has"
                                                : "fewer brackets than the constant has dimensions");
        } else {
            if (!room_for(p, (n + 1) * per) || !parse_element(p, c, p->values + n * per))
                return false;
            n++;
        }
    } while (depth);
    c->words = n * per;
    return n == c->elements || hlo_fail(p, "%zu elements, but the constant's shape has %zu", n, c->elements);
}

bool hlo_parse_literal(struct hlo_parser *p, struct slice shape)
{
    struct constant c;
    const uint8_t *at = p->at;
    if (!find_shape(p, &c, shape))
        return false;
    bool elided = hlo_take(p, '{') && p->end - p->at >= 3 && memcmp(p->at, "...", 3) == 0;
    if (!elided)
        p->at = at;
    bool known = c.type != DT_INVALID && (dtype_info(c.type)->kind == DTK_COMPLEX || hlo_storage_of(c.type));
    if (!elided && !known)
        return hlo_fail(p, "a constant of a type that has no values here");
    if (!elided && (!parse_elements(p, &c) || (!c.in_order && !reorder(p, &c))))
        return false;
    // The shape lies in the message that is being written, which may move.
    char copy[512];
    if (shape.size > sizeof copy)
        return hlo_fail(p, "a constant of a shape that is too long");
    memcpy(copy, shape.data, shape.size);
    size_t literal = pb_begin(p->out, 8);
    pb_put_bytes(p->out, 1, copy, shape.size);
    if (!elided)
        put_values(p, &c, c.words);
    pb_end(p->out, literal);
    if (!elided)
        return true;
    p->parsed->n_elided++;
    p->at += 3;
    return hlo_expect(p, '}');
}
