// SPDX-License-Identifier: Apache-2.0
// Functions between ISA_TARGET("avx2,...") and ISA_TARGET_END may use these instructions, whatever the compiler's
// flags.
#ifndef NUM_ISA_TARGET_H
#define NUM_ISA_TARGET_H

// ISA_UNROLL before a loop of a few turns: without it gcc keeps arrays of registers in memory at -O2.
#define ISA_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define ISA_UNROLL           ISA_PRAGMA(clang loop unroll(full))
#define ISA_TARGET(features) ISA_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define ISA_TARGET_END       ISA_PRAGMA(clang attribute pop)
#else
#define ISA_UNROLL           ISA_PRAGMA(GCC unroll 16)
#define ISA_TARGET(features) ISA_PRAGMA(GCC push_options) ISA_PRAGMA(GCC target(features))
#define ISA_TARGET_END       ISA_PRAGMA(GCC pop_options)
#endif

#define ISA_INLINE static inline __attribute__((always_inline))

#endif
