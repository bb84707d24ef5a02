// SPDX-License-Identifier: Apache-2.0
// What serving costs on rented chips: several ways of running one thing, billed alike and compared.
#ifndef LAB_SPEND_H
#define LAB_SPEND_H

#include "base/arena.h"
#include "chips/chips.h"
#include "plan/bill.h"
#include "plan/tariff.h"

enum { SPEND_MAX = 64 };

// One way of running it: chips, the time of one run there, and what a run makes.
struct spend_way {
    const char *target;  // "v6e", "v6e:2x4", "v5p-8"
    struct quantity run; // seconds
    double items;
};

struct spend_options {
    const struct spend_way *ways;
    size_t n_ways;
    const char *unit;          // what items are: "tokens", "images" or "requests"
    const char *const *prices; // "0.243" for every chip, or "v6e=0.243": USD per chip and hour
    size_t n_prices;
    const char *region; // NULL: where the table's first price is
    bool spot;
    double once_s[BILL_PARTS]; // as of bill_terms
    double runs;               // of a session; 0: 1
    double preemptions, lost_s;
    double latency_s; // that a run may take; 0: any
    double per_hour;  // requests that come; 0: not said
};

struct spend_row {
    struct spend_way way;
    struct chip_target target;
    struct quantity price;           // USD/h of a chip; NAN: no bill, and why
    struct quantity on_demand, spot; // of the table, for the comparison; NAN where there is none
    struct bill_terms terms;
    struct bill bill;
    bool meets; // the latency
};

struct spend {
    struct arena arena;
    struct spend_options options; // strings borrowed
    struct spend_row *rows;
    size_t n_rows;
    int cheapest; // of those that meet the latency and have a price; -1: none
};

// ERR_USAGE for targets, prices and numbers that cannot be. Call spend_close in any case.
int spend_open(struct spend *s, const struct spend_options *o, struct error *err);
void spend_close(struct spend *s);

// Items that a price is quoted for: a million tokens, a thousand of anything else; and its name, "1M tokens".
double spend_quote(const struct spend *s);
const char *spend_quote_name(const struct spend *s);

// USD per quote [D]: of the runs alone, or of the whole bill. NAN with the reason where there is no price.
struct quantity spend_usd(const struct spend *s, const struct spend_row *row, bool whole);
// The time of a run at which this row would cost what the cheapest does, all else equal [D].
struct quantity spend_break_even_run(const struct spend *s, const struct spend_row *row);
// Preemptions an hour up to which spot is the cheaper market for this row [D]; NAN where a price is missing.
struct quantity spend_spot_break_even(const struct spend_row *row);

// The `result` object of assay.cost/1.
void spend_json(const struct spend *s, struct jw *w);

#endif
