// SPDX-License-Identifier: Apache-2.0
// Parts of files that the worker has mapped. Any thread of the plugin may read them at any time, so a file that is cut
// short cannot become an error object: the worker names the file on stderr and exits with WORKER_EXIT_FILE.
#ifndef WORKER_MAPPING_H
#define WORKER_MAPPING_H

#include <stddef.h>

#include "base/threads.h"
#include "worker/worker.h"

#define WORKER_EXIT_FILE 74
// A large page of the machines that have them: what several threads copy has more.
#define MAPPING_LARGE ((size_t)2 << 20)

// Installs the handler of SIGBUS. Once, before the plugin is loaded.
void mapping_watch(void);
// Maps [offset, offset+bytes) of fd read-only; `name` is copied. *data is the first byte (NULL when bytes is 0). The
// number of the mapping, or a negative error code: ERR_INPUT when the file ends before.
int mapping_open(int fd, size_t offset, size_t bytes, const char *name, const void **data, struct error *err);
// Parts of the file read one behind the other into memory of our own, aligned to a page: the file's pages are never
// resident here, and a file that ends before, now or while it is read, is ERR_INPUT. `bytes` is what the parts have
// together (ERR_USAGE when it is not) and not 0. `threads` may be NULL.
int mapping_copy(int fd, const struct worker_part *parts, size_t n, size_t bytes, const char *name,
                 struct threads *threads, const void **data, struct error *err);
void mapping_close(int mapping);

#endif
