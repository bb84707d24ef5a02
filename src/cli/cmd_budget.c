// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/wrap.h"
#include "lab/require.h"
#include "plan/budget.h"
#include "report/format.h"
#include "report/table.h"

// --- text
// -----------------------------------------------------------------------------------------------------------------

static void bytes_cells(struct table *t, double bytes)
{
    if (isnan(bytes)) {
        table_null(t, NULL);
        return;
    }
    table_number(t, bytes / 1e9, NULL);
}

static void paragraph(struct cli *cli, const char *text)
{
    wrap_text(&cli->out, text, 0, 0, cli->width);
}

static void escaped(struct str *out, const char *text)
{
    str_add_terminal(out, text, strlen(text));
}

static void count(struct str *out, double n, const char *one)
{
    char text[FORMAT_MAX];
    format_count(text, n);
    str_addf(out, "%s %s%s", text, one, n == 1 ? "" : "s");
}

static void describe_layers(struct str *s, const struct arch *a)
{
    int64_t local = arch_layers_local(a, 0, a->layers), moe = arch_layers_with(a, ARCH_MOE_LAYERS, 0, a->layers);
    str_addf(s, ", %" PRId64 " layer%s", a->layers, a->layers == 1 ? "" : "s");
    if (a->encoder_layers)
        str_addf(s, " after %" PRId64 " of the encoder", a->encoder_layers);
    if (a->hidden)
        str_addf(s, ", hidden %" PRId64, a->hidden);
    if (a->kv_lora)
        str_addf(s, ", %" PRId64 " head%s over latents of %" PRId64 " + %" PRId64, a->heads, a->heads == 1 ? "" : "s",
                 a->kv_lora, a->rope_dim);
    else
        str_addf(s, ", %" PRId64 " head%s of %" PRId64 ", %" PRId64 " of keys and values", a->heads,
                 a->heads == 1 ? "" : "s", a->head_dim, a->kv_heads);
    if (moe)
        str_addf(s, ", %" PRId64 " layer%s with %" PRId64 " experts of which a token passes %" PRId64, moe,
                 moe == 1 ? "" : "s", a->experts, a->active_experts);
    if (local)
        str_addf(s, ", %" PRId64 " layer%s with a window of %" PRId64 " tokens", local, local == 1 ? "" : "s",
                 a->window);
}

static void describe_model(struct cli *cli, const struct budget *b)
{
    const struct arch *a = &b->arch;
    const struct weights *w = &b->weights;
    struct str s;
    char text[FORMAT_MAX];
    str_init(&s);
    escaped(&s, a->name);
    str_addf(&s, ": %s", arch_kind_name(a->kind));
    if (a->layers)
        describe_layers(&s, a);
    str_add(&s, "; ");
    count(&s, b->stored.parameters, "parameter");
    if (a->active_parameters > 0 && a->active_parameters < a->parameters) {
        format_count(text, a->active_parameters);
        str_addf(&s, ", of which a token passes %s", text);
    }
    if (a->published > 0)
        str_add(&s, a->published == a->parameters ? ", as published" : ", not the number that is published");
    str_add(&s, ". Weights ");
    format_bytes(text, w->bytes + w->scale_bytes);
    str_addf(&s, "%s", text);
    format_bytes_binary(text, w->bytes + w->scale_bytes);
    str_addf(&s, " (%s)", text);
    if (w->parameters > 0)
        str_addf(&s, ", %.4g bits a parameter", 8 * (w->bytes + w->scale_bytes) / w->parameters);
    str_addf(&s, ": %s.", w->how);
    if (w->unpacked_bytes > 0) {
        format_bytes(text, w->unpacked_bytes);
        str_addf(&s, " Low-bit codes are packed; a byte each would take %s more.", text);
    }
    paragraph(cli, str_text(&s));
    str_release(&s);
}

