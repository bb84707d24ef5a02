// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hugepages.h"

#define BLOCK_BYTES ((size_t)64 * 1024)

struct arena_block {
    struct arena_block *next;
    size_t size, used; // bytes behind this header
};

void arena_init(struct arena *a)
{
    memset(a, 0, sizeof *a);
}

void arena_release(struct arena *a)
{
    for (struct arena_block *b = a->head, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    a->head = NULL;
    a->used_bytes = 0;
}

static void *block_take(struct arena_block *b, size_t bytes, size_t align)
{
    uintptr_t base = (uintptr_t)(b + 1);
    size_t at = size_align(base + b->used, align) - base;
    if (at > b->size || bytes > b->size - at)
        return NULL;
    b->used = at + bytes;
    return (void *)(base + at);
}

void *arena_alloc_aligned(struct arena *a, size_t n, size_t size, size_t align, struct error *err)
{
    size_t bytes, total;
    if (!size_mul(n, size, &bytes) || !size_add(bytes, align + sizeof(struct arena_block), &total)) {
        error_set(err, ERR_MEMORY, NULL, "a request for %zu x %zu bytes overflows", n, size);
        return NULL;
    }
    if (a->limit_bytes && (bytes > a->limit_bytes || a->used_bytes > a->limit_bytes - bytes)) {
        error_set(err, ERR_MEMORY, NULL, "the limit of %zu bytes for this phase is reached", a->limit_bytes);
        return NULL;
    }
    void *p = a->head ? block_take(a->head, bytes, align) : NULL;
    bool fresh = false;
    if (!p) {
        size_t block = bytes + align > BLOCK_BYTES / 4 ? bytes + align : BLOCK_BYTES;
        // Memory that is fresh from the system is zero already: calloc knows, and does not touch it.
        struct arena_block *b = block == BLOCK_BYTES ? malloc(sizeof *b + block) : calloc(1, sizeof *b + block);
        if (!b) {
            error_set(err, ERR_MEMORY, NULL, "no memory for %zu bytes", bytes);
            return NULL;
        }
        b->size = block;
        b->used = 0;
        want_huge_pages(b, sizeof *b + block);
        // A large block goes behind the current one, so that small allocations go on filling that.
        if (a->head && block != BLOCK_BYTES) {
            b->next = a->head->next;
            a->head->next = b;
        } else {
            b->next = a->head;
            a->head = b;
        }
        p = block_take(b, bytes, align);
        fresh = block != BLOCK_BYTES;
    }
    a->used_bytes += bytes;
    if (!fresh)
        memset(p, 0, bytes);
    return p;
}

void *arena_alloc(struct arena *a, size_t n, size_t size, struct error *err)
{
    return arena_alloc_aligned(a, n, size, 16, err);
}

void *arena_grow(struct arena *a, void *array, size_t *cap, size_t need, size_t size, struct error *err)
{
    if (need <= *cap)
        return array;
    size_t want = *cap < 8 ? 8 : *cap * 2;
    if (want < need)
        want = need;
    void *p = arena_alloc(a, want, size, err);
    if (!p)
        return NULL;
    if (*cap)
        memcpy(p, array, *cap * size);
    *cap = want;
    return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t n, struct error *err)
{
    if (n == SIZE_MAX) {
        error_set(err, ERR_MEMORY, NULL, "a string of %zu bytes overflows", n);
        return NULL;
    }
    char *p = arena_alloc(a, n + 1, 1, err);
    if (p && n)
        memcpy(p, s, n);
    return p;
}

char *arena_strdup(struct arena *a, const char *s, struct error *err)
{
    return arena_strndup(a, s, strlen(s), err);
}

char *arena_printf(struct arena *a, struct error *err, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1, 1, err);
    if (p)
        vsnprintf(p, (size_t)n + 1, fmt, again);
    else if (n < 0)
        error_set(err, ERR_INTERNAL, NULL, "a format could not be printed");
    va_end(again);
    return p;
}
