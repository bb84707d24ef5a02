// SPDX-License-Identifier: Apache-2.0
// The suite `lab` on the CPU plugin, against what tests/oracle/precision_lab.py computed with numpy and JAX.
#include <stdlib.h>

#include "base/sha256.h"
#include "fixture.h"
#include "lab/precision_lab.h"
#include "precision_run.h"
#include "test.h"

static const char *fact(const struct precision_case *c, const char *name)
{
    for (size_t i = 0; i < c->n_facts; i++) {
        if (strcmp(c->facts[i].name, name) == 0)
            return c->facts[i].text;
    }
    return "absent";
}

static void check_case(const struct precision_case *c, const json_t *row)
{
    const json_t *numpy = json_object_get(row, "numpy");
    double rel_l2 = fixture_number(numpy, "rel_l2"), max_abs = fixture_number(numpy, "max_abs");
    bool f32 = strcmp(c->label, "fp32") == 0;
    CHECK(!c->failure);
    REQUIRE(c->n_measures == 1);
    // What the device's f32 sums add to the error of the operands, each relative to the norm: a few 1e-7. With f32
    // operands there is nothing else.
    CHECK_NEAR(c->measures[0].rel_l2, f32 ? 0 : rel_l2, 6e-7);
    CHECK(c->measures[0].rel_l2 > 0);
    CHECK_NEAR(c->measures[0].max_abs, f32 ? 0 : max_abs, 1e-4); // the same, of values up to a hundred
    CHECK_INT(c->code_bytes, json_integer_value(json_object_get(row, "code_bytes")));
    CHECK_INT(c->scale_bytes, json_integer_value(json_object_get(row, "scale_bytes")));
    CHECK_INT(c->clipped, strcmp(c->label, "int8") == 0 ? 0 : -1);
    CHECK(c->origin == ORIGIN_MEASURED);
    CHECK(strstr(fact(c, "requested"), f32 || strcmp(c->label, "bf16") == 0 ? "HIGHEST" : "int32"));
    CHECK(strstr(fact(c, "lowered to"), "dot("));
}

static void check_cases(const struct precision_document *d, const json_t *run, const char *prefix)
{
    const json_t *rows = json_object_get(run, "cases");
    CHECK_INT(json_array_size(rows), 6);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        char name[64];
        snprintf(name, sizeof name, "%s%s-%s", prefix, json_string_value(json_object_get(row, "input")),
                 json_string_value(json_object_get(row, "policy")));
        const struct precision_case *c = precision_find_case(d, name);
        REQUIRE(c);
        check_case(c, row);
    }
}

static const struct precision_program *find_program(const struct precision_document *d, const char *name)
{
    for (size_t i = 0; i < d->n_programs; i++) {
        if (strcmp(d->programs[i]->name, name) == 0)
            return d->programs[i];
    }
    return NULL;
}

static void check_zeros(const struct precision_document *d)
{
    for (int policy = 0; policy < LAB_POLICIES; policy++) {
        char name[32];
        snprintf(name, sizeof name, "zero-%s", lab_policy_name((enum lab_policy)policy));
        const struct precision_case *c = precision_find_case(d, name);
        REQUIRE(c && c->n_measures == 1);
        CHECK(isnan(c->measures[0].rel_l2) && c->measures[0].max_abs == 0 && !c->measures[0].nonfinite);
    }
}

static void check_figure(const struct precision_document *d)
{
    REQUIRE(d->n_figures == 1 && d->figures[0]->n_panels == 2);
    const struct precision_panel *errors = d->figures[0]->panels[0], *bytes = d->figures[0]->panels[1];
    CHECK(errors->kind == PANEL_POINTS && errors->y_log && !bytes->y_log && bytes->kind == PANEL_STACKED);
    CHECK(errors->n_series == 2 && errors->n_categories == 3 && bytes->n_series == 2 && bytes->n_categories == 3);
    CHECK_STR(errors->series[1].cases[2], "outlier-int8");
    CHECK_STR(bytes->series[1].quantity, "stored/scales");
}

