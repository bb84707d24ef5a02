// SPDX-License-Identifier: Apache-2.0
// The two halves of the suite `deployment`: policies for one product (precision_deployment.c), and what the policies
// are made of, one worked example each (precision_deployment_affine.c).
#ifndef LAB_PRECISION_DEPLOYMENT_H
#define LAB_PRECISION_DEPLOYMENT_H

#include "lab/precision.h"

// The fixture of all policies: y[2,2] = x[2,3] w[3,2].
enum { DEPLOYMENT_ROWS = 2, DEPLOYMENT_INPUTS = 3, DEPLOYMENT_OUTPUTS = 2 };
extern const float deployment_x[DEPLOYMENT_ROWS * DEPLOYMENT_INPUTS];
extern const float deployment_w[DEPLOYMENT_INPUTS * DEPLOYMENT_OUTPUTS];

// The affine product with its wrong versions, on the host and on the device. cases: one per output, for the figure.
int deployment_affine(struct precision *p, struct precision_case *cases[DEPLOYMENT_OUTPUTS], struct error *err);
// Calibration and a shifted input, shared against own scales, storage, codes there and back, bounds that are attained,
// families of rounding, and what is refused.
int deployment_examples(struct precision *p, struct error *err);

#endif
