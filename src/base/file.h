// SPDX-License-Identifier: Apache-2.0
// Files: mapped for reading, written atomically.
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

// A regular file mapped read-only. `data` is NULL only for an empty file.
struct file_map {
    const uint8_t *data;
    size_t size;
    int fd;              // stays open: it can be handed to another process
    int64_t modified_ns; // when it was last written to, as of file_map_open
    char path[1024];
};

// Opens and maps; ERR_INPUT names the path and the reason (missing, a directory, a pipe, no permission).
int file_map_open(struct file_map *m, const char *path, struct error *err);
void file_map_close(struct file_map *m);
// The same of what is open already (a memfd): `fd` is taken over, also on failure; `name` stands for its path.
int file_map_adopt(struct file_map *m, int fd, size_t bytes, const char *name, struct error *err);
// ERR_INPUT when somebody has written to the file, or cut it, since it was opened.
int file_map_unchanged(const struct file_map *m, struct error *err);
// Gives the resident pages of [offset, offset+size) back to the page cache (they were copied elsewhere).
void file_map_forget(const struct file_map *m, size_t offset, size_t size);

// A mapped file that is cut short by somebody raises SIGBUS when it is read. Between FILE_GUARD and file_guard_end that
// becomes an error naming the file:
//     struct file_guard g;
//     if (FILE_GUARD(&g, map))
//         return file_guard_error(&g, err);  // arrives here again when the read fails
//     ... read ...
//     file_guard_end(&g);
// Guards nest per thread and hold for the calling thread only. Locals changed inside must be volatile to be used after.
struct file_guard {
    sigjmp_buf jump;
    const struct file_map *map;
    struct file_guard *outer;
};
#define FILE_GUARD(g, m) (file_guard_begin((g), (m)), sigsetjmp((g)->jump, 1))
void file_guard_begin(struct file_guard *g, const struct file_map *map);
void file_guard_end(struct file_guard *g);
int file_guard_error(struct file_guard *g, struct error *err);

// Reads a whole regular file of at most max_bytes into `out` (appended).
int file_read(struct str *out, const char *path, size_t max_bytes, struct error *err);
// The same of anything that can be opened; a pipe is waited for.
int file_read_stream(struct str *out, const char *path, size_t max_bytes, struct error *err);
// The same of what is open already, a pipe for example; `where` is for the message.
int fd_read_all(struct str *out, int fd, size_t max_bytes, const char *where, struct error *err);
// Writes all n bytes to `path`: a temporary file beside it, synced, then renamed over it. ERR_IO when the disk is full.
int file_write(const char *path, const void *bytes, size_t n, struct error *err);
// Whether file_write could begin: creates its temporary file and removes it again. For work that takes long and would
// only then find that its result has no place. ERR_IO as above.
int file_can_be_written(const char *path, struct error *err);
// Writes everything, through short writes and EINTR. `where` is for the message.
int fd_write_all(int fd, const void *bytes, size_t n, const char *where, struct error *err);
bool file_exists(const char *path);
bool dir_exists(const char *path);

#endif
