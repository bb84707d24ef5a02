// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/idmap.h"
#include "ir/hlo_parse_part.h"

#define N CLASS_NAME
#define D (CLASS_NAME | CLASS_DIGIT)
#define B CLASS_BLANK
const uint8_t hlo_class[256] = {
    ['\t'] = B, ['\n'] = B, ['\r'] = B, [' '] = B, ['_'] = N, ['.'] = N, ['-'] = N, ['0'] = D, ['1'] = D, ['2'] = D,
    ['3'] = D,  ['4'] = D,  ['5'] = D,  ['6'] = D, ['7'] = D, ['8'] = D, ['9'] = D, ['A'] = N, ['B'] = N, ['C'] = N,
    ['D'] = N,  ['E'] = N,  ['F'] = N,  ['G'] = N, ['H'] = N, ['I'] = N, ['J'] = N, ['K'] = N, ['L'] = N, ['M'] = N,
    ['N'] = N,  ['O'] = N,  ['P'] = N,  ['Q'] = N, ['R'] = N, ['S'] = N, ['T'] = N, ['U'] = N, ['V'] = N, ['W'] = N,
    ['X'] = N,  ['Y'] = N,  ['Z'] = N,  ['a'] = N, ['b'] = N, ['c'] = N, ['d'] = N, ['e'] = N, ['f'] = N, ['g'] = N,
    ['h'] = N,  ['i'] = N,  ['j'] = N,  ['k'] = N, ['l'] = N, ['m'] = N, ['n'] = N, ['o'] = N, ['p'] = N, ['q'] = N,
    ['r'] = N,  ['s'] = N,  ['t'] = N,  ['u'] = N, ['v'] = N, ['w'] = N, ['x'] = N, ['y'] = N, ['z'] = N,
};

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
    // A '%' stands before names with other characters, too.
    while (p->at < p->end &&
           (hlo_class[*p->at] & CLASS_NAME || (marked && *p->at > ' ' && !strchr(",(){}=\"%", *p->at))))
        p->at++;
    *out = (struct slice){from, (size_t)(p->at - from)};
    return (out->size && out->size < UINT32_MAX) || hlo_fail(p, "expected a name");
}

bool hlo_parse_integer(struct hlo_parser *p, int64_t *out)
{
    int c = hlo_peek(p);
    bool negative = c == '-', digits = false;
    uint64_t v = 0;
    p->at += negative;
    for (; p->at < p->end && hlo_class[*p->at] & CLASS_DIGIT; p->at++, digits = true) {
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) || __builtin_add_overflow(v, (uint64_t)(*p->at - '0'), &v))
            return hlo_fail(p, "a number does not fit in 64 bits");
    }
    if (!digits)
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

static uint64_t hash_of(uint64_t secret, struct slice s)
{
    uint64_t h = secret ^ s.size, word = 0;
    const uint8_t *at = s.data;
    size_t left = s.size;
    for (; left >= 8; left -= 8, at += 8) {
        memcpy(&word, at, 8);
        h = mix64(h ^ word);
    }
    word = 0;
    if (left)
        memcpy(&word, at, left);
    return mix64(h ^ word);
}

// Where the name is, or would be.
static uint32_t *find(const struct hlo_names *t, struct slice name, uint64_t h)
{
    for (size_t i = (size_t)h & (t->n_slots - 1);; i = (i + 1) & (t->n_slots - 1)) {
        if (t->slots[i] <= t->first)
            return &t->slots[i];
        const struct hlo_name *s = &t->items[t->slots[i] - 1];
        if (s->hash == h && s->size == name.size && memcmp(s->data, name.data, name.size) == 0)
            return &t->slots[i];
    }
}

uint32_t hlo_names_get(const struct hlo_names *t, struct slice name)
{
    if (!t->n_slots)
        return 0;
    uint32_t at = *find(t, name, hash_of(t->secret, name));
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

struct hlo_name *hlo_names_put(struct hlo_parser *p, struct hlo_names *t, struct slice name)
{
    if ((2 * (t->n - t->first + 1) > t->n_slots && !grow_slots(p, t)) || (t->n == t->cap && !grow_items(p, t)))
        return NULL;
    uint64_t h = hash_of(t->secret, name);
    uint32_t *at = find(t, name, h);
    if (*at <= t->first) {
        t->items[t->n++] = (struct hlo_name){name.data, (uint32_t)name.size, 0, h};
        *at = (uint32_t)t->n;
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
