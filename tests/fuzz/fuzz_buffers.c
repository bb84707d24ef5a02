// SPDX-License-Identifier: Apache-2.0
// A buffer assignment as text, and messages of compilers that ran out of memory: any bytes are read.
#include "ir/buffers.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = {data, size};
    struct buffers b;
    struct arena a;
    struct error err = {0};
    struct out_of_memory m;
    arena_init(&a);
    if (buffers_read(&b, text, &a, &err))
        abort();
    for (size_t i = 0; i < b.n_values; i++) {
        const struct buffer_value *v = &b.values[i];
        struct slice in = buffer_value_instruction(v);
        if (v->allocation >= b.n_allocations || v->bytes < 0 || in.size > v->name.size)
            abort();
    }
    for (int kind = 0; kind < BUFFER_KINDS; kind++) {
        if (buffers_bytes(&b, 0, (enum buffer_kind)kind) < 0 || !buffer_kind_name((enum buffer_kind)kind))
            abort();
    }
    if (out_of_memory_read(&m, text) && (out_of_memory_bytes(m.needed) < 0 || out_of_memory_bytes(m.available) < 0))
        abort();
    arena_release(&a);
    return 0;
}
