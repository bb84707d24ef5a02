// SPDX-License-Identifier: Apache-2.0
// The suite `deployment` against numpy (tests/oracle/quantize.py), and to the last digit against a published run.
#include <string.h>

#include "fixture.h"
#include "lab/precision.h"
#include "test.h"

static const struct precision_case *find(const struct precision *p, const char *name)
{
    for (size_t i = 0; i < p->document->n_cases; i++) {
        if (strcmp(p->document->cases[i]->name, name) == 0)
            return p->document->cases[i];
    }
    return NULL;
}

static double fact_of(const struct precision_case *c, const char *name)
{
    for (size_t i = 0; c && i < c->n_facts; i++) {
        if (strcmp(c->facts[i].name, name) == 0)
            return c->facts[i].number.value;
    }
    return NAN;
}

static void check_policies(const struct precision *p)
{
    json_t *root = fixture_json("lab/deployment.json");
    const char *name;
    json_t *errors;
    size_t n = 0;
    json_object_foreach(json_object_get(root, "policies"), name, errors)
    {
        const struct precision_case *c = find(p, name);
        if (!CHECK(c && !c->failure && c->n_measures == 2))
            continue;
        for (size_t k = 0; k < 2; k++) {
            const json_t *pair = json_array_get(errors, k);
            // The plugin and numpy may add the three products in another order: two units in the last place of 4.3.
            CHECK_NEAR(c->measures[k].max_abs, json_number_value(json_array_get(pair, 0)), 1e-6);
            CHECK_NEAR(c->measures[k].mean_abs, json_number_value(json_array_get(pair, 1)), 1e-6);
        }
        double bound = fact_of(c, "bound");
        CHECK(bound >= c->measures[0].max_abs && bound < 2);
        n++;
    }
    CHECK_INT(n, 11);
    json_decref(root);
}

// What was published for a CPU comes out of this CPU to the last digit.
static void check_digits(const struct precision *p)
{
    static const struct {
        const char *name;
        double max_abs;
    } recorded[] = {
        {"FP32", 0},
        {"FP16", 0.0010547637939453125},
        {"BF16", 0.006171703338623047},
        {"W8A32", 0.008031368255615234},
        {"W4A32", 0.14571428298950195},
        {"W8A8", 0.00742650032043457},
    };
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++) {
        const struct precision_case *c = find(p, recorded[i].name);
        if (CHECK(c != NULL))
            CHECK_NEAR(c->measures[0].max_abs, recorded[i].max_abs, 0);
    }
    static const char *const facts[] = {"accumulator", "output", "output code", "without zero point",
                                        "on the narrow grid"};
    static const double outputs[2][5] = {{5, 0.625, 2, -0.125, 0.52734375}, {15, 0.9375, 7, 0.5625, 0.52734375}};
    for (size_t j = 0; j < 2; j++) {
        const struct precision_case *c = find(p, j ? "output 1" : "output 0");
        for (size_t i = 0; i < 5; i++)
            CHECK_NEAR(fact_of(c, facts[i]), outputs[j][i], 0);
    }
    const struct precision_case *shifted = find(p, "the shifted input");
    CHECK(shifted && shifted->clipped == 1);
}

TEST(lab_deployment_is_what_numpy_says_plugin)
{
    struct precision p;
    struct error err = {0};
    static const char *const suites[] = {"deployment"};
    struct precision_options o = {.suites = suites, .n_suites = 1};
    REQUIRE_OK(precision_open(&p, &o, NULL, &err), &err);
    if (precision_run(&p, NULL, &err) == 0) {
        check_policies(&p);
        check_digits(&p);
        CHECK(!precision_failed(&p));
        CHECK(p.document->n_checks > 60);
    } else {
        test_fail_error(__FILE__, __LINE__, "precision_run", err.where, err.message);
    }
    precision_close(&p);
}

TEST(lab_deployment_takes_no_shape_and_no_seed)
{
    struct precision p;
    struct error err = {0};
    static const char *const suites[] = {"deployment"};
    struct precision_options shape = {.suites = suites, .n_suites = 1, .batch = 3};
    CHECK_INT(precision_open(&p, &shape, NULL, &err), ERR_USAGE);
    CHECK_STR(err.where, "--batch");
    error_clear(&err);
    struct precision_options seed = {.suites = suites, .n_suites = 1, .seed_given = true};
    CHECK_INT(precision_open(&p, &seed, NULL, &err), ERR_USAGE);
}
