// SPDX-License-Identifier: Apache-2.0
#include "base/gunzip.h"

#include <string.h>
#include <sys/mman.h>
#include <zlib.h>

#define FIRST ((size_t)1 << 20)

bool gunzip_recognise(const void *bytes, size_t size)
{
    return size >= 2 && memcmp(bytes, "\x1f\x8b", 2) == 0;
}

static int more_room(struct gunzip *g, const char *name, struct error *err)
{
    size_t cap = g->cap ? 2 * g->cap : FIRST;
    void *p = cap < g->cap ? MAP_FAILED
              : g->cap     ? mremap(g->data, g->cap, cap, MREMAP_MAYMOVE)
                       : mmap(NULL, cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return error_set(err, ERR_MEMORY, name, "no memory to unpack more than %zu bytes", g->cap);
    g->data = p;
    g->cap = cap;
    return 0;
}

// zlib counts in 32 bits.
static unsigned part(size_t n)
{
    return n < (1u << 30) ? (unsigned)n : 1u << 30;
}

static int inflate_all(struct gunzip *g, z_stream *z, const uint8_t *bytes, size_t size, const char *name,
                       struct error *err)
{
    size_t at = 0;
    for (;;) {
        if (g->size == g->cap) {
            int rc = more_room(g, name, err);
            if (rc)
                return rc;
        }
        unsigned in = part(size - at), out = part(g->cap - g->size);
        z->next_in = (Bytef *)(uintptr_t)(bytes + at);
        z->avail_in = in;
        z->next_out = g->data + g->size;
        z->avail_out = out;
        int status = inflate(z, Z_NO_FLUSH);
        at += in - z->avail_in;
        g->size += out - z->avail_out;
        if (status == Z_STREAM_END) {
            if (!gunzip_recognise(bytes + at, size - at))
                return 0; // nothing, or padding
            if (inflateReset(z) == Z_OK)
                continue;
        }
        if (status == Z_MEM_ERROR)
            return error_set(err, ERR_MEMORY, name, "no memory to unpack it");
        if (status != Z_OK || (at == size && z->avail_out)) {
            g->damage =
                status == Z_OK || status == Z_BUF_ERROR ? "the gzip file ends early" : "the gzip file is damaged";
            g->damaged = at;
            return 0;
        }
    }
}

int gunzip(struct gunzip *g, const struct file_map *m, struct error *err)
{
    memset(g, 0, sizeof *g);
    z_stream z = {0};
    // Made before the guard: a file that shrinks jumps out of zlib, and its state is ours to free.
    if (inflateInit2(&z, 15 + 16) != Z_OK)
        return error_set(err, ERR_MEMORY, m->path, "no memory to unpack it");
    struct file_guard guard;
    int rc;
    if (FILE_GUARD(&guard, m)) {
        rc = file_guard_error(&guard, err);
    } else {
        rc = inflate_all(g, &z, m->data, m->size, m->path, err);
        file_guard_end(&guard);
    }
    inflateEnd(&z);
    return rc;
}

void gunzip_release(struct gunzip *g)
{
    if (g->data)
        munmap(g->data, g->cap);
    memset(g, 0, sizeof *g);
}
