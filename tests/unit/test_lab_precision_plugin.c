// SPDX-License-Identifier: Apache-2.0
// Suites of the precision lab on the device, against what JAX and numpy come to.
#include <string.h>

#include "fixture.h"
#include "lab/precision.h"
#include "schema.h"
#include "test.h"

// Inputs are within a few units in the last place of JAX's, and f32 sums may be taken in another order: both move an
// error of 0.01 to 0.7 by some 1e-6.
#define TOLERANCE 5e-6

static const struct precision_case *find(const struct precision *p, const char *label, const char *section)
{
    for (size_t i = 0; i < p->document->n_cases; i++) {
        const struct precision_case *c = p->document->cases[i];
        if (strcmp(c->label, label) == 0 && strstr(c->section, section))
            return c;
    }
    return NULL;
}

static void check_cases(const struct precision *p, const json_t *expected, const char *section)
{
    const char *label;
    json_t *errors;
    size_t n = 0;
    json_object_foreach((json_t *)expected, label, errors)
    {
        const struct precision_case *c = find(p, label, section);
        if (!CHECK(c != NULL)) {
            printf("    %s, %s\n", label, section);
            continue;
        }
        for (size_t k = 0; k < 2; k++) { // against the f32 product, against f64
            const json_t *pair = json_array_get(errors, k);
            bool ok = CHECK_NEAR(c->measures[k].max_abs, json_number_value(json_array_get(pair, 0)), TOLERANCE);
            ok &= CHECK_NEAR(c->measures[k].mean_abs, json_number_value(json_array_get(pair, 1)), TOLERANCE);
            if (!ok)
                printf("    %s, %s, against %s\n", label, section, c->measures[k].against);
            n++;
        }
    }
    CHECK(n >= 4);
}

static void run_accumulate(struct precision_options o, const char *const *seeds, size_t n)
{
    struct precision p;
    struct error err = {0};
    static const char *const suites[] = {"accumulate"};
    o.suites = suites;
    o.n_suites = 1;
    json_t *fixture = fixture_json("lab/accumulate.json");
    REQUIRE_OK(precision_open(&p, &o, NULL, &err), &err);
    if (precision_run(&p, NULL, &err) == 0) {
        for (size_t i = 0; i < n; i++) {
            char section[32];
            snprintf(section, sizeof section, "seed %s", seeds[i]);
            check_cases(&p, json_object_get(json_object_get(fixture, "seeds"), seeds[i]), section);
        }
        check_cases(&p, json_object_get(fixture, "outlier"), "one column");
        CHECK(!precision_failed(&p));
    } else {
        test_fail_error(__FILE__, __LINE__, "precision_run", err.where, err.message);
    }
    precision_close(&p);
    json_decref(fixture);
}

TEST(lab_precision_accumulate_is_what_jax_says_plugin)
{
    static const char *const seeds[] = {"0", "42"};
    run_accumulate((struct precision_options){0}, seeds, 2);
}

TEST(lab_precision_accumulate_of_a_seed_plugin)
{
    static const char *const seeds[] = {"7"};
    run_accumulate((struct precision_options){.seed = 7, .seed_given = true}, seeds, 1);
}

TEST(lab_precision_accumulate_of_other_shapes_plugin)
{
    struct precision p;
    struct error err = {0};
    static const char *const suites[] = {"accumulate"};
    struct precision_options o = {.suites = suites, .n_suites = 1, .batch = 1, .features = 127, .outputs = 3};
    REQUIRE_OK(precision_open(&p, &o, NULL, &err), &err);
    if (precision_run(&p, NULL, &err))
        test_fail_error(__FILE__, __LINE__, "precision_run", err.where, err.message);
    CHECK(!precision_failed(&p)); // the recorded figures are of another shape and are not looked for
    CHECK_INT(p.document->cases[3]->code_bytes, 127 * 3);
    CHECK_INT(p.document->cases[3]->scale_bytes, 4 * 3);
    precision_close(&p);
}

// What a compiler made of a product is read from the optimised program.
TEST(lab_precision_products_as_compiled_plugin)
{
    struct precision p;
    struct error err = {0};
    static const char *const suites[] = {"accumulate"};
    struct precision_options o = {.suites = suites, .n_suites = 1};
    float x[6] = {1, 2, 3, 4, 5, 6}, w[6] = {1, 0, 0, 1, 1, 1};
    struct precision_array y, px = precision_matrix("x", DT_F32, 2, 3, x), pw = precision_matrix("w", DT_F32, 3, 2, w);
    const struct precision_program *program;
    REQUIRE_OK(precision_open(&p, &o, NULL, &err), &err);
    int rc = precision_begin(&p, "test", "test", &err);
    if (!rc)
        rc = precision_execute_dot(&p, "dot", &px, &pw, DT_F32, PRECISION_HIGHEST, 3, &y, &program, &err);
    if (rc) {
        test_fail_error(__FILE__, __LINE__, "precision_execute_dot", err.where, err.message);
    } else {
        static const float expected[4] = {4, 5, 10, 11};
        CHECK(memcmp(y.data, expected, sizeof expected) == 0);
        CHECK_INT(program->n_products, 1);
        CHECK_STR(program->products[0], "f32[2,2] dot(f32[2,3], f32[3,2]) operand_precision={highest,highest}");
        CHECK_INT(program->n_samples, 3);
        CHECK(program->warmup.runs > 0 && program->lowered == NULL && strlen(program->lowered_sha256) == 64);
    }
    precision_close(&p);
}