static void describe_job(struct cli *cli, const struct budget *b, int64_t batch)
{
    const struct budget_job *j = &b->job;
    struct str s;
    str_init(&s);
    str_addf(&s, "%s ", j->train ? "Training on" : "Serving");
    if (b->arch.kind == ARCH_DIFFUSION && batch) {
        count(&s, (double)batch, "image");
        str_addf(&s, " of %" PRId64 "x%" PRId64, j->height, j->width);
    } else if (b->arch.kind == ARCH_DIFFUSION) {
        str_addf(&s, "an image of %" PRId64 "x%" PRId64 " on each way of the batch", j->height, j->width);
    } else if (batch) {
        count(&s, (double)batch, "sequence");
        str_addf(&s, " of %" PRId64 " token%s", j->seq, j->seq == 1 ? "" : "s");
    } else {
        str_addf(&s, "a sequence of %" PRId64 " token%s on each way of the batch", j->seq, j->seq == 1 ? "" : "s");
    }
    if (j->train) {
        str_addf(&s, ", %s: ", j->recipe.name);
        recipe_formula(&j->recipe, &s);
        str_addf(&s, " a parameter%s", b->arch.kind == ARCH_DIFFUSION ? " of the denoiser" : "");
    } else if (b->arch.kind != ARCH_DIFFUSION && b->arch.kind != ARCH_ENCODER && b->arch.layers) {
        str_addf(&s, ", cache in %s", dtype_name(j->kv));
    }
    str_add(&s, ".");
    paragraph(cli, str_text(&s));
    str_release(&s);
}

// What the model's weights are, by part and type, before any layout.
static int print_weights(struct cli *cli, const struct budget *b, struct error *err)
{
    struct weight_total rows[24];
    size_t n = weights_totals(&b->weights, &b->arch, true, true, rows, sizeof rows / sizeof *rows);
    char text[FORMAT_MAX];
    struct table t;
    if (n < 2)
        return 0;
    table_init(&t);
    table_column(&t, "weights of", NULL, TABLE_LEFT, 0);
    table_column(&t, "stored as", NULL, TABLE_LEFT, 0);
    table_column(&t, "parameters", NULL, TABLE_RIGHT, 1);
    table_column(&t, "values", "GB", TABLE_RIGHT, 0);
    table_origin(&t, b->weights.stored ? ORIGIN_SHEET : ORIGIN_DERIVED);
    table_column(&t, "scales", "GB", TABLE_RIGHT, 2);
    table_origin(&t, b->weights.stored ? ORIGIN_SHEET : ORIGIN_DERIVED);
    for (size_t i = 0; i < n; i++) {
        table_row(&t);
        table_cell(&t, rows[i].part);
        table_cell(&t, rows[i].type);
        format_count(text, rows[i].elements);
        table_number(&t, rows[i].elements, text);
        bytes_cells(&t, rows[i].bytes);
        bytes_cells(&t, rows[i].scale_bytes);
    }
    int rc = table_print(&t, &cli->out, TABLE_TEXT, (size_t)cli->width, cli->color, err);
    table_release(&t);
    str_add_char(&cli->out, '\n');
    return rc;
}

static int print_rows(struct cli *cli, const struct budget_case *c, struct error *err)
{
    struct table t;
    table_init(&t);
    table_column(&t, "what", NULL, TABLE_LEFT, 0);
    table_column(&t, "in all", "GB", TABLE_RIGHT, 2);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "device", "GB", TABLE_RIGHT, 0);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "device", "GiB", TABLE_RIGHT, 1);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "how", NULL, TABLE_LEFT, 3);
    for (int i = 0; i < c->n_rows; i++) {
        const struct budget_row *r = &c->rows[i];
        table_row(&t);
        table_cell(&t, r->name);
        bytes_cells(&t, r->once);
        bytes_cells(&t, r->device);
        table_number(&t, r->device / 0x1p30, NULL);
        table_cell(&t, r->how);
    }
    table_row(&t);
    table_cell(&t, "all");
    table_style(&t, TABLE_STRONG);
    table_null(&t, NULL);
    bytes_cells(&t, c->device);
    table_number(&t, c->device / 0x1p30, NULL);
    int rc = table_print(&t, &cli->out, TABLE_TEXT, (size_t)cli->width, cli->color, err);
    table_release(&t);
    return rc;
}

static double group_bytes(const struct budget_case *c, enum budget_group group)
{
    double sum = 0;
    for (int i = 0; i < c->n_rows; i++)
        sum += c->rows[i].group == group ? c->rows[i].device : 0;
    return sum;
}

