// SPDX-License-Identifier: Apache-2.0
// Memory that lives as long as a phase: many allocations, one release.
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/error.h"

struct arena_block;
struct arena {
    struct arena_block *head; // newest block
    size_t used_bytes;        // handed out, without padding
    size_t limit_bytes;       // 0: none. A request beyond it fails with ERR_MEMORY.
};

void arena_init(struct arena *a);
void arena_release(struct arena *a); // frees everything; the arena can be used again

// n*size zeroed bytes aligned to 16, or NULL with `err` set (overflow, limit, no memory). n*size == 0 gives a valid
// pointer.
void *arena_alloc(struct arena *a, size_t n, size_t size, struct error *err);
// The same at an alignment (a power of two up to 4096).
void *arena_alloc_aligned(struct arena *a, size_t n, size_t size, size_t align, struct error *err);
// Grows an array of *cap elements to hold at least `need`: copies into a new place (the old one stays until release).
// Returns NULL with `err` set on failure, else the array to use from now on.
void *arena_grow(struct arena *a, void *array, size_t *cap, size_t need, size_t size, struct error *err);
char *arena_strdup(struct arena *a, const char *s, struct error *err);
char *arena_strndup(struct arena *a, const char *s, size_t n, struct error *err);
char *arena_printf(struct arena *a, struct error *err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#define arena_new(a, type, n, err) ((type *)arena_alloc((a), (size_t)(n), sizeof(type), (err)))

#endif
