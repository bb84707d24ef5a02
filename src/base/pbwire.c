// SPDX-License-Identifier: Apache-2.0
#include "base/pbwire.h"

#include <string.h>

static size_t varint_bytes(uint8_t out[10], uint64_t v)
{
    size_t n = 0;
    while (v >= 0x80) {
        out[n++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    out[n++] = (uint8_t)v;
    return n;
}

void pb_put_varint(struct str *s, uint64_t v)
{
    uint8_t bytes[10];
    // In place where there is room, the end of the text included: most of a message is varints.
    if (s->length + sizeof bytes < s->capacity) {
        s->length += varint_bytes((uint8_t *)s->text + s->length, v);
        s->text[s->length] = '\0';
        return;
    }
    size_t n = varint_bytes(bytes, v);
    str_add_n(s, bytes, n);
}

void pb_put_tag(struct str *s, uint32_t field, enum pb_wire wire)
{
    pb_put_varint(s, (uint64_t)field << 3 | (uint64_t)wire);
}

void pb_put_uint(struct str *s, uint32_t field, uint64_t v)
{
    pb_put_tag(s, field, PB_VARINT);
    pb_put_varint(s, v);
}

void pb_put_int(struct str *s, uint32_t field, int64_t v)
{
    pb_put_uint(s, field, (uint64_t)v);
}

void pb_put_bool(struct str *s, uint32_t field, bool v)
{
    pb_put_uint(s, field, v);
}

void pb_put_double(struct str *s, uint32_t field, double v)
{
    pb_put_tag(s, field, PB_FIXED64);
    str_add_n(s, &v, sizeof v);
}

void pb_put_float(struct str *s, uint32_t field, float v)
{
    pb_put_tag(s, field, PB_FIXED32);
    str_add_n(s, &v, sizeof v);
}

void pb_put_bytes(struct str *s, uint32_t field, const void *bytes, size_t n)
{
    pb_put_tag(s, field, PB_BYTES);
    pb_put_varint(s, n);
    str_add_n(s, bytes, n);
}

void pb_put_string(struct str *s, uint32_t field, const char *text)
{
    pb_put_bytes(s, field, text, strlen(text));
}

size_t pb_begin(struct str *s, uint32_t field)
{
    pb_put_tag(s, field, PB_BYTES);
    return s->length;
}

void pb_end(struct str *s, size_t at)
{
    if (s->failed)
        return;
    uint8_t prefix[10];
    size_t content = s->length - at, n = varint_bytes(prefix, content);
    str_add_n(s, prefix, n); // makes room; then the content moves up behind it
    if (s->failed)
        return;
    memmove(s->text + at + n, s->text + at, content);
    memcpy(s->text + at, prefix, n);
}
