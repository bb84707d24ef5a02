// SPDX-License-Identifier: Apache-2.0
#include "lab/spend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FORMULA "price * chips * hours / items"

// A price of --price that is for this chip: the last one that names it, else the last one for all.
static int given_price(const struct spend_options *o, const struct chip *chip, double *price, struct error *err)
{
    bool named = false;
    *price = NAN;
    for (size_t i = 0; i < o->n_prices; i++) {
        const char *equals = strchr(o->prices[i], '='), *number = equals ? equals + 1 : o->prices[i];
        char *end, name[64];
        double v = strtod(number, &end);
        if (end == number || *end || !isfinite(v) || v <= 0)
            return error_set(err, ERR_USAGE, "--price", "\"%s\": USD per chip and hour above zero, or CHIP=USD",
                             o->prices[i]);
        const struct chip *of = NULL;
        if (equals) {
            size_t n = (size_t)(equals - o->prices[i]);
            if (n >= sizeof name)
                return error_set(err, ERR_USAGE, "--price", "\"%s\" names no chip", o->prices[i]);
            memcpy(name, o->prices[i], n);
            name[n] = '\0';
            int rc = chip_find(name, &of, err);
            if (rc)
                return rc;
        }
        if (of == chip || (!of && !named))
            *price = v;
        named |= of == chip;
    }
    return 0;
}

static int price(struct spend *s, struct spend_row *row, struct error *err)
{
    const struct spend_options *o = &s->options;
    const struct chip *chip = row->target.chip;
    double given;
    row->on_demand = tariff_price(chip, o->region, false, NULL);
    row->spot = tariff_price(chip, o->region, true, NULL);
    int rc = given_price(o, chip, &given, err);
    if (rc)
        return rc;
    row->price = isnan(given) ? (o->spot ? row->spot : row->on_demand)
                              : quantity_make(given, "USD/h", ORIGIN_SHEET, "given as --price");
    if (!isnan(given)) // the table's other market is another seller's
        row->on_demand = row->spot =
            quantity_make(NAN, "USD/h", ORIGIN_SHEET, "a price was given: the table's markets are not compared");
    return 0;
}

static int open_row(struct spend *s, struct spend_row *row, const struct spend_way *way, struct error *err)
{
    const struct spend_options *o = &s->options;
    row->way = *way;
    int rc = chip_target_parse(way->target, &row->target, err);
    if (!rc)
        rc = price(s, row, err);
    if (rc)
        return rc;
    struct bill_terms *t = &row->terms;
    *t = (struct bill_terms){.usd_per_hour = row->price.value,
                             .chips = row->target.chips,
                             .run_s = way->run.value,
                             .items = way->items,
                             .runs = o->runs > 0 ? o->runs : 1,
                             .preemptions = o->spot ? o->preemptions : 0,
                             .lost_s = o->lost_s};
    for (int k = BILL_PROVISION; k <= BILL_IDLE; k++)
        t->once_s[k] = o->once_s[k];
    row->meets = o->latency_s <= 0 || way->run.value <= o->latency_s;
    struct bill_terms checked = *t;
    if (isnan(row->price.value))
        checked.usd_per_hour = 1; // the other terms are looked at all the same
    rc = bill_make(&checked, &row->bill, err);
    if (rc)
        error_context(err, "%s", way->target);
    return rc;
}

int spend_open(struct spend *s, const struct spend_options *o, struct error *err)
{
    memset(s, 0, sizeof *s);
    arena_init(&s->arena);
    s->options = *o;
    s->cheapest = -1;
    if (o->n_ways == 0 || o->n_ways > SPEND_MAX)
        return error_set(err, ERR_USAGE, "cost", "give 1 to %d ways of running it", SPEND_MAX);
    if (strcmp(o->unit, "tokens") != 0 && strcmp(o->unit, "images") != 0 && strcmp(o->unit, "requests") != 0)
        return error_set(err, ERR_USAGE, o->unit, "items are tokens, images or requests");
    if (o->preemptions > 0 && !o->spot)
        return error_set(err, ERR_USAGE, "--preemptions", "nobody takes chips on demand away; add --spot");
    s->rows = arena_new(&s->arena, struct spend_row, o->n_ways, err);
    if (!s->rows)
        return ERR_MEMORY;
    for (size_t i = 0; i < o->n_ways; i++) {
        struct spend_row *row = &s->rows[i];
        int rc = open_row(s, row, &o->ways[i], err);
        if (rc)
            return rc;
        s->n_rows++;
        if (!isnan(row->price.value) && row->meets &&
            (s->cheapest < 0 || row->bill.usd_per_item < s->rows[s->cheapest].bill.usd_per_item))
            s->cheapest = (int)i;
    }
    return 0;
}

void spend_close(struct spend *s)
{
    arena_release(&s->arena);
}

double spend_quote(const struct spend *s)
{
    return strcmp(s->options.unit, "tokens") == 0 ? 1e6 : 1e3;
}

const char *spend_quote_name(const struct spend *s)
{
    return strcmp(s->options.unit, "tokens") == 0   ? "1M tokens"
           : strcmp(s->options.unit, "images") == 0 ? "1000 images"
                                                    : "1000 requests";
}

struct quantity spend_usd(const struct spend *s, const struct spend_row *row, bool whole)
{
    if (isnan(row->price.value))
        return quantity_make(NAN, "USD", ORIGIN_DERIVED, row->price.source);
    return quantity_make(spend_quote(s) * (whole ? row->bill.usd_per_item : row->bill.run_usd_per_item), "USD",
                         ORIGIN_DERIVED, whole ? FORMULA ", everything that is billed" : FORMULA ", the runs alone");
}

