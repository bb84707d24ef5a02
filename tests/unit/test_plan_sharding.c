// SPDX-License-Identifier: Apache-2.0
#include "plan/sharding.h"

#include "models/builtin.h"
#include "test.h"

static int make(struct module_division *s, struct module *m, struct arena *a, const char *workload, int64_t batch,
                const char *layout, int64_t devices, struct error *err)
{
    struct model_shape shape = {.batch = batch, .seq = 16};
    struct layout l;
    bool fixed;
    module_init(m, a, workload);
    int rc = model_module(workload, &shape, m, &fixed, err);
    if (!rc)
        rc = layout_parse(&l, layout, devices, err);
    return rc ? rc : sharding_make(s, m, &l, 1, a, err);
}

static const char *of(const struct module_division *s, const struct module *m, const char *name)
{
    for (int i = 0; i < m->n_parameters; i++) {
        if (strcmp(m->parameters[i].name, name) == 0)
            return s->parameters && s->parameters[i] ? s->parameters[i] : "whole";
    }
    return "no such parameter";
}

TEST(plan_sharding_of_a_block)
{
    struct arena a;
    struct module m;
    struct module_division s;
    struct error err = {0};
    arena_init(&a);
    const char *block = "builtin:transformer-block:64x8x256";
    REQUIRE_OK(make(&s, &m, &a, block, 1, "tp", 8, &err), &err);
    CHECK_STR(of(&s, &m, "x"), "whole");
    CHECK_STR(of(&s, &m, "block.attention.q.weight"), "{devices=[8,1]<=[8]}");
    CHECK_STR(of(&s, &m, "block.mlp.up.weight"), "{devices=[8,1]<=[8]}");
    CHECK_STR(of(&s, &m, "block.attention.out.weight"), "{devices=[1,8]<=[8]}"); // along what it takes
    CHECK_STR(of(&s, &m, "block.mlp.down.weight"), "{devices=[1,8]<=[8]}");
    CHECK(s.results[0] == NULL);
    REQUIRE_OK(make(&s, &m, &a, block, 4, "dp=4,tp=8", 32, &err), &err);
    CHECK_STR(of(&s, &m, "x"), "{devices=[4,1,1,8]<=[32] last_tile_dim_replicate}");
    CHECK_STR(of(&s, &m, "block.mlp.up.weight"), "{devices=[8,1,4]<=[4,8]T(1,0) last_tile_dim_replicate}");
    CHECK_STR(s.results[0], "{devices=[4,1,1,8]<=[32] last_tile_dim_replicate}");
    REQUIRE_OK(make(&s, &m, &a, block, 8, "dp=2,fsdp=4", 8, &err), &err);
    CHECK_STR(of(&s, &m, "x"), "{devices=[8,1,1]<=[8]}");
    CHECK_STR(of(&s, &m, "block.mlp.up.weight"), "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
    // A weight that tp divides along its outputs is divided along the other axis by fsdp, and is gathered along it.
    REQUIRE_OK(make(&s, &m, &a, block, 4, "fsdp=4,tp=2", 8, &err), &err);
    CHECK_STR(of(&s, &m, "block.mlp.up.weight"), "{devices=[2,4]<=[4,2]T(1,0)}");
    CHECK_STR(of(&s, &m, "block.mlp.down.weight"), "{devices=[4,2]<=[8]}");
    CHECK_STR(s.values[m.parameters[6].instruction], "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}");
    REQUIRE_OK(make(&s, &m, &a, block, 1, "ulysses=4,tp=2", 8, &err), &err);
    CHECK_STR(of(&s, &m, "x"), "{devices=[1,4,1,2]<=[8] last_tile_dim_replicate}");
    CHECK_STR(s.results[0], "{devices=[1,4,1,2]<=[8] last_tile_dim_replicate}");
    REQUIRE_OK(make(&s, &m, &a, block, 1, "tp,sp", 8, &err), &err);
    CHECK_STR(of(&s, &m, "x"), "{devices=[1,8,1]<=[8]}");
    REQUIRE_OK(make(&s, &m, &a, block, 1, "single", 1, &err), &err);
    CHECK_STR(of(&s, &m, "block.mlp.up.weight"), "whole");
    arena_release(&a);
}

TEST(plan_sharding_refuses)
{
    static const struct {
        const char *workload, *layout, *says;
        int64_t batch, devices;
    } cases[] = {
        {"builtin:transformer-block:64x8x256", "ep", "divides experts", 1, 8},
        {"builtin:transformer-block:64x8x256", "ulysses", "8 heads", 1, 16}, // 8 heads over 16
        {"builtin:minilm", "ulysses", "--batch 1", 2, 4},                    // two sequences in one axis
        {"gemm:64x64x64:f32", "ulysses", "no sequence", 1, 8},
        {"builtin:copy:64", "tp", "names", 1, 8},
        {"builtin:transformer-block:64x8x250", "tp", "no multiple", 1, 8}, // 250 columns over 8
        {"builtin:transformer-block:64x8x256", "dp", "--batch 8", 3, 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena a;
        struct module m;
        struct module_division s;
        struct error err = {0};
        arena_init(&a);
        int rc = make(&s, &m, &a, cases[i].workload, cases[i].batch, cases[i].layout, cases[i].devices, &err);
        if (!CHECK_INT(rc, ERR_USAGE) || !CHECK(strstr(err.message, cases[i].says)))
            printf("  %s: %s\n", cases[i].layout, err.message);
        arena_release(&a);
    }
}

TEST(models_block_is_what_it_says)
{
    struct arena a;
    struct module m;
    struct error err = {0};
    struct model_shape shape = {0};
    bool fixed;
    arena_init(&a);
    module_init(&m, &a, "block");
    REQUIRE_OK(model_module("builtin:transformer-block", &shape, &m, &fixed, &err), &err);
    int64_t weights, scales;
    module_weight_bytes(&m, &weights, &scales);
    CHECK_INT(weights, 4 * (4 * 3072 * 3072 + 2 * 3072 * 12288));
    CHECK(!fixed && m.n_parameters == 7 && m.n_results == 1);
    static const char *const bad[] = {"builtin:transformer-block:3072x25x12288", "builtin:transformer-block:3072x24",
                                      "builtin:transformer-block:0x1x1", "builtin:transformer-block:1x1x1x1",
                                      "builtin:transformer-blocks"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        module_init(&m, &a, "block");
        err = (struct error){0};
        CHECK_INT(model_module(bad[i], &shape, &m, &fixed, &err), ERR_USAGE);
    }
    arena_release(&a);
}
