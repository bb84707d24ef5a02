// SPDX-License-Identifier: Apache-2.0
// Final bundles and the map of shared bodies: any bytes are counted, and what is counted is in them.
#include "ir/llo.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = {data, size};
    struct llo_bundles b;
    struct llo_body *bodies;
    struct arena a;
    struct error err = {0};
    size_t n;
    llo_bundles_read(&b, text);
    uint64_t found = b.unknown;
    for (int i = 0; i < b.n_matrix; i++) {
        if (memchr(b.matrix[i].format, '\0', sizeof b.matrix[i].format) == NULL)
            abort();
        found += b.matrix[i].multiplies + b.matrix[i].pushes;
        (void)llo_rows(b.matrix[i].format);
    }
    if (b.n_matrix > LLO_MAX_FORMATS || found > size / 9 || b.bundles > size)
        abort();
    arena_init(&a);
    if (llo_bodies_read(&bodies, &n, text, &a, &err))
        abort();
    for (size_t i = 0; i < n; i++) {
        struct slice body = llo_body_of(bodies, n, bodies[i].operation);
        if (body.size && (body.data < data || body.data + body.size > data + size))
            abort();
    }
    arena_release(&a);
    return 0;
}
