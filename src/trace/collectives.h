// SPDX-License-Identifier: Apache-2.0
// Collectives of a profile: how long devices waited for each other, how long they transferred, and how much of it went
// on beside computation. The last device of a group to start defines when the transfer begins: what the others spent
// before is waiting. Times of several devices are compared on the clock that the profile fits them to.
#ifndef TRACE_COLLECTIVES_H
#define TRACE_COLLECTIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/quantity.h"
#include "trace/collectives_group.h"

struct trace_collective_times {
    uint64_t runs; // on every device one
    int64_t total_ps;
    int64_t hidden_ps; // of it, while the device computed
    // Of the runs whose partners are in the profile too.
    uint64_t matched;
    uint64_t partial; // of these: other devices of the group are not in the profile, and may have come later
    int64_t wait_ps, transfer_ps; // they add up to the total of the runs that are matched
};

// One operation of one program, all devices added up.
struct trace_collective {
    struct slice name, module;
    uint64_t program_id; // 0: not said
    const char *kind;    // "all-reduce"; "copy" for an asynchronous copy
    bool is_async;
    int64_t bytes;      // of one device: operands or results, whichever is more; -1: its HLO is not in the profile
    int64_t group_size; // devices that take part, of the largest group; 0: not said
    int64_t groups;
    const struct trace_group_set *set; // which devices they are; NULL: not known
    uint64_t devices;                  // that ran it in the profile
    uint64_t operations;               // 1; of an entry of `kinds` how many were added up
    struct trace_collective_times times;
};

struct trace_collective_device {
    const struct trace_device *device;
    int64_t number;     // the runtime's, which groups name; -1: none
    int64_t compute_ps; // time that operations cover which are neither collectives nor transfers
    struct trace_collective_times times;
};

struct trace_collectives {
    struct arena arena;
    struct trace_devices found;
    struct trace_collective *rows; // by falling total
    size_t n_rows;
    // The same added up by kind, size and group, without names; by falling total.
    struct trace_collective *kinds;
    size_t n_kinds;
    struct trace_group_set **sets; // all that rows refer to, by their index
    size_t n_sets;
    struct trace_collective_device *devices; // parallel to found.items
    uint64_t unpaired;                       // starts without an end, and the reverse; left out
};

// copies: asynchronous copies of a device's memory count as well. Damage met on the way is added to the files' own.
// ERR_MEMORY. Release even after an error.
int trace_collectives(struct trace *t, bool copies, struct trace_collectives *out, struct error *err);
void trace_collectives_release(struct trace_collectives *c);

// What makes the rates of collectives of all kinds and group sizes n comparable with that of a link: 2(n-1)/n for an
// all-reduce, (n-1)/n where each device keeps its own part (all-gather, reduce-scatter, all-to-all), 1 for what goes
// from one device to another or to all (permute, broadcast, send and receive). NAN where n is needed and is not known
// (0), and for copies. Source: NVIDIA nccl-tests, doc/PERFORMANCE.md.
double trace_bus_factor(const char *kind, int64_t n);
// Bytes of a device over the time that it transferred them, in B/s; NAN where either is not known.
double trace_collective_rate(const struct trace_collective *c);
// That times the factor: what each device's links carried.
double trace_collective_bus_rate(const struct trace_collective *c);
// What the links of one device can carry one way, in B/s, by the chip table: half of what it says of all links and both
// directions. Without a value, and with the reason, where the profile's devices are none that the table has links of,
// or of several kinds.
struct quantity trace_collectives_links(const struct trace_collectives *c);

#endif
