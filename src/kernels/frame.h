// SPDX-License-Identifier: Apache-2.0
// A call of XLA's foreign function interface, read: operands, result and attributes of a custom call.
#ifndef KERNELS_FRAME_H
#define KERNELS_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "ir/shape.h"
#include "kernels/team.h"
#include "xla/ffi/api/c_api.h"

#define FRAME_MAX_ARGS 8

struct tensor {
    struct shape shape;
    void *data; // dense row-major
};

struct frame {
    XLA_FFI_CallFrame *call;
    struct tensor args[FRAME_MAX_ARGS];
    int n_args;
    struct tensor result;
};

// What a handler does.
struct frame_work {
    const char *span; // "kernel: product"
    int min_args, max_args;
    int (*open)(void *kernel, const struct frame *f, struct error *err); // reads a call into the kernel's own struct
    team_fn *run;                                                        // does it, with that struct
};
// A handler: answers when XLA only asks what it can do, reads operands and the one result, and runs the work on the
// team unless the result holds nothing. Returns NULL, or the error as XLA takes it; ERR_INTERNAL for what no program of
// ours holds: another number of operands, a type that we do not have.
XLA_FFI_Error *frame_run(XLA_FFI_CallFrame *call, const struct frame_work *work, void *kernel);
// A whole number or a real one from the attributes, `absent` where there is none.
int64_t frame_integer(const struct frame *f, const char *name, int64_t absent);
double frame_real(const struct frame *f, const char *name, double absent);
// bf16 and f32, the types of activations; bytes of one value.
static inline bool frame_is_float(enum dtype t)
{
    return t == DT_BF16 || t == DT_F32;
}
static inline int64_t frame_width(enum dtype t)
{
    return dtype_bits(t) / 8;
}

#endif
