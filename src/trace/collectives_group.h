// SPDX-License-Identifier: Apache-2.0
// Which devices take part in a collective together. An operation names replicas, partitions or both of its program; the
// module's device assignment says which devices those are; and a profile's devices are found by the same numbers.
// Rules: openxla/xla, xla/service/collective_ops_utils.h (GetCollectiveOpGroupMode and GetParticipatingDevicesGroups).
#ifndef TRACE_COLLECTIVES_GROUP_H
#define TRACE_COLLECTIVES_GROUP_H

#include "base/idmap.h"
#include "base/str.h"
#include "ir/hlo_attributes.h"
#include "trace/device.h"

struct trace_group_place {
    int64_t device;
    size_t group;
};

struct trace_group_set {
    size_t index;               // among the sets
    struct hlo_numbers *groups; // numbers of devices, as the runtime has them
    size_t n_groups;
    size_t largest; // devices in the largest group
    bool assigned;  // false: the module has no device assignment, and its own numbers stand for devices
    struct trace_group_place *places; // of all devices, by number
    size_t n_places;
};

struct trace_assignment {
    int64_t replicas, partitions; // 0: there is none
    const int64_t *devices;       // of replica r and partition p at p * replicas + r
};

struct trace_group_sets {
    struct arena *arena;
    struct trace_group_set **items; // no two with the same groups
    size_t n, cap;
    struct idmap by_text, by_groups;    // hashes
    size_t budget;                      // device numbers that may still be written out
    struct trace_assignment assignment; // of the module that is read
    uint64_t hash;                      // of that
};

// `budget`: a few bytes stand for thousands of devices, so memory is bounded by this many numbers, 2^16 at least.
void trace_group_sets_init(struct trace_group_sets *s, struct arena *arena, size_t budget);
void trace_group_sets_release(struct trace_group_sets *s);
// Before the operations of a module: reads its device assignment into `scratch`, which lasts as long. ERR_MEMORY.
int trace_group_sets_begin(struct trace_group_sets *s, const struct hlo_module *m, struct arena *scratch,
                           struct error *err);
// The groups of a collective of that module (of what an asynchronous operation wraps), whose attributes are `a`; *out
// NULL where nothing says them, where they make no sense, and beyond the budget. ERR_MEMORY.
int trace_group_sets_find(struct trace_group_sets *s, const struct hlo_instruction *in, const struct hlo_attributes *a,
                          struct arena *scratch, const struct trace_group_set **out, struct error *err);
// The group that a device is in; -1: in none.
int64_t trace_group_of(const struct trace_group_set *s, int64_t device);
// Appends "{0,4} {1,5}", "{0-7}"; whole groups up to `max` characters, then how many more there are.
void trace_group_text(struct str *out, const struct trace_group_set *s, size_t max);

// The runtime's number of each device: a TPU's as its plane says (core_details), else the device's place in the
// profile, hosts in turn. -1 for a sparse core. In `arena`.
int trace_device_numbers(const struct trace_devices *d, struct arena *arena, int64_t **numbers, struct error *err);

#endif
