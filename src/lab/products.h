// SPDX-License-Identifier: Apache-2.0
// What a compiler made of a program's products: which types they really multiply.
#ifndef LAB_PRODUCTS_H
#define LAB_PRODUCTS_H

#include <stddef.h>

#include "base/pbread.h"
#include "num/dtype.h"

enum { PRODUCTS_MAX = 16 };

// Products of one kind in a program.
struct products {
    enum dtype lhs, rhs, result; // DT_INVALID: not an array, or a type that is not known
    int count;
};

// The HloModuleProto of what PJRT calls "hlo_with_config": an HloModuleProtoWithConfig has it in field 1 and its
// configuration in field 2, and no other field. Other bytes are given back as they are (ir/hlo.h takes an HloProto
// too).
struct slice products_module(const void *bytes, size_t n);

// Counts the products (dot, convolution, and calls of a library whose name says gemm, matmul, dot or conv) of an
// optimised program, most frequent first. Returns how many kinds there are, at most PRODUCTS_MAX (what is more is left
// out), or -1 for bytes that are no module: the plugin's format is its own.
int products_of_hlo(const void *bytes, size_t n, struct products out[PRODUCTS_MAX]);

#endif
