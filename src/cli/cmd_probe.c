// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "api/probe_record.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/recorded.h"
#include "cli/worker_options.h"

struct call {
    struct probe_options options;
    struct probe_run run;
    const struct progress *progress;
};

// One side of MxKxN: digits, and what must follow them.
static bool parse_side(const char **at, char follows, size_t *out)
{
    char *end;
    if (!isdigit((unsigned char)**at))
        return false;
    *out = strtoul(*at, &end, 10);
    bool ok = *end == follows;
    *at = end + (follows != 0);
    return ok;
}

static int parse_shape(const char *text, struct probe_options *o, struct error *err)
{
    const char *at = text;
    if (!parse_side(&at, 'x', &o->m) || !parse_side(&at, 'x', &o->k) || !parse_side(&at, 0, &o->n))
        return error_set(err, ERR_USAGE, "--shape", "\"%.40s\" is no MxKxN such as 128x256x128", text);
    return 0;
}

static int parse_simulate(struct cli *cli, struct probe_options *o, struct error *err)
{
    const char *key = cli_string(cli, "simulate");
    const struct probe_known *k;
    struct str names;
    if (!key)
        return 0;
    o->simulate = probe_known_find(key);
    if (o->simulate && (cli_given(cli, "path") || cli_given(cli, "plugin")))
        return error_set(err, ERR_USAGE, "--simulate",
                         "takes the place of the device and has its own path; leave out "
                         "--path and --plugin");
    if (o->simulate && o->trace)
        return error_set(err, ERR_USAGE, "--trace", "goes with a device: a model is not run on one");
    if (o->simulate && o->claim && strcmp(o->claim, o->simulate->path) != 0)
        return error_set(err, ERR_USAGE, "--dtype-claim", "%s answers the path %s, not %s", key, o->simulate->path,
                         o->claim);
    if (o->simulate)
        return 0;
    str_init(&names);
    for (size_t i = 0; (k = probe_known_at(i)); i++)
        str_addf(&names, "%s%s", i ? ", " : "", k->key);
    error_set(err, ERR_USAGE, "--simulate", "\"%.40s\" is no known device; there are %s", key, str_text(&names));
    str_release(&names);
    return ERR_USAGE;
}

static int fill(void *of, struct record *record, struct str *document, struct error *err)
{
    struct call *c = of;
    return probe_record(&c->run, &c->options, c->progress, record, document, err);
}

static int run(struct cli *cli, struct error *err)
{
    struct call *c = arena_new(&cli->arena, struct call, 1, err);
    if (!c)
        return ERR_MEMORY;
    struct probe_options *o = &c->options;
    c->progress = &cli->progress;
    o->worker = cli_worker_options(cli);
    o->claim = cli_string(cli, "dtype-claim");
    o->tree = cli_flag(cli, "tree");
    o->trace = cli_flag(cli, "trace");
    o->n_paths = cli_strings(cli, "path", &o->paths);
    o->vectors = true;
    o->elements = !o->n_paths && !o->claim;
    int rc = parse_shape(cli_string(cli, "shape"), o, err);
    if (!rc)
        rc = probe_check(o, err);
    if (!rc)
        rc = parse_simulate(cli, o, err);
    if (!rc)
        rc = cli_recorded(cli, "probe", fill, c, cli_string(cli, "format"), err);
    enum probe_answer answer = c->run.claim.answer;
    probe_release(&c->run);
    if (rc || !o->claim)
        return rc;
    return answer == PROBE_YES ? 0 : answer == PROBE_NO ? 1 : 6;
}

static void path_words(struct str *out)
{
    const struct probe_path *p;
    for (size_t i = 0; (p = probe_path_at(i)); i++)
        str_addf(out, "%s\n", p->key);
}

static void known_words(struct str *out)
{
    const struct probe_known *k;
    for (size_t i = 0; (k = probe_known_at(i)); i++)
        str_addf(out, "%s\n", k->key);
}

static const char *const description[] = {
    "What the device's arithmetic really is, read from products whose results tell it: from which format a product is "
    "formed, how it is rounded, how wide sums are, in which order they are added and how they are rounded, what "
    "becomes "
    "of subnormals, NaN and infinity, whether int8 sums are exact, how conversions end. Each finding is put together "
    "as "
    "a software model, which is then run against 10,000 random products of the device; the report says how many of "
    "them "
    "it gives bit for bit, and which known device is nearest.",
    "Products are asked at --shape and again with one row, since devices take other ways for vectors. What the device "
    "refuses, or what its compiler dies of, is a row with the reason.",
    "--dtype-claim TYPE asks whether the device computes that type: operands whole, sums as wide as f32, integer sums "
    "exact. Exit code 1 says that it does not, and which probe showed it; 6 that the probes cannot tell.",
    NULL,
};

static const struct option options[] = {
    OPTION_DEVICE,
    OPTION_PLUGIN,
    {.name = "path",
     .kind = OPTION_STRINGS,
     .argument = "PATH",
     .words = path_words,
     .help = "only this kind of product: f32, f32:highest, bf16, s8...; all when not given"},
    {.name = "dtype-claim",
     .kind = OPTION_STRING,
     .argument = "PATH",
     .words = path_words,
     .help = "does the device compute this type? probes that path alone, or beside those of --path; exit 1 when it "
             "does not, 6 when the probes cannot tell"},
    {.name = "shape",
     .kind = OPTION_STRING,
     .argument = "MxKxN",
     .preset = "128x256x128",
     .help = "of the products: the way a device takes depends on it"},
    {.name = "tree", .kind = OPTION_FLAG, .help = "write down the whole order of every sum"},
    {.name = "simulate",
     .kind = OPTION_STRING,
     .argument = "DEVICE",
     .words = known_words,
     .help = "probe the software model of a known device instead: what it would answer"},
    OPTION_TRACE("each kind of product"),
    OPTION_THREADS,
    OPTION_TIMEOUT,
    OPTION_FORMAT("text json md html"),
    OPTION_RUN_DIR,
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay probe", "everything about this machine's CPU"},
    {"assay probe --device gpu --dtype-claim f32", "does an f32 product use f32?"},
    {"assay probe --path bf16 --shape 512x4096x512 --tree", "the order of long bf16 sums"},
    {"assay probe --simulate h100-bf16", "what such a device would show"},
    {NULL, NULL},
};

const struct command command_probe = {
    .name = "probe",
    .min_operands = 0,
    .max_operands = 0,
    .summary = "what the device's arithmetic really is, confirmed bit for bit",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
