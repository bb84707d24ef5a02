// SPDX-License-Identifier: Apache-2.0
// The ladder of FLUX.2: the tokens of prompts, every program by itself, then the whole request.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/klein.h"
#include "lab/ladder_part.h"
#include "models/noise.h"
#include "models/prompt.h"
#include "num/convert.h"

// Bounds: f32 sums of some thousand products are off by some 1e-6 of their size, more so behind many steps; in bf16
// one product of rounded operands is at 50 to 55 dB, and a residual stream loses some 10 dB over its layers.
static const struct ladder_rung rungs[] = {
    {1, "token ids, mask", 0, 0, true},
    {2, "embeddings, rotary tables", 1e-6, 50, false},
    {3, "text layer 0: q, k", 1e-5, 50, false},
    {4, "text layer 0: attention", 1e-5, 45, false},
    {5, "text: every layer", 1e-5, 40, false},
    {6, "context of three taps", 1e-5, 40, false},
    {7, "sigmas, times", 1e-6, 100, false},
    {8, "noise", 0, 0, true},
    {9, "time, modulations", 1e-5, 45, false},
    {10, "text, image in; q, k", 1e-5, 50, false},
    {11, "double block 0", 1e-5, 45, false},
    {12, "single block 0", 1e-5, 45, false},
    {13, "every block, velocity", 1e-4, 35, false},
    {14, "latents of every step", 1e-4, 30, false},
    {15, "image decoder and encoder", 1e-4, 45, false},
    {16, "image, end to end", 1e-4, 33, false},
};

#define TOKENS      "tokens"
#define TEXT        "text"
#define TRANSFORMER "transformer"
#define DECODER     "decoder"
#define ENCODER     "encoder"
#define PIPELINE    "pipeline"
#define SCHEDULE    "schedule"
#define NOISE       "noise"

static const struct ladder_place places[] = {{TOKENS, "", 1},
                                             {TEXT, "embedding", 2},
                                             {TEXT, "rope_", 2},
                                             {TEXT, "layer.0.attention", 4},
                                             {TEXT, "layer.0.", 3},
                                             {TEXT, "layer.", 5},
                                             {TEXT, "context", 6},
                                             {SCHEDULE, "", 7},
                                             {NOISE, "", 8},
                                             {TRANSFORMER, "time", 9},
                                             {TRANSFORMER, "modulation.", 9},
                                             {TRANSFORMER, "text.in", 10},
                                             {TRANSFORMER, "image.in", 10},
                                             {TRANSFORMER, "rope_", 10},
                                             {TRANSFORMER, "double.0.query", 10},
                                             {TRANSFORMER, "double.0.key", 10},
                                             {TRANSFORMER, "double.0.", 11},
                                             {TRANSFORMER, "double.text.0", 11},
                                             {TRANSFORMER, "double.image.0", 11},
                                             {TRANSFORMER, "single.0", 12},
                                             {TRANSFORMER, "", 13},
                                             {PIPELINE, "latent.", 14},
                                             {PIPELINE, "", 16},
                                             {DECODER, "", 15},
                                             {ENCODER, "", 15},
                                             {0}};

// What a case runs, beside what it says.
struct run {
    struct ladder *l;
    struct klein_weights w;
    enum flux2_sampler sampler;
    int64_t rows, columns;                       // tokens of the image
    int64_t references[KLEIN_MAX_REFERENCES][2]; // and of the references
    int64_t reference_tokens;
};

// How often `one` elements are in a value, 1 when it is not there.
static int64_t times_in(const struct ladder_reference *r, const char *program, const char *name, int64_t one)
{
    const struct tensor_view *t = ladder_tap(r, program, name);
    return t && (int64_t)t->elements > one && (int64_t)t->elements % one == 0 ? (int64_t)t->elements / one : 1;
}

// ---- what the host makes

// Rung 1: every prompt of the case in the chat template, cut and filled up to the rows of the reference.
static int encode_prompts(struct ladder *l, const struct bpe *bpe, size_t seq, struct error *err)
{
    const struct ladder_case *c = l->reference.at;
    struct prompt_info info;
    int32_t *ids = calloc(c->n_prompts * seq + 1, sizeof *ids), *mask = calloc(c->n_prompts * seq + 1, sizeof *mask);
    int rc = ids && mask ? 0 : error_set(err, ERR_MEMORY, TOKENS, "no memory for %zu prompts", c->n_prompts);
    for (size_t i = 0; i < c->n_prompts && !rc; i++)
        rc = prompt_encode(bpe, c->prompts[i], strlen(c->prompts[i]), seq, ids + i * seq, mask + i * seq, &info, NULL,
                           err);
    if (!rc)
        rc = ladder_host_value(l, TOKENS, "input_ids", DT_S32, ids, c->n_prompts * seq, err);
    if (!rc)
        rc = ladder_host_value(l, TOKENS, "attention_mask", DT_S32, mask, c->n_prompts * seq, err);
    free(ids);
    free(mask);
    return rc;
}

