// SPDX-License-Identifier: Apache-2.0
// Memory of devices over time, as the allocators of a host report it (events MemoryAllocation and MemoryDeallocation):
// for each allocator its timeline, its peak and what was alive then. Names of the statistics: openxla/xla,
// xla/tsl/profiler/utils/xplane_schema.cc. What a program was planned to need is in trace/heap.h.
#ifndef TRACE_MEMORY_H
#define TRACE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "trace/session.h"

struct trace_memory_event {
    int64_t at_ps; // from the trace's origin
    bool is_free;
    uint64_t address;
    int64_t requested_bytes, bytes; // of the block; a TPU's event that frees one does not say
    // Of the allocator, after the event. `reserved` is kept apart for the programs' own use.
    int64_t heap_bytes, reserved_bytes, available_bytes, peak_bytes;
    double fragmentation;              // one minus the largest free block over all that is free; NAN: not said
    struct slice scope, region, shape; // empty: not said
    int64_t type;                      // tensorflow.DataType
};

// Blocks that were alike and alive at the peak.
struct trace_memory_block {
    enum trace_memory_kind {
        TRACE_MEMORY_BLOCK,    // allocated in the profile
        TRACE_MEMORY_EARLIER,  // allocated before it began, and freed after the peak
        TRACE_MEMORY_UNSEEN,   // in use by the allocator's count; the profile has neither beginning nor end
        TRACE_MEMORY_RESERVED, // reserved_bytes
    } kind;
    struct slice scope, region, shape;
    int64_t type;
    int64_t bytes;   // of one
    uint64_t blocks; // 0 where nobody knows
};

struct trace_allocator {
    const char *name; // "GPU_0_bfc", "0" (of a TPU: its index on the host)
    const char *host;
    struct trace_memory_event *events; // by time
    size_t n_events;
    size_t peak;            // the first event with the most in use
    int64_t peak_bytes;     // heap and reserved, then
    int64_t lifetime_bytes; // the most since the allocator was made, by its own count (of the heap)
    int64_t capacity_bytes; // heap, reserved and available at the peak
    double most_fragmented; // of all events; NAN: not said
    uint64_t allocated, freed;
    struct trace_memory_block *live; // at the peak, by falling bytes of all
    size_t n_live;
};

struct trace_memory {
    struct arena arena;
    struct trace_allocator *allocators; // in the order of files, then of names ("2" before "10")
    size_t n_allocators;
    size_t unnamed; // events that name no allocator, left out
};

// Reads the events of all hosts' planes. Texts are copies. Damage met on the way is added to the files' own. A profile
// without such events gives no allocators and is no error. Release even after an error. ERR_MEMORY.
int trace_memory(struct trace *t, struct trace_memory *out, struct error *err);
void trace_memory_release(struct trace_memory *m);
// "f32" of a tensorflow.DataType; NULL for one that is not known.
const char *trace_memory_type_name(int64_t type);
// "allocated", "earlier", "unseen", "reserved".
const char *trace_memory_kind_name(enum trace_memory_kind kind);

#endif
