// SPDX-License-Identifier: Apache-2.0
// Where the elements of a constant stand in a LiteralProto, and names of numbers that the text writes out
// (openxla/xla, xla/xla_data.proto).
#ifndef IR_HLO_LITERAL_H
#define IR_HLO_LITERAL_H

#include <stdint.h>

#include "num/dtype.h"

enum hlo_storing { HLO_VARINTS, HLO_BYTES, HLO_FIXED32, HLO_FIXED64 };

struct hlo_storage {
    uint32_t number; // of the field
    enum hlo_storing how;
    int digits; // that tell all values of a small floating type apart
};

// NULL for a type that literals do not have.
const struct hlo_storage *hlo_storage_of(enum dtype type);

// PrecisionConfig.Algorithm.
enum { HLO_DOT_ALGORITHMS = 14 };
extern const char *const hlo_dot_algorithms[HLO_DOT_ALGORITHMS];

#endif
