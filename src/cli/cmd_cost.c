// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/wrap.h"
#include "lab/spend.h"
#include "record/record.h"
#include "report/doc.h"
#include "report/format.h"
#include "report/table.h"

// ---- What was asked

// The time of a run in a record: its first measured median.
static int read_run(struct cli *cli, const char *dir, struct quantity *run, struct error *err)
{
    struct record_contents contents;
    int rc = record_read(&contents, dir, &cli->arena, err);
    if (rc)
        return rc;
    json_t *report = json_parse(contents.report, contents.report_bytes, dir, err);
    if (!report)
        return ERR_INPUT;
    struct quantity p50 = {.value = NAN};
    bool found = doc_median(doc_at(report, "result"), &p50);
    const char *source = found ? arena_printf(&cli->arena, err, "p50 of %s", dir) : NULL;
    if (found)
        *run = quantity_make(quantity_base(p50), "s", ORIGIN_MEASURED, source);
    json_decref(report);
    if (!found)
        return error_set(err, ERR_INPUT, dir, "has no measured time: give the record of a bench or qualify run");
    return source ? 0 : ERR_MEMORY;
}

// TARGET=SECONDS[/ITEMS], or TARGET=RECORD.
static int read_way(struct cli *cli, const char *text, double items, struct spend_way *way, struct error *err)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return error_set(err, ERR_USAGE, text,
                         "a way of running it is TARGET=SECONDS, TARGET=SECONDS/ITEMS or "
                         "TARGET=RECORD, as in v6e=0.262");
    const char *value = equals + 1;
    way->target = arena_strndup(&cli->arena, text, (size_t)(equals - text), err);
    way->items = items;
    if (!way->target)
        return ERR_MEMORY;
    if (dir_exists(value) || !strchr("-.0123456789", value[0]))
        return read_run(cli, value, &way->run, err);
    char *end;
    double s = strtod(value, &end);
    if (*end == '/') {
        const char *count = end + 1;
        way->items = strtod(count, &end);
        if (end == count)
            way->items = NAN;
    }
    if (*end || !isfinite(s) || s <= 0 || !isfinite(way->items) || way->items <= 0)
        return error_set(err, ERR_USAGE, text, "seconds and items must be numbers above zero, as in v6e=0.9/4");
    way->run = quantity_make(s, "s", ORIGIN_SHEET, "given");
    return 0;
}

static int read_items(struct cli *cli, const char **unit, double *items, struct error *err)
{
    static const char *const units[] = {"tokens", "images", "requests"};
    *unit = "requests";
    *items = 1;
    int given = 0;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (!cli_given(cli, units[i]))
            continue;
        *unit = units[i];
        *items = cli_double(cli, units[i], 1);
        given++;
    }
    return given < 2 ? 0
                     : error_set(err, ERR_USAGE, "cost", "a run makes tokens, images or requests: give one of them");
}

// ---- Text

static void money_column(struct table *t, const char *title, const char *unit, int rank)
{
    table_column(t, title, unit, TABLE_RIGHT, rank);
    table_origin(t, ORIGIN_DERIVED);
}

static void price_cell(struct table *t, struct quantity price)
{
    char text[FORMAT_MAX];
    snprintf(text, sizeof text, "%.4g", price.value);
    if (isnan(price.value))
        table_null(t, price.source);
    else
        table_number(t, price.value, text);
    table_note(t, isnan(price.value) ? NULL : price.source);
}

static void usd_cell(struct table *t, struct quantity usd)
{
    if (isnan(usd.value))
        table_null(t, usd.source);
    else
        table_number(t, usd.value, NULL);
}

static void run_cell(struct table *t, struct quantity run)
{
    char text[FORMAT_MAX + 8];
    format_time(text, run.value);
    size_t n = strlen(text);
    memcpy(text + n, run.origin == ORIGIN_MEASURED ? " [M]" : "", run.origin == ORIGIN_MEASURED ? 5 : 1);
    table_number(t, run.value, text);
}

