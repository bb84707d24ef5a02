// SPDX-License-Identifier: Apache-2.0
// BERT encoders against sentence-transformers: all-MiniLM-L6-v2 on the sentences of tests/fixtures/minilm
// (tests/oracle/minilm.py), and tiny random models of every activation function and kind of pooling in f64
// (tests/oracle/bert_tiny.py).
#include <stdlib.h>

#include "base/file.h"
#include "fixture.h"
#include "io/checkpoint.h"
#include "ir/retype.h"
#include "ir_test.h"
#include "models/bert.h"

// ---- all-MiniLM-L6-v2

struct minilm {
    struct rig r;
    struct checkpoint c;
    struct bert bert;
    json_t *index;
    const json_t *ids;
    struct str embeddings, layers; // [sentence][384] f32; layers.f32
};

enum { HIDDEN = 384 };

static bool minilm_open(struct minilm *t)
{
    char path[1024];
    struct error err = {0};
    snprintf(path, sizeof path, "%s/third_party/models/minilm", test_top());
    t->index = fixture_json("minilm/index.json");
    t->ids = json_object_get(t->index, "ids");
    str_init(&t->embeddings);
    str_init(&t->layers);
    if (!rig_open(&t->r, pjrt_test_plugin(false), 1))
        return false;
    if (file_read(&t->embeddings, fixture_path("minilm/embeddings.f32"), 1u << 24, &err) ||
        file_read(&t->layers, fixture_path("minilm/layers.f32"), 1u << 24, &err) || bert_open(&t->bert, path, &err) ||
        checkpoint_open(&t->c, path, &err) || bert_bind(&t->bert, &t->c, &err)) {
        test_fail_error(__FILE__, __LINE__, path, err.where, err.message);
        return false;
    }
    return true;
}

static void minilm_close(struct minilm *t)
{
    checkpoint_close(&t->c);
    rig_close(&t->r);
    json_decref(t->index);
    str_release(&t->embeddings);
    str_release(&t->layers);
}

static int64_t tokens_of(const struct minilm *t, size_t sentence)
{
    return (int64_t)json_array_size(json_array_get(t->ids, sentence));
}

// Runs the model on some sentences, padded to seq. Results as ir_run gives them.
static bool run_sentences(struct minilm *t, const size_t *sentences, int64_t n, int64_t seq, bool taps, void **outs)
{
    struct arena arena;
    struct module m;
    struct error err = {0};
    int32_t *ids = calloc((size_t)(n * seq), sizeof *ids), *mask = calloc((size_t)(n * seq), sizeof *mask);
    arena_init(&arena);
    module_init(&m, &arena, "minilm");
    for (int64_t i = 0; i < n; i++) {
        const json_t *list = json_array_get(t->ids, sentences[i]);
        for (int64_t k = 0; k < (int64_t)json_array_size(list); k++) {
            ids[i * seq + k] = (int32_t)json_integer_value(json_array_get(list, (size_t)k));
            mask[i * seq + k] = 1;
        }
    }
    struct bert_build how = {.batch = n, .seq = seq, .taps = taps, .first_layer = -1};
    bool ok =
        bert_module(&t->bert, &how, &m, &err) == 0 && ir_run_bound(&t->r, &t->c, &m, (const void *[]){ids, mask}, outs);
    CHECK_STR(err.message, "");
    arena_release(&arena);
    free(ids);
    free(mask);
    return ok;
}

static double rel_l2(const float *got, const float *want, int64_t n)
{
    double *a = ir_doubles(DT_F32, got, n), *b = ir_doubles(DT_F32, want, n), d = ir_rel_l2(a, b, n);
    free(a);
    free(b);
    return d;
}

