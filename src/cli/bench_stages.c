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
    const struct progress *progress;
};

int bench_stages_asked(const struct cli *cli, bool *asked, struct error *err)
{
    static const char *const theirs[] = {"--calibrate",   "--against", "--text", "--seq",
                                         "--weight-args", "--inputs",  "--trace"};
    static const char *const ours[] = {"--height",    "--width",    "--steps",     "--prompt",
                                       "--tokenizer", "--requests", "--calib-size"};
    *asked = cli_given(cli, "stages");
    const char *const *names = *asked ? theirs : ours;
    size_t n = *asked ? sizeof theirs / sizeof *theirs : sizeof ours / sizeof *ours;
    for (size_t i = 0; i < n; i++) {
        if (cli_given(cli, names[i] + 2))
            return error_set(err, ERR_USAGE, names[i],
                             *asked ? "does not go with --stages" : "goes with --stages: it is of an image pipeline");
    }
    if (!*asked && strcmp(cli_string(cli, "format"), "text") != 0)
        return error_set(err, ERR_USAGE, "--format", "goes with --stages; other runs have --json and text");
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
    o->seed = (uint64_t)cli_int(cli, "seed", 0);
    o->samples = cli_given(cli, "samples") ? cli_int(cli, "samples", 10) : 10;
    o->requests = cli_int(cli, "requests", 2);
    o->warmup = cli_int(cli, "warmup", -1);
    o->calib_size = cli_int(cli, "calib-size", STAGES_CALIB_SIZE);
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

int bench_stages_run(struct cli *cli, struct error *err)
{
    struct call *c = arena_new(&cli->arena, struct call, 1, err);
    if (!c)
        return ERR_MEMORY;
    c->progress = &cli->progress;
    int rc = read_options(cli, &c->options, err);
    if (!rc)
        rc = stages_check(&c->options, err);
    if (rc)
        return rc;
    rc = cli_recorded(cli, "bench", fill, c, cli_string(cli, "format"), err);
    stages_release(&c->stages);
    return rc;
}