static int tokens(struct ladder *l, const struct klein_weights *w, struct error *err)
{
    const struct ladder_reference *r = &l->reference;
    const char *folder = l->options->tokenizer ? l->options->tokenizer : w->tokenizer;
    const struct tensor_view *ids = ladder_tap(r, TOKENS, "input_ids");
    if (!ids)
        return 0;
    if (ids->rank != 2 || (size_t)ids->dims[0] != r->at->n_prompts)
        return error_set(err, ERR_INPUT, TOKENS "/input_ids", "is no row of ids for each of %zu \"prompts\"",
                         r->at->n_prompts);
    if (!folder) {
        l->no_tokenizer = true;
        return 0;
    }
    struct bpe bpe;
    int rc = bpe_open(&bpe, folder, err);
    if (rc)
        return rc;
    rc = encode_prompts(l, &bpe, (size_t)ids->dims[1], err);
    bpe_release(&bpe);
    return rc;
}

static int rope_tables(struct run *run, const char *program, struct error *err)
{
    struct ladder *l = run->l;
    const struct flux2_config *c = &run->w.config;
    if (strcmp(program, TEXT) == 0)
        return ladder_decoder_rope(l, program, &c->text, c->text_tokens, err);
    size_t n = (size_t)((c->text_tokens + run->rows * run->columns + run->reference_tokens) * (c->dit.head_dim / 2));
    float *cosine = malloc((n + 1) * sizeof *cosine), *sine = malloc((n + 1) * sizeof *sine);
    int rc = cosine && sine ? 0 : error_set(err, ERR_MEMORY, program, "no memory for rotary tables");
    if (!rc) {
        flux2_rope(c, run->rows, run->columns, l->reference.at->n_references, (const int64_t(*)[2])run->references,
                   cosine, sine);
        rc = ladder_rope(l, program, cosine, sine, n, err);
    }
    free(cosine);
    free(sine);
    return rc;
}

static int schedule(struct ladder *l, enum flux2_sampler sampler, int64_t tokens, struct error *err)
{
    struct flux2_schedule *s = arena_new(&l->arena, struct flux2_schedule, 1, err);
    double told[FLUX2_MAX_STEPS];
    if (!s)
        return ERR_MEMORY;
    bool bf16 = !l->wide && l->policy.between == DT_BF16;
    int rc = flux2_schedule_make(s, sampler, bf16, tokens, l->reference.at->steps, err);
    if (rc)
        return rc;
    for (int64_t i = 0; i < s->steps; i++)
        told[i] = (double)s->times[i];
    rc = ladder_value(l, SCHEDULE, "sigmas", false, s->sigmas, (size_t)s->steps + 1, err);
    return rc ? rc : ladder_value(l, SCHEDULE, "times", false, told, (size_t)s->steps, err);
}

static int noise(struct ladder *l, const struct flux2_config *c, int64_t rows, int64_t columns, struct error *err)
{
    size_t n = (size_t)(rows * columns * c->dit.channels);
    float *values = malloc((n + 1) * sizeof *values);
    // As torch draws on x86-64 CPUs of today.
    int rc = values ? noise_tokens(NOISE_TORCH_AVX2, (uint64_t)l->reference.at->seed, 1, (size_t)c->dit.channels,
                                   (size_t)rows, (size_t)columns, values, err)
                    : error_set(err, ERR_MEMORY, NOISE, "no memory for %zu values", n);
    if (!rc)
        rc = ladder_host_value(l, NOISE, "latent", DT_F32, values, n, err);
    free(values);
    return rc;
}

// ---- programs

static int part(struct run *run, const char *program, const struct progress *progress, struct error *err)
{
    struct ladder *l = run->l;
    const struct flux2_config *c = &run->w.config;
    const struct checkpoint *weights;
    struct flux2_build how = {.batch = 1, .also = TAPS_ALL, .rows = run->rows, .columns = run->columns};
    enum flux2_component component = FLUX2_AUTOENCODER;
    struct module m;
    int rc = 0;
    if (!ladder_has_program(&l->reference, program))
        return 0;
    module_init(&m, &l->arena, program);
    if (strcmp(program, TEXT) == 0) {
        component = FLUX2_TEXT_ENCODER;
        how.batch = times_in(&l->reference, TEXT, "input_ids", c->text_tokens);
        rc = flux2_text_module(c, how.batch, TAPS_ALL, &m, err);
    } else if (strcmp(program, TRANSFORMER) == 0) {
        component = FLUX2_DIT;
        how.batch = times_in(&l->reference, TRANSFORMER, "timestep", 1);
        how.reference = run->reference_tokens;
        rc = flux2_dit_module(c, &how, &m, err);
    } else {
        rc = strcmp(program, DECODER) == 0 ? flux2_decoder_module(c, &how, &m, err)
                                           : flux2_encoder_module(c, &how, &m, err);
    }
    if (!rc)
        rc = klein_weights_get(&run->w, component, &weights, err);
    if (!rc)
        rc = ladder_program(l, program, &m, weights, progress, err);
    klein_weights_drop(&run->w, component);
    return rc;
}

