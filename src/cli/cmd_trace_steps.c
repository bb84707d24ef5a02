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
#include "trace/steps_view.h"

struct answer {
    struct trace_steps steps;
    struct trace_ops ops;
};

static void ms(struct table *t, double ps)
{
    table_number(t, ps / 1e9, NULL);
}

static void ms_column(struct table *t, const char *title, int rank)
{
    table_column(t, title, "ms", TABLE_RIGHT, rank);
    table_origin(t, ORIGIN_MEASURED);
}

static int print_steps(struct cli *cli, const struct trace_steps *s, enum table_format format, size_t shown,
                       struct error *err)
{
    struct table t;
    table_init(&t);
    table_column(&t, "device", NULL, TABLE_LEFT, 0);
    table_column(&t, "step", NULL, TABLE_RIGHT, 0);
    ms_column(&t, "start", 4);
    ms_column(&t, "duration", 0);
    ms_column(&t, "busy", 0);
    ms_column(&t, "idle", 1);
    ms_column(&t, "collective", 3);
    ms_column(&t, "host", 2);
    ms_column(&t, "input", 2);
    table_column(&t, "", NULL, TABLE_LEFT, 1);
    for (size_t i = 0; i < s->n && i < shown; i++) {
        const struct trace_step *a = &s->items[i];
        table_row(&t);
        trace_cell(&t, s->modules.devices.items[a->device].name);
        table_cellf(&t, "%" PRId64, a->index);
        ms(&t, (double)a->start_ps);
        ms(&t, (double)a->duration_ps);
        ms(&t, (double)a->busy_ps);
        ms(&t, (double)a->idle_ps);
        ms(&t, (double)a->collective_ps);
        ms(&t, (double)a->host_ps);
        ms(&t, (double)a->input_ps);
        table_cell(&t, a->outlier ? "outlier" : a->complete ? "" : "last");
    }
    int rc = s->n || format != TABLE_TEXT ? table_print(&t, &cli->out, format, (size_t)cli->width, cli->color, err) : 0;
    table_release(&t);
    return rc;
}

static int print_scopes(struct cli *cli, const struct trace_scope *rows, size_t n, bool loops, enum table_format format,
                        struct error *err)
{
    struct table t;
    table_init(&t);
    if (loops)
        table_column(&t, "program", NULL, TABLE_LEFT, 0);
    table_column(&t, loops ? "loop" : "scope", NULL, TABLE_LEFT, loops ? 2 : 0);
    table_column(&t, "runs per execution", NULL, TABLE_RIGHT, loops ? 0 : 2);
    table_column(&t, "operations", NULL, TABLE_RIGHT, 5);
    ms_column(&t, "per iteration", 0);
    ms_column(&t, "per execution", loops ? 1 : 4);
    ms_column(&t, "per step", loops ? 4 : 1);
    table_column(&t, "time", "%", TABLE_RIGHT, 0);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "FLOP", "%", TABLE_RIGHT, 1);
    table_origin(&t, ORIGIN_DERIVED);
    for (size_t i = 0; i < n; i++) {
        table_row(&t);
        if (loops)
            trace_cell(&t, rows[i].program);
        if (loops && !(rows[i].runs > 1))
            table_cell(&t, "");
        else
            trace_cell(&t, rows[i].scope);
        if (isnan(rows[i].runs))
            table_null(&t, NULL);
        else
            table_cellf(&t, rows[i].runs > 1 ? "%.0f" : "once", rows[i].runs);
        table_count(&t, (double)rows[i].operations);
        ms(&t, rows[i].iteration_ps);
        ms(&t, rows[i].execution_ps);
        ms(&t, rows[i].step_ps);
        table_number(&t, 100 * rows[i].share, NULL);
        table_number(&t, 100 * rows[i].flop_share, NULL);
    }
    int rc = n || format != TABLE_TEXT ? table_print(&t, &cli->out, format, (size_t)cli->width, cli->color, err) : 0;
    table_release(&t);
    return rc;
}

static void time_of(struct str *s, const char *before, double ps)
{
    char text[FORMAT_MAX];
    if (isnan(ps))
        return;
    format_time(text, ps * 1e-12);
    str_addf(s, "%s%s", before, text);
}

// Of the program that took the most time: what runs once in an execution, and what loops repeat.
static void say_loops(struct str *text, const struct trace_scope *rows, size_t n)
{
    double once = 0, repeated = 0;
    char of_once[FORMAT_MAX], of_repeated[FORMAT_MAX];
    for (size_t i = 0; i < n; i++) {
        if (slice_equal(rows[i].program, rows[0].program) && !isnan(rows[i].runs))
            *(rows[i].runs > 1 ? &repeated : &once) += rows[i].execution_ps;
    }
    if (!n || !(repeated > 0))
        return;
    format_time(of_once, once * 1e-12);
    format_time(of_repeated, repeated * 1e-12);
    str_add(text, "In an execution of ");
    str_add_terminal(text, (const char *)rows[0].program.data, rows[0].program.size);
    str_addf(text, " what runs once takes %s, what loops repeat %s. ", of_once, of_repeated);
}

