// SPDX-License-Identifier: Apache-2.0
// FLUX.2 in small, with random weights, against diffusers and transformers (tests/oracle/flux2_tiny.py): text encoder,
// transformer, image decoder and encoder in f64, f32 and bf16.
#include <stdlib.h>
#include <zlib.h>

#include "ir/policy.h"
#include "ir/retype.h"
#include "ir_test.h"
#include "models/flux2.h"
#include "num/convert.h"
#include "num/random.h"

enum run_as { AS_F64, AS_F32, AS_BF16, RUNS };

// f64: sums of at most 1000 terms in another order, some 100 operations deep. f32: the same with 2^-24. bf16: 8 bits
// are up to 3.9e-3 per
// operation; 35 dB, which is asked of a whole transformer on an accelerator, is 1.8e-2.
static const double bounds[RUNS] = {1e-12, 2e-5, 1.8e-2};

struct tiny {
    struct rig r;
    struct ir_fixture f;
    struct flux2_config config;
    int64_t rows, columns;
};

static bool tiny_open(struct tiny *t)
{
    ir_fixture_open(&t->f, "flux2_tiny");
    t->config = *flux2_builtin("flux2-tiny");
    t->config.text_tokens = json_integer_value(json_object_get(t->f.root, "text_tokens"));
    t->rows = json_integer_value(json_object_get(t->f.root, "rows"));
    t->columns = json_integer_value(json_object_get(t->f.root, "columns"));
    return rig_open(&t->r, pjrt_test_plugin(false), 1);
}