static int print_cases(struct cli *cli, const struct budget *b, struct error *err)
{
    struct table t;
    bool train = b->job.train;
    table_init(&t);
    table_column(&t, "target", NULL, TABLE_LEFT, 0);
    table_column(&t, "layout", NULL, TABLE_LEFT, 0);
    const struct {
        const char *title;
        enum budget_group group;
        int rank;
    } groups[] = {{"weights", BUDGET_WEIGHTS, 3},
                  {train ? "state" : "cache", train ? BUDGET_STATE : BUDGET_CACHE, 3},
                  {"activations", BUDGET_ACTIVATIONS, 4},
                  {"workspace", BUDGET_WORKSPACE, 5}};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        table_column(&t, groups[i].title, "GiB", TABLE_RIGHT, groups[i].rank);
        table_origin(&t, ORIGIN_DERIVED);
    }
    table_column(&t, "device", "GiB", TABLE_RIGHT, 1);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "usable", "GiB", TABLE_RIGHT, 2);
    table_column(&t, "fits", NULL, TABLE_LEFT, 0);
    table_column(&t, b->arch.kind == ARCH_DIFFUSION ? "images" : "sequences", NULL, TABLE_RIGHT, 2);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "tokens each", NULL, TABLE_RIGHT, 6);
    table_origin(&t, ORIGIN_DERIVED);
    for (size_t i = 0; i < b->n_cases; i++) {
        const struct budget_case *c = &b->cases[i];
        table_row(&t);
        table_cell(&t, c->has_target ? c->target_text : FORMAT_NULL);
        table_cell(&t, c->layout_text);
        for (size_t k = 0; k < sizeof groups / sizeof *groups; k++)
            table_number(&t, group_bytes(c, groups[k].group) / 0x1p30, NULL);
        table_number(&t, c->device / 0x1p30, NULL);
        if (isnan(c->limit))
            table_null(&t, c->has_target ? c->usable.source : NULL);
        else
            table_number(&t, c->limit / 0x1p30, NULL);
        table_cell(&t, isnan(c->limit) ? FORMAT_NULL : c->fits ? "yes" : "no");
        table_style(&t, isnan(c->limit) ? TABLE_PLAIN : c->fits ? TABLE_GOOD : TABLE_BAD);
        if (isnan(c->most_sequences))
            table_null(&t, NULL);
        else
            table_count(&t, c->most_sequences);
        if (isnan(c->most_tokens))
            table_null(&t, NULL);
        else
            table_count(&t, c->most_tokens);
    }
    int rc = table_print(&t, &cli->out, TABLE_TEXT, (size_t)cli->width, cli->color, err);
    table_release(&t);
    return rc;
}

// "31.25 GiB (33.6 GB)".
static void both(struct str *s, double bytes)
{
    char binary[FORMAT_MAX], decimal[FORMAT_MAX];
    format_bytes_binary(binary, bytes);
    format_bytes(decimal, bytes);
    str_addf(s, "%s (%s)", binary, decimal);
}

// How much fits, appended as sentences.
static void capacity(struct str *s, const struct budget *b, const struct budget_case *c)
{
    bool images = b->arch.kind == ARCH_DIFFUSION;
    if (c->most_sequences < 1)
        str_addf(s, " Not one %s", images ? "image" : "sequence");
    else
        str_add(s, " At once fit ");
    if (c->most_sequences >= 1)
        count(s, c->most_sequences, images ? "image" : "sequence");
    if (images)
        str_addf(s, " of %" PRId64 "x%" PRId64, b->job.height, b->job.width);
    else
        str_addf(s, " of %" PRId64 " token%s", b->job.seq, b->job.seq == 1 ? "" : "s");
    if (c->most_sequences < 1)
        str_add(s, " fits");
    if (c->most_tokens >= 1) {
        str_addf(s, "; %" PRId64 " at once may be of ", c->batch);
        count(s, c->most_tokens, "token");
        if (b->arch.max_positions && c->most_tokens > (double)b->arch.max_positions)
            str_addf(s, " (the model was made for %" PRId64 ")", b->arch.max_positions);
    }
    str_add(s, ".");
}

static void verdict(struct cli *cli, const struct budget *b, const struct budget_case *c)
{
    struct str s;
    if (isnan(c->limit)) {
        paragraph(cli, "Whether it fits depends on the chip: --chip v6e, --chip v5p-8, --chip h100:8.");
        return;
    }
    str_init(&s);
    str_addf(&s, "%s on %s, %s: ", c->fits ? "Fits" : "Does not fit", c->target_text, c->layout_text);
    both(&s, c->device);
    str_add(&s, " of ");
    both(&s, c->limit);
    if (isnan(c->usable.value))
        str_add(&s, " nominal; how much of it is usable is not known");
    else
        str_addf(&s, " usable a device%s", b->utilization < 1 ? " times the utilization" : "");
    if (!isnan(c->usable.value)) {
        str_add(&s, ", nominal ");
        both(&s, c->nominal.value);
    }
    str_add(&s, ".");
    if (!isnan(c->most_sequences))
        capacity(&s, b, c);
    paragraph(cli, str_text(&s));
    str_release(&s);
}

