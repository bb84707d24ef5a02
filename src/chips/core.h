// SPDX-License-Identifier: Apache-2.0
// What a TPU's core is made of, as far as counting its instructions needs it: matrix units and the clock.
#ifndef CHIPS_CORE_H
#define CHIPS_CORE_H

#include "chips/chips.h"

struct chip_core {
    int cores; // of one device, which share its programs
    int units; // matrix units of a core
    int size;  // rows and columns of one
    int rows;  // of the left operand in bf16 that a unit takes per cycle
    double clock_hz;
    enum origin origin;
    const char *source; // where the clock is from
};

// False for a chip whose core is not known well enough, a GPU among them. The clock is what libtpu's own cost model
// prints, where it prints one at which the units reach the chip's bf16 rate; else it follows from that rate and the
// units.
bool chip_core(const struct chip *chip, struct chip_core *out);

#endif
