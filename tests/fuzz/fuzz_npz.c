// SPDX-License-Identifier: Apache-2.0
// A whole .npz or .npy file. What is accepted lies inside the file, and reading its arrays either fills them or says
// why not.
#include <stdlib.h>

#include "base/bytes.h"
#include "io/npz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct npz z;
    struct error e = {0};
    if (npz_open_memory(&z, data, size, "fuzz", &e)) {
        if (!e.code || !e.message[0])
            abort();
        return 0;
    }
    for (size_t i = 0; i < z.count; i++) {
        const struct npz_array *a = &z.arrays[i];
        size_t elements;
        if (a->member.offset > size || a->member.packed > size - a->member.offset || npz_find(&z, a->name) != a)
            abort();
        if (!size_product(a->dims, a->rank, &elements) || elements != a->elements)
            abort();
        uint8_t *data_out = malloc(a->bytes ? a->bytes : 1);
        if (!data_out)
            abort();
        error_clear(&e);
        if (npz_read(&z, a, data_out, &e) && (!e.code || !e.message[0]))
            abort();
        free(data_out);
    }
    npz_close(&z);
    return 0;
}
