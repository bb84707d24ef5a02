// SPDX-License-Identifier: Apache-2.0
// A pipeline: a model cut into stages of whole layers, each a program of its own.
#ifndef PLAN_STAGES_H
#define PLAN_STAGES_H

#include "ir/module.h"

struct stage {
    int64_t first_layer, last_layer; // counted from 0
    double handed_bytes;             // to the next stage, for the batch of the module
};

// Layers are what attention is in: each has one, and begins where its name does ("layer.3."). Stages differ by one
// layer at most, the first ones are the longer. What an earlier stage makes and a later one takes is an argument
// ("handed.N") and is passed on by the stages between; what follows from inputs alone is made anew. `out` was
// initialised; everything is in its arena. ERR_USAGE: more stages than layers, a model without any.
int stage_module(const struct module *m, int64_t stages, int64_t number, struct module *out, struct stage *info,
                 struct error *err);

#endif
