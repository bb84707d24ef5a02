// SPDX-License-Identifier: Apache-2.0
// The policy pass on the real model's weights, against tests/fixtures/ir/policy.json, which tests/oracle/policy.py made
// with numpy: layer by layer on injected hidden states, and the end error of the whole model.
#include <stdlib.h>

#include "base/sha256.h"
#include "io/checkpoint.h"
#include "ir/bind.h"
#include "ir/policy.h"
#include "ir/retype.h"
#include "ir_test.h"
#include "models/bert.h"

struct lab {
    struct rig r;
    struct ir_fixture f;
    struct checkpoint c;
    struct bert bert;
};

static bool lab_open(struct lab *l)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/third_party/models/minilm", test_top());
    ir_fixture_open(&l->f, "policy");
    struct error err = {0};
    if (!rig_open(&l->r, pjrt_test_plugin(false), 1))
        return false;
    if (bert_open(&l->bert, path, &err) || checkpoint_open(&l->c, path, &err) || bert_bind(&l->bert, &l->c, &err)) {
        test_fail_error(__FILE__, __LINE__, path, err.where, err.message);
        return false;
    }
    return true;
}

static void lab_close(struct lab *l)
{
    checkpoint_close(&l->c);
    rig_close(&l->r);
    ir_fixture_close(&l->f);
}

static int64_t result_elements(const struct module *m, int i)
{
    return shape_elements(&m->instructions[m->results[i]].shape);
}

static double *result_doubles(const struct module *m, int i, const void *bytes)
{
    return ir_doubles(m->instructions[m->results[i]].shape.dtype, bytes, result_elements(m, i));
}

// The f64 result of a module, malloc'd; NULL after printing why not.
static double *run_reference(struct lab *l, const struct module *f32, struct arena *arena, const void *const *inputs)
{
    struct module m;
    void *out;
    module_init(&m, arena, "f64");
    if (!CHECK(module_retype_f64(f32, &m, &l->r.err) == 0) || !ir_run_bound(&l->r, &l->c, &m, inputs, &out))
        return NULL;
    return out;
}

// How near the plugin must come to numpy: `apart`, the relative L2 between the two results, and how much the size of
// their errors may differ. Both round at the same places. Sums in another order flip some of these roundings, and a
// flip is as large as the rounding's own error, but there are few of them. One rounding that is left out, or done where
// none should be, moves the result by half a unit of its type (2^-8 for bf16, 2^-11 for f16) or more.
struct nearness {
    double apart, error;
};
static struct nearness nearness_allowed(const struct policy *p, double expected_error)
{
    double unit = p->a == DT_F16 ? 0x1p-11 : 0x1p-8;
    if (p->op == DT_F32) // the order of the sums is all there is: two runs differ as much as each errs (measured 1.15)
        return (struct nearness){2 * expected_error, 1};
    if (dtype_is_integer(
            p->op)) // integer sums are exact: only a code of an activation may flip (measured 4e-6 of the error)
        return (struct nearness){0.01 * expected_error, 0.01};
    if (p->red != DT_F32 || p->norm != DT_F32)    // 16-bit sums round in every step, in an order of the device's own
        return (struct nearness){2 * unit, 0.12}; // (measured 1.6 and 0.075)
    return (struct nearness){0.25 * unit, 0.05};  // measured 0.17 at most, and 0.001
}

static void check_instrument(const struct module *from, const json_t *groups, const int32_t *counts,
                             const float *scales, const char *policy)
{
    const char *names[64];
    int n = module_groups(from, names, 64);
    for (int g = 0; g < n; g++) {
        const json_t *want = json_object_get(groups, names[g]);
        const json_t *list = json_object_get(want, "counts"), *range = json_object_get(want, "scales");
        for (size_t k = 0; k < 3; k++) {
            long long expected = json_integer_value(json_array_get(list, k));
            // A value within a rounding error of the threshold may fall on either side. Far below zero GELU is zero or
            // not by the last bit of erf, which is the library's own: counted as flushed, or not (33 values measured).
            bool tail = k == 2 && expected && strcmp(names[g], "MLP") == 0;
            long long slack = expected / 100 + (expected > 0) + (tail ? 40 : 0);
            if (!CHECK(llabs(counts[3 * g + (int)k] - expected) <= slack))
                printf("  %s: %s: count %zu is %d, not %lld\n", policy, names[g], k, counts[3 * g + (int)k], expected);
        }
        for (size_t k = 0; k < 2; k++) {
            const json_t *s = json_array_get(range, k);
            double expected = json_is_number(s) ? json_number_value(s) : k ? -INFINITY : INFINITY;
            // A scale is the largest of a row, which carries the error of f32 sums of up to 1536 terms.
            if (isinf(expected) ? !CHECK(scales[2 * g + (int)k] == expected)
                                : !CHECK(fabs(scales[2 * g + (int)k] - expected) <= 1e-3 * expected))
                printf("  %s: %s: scale %zu is %g, not %g\n", policy, names[g], k, (double)scales[2 * g + (int)k],
                       expected);
        }
    }
}

