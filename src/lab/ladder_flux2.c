// SPDX-License-Identifier: Apache-2.0
// The ladder of FLUX.2: every program by itself, then the whole request.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/klein.h"
#include "lab/ladder_part.h"
#include "models/noise.h"
#include "num/convert.h"

// Bounds: f32 sums of some thousand products are off by some 1e-6 of their size, more so behind many steps; in bf16
// one product of rounded operands is at 50 to 55 dB, and a residual stream loses some 10 dB over its layers.
static const struct ladder_rung rungs[] = {
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

#define TEXT        "text"
#define TRANSFORMER "transformer"
#define DECODER     "decoder"
#define ENCODER     "encoder"
#define PIPELINE    "pipeline"
#define SCHEDULE    "schedule"
#define NOISE       "noise"

static const struct ladder_place places[] = {{TEXT, "embedding", 2},
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

static int value_f32(struct ladder *l, const char *program, const char *name, const float *values, size_t n,
                     struct error *err)
{
    double *wide = malloc((n + 1) * sizeof *wide);
    if (!wide)
        return error_set(err, ERR_MEMORY, program, "no memory for %zu values", n);
    for (size_t i = 0; i < n; i++)
        wide[i] = (double)values[i];
    int rc = ladder_value(l, program, name, false, wide, n, err);
    free(wide);
    return rc;
}

// ---- what the host makes

static int rope_tables(struct ladder *l, const char *program, const struct flux2_config *c, int64_t rows,
                       int64_t columns, struct error *err)
{
    bool text = strcmp(program, TEXT) == 0;
    int64_t half = (text ? c->text.head_dim : c->dit.head_dim) / 2;
    size_t n = (size_t)((c->text_tokens + (text ? 0 : rows * columns)) * half);
    float *cosine = malloc((n + 1) * sizeof *cosine), *sine = malloc((n + 1) * sizeof *sine);
    int rc = cosine && sine ? 0 : error_set(err, ERR_MEMORY, program, "no memory for rotary tables");
    if (!rc && text)
        decoder_rope(&c->text, 0, c->text_tokens, cosine, sine);
    else if (!rc)
        flux2_rope(c, rows, columns, 0, NULL, cosine, sine);
    if (!rc)
        rc = value_f32(l, program, "rope_cos", cosine, n, err);
    if (!rc)
        rc = value_f32(l, program, "rope_sin", sine, n, err);
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
    int rc = flux2_schedule_make(s, sampler, bf16, tokens, l->reference.steps, err);
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
    int rc = values ? noise_tokens(NOISE_TORCH_AVX2, (uint64_t)l->reference.seed, 1, (size_t)c->dit.channels,
                                   (size_t)rows, (size_t)columns, values, err)
                    : error_set(err, ERR_MEMORY, NOISE, "no memory for %zu values", n);
    if (!rc)
        rc = value_f32(l, NOISE, "latent", values, n, err);
    free(values);
    return rc;
}

// ---- programs

static int part(struct ladder *l, struct klein_weights *w, const char *program, enum flux2_component component,
                const struct flux2_build *how, const struct progress *progress, struct error *err)
{
    struct module m;
    const struct checkpoint *weights;
    const struct flux2_config *c = &w->config;
    int rc = 0;
    module_init(&m, &l->arena, program);
    if (strcmp(program, TEXT) == 0)
        rc = flux2_text_module(c, 1, TAPS_ALL, &m, err);
    else if (strcmp(program, TRANSFORMER) == 0)
        rc = flux2_dit_module(c, how, &m, err);
    else
        rc = strcmp(program, DECODER) == 0 ? flux2_decoder_module(c, how, &m, err)
                                           : flux2_encoder_module(c, how, &m, err);
    if (!rc)
        rc = klein_weights_get(w, component, &weights, err);
    if (!rc)
        rc = ladder_program(l, program, &m, weights, progress, err);
    klein_weights_drop(w, component);
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

static int denoise(struct request *r, const struct progress *progress, struct error *err)
{
    const struct flux2_config *c = &r->k.weights.config;
    const struct shape row = SHAPE(DT_S32, 1, c->text_tokens);
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
        rc = klein_denoise(&r->k, start, each_step, r, progress, err);
    free(ids);
    free(mask);
    free(start);
    return rc;
}

static int whole(struct ladder *l, enum flux2_sampler sampler, const struct progress *progress, struct error *err)
{
    struct request r = {.l = l};
    struct klein_options o = {.weights = {.weights = l->workload},
                              .worker = l->options->worker,
                              .policy = l->wide ? NULL : l->policy_name,
                              .serving = KLEIN_STAGED,
                              .sampler = sampler,
                              .height = l->reference.height,
                              .width = l->reference.width,
                              .steps = l->reference.steps,
                              .text_tokens = l->reference.text_tokens,
                              .guidance = NAN};
    int rc = klein_open(&r.k, &o, progress, err);
    if (!rc)
        rc = denoise(&r, progress, err);
    if (!rc)
        rc = decode(&r, progress, err);
    klein_close(&r.k);
    return rc;
}

static int run_parts(struct ladder *l, struct klein_weights *w, enum flux2_sampler sampler,
                     const struct progress *progress, struct error *err)
{
    const struct ladder_reference *r = &l->reference;
    struct flux2_build how = {.batch = 1, .also = TAPS_ALL};
    int rc = flux2_tokens(r->height, r->width, &how.rows, &how.columns, err);
    if (!rc)
        rc = rope_tables(l, TEXT, &w->config, how.rows, how.columns, err);
    if (!rc)
        rc = part(l, w, TEXT, FLUX2_TEXT_ENCODER, &how, progress, err);
    if (!rc)
        rc = schedule(l, sampler, how.rows * how.columns, err);
    if (!rc && r->seed >= 0)
        rc = noise(l, &w->config, how.rows, how.columns, err);
    if (!rc)
        rc = rope_tables(l, TRANSFORMER, &w->config, how.rows, how.columns, err);
    if (!rc)
        rc = part(l, w, TRANSFORMER, FLUX2_DIT, &how, progress, err);
    if (!rc)
        rc = part(l, w, DECODER, FLUX2_AUTOENCODER, &how, progress, err);
    if (!rc && ladder_tap(r, ENCODER, "image"))
        rc = part(l, w, ENCODER, FLUX2_AUTOENCODER, &how, progress, err);
    return rc;
}

static int run_flux2(struct ladder *l, const struct progress *progress, struct error *err)
{
    const struct ladder_reference *r = &l->reference;
    struct klein_weights_options o = {.weights = l->workload};
    enum flux2_sampler sampler = FLUX2_DIFFUSERS;
    struct klein_weights w;
    if (!r->height || !r->width || !r->steps)
        return error_set(err, ERR_INPUT, r->directory, "reference.json lacks height, width or steps");
    if (r->sampler && !flux2_sampler_parse(&sampler, r->sampler))
        return error_set(err, ERR_INPUT, r->directory, "\"sampler\" is \"%.40s\", not one of diffusers, bfl, exact",
                         r->sampler);
    int rc = klein_weights_open(&w, &o, err);
    if (!rc && r->text_tokens)
        w.config.text_tokens = r->text_tokens;
    if (!rc)
        rc = run_parts(l, &w, sampler, progress, err);
    klein_weights_close(&w);
    // A pipeline multiplies as its policy says: other precisions are looked at part by part.
    if (!rc && ladder_tap(r, PIPELINE, "image") && l->options->precision == MATMUL_HIGHEST)
        rc = whole(l, sampler, progress, err);
    return rc;
}

const struct ladder_model ladder_flux2 = {
    .name = "flux2", .rungs = rungs, .n_rungs = sizeof rungs / sizeof *rungs, .places = places, .run = run_flux2};
