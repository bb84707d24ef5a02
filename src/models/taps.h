// SPDX-License-Identifier: Apache-2.0
// Values inside a model that it returns beside its results, by name, so that they can be compared with those of another
// implementation.
#ifndef MODELS_TAPS_H
#define MODELS_TAPS_H

#include "ir/builder.h"

enum taps {
    TAPS_NONE,
    TAPS_LAYERS, // what every layer or block hands on
    TAPS_ALL,    // and what is inside the first of each kind, what is embedded, and what positions and times become
};

// Makes x a result called as the format says when a model is built with taps of this depth or a greater one; returns x.
int tap(struct builder *b, enum taps wanted, enum taps depth, int x, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

#endif
