// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the nearest of a list of known names.
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

// Edits (insert, delete, replace, swap of neighbours; case is ignored) that turn a into b. Names over 64 bytes count as
// far away (SIZE_MAX).
size_t suggest_distance(const char *a, const char *b);

// Keeps the best of the names it is shown: start with {.wanted = "..."}, offer each known name, then read `best`, which
// is NULL when nothing is near enough (more than a third of the letters wrong).
struct suggest {
    const char *wanted;
    const char *best;
    size_t distance;
};
void suggest_offer(struct suggest *s, const char *name);

#endif
