// SPDX-License-Identifier: Apache-2.0
// Programs that were exported (tests/oracle/hlo_programs.py), imported: what the module computes is what the program
// computes, compiled as it is; in f64 and under policies it is near that.
#include "ir/hlo_import.h"

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "fixture.h"
#include "ir/cost.h"
#include "ir/hlo_parse.h"
#include "ir/policy.h"
#include "ir/retype.h"
#include "ir_cases.h"
#include "num/convert.h"

enum { MAX_ARGS = 32, MAX_RESULTS = 8 };

struct imported {
    struct rig r;
    struct arena arena;
    struct str bytes;
    struct hlo_module hlo;
    struct hlo_parsed parsed;
    struct module m;
    void *args[MAX_ARGS], *want[MAX_RESULTS], *got[MAX_RESULTS];
    struct error err;
};

static void import(struct imported *t, const char *file, int64_t first_weight, int64_t last_weight)
{
    char name[100];
    memset(t, 0, sizeof *t);
    arena_init(&t->arena);
    str_init(&t->bytes);
    snprintf(name, sizeof name, "ir/programs/%s", file);
    REQUIRE(rig_open(&t->r, pjrt_test_plugin(false), 1));
    REQUIRE_OK(file_read(&t->bytes, fixture_path(name), 1 << 24, &t->err), &t->err);
    REQUIRE_OK(hlo_read_any(&t->hlo, t->bytes.text, t->bytes.length, file, false, &t->parsed, &t->arena, &t->err),
               &t->err);
    module_init(&t->m, &t->arena, file);
    struct hlo_import_options o = {.name = file, .first_weight = first_weight, .last_weight = last_weight};
    REQUIRE_OK(hlo_import(&t->hlo, &o, &t->m, &t->err), &t->err);
    REQUIRE(t->m.n_parameters <= MAX_ARGS && t->m.n_results <= MAX_RESULTS);
}

static void finish(struct imported *t)
{
    for (int i = 0; i < MAX_ARGS; i++)
        free(t->args[i]);
    for (int i = 0; i < MAX_RESULTS; i++) {
        free(t->want[i]);
        free(t->got[i]);
    }
    str_release(&t->bytes);
    arena_release(&t->arena);
    rig_close(&t->r);
}

static const struct shape *shape_of_parameter(const struct module *m, int i)
{
    return &m->instructions[m->parameters[i].instruction].shape;
}

// Values around 0.3 that a wrong order of arguments or of dimensions would show; token 0 is padding.
static void make_arguments(struct imported *t)
{
    uint32_t state = 1;
    for (int i = 0; i < t->m.n_parameters; i++) {
        const struct shape *s = shape_of_parameter(&t->m, i);
        int64_t n = shape_elements(s);
        t->args[i] = malloc((size_t)n * 4);
        REQUIRE(t->args[i]);
        for (int64_t k = 0; k < n; k++) {
            state = state * 1664525 + 1013904223;
            if (s->dtype == DT_S32)
                ((int32_t *)t->args[i])[k] = (int32_t)(state >> 28);
            else
                ((float *)t->args[i])[k] = (float)(state >> 8) * 0x1p-24f - 0.35f;
        }
    }
}

static void run_module(struct imported *t, const struct module *m, void **out)
{
    struct program *p = ir_compile(&t->r, m);
    if (!p)
        test_fail_error(__FILE__, __LINE__, "compile", t->r.err.where, t->r.err.message);
    REQUIRE(p);
    REQUIRE(ir_run(&t->r, p, m, (const void *const *)t->args, out));
    program_free(p);
}

// The message itself, which the parser made where the file is text, as the plugin compiles it.
static void run_message(struct imported *t)
{
    struct program *p = NULL;
    struct compile_options none = {.override_count = 0};
    REQUIRE_OK(program_compile(&p, t->r.client, t->hlo.message.data, t->hlo.message.size, "hlo", &none, &t->err),
               &t->err);
    REQUIRE(ir_run(&t->r, p, &t->m, (const void *const *)t->args, t->want));
    program_free(p);
}

