// SPDX-License-Identifier: Apache-2.0
#include "io/random_checkpoint.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/interrupt.h"
#include "base/str.h"
#include "base/threads.h"

#define ALIGN      64u
#define STEP       0x9e3779b97f4a7c15u
#define PART_WORDS ((size_t)1 << 16) // written at once: 512 KiB, which stay in the cache

static uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t name_hash(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (const char *p = name; *p; p++)
        h = (h ^ (uint8_t)*p) * 0x100000001b3u;
    return h;
}

struct filling {
    int fd;
    size_t offset, bytes; // of the tensor
    uint64_t key;
    float middle, reach;
    atomic_int failed; // an errno
};

// To the nearest bf16, ties to even; values are far from the ends of the range.
static inline uint16_t narrow(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static void make_words(const struct filling *f, uint64_t first, size_t n, uint16_t *out)
{
    for (size_t w = 0; w < n; w++) {
        uint64_t x = mixed(f->key + (first + w + 1) * STEP);
        for (int k = 0; k < 4; k++) {
            float u = ((float)(int32_t)((x >> (16 * k)) & 0xffff) + 0.5F) / 32768.0F - 1.0F;
            out[4 * w + (size_t)k] = narrow(f->middle + f->reach * u);
        }
    }
}

static void fill_words(void *context, size_t from, size_t to)
{
    struct filling *f = context;
    uint16_t *part = malloc(PART_WORDS * 8);
    if (!part) {
        atomic_store(&f->failed, ENOMEM);
        return;
    }
    for (size_t at = from; at < to && !atomic_load(&f->failed); at += PART_WORDS) {
        size_t n = to - at < PART_WORDS ? to - at : PART_WORDS, begin = at * 8;
        size_t bytes = f->bytes - begin < n * 8 ? f->bytes - begin : n * 8;
        make_words(f, at, n, part);
        for (size_t done = 0; done < bytes;) {
            ssize_t k = pwrite(f->fd, (uint8_t *)part + done, bytes - done, (off_t)(f->offset + begin + done));
            if (k < 0 && errno == EINTR)
                continue;
            if (k <= 0) {
                atomic_store(&f->failed, k < 0 ? errno : ENOSPC);
                break;
            }
            done += (size_t)k;
        }
    }
    free(part);
}

static void distribution(const struct random_tensor *t, size_t elements, struct filling *f)
{
    size_t fan_in = elements / (size_t)t->dims[0];
    f->middle = 0;
    if (t->rank > 1)
        f->reach = (float)sqrt(3.0 / (double)fan_in);
    else if (str_ends_with(t->name, "running_var"))
        f->middle = 1, f->reach = 0.5F;
    else if (str_ends_with(t->name, "running_mean"))
        f->reach = 0.35F;
    else if (str_ends_with(t->name, "bias"))
        f->reach = 0.17F;
    else
        f->middle = 1, f->reach = 0.17F;
}

static int place(const struct random_tensor *t, size_t *at, struct tensor_view *v, struct error *err)
{
    size_t padding = (ALIGN - *at % ALIGN) % ALIGN;
    memset(v, 0, sizeof *v);
    v->name = t->name;
    v->dtype = DT_BF16;
    v->rank = t->rank;
    memcpy(v->dims, t->dims, sizeof v->dims);
    if (!size_product(t->dims, t->rank, &v->elements) || !v->elements || !size_mul(v->elements, 2, &v->bytes) ||
        !size_add(*at, padding, &v->offset) || !size_add(v->offset, v->bytes, at) || *at > INT64_MAX / 2)
        return error_set(err, ERR_USAGE, t->name, "is too large to be made");
    return 0;
}

int random_checkpoint_bytes(const struct random_tensor *tensors, size_t n, size_t *bytes, struct error *err)
{
    struct tensor_view v;
    int rc = 0;
    *bytes = 0;
    for (size_t i = 0; i < n && !rc; i++)
        rc = place(&tensors[i], bytes, &v, err);
    return rc;
}

static int fill(int fd, const struct random_tensor *tensors, const struct tensor_view *views, size_t n, uint64_t seed,
                struct error *err)
{
    struct threads *pool;
    int rc = threads_new(&pool, 0, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < n && !rc && !(rc = interrupt_check("making random weights", err)); i++) {
        struct filling f = {.fd = fd, .offset = views[i].offset, .bytes = views[i].bytes};
        f.key = mixed(seed + name_hash(tensors[i].name));
        distribution(&tensors[i], views[i].elements, &f);
        threads_for(pool, (views[i].elements + 3) / 4, PART_WORDS, fill_words, &f);
        int failed = atomic_load(&f.failed);
        if (failed)
            rc = error_set(err, ERR_MEMORY, tensors[i].name, "cannot be made: %s", strerror(failed));
    }
    threads_free(pool);
    return rc;
}

int random_checkpoint(struct checkpoint *c, const struct random_tensor *tensors, size_t n, uint64_t seed,
                      struct error *err)
{
    size_t bytes, file;
    int rc = checkpoint_begin(c, err), fd = -1;
    struct tensor_view *views = rc ? NULL : arena_new(&c->arena, struct tensor_view, n, err);
    if (!rc)
        rc = views ? 0 : ERR_MEMORY;
    bytes = 0;
    for (size_t i = 0; i < n && !rc; i++)
        rc = place(&tensors[i], &bytes, &views[i], err);
    if (!rc) {
        fd = memfd_create("random weights", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
            rc = error_set(err, ERR_MEMORY, NULL, "no %zu bytes of shared memory: %s", bytes, strerror(errno));
    }
    if (!rc)
        rc = fill(fd, tensors, views, n, seed, err);
    if (rc && fd >= 0)
        close(fd);
    if (!rc)
        rc = checkpoint_add_memory(c, fd, bytes, "random weights", &file, err);
    if (!rc)
        rc = checkpoint_replace(c, views, n, err);
    if (rc)
        checkpoint_close(c);
    return rc;
}
