// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/trace_input.h"
#include "cli/wrap.h"
#include "trace/collectives_view.h"

static void times_columns(struct table *t)
{
    static const struct {
        const char *title, *unit;
        int rank;
        char origin;
    } columns[] = {{"runs", NULL, 2, 0},
                   {"total", "ms", 0, ORIGIN_MEASURED},
                   {"waiting", "ms", 0, ORIGIN_DERIVED},
                   {"transfer", "ms", 0, ORIGIN_DERIVED},
                   {"beside compute", "ms", 1, ORIGIN_DERIVED},
                   {"alone", "ms", 1, ORIGIN_DERIVED}};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        table_column(t, columns[i].title, columns[i].unit, TABLE_RIGHT, columns[i].rank);
        if (columns[i].origin)
            table_origin(t, columns[i].origin);
    }
}

static void times_cells(struct table *t, const struct trace_collective_times *c)
{
    table_count(t, (double)c->runs);
    table_number(t, (double)c->total_ps * 1e-9, NULL);
    table_number(t, c->matched ? (double)c->wait_ps * 1e-9 : NAN, NULL);
    table_number(t, c->matched ? (double)c->transfer_ps * 1e-9 : NAN, NULL);
    table_number(t, (double)c->hidden_ps * 1e-9, NULL);
    table_number(t, (double)(c->total_ps - c->hidden_ps) * 1e-9, NULL);
}

static void rows_table(struct table *t, const struct trace_collectives *c)
{
    table_column(t, "collective", NULL, TABLE_LEFT, 0);
    table_column(t, "kind", NULL, TABLE_LEFT, 3);
    table_column(t, "program", NULL, TABLE_LEFT, 6);
    table_column(t, "size", "MB", TABLE_RIGHT, 2);
    table_origin(t, ORIGIN_DERIVED);
    table_column(t, "group", NULL, TABLE_RIGHT, 4);
    table_column(t, "devices", NULL, TABLE_RIGHT, 5);
    times_columns(t);
    table_column(t, "rate", "GB/s", TABLE_RIGHT, 3);
    table_origin(t, ORIGIN_DERIVED);
    for (size_t i = 0; i < c->n_rows; i++) {
        const struct trace_collective *r = &c->rows[i];
        table_row(t);
        trace_cell(t, r->name);
        table_cell(t, r->kind);
        table_cellf(t, r->program_id ? "%" PRIu64 : "", r->program_id);
        table_number(t, r->bytes >= 0 ? (double)r->bytes * 1e-6 : NAN, NULL);
        if (r->group_size)
            table_cellf(t, "%" PRId64 " x %" PRId64, r->groups, r->group_size);
        else
            table_cell(t, "");
        table_count(t, (double)r->devices);
        times_cells(t, &r->times);
        table_number(t, trace_collective_rate(r) * 1e-9, NULL);
    }
}

static void devices_table(struct table *t, const struct trace_collectives *c)
{
    table_column(t, "device", NULL, TABLE_LEFT, 0);
    table_column(t, "host", NULL, TABLE_LEFT, 4);
    table_column(t, "compute", "ms", TABLE_RIGHT, 1);
    table_origin(t, ORIGIN_MEASURED);
    times_columns(t);
    for (size_t i = 0; i < c->found.n; i++) {
        table_row(t);
        trace_cell(t, c->devices[i].device->name);
        table_cell(t, c->devices[i].device->file->host);
        table_number(t, (double)c->devices[i].compute_ps * 1e-9, NULL);
        times_cells(t, &c->devices[i].times);
    }
}

static void remarks(struct cli *cli, const struct trace_collectives *c)
{
    struct str s;
    uint64_t runs = 0, matched = 0, partners = 0;
    str_init(&s);
    for (size_t i = 0; i < c->n_rows; i++) {
        runs += c->rows[i].times.runs;
        matched += c->rows[i].times.matched;
        partners += strcmp(c->rows[i].kind, "copy") != 0 ? c->rows[i].times.runs : 0;
    }
    str_addf(&s, "%" PRIu64 " runs on %zu devices. ", runs, c->found.n);
    if (matched)
        str_add(&s, "Waiting is the time until the last device of the group had started, transfer the rest. ");
    if (partners > matched)
        str_addf(&s,
                 "Of %" PRIu64 " runs no partner is in the profile: their waiting cannot be told from the transfer. ",
                 partners - matched);
    if (c->unpaired)
        str_addf(&s, "%" PRIu64 " starts or ends have no other half and are left out. ", c->unpaired);
    wrap_text(&cli->out, str_text(&s), 0, 0, cli->width);
    str_release(&s);
}

static int print_table(struct cli *cli, const struct trace_collectives *c, bool devices, struct error *err)
{
    enum table_format format = trace_format(cli);
    struct table t;
    table_init(&t);
    if (devices)
        devices_table(&t, c);
    else
        rows_table(&t, c);
    int rc = t.row_count || format != TABLE_TEXT
                 ? table_print(&t, &cli->out, format, (size_t)cli->width, cli->color, err)
                 : 0;
    table_release(&t);
    return rc;
}

static int print_text(struct cli *cli, const struct trace_collectives *c, struct error *err)
{
    bool by_device = strcmp(cli_string(cli, "by"), "device") == 0;
    int rc = c->n_rows || strcmp(cli_string(cli, "format"), "text") != 0 ? print_table(cli, c, by_device, err) : 0;
    if (!rc && strcmp(cli_string(cli, "format"), "text") == 0)
        remarks(cli, c);
    return rc;
}

static int fill(struct cli *cli, struct trace *t, void *of, struct jw *w, struct error *err)
{
    (void)cli;
    (void)err;
    trace_collectives_json(t, of, w);
    return 0;
}

static int run(struct cli *cli, struct error *err)
{
    struct trace t;
    struct trace_collectives c = {0};
    int rc = trace_input(cli, &t, err);
    if (!rc)
        rc = trace_collectives(&t, cli_flag(cli, "copies"), &c, err);
    if (!rc && !c.n_rows)
        cli_note(cli, "no collective ran in this profile; --copies shows asynchronous copies as well");
    if (!rc)
        rc = trace_wants_json(cli) ? trace_document(cli, &t, fill, &c, err) : print_text(cli, &c, err);
    if (!rc)
        rc = trace_damage(&t, err);
    trace_collectives_release(&c);
    trace_close(&t);
    return rc;
}

static const char *const description[] = {
    "Collectives of a profile: how often each ran, its size and group where the HLO is in the profile, how long "
    "devices "
    "waited for the last one to start, how long the transfer took, and how much of it ran beside computation of the "
    "same device.",
    TRACE_INPUT_TEXT,
    NULL,
};

static const struct option options[] = {
    {.name = "by",
     .kind = OPTION_STRING,
     .preset = "op",
     .choices = "op device",
     .help = "what a row is: an operation of a program on all devices, or a device"},
    {.name = "copies", .kind = OPTION_FLAG, .help = "count asynchronous copies, to the host for example, as well"},
    OPTION_FORMAT("text md csv html json"),
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay trace collectives profile/plugins/profile/2026_01_02", "all hosts of a run, their clocks aligned"},
    {"assay trace collectives host.xplane.pb --by device", "who waits"},
    {NULL, NULL},
};

const struct command command_trace_collectives = {
    .name = "trace collectives",
    .operands = "PATH...",
    .min_operands = 1,
    .max_operands = -1,
    .operand_complete = COMPLETE_FILE,
    .summary = "collectives of a profile: waiting, transfer, and what computation hides",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
