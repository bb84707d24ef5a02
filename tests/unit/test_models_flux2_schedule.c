// SPDX-License-Identifier: Apache-2.0
// Schedules against both reference implementations' arithmetic (tests/oracle/flux2_pipeline.py).
#include <math.h>

#include "ir_test.h"
#include "models/flux2_schedule.h"

TEST(models_flux2_schedule_equals_both_references)
{
    struct ir_fixture f;
    ir_fixture_open(&f, "flux2_pipeline");
    const json_t *list = json_object_get(f.root, "schedules");
    REQUIRE(json_array_size(list) >= 20);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i);
        struct flux2_schedule s;
        enum flux2_sampler sampler;
        const char *name = json_string_value(json_object_get(c, "sampler"));
        int64_t tokens = json_integer_value(json_object_get(c, "tokens"));
        int64_t steps = json_integer_value(json_object_get(c, "steps"));
        CHECK(flux2_sampler_parse(&sampler, name));
        CHECK(flux2_schedule_make(&s, sampler, true, tokens, steps, NULL) == 0);
        CHECK(s.mu == json_number_value(json_object_get(c, "mu")));
        const json_t *sigmas = json_object_get(c, "sigmas"), *times = json_object_get(c, "times");
        for (size_t k = 0; k < json_array_size(sigmas); k++) {
            double want = json_number_value(json_array_get(sigmas, k));
            // From a vector's length on, torch's linspace rounds otherwise on other CPUs: 2 units of f32. Numbers of
            // steps that are in use are shorter.
            if (!CHECK(fabs(s.sigmas[k] - want) <= (steps < 16 ? 0 : 2.4e-7 * want)))
                printf("  %s, %d tokens, %d steps: sigma %zu is %.9g, not %.9g\n", name, (int)tokens, (int)steps, k,
                       s.sigmas[k], want);
        }
        for (size_t k = 0; k < json_array_size(times); k++)
            CHECK((double)s.times[k] == json_number_value(json_array_get(times, k)));
    }
    ir_fixture_close(&f);
}

static void check_times(enum flux2_sampler sampler, int64_t tokens, const float want[3])
{
    struct flux2_schedule s;
    CHECK(flux2_schedule_make(&s, sampler, true, tokens, 4, NULL) == 0);
    CHECK(s.times[0] == 1000);
    for (int i = 0; i < 3; i++)
        CHECK(s.times[1 + i] == want[i]);
}

// The two references tell the model different times at 512 x 512 and at 1360 x 768.
TEST(models_flux2_schedule_times_differ_between_references)
{
    check_times(FLUX2_DIFFUSERS, 1024, (const float[3]){960, 884, 716});
    check_times(FLUX2_BFL, 1024, (const float[3]){956, 884, 720});
    check_times(FLUX2_DIFFUSERS, 4080, (const float[3]){968, 908, 768});
    check_times(FLUX2_BFL, 4080, (const float[3]){968, 908, 764});
}

// mu falls from 2.308 to 1.185 between 4300 and 4301 tokens.
TEST(models_flux2_schedule_has_a_cliff)
{
    struct flux2_schedule s;
    CHECK(flux2_schedule_make(&s, FLUX2_EXACT, false, 4300, 4, NULL) == 0);
    CHECK(fabs(s.mu - 2.308) < 1e-3);
    CHECK(flux2_schedule_make(&s, FLUX2_EXACT, false, 4301, 4, NULL) == 0);
    CHECK(fabs(s.mu - 1.185) < 1e-3);
    const double want[] = {1, 0.907, 0.766, 0.522, 0};
    for (int i = 0; i < 5; i++)
        CHECK(fabs(s.sigmas[i] - want[i]) < 1e-3);
}

TEST(models_flux2_schedule_refuses_steps_that_cannot_be)
{
    struct flux2_schedule s;
    struct error err = {0};
    CHECK(flux2_schedule_make(&s, FLUX2_EXACT, false, 256, 0, &err) == ERR_USAGE);
    err.code = 0;
    CHECK(flux2_schedule_make(&s, FLUX2_EXACT, false, 256, FLUX2_MAX_STEPS + 1, &err) == ERR_USAGE);
    CHECK(flux2_schedule_make(&s, FLUX2_EXACT, false, 256, 1, NULL) == 0);
    CHECK(s.sigmas[0] == 1 && s.sigmas[1] == 0 && s.deltas[0] == -1);
}
