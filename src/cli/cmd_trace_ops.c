// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/trace_input.h"
#include "cli/wrap.h"
#include "report/format.h"
#include "report/table.h"
#include "trace/ops_view.h"

static void percent_cell(struct table *t, double share)
{
    table_number(t, 100 * share, NULL);
}

static void add_columns(struct table *t, enum trace_ops_by by, const char *key)
{
    const struct {
        const char *title, *unit;
        enum table_align align;
        int rank;
        char origin;
        bool shown;
    } columns[] = {
        {key, NULL, TABLE_LEFT, 0, 0, true},
        {"category", NULL, TABLE_LEFT, 3, 0, by == TRACE_BY_OP},
        {"program", NULL, TABLE_LEFT, 6, 0, by == TRACE_BY_OP || by == TRACE_BY_MODULE},
        {"runs", NULL, TABLE_RIGHT, 2, 0, true},
        {"self", "ms", TABLE_RIGHT, 0, ORIGIN_MEASURED, true},
        {"of all", "%", TABLE_RIGHT, 1, ORIGIN_DERIVED, true},
        {"total", "ms", TABLE_RIGHT, 5, ORIGIN_MEASURED, true},
        {"rate", "TFLOP/s", TABLE_RIGHT, 3, ORIGIN_DERIVED, true},
        {"rate", "GB/s", TABLE_RIGHT, 3, ORIGIN_DERIVED, true},
        {"of peak", "%", TABLE_RIGHT, 4, ORIGIN_DERIVED, true},
        {"bound", NULL, TABLE_LEFT, 4, 0, true},
    };
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        if (!columns[i].shown)
            continue;
        table_column(t, columns[i].title, columns[i].unit, columns[i].align, columns[i].rank);
        if (columns[i].origin)
            table_origin(t, columns[i].origin);
    }
}

static void add_row(struct table *t, const struct trace_ops *o, const struct trace_op *row, enum trace_ops_by by)
{
    struct trace_ops_rates r;
    trace_ops_rate(o, row, &r);
    table_row(t);
    trace_cell(t, row->name);
    if (by == TRACE_BY_OP)
        trace_cell(t, row->is_operation || row->category.size ? row->category
                                                              : (struct slice){(const uint8_t *)"no operation", 12});
    if (by == TRACE_BY_OP || by == TRACE_BY_MODULE)
        table_cellf(t, row->program_id ? "%" PRIu64 : "", row->program_id);
    table_count(t, (double)row->executions);
    table_number(t, (double)row->self_ps / 1e9, NULL);
    percent_cell(t, r.share);
    table_number(t, (double)row->total_ps / 1e9, NULL);
    table_number(t, r.flop_per_s * 1e-12, NULL);
    table_number(t, r.bytes_per_s * 1e-9, NULL);
    percent_cell(t, r.bound && strcmp(r.bound, "compute") == 0 ? r.flop_of_peak : r.bytes_of_peak);
    table_cell(t, r.bound ? r.bound : "");
}

static void peak_sentence(struct str *s, const struct trace_peak *p, const char *what, double unit, const char *name)
{
    char profile[FORMAT_MAX], chip[FORMAT_MAX];
    if (isnan(p->used))
        return;
    format_number(profile, p->profile / unit, 4);
    format_number(chip, p->chip / unit, 4);
    if (isnan(p->profile))
        str_addf(s, "%s: %s %s (%s, the chip table; the profile has none). ", what, chip, name, p->chip_name);
    else if (isnan(p->chip))
        str_addf(s, "%s: %s %s, as the profile has it. ", what, profile, name);
    else if (p->disagree)
        str_addf(s, "%s: %s %s (%s, the chip table); the profile has %s, which is not used. ", what, chip, name,
                 p->chip_name, profile);
    else
        str_addf(s, "%s: %s %s, as the profile has it; the chip table (%s) has %s. ", what, profile, name, p->chip_name,
                 chip);
}

// Where FLOP, bytes and peaks are from.
static void cost_sentences(struct str *s, const struct trace_ops *o)
{
    bool profile = false, hlo = false;
    struct trace_peak flop, memory;
    for (size_t i = 0; i < o->n_rows; i++) {
        profile |= o->rows[i].flop_from == TRACE_COST_PROFILE;
        hlo |= o->rows[i].flop_from == TRACE_COST_HLO;
    }
    if (profile || hlo)
        str_addf(s, "FLOP and bytes are %s%s%s. ", profile ? "the compiler's count in the profile" : "",
                 profile && hlo ? ", and where it has none " : "",
                 hlo ? "counted from the programs' HLO in the profile" : "");
    if (o->hlo_damage)
        str_addf(s, "The HLO of a program cannot be read: it %s. ", o->hlo_damage);
    trace_ops_peak(o, DT_INVALID, &flop, &memory);
    if (profile || hlo) {
        peak_sentence(s, &flop, "Peak for bf16", 1e12, "TFLOP/s");
        peak_sentence(s, &memory, "Memory", 1e9, "GB/s");
    }
}