TEST(lab_precision_lab_plugin_published)
{
    json_t *root = fixture_json("lab/precision_lab.json");
    const json_t *runs = json_object_get(root, "runs");
    struct precision p;
    struct precision_options o = {.steps = 3};
    struct error e = {0};
    REQUIRE_OK(precision_run_suite(&p, "lab", &o, &e), &e);
    const struct precision_document *d = p.documents[0];
    check_cases(d, json_array_get(runs, 0), "");
    check_cases(d, json_array_get(runs, 1), "1x127x65-");
    check_zeros(d);
    precision_check_checks(d, 40);
    check_figure(d);
    CHECK(!precision_failed(&p));
    const struct precision_program *timed = find_program(d, "outlier-bf16"), *other = find_program(d, "zero-bf16");
    REQUIRE(timed && other);
    CHECK_INT(timed->n_samples, 3);
    CHECK(timed->warmup.runs > 0 && timed->compile_ns > 0 && timed->memory.arguments > 0);
    CHECK(timed->lowered_sha256 && timed->optimized_sha256 && strlen(timed->lowered_sha256) == 64);
    CHECK_INT(other->n_samples, 0);
    precision_close(&p);
    json_decref(root);
}

TEST(lab_precision_lab_plugin_shape)
{
    json_t *root = fixture_json("lab/precision_lab.json");
    struct precision p;
    struct precision_options o = {.seed = 5, .seed_given = true, .batch = 3, .features = 200, .outputs = 9, .steps = 1};
    struct error e = {0};
    REQUIRE_OK(precision_run_suite(&p, "lab", &o, &e), &e);
    check_cases(p.documents[0], json_array_get(json_object_get(root, "runs"), 2), "");
    precision_check_checks(p.documents[0], 30);
    precision_close(&p);
    json_decref(root);
}

// More features than an int32 can sum products of codes of: two parts, each exact.
TEST(lab_precision_lab_plugin_split)
{
    struct precision p;
    struct precision_options o = {.batch = 1, .features = LAB_CHUNK + 7, .outputs = 2, .steps = 1};
    struct error e = {0};
    CHECK_INT(LAB_CHUNK, 133144);
    CHECK_INT(lab_chunks(LAB_CHUNK), 1);
    CHECK_INT(lab_chunks(LAB_CHUNK + 1), 2);
    REQUIRE_OK(precision_run_suite(&p, "lab", &o, &e), &e);
    const struct precision_case *c = precision_find_case(p.documents[0], "balanced-int8");
    REQUIRE(c);
    const char *second = strchr(fact(c, "lowered to"), ';');
    CHECK(second && strstr(second, "dot("));
    CHECK(strstr(fact(c, "lowered to"), "133144"));
    precision_check_checks(p.documents[0], 30);
    precision_close(&p);
}

TEST(lab_precision_lab_refusals)
{
    struct precision p;
    struct precision_options o = {.features = (int64_t)LAB_MAX_CHUNKS * LAB_CHUNK + 1, .batch = 1, .outputs = 1};
    struct error e = {0};
    CHECK_INT(precision_run_suite(&p, "lab", &o, &e), ERR_USAGE);
    CHECK(strstr(e.message, "133144"));
    error_clear(&e);
    o = (struct precision_options){.features = 1 << 20, .batch = 65536};
    CHECK_INT(precision_run_suite(&p, "lab", &o, &e), ERR_USAGE);
    CHECK(strstr(e.message, "too large"));
    error_clear(&e);
    o = (struct precision_options){.features = 4096, .batch = 4096, .outputs = 4096};
    CHECK_INT(precision_run_suite(&p, "lab", &o, &e), ERR_USAGE);
    CHECK(strstr(e.message, "too much"));
}

