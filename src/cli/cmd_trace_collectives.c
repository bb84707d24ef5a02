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

enum { GROUP_WIDTH = 28 };

static void rate_columns(struct table *t)
{
    table_column(t, "rate", "GB/s", TABLE_RIGHT, 3);
    table_origin(t, ORIGIN_DERIVED);
    table_column(t, "bus", "GB/s", TABLE_RIGHT, 2);
    table_origin(t, ORIGIN_DERIVED);
    table_column(t, "of links", "%", TABLE_RIGHT, 4);
    table_origin(t, ORIGIN_DERIVED);
}

static void rate_cells(struct table *t, const struct trace_collectives *all, const struct trace_collective *c)
{
    table_number(t, trace_collective_rate(c) * 1e-9, NULL);
    table_number(t, trace_collective_bus_rate(c) * 1e-9, NULL);
    table_number(t, 100 * trace_collective_bus_rate(c) / trace_collectives_links(all).value, NULL);
}

// "4 x 2", or which devices they are.
static void group_cell(struct table *t, const struct trace_collective *r, bool devices)
{
    struct str s;
    str_init(&s);
    if (devices && r->set)
        trace_group_text(&s, r->set, GROUP_WIDTH);
    else if (!devices && r->group_size)
        str_addf(&s, "%" PRId64 " x %" PRId64, r->groups, r->group_size);
    table_cell(t, str_text(&s));
    str_release(&s);
}

static void rows_table(struct table *t, const struct trace_collectives *c)
{
    table_column(t, "collective", NULL, TABLE_LEFT, 0);
    table_column(t, "kind", NULL, TABLE_LEFT, 4);
    table_column(t, "program", NULL, TABLE_LEFT, 7);
    table_column(t, "size", "MB", TABLE_RIGHT, 2);
    table_origin(t, ORIGIN_DERIVED);
    table_column(t, "groups", NULL, TABLE_RIGHT, 4);
    table_column(t, "of devices", NULL, TABLE_LEFT, 6);
    times_columns(t);
    rate_columns(t);
    for (size_t i = 0; i < c->n_rows; i++) {
        const struct trace_collective *r = &c->rows[i];
        table_row(t);
        trace_cell(t, r->name);
        table_cell(t, r->kind);
        table_cellf(t, r->program_id ? "%" PRIu64 : "", r->program_id);
        table_number(t, r->bytes >= 0 ? (double)r->bytes * 1e-6 : NAN, NULL);
        group_cell(t, r, false);
        group_cell(t, r, true);
        times_cells(t, &r->times);
        rate_cells(t, c, r);
    }
}

static void kinds_table(struct table *t, const struct trace_collectives *c)
{
    table_column(t, "kind", NULL, TABLE_LEFT, 0);
    table_column(t, "size", "MB", TABLE_RIGHT, 1);
    table_origin(t, ORIGIN_DERIVED);
    table_column(t, "groups", NULL, TABLE_RIGHT, 2);
    table_column(t, "of devices", NULL, TABLE_LEFT, 6);
    table_column(t, "operations", NULL, TABLE_RIGHT, 5);
    times_columns(t);
    rate_columns(t);
    table_column(t, "bus factor", NULL, TABLE_RIGHT, 5);
    table_origin(t, ORIGIN_DERIVED);
    for (size_t i = 0; i < c->n_kinds; i++) {
        const struct trace_collective *r = &c->kinds[i];
        table_row(t);
        table_cell(t, r->kind);
        table_number(t, r->bytes >= 0 ? (double)r->bytes * 1e-6 : NAN, NULL);
        group_cell(t, r, false);
        group_cell(t, r, true);
        table_count(t, (double)r->operations);
        times_cells(t, &r->times);
        rate_cells(t, c, r);
        table_number(t, trace_bus_factor(r->kind, r->group_size), NULL);
    }
}

static void devices_table(struct table *t, const struct trace_collectives *c)
{
    table_column(t, "device", NULL, TABLE_LEFT, 0);
    table_column(t, "number", NULL, TABLE_RIGHT, 2);
    table_column(t, "host", NULL, TABLE_LEFT, 4);
    table_column(t, "compute", "ms", TABLE_RIGHT, 1);
    table_origin(t, ORIGIN_MEASURED);
    times_columns(t);
    for (size_t i = 0; i < c->found.n; i++) {
        const struct trace_collective_device *d = &c->devices[i];
        table_row(t);
        trace_cell(t, d->device->name);
        table_cellf(t, d->number >= 0 ? "%" PRId64 : "", d->number);
        table_cell(t, d->device->file->host);
        table_number(t, (double)d->compute_ps * 1e-9, NULL);
        times_cells(t, &d->times);
    }
}