// What the table does not show, and what it stands on.
static void summary(struct cli *cli, const struct trace *t, const struct trace_ops *o, size_t shown, size_t n)
{
    struct str s;
    char self[FORMAT_MAX];
    size_t overlaps = 0, out_of_range = 0;
    uint64_t events = 0;
    bool async = false;
    str_init(&s);
    for (size_t i = 0; i < o->n_lines; i++) {
        overlaps += o->lines[i].overlaps;
        out_of_range += o->lines[i].out_of_range;
        events += o->lines[i].events;
    }
    for (size_t i = 0; i < o->n_rows; i++)
        async |= o->rows[i].is_async;
    format_time(self, (double)o->self_ps * 1e-12);
    if (shown < n)
        str_addf(&s, "The first %zu of %zu rows; --top 0 shows all. ", shown, n);
    str_addf(&s, "%zu device%s of %zu file%s, %" PRIu64 " event%s, %s of self time, all devices added up. ",
             o->devices.n, o->devices.n == 1 ? "" : "s", t->n_files, t->n_files == 1 ? "" : "s", events,
             events == 1 ? "" : "s", self);
    if (overlaps)
        str_addf(&s, "%zu event%s another one in part: the common time is the later one's. ", overlaps,
                 overlaps == 1 ? " overlaps" : "s overlap");
    if (out_of_range)
        str_addf(&s, "%zu event%s impossible times and %s left out. ", out_of_range,
                 out_of_range == 1 ? " has" : "s have", out_of_range == 1 ? "is" : "are");
    cost_sentences(&s, o);
    if (async)
        str_add(&s, "What starts or ends an asynchronous transfer has no rate: its bytes are not of its own time. ");
    str_add(&s, "A loop's self time is without that of its body.");
    wrap_text(&cli->out, str_text(&s), 0, 0, cli->width);
    str_release(&s);
}

static int print_table(struct cli *cli, const struct trace *t, const struct trace_ops *o, const struct trace_key *by,
                       struct error *err)
{
    enum table_format format = trace_format(cli);
    struct trace_op *rows;
    size_t n, top = trace_top(cli);
    int rc = trace_ops_group(o, by, &cli->arena, &rows, &n, err);
    if (rc)
        return rc;
    size_t shown = top && top < n ? top : n;
    struct table table;
    table_init(&table);
    add_columns(&table, by->by, by->text);
    for (size_t i = 0; i < shown; i++)
        add_row(&table, o, &rows[i], by->by);
    if (n || format != TABLE_TEXT)
        rc = table_print(&table, &cli->out, format, (size_t)cli->width, cli->color, err);
    table_release(&table);
    if (!rc && format == TABLE_TEXT)
        summary(cli, t, o, shown, n);
    return rc;
}

struct asked {
    struct trace_key by;
    struct trace_ops ops;
};

static int document(struct cli *cli, struct trace *t, void *of, struct jw *w, struct error *err)
{
    const struct asked *a = of;
    size_t top = cli_given(cli, "top") ? (size_t)cli_int(cli, "top", 0) : 0;
    return trace_ops_json(t, &a->ops, &a->by, top, w, err);
}

// A statistic that no event has is a slip of the pen, mostly.
static void note_missing(struct cli *cli, const struct asked *a)
{
    for (size_t i = 0; i < a->ops.n_rows; i++) {
        if (a->ops.rows[i].value.size)
            return;
    }
    if (a->by.stat && a->ops.n_rows)
        cli_note(cli,
                 "no operation has a statistic \"%s\"; `assay trace convert PATH -o FILE.csv` shows which there are",
                 a->by.stat);
}

static int run(struct cli *cli, struct error *err)
{
    struct trace t;
    struct asked a = {0};
    struct threads *threads = NULL;
    int rc = trace_key_parse(&a.by, cli_string(cli, "by"), err);
    if (!rc)
        rc = threads_new(&threads, (size_t)cli_int(cli, "threads", 0), err);
    if (rc)
        return rc;
    rc = trace_input(cli, &t, err);
    if (!rc)
        rc = trace_ops_by_stat(&t, threads, a.by.stat, &a.ops, err);
    if (!rc && !a.ops.devices.n)
        cli_note(cli, "no device ran anything in this profile: a capture that is too long, or was made without the "
                      "device's tracer, holds the host alone");
    if (!rc)
        note_missing(cli, &a);
    if (!rc)
        rc = trace_wants_json(cli) ? trace_document(cli, &t, document, &a, err)
                                   : print_table(cli, &t, &a.ops, &a.by, err);
    if (!rc)
        rc = trace_damage(&t, err);
    trace_ops_release(&a.ops);
    trace_close(&t);
    threads_free(threads);
    return rc;
}

static const char *const description[] = {
    "What ran on the devices of a profile, the longest first: how often, how long by itself (without what ran inside "
    "it) and in all. Times are exact sums of the events' picoseconds; on every line self times add up to the time the "
    "line was busy.",
    TRACE_INPUT_TEXT,
    "Kernels and copies that belong to no operation of the program are rows of their own, not idle time. FLOP and "
    "bytes "
    "are the compiler's, where the profile has them, else counted from the program's HLO in the profile, products of "
    "libraries included. Peaks are the profile's and the chip table's.",
    NULL,
};

static const struct option options[] = {
    {.name = "by",
     .kind = OPTION_STRING,
     .preset = "op",
     .argument = "KEY",
     .words = trace_key_words,
     .help = "what a row is: op (an operation of a program), name (without its number), category, module (a program), "
             "scope (a name of the framework), scope:N (its first N parts), source (a line of the program), or "
             "stat:NAME (the value of a statistic of events or of their rows in the table)"},
    OPTION_TOP("30", "rows shown, 0 for all; csv and json have all unless it is given"),
    OPTION_FORMAT("text md csv html json"),
    OPTION_THREADS,
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay trace ops profile/plugins/profile/2026_01_02", "all hosts of a run"},
    {"assay trace ops host.xplane.pb --by source --top 10", "the ten longest lines of the program"},
    {"assay trace ops host.xplane.pb --by scope:3", "parts of a model, as the framework names them"},
    {"assay trace ops host.xplane.pb --by stat:kernel_details", "kernels of a GPU by their launch"},
    {NULL, NULL},
};

const struct command command_trace_ops = {
    .name = "trace ops",
    .operands = "PATH...",
    .min_operands = 1,
    .max_operands = -1,
    .operand_complete = COMPLETE_FILE,
    .summary = "what ran on the devices of a profile, self times first",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