// Both are f32 runs in their own order; the reference itself is 5.7e-7 from f64 in all and 1.4e-6 in its worst
// sentence.
TEST(models_bert_plugin_equals_sentence_transformers)
{
    static struct minilm t;
    REQUIRE(minilm_open(&t));
    size_t count = json_array_size(t.ids);
    CHECK_INT(count, 200);
    REQUIRE(t.embeddings.length == count * HIDDEN * sizeof(float));
    const float *want = (const float *)(const void *)t.embeddings.text;
    float *all = calloc(count * HIDDEN, sizeof *all);
    const int64_t lengths[] = {1, 16, 24, 104}; // padded to the upper end of their class
    for (size_t k = 1; k < sizeof lengths / sizeof *lengths; k++) {
        size_t chosen[200];
        int64_t n = 0;
        void *out;
        for (size_t i = 0; i < count; i++) {
            if (tokens_of(&t, i) > lengths[k - 1] && tokens_of(&t, i) <= lengths[k])
                chosen[n++] = i;
        }
        REQUIRE(n > 0 && run_sentences(&t, chosen, n, lengths[k], false, &out));
        for (int64_t i = 0; i < n; i++)
            memcpy(all + chosen[i] * HIDDEN, (float *)out + i * HIDDEN, HIDDEN * sizeof *all);
        free(out);
    }
    CHECK(rel_l2(all, want, (int64_t)count * HIDDEN) <= 1e-5);
    for (size_t i = 0; i < count; i++) {
        if (!CHECK(rel_l2(all + i * HIDDEN, want + i * HIDDEN, HIDDEN) <= 1e-5))
            printf("  sentence %zu\n", i);
    }
    free(all);
    minilm_close(&t);
}

TEST(models_bert_plugin_layers_equal_reference)
{
    static struct minilm t;
    REQUIRE(minilm_open(&t));
    const json_t *records = json_object_get(t.index, "layers");
    size_t chosen[8] = {0};
    int64_t n = (int64_t)json_array_size(records), seq = 0;
    void *outs[8];
    REQUIRE(n >= 4 && n <= 8);
    for (int64_t i = 0; i < n; i++) {
        chosen[i] = (size_t)json_integer_value(json_object_get(json_array_get(records, (size_t)i), "sentence"));
        seq = tokens_of(&t, chosen[i]) > seq ? tokens_of(&t, chosen[i]) : seq;
    }
    REQUIRE(run_sentences(&t, chosen, n, seq, true, outs));
    for (int64_t i = 0; i < n; i++) {
        const json_t *arrays = json_object_get(json_array_get(records, (size_t)i), "arrays");
        int64_t tokens = tokens_of(&t, chosen[i]);
        // Taps are the embedding layer and every encoder layer; the embedding comes last, after "pooled", which is
        // inside.
        for (size_t k = 0; k < 8; k++) {
            const json_t *array = json_array_get(arrays, k < 7 ? k : 8);
            int64_t offset = json_integer_value(json_object_get(array, "offset_bytes"));
            int64_t elements = (k < 7 ? tokens : 1) * HIDDEN;
            REQUIRE(offset + elements * 4 <= (int64_t)t.layers.length);
            const float *want = (const float *)(const void *)(t.layers.text + offset);
            const float *got = (float *)outs[k] + i * (k < 7 ? seq : 1) * HIDDEN;
            double off = rel_l2(got, want, elements);
            if (!CHECK(off <= 5e-6))
                printf("  sentence %zu: %s is %g off\n", chosen[i], json_string_value(json_object_get(array, "name")),
                       off);
        }
    }
    for (size_t k = 0; k < 8; k++)
        free(outs[k]);
    minilm_close(&t);
}

// ---- tiny models in f64

struct tiny {
    struct rig r;
    struct ir_fixture f;
    struct checkpoint c;
    const void *inputs[2];
    struct shape shape; // of the inputs
};

