// SPDX-License-Identifier: Apache-2.0
#include "lab/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "lab/check_table.h"
#include "record/tree.h"

static const struct check checks[] = {
    {"base", "SHA-256", check_sha256, false},
    {"base", "JSON round trip", check_json, false},
    {"base", "statistics", check_statistics, false},
    {"base", "threads", check_threads, false},
    {"record", "commit, read back", check_record, false},
    {"chips", "ridge of v5e", check_chips, false},
    {"num", "conversions", check_convert, false},
    {"num", "number formats", check_formats, false},
    {"num", "conversion loops", check_loops, false},
    {"num", "random streams", check_random, false},
    {"num", "models of products", check_dotmodel, false},
    {"num", "int8 quantisation", check_quantize, false},
    {"num", "error measures", check_measures, false},
    {"io", "safetensors", check_safetensors, false},
    {"ir", "cost of a product", check_cost, false},
    {"ir", "policies", check_policy, false},
    {"models", "tokenizer", check_tokenizer, false},
    {"plan", "floor of a product", check_roofline, false},
    {"worker", "plugin and device", check_worker_starts, false},
    {"pjrt", "bf16 rounds each step", check_rounding, true},
    {"pjrt", "int8 product is exact", check_product, true},
    {"worker", "a program refused", check_refusal, true},
    {"worker", "a worker killed", check_death, true},
};

enum { N_CHECKS = sizeof checks / sizeof checks[0] };
_Static_assert((int)N_CHECKS <= (int)CHECK_MAX_ROWS, "the report has room for every check");

const char *check_result_name(enum check_result r)
{
    return r == CHECK_PASS ? "pass" : r == CHECK_FAIL ? "fail" : "absent";
}

int check_differs(struct error *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int rc = error_setv(err, ERR_INTERNAL, NULL, fmt, ap);
    va_end(ap);
    return rc;
}

int check_directory(struct check_context *c, const char **path, struct error *err)
{
    if (!c->directory[0]) {
        const char *tmp = getenv("TMPDIR");
        snprintf(c->directory, sizeof c->directory, "%.200s/assay-check-XXXXXX", tmp && *tmp ? tmp : "/tmp");
        if (!mkdtemp(c->directory)) {
            int rc = error_set(err, ERR_IO, c->directory, "cannot be made: %s", strerror(errno));
            c->directory[0] = '\0';
            return rc;
        }
    }
    *path = c->directory;
    return 0;
}

static void remove_directory(const struct check_context *c)
{
    if (!c->directory[0])
        return;
    int fd = open(c->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        tree_empty(fd);
        close(fd);
    }
    rmdir(c->directory);
}

// The failing text: where it is, and what.
static void set_detail(struct check_row *row, const struct str *found, const struct error *e)
{
    if (e->code)
        snprintf(row->detail, sizeof row->detail, "%.150s%s%.350s", e->where, e->where[0] ? ": " : "", e->message);
    else
        snprintf(row->detail, sizeof row->detail, "%s", str_text(found));
}

static void run_row(struct check_report *r, const struct check *check, struct check_context *c)
{
    struct check_row *row = &r->rows[r->n++];
    struct error e = {0};
    struct str found;
    str_init(&found);
    *row = (struct check_row){.layer = check->layer, .name = check->name, .result = CHECK_PASS};
    uint64_t start = clock_ns();
    if (check->device && !c->worker) {
        row->result = CHECK_ABSENT;
        str_add(&found, "needs the device");
    } else {
        int rc = check->run(c, &found, &e);
        if (rc && !e.code)
            error_set(&e, rc, NULL, "failed without saying why");
        bool missing = rc && check->run == check_worker_starts && e.code == ERR_DEVICE;
        row->result = missing ? CHECK_ABSENT : rc ? CHECK_FAIL : CHECK_PASS;
        if (missing)
            r->missing = e;
    }
    row->ms = (double)(clock_ns() - start) / 1e6;
    set_detail(row, &found, &e);
    *(row->result == CHECK_PASS ? &r->passed : row->result == CHECK_FAIL ? &r->failed : &r->absent) += 1;
    arena_release(&c->arena);
    str_release(&found);
}

int check_run(struct check_report *r, const struct worker_options *worker, const struct progress *progress,
              struct error *err)
{
    struct check_context c = {.options = *worker};
    int rc = 0;
    memset(r, 0, sizeof *r);
    arena_init(&c.arena);
    c.options.label = "check";
    for (size_t i = 0; i < N_CHECKS && !rc; i++) {
        progress_report(progress, checks[i].name, i, N_CHECKS);
        run_row(r, &checks[i], &c);
        rc = interrupt_check("checking", err);
    }
    worker_stop(c.worker);
    remove_directory(&c);
    return rc;
}
