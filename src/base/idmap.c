// SPDX-License-Identifier: Apache-2.0
#include "base/idmap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

uint64_t process_secret(void)
{
    uint64_t secret;
    // Sixteen random bytes that the kernel gives every process.
    memcpy(&secret, (const void *)(uintptr_t)getauxval(AT_RANDOM), sizeof secret); // NOLINT
    return secret;
}

void idmap_init(struct idmap *m)
{
    memset(m, 0, sizeof *m);
    m->secret = process_secret();
}

void idmap_release(struct idmap *m)
{
    free(m->slots);
    memset(m, 0, sizeof *m);
}

static struct idmap_slot *slot_of(const struct idmap *m, int64_t id)
{
    size_t at = mix64((uint64_t)id ^ m->secret) & (m->n_slots - 1);
    while (m->slots[at].value && m->slots[at].id != id)
        at = (at + 1) & (m->n_slots - 1);
    return &m->slots[at];
}

static int grow(struct idmap *m, struct error *err)
{
    struct idmap more = {.n = m->n, .n_slots = m->n_slots ? 2 * m->n_slots : 64, .secret = m->secret};
    more.slots = calloc(more.n_slots, sizeof *more.slots);
    if (!more.slots)
        return error_set(err, ERR_MEMORY, NULL, "no memory for more than %zu ids", m->n);
    for (size_t i = 0; i < m->n_slots; i++) {
        if (m->slots[i].value)
            *slot_of(&more, m->slots[i].id) = m->slots[i];
    }
    free(m->slots);
    *m = more;
    return 0;
}

int idmap_put(struct idmap *m, int64_t id, uint32_t value, bool *again, struct error *err)
{
    if (2 * m->n >= m->n_slots) {
        int rc = grow(m, err);
        if (rc)
            return rc;
    }
    struct idmap_slot *s = slot_of(m, id);
    *again = s->value != 0;
    if (!s->value) {
        *s = (struct idmap_slot){id, value + 1};
        m->n++;
    }
    return 0;
}

bool idmap_get(const struct idmap *m, int64_t id, uint32_t *value)
{
    const struct idmap_slot *s = m->n_slots ? slot_of(m, id) : NULL;
    if (!s || !s->value)
        return false;
    *value = s->value - 1;
    return true;
}