// Values clipped of each activation, without padding. A value within a rounding error of the threshold may fall on
// either side, and there are few.
static void check_clipped(const json_t *list, const int32_t *clipped, const char *policy)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        long long want = json_integer_value(json_array_get(list, i));
        if (!CHECK(llabs(clipped[i] - want) <= (want > 0)))
            printf("  %s: activation %zu: %d clipped, not %lld\n", policy, i, clipped[i], want);
    }
}

// Static scales are made from the ranges that numpy found, so that what is compared is what follows from them.
static void use_ranges(struct lab *l, struct policy *p, const json_t *ranges)
{
    const void *bytes;
    struct shape s = ir_fixture_array(&l->f, ranges, &bytes);
    p->ranges = bytes;
    p->n_ranges = (int)s.dims[0];
}

static void check_policy(struct lab *l, const struct module *f32, const json_t *one, const json_t *ranges,
                         const void *const *inputs, const double *reference)
{
    const char *text = json_string_value(json_object_get(one, "policy"));
    struct arena arena;
    struct module m;
    struct policy p;
    struct error err = {0};
    void *outs[4] = {0};
    const json_t *clipped = json_object_get(one, "clipped");
    arena_init(&arena);
    module_init(&m, &arena, text);
    REQUIRE_OK(policy_parse(&p, text, &err), &err);
    use_ranges(l, &p, ranges);
    REQUIRE_OK(module_apply_policy(f32, &p, true, &m, &err), &err);
    REQUIRE(m.n_results == (json_array_size(clipped) ? 4 : 3));
    REQUIRE(ir_run_bound(&l->r, &l->c, &m, inputs, outs));
    const void *bytes;
    struct shape s = ir_fixture_array(&l->f, json_object_get(one, "output"), &bytes);
    int64_t n = shape_elements(&s);
    REQUIRE(n == result_elements(&m, 0));
    double *got = result_doubles(&m, 0, outs[0]), *want = ir_doubles(s.dtype, bytes, n);
    double apart = ir_rel_l2(got, want, n), error = ir_rel_l2(got, reference, n);
    double expected = json_number_value(json_object_get(one, "rel_l2"));
    if (getenv("ASSAY_TEST_VERBOSE"))
        printf("  %-40s error %.4e, numpy's %.4e, apart %.4e = %.3f of it\n", text, error, expected, apart,
               apart / expected);
    struct nearness allowed = nearness_allowed(&p, expected);
    if (!CHECK(apart <= allowed.apart) || !CHECK(fabs(error / expected - 1) <= allowed.error))
        printf("  %s: error %g, numpy's %g, apart %g\n", text, error, expected, apart);
    check_instrument(f32, json_object_get(one, "groups"), outs[1], outs[2], text);
    check_clipped(clipped, outs[3], text);
    free(got);
    free(want);
    for (int i = 0; i < 4; i++)
        free(outs[i]);
    arena_release(&arena);
}

// The ranges of the activations, with one text of two left out by the mask: numpy's, but for the order of f32 sums.
static void check_calibration(struct lab *l, const struct module *f32, const json_t *one, const void *hidden)
{
    struct arena arena;
    struct module m;
    const void *inputs[2] = {hidden, NULL}, *bytes;
    void *out;
    arena_init(&arena);
    module_init(&m, &arena, "calibration");
    ir_fixture_array(&l->f, json_object_get(one, "calibration_mask"), &inputs[1]);
    struct shape s = ir_fixture_array(&l->f, json_object_get(one, "ranges"), &bytes);
    const float *want = bytes;
    REQUIRE_OK(module_calibration(f32, 0, &m, &l->r.err), &l->r.err);
    REQUIRE(m.n_results == 1 && ir_run_bound(&l->r, &l->c, &m, inputs, &out));
    REQUIRE(module_activations(f32, NULL, 0) == s.dims[0]);
    const float *got = out;
    for (int64_t i = 0; i < 2 * s.dims[0]; i++)
        CHECK_NEAR((double)got[i], (double)want[i], 1e-5 * fabs((double)want[i])); // f32 sums of up to 1536 terms
    free(out);
    arena_release(&arena);
}

