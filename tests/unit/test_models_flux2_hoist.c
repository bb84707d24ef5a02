// SPDX-License-Identifier: Apache-2.0
// What is made once is not in what runs again: a step has none of the work that depends on the prompt or the time
// alone, and no table of positions is computed in any program that a request runs.
#include <string.h>

#include "models/flux2.h"
#include "test.h"

#define PARAMETERS    3875544576 // of klein-4B's transformer
#define CONTEXT       (7680 * 3072)
#define TIME          (256 * 3072 + 3072 * 3072 + (2 * 18432 + 9216 + 6144) * 3072)
#define BYTES(number) ((int64_t)(number)*4) // as built, before a policy

static int64_t weight_bytes(const struct module *m)
{
    int64_t values, scales;
    module_weight_bytes(m, &values, &scales);
    return values + scales;
}

static int count(const struct module *m, enum opcode op)
{
    int n = 0;
    for (int i = 0; i < m->n_instructions; i++)
        n += m->instructions[i].op == op;
    return n;
}

// Products of nothing but weights and inputs that are the same in every step.
static int steady_products(const struct module *m, bool *changes)
{
    int n = 0;
    for (int i = 0; i < m->n_instructions; i++) {
        const struct instruction *in = &m->instructions[i];
        const char *name = in->op == OP_PARAMETER ? m->parameters[in->parameter].name : "";
        changes[i] = strcmp(name, "latent") == 0 || strcmp(name, "step") == 0;
        for (int k = 0; k < in->n_operands; k++)
            changes[i] |= changes[in->operands[k]];
        n += in->op == OP_DOT && !changes[i];
    }
    return n;
}

static int products_that_stay(const struct module *m)
{
    bool *changes = calloc((size_t)m->n_instructions + 1, sizeof *changes);
    int n = steady_products(m, changes);
    free(changes);
    return n;
}

TEST(models_flux2_steps_do_nothing_twice)
{
    const struct flux2_config *c = flux2_builtin("flux2-klein-4b");
    struct flux2_build how = {.batch = 1, .rows = 32, .columns = 32};
    struct arena arena;
    struct module whole, step, prepare;
    struct error err = {0};
    arena_init(&arena);
    module_init(&whole, &arena, "whole");
    module_init(&step, &arena, "step");
    module_init(&prepare, &arena, "prepare");
    REQUIRE_OK(flux2_dit_module(c, &how, &whole, &err), &err);
    how.hoisted_steps = 4;
    REQUIRE_OK(flux2_dit_module(c, &how, &step, &err), &err);
    REQUIRE_OK(flux2_prepare_module(c, &how, &prepare, &err), &err);
    // Every weight is in one of the two, and in one only.
    CHECK_INT(weight_bytes(&whole), BYTES(PARAMETERS));
    CHECK_INT(weight_bytes(&prepare), BYTES(CONTEXT + TIME));
    CHECK_INT(weight_bytes(&step), BYTES(PARAMETERS - CONTEXT - TIME));
    // The embedded prompt is a product that the time does not change.
    CHECK_INT(products_that_stay(&whole) > 0, 1);
    CHECK_INT(products_that_stay(&step), 0);
    CHECK_INT(count(&whole, OP_COSINE) + count(&whole, OP_SINE), 2); // waves of the time, no positions
    CHECK_INT(count(&step, OP_COSINE) + count(&step, OP_SINE), 0);
    arena_release(&arena);
}

// References that are kept: no step has their tokens, and what makes their keys has no weights that the step lacks.
TEST(models_flux2_kept_references_are_no_work_of_steps)
{
    const struct flux2_config *c = flux2_builtin("flux2-klein-9b");
    struct flux2_build how = {.batch = 1, .rows = 16, .columns = 16, .hoisted_steps = 4};
    struct arena arena;
    struct module alone, step, keep;
    struct error err = {0};
    arena_init(&arena);
    module_init(&alone, &arena, "alone");
    module_init(&step, &arena, "step");
    module_init(&keep, &arena, "keep");
    REQUIRE_OK(flux2_dit_module(c, &how, &alone, &err), &err);
    how.hoisted_steps = 5;
    how.reference = 1024;
    how.kept = true;
    REQUIRE_OK(flux2_dit_module(c, &how, &step, &err), &err);
    REQUIRE_OK(flux2_reference_module(c, &how, &keep, &err), &err);
    CHECK_INT(weight_bytes(&step), weight_bytes(&alone));
    CHECK_INT(count(&step, OP_DOT), count(&alone, OP_DOT));
    for (int i = 0; i < keep.n_parameters; i++) {
        bool found = keep.parameters[i].role != ROLE_WEIGHT;
        for (int k = 0; k < step.n_parameters; k++)
            found |= strcmp(keep.parameters[i].name, step.parameters[k].name) == 0;
        if (!CHECK(found))
            printf("  %s\n", keep.parameters[i].name);
    }
    CHECK_INT(keep.n_results, 2);
    CHECK_INT(keep.instructions[keep.results[0]].shape.dims[0], c->dit.double_blocks + c->dit.single_blocks);
    arena_release(&arena);
}

// The encoder makes its mask once for all layers, and positions come as tables.
TEST(models_flux2_text_encoder_makes_its_mask_once)
{
    const struct flux2_config *c = flux2_builtin("flux2-klein-4b");
    struct arena arena;
    struct module text;
    struct error err = {0};
    arena_init(&arena);
    module_init(&text, &arena, "text");
    REQUIRE_OK(flux2_text_module(c, 1, TAPS_NONE, &text, &err), &err);
    CHECK_INT(count(&text, OP_COSINE) + count(&text, OP_SINE) + count(&text, OP_POWER), 0);
    int masks = 0, iotas = 0;
    for (int i = 0; i < text.n_instructions; i++) {
        masks += strcmp(text.instructions[i].scope, "mask") == 0 && text.instructions[i].op == OP_COMPARE;
        iotas += text.instructions[i].op == OP_IOTA;
    }
    CHECK_INT(masks, 2); // not later than the query, and a token: not 27 times as many
    CHECK_INT(iotas, 2);
    arena_release(&arena);
}
