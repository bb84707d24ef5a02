// SPDX-License-Identifier: Apache-2.0
// Every operation of the table, built, printed, compiled and run, against tests/fixtures/ir/ops.json, which
// tests/oracle/ir_ops.py made with numpy.
#include <stdlib.h>

#include "ir_cases.h"

// Some cases in one program, a result each.
struct bundle {
    struct arena arena;
    struct module module;
    const void **args;
    const json_t **cases;
    int n;
};

static bool bundle_build(struct bundle *u, const struct ir_fixture *f, struct error *err)
{
    struct builder b;
    arena_init(&u->arena);
    module_init(&u->module, &u->arena, "ops");
    builder_init(&b, &u->module);
    u->args = NULL;
    size_t cap = 0;
    for (int i = 0; i < u->n; i++) {
        const json_t *operands = json_object_get(u->cases[i], "operands");
        int x[1 + SHAPE_MAX_RANK * 2], n = (int)json_array_size(operands);
        builder_scope(&b, "ops", "%s", ir_case_text(u->cases[i], "name"));
        for (int k = 0; k < n; k++) {
            const void *bytes;
            struct shape s = ir_fixture_array(f, json_array_get(operands, (size_t)k), &bytes);
            x[k] = build_parameter(&b, ROLE_INPUT, "x", s, NULL);
            u->args = arena_grow(&u->arena, u->args, &cap, (size_t)u->module.n_parameters, sizeof *u->args, err);
            if (!u->args)
                return false;
            u->args[u->module.n_parameters - 1] = bytes;
        }
        const void *bytes;
        struct shape want = ir_fixture_array(f, json_object_get(u->cases[i], "want"), &bytes);
        int y = build_result(&b, "y", ir_case_build(&b, f, u->cases[i], x, n, want));
        if (y >= 0 && !shape_equal(builder_shape(&b, y), &want))
            test_check(false, __FILE__, __LINE__, ir_case_text(u->cases[i], "name"));
    }
    return builder_finish(&b, err) == 0;
}

// How far the result of a case is off, in ulps; prints what is beyond its tolerance.
static bool check_case(const struct ir_fixture *f, const json_t *c, const void *got, double *worst)
{
    const void *want;
    struct shape s = ir_fixture_array(f, json_object_get(c, "want"), &want);
    const json_t *ulp = json_object_get(c, "ulp");
    double allowed = json_number_value(ulp), absolute = json_number_value(json_object_get(c, "absolute"));
    size_t size = (size_t)dtype_bits(s.dtype) / 8;
    int bad = 0;
    *worst = 0;
    for (int64_t i = 0; i < shape_elements(&s); i++) {
        const uint8_t *a = (const uint8_t *)got + (size_t)i * size, *b = (const uint8_t *)want + (size_t)i * size;
        double x = ir_element(s.dtype, a, 0), y = ir_element(s.dtype, b, 0);
        double off = dtype_is_float(s.dtype) ? ir_ulps(s.dtype, a, b, 0) : 0;
        bool same = memcmp(a, b, size) == 0 || (dtype_is_float(s.dtype) && isnan(x) && isnan(y));
        bool near = ulp && (off <= allowed || fabs(x - y) <= absolute);
        if (!same && !(ulp && fabs(x - y) <= absolute))
            *worst = off > *worst ? off : *worst;
        if (!same && !near && bad++ < 3)
            printf("  %s: element %lld is %.17g, not %.17g (%g ulp)\n", ir_case_text(c, "name"), (long long)i, x, y,
                   off);
    }
    return bad == 0;
}

static int run_bundle(struct rig *r, const struct ir_fixture *f, struct bundle *u, double *worst)
{
    int bad = 0;
    struct program *p = ir_compile(r, &u->module);
    if (!p)
        return -1;
    void **outs = calloc((size_t)u->n, sizeof *outs);
    if (!outs || !ir_run(r, p, &u->module, u->args, outs))
        bad = u->n;
    for (int i = 0; i < u->n && bad < u->n; i++) {
        double off;
        bad += !check_case(f, u->cases[i], outs[i], &off);
        *worst = off > *worst ? off : *worst;
    }
    for (int i = 0; outs && i < u->n; i++)
        free(outs[i]);
    free(outs);
    program_free(p);
    return bad;
}

