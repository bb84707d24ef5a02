// SPDX-License-Identifier: Apache-2.0
// Three predictions side by side. Figures of the compiler are of libtpu 0.0.52, which the set-up pins by hash.
#include "lab/predict.h"

#include <math.h>
#include <stdlib.h>

#include "lab/price.h"
#include "worker_test.h"

static bool predict(struct price *p, const char *workload, const char *const *targets, size_t n)
{
    struct error e = {0};
    struct price_options o = {.workload = workload, .targets = targets, .n_targets = n};
    setenv("XDG_CACHE_HOME", test_dir(), 1); // nothing is calibrated
    int rc = price_open(p, &o, &e);
    if (!rc)
        rc = price_predict(p, NULL, &e);
    if (rc)
        printf("  %s: %s\n", e.where, e.message);
    return rc == 0;
}

// 4096^3 in bf16 on v6e: 149.7 us by the sheet, 270,624 bundles at 1750 MHz by the compiler; 361.6 us were measured
// elsewhere, which both the compiler's efficiency and the share of peak lead back to.
TEST(lab_predict_plugin_product_on_targets)
{
    static const char *const targets[] = {"v6e", "v5e", "h100", "local"};
    struct price p;
    if (!worker_test_libtpu())
        return;
    REQUIRE(predict(&p, "gemm:4096x4096x4096:bf16", targets, 4));
    const struct prediction k[] = {p.predictions[0].whole, p.predictions[1].whole, p.predictions[2].whole,
                                   p.predictions[3].whole};
    // Of one program the parts are the whole, and its memory is the compiler's plan: 3 x 32 MiB and the code.
    const struct prediction *part = p.predictions[0].parts;
    REQUIRE(part && part->memory);
    CHECK_NEAR(part->floor.value, k[0].floor.value, 0);
    CHECK(part->memory->argument_bytes == 0x1p26 && part->memory->output_bytes == 0x1p26); // in f32
    CHECK(part->memory->needed_bytes > 0x1p27 && part->memory->needed_bytes < 0x1p28);
    CHECK_NEAR(p.predictions[0].resident_bytes, part->memory->needed_bytes, 0);
    CHECK_NEAR(k[0].sheet.value, 2 * 0x1p36 / 918e12 * 1e6, 1e-6);
    CHECK_STR(k[0].state, "compiled");
    CHECK(k[0].floor.value >= 270624 / 1750.0);         // the product alone
    CHECK_NEAR(k[0].floor.value, 270624 / 1750.0, 0.1); // and what lies around it
    CHECK_NEAR(k[0].predicted.value, 361.6, 0.4);       // as it was published, with the same around it
    CHECK_NEAR(k[0].low.value * 1.4, k[0].predicted.value, 1e-9);
    CHECK_NEAR(k[0].high.value / 1.4, k[0].predicted.value, 1e-9);
    CHECK_NEAR(k[0].calibrated.value, 2 * 0x1p36 / 380.1e12 * 1e6, 1e-6);
    CHECK(isnan(k[0].measured.value) && k[0].compile_s > 0);
    CHECK(k[1].floor.value > 300 && k[1].sheet.value > 300); // a fifth of the peak, and nothing is measured on this one
    CHECK(isnan(k[1].predicted.value) && strstr(k[1].predicted.source, "--efficiency") != NULL);
    CHECK(isnan(k[1].calibrated.value));
    CHECK(k[2].state == NULL && isnan(k[2].floor.value) && strstr(k[2].floor.source, "tunes") != NULL);
    CHECK(k[2].calibrated.value > k[2].sheet.value);
    CHECK(isnan(k[3].sheet.value) && isnan(k[3].calibrated.value) && isnan(k[3].compile_s));
    CHECK(strstr(k[3].calibrated.source, "bench --calibrate") != NULL);
    price_close(&p);
}

