// SPDX-License-Identifier: Apache-2.0
#include "plan/bill.h"

#include <math.h>
#include <stddef.h>

const char *bill_part_name(enum bill_part part)
{
    static const char *const names[BILL_PARTS] = {"runs", "provisioning", "staging", "compile", "idle", "preempted"};
    return names[part];
}

const char *bill_residency_name(enum bill_residency r)
{
    static const char *const names[BILL_RESIDENCIES] = {"resident", "staged", "cold"};
    return names[r];
}

static int check(double v, const char *what, bool positive, struct error *err)
{
    if (isfinite(v) && (positive ? v > 0 : v >= 0))
        return 0;
    return error_set(err, ERR_USAGE, what, "%g: must be a finite number %s", v,
                     positive ? "above zero" : "that is not negative");
}

double bill_preemption_s(const struct bill_terms *t)
{
    return t->once_s[BILL_PROVISION] + t->once_s[BILL_STAGING] + t->once_s[BILL_COMPILE] + t->lost_s;
}

int bill_make(const struct bill_terms *t, struct bill *out, struct error *err)
{
    const struct {
        double value;
        const char *what;
        bool positive;
    } checks[] = {
        {t->usd_per_hour, "price", true},     {t->chips, "chips", true},
        {t->run_s, "seconds of a run", true}, {t->items, "items of a run", true},
        {t->runs, "runs of a session", true}, {t->preemptions, "preemptions", false},
        {t->lost_s, "lost work", false},
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof checks / sizeof *checks && !rc; i++)
        rc = check(checks[i].value, checks[i].what, checks[i].positive, err);
    for (int k = BILL_PROVISION; k <= BILL_IDLE && !rc; k++)
        rc = check(t->once_s[k], bill_part_name((enum bill_part)k), false, err);
    if (rc)
        return rc;
    double retried = t->preemptions * bill_preemption_s(t) / 3600;
    if (retried >= 1)
        return error_set(err, ERR_USAGE, "preemptions",
                         "%g an hour that cost %g s each leave no time to work: the session would never end",
                         t->preemptions, bill_preemption_s(t));
    double usd_per_s = t->usd_per_hour * t->chips / 3600, seconds = t->runs * t->run_s;
    out->usd[BILL_RUNS] = usd_per_s * seconds;
    for (int k = BILL_PROVISION; k <= BILL_IDLE; k++) {
        out->usd[k] = usd_per_s * t->once_s[k];
        seconds += t->once_s[k];
    }
    out->total_usd = usd_per_s * seconds / (1 - retried);
    out->usd[BILL_PREEMPTED] = out->total_usd - usd_per_s * seconds;
    out->items = t->runs * t->items;
    out->run_usd_per_item = out->usd[BILL_RUNS] / out->items;
    out->usd_per_item = out->total_usd / out->items;
    return isfinite(out->total_usd) && isfinite(out->items)
               ? 0
               : error_set(err, ERR_USAGE, "cost", "the numbers are too large to multiply");
}

double bill_spot_break_even(double on_demand, double spot, double preemption_s)
{
    if (spot >= on_demand)
        return 0;
    return preemption_s > 0 ? (1 - spot / on_demand) / (preemption_s / 3600) : INFINITY;
}

static double work_s(const struct bill_terms *t, enum bill_residency r)
{
    double s = t->run_s / t->items;
    if (r == BILL_STAGED)
        s += t->once_s[BILL_STAGING];
    if (r == BILL_COLD)
        s += t->once_s[BILL_PROVISION] + t->once_s[BILL_STAGING] + t->once_s[BILL_COMPILE];
    return s;
}

double bill_request_s(const struct bill_terms *t, enum bill_residency r, double per_hour)
{
    double s = work_s(t, r);
    return r == BILL_RESIDENT ? fmax(s, 3600 / per_hour) : s;
}

double bill_resident_above(const struct bill_terms *t, enum bill_residency other)
{
    double s = work_s(t, other);
    // At full use a resident machine needs the run alone: cheaper only where the other needs more than that.
    return s > work_s(t, BILL_RESIDENT) ? 3600 / s : INFINITY;
}
