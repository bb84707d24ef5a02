// SPDX-License-Identifier: Apache-2.0
// The probe against devices whose arithmetic is known, because they are simulated.
#include "fixture.h"
#include "lab/probe_run.h"
#include "num/random.h"
#include "test.h"

enum { SMALL = 16, LENGTH = 64, DOTS = 600 };

// ---- trees

TEST(lab_probe_trees_with_a_name_are_recognised)
{
    static const struct {
        enum probe_shape shape;
        int block, width;
    } named[] = {{SHAPE_SEQUENTIAL, 0, 0},    {SHAPE_REVERSED, 0, 0}, {SHAPE_PAIRS_ODD, 0, 0}, {SHAPE_PAIRWISE, 0, 0},
                 {SHAPE_LANES, 8, 8},         {SHAPE_LANES, 32, 8},   {SHAPE_LANES, 2, 2},     {SHAPE_BLOCKED, 16, 0},
                 {SHAPE_FUSED, 4, 0},         {SHAPE_FUSED, 32, 0},   {SHAPE_GROUPS, 4, 0},    {SHAPE_GROUPS, 2, 0},
                 {SHAPE_BLOCKED_PAIRS, 32, 0}};
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        struct arena a;
        struct error err = {0};
        struct probe_tree made, found;
        arena_init(&a);
        REQUIRE_OK(probe_tree_named(&made, LENGTH, named[i].shape, named[i].block, named[i].width, &a, &err), &err);
        // Found through a device that adds so.
        struct dot_model m = {
            .name = "m", .accumulator = dot_format("f32"), .order = DOT_TREE, .tree = &made.tree, .fraction = 24};
        struct probe_simulated s = {.model = &m};
        struct probe_target t;
        probe_target_simulate(&t, probe_path_find("bf16"), SMALL, LENGTH, SMALL, &s);
        REQUIRE_OK(probe_tree_read(&found, &t, &a, &err), &err);
        CHECK_INT(found.shape, named[i].shape);
        CHECK_INT(found.block, named[i].block);
        CHECK_INT(found.width, named[i].width);
        CHECK(probe_tree_same(&made, &found));
        arena_release(&a);
    }
}

static int contradict(void *context, int i, const int *others, int n, int *sizes, struct error *err)
{
    (void)context;
    (void)err;
    for (int k = 0; k < n; k++)
        sizes[k] = 2 + (i * 7 + others[k] * 3) % 5;
    return 0;
}

TEST(lab_probe_trees_that_contradict_themselves_are_none)
{
    struct arena a;
    struct error err = {0};
    struct probe_tree tree;
    struct str s;
    arena_init(&a);
    str_init(&s);
    REQUIRE_OK(probe_tree_build(&tree, 32, contradict, NULL, &a, &err), &err);
    CHECK_INT(tree.tree.nodes, 0);
    CHECK(tree.why != NULL);
    REQUIRE_OK(probe_tree_named(&tree, 5, SHAPE_PAIRS_ODD, 0, 0, &a, &err), &err);
    probe_tree_print(&s, &tree);
    CHECK_STR(str_text(&s), "((((0 1) 3) 2) 4)");
    str_release(&s);
    arena_release(&a);
}

// ---- models against exact fractions

static struct dot_model hand_made(const char *name)
{
    struct dot_model m = {.name = name, .accumulator = dot_format("bf16")};
    if (strncmp(name, "sequential-bf16", 15) == 0)
        m.separate = name[15] != 0;
    if (strncmp(name, "pairwise-bf16", 13) == 0) {
        m.order = DOT_PAIRWISE;
        m.separate = name[13] != 0;
    }
    if (strcmp(name, "blocked-8-bf16") == 0) {
        m.order = DOT_BLOCKED;
        m.block = 8;
    }
    if (strcmp(name, "lanes-8") == 0 || strcmp(name, "exact") == 0) {
        m.accumulator = dot_format("f32");
        m.order = name[0] == 'l' ? DOT_LANES : DOT_EXACT;
        m.block = 8;
    }
    return m;
}

