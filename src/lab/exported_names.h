// SPDX-License-Identifier: Apache-2.0
// Which tensor of a file is which argument of a program: by the parts of their names, or by position.
#ifndef LAB_EXPORTED_NAMES_H
#define LAB_EXPORTED_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

#define NAMES_NONE SIZE_MAX

struct names {
    const char *const *list; // of what the file holds
    size_t n;
    const char *file, *kind; // for messages: its path; "tensor", "array"
    bool by_position;        // all are called 0, 1, ... or arr_0, arr_1, ...
    const char **taken;      // by which argument each was taken, NULL: by none
    struct arena *arena;
};

// `list` and what it points to outlive the names.
int names_open(struct names *names, const char *const *list, size_t n, const char *file, const char *kind,
               struct arena *arena, struct error *err);

// The entry for an argument: the one called `position` where the file is by position; else the one whose parts are the
// last of the argument's, the one with most of them. Parts are what stands between brackets, quotes, dots, slashes and
// blanks, and where that finds none, underscores too; the number that ends an instruction's name ("w.1") is then left
// out. *out is NAMES_NONE when there is none. ERR_INPUT for two that fit alike, and for one that another argument has
// taken.
int names_find(struct names *names, const char *argument, int64_t position, int index, size_t *out, struct error *err);

// ERR_INPUT: argument `index` is not in the file; what is, and what is called nearly so.
int names_missing(const struct names *names, const char *argument, int index, const char *shape, struct error *err);

// How many entries no argument took; the first of them in *first, which may be NULL.
size_t names_unused(const struct names *names, const char **first);

#endif
