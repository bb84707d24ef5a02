// SPDX-License-Identifier: Apache-2.0
// What an hour of a chip costs: dated figures, for want of better ones. The user's own price is always better.
#ifndef PLAN_TARIFF_H
#define PLAN_TARIFF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/quantity.h"
#include "chips/chips.h"

struct tariff {
    const char *chip;        // as the table of chips calls it
    const char *region;      // "us-central1", or the beginning that several share: "us", "europe"
    bool spot;               // may be taken away at any time; else on demand
    struct chip_value price; // USD per chip and hour
};

// Rows of one chip stand together, the one that holds where no region is named first. NULL past the last.
const struct tariff *tariff_at(size_t i);

// The price of a chip: of the row whose region is `region` or the longest beginning of it; where `region` is NULL, of
// the chip's first row of that market. NAN, with what to do about it as the source, when there is none. *row may be
// NULL; NULL comes out when there is none.
struct quantity tariff_price(const struct chip *chip, const char *region, bool spot, const struct tariff **row);

#endif
