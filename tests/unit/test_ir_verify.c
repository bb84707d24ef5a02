// SPDX-License-Identifier: Apache-2.0
// The verifier on modules that were damaged, and the printed text.
#include <stdlib.h>

#include "ir/cost.h"
#include "ir/policy.h"
#include "ir/retype.h"
#include "ir_test.h"

#define D(...) ((const int64_t[]){__VA_ARGS__})
#define N(...) ((const int[]){__VA_ARGS__})

// A small module with an operation of every class; `at` names the instructions that are damaged below.
struct sample {
    struct arena arena;
    struct module m;
    int constant, iota, add, compare, broadcast, transpose, slice, concatenate, pad, reverse, dynamic, update, gather,
        dot, reduce, reshape, convert;
};

static void sample_open(struct sample *t)
{
    struct builder b;
    arena_init(&t->arena);
    module_init(&t->m, &t->arena, "sample");
    builder_init(&b, &t->m);
    int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(DT_F32, 2, 3), NULL);
    int k = build_parameter(&b, ROLE_INPUT, "k", SHAPE(DT_S32), NULL);
    int w = build_weight(&b, "w", SHAPE(DT_F32, 4, 3));
    builder_scope(&b, "first", "scope.%d", 1);
    t->constant = build_dense(&b, SHAPE(DT_F32, 2, 3), (const double[]){1, 2, 3, 4, 5, 6});
    t->iota = build_iota(&b, SHAPE(DT_S32, 2, 3), 1);
    t->add = build_binary(&b, OP_ADD, x, t->constant);
    t->compare = build_compare(&b, CMP_GT, t->add, x);
    int selected = build_select(&b, t->compare, x, build_convert(&b, t->iota, DT_F32));
    t->broadcast = build_broadcast(&b, build_splat(&b, SHAPE(DT_F32), 2), SHAPE(DT_F32, 2, 3), NULL);
    t->transpose = build_transpose(&b, build_binary(&b, OP_MULTIPLY, selected, t->broadcast), N(1, 0));
    t->slice = build_slice(&b, t->transpose, D(0, 0), D(3, 2), D(2, 1));
    t->concatenate = build_concatenate(&b, N(t->slice, t->slice), 2, 1);
    t->pad = build_pad(&b, t->concatenate, build_splat(&b, SHAPE(DT_F32), 0), D(0, 1), D(1, -2), D(1, 0));
    t->reverse = build_reverse(&b, t->pad, N(0), 1);
    builder_scope(&b, "second", "scope.%d", 2);
    t->dynamic = build_dynamic_slice(&b, t->reverse, N(k, k), D(2, 3));
    t->update = build_dynamic_update_slice(&b, x, t->dynamic, N(k, k));
    t->gather = build_gather(&b, w, t->iota);
    t->dot = build_linear(&b, t->update, w, DT_F32);
    t->reduce = build_reduce(&b, OP_MAXIMUM, t->gather, N(0, 1), 2);
    t->reshape = build_reshape(&b, t->dot, 1, D(8));
    t->convert = build_convert(&b, t->reshape, DT_BF16);
    build_result(&b, "y", t->convert);
    build_result(&b, "z", t->reduce);
    struct error err = {0};
    REQUIRE_OK(builder_finish(&b, &err), &err);
}

static void check_damage(struct sample *t, const char *reason, int line)
{
    struct error err = {0}, again = {0};
    struct str text;
    str_init(&text);
    int rc = module_verify(&t->m, &err);
    test_check(rc == ERR_INTERNAL || rc == ERR_INPUT, __FILE__, line, "the verifier refuses it");
    if (!strstr(err.message, reason)) {
        test_check(false, __FILE__, line, reason);
        printf("    in \"%s: %s\"\n", err.where, err.message);
    }
    test_check_int(module_print(&t->m, &text, &again), rc, __FILE__, line, "the printer's result");
    test_check_str(again.message, err.message, __FILE__, line, "the printer's error");
    test_check(text.length == 0, __FILE__, line, "nothing is printed");
    str_release(&text);
    arena_release(&t->arena);
}

// `damage` is a statement about t (the sample) and in(NAME) (its instruction).
#define in(which) t.m.instructions[t.which]
#define DAMAGED(reason, damage)                                                                                        \
    do {                                                                                                               \
        struct sample t;                                                                                               \
        sample_open(&t);                                                                                               \
        damage;                                                                                                        \
        check_damage(&t, reason, __LINE__);                                                                            \
    } while (0)