static void tiny_close(struct tiny *t)
{
    rig_close(&t->r);
    ir_fixture_close(&t->f);
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

// What `drawn` of the script gives for the parameter, in its type; malloc'd.
static void *drawn(const char *name, const struct shape *s)
{
    struct random_numpy random;
    size_t n = (size_t)shape_elements(s);
    double *wide = malloc((n + 1) * sizeof *wide);
    float *narrow = malloc((n + 1) * sizeof *narrow);
    void *out = malloc((size_t)shape_bytes(s) + 1);
    if (wide && narrow && out) {
        random_numpy_seed(&random, crc32(0, (const Bytef *)name, (unsigned)strlen(name)));
        if (ends_with(name, "running_var"))
            random_numpy_uniform(&random, 0.5, 1.5, wide, n);
        else if (s->rank > 1)
            random_numpy_normal(&random, 0, 1 / sqrt((double)(n / (size_t)s->dims[0])), wide, n);
        else if (ends_with(name, "running_mean"))
            random_numpy_normal(&random, 0, 0.2, wide, n);
        else
            random_numpy_normal(&random, ends_with(name, "bias") ? 0 : 1, 0.1, wide, n);
        for (size_t i = 0; i < n; i++)
            narrow[i] = (float)wide[i];
        convert_elements(s->dtype, out, DT_F32, narrow, n, NULL);
    }
    free(wide);
    free(narrow);
    return out;
}

// The module as one of the runs.
static bool rewritten(const struct module *f32, enum run_as as, struct module *to, struct error *err)
{
    struct policy bf16;
    if (as == AS_F64)
        return module_retype_f64(f32, to, err) == 0;
    return policy_parse(&bf16, as == AS_F32 ? "f32" : "bf16", err) == 0 &&
           module_apply_policy(f32, &bf16, false, to, err) == 0;
}

// Runs the module with drawn weights on the inputs, in the order of its parameters; results as f64, malloc'd.
static bool run(struct tiny *t, const struct module *f32, enum run_as as, const void *const *inputs, double **results)
{
    struct module m;
    struct error err = {0};
    void *owned[512] = {0}, *outs[64] = {0};
    const void *args[512];
    int next = 0;
    module_init(&m, f32->arena, "run");
    if (!CHECK(rewritten(f32, as, &m, &err)) || !CHECK(m.n_parameters <= 512 && m.n_results <= 64)) {
        printf("  %s: %s\n", err.where, err.message);
        return false;
    }
    for (int i = 0; i < m.n_parameters; i++) {
        const struct parameter *p = &m.parameters[i];
        if (p->role == ROLE_WEIGHT)
            owned[i] = drawn(p->name, &m.instructions[p->instruction].shape);
        args[i] = p->role == ROLE_WEIGHT ? owned[i] : inputs[next++];
    }
    struct program *program = ir_compile(&t->r, &m);
    if (!CHECK(program))
        printf("  %s\n", t->r.err.message);
    bool ok = program && ir_run(&t->r, program, &m, args, outs);
    for (int i = 0; i < m.n_results && ok; i++) {
        const struct shape *s = &m.instructions[m.results[i]].shape;
        results[i] = ir_doubles(s->dtype, outs[i], shape_elements(s));
        free(outs[i]);
    }
    for (int i = 0; i < m.n_parameters; i++)
        free(owned[i]);
    program_free(program);
    return ok;
}

// Result i against an array of the fixture, of which it may be the first part (every row of `row` values, of which
// the result has the first `have`).
static void check(struct tiny *t, enum run_as as, const char *label, const double *got, const json_t *want)
{
    const void *bytes;
    struct shape s = ir_fixture_array(&t->f, want, &bytes);
    double off = ir_rel_l2(got, bytes, shape_elements(&s));
    if (!CHECK(off <= bounds[as]))
        printf("  %s as %d is %g off\n", label, as, off);
    if (getenv("ASSAY_TEST_VERBOSE"))
        printf("  %s as %d is %g off\n", label, as, off);
}

static const void *array(struct tiny *t, const json_t *of, const char *key)
{
    const void *bytes;
    ir_fixture_array(&t->f, json_object_get(of, key), &bytes);
    return bytes;
}

static void release(double **results, int n)
{
    for (int i = 0; i < n; i++)
        free(results[i]);
}

TEST(models_flux2_plugin_text_encoder_equals_transformers)
{
    struct tiny t;
    REQUIRE(tiny_open(&t));
    const json_t *of = json_object_get(t.f.root, "text"), *layers = json_object_get(of, "layers");
    float cosine[20 * 8], sine[20 * 8];
    decoder_rope(&t.config.text, 0, t.config.text_tokens, cosine, sine);
    const void *inputs[4] = {array(&t, of, "input_ids"), array(&t, of, "attention_mask"), cosine, sine};
    for (int as = 0; as < RUNS; as++) {
        struct arena arena;
        struct module m;
        struct error err = {0};
        double *results[16] = {0};
        arena_init(&arena);
        module_init(&m, &arena, "text");
        REQUIRE_OK(flux2_text_module(&t.config, 3, TAPS_LAYERS, &m, &err), &err);
        CHECK_INT(m.n_results, 6); // layers behind the last tap are not built
        REQUIRE(run(&t, &m, as, inputs, results));
        for (int i = 0; i < 5; i++)
            check(&t, as, m.result_names[i], results[i], json_array_get(layers, (size_t)i));
        check(&t, as, "context", results[5], json_object_get(of, "context"));
        release(results, 16);
        arena_release(&arena);
    }
    tiny_close(&t);
}

// A prompt of 18 tokens and two more behind its cache give what the whole sequence gives.
TEST(models_flux2_plugin_decoder_steps_equal_transformers)
{
    enum { SEQ = 20, PROMPT = 18, BATCH = 3, CACHES = 12, CACHE = BATCH * 2 * 16 };
    struct tiny t;
    struct error err = {0};
    REQUIRE(tiny_open(&t));
    const json_t *of = json_object_get(t.f.root, "text");
    const int32_t *all = array(&t, of, "input_ids");
    const double *logits = array(&t, of, "logits"); // [batch, 3, vocab] of the last three tokens
    float cosine[SEQ * 8], sine[SEQ * 8];
    int32_t ids[BATCH * PROMPT], mask[BATCH * PROMPT];
    double *got[1 + CACHES] = {0}, *cache[CACHES];
    decoder_rope(&t.config.text, 0, SEQ, cosine, sine);
    for (int i = 0; i < BATCH * PROMPT; i++) {
        ids[i] = all[i / PROMPT * SEQ + i % PROMPT];
        mask[i] = 1;
    }
    for (int token = PROMPT - 1; token < SEQ; token++) {
        struct arena arena;
        struct module m;
        bool prompt = token < PROMPT;
        struct decoder_build how = {
            .phase = prompt ? DECODER_PREFILL : DECODER_STEP, .batch = BATCH, .seq = prompt ? PROMPT : SEQ};
        int32_t position = token, one[BATCH];
        for (int i = 0; i < BATCH; i++)
            one[i] = all[i * SEQ + token];
        const void *inputs[4 + CACHES] = {ids, mask, cosine, sine};
        float *states[CACHES] = {0};
        if (!prompt) {
            inputs[0] = one;
            inputs[1] = &position;
            inputs[2] = cosine + token * 8;
            inputs[3] = sine + token * 8;
        }
        for (int i = 0; i < CACHES && !prompt; i++) {
            inputs[4 + i] = states[i] = malloc(SEQ * CACHE * sizeof(float));
            for (int k = 0; k < SEQ * CACHE; k++)
                states[i][k] = (float)cache[i][k];
        }
        arena_init(&arena);
        module_init(&m, &arena, "decoder");
        REQUIRE_OK(decoder_module(&t.config.text, &how, &m, &err), &err);
        CHECK_INT(m.n_results, 1 + CACHES);
        REQUIRE(run(&t, &m, AS_F64, inputs, got));
        const double *next = got[CACHES];
        double off = 0;
        for (int i = 0; i < BATCH; i++)
            off = fmax(off,
                       ir_rel_l2(next + i * 512, logits + ((size_t)i * 3 + (size_t)(token - PROMPT + 1)) * 512, 512));
        // The cache is handed on in f32.
        if (!CHECK(off <= (prompt ? bounds[AS_F64] : 1e-6)))
            printf("  token %d is %g off\n", token, off);
        for (int i = 0; i < CACHES; i++) { // make room for what follows
            if (!prompt)
                free(cache[i]);
            cache[i] = got[i];
            if (prompt) {
                cache[i] = calloc((size_t)SEQ * CACHE, sizeof(double));
                for (int k = 0; k < BATCH; k++)
                    memcpy(cache[i] + k * SEQ * 32, got[i] + k * PROMPT * 32, PROMPT * 32 * sizeof(double));
                free(got[i]);
            }
            free(states[i]);
        }
        free(got[CACHES]);
        arena_release(&arena);
    }
    release(cache, CACHES);
    tiny_close(&t);
}

TEST(models_flux2_plugin_transformer_equals_diffusers)
{
    struct tiny t;
    REQUIRE(tiny_open(&t));
    const json_t *of = json_object_get(t.f.root, "transformer"), *cases = json_object_get(of, "cases");
    CHECK_INT(json_array_size(cases), 2);
    for (int i = 0; i < 2 * RUNS; i++) {
        const json_t *c = json_array_get(cases, (size_t)i / RUNS), *list = json_object_get(c, "references");
        const json_t *trace = json_object_get(c, "trace");
        enum run_as as = (enum run_as)(i % RUNS);
        if (as != AS_F64 && !json_array_size(list)) // one case is enough for the others
            continue;
        int64_t references[4][2] = {0};
        struct flux2_build how = {.batch = 2, .rows = t.rows, .columns = t.columns, .also = TAPS_LAYERS};
        for (size_t r = 0; r < json_array_size(list); r++) {
            ir_fixture_ints(json_array_get(list, r), references[r], 2);
            how.reference += references[r][0] * references[r][1];
        }
        float cosine[64 * 16], sine[64 * 16], time[2];
        flux2_rope(&t.config, t.rows, t.columns, (int)json_array_size(list), (const int64_t(*)[2])references, cosine,
                   sine);
        time[0] = time[1] = (float)json_number_value(json_object_get(c, "timestep"));
        const void *inputs[5] = {array(&t, c, "latent"), array(&t, of, "context"), time, cosine, sine};
        struct arena arena;
        struct module m;
        struct error err = {0};
        double *results[16] = {0};
        arena_init(&arena);
        module_init(&m, &arena, "transformer");
        REQUIRE_OK(flux2_dit_module(&t.config, &how, &m, &err), &err);
        CHECK_INT(m.n_results, 8); // two streams of two double blocks, three single blocks, the velocity
        REQUIRE(run(&t, &m, as, inputs, results));
        for (int k = 0; k < 7; k++)
            check(&t, as, m.result_names[k], results[k], json_array_get(trace, (size_t)k));
        check(&t, as, "velocity", results[7], json_object_get(c, "velocity"));
        release(results, 16);
        arena_release(&arena);
    }
    tiny_close(&t);
}

TEST(models_flux2_plugin_autoencoder_equals_diffusers)
{
    struct tiny t;
    REQUIRE(tiny_open(&t));
    const json_t *of = json_object_get(t.f.root, "autoencoder");
    for (int i = 0; i < 2 * RUNS; i++) {
        enum run_as as = (enum run_as)(i / 2);
        bool decode = i % 2;
        struct flux2_build how = {
            .batch = 1, .rows = t.rows, .columns = t.columns, .also = decode ? TAPS_LAYERS : TAPS_NONE};
        struct arena arena;
        struct module m;
        struct error err = {0};
        double *results[16] = {0};
        const void *input = array(&t, of, decode ? "latent" : "picture");
        arena_init(&arena);
        module_init(&m, &arena, "autoencoder");
        REQUIRE_OK((decode ? flux2_decoder_module : flux2_encoder_module)(&t.config, &how, &m, &err), &err);
        REQUIRE(run(&t, &m, as, &input, results));
        if (decode) {
            const void *bytes;
            struct shape s = ir_fixture_array(&t.f, json_object_get(of, "mid"), &bytes);
            CHECK(shape_same_dims(&s, &m.instructions[m.results[0]].shape));
            check(&t, as, "mid", results[0], json_object_get(of, "mid"));
        }
        check(&t, as, decode ? "image" : "latent", results[m.n_results - 1],
              json_object_get(of, decode ? "image" : "encoded"));
        release(results, 16);
        arena_release(&arena);
    }
    tiny_close(&t);
}
