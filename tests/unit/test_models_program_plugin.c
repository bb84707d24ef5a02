// SPDX-License-Identifier: Apache-2.0
// Programs as jax.export writes them (tests/oracle/stablehlo_programs.py): every form is the same program.
#include "models/program.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "fixture.h"
#include "ir/cost.h"
#include "models/builtin.h"
#include "test.h"

static const char *stablehlo(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "ir/stablehlo/%s", name);
    return fixture_path(path);
}

TEST(models_program_form_is_told_by_the_bytes)
{
    static const struct {
        const char *path;
        enum program_form form;
        bool is;
    } files[] = {{"ir/stablehlo/classifier.mlir", PROGRAM_STABLEHLO_TEXT, true},
                 {"ir/stablehlo/classifier.mlirbc", PROGRAM_STABLEHLO, true},
                 {"ir/stablehlo/classifier.exported", PROGRAM_STABLEHLO, true},
                 {"ir/programs/mlp.before_optimizations.txt", PROGRAM_HLO_TEXT, true},
                 {"ir/programs/classifier.hlo.pb", PROGRAM_HLO, true},
                 {"ir/stablehlo/classifier.safetensors", PROGRAM_HLO, false}};
    struct arena arena;
    struct error err = {0};
    arena_init(&arena);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct program_file f;
        const char *path = fixture_path(files[i].path);
        CHECK_INT(program_is(path), files[i].is);
        REQUIRE_OK(program_file_read(&f, path, &arena, &err), &err);
        CHECK_INT(f.form, files[i].form);
        CHECK(files[i].form == PROGRAM_STABLEHLO ? slice_is(f.producer, "StableHLO_v1.15.0") : !f.producer.size);
    }
    // The file that is the Exported's middle part is the portable artifact itself.
    struct program_file whole, part;
    REQUIRE_OK(program_file_read(&whole, stablehlo("classifier.exported"), &arena, &err), &err);
    REQUIRE_OK(program_file_read(&part, stablehlo("classifier.mlirbc"), &arena, &err), &err);
    CHECK(slice_equal(whole.program, part.program));
    CHECK(whole.bytes > part.bytes && strcmp(whole.sha256, part.sha256) != 0);
    CHECK(!program_is(test_dir()));
    CHECK(program_is("/nowhere/not-there.mlir"));
    arena_release(&arena);
}

static void open_classifier(const char *path, struct arena *arena, struct module *m)
{
    struct program p;
    struct error err = {0};
    REQUIRE_OK(program_open(&p, path, "0..3", false, arena, &err), &err);
    module_init(m, arena, "classifier");
    REQUIRE_OK(program_module(&p, m, &err), &err);
    CHECK_INT(p.parsed.n_devices, 1);
}

TEST(models_program_plugin_translates_every_form_alike)
{
    static const char *const names[] = {"classifier.mlir", "classifier.mlirbc", "classifier.exported"};
    static const char *const parameters[] = {"params['b1']", "params['b2']", "params['w1']", "params['w2']", "images"};
    for (size_t i = 0; i < 3; i++) {
        struct arena arena;
        struct module m;
        struct cost_row *rows;
        struct cost total;
        struct error err = {0};
        int n;
        arena_init(&arena);
        open_classifier(stablehlo(names[i]), &arena, &m);
        REQUIRE(m.n_parameters == 5);
        for (int k = 0; k < 5; k++) {
            CHECK_STR(m.parameters[k].name, parameters[k]);
            CHECK_INT(m.parameters[k].role, k < 4 ? ROLE_WEIGHT : ROLE_INPUT);
        }
        REQUIRE_OK(cost_groups(&m, &arena, &rows, &n, &total, &err), &err);
        CHECK_NEAR(cost_product_flop(&total), 2.0 * 8 * (64 * 48 + 48 * 10), 0);
        CHECK_STR(rows[0].group, "hidden");
        arena_release(&arena);
    }
}

