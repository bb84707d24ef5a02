// SPDX-License-Identifier: Apache-2.0
// The split of a data set into what calibrates and what is held out (num/calibrate.h).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/sha256.h"
#include "num/calibrate.h"

struct split_item {
    char sha256[65];
    enum split_role role;
    size_t names; // how often this content was added
    char *name;   // of the first
};

static const char *const role_words[] = {"calibrate", "held_out"};

void split_init(struct split *s)
{
    memset(s, 0, sizeof *s);
}

void split_release(struct split *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->items[i].name);
    free(s->items);
    free(s->slots);
    split_init(s);
}

// The slot of a hash, or the free one where it belongs. There is always a free one.
static size_t find_slot(const struct split *s, const char *sha256)
{
    size_t at =
        strtoull((char[9]){sha256[0], sha256[1], sha256[2], sha256[3], sha256[4], sha256[5], sha256[6], sha256[7], 0},
                 NULL, 16) &
        (s->n_slots - 1);
    while (s->slots[at] && strcmp(s->items[s->slots[at] - 1].sha256, sha256) != 0)
        at = (at + 1) & (s->n_slots - 1);
    return at;
}

static int grow(struct split *s, struct error *err)
{
    size_t capacity = s->capacity ? s->capacity * 2 : 64, bytes;
    struct split_item *items = NULL;
    size_t *slots = calloc(capacity * 2, sizeof *slots);
    if (slots && size_mul(capacity, sizeof *items, &bytes))
        items = realloc(s->items, bytes);
    if (!items) {
        free(slots);
        return error_set(err, ERR_MEMORY, NULL, "no memory to remember %zu items of a data set", capacity);
    }
    free(s->slots);
    s->items = items;
    s->slots = slots;
    s->capacity = capacity;
    s->n_slots = capacity * 2;
    for (size_t i = 0; i < s->n; i++)
        s->slots[find_slot(s, s->items[i].sha256)] = i + 1;
    return 0;
}

int split_add(struct split *s, enum split_role role, const char *name, const void *bytes, size_t n, struct error *err)
{
    struct split_item item = {.role = role, .names = 1};
    int rc = sha256_bytes(bytes, n, item.sha256, err);
    if (!rc && s->n == s->capacity)
        rc = grow(s, err);
    if (rc)
        return rc;
    size_t slot = find_slot(s, item.sha256);
    if (s->slots[slot]) {
        struct split_item *known = &s->items[s->slots[slot] - 1];
        known->names++;
        if (known->role == role)
            return 0;
        return error_set(
            err, ERR_INPUT, name,
            "has the same content as %s, which is on the other side of the split: what calibrates must not "
            "be what is scored",
            known->name);
    }
    item.name = strdup(name);
    if (!item.name)
        return error_set(err, ERR_MEMORY, name, "no memory to remember an item of a data set");
    s->items[s->n++] = item;
    s->slots[slot] = s->n;
    return 0;
}

size_t split_count(const struct split *s, enum split_role role)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += s->items[i].role == role;
    return n;
}

int split_choose(const void *bytes, size_t n, double held_out_share, enum split_role *role, struct error *err)
{
    char hex[65];
    int rc = sha256_bytes(bytes, n, hex, err);
    if (rc)
        return rc;
    hex[13] = 0; // 52 bits: exact as a double
    double place = ldexp((double)strtoull(hex, NULL, 16), -52);
    *role = place < held_out_share ? SPLIT_HELD_OUT : SPLIT_CALIBRATE;
    return 0;
}

static int compare_hashes(const void *a, const void *b)
{
    return memcmp(a, b, 65);
}

// The hash of all sorted hashes of a side.
static int side_hash(const struct split *s, enum split_role role, char hex[65], struct error *err)
{
    size_t n = 0;
    char(*hashes)[65] = malloc((s->n ? s->n : 1) * sizeof *hashes);
    if (!hashes)
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu hashes", s->n);
    for (size_t i = 0; i < s->n; i++) {
        if (s->items[i].role == role)
            memcpy(hashes[n++], s->items[i].sha256, 65);
    }
    qsort(hashes, n, sizeof *hashes, compare_hashes);
    for (size_t i = 0; i < n; i++)
        hashes[i][64] = '\n';
    int rc = sha256_bytes(hashes, n * sizeof *hashes, hex, err);
    free(hashes);
    return rc;
}

static int side_json(const struct split *s, enum split_role role, bool list, struct jw *w, struct error *err)
{
    char hex[65];
    int rc = side_hash(s, role, hex, err);
    if (rc)
        return rc;
    size_t items = 0, names = 0;
    for (size_t i = 0; i < s->n; i++) {
        bool here = s->items[i].role == role;
        items += here;
        names += here ? s->items[i].names : 0;
    }
    jw_key(w, role_words[role]);
    jw_object(w);
    jw_kv_uint(w, "items", items);
    jw_kv_uint(w, "duplicates", names - items);
    jw_kv_string(w, "sha256", hex);
    if (list) {
        jw_key(w, "list");
        jw_array(w);
        for (size_t i = 0; i < s->n; i++) {
            if (s->items[i].role != role)
                continue;
            jw_object(w);
            jw_kv_string(w, "name", s->items[i].name);
            jw_kv_string(w, "sha256", s->items[i].sha256);
            jw_object_end(w);
        }
        jw_array_end(w);
    }
    jw_object_end(w);
    return 0;
}

int split_json(const struct split *s, bool list, struct jw *w, struct error *err)
{
    jw_object(w);
    jw_kv_string(w, "rule", "no content on both sides, by SHA-256");
    int rc = side_json(s, SPLIT_CALIBRATE, list, w, err);
    if (!rc)
        rc = side_json(s, SPLIT_HELD_OUT, list, w, err);
    jw_object_end(w);
    return rc;
}
