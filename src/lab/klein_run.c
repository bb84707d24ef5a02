// SPDX-License-Identifier: Apache-2.0
// A request, part by part.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "lab/klein_part.h"
#include "num/convert.h"

static const char *const modulations[] = {"modulation.text", "modulation.image", "modulation.single", "modulation.out"};

static int free_buffer(struct klein *k, int *buffer, struct error *err)
{
    int old = *buffer;
    *buffer = -1;
    return old >= 0 ? worker_free(k->worker, old, err) : 0;
}

// One run of a part. The result called names[i] goes to *to[i], in place of the buffer there; all others are freed.
static int run(struct klein *k, enum klein_part part, int n, const char *const *names, int *const *to,
               struct error *err)
{
    struct stage *s = &k->stages[part];
    int outputs[8], rc = interrupt_check(s->name, err);
    if (!rc && s->module->n_results > (int)(sizeof outputs / sizeof *outputs))
        rc = error_set(err, ERR_INTERNAL, s->name, "has %d results", s->module->n_results);
    if (!rc)
        rc = stage_run(s, outputs, err);
    if (rc)
        return rc;
    k->figures[part].run_ns += s->run_ns;
    k->figures[part].runs++;
    for (int i = 0; i < s->module->n_results; i++) {
        int *place = &outputs[i];
        for (int w = 0; w < n; w++) {
            if (strcmp(s->module->result_names[i], names[w]) == 0)
                place = to[w];
        }
        int kept = outputs[i], freed = place == &outputs[i] ? kept : *place;
        if (place != &outputs[i])
            *place = kept;
        if (freed >= 0 && !rc)
            rc = worker_free(k->worker, freed, err);
    }
    return rc;
}

static void reset_runs(struct klein *k, enum klein_part part)
{
    k->figures[part].run_ns = k->figures[part].runs = 0;
}

int klein_text(struct klein *k, const int32_t *ids, const int32_t *mask, const struct progress *progress,
               struct error *err)
{
    static const char *const names[] = {"context"};
    struct stage *s = &k->stages[KLEIN_TEXT];
    int rc = klein_begin(k, FLUX2_TEXT_ENCODER, progress, err);
    reset_runs(k, KLEIN_TEXT);
    for (int i = 0; i < (k->guided ? 2 : 1) && !rc; i++) {
        int64_t at = i * k->weights.config.text_tokens;
        progress_report(progress, "text encoder", (size_t)i, k->guided ? 2 : 1);
        rc = stage_upload(s, "input_ids", ids + at, err);
        if (!rc)
            rc = stage_upload(s, "attention_mask", mask + at, err);
        if (!rc)
            rc = run(k, KLEIN_TEXT, 1, names, (int *const[]){&k->context[i]}, err);
    }
    return rc ? rc : klein_end(k, FLUX2_TEXT_ENCODER, err);
}

// ---- references

// The encoder for images of the size of reference i, with its weights.
static int prepare_encoder(struct klein *k, int i, const struct progress *progress, struct error *err)
{
    const struct checkpoint *from;
    struct flux2_build how = {.batch = 1, .rows = k->references[i][0], .columns = k->references[i][1]};
    bool same = i && k->references[i][0] == k->references[i - 1][0] && k->references[i][1] == k->references[i - 1][1];
    int rc = 0;
    if (!same && k->stages[KLEIN_ENCODE].compiled)
        stage_release(&k->stages[KLEIN_ENCODE]);
    if (!same && i) // that of the first was made when the pipeline was
        rc = klein_module(k, KLEIN_ENCODE, &how, err);
    if (!rc)
        rc = klein_compile(k, KLEIN_ENCODE, progress, err);
    if (!rc)
        rc = klein_weights_get(&k->weights, FLUX2_AUTOENCODER, &from, err);
    if (!rc)
        rc = stage_load(&k->stages[KLEIN_ENCODE], from, err);
    k->figures[KLEIN_ENCODE].load_ns = k->stages[KLEIN_ENCODE].weights.ns;
    return rc;
}

