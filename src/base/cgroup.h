// SPDX-License-Identifier: Apache-2.0
// How much of the machine the control groups of this process leave to it.
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include <stdint.h>

struct cgroup_limits {
    int version;          // 1 or 2: where the CPU controller lives; -1 not known
    int cpu_limited;      // 1, 0, -1 not known
    double cpus;          // CPU time per time: the smallest quota / period on the way to the root; NAN without a limit
    int memory_limited;   // 1, 0, -1
    int64_t memory_bytes; // the smallest limit on the way to the root; -1 without a limit
};

// From ROOT/proc/self/{cgroup,mountinfo} and the file systems they name: version 2, version 1 and both side by side.
void cgroup_read(struct cgroup_limits *c, const char *root);

#endif
