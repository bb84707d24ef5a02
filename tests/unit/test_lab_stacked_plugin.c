// SPDX-License-Identifier: Apache-2.0
// A transformer whose layers lie in a stack that a loop goes through, and the same one written out: what policies store
// of both, and what comes out, are what numpy makes of them (tests/oracle/stacked_programs.py).
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "fixture.h"
#include "io/npz.h"
#include "ir/bind.h"
#include "ir/retype.h"
#include "ir_test.h"
#include "lab/exported.h"
#include "lab/ranges.h"
#include "num/convert.h"

enum { LOGITS = 2 * 4 * 24 };

struct one { // a program with its weights
    struct arena arena;
    struct checkpoint c;
    struct exported e;
};

static const char *stacked(const char *name)
{
    char path[96];
    snprintf(path, sizeof path, "lab/stacked/%s", name);
    return fixture_path(path);
}

static bool one_open(struct one *o, const char *program, const char *weights, const char *inputs)
{
    struct error err = {0};
    bool opened;
    struct exported_options options = {.path = program, .weights = weights, .inputs = inputs};
    arena_init(&o->arena);
    if (exported_open(&o->e, &options, &o->c, &opened, &o->arena, &err) == 0)
        return true;
    test_fail_error(__FILE__, __LINE__, program, err.where, err.message);
    return false;
}

static void one_close(struct one *o)
{
    checkpoint_close(&o->c);
    arena_release(&o->arena);
}

// Read once for a test, and kept to its end.
static const json_t *expected(void)
{
    static json_t *root;
    json_error_t e;
    if (!root)
        root = json_load_file(stacked("expected.json"), 0, &e);
    CHECK(root != NULL);
    return json_object_get(root, "policies");
}

static bool apply(struct one *o, const char *text, struct policy *p, struct module *m)
{
    struct error err = {0};
    module_init(m, &o->arena, text);
    bool done = policy_parse(p, text, &err) == 0 && module_apply_policy(&o->e.module, p, false, m, &err) == 0;
    if (!done)
        test_fail_error(__FILE__, __LINE__, text, err.where, err.message);
    return done;
}

// ---- what is stored

static void check_stored(const struct one *o, const struct module *m, int i, const json_t *want, const char *policy)
{
    const struct parameter *p = &m->parameters[i];
    const struct binding *b = &p->binding;
    size_t bytes = (size_t)shape_bytes(&m->instructions[p->instruction].shape);
    char hex[65];
    struct error err = {0};
    void *stored = malloc(bytes);
    REQUIRE_OK(bind_make(m, &o->c, i, stored, NULL, &err), &err);
    REQUIRE_OK(sha256_bytes(stored, bytes, hex, &err), &err);
    const char *hash = json_string_value(json_array_get(want, b->part == BIND_SCALES));
    if (!CHECK(hash && strncmp(hex, hash, strlen(hash)) == 0))
        printf("  %s: %s: %s\n", policy, b->sources[0], b->part == BIND_SCALES ? "scales" : "codes or values");
    free(stored);
}

// Every weight matrix of the program; the fixture's `key` says of each tensor what is stored of it.
static void check_all_stored(struct one *o, const char *key, int matrices)
{
    const json_t *list = expected();
    for (size_t at = 0; at < json_array_size(list); at++) {
        const json_t *one = json_array_get(list, at), *want = json_object_get(one, key);
        const char *text = json_string_value(json_object_get(one, "policy"));
        struct policy p;
        struct module m;
        int checked = 0;
        if (!json_object_size(want)) // groups that do not divide these
            continue;
        REQUIRE(apply(o, text, &p, &m));
        for (int i = 0; i < m.n_parameters; i++) {
            const struct binding *b = &m.parameters[i].binding;
            const json_t *hashes = b->n_sources ? json_object_get(want, b->sources[0]) : NULL;
            if (hashes)
                check_stored(o, &m, i, hashes, text);
            checked += hashes != NULL;
        }
        CHECK_INT(checked, policy_has_scales(p.w) ? 2 * matrices : matrices);
    }
}

