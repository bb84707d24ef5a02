// SPDX-License-Identifier: Apache-2.0
// oneDNN, loaded while the process runs. All but onednn_open is called from the team's thread only. Operations are made
// for a shape once and kept; what they need for a while comes from one piece of memory that is used again.
#ifndef KERNELS_ONEDNN_H
#define KERNELS_ONEDNN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/threads.h"
#include "num/dtype.h"

// ERR_DEVICE: the file is not there, cannot be loaded (a library it needs is missing), or is another major version.
// Once in a process; it stays loaded.
int onednn_open(const char *path, struct error *err);
// "3.2.0"; valid after onednn_open.
const char *onednn_version(void);
// The instruction set that it found, as it names it.
const char *onednn_isa(void);

// out [m, n] = x [m, k] by w: [k, n], or [n, k] when w_rows_are_outputs (as checkpoints store it). Row strides are in
// elements, so that parts of wider matrices can be read and written in place.
struct onednn_product {
    int64_t m, k, n;
    int64_t x_stride, w_stride, out_stride;
    enum dtype x, w, out; // bf16 by bf16 to bf16 or f32; f32 by f32 to f32; s8 by s8 to s32
    bool w_rows_are_outputs;
};
// ERR_INTERNAL: oneDNN has no such operation; ERR_MEMORY.
int onednn_product(const struct onednn_product *p, const void *x, const void *w, void *out, struct error *err);

// out [batch, out rows, out columns, outputs] = x [batch, rows, columns, inputs] by w [outputs, inputs, height, width]
// with zeros around, + bias [outputs] (f32), + residual (of out's shape); rounded once. Type of x and w: bf16 or f32.
struct onednn_convolution {
    int64_t batch, inputs, outputs;
    int64_t in[2], out[2], window[2], stride[2], low[2], high[2]; // rows, columns
    enum dtype x, out_type, residual;                             // residual DT_INVALID: none
    bool bias;
};
// The kernel is put into oneDNN's own order for every call, in memory that is used again. Errors as above.
int onednn_convolve(const struct onednn_convolution *c, const void *x, const void *w, const void *bias,
                    const void *residual, void *out, struct error *err);

// threads_for on the threads that oneDNN computes with, at most as many as the pool has. Between two of its operations
// these spin, and threads of another kind would have to share their processors with them. Where oneDNN's are not
// OpenMP's the pool's own do it.
void onednn_for(struct threads *pool, size_t n, size_t grain, threads_fn *fn, void *context);

// Memory of at least so many bytes, aligned to 64, that the caller may use until it returns; ERR_MEMORY.
int onednn_room(size_t bytes, void **data, struct error *err);

#endif