static const json_t *inputs_of(const json_t *doc, const char *type)
{
    const json_t *inputs = json_object_get(doc, "inputs"), *one;
    size_t i;
    json_array_foreach(inputs, i, one)
    {
        if (strcmp(json_string_value(json_object_get(one, "type")), type) == 0)
            return one;
    }
    return NULL;
}

TEST(lab_probe_models_equal_exact_fractions)
{
    json_t *doc = fixture_json("num/dotmodel.json");
    const json_t *cases = json_object_get(doc, "cases"), *c;
    size_t length = (size_t)fixture_number(doc, "length"), i;
    json_array_foreach(cases, i, c)
    {
        const char *name = json_string_value(json_object_get(c, "model"));
        const json_t *in = inputs_of(doc, json_string_value(json_object_get(c, "type")));
        const struct probe_known *k = probe_known_find(name);
        struct dot_model m = k ? k->model : hand_made(name);
        size_t n, dots, wrong = 0;
        float *a = fixture_floats(in, "a", &n), *b = fixture_floats(in, "b", &n),
              *out = fixture_floats(c, "out", &dots);
        REQUIRE(n == dots * length && dots > 0 && length <= 64);
        for (size_t d = 0; d < dots; d++) {
            double x[64], y[64], got;
            struct error err = {0};
            for (size_t p = 0; p < length; p++) {
                x[p] = (double)a[d * length + p];
                y[p] = (double)b[d * length + p];
            }
            REQUIRE_OK(dot_model_run(&m, x, 1, y, 1, length, &got, &err), &err);
            wrong += got != (double)out[d];
        }
        if (!CHECK(wrong == 0))
            printf("    %s: %zu of %zu\n", name, wrong, dots);
        free(a);
        free(b);
        free(out);
    }
    json_decref(doc);
}

// What XLA computed on a CPU of its makers' choice: products in order, fused.
TEST(lab_probe_model_of_xla_equals_a_product_of_xla)
{
    json_t *doc = fixture_json("num/dotmodel.json");
    const json_t *x = json_object_get(doc, "xla_cpu");
    enum { M = 128, K = 256, N = 128, ROWS = 2 };
    static double a[M * K], b[K * N];
    struct random_numpy r;
    struct error err = {0};
    size_t n;
    float *out = fixture_floats(x, "out", &n);
    REQUIRE(n == (size_t)ROWS * N);
    random_numpy_seed(&r, (uint64_t)fixture_number(x, "seed"));
    random_numpy_uniform(&r, -1, 1, a, (size_t)M * K);
    random_numpy_uniform(&r, -1, 1, b, (size_t)K * N);
    for (size_t i = 0; i < (size_t)M * K; i++)
        a[i] = (double)(float)a[i];
    for (size_t i = 0; i < (size_t)K * N; i++)
        b[i] = (double)(float)b[i];
    for (size_t i = 0; i < n; i++) {
        double got;
        REQUIRE_OK(
            dot_model_run(&probe_known_find("xla-cpu-f32")->model, a + i / N * K, 1, b + i % N, N, K, &got, &err),
            &err);
        CHECK(got == (double)out[i]);
    }
    free(out);
    json_decref(doc);
}

// ---- known devices

static bool twins(const char *x, const char *y)
{
    return (strcmp(x, "mi100-bf16") == 0 && strcmp(y, "arm-bfdot-ebf") == 0) ||
           (strcmp(y, "mi100-bf16") == 0 && strcmp(x, "arm-bfdot-ebf") == 0);
}

