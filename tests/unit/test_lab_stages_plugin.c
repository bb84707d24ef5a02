// SPDX-License-Identifier: Apache-2.0
// Stages of the small pipeline on the plugin: what the loop makes, and what stages say of each other.
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "lab/stages.h"
#include "test.h"

static struct stages_options tiny(void)
{
    return (struct stages_options){.klein = {.weights = {.weights = "tiny:1"},
                                             .policy = "bf16",
                                             .height = 32,
                                             .width = 48,
                                             .steps = 2,
                                             .guidance = NAN,
                                             .worker = {.kernels = true, .compile_timeout_s = 600}},
                                   .workload = "builtin:flux2-klein-4b",
                                   .prompt = "a cat",
                                   .samples = 2,
                                   .requests = 1,
                                   .warmup = 0,
                                   .calib_size = 64};
}

// Steps with guidance, so that the body holds the transformer twice. The loop runs the same arithmetic in the same
// order as the steps do one by one: on a CPU every bit is the same.
static void check_loop(enum layers_form layers)
{
    struct error err = {0};
    struct stages_options o = tiny();
    struct stages s;
    o.klein.guided = true;
    o.klein.layers = layers;
    o.wanted[STAGES_DIT] = true;
    CHECK_INT(stages_check(&o, NULL, &err), 0);
    int rc = stages_run(&s, &o, NULL, NULL, &err);
    CHECK_INT(rc, 0);
    if (!rc) {
        const struct stages_module *loop = &s.modules[STAGES_M_LOOP], *steps = &s.modules[STAGES_M_STEPWISE];
        CHECK(loop->done && steps->done && s.modules[STAGES_M_STEP].done && !s.modules[STAGES_M_TEXT].done);
        CHECK(isinf(loop->snr_db));
        // Four runs of the transformer; the loop's price has the updates, too, which have no products.
        CHECK_NEAR(s.modules[STAGES_M_STEP].calls, 4, 0);
        CHECK(steps->price.product_flop > 0);
        CHECK_NEAR(steps->price.product_flop, 4 * s.modules[STAGES_M_STEP].price.product_flop, 1);
        CHECK_NEAR(loop->price.product_flop, steps->price.product_flop, 1);
        CHECK_INT(loop->time.n, 2);
        CHECK_INT(steps->rolled.layers, layers == LAYERS_LOOP ? 5 : 0); // two double blocks and three single ones
        CHECK(!s.modules[STAGES_M_STEP].time.ran_before && steps->time.ran_before);
    }
    stages_release(&s);
}

TEST(lab_stages_loop_is_the_steps_plugin)
{
    check_loop(LAYERS_AUTO);
}

TEST(lab_stages_loop_of_loops_is_the_steps_plugin)
{
    check_loop(LAYERS_LOOP);
}

// The profile is of one more run: samples are as many as were asked for, and what the plugin, which has no profiler,
// does not say our spans do.
TEST(lab_stages_trace_plugin)
{
    struct error err = {0};
    struct stages_options o = tiny();
    struct stages s;
    struct record record;
    char dir[512], path[2048];
    o.wanted[STAGES_VAE] = o.trace = true;
    snprintf(dir, sizeof dir, "%s/record", test_dir());
    REQUIRE_OK(record_open(&record, dir, "bench", 0, NULL, &err), &err);
    int rc = stages_run(&s, &o, &record, NULL, &err);
    CHECK_INT(rc, 0);
    if (!rc) {
        const struct stages_series *t = &s.modules[STAGES_M_VAE].time;
        const struct stages_trace *trace = &t->trace;
        CHECK_INT(t->n, 2);
        CHECK(trace->done && !trace->of_operations && !s.modules[STAGES_M_TEXT].time.trace.done);
        CHECK(trace->busy_ms > 0);
        CHECK_NEAR(trace->between_ms, 0, 0);
        CHECK_INT(trace->programs, 1);
        CHECK(trace->n_operations >= 1);
        for (int i = 0; i < trace->n_operations; i++)
            CHECK_STR(trace->operations[i].program, stages_module_name(STAGES_M_VAE));
        snprintf(path, sizeof path, "%s/%s", record.building, trace->file);
        CHECK(file_exists(path));
    }
    stages_release(&s);
    record_abandon(&record);
}

// Every scored element of int8 is the sum in int64, and its rate is what calibrated floors of w8a8 are made of. A CPU
// has no f8.
TEST(lab_stages_calib_plugin)
{
    struct error err = {0};
    struct stages_options o = tiny();
    struct stages s;
    o.wanted[STAGES_CALIB] = true;
    int rc = stages_run(&s, &o, NULL, NULL, &err);
    CHECK_INT(rc, 0);
    if (!rc) {
        const struct stages_product *int8 = &s.calib.products[3], *f8 = &s.calib.products[4];
        CHECK_STR(int8->name, "int8");
        CHECK_INT(int8->wrong, 0);
        CHECK(!int8->absent && int8->time.n == 2);
        CHECK_NEAR(s.calibrated->rate[CHIP_INT8].value, int8->flop_per_s, 0);
        CHECK(f8->absent && isnan(s.calibrated->rate[CHIP_FP8].value));
        CHECK(s.calib.products[0].error < 1e-2 && s.calib.products[2].error < 1e-5);
    }
    stages_release(&s);
}