static int encode_one(struct klein *k, const float *pixels, uint8_t *tokens, struct error *err)
{
    static const char *const names[] = {"latent"};
    struct stage *s = &k->stages[KLEIN_ENCODE];
    const struct shape *shape = stage_result(s, 0);
    size_t n = (size_t)shape_elements(shape);
    int latent = -1, rc = stage_upload(s, "image", pixels, err);
    void *raw = malloc((size_t)shape_bytes(shape) + 1);
    if (!raw)
        rc = error_set(err, ERR_MEMORY, s->name, "no memory for %zu values", n);
    if (!rc)
        rc = run(k, KLEIN_ENCODE, 1, names, (int *const[]){&latent}, err);
    if (!rc)
        rc = stage_download(s, 0, latent, raw, err);
    if (!rc)
        rc = convert_elements(k->latent, tokens, shape->dtype, raw, n, err);
    if (!rc)
        rc = free_buffer(k, &latent, err);
    free(raw);
    return rc;
}

int klein_encode(struct klein *k, const float *const *pixels, const struct progress *progress, struct error *err)
{
    int64_t tokens = 0, channels = k->weights.config.dit.channels;
    size_t bytes = (size_t)dtype_bits(k->latent) / 8 * (size_t)channels;
    for (int i = 0; i < k->n_references; i++)
        tokens += k->references[i][0] * k->references[i][1];
    uint8_t *all = malloc((size_t)tokens * bytes + 1), *at = all;
    int rc = all ? 0 : error_set(err, ERR_MEMORY, NULL, "no memory for the tokens of the references");
    reset_runs(k, KLEIN_ENCODE);
    for (int i = 0; i < k->n_references && !rc; i++) {
        rc = prepare_encoder(k, i, progress, err);
        progress_report(progress, "image encoder", (size_t)i, (size_t)k->n_references);
        if (!rc)
            rc = encode_one(k, pixels[i], at, err);
        at += (size_t)(k->references[i][0] * k->references[i][1]) * bytes;
    }
    if (k->stages[KLEIN_ENCODE].compiled)
        stage_release(&k->stages[KLEIN_ENCODE]);
    if (!rc)
        klein_weights_drop(&k->weights, FLUX2_AUTOENCODER);
    if (!rc)
        rc = free_buffer(k, &k->reference, err);
    struct worker_tensor t = {
        .fd = -1, .shape = {.dtype = k->latent, .rank = 3, .dims = {1, tokens, channels}}, .name = "reference"};
    if (!rc && tokens)
        rc = worker_upload_bytes(k->worker, all, (size_t)tokens * bytes, &t, &k->reference, NULL, err);
    free(all);
    return rc;
}

// ---- steps

// ERR_DEVICE unless the count in the buffer, which is freed, is 0.
static int check_finite(struct klein *k, int *count, int64_t of, const char *what, struct error *err)
{
    int32_t wrong = 0;
    int rc = worker_download(k->worker, *count, &wrong, sizeof wrong, err);
    if (!rc)
        rc = free_buffer(k, count, err);
    if (!rc && wrong)
        rc = error_set(err, ERR_DEVICE, k->weights.name,
                       "%s: %" PRId32 " of %" PRId64 " values are infinite or no numbers%s", what, wrong, of,
                       k->wide || k->policy.a == DT_BF16 || k->policy.a == DT_F32
                           ? ""
                           : "; the policy's types may be too narrow, try --policy bf16");
    return rc;
}

