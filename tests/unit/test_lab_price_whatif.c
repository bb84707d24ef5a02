// SPDX-License-Identifier: Apache-2.0
// What changes would save: credit only where a row waits for what the change makes faster.
#include "lab/price_whatif.h"

#include "base/file.h"
#include "test.h"

static void open_klein(struct price *p, const char *chip, int64_t height, int64_t width)
{
    const char *const chips[] = {chip};
    struct error e = {0};
    struct price_options o = {.workload = "builtin:flux2-klein-4b",
                              .chips = chips,
                              .n_chips = 1,
                              .shape = {.height = height, .width = width}};
    REQUIRE_OK(price_open(p, &o, &e), &e);
}

static const struct what_if *change(const struct what_ifs *w, const char *name)
{
    for (int i = 0; i < w->n; i++) {
        if (strcmp(w->list[i].name, name) == 0)
            return &w->list[i];
    }
    return NULL;
}

static double floor_us(struct price *p, const char *name, bool *memory)
{
    for (int i = 0; i < p->n_rows; i++) {
        struct floor f;
        struct error e = {0};
        if (strcmp(p->rows[i].group, name) != 0 || price_part_of(p, i) != &p->parts[1])
            continue;
        CHECK_INT(price_floor(p, i, 0, &f, &e), 0);
        *memory = f.bound == BOUND_MEMORY;
        return f.time.value;
    }
    return NAN;
}

// Each of the four largest products is bound by arithmetic on v6e, whose int8 rate is twice bf16's: half of it is
// saved, or what is left above the row's memory. fp8 runs at bf16's rate there.
TEST(lab_price_what_if_of_klein)
{
    static const char *const largest[] = {"single: linear1", "single: linear2", "double: mlp", "double: qkv"};
    struct price p;
    struct what_ifs w;
    struct error e = {0};
    double sum = 0;
    open_klein(&p, "v6e", 512, 512);
    REQUIRE_OK(price_what_ifs(&p, 0, &w, &e), &e);
    for (int i = 0; i < 4; i++) {
        char name[96];
        bool memory = true;
        double now = floor_us(&p, largest[i], &memory), math = 0, bytes = 0;
        for (int r = 0; r < p.n_rows; r++) {
            if (strcmp(p.rows[r].group, largest[i]) == 0) {
                math = cost_product_flop(&p.rows[r].cost) / 918e12 * 1e6;
                bytes = p.rows[r].cost.bytes / 1638e9 * 1e6;
            }
        }
        snprintf(name, sizeof name, "int8 products: dit, %s", largest[i]);
        const struct what_if *one = change(&w, name);
        CHECK(!memory && one);
        if (one)
            CHECK_NEAR(one->rows_us, now - fmax(math / 2, bytes), 1e-6);
        sum += now - fmax(math / 2, bytes);
    }
    const struct what_if *all = change(&w, "int8 products: dit, its 4 largest");
    REQUIRE(all);
    CHECK_NEAR(all->rows_us, sum, 1e-6);
    CHECK(all->single_us == 0); // memory alone takes longer than arithmetic alone
    CHECK(change(&w, "int8 products: dit, double: attention out") == NULL); // waits for memory
    const struct what_if *fp8 = change(&w, "fp8 products: all");
    CHECK(fp8 && fp8->rows_us == 0 && fp8->single_us == 0);
    const struct what_if *both = change(&w, "int8 products and weights: dit, its 4 largest");
    CHECK(both && both->rows_us > all->rows_us && both->single_us > 0);
    // Sorted; what is counted already comes last.
    for (int i = 1; i < w.n; i++)
        CHECK(w.list[i].counted || (!w.list[i - 1].counted && w.list[i - 1].rows_us >= w.list[i].rows_us));
    CHECK(w.list[w.n - 1].counted && w.list[w.n - 1].rows_us > 0);
    // Fusing all of a part's rows is the sum of fusing each.
    double fused = 0;
    for (int i = 0; i < w.n; i++) {
        if (strncmp(w.list[i].name, "fuse: dit, ", 11) == 0 && !strstr(w.list[i].name, "all rows"))
            fused += w.list[i].rows_us;
    }
    CHECK_NEAR(change(&w, "fuse: dit, all rows without products")->rows_us, fused, 1e-6);
    // Three of four calls of the embedding of the context and of the modulations.
    const struct what_if *hoist = change(&w, "hoist: dit, what is the same in every step");
    bool memory;
    double once = floor_us(&p, "context embedder", &memory) + floor_us(&p, "time, modulations", &memory);
    CHECK(hoist != NULL);
    if (hoist)
        CHECK_NEAR(hoist->rows_us, once * 3 / 4, 1e-6);
    price_close(&p);
}

// Where arithmetic is far the longer, int8 takes off half of the four rows' until memory is the longer (docs/cost.md).
TEST(lab_price_what_if_of_a_large_image)
{
    struct price p;
    struct what_ifs w;
    struct error e = {0};
    open_klein(&p, "v6e", 768, 1360);
    REQUIRE_OK(price_what_ifs(&p, 0, &w, &e), &e);
    const struct what_if *products = change(&w, "int8 products: dit, its 4 largest");
    const struct what_if *both = change(&w, "int8 products and weights: dit, its 4 largest");
    REQUIRE(products && both);
    double math = w.now.time[WHOLE_MATH].value, memory = w.now.time[WHOLE_MEMORY].value;
    CHECK_NEAR(products->single_us, math - memory, 1e-6); // 165.6 - 106.2 ms
    CHECK_NEAR(products->single_us / 1e3, 59.4, 0.05);    // as printed in the page
    CHECK_NEAR(both->single_us / 1e3, 60.4, 0.05);
    CHECK_NEAR(both->single_us, both->rows_us, 1e-6);
    price_close(&p);
}