static int print_ways(struct cli *cli, const struct spend *s, struct error *err)
{
    struct table t;
    table_init(&t);
    table_column(&t, "way", NULL, TABLE_LEFT, 0);
    table_column(&t, "chips", NULL, TABLE_RIGHT, 3);
    table_column(&t, "price", "USD/h/chip", TABLE_RIGHT, 1);
    table_origin(&t, ORIGIN_SHEET);
    table_column(&t, "run", NULL, TABLE_RIGHT, 0);
    table_column(&t, s->options.unit, NULL, TABLE_RIGHT, 2);
    char unit[40];
    snprintf(unit, sizeof unit, "USD/%s", spend_quote_name(s));
    money_column(&t, "runs alone", unit, 1);
    money_column(&t, "whole bill", unit, 0);
    table_column(&t, "even at a run of", NULL, TABLE_RIGHT, 2);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "verdict", NULL, TABLE_LEFT, 0);
    for (size_t i = 0; i < s->n_rows; i++) {
        const struct spend_row *row = &s->rows[i];
        char text[FORMAT_MAX];
        table_row(&t);
        table_cell(&t, row->way.target);
        table_count(&t, row->target.chips);
        price_cell(&t, row->price);
        run_cell(&t, row->way.run);
        snprintf(text, sizeof text, "%.6g", row->way.items);
        table_number(&t, row->way.items, text);
        usd_cell(&t, spend_usd(s, row, false));
        usd_cell(&t, spend_usd(s, row, true));
        struct quantity even = spend_break_even_run(s, row);
        format_time(text, even.value);
        if (isnan(even.value) || s->cheapest == (int)i)
            table_cell(&t, "");
        else
            table_number(&t, even.value, text);
        table_cell(&t, isnan(row->price.value) ? "no price"
                       : !row->meets           ? "too slow"
                       : s->cheapest == (int)i ? "cheapest"
                                               : "");
    }
    int rc = table_print(&t, &cli->out, TABLE_TEXT, (size_t)cli->width, cli->color, err);
    table_release(&t);
    return rc;
}

static bool has_once(const struct spend *s)
{
    const double *once = s->options.once_s;
    return once[BILL_PROVISION] + once[BILL_STAGING] + once[BILL_COMPILE] + once[BILL_IDLE] > 0;
}

static int print_session(struct cli *cli, const struct spend *s, struct error *err)
{
    struct table t;
    table_init(&t);
    table_column(&t, "one session", NULL, TABLE_LEFT, 0);
    for (int k = 0; k < BILL_PARTS; k++)
        money_column(&t, bill_part_name((enum bill_part)k), "USD", k == BILL_RUNS ? 0 : 1);
    money_column(&t, "all", "USD", 0);
    for (size_t i = 0; i < s->n_rows; i++) {
        const struct spend_row *row = &s->rows[i];
        table_row(&t);
        table_cell(&t, row->way.target);
        for (int k = 0; k <= BILL_PARTS; k++) {
            double usd = k < BILL_PARTS ? row->bill.usd[k] : row->bill.total_usd;
            usd_cell(&t, quantity_make(isnan(row->price.value) ? NAN : usd, "USD", ORIGIN_DERIVED, row->price.source));
        }
    }
    str_add_char(&cli->out, '\n');
    int rc = table_print(&t, &cli->out, TABLE_TEXT, (size_t)cli->width, cli->color, err);
    table_release(&t);
    return rc;
}

static int print_residency(struct cli *cli, const struct spend *s, struct error *err)
{
    struct table t;
    char unit[40], text[FORMAT_MAX];
    snprintf(unit, sizeof unit, "USD/%s", spend_quote_name(s));
    table_init(&t);
    table_column(&t, "way", NULL, TABLE_LEFT, 0);
    for (int k = s->options.per_hour > 0 ? BILL_RESIDENT : BILL_STAGED; k < BILL_RESIDENCIES; k++)
        money_column(&t, bill_residency_name((enum bill_residency)k), unit, 0);
    for (int k = BILL_STAGED; k < BILL_RESIDENCIES; k++) {
        snprintf(text, sizeof text, "cheaper than %s above", bill_residency_name((enum bill_residency)k));
        table_column(&t, text, "1/h", TABLE_RIGHT, 1);
        table_origin(&t, ORIGIN_DERIVED);
    }
    for (size_t i = 0; i < s->n_rows; i++) {
        const struct spend_row *row = &s->rows[i];
        double usd_per_s = row->price.value * row->terms.chips / 3600;
        table_row(&t);
        table_cell(&t, row->way.target);
        for (int k = s->options.per_hour > 0 ? BILL_RESIDENT : BILL_STAGED; k < BILL_RESIDENCIES; k++) {
            double billed = bill_request_s(&row->terms, (enum bill_residency)k, s->options.per_hour);
            usd_cell(&t, quantity_make(spend_quote(s) * usd_per_s * billed, "USD", ORIGIN_DERIVED, row->price.source));
        }
        for (int k = BILL_STAGED; k < BILL_RESIDENCIES; k++) {
            double above = bill_resident_above(&row->terms, (enum bill_residency)k);
            if (isinf(above))
                table_cell(&t, "never");
            else
                table_number(&t, above, NULL);
        }
    }
    str_add_char(&cli->out, '\n');
    int rc = table_print(&t, &cli->out, TABLE_TEXT, (size_t)cli->width, cli->color, err);
    table_release(&t);
    return rc;
}

