// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/trace_output.h"
#include "cli/worker_options.h"
#include "ir/policy.h"
#include "lab/embed.h"
#include "report/table_print.h"

// Nine significant digits: any f32 reads back as the same one.
static void add_value(struct str *out, float v)
{
    if (isnan(v))
        str_add(out, "nan"); // without a sign, which says nothing
    else
        str_addf(out, "%.9g", (double)v);
}

static const float *row(const struct embed *e, size_t i)
{
    return e->rows + i * e->dimensions;
}

static int print_text(struct cli *cli, const struct embed *e, struct error *err)
{
    for (size_t i = 0; i < e->workload.n_texts; i++) {
        for (size_t k = 0; k < e->dimensions; k++) {
            str_add(&cli->out, k ? " " : "");
            add_value(&cli->out, row(e, i)[k]);
        }
        str_add_char(&cli->out, '\n');
    }
    return str_check(&cli->out, err);
}

static int print_csv(struct cli *cli, const struct embed *e, struct error *err)
{
    str_add(&cli->out, "text,tokens,truncated");
    for (size_t k = 0; k < e->dimensions; k++)
        str_addf(&cli->out, ",e%zu", k);
    str_add(&cli->out, "\r\n");
    for (size_t i = 0; i < e->workload.n_texts; i++) {
        const struct text_facts *f = &e->workload.facts[i];
        table_csv_field(&cli->out, e->workload.texts[i], e->workload.text_lengths[i], false);
        str_addf(&cli->out, ",%zu,%s", f->tokens, f->truncated ? "true" : "false");
        for (size_t k = 0; k < e->dimensions; k++) {
            str_add_char(&cli->out, ',');
            if (isfinite(row(e, i)[k]))
                add_value(&cli->out, row(e, i)[k]);
        }
        str_add(&cli->out, "\r\n");
    }
    return str_check(&cli->out, err);
}

// One line for one embedding, or a document of a few texts would have thousands.
static void write_embedding(struct jw *w, struct str *line, const float *values, size_t n)
{
    str_clear(line);
    for (size_t k = 0; k < n; k++) {
        str_add(line, k ? "," : "[");
        if (isfinite(values[k]))
            add_value(line, values[k]);
        else
            str_add(line, "null");
    }
    str_add(line, "]");
    jw_key(w, "embedding");
    jw_raw(w, str_text(line));
}

static int print_json(struct cli *cli, const struct embed *e, const char *trace, struct error *err)
{
    struct str text, line;
    struct jw w;
    str_init(&text);
    str_init(&line);
    jw_init(&w, &text, false);
    jw_object(&w);
    jw_kv_string(&w, "workload", e->workload.name);
    jw_kv_string(&w, "policy", e->policy.name);
    jw_kv_string(&w, "device", e->device);
    jw_kv_uint(&w, "dimensions", e->dimensions);
    jw_kv_string(&w, "trace", trace);
    jw_key(&w, "texts");
    jw_array(&w);
    for (size_t i = 0; i < e->workload.n_texts; i++) {
        jw_object(&w);
        jw_key(&w, "text");
        jw_string_n(&w, e->workload.texts[i], e->workload.text_lengths[i]);
        jw_kv_uint(&w, "tokens", e->workload.facts[i].tokens);
        jw_kv_bool(&w, "truncated", e->workload.facts[i].truncated);
        write_embedding(&w, &line, row(e, i), e->dimensions);
        jw_object_end(&w);
    }
    jw_array_end(&w);
    jw_object_end(&w);
    int rc = str_check(&line, err);
    if (!rc)
        rc = jw_finish(&w, err);
    if (!rc)
        rc = cli_envelope(cli, str_text(&text), NULL, err);
    str_release(&line);
    str_release(&text);
    return rc;
}

static int print(struct cli *cli, const struct embed *e, const char *trace, struct error *err)
{
    const char *format = cli_string(cli, "format");
    if (e->workload.n_truncated)
        cli_note(cli, "%zu of %zu text%s cut at %lld tokens", e->workload.n_truncated, e->workload.n_texts,
                 e->workload.n_texts == 1       ? " was"
                 : e->workload.n_truncated == 1 ? "s was"
                                                : "s were",
                 (long long)e->workload.seq);
    if (cli->json || strcmp(format, "json") == 0)
        return print_json(cli, e, trace, err);
    return strcmp(format, "csv") == 0 ? print_csv(cli, e, err) : print_text(cli, e, err);
}

static int run(struct cli *cli, struct error *err)
{
    struct embed e;
    struct capture capture = {0};
    const char *profile = NULL;
    struct embed_options o = {
        .policy = cli_string(cli, "policy"),
        .trace = cli_flag(cli, "trace") ? &capture : NULL,
        .workload = {.directory = cli->operands[0],
                     .text_path = cli_string(cli, "text"),
                     .texts = cli->operands + 1,
                     .n_texts = cli->n_operands - 1,
                     .keep_blank = true, // row i belongs to line i
                     .batch = cli_int(cli, "batch", 0),
                     .seq = cli_int(cli, "seq", 0)},
        .worker = cli_worker_options(cli),
    };
    o.worker.kernels = cli_wants_kernels(cli);
    if (cli->json && cli_given(cli, "format") && strcmp(cli_string(cli, "format"), "json") != 0)
        return error_set(err, ERR_USAGE, "--format", "'%s' is not what --json asks for; give one of the two",
                         cli_string(cli, "format"));
    int rc = embed_run(&e, &o, &cli->progress, err);
    if (!rc && o.trace)
        rc = trace_output(cli, &capture, &profile, err);
    if (!rc)
        rc = print(cli, &e, profile, err);
    capture_release(&capture);
    embed_release(&e);
    return rc;
}

static const char *const description[] = {
    "Prints the embedding of every text: one line each, in the order they were given, with nine significant digits, so "
    "that f32 values read back as they were. Blank lines of a file are texts, too, so that line and row stay together.",
    "WORKLOAD is a directory in Hugging Face layout (config.json, model.safetensors, vocab.txt) of a BERT sentence "
    "embedding model. A text longer than the model takes keeps its beginning; how many were cut is said on stderr.",
    "This measures nothing, so it writes no record: what it prints follows from the model, the policy and the texts. "
    "To know how good a policy's embeddings are, use `assay qualify`.",
    NULL,
};

static const struct option options[] = {
    OPTION_TEXT("the texts, one on each line, in place of TEXT; - is standard input"),
    OPTION_POLICY,
    OPTION_DEVICE,
    OPTION_PLUGIN,
    OPTION_BATCH(NULL, "texts in one run of the program; 32, or as many as there are when fewer, when not given"),
    OPTION_SEQ(NULL, "tokens per text, padding included; longer texts are cut; the longest text, up to the model's own "
                     "limit, when not given"),
    OPTION_KERNELS,
    OPTION_THREADS,
    OPTION_TIMEOUT,
    OPTION_TRACE_DIR("all that the device's process did, and of a few more runs of the last texts"),
    OPTION_FORMAT("text json csv"),
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay embed minilm 'How do I reset my password?' 'Reset password'", "two embeddings"},
    {"cut -f2 questions.tsv | assay embed minilm --text - --policy w8a8 --format csv > questions.csv",
     "a column of a file, in int8"},
    {NULL, NULL},
};

const struct command command_embed = {
    .name = "embed",
    .operands = "WORKLOAD [TEXT...]",
    .min_operands = 1,
    .max_operands = -1,
    .operand_complete = COMPLETE_DIR,
    .summary = "run an embedding model: one row of numbers for each text",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
