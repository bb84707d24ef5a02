// SPDX-License-Identifier: Apache-2.0
// The calibration of this machine, from the user's cache. What is accepted must make a chip with the same figures.
#include <math.h>
#include <stdlib.h>

#include "chips/local.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct chip_local l;
    struct error err = {0};
    if (chips_local_parse((const char *)data, size, "fuzz", &l, &err)) {
        must(err.code && err.message[0]);
        return 0;
    }
    must(l.threads >= 1 && l.memory_bytes > 0 && isfinite(l.memory_bytes));
    struct arena arena;
    arena_init(&arena);
    const struct chip *chip;
    must(chips_local_chip(&arena, &l, &chip, &err) == 0);
    for (size_t t = 0; t < CHIP_TYPES; t++) {
        double v = chip->rate[t].value;
        must(isnan(v) == isnan(l.rate[t].value) && (isnan(v) || (v == l.rate[t].value && v > 0)));
        must((chip->rate[t].printed != NULL) == !isnan(v));
    }
    arena_release(&arena);
    return 0;
}
