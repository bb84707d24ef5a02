// SPDX-License-Identifier: Apache-2.0
// A program with the weights and inputs that it is given, and what is wrong with others. tests/oracle/jax_program.py
// made the files.
#include "lab/exported.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/file.h"
#include "fixture.h"
#include "io/safetensors.h"
#include "lab/exported_names.h"
#include "test.h"

struct opened {
    struct arena arena;
    struct exported e;
    struct checkpoint checkpoint;
    bool has_checkpoint;
    struct error err;
    int rc;
};

static const char *jax(const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "lab/jax/%s", name);
    return fixture_path(path);
}

static void try_open(struct opened *o, const struct exported_options *options)
{
    memset(o, 0, sizeof *o);
    arena_init(&o->arena);
    o->rc = exported_open(&o->e, options, &o->checkpoint, &o->has_checkpoint, &o->arena, &o->err);
}

static void done(struct opened *o)
{
    if (o->has_checkpoint)
        checkpoint_close(&o->checkpoint);
    arena_release(&o->arena);
}

static void refused(struct exported_options options, int code, const char *what)
{
    struct opened o;
    try_open(&o, &options);
    CHECK_INT(o.rc, code);
    if (!strstr(o.err.message, what))
        CHECK_STR(o.err.message, what);
    done(&o);
}

static void check_named(const char *program, const char *weights, const char *weight_args, const char *first)
{
    struct opened o;
    try_open(&o, &(struct exported_options){.path = jax(program),
                                            .weights = jax(weights),
                                            .weight_args = weight_args,
                                            .inputs = jax("inputs.npz")});
    REQUIRE_OK(o.rc, &o.err);
    CHECK_INT(o.e.n_arguments, 23);
    CHECK_INT(o.e.n_cases, 1);
    CHECK_INT(o.e.n_unused, 0);
    CHECK(o.e.has_weights);
    for (int i = 0; i < o.e.n_arguments; i++) {
        CHECK_INT(o.e.arguments[i].role, i < 21 ? ROLE_WEIGHT : ROLE_INPUT);
        CHECK_INT(o.e.arguments[i].source, i < 21 ? ARGUMENT_TENSOR : ARGUMENT_ARRAY);
    }
    CHECK_STR(o.e.module.parameters[9].binding.sources[0], first);
    CHECK_STR(o.e.arguments[21].from, "tokens");
    done(&o);
}

TEST(lab_exported_finds_weights_by_name_and_position)
{
    check_named("transformer.hlo.pb", "weights.safetensors", NULL, "['layers'][0]['wq']");
    check_named("transformer.hlo.pb", "weights.safetensors", "0..20", "['layers'][0]['wq']");
    check_named("transformer.hlo.txt", "weights.safetensors", NULL, "['layers'][0]['wq']");
    check_named("transformer.hlo.pb", "numbered.safetensors", NULL, "9");
    check_named("transformer.hlo.pb", "numbered.safetensors", "0..20", "9");
}

static void check_roles(struct exported_options options, bool rewritable, int weights, size_t cases)
{
    struct arena arena;
    struct exported e;
    struct error why = {0}, err = {0};
    bool made;
    int n = 0;
    arena_init(&arena);
    REQUIRE_OK(exported_roles(&e, &options, &arena, &made, &why, &err), &err);
    CHECK_INT(made, rewritable);
    CHECK_INT(e.module.n_parameters, rewritable ? e.n_arguments : 0);
    CHECK_INT(e.n_cases, cases);
    for (int i = 0; i < e.n_arguments; i++) {
        n += e.arguments[i].role == ROLE_WEIGHT;
        CHECK(!e.arguments[i].data);
        if (rewritable)
            CHECK_INT(e.module.parameters[i].role, e.arguments[i].role);
    }
    CHECK_INT(n, weights);
    arena_release(&arena);
}