static void print_markets(struct cli *cli, const struct spend *s)
{
    struct str text;
    str_init(&text);
    for (size_t i = 0; i < s->n_rows; i++) {
        const struct spend_row *row = &s->rows[i];
        struct quantity even = spend_spot_break_even(row);
        if (isnan(even.value))
            continue;
        bool again = false; // one line for each pair of prices
        for (size_t k = 0; k < i; k++)
            again |= s->rows[k].target.chip == row->target.chip;
        if (again)
            continue;
        str_addf(&text, "%s: spot at %.4g USD/h against %.4g on demand", row->target.chip->name, row->spot.value,
                 row->on_demand.value);
        if (isinf(even.value))
            str_add(&text, " is cheaper as long as being taken away costs no time (give --staging, --lost). ");
        else
            str_addf(&text, " is cheaper up to %.3g preemptions an hour, at %.4g s each. ", even.value,
                     bill_preemption_s(&row->terms));
    }
    if (text.length) {
        str_add_char(&cli->out, '\n');
        wrap_text(&cli->out, str_text(&text), 0, 0, cli->width);
    }
    str_release(&text);
}

static int print_text(struct cli *cli, const struct spend *s, struct error *err)
{
    int rc = print_ways(cli, s, err);
    if (!rc && (has_once(s) || s->options.preemptions > 0))
        rc = print_session(cli, s, err);
    if (!rc && (has_once(s) || s->options.per_hour > 0))
        rc = print_residency(cli, s, err);
    if (rc)
        return rc;
    print_markets(cli, s);
    str_add_char(&cli->out, '\n');
    wrap_text(&cli->out,
              "USD = price x chips x hours / items; hours are runs x run, and in the whole bill provisioning, staging, "
              "compilation and idle time once a session, and what preemptions repeat. A run's latency does not count "
              "waiting for its batch to fill.",
              0, 0, cli->width);
    return 0;
}

static int result(void *of, struct jw *w, struct error *err)
{
    (void)err;
    spend_json(of, w);
    return 0;
}

// ---- The command

static int run(struct cli *cli, struct error *err)
{
    struct spend s;
    struct spend_options o = {
        .region = cli_string(cli, "region"),
        .spot = cli_flag(cli, "spot"),
        .once_s = {[BILL_PROVISION] = cli_double(cli, "provisioning", 0),
                   [BILL_STAGING] = cli_double(cli, "staging", 0),
                   [BILL_COMPILE] = cli_double(cli, "compile", 0),
                   [BILL_IDLE] = cli_double(cli, "idle", 0)},
        .runs = cli_double(cli, "runs", 1),
        .preemptions = cli_double(cli, "preemptions", 0),
        .lost_s = cli_double(cli, "lost", 0),
        .latency_s = cli_double(cli, "latency", 0) / 1e3,
        .per_hour = cli_double(cli, "rate", 0),
    };
    double items;
    o.n_prices = cli_strings(cli, "price", &o.prices);
    o.n_ways = cli->n_operands;
    int rc = read_items(cli, &o.unit, &items, err);
    struct spend_way *ways = arena_new(&cli->arena, struct spend_way, o.n_ways, err);
    if (!rc && !ways)
        rc = ERR_MEMORY;
    for (size_t i = 0; i < o.n_ways && !rc; i++)
        rc = read_way(cli, cli->operands[i], items, &ways[i], err);
    if (rc)
        return rc;
    o.ways = ways;
    rc = spend_open(&s, &o, err);
    if (!rc && !cli->json)
        rc = print_text(cli, &s, err);
    if (!rc && cli->json)
        rc = cli_document(cli, result, &s, err);
    spend_close(&s);
    return rc;
}