// Two tokens wait for the weights they pass: only smaller weights help, and more of them at once.
TEST(lab_price_what_if_of_a_token)
{
    const char *const chips[] = {"v5e"};
    struct price p;
    struct what_ifs w;
    struct batch_price batches[WHAT_IF_MAX_BATCHES];
    int n;
    struct error e = {0};
    struct price_options o = {
        .workload = "builtin:minilm", .policy = "bf16", .chips = chips, .n_chips = 1, .shape = {.batch = 1, .seq = 2}};
    REQUIRE_OK(price_open(&p, &o, &e), &e);
    REQUIRE_OK(price_what_ifs(&p, 0, &w, &e), &e);
    CHECK(change(&w, "int8 products: all")->rows_us == 0);
    CHECK(change(&w, "8-bit weights: all")->rows_us > 0);
    REQUIRE_OK(price_batches(&o, &p, 0, batches, &n, &e), &e);
    CHECK_INT(n, WHAT_IF_MAX_BATCHES);
    for (int i = 0; i < n; i++) {
        CHECK_INT(batches[i].batch, 2 << i);
        CHECK(batches[i].rows_us < (i ? batches[i - 1].rows_us : w.now.time[WHOLE_ROWS].value));
    }
    price_close(&p);
}

TEST(lab_price_what_if_without_a_rate_says_so)
{
    const char *const chips[] = {"v6e"};
    struct price p;
    struct what_ifs w;
    struct error e = {0};
    struct price_options o = {.workload = "builtin:minilm", .chips = chips, .n_chips = 1};
    REQUIRE_OK(price_open(&p, &o, &e), &e);
    CHECK_INT(price_what_ifs(&p, 0, &w, &e), ERR_INPUT);
    CHECK(strstr(e.message, "no f32 rate is published") != NULL);
    price_close(&p);
}

// A program with products in bf16, f8 and s8, 4096 on every side, and one in bf16 of few rows.
static const char mixed[] =
    "HloModule m\nENTRY e {\n"
    " x = bf16[4096,4096] parameter(0)\n w = bf16[4096,4096] parameter(1)\n"
    " a = bf16[4096,4096] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "metadata={op_name=\"jit(f)/wide/dot\"}\n"
    " y = f8e4m3fn[4096,4096] parameter(2)\n v = f8e4m3fn[4096,4096] parameter(3)\n"
    " b = bf16[4096,4096] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "metadata={op_name=\"jit(f)/octets/dot\"}\n"
    " z = s8[4096,4096] parameter(4)\n u = s8[4096,4096] parameter(5)\n"
    " c = s32[4096,4096] dot(z, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "metadata={op_name=\"jit(f)/codes/dot\"}\n"
    " f = bf16[8,4096] parameter(6)\n"
    " d = bf16[8,4096] dot(f, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "metadata={op_name=\"jit(f)/few/dot\"}\n"
    " ROOT r = (bf16[4096,4096], bf16[4096,4096], s32[4096,4096], bf16[8,4096]) tuple(a, b, c, d)\n}\n";

// 137.4 GFLOP take 149.7 us at 918e12 FLOP/s and half of that as int8; its 100.7 MB take 61.5 us. The row of 8 tokens
// waits for its weight, 33.6 MB, and takes half as long when that is half as large. What has 8 bits has them already.
TEST(lab_price_what_if_of_a_program_in_bf16)
{
    const char *const chips[] = {"v6e"};
    char path[320];
    struct price p;
    struct what_ifs w;
    struct error e = {0};
    snprintf(path, sizeof path, "%s/mixed.txt", test_dir());
    REQUIRE_OK(file_write(path, mixed, strlen(mixed), &e), &e);
    struct price_options o = {
        .workload = path, .chips = chips, .n_chips = 1, .what_if = true, .shape = {.weight_args = "1..5"}};
    REQUIRE_OK(price_open(&p, &o, &e), &e);
    REQUIRE_OK(price_what_ifs(&p, 0, &w, &e), &e);
    double side = 4096, math = 2 * side * side * side / 918e12 * 1e6, weight = side * side / 1638e9 * 1e6;
    const struct what_if *products = change(&w, "int8 products: all"), *weights = change(&w, "8-bit weights: all");
    REQUIRE(products && weights);
    CHECK_NEAR(products->rows_us, math / 2, 1e-6);
    CHECK_NEAR(weights->rows_us, weight, 1e-6);
    CHECK(change(&w, "fp8 products: all")->rows_us == 0); // at bf16's rate
    CHECK(change(&w, "int8 products: program, wide") && change(&w, "8-bit weights: program, few"));
    for (int i = 0; i < w.n; i++)
        CHECK(!strstr(w.list[i].name, "octets") && !strstr(w.list[i].name, "codes"));
    price_close(&p);
}
