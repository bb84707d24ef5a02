// SPDX-License-Identifier: Apache-2.0
#include "lab/image_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "io/image.h"
#include "lab/image_part.h"
#include "num/convert.h"

const char *image_run_random(const struct image_run *r)
{
    return r->random ? r->options->klein.weights.weights : NULL;
}

// ---- what is looked at first

// It must be possible to create the files: minutes later it is too late to say so.
static int check_output(struct image_run *r, struct error *err)
{
    const char *given = r->options->output, *path = given;
    size_t n = strlen(given);
    if (n < 5 || strcasecmp(given + n - 4, ".png") != 0)
        return error_set(err, ERR_USAGE, "-o", "'%s' does not end in .png, and no other format is written", given);
    if (dir_exists(given))
        return error_set(err, ERR_USAGE, "-o", "'%s' is a folder", given);
    int64_t batch = r->options->klein.batch ? r->options->klein.batch : 1;
    for (int64_t i = 0; i < batch && i < KLEIN_MAX_BATCH; i++) {
        r->paths[i] =
            batch == 1 ? given
                       : arena_printf(&r->arena, err, "%.*s-%" PRId64 "%s", (int)(n - 4), given, i + 1, given + n - 4);
        if (!r->paths[i])
            return ERR_MEMORY;
        path = r->paths[i];
    }
    return file_can_be_written(path, err); // the last, whose name is the longest
}

static int read_reference(struct image_run *r, int i, struct error *err)
{
    struct klein_options *k = &r->pipeline;
    const char *path = r->options->references[i];
    struct image file = {0}, ready = {0};
    uint32_t most = k->sampler == FLUX2_BFL && r->options->n_references == 1 ? IMAGE_REFERENCE_SINGLE_PIXELS
                                                                             : IMAGE_REFERENCE_PIXELS;
    int rc = image_read(&file, path, NULL, err);
    if (rc)
        return rc;
    r->sizes[i][0] = file.height;
    r->sizes[i][1] = file.width;
    rc = image_reference(&ready, &file, most, path, err);
    if (!rc) {
        k->references[i][0] = ready.height;
        k->references[i][1] = ready.width;
        r->pixels[i] = malloc((size_t)ready.height * ready.width * 3 * sizeof(float));
        if (r->pixels[i])
            image_to_numbers(&ready, r->pixels[i]);
        else
            rc = error_set(err, ERR_MEMORY, path, "no memory for its pixels");
    }
    image_release(&ready);
    image_release(&file);
    return rc;
}

// The tokens of the prompt, by the tokenizer that lies with the weights. Headers are read here and again by the
// pipeline, so that a prompt or a tokenizer that is wrong is found before programs are compiled.
static int read_prompt(struct image_run *r, struct error *err)
{
    const struct image_options *o = r->options;
    struct klein_weights w;
    int rc = klein_weights_open(&w, &o->klein.weights, err);
    size_t tokens = rc ? 0 : (size_t)w.config.text_tokens;
    r->max_tokens = (int64_t)tokens;
    r->random = !rc && klein_weights_are_random(&w);
    if (!rc) {
        r->ids = arena_new(&r->arena, int32_t, 2 * tokens, err);
        r->mask = arena_new(&r->arena, int32_t, 2 * tokens, err);
        r->tokenizer = w.tokenizer ? arena_strdup(&r->arena, w.tokenizer, err) : NULL;
        rc = r->ids && r->mask && (r->tokenizer || !w.tokenizer) ? 0 : ERR_MEMORY;
    }
    if (!rc)
        rc = image_prompt_encode(r->tokenizer, &w.config, o->prompt, r->ids, r->mask, &r->prompt, &r->cut, err);
    klein_weights_close(&w);
    return rc;
}

// ---- noise and levels

static float through_bf16(float x)
{
    uint16_t bits;
    convert_elements(DT_BF16, &bits, DT_F32, &x, 1, NULL);
    convert_elements(DT_F32, &x, DT_BF16, &bits, 1, NULL);
    return x;
}

int image_noise(const struct klein *k, enum noise_kind kind, uint64_t seed, void **out, struct error *err)
{
    size_t channels = (size_t)k->weights.config.dit.channels;
    size_t n = (size_t)(k->batch * k->rows * k->columns) * channels;
    float *noise = malloc(n * sizeof *noise);
    *out = malloc(n * sizeof(double));
    int rc = noise && *out ? 0 : error_set(err, ERR_MEMORY, NULL, "no memory for %zu numbers", n);
    if (!rc)
        rc = noise_tokens(kind, seed, (size_t)k->batch, channels, (size_t)k->rows, (size_t)k->columns, noise, err);
    for (size_t i = 0; i < n && !rc && klein_rounds_to_bf16(k); i++)
        noise[i] = through_bf16(noise[i]);
    if (!rc)
        rc = convert_elements(k->latent, *out, DT_F32, noise, n, err);
    free(noise);
    return rc;
}

