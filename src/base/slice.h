// SPDX-License-Identifier: Apache-2.0
// Bytes that belong to somebody else, not terminated; mostly a text of a file. `data` may be NULL when `size` is 0.
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"

struct slice {
    const uint8_t *data;
    size_t size;
};

// Order of the bytes; where one begins the other, the shorter comes first. Like memcmp's result.
static inline int slice_compare(struct slice a, struct slice b)
{
    size_t n = a.size < b.size ? a.size : b.size;
    int c = n ? memcmp(a.data, b.data, n) : 0;
    return c ? c : (a.size > b.size) - (a.size < b.size);
}

static inline bool slice_equal(struct slice a, struct slice b)
{
    return a.size == b.size && (a.data == b.data || !a.size || memcmp(a.data, b.data, a.size) == 0);
}

static inline bool slice_starts_with(struct slice s, const char *text)
{
    size_t n = strlen(text);
    return s.size >= n && (!n || memcmp(s.data, text, n) == 0);
}

static inline bool slice_ends_with(struct slice s, const char *text)
{
    size_t n = strlen(text);
    return s.size >= n && (!n || memcmp(s.data + s.size - n, text, n) == 0);
}

static inline bool slice_contains(struct slice s, const char *text)
{
    return s.size && memmem(s.data, s.size, text, strlen(text)) != NULL;
}

static inline bool slice_is(struct slice s, const char *text)
{
    return s.size == strlen(text) && slice_starts_with(s, text);
}

// Puts a copy in its place, from the arena. ERR_MEMORY.
static inline int slice_copy(struct arena *arena, struct slice *s, struct error *err)
{
    const char *copy = s->size ? arena_strndup(arena, (const char *)s->data, s->size, err) : "";
    s->data = (const uint8_t *)copy;
    return copy ? 0 : ERR_MEMORY;
}

#endif
