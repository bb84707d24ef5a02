// SPDX-License-Identifier: Apache-2.0
#include "num/quantize_kernels.h"

#include "num/isa.h"

const struct quant_kernels *quant_kernels(void)
{
    switch (isa_in_force()) {
#if defined(__x86_64__)
    case ISA_AMX:
    case ISA_AVX512_BF16:
    case ISA_AVX512:
        return &quant_kernels_avx512;
    case ISA_AVX2:
        return &quant_kernels_avx2;
#elif defined(__aarch64__)
    case ISA_NEON:
        return &quant_kernels_neon;
#endif
    default:
        return &quant_kernels_portable;
    }
}

double quant_lanes_sum(const double lanes[QUANT_LANES])
{
    double sum = 0;
    for (int i = 0; i < QUANT_LANES; i++)
        sum += lanes[i];
    return sum;
}
