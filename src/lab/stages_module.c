// SPDX-License-Identifier: Apache-2.0
// Each module by itself, on inputs that follow from the seed alone, beside its floors.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/stages_part.h"

static const char *const names[STAGES_MODULES] = {"text encoder",           "preparation",
                                                  "transformer step",       "all steps, one by one",
                                                  "all steps, one program", "image decoder"};
static const char *const verdicts[] = {"not predicted", "within the band", "faster than the floor", "slower"};

const char *stages_module_name(enum stages_module_kind m)
{
    return names[m];
}

const char *stages_verdict_name(enum stages_verdict v)
{
    return verdicts[v];
}

static int floors_of(struct stages *s, const struct cost_row *rows, int n, const struct chip *chip,
                     struct whole_floor *out, const char *why, struct error *err)
{
    if (chip)
        return roofline_whole(rows, n, chip, &s->arena, out, err);
    for (int i = 0; i < WHOLES; i++)
        out->time[i] = quantity_make(NAN, "us", ORIGIN_DERIVED, why);
    return 0;
}

enum stages_verdict stages_verdict_of(double measured_us, double floor_us, double predicted_us)
{
    if (isnan(predicted_us))
        return STAGES_NOT_PREDICTED;
    if (measured_us < 0.9 * floor_us)
        return STAGES_TOO_FAST;
    return measured_us > STAGES_BAND * predicted_us ? STAGES_SLOWER : STAGES_WITHIN;
}

int stages_price(struct stages *s, const struct module *m, double times, struct stages_price *out, struct error *err)
{
    struct cost_row *rows;
    struct cost total;
    int n, rc = cost_groups(m, &s->arena, &rows, &n, &total, err);
    for (int i = 0; i < n && !rc; i++)
        cost_scale(&rows[i].cost, times);
    if (!rc)
        rc = floors_of(s, rows, n, s->chip_is_local ? NULL : s->chip, &out->sheet, "there is no data sheet of it", err);
    if (!rc)
        rc = floors_of(s, rows, n, s->calibrated, &out->calibrated, "needs the stage calib", err);
    if (rc)
        return rc;
    out->product_flop = cost_product_flop(&total) * times;
    out->bytes = total.bytes * times;
    return 0;
}

int stages_judge(struct stages *s, enum stages_module_kind kind, const struct module *m, double times,
                 struct error *err)
{
    struct stages_module *t = &s->modules[kind];
    int rc = stages_price(s, m, times, &t->price, err);
    if (rc)
        return rc;
    const struct quantity *floor = t->price.calibrated.time;
    double us = t->time.ms.p50 * 1e3, predicted = floor[WHOLE_ROWS_MERGED].value;
    t->ratio = us / predicted;
    t->verdict = stages_verdict_of(us, floor[WHOLE_SINGLE_MERGED].value, predicted);
    t->done = true;
    return 0;
}

static void add_floor(struct whole_floor *to, const struct whole_floor *more)
{
    for (int i = 0; i < WHOLES; i++) {
        double sum = to->time[i].value + more->time[i].value;
        to->time[i] = more->time[i];
        to->time[i].value = sum;
    }
}

int stages_price_request(struct stages *s, struct stages_price *out, struct error *err)
{
    static const enum klein_part parts[] = {KLEIN_TEXT, KLEIN_PREPARE, KLEIN_STEP, KLEIN_DECODE};
    const struct klein *k = &s->klein;
    int rc = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !rc; i++) {
        struct stages_price p;
        double runs = parts[i] == KLEIN_DECODE ? 1 : k->guided ? 2 : 1;
        runs *= parts[i] == KLEIN_STEP ? (double)k->schedule.steps : 1;
        rc = stages_price(s, &k->modules[parts[i]], runs, &p, err);
        if (rc)
            break;
        out->product_flop += p.product_flop;
        out->bytes += p.bytes;
        add_floor(&out->sheet, &p.sheet);
        add_floor(&out->calibrated, &p.calibrated);
    }
    return rc;
}

