// SPDX-License-Identifier: Apache-2.0
// A whole GGUF file. What is accepted must lie inside the file and apart, and can be read to its last value.
#include <stdlib.h>

#include "io/checkpoint.h"
#include "io/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct gguf_value *array)
{
    struct gguf_array it;
    struct gguf_value v;
    size_t n = 0;
    for (gguf_array_begin(&it, array); gguf_array_next(&it, &v);) {
        n++;
        if (v.type == GGUF_ARRAY)
            walk(&v);
    }
    if (n != array->count)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct checkpoint c;
    struct error e = {0};
    if (checkpoint_open_memory(&c, data, size, "fuzz.gguf", &e)) {
        if (!e.code || !e.message[0])
            abort();
        return 0;
    }
    for (size_t i = 0; i < c.gguf->entry_count; i++) {
        if (c.gguf->entries[i].value.type == GGUF_ARRAY)
            walk(&c.gguf->entries[i].value);
    }
    size_t end = 0;
    for (size_t i = 0; i < c.count; i++) {
        const struct tensor_view *t = &c.tensors[i];
        if (t->offset > size || t->bytes > size - t->offset || t->data != data + t->offset || t->offset < end)
            abort();
        end = t->offset + t->bytes;
        if (checkpoint_find(&c, t->name) != t)
            abort();
        float *values = malloc(t->elements * sizeof *values + 1);
        if (!values)
            abort();
        if (checkpoint_read_as(&c, t, DT_F32, values, &e))
            error_clear(&e);
        free(values);
    }
    checkpoint_close(&c);
    return 0;
}
