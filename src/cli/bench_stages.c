// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_stages.h"

#include <math.h>
#include <string.h>

#include "api/stages_record.h"
#include "cli/recorded.h"
#include "cli/worker_options.h"

struct call {
    struct stages_options options;
    struct stages stages;
    struct stages_device devices[2]; // with --compare
    struct stages_order order;
    const struct progress *progress;
};

int bench_stages_asked(const struct cli *cli, bool *asked, struct error *err)
{
    static const char *const theirs[] = {"--calibrate", "--against", "--text", "--seq", "--weight-args", "--inputs"};
    static const char *const ours[] = {"--height",    "--width",    "--steps",      "--prompt",
                                       "--tokenizer", "--requests", "--calib-size", "--layers"};
    *asked = cli_given(cli, "stages");
    const char *const *names = *asked ? theirs : ours;
    size_t n = *asked ? sizeof theirs / sizeof *theirs : sizeof ours / sizeof *ours;
    for (size_t i = 0; i < n; i++) {
        if (cli_given(cli, names[i] + 2))
            return error_set(err, ERR_USAGE, names[i],
                             *asked ? "does not go with --stages" : "goes with --stages: it is of an image pipeline");
    }
    if (!*asked && !cli_flag(cli, "compare") && strcmp(cli_string(cli, "format"), "text") != 0)
        return error_set(err, ERR_USAGE, "--format",
                         "goes with --stages and --compare; other runs have --json and text");
    return 0;
}

static int fill(void *of, struct record *record, struct str *document, struct error *err)
{
    struct call *c = of;
    return stages_record(&c->stages, &c->options, c->progress, record, document, err);
}

// The value of an option that may be given twice, of which here one is taken; with its dashes.
static int one_of(const struct cli *cli, const char *name, const char **out, struct error *err)
{
    const char *const *values;
    size_t n = cli_strings(cli, name + 2, &values);
    *out = values[0];
    return n == 1 ? 0 : error_set(err, ERR_USAGE, name, "is taken once with --stages");
}

static int read_options(struct cli *cli, struct stages_options *o, struct error *err)
{
    const char *kernels, *const *lists;
    struct klein_options *k = &o->klein;
    if (!cli->n_operands)
        return error_set(err, ERR_USAGE, "--stages",
                         "needs WORKLOAD: builtin:flux2-klein-4b, or a folder of a model of its kind");
    o->workload = cli->operands[0];
    if (!stages_has(o->workload))
        return error_set(err, ERR_USAGE, o->workload,
                         "has no stages: builtin:flux2-klein-4b has, its kin, and folders of one");
    *k = (struct klein_options){.weights = {.tokenizer = cli_string(cli, "tokenizer")},
                                .worker = cli_pipeline_worker(cli),
                                .policy = "bf16",
                                .height = cli_int(cli, "height", 512),
                                .width = cli_int(cli, "width", 512),
                                .steps = cli_int(cli, "steps", 0),
                                .batch = cli_given(cli, "batch") ? cli_int(cli, "batch", 1) : 1,
                                .guidance = NAN};
    o->prompt = cli_string(cli, "prompt") ? cli_string(cli, "prompt") : "a cat on a window sill";
    o->seed = cli_seed(cli);
    o->samples = cli_given(cli, "samples") ? cli_int(cli, "samples", 10) : 10;
    o->requests = cli_int(cli, "requests", 2);
    o->warmup = cli_int(cli, "warmup", -1);
    o->calib_size = cli_int(cli, "calib-size", STAGES_CALIB_SIZE);
    o->trace = cli_flag(cli, "trace");
    if (!layers_parse(&k->layers, cli_string(cli, "layers")))
        return error_set(err, ERR_INTERNAL, "--layers", "has choices that are not known");
    int rc = stages_weights(o->workload, cli_string(cli, "weights"), &cli->arena, &k->weights.weights, err);
    if (!rc && cli_given(cli, "policy"))
        rc = one_of(cli, "--policy", &k->policy, err);
    if (!rc)
        rc = one_of(cli, "--kernels", &kernels, err);
    k->worker.kernels = !rc && strcmp(kernels, "on") == 0;
    size_t n = cli_strings(cli, "stages", &lists);
    for (size_t i = 0; i < n && !rc; i++)
        rc = stages_parse(lists[i], o->wanted, err);
    return rc;
}

// DEVICE, or DEVICE/threads:N.
static int read_device(struct cli *cli, const char *text, struct stages_device *d, struct error *err)
{
    const char *slash = strstr(text, "/threads:");
    int64_t threads = 0;
    d->name = text;
    d->device = slash ? arena_strndup(&cli->arena, text, (size_t)(slash - text), err) : text;
    if (!d->device)
        return ERR_MEMORY;
    if (slash && (!parse_i64(slash + 9, &threads) || threads < 1 || threads > 4096))
        return error_set(err, ERR_USAGE, "--compare", "'%s': expected DEVICE, or DEVICE/threads:N", text);
    d->threads = (int)threads;
    return 0;
}

static int fill_two(void *of, struct record *record, struct str *document, struct error *err)
{
    struct call *c = of;
    return stages_compare_record(&c->options, c->devices, &c->order, c->progress, record, document, err);
}

int bench_stages_run(struct cli *cli, struct error *err)
{
    struct call *c = arena_new(&cli->arena, struct call, 1, err);
    if (!c)
        return ERR_MEMORY;
    bool two = cli_flag(cli, "compare");
    c->progress = &cli->progress;
    if (cli->n_operands > (two ? 3 : 1) || (two && cli->n_operands < 3))
        return error_set(err, ERR_USAGE, two ? "--compare" : "--stages",
                         two ? "takes WORKLOAD and two devices with --stages, and two records without"
                             : "takes one WORKLOAD");
    int rc = read_options(cli, &c->options, err);
    for (int i = 0; i < 2 && !rc && two; i++)
        rc = read_device(cli, cli->operands[1 + i], &c->devices[i], err);
    if (!rc)
        rc = two ? stages_compare_check(&c->options, c->devices, &c->order, err) : stages_check(&c->options, NULL, err);
    if (!rc && two && !c->order.in_turns)
        cli_note(cli, "the devices run one after the other: %s", c->order.why);
    if (rc)
        return rc;
    if (two)
        return cli_recorded(cli, "bench", fill_two, c, cli_string(cli, "format"), err);
    rc = cli_recorded(cli, "bench", fill, c, cli_string(cli, "format"), err);
    stages_release(&c->stages);
    return rc;
}

// ---- two records

static int compared(void *of, struct jw *w, struct error *err)
{
    struct stages_side *sides = of;
    const struct stages_order order = {.why = "they are records, whose samples were taken at different times"};
    return stages_compare_json(&sides[0], &sides[1], &order, w, err);
}

int bench_stages_compare(struct cli *cli, struct error *err)
{
    struct stages_side sides[2];
    struct str document;
    memset(sides, 0, sizeof sides);
    if (cli->n_operands != 2)
        return error_set(err, ERR_USAGE, "--compare",
                         "takes two records of stages, or with --stages WORKLOAD and two devices");
    str_init(&document);
    int rc = 0;
    for (int i = 0; i < 2 && !rc; i++)
        rc = stages_side_open(&sides[i], cli->operands[i], err);
    if (!rc)
        rc = record_document(&document, "bench compare", NULL, compared, sides, err);
    if (!rc)
        rc = cli_show(cli, &document, cli_string(cli, "format"), err);
    for (int i = 0; i < 2; i++)
        stages_side_release(&sides[i]);
    str_release(&document);
    return rc;
}
