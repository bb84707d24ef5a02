// SPDX-License-Identifier: Apache-2.0
// Divided programs make what the undivided ones make: on eight virtual devices of the CPU, whose partitioner is the one
// that TPUs have, for every layout and every kind of model.
#include "plan/divide.h"
#include "plan/stages.h"

#include <math.h>
#include <stdlib.h>

#include "ir_test.h"
#include "models/bert.h"
#include "models/builtin.h"
#include "models/decoder.h"
#include "models/flux2.h"
#include "num/random.h"

enum { DEVICES = 8, VOCABULARY = 64 };

// ---- The notation, read by its definition (XLA's "V2"): devices in a row, reshaped, transposed, reshaped to tiles

struct lay {
    int rank;
    int64_t tiles[SHAPE_MAX_RANK + 1];       // copies behind the last
    int64_t at[DEVICES][SHAPE_MAX_RANK + 1]; // which tile each device has
};

static const char *numbers(const char *p, int64_t *out, int *n)
{
    for (*n = 0; *p && *p != ']' && *p != ')'; p += *p == ',') {
        char *end;
        out[(*n)++] = strtoll(p, &end, 10);
        p = end;
    }
    return p + 1;
}

static void read_lay(struct lay *l, const char *text, int rank)
{
    int64_t from[8] = {DEVICES}, order[8] = {0}, tiles = 1;
    int n_tiles, n_from = 1, n_order = 0;
    *l = (struct lay){.rank = rank};
    for (int i = 0; i <= rank; i++)
        l->tiles[i] = 1;
    if (!text || strcmp(text, "{replicated}") == 0)
        return;
    static const char head[] = "{devices=[";
    REQUIRE(strncmp(text, head, sizeof head - 1) == 0);
    const char *p = numbers(text + sizeof head - 1, l->tiles, &n_tiles);
    REQUIRE(strncmp(p, "<=[", 3) == 0);
    p = numbers(p + 3, from, &n_from);
    if (*p == 'T')
        p = numbers(p + 2, order, &n_order);
    REQUIRE(n_tiles == rank + (strstr(p, "last_tile_dim_replicate") != NULL) && (!n_order || n_order == n_from));
    for (int i = 0; i < n_tiles; i++)
        tiles *= l->tiles[i];
    REQUIRE(tiles == DEVICES);
    for (int64_t i = 0; i < DEVICES; i++) {
        int64_t index[8], place = i, device = 0;
        for (int d = n_from - 1; d >= 0; d--) { // of the transposed array
            int64_t of = from[n_order ? order[d] : d];
            index[n_order ? order[d] : d] = place % of;
            place /= of;
        }
        for (int d = 0; d < n_from; d++)
            device = device * from[d] + index[d];
        place = i;
        for (int d = n_tiles - 1; d >= 0; d--) {
            l->at[device][d] = place % l->tiles[d];
            place /= l->tiles[d];
        }
    }
}

static struct shape part_of(const struct lay *l, const struct shape *whole)
{
    struct shape s = *whole;
    for (int d = 0; d < s.rank; d++)
        s.dims[d] /= l->tiles[d];
    return s;
}

// Copies a device's part out of the whole, or back into it. Elements of four bytes.
static void move(const struct lay *l, const struct shape *whole, int device, uint32_t *all, uint32_t *part, bool out)
{
    struct shape s = part_of(l, whole);
    int64_t n = shape_elements(&s);
    for (int64_t i = 0; i < n; i++) {
        int64_t left = i, at = 0, stride = 1;
        for (int d = s.rank - 1; d >= 0; d--) {
            at += stride * (l->at[device][d] * s.dims[d] + left % s.dims[d]);
            stride *= whole->dims[d];
            left /= s.dims[d];
        }
        if (out)
            part[i] = all[at];
        else
            all[at] = part[i];
    }
}

// ---- Models

enum model { BLOCK, BERT, DECODER, SINGLE, DOUBLE, PRODUCT };

struct divide_case {
    enum model model;
    int64_t batch;
    const char *layout;
};

