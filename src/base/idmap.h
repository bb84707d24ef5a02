// SPDX-License-Identifier: Apache-2.0
// From ids of 64 bits, as files have them, to small numbers. The hash has a secret, so that no file can make it slow.
#ifndef BASE_IDMAP_H
#define BASE_IDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

struct idmap_slot {
    int64_t id;
    uint32_t value; // + 1; 0: free
};

struct idmap {
    struct idmap_slot *slots; // malloc'd
    size_t n, n_slots;
    uint64_t secret;
};

void idmap_init(struct idmap *m);
void idmap_release(struct idmap *m);
// value < UINT32_MAX. *again: the id was there, and keeps its old value. ERR_MEMORY.
int idmap_put(struct idmap *m, int64_t id, uint32_t value, bool *again, struct error *err);
bool idmap_get(const struct idmap *m, int64_t id, uint32_t *value);

// A well mixed word of a word, and a secret of this process.
static inline uint64_t mix64(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93;
    return x ^ x >> 32;
}
// The same of any bytes, begun with `h`.
static inline uint64_t mix_bytes(uint64_t h, const uint8_t *bytes, size_t n)
{
    uint64_t word;
    for (; n >= 8; bytes += 8, n -= 8) {
        memcpy(&word, bytes, 8);
        h = mix64(h ^ word);
    }
    word = 0;
    if (n)
        memcpy(&word, bytes, n);
    return mix64(h ^ word);
}
uint64_t process_secret(void);

#endif
