// SPDX-License-Identifier: Apache-2.0
// Layers as a loop. Models are built with every layer written out, each on weights of its own. Where layers repeat, the
// same program can be one loop over weights that lie in stacks: less to compile and less code, for a copy of the
// weights into stacks. Which is better depends on the device (docs/image.md).
#ifndef IR_ROLL_H
#define IR_ROLL_H

#include "ir/module.h"

struct rolled {
    int loops;  // that were made
    int layers; // that they run, all together
};

// The module with a loop for every row of at least `least` layers that repeat: neighbours by scope ("layer.3.",
// "layer.4."), with the same instructions on the same values but for weights of their own and what the layer before
// hands on. A layer whose values are wanted behind the next one, as a tap, ends its row. To come after the policy,
// since codes and scales stack as values do, and before what a device does with the module; the results are the same
// bit for bit where a compiler treats both alike. *out says what was done; `to` is a copy of `from` where nothing
// repeats, and keeps nothing of it.
int module_roll(const struct module *from, int least, struct module *to, struct rolled *out, struct error *err);

#endif
