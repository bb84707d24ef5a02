// SPDX-License-Identifier: Apache-2.0
// What the programs of a request take when all of them stay in a device's memory.
#ifndef LAB_RESIDENT_H
#define LAB_RESIDENT_H

#include <stdbool.h>
#include <stddef.h>

// Of one program, B, as its compiler plans; NAN where it says nothing.
struct resident_program {
    double weights, code, needed; // needed: all of it, both others included
};

// Weights and code of all n programs, and what else the one takes that takes most: they run one at a time. Programs of
// one model (`one_model`) read the same weights, which are there once. NAN where something is not known.
double resident_bytes(const struct resident_program *programs, size_t n, bool one_model);

#endif
