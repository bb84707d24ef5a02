// SPDX-License-Identifier: Apache-2.0
// What the builder refuses, and that it says why.
#include <stdlib.h>

#include "ir/builder.h"
#include "test.h"

// A builder with a value of every kind to misuse.
struct bench {
    struct arena arena;
    struct module module;
    struct builder b;
    int f, g, v, s; // f32 [2,3], [3,2], [3], []
    int i, k, p, u; // s32 [2,3], s32 [], pred [2,3], u8 [2,3]
    int h, e, w;    // bf16 [2,3], f32 [0,3], s64 []
};

static void bench_open(struct bench *t)
{
    arena_init(&t->arena);
    module_init(&t->module, &t->arena, "bench");
    builder_init(&t->b, &t->module);
    const struct shape shapes[] = {SHAPE(DT_F32, 2, 3),  SHAPE(DT_F32, 3, 2), SHAPE(DT_F32, 3),     SHAPE(DT_F32),
                                   SHAPE(DT_S32, 2, 3),  SHAPE(DT_S32),       SHAPE(DT_PRED, 2, 3), SHAPE(DT_U8, 2, 3),
                                   SHAPE(DT_BF16, 2, 3), SHAPE(DT_F32, 0, 3), SHAPE(DT_S64)};
    int *values[] = {&t->f, &t->g, &t->v, &t->s, &t->i, &t->k, &t->p, &t->u, &t->h, &t->e, &t->w};
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++)
        *values[n] = build_parameter(&t->b, ROLE_INPUT, "x", shapes[n], NULL);
    builder_scope(&t->b, "group", "layer.%d", 7);
}

// The operation was refused for that reason, in the scope it was in; the error stays, and nothing can be built any
// more.
static void check_refused(struct bench *t, int y, const char *op, const char *reason, int line)
{
    struct error err = {0};
    char first[sizeof t->b.error.message];
    int n = t->module.n_instructions;
    test_check_int(y, -1, __FILE__, line, "the value");
    test_check_str(t->b.error.where, op, __FILE__, line, "the operation");
    snprintf(first, sizeof first, "%s", t->b.error.message);
    if (!strstr(first, reason)) {
        test_check(false, __FILE__, line, reason);
        printf("    in \"%s\"\n", first);
    }
    CHECK_INT(build_unary(&t->b, OP_ABS, t->f), -1);
    CHECK_INT(build_dot(&t->b, t->f, t->f, 0, NULL, NULL, 0, NULL, NULL, DT_PRED), -1);
    CHECK_INT(build_parameter(&t->b, ROLE_INPUT, "y", SHAPE(DT_F32), NULL), -1);
    CHECK_INT(build_result(&t->b, "y", t->f), -1);
    CHECK_INT(t->module.n_instructions, n);
    test_check_int(builder_finish(&t->b, &err), t->b.error.code, __FILE__, line, "builder_finish");
    test_check_str(err.message, first, __FILE__, line, "the error at the end");
    arena_release(&t->arena);
}

#define REFUSED(op, reason, expression)                                                                                \
    do {                                                                                                               \
        struct bench t;                                                                                                \
        bench_open(&t);                                                                                                \
        int refused_value = (expression);                                                                              \
        check_refused(&t, refused_value, op, reason, __LINE__);                                                        \
    } while (0)

#define D(...) ((const int64_t[]){__VA_ARGS__})
#define N(...) ((const int[]){__VA_ARGS__})

TEST(ir_builder_refuses_elementwise)
{
    REFUSED("add", "in layer.7: its operands have different shapes", build_binary(&t.b, OP_ADD, t.f, t.g));
    REFUSED("add", "different shapes", build_binary(&t.b, OP_ADD, t.f, t.h));
    REFUSED("add", "different shapes", build_binary(&t.b, OP_ADD, t.f, t.v));
    REFUSED("erf", "does not take s32", build_unary(&t.b, OP_ERF, t.i));
    REFUSED("abs", "does not take u8", build_unary(&t.b, OP_ABS, t.u));
    REFUSED("sign", "does not take pred", build_unary(&t.b, OP_SIGN, t.p));
    REFUSED("not", "does not take f32", build_unary(&t.b, OP_NOT, t.f));
    REFUSED("and", "does not take bf16", build_binary(&t.b, OP_AND, t.h, t.h));
    REFUSED("subtract", "does not take pred", build_binary(&t.b, OP_SUBTRACT, t.p, t.p));
    REFUSED("popcnt", "does not take pred", build_unary(&t.b, OP_POPCNT, t.p));
    REFUSED("add", "has 1 operands",
            builder_append(&t.b, &(struct instruction){.op = OP_ADD, .n_operands = 1, .operands = &t.f}));
    REFUSED("abs", "operand 0 does not exist", build_unary(&t.b, OP_ABS, 99));
    REFUSED("abs", "operand 0 does not exist", build_unary(&t.b, OP_ABS, -1));
    REFUSED("compare", "different shapes", build_compare(&t.b, CMP_LT, t.f, t.i));
    REFUSED("compare", "direction 6", build_compare(&t.b, (enum compare_direction)6, t.f, t.f));
    REFUSED("select", "its condition is s32", build_select(&t.b, t.i, t.f, t.f));
    REFUSED("select", "different shapes", build_select(&t.b, t.p, t.f, t.h));
    REFUSED("select", "different shapes", build_select(&t.b, t.p, t.g, t.g));
    REFUSED("clamp", "different shapes", build_clamp(&t.b, t.s, t.f, t.s));
}

