// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/wrap.h"
#include "lab/accuracy.h"
#include "report/format.h"
#include "report/table.h"

static void time_cell(struct table *t, double s)
{
    char text[FORMAT_MAX];
    format_time(text, s);
    if (isnan(s))
        table_cell(t, "");
    else
        table_number(t, s, text);
}

static void error_cell(struct table *t, double error)
{
    char text[FORMAT_MAX];
    snprintf(text, sizeof text, "%+.0f %%", 100 * error);
    if (isnan(error))
        table_cell(t, "");
    else
        table_number(t, error, text);
}

static int rows(struct cli *cli, const struct accuracy *a, enum table_format format, struct error *err)
{
    struct table t;
    table_init(&t);
    table_column(&t, "what", NULL, TABLE_LEFT, 0);
    table_column(&t, "chip", NULL, TABLE_LEFT, 0);
    table_column(&t, "measured", NULL, TABLE_RIGHT, 1);
    table_origin(&t, ORIGIN_SHEET);
    for (int k = 0; k < ACCURACY_METHODS; k++) {
        const char *name = accuracy_method_name((enum accuracy_method)k);
        table_column(&t, name, NULL, TABLE_RIGHT, k == ACCURACY_COMPILER ? 3 : 2);
        table_origin(&t, ORIGIN_DERIVED);
        table_column(&t, "off", NULL, TABLE_RIGHT, k == ACCURACY_COMPILER ? 3 : 0);
        table_origin(&t, ORIGIN_DERIVED);
    }
    for (size_t i = 0; i < a->n_rows; i++) {
        const struct accuracy_row *row = &a->rows[i];
        table_row(&t);
        table_cell(&t, row->m->what);
        table_note(&t, row->m->from.cite);
        table_cell(&t, row->m->chip);
        time_cell(&t, row->measured_s);
        for (int k = 0; k < ACCURACY_METHODS; k++) {
            time_cell(&t, row->predicted[k].value);
            error_cell(&t, row->error[k]);
        }
    }
    int rc = table_print(&t, &cli->out, format, (size_t)cli->width, cli->color, err);
    table_release(&t);
    return rc;
}

static int medians(struct cli *cli, const struct accuracy *a, enum table_format format, struct error *err)
{
    struct table t;
    table_init(&t);
    table_column(&t, "median of |error|", NULL, TABLE_LEFT, 0);
    table_column(&t, "rows", NULL, TABLE_RIGHT, 1);
    for (int k = 0; k < ACCURACY_METHODS; k++) {
        table_column(&t, accuracy_method_name((enum accuracy_method)k), "%", TABLE_RIGHT, 0);
        table_origin(&t, ORIGIN_DERIVED);
    }
    for (int kind = 0; kind <= ACCURACY_KINDS; kind++) {
        size_t n;
        table_row(&t);
        table_cell(&t, kind < ACCURACY_KINDS ? accuracy_kind_name((enum accuracy_kind)kind) : "all");
        accuracy_median(a, (enum accuracy_kind)kind, ACCURACY_SHEET, &n);
        table_count(&t, (double)n);
        for (int k = 0; k < ACCURACY_METHODS; k++) {
            char text[FORMAT_MAX + 16];
            double e = accuracy_median(a, (enum accuracy_kind)kind, (enum accuracy_method)k, &n);
            snprintf(text, sizeof text, n == 1 ? "%.0f (of 1)" : "%.0f", 100 * e);
            if (isnan(e))
                table_cell(&t, "");
            else
                table_number(&t, 100 * e, text);
        }
    }
    int rc = table_print(&t, &cli->out, format, (size_t)cli->width, cli->color, err);
    table_release(&t);
    return rc;
}

static bool same_remark(const struct accuracy_row *row, const char *remark)
{
    return row->m->remark && remark && strcmp(row->m->remark, remark) == 0;
}

