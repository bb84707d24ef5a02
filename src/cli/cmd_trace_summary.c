// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/trace_input.h"
#include "cli/wrap.h"
#include "record/record.h"
#include "report/doc.h"
#include "report/format.h"
#include "report/table.h"
#include "trace/ops_view.h"
#include "trace/summary.h"

// ---- The untraced latency

static int read_against(struct cli *cli, struct trace_against *a, struct error *err)
{
    struct record_contents contents;
    struct quantity p50;
    a->record = cli_string(cli, "against");
    a->what = "the first median in its report";
    int rc = record_read(&contents, a->record, &cli->arena, err);
    if (rc)
        return rc;
    json_t *report = json_parse(contents.report, contents.report_bytes, a->record, err);
    if (!report)
        return ERR_INPUT;
    bool found = doc_median(doc_at(report, "result"), &p50);
    if (found)
        a->latency_ps = quantity_base(p50) * 1e12;
    json_decref(report);
    return found ? 0
                 : error_set(err, ERR_INPUT, a->record,
                             "has no measured time: give the record of a bench or qualify run");
}

// ---- Text

static void ms_column(struct table *t, const char *title, int rank)
{
    table_column(t, title, "ms", TABLE_RIGHT, rank);
    table_origin(t, ORIGIN_MEASURED);
}

static int devices(struct cli *cli, const struct trace_summary *s, enum table_format format, struct error *err)
{
    struct table t;
    table_init(&t);
    table_column(&t, "device", NULL, TABLE_LEFT, 0);
    table_column(&t, "host", NULL, TABLE_LEFT, 6);
    table_column(&t, "model", NULL, TABLE_LEFT, 3);
    table_column(&t, "events", NULL, TABLE_RIGHT, 4);
    table_column(&t, "steps", NULL, TABLE_RIGHT, 2);
    ms_column(&t, "busy", 0);
    ms_column(&t, "span", 1);
    table_column(&t, "duty", "%", TABLE_RIGHT, 0);
    table_origin(&t, ORIGIN_DERIVED);
    for (size_t i = 0; i < s->n_devices; i++) {
        const struct trace_summary_device *d = &s->devices[i];
        table_row(&t);
        trace_cell(&t, d->device->name);
        table_cell(&t, d->device->file->host);
        table_cell(&t, d->device->model ? d->device->model : "");
        table_count(&t, (double)d->busy.spans);
        table_count(&t, (double)s->steps.of_device[i].n_steps);
        table_number(&t, (double)d->busy.busy_ps / 1e9, NULL);
        table_number(&t, d->busy.spans ? ((double)d->busy.last_ps - (double)d->busy.first_ps) / 1e9 : NAN, NULL);
        table_number(&t, 100 * d->duty, NULL);
    }
    int rc = s->n_devices || format != TABLE_TEXT
                 ? table_print(&t, &cli->out, format, (size_t)cli->width, cli->color, err)
                 : 0;
    table_release(&t);
    return rc;
}

static int idle(struct cli *cli, const struct trace_summary *s, enum table_format format, struct error *err)
{
    struct table t;
    size_t rows = 0;
    table_init(&t);
    table_column(&t, "idle, all devices", NULL, TABLE_LEFT, 0);
    table_column(&t, "meanwhile on hosts", NULL, TABLE_LEFT, 0);
    ms_column(&t, "time", 0);
    for (int place = 0; place < PLACES; place++) {
        for (int fill = 0; fill < FILLS; fill++) {
            double ps = 0;
            for (size_t i = 0; i < s->n_devices; i++)
                ps += (double)s->steps.of_device[i].idle_ps[place][fill];
            if (ps <= 0)
                continue;
            table_row(&t);
            table_cell(&t, trace_place_name((enum trace_place)place));
            table_cell(&t, trace_fill_name((enum trace_fill)fill));
            table_number(&t, ps / 1e9, NULL);
            rows++;
        }
    }
    if (rows)
        str_add_char(&cli->out, '\n');
    int rc = rows ? table_print(&t, &cli->out, format, (size_t)cli->width, cli->color, err) : 0;
    table_release(&t);
    return rc;
}