TEST(ir_builder_refuses_constants)
{
    double values[2] = {1, 300};
    REFUSED("constant", "300 is no value of s8", build_splat(&t.b, SHAPE(DT_S8, 2), 300));
    REFUSED("constant", "-1 is no value of u8", build_splat(&t.b, SHAPE(DT_U8), -1));
    REFUSED("constant", "0.5 is no value of s32", build_splat(&t.b, SHAPE(DT_S32), 0.5));
    REFUSED("constant", "nan is no value of s64", build_splat(&t.b, SHAPE(DT_S64), NAN));
    REFUSED("constant", "is no value of u64", build_splat(&t.b, SHAPE(DT_U64), 0x1p64));
    REFUSED("constant", "is no value of s64", build_splat(&t.b, SHAPE(DT_S64), 0x1p63));
    REFUSED("constant", "2 is no value of pred", build_splat(&t.b, SHAPE(DT_PRED), 2));
    REFUSED("constant", "300 is no value of u8", build_dense(&t.b, SHAPE(DT_U8, 2), values));
    REFUSED("constant", "has no value", build_dense(&t.b, SHAPE(DT_F32, 2), NULL));
    REFUSED("constant", "of f8e4m3fn cannot be written", build_splat(&t.b, SHAPE(DT_F8E4M3FN), 1));
    REFUSED("constant", "of c64 cannot be written", build_splat(&t.b, SHAPE(DT_C64), 1));
    REFUSED("constant", "of pred has no such symbol", build_symbol(&t.b, SHAPE(DT_PRED), CONST_LOWEST));
    REFUSED("constant", "has no element type", build_splat(&t.b, (struct shape){0}, 1));
    REFUSED("constant", "extent 1 is negative (-4)", build_splat(&t.b, SHAPE(DT_F32, 2, -4), 1));
    REFUSED("constant", "more bytes than can be counted", build_splat(&t.b, SHAPE(DT_F32, 1ll << 40, 1ll << 40), 1));
    REFUSED("iota", "has no dimension 2", build_iota(&t.b, SHAPE(DT_S32, 2, 3), 2));
    REFUSED("iota", "has no dimension 0", build_iota(&t.b, SHAPE(DT_S32), 0));
    REFUSED("iota", "does not count in pred", build_iota(&t.b, SHAPE(DT_PRED, 2), 0));
    REFUSED("parameter", "has no element type",
            build_parameter(&t.b, ROLE_INPUT, "x", (struct shape){.dtype = DT_COUNT}, NULL));
}