static bool tiny_open(struct tiny *t, const char *checkpoint)
{
    struct error err = {0};
    char name[256];
    ir_fixture_open(&t->f, "bert_tiny");
    t->shape = ir_fixture_array(&t->f, json_object_get(t->f.root, "input_ids"), &t->inputs[0]);
    ir_fixture_array(&t->f, json_object_get(t->f.root, "attention_mask"), &t->inputs[1]);
    snprintf(name, sizeof name, "ir/%s", checkpoint);
    if (checkpoint_open(&t->c, fixture_path(name), &err)) {
        test_fail_error(__FILE__, __LINE__, checkpoint, err.where, err.message);
        return false;
    }
    return rig_open(&t->r, pjrt_test_plugin(false), 1);
}

static void tiny_close(struct tiny *t)
{
    checkpoint_close(&t->c);
    rig_close(&t->r);
    ir_fixture_close(&t->f);
}

static void tiny_bert(const struct tiny *t, struct bert *b, enum hf_activation activation, double eps)
{
    const json_t *c = json_object_get(t->f.root, "config");
    struct error err = {0};
    bert_minilm(b);
    b->config = (struct bert_config){
        .hidden_size = json_integer_value(json_object_get(c, "hidden_size")),
        .num_hidden_layers = json_integer_value(json_object_get(c, "num_hidden_layers")),
        .num_attention_heads = json_integer_value(json_object_get(c, "num_attention_heads")),
        .intermediate_size = json_integer_value(json_object_get(c, "intermediate_size")),
        .vocab_size = json_integer_value(json_object_get(c, "vocab_size")),
        .max_position_embeddings = json_integer_value(json_object_get(c, "max_position_embeddings")),
        .type_vocab_size = json_integer_value(json_object_get(c, "type_vocab_size")),
        .layer_norm_eps = eps,
        .hidden_act = activation,
    };
    CHECK_INT(bert_bind(b, &t->c, &err), 0);
}

// Builds the model, turns it into f64 when asked, and compares result i with want[i], a list of fixture arrays.
static void check_tiny(struct tiny *t, const struct bert *b, bool taps, bool f64, const json_t *want, const char *label)
{
    struct arena arena;
    struct module f32, wide;
    struct error err = {0};
    void *outs[8];
    arena_init(&arena);
    module_init(&f32, &arena, "f32");
    module_init(&wide, &arena, "f64");
    struct bert_build how = {.batch = t->shape.dims[0], .seq = t->shape.dims[1], .taps = taps, .first_layer = -1};
    REQUIRE_OK(bert_module(b, &how, &f32, &err), &err);
    REQUIRE_OK(module_retype_f64(&f32, &wide, &err), &err);
    const struct module *m = f64 ? &wide : &f32;
    REQUIRE(m->n_results <= 8 && ir_run_bound(&t->r, &t->c, m, t->inputs, outs));
    for (size_t i = 0; i < json_array_size(want); i++) {
        const void *bytes;
        struct shape s = ir_fixture_array(&t->f, json_array_get(want, i), &bytes);
        int64_t n = shape_elements(&s);
        double *got = ir_doubles(m->instructions[m->results[i]].shape.dtype, outs[i], n);
        double off = ir_rel_l2(got, bytes, n);
        // Sums of at most 24 terms in another order, and erf, tanh and exp of another library within 2 ulp.
        if (!CHECK(off <= (f64 ? 4e-15 : 2e-6)))
            printf("  %s: %s is %g off in %s\n", label, m->result_names[i], off, f64 ? "f64" : "f32");
        free(got);
    }
    for (int i = 0; i < m->n_results; i++)
        free(outs[i]);
    arena_release(&arena);
}

