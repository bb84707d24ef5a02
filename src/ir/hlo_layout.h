// SPDX-License-Identifier: Apache-2.0
// Where an array of a compiled module lies, and how much room its tiles take.
#ifndef IR_HLO_LAYOUT_H
#define IR_HLO_LAYOUT_H

#include "ir/hlo.h"

// Memory space of an array: on TPU 0 is HBM, 1 VMEM, 2 SMEM. 0 where the layout does not say.
int64_t hlo_memory_space(const struct hlo_shape *s);
// Bytes of an array with its first tile's padding, "T(8,128)": the minor axes are filled up to whole tiles. As
// hlo_shape_bytes where there are no tiles, and for tuples. Saturates at INT64_MAX.
int64_t hlo_padded_bytes(const struct hlo_shape *s);

#endif
