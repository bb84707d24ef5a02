// SPDX-License-Identifier: Apache-2.0
#include "base/str.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define DEFAULT_MAX ((size_t)1 << 30)

void str_init(struct str *s)
{
    memset(s, 0, sizeof *s);
}

void str_release(struct str *s)
{
    free(s->text);
    str_init(s);
}

void str_clear(struct str *s)
{
    s->length = 0;
    s->failed = false;
    if (s->text)
        s->text[0] = '\0';
}

const char *str_text(const struct str *s)
{
    return s->text ? s->text : "";
}

static bool reserve(struct str *s, size_t more)
{
    size_t need, max = s->max_bytes ? s->max_bytes : DEFAULT_MAX;
    if (s->failed || !size_add(s->length, more, &need) || need >= max) {
        s->failed = true;
        return false;
    }
    if (need < s->capacity)
        return true;
    size_t cap = s->capacity ? s->capacity : 64;
    while (cap <= need)
        cap *= 2;
    char *p = realloc(s->text, cap);
    if (!p) {
        s->failed = true;
        return false;
    }
    s->text = p;
    s->capacity = cap;
    return true;
}

void str_add_n(struct str *s, const void *bytes, size_t n)
{
    if (!reserve(s, n))
        return;
    if (n)
        memcpy(s->text + s->length, bytes, n);
    s->length += n;
    s->text[s->length] = '\0';
}

char *str_grow(struct str *s, size_t n)
{
    return reserve(s, n) ? s->text + s->length : NULL;
}

void str_add(struct str *s, const char *text)
{
    str_add_n(s, text, strlen(text));
}

void str_add_char(struct str *s, char c)
{
    str_add_n(s, &c, 1);
}

void str_addv(struct str *s, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0)
        s->failed = true;
    else if (reserve(s, (size_t)n)) {
        vsnprintf(s->text + s->length, (size_t)n + 1, fmt, again);
        s->length += (size_t)n;
    }
    va_end(again);
}

void str_addf(struct str *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    str_addv(s, fmt, ap);
    va_end(ap);
}

int str_check(const struct str *s, struct error *err)
{
    return s->failed ? error_set(err, ERR_MEMORY, NULL, "a text grew past its limit or memory ran out") : 0;
}

size_t utf8_decode(const char *text, size_t n, uint32_t *out)
{
    const unsigned char *s = (const unsigned char *)text;
    if (n == 0)
        return 0;
    if (s[0] < 0x80) {
        *out = s[0];
        return 1;
    }
    size_t len = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || n < len)
        return 0;
    uint32_t c = s[0] & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3fu);
    }
    if ((len == 3 && c < 0x800) || (len == 4 && c < 0x10000) || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    *out = c;
    return len;
}

size_t utf8_ill_formed(const char *bytes, size_t n)
{
    const uint8_t *s = (const uint8_t *)bytes;
    size_t want = s[0] >= 0xC2 && s[0] <= 0xDF ? 2 : (s[0] & 0xF0) == 0xE0 ? 3 : s[0] >= 0xF0 && s[0] <= 0xF4 ? 4 : 1;
    uint8_t low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    uint8_t high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    size_t i = 1;
    for (; i < want && i < n && s[i] >= low && s[i] <= high; i++) {
        low = 0x80;
        high = 0xBF;
    }
    return i;
}

size_t utf8_encode(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

bool utf8_valid(const char *s, size_t n, size_t *bad_at)
{
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t k = utf8_decode(s + i, n - i, &c);
        if (!k) {
            if (bad_at)
                *bad_at = i;
            return false;
        }
        i += k;
    }
    return true;
}

// Characters that make a terminal or a page show something else than the text: C0, C1, and the bidi controls.
static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

static bool is_bidi(uint32_t c)
{
    return (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0x200e || c == 0x200f || c == 0x061c;
}

static const char replacement[] = "\xef\xbf\xbd";

void str_add_json(struct str *s, const char *bytes, size_t n)
{
    str_add_char(s, '"');
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t k = utf8_decode(bytes + i, n - i, &c);
        if (!k) {
            str_add(s, replacement);
            i++;
            continue;
        }
        if (c == '"' || c == '\\')
            str_addf(s, "\\%c", (int)c);
        else if (c == '\n')
            str_add(s, "\\n");
        else if (c == '\t')
            str_add(s, "\\t");
        else if (is_control(c) || c == '<' || c == 0x2028 || c == 0x2029)
            str_addf(s, "\\u%04x", c); // '<' so that "</script>" in a name cannot end a script element
        else
            str_add_n(s, bytes + i, k);
        i += k;
    }
    str_add_char(s, '"');
}

void str_add_html(struct str *s, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t k = utf8_decode(bytes + i, n - i, &c);
        if (!k || (is_control(c) && c != '\n' && c != '\t') || is_bidi(c)) {
            str_add(s, replacement);
            i += k ? k : 1;
            continue;
        }
        switch (c) {
        case '<':
            str_add(s, "&lt;");
            break;
        case '>':
            str_add(s, "&gt;");
            break;
        case '&':
            str_add(s, "&amp;");
            break;
        case '"':
            str_add(s, "&quot;");
            break;
        case '\'':
            str_add(s, "&#39;");
            break;
        default:
            str_add_n(s, bytes + i, k);
        }
        i += k;
    }
}

void str_add_terminal(struct str *s, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t k = utf8_decode(bytes + i, n - i, &c);
        if (!k) {
            str_addf(s, "\\x%02x", (unsigned char)bytes[i]);
            i++;
            continue;
        }
        if (is_control(c))
            str_addf(s, "\\x%02x", c);
        else if (is_bidi(c))
            str_addf(s, "\\u{%04x}", c);
        else
            str_add_n(s, bytes + i, k);
        i += k;
    }
}

void str_add_markdown(struct str *s, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t k = utf8_decode(bytes + i, n - i, &c);
        if (!k || is_control(c) || is_bidi(c))
            str_add(s, replacement);
        else if (c < 0x80 && strchr("\\`*_[]<>|#&", (int)c))
            str_addf(s, "\\%c", (int)c);
        else
            str_add_n(s, bytes + i, k);
        i += k ? k : 1;
    }
}

bool str_ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

bool parse_u64(const char *s, uint64_t *out)
{
    if (!s || *s < '0' || *s > '9')
        return false;
    char *end;
    errno = 0;
    unsigned long long v = strtoull(s, &end, 10);
    if (errno || *end)
        return false;
    *out = v;
    return true;
}

bool parse_i64(const char *s, int64_t *out)
{
    if (!s || !((*s >= '0' && *s <= '9') || (*s == '-' && s[1] >= '0' && s[1] <= '9')))
        return false;
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (errno || *end)
        return false;
    *out = v;
    return true;
}

bool parse_double(const char *s, double *out)
{
    if (!s || !((*s >= '0' && *s <= '9') || *s == '-' || *s == '.'))
        return false;
    char *end;
    errno = 0;
    double v = strtod(s, &end);
    if (*end || end == s || !isfinite(v) || strpbrk(s, "xX"))
        return false; // strtod also reads hexadecimal
    *out = v;
    return true;
}
