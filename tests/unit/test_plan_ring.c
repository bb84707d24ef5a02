// SPDX-License-Identifier: Apache-2.0
// Ring attention of masks that are no trees: values used twice, one after another, have 2^DEEP ways back, and long ones
// would fill the stack. What the blocks compute is compared in test_plan_divide_plugin.c.
#include "ir/builder.h"
#include "models/parts.h"
#include "plan/ring.h"
#include "test.h"

enum { DEEP = 20000, WAYS = 2 };

static int attention(struct builder *b)
{
    const struct shape s = SHAPE(DT_F32, 1, 8, 2, 4); // [batch, tokens, heads, features]
    int q = build_parameter(b, ROLE_INPUT, "q", s, NULL), k = build_parameter(b, ROLE_INPUT, "k", s, NULL),
        v = build_parameter(b, ROLE_INPUT, "v", s, NULL);
    int x = build_dot(b, q, k, 2, (int[]){0, 2}, (int[]){0, 2}, 1, (int[]){3}, (int[]){3}, DT_F32);
    for (int i = 0; i < DEEP; i++)
        x = build_binary(b, OP_MAXIMUM, x, x);
    return build_dot(b, part_softmax(b, x), v, 2, (int[]){0, 1}, (int[]){0, 2}, 1, (int[]){3}, (int[]){1}, DT_F32);
}

TEST(plan_ring_passes_each_value_of_a_mask_once)
{
    struct arena arena;
    struct module m, out;
    struct builder b;
    struct error err = {0};
    arena_init(&arena);
    module_init(&m, &arena, "deep");
    module_init(&out, &arena, "ring");
    builder_init(&b, &m);
    build_result(&b, "y", attention(&b));
    REQUIRE_OK(builder_finish(&b, &err), &err);
    REQUIRE_OK(ring_attention(&m, WAYS, &out, &err), &err);
    int maxima = 0;
    for (int i = 0; i < out.n_instructions; i++)
        maxima += out.instructions[i].op == OP_MAXIMUM;
    CHECK_INT(maxima, WAYS * DEEP + WAYS - 1); // and the running maximum
    arena_release(&arena);
}
