// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/idmap.h"
#include "ir/hlo_parse_part.h"

// MARKED: what stands in names behind a '%' beside the characters of all names.
#define M CLASS_MARKED
#define N (CLASS_NAME | M)
#define D (CLASS_DIGIT | N)
#define B CLASS_BLANK
// clang-format off
const uint8_t hlo_class[256] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, B, B, 0, 0, B, 0, 0, // 00
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // 10
    B, M, 0, M, M, 0, M, M, 0, 0, M, M, 0, N, N, M, // 20
    D, D, D, D, D, D, D, D, D, D, M, M, M, 0, M, M, // 30
    M, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, // 40
    N, N, N, N, N, N, N, N, N, N, N, M, M, M, M, N, // 50
    M, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, // 60
    N, N, N, N, N, N, N, N, N, N, N, 0, M, 0, M, M, // 70
    M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, // 80
    M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, // 90
    M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, // a0
    M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, // b0
    M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, // c0
    M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, // d0
    M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, // e0
    M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, // f0
};
// clang-format on
#undef M
#undef N
#undef D
#undef B

// ---- What was not understood

bool hlo_fail(struct hlo_parser *p, const char *fmt, ...)
{
    va_list ap;
    if (p->what[0])
        return false;
    va_start(ap, fmt);
    vsnprintf(p->what, sizeof p->what, fmt, ap);
    va_end(ap);
    p->where = p->at;
    return false;
}

size_t hlo_line_of(struct hlo_parser *p, const uint8_t *place)
{
    if (place < p->counted) {
        p->counted = p->begin;
        p->line = 1;
    }
    for (const uint8_t *at = p->counted; (at = memchr(at, '\n', (size_t)(place - at))); at++)
        p->line++;
    p->counted = place;
    return p->line;
}

bool hlo_leave_out(struct hlo_parser *p, const char *fmt, ...)
{
    struct hlo_parsed *r = p->parsed;
    const uint8_t *place = p->what[0] ? p->where : p->at;
    char text[sizeof p->what];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    memcpy(p->what, p->lenient ? "" : text, p->lenient ? 1 : sizeof text);
    p->where = place;
    if (!p->lenient || p->rc)
        return false;
    r->n_left_out++;
    if (r->n_notes == HLO_PARSE_NOTES)
        return true;
    struct hlo_parse_note *more = arena_grow(p->arena, r->notes, &p->cap_notes, r->n_notes + 1, sizeof *more, p->err);
    if (!more) {
        p->rc = ERR_MEMORY;
        return false;
    }
    int n = (int)(p->instruction.size < 80 ? p->instruction.size : 80);
    r->notes = more;
    more[r->n_notes].line = hlo_line_of(p, place);
    more[r->n_notes].what =
        n ? arena_printf(p->arena, p->err, "instruction '%.*s': %s", n, (const char *)p->instruction.data, text)
          : arena_strdup(p->arena, text, p->err);
    p->rc = more[r->n_notes].what ? p->rc : ERR_MEMORY;
    r->n_notes++;
    return !p->rc;
}

// ---- Words

void hlo_skip_line(struct hlo_parser *p)
{
    const uint8_t *line = memchr(p->at, '\n', (size_t)(p->end - p->at));
    p->at = line ? line + 1 : p->end;
}

void hlo_skip_comment(struct hlo_parser *p)
{
    while (p->end - p->at >= 2 && *p->at == '/') {
        if (p->at[1] == '*') {
            const uint8_t *star = p->at + 2;
            while ((star = memchr(star, '*', (size_t)(p->end - star))) && star + 1 < p->end && star[1] != '/')
                star++;
            p->at = star && star + 1 < p->end ? star + 2 : p->end;
        } else if (p->at[1] == '/') {
            hlo_skip_line(p);
        } else {
            return;
        }
        while (p->at < p->end && hlo_class[*p->at] & CLASS_BLANK)
            p->at++;
    }
}

bool hlo_parse_name(struct hlo_parser *p, struct slice *out)
{
    bool marked = hlo_take(p, '%');
    const uint8_t *from = p->at;
    const uint8_t *at = from, *end = p->end;
    int class = marked ? CLASS_MARKED : CLASS_NAME;
    while (at < end && hlo_class[*at] & class)
        at++;
    p->at = at;
    *out = (struct slice){from, (size_t)(at - from)};
    return (out->size && out->size < UINT32_MAX) || hlo_fail(p, "expected a name");
}