static void check_layer(struct lab *l, size_t which)
{
    const json_t *one = json_array_get(json_object_get(l->f.root, "layers"), which);
    int layer = (int)json_integer_value(json_object_get(one, "layer"));
    struct arena arena;
    struct module f32;
    struct error err = {0};
    const void *inputs[2], *rows;
    arena_init(&arena);
    module_init(&f32, &arena, "layer");
    struct shape s = ir_fixture_array(&l->f, json_object_get(one, "hidden"), &inputs[0]);
    ir_fixture_array(&l->f, json_object_get(l->f.root, "attention_mask"), &inputs[1]);
    struct bert_build how = {.batch = s.dims[0], .seq = s.dims[1], .first_layer = layer, .last_layer = layer};
    REQUIRE_OK(bert_module(&l->bert, &how, &f32, &err), &err);
    double *reference = run_reference(l, &f32, &arena, inputs);
    REQUIRE(reference);
    // f64 against f64: sums of up to 1536 terms in another order.
    struct shape few = ir_fixture_array(&l->f, json_object_get(one, "f64_rows"), &rows);
    for (int64_t b = 0; b < few.dims[0]; b++) {
        int64_t n = few.dims[1] * few.dims[2];
        double off = ir_rel_l2(reference + b * s.dims[1] * s.dims[2], (const double *)rows + b * n, n);
        CHECK_NEAR(off, 0, 1e-14);
    }
    const json_t *policies = json_object_get(one, "policies");
    for (size_t i = 0; i < json_array_size(policies); i++)
        check_policy(l, &f32, json_array_get(policies, i), json_object_get(one, "ranges"), inputs, reference);
    check_calibration(l, &f32, one, inputs[0]);
    free(reference);
    arena_release(&arena);
}

TEST(ir_policy_plugin_layer_0)
{
    struct lab l;
    REQUIRE(lab_open(&l));
    check_layer(&l, 0);
    lab_close(&l);
}

TEST(ir_policy_plugin_layer_3)
{
    struct lab l;
    REQUIRE(lab_open(&l));
    check_layer(&l, 1);
    lab_close(&l);
}

// One layer under a policy, in f64; NULL after printing why not.
static double *run_layer(struct lab *l, const struct module *f32, const char *text, bool emulate,
                         const void *const *inputs, int64_t *n)
{
    struct arena arena;
    struct module m;
    struct policy p;
    void *out;
    double *y = NULL;
    arena_init(&arena);
    module_init(&m, &arena, text);
    if (CHECK(policy_parse(&p, text, &l->r.err) == 0)) {
        p.emulate = emulate;
        if (CHECK(module_apply_policy(f32, &p, false, &m, &l->r.err) == 0) &&
            ir_run_bound(&l->r, &l->c, &m, inputs, &out)) {
            *n = result_elements(&m, 0);
            y = result_doubles(&m, 0, out);
            free(out);
        }
    }
    arena_release(&arena);
    return y;
}

