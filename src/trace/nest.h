// SPDX-License-Identifier: Apache-2.0
// Nesting: whose time an instant of a line is. Events come in the order of their starts, the longer first where two
// start together. Every instant that any event covers belongs to the one that started last of those still running: for
// events that nest this is the usual self time (a `while` does not have the time of its body), and where events overlap
// in part the later one has the common part. So on every line the self times add up to the union of the spans, exactly.
#ifndef TRACE_NEST_H
#define TRACE_NEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct nest_open {
    int64_t start_ps, end_ps;
    int64_t covered_ps; // of it, by events that started later
    size_t outer;       // 1 + the nearest one below that ends no earlier, 0: none
    uint32_t key;
};

struct nest {
    struct nest_open *open; // outermost first; malloc'd
    size_t depth, cap;
    int64_t last_start_ps, reach_ps; // start of the last event; latest end of all
    int64_t union_ps;
    size_t overlaps; // events that began inside another one and ended after it
    void (*closed)(void *context, uint32_t key, int64_t self_ps, int64_t total_ps);
    void *context;
    bool begun;
};

// `closed` is called once for each event, when it can have no more children.
void nest_init(struct nest *n, void (*closed)(void *, uint32_t, int64_t, int64_t), void *context);
// end_ps >= start_ps, and their difference fits. False when the event starts before the last one (or together
// with it and is longer): the caller sorts and begins anew. ERR_MEMORY through *rc.
bool nest_add(struct nest *n, int64_t start_ps, int64_t end_ps, uint32_t key, int *rc, struct error *err);
void nest_finish(struct nest *n); // closes what is open
void nest_release(struct nest *n);

#endif
