// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/host.h"
#include "chips/local.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/wrap.h"
#include "ir/policy.h"
#include "models/builtin.h"
#include "plan/roofline.h"
#include "report/format.h"
#include "report/table.h"

enum { MAX_CHIPS = 32 };

struct pricing {
    struct module module;
    struct cost_row *rows;
    int n;
    struct cost total;
    int64_t weight_bytes, scale_bytes;
    const struct chip *chips[MAX_CHIPS];
    size_t n_chips;
    const char *policy;
};

static int price(struct cli *cli, struct pricing *p, struct error *err)
{
    struct model_shape shape = {.batch = cli_int(cli, "batch", 0), .seq = cli_int(cli, "seq", 0)};
    const char *const *names;
    struct host_facts host;
    bool fixed;
    struct module plain;
    module_init(&plain, &cli->arena, cli->operands[0]);
    int rc = model_module(cli->operands[0], &shape, &plain, &fixed, err);
    p->policy = cli_string(cli, "policy");
    p->module = plain;
    if (!rc && fixed && cli_given(cli, "policy"))
        return error_set(err, ERR_USAGE, "--policy", "a product has its type in its name");
    if (!rc && !fixed) {
        struct policy policy;
        module_init(&p->module, &cli->arena, cli->operands[0]);
        rc = policy_parse(&policy, p->policy, err);
        if (!rc)
            rc = module_apply_policy(&plain, &policy, false, &p->module, err);
    }
    if (fixed)
        p->policy = NULL;
    if (!rc)
        rc = cost_groups(&p->module, &cli->arena, &p->rows, &p->n, &p->total, err);
    if (rc)
        return rc;
    module_weight_bytes(&p->module, &p->weight_bytes, &p->scale_bytes);
    p->n_chips = cli_strings(cli, "chip", &names);
    if (p->n_chips > MAX_CHIPS)
        return error_set(err, ERR_USAGE, "--chip", "give at most %d chips", MAX_CHIPS);
    host_read(&host, "/");
    for (size_t i = 0; i < p->n_chips && !rc; i++)
        rc = chip_get(&cli->arena, names[i], host.model, NULL, &p->chips[i], err);
    return rc;
}

// ---- text

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

static int print_text(struct cli *cli, const struct pricing *p, struct error *err)
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
    for (int r = 0; r <= p->n && !rc; r++) {
        const struct cost *c = r < p->n ? &p->rows[r].cost : &p->total;
        table_row(&t);
        table_cell(&t, r < p->n ? p->rows[r].group : "all");
        cost_cells(&t, c);
        for (size_t i = 0; i < p->n_chips && !rc; i++) {
            rc = r < p->n ? roofline_floor(c, p->chips[i], &cli->arena, &f, err)
                          : roofline_total(p->rows, p->n, p->chips[i], &cli->arena, &f, err);
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

// ---- json

static void number(struct jw *w, const char *key, double v, const char *unit, const char *source)
{
    quantity_json_kv(w, key, quantity_make(v, unit, ORIGIN_DERIVED, source));
}

static void write_floor(struct jw *w, const char *chip, const struct floor *f)
{
    jw_key(w, chip);
    jw_object(w);
    quantity_json_kv(w, "time", f->time);
    jw_kv_string(w, "bound", bound_name(f->bound));
    jw_object_end(w);
}

static int write_row(struct cli *cli, const struct pricing *p, int r, struct jw *w, struct error *err)
{
    const struct cost *c = r < p->n ? &p->rows[r].cost : &p->total;
    int rc = 0;
    jw_object(w);
    jw_kv_string(w, "name", r < p->n ? p->rows[r].group : "all");
    number(w, "flop", cost_product_flop(c), "FLOP", "2 per multiply-add of products");
    number(w, "element_flop", c->element_flop, "FLOP", "one per output element of other arithmetic");
    number(w, "transcendentals", c->transcendentals, "count", "exp, erf, roots: one per output element");
    number(w, "bytes", c->bytes, "B", "what enters and leaves each scope once, its inside fused");
    number(w, "bytes_unfused", c->bytes_unfused, "B", "operands and results of every operation");
    number(w, "weight_bytes", c->weight_bytes, "B", "weights and scales read, of `bytes`");
    quantity_json_kv(w, "intensity", roofline_intensity(c));
    jw_key(w, "floors");
    jw_object(w);
    for (size_t i = 0; i < p->n_chips && !rc; i++) {
        struct floor f;
        rc = r < p->n ? roofline_floor(c, p->chips[i], &cli->arena, &f, err)
                      : roofline_total(p->rows, p->n, p->chips[i], &cli->arena, &f, err);
        if (!rc)
            write_floor(w, p->chips[i]->name, &f);
    }
    jw_object_end(w);
    jw_object_end(w);
    return rc;
}

static int print_json(struct cli *cli, const struct pricing *p, struct error *err)
{
    struct str text;
    struct jw w;
    int rc = 0;
    str_init(&text);
    jw_init(&w, &text, false);
    jw_object(&w);
    jw_kv_string(&w, "workload", cli->operands[0]);
    jw_kv_string(&w, "policy", p->policy);
    number(&w, "weight_bytes", (double)p->weight_bytes, "B", "values and codes as they are stored");
    number(&w, "scale_bytes", (double)p->scale_bytes, "B", "scales, f32");
    jw_key(&w, "modules");
    jw_array(&w);
    for (int r = 0; r < p->n && !rc; r++)
        rc = write_row(cli, p, r, &w, err);
    jw_array_end(&w);
    jw_key(&w, "total");
    if (!rc)
        rc = write_row(cli, p, p->n, &w, err);
    jw_object_end(&w);
    if (!rc)
        rc = jw_finish(&w, err);
    if (!rc)
        rc = cli_envelope(cli, str_text(&text), NULL, err);
    str_release(&text);
    return rc;
}

static int run(struct cli *cli, struct error *err)
{
    struct pricing p = {.n_chips = 0};
    int rc = price(cli, &p, err);
    if (rc)
        return rc;
    return cli->json ? print_json(cli, &p, err) : print_text(cli, &p, err);
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
    {.name = "chip",
     .kind = OPTION_STRINGS,
     .argument = "CHIP",
     .words = chip_words,
     .help = "the floor on one device of this chip"},
    {.name = "policy",
     .kind = OPTION_STRING,
     .argument = "POLICY",
     .preset = "f32",
     .help = "a preset (f32, bf16, f16, w8a16, w8a8, w4a16) or a spelled-out policy"},
    {.name = "batch",
     .kind = OPTION_INT,
     .argument = "N",
     .preset = "32",
     .min = 1,
     .max = 65536,
     .help = "texts in one run"},
    {.name = "seq",
     .kind = OPTION_INT,
     .argument = "N",
     .preset = "128",
     .min = 2,
     .max = 65536,
     .help = "tokens per text"},
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
