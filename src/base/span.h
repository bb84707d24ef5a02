// SPDX-License-Identifier: Apache-2.0
// Our own trace events: each thread writes spans into a ring of its own, without locks; one collector drains them.
#ifndef BASE_SPAN_H
#define BASE_SPAN_H

#include <stddef.h>
#include <stdint.h>

#define SPAN_RING_SLOTS  4096 // per thread; spans past it are dropped and counted until a drain makes room
#define SPAN_MAX_NAMES   256
#define SPAN_MAX_THREADS 64

struct span {
    uint64_t start_ns, end_ns; // CLOCK_MONOTONIC
    uint32_t name;             // span_name gives its text
    uint32_t tid;              // of the kernel
    int32_t of;                // which of several it was done to, as who began it says; -1: it does not
};

// The id of a name, which must be a literal (it is kept by address). The same text gives the same id. 0 ("?") when the
// table is full.
uint32_t span_register(const char *name);
const char *span_name(uint32_t id);

// A span is open between the two; it is recorded at its end, by the thread that began it.
struct span_open {
    uint64_t start_ns;
    uint32_t name;
    int32_t of;
};
struct span_open span_begin(uint32_t name);
void span_end(struct span_open s);

// Moves at most `max` recorded spans of all threads to `out`, in each thread's order; returns how many. One caller at a
// time. *dropped (may be NULL) is the number dropped since the last drain.
size_t span_drain(struct span *out, size_t max, uint64_t *dropped);

#endif
