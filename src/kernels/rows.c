// SPDX-License-Identifier: Apache-2.0
#include "kernels/rows.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "num/convert.h"

#define VECTOR_LOOPS "kernels/rows_loop.h"
#include "kernels/vector_sets.h"

struct row_loops row_loops(void)
{
    return (struct row_loops){VECTOR_SET(swiglu_row),    VECTOR_SET(rotary_head), VECTOR_SET(scale_row),
                              VECTOR_SET(add_row),       VECTOR_SET(widen_row),   VECTOR_SET(quantise_row),
                              VECTOR_SET(layer_norm_row)};
}
