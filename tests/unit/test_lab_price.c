// SPDX-License-Identifier: Apache-2.0
#include "lab/price.h"
#include "test.h"

TEST(lab_price_modules_and_scopes_add_up_to_the_same)
{
    struct error e = {0};
    struct price by_module, by_scope;
    const char *chips[] = {"v5e"};
    struct price_options o = {.workload = "builtin:minilm", .policy = "w8a8", .chips = chips, .n_chips = 1};
    REQUIRE_OK(price_open(&by_module, &o, &e), &e);
    o.by_scope = true;
    REQUIRE_OK(price_open(&by_scope, &o, &e), &e);
    CHECK_INT(by_module.n_rows, 6);
    CHECK_INT(by_scope.n_rows, 3 + 6 * 7 + 1); // mask, embedding and its norm; seven scopes a layer; pooling
    // Sums of integers far below 2^53: exact in any order.
    CHECK_NEAR(cost_product_flop(&by_scope.total), cost_product_flop(&by_module.total), 0);
    CHECK_NEAR(by_scope.total.bytes, by_module.total.bytes, 0);
    CHECK_NEAR(by_scope.total.bytes_unfused, by_module.total.bytes_unfused, 0);
    CHECK_NEAR(by_scope.total.transcendentals, by_module.total.transcendentals, 0);
    // A sum of more maxima is no smaller.
    struct floor modules, scopes;
    REQUIRE_OK(price_floor(&by_module, by_module.n_rows, 0, &modules, &e), &e);
    REQUIRE_OK(price_floor(&by_scope, by_scope.n_rows, 0, &scopes, &e), &e);
    CHECK(scopes.time.value >= modules.time.value * (1 - 1e-12));
    price_close(&by_module);
    price_close(&by_scope);
}

// One product of 64 x 1024 by 1024 x 1024 in bf16 with an f32 result, by hand: 2*64*1024*1024 FLOP; 2*(64*1024 +
// 1024*1024)
// + 4*64*1024 bytes. On v5e 197e12 FLOP/s and 819e9 B/s: 0.681 us of arithmetic, 3.041 us of memory.
TEST(lab_price_product_by_hand)
{
    struct error e = {0};
    struct price p;
    const char *chips[] = {"v5e"};
    struct price_options o = {.workload = "gemm:64x1024x1024:bf16", .chips = chips, .n_chips = 1};
    struct floor f;
    REQUIRE_OK(price_open(&p, &o, &e), &e);
    CHECK_NEAR(cost_product_flop(&p.total), 134217728, 0);
    CHECK_NEAR(p.total.bytes, 2490368, 0);
    CHECK_NEAR(cost_product_flop(&p.total) / p.total.bytes, 53.9, 0.05);
    REQUIRE_OK(price_floor(&p, p.n_rows, 0, &f, &e), &e);
    CHECK_NEAR(f.compute_s, 134217728 / 197e12, 1e-18);
    CHECK_NEAR(f.time.value, 2490368 / 819e9 * 1e6, 1e-9);
    CHECK_INT(f.bound, BOUND_MEMORY);
    price_close(&p);
}

TEST(lab_price_floor_without_a_rate_is_not_a_number)
{
    struct error e = {0};
    struct price p;
    const char *chips[] = {"tpu7x"};
    struct price_options o = {.workload = "gemm:64x64x64:int8", .chips = chips, .n_chips = 1};
    struct floor f;
    REQUIRE_OK(price_open(&p, &o, &e), &e);
    REQUIRE_OK(price_floor(&p, p.n_rows, 0, &f, &e), &e);
    CHECK(isnan(f.time.value));
    CHECK_STR(f.time.source, "no int8 rate is published for tpu7x");
    price_close(&p);
}
