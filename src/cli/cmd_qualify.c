// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "api/qualify_record.h"
#include "chips/chips.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/recorded.h"
#include "cli/worker_options.h"
#include "ir/policy.h"
#include "plan/layout.h"

static void read_options(struct cli *cli, struct qualify_options *o)
{
    o->workload.directory = cli->operands[0];
    o->workload.text_path = cli_string(cli, "text");
    o->workload.batch = cli_given(cli, "batch") || !program_is(cli->operands[0]) ? cli_int(cli, "batch", 32) : 0;
    o->workload.seq = cli_int(cli, "seq", 0);
    o->workload.weights = cli_string(cli, "weights");
    o->workload.inputs = cli_string(cli, "inputs");
    o->workload.weight_args = cli_string(cli, "weight-args");
    o->workload.seed = cli_seed(cli);
    o->worker = cli_worker_options(cli);
    o->worker.kernels = cli_wants_kernels(cli);
    o->n_policies = cli_strings(cli, "policy", &o->policies);
    o->n_chips = cli_strings(cli, "chip", &o->chips);
    o->n_targets = cli_strings(cli, "target", &o->targets);
    o->layout = cli_string(cli, "layout");
    o->require = cli_string(cli, "require");
    o->calibrate = cli_string(cli, "calibrate");
    o->calibration = cli_string(cli, "calibration");
    o->emulate = cli_flag(cli, "emulate");
    o->trace = cli_flag(cli, "trace");
    o->samples = cli_int(cli, "samples", 30);
    o->warmup = cli_int(cli, "warmup", -1);
    o->seed = cli_seed(cli);
}

static int fill(void *of, struct record *record, struct str *document, struct error *err)
{
    return qualify_record(of, record, document, err);
}

static int run(struct cli *cli, struct error *err)
{
    struct qualify q;
    struct qualify_options o = {0};
    read_options(cli, &o);
    int rc = qualify_open(&q, &o, &cli->progress, err);
    if (rc)
        return rc;
    rc = cli_recorded(cli, "qualify", fill, &q, "text", err);
    bool refused = q.chosen < 0;
    qualify_close(&q);
    return rc ? rc : refused ? 1 : 0;
}

static const char *const description[] = {
    "Reads a model with its weights, prices it, runs it under every policy on the device, compares each with the same "
    "graph in f64, measures all of them in interleaved rounds, and says which policy to ship.",
    "WORKLOAD is a directory in Hugging Face layout (config.json, model.safetensors, vocab.txt) of a BERT sentence "
    "embedding model. The task is retrieval: every text of the file is a query over the others.",
    "Or it is a program of your own as it was exported, StableHLO (.mlir) or an HLO module (.hlo.pb, .hlo.txt), with "
    "--weights and --inputs: every output is compared with that of f64, and the numbers are those of the worst one; "
    "top1 is then the share of rows (last dimension) whose largest element is where f64 has it. docs/from-jax.md "
    "shows the way from JAX.",
    "The requirement is written into the record before anything is measured. The cheapest policy that meets it is the "
    "fastest one, or, where the paired samples cannot tell another from it, the one of them that stores least. Its "
    "metrics are rel_l2, max_abs, snr_db, cosine_min, top1, top10, spearman, p50_ms, p90_ms, min_ms, items_per_s, "
    "weight_bytes, compile_ms and peak_rss_bytes.",
    "A policy is a preset (f32, bf16, f16, w8a16, w8a8, w8a8-static, w4a16, fp8) or spelled out with the fields w, a, "
    "op, acc, red, norm, kv, out, grad, master, opt, as in w=int4/group:64,a=bf16 or w=int8,a=uint8/row. A policy that "
    "fails is a row with its failure; the others go on.",
    "Activations that are quantised have dynamic scales, made in every call (a=int8/row, a=uint8/row, a=int16/row, "
    "a=f8e4m3fn/tensor), or static ones (a=int8/tensor:static, a=int8/tensor:static:p99.9), which are made before "
    "from the texts of --calibrate, or for a program from its cases (.npz, as --inputs takes them). A text or case "
    "that is in both files is refused. What static scales clip on what is judged is counted for each activation.",
    "--target asks the compiler of a TPU, which need not be there, about every policy: its floor and a prediction "
    "stand beside the floor of the sheet, what was measured on such a chip, and what this run measured.",
    "Where a device has no products of a policy's operands its compiler widens or refuses them; the report shows the "
    "types that were really multiplied. With --emulate the program itself uses types that every device has, with the "
    "same values: bf16 for 8-bit floats, int8 for uint8 and int16.",
    NULL,
};

static const struct option options[] = {
    OPTION_DEVICE,
    OPTION_PLUGIN,
    OPTION_CHIP,
    OPTION_TARGETS,
    {.name = "layout",
     .kind = OPTION_STRING,
     .argument = "LAYOUT",
     .words = layout_words,
     .help = "predict the program divided over the target's devices: dp, fsdp, tp, tp+sp, ulysses, ring, or several, "
             "as in dp=2,tp=4"},
    OPTION_CALIBRATION,
    OPTION_POLICIES("a policy to run; the first one is what the others are timed against"),
    OPTION_TEXT("the texts, one per line"),
    OPTION_BATCH("32", "texts in one run of the program"),
    OPTION_SEQ(NULL, "tokens per text, padding included; longer texts are cut; the longest text when not given"),
    OPTION_WEIGHTS,
    OPTION_WEIGHT_ARGS,
    OPTION_INPUTS,
    {.name = "calibrate",
     .kind = OPTION_STRING,
     .argument = "FILE",
     .complete = COMPLETE_FILE,
     .help = "texts, one per line, or a program's cases (.npz) that static activation scales are made from; none may "
             "be among those judged"},
    {.name = "emulate",
     .kind = OPTION_FLAG,
     .help = "make products of 8-bit floats, uint8 and int16 in types that every device has, with the same values"},
    OPTION_KERNELS,
    OPTION_REQUIRE,
    OPTION_SAMPLES("30"),
    OPTION_WARMUP,
    OPTION_TRACE("each policy"),
    OPTION_SEED,
    OPTION_THREADS,
    OPTION_TIMEOUT,
    OPTION_RUN_DIR,
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay qualify minilm --text texts.txt --policy f32 --policy bf16 --policy w8a8 --chip v5e",
     "three policies on the CPU, with the floor on a TPU v5e"},
    {"assay qualify minilm --text texts.txt --policy w8a8 --require 'cosine_min>=0.999 and top1>=0.99'",
     "exit 1 unless the policy is good enough"},
    {"assay qualify minilm --text texts.txt --calibrate others.txt --policy w8a8 --policy w8a8-static",
     "scales made in every call against scales made once, from other texts"},
    {"assay qualify model.hlo.pb --weights model.safetensors --inputs inputs.npz --policy bf16 --policy w8a8",
     "a program of your own"},
    {NULL, NULL},
};

const struct command command_qualify = {
    .name = "qualify",
    .operands = "WORKLOAD",
    .min_operands = 1,
    .max_operands = 1,
    .operand_complete = COMPLETE_DIR,
    .summary = "the main job: price, run under every policy, compare with f64, decide",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
