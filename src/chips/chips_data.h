// SPDX-License-Identifier: Apache-2.0
#ifndef CHIPS_CHIPS_DATA_H
#define CHIPS_CHIPS_DATA_H

#include "chips/chips.h"

// The published chips, without `local`.
extern const struct chip chips_data[];
extern const size_t chips_data_count;

// Whether the first n characters of `name` are the chip's name, an alias or its device kind, in any case.
bool chip_is_called(const struct chip *c, const char *name, size_t n);

#endif