// What prices a program learns the same roles from names alone, also of programs that cannot be rewritten.
TEST(lab_exported_roles)
{
    const char *program = jax("transformer.hlo.pb"), *weights = jax("weights.safetensors");
    check_roles((struct exported_options){.path = program}, true, 0, 1);
    check_roles((struct exported_options){.path = program, .weights = weights}, true, 21, 1);
    check_roles((struct exported_options){.path = program, .weight_args = "0..20", .inputs = jax("cases.npz")}, true,
                21, 3);
    check_roles((struct exported_options){.path = program, .weights = jax("numbered.safetensors")}, true, 21, 1);
    const char *optimised = fixture_path("ir/programs/encoder.after_optimizations.txt");
    check_roles((struct exported_options){.path = optimised}, false, 0, 1);
    check_roles((struct exported_options){.path = optimised, .weight_args = "1..15"}, false, 15, 1);

    struct arena arena;
    struct exported e;
    struct error why = {0}, err = {0};
    bool made;
    arena_init(&arena);
    CHECK_INT(exported_roles(&e, &(struct exported_options){.path = optimised, .weight_args = "0..16"}, &arena, &made,
                             &why, &err),
              ERR_USAGE);
    CHECK(strstr(err.message, "16 arguments"));
    error_clear(&err);
    CHECK_INT(exported_roles(&e, &(struct exported_options){.path = program, .inputs = jax("cases.npz")}, &arena, &made,
                             &why, &err),
              ERR_INPUT);
    CHECK(strstr(err.message, "if it is a weight, --weights or --weight-args says so"));
    arena_release(&arena);
}

// Codes that are stored as integers are weights of a price; to a run they are an input that is always the same.
TEST(lab_exported_roles_of_integers)
{
    const char *path = test_below("codes.txt"), *stored = test_below("codes.safetensors");
    const char text[] = "HloModule m\nENTRY e {\n codes = s8[4,8] parameter(0)\n x = f32[2,4] parameter(1)\n"
                        " w = f32[4,8] convert(codes)\n ROOT y = f32[2,8] dot(x, w), lhs_contracting_dims={1}, "
                        "rhs_contracting_dims={0}\n}\n";
    const int64_t dims[2] = {4, 8};
    const struct safetensors_entry entry = {"codes", DT_S8, 2, dims};
    static const uint8_t zeros[32];
    struct safetensors_writer w;
    struct error e = {0};
    REQUIRE_OK(file_write(path, text, strlen(text), &e), &e);
    REQUIRE_OK(safetensors_writer_begin(&w, stored, &entry, 1, NULL, 0, &e), &e);
    REQUIRE_OK(safetensors_writer_put(&w, 0, zeros, sizeof zeros, &e), &e);
    REQUIRE_OK(safetensors_writer_commit(&w, &e), &e);
    check_roles((struct exported_options){.path = path, .weights = stored}, true, 1, 1);
    struct opened o;
    try_open(&o, &(struct exported_options){.path = path, .weights = stored});
    REQUIRE_OK(o.rc, &o.err);
    CHECK_INT(o.e.arguments[0].role, ROLE_INPUT);
    CHECK(o.e.arguments[0].data != NULL);
    done(&o);
}

TEST(lab_exported_inputs_by_position_and_cases)
{
    struct opened o;
    int32_t tokens[16], first[16];
    try_open(&o, &(struct exported_options){
                     .path = jax("transformer.hlo.pb"), .weight_args = "0..20", .inputs = jax("positions.npz")});
    REQUIRE_OK(o.rc, &o.err);
    CHECK_STR(o.e.arguments[21].from, "arr_0");
    REQUIRE_OK(exported_argument(&o.e, 21, 0, first, &o.err), &o.err); // written as 64 bits
    CHECK(first[0] > 0 && first[0] < 48);
    CHECK_INT(first[15], 0);
    CHECK(!o.e.has_weights);
    done(&o);
    try_open(&o, &(struct exported_options){
                     .path = jax("transformer.hlo.pb"), .weight_args = "0..20", .inputs = jax("cases.npz")});
    REQUIRE_OK(o.rc, &o.err);
    CHECK_INT(o.e.n_cases, 3);
    CHECK(o.e.arguments[21].per_case && o.e.arguments[22].per_case);
    REQUIRE_OK(exported_argument(&o.e, 21, 0, tokens, &o.err), &o.err);
    CHECK(memcmp(tokens, first, sizeof first) == 0);
    REQUIRE_OK(exported_argument(&o.e, 21, 2, tokens, &o.err), &o.err);
    CHECK(memcmp(tokens, first, sizeof first) != 0);
    done(&o);
}

