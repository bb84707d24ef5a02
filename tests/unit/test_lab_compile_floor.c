// SPDX-License-Identifier: Apache-2.0
// Floors of products from the instructions that libtpu made of them (tests/oracle/bundles.py counted them).
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/str.h"
#include "fixture.h"
#include "ir/hlo_parse.h"
#include "lab/compile_part.h"
#include "test.h"

// A body of as many bundles and of these instructions, in the compiler's form.
static void read_body(struct llo_bundles *out, const json_t *product)
{
    struct str s;
    const char *name;
    json_t *n;
    str_init(&s);
    json_object_foreach(json_object_get(product, "instructions"), name, n)
    {
        for (json_int_t i = 0; i < json_integer_value(n); i++)
            str_addf(&s, "%%1 = %s.mxu0 %%v2\n", name);
    }
    for (json_int_t i = 0; i < json_integer_value(json_object_get(product, "bundles")); i++)
        str_addf(&s, "0x%llx   : > {}\n", (unsigned long long)i);
    llo_bundles_read(out, (struct slice){(const uint8_t *)s.text, s.length});
    str_release(&s);
}

struct product {
    struct compile c;
    struct compile_case k;
    struct compile_op op;
    struct llo_bundles code;
    double peak_s; // at the published rate of the type, else of bf16
};

// A case of one product of size^3 that takes no memory.
static void make(struct product *p, const char *chip, enum dtype type, double size, double iterations)
{
    struct error err = {0};
    arena_init(&p->k.arena);
    REQUIRE_OK(chip_target_parse(chip, &p->k.target, &err), &err);
    REQUIRE(chip_core(p->k.target.chip, &p->k.core));
    p->k.has_core = true;
    p->op = (struct compile_op){.kind = COMPILE_OP,
                                .type = type,
                                .name = "product",
                                .group = "product",
                                .runs = 1,
                                .flop = 2 * size * size * size,
                                .bundles = (double)p->code.bundles,
                                .iterations = iterations,
                                .estimated_cycles = NAN,
                                .compute_s = NAN,
                                .memory_s = NAN,
                                .matrix_s = NAN,
                                .passes = NAN,
                                .code = &p->code,
                                .strategy = ""};
    p->k.ops = &p->op;
    p->k.n_ops = 1;
    REQUIRE_OK(compile_case_arithmetic(&p->k, &p->op, &err), &err);
    REQUIRE_OK(compile_case_floors(&p->c, &p->k, &err), &err);
    enum chip_type t = chip_type_from_name(dtype_name(type));
    double rate = t == CHIP_TYPES ? NAN : chip_rate(p->k.target.chip, t, CHIP_PER_DEVICE).value;
    p->peak_s = p->op.flop / (isnan(rate) ? chip_rate(p->k.target.chip, CHIP_BF16, CHIP_PER_DEVICE).value : rate);
}

static enum dtype type_of(const char *name)
{
    for (int t = 0; t < DT_COUNT; t++) {
        if (strcmp(dtype_name((enum dtype)t), strcmp(name, "int8") == 0 ? "s8" : name) == 0)
            return (enum dtype)t;
    }
    return DT_INVALID;
}

// No product is faster than its chip. Bundles alone say so of half of these: a queue hides what the units take.
TEST(lab_compile_floor_is_below_no_peak)
{
    json_t *doc = fixture_json("ir/bundles.json");
    REQUIRE(doc);
    const json_t *list = json_object_get(doc, "products"), *one;
    size_t i, hidden = 0;
    CHECK(json_array_size(list) >= 16);
    json_array_foreach(list, i, one)
    {
        struct product p = {.peak_s = 0};
        const char *chip = json_string_value(json_object_get(one, "chip")),
                   *type = json_string_value(json_object_get(one, "type"));
        read_body(&p.code, one);
        CHECK_INT(p.code.bundles, json_integer_value(json_object_get(one, "bundles")));
        make(&p, chip, type_of(type), json_number_value(json_object_get(one, "size")),
             json_number_value(json_object_get(one, "iterations")));
        // Every row goes through once: cores, units' sizes, rows of a register and trips are what they are taken for.
        bool ok = CHECK_NEAR(p.op.passes, 1, 0);
        // A rounding of a division or two.
        ok &= CHECK(p.k.floor_s >= p.peak_s * (1 - 1e-12)) & CHECK(p.k.of_peak <= 1 + 1e-12);
        ok &= CHECK(!p.k.above_peak && p.k.floor_s == fmax(p.op.compute_s, p.op.matrix_s));
        if (!ok)
            printf("  %s %s: %.4g of peak\n", chip, type, p.k.of_peak);
        hidden += p.op.compute_s < p.peak_s;
        if (strcmp(chip, "v6e") == 0 && strcmp(type, "f32") != 0) // its schedules keep to the rate of the units
            CHECK(p.k.floor_s == p.op.compute_s);
        arena_release(&p.k.arena);
    }
    CHECK(hidden >= 7);
    json_decref(doc);
}

