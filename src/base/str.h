// SPDX-License-Identifier: Apache-2.0
// Growing text, escaping for every place where text is shown, and UTF-8.
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

// Text that grows up to a maximum. An append that fails (no memory, past the maximum) sets `failed` and leaves the text
// as it was; callers check once, at the end. `text` is always a C string; it is NULL only before the first append
// (str_text gives "" then).
struct str {
    char *text;
    size_t length, capacity;
    size_t max_bytes; // 0: 1 GiB
    bool failed;
};

void str_init(struct str *s);
void str_release(struct str *s);
void str_clear(struct str *s);
const char *str_text(const struct str *s);
void str_add(struct str *s, const char *text);
void str_add_n(struct str *s, const void *bytes, size_t n);
void str_add_char(struct str *s, char c);
void str_addf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void str_addv(struct str *s, const char *fmt, va_list ap);
// Room for n more bytes behind the text, for what is written byte by byte; NULL when it cannot grow. str_use says where
// the bytes that were written there end.
char *str_grow(struct str *s, size_t n); // the slow half of it
static inline char *str_room(struct str *s, size_t n)
{
    return s->text && s->capacity - s->length > n ? s->text + s->length : str_grow(s, n);
}
static inline void str_use(struct str *s, char *end)
{
    *end = '\0';
    s->length = (size_t)(end - s->text);
}
// 0, or ERR_MEMORY when some append failed.
int str_check(const struct str *s, struct error *err);

// Escapers. Each accepts any bytes: what is not UTF-8 becomes U+FFFD (json, html, xml) or \xNN (terminal).
void str_add_json(struct str *s, const char *bytes, size_t n); // with the quotes; also safe inside <script>
void str_add_html(struct str *s, const char *bytes,
                  size_t n); // for HTML and SVG text and attributes; control characters become U+FFFD
void str_add_terminal(struct str *s, const char *bytes,
                      size_t n); // control characters, escapes and bidi marks as \xNN / \u{NNNN}
void str_add_markdown(struct str *s, const char *bytes, size_t n); // for a table cell: | and HTML are escaped

// Decodes one UTF-8 code point at s[0..n): returns its length 1..4 and sets *out, or 0 when the bytes are not valid
// UTF-8 (overlong, surrogate, above U+10FFFF, cut short) or n == 0.
size_t utf8_decode(const char *s, size_t n, uint32_t *out);
// The length of the ill-formed sequence at s: the longest beginning of a well-formed one, at least a byte ("maximal
// subpart", The Unicode Standard, section 3.9), which is what a decoder replaces by one U+FFFD. n > 0.
size_t utf8_ill_formed(const char *s, size_t n);
// Encodes a code point (not a surrogate, at most U+10FFFF) into out[4]; returns the length.
size_t utf8_encode(uint32_t code_point, char out[4]);
// True when all n bytes are valid UTF-8; else *bad_at is the offset of the first bad byte.
bool utf8_valid(const char *s, size_t n, size_t *bad_at);

bool str_ends_with(const char *s, const char *end);

// Whole-string parsers: false unless all of s is one number in range. No leading space, no sign for u64.
bool parse_u64(const char *s, uint64_t *out);
bool parse_i64(const char *s, int64_t *out);
bool parse_double(const char *s, double *out); // finite only

#endif
