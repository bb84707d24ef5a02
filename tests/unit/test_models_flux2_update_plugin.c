// SPDX-License-Identifier: Apache-2.0
// Steps of the samplers in bf16 against what diffusers' scheduler and Black Forest Labs' line give
// (tests/oracle/flux2_update.py), bit for bit: roundings stand where theirs do.
#include "ir_test.h"
#include "models/flux2_schedule.h"

static const void *array(const struct ir_fixture *f, const json_t *of, const char *key)
{
    const void *bytes;
    ir_fixture_array(f, json_object_get(of, key), &bytes);
    return bytes;
}

// One case of the fixture; returns how many of n values differ.
static int64_t different(struct rig *r, const struct ir_fixture *f, const json_t *c, int64_t n)
{
    const float guidance = (float)json_number_value(json_object_get(c, "guidance"));
    const int64_t step = json_integer_value(json_object_get(c, "step"));
    const bool guided = guidance > 1;
    struct flux2_build how = {.batch = 1,
                              .rows = json_integer_value(json_object_get(f->root, "rows")),
                              .columns = json_integer_value(json_object_get(f->root, "columns"))};
    enum flux2_sampler sampler;
    struct flux2_schedule schedule;
    struct arena arena;
    struct module m;
    struct error err = {0};
    void *outs[2] = {0};
    CHECK(flux2_sampler_parse(&sampler, json_string_value(json_object_get(c, "sampler"))));
    CHECK(flux2_schedule_make(&schedule, sampler, true, json_integer_value(json_object_get(f->root, "tokens")),
                              json_integer_value(json_object_get(f->root, "steps")), NULL) == 0);
    const float *delta = &schedule.deltas[step];
    const void *plain[] = {array(f, f->root, "latent"), array(f, f->root, "velocity"), delta};
    const void *two[] = {plain[0], plain[1], delta, array(f, f->root, "velocity.empty"), &guidance};
    arena_init(&arena);
    module_init(&m, &arena, "update");
    CHECK(flux2_update_module(flux2_builtin("flux2-tiny"), &how, sampler, true, guided, &m, &err) == 0);
    struct program *p = ir_compile(r, &m);
    bool ran = CHECK(p != NULL) && ir_run(r, p, &m, guided ? two : plain, outs);
    const float *want = array(f, c, "after");
    int64_t wrong = ran ? 0 : n;
    for (int64_t i = 0; i < n && ran; i++)
        wrong += ((const float *)outs[0])[i] != want[i];
    free(outs[0]);
    free(outs[1]);
    program_free(p);
    arena_release(&arena);
    return wrong;
}

TEST(models_flux2_update_plugin_equals_both_references)
{
    struct ir_fixture f;
    struct rig r;
    const void *ignored;
    ir_fixture_open(&f, "flux2_update");
    const json_t *cases = json_object_get(f.root, "cases");
    struct shape all = ir_fixture_array(&f, json_object_get(f.root, "latent"), &ignored);
    const int64_t n = shape_elements(&all);
    REQUIRE(rig_open(&r, pjrt_test_plugin(false), 1));
    CHECK_INT(json_array_size(cases), 16); // four steps, with and without guidance, two samplers
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        int64_t wrong = different(&r, &f, c, n);
        if (!CHECK(wrong == 0))
            printf("  %s, step %d, guidance %g: %d of %d values differ\n",
                   json_string_value(json_object_get(c, "sampler")),
                   (int)json_integer_value(json_object_get(c, "step")),
                   json_number_value(json_object_get(c, "guidance")), (int)wrong, (int)n);
    }
    rig_close(&r);
    ir_fixture_close(&f);
}