// ---- the whole request

struct request {
    struct ladder *l;
    struct klein k;
};

static int each_step(void *context, int64_t step, const void *latents, struct error *err)
{
    struct request *r = context;
    char name[32];
    size_t n = (size_t)(r->k.batch * r->k.rows * r->k.columns * r->k.weights.config.dit.channels);
    double *values = malloc((n + 1) * sizeof *values);
    if (!values)
        return error_set(err, ERR_MEMORY, PIPELINE, "no memory for %zu values", n);
    for (size_t i = 0; i < n; i++)
        values[i] = r->k.latent == DT_F64 ? ((const double *)latents)[i] : (double)((const float *)latents)[i];
    snprintf(name, sizeof name, "latent.%d", (int)step + 1);
    int rc = ladder_value(r->l, PIPELINE, name, true, values, n, err);
    free(values);
    return rc;
}

static int decode(struct request *r, const struct progress *progress, struct error *err)
{
    size_t n = (size_t)(r->k.height * r->k.width * 3);
    const struct shape shape = SHAPE(r->k.image, (int64_t)n);
    void *raw = malloc((size_t)shape_bytes(&shape) + 1);
    double *values = malloc((n + 1) * sizeof *values);
    int rc = raw && values ? klein_decode(&r->k, raw, progress, err)
                           : error_set(err, ERR_MEMORY, PIPELINE, "no memory for the image");
    if (!rc)
        rc = convert_elements(DT_F64, values, r->k.image, raw, n, err);
    for (size_t i = 0; i < n && !rc; i++)
        values[i] = fmin(fmax(values[i] / 2 + 0.5, 0), 1); // as diffusers hands images over
    if (!rc)
        rc = ladder_value(r->l, PIPELINE, "image", true, values, n, err);
    free(raw);
    free(values);
    return rc;
}

// The references' pixels, as the reference gave them to its encoder.
static int encode(struct request *r, const struct progress *progress, struct error *err)
{
    const struct ladder_case *c = r->l->reference.at;
    void *pixels[KLEIN_MAX_REFERENCES] = {0};
    char name[32];
    int rc = 0;
    for (int i = 0; i < c->n_references && !rc; i++) {
        const struct shape shape = SHAPE(DT_F32, c->references[i][0], c->references[i][1], 3);
        snprintf(name, sizeof name, "reference.%d", i);
        rc = ladder_tap_read(&r->l->reference, PIPELINE, name, &shape, &pixels[i], err);
    }
    if (!rc && c->n_references)
        rc = klein_encode(&r->k, (const float *const *)pixels, progress, err);
    for (int i = 0; i < c->n_references; i++)
        free(pixels[i]);
    return rc;
}

static int denoise(struct request *r, const struct progress *progress, struct error *err)
{
    const struct flux2_config *c = &r->k.weights.config;
    const struct shape row = SHAPE(DT_S32, r->k.guided ? 2 : 1, c->text_tokens); // the second: of the empty prompt
    const struct shape latent = SHAPE(r->k.latent, 1, r->k.rows * r->k.columns, c->dit.channels);
    void *ids = NULL, *mask = NULL, *start = NULL;
    const struct ladder_reference *from = &r->l->reference;
    int rc = ladder_tap_read(from, TEXT, "input_ids", &row, &ids, err);
    if (!rc)
        rc = ladder_tap_read(from, TEXT, "attention_mask", &row, &mask, err);
    if (!rc)
        rc = ladder_tap_read(from, NOISE, "latent", &latent, &start, err);
    if (!rc)
        rc = klein_text(&r->k, ids, mask, progress, err);
    if (!rc)
        rc = encode(r, progress, err);
    if (!rc)
        rc = klein_denoise(&r->k, start, each_step, r, progress, err);
    free(ids);
    free(mask);
    free(start);
    return rc;
}