static double distance(const struct imported *t, int result, const struct module *m, const void *got)
{
    const struct shape *s = &t->m.instructions[t->m.results[result]].shape;
    double *a = ir_doubles(m->instructions[m->results[result]].shape.dtype, got, shape_elements(s));
    double *b = ir_doubles(s->dtype, t->want[result], shape_elements(s));
    double d = ir_rel_l2(a, b, shape_elements(s));
    free(a);
    free(b);
    return d;
}

static void compare(struct imported *t)
{
    struct module wide;
    void *out[MAX_RESULTS] = {NULL};
    make_arguments(t);
    run_message(t);
    run_module(t, &t->m, t->got);
    // The compiler may fuse the two differently: a few roundings of f32 over sums of at most 256 terms.
    for (int i = 0; i < t->m.n_results; i++)
        CHECK(distance(t, i, &t->m, t->got[i]) < 1e-5);
    module_init(&wide, &t->arena, "f64");
    REQUIRE_OK(module_retype_f64(&t->m, &wide, &t->err), &t->err);
    run_module(t, &wide, out);
    for (int i = 0; i < t->m.n_results; i++) {
        double d = distance(t, i, &wide, out[i]);
        CHECK(d < 1e-5 && d > 0); // f64 that equals f32 to the last bit was not computed in f64
        free(out[i]);
    }
}

TEST(ir_hlo_import_plugin_message)
{
    struct imported t;
    import(&t, "mlp.before_optimizations.hlo.pb", 1, 2);
    CHECK_INT(t.m.n_parameters, 3);
    CHECK_INT(t.m.parameters[0].role, ROLE_INPUT);
    CHECK_INT(t.m.parameters[2].role, ROLE_WEIGHT);
    CHECK_STR(t.m.parameters[2].name, "v");
    compare(&t);
    finish(&t);
}

TEST(ir_hlo_import_plugin_text)
{
    struct imported t;
    const char *groups[16];
    import(&t, "encoder.before_optimizations.txt", 1, 15);
    CHECK_INT(t.m.n_parameters, 16);
    CHECK_STR(t.m.parameters[1].name, "table");
    compare(&t);
    // Scopes come from the names of the program.
    int n = module_groups(&t.m, groups, 16);
    bool attention = false, mlp = false;
    for (int i = 0; i < n; i++) {
        attention |= strcmp(groups[i], "layers_*/attention") == 0;
        mlp |= strcmp(groups[i], "layers_*/mlp") == 0;
    }
    CHECK(attention && mlp);
    finish(&t);
}

TEST(ir_hlo_import_plugin_policies)
{
    struct imported t;
    struct policy policy;
    struct module narrow;
    void *out[MAX_RESULTS] = {NULL};
    import(&t, "encoder.before_optimizations.txt", 0, -1);
    make_arguments(&t);
    run_message(&t);
    REQUIRE_OK(policy_parse(&policy, "bf16", &t.err), &t.err);
    module_init(&narrow, &t.arena, "bf16");
    REQUIRE_OK(module_apply_policy(&t.m, &policy, false, &narrow, &t.err), &t.err);
    run_module(&t, &narrow, out);
    // bf16 has 8 bits: more than f32's error, less than a wrong result's.
    for (int i = 0; i < t.m.n_results; i++) {
        double d = distance(&t, i, &narrow, out[i]);
        CHECK(d > 1e-4 && d < 0.05);
        free(out[i]);
    }
    finish(&t);
}

// ---- Programs of users, with what JAX makes of them (tests/oracle/hlo_imports.py)

struct user_case {
    struct imported t;
    struct ir_fixture f;
    const json_t *c;
};