// Emulated products have the same values: integers to the bit, floats but for the order of f32 sums, which may flip the
// roundings behind them.
TEST(ir_policy_plugin_emulates)
{
    static const struct {
        const char *policy;
        double apart;
    } cases[] = {
        {"w=int8,a=uint8/row", 0},
        {"w=int8,a=uint8/tensor", 0},
        {"w=int8,a=int16/row", 0},
        {"fp8", 0x1p-9}, // an activation's code has 4 bits; few are flipped (measured 2.7e-5)
        {"w=f8e5m2,a=f8e5m2", 0x1p-8},
        {"f16", 0x1p-11}, // one unit of f16 (measured 3e-5)
    };
    struct lab l;
    struct arena arena;
    struct module f32;
    const void *inputs[2];
    REQUIRE(lab_open(&l));
    const json_t *one = json_array_get(json_object_get(l.f.root, "layers"), 0);
    struct shape s = ir_fixture_array(&l.f, json_object_get(one, "hidden"), &inputs[0]);
    ir_fixture_array(&l.f, json_object_get(l.f.root, "attention_mask"), &inputs[1]);
    arena_init(&arena);
    module_init(&f32, &arena, "layer");
    struct bert_build how = {.batch = s.dims[0], .seq = s.dims[1], .first_layer = 0, .last_layer = 0};
    REQUIRE_OK(bert_module(&l.bert, &how, &f32, &l.r.err), &l.r.err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t n = 0;
        double *direct = run_layer(&l, &f32, cases[i].policy, false, inputs, &n);
        double *emulated = run_layer(&l, &f32, cases[i].policy, true, inputs, &n);
        REQUIRE(direct && emulated);
        double apart = ir_rel_l2(emulated, direct, n);
        if (getenv("ASSAY_TEST_VERBOSE"))
            printf("  %s: %g\n", cases[i].policy, apart);
        if (!CHECK(apart <= cases[i].apart))
            printf("  %s: %g\n", cases[i].policy, apart);
        free(direct);
        free(emulated);
    }
    arena_release(&arena);
    lab_close(&l);
}

// The largest codes there are, more of them than 32 bits can sum: y = sum of 1 * 1 is the number of columns. As few as
// the last of the columns make one block more than int32 holds.
TEST(ir_policy_plugin_sums_do_not_overflow)
{
    static const struct {
        const char *policy;
        int64_t columns;
        bool emulate;
    } cases[] = {
        {"w8a8", 133144, false},
        {"w8a8", 133145, false},
        {"w=int8,a=uint8/row", 66312, false},
        {"w=int8,a=uint8/row", 140000, true},
        {"w=int8,a=int16/row", 516, false},
        {"w=int8,a=int16/row", 517, false},
        {"w=int8,a=int16/row", 1536, false},
        {"w=int8,a=int16/tensor", 140000, true},
    };
    struct rig r;
    REQUIRE(rig_open(&r, pjrt_test_plugin(false), 1));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena;
        struct module f32, m;
        struct builder b;
        struct policy p;
        int64_t k = cases[i].columns;
        void *out = NULL;
        arena_init(&arena);
        module_init(&f32, &arena, "f32");
        builder_init(&b, &f32);
        int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(DT_F32, 2, k), NULL);
        build_result(&b, "y", build_linear(&b, x, build_weight(&b, "w", SHAPE(DT_F32, 3, k)), DT_F32));
        REQUIRE_OK(builder_finish(&b, &r.err), &r.err);
        REQUIRE_OK(policy_parse(&p, cases[i].policy, &r.err), &r.err);
        p.emulate = cases[i].emulate;
        module_init(&m, &arena, "m");
        REQUIRE_OK(module_apply_policy(&f32, &p, false, &m, &r.err), &r.err);
        float *ones = arena_new(&arena, float, 2 * k, NULL), scales[3] = {1.0f / 127, 1.0f / 127, 1.0f / 127};
        int8_t *codes = arena_new(&arena, int8_t, 3 * k, NULL);
        REQUIRE(ones && codes);
        for (int64_t n = 0; n < 2 * k; n++)
            ones[n] = 1;
        memset(codes, 127, (size_t)(3 * k));
        struct program *program = ir_compile(&r, &m);
        REQUIRE(program && ir_run(&r, program, &m, (const void *const[]){ones, codes, scales}, &out));
        for (int n = 0; n < 6; n++) // the scale of x and that of w are rounded, and so is each product with one
            CHECK_NEAR((double)((const float *)out)[n], (double)k, (double)k * 0x1p-22);
        free(out);
        program_free(program);
        arena_release(&arena);
    }
    rig_close(&r);
}

