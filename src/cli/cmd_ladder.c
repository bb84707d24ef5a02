// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "api/ladder_record.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/recorded.h"
#include "cli/worker_options.h"
#include "lab/ladder_json.h"

struct call {
    struct ladder_options options;
    struct ladder ladder;
    const struct progress *progress;
};

static int fill(void *of, struct record *record, struct str *document, struct error *err)
{
    struct call *c = of;
    return ladder_record(&c->ladder, &c->options, c->progress, record, document, err);
}

// ---- two records

struct two {
    const char *names[2];
    json_t *documents[2];
};

static int compared(void *of, struct jw *w, struct error *err)
{
    struct two *t = of;
    jw_object(w);
    int rc = ladder_compare_json(t->documents[0], t->documents[1], t->names, w, err);
    jw_object_end(w);
    return rc;
}

static int show_compared(struct cli *cli, struct two *t, struct error *err)
{
    struct str document;
    str_init(&document);
    int rc = record_document(&document, "ladder", NULL, compared, t, err);
    if (!rc)
        rc = cli_show(cli, &document, cli_string(cli, "format"), err);
    str_release(&document);
    return rc;
}

static int compare(struct cli *cli, struct error *err)
{
    struct two t = {{NULL}, {NULL}};
    int rc = 0;
    if (cli->n_operands != 2)
        return error_set(err, ERR_USAGE, "--compare", "takes two records of ladders, not %zu", cli->n_operands);
    for (int i = 0; i < 2 && !rc; i++) {
        struct record_contents record;
        t.names[i] = cli->operands[i];
        rc = record_read(&record, t.names[i], &cli->arena, err);
        if (!rc && !(t.documents[i] = json_parse(record.report, record.report_bytes, "report.json", err)))
            rc = ERR_INPUT;
    }
    if (!rc)
        rc = show_compared(cli, &t, err);
    json_decref(t.documents[0]);
    json_decref(t.documents[1]);
    return rc;
}

// ---- one ladder

static int run(struct cli *cli, struct error *err)
{
    struct call *c = arena_new(&cli->arena, struct call, 1, err);
    if (!c)
        return ERR_MEMORY;
    if (cli_flag(cli, "compare"))
        return compare(cli, err);
    struct ladder_options *o = &c->options;
    c->progress = &cli->progress;
    o->workload = cli->n_operands ? cli->operands[0] : NULL;
    o->reference = cli_string(cli, "reference");
    o->policy = cli_string(cli, "policy");
    o->tokenizer = cli_string(cli, "tokenizer");
    o->worker = cli_worker_options(cli);
    o->worker.kernels = cli_wants_kernels(cli);
    if (cli->n_operands > 1)
        return error_set(err, ERR_USAGE, NULL, "takes one WORKLOAD; --compare takes two records");
    if (!o->reference)
        return error_set(err, ERR_USAGE, "--reference",
                         "is needed: a directory with reference.json and "
                         "taps.safetensors (docs/ladder.md says how one is made)");
    if (!matmul_precision_parse(&o->precision, cli_string(cli, "matmul-precision")))
        return error_set(err, ERR_INTERNAL, "--matmul-precision", "is not known");
    int rc = cli_recorded(cli, "ladder", fill, c, cli_string(cli, "format"), err);
    if (!rc && c->ladder.no_tokenizer)
        cli_note(cli,
                 "the weights come without a tokenizer: the reference's prompts were not encoded (--tokenizer DIR)");
    size_t failed = rc ? 0 : ladder_count(&c->ladder, NULL).fail;
    ladder_release(&c->ladder);
    return rc ? rc : failed ? 1 : 0;
}

static const char *const description[] = {
    "Compares a model with another implementation of it, value by value on the way from its inputs to its "
    "outputs: token embeddings, the first layer's parts, every layer and block, the results. The values of the "
    "other implementation are a reference directory; docs/ladder.md says what is in it and which script makes one "
    "from diffusers and transformers.",
    "Every value is made twice. Injected: from the reference's own values before it, so that what is wrong there "
    "is made there. Chained: from our own, so that what adds up shows. Each is held to the bound of its rung, by "
    "the largest difference in f32 and by the signal to noise ratio in bf16; beyond the bound it is warned of, "
    "far beyond it fails. Exit code 1 when one fails.",
    "--compare takes the records of two ladders, say of two devices, and tells how far each key has moved.",
    NULL,
};

static const struct option options[] = {
    {.name = "reference",
     .kind = OPTION_STRING,
     .argument = "DIR",
     .complete = COMPLETE_DIR,
     .help = "the other implementation's values: reference.json and taps.safetensors"},
    {.name = "tokenizer",
     .kind = OPTION_STRING,
     .argument = "DIR",
     .complete = COMPLETE_DIR,
     .help = "what the reference's prompts are encoded with; the WORKLOAD's own when not given"},
    {.name = "policy",
     .kind = OPTION_STRING,
     .argument = "POLICY",
     .words = policy_words,
     .help = "what to run under; the reference's own type when not given; f64 computes everything in it"},
    OPTION_MATMUL_PRECISION,
    {.name = "compare", .kind = OPTION_FLAG, .help = "compare two records of ladders"},
    OPTION_KERNELS,
    OPTION_DEVICE,
    OPTION_PLUGIN,
    OPTION_THREADS,
    OPTION_TIMEOUT,
    OPTION_FORMAT("text json md html csv"),
    OPTION_RUN_DIR,
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay ladder tiny:1 --reference DIR", "the small FLUX.2 of the tests"},
    {"assay ladder MODEL --reference DIR --policy bf16", "a BERT encoder or a decoder in bf16"},
    {"assay ladder MODEL --reference DIR --matmul-precision default", "as a TPU multiplies f32 unless it is told"},
    {"assay ladder --compare runs/ladder-cpu runs/ladder-tpu", "what another device changes"},
    {NULL, NULL},
};

const struct command command_ladder = {
    .name = "ladder",
    .operands = "[WORKLOAD | RECORD RECORD]",
    .min_operands = 0,
    .max_operands = 2,
    .operand_complete = COMPLETE_DIR,
    .summary = "compare a model with another implementation of it, value by value",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
