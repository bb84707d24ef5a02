// SPDX-License-Identifier: Apache-2.0
// Whether the layers of a model are written out or run as loops over stacked weights (ir/roll.h), by device.
#ifndef LAB_LAYERS_H
#define LAB_LAYERS_H

#include "base/json.h"
#include "ir/roll.h"

enum layers_form {
    LAYERS_AUTO, // as suits the device
    LAYERS_LOOP,
    LAYERS_WRITTEN
};

// "auto", "loop", "written". False for another name.
const char *layers_name(enum layers_form form);
bool layers_parse(enum layers_form *out, const char *name);
// Makes loops of layers in the module, which is to run on the platform (PJRT's name), in the same arena; *out is set.
// LAYERS_LOOP: wherever two of them repeat. LAYERS_AUTO: on a TPU four or more, since its compiler makes less code of
// a loop and gives it a lower floor (bench/layers). A CPU is slower with loops and reads weights that are apart where
// they lie; of GPUs nothing is known: both have layers written out.
int layers_apply(enum layers_form form, const char *platform, struct module *m, struct rolled *out, struct error *err);
// The key "loops".
void layers_json(struct jw *w, const struct rolled *r);

#endif
