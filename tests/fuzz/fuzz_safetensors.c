// SPDX-License-Identifier: Apache-2.0
// A whole safetensors file. What is accepted must lie inside the file, be found by name, and fill the data.
#include <stdlib.h>

#include "io/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct checkpoint c;
    struct error e = {0};
    if (checkpoint_open_memory(&c, data, size, "fuzz", &e)) {
        if (!e.code || !e.message[0])
            abort();
        return 0;
    }
    size_t bytes = 0;
    for (size_t i = 0; i < c.count; i++) {
        const struct tensor_view *t = &c.tensors[i];
        if (t->offset > size || t->bytes > size - t->offset || t->data != data + t->offset)
            abort();
        if (checkpoint_find(&c, t->name) != t)
            abort();
        bytes += t->bytes;
    }
    if (bytes != c.bytes || bytes > size)
        abort();
    checkpoint_close(&c);
    return 0;
}
