// SPDX-License-Identifier: Apache-2.0
// flux2 KIND PIXELS POLICY FOLDER INPUTS OUTPUT   the side of bench/flux2 that is ours: a part of the pipeline (step,
// text, decoder) or all of it (image), loaded and kept. INPUTS holds what is needed of context.f32, ids.i32, mask.i32,
// noise.f32 and latent.f32. It says what it runs with; for every number N on stdin it runs N times and prints the
// seconds of each and the peak resident bytes of the worker. OUTPUT is the result of the first run, f32.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "lab/klein.h"
#include "num/convert.h"

struct bench {
    const char *inputs, *output;
    enum flux2_component component; // FLUX2_COMPONENTS: all
    struct klein klein;
    int32_t *ids, *mask;
    float *noise, *image;
    size_t values; // of the result
    bool told;
};

// N elements of 4 bytes from INPUTS/name.
static int read_input(const struct bench *b, const char *name, size_t n, void *out, struct error *err)
{
    char path[1024];
    struct str text;
    str_init(&text);
    snprintf(path, sizeof path, "%s/%s", b->inputs, name);
    int rc = file_read(&text, path, 4 * n, err);
    if (!rc && text.length != 4 * n)
        rc = error_set(err, ERR_INPUT, path, "has %zu bytes, not %zu", text.length, 4 * n);
    if (!rc)
        memcpy(out, str_text(&text), 4 * n);
    str_release(&text);
    return rc;
}

static int write_output(const struct bench *b, const float *values, size_t n, struct error *err)
{
    FILE *f = fopen(b->output, "wb");
    bool ok = f && fwrite(values, sizeof *values, n, f) == n;
    if ((f && fclose(f)) || !ok)
        return error_set(err, ERR_IO, b->output, "cannot be written");
    return 0;
}

// A file's f32 into a buffer of `shape`, in its type.
static int upload(struct bench *b, const char *name, const struct shape *shape, int *buffer, struct error *err)
{
    size_t n = (size_t)shape_elements(shape);
    struct worker_tensor t = {.fd = -1, .shape = device_module_wire_shape(shape), .name = name};
    float *raw = malloc(4 * n);
    void *typed = malloc((size_t)shape_bytes(shape));
    int rc = raw && typed ? read_input(b, name, n, raw, err) : error_set(err, ERR_MEMORY, name, "no memory");
    if (!rc)
        rc = convert_elements(shape->dtype, typed, DT_F32, raw, n, err);
    if (!rc)
        rc = worker_upload_bytes(b->klein.worker, typed, (size_t)shape_bytes(shape), &t, buffer, NULL, err);
    free(typed);
    free(raw);
    return rc;
}

// The shape of the input of a part that is compiled.
static const struct shape *input_shape(const struct klein *k, enum klein_part part, const char *name)
{
    const struct module *m = k->stages[part].module;
    for (int i = 0; i < m->n_parameters; i++) {
        if (m->parameters[i].role == ROLE_INPUT && strcmp(m->parameters[i].name, name) == 0)
            return device_module_parameter(m, i);
    }
    return NULL;
}

static int open_inputs(struct bench *b, struct error *err)
{
    struct klein *k = &b->klein;
    size_t text = (size_t)k->weights.config.text_tokens;
    size_t latents = (size_t)(k->rows * k->columns * k->weights.config.dit.channels);
    size_t pixels = (size_t)(3 * k->height * k->width);
    bool all = b->component == FLUX2_COMPONENTS, step = b->component == FLUX2_DIT;
    b->ids = calloc(2 * text, sizeof *b->ids);
    b->mask = calloc(2 * text, sizeof *b->mask);
    b->noise = calloc(latents, sizeof *b->noise);
    b->image = calloc(pixels, sizeof *b->image);
    int rc = b->ids && b->mask && b->noise && b->image ? 0 : error_set(err, ERR_MEMORY, NULL, "no memory");
    if (!rc && (all || b->component == FLUX2_TEXT_ENCODER)) {
        rc = read_input(b, "ids.i32", text, b->ids, err);
        rc = rc ? rc : read_input(b, "mask.i32", text, b->mask, err);
    }
    if (!rc && (all || step))
        rc = read_input(b, "noise.f32", latents, b->noise, err);
    if (!rc && step)
        rc = upload(b, "context.f32", input_shape(k, KLEIN_PREPARE, "context"), &k->context[0], err);
    if (!rc && b->component == FLUX2_AUTOENCODER)
        rc = upload(b, "latent.f32", input_shape(k, KLEIN_DECODE, "latent"), &k->latents, err);
    b->values = step                                 ? latents
                : b->component == FLUX2_TEXT_ENCODER ? text * (size_t)k->weights.config.dit.joint
                                                     : pixels;
    return rc;
}

// A step from sigma 1 to 0 takes the whole velocity from the noise.
static int write_velocity(void *context, int64_t step, const void *latents, struct error *err)
{
    struct bench *b = context;
    const float *after = latents;
    float *v = malloc(b->values * sizeof *v);
    if (!v || step)
        return error_set(err, ERR_INTERNAL, NULL, "a second step, or no memory");
    for (size_t i = 0; i < b->values; i++)
        v[i] = b->noise[i] - after[i];
    int rc = write_output(b, v, b->values, err);
    free(v);
    return rc;
}

static int write_context(struct bench *b, struct error *err)
{
    struct stage *s = &b->klein.stages[KLEIN_TEXT];
    const struct shape *shape = stage_result(s, 0);
    void *raw = malloc((size_t)shape_bytes(shape));
    float *values = malloc(b->values * sizeof *values);
    int rc = raw && values ? stage_download(s, 0, b->klein.context[0], raw, err)
                           : error_set(err, ERR_MEMORY, NULL, "no memory");
    if (!rc)
        rc = convert_elements(DT_F32, values, shape->dtype, raw, b->values, err);
    if (!rc)
        rc = write_output(b, values, b->values, err);
    free(values);
    free(raw);
    return rc;
}

