// SPDX-License-Identifier: Apache-2.0
// From the name of a workload to its f32 module, with shapes only: what pricing and synthetic runs need.
#ifndef MODELS_BUILTIN_H
#define MODELS_BUILTIN_H

#include "ir/module.h"

struct model_shape {
    int64_t batch, seq; // 0: 32 and 128
};

// A WORKLOAD that needs no weights: "builtin:minilm", "builtin:gemm:MxKxN:TYPE" (also without "builtin:"; TYPE is f32,
// bf16, f16, int8 or f64, f32 accumulation, int32 for int8), "builtin:copy:N", "builtin:transformer-block" (block.h),
// or a model directory (its config.json alone is read). ERR_USAGE lists the built-in names. A product comes in its own
// types: policies leave it alone
// (*fixed).
int model_module(const char *workload, const struct model_shape *shape, struct module *m, bool *fixed,
                 struct error *err);

// True when the name means a built-in, not a path.
bool model_is_builtin(const char *workload);

#endif
