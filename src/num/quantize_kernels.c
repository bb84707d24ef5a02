// SPDX-License-Identifier: Apache-2.0
#include "num/quantize_kernels.h"

const struct quant_kernels *quant_kernels(void)
{
    return &quant_kernels_portable;
}

double quant_lanes_sum(const double lanes[QUANT_LANES])
{
    double sum = 0;
    for (int i = 0; i < QUANT_LANES; i++)
        sum += lanes[i];
    return sum;
}
