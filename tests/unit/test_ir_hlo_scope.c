// SPDX-License-Identifier: Apache-2.0
// Where in the model an operation is, by its name.
#include "ir/hlo_import.h"
#include "test.h"

TEST(ir_hlo_scope_is_the_path_without_function_and_operation)
{
    static const char *const names[][3] = {
        {"jit(f)/layers_0/mlp/dot_general", "layers_0/mlp", "layers_*/mlp"},
        {"jit(f)/jvp(g)/layers/12/up/add", "layers/12/up", "layers/*/up"},
        {"jit(f)/dot_general", "main", "main"},
        {"params['w']", "main", "main"},
        {"", "main", "main"},
        {"layers/0/up", "layers/0", "layers/*"},
        // Two operations that the translation made one.
        {"jit(f)/layers/0/reshape;jit(f)/layers/0/qkv/dot_general", "layers/0", "layers/*"},
    };
    struct arena arena;
    struct error err = {0};
    arena_init(&arena);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct hlo_instruction in = {.metadata = {.op_name = {(const uint8_t *)names[i][0], strlen(names[i][0])}}};
        const char *scope, *group;
        REQUIRE_OK(hlo_scope(&in, &arena, &scope, &err), &err);
        REQUIRE_OK(hlo_scope_group(scope, &arena, &group, &err), &err);
        CHECK_STR(scope, names[i][1]);
        CHECK_STR(group, names[i][2]);
    }
    arena_release(&arena);
}