// What a unit multiplies counts, not what the registers hold: 8-bit floats that v5e widens go at the rate of bf16,
// those that tpu7x takes as they are at twice that.
TEST(lab_compile_floor_has_the_rate_of_the_unit)
{
    static const struct {
        const char *chip, *instruction;
        double bf16; // how often its rate
    } known[] = {{"v5e", "vmatmul.f8e5m2.bf16.gmra", 1},
                 {"tpu7x", "vmatmul.mubr.f8e5m2.gmra.mrb", 2},
                 {"v5e", "vmatmul.s8.gmra", 393.0 / 197},
                 {"v6e", "vmatmul.mubr.s8.gmra", 2},
                 {"v6e", "vmatmul.mubr.f8e5m2.bf16.gmra", 1}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct product p = {.peak_s = 0};
        char line[128];
        int n = snprintf(line, sizeof line, "0x1 : {} %%1 = %s.mxu0 %%v", known[i].instruction);
        llo_bundles_read(&p.code, (struct slice){(const uint8_t *)line, (size_t)n});
        make(&p, known[i].chip, DT_F8E5M2, 64, 1);
        double rows = 32.0 * p.k.core.cores, size = p.k.core.size,
               rate = chip_rate(p.k.target.chip, CHIP_BF16, CHIP_PER_DEVICE).value;
        CHECK_NEAR(p.op.matrix_s * known[i].bf16 * rate / (2 * rows * size * size), 1, 1e-12);
        arena_release(&p.k.arena);
    }
}

// A unit whose rate nobody published, and bundles that cannot be all: no time is taken from it, asked for or not.
TEST(lab_compile_floor_above_the_peak_predicts_nothing)
{
    struct product p = {.peak_s = 0};
    static const char text[] = "0x1 : {} %1 = vmatmul.f8e5m2.gmra.mxu0 %v";
    llo_bundles_read(&p.code, (struct slice){(const uint8_t *)text, sizeof text - 1});
    p.c.options.efficiency = 0.5;
    make(&p, "v5e", DT_F8E5M2, 512, 1);
    CHECK_NEAR(p.op.matrix_s, 0, 0);
    CHECK(p.k.of_peak > 1 && p.k.above_peak);
    CHECK(isnan(p.k.predicted_s) && isnan(p.k.efficiency));
    CHECK(strstr(p.k.efficiency_source, "published rate"));
    arena_release(&p.k.arena);
    // The same, with bundles enough.
    struct product q = {.peak_s = 0};
    q.code = p.code;
    q.code.bundles = 1 << 20;
    q.c.options.efficiency = 0.5;
    make(&q, "v5e", DT_F8E5M2, 512, 1);
    CHECK(!q.k.above_peak);
    CHECK_NEAR(q.k.predicted_s, 2 * q.k.floor_s, 0);
    arena_release(&q.k.arena);
}

// A slice that is fetched ahead moves its own bytes, not those of what it is cut from: 1 MiB of 4.
TEST(lab_compile_floor_counts_slices_fetched_ahead)
{
    static const char text[] =
        "HloModule m, is_scheduled=true\n\n"
        "%cut (x: s8[4194304]) -> s8[1048576] {\n"
        "  %x = s8[4194304]{0} parameter(0)\n"
        "  ROOT %slice = s8[1048576]{0:S(1)} slice(%x), slice={[0:1048576]}\n}\n\n"
        "ENTRY %main (a: s8[4194304]) -> s8[1048576] {\n"
        "  %a = s8[4194304]{0} parameter(0)\n"
        "  %start = ((s8[4194304]{0}), s8[1048576]{0:S(1)}, s32[]{:S(2)}) async-start(%a), calls=%cut\n"
        "  ROOT %done = s8[1048576]{0:S(1)} async-done(%start), calls=%cut\n}\n";
    struct arena a;
    struct error err = {0};
    struct hlo_parsed parsed;
    struct product p = {.peak_s = 0};
    arena_init(&a);
    arena_init(&p.k.arena);
    REQUIRE_OK(hlo_parse(&parsed, text, sizeof text - 1, "m", false, &a, &err), &err);
    REQUIRE_OK(chip_target_parse("v6e", &p.k.target, &err), &err);
    struct worker_executable e = {.optimized = (char *)parsed.message.data, .optimized_length = parsed.message.size};
    REQUIRE_OK(compile_case_schedule(&p.k, &e, NULL, &err), &err);
    REQUIRE(p.k.n_ops == 2);
    CHECK_INT(p.k.ops[0].kind, COMPILE_PREFETCH);
    CHECK_NEAR(p.k.ops[0].hbm_bytes, 0x1p20, 0);
    CHECK_NEAR(p.k.ops[1].hbm_bytes, 0, 0);
    arena_release(&p.k.arena);
    arena_release(&a);
}
