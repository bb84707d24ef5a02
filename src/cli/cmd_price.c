// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/wrap.h"
#include "ir/policy.h"
#include "lab/price.h"
#include "report/format.h"
#include "report/table.h"

static void floor_cell(struct table *t, const struct floor *f)
{
    char text[FORMAT_MAX + 4];
    if (isnan(f->time.value)) {
        table_null(t, f->time.source);
        return;
    }
    format_number(text, f->time.value, 3);
    size_t n = strlen(text);
    memcpy(text + n, f->bound == BOUND_COMPUTE ? " c" : " m", 3);
    table_number(t, f->time.value, text);
}

static void cost_cells(struct table *t, const struct cost *c)
{
    table_number(t, cost_product_flop(c) / 1e9, NULL);
    table_number(t, c->bytes / 1e6, NULL);
    table_number(t, c->bytes_unfused / 1e6, NULL);
    table_number(t, roofline_intensity(c).value, NULL);
}

static int print_text(struct cli *cli, struct price *p, struct error *err)
{
    struct table t;
    struct floor f;
    int rc = 0;
    table_init(&t);
    table_column(&t, "module", NULL, TABLE_LEFT, 0);
    const struct {
        const char *title, *unit;
        int rank;
    } columns[] = {{"product", "GFLOP", 1}, {"bytes", "MB", 1}, {"unfused", "MB", 4}, {"intensity", "FLOP/B", 3}};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        table_column(&t, columns[i].title, columns[i].unit, TABLE_RIGHT, columns[i].rank);
        table_origin(&t, ORIGIN_DERIVED);
    }
    for (size_t i = 0; i < p->n_chips; i++) {
        table_column(&t, p->chips[i]->name, "us", TABLE_RIGHT, 2);
        table_origin(&t, ORIGIN_DERIVED);
    }
    for (int r = 0; r <= p->n_rows && !rc; r++) {
        table_row(&t);
        table_cell(&t, r < p->n_rows ? p->rows[r].group : "all");
        cost_cells(&t, price_cost(p, r));
        for (size_t i = 0; i < p->n_chips && !rc; i++) {
            rc = price_floor(p, r, i, &f, err);
            if (!rc)
                floor_cell(&t, &f);
        }
    }
    if (!rc)
        rc = table_print(&t, &cli->out, TABLE_TEXT, (size_t)cli->width, cli->color, err);
    table_release(&t);
    char weights[FORMAT_MAX], scales[FORMAT_MAX];
    format_bytes(weights, (double)p->weight_bytes);
    format_bytes(scales, (double)p->scale_bytes);
    struct str note;
    str_init(&note);
    if (p->weight_bytes)
        str_addf(&note, "weights %s, scales %s, under %s. ", weights, scales, p->policy);
    str_add(&note,
            "A floor is the longer of product FLOP over peak (c) and fused bytes over bandwidth (m) on one device; "
            "modules do not overlap. Element-wise work has no published rate and is not in it.");
    wrap_text(&cli->out, str_text(&note), 0, 0, cli->width);
    str_release(&note);
    return rc;
}

static int print_json(struct cli *cli, struct price *p, struct error *err)
{
    struct str text;
    struct jw w;
    str_init(&text);
    jw_init(&w, &text, false);
    int rc = price_json(p, &w, err);
    if (!rc)
        rc = jw_finish(&w, err);
    if (!rc)
        rc = cli_envelope(cli, str_text(&text), NULL, err);
    str_release(&text);
    return rc;
}

static int run(struct cli *cli, struct error *err)
{
    struct price p;
    struct price_options o = {
        .workload = cli->operands[0],
        .policy = cli_given(cli, "policy") ? cli_string(cli, "policy") : NULL,
        .batch = cli_int(cli, "batch", 0),
        .seq = cli_int(cli, "seq", 0),
        .by_scope = strcmp(cli_string(cli, "by"), "scope") == 0,
    };
    o.n_chips = cli_strings(cli, "chip", &o.chips);
    int rc = price_open(&p, &o, err);
    if (!rc)
        rc = cli->json ? print_json(cli, &p, err) : print_text(cli, &p, err);
    price_close(&p);
    return rc;
}

static const char *const description[] = {
    "FLOP, bytes and intensity of every module, and the least time each chip can need for it. Nothing runs and no "
    "weights "
    "are read: shapes are enough.",
    "WORKLOAD is a model directory (config.json alone is read), builtin:minilm, or builtin:gemm:MxKxN:TYPE with TYPE "
    "f32, "
    "bf16, f16, int8 or f64 and results in f32, int32 or f64.",
    "Fused bytes count what enters and leaves each part of a module once; unfused bytes count the operands and results "
    "of "
    "every operation. FLOP are those of products, two per multiply-add.",
    NULL,
};

static const struct option options[] = {
    OPTION_CHIP,
    OPTION_POLICY,
    OPTION_BATCH("32", "texts in one run"),
    OPTION_SEQ("128", "tokens per text"),
    {.name = "by",
     .kind = OPTION_STRING,
     .preset = "module",
     .choices = "module scope",
     .help = "a row for each kind of module, or for each place in the model (layer.3.mlp.up)"},
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay price builtin:minilm --policy bf16 --chip v5e --chip h100", "MiniLM in bf16, batch 32 x 128 tokens"},
    {"assay price gemm:64x1024x1024:bf16 --chip v5e", "one product"},
    {NULL, NULL},
};

const struct command command_price = {
    .name = "price",
    .operands = "WORKLOAD",
    .min_operands = 1,
    .max_operands = 1,
    .operand_complete = COMPLETE_DIR,
    .summary = "FLOP, bytes, intensity and the floor on each chip, per module and in all",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