static int print_fixes(struct cli *cli, const struct budget_case *c, struct error *err)
{
    struct table t;
    if (!c->n_fixes) {
        if (!c->fits && !isnan(c->limit))
            paragraph(cli, "No single change that is known here makes it fit.");
        return 0;
    }
    str_add_char(&cli->out, '\n');
    table_init(&t);
    table_column(&t, "what would change", NULL, TABLE_LEFT, 0);
    table_column(&t, "device", "GiB", TABLE_RIGHT, 0);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "fits", NULL, TABLE_LEFT, 0);
    for (int i = 0; i < c->n_fixes; i++) {
        table_row(&t);
        table_cell(&t, c->fixes[i].change);
        table_number(&t, c->fixes[i].device / 0x1p30, NULL);
        table_cell(&t, c->fixes[i].fits ? "yes" : "no");
        table_style(&t, c->fixes[i].fits ? TABLE_GOOD : TABLE_BAD);
    }
    int rc = table_print(&t, &cli->out, TABLE_TEXT, (size_t)cli->width, cli->color, err);
    table_release(&t);
    return rc;
}

// Where no case fits: what would help the one that comes nearest.
static int print_nearest(struct cli *cli, const struct budget *b, struct error *err)
{
    const struct budget_case *nearest = NULL;
    for (size_t i = 0; i < b->n_cases; i++) {
        const struct budget_case *c = &b->cases[i];
        if (c->fits || isnan(c->limit))
            return 0;
        if (!nearest || c->device - c->limit < nearest->device - nearest->limit)
            nearest = c;
    }
    if (!nearest)
        return 0;
    struct str s;
    str_init(&s);
    str_addf(&s, "None fits. Nearest is %s on %s, which lacks ", nearest->layout_text, nearest->target_text);
    both(&s, nearest->device - nearest->limit);
    str_add(&s, " a device.");
    paragraph(cli, str_text(&s));
    str_release(&s);
    return print_fixes(cli, nearest, err);
}

static void note(struct cli *cli, const char *what, const char *text)
{
    struct str s;
    if (!text)
        return;
    str_init(&s);
    str_addf(&s, "%s: ", what);
    escaped(&s, text);
    str_add(&s, ".");
    paragraph(cli, str_text(&s));
    str_release(&s);
}

static int print_text(struct cli *cli, struct budget *b, struct error *err)
{
    int rc = 0;
    describe_model(cli, b);
    describe_job(cli, b, b->n_cases == 1 ? b->cases[0].batch : b->job.batch);
    str_add_char(&cli->out, '\n');
    if (b->n_cases == 1) {
        rc = print_weights(cli, b, err);
        if (!rc)
            rc = print_rows(cli, &b->cases[0], err);
        str_add_char(&cli->out, '\n');
        verdict(cli, b, &b->cases[0]);
        if (!rc)
            rc = print_fixes(cli, &b->cases[0], err);
    } else {
        rc = print_cases(cli, b, err);
        str_add_char(&cli->out, '\n');
        if (!rc)
            rc = print_nearest(cli, b, err);
    }
    note(cli, "Left out", b->skipped);
    note(cli, "Assumed, since the configuration does not say", b->arch.assumed);
    note(cli, "Note", b->arch.note);
    note(cli, "Note", b->weights.note);
    note(cli, "Note", b->mismatch);
    paragraph(cli, "1 GB = 10^9 B, 1 GiB = 2^30 B. Not counted: the program itself and what its compiler keeps between "
                   "operations (`assay compile` tells), buffers of the runtime, fragmentation; --reserve keeps room.");
    return rc;
}

// --- the command
// -----------------------------------------------------------------------------------------------------------------

static int result(void *of, struct jw *w, struct error *err)
{
    return budget_json(of, w, err);
}