static int build(const struct divide_case *c, struct module *m, struct error *err)
{
    struct model_shape shape = {.batch = c->batch, .seq = 32};
    struct bert bert;
    bool fixed;
    static const struct decoder_config decoder = {.hidden = 32,
                                                  .layers = 3,
                                                  .heads = 16,
                                                  .kv_heads = 8,
                                                  .head_dim = 8,
                                                  .intermediate = 64,
                                                  .vocab = VOCABULARY,
                                                  .eps = 1e-6,
                                                  .qk_norm = true,
                                                  .tied = true,
                                                  .prefix = "model."};
    switch (c->model) {
    case BLOCK:
        return model_module("builtin:transformer-block:64x8x128", &shape, m, &fixed, err);
    case PRODUCT:
        return model_module("gemm:64x32x16:f32", &(struct model_shape){0}, m, &fixed, err);
    case BERT:
        bert_minilm(&bert);
        bert.config.hidden_size = 32;
        bert.config.num_hidden_layers = 2;
        bert.config.num_attention_heads = 8;
        bert.config.intermediate_size = 64;
        bert.config.vocab_size = VOCABULARY;
        return bert_module(&bert, &(struct bert_build){.batch = c->batch, .seq = 32, .first_layer = -1}, m, err);
    case DECODER:
        return decoder_module(&decoder, &(struct decoder_build){.phase = DECODER_PREFILL, .batch = c->batch, .seq = 32},
                              m, err);
    default:
        return flux2_block_module(flux2_builtin("flux2-tiny"), c->model == SINGLE, 32, m, err);
    }
}

// Values of every parameter of the undivided module.
static uint32_t *values_of(const struct module *m, int i, struct random_numpy *random)
{
    const struct parameter *p = &m->parameters[i];
    const struct shape *s = &m->instructions[p->instruction].shape;
    int64_t n = shape_elements(s);
    uint32_t *v = malloc((size_t)n * 4);
    if (!v)
        abort();
    if (s->dtype == DT_F32) {
        random_numpy_standard_normal_f32(random, (float *)v, (size_t)n);
        for (int64_t k = 0; k < n && p->role == ROLE_WEIGHT; k++)
            ((float *)v)[k] *= 0.3F;
    }
    for (int64_t k = 0; k < n && s->dtype == DT_S32; k++) // ids; of a mask the last five tokens are padding
        v[k] = strcmp(p->name, "attention_mask") == 0 ? k % s->dims[1] < s->dims[1] - 5
                                                      : random_numpy_u32(random) % VOCABULARY;
    return v;
}

// Rows or columns of a weight as the divided program has them.
static void turn(const struct interleaved *w, int64_t ways, const struct shape *s, uint32_t *v)
{
    int64_t rows = s->dims[0], columns = s->rank > 1 ? s->dims[1] : 1, to = 0;
    uint32_t *old = malloc((size_t)(rows * columns) * 4);
    REQUIRE(old);
    memcpy(old, v, (size_t)(rows * columns) * 4);
    for (int64_t device = 0; device < ways; device++) {
        int64_t first = 0;
        for (int i = 0; i < w->n; first += w->parts[i++]) {
            int64_t share = w->parts[i] / ways;
            for (int64_t k = 0; k < share; k++, to++) {
                int64_t from = first + device * share + k;
                for (int64_t q = 0; q < (w->axis ? rows : columns); q++)
                    v[w->axis ? q * columns + to : to * columns + q] =
                        old[w->axis ? q * columns + from : from * columns + q];
            }
        }
    }
    free(old);
}

// ---- Running them

static void run_divided(struct rig *r, const struct module *m, const struct divided *d, uint32_t *const *args,
                        uint32_t **outs)
{
    struct str text;
    struct error err = {0};
    size_t n = (size_t)m->n_parameters;
    str_init(&text);
    REQUIRE_OK(module_print_divided(d->module, &d->division, &text, &err), &err);
    struct program *p = rig_compile(
        r, str_text(&text), &(struct compile_options){.num_partitions = DEVICES, .use_spmd_partitioning = true});
    REQUIRE(p);
    struct buffer **buffers = calloc(n * DEVICES, sizeof *buffers), **results = calloc(64 * DEVICES, sizeof *results);
    REQUIRE(buffers && results && m->n_results <= 64);
    for (size_t i = 0; i < n; i++) {
        const struct shape *s = &d->module->instructions[d->module->parameters[i].instruction].shape;
        struct lay lay;
        CHECK_STR(d->module->parameters[i].name, m->parameters[i].name);
        read_lay(&lay, d->division.parameters[i], s->rank);
        struct shape part = part_of(&lay, s);
        uint32_t *bytes = malloc((size_t)shape_elements(&part) * 4);
        REQUIRE(bytes);
        for (int device = 0; device < DEVICES; device++) {
            move(&lay, s, device, args[i], bytes, true);
            buffers[(size_t)device * n + i] = rig_upload(r, (size_t)device, bytes, s->dtype, s->rank, part.dims);
            REQUIRE(buffers[(size_t)device * n + i]);
        }
        free(bytes);
    }
    REQUIRE_OK(program_execute(p, buffers, n, results, &r->err), &r->err);
    for (int i = 0; i < m->n_results; i++) {
        const struct shape *s = &m->instructions[m->results[i]].shape;
        struct lay lay;
        read_lay(&lay, d->division.results[i], s->rank);
        struct shape part = part_of(&lay, s);
        uint32_t *bytes = malloc((size_t)shape_elements(&part) * 4);
        outs[i] = malloc((size_t)shape_elements(s) * 4);
        REQUIRE(bytes && outs[i]);
        for (int device = 0; device < DEVICES; device++) {
            struct buffer *b = results[(size_t)device * (size_t)m->n_results + (size_t)i];
            REQUIRE_OK(buffer_to_host(b, bytes, (size_t)shape_elements(&part) * 4, &r->err), &r->err);
            move(&lay, s, device, outs[i], bytes, false);
            buffer_free(b);
        }
        free(bytes);
    }
    for (size_t i = 0; i < n * DEVICES; i++)
        buffer_free(buffers[i]);
    free(buffers);
    free(results);
    program_free(p);
    str_release(&text);
}

