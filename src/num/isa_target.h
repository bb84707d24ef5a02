// SPDX-License-Identifier: Apache-2.0
// Functions between ISA_TARGET("avx2,...") and ISA_TARGET_END may use these instructions, whatever the compiler's
// flags.
#ifndef NUM_ISA_TARGET_H
#define NUM_ISA_TARGET_H

#define ISA_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define ISA_TARGET(features) ISA_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define ISA_TARGET_END       ISA_PRAGMA(clang attribute pop)
#else
#define ISA_TARGET(features) ISA_PRAGMA(GCC push_options) ISA_PRAGMA(GCC target(features))
#define ISA_TARGET_END       ISA_PRAGMA(GCC pop_options)
#endif

#define ISA_INLINE static inline __attribute__((always_inline))

#endif
