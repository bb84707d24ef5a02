// SPDX-License-Identifier: Apache-2.0
#include "base/json_scan.h"

#include <ctype.h>
#include <string.h>

struct json_scan json_scan(const void *bytes, size_t size)
{
    const uint8_t *at = (const uint8_t *)bytes;
    return (struct json_scan){.at = at, .end = size ? at + size : at};
}

static bool fail(struct json_scan *s, const uint8_t *at, const char *what)
{
    s->damage = what;
    s->damaged = at;
    s->at = s->end;
    return false;
}

static bool blank(uint8_t c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

// The next byte that is no blank, 0 at the end.
static uint8_t peek(struct json_scan *s)
{
    while (s->at < s->end && blank(*s->at))
        s->at++;
    return s->at < s->end ? *s->at : 0;
}

bool scan_ended(struct json_scan *s)
{
    (void)peek(s);
    return s->at == s->end;
}

// ---- Values

// Of eight bytes at once: whether one is a quote, a backslash or beyond ASCII. Bits above the first such byte may be
// set for bytes that are none.
static uint64_t special(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
    uint64_t quote = word ^ ones * '"', backslash = word ^ ones * '\\';
    return (((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) | word) & tops;
}

static bool text(struct json_scan *s, struct scan_value *v)
{
    const uint8_t *open = s->at, *at = open + 1;
    v->kind = SCAN_TEXT;
    for (;;) {
        uint64_t word;
        while (s->end - at >= 8) {
            memcpy(&word, at, 8);
            if (special(word))
                break;
            at += 8;
        }
        while (at < s->end && *at != '"' && *at != '\\' && *at < 0x80)
            at++;
        if (at == s->end)
            return fail(s, open, "a text does not end");
        if (*at == '"')
            break;
        v->wide |= *at >= 0x80;
        v->escaped |= *at == '\\';
        at += *at == '\\' && s->end - at > 1 ? 2 : 1;
    }
    v->text = (struct slice){open + 1, (size_t)(at - open - 1)};
    s->at = at + 1;
    return true;
}

static const uint8_t *digits_end(const uint8_t *at, const uint8_t *end)
{
    while (at < end && isdigit(*at))
        at++;
    return at;
}

static bool word(struct json_scan *s, const char *word, enum scan_kind kind, struct scan_value *v)
{
    size_t n = strlen(word);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
        return false;
    v->kind = kind;
    v->text = (struct slice){s->at, n};
    s->at += n;
    return true;
}

static bool number(struct json_scan *s, struct scan_value *v)
{
    const uint8_t *begin = s->at, *at = begin;
    at += at < s->end && *at == '-';
    const uint8_t *first = at;
    at = digits_end(at, s->end);
    if (at == first)
        return word(s, "-Infinity", SCAN_NUMBER, v) || fail(s, begin, "a number has no digits");
    if (at < s->end && *at == '.')
        at = digits_end(at + 1, s->end);
    if (at < s->end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < s->end && (*at == '-' || *at == '+');
        first = at;
        at = digits_end(at, s->end);
        if (at == first)
            return fail(s, begin, "a number's exponent has no digits");
    }
    v->kind = SCAN_NUMBER;
    v->text = (struct slice){begin, (size_t)(at - begin)};
    s->at = at;
    return true;
}

bool scan_value(struct json_scan *s, struct scan_value *v)
{
    *v = (struct scan_value){.kind = SCAN_NONE};
    if (s->damage)
        return false;
    switch (peek(s)) {
    case '"':
        return text(s, v);
    case '{':
    case '[':
        v->kind = *s->at == '{' ? SCAN_OBJECT : SCAN_ARRAY;
        v->text = (struct slice){s->at++, 1};
        return true;
    case 't':
        return word(s, "true", SCAN_TRUE, v) || fail(s, s->at, "a word is none of JSON's");
    case 'f':
        return word(s, "false", SCAN_FALSE, v) || fail(s, s->at, "a word is none of JSON's");
    case 'n':
        return word(s, "null", SCAN_NULL, v) || fail(s, s->at, "a word is none of JSON's");
    case 'N':
        return word(s, "NaN", SCAN_NUMBER, v) || fail(s, s->at, "a word is none of JSON's");
    case 'I':
        return word(s, "Infinity", SCAN_NUMBER, v) || fail(s, s->at, "a word is none of JSON's");
    default:
        if (s->at < s->end && (*s->at == '-' || isdigit(*s->at)))
            return number(s, v);
        return fail(s, s->at, s->at == s->end ? "it ends in the middle" : "a byte begins no value");
    }
}

static bool ended_early(struct json_scan *s, const char *what)
{
    return fail(s, s->at, s->at == s->end ? "it ends in the middle" : what);
}

// In a container: whether something comes, behind its comma; false at the closing bracket, which is taken, and at
// damage.
static bool next(struct json_scan *s, bool first, uint8_t close, const char *missing)
{
    if (s->damage)
        return false;
    uint8_t c = peek(s);
    if (!first && c == ',') {
        s->at++;
        c = peek(s);
    } else if (!first && c != close) {
        return ended_early(s, missing);
    }
    if (c != close)
        return true;
    s->at++;
    return false;
}

bool scan_element(struct json_scan *s, bool first)
{
    return next(s, first, ']', "a comma or ] is missing") && (s->at < s->end || ended_early(s, ""));
}

bool scan_member(struct json_scan *s, struct scan_value *key, bool first)
{
    *key = (struct scan_value){.kind = SCAN_NONE};
    if (!next(s, first, '}', "a comma or } is missing"))
        return false;
    if (s->at == s->end || *s->at != '"')
        return ended_early(s, "a key is no text");
    if (!text(s, key))
        return false;
    if (peek(s) != ':')
        return ended_early(s, "a colon is missing");
    s->at++;
    return true;
}

bool scan_whole(struct json_scan *s, struct scan_value *v)
{
    uint8_t objects[SCAN_DEPTH / 8]; // a bit for each open container: it is an object
    struct scan_value inner;
    if (!scan_value(s, v))
        return false;
    if (v->kind != SCAN_OBJECT && v->kind != SCAN_ARRAY)
        return true;
    size_t depth = 0;
    enum scan_kind opened = v->kind;
    bool first = true;
    for (;;) {
        if (opened != SCAN_NONE) {
            if (depth == SCAN_DEPTH)
                return fail(s, v->text.data, "values are nested deeper than 4096");
            unsigned bit = depth % 8, below = bit ? objects[depth / 8] & ((1u << bit) - 1) : 0;
            objects[depth / 8] = (uint8_t)(below | (unsigned)(opened == SCAN_OBJECT) << bit);
            depth++;
            first = true;
        }
        bool object = objects[(depth - 1) / 8] >> (depth - 1) % 8 & 1;
        opened = SCAN_NONE;
        if (object ? scan_member(s, &inner, first) : scan_element(s, first)) {
            if (!scan_value(s, &inner))
                return false;
            if (inner.kind == SCAN_OBJECT || inner.kind == SCAN_ARRAY)
                opened = inner.kind;
        } else if (s->damage) {
            return false;
        } else if (--depth == 0) {
            break;
        }
        first = false;
    }
    v->text.size = (size_t)(s->at - v->text.data);
    return true;
}

// ---- Texts

// Four hexadecimal digits, or -1.
static int32_t hex4(const uint8_t *at, const uint8_t *end)
{
    int32_t v = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        if (!isxdigit(at[i]))
            return -1;
        v = v * 16 + (isdigit(at[i]) ? at[i] - '0' : (at[i] | 0x20) - 'a' + 10);
    }
    return v;
}

static void put_code(struct str *out, uint32_t code)
{
    char bytes[4];
    size_t n = utf8_encode(code, bytes);
    str_add_n(out, bytes, n);
}

// The escape at `at`, behind the backslash; returns where it ends.
static const uint8_t *escape(const uint8_t *at, const uint8_t *end, struct str *out, bool *bad)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *plain = at < end && *at ? strchr(from, *at) : NULL;
    if (plain) {
        str_add_char(out, to[plain - from]);
        return at + 1;
    }
    int32_t code = at < end && *at == 'u' ? hex4(at + 1, end) : -1;
    if (code < 0) {
        *bad = true;
        put_code(out, 0xfffd);
        return at < end ? at + 1 : at;
    }
    at += 5;
    if (code >= 0xd800 && code < 0xdc00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
        int32_t low = hex4(at + 2, end);
        if (low >= 0xdc00 && low < 0xe000) {
            put_code(out, (uint32_t)(0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00)));
            return at + 6;
        }
    }
    if (code >= 0xd800 && code < 0xe000) { // half of a pair
        *bad = true;
        code = 0xfffd;
    }
    put_code(out, (uint32_t)code);
    return at;
}