static int ops(struct cli *cli, const struct trace_summary *s, enum table_format format, struct error *err)
{
    struct table t;
    if (s->ops.n_rows)
        str_add_char(&cli->out, '\n');
    table_init(&t);
    table_column(&t, "operation", NULL, TABLE_LEFT, 0);
    table_column(&t, "category", NULL, TABLE_LEFT, 1);
    table_column(&t, "runs", NULL, TABLE_RIGHT, 1);
    ms_column(&t, "self", 0);
    table_column(&t, "of all", "%", TABLE_RIGHT, 0);
    table_origin(&t, ORIGIN_DERIVED);
    for (size_t i = 0; i < s->ops.n_rows && i < 5; i++) {
        const struct trace_op *op = &s->ops.rows[i];
        struct trace_ops_rates r;
        trace_ops_rate(&s->ops, op, &r);
        table_row(&t);
        trace_cell(&t, op->name);
        trace_cell(&t, op->category);
        table_count(&t, (double)op->occurrences);
        table_number(&t, (double)op->self_ps / 1e9, NULL);
        table_number(&t, 100 * r.share, NULL);
    }
    int rc = s->ops.n_rows ? table_print(&t, &cli->out, format, (size_t)cli->width, cli->color, err) : 0;
    table_release(&t);
    return rc;
}

static int threads_table(struct cli *cli, const struct trace_summary *s, enum table_format format, struct error *err)
{
    struct table t;
    if (s->steps.n_threads)
        str_add_char(&cli->out, '\n');
    table_init(&t);
    table_column(&t, "host thread", NULL, TABLE_LEFT, 0);
    table_column(&t, "host", NULL, TABLE_LEFT, 2);
    table_column(&t, "events", NULL, TABLE_RIGHT, 1);
    ms_column(&t, "busy", 0);
    for (size_t i = 0; i < s->steps.n_threads && i < 5; i++) {
        const struct trace_thread *h = &s->steps.threads[i];
        table_row(&t);
        trace_cell(&t, h->name);
        table_cell(&t, h->file->host);
        table_count(&t, (double)h->busy.spans);
        table_number(&t, (double)h->busy.busy_ps / 1e9, NULL);
    }
    int rc = s->steps.n_threads ? table_print(&t, &cli->out, format, (size_t)cli->width, cli->color, err) : 0;
    table_release(&t);
    return rc;
}

static void say(struct cli *cli, struct str *s)
{
    wrap_text(&cli->out, str_text(s), 0, 0, cli->width);
    str_clear(s);
}

static void head(struct cli *cli, const struct trace *t, const struct trace_summary *s, struct str *text)
{
    str_addf(text, "%zu file%s, %zu plane%s, %zu line%s, %" PRIu64 " event%s. ", t->n_files, t->n_files == 1 ? "" : "s",
             s->n_planes, s->n_planes == 1 ? "" : "s", s->n_lines, s->n_lines == 1 ? "" : "s", s->events,
             s->events == 1 ? "" : "s");
    if (!isnan(s->duty))
        str_addf(text, "Devices were busy for %.1f %% of the time between their first and their last operation. ",
                 100 * s->duty);
    say(cli, text);
}

static void steps(struct cli *cli, const struct trace_steps *s, struct str *text)
{
    char median[FORMAT_MAX], p99[FORMAT_MAX];
    str_addf(text, "Steps: %zu, by %s", s->n, trace_rule_text(s->rule));
    if (s->program.size) {
        str_add(text, ": ");
        str_add_terminal(text, (const char *)s->program.data, s->program.size);
    }
    if (s->n) {
        format_time(median, s->p50_ps * 1e-12);
        format_time(p99, s->p99_ps * 1e-12);
        str_addf(text, "; median %s, p99 %s from start to start, with the tracer on", median, p99);
    }
    str_add(text, ".");
    say(cli, text);
}

