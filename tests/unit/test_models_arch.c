// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "fixture.h"
#include "models/arch.h"
#include "test.h"

// Every family against transformers: the same number of parameters, and the same layers local.
TEST(models_arch_counts_what_transformers_counts)
{
    struct error e = {0};
    json_t *root = fixture_json("models/arch.json");
    REQUIRE(root);
    json_t *models = json_object_get(root, "models"), *m;
    size_t i, families = 0;
    const char *last = "";
    CHECK(json_array_size(models) > 60);
    json_array_foreach(models, i, m)
    {
        struct arena arena;
        struct hf_config c;
        struct arch a;
        arena_init(&arena);
        const char *name = json_string_value(json_object_get(m, "name"));
        char *text = json_dumps(json_object_get(m, "config"), JSON_COMPACT);
        REQUIRE_OK(hf_config_parse(&c, text, strlen(text), name, &e), &e);
        REQUIRE_OK(arch_from_config(&a, &c, &arena, &e), &e);
        bool same = CHECK_NEAR(a.parameters, json_number_value(json_object_get(m, "parameters")), 0);
        const json_t *local = json_object_get(m, "local_layers");
        same &= CHECK_INT(arch_layers_local(&a, 0, a.layers), json_array_size(local));
        for (size_t k = 0; k < json_array_size(local); k++) {
            int64_t layer = json_integer_value(json_array_get(local, k));
            same &= CHECK(a.flags[layer] & ARCH_LOCAL);
        }
        if (!same)
            printf("    %s: %.0f\n", name, a.parameters);
        families += strcmp(last, a.family) != 0;
        last = a.family;
        free(text);
        hf_config_release(&c);
        arena_release(&arena);
    }
    CHECK(families >= 20);
    json_decref(root);
}

// The built-in list against what the publishers' files hold.
TEST(models_arch_builtin_models_have_their_published_size)
{
    for (size_t i = 0; arch_builtin_name(i); i++) {
        struct error e = {0};
        struct arena arena;
        struct arch a;
        arena_init(&arena);
        REQUIRE_OK(arch_builtin(&a, arch_builtin_name(i), &arena, &e), &e);
        CHECK(strstr(a.source, "https://huggingface.co/") == a.source);
        CHECK(a.published > 0 || a.kind == ARCH_DIFFUSION);
        if (a.published > 0 && !CHECK_NEAR(a.parameters, a.published, 0))
            printf("    %s: %.0f\n", a.name, a.parameters - a.published);
        arena_release(&arena);
    }
}
