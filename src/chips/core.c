// SPDX-License-Identifier: Apache-2.0
#include "chips/core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool chip_core(const struct chip *chip, struct chip_core *out)
{
    // v6e and tpu7x take two rows per cycle: 2 units x 256 x 256 x 2 rows x 2 FLOP x 1.75 GHz are the 918 TFLOP/s of
    // v6e.
    static const struct {
        const char *chip;
        int rows;
        double clock_hz;
    } known[] = {{"v6e", 2, 1750e6}, {"tpu7x", 2, 1900e6}, {"v5p", 1, NAN}, {"v5e", 1, NAN},
                 {"v4", 1, NAN},     {"v3", 1, NAN},       {"v2", 1, NAN}};
    *out = (struct chip_core){0};
    const char *text = chip ? chip->mxu.text : NULL, *size = text ? strstr(text, " of ") : NULL; // "2 of 256x256"
    if (!size)
        return false;
    out->units = (int)strtol(text, NULL, 10);
    out->size = (int)strtol(size + 4, NULL, 10);
    if (out->units < 1 || out->size < 1)
        return false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].chip, chip->name) != 0)
            continue;
        struct quantity rate = chip_rate(chip, CHIP_BF16, CHIP_PER_DEVICE);
        out->cores = chip->cores_per_chip / chip->devices_per_chip;
        out->rows = known[i].rows;
        out->clock_hz = known[i].clock_hz;
        out->origin = ORIGIN_SHEET;
        out->source = "printed by the cost model of libtpu 0.0.52";
        double per_cycle = 2.0 * out->cores * out->units * out->size * out->size * out->rows;
        bool slow = out->clock_hz * per_cycle < 0.99 * rate.value; // a rate in three digits is no contradiction
        if (isnan(out->clock_hz) || slow) {
            out->clock_hz = rate.value / per_cycle;
            out->origin = ORIGIN_DERIVED;
            out->source = slow
                              ? "bf16 rate of the device / (2 x matrix units x their rows x columns x rows per cycle); "
                                "at the clock that libtpu 0.0.52 believes in, the units could not reach that rate"
                              : "bf16 rate of the device / (2 x matrix units x their rows x columns)";
        }
        return out->cores > 0 && isfinite(out->clock_hz);
    }
    return false;
}