TEST(ir_builder_refuses_shapes)
{
    REFUSED("convert", "has no element type", build_convert(&t.b, t.f, DT_INVALID));
    REFUSED("bitcast_convert", "f32 and u8 differ in width", build_bitcast_convert(&t.b, t.f, DT_U8));
    REFUSED("reshape", "6 elements do not become 5", build_reshape(&t.b, t.f, 1, D(5)));
    REFUSED("reshape", "rank 9", build_reshape(&t.b, t.f, 9, D(1, 1, 1, 1, 1, 1, 1, 2, 3)));
    REFUSED("reshape", "more bytes", build_reshape(&t.b, t.f, 3, D(1ll << 62, 1ll << 62, 4)));
    REFUSED("broadcast_in_dim", "extent 3 does not broadcast to 4",
            build_broadcast(&t.b, t.v, SHAPE(DT_F32, 2, 4), N(1)));
    REFUSED("broadcast_in_dim", "dimension 0 maps to 2", build_broadcast(&t.b, t.v, SHAPE(DT_F32, 2, 3), N(2)));
    REFUSED("broadcast_in_dim", "dimension 1 maps to 0", build_broadcast(&t.b, t.f, SHAPE(DT_F32, 3, 2), N(1, 0)));
    REFUSED("broadcast_in_dim", "dimension 0 maps to -1", build_broadcast_trailing(&t.b, t.f, t.v));
    REFUSED("transpose", "is not a permutation", build_transpose(&t.b, t.f, N(0, 0)));
    REFUSED("transpose", "is not a permutation", build_transpose(&t.b, t.f, N(0, 2)));
    REFUSED("slice", "[1:4:1] is outside extent 3", build_slice(&t.b, t.f, D(0, 1), D(2, 4), NULL));
    REFUSED("slice", "[2:1:1] is outside", build_slice(&t.b, t.f, D(2, 0), D(1, 3), NULL));
    REFUSED("slice", "[0:2:0] is outside", build_slice(&t.b, t.f, D(0, 0), D(2, 3), D(0, 1)));
    REFUSED("slice", "[-1:2:1] is outside", build_slice_axis(&t.b, t.f, 0, -1, 2));
    REFUSED("slice", "has no dimension 2", build_slice_axis(&t.b, t.f, 2, 0, 1));
    REFUSED("concatenate", "operand 1 does not fit beside the first", build_concatenate(&t.b, N(t.f, t.g), 2, 0));
    REFUSED("concatenate", "operand 1 does not fit", build_concatenate(&t.b, N(t.f, t.h), 2, 0));
    REFUSED("concatenate", "has no dimension 2", build_concatenate(&t.b, N(t.f, t.f), 2, 2));
    REFUSED("concatenate", "has 0 operands", build_concatenate(&t.b, NULL, 0, 0));
    REFUSED("pad", "is not a scalar of the same type", build_pad(&t.b, t.f, t.k, D(0, 0), D(0, 0), D(0, 0)));
    REFUSED("pad", "dimension 1 becomes negative", build_pad(&t.b, t.f, t.s, D(0, -2), D(0, -2), D(0, 0)));
    REFUSED("pad", "longer than can be counted", build_pad(&t.b, t.f, t.s, D(INT64_MAX, 0), D(9, 0), D(0, 0)));
    REFUSED("pad", "puts -1 values between", build_pad(&t.b, t.f, t.s, D(0, 0), D(0, 0), D(0, -1)));
    REFUSED("reverse", "dimension 1 is out of range or repeated", build_reverse(&t.b, t.f, N(1, 1), 2));
    REFUSED("reverse", "names 3 dimensions of 2", build_reverse(&t.b, t.f, N(0, 1, 2), 3));
    REFUSED("dynamic_slice", "start 1 is not an integer scalar", build_dynamic_slice(&t.b, t.f, N(t.k, t.s), D(1, 1)));
    REFUSED("dynamic_slice", "starts are of different types", build_dynamic_slice(&t.b, t.f, N(t.k, t.w), D(1, 1)));
    REFUSED("dynamic_slice", "size 4 is larger than extent 3", build_dynamic_slice(&t.b, t.f, N(t.k, t.k), D(1, 4)));
    REFUSED("dynamic_slice", "needs one start per dimension",
            builder_append(
                &t.b, &(struct instruction){.op = OP_DYNAMIC_SLICE, .n_operands = 2, .operands = (int[]){t.f, t.k}}));
    REFUSED("dynamic_update_slice", "size 3 is larger than extent 2",
            build_dynamic_update_slice(&t.b, t.f, t.g, N(t.k, t.k)));
    REFUSED("dynamic_update_slice", "operand's type and rank", build_dynamic_update_slice(&t.b, t.f, t.h, N(t.k, t.k)));
    REFUSED("dynamic_update_slice", "operand's type and rank", build_dynamic_update_slice(&t.b, t.f, t.v, N(t.k, t.k)));
    REFUSED("gather", "takes rows of a tensor by integer indices", build_gather(&t.b, t.f, t.f));
    REFUSED("gather", "takes rows", build_gather(&t.b, t.s, t.i));
    REFUSED("gather", "there are no rows to take", build_gather(&t.b, t.e, t.k));
}