TEST(models_bert_plugin_tiny_activations)
{
    static const struct {
        const char *name;
        enum hf_activation kind;
    } kinds[] = {
        {"gelu", HF_GELU}, {"gelu_tanh", HF_GELU_TANH}, {"relu", HF_RELU}, {"silu", HF_SILU}, {"tanh", HF_TANH}};
    struct tiny t;
    struct bert b;
    REQUIRE(tiny_open(&t, "bert_tiny.safetensors"));
    const json_t *all = json_object_get(t.f.root, "activations");
    REQUIRE(json_array_size(all) == sizeof kinds / sizeof *kinds);
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i);
        CHECK_STR(json_string_value(json_object_get(one, "activation")), kinds[i].name);
        tiny_bert(&t, &b, kinds[i].kind, json_number_value(json_object_get(one, "eps")));
        CHECK_STR(b.prefix, "");
        for (int f64 = 0; f64 < 2; f64++)
            check_tiny(&t, &b, true, f64, json_object_get(one, "layers"), kinds[i].name);
    }
    tiny_close(&t);
}

TEST(models_bert_plugin_tiny_poolings)
{
    static const struct {
        const char *name;
        enum pooling_mode mode;
    } modes[] = {{"mean", POOLING_MEAN},
                 {"cls", POOLING_CLS},
                 {"max", POOLING_MAX},
                 {"mean_sqrt_len_tokens", POOLING_MEAN_SQRT_LENGTH}};
    struct tiny t;
    struct bert b;
    REQUIRE(tiny_open(&t, "bert_tiny.safetensors"));
    const json_t *all = json_object_get(t.f.root, "poolings");
    REQUIRE(json_array_size(all) == sizeof modes / sizeof *modes);
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i);
        CHECK_STR(json_string_value(json_object_get(one, "mode")), modes[i].name);
        tiny_bert(&t, &b, HF_GELU, 1e-5);
        b.sentence.pooling = modes[i].mode;
        for (int normalize = 0; normalize < 2; normalize++) {
            b.sentence.normalize = normalize;
            json_t *want = json_pack("[O]", json_object_get(one, normalize ? "normalized" : "embedding"));
            check_tiny(&t, &b, false, true, want, modes[i].name);
            json_decref(want);
        }
    }
    tiny_close(&t);
}

// A checkpoint in bf16, whose names start with "bert.".
TEST(models_bert_plugin_tiny_bf16_checkpoint)
{
    struct tiny t;
    struct bert b;
    REQUIRE(tiny_open(&t, "bert_tiny_bf16.safetensors"));
    tiny_bert(&t, &b, HF_GELU, 1e-5);
    CHECK_STR(b.prefix, "bert.");
    check_tiny(&t, &b, true, true, json_object_get(json_object_get(t.f.root, "bf16"), "layers"), "bf16");
    tiny_close(&t);
}

// Layers run alone, each on what the one before gave, are the whole model.
TEST(models_bert_plugin_tiny_layers_alone)
{
    struct tiny t;
    struct bert b;
    struct error err = {0};
    REQUIRE(tiny_open(&t, "bert_tiny.safetensors"));
    tiny_bert(&t, &b, HF_GELU, 1e-5);
    const json_t *layers = json_object_get(json_array_get(json_object_get(t.f.root, "activations"), 0), "layers");
    for (int layer = 0; layer < 2; layer++) {
        struct arena arena;
        struct module m;
        const void *from, *to;
        void *out;
        arena_init(&arena);
        module_init(&m, &arena, "layer");
        struct shape s = ir_fixture_array(&t.f, json_array_get(layers, (size_t)layer), &from);
        ir_fixture_array(&t.f, json_array_get(layers, (size_t)layer + 1), &to);
        int64_t n = shape_elements(&s);
        float *hidden = calloc((size_t)n, sizeof *hidden);
        for (int64_t i = 0; i < n; i++)
            hidden[i] = (float)((const double *)from)[i];
        struct bert_build how = {.batch = s.dims[0], .seq = s.dims[1], .first_layer = layer, .last_layer = layer};
        REQUIRE_OK(bert_module(&b, &how, &m, &err), &err);
        CHECK_STR(m.parameters[0].name, "hidden");
        CHECK_STR(m.result_names[0], "hidden");
        REQUIRE(ir_run_bound(&t.r, &t.c, &m, (const void *[]){hidden, t.inputs[1]}, &out));
        double *got = ir_doubles(DT_F32, out, n);
        CHECK(ir_rel_l2(got, to, n) <= 2e-6);
        free(got);
        free(out);
        free(hidden);
        arena_release(&arena);
    }
    tiny_close(&t);
}

