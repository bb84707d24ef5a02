// SPDX-License-Identifier: Apache-2.0
// The formulas of timed stages, without a device.
#include <string.h>

#include "lab/stages.h"
#include "test.h"

TEST(lab_stages_lists_are_read)
{
    struct error err = {0};
    bool wanted[STAGES_KINDS] = {false};
    CHECK_INT(stages_parse("calib,vae", wanted, &err), 0);
    CHECK_INT(stages_parse("cold", wanted, &err), 0);
    for (int i = 0; i < STAGES_KINDS; i++)
        CHECK_INT(wanted[i], i == STAGES_CALIB || i == STAGES_VAE || i == STAGES_COLD);
    const char *const wrong[] = {"", ",", "cold,", "cold,,vae", "col", "colder", "text dit"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_INT(stages_parse(wrong[i], wanted, &err), ERR_USAGE);
}

TEST(lab_stages_weights_are_of_the_workload)
{
    const struct {
        const char *workload, *given, *want; // NULL: refused
    } cases[] = {
        {"builtin:flux2-klein-4b", NULL, "random:1:flux2-klein-4b"},
        {"flux2-klein-9b", NULL, "random:1:flux2-klein-9b"},
        {"builtin:flux2-klein-9b", "random:7", "random:7:flux2-klein-9b"},
        {"builtin:flux2-klein-4b", "random:7:flux2-klein-4b", "random:7:flux2-klein-4b"},
        {"builtin:flux2-klein-4b", "random:7:flux2-klein-9b", NULL},
        {"builtin:flux2-klein-4b", "tiny:3", "tiny:3"},
        {"some/folder", NULL, "some/folder"},
        {"some/folder", "random:1", NULL},
    };
    struct arena a;
    arena_init(&a);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error err = {0};
        const char *out = NULL;
        int rc = stages_weights(cases[i].workload, cases[i].given, &a, &out, &err);
        CHECK_INT(rc, cases[i].want ? 0 : ERR_USAGE);
        if (cases[i].want)
            CHECK_STR(out, cases[i].want);
    }
    CHECK(stages_has("builtin:flux2-klein-base-4b"));
    CHECK(!stages_has("builtin:minilm"));
    arena_release(&a);
}

// One pass of operands rounded to bf16 is as wrong as bf16 and nearly as fast; three passes are 2^-17 off and take
// three times as long; f32 units are 2^-24 off, whatever they take.
TEST(lab_stages_products_of_f32_that_are_of_bf16_are_found)
{
    const double bf16 = 0x1p-9, rate = 380.1e12;
    CHECK(stages_f32_is_bf16(0.96 * rate, 0x1p-9, rate, bf16));
    CHECK(stages_f32_is_bf16(0.96 * rate, 0.9 * 0x1p-9, rate, bf16));
    CHECK(!stages_f32_is_bf16(rate / 3, 0x1p-17, rate, bf16));
    CHECK(!stages_f32_is_bf16(rate / 6, 0x1p-24, rate, bf16));
    CHECK(!stages_f32_is_bf16(0.96 * rate, 0x1p-24, rate, bf16)); // a CPU without units for bf16
    CHECK(!stages_f32_is_bf16(rate / 4, 0x1p-9, rate, bf16));     // as wrong, and slow enough to be emulated
}

static struct whole_floor math_of(double us)
{
    struct whole_floor f;
    for (int i = 0; i < WHOLES; i++)
        f.time[i] = quantity_make(us, "us", ORIGIN_DERIVED, "a floor");
    return f;
}

// The steps of an image of 512 x 512 in 158.1 ms on a chip of 918 TFLOP/s whose own product reaches 380.1 are known as
// 28.1 % and 67.8 %.
TEST(lab_stages_shares_of_peaks)
{
    const double flop = 40.72e12, ms = 158.1;
    struct whole_floor sheet = math_of(flop / 918e12 * 1e6), calibrated = math_of(flop / 380.1e12 * 1e6);
    CHECK_NEAR(stages_mfu(&sheet, ms, true).value, 0.2806, 5e-5);
    CHECK_NEAR(stages_mfu(&calibrated, ms, false).value, 0.678, 5e-4);
    CHECK_INT(stages_mfu(&sheet, ms, true).origin, ORIGIN_DERIVED);
    // Above the sheet something is counted wrong; above a plain product a better kernel may be.
    CHECK(isnan(stages_mfu(&sheet, 40, true).value));
    CHECK(strstr(stages_mfu(&sheet, 40, true).source, "above 1") != NULL);
    CHECK_NEAR(stages_mfu(&calibrated, 100, false).value, 1.0713, 1e-4);
    struct whole_floor none = math_of(NAN);
    none.time[WHOLE_MATH].source = "no sheet";
    CHECK(isnan(stages_mfu(&none, ms, true).value));
    CHECK_STR(stages_mfu(&none, ms, true).source, "no sheet");
}

TEST(lab_stages_verdicts)
{
    CHECK_INT(stages_verdict_of(1000, 800, NAN), STAGES_NOT_PREDICTED);
    CHECK_INT(stages_verdict_of(1000, 800, 900), STAGES_WITHIN);
    CHECK_INT(stages_verdict_of(1349, 800, 900), STAGES_WITHIN);
    CHECK_INT(stages_verdict_of(1351, 800, 900), STAGES_SLOWER);
    CHECK_INT(stages_verdict_of(721, 800, 900), STAGES_WITHIN); // calibration has its own spread
    CHECK_INT(stages_verdict_of(719, 800, 900), STAGES_TOO_FAST);
}

static void module_of(struct stages *s, enum stages_module_kind kind, double ms, double calls)
{
    s->modules[kind].done = true;
    s->modules[kind].time.ms.p50 = ms;
    s->modules[kind].calls = calls;
}

TEST(lab_stages_sums_name_the_difference)
{
    static struct stages s;
    memset(&s, 0, sizeof s);
    CHECK(isnan(stages_sums_of(&s).modules));
    CHECK(isnan(stages_sums_of(&s).request));
    module_of(&s, STAGES_M_TEXT, 10, 2); // a guided model runs it twice
    module_of(&s, STAGES_M_PREPARE, 1, 2);
    module_of(&s, STAGES_M_STEP, 5, 8); // counted in the steps
    CHECK(isnan(stages_sums_of(&s).modules));
    module_of(&s, STAGES_M_STEPWISE, 42, 1);
    module_of(&s, STAGES_M_VAE, 6, 1);
    CHECK_NEAR(stages_sums_of(&s).modules, 70, 1e-12);
    CHECK(isnan(stages_sums_of(&s).difference));
    struct stages_serving *r = &s.serving[STAGES_RESIDENT];
    r->done = true;
    r->request.ms.p50 = 80;
    r->outside_p50_ms = 7;
    struct stages_sums sums = stages_sums_of(&s);
    CHECK_NEAR(sums.request, 80, 0);
    CHECK_NEAR(sums.difference, 10, 1e-12);
    CHECK_NEAR(sums.outside, 7, 0);
    CHECK_NEAR(sums.in_turn, 3, 1e-12);
}