bool hlo_parse_integer(struct hlo_parser *p, int64_t *out)
{
    int c = hlo_peek(p);
    bool negative = c == '-';
    const uint8_t *from = p->at + negative, *at = from, *end = p->end;
    uint64_t v = 0;
    for (; at < end && (unsigned)(*at - '0') < 10 && at - from < 19; at++) // 19 digits fit in 64 bits
        v = v * 10 + (unsigned)(*at - '0');
    for (; at < end && hlo_class[*at] & CLASS_DIGIT; at++) {
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) || __builtin_add_overflow(v, (uint64_t)(*at - '0'), &v)) {
            p->at = at;
            return hlo_fail(p, "a number does not fit in 64 bits");
        }
    }
    p->at = at;
    if (at == from)
        return hlo_fail(p, "expected a number");
    if (v > (uint64_t)INT64_MAX + negative)
        return hlo_fail(p, "a number does not fit in 64 bits");
    *out = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

bool hlo_parse_quoted(struct hlo_parser *p, struct slice *out)
{
    int quote = hlo_peek(p);
    if (quote != '"' && quote != '\'')
        return hlo_fail(p, "expected a text in quotes");
    const uint8_t *from = ++p->at;
    for (const uint8_t *at = from; (at = memchr(at, quote, (size_t)(p->end - at))); at++) {
        const uint8_t *back = at;
        while (back > from && back[-1] == '\\')
            back--;
        if ((at - back) % 2 == 0) {
            *out = (struct slice){from, (size_t)(at - from)};
            p->at = at + 1;
            return true;
        }
    }
    return hlo_fail(p, "a text in quotes does not end");
}