// ---- without a plugin

TEST(models_bert_refuses_sizes)
{
    static const struct {
        struct bert_build how;
        const char *where, *message;
    } refused[] = {
        {{.batch = 0, .seq = 8, .first_layer = -1}, "--batch", "must be from 1 to 65536, not 0"},
        {{.batch = 65537, .seq = 8, .first_layer = -1}, "--batch", "not 65537"},
        {{.batch = 1, .seq = 1, .first_layer = -1}, "--seq", "from 2 to the model's 512 positions, not 1"},
        {{.batch = 1, .seq = 513, .first_layer = -1}, "--seq", "not 513"},
        {{.batch = 1, .seq = 8, .first_layer = 2, .last_layer = 6}, "layers", "2 to 6: the model has layers 0 to 5"},
        {{.batch = 1, .seq = 8, .first_layer = 3, .last_layer = 2}, "layers", "3 to 2"},
    };
    struct bert b;
    bert_minilm(&b);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct arena arena;
        struct module m;
        struct error err = {0};
        arena_init(&arena);
        module_init(&m, &arena, "m");
        CHECK_INT(bert_module(&b, &refused[i].how, &m, &err), ERR_USAGE);
        CHECK_STR(err.where, refused[i].where);
        if (!CHECK(strstr(err.message, refused[i].message)))
            printf("  %s\n", err.message);
        arena_release(&arena);
    }
}

// The shapes that need no files are those of the model's files, and its parameters are as many as the files hold.
TEST(models_bert_minilm_is_the_model)
{
    char path[1024];
    struct bert built, read;
    struct checkpoint c;
    struct arena arena;
    struct module m;
    struct error err = {0};
    snprintf(path, sizeof path, "%s/third_party/models/minilm", test_top());
    REQUIRE_OK(bert_open(&read, path, &err), &err);
    REQUIRE_OK(checkpoint_open(&c, path, &err), &err);
    REQUIRE_OK(bert_bind(&read, &c, &err), &err);
    bert_minilm(&built);
    const struct bert_config *a = &built.config, *z = &read.config;
    CHECK_INT(a->hidden_size, z->hidden_size);
    CHECK_INT(a->num_hidden_layers, z->num_hidden_layers);
    CHECK_INT(a->num_attention_heads, z->num_attention_heads);
    CHECK_INT(a->intermediate_size, z->intermediate_size);
    CHECK_INT(a->vocab_size, z->vocab_size);
    CHECK_INT(a->max_position_embeddings, z->max_position_embeddings);
    CHECK_INT(a->type_vocab_size, z->type_vocab_size);
    CHECK(a->layer_norm_eps == z->layer_norm_eps);
    CHECK_INT(a->hidden_act, z->hidden_act);
    CHECK_INT(built.sentence.pooling, read.sentence.pooling);
    CHECK_INT(built.sentence.normalize, read.sentence.normalize);
    CHECK_INT(built.sentence.max_seq_length, read.sentence.max_seq_length);
    arena_init(&arena);
    module_init(&m, &arena, "m");
    REQUIRE_OK(bert_module(&built, &(struct bert_build){.batch = 1, .seq = 512, .first_layer = -1}, &m, &err), &err);
    // What is in the file and not read: the pooler, which sentence embeddings do not use.
    const struct tensor_view *w, *bias;
    REQUIRE_OK(checkpoint_require(&c, "pooler.dense.weight", &w, &err), &err);
    REQUIRE_OK(checkpoint_require(&c, "pooler.dense.bias", &bias, &err), &err);
    CHECK_INT(bert_parameters(&m), c.parameters - w->elements - bias->elements);
    arena_release(&arena);
    checkpoint_close(&c);
}
