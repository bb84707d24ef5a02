// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>

#include "base/error.h"
#include "base/file.h"

// Lower-case hexadecimal SHA-256 (libcrypto).
int sha256_bytes(const void *bytes, size_t n, char hex[65], struct error *err);
// Of a mapped file, under a guard: a file cut short meanwhile is an error, not a crash. ERR_INTERRUPTED when a signal
// comes meanwhile: a checkpoint of many GB takes a while.
int sha256_map(const struct file_map *m, char hex[65], struct error *err);

// Of an open regular file of `bytes` bytes, read in small parts, so that it takes no memory; the file's position stays.
// `stop` (NULL: none) is read between the parts; when another thread has made it other than 0, the rest is not read.
// ERR_INPUT naming `where` when the file is shorter; ERR_INTERRUPTED as above, and when it was stopped.
int sha256_fd(int fd, size_t bytes, const char *where, const int *stop, char hex[65], struct error *err);

#endif