// An image's programs one by one, beside what was published of each; what a whole request takes is what they take.
TEST(lab_predict_programs_of_a_request)
{
    static const char *const targets[] = {"v6e"};
    static const double published_ms[] = {104.8, 158.1, 14.4};
    struct price p;
    struct error e = {0};
    struct price_options o = {
        .workload = "builtin:flux2-klein-4b", .targets = targets, .n_targets = 1, .plugin = "/nowhere/libtpu.so"};
    REQUIRE_OK(price_open(&p, &o, &e), &e);
    REQUIRE_OK(price_predict(&p, NULL, &e), &e);
    const struct price_prediction *k = p.predictions;
    CHECK_INT(p.request.n_parts, 3);
    double sheet = 0, calibrated = 0;
    for (int i = 0; i < 3; i++) {
        CHECK_NEAR(k->parts[i].measured.value, published_ms[i] * 1e3, 1e-6);
        CHECK(isnan(k->parts[i].floor.value) && !k->parts[i].memory);
        sheet += k->parts[i].sheet.value;
        calibrated += k->parts[i].calibrated.value;
    }
    CHECK_NEAR(sheet / k->whole.sheet.value, 1, 1e-12);
    CHECK_NEAR(calibrated / k->whole.calibrated.value, 1, 1e-12);
    CHECK_NEAR(k->whole.measured.value, 262e3, 1e-6);
    CHECK(isnan(k->resident_bytes));
    price_close(&p);
    // Nothing was published of another size.
    o.shape.height = 1024;
    REQUIRE_OK(price_open(&p, &o, &e), &e);
    REQUIRE_OK(price_predict(&p, NULL, &e), &e);
    CHECK(isnan(p.predictions->whole.measured.value));
    price_close(&p);
}

// No compiler is a reason beside what is known without one.
TEST(lab_predict_plugin_without_a_compiler)
{
    static const char *const names[] = {"v6e"}, *const twice[] = {"v6e", "v6e"}, *const wrong[] = {"v6e:3x3"};
    static const double once[] = {1};
    struct predict_target target[2];
    struct predict_compiled compiled;
    struct prediction k;
    struct price p;
    struct error e = {0};
    struct price_options o = {.workload = "gemm:128x128x128:bf16", .chips = names, .n_chips = 1};
    struct floor floor;
    REQUIRE_OK(price_open(&p, &o, &e), &e);
    REQUIRE_OK(price_floor(&p, p.n_rows, 0, &floor, &e), &e);
    REQUIRE_OK(predict_targets(names, 1, false, "a CPU", target, &p.arena, &e), &e);
    struct module *const program[] = {&p.parts[0].module};
    struct predict_job job = {.workload = o.workload,
                              .targets = target,
                              .n_targets = 1,
                              .programs = program,
                              .names = names,
                              .n_programs = 1,
                              .plugin = "nowhere/plugin.so"};
    REQUIRE_OK(predict_compile(&job, &compiled, &p.arena, &e), &e);
    REQUIRE_OK(predict_make(&target[0], NULL, floor.time, 0, &compiled, once, 1, NAN, "nothing ran", &p.arena, &k, &e),
               &e);
    CHECK(k.sheet.value > 0 && k.calibrated.value > k.sheet.value);
    CHECK(isnan(k.floor.value) && isnan(k.predicted.value) && isnan(k.compile_s) && k.state == NULL);
    CHECK(strstr(k.floor.source, "no compiler") != NULL && strstr(k.floor.source, "make tpu") != NULL);
    CHECK_INT(predict_targets(twice, 2, false, "a CPU", target, &p.arena, NULL), ERR_USAGE);
    CHECK_INT(predict_targets(wrong, 1, false, "a CPU", target, &p.arena, NULL), ERR_USAGE);
    price_close(&p);
}

// Eight devices, each with its eighth of the products, and what they send: two sums of f32 behind each layer of an
// encoder.
TEST(lab_predict_plugin_divided)
{
    static const char *const targets[] = {"v6e:2x2"}, *const layouts[] = {"tp"};
    struct price p;
    struct error e = {0};
    struct price_options o = {.workload = "builtin:minilm",
                              .policy = "bf16",
                              .shape = {.batch = 2, .seq = 16},
                              .targets = targets,
                              .n_targets = 1,
                              .layouts = layouts,
                              .n_layouts = 1};
    if (!worker_test_libtpu())
        return;
    setenv("TMPDIR", test_dir(), 1);
    REQUIRE_OK(price_open(&p, &o, &e), &e);
    REQUIRE_OK(price_predict(&p, NULL, &e), &e);
    REQUIRE(p.n_predictions == 1);
    const struct prediction *k = &p.predictions[0].whole;
    CHECK_STR(k->layout, "tp");
    CHECK_STR(k->state, "compiled");
    // 12 sums of two hops at least, each way: 12 x 2 x 2 us. Both have them.
    CHECK(k->sheet.value > 48 && k->floor.value > 48);
    CHECK(k->predicted.value > k->floor.value && k->calibrated.value > k->sheet.value);
    price_close(&p);
    o.layouts = (const char *const[]){"tp=3"};
    REQUIRE_OK(price_open(&p, &o, &e), &e);
    CHECK_INT(price_predict(&p, NULL, &e), ERR_USAGE);
    price_close(&p);
}
