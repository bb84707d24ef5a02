// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/json.h"
#include "io/safetensors.h"
#include "record/tree.h"

#define ALIGNMENT 64u

struct safetensors_slot {
    const char *name;
    size_t bytes;
    size_t begin;   // of its data in the file
    size_t written; // so far
};

// The largest power of two up to ALIGNMENT that divides n (0 is divided by all).
static size_t alignment_of(size_t n)
{
    size_t low = n & (0 - n);
    return low == 0 || low > ALIGNMENT ? ALIGNMENT : low;
}

struct order {
    size_t alignment, index;
};

static int by_alignment(const void *a, const void *b)
{
    const struct order *x = a, *y = b;
    if (x->alignment != y->alignment)
        return x->alignment > y->alignment ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int check_entry(const struct safetensors_entry *e, const char *path, size_t *bytes, struct error *err)
{
    size_t elements, bits, bad;
    if (!dtype_info(e->dtype)->safetensors)
        return error_set(err, ERR_USAGE, path, "tensor \"%s\": safetensors has no type for %s", e->name,
                         dtype_name(e->dtype));
    if (strcmp(e->name, "__metadata__") == 0 || !utf8_valid(e->name, strlen(e->name), &bad))
        return error_set(err, ERR_USAGE, path, "\"%s\" cannot be the name of a tensor", e->name);
    if (!size_product(e->dims, e->rank, &elements) || !size_mul(elements, (size_t)dtype_bits(e->dtype), &bits) ||
        bits % 8)
        return error_set(err, ERR_USAGE, path, "tensor \"%s\": its shape does not make a whole number of bytes",
                         e->name);
    *bytes = bits / 8;
    return 0;
}

static int by_string(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names(const struct safetensors_writer *w, struct error *err)
{
    const char **names = malloc((w->count + 1) * sizeof *names);
    if (!names)
        return error_set(err, ERR_MEMORY, w->path, "no memory for %zu names", w->count);
    for (size_t i = 0; i < w->count; i++)
        names[i] = w->slots[i].name;
    qsort(names, w->count, sizeof *names, by_string);
    int rc = 0;
    for (size_t i = 1; i < w->count && !rc; i++) {
        if (strcmp(names[i - 1], names[i]) == 0)
            rc = error_set(err, ERR_USAGE, w->path, "two tensors have the name \"%s\"", names[i]);
    }
    free(names);
    return rc;
}

// Places the tensors from `begin` 0 on; the header's size is added when it is known.
static int place(struct safetensors_writer *w, struct order *order, struct error *err)
{
    size_t at = 0;
    for (size_t i = 0; i < w->count; i++)
        order[i] = (struct order){alignment_of(w->slots[i].bytes), i};
    qsort(order, w->count, sizeof *order, by_alignment);
    for (size_t i = 0; i < w->count; i++) {
        struct safetensors_slot *s = &w->slots[order[i].index];
        s->begin = at;
        if (at % ALIGNMENT == 0)
            w->aligned_bytes += s->bytes;
        if (!size_add(at, s->bytes, &at) || at > INT64_MAX / 2)
            return error_set(err, ERR_USAGE, w->path, "the tensors are larger than a file can be");
    }
    w->data_bytes = at;
    return 0;
}

static void header_json(struct str *out, const struct safetensors_writer *w, const struct safetensors_entry *entries,
                        const struct order *order, const struct checkpoint_metadata *metadata, size_t metadata_count,
                        struct jw *j)
{
    jw_init(j, out, true);
    jw_object(j);
    if (metadata_count) {
        jw_key(j, "__metadata__");
        jw_object(j);
        for (size_t i = 0; i < metadata_count; i++)
            jw_kv_string(j, metadata[i].key, metadata[i].value);
        jw_object_end(j);
    }
    for (size_t i = 0; i < w->count; i++) {
        const struct safetensors_entry *e = &entries[order[i].index];
        const struct safetensors_slot *s = &w->slots[order[i].index];
        jw_key(j, e->name);
        jw_object(j);
        jw_kv_string(j, "dtype", dtype_info(e->dtype)->safetensors);
        jw_key(j, "shape");
        jw_array(j);
        for (int d = 0; d < e->rank; d++)
            jw_int(j, e->dims[d]);
        jw_array_end(j);
        jw_key(j, "data_offsets");
        jw_array(j);
        jw_uint(j, s->begin);
        jw_uint(j, s->begin + s->bytes);
        jw_array_end(j);
        jw_object_end(j);
    }
    jw_object_end(j);
}

static int write_header(struct safetensors_writer *w, const struct safetensors_entry *entries,
                        const struct order *order, const struct checkpoint_metadata *metadata, size_t metadata_count,
                        struct error *err)
{
    struct str *text = &w->header;
    struct jw j;
    header_json(text, w, entries, order, metadata, metadata_count, &j);
    int rc = jw_finish(&j, err);
    while (!rc && !text->failed && (8 + text->length) % ALIGNMENT)
        str_add_char(text, ' ');
    rc = rc ? rc : str_check(text, err);
    if (!rc && text->length > SAFETENSORS_MAX_HEADER)
        rc = error_set(err, ERR_USAGE, w->path, "the names make a header of %zu bytes, the format allows %u",
                       text->length, SAFETENSORS_MAX_HEADER);
    if (!rc) {
        uint64_t n = text->length;
        rc = fd_write_all(w->fd, &n, sizeof n, w->path, err);
    }
    if (!rc)
        rc = fd_write_all(w->fd, text->text, text->length, w->path, err);
    for (size_t i = 0; i < w->count && !rc; i++)
        w->slots[i].begin += 8 + text->length;
    return rc;
}

// PATH.partial-PID, or PATH.partial-PID-2, ... where somebody with the same PID was killed before.
static int create(struct safetensors_writer *w, struct error *err)
{
    for (int i = 1; w->fd < 0 && i < 1000; i++) {
        w->temporary = i == 1 ? arena_printf(&w->arena, err, "%s.partial-%ld", w->path, (long)getpid())
                              : arena_printf(&w->arena, err, "%s.partial-%ld-%d", w->path, (long)getpid(), i);
        if (!w->temporary)
            return ERR_MEMORY;
        w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd < 0 && errno != EEXIST)
            break;
    }
    return w->fd < 0 ? error_set(err, ERR_IO, w->path, "cannot be created: %s", strerror(errno)) : 0;
}

int safetensors_writer_begin(struct safetensors_writer *w, const char *path, const struct safetensors_entry *entries,
                             size_t count, const struct checkpoint_metadata *metadata, size_t metadata_count,
                             struct error *err)
{
    memset(w, 0, sizeof *w);
    w->fd = -1;
    w->count = count;
    arena_init(&w->arena);
    struct order *order = arena_new(&w->arena, struct order, count, err);
    w->slots = arena_new(&w->arena, struct safetensors_slot, count, err);
    w->path = arena_strdup(&w->arena, path, err);
    str_init(&w->header);
    int rc = order && w->slots && w->path ? 0 : ERR_MEMORY;
    for (size_t i = 0; i < count && !rc; i++) {
        rc = check_entry(&entries[i], path, &w->slots[i].bytes, err);
        w->slots[i].name = arena_strdup(&w->arena, entries[i].name, err);
        rc = rc || w->slots[i].name ? rc : ERR_MEMORY;
    }
    if (!rc)
        rc = check_names(w, err);
    if (!rc)
        rc = place(w, order, err);
    if (!rc)
        rc = create(w, err);
    if (!rc)
        rc = write_header(w, entries, order, metadata, metadata_count, err);
    if (rc)
        safetensors_writer_abort(w);
    return rc;
}

static int write_at(const struct safetensors_writer *w, const char *what, const void *bytes, size_t n, size_t at,
                    struct error *err)
{
    const uint8_t *from = bytes;
    while (n) {
        ssize_t k = pwrite(w->fd, from, n, (off_t)at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return error_set(err, ERR_IO, w->path, "%s cannot be written: %s", what, strerror(errno));
        from += k;
        at += (size_t)k;
        n -= (size_t)k;
    }
    return 0;
}

int safetensors_writer_put_at(struct safetensors_writer *w, size_t index, size_t offset, const void *bytes, size_t n,
                              struct error *err)
{
    if (index >= w->count || offset > w->slots[index].bytes || n > w->slots[index].bytes - offset)
        return error_set(err, ERR_INTERNAL, w->path, "%zu bytes too many for tensor %zu", n, index);
    struct safetensors_slot *s = &w->slots[index];
    int rc = write_at(w, "a tensor", bytes, n, s->begin + offset, err);
    if (rc)
        return rc;
    __atomic_fetch_add(&s->written, n, __ATOMIC_RELAXED);
    return 0;
}

int safetensors_writer_put(struct safetensors_writer *w, size_t index, const void *bytes, size_t n, struct error *err)
{
    return safetensors_writer_put_at(w, index, index < w->count ? w->slots[index].written : 0, bytes, n, err);
}

void safetensors_writer_flush(const struct safetensors_writer *w, size_t index)
{
    const struct safetensors_slot *s = &w->slots[index];
    if (s->bytes) // a hint: what it cannot do is done at the end
        sync_file_range(w->fd, (off_t)s->begin, (off_t)s->bytes, SYNC_FILE_RANGE_WRITE);
}

int safetensors_writer_patch(struct safetensors_writer *w, const char *placeholder, const char *text, struct error *err)
{
    size_t n = strlen(placeholder);
    const char *at = strstr(str_text(&w->header), placeholder);
    if (!at || strlen(text) != n || strstr(at + 1, placeholder))
        return error_set(err, ERR_INTERNAL, w->path, "no place for %s in its header", text);
    return write_at(w, "the header", text, n, 8 + (size_t)(at - w->header.text), err);
}

static void finish(struct safetensors_writer *w)
{
    str_release(&w->header);
    arena_release(&w->arena);
}

// Renames within the folder that holds both, without replacing, and syncs it.
static int rename_new(const struct safetensors_writer *w, struct error *err)
{
    const char *slash = strrchr(w->path, '/');
    size_t folder = slash ? (size_t)(slash - w->path) + 1 : 0;
    char *name = folder ? strndup(w->path, folder) : strdup(".");
    int fd = name ? open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int rc = 0;
    if (fd < 0)
        rc = error_set(err, ERR_IO, w->path, "its folder cannot be opened: %s", strerror(errno));
    else if (tree_rename_new(fd, w->temporary + folder, w->path + folder) != 0)
        rc = errno == EEXIST ? error_set(err, ERR_USAGE, w->path, "has appeared while it was made, and is not replaced")
                             : error_set(err, ERR_IO, w->path, "cannot be renamed into place: %s", strerror(errno));
    if (rc)
        unlink(w->temporary);
    else if (!tree_sync_folder(fd))
        rc = error_set(err, ERR_IO, w->path, "is in place, but its folder cannot be synced: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    free(name);
    return rc;
}

static int rename_over(const struct safetensors_writer *w, struct error *err)
{
    if (rename(w->temporary, w->path) == 0)
        return 0;
    int rc = error_set(err, ERR_IO, w->path, "cannot be renamed into place: %s", strerror(errno));
    unlink(w->temporary);
    return rc;
}

static int commit(struct safetensors_writer *w, int (*rename_it)(const struct safetensors_writer *, struct error *),
                  struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < w->count && !rc; i++) {
        const struct safetensors_slot *s = &w->slots[i];
        if (s->written != s->bytes)
            rc = error_set(err, ERR_INTERNAL, w->path, "tensor \"%s\" got %zu of its %zu bytes", s->name, s->written,
                           s->bytes);
    }
    if (!rc && fsync(w->fd) != 0)
        rc = error_set(err, ERR_IO, w->path, "cannot be synced: %s", strerror(errno));
    int closed = close(w->fd);
    w->fd = -1;
    if (!rc && closed != 0)
        rc = error_set(err, ERR_IO, w->path, "cannot be closed: %s", strerror(errno));
    if (rc)
        unlink(w->temporary);
    else
        rc = rename_it(w, err);
    finish(w);
    return rc;
}

int safetensors_writer_commit(struct safetensors_writer *w, struct error *err)
{
    return commit(w, rename_over, err);
}

int safetensors_writer_commit_new(struct safetensors_writer *w, struct error *err)
{
    return commit(w, rename_new, err);
}

void safetensors_writer_abort(struct safetensors_writer *w)
{
    if (w->fd >= 0 && w->temporary) {
        close(w->fd);
        unlink(w->temporary);
    }
    w->fd = -1;
    finish(w);
}
