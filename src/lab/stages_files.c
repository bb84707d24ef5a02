// SPDX-License-Identifier: Apache-2.0
// The files of the weights: what of them is in memory, and how fast the disk gives them.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lab/stages_part.h"

#define DISK_BYTES ((size_t)1 << 30) // read at most: enough that a disk's own cache is a small part of it
#define DISK_BLOCK ((size_t)8 << 20)

// Whether the kernel says which pages of a file are there: only to who owns the file, or may write to it.
static bool tells(const struct file_map *f)
{
    return access(f->path, W_OK) == 0;
}

static int count_pages(struct stages_cache *c, const struct file_map *f, struct error *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = (f->size + page - 1) / page;
    unsigned char *there = malloc(n + 1);
    int64_t in = 0;
    if (!there)
        return error_set(err, ERR_MEMORY, f->path, "no memory to count its pages");
    c->bytes += (int64_t)f->size;
    c->known = c->known && tells(f) && mincore((void *)(uintptr_t)f->data, f->size, there) == 0;
    for (size_t i = 0; i < n && c->known; i++)
        in += there[i] & 1 ? (int64_t)page : 0;
    c->in_page += in < (int64_t)f->size ? in : (int64_t)f->size; // the last page is not a whole one
    free(there);
    return 0;
}

int stages_look_at_files(const struct stages *s, bool forget, struct stages_cache *c, struct error *err)
{
    struct klein_weights w;
    int rc = klein_weights_open(&w, &s->options->klein.weights, err);
    *c = (struct stages_cache){.known = !s->random,
                               .why = s->random ? "the weights are made in memory"
                                                : "the kernel does not say it of files that belong to others"};
    for (int i = 0; i < FLUX2_COMPONENTS && !rc && !s->random; i++) {
        if (forget)
            klein_weights_chill(&w, (enum flux2_component)i);
        for (size_t f = 0; f < w.checkpoints[i].file_count && !rc; f++)
            rc = count_pages(c, &w.checkpoints[i].files[f], err);
    }
    klein_weights_close(&w);
    return rc;
}

static int read_file(struct stages_disk *d, const struct file_map *f, struct error *err)
{
    char *block = malloc(DISK_BLOCK);
    if (!block)
        return error_set(err, ERR_MEMORY, f->path, "no memory to read it");
    ssize_t got = 1;
    uint64_t start = clock_ns();
    for (size_t at = 0; at < f->size && at < DISK_BYTES && got > 0; at += got > 0 ? (size_t)got : 0) {
        got = pread(f->fd, block, DISK_BLOCK, (off_t)at);
        d->bytes += got > 0 ? (double)got : 0;
    }
    d->bytes_per_s = d->bytes / ((double)(clock_ns() - start) * 1e-9);
    d->done = got > 0;
    d->why = got > 0 ? NULL : "the file could not be read";
    free(block);
    return 0;
}

int stages_read_disk(struct stages *s, struct error *err)
{
    struct klein_weights w;
    struct stages_cache left = {.known = true};
    struct stages_disk *d = &s->disk;
    if (s->random) {
        d->why = "the weights are made in memory";
        return 0;
    }
    int rc = klein_weights_open(&w, &s->options->klein.weights, err);
    if (!rc)
        klein_weights_chill(&w, FLUX2_DIT);
    const struct file_map *f = rc ? NULL : &w.checkpoints[FLUX2_DIT].files[0];
    if (f)
        rc = count_pages(&left, f, err);
    if (f && !rc)
        rc = read_file(d, f, err);
    d->was_cached = left.in_page * 10 > left.bytes;
    klein_weights_close(&w);
    return rc;
}
