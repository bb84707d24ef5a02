// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/trace_input.h"
#include "cli/wrap.h"
#include "report/table.h"
#include "trace/modules.h"

static void columns(struct table *t, bool together)
{
    static const char *const times[] = {"total", "mean", "min", "p50", "p90", "p99", "max"};
    static const int ranks[] = {0, 1, 4, 2, 3, 5, 4};
    table_column(t, "program", NULL, TABLE_LEFT, 0);
    table_column(t, "id", NULL, TABLE_LEFT, 6);
    if (!together)
        table_column(t, "device", NULL, TABLE_LEFT, 0);
    table_column(t, "runs", NULL, TABLE_RIGHT, 0);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        table_column(t, times[i], "ms", TABLE_RIGHT, ranks[i]);
        table_origin(t, ORIGIN_MEASURED);
    }
}

static void row(struct table *t, const struct trace_modules *m, const struct trace_module *r)
{
    const struct trace_executed *p = &m->programs[r->program];
    const double ps[] = {(double)r->total_ps, r->mean_ps, (double)r->min_ps, r->p50_ps,
                         r->p90_ps,           r->p99_ps,  (double)r->max_ps};
    table_row(t);
    trace_cell(t, p->name);
    table_cellf(t, p->id ? "%" PRIu64 : "", p->id);
    if (r->device)
        trace_cell(t, r->device->name);
    table_count(t, (double)r->count);
    for (size_t i = 0; i < sizeof ps / sizeof *ps; i++)
        table_number(t, ps[i] / 1e9, NULL);
}

static int table(struct cli *cli, struct trace_modules *m, bool together, struct error *err)
{
    enum table_format format = trace_format(cli);
    struct trace_module *rows;
    struct table t;
    size_t n;
    bool inferred = false;
    int rc = trace_modules_rows(m, together, &rows, &n, err);
    if (rc)
        return rc;
    table_init(&t);
    columns(&t, together);
    for (size_t i = 0; i < n; i++)
        row(&t, m, &rows[i]);
    for (size_t i = 0; i < m->devices.n; i++)
        inferred |= m->of_device[i].n && m->of_device[i].inferred;
    if (n || format != TABLE_TEXT)
        rc = table_print(&t, &cli->out, format, (size_t)cli->width, cli->color, err);
    table_release(&t);
    if (!rc && inferred && format == TABLE_TEXT)
        wrap_text(
            &cli->out,
            "Inferred from operations: an execution ends where the first one of its program comes again. Its time "
            "is from the start of the first to the end of the last.",
            0, 0, cli->width);
    if (!rc && !n)
        cli_note(cli, "no program ran on a device in this profile");
    return rc;
}

static int document(struct cli *cli, struct trace *t, void *of, struct jw *w, struct error *err)
{
    return trace_modules_json(t, of, cli_flag(cli, "together"), w, err);
}

static int run(struct cli *cli, struct error *err)
{
    struct trace t;
    struct trace_modules m = {0};
    int rc = trace_input(cli, &t, err);
    if (!rc)
        rc = trace_modules(&t, &m, err);
    if (!rc && trace_wants_json(cli))
        rc = trace_document(cli, &t, document, &m, err);
    else if (!rc)
        rc = table(cli, &m, cli_flag(cli, "together"), err);
    if (!rc)
        rc = trace_damage(&t, err);
    trace_modules_release(&m);
    trace_close(&t);
    return rc;
}

static const char *const description[] = {
    "The programs that ran on the devices of a profile: how often each was executed on each device, and how long that "
    "took. The time is from the start of the first operation to the end of the last, waiting between them included; "
    "`assay trace ops` has the time of the operations.",
    TRACE_INPUT_TEXT,
    "A TPU's profile lists executions. Where only operations are in it, as for GPUs, an execution ends where the first "
    "operation of its program comes again.",
    NULL,
};

static const struct option options[] = {
    {.name = "together", .kind = OPTION_FLAG, .help = "all devices added up"},
    OPTION_FORMAT("text md csv html json"),
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay trace modules profile/plugins/profile/2026_01_02", "every program on every device"},
    {NULL, NULL},
};

const struct command command_trace_modules = {
    .name = "trace modules",
    .operands = "PATH...",
    .min_operands = 1,
    .max_operands = -1,
    .operand_complete = COMPLETE_FILE,
    .summary = "how often each program ran on each device, and how long",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
