// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/trace_output.h"
#include "cli/wrap.h"
#include "lab/quantize_file.h"
#include "report/format.h"
#include "report/table.h"

static void add_columns(struct table *t, const char *unit)
{
    const struct {
        const char *title, *unit;
        enum table_align align;
        int rank;
    } columns[] = {
        {"tensor", NULL, TABLE_LEFT, 0},      {"shape", NULL, TABLE_LEFT, 4},    {"from", NULL, TABLE_LEFT, 3},
        {"before", unit, TABLE_RIGHT, 2},     {"after", unit, TABLE_RIGHT, 2},   {"rel L2", NULL, TABLE_RIGHT, 0},
        {"SNR", "dB", TABLE_RIGHT, 1},        {"clipped", NULL, TABLE_RIGHT, 1}, {"worst row", NULL, TABLE_RIGHT, 2},
        {"its rel L2", NULL, TABLE_RIGHT, 2}, {"outlier", NULL, TABLE_RIGHT, 3},
    };
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        table_column(t, columns[i].title, columns[i].unit, columns[i].align, columns[i].rank);
        if (i > 4)
            table_origin(t, ORIGIN_DERIVED);
    }
}

static void exponent_cell(struct table *t, double value)
{
    char text[FORMAT_MAX];
    format_exponent(text, value, 3);
    table_number(t, value, text);
}

static void decibel_cell(struct table *t, double value)
{
    char text[FORMAT_MAX];
    format_quantity(text, quantity_make(value, "dB", ORIGIN_DERIVED, NULL));
    char *unit = strstr(text, " dB");
    if (unit)
        *unit = '\0';
    table_number(t, value, isinf(value) ? "no error" : text);
}

static void bytes_cell(struct table *t, size_t bytes, struct scale scale)
{
    char text[FORMAT_MAX];
    if (scale.factor >= 1) { // single bytes
        table_count(t, (double)bytes);
        return;
    }
    format_scaled(text, (double)bytes, scale, 3);
    table_number(t, (double)bytes, text);
}

// One unit for all tensors.
static int pick_unit(const struct quantize_file *q, struct scale *out, struct error *err)
{
    double *bytes = malloc((q->count + 1) * sizeof *bytes);
    size_t n = 0;
    if (!bytes)
        return error_set(err, ERR_MEMORY, NULL, "no memory for a table of %zu rows", q->count);
    for (size_t i = 0; i < q->count; i++) {
        if (q->tensors[i].action == QUANTIZE_DONE)
            bytes[n++] = (double)q->tensors[i].bytes_before;
    }
    *out = scale_pick(bytes, n, "B");
    free(bytes);
    return 0;
}

static void add_row(struct table *t, const struct quantize_tensor *q, struct scale scale)
{
    const struct quantize_stats *s = &q->stats;
    struct str shape;
    str_init(&shape);
    for (int d = 0; d < q->view->rank; d++)
        str_addf(&shape, "%s%lld", d ? "x" : "", (long long)q->view->dims[d]);
    table_row(t);
    table_cell(t, q->view->name);
    table_cell(t, str_text(&shape));
    table_cell(t, q->from);
    bytes_cell(t, q->bytes_before, scale);
    bytes_cell(t, q->bytes_after, scale);
    exponent_cell(t, quantize_rel_l2(s));
    decibel_cell(t, quantize_snr_db(s));
    table_count(t, (double)s->clipped);
    if (isnan(s->worst_row_rel_l2)) {
        table_cell(t, "");
        table_cell(t, "");
    } else {
        table_count(t, (double)s->worst_row);
        exponent_cell(t, s->worst_row_rel_l2);
    }
    table_number(t, quantize_outlier_ratio(s), NULL);
    str_release(&shape);
}

static void add_total(struct table *t, const struct quantize_file *q, struct scale scale)
{
    table_row(t);
    table_cell(t, "all quantised");
    table_cell(t, "");
    table_cell(t, "");
    size_t before = 0, after = 0;
    for (size_t i = 0; i < q->count; i++) {
        before += q->tensors[i].action == QUANTIZE_DONE ? q->tensors[i].bytes_before : 0;
        after += q->tensors[i].action == QUANTIZE_DONE ? q->tensors[i].bytes_after : 0;
    }
    bytes_cell(t, before, scale);
    bytes_cell(t, after, scale);
    exponent_cell(t, quantize_rel_l2(&q->total));
    decibel_cell(t, quantize_snr_db(&q->total));
    table_count(t, (double)q->total.clipped);
    table_cell(t, "");
    table_cell(t, "");
    table_cell(t, "");
}

