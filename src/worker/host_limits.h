// SPDX-License-Identifier: Apache-2.0
// What the worker does to itself: the processors it may use, its memory as the kernel counts it.
#ifndef WORKER_HOST_LIMITS_H
#define WORKER_HOST_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

// First to go when memory runs out, and no core file (a plugin's takes gigabytes and minutes).
void host_limits_give_way(void);
// Keeps this process, and every thread it starts from now on, to n of the processors it may use: one of each core
// first. n beyond what there are keeps all. ERR_DEVICE when the kernel refuses.
int host_limits_processors(int n, struct error *err);
// Resident bytes now and at their peak, by /proc/self/status; 0 where it cannot be read.
void host_limits_memory(uint64_t *rss_bytes, uint64_t *peak_rss_bytes);
// Lets the peak count from now on; false where the kernel has no such thing.
bool host_limits_reset_peak(void);

#endif
