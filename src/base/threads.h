// SPDX-License-Identifier: Apache-2.0
// A fixed pool of threads that share out ranges of rows.
#ifndef BASE_THREADS_H
#define BASE_THREADS_H

#include <stddef.h>

#include "base/error.h"

struct threads;

// `count` threads in all, the caller's included; 0 means as many as the process may run on (its affinity mask).
int threads_new(struct threads **out, size_t count, struct error *err);
// As many as the process may run on, where the work can as well be done without: NULL when they cannot be had.
struct threads *threads_try(void);
void threads_free(struct threads *t); // NULL is fine
size_t threads_count(const struct threads *t);
size_t threads_available(void);

// Calls fn(context, from, to) on disjoint ranges that cover [0, n), each at least `grain` long but the last; returns
// when all are done. With t NULL, or n <= grain, the caller does it all. fn must not call threads_for on the same pool.
typedef void threads_fn(void *context, size_t from, size_t to);
void threads_for(struct threads *t, size_t n, size_t grain, threads_fn *fn, void *context);

#endif