static void open_case(struct user_case *u, const char *name, int64_t first_weight, int64_t last_weight)
{
    char file[100];
    size_t i;
    const json_t *c;
    ir_fixture_open(&u->f, "imports/imports");
    u->c = NULL;
    json_array_foreach(json_object_get(u->f.root, "cases"), i, c)
    {
        if (strcmp(json_string_value(json_object_get(c, "name")), name) == 0)
            u->c = c;
    }
    REQUIRE(u->c);
    snprintf(file, sizeof file, "../imports/%s.hlo.pb", name);
    import(&u->t, file, first_weight, last_weight);
    const json_t *args = json_object_get(u->c, "args");
    REQUIRE(json_array_size(args) == (size_t)u->t.m.n_parameters);
    for (int k = 0; k < u->t.m.n_parameters; k++) {
        const void *bytes;
        struct shape s = ir_fixture_array(&u->f, json_array_get(args, (size_t)k), &bytes);
        CHECK(shape_equal(&s, shape_of_parameter(&u->t.m, k)));
        u->t.args[k] = malloc((size_t)shape_bytes(&s) + 1);
        REQUIRE(u->t.args[k]);
        memcpy(u->t.args[k], bytes, (size_t)shape_bytes(&s));
    }
}

static void close_case(struct user_case *u)
{
    finish(&u->t);
    ir_fixture_close(&u->f);
}

// How far result k of the module m is from what JAX has under `key`: largest difference over largest value.
static double off(const struct user_case *u, const char *key, int k, const struct module *m, const void *got)
{
    const void *bytes;
    struct shape s = ir_fixture_array(&u->f, json_array_get(json_object_get(u->c, key), (size_t)k), &bytes);
    const struct shape *own = &m->instructions[m->results[k]].shape;
    int64_t n = shape_elements(&s);
    double worst = 0, largest = 0;
    CHECK(shape_same_dims(&s, own));
    for (int64_t i = 0; i < n && shape_same_dims(&s, own); i++) {
        double x = ir_element(own->dtype, got, 0), y = ir_element(s.dtype, bytes, 0);
        x = ir_element(own->dtype, (const uint8_t *)got + (size_t)(i * dtype_bits(own->dtype) / 8), 0);
        y = ir_element(s.dtype, (const uint8_t *)bytes + (size_t)(i * dtype_bits(s.dtype) / 8), 0);
        worst = fmax(worst, fabs(x - y));
        largest = fmax(largest, fabs(y));
    }
    return largest > 0 ? worst / largest : worst;
}

static void check_case(const char *name)
{
    struct user_case u;
    struct module wide;
    void *out[MAX_RESULTS] = {NULL};
    open_case(&u, name, 0, -1);
    REQUIRE(json_array_size(json_object_get(u.c, "f32")) == (size_t)u.t.m.n_results);
    run_module(&u.t, &u.t.m, u.t.got);
    // The same operations, fused in another way: roundings of f32 (6e-8) over sums of some hundred terms.
    for (int k = 0; k < u.t.m.n_results; k++) {
        double d = off(&u, "f32", k, &u.t.m, u.t.got[k]);
        if (!(d < 2e-6))
            printf("  %s, result %d: off by %g\n", name, k, d);
        CHECK(d < 2e-6);
    }
    module_init(&wide, &u.t.arena, "f64");
    REQUIRE_OK(module_retype_f64(&u.t.m, &wide, &u.t.err), &u.t.err);
    run_module(&u.t, &wide, out);
    for (int k = 0; k < u.t.m.n_results; k++) {
        double d = off(&u, "f64", k, &wide, out[k]);
        if (!(d < 1e-13))
            printf("  %s in f64, result %d: off by %g\n", name, k, d);
        CHECK(d < 1e-13); // roundings of f64 (1.1e-16) over the same sums
        free(out[k]);
    }
    close_case(&u);
}

