// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/trace_input.h"
#include "cli/wrap.h"
#include "report/table.h"
#include "trace/diff.h"

static void text_cell(struct table *t, struct slice s)
{
    struct str text;
    str_init(&text);
    str_add_n(&text, s.data, s.size);
    table_cell(t, s.size ? str_text(&text) : "(none)");
    str_release(&text);
}

static void add_row(struct table *t, const struct trace_diff_row *r)
{
    double a = (double)r->a.sum_ps / (double)r->a.count, b = (double)r->b.sum_ps / (double)r->b.count;
    table_row(t);
    text_cell(t, r->name);
    table_cell(t, !r->b.count ? "vanished" : !r->a.count ? "new" : "");
    table_count(t, (double)r->a.count);
    table_count(t, (double)r->b.count);
    table_number(t, a / 1e6, NULL);
    table_number(t, b / 1e6, NULL);
    table_number(t, r->change_ps / 1e9, NULL);
    table_number(t, 100 * r->mean_change_ps / a, NULL);
    table_number(t, 100 * r->means.low / a, NULL);
    table_number(t, 100 * r->means.high / a, NULL);
}

static int print_rows(struct cli *cli, const char *key, const struct trace_diff_row *rows, size_t n, size_t shown,
                      enum table_format format, struct error *err)
{
    struct table t;
    static const struct {
        const char *title, *unit;
        int rank;
        char origin;
    } columns[] = {
        {"", NULL, 2, 0},         {"runs A", NULL, 4, 0},    {"runs B", NULL, 5, 0},
        {"mean A", "us", 1, 'M'}, {"mean B", "us", 1, 'M'},  {"change", "ms", 0, 'D'},
        {"change", "%", 0, 'D'},  {"at least", "%", 3, 'D'}, {"at most", "%", 3, 'D'},
    };
    table_init(&t);
    table_column(&t, key, NULL, TABLE_LEFT, 0);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        table_column(&t, columns[i].title, columns[i].unit, i ? TABLE_RIGHT : TABLE_LEFT, columns[i].rank);
        if (columns[i].origin)
            table_origin(&t, columns[i].origin);
    }
    for (size_t i = 0; i < n && i < shown; i++)
        add_row(&t, &rows[i]);
    int rc = table_print(&t, &cli->out, format, (size_t)cli->width, cli->color, err);
    table_release(&t);
    return rc;
}

static void say_verdict(struct cli *cli, const struct trace_diff *d, double tolerance, size_t shown)
{
    struct str s;
    str_init(&s);
    if (shown < d->n_rows)
        str_addf(&s, "The first %zu of %zu rows; --top 0 shows all. ", shown, d->n_rows);
    if (d->scale != 1)
        str_addf(&s, "Changes in ms are of A's total, with B's brought to A's number of executions (times %.4g). ",
                 d->scale);
    if (isnan(d->slower))
        str_add(&s, "No program ran in both: whether B is slower cannot be told.");
    else if (isnan(d->range.low))
        str_addf(&s,
                 "B's executions take %+.3g %% of A's time more. With fewer than two of a program that can be "
                 "chance: it cannot be told.",
                 100 * d->slower);
    else
        str_addf(&s,
                 "B's executions take %+.3g %% of A's time more, 95 %% interval %+.3g to %+.3g %%: %s a tolerance "
                 "of %.3g %%.",
                 100 * d->slower, 100 * d->range.low, 100 * d->range.high,
                 d->verdict == TRACE_DIFF_SLOWER       ? "slower, beyond"
                 : d->verdict == TRACE_DIFF_NOT_SLOWER ? "within"
                                                       : "it cannot be told whether that is beyond",
                 100 * tolerance);
    wrap_text(&cli->out, str_text(&s), 0, 0, cli->width);
    str_release(&s);
}

