// SPDX-License-Identifier: Apache-2.0
// What a compiler wants to know of a GPU that is not there.
#ifndef CHIPS_GPU_H
#define CHIPS_GPU_H

#include <stdbool.h>

#include "base/str.h"
#include "chips/chips.h"

// Appends the description that XLA's CUDA plugin takes as its topology's target_config (a GpuTargetConfigProto as
// text): memory, bandwidth and cores from the chip table, the rest by compute capability. False for a chip that is none
// of NVIDIA's, or is not known here.
bool chip_gpu_config(const struct chip *chip, struct str *out);

#endif
