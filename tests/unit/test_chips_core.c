// SPDX-License-Identifier: Apache-2.0
#include "chips/core.h"

#include <math.h>

#include "chips/gpu.h"
#include "test.h"

// Units, their size, rows per cycle and the clock are one statement about the bf16 rate; where the clock is printed by
// the compiler, the two are independent. 0.5 %: rates are printed in three digits. The compiler of TPU7x believes in
// 1.9 GHz, which is 86 % of the rate that is published: there the rate counts.
TEST(chips_core_gives_the_rate)
{
    static const char *const names[] = {"v6e", "v5e", "v5p", "v4", "v3", "tpu7x"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct chip *chip;
        struct error err = {0};
        struct chip_core core;
        REQUIRE_OK(chip_find(names[i], &chip, &err), &err);
        REQUIRE(chip_core(chip, &core));
        double per_cycle = 2.0 * core.cores * core.units * core.size * core.size * core.rows;
        double rate = chip_rate(chip, CHIP_BF16, CHIP_PER_DEVICE).value;
        CHECK_NEAR(per_cycle * core.clock_hz / rate, 1, 0.005);
        CHECK(core.clock_hz > 0.6e9 && core.clock_hz < 2.5e9);
        CHECK_INT(core.origin, i == 0 ? ORIGIN_SHEET : ORIGIN_DERIVED); // v6e's alone is printed and agrees
    }
}

TEST(chips_core_of_others_is_not_known)
{
    static const char *const names[] = {"h100", "local"};
    struct chip_core core;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct chip *chip;
        struct error err = {0};
        REQUIRE_OK(chip_find(names[i], &chip, &err), &err);
        CHECK(!chip_core(chip, &core));
    }
    CHECK(!chip_core(NULL, &core));
}

// Every GPU of NVIDIA's in the table can be described to a compiler, with the table's own figures; no other chip can.
TEST(chips_gpu_config)
{
    int described = 0;
    for (size_t i = 0; i < chip_count(); i++) {
        const struct chip *chip = chip_at(i);
        struct str s;
        char cores[32];
        str_init(&s);
        bool nvidia = chip->vendor && strcmp(chip->vendor, "NVIDIA") == 0;
        if (!CHECK(chip_gpu_config(chip, &s) == nvidia))
            printf("  %s\n", chip->name);
        snprintf(cores, sizeof cores, "core_count: %d ", chip->cores_per_chip);
        CHECK(!nvidia || (strstr(str_text(&s), cores) && strstr(str_text(&s), "compute_capability")));
        described += nvidia;
        str_release(&s);
    }
    CHECK(described >= 5);
}