TEST(lab_stacked_stores_what_numpy_stores)
{
    struct one o;
    REQUIRE(one_open(&o, stacked("after_scan.hlo.pb"), stacked("stacked.safetensors"), stacked("inputs.npz")));
    check_all_stored(&o, "stored", 10); // nine of a layer, and the table
    one_close(&o);
    REQUIRE(one_open(&o, stacked("after_sliced.hlo.pb"), stacked("stacked.safetensors"), stacked("inputs.npz")));
    check_all_stored(&o, "stored", 10);
    one_close(&o);
    REQUIRE(one_open(&o, stacked("after_unrolled.hlo.pb"), stacked("unrolled.safetensors"), stacked("inputs.npz")));
    check_all_stored(&o, "stored", 3 * 9 + 1);
    one_close(&o);
}

// Of PyTorch, whose matrices lie [out, in]; StableHLO is translated by the plugin.
TEST(lab_stacked_plugin_stores_what_numpy_stores_of_torch)
{
    struct one o;
    REQUIRE(one_open(&o, fixture_path("lab/torch/encoder.mlir"), fixture_path("lab/torch/encoder.safetensors"),
                     fixture_path("lab/torch/inputs.npz")));
    check_all_stored(&o, "torch", 2 * 4 + 1);
    one_close(&o);
}

// ---- what comes out

static float *numpy(const char *which, size_t at)
{
    struct npz z;
    struct error err = {0};
    char name[32];
    snprintf(name, sizeof name, "%s_%zu", which, at);
    if (npz_open(&z, stacked("logits.npz"), &err))
        return NULL;
    const struct npz_array *a = npz_find(&z, name);
    float *out = a && a->elements == LOGITS ? malloc(a->bytes) : NULL;
    if (out && npz_read(&z, a, out, &err)) {
        free(out);
        out = NULL;
    }
    npz_close(&z);
    return out;
}

static double rel_l2(const float *a, const float *b)
{
    double *x = ir_doubles(DT_F32, a, LOGITS), *y = ir_doubles(DT_F32, b, LOGITS), apart = ir_rel_l2(x, y, LOGITS);
    free(x);
    free(y);
    return apart;
}

static float *run(struct rig *r, struct one *o, const char *text)
{
    struct policy p;
    struct module m;
    void *out = NULL;
    const void *inputs[] = {o->e.arguments[o->e.n_arguments - 1].data};
    bool ran = apply(o, text, &p, &m) && ir_run_bound(r, &o->c, &m, inputs, &out);
    return ran ? out : NULL;
}

// How near two runs that round at the same places come. Sums in another order flip a rounding now and then, and with it
// all roundings behind it are others: then the two differ by the error that rounding activations makes, which is all of
// that of the policies of that type alone, and little of the others'. (Measured: most are equal to the bit.) f32 sums
// differ in their last bits. Where activations are codes, few codes flip: by a small part of the policy's own error.
static double allowed(const struct policy *p, double error, const float *f32)
{
    if (p->a == DT_F32)
        return 2e-6;
    if (policy_has_scales(p->a))
        return 0.3 * error;
    float *alone = numpy("before", p->a == DT_BF16 ? 1 : 2); // the policies bf16 and f16
    double rounding = alone ? rel_l2(alone, f32) : 0;
    free(alone);
    return 1.4 * rounding;
}

static void near_numpy(const char *text, const char *which, size_t at, const float *got)
{
    struct policy p;
    struct error err = {0};
    float *want = numpy(which, at), *f32 = numpy(which, 0), *before = numpy("before", 0);
    REQUIRE(want && f32 && before && got);
    CHECK_INT(policy_parse(&p, text, &err), 0);
    double apart = rel_l2(got, want), error = rel_l2(want, f32);
    if (getenv("ASSAY_TEST_VERBOSE"))
        printf("  %-30s apart %.3e, the policy's error %.3e\n", text, apart, error);
    if (!CHECK(apart <= allowed(&p, error, before)))
        printf("  %s: apart %g, the policy's error %g\n", text, apart, error);
    free(want);
    free(f32);
    free(before);
}

TEST(lab_stacked_plugin_loop_gives_what_numpy_gives)
{
    struct rig r;
    struct one o;
    REQUIRE(rig_open(&r, pjrt_test_plugin(false), 1));
    REQUIRE(one_open(&o, stacked("before_scan.hlo.pb"), stacked("stacked.safetensors"), stacked("inputs.npz")));
    const json_t *list = expected();
    for (size_t at = 0; at < json_array_size(list); at++) {
        const char *text = json_string_value(json_object_get(json_array_get(list, at), "policy"));
        float *got = run(&r, &o, text);
        near_numpy(text, "before", at, got);
        free(got);
    }
    one_close(&o);
    rig_close(&r);
}

