// SPDX-License-Identifier: Apache-2.0
// The small text files of /proc and /sys, under a root that may be a recorded copy.
#ifndef BASE_SYSFILE_H
#define BASE_SYSFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

// Reads ROOT/PATH into `out` (a C string, cut at capacity - 1, trailing white space removed). False, and "" in `out`,
// when it cannot be read. The path is a format.
bool sysfile_read(const char *root, char *out, size_t capacity, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// The same for a file that holds one decimal number; -1 when it does not.
int64_t sysfile_int(const char *root, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// Appends a whole file (at most 16 MiB) to `out`; nothing when it cannot be read.
void sysfile_append(const char *root, struct str *out, const char *path);

// The value of the first line "KEY : value" or "KEY: value" in `text`, without surrounding white space. False, and ""
// in `out`, when there is none.
bool sysfile_field(const char *text, const char *key, char *out, size_t capacity);

// Kernel lists of numbers ("0-3,8,10-11"): membership, count, and the next member after `after` (start with -1; -1 at
// the end). A list that is not well-formed ends where it stops making sense.
bool cpulist_has(const char *list, int64_t cpu);
int64_t cpulist_count(const char *list);
int64_t cpulist_next(const char *list, int64_t after);

#endif