// Keys and values of the references, under the modulations of image and single blocks, for all steps.
static int keep_references(struct klein *k, int image, int single, struct error *err)
{
    static const char *const names[] = {"keys", "values"};
    struct stage *s = &k->stages[KLEIN_KEEP];
    reset_runs(k, KLEIN_KEEP);
    int rc = stage_set(s, modulations[1], image, err);
    if (!rc)
        rc = stage_set(s, modulations[2], single, err);
    if (!rc)
        rc = stage_set(s, "reference", k->reference, err);
    if (!rc)
        rc = run(k, KLEIN_KEEP, 2, names, (int *const[]){&k->kept[0], &k->kept[1]}, err);
    for (int i = 0; i < 2 && !rc; i++)
        rc = stage_set(&k->stages[KLEIN_STEP], names[i], k->kept[i], err);
    return rc;
}

// Embeds the context of the prompt (0) or of the empty one (1); the modulations of all steps come with the first.
int klein_prepare(struct klein *k, int which, struct error *err)
{
    int count = -1, vectors[4] = {-1, -1, -1, -1};
    const char *const names[] = {"text", "nonfinite", modulations[0], modulations[1], modulations[2], modulations[3]};
    int *const to[] = {&k->text[which], &count, &vectors[0], &vectors[1], &vectors[2], &vectors[3]};
    const struct flux2_config *c = &k->weights.config;
    if (k->context[which] < 0)
        return error_set(err, ERR_INTERNAL, "transformer", "has no context: the text encoder comes first");
    int rc = stage_set(&k->stages[KLEIN_PREPARE], "context", k->context[which], err);
    if (!rc)
        rc = run(k, KLEIN_PREPARE, 6, names, to, err);
    if (!rc)
        rc = check_finite(k, &count, c->text_tokens * c->dit.joint, "the text encoder's context", err);
    for (int i = 0; i < 4 && !rc; i++)
        rc = which ? worker_free(k->worker, vectors[i], err)
                   : stage_take(&k->stages[KLEIN_STEP], modulations[i], vectors[i], err);
    return rc || which || !k->stages[KLEIN_KEEP].compiled ? rc : keep_references(k, vectors[1], vectors[2], err);
}

static int velocity(struct klein *k, int which, int *out, struct error *err)
{
    static const char *const names[] = {"velocity"};
    int rc = stage_set(&k->stages[KLEIN_STEP], "text", k->text[which], err);
    return rc ? rc : run(k, KLEIN_STEP, 1, names, (int *const[]){out}, err);
}

int klein_step(struct klein *k, int64_t i, int v[2], struct error *err)
{
    static const char *const names[] = {"latent", "nonfinite"};
    struct stage *s = &k->stages[KLEIN_STEP], *u = &k->stages[KLEIN_UPDATE];
    int count = -1, rc = stage_set(s, "latent", k->latents, err);
    char what[96];
    if (!rc && k->n_references && !k->stages[KLEIN_KEEP].compiled)
        rc = stage_set(s, "reference", k->reference, err);
    if (!rc)
        rc = stage_set(s, "step", k->scalars[i][0], err);
    for (int w = 0; w < (k->guided ? 2 : 1) && !rc; w++)
        rc = velocity(k, w, &v[w], err);
    if (!rc)
        rc = stage_set(u, "latent", k->latents, err);
    if (!rc)
        rc = stage_set(u, "velocity", v[0], err);
    if (!rc && k->guided)
        rc = stage_set(u, "velocity.empty", v[1], err);
    if (!rc)
        rc = stage_set(u, "delta", k->scalars[i][1], err);
    if (!rc)
        rc = run(k, KLEIN_UPDATE, 2, names, (int *const[]){&k->latents, &count}, err);
    snprintf(what, sizeof what, "latents after step %" PRId64 " of %" PRId64 " of the transformer", i + 1,
             k->schedule.steps);
    int64_t n = k->batch * k->rows * k->columns * k->weights.config.dit.channels;
    return rc ? rc : check_finite(k, &count, n, what, err);
}

