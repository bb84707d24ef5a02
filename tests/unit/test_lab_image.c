// SPDX-License-Identifier: Apache-2.0
// Prompts of `assay image` with the real tokenizer, beside transformers' ids of tests/fixtures/ladder.
#include <string.h>

#include "lab/image_run.h"
#include "lab/ladder_reference.h"
#include "test.h"

#define QWEN "third_party/models/qwen"

static const struct ladder_case *open_prompts(struct ladder_reference *r, struct error *err)
{
    CHECK(ladder_reference_open(r, "tests/fixtures/ladder/klein-tiny-f32", err) == 0);
    return r->n_cases ? r->at : NULL;
}

// Random weights have no tokenizer of their own; one that is named encodes as transformers does.
TEST(lab_image_encodes_prompts_with_a_tokenizer_that_is_named)
{
    struct ladder_reference r;
    struct error err = {0};
    const struct ladder_case *c = open_prompts(&r, &err);
    void *ids = NULL;
    const struct shape shape = SHAPE(DT_S32, 12, 512);
    REQUIRE_OK(ladder_tap_read(&r, "tokens", "input_ids", &shape, &ids, &err), &err);
    for (size_t i = 0; c && i < c->n_prompts; i++) {
        const struct image_options o = {.klein = {.weights = {.weights = "random:1", .tokenizer = QWEN},
                                                  .policy = "bf16",
                                                  .height = 256,
                                                  .width = 256},
                                        .prompt = c->prompts[i],
                                        .output = "image.png"};
        struct image_run run;
        REQUIRE_OK(image_run_open(&run, &o, &err), &err);
        const int32_t *want = (const int32_t *)ids + 512 * i, *empty = ids;
        if (!CHECK(memcmp(run.ids, want, 512 * sizeof *want) == 0))
            printf("  prompt %zu\n", i);
        CHECK(memcmp(run.ids + 512, empty, 512 * sizeof *empty) == 0); // the first prompt of the fixture is empty
        CHECK((run.prompt.cut_prompt > 0) == (i == c->n_prompts - 1));
        image_run_release(&run);
    }
    free(ids);
    ladder_reference_close(&r);
}

// The small model knows 512 tokens, and says so.
TEST(lab_image_refuses_a_tokenizer_of_another_model)
{
    struct error err = {0};
    struct image_run run;
    const struct image_options o = {
        .klein = {.weights = {.weights = "tiny:1", .tokenizer = QWEN}, .policy = "bf16", .height = 256, .width = 256},
        .prompt = "a",
        .output = "image.png"};
    CHECK(image_run_open(&run, &o, &err) == ERR_INPUT);
    if (!CHECK(strstr(err.message, "gives token 151644, and the text encoder knows 512") != NULL))
        printf("  %s\n", err.message);
    image_run_release(&run);
}