// Sums in another order, and exponentials of a running maximum: a few roundings of f32 in results of one.
#define TOLERANCE 2e-5

static void compare(const struct divide_case *c, const struct module *m, void *const *whole, uint32_t *const *outs)
{
    for (int i = 0; i < m->n_results; i++) {
        const struct shape *s = &m->instructions[m->results[i]].shape;
        const float *a = (const float *)(const void *)outs[i], *b = whole[i];
        double difference = 0, size = 0;
        for (int64_t k = 0; k < shape_elements(s); k++) {
            difference += ((double)a[k] - b[k]) * ((double)a[k] - b[k]);
            size += (double)b[k] * b[k];
        }
        double error = sqrt(difference / size);
        if (!CHECK(error < TOLERANCE && size > 0))
            printf("  model %d, %s: %s differs by %g\n", (int)c->model, c->layout, m->result_names[i], error);
    }
}

static void run(struct rig *r, const struct divide_case *c)
{
    struct arena a;
    struct module m;
    struct layout l;
    struct divided d;
    struct error err = {0};
    struct random_numpy random;
    random_numpy_seed(&random, 7);
    arena_init(&a);
    module_init(&m, &a, "m");
    REQUIRE_OK(build(c, &m, &err), &err);
    REQUIRE_OK(layout_parse(&l, c->layout, DEVICES, &err), &err);
    int rc = divide_module(&m, &l, 1, &a, &d, &err);
    if (rc)
        printf("  model %d, %s\n", (int)c->model, c->layout);
    REQUIRE_OK(rc, &err);
    uint32_t *args[256], *outs[64];
    void *whole[64];
    REQUIRE(m.n_parameters <= 256 && m.n_results <= 64);
    for (int i = 0; i < m.n_parameters; i++)
        args[i] = values_of(&m, i, &random);
    struct program *p = ir_compile(r, &m);
    REQUIRE(p && ir_run(r, p, &m, (const void *const *)args, whole));
    program_free(p);
    for (int i = 0; i < d.interleaving.n; i++) {
        const struct interleaved *w = &d.interleaving.weights[i];
        turn(w, d.interleaving.ways, &m.instructions[m.parameters[w->parameter].instruction].shape, args[w->parameter]);
    }
    run_divided(r, &m, &d, args, outs);
    compare(c, &m, whole, outs);
    for (int i = 0; i < m.n_parameters; i++)
        free(args[i]);
    for (int i = 0; i < m.n_results; i++) {
        free(whole[i]);
        free(outs[i]);
    }
    arena_release(&a);
}

// ---- Pipelines

