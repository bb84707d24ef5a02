// SPDX-License-Identifier: Apache-2.0
// Protocol buffer wire format, the writing half: tags, varints, fixed and length-delimited fields, appended to a `str`.
// Encoding: https://protobuf.dev/programming-guides/encoding/
#ifndef BASE_PBWIRE_H
#define BASE_PBWIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum pb_wire { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2, PB_FIXED32 = 5 };

// A varint at a place that has room for ten bytes; where it ends. And how many bytes it takes.
static inline uint8_t *pb_varint_at(uint8_t *at, uint64_t v)
{
    while (v >= 0x80) {
        *at++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *at++ = (uint8_t)v;
    return at;
}
static inline size_t pb_varint_size(uint64_t v)
{
    return (size_t)(70 - __builtin_clzll(v | 1)) / 7;
}

// In place where there is room, the end of the text included: most of a message is varints.
static inline void pb_put_varint(struct str *s, uint64_t v)
{
    char *to = str_room(s, 10);
    if (to)
        str_use(s, (char *)pb_varint_at((uint8_t *)to, v));
}
static inline void pb_put_tag(struct str *s, uint32_t field, enum pb_wire wire)
{
    pb_put_varint(s, (uint64_t)field << 3 | (uint64_t)wire);
}
// One field each. Zero values are written too: a oneof or an explicit default needs them; leaving a field out is the
// caller's choice.
void pb_put_uint(struct str *s, uint32_t field, uint64_t v);
void pb_put_int(struct str *s, uint32_t field, int64_t v); // int32, int64 and enums; negative ones take ten bytes
void pb_put_bool(struct str *s, uint32_t field, bool v);
void pb_put_double(struct str *s, uint32_t field, double v);
void pb_put_float(struct str *s, uint32_t field, float v);
void pb_put_bytes(struct str *s, uint32_t field, const void *bytes, size_t n);
void pb_put_string(struct str *s, uint32_t field, const char *text);

// A submessage written in place: its fields are appended between begin and end; end puts the length in.
//     size_t at = pb_begin(s, 3);
//     pb_put_int(s, 4, 1);
//     pb_end(s, at);
// A byte is kept for the length, which nearly all fit in; the content of longer ones moves up.
size_t pb_begin(struct str *s, uint32_t field);
void pb_end_long(struct str *s, size_t at); // the slow half of it
static inline void pb_end(struct str *s, size_t at)
{
    size_t content = s->length - at - 1;
    if (content < 0x80 && !s->failed)
        s->text[at] = (char)content;
    else
        pb_end_long(s, at);
}

#endif