static const char *const description[] = {
    "What serving costs: USD per million tokens, per thousand images or requests, for one or more ways of running it. "
    "Nothing runs.",
    "A way is TARGET=SECONDS, the time of one run on those chips: v6e=0.262, or v6e:2x4=0.09/4 where a run makes 4 "
    "items. In place of SECONDS may stand the record of a bench or qualify run, whose measured median is taken.",
    "The formula is price x chips x hours / items. The runs alone are what is usually quoted; the whole bill has also "
    "what a session does once (provisioning, staging of weights, compilation, idle time), shared by its --runs, and "
    "with --spot what preemptions repeat.",
    "Prices are those of a dated table where there are any; --price is better. With staging, compilation or "
    "provisioning given, the command also says from how many requests an hour a machine that is held for the model "
    "(resident) is cheaper than one that loads the weights for each request (staged) or is made for each (cold).",
    NULL,
};

#define SECONDS(what) .kind = OPTION_DOUBLE, .argument = "S", .preset = "0", .min = 0, .max = 1e9, .help = what
#define COUNT(what)   .kind = OPTION_DOUBLE, .argument = "N", .min = 1e-9, .max = 1e15, .help = what

static const struct option options[] = {
    {.name = "price",
     .kind = OPTION_STRINGS,
     .argument = "[CHIP=]USD",
     .help = "price of a chip for an hour; for one chip when its name stands before"},
    {.name = "region",
     .kind = OPTION_STRING,
     .argument = "NAME",
     .help = "whose prices, as in us-central1 or europe-west4"},
    {.name = "spot", .kind = OPTION_FLAG, .help = "chips that may be taken away at any time"},
    {.name = "tokens", COUNT("tokens that one run makes or reads")},
    {.name = "images", COUNT("images that one run makes")},
    {.name = "requests", COUNT("requests that one run serves; 1 when nothing is said")},
    {.name = "latency",
     .kind = OPTION_DOUBLE,
     .argument = "MS",
     .min = 1e-6,
     .max = 1e12,
     .help = "milliseconds that a run may take: slower ways cannot be the cheapest"},
    {.name = "provisioning", SECONDS("seconds of a session until the machine is there, where they are charged")},
    {.name = "staging", SECONDS("seconds to bring the weights to the device")},
    {.name = "compile", SECONDS("seconds of compilation")},
    {.name = "idle", SECONDS("seconds of a session that nobody uses")},
    {.name = "runs",
     .kind = OPTION_DOUBLE,
     .argument = "N",
     .preset = "1",
     .min = 1,
     .max = 1e15,
     .help = "runs of a session, which share what it does once"},
    {.name = "preemptions",
     .kind = OPTION_DOUBLE,
     .argument = "N",
     .preset = "0",
     .min = 0,
     .max = 1e6,
     .help = "with --spot, how often in an hour the chips are taken away"},
    {.name = "lost", SECONDS("seconds of work that each preemption loses")},
    {.name = "rate",
     .kind = OPTION_DOUBLE,
     .argument = "N",
     .min = 1e-9,
     .max = 1e12,
     .help = "requests an hour that come: what each costs on a machine that is held for them"},
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay cost v6e=0.262 --images 1 --price 0.243", "images at 0.262 s each: 0.0177 USD per thousand"},
    {"assay cost v6e=0.262 v5e=0.9 v6e=0.85/4 --images 1 --latency 900", "two chips and a batch of four, by 0.9 s"},
    {"assay cost v6e=0.262 --spot --staging 40 --compile 60 --lost 30 --runs 1000", "the whole bill of a session"},
    {NULL, NULL},
};

const struct command command_cost = {
    .name = "cost",
    .operands = "WAY...",
    .min_operands = 1,
    .max_operands = -1,
    .summary = "money per million tokens, per image, per request, with everything that is billed",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