static void check_known(const struct probe_known *k)
{
    struct probe_simulated s = {.model = &k->model};
    struct probe_target t;
    struct probe_float p;
    struct arena a;
    struct error err = {0};
    arena_init(&a);
    probe_target_simulate(&t, probe_path_find(k->path), SMALL, LENGTH, SMALL, &s);
    t.dots = DOTS;
    REQUIRE_OK(probe_float_run(&p, &t, NULL, &a, &err), &err);
    const struct probe_fingerprint *f = &p.print;
    const struct dot_model *m = &k->model;
    bool ok = CHECK(f->operand != NULL) && CHECK_STR(f->operand, m->operand->name);
    ok &= CHECK_INT(f->passes, m->passes);
    if (strcmp(f->operand ? f->operand : "", dtype_name(t.path->lhs)) != 0)
        ok &= CHECK_INT(f->operand_rounding, m->operand_rounding);
    ok &= CHECK_INT(f->guard, m->guard);
    ok &= CHECK_INT(f->operand_flush, m->operand_flush);
    ok &= CHECK(f->accumulator != NULL) && CHECK_STR(f->accumulator, m->accumulator->name);
    if (m->order != DOT_FUSED_LATE)
        ok &= CHECK_INT(f->rounding, m->rounding);
    if (m->order == DOT_FUSED)
        ok &= CHECK_INT(f->bits_block, m->fraction);
    ok &= CHECK_INT(f->tree.block, m->block);
    if (f->fusion == FUSION_FMA || f->fusion == FUSION_SEPARATE)
        ok &= CHECK_INT(f->fusion == FUSION_SEPARATE, m->separate);
    ok &= CHECK_INT(f->explained, f->operands);
    ok &= CHECK_INT(f->rivals, 0);
    ok &= CHECK(!f->stochastic);
    ok &= CHECK_INT(f->same, f->replayed);
    ok &= CHECK(f->replayed >= DOTS);
    ok &= CHECK(f->repeats_same && f->rows_same);
    ok &= CHECK_INT(f->evidence_same, f->evidence);
    ok &= CHECK(f->unexplained == NULL);
    if (f->unexplained)
        printf("    unexplained: %s\n", f->unexplained);
    // The nearest known device is this one, and no other fits as well.
    REQUIRE(p.n_matches > 0);
    const struct probe_match *first = &p.matches[0];
    ok &= CHECK_INT(first->differs, 0);
    ok &= CHECK_INT(first->same, first->tried);
    ok &= CHECK(first->known == k || twins(first->known->key, k->key));
    for (size_t i = 1; i < p.n_matches; i++) {
        const struct probe_match *other = &p.matches[i];
        bool fits = other->differs == 0 && other->same == other->tried;
        ok &= CHECK(!fits || twins(other->known->key, k->key) || twins(other->known->key, first->known->key));
    }
    if (!ok)
        printf("    of %s\n", k->key);
    arena_release(&a);
}

TEST(lab_probe_known_devices_are_told_apart)
{
    const struct probe_known *k;
    size_t n = 0;
    for (; (k = probe_known_at(n)); n++) {
        CHECK(probe_path_find(k->path) != NULL);
        CHECK(probe_known_find(k->key) == k);
        check_known(k);
    }
    CHECK(n >= 22);
}