// Codes and scales are numpy's, bit for bit.
TEST(lab_precision_lab_operands)
{
    json_t *root = fixture_json("lab/precision_lab.json");
    const json_t *run = json_array_get(json_object_get(root, "runs"), 2);
    const size_t m = 3, k = 200, n = 9;
    struct precision p = {0};
    struct precision_options o = {0};
    struct error e = {0};
    arena_init(&p.arena);
    p.options = &o;
    struct lab_problem q = {.p = &p, .shape = {m, k, n}, .seed = 5};
    REQUIRE_OK(lab_draw(&q, &e), &e);
    for (size_t i = 0; i < 6; i++) {
        const json_t *row = json_array_get(json_object_get(run, "cases"), i);
        struct lab_operands operands;
        REQUIRE_OK(lab_operands(&p, &q.shape, q.inputs[i / 3].x, q.w, (enum lab_policy)(i % 3), &operands, &e), &e);
        size_t xs = precision_bytes(&operands.x), ws = precision_bytes(&operands.w);
        char *both = malloc(xs + ws), hex[65];
        REQUIRE(both);
        memcpy(both, operands.x.data, xs);
        memcpy(both + xs, operands.w.data, ws);
        REQUIRE_OK(sha256_bytes(both, xs + ws, hex, &e), &e);
        CHECK_STR(hex, json_string_value(json_object_get(row, "operands")));
        free(both);
        float scales[12];
        if (i % 3 != LAB_INT8)
            continue;
        memcpy(scales, operands.x_scales, m * sizeof(float));
        memcpy(scales + m, operands.w_scales, n * sizeof(float));
        REQUIRE_OK(sha256_bytes(scales, sizeof scales, hex, &e), &e);
        CHECK_STR(hex, json_string_value(json_object_get(row, "scales")));
    }
    arena_release(&p.arena);
    json_decref(root);
}

static const struct precision_check *find_check(const struct precision_document *d, const char *name)
{
    for (size_t i = 0; i < d->n_checks; i++) {
        if (strcmp(d->checks[i].name, name) == 0)
            return &d->checks[i];
    }
    return NULL;
}

// The f64 product of what the operands of a policy stand for.
static const double *product_of(struct lab_problem *q, enum lab_policy policy, struct error *e)
{
    struct lab_operands *o = &q->inputs[0].operands[policy];
    const struct lab_shape *s = &q->shape;
    const double *x = precision_doubles(q->p, o->x.type, o->x.data, s->m * s->k, e);
    const double *w = precision_doubles(q->p, o->w.type, o->w.data, s->k * s->n, e);
    return x && w ? precision_product_f64(q->p, x, w, s->m, s->k, s->n, e) : NULL;
}

// A device that multiplies f32 operands as bf16, and one that does not round bf16 operands: both are seen.
TEST(lab_precision_lab_checks_see_other_operands)
{
    struct precision p = {0};
    struct precision_options o = {0};
    struct error e = {0};
    arena_init(&p.arena);
    p.options = &o;
    struct lab_problem q = {.p = &p, .shape = {4, 128, 4}, .seed = 17, .prefix = ""};
    REQUIRE_OK(precision_begin(&p, "lab", "", &e), &e);
    REQUIRE_OK(lab_draw(&q, &e), &e);
    REQUIRE_OK(lab_references(&q, &e), &e);
    const double *results[LAB_POLICIES];
    for (int policy = 0; policy < LAB_POLICIES; policy++) {
        for (int i = 0; i < 2; i++)
            REQUIRE_OK(lab_operands(&p, &q.shape, q.inputs[i].x, q.w, (enum lab_policy)policy,
                                    &q.inputs[i].operands[policy], &e),
                       &e);
        results[policy] = product_of(&q, (enum lab_policy)policy, &e);
        REQUIRE(results[policy]);
    }
    for (int swapped = 0; swapped < 2; swapped++) {
        q.inputs[0].results[LAB_FP32] = results[swapped ? LAB_BF16 : LAB_FP32];
        q.inputs[0].results[LAB_BF16] = results[swapped ? LAB_FP32 : LAB_BF16];
        p.document->n_checks = 0;
        REQUIRE_OK(lab_check_problem(&q, &e), &e);
        const struct precision_check *f32 = find_check(p.document, "balanced-fp32: arithmetic");
        const struct precision_check *bf16 =
            find_check(p.document, "balanced-bf16: arithmetic on the rounded operands");
        REQUIRE(f32 && bf16);
        CHECK_INT(f32->ok, !swapped);
        CHECK_INT(bf16->ok, !swapped);
    }
    arena_release(&p.arena);
}
