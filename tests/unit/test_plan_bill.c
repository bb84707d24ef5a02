// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "plan/bill.h"
#include "plan/tariff.h"
#include "test.h"

// One image in 0.262 s on one v6e at 0.243 USD an hour: 17.7 USD per million images.
TEST(bill_known_answers)
{
    struct bill_terms t = {.usd_per_hour = 0.243, .chips = 1, .run_s = 0.262, .items = 1, .runs = 1};
    struct bill b;
    struct error e = {0};
    REQUIRE_OK(bill_make(&t, &b, &e), &e);
    CHECK_NEAR(1000 * b.usd_per_item, 0.0177, 0.00005); // as it is printed, three digits
    CHECK_NEAR(b.usd_per_item, 0.243 * 0.262 / 3600, 1e-18);
    t.usd_per_hour = 2.70;
    REQUIRE_OK(bill_make(&t, &b, &e), &e);
    CHECK_NEAR(1000 * b.usd_per_item, 0.1965, 1e-12);

    // Eight chips at 2 USD that make 1e6 tokens in an hour; a session of two runs with an hour of everything else.
    t = (struct bill_terms){.usd_per_hour = 2, .chips = 8, .run_s = 3600, .items = 1e6, .runs = 2};
    t.once_s[BILL_PROVISION] = 600;
    t.once_s[BILL_STAGING] = 1200;
    t.once_s[BILL_COMPILE] = 900;
    t.once_s[BILL_IDLE] = 900;
    REQUIRE_OK(bill_make(&t, &b, &e), &e);
    CHECK_NEAR(1e6 * b.run_usd_per_item, 16, 1e-12);
    CHECK_NEAR(b.total_usd, 48, 1e-12);
    CHECK_NEAR(1e6 * b.usd_per_item, 24, 1e-12);
    CHECK_NEAR(b.usd[BILL_STAGING], 16.0 / 3, 1e-12);
    CHECK_NEAR(b.usd[BILL_PREEMPTED], 0, 0);

    // Taken away once in two hours, each time 45 minutes of beginning again and 15 of lost work: half of the time.
    t.preemptions = 0.5;
    t.lost_s = 900;
    CHECK_NEAR(bill_preemption_s(&t), 3600, 0);
    REQUIRE_OK(bill_make(&t, &b, &e), &e);
    CHECK_NEAR(b.total_usd, 96, 1e-12);
    double sum = 0;
    for (int k = 0; k < BILL_PARTS; k++)
        sum += b.usd[k];
    CHECK_NEAR(sum, b.total_usd, 1e-12);
}

TEST(bill_break_evens)
{
    struct bill_terms t = {.usd_per_hour = 1, .chips = 1, .run_s = 1, .items = 1, .runs = 100};
    struct bill cheap, dear;
    struct error e = {0};
    t.once_s[BILL_STAGING] = 60;
    t.once_s[BILL_COMPILE] = 119;
    // At the break-even both markets bill the same.
    double p = bill_spot_break_even(2.70, 0.573, bill_preemption_s(&t));
    t.usd_per_hour = 2.70;
    REQUIRE_OK(bill_make(&t, &dear, &e), &e);
    t.usd_per_hour = 0.573;
    t.preemptions = p;
    REQUIRE_OK(bill_make(&t, &cheap, &e), &e);
    CHECK_NEAR(cheap.total_usd, dear.total_usd, 1e-12);
    CHECK(isinf(bill_spot_break_even(2, 1, 0)));
    CHECK_NEAR(bill_spot_break_even(1, 2, 100), 0, 0);

    // 3600 requests an hour keep the machine busy; cold costs 180 s each, so 20 an hour are worth holding it.
    CHECK_NEAR(bill_resident_above(&t, BILL_COLD), 20, 1e-12);
    CHECK_NEAR(bill_resident_above(&t, BILL_STAGED), 3600.0 / 61, 1e-12);
    CHECK_NEAR(bill_request_s(&t, BILL_RESIDENT, 20), bill_request_s(&t, BILL_COLD, 20), 1e-12);
    CHECK_NEAR(bill_request_s(&t, BILL_RESIDENT, 1e9), 1, 0);
    t.once_s[BILL_STAGING] = 0;
    CHECK(isinf(bill_resident_above(&t, BILL_STAGED)));
}

TEST(bill_refuses_what_cannot_be)
{
    const struct bill_terms good = {.usd_per_hour = 1, .chips = 1, .run_s = 1, .items = 1, .runs = 1};
    const double bad[] = {0, -1, NAN, INFINITY};
    struct bill b;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (int k = 0; k < 6; k++) {
            struct bill_terms t = good;
            double *terms[] = {&t.usd_per_hour, &t.chips, &t.run_s, &t.items, &t.runs, &t.once_s[BILL_IDLE]};
            struct error e = {0};
            *terms[k] = bad[i];
            int want = k == 5 && bad[i] == 0 ? 0 : ERR_USAGE;
            CHECK_INT(bill_make(&t, &b, &e), want);
            CHECK(!want || e.message[0]);
        }
    }
    struct error e = {0};
    struct bill_terms t = good;
    t.preemptions = 1;
    t.lost_s = 3600;
    CHECK_INT(bill_make(&t, &b, &e), ERR_USAGE);
    CHECK(strstr(e.message, "never end") != NULL);
    t = good;
    t.usd_per_hour = t.run_s = 1e200;
    CHECK_INT(bill_make(&t, &b, &e), ERR_USAGE);
}

TEST(tariff_every_price_has_a_source_and_its_chip)
{
    const struct tariff *t;
    for (size_t i = 0; (t = tariff_at(i)); i++) {
        const struct chip *c = NULL;
        struct error e = {0};
        REQUIRE_OK(chip_find(t->chip, &c, &e), &e);
        CHECK_STR(c->name, t->chip);
        CHECK_STR(t->price.unit, "USD/h");
        // The catalog has 700 where it does not know.
        CHECK(t->price.value > 0 && t->price.value < 100 && t->price.printed && t->price.from.cite && t->region[0]);
        const struct tariff *row;
        CHECK_NEAR(tariff_price(c, t->region, t->spot, &row).value, t->price.value, 0);
        CHECK(row == t);
        if (t->spot) // cheaper than on demand, wherever
            CHECK(t->price.value < tariff_price(c, NULL, false, NULL).value);
    }
}

TEST(tariff_finds_the_region)
{
    const struct chip *v6e = NULL, *h100 = NULL;
    struct error e = {0};
    REQUIRE_OK(chip_find("v6e", &v6e, &e), &e);
    REQUIRE_OK(chip_find("h100", &h100, &e), &e);
    CHECK_NEAR(tariff_price(v6e, NULL, false, NULL).value, 2.70, 0);
    CHECK_NEAR(tariff_price(v6e, "us-east5", false, NULL).value, 2.70, 0);
    CHECK_NEAR(tariff_price(v6e, "us-east5", true, NULL).value, 1.35, 0);
    CHECK_NEAR(tariff_price(v6e, "europe-west4", false, NULL).value, 2.97, 0);
    CHECK(isnan(tariff_price(v6e, "usa", false, NULL).value));
    CHECK(isnan(tariff_price(v6e, "africa-south1", false, NULL).value));
    struct quantity none = tariff_price(h100, NULL, false, NULL);
    CHECK(isnan(none.value));
    CHECK(strstr(none.source, "--price") != NULL);
}
