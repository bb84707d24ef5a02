// SPDX-License-Identifier: Apache-2.0
// What a session on rented chips costs: its runs, what it does once, the time nobody uses, and what is lost when the
// chips are taken away.
//
//     USD = price * chips * hours;   hours = (runs * run + provision + staging + compile + idle) / 3600 * retries
//
// On chips that may be taken away, each time costs the once-only part again and the work since the last result that was
// kept: with p preemptions an hour of machine time and c hours lost by each, a session of T hours takes T / (1 - p c).
// (To first order 1 + p c.)
#ifndef PLAN_BILL_H
#define PLAN_BILL_H

#include <stdbool.h>

#include "base/error.h"

enum bill_part { BILL_RUNS, BILL_PROVISION, BILL_STAGING, BILL_COMPILE, BILL_IDLE, BILL_PREEMPTED, BILL_PARTS };
const char *bill_part_name(enum bill_part part); // "runs", "provisioning", ...

struct bill_terms {
    double usd_per_hour;       // of one chip
    double chips;              //
    double run_s;              // of one run
    double items;              // that one run makes: tokens, images, requests
    double runs;               // of a session
    double once_s[BILL_PARTS]; // BILL_PROVISION to BILL_IDLE: seconds of a session that are no run; others are not read
    double preemptions;        // an hour; 0 on demand
    double lost_s;             // work lost by each, besides that the session begins again
};

struct bill {
    double usd[BILL_PARTS]; // of the whole session
    double total_usd;
    double items;            // of the whole session
    double run_usd_per_item; // of the runs alone: what is usually quoted
    double usd_per_item;
};

// ERR_USAGE for terms that are not finite or negative, a price, time or count of zero, and where preemptions come
// faster than a session can begin again.
int bill_make(const struct bill_terms *terms, struct bill *out, struct error *err);

// Seconds that one preemption costs: beginning again, and the work lost.
double bill_preemption_s(const struct bill_terms *terms);

// Preemptions an hour at which `spot` costs what `on_demand` does for the same session: (1 - spot / on demand) / c.
// INFINITY when a preemption costs nothing, 0 when spot is no cheaper.
double bill_spot_break_even(double on_demand, double spot, double preemption_s);

// How weights are kept between requests.
enum bill_residency { BILL_RESIDENT, BILL_STAGED, BILL_COLD, BILL_RESIDENCIES };
const char *bill_residency_name(enum bill_residency r);

// Machine seconds that a request is billed when `per_hour` come evenly. Resident: the machine is held for this model
// alone, so its share of the hour, and never less than its run. Staged: the machine is held and shared, weights are
// loaded for each request, so staging and run. Cold: a machine is made for each, so provisioning, staging, compilation
// and run.
double bill_request_s(const struct bill_terms *terms, enum bill_residency r, double per_hour);
// Requests an hour above which resident is cheaper than `other`; INFINITY when it never is.
double bill_resident_above(const struct bill_terms *terms, enum bill_residency other);

#endif
