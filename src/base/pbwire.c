// SPDX-License-Identifier: Apache-2.0
#include "base/pbwire.h"

#include <string.h>

void pb_put_uint(struct str *s, uint32_t field, uint64_t v)
{
    char *to = str_room(s, 20);
    if (to)
        str_use(s, (char *)pb_varint_at(pb_varint_at((uint8_t *)to, (uint64_t)field << 3 | PB_VARINT), v));
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
    char *to = n < SIZE_MAX - 20 ? str_room(s, n + 20) : NULL;
    if (!to) {
        s->failed = true;
        return;
    }
    uint8_t *at = pb_varint_at(pb_varint_at((uint8_t *)to, (uint64_t)field << 3 | PB_BYTES), n);
    if (n)
        memcpy(at, bytes, n);
    str_use(s, (char *)at + n);
}

void pb_put_string(struct str *s, uint32_t field, const char *text)
{
    pb_put_bytes(s, field, text, strlen(text));
}

size_t pb_begin(struct str *s, uint32_t field)
{
    pb_put_tag(s, field, PB_BYTES);
    size_t at = s->length;
    str_add_char(s, '\0');
    return at;
}

void pb_end_long(struct str *s, size_t at)
{
    if (s->failed)
        return;
    size_t content = s->length - at - 1, n = pb_varint_size(content);
    char *end = str_room(s, n - 1);
    if (!end)
        return;
    memmove(s->text + at + n, s->text + at + 1, content);
    (void)pb_varint_at((uint8_t *)s->text + at, content);
    str_use(s, end + n - 1);
}
