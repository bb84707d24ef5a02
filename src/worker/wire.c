// SPDX-License-Identifier: Apache-2.0
#include "worker/wire.h"

#include <string.h>

#define NO_TEXT UINT32_MAX

void wire_write(struct wire *w, struct str *out)
{
    *w = (struct wire){.writing = true, .out = out};
}

void wire_read(struct wire *w, const void *bytes, size_t n, struct arena *arena)
{
    *w = (struct wire){.arena = arena};
    cursor_init(&w->in, bytes, n);
}

bool wire_done(const struct wire *w)
{
    return !w->failed && (w->writing ? !w->out->failed : cursor_left(&w->in) == 0);
}

// The next n bytes to or from `v`, zero after a failure.
static void fixed(struct wire *w, void *v, size_t n)
{
    if (w->writing) {
        str_add_n(w->out, v, n);
        return;
    }
    const uint8_t *p = w->failed ? NULL : cursor_take(&w->in, n);
    if (p)
        memcpy(v, p, n);
    else {
        memset(v, 0, n);
        w->failed = true;
    }
}

void wire_u32(struct wire *w, uint32_t *v)
{
    fixed(w, v, sizeof *v);
}

void wire_i32(struct wire *w, int *v)
{
    fixed(w, v, sizeof *v);
}

void wire_u64(struct wire *w, uint64_t *v)
{
    fixed(w, v, sizeof *v);
}

void wire_i64(struct wire *w, int64_t *v)
{
    fixed(w, v, sizeof *v);
}

void wire_size(struct wire *w, size_t *v)
{
    uint64_t u = w->writing ? *v : 0;
    wire_u64(w, &u);
    if (!w->writing)
        *v = (size_t)u;
}

void wire_f64(struct wire *w, double *v)
{
    fixed(w, v, sizeof *v);
}

void wire_bool(struct wire *w, bool *v)
{
    uint8_t byte = w->writing && *v;
    fixed(w, &byte, 1);
    if (w->writing)
        return;
    w->failed |= byte > 1;
    *v = byte == 1;
}

void wire_text(struct wire *w, const char **s)
{
    if (w->writing) {
        size_t n = *s ? strlen(*s) : 0;
        uint32_t length = *s ? (uint32_t)n : NO_TEXT;
        w->failed |= n >= NO_TEXT;
        wire_u32(w, &length);
        if (*s)
            str_add_n(w->out, *s, n + 1);
        return;
    }
    *s = NULL;
    uint32_t length;
    wire_u32(w, &length);
    if (w->failed || length == NO_TEXT)
        return;
    const uint8_t *p = cursor_take(&w->in, (size_t)length + 1);
    if (p && memchr(p, 0, (size_t)length + 1) == p + length)
        *s = (const char *)p;
    else
        w->failed = true;
}

void wire_bytes(struct wire *w, const void **p, size_t *n)
{
    wire_size(w, n);
    if (w->writing) {
        if (*n)
            str_add_n(w->out, *p, *n);
        str_add_char(w->out, 0);
        return;
    }
    *p = NULL;
    size_t with_end;
    const uint8_t *at = w->failed || !size_add(*n, 1, &with_end) ? NULL : cursor_take(&w->in, with_end);
    if (!at || at[*n]) {
        w->failed = true;
        *n = 0;
    } else if (*n)
        *p = at;
}

void wire_array(struct wire *w, void **items, size_t *n, size_t max, size_t size, wire_fn *fn)
{
    uint32_t count = w->writing ? (uint32_t)*n : 0;
    w->failed |= w->writing && *n > max;
    wire_u32(w, &count);
    if (!w->writing) {
        *items = NULL;
        *n = 0;
        if (count > max || count > cursor_left(&w->in))
            w->failed = true;
        if (w->failed || !count)
            return;
        *items = arena_alloc(w->arena, count, size, NULL);
        if (!*items) {
            w->failed = true;
            return;
        }
        *n = count;
    }
    for (size_t i = 0; i < count && !w->failed; i++)
        fn(w, (char *)*items + i * size);
    if (w->failed && !w->writing)
        *n = 0;
}

void wire_i32_element(struct wire *w, void *v)
{
    wire_i32(w, v);
}

void wire_u64_element(struct wire *w, void *v)
{
    wire_u64(w, v);
}