// 1 when some case does not meet what was required; negative on a mistake in it.
static int required(struct cli *cli, const struct budget *b, const struct require *r)
{
    int rc = 0;
    for (size_t i = 0; i < b->n_cases; i++) {
        const struct budget_case *c = &b->cases[i];
        for (int k = 0; k < r->n; k++) {
            const char *m = r->clauses[k].metric;
            char why[160];
            double v = strcmp(m, "fits") == 0           ? (isnan(c->limit) ? NAN : c->fits)
                       : strcmp(m, "device_gib") == 0   ? c->device / 0x1p30
                       : strcmp(m, "headroom_gib") == 0 ? (c->limit - c->device) / 0x1p30
                       : strcmp(m, "sequences") == 0    ? c->most_sequences
                                                        : c->most_tokens;
            if (require_holds(r, k, v, why))
                continue;
            cli_note(cli, "%s, %s: %s", c->has_target ? c->target_text : "no target", c->layout_text, why);
            rc = 1;
        }
    }
    return rc;
}

static int run(struct cli *cli, struct error *err)
{
    static const char *const metrics[] = {"fits", "device_gib", "headroom_gib", "sequences", "tokens", NULL};
    struct budget b;
    struct require r = {.n = 0};
    struct budget_options o = {
        .workload = cli->n_operands ? cli->operands[0] : NULL,
        .params = cli_string(cli, "params"),
        .cache = cli_string(cli, "cache"),
        .policy = cli_string(cli, "policy"),
        .batch = cli_int(cli, "batch", 0),
        .seq = cli_int(cli, "seq", 0),
        .train = cli_string(cli, "train"),
        .remat = cli_string(cli, "remat"),
        .naive_attention = strcmp(cli_string(cli, "attention"), "naive") == 0,
        .page = cli_int(cli, "page", 0),
        .prefill = cli_int(cli, "prefill", 0),
        .reserve_bytes = cli_double(cli, "reserve", 0) * 0x1p30,
        .utilization = cli_double(cli, "utilization", 1),
        .unpacked = strcmp(cli_string(cli, "low-bits"), "unpacked") == 0,
        .weights_only = cli_flag(cli, "weights-only"),
        .height = cli_int(cli, "height", 0),
        .width = cli_int(cli, "width", 0),
    };
    o.n_targets = cli_strings(cli, "chip", &o.targets);
    o.n_layouts = cli_strings(cli, "layout", &o.layouts);
    if (cli_given(cli, "require")) {
        int rc = require_parse(&r, cli_string(cli, "require"), metrics, &cli->arena, err);
        if (rc)
            return rc;
    }
    if (!o.train && cli_given(cli, "remat"))
        return error_set(err, ERR_USAGE, "--remat", "is of training: give --train, too");
    int rc = budget_open(&b, &o, err);
    if (!rc)
        rc = cli->json ? cli_document(cli, result, &b, err) : print_text(cli, &b, err);
    if (!rc)
        rc = required(cli, &b, &r);
    budget_close(&b);
    return rc;
}

static const char *const description[] = {
    "Whether a model fits: weights, cache of keys and values, training state, activations and workspace, divided by a "
    "layout, against the memory that a device can really use; how many sequences, tokens or images fit; and what would "
    "make it fit. Nothing runs, and of weights only the headers are read.",
    "WORKLOAD is a directory with config.json (and safetensors, whose types are then counted as stored), a "
    "config.json, "
    "a .safetensors file or index, a .gguf file, or builtin:NAME; or none, with --params. Families of config.json: "
    "llama, "
    "mistral, mixtral, granite, smollm3, olmo2, qwen2, qwen2_moe, qwen3, qwen3_moe, phi3, gemma, gemma2, gemma3, "
    "deepseek_v2, deepseek_v3, gpt_oss, gpt2, bert, roberta, xlm-roberta, distilbert, t5, whisper.",
    "CHIP is a chip or a slice: v6e, v6e:2x4, v5p-8, h100:8, v5e:16x16*2 (two slices). A LAYOUT is terms joined by "
    "commas "
    "whose product is the number of devices: dp=, fsdp=, tp=, ulysses=, ring=, pp=, ep=, and sp (with tp), zero=1 or 2 "
    "(with dp), mb= microbatches (with pp). One of them may go without a number and takes the devices that are left. "
    "Without --layout every one that can be is shown.",
    "The exit code is 0 also when it does not fit, unless --require says otherwise.",
    NULL,
};

