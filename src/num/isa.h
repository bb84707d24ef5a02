// SPDX-License-Identifier: Apache-2.0
// Which set of loops this process can run. Every set gives the same bits; they differ in speed alone.
#ifndef NUM_ISA_H
#define NUM_ISA_H

#include <stdbool.h>

enum isa {
    ISA_PORTABLE,    // plain C
    ISA_NEON,        // every aarch64
    ISA_AVX2,        // AVX2, F16C, FMA
    ISA_AVX512,      // AVX-512 F, BW, DQ, VL (and the above)
    ISA_AVX512_BF16, // the above and VCVTNEPS2BF16
    ISA_AMX,         // the above, VNNI, and tiles of bf16 and of codes
    ISA_COUNT
};

const char *isa_name(enum isa i); // "portable", "neon", "avx2", "avx512", "avx512_bf16",
                                  // "amx"
// Can this process run it? Asked of the CPU itself and not of base/host.h, which says what the machine has: under an
// emulator or valgrind a process may be able to run less.
bool isa_available(enum isa i);
// The last available one of the list, found at the first call; an available one that the environment variable ASSAY_ISA
// names comes before it. From any thread.
enum isa isa_in_force(void);
// For tests and comparisons: this one from now on. False, and nothing changes, when it is not available.
bool isa_force(enum isa i);

#endif