// What was paid before the first run. Programs of a resident pipeline have run in its requests already.
static void note_costs(struct stages *s, enum stages_module_kind kind, const enum klein_part *parts, int n)
{
    struct stages_module *t = &s->modules[kind];
    for (int i = 0; i < n; i++) {
        const struct klein_figures *f = &s->klein.figures[parts[i]];
        t->compile_ns += f->compile_ns;
        t->load_ns += f->load_ns;
        t->rolled.loops += f->rolled.loops;
        t->rolled.layers += f->rolled.layers;
    }
    t->time.ran_before = s->serving[STAGES_RESIDENT].done || s->serving[STAGES_STAGED].done;
}

// One more run, whose first result is kept.
static int keep_result(struct stages *s, enum stages_module_kind kind, struct stage *g, struct error *err)
{
    int outputs[8], rc = g->module->n_results <= 8 ? stage_run(g, outputs, err)
                                                   : error_set(err, ERR_INTERNAL, g->name, "has too many results");
    if (!rc)
        rc = stages_keep_buffer(s, names[kind], stage_result(g, 0), outputs[0], err);
    for (int i = 0; i < g->module->n_results && !rc; i++)
        rc = worker_free(s->klein.worker, outputs[i], err);
    return rc;
}

static int time_part(struct stages *s, enum stages_module_kind kind, enum klein_part part, double calls,
                     const struct progress *progress, struct error *err)
{
    struct stage *g = &s->klein.stages[part];
    struct stages_program p = {s->klein.worker, &g->program, g->args, g->n_args};
    s->modules[kind].calls = calls;
    note_costs(s, kind, &part, 1);
    int rc = stages_time(s, &s->modules[kind].time, &p, names[kind], progress, err);
    if (!rc)
        rc = keep_result(s, kind, g, err);
    return rc ? rc : stages_judge(s, kind, g->module, 1, err);
}

int stages_upload(struct stages *s, const void *bytes, const struct shape *shape, int *buffer, struct error *err)
{
    struct worker_tensor t = {.fd = -1, .shape = device_module_wire_shape(shape), .name = "input"};
    return worker_upload_bytes(s->klein.worker, bytes, (size_t)shape_bytes(shape), &t, buffer, NULL, err);
}

static int upload_random(struct stages *s, uint64_t more, const struct shape *shape, int *buffer, struct error *err)
{
    void *bytes = NULL;
    int rc = stages_random(s->options->seed + more, shape, &bytes, err);
    int old = *buffer;
    if (!rc && old >= 0)
        rc = worker_free(s->klein.worker, old, err);
    *buffer = -1;
    if (!rc)
        rc = stages_upload(s, bytes, shape, buffer, err);
    free(bytes);
    return rc;
}

static const struct shape *stage_input_named(const struct stage *g, const char *name)
{
    int i = 0;
    while (strcmp(g->module->parameters[i].name, name) != 0)
        i++;
    return stage_input_shape(g, i);
}

static int run_text(struct stages *s, const struct progress *progress, struct error *err)
{
    struct klein *k = &s->klein;
    struct stage *g = &k->stages[KLEIN_TEXT];
    int rc = klein_begin(k, FLUX2_TEXT_ENCODER, progress, err);
    if (!rc)
        rc = stage_upload(g, "input_ids", s->ids, err);
    if (!rc)
        rc = stage_upload(g, "attention_mask", s->mask, err);
    if (!rc)
        rc = time_part(s, STAGES_M_TEXT, KLEIN_TEXT, k->guided ? 2 : 1, progress, err);
    return rc ? rc : klein_end(k, FLUX2_TEXT_ENCODER, err);
}

struct stepping {
    struct stages *s;
    void *noise;
    int v[2];
};

// All steps as a request runs them, from noise that is on the device.
static int all_steps(void *context, double *ns, struct error *err)
{
    struct stepping *t = context;
    struct klein *k = &t->s->klein;
    int rc = klein_start(k, t->noise, err);
    uint64_t start = clock_ns();
    for (int64_t i = 0; i < k->schedule.steps && !rc; i++)
        rc = klein_step(k, i, t->v, err);
    *ns = (double)(clock_ns() - start);
    return rc;
}