// A checkpoint of the program's weights, but for what is changed.
static const char *changed(const char *name, int which, const char *called, enum dtype type, int rank,
                           const int64_t *dims)
{
    struct checkpoint c;
    struct safetensors_writer w;
    struct safetensors_entry entries[32];
    struct error e = {0};
    const char *path = test_below(name);
    bool ok = checkpoint_open(&c, jax("weights.safetensors"), &e) == 0 && c.count <= 32;
    for (size_t i = 0; ok && i < c.count; i++) {
        const struct tensor_view *t = &c.tensors[i];
        bool it = strcmp(t->name, "['layers'][0]['wq']") == 0;
        entries[i] = (struct safetensors_entry){t->name, t->dtype, t->rank, t->dims};
        if (it && which)
            entries[i] = (struct safetensors_entry){called ? called : t->name, type, rank, dims};
    }
    ok = ok && safetensors_writer_begin(&w, path, entries, c.count, NULL, 0, &e) == 0;
    static const uint8_t zeros[1 << 16];
    for (size_t i = 0; ok && i < c.count; i++) {
        size_t n, bytes;
        ok = size_product(entries[i].dims, entries[i].rank, &n) && dtype_bytes(entries[i].dtype, n, &bytes) &&
             safetensors_writer_put(&w, i, zeros, bytes, &e) == 0;
    }
    ok = ok && safetensors_writer_commit(&w, &e) == 0;
    if (!ok)
        test_fail_error(__FILE__, __LINE__, "changed", e.where, e.message);
    checkpoint_close(&c);
    return path;
}

TEST(lab_exported_refuses_what_does_not_fit)
{
    const char *program = jax("transformer.hlo.pb"), *weights = jax("weights.safetensors");
    const int64_t square[2] = {32, 32}, wide[2] = {32, 33};
    refused((struct exported_options){.path = program, .weights = jax("inputs.npz")}, ERR_INPUT, "");
    refused((struct exported_options){.path = program, .weights = weights, .inputs = weights}, ERR_INPUT,
            "begins like neither");
    refused((struct exported_options){.path = program, .inputs = jax("expected.npz"), .weight_args = "0..20"},
            ERR_INPUT, "holds 4 arrays, but the program has 2 inputs");
    refused((struct exported_options){.path = program, .weights = weights, .weight_args = "0..21"}, ERR_INPUT,
            "has no tensor for argument 21 'tokens' (s32[2,8])");
    refused((struct exported_options){.path = program, .weight_args = "0..30"}, ERR_USAGE, "23 arguments");
    refused((struct exported_options){.path = fixture_path("ir/programs/mlp.after_optimizations.txt")}, ERR_INPUT,
            "is an optimised program");
    refused((struct exported_options){.path = program,
                                      .weights = changed("a", 1, "['layers'][0]['wqq']", DT_F32, 2, square),
                                      .weight_args = "0..20"},
            ERR_INPUT, "the nearest is \"['layers'][0]['wk']\"");
    refused((struct exported_options){.path = program, .weights = changed("b", 1, NULL, DT_F32, 2, wide)}, ERR_INPUT,
            "the tensor is f32[32,33], but argument 9 'params['layers'][0]['wq']' is f32[32,32]");
    refused((struct exported_options){.path = program, .weights = changed("c", 1, NULL, DT_F64, 2, square)}, ERR_INPUT,
            "save it in the argument's type");
    struct opened o;
    try_open(&o, &(struct exported_options){.path = program, .weights = changed("e", 1, NULL, DT_BF16, 2, square)});
    CHECK_INT(o.rc, 0); // every bf16 is an f32
    done(&o);
}

static size_t find(const char *const *list, size_t n, const char *argument, int code)
{
    struct names names;
    struct arena arena;
    struct error e = {0};
    size_t out = NAMES_NONE;
    arena_init(&arena);
    CHECK_INT(names_open(&names, list, n, "file", "tensor", &arena, &e), 0);
    CHECK_INT(names_find(&names, argument, 1, 1, &out, &e), code);
    arena_release(&arena);
    return out;
}

#define FIND(argument, code, ...)                                                                                      \
    find((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), argument,    \
         code)

TEST(lab_exported_names)
{
    CHECK_INT(FIND("params['layers'][0]['w']", 0, "layers.1.w", "layers.0.w"), 1);
    CHECK_INT(FIND("params['layers'][0]['w']", 0, "w", "layers/0/w"), 1);           // most parts
    CHECK(FIND("params['layers'][0]['w']", 0, "encoder.layers.0.w") == NAMES_NONE); // more than the argument has
    CHECK(FIND("params['layers'][0]['w']", ERR_INPUT, "layers.0.w", "layers/0/w") != NAMES_NONE);
    CHECK_INT(FIND("p_layers_0_weight", 0, "layers.0.bias", "layers.0.weight"), 1);
    CHECK_INT(FIND("params__layers___0___w__.1", 0, "['layers'][1]['w']", "['layers'][0]['w']"), 1);
    CHECK_INT(FIND("weights['layers.0.up.weight']", 0, "layers.0.down.weight", "layers.0.up.weight"), 1);
    CHECK_INT(FIND("tokens.1", 0, "mask", "tokens"), 1);
    CHECK_INT(FIND("w_q", 0, "q", "w_q"), 1);
    CHECK_INT(FIND("whatever", 0, "arr_0", "arr_1"), 1);
    CHECK_INT(FIND("whatever", 0, "1", "0"), 0);
    CHECK(FIND("whatever", 0, "0") == NAMES_NONE);
    CHECK(FIND("", 0, "x", "") == NAMES_NONE);
}