// Stages one after the other, each with what the one before hands on.
static void run_stages(const struct divide_case *c, int stages)
{
    struct rig r;
    struct arena a;
    struct module m;
    struct error err = {0};
    struct random_numpy random;
    random_numpy_seed(&random, 7);
    arena_init(&a);
    module_init(&m, &a, "m");
    REQUIRE(rig_open(&r, pjrt_test_plugin(false), 1));
    REQUIRE_OK(build(c, &m, &err), &err);
    uint32_t *args[256];
    void *whole[64], *handed[8][64] = {{NULL}};
    const char *names[64] = {NULL};
    for (int i = 0; i < m.n_parameters; i++)
        args[i] = values_of(&m, i, &random);
    struct program *p = ir_compile(&r, &m);
    REQUIRE(p && ir_run(&r, p, &m, (const void *const *)args, whole));
    program_free(p);
    int n_handed = 0, compared = 0;
    for (int s = 0; s < stages; s++) {
        struct module part;
        struct stage info;
        const void *in[256];
        module_init(&part, &a, "stage");
        REQUIRE_OK(stage_module(&m, stages, s, &part, &info, &err), &err);
        CHECK(part.n_parameters < m.n_parameters); // its own weights
        for (int i = 0; i < part.n_parameters; i++) {
            const char *name = part.parameters[i].name;
            in[i] = NULL;
            for (int k = 0; k < n_handed; k++)
                in[i] = strcmp(names[k], name) == 0 ? handed[s - 1][k] : in[i];
            for (int k = 0; k < m.n_parameters; k++)
                in[i] = strcmp(m.parameters[k].name, name) == 0 ? args[k] : in[i];
            REQUIRE(in[i]);
        }
        p = ir_compile(&r, &part);
        REQUIRE(p && ir_run(&r, p, &part, in, handed[s]));
        program_free(p);
        n_handed = part.n_results;
        for (int i = 0; i < part.n_results; i++) {
            names[i] = part.result_names[i];
            for (int k = 0; k < m.n_results; k++) {
                if (strcmp(m.result_names[k], names[i]) != 0)
                    continue;
                const struct shape *shape = &m.instructions[m.results[k]].shape;
                double difference = 0;
                for (int64_t e = 0; e < shape_elements(shape); e++)
                    difference = fmax(difference, fabs(ir_element(shape->dtype, handed[s][i], e) -
                                                       ir_element(shape->dtype, whole[k], e)));
                CHECK(difference < 1e-4); // fused elsewhere: roundings of values near one
                compared++;
            }
        }
    }
    CHECK_INT(compared, m.n_results);
    for (int s = 0; s < stages; s++)
        for (int i = 0; i < 64; i++)
            free(handed[s][i]);
    for (int i = 0; i < m.n_parameters; i++)
        free(args[i]);
    for (int i = 0; i < m.n_results; i++)
        free(whole[i]);
    rig_close(&r);
    arena_release(&a);
}

TEST(plan_stages_plugin)
{
    run_stages(&(struct divide_case){.model = BERT, .batch = 2}, 2);
    run_stages(&(struct divide_case){.model = DECODER, .batch = 2}, 3);
}

TEST(plan_stages_refuse)
{
    struct arena a;
    struct module m, part;
    struct stage info;
    struct error err = {0};
    arena_init(&a);
    module_init(&m, &a, "m");
    module_init(&part, &a, "part");
    REQUIRE_OK(build(&(struct divide_case){.model = BERT, .batch = 2}, &m, &err), &err);
    CHECK_ERROR(stage_module(&m, 3, 0, &part, &info, &err), ERR_USAGE, "more stages than the model has layers, 2",
                &err);
    arena_release(&a);
}

static void run_all(const struct divide_case *cases, size_t n)
{
    struct rig r;
    REQUIRE(rig_open(&r, pjrt_test_plugin(false), DEVICES));
    for (size_t i = 0; i < n; i++)
        run(&r, &cases[i]);
    rig_close(&r);
}

// The name of a test and its cases.
#define DIVIDE_TEST(id, ...)                                                                                           \
    TEST(plan_divide_plugin_##id)                                                                                      \
    {                                                                                                                  \
        static const struct divide_case cases[] = {__VA_ARGS__};                                                       \
        run_all(cases, sizeof cases / sizeof *cases);                                                                  \
    }

DIVIDE_TEST(block, {BLOCK, 8, "dp"}, {BLOCK, 8, "fsdp"}, {BLOCK, 1, "tp"}, {BLOCK, 1, "tp,sp"}, {BLOCK, 1, "ulysses"},
            {BLOCK, 2, "ring"})
DIVIDE_TEST(product, {PRODUCT, 1, "dp"}, {PRODUCT, 1, "fsdp"}, {PRODUCT, 1, "tp"}, {PRODUCT, 1, "dp=2,fsdp=2,tp=2"})
DIVIDE_TEST(mixed, {BLOCK, 4, "fsdp=4,tp=2"}, {BLOCK, 8, "dp=2,fsdp=4"}, {BLOCK, 4, "dp=2,fsdp=2,tp=2,sp"},
            {BLOCK, 1, "ulysses=4,tp=2"}, {BLOCK, 1, "ring=4,ulysses=2"}, {BLOCK, 2, "fsdp=2,ring=2,tp=2"})
DIVIDE_TEST(bert, {BERT, 8, "fsdp"}, {BERT, 2, "tp"}, {BERT, 4, "dp=2,tp=4,sp"}, {BERT, 2, "dp=2,ulysses=4"},
            {BERT, 4, "dp=4,ring=2"})
DIVIDE_TEST(decoder, {DECODER, 8, "fsdp"}, {DECODER, 4, "fsdp=2,tp=4,sp"}, {DECODER, 1, "ulysses=2,ring=2,tp=2"})
// Text and image are joined for attention, and a single block's product has five parts.
DIVIDE_TEST(flux2, {SINGLE, 1, "ulysses=2,ring=4"}, {DOUBLE, 1, "ulysses=2,ring=4"}, {SINGLE, 1, "tp=2,ring=4,sp"},
            {DOUBLE, 1, "tp=2,ring=4"})