static void check_refused(const char *path, int code, const char *text)
{
    struct program p;
    struct arena arena;
    struct error err = {0};
    arena_init(&arena);
    CHECK_INT(program_open(&p, path, NULL, false, &arena, &err), code);
    CHECK_STR(err.where, path);
    if (!strstr(err.message, text))
        test_fail_error(__FILE__, __LINE__, text, err.where, err.message);
    arena_release(&arena);
}

static const char *written(const char *name, const void *bytes, size_t n)
{
    struct error err = {0};
    const char *path = test_below(name);
    if (file_write(path, bytes, n, &err))
        test_fail_error(__FILE__, __LINE__, name, err.where, err.message);
    return path;
}

TEST(models_program_plugin_refuses_with_file_and_reason)
{
    struct str good;
    struct error err = {0};
    str_init(&good);
    REQUIRE_OK(file_read(&good, stablehlo("classifier.mlirbc"), 1 << 20, &err), &err);
    check_refused("/nowhere/not-there.mlir", ERR_INPUT, "cannot be opened");
    check_refused(written("empty.mlir", "", 0), ERR_INPUT, "is empty");
    check_refused(written("words.mlir", "to whom it may concern", 22), ERR_INPUT, "line 1, column 1");
    check_refused(written("cut.mlirbc", good.text, good.length / 2), ERR_INPUT, "bytes when only");
    good.text[4] = 0x7f; // the version of the bytecode, 6, as 63
    check_refused(written("new.mlirbc", good.text, good.length), ERR_INPUT, "newer than the current version");
    check_refused(stablehlo("dynamic.mlirbc"), ERR_INPUT, "its shapes are not fixed");
    static const char *const texts[][2] = {
        {"module @m { func.func @run(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> } }",
         "must be called main"},
        {"module @m { func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
         "  %0 = \"foo.bar\"(%a) : (tensor<4xf32>) -> tensor<4xf32>\n  return %0 : tensor<4xf32> } }",
         "line 2, column 17: operation being parsed with an unregistered dialect"},
        {"module @m { func.func @main(%a: tensor<?x4xf32>) -> tensor<?x4xf32> {\n"
         "  %0 = stablehlo.add %a, %a : tensor<?x4xf32>\n  return %0 : tensor<?x4xf32> } }",
         "is not fixed"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_refused(written("text.mlir", texts[i][0], strlen(texts[i][0])), ERR_INPUT, texts[i][1]);
    // The plugin dies of a function that calls itself, of a signal, or where a sanitizer takes that, with a code: that
    // is the plugin's doing, and names the file.
    static const char endless[] = "module @m { func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
                                  "  %0 = call @main(%a) : (tensor<4xf32>) -> tensor<4xf32>\n"
                                  "  return %0 : tensor<4xf32> } }";
    check_refused(written("endless.mlir", endless, sizeof endless - 1), ERR_DEVICE, "cannot bear it");
    str_release(&good);
}

TEST(models_program_plugin_counts_the_devices_of_a_mesh)
{
    struct program p;
    struct arena arena;
    struct error err = {0};
    arena_init(&arena);
    REQUIRE_OK(program_open(&p, stablehlo("sharded.mlirbc"), NULL, false, &arena, &err), &err);
    CHECK(p.file.divided && p.file.shardy);
    CHECK_INT(p.parsed.n_devices, 8);
    static const char text[] =
        "module @m attributes {mhlo.num_partitions = 4 : i32} {\n"
        "  func.func public @main(%a: tensor<8xf32> {mhlo.sharding = \"{devices=[4]<=[4]}\"}) -> "
        "tensor<8xf32> {\n    return %a : tensor<8xf32>\n  }\n}\n";
    REQUIRE_OK(program_open(&p, written("four.mlir", text, sizeof text - 1), NULL, false, &arena, &err), &err);
    CHECK(p.file.divided && !p.file.shardy);
    CHECK_INT(p.parsed.n_devices, 4);
    arena_release(&arena);
}
