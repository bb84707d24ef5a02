// SPDX-License-Identifier: Apache-2.0
// A buffer assignment. What it replays must end, and the peak is never below what is there throughout.
#include <stdlib.h>

#include "trace/heap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hlo_module m = {.buffer_assignment = {data, size}};
    struct trace_heaps h = {0};
    struct error e = {0};
    arena_init(&h.arena);
    int rc = trace_heaps_add(&h, &m, (struct slice){0}, 0, &e);
    for (size_t i = 0; !rc && i < h.n_heaps; i++) {
        if (h.heaps[i].peak_bytes < h.heaps[i].fixed_bytes)
            abort();
    }
    trace_heaps_release(&h);
    return 0;
}
