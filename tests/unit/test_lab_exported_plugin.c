// SPDX-License-Identifier: Apache-2.0
// A transformer exported from JAX (tests/oracle/jax_program.py), run on its weights and inputs: what comes out is what
// JAX computes, in f32 and in f64.
#include <stdlib.h>

#include "fixture.h"
#include "io/npz.h"
#include "lab/subject.h"
#include "num/convert.h"
#include "pjrt_test.h"
#include "test.h"

enum { CASES = 3, LOGITS = 2 * 8 * 48, POOLED = 2 * 32 };

static const char *jax(const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "lab/jax/%s", name);
    return fixture_path(path);
}

// JAX's result `name` ("logits64") of all cases as doubles.
static double *expected(const char *name)
{
    struct npz z;
    struct error e = {0};
    double *out = NULL;
    if (npz_open(&z, jax("expected.npz"), &e)) {
        test_fail_error(__FILE__, __LINE__, "npz_open", e.where, e.message);
        return NULL;
    }
    const struct npz_array *a = npz_find(&z, name);
    void *raw = a ? malloc(a->bytes) : NULL;
    if (raw && npz_read(&z, a, raw, &e) == 0) {
        out = malloc(a->elements * sizeof *out);
        CHECK_INT(convert_elements(DT_F64, out, a->dtype, raw, a->elements, &e), 0);
    }
    free(raw);
    npz_close(&z);
    return out;
}

static double distance(const double *got, const double *want, size_t per_case)
{
    double error = 0, norm = 0;
    for (size_t k = 0; k < CASES; k++) {
        for (size_t i = 0; i < per_case; i++) {
            double d = got[k * (LOGITS + POOLED) + i] - want[k * per_case + i];
            error += d * d;
            norm += want[k * per_case + i] * want[k * per_case + i];
        }
    }
    return sqrt(error / norm);
}

static void compare(const char *program, const char *weights, bool wide, double tolerance)
{
    struct workload w;
    struct error err = {0};
    struct module m;
    struct subject s;
    struct policy p;
    struct workload_options o = {.directory = jax(program), .weights = jax(weights), .inputs = jax("cases.npz")};
    REQUIRE_OK(policy_parse(&p, "f32", &err), &err);
    REQUIRE_OK(workload_open(&w, &o, &err), &err);
    REQUIRE(CHECK_INT(workload_values(&w), CASES * (LOGITS + POOLED)));
    module_init(&m, &w.arena, "jax");
    REQUIRE_OK(workload_module(&w, &m, &err), &err);
    struct subject_options so = {.worker = {.device = "cpu", .plugin_path = pjrt_test_plugin(false)},
                                 .module = &m,
                                 .policy = wide ? NULL : &p,
                                 .label = wide ? "f64" : "f32"};
    double *out = malloc(workload_values(&w) * sizeof *out);
    REQUIRE(out);
    REQUIRE_OK(subject_open(&s, &w, &so, &err), &err);
    REQUIRE_OK(subject_run_all(&s, &w, out, &err), &err);
    double *logits = expected(wide ? "logits64" : "logits"), *pooled = expected(wide ? "pooled64" : "pooled");
    REQUIRE(logits && pooled);
    double dl = distance(out, logits, LOGITS), dp = distance(out + LOGITS, pooled, POOLED);
    printf("  %s: logits %.3g, pooled %.3g\n", wide ? "f64" : "f32", dl, dp);
    CHECK(dl <= tolerance);
    CHECK(dp <= tolerance);
    // embed, head, the last norm; two layers of two norms, four square products and three of the MLP
    CHECK_INT(s.weights.zero_copy_bytes + s.weights.copied_bytes,
              4 * (2 * 48 * 32 + 32 + 2 * (2 * 32 + 4 * 32 * 32 + 3 * 32 * 64)));
    free(out);
    free(logits);
    free(pooled);
    subject_close(&s);
    workload_close(&w);
}

// The same compiler may fuse the two differently: a few roundings of 2^-24 in each of some twenty operations.
TEST(lab_exported_plugin_f32_is_that_of_jax)
{
    compare("transformer.hlo.pb", "weights.safetensors", false, 2e-6);
    compare("transformer.hlo.txt", "numbered.safetensors", false, 2e-6);
}

// Its constants are numbers that f32 holds, so that this is the same function: roundings of 2^-53.
TEST(lab_exported_plugin_f64_is_that_of_jax)
{
    compare("transformer.hlo.pb", "weights.safetensors", true, 1e-14);
}