// Two layers may not share a tensor by accident.
TEST(lab_exported_name_taken_twice)
{
    const char *const list[] = {"w", "b"};
    struct names names;
    struct arena arena;
    struct error e = {0};
    size_t out;
    arena_init(&arena);
    REQUIRE_OK(names_open(&names, list, 2, "file", "tensor", &arena, &e), &e);
    REQUIRE_OK(names_find(&names, "params[0]['w']", 0, 0, &out, &e), &e);
    CHECK_INT(out, 0);
    CHECK_INT(names_unused(&names, NULL), 1);
    CHECK_INT(names_find(&names, "params[1]['w']", 1, 1, &out, &e), ERR_INPUT);
    CHECK(strstr(e.message, "named like both 'params[0]['w']' and argument 1"));
    arena_release(&arena);
}

TEST(lab_exported_says_what_policies_cannot_do)
{
    struct opened o;
    struct policy p;
    const char *path = test_below("m.txt");
    const char text[] = "HloModule m\nENTRY e {\n p = f32[4,4] parameter(0)\n i = s32[4] parameter(1)\n"
                        " q = f32[4,4] negate(p)\n ROOT r = f32[4,4] gather(q, i), offset_dims={1}, "
                        "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}\n}\n";
    struct error e = {0};
    REQUIRE_OK(file_write(path, text, strlen(text), &e), &e);
    try_open(&o, &(struct exported_options){.path = path});
    REQUIRE_OK(o.rc, &o.err);
    CHECK_INT(exported_check_policies(&o.e, &e), ERR_INPUT);
    CHECK(strstr(e.message, "nothing that a policy would change"));
    error_clear(&e);
    CHECK_INT(exported_check_random(&o.e, &e), ERR_USAGE);
    CHECK(strstr(e.message, "argument 1 'i' is s32[4], an index"));
    error_clear(&e);
    REQUIRE_OK(policy_parse(&p, "w8a16", &e), &e);
    CHECK_INT(exported_check_codes(&o.e, &p, &e), ERR_USAGE);
    CHECK(strstr(e.message, "say which arguments are weights"));
    done(&o);
    try_open(&o, &(struct exported_options){.path = path, .weight_args = "0"});
    REQUIRE_OK(o.rc, &o.err);
    error_clear(&e);
    CHECK_INT(exported_check_policies(&o.e, &e), 0); // a weight is stored as the policy says
    CHECK_INT(exported_check_codes(&o.e, &p, &e), 0);
    done(&o);
    static const char eight[] = "HloModule m\nENTRY e {\n p = f32[4,4] parameter(0)\n q = f8e4m3fn[4,4] convert(p)\n"
                                " r = f32[4,4] convert(q)\n ROOT d = f32[4,4] dot(r, p), lhs_contracting_dims={1}, "
                                "rhs_contracting_dims={0}\n}\n";
    REQUIRE_OK(file_write(path, eight, strlen(eight), &e), &e);
    try_open(&o, &(struct exported_options){.path = path, .weight_args = "0"});
    REQUIRE_OK(o.rc, &o.err);
    CHECK_INT(exported_check_policies(&o.e, &e), ERR_INPUT);
    CHECK(strstr(e.message, "has f8e4m3fn in it already (convert '"));
    CHECK(strstr(e.message, "--policy fp8 makes such products"));
    CHECK(!module_takes_policies(&o.e.module));
    CHECK_INT(module_own_type(&o.e.module), DT_F32);
    done(&o);
}

TEST(lab_exported_finds_nan)
{
    struct opened o;
    char found[320];
    try_open(&o, &(struct exported_options){
                     .path = jax("transformer.hlo.pb"), .weights = jax("nan.safetensors"), .inputs = jax("cases.npz")});
    REQUIRE_OK(o.rc, &o.err);
    REQUIRE_OK(exported_find_nonfinite(&o.e, &o.checkpoint, found, &o.err), &o.err);
    CHECK_STR(found, "weight 3 'params['layers'][0]['gate']' (\"['layers'][0]['gate']\") holds 1 value that is not "
                     "finite");
    done(&o);
}
