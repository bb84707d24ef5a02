// SPDX-License-Identifier: Apache-2.0
// Where a compiler puts the values of a program: XLA's buffer assignment, as it dumps it to text. It is written even
// for a program that does not fit.
#ifndef IR_BUFFERS_H
#define IR_BUFFERS_H

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"

enum buffer_kind { BUFFER_ARGUMENT, BUFFER_OUTPUT, BUFFER_TEMPORARY, BUFFER_CONSTANT, BUFFER_OTHER, BUFFER_KINDS };
const char *buffer_kind_name(enum buffer_kind kind); // "argument", "output", ...

// A piece of memory that values share, one after the other or side by side.
struct buffer_value {
    struct slice name;  // of the instruction, with the place in its tuple: "copy-start{0}"
    struct slice shape; // "bf16[4096,4096]{1,0:T(8,128)(2,1)}"
    int64_t bytes;
    size_t allocation;
};
struct buffer_allocation {
    int64_t bytes;
    int64_t space;     // memory space: on TPU 0 is HBM, 1 VMEM, 2 SMEM; larger ones are flags and the like
    int64_t parameter; // BUFFER_ARGUMENT: its number
    enum buffer_kind kind;
};

struct buffers {
    struct buffer_allocation *allocations;
    struct buffer_value *values; // as they stand; of one allocation behind one another
    size_t n_allocations, n_values;
};

// Slices point into the text. Lines that are not understood are passed over, so any text is taken. ERR_MEMORY.
int buffers_read(struct buffers *b, struct slice text, struct arena *arena, struct error *err);
// Bytes of all allocations of one kind in one memory space; saturates.
int64_t buffers_bytes(const struct buffers *b, int64_t space, enum buffer_kind kind);
// The instruction's name of a value, without its place in a tuple.
struct slice buffer_value_instruction(const struct buffer_value *v);

// "Ran out of memory on HBM, the total memory required ... (96.00G) exceeds available HBM (31.24G)": the two figures as
// printed, and the memory's name. False for another message.
struct out_of_memory {
    struct slice needed, available, memory;
};
bool out_of_memory_read(struct out_of_memory *out, struct slice message);
// "96.00G" in bytes (K, M, G, T are powers of 1024); NAN for what is none.
double out_of_memory_bytes(struct slice figure);

#endif
