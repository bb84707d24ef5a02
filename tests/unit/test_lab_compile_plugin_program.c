// SPDX-License-Identifier: Apache-2.0
// Programs that somebody exported, for the TPU compiler: whatever the form, it is the same program.
#include "lab/compile.h"

#include <math.h>

#include "fixture.h"
#include "models/builtin.h"
#include "worker_test.h"

static const char *const v6e[] = {"v6e"};

// Compiles a fixture for one target; false where the plugin is not here. To be closed in either case.
static bool ask(struct compile *c, const char *file, const struct compile_job *options)
{
    const char *plugin = worker_test_libtpu();
    struct compile_job o = *options;
    struct error err = {0};
    memset(c, 0, sizeof *c);
    if (!plugin)
        return false;
    o.workload = fixture_path(file);
    o.plugin = plugin;
    o.timeout_s = 900;
    o.targets = o.n_targets ? o.targets : v6e;
    o.n_targets = 1;
    int rc = compile_open(c, &o, &err);
    if (!rc)
        rc = compile_run(c, &err);
    if (rc)
        test_fail_error(__FILE__, __LINE__, file, err.where, err.message);
    return rc == 0 && CHECK_INT(c->cases[0].state, COMPILE_DONE);
}

static void fingerprint_of(const char *file, char out[65])
{
    struct compile c;
    struct compile_job o = {.no_evidence = true};
    out[0] = '\0';
    if (ask(&c, file, &o) && c.cases[0].fingerprint)
        snprintf(out, 65, "%s", c.cases[0].fingerprint);
    compile_close(&c);
}

TEST(lab_compile_plugin_program_forms_are_one_program)
{
    static const char *const alike[][2] = {
        {"ir/stablehlo/classifier.mlir", "ir/stablehlo/classifier.mlirbc"},
        {"ir/stablehlo/classifier.mlirbc", "ir/stablehlo/classifier.exported"},
        // HLO goes to the compiler as a message, which is made of the text.
        {"ir/programs/encoder.before_optimizations.hlo.pb", "ir/programs/encoder.before_optimizations.txt"}};
    if (!worker_test_libtpu())
        return;
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
        char one[65], other[65];
        fingerprint_of(alike[i][0], one);
        fingerprint_of(alike[i][1], other);
        CHECK(one[0] != '\0');
        CHECK_STR(other, one);
    }
}

// Of the arguments that are called as JAX calls the leaves of "params", each at least as large as its values.
static int64_t named_bytes(const struct compile_case *k)
{
    int64_t bytes = 0;
    int n = 0;
    for (size_t i = 0; i < k->n_buffers; i++) {
        if (strncmp(k->buffers[i].owner, "params['", 8) != 0)
            continue;
        bytes += k->buffers[i].bytes;
        n++;
    }
    CHECK_INT(n, 4);
    CHECK(bytes >= (k->policy ? 2 : 4) * (64 * 48 + 48 + 48 * 10 + 10));
    return bytes;
}

TEST(lab_compile_plugin_program_shows_arithmetic_and_weights)
{
    struct compile c;
    struct compile_job o = {.shape.weight_args = "0..3"};
    if (!ask(&c, "ir/stablehlo/classifier.mlirbc", &o)) {
        compile_close(&c);
        return;
    }
    const struct compile_case *k = &c.cases[0];
    double flop = 0;
    for (size_t i = 0; i < k->n_ops; i++) {
        flop += k->ops[i].flop;
        if (k->ops[i].flop > 0)
            CHECK(k->ops[i].arithmetic != NULL);
    }
    CHECK_NEAR(flop, 2.0 * 8 * (64 * 48 + 48 * 10), 0);
    CHECK(k->floor_s > 0);
    // Images of 8 x 64, padded to a tile of 8 x 128, are all that is no weight.
    CHECK_INT(k->memory.arguments - k->weight_bytes, 4 * 8 * 128);
    CHECK_INT(k->weight_bytes, named_bytes(k));
    compile_close(&c);
}

TEST(lab_compile_plugin_program_is_rewritten_for_a_policy)
{
    static const char *const policies[] = {"bf16"};
    struct compile c;
    struct compile_job o = {.shape.weight_args = "0..3", .policies = policies, .n_policies = 1};
    if (ask(&c, "ir/stablehlo/classifier.mlir", &o)) {
        const struct compile_case *k = &c.cases[0];
        for (size_t i = 0; i < k->n_ops; i++) {
            if (k->ops[i].flop > 0)
                CHECK_INT(k->ops[i].type, DT_BF16);
        }
        CHECK_INT(k->weight_bytes, named_bytes(k));
    }
    compile_close(&c);
}

TEST(lab_compile_plugin_program_is_divided_as_it_says)
{
    static const char *const slice[] = {"v6e:4x4"}; // more than the eight that they say
    static const char *const files[] = {"ir/stablehlo/sharded.mlirbc",
                                        "ir/programs/sharded.before_optimizations.hlo.pb"};
    for (size_t i = 0; i < 2; i++) {
        struct compile c;
        struct compile_job o = {.targets = slice, .n_targets = 1};
        size_t collectives = 0;
        if (ask(&c, files[i], &o)) {
            for (size_t k = 0; k < c.cases[0].n_ops; k++)
                collectives += c.cases[0].ops[k].kind == COMPILE_COLLECTIVE;
            CHECK_INT(c.cases[0].partitions, 8);
            CHECK(collectives > 0);
        }
        compile_close(&c);
    }
}