// The loop, the stack cut into its layers, and layers of their own. The latter two are the same operations in the same
// order; a loop's body is compiled by itself, and its norms may be summed in another order.
TEST(lab_stacked_plugin_forms_agree)
{
    static const char *const forms[][2] = {{"after_scan.hlo.pb", "stacked.safetensors"},
                                           {"after_sliced.hlo.pb", "stacked.safetensors"},
                                           {"after_unrolled.hlo.pb", "unrolled.safetensors"}};
    static const size_t policies[] = {1, 4, 5};
    struct rig r;
    struct one o[3];
    REQUIRE(rig_open(&r, pjrt_test_plugin(false), 1));
    for (int k = 0; k < 3; k++)
        REQUIRE(one_open(&o[k], stacked(forms[k][0]), stacked(forms[k][1]), stacked("inputs.npz")));
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        const char *text = json_string_value(json_object_get(json_array_get(expected(), policies[i]), "policy"));
        float *got[3];
        for (int k = 0; k < 3; k++) {
            got[k] = run(&r, &o[k], text);
            near_numpy(text, "after", policies[i], got[k]);
        }
        if (!CHECK(memcmp(got[1], got[2], LOGITS * sizeof *got[1]) == 0))
            printf("  %s: a layer cut out of the stack is not the layer: %g\n", text, rel_l2(got[1], got[2]));
        for (int k = 0; k < 3; k++)
            free(got[k]);
    }
    for (int k = 0; k < 3; k++)
        one_close(&o[k]);
    rig_close(&r);
}

// ---- Programs in bf16, f16 and f64

static double *typed(const char *type, const char *what)
{
    struct npz z;
    struct error err = {0};
    char name[64];
    double *out = NULL;
    snprintf(name, sizeof name, "%s_%s", type, what);
    if (npz_open(&z, stacked("types.npz"), &err))
        return NULL;
    const struct npz_array *a = npz_find(&z, name);
    void *raw = a && a->elements == LOGITS ? malloc(a->bytes) : NULL;
    if (raw && npz_read(&z, a, raw, &err) == 0)
        out = ir_doubles(a->dtype, raw, LOGITS);
    free(raw);
    npz_close(&z);
    return out;
}

// The program under the policy, or in f64; malloc'd.
static double *run_typed(struct rig *r, struct one *o, const char *policy)
{
    struct policy p;
    struct module m;
    struct error err = {0};
    void *out = NULL;
    const struct argument *last = &o->e.arguments[o->e.n_arguments - 1];
    const void *inputs[] = {last[-1].data, last->data};
    module_init(&m, &o->arena, "f64");
    bool made = policy ? apply(o, policy, &p, &m) : CHECK_INT(module_retype_f64(&o->e.module, &m, &err), 0);
    if (!made || !ir_run_bound(r, &o->c, &m, inputs, &out))
        return NULL;
    double *wide = ir_doubles(m.instructions[m.results[0]].shape.dtype, out, LOGITS);
    free(out);
    return wide;
}

static void check_typed(struct rig *r, struct one *o, const char *type, const char *policy)
{
    bool own = policy && strcmp(policy, type) == 0;
    double *got = run_typed(r, o, policy), *want = typed(type, !policy ? "f64" : own ? "own" : policy);
    double *exact = typed(type, "f64"), *rounded = typed(type, "bf16");
    REQUIRE(got && want && exact && rounded);
    double apart = ir_rel_l2(got, want, LOGITS), error = ir_rel_l2(want, exact, LOGITS);
    // As `allowed` has it; sums of f64 in another order.
    double most = !policy                              ? 1e-13
                  : strcmp(policy, "f32") == 0         ? 2e-6
                  : own || strcmp(policy, "w8a8") == 0 ? 1.4 * error
                                                       : 1.4 * ir_rel_l2(rounded, exact, LOGITS);
    if (getenv("ASSAY_TEST_VERBOSE"))
        printf("  %s: %-8s apart %.3e, the error %.3e\n", type, policy ? policy : "f64", apart, error);
    if (!CHECK(apart <= most))
        printf("  a program in %s under %s: apart %g, its error %g\n", type, policy ? policy : "f64", apart, error);
    free(got);
    free(want);
    free(exact);
    free(rounded);
}

