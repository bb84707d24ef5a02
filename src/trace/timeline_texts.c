// SPDX-License-Identifier: Apache-2.0
#include "trace/timeline_texts.h"

#include <stdlib.h>
#include <string.h>

#include "base/idmap.h"

void timeline_texts_init(struct timeline_texts *t)
{
    *t = (struct timeline_texts){.secret = process_secret()};
}

void timeline_texts_release(struct timeline_texts *t)
{
    free(t->items);
    free(t->slots);
    *t = (struct timeline_texts){0};
}

static uint64_t hash(const struct timeline_texts *t, struct slice s, uint64_t kind)
{
    return mix_bytes(mix64(t->secret ^ kind ^ (uint64_t)s.size << 32), s.data, s.size);
}

// The slot that has the text, or the free one where it belongs.
static size_t slot_of(const struct timeline_texts *t, struct slice s, uint64_t kind)
{
    size_t at = hash(t, s, kind) & (t->n_slots - 1);
    for (; t->slots[at]; at = (at + 1) & (t->n_slots - 1)) {
        const struct timeline_text *x = &t->items[t->slots[at] - 1];
        if (x->kind == kind && x->bytes.size == s.size && (!s.size || memcmp(x->bytes.data, s.data, s.size) == 0))
            break;
    }
    return at;
}

static int grow(struct timeline_texts *t, struct error *err)
{
    size_t n_slots = t->n_slots ? 2 * t->n_slots : 1024, cap = n_slots / 2;
    uint32_t *slots = n_slots < UINT32_MAX ? calloc(n_slots, sizeof *slots) : NULL;
    struct timeline_text *items = slots ? realloc(t->items, cap * sizeof *items) : NULL;
    if (!items) {
        free(slots);
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu texts", cap);
    }
    free(t->slots);
    t->slots = slots;
    t->n_slots = n_slots;
    t->items = items;
    t->cap = cap;
    for (size_t i = 0; i < t->n; i++)
        slots[slot_of(t, items[i].bytes, items[i].kind)] = (uint32_t)i + 1;
    return 0;
}

bool timeline_texts_find(const struct timeline_texts *t, struct slice bytes, uint64_t kind, uint32_t *index)
{
    size_t at = t->n_slots ? slot_of(t, bytes, kind) : 0;
    if (!t->n_slots || !t->slots[at])
        return false;
    *index = t->slots[at] - 1;
    return true;
}

int timeline_texts_put(struct timeline_texts *t, struct slice bytes, uint64_t kind, uint32_t *index, bool *fresh,
                       struct error *err)
{
    int rc = t->n == t->cap ? grow(t, err) : 0;
    if (rc)
        return rc;
    size_t at = slot_of(t, bytes, kind);
    *fresh = !t->slots[at];
    if (*fresh) {
        t->items[t->n] = (struct timeline_text){.bytes = bytes, .kind = kind};
        t->slots[at] = (uint32_t)++t->n;
    }
    *index = t->slots[at] - 1;
    return 0;
}
