// SPDX-License-Identifier: Apache-2.0
// What a request costs on many chips: work divided over them, and what they have to send each other.
#ifndef LAB_PRICE_LAYOUT_H
#define LAB_PRICE_LAYOUT_H

#include "lab/price.h"
#include "plan/mesh.h"

enum { PRICE_MAX_LAYOUTS = 16 };

// One part of the request under a layout.
struct layout_part {
    const char *what;             // "all-to-all around attention"; NULL: nothing is known to be sent
    double times;                 // in a request: once, or once a call
    struct collective_cost comms; // each time
};

// What the chips of one way send each other.
struct layout_way {
    enum layout_axis axis;
    int64_t ways;
    const char *place;                 // the links it takes: "4 of axis 2, a line"
    double bytes, ports_s, topology_s; // in a request, into each chip
};

struct layout_price {
    const char *name; // "fsdp, gathered once", "dp=2,tp=4"
    struct layout_way ways[LAYOUT_AXES];
    int n_ways;
    double weight_bytes; // on each chip
    const char *reason;  // why this layout cannot be; NULL: it can
    struct layout_part parts[MODEL_MAX_PARTS];
    double chips;                      // that have a share of the request
    double math_s, memory_s;           // of a request, on each of these
    double bytes, ports_s, topology_s; // sent in a request, into each chip
    double overlapped_s;               // the longest of the three
    double serial_s;                   // the longer of math and memory, and then the sending
};

struct layouts {
    struct chip_target target;
    struct network network;
    struct layout_price rows[PRICE_MAX_LAYOUTS]; // what can be first, the least serial_s first
    int n;
};

// Every layout of the presets, or those given, for a target of more than one chip: one kind over all chips ("tp",
// "tp+sp", "ulysses"), or several, each over links of its own ("dp=2,tp=4"; mesh.h). ERR_USAGE for layouts that are not
// known or do not fit the slice, ERR_INPUT where nothing is published about the links.
int price_layouts(struct price *p, const struct chip_target *target, const char *const *layouts, size_t n_layouts,
                  struct layouts *out, struct error *err);
// Sentences that belong beside the figures: which slice, which bound, which published figures differ; NULL past the
// last.
const char *layouts_note(struct price *p, const struct layouts *l, int i, struct error *err);
void layouts_json(struct price *p, const struct layouts *l, struct jw *w, struct error *err);

#endif
