// SPDX-License-Identifier: Apache-2.0
#include "trace/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"

struct packer {
    z_stream z;
    uint8_t out[1 << 16];
};

int sink_open(struct sink *s, const char *path, bool gzip, bool replace, struct error *err)
{
    *s = (struct sink){.fd = -1, .replace = replace};
    str_init(&s->path);
    str_init(&s->temporary);
    if (!replace && file_exists(path))
        return error_set(err, ERR_USAGE, path, "exists, and is only replaced under --force");
    if (dir_exists(path))
        return error_set(err, ERR_USAGE, path, "is a directory");
    str_add(&s->path, path);
    str_addf(&s->temporary, "%s.tmp-%ld", path, (long)getpid());
    s->buffer = malloc(SINK_BUFFER);
    s->gz = gzip ? calloc(1, sizeof *s->gz) : NULL;
    if (!s->buffer || (gzip && !s->gz) || str_check(&s->path, NULL) || str_check(&s->temporary, NULL))
        return error_set(err, ERR_MEMORY, path, "no memory to write it");
    // 15 + 16: the largest window, with the head and end of gzip. Level 6 is what gzip itself does.
    if (gzip && deflateInit2(&s->gz->z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(s->gz);
        s->gz = NULL;
        return error_set(err, ERR_MEMORY, path, "no memory to pack it");
    }
    s->fd = open(s->temporary.text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (s->fd < 0)
        return error_set(err, ERR_IO, path, "cannot be created: %s", strerror(errno));
    return 0;
}

static void write_out(struct sink *s, const uint8_t *bytes, size_t n)
{
    if (!s->rc && n)
        s->rc = fd_write_all(s->fd, bytes, n, s->path.text, &s->error);
}

static void pack(struct sink *s, const uint8_t *bytes, size_t n, int flush)
{
    z_stream *z = &s->gz->z;
    z->next_in = (Bytef *)(uintptr_t)bytes;
    z->avail_in = (uInt)n;
    do {
        z->next_out = s->gz->out;
        z->avail_out = sizeof s->gz->out;
        (void)deflate(z, flush); // cannot fail: the state is ours and there is room
        write_out(s, s->gz->out, sizeof s->gz->out - z->avail_out);
    } while (!s->rc && z->avail_out == 0);
}

static void pass_on(struct sink *s, const uint8_t *bytes, size_t n)
{
    s->written += n;
    if (!s->gz) {
        write_out(s, bytes, n);
        return;
    }
    for (size_t part; n; bytes += part, n -= part) { // zlib counts in 32 bits
        part = n < (size_t)1 << 30 ? n : (size_t)1 << 30;
        pack(s, bytes, part, Z_NO_FLUSH);
    }
}

void sink_flush(struct sink *s)
{
    pass_on(s, s->buffer, s->used);
    s->used = 0;
}

void sink_put(struct sink *s, const void *bytes, size_t n)
{
    const uint8_t *from = bytes;
    if (n > SINK_ROOM) { // not worth a copy
        sink_flush(s);
        pass_on(s, bytes, n);
        return;
    }
    while (n) {
        size_t part = n < SINK_ROOM ? n : SINK_ROOM;
        uint8_t *to = sink_room(s, part);
        memcpy(to, from, part);
        sink_end(s, to + part);
        from += part;
        n -= part;
    }
}

int sink_commit(struct sink *s, struct error *err)
{
    const char *path = s->path.text;
    sink_flush(s);
    if (s->gz)
        pack(s, NULL, 0, Z_FINISH);
    if (!s->rc && fsync(s->fd) != 0)
        s->rc = error_set(&s->error, ERR_IO, path, "cannot be synced: %s", strerror(errno));
    if (close(s->fd) != 0 && !s->rc)
        s->rc = error_set(&s->error, ERR_IO, path, "cannot be closed: %s", strerror(errno));
    s->fd = -1;
    // A link fails where a rename would replace what somebody else has put there meanwhile.
    if (!s->rc && s->replace && rename(s->temporary.text, path) != 0)
        s->rc = error_set(&s->error, ERR_IO, path, "cannot be renamed into place: %s", strerror(errno));
    if (!s->rc && !s->replace && link(s->temporary.text, path) != 0)
        s->rc = errno == EEXIST
                    ? error_set(&s->error, ERR_USAGE, path, "has appeared while it was made, and is not replaced")
                    : error_set(&s->error, ERR_IO, path, "cannot be linked into place: %s", strerror(errno));
    if (s->rc || !s->replace)
        unlink(s->temporary.text);
    str_release(&s->temporary); // nothing is left of it
    if (s->rc && err)
        *err = s->error;
    return s->rc;
}

void sink_abort(struct sink *s)
{
    if (s->fd >= 0) {
        close(s->fd);
        unlink(s->temporary.text);
    }
    if (s->gz)
        deflateEnd(&s->gz->z);
    free(s->gz);
    free(s->buffer);
    str_release(&s->path);
    str_release(&s->temporary);
    *s = (struct sink){.fd = -1};
}
