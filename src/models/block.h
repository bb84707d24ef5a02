// SPDX-License-Identifier: Apache-2.0
// One block of a transformer, for pricing and compiling: norm, attention of all tokens to all, norm, feed-forward.
#ifndef MODELS_BLOCK_H
#define MODELS_BLOCK_H

#include "models/builtin.h"

#define BLOCK_NAME "transformer-block"

// "transformer-block" is 3072x24x12288, "transformer-block:HIDDENxHEADSxMLP" any other; batch and seq 0 are 1 and 1280.
// x f32[batch,seq,hidden] in and out, six weights as checkpoints store them ([out, in]). ERR_USAGE for sizes that are
// no sizes, and heads that do not divide the hidden size.
int block_module(const char *name, const struct model_shape *shape, struct module *m, struct error *err);

#endif
