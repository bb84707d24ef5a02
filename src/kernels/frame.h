// SPDX-License-Identifier: Apache-2.0
// A call of XLA's foreign function interface, read: operands, result and attributes of a custom call.
#ifndef KERNELS_FRAME_H
#define KERNELS_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "ir/shape.h"
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

// Whether XLA only asks what the handler can do; it is answered, and the handler returns NULL.
bool frame_is_query(XLA_FFI_CallFrame *call);
// Reads operands and the one result. ERR_INTERNAL for what no program of ours holds: another number of operands, a type
// that we do not have.
int frame_open(struct frame *f, XLA_FFI_CallFrame *call, int min_args, int max_args, struct error *err);
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
// What a handler returns: NULL for rc 0, else the error as XLA takes it.
XLA_FFI_Error *frame_close(XLA_FFI_CallFrame *call, int rc, const struct error *err);

#endif