struct quantity spend_break_even_run(const struct spend *s, const struct spend_row *row)
{
    if (isnan(row->price.value) || s->cheapest < 0)
        return quantity_make(NAN, "s", ORIGIN_DERIVED, row->price.source);
    // The bill is a + b run: what of the cheapest's bill is left for the runs, over what a second of runs costs.
    double target = s->rows[s->cheapest].bill.usd_per_item * row->bill.items;
    double per_second = row->terms.usd_per_hour * row->terms.chips / 3600 * row->bill.total_usd /
                        (row->bill.total_usd - row->bill.usd[BILL_PREEMPTED]);
    double once = 0;
    for (int k = BILL_PROVISION; k <= BILL_IDLE; k++)
        once += row->terms.once_s[k];
    double run = (target / per_second - once) / row->terms.runs;
    if (run <= 0)
        return quantity_make(NAN, "s", ORIGIN_DERIVED, "what it does once costs more than the cheapest does in all");
    return quantity_make(run, "s", ORIGIN_DERIVED, "run at which the whole bill per item equals the cheapest's");
}

struct quantity spend_spot_break_even(const struct spend_row *row)
{
    if (isnan(row->on_demand.value) || isnan(row->spot.value))
        return quantity_make(NAN, "1/h", ORIGIN_DERIVED, "one of the two prices is not known");
    return quantity_make(bill_spot_break_even(row->on_demand.value, row->spot.value, bill_preemption_s(&row->terms)),
                         "1/h", ORIGIN_DERIVED, "(1 - spot / on demand) / hours that a preemption costs");
}

// ---- JSON

static void seconds(struct jw *w, const char *key, double s)
{
    quantity_json_kv(w, key, quantity_make(s, "s", ORIGIN_SHEET, "given"));
}

static void terms_json(struct jw *w, const struct spend_options *o)
{
    jw_key(w, "terms");
    jw_object(w);
    jw_kv_string(w, "region", o->region);
    jw_kv_string(w, "market", o->spot ? "spot" : "on-demand");
    jw_kv_double(w, "runs", o->runs > 0 ? o->runs : 1);
    for (int k = BILL_PROVISION; k <= BILL_IDLE; k++)
        seconds(w, bill_part_name((enum bill_part)k), o->once_s[k]);
    jw_kv_double(w, "preemptions_per_hour", o->preemptions);
    seconds(w, "lost", o->lost_s);
    seconds(w, "latency", o->latency_s > 0 ? o->latency_s : NAN);
    jw_kv_double(w, "requests_per_hour", o->per_hour > 0 ? o->per_hour : NAN);
    jw_object_end(w);
}

static void residency_json(struct jw *w, const struct spend *s, const struct spend_row *row)
{
    double usd_per_s = row->terms.usd_per_hour * row->terms.chips / 3600;
    jw_key(w, "residency");
    jw_array(w);
    for (int k = 0; k < BILL_RESIDENCIES; k++) {
        enum bill_residency r = (enum bill_residency)k;
        double per_hour = s->options.per_hour > 0 ? s->options.per_hour : INFINITY;
        double billed = bill_request_s(&row->terms, r, per_hour);
        jw_object(w);
        jw_kv_string(w, "name", bill_residency_name(r));
        quantity_json_kv(w, "billed", quantity_make(billed, "s", ORIGIN_DERIVED, "machine seconds of one item"));
        quantity_json_kv(w, "usd",
                         quantity_make(spend_quote(s) * usd_per_s * billed, "USD", ORIGIN_DERIVED,
                                       isnan(usd_per_s) ? row->price.source : "price * chips * billed hours"));
        quantity_json_kv(w, "resident_cheaper_above",
                         quantity_make(r == BILL_RESIDENT ? NAN : bill_resident_above(&row->terms, r), "1/h",
                                       ORIGIN_DERIVED, r == BILL_RESIDENT ? "itself" : "3600 / billed seconds"));
        jw_object_end(w);
    }
    jw_array_end(w);
}

void spend_json(const struct spend *s, struct jw *w)
{
    jw_object(w);
    jw_kv_string(w, "unit", spend_quote_name(s));
    jw_kv_string(w, "formula", FORMULA);
    terms_json(w, &s->options);
    jw_key(w, "ways");
    jw_array(w);
    for (size_t i = 0; i < s->n_rows; i++) {
        const struct spend_row *row = &s->rows[i];
        jw_object(w);
        jw_kv_string(w, "target", row->way.target);
        jw_kv_int(w, "chips", row->target.chips);
        quantity_json_kv(w, "price", row->price);
        quantity_json_kv(w, "run", row->way.run);
        jw_kv_double(w, "items", row->way.items);
        jw_kv_bool(w, "meets_latency", row->meets);
        jw_kv_bool(w, "cheapest", s->cheapest == (int)i);
        quantity_json_kv(w, "usd_runs", spend_usd(s, row, false));
        quantity_json_kv(w, "usd", spend_usd(s, row, true));
        jw_key(w, "session");
        jw_object(w);
        for (int k = 0; k < BILL_PARTS; k++)
            quantity_json_kv(w, bill_part_name((enum bill_part)k),
                             quantity_make(isnan(row->price.value) ? NAN : row->bill.usd[k], "USD", ORIGIN_DERIVED,
                                           isnan(row->price.value) ? row->price.source : "price * chips * hours"));
        jw_object_end(w);
        quantity_json_kv(w, "break_even_run", spend_break_even_run(s, row));
        quantity_json_kv(w, "on_demand", row->on_demand);
        quantity_json_kv(w, "spot", row->spot);
        quantity_json_kv(w, "spot_break_even", spend_spot_break_even(row));
        residency_json(w, s, row);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_object_end(w);
}