// "Kept: 37 tensors, 12.3 kB (vector 30, integers 7). ".
static void add_kept(struct str *out, const struct quantize_file *q)
{
    enum { MOST = 64 };
    const char *reasons[MOST];
    size_t counts[MOST] = {0}, n = 0, total = 0;
    char bytes[FORMAT_MAX];
    for (size_t i = 0; i < q->count; i++) {
        const char *reason = q->tensors[i].reason;
        size_t k = 0;
        if (!reason)
            continue;
        while (k < n && strcmp(reasons[k], reason) != 0)
            k++;
        if (k == n && n == MOST) // more patterns than anyone wants to read
            k--;
        else if (k == n)
            reasons[n++] = reason;
        counts[k]++;
        total += q->tensors[i].bytes_after;
    }
    if (!n)
        return;
    format_bytes(bytes, (double)total);
    str_addf(out, "Kept: %zu tensor%s, %s", q->count - q->quantised, q->count - q->quantised == 1 ? "" : "s", bytes);
    for (size_t k = 0; k < n; k++) {
        str_add(out, k ? ", " : " (");
        str_add_terminal(out, reasons[k], strlen(reasons[k]));
        str_addf(out, " %zu", counts[k]);
    }
    str_add(out, "). ");
}

static void add_count(struct str *out, size_t n, const char *what)
{
    char count[FORMAT_MAX];
    if (!n)
        return;
    format_count(count, (double)n);
    str_addf(out, "%s %s. ", count, what);
}

static void add_summary(struct str *out, const struct quantize_file *q)
{
    char before[FORMAT_MAX], after[FORMAT_MAX], file[FORMAT_MAX], share[FORMAT_MAX];
    const struct quantize_stats *s = &q->total;
    format_bytes(before, (double)q->bytes_before);
    format_bytes(after, (double)q->bytes_after);
    format_bytes(file, (double)q->file_bytes);
    bool less = q->bytes_after <= q->bytes_before;
    double larger = (double)(less ? q->bytes_before : q->bytes_after);
    format_number(share, larger / (double)(less ? q->bytes_after : q->bytes_before), 3);
    str_add(out, "Weights: ");
    quantize_policy_describe(&q->policy, out);
    str_addf(out, ". Tensor data: %s before, %s after (%s%s); the file has %s. ", before, after, less ? "1/" : "times ",
             share, file);
    add_kept(out, q);
    add_count(out, s->nonfinite, "values were not finite");
    add_count(out, s->beyond_f32, "values were beyond f32");
    add_count(out, s->overflowed, "values became infinite");
    add_count(out, s->flushed, "values that were not zero became zero");
    add_count(out, s->scales_raised, "scales were raised to the smallest that their type holds");
    add_count(out, s->scales_lowered, "scales were beyond what their type holds");
    if (q->calibration)
        str_addf(out, "Activations: %zu static scale%s of %s from %zu text%s. ", q->calibration->count,
                 q->calibration->count == 1 ? "" : "s", dtype_name(q->calibration->type), q->calibration->texts,
                 q->calibration->texts == 1 ? "" : "s");
    str_add(out, "A row is one output channel; the outlier ratio is the largest magnitude over the root mean square.");
}

static int print_text(struct cli *cli, const struct quantize_file *q, struct error *err)
{
    int rc = 0;
    if (q->quantised) {
        struct table t;
        struct scale scale;
        char unit[FORMAT_MAX];
        rc = pick_unit(q, &scale, err);
        if (rc)
            return rc;
        scale_name(unit, scale);
        table_init(&t);
        add_columns(&t, unit);
        for (size_t i = 0; i < q->count; i++) {
            if (q->tensors[i].action == QUANTIZE_DONE)
                add_row(&t, &q->tensors[i], scale);
        }
        add_total(&t, q, scale);
        rc = table_print(&t, &cli->out, TABLE_TEXT, (size_t)cli->width, cli->color, err);
        table_release(&t);
    }
    struct str text;
    str_init(&text);
    add_summary(&text, q);
    wrap_text(&cli->out, str_text(&text), 0, 0, cli->width);
    str_release(&text);
    return rc;
}

struct made {
    const struct quantize_file *q;
    const struct quantize_options *o;
};

static int result(void *of, struct jw *w, struct error *err)
{
    const struct made *made = of;
    (void)err;
    quantize_file_json(made->q, made->o, w);
    return 0;
}

static void note(struct cli *cli, const struct quantize_file *q, const struct quantize_options *o)
{
    for (size_t i = 0; i < o->n_skip; i++) {
        if (!q->skip_matches[i])
            cli_note(cli, "--skip '%s' fits no tensor", o->skip[i]);
    }
    if (!q->quantised)
        cli_note(cli, "nothing was quantised: every tensor was kept");
}

