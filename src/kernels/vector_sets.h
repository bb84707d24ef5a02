// SPDX-License-Identifier: Apache-2.0
// Includes the file that VECTOR_LOOPS names once for each set of instructions (num/isa.h), between the settings that
// vector_loop.h speaks of. VECTOR_SET(f) is then the function f of the set in force.
#include "num/isa.h"
#include "num/isa_target.h"

#define NAME(f) f##_portable
#define LANES   4
#include VECTOR_LOOPS
#undef NAME
#undef LANES

#if defined(__x86_64__)
ISA_TARGET("avx2,fma")
#define NAME(f) f##_avx2
#define LANES   8
#include VECTOR_LOOPS
#undef NAME
#undef LANES
ISA_TARGET_END

ISA_TARGET("avx512f,avx512bw,avx512dq,avx512vl,fma")
#define NAME(f) f##_avx512
#define LANES   16
#include VECTOR_LOOPS
#undef NAME
#undef LANES
ISA_TARGET_END
#define VECTOR_SET(f) (isa_in_force() >= ISA_AVX512 ? f##_avx512 : isa_in_force() == ISA_AVX2 ? f##_avx2 : f##_portable)
#else
#define VECTOR_SET(f) f##_portable
#endif
