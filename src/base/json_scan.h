// SPDX-License-Identifier: Apache-2.0
// JSON read where it lies, value by value: for files of gigabytes, of which nobody wants a tree. Nothing is allocated
// and nothing recurses. It takes a little more than JSON: a comma before a closing bracket, control characters in
// texts, and the numbers NaN and Infinity, since writers of traces write all of them.
//
//     struct scan_value v, key;
//     if (scan_value(&s, &v) && v.kind == SCAN_OBJECT)
//         for (bool first = true; scan_member(&s, &key, first); first = false)
//             if (!scan_whole(&s, &v)) break; // or scan_value, and then what is in it
//     if (s.damage) ...
#ifndef BASE_JSON_SCAN_H
#define BASE_JSON_SCAN_H

#include <stdbool.h>

#include "base/slice.h"
#include "base/str.h"

#define SCAN_DEPTH 4096 // of what scan_whole passes over

struct json_scan {
    const uint8_t *at, *end;
    const char *damage; // the first thing that was wrong, a static text; reading ends there
    const uint8_t *damaged;
};

enum scan_kind { SCAN_NONE, SCAN_NULL, SCAN_TRUE, SCAN_FALSE, SCAN_NUMBER, SCAN_TEXT, SCAN_OBJECT, SCAN_ARRAY };

struct scan_value {
    enum scan_kind kind;
    bool escaped;      // of a text: it has a backslash in it
    bool wide;         // of a text: it has bytes beyond ASCII in it
    struct slice text; // the bytes: of a text those between its quotes, of scan_whole's containers all
};

struct json_scan json_scan(const void *bytes, size_t size);
// The next value: a whole one, or the opening bracket of a container. False at damage; the end of the bytes is damage.
bool scan_value(struct json_scan *s, struct scan_value *v);
// The same, but a container is passed over. Deeper than SCAN_DEPTH is damage.
bool scan_whole(struct json_scan *s, struct scan_value *v);
// In an object: the next key and its colon; false at the closing bracket, which is taken, and at damage.
bool scan_member(struct json_scan *s, struct scan_value *key, bool first);
// In an array: whether there is another value. False at the closing bracket, which is taken, and at damage.
bool scan_element(struct json_scan *s, bool first);
// Whether nothing but blanks is left.
bool scan_ended(struct json_scan *s);

static inline bool scan_is(const struct scan_value *v, const char *text)
{
    return v->kind == SCAN_TEXT && slice_is(v->text, text);
}

// What a text says, as UTF-8: escapes are followed, and what is none becomes U+FFFD, of which *bad is told. A text
// without any of them is itself; for others `scratch` has it, until it is used again.
struct slice scan_text(const struct scan_value *v, struct str *scratch, bool *bad);

// A decimal number times ten to the power of `shift`, rounded to the nearest whole one, halves away from zero. False
// when it is no number, or beyond 2^120.
bool scan_decimal(struct slice digits, int shift, __int128 *out);
// A whole number in the form that JSON has it, without fraction and exponent, between -2^63 and 2^64-1.
bool scan_integer(struct slice digits, bool *negative, uint64_t *magnitude);

#endif
