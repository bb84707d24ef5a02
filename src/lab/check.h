// SPDX-License-Identifier: Apache-2.0
// The self-test: known answers for every layer, on this machine and device, in seconds.
#ifndef LAB_CHECK_H
#define LAB_CHECK_H

#include "base/progress.h"
#include "worker/worker.h"

enum { CHECK_MAX_ROWS = 64, CHECK_MAX_DETAIL = 512 };

enum check_result {
    CHECK_PASS,
    CHECK_FAIL,
    CHECK_ABSENT, // the device it needs is not there
};
const char *check_result_name(enum check_result r); // "pass", "fail", "absent"

struct check_row {
    const char *layer, *name;
    enum check_result result;
    char detail[CHECK_MAX_DETAIL]; // what was found, or what is wrong
    double ms;
};

struct check_report {
    struct check_row rows[CHECK_MAX_ROWS];
    size_t n, passed, failed, absent;
    struct error missing; // why rows are absent (code 0: none are)
};

// Runs every check of the table in check.c. A check that fails is a row; the only errors are ERR_INTERRUPTED and
// ERR_INTERNAL (the table is too long). Leaves no file behind.
int check_run(struct check_report *r, const struct worker_options *worker, const struct progress *progress,
              struct error *err);

#endif
