// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax.h"

#include <math.h>
#include <string.h>

#include "num/convert.h"
#include "num/isa.h"
#include "num/isa_target.h"

#define NAME(f) f##_portable
#define LANES   4
#include "kernels/softmax_loop.h"
#undef NAME
#undef LANES

#if defined(__x86_64__)
ISA_TARGET("avx2,fma")
#define NAME(f) f##_avx2
#define LANES   8
#include "kernels/softmax_loop.h"
#undef NAME
#undef LANES
ISA_TARGET_END

ISA_TARGET("avx512f,avx512bw,avx512dq,avx512vl,fma")
#define NAME(f) f##_avx512
#define LANES   16
#include "kernels/softmax_loop.h"
#undef NAME
#undef LANES
ISA_TARGET_END
#endif

softmax_fn *softmax_row(void)
{
#if defined(__x86_64__)
    enum isa isa = isa_in_force();
    if (isa == ISA_AVX512 || isa == ISA_AVX512_BF16)
        return softmax_row_avx512;
    if (isa == ISA_AVX2)
        return softmax_row_avx2;
#endif
    return softmax_row_portable;
}
