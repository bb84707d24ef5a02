// SPDX-License-Identifier: Apache-2.0
// The members of a zip archive in memory, as its central directory names them; stored ones and deflated ones, zip64
// too.
#ifndef IO_ZIP_H
#define IO_ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

struct zip_member {
    const char *name;    // in the arena: any characters but NUL
    const uint8_t *data; // as it lies in the archive
    size_t offset;       // of data in the archive
    size_t packed, size; // bytes of data, and of what it holds
    uint32_t crc;        // of what it holds
    bool deflated;       // else stored: packed == size
};

struct zip {
    struct zip_member *members; // in the order of the directory
    size_t count;
};

bool zip_recognise(const void *bytes, size_t size);

// Reads the directory and checks every member against its own header: both must agree on its name and method, its data
// must lie inside the archive and overlap no other, and be no smaller than deflate can make it. ERR_INPUT names `path`,
// the member and its offset: an archive that is cut, encrypted, in parts, or packed in another way.
int zip_open(struct zip *z, const void *bytes, size_t size, const char *path, struct arena *arena, struct error *err);

// Unpacks the first n bytes (n <= m->size) into dst. ERR_INPUT where the data is damaged; where all of it is asked for,
// also where it does not end there, or its checksum is another. What unpacking needs is taken from `scratch` (40 KB).
int zip_read(const struct zip_member *m, void *dst, size_t n, const char *path, struct arena *scratch,
             struct error *err);

#endif
