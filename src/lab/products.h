// SPDX-License-Identifier: Apache-2.0
// What a compiler made of a program's products: which types they really multiply.
#ifndef LAB_PRODUCTS_H
#define LAB_PRODUCTS_H

#include <stddef.h>

#include "num/dtype.h"

enum { PRODUCTS_MAX = 16 };

// Products of one kind in a program.
struct products {
    enum dtype lhs, rhs, result; // DT_INVALID: not an array, or a type that is not known
    int count;
};

// Counts the products (dot, convolution, and calls of a library whose name says gemm, matmul, dot or conv) of an
// optimised program, most frequent first. `hlo` is an HloModuleProtoWithConfig (the format "hlo_with_config" of PJRT)
// and is not trusted. Returns how many kinds there are, at most PRODUCTS_MAX (what is more is left out), or -1 when it
// cannot be read. Field numbers: xla/service/hlo.proto and xla/xla_data.proto.
int products_of_hlo(const void *hlo, size_t n, struct products out[PRODUCTS_MAX]);

#endif
