// SPDX-License-Identifier: Apache-2.0
// A matrix under ways of storing it, against numpy and ml_dtypes; what is refused.
#include <string.h>

#include "fixture.h"
#include "lab/precision.h"
#include "lab/storage.h"
#include "test.h"

static const struct precision_case *find(const struct precision *p, const char *section, const char *policy)
{
    for (size_t i = 0; i < p->document->n_cases; i++) {
        const struct precision_case *c = p->document->cases[i];
        if (strcmp(c->section, section) == 0 && c->w && strcmp(c->w, policy) == 0)
            return c;
    }
    return NULL;
}

static double fact(const struct precision_case *c, const char *name)
{
    for (size_t i = 0; i < c->n_facts; i++) {
        if (strcmp(c->facts[i].name, name) == 0)
            return c->facts[i].number.value;
    }
    return NAN;
}

// Sums of some thousand terms in another order: a few parts in 1e13.
static void near(double got, double want, const char *what, const char *policy)
{
    if (!CHECK_NEAR(got, want, 1e-12 * fabs(want) + 1e-300))
        printf("    %s of %s\n", what, policy);
}

static void check_errors(const struct precision_case *c, const json_t *expected, const char *policy)
{
    REQUIRE(c != NULL && c->n_measures == 1);
    const double got[3] = {c->measures[0].max_abs, c->measures[0].mean_abs, c->measures[0].rel_l2};
    static const char *const names[3] = {"max", "mean", "rel L2"};
    for (size_t k = 0; k < 3; k++)
        near(got[k], json_number_value(json_array_get(expected, k)), names[k], policy);
}

static void check_policy(const struct precision *p, const char *policy, const json_t *expected)
{
    const struct precision_case *stored = find(p, "the tensor", policy);
    REQUIRE(stored != NULL && stored->failure == NULL);
    CHECK_INT(stored->code_bytes, fixture_number(expected, "code_bytes"));
    CHECK_INT(stored->scale_bytes, fixture_number(expected, "scale_bytes"));
    CHECK_INT(fact(stored, "to zero"), fixture_number(expected, "to_zero"));
    CHECK_INT(fact(stored, "worst row"), fixture_number(expected, "worst_row"));
    near(fact(stored, "its rel L2"), fixture_number(expected, "worst_row_rel_l2"), "worst row", policy);
    check_errors(stored, json_object_get(expected, "tensor"), policy);
    const struct precision_case *product = find(p, "its product with normal inputs", policy);
    check_errors(product, json_object_get(expected, "product"), policy);
    near(fact(product, "bound"), fixture_number(expected, "bound"), "bound", policy);
    if (json_object_get(expected, "both"))
        check_errors(find(p, "the same with the inputs stored, too", policy), json_object_get(expected, "both"),
                     policy);
}

TEST(lab_storage_of_a_matrix_is_what_numpy_says)
{
    struct precision p;
    struct error err = {0};
    char tensor[1200];
    json_t *fixture = fixture_json("lab/storage.json"), *cases = json_object_get(fixture, "cases"), *expected;
    const char *policies[32], *policy;
    size_t n = 0;
    json_object_foreach(cases, policy, expected) policies[n++] = policy;
    snprintf(tensor, sizeof tensor, "%s:w", fixture_path("lab/storage.safetensors"));
    struct precision_options o = {.tensor = tensor,
                                  .policies = policies,
                                  .n_policies = n,
                                  .batch = (int64_t)fixture_number(fixture, "batch"),
                                  .seed = (uint64_t)fixture_number(fixture, "seed"),
                                  .seed_given = true};
    if (precision_open(&p, &o, NULL, &err) || precision_run(&p, NULL, &err)) {
        test_fail_error(__FILE__, __LINE__, "precision_run", err.where, err.message);
    } else {
        CHECK(n > 10 && !precision_failed(&p));
        for (size_t i = 0; i < n; i++)
            check_policy(&p, policies[i], json_object_get(cases, policies[i]));
        CHECK(p.worker == NULL); // no device was needed
        precision_close(&p);
    }
    json_decref(fixture);
}

static void refused(const char *tensor, const char *policy, int code, const char *text, const char *file, int line)
{
    struct precision p;
    struct error err = {0};
    char path[1200];
    struct precision_options o = {.tensor = path, .policies = &policy, .n_policies = policy != NULL};
    snprintf(path, sizeof path, "%s%s", tensor[0] == ':' ? fixture_path("lab/storage.safetensors") : "", tensor);
    int rc = precision_open(&p, &o, NULL, &err);
    if (!test_check(rc == code, file, line, "the code") ||
        !test_check(strstr(err.message, text) != NULL, file, line, text))
        printf("    %s: %s\n", err.where, err.message);
    if (!rc)
        precision_close(&p);
}
#define REFUSED(tensor, policy, code, text) refused((tensor), (policy), (code), (text), __FILE__, __LINE__)