// Policies apply to a program in another type as to the same program in f32; the preset of its own type leaves it as it
// is, and that is what JAX computes.
static void compare_type(const char *type)
{
    static const char *const policies[] = {NULL, "f32", "bf16", "f16", "w8a16", "w8a8", "w4a16"};
    struct rig r;
    struct one o;
    char program[32], weights[32], inputs[32];
    struct policy p;
    struct error err = {0};
    snprintf(program, sizeof program, "in_%s.hlo.pb", type);
    snprintf(weights, sizeof weights, "%s.safetensors", type);
    snprintf(inputs, sizeof inputs, "%s.npz", type);
    REQUIRE(rig_open(&r, pjrt_test_plugin(false), 1));
    REQUIRE(one_open(&o, stacked(program), stacked(weights), stacked(inputs)));
    CHECK_INT(exported_check_policies(&o.e, &err), 0);
    CHECK_STR(dtype_name(module_own_type(&o.e.module)), type);
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        check_typed(&r, &o, type, policies[i]);
        if (policies[i] && policy_parse(&p, policies[i], &err) == 0)
            CHECK_INT(module_keeps_types(&o.e.module, &p), strcmp(policies[i], type) == 0);
    }
    one_close(&o);
    rig_close(&r);
}

TEST(lab_stacked_plugin_program_in_bf16)
{
    compare_type("bf16");
}

TEST(lab_stacked_plugin_program_in_f16)
{
    compare_type("f16");
}

TEST(lab_stacked_plugin_program_in_f64)
{
    compare_type("f64");
}

// ---- Static scales from other cases

// numpy's ranges are those of f64, as the program's are, rounded to f32.
TEST(lab_stacked_plugin_calibrates_with_cases)
{
    struct workload w;
    struct ranges r;
    struct subject s;
    struct policy p, most;
    struct policy *const both[] = {&p, &most};
    struct error err = {0};
    double got[LOGITS], *want = typed("f64", "w8a8-static"), *exact = typed("f64", "f64");
    struct workload_options o = {
        .directory = stacked("in_f64.hlo.pb"), .weights = stacked("f64.safetensors"), .inputs = stacked("f64.npz")};
    struct worker_options worker = {.device = "cpu", .plugin_path = pjrt_test_plugin(false)};
    REQUIRE(want && exact);
    REQUIRE_OK(workload_open(&w, &o, &err), &err);
    CHECK_INT(ranges_open(&r, &w, o.inputs, &err), ERR_INPUT);
    CHECK(strstr(err.message, "what calibrates must not be what is scored") && strstr(err.where, "f64.npz, case 0"));
    error_clear(&err);
    REQUIRE_OK(policy_parse(&p, "w8a8-static", &err), &err);
    REQUIRE_OK(policy_parse(&most, "w=int8,a=int8/tensor:static:p90", &err), &err);
    REQUIRE_OK(ranges_open(&r, &w, stacked("f64_calibrate.npz"), &err), &err);
    CHECK_INT(r.workload.program->n_cases, 3);
    CHECK_INT(split_count(&r.split, SPLIT_CALIBRATE), 3);
    const struct module *m = &w.program->module;
    REQUIRE_OK(ranges_measure(&r, m, &worker, both, 2, NULL, &w.arena, &err), &err);
    REQUIRE(p.n_ranges == 11 && most.n_ranges == 11); // ten of the layer, one of the head
    for (int i = 0; i < p.n_ranges; i++) {
        CHECK(most.ranges[i].high < fmaxf(p.ranges[i].high, -p.ranges[i].low) && most.ranges[i].high > 0);
        CHECK_INT(r.elements[i], (int64_t)r.activations[i].rows * r.activations[i].columns * 3);
    }
    struct subject_options so = {.worker = worker, .module = m, .policy = &p, .label = "static"};
    REQUIRE_OK(subject_open(&s, &w, &so, &err), &err);
    REQUIRE_OK(subject_run_all(&s, &w, got, &err), &err);
    double apart = ir_rel_l2(got, want, LOGITS), error = ir_rel_l2(want, exact, LOGITS);
    if (!CHECK(apart <= 0.1 * error)) // few codes flip
        printf("  apart %g, the policy's error %g\n", apart, error);
    subject_close(&s);
    ranges_close(&r);
    workload_close(&w);
    free(want);
    free(exact);
}
