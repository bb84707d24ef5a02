// SPDX-License-Identifier: Apache-2.0
// Whether two HLO modules are one program.
#ifndef IR_HLO_SAME_H
#define IR_HLO_SAME_H

#include "ir/hlo.h"

// True when what is said of one holds of the other down to the numbers of its instructions: the same computations in
// the same order, with the same instructions, shapes, constants, attributes and schedules. The name of the module
// counts, its number does not: every compilation gives another. Entries of maps may stand in any order, since writers
// shuffle them.
bool hlo_same(const struct hlo_module *a, const struct hlo_module *b);

#endif
