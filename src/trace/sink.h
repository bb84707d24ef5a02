// SPDX-License-Identifier: Apache-2.0
// A large file that is written from front to back, packed by gzip or not: beside its place until it is whole, then put
// there at once. An error on the way is kept and comes out of sink_commit, so that writers need not look at each step.
#ifndef TRACE_SINK_H
#define TRACE_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"

#define SINK_ROOM   65536 // what sink_room can give at most
#define SINK_BUFFER ((size_t)1 << 20)

struct sink {
    struct str path, temporary;
    int fd;
    bool replace;
    uint8_t *buffer; // malloc'd
    size_t used;
    uint64_t written;  // bytes before packing
    struct packer *gz; // NULL: not packed
    int rc;
    struct error error; // the first one
};

// ERR_USAGE when the path is taken and `replace` is false; ERR_IO, ERR_MEMORY. Abort or commit it, also after an error.
int sink_open(struct sink *s, const char *path, bool gzip, bool replace, struct error *err);
void sink_flush(struct sink *s);

// Room for n <= SINK_ROOM bytes at the returned place; sink_end takes where the bytes written there end.
static inline uint8_t *sink_room(struct sink *s, size_t n)
{
    if (SINK_BUFFER - s->used < n)
        sink_flush(s);
    return s->buffer + s->used;
}
static inline void sink_end(struct sink *s, const uint8_t *end)
{
    s->used = (size_t)(end - s->buffer);
}

void sink_put(struct sink *s, const void *bytes, size_t n);
static inline void sink_text(struct sink *s, const char *text)
{
    sink_put(s, text, strlen(text));
}

// Puts the file in its place. The first error of all: ERR_IO (a full disk), ERR_USAGE when somebody else put one there.
int sink_commit(struct sink *s, struct error *err);
// Leaves nothing behind. May follow sink_commit.
void sink_abort(struct sink *s);

#endif