// Arithmetic that no device of the table has.
TEST(lab_probe_reads_what_it_has_not_seen_before)
{
    const struct {
        struct dot_model model;
        const char *path, *accumulator, *inner;
        int far, stagnates;
    } cases[] = {
        // Sums of every step in bf16, or in f16.
        {{.name = "bf16 sums", .operand = dot_format("bf16"), .accumulator = dot_format("bf16")},
         "bf16",
         "bf16",
         "",
         7,
         256},
        {{.name = "f16 sums", .operand = dot_format("f16"), .accumulator = dot_format("f16")},
         "f16:f16",
         "f16",
         "",
         10,
         2048},
        // f32 inside blocks, and bf16 between them.
        {{.name = "bf16 carry",
          .operand = dot_format("bf16"),
          .accumulator = dot_format("bf16"),
          .order = DOT_BLOCKED,
          .block = 16},
         "bf16",
         "bf16",
         "f32",
         7,
         0},
        {{.name = "stepwise toward zero",
          .operand = dot_format("bf16"),
          .accumulator = dot_format("f32"),
          .rounding = DOT_TOWARD_ZERO},
         "bf16",
         "f32",
         "",
         23,
         0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct probe_simulated s = {.model = &cases[i].model};
        struct probe_target t;
        struct probe_float p;
        struct arena a;
        struct error err = {0};
        arena_init(&a);
        struct probe_target wide;
        probe_target_simulate(&t, probe_path_find(cases[i].path), SMALL, LENGTH, SMALL, &s);
        probe_target_simulate(&wide, t.path, 4, 4096, 4, &s);
        t.dots = DOTS;
        REQUIRE_OK(probe_float_run(&p, &t, &wide, &a, &err), &err);
        bool ok = CHECK(p.print.accumulator != NULL) && CHECK_STR(p.print.accumulator, cases[i].accumulator);
        ok &= CHECK_INT(p.print.stagnates, cases[i].stagnates);
        ok &= CHECK_STR(p.print.inner ? p.print.inner : "", cases[i].inner);
        ok &= CHECK_INT(p.print.same, p.print.replayed);
        ok &= CHECK_INT(p.print.bits_far, cases[i].far);
        ok &= CHECK_INT(p.print.rounding, cases[i].model.rounding);
        if (!ok)
            printf("    of %s\n", cases[i].model.name);
        arena_release(&a);
    }
}

// ---- devices that do not keep still, or refuse

struct unsteady {
    struct probe_simulated inner;
    size_t calls, fails_at;
};

static int wobble(struct probe_target *t, const double *a, const double *b, double *c, bool diagonal, struct error *err)
{
    struct unsteady *u = t->context;
    struct probe_target inner;
    probe_target_simulate(&inner, t->path, t->m, t->k, t->n, &u->inner);
    if (u->fails_at && ++u->calls >= u->fails_at)
        return error_set(err, ERR_DEVICE, NULL, "the device went away");
    int rc = inner.multiply(&inner, a, b, c, diagonal, err);
    for (size_t i = 0; i < t->m && i < t->n && !u->fails_at; i += 3) // stochastic rounding of some results
        c[i * t->n + i] *= 1 + 0x1p-7;
    return rc;
}

TEST(lab_probe_sees_that_a_result_is_not_always_the_same)
{
    struct unsteady u = {.inner = {.model = &probe_known_find("f32-fma")->model}};
    struct probe_target t = {.path = probe_path_find("f32"), .m = SMALL, .k = LENGTH, .n = SMALL};
    struct probe_float p;
    struct arena a;
    struct error err = {0};
    t.context = &u;
    t.multiply = wobble;
    t.dots = 256;
    arena_init(&a);
    REQUIRE_OK(probe_float_run(&p, &t, NULL, &a, &err), &err);
    CHECK(p.print.stochastic);
    CHECK(p.print.same < p.print.replayed);
    u.fails_at = 20;
    CHECK_INT(probe_float_run(&p, &t, NULL, &a, &err), ERR_DEVICE);
    arena_release(&a);
}

// ---- integers

TEST(lab_probe_integer_kinds_are_told_apart)
{
    static const struct {
        const char *path;
        enum dot_integer kind;
    } cases[] = {{"s8", DOT_INT_WRAP},      {"s8", DOT_INT_SATURATE}, {"s8", DOT_INT_PAIRS16_S8}, {"s8", DOT_INT_F32},
                 {"u8s8", DOT_INT_PAIRS16}, {"u8s8", DOT_INT_WRAP},   {"u8", DOT_INT_SATURATE}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct probe_simulated s = {.integer = cases[i].kind};
        struct probe_target t, longer;
        struct probe_integer p;
        struct arena a;
        struct error err = {0};
        arena_init(&a);
        probe_target_simulate(&t, probe_path_find(cases[i].path), SMALL, LENGTH, SMALL, &s);
        probe_target_simulate(&longer, t.path, 2, PROBE_LONG_SUM, 2, &s);
        t.dots = DOTS;
        REQUIRE_OK(probe_integer_run(&p, &t, &longer, &a, &err), &err);
        bool ok = CHECK(p.explained);
        ok &= CHECK_INT(p.kind, cases[i].kind);
        ok &= CHECK_INT(p.rivals, 0);
        ok &= CHECK_INT(p.same, p.replayed);
        if (!ok)
            printf("    of %s, %s\n", cases[i].path, dot_integer_name(cases[i].kind));
        arena_release(&a);
    }
}

// ---- claims

TEST(lab_probe_claims_name_the_probe_that_refutes_them)
{
    static const struct {
        const char *device;
        enum probe_answer answer;
        const char *why;
    } cases[] = {{"f32-fma", PROBE_YES, "whole"},
                 {"xla-cpu-f32", PROBE_YES, "whole"},
                 {"tpu-default", PROBE_NO, "probe 1: (1 + 2^-t) * 1 comes back whole only to t = 7, f32 has 23"},
                 {"gpu-bf16x3", PROBE_NO, "probe 1: (2 - 2^-t) * 1 comes back whole only to t = 15"},
                 {"tpu-high", PROBE_NO, "probe 2"},
                 {"tpu-highest", PROBE_NO, "6 products of parts of bf16"},
                 {"gpu-bf16x9", PROBE_NO, "9 products of parts of bf16"},
                 {"h100-tf32", PROBE_NO, "only to t = 10"},
                 {"h100-bf16", PROBE_YES, "whole"},
                 {"h100-f8e4m3fn", PROBE_NO, "probe 9: beside 1 the sum keeps 13 fraction bits, not 23"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct probe_run r;
        struct error err = {0};
        const struct probe_known *k = probe_known_find(cases[i].device);
        struct probe_options o = {.m = SMALL, .k = LENGTH, .n = SMALL, .claim = k->path, .simulate = k, .dots = 256};
        REQUIRE_OK(probe_check(&o, &err), &err);
        REQUIRE_OK(probe_execute(&r, &o, NULL, NULL, &err), &err);
        bool ok = CHECK_INT(r.claim.answer, cases[i].answer);
        ok &= CHECK(strstr(r.claim.why, cases[i].why) != NULL);
        if (!ok)
            printf("    of %s: %s\n", cases[i].device, r.claim.why);
        probe_release(&r);
    }
}

TEST(lab_probe_claims_about_rows_without_an_answer)
{
    struct probe_row rows[] = {{.path = probe_path_find("f32"), .m = 8, .k = 8, .n = 8, .status = PROBE_REFUSED},
                               {.path = probe_path_find("bf16"), .m = 8, .k = 8, .n = 8, .status = PROBE_DIED}};
    rows[0].reason = rows[1].reason = "no such thing";
    struct probe_run r = {.rows = rows, .n_rows = 2};
    struct probe_claim c;
    probe_judge(&c, &r, "f32");
    CHECK_INT(c.answer, PROBE_NO);
    CHECK(strstr(c.why, "refuses the product: no such thing") != NULL);
    probe_judge(&c, &r, "bf16");
    CHECK_INT(c.answer, PROBE_CANNOT_TELL);
    probe_judge(&c, &r, "s8");
    CHECK_INT(c.answer, PROBE_CANNOT_TELL);
}

TEST(lab_probe_options_are_checked)
{
    struct error err = {0};
    const char *path = "f31";
    struct probe_options o = {.m = 8, .k = 8, .n = 8, .paths = &path, .n_paths = 1};
    CHECK_INT(probe_check(&o, &err), ERR_USAGE);
    CHECK(strstr(err.message, "f32:highest") != NULL);
    error_clear(&err);
    o.n_paths = 0;
    o.claim = "float";
    CHECK_INT(probe_check(&o, &err), ERR_USAGE);
    error_clear(&err);
    o.claim = NULL;
    o.k = 4;
    CHECK_INT(probe_check(&o, &err), ERR_USAGE);
}
