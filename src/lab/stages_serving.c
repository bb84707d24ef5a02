// SPDX-License-Identifier: Apache-2.0
// Requests as they are served: cold, staged, resident.
#include <math.h>
#include <stdlib.h>

#include "base/stats.h"
#include "lab/stages_part.h"

struct serving {
    struct stages *s;
    struct stages_serving *to;
    void *noise, *image;
    size_t samples;
    const struct progress *progress;
};

static void add_up(struct serving *v)
{
    const struct stages *s = v->s;
    struct stages_serving *t = v->to;
    uint64_t inside = 0, load_ns = 0;
    t->compile_ns = t->make_ns = 0;
    t->mapped_bytes = t->copied_bytes = 0;
    for (int i = 0; i < KLEIN_PARTS; i++) {
        const struct klein_figures *f = &s->klein.figures[i];
        t->compile_ns += f->compile_ns;
        t->make_ns += f->make_ns;
        load_ns += f->load_ns;
        inside += f->run_ns;
        t->mapped_bytes += f->zero_copy_bytes;
        t->copied_bytes += f->copied_bytes;
    }
    t->staging_s = (double)load_ns * 1e-9;
    t->inside_ns[t->request.n] = (double)inside; // before the samples: overwritten by the first of them
}

// From the tokens to the image on the host. Random weights that are made meanwhile are no part of it.
static int request(void *context, double *ns, struct error *err)
{
    struct serving *v = context;
    struct klein *k = &v->s->klein;
    uint64_t start = clock_ns();
    int rc = klein_text(k, v->s->ids, v->s->mask, v->progress, err);
    if (!rc)
        rc = klein_denoise(k, v->noise, NULL, NULL, v->progress, err);
    if (!rc)
        rc = klein_decode(k, v->image, v->progress, err);
    *ns = (double)(clock_ns() - start);
    if (rc)
        return rc;
    stages_see_kernels(v->s);
    if (v->to->request.n == v->samples) // a traced one, behind them: its times are nobody's
        return 0;
    add_up(v);
    if (k->serving != KLEIN_RESIDENT)
        *ns -= (double)v->to->make_ns;
    return 0;
}

static int64_t known_buffers(const struct klein *k)
{
    int64_t bytes = 0;
    for (int p = 0; p < KLEIN_PARTS; p++) {
        const struct stage *s = &k->stages[p];
        for (int i = 0; s->compiled && i < s->module->n_parameters; i++) {
            if (s->module->parameters[i].role == ROLE_INPUT && s->args[i] >= 0 && s->owned[i])
                bytes += shape_bytes(stage_input_shape(s, i));
        }
    }
    return bytes;
}

static int64_t loaded_bytes(const struct klein *k)
{
    int64_t bytes = 0;
    for (int p = 0; p < KLEIN_PARTS; p++) {
        const struct stage *s = &k->stages[p];
        if (s->compiled && s->loaded)
            bytes += s->weights.zero_copy_bytes + s->weights.copied_bytes;
    }
    return bytes;
}

static int finish(struct stages *s, struct stages_serving *to, struct error *err)
{
    size_t n = to->request.n;
    double *scratch = arena_new(&s->arena, double, 2 * n, err);
    if (!scratch)
        return ERR_MEMORY;
    for (size_t i = 0; i < n; i++)
        scratch[i] = to->request.ns[i] - to->inside_ns[i];
    to->outside_p50_ms = stats_median(scratch, n, scratch + n) * 1e-6;
    to->inside_p50_ms = stats_median(to->inside_ns, n, scratch + n) * 1e-6;
    to->items_per_s = (double)s->batch / (to->request.ms.p50 / 1e3);
    to->weight_bytes = loaded_bytes(&s->klein);
    to->known_bytes = known_buffers(&s->klein);
    to->done = true;
    int rc = stages_price_request(s, &to->price, err);
    return rc ? rc : worker_memory(s->klein.worker, &to->memory, err);
}

int stages_run_serving(struct stages *s, enum stages_kind kind, const struct progress *progress, struct error *err)
{
    static const enum klein_serving shapes[] = {KLEIN_COLD, KLEIN_STAGED, KLEIN_RESIDENT};
    struct stages_serving *to = &s->serving[kind];
    struct serving v = {.s = s, .to = to, .progress = progress};
    bool resident = kind == STAGES_RESIDENT;
    int64_t samples = resident ? s->options->samples : s->options->requests;
    v.samples = (size_t)samples;
    int rc = stages_look_at_files(s, kind == STAGES_COLD, &to->before, err);
    if (!rc)
        rc = stages_open(s, shapes[kind], false, progress, err);
    struct klein *k = &s->klein;
    to->inside_ns = rc ? NULL : arena_new(&s->arena, double, (size_t)samples, err);
    if (!rc && !to->inside_ns)
        rc = ERR_MEMORY;
    if (!rc)
        rc = image_noise(k, NOISE_TORCH, s->options->seed, &v.noise, err);
    v.image = rc ? NULL : malloc((size_t)(k->batch * k->height * k->width * 3) * sizeof(double));
    if (!rc && !v.image)
        rc = error_set(err, ERR_MEMORY, NULL, "no memory for the image");
    if (!rc)
        rc = stages_sample(s, &to->request, samples, resident, request, &v, stages_kind_name(kind), progress, err);
    const struct shape image = SHAPE(k->image, k->batch, k->height, k->width, 3);
    if (!rc && resident)
        rc = stages_keep(s, STAGES_REQUEST, &image, v.image, err);
    if (!rc)
        rc = finish(s, to, err);
    free(v.noise);
    free(v.image);
    return rc;
}
