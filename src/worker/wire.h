// SPDX-License-Identifier: Apache-2.0
// The encoding of message bodies: fixed-size little-endian fields in a fixed order. One function describes a message
// and serves both directions, so the two sides cannot disagree:
//     void msg_free(struct wire *w, struct msg_free *m) { wire_i32(w, &m->buffer); }
// Reading never leaves the bytes; what does not fit sets `failed`, and the values read are then zero.
#ifndef WORKER_WIRE_H
#define WORKER_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/str.h"

struct wire {
    bool writing, failed;
    struct str *out;     // writing: appended to
    struct cursor in;    // reading
    struct arena *arena; // reading: arrays are made here; texts and bytes point into what is read
};

void wire_write(struct wire *w, struct str *out);
void wire_read(struct wire *w, const void *bytes, size_t n, struct arena *arena);
// Reading: true when everything fitted and nothing is left over. Writing: true when every append worked.
bool wire_done(const struct wire *w);

void wire_u32(struct wire *w, uint32_t *v);
void wire_i32(struct wire *w, int *v);
void wire_u64(struct wire *w, uint64_t *v);
void wire_i64(struct wire *w, int64_t *v);
void wire_size(struct wire *w, size_t *v); // as u64
void wire_f64(struct wire *w, double *v);
void wire_bool(struct wire *w, bool *v); // one byte, 0 or 1
// A C string, or NULL. Holds no zero byte.
void wire_text(struct wire *w, const char **s);
// n bytes followed by a zero byte that is not counted; *p is NULL when n is 0.
void wire_bytes(struct wire *w, const void **p, size_t *n);

// An array of at most `max` elements: the count, then each element by `fn`. Writing reads *items and *n; reading makes
// the array (NULL when empty). Every element takes at least one byte, so a count beyond what is left is refused at
// once.
typedef void wire_fn(struct wire *w, void *element);
void wire_array(struct wire *w, void **items, size_t *n, size_t max, size_t size, wire_fn *fn);
// The common element types, for wire_array.
void wire_i32_element(struct wire *w, void *v);
void wire_u64_element(struct wire *w, void *v);

#endif