static int write_one(struct image_run *r, int64_t i, const float *numbers, struct error *err)
{
    struct klein *k = &r->klein;
    struct image m;
    struct str text;
    int rc = image_new(&m, (uint32_t)k->width, (uint32_t)k->height, err);
    if (rc)
        return rc;
    image_from_numbers(&m, numbers, k->sampler == FLUX2_BFL ? IMAGE_TRUNCATE : IMAGE_ROUND);
    str_init(&text);
    image_parameters(r, i, &text);
    rc = str_check(&text, err);
    struct image_text texts[] = {{"parameters", str_text(&text)},
                                 {"Software", "assay " ASSAY_VERSION},
                                 {"Warning", "made with random weights, which show nothing: for benchmarks and tests"}};
    if (!rc)
        rc = image_write_png(&m, r->paths[i], texts, image_run_random(r) ? 3 : 2, err);
    str_release(&text);
    image_release(&m);
    return rc;
}

static int finish(struct image_run *r, const struct progress *progress, struct error *err)
{
    struct klein *k = &r->klein;
    size_t one = (size_t)(k->height * k->width * 3), n = one * (size_t)k->batch;
    void *raw = malloc(n * sizeof(double));
    float *numbers = malloc(n * sizeof *numbers);
    int rc = raw && numbers ? 0 : error_set(err, ERR_MEMORY, NULL, "no memory for the images");
    if (!rc)
        rc = klein_decode(k, raw, progress, err);
    if (!rc)
        rc = convert_elements(DT_F32, numbers, k->image, raw, n, err);
    for (int64_t i = 0; i < k->batch && !rc; i++)
        rc = write_one(r, i, numbers + (size_t)i * one, err);
    free(raw);
    free(numbers);
    return rc;
}

int image_run_open(struct image_run *r, const struct image_options *o, struct error *err)
{
    memset(r, 0, sizeof *r);
    arena_init(&r->arena);
    str_init(&r->cut);
    r->start_ns = clock_ns();
    r->options = o;
    r->pipeline = o->klein;
    r->pipeline.n_references = (int)o->n_references;
    int rc = check_output(r, err);
    int64_t ignored[2];
    struct policy policy;
    if (!rc)
        rc = policy_parse(&policy, o->klein.policy, err);
    if (!rc)
        rc = flux2_tokens(o->klein.height, o->klein.width, &ignored[0], &ignored[1], err);
    if (!rc && o->n_references > KLEIN_MAX_REFERENCES)
        rc = error_set(err, ERR_USAGE, "--reference", "at most %d images are taken, not %zu", KLEIN_MAX_REFERENCES,
                       o->n_references);
    if (!rc)
        rc = read_prompt(r, err);
    for (size_t i = 0; i < o->n_references && !rc; i++)
        rc = read_reference(r, (int)i, err);
    return rc;
}

int image_run_draw(struct image_run *r, const struct progress *progress, struct error *err)
{
    struct klein *k = &r->klein;
    void *noise = NULL;
    r->opened = true;
    int rc = klein_open(k, &r->pipeline, progress, err);
    if (!rc)
        rc = klein_text(k, r->ids, r->mask, progress, err);
    if (!rc && k->n_references)
        rc = klein_encode(k, (const float *const *)r->pixels, progress, err);
    if (!rc)
        rc = image_noise(k, r->options->noise, r->options->seed, &noise, err);
    if (!rc)
        rc = klein_denoise(k, noise, NULL, NULL, progress, err);
    free(noise);
    if (!rc)
        rc = finish(r, progress, err);
    struct worker_memory m;
    struct error ignored = {0};
    if (!rc && worker_memory(k->worker, &m, &ignored) == 0)
        r->peak_bytes = m.peak_rss_bytes;
    r->total_s = (double)(clock_ns() - r->start_ns) * 1e-9;
    return rc;
}

void image_run_release(struct image_run *r)
{
    if (r->opened)
        klein_close(&r->klein);
    for (int i = 0; i < KLEIN_MAX_REFERENCES; i++)
        free(r->pixels[i]);
    str_release(&r->cut);
    arena_release(&r->arena);
    r->opened = false;
}
