// SPDX-License-Identifier: Apache-2.0
// A model exported from PyTorch (tests/oracle/torch_program.py), run on its weights and inputs: what comes out is what
// PyTorch computes.
#include <math.h>
#include <stdlib.h>

#include "fixture.h"
#include "io/npz.h"
#include "lab/subject.h"
#include "pjrt_test.h"
#include "test.h"

enum { VALUES = 2 * 16 }; // of the embedding of two texts

static const char *torch(const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "lab/torch/%s", name);
    return fixture_path(path);
}

static void expect(float out[VALUES])
{
    struct npz z;
    struct error e = {0};
    REQUIRE_OK(npz_open(&z, torch("expected.npz"), &e), &e);
    const struct npz_array *a = npz_find(&z, "embedding");
    REQUIRE(a && a->dtype == DT_F32 && a->elements == VALUES);
    REQUIRE_OK(npz_read(&z, a, out, &e), &e);
    npz_close(&z);
}

// Relative distance of the program's result under a policy (NULL: in f64) from PyTorch's in f32.
static void measure(const char *policy, double *distance)
{
    struct workload w;
    struct error err = {0};
    struct module m;
    struct subject s;
    struct policy p;
    double got[VALUES], error = 0, norm = 0;
    float want[VALUES];
    struct workload_options o = {
        .directory = torch("encoder.mlir"), .weights = torch("encoder.safetensors"), .inputs = torch("inputs.npz")};
    expect(want);
    if (policy)
        REQUIRE_OK(policy_parse(&p, policy, &err), &err);
    REQUIRE_OK(workload_open(&w, &o, &err), &err);
    REQUIRE(CHECK_INT(workload_values(&w), VALUES));
    module_init(&m, &w.arena, "torch");
    REQUIRE_OK(workload_module(&w, &m, &err), &err);
    struct subject_options so = {.worker = {.device = "cpu", .plugin_path = pjrt_test_plugin(false)},
                                 .module = &m,
                                 .policy = policy ? &p : NULL,
                                 .label = policy ? policy : "f64"};
    REQUIRE_OK(subject_open(&s, &w, &so, &err), &err);
    REQUIRE_OK(subject_run_all(&s, &w, got, &err), &err);
    for (int i = 0; i < VALUES; i++) {
        error += (got[i] - want[i]) * (got[i] - want[i]);
        norm += (double)want[i] * want[i];
    }
    subject_close(&s);
    workload_close(&w);
    *distance = sqrt(error / norm);
    printf("  %s: %.3g\n", policy ? policy : "f64", *distance);
}

// Other kernels, and an error function that torchax writes as a polynomial, good to about 1e-7 itself: roundings of
// 2^-24 in some fifty operations, which the mean over six tokens and the norms make no larger.
TEST(lab_exported_plugin_torch_is_that_of_torch)
{
    double f32 = 1, f64 = 1;
    measure("f32", &f32);
    measure(NULL, &f64);
    CHECK(f32 <= 2e-6);
    CHECK(f64 <= 2e-6);
}

// It is the model that is compared, and not the inputs or zeros: eight bits of weights and activations are far from it.
TEST(lab_exported_plugin_torch_policy_is_near_it)
{
    double d = 0;
    measure("w8a8", &d);
    CHECK(d > 1e-4);
    CHECK(d < 5e-2);
}
