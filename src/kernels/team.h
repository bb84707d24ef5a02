// SPDX-License-Identifier: Apache-2.0
// The one thread that kernels run on. XLA calls from several threads, and OpenMP grows a team of threads for every
// thread that calls oneDNN; from one thread there is one team. Calls wait for their turn.
#ifndef KERNELS_TEAM_H
#define KERNELS_TEAM_H

#include <stddef.h>

#include "base/error.h"
#include "base/threads.h"

// What a call does; `pool` shares out loops of our own over as many threads as the process may run on. Returns 0, or a
// negative error code.
typedef int team_fn(void *context, struct threads *pool, struct error *err);

// Starts the thread, once in a process; it stays. ERR_MEMORY.
int team_start(struct error *err);
// Runs fn on the thread and returns what it returned; from any thread but that one. team_start came before. `name`, a
// literal, is what its span is called (base/span.h): "kernel: product".
int team_run(const char *name, team_fn *fn, void *context, struct error *err);
size_t team_threads(void); // how many threads the pool has; 0 before team_start

#endif
