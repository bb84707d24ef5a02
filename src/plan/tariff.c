// SPDX-License-Identifier: Apache-2.0
#include "plan/tariff.h"

#include <math.h>
#include <string.h>

// A catalog that is filled from the cloud's own price list. Its rows carry no date: the one given is when this snapshot
// was read; what an older snapshot had stands as another reading.
#define SNAPSHOT(commit)                                                                                               \
    {                                                                                                                  \
        "https://github.com/skypilot-org/skypilot-catalog/blob/" commit "/catalogs/v8/gcp/vms.csv", "2026-11-29",      \
            "https://github.com/skypilot-org/skypilot-catalog/blob/" commit "/catalogs/v8/gcp/vms.csv (2026-11-29)"    \
    }
#define NEW SNAPSHOT("8427bbf")
#define OLD SNAPSHOT("006059e")

#define USD(v, text) .value = (v), .unit = "USD/h", .origin = ORIGIN_SHEET, .printed = (text)
#define WAS(v, text)                                                                                                   \
    .others = (const struct chip_reading[])                                                                            \
    {                                                                                                                  \
        {v, text, OLD},                                                                                                \
        {                                                                                                              \
            .printed = NULL                                                                                            \
        }                                                                                                              \
    }
#define ON_DEMAND(...)                                                                                                 \
    false,                                                                                                             \
    {                                                                                                                  \
        __VA_ARGS__, .from = NEW                                                                                       \
    }
#define SPOT(...)                                                                                                      \
    true,                                                                                                              \
    {                                                                                                                  \
        __VA_ARGS__, .from = NEW                                                                                       \
    }

// clang-format off
static const struct tariff table[] = {
    {"v3",  "us",              ON_DEMAND(USD(2.00, "512 an hour for v3-512, which is 256 chips"))},
    {"v4",  "us",              ON_DEMAND(USD(3.22, "3.22"))},
    {"v4",  "us",              SPOT(USD(0.9215, "0.9215"))},
    {"v5e", "us",              ON_DEMAND(USD(1.20, "1.20"))},
    {"v5e", "europe",          ON_DEMAND(USD(1.56, "1.56"))},
    {"v5e", "us-central1",     SPOT(USD(0.245, "0.245"))},
    {"v5e", "europe-west4",    SPOT(USD(0.445, "0.445"))},
    {"v5p", "us",              ON_DEMAND(USD(4.20, "4.20"))},
    {"v5p", "us-central1",     SPOT(USD(0.929, "0.929"), WAS(0.836, "0.836"))},
    {"v5p", "us-east5",        SPOT(USD(1.68, "1.68"))},
    {"v6e", "us",              ON_DEMAND(USD(2.70, "2.70"))},
    {"v6e", "europe",          ON_DEMAND(USD(2.97, "2.97"))},
    {"v6e", "asia-southeast1", ON_DEMAND(USD(2.97, "2.97"))},
    {"v6e", "asia-northeast1", ON_DEMAND(USD(3.24, "3.24"))},
    {"v6e", "us-central1",     SPOT(USD(0.573, "0.573"), WAS(0.544, "0.544"))},
    {"v6e", "europe-west4",    SPOT(USD(1.037, "1.037"))},
    {"v6e", "asia-southeast1", SPOT(USD(0.363, "0.363"))},
    {"v6e", "us-east5",        SPOT(USD(1.35, "1.35"), WAS(1.215, "1.215"))},
};
// clang-format on

enum { ROWS = sizeof table / sizeof *table };

const struct tariff *tariff_at(size_t i)
{
    return i < ROWS ? &table[i] : NULL;
}

struct quantity tariff_price(const struct chip *chip, const char *region, bool spot, const struct tariff **row)
{
    const struct tariff *best = NULL;
    for (size_t i = 0; i < ROWS; i++) {
        const struct tariff *t = &table[i];
        if (t->spot != spot || strcmp(t->chip, chip->name) != 0)
            continue;
        size_t n = strlen(t->region);
        bool holds = !region || (strncmp(region, t->region, n) == 0 && (!region[n] || region[n] == '-'));
        if (holds && (!best || (region && n > strlen(best->region))))
            best = t;
    }
    if (row)
        *row = best;
    if (best)
        return chip_value_quantity(&best->price);
    return quantity_make(NAN, "USD/h", ORIGIN_SHEET,
                         region ? "no price is known there; give --price, or another --region"
                                : "no price is known of this chip; give --price");
}
