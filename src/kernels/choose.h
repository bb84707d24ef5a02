// SPDX-License-Identifier: Apache-2.0
// The last pass over a module: parts of it that a kernel does faster on the CPU become calls of that kernel.
#ifndef KERNELS_CHOOSE_H
#define KERNELS_CHOOSE_H

#include "ir/module.h"
#include "kernels/kernels.h"

// A call costs some 30 microseconds: the work of this many operations. What is smaller stays with XLA.
#define KERNELS_LEAST_FLOP 2e7

struct kernels_chosen {
    int count[KERNEL_KINDS]; // calls of each
};

// `to` is `from` with calls of kernels where one takes over; what they stand for is gone from it, and its cost is that
// of the calls. For a program of one device on a CPU whose worker has kernels, after all other passes. Instructions in
// f64 are left alone, and so are products of less than least_flop. `from` holds no calls yet.
int kernels_choose(const struct module *from, double least_flop, struct module *to, struct kernels_chosen *chosen,
                   struct error *err);

#endif