TEST(ir_builder_refuses_products_and_reductions)
{
    REFUSED("dot_general", "contracts or batches extent 3 with 2", build_linear(&t.b, t.f, t.g, DT_F32));
    REFUSED("dot_general", "multiplies f32 by bf16", build_linear(&t.b, t.f, t.h, DT_F32));
    REFUSED("dot_general", "f32 operands cannot give a s32 result", build_linear(&t.b, t.f, t.f, DT_S32));
    REFUSED("dot_general", "s32 operands cannot give a f32 result", build_linear(&t.b, t.i, t.i, DT_F32));
    REFUSED("dot_general", "out of range or repeated", build_linear(&t.b, t.f, t.v, DT_F32));
    REFUSED("dot_general", "out of range or repeated", build_linear(&t.b, t.s, t.f, DT_F32));
    REFUSED("dot_general", "out of range or repeated", build_dot(&t.b, t.f, t.f, 1, N(0), N(0), 1, N(0), N(1), DT_F32));
    REFUSED("dot_general", "has 9 batch",
            build_dot(&t.b, t.s, t.s, 9, N(0, 0, 0, 0, 0, 0, 0, 0), N(0, 0, 0, 0, 0, 0, 0, 0), 0, NULL, NULL, DT_F32));
    REFUSED("dot_general", "has -1 batch", build_dot(&t.b, t.s, t.s, -1, NULL, NULL, 0, NULL, NULL, DT_F32));
    REFUSED("reduce", "cannot reduce f32 by xor", build_reduce(&t.b, OP_XOR, t.f, N(0), 1));
    REFUSED(
        "reduce", "cannot reduce f32 by and",
        builder_append(&t.b, &(struct instruction){
                                 .op = OP_REDUCE, .reducer = OP_AND, .n_operands = 2, .operands = (int[]){t.f, t.s}}));
    REFUSED("reduce", "cannot reduce f32 by subtract",
            builder_append(
                &t.b, &(struct instruction){
                          .op = OP_REDUCE, .reducer = OP_SUBTRACT, .n_operands = 2, .operands = (int[]){t.f, t.s}}));
    REFUSED(
        "reduce", "not a scalar of the same type",
        builder_append(&t.b, &(struct instruction){
                                 .op = OP_REDUCE, .reducer = OP_ADD, .n_operands = 2, .operands = (int[]){t.f, t.k}}));
    REFUSED("power", "has no neutral element", build_reduce(&t.b, OP_POWER, t.f, N(0), 1));
    REFUSED("reduce", "dimension 2 is out of range", build_reduce(&t.b, OP_ADD, t.f, N(2), 1));
    REFUSED("reduce", "dimension 0 is out of range or repeated", build_reduce(&t.b, OP_ADD, t.f, N(0, 0), 2));
    REFUSED("y", "this result does not exist", build_result(&t.b, "y", -1));
    REFUSED("y", "this result does not exist", build_result(&t.b, "y", 1000));
}

// What may be built beside what is refused.
TEST(ir_builder_accepts_limits)
{
    struct bench t;
    struct error err = {0};
    bench_open(&t);
    CHECK(build_concatenate(&t.b, &t.f, 1, 1) >= 0);
    CHECK_INT(builder_shape(&t.b, build_slice(&t.b, t.f, D(0, 1), D(2, 3), D(INT64_MAX, 1)))->dims[0], 1);
    CHECK_INT(shape_bytes(builder_shape(&t.b, build_convert(&t.b, t.u, DT_S4))), 3);
    CHECK_INT(builder_shape(&t.b, build_dot(&t.b, t.f, t.g, 0, NULL, NULL, 0, NULL, NULL, DT_F32))->rank, 4);
    CHECK_INT(builder_shape(&t.b, build_gather(&t.b, t.f, t.i))->rank, 3);
    CHECK_INT(builder_shape(&t.b, build_reduce(&t.b, OP_MULTIPLY, t.e, N(0), 1))->dims[0], 3);
    CHECK(build_convert(&t.b, t.f, DT_F32) == t.f);
    struct shape huge = SHAPE(DT_S4, INT64_MAX / 4);
    CHECK_INT(shape_check(&huge, "s4", &err), 0);
    CHECK_INT(shape_bytes(&huge), INT64_MAX / 8 + (INT64_MAX / 4 * 4 % 8 != 0));
    CHECK_INT(builder_shape(&t.b, -1)->rank, 0);
    build_result(&t.b, "y", t.f);
    REQUIRE_OK(builder_finish(&t.b, &err), &err);
    arena_release(&t.arena);
    // A module without results does nothing.
    bench_open(&t);
    CHECK_INT(builder_finish(&t.b, &err), ERR_INTERNAL);
    CHECK_STR(err.message, "the module returns nothing");
    arena_release(&t.arena);
}

// Everything that is handed in is copied: it may change or go away afterwards.
TEST(ir_builder_copies)
{
    struct arena arena;
    struct module m;
    struct builder b;
    struct error err = {0};
    char name[8] = "weight";
    double values[2] = {1, 2};
    arena_init(&arena);
    module_init(&m, &arena, "copies");
    builder_init(&b, &m);
    int w = build_weight(&b, name, SHAPE(DT_F32, 2));
    int c = build_dense(&b, SHAPE(DT_F32, 2), values);
    builder_scope(&b, name, "%s", name);
    build_result(&b, name, build_binary(&b, OP_ADD, w, c));
    memset(name, 'x', sizeof name - 1);
    values[0] = values[1] = NAN;
    REQUIRE_OK(builder_finish(&b, &err), &err);
    CHECK_STR(m.parameters[0].name, "weight");
    CHECK_STR(m.parameters[0].binding.sources[0], "weight");
    CHECK_STR(m.instructions[2].scope, "weight");
    CHECK_STR(m.instructions[2].group, "weight");
    CHECK_STR(m.result_names[0], "weight");
    CHECK(m.instructions[c].dense[1] == 2);
    arena_release(&arena);
}