static int run(struct cli *cli, struct error *err)
{
    struct quantize_file q;
    struct capture capture = {0};
    struct quantize_options o = {.in = cli->operands[0],
                                 .out = cli->operands[1],
                                 .policy = cli_string(cli, "policy"),
                                 .threads = (size_t)cli_int(cli, "threads", 0),
                                 .calibrate = {.texts = cli_string(cli, "calibrate"),
                                               .batch = cli_int(cli, "batch", 0),
                                               .seq = cli_int(cli, "seq", 0),
                                               .trace = cli_flag(cli, "trace") ? &capture : NULL,
                                               .worker = {.device = cli_string(cli, "device"),
                                                          .plugin_path = cli_string(cli, "plugin"),
                                                          .threads = (int)cli_int(cli, "threads", 0)}}};
    o.n_skip = cli_strings(cli, "skip", &o.skip);
    quantize_nonfinite_from_name(cli_string(cli, "nan"), &o.nonfinite); // one of its choices
    if (!o.policy)
        return error_set(err, ERR_USAGE, "--policy", "is needed: how weights are stored, w4a16 for example");
    if (o.calibrate.trace && !o.calibrate.texts)
        return error_set(err, ERR_USAGE, "--trace", "goes with --calibrate: nothing else runs on a device");
    int rc = quantize_file(&q, &o, &cli->progress, err);
    if (!rc && o.calibrate.trace)
        rc = trace_output(cli, &capture, &o.trace, err);
    if (!rc) {
        note(cli, &q, &o);
        rc = cli->json ? cli_document(cli, result, &(struct made){&q, &o}, err) : print_text(cli, &q, err);
    }
    capture_release(&capture);
    quantize_file_release(&q);
    return rc;
}

static const char *const description[] = {
    "Writes the weights of IN to OUT as a policy stores them, and says what that did to every tensor. IN is a "
    "safetensors "
    "file, a directory or an index of shards in Hugging Face layout, or a GGUF file, whose blocks are decoded first. "
    "OUT is one safetensors file that any reader of the format can open: codes, scales and zero points are tensors of "
    "their own, and the whole rule stands in its metadata.",
    "Matrices of floating-point numbers are quantised, embedding tables too, row by row. Vectors (biases and the "
    "parameters of norms), scalars, integers and truth values are kept as they are: they are few, and errors in them "
    "act on everything. A policy without scales (bf16, f16, f32) takes vectors along.",
    "POLICY is a preset (w8a16 and w8a8: int8 per output channel; w4a16: int4 in groups of 32; fp8: E4M3 per tensor; "
    "bf16, f16, f32), a block format (mxfp8, mxfp6, mxfp4, mxint8, nvfp4) or spelled out, as in "
    "w=int4/group:128/affine/scale:f16/mse, where mse and percentile:P search for the range with the least error.",
    "A policy with static activations (w8a8-static, or a=int8/tensor:static) can be calibrated: IN is run on the texts "
    "of --calibrate as `assay qualify` runs it, and the ranges and scales of all activations that enter a product with "
    "a weight go into the metadata.",
    "OUT must not exist. It appears when it is complete and on the disk; until then it is OUT.partial-PID, which is "
    "removed when something fails. Memory stays at some MB for each thread, however large the tensors are; only a "
    "search over a whole tensor needs that tensor in f32.",
    NULL,
};

static const struct option options[] = {
    {.name = "policy",
     .kind = OPTION_STRING,
     .argument = "POLICY",
     .words = quantize_policy_words,
     .help = "how weights are stored: a preset, a block format, or fields as in w=int4/group:64"},
    {.name = "skip",
     .kind = OPTION_STRINGS,
     .argument = "PATTERN",
     .help = "keep tensors whose name fits, with * for any text, ? for any character and [...] for one of several"},
    {.name = "nan",
     .kind = OPTION_STRING,
     .preset = "error",
     .choices = "error saturate keep",
     .help = "what to do with values that are not finite, or beyond the type: end with an error, take the nearest "
             "value there is (0 for NaN), or keep them where the type can"},
    {.name = "calibrate",
     .kind = OPTION_STRING,
     .argument = "FILE",
     .complete = COMPLETE_FILE,
     .help = "texts, one on each line, that IN, a model directory, is run on to find the static scales of its "
             "activations; they go into the file's metadata"},
    OPTION_DEVICE,
    OPTION_PLUGIN,
    OPTION_BATCH(NULL, "texts in one run of the calibration; 32, or as many as there are when fewer, when not given"),
    OPTION_SEQ(NULL, "tokens per text of the calibration; the longest text, up to the model's own limit, when not "
                     "given"),
    OPTION_TRACE_DIR("the calibration: all that the device's process did, and of a few more runs of the last texts"),
    OPTION_THREADS,
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay quantize minilm/model.safetensors minilm-int8.safetensors --policy w8a16", "int8, a scale for each row"},
    {"assay quantize model.gguf model.safetensors --policy bf16", "the blocks of a GGUF file as bf16"},
    {"assay quantize llama llama-int4.safetensors --policy w=int4/group:128/mse --skip 'lm_head.*'",
     "shards in, int4 with searched scales, the last layer as it was"},
    {"assay quantize minilm minilm-w8a8.safetensors --policy w8a8-static --calibrate texts.txt",
     "with static scales for the activations"},
    {NULL, NULL},
};

const struct command command_quantize = {
    .name = "quantize",
    .operands = "IN OUT",
    .min_operands = 2,
    .max_operands = 2,
    .operand_complete = COMPLETE_FILE,
    .summary = "write a quantised checkpoint, and what it did to every tensor",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