static int hex(int c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

// One escape behind its backslash; what is none stands for itself.
static size_t unescape(const uint8_t *at, size_t left, char *out)
{
    static const char names[] = "abfnrtv", values[] = "\a\b\f\n\r\t\v";
    const char *known = at[0] ? strchr(names, at[0]) : NULL;
    size_t n = 0;
    int v = 0;
    if (known) {
        *out = values[known - names];
        return 1;
    }
    while (n < 3 && n < left && at[n] >= '0' && at[n] <= '7')
        v = v * 8 + (at[n++] - '0');
    if (!n && left > 1 && (at[0] | 32) == 'x' && hex(at[1]) >= 0) {
        for (n = 1; n < 3 && n < left && hex(at[n]) >= 0; n++)
            v = v * 16 + hex(at[n]);
    }
    *out = n ? (char)v : (char)at[0];
    return n ? n : 1;
}

void hlo_put_text(struct hlo_parser *p, uint32_t field, struct slice quoted)
{
    const uint8_t *at = quoted.data, *end = at + quoted.size, *escape;
    if (!quoted.size || !memchr(at, '\\', quoted.size)) {
        pb_put_bytes(p->out, field, at, quoted.size);
        return;
    }
    size_t begin = pb_begin(p->out, field);
    while ((escape = memchr(at, '\\', (size_t)(end - at))) && escape + 1 < end) {
        char c;
        str_add_n(p->out, at, (size_t)(escape - at));
        at = escape + 1 + unescape(escape + 1, (size_t)(end - escape - 1), &c);
        str_add_char(p->out, c);
    }
    str_add_n(p->out, at, (size_t)(end - at));
    pb_end(p->out, begin);
}

bool hlo_skip_value(struct hlo_parser *p, struct slice *out)
{
    struct slice text;
    size_t depth = 0;
    hlo_blanks(p);
    const uint8_t *from = p->at;
    for (; p->at < p->end; p->at++) {
        int c = *p->at;
        if (c == '"') {
            if (!hlo_parse_quoted(p, &text))
                return false;
            p->at--;
        } else if (c == '{' || c == '(' || c == '[') {
            depth++;
        } else if (c == '}' || c == ')' || c == ']') {
            if (!depth)
                break;
            depth--;
        } else if (!depth && (c == ',' || hlo_class[c] & CLASS_BLANK)) {
            break;
        }
    }
    *out = (struct slice){from, (size_t)(p->at - from)};
    if (depth)
        return hlo_fail(p, "a bracket is not closed");
    return out->size || hlo_fail(p, "expected a value");
}

bool hlo_parse_list(struct hlo_parser *p, uint32_t field, char open, char close)
{
    int64_t v = 0;
    if (!hlo_expect(p, open))
        return false;
    if (hlo_take(p, close))
        return true;
    size_t begin = pb_begin(p->out, field);
    do {
        if (hlo_peek(p) == '*') { // several dimensions of a shape in one of a tile
            p->at++;
            v = INT64_MIN;
        } else if (!hlo_parse_integer(p, &v)) {
            return false;
        }
        pb_put_varint(p->out, (uint64_t)v);
    } while (hlo_take(p, ','));
    pb_end(p->out, begin);
    return hlo_expect(p, close);
}

bool hlo_parse_within(struct hlo_parser *p, struct slice text, bool (*what)(struct hlo_parser *, uint32_t),
                      uint32_t field)
{
    const uint8_t *at = p->at, *end = p->end;
    p->at = text.data;
    p->end = text.data + text.size;
    bool ok = what(p, field);
    p->at = at;
    p->end = end;
    return ok;
}

// ---- Names

// One multiplication of 64 by 64 bits a step, both halves of the product kept: with a secret, no text can make the
// table slow, and names are short.
static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_of(uint64_t secret, struct slice s)
{
    const uint64_t odd = 0x9e3779b97f4a7c15;
    const uint8_t *at = s.data;
    size_t left = s.size;
    uint64_t h = secret, a = 0, b = 0;
    for (; left > 16; left -= 16, at += 16) {
        memcpy(&a, at, 8);
        memcpy(&b, at + 8, 8);
        h = fold(a ^ h, b ^ odd);
    }
    a = b = 0;
    if (left >= 8) {
        memcpy(&a, at, 8);
        memcpy(&b, at + left - 8, 8);
    } else if (left >= 4) {
        uint32_t low, high;
        memcpy(&low, at, 4);
        memcpy(&high, at + left - 4, 4);
        a = (uint64_t)high << 32 | low;
    } else if (left) {
        a = (uint64_t)at[0] << 16 | (uint64_t)at[left / 2] << 8 | at[left - 1];
    }
    return fold(fold(a ^ h, b ^ odd) ^ s.size, secret | 1);
}

static bool is_item(const struct hlo_name *s, struct slice name, uint64_t h)
{
    return s->hash == h && s->size == name.size && memcmp(s->data, name.data, name.size) == 0;
}

// Where the name is, or would be.
static uint32_t *find(const struct hlo_names *t, struct slice name, uint64_t h)
{
    for (size_t i = (size_t)h & (t->n_slots - 1);; i = (i + 1) & (t->n_slots - 1)) {
        if (t->slots[i] <= t->first)
            return &t->slots[i];
        if (is_item(&t->items[t->slots[i] - 1], name, h))
            return &t->slots[i];
    }
}

uint64_t hlo_names_hash(const struct hlo_names *t, struct slice name)
{
    uint64_t h = hash_of(t->secret, name);
    if (t->n_slots)
        __builtin_prefetch(&t->slots[(size_t)h & (t->n_slots - 1)], 1);
    return h;
}

uint32_t hlo_names_get(const struct hlo_names *t, struct slice name)
{
    if (!t->n_slots)
        return 0;
    uint64_t h = hash_of(t->secret, name);
    uint32_t at = t->recent[h % HLO_RECENT];
    if (at <= t->first || !is_item(&t->items[at - 1], name, h))
        at = *find(t, name, h);
    return at > t->first ? t->items[at - 1].value : 0;
}

static bool no_memory(struct hlo_parser *p, size_t n)
{
    p->rc = error_set(p->err, ERR_MEMORY, p->name, "no memory for %zu names", n);
    return false;
}

static bool grow_slots(struct hlo_parser *p, struct hlo_names *t)
{
    size_t n = t->n_slots ? 2 * t->n_slots : 256;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots)
        return no_memory(p, n);
    for (size_t i = t->first; i < t->n; i++) {
        size_t at = (size_t)t->items[i].hash & (n - 1);
        while (slots[at])
            at = (at + 1) & (n - 1);
        slots[at] = (uint32_t)i + 1;
    }
    free(t->slots);
    t->slots = slots;
    t->n_slots = n;
    return true;
}

static bool grow_items(struct hlo_parser *p, struct hlo_names *t)
{
    size_t cap = t->cap ? 2 * t->cap : 128;
    struct hlo_name *items = cap < UINT32_MAX ? realloc(t->items, cap * sizeof *items) : NULL;
    if (!items)
        return no_memory(p, cap);
    t->items = items;
    t->cap = cap;
    return true;
}

struct hlo_name *hlo_names_put(struct hlo_parser *p, struct hlo_names *t, struct slice name, uint64_t h)
{
    if ((2 * (t->n - t->first + 1) > t->n_slots && !grow_slots(p, t)) || (t->n == t->cap && !grow_items(p, t)))
        return NULL;
    uint32_t *at = find(t, name, h);
    if (*at <= t->first) {
        t->items[t->n++] = (struct hlo_name){name.data, (uint32_t)name.size, 0, h};
        *at = (uint32_t)t->n;
        t->recent[h % HLO_RECENT] = *at;
    }
    return &t->items[*at - 1];
}

void hlo_names_next_round(struct hlo_names *t)
{
    t->first = t->n;
}

void hlo_names_release(struct hlo_names *t)
{
    free(t->items);
    free(t->slots);
}