static int whole(struct run *run, const struct progress *progress, struct error *err)
{
    struct ladder *l = run->l;
    const struct ladder_case *c = l->reference.at;
    struct request r = {.l = l};
    struct klein_options o = {.weights = {.weights = l->workload},
                              .worker = l->options->worker,
                              .policy = l->wide ? NULL : l->policy_name,
                              .precision = l->options->precision,
                              .serving = KLEIN_STAGED,
                              .sampler = run->sampler,
                              .height = c->height,
                              .width = c->width,
                              .steps = c->steps,
                              .text_tokens = c->text_tokens,
                              .guidance = c->guidance,
                              .guided = c->guidance > 1,
                              .n_references = c->n_references};
    memcpy(o.references, c->references, sizeof o.references);
    if (!ladder_has_program(&l->reference, PIPELINE))
        return 0;
    int rc = klein_open(&r.k, &o, progress, err);
    if (!rc)
        rc = denoise(&r, progress, err);
    if (!rc && ladder_tap(&l->reference, PIPELINE, "image"))
        rc = decode(&r, progress, err);
    klein_close(&r.k);
    return rc;
}

// ---- a case

static int run_parts(struct run *run, const struct progress *progress, struct error *err)
{
    static const char *const programs[] = {TEXT, TRANSFORMER, DECODER, ENCODER};
    struct ladder *l = run->l;
    const struct ladder_reference *r = &l->reference;
    int rc = tokens(l, &run->w, err);
    if (!rc && ladder_has_program(r, SCHEDULE))
        rc = schedule(l, run->sampler, run->rows * run->columns, err);
    if (!rc && r->at->seed >= 0 && ladder_has_program(r, NOISE))
        rc = noise(l, &run->w.config, run->rows, run->columns, err);
    for (size_t i = 0; i < sizeof programs / sizeof *programs && !rc; i++) {
        if (i < 2)
            rc = rope_tables(run, programs[i], err);
        if (!rc)
            rc = part(run, programs[i], progress, err);
    }
    return rc;
}

// The sizes are the reference's, not options.
static int tokens_of(const struct ladder_reference *r, int64_t height, int64_t width, int64_t *rows, int64_t *columns,
                     struct error *err)
{
    struct error why = {0};
    if (flux2_tokens(height, width, rows, columns, &why) == 0)
        return 0;
    return error_set(err, ERR_INPUT, r->directory, "\"%s\" of its images %s",
                     strcmp(why.where, "--height") == 0 ? "height" : "width", why.message);
}

static int set_sizes(struct run *run, struct error *err)
{
    const struct ladder_reference *r = &run->l->reference;
    const struct ladder_case *c = r->at;
    run->sampler = FLUX2_DIFFUSERS;
    if (!c->height || !c->width || !c->steps)
        return error_set(err, ERR_INPUT, r->directory, "reference.json lacks height, width or steps");
    if (c->sampler && !flux2_sampler_parse(&run->sampler, c->sampler))
        return error_set(err, ERR_INPUT, r->directory, "\"sampler\" is \"%.40s\", not one of diffusers, bfl, exact",
                         c->sampler);
    int rc = tokens_of(r, c->height, c->width, &run->rows, &run->columns, err);
    for (int i = 0; i < c->n_references && !rc; i++) {
        rc =
            tokens_of(r, c->references[i][0], c->references[i][1], &run->references[i][0], &run->references[i][1], err);
        run->reference_tokens += run->references[i][0] * run->references[i][1];
    }
    return rc;
}

static int run_flux2(struct ladder *l, const struct progress *progress, struct error *err)
{
    struct klein_weights_options o = {.weights = l->workload};
    struct run run = {.l = l};
    int rc = set_sizes(&run, err);
    if (rc)
        return rc;
    struct error why = {0};
    rc = klein_weights_open(&run.w, &o, &why);
    if (rc) // which an image takes as an option
        error_set(err, rc, strcmp(why.where, "--weights") == 0 ? "WORKLOAD" : why.where, "%s", why.message);
    if (!rc && run.w.config.kept_references && run.reference_tokens && ladder_has_program(&l->reference, TRANSFORMER))
        rc = error_set(err, ERR_INPUT, l->reference.directory,
                       "has reference images, of which this model (9b-kv) keeps keys and values: one velocity by "
                       "itself has no counterpart there; leave out the values of \"transformer\"");
    if (!rc && l->reference.at->text_tokens)
        run.w.config.text_tokens = l->reference.at->text_tokens;
    if (!rc)
        rc = run_parts(&run, progress, err);
    klein_weights_close(&run.w);
    return rc ? rc : whole(&run, progress, err);
}

static const char *const programs[] = {TOKENS, TEXT, SCHEDULE, NOISE, TRANSFORMER, DECODER, ENCODER, PIPELINE, NULL};

const struct ladder_model ladder_flux2 = {.name = "flux2",
                                          .rungs = rungs,
                                          .n_rungs = sizeof rungs / sizeof *rungs,
                                          .places = places,
                                          .programs = programs,
                                          .run = run_flux2};
