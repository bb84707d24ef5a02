// SPDX-License-Identifier: Apache-2.0
// Which layers of a module repeat: what roll.c makes loops of.
#ifndef IR_ROLL_PART_H
#define IR_ROLL_PART_H

#include "ir/module.h"

// Instructions [first, end) of one layer.
struct roll_layer {
    int first, end, number;
    int name;     // characters of the scope in front of the number, "layer." of "layer.3.qkv"; -1: no layer
    bool repeats; // may be a part of a row
};

struct roll_find {
    const struct module *m;
    struct roll_layer *layers;
    int n_layers;
    int *layer_of;      // of each instruction
    uint8_t *used_next; // by the layer behind its own
    uint8_t *used_far;  // by anything else outside its own
};

// A row: layers [first, first + n). `start` by the instruction within a layer: the old value that the first layer has
// in place of what the layer before hands on; -1: it hands on nothing there.
struct roll_row {
    int first, n;
    int *start;
};

// What follows the number in a layer's scope, whose number has `name` characters in front.
const char *roll_rest(const char *scope, int name);
// Everything is in the arena. ERR_MEMORY.
int roll_find_init(struct roll_find *f, const struct module *m, struct arena *arena, struct error *err);
// The longest row that begins with the layer; `row->start` has room for its instructions.
void roll_find_row(const struct roll_find *f, int layer, struct roll_row *row);

#endif
