// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax.h"

#include <math.h>
#include <string.h>

#include "num/convert.h"

#define VECTOR_LOOPS "kernels/softmax_loop.h"
#include "kernels/vector_sets.h"

softmax_fn *softmax_row(void)
{
    return VECTOR_SET(softmax_row);
}
