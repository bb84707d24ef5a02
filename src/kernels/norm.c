// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm.h"

#include <string.h>

#include "num/convert.h"
#include "num/isa.h"
#include "num/isa_target.h"

#define NAME(f) f##_portable
#define LANES   4
#include "kernels/norm_loop.h"
#undef NAME
#undef LANES

#if defined(__x86_64__)
ISA_TARGET("avx2,fma")
#define NAME(f) f##_avx2
#define LANES   8
#include "kernels/norm_loop.h"
#undef NAME
#undef LANES
ISA_TARGET_END

ISA_TARGET("avx512f,avx512bw,avx512dq,avx512vl,fma")
#define NAME(f) f##_avx512
#define LANES   16
#include "kernels/norm_loop.h"
#undef NAME
#undef LANES
ISA_TARGET_END
#endif

const struct norm_loops *norm_loops(void)
{
    static const struct norm_loops portable = {norm_sums_portable, norm_apply_portable};
#if defined(__x86_64__)
    static const struct norm_loops avx2 = {norm_sums_avx2, norm_apply_avx2};
    static const struct norm_loops avx512 = {norm_sums_avx512, norm_apply_avx512};
    enum isa isa = isa_in_force();
    if (isa == ISA_AVX512 || isa == ISA_AVX512_BF16)
        return &avx512;
    if (isa == ISA_AVX2)
        return &avx2;
#endif
    return &portable;
}
