// SPDX-License-Identifier: Apache-2.0
#include "lab/resident.h"

#include <math.h>

double resident_bytes(const struct resident_program *programs, size_t n, bool one_model)
{
    double weights = 0, code = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        const struct resident_program *p = &programs[i];
        double rest = p->needed - p->weights - p->code;
        weights = one_model && i ? fmax(weights, p->weights) : weights + p->weights;
        code += p->code;
        if (isnan(p->weights) || isnan(rest)) // fmax passes over NAN
            return NAN;
        most = fmax(most, rest);
    }
    return weights + code + most;
}