TEST(ir_verify_rejects_structure)
{
    DAMAGED("does not come before it", in(add).operands[0] = t.add);
    DAMAGED("does not come before it", in(add).operands[1] = t.m.n_instructions);
    DAMAGED("does not come before it", in(add).operands[1] = -1);
    DAMAGED("does not come before it", in(add).operands[1] = t.convert);
    DAMAGED("is malformed", in(add).op = OP_COUNT);
    DAMAGED("is malformed", in(add).op = (enum opcode) - 1);
    DAMAGED("is malformed", in(add).n_operands = -1);
    DAMAGED("is malformed", in(add).n_operands = OP_MAX_OPERANDS + 1);
    DAMAGED("is malformed", in(add).operands = NULL);
    DAMAGED("is malformed", in(add).scope = NULL);
    DAMAGED("is malformed", in(add).group = NULL);
    DAMAGED("is malformed", in(add).domain = (enum domain)3);
    DAMAGED("has 1 operands", in(add).n_operands = 1);
    DAMAGED("another shape than its operands give", in(add).shape.dims[0] = 3);
    DAMAGED("another shape than its operands give", in(add).shape.dtype = DT_F16);
    DAMAGED("another shape than its operands give", in(reduce).shape.rank = 0);
    DAMAGED("another shape than its operands give", in(compare).shape.dtype = DT_F32);
    DAMAGED("another shape than its operands give", in(dot).shape.rank = 9);
    DAMAGED("rank 9", in(reshape).shape.rank = 9);
    DAMAGED("rank -1", in(constant).shape.rank = -1);
    DAMAGED("has no element type", in(iota).shape.dtype = DT_COUNT);
    DAMAGED("is negative", in(broadcast).shape.dims[1] = -3);
    DAMAGED("more bytes than can be counted", in(reshape).shape.dims[0] = INT64_MAX);
    DAMAGED("do not name each other", t.m.instructions[0].parameter = 1);
    DAMAGED("do not name each other", t.m.instructions[0].parameter = 77);
    DAMAGED("do not name each other", t.m.parameters[1].instruction = 0);
    DAMAGED("do not name each other", in(iota).op = OP_PARAMETER);
    DAMAGED("parameter 1 is malformed", t.m.parameters[1].name = NULL);
    DAMAGED("parameter 1 is malformed", t.m.parameters[1].role = (enum param_role)7);
    DAMAGED("a weight has a binding", t.m.parameters[0].role = ROLE_WEIGHT);
    DAMAGED("a weight has a binding", t.m.parameters[2].role = ROLE_INPUT);
    DAMAGED("a weight has a binding", t.m.parameters[2].binding.n_sources = 5);
    DAMAGED("source 0 has no name", t.m.parameters[2].binding.sources[0] = NULL);
    DAMAGED("does not fit the parameter's type", t.m.parameters[2].binding.store = DT_BF16);
    DAMAGED("does not fit the parameter's type", t.m.parameters[2].binding.part = (enum bind_part)3);
    DAMAGED("the module returns nothing", t.m.n_results = 0);
    DAMAGED("result 1 does not exist", t.m.results[1] = t.m.n_instructions);
    DAMAGED("result 0 does not exist", t.m.results[0] = -1);
    DAMAGED("result 0 does not exist", t.m.result_names[0] = NULL);
}

