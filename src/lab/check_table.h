// SPDX-License-Identifier: Apache-2.0
// What a check is. To add one, write its function in check_host.c or check_num.c (no device) or check_device.c, declare
// it here, and add a row to the table in check.c.
#ifndef LAB_CHECK_TABLE_H
#define LAB_CHECK_TABLE_H

#include "base/arena.h"
#include "base/str.h"
#include "worker/worker.h"

struct check_context {
    struct worker_options options;
    struct worker *worker; // NULL before check_worker_starts, and where that failed
    struct arena arena;    // of one check
    char directory[256];   // made on demand by check_directory, removed at the end
};

// Returns 0 with what was found in `found`, or an error that says what is wrong.
typedef int check_fn(struct check_context *c, struct str *found, struct error *err);

struct check {
    const char *layer, *name;
    check_fn *run;
    bool device; // needs the worker
};

// A directory of its own for files.
int check_directory(struct check_context *c, const char **path, struct error *err);
// What a check found is not the known answer.
int check_differs(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

check_fn check_sha256, check_json, check_statistics, check_threads, check_convert, check_quantize, check_measures,
    check_safetensors, check_cost, check_policy, check_tokenizer, check_chips, check_roofline, check_record;
check_fn check_formats, check_loops, check_random, check_dotmodel;
check_fn check_worker_starts, check_rounding, check_product, check_refusal, check_death;

#endif
