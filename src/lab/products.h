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

// Counts the products (dot, convolution, and calls of a library or of our kernels whose name says gemm, matmul, dot,
// product or conv; attention is two) of an optimised program, most frequent first. A kernel that quantises its rows
// multiplies codes by codes. Returns how many kinds there are, at most PRODUCTS_MAX (what is more is left
// out), or -1 for bytes that are no module: the plugin's format is its own.
int products_of_hlo(const void *bytes, size_t n, struct products out[PRODUCTS_MAX]);

#endif
