// SPDX-License-Identifier: Apache-2.0
// The kernels as XLA calls them, one per kind. What each takes is said where it is defined.
#ifndef KERNELS_HANDLERS_H
#define KERNELS_HANDLERS_H

#include "kernels/frame.h"

XLA_FFI_Handler kernel_product, kernel_convolution, kernel_attention, kernel_group_norm, kernel_swiglu, kernel_rotary,
    kernel_layer_norm;

#endif
