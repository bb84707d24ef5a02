// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "cli/commands.h"
#include "cli/compile_print.h"
#include "cli/options.h"
#include "ir/policy.h"
#include "lab/compile.h"
#include "plan/layout.h"

// ---- The command

static int result(void *of, struct jw *w, struct error *err)
{
    (void)err;
    compile_json(of, w);
    return 0;
}

// 0; 1 when a requirement is not met; ERR_DEVICE when every case was refused or died: then nothing is known.
static int answer(struct cli *cli, const struct compile *c, struct error *err)
{
    size_t known = 0;
    for (size_t i = 0; i < c->n_cases; i++)
        known += c->cases[i].state == COMPILE_DONE || c->cases[i].state == COMPILE_TOO_LARGE;
    if (!known) {
        const struct error *e = &c->cases[0].error;
        return error_set(err, ERR_DEVICE, e->where, "%s", e->message);
    }
    if (c->has_require && !compile_met(c)) {
        cli_note(cli, "the requirement is not met: %s", c->require.text);
        return 1;
    }
    return 0;
}

static int run(struct cli *cli, struct error *err)
{
    struct compile c;
    struct compile_job o = {
        .workload = cli->operands[0],
        .shape = {.batch = cli_int(cli, "batch", 0),
                  .seq = cli_int(cli, "seq", 0),
                  .height = cli_int(cli, "height", 0),
                  .width = cli_int(cli, "width", 0),
                  .steps = cli_int(cli, "steps", 0),
                  .tokens = cli_int(cli, "tokens", 0),
                  .weight_args = cli_string(cli, "weight-args")},
        .sweep = cli_flag(cli, "sweep"),
        .layout = cli_string(cli, "layout"),
        .precision = cli_string(cli, "precision"),
        .no_evidence = cli_flag(cli, "no-evidence"),
        .emulations = true,
        .dump_cost = cli_flag(cli, "dump-cost"),
        .dump = cli_string(cli, "dump"),
        .plugin = cli_string(cli, "plugin"),
        .timeout_s = cli_double(cli, "timeout", 0),
        .efficiency = cli_double(cli, "efficiency", 0),
        .jobs = (int)cli_int(cli, "jobs", 0),
        .require = cli_string(cli, "require"),
        .hash_plugin = cli->json || strcmp(cli_string(cli, "format"), "json") == 0,
        .progress = &cli->progress,
    };
    o.n_targets = cli_strings(cli, "target", &o.targets);
    o.n_policies = cli_strings(cli, "policy", &o.policies);
    o.n_flags = cli_strings(cli, "flag", &o.flags);
    o.n_programs = cli_strings(cli, "program", &o.programs);
    if (!layers_parse(&o.layers, cli_string(cli, "layers")))
        return error_set(err, ERR_INTERNAL, "--layers", "has choices that are not known");
    if (!o.n_targets)
        return error_set(err, ERR_USAGE, "--target", "say what to compile for: v6e:2x4, tpu7x, h100");
    int rc = compile_open(&c, &o, err);
    if (!rc)
        rc = compile_run(&c, err);
    cli_progress_clear(cli);
    if (!rc)
        rc = o.hash_plugin ? cli_document(cli, result, &c, err) : compile_print(cli, &c, err);
    if (!rc)
        rc = answer(cli, &c, err);
    if (!rc && o.dump)
        cli_note(cli, "what the compiler dumped is in %s", o.dump);
    compile_close(&c);
    return rc;
}

static const char *const description[] = {
    "Asks the real compiler about devices that are not there: whether the program fits, what memory and code it takes, "
    "in which order it runs, which arithmetic its products became, and the least time of it all. TPUs are compiled for "
    "by libtpu (`make tpu` fetches it), GPUs by XLA's CUDA plugin (`make gpu`). Nothing is sent anywhere.",
    "WORKLOAD is builtin:gemm:MxKxN:TYPE, builtin:minilm, builtin:transformer-block, a model directory, or a program "
    "of your own: StableHLO as text or bytecode (.mlir), or an HLO module from before optimisation (.hlo.pb, .txt). "
    "It goes to the compiler as it is; with --policy it is rewritten first, and --weight-args says what the policy "
    "stores. A program with mhlo.sharding or sdy shardings is divided over mhlo.num_partitions devices, or all of the "
    "target.",
    "A request may run several programs: an image (builtin:flux2-klein-4b, a diffusers folder) its text encoder, a "
    "step "
    "of its transformer and its image decoder (text, dit, vae); a decoder of text (builtin:llama-3.1-8b, a model "
    "directory) its prompt and a token (prefill, decode). Each is compiled by itself, and the report adds up what all "
    "take in memory; --program chooses among them.",
    "The compiler floor of an operation is the longest of three: its bundles (instructions issued together, one per "
    "cycle) times the iterations of its code over the clock; the rows that it sends through the matrix units over "
    "their published rate; its bytes of main memory over the bandwidth. It is what this code takes at least, not what "
    "it will take: a prediction is the floor over an efficiency that was measured.",
    "Every compilation is in a process of its own: a program on which the compiler aborts is a row with its cause. "
    "Files it makes are removed.",
    NULL,
};

