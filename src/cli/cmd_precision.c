// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "api/precision_record.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "report/precision.h"
#include "report/report.h"

static void read_options(struct cli *cli, struct precision_options *o)
{
    o->worker.device = cli_string(cli, "device");
    o->worker.plugin_path = cli_string(cli, "plugin");
    o->worker.threads = (int)cli_int(cli, "threads", 0);
    o->worker.load_timeout_s = o->worker.compile_timeout_s = o->worker.run_timeout_s = cli_double(cli, "timeout", 0);
    o->n_suites = cli_strings(cli, "suite", &o->suites);
    o->seed = (uint64_t)cli_int(cli, "seed", 0);
    o->seed_given = cli_given(cli, "seed");
    o->batch = cli_int(cli, "batch", 0);
    o->features = cli_int(cli, "features", 0);
    o->outputs = cli_int(cli, "outputs", 0);
    o->steps = cli_int(cli, "steps", 0);
    o->trace = cli_flag(cli, "trace");
}

static int render(struct cli *cli, const json_t *doc, const char *format, struct error *err)
{
    enum report_format form;
    if (strcmp(format, "csv") == 0)
        return report_precision_csv(&cli->out, doc, err);
    if (!report_format_parse(format, &form))
        return error_set(err, ERR_INTERNAL, "--format", "%s", format);
    return report_render(&cli->out, doc, NULL, form, (size_t)cli->width, cli->color, err);
}

static int show(struct cli *cli, const struct str *document, struct error *err)
{
    const char *format = cli_string(cli, "format");
    if (cli->json || strcmp(format, "json") == 0) {
        str_add_n(&cli->out, document->text, document->length);
        cli->document = true;
        return 0;
    }
    json_t *doc = json_parse(document->text, document->length, "report.json", err);
    int rc = doc ? render(cli, doc, format, err) : ERR_INTERNAL;
    json_decref(doc);
    return rc;
}

static int run_recorded(struct cli *cli, struct precision *p, struct error *err)
{
    struct record record;
    struct str document;
    int rc = record_open(&record, cli_string(cli, "run-dir"), "precision", cli->argc, cli->argv, err);
    if (rc)
        return rc;
    str_init(&document);
    rc = precision_record(p, &record, &document, err);
    if (rc)
        cli_note(cli, "what was written so far is in %s", record.building);
    else {
        cli->record = arena_strdup(&cli->arena, record_path(&record), err);
        rc = cli->record ? show(cli, &document, err) : ERR_MEMORY;
    }
    str_release(&document);
    return rc;
}

static int run(struct cli *cli, struct error *err)
{
    struct precision p;
    struct precision_options o = {0};
    read_options(cli, &o);
    int rc = precision_open(&p, &o, &cli->progress, err);
    if (rc)
        return rc;
    rc = run_recorded(cli, &p, err);
    bool failed = precision_failed(&p);
    precision_close(&p);
    return rc ? rc : failed ? 1 : 0;
}

static const char *const description[] = {
    "Experiments on what number formats do to products, on inputs that anyone can make again. Each suite runs its "
    "programs on the device, compares with f64, checks known answers, and writes a record with tables, figures, and "
    "the programs as they were given and as the compiler left them. Exit code 1 says that a check does not hold.",
    "Every program is compiled with xla_allow_excess_precision=false, so that a rounding that is asked for takes "
    "place.",
    "Figures are drawn from the record's report.json and carry its hash; `assay report RECORD` says when one is stale.",
    NULL,
};

static const struct option options[] = {
    {.name = "suite",
     .kind = OPTION_STRINGS,
     .argument = "NAME",
     .words = precision_words,
     .help = "a suite to run; may be given several times"},
    OPTION_DEVICE,
    OPTION_PLUGIN,
    {.name = "batch",
     .kind = OPTION_INT,
     .argument = "N",
     .min = 1,
     .max = 65536,
     .help = "rows of the activations; the suite's own when not given"},
    {.name = "features",
     .kind = OPTION_INT,
     .argument = "N",
     .min = 1,
     .max = 1 << 20,
     .help = "contracted extent; the suite's own when not given"},
    {.name = "outputs",
     .kind = OPTION_INT,
     .argument = "N",
     .min = 1,
     .max = 65536,
     .help = "columns of the weights; the suite's own when not given"},
    {.name = "steps",
     .kind = OPTION_INT,
     .argument = "N",
     .min = 1,
     .max = 1e6,
     .help = "timed runs of each program, or steps of training; the suite's own when not given"},
    {.name = "trace", .kind = OPTION_FLAG, .help = "keep the spans of a few warmed runs of each timed program"},
    OPTION_SEED,
    OPTION_THREADS,
    OPTION_TIMEOUT,
    OPTION_FORMAT("text json md html csv"),
    OPTION_RUN_DIR,
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay precision --suite accumulate", "how a sum is accumulated: in f32, in bf16 at every step, or rounded once"},
    {NULL, NULL},
};

const struct command command_precision = {
    .name = "precision",
    .summary = "what number formats do to products: suites of experiments against f64",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
