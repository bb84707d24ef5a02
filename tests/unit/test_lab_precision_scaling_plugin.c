// SPDX-License-Identifier: Apache-2.0
// The suite `scaling` on the CPU plugin, against the same training in numpy with ml_dtypes, and the gradient that goes
// straight through a rounding against torch's (tests/oracle/scaling.py).

#include "fixture.h"
#include "lab/precision_scaling.h"
#include "precision_run.h"
#include "test.h"

static double fact(const struct precision_case *c, const char *name)
{
    for (size_t i = 0; i < c->n_facts; i++) {
        if (strcmp(c->facts[i].name, name) == 0)
            return c->facts[i].number.value;
    }
    return (double)NAN;
}

// The column of some table that holds losses of that name.
static const struct precision_table *find_losses(const struct precision_document *d, const char *name, size_t *column)
{
    for (size_t i = 0; i < d->n_tables; i++) {
        const struct precision_table *t = d->tables[i];
        for (*column = 0; strncmp(t->name, "loss", 4) == 0 && *column < t->n_columns; (*column)++) {
            if (strcmp(t->columns[*column].name, name) == 0)
                return t;
        }
    }
    return NULL;
}

static double number(const json_t *a, size_t i)
{
    return json_number_value(json_array_get(a, i));
}

// A number of which the oracle has two, by sums in f32 and by exact ones: the device's sums are a third kind, so it may
// be eight times as far from one as they are from each other, and `least` more.
// A number that is a share of many may be a thousandth off.
static void check_pair(const struct precision_case *c, const char *name, const json_t *run, const char *key,
                       double least)
{
    double a = number(json_object_get(run, key), 0), b = number(json_object_get(run, key), 1);
    if (!CHECK_NEAR(fact(c, name), a, 8 * fabs(a - b) + least + (least > 0 ? 1e-3 * a : 0)))
        printf("  %s of %s\n", name, c->name);
}

static void check_run(const struct precision_document *d, const char *name, const json_t *run, const json_t *rows)
{
    const json_t *losses = json_object_get(run, "losses"), *apart = json_object_get(run, "apart");
    size_t n = json_array_size(rows), column;
    const struct precision_case *c = precision_find_case(d, name);
    REQUIRE(c);
    CHECK(!c->failure && c->origin == ORIGIN_MEASURED);
    const struct precision_table *t = find_losses(d, name, &column);
    for (size_t i = 0; t && i < n; i++) {
        const struct precision_cell *row = t->cells + i * t->n_columns;
        double want = number(losses, i);
        CHECK(row[0].number == number(rows, i));
        // As check_pair; the first losses differ by no more than the last bits of f32 sums.
        if (!CHECK_NEAR(row[column].number, want, 8 * number(apart, i) + 1e-6 * want))
            printf("  loss of %s at step %.0f\n", name, row[0].number);
    }
    CHECK(t || strcmp(name, "f64") == 0);
    if (t)
        CHECK_INT(t->n_cells, n * t->n_columns);
    CHECK_NEAR(fact(c, "loss, last"), number(losses, n - 1), 8 * number(apart, n - 1) + 1e-6);
    // A few of the 2.6 million gradients and of the 600,000 updates lie so close to a limit that sums decide.
    check_pair(c, "gradients to 0", run, "flushed", 1e-5);
    check_pair(c, "updates lost", run, "lost", 5e-5);
    check_pair(c, "steps skipped", run, "skipped", 0);
    check_pair(c, "last scale", run, "scale", 0);
}