static const struct option options[] = {
    {.name = "params",
     .kind = OPTION_STRING,
     .argument = "N",
     .help = "a number of parameters in place of a model: 300M, 70B"},
    {.name = "cache",
     .kind = OPTION_STRING,
     .argument = "LxHxD",
     .help = "with --params: the cache has L layers of H heads (of keys and values) of D"},
    {.name = "chip",
     .kind = OPTION_STRINGS,
     .argument = "CHIP",
     .words = chip_words,
     .help = "a chip or a slice to fit on"},
    {.name = "layout",
     .kind = OPTION_STRINGS,
     .argument = "LAYOUT",
     .words = layout_words,
     .help = "how devices share the work, as in fsdp=4,tp=2,sp"},
    {.name = "policy",
     .kind = OPTION_STRING,
     .argument = "POLICY",
     .words = policy_words,
     .help =
         "how weights (w=) and cache (kv=) are stored, in training also grad=, master= and opt=; as they are stored "
         "when not given"},
    OPTION_BATCH(NULL,
                 "sequences (images) at once on all devices together; one for each way that divides the batch when "
                 "not given"),
    {.name = "seq",
     .kind = OPTION_INT,
     .argument = "N",
     .min = 1,
     .max = 0x1p30,
     .help = "tokens of a sequence; 4096, or fewer where the model was made for fewer, when not given"},
    {.name = "train",
     .kind = OPTION_STRING,
     .argument = "RECIPE",
     .words = recipe_words,
     .help = "train instead of serve: adam-18, adam-16, adam-8bit, adafactor, sgd, sgd-momentum"},
    {.name = "remat",
     .kind = OPTION_STRING,
     .choices = "none selective full",
     .help = "what is computed again in place of being kept: nothing, attention scores, or all but the input of each "
             "layer"},
    {.name = "attention",
     .kind = OPTION_STRING,
     .preset = "flash",
     .choices = "flash naive",
     .help = "naive attention holds the scores of all pairs of tokens"},
    {.name = "page",
     .kind = OPTION_INT,
     .argument = "N",
     .preset = "16",
     .min = 1,
     .max = 65536,
     .help = "tokens in a page of the cache; 1 for a cache without pages"},
    {.name = "prefill",
     .kind = OPTION_INT,
     .argument = "N",
     .preset = "2048",
     .min = 1,
     .max = 0x1p30,
     .help = "tokens of a prompt that run at once"},
    {.name = "low-bits",
     .kind = OPTION_STRING,
     .preset = "packed",
     .choices = "packed unpacked",
     .help = "whether codes below 8 bits share a byte"},
    {.name = "reserve",
     .kind = OPTION_DOUBLE,
     .argument = "GIB",
     .preset = "0",
     .min = 0,
     .max = 1e6,
     .help = "GiB of each device to keep free"},
    {.name = "utilization",
     .kind = OPTION_DOUBLE,
     .argument = "F",
     .preset = "1",
     .min = 0.01,
     .max = 1,
     .help = "share of the usable memory that may be filled"},
    {.name = "height",
     .kind = OPTION_INT,
     .argument = "N",
     .preset = "1024",
     .min = 16,
     .max = 65536,
     .help = "of images"},
    {.name = "width",
     .kind = OPTION_INT,
     .argument = "N",
     .preset = "1024",
     .min = 16,
     .max = 65536,
     .help = "of images"},
    {.name = "weights-only",
     .kind = OPTION_FLAG,
     .help = "count what the files hold, without asking what the model is"},
    {.name = "require",
     .kind = OPTION_STRING,
     .argument = "EXPR",
     .help = "what must hold of every case, for example 'fits==1 and headroom_gib>=1' (fits, device_gib, headroom_gib, "
             "sequences, tokens); exit 1 when it does not"},
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay budget builtin:llama-3.1-70b --chip v6e:2x4 --layout tp --batch 8", "serve 8 sequences on 8 chips"},
    {"assay budget builtin:llama-3.1-8b --train adam-18 --chip v5p:2x2x2 --layout fsdp", "train on 8 chips"},
    {"assay budget model/ --policy w8a16,kv=int8 --chip v5e", "a directory, quantised"},
    {"assay budget --params 300M --train adam-18", "5.4 GB of state"},
    {NULL, NULL},
};

const struct command command_budget = {
    .name = "budget",
    .operands = "[WORKLOAD]",
    .min_operands = 0,
    .max_operands = 1,
    .operand_complete = COMPLETE_FILE,
    .operand_words = arch_builtin_words,
    .summary = "whether a model fits a device, what takes the room, and what would make it fit",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
