// SPDX-License-Identifier: Apache-2.0
// Divided programs, by the TPU compiler: what devices send is what they send when JAX divides the same programs;
// several slices; pipelines.
#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "fixture.h"
#include "lab/compile.h"
#include "worker_test.h"

static bool ask(struct compile *c, struct compile_job o)
{
    struct error err = {0};
    o.plugin = worker_test_libtpu();
    memset(c, 0, sizeof *c);
    if (!o.plugin)
        return false;
    setenv("TMPDIR", test_dir(), 1);
    o.no_evidence = true;
    o.precision = "default"; // one pass: faster
    o.timeout_s = 900;
    int rc = compile_open(c, &o, &err);
    if (!rc)
        rc = compile_run(c, &err);
    if (rc)
        test_fail_error(__FILE__, __LINE__, "compile", err.where, err.message);
    for (size_t i = 0; i < c->n_cases && !rc; i++) {
        if (!CHECK_INT(c->cases[i].state, COMPILE_DONE))
            printf("  %s: %s\n", o.layout, c->cases[i].error.message);
    }
    return rc == 0;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Sizes of the collectives of a kind, ascending.
static size_t sizes_of(const struct compile_case *k, const char *kind, double *out, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < k->n_ops; i++) {
        if (k->ops[i].kind == COMPILE_COLLECTIVE && strcmp(k->ops[i].collective, kind) == 0 && n < cap)
            out[n++] = k->ops[i].wire_bytes;
    }
    qsort(out, n, sizeof *out, by_size);
    return n;
}

static size_t collectives_of(const struct compile_case *k)
{
    size_t n = 0;
    for (size_t i = 0; i < k->n_ops; i++)
        n += k->ops[i].kind == COMPILE_COLLECTIVE;
    return n;
}

static void compare(const json_t *fixture, const json_t *c)
{
    const char *target = json_string_value(json_object_get(fixture, "target"));
    struct compile compiled;
    struct compile_job o = {.workload = json_string_value(json_object_get(fixture, "workload")),
                            .shape.seq = json_integer_value(json_object_get(fixture, "seq")),
                            .shape.batch = json_integer_value(json_object_get(c, "batch")),
                            .layout = json_string_value(json_object_get(c, "layout")),
                            .targets = &target,
                            .n_targets = 1};
    if (!ask(&compiled, o))
        return;
    const struct compile_case *k = &compiled.cases[0];
    const char *kind;
    json_t *list;
    size_t all = 0;
    json_object_foreach(json_object_get(c, "collectives"), kind, list)
    {
        double sizes[64] = {0};
        size_t n = sizes_of(k, kind, sizes, 64);
        all += json_array_size(list);
        if (!CHECK_INT(n, json_array_size(list)))
            printf("  %s: %s\n", o.layout, kind);
        for (size_t i = 0; i < n && i < json_array_size(list); i++)
            CHECK_NEAR(sizes[i], (double)json_integer_value(json_array_get(list, i)), 0);
    }
    if (!CHECK_INT(collectives_of(k), all))
        printf("  %s\n", o.layout);
    compile_close(&compiled);
}

TEST(lab_compile_plugin_divided_as_jax_does)
{
    json_t *fixture = fixture_json("lab/divided.json");
    for (size_t i = 0; i < json_array_size(json_object_get(fixture, "cases")); i++)
        compare(fixture, json_array_get(json_object_get(fixture, "cases"), i));
    json_decref(fixture);
}

// Keys and values of a device go to the next seven times; the first layer of numbering is not the ring's, so that on
// 2x4 some steps are two hops, and a link has two of them.
TEST(lab_compile_plugin_divided_ring)
{
    static const char *const targets[] = {"v6e:2x4"};
    struct compile c;
    if (!ask(&c, (struct compile_job){.workload = "builtin:transformer-block:512x8x1024",
                                      .shape.seq = 256,
                                      .layout = "ring",
                                      .targets = targets,
                                      .n_targets = 1}))
        return;
    double sizes[64];
    size_t n = sizes_of(&c.cases[0], "collective-permute", sizes, 64);
    CHECK_INT(n, 14);
    CHECK_INT(collectives_of(&c.cases[0]), 14);
    for (size_t i = 0; i < n; i++)
        CHECK_NEAR(sizes[i], 256.0 / 8 * 512 * 2, 0); // rounded to bf16 before they are sent
    for (size_t i = 0; i < c.cases[0].n_ops; i++) {
        const struct compile_op *op = &c.cases[0].ops[i];
        if (op->kind != COMPILE_COLLECTIVE)
            continue;
        CHECK_STR(op->groups, "8 pairs");
        CHECK(op->hops >= 1 && op->contention >= 1);
        CHECK_NEAR(op->floor_s, fmax(op->wire_bytes * op->contention / 100e9, op->hops * 1e-6), 1e-15);
    }
    compile_close(&c);
}