static void say(struct cli *cli, const struct trace_steps *s, const struct trace_scope *rows, size_t n, size_t shown)
{
    struct str text;
    str_init(&text);
    say_loops(&text, rows, n);
    if (shown < s->n)
        str_addf(&text, "The first %zu of %zu steps; --top 0 shows all. ", shown, s->n);
    str_addf(&text, "Steps by %s", trace_rule_text(s->rule));
    if (s->program.size) {
        str_add(&text, ": ");
        str_add_terminal(&text, (const char *)s->program.data, s->program.size);
    }
    str_add(&text, ". ");
    if (s->n) {
        time_of(&text, "From start to start: median ", s->p50_ps);
        time_of(&text, ", p90 ", s->p90_ps);
        time_of(&text, ", p99 ", s->p99_ps);
        time_of(&text, ", smallest ", s->min_ps);
        time_of(&text, ", largest ", s->max_ps);
        str_addf(&text, "; %zu outlier%s. ", s->outliers, s->outliers == 1 ? "" : "s");
        time_of(&text, "Devices start a step within ", s->skew_p50_ps);
        time_of(&text, " (median), ", s->skew_max_ps);
        if (!isnan(s->skew_max_ps))
            str_add(&text, " at most. ");
        time_of(&text, "Hosts start it within ", s->host_skew_p50_ps);
        time_of(&text, " (median), ", s->host_skew_max_ps);
        if (!isnan(s->host_skew_max_ps))
            str_add(&text, " at most. ");
        str_add(&text, "Host and input are parts of the idle time: what hosts did meanwhile.");
    }
    wrap_text(&cli->out, str_text(&text), 0, 0, cli->width);
    str_release(&text);
}

static int print(struct cli *cli, struct answer *a, struct error *err)
{
    enum table_format format = trace_format(cli);
    bool steps = strcmp(cli_string(cli, "by"), "step") == 0, loops = strcmp(cli_string(cli, "by"), "loop") == 0;
    size_t top = trace_top(cli), shown = top && top < a->steps.n ? top : a->steps.n, n = 0;
    struct trace_scope *rows = NULL;
    int rc = steps ? print_steps(cli, &a->steps, format, shown, err)
                   : trace_scopes(&a->steps, &a->ops, loops ? SCOPES_BY_LOOP : SCOPES_BY_NAME, &rows, &n, err);
    if (!rc && !steps)
        rc = print_scopes(cli, rows, n, loops, format, err);
    if (!rc && format == TABLE_TEXT)
        say(cli, &a->steps, rows, loops ? n : 0, steps ? shown : a->steps.n);
    return rc;
}

static int document(struct cli *cli, struct trace *t, void *of, struct jw *w, struct error *err)
{
    struct answer *a = of;
    (void)cli;
    return trace_steps_json(t, &a->steps, &a->ops, w, err);
}

static int run(struct cli *cli, struct error *err)
{
    struct trace t = {0};
    struct answer a = {0};
    struct threads *threads = NULL;
    bool scopes = trace_wants_json(cli) || strcmp(cli_string(cli, "by"), "step") != 0;
    int rc = threads_new(&threads, (size_t)cli_int(cli, "threads", 0), err);
    if (!rc)
        rc = trace_input(cli, &t, err);
    if (!rc)
        rc = trace_steps(&t, cli_string(cli, "program"), threads, scopes ? &a.ops : NULL, &a.steps, err);
    if (!rc)
        rc = trace_wants_json(cli) ? trace_document(cli, &t, document, &a, err) : print(cli, &a, err);
    if (!rc)
        rc = trace_damage(&t, err);
    trace_steps_release(&a.steps);
    trace_ops_release(&a.ops);
    trace_close(&t);
    threads_free(threads);
    return rc;
}

static const char *const description[] = {
    "The steps of a profile, and what each device did in each of them: how long from start to start, busy, idle, in "
    "collectives, and how much of the idle time hosts filled with work or with making and moving input.",
    TRACE_INPUT_TEXT,
    "Steps come from markers where there are any: the device's line Steps, or events of a host with a step's number. "
    "Else each execution of one program is a step: of the program that took the most time of those that ran more than "
    "once on a device. Programs of one name are one: a function compiled for several shapes. The last step of a device "
    "ends with its program and does not count in the percentiles.",
    NULL,
};

static const struct option options[] = {
    {.name = "program",
     .kind = OPTION_STRING,
     .argument = "NAME",
     .help = "a step is each execution of this program, whatever markers say"},
    {.name = "by",
     .kind = OPTION_STRING,
     .preset = "step",
     .choices = "step scope loop",
     .help = "what a row is: a step of a device; a name of the framework, what runs once in an execution apart from "
             "what a loop repeats; or a loop of a program, beside all that runs once in it"},
    OPTION_TOP("30", "steps shown, 0 for all; csv and json have all"),
    OPTION_FORMAT("text md csv html json"),
    OPTION_THREADS,
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay trace steps host.xplane.pb", "every step of every device"},
    {"assay trace steps host.xplane.pb --by scope", "which part of the model a step's time goes to"},
    {"assay trace steps host.xplane.pb --by loop", "layers against what comes before and after them"},
    {"assay trace steps host.xplane.pb --program jit_train_step --format csv", "steps of one program, for a table"},
    {NULL, NULL},
};

const struct command command_trace_steps = {
    .name = "trace steps",
    .operands = "PATH...",
    .min_operands = 1,
    .max_operands = -1,
    .operand_complete = COMPLETE_FILE,
    .summary = "how long each step took, and why devices waited in it",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
