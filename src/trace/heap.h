// SPDX-License-Identifier: Apache-2.0
// What a program was planned to need: the buffer assignment that XLA keeps beside a program's HLO, replayed. For each
// memory space of the program what is there throughout (parameters, results, constants), and how the rest comes and
// goes in the order of the program, with its peak and the buffers that are alive then.
// Message and field numbers: openxla/xla, xla/service/hlo.proto.
#ifndef TRACE_HEAP_H
#define TRACE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "ir/hlo.h"
#include "trace/session.h"

enum trace_heap_kind { TRACE_HEAP_TEMPORARY, TRACE_HEAP_PARAMETER, TRACE_HEAP_RESULT, TRACE_HEAP_CONSTANT };
const char *trace_heap_kind_name(enum trace_heap_kind kind); // "temporary", "parameter", "result", "constant"

struct trace_heap_buffer {
    enum trace_heap_kind kind;
    struct slice instruction; // that defines it; empty where the assignment does not say
    struct slice scope;       // the framework's name of it
    struct slice shape;       // "f32[5,1024]"
    int64_t bytes;            // as assigned, with the padding of its layout
};

struct trace_heap_point {
    struct slice instruction;
    int64_t bytes; // in use after it, what is there throughout included
};

struct trace_heap {
    struct slice program;
    uint64_t program_id; // 0: not said
    int64_t space;       // 0 is the device's memory, 5 the host's; others are the back end's
    int64_t fixed_bytes; // there throughout
    int64_t pool_bytes;  // of the allocation that the others share, as it was made; 0: there is none
    int64_t peak_bytes;  // fixed and the replay's most
    struct slice at;     // the instruction that reaches it; empty: nothing comes and goes
    struct trace_heap_point *points;
    size_t n_points;
    struct trace_heap_buffer *live; // at the peak, by falling bytes
    size_t n_live;
    size_t unknown; // steps of the replay that name a buffer that is not there
};

struct trace_heaps {
    struct arena arena;
    struct trace_heap *heaps; // by program, then by space
    size_t n_heaps, cap_heaps;
    size_t programs;    // whose HLO is in the profile
    const char *damage; // why one of them could not be read; NULL
};

// All programs of the profile. A program that several hosts ran is there once. Texts are copies. ERR_MEMORY.
int trace_heaps(const struct trace *t, struct trace_heaps *out, struct error *err);
// Those of one module (of its buffer_assignment), added to out->heaps. What is damaged is left out and said in
// out->damage. ERR_MEMORY.
int trace_heaps_add(struct trace_heaps *out, const struct hlo_module *m, struct slice program, uint64_t program_id,
                    struct error *err);
void trace_heaps_release(struct trace_heaps *h);

#endif
