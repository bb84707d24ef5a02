// SPDX-License-Identifier: Apache-2.0
// What the worker tests share.
#ifndef TESTS_UNIT_WORKER_TEST_H
#define TESTS_UNIT_WORKER_TEST_H

#include <stdlib.h>

#include "pjrt_test.h"
#include "worker/worker.h"

// The TPU compiler that the set-up fetched; NULL, said on standard output, where it is absent.
const char *worker_test_libtpu(void);
int worker_test_open_fds(void);
bool worker_test_no_child_left(void);
// Waits until a process that is no child of ours is gone or a zombie; false when it still runs after a minute.
bool worker_test_gone(int pid);
// Starts one with this plugin (NULL: the CPU plugin) and ASSAY_FAULT; prints the error when that fails.
struct worker *worker_test_start(const char *plugin, const char *fault);
// A module of one function of f32[4] to f32[4]: x + x. Compiled; -1 and the error when that fails.
int worker_test_compile_add(struct worker *w, struct error *err);
int worker_test_upload(struct worker *w, const float *values, size_t n, int position);

#endif