// Rows that share a remark share its line.
static void remarks(struct cli *cli, const struct accuracy *a, int width)
{
    struct str line;
    str_init(&line);
    wrap_text(&cli->out, "What is known of why they differ:", 0, 0, width);
    str_add_char(&cli->out, '\n');
    for (size_t i = 0; i < a->n_rows; i++) {
        const char *remark = a->rows[i].m->remark;
        bool said = false;
        for (size_t k = 0; k < i; k++)
            said |= same_remark(&a->rows[k], remark);
        if (!remark || said)
            continue;
        str_clear(&line);
        str_add(&line, "- ");
        for (size_t k = i; k < a->n_rows; k++) {
            if (same_remark(&a->rows[k], remark))
                str_addf(&line, "%s%s (%s)", k == i ? "" : "; ", a->rows[k].m->what, a->rows[k].m->chip);
        }
        str_addf(&line, ": %s", remark);
        wrap_text(&cli->out, str_text(&line), 0, 0, width);
    }
    str_release(&line);
}

static const char *const notes[] = {
    "Measured: a run, a stage, a token of one sequence (decode), a token of training for one chip. Off: predicted / "
    "measured - 1; a floor is below what is measured, so it is off to the negative side, and a method that is never "
    "above the measurement keeps its word as a floor.",
    "sheet: the longer of FLOP over peak and bytes over bandwidth, of every module, summed (merged, as assay price "
    "calls it); decoding reads every "
    "weight "
    "once; training is 6 FLOP per weight a token passes and causal attention. compiler: the floor of the code that the "
    "TPU compiler makes, where it was asked. calibrated: the sheet's floor over an efficiency measured elsewhere: that "
    "of the same chip's product in the same source, else the median of the other rows of the kind, never the row's "
    "own.",
    NULL,
};

static void markdown_head(struct cli *cli)
{
    str_add(&cli->out,
            "# How far predictions are off\n\n"
            "Every row is a measurement that somebody else published, with our predictions beside it. The rows are in\n"
            "`docs/measurements.json`; this page is what `make accuracy` writes, and a test compares the two.\n\n");
}

static int print(struct cli *cli, const struct accuracy *a, bool markdown, struct error *err)
{
    enum table_format format = markdown ? TABLE_MARKDOWN : TABLE_TEXT;
    if (markdown)
        markdown_head(cli);
    int rc = medians(cli, a, format, err);
    str_add_char(&cli->out, '\n');
    if (!rc)
        rc = rows(cli, a, format, err);
    if (!rc) {
        str_add_char(&cli->out, '\n');
        remarks(cli, a, markdown ? 120 : cli->width);
    }
    for (size_t i = 0; notes[i] && !rc; i++) {
        str_add_char(&cli->out, '\n');
        wrap_text(&cli->out, notes[i], 0, 0, markdown ? 120 : cli->width);
    }
    return rc;
}

static int result(void *of, struct jw *w, struct error *err)
{
    (void)err;
    accuracy_json(of, w);
    return 0;
}

static int run(struct cli *cli, struct error *err)
{
    struct accuracy a;
    const char *format = cli_string(cli, "format");
    int rc = accuracy_open(&a, err);
    if (!rc && (cli->json || strcmp(format, "json") == 0))
        rc = cli_document(cli, result, &a, err);
    else if (!rc)
        rc = print(cli, &a, strcmp(format, "md") == 0, err);
    accuracy_close(&a);
    return rc;
}

static const char *const description[] = {
    "Our predictions beside measurements that others published: matrix products, the stages of an image, tokens "
    "decoded "
    "and tokens trained, on TPUs and GPUs, each with its source. The failures are shown too, with the reason where it "
    "is "
    "known.",
    "Read it before you trust a prediction: the median error of a method is what its next figure is worth.",
    NULL,
};

static const struct option options[] = {OPTION_FORMAT("text json md"), {.name = NULL}};

static const struct example examples[] = {
    {"assay accuracy", "every row and the median error of each method"},
    {"assay accuracy --format md", "the page docs/accuracy.md"},
    {NULL, NULL},
};

const struct command command_accuracy = {
    .name = "accuracy",
    .summary = "predictions beside published measurements, and how far each method is off",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
