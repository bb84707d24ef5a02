// SPDX-License-Identifier: Apache-2.0
// Numbers for byte strings, the same for the same bytes of the same kind.
#ifndef TRACE_TIMELINE_TEXTS_H
#define TRACE_TIMELINE_TEXTS_H

#include <stdbool.h>

#include "base/error.h"
#include "base/pbread.h"

struct timeline_text {
    struct slice bytes; // not a copy
    uint64_t kind;
    uint32_t number; // the caller's
};

struct timeline_texts {
    struct timeline_text *items; // malloc'd, like the slots
    size_t n, cap;
    uint32_t *slots;
    size_t n_slots;
    uint64_t secret;
};

void timeline_texts_init(struct timeline_texts *t);
void timeline_texts_release(struct timeline_texts *t);
bool timeline_texts_find(const struct timeline_texts *t, struct slice bytes, uint64_t kind, uint32_t *index);
// *fresh: it was not there. ERR_MEMORY.
int timeline_texts_put(struct timeline_texts *t, struct slice bytes, uint64_t kind, uint32_t *index, bool *fresh,
                       struct error *err);

#endif