TEST(ir_verify_rejects_attributes)
{
    DAMAGED("has no value", in(constant).dense = NULL);
    DAMAGED("has no value", in(constant).constant = (enum constant_kind)9);
    DAMAGED("is no value of s8",
            (in(constant).shape.dtype = DT_S8, ((double *)(uintptr_t)in(constant).dense)[1] = 128));
    DAMAGED("has no dimension 2", in(iota).axis = 2);
    DAMAGED("has no dimension -1", in(concatenate).axis = -1);
    DAMAGED("direction", in(compare).compare = (enum compare_direction) - 1);
    DAMAGED("maps 9 dimensions", in(broadcast).n_a = 9);
    DAMAGED("permutes 1 of 2", in(transpose).n_a = 1);
    DAMAGED("is not a permutation", in(transpose).a[0] = 0);
    DAMAGED("cuts 1000 of 2", in(slice).n_a = 1000);
    DAMAGED("is outside extent", in(slice).c[1] = 0);
    DAMAGED("is outside extent", in(slice).b[0] = INT64_MAX);
    DAMAGED("pads -1 of 2", in(pad).n_a = -1);
    DAMAGED("longer than can be counted", in(pad).c[0] = INT64_MAX);
    DAMAGED("names -2 dimensions", in(reverse).n_a = -2);
    DAMAGED("names 3 dimensions", in(reverse).n_a = 3);
    DAMAGED("out of range or repeated", in(reverse).a[0] = 2);
    DAMAGED("has sizes for 8 of 2", in(dynamic).n_a = 8);
    DAMAGED("size 9 is larger", in(dynamic).a[1] = 9);
    DAMAGED("takes rows of a tensor by integer indices", in(gather).operands[1] = t.add);
    DAMAGED("has 0 batch and 99 contracted", in(dot).dot.n_contract = 99);
    DAMAGED("has -5 batch", in(dot).dot.n_batch = -5);
    DAMAGED("out of range or repeated", in(dot).dot.lhs_contract[0] = 40);
    DAMAGED("precision", in(dot).dot.precision = (enum dot_precision)3);
    DAMAGED("cannot reduce f32 by", in(reduce).reducer = OP_DOT);
    DAMAGED("cannot reduce f32 by", in(reduce).reducer = (enum opcode) - 3);
    DAMAGED("names 9 dimensions", in(reduce).n_a = 9);
    DAMAGED("out of range or repeated", in(reduce).a[1] = 0);
    DAMAGED("do not become", in(reshape).shape.dims[0] = 9);
    DAMAGED("cannot change f32 to f64", in(reshape).shape.dtype = DT_F64);
    DAMAGED("cannot change the dimensions", in(convert).shape.dims[0] = 9);
}

