// SPDX-License-Identifier: Apache-2.0
// An optimised program as a plugin hands it over: any bytes give a list of products, maybe an empty one.
#include "lab/precision_lowered.h"

#include <stdlib.h>
#include <string.h>

#include "lab/precision.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct error err = {0};
    const char *products[PRECISION_PRODUCTS];
    size_t n = 0;
    arena_init(&a);
    if (precision_lowered_products(&a, (const char *)data, size, products, &n, &err) || n > PRECISION_PRODUCTS)
        abort();
    for (size_t i = 0; i < n; i++) {
        if (!strchr(products[i], '['))
            abort();
    }
    arena_release(&a);
    return 0;
}