static const struct option options[] = {
    {.name = "target",
     .kind = OPTION_STRINGS,
     .argument = "TARGET",
     .words = chip_words,
     .help = "chip and shape: v6e:2x4, tpu7x (one chip), h100"},
    {.name = "policy",
     .kind = OPTION_STRINGS,
     .argument = "POLICY",
     .words = policy_words,
     .help = "a preset or a spelled-out policy; when not given, models are in f32, those of several programs in bf16, "
             "and programs of your own as they are"},
    {.name = "program",
     .kind = OPTION_STRINGS,
     .argument = "NAME",
     .help = "of a request of several: text, dit or vae of an image, prefill or decode of a decoder; all when not "
             "given"},
    {.name = "layout",
     .kind = OPTION_STRING,
     .argument = "LAYOUT",
     .words = layout_words,
     .help = "divide a model over the target's devices: dp, fsdp, tp, tp+sp, ulysses, ring, or several, as in "
             "fsdp=4,tp=2 or pp=2,tp=4,mb=8; one device's program when not given"},
    {.name = "precision",
     .kind = OPTION_STRING,
     .choices = "default high highest",
     .help = "what every product of a model asks for: default lets a TPU make an f32 product as one bf16 pass; highest "
             "when not given"},
    {.name = "flag",
     .kind = OPTION_STRINGS,
     .argument = "NAME=VALUE",
     .help = "an option of the compiler, as in xla_tpu_scoped_vmem_limit_kib=65536"},
    {.name = "sweep", .kind = OPTION_FLAG, .help = "flags of one name are alternatives: every combination is compiled"},
    OPTION_BATCH(NULL, "texts in one run; the workload's own when not given"),
    OPTION_SEQ(NULL, "tokens per text; the workload's own when not given"),
    OPTION_LAYERS(""),
    OPTION_IMAGE,
    OPTION_TOKENS,
    OPTION_WEIGHT_ARGS,
    {.name = "no-evidence",
     .kind = OPTION_FLAG,
     .help = "do not dump the final code: faster, without arithmetic and floor"},
    {.name = "dump-cost", .kind = OPTION_FLAG, .help = "compile once more without the dump, and say what it costs"},
    {.name = "dump",
     .kind = OPTION_STRING,
     .argument = "DIR",
     .complete = COMPLETE_DIR,
     .help = "keep what the compiler dumps in this folder, which must not exist"},
    {.name = "schedule", .kind = OPTION_FLAG, .help = "show every operation in the order in which it runs"},
    OPTION_TOP("20", "products shown, 0 for all"),
    {.name = "efficiency",
     .kind = OPTION_DOUBLE,
     .argument = "E",
     .min = 1e-3,
     .max = 1,
     .help =
         "floor over measured time on that chip, for the prediction; 0.43 on v6e when not given, unknown elsewhere"},
    {.name = "jobs",
     .kind = OPTION_INT,
     .argument = "N",
     .min = 1,
     .max = 256,
     .help = "compilations at a time; one for every two processors when not given"},
    OPTION_REQUIRE,
    OPTION_PLUGIN,
    {.name = "timeout",
     .kind = OPTION_DOUBLE,
     .argument = "S",
     .min = 1e-3,
     .max = 1e6,
     .help = "seconds that one compilation may take; 300, of a request of several programs 1800, when not given"},
    OPTION_FORMAT("text json md"),
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay compile gemm:4096x4096x4096:bf16 --target v6e", "one product on one chip"},
    {"assay compile builtin:transformer-block --policy bf16 --target v6e:2x4 --layout tp",
     "a block divided over eight chips, with its collectives"},
    {"assay compile builtin:transformer-block --policy bf16 --target v6e:2x4 --layout ring=2,ulysses=4",
     "the same, divided along its tokens"},
    {"assay compile model.mlir --target v5e --target v6e --target tpu7x", "your own program on three chips"},
    {"assay compile builtin:flux2-klein-4b --target v6e", "the three programs of an image, and all of them in memory"},
    {"assay compile builtin:llama-3.1-8b --target v6e:2x2 --layout tp --program decode", "a token of a decoder"},
    {"assay compile builtin:minilm --target v6e --policy bf16 --policy w8a8", "two policies in one table"},
    {"assay compile m.mlir --target v6e --sweep --flag f=1 --flag f=2", "two values of a compiler's option"},
    {NULL, NULL},
};

const struct command command_compile = {
    .name = "compile",
    .operands = "WORKLOAD",
    .min_operands = 1,
    .max_operands = 1,
    .operand_complete = COMPLETE_FILE,
    .summary = "what the real compiler makes of it, without the device: memory, schedule, arithmetic, floor",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