#define CASE(name)                                                                                                     \
    TEST(ir_hlo_import_plugin_##name)                                                                                  \
    {                                                                                                                  \
        check_case(#name);                                                                                             \
    }

CASE(resnet)
CASE(resnet_train)
CASE(convolutions)
CASE(lstm)
CASE(gru)
CASE(transformer)
CASE(embedding_train)
CASE(sorting)
CASE(branches)
CASE(nested)
CASE(momentum)
CASE(rare)
CASE(dropout)

// A policy inside a loop: the weights of an LSTM are stored as it says, its state is rounded at every step, and what is
// counted in the loop comes out.
TEST(ir_hlo_import_plugin_policy_in_a_loop)
{
    struct user_case u;
    struct policy policy;
    struct module narrow;
    void *out[MAX_RESULTS] = {NULL};
    open_case(&u, "lstm", 0, 2);
    REQUIRE_OK(policy_parse(&policy, "bf16", &u.t.err), &u.t.err);
    module_init(&narrow, &u.t.arena, "bf16");
    REQUIRE_OK(module_apply_policy(&u.t.m, &policy, true, &narrow, &u.t.err), &u.t.err);
    CHECK_INT(shape_of_parameter(&narrow, 1)->dtype, DT_BF16);
    int loops = 0, carried = 0, before = 0;
    for (int i = 0; i < narrow.n_instructions; i++) {
        loops += narrow.instructions[i].op == OP_WHILE;
        carried += narrow.instructions[i].op == OP_WHILE ? narrow.instructions[i].n_operands : 0;
    }
    for (int i = 0; i < u.t.m.n_instructions; i++)
        before += u.t.m.instructions[i].op == OP_WHILE ? u.t.m.instructions[i].n_operands : 0;
    CHECK_INT(loops, 1);
    CHECK(carried > before);      // the counts go along
    for (int k = 0; k < 3; k++) { // the weights, as the policy stores them
        const struct shape *s = shape_of_parameter(&u.t.m, k);
        uint16_t *half = malloc((size_t)shape_elements(s) * 2);
        REQUIRE(half);
        REQUIRE_OK(convert_elements(DT_BF16, half, DT_F32, u.t.args[k], (size_t)shape_elements(s), NULL), &u.t.err);
        if (shape_of_parameter(&narrow, k)->dtype == DT_BF16) {
            free(u.t.args[k]);
            u.t.args[k] = half;
        } else {
            free(half);
        }
    }
    run_module(&u.t, &narrow, out);
    for (int k = 0; k < u.t.m.n_results; k++) {
        double d = off(&u, "f64", k, &narrow, out[k]);
        CHECK(d > 1e-4 && d < 0.05); // bf16 has 8 bits; a wrong step would be off by much more
    }
    // Infinite or NaN nowhere; nothing that a wrong count would leave below zero.
    const struct shape *counts = &narrow.instructions[narrow.results[u.t.m.n_results]].shape;
    for (int64_t i = 0; i < shape_elements(counts); i++)
        CHECK(((const int32_t *)out[u.t.m.n_results])[i] >= 0 &&
              (i % 3 != 1 || !((const int32_t *)out[u.t.m.n_results])[i]));
    for (int k = 0; k < MAX_RESULTS; k++)
        free(out[k]);
    close_case(&u);
}

// Loops cost what they do as often as they run: XLA counts a body once.
TEST(ir_hlo_import_plugin_loops_cost_every_run)
{
    static const struct {
        const char *name;
        double once, every; // FLOP of products in the program: as XLA counts them, and of all runs
    } cases[] = {           // Two products a step: 3 rows by 8 and by 16 columns of 64 gates, five steps.
                 {"lstm", 2.0 * 3 * (8 + 16) * 64, 5 * 2.0 * 3 * (8 + 16) * 64},
                 // A loop of three in a loop of two: 3 rows by 6 by 6.
                 {"nested", 2.0 * 3 * 6 * 6, 2 * 3 * 2.0 * 3 * 6 * 6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct user_case u;
        struct cost_row *rows;
        struct cost total;
        int n;
        open_case(&u, cases[i].name, 0, -1);
        REQUIRE_OK(cost_groups(&u.t.m, &u.t.arena, &rows, &n, &total, &u.t.err), &u.t.err);
        double xla = json_number_value(json_object_get(u.c, "xla_flop"));
        CHECK_NEAR(cost_product_flop(&total), cases[i].every, 0.5);
        CHECK(xla >= cases[i].once && xla < cases[i].every);
        close_case(&u);
    }
}

// What ops.json has no case of is in some program here, and every one of them can be read without a plugin too.
TEST(ir_hlo_import_meets_the_other_operations)
{
    struct ir_fixture f;
    bool met[OP_COUNT] = {false};
    size_t i;
    const json_t *c;
    ir_fixture_open(&f, "imports/imports");
    json_array_foreach(json_object_get(f.root, "cases"), i, c)
    {
        char path[100];
        struct arena arena;
        struct str bytes;
        struct hlo_module hlo;
        struct module m;
        struct error e = {0};
        struct hlo_import_options o = {.name = "case", .last_weight = -1};
        arena_init(&arena);
        str_init(&bytes);
        snprintf(path, sizeof path, "ir/imports/%s.hlo.pb", json_string_value(json_object_get(c, "name")));
        REQUIRE_OK(file_read(&bytes, fixture_path(path), 1 << 24, &e), &e);
        REQUIRE_OK(hlo_read(&hlo, bytes.text, bytes.length, path, &arena, &e), &e);
        module_init(&m, &arena, "case");
        REQUIRE_OK(hlo_import(&hlo, &o, &m, &e), &e);
        for (int k = 0; k < m.n_instructions; k++)
            met[m.instructions[k].op] = true;
        str_release(&bytes);
        arena_release(&arena);
    }
    for (int op = 0; op < OP_COUNT; op++) {
        if (!CHECK(met[op] || !ir_case_in_programs((enum opcode)op)))
            printf("  %s is in no program\n", op_info((enum opcode)op)->name);
    }
    ir_fixture_close(&f);
}

static void refused(const char *text, int64_t last_weight, int code, const char *what)
{
    struct arena arena;
    struct hlo_module hlo;
    struct module m;
    struct error e = {0};
    struct hlo_import_options o = {.name = "a.txt", .last_weight = last_weight};
    arena_init(&arena);
    REQUIRE_OK(hlo_read_any(&hlo, text, strlen(text), "a.txt", false, NULL, &arena, &e), &e);
    module_init(&m, &arena, "m");
    CHECK_INT(hlo_import(&hlo, &o, &m, &e), code);
    if (!strstr(e.message, what))
        CHECK_STR(e.message, what);
    arena_release(&arena);
}

#define PROGRAM(body) "HloModule m\nENTRY e {\n p = f32[4,4] parameter(0)\n" body "\n}\n"

TEST(ir_hlo_import_refuses)
{
    refused(PROGRAM("ROOT r = f32[4,4] cholesky(p)"), -1, ERR_INPUT,
            "instruction 'r' (cholesky) cannot be rewritten: the operation is not in the table");
    refused(PROGRAM("c = f32[16] constant({...})\nROOT r = f32[16] negate(c)"), -1, ERR_INPUT, "leaves out its values");
    refused(PROGRAM("ROOT r = f32[4,4] negate(p)"), 1, ERR_USAGE, "1 arguments");
    refused(PROGRAM("ROOT r = f32[4,5] negate(p)"), -1, ERR_INPUT, "");
    refused("HloModule m, is_scheduled=true\nENTRY e {\n p = f32[4] parameter(0)\n}\n", -1, ERR_INPUT,
            "is an optimised program");
    // Calls that double at each level would be written out for ever.
    struct str text;
    str_init(&text);
    str_add(&text, "HloModule m\nc0 {\n ROOT p = f32[2] parameter(0)\n}\n");
    for (int i = 1; i < 40; i++)
        str_addf(&text,
                 "c%d {\n p = f32[2] parameter(0)\n a = f32[2] call(p), to_apply=c%d\n ROOT r = f32[2] call(a), "
                 "to_apply=c%d\n}\n",
                 i, i - 1, i - 1);
    str_add(&text, "ENTRY e {\n p = f32[2] parameter(0)\n ROOT r = f32[2] call(p), to_apply=c39\n}\n");
    refused(text.text, -1, ERR_INPUT, "more than 2^20 instructions");
    str_release(&text);
}
