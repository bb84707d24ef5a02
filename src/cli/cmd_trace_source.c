// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/trace_input.h"
#include "cli/wrap.h"
#include "trace/source.h"

static void name_cell(struct table *t, const struct trace_source_node *n, bool indent)
{
    struct str s;
    str_init(&s);
    for (size_t i = 0; indent && i < n->depth; i++)
        str_add(&s, "  ");
    str_add_n(&s, n->name.data, n->name.size);
    table_cell(t, n->name.size ? str_text(&s) : "(none)");
    str_release(&s);
}

static int print_track(struct cli *cli, const struct trace_ops *o, enum trace_track track, struct error *err)
{
    enum table_format format = trace_format(cli);
    struct trace_source s;
    struct table t;
    size_t top = trace_top(cli), depth = (size_t)cli_int(cli, "depth", 0), left = 0;
    int rc = trace_source(o, track, &cli->arena, &s, err);
    if (rc)
        return rc;
    table_init(&t);
    table_column(&t, track == TRACE_TRACK_SOURCE ? "source" : "scope", NULL, TABLE_LEFT, 0);
    if (format == TABLE_CSV)
        table_column(&t, "depth", NULL, TABLE_RIGHT, 0);
    table_column(&t, "self", "ms", TABLE_RIGHT, 0);
    table_origin(&t, ORIGIN_MEASURED);
    table_column(&t, "with what is below", "ms", TABLE_RIGHT, 1);
    table_origin(&t, ORIGIN_MEASURED);
    table_column(&t, "of all", "%", TABLE_RIGHT, 1);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "runs", NULL, TABLE_RIGHT, 2);
    for (size_t i = 0, shown = 0; i < s.n_nodes; i++) {
        const struct trace_source_node *n = &s.nodes[i];
        if ((depth && n->depth >= depth) || (top && shown >= top)) {
            left++;
            continue;
        }
        shown++;
        table_row(&t);
        name_cell(&t, n, format != TABLE_CSV);
        if (format == TABLE_CSV)
            table_count(&t, (double)n->depth);
        table_number(&t, (double)n->self_ps * 1e-9, NULL);
        table_number(&t, (double)n->total_ps * 1e-9, NULL);
        table_number(&t, o->self_ps ? 100 * (double)n->total_ps / (double)o->self_ps : NAN, NULL);
        table_count(&t, (double)n->executions);
    }
    if (t.row_count || format != TABLE_TEXT)
        rc = table_print(&t, &cli->out, format, (size_t)cli->width, cli->color, err);
    table_release(&t);
    if (!rc && left && format == TABLE_TEXT)
        str_addf(&cli->out, "%zu more row%s; --top 0 --depth 0 shows all\n", left, left == 1 ? "" : "s");
    return rc;
}

static int print_text(struct cli *cli, const struct trace_ops *o, struct error *err)
{
    const char *track = cli_string(cli, "track");
    bool both = !track && strcmp(cli_string(cli, "format"), "text") == 0;
    int rc = 0;
    if (both || !track || strcmp(track, "source") == 0)
        rc = print_track(cli, o, TRACE_TRACK_SOURCE, err);
    if (!rc && both && o->n_rows)
        str_add(&cli->out, "\n");
    if (!rc && (both || (track && strcmp(track, "scope") == 0)))
        rc = print_track(cli, o, TRACE_TRACK_SCOPE, err);
    return rc;
}

static int fill(struct cli *cli, struct trace *t, void *of, struct jw *w, struct error *err)
{
    (void)cli;
    return trace_source_json(t, of, w, err);
}

static int run(struct cli *cli, struct error *err)
{
    struct trace t;
    struct trace_ops o = {0};
    struct threads *threads = NULL;
    int rc = threads_new(&threads, (size_t)cli_int(cli, "threads", 0), err);
    if (rc)
        return rc;
    rc = trace_input(cli, &t, err);
    if (!rc)
        rc = trace_ops(&t, threads, &o, err);
    if (!rc && !o.n_rows)
        cli_note(cli, "no device ran anything in this profile");
    if (!rc)
        rc = trace_wants_json(cli) ? trace_document(cli, &t, fill, &o, err) : print_text(cli, &o, err);
    if (!rc)
        rc = trace_damage(&t, err);
    trace_ops_release(&o);
    trace_close(&t);
    threads_free(threads);
    return rc;
}

static const char *const description[] = {
    "Self time of a profile's devices by where it comes from in the user's program, as two trees: by the stack of "
    "source lines (the line alone where there is no stack), and by the framework's names. A node has its own time and "
    "that with everything below it; all devices are added up.",
    TRACE_INPUT_TEXT,
    NULL,
};

static const struct option options[] = {
    {.name = "track",
     .kind = OPTION_STRING,
     .choices = "source scope",
     .help = "one of the trees; both when not given, but for csv, md and html, which have source"},
    {.name = "depth",
     .kind = OPTION_INT,
     .argument = "N",
     .preset = "0",
     .min = 0,
     .max = 1e9,
     .help = "levels shown, 0 for all"},
    OPTION_TOP("30", "rows shown of each tree, 0 for all; csv has all unless it is given, json always"),
    OPTION_FORMAT("text md csv html json"),
    OPTION_THREADS,
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay trace source host.xplane.pb", "both trees"},
    {"assay trace source host.xplane.pb --track scope --depth 3", "the upper levels of the model"},
    {NULL, NULL},
};

const struct command command_trace_source = {
    .name = "trace source",
    .operands = "PATH...",
    .min_operands = 1,
    .max_operands = -1,
    .operand_complete = COMPLETE_FILE,
    .summary = "self time by source line and by the framework's names",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