// One run, and its seconds. What is written of the first is written outside of them, but for a step's.
static int run(struct bench *b, double *seconds, struct error *err)
{
    struct klein *k = &b->klein;
    bool all = b->component == FLUX2_COMPONENTS, step = b->component == FLUX2_DIT;
    uint64_t start = clock_ns();
    int rc = all || b->component == FLUX2_TEXT_ENCODER ? klein_text(k, b->ids, b->mask, NULL, err) : 0;
    if (!rc && (all || step))
        rc = klein_denoise(k, b->noise, step && !b->told ? write_velocity : NULL, b, NULL, err);
    if (!rc && (all || b->component == FLUX2_AUTOENCODER))
        rc = klein_decode(k, b->image, NULL, err);
    *seconds = (double)(clock_ns() - start) * 1e-9;
    if (!rc && !b->told && !step)
        rc = b->component == FLUX2_TEXT_ENCODER ? write_context(b, err) : write_output(b, b->image, b->values, err);
    b->told = true;
    return rc;
}

static int open_pipeline(struct bench *b, char **argv, struct error *err)
{
    static const char *const kinds[FLUX2_COMPONENTS + 1] = {[FLUX2_TEXT_ENCODER] = "text",
                                                            [FLUX2_DIT] = "step",
                                                            [FLUX2_AUTOENCODER] = "decoder",
                                                            [FLUX2_COMPONENTS] = "image"};
    uint64_t pixels = 0;
    int kind = 0;
    while (kind <= FLUX2_COMPONENTS && strcmp(kinds[kind], argv[1]) != 0)
        kind++;
    if (kind > FLUX2_COMPONENTS || !parse_u64(argv[2], &pixels))
        return error_set(err, ERR_USAGE, argv[1], "is no part, or %s no number", argv[2]);
    b->component = (enum flux2_component)kind;
    b->inputs = argv[5];
    b->output = argv[6];
    struct klein_options o = {
        .weights = {.weights = argv[4]},
        .worker = {.kernels = true, .threads = 2, .compile_timeout_s = 1800, .run_timeout_s = 3600},
        .policy = argv[3],
        // A part by itself is compiled and loaded when it begins, and then stays.
        .serving = kind == FLUX2_COMPONENTS ? KLEIN_RESIDENT : KLEIN_COLD,
        .sampler = kind == FLUX2_DIT ? FLUX2_EXACT : FLUX2_DIFFUSERS,
        .height = (int64_t)pixels,
        .width = (int64_t)pixels,
        .steps = kind == FLUX2_DIT ? 1 : 0,
        .guidance = NAN,
        .memory_bytes = INT64_MAX, // weights that both sides share are not free, and needed once
    };
    int rc = klein_open(&b->klein, &o, NULL, err);
    if (!rc && kind != FLUX2_COMPONENTS)
        rc = klein_begin(&b->klein, b->component, NULL, err);
    b->klein.serving = KLEIN_RESIDENT;
    return rc ? rc : open_inputs(b, err);
}

// What it runs with, on a line.
static void tell(const struct klein *k)
{
    uint64_t compile = 0, load = 0;
    int64_t shared = 0, copied = 0;
    for (int p = 0; p < KLEIN_PARTS; p++) {
        compile += k->figures[p].compile_ns;
        load += k->figures[p].load_ns;
        shared += k->figures[p].zero_copy_bytes;
        copied += k->figures[p].copied_bytes;
    }
    printf("compiled in %.1f s, loaded in %.1f s (%.2f GB in place, %.2f GB made)", (double)compile * 1e-9,
           (double)load * 1e-9, (double)shared * 1e-9, (double)copied * 1e-9);
    for (int i = 0; i < KERNEL_KINDS; i++) {
        int n = 0;
        for (int p = 0; p < KLEIN_PARTS; p++)
            n += k->stages[p].compiled ? k->stages[p].kernels.count[i] : 0;
        if (n)
            printf(", %d %s", n, kernel_name((enum kernel_kind)i));
    }
    printf("\n");
    fflush(stdout);
}

static int answer(struct bench *b, struct error *err)
{
    char line[32];
    int rc = 0;
    while (!rc && fgets(line, sizeof line, stdin)) {
        uint64_t n = 0;
        line[strcspn(line, "\n")] = '\0';
        if (!parse_u64(line, &n))
            return error_set(err, ERR_USAGE, line, "is no number");
        for (uint64_t i = 0; i < n && !rc; i++) {
            double seconds;
            rc = run(b, &seconds, err);
            printf("%.6f ", seconds);
        }
        struct worker_memory m;
        if (!rc)
            rc = worker_memory(b->klein.worker, &m, err);
        if (!rc)
            printf("%llu\n", (unsigned long long)m.peak_rss_bytes);
        fflush(stdout);
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    struct error err = {0};
    if (argc != 7) {
        fprintf(stderr, "usage: flux2 KIND PIXELS POLICY FOLDER INPUTS OUTPUT\n");
        return 2;
    }
    int rc = open_pipeline(&b, argv, &err);
    if (!rc)
        tell(&b.klein);
    if (!rc)
        rc = answer(&b, &err);
    if (rc)
        fprintf(stderr, "flux2: %s: %s\n", err.where, err.message);
    klein_close(&b.klein);
    free(b.ids);
    free(b.mask);
    free(b.noise);
    free(b.image);
    return rc ? 1 : 0;
}