TEST(lab_precision_scaling_plugin_trains_as_numpy_does)
{
    json_t *root = fixture_json("lab/scaling.json");
    struct precision p;
    struct precision_options o = {.steps = (int64_t)fixture_number(root, "steps")};
    struct error e = {0};
    REQUIRE_OK(precision_run_suite(&p, "scaling", &o, &e), &e);
    const struct precision_document *d = p.documents[0];
    const char *name;
    json_t *run, *loss;
    json_object_foreach(json_object_get(root, "runs"), name, run)
        check_run(d, name, run, json_object_get(root, "rows"));
    CHECK_INT(json_object_size(json_object_get(root, "runs")), 14);
    json_object_foreach(json_object_get(root, "rounded"), name, loss)
    {
        char full[64];
        snprintf(full, sizeof full, "%s, rounded after training", name);
        const struct precision_case *c = precision_find_case(d, full);
        REQUIRE(c);
        // Of weights that differ in the last bits of f32; one of 3072 codes may be another.
        CHECK_NEAR(fact(c, "loss, last"), json_number_value(loss), 0.02 * json_number_value(loss));
    }
    // What is applied unseen is no number any more, and is told as none.
    const struct precision_case *unseen = precision_find_case(d, "f16, scale 2^34, applied unseen");
    REQUIRE(unseen);
    CHECK(isnan(fact(unseen, "loss, last")));
    precision_check_checks(d, 22);
    CHECK_INT(d->n_figures, 4);
    CHECK_INT(d->n_programs, 9);
    precision_close(&p);
    json_decref(root);
}

TEST(lab_precision_scaling_plugin_goes_straight_through_as_torch_does)
{
    json_t *root = fixture_json("lab/scaling.json"), *want;
    struct precision p;
    struct precision_document d = {.name = "scaling"};
    static const char *const suites[] = {"scaling"};
    struct precision_options o = {.suites = suites, .n_suites = 1};
    struct scaling_lab lab;
    struct error e = {0};
    REQUIRE_OK(precision_open(&p, &o, NULL, &e), &e);
    p.document = &d;
    REQUIRE_OK(scaling_init(&lab, &p, 17, &e), &e);
    const char *name;
    json_object_foreach(json_object_get(root, "straight_through"), name, want)
    {
        struct scaling_policy policy = {.name = name,
                                        .type = DT_F32,
                                        .weights = DT_F32,
                                        .scale = 1,
                                        .quantisation = SCALING_STRAIGHT_THROUGH,
                                        .qmax = strcmp(name, "int4") == 0 ? 7 : 1};
        struct scaling_gradient g;
        REQUIRE_OK(scaling_gradient(&lab, lab.data.w, &policy, false, &g, &e), &e);
        double norm = 0, length = fixture_number(want, "norm");
        const json_t *some = json_object_get(want, "every_37th");
        for (size_t i = 0; i < SCALING_WEIGHTS; i++)
            norm += g.values[i] * g.values[i];
        // f32 sums of 128 products beside f64 ones.
        CHECK_NEAR(sqrt(norm), length, 1e-6 * length);
        for (size_t i = 0; i < json_array_size(some); i++)
            CHECK_NEAR(g.values[i * 37], number(some, i), 1e-6 * length);
        CHECK_INT(json_array_size(some), (SCALING_WEIGHTS + 36) / 37);
        CHECK_INT(g.bad, 0);
    }
    scaling_release(&lab);
    precision_close(&p);
    json_decref(root);
}

TEST(lab_precision_scaling_plugin_claims_nothing_of_few_steps)
{
    struct precision p;
    struct precision_options o = {.steps = 3, .seed = 5, .seed_given = true};
    struct error e = {0};
    REQUIRE_OK(precision_run_suite(&p, "scaling", &o, &e), &e);
    const struct precision_document *d = p.documents[0];
    CHECK_INT(d->n_checks, 0);
    bool told = false;
    for (size_t i = 0; i < d->n_notes; i++)
        told |= strstr(d->notes[i], "3 steps are too few") != NULL;
    CHECK(told);
    CHECK(strstr(d->inputs[0].source, "default_rng(5)"));
    precision_close(&p);
    o.steps = 10001;
    CHECK_INT(precision_open(&p, &o, NULL, &e), ERR_USAGE);
    CHECK(strstr(e.message, "at most 10000 steps"));
}
