// SPDX-License-Identifier: Apache-2.0
#include "plan/roofline.h"

#include "test.h"

// Relative; three roundings of doubles.
#define CHECK_CLOSE(got, want) CHECK_NEAR((got), (want), 4e-16 * fabs(want))

static const struct chip *chip(const char *name)
{
    const struct chip *c = NULL;
    struct error e = {0};
    if (chip_find(name, &c, &e) != 0)
        test_fail_error(__FILE__, __LINE__, name, e.where, e.message);
    return c;
}

// m x 1024 by 1024 x 1024 in bf16 with an f32 result.
static struct cost product(double m)
{
    struct cost c = {.bytes = 2 * (m * 1024 + 1024 * 1024) + 4 * m * 1024};
    c.product_flop[DT_BF16] = 2 * m * 1024 * 1024;
    return c;
}

// By hand, on 197e12 FLOP/s and 819e9 B/s (v5e).
TEST(plan_roofline_of_one_product)
{
    static const struct {
        double m, flop, bytes, compute_us, memory_us;
    } known[] = {
        {1, 2097152, 2103296, 0.010645, 2.568127},
        {64, 134217728, 2490368, 0.681308, 3.040742},
        {1024, 2147483648, 8388608, 10.900932, 10.242501},
    };
    struct arena a;
    struct error e = {0};
    struct floor f;
    arena_init(&a);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct cost c = product(known[i].m);
        CHECK_NEAR(cost_product_flop(&c), known[i].flop, 0);
        CHECK_NEAR(c.bytes, known[i].bytes, 0);
        REQUIRE_OK(roofline_floor(&c, chip("v5e"), &a, &f, &e), &e);
        CHECK_NEAR(f.compute_s * 1e6, known[i].compute_us, 5e-7); // as printed above
        CHECK_NEAR(f.memory_s * 1e6, known[i].memory_us, 5e-7);
        bool compute = known[i].compute_us > known[i].memory_us;
        CHECK_NEAR(f.time.value, compute ? known[i].compute_us : known[i].memory_us, 5e-7);
        CHECK_STR(bound_name(f.bound), compute ? "compute" : "memory");
        CHECK_STR(f.time.unit, "us");
        CHECK_INT(f.time.origin, ORIGIN_DERIVED);
    }
    struct cost c = product(64);
    struct quantity intensity = roofline_intensity(&c);
    CHECK_NEAR(intensity.value, 53.9, 0.05);
    arena_release(&a);
}

// Products of several types take turns on the same unit; what is not a product has no published rate and adds nothing.
TEST(plan_roofline_adds_the_types)
{
    struct arena a;
    struct error e = {0};
    struct floor f;
    struct cost c = {.bytes = 1, .element_flop = 1e15, .transcendentals = 1e15};
    arena_init(&a);
    c.product_flop[DT_BF16] = 197e12;
    c.product_flop[DT_S8] = 2 * chip_rate(chip("v5e"), chip_type_from_name("int8"), CHIP_PER_DEVICE).value;
    REQUIRE_OK(roofline_floor(&c, chip("v5e"), &a, &f, &e), &e);
    CHECK_CLOSE(f.compute_s, 3.0);
    CHECK_INT(f.bound, BOUND_COMPUTE);
    arena_release(&a);
}

// A chip of two devices: half of its figures each.
TEST(plan_roofline_is_of_one_device)
{
    struct arena a;
    struct error e = {0};
    struct floor f;
    struct cost c = {.bytes = 1e9};
    arena_init(&a);
    const struct chip *tpu7x = chip("tpu7x");
    CHECK_INT(tpu7x->devices_per_chip, 2);
    c.product_flop[DT_BF16] = tpu7x->rate[chip_type_from_name("bf16")].value;
    REQUIRE_OK(roofline_floor(&c, tpu7x, &a, &f, &e), &e);
    CHECK_CLOSE(f.compute_s, 2.0);
    CHECK_CLOSE(f.memory_s, 1e9 / (tpu7x->bandwidth.value / 2));
    arena_release(&a);
}

TEST(plan_roofline_sums_modules)
{
    // One module bound by arithmetic (1 s against 0.5 s), one by memory (0.25 s against 2 s): 3 s, not max(1.25, 2.5).
    struct cost_row rows[2] = {{"a", {.bytes = 0.5 * 819e9}}, {"b", {.bytes = 2 * 819e9}}};
    struct arena a;
    struct error e = {0};
    struct floor f;
    rows[0].cost.product_flop[DT_BF16] = 197e12;
    rows[1].cost.product_flop[DT_BF16] = 0.25 * 197e12;
    arena_init(&a);
    REQUIRE_OK(roofline_total(rows, 2, chip("v5e"), &a, &f, &e), &e);
    CHECK_CLOSE(f.time.value, 3e6);
    CHECK_CLOSE(f.compute_s, 1.25);
    CHECK_CLOSE(f.memory_s, 2.5);
    CHECK_INT(f.bound, BOUND_MEMORY);
    REQUIRE_OK(roofline_total(rows, 0, chip("v5e"), &a, &f, &e), &e);
    CHECK_NEAR(f.time.value, 0, 0);
    arena_release(&a);
}

// What is not published is null with the reason, for the whole program, too: never zero, never a guess.
TEST(plan_roofline_without_a_rate)
{
    struct cost_row rows[2] = {{"a", {.bytes = 1e9}}, {"b", {.bytes = 1e9}}};
    struct arena a;
    struct error e = {0};
    struct floor f;
    arena_init(&a);
    rows[0].cost.product_flop[DT_BF16] = 1e12;
    rows[1].cost.product_flop[DT_S8] = 1e12;
    REQUIRE_OK(roofline_floor(&rows[1].cost, chip("tpu7x"), &a, &f, &e), &e);
    CHECK(isnan(f.time.value));
    CHECK_STR(f.time.source, "no int8 rate is published for tpu7x");
    CHECK_INT(f.bound, BOUND_NONE);
    CHECK(bound_name(f.bound) == NULL);
    REQUIRE_OK(roofline_total(rows, 2, chip("tpu7x"), &a, &f, &e), &e);
    CHECK(isnan(f.time.value));
    CHECK_STR(f.time.source, "no int8 rate is published for tpu7x");
    // A type that no sheet has.
    struct cost c = {.bytes = 1};
    c.product_flop[DT_S64] = 1;
    REQUIRE_OK(roofline_floor(&c, chip("v5e"), &a, &f, &e), &e);
    CHECK(isnan(f.time.value));
    CHECK(strstr(f.time.source, "s64") != NULL && strstr(f.time.source, "v5e") != NULL);
    // `local` before it is calibrated.
    REQUIRE_OK(roofline_floor(&rows[0].cost, chip("local"), &a, &f, &e), &e);
    CHECK(isnan(f.time.value) && f.time.source[0]);
    // Nothing moves: no intensity.
    struct quantity none = roofline_intensity(&(struct cost){.bytes = 0});
    CHECK(isnan(none.value));
    CHECK_STR(none.source, "no byte moves");
    arena_release(&a);
}
