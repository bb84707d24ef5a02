// SPDX-License-Identifier: Apache-2.0
// CPU kernels behind XLA custom calls. The worker registers them with the CPU plugin; the program puts calls of them
// into its modules (kernels/choose.h) when the worker says that they are there. docs/kernels.md has the list.
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include "base/error.h"
#include "pjrt/pjrt.h"

// Which kernels there are: by what they do for a program.
enum kernel_kind {
    KERNEL_PRODUCT,     // "assay.product"
    KERNEL_CONVOLUTION, // "assay.convolution"
    KERNEL_ATTENTION,   // "assay.attention"
    KERNEL_GROUP_NORM,  // "assay.group_norm"
    KERNEL_SWIGLU,      // "assay.swiglu"
    KERNEL_ROTARY,      // "assay.rotary"
    KERNEL_LAYER_NORM,  // "assay.layer_norm"
    KERNEL_KINDS
};
const char *kernel_name(enum kernel_kind k);   // "product"
const char *kernel_target(enum kernel_kind k); // "assay.product"

#define KERNELS_TEXT 160

// Registers all kernels with a CPU plugin, whose client may exist or not. What they compute with is written to `text`:
// "oneDNN 3.2.0 (avx512_bf16), 2 threads". ERR_DEVICE with the reason when there are none: no oneDNN at `onednn`, or a
// plugin without the extension. Once in a process (a second time it does nothing).
int kernels_register(const struct plugin *p, const char *onednn, char text[KERNELS_TEXT], struct error *err);

#endif