// A generator of its own, so that the modules are the same everywhere.
static uint64_t draw(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15;
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static int64_t draw_extent(uint64_t *state)
{
    static const int64_t odd[] = {-1, 0, 1, 2, 3, 4, 6, 7, 8, 9, 64, INT32_MAX, INT64_MAX, INT64_MIN, -3, 12};
    return odd[draw(state) % 16];
}

// Changes one field of one instruction, parameter or result. Pointers stay what they are, or become NULL.
static void mutate(struct module *m, uint64_t *state)
{
    struct instruction *x = &m->instructions[draw(state) % (uint64_t)m->n_instructions];
    int64_t v = draw_extent(state);
    int small = (int)(draw(state) % 11) - 1;
    uint64_t at = draw(state) % SHAPE_MAX_RANK;
    switch (draw(state) % 24) {
    case 0:
        x->op = (enum opcode)(draw(state) % (OP_COUNT + 2));
        break;
    case 1:
        x->shape.dtype = (enum dtype)(draw(state) % (DT_COUNT + 2));
        break;
    case 2:
        x->shape.rank = small;
        break;
    case 3:
        x->shape.dims[at] = v;
        break;
    case 4: // never more than were allocated
        x->n_operands = (int)(draw(state) % (uint64_t)(x->n_operands + 1)) - (v < 0);
        break;
    case 5:
        if (x->n_operands > 0)
            x->operands[at % (uint64_t)x->n_operands] = (int)(draw(state) % (uint64_t)(m->n_instructions + 2)) - 1;
        break;
    case 6:
        x->a[at] = v;
        break;
    case 7:
        x->b[at] = v;
        break;
    case 8:
        x->c[at] = v;
        break;
    case 9:
        x->n_a = small;
        break;
    case 10:
        x->axis = v;
        break;
    case 11:
        x->reducer = (enum opcode)(draw(state) % (OP_COUNT + 2));
        break;
    case 12:
        x->compare = (enum compare_direction)small;
        break;
    case 13:
        x->dot.n_batch = small;
        break;
    case 14:
        x->dot.n_contract = small;
        break;
    case 15:
        x->dot.lhs_contract[at] = x->dot.lhs_batch[at] = small;
        break;
    case 16:
        x->dot.rhs_contract[at] = x->dot.rhs_batch[at] = small;
        break;
    case 17:
        x->constant = (enum constant_kind)small;
        break;
    case 18:
        x->splat = (double)v;
        break;
    case 19:
        x->parameter = small;
        break;
    case 20:
        m->results[draw(state) % (uint64_t)m->n_results] = (int)(draw(state) % (uint64_t)(m->n_instructions + 2)) - 1;
        break;
    case 21:
        m->parameters[draw(state) % (uint64_t)m->n_parameters].instruction = small;
        break;
    case 22:
        x->dense = x->op == OP_CONSTANT && v < 0 ? NULL : x->dense;
        break;
    default:
        x->flags = (unsigned)small & 3;
        x->domain = (enum domain)(draw(state) % 4);
        break;
    }
}

// A dense constant whose shape grew would be read past its values: only the extents say how many there are.
static bool dense_grew(const struct module *was, const struct module *m)
{
    for (int i = 0; i < m->n_instructions; i++) {
        const struct instruction *x = &m->instructions[i], *y = &was->instructions[i];
        bool dense = x->op == OP_CONSTANT && x->constant == CONST_DENSE;
        if (dense && (y->constant != CONST_DENSE || y->op != OP_CONSTANT || !shape_same_dims(&x->shape, &y->shape)))
            return true;
    }
    return false;
}

// Every pass over a module that verifies; none may fail in another way than by an error.
static void use(const struct module *m)
{
    struct arena arena;
    struct module other;
    struct cost_row *rows;
    struct cost total;
    struct policy policy;
    struct str text;
    int n;
    struct error err = {0};
    str_init(&text);
    CHECK_INT(module_print(m, &text, &err), 0);
    CHECK(text.length > 0);
    str_release(&text);
    arena_init(&arena);
    CHECK_INT(cost_groups(m, &arena, &rows, &n, &total, &err), 0);
    module_init(&other, &arena, "f64");
    if (module_retype_f64(m, &other, &err) == 0)
        CHECK_INT(module_verify(&other, &err), 0);
    error_clear(&err);
    CHECK_INT(policy_parse(&policy, "w4a16", &err), 0);
    policy.w_group = 1;
    module_init(&other, &arena, "w4a16");
    if (module_apply_policy(m, &policy, true, &other, &err) == 0)
        CHECK_INT(module_verify(&other, &err), 0);
    arena_release(&arena);
}

static bool prints_the_same(const struct module *a, const struct module *b)
{
    struct str x, y;
    str_init(&x);
    str_init(&y);
    module_print(a, &x, NULL);
    module_print(b, &y, NULL);
    bool same = strcmp(str_text(&x), str_text(&y)) == 0;
    str_release(&x);
    str_release(&y);
    return same;
}

// Walks `count` modules that are each one or more random changes away from the sample, with what verifies and is
// another program to `then`.
static int mutants(uint64_t seed, int count, void (*then)(const struct module *m, void *context), void *context)
{
    int verified = 0;
    for (int i = 0; i < count; i++) {
        struct sample t, was;
        struct error err = {0};
        uint64_t state = seed + (uint64_t)i * 0x632be59bd9b4e019;
        sample_open(&t);
        sample_open(&was);
        for (uint64_t k = draw(&state) % 4; k < 4; k++)
            mutate(&t.m, &state);
        if (!dense_grew(&was.m, &t.m) && module_verify(&t.m, &err) == 0 && !prints_the_same(&t.m, &was.m)) {
            verified++;
            then(&t.m, context);
        }
        arena_release(&t.arena);
        arena_release(&was.arena);
    }
    return verified;
}

static void use_mutant(const struct module *m, void *context)
{
    (void)context;
    use(m);
}

TEST(ir_verify_survives_random_damage)
{
    int count = 20000, verified = mutants(1, count, use_mutant, NULL);
    CHECK(verified > count / 50 && verified < count / 2); // some changes make another valid module, most do not
}

static void compile_mutant(const struct module *m, void *context)
{
    struct rig *r = context;
    struct program *p = ir_compile(r, m);
    if (!CHECK(p)) {
        struct str text;
        str_init(&text);
        module_print(m, &text, NULL);
        printf("  %s\n%s\n", r->err.message, str_text(&text));
        str_release(&text);
    }
    program_free(p);
}

// What verifies, compiles.
TEST(ir_verify_plugin_takes_what_verifies)
{
    struct rig r;
    REQUIRE(rig_open(&r, pjrt_test_plugin(false), 1));
    CHECK(mutants(2, 1000, compile_mutant, &r) > 20);
    rig_close(&r);
}

// ---- text

static const char *const ugly[] = {
    "",
    "layer.0/attention \"scores\"",
    "back\\slash \\\" end\\",
    "line\nfeed\r\ttab",
    "\x01\x1f\x7f",
    "\xff\xfe \xc3(",
    "f\xc3\xbcr \xe4\xb8\xad",
    "loc(\"x\")",
    "*/ // ) } %0 @main",
    "percent %s %d",
};

static void ugly_module(struct sample *t)
{
    struct builder b;
    arena_init(&t->arena);
    module_init(&t->m, &t->arena, "ugly \" \n \xff");
    builder_init(&b, &t->m);
    int x = build_parameter(&b, ROLE_INPUT, "x\n\"\xff", SHAPE(DT_F32, 2), NULL);
    for (size_t i = 0; i < sizeof ugly / sizeof *ugly; i++) {
        builder_scope(&b, ugly[i], "%s", ugly[i]);
        x = build_unary(&b, OP_NEGATE, x);
    }
    build_result(&b, "y\"\n", x);
}

TEST(ir_print_escapes_names)
{
    struct sample t;
    struct error err = {0};
    struct str text;
    str_init(&text);
    ugly_module(&t);
    REQUIRE_OK(module_print(&t.m, &text, &err), &err);
    const char *s = str_text(&text);
    for (size_t i = 0; i < text.length; i++)
        CHECK(s[i] == '\n' || (s[i] >= 0x20 && s[i] < 0x7f));
    CHECK(strstr(s, "loc(\"back\\5Cslash \\5C\\22 end\\5C\")\n"));
    CHECK(strstr(s, "loc(\"line\\0Afeed\\0D\\09tab\")\n"));
    CHECK(strstr(s, "loc(\"\\FF\\FE \\C3(\")\n"));
    CHECK(strstr(s, "loc(\"percent %s %d\")\n"));
    str_release(&text);
    arena_release(&t.arena);
}

TEST(ir_print_plugin_parses_names)
{
    for (int old = 0; old < 2; old++) {
        struct rig r;
        struct sample t;
        ugly_module(&t);
        REQUIRE(rig_open(&r, pjrt_test_plugin(old), 1));
        struct program *p = ir_compile(&r, &t.m);
        CHECK_STR(r.err.message, "");
        REQUIRE(p);
        float x[2] = {1.5f, -2};
        void *out;
        REQUIRE(ir_run(&r, p, &t.m, (const void *[]){x}, &out));
        CHECK(((float *)out)[0] == 1.5f && ((float *)out)[1] == -2); // an even number of negations
        free(out);
        program_free(p);
        rig_close(&r);
        arena_release(&t.arena);
    }
}

// The text of a small module, as a whole.
TEST(ir_print_text)
{
    struct arena arena;
    struct module m;
    struct builder b;
    struct error err = {0};
    struct str text;
    str_init(&text);
    arena_init(&arena);
    module_init(&m, &arena, "text");
    builder_init(&b, &m);
    int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(DT_BF16, 2, 3), NULL);
    int w = build_weight(&b, "w", SHAPE(DT_BF16, 4, 3));
    builder_scope(&b, "MLP", "up");
    int y = build_binary_scalar(&b, OP_MULTIPLY, build_linear(&b, x, w, DT_F32), 0.5);
    build_result(&b, "y", build_reduce(&b, OP_MAXIMUM, y, N(1), 1));
    REQUIRE_OK(module_print(&m, &text, &err), &err);
    CHECK_STR(
        str_text(&text),
        "module @assay {\n"
        "  func.func public @main(%0: tensor<2x3xbf16>, %1: tensor<4x3xbf16>) -> (tensor<2xf32>) {\n"
        "    %2 = \"stablehlo.dot_general\"(%0, %1) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = "
        "[], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, "
        "precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<2x3xbf16>, "
        "tensor<4x3xbf16>) -> tensor<2x4xf32> loc(\"up\")\n"
        "    %3 = \"stablehlo.constant\"() {value = dense<0x3F000000> : tensor<2x4xf32>} : () -> tensor<2x4xf32> "
        "loc(\"up\")\n"
        "    %4 = \"stablehlo.multiply\"(%2, %3) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32> loc(\"up\")\n"
        "    %5 = \"stablehlo.constant\"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32> loc(\"up\")\n"
        "    %6 = \"stablehlo.reduce\"(%4, %5) ({^bb0(%a: tensor<f32>, %b: tensor<f32>): %r = "
        "\"stablehlo.maximum\"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32> \"stablehlo.return\"(%r) : "
        "(tensor<f32>) -> ()}) {dimensions = array<i64: 1>} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2xf32> "
        "loc(\"up\")\n"
        "    \"func.return\"(%6) : (tensor<2xf32>) -> ()\n"
        "  }\n"
        "}\n");
    str_release(&text);
    arena_release(&arena);
}