// Which devices the numbers in groups are, and what stands behind the rates.
static void group_remarks(struct str *s, const struct trace_collectives *c)
{
    enum { NAMED = 8 };
    size_t named = 0;
    bool rates = false, logical = false;
    for (size_t i = 0; i < c->n_kinds; i++)
        rates |= !isnan(trace_collective_rate(&c->kinds[i]));
    for (size_t i = 0; i < c->n_sets; i++)
        logical |= !c->sets[i]->assigned;
    for (size_t i = 0; i < c->found.n && c->n_sets; i++) {
        if (c->devices[i].number < 0 || named++ >= NAMED)
            continue;
        str_addf(s, "%s%" PRId64 " is ", named == 1 ? "Of the devices in groups, " : ", ", c->devices[i].number);
        str_add_terminal(s, (const char *)c->devices[i].device->name.data, c->devices[i].device->name.size);
    }
    if (named > NAMED)
        str_addf(s, ", and so on (--by device has all)");
    str_add(s, named ? ". " : "");
    if (logical)
        str_add(s, "A program has no device assignment: its own numbers are taken for those of devices. ");
    const struct quantity links = trace_collectives_links(c);
    if (rates && !isnan(links.value))
        str_addf(s, "Links: %.4g GB/s one way for each device, by the chip table. ", links.value * 1e-9);
    if (rates)
        str_add(s, "Rate is the size over the transfer time, bus what that makes of the links: the rate times the "
                   "factor of kind and group size. ");
}

static void remarks(struct cli *cli, const struct trace_collectives *c)
{
    struct str s;
    uint64_t runs = 0, matched = 0, partial = 0, partners = 0;
    str_init(&s);
    for (size_t i = 0; i < c->n_rows; i++) {
        runs += c->rows[i].times.runs;
        matched += c->rows[i].times.matched;
        partial += c->rows[i].times.partial;
        partners += strcmp(c->rows[i].kind, "copy") != 0 ? c->rows[i].times.runs : 0;
    }
    str_addf(&s, "%" PRIu64 " run%s on %zu device%s. ", runs, runs == 1 ? "" : "s", c->found.n,
             c->found.n == 1 ? "" : "s");
    if (matched)
        str_add(&s, "Waiting is the time until the last device of the group had started, transfer the rest. ");
    if (partial)
        str_addf(&s,
                 "Of %" PRIu64 " run%s other devices of the group are not in the profile: if these came later, the "
                 "waiting was longer and the transfer shorter. ",
                 partial, partial == 1 ? "" : "s");
    if (partners > matched)
        str_addf(&s, "Of %" PRIu64 " run%s no partner is in the profile: waiting cannot be told from the transfer. ",
                 partners - matched, partners - matched == 1 ? "" : "s");
    group_remarks(&s, c);
    if (c->unpaired)
        str_addf(&s, "%" PRIu64 " start%s no other half and %s left out. ", c->unpaired,
                 c->unpaired == 1 ? " or end has" : "s or ends have", c->unpaired == 1 ? "is" : "are");
    wrap_text(&cli->out, str_text(&s), 0, 0, cli->width);
    str_release(&s);
}

static int print_table(struct cli *cli, const struct trace_collectives *c,
                       void (*fill)(struct table *t, const struct trace_collectives *c), struct error *err)
{
    struct table t;
    table_init(&t);
    fill(&t, c);
    int rc = table_print(&t, &cli->out, trace_format(cli), (size_t)cli->width, cli->color, err);
    table_release(&t);
    return rc;
}

// Without --by people get the two tables that answer most; a program gets the one that it can tell apart.
static int print_text(struct cli *cli, const struct trace_collectives *c, struct error *err)
{
    const char *by = cli_string(cli, "by");
    bool text = trace_format(cli) == TABLE_TEXT, both = text && !cli_given(cli, "by");
    int rc = 0;
    if (!text || c->n_rows) {
        if (both)
            rc = print_table(cli, c, kinds_table, err);
        if (both)
            str_add_char(&cli->out, '\n');
        if (!rc)
            rc = print_table(cli, c,
                             strcmp(by, "device") == 0 ? devices_table
                             : strcmp(by, "kind") == 0 ? kinds_table
                                                       : rows_table,
                             err);
    }
    if (!rc && text)
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
    "devices waited for the last one to start, how long the transfer took, and how much of it ran beside computation "
    "of the same device.",
    "Groups name devices as the runtime numbers them: the replicas and partitions of a program are looked up in its "
    "device assignment. The rate is the size over the transfer time; bus is the rate times 2(n-1)/n for an all-reduce "
    "among n devices, (n-1)/n for an all-gather, a reduce-scatter and an all-to-all, and 1 for permutes and "
    "broadcasts: then all kinds can be compared with the links.",
    TRACE_INPUT_TEXT,
    NULL,
};

static const struct option options[] = {
    {.name = "by",
     .kind = OPTION_STRING,
     .preset = "op",
     .choices = "op kind device",
     .help = "what a row is: an operation of a program on all devices; all of one kind, size and group; or a device. "
             "Without it, text has the first two"},
    {.name = "copies", .kind = OPTION_FLAG, .help = "count asynchronous copies, to the host for example, as well"},
    OPTION_FORMAT("text md csv html json"),
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay trace collectives profile/plugins/profile/2026_01_02", "all hosts of a run, their clocks aligned"},
    {"assay trace collectives host.xplane.pb --by kind --format csv", "bandwidth by kind, size and group"},
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
