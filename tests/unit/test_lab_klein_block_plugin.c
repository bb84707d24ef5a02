// SPDX-License-Identifier: Apache-2.0
// The first double and the first single block of FLUX.2 klein-4B in full size, with the weights of random:1, against
// diffusers (tests/oracle/flux2_block.py).
#include "io/random_checkpoint.h"
#include "ir/policy.h"
#include "ir_test.h"
#include "lab/stage.h"
#include "models/flux2_tensors.h"
#include "num/random.h"
#include "worker_test.h"

struct list {
    struct arena arena;
    struct random_tensor *tensors;
    size_t n, cap;
};

static int add(void *context, const struct flux2_tensor *t, struct error *err)
{
    struct list *l = context;
    l->tensors = arena_grow(&l->arena, l->tensors, &l->cap, l->n + 1, sizeof *l->tensors, err);
    if (!l->tensors)
        return ERR_MEMORY;
    l->tensors[l->n] = (struct random_tensor){.name = arena_strdup(&l->arena, t->name, err), .rank = t->rank};
    memcpy(l->tensors[l->n++].dims, t->dims, sizeof t->dims);
    return 0;
}

// Result i, of whose last dimension the fixture holds the end.
static void compare(const struct ir_fixture *f, struct stage *s, int i, int buffer, const char *key, double bound)
{
    const void *want;
    const struct shape *shape = stage_result(s, i);
    struct shape kept = ir_fixture_array(f, json_object_get(f->root, key), &want);
    int64_t all = shape->dims[2], part = kept.dims[2], rows = shape->dims[1];
    struct error err = {0};
    void *raw = malloc((size_t)shape_bytes(shape));
    REQUIRE_OK(stage_download(s, i, buffer, raw, &err), &err);
    double *got = malloc((size_t)(rows * part) * sizeof *got), *wide = ir_doubles(DT_F32, want, rows * part);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < part; c++)
            got[r * part + c] = ir_element(shape->dtype, raw, r * all + all - part + c);
    double off = ir_rel_l2(got, wide, rows * part);
    if (!CHECK(off <= bound) || getenv("ASSAY_TEST_VERBOSE"))
        printf("  %s: %g off\n", key, off);
    free(raw);
    free(got);
    free(wide);
}

// f32: products of up to 27648 terms in another order. bf16: 45 dB are asked of a block, that is 5.6e-3, and 35 dB of a
// velocity; the residual stream itself is rounded to 8 bits (2.3e-3 of a value, as a root mean square 1.1e-3) after
// every addition.
TEST(lab_klein_block_plugin_in_full_size_equals_diffusers)
{
    static const struct {
        const char *policy;
        double block, velocity;
    } runs[] = {{"f32", 1e-5, 1e-4}, {"bf16", 5.6e-3, 1.8e-2}};
    static const char *const keys[] = {"double.text", "double.image", "single", "velocity"};
    struct ir_fixture f;
    struct list l = {.n = 0};
    struct checkpoint c;
    struct error err = {0};
    ir_fixture_open(&f, "flux2_block");
    struct flux2_config config = *flux2_builtin("flux2-klein-4b");
    config.dit.double_blocks = config.dit.single_blocks = 1;
    config.text_tokens = json_integer_value(json_object_get(f.root, "text_tokens"));
    struct flux2_build how = {.batch = 1,
                              .rows = json_integer_value(json_object_get(f.root, "rows")),
                              .columns = json_integer_value(json_object_get(f.root, "columns")),
                              .also = TAPS_LAYERS};
    arena_init(&l.arena);
    REQUIRE_OK(flux2_tensors(&config, FLUX2_DIT, add, &l, &err), &err);
    REQUIRE_OK(random_checkpoint(&c, l.tensors, l.n, 1, &err), &err);
    size_t image = (size_t)(how.rows * how.columns), text = (size_t)config.text_tokens, half = 64;
    float *latent = malloc(image * 128 * sizeof(float)), *context = malloc(text * 7680 * sizeof(float));
    float *rope[2] = {malloc((image + text) * half * sizeof(float)), malloc((image + text) * half * sizeof(float))};
    float time = (float)json_number_value(json_object_get(f.root, "timestep"));
    struct random_numpy random;
    random_numpy_seed(&random, 30);
    random_numpy_standard_normal_f32(&random, latent, image * 128);
    random_numpy_standard_normal_f32(&random, context, text * 7680);
    flux2_rope(&config, how.rows, how.columns, 0, NULL, rope[0], rope[1]);
    struct worker *w = worker_test_start(NULL, NULL);
    REQUIRE(w != NULL);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct module plain, m;
        struct policy p;
        struct stage s;
        int outputs[4];
        module_init(&plain, &l.arena, "blocks");
        module_init(&m, &l.arena, "blocks");
        REQUIRE_OK(policy_parse(&p, runs[i].policy, &err), &err);
        REQUIRE_OK(flux2_dit_module(&config, &how, &plain, &err), &err);
        REQUIRE_OK(module_apply_policy(&plain, &p, false, &m, &err), &err);
        REQUIRE_OK(stage_compile(&s, w, "blocks", &m, false, &err), &err);
        REQUIRE_OK(stage_load(&s, &c, &err), &err);
        // In bf16 nothing but the norms' scales, which are kept in f32 only by other policies, has to be copied.
        if (i == 1)
            CHECK(s.weights.zero_copy_bytes > 1000000000 && s.weights.copied_bytes == 0);
        REQUIRE_OK(stage_upload(&s, "latent", latent, &err), &err);
        REQUIRE_OK(stage_upload(&s, "context", context, &err), &err);
        REQUIRE_OK(stage_upload(&s, "timestep", &time, &err), &err);
        REQUIRE_OK(stage_upload(&s, "rope_cos", rope[0], &err), &err);
        REQUIRE_OK(stage_upload(&s, "rope_sin", rope[1], &err), &err);
        REQUIRE_OK(stage_run(&s, outputs, &err), &err);
        for (int k = 0; k < 4; k++)
            compare(&f, &s, k, outputs[k], keys[k], k == 3 ? runs[i].velocity : runs[i].block);
        stage_release(&s);
    }
    worker_stop(w);
    free(latent);
    free(context);
    free(rope[0]);
    free(rope[1]);
    checkpoint_close(&c);
    arena_release(&l.arena);
    ir_fixture_close(&f);
}
