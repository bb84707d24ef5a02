// SPDX-License-Identifier: Apache-2.0
#include "base/quantity.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/worker_options.h"
#include "lab/check.h"
#include "report/table.h"

static int print_text(struct cli *cli, const struct check_report *r, struct error *err)
{
    static const enum table_style styles[] = {
        [CHECK_PASS] = TABLE_GOOD, [CHECK_FAIL] = TABLE_BAD, [CHECK_ABSENT] = TABLE_WARN};
    struct table t;
    table_init(&t);
    table_column(&t, "layer", NULL, TABLE_LEFT, 1);
    table_column(&t, "check", NULL, TABLE_LEFT, 0);
    table_column(&t, "result", NULL, TABLE_LEFT, 0);
    table_column(&t, "time", "ms", TABLE_RIGHT, 2);
    table_origin(&t, ORIGIN_MEASURED);
    table_column(&t, "detail", NULL, TABLE_LEFT, 0);
    for (size_t i = 0; i < r->n; i++) {
        const struct check_row *row = &r->rows[i];
        table_row(&t);
        table_cell(&t, row->layer);
        table_cell(&t, row->name);
        table_cell(&t, check_result_name(row->result));
        table_style(&t, styles[row->result]);
        table_number(&t, row->ms, NULL);
        table_cell(&t, row->detail);
    }
    int rc = table_print(&t, &cli->out, TABLE_TEXT, (size_t)cli->width, cli->color, err);
    table_release(&t);
    str_addf(&cli->out, "%zu passed, %zu failed, %zu absent\n", r->passed, r->failed, r->absent);
    return rc;
}

static int print_json(struct cli *cli, const struct check_report *r, struct error *err)
{
    struct str text;
    struct jw w;
    str_init(&text);
    jw_init(&w, &text, false);
    jw_object(&w);
    jw_kv_uint(&w, "passed", r->passed);
    jw_kv_uint(&w, "failed", r->failed);
    jw_kv_uint(&w, "absent", r->absent);
    jw_key(&w, "checks");
    jw_array(&w);
    for (size_t i = 0; i < r->n; i++) {
        const struct check_row *row = &r->rows[i];
        jw_object(&w);
        jw_kv_string(&w, "layer", row->layer);
        jw_kv_string(&w, "name", row->name);
        jw_kv_string(&w, "result", check_result_name(row->result));
        jw_kv_string(&w, "detail", row->detail);
        quantity_json_kv(&w, "time", quantity_make(row->ms, "ms", ORIGIN_MEASURED, "one run of the check"));
        jw_object_end(&w);
    }
    jw_array_end(&w);
    jw_object_end(&w);
    int rc = jw_finish(&w, err);
    if (!rc)
        rc = cli_envelope(cli, str_text(&text), &r->missing, err);
    str_release(&text);
    return rc;
}

static int run(struct cli *cli, struct error *err)
{
    struct check_report *r = arena_new(&cli->arena, struct check_report, 1, err);
    struct worker_options o = cli_worker_options(cli);
    int rc = r ? check_run(r, &o, &cli->progress, err) : ERR_MEMORY;
    if (!rc)
        rc = cli->json ? print_json(cli, r, err) : print_text(cli, r, err);
    if (rc || r->failed)
        return rc ? rc : 1;
    return r->missing.code ? error_set(err, r->missing.code, r->missing.where, "%s", r->missing.message) : 0;
}

static const char *const description[] = {
    "Asks every layer for an answer that is known beforehand and compares: hashes, roundings, quantisation, files, "
    "costs, "
    "tokens, and on the device a program whose every rounding is known, an exact product, a program that must be "
    "refused "
    "and a worker that is killed. It takes a few seconds and leaves nothing behind.",
    "Exit code 0 says that all answers were right, 1 that one was wrong, 4 that the device or its plugin is not there; "
    "the other checks run and are shown all the same.",
    NULL,
};

static const struct option options[] = {
    OPTION_DEVICE, OPTION_PLUGIN, OPTION_THREADS, OPTION_TIMEOUT, {.name = NULL},
};

static const struct example examples[] = {
    {"assay check", "is this installation sound?"},
    {"assay check --device gpu", "with the programs on a GPU"},
    {NULL, NULL},
};

const struct command command_check = {
    .name = "check",
    .summary = "self-test on this machine: known answers for every layer, in seconds",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