static int tell(struct klein *k, int64_t i, klein_step_fn *each, void *context, struct error *err)
{
    size_t n = (size_t)(k->batch * k->rows * k->columns * k->weights.config.dit.channels);
    size_t bytes = n * (size_t)dtype_bits(k->latent) / 8;
    void *copy = malloc(bytes + 1);
    int rc = copy ? worker_download(k->worker, k->latents, copy, bytes, err)
                  : error_set(err, ERR_MEMORY, NULL, "no memory for %zu values", n);
    if (!rc)
        rc = each(context, i, copy, err);
    free(copy);
    return rc;
}

int klein_start(struct klein *k, const void *noise, struct error *err)
{
    int64_t tokens = k->rows * k->columns, channels = k->weights.config.dit.channels;
    struct worker_tensor t = {
        .fd = -1, .shape = {.dtype = k->latent, .rank = 3, .dims = {k->batch, tokens, channels}}, .name = "noise"};
    size_t bytes = (size_t)(k->batch * tokens * channels) * (size_t)dtype_bits(k->latent) / 8;
    int rc = free_buffer(k, &k->latents, err);
    return rc ? rc : worker_upload_bytes(k->worker, noise, bytes, &t, &k->latents, NULL, err);
}

int klein_denoise(struct klein *k, const void *noise, klein_step_fn *each, void *context,
                  const struct progress *progress, struct error *err)
{
    int v[2] = {-1, -1}, rc = klein_begin(k, FLUX2_DIT, progress, err);
    reset_runs(k, KLEIN_PREPARE);
    reset_runs(k, KLEIN_STEP);
    reset_runs(k, KLEIN_UPDATE);
    for (int w = 0; w < (k->guided ? 2 : 1) && !rc; w++)
        rc = klein_prepare(k, w, err);
    if (!rc)
        rc = klein_start(k, noise, err);
    for (int64_t i = 0; i < k->schedule.steps && !rc; i++) {
        progress_report(progress, "step", (size_t)i, (size_t)k->schedule.steps);
        rc = klein_step(k, i, v, err);
        if (!rc && each)
            rc = tell(k, i, each, context, err);
    }
    for (int w = 0; w < 2 && !rc; w++)
        rc = free_buffer(k, &v[w], err);
    for (int w = 0; w < 2 && !rc; w++)
        rc = free_buffer(k, &k->text[w], err);
    for (int w = 0; w < 2 && !rc; w++)
        rc = free_buffer(k, &k->kept[w], err);
    return rc ? rc : klein_end(k, FLUX2_DIT, err);
}

// ---- the image

static bool all_finite(enum dtype type, const void *values, size_t n)
{
    bool finite = true;
    for (size_t i = 0; i < n && finite && type == DT_F32; i++)
        finite = isfinite(((const float *)values)[i]);
    for (size_t i = 0; i < n && finite && type == DT_F64; i++)
        finite = isfinite(((const double *)values)[i]);
    return finite;
}

int klein_decode(struct klein *k, void *images, const struct progress *progress, struct error *err)
{
    static const char *const names[] = {"image"};
    struct stage *s = &k->stages[KLEIN_DECODE];
    int image = -1, rc = klein_begin(k, FLUX2_AUTOENCODER, progress, err);
    reset_runs(k, KLEIN_DECODE);
    progress_report(progress, "image decoder", 0, 0);
    if (!rc)
        rc = stage_set(s, "latent", k->latents, err);
    if (!rc)
        rc = run(k, KLEIN_DECODE, 1, names, (int *const[]){&image}, err);
    if (!rc)
        rc = stage_download(s, 0, image, images, err);
    if (!rc && !all_finite(k->image, images, (size_t)(k->batch * k->height * k->width * 3)))
        rc = error_set(err, ERR_DEVICE, k->weights.name,
                       "the image decoder's output has values that are infinite or no numbers");
    if (!rc)
        rc = free_buffer(k, &image, err);
    return rc ? rc : klein_end(k, FLUX2_AUTOENCODER, err);
}
