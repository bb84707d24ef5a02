// SPDX-License-Identifier: Apache-2.0
// gzip (RFC 1952), by zlib.
#ifndef BASE_GUNZIP_H
#define BASE_GUNZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"

bool gunzip_recognise(const void *bytes, size_t size);

// What a gzip file holds; all its members, one after the other.
struct gunzip {
    uint8_t *data; // pages of its own: they are taken as the data comes, whatever the file says of its length
    size_t size, cap;
    const char *damage; // NULL, or why it ends here: a static text
    size_t damaged;     // offset in the packed bytes
};

// Damage is no error: what came before it is there. ERR_MEMORY; ERR_INPUT when the file is cut short meanwhile. Release
// even after an error.
int gunzip(struct gunzip *g, const struct file_map *m, struct error *err);
void gunzip_release(struct gunzip *g);

#endif
