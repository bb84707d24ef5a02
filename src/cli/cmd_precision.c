// SPDX-License-Identifier: Apache-2.0
#include "api/precision_record.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/recorded.h"
#include "cli/worker_options.h"
#include "lab/storage.h"

static int read_options(struct cli *cli, struct precision_options *o, struct error *err)
{
    o->worker = cli_worker_options(cli);
    if (cli_given(cli, "platform"))
        o->worker.device = cli_string(cli, "platform");
    if (cli_given(cli, "platform") && cli_given(cli, "device"))
        return error_set(err, ERR_USAGE, "--platform", "it is another name of --device: give one of them");
    o->n_suites = cli_strings(cli, "suite", &o->suites);
    o->tensor = cli_string(cli, "tensor");
    o->n_policies = cli_strings(cli, "policy", &o->policies);
    o->seed = cli_seed(cli);
    o->seed_given = cli_given(cli, "seed");
    o->batch = cli_int(cli, "batch", 0);
    o->features = cli_int(cli, "features", 0);
    o->outputs = cli_int(cli, "outputs", 0);
    o->steps = cli_int(cli, "steps", 0);
    o->trace = cli_flag(cli, "trace");
    return 0;
}

static int fill(void *of, struct record *record, struct str *document, struct error *err)
{
    return precision_record(of, record, document, err);
}

static int run(struct cli *cli, struct error *err)
{
    struct precision p;
    struct precision_options o = {0};
    int rc = read_options(cli, &o, err);
    if (!rc)
        rc = precision_open(&p, &o, &cli->progress, err);
    if (rc)
        return rc;
    rc = cli_recorded(cli, "precision", fill, &p, cli_string(cli, "format"), err);
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
     .help = "a suite to run: accumulate, lab, ...; without one, or with one that is not known, all are named"},
    {.name = "tensor",
     .kind = OPTION_STRING,
     .argument = "FILE:NAME",
     .complete = COMPLETE_FILE,
     .help = "a matrix of your own: FILE is safetensors, an index, a model directory or GGUF"},
    {.name = "policy",
     .kind = OPTION_STRINGS,
     .argument = "POLICY",
     .words = storage_words,
     .help = "for --tensor: a preset or spelled out, as in int4/group:32 or f8e5m2/cast; a selection when not given"},
    OPTION_DEVICE,
    {.name = "platform", .kind = OPTION_STRING, .argument = "DEVICE", .help = "another name of --device"},
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
    {.name = "trace",
     .kind = OPTION_FLAG,
     .help =
         "keep the spans of a few warmed runs of each program (suite lab: of each timed one), and a profile of them"},
    {.name = "seed",
     .kind = OPTION_SEED64,
     .argument = "N",
     .help = "start of every random stream, up to 2^64-1; when not given the seeds that a suite's recorded figures "
             "belong to, or 0"},
    OPTION_THREADS,
    OPTION_TIMEOUT,
    OPTION_FORMAT("text json md html csv"),
    OPTION_RUN_DIR,
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay precision --suite accumulate", "how a sum is accumulated: in f32, in bf16 at every step, or rounded once"},
    {"assay precision --suite lab --batch 1 --features 127 --outputs 65 --trace",
     "f32, bf16 and int8 operands at another shape, with a profile"},
    {"assay precision --tensor model.safetensors:encoder.layer.0.output.dense.weight --policy w8a8 --policy mxfp4",
     "what two policies do to a matrix of your own, and to its product"},
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