// All cases of an operation, in one program; one by one when that does not compile. What the plugin does not compile is
// appended to `refused` as "NAME ".
static void check_opcode(struct rig *r, const struct ir_fixture *f, enum opcode op, struct str *refused)
{
    const json_t *all = json_object_get(f->root, "cases");
    const json_t **cases = calloc(json_array_size(all), sizeof *cases);
    struct bundle u = {.cases = cases};
    struct error err = {0};
    double worst = 0;
    for (size_t i = 0; cases && i < json_array_size(all); i++) {
        const json_t *c = json_array_get(all, i);
        if (ir_case_opcode(ir_case_text(c, "op")) == op)
            u.cases[u.n++] = c;
    }
    if (!u.n && ir_case_in_programs(op)) {
        free(cases);
        return;
    }
    if (!CHECK(u.n > 0))
        printf("  no case for %s\n", op_info(op)->name);
    REQUIRE_OK(bundle_build(&u, f, &err) ? 0 : ERR_INTERNAL, &err);
    int bad = run_bundle(r, f, &u, &worst), n = u.n;
    arena_release(&u.arena);
    for (int i = 0; i < n && bad < 0; i++) {
        u.cases = &cases[i];
        u.n = 1;
        REQUIRE_OK(bundle_build(&u, f, &err) ? 0 : ERR_INTERNAL, &err);
        int one = run_bundle(r, f, &u, &worst);
        if (one < 0)
            str_addf(refused, "%s ", ir_case_text(cases[i], "name"));
        CHECK(one <= 0);
        arena_release(&u.arena);
    }
    CHECK(bad <= 0);
    if (getenv("ASSAY_TEST_VERBOSE"))
        printf("  %s: %d cases, worst %g ulp\n", op_info(op)->name, n, worst);
    free(cases);
}

// The operations first..last on a plugin; the names of cases that it does not compile must be `lacking`.
static void check_range(bool old, enum opcode first, enum opcode last, const char *lacking)
{
    struct rig r;
    struct ir_fixture f;
    struct str refused;
    str_init(&refused);
    ir_fixture_open(&f, "ops");
    REQUIRE(rig_open(&r, pjrt_test_plugin(old), 1));
    for (int op = (int)first; op <= (int)last; op++)
        check_opcode(&r, &f, (enum opcode)op, &refused);
    CHECK_STR(str_text(&refused), lacking);
    rig_close(&r);
    ir_fixture_close(&f);
    str_release(&refused);
}

// The older plugin (PJRT API 0.81) lacks none of them.
TEST(ir_ops_plugin_unary)
{
    check_range(false, OP_PARAMETER, OP_TANH, "");
}
TEST(ir_ops_plugin_binary)
{
    check_range(false, OP_ADD, OP_CLAMP, "");
}
TEST(ir_ops_plugin_shapes)
{
    check_range(false, OP_CONVERT, OP_GATHER, "");
}
TEST(ir_ops_plugin_products)
{
    check_range(false, OP_DOT, OP_REDUCE, "");
}
TEST(ir_ops_old_plugin_unary)
{
    check_range(true, OP_PARAMETER, OP_TANH, "");
}
TEST(ir_ops_old_plugin_binary)
{
    check_range(true, OP_ADD, OP_CLAMP, "");
}
TEST(ir_ops_old_plugin_shapes)
{
    check_range(true, OP_CONVERT, OP_GATHER, "");
}
TEST(ir_ops_old_plugin_products)
{
    check_range(true, OP_DOT, OP_REDUCE, "");
}

// The same without a plugin: no operation is added to the table without a case, and no case names another.
TEST(ir_ops_have_cases)
{
    struct ir_fixture f;
    int cases[OP_COUNT + 1] = {0};
    ir_fixture_open(&f, "ops");
    const json_t *all = json_object_get(f.root, "cases");
    for (size_t i = 0; i < json_array_size(all); i++)
        cases[ir_case_opcode(ir_case_text(json_array_get(all, i), "op"))]++;
    for (int op = 0; op < OP_KERNEL; op++) {
        if (!CHECK((cases[op] > 0) != ir_case_in_programs((enum opcode)op)))
            printf("  no case for %s\n", op_info((enum opcode)op)->name);
    }
    CHECK_INT(cases[OP_COUNT], 0);
    ir_fixture_close(&f);
}

// What the strict extrema of every compile are for. When the first half fails the plugin has changed, and
// src/pjrt/compile.c need not switch them on any more.
TEST(ir_ops_plugin_loses_nan_without_strict_extrema)
{
    static const struct compile_override fast = {"xla_cpu_enable_fast_min_max", OVERRIDE_BOOL, .boolean = true};
    static const char maximum[] = "func.func public @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {\n"
                                  "  %0 = stablehlo.maximum %a, %b : tensor<f32>\n"
                                  "  return %0 : tensor<f32>\n"
                                  "}\n";
    struct rig r;
    REQUIRE(rig_open(&r, pjrt_test_plugin(false), 1));
    for (int strict = 0; strict < 2; strict++) {
        struct compile_options options = {.overrides = &fast, .override_count = (size_t)!strict};
        struct program *p = rig_compile(&r, maximum, &options);
        float one = 1, nan = NAN, y = 0;
        struct buffer *args[2] = {rig_upload(&r, 0, &one, DT_F32, 0, NULL), rig_upload(&r, 0, &nan, DT_F32, 0, NULL)};
        struct buffer *out;
        REQUIRE(p && args[0] && args[1]);
        REQUIRE_OK(program_execute(p, args, 2, &out, &r.err), &r.err);
        REQUIRE_OK(buffer_to_host(out, &y, sizeof y, &r.err), &r.err);
        CHECK(strict ? isnan(y) : y == 1);
        buffer_free(out);
        buffer_free(args[0]);
        buffer_free(args[1]);
        program_free(p);
    }
    rig_close(&r);
}