// One step, then all of them: the first run of the program is the step's.
static int time_steps(struct stages *s, struct stepping *t, int passes, const struct progress *progress,
                      struct error *err)
{
    static const enum klein_part parts[] = {KLEIN_STEP, KLEIN_UPDATE};
    struct stages_module *all = &s->modules[STAGES_M_STEPWISE];
    struct klein *k = &s->klein;
    struct stage *g = &k->stages[KLEIN_STEP];
    double runs = (double)k->schedule.steps * passes;
    int rc = image_noise(k, NOISE_TORCH, s->options->seed, &t->noise, err);
    if (!rc)
        rc = klein_start(k, t->noise, err);
    if (!rc)
        rc = stage_set(g, "latent", k->latents, err);
    if (!rc)
        rc = stage_set(g, "step", k->scalars[0][0], err);
    if (!rc)
        rc = stage_set(g, "text", k->text[0], err);
    if (!rc)
        rc = time_part(s, STAGES_M_STEP, KLEIN_STEP, runs, progress, err);
    all->calls = 1;
    note_costs(s, STAGES_M_STEPWISE, parts, 2);
    all->time.ran_before = true;
    if (!rc)
        rc = stages_sample(s, &all->time, s->options->samples, true, all_steps, t, names[STAGES_M_STEPWISE], progress,
                           err);
    if (!rc)
        rc = stages_keep_buffer(s, names[STAGES_M_STEPWISE], stage_input_named(g, "latent"), k->latents, err);
    if (!rc)
        rc = stages_judge(s, STAGES_M_STEPWISE, g->module, runs, err);
    return rc ? rc : stages_run_loop(s, t->noise, progress, err);
}

static int run_dit(struct stages *s, const struct progress *progress, struct error *err)
{
    struct klein *k = &s->klein;
    struct stage *g = &k->stages[KLEIN_PREPARE];
    struct stepping t = {.s = s, .v = {-1, -1}};
    int passes = k->guided ? 2 : 1, rc = klein_begin(k, FLUX2_DIT, progress, err);
    for (int w = 0; w < passes && !rc; w++)
        rc = upload_random(s, 16 + (uint64_t)w, stage_input_named(g, "context"), &k->context[w], err);
    if (!rc)
        rc = stage_set(g, "context", k->context[0], err);
    if (!rc)
        rc = time_part(s, STAGES_M_PREPARE, KLEIN_PREPARE, passes, progress, err);
    for (int w = 0; w < passes && !rc; w++)
        rc = klein_prepare(k, w, err);
    if (!rc)
        rc = time_steps(s, &t, passes, progress, err);
    for (int w = 0; w < passes && !rc; w++) {
        rc = worker_free(k->worker, t.v[w], err);
        if (!rc)
            rc = worker_free(k->worker, k->text[w], err);
        k->text[w] = -1;
    }
    free(t.noise);
    return rc ? rc : klein_end(k, FLUX2_DIT, err);
}

static int run_vae(struct stages *s, const struct progress *progress, struct error *err)
{
    struct klein *k = &s->klein;
    struct stage *g = &k->stages[KLEIN_DECODE];
    int rc = klein_begin(k, FLUX2_AUTOENCODER, progress, err);
    if (!rc)
        rc = upload_random(s, 32, stage_input_named(g, "latent"), &k->latents, err);
    if (!rc)
        rc = stage_set(g, "latent", k->latents, err);
    if (!rc)
        rc = time_part(s, STAGES_M_VAE, KLEIN_DECODE, 1, progress, err);
    return rc ? rc : klein_end(k, FLUX2_AUTOENCODER, err);
}

int stages_run_modules(struct stages *s, const struct progress *progress, struct error *err)
{
    const bool *wanted = s->options->wanted;
    // One component at a time, unless all are there already.
    int rc = stages_open(s, wanted[STAGES_RESIDENT] ? KLEIN_RESIDENT : KLEIN_STAGED, true, progress, err);
    if (!rc && wanted[STAGES_TEXT])
        rc = run_text(s, progress, err);
    if (!rc && wanted[STAGES_DIT])
        rc = run_dit(s, progress, err);
    if (!rc && wanted[STAGES_VAE])
        rc = run_vae(s, progress, err);
    if (!rc)
        stages_see_kernels(s);
    return rc;
}