static int print(struct cli *cli, const struct trace *a, const struct trace *b, const struct trace_diff *d,
                 struct error *err)
{
    enum table_format format = trace_format(cli);
    size_t top = trace_top(cli);
    struct error damage = {0};
    int bad = trace_damage(a, &damage), rc = 0;
    if (!bad)
        bad = trace_damage(b, &damage);
    if (trace_wants_json(cli)) {
        struct str text;
        struct jw w;
        str_init(&text);
        jw_init(&w, &text, false);
        trace_diff_json(a, b, d, top * cli_given(cli, "top"), &w);
        rc = jw_finish(&w, err);
        if (!rc)
            rc = cli_envelope(cli, str_text(&text), bad ? &damage : NULL, err);
        str_release(&text);
    } else {
        size_t shown = top && top < d->n_rows ? top : d->n_rows;
        rc = print_rows(cli, cli_string(cli, "by"), d->rows, d->n_rows, shown, format, err);
        if (!rc && format == TABLE_TEXT && d->n_programs) {
            str_add(&cli->out, "\n");
            rc = print_rows(cli, "executions of", d->programs, d->n_programs, d->n_programs, format, err);
        }
        if (!rc && format == TABLE_TEXT)
            say_verdict(cli, d, cli_double(cli, "tolerance", 0) / 100, shown);
    }
    if (!rc && bad)
        *err = damage;
    if (rc || bad)
        return rc ? rc : bad;
    return d->verdict == TRACE_DIFF_SLOWER ? 1 : d->verdict == TRACE_DIFF_UNCLEAR ? 6 : 0;
}

static int run(struct cli *cli, struct error *err)
{
    struct trace a = {0}, b = {0};
    struct trace_diff d;
    struct threads *threads = NULL;
    enum trace_ops_by by = TRACE_BY_OP;
    trace_ops_by_from_name(cli_string(cli, "by"), &by);
    int rc = threads_new(&threads, (size_t)cli_int(cli, "threads", 0), err);
    if (rc)
        return rc;
    rc = trace_open(&a, &cli->operands[0], 1, err);
    if (!rc)
        rc = trace_open(&b, &cli->operands[1], 1, err);
    if (!rc)
        rc = trace_diff(&a, &b, by, cli_double(cli, "tolerance", 0) / 100, threads, &cli->arena, &d, err);
    if (!rc)
        rc = print(cli, &a, &b, &d, err);
    trace_close(&a);
    trace_close(&b);
    threads_free(threads);
    return rc;
}

static const char *const description[] = {
    "What became slower or faster from profile A to profile B, the biggest change first, and what is new or has "
    "vanished. Operations are compared by the mean self time of one occurrence, with a 95 % interval of the difference "
    "(Welch's).",
    TRACE_INPUT_TEXT,
    "The verdict is about executions of the programs that both profiles have. Exit code 1: B is slower by more than "
    "the "
    "tolerance, and the whole interval is beyond it; 6: the interval holds the tolerance, so it cannot be told; else "
    "0.",
    NULL,
};

static const struct option options[] = {
    {.name = "by",
     .kind = OPTION_STRING,
     .preset = "op",
     .choices = "op category scope source",
     .help = "what a row is: an operation of a program, a category, a name of the framework, or a line of the source"},
    {.name = "tolerance",
     .kind = OPTION_DOUBLE,
     .argument = "P",
     .preset = "2",
     .min = 0,
     .max = 1e6,
     .help = "per cent by which B may be slower"},
    OPTION_TOP("30", "rows shown, 0 for all; csv and json have all unless it is given"),
    OPTION_FORMAT("text md csv html json"),
    OPTION_THREADS,
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay trace diff before after --tolerance 1", "did the change cost more than one per cent"},
    {"assay trace diff before after --by source --top 10", "the ten lines of the program that moved most"},
    {NULL, NULL},
};

const struct command command_trace_diff = {
    .name = "trace diff",
    .operands = "A B",
    .min_operands = 2,
    .max_operands = 2,
    .operand_complete = COMPLETE_FILE,
    .summary = "what became slower or faster between two profiles",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
