// SPDX-License-Identifier: Apache-2.0
// An optimised program as a plugin hands it out.
#include "lab/products.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct products found[PRODUCTS_MAX];
    int n = products_of_hlo(data, size, found);
    if (n < -1 || n > PRODUCTS_MAX)
        abort();
    for (int i = 0; i < n; i++) {
        if (found[i].count < 1 || (i && found[i].count > found[i - 1].count))
            abort();
    }
    return 0;
}