// The whole model end to end. Two honest runs differ as much as their error, so the error's size is what is compared.
TEST(ir_policy_plugin_whole_model)
{
    struct lab l;
    struct arena arena;
    struct module f32;
    struct error err = {0};
    const void *inputs[2], *want;
    REQUIRE(lab_open(&l));
    const json_t *whole = json_object_get(l.f.root, "whole");
    arena_init(&arena);
    module_init(&f32, &arena, "whole");
    struct shape s = ir_fixture_array(&l.f, json_object_get(whole, "input_ids"), &inputs[0]);
    ir_fixture_array(&l.f, json_object_get(whole, "attention_mask"), &inputs[1]);
    struct bert_build how = {.batch = s.dims[0], .seq = s.dims[1], .first_layer = -1};
    REQUIRE_OK(bert_module(&l.bert, &how, &f32, &err), &err);
    double *reference = run_reference(&l, &f32, &arena, inputs);
    REQUIRE(reference);
    struct shape e = ir_fixture_array(&l.f, json_object_get(whole, "f64"), &want);
    int64_t n = shape_elements(&e);
    CHECK_NEAR(ir_rel_l2(reference, want, n), 0, 1e-13); // six layers of sums in f64 in another order
    const json_t *policies = json_object_get(whole, "policies");
    for (size_t i = 0; i < json_array_size(policies); i++) {
        const json_t *one = json_array_get(policies, i);
        const char *text = json_string_value(json_object_get(one, "policy"));
        double expected = json_number_value(json_object_get(one, "rel_l2"));
        struct module m;
        struct policy p;
        void *out;
        module_init(&m, &arena, text);
        REQUIRE_OK(policy_parse(&p, text, &err), &err);
        use_ranges(&l, &p, json_object_get(whole, "ranges"));
        REQUIRE_OK(module_apply_policy(&f32, &p, false, &m, &err), &err);
        REQUIRE(ir_run_bound(&l.r, &l.c, &m, inputs, &out));
        double *got = result_doubles(&m, 0, out), error = ir_rel_l2(got, reference, n);
        // In f32 the error is that of the sums' order, which is the library's own.
        if (!(p.op == DT_F32 ? CHECK(error < 2e-6) : CHECK(fabs(error / expected - 1) <= 0.05)))
            printf("  %s: error %g, numpy's %g\n", text, error, expected);
        if (getenv("ASSAY_TEST_VERBOSE"))
            printf("  %-8s error %.4e, numpy's %.4e\n", text, error, expected);
        free(got);
        free(out);
    }
    free(reference);
    arena_release(&arena);
    lab_close(&l);
}

// The bytes that weights are stored in are numpy's, to the bit: values, codes (packed for int4) and scales.
TEST(ir_bind_stores_what_numpy_stores)
{
    struct ir_fixture f;
    struct checkpoint c;
    struct bert bert;
    struct error err = {0};
    char path[1024];
    snprintf(path, sizeof path, "%s/third_party/models/minilm", test_top());
    ir_fixture_open(&f, "policy");
    REQUIRE_OK(checkpoint_open(&c, path, &err), &err);
    bert_minilm(&bert);
    struct arena arena;
    struct module f32;
    arena_init(&arena);
    module_init(&f32, &arena, "f32");
    REQUIRE_OK(bert_module(&bert, &(struct bert_build){.batch = 1, .seq = 8, .first_layer = -1}, &f32, &err), &err);
    const json_t *all = json_object_get(f.root, "stored");
    const char *before = "";
    struct module m;
    CHECK(json_array_size(all) > 40);
    for (size_t i = 0; i < json_array_size(all); i++) {
        static const char *const parts[] = {"values", "codes", "scales"};
        const char *field[4];
        for (size_t k = 0; k < 4; k++)
            field[k] = json_string_value(json_array_get(json_array_get(all, i), k));
        if (strcmp(before, field[0]) != 0) {
            struct policy p;
            module_init(&m, &arena, field[0]);
            REQUIRE_OK(policy_parse(&p, field[0], &err), &err);
            REQUIRE_OK(module_apply_policy(&f32, &p, false, &m, &err), &err);
            REQUIRE_OK(bind_check(&m, &c, &err), &err);
            before = field[0];
        }
        int found = -1;
        for (int k = 0; k < m.n_parameters; k++) {
            const struct binding *b = &m.parameters[k].binding;
            if (b->n_sources && strcmp(b->sources[0], field[1]) == 0 && strcmp(parts[b->part], field[2]) == 0)
                found = k;
        }
        REQUIRE(found >= 0);
        size_t bytes = (size_t)shape_bytes(&m.instructions[m.parameters[found].instruction].shape);
        void *stored = malloc(bytes);
        char hex[65];
        REQUIRE_OK(bind_make(&m, &c, found, stored, NULL, &err), &err);
        REQUIRE_OK(sha256_bytes(stored, bytes, hex, &err), &err);
        if (!CHECK(strcmp(hex, field[3]) == 0))
            printf("  %s: %s: %s\n", field[0], field[1], field[2]);
        free(stored);
    }
    arena_release(&arena);
    checkpoint_close(&c);
    ir_fixture_close(&f);
}
