// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm.h"

#include <math.h>
#include <string.h>

#include "num/convert.h"

#define VECTOR_LOOPS "kernels/norm_loop.h"
#include "kernels/vector_sets.h"

struct norm_loops norm_loops(void)
{
    return (struct norm_loops){VECTOR_SET(norm_moments), VECTOR_SET(norm_apply)};
}