static void against(struct cli *cli, const struct trace_against *a, struct str *text)
{
    char latency[FORMAT_MAX];
    format_time(latency, a->latency_ps * 1e-12);
    str_addf(text, "Untraced latency %s (", latency);
    str_add_terminal(text, a->record, strlen(a->record));
    str_addf(text, "): the device is busy for %.1f %% of it; the tracer stretches a step %.2f times.",
             100 * a->busy_share, a->inflation);
    say(cli, text);
}

static int print(struct cli *cli, const struct trace *t, const struct trace_summary *s, const struct trace_against *a,
                 struct error *err)
{
    enum table_format format = trace_format(cli);
    struct str text;
    if (format == TABLE_CSV)
        return devices(cli, s, format, err);
    str_init(&text);
    head(cli, t, s, &text);
    int rc = devices(cli, s, format, err);
    if (!rc)
        rc = idle(cli, s, format, err);
    if (!rc)
        rc = threads_table(cli, s, format, err);
    if (!rc)
        rc = ops(cli, s, format, err);
    str_add_char(&cli->out, '\n');
    steps(cli, &s->steps, &text);
    if (a)
        against(cli, a, &text);
    for (size_t i = 0; i < s->n_warnings; i++) {
        str_add(&text, "Warning: ");
        str_add_terminal(&text, s->warnings[i], strlen(s->warnings[i]));
        str_add(&text, ".");
        say(cli, &text);
    }
    for (size_t i = 0; i < s->n_advice; i++) {
        const struct trace_advice *n = &s->advice[i];
        str_addf(&text, "Try next: %s (%s). It may be that %s. To find out: %s.", n->observed, n->evidence,
                 n->hypothesis, n->next);
        say(cli, &text);
    }
    str_release(&text);
    return rc;
}

struct answer {
    struct trace_summary summary;
    struct trace_against against;
};

static int document(struct cli *cli, struct trace *t, void *of, struct jw *w, struct error *err)
{
    const struct answer *a = of;
    return trace_summary_json(t, &a->summary, cli_given(cli, "against") ? &a->against : NULL, w, err);
}

static int run(struct cli *cli, struct error *err)
{
    struct trace t = {0};
    struct answer a = {0};
    struct threads *threads = NULL;
    int rc = threads_new(&threads, (size_t)cli_int(cli, "threads", 0), err);
    if (!rc && cli_given(cli, "against"))
        rc = read_against(cli, &a.against, err);
    if (!rc)
        rc = trace_input(cli, &t, err);
    if (!rc)
        rc = trace_summary(&t, threads, &a.summary, err);
    if (!rc)
        trace_summary_against(&a.summary, &a.against);
    if (!rc)
        rc = trace_wants_json(cli) ? trace_document(cli, &t, document, &a, err)
                                   : print(cli, &t, &a.summary, cli_given(cli, "against") ? &a.against : NULL, err);
    if (!rc)
        rc = trace_damage(&t, err);
    trace_summary_release(&a.summary);
    trace_close(&t);
    threads_free(threads);
    return rc;
}

static const char *const description[] = {
    "A profile at a glance: what is in it, how long each device and each thread of a host was busy, why devices "
    "waited, "
    "steps, the five longest operations, what the profiler warned of, and which comparisons to make next.",
    TRACE_INPUT_TEXT,
    "Times were taken with the tracer on, so none of them is a latency. With --against a record's untraced median "
    "stands "
    "beside them.",
    NULL,
};

static const struct option options[] = {
    {.name = "against",
     .kind = OPTION_STRING,
     .argument = "RECORD",
     .complete = COMPLETE_DIR,
     .help = "the record of the same program measured without a tracer: the device's share of that time, and how much "
             "the tracer stretched it"},
    OPTION_FORMAT("text md csv html json"),
    OPTION_THREADS,
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay trace summary host.xplane.pb", "the first thing to look at"},
    {"assay trace summary trace/ --against runs/qualify-1", "beside what the program takes without a tracer"},
    {NULL, NULL},
};

const struct command command_trace_summary = {
    .name = "trace summary",
    .operands = "PATH...",
    .min_operands = 1,
    .max_operands = -1,
    .operand_complete = COMPLETE_FILE,
    .summary = "how busy devices were, why they waited, and what to try next",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