struct slice scan_text(const struct scan_value *v, struct str *scratch, bool *bad)
{
    const uint8_t *at = v->text.data, *end = at + v->text.size;
    if (!v->escaped && (!v->wide || utf8_valid((const char *)at, v->text.size, NULL)))
        return v->text;
    str_clear(scratch);
    while (at < end) {
        uint32_t code;
        if (v->escaped && *at == '\\') {
            at = escape(at + 1, end, scratch, bad);
            continue;
        }
        size_t n = utf8_decode((const char *)at, (size_t)(end - at), &code);
        *bad |= n == 0;
        put_code(scratch, n ? code : 0xfffd);
        at += n ? n : 1;
    }
    return (struct slice){(const uint8_t *)str_text(scratch), scratch->length};
}

// ---- Numbers

#define MOST_DIGITS 36 // 10^36 < 2^120

bool scan_decimal(struct slice digits, int shift, __int128 *out)
{
    const uint8_t *at = digits.data, *end = at + digits.size;
    bool negative = at < end && *at == '-', point = false;
    __int128 v = 0;
    int n = 0;
    int64_t power = shift;
    at += negative;
    if (at == end || !isdigit(*at))
        return false;
    for (; at < end && (isdigit(*at) || (*at == '.' && !point)); at++) {
        if (*at == '.') {
            point = true;
        } else if (n < MOST_DIGITS) {
            v = v * 10 + (*at - '0');
            n += v != 0;
            power -= point;
        } else { // beyond what counts
            power += !point;
        }
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        bool down = ++at < end && *at == '-';
        int64_t exponent = 0;
        at += at < end && (*at == '-' || *at == '+');
        for (; at < end && isdigit(*at); at++)
            exponent = exponent < 100000 ? exponent * 10 + (*at - '0') : exponent;
        power += down ? -exponent : exponent;
    }
    if (at != end)
        return false;
    for (; power > 0 && v && n <= MOST_DIGITS; power--, n++)
        v *= 10;
    if (power > 0 && v)
        return false;
    for (; power < -1 && v; power++)
        v /= 10;
    if (power == -1)
        v = (v + 5) / 10;
    *out = negative ? -v : v;
    return n <= MOST_DIGITS;
}

bool scan_integer(struct slice digits, bool *negative, uint64_t *magnitude)
{
    const uint8_t *at = digits.data, *end = at + digits.size;
    uint64_t v = 0;
    *negative = at < end && *at == '-';
    at += *negative;
    if (at == end || (*at == '0' && (end - at > 1 || *negative)))
        return false;
    for (; at < end; at++) {
        if (!isdigit(*at) || __builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *at - '0', &v))
            return false;
    }
    *magnitude = v;
    return !*negative || v <= (uint64_t)1 << 63;
}