TEST(lab_storage_refuses_what_it_cannot_try)
{
    REFUSED(":w", "w9", ERR_USAGE, "mxfp4");
    REFUSED(":w", "int8/foo", ERR_USAGE, "group:N");
    REFUSED(":w", "w=int8,a=w7", ERR_USAGE, "a=w7");
    REFUSED(":w", "a=bf16", ERR_USAGE, "w=");
    REFUSED(":w", "", ERR_USAGE, "not known");
    REFUSED(":nothing", "bf16", ERR_INPUT, "missing");
    REFUSED(":empty", "bf16", ERR_INPUT, "empty");
    REFUSED("nothing", "bf16", ERR_USAGE, "FILE:NAME");
    REFUSED("nothing:w", "bf16", ERR_INPUT, "cannot be opened");
    REFUSED(":", "bf16", ERR_USAGE, "FILE:NAME");
    REFUSED(":w", NULL, 0, "");   // a selection
    REFUSED(":a:b", NULL, 0, ""); // the name holds a colon
    char codebook[1200];
    snprintf(codebook, sizeof codebook, "%s:a", fixture_path("io/codebook.gguf"));
    REFUSED(codebook, NULL, ERR_INPUT, "cannot be read");
}

// NaN and infinities are a failure of the ways that have no place for them, and pass through the others.
TEST(lab_storage_of_what_is_not_finite)
{
    struct precision p;
    struct error err = {0};
    char tensor[1200];
    static const char *const policies[] = {"bf16", "w8a16", "mxfp4", "f8e4m3fn/cast"};
    snprintf(tensor, sizeof tensor, "%s:broken", fixture_path("lab/storage.safetensors"));
    struct precision_options o = {.tensor = tensor, .policies = policies, .n_policies = 4};
    REQUIRE_OK(precision_open(&p, &o, NULL, &err), &err);
    if (precision_run(&p, NULL, &err)) {
        test_fail_error(__FILE__, __LINE__, "precision_run", err.where, err.message);
    } else {
        const struct precision_case *bf16 = find(&p, "the tensor", "bf16");
        CHECK(!bf16->failure && bf16->measures[0].nonfinite == 1 &&
              isnan(bf16->measures[0].max_abs)); // NaN; inf agrees
        CHECK(find(&p, "the tensor", "w8a16")->failure != NULL && find(&p, "the tensor", "mxfp4")->failure != NULL);
        CHECK_INT(find(&p, "the tensor", "f8e4m3fn/cast")->measures[0].nonfinite, 2); // it has no infinity
    }
    precision_close(&p);
}

TEST(lab_storage_of_zeros_comes_back_exactly)
{
    static const char *const policies[] = {"bf16",  "w8a16", "int4/group:32", "mxfp8",
                                           "mxfp4", "nvfp4", "fp8",           "w=uint8/channel/affine"};
    static const float x[24] = {0};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct storage s;
        struct storage_result result;
        struct error err = {0};
        float back[24];
        memset(back, 0xff, sizeof back);
        REQUIRE_OK(storage_parse(&s, policies[i], &err), &err);
        REQUIRE_OK(storage_apply(&s, 3, 8, x, back, &result, "zeros", &err), &err);
        for (int k = 0; k < 24; k++)
            CHECK(back[k] == 0);
    }
}

// What lies in a GGUF file as blocks is decoded first.
TEST(lab_storage_of_a_gguf_tensor)
{
    struct precision p;
    struct error err = {0};
    char tensor[1200];
    static const char *const policies[] = {"f32", "w4a16"};
    snprintf(tensor, sizeof tensor, "%s:blocks.Q4_K", fixture_path("io/good.gguf"));
    struct precision_options o = {.tensor = tensor, .policies = policies, .n_policies = 2};
    REQUIRE_OK(precision_open(&p, &o, NULL, &err), &err);
    if (precision_run(&p, NULL, &err)) {
        test_fail_error(__FILE__, __LINE__, "precision_run", err.where, err.message);
    } else {
        const struct precision_table *t = p.document->tables[0];
        CHECK_STR(t->cells[0].text, "Q4_K");
        CHECK(find(&p, "the tensor", "f32")->measures[0].max_abs == 0);
        CHECK(find(&p, "the tensor", "w4a16")->measures[0].rel_l2 > 0);
    }
    precision_close(&p);
}