// Two slices of four: what goes between them goes by the hosts, all devices at once over 25 GB/s of the one host of
// each.
TEST(lab_compile_plugin_divided_slices)
{
    static const char *const targets[] = {"v6e:2x2*2"};
    struct compile c;
    if (!ask(&c, (struct compile_job){.workload = "builtin:transformer-block:512x8x1024",
                                      .shape.seq = 128,
                                      .shape.batch = 8,
                                      .layout = "fsdp",
                                      .targets = targets,
                                      .n_targets = 1}))
        return;
    const struct compile_case *k = &c.cases[0];
    size_t between = 0, inside = 0;
    CHECK_INT(k->n_devices, 8);
    CHECK_INT(k->partitions, 8);
    for (size_t i = 0; i < k->n_ops; i++) {
        const struct compile_op *op = &k->ops[i];
        if (op->kind != COMPILE_COLLECTIVE)
            continue;
        CHECK_STR(op->collective, "all-gather");
        between += op->between;
        inside += !op->between;
        if (op->between) { // half of it comes from the other slice
            CHECK_STR(op->groups, "2 slices");
            CHECK_NEAR(op->floor_s, op->wire_bytes / 2 / (25e9 / 4) + 1e-6, 1e-12); // and a hop
        } else {
            CHECK_INT(op->group_size, 4);
            CHECK(op->box[0] == 2 && op->box[1] == 2);
        }
    }
    CHECK_INT(between, 6); // weights
    CHECK_INT(inside, 6);
    compile_close(&c);
}

// A group that is a part of the slice has its own links: pairs have one.
TEST(lab_compile_plugin_divided_pairs)
{
    static const char *const targets[] = {"v6e:2x4"};
    struct compile c;
    if (!ask(&c, (struct compile_job){.workload = "builtin:transformer-block:512x8x1024",
                                      .shape.seq = 1024,
                                      .shape.batch = 4,
                                      .layout = "dp=4,tp=2",
                                      .targets = targets,
                                      .n_targets = 1}))
        return;
    for (size_t i = 0; i < c.cases[0].n_ops; i++) {
        const struct compile_op *op = &c.cases[0].ops[i];
        if (op->kind != COMPILE_COLLECTIVE)
            continue;
        CHECK_STR(op->groups, "4 of 2");
        CHECK_INT(op->box[0] * op->box[1], 2);
        CHECK_NEAR(op->floor_s, 2 * 0.5 * 1024 * 512 * 4 / 100e9, 1e-15);
    }
    CHECK_INT(collectives_of(&c.cases[0]), 2);
    compile_close(&c);
}

TEST(lab_compile_plugin_divided_pipeline)
{
    static const char *const targets[] = {"v6e:2x2"};
    struct compile c;
    struct compile_pipeline p;
    if (!ask(&c, (struct compile_job){.workload = "builtin:minilm",
                                      .shape.seq = 16,
                                      .shape.batch = 8,
                                      .layout = "dp=2,pp=2,mb=2",
                                      .targets = targets,
                                      .n_targets = 1}))
        return;
    REQUIRE(c.n_cases == 2);
    for (int i = 0; i < 2; i++) {
        const struct compile_case *k = &c.cases[i];
        CHECK_INT(k->partitions, 2);
        CHECK_INT(k->stage.number, i);
        CHECK_INT(k->stage.cut.first_layer, 3 * i);
        CHECK_INT(k->stage.cut.last_layer, 3 * i + 2);
        CHECK_INT(k->stage.sequences, 4);
        CHECK_INT(k->module->parameters[0].role, ROLE_INPUT);
    }
    // Tokens of four sequences; of a device half of them, over one link.
    CHECK_NEAR(c.cases[0].stage.cut.handed_bytes, 4 * 16 * 384 * 4, 0);
    CHECK_NEAR(c.cases[0].stage.handed_s, fmax(4 * 16 * 384 * 4 / 2 / 100e9, 1e-6), 1e-15);
    CHECK_NEAR(c.cases[1].stage.cut.handed_bytes, 0, 0);
    REQUIRE(compile_pipeline(&c, 0, &p));
    CHECK(!compile_pipeline(&c, 1, &p));
    compile_pipeline(&c, 0, &p);
    CHECK_NEAR(p.bubble, 1.0 / 3, 1e-15); // (2 - 1) / (2 + 2 - 1)
    CHECK(isnan(p.floor_s));              // without evidence
    compile_close(&c);
}
